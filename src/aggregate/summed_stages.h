/* SPDX-License-Identifier: Apache-2.0
 *
 * summed_stages.h - the stages of an all-reduce whose codes are added as they are (codec/codec.h):
 * scales, their MAX, levels, their SUM, decoding.
 *
 * Layer:   aggregate.
 * Threads: pure.
 * Memory:  none; a run keeps scales and levels in memory of its own (TT_RUN_WORK).
 */
#ifndef TUTTI_AGGREGATE_SUMMED_STAGES_H
#define TUTTI_AGGREGATE_SUMMED_STAGES_H

#include "aggregate/stage.h"

/* Is this an all-reduce with a summable codec? */
bool tt_summed_fits(const tt_problem *problem);

/* Write the stages; returns their number. At most TT_CODEC_RANKS_MAX members. */
uint32_t tt_summed_build(const tt_program_input *input, tt_stage *stages);

#endif
