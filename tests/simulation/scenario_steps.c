/* SPDX-License-Identifier: Apache-2.0
 *
 * scenario_steps.c - additional draws of named seeds from SCENARIO_STEPS on: more steps, at whose
 * ends ranks learn an order and try settings (stepping.c).
 *
 * From a random stream of its own, and only in these seeds: other seeds keep their meaning. */
#include "base/base.h"
#include "base/philox.h"
#include "simulation/scenario.h"

enum { STEPS_MAX = 40, CHUNK_UNIT = 64 };

static uint32_t below(tt_random *random, uint32_t limit)
{
    return (uint32_t)tt_random_below(random, limit);
}

static bool one_in(tt_random *random, uint32_t count)
{
    return below(random, count) == 0;
}

/* More steps of the same calls, with other values; flaws occur once only. */
static void lengthen(scenario *drawn, tt_random *random)
{
    const uint32_t tensors = drawn->tensor_count, known = drawn->call_count;
    const uint32_t room = SCENARIO_CALLS_MAX / (tensors * drawn->phase_count);
    const uint32_t more = 2 + below(random, room < STEPS_MAX ? room - 2 : STEPS_MAX);
    const uint32_t steps = more < room ? more : room;
    if (steps <= drawn->steps_per_phase) {
        return;
    }
    drawn->steps_per_phase = steps;
    drawn->call_count = tensors * steps * drawn->phase_count;
    for (uint32_t i = 0; i < drawn->call_count; i++) {
        scenario_call *call = &drawn->calls[i];
        if (i >= known) {
            *call = drawn->calls[i % known];
            call->flaw = FLAW_NONE;
        }
        call->step = i / tensors;
        call->one.salt = drawn->seed * 1000 + i;
    }
    for (uint32_t phase = 0; phase < SCENARIO_PHASES_MAX; phase++) {
        for (uint32_t rank = 0; rank < drawn->size; rank++) {
            drawn->rank_steps[phase][rank] = drawn->has_joins ? below(random, steps + 1) : steps;
        }
    }
}

/* A rank has a call in every step that it takes part in. Ranks of a set without the dead rank
 * cannot know whether the others got its last frames, so that they may differ about what is left.
 */
static void draw_world(scenario *drawn)
{
    const bool is_one = scenario_has_fault(drawn, FAULT_KILL) ||
                        scenario_has_fault(drawn, FAULT_SEVER) || drawn->starve_after > 0;
    for (uint32_t i = 0; i < drawn->call_count; i++) {
        scenario_call *call = &drawn->calls[i];
        if (is_one || call->tensor == 0 || call->group_size > 0) {
            call->set = 0;
            call->one.size = drawn->set_size[0];
            if (call->one.redop == TT_ADASUM) { /* needs 2, 4, 8 ... ranks */
                call->one.redop = TT_SUM;
            }
        }
    }
}

void scenario_add_steps(scenario *drawn)
{
    tt_random random;
    tt_random_init(&random, drawn->seed, 98);
    tt_step_config *steps = &drawn->steps;
    tt_step_config_init(steps);
    drawn->has_steps = true;
    drawn->tuned_step = 0;   /* the stepper sets the fusion threshold */
    drawn->starve_after = 0; /* a rank without memory may miss others' settings: step.h (4) */
    steps->learns = !one_in(&random, 4);
    steps->tunes = !one_in(&random, 4);
    steps->is_plain = one_in(&random, 8);
    steps->is_auto = one_in(&random, 4);
    steps->warmup_steps = below(&random, 2);
    steps->fuse_warmup_steps = below(&random, 2);
    steps->sample_steps_min = 1 + below(&random, 2);
    steps->sample_steps_max = 3 * steps->sample_steps_min + below(&random, 4);
    steps->sample_ns = one_in(&random, 2) ? 1 : UINT64_C(10) * 1000 * 1000;
    drawn->has_uses = one_in(&random, 2);
    drawn->forecast_ns = one_in(&random, 2);
    drawn->control.is_paced = drawn->control.is_paced || (steps->tunes && !one_in(&random, 4));
    lengthen(drawn, &random);
    draw_world(drawn);
}

void scenario_add_ranges(scenario *drawn)
{
    static const uint64_t credits[] = {1, 300, 5000};
    static const uint64_t small[] = {64, 300, 1024};
    tt_random own, *random = &own;
    tt_random_init(random, drawn->seed, 99);
    tt_step_config *steps = &drawn->steps;
    const uint64_t chunk = drawn->control.segment_bytes;
    steps->min.chunk_bytes = tt_round_up(chunk / (1 + below(random, 3)), CHUNK_UNIT);
    steps->max.chunk_bytes = chunk * (1 + below(random, 8));
    steps->min.credit_bytes = credits[below(random, TT_ARRAY_COUNT(credits))];
    steps->max.credit_bytes = steps->min.credit_bytes * (1 + below(random, 1000));
    steps->min.fuse_bytes = small[below(random, TT_ARRAY_COUNT(small))];
    steps->max.fuse_bytes = steps->min.fuse_bytes * (1 + below(random, 200));
    steps->setting = (tt_setting){.chunk_bytes = chunk,
                                  .credit_bytes = drawn->control.credit_bytes,
                                  .fuse_bytes = drawn->control.fuse_bytes};
}

bool scenario_is_steady(const scenario *what)
{
    uint32_t hosts = 0;
    bool is_steady = what->has_steps && what->fault_count == 0 && what->starve_after == 0 &&
                     !what->leaves_early && what->control.algorithm == NULL;
    for (uint32_t i = 0; i < what->call_count; i++) {
        const scenario_call *call = &what->calls[i];
        is_steady = is_steady && call->flaw == FLAW_NONE && call->deadline_ns == 0;
    }
    for (uint32_t i = 0; i < what->size; i++) {
        hosts |= UINT32_C(1) << what->host_of[i];
    }
    return is_steady && hosts != 7; /* all three */
}
