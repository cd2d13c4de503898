/* SPDX-License-Identifier: Apache-2.0
 *
 * roll.c - merges equal requests: a row per name has the claims, a claim has its members.
 *
 * On the way up a row lives for one turn. At the coordinator it stays until all members are in it:
 * a member sends a request once. */
#include <string.h>

#include "base/assert.h"
#include "negotiate/internal.h"

tt_status tt_roll_parse(const tt_negotiator *self, const uint8_t **bytes, uint32_t *left,
                        tt_request_view *view)
{
    if (*left < sizeof(view->head)) {
        return TT_ERR_BAD_WIRE;
    }
    memcpy(&view->head, *bytes, sizeof(view->head));
    const tt_request_head *head = &view->head;
    const uint32_t range_bytes = (uint32_t)(head->range_count * sizeof(tt_range));
    const uint32_t total =
        (uint32_t)sizeof(*head) + range_bytes + head->name_bytes + head->claim_bytes;
    const bool is_join = head->kind == TT_REQUEST_JOIN;
    if (total > *left || head->kind == 0 || head->kind > TT_REQUEST_GIVE_UP ||
        head->needs_all > 1 || head->name_bytes > TT_TICKET_NAME_BYTES_MAX ||
        head->claim_bytes > TT_TICKET_CLAIM_BYTES_MAX || (head->name_bytes == 0) != is_join ||
        head->range_count == 0 || head->range_count > TT_NOTICE_RANGES_MAX) {
        return TT_ERR_BAD_WIRE;
    }
    view->ranges = *bytes + sizeof(*head);
    view->name = (const char *)view->ranges + range_bytes;
    view->claim = (const uint8_t *)view->name + head->name_bytes;
    for (uint32_t i = 0; i < head->range_count; i++) {
        tt_range range;
        memcpy(&range, view->ranges + i * sizeof(range), sizeof(range));
        if (range.first > range.last || range.last >= self->members.size) {
            return TT_ERR_BAD_WIRE;
        }
    }
    *bytes += total;
    *left -= total;
    return TT_OK;
}

static tt_status add_members(tt_negotiator *self, tt_ranges *members, const tt_request_view *view)
{
    for (uint32_t i = 0; i < view->head.range_count; i++) {
        tt_range range;
        memcpy(&range, view->ranges + i * sizeof(range), sizeof(range));
        TT_TRY(tt_ranges_add(members, &self->memory, range));
    }
    return TT_OK;
}

static tt_row *row_for(tt_negotiator *self, const tt_request_view *view)
{
    const uint32_t entry = tt_entry_find(self, view->name, view->head.name_bytes, true);
    if (entry == TT_NONE) {
        return NULL;
    }
    if (self->entries.items[entry].row == NULL) {
        tt_row *row = tt_allocate(&self->memory, 1, sizeof(tt_row));
        if (row == NULL) {
            tt_entry_release(self, entry);
            return NULL;
        }
        row->entry = entry;
        self->entries.items[entry].row = row;
        tt_list_push_back(&self->turn.rows, &row->node);
    }
    return self->entries.items[entry].row;
}

/* The first request to end a tensor gives the reason. */
static tt_status add_verdict(tt_negotiator *self, tt_row *row, const tt_request_view *view)
{
    if (row->verdict != 0) {
        return TT_OK;
    }
    row->text = tt_allocate(&self->memory, 1, sizeof(tt_text));
    if (row->text == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    row->verdict = view->head.kind;
    tt_text_add_words(row->text, (const char *)view->claim, view->head.claim_bytes);
    return TT_OK;
}

static void note_parts(tt_negotiator *self, tt_row_claim *claim)
{
    tt_part_name part = {0};
    if (self->members.self == 0 && self->host.part != NULL) {
        claim->has_parts =
            self->host.part(self->host.owner, claim->claim, claim->bytes, 0, &part) > 0;
        claim->is_regrouped = part.regrouped != NULL;
        self->turn.groups += claim->has_parts;
    }
}

tt_status tt_roll_add(tt_negotiator *self, const tt_request_view *view)
{
    const tt_request_head *head = &view->head;
    if (head->kind == TT_REQUEST_JOIN) {
        return add_members(self, &self->turn.joiners, view);
    }
    tt_row *row = row_for(self, view);
    if (row == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    if (head->kind != TT_REQUEST_TENSOR) {
        return add_verdict(self, row, view);
    }
    row->needs_all |= head->needs_all != 0;
    tt_row_claim **at = &row->claims;
    while (*at != NULL && ((*at)->bytes != head->claim_bytes ||
                           memcmp((*at)->claim, view->claim, head->claim_bytes) != 0)) {
        at = &(*at)->next;
    }
    if (*at == NULL) {
        *at = tt_allocate(&self->memory, 1, sizeof(tt_row_claim) + head->claim_bytes);
        if (*at == NULL) {
            return TT_ERR_NO_MEMORY;
        }
        (*at)->bytes = head->claim_bytes;
        memcpy((*at)->claim, view->claim, head->claim_bytes);
        note_parts(self, *at);
    }
    return add_members(self, &(*at)->members, view);
}

void tt_roll_remove(tt_negotiator *self, tt_row *row)
{
    const uint32_t entry = row->entry;
    TT_ASSERT(self->entries.items[entry].row == row);
    while (row->claims != NULL) {
        tt_row_claim *claim = row->claims;
        row->claims = claim->next;
        TT_ASSERT(self->turn.groups >= (claim->has_parts ? 1 : 0));
        self->turn.groups -= claim->has_parts;
        tt_ranges_release(&claim->members, &self->memory);
        tt_release(&self->memory, claim, 1, sizeof(*claim) + claim->bytes);
    }
    tt_release(&self->memory, row->text, 1, sizeof(tt_text));
    tt_list_remove(&row->node);
    tt_release(&self->memory, row, 1, sizeof(*row));
    self->entries.items[entry].row = NULL;
    tt_entry_release(self, entry);
}
