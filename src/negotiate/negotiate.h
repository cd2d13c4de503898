/* SPDX-License-Identifier: Apache-2.0
 *
 * negotiate.h - finds named tensors that are ready on every member of a set, and orders them.
 *
 * A ticket is one named request of this rank. It waits until every member has one of the same
 * name and claim; then it is reported on all members at the same place of one agreed order. There
 * are three negotiation modes, and a tensor moves from the first to the last:
 *
 *   coordinator  Requests go up a tree, equal ones merged on the way, to member 0, which compares
 *                them and sends the agreed list down.
 *   bitvector    An agreed name has a slot in a cache, the same slot on all members. A round
 *                intersects the members' vectors of pending slots (NSDI'22). A member puts its
 *                vector into a round when it has something pending; the round is over when all
 *                have, so a late rank costs no round. One round is in flight; idle members send
 *                nothing.
 *   plan         Tensors that repeat in every step are promoted, at the same place of the agreed
 *                order on all members. From then on a ticket of such a tensor starts at once, under
 *                the name (index, occurrence); no message is sent. A cut ends the plan: the members
 * agree on the highest occurrence of each tensor that any of them has begun; up to there a tensor
 * is still planned on every rank; later occurrences are negotiated.
 *
 * `original` is Horovod before the cache, for comparison: every cycle a flat gather at member 0.
 *
 *  (1) `agreed` reports the same items in the same order on every member.
 *  (2) Every ticket ends exactly once: in `agreed`, in `planned`, or in `failed`.
 *  (3) Disagreement about a name fails it on all members with one text, made by the coordinator;
 *      also where members have it in different groups, or one in a group and another by itself.
 *  (4) Frames may arrive late, twice and in any order. Nothing in them is trusted.
 *  (5) Caches are equal by construction; a digest in every round checks it. If digests differ, all
 *      members drop their caches and plans and start again from the coordinator.
 *  (6) Memory does not grow with the number of members, except at the coordinator.
 *
 * Layer:   negotiate; may include base/. No I/O, no clock, no thread: it calls only its host.
 * Threads: one at a time, as its host.
 * Memory:  the host's allocator; entries per name, a cache of fixed capacity.
 */
#ifndef TUTTI_NEGOTIATE_NEGOTIATE_H
#define TUTTI_NEGOTIATE_NEGOTIATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/text.h"

enum {
    TT_TICKET_NAME_BYTES_MAX = 255,
    TT_TICKET_CLAIM_BYTES_MAX = 8192,
    TT_NOTICE_BYTES_MAX = 16 * 1024, /* payload of one frame; longer messages are sent in parts */
    TT_BUNDLE_MEMBERS_MAX = 256,     /* planned tensors that share an exchange */
};

typedef struct tt_negotiator tt_negotiator;

typedef enum tt_negotiate_mode {
    TT_NEGOTIATE_AUTO, /* the highest mode possible */
    TT_NEGOTIATE_COORDINATOR,
    TT_NEGOTIATE_BITVECTOR,
    TT_NEGOTIATE_PLAN, /* as auto, and logs steps that were not planned */
    TT_NEGOTIATE_ORIGINAL,
} tt_negotiate_mode;

/* The members, numbered from 0. The arrays are borrowed for the negotiator's life, so that many
 * ranks of one process share them. */
typedef struct tt_negotiate_members {
    uint32_t size, self;
    uint32_t host_count;
    const uint32_t *host_of;      /* [size] numbered from 0 */
    const uint32_t *host_first;   /* [host_count + 1] into host_members */
    const uint32_t *host_members; /* [size] members by host, ascending; the first leads it */
    const uint32_t *rank_of;      /* [size] numbers for texts; NULL: as members are numbered */
} tt_negotiate_members;

/* One named request. The host's memory until the ticket has ended. */
typedef struct tt_ticket {
    const char *name;
    const void *claim; /* what must be equal on all members; the host's own format */
    uint16_t name_bytes;
    uint16_t claim_bytes;
    bool needs_all;   /* fails while a member has joined (all but allreduce and reduce) */
    bool is_given_up; /* this, entry and asked_ns are the negotiator's */
    void *owner;      /* the host's */
    uint32_t entry;
    uint64_t asked_ns; /* when ASK was last sent for it; 0: never */
} tt_ticket;

