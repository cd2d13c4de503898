/* SPDX-License-Identifier: Apache-2.0
 *
 * negotiator.c - the door: dispatches tickets and frames to the parts. */
#include <string.h>

#include "base/assert.h"
#include "negotiate/internal.h"

enum { CAPACITY_MAX = 32 * 1024 }; /* a vector and the slots to erase fit one frame */

void tt_negotiate_config_init(tt_negotiate_config *config)
{
    *config = (tt_negotiate_config){.mode = TT_NEGOTIATE_AUTO,
                                    .capacity = 1024,
                                    .steps_to_plan = 3,
                                    .bundle_bytes = 2 * 1024 * 1024,
                                    .cycle_ns = 1000 * 1000,
                                    .stall_ns = UINT64_C(60) * 1000 * 1000 * 1000};
}

/* ---- helpers of all parts ---- */

void tt_negotiator_send(tt_negotiator *self, uint32_t member, const tt_notice *notice)
{
    TT_ASSERT(member < self->members.size && member != self->members.self);
    TT_ASSERT(notice->bytes <= TT_NOTICE_BYTES_MAX);
    self->count.notices_sent++;
    self->count.bytes_sent += notice->bytes;
    self->count.sizes_sent[notice->bytes < 16 ? 0 : 28 - __builtin_clz(notice->bytes)]++;
    self->host.send(self->host.owner, member, notice);
}

