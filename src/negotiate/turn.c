/* SPDX-License-Identifier: Apache-2.0
 *
 * turn.c - a coordinator turn: requests up the tree, merged on the way; answers down it.
 *
 * A child's requests are merged as their parts arrive. When those of all children and this member
 * are in, the rows are sent up. Answers are forwarded part by part, and take effect when all have
 * arrived: their order is the agreed order. */
#include <string.h>

#include "base/assert.h"
#include "negotiate/internal.h"

tt_status tt_turn_init(tt_negotiator *self)
{
    tt_list_init(&self->turn.rows);
    if (self->place.child_count == 0) {
        return TT_OK;
    }
    self->turn.children = tt_allocate(&self->memory, self->place.child_count, sizeof(tt_child));
    return self->turn.children == NULL ? TT_ERR_NO_MEMORY : TT_OK;
}

static void drop_rows(tt_negotiator *self)
{
    tt_list_node *node;
    while ((node = tt_list_first(&self->turn.rows)) != NULL) {
        tt_roll_remove(self, TT_CONTAINER_OF(node, tt_row, node));
    }
}

static void drop_answers(tt_negotiator *self)
{
    tt_turn *turn = &self->turn;
    for (uint32_t i = 0; i < turn->answer_capacity; i++) {
        tt_release(&self->memory, turn->answers[i].bytes, (size_t)turn->answers[i].count + 1, 1);
        turn->answers[i] = (tt_part){0};
    }
    tt_ranges_clear(&turn->answered);
    turn->answer_count = 0;
}

void tt_turn_reset(tt_negotiator *self)
{
    tt_turn *turn = &self->turn;
    if (!turn->is_used) {
        return; /* most rounds have no turn */
    }
    turn->is_used = false;
    for (uint32_t i = 0; i < self->place.child_count; i++) {
        tt_ranges_clear(&turn->children[i].parts);
        turn->children[i].part_count = 0;
        turn->children[i].is_over = false;
    }
    turn->children_over = 0;
    tt_ranges_clear(&turn->joiners);
    if (self->members.self != 0) {
        drop_rows(self);
    }
    drop_answers(self);
}

void tt_turn_destroy(tt_negotiator *self)
{
    tt_turn *turn = &self->turn;
    if (turn->rows.head.next == NULL) {
        return; /* was never created */
    }
    drop_rows(self);
    drop_answers(self);
    for (uint32_t i = 0; turn->children != NULL && i < self->place.child_count; i++) {
        tt_ranges_release(&turn->children[i].parts, &self->memory);
    }
    tt_release(&self->memory, turn->children, self->place.child_count, sizeof(tt_child));
    tt_ranges_release(&turn->joiners, &self->memory);
    tt_ranges_release(&turn->joined, &self->memory);
    tt_ranges_release(&turn->answered, &self->memory);
    tt_release(&self->memory, turn->answers, turn->answer_capacity, sizeof(tt_part));
}

/* ---- up ---- */

tt_status tt_turn_requests(tt_negotiator *self, uint32_t member, const tt_notice *notice)
{
    const uint32_t number = tt_place_child_of(self, member);
    if (number == TT_NONE || notice->part >= TT_NOTICE_PARTS_MAX || notice->flags > TT_FLAG_LAST) {
        return TT_ERR_BAD_WIRE;
    }
    tt_child *child = &self->turn.children[number];
    self->turn.is_used = true;
    if (child->is_over || tt_ranges_has(&child->parts, notice->part)) {
        return TT_OK;
    }
    const uint8_t *bytes = notice->payload;
    uint32_t left = notice->bytes;
    while (left > 0) {
        tt_request_view view;
        TT_TRY(tt_roll_parse(self, &bytes, &left, &view));
        TT_TRY(tt_roll_add(self, &view));
    }
    TT_TRY(tt_ranges_add(&child->parts, &self->memory, (tt_range){notice->part, notice->part}));
    if (notice->flags == TT_FLAG_LAST) {
        child->part_count = notice->part + 1;
    }
    if (child->part_count > 0 && child->parts.total >= child->part_count) {
        child->is_over = true;
        self->turn.children_over++;
        TT_ASSERT(self->turn.children_over <= self->place.child_count);
    }
    return TT_OK;
}

