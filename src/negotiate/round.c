/* SPDX-License-Identifier: Apache-2.0
 *
 * round.c - one round: vectors are combined; if a plan must end, it is cut; if a member has
 * requests for the coordinator, there is a turn.
 *
 *   IDLE -> VECTOR -> [CUT] -> [GATHER -> ANSWER] -> IDLE
 *
 * The result of its vector determines the phases of a round, so they are equal on all members. A
 * phase ends on a member only after all members have entered it: no member is more than one phase
 * ahead of another, and none can end round r + 1 before all have ended round r.
 *
 * A member begins a round when it has a new ticket; or, while `is_rearmed`, when any ticket waits.
 * Members are rearmed after a round that was useful, or in which a member had no ticket; this
 * cannot spin, because the next round ends only when that member has one. After a round in which
 * all had tickets but none in common, a member with a new ticket sends CALL to the others. */
#include <string.h>

#include "base/assert.h"
#include "base/log.h"
#include "kernel/hash64.h"
#include "negotiate/internal.h"

/* ---- the call ---- */

static void call(tt_negotiator *self, uint64_t round, uint32_t except)
{
    const tt_notice notice = {.kind = TT_NOTICE_CALL, .round = round, .digest = self->cache.digest};
    TT_ASSERT(round > self->done);
    TT_ASSERT(round > self->called);
    self->called = round;
    const uint32_t parent = tt_place_parent(self);
    if (parent != TT_NONE && parent != except) {
        tt_negotiator_send(self, parent, &notice);
    }
    for (uint32_t i = 0; i < self->place.child_count; i++) {
        const uint32_t child = tt_place_child(self, i);
        if (child != except) {
            tt_negotiator_send(self, child, &notice);
        }
    }
}

void tt_round_hurry(tt_negotiator *self)
{
    if (self->is_urgent && self->phase == TT_PHASE_VECTOR && self->called <= self->done) {
        call(self, self->done + 1, TT_NONE);
    }
}

tt_status tt_round_call(tt_negotiator *self, uint32_t member, const tt_notice *notice)
{
    if (notice->bytes != 0 || notice->round > self->done + 2 ||
        (member != tt_place_parent(self) && tt_place_child_of(self, member) == TT_NONE)) {
        return TT_ERR_BAD_WIRE;
    }
    if (notice->round > self->called && notice->round > self->done) {
        call(self, notice->round, member);
    }
    return TT_OK;
}

/* ---- the vector ---- */

static bool has_request(const tt_negotiator *self)
{
    return self->untold_count > 0 || self->wish_count > 0 ||
           (self->is_joining && !self->is_join_told);
}

bool tt_round_is_due(const tt_negotiator *self)
{
    if (self->phase != TT_PHASE_IDLE || self->config.mode == TT_NEGOTIATE_ORIGINAL) {
        return false;
    }
    const bool has_something = self->waiting_count > 0 || self->is_joined;
    return self->called > self->done || has_request(self) || self->changed_count > 0 ||
           self->failed_count > 0 || self->displaced_count > 0 ||
           (has_something && (self->has_news || self->is_rearmed));
}

/* Slots that this member wants erased, or out of the plan. */
static void mark_slots(const tt_negotiator *self, uint64_t *marks)
{
    for (uint32_t i = 0; i < self->cache.used; i++) {
        const tt_slot *slot = &self->cache.slots[i];
        if (slot->entry != TT_NONE && (slot->has_failed || slot->is_displaced ||
                                       self->entries.items[slot->entry].wait == TT_WAIT_CHANGED)) {
            marks[i / 64] |= UINT64_C(1) << (i & 63);
        }
    }
}

/* A joined member has a ticket for every reduction. */
static void mark_joined(const tt_negotiator *self, uint64_t *pending)
{
    for (uint32_t i = 0; i < self->cache.used; i++) {
        const tt_slot *slot = &self->cache.slots[i];
        if (slot->entry != TT_NONE && !slot->needs_all && !slot->is_planned) {
            pending[i / 64] |= UINT64_C(1) << (i & 63);
        }
    }
}

static tt_status own_vector(tt_negotiator *self, tt_notice *own)
{
    const uint32_t words = tt_cache_words(&self->cache);
    void *scratch = self->scratch;
    TT_TRY(tt_negotiator_grow(self, &scratch, &self->scratch_words, sizeof(uint64_t), 2 * words));
    self->scratch = scratch;
    if (words > 0) {
        memcpy(self->scratch, self->cache.pending, words * sizeof(uint64_t));
        memset(self->scratch + words, 0, words * sizeof(uint64_t));
    }
    own->flags |= has_request(self) ? TT_FLAG_TURN : 0;
    own->flags |= self->waiting_count == 0 && !self->is_joined ? TT_FLAG_EMPTY : 0;
    own->flags |= self->is_joining && self->cache.planned > 0 ? TT_FLAG_CUT : 0;
    own->bytes = words * 8;
    own->payload = self->scratch;
    if (self->changed_count + self->displaced_count + self->failed_count > 0) {
        mark_slots(self, self->scratch + words);
        own->flags |= self->changed_count + self->displaced_count > 0 ? TT_FLAG_INVALID : 0;
        own->flags |= self->failed_count > 0 ? TT_FLAG_SPLIT : 0;
        own->bytes *= 2;
    }
    if (self->is_joined) {
        mark_joined(self, self->scratch);
    }
    return TT_OK;
}

