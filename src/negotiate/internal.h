/* SPDX-License-Identifier: Apache-2.0
 *
 * internal.h - the parts of a negotiator, and their functions for each other.
 *
 * Equal on all members between two rounds: the cache (slots, their order of use, streaks, plans
 * without `begun`), `done`, `order`, `step`, `generation`, `active`, `is_rearmed`. Only results of
 * rounds change these. Entries, tickets and `begun` are this member's own.
 *
 * Layer:   negotiate, private.
 * Threads: one at a time.
 * Memory:  all of it through `memory`, the host's allocator.
 */
#ifndef TUTTI_NEGOTIATE_INTERNAL_H
#define TUTTI_NEGOTIATE_INTERNAL_H

#include "base/alloc.h"
#include "base/assert.h"
#include "negotiate/combine.h"
#include "negotiate/entry.h"
#include "negotiate/negotiate.h"
#include "negotiate/notice.h"
#include "negotiate/turn.h"

/* ---- plan ---- */

void tt_plan_saw(tt_negotiator *self, uint32_t slot);
/* After a list of agreements: promote tensors that were in every step. */
void tt_plan_promote(tt_negotiator *self);
void tt_plan_start(tt_negotiator *self, uint32_t slot, tt_ticket *ticket);
/* Run one owed occurrence of a cut plan. */
void tt_plan_pay(tt_negotiator *self, uint32_t entry, tt_ticket *ticket);
void tt_plan_pay_all(tt_negotiator *self, uint32_t entry);
/* Refuse an owed occurrence because of the ticket `rival`. */
void tt_plan_refuse(tt_negotiator *self, uint32_t entry, const tt_ticket *rival);
/* Begin no more occurrences of the slots that leave the plan: those in `marks` with all of their
 * bundles, or all. Returns their number. */
uint32_t tt_plan_freeze(tt_negotiator *self, const uint8_t *marks, bool is_all);
/* Frozen slots leave the plan; `limits` has the highest occurrence of each that any member has
 * begun. */
tt_status tt_plan_cut(tt_negotiator *self, const uint8_t *limits);
bool tt_slot_claims(const tt_slot *slot, const tt_ticket *ticket);

/* ---- parts: tensors of groups ---- */

typedef struct tt_part_list {
    uint64_t *hashes;
    uint32_t count, capacity;
} tt_part_list;

/* The tensors of a ticket or slot: the parts of its claim, or its own name. */
tt_status tt_parts_read(tt_negotiator *self, uint64_t own_hash, const tt_plannable *item,
                        tt_part_list *list);
/* This slot enters the cache, or leaves it. No two slots have a tensor in common. */
tt_status tt_parts_insert(tt_negotiator *self, uint32_t slot);
void tt_parts_erase(tt_negotiator *self, uint32_t slot);
/* This ticket waits, and is not cached: slots that share a tensor with it must be erased. */
void tt_parts_displace(tt_negotiator *self, uint32_t entry);
/* Do such slots still exist? Then this ticket is not sent to the coordinator in this round. */
bool tt_parts_are_displacing(tt_negotiator *self, uint32_t entry);
/* How many tensors of a ticket peers have begun as planned in another group. */
typedef enum tt_regrouped {
    TT_REGROUPED_NONE,
    TT_REGROUPED_ALL,  /* the ticket fails */
    TT_REGROUPED_SOME, /* the ticket is sent, so that the rest of it fails everywhere */
} tt_regrouped;
/* Refuse planned exchanges that peers have begun and that contain tensors of this ticket of entry
 * `own`. */
tt_regrouped tt_parts_refuse_owed(tt_negotiator *self, uint32_t own, const tt_ticket *ticket);
/* After a cut: fail waiting tickets that contain tensors of an owed exchange. */
void tt_parts_settle(tt_negotiator *self);
/* A group was submitted again: forget earlier contests of its tensors. */
void tt_parts_forgive(tt_negotiator *self, const tt_ticket *ticket);
void tt_parts_destroy(tt_negotiator *self);

/* ---- rounds ---- */

typedef enum tt_phase {
    TT_PHASE_IDLE,
    TT_PHASE_VECTOR,
    TT_PHASE_CUT,
    TT_PHASE_GATHER, /* waits for the children's requests */
    TT_PHASE_ANSWER, /* waits for the coordinator */
} tt_phase;

bool tt_round_is_due(const tt_negotiator *self);
tt_status tt_round_start(tt_negotiator *self);
tt_status tt_round_advance(tt_negotiator *self);
/* An urgent round waits behind one that waits for idle members: send them CALL. */
void tt_round_hurry(tt_negotiator *self);
tt_status tt_round_call(tt_negotiator *self, uint32_t member, const tt_notice *notice);