/* One tensor to run now. */
typedef struct tt_agreement {
    tt_ticket *ticket; /* NULL: this member has joined, and contributes the identity element */
    const char *name;  /* ends in 0 */
    const void *claim; /* agreed. Planned: if the ticket has another claim, it was submitted too
                          late; peers have begun this one, so begin it: it fails on all members */
    uint16_t name_bytes, claim_bytes;
    uint32_t active;     /* members that have not joined */
    uint64_t order;      /* agreed: place in the agreed order. Planned: occurrence */
    uint32_t index;      /* planned: number of the tensor among those of its plan's generation */
    uint32_t generation; /* planned: of the plan; equal on all members */
    uint32_t slot;       /* planned, and not cut: for tt_negotiator_next; UINT32_MAX: none */
    /* Planned: those of one bundle may be exchanged together, under (generation, bundle, order).
     * `bundle` is a number like `index`, and belongs to none of them. */
    uint32_t bundle, bundle_size; /* size 0: it is in none */
    uint32_t bundle_place;        /* in the bundle, from 0 */
    /* Planned: peers have begun it, but this member has a tensor of it in this ticket. Refuse it,
     * so that it fails everywhere, and let the ticket claim that it is regrouped: it is sent if
     * tensors are left of it, else failed. NULL: run it. */
    const tt_ticket *rival;
} tt_agreement;

/* A tensor that could be planned. */
typedef struct tt_plannable {
    const char *name; /* ends in 0 */
    const void *claim;
    uint16_t claim_bytes;
} tt_plannable;

/* A tensor whose ticket has another name: the member of a group. */
typedef struct tt_part_name {
    uint64_t hash;    /* tt_hash64 of the name, from 0 */
    const char *name; /* in the claim, of name_bytes; NULL: the claim has its hash alone */
    uint16_t name_bytes;
    /* Not NULL: the claim is of a group that has failed on its member, because peers had begun some
     * of it as planned; the reason. The rest of it fails on all members. */
    const char *regrouped;
    uint16_t regrouped_bytes;
} tt_part_name;

/* May planned tensors share an exchange? Those of one kind may, up to bundle_bytes. */
typedef struct tt_fusion {
    uint64_t kind; /* 0: never in a bundle */
    uint64_t bytes;
    uint32_t tensors; /* of a group: at most TT_BUNDLE_MEMBERS_MAX */
} tt_fusion;

/* A claim and its members, for the text of an error. Ranges of members are ascending. */
typedef struct tt_claimant {
    const void *claim;
    uint16_t claim_bytes;
    const uint32_t *members; /* [member_count] */
    uint32_t member_count;
} tt_claimant;

/* A frame between two negotiators of one set. */
typedef struct tt_notice {
    uint8_t kind;
    uint8_t flags;
    uint32_t part; /* of a message in parts */
    uint64_t round;
    uint64_t digest;
    uint32_t bytes;
    const void *payload; /* copied by the host before send returns */
} tt_notice;

enum { TT_JUDGED_LOWEST = -32 }; /* no status of `explain` */

/* None of these calls the negotiator back. */
typedef struct tt_negotiate_host {
    void *owner;
    void *(*allocate)(void *owner, size_t bytes); /* zeroed, or NULL */
    void (*release)(void *owner, void *memory, size_t bytes);
    uint64_t (*now)(void *owner);
    /* To a member other than oneself; never calls back. Reliable while both live. */
    void (*send)(void *owner, uint32_t member, const tt_notice *notice);
    /* Run these, in this order; items agreed in one list may be fused. Tickets have ended. */
    void (*agreed)(void *owner, const tt_agreement *items, uint32_t count);
    /* Run this at once, under (generation, index, order). */
    void (*planned)(void *owner, const tt_agreement *item);
    /* A tensor of a bundle has left the plan, on all members alike; `item->order` is the last
     * occurrence that any of them has begun. A later one of the bundle is complete on no member, so
     * its tensors need not wait for each other. Of `item` only that, the generation and the bundle
     * are set. NULL: the host finds out by a timeout. */
    void (*unplanned)(void *owner, const tt_agreement *item);
    void (*failed)(void *owner, tt_ticket *ticket, tt_status status, const char *text);
    /* All members had the ticket, with claims that differ: it ends on every member as `explain` on
     * the coordinator decided. */
    void (*judged)(void *owner, tt_ticket *ticket, tt_status status, const char *text);
    /* All members have joined; `last` is the one that did so last. */
    void (*joined)(void *owner, uint32_t last);
    /* Describe in `text` how these claims about `name` differ; returns the status that their
     * tickets end with, between 0 and TT_JUDGED_LOWEST. */
    tt_status (*explain)(void *owner, const char *name, const tt_claimant *claimants,
                         uint32_t count, tt_text *text);
    /* The tensor at `offset` of a group's claim (0: the first); returns the offset of the next one.
     * 0: there is none. NULL: no claim is of a group. */
    uint32_t (*part)(void *owner, const void *claim, uint16_t claim_bytes, uint32_t offset,
                     tt_part_name *part_out);
    /* May a tensor of this claim be planned, and with which others may it be bundled? NULL: all
     * may, each alone. One that may not is always agreed, with the number of active members. Must
     * be equal on all members; `fusion` is zeroed. */
    bool (*may_plan)(void *owner, const tt_plannable *item, tt_fusion *fusion);
    void (*report)(void *owner, int level, const char *text); /* levels of base/log.h */
} tt_negotiate_host;

