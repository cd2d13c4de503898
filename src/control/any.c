/* SPDX-License-Identifier: Apache-2.0
 *
 * any.c - receives from any source: matches each to a message.
 *
 * A receive has no number until its sender is chosen. So receives of one (set, tag) wait in one
 * queue as soon as a receive from any source waits. The first in the queue is always one from any
 * source: it takes the next message of the first member that has one, gets that message's number,
 * and continues like any other receive. A frame of its sender announces a message: a parked DATA, a
 * noted WANT, or a frame about its failure. A sender does not announce a long message until the
 * receiver is ready, so the receiver requests the next message of every member once (ASK); the
 * sender answers with WANT, at once or when it makes the call.
 *
 *  (1) Receives of one (set, tag) take messages in the order of their calls; those of a named
 *      source behind one from any source wait, since it may take their message.
 *  (2) Only the next message of a member is requested and taken. An ASK stays valid at the sender
 *      until that message is sent; a WANT stays valid at the receiver until a receive of any kind
 *      takes it. So nothing is withdrawn: not by another choice, a cancel or a deadline.
 *  (3) A waiting receive has no peer (its own rank is the placeholder) and no number: its end sends
 *      no frame and takes no message. A receive that has taken a message is not cancelled.
 *  (4) Members with a message take turns.
 *  (5) The count of a member's messages moves only when a message is taken, so frames with
 *      other numbers have no effect. At most ASKS_MAX of its ASKs are kept. A sender that offers
 *      and does not send blocks the receive until its deadline, as it would one with a named
 *      source.
 *  (6) The death of a member fails waiting receives, as it fails all calls on the set. A member
 *      that left sends no more; messages it sent before are taken. When no other member is left,
 *      waiting receives fail. */
#include "control/any.h"

#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/plant.h"
#include "kernel/hash64.h"

enum { ANY_BUCKETS = 64, ASK_BUCKETS_MIN = 64, ASKS_MAX = TT_NOTES_MAX };

/* Receives of one tag. */
struct tt_any {
    tt_any *next; /* in its bucket */
    tt_set *set;
    uint32_t tag;
    uint32_t turn; /* member that is checked first */
    tt_op_queue queue;
    uint64_t asked[]; /* [set->size] key + 1 of the message that ASK requested of the member */
};

struct tt_anys {
    tt_any *buckets[ANY_BUCKETS];
};

/* An ASK of `peer` for the message `key`, which this rank has not sent yet. */
struct tt_ask {
    struct tt_ask *next;
    uint32_t peer, set;
    uint64_t key;
};

/* ---- the receiver ---- */

static tt_any **bucket_of(tt_anys *anys, uint32_t tag)
{
    return &anys->buckets[tt_hash64_mix(tag, 0) % ANY_BUCKETS];
}

static tt_any *find(const tt_set *set, uint32_t tag)
{
    tt_any *any = set->anys != NULL ? *bucket_of(set->anys, tag) : NULL;
    while (any != NULL && any->tag != tag) {
        any = any->next;
    }
    return any;
}

static size_t any_bytes(const tt_set *set)
{
    return sizeof(tt_any) + set->size * sizeof(uint64_t);
}

static void pump_any(tt_op_queue *queue, uint32_t pair_index);

static bool reserve(tt_set *set, uint32_t tag)
{
    tt_platform *platform = set->control->platform;
    TT_ASSERT(tag <= TT_TAG_MAX);
    if (find(set, tag) != NULL) {
        return true;
    }
    for (uint32_t member = 0; member < set->size; member++) {
        if (!tt_pair_reserve(set, 2 * member + 1, tag)) {
            return false;
        }
    }
    if (set->anys == NULL) {
        set->anys = tt_platform_allocate(platform, sizeof(*set->anys));
    }
    tt_any *any = set->anys != NULL ? tt_platform_allocate(platform, any_bytes(set)) : NULL;
    if (any == NULL) {
        return false;
    }
    tt_any **bucket = bucket_of(set->anys, tag);
    any->next = *bucket;
    any->set = set;
    any->tag = tag;
    tt_op_queue_init(&any->queue, pump_any);
    *bucket = any;
    return true;
}

void tt_any_release_set(tt_set *set)
{
    tt_platform *platform = set->control->platform;
    for (uint32_t i = 0; set->anys != NULL && i < ANY_BUCKETS; i++) {
        while (set->anys->buckets[i] != NULL) {
            tt_any *next = set->anys->buckets[i]->next;
            TT_ASSERT(set->anys->buckets[i]->queue.first == NULL);
            tt_platform_release(platform, set->anys->buckets[i], any_bytes(set));
            set->anys->buckets[i] = next;
        }
    }
    tt_platform_release(platform, set->anys, sizeof(*set->anys));
    set->anys = NULL;
}

