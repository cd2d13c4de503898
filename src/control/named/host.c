/* SPDX-License-Identifier: Apache-2.0
 *
 * host.c - the host of a set's negotiator: ends of tickets, timers, joining. */
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/log.h"
#include "base/plant.h"
#include "control/engine.h"
#include "control/named/batch.h"
#include "control/named/name.h"

/* ---- host of a negotiator ---- */

static void *host_allocate(void *owner, size_t bytes)
{
    const tt_set *set = owner;
    return tt_platform_allocate(set->control->platform, bytes);
}

static void host_release(void *owner, void *memory, size_t bytes)
{
    const tt_set *set = owner;
    tt_platform_release(set->control->platform, memory, bytes);
}

static uint64_t host_now(void *owner)
{
    const tt_set *set = owner;
    return tt_now(set->control->platform);
}

static void host_send(void *owner, uint32_t member, const tt_notice *notice)
{
    tt_set *set = owner;
    TT_ASSERT(member < set->size && member != set->self);
    tt_notice_send(set->control, set, member, notice);
}

/* Its ticket has ended: its requests now run. */
static void take_over(tt_control *control, const tt_agreement *item, uint64_t now_ns)
{
    tt_name *name = item->ticket->owner;
    TT_ASSERT(name->phase == NAME_WAITING && item->ticket == &name->ticket);
    tt_name_stop_waiting(control, name);
    control->counters.negotiation_ns += now_ns - name->submitted_ns;
    TT_ASSERT(name->member_count > 0 && now_ns >= name->submitted_ns);
    name->open_count = name->member_count;
}

/* Called after the negotiation, or at once if the plan needed none. */
static void begin(tt_control *control, tt_name *name, uint64_t now_ns)
{
    TT_ASSERT(name->phase == NAME_RUNNING && name->open_count == name->member_count);
    name->begun_ns = now_ns;
    for (uint32_t i = 0; control->tracer != NULL && i < name->member_count; i++) {
        const tt_trace_event event = {.request = name->members[i],
                                      .span = TT_SPAN_NEGOTIATE,
                                      .begin_ns = name->submitted_ns,
                                      .end_ns = now_ns};
        control->tracer->took(control->tracer->owner, &event);
    }
}

static void host_agreed(void *owner, const tt_agreement *items, uint32_t count)
{
    tt_set *set = owner;
    TT_ASSERT(set->self < set->size);
    const uint64_t now_ns = tt_now(set->control->platform);
    for (uint32_t i = 0; i < count; i++) {
        tt_name *name = items[i].ticket != NULL ? items[i].ticket->owner : NULL;
        if (name != NULL && name->is_apart) { /* all claim so, or have joined */
            tt_group_come_apart(set->control, name);
        } else if (name != NULL) {
            take_over(set->control, &items[i], now_ns);
            begin(set->control, name, now_ns);
        }
    }
    tt_layout_watch(set->control, set, items, count);
    tt_run_items(set->control, set, items, count, false);
}

/* The next request of this tensor with the same claim continues the plan. */
static void remember(tt_name *name, const tt_agreement *item)
{
    TT_ASSERT(name->phase == NAME_RUNNING);
    const tt_ticket *ticket = item->ticket;
    const bool is_same = name->kind == NAME_TENSOR && name->has_bid &&
                         ticket->claim_bytes == item->claim_bytes &&
                         memcmp(ticket->claim, item->claim, item->claim_bytes) == 0;
    name->slot = is_same ? item->slot : UINT32_MAX;
    name->generation = item->generation;
    name->index = item->index;
    name->bundle = item->bundle;
    name->bundle_size = item->bundle_size;
    name->bundle_place = item->bundle_place;
}

void tt_host_begin_planned(tt_control *control, tt_set *set, const tt_agreement *item,
                           uint64_t now_ns)
{
    TT_DEBUG_ASSERT(item->bundle_size == 0 || item->bundle_place < item->bundle_size);
    TT_DEBUG_ASSERT(item->rival == NULL);
    if (item->ticket != NULL) {
        begin(control, item->ticket->owner, now_ns);
    }
    const tt_name *name = item->ticket != NULL ? item->ticket->owner : NULL;
    if (item->bundle_size > 0) {
        tt_batch_add(control, set, item);
    } else if (name != NULL && name->kind == NAME_TENSOR && name->objection == TT_OK &&
               !name->is_apart && !name->request->is_lost) {
        tt_run_tensor(control, set, item, name->request);
    } else {
        tt_run_items(control, set, item, 1, true);
    }
}

