/* SPDX-License-Identifier: Apache-2.0
 *
 * name.h - named requests of this rank: from submission through the negotiator to an op.
 *
 * A tt_name is agreed on as one: a tensor, or a group of tensors. It is one ticket; when all
 * members of the set have it, it runs: alone, in a batch with others, or in several ops (a group).
 * From submission to the end of its call a name is in use. Then its record stays, idle, with its
 * ticket, its claim and its place in the plan, for the next call of that name.
 *
 *  (1) A record belongs to one (set, name, kind) as long as its stamp is the same. Stamps are never
 *      reused, and records are not released before control is: a request's hint (record and stamp)
 *      may be stale, but can always be checked.
 *  (2) A tensor that is in an open group has a record of its own, which points to the group.
 *  (3) At most NAMES_IDLE_MAX records are idle; beyond that the oldest are reused for other names.
 *
 * Layer:   control, private.
 * Threads: as control.h.
 * Memory:  records are kept for reuse; a group's lists grow with it.
 */
#ifndef TUTTI_CONTROL_NAMED_NAME_H
#define TUTTI_CONTROL_NAMED_NAME_H

#include "control/control_internal.h"
#include "control/named/layout.h"
#include "negotiate/negotiate.h"

enum {
    NAME_BUCKETS = 1024,
    NAMES_IDLE_MAX = 4096,
    GROUP_MEMBERS_MAX = 4096,      /* parts of a planned group are numbered in 12 bits */
    EARLY_BYTES_MAX = 1024 * 1024, /* notices of a peer for sets that do not exist yet */
    BID_SHORT_BYTES = 144,         /* of one request, with a short objection text */
};

/* Changed by tt_name_set_phase alone. */
typedef enum tt_name_phase {
    NAME_FREE,      /* of no name */
    NAME_IDLE,      /* its last call is over */
    NAME_GATHERING, /* a group: not all members are submitted */
    NAME_WAITING,   /* the negotiator has its ticket */
    NAME_APART,     /* a dissolved group: its members are to be submitted one by one */
    NAME_RUNNING,   /* its requests are in ops or batches */
    NAME_MEMBER,    /* a tensor that is in the open group `group` */
} tt_name_phase;

typedef enum tt_name_kind { NAME_TENSOR, NAME_GROUP } tt_name_kind;

/* What a name or a batch (batch.h) waits for, and how it ends if that does not arrive. */
typedef enum tt_policy {
    POLICY_ALONE,    /* a tensor by itself */
    POLICY_GROUP,    /* the user's group */
    POLICY_LIBRARY,  /* a group that the library made (layout.c) */
    POLICY_AGREED,   /* a batch of items agreed in one list */
    POLICY_PLANNED,  /* a batch of the plan */
    POLICY_STAND_IN, /* the identity element of a joined rank */
} tt_policy;

typedef struct tt_policy_row {
    enum { DUE_AT_ONCE, DUE_WHOLE, DUE_AT_LIST_END } due;
    enum { LATE_NEVER, LATE_AT_DEADLINE, LATE_BY_STEPS, LATE_BY_WAITS } late;
    enum { THEN_NOTHING, THEN_CANCELLED, THEN_FAILED, THEN_DISSOLVED, THEN_REFUSED } then;
    enum { FAILS_WHOLE, FAILS_ALONE } fails; /* its exchange: all, or each tensor runs alone */
} tt_policy_row;

extern const tt_policy_row tt_policies[];

