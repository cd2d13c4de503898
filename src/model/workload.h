/* SPDX-License-Identifier: Apache-2.0
 *
 * workload.h - one training step as communication sees it: tensors, when backward produces them,
 * when the next forward needs them.
 *
 * Times are microseconds of computation from the start of the step, all communication being free.
 *
 * Layer:   model; may include base/.
 * Threads: pure.
 * Memory:  the caller's.
 */
#ifndef TUTTI_MODEL_WORKLOAD_H
#define TUTTI_MODEL_WORKLOAD_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/text.h"
#include "model/scratch.h"

/* Thirty years: a sum of many such times, and a product with bytes, is still a number. */
#define TT_WORKLOAD_US_MAX 1e15

typedef struct tt_tensor {
    const char *name; /* for people; may be NULL */
    uint64_t bytes;
    double first_use_us; /* in [0, forward_us] */
    double ready_us;     /* in [forward_us, forward_us + backward_us] */
} tt_tensor;

typedef struct tt_workload {
    const tt_tensor *tensors;
    size_t tensor_count;
    double forward_us;
    double backward_us;
} tt_workload;

/* TT_ERR_BAD_ARGUMENT: no tensor, a step of more than TT_WORKLOAD_US_MAX, a time that is negative
 * or out of its pass; `why` names it. */
tt_status tt_workload_check(const tt_workload *workload, tt_text *why);

static inline double tt_workload_compute_us(const tt_workload *workload)
{
    return workload->forward_us + workload->backward_us;
}

uint64_t tt_workload_bytes(const tt_workload *workload);

/* Another step made from one: how many passes of forward and backward it computes before gradients
 * are exchanged (gradient accumulation), how many times as long each pass takes, and how many times
 * as many bytes each tensor has; none becomes empty. Parameters are first used in the first pass,
 * and their gradients are ready in the last; all before the last backward counts as forward. */
typedef struct tt_workload_change {
    uint32_t pass_count; /* at least 1 */
    double time_scale;   /* above 0 */
    double bytes_scale;  /* above 0 */
} tt_workload_change;

/* The tensors of the result are the scratch's, their names those of `workload`. TT_ERR_NO_MEMORY;
 * TT_ERR_BAD_ARGUMENT and `why`: a tensor would be longer than that of any graph. Whether the
 * result is a step is checked where it is used (tt_workload_check). */
tt_status tt_workload_change_apply(const tt_workload_change *change, const tt_workload *workload,
                                   tt_scratch *scratch, tt_text *why, tt_workload *workload_out);

/* Tensors by first use, and by readiness; ties keep their order in the workload (for readiness, the
 * reverse: backward reaches later tensors first). NULL if an allocation fails. */
uint32_t *tt_workload_by_use(const tt_workload *workload, tt_scratch *scratch);
uint32_t *tt_workload_by_ready(const tt_workload *workload, tt_scratch *scratch);

/* How many tensors are below 64 KiB, 1 MiB, 16 MiB, and the rest, and their bytes. */
enum {
    TT_WORKLOAD_SIZES = 4,
};
typedef struct tt_workload_sizes {
    size_t count[TT_WORKLOAD_SIZES];
    uint64_t bytes[TT_WORKLOAD_SIZES];
    uint64_t largest_bytes;
} tt_workload_sizes;

extern const uint64_t tt_workload_size_limits[TT_WORKLOAD_SIZES]; /* exclusive */
tt_workload_sizes tt_workload_measure(const tt_workload *workload);

#endif
