/* SPDX-License-Identifier: Apache-2.0
 *
 * sum_run.c - one seed of named sums that owners make: drawn, played, judged; see store_run.h.
 *
 * Workers call the same tensors in orders of their own, several calls of a name in flight. Some
 * calls differ between workers, one worker objects to some, lengths change, and workers join after
 * different numbers of calls. Control's part of a join is played here, and that of a collective:
 * after the death of a server the workers make the sums. Judged:
 *
 *   values   every sum has the bits of the workers' values, added in their order: those of a host
 *            first, then hosts
 *   errors   a call that must fail does so on every worker that makes it, with one text, and fails
 *            no other; else an error names a process that is gone
 *   servers  after the death of one, all workers go on. Their collectives match calls of one
 *            number, of all workers that make it, with inputs that nothing was stored to
 *   bytes    a host with others beside it sends and receives each byte of a sum once at most
 *   ends     every call and join of a live worker ends */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "kernel/hash64.h"
#include "store/store_run.h"
#include "sync/sync_wire.h"

enum { ROUNDS_MAX = 3, OCCURRENCES_MAX = 4, CALLS_MAX = TENSORS_MAX * OCCURRENCES_MAX };

typedef enum call_kind { CALL_GOOD, CALL_DIFFERS, CALL_OBJECTS } call_kind;

/* One occurrence of a name in a round. */
typedef struct sum_plan {
    call_kind kind;
    uint32_t culprit; /* a worker that differs, or the one that objects */
    uint64_t count;
    bool has_text;
    char text[TT_SYNC_ERROR_BYTES];
} sum_plan;

typedef struct sum_play sum_play;
typedef struct summer summer;

typedef struct sum_call sum_call;

struct sum_call {
    tt_request request;
    summer *own;
    uint32_t tensor, occurrence, round;
    float *values;
    uint64_t count;
    sum_call *next; /* in a queue of collectives */
};

struct summer {
    sum_play *all;
    uint32_t rank, round;
    tt_sync *sync;
    tt_sync_request open;
    tt_request join;
    sum_call calls[CALLS_MAX];
    uint32_t next[TENSORS_MAX]; /* occurrence to be made */
    uint32_t open_calls, made;
    bool is_joining, has_joined, is_over, is_broken, is_absent;
    sum_call *queues[TENSORS_MAX]; /* of the workers' collectives */
};

struct sum_play {
    const scene *drawn;
    tt_sim *sim;
    tt_random random;
    uint32_t hosts[WORKERS_MAX]; /* of workers */
    uint32_t host_count;
    bool is_called[ROUNDS_MAX][WORKERS_MAX][TENSORS_MAX][OCCURRENCES_MAX]; /* by a host */
    uint64_t allowed[WORKERS_MAX]; /* bytes of the sums that a host has called, */
    uint64_t pushed[WORKERS_MAX], pulled[WORKERS_MAX]; /* sent to other hosts and received */
    const tt_platform_ops *plain_ops;
    tt_platform_ops counting_ops;
    uint32_t rounds;
    bool joins[ROUNDS_MAX]; /* the round ends in a join */
    bool waits[ROUNDS_MAX]; /* a worker joins when its calls are over */
    uint32_t ends[ROUNDS_MAX][WORKERS_MAX][TENSORS_MAX];
    sum_plan plans[ROUNDS_MAX][TENSORS_MAX][OCCURRENCES_MAX];
    summer workers[PROCESSES_MAX];
    damage done;
    uint32_t dead_server;
    bool is_ending, is_verbose;
    store_result result;
};

__attribute__((format(printf, 2, 3))) static void blame(sum_play *all, const char *format, ...)
{
    va_list arguments;
    if (all->result.is_good) {
        all->result.is_good = false;
        va_start(arguments, format);
        (void)vsnprintf(all->result.reason, sizeof(all->result.reason), format, arguments);
        va_end(arguments);
    }
}

/* ---- drawing ---- */

static uint64_t draw_count(sum_play *all)
{
    static const uint64_t counts[] = {0, 1, 7, 300, 20000, 70000};
    return counts[tt_random_below(&all->random, TT_ARRAY_COUNT(counts))];
}

