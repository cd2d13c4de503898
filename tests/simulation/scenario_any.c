/* SPDX-License-Identifier: Apache-2.0
 *
 * scenario_any.c - additional draws of seeds from SCENARIO_ANY on: receives from any source.
 *
 * Half of the calls become messages, of three kinds. Those without a tag are as in other seeds.
 * TAG_MANY: every receive is from any source, and each call has another sender, so that several
 * ranks may serve one receive. TAG_MIXED: a ring, in which receives are from any source or from the
 * only sender. Some receives are cancelled, and made again: that must not lose a message.
 *
 * From a random stream of its own, and only in these seeds: other seeds keep their meaning. */
#include "base/base.h"
#include "base/philox.h"
#include "simulation/scenario.h"

enum { TAG_MANY = 5, TAG_MIXED = 6 };

static uint32_t below(tt_random *random, uint32_t limit)
{
    return (uint32_t)tt_random_below(random, limit);
}

static bool one_in(tt_random *random, uint32_t count)
{
    return below(random, count) == 0;
}

static void draw_message(scenario_call *call, tt_random *random, bool may_recall)
{
    collective_case *one = &call->one;
    one->collective = TT_SEND;
    one->prescale = one->postscale = 1.0;
    one->is_uneven = one->is_in_place = one->is_rounding = false;
    one->root = 0;
    call->flaw = FLAW_NONE;
    call->deadline_ns = 0;
    const uint32_t kind = below(random, 4);
    call->tag = kind == 0 ? 0 : (kind < 3 ? TAG_MANY : TAG_MIXED);
    call->is_any = call->tag == TAG_MANY || (call->tag == TAG_MIXED && one_in(random, 2));
    if (call->tag == TAG_MANY) {
        call->shift = below(random, one->size - 1);
    }
    call->is_recalled = may_recall && call->is_any && one_in(random, 3);
}

/* All messages of one set and tag have one type and count: a receive may take another call's
 * message. */
static void make_alike(scenario *drawn)
{
    const collective_case *first[SCENARIO_SETS_MAX][2] = {0};
    for (uint32_t i = 0; i < drawn->call_count; i++) {
        const scenario_call *call = &drawn->calls[i];
        if (call->tag != 0) {
            const collective_case **like = &first[call->set][call->tag == TAG_MANY ? 0 : 1];
            *like = *like == NULL ? &call->one : *like;
            drawn->calls[i].one.dtype = (*like)->dtype;
            drawn->calls[i].one.count = (*like)->count;
        }
    }
}

void scenario_add_any(scenario *drawn)
{
    tt_random random;
    tt_random_init(&random, drawn->seed, 96);
    drawn->starve_after = 0;               /* a lack of memory for such a receive sends no frame */
    drawn->window = drawn->windowless = 0; /* a later message may be taken first */
    drawn->removes_sets = one_in(&random, 4);
    for (uint32_t i = 0; i < drawn->call_count; i++) {
        scenario_call *call = &drawn->calls[i];
        if (drawn->removes_sets) { /* a set that is removed takes no call that is made again */
            call->flaw = FLAW_NONE;
            call->deadline_ns = 0;
        }
        if (call->one.size > 1 && one_in(&random, 2)) {
            draw_message(call, &random, !drawn->removes_sets);
        }
    }
    make_alike(drawn);
}
