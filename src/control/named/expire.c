/* SPDX-License-Identifier: Apache-2.0
 *
 * expire.c - named requests whose deadline passes while they wait for the other ranks.
 *
 * All ranks are queried for the tensor, then its ticket is given up through the coordinator: it
 * ends on all members or on none. But a peer that is stopped or faulty prevents both, and the
 * deadline is a promise to the caller. So EXPIRY_END_NS after the deadline the request ends on this
 * rank, independent of the peers, and a stand-in takes its place:
 *
 *  (1) The ticket stays with the negotiator, so the n-th ticket of a name still matches the n-th on
 *      all ranks. Its request is a stand-in: the claim of the ended request, without buffers.
 *  (2) If the ticket is given up after all, the others get TIMED_OUT and the stand-in is released.
 *      If it was agreed or planned before that, the stand-in refuses the exchange, which then fails
 *      on all ranks with TIMED_OUT, and with it all tensors of the exchange (a bundle).
 *  (3) A group that is incomplete on this rank keeps stand-ins of its submitted members, and an
 *      objection; when it is complete, it fails on all ranks.
 *  (4) The name is in use until then. A further request of the name waits behind the stand-in, up
 *      to its own deadline; then a stand-in with an objection waits in its place.
 *
 * A request that waits for other ranks has not touched its buffers: it can end at any time. */
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/plant.h"
#include "control/named/name.h"

enum {
    EXPIRY_TELL_NS = 40 * 1000 * 1000, /* time for answers, before the ticket is given up */
    EXPIRY_END_NS = 110 * 1000 * 1000, /* for the coordinator, until the request ends alone */
};

struct tt_stand_in {
    struct tt_stand_in *next; /* free list */
    tt_request request;
    tt_control *control;
    char name[TT_NAME_BYTES], group[TT_NAME_BYTES];
};

uint64_t tt_expire_due(const tt_control *control, tt_request *request, uint64_t now_ns)
{
    const uint64_t patience_ns =
        request->deadline_ns > 0 ? request->deadline_ns : control->config.deadline_ns;
    if (request->due_ns == 0) {
        request->due_ns = patience_ns > 0 ? now_ns + patience_ns : UINT64_MAX;
    }
    TT_DEBUG_ASSERT(request->due_ns > 0);
    return request->due_ns;
}

/* ---- stand-ins ---- */

static void stand_in_finished(tt_request *request)
{
    tt_stand_in *stand_in = request->owner;
    TT_ASSERT(request == &stand_in->request && request->is_lost);
    tt_control *control = stand_in->control;
    tt_set *set = tt_set_find(control, request->set);
    TT_ASSERT(set == NULL || set->stand_in_count > 0);
    stand_in->next = control->names->free_stand_ins;
    control->names->free_stand_ins = stand_in;
    if (set != NULL && --set->stand_in_count == 0 && set->is_join_held) {
        tt_host_touch(control, set);
    }
}

void tt_expire_release_all(tt_control *control)
{
    tt_names *names = control->names;
    while (names->free_stand_ins != NULL) {
        tt_stand_in *next = names->free_stand_ins->next;
        tt_platform_release(control->platform, names->free_stand_ins, sizeof(*next));
        names->free_stand_ins = next;
    }
}

static tt_stand_in *stand_in_take(tt_control *control)
{
    tt_names *names = control->names;
    tt_stand_in *stand_in = names->free_stand_ins;
    if (stand_in != NULL) {
        names->free_stand_ins = stand_in->next;
        return stand_in;
    }
    return tt_platform_allocate(control->platform, sizeof(*stand_in));
}

static const char *copy_name(char *target, const char *name)
{
    if (name == NULL) {
        return NULL;
    }
    TT_ASSERT(strlen(name) < TT_NAME_BYTES);
    memcpy(target, name, strlen(name) + 1);
    return target;
}

