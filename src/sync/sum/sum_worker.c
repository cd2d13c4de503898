/* SPDX-License-Identifier: Apache-2.0
 *
 * sum_worker.c - named all-reduces that owners sum; see sum_worker.h. */
#include "sync/sum/sum_worker.h"

#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/plant.h"
#include "kernel/hash64.h"
#include "sync/sync_internal.h"

_Static_assert((int)TT_SYNC_SHAPE_BYTES == (int)TT_SHAPE_BYTES, "a claim has the whole shape");

static void copy_text(char *target, size_t room, const char *text)
{
    const size_t length = tt_min_u64(strlen(text), room - 1);
    memcpy(target, text, length);
    target[length] = '\0';
}

static tt_worker_store *sum_store(const tt_sync *sync)
{
    return sync->stores[TT_STORE_SUMS];
}

uint64_t tt_sum_base(const tt_sum_name *name)
{
    return tt_hash64(name->text, strlen(name->text), name->joins);
}

/* Generations of a name are in one bucket of an owner: they are found together there. */
static uint64_t key_id(const tt_sum_name *name, uint32_t generation)
{
    return (tt_sum_base(name) ^ (uint64_t)generation << 8) | 1; /* 0 is no key */
}

/* ---- names ---- */

static tt_sum_name **bucket_of(tt_sums *sums, const char *text)
{
    return &sums->buckets[tt_hash64(text, strlen(text), 0) % SUM_BUCKETS];
}

tt_sum_name *tt_sum_name_of(tt_sync *sync, const char *text)
{
    tt_sums *sums = &sync->sums;
    tt_sum_name **bucket = bucket_of(sums, text);
    tt_sum_name *name = *bucket;
    while (name != NULL && (name->joins != sums->joins || strcmp(name->text, text) != 0)) {
        name = name->next;
    }
    if (name != NULL) {
        return name;
    }
    name = tt_platform_allocate(sync->platform, sizeof(*name));
    if (name != NULL) {
        name->sync = sync;
        name->joins = sums->joins;
        memcpy(name->text, text, strlen(text) + 1);
        name->next = *bucket;
        *bucket = name;
    }
    return name;
}

/* The name's key is of no use for its next call. */
static void leave_key(tt_sync *sync, tt_sum_name *name)
{
    if (name->key != NULL) {
        name->left = name->key->id;
        name->left_sums = name->sums;
        tt_worker_key_release(sync, name->key);
        name->key = NULL;
        name->sums = 0;
    }
}

static void name_release(tt_sync *sync, tt_sum_name *name)
{
    tt_sum_name **link = bucket_of(&sync->sums, name->text);
    while (*link != name) {
        link = &(*link)->next;
    }
    *link = name->next;
    leave_key(sync, name);
    tt_platform_release(sync->platform, name, sizeof(*name));
}

static bool is_idle(const tt_sum_name *name)
{
    return name->current == NULL && name->waiting.first == NULL && name->given == NULL &&
           name->later == NULL;
}

/* ---- frames ---- */

static bool is_handed_over(const tt_sync *sync)
{
    return sync->sums.handover.phase != TT_HANDOVER_NONE;
}

static void tell_owners(tt_sync *sync, tt_head head)
{
    head.set = TT_STORE_SUMS;
    for (uint32_t i = 0; i < sync->sum_split.owners && !is_handed_over(sync); i++) {
        tt_sync_signal(sync, tt_split_rank(&sync->sum_split, i), head);
    }
}

