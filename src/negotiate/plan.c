/* SPDX-License-Identifier: Apache-2.0
 *
 * plan.c - tensors repeated in every step start without a message, until they are cut.
 *
 * A step ends in the agreed order when a tensor repeats. Slots that were agreed in each of the
 * last steps_to_plan steps are promoted at the end of that round, on all members alike; tickets
 * that wait for them become their first occurrences. From then on each member counts the
 * occurrences it has begun of each.
 *
 * Among slots that are promoted together, neighbours of one kind (by the host) form bundles.
 * Neighbours are slots that follow each other and were agreed in one round at least once: the
 * chance end of a round does not separate them, but a tensor that is submitted only after another
 * one has ended is never in the same round. The last tensor of a step is the first that the next
 * step uses, so a chain of neighbours is divided from its end: the last bundle is short, each
 * before it may be twice as long.
 *
 * Each tensor is still counted and cut by itself; the host may exchange the bundle as one, and
 * reports it when that failed (tt_negotiator_plan_failed). Then the whole bundle leaves the plan,
 * and must repeat in twice as many equal steps before it is planned again.
 *
 * A cut takes slots out of the plan. Between freezing and the result this member begins no
 * occurrence of them, so the maximum over all members is final: up to it an occurrence was begun on
 * some member and runs as planned, on this member when it is submitted (`owed`); later ones were
 * begun on none, and are negotiated. */
#include <string.h>

#include "base/assert.h"
#include "base/log.h"
#include "base/plant.h"
#include "negotiate/internal.h"

enum {
    PLANNED_MAX = TT_NOTICE_BYTES_MAX / 4, /* the counts of a cut fit one frame */
    BUNDLES_OPEN_MAX = 8,                  /* being filled at a time */
    BUNDLE_BYTES_LAST = 8 * 1024,          /* of the last bundle of a chain */
    BUNDLE_BYTES_MAX = 64 * 1024, /* sizes double from the last bundle to the first, up to this */
    SPLITS_COUNTED_MAX = 8,
    BUNDLE_ALIGN_BYTES = 64,
    AHEAD_MAX = 4096, /* occurrences; credit limits a correct member to far fewer */
};

/* Slots are numbered in the order in which their tensors were first agreed. */
static void note_neighbours(tt_negotiator *self, uint32_t number)
{
    tt_slot *slots = self->cache.slots, *slot = &slots[number];
    const bool has_next = number + 1 < self->cache.used && slots[number + 1].entry != TT_NONE;
    if (number > 0 && slots[number - 1].entry != TT_NONE &&
        slots[number - 1].round == slot->round) {
        slot->is_near = true;
    }
    if (has_next && slots[number + 1].round == slot->round) {
        slots[number + 1].is_near = true;
    }
}

void tt_plan_saw(tt_negotiator *self, uint32_t number)
{
    tt_slot *slot = &self->cache.slots[number];
    TT_ASSERT(slot->last_step <= self->step);
    if (slot->last_step == self->step) {
        self->step++;
        self->is_boundary = true;
        self->count.steps++;
    }
    slot->streak = slot->last_step + 1 == self->step ? slot->streak + 1 : 1;
    slot->last_step = self->step;
    note_neighbours(self, number);
}

/* ---- planned starts ---- */

static void tell(tt_negotiator *self, const tt_agreement *item)
{
    self->count.planned++;
    self->last_mode = TT_NEGOTIATE_PLAN;
    self->host.planned(self->host.owner, item);
}

uint64_t tt_negotiator_next(const tt_negotiator *self, uint32_t number, uint32_t generation,
                            uint32_t index)
{
    if (self->shut != TT_OK || self->is_joining || number >= self->cache.used) {
        return 0;
    }
    const tt_slot *slot = &self->cache.slots[number];
    const bool is_same = slot->entry != TT_NONE && slot->is_planned && !slot->is_frozen &&
                         !slot->is_displaced && slot->generation == generation &&
                         slot->index == index;
    return is_same ? (uint64_t)slot->begun + 1 : 0;
}

