/* SPDX-License-Identifier: Apache-2.0
 *
 * name.c - records of names: found, used by a call, kept for the next; and a spare one.
 *
 * A request's name is in use from submission until the request is over, through negotiation and
 * exchange: a second request of that name is refused at once, on this rank only. So at most one
 * occurrence of a planned tensor is open on a rank.
 *
 * A request that repeats a planned tensor needs no ticket: if the negotiator reports that the
 * plan continues, and the claim is the planned one, it takes its next occurrence at once.
 *
 * A call for which there is no memory must fail on all ranks, so one spare record is always kept:
 * it takes the call's place and reports to the peers. If that is in use, or the negotiator has no
 * memory, a single call cannot be failed, and this rank aborts (as tutti_abort does): all its calls
 * end with NO_MEMORY, its peers exclude it, and their errors give the reason.
 */
#include "control/named/name.h"

#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/plant.h"
#include "kernel/hash64.h"

const tt_policy_row tt_policies[] = {
    [POLICY_ALONE] = {DUE_AT_ONCE, LATE_AT_DEADLINE, THEN_CANCELLED, FAILS_WHOLE},
    [POLICY_GROUP] = {DUE_WHOLE, LATE_AT_DEADLINE, THEN_FAILED, FAILS_WHOLE},
    [POLICY_LIBRARY] = {DUE_WHOLE, LATE_BY_STEPS, THEN_DISSOLVED, FAILS_WHOLE},
    [POLICY_AGREED] = {DUE_AT_LIST_END, LATE_NEVER, THEN_NOTHING, FAILS_WHOLE},
    [POLICY_PLANNED] = {DUE_WHOLE, LATE_BY_WAITS, THEN_REFUSED, FAILS_ALONE},
    [POLICY_STAND_IN] = {DUE_AT_ONCE, LATE_NEVER, THEN_NOTHING, FAILS_WHOLE},
};

void tt_name_set_phase(tt_name *name, tt_name_phase phase)
{
    enum {
        FREE = 1 << NAME_FREE,
        IDLE = 1 << NAME_IDLE,
        GATHERING = 1 << NAME_GATHERING,
        WAITING = 1 << NAME_WAITING,
        APART = 1 << NAME_APART,
        RUNNING = 1 << NAME_RUNNING,
        MEMBER = 1 << NAME_MEMBER,
    };
    static const uint8_t after[] = {
        [NAME_FREE] = IDLE,
        [NAME_IDLE] = FREE | GATHERING | RUNNING | MEMBER, /* RUNNING: it repeats a planned one */
        [NAME_GATHERING] = WAITING | APART | RUNNING,
        [NAME_WAITING] = APART | RUNNING,
        [NAME_APART] = RUNNING,
        [NAME_RUNNING] = IDLE,
        [NAME_MEMBER] = IDLE,
    };
    TT_ASSERT((after[name->phase] >> phase & 1) != 0);
    name->phase = phase;
}

/* ---- records ---- */

tt_name *tt_name_find(const tt_control *control, const tt_set *set, const char *text,
                      tt_name_kind kind)
{
    const uint64_t hash = tt_hash64(text, strlen(text), set->id);
    tt_name *name = control->names->buckets[hash % NAME_BUCKETS];
    while (name != NULL && (name->hash != hash || name->set != set || name->kind != kind ||
                            strcmp(name->name, text) != 0)) {
        name = name->next;
    }
    TT_DEBUG_ASSERT(name == NULL || name->phase != NAME_FREE);
    return name;
}

/* The record of the request's own name; NULL: there is none. */
static tt_name *name_of(const tt_control *control, const tt_set *set, tt_request *request)
{
    tt_name *name = request->name_hint;
    if (name != NULL && name->stamp == request->name_stamp) {
        TT_ASSERT(name->set == set && name->phase != NAME_FREE);
        TT_DEBUG_ASSERT(strcmp(name->name, request->name) == 0);
        return name;
    }
    name = tt_name_find(control, set, request->name, NAME_TENSOR);
    request->name_hint = name;
    request->name_stamp = name != NULL ? name->stamp : 0;
    return name;
}