static void host_planned(void *owner, const tt_agreement *item)
{
    tt_set *set = owner;
    TT_ASSERT(item->rival == NULL || item->ticket == NULL); /* its tensors are in the rival */
    if (item->rival != NULL) {
        tt_regrouped_refuse(set->control, set, item);
        return;
    }
    const uint64_t now_ns = tt_now(set->control->platform);
    if (item->ticket != NULL) {
        take_over(set->control, item, now_ns);
        remember(item->ticket->owner, item);
    }
    tt_host_begin_planned(set->control, set, item, now_ns);
}

static void end_ticket(tt_set *set, tt_name *name, tt_status status, const char *text)
{
    if (text[0] == 0 && status == TT_ERR_MISMATCH) { /* regrouped: the text is in the name */
        text = name->error;
    }
    tt_name_refuse(set->control, name, status, text);
}

static void host_failed(void *owner, tt_ticket *ticket, tt_status status, const char *text)
{
    tt_set *set = owner;
    tt_name *name = ticket->owner;
    TT_ASSERT(ticket == &name->ticket && name->set == set);
    tt_text starved;
    tt_text_clear(&starved);
    if (status == TT_ERR_NO_MEMORY && set->shut == TT_OK) {
        tt_name_starve(set->control); /* the negotiator ran out of memory: peers do not know it */
        tt_name_say_starved(set->control, &starved);
        text = starved.bytes;
    }
    if (tt_group_has_come_apart(name, status, false)) {
        tt_group_come_apart(set->control, name);
        return;
    }
    end_ticket(set, name, status, text);
}

static void host_judged(void *owner, tt_ticket *ticket, tt_status status, const char *text)
{
    tt_set *set = owner;
    tt_name *name = ticket->owner;
    TT_ASSERT(name->phase == NAME_WAITING && name->set == set);
    if (tt_group_has_come_apart(name, status, true)) {
        tt_group_come_apart(set->control, name);
        return;
    }
    tt_name_stop_waiting(set->control, name);
    tt_layout_watch_failed(set->control, set, name->name);
    end_ticket(set, name, status, text);
}

void tt_host_settle_join(tt_set *set)
{
    tt_request *request = set->join;
    const tt_status failure = set->join_failure;
    const bool is_standing_in = set->absent_count > 0 && !TT_PLANT(JOIN_ENDS_EARLY);
    if (request == NULL || (set->joined_last == 0 && failure == TT_OK) || is_standing_in) {
        return; /* others still need this rank */
    }
    TT_ASSERT(set->control->pending > 0 && request->is_join);
    set->join = NULL;
    set->is_join_held = false;
    set->join_failure = TT_OK;
    set->control->pending--;
    if (failure < 0) {
        tt_request_refuse(request, failure, set->shut_text);
        return;
    }
    TT_ASSERT(set->joined_last > 0);
    request->root = set->joined_last - 1;
    set->joined_last = 0;
    request->status = TT_OK;
    request->error[0] = 0;
    request->finished(request);
}

static void host_joined(void *owner, uint32_t last)
{
    tt_set *set = owner;
    (void)tt_layout_begin(set->control, set); /* no rank has a ticket now */
    set->joined_last = last + 1;
    tt_host_settle_join(set);
}

static tt_status host_explain(void *owner, const char *name, const tt_claimant *claimants,
                              uint32_t count, tt_text *text)
{
    return tt_bid_explain(owner, name, claimants, count, text);
}

/* The divisor of an average must be known when the op begins. */
static bool host_may_plan(void *owner, const tt_plannable *item, tt_fusion *fusion)
{
    const tt_set *set = owner;
    tt_bid bid;
    tt_claim claim;
    bool may =
        tt_layout_lets_plan(set, item->name) && tt_bid_read(&bid, item->claim, item->claim_bytes);
    while (may && tt_bid_next(&bid, &claim)) {
        may = (claim.form & CLAIM_BY_ACTIVE) == 0 && !tt_engine_takes_claim(set, &claim);
        tt_run_fuse(&set->control->config, &claim, fusion);
    }
    const bool is_whole = may && bid.objection == TT_OK && !bid.is_digest;
    if (!is_whole || fusion->tensors > TT_BUNDLE_MEMBERS_MAX) {
        fusion->kind = 0;
    }
    TT_ASSERT(may || fusion->kind == 0);
    return may;
}

static void host_report(void *owner, int level, const char *words)
{
    const tt_set *set = owner;
    tt_text text = {0};
    tt_text_add(&text, "%s", words);
    tt_control_report(set->control, level, &text);
}

static const tt_negotiate_host host_table = {
    .allocate = host_allocate,
    .release = host_release,
    .now = host_now,
    .send = host_send,
    .agreed = host_agreed,
    .planned = host_planned,
    .unplanned = tt_batch_unplan,
    .failed = host_failed,
    .judged = host_judged,
    .joined = host_joined,
    .explain = host_explain,
    .part = tt_bid_part,
    .may_plan = host_may_plan,
    .report = host_report,
};