/* ---- original ---- */

uint64_t tt_original_due(const tt_negotiator *self);
tt_status tt_original_tick(tt_negotiator *self, uint64_t now_ns);

/* ---- stall ---- */

typedef struct tt_inquiry {
    bool is_open;
    uint64_t number;
    uint64_t asked_ns;
    uint64_t age_ns; /* of the ticket in question */
    char name[TT_TICKET_NAME_BYTES_MAX + 1];
    uint16_t name_bytes;
    tt_ranges having, lacking, joined;
} tt_inquiry;

tt_status tt_stall_notice(tt_negotiator *self, uint32_t member, const tt_notice *notice);
uint64_t tt_stall_due(const tt_negotiator *self);
tt_status tt_stall_tick(tt_negotiator *self, uint64_t now_ns);
void tt_stall_destroy(tt_negotiator *self);

/* ---- survey ---- */

typedef struct tt_survey tt_survey;

/* Is this the number of a survey, not of an inquiry? */
bool tt_survey_is_number(uint64_t number);
tt_status tt_survey_answer(tt_negotiator *self, uint32_t member, const tt_notice *notice);
/* The ticket has ended. */
void tt_survey_forget(tt_negotiator *self, const tt_ticket *ticket);
void tt_surveys_destroy(tt_negotiator *self);

/* ---- the whole ---- */

struct tt_negotiator {
    tt_negotiate_host host;
    tt_allocator memory;
    tt_negotiate_members members;
    tt_negotiate_config config;
    tt_place place;
    tt_entries entries;
    tt_cache cache;
    uint32_t waiting_count, untold_count, changed_count, wish_count, failed_count;
    uint32_t displaced_count;             /* slots */
    uint32_t owed_count, contested_count; /* entries with owed; debts of contests */

    tt_phase phase;
    uint64_t done;         /* last round that is over */
    uint64_t called;       /* highest round for which CALL was sent to all */
    bool has_news;         /* since the last vector */
    bool is_urgent;        /* CALL must be sent to the others */
    bool is_rearmed;       /* after a useful round: waiting members start the next one at once */
    bool is_useful;        /* this round */
    uint8_t flags;         /* the result of this round's vector */
    tt_combine vectors[2]; /* by round & 1: this round's, and early frames of the next */
    uint64_t *scratch;     /* a vector and the slots to erase */
    uint32_t scratch_words;
    uint32_t frozen_count; /* slots whose cut is being agreed */
    tt_told batch;

    uint64_t order;
    uint64_t step;
    bool is_boundary; /* a step has ended in this list of agreements */
    uint32_t generation;

    bool is_joining, is_join_told, is_joined;
    uint32_t active;
    uint32_t first_joined;

    tt_inquiry *inquiry;
    tt_survey *surveys;    /* of own tickets */
    uint64_t survey_count; /* surveys so far */
    uint64_t asked_ns;
    tt_status shut;    /* TT_OK: alive */
    bool is_starved;   /* out of memory for shared state: it shuts down */
    uint8_t last_mode; /* tt_negotiate_mode */
    tt_negotiate_counters count;

    /* Not needed in most rounds; last, so that the rest lies close together. */
    tt_combine cut;
    tt_turn turn;
    tt_part_list parts, other_parts; /* scratch */
    tt_part_list ended_parts;        /* tensors of own groups that these answers end */
    uint64_t cycle_ns;               /* original: begin of the last one */
    tt_text shut_text;
};

/* A round is a vector, then perhaps a cut, then perhaps a turn of the coordinator: requests are
 * gathered, then members wait for the answer. In the original protocol a round is such a turn
 * alone. */
static inline void tt_negotiator_set_phase(tt_negotiator *self, tt_phase phase)
{
    TT_ASSERT(phase == TT_PHASE_IDLE || phase > self->phase);
    TT_ASSERT(phase != TT_PHASE_ANSWER || self->phase == TT_PHASE_GATHER);
    self->phase = phase;
}

void tt_negotiator_send(tt_negotiator *self, uint32_t member, const tt_notice *notice);
/* Grow *array of *capacity to `needed` elements; new ones are zeroed. */
tt_status tt_negotiator_grow(tt_negotiator *self, void **array, uint32_t *capacity,
                             size_t elem_bytes, uint32_t needed);
__attribute__((format(printf, 3, 4))) void tt_negotiator_report(tt_negotiator *self, int level,
                                                                const char *format, ...);
/* Why a ticket that needs all members must fail. */
void tt_negotiator_say_joined(const tt_negotiator *self, const tt_ticket *ticket, tt_text *text);
/* The number of a member for texts. */
uint32_t tt_negotiator_rank(const tt_negotiator *self, uint32_t member);

#endif
