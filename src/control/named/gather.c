/* SPDX-License-Identifier: Apache-2.0
 *
 * gather.c - planned batches wait until all members of an occurrence are submitted.
 *
 * The plan gives every tensor an exchange of its own, and each bundle of small ones another.
 * Members of a bundle wait until all of the same occurrence are submitted, then run as one. This
 * needs no message: it is a short cut over the plan, and if it fails the tensors still run as
 * planned. A member may be a group, if all of its tensors are small and of one kind.
 *
 * A rank on which a member is missing refuses the bundle's exchange, which then fails on all ranks
 * (agree.c). No rank can have completed it, because a sum needs all ranks; no rank has changed the
 * tensors, because they were copied. So every rank now runs its submitted tensors one by one, as
 * planned tensors, and the others when they are submitted.
 *
 *  (1) At most one occurrence of a planned batch is open on a rank: its members are not over before
 *      it is. A refused one moves to a batch of the pool, so several of these may be open.
 *  (2) If occurrence `end` failed, later ones run one by one. No rank can have begun a later one as
 *      a batch, since that needs members of `end` to be over on that rank, and so the verdict that
 *      it failed.
 *  (3) After a cut an occurrence of which some member was begun on no rank can be complete on none,
 *      and all ranks know it. Each refuses it when it has some of it, without waiting.
 *  (4) Without memory for the copy a rank refuses the bundle, too: the tensors may need less by
 *      themselves. If a deadline passes or memory runs out after the exchange has begun, others may
 *      have completed it: then its tensors end with it, and this rank refuses them one by one, for
 *      ranks that run them so.
 *
 * The failure cuts the tensors out of the plan; they are planned again in other bundles. */
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "control/named/batch.h"

enum { LATE_SHIFT_MAX = 5 }; /* back-off: at most 2^5 times the wait */

/* ---- refusing ---- */

static uint64_t key_of(const tt_batch *batch)
{
    return tt_planned_key(batch->item.generation, batch->item.index, batch->item.order, 0);
}

static void wait_begin(tt_control *control, tt_batch *batch)
{
    TT_ASSERT(batch->is_kept && batch->count == 0);
    tt_names *names = control->names;
    batch->previous = NULL;
    batch->next = names->gathering;
    if (names->gathering != NULL) {
        names->gathering->previous = batch;
    }
    names->gathering = batch;
    tt_batch_set_phase(batch, BATCH_GATHERING);
}

/* The members' time in the batch counts as queueing. */
static void clock_members(tt_control *control, const tt_batch *batch)
{
    const uint64_t now = tt_now(control->platform);
    for (uint32_t i = 0; i < batch->size; i++) {
        const tt_name *name = batch->members[i].name;
        const uint32_t count = name != NULL ? name->member_count : 0;
        control->counters.queued_ns += count > 0 ? count * (now - name->begun_ns) : 0;
        for (uint32_t k = 0; control->tracer != NULL && k < count; k++) {
            const tt_trace_event event = {.request = name->members[k],
                                          .span = TT_SPAN_QUEUE,
                                          .begin_ns = name->begun_ns,
                                          .end_ns = now};
            control->tracer->took(control->tracer->owner, &event);
        }
    }
}

/* The batch is complete, or given up. */
static void wait_end(tt_control *control, tt_batch *batch)
{
    tt_names *names = control->names;
    clock_members(control, batch);
    if (batch->next != NULL) {
        batch->next->previous = batch->previous;
    }
    if (batch->previous != NULL) {
        batch->previous->next = batch->next;
    } else {
        TT_ASSERT(names->gathering == batch);
        names->gathering = batch->next;
    }
    batch->next = batch->previous = NULL;
    TT_ASSERT(control->pending >= batch->count);
    control->pending -= batch->count;
}

/* Batches that wait at the same time, perhaps for one cause, share one back-off step. */
static uint64_t late_ns(const tt_control *control, const tt_batch *batch)
{
    TT_ASSERT(tt_policies[batch->policy].late == LATE_BY_WAITS);
    const uint32_t times = batch->late_count;
    return batch->first_ns +
           (control->config.late_ns << (times < LATE_SHIFT_MAX ? times : LATE_SHIFT_MAX));
}

static tt_agreement item_of(const tt_agreement *member)
{
    TT_ASSERT(member->bundle_size > 0);
    return (tt_agreement){.generation = member->generation,
                          .index = member->bundle,
                          .order = member->order,
                          .slot = UINT32_MAX,
                          .bundle = member->bundle,
                          .bundle_size = member->bundle_size};
}