typedef struct tt_negotiate_config {
    tt_negotiate_mode mode;
    uint32_t capacity;      /* slots of the cache; 0: none is kept */
    uint32_t steps_to_plan; /* equal steps until a plan is made */
    uint64_t bundle_bytes;  /* of planned tensors that share an exchange */
    uint64_t cycle_ns;      /* original: time between gathers */
    uint64_t stall_ns;      /* a ticket this old is reported, with the members that lack it */
    uint64_t stall_fail_ns; /* a ticket this old fails everywhere; 0: never */
    uint32_t epoch;
} tt_negotiate_config;

/* Defaults in every field. */
void tt_negotiate_config_init(tt_negotiate_config *config);

/* `config` and `host` are copied. */
tt_status tt_negotiator_create(const tt_negotiate_host *host, const tt_negotiate_members *members,
                               const tt_negotiate_config *config, tt_negotiator **negotiator_out);
/* All tickets must have ended (tt_negotiator_shut). */
void tt_negotiator_destroy(tt_negotiator *negotiator);

/* The ticket belongs to the negotiator until it ends. A second one of a name that waits fails at
 * once, on this member only: it is not sent to peers. May call planned or failed before it returns.
 */
void tt_negotiator_submit(tt_negotiator *negotiator, tt_ticket *ticket);
/* Request that a waiting ticket end with CANCELLED on every member; on a member that has not
 * submitted it yet the next submission ends so. It may still be agreed before the request arrives.
 * False: too late, or not a ticket of this negotiator. */
bool tt_negotiator_cancel(tt_negotiator *negotiator, tt_ticket *ticket);
/* The deadline of a waiting ticket has passed: query every member for it. Then, when they have had
 * time to answer, request that it end with TIMED_OUT on every member, as tt_negotiator_cancel does.
 * False: it cannot end now (peers may have begun it as planned), or has ended. */
void tt_negotiator_survey(tt_negotiator *negotiator, const tt_ticket *ticket);
bool tt_negotiator_expire(tt_negotiator *negotiator, tt_ticket *ticket);
/* Adds which rank gave the waiting ticket up, when, and the members that lack it, as far as they
 * answered. */
void tt_negotiator_say_expired(tt_negotiator *negotiator, const tt_ticket *ticket, tt_text *text);
/* This member has no more data: it contributes the identity element to reductions until all have
 * joined. Ends a plan. */
void tt_negotiator_join(tt_negotiator *negotiator);
/* The next occurrence of a planned tensor, found by the `slot` of an earlier agreement; 0: it is
 * not planned any more, or cannot begin now. */
uint64_t tt_negotiator_next(const tt_negotiator *negotiator, uint32_t slot, uint32_t generation,
                            uint32_t index);
/* Begin it without a ticket: as tt_negotiator_submit of the same claim would, but `planned` is not
 * called. */
void tt_negotiator_repeat(tt_negotiator *negotiator, uint32_t slot);
/* How many occurrences of this name have ended on other members, cancelled or timed out, that this
 * member has not submitted yet. May be called from the host's functions. */
uint32_t tt_negotiator_debts(tt_negotiator *negotiator, const char *name, uint16_t name_bytes);
/* A planned tensor or bundle failed in its exchange, on all members alike: it is cut out of the
 * plan. */
void tt_negotiator_plan_failed(tt_negotiator *negotiator, uint32_t generation, uint32_t index);

/* Start due rounds: called after several submissions and frames, so that they share a round.
 * Negative, as from tick and notice: this member cannot continue, its tickets have ended. */
tt_status tt_negotiator_flush(tt_negotiator *negotiator);
/* A notice of `member`; its payload is valid during the call. TT_ERR_BAD_WIRE: it is
 * malformed. */
tt_status tt_negotiator_notice(tt_negotiator *negotiator, uint32_t member, const tt_notice *notice);
/* When tick is next needed; UINT64_MAX: not before the next call or notice. */
uint64_t tt_negotiator_due(const tt_negotiator *negotiator);
tt_status tt_negotiator_tick(tt_negotiator *negotiator);

/* End all tickets, and later ones, with this. */
void tt_negotiator_shut(tt_negotiator *negotiator, tt_status status, const char *text);

typedef struct tt_negotiate_counters {
    uint64_t rounds;            /* of bit vectors */
    uint64_t coordinator_turns; /* gathers of uncached requests */
    uint64_t notices_sent, bytes_sent;
    uint64_t sizes_sent[16]; /* below 16 bytes, below 32, below 64, ... */
    uint64_t agreed, planned, failed;
    uint64_t plans_made, plans_cut, evictions, invalidations, divergences;
    uint64_t steps;      /* begun steps: a tensor was agreed again */
    uint64_t waiting_ns; /* sum over tickets, from submission to their end here */
} tt_negotiate_counters;

const tt_negotiate_counters *tt_negotiator_count(const tt_negotiator *negotiator);
/* "coordinator", "bitvector", "plan" or "original": the mode of the last ticket. */
const char *tt_negotiator_mode(const tt_negotiator *negotiator);

#endif