tt_status tt_round_start(tt_negotiator *self)
{
    TT_ASSERT(self->phase == TT_PHASE_IDLE);
    const uint64_t round = self->done + 1;
    if (self->called < round && (self->is_urgent || !self->is_rearmed)) {
        call(self, round, TT_NONE);
    }
    tt_negotiator_set_phase(self, TT_PHASE_VECTOR);
    self->count.rounds++;
    tt_notice own = {.digest = self->cache.digest};
    TT_TRY(own_vector(self, &own));
    self->has_news = self->is_urgent = self->is_useful = false;
    self->entries.run_expected = self->entries.run;
    self->entries.run = 0;
    TT_ASSERT(self->vectors[round & 1].round == round);
    return tt_combine_begin(self, &self->vectors[round & 1], &own);
}

/* ---- its result ---- */

/* The slots that some member has marked; NULL: none. */
static const uint8_t *marks_of(const tt_negotiator *self)
{
    const tt_combine *vector = &self->vectors[(self->done + 1) & 1];
    return (vector->flags & TT_FLAGS_MARKED) != 0 && (vector->flags & TT_FLAG_DIVERGED) == 0 &&
                   vector->size > 0
               ? vector->bytes + vector->size
               : NULL;
}

static bool is_marked(const uint8_t *bits, uint32_t slot)
{
    return bits != NULL && (bits[slot / 8] >> (slot & 7) & 1) != 0;
}

/* If some slots must be erased, those that only had to leave the plan are erased with them. */
static void erase_invalid(tt_negotiator *self)
{
    const uint8_t *invalid = (self->flags & TT_FLAG_INVALID) != 0 ? marks_of(self) : NULL;
    for (uint32_t i = 0; invalid != NULL && i < self->cache.used; i++) {
        const tt_slot *slot = &self->cache.slots[i];
        if (is_marked(invalid, i) && slot->entry != TT_NONE && !slot->is_planned) {
            self->count.invalidations++;
            tt_cache_erase(self, i);
        }
    }
}

