/* SPDX-License-Identifier: Apache-2.0
 *
 * answer.c - applies the coordinator's answers, in their order, on every member alike. */
#include <string.h>

#include "base/assert.h"
#include "kernel/hash64.h"
#include "negotiate/internal.h"

typedef struct answer_view {
    tt_answer_head head;
    const char *name;
    const uint8_t *claim;
} answer_view;

static tt_status parse(const uint8_t **bytes, uint32_t *left, answer_view *view)
{
    if (*left < sizeof(view->head)) {
        return TT_ERR_BAD_WIRE;
    }
    memcpy(&view->head, *bytes, sizeof(view->head));
    const tt_answer_head *head = &view->head;
    const uint32_t total = (uint32_t)sizeof(*head) + head->name_bytes + 1U + head->claim_bytes + 1U;
    if (total > *left || head->needs_all > 1 || head->name_bytes > TT_TICKET_NAME_BYTES_MAX ||
        head->claim_bytes > TT_TICKET_CLAIM_BYTES_MAX) {
        return TT_ERR_BAD_WIRE;
    }
    view->name = (const char *)*bytes + sizeof(*head);
    view->claim = (const uint8_t *)view->name + head->name_bytes + 1;
    if (view->name[head->name_bytes] != 0 || view->claim[head->claim_bytes] != 0) {
        return TT_ERR_BAD_WIRE;
    }
    *bytes += total;
    *left -= total;
    return TT_OK;
}

/* ---- agreed ---- */

/* Does an agreement match this member's state? It must have the agreed claim, or have joined. When
 * all have joined, cached names are agreed this way, too. */
static bool fits(const tt_negotiator *self, const tt_entry *entry, const answer_view *view)
{
    const uint32_t bytes = view->head.claim_bytes;
    if (entry->ticket == NULL && !self->is_joining) {
        return false;
    }
    if (entry->ticket != NULL && (entry->ticket->claim_bytes != bytes ||
                                  memcmp(entry->ticket->claim, view->claim, bytes) != 0)) {
        return false;
    }
    const tt_slot *slot = entry->slot == TT_NONE ? NULL : &self->cache.slots[entry->slot];
    return slot == NULL || (!slot->is_planned && slot->claim_bytes == bytes &&
                            memcmp(slot->claim, view->claim, bytes) == 0);
}

