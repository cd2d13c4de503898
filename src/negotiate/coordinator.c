/* SPDX-License-Identifier: Apache-2.0
 *
 * coordinator.c - member 0 compares the claims of all members, and answers.
 *
 * A row is complete when every member is in one of its claims, or has joined. One claim: agreed.
 * Several: it fails on all members, with a text that the host makes of the claims. Answers are in
 * the order of first requests, this member's own before those of others: so the order is as
 * reproducible from run to run as that of one rank. */
#include <string.h>

#include "base/assert.h"
#include "base/plant.h"
#include "negotiate/internal.h"

static void write_failure(tt_writer *writer, const tt_row *row, tt_answer_kind kind,
                          tt_status status, const tt_text *text)
{
    const tt_entry *entry = &writer->self->entries.items[row->entry];
    const tt_answer_head head = {.kind = (uint8_t)kind,
                                 .status = (int16_t)status,
                                 .name_bytes = entry->name_bytes,
                                 .claim_bytes = (uint16_t)text->length};
    tt_writer_answer(writer, &head, entry->name, text->bytes);
}

static void write_verdict(tt_writer *writer, const tt_row *row)
{
    tt_text text = {0};
    const tt_entry *entry = &writer->self->entries.items[row->entry];
    tt_text_add(&text, "tensor ");
    tt_text_add_quoted(&text, entry->name, entry->name_bytes);
    tt_text_add(&text, ": %s", row->text->bytes);
    write_failure(writer, row, TT_ANSWER_FAILED,
                  row->verdict == TT_REQUEST_CANCEL ? TT_ERR_CANCELLED : TT_ERR_TIMED_OUT, &text);
}

static void write_joined(tt_writer *writer)
{
    tt_negotiator *self = writer->self;
    const tt_ranges *joined = &self->turn.joined;
    const tt_answer_join join = {.active = self->members.size - (uint32_t)joined->total,
                                 .first = joined->items[0].first,
                                 .last = self->turn.last};
    const tt_answer_head head = {.kind = TT_ANSWER_JOINED, .claim_bytes = sizeof(join)};
    tt_writer_answer(writer, &head, "", &join);
}

/* ---- claims that differ ---- */

static uint32_t expand(const tt_ranges *ranges, uint32_t *members)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < ranges->count; i++) {
        for (uint32_t k = ranges->items[i].first; k <= ranges->items[i].last; k++) {
            members[count++] = k;
        }
    }
    return count;
}

/* By their lowest member, so that the text does not depend on arrival. */
static void place_claimant(tt_claimant *claimants, uint32_t count, tt_claimant claimant)
{
    uint32_t at = count;
    for (; at > 0 && claimants[at - 1].members[0] > claimant.members[0]; at--) {
        claimants[at] = claimants[at - 1];
    }
    claimants[at] = claimant;
}

static tt_status explain(tt_negotiator *self, const tt_row *row, tt_text *text,
                         tt_status *status_out)
{
    uint32_t claim_count = 0;
    uint64_t member_count = 0;
    for (const tt_row_claim *claim = row->claims; claim != NULL; claim = claim->next) {
        claim_count++;
        member_count += claim->members.total;
    }
    tt_claimant *claimants = tt_allocate(&self->memory, claim_count, sizeof(tt_claimant));
    uint32_t *members = tt_allocate(&self->memory, member_count, sizeof(uint32_t));
    if (claimants != NULL && members != NULL) {
        uint32_t *at = members, count = 0;
        for (const tt_row_claim *claim = row->claims; claim != NULL; claim = claim->next) {
            const tt_claimant claimant = {.claim = claim->claim,
                                          .claim_bytes = claim->bytes,
                                          .members = at,
                                          .member_count = expand(&claim->members, at)};
            at += claimant.member_count;
            place_claimant(claimants, count++, claimant);
        }
        *status_out = self->host.explain(self->host.owner, self->entries.items[row->entry].name,
                                         claimants, claim_count, text);
        TT_ASSERT(*status_out < 0 && (int)*status_out > TT_JUDGED_LOWEST);
    }
    const bool is_out = claimants == NULL || members == NULL;
    tt_release(&self->memory, claimants, claim_count, sizeof(tt_claimant));
    tt_release(&self->memory, members, member_count, sizeof(uint32_t));
    return is_out ? TT_ERR_NO_MEMORY : TT_OK;
}