/* With the members of `from`, or none. */
static void refuse(tt_control *control, tt_set *set, const tt_agreement *item, tt_batch *from)
{
    static const tt_failure objection = {
        .status = TT_ERR_CANCELLED,
        .text = "a planned bundle was not complete in time; its tensors run one by one"};
    static const tt_claim nothing = {.collective = TT_ALLREDUCE, .dtype = TT_F32, .redop = TT_SUM};
    TT_ASSERT(from == NULL || from->is_kept);
    tt_run run = {.control = control, .set = set, .is_planned = true, .objection = &objection};
    tt_batch *batch = tt_batch_open(&run, POLICY_PLANNED, item, &nothing, "a planned bundle");
    batch->count = from != NULL ? from->count : 0;
    if (from != NULL) {
        const uint32_t count = tt_batch_detach(from, batch->members);
        TT_ASSERT(count == batch->count);
        tt_batch_set_phase(from, BATCH_IDLE);
    }
    tt_batch_lay_out(batch);
    tt_batch_send(&run, batch);
}

static void give_up(tt_control *control, tt_batch *batch)
{
    TT_ASSERT(batch->phase == BATCH_GATHERING && batch->count > 0);
    const tt_agreement item = batch->item;
    wait_end(control, batch);
    refuse(control, batch->set, &item, batch);
}

void tt_batch_early_verdict(tt_control *control, const tt_head *key)
{
    tt_set *set = tt_set_find(control, key->set);
    tt_batch **place = set != NULL ? tt_planned_batch(control, set, key->op, false) : NULL;
    if (place != NULL && *place != NULL && (*place)->phase == BATCH_GATHERING &&
        key_of(*place) == key->op) {
        give_up(control, *place);
    }
}

/* ---- members ---- */

/* Made if need be; NULL: no memory. */
static tt_batch *planned_find(tt_control *control, tt_set *set, const tt_agreement *item)
{
    const uint64_t key = tt_planned_key(item->generation, item->bundle, item->order, 0);
    tt_batch **place = tt_planned_batch(control, set, key, true);
    if (place != NULL && *place == NULL) {
        tt_batch *batch = tt_platform_allocate(
            control->platform, sizeof(*batch) + item->bundle_size * sizeof(batch->members[0]));
        if (batch != NULL) {
            batch->control = control;
            batch->set = set;
            batch->policy = POLICY_PLANNED;
            batch->is_kept = true;
            batch->size = item->bundle_size;
            batch->end = batch->limit = UINT64_MAX;
        }
        *place = batch;
    }
    TT_ASSERT(place == NULL || *place == NULL || (*place)->size == item->bundle_size);
    return place != NULL ? *place : NULL;
}

/* False: this rank cannot copy the tensor, because it lacks it or changed its claim too late. */
static bool is_as_planned(const tt_agreement *item)
{
    const tt_ticket *ticket = item->ticket;
    return ticket != NULL && (ticket->claim == item->claim ||
                              (ticket->claim_bytes == item->claim_bytes &&
                               memcmp(ticket->claim, item->claim, item->claim_bytes) == 0));
}

/* Has a peer refused it already? */
static bool has_early_verdict(tt_control *control, const tt_batch *batch)
{
    const tt_head key = {.set = batch->set->id, .op = key_of(batch), .flags = TT_FLAG_PLANNED};
    return control->early_verdicts != NULL && tt_early_verdict_has(control, 0, &key);
}

/* The first member of an occurrence is submitted. */
static void begin(tt_control *control, tt_batch *batch, const tt_agreement *item)
{
    const tt_name *name = item->ticket->owner;
    TT_ASSERT(name->phase == NAME_RUNNING && item->bundle_place < batch->size);
    batch->item = item_of(item);
    batch->deadline_ns = UINT64_MAX;
    batch->first_ns = name->begun_ns;
    batch->late_count = control->names->late_count;
    batch->is_early = batch->is_laid_out && batch->memory != NULL;
    wait_begin(control, batch);
    tt_control_due(control, tt_min_u64(late_ns(control, batch), name->deadline_ns));
}

/* The member is copied at once if its place is known, so that the last one is not delayed. */
static void hold(tt_control *control, tt_batch *batch, const tt_agreement *item)
{
    tt_batch_member *member = &batch->members[item->bundle_place];
    const bool is_first = batch->phase == BATCH_IDLE;
    if (is_first) {
        begin(control, batch, item);
    }
    TT_ASSERT(batch->phase == BATCH_GATHERING && member->name == NULL);
    TT_DEBUG_ASSERT(batch->item.order == item->order && batch->count < batch->size);
    member->name = item->ticket->owner;
    member->index = item->index;
    batch->count++;
    batch->deadline_ns = tt_min_u64(batch->deadline_ns, member->name->deadline_ns);
    control->pending++;
    if (is_first && (item->order > batch->limit || has_early_verdict(control, batch))) {
        give_up(control, batch);
    } else if (batch->is_early) {
        tt_batch_copy_early(batch, member);
    }
}