tt_status tt_host_ready(tt_control *control, tt_set *set)
{
    TT_ASSERT(set->self < set->size);
    if (set->negotiator != NULL) {
        return TT_OK;
    }
    tt_platform *platform = control->platform;
    if (control->names == NULL) {
        control->names = tt_platform_allocate(platform, sizeof(*control->names));
    }
    if (set->agreed == NULL) {
        set->agreed = tt_order_create(platform);
    }
    if (control->names == NULL || !tt_name_spare(control) || set->agreed == NULL ||
        tt_batch_reserve(control) != TT_OK) {
        return TT_ERR_NO_MEMORY;
    }
    TT_ASSERT(control->names->batch_count > BATCHES_OPEN_MAX);
    const tt_topology *topology = &set->topology;
    const tt_negotiate_members members = {.size = set->size,
                                          .self = set->self,
                                          .host_count = topology->host_count,
                                          .host_of = topology->host_of,
                                          .host_first = topology->host_first,
                                          .host_members = topology->host_members,
                                          .rank_of = set->members};
    tt_negotiate_host host = host_table;
    host.owner = set;
    tt_negotiate_config config = control->config.negotiate;
    config.epoch = control->world.epoch;
    config.bundle_bytes = control->config.bundle_bytes;
    TT_TRY(tt_layout_begin(control, set));
    return tt_negotiator_create(&host, &members, &config, &set->negotiator);
}

void tt_host_touch(tt_control *control, tt_set *set)
{
    set->is_touched = true;
    control->is_touched = true;
}

static void plan_failures_report(tt_set *set)
{
    TT_ASSERT(set->plan_failure_count <= PLAN_FAILURES_MAX);
    while (set->plan_failure_count > 0) {
        const tt_plan_entry failed = set->plan_failures[--set->plan_failure_count];
        tt_negotiator_plan_failed(set->negotiator, failed.generation, failed.index);
    }
}

void tt_host_plan_failed(tt_set *set, uint32_t generation, uint32_t index)
{
    if (set->negotiator == NULL) {
        return;
    }
    if (set->plan_failure_count < PLAN_FAILURES_MAX) { /* one is enough to cut the plan */
        set->plan_failures[set->plan_failure_count++] =
            (tt_plan_entry){.generation = generation, .index = index};
    }
    tt_host_touch(set->control, set);
}

void tt_host_flush(tt_control *control)
{
    uint64_t due_ns = UINT64_MAX;
    control->is_touched = false;
    if (control->is_starving) {
        tt_name_end_starved(control);
    }
    tt_group_flush(control);
    tt_name_submit_later(control);
    for (tt_set *set = control->sets; set != NULL; set = set->next) {
        if (set->negotiator == NULL) {
            continue;
        }
        TT_ASSERT(!set->is_join_held || set->join != NULL);
        if (set->is_join_held && set->stand_in_count == 0) {
            set->is_join_held = false;
            tt_negotiator_join(set->negotiator);
        }
        if (set->is_touched) {
            set->is_touched = false;
            plan_failures_report(set);
            if (tt_negotiator_flush(set->negotiator) == TT_ERR_NO_MEMORY) {
                tt_name_starve(control);
            }
        }
        due_ns = tt_min_u64(due_ns, tt_negotiator_due(set->negotiator));
    }
    tt_control_due(control, due_ns);
    if (control->is_starving) { /* since */
        TT_ASSERT(control->is_starved);
        tt_name_end_starved(control);
    }
}

/* Does a group that the library made wait too long for its members? */
static bool group_is_late(tt_control *control, const tt_name *name, uint64_t now_ns)
{
    TT_ASSERT(name->policy == POLICY_LIBRARY && name->phase == NAME_GATHERING);
    const uint64_t late_ns =
        tt_min_u64(name->submitted_ns + tt_layout_patience(control, name->set), name->deadline_ns);
    if (now_ns < late_ns) {
        tt_control_due(control, late_ns);
    }
    return now_ns >= late_ns;
}

