/* SPDX-License-Identifier: Apache-2.0
 *
 * parts.c - a group's ticket contains several tensors, so a tensor may be in two tickets.
 *
 * A rank has a tensor in one open ticket at a time (the host ensures it). So if one member has it
 * in a group, and another by itself or in another group, neither ticket can become complete. The
 * coordinator detects that (contest.c) if both tickets are sent to it. Tickets that are not cached
 * are; for the rest:
 *
 *  (1) No two slots have a tensor in common: a new slot evicts the other. So at most one of two
 *      such tickets is cached.
 *  (2) A member that submits the other ticket has that slot erased, in the round in which it sends
 *      its own, and not before; so members that wait for the slot send their tickets, too.
 *  (3) If the slot is planned, that cuts it. This member will never submit the next occurrence that
 *      peers have begun: it refuses it, so that it fails on all members, and its own ticket fails.
 *      So the ticket must not be sent before the cut. Later occurrences stay owed.
 */
#include <string.h>

#include "base/assert.h"
#include "kernel/hash64.h"
#include "negotiate/internal.h"

enum { PLACES_MIN = 64 };

static tt_status push(tt_negotiator *self, tt_part_list *list, uint64_t hash)
{
    void *hashes = list->hashes;
    TT_TRY(tt_negotiator_grow(self, &hashes, &list->capacity, sizeof(hash), list->count + 1));
    list->hashes = hashes;
    list->hashes[list->count++] = hash;
    return TT_OK;
}

tt_status tt_parts_read(tt_negotiator *self, uint64_t own_hash, const tt_plannable *item,
                        tt_part_list *list)
{
    const tt_negotiate_host *host = &self->host;
    tt_part_name part;
    list->count = 0;
    for (uint32_t offset = 0; host->part != NULL;) {
        offset = host->part(host->owner, item->claim, item->claim_bytes, offset, &part);
        if (offset == 0) {
            break;
        }
        TT_TRY(push(self, list, part.hash));
    }
    return list->count == 0 ? push(self, list, own_hash) : TT_OK;
}

/* ---- the slot of the group that has a tensor ---- */

static uint32_t place_of(const tt_cache *cache, uint64_t hash)
{
    const uint32_t mask = cache->part_capacity - 1;
    uint32_t at = (uint32_t)hash & mask;
    while (cache->parts[at].slot != TT_NONE && cache->parts[at].hash != hash) {
        at = (at + 1) & mask;
    }
    return at;
}

static tt_status places_reserve(tt_negotiator *self)
{
    tt_cache *cache = &self->cache;
    if (4 * (cache->part_count + 1) <= 3 * cache->part_capacity) {
        return TT_OK;
    }
    tt_cache larger = *cache;
    larger.part_capacity = cache->part_capacity == 0 ? PLACES_MIN : 2 * cache->part_capacity;
    larger.parts = tt_allocate(&self->memory, larger.part_capacity, sizeof(*larger.parts));
    if (larger.parts == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < larger.part_capacity; i++) {
        larger.parts[i].slot = TT_NONE;
    }
    for (uint32_t i = 0; i < cache->part_capacity; i++) {
        if (cache->parts[i].slot != TT_NONE) {
            larger.parts[place_of(&larger, cache->parts[i].hash)] = cache->parts[i];
        }
    }
    tt_release(&self->memory, cache->parts, cache->part_capacity, sizeof(*cache->parts));
    *cache = larger;
    return TT_OK;
}

/* Close the gap, so that probing needs no tombstones. */
static void place_free(tt_cache *cache, uint32_t at)
{
    const uint32_t mask = cache->part_capacity - 1;
    TT_ASSERT(cache->part_count > 0);
    TT_ASSERT(cache->parts[at].slot != TT_NONE);
    for (uint32_t next = (at + 1) & mask; cache->parts[next].slot != TT_NONE;
         next = (next + 1) & mask) {
        const uint32_t home = (uint32_t)cache->parts[next].hash & mask;
        if (((next - home) & mask) >= ((next - at) & mask)) {
            cache->parts[at] = cache->parts[next];
            at = next;
        }
    }
    cache->parts[at].slot = TT_NONE;
    cache->part_count--;
}

/* The slot other than `own` that has this tensor; by (1) there is at most one. */
static uint32_t slot_with(const tt_negotiator *self, uint64_t hash, uint32_t own)
{
    const tt_cache *cache = &self->cache;
    if (cache->part_count > 0) {
        const uint32_t slot = cache->parts[place_of(cache, hash)].slot;
        if (slot != TT_NONE && slot != own) {
            return slot;
        }
    }
    const uint32_t entry = tt_entry_of_hash(self, hash);
    const uint32_t slot = entry != TT_NONE ? self->entries.items[entry].slot : TT_NONE;
    return slot != TT_NONE && slot != own && !cache->slots[slot].has_parts ? slot : TT_NONE;
}