/* The batch is complete. */
static void planned_send(tt_control *control, tt_batch *batch)
{
    TT_ASSERT(batch->count == batch->size && batch->is_kept);
    tt_run run = {.control = control, .set = batch->set, .is_planned = true};
    wait_end(control, batch);
    if (!batch->is_laid_out) {
        tt_batch_lay_out(batch);
    }
    tt_batch_send(&run, batch);
}

void tt_batch_add(tt_control *control, tt_set *set, const tt_agreement *item)
{
    TT_ASSERT(item->bundle_size <= TT_BUNDLE_MEMBERS_MAX && item->bundle_place < item->bundle_size);
    tt_batch *batch = planned_find(control, set, item);
    const bool is_over = batch != NULL && item->order >= batch->end;
    const tt_head key = {.set = set->id,
                         .op = tt_planned_key(item->generation, item->bundle, item->order, 0),
                         .flags = TT_FLAG_PLANNED};
    if (tt_space_planned.failed(set, &key) < 0) { /* failed earlier: all ranks know it */
        tt_run_items(control, set, item, 1, true);
        return;
    }
    const bool is_other =
        batch != NULL && batch->phase == BATCH_GATHERING && batch->item.order != item->order;
    if (batch != NULL && !is_over && !is_other && is_as_planned(item)) {
        hold(control, batch, item);
        if (batch->count == batch->size) {
            planned_send(control, batch);
        }
        return;
    }
    tt_batch_forgo(control, set, item);
    tt_run_items(control, set, item, 1, true);
}

void tt_batch_forgo(tt_control *control, tt_set *set, const tt_agreement *item)
{
    tt_batch *batch = planned_find(control, set, item);
    if (batch != NULL && batch->phase == BATCH_GATHERING && item->order < batch->end) {
        give_up(control, batch);
    }
    if (batch == NULL || item->order < batch->end) { /* others may have begun it */
        const tt_agreement none = item_of(item);
        refuse(control, set, &none, NULL);
    }
}

/* Without memory the batch is given up when it is late. */
void tt_batch_unplan(void *owner, const tt_agreement *item)
{
    tt_set *set = owner;
    tt_batch *batch = planned_find(set->control, set, item);
    if (batch == NULL) {
        return;
    }
    batch->limit = tt_min_u64(batch->limit, item->order);
    if (batch->phase == BATCH_GATHERING && batch->item.order > batch->limit) {
        give_up(set->control, batch);
    }
    if (batch->phase == BATCH_IDLE && batch->item.order >= batch->limit) {
        tt_batch_release_memory(batch);
    }
}

/* ---- time, and the end ---- */

void tt_batch_patrol(tt_control *control)
{
    const uint64_t now = tt_now(control->platform);
    tt_batch *batch = control->names != NULL ? control->names->gathering : NULL;
    while (batch != NULL) {
        TT_ASSERT(batch->phase == BATCH_GATHERING && batch->count > 0);
        const uint64_t late = late_ns(control, batch);
        const uint64_t due_ns = tt_min_u64(late, batch->deadline_ns);
        if (now >= due_ns) {
            const uint32_t late_count = batch->late_count + (now >= late ? 1 : 0);
            control->names->late_count =
                (uint32_t)tt_max_u64(control->names->late_count, late_count);
            give_up(control, batch);
            batch = control->names->gathering; /* any of them may have ended */
            continue;
        }
        tt_control_due(control, due_ns);
        batch = batch->next;
    }
}

void tt_batch_shut(tt_control *control, tt_set *set, tt_status status, const char *text)
{
    TT_ASSERT(status < 0);
    tt_batch *batch = control->names->gathering;
    while (batch != NULL) {
        if (batch->set != set) {
            batch = batch->next;
            continue;
        }
        tt_batch_member members[TT_BUNDLE_MEMBERS_MAX];
        wait_end(control, batch);
        const uint32_t count = tt_batch_detach(batch, members);
        tt_batch_set_phase(batch, BATCH_IDLE);
        for (uint32_t i = 0; i < count; i++) {
            tt_request *const *requests;
            for (uint32_t k = 0, open = tt_batch_requests(&members[i], &requests); k < open; k++) {
                tt_request_end(requests[k], status, text); /* the last one closes the name */
            }
        }
        batch = control->names->gathering;
    }
}