/* Add one request of this member. */
static tt_status tell(tt_negotiator *self, tt_request_kind kind, const tt_entry *entry,
                      const tt_text *text)
{
    const tt_range range = {self->members.self, self->members.self};
    tt_request_view view = {.head = {.kind = (uint8_t)kind, .range_count = 1},
                            .ranges = (const uint8_t *)&range};
    if (entry != NULL) {
        view.head.name_bytes = entry->name_bytes;
        view.name = entry->name;
    }
    if (kind == TT_REQUEST_TENSOR) {
        view.head.needs_all = entry->ticket->needs_all;
        view.head.claim_bytes = entry->ticket->claim_bytes;
        view.claim = entry->ticket->claim;
    } else if (text != NULL) {
        view.head.claim_bytes = (uint16_t)text->length;
        view.claim = (const uint8_t *)text->bytes;
    }
    return tt_roll_add(self, &view);
}

static tt_status tell_wish(tt_negotiator *self, tt_entry *entry)
{
    tt_text text = {0};
    const uint32_t rank = tt_negotiator_rank(self, self->members.self);
    if (entry->wish == TT_REQUEST_CANCEL) {
        tt_text_add(&text, "rank %u cancelled it", rank);
    } else {
        tt_negotiator_say_expired(self, entry->ticket, &text);
    }
    TT_TRY(tell(self, (tt_request_kind)entry->wish, entry, &text));
    self->wish_count--;
    entry->wish = 0;
    return TT_OK;
}

/* Only without a plan, which a joined member could not follow, and when all its tickets were sent.
 * Cached tickets are sent to the coordinator, too: when all have joined, they must run before the
 * join ends. */
static tt_status tell_join(tt_negotiator *self)
{
    if (!self->is_joining || self->is_join_told || self->cache.planned > 0 ||
        self->changed_count + self->displaced_count > 0) {
        return TT_OK;
    }
    self->is_join_told = true;
    for (uint32_t number = self->entries.oldest; number != TT_NONE;
         number = self->entries.items[number].newer) {
        const tt_entry *entry = &self->entries.items[number];
        if (entry->wait == TT_WAIT_VECTOR) {
            TT_TRY(tell(self, TT_REQUEST_TENSOR, entry, NULL));
        }
    }
    return tell(self, TT_REQUEST_JOIN, NULL, NULL);
}

tt_status tt_turn_tell(tt_negotiator *self)
{
    self->turn.is_used = true;
    TT_TRY(tell_join(self));
    for (uint32_t number = self->entries.oldest;
         number != TT_NONE && self->untold_count + self->wish_count > 0;
         number = self->entries.items[number].newer) {
        tt_entry *entry = &self->entries.items[number];
        if (entry->wish != 0) {
            TT_TRY(tell_wish(self, entry));
            entry = &self->entries.items[number];
        }
        if (entry->wait == TT_WAIT_UNTOLD && !tt_parts_are_displacing(self, number)) {
            TT_TRY(tell(self, TT_REQUEST_TENSOR, entry, NULL));
            tt_entry_wait(self, number, TT_WAIT_TOLD);
        }
    }
    return TT_OK;
}

static void write_request(tt_writer *writer, const tt_request_view *view)
{
    const tt_request_head *head = &view->head;
    const uint32_t range_bytes = (uint32_t)(head->range_count * sizeof(tt_range));
    uint8_t *at = tt_writer_take(writer, (uint32_t)sizeof(*head) + range_bytes + head->name_bytes +
                                             head->claim_bytes);
    memcpy(at, head, sizeof(*head));
    at += sizeof(*head);
    memcpy(at, view->ranges, range_bytes);
    at += range_bytes;
    if (head->name_bytes > 0) {
        memcpy(at, view->name, head->name_bytes);
        at += head->name_bytes;
    }
    if (head->claim_bytes > 0) {
        memcpy(at, view->claim, head->claim_bytes);
    }
}

static void write_members(tt_writer *writer, tt_request_view *view, const tt_ranges *members)
{
    for (uint32_t i = 0; i < members->count; i += TT_NOTICE_RANGES_MAX) {
        const uint32_t left = members->count - i;
        view->head.range_count =
            (uint16_t)(left < TT_NOTICE_RANGES_MAX ? left : TT_NOTICE_RANGES_MAX);
        view->ranges = (const uint8_t *)(members->items + i);
        write_request(writer, view);
    }
}