bool tt_any_has_room(tt_set *set, tt_request *request)
{
    const bool is_any = request->root == TT_ANY_SOURCE;
    TT_ASSERT(!is_any || request->collective == TT_RECEIVE);
    TT_ASSERT(is_any || request->root < set->size);
    const uint32_t pair_index = 2 * request->root + (request->collective == TT_SEND ? 0 : 1);
    if (is_any ? reserve(set, request->tag) : tt_pair_reserve(set, pair_index, request->tag)) {
        return true;
    }
    if (!is_any) {
        tt_failure_memory(set->control, set->id); /* there is no number for a frame to the peer */
    }
    tt_request_refuse(request, TT_ERR_NO_MEMORY, "out of memory for a tag");
    return false;
}

bool tt_any_waits(const tt_set *set, const tt_request *request)
{
    if (request->collective != TT_RECEIVE || set->anys == NULL) {
        return false;
    }
    const tt_any *any = find(set, request->tag);
    return request->root == TT_ANY_SOURCE ||
           (any != NULL && any->queue.first != NULL && !TT_PLANT(ANY_SOURCE_OVERTAKEN));
}

void tt_any_place(tt_op *op)
{
    TT_ASSERT(op->space == &tt_space_pair);
    TT_ASSERT(!op->is_sender);
    op->peer = op->control->world.rank;
    op->pair_members[0] = op->pair_members[1] = op->peer;
    op->pair_index = 2 * op->set->self + 1;
    op->sequence = UINT64_MAX;
}

/* Key of the member's next message, as its frames have it. */
static tt_head key_of(const tt_any *any, uint32_t member)
{
    return (tt_head){.kind = TT_FRAME_DATA,
                     .flags = TT_FLAG_PAIR,
                     .set = any->set->id,
                     .op = tt_pair_next(any->set, 2 * member + 1, any->tag),
                     .epoch = any->set->control->world.epoch};
}

/* Does the member have a next message? Of a member that is gone only arrived ones count. */
static bool has_message(const tt_any *any, uint32_t member)
{
    tt_control *control = any->set->control;
    const tt_flow *flow = &control->flow;
    TT_ASSERT(member < any->set->size);
    TT_ASSERT(member != any->set->self);
    if (flow->parked_count == 0 && flow->note_count == 0 && control->early_verdicts == NULL) {
        return false;
    }
    const tt_head key = key_of(any, member);
    const uint32_t peer = any->set->members[member];
    if (control->peers[peer].is_gone) {
        return tt_flow_has(flow, &key, peer, 0, 0);
    }
    return tt_flow_knows(flow, &key, peer) || tt_early_verdict_has(control, peer, &key);
}

/* A member other than this one that has a message (4); or `size`. */
static uint32_t choose(const tt_any *any)
{
    const tt_set *set = any->set;
    TT_ASSERT(any->turn < set->size);
    for (uint32_t i = 0; i < set->size; i++) {
        const uint32_t member = (any->turn + i) % set->size;
        if (member != set->self && has_message(any, member)) {
            return member;
        }
    }
    return set->size;
}

/* Request the next message of each member once (2). False: no other member is left. */
static bool ask(tt_any *any)
{
    const tt_set *set = any->set;
    tt_control *control = set->control;
    bool is_one_left = false;
    for (uint32_t member = 0; member < set->size; member++) {
        const uint32_t peer = set->members[member];
        if (member == set->self || control->peers[peer].is_gone) {
            continue;
        }
        is_one_left = true;
        tt_head head = key_of(any, member);
        TT_ASSERT(any->asked[member] <= head.op + 1); /* (5): numbers only grow */
        if (any->asked[member] != head.op + 1) {
            any->asked[member] = head.op + 1;
            head.kind = TT_FRAME_ASK;
            head.flags |= TT_FLAG_REPLY;
            tt_flow_control(&control->flow, peer, &head);
        }
    }
    return is_one_left;
}

tt_op_queue *tt_any_leave(tt_op *op)
{
    tt_op_queue *queue = &op->any->queue;
    TT_ASSERT(op->control->any_waiting > 0);
    tt_op_queue_remove(queue, op);
    op->any = NULL;
    op->control->any_waiting--;
    return queue;
}

/* At its turn the op takes the next message of `member`. */
static void take(tt_op *op, uint32_t member)
{
    (void)tt_any_leave(op);
    op->next = NULL;
    tt_op_tell_stall(op, "");
    tt_pair_place(op, member);
    if (op->objection < 0) {
        tt_op_refuse(op, op->objection, op->request->error);
    } else {
        op->space->enter(op);
    }
}

