/* SPDX-License-Identifier: Apache-2.0
 *
 * choose.c - the table of costs by which algorithms are chosen, and its forecasts. */
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "control/control_internal.h"
#include "kernel/hash64.h"

static tt_problem shape_of(const tt_control *control, const tt_set *set)
{
    TT_ASSERT(control->config.segment_bytes > 0);
    TT_ASSERT(control->config.segment_bytes % 64 == 0);
    return (tt_problem){.dtype = TT_F32,
                        .redop = TT_SUM,
                        .self = set->self,
                        .size = set->size,
                        .element_bytes = 4,
                        .segment_bytes = control->config.segment_bytes,
                        .postscale = 1.0,
                        .topology = &set->topology};
}

void tt_set_choose(const tt_control *control, tt_set *set)
{
    const tt_problem shape = shape_of(control, set);
    set->choice = (tt_choice){.algorithm = {{0}}};
    if (control->costs != NULL) {
        tt_choice_build(&set->choice, control->costs, &shape);
    }
}

void tt_control_set_costs(tt_control *control, const tt_costs *costs)
{
    control->costs = costs;
    control->costs_hash = 0;
    if (costs != NULL) {
        control->costs_hash =
            tt_hash64_mix(tt_hash64(costs->lines, costs->line_count * sizeof(costs->lines[0]), 0),
                          control->world.is_crowded);
    }
    for (tt_set *set = control->sets; set != NULL; set = set->next) {
        tt_set_choose(control, set);
    }
    tt_control_note_settings(control);
}

void tt_control_note_settings(tt_control *control)
{
    const char *forced = control->config.algorithm;
    control->settings = tt_hash64_mix(control->costs_hash,
                                      forced != NULL ? tt_hash64(forced, strlen(forced), 0) : 0);
}

void tt_control_force(tt_control *control, const char *algorithm)
{
    control->config.algorithm = algorithm;
    tt_control_note_settings(control);
}

tt_forecast tt_control_forecast(const tt_control *control, tt_collective collective, uint64_t bytes)
{
    const tt_set *world = tt_set_find(control, 0);
    tt_problem problem = shape_of(control, world);
    problem.collective = collective;
    problem.bytes = bytes;
    const char *forced = control->config.algorithm;
    const tt_algorithm *algorithm =
        forced == NULL ? tt_choice_find(&world->choice, &problem) : NULL;
    tt_forecast forecast = {
        .algorithm = algorithm != NULL ? algorithm : tt_algorithm_choose(&problem, forced),
        .placement = tt_placement_name(&world->topology, world->size),
    };
    TT_ASSERT(forecast.algorithm->fits(&problem));
    if (control->costs == NULL ||
        !tt_choice_predict(control->costs, &problem, forecast.algorithm, &forecast.time_ns)) {
        forecast.time_ns = 0;
    }
    return forecast;
}

bool tt_control_fits(const tt_control *control, tt_collective collective,
                     const tt_algorithm *algorithm, uint64_t bytes)
{
    tt_problem problem = shape_of(control, tt_set_find(control, 0));
    problem.collective = collective;
    problem.bytes = bytes;
    return algorithm->fits(&problem);
}