static tt_status agree_slot(tt_negotiator *self, uint32_t number)
{
    tt_slot *slot = &self->cache.slots[number];
    const uint32_t entry = slot->entry;
    const tt_entry *known = &self->entries.items[entry];
    TT_ASSERT(known->ticket != NULL || self->is_joined);
    tt_agreement *item = tt_told_add(self);
    if (item == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    *item = (tt_agreement){.name = known->name,
                           .claim = slot->claim,
                           .name_bytes = known->name_bytes,
                           .claim_bytes = (uint16_t)slot->claim_bytes,
                           .active = self->active,
                           .order = self->order++};
    if (known->ticket != NULL) {
        item->ticket = tt_entry_end(self, entry);
        self->last_mode = TT_NEGOTIATE_BITVECTOR;
    }
    if (known->row != NULL) { /* a member that joined has sent it to the coordinator */
        tt_roll_remove(self, known->row);
    }
    slot->round = self->done + 1;
    tt_cache_touch(self, number);
    tt_plan_saw(self, number);
    return TT_OK;
}

/* Prefetch the lines of slots first..first + 63 that have a bit, kind by kind, so that the fetches
 * overlap: a round ends long after its tensors were submitted. */
static void fetch_agreed(const tt_negotiator *self, uint32_t first, uint64_t word)
{
    const tt_slot *slots = &self->cache.slots[first];
    const tt_entry *entries = self->entries.items;
    for (uint64_t left = word; left != 0; left &= left - 1) {
        __builtin_prefetch(&slots[__builtin_ctzll(left)], 1);
    }
    for (uint64_t left = word; left != 0; left &= left - 1) {
        const tt_slot *slot = &slots[__builtin_ctzll(left)];
        if (slot->entry != TT_NONE) {
            __builtin_prefetch(&entries[slot->entry], 1);
        }
    }
}

/* In ascending order of slots, those that all members have. */
static tt_status agree_common(tt_negotiator *self)
{
    const tt_combine *vector = &self->vectors[(self->done + 1) & 1];
    tt_status status = TT_OK;
    tt_agreement near[TT_TOLD_NEAR];
    TT_ASSERT(vector->size == 8 * tt_cache_words(&self->cache));
    tt_told_open(self, near);
    for (uint32_t at = 0; at < vector->size && status == TT_OK; at += 8) {
        uint64_t word;
        memcpy(&word, vector->bytes + at, sizeof(word));
        fetch_agreed(self, 8 * at, word);
        for (; word != 0 && status == TT_OK; word &= word - 1) {
            const uint32_t slot = 8 * at + (uint32_t)__builtin_ctzll(word);
            if (self->cache.slots[slot].entry != TT_NONE) { /* else it was erased just now */
                status = agree_slot(self, slot);
            }
        }
    }
    tt_told_close(self, status);
    return status;
}

/* ---- phases ---- */

static tt_status begin_cut(tt_negotiator *self)
{
    tt_cache *cache = &self->cache;
    void *scratch = self->scratch;
    TT_TRY(tt_negotiator_grow(self, &scratch, &self->scratch_words, sizeof(uint64_t),
                              self->frozen_count));
    self->scratch = scratch;
    uint8_t *counts = (uint8_t *)self->scratch;
    for (uint32_t i = 0, k = 0; k < self->frozen_count; i++) {
        TT_ASSERT(i < cache->used);
        if (cache->slots[i].is_frozen) {
            memcpy(counts + 4 * k++, &cache->slots[i].begun, 4);
        }
    }
    tt_negotiator_set_phase(self, TT_PHASE_CUT);
    const tt_notice own = {
        .digest = cache->plan_digest, .bytes = 4 * self->frozen_count, .payload = counts};
    return tt_combine_begin(self, &self->cut, &own);
}

static void end_round(tt_negotiator *self)
{
    TT_ASSERT(self->frozen_count == 0);
    self->done++;
    tt_combine_reset(self, &self->vectors[self->done & 1], self->done + 2);
    tt_combine_reset(self, &self->cut, self->done + 1);
    tt_turn_reset(self);
    tt_negotiator_set_phase(self, TT_PHASE_IDLE);
    self->is_rearmed = self->is_useful || (self->flags & TT_FLAG_EMPTY) != 0;
    tt_plan_promote(self);
}

static tt_status begin_turn(tt_negotiator *self)
{
    const uint8_t reasons = TT_FLAG_TURN | TT_FLAG_INVALID | TT_FLAG_DIVERGED;
    if ((self->flags & reasons) == 0) {
        end_round(self);
        return TT_OK;
    }
    tt_negotiator_set_phase(self, TT_PHASE_GATHER);
    self->count.coordinator_turns++;
    return tt_turn_tell(self);
}

static tt_status end_vector(tt_negotiator *self)
{
    const tt_combine *vector = &self->vectors[(self->done + 1) & 1];
    self->flags = vector->flags;
    if ((self->flags & TT_FLAG_DIVERGED) != 0) {
        self->count.divergences++;
        tt_negotiator_report(self, TT_LOG_WARN,
                             "the ranks' caches of agreed tensors differ in round %llu: all "
                             "restart",
                             (unsigned long long)vector->round);
        tt_plan_freeze(self, NULL, true);
        return begin_cut(self);
    }
    const uint32_t cut = tt_plan_freeze(self, marks_of(self), (self->flags & TT_FLAG_CUT) != 0);
    erase_invalid(self);
    TT_TRY(agree_common(self));
    return cut > 0 ? begin_cut(self) : begin_turn(self);
}

static tt_status end_cut(tt_negotiator *self)
{
    if ((self->cut.flags & TT_FLAG_DIVERGED) != 0) {
        return TT_ERR_MISMATCH;
    }
    TT_ASSERT(self->cut.size == 4 * self->frozen_count);
    const bool had_plans = self->frozen_count > 0;
    if (had_plans) {
        self->is_useful = true;
        tt_negotiator_report(self,
                             self->config.mode == TT_NEGOTIATE_PLAN ? TT_LOG_WARN : TT_LOG_DEBUG,
                             "%u tensors left the plan", self->frozen_count);
        TT_TRY(tt_plan_cut(self, self->cut.bytes));
        tt_parts_settle(self);
    }
    if ((self->flags & TT_FLAG_DIVERGED) != 0) {
        self->step = 1;
        tt_cache_erase_all(self, tt_hash64_mix(self->config.epoch, self->done + 1));
    }
    erase_invalid(self);
    return begin_turn(self);
}

tt_status tt_round_advance(tt_negotiator *self)
{
    for (;;) {
        switch (self->phase) {
        case TT_PHASE_IDLE:
            return TT_OK;
        case TT_PHASE_VECTOR:
            if (!self->vectors[(self->done + 1) & 1].is_over) {
                return TT_OK;
            }
            TT_TRY(end_vector(self));
            break;
        case TT_PHASE_CUT:
            if (!self->cut.is_over) {
                return TT_OK;
            }
            TT_TRY(end_cut(self));
            break;
        case TT_PHASE_GATHER:
            if (!tt_turn_has_all(&self->turn, self->place.child_count)) {
                return TT_OK;
            }
            tt_negotiator_set_phase(self, TT_PHASE_ANSWER);
            TT_TRY(tt_turn_pass_up(self));
            break;
        case TT_PHASE_ANSWER:
            if (!tt_turn_is_answered(&self->turn)) {
                return TT_OK;
            }
            TT_TRY(tt_answers_apply(self));
            end_round(self);
            break;
        }
    }
}
