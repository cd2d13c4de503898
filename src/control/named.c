/* SPDX-License-Identifier: Apache-2.0
 *
 * named.c - named requests: their tickets, and the host of the set's negotiator.
 *
 * A request's name is taken from submission until the request is over, through negotiation and
 * exchange: a second one of that name is refused at once, here only. So at most one occurrence of a
 * planned tensor is open on a rank.
 */
#include "control/named.h"

#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/hash64.h"
#include "base/log.h"
#include "base/plant.h"
#include "control/engine.h"
#include "control/quick.h"

void tt_named_submit_later(tt_control *control)
{
    while (control->names != NULL && control->names->later != NULL) {
        tt_request *request = control->names->later;
        control->names->later = request->next_later;
        control->pending--;
        tt_request_submit_again(control, request);
    }
}

static void request_tell(tt_request *request, tt_status status, const char *text)
{
    if (status == TT_OK) {
        request->error[0] = 0;
    } else if (text != request->error) {
        tt_text error = {0};
        tt_text_add(&error, "%s", text);
        memcpy(request->error, error.bytes, sizeof(request->error));
    }
    request->named = NULL;
    request->op = NULL;
    request->is_apart = false;
    request->status = status;
    request->finished(request);
}

void tt_request_end(tt_request *request, tt_status status, const char *text)
{
    if (request->named != NULL) {
        tt_named_over(request, status, text);
    } else {
        request_tell(request, status, text);
    }
}

void tt_request_refuse(tt_request *request, tt_status status, const char *text)
{
    request_tell(request, status, text);
}

void tt_named_over(tt_request *request, tt_status status, const char *text)
{
    tt_named *named = request->named;
    tt_control *control = named->set->control;
    if (named->member_max == 0) {
        if (!named->is_resting) {
            tt_named_release(control, named);
        }
        request_tell(request, status, text);
        return;
    }
    if (status < 0 && named->status == TT_OK) {
        tt_text error = {0};
        tt_text_add(&error, "%s", text);
        memcpy(named->error, error.bytes, sizeof(named->error));
        named->status = status;
    }
    if (--named->open_count > 0) {
        return;
    }
    for (uint32_t i = 0; i < named->member_count; i++) {
        tt_group_leave(control, named->members[i]);
    }
    for (uint32_t i = 0; i < named->member_count; i++) {
        request_tell(named->members[i], named->status, named->error);
    }
    tt_named_release(control, named);
}

void tt_named_refuse(tt_control *control, tt_named *named, tt_status status, const char *text)
{
    tt_text kept = {0};
    tt_text_add(&kept, "%s", text); /* of a request that ends here, perhaps */
    tt_group_forget(control, named);
    tt_named_stop_waiting(control, named);
    control->counters.ops_failed++;
    if (named->member_count == 0) {
        tt_named_release(control, named);
        return;
    }
    named->open_count = named->member_count;
    for (uint32_t i = 0, count = named->member_count; i < count; i++) {
        tt_named_over(named->members[i], status, kept.bytes); /* the last releases `named` */
    }
}

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
    tt_notice_send(set->control, set, member, notice);
}

/* The tickets have ended: their requests now run. */
static void take_over(tt_control *control, const tt_agreement *item)
{
    if (item->ticket == NULL) {
        return;
    }
    tt_named *named = item->ticket->owner;
    const uint64_t now = tt_now(control->platform);
    control->counters.negotiation_ns += now - named->submitted_ns;
    for (uint32_t i = 0; control->tracer != NULL && i < named->member_count; i++) {
        const tt_trace_event event = {.request = named->members[i],
                                      .stage = TT_STAGE_NEGOTIATE,
                                      .begin_ns = named->submitted_ns,
                                      .end_ns = now};
        control->tracer->took(control->tracer->owner, &event);
    }
    tt_named_stop_waiting(control, named);
    named->open_count = named->member_count;
}

static void host_agreed(void *owner, const tt_agreement *items, uint32_t count)
{
    tt_set *set = owner;
    for (uint32_t i = 0; i < count; i++) {
        tt_named *named = items[i].ticket != NULL ? items[i].ticket->owner : NULL;
        if (named != NULL && named->is_apart) { /* all say so, or have joined */
            tt_group_come_apart(set->control, named);
        } else {
            take_over(set->control, &items[i]);
        }
    }
    tt_layout_watch(set->control, set, items, count);
    tt_bundle_run(set->control, set, items, count, false);
}

static void host_planned(void *owner, const tt_agreement *item)
{
    tt_set *set = owner;
    if (item->rival != NULL) {
        tt_torn_refuse(set->control, set, item);
        return;
    }
    take_over(set->control, item);
    if (item->bundle_size > 0) {
        tt_pack_add(set->control, set, item);
    } else {
        tt_bundle_run(set->control, set, item, 1, true);
    }
}

