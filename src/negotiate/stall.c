/* SPDX-License-Identifier: Apache-2.0
 *
 * stall.c - finds the members that have and lack a ticket that waits too long.
 *
 * Only here does the coordinator send to all members: vectors show that a tensor is missing on some
 * member, not on which. One inquiry is open at a time; a member sends ASK for one ticket at a time,
 * and repeats it every stall_ns. Members that do not answer within a quarter of that are named,
 * too. */
#include <string.h>

#include "base/log.h"
#include "negotiate/internal.h"

static uint64_t pause_ns(const tt_negotiator *self)
{
    return self->config.stall_ns / 8 + 1;
}

/* ---- at the coordinator ---- */

static tt_status note_answer(tt_negotiator *self, uint32_t member, uint8_t what)
{
    tt_inquiry *inquiry = self->inquiry;
    tt_ranges *set = what == TT_HAVE_TICKET   ? &inquiry->having
                     : what == TT_HAVE_JOINED ? &inquiry->joined
                                              : &inquiry->lacking;
    return tt_ranges_add(set, &self->memory, (tt_range){member, member});
}

static uint8_t own_answer(tt_negotiator *self, const char *name, uint16_t name_bytes)
{
    const uint32_t entry = tt_entry_find(self, name, name_bytes, false);
    if (entry != TT_NONE && self->entries.items[entry].ticket != NULL) {
        return TT_HAVE_TICKET;
    }
    return self->is_joining ? TT_HAVE_JOINED : TT_HAVE_NOTHING;
}

static void add_set(const tt_negotiator *self, const tt_ranges *set, const char *what,
                    tt_text *text)
{
    if (set->total > 0) {
        tt_text_add(text, "; %s %s ", what, set->total == 1 ? "rank" : "ranks");
        tt_ranges_print(set, self->members.rank_of, text);
    }
}

static tt_status add_silent(tt_negotiator *self, tt_text *text)
{
    const tt_inquiry *inquiry = self->inquiry;
    tt_ranges silent = {0};
    tt_status status = TT_OK;
    for (uint32_t i = 0; i < self->members.size && status == TT_OK; i++) {
        if (!tt_ranges_has(&inquiry->having, i) && !tt_ranges_has(&inquiry->lacking, i) &&
            !tt_ranges_has(&inquiry->joined, i)) {
            status = tt_ranges_add(&silent, &self->memory, (tt_range){i, i});
        }
    }
    add_set(self, &silent, "no answer from", text);
    tt_ranges_release(&silent, &self->memory);
    return status;
}

static void send_report(tt_negotiator *self, const tt_text *text)
{
    const tt_inquiry *inquiry = self->inquiry;
    const tt_notice notice = {.kind = TT_NOTICE_REPORT,
                              .round = inquiry->number,
                              .bytes = (uint32_t)text->length,
                              .payload = text->bytes};
    for (uint32_t i = 0; i < inquiry->having.count; i++) {
        for (uint32_t k = inquiry->having.items[i].first; k <= inquiry->having.items[i].last; k++) {
            if (k != self->members.self) {
                tt_negotiator_send(self, k, &notice);
            }
        }
    }
    self->host.report(self->host.owner, TT_LOG_WARN, text->bytes);
}

static uint64_t answered(const tt_inquiry *inquiry)
{
    return inquiry->having.total + inquiry->lacking.total + inquiry->joined.total;
}

/* All members have answered, or the time for it has passed. Reports nothing if the ticket was
 * agreed meanwhile. */
static tt_status close_inquiry(tt_negotiator *self)
{
    tt_inquiry *inquiry = self->inquiry;
    inquiry->is_open = false;
    if (inquiry->having.total == 0) {
        return TT_OK;
    }
    tt_text text = {0};
    tt_text_add(&text, "tensor ");
    tt_text_add_quoted(&text, inquiry->name, inquiry->name_bytes);
    tt_text_add(&text, " has waited for %.1f s", (double)inquiry->age_ns / 1e9);
    add_set(self, &inquiry->having, "submitted by", &text);
    add_set(self, &inquiry->lacking, "missing on", &text);
    add_set(self, &inquiry->joined, "joined:", &text);
    if (answered(inquiry) < self->members.size) {
        TT_TRY(add_silent(self, &text));
    }
    send_report(self, &text);
    return TT_OK;
}

