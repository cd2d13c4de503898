/* SPDX-License-Identifier: Apache-2.0
 *
 * copied_stages.h - the stages of a coded allgather or broadcast: values are coded, their bytes are
 * gathered or sent as they are, and all members, the sender too, decode the same bytes.
 *
 * Nothing is added up, so nothing of a tensor is left for its next call: these have no residual.
 *
 * Layer:   aggregate.
 * Threads: pure.
 * Memory:  none; a run keeps wire bytes in memory of its own (TT_RUN_WORK).
 */
#ifndef TUTTI_AGGREGATE_COPIED_STAGES_H
#define TUTTI_AGGREGATE_COPIED_STAGES_H

#include "aggregate/stage.h"

/* Is this an allgather or broadcast with a codec? */
bool tt_copied_fits(const tt_problem *problem);

/* Write the stages; returns their number. Parts are even. */
uint32_t tt_copied_build(const tt_program_input *input, tt_stage *stages);

#endif