/* Then the workers may have to make its sums: a join waits for calls that wait for others of their
 * name, as a program may that waits for them itself. */
static bool can_lose_server(const scene *drawn)
{
    bool can = false;
    for (uint32_t i = 0; i < drawn->faults; i++) {
        const fault *one = &drawn->fault[i];
        const bool is_fatal = one->kind == FAULT_KILL || one->kind == FAULT_SEVER;
        can = can || (is_fatal && (one->rank >= drawn->workers || one->other >= drawn->workers));
    }
    return can;
}

static void draw_round(sum_play *all, uint32_t round)
{
    const scene *drawn = all->drawn;
    const bool may_wait = can_lose_server(drawn);
    all->joins[round] = tt_random_below(&all->random, 2) == 0;
    all->waits[round] = tt_random_below(&all->random, 2) == 0;
    for (uint32_t tensor = 0; tensor < drawn->tensors; tensor++) {
        uint32_t least = OCCURRENCES_MAX;
        for (uint32_t i = 0; i < drawn->workers; i++) {
            const uint32_t drawn_end = (uint32_t)tt_random_below(&all->random, OCCURRENCES_MAX + 1);
            /* Two that wait for each other's join would wait for ever: of all tensors, the same one
             * makes fewer calls. */
            const bool waits = all->waits[round] || may_wait;
            const uint32_t end = waits && tensor > 0 ? all->ends[round][i][0] : drawn_end;
            all->ends[round][i][tensor] = all->joins[round] ? end : OCCURRENCES_MAX;
            least = (uint32_t)tt_min_u64(least, all->ends[round][i][tensor]);
        }
        uint64_t count = draw_count(all);
        for (uint32_t k = 0; k < OCCURRENCES_MAX; k++) {
            sum_plan *plan = &all->plans[round][tensor][k];
            const uint64_t kind = tt_random_below(&all->random, 12);
            count = tt_random_below(&all->random, 4) == 0 ? draw_count(all) : count;
            plan->count = count;
            plan->culprit = (uint32_t)tt_random_below(&all->random, drawn->workers);
            plan->kind = k >= least || kind > 1 ? CALL_GOOD
                         : kind == 1            ? CALL_OBJECTS
                         : drawn->workers > 1   ? CALL_DIFFERS
                                                : CALL_GOOD;
        }
    }
}

/* From numbers of its own. Half the seeds have all workers on one host. */
static void draw_hosts(sum_play *all)
{
    tt_random random;
    uint32_t hosts = 0;
    tt_random_init(&random, all->drawn->seed, 92);
    const bool is_one = tt_random_below(&random, 2) == 0;
    all->host_count = 1;
    for (uint32_t i = 0; i < all->drawn->workers && !is_one; i++) {
        all->hosts[i] = (uint32_t)tt_random_below(&random, tt_min_u64(hosts + 1, 3));
        hosts = (uint32_t)tt_max_u64(hosts, all->hosts[i] + 1);
        all->host_count = hosts;
    }
}

static float value_at(const sum_call *call, uint32_t rank, uint64_t index)
{
    const uint64_t where[] = {rank, call->own->round, call->tensor, call->occurrence, index};
    return (float)(tt_hash64(where, sizeof(where), 5) % 20001) / 1024.0F - 9.0F;
}

/* ---- judging ---- */

/* The sum of a host; false: none of its workers takes part. */
static bool sum_host(const sum_call *call, uint32_t host, uint64_t index, float *sum_out)
{
    const sum_play *all = call->own->all;
    bool is_any = false;
    for (uint32_t rank = 0; rank < all->drawn->workers; rank++) {
        if (all->hosts[rank] == host &&
            call->occurrence < all->ends[call->own->round][rank][call->tensor]) {
            const float value = value_at(call, rank, index);
            *sum_out = is_any ? *sum_out + value : value;
            is_any = true;
        }
    }
    return is_any;
}

static float sum_at(const sum_call *call, uint64_t index)
{
    float wanted = 0, sum = 0;
    bool is_any = false;
    for (uint32_t host = 0; host < call->own->all->drawn->workers; host++) {
        if (sum_host(call, host, index, &sum)) {
            wanted = is_any ? wanted + sum : sum;
            is_any = true;
        }
    }
    return wanted;
}