static void idle_remove(tt_names *names, tt_name *name)
{
    TT_ASSERT(name->phase == NAME_IDLE && names->idle_count > 0);
    *(name->before != NULL ? &name->before->after : &names->newest) = name->after;
    *(name->after != NULL ? &name->after->before : &names->oldest) = name->before;
    name->after = name->before = NULL;
    names->idle_count--;
}

static void idle_push(tt_names *names, tt_name *name)
{
    TT_ASSERT(name->phase == NAME_IDLE && name->after == NULL && name->before == NULL);
    name->after = names->newest;
    *(names->newest != NULL ? &names->newest->before : &names->oldest) = name;
    names->newest = name;
    names->idle_count++;
}

/* Free an idle record that is in no list of idle ones: hints to it become invalid. */
static void record_free(tt_control *control, tt_name *name)
{
    TT_ASSERT(name->after == NULL && name->before == NULL && name->behind == NULL);
    tt_names *names = control->names;
    tt_name **link = &names->buckets[name->hash % NAME_BUCKETS];
    while (*link != name) {
        TT_ASSERT(*link != NULL);
        link = &(*link)->next;
    }
    *link = name->next;
    tt_name_set_phase(name, NAME_FREE);
    name->stamp = ++names->last_stamp;
    if (name->members != &name->request) {
        tt_platform_release(control->platform, name->members,
                            name->member_room * sizeof(*name->members));
        name->members = &name->request;
        name->member_room = 0;
    }
    tt_name **list = names->spare == NULL ? &names->spare : &names->free;
    name->next = *list;
    *list = name;
}

static void free_oldest(tt_control *control)
{
    tt_name *name = control->names->oldest;
    TT_ASSERT(name->after == NULL); /* nothing is older */
    idle_remove(control->names, name);
    record_free(control, name);
}

static tt_name *record_make(tt_control *control)
{
    tt_name *name = tt_platform_allocate(control->platform, sizeof(*name));
    if (name != NULL) {
        name->bid = name->bid_short;
        name->bid_capacity = sizeof(name->bid_short);
        name->members = &name->request;
        TT_ASSERT(name->phase == NAME_FREE && name->stamp == 0);
    }
    return name;
}

bool tt_name_spare(tt_control *control)
{
    if (control->names->spare == NULL) {
        control->names->spare = record_make(control);
    }
    TT_ASSERT(control->names->spare == NULL || control->names->spare->phase == NAME_FREE);
    return control->names->spare != NULL;
}

/* A free record; NULL: no memory. */
static tt_name *record_take(tt_control *control)
{
    tt_names *names = control->names;
    tt_name *name = names->free;
    if (name == NULL) {
        name = record_make(control);
        if (name == NULL && names->oldest != NULL) {
            free_oldest(control);
            name = names->free;
        }
    }
    const bool is_starved = name == NULL;
    if (is_starved) {
        name = names->spare;
        names->spare = NULL;
    } else if (name == names->free) {
        names->free = name->next;
    }
    if (name != NULL) {
        TT_ASSERT(name->phase == NAME_FREE);
        name->is_starved = is_starved;
    }
    return name;
}

static void record_enter(tt_control *control, tt_set *set, tt_name *name, const char *text,
                         tt_name_kind kind)
{
    tt_names *names = control->names;
    const size_t bytes = strlen(text);
    TT_ASSERT(name->phase == NAME_FREE && bytes < sizeof(name->name));
    memcpy(name->name, text, bytes + 1);
    name->set = set;
    name->kind = kind;
    name->hash = tt_hash64(text, bytes, set->id);
    name->stamp = ++names->last_stamp;
    name->has_bid = false;
    name->slot = UINT32_MAX;
    name->group = NULL;
    name->ticket = (tt_ticket){.name = name->name, .name_bytes = (uint16_t)bytes, .owner = name};
    tt_name **bucket = &names->buckets[name->hash % NAME_BUCKETS];
    name->next = *bucket;
    *bucket = name;
    tt_name_set_phase(name, NAME_IDLE);
}