static tt_status take_agreed(tt_negotiator *self, const answer_view *view)
{
    const uint32_t number = tt_entry_find(self, view->name, view->head.name_bytes, true);
    if (number == TT_NONE) {
        return TT_ERR_NO_MEMORY;
    }
    if (!fits(self, &self->entries.items[number], view)) {
        tt_entry_release(self, number);
        return TT_ERR_BAD_WIRE;
    }
    tt_agreement *item = tt_told_add(self);
    if (item == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    *item = (tt_agreement){.name = view->name,
                           .claim = view->claim,
                           .name_bytes = view->head.name_bytes,
                           .claim_bytes = view->head.claim_bytes,
                           .active = self->active,
                           .order = self->order++};
    if (self->entries.items[number].ticket != NULL) {
        item->ticket = tt_entry_end(self, number);
        self->last_mode = TT_NEGOTIATE_COORDINATOR;
    }
    uint32_t slot = self->entries.items[number].slot;
    if (slot != TT_NONE) {
        tt_cache_touch(self, slot);
    } else {
        TT_TRY(tt_cache_insert(self, number, view->claim, view->head.claim_bytes,
                               view->head.needs_all != 0));
        slot = self->entries.items[number].slot;
    }
    if (slot != TT_NONE) {
        self->cache.slots[slot].round = self->done + 1;
        tt_plan_saw(self, slot);
    }
    tt_entry_release(self, number);
    return TT_OK;
}

/* ---- failed ---- */

static tt_status owe_failure(tt_negotiator *self, const answer_view *view)
{
    const uint32_t number = tt_entry_find(self, view->name, view->head.name_bytes, true);
    tt_text text = {0};
    tt_text_add_words(&text, (const char *)view->claim, view->head.claim_bytes);
    return number == TT_NONE ? TT_ERR_NO_MEMORY
                             : tt_entry_owe(self, number, (tt_status)view->head.status, &text,
                                            view->head.kind == TT_ANSWER_CONTESTED);
}

typedef void entry_end_fn(tt_negotiator *self, uint32_t entry, tt_status status, const char *text);

/* The waiting ticket ends with the answer's status and text; false: there is none. */
static bool end_ticket(tt_negotiator *self, const answer_view *view, entry_end_fn *end)
{
    const uint32_t number = tt_entry_find(self, view->name, view->head.name_bytes, false);
    if (number == TT_NONE || self->entries.items[number].ticket == NULL) {
        return false;
    }
    self->last_mode = TT_NEGOTIATE_COORDINATOR;
    tt_text text = {0};
    tt_text_add_words(&text, (const char *)view->claim, view->head.claim_bytes);
    end(self, number, (tt_status)view->head.status, text.bytes);
    return true;
}

static tt_status take_failed(tt_negotiator *self, const answer_view *view)
{
    const tt_status status = (tt_status)view->head.status;
    if (status != TT_ERR_CANCELLED && status != TT_ERR_TIMED_OUT) {
        return TT_ERR_BAD_WIRE;
    }
    const bool is_over = end_ticket(self, view, tt_entry_fail) || self->is_joining;
    return is_over ? TT_OK : owe_failure(self, view);
}

/* Every member has had the ticket, unless it has joined. */
static tt_status take_judged(tt_negotiator *self, const answer_view *view)
{
    const int status = view->head.status;
    if (status >= 0 || status <= TT_JUDGED_LOWEST) {
        return TT_ERR_BAD_WIRE;
    }
    (void)end_ticket(self, view, tt_entry_judge);
    return TT_OK;
}

/* Is it a tensor of a group of this member that these answers have ended? */
static bool is_ended(const tt_negotiator *self, uint64_t hash)
{
    for (uint32_t i = 0; i < self->ended_parts.count; i++) {
        if (self->ended_parts.hashes[i] == hash) {
            return true;
        }
    }
    return false;
}

static tt_status end_parts(tt_negotiator *self, const tt_entry *entry)
{
    const tt_plannable item = {.name = entry->name,
                               .claim = entry->ticket->claim,
                               .claim_bytes = entry->ticket->claim_bytes};
    TT_TRY(tt_parts_read(self, tt_entry_hash(entry), &item, &self->parts));
    void *hashes = self->ended_parts.hashes;
    TT_TRY(tt_negotiator_grow(self, &hashes, &self->ended_parts.capacity,
                              sizeof(*self->ended_parts.hashes),
                              self->ended_parts.count + self->parts.count));
    self->ended_parts.hashes = hashes;
    for (uint32_t i = 0; i < self->parts.count; i++) {
        self->ended_parts.hashes[self->ended_parts.count++] = self->parts.hashes[i];
    }
    return TT_OK;
}

/* One occurrence of each tensor of a contested group is over on every member: whether it waits, was
 * in such a group, or is not submitted yet. */
static tt_status take_contested(tt_negotiator *self, const answer_view *view)
{
    const uint32_t number = tt_entry_find(self, view->name, view->head.name_bytes, false);
    if (number != TT_NONE && self->entries.items[number].ticket != NULL) {
        self->last_mode = TT_NEGOTIATE_COORDINATOR;
        TT_TRY(end_parts(self, &self->entries.items[number]));
        tt_text text = {0};
        tt_text_add_words(&text, (const char *)view->claim, view->head.claim_bytes);
        tt_entry_fail(self, number, TT_ERR_MISMATCH, text.bytes);
        return TT_OK;
    }
    if (view->head.status != TT_ERR_MISMATCH) {
        return TT_ERR_BAD_WIRE;
    }
    const uint64_t hash = tt_hash64(view->name, view->head.name_bytes, 0);
    const bool is_over = view->head.needs_all != 0 || self->is_joining || is_ended(self, hash);
    return is_over ? TT_OK : owe_failure(self, view);
}

/* ---- joined ---- */

static void fail_what_needs_all(tt_negotiator *self)
{
    uint32_t newer;
    for (uint32_t number = self->entries.oldest; number != TT_NONE; number = newer) {
        const tt_entry *entry = &self->entries.items[number];
        newer = entry->newer;
        if (entry->ticket->needs_all) {
            tt_text text = {0};
            tt_negotiator_say_joined(self, entry->ticket, &text);
            tt_entry_fail(self, number, TT_ERR_PEER_LEFT, text.bytes);
        }
    }
}

static tt_status take_joined(tt_negotiator *self, const answer_view *view)
{
    tt_answer_join join;
    if (view->head.claim_bytes != sizeof(join)) {
        return TT_ERR_BAD_WIRE;
    }
    memcpy(&join, view->claim, sizeof(join));
    const uint32_t size = self->members.size;
    if (join.active >= size || join.first >= size || join.last >= size) {
        return TT_ERR_BAD_WIRE;
    }
    if (join.active == 0) {
        if (!self->is_join_told) {
            return TT_ERR_BAD_WIRE;
        }
        tt_told_tell(self);
        self->active = size;
        self->is_joining = self->is_join_told = self->is_joined = false;
        tt_entries_forgive(self);
        self->host.joined(self->host.owner, join.last);
        return TT_OK;
    }
    self->active = join.active;
    self->first_joined = join.first;
    self->is_joined = self->is_join_told;
    fail_what_needs_all(self);
    return TT_OK;
}

/* ---- all of them ---- */

static tt_status take(tt_negotiator *self, const answer_view *view)
{
    self->is_useful = true;
    tt_cache_note(self, tt_hash64(view->name, view->head.name_bytes, view->head.kind));
    switch ((tt_answer_kind)view->head.kind) {
    case TT_ANSWER_AGREED:
        return view->head.name_bytes == 0 ? TT_ERR_BAD_WIRE : take_agreed(self, view);
    case TT_ANSWER_FAILED:
        return view->head.name_bytes == 0 ? TT_ERR_BAD_WIRE : take_failed(self, view);
    case TT_ANSWER_CONTESTED:
        return view->head.name_bytes == 0 ? TT_ERR_BAD_WIRE : take_contested(self, view);
    case TT_ANSWER_JUDGED:
        return view->head.name_bytes == 0 ? TT_ERR_BAD_WIRE : take_judged(self, view);
    case TT_ANSWER_JOINED:
        return take_joined(self, view);
    }
    return TT_ERR_BAD_WIRE;
}

tt_status tt_answers_apply(tt_negotiator *self)
{
    tt_status status = TT_OK;
    tt_agreement near[TT_TOLD_NEAR];
    tt_told_open(self, near);
    self->ended_parts.count = 0;
    for (uint32_t i = 0; i < self->turn.answer_count && status == TT_OK; i++) {
        const uint8_t *bytes = self->turn.answers[i].bytes;
        uint32_t left = self->turn.answers[i].count;
        while (left > 0 && status == TT_OK) {
            answer_view view;
            status = parse(&bytes, &left, &view);
            if (status == TT_OK) {
                status = take(self, &view);
            }
        }
    }
    tt_told_close(self, status);
    return status;
}
