/* SPDX-License-Identifier: Apache-2.0
 *
 * pack.c - planned small tensors that share an exchange.
 *
 * The plan gives every tensor an exchange of its own, and each bundle of small ones another.
 * Members of a bundle wait here until all of the same occurrence have come, then go as one. No
 * message says so: it is a short cut over the plan, and the plan is what remains when it does not
 * hold. A member may be a group, if all of its tensors are small and of one kind.
 *
 * A rank on which a member stays out refuses the bundle's exchange, which then fails on all ranks
 * (agree.c). Nobody can have completed it, because a sum needs all; nobody has touched the tensors,
 * because they were copied. So every rank now runs what it has of them one by one, as planned
 * tensors, and the rest when it comes.
 *
 *  (1) At most one occurrence of a pack is open on a rank: its members are not over before it is.
 *  (2) Where occurrence `end` failed, later ones go one by one. No rank can have begun a later one
 * as a pack, since that needs members of `end` to be over there, and so the word that it failed.
 *  (3) After a cut an occurrence of which some member was begun nowhere can be whole on no rank,
 *      and all ranks know it. Each refuses it when it has some of it, and waits for nothing.
 *  (4) Without memory for the copy a rank refuses the bundle, too: the tensors may need less by
 *      themselves. A deadline may pass, or memory be out, where the exchange has begun, so that
 *      others have completed it: its tensors end with it, and are refused one by one, for a rank
 *      that has them so.
 *
 * The failure is an upset: the tensors leave the plan soon, and come back in other company. */
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "control/named.h"

enum { LATE_SHIFT_MAX = 5 }; /* a rank that gave up too early waits longer the next time */

/* ---- those that wait ---- */

static uint64_t key_of(const tt_pack *pack)
{
    return tt_planned_key(pack->generation, pack->index, pack->order, 0);
}

static void wait_begin(tt_control *control, tt_pack *pack)
{
    tt_names *names = control->names;
    pack->previous = NULL;
    pack->next = names->packs;
    if (names->packs != NULL) {
        names->packs->previous = pack;
    }
    names->packs = pack;
}

/* The members' time in here was spent waiting for their turn. */
static void clock_members(tt_control *control, const tt_pack *pack)
{
    const uint64_t now = tt_now(control->platform);
    for (uint32_t i = 0; i < pack->size; i++) {
        const struct tt_pack_member *member = &pack->members[i];
        const uint32_t count = member->named != NULL ? member->named->member_count : 0;
        control->counters.queued_ns += count * (now - member->held_ns);
        for (uint32_t k = 0; control->tracer != NULL && k < count; k++) {
            const tt_trace_event event = {.request = member->named->members[k],
                                          .stage = TT_STAGE_QUEUE,
                                          .begin_ns = member->held_ns,
                                          .end_ns = now};
            control->tracer->took(control->tracer->owner, &event);
        }
    }
}

/* Its members are about to leave it. */
static void wait_end(tt_control *control, tt_pack *pack)
{
    tt_names *names = control->names;
    clock_members(control, pack);
    if (pack->next != NULL) {
        pack->next->previous = pack->previous;
    }
    if (pack->previous != NULL) {
        pack->previous->next = pack->next;
    } else {
        TT_ASSERT(names->packs == pack);
        names->packs = pack->next;
    }
    pack->next = pack->previous = NULL;
    TT_ASSERT(control->pending >= pack->count);
    control->pending -= pack->count;
}

/* Packs that wait side by side, perhaps for one cause, do not make each other wait longer, and are
 * late once together. */
static uint64_t late_ns(const tt_control *control, const tt_pack *pack)
{
    const uint32_t times = pack->late_count;
    return pack->first_ns +
           (control->config.late_ns << (times < LATE_SHIFT_MAX ? times : LATE_SHIFT_MAX));
}

/* ---- refusing ---- */

static void refuse(tt_control *control, tt_pack *pack)
{
    static const tt_failure objection = {
        .status = TT_ERR_CANCELLED,
        .text = "not all tensors of a planned bundle came in time; they go one by one"};
    tt_bundle_run_pack(control, pack, &objection);
}

static void give_up(tt_control *control, tt_pack *pack)
{
    wait_end(control, pack);
    refuse(control, pack);
}

void tt_pack_ended(tt_control *control, tt_set *set, const tt_agreement *item)
{
    const uint64_t key = tt_planned_key(item->generation, item->bundle, item->order, 0);
    tt_pack **place = tt_planned_pack(control, set, key, false);
    if (place != NULL && *place != NULL) {
        (*place)->end = tt_min_u64((*place)->end, item->order);
    }
}

void tt_pack_foretold(tt_control *control, const tt_head *key)
{
    tt_set *set = tt_set_find(control, key->set);
    tt_pack **place = set != NULL ? tt_planned_pack(control, set, key->op, false) : NULL;
    if (place != NULL && *place != NULL && (*place)->count > 0 && key_of(*place) == key->op) {
        give_up(control, *place);
    }
}

/* ---- members ---- */