typedef struct tt_name {
    struct tt_name *next;           /* in its bucket, or the free list */
    struct tt_name *after, *before; /* in names->waiting, or among the idle ones: older, newer */
    tt_set *set;
    uint64_t hash; /* of set and name */
    uint64_t stamp;
    tt_name_phase phase;
    tt_name_kind kind;
    tt_policy policy;
    tt_ticket ticket;
    bool has_bid;       /* the bid is the claim of the tensor's last request, without objection */
    bool has_shape;     /* that claim has more than the key says: a shape, or parts */
    tt_request_key key; /* of that request */
    /* Of a tensor: its last place in a plan with the claim of its bid; slot UINT32_MAX: none. */
    uint32_t slot, generation, index;
    uint32_t bundle, bundle_size, bundle_place;
    uint64_t submitted_ns, deadline_ns;
    uint64_t begun_ns;    /* when its ticket was over */
    uint64_t reported_ns; /* a group: when it was reported as incomplete; 0: never */
    uint64_t expired_ns;  /* when its deadline was found to have passed; 0: it has not */
    tt_request *request;  /* a tensor's */
    tt_recipe *recipe;    /* of a tensor, as hint: recipe of its last request; or NULL */
    uint64_t recipe_stamp;
    tt_request **members;  /* a group: in the order of their names when it is complete */
    uint32_t member_room;  /* of that list */
    uint32_t member_count; /* submitted members */
    uint32_t member_max;   /* members of the complete group; 0: no group */
    uint32_t open_count;   /* running, not over */
    tt_status status;      /* the first failure */
    tt_status objection;   /* this rank cannot take part; `error` has the reason */
    char error[TT_ERROR_BYTES];
    struct tt_name *group;      /* NAME_MEMBER */
    bool is_apart;              /* its group is dissolved, or claims to be */
    bool is_vast;               /* a group of sums whose bid is a digest */
    bool is_starved;            /* the spare record: it reports to the peers that memory is out */
    uint32_t layout;            /* number of a group that the library made (layout.c); 0: none */
    struct tt_name *next_apart; /* in control->names->apart */
    tt_request *behind;         /* the next of its name; see tt_name_wait_behind */
    uint8_t *bid;               /* claim of the ticket */
    size_t bid_capacity;
    uint8_t bid_short[BID_SHORT_BYTES];
    char name[TT_NAME_BYTES];
} tt_name;

/* A notice for a set that does not exist on this rank yet. */
typedef struct tt_early {
    struct tt_early *next;
    uint32_t peer;
    tt_head head;
    uint8_t payload[];
} tt_early;

/* All named requests of this rank. */
struct tt_names {
    tt_name *buckets[NAME_BUCKETS]; /* all that are not free */
    tt_name *free;
    tt_name *spare;           /* for a call that finds no memory: it reports that to the peers */
    tt_name *newest, *oldest; /* of the idle ones */
    uint32_t idle_count;
    uint64_t last_stamp;
    tt_name *waiting;         /* tickets and incomplete groups */
    tt_name *apart;           /* groups whose members are to be submitted by themselves */
    tt_request *later;        /* requests whose predecessor of the same name is over */
    struct tt_batch *batches; /* the pool */
    uint32_t batch_count;
    struct tt_batch *forsaken;  /* failed batches: a peer may still store to their memory */
    struct tt_batch *spreading; /* results are being copied, in the order of arrival */
    struct tt_batch *gathering; /* planned batches that wait for members */
    uint32_t late_count;        /* how often this rank gave such a batch up because it was late */
    struct tt_stand_in *free_stand_ins; /* see expire.c */
};

/* ---- bid.c: what a ticket claims ---- */

/* Objection of a bid: this group stays incomplete and is dissolved. Not a status of a call. */
#define BID_APART ((tt_status)-31)
/* Likewise: peers had begun some of its tensors as planned, by themselves or in another group; the
 * rest of it fails on all ranks. */
#define BID_REGROUPED ((tt_status)-30)

/* A bid in its wire format, after it was checked. */
typedef struct tt_bid {
    uint32_t member_count;
    tt_status objection; /* negative: the rank cannot take part */
    bool is_digest;      /* too many members: only their hash is here */
    const uint8_t *records, *end;
    const char *text; /* of the objection */
    size_t text_bytes;
} tt_bid;