/* The name's own record or a new one, idle but in no list; NULL: no memory. */
static tt_name *take(tt_control *control, tt_set *set, const char *text, tt_name_kind kind)
{
    tt_name *name = tt_name_find(control, set, text, kind);
    if (name != NULL && name->phase == NAME_IDLE) {
        idle_remove(control->names, name);
        name->is_starved = false;
    } else {
        name = record_take(control);
        if (name == NULL) {
            return NULL;
        }
        record_enter(control, set, name, text, kind);
    }
    TT_DEBUG_ASSERT(name->phase == NAME_IDLE && name->set == set && name->kind == kind);
    name->request = NULL;
    name->member_count = name->member_max = name->open_count = 0;
    name->is_apart = false;
    name->policy = POLICY_ALONE;
    name->layout = 0;
    name->expired_ns = 0;
    name->status = name->objection = TT_OK;
    name->behind = NULL;
    return name;
}

tt_name *tt_name_open(tt_control *control, tt_set *set, const char *text, tt_name_kind kind)
{
    tt_names *names = control->names;
    tt_name *name = take(control, set, text, kind);
    if (name == NULL) {
        return NULL;
    }
    tt_name *tensor = kind == NAME_GROUP ? tt_name_find(control, set, text, NAME_TENSOR) : NULL;
    if (tensor != NULL) {
        tensor->slot = UINT32_MAX; /* the group now decides about the plan of this name */
    }
    tt_name_set_phase(name, NAME_GATHERING);
    TT_ASSERT(names->waiting == NULL || names->waiting->before == NULL);
    name->submitted_ns = tt_now(control->platform);
    name->after = names->waiting;
    if (names->waiting != NULL) {
        names->waiting->before = name;
    }
    names->waiting = name;
    control->pending++;
    return name;
}

tt_name *tt_name_open_member(tt_control *control, tt_name *group, tt_request *request)
{
    TT_ASSERT(group->kind == NAME_GROUP && group->member_count < group->member_max);
    tt_name *name = take(control, group->set, request->name, NAME_TENSOR);
    if (name != NULL) {
        tt_name_set_phase(name, NAME_MEMBER);
        name->group = group;
        name->request = request;
        request->name_hint = name;
        request->name_stamp = name->stamp;
    }
    return name;
}

void tt_name_stop_waiting(tt_control *control, tt_name *name)
{
    tt_names *names = control->names;
    TT_ASSERT(control->pending > 0 && name->open_count == 0);
    if (name->after != NULL) {
        name->after->before = name->before;
    }
    if (name->before != NULL) {
        name->before->after = name->after;
    } else {
        TT_ASSERT(names->waiting == name);
        names->waiting = name->after;
    }
    name->after = name->before = NULL;
    tt_name_set_phase(name, NAME_RUNNING);
    control->pending--;
}

void tt_name_close(tt_control *control, tt_name *name)
{
    tt_names *names = control->names;
    TT_DEBUG_ASSERT(name->open_count == 0 && name->after == NULL && name->before == NULL);
    if (name->behind != NULL) {
        tt_request **end = &name->behind;
        while (*end != NULL) {
            end = &(*end)->next_later;
        }
        *end = names->later; /* the rest of that list was submitted after them */
        names->later = name->behind;
        name->behind = NULL;
        tt_host_touch(control, name->set); /* not from inside the negotiator */
    }
    name->group = NULL;
    tt_name_set_phase(name, NAME_IDLE);
    if (names->spare == NULL) {
        record_free(control, name);
        return;
    }
    idle_push(names, name);
    if (names->idle_count > NAMES_IDLE_MAX) {
        free_oldest(control);
        TT_DEBUG_ASSERT(names->idle_count == NAMES_IDLE_MAX);
    }
}

void tt_name_forget_set(tt_control *control, const tt_set *set)
{
    for (uint32_t i = 0; control->names != NULL && i < NAME_BUCKETS; i++) {
        tt_name *next;
        for (tt_name *name = control->names->buckets[i]; name != NULL; name = next) {
            next = name->next;
            if (name->set == set) {
                idle_remove(control->names, name);
                record_free(control, name);
            }
        }
    }
}

static void release_list(tt_control *control, tt_name *name)
{
    while (name != NULL) {
        tt_name *next = name->next;
        TT_ASSERT(name->phase == NAME_FREE);
        if (name->bid != name->bid_short) {
            tt_platform_release(control->platform, name->bid, name->bid_capacity);
        }
        tt_platform_release(control->platform, name, sizeof(*name));
        name = next;
    }
}