static void judge_values(const sum_call *call)
{
    const summer *own = call->own;
    sum_play *all = own->all;
    for (uint64_t i = 0; i < call->count; i += 1 + call->count / 64) {
        const float wanted = sum_at(call, i);
        if (call->values[i] != wanted) {
            blame(all, "rank %u, round %u: sum %u of t%u has %g, not %g, at %" PRIu64, own->rank,
                  own->round, call->occurrence, call->tensor, (double)call->values[i],
                  (double)wanted, i);
            return;
        }
    }
    all->result.reads++;
}

static bool names_the_dead(const sum_play *all, const char *text)
{
    bool is_named = false;
    for (uint32_t rank = 0; rank < all->drawn->sim.size; rank++) {
        char words[32];
        (void)snprintf(words, sizeof(words), "rank %u", rank);
        is_named = is_named || ((all->done.is_killed[rank] || all->done.is_severed[rank]) &&
                                strstr(text, words) != NULL);
    }
    return is_named;
}

static bool is_lost(const tt_request *request)
{
    return strstr(request->error, "is gone, and with it a part") != NULL;
}

static void judge_end_of(const sum_call *call)
{
    const summer *own = call->own;
    sum_play *all = own->all;
    sum_plan *plan = &all->plans[own->round][call->tensor][call->occurrence];
    const tt_request *request = &call->request;
    if (request->status == TT_OK) {
        if (plan->kind != CALL_GOOD) {
            blame(all, "rank %u, round %u: sum %u of t%u did not fail", own->rank, own->round,
                  call->occurrence, call->tensor);
        } else {
            judge_values(call);
        }
    } else if (request->status == TT_ERR_PEER_DOWN && names_the_dead(all, request->error)) {
        all->result.lost += is_lost(request) ? 1 : 0;
    } else if (plan->kind == CALL_GOOD) {
        blame(all, "rank %u, round %u: sum %u of t%u failed: %s", own->rank, own->round,
              call->occurrence, call->tensor, request->error);
    } else if (!plan->has_text) {
        plan->has_text = true;
        memcpy(plan->text, request->error, sizeof(plan->text));
    } else if (strcmp(plan->text, request->error) != 0) {
        blame(all, "two texts of one failure: %.90s / %.90s", plan->text, request->error);
    }
}

/* ---- bytes between hosts ---- */

static sum_play *playing; /* platforms have no room for it */

/* A server is on a host of its own. */
static uint32_t host_of(const sum_play *all, uint32_t rank)
{
    return rank < all->drawn->workers ? all->hosts[rank] : WORKERS_MAX + rank;
}

static tt_status counting_send(tt_platform *platform, const tt_send *send)
{
    sum_play *all = playing;
    uint32_t rank = 0;
    while (tt_sim_platform(all->sim, rank) != platform) {
        rank++;
    }
    const uint32_t from = host_of(all, rank), to = host_of(all, send->peer);
    if (from != to && send->head->kind == TT_SYNC_PUSH) {
        all->pushed[from] += send->head->payload_bytes;
    } else if (from != to && send->head->kind == TT_SYNC_VALUE) {
        all->pulled[to] += send->head->payload_bytes;
    }
    return all->plain_ops->send(platform, send);
}

static void count_sends(sum_play *all, uint32_t rank)
{
    tt_platform *platform = tt_sim_platform(all->sim, rank);
    playing = all;
    all->plain_ops = rank == 0 ? platform->ops : all->plain_ops;
    all->counting_ops = *all->plain_ops;
    all->counting_ops.send = counting_send;
    platform->ops = &all->counting_ops;
}

static void allow(sum_play *all, const summer *own, uint32_t tensor, uint32_t occurrence)
{
    const uint32_t host = all->hosts[own->rank];
    bool *is_called = &all->is_called[own->round][host][tensor][occurrence];
    if (!*is_called) {
        *is_called = true;
        all->allowed[host] +=
            (all->plans[own->round][tensor][occurrence].count + 3) * sizeof(float);
    }
}