static void end_ticket(tt_set *set, tt_named *named, tt_status status, const char *text)
{
    if (text[0] == 0 && status == TT_ERR_MISMATCH) { /* for its sake planned ones were refused */
        text = named->error;
    }
    tt_named_refuse(set->control, named, status, text);
}

static void host_failed(void *owner, tt_ticket *ticket, tt_status status, const char *text)
{
    tt_set *set = owner;
    tt_named *named = ticket->owner;
    tt_text starved;
    tt_text_clear(&starved);
    if (status == TT_ERR_NO_MEMORY && set->shut == TT_OK) {
        tt_named_starve(set->control); /* the negotiator's: its peers know nothing of it */
        tt_named_say_starved(set->control, &starved);
        text = starved.bytes;
    }
    if (tt_group_has_come_apart(named, status, false)) {
        tt_group_come_apart(set->control, named);
        return;
    }
    end_ticket(set, named, status, text);
}

static void host_judged(void *owner, tt_ticket *ticket, tt_status status, const char *text)
{
    tt_set *set = owner;
    tt_named *named = ticket->owner;
    if (tt_group_has_come_apart(named, status, true)) {
        tt_group_come_apart(set->control, named);
        return;
    }
    named->is_waiting = false;
    tt_layout_watch_failed(set->control, set, named->name);
    end_ticket(set, named, status, text);
}

void tt_named_settle_join(tt_set *set)
{
    tt_request *request = set->join;
    const tt_status failure = set->join_failure;
    const bool is_standing_in = set->absent_count > 0 && !TT_PLANT(JOIN_ENDS_EARLY);
    if (request == NULL || (set->joined_last == 0 && failure == TT_OK) || is_standing_in) {
        return; /* others still need this rank */
    }
    set->join = NULL;
    set->is_join_held = false;
    set->join_failure = TT_OK;
    set->control->pending--;
    if (failure < 0) {
        tt_request_refuse(request, failure, set->shut_text);
        return;
    }
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
    tt_named_settle_join(set);
}

static tt_status host_explain(void *owner, const char *name, const tt_claimant *claimants,
                              uint32_t count, tt_text *text)
{
    return tt_bid_explain(owner, name, claimants, count, text);
}

/* By how many to divide must be known when the op begins. */
static bool host_may_plan(void *owner, const tt_plannable *item, tt_fusion *fusion)
{
    const tt_set *set = owner;
    tt_bid bid;
    tt_claim claim;
    bool may =
        tt_layout_lets_plan(set, item->name) && tt_bid_read(&bid, item->claim, item->claim_bytes);
    while (may && tt_bid_next(&bid, &claim)) {
        may = (claim.form & CLAIM_BY_ACTIVE) == 0 && !tt_engine_takes_claim(set, &claim);
        tt_bundle_fuse(&set->control->config, &claim, fusion);
    }
    const bool is_whole = may && bid.objection == TT_OK && !bid.is_digest;
    if (!is_whole || fusion->tensors > TT_BUNDLE_MEMBERS_MAX) {
        fusion->kind = 0;
    }
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
    .unplanned = tt_pack_unplan,
    .failed = host_failed,
    .judged = host_judged,
    .joined = host_joined,
    .explain = host_explain,
    .part = tt_bid_part,
    .may_plan = host_may_plan,
    .report = host_report,
};

