/* SPDX-License-Identifier: Apache-2.0
 *
 * scenario_programs.c - additional draws of unnamed seeds from SCENARIO_PROGRAMS on: calls of
 * several stages in place of some, and lengths that are gathered before their data.
 *
 * From the seed and the call alone, so that repeated calls stay alike; only in these seeds: other
 * seeds keep their meaning. */
#include "base/base.h"
#include "conformance/programs.h"
#include "kernel/hash64.h"
#include "simulation/scenario.h"

enum { LONG_COUNT_MAX = 200 }; /* of sixteen exchanges: more frames find no more faults */

/* The same for calls that are alike. */
static uint64_t kind_of(const scenario *drawn, const collective_case *one, uint32_t set)
{
    const uint64_t kind = one->count << 24 | (uint64_t)one->collective << 16 |
                          (uint64_t)one->dtype << 8 | (uint64_t)one->redop << 4 | set;
    return tt_hash64_mix(drawn->seed, kind);
}

static void make_gather(scenario_call *call)
{
    call->one.collective = TT_ALLGATHER;
    call->one.is_uneven = true;
    call->one.is_rounding = false;
    call->one.root = 0;
    call->one.prescale = call->one.postscale = 1.0;
    call->flaw = call->flaw == FLAW_CANCEL ? FLAW_CANCEL : FLAW_NONE;
}

/* Types in which every intermediate value is exact, or wraps whatever the order. */
static void make_program(scenario_call *call, const tt_program *program, uint64_t kind)
{
    static const tt_dtype dtypes[] = {TT_F32, TT_F64, TT_I32, TT_I64, TT_U8};
    collective_case *one = &call->one;
    one->program = program;
    one->collective = TT_ALLREDUCE;
    one->redop = TT_SUM;
    one->dtype = dtypes[kind / 64 % TT_ARRAY_COUNT(dtypes)];
    one->root = 0;
    one->is_uneven = one->is_rounding = false;
    if (program == &program_max_often) {
        one->count %= LONG_COUNT_MAX;
    }
    call->flaw = call->flaw == FLAW_ROOT ? FLAW_NONE : call->flaw;
}

void scenario_add_programs(scenario *drawn)
{
    static const tt_program *const programs[] = {&program_max_sum, &program_max_sum,
                                                 &program_two_sums, &program_two_sums,
                                                 &program_max_often};
    for (uint32_t i = 0; i < drawn->call_count; i++) {
        scenario_call *call = &drawn->calls[i];
        const uint64_t kind = kind_of(drawn, &call->one, call->set);
        const uint32_t choice = (uint32_t)(kind % 8);
        if (call->one.collective == TT_SEND) { /* whose messages are counted */
            continue;
        }
        if (choice < TT_ARRAY_COUNT(programs)) {
            make_program(call, programs[choice], kind);
        } else if (choice == TT_ARRAY_COUNT(programs)) {
            make_gather(call);
        }
    }
}