static void judge_bytes(sum_play *all)
{
    for (uint32_t host = 0; host < all->host_count && all->host_count > 1; host++) {
        if (all->pushed[host] > all->allowed[host] || all->pulled[host] > all->allowed[host]) {
            blame(all, "host %u sent %" PRIu64 " and received %" PRIu64 " bytes of %" PRIu64, host,
                  all->pushed[host], all->pulled[host], all->allowed[host]);
        }
    }
}

/* ---- programs ---- */

static void proceed(void *argument);

static void later(summer *own, uint64_t most_ns)
{
    sum_play *all = own->all;
    tt_sim_call(all->sim, own->rank, tt_sim_now(all->sim) + tt_random_below(&all->random, most_ns),
                proceed, own);
}

static void tell(const sum_call *call, const char *what)
{
    const sum_play *all = call->own->all;
    if (all->is_verbose) {
        printf("%10" PRIu64 " rank %u %s sum %u of t%u, %" PRIu64 " elements, round %u\n",
               tt_sim_now(all->sim), call->own->rank, what, call->occurrence, call->tensor,
               call->count, call->own->round);
    }
}

/* ---- collectives of the workers ---- */

/* A worker that others cannot wait for; WORKERS_MAX: there is none. */
static uint32_t find_absent(const sum_play *all)
{
    uint32_t rank = 0;
    while (rank < all->drawn->workers && !all->done.is_killed[rank] &&
           !all->done.is_severed[rank] && !all->workers[rank].is_absent) {
        rank++;
    }
    return rank < all->drawn->workers ? rank : WORKERS_MAX;
}

static void collective_over(void *argument)
{
    sum_call *call = argument;
    call->request.finished(&call->request);
}

static void end_collective(sum_play *all, summer *own, uint32_t tensor, tt_status status,
                           const char *text)
{
    sum_call *call = own->queues[tensor];
    own->queues[tensor] = call->next;
    call->request.status = status;
    (void)snprintf(call->request.error, sizeof(call->request.error), "%s", text);
    tt_sim_call(all->sim, own->rank, tt_sim_now(all->sim) + tt_random_below(&all->random, 50000),
                collective_over, call);
}

/* Without one of the workers there are no collectives. */
static void fail_collectives(sum_play *all)
{
    const uint32_t absent = find_absent(all);
    char text[64];
    if (absent == WORKERS_MAX) {
        return;
    }
    for (uint32_t rank = 0; rank < all->drawn->workers; rank++) {
        summer *own = &all->workers[rank];
        for (uint32_t tensor = 0; tensor < TENSORS_MAX; tensor++) {
            while (own->queues[tensor] != NULL) {
                (void)snprintf(text, sizeof(text), "rank %u is down",
                               all->workers[absent].is_absent ? all->dead_server : absent);
                end_collective(all, own, tensor, TT_ERR_PEER_DOWN, text);
            }
        }
    }
}

/* Has control what it waits for? `first_out`: a call that takes part. */
static bool is_collective_ready(const sum_play *all, uint32_t tensor, const sum_call **first_out)
{
    *first_out = NULL;
    for (uint32_t rank = 0; rank < all->drawn->workers; rank++) {
        const sum_call *call = all->workers[rank].queues[tensor];
        *first_out = *first_out == NULL ? call : *first_out;
    }
    bool is_ready = *first_out != NULL;
    for (uint32_t rank = 0; rank < all->drawn->workers && is_ready; rank++) {
        const summer *own = &all->workers[rank];
        is_ready =
            own->queues[tensor] != NULL || (own->has_joined && own->round == (*first_out)->round);
    }
    return is_ready;
}

/* Do the calls that match belong together, and is none missing? */
static void judge_match(sum_play *all, uint32_t tensor, const sum_call *first)
{
    for (uint32_t rank = 0; rank < all->drawn->workers; rank++) {
        const sum_call *call = all->workers[rank].queues[tensor];
        if (call == NULL && first->occurrence < all->ends[first->round][rank][tensor]) {
            blame(all, "the workers' sum %u of t%u, round %u, leaves out rank %u",
                  first->occurrence, tensor, first->round, rank);
        } else if (call != NULL &&
                   (call->occurrence != first->occurrence || call->round != first->round)) {
            blame(all, "sum %u of t%u, round %u, is matched with sum %u, round %u, of rank %u",
                  first->occurrence, tensor, first->round, call->occurrence, call->round, rank);
        }
        for (uint64_t i = 0; call != NULL && i < call->count; i++) {
            if (call->values[i] != value_at(call, rank, i)) {
                blame(all, "input of sum %u of t%u was overwritten on rank %u", call->occurrence,
                      tensor, rank);
                return;
            }
        }
    }
}