void tt_name_release_all(tt_control *control)
{
    tt_names *names = control->names;
    TT_ASSERT(names->waiting == NULL);
    TT_ASSERT(names->apart == NULL && names->later == NULL); /* they are pending */
    while (names->oldest != NULL) {
        free_oldest(control);
    }
    TT_ASSERT(names->newest == NULL && names->idle_count == 0);
    release_list(control, names->free);
    release_list(control, names->spare);
}

/* ---- ends ---- */

/* The text may be part of the request's own. */
static void error_set(tt_request *request, const char *text)
{
    tt_text error = {0};
    TT_DEBUG_ASSERT(text != NULL);
    tt_text_add(&error, "%s", text);
    memcpy(request->error, error.bytes, sizeof(request->error));
}

static void request_tell(tt_request *request, tt_status status, const char *text)
{
    if (status == TT_OK) {
        request->error[0] = 0;
    } else if (text != request->error) {
        error_set(request, text);
    }
    request->named = NULL;
    request->op = NULL;
    request->is_apart = false;
    request->status = status;
    request->finished(request);
}

void tt_request_refuse(tt_request *request, tt_status status, const char *text)
{
    TT_ASSERT(status < 0);
    request_tell(request, status, text);
}

void tt_name_object(tt_name *name, tt_status status, const char *text)
{
    TT_ASSERT(status <= TT_OK);
    name->objection = status;
    if (text != name->error) {
        tt_text words = {0};
        tt_text_add(&words, "%s", text);
        memcpy(name->error, words.bytes, sizeof(name->error));
    }
}

static void end_named(tt_request *request, tt_status status, const char *text)
{
    tt_name *name = request->named;
    TT_ASSERT(name->phase == NAME_RUNNING && name->open_count > 0);
    tt_control *control = name->set->control;
    name->open_count--;
    if (name->kind == NAME_TENSOR) {
        TT_ASSERT(name->request == request);
        name->recipe = request->recipe;
        name->recipe_stamp = request->recipe_stamp;
        tt_name_close(control, name);
        request_tell(request, status, text);
        return;
    }
    TT_DEBUG_ASSERT(name->open_count < name->member_count);
    if (status < 0 && name->status == TT_OK) {
        tt_name_object(name, name->objection, text);
        name->status = status;
    }
    if (name->open_count > 0) {
        request->op = NULL; /* it may serve another call by now: a cancel must not find it */
        return;
    }
    tt_group_empty(control, name);
    for (uint32_t i = 0; i < name->member_count && control->feedbacks.count > 0; i++) {
        tt_feedback_settle_part(control, name->members[i], name->status);
    }
    for (uint32_t i = 0; i < name->member_count; i++) {
        request_tell(name->members[i], name->status, name->error);
    }
    tt_name_close(control, name);
}

bool tt_name_is_grouped(const tt_request *request)
{
    return request->named != NULL && request->named->kind == NAME_GROUP;
}

void tt_request_end(tt_request *request, tt_status status, const char *text)
{
    TT_DEBUG_ASSERT(status <= TT_OK);
    if (request->named == NULL) {
        request_tell(request, status, text);
    } else {
        end_named(request, status, text);
    }
}

void tt_name_refuse(tt_control *control, tt_name *name, tt_status status, const char *text)
{
    tt_text kept = {0};
    tt_text_add(&kept, "%s", text); /* a copy: `text` may belong to a request that ends now */
    tt_group_forget(control, name);
    if (name->phase != NAME_RUNNING) {
        tt_name_stop_waiting(control, name);
    }
    control->counters.ops_failed++;
    if (name->member_count == 0) {
        tt_name_close(control, name);
        return;
    }
    TT_ASSERT(name->phase == NAME_RUNNING && name->open_count == 0);
    name->open_count = name->member_count;
    for (uint32_t i = 0, count = name->member_count; i < count; i++) {
        tt_request_end(name->members[i], status, kept.bytes); /* the last closes `name` */
    }
}

/* ---- out of memory ---- */

#define STARVED "out of memory for named calls; raise its limit, or run fewer ranks on its host"

void tt_name_say_starved(const tt_control *control, tt_text *text)
{
    tt_text_add(text, "rank %u is " STARVED, control->world.rank);
}

