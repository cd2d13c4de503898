/* SPDX-License-Identifier: Apache-2.0
 *
 * scenario_wide.c - additional draws of seeds from SCENARIO_WIDE on: all types and operators, sums
 * that round, deadlines, allocations that fail.
 *
 * From a random stream of its own, and only in these seeds: other seeds keep their meaning. */
#include "base/base.h"
#include "base/philox.h"
#include "simulation/scenario.h"

#define MS UINT64_C(1000000)

static uint32_t below(tt_random *random, uint32_t limit)
{
    return (uint32_t)tt_random_below(random, limit);
}

static bool one_in(tt_random *random, uint32_t count)
{
    return below(random, count) == 0;
}

static bool is_reduction(tt_collective collective)
{
    return collective == TT_ALLREDUCE || collective == TT_REDUCE || collective == TT_REDUCESCATTER;
}

static bool has_adasum(const scenario *drawn, const collective_case *one)
{
    return one->collective == TT_ALLREDUCE && (one->size & (one->size - 1)) == 0 &&
           !drawn->has_joins;
}

static void draw_operator(const scenario *drawn, tt_random *random, collective_case *one)
{
    do {
        one->redop = (tt_redop)below(random, TT_REDOP_COUNT);
    } while (!tt_redop_allowed(one->dtype, one->redop) ||
             (one->redop == TT_ADASUM && !has_adasum(drawn, one)));
    if (one->redop == TT_PRODUCT || one->redop == TT_ADASUM) {
        one->prescale = one->postscale = 1.0; /* stays within f16 */
    }
}

/* Of a named program all steps of a tensor are alike. */
static void draw_types(scenario *drawn, tt_random *random)
{
    const bool has_rounding = one_in(random, 2);
    const uint32_t period = drawn->is_named ? drawn->tensor_count : drawn->call_count;
    for (uint32_t i = 0; i < drawn->call_count; i++) {
        collective_case *one = &drawn->calls[i].one;
        if (i >= period) {
            const collective_case *first = &drawn->calls[i % period].one;
            one->dtype = first->dtype;
            one->redop = first->redop;
            one->prescale = first->prescale;
            one->postscale = first->postscale;
            one->is_rounding = first->is_rounding;
            continue;
        }
        one->dtype = (tt_dtype)below(random, TT_DTYPE_COUNT);
        if (is_reduction(one->collective)) {
            draw_operator(drawn, random, one);
        }
        one->is_rounding = has_rounding && is_reduction(one->collective) && !one->is_uneven &&
                           tt_dtype_is_float(one->dtype) &&
                           (one->redop == TT_SUM || one->redop == TT_AVERAGE);
    }
}

/* Some calls have a deadline. Ranks that time out continue, so that others may be late in turn. Not
 * those of a group with FLAW_APART: the rank that has its parts one by one never makes the call of
 * that name which the others give up, so that its next call of the name would count as that one. */
static void draw_deadlines(scenario *drawn, tt_random *random)
{
    static const uint64_t deadlines[] = {20 * MS, 200 * MS, 1000 * MS};
    const uint32_t rate = 1 + below(random, 4);
    for (uint32_t i = 0; i < drawn->call_count; i++) {
        if (one_in(random, rate) && drawn->calls[i].flaw != FLAW_APART) {
            drawn->calls[i].deadline_ns = deadlines[below(random, TT_ARRAY_COUNT(deadlines))];
        }
    }
}

void scenario_widen(scenario *drawn)
{
    tt_random random;
    tt_random_init(&random, drawn->seed, 95);
    if (!one_in(&random, 3)) {
        draw_types(drawn, &random);
    }
    if (one_in(&random, 3)) {
        draw_deadlines(drawn, &random);
        drawn->leaves_early = false; /* a rank that left makes no claim */
    }
    if (one_in(&random, 5) && !drawn->is_named) {
        drawn->starve_after = 1 + below(&random, one_in(&random, 2) ? 30 : 600);
        drawn->leaves_early = false;
    }
    if (drawn->is_named && drawn->seed >= SCENARIO_STARVES && one_in(&random, 2)) {
        static const uint32_t spans[] = {30, 300, 1500};
        static const uint64_t further[] = {0, 0, 1, 5, 100, UINT32_MAX};
        drawn->starve_after = 1 + below(&random, spans[below(&random, TT_ARRAY_COUNT(spans))]);
        drawn->starve_further = further[below(&random, TT_ARRAY_COUNT(further))];
        drawn->leaves_early = false;
    }
}
