/* SPDX-License-Identifier: Apache-2.0
 *
 * response_cache.c - agreed names and claims, in slots that are equal on all members.
 *
 * All members call these functions in the same order with the same arguments, because they
 * call them only with results of rounds. The digest is a chain over those calls: every vector
 * carries it, so a member that diverged is detected before its bits are used.
 *
 * Slots in use are in a list by last agreement; planned ones are not, so they are never evicted. */
#include <string.h>

#include "base/assert.h"
#include "base/plant.h"
#include "kernel/hash64.h"
#include "negotiate/internal.h"

enum { NOTE_INSERT = 1, NOTE_TOUCH, NOTE_ERASE, NOTE_PIN, NOTE_UNPIN };

void tt_cache_note(tt_negotiator *self, uint64_t what)
{
    self->cache.digest = tt_hash64_mix(self->cache.digest, what);
}

void tt_cache_init(tt_negotiator *self, uint32_t capacity)
{
    self->cache = (tt_cache){.capacity = capacity,
                             .oldest = TT_NONE,
                             .newest = TT_NONE,
                             .first_free = TT_NONE,
                             .digest = tt_hash64_mix(self->config.epoch, capacity)};
}

static void unlink_slot(tt_cache *cache, uint32_t number)
{
    const tt_slot *slot = &cache->slots[number];
    TT_ASSERT((slot->older == TT_NONE) == (cache->oldest == number));
    TT_ASSERT((slot->newer == TT_NONE) == (cache->newest == number));
    if (slot->older == TT_NONE) {
        cache->oldest = slot->newer;
    } else {
        cache->slots[slot->older].newer = slot->newer;
    }
    if (slot->newer == TT_NONE) {
        cache->newest = slot->older;
    } else {
        cache->slots[slot->newer].older = slot->older;
    }
}

static void link_newest(tt_cache *cache, uint32_t number)
{
    cache->slots[number].older = cache->newest;
    cache->slots[number].newer = TT_NONE;
    if (cache->newest == TT_NONE) {
        cache->oldest = number;
    } else {
        cache->slots[cache->newest].newer = number;
    }
    cache->newest = number;
}

static tt_status reserve(tt_negotiator *self)
{
    tt_cache *cache = &self->cache;
    if (cache->used < cache->reserved && cache->used / 64 < cache->words) {
        return TT_OK;
    }
    void *pending = cache->pending, *slots = cache->slots;
    tt_status status =
        tt_negotiator_grow(self, &pending, &cache->words, sizeof(uint64_t), cache->used / 64 + 1);
    cache->pending = pending;
    if (status == TT_OK) {
        status =
            tt_negotiator_grow(self, &slots, &cache->reserved, sizeof(tt_slot), cache->used + 1);
        cache->slots = slots;
    }
    return status;
}

/* TT_NONE: all slots are planned. */
static tt_status take_slot(tt_negotiator *self, uint32_t *slot_out)
{
    tt_cache *cache = &self->cache;
    if (cache->first_free == TT_NONE && cache->used < cache->capacity) {
        TT_TRY(reserve(self));
        *slot_out = cache->used++;
        return TT_OK;
    }
    if (cache->first_free == TT_NONE && cache->oldest != TT_NONE) {
        const bool is_astray = TT_PLANT(EVICTION_DIFFERS) && self->members.self == 1;
        self->count.evictions++;
        tt_cache_erase(self, is_astray ? cache->newest : cache->oldest);
    }
    *slot_out = cache->first_free;
    if (cache->first_free != TT_NONE) {
        cache->first_free = cache->slots[cache->first_free].newer;
    }
    return TT_OK;
}