void tt_name_starve(tt_control *control)
{
    if (control->is_starved) {
        return;
    }
    TT_ASSERT(!control->is_starving); /* those calls end once */
    tt_text text = {0};
    tt_name_say_starved(control, &text);
    control->is_starved = control->is_starving = control->is_touched = true;
    for (tt_set *set = control->sets; set != NULL; set = set->next) {
        if (set->broken != TT_ERR_PEER_DOWN) {
            set->broken = TT_ERR_NO_MEMORY;
            memcpy(set->broken_text, text.bytes, sizeof(set->broken_text));
        }
    }
    if (!TT_PLANT(STARVED_IN_SILENCE)) {
        tt_control_give_up(control, STARVED);
    }
}

void tt_name_refuse_starved(tt_control *control, tt_request *request)
{
    tt_text text = {0};
    tt_name_say_starved(control, &text);
    tt_name_starve(control);
    tt_request_refuse(request, TT_ERR_NO_MEMORY, text.bytes);
}

void tt_name_end_starved(tt_control *control)
{
    TT_ASSERT(control->is_starved && control->is_starving);
    tt_text text = {0};
    tt_name_say_starved(control, &text);
    control->is_starving = false;
    for (tt_set *set = control->sets; set != NULL; set = set->next) {
        tt_host_shut(control, set, TT_ERR_NO_MEMORY, text.bytes); /* unless it is shut */
    }
    for (uint32_t i = 0; i < control->op_count; i++) {
        tt_op_fail(control->ops[i], TT_ERR_NO_MEMORY, text.bytes);
    }
}

/* ---- waiting for an earlier one of the name ---- */

bool tt_name_wait_behind(tt_control *control, tt_name *open, tt_request *request)
{
    TT_ASSERT(open->phase != NAME_FREE && open->phase != NAME_IDLE);
    const bool is_whole = open->member_count >= open->member_max;
    const tt_request *first = tt_group_member(control, open->set, request->name);
    if (first == NULL && open->layout == 0 && is_whole && open->member_count > 0) {
        first = open->members[0];
    }
    if (first == NULL || first->objection >= 0 || (!is_whole && !first->is_lost)) {
        return false;
    }
    tt_request **end = &open->behind;
    while (*end != NULL) {
        if (!(*end)->is_lost && strcmp((*end)->name, request->name) == 0) {
            return false;
        }
        end = &(*end)->next_later;
    }
    *end = request;
    request->next_later = NULL;
    (void)tt_expire_due(control, request, tt_now(control->platform));
    control->pending++;
    return true;
}

void tt_name_submit_later(tt_control *control)
{
    while (control->names != NULL && control->names->later != NULL) {
        tt_request *request = control->names->later;
        TT_ASSERT(control->pending > 0 && request->named == NULL);
        control->names->later = request->next_later;
        control->pending--;
        tt_request_submit_again(control, request);
    }
}

/* ---- submission ---- */

void tt_name_offer(tt_control *control, tt_name *name, const tt_failure *objection)
{
    if (objection != NULL) {
        tt_name_object(name, objection->status, objection->text);
    }
    if (objection != NULL || !tt_bid_is_of(name, name->request)) {
        tt_bid_make(control, name, objection);
        name->slot = UINT32_MAX;
    }
    TT_ASSERT(tt_policies[name->policy].due == DUE_AT_ONCE || name->is_apart ||
              name->member_count == name->member_max);
    TT_ASSERT(name->ticket.claim == name->bid && name->ticket.claim_bytes > 0);
    name->ticket.is_given_up = false;
    name->ticket.asked_ns = 0;
    tt_name_set_phase(name, NAME_WAITING);
    tt_negotiator_submit(name->set->negotiator, &name->ticket);
}

/* The user's group, or one that the library made; false: none. */
static bool membership_of(tt_set *set, const tt_request *request, tt_membership *membership_out)
{
    if (request->group == NULL || request->is_apart) {
        return set->layout != NULL && !request->is_apart &&
               tt_layout_take(set, request->name, membership_out);
    }
    TT_ASSERT(strlen(request->group) < sizeof(membership_out->name));
    memcpy(membership_out->name, request->group, strlen(request->group) + 1);
    membership_out->size = request->group_size;
    membership_out->number = 0;
    return true;
}