/* The first in the queue is from any source, and no member has a message for it. */
static void wait_or_fail(tt_any *any)
{
    const tt_set *set = any->set;
    if (set->broken == TT_ERR_PEER_DOWN) {
        tt_op_fail(any->queue.first, set->broken, set->broken_text);
    } else if (!ask(any)) {
        tt_op_fail(any->queue.first, TT_ERR_PEER_LEFT,
                   "every other rank of the process set has left the job");
    }
}

/* `member` has a message; `size`: some member may have one. */
static void pump(tt_any *any, uint32_t member)
{
    const uint32_t none = any->set->size;
    TT_ASSERT(member <= none);
    if (any->queue.is_pumping) {
        return; /* the outermost call continues */
    }
    any->queue.is_pumping = true;
    while (any->queue.first != NULL) {
        tt_op *op = any->queue.first;
        const bool is_any = op->request->root == TT_ANY_SOURCE;
        member = is_any && member == none ? choose(any) : member;
        if (is_any && member == none) {
            wait_or_fail(any);
            if (any->queue.first == op) {
                break;
            }
            continue;
        }
        any->turn = is_any ? (member + 1) % none : any->turn;
        take(op, is_any ? member : op->request->root);
        member = none;
    }
    any->queue.is_pumping = false;
}

static void pump_any(tt_op_queue *queue, uint32_t pair_index)
{
    (void)pair_index;
    tt_any *any = TT_CONTAINER_OF(queue, tt_any, queue);
    pump(any, any->set->size);
}

void tt_any_wait(tt_op *op, const tt_failure *objection)
{
    tt_any *any = find(op->set, op->request->tag);
    tt_text text = {0};
    TT_ASSERT(op->any == NULL);
    op->any = any;
    op->objection = objection != NULL ? objection->status : TT_OK;
    if (objection != NULL) {
        tt_text_add(&text, "%s", objection->text);
        memcpy(op->request->error, text.bytes, sizeof(op->request->error));
    }
    tt_op_queue_add(&any->queue, op);
    op->control->any_waiting++;
    tt_text_clear(&text);
    tt_text_add(&text, "a message of tag %u from any rank", any->tag);
    tt_op_tell_stall(op, text.bytes);
    if (any->queue.first == op) { /* else another one precedes it */
        pump(any, any->set->size);
    }
}

void tt_any_arrived(tt_control *control, uint32_t peer, const tt_head *head)
{
    if ((head->flags & TT_FLAGS_SPACE) != TT_FLAG_PAIR) {
        return; /* not from a sender */
    }
    const tt_set *set = tt_set_find(control, head->set);
    tt_any *any = set != NULL ? find(set, tt_pair_tag(head->op)) : NULL;
    const uint32_t member = set != NULL ? set->member_of[peer] : UINT32_MAX;
    if (any != NULL && any->queue.first != NULL && member != UINT32_MAX &&
        has_message(any, member)) {
        pump(any, member);
    }
}

void tt_any_left(tt_control *control, uint32_t rank)
{
    TT_ASSERT(control->peers[rank].is_gone);
    for (tt_set *set = control->sets; set != NULL; set = set->next) {
        for (uint32_t i = 0; set->anys != NULL && i < ANY_BUCKETS; i++) {
            for (tt_any *any = set->anys->buckets[i]; any != NULL; any = any->next) {
                if (set->member_of[rank] != UINT32_MAX) {
                    pump(any, any->set->size);
                }
            }
        }
    }
}

void tt_any_patrol(tt_op *op, uint64_t now_ns)
{
    if (now_ns < op->report_ns) {
        return;
    }
    tt_text text = {0};
    TT_ASSERT(op->submitted_ns <= now_ns);
    op->report_ns = now_ns + op->control->config.stall_ns;
    tt_text_add(&text, "a receive has waited %.1f s for %s",
                (double)(now_ns - op->submitted_ns) / 1e9, tt_op_stall(op));
    tt_control_report(op->control, LEVEL_WARN, &text);
}

/* ---- the sender ---- */

static tt_ask **ask_bucket(const tt_asks *asks, uint32_t peer, uint32_t set, uint64_t key)
{
    const uint64_t who = (uint64_t)peer << 32 | set;
    TT_ASSERT(asks->bucket_count > 0);
    return &asks->buckets[tt_hash64_mix(key, who) & (asks->bucket_count - 1)];
}

static tt_ask **ask_find(const tt_asks *asks, uint32_t peer, uint32_t set, uint64_t key)
{
    tt_ask **link = ask_bucket(asks, peer, set, key);
    while (*link != NULL && ((*link)->key != key || (*link)->peer != peer || (*link)->set != set)) {
        link = &(*link)->next;
    }
    return link;
}

