/* SPDX-License-Identifier: Apache-2.0
 *
 * named.h - named requests of this rank: from submission through the negotiator to an op.
 *
 * A named request, or a group of them, is one ticket. When all members have it, it runs: alone, in
 * a bundle with others, or in several ops (a group). Its name is taken until it is over.
 *
 * Layer:   control, private.
 * Threads: as control.h.
 * Memory:  records and bundles are kept for reuse; a group's lists grow with it.
 */
#ifndef TUTTI_CONTROL_NAMED_H
#define TUTTI_CONTROL_NAMED_H

#include "control/control_internal.h"
#include "control/layout.h"
#include "negotiate/negotiate.h"

enum {
    NAME_BUCKETS = 1024,
    GROUP_MEMBERS_MAX = 4096,      /* parts of a planned group are numbered in 12 bits */
    EARLY_BYTES_MAX = 1024 * 1024, /* notices of a peer for sets to come */
    BID_SHORT_BYTES = 144,         /* of one request, with some words of an objection */
};

/* One ticket: a named request, or the members of a group. */
typedef struct tt_named {
    struct tt_named *next;                            /* in its bucket, or the free list */
    struct tt_named *next_waiting, *previous_waiting; /* in control->names->waiting */
    tt_ticket ticket;
    tt_set *set;
    uint64_t hash; /* of set and name */
    uint64_t submitted_ns, deadline_ns;
    uint64_t reported_ns;  /* a group: that it is incomplete; 0: never */
    tt_request *request;   /* not a group */
    tt_request **members;  /* a group: in the order of their names when it is complete */
    uint32_t member_count; /* that have come */
    uint32_t member_max;   /* that must come; 0: no group */
    uint32_t open_count;   /* running, not over */
    tt_status status;      /* the first failure */
    tt_status objection;   /* this rank cannot take part; `error` says why */
    char error[TT_ERROR_BYTES];
    bool is_waiting;             /* the negotiator has its ticket */
    bool is_resting;             /* its request is over; kept for the next of the name (quick.c) */
    bool is_apart;               /* its group is dissolved: the members are to go by themselves */
    bool is_vast;                /* a group of sums whose bid is a digest */
    bool is_starved;             /* the last record there was: it is to tell that memory is out */
    uint32_t layout;             /* number of a group that nobody named (layout.c); 0: it is none */
    struct tt_named *next_apart; /* in control->names->apart */
    tt_request *after;   /* of its name, submitted when it is over; see tt_named_wait_behind */
    uint64_t expired_ns; /* its deadline was found to have passed; 0: it has not */
    char name[TT_NAME_BYTES];
    uint8_t *bid; /* claim of the ticket */
    size_t bid_capacity;
    uint8_t bid_short[BID_SHORT_BYTES];
} tt_named;

/* A request of control's own: several small ones as one, or the part of a rank that has joined. */
typedef struct tt_bundle {
    struct tt_bundle *next; /* free list */
    tt_request carrier;
    tt_control *control;
    uint8_t *memory;
    size_t capacity;
    bool is_arena, is_starved;
    const tt_agreement *first_item; /* while it is being filled */
    tt_claim claim;                 /* of the first member */
    uint64_t bytes;
    uint64_t layout; /* hash of the members' counts */
    char name[TT_NAME_BYTES];
    tt_agreement pack; /* as which planned exchange it goes; bundle_size 0: it is agreed */
    uint32_t member_count;
    struct {
        tt_request *request; /* NULL: this rank has joined */
        uint64_t offset, bytes;
        uint32_t index; /* of a pack: as which planned tensor or group it goes alone */
    } members[TT_BUNDLE_MEMBERS_MAX];
} tt_bundle;

/* Planned tensors that go together as soon as all have come; see pack.c. */
typedef struct tt_pack {
    struct tt_pack *next, *previous; /* of those that wait for members */
    tt_set *set;
    uint32_t generation, index; /* its own number */
    uint32_t size;
    uint32_t count; /* members that have come */
    uint64_t order; /* occurrence that they are of */
    uint64_t end;   /* from this occurrence on they go one by one; UINT64_MAX: not */
    uint64_t limit; /* after this one not all members come; UINT64_MAX: they do */
    uint64_t first_ns;
    uint64_t deadline_ns; /* the first of its members' */
    uint32_t late_count;  /* of names, when the first one came */
    struct tt_pack_member {
        tt_named *named; /* a tensor, or a group of small ones; NULL: it has not come */
        uint32_t index;
        uint64_t held_ns; /* since when */
    } members[];
} tt_pack;

/* A notice for a set that does not exist here yet. */
typedef struct tt_early {
    struct tt_early *next;
    uint32_t peer;
    tt_head head;
    uint8_t payload[];
} tt_early;