tt_status tt_named_ready(tt_control *control, tt_set *set)
{
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
    if (control->names == NULL || !tt_named_spare(control) || set->agreed == NULL ||
        tt_bundle_reserve(control) != TT_OK) {
        return TT_ERR_NO_MEMORY;
    }
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

/* Something may be due at this set's negotiator: before the machine rests. */
void tt_named_touch(tt_control *control, tt_set *set)
{
    set->is_touched = true;
    control->is_touched = true;
}

static void upsets_tell(tt_set *set)
{
    while (set->upset_count > 0) {
        const tt_upset upset = set->upsets[--set->upset_count];
        tt_negotiator_upset(set->negotiator, upset.generation, upset.index);
    }
}

void tt_named_upset(tt_set *set, uint32_t generation, uint32_t index)
{
    if (set->negotiator == NULL) {
        return;
    }
    if (set->upset_count < UPSETS_MAX) { /* one is enough to cut the plan */
        set->upsets[set->upset_count++] = (tt_upset){.generation = generation, .index = index};
    }
    tt_named_touch(set->control, set);
}

void tt_named_flush(tt_control *control)
{
    uint64_t due_ns = UINT64_MAX;
    control->is_touched = false;
    if (control->is_starving) {
        tt_named_end_starved(control);
    }
    tt_group_flush(control);
    tt_named_submit_later(control);
    for (tt_set *set = control->sets; set != NULL; set = set->next) {
        if (set->negotiator == NULL) {
            continue;
        }
        if (set->is_join_held && set->stand_in_count == 0) {
            set->is_join_held = false;
            tt_negotiator_join(set->negotiator);
        }
        if (set->is_touched) {
            set->is_touched = false;
            upsets_tell(set);
            if (tt_negotiator_flush(set->negotiator) == TT_ERR_NO_MEMORY) {
                tt_named_starve(control);
            }
        }
        due_ns = tt_min_u64(due_ns, tt_negotiator_due(set->negotiator));
    }
    tt_control_due(control, due_ns);
    if (control->is_starving) { /* since */
        tt_named_end_starved(control);
    }
}

/* Does a group that nobody named wait too long for its members? */
static bool group_is_late(tt_control *control, const tt_named *named, uint64_t now_ns)
{
    const uint64_t late_ns = tt_min_u64(
        named->submitted_ns + tt_layout_patience(control, named->set), named->deadline_ns);
    if (now_ns < late_ns) {
        tt_control_due(control, late_ns);
    }
    return now_ns >= late_ns;
}

void tt_named_patrol(tt_control *control)
{
    const uint64_t now = tt_now(control->platform);
    for (tt_set *set = control->sets; set != NULL; set = set->next) {
        if (set->negotiator == NULL) {
            continue;
        }
        if (now >= set->shut_ns) {
            set->shut_ns = UINT64_MAX;
            tt_named_shut(control, set, set->broken, set->broken_text);
        }
        if (now >= tt_negotiator_due(set->negotiator)) {
            if (tt_negotiator_tick(set->negotiator) == TT_ERR_NO_MEMORY) {
                tt_named_starve(control);
            }
            tt_named_touch(control, set);
        }
    }
    tt_pack_patrol(control);
    tt_named *next;
    for (tt_named *named = control->names != NULL ? control->names->waiting : NULL; named != NULL;
         named = next) {
        next = named->next_waiting;
        if (named->layout > 0 && !named->is_waiting) {
            if (!named->is_apart && group_is_late(control, named, now)) {
                tt_group_give_up(control, named);
                next = control->names->waiting;
            }
            continue;
        }
        tt_group_watch(control, named, now);
        tt_expire_behind(control, named, now);
        const bool is_changed = named->is_waiting ? tt_expire_waiting(control, named, now)
                                                  : tt_expire_incomplete(control, named, now);
        next = is_changed ? control->names->waiting : next; /* any of them may be over */
    }
}

void tt_named_shut(tt_control *control, tt_set *set, tt_status status, const char *text)
{
    if (set->negotiator == NULL) {
        return;
    }
    tt_text kept = {0};
    tt_text_add(&kept, "%s", text);
    if (set->shut == TT_OK) {
        set->shut = status;
        memcpy(set->shut_text, kept.bytes, sizeof(set->shut_text));
    }
    tt_negotiator_shut(set->negotiator, status, kept.bytes);
    tt_pack_shut(control, set, status, kept.bytes);
    if (set->join != NULL && set->join_failure == TT_OK) {
        set->join_failure = status;
        tt_named_settle_join(set);
    }
    tt_named *named = control->names->waiting;
    while (named != NULL) { /* groups that are not complete */
        tt_named *next = named->next_waiting;
        if (named->set == set && !named->is_waiting) {
            tt_named_refuse(control, named, status, kept.bytes);
            next = control->names->waiting;
        }
        named = next;
    }
}

void tt_named_release_set(tt_set *set)
{
    if (set->negotiator != NULL) {
        tt_negotiator_destroy(set->negotiator);
        set->negotiator = NULL;
    }
    tt_layout_release(set->control, set);
}

void tt_named_release_all(tt_control *control)
{
    tt_names *names = control->names;
    if (names == NULL) {
        return;
    }
    TT_ASSERT(names->waiting == NULL);
    if (names->spare != NULL) {
        names->spare->next = names->free;
        names->free = names->spare;
    }
    while (names->free != NULL) {
        tt_named *next = names->free->next;
        if (names->free->bid != names->free->bid_short) {
            tt_platform_release(control->platform, names->free->bid, names->free->bid_capacity);
        }
        tt_platform_release(control->platform, names->free, sizeof(tt_named));
        names->free = next;
    }
    tt_bundle_release_all(control);
    tt_expire_release_all(control);
    tt_platform_release(control->platform, names, sizeof(*names));
    control->names = NULL;
}

/* ---- submission ---- */

void tt_named_offer(tt_control *control, tt_named *named, const tt_failure *objection)
{
    if (objection != NULL) {
        named->objection = objection->status;
        if (objection->text != named->error) {
            tt_text words = {0};
            tt_text_add(&words, "%s", objection->text);
            memcpy(named->error, words.bytes, sizeof(named->error));
        }
    }
    tt_bid_make(control, named, objection);
    named->is_waiting = true;
    tt_negotiator_submit(named->set->negotiator, &named->ticket);
}

/* Why no named request can be taken; NULL: it can. */
static const char *refusal(const tt_set *set, const tt_request *request, tt_status *status_out)
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
        return "this rank has joined: it gives no more until all ranks have joined";
    }
    return NULL;
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
    tt_named *named = tt_named_take(control, set, request->name);
    if (named == NULL) {
        tt_named_refuse_starved(control, request);
        return;
    }
    named->deadline_ns = tt_expire_due(control, request);
    named->request = request;
    named->member_count = 1;
    request->named = named;
    tt_text text;
    tt_text_clear(&text);
    const tt_failure starved = {.status = TT_ERR_NO_MEMORY, .text = text.bytes};
    if (named->is_starved) {
        tt_text_add(&text, "rank %u is out of memory for a named call", control->world.rank);
    }
    tt_named_offer(control, named, named->is_starved ? &starved : objection);
    if (request->op == NULL) {
        tt_named_touch(control, set);
    }
}