/* Double the buckets; without memory keep the old ones. False: there are none. */
static bool asks_grow(tt_control *control)
{
    tt_asks *asks = &control->asks;
    const tt_asks old = *asks;
    const uint32_t count = old.bucket_count == 0 ? ASK_BUCKETS_MIN : 2 * old.bucket_count;
    TT_ASSERT((count & (count - 1)) == 0); /* a bucket is found by a mask */
    tt_ask **buckets = tt_platform_allocate(control->platform, count * sizeof(tt_ask *));
    if (buckets == NULL) {
        return old.bucket_count > 0;
    }
    asks->buckets = buckets;
    asks->bucket_count = count;
    for (uint32_t i = 0; i < old.bucket_count; i++) {
        tt_ask *next;
        for (tt_ask *one = old.buckets[i]; one != NULL; one = next) {
            tt_ask **bucket = ask_bucket(asks, one->peer, one->set, one->key);
            next = one->next;
            one->next = *bucket;
            *bucket = one;
        }
    }
    tt_platform_release(control->platform, old.buckets, old.bucket_count * sizeof(tt_ask *));
    return true;
}

/* Keep the ASK until the message is sent. False: no memory. */
static bool ask_add(tt_control *control, uint32_t peer, const tt_head *head)
{
    tt_asks *asks = &control->asks;
    if (asks->count >= asks->bucket_count && !asks_grow(control)) {
        return false;
    }
    tt_ask **link = ask_find(asks, peer, head->set, head->op);
    if (*link != NULL || control->peers[peer].ask_count >= ASKS_MAX) {
        return true; /* known; or more than a correct peer sends */
    }
    tt_ask *made = tt_platform_allocate(control->platform, sizeof(*made));
    if (made == NULL) {
        return false;
    }
    *made = (tt_ask){.peer = peer, .set = head->set, .key = head->op};
    *link = made;
    asks->count++;
    control->peers[peer].ask_count++;
    TT_ASSERT(control->peers[peer].ask_count <= asks->count);
    return true;
}

static void ask_remove(tt_control *control, tt_ask **link)
{
    tt_ask *gone = *link;
    TT_ASSERT(control->peers[gone->peer].ask_count > 0);
    *link = gone->next;
    control->asks.count--;
    control->peers[gone->peer].ask_count--;
    tt_platform_release(control->platform, gone, sizeof(*gone));
}

/* WANT is the offer: the receiver treats it like that of a short message without credit. */
static void offer(const tt_op *op)
{
    TT_ASSERT(op->is_sender);
    tt_head head = tt_op_identity(op, TT_FRAME_WANT);
    tt_flow_control(&op->control->flow, op->peer, &head);
}

void tt_any_ask_frame(tt_control *control, uint32_t peer, const tt_head *head)
{
    if ((head->flags & TT_FLAGS_SPACE) != (TT_FLAG_PAIR | TT_FLAG_REPLY)) {
        return;
    }
    const tt_op *op = tt_op_find(control, peer, head);
    const tt_set *set = tt_set_find(control, head->set);
    op = op != NULL || set == NULL ? op : tt_pair_queued(set, peer, head);
    if (op != NULL) {
        offer(op);
    } else if (tt_op_is_future(control, peer, head) && !ask_add(control, peer, head)) {
        tt_failure_memory(control, head->set);
    }
}

/* A short message needs no offer: its DATA arrives, or WANT where credit is short. */
static bool needs_no_offer(const tt_op *op)
{
    const tt_request *request = op->request;
    const uint64_t width = tt_dtype_bytes(request->dtype);
    return width > 0 && request->count <= op->control->flow.eager_bytes_max / width &&
           op->set->pair_open[op->pair_index] < PAIRS_AHEAD_MAX;
}

void tt_any_answer(const tt_op *op)
{
    tt_control *control = op->control;
    TT_ASSERT(op->is_sender);
    tt_ask **link = ask_find(&control->asks, op->peer, op->set->id, op->sequence);
    if (*link == NULL) {
        return;
    }
    ask_remove(control, link);
    if (!needs_no_offer(op) && !TT_PLANT(OFFER_NOT_MADE)) {
        offer(op);
    }
}

void tt_any_forget_set(tt_control *control, uint32_t set_id)
{
    for (uint32_t i = 0; control->asks.count > 0 && i < control->asks.bucket_count; i++) {
        for (tt_ask **link = &control->asks.buckets[i]; *link != NULL;) {
            if ((*link)->set == set_id) {
                ask_remove(control, link);
            } else {
                link = &(*link)->next;
            }
        }
    }
}

void tt_any_release_all(tt_control *control)
{
    tt_asks *asks = &control->asks;
    for (uint32_t i = 0; i < asks->bucket_count; i++) {
        while (asks->buckets[i] != NULL) {
            ask_remove(control, &asks->buckets[i]);
        }
    }
    TT_ASSERT(asks->count == 0);
    tt_platform_release(control->platform, asks->buckets, asks->bucket_count * sizeof(tt_ask *));
    *asks = (tt_asks){0};
}