/* What control knows of named requests. */
struct tt_names {
    tt_named *buckets[NAME_BUCKETS];
    tt_request *members[NAME_BUCKETS]; /* of open groups, by name */
    tt_named *free;
    tt_named *waiting; /* tickets and incomplete groups */
    tt_bundle *free_bundles;
    uint32_t free_bundle_count;
    tt_bundle *forsaken; /* a peer may yet store to their memory */
    tt_pack *packs;      /* that wait for members */
    uint32_t late_count; /* how often packs were given up here because they were late */
    tt_named *apart;     /* groups whose members are to be submitted by themselves */
    tt_request *later;   /* those that it was over for */
    struct tt_stand_in *free_stand_ins; /* see expire.c */
    tt_named *spare; /* for a call that there is no other memory for: it tells the peers */
};

/* ---- bid.c: what a ticket claims ---- */

/* Objection of a bid: not all members of this group come, it is dissolved. No status of a call. */
#define BID_APART ((tt_status)-31)
/* Likewise: peers had begun some of it as planned, by itself or in another group; what is left of
 * it fails everywhere. */
#define BID_TORN ((tt_status)-30)

/* A bid as it lies on the wire, after it was checked. */
typedef struct tt_bid {
    uint32_t member_count;
    tt_status objection; /* negative: the rank cannot take part */
    bool is_digest;      /* too many members: only their hash is here */
    const uint8_t *records, *end;
    const char *text; /* of the objection */
    size_t text_bytes;
} tt_bid;

/* Write the claim of `named` (complete) into its bid and ticket. Without memory it says so. */
void tt_bid_make(tt_control *control, tt_named *named, const tt_failure *objection);
/* The members of a digest that this rank has told itself before; false: it has not, or long ago. */
bool tt_bid_recall(const tt_set *set, const tt_agreement *item, tt_bid *bid);
void tt_bid_forget_all(tt_control *control, tt_set *set);
/* False: nothing an honest rank sends. */
bool tt_bid_read(tt_bid *bid, const void *bytes, size_t byte_count);
/* The next member; false: none is left. */
bool tt_bid_next(tt_bid *bid, tt_claim *claim_out);
/* A member of a group: `part` of the negotiator's host. */
uint32_t tt_bid_part(void *owner, const void *claim, uint16_t byte_count, uint32_t place,
                     tt_part_name *part_out);
tt_status tt_bid_explain(const tt_set *set, const char *name, const tt_claimant *claimants,
                         uint32_t count, tt_text *text);

/* ---- named.c ---- */

tt_status tt_named_ready(tt_control *control, tt_set *set);
void tt_named_submit(tt_control *control, tt_set *set, tt_request *request,
                     const tt_failure *objection);
void tt_named_join(tt_control *control, tt_set *set, tt_request *request);
bool tt_named_cancel(tt_control *control, tt_request *request);
/* Something may be due at this set's negotiator: it is flushed before the machine rests. */
void tt_named_touch(tt_control *control, tt_set *set);
void tt_named_flush(tt_control *control);
void tt_named_patrol(tt_control *control);
/* A planned tensor failed in its exchange; told at the next flush. */
void tt_named_upset(tt_set *set, uint32_t generation, uint32_t index);
void tt_named_shut(tt_control *control, tt_set *set, tt_status status, const char *text);
/* End the join if all have joined and nothing runs here for others. */
void tt_named_settle_join(tt_set *set);
void tt_named_release_set(tt_set *set);
void tt_named_release_all(tt_control *control);

/* No memory for named calls, so that no single one can be failed on the peers: this rank gives up
 * and sends ABORT; also from inside a negotiator. Its calls end before the machine rests: */
void tt_named_starve(tt_control *control);
void tt_named_end_starved(tt_control *control);
void tt_named_refuse_starved(tt_control *control, tt_request *request); /* this one at once */
void tt_named_say_starved(const tt_control *control, tt_text *text);
/* Keep a record back; false: no memory. */
bool tt_named_spare(tt_control *control);
/* A group's name, deadline and members; see group.c. */
tt_named *tt_named_take(tt_control *control, tt_set *set, const char *name);
tt_named *tt_named_find(const tt_control *control, const tt_set *set, const char *name);
void tt_named_release(tt_control *control, tt_named *named);
/* Its ticket is over, or it never became one. */
void tt_named_stop_waiting(tt_control *control, tt_named *named);
/* What is open under the name of `request` was refused before it was submitted, so that its caller
 * cannot wait for it: `request` is submitted when that is over. False: it is another's. */
bool tt_named_wait_behind(tt_control *control, tt_named *open, tt_request *request);
/* Submit those that were waited for. */
void tt_named_submit_later(tt_control *control);
/* The ticket, once its request or group is complete. */
void tt_named_offer(tt_control *control, tt_named *named, const tt_failure *objection);
/* End all its requests, which have no op. */
void tt_named_refuse(tt_control *control, tt_named *named, tt_status status, const char *text);

/* It was submitted before, but could not wait by itself then. The settings of that time hold: those
 * of now may be others on some ranks and not yet on the rest. Defined in op.c. */
void tt_request_submit_again(tt_control *control, tt_request *request);
/* The request's op is over: tell its owner, or its group. */
void tt_request_end(tt_request *request, tt_status status, const char *text);
/* The request has come to its end; a group's ends are told together. */
void tt_named_over(tt_request *request, tt_status status, const char *text);

