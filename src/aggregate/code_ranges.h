/* SPDX-License-Identifier: Apache-2.0
 *
 * code_ranges.h - local stages that code: their steps, cut in whole blocks and shared by the hands
 * of the platform.
 *
 * Layer:   aggregate, private.
 * Threads: the machine's; ranges of one step are done by several.
 * Memory:  none.
 */
#ifndef TUTTI_AGGREGATE_CODE_RANGES_H
#define TUTTI_AGGREGATE_CODE_RANGES_H

#include "aggregate/exec.h"

/* Elements of the stage's vector: whole blocks, unless they are its last. */
typedef struct tt_range {
    uint64_t first;
    size_t count;
} tt_range;

/* What the ranges of one hand found out. */
typedef struct tt_range_finding {
    uint64_t uncoded; /* elements that could not be coded */
    uint32_t culprit; /* a member whose bytes are bad, from 1; 0: none */
} tt_range_finding;

typedef void tt_range_fn(const tt_exec *exec, tt_range some, tt_range_finding *found);

/* A step of a local stage, see tt_local_fn: `work` on all ranges of its bytes. Findings go to
 * exec->coding. */
void tt_code_ranges(const tt_exec *exec, uint64_t first, uint64_t bytes, tt_range_fn *work);

#endif