static void submit_single(tt_control *control, tt_set *set, tt_request *request,
                          const tt_failure *objection)
{
    TT_ASSERT(request->group == NULL || request->is_apart);
    tt_name *name = tt_name_open(control, set, request->name, NAME_TENSOR);
    if (name == NULL) {
        tt_name_refuse_starved(control, request);
        return;
    }
    name->deadline_ns = tt_expire_due(control, request, name->submitted_ns);
    name->request = request;
    name->member_count = 1;
    request->named = request->name_hint = name;
    request->name_stamp = name->stamp;
    tt_text text;
    tt_text_clear(&text);
    const tt_failure starved = {.status = TT_ERR_NO_MEMORY, .text = text.bytes};
    if (name->is_starved) {
        tt_text_add(&text, "rank %u is out of memory for a named call", control->world.rank);
    }
    tt_name_offer(control, name, name->is_starved ? &starved : objection);
    if (name->phase != NAME_RUNNING) {
        tt_host_touch(control, set);
    }
}

/* The open use of the request's name on this rank: by itself, as a group, or in another group. */
static tt_name *open_under(const tt_control *control, const tt_set *set, tt_request *request)
{
    tt_name *name = name_of(control, set, request);
    if (name != NULL && name->phase == NAME_MEMBER) {
        tt_name *group = name->group;
        TT_ASSERT(group->kind == NAME_GROUP && group->phase != NAME_IDLE);
        const bool is_own = request->group != NULL && group->policy == POLICY_GROUP &&
                            strcmp(group->name, request->group) == 0;
        return is_own ? NULL : group;
    }
    if (name != NULL && name->phase != NAME_IDLE &&
        !(TT_PLANT(NAME_FREE_TOO_EARLY) && name->phase == NAME_RUNNING)) {
        return name;
    }
    name = request->group == NULL ? tt_name_find(control, set, request->name, NAME_GROUP) : NULL;
    return name != NULL && name->phase != NAME_IDLE ? name : NULL;
}

void tt_name_submit(tt_control *control, tt_set *set, tt_request *request,
                    const tt_failure *objection)
{
    tt_status status;
    const char *why = tt_host_refusal(set, request, &status);
    if (why == NULL && tt_host_ready(control, set) != TT_OK) {
        tt_name_refuse_starved(control, request);
        return;
    }
    if (why != NULL) {
        tt_request_refuse(request, status, why);
        return;
    }
    TT_ASSERT(set->shut == TT_OK && !control->is_starved);
    request->op = NULL;
    request->named = NULL;
    request->has_strays = request->is_regrouped = false;
    tt_control_watch(control);
    tt_name *open = open_under(control, set, request);
    if (open == NULL) { /* else it is refused, even if the first would be over after this */
        tt_group_flush(control); /* so that names in use are found */
        open = open_under(control, set, request);
    }
    if (open != NULL && !TT_PLANT(NAME_TAKEN_TWICE)) {
        if (tt_name_wait_behind(control, open, request)) {
            return;
        }
        tt_text text = {0};
        tt_text_add(&text, "tensor ");
        tt_text_add_quoted(&text, request->name, TT_NAME_BYTES);
        tt_text_add(&text, " is submitted already and not over yet; wait for it, or give this "
                           "one another name");
        tt_request_refuse(request, TT_ERR_BAD_ARGUMENT, text.bytes);
        return;
    }
    tt_membership membership;
    if (membership_of(set, request, &membership)) {
        tt_group_submit(control, set, request, &membership, objection);
        tt_host_touch(control, set);
        return;
    }
    submit_single(control, set, request, objection);
}

/* Can the set's plan continue, as far as this rank knows? */
static bool is_smooth(const tt_set *set)
{
    const tt_control *control = set->control;
    const tt_names *names = control->names;
    return set->phase == SET_OPEN && set->broken == TT_OK && set->shut == TT_OK &&
           set->join == NULL && control->shut_down == TT_OK && !control->is_starved &&
           names->later == NULL && names->apart == NULL;
}