static void write_sum(const sum_call *call)
{
    for (uint64_t i = 0; i < call->count; i++) {
        call->values[i] = sum_at(call, i);
    }
}

static void run_collective(sum_play *all, uint32_t tensor, const sum_call *first)
{
    const bool is_good = all->plans[first->round][tensor][first->occurrence].kind == CALL_GOOD;
    judge_match(all, tensor, first);
    for (uint32_t rank = 0; rank < all->drawn->workers; rank++) {
        summer *own = &all->workers[rank];
        if (own->queues[tensor] == NULL) {
            continue;
        }
        if (is_good) {
            write_sum(own->queues[tensor]);
        }
        end_collective(all, own, tensor, is_good ? TT_OK : TT_ERR_MISMATCH,
                       is_good ? "" : "control found a rank that differs or objects");
    }
}

static void run_collectives(sum_play *all)
{
    const sum_call *first;
    fail_collectives(all);
    for (uint32_t tensor = 0; tensor < all->drawn->tensors; tensor++) {
        while (is_collective_ready(all, tensor, &first)) {
            run_collective(all, tensor, first);
        }
    }
}

static void joined(summer *own);

/* tt_sync_listener.submit */
static void submit_collective(void *owner, tt_request *request)
{
    summer *own = owner;
    if (request->is_join) {
        joined(own);
        return;
    }
    sum_call *call = TT_CONTAINER_OF(request, sum_call, request);
    sum_call **link = &own->queues[call->tensor];
    tell(call, "collectively calls");
    if (*link != NULL) {
        blame(own->all, "rank %u submits sum %u of t%u, round %u, before the one before it is over",
              own->rank, call->occurrence, call->tensor, call->round);
    }
    while (*link != NULL) {
        link = &(*link)->next;
    }
    call->next = NULL;
    *link = call;
    run_collectives(own->all);
}

static void call_finished(tt_request *request)
{
    sum_call *call = request->owner;
    summer *own = call->own;
    own->open_calls--;
    tell(call, request->status == TT_OK ? "has" : request->error);
    if (!own->all->is_ending) {
        judge_end_of(call);
        own->is_broken =
            own->is_broken || (request->status == TT_ERR_PEER_DOWN && !is_lost(request));
    }
    free(call->values);
    call->values = NULL;
    if (own->open_calls == 0 && !own->all->is_ending) {
        later(own, 100000);
    }
}

/* Does the worker differ in a call, or object to it? Several may differ, not all of them. */
static bool is_culprit_of(const sum_play *all, const sum_call *call, const sum_plan *plan)
{
    const uint32_t rank = call->own->rank;
    const uint64_t where[] = {all->drawn->seed, call->own->round, call->tensor, call->occurrence};
    const uint64_t drawn = tt_hash64(where, sizeof(where), 6);
    const bool is_other = plan->kind == CALL_DIFFERS && (drawn >> rank & 1) != 0 &&
                          rank != (plan->culprit + 1) % all->drawn->workers;
    return rank == plan->culprit || is_other;
}

static void make_call(summer *own, uint32_t tensor)
{
    static const char *const names[TENSORS_MAX] = {"t0", "t1", "t2"};
    sum_play *all = own->all;
    const uint32_t occurrence = own->next[tensor]++;
    const sum_plan *plan = &all->plans[own->round][tensor][occurrence];
    sum_call *call = &own->calls[own->made++];
    allow(all, own, tensor, occurrence);
    *call = (sum_call){.own = own, .tensor = tensor, .occurrence = occurrence, .round = own->round};
    const bool is_culprit = is_culprit_of(all, call, plan);
    call->count = plan->count + (plan->kind == CALL_DIFFERS && is_culprit ? 3 : 0);
    call->values = malloc((call->count + 1) * sizeof(float));
    for (uint64_t i = 0; i < call->count; i++) {
        call->values[i] = value_at(call, own->rank, i);
    }
    tt_request *request = &call->request;
    request->collective = TT_ALLREDUCE;
    request->dtype = TT_F32;
    request->redop = TT_SUM;
    request->count = call->count;
    request->prescale = request->postscale = 1.0;
    request->name = names[tensor];
    request->input = request->output = call->values;
    request->urgency = (int32_t)tt_random_below(&all->random, 5);
    request->finished = call_finished;
    request->owner = call;
    if (plan->kind == CALL_OBJECTS && is_culprit) {
        request->objection = TT_ERR_BAD_ARGUMENT;
        (void)snprintf(request->error, sizeof(request->error), "no such layer");
    }
    own->open_calls++;
    tell(call, plan->kind == CALL_GOOD ? "calls" : "calls, to fail,");
    tt_sync_sum(own->sync, request);
}