static tt_status open_inquiry(tt_negotiator *self, const char *name, uint16_t name_bytes,
                              uint64_t age_ns)
{
    if (self->inquiry == NULL) {
        self->inquiry = tt_allocate(&self->memory, 1, sizeof(tt_inquiry));
        if (self->inquiry == NULL) {
            return TT_ERR_NO_MEMORY;
        }
    }
    tt_inquiry *inquiry = self->inquiry;
    if (inquiry->is_open) {
        return TT_OK; /* the member will send ASK again */
    }
    inquiry->is_open = true;
    inquiry->number++;
    inquiry->asked_ns = self->host.now(self->host.owner);
    inquiry->age_ns = age_ns;
    inquiry->name_bytes = name_bytes;
    memcpy(inquiry->name, name, name_bytes);
    inquiry->name[name_bytes] = 0;
    tt_ranges_clear(&inquiry->having);
    tt_ranges_clear(&inquiry->lacking);
    tt_ranges_clear(&inquiry->joined);
    TT_TRY(note_answer(self, self->members.self, own_answer(self, name, name_bytes)));
    for (uint32_t i = 0; i < self->members.size; i++) {
        if (i != self->members.self) {
            tt_negotiator_send(self, i,
                               &(tt_notice){.kind = TT_NOTICE_QUERY,
                                            .round = inquiry->number,
                                            .bytes = name_bytes,
                                            .payload = inquiry->name});
        }
    }
    return answered(inquiry) == self->members.size ? close_inquiry(self) : TT_OK;
}

static tt_status take_answer(tt_negotiator *self, uint32_t member, const tt_notice *notice)
{
    tt_inquiry *inquiry = self->inquiry;
    if (inquiry == NULL || notice->flags > TT_HAVE_JOINED) {
        return TT_ERR_BAD_WIRE;
    }
    if (!inquiry->is_open || notice->round != inquiry->number ||
        tt_ranges_has(&inquiry->having, member) || tt_ranges_has(&inquiry->lacking, member) ||
        tt_ranges_has(&inquiry->joined, member)) {
        return TT_OK;
    }
    TT_TRY(note_answer(self, member, notice->flags));
    return answered(inquiry) == self->members.size ? close_inquiry(self) : TT_OK;
}

void tt_stall_destroy(tt_negotiator *self)
{
    if (self->inquiry != NULL) {
        tt_ranges_release(&self->inquiry->having, &self->memory);
        tt_ranges_release(&self->inquiry->lacking, &self->memory);
        tt_ranges_release(&self->inquiry->joined, &self->memory);
        tt_release(&self->memory, self->inquiry, 1, sizeof(tt_inquiry));
    }
}

/* ---- at every member ---- */

/* Running out of memory here affects only the report. */
static tt_status without_memory(tt_status status)
{
    return status == TT_ERR_NO_MEMORY ? TT_OK : status;
}

static tt_status take_notice(tt_negotiator *self, uint32_t member, const tt_notice *notice)
{
    const bool is_first = self->members.self == 0;
    const uint16_t bytes = (uint16_t)notice->bytes;
    const bool is_survey = tt_survey_is_number(notice->round);
    if (notice->kind == TT_NOTICE_HAVE && is_survey) {
        return bytes == 0 ? tt_survey_answer(self, member, notice) : TT_ERR_BAD_WIRE;
    }
    if (notice->kind == TT_NOTICE_HAVE) {
        return is_first && bytes == 0 ? take_answer(self, member, notice) : TT_ERR_BAD_WIRE;
    }
    if (notice->kind == TT_NOTICE_REPORT) {
        tt_text text = {0};
        tt_text_add_words(&text, notice->payload, notice->bytes);
        if (member != 0 || notice->bytes >= TT_TEXT_BYTES) {
            return TT_ERR_BAD_WIRE;
        }
        self->host.report(self->host.owner, TT_LOG_WARN, text.bytes);
        return TT_OK;
    }
    if (notice->bytes == 0 || notice->bytes > TT_TICKET_NAME_BYTES_MAX) {
        return TT_ERR_BAD_WIRE;
    }
    if (notice->kind == TT_NOTICE_ASK) {
        return is_first ? open_inquiry(self, notice->payload, bytes, notice->digest)
                        : TT_ERR_BAD_WIRE;
    }
    if (member != 0 && !is_survey) {
        return TT_ERR_BAD_WIRE;
    }
    tt_negotiator_send(self, member,
                       &(tt_notice){.kind = TT_NOTICE_HAVE,
                                    .flags = own_answer(self, notice->payload, bytes),
                                    .round = notice->round});
    return TT_OK;
}