/* For an agreed claim tt_request_check could find no other error. */
static bool has_buffers(const tt_set *set, const tt_request *request)
{
    if (request->collective != TT_ALLREDUCE) {
        tt_text text;
        tt_text_clear(&text);
        return tt_request_check(request, set->self, set->size, &text) == TT_OK;
    }
    const uintptr_t input = (uintptr_t)request->input, output = (uintptr_t)request->output;
    const uint64_t distance = input > output ? input - output : output - input;
    return request->count == 0 ||
           (input != 0 && (output != 0 || request->allocate != NULL) &&
            (request->output_capacity == 0 || request->output_capacity >= request->count) &&
            (distance == 0 || distance >= request->count * tt_dtype_bytes(request->dtype)));
}

/* Does the request have the planned claim and valid buffers? */
static bool is_as_planned(tt_control *control, tt_name *name, tt_request *request)
{
    request->segment_bytes = control->config.segment_bytes;
    request->is_tuned = tt_request_is_tuned(control, request);
    return request->group == NULL && request->objection == TT_OK && !request->is_join &&
           tt_bid_is_of(name, request) && has_buffers(name->set, request);
}

bool tt_name_repeat(tt_control *control, tt_request *request)
{
    tt_set *set = tt_set_find(control, request->set);
    if (control->names == NULL || set == NULL || !is_smooth(set)) {
        return false;
    }
    tt_name *name = name_of(control, set, request);
    if (name == NULL || name->phase != NAME_IDLE || name->slot == UINT32_MAX ||
        !is_as_planned(control, name, request)) {
        return false;
    }
    const tt_agreement item = {
        .ticket = &name->ticket,
        .name = name->name,
        .name_bytes = name->ticket.name_bytes,
        .claim = name->ticket.claim,
        .claim_bytes = name->ticket.claim_bytes,
        .active = set->size,
        .order = tt_negotiator_next(set->negotiator, name->slot, name->generation, name->index),
        .index = name->index,
        .generation = name->generation,
        .slot = name->slot,
        .bundle = name->bundle,
        .bundle_size = name->bundle_size,
        .bundle_place = name->bundle_place,
    };
    if (item.order == 0) {
        return false;
    }
    TT_DEBUG_ASSERT(name->kind == NAME_TENSOR && name->policy == POLICY_ALONE);
    TT_DEBUG_ASSERT(item.bundle_size == 0 || item.bundle_place < item.bundle_size);
    tt_negotiator_repeat(set->negotiator, name->slot);
    idle_remove(control->names, name);
    tt_name_set_phase(name, NAME_RUNNING);
    request->due_ns = 0;
    request->op = NULL;
    request->named = name;
    request->has_strays = request->is_regrouped = false;
    if (request->recipe == NULL) {
        request->recipe = name->recipe;
        request->recipe_stamp = name->recipe_stamp;
    }
    name->request = request;
    TT_DEBUG_ASSERT(name->open_count == 0 && name->behind == NULL);
    name->open_count = 1;
    name->status = name->objection = TT_OK;
    name->expired_ns = 0;
    name->submitted_ns = tt_now(control->platform);
    name->deadline_ns = tt_expire_due(control, request, name->submitted_ns);
    tt_control_watch(control);
    tt_host_begin_planned(control, set, &item, name->submitted_ns);
    return true;
}

bool tt_name_cancel(tt_control *control, tt_request *request)
{
    tt_name *name = request->named;
    if (name == NULL || name->phase == NAME_RUNNING) {
        return false;
    }
    TT_ASSERT(name->phase != NAME_FREE && name->phase != NAME_IDLE);
    const bool is_waiting = name->phase == NAME_WAITING;
    if (name->policy == POLICY_LIBRARY) { /* alone, when the group is dissolved */
        request->is_taken_back = true;
        if (!is_waiting && !name->is_apart) {
            tt_group_give_up(control, name);
        } else if (!name->is_apart) {
            request->is_taken_back = tt_negotiator_cancel(name->set->negotiator, &name->ticket);
            tt_host_touch(control, name->set);
        }
        return request->is_taken_back;
    }
    if (!is_waiting) { /* of an incomplete group: it fails when complete */
        tt_text text = {0};
        tt_text_add(&text, "cancelled by rank %u", control->world.rank);
        tt_name_object(name, TT_ERR_CANCELLED, text.bytes);
        return true;
    }
    tt_host_touch(control, name->set);
    return tt_negotiator_cancel(name->set->negotiator, &name->ticket);
}
