/* SPDX-License-Identifier: Apache-2.0
 *
 * entry.c - names as numbers: an array of entries and an open-addressed index by hash.
 *
 * An entry lives while a ticket, a slot, a row or a leftover of a plan needs its name, so names
 * that are never used again do not accumulate. */
#include <string.h>

#include "base/assert.h"
#include "kernel/hash64.h"
#include "negotiate/internal.h"

static uint32_t tag_of(const char *name, uint16_t name_bytes)
{
    return (uint32_t)tt_hash64(name, name_bytes, 0);
}

uint64_t tt_entry_hash(const tt_entry *entry)
{
    return tt_hash64(entry->name, entry->name_bytes, 0);
}

static tt_status index_grow(tt_negotiator *self)
{
    tt_entries *entries = &self->entries;
    const uint32_t capacity = entries->index_capacity == 0 ? 16 : 2 * entries->index_capacity;
    tt_entry_place *index = tt_allocate(&self->memory, capacity, sizeof(*index));
    if (index == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    TT_ASSERT(entries->live < capacity); /* a search ends at a free place */
    for (uint32_t i = 0; i < capacity; i++) {
        index[i].entry = TT_NONE;
    }
    for (uint32_t i = 0; i < entries->used; i++) {
        if (entries->items[i].name == NULL) {
            continue;
        }
        const uint32_t tag = tag_of(entries->items[i].name, entries->items[i].name_bytes);
        uint32_t at = tag & (capacity - 1);
        while (index[at].entry != TT_NONE) {
            at = (at + 1) & (capacity - 1);
        }
        index[at] = (tt_entry_place){tag, i};
    }
    tt_release(&self->memory, entries->index, entries->index_capacity, sizeof(*index));
    entries->index = index;
    entries->index_capacity = capacity;
    return TT_OK;
}

/* The place of the name in the index, or the free place where it belongs. */
static uint32_t index_place(const tt_entries *entries, uint32_t tag, const char *name,
                            uint16_t name_bytes)
{
    const uint32_t mask = entries->index_capacity - 1;
    uint32_t at = tag & mask;
    for (; entries->index[at].entry != TT_NONE; at = (at + 1) & mask) {
        if (entries->index[at].tag != tag) {
            continue;
        }
        const tt_entry *entry = &entries->items[entries->index[at].entry];
        if (entry->name_bytes == name_bytes && memcmp(entry->name, name, name_bytes) == 0) {
            break;
        }
    }
    return at;
}

/* Close the gap, so that probing needs no tombstones. */
static void index_remove(tt_entries *entries, uint32_t at)
{
    const uint32_t mask = entries->index_capacity - 1;
    TT_ASSERT(entries->index[at].entry != TT_NONE);
    for (uint32_t next = (at + 1) & mask; entries->index[next].entry != TT_NONE;
         next = (next + 1) & mask) {
        const uint32_t home = entries->index[next].tag & mask;
        if (((next - home) & mask) >= ((next - at) & mask)) {
            entries->index[at] = entries->index[next];
            at = next;
        }
    }
    entries->index[at].entry = TT_NONE;
}

static uint32_t entry_take(tt_negotiator *self)
{
    tt_entries *entries = &self->entries;
    if (entries->first_free != TT_NONE) {
        const uint32_t entry = entries->first_free;
        entries->first_free = entries->items[entry].slot;
        return entry;
    }
    void *items = entries->items;
    const tt_status status =
        tt_negotiator_grow(self, &items, &entries->capacity, sizeof(tt_entry), entries->used + 1);
    entries->items = items;
    return status == TT_OK ? entries->used++ : TT_NONE;
}

static uint32_t entry_add(tt_negotiator *self, const char *name, uint16_t name_bytes)
{
    tt_entries *entries = &self->entries;
    TT_ASSERT(name_bytes <= TT_TICKET_NAME_BYTES_MAX);
    char *copy = tt_allocate(&self->memory, (size_t)name_bytes + 1, 1);
    const uint32_t entry = copy == NULL ? TT_NONE : entry_take(self);
    if (entry == TT_NONE) {
        tt_release(&self->memory, copy, (size_t)name_bytes + 1, 1);
        return TT_NONE;
    }
    memcpy(copy, name, name_bytes);
    entries->items[entry] =
        (tt_entry){.name = copy, .name_bytes = (uint8_t)name_bytes, .slot = TT_NONE};
    entries->live++;
    return entry;
}

static bool is_guessed(const tt_entries *entries, const char *name, uint16_t name_bytes)
{
    if (entries->guess >= entries->used) {
        return false;
    }
    const tt_entry *entry = &entries->items[entries->guess];
    return entry->name != NULL && entry->name_bytes == name_bytes &&
           memcmp(entry->name, name, name_bytes) == 0;
}

static void fetch_slot(const tt_negotiator *self, uint32_t number)
{
    const tt_entry *entry = &self->entries.items[number];
    __builtin_prefetch(entry->name);
    if (entry->slot < self->cache.used) {
        __builtin_prefetch(&self->cache.slots[entry->slot], 1);
    }
}

static void fetch_claim(const tt_negotiator *self, uint32_t number)
{
    const uint32_t slot = self->entries.items[number].slot;
    if (slot < self->cache.used) {
        __builtin_prefetch(self->cache.slots[slot].claim);
    }
}

/* Between two steps a model's computation evicts names and slots from the processor's caches. As
 * many lookups as before the last vector are expected before this one, in the order of first use:
 * so the lines of later entries are prefetched while one is processed. */
static void look_ahead(tt_negotiator *self, uint32_t number)
{
    enum { ENTRIES_AHEAD = 16, SLOTS_AHEAD = 8, CLAIMS_AHEAD = 4 };
    tt_entries *entries = &self->entries;
    const bool is_first = entries->run++ == 0;
    if (entries->run >= entries->run_expected) {
        return;
    }
    const uint32_t there = entries->used - 1 - number;
    const uint32_t expected = entries->run_expected - entries->run;
    const uint32_t ahead = expected < there ? expected : there;
    for (uint32_t i = is_first ? 1 : ENTRIES_AHEAD; i <= ahead && i <= ENTRIES_AHEAD; i++) {
        __builtin_prefetch(&entries->items[number + i], 1);
    }
    for (uint32_t i = is_first ? 1 : SLOTS_AHEAD; i <= ahead && i <= SLOTS_AHEAD; i++) {
        fetch_slot(self, number + i);
    }
    for (uint32_t i = is_first ? 1 : CLAIMS_AHEAD; i <= ahead && i <= CLAIMS_AHEAD; i++) {
        fetch_claim(self, number + i);
    }
}

static uint32_t find_by_hash(tt_negotiator *self, const char *name, uint16_t name_bytes,
                             bool is_wanted)
{
    tt_entries *entries = &self->entries;
    if (is_wanted && 4 * (entries->live + 1) > 3 * entries->index_capacity &&
        index_grow(self) != TT_OK) {
        return TT_NONE;
    }
    if (entries->index_capacity == 0) {
        return TT_NONE;
    }
    const uint32_t tag = tag_of(name, name_bytes);
    const uint32_t at = index_place(entries, tag, name, name_bytes);
    if (entries->index[at].entry == TT_NONE && is_wanted) {
        entries->index[at] = (tt_entry_place){tag, entry_add(self, name, name_bytes)};
    }
    return entries->index[at].entry;
}

uint32_t tt_entry_find(tt_negotiator *self, const char *name, uint16_t name_bytes, bool is_wanted)
{
    tt_entries *entries = &self->entries;
    const uint32_t entry = is_guessed(entries, name, name_bytes)
                               ? entries->guess
                               : find_by_hash(self, name, name_bytes, is_wanted);
    if (entry != TT_NONE) {
        entries->guess = entry + 1 < entries->used ? entry + 1 : 0;
        look_ahead(self, entry);
    }
    return entry;
}

uint32_t tt_entry_of_hash(const tt_negotiator *self, uint64_t hash)
{
    const tt_entries *entries = &self->entries;
    const uint32_t mask = entries->index_capacity - 1;
    uint32_t at = (uint32_t)hash & mask;
    while (entries->index_capacity > 0 && entries->index[at].entry != TT_NONE) {
        const tt_entry_place place = entries->index[at];
        if (place.tag == (uint32_t)hash && tt_entry_hash(&entries->items[place.entry]) == hash) {
            return place.entry;
        }
        at = (at + 1) & mask;
    }
    return TT_NONE;
}

static void entry_free(tt_negotiator *self, tt_entry *entry)
{
    tt_release(&self->memory, entry->name, (size_t)entry->name_bytes + 1, 1);
    entry->name = NULL;
}

void tt_entry_release(tt_negotiator *self, uint32_t number)
{
    tt_entries *entries = &self->entries;
    tt_entry *entry = &entries->items[number];
    if (entry->ticket != NULL || entry->slot != TT_NONE || entry->owed != NULL ||
        entry->debt != NULL || entry->row != NULL) {
        return;
    }
    TT_ASSERT(entry->wait == TT_WAIT_NONE);
    TT_ASSERT(entry->wish == 0);
    const uint32_t tag = tag_of(entry->name, entry->name_bytes);
    index_remove(entries, index_place(entries, tag, entry->name, entry->name_bytes));
    entry_free(self, entry);
    entry->slot = entries->first_free;
    entries->first_free = number;
    entries->live--;
}

void tt_entries_destroy(tt_negotiator *self)
{
    tt_entries *entries = &self->entries;
    for (uint32_t i = 0; i < entries->used; i++) {
        tt_entry *entry = &entries->items[i];
        if (entry->name == NULL) {
            continue;
        }
        TT_ASSERT(entry->ticket == NULL);
        if (entry->owed != NULL) {
            tt_release(&self->memory, entry->owed, sizeof(tt_owed) + entry->owed->claim_bytes, 1);
        }
        while (entry->debt != NULL) {
            tt_entry_drop_debt(self, i);
        }
        entry_free(self, entry);
    }
    tt_release(&self->memory, entries->items, entries->capacity, sizeof(tt_entry));
    tt_release(&self->memory, entries->index, entries->index_capacity, sizeof(tt_entry_place));
}

void tt_entry_begin(tt_negotiator *self, uint32_t number, tt_ticket *ticket)
{
    tt_entries *entries = &self->entries;
    tt_entry *entry = &entries->items[number];
    TT_ASSERT(entry->ticket == NULL);
    TT_ASSERT(entry->wait == TT_WAIT_NONE);
    ticket->entry = number;
    ticket->asked_ns = 0;
    ticket->is_given_up = false;
    entry->ticket = ticket;
    entry->submitted_ns = self->host.now(self->host.owner);
    entry->older = entries->newest;
    entry->newer = TT_NONE;
    if (entries->newest == TT_NONE) {
        entries->oldest = number;
    } else {
        entries->items[entries->newest].newer = number;
    }
    entries->newest = number;
    self->waiting_count++;
}

static void leave_waiting(tt_entries *entries, const tt_entry *entry)
{
    if (entry->older == TT_NONE) {
        entries->oldest = entry->newer;
    } else {
        entries->items[entry->older].newer = entry->newer;
    }
    if (entry->newer == TT_NONE) {
        entries->newest = entry->older;
    } else {
        entries->items[entry->newer].older = entry->older;
    }
}

/* Updates the counters from which vectors are made. */
void tt_entry_wait(tt_negotiator *self, uint32_t number, tt_wait wait)
{
    tt_entry *entry = &self->entries.items[number];
    const uint64_t bit = entry->slot == TT_NONE ? 0 : UINT64_C(1) << (entry->slot & 63);
    TT_ASSERT(entry->ticket != NULL);
    switch ((tt_wait)entry->wait) {
    case TT_WAIT_VECTOR:
        TT_ASSERT(entry->slot != TT_NONE);
        self->cache.pending[entry->slot / 64] &= ~bit;
        break;
    case TT_WAIT_UNTOLD:
        TT_ASSERT(self->untold_count > 0);
        self->untold_count--;
        break;
    case TT_WAIT_CHANGED:
        TT_ASSERT(self->changed_count > 0);
        self->changed_count--;
        break;
    case TT_WAIT_NONE:
    case TT_WAIT_TOLD:
    case TT_WAIT_HELD:
        break;
    }
    entry->wait = (uint8_t)wait;
    if (wait == TT_WAIT_VECTOR) {
        TT_ASSERT(entry->slot != TT_NONE);
        self->cache.pending[entry->slot / 64] |= bit;
    }
    self->untold_count += wait == TT_WAIT_UNTOLD;
    self->changed_count += wait == TT_WAIT_CHANGED;
    self->has_news |= wait == TT_WAIT_VECTOR || wait == TT_WAIT_UNTOLD || wait == TT_WAIT_CHANGED;
}

tt_ticket *tt_entry_end(tt_negotiator *self, uint32_t number)
{
    tt_entry *entry = &self->entries.items[number];
    tt_ticket *ticket = entry->ticket;
    TT_ASSERT(ticket != NULL);
    tt_entry_wait(self, number, TT_WAIT_NONE);
    self->wish_count -= entry->wish != 0;
    entry->wish = 0;
    entry->ticket = NULL;
    if (self->surveys != NULL) {
        tt_survey_forget(self, ticket);
    }
    leave_waiting(&self->entries, entry);
    TT_ASSERT(self->waiting_count > 0);
    self->waiting_count--;
    self->count.waiting_ns += self->host.now(self->host.owner) - entry->submitted_ns;
    return ticket;
}

void tt_entry_fail(tt_negotiator *self, uint32_t number, tt_status status, const char *text)
{
    tt_ticket *ticket = tt_entry_end(self, number);
    self->count.failed++;
    self->host.failed(self->host.owner, ticket, status, text);
    tt_entry_release(self, number);
}

void tt_entry_judge(tt_negotiator *self, uint32_t number, tt_status status, const char *text)
{
    tt_ticket *ticket = tt_entry_end(self, number);
    self->count.failed++;
    self->host.judged(self->host.owner, ticket, status, text);
    tt_entry_release(self, number);
}

tt_status tt_entry_owe(tt_negotiator *self, uint32_t number, tt_status status, const tt_text *text,
                       bool is_contest)
{
    tt_debt **link = &self->entries.items[number].debt, *last = NULL;
    const bool is_after_owed = self->entries.items[number].owed != NULL;
    while (*link != NULL) {
        last = *link;
        link = &last->next;
    }
    if (last != NULL && last->status == status && last->is_contest == is_contest &&
        last->is_after_owed == is_after_owed && strcmp(last->text.bytes, text->bytes) == 0) {
        last->count++;
        return TT_OK;
    }
    tt_debt *debt = tt_allocate(&self->memory, 1, sizeof(*debt));
    if (debt == NULL) {
        tt_entry_release(self, number);
        return TT_ERR_NO_MEMORY;
    }
    *debt = (tt_debt){.status = status,
                      .count = 1,
                      .is_contest = is_contest,
                      .is_after_owed = is_after_owed,
                      .text = *text};
    self->contested_count += is_contest;
    *link = debt;
    return TT_OK;
}

void tt_entry_drop_debt(tt_negotiator *self, uint32_t number)
{
    tt_entry *entry = &self->entries.items[number];
    tt_debt *debt = entry->debt;
    entry->debt = debt->next;
    TT_ASSERT(self->contested_count >= (debt->is_contest ? 1 : 0));
    self->contested_count -= debt->is_contest;
    tt_release(&self->memory, debt, 1, sizeof(*debt));
}

void tt_entries_forgive(tt_negotiator *self)
{
    for (uint32_t i = 0; i < self->entries.used; i++) {
        const tt_entry *entry = &self->entries.items[i];
        if (entry->name == NULL || entry->debt == NULL) {
            continue;
        }
        while (entry->debt != NULL) {
            tt_entry_drop_debt(self, i);
        }
        tt_entry_release(self, i);
    }
}
