/* SPDX-License-Identifier: Apache-2.0
 *
 * scenario_rotate.c - additional draws of unnamed seeds from SCENARIO_ROTATES on: a few calls in
 * rotation on one host, and settings that change between two of them.
 *
 * From a random stream of its own, and only in these seeds: other seeds keep their meaning. */
#include "aggregate/registry.h"
#include "base/base.h"
#include "base/philox.h"
#include "simulation/scenario.h"

enum { ROTATION_MAX = 6, COUNT_MAX = 3 };

static uint32_t below(tt_random *random, uint32_t limit)
{
    return (uint32_t)tt_random_below(random, limit);
}

static bool one_in(tt_random *random, uint32_t count)
{
    return below(random, count) == 0;
}

static const char *draw_algorithm(tt_random *random)
{
    uint32_t count = 0;
    while (tt_algorithm_at(count) != NULL) {
        count++;
    }
    return one_in(random, 3) ? NULL : tt_algorithm_at(below(random, count))->name;
}

/* A sum so small that it is one frame. */
static void make_small(scenario *drawn, tt_random *random, scenario_call *call)
{
    call->set = 0;
    call->one.size = drawn->set_size[0];
    call->one.collective = TT_ALLREDUCE;
    call->one.redop = TT_SUM;
    call->one.dtype = TT_F32;
    call->one.is_rounding = false;
    call->one.count = 1 + below(random, COUNT_MAX);
    call->one.prescale = 1.0;
    call->one.postscale = one_in(random, 2) ? 1.0 : 2.0;
    call->flaw = FLAW_NONE;
    call->culprit %= call->one.size;
}

/* Call `index` equals one of the first, except in its values and its flaw. */
static void take_turn(scenario *drawn, tt_random *random, uint32_t index)
{
    scenario_call *call = &drawn->calls[index];
    const uint32_t turns = index < ROTATION_MAX ? index : ROTATION_MAX;
    const scenario_call *first = &drawn->calls[below(random, turns)];
    const scenario_call own = *call;
    *call = *first;
    call->one.salt = own.one.salt;
    call->deadline_ns = one_in(random, 8) ? own.deadline_ns : 0;
    call->is_shared = own.is_shared;
    call->foreign = own.foreign > call->one.size ? 0 : own.foreign;
    call->flaw = FLAW_NONE;
    if (one_in(random, 8) && call->one.collective == TT_ALLREDUCE && call->one.count > 0 &&
        call->one.size > 1) {
        static const call_flaw flaws[] = {FLAW_COUNT, FLAW_CANCEL, FLAW_ARGUMENT};
        call->flaw = flaws[below(random, TT_ARRAY_COUNT(flaws))];
        call->culprit = below(random, call->one.size);
    }
}

void scenario_rotate(scenario *drawn)
{
    static const uint32_t segments[] = {64, 128, 1024};
    tt_random random;
    tt_random_init(&random, drawn->seed, 97);
    drawn->control.algorithm = one_in(&random, 4) ? drawn->control.algorithm : NULL;
    for (uint32_t i = 0; i < drawn->call_count; i++) {
        if (i > 0 && !one_in(&random, 10)) {
            take_turn(drawn, &random, i);
        } else if (one_in(&random, 2)) {
            make_small(drawn, &random, &drawn->calls[i]);
        }
    }
    drawn->leaves_early = false; /* a rank that left makes no claim */
    if (one_in(&random, 2)) {
        drawn->change_at = 1 + below(&random, drawn->call_count);
        drawn->changed_segment_bytes = segments[below(&random, TT_ARRAY_COUNT(segments))];
        /* The forced algorithm is read when a call begins: none may be in flight. */
        const bool forces = drawn->window == 1 && one_in(&random, 2);
        drawn->changed_algorithm = forces ? draw_algorithm(&random) : drawn->control.algorithm;
    }
}