tt_status tt_stall_notice(tt_negotiator *self, uint32_t member, const tt_notice *notice)
{
    return without_memory(take_notice(self, member, notice));
}

static tt_status ask(tt_negotiator *self, uint32_t number, uint64_t now_ns)
{
    tt_entry *entry = &self->entries.items[number];
    const uint64_t age_ns = now_ns - entry->submitted_ns;
    entry->ticket->asked_ns = now_ns;
    self->asked_ns = now_ns;
    if (self->members.self == 0) {
        return open_inquiry(self, entry->name, entry->name_bytes, age_ns);
    }
    tt_negotiator_send(self, 0,
                       &(tt_notice){.kind = TT_NOTICE_ASK,
                                    .digest = age_ns,
                                    .bytes = entry->name_bytes,
                                    .payload = entry->name});
    return TT_OK;
}

/* Tickets that are too old are given up through the coordinator: on all members or none. */
static void give_up(tt_negotiator *self, uint64_t now_ns)
{
    for (uint32_t number = self->entries.oldest; number != TT_NONE;
         number = self->entries.items[number].newer) {
        tt_entry *entry = &self->entries.items[number];
        tt_ticket *ticket = entry->ticket;
        if (now_ns - entry->submitted_ns < self->config.stall_fail_ns) {
            return;
        }
        if (entry->wish == 0 && !ticket->is_given_up) {
            ticket->is_given_up = true;
            entry->wish = TT_REQUEST_GIVE_UP;
            self->wish_count++;
            self->is_urgent = true;
        }
    }
}

uint64_t tt_stall_due(const tt_negotiator *self)
{
    uint64_t due_ns = UINT64_MAX;
    const tt_negotiate_config *config = &self->config;
    if (self->entries.oldest != TT_NONE) {
        const tt_entry *entry = &self->entries.items[self->entries.oldest];
        const uint64_t since_ns = entry->submitted_ns;
        if (config->stall_ns > 0) {
            due_ns = tt_max_u64(since_ns + config->stall_ns,
                                self->asked_ns > 0 ? self->asked_ns + pause_ns(self) : 0);
        }
        if (config->stall_fail_ns > 0 && !entry->ticket->is_given_up) {
            due_ns = tt_min_u64(due_ns, since_ns + config->stall_fail_ns);
        }
    }
    if (self->inquiry != NULL && self->inquiry->is_open) {
        due_ns = tt_min_u64(due_ns, self->inquiry->asked_ns + 2 * pause_ns(self));
    }
    return due_ns;
}

tt_status tt_stall_tick(tt_negotiator *self, uint64_t now_ns)
{
    if (self->inquiry != NULL && self->inquiry->is_open &&
        now_ns >= self->inquiry->asked_ns + 2 * pause_ns(self)) {
        TT_TRY(without_memory(close_inquiry(self)));
    }
    if (self->config.stall_fail_ns > 0) {
        give_up(self, now_ns);
    }
    if (self->config.stall_ns == 0 ||
        (self->asked_ns > 0 && now_ns < self->asked_ns + pause_ns(self))) {
        return TT_OK;
    }
    for (uint32_t number = self->entries.oldest; number != TT_NONE;
         number = self->entries.items[number].newer) {
        const tt_entry *entry = &self->entries.items[number];
        const uint64_t asked_ns = entry->ticket->asked_ns;
        if (now_ns - entry->submitted_ns < self->config.stall_ns) {
            break;
        }
        if (asked_ns == 0 || now_ns - asked_ns >= self->config.stall_ns) {
            return without_memory(ask(self, number, now_ns));
        }
    }
    self->asked_ns = now_ns; /* check again after a pause */
    return TT_OK;
}