static void send_objection(tt_sync *sync, const tt_sum_call *call, const tt_sync_claim *claim,
                           tt_status status, const char *why)
{
    char bytes[TT_SYNC_TEXT_BYTES];
    const size_t name_bytes = strlen(call->name->text) + 1;
    const size_t text_bytes = tt_min_u64(strlen(why), sizeof(bytes) - sizeof(*claim) - name_bytes);
    const tt_head head = {.kind = TT_SYNC_OBJECT,
                          .set = TT_STORE_SUMS,
                          .op = call->objected,
                          .descriptor = call->name->sums,
                          .argument = (uint64_t)(int64_t)status};
    memcpy(bytes, claim, sizeof(*claim));
    memcpy(bytes + sizeof(*claim), call->name->text, name_bytes);
    memcpy(bytes + sizeof(*claim) + name_bytes, why, text_bytes);
    for (uint32_t i = 0; i < sync->sum_split.owners; i++) {
        if (!tt_sync_send_text(sync, tt_split_rank(&sync->sum_split, i), head, bytes,
                               (uint32_t)(sizeof(*claim) + name_bytes + text_bytes))) {
            tt_worker_fail_without_memory(sync, sum_store(sync), call->name->text);
            return;
        }
    }
}

static tt_sync_claim claim_of(const tt_sum_name *name, const tt_request *request)
{
    tt_sync_claim claim = {.count = request->count,
                           .dtype = (uint8_t)request->dtype,
                           .redop = (uint8_t)request->redop,
                           .is_by_active = request->is_by_active ? 1 : 0,
                           .joins = name->joins,
                           .generation =
                               name->key != NULL ? name->claim.generation : name->generation,
                           .prescale = request->prescale,
                           .postscale = request->postscale};
    if (request->shape[0] != 0) { /* else it is not given, whatever follows */
        memcpy(claim.shape, request->shape, sizeof(claim.shape));
    }
    return claim;
}

/* Does the call use the name's key? */
static bool uses_key(const tt_sum_name *name, const tt_request *request)
{
    const tt_sync_claim claim = claim_of(name, request);
    return name->key != NULL && memcmp(&claim, &name->claim, sizeof(claim)) == 0;
}

/* BUSY or IDLE. */
static void tell_busy(tt_sync *sync, tt_sum_name *name, tt_sync_kind kind)
{
    const tt_head head = {.kind = (uint8_t)kind, .op = tt_sum_base(name), .round = name->joins + 1};
    name->is_busy = kind == TT_SYNC_BUSY;
    tell_owners(sync, head);
}

/* ---- ends ---- */

static void forget_if_over(tt_sync *sync)
{
    tt_sums *sums = &sync->sums;
    if (sums->open == 0 && sums->forgotten < sums->joins) {
        const tt_head head = {.kind = TT_SYNC_FORGET, .round = sums->joins};
        sums->forgotten = sums->joins;
        tell_owners(sync, head);
    }
}

/* Its next call starts in a step: this may be deep inside a call on the key. */
static void call_over(tt_sync *sync, tt_sum_call *call, tt_status status, const char *text)
{
    tt_sums *sums = &sync->sums;
    tt_sum_name *name = call->name;
    tt_request *request = call->request;
    TT_ASSERT(name->current == call);
    name->current = NULL;
    name->ended++;
    if (!name->is_ready) {
        name->is_ready = true;
        name->next_ready = sums->ready;
        sums->ready = name;
    }
    call->next = sums->spare;
    sums->spare = call;
    request->status = status;
    if (status < 0) {
        copy_text(request->error, sizeof(request->error), text);
    }
    request->finished(request);
}

/* The push behind it goes on, or has failed with it. */
static void add_done(tt_sync_request *add)
{
    (void)add;
}

static void push_done(tt_sync_request *push)
{
    tt_sum_call *call = push->owner;
    if (is_handed_over(call->sync)) {
        call->sync->pending++; /* the call goes on elsewhere */
        return;
    }
    call_over(call->sync, call, push->status, push->error);
}

/* ---- starts ---- */

static void tell_left(const tt_sync *sync, uint32_t owner, tt_text *text)
{
    tt_text_add(text, "rank %u has left the job", tt_split_rank(&sync->sum_split, owner));
}

/* What keeps this rank from taking part; TT_OK: nothing. */
static tt_status check(tt_request *request, tt_text *why)
{
    if (request->objection < 0) {
        tt_text_add(why, "%s", request->error);
        return request->objection;
    }
    if (request->output == NULL && request->count > 0) {
        request->output =
            request->allocate(request, request->count * tt_dtype_bytes(request->dtype));
    }
    if (request->output == NULL && request->count > 0) {
        tt_text_add(why, "no memory for the result");
        return TT_ERR_NO_MEMORY;
    }
    return TT_OK;
}