/* Write the claim of `name` (complete) into its bid and ticket. Without memory the bid objects. */
void tt_bid_make(tt_control *control, tt_name *name, const tt_failure *objection);
/* Would this request have the same bid as the tensor's last one? */
bool tt_bid_is_of(tt_name *name, const tt_request *request);
/* The members of a digest, if this rank has sent the same digest recently; else false. */
bool tt_bid_recall(const tt_set *set, const tt_agreement *item, tt_bid *bid);
void tt_bid_forget_all(tt_control *control, tt_set *set);
/* False: malformed. */
bool tt_bid_read(tt_bid *bid, const void *bytes, size_t byte_count);
/* The next member; false: none is left. */
bool tt_bid_next(tt_bid *bid, tt_claim *claim_out);
/* A member of a group: `part` of the negotiator's host. */
uint32_t tt_bid_part(void *owner, const void *claim, uint16_t byte_count, uint32_t place,
                     tt_part_name *part_out);
tt_status tt_bid_explain(const tt_set *set, const char *name, const tt_claimant *claimants,
                         uint32_t count, tt_text *text);

/* ---- name.c ---- */

void tt_name_set_phase(tt_name *name, tt_name_phase phase);
void tt_name_submit(tt_control *control, tt_set *set, tt_request *request,
                    const tt_failure *objection);
/* Begin the next occurrence of a planned tensor, without a ticket. False: the request does not
 * repeat one; submit it. */
bool tt_name_repeat(tt_control *control, tt_request *request);
bool tt_name_cancel(tt_control *control, tt_request *request);
/* A record for a new call, in the list of waiting ones; NULL: no memory. */
tt_name *tt_name_open(tt_control *control, tt_set *set, const char *text, tt_name_kind kind);
/* The record of a tensor whose request joins an open group. */
tt_name *tt_name_open_member(tt_control *control, tt_name *group, tt_request *request);
/* The record in any phase; NULL: there is none. */
tt_name *tt_name_find(const tt_control *control, const tt_set *set, const char *text,
                      tt_name_kind kind);
/* Its call is over: the request that waited behind it is submitted later. */
void tt_name_close(tt_control *control, tt_name *name);
/* Its ticket is over, or it never became one. */
void tt_name_stop_waiting(tt_control *control, tt_name *name);
/* The open request of this name was refused before it was submitted, so its caller cannot wait for
 * it: `request` is submitted when that one is over. False: the caller could wait for
 * it; the name is in use. */
bool tt_name_wait_behind(tt_control *control, tt_name *open, tt_request *request);
/* Submit requests whose predecessor is over. */
void tt_name_submit_later(tt_control *control);
/* Hand the ticket to the negotiator, once its request or group is complete. */
void tt_name_offer(tt_control *control, tt_name *name, const tt_failure *objection);
/* End all its requests, which have no op. */
void tt_name_refuse(tt_control *control, tt_name *name, tt_status status, const char *text);
/* Set the objection and its text. */
void tt_name_object(tt_name *name, tt_status status, const char *text);
/* The set is released: free the records of its names. */
void tt_name_forget_set(tt_control *control, const tt_set *set);
/* Reserve the spare record; false: no memory. */
bool tt_name_spare(tt_control *control);
void tt_name_release_all(tt_control *control);

/* Out of memory for named calls: a single call cannot be failed on the peers, so this rank sends
 * ABORT; also from inside a negotiator. Its calls end before the upcall returns: */
void tt_name_starve(tt_control *control);
void tt_name_end_starved(tt_control *control);
void tt_name_refuse_starved(tt_control *control, tt_request *request); /* this one at once */
void tt_name_say_starved(const tt_control *control, tt_text *text);

/* Submit a request again that could not become a ticket the first time. The settings of its first
 * submission apply: current ones may have changed on some ranks only. Defined in op.c. */
void tt_request_submit_again(tt_control *control, tt_request *request);
/* The request's op is over: notify its owner, or its group. */
void tt_request_end(tt_request *request, tt_status status, const char *text);
/* Is it part of a group, which ends as a whole? */
bool tt_name_is_grouped(const tt_request *request);