/* A tensor that has calls left in this round; TENSORS_MAX: none. */
static uint32_t draw_tensor(const summer *own)
{
    sum_play *all = own->all;
    const uint32_t count = all->drawn->tensors;
    const uint32_t first = (uint32_t)tt_random_below(&all->random, count);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t tensor = (first + i) % count;
        if (own->next[tensor] < all->ends[own->round][own->rank][tensor]) {
            return tensor;
        }
    }
    return TENSORS_MAX;
}

static void next_round(summer *own)
{
    own->round++;
    own->made = 0;
    own->is_joining = own->has_joined = false;
    memset(own->next, 0, sizeof(own->next));
    own->is_over = own->round == own->all->rounds;
    own->all->result.finished += own->is_over ? 1 : 0;
}

static void join_finished(tt_request *request)
{
    summer *own = request->owner;
    if (own->open_calls == 0) {
        next_round(own);
    }
    if (!own->all->is_ending) {
        later(own, 100000);
    }
}

/* Control ends it when all live workers have joined. */
static void end_join(void *argument)
{
    summer *own = argument;
    own->join.finished(&own->join);
}

/* Control has the join. */
static void joined(summer *own)
{
    sum_play *all = own->all;
    bool all_join = true;
    own->has_joined = true;
    run_collectives(all);
    for (uint32_t rank = 0; rank < all->drawn->workers; rank++) {
        const summer *other = &all->workers[rank];
        all_join = all_join && other->round == own->round && other->has_joined;
    }
    for (uint32_t rank = 0; rank < all->drawn->workers && all_join; rank++) {
        tt_sim_call(all->sim, rank, tt_sim_now(all->sim) + tt_random_below(&all->random, 200000),
                    end_join, &all->workers[rank]);
    }
}

static void join(summer *own)
{
    const sum_play *all = own->all;
    own->is_joining = true;
    if (all->is_verbose) {
        printf("%10" PRIu64 " rank %u joins\n", tt_sim_now(all->sim), own->rank);
    }
    own->join = (tt_request){.is_join = true, .finished = join_finished, .owner = own};
    if (!tt_sync_join(own->sync, &own->join)) {
        joined(own);
    }
}

static void proceed(void *argument)
{
    summer *own = argument;
    sum_play *all = own->all;
    if (own->is_over || own->is_broken || all->is_ending) {
        return;
    }
    const uint32_t tensor = own->is_joining ? TENSORS_MAX : draw_tensor(own);
    if (tensor < TENSORS_MAX) {
        make_call(own, tensor);
        later(own, tt_random_below(&all->random, 3) == 0 ? 300000 : 3000);
    } else if (own->is_joining) {
        if (own->join.finished == join_finished && own->open_calls == 0) {
            next_round(own); /* the join was over first */
            later(own, 100000);
        }
    } else if (all->joins[own->round] && (!all->waits[own->round] || own->open_calls == 0)) {
        join(own);
    } else if (!all->joins[own->round] && own->open_calls == 0) {
        next_round(own);
        later(own, 100000);
    }
}

static void opened(tt_sync_request *request)
{
    summer *own = request->owner;
    if (request->status == TT_OK) {
        later(own, 100000);
    } else if (!own->all->is_ending) {
        own->is_broken = own->is_absent = true;
        run_collectives(own->all);
    }
}

