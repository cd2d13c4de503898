/* SPDX-License-Identifier: Apache-2.0
 *
 * closed_time.h - how long our own all-reduces take on a fabric, by formula.
 *
 * What moves (sim/moves.h) find by walking every message is added up here from rounds that are
 * alike: latencies one after the other, and below them what the busiest card, uplink or processor
 * has to do for all lanes that are under way at once; lanes between whose rings a rank sums and
 * copies are walked for that one rank. So a time is known at once for any number of ranks. All
 * ranks begin at the same time, on an idle fabric.
 *
 * Where moves have no contention, the formulas agree with them; where ranks share cards, uplinks or
 * memory they are approximate (closed_time_test.c says how much).
 *
 * Layer:   sim.
 * Threads: pure.
 * Memory:  none.
 */
#ifndef TUTTI_SIM_CLOSED_CLOSED_TIME_H
#define TUTTI_SIM_CLOSED_CLOSED_TIME_H

#include "sim/moves.h"

typedef struct tt_closed_input {
    const tt_fabric_ops *model; /* whose limits hold: of memory, of uplinks */
    const tt_fabric_config *fabric;
    tt_problem problem; /* an all-reduce of elements, not coded, as for moves */
    const char *forced;
    uint32_t eager_bytes_max;
} tt_closed_input;

/* Times and traffic as of moves; no events and no memory. */
tt_moves_result tt_closed_allreduce(const tt_closed_input *input);

#endif