void tt_negotiator_repeat(tt_negotiator *self, uint32_t number)
{
    tt_slot *slot = &self->cache.slots[number];
    TT_ASSERT(slot->is_planned && !slot->is_frozen);
    TT_DEBUG_ASSERT(self->entries.items[slot->entry].ticket == NULL);
    slot->begun++;
    self->count.steps += slot->index == 0;
    self->count.planned++;
    self->last_mode = TT_NEGOTIATE_PLAN;
}

void tt_plan_start(tt_negotiator *self, uint32_t number, tt_ticket *ticket)
{
    tt_slot *slot = &self->cache.slots[number];
    const tt_entry *entry = &self->entries.items[slot->entry];
    TT_ASSERT(slot->is_planned && !slot->is_frozen);
    slot->begun++;
    self->count.steps += slot->index == 0;
    tell(self, &(tt_agreement){.ticket = ticket,
                               .name = entry->name,
                               .claim = slot->claim,
                               .name_bytes = entry->name_bytes,
                               .claim_bytes = (uint16_t)slot->claim_bytes,
                               .active = self->members.size,
                               .order = slot->begun,
                               .index = slot->index,
                               .generation = slot->generation,
                               .slot = number,
                               .bundle = slot->bundle,
                               .bundle_size = slot->bundle_size,
                               .bundle_place = slot->bundle_place});
}

static void pay(tt_negotiator *self, uint32_t number, tt_ticket *ticket, const tt_ticket *rival)
{
    tt_entry *entry = &self->entries.items[number];
    tt_owed *owed = entry->owed;
    TT_ASSERT(owed->begun < owed->limit);
    TT_ASSERT(self->owed_count > 0);
    owed->begun++;
    tell(self, &(tt_agreement){.ticket = ticket,
                               .name = entry->name,
                               .claim = owed->claim,
                               .name_bytes = entry->name_bytes,
                               .claim_bytes = owed->claim_bytes,
                               .active = self->members.size,
                               .order = owed->begun,
                               .index = owed->index,
                               .generation = owed->generation,
                               .slot = UINT32_MAX,
                               .bundle = owed->bundle,
                               .bundle_size = owed->bundle_size,
                               .bundle_place = owed->bundle_place,
                               .rival = rival});
    if (owed->begun == owed->limit) {
        tt_release(&self->memory, owed, sizeof(tt_owed) + owed->claim_bytes, 1);
        entry->owed = NULL;
        self->owed_count--;
    }
}

void tt_plan_pay(tt_negotiator *self, uint32_t number, tt_ticket *ticket)
{
    pay(self, number, ticket, NULL);
}

void tt_plan_pay_all(tt_negotiator *self, uint32_t number)
{
    while (self->entries.items[number].owed != NULL) {
        tt_plan_pay(self, number, NULL);
    }
}

void tt_plan_refuse(tt_negotiator *self, uint32_t number, const tt_ticket *rival)
{
    pay(self, number, NULL, rival);
}

/* ---- promotion ---- */

static bool may_plan(const tt_negotiator *self)
{
    return (self->config.mode == TT_NEGOTIATE_AUTO || self->config.mode == TT_NEGOTIATE_PLAN) &&
           self->active == self->members.size && (self->flags & TT_FLAG_CUT) == 0;
}

/* A quarter of the cache stays free for tensors that are not planned. */
static uint32_t planned_max(const tt_cache *cache)
{
    const uint32_t most = cache->capacity - cache->capacity / 4;
    return most < PLANNED_MAX ? most : PLANNED_MAX;
}

/* A bundle that is being filled, from its last slot on. */
typedef struct filling {
    uint64_t kind; /* 0: there is none */
    uint64_t bytes, bytes_max;
    uint32_t tensors;
    uint32_t last;
} filling;

static bool is_steady(const tt_negotiator *self, const tt_slot *slot)
{
    return slot->entry != TT_NONE && !slot->is_planned &&
           slot->streak >= self->config.steps_to_plan << slot->splits &&
           slot->last_step + 1 >= self->step;
}

/* The open bundle of this kind, else a free place, else the last place. */
static filling *filling_of(filling *fillings, uint64_t kind)
{
    uint32_t at = 0;
    while (at < BUNDLES_OPEN_MAX - 1 && fillings[at].kind != 0 && fillings[at].kind != kind) {
        at++;
    }
    if (fillings[at].kind != kind) {
        fillings[at] = (filling){.kind = kind, .bytes_max = BUNDLE_BYTES_LAST};
    }
    return &fillings[at];
}