tt_status tt_cache_insert(tt_negotiator *self, uint32_t entry, const void *claim,
                          uint16_t claim_bytes, bool needs_all)
{
    tt_cache *cache = &self->cache;
    TT_ASSERT(self->entries.items[entry].slot == TT_NONE);
    if (cache->capacity == 0) {
        return TT_OK;
    }
    uint32_t number;
    TT_TRY(take_slot(self, &number));
    if (number == TT_NONE) {
        return TT_OK;
    }
    void *copy = tt_allocate(&self->memory, (size_t)claim_bytes + 1, 1);
    if (copy == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    memcpy(copy, claim, claim_bytes);
    cache->slots[number] = (tt_slot){
        .entry = entry, .claim = copy, .claim_bytes = claim_bytes, .needs_all = needs_all};
    tt_entry *known = &self->entries.items[entry];
    known->slot = number;
    link_newest(cache, number);
    tt_cache_note(self, (uint64_t)number << 8 | NOTE_INSERT);
    tt_cache_note(self, tt_hash64(known->name, known->name_bytes, 0));
    tt_cache_note(self, tt_hash64(claim, claim_bytes, needs_all));
    return tt_parts_insert(self, number);
}

void tt_cache_touch(tt_negotiator *self, uint32_t slot)
{
    TT_ASSERT(!self->cache.slots[slot].is_planned);
    if (!TT_PLANT(CACHE_SKEW) || self->members.self != 1) {
        unlink_slot(&self->cache, slot);
        link_newest(&self->cache, slot);
    }
    tt_cache_note(self, (uint64_t)slot << 8 | NOTE_TOUCH);
}

void tt_cache_pin(tt_negotiator *self, uint32_t slot)
{
    TT_ASSERT(!self->cache.slots[slot].is_planned);
    unlink_slot(&self->cache, slot);
    self->cache.slots[slot].is_planned = true;
    self->cache.planned++;
    tt_cache_note(self, (uint64_t)slot << 8 | NOTE_PIN);
    self->cache.plan_digest = tt_hash64_mix(self->cache.plan_digest, slot);
}

void tt_cache_unpin(tt_negotiator *self, uint32_t slot)
{
    TT_ASSERT(self->cache.slots[slot].is_planned);
    TT_ASSERT(self->cache.planned > 0);
    self->cache.slots[slot].is_planned = false;
    link_newest(&self->cache, slot);
    self->cache.planned--;
    tt_cache_note(self, (uint64_t)slot << 8 | NOTE_UNPIN);
    self->cache.plan_digest = tt_hash64_mix(self->cache.plan_digest, ~(uint64_t)slot);
}

void tt_cache_erase(tt_negotiator *self, uint32_t number)
{
    tt_slot *slot = &self->cache.slots[number];
    TT_ASSERT(slot->entry != TT_NONE && !slot->is_planned);
    const uint32_t entry = slot->entry;
    TT_ASSERT(!slot->is_frozen);
    TT_ASSERT(self->entries.items[entry].slot == number);
    if (self->entries.items[entry].ticket != NULL) {
        tt_entry_wait(self, entry, TT_WAIT_UNTOLD);
    }
    self->failed_count -= slot->has_failed;
    self->displaced_count -= slot->is_displaced;
    tt_parts_erase(self, number);
    self->entries.items[entry].slot = TT_NONE;
    unlink_slot(&self->cache, number);
    tt_release(&self->memory, slot->claim, (size_t)slot->claim_bytes + 1, 1);
    *slot = (tt_slot){.entry = TT_NONE, .newer = self->cache.first_free};
    self->cache.first_free = number;
    tt_cache_note(self, (uint64_t)number << 8 | NOTE_ERASE);
    tt_entry_release(self, entry);
}

void tt_cache_erase_all(tt_negotiator *self, uint64_t seed)
{
    tt_cache *cache = &self->cache;
    for (uint32_t i = 0; i < cache->used; i++) {
        if (cache->slots[i].entry != TT_NONE) {
            tt_cache_erase(self, i);
        }
    }
    TT_ASSERT(cache->oldest == TT_NONE);
    TT_ASSERT(cache->planned == 0);
    cache->used = 0;
    cache->first_free = TT_NONE;
    cache->digest = seed;
    cache->plan_digest = seed;
}

void tt_cache_destroy(tt_negotiator *self)
{
    tt_cache *cache = &self->cache;
    for (uint32_t i = 0; i < cache->used; i++) {
        tt_release(&self->memory, cache->slots[i].claim, (size_t)cache->slots[i].claim_bytes + 1,
                   1);
    }
    tt_release(&self->memory, cache->slots, cache->reserved, sizeof(tt_slot));
    tt_release(&self->memory, cache->pending, cache->words, sizeof(uint64_t));
}
