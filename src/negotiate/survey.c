/* SPDX-License-Identifier: Apache-2.0
 *
 * survey.c - finds the members that lack a ticket whose deadline has passed.
 *
 * The member whose deadline has passed queries all others itself: the coordinator may be the one
 * that does not answer. Answers arrive while the ticket still waits; the text is made of those that
 * have arrived by then. Cost: one frame to each member and one back, for at most SURVEYS_MAX
 * tickets at a time; the errors of further tickets do not name the members that lack them. */
#include <string.h>

#include "negotiate/internal.h"

enum { SURVEYS_MAX = 16 };

/* Distinguishes these numbers from those of the coordinator's inquiries. */
#define SURVEY_BIT (UINT64_C(1) << 63)

struct tt_survey {
    struct tt_survey *next;
    const tt_ticket *ticket;
    uint64_t number;
    tt_ranges having, lacking, joined;
};

static tt_survey **survey_link(tt_negotiator *self, const tt_ticket *ticket)
{
    tt_survey **link = &self->surveys;
    while (*link != NULL && (*link)->ticket != ticket) {
        link = &(*link)->next;
    }
    return link;
}

static tt_survey *survey_create(tt_negotiator *self, const tt_ticket *ticket)
{
    uint32_t count = 0;
    for (const tt_survey *survey = self->surveys; survey != NULL; survey = survey->next) {
        count++;
    }
    tt_survey *survey = count < SURVEYS_MAX ? tt_allocate(&self->memory, 1, sizeof(*survey)) : NULL;
    if (survey != NULL) {
        survey->ticket = ticket;
        survey->number = ++self->survey_count | SURVEY_BIT;
        survey->next = self->surveys;
        self->surveys = survey;
    }
    return survey;
}

void tt_survey_forget(tt_negotiator *self, const tt_ticket *ticket)
{
    tt_survey **link = survey_link(self, ticket), *survey = *link;
    if (survey != NULL) {
        *link = survey->next;
        tt_ranges_release(&survey->having, &self->memory);
        tt_ranges_release(&survey->lacking, &self->memory);
        tt_ranges_release(&survey->joined, &self->memory);
        tt_release(&self->memory, survey, 1, sizeof(*survey));
    }
}

void tt_negotiator_survey(tt_negotiator *self, const tt_ticket *ticket)
{
    const bool is_known = self->shut == TT_OK && ticket->entry < self->entries.used &&
                          self->entries.items[ticket->entry].ticket == ticket;
    if (!is_known || *survey_link(self, ticket) != NULL) {
        return;
    }
    const tt_survey *survey = survey_create(self, ticket);
    for (uint32_t i = 0; survey != NULL && i < self->members.size; i++) {
        if (i != self->members.self) {
            tt_negotiator_send(self, i,
                               &(tt_notice){.kind = TT_NOTICE_QUERY,
                                            .round = survey->number,
                                            .bytes = ticket->name_bytes,
                                            .payload = ticket->name});
        }
    }
}

bool tt_survey_is_number(uint64_t number)
{
    return (number & SURVEY_BIT) != 0;
}

tt_status tt_survey_answer(tt_negotiator *self, uint32_t member, const tt_notice *notice)
{
    tt_survey *survey = self->surveys;
    while (survey != NULL && survey->number != notice->round) {
        survey = survey->next;
    }
    if ((notice->round & ~SURVEY_BIT) > self->survey_count || notice->flags > TT_HAVE_JOINED) {
        return TT_ERR_BAD_WIRE; /* no such survey was sent */
    }
    if (survey == NULL || tt_ranges_has(&survey->having, member) ||
        tt_ranges_has(&survey->lacking, member) || tt_ranges_has(&survey->joined, member)) {
        return TT_OK; /* it was agreed meanwhile, or is a duplicate */
    }
    tt_ranges *set = notice->flags == TT_HAVE_TICKET   ? &survey->having
                     : notice->flags == TT_HAVE_JOINED ? &survey->joined
                                                       : &survey->lacking;
    return tt_ranges_add(set, &self->memory, (tt_range){member, member});
}

static void add_ranks(const tt_negotiator *self, const tt_ranges *ranks, const char *what,
                      tt_text *text)
{
    if (ranks->total > 0) {
        tt_text_add(text, "%s %s ", what, ranks->total == 1 ? "rank" : "ranks");
        tt_ranges_print(ranks, self->members.rank_of, text);
    }
}

/* The members that have not answered. Without memory the list stays empty. */
static void find_silent(tt_negotiator *self, const tt_survey *survey, tt_ranges *silent)
{
    for (uint32_t i = 0; i < self->members.size; i++) {
        if (i != self->members.self && !tt_ranges_has(&survey->having, i) &&
            !tt_ranges_has(&survey->lacking, i) && !tt_ranges_has(&survey->joined, i) &&
            tt_ranges_add(silent, &self->memory, (tt_range){i, i}) != TT_OK) {
            return;
        }
    }
}

void tt_negotiator_say_expired(tt_negotiator *self, const tt_ticket *ticket, tt_text *text)
{
    const uint64_t since_ns = self->entries.items[ticket->entry].submitted_ns;
    const uint64_t age_ns = self->host.now(self->host.owner) - since_ns;
    const tt_survey *survey = *survey_link(self, ticket);
    tt_ranges silent = {0};
    tt_text_add(text, "rank %u gave up after %.1f s", tt_negotiator_rank(self, self->members.self),
                (double)age_ns / 1e9);
    if (survey == NULL) {
        return;
    }
    find_silent(self, survey, &silent);
    add_ranks(self, &survey->lacking, "; missing on", text);
    add_ranks(self, &silent, "; missing, or stopped:", text);
    if (survey->lacking.total + silent.total == 0) {
        tt_text_add(text, "; all ranks have it, but had not agreed on it yet");
    }
    tt_ranges_release(&silent, &self->memory);
}

bool tt_negotiator_expire(tt_negotiator *self, tt_ticket *ticket)
{
    if (self->shut != TT_OK || ticket->entry >= self->entries.used) {
        return false;
    }
    tt_entry *entry = &self->entries.items[ticket->entry];
    if (entry->ticket != ticket ||
        (entry->slot != TT_NONE && self->cache.slots[entry->slot].is_planned)) {
        return false; /* over, or peers may have begun it */
    }
    if (!ticket->is_given_up) {
        ticket->is_given_up = true;
        self->wish_count += entry->wish == 0;
        entry->wish = TT_REQUEST_GIVE_UP;
        self->is_urgent = true;
    }
    return true;
}

void tt_surveys_destroy(tt_negotiator *self)
{
    while (self->surveys != NULL) {
        tt_survey_forget(self, self->surveys->ticket);
    }
}