/* ---- host.c: the host of a set's negotiator ---- */

tt_status tt_host_ready(tt_control *control, tt_set *set);
/* Why this named request must be refused; NULL: it is accepted. */
const char *tt_host_refusal(const tt_set *set, const tt_request *request, tt_status *status_out);
void tt_host_join(tt_control *control, tt_set *set, tt_request *request);
/* This set's negotiator may have work: it is flushed before the upcall returns. */
void tt_host_touch(tt_control *control, tt_set *set);
void tt_host_flush(tt_control *control);
void tt_host_patrol(tt_control *control);
/* The exchange of a planned tensor failed; reported to the negotiator at the next flush. */
void tt_host_plan_failed(tt_set *set, uint32_t generation, uint32_t index);
void tt_host_shut(tt_control *control, tt_set *set, tt_status status, const char *text);
/* End the join if all have joined and no op runs on this rank for others. */
void tt_host_settle_join(tt_set *set);
void tt_host_release_set(tt_set *set);
void tt_host_release_all(tt_control *control);
/* Run a planned item: its ticket was over at `now_ns`, or it needed none. */
void tt_host_begin_planned(tt_control *control, tt_set *set, const tt_agreement *item,
                           uint64_t now_ns);

/* ---- expire.c ---- */

typedef struct tt_stand_in tt_stand_in;

/* Deadline of the request, counted from its first submission. */
uint64_t tt_expire_due(const tt_control *control, tt_request *request, uint64_t now_ns);
/* Check the deadline of a ticket that waits; true: requests have ended. */
bool tt_expire_waiting(tt_control *control, tt_name *name, uint64_t now_ns);
/* The same for a group that is not complete, and for requests that wait behind either. */
bool tt_expire_incomplete(tt_control *control, tt_name *name, uint64_t now_ns);
void tt_expire_behind(tt_control *control, tt_name *name, uint64_t now_ns);
/* Have all its requests ended? */
bool tt_expire_is_over(const tt_name *name);
void tt_expire_release_all(tt_control *control);

/* ---- notice.c ---- */

void tt_notice_send(tt_control *control, tt_set *set, uint32_t member, const tt_notice *notice);
void tt_notice_frame(tt_control *control, uint32_t peer, const tt_head *head, const void *payload);
/* Deliver notices that arrived before `set` was created. */
void tt_notice_replay(tt_control *control, tt_set *set);
void tt_notice_release_all(tt_control *control);

/* ---- group.c ---- */

void tt_group_submit(tt_control *control, tt_set *set, tt_request *request,
                     const tt_membership *membership, const tt_failure *objection);
/* The open request of this name that is in a group; NULL: there is none. */
tt_request *tt_group_member(const tt_control *control, const tt_set *set, const char *text);
/* Remove its requests from the group. */
void tt_group_empty(tt_control *control, tt_name *group);
/* `request` takes the place of a member, or of the only one. */
void tt_group_replace(tt_name *name, uint32_t place, tt_request *request);
/* A group that the library made stays incomplete on this rank: claim that it is dissolved. */
void tt_group_give_up(tt_control *control, tt_name *group);
/* Reports, every stall_ns, a user's group that waits for members on this rank. */
void tt_group_watch(tt_control *control, tt_name *group, uint64_t now_ns);
/* Does this status dissolve the group and leave its requests open? */
bool tt_group_has_come_apart(const tt_name *name, tt_status status, bool is_explained);
/* Its ticket has ended so: the members will be submitted by themselves. */
void tt_group_come_apart(tt_control *control, tt_name *group);
/* Submit them. */
void tt_group_flush(tt_control *control);
/* The group has ended otherwise. */
void tt_group_forget(tt_control *control, const tt_name *name);

/* ---- regrouped.c ---- */

/* `item` is planned, but this rank has some of it in `item->rival`: both fail. */
void tt_regrouped_refuse(tt_control *control, tt_set *set, const tt_agreement *item);

#endif