/* Put the slot at the front of a bundle of its kind. Until the bundle is complete, `bundle` is its
 * last slot, which counts size and places. */
static void join_bundle(tt_negotiator *self, uint32_t number, const tt_fusion *fusion,
                        filling *fillings)
{
    tt_slot *slots = self->cache.slots, *slot = &slots[number];
    const uint64_t bytes = tt_round_up(fusion->bytes + 1, BUNDLE_ALIGN_BYTES);
    slot->bundle = number;
    slot->bundle_size = 1;
    slot->bundle_place = 0;
    if (fusion->kind == 0) {
        return;
    }
    filling *open = filling_of(fillings, fusion->kind);
    const uint64_t bytes_max = tt_min_u64(open->bytes_max, self->config.bundle_bytes);
    if (open->tensors > 0 && open->bytes + bytes <= bytes_max &&
        open->tensors + fusion->tensors <= TT_BUNDLE_MEMBERS_MAX) {
        slot->bundle = open->last;
        slots[open->last].bundle_size++;
    } else {
        const bool is_first = open->tensors == 0;
        open->bytes_max =
            is_first ? BUNDLE_BYTES_LAST : tt_min_u64(2 * open->bytes_max, BUNDLE_BYTES_MAX);
        open->last = number;
        open->bytes = open->tensors = 0;
    }
    open->bytes += bytes;
    open->tensors += fusion->tensors;
}

static void promote(tt_negotiator *self, uint32_t number, uint32_t index)
{
    tt_slot *slot = &self->cache.slots[number];
    tt_cache_pin(self, number);
    slot->generation = self->generation;
    slot->index = index;
    slot->begun = 0;
    TT_ASSERT(self->cache.planned <= PLANNED_MAX);
}

static bool is_promoted(const tt_negotiator *self, const tt_slot *slot)
{
    return slot->entry != TT_NONE && slot->is_planned && slot->generation == self->generation;
}

static bool host_may_plan(const tt_negotiator *self, const tt_slot *slot, tt_fusion *fusion)
{
    const tt_plannable item = {.name = self->entries.items[slot->entry].name,
                               .claim = slot->claim,
                               .claim_bytes = (uint16_t)slot->claim_bytes};
    return self->host.may_plan == NULL || self->host.may_plan(self->host.owner, &item, fusion);
}

/* Do its first planned occurrence and that of the slot before it belong to one step? Tensors in the
 * first round of the step that has just begun are over by now. */
static bool is_aligned(const tt_negotiator *self, uint32_t number)
{
    const tt_slot *slot = &self->cache.slots[number];
    return number > 0 && (slot->last_step == self->step) == (slot[-1].last_step == self->step);
}

/* From the last slot to the first. */
static void make_bundles(tt_negotiator *self)
{
    const tt_cache *cache = &self->cache;
    filling fillings[BUNDLES_OPEN_MAX] = {{0}};
    for (uint32_t i = cache->used; i-- > 0;) {
        const tt_slot *slot = &cache->slots[i];
        if (is_promoted(self, slot)) {
            tt_fusion fusion = {0};
            (void)host_may_plan(self, slot, &fusion);
            join_bundle(self, i, &fusion, fillings);
            tt_cache_note(self, slot->bundle);
        }
        if (!slot->is_near || !is_aligned(self, i)) {
            memset(fillings, 0, sizeof(fillings)); /* the chain ends here */
        }
    }
}

/* Give the slot its place. The first slot gives the bundle its number, which is kept in the last
 * one until its turn. */
static void place_in_bundle(tt_negotiator *self, uint32_t number, uint32_t *index_io)
{
    tt_slot *slot = &self->cache.slots[number];
    const bool is_last = slot->bundle == number || slot->bundle_size > 1;
    tt_slot *last = is_last ? slot : &self->cache.slots[slot->bundle];
    if (last->bundle_size == 1) {
        slot->bundle_size = 0;
        return;
    }
    if (last->bundle_place == 0) {
        last->bundle = (*index_io)++;
    }
    if (!is_last) {
        slot->bundle = last->bundle;
        slot->bundle_size = last->bundle_size;
        slot->bundle_place = last->bundle_place++;
    }
    TT_ASSERT(slot->bundle_place < slot->bundle_size);
}