/* A claim that owners accept, for an objection: the call's may be anything. */
static tt_sync_claim plain_claim(const tt_sum_name *name)
{
    return (tt_sync_claim){.joins = name->joins, .generation = name->generation};
}

/* The call ends when FAILED arrives. */
static void object(tt_sync *sync, tt_sum_call *call, tt_status status, const char *why)
{
    tt_sum_name *name = call->name;
    const tt_sync_claim claim = plain_claim(name);
    const bool has_key = name->key != NULL;
    call->objected = has_key ? name->key->id : key_id(name, name->generation);
    call->next = sync->sums.objected;
    sync->sums.objected = call;
    sync->pending++;
    send_objection(sync, call, &claim, status, why);
}

static tt_status add_key(tt_sync *sync, tt_sum_call *call, const tt_sync_claim *claim)
{
    tt_sum_name *name = call->name;
    const uint64_t id = key_id(name, claim->generation);
    call->add = (tt_sync_request){.verb = TT_STORE_ADD,
                                  .store = TT_STORE_SUMS,
                                  .name = name->text,
                                  .dtype = (tt_dtype)claim->dtype,
                                  .count = claim->count,
                                  .finished = add_done,
                                  .owner = call};
    tt_worker_key *key = tt_worker_key_make(sync, sum_store(sync), &call->add, id);
    if (key == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    key->sum = name;
    key->claim = *claim;
    key->left = name->left;
    key->left_sums = name->left_sums;
    name->key = key;
    name->claim = *claim;
    name->sums = 0;
    call->number = 1;
    tt_worker_enqueue(sync, key, &call->add);
    return TT_OK;
}

static void push(tt_sync *sync, tt_sum_call *call)
{
    const tt_request *request = call->request;
    call->number = ++call->name->sums;
    call->push = (tt_sync_request){.verb = TT_STORE_PUSH_PULL,
                                   .store = TT_STORE_SUMS,
                                   .input = request->input,
                                   .output = request->output,
                                   .urgency = request->urgency,
                                   .finished = push_done,
                                   .owner = call};
    tt_worker_enqueue(sync, call->name->key, &call->push);
}

/* An owner that has left: a key has parts at all of them, and any may judge it. */
static bool find_gone_owner(const tt_sync *sync, tt_text *why)
{
    uint32_t owner = 0;
    while (owner < sync->sum_split.owners &&
           !sync->is_gone[tt_split_rank(&sync->sum_split, owner)]) {
        owner++;
    }
    if (owner < sync->sum_split.owners) {
        tell_left(sync, owner, why);
    }
    return owner < sync->sum_split.owners;
}

static void start(tt_sync *sync, tt_sum_call *call)
{
    tt_sum_name *name = call->name;
    tt_text why = {0};
    name->current = call;
    if (name->status < 0) { /* others could not make this sum */
        const tt_status failed = name->status;
        name->status = TT_OK;
        leave_key(sync, name);
        call_over(sync, call, failed, name->error);
        return;
    }
    if (name->key != NULL && name->key->status < 0) {
        leave_key(sync, name);
    }
    if (!uses_key(name, call->request) && find_gone_owner(sync, &why)) {
        call_over(sync, call, TT_ERR_PEER_LEFT, why.bytes);
        return;
    }
    const tt_status status = check(call->request, &why);
    if (status != TT_OK) {
        object(sync, call, status, why.bytes);
        return;
    }
    tt_sync_claim claim = claim_of(name, call->request);
    if (name->key != NULL && !uses_key(name, call->request)) {
        leave_key(sync, name);
        claim.generation = name->generation = name->claim.generation + 1;
    }
    if (name->key == NULL && add_key(sync, call, &claim) != TT_OK) {
        object(sync, call, TT_ERR_NO_MEMORY, "no memory for a tensor");
        return;
    }
    if (name->key->status < 0) { /* this rank is an owner, too, and knew that ranks differ */
        copy_text(name->error, sizeof(name->error), name->key->error);
        call_over(sync, call, name->key->status, name->error);
        return;
    }
    push(sync, call);
}

static tt_sum_call *take_call(tt_sync *sync)
{
    tt_sum_call *call = sync->sums.spare;
    if (call != NULL) {
        sync->sums.spare = call->next;
        return call;
    }
    return tt_platform_allocate(sync->platform, sizeof(*call));
}

static void refuse(tt_request *request, tt_status status, const char *text)
{
    request->status = status;
    copy_text(request->error, sizeof(request->error), text);
    request->finished(request);
}

static tt_sum_call *take_first(tt_sum_name *name)
{
    return TT_CONTAINER_OF(tt_worker_queue_pop(&name->waiting), tt_sum_call, push);
}

/* Calls of a rank that is joining are those after the join. */
static void hold(tt_sync *sync, tt_request *request)
{
    tt_sums *sums = &sync->sums;
    request->next_later = NULL;
    if (sums->held_last != NULL) {
        sums->held_last->next_later = request;
    } else {
        sums->held = request;
    }
    sums->held_last = request;
    sync->pending++;
}

void tt_sync_sum(tt_sync *sync, tt_request *request)
{
    tt_worker_store *store = sum_store(sync);
    TT_ASSERT(store != NULL && request->name != NULL);
    if (store->status < 0) {
        refuse(request, store->status, store->error);
        return;
    }
    if (sync->sums.join != NULL) {
        hold(sync, request);
        return;
    }
    if (is_handed_over(sync)) {
        tt_handover_take(sync, request);
        return;
    }
    tt_sum_name *name = tt_sum_name_of(sync, request->name);
    tt_sum_call *call = name != NULL ? take_call(sync) : NULL;
    if (call == NULL) { /* others would take the next call of the name for this one */
        tt_worker_fail_without_memory(sync, store, request->name);
        refuse(request, store->status, store->error);
        return;
    }
    *call = (tt_sum_call){.sync = sync, .name = name, .request = request, .ordinal = ++name->made};
    if (is_idle(name)) {
        start(sync, call);
    } else {
        sync->pending++; /* until it starts */
        tt_worker_queue_push(&name->waiting, &call->push);
    }
}

/* Names with calls that may start; names from before a join that are over. */
bool tt_sum_step(tt_sync *sync)
{
    tt_sums *sums = &sync->sums;
    tt_sum_name *name = sums->ready;
    if (is_handed_over(sync)) {
        return tt_handover_step(sync);
    }
    sums->ready = NULL;
    while (name != NULL) {
        tt_sum_name *next = name->next_ready;
        name->is_ready = false;
        if (name->current == NULL && name->waiting.first != NULL) {
            sync->pending--;
            start(sync, take_first(name));
            name = next;
            continue;
        }
        if (is_idle(name) && name->is_busy) {
            tell_busy(sync, name, TT_SYNC_IDLE);
        }
        if (is_idle(name) && name->joins < sums->joins) {
            name_release(sync, name);
            sums->open--;
            forget_if_over(sync);
        }
        name = next;
    }
    return sums->ready != NULL;
}

/* ---- joining ---- */

static void join_over(tt_request *request)
{
    tt_sync *sync = request->owner;
    tt_sums *sums = &sync->sums;
    tt_request *held = sums->held;
    request->owner = sums->join_owner;
    request->finished = sums->join_finished;
    sums->join = sums->held = sums->held_last = NULL;
    sums->joins++;
    for (uint32_t i = 0; i < SUM_BUCKETS; i++) {
        tt_sum_name *next;
        for (tt_sum_name *name = sums->buckets[i]; name != NULL; name = next) {
            next = name->next;
            if (is_idle(name) && !name->is_ready) {
                name_release(sync, name);
            } else if (name->joins + 1 == sums->joins) {
                sums->open++;
            }
        }
    }
    forget_if_over(sync);
    while (held != NULL) {
        tt_request *next = held->next_later;
        sync->pending--;
        tt_sync_sum(sync, held);
        held = next;
    }
    request->finished(request);
}

bool tt_sync_join(tt_sync *sync, tt_request *request)
{
    const bool is_held = tt_handover_holds(sync);
    if (is_held) {
        tt_handover_take(sync, request); /* behind the calls before it */
    } else {
        tt_sum_begin_join(sync, request);
    }
    return is_held;
}

void tt_sum_begin_join(tt_sync *sync, tt_request *request)
{
    tt_sums *sums = &sync->sums;
    tt_head head = {.kind = TT_SYNC_JOIN, .round = sums->joins + 1};
    if (sums->join != NULL) {
        return; /* control refuses a second one */
    }
    sums->join = request;
    sums->join_finished = request->finished;
    sums->join_owner = request->owner;
    request->finished = join_over;
    request->owner = sync;
    for (uint32_t i = 0; i < SUM_BUCKETS; i++) {
        for (tt_sum_name *name = sums->buckets[i]; name != NULL; name = name->next) {
            if (name->joins == sums->joins && !is_idle(name)) {
                tell_busy(sync, name, TT_SYNC_BUSY);
                head.argument++;
            }
        }
    }
    tell_owners(sync, head);
}

/* ---- failures ---- */

/* End the calls that have objected to this key; 0: to any. */
static void end_objected(tt_sync *sync, uint64_t id, const tt_head *head, tt_status status,
                         const char *text)
{
    tt_sum_call **link = &sync->sums.objected;
    while (*link != NULL) {
        tt_sum_call *call = *link;
        if (id != 0 && call->objected != id) {
            link = &call->next;
            continue;
        }
        *link = call->next;
        sync->pending--;
        if (head != NULL) {
            call->name->generation = head->round;
        }
        if (call->name->key != NULL) {
            call->name->key->status = status; /* nothing of it is open */
        }
        call_over(sync, call, status, text);
    }
}

void tt_sum_failed(tt_sync *sync, tt_worker_key *key, const tt_head *head, const char *text)
{
    const tt_status status = (tt_status)(int64_t)head->argument;
    end_objected(sync, head->op, head, status, text);
    if (key == NULL || key->status < 0 || key->sum->status < 0) {
        return;
    }
    tt_sum_name *name = key->sum;
    const tt_sum_call *call = name->current;
    name->generation = head->round;
    if (call != NULL && call->number > head->descriptor) {
        tt_worker_fail_key(sync, key, status, text);
        return;
    }
    name->status = status; /* of the call that comes next */
    copy_text(name->error, sizeof(name->error), text);
}

/* Does the key exchange parts with this rank? */
static bool has_part_at(const tt_sync *sync, const tt_worker_key *key, uint32_t rank,
                        bool is_awaited)
{
    bool has = false;
    for (uint32_t i = 0; i < key->part_count; i++) {
        has = has ||
              (tt_worker_peer(sync, key, i) == rank && (key->parts[i].is_awaited || !is_awaited));
    }
    return has;
}

void tt_sum_owner_left(tt_sync *sync, uint32_t owner)
{
    tt_text text = {0};
    const uint32_t rank = tt_split_rank(&sync->sum_split, owner);
    tell_left(sync, owner, &text);
    end_objected(sync, 0, NULL, TT_ERR_PEER_LEFT, text.bytes); /* it may have been the judge */
    for (uint32_t i = 0; i < SUM_BUCKETS; i++) {
        for (tt_sum_name *name = sync->sums.buckets[i]; name != NULL; name = name->next) {
            tt_worker_key *key = name->key;
            if (key == NULL || key->status < 0 || name->status < 0) {
                continue;
            }
            if (has_part_at(sync, key, rank, true) || !key->is_added) {
                tt_worker_fail_key(sync, key, TT_ERR_PEER_LEFT, text.bytes);
            } else if (has_part_at(sync, key, rank, false)) {
                name->status = TT_ERR_PEER_LEFT;
                copy_text(name->error, sizeof(name->error), text.bytes);
            }
        }
    }
}

/* Calls that have a key have ended with it. */
void tt_sum_fail_all(tt_sync *sync, tt_status status, const char *text)
{
    tt_sums *sums = &sync->sums;
    end_objected(sync, 0, NULL, status, text);
    if (is_handed_over(sync)) {
        tt_handover_fail_all(sync, status, text);
    }
    for (uint32_t i = 0; i < SUM_BUCKETS; i++) {
        for (tt_sum_name *name = sums->buckets[i]; name != NULL; name = name->next) {
            while (name->waiting.first != NULL) {
                tt_sum_call *call = take_first(name);
                TT_ASSERT(name->current == NULL);
                name->current = call;
                sync->pending--;
                call_over(sync, call, status, text);
            }
        }
    }
    while (sums->held != NULL) {
        tt_request *request = sums->held;
        sums->held = request->next_later;
        sync->pending--;
        refuse(request, status, text);
    }
    sums->held_last = NULL;
}

/* ---- for the handover ---- */

/* Has a part of the call's sum come, or begun to come? */
static bool is_touched(const tt_sum_name *name)
{
    const tt_worker_key *key = name->key;
    const tt_sum_call *call = name->current;
    bool is_touched = false;
    if (call == NULL || key == NULL || key->queue.first != &call->push) {
        return false; /* it objects, or adds its key */
    }
    for (uint32_t i = 0; i < key->part_count; i++) {
        is_touched = is_touched || key->parts[i].is_arriving;
    }
    return is_touched || call->push.open < key->part_count;
}

uint64_t tt_sum_ended(const tt_sync *sync, const tt_sum_name *name)
{
    const tt_sums *sums = &sync->sums;
    const bool is_joining = sums->join != NULL || name->joins < sums->joins;
    if (is_joining) {
        return name->made;
    }
    if (name->status < 0) { /* the sum after the current one has failed */
        return name->ended + (name->current != NULL ? 2 : 1);
    }
    return name->ended + (is_touched(name) && !TT_PLANT(HANDOVER_REPEATS_TOUCHED) ? 1 : 0);
}

void tt_sum_set_aside(tt_sync *sync)
{
    tt_sums *sums = &sync->sums;
    TT_ASSERT(is_handed_over(sync));
    sums->ready = NULL;
    sums->objected = NULL; /* they stay the current ones of their names */
    for (uint32_t i = 0; i < SUM_BUCKETS; i++) {
        for (tt_sum_name *name = sums->buckets[i]; name != NULL; name = name->next) {
            name->is_ready = false;
            if (name->key != NULL) {
                tt_worker_fail_key(sync, name->key, TT_ERR_PEER_DOWN, "");
            }
        }
    }
}

tt_request *tt_sum_take_out(tt_sync *sync, tt_sum_name *name, uint64_t *ordinal_out)
{
    tt_sum_call *call = name->current;
    TT_ASSERT(is_handed_over(sync));
    if (call == NULL && name->waiting.first != NULL) {
        call = take_first(name);
    }
    if (call == NULL) {
        return NULL;
    }
    TT_ASSERT(sync->pending > 0);
    sync->pending--;
    name->current = NULL;
    *ordinal_out = call->ordinal;
    call->next = sync->sums.spare;
    sync->sums.spare = call;
    return call->request;
}

void tt_sum_release_all(tt_sync *sync)
{
    tt_sums *sums = &sync->sums;
    for (uint32_t i = 0; i < SUM_BUCKETS; i++) {
        while (sums->buckets[i] != NULL) {
            name_release(sync, sums->buckets[i]);
        }
    }
    while (sums->spare != NULL) {
        tt_sum_call *call = sums->spare;
        sums->spare = call->next;
        tt_platform_release(sync->platform, call, sizeof(*call));
    }
    tt_handover_release(sync);
}