/* A stand-in with the claim of `request`; it objects with `text`. NULL: no memory. */
static tt_request *stand_in_make(tt_control *control, tt_set *set, const tt_request *request,
                                 const tt_text *text)
{
    tt_claim claim;
    TT_ASSERT(!request->is_lost && request->name != NULL);
    tt_stand_in *stand_in = stand_in_take(control);
    if (stand_in == NULL) {
        return NULL;
    }
    tt_claim_make(&claim, request, set->size);
    stand_in->control = control;
    set->stand_in_count++;
    stand_in->request = (tt_request){
        .collective = request->collective,
        .dtype = request->dtype,
        .redop = request->redop,
        .set = request->set,
        .root = request->root,
        .urgency = request->urgency,
        .segment_bytes = request->segment_bytes,
        .name = copy_name(stand_in->name, request->name),
        .group = copy_name(stand_in->group, request->group),
        .group_size = request->group_size,
        .is_alone = request->is_alone,
        .is_tuned = request->is_tuned,
        .is_by_active = request->is_by_active,
        .count = request->count,
        .is_uneven = request->is_uneven,
        .program = request->program,
        .salt = claim.salt, /* includes the counts, which were in the caller's memory */
        .objection = TT_ERR_TIMED_OUT,
        .prescale = request->prescale,
        .postscale = request->postscale,
        .finished = stand_in_finished,
        .owner = stand_in,
        .named = request->named,
        .is_regrouped = request->is_regrouped,
        .is_apart = request->is_apart,
        .due_ns = UINT64_MAX,
        .is_lost = true,
    };
    memcpy(stand_in->request.shape, claim.shape, sizeof(claim.shape));
    memcpy(stand_in->request.error, text->bytes, sizeof(stand_in->request.error));
    return &stand_in->request;
}

bool tt_expire_is_over(const tt_name *name)
{
    bool is_over = name->member_count > 0;
    for (uint32_t i = 0; is_over && i < name->member_count; i++) {
        is_over = name->members[i]->is_lost;
    }
    return is_over;
}

/* ---- the end of requests whose peers do not answer ---- */

/* Members of a group that the library made have deadlines of their own. */
static bool is_to_end(const tt_name *name, const tt_request *request, uint64_t now_ns)
{
    return !request->is_lost && (name->layout == 0 || request->due_ns <= now_ns);
}

static void tell_all(tt_control *control, tt_request *ended, const tt_text *text)
{
    while (ended != NULL) {
        tt_request *request = ended;
        TT_ASSERT(!request->is_lost && request->op == NULL);
        ended = request->next_later;
        control->counters.ops_failed++;
        tt_request_refuse(request, TT_ERR_TIMED_OUT, text->bytes);
    }
}

/* Without memory for a stand-in its request waits for the next patrol. If there is none then
 * either, the call fails together with all open calls of this rank. */
static void starve_overdue(tt_control *control, const tt_name *name, const tt_request *request,
                           uint64_t now_ns)
{
    TT_ASSERT(!request->is_lost);
    const uint64_t since_ns = name->expired_ns > 0 ? name->expired_ns : request->due_ns;
    if (now_ns >= request->due_ns && now_ns - since_ns >= EXPIRY_END_NS + PATROL_NS / 2) {
        tt_name_starve(control);
    }
}

/* True: requests have ended. */
static bool end_here(tt_control *control, tt_name *name, uint64_t now_ns, const tt_text *text)
{
    TT_ASSERT(name->phase != NAME_RUNNING && name->phase != NAME_IDLE);
    tt_request *ended = NULL, **end = &ended;
    name->deadline_ns = UINT64_MAX;
    for (uint32_t i = 0; i < name->member_count; i++) {
        tt_request *request = name->members[i];
        tt_request *stand_in = is_to_end(name, request, now_ns)
                                   ? stand_in_make(control, name->set, request, text)
                                   : NULL;
        if (stand_in != NULL) {
            tt_group_replace(name, i, stand_in);
            request->next_later = NULL;
            *end = request;
            end = &request->next_later;
        } else if (!request->is_lost) {
            name->deadline_ns = tt_min_u64(name->deadline_ns, request->due_ns);
            starve_overdue(control, name, request, now_ns);
        }
    }
    const bool has_ended = ended != NULL;
    tell_all(control, ended, text);
    return has_ended;
}