static void begin_planned(tt_negotiator *self, uint32_t number)
{
    const tt_slot *slot = &self->cache.slots[number];
    const uint32_t entry = slot->entry;
    if (self->entries.items[entry].wait == TT_WAIT_VECTOR) {
        tt_plan_start(self, number, tt_entry_end(self, entry));
    } else if (self->entries.items[entry].wait == TT_WAIT_CHANGED || slot->is_displaced) {
        self->is_urgent = true;
    }
}

void tt_plan_promote(tt_negotiator *self)
{
    tt_cache *cache = &self->cache;
    const bool is_boundary = self->is_boundary;
    self->is_boundary = false;
    if (!is_boundary || !may_plan(self)) {
        return;
    }
    self->generation = (uint32_t)self->done;
    uint32_t count = 0;
    for (uint32_t i = 0; i < cache->used && cache->planned < planned_max(cache); i++) {
        tt_fusion fusion = {0};
        if (is_steady(self, &cache->slots[i]) && host_may_plan(self, &cache->slots[i], &fusion)) {
            promote(self, i, count++);
        }
    }
    if (count == 0) {
        return;
    }
    uint32_t index = count;
    make_bundles(self);
    for (uint32_t i = 0; i < cache->used; i++) {
        if (is_promoted(self, &cache->slots[i])) {
            place_in_bundle(self, i, &index);
        }
    }
    for (uint32_t i = 0; i < cache->used; i++) {
        if (is_promoted(self, &cache->slots[i])) {
            begin_planned(self, i);
        }
    }
    self->count.plans_made++;
    tt_negotiator_report(self, TT_LOG_DEBUG, "%u tensors are planned from now on, with %u bundles",
                         count, index - count);
}

/* ---- the cut ---- */

static bool is_in(const tt_slot *slot, uint32_t generation, uint32_t bundle)
{
    return slot->entry != TT_NONE && slot->is_planned && slot->bundle_size > 0 &&
           slot->generation == generation && slot->bundle == bundle;
}

static void freeze(tt_negotiator *self, tt_slot *slot)
{
    self->frozen_count += slot->is_frozen ? 0 : 1;
    slot->is_frozen = true;
}

uint32_t tt_plan_freeze(tt_negotiator *self, const uint8_t *marks, bool is_all)
{
    tt_cache *cache = &self->cache;
    self->frozen_count = 0;
    if (cache->planned == 0 || (marks == NULL && !is_all)) {
        return 0;
    }
    for (uint32_t i = 0; i < cache->used; i++) {
        tt_slot *slot = &cache->slots[i];
        const bool is_marked = is_all || (marks[i / 8] >> (i & 7) & 1) != 0;
        if (slot->entry == TT_NONE || !slot->is_planned || slot->is_frozen || !is_marked) {
            continue;
        }
        freeze(self, slot);
        for (uint32_t k = 0; k < cache->used && slot->bundle_size > 0 && !is_all; k++) {
            if (is_in(&cache->slots[k], slot->generation, slot->bundle)) {
                freeze(self, &cache->slots[k]);
            }
        }
    }
    TT_ASSERT(self->frozen_count <= cache->planned);
    return self->frozen_count;
}