static void start(void *argument)
{
    summer *own = argument;
    own->open = (tt_sync_request){.verb = TT_STORE_OPEN,
                                  .policy = "bulk",
                                  .update = "sum",
                                  .is_sums = true,
                                  .finished = opened,
                                  .owner = own};
    tt_sync_submit(own->sync, &own->open);
}

/* ---- a play ---- */

static void drop_report(void *owner, int level, const char *text)
{
    (void)owner, (void)level, (void)text;
}

static void process_make(sum_play *all, uint32_t rank)
{
    const scene *drawn = all->drawn;
    summer *own = &all->workers[rank];
    const tt_roles roles = {.rank = rank,
                            .workers = drawn->workers,
                            .servers = drawn->servers,
                            .epoch = 3,
                            .hosts = all->hosts};
    const tt_sync_listener listener = {
        .owner = own, .report = drop_report, .submit = submit_collective};
    own->all = all;
    own->rank = rank;
    count_sends(all, rank);
    const tt_status status = tt_sync_create(tt_sim_platform(all->sim, rank), &roles,
                                            store_no_collectives(), &listener, &own->sync);
    TT_ASSERT(status == TT_OK);
    tt_sim_attach(all->sim, rank, tt_sync_machine(own->sync));
    if (rank < drawn->workers) {
        tt_sim_call(all->sim, rank, tt_random_below(&all->random, 500000), start, own);
    }
}

/* For texts of workers that could not begin. */
static void note_server(sum_play *all)
{
    for (uint32_t rank = all->drawn->workers; rank < all->drawn->sim.size; rank++) {
        all->dead_server =
            all->done.is_killed[rank] || all->done.is_severed[rank] ? rank : all->dead_server;
    }
}

static void play_all(sum_play *all)
{
    enum { EVENTS_MAX = 4 * 1000 * 1000 };
    bool has_more = true;
    while (has_more && all->result.is_good) {
        const uint32_t gone = all->done.killed + all->done.severed;
        scene_apply_faults(all->drawn, all->sim, &all->done);
        if (all->done.killed + all->done.severed > gone) {
            note_server(all);
            run_collectives(all);
        }
        has_more = tt_sim_step(all->sim);
        if (tt_sim_events(all->sim) > EVENTS_MAX) {
            blame(all, "events never end");
        }
    }
}

static void judge_end(sum_play *all)
{
    const bool any_killed = find_absent(all) < WORKERS_MAX;
    for (uint32_t rank = 0; rank < all->drawn->workers; rank++) {
        const summer *own = &all->workers[rank];
        if (all->done.is_killed[rank]) {
            continue;
        }
        if (own->open_calls > 0) {
            blame(all, "rank %u hangs in round %u with %u calls", rank, own->round,
                  own->open_calls);
        } else if (!own->is_over && !any_killed) {
            blame(all, "rank %u hangs in round %u", rank, own->round);
        }
    }
}

static void process_end(sum_play *all, uint32_t rank)
{
    summer *own = &all->workers[rank];
    all->is_ending = true;
    tt_sync_shut_down(own->sync, TT_ERR_SHUT_DOWN, "over");
    tt_sync_destroy(own->sync);
}

store_result sum_run(const scene *drawn, bool is_verbose)
{
    sum_play *all = calloc(1, sizeof(*all));
    all->drawn = drawn;
    all->is_verbose = is_verbose;
    all->result = (store_result){.is_good = true};
    tt_random_init(&all->random, drawn->seed, 91);
    all->rounds = 1 + (uint32_t)tt_random_below(&all->random, ROUNDS_MAX);
    for (uint32_t i = 0; i < all->rounds; i++) {
        draw_round(all, i);
    }
    draw_hosts(all);
    all->sim = tt_sim_create(&drawn->sim);
    for (uint32_t rank = 0; rank < drawn->sim.size; rank++) {
        process_make(all, rank);
    }
    play_all(all);
    judge_end(all);
    judge_bytes(all);
    all->result.events = tt_sim_events(all->sim);
    all->result.hash = tt_sim_hash(all->sim);
    for (uint32_t rank = 0; rank < drawn->sim.size; rank++) {
        process_end(all, rank);
    }
    if (!tt_sim_destroy(all->sim)) {
        blame(all, "memory is left behind");
    }
    const store_result result = all->result;
    free(all);
    return result;
}