void tt_host_patrol(tt_control *control)
{
    const uint64_t now = tt_now(control->platform);
    for (tt_set *set = control->sets; set != NULL; set = set->next) {
        if (set->negotiator == NULL) {
            continue;
        }
        if (now >= set->shut_ns) {
            TT_ASSERT(set->broken < 0); /* a member has left */
            set->shut_ns = UINT64_MAX;
            tt_host_shut(control, set, set->broken, set->broken_text);
        }
        if (now >= tt_negotiator_due(set->negotiator)) {
            if (tt_negotiator_tick(set->negotiator) == TT_ERR_NO_MEMORY) {
                tt_name_starve(control);
            }
            tt_host_touch(control, set);
        }
    }
    tt_batch_patrol(control);
    tt_name *next;
    for (tt_name *name = control->names != NULL ? control->names->waiting : NULL; name != NULL;
         name = next) {
        next = name->after;
        TT_ASSERT(name->phase != NAME_RUNNING && name->phase != NAME_MEMBER);
        TT_ASSERT(name->phase != NAME_FREE && name->phase != NAME_IDLE);
        if (tt_policies[name->policy].late == LATE_BY_STEPS && name->phase != NAME_WAITING) {
            if (!name->is_apart && group_is_late(control, name, now)) {
                tt_group_give_up(control, name);
                next = control->names->waiting;
            }
            continue;
        }
        tt_group_watch(control, name, now);
        tt_expire_behind(control, name, now);
        const bool is_changed = name->phase == NAME_WAITING
                                    ? tt_expire_waiting(control, name, now)
                                    : tt_expire_incomplete(control, name, now);
        next = is_changed ? control->names->waiting : next; /* any of them may be over */
    }
}

void tt_host_shut(tt_control *control, tt_set *set, tt_status status, const char *text)
{
    if (set->negotiator == NULL) {
        return;
    }
    TT_ASSERT(status < 0);
    tt_text kept = {0};
    tt_text_add(&kept, "%s", text);
    if (set->shut == TT_OK) {
        set->shut = status;
        memcpy(set->shut_text, kept.bytes, sizeof(set->shut_text));
    }
    while (tt_batch_step(control)) { /* batches that have succeeded end so */
    }
    tt_negotiator_shut(set->negotiator, status, kept.bytes);
    tt_batch_shut(control, set, status, kept.bytes);
    if (set->join != NULL && set->join_failure == TT_OK) {
        set->join_failure = status;
        tt_host_settle_join(set);
    }
    tt_name *name = control->names->waiting;
    while (name != NULL) { /* incomplete groups */
        tt_name *next = name->after;
        if (name->set == set && name->phase != NAME_WAITING) {
            tt_name_refuse(control, name, status, kept.bytes);
            next = control->names->waiting;
        }
        name = next;
    }
}

void tt_host_release_set(tt_set *set)
{
    TT_ASSERT(set->join == NULL && set->stand_in_count == 0);
    if (set->negotiator != NULL) {
        tt_negotiator_destroy(set->negotiator);
        set->negotiator = NULL;
    }
    tt_layout_release(set->control, set);
    tt_name_forget_set(set->control, set);
}

void tt_host_release_all(tt_control *control)
{
    tt_names *names = control->names;
    if (names == NULL) {
        return;
    }
    TT_ASSERT(names->spreading == NULL && names->gathering == NULL);
    tt_name_release_all(control);
    tt_batch_release_all(control);
    tt_expire_release_all(control);
    tt_platform_release(control->platform, names, sizeof(*names));
    control->names = NULL;
}

/* ---- joining ---- */

const char *tt_host_refusal(const tt_set *set, const tt_request *request, tt_status *status_out)
{
    *status_out = set->broken;
    if (set->broken == TT_ERR_PEER_DOWN || set->control->is_starved) {
        return set->broken_text;
    }
    if (set->shut < 0) {
        *status_out = set->shut;
        return set->shut_text;
    }
    if (set->join != NULL && !request->is_lost) {
        *status_out = TT_ERR_BAD_ARGUMENT;
        return "this rank has joined: it can make no named calls until all ranks have joined";
    }
    return NULL;
}

void tt_host_join(tt_control *control, tt_set *set, tt_request *request)
{
    tt_status status;
    const char *why = tt_host_refusal(set, request, &status);
    if (why == NULL && tt_host_ready(control, set) != TT_OK) {
        tt_name_refuse_starved(control, request);
        return;
    }
    if (why == NULL) {
        for (tt_name *name = control->names->waiting; name != NULL; name = name->after) {
            if (name->set == set && !tt_expire_is_over(name)) {
                status = TT_ERR_BAD_ARGUMENT;
                why = "wait for this rank's named calls before it joins";
            }
        }
    }
    if (why != NULL) {
        tt_request_refuse(request, status, why);
        return;
    }
    TT_ASSERT(set->join == NULL && request->is_join);
    request->op = NULL;
    set->join = request;
    control->pending++;
    tt_control_watch(control);
    set->is_join_held = true; /* else the others would sum calls that stand-ins refuse */
    tt_host_touch(control, set);
}
