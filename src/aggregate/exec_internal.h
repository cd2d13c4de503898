/* SPDX-License-Identifier: Apache-2.0
 *
 * exec_internal.h - between exec.c (lanes and rounds) and exec_work.c (local work).
 *
 * Layer:   aggregate, private.
 * Threads: as exec.h.
 * Memory:  none.
 */
#ifndef TUTTI_AGGREGATE_EXEC_INTERNAL_H
#define TUTTI_AGGREGATE_EXEC_INTERNAL_H

#include "aggregate/exec.h"

enum {
    TT_WORK_SHORT_BYTES = 32 * 1024, /* done at once, inside the upcall */
    TT_WORK_STEP_BYTES = 256 * 1024, /* one step: some tens of microseconds */
};

/* Address of a spot, for this lane. */
void *tt_exec_address(const tt_exec *exec, const tt_lane *lane, tt_spot spot);

/* Do up to `budget` bytes of a work move; true when it is complete. */
bool tt_exec_work(tt_exec *exec, tt_lane *lane, const tt_move *move, uint64_t budget);

void tt_exec_fail(tt_exec *exec, tt_status status, uint32_t culprit);

#endif