/* What is open here under the request's name: by itself, as a group, or in another group. */
static tt_named *open_under(const tt_control *control, const tt_set *set, const tt_request *request)
{
    tt_named *named = tt_named_find(control, set, request->name);
    if (named != NULL && (request->group == NULL || named->member_max == 0)) {
        return named;
    }
    const tt_request *member = tt_group_member(control, set, request->name);
    const bool is_own = member != NULL && request->group != NULL && member->named->layout == 0 &&
                        strcmp(member->named->name, request->group) == 0;
    return member != NULL && !is_own ? member->named : NULL;
}

void tt_named_submit(tt_control *control, tt_set *set, tt_request *request,
                     const tt_failure *objection)
{
    tt_status status;
    const char *why = refusal(set, request, &status);
    if (why == NULL && tt_named_ready(control, set) != TT_OK) {
        tt_named_refuse_starved(control, request);
        return;
    }
    if (why != NULL) {
        tt_request_refuse(request, status, why);
        return;
    }
    request->op = NULL;
    request->named = NULL;
    request->has_strays = request->is_torn = false;
    tt_control_watch(control);
    tt_named *open = open_under(control, set, request);
    if (open == NULL) { /* else it is refused, even if the first would be over after this */
        tt_group_flush(control); /* names that are taken are to be found */
        open = open_under(control, set, request);
    }
    if (open != NULL && !TT_PLANT(NAME_TAKEN_TWICE)) {
        if (tt_named_wait_behind(control, open, request)) {
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
        tt_named_touch(control, set);
        return;
    }
    submit_single(control, set, request, objection);
}

void tt_named_join(tt_control *control, tt_set *set, tt_request *request)
{
    tt_status status;
    const char *why = refusal(set, request, &status);
    if (why == NULL && tt_named_ready(control, set) != TT_OK) {
        tt_named_refuse_starved(control, request);
        return;
    }
    if (why == NULL) {
        for (tt_named *named = control->names->waiting; named != NULL;
             named = named->next_waiting) {
            if (named->set == set && !tt_expire_is_over(named)) {
                status = TT_ERR_BAD_ARGUMENT;
                why = "wait for this rank's named calls before it joins";
            }
        }
    }
    if (why != NULL) {
        tt_request_refuse(request, status, why);
        return;
    }
    request->op = NULL;
    set->join = request;
    control->pending++;
    tt_control_watch(control);
    set->is_join_held = true; /* else the others' sums would lack calls that stand-ins refuse */
    tt_named_touch(control, set);
}

bool tt_named_cancel(tt_control *control, tt_request *request)
{
    tt_named *named = request->named;
    if (named == NULL) {
        return false;
    }
    if (!named->is_waiting && named->open_count > 0) {
        return false;
    }
    if (named->layout > 0) { /* alone, when the group has come apart */
        request->is_taken_back = true;
        if (!named->is_waiting && !named->is_apart) {
            tt_group_give_up(control, named);
        } else if (!named->is_apart) {
            request->is_taken_back = tt_negotiator_cancel(named->set->negotiator, &named->ticket);
            tt_named_touch(control, named->set);
        }
        return request->is_taken_back;
    }
    if (!named->is_waiting) { /* of a group that is not complete: it fails when it is */
        tt_text text = {0};
        tt_text_add(&text, "cancelled by rank %u", control->world.rank);
        memcpy(named->error, text.bytes, sizeof(named->error));
        named->objection = TT_ERR_CANCELLED;
        return true;
    }
    tt_named_touch(control, named->set);
    return tt_negotiator_cancel(named->set->negotiator, &named->ticket);
}