static tt_pack *pack_find(tt_control *control, tt_set *set, const tt_agreement *item)
{
    const uint64_t key = tt_planned_key(item->generation, item->bundle, item->order, 0);
    tt_pack **place = tt_planned_pack(control, set, key, true);
    if (place != NULL && *place == NULL) {
        const size_t bytes = sizeof(tt_pack) + item->bundle_size * sizeof(struct tt_pack_member);
        tt_pack *pack = tt_platform_allocate(control->platform, bytes);
        if (pack != NULL) {
            pack->set = set;
            pack->generation = item->generation;
            pack->index = item->bundle;
            pack->size = item->bundle_size;
            pack->end = pack->limit = UINT64_MAX;
        }
        *place = pack;
    }
    return place != NULL ? *place : NULL;
}

void tt_pack_release(tt_control *control, tt_pack *pack)
{
    if (pack != NULL) {
        TT_ASSERT(pack->count == 0);
        tt_platform_release(control->platform, pack,
                            sizeof(tt_pack) + pack->size * sizeof(struct tt_pack_member));
    }
}

/* What this rank does not have, or has changed too late, it cannot pack. */
static bool is_as_planned(const tt_agreement *item)
{
    const tt_ticket *ticket = item->ticket;
    return ticket != NULL && ticket->claim_bytes == item->claim_bytes &&
           memcmp(ticket->claim, item->claim, item->claim_bytes) == 0;
}

static void hold(tt_control *control, tt_pack *pack, const tt_agreement *item)
{
    struct tt_pack_member *member = &pack->members[item->bundle_place];
    TT_ASSERT(member->named == NULL);
    member->named = item->ticket->owner;
    member->index = item->index;
    member->held_ns = tt_now(control->platform);
    control->pending++;
    const uint64_t deadline_ns = member->named->deadline_ns;
    if (pack->count++ > 0) {
        pack->deadline_ns = tt_min_u64(pack->deadline_ns, deadline_ns);
        return;
    }
    pack->deadline_ns = deadline_ns;
    pack->order = item->order;
    pack->first_ns = member->held_ns;
    pack->late_count = control->names->late_count;
    wait_begin(control, pack);
    tt_control_due(control, tt_min_u64(late_ns(control, pack), deadline_ns));
    const tt_head key = {.set = pack->set->id, .op = key_of(pack), .flags = TT_FLAG_PLANNED};
    if (pack->order > pack->limit || (control->fates != NULL && tt_fate_is_known(control, &key))) {
        give_up(control, pack);
    }
}

void tt_pack_add(tt_control *control, tt_set *set, const tt_agreement *item)
{
    TT_ASSERT(item->bundle_size <= TT_BUNDLE_MEMBERS_MAX && item->bundle_place < item->bundle_size);
    tt_pack *pack = pack_find(control, set, item);
    const bool is_over = pack != NULL && item->order >= pack->end;
    const bool is_other = pack != NULL && pack->count > 0 && pack->order != item->order;
    if (pack != NULL && !is_over && !is_other && is_as_planned(item)) {
        hold(control, pack, item);
        if (pack->count == pack->size) {
            wait_end(control, pack);
            tt_bundle_run_pack(control, pack, NULL);
        }
        return;
    }
    tt_pack_forgo(control, set, item);
    tt_bundle_run(control, set, item, 1, true);
}

void tt_pack_forgo(tt_control *control, tt_set *set, const tt_agreement *item)
{
    tt_pack *pack = pack_find(control, set, item);
    if (pack != NULL && pack->count > 0 && item->order < pack->end) {
        give_up(control, pack);
    }
    if (pack == NULL || item->order < pack->end) { /* others may have begun it */
        tt_pack none = {.set = set,
                        .generation = item->generation,
                        .index = item->bundle,
                        .size = item->bundle_size,
                        .order = item->order};
        refuse(control, &none);
    }
}

/* Without memory the pack is given up when it is late. */
void tt_pack_unplan(void *owner, const tt_agreement *item)
{
    tt_set *set = owner;
    tt_pack *pack = pack_find(set->control, set, item);
    if (pack == NULL) {
        return;
    }
    pack->limit = tt_min_u64(pack->limit, item->order);
    if (pack->count > 0 && pack->order > pack->limit) {
        give_up(set->control, pack);
    }
}

/* ---- time, and the end ---- */

void tt_pack_patrol(tt_control *control)
{
    const uint64_t now = tt_now(control->platform);
    tt_pack *pack = control->names != NULL ? control->names->packs : NULL;
    while (pack != NULL) {
        const uint64_t late = late_ns(control, pack);
        const uint64_t due_ns = tt_min_u64(late, pack->deadline_ns);
        if (now >= due_ns) {
            const uint32_t late_count = pack->late_count + (now >= late ? 1 : 0);
            control->names->late_count =
                (uint32_t)tt_max_u64(control->names->late_count, late_count);
            give_up(control, pack);
            pack = control->names->packs; /* any of them may be gone */
            continue;
        }
        tt_control_due(control, due_ns);
        pack = pack->next;
    }
}

void tt_pack_shut(tt_control *control, tt_set *set, tt_status status, const char *text)
{
    tt_pack *pack = control->names->packs;
    while (pack != NULL) {
        if (pack->set != set) {
            pack = pack->next;
            continue;
        }
        wait_end(control, pack);
        for (uint32_t i = 0; i < pack->size; i++) {
            tt_named *named = pack->members[i].named;
            const uint32_t count = named != NULL ? named->member_count : 0;
            pack->members[i].named = NULL;
            pack->count -= named != NULL ? 1 : 0;
            for (uint32_t k = 0; k < count; k++) {
                tt_request_end(named->members[k], status, text); /* the last releases `named` */
            }
        }
        pack = control->names->packs;
    }
}