/* ---- expire.c ---- */

typedef struct tt_stand_in tt_stand_in;

/* When the request is to be over, by the clock of its first submission. */
uint64_t tt_expire_due(const tt_control *control, tt_request *request);
/* Look at the deadline of a ticket that waits; true: requests have ended. */
bool tt_expire_waiting(tt_control *control, tt_named *named, uint64_t now_ns);
/* The same for a group that is not complete, and for requests that wait behind either. */
bool tt_expire_incomplete(tt_control *control, tt_named *named, uint64_t now_ns);
void tt_expire_behind(tt_control *control, tt_named *named, uint64_t now_ns);
/* Have all its callers been told that it is over? */
bool tt_expire_is_over(const tt_named *named);
void tt_expire_release_all(tt_control *control);

/* ---- notice.c ---- */

void tt_notice_send(tt_control *control, tt_set *set, uint32_t member, const tt_notice *notice);
void tt_notice_frame(tt_control *control, uint32_t peer, const tt_head *head, const void *payload);
/* Notices that came before `set` was created. */
void tt_notice_replay(tt_control *control, tt_set *set);
void tt_notice_release_all(tt_control *control);

/* ---- group.c ---- */

void tt_group_submit(tt_control *control, tt_set *set, tt_request *request,
                     const tt_membership *membership, const tt_failure *objection);
/* The open request of this name that is in a group; NULL: there is none. */
tt_request *tt_group_member(const tt_control *control, const tt_set *set, const char *name);
/* It is not in its group any more. */
void tt_group_leave(tt_control *control, tt_request *request);
/* `request` takes the place of a member, or of the only one. */
void tt_group_replace(tt_control *control, tt_named *named, uint32_t place, tt_request *request);
/* A group that nobody named does not come together here: claim that it is dissolved. */
void tt_group_give_up(tt_control *control, tt_named *named);
/* Tells, every stall_ns, of a user's group that waits for members on this rank. */
void tt_group_watch(tt_control *control, tt_named *named, uint64_t now_ns);
/* Is that no end for its requests, but for the group? */
bool tt_group_has_come_apart(const tt_named *named, tt_status status, bool is_explained);
/* Its ticket has ended with that: the members will be submitted by themselves. */
void tt_group_come_apart(tt_control *control, tt_named *named);
/* Submit them. */
void tt_group_flush(tt_control *control);
/* It ends otherwise. */
void tt_group_forget(tt_control *control, const tt_named *named);

/* ---- bundle.c ---- */

/* Run these agreed tickets, small ones together; what runs together depends on the items alone. */
void tt_bundle_run(tt_control *control, tt_set *set, const tt_agreement *items, uint32_t count,
                   bool is_planned);
/* Add to what is planned, a tensor or a group: `fusion->kind` is 0 where not all of it may share an
 * op. One of nothing may not: it would end before all ranks have begun it. */
void tt_bundle_fuse(const tt_control_config *config, const tt_claim *claim, tt_fusion *fusion);
/* Run this planned tensor alone; `request` is what `item`'s ticket asks for. */
void tt_bundle_run_alone(tt_control *control, tt_set *set, const tt_agreement *item,
                         tt_request *request);
/* Run all that have come of a pack as one; `objection`: refuse it on all ranks. They leave it. */
void tt_bundle_run_pack(tt_control *control, tt_pack *pack, const tt_failure *objection);
/* Does this request carry one? */
bool tt_bundle_is_pack(const tt_request *request);
/* Peers have begun this planned tensor or group, which this rank has elsewhere: it fails. */
void tt_bundle_refuse(tt_control *control, tt_set *set, const tt_agreement *item,
                      const tt_failure *objection);
/* Keep enough of them that none is missing when tickets are agreed. */
tt_status tt_bundle_reserve(tt_control *control);
void tt_bundle_release_all(tt_control *control);

/* ---- torn.c ---- */

/* `item` is planned, but this rank has some of it in `item->rival`: both fail. */
void tt_torn_refuse(tt_control *control, tt_set *set, const tt_agreement *item);

/* ---- pack.c ---- */

/* A planned tensor of a bundle is to run. */
void tt_pack_add(tt_control *control, tt_set *set, const tt_agreement *item);
/* It will not run as part of its bundle here: nor will the bundle, anywhere. */
void tt_pack_forgo(tt_control *control, tt_set *set, const tt_agreement *item);
/* A member of its bundle comes up to occurrence `item->order`, and no further, on any rank:
 * `unplanned` of the negotiator's host. */
void tt_pack_unplan(void *owner, const tt_agreement *item);
/* A peer has refused the planned op of `key`, which has not begun here. */
void tt_pack_foretold(tt_control *control, const tt_head *key);
/* The exchange of a pack has failed, here as everywhere. */
void tt_pack_ended(tt_control *control, tt_set *set, const tt_agreement *pack);
/* Give up those that wait too long for a member. */
void tt_pack_patrol(tt_control *control);
void tt_pack_shut(tt_control *control, tt_set *set, tt_status status, const char *text);
void tt_pack_release(tt_control *control, tt_pack *pack);

#endif