/* Record the occurrences of the slot that this member must still run as planned. */
static tt_status owe(tt_negotiator *self, const tt_slot *slot, uint32_t limit)
{
    tt_entry *entry = &self->entries.items[slot->entry];
    TT_ASSERT(entry->owed == NULL);
    if (slot->begun >= limit || TT_PLANT(CUT_IGNORES_LATE_RANK)) {
        return TT_OK;
    }
    tt_owed *owed = tt_allocate(&self->memory, sizeof(tt_owed) + slot->claim_bytes, 1);
    if (owed == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    owed->generation = slot->generation;
    owed->index = slot->index;
    owed->bundle = slot->bundle;
    owed->bundle_size = slot->bundle_size;
    owed->bundle_place = slot->bundle_place;
    owed->begun = slot->begun;
    owed->limit = limit;
    owed->claim_bytes = (uint16_t)slot->claim_bytes;
    memcpy(owed->claim, slot->claim, slot->claim_bytes);
    entry->owed = owed;
    self->owed_count++;
    for (tt_debt *debt = entry->debt; debt != NULL; debt = debt->next) {
        debt->is_after_owed = false; /* they ended before the plan was made */
    }
    return TT_OK;
}

/* Other tensors of the bundle need not wait for the slot any more. */
static void tell_bundle(const tt_negotiator *self, const tt_slot *slot, uint32_t limit)
{
    if (slot->bundle_size > 0 && self->host.unplanned != NULL) {
        self->host.unplanned(self->host.owner, &(tt_agreement){.order = limit,
                                                               .generation = slot->generation,
                                                               .bundle = slot->bundle,
                                                               .bundle_size = slot->bundle_size});
    }
}

bool tt_slot_claims(const tt_slot *slot, const tt_ticket *ticket)
{
    return slot->claim_bytes == ticket->claim_bytes &&
           memcmp(slot->claim, ticket->claim, ticket->claim_bytes) == 0;
}

/* A ticket that was held, or that caused the cut. */
static void settle_ticket(tt_negotiator *self, uint32_t number)
{
    const tt_slot *slot = &self->cache.slots[number];
    const uint32_t entry = slot->entry;
    const tt_ticket *ticket = self->entries.items[entry].ticket;
    if (ticket != NULL && self->entries.items[entry].owed != NULL &&
        !TT_PLANT(TICKET_LOST_ON_CUT)) {
        tt_plan_pay(self, entry, tt_entry_end(self, entry));
    } else if (ticket != NULL && !TT_PLANT(TICKET_LOST_ON_CUT)) {
        tt_entry_wait(self, entry, tt_slot_claims(slot, ticket) ? TT_WAIT_VECTOR : TT_WAIT_CHANGED);
    }
    if (self->is_joining) {
        tt_plan_pay_all(self, entry);
    }
}

/* Are the limits plausible? A joining member runs what it owes at once, so counts of peers are
 * checked. */
static bool are_near(const tt_negotiator *self, const uint8_t *limits)
{
    const tt_cache *cache = &self->cache;
    for (uint32_t i = 0, k = 0; i < cache->used && k < self->frozen_count; i++) {
        if (cache->slots[i].entry == TT_NONE || !cache->slots[i].is_frozen) {
            continue;
        }
        uint32_t limit;
        memcpy(&limit, limits + sizeof(limit) * k++, sizeof(limit));
        if (limit > cache->slots[i].begun && limit - cache->slots[i].begun > AHEAD_MAX) {
            return false;
        }
    }
    return true;
}

tt_status tt_plan_cut(tt_negotiator *self, const uint8_t *limits)
{
    tt_cache *cache = &self->cache;
    if (!are_near(self, limits)) {
        return TT_ERR_BAD_WIRE;
    }
    for (uint32_t i = 0, k = 0; i < cache->used && k < self->frozen_count; i++) {
        tt_slot *slot = &cache->slots[i];
        if (slot->entry == TT_NONE || !slot->is_frozen) {
            continue;
        }
        uint32_t limit;
        memcpy(&limit, limits + sizeof(limit) * k++, sizeof(limit));
        TT_ASSERT(limit >= slot->begun); /* the maximum over all members, including this one */
        self->failed_count -= slot->has_failed;
        slot->has_failed = slot->is_frozen = false;
        slot->streak = 0;
        if ((self->flags & TT_FLAG_SPLIT) != 0 && slot->bundle_size > 0 &&
            slot->splits < SPLITS_COUNTED_MAX) {
            slot->splits++;
            slot->is_near = false; /* it was near once, but late since */
        }
        tt_cache_unpin(self, i);
        tt_cache_note(self, limit);
        tell_bundle(self, slot, limit);
        TT_TRY(owe(self, slot, limit));
        settle_ticket(self, i);
    }
    self->frozen_count = 0;
    self->count.plans_cut++;
    return TT_OK;
}