bool tt_expire_waiting(tt_control *control, tt_name *name, uint64_t now_ns)
{
    TT_ASSERT(name->phase == NAME_WAITING);
    if (TT_PLANT(NAMED_DEADLINE_IGNORED)) {
        return false;
    }
    if (now_ns < name->deadline_ns && name->expired_ns == 0) {
        if (name->deadline_ns - now_ns < PATROL_NS) {
            tt_control_due(control, name->deadline_ns);
        }
        return false;
    }
    if (name->expired_ns == 0) {
        name->expired_ns = now_ns;
        tt_negotiator_survey(name->set->negotiator, &name->ticket);
        tt_control_due(control, now_ns + EXPIRY_TELL_NS);
        return false;
    }
    TT_ASSERT(now_ns >= name->expired_ns);
    const uint64_t over_ns = now_ns - name->expired_ns;
    if (over_ns >= EXPIRY_TELL_NS && !name->ticket.is_given_up) {
        (void)tt_negotiator_expire(name->set->negotiator, &name->ticket);
        tt_host_touch(control, name->set);
        if (over_ns < EXPIRY_END_NS) { /* else the stand-in waits for the patrol */
            tt_control_due(control, name->expired_ns + EXPIRY_END_NS);
        }
    }
    if (over_ns < EXPIRY_END_NS || now_ns < name->deadline_ns) {
        return false;
    }
    tt_text text = {0};
    tt_text_add(&text, "tensor ");
    tt_text_add_quoted(&text, name->name, sizeof(name->name));
    tt_text_add(&text, ": ");
    tt_negotiator_say_expired(name->set->negotiator, &name->ticket, &text);
    return end_here(control, name, now_ns, &text);
}

bool tt_expire_incomplete(tt_control *control, tt_name *name, uint64_t now_ns)
{
    TT_ASSERT(name->phase != NAME_WAITING && name->kind == NAME_GROUP);
    if (now_ns < name->deadline_ns) {
        return false;
    }
    tt_text text = {0};
    tt_text_add(&text, "rank %u: group ", control->world.rank);
    tt_text_add_quoted(&text, name->name, sizeof(name->name));
    tt_text_add(&text, ": incomplete at its deadline: %u of %u members submitted",
                name->member_count, name->member_max);
    if (name->objection == TT_OK) { /* the group fails with it when it is complete */
        name->objection = TT_ERR_TIMED_OUT;
        memcpy(name->error, text.bytes, sizeof(name->error));
    }
    return end_here(control, name, now_ns, &text);
}

void tt_expire_behind(tt_control *control, tt_name *name, uint64_t now_ns)
{
    tt_request *ended = NULL, **end = &ended;
    tt_text text = {0};
    for (tt_request **link = &name->behind; *link != NULL; link = &(*link)->next_later) {
        tt_request *request = *link;
        TT_ASSERT(request->named == NULL);
        if (request->is_lost || now_ns < request->due_ns) {
            continue;
        }
        if (text.length == 0) {
            tt_text_add(&text, "tensor ");
            tt_text_add_quoted(&text, request->name, TT_NAME_BYTES);
            tt_text_add(&text,
                        ": an earlier call of this name has ended on rank %u, but not on "
                        "all ranks",
                        control->world.rank);
        }
        tt_request *stand_in = stand_in_make(control, name->set, request, &text);
        if (stand_in == NULL) {
            starve_overdue(control, name, request, now_ns);
            break; /* at the next patrol */
        }
        stand_in->named = NULL;
        stand_in->next_later = request->next_later;
        *link = stand_in;
        request->next_later = NULL;
        *end = request;
        end = &request->next_later;
    }
    tell_all(control, ended, &text);
}
