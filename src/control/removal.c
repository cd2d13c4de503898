/* SPDX-License-Identifier: Apache-2.0
 *
 * removal.c - the end of a process set.
 *
 * A removed set accepts no more calls; earlier ones continue and end normally. When this rank has
 * none open, it makes one last call on the set, the farewell: an internal barrier. Once that is
 * over, no member has a call open, so none will need an answer of this rank about one, and the
 * set's memory is released.
 *  (1) Frames of the set that arrive later (duplicates, replies that no call waits for) find no set
 *      and are dropped: its number is not used again, so it is not taken for a future set.
 *  (2) A farewell that fails ends the set, too: a member is gone, and no call on the set could be
 *      decided any more.
 *  (3) A rank that is not a member waits for nothing.
 */
#include "base/assert.h"
#include "base/base.h"
#include "base/plant.h"
#include "control/any.h"
#include "control/named/name.h"

/* One after the other; a set that this rank is no member of has no farewell. */
static void set_set_phase(tt_set *set, tt_set_phase phase)
{
    TT_ASSERT(phase == set->phase + 1 || (set->phase == SET_REMOVED && phase == SET_OVER));
    set->phase = phase;
}

static bool has_named(const tt_control *control, const tt_set *set)
{
    const tt_names *names = control->names;
    for (uint32_t i = 0; names != NULL && i < NAME_BUCKETS; i++) {
        for (const tt_name *name = names->buckets[i]; name != NULL; name = name->next) {
            if (name->set == set && name->phase != NAME_IDLE) {
                return true;
            }
        }
    }
    for (const tt_request *later = names != NULL ? names->later : NULL; later != NULL;
         later = later->next_later) {
        if (later->set == set->id) {
            return true;
        }
    }
    return false;
}

static bool has_op(const tt_control *control, const tt_set *set)
{
    for (uint32_t i = 0; i < control->op_count; i++) {
        if (control->ops[i]->phase != OP_FREE && control->ops[i]->set == set) {
            return true;
        }
    }
    return false;
}

static void retire(tt_control *control, tt_set *set)
{
    TT_ASSERT(set->id != 0);
    TT_ASSERT(set->phase == SET_OVER);
    TT_ASSERT(!has_op(control, set));
    TT_ASSERT(control->removed_count > 0);
    tt_agree_forget_set(control, set->id);
    tt_early_verdict_forget_set(control, set->id);
    tt_flow_purge_set(&control->flow, set->id);
    tt_any_forget_set(control, set->id);
    tt_set_unlink(control, set);
    tt_host_release_set(set);
    tt_set_destroy(control, set);
    control->removed_count--;
}

static void farewell_over(tt_request *request)
{
    tt_set *set = request->owner;
    TT_ASSERT(request == set->farewell);
    set_set_phase(set, SET_OVER); /* its op still uses it: released in the next step */
}

static void farewell(tt_control *control, tt_set *set)
{
    const tt_standing standing = {.space = &tt_space_calls};
    TT_ASSERT(set->self != UINT32_MAX); /* (3) */
    set_set_phase(set, SET_FAREWELL);
    set->late = TT_OK; /* no caller is left to get it */
    *set->farewell = (tt_request){.collective = TT_BARRIER,
                                  .set = set->id,
                                  .salt = UINT64_MAX, /* no user's barrier */
                                  .prescale = 1.0,
                                  .postscale = 1.0,
                                  .segment_bytes = control->config.segment_bytes,
                                  .finished = farewell_over,
                                  .owner = set};
    tt_op_submit(control, set, set->farewell, &standing, NULL);
}

bool tt_removal_is_farewell(const tt_op *op)
{
    return op->request == op->set->farewell;
}

void tt_removal_step(tt_control *control)
{
    tt_set *next;
    for (tt_set *set = control->sets; set != NULL && control->removed_count > 0; set = next) {
        next = set->next;
        if (set->phase == SET_REMOVED && set->join == NULL && !has_op(control, set) &&
            !has_named(control, set)) {
            if (set->self == UINT32_MAX || TT_PLANT(SET_RELEASED_TOO_EARLY)) {
                set_set_phase(set, SET_OVER);
            } else {
                farewell(control, set);
            }
        }
        /* Ops that an engine still holds are found through their set. */
        if (set->phase == SET_OVER && !has_op(control, set) && !set->engine_is_stuck) {
            retire(control, set);
        }
    }
}

tt_status tt_control_set_remove(tt_control *control, uint32_t id)
{
    tt_set *set = tt_set_find(control, id);
    if (set == NULL || id == 0 || set->phase != SET_OPEN) {
        return TT_ERR_BAD_ARGUMENT;
    }
    set_set_phase(set, SET_REMOVED);
    control->removed_count++;
    tt_removal_step(control);
    return TT_OK;
}