tt_status tt_negotiator_grow(tt_negotiator *self, void **array, uint32_t *capacity,
                             size_t elem_bytes, uint32_t needed)
{
    if (needed <= *capacity) {
        return TT_OK;
    }
    uint64_t wanted = tt_max_u64(needed, 2 * (uint64_t)*capacity);
    wanted = wanted > UINT32_MAX ? needed : wanted;
    void *larger = tt_allocate(&self->memory, wanted, elem_bytes);
    if (larger == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    if (*capacity > 0) {
        memcpy(larger, *array, *capacity * elem_bytes);
    }
    tt_release(&self->memory, *array, *capacity, elem_bytes);
    *array = larger;
    *capacity = (uint32_t)wanted;
    return TT_OK;
}

void tt_negotiator_report(tt_negotiator *self, int level, const char *format, ...)
{
    tt_text text = {0};
    va_list arguments;
    va_start(arguments, format);
    tt_text_add_list(&text, format, arguments);
    va_end(arguments);
    self->host.report(self->host.owner, level, text.bytes);
}

uint32_t tt_negotiator_rank(const tt_negotiator *self, uint32_t member)
{
    return self->members.rank_of == NULL ? member : self->members.rank_of[member];
}

void tt_negotiator_say_joined(const tt_negotiator *self, const tt_ticket *ticket, tt_text *text)
{
    tt_text_add(text, "tensor ");
    tt_text_add_quoted(text, ticket->name, ticket->name_bytes);
    tt_text_add(text,
                " needs every rank, but rank %u has joined; only allreduce and reduce run "
                "without it",
                tt_negotiator_rank(self, self->first_joined));
}

/* An error in the middle of a round: this member cannot continue. */
static tt_status give_in(tt_negotiator *self, tt_status status)
{
    status = status == TT_OK && self->is_starved ? TT_ERR_NO_MEMORY : status;
    if (status == TT_OK || self->shut != TT_OK) {
        return status;
    }
    tt_text text = {0};
    tt_text_add(&text, "negotiation of named tensors failed in round %llu: %s",
                (unsigned long long)(self->done + 1),
                status == TT_ERR_MISMATCH ? "the ranks' plans differ" : tt_status_text(status));
    tt_negotiator_shut(self, status, text.bytes);
    return status;
}

/* ---- life ---- */

static tt_status prepare(tt_negotiator *self)
{
    const tt_negotiate_mode mode = self->config.mode;
    const bool has_cache = mode != TT_NEGOTIATE_COORDINATOR && mode != TT_NEGOTIATE_ORIGINAL;
    const uint32_t capacity = self->config.capacity;
    TT_TRY(tt_place_init(self));
    TT_TRY(tt_turn_init(self));
    TT_TRY(tt_combine_init(self, &self->vectors[0], TT_NOTICE_VECTOR));
    TT_TRY(tt_combine_init(self, &self->vectors[1], TT_NOTICE_VECTOR));
    TT_TRY(tt_combine_init(self, &self->cut, TT_NOTICE_CUT));
    tt_combine_reset(self, &self->vectors[1], 1);
    tt_combine_reset(self, &self->vectors[0], 2);
    tt_combine_reset(self, &self->cut, 1);
    tt_cache_init(self, !has_cache ? 0 : capacity < CAPACITY_MAX ? capacity : CAPACITY_MAX);
    return TT_OK;
}

tt_status tt_negotiator_create(const tt_negotiate_host *host, const tt_negotiate_members *members,
                               const tt_negotiate_config *config, tt_negotiator **negotiator_out)
{
    if (config->mode > TT_NEGOTIATE_ORIGINAL || config->steps_to_plan == 0) {
        return TT_ERR_BAD_CONFIG;
    }
    tt_negotiator *self = host->allocate(host->owner, sizeof(*self));
    if (self == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    self->host = *host;
    self->memory = (tt_allocator){host->allocate, host->release, host->owner};
    self->members = *members;
    self->config = *config;
    self->entries.first_free = self->entries.oldest = self->entries.newest = TT_NONE;
    self->active = members->size;
    self->step = 1;
    self->is_rearmed = true;
    self->last_mode = (uint8_t)config->mode;
    self->cycle_ns = host->now(host->owner);
    const tt_status status = prepare(self);
    if (status != TT_OK) {
        tt_negotiator_destroy(self);
        return status;
    }
    *negotiator_out = self;
    return TT_OK;
}

void tt_negotiator_destroy(tt_negotiator *self)
{
    if (self == NULL) {
        return;
    }
    TT_ASSERT(self->waiting_count == 0);
    tt_turn_destroy(self);
    tt_stall_destroy(self);
    tt_surveys_destroy(self);
    tt_parts_destroy(self);
    tt_cache_destroy(self);
    tt_entries_destroy(self);
    tt_combine_destroy(self, &self->vectors[0]);
    tt_combine_destroy(self, &self->vectors[1]);
    tt_combine_destroy(self, &self->cut);
    tt_release(&self->memory, self->scratch, self->scratch_words, sizeof(uint64_t));
    tt_release(&self->memory, self->batch.far, self->batch.far_capacity, sizeof(tt_agreement));
    const tt_allocator memory = self->memory;
    memory.release(memory.user, self, sizeof(*self));
}

/* ---- tickets ---- */

static void refuse(tt_negotiator *self, tt_ticket *ticket, tt_status status, const tt_text *text)
{
    self->count.failed++;
    self->host.failed(self->host.owner, ticket, status, text->bytes);
}

/* Why a ticket cannot even wait. */
static tt_status object(const tt_negotiator *self, const tt_ticket *ticket, tt_text *text)
{
    if (self->shut != TT_OK) {
        tt_text_add(text, "%s", self->shut_text.bytes);
        return self->shut;
    }
    if (ticket->name_bytes == 0 || ticket->name_bytes > TT_TICKET_NAME_BYTES_MAX ||
        ticket->claim_bytes > TT_TICKET_CLAIM_BYTES_MAX) {
        tt_text_add(text, "a tensor's name must have 1 to %d bytes", TT_TICKET_NAME_BYTES_MAX);
        return TT_ERR_BAD_ARGUMENT;
    }
    if (self->is_joining) {
        tt_text_add(text, "tensor ");
        tt_text_add_quoted(text, ticket->name, ticket->name_bytes);
        tt_text_add(text, " was submitted after this rank had joined");
        return TT_ERR_BAD_ARGUMENT;
    }
    if (ticket->needs_all && self->active < self->members.size) {
        tt_negotiator_say_joined(self, ticket, text);
        return TT_ERR_PEER_LEFT;
    }
    tt_text_add(text, "out of memory for the names of tensors");
    return TT_ERR_NO_MEMORY;
}

/* Clearing a text is slow: only a refused ticket needs one. */
__attribute__((noinline)) static void refuse_new(tt_negotiator *self, tt_ticket *ticket)
{
    tt_text text = {0};
    refuse(self, ticket, object(self, ticket, &text), &text);
}

__attribute__((noinline)) static void refuse_again(tt_negotiator *self, tt_ticket *ticket)
{
    tt_text text = {0};
    tt_text_add(&text, "tensor ");
    tt_text_add_quoted(&text, ticket->name, ticket->name_bytes);
    tt_text_add(&text, " was submitted again while it waits for the other ranks");
    refuse(self, ticket, TT_ERR_BAD_ARGUMENT, &text);
}

/* A planned exchange with a tensor of this ticket was refused: the host has the text. */
static void refuse_regrouped(tt_negotiator *self, tt_ticket *ticket)
{
    const tt_text text = {0};
    refuse(self, ticket, TT_ERR_MISMATCH, &text);
}

static bool may_wait(const tt_negotiator *self, const tt_ticket *ticket)
{
    return self->shut == TT_OK && ticket->name_bytes > 0 &&
           ticket->name_bytes <= TT_TICKET_NAME_BYTES_MAX &&
           ticket->claim_bytes <= TT_TICKET_CLAIM_BYTES_MAX && !self->is_joining &&
           (!ticket->needs_all || self->active == self->members.size);
}

/* Did the next occurrence end before this member submitted it? */
static bool has_debt(const tt_entry *entry)
{
    return entry->debt != NULL && (entry->owed == NULL || !entry->debt->is_after_owed);
}

static void pay_debt(tt_negotiator *self, uint32_t number, tt_ticket *ticket)
{
    tt_debt *debt = self->entries.items[number].debt;
    TT_ASSERT(debt->count > 0);
    refuse(self, ticket, debt->status, &debt->text);
    if (--debt->count == 0) {
        tt_entry_drop_debt(self, number);
    }
}

static void queue(tt_negotiator *self, uint32_t number, tt_ticket *ticket)
{
    const tt_entry *entry = &self->entries.items[number];
    const tt_slot *slot = entry->slot == TT_NONE ? NULL : &self->cache.slots[entry->slot];
    tt_entry_begin(self, number, ticket);
    if (slot == NULL) {
        tt_entry_wait(self, number, TT_WAIT_UNTOLD);
    } else if (slot->is_frozen) {
        tt_entry_wait(self, number, TT_WAIT_HELD);
    } else if (tt_slot_claims(slot, ticket)) {
        tt_entry_wait(self, number, TT_WAIT_VECTOR);
    } else {
        self->is_urgent |= slot->is_planned;
        tt_entry_wait(self, number, TT_WAIT_CHANGED);
    }
    if (entry->wait == TT_WAIT_UNTOLD || entry->wait == TT_WAIT_CHANGED) {
        tt_parts_displace(self, number);
    }
}

void tt_negotiator_submit(tt_negotiator *self, tt_ticket *ticket)
{
    const uint32_t number = may_wait(self, ticket)
                                ? tt_entry_find(self, ticket->name, ticket->name_bytes, true)
                                : TT_NONE;
    if (number == TT_NONE) {
        refuse_new(self, ticket);
        return;
    }
    tt_entry *entry = &self->entries.items[number];
    const tt_slot *slot = entry->slot == TT_NONE ? NULL : &self->cache.slots[entry->slot];
    if (entry->ticket != NULL) {
        refuse_again(self, ticket);
    } else if (has_debt(entry)) {
        pay_debt(self, number, ticket);
        tt_entry_release(self, number);
    } else if (entry->owed != NULL) {
        tt_parts_forgive(self, ticket);
        tt_plan_pay(self, number, ticket);
        tt_entry_release(self, number);
    } else if (slot != NULL && slot->is_planned && !slot->is_frozen &&
               tt_slot_claims(slot, ticket)) {
        tt_plan_start(self, entry->slot, ticket);
    } else if (tt_parts_refuse_owed(self, number, ticket) == TT_REGROUPED_ALL) {
        refuse_regrouped(self, ticket);
        tt_entry_release(self, number);
    } else {
        tt_parts_forgive(self, ticket);
        queue(self, number, ticket);
    }
    if (self->is_starved) {
        (void)give_in(self, TT_OK);
    }
}

bool tt_negotiator_cancel(tt_negotiator *self, tt_ticket *ticket)
{
    if (self->shut != TT_OK || ticket->entry >= self->entries.used) {
        return false;
    }
    tt_entry *entry = &self->entries.items[ticket->entry];
    if (entry->ticket != ticket) {
        return false;
    }
    if (entry->slot != TT_NONE && self->cache.slots[entry->slot].is_planned) {
        return false; /* peers may have begun it */
    }
    if (entry->wish == 0) {
        entry->wish = TT_REQUEST_CANCEL;
        self->wish_count++;
        self->is_urgent = true;
    }
    return true;
}

void tt_negotiator_join(tt_negotiator *self)
{
    if (self->shut != TT_OK || self->is_joining) {
        return;
    }
    self->is_joining = true;
    self->is_urgent = true;
    for (uint32_t i = 0; i < self->entries.used; i++) {
        if (self->entries.items[i].name != NULL) {
            tt_plan_pay_all(self, i);
            tt_entry_release(self, i);
        }
    }
}

uint32_t tt_negotiator_debts(tt_negotiator *self, const char *name, uint16_t name_bytes)
{
    const uint32_t number = tt_entry_find(self, name, name_bytes, false);
    const tt_debt *debt = number != TT_NONE ? self->entries.items[number].debt : NULL;
    uint32_t count = 0;
    for (; debt != NULL; debt = debt->next) {
        count += debt->count;
    }
    return count;
}

void tt_negotiator_plan_failed(tt_negotiator *self, uint32_t generation, uint32_t index)
{
    for (uint32_t i = 0; i < self->cache.used; i++) {
        tt_slot *slot = &self->cache.slots[i];
        if (slot->entry != TT_NONE && slot->is_planned && !slot->has_failed && !slot->is_frozen &&
            slot->generation == generation &&
            (slot->index == index || (slot->bundle_size > 0 && slot->bundle == index))) {
            slot->has_failed = true;
            self->failed_count++;
            self->is_urgent = true;
            return; /* the others of its bundle leave with it */
        }
    }
}

/* ---- events ---- */

tt_status tt_negotiator_flush(tt_negotiator *self)
{
    tt_status status = TT_OK;
    while (self->shut == TT_OK && tt_round_is_due(self)) {
        status = tt_round_start(self);
        if (status == TT_OK) {
            status = tt_round_advance(self);
        }
        status = give_in(self, status);
    }
    if (self->shut == TT_OK) {
        tt_round_hurry(self);
    }
    return status;
}

static tt_status take_combined(tt_negotiator *self, uint32_t member, const tt_notice *notice)
{
    if (notice->round <= self->done) {
        return TT_OK; /* late, or a duplicate */
    }
    const uint64_t ahead = notice->round - self->done;
    if (self->config.mode == TT_NEGOTIATE_ORIGINAL || ahead > 2 ||
        (ahead == 2 && (notice->kind == TT_NOTICE_CUT || self->phase == TT_PHASE_IDLE))) {
        return TT_ERR_BAD_WIRE;
    }
    tt_combine *combine =
        notice->kind == TT_NOTICE_CUT ? &self->cut : &self->vectors[notice->round & 1];
    TT_ASSERT(combine->round == notice->round);
    return tt_combine_notice(self, combine, member, notice);
}

static tt_status take_turn(tt_negotiator *self, uint32_t member, const tt_notice *notice)
{
    if (notice->round <= self->done) {
        return TT_OK;
    }
    if (notice->round > self->done + 1) {
        return TT_ERR_BAD_WIRE;
    }
    return notice->kind == TT_NOTICE_REQUESTS ? tt_turn_requests(self, member, notice)
                                              : tt_turn_answers(self, member, notice);
}

static tt_status dispatch(tt_negotiator *self, uint32_t member, const tt_notice *notice)
{
    switch ((tt_notice_kind)notice->kind) {
    case TT_NOTICE_VECTOR:
    case TT_NOTICE_CUT:
        return take_combined(self, member, notice);
    case TT_NOTICE_REQUESTS:
    case TT_NOTICE_ANSWERS:
        return take_turn(self, member, notice);
    case TT_NOTICE_CALL:
        return tt_round_call(self, member, notice);
    case TT_NOTICE_ASK:
    case TT_NOTICE_QUERY:
    case TT_NOTICE_HAVE:
    case TT_NOTICE_REPORT:
        return tt_stall_notice(self, member, notice);
    }
    return TT_ERR_BAD_WIRE;
}

tt_status tt_negotiator_notice(tt_negotiator *self, uint32_t member, const tt_notice *notice)
{
    if (self->shut != TT_OK) {
        return TT_OK;
    }
    if (member >= self->members.size || member == self->members.self ||
        notice->bytes > TT_NOTICE_BYTES_MAX) {
        return TT_ERR_BAD_WIRE;
    }
    tt_status status = dispatch(self, member, notice);
    if (status == TT_ERR_BAD_WIRE) {
        return status; /* refused */
    }
    if (status == TT_OK) {
        status = tt_round_advance(self);
    }
    return give_in(self, status);
}

uint64_t tt_negotiator_due(const tt_negotiator *self)
{
    if (self->shut != TT_OK) {
        return UINT64_MAX;
    }
    const uint64_t due_ns = tt_stall_due(self);
    return self->config.mode == TT_NEGOTIATE_ORIGINAL ? tt_min_u64(due_ns, tt_original_due(self))
                                                      : due_ns;
}

tt_status tt_negotiator_tick(tt_negotiator *self)
{
    if (self->shut != TT_OK) {
        return TT_OK;
    }
    const uint64_t now_ns = self->host.now(self->host.owner);
    tt_status status = TT_OK;
    if (now_ns >= tt_stall_due(self)) {
        status = tt_stall_tick(self, now_ns);
    }
    if (status == TT_OK && self->config.mode == TT_NEGOTIATE_ORIGINAL) {
        status = tt_original_tick(self, now_ns);
    }
    return give_in(self, status);
}

void tt_negotiator_shut(tt_negotiator *self, tt_status status, const char *text)
{
    if (self->shut != TT_OK) {
        return;
    }
    self->shut = status == TT_OK ? TT_ERR_SHUT_DOWN : status;
    tt_text_add(&self->shut_text, "%s", text);
    while (self->entries.oldest != TT_NONE) {
        tt_entry_fail(self, self->entries.oldest, self->shut, self->shut_text.bytes);
    }
    TT_ASSERT(self->waiting_count == 0);
}

const tt_negotiate_counters *tt_negotiator_count(const tt_negotiator *self)
{
    return &self->count;
}

const char *tt_negotiator_mode(const tt_negotiator *self)
{
    static const char *const names[] = {
        [TT_NEGOTIATE_AUTO] = "coordinator",    [TT_NEGOTIATE_COORDINATOR] = "coordinator",
        [TT_NEGOTIATE_BITVECTOR] = "bitvector", [TT_NEGOTIATE_PLAN] = "plan",
        [TT_NEGOTIATE_ORIGINAL] = "original",
    };
    const bool is_original = self->config.mode == TT_NEGOTIATE_ORIGINAL;
    return names[is_original ? TT_NEGOTIATE_ORIGINAL : self->last_mode];
}