static void write_row(tt_writer *writer, const tt_row *row)
{
    tt_negotiator *self = writer->self;
    const tt_entry *entry = &self->entries.items[row->entry];
    tt_request_view view = {.name = entry->name};
    if (row->verdict != 0) {
        const tt_range range = {self->members.self, self->members.self};
        view.head = (tt_request_head){.kind = row->verdict,
                                      .name_bytes = entry->name_bytes,
                                      .claim_bytes = (uint16_t)row->text->length,
                                      .range_count = 1};
        view.ranges = (const uint8_t *)&range;
        view.claim = (const uint8_t *)row->text->bytes;
        write_request(writer, &view);
    }
    for (const tt_row_claim *claim = row->claims; claim != NULL; claim = claim->next) {
        view.head = (tt_request_head){.kind = TT_REQUEST_TENSOR,
                                      .needs_all = row->needs_all,
                                      .name_bytes = entry->name_bytes,
                                      .claim_bytes = claim->bytes};
        view.claim = claim->claim;
        write_members(writer, &view, &claim->members);
    }
}

tt_status tt_turn_pass_up(tt_negotiator *self)
{
    if (self->members.self == 0) {
        return tt_coordinator_answer(self);
    }
    tt_writer writer;
    tt_writer_begin(&writer, self, TT_NOTICE_REQUESTS);
    tt_request_view joiners = {.head = {.kind = TT_REQUEST_JOIN}};
    write_members(&writer, &joiners, &self->turn.joiners);
    for (tt_list_node *node = tt_list_first(&self->turn.rows); node != NULL;
         node = tt_list_next(&self->turn.rows, node)) {
        write_row(&writer, TT_CONTAINER_OF(node, tt_row, node));
    }
    return tt_writer_end(&writer);
}

/* ---- down ---- */

tt_status tt_turn_keep(tt_negotiator *self, uint32_t part, bool is_last, const void *bytes,
                       uint32_t count)
{
    tt_turn *turn = &self->turn;
    TT_ASSERT(part < TT_NOTICE_PARTS_MAX);
    turn->is_used = true;
    void *answers = turn->answers;
    TT_TRY(tt_negotiator_grow(self, &answers, &turn->answer_capacity, sizeof(tt_part), part + 1));
    turn->answers = answers;
    TT_ASSERT(turn->answers[part].bytes == NULL);
    uint8_t *copy = tt_allocate(&self->memory, (size_t)count + 1, 1);
    if (copy == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    if (count > 0) {
        memcpy(copy, bytes, count);
    }
    turn->answers[part] = (tt_part){.bytes = copy, .count = count};
    TT_TRY(tt_ranges_add(&turn->answered, &self->memory, (tt_range){part, part}));
    if (is_last) {
        turn->answer_count = part + 1;
    }
    for (uint32_t i = 0; i < self->place.child_count; i++) {
        tt_negotiator_send(self, tt_place_child(self, i),
                           &(tt_notice){.kind = TT_NOTICE_ANSWERS,
                                        .flags = is_last ? TT_FLAG_LAST : 0,
                                        .part = part,
                                        .round = self->done + 1,
                                        .digest = self->cache.digest,
                                        .bytes = count,
                                        .payload = copy});
    }
    return TT_OK;
}

tt_status tt_turn_answers(tt_negotiator *self, uint32_t member, const tt_notice *notice)
{
    tt_turn *turn = &self->turn;
    if (self->phase != TT_PHASE_ANSWER || member != tt_place_parent(self) ||
        notice->part >= TT_NOTICE_PARTS_MAX || notice->flags > TT_FLAG_LAST ||
        (turn->answer_count > 0 && notice->part >= turn->answer_count)) {
        return TT_ERR_BAD_WIRE;
    }
    if (tt_ranges_has(&turn->answered, notice->part)) {
        return TT_OK;
    }
    return tt_turn_keep(self, notice->part, notice->flags == TT_FLAG_LAST, notice->payload,
                        notice->bytes);
}
