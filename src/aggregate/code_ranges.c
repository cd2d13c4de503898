/* SPDX-License-Identifier: Apache-2.0
 *
 * code_ranges.c - see code_ranges.h. A part of an order does the blocks that begin in it. */
#include "aggregate/code_ranges.h"

#include "base/assert.h"
#include "base/base.h"
#include "codec/codec.h"

typedef struct range_step {
    const tt_exec *exec;
    tt_range_fn *work;
    uint64_t first, bytes; /* of the vector */
    tt_range_finding found[TT_HANDS_MAX];
} range_step;

static uint64_t block_bytes(const tt_problem *problem)
{
    return (uint64_t)problem->codec->block * problem->element_bytes;
}

/* tt_work_order.part */
static void range_part(void *argument, uint32_t hand, uint64_t first, uint64_t bytes)
{
    range_step *step = argument;
    const tt_problem *problem = &step->exec->stage->problem;
    const uint64_t from = tt_round_up(first, block_bytes(problem));
    const uint64_t to = tt_min_u64(tt_round_up(first + bytes, block_bytes(problem)), step->bytes);
    TT_DEBUG_ASSERT(hand < TT_HANDS_MAX);
    if (from < to) {
        const tt_range some = {.first = (step->first + from) / problem->element_bytes,
                               .count = (to - from) / problem->element_bytes};
        step->work(step->exec, some, &step->found[hand]);
    }
}

/* Bytes of the step done: see tt_platform_ops.work. A block that has begun is done. */
static uint64_t run_once(range_step *step)
{
    tt_platform *platform = step->exec->flow->platform;
    uint64_t done = step->bytes;
    if (platform->hands > 0 && step->bytes >= platform->work_bytes_min) {
        const tt_work_order order = {.part = range_part, .argument = step, .bytes = step->bytes};
        done = platform->ops->work(platform, &order);
    } else {
        range_part(step, 0, 0, step->bytes);
    }
    return tt_min_u64(tt_round_up(done, block_bytes(&step->exec->stage->problem)), step->bytes);
}

void tt_code_ranges(const tt_exec *exec, uint64_t first, uint64_t bytes, tt_range_fn *work)
{
    range_step step = {.exec = exec, .work = work, .first = first, .bytes = bytes};
    tt_coding *coding = exec->coding;
    TT_ASSERT(coding != NULL && first % block_bytes(&exec->stage->problem) == 0);
    while (step.bytes > 0) {
        const uint64_t done = run_once(&step);
        TT_ASSERT(done > 0);
        step.first += done;
        step.bytes -= done;
    }
    for (uint32_t hand = 0; hand < TT_HANDS_MAX; hand++) {
        coding->uncoded += step.found[hand].uncoded;
        coding->culprit = step.found[hand].culprit > 0 ? step.found[hand].culprit : coding->culprit;
    }
}