static tt_plannable plannable_of(const tt_negotiator *self, uint32_t number)
{
    const tt_slot *slot = &self->cache.slots[number];
    return (tt_plannable){.name = self->entries.items[slot->entry].name,
                          .claim = slot->claim,
                          .claim_bytes = slot->claim_bytes};
}

static uint64_t hash_of(const tt_negotiator *self, uint32_t number)
{
    return tt_entry_hash(&self->entries.items[self->cache.slots[number].entry]);
}

static bool is_group(const tt_part_list *list, uint64_t own_hash)
{
    return list->count != 1 || list->hashes[0] != own_hash;
}

tt_status tt_parts_insert(tt_negotiator *self, uint32_t number)
{
    tt_cache *cache = &self->cache;
    tt_part_list *list = &self->parts;
    const tt_plannable item = plannable_of(self, number);
    if (self->host.part == NULL) {
        return TT_OK;
    }
    TT_TRY(tt_parts_read(self, hash_of(self, number), &item, list));
    cache->slots[number].has_parts = is_group(list, hash_of(self, number));
    for (uint32_t i = 0; i < list->count; i++) {
        const uint32_t other = slot_with(self, list->hashes[i], number);
        if (other != TT_NONE && !cache->slots[other].is_planned) { /* (1) */
            tt_cache_erase(self, other);
        }
        if (!cache->slots[number].has_parts) {
            return TT_OK;
        }
        TT_TRY(places_reserve(self));
        tt_part_place *place = &cache->parts[place_of(cache, list->hashes[i])];
        cache->part_count += place->slot == TT_NONE;
        *place = (tt_part_place){.hash = list->hashes[i], .slot = number};
    }
    return TT_OK;
}

void tt_parts_erase(tt_negotiator *self, uint32_t number)
{
    tt_cache *cache = &self->cache;
    const tt_slot *slot = &cache->slots[number];
    tt_part_name part;
    uint32_t offset = 0;
    while (slot->has_parts) {
        offset = self->host.part(self->host.owner, slot->claim, slot->claim_bytes, offset, &part);
        if (offset == 0) {
            break;
        }
        const uint32_t at = cache->part_count > 0 ? place_of(cache, part.hash) : TT_NONE;
        if (at != TT_NONE && cache->parts[at].slot == number) {
            place_free(cache, at);
        }
    }
}

/* ---- tickets ---- */

/* Fills self->parts. False: no memory, so that this member cannot detect conflicts. */
static bool ticket_parts(tt_negotiator *self, uint64_t own_hash, const tt_ticket *ticket)
{
    const tt_plannable item = {
        .name = ticket->name, .claim = ticket->claim, .claim_bytes = ticket->claim_bytes};
    const bool is_read = tt_parts_read(self, own_hash, &item, &self->parts) == TT_OK;
    self->is_starved |= !is_read;
    return is_read;
}

void tt_parts_displace(tt_negotiator *self, uint32_t number)
{
    const tt_entry *entry = &self->entries.items[number];
    if (self->host.part == NULL || self->cache.used == 0 ||
        !ticket_parts(self, tt_entry_hash(entry), entry->ticket)) {
        return;
    }
    for (uint32_t i = 0; i < self->parts.count; i++) {
        const uint32_t other = slot_with(self, self->parts.hashes[i], entry->slot);
        if (other == TT_NONE || self->cache.slots[other].is_displaced) {
            continue;
        }
        self->cache.slots[other].is_displaced = true;
        self->displaced_count++;
        self->is_urgent |= self->cache.slots[other].is_planned;
    }
}

bool tt_parts_are_displacing(tt_negotiator *self, uint32_t number)
{
    const tt_entry *entry = &self->entries.items[number];
    if (self->displaced_count == 0 || !ticket_parts(self, tt_entry_hash(entry), entry->ticket)) {
        return false;
    }
    for (uint32_t i = 0; i < self->parts.count; i++) {
        const uint32_t other = slot_with(self, self->parts.hashes[i], entry->slot);
        if (other != TT_NONE && self->cache.slots[other].is_displaced) {
            return true;
        }
    }
    return false;
}

static bool has(const tt_part_list *list, uint64_t hash)
{
    for (uint32_t i = 0; i < list->count; i++) {
        if (list->hashes[i] == hash) {
            return true;
        }
    }
    return false;
}

/* One occurrence of this tensor, which was in a refused group, is over on this member. */
static tt_status end_here(tt_negotiator *self, const char *group, const tt_part_name *part)
{
    const uint32_t number = tt_entry_find(self, part->name, part->name_bytes, true);
    tt_text text = {0};
    if (number == TT_NONE) {
        return TT_ERR_NO_MEMORY;
    }
    tt_text_add(&text, "ranks disagree about the group of tensor ");
    tt_text_add_quoted(&text, part->name, part->name_bytes);
    tt_text_add(&text, ": rank %u: none; ranks that began it as planned: ",
                tt_negotiator_rank(self, self->members.self));
    tt_text_add_quoted(&text, group, TT_TICKET_NAME_BYTES_MAX);
    if (self->entries.items[number].ticket != NULL) {
        tt_entry_fail(self, number, TT_ERR_MISMATCH, text.bytes);
        return TT_OK;
    }
    return tt_entry_owe(self, number, TT_ERR_MISMATCH, &text, true);
}