static tt_status answer_complete(tt_writer *writer, const tt_row *row)
{
    tt_negotiator *self = writer->self;
    const tt_entry *entry = &self->entries.items[row->entry];
    if (row->claims->next == NULL) {
        const tt_answer_head head = {.kind = TT_ANSWER_AGREED,
                                     .needs_all = row->needs_all,
                                     .name_bytes = entry->name_bytes,
                                     .claim_bytes = row->claims->bytes};
        tt_writer_answer(writer, &head, entry->name, row->claims->claim);
        return TT_OK;
    }
    tt_text text = {0};
    tt_status status = TT_ERR_MISMATCH;
    TT_TRY(explain(self, row, &text, &status));
    write_failure(writer, row, TT_ANSWER_JUDGED, status, &text);
    return TT_OK;
}

/* ---- the turn ---- */

static tt_status is_complete(tt_negotiator *self, const tt_row *row, bool *is_complete_out)
{
    uint64_t total = 0;
    for (const tt_row_claim *claim = row->claims; claim != NULL; claim = claim->next) {
        total += claim->members.total;
    }
    *is_complete_out = total + (TT_PLANT(COORDINATOR_TOO_EARLY) ? 1 : 0) >= self->members.size;
    if (self->turn.joined.total == 0 || total == 0) {
        return TT_OK;
    }
    tt_ranges all = {0};
    tt_status status = tt_ranges_add_all(&all, &self->memory, &self->turn.joined);
    for (const tt_row_claim *claim = row->claims; claim != NULL && status == TT_OK;
         claim = claim->next) {
        status = tt_ranges_add_all(&all, &self->memory, &claim->members);
    }
    *is_complete_out = all.total == self->members.size;
    tt_ranges_release(&all, &self->memory);
    return status;
}

static tt_status answer_row(tt_writer *writer, tt_row *row)
{
    tt_negotiator *self = writer->self;
    if (row->verdict != 0) {
        write_verdict(writer, row);
        tt_roll_remove(self, row);
        return TT_OK;
    }
    if (row->needs_all && self->turn.joined.total > 0) { /* its members fail it by themselves */
        tt_roll_remove(self, row);
        return TT_OK;
    }
    bool is_ready = false;
    TT_TRY(is_complete(self, row, &is_ready));
    if (is_ready) {
        TT_TRY(answer_complete(writer, row));
        tt_roll_remove(self, row);
    }
    return TT_OK;
}

tt_status tt_coordinator_answer(tt_negotiator *self)
{
    tt_turn *turn = &self->turn;
    tt_writer writer;
    tt_writer_begin(&writer, self, TT_NOTICE_ANSWERS);
    const bool has_joined = turn->joiners.count > 0;
    if (has_joined) {
        turn->last = turn->joiners.items[turn->joiners.count - 1].last;
        TT_TRY(tt_ranges_add_all(&turn->joined, &self->memory, &turn->joiners));
    }
    /* The last join ends joining, so its answer follows those that still need the others. */
    const bool is_last = turn->joined.total == self->members.size;
    if (has_joined && !is_last) {
        write_joined(&writer);
    }
    TT_TRY(tt_contest_answer(&writer));
    tt_list_node *next;
    for (tt_list_node *node = tt_list_first(&turn->rows); node != NULL; node = next) {
        next = tt_list_next(&turn->rows, node);
        TT_TRY(answer_row(&writer, TT_CONTAINER_OF(node, tt_row, node)));
    }
    if (has_joined && is_last) {
        write_joined(&writer);
        tt_ranges_clear(&turn->joined);
    }
    return tt_writer_end(&writer);
}