/* The tensors of the group in `entry` that are not in the ticket whose parts are in self->parts. */
static void end_others(tt_negotiator *self, const tt_entry *entry)
{
    tt_part_name part;
    char group[TT_TICKET_NAME_BYTES_MAX + 1] = "";
    const tt_owed *owed = entry->owed;
    uint32_t offset = 0;
    memcpy(group, entry->name, entry->name_bytes);
    while ((offset = self->host.part(self->host.owner, owed->claim, owed->claim_bytes, offset,
                                     &part)) > 0) {
        if (part.name != NULL && !has(&self->parts, part.hash)) {
            self->is_starved |= end_here(self, group, &part) != TT_OK;
        }
    }
}

static bool have_common(const tt_part_list *a, const tt_part_list *b)
{
    for (uint32_t i = 0; i < a->count; i++) {
        if (has(b, a->hashes[i])) {
            return true;
        }
    }
    return false;
}

/* Are tensors left in the ticket, so that it must be sent to the others? */
static bool has_rest(const tt_negotiator *self, const tt_ticket *ticket)
{
    tt_part_name part = {0};
    return self->host.part(self->host.owner, ticket->claim, ticket->claim_bytes, 0, &part) > 0 &&
           part.regrouped != NULL;
}

tt_regrouped tt_parts_refuse_owed(tt_negotiator *self, uint32_t own, const tt_ticket *ticket)
{
    bool is_met = false;
    if (self->owed_count == 0 || self->host.part == NULL ||
        !ticket_parts(self, tt_entry_hash(&self->entries.items[own]), ticket)) {
        return TT_REGROUPED_NONE;
    }
    for (uint32_t i = 0; i < self->entries.used && self->owed_count > 0; i++) {
        const tt_entry *entry = &self->entries.items[i];
        const tt_owed *owed = entry->name != NULL ? entry->owed : NULL;
        if (owed == NULL || i == own) {
            continue;
        }
        const tt_plannable item = {
            .name = entry->name, .claim = owed->claim, .claim_bytes = owed->claim_bytes};
        if (tt_parts_read(self, tt_entry_hash(entry), &item, &self->other_parts) != TT_OK) {
            self->is_starved = true;
        } else if (have_common(&self->parts, &self->other_parts)) {
            end_others(self, entry);
            tt_plan_refuse(self, i, ticket);
            tt_entry_release(self, i);
            is_met = true;
        }
    }
    return !is_met                  ? TT_REGROUPED_NONE
           : has_rest(self, ticket) ? TT_REGROUPED_SOME
                                    : TT_REGROUPED_ALL;
}

/* The first ticket that conflicts with an owed exchange; NULL: none does. */
static const tt_ticket *settle_one(tt_negotiator *self)
{
    for (uint32_t number = self->entries.oldest; number != TT_NONE;
         number = self->entries.items[number].newer) {
        const tt_entry *entry = &self->entries.items[number];
        const tt_ticket *ticket = entry->ticket;
        if (entry->wait != TT_WAIT_UNTOLD && entry->wait != TT_WAIT_CHANGED) {
            continue;
        }
        const tt_regrouped found = tt_parts_refuse_owed(self, number, ticket);
        if (found == TT_REGROUPED_ALL) {
            tt_entry_fail(self, number, TT_ERR_MISMATCH, "");
        }
        if (found != TT_REGROUPED_NONE) {
            return ticket;
        }
    }
    return NULL;
}

void tt_parts_settle(tt_negotiator *self)
{
    while (self->owed_count > 0 && settle_one(self) != NULL) {
        /* other tickets may have left the list with it */
    }
}

void tt_parts_forgive(tt_negotiator *self, const tt_ticket *ticket)
{
    if (self->contested_count == 0 || !ticket_parts(self, 0, ticket)) {
        return;
    }
    for (uint32_t i = 0; i < self->parts.count; i++) {
        const uint32_t number = tt_entry_of_hash(self, self->parts.hashes[i]);
        const tt_debt *debt = number != TT_NONE ? self->entries.items[number].debt : NULL;
        if (debt == NULL || !debt->is_contest) {
            continue;
        }
        do {
            tt_entry_drop_debt(self, number);
            debt = self->entries.items[number].debt;
        } while (debt != NULL && debt->is_contest);
        tt_entry_release(self, number);
    }
}

static void list_release(tt_negotiator *self, const tt_part_list *list)
{
    tt_release(&self->memory, list->hashes, list->capacity, sizeof(*list->hashes));
}

void tt_parts_destroy(tt_negotiator *self)
{
    list_release(self, &self->parts);
    list_release(self, &self->other_parts);
    list_release(self, &self->ended_parts);
    tt_release(&self->memory, self->cache.parts, self->cache.part_capacity,
               sizeof(*self->cache.parts));
}
