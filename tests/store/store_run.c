/* SPDX-License-Identifier: Apache-2.0
 *
 * store_run.c - the workers' programs, played on the simulated cluster; see store_run.h. */
#include "store/store_run.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "kernel/hash64.h"

/* Workers ask whom they wait for, so often: a scene that hangs must come to an end. */
enum { STALL_NS = 3 * 1000 * 1000, ALARMS_MAX = 40 };

typedef enum phase {
    PHASE_OPEN,
    PHASE_ADD,
    PHASE_PULL,
    PHASE_PUSH,
    PHASE_PUSH_PULL,
    PHASE_CLOCK,
    PHASE_SET,
    PHASE_COUNT,
    PHASE_CLOSE,
    PHASE_OVER
} phase;

typedef struct worker worker;

typedef struct tensor_state {
    tt_sync_request request;
    void *pushed, *read;
    uint64_t *rows;
    uint64_t submitted;                  /* pushes */
    uint64_t uncounted;                  /* of them */
    uint32_t call;                       /* iteration of the last call */
    uint32_t wanted;                     /* by the last call: the sum of this iteration */
    bool is_lost;                        /* the last call on it has failed */
    bool has_failed[ITERATIONS_MAX + 1]; /* iterations */
    uint64_t (*seen)[WORKERS_MAX];       /* [parts] pushes of each worker in the last value read */
} tensor_state;

typedef struct play play;

struct worker {
    play *all;
    uint32_t rank;
    tt_sync *sync;
    phase phase;
    uint32_t iteration; /* completed */
    uint32_t clocked;   /* submitted as completed */
    uint32_t open;      /* requests */
    uint32_t alarms;    /* that were set */
    uint32_t naps;      /* in which it gave way */
    bool is_broken;     /* a request has failed: it stops */
    bool has_set[SETS_MAX];
    phase after_set;
    tt_sync_request clock;
    tt_sync_counts counts;
    uint64_t pushes, pulls, late; /* calls that succeeded; pushes too late for a quorum */
    tensor_state tensors[TENSORS_MAX];
    uint32_t store;
};

struct play {
    const scene *drawn;
    tt_sim *sim;
    tt_split split;
    oracle *known;
    losses *losses;
    members *members;
    worker workers[PROCESSES_MAX]; /* servers have nothing but `sync` */
    damage done;
    tt_random random;
    bool is_verbose, is_ending;
    store_result result;
};

__attribute__((format(printf, 2, 3))) static void blame(play *all, const char *format, ...)
{
    va_list arguments;
    if (!all->result.is_good) {
        return;
    }
    all->result.is_good = false;
    va_start(arguments, format);
    (void)vsnprintf(all->result.reason, sizeof(all->result.reason), format, arguments);
    va_end(arguments);
}

/* ---- judging reads ---- */

static uint64_t counter_of(int64_t value, uint32_t rank)
{
    return (uint64_t)value >> (COUNTER_BITS * rank) & ((1 << COUNTER_BITS) - 1);
}

/* All elements of a part are the same; false: it is torn. */
static bool read_counters(const scene *drawn, const tt_split_part *part, const void *values,
                          int64_t *counters_out)
{
    const int64_t *integers = values;
    bool is_whole = true;
    if (drawn->dtype == TT_F32) {
        return coded_counters(drawn, part, values, counters_out);
    }
    for (uint64_t i = 1; i < part->bytes / 8; i++) {
        is_whole = is_whole && integers[i] == integers[0];
    }
    *counters_out = part->bytes > 0 ? integers[0] : 0;
    return is_whole;
}

/* All elements had the same pushes, with the same options. */
static void judge_uniform(worker *own, uint32_t tensor, const tt_split_part *part)
{
    const uint8_t *values = (const uint8_t *)own->tensors[tensor].read + part->first;
    for (uint64_t i = 4; i < part->bytes; i += 4) {
        if (memcmp(values, values + i, 4) != 0) {
            blame(own->all, "rank %u read a part of tensor %u whose elements differ", own->rank,
                  tensor);
            return;
        }
    }
}

/* A part of a counter: pushes of each worker that are in it. */
static void judge_counters(worker *own, uint32_t tensor, const tt_split_part *part,
                           uint64_t seen[WORKERS_MAX])
{
    play *all = own->all;
    const scene *drawn = all->drawn;
    const uint8_t *values = (const uint8_t *)own->tensors[tensor].read + part->first;
    const tt_sync_request *request = &own->tensors[tensor].request;
    const bool is_table = drawn->row_elements[tensor] > 0;
    rows_counts found = {.counters = 0};
    bool has_all = true;
    const uint64_t clock = own->iteration;
    const uint32_t quorum = drawn->policy.quorum;
    const uint64_t needed = quorum > 0 ? 0 : tt_policy_needs(&drawn->policy, clock);
    uint64_t total = 0;
    if (is_table ? !rows_counters(drawn, tensor, request, part, &found)
                 : !read_counters(drawn, part, values, &found.counters)) {
        blame(all, "rank %u read a torn part of tensor %u", own->rank, tensor);
        return;
    }
    for (uint32_t rank = 0; rank < drawn->workers && part->bytes > 0; rank++) {
        const worker *other = &all->workers[rank];
        const uint64_t count = counter_of(found.counters, rank);
        const bool is_live = !all->done.is_killed[rank];
        if (is_table ? !found.is_known[rank] : !coded_has_counter(drawn, part, rank)) {
            has_all = false;
            continue;
        }
        if (count > other->tensors[tensor].submitted) {
            blame(all, "rank %u read a push of rank %u twice", own->rank, rank);
        } else if (count < seen[rank]) {
            blame(all, "rank %u lost a push of rank %u that it had read", own->rank, rank);
        } else if (rank == own->rank &&
                   count + own->tensors[tensor].uncounted != own->tensors[tensor].submitted) {
            blame(all, "rank %u did not read its own push", own->rank);
        } else if (is_live && count < needed) {
            blame(all,
                  "rank %u at clock %" PRIu64 " read %" PRIu64 " pushes of rank %u, not %" PRIu64,
                  own->rank, clock, count, rank, needed);
        }
        seen[rank] = count;
        total += count;
    }
    if (quorum > 0 && part->bytes > 0 && all->done.killed == 0 && has_all &&
        drawn->codec_text == NULL && (total < quorum * clock || total % quorum != 0)) {
        blame(all, "rank %u at clock %" PRIu64 " read %" PRIu64 " pushes of a quorum of %u",
              own->rank, clock, total, quorum);
    }
}

static void judge_read(worker *own, uint32_t tensor)
{
    play *all = own->all;
    const scene *drawn = all->drawn;
    tensor_state *state = &own->tensors[tensor];
    const uint64_t bytes = drawn->counts[tensor] * tt_dtype_bytes(drawn->dtype);
    all->result.reads++;
    if (drawn->has_members) {
        const members_call call = {own->rank, tensor, state->call};
        const char *why = members_read(all->members, call, &state->request);
        if (why != NULL) {
            blame(all, "%s", why);
        }
        return;
    }
    if (!drawn->has_counters && !drawn->is_uniform) {
        const uint32_t version = own->iteration + (drawn->habit == HABIT_PUSH_PULL ? 1 : 0);
        if (drawn->can_lose && coded_applies(drawn, tensor)
                ? !losses_are_equal(all->losses, &all->done, tensor, version, state->read)
                : !rows_are_equal(drawn, tensor, &state->request,
                                  oracle_value(all->known, tensor, version))) {
            blame(all, "rank %u read other bits of tensor %u after %u iterations", own->rank,
                  tensor, version);
        }
        return;
    }
    char name[16];
    (void)snprintf(name, sizeof(name), "t%u", tensor);
    const uint64_t hash = tt_hash64(name, strlen(name), 0);
    tt_split_part parts[256];
    const tt_split split = coded_split(drawn, tensor);
    const uint32_t count = tt_split_cut(&split, hash, bytes, parts, TT_ARRAY_COUNT(parts));
    TT_ASSERT(count <= TT_ARRAY_COUNT(parts));
    for (uint32_t i = 0; i < count && drawn->is_uniform; i++) {
        judge_uniform(own, tensor, &parts[i]);
    }
    for (uint32_t i = 0; i < count && drawn->has_counters; i++) {
        judge_counters(own, tensor, &parts[i], state->seen[i]);
    }
}

/* An iteration may start: have the others completed enough? */
static void judge_clock(worker *own)
{
    play *all = own->all;
    const uint32_t quorum = all->drawn->policy.quorum;
    const uint64_t needed = tt_policy_needs(&all->drawn->policy, own->iteration);
    uint32_t ready = 0;
    for (uint32_t rank = 0; rank < all->drawn->workers; rank++) {
        const uint64_t completed = all->workers[rank].clocked;
        ready += completed >= needed ? 1 : 0;
        if (quorum == 0 && !all->done.is_killed[rank] && completed < needed) {
            blame(all, "rank %u started iteration %u when rank %u had completed %" PRIu64,
                  own->rank, own->iteration, rank, completed);
        }
    }
    if (all->done.killed == 0 && all->done.severed == 0 && ready < quorum) {
        blame(all, "rank %u started iteration %u when %u workers of a quorum of %u were there",
              own->rank, own->iteration, ready, quorum);
    }
}

static uint64_t part_count(const scene *drawn, uint32_t tensor)
{
    char name[16];
    const int length = snprintf(name, sizeof(name), "t%u", tensor);
    const uint64_t bytes = drawn->counts[tensor] * tt_dtype_bytes(drawn->dtype);
    const tt_split split = coded_split(drawn, tensor);
    return tt_split_cut(&split, tt_hash64(name, (size_t)length, 0), bytes, NULL, 0);
}

/* Own calls are counted exactly. Parts that owners have applied: all that must have been, and no
 * more than were pushed. */
static void judge_counts(worker *own)
{
    play *all = own->all;
    const scene *drawn = all->drawn;
    const tt_sync_counts *counts = &own->counts;
    const bool is_whole = all->done.killed == 0 && all->done.severed == 0;
    uint64_t applied = 0, least = 0, most = 0;
    for (uint32_t i = 0; i <= TT_SYNC_STALENESS_MAX; i++) {
        applied += counts->staleness[i];
    }
    for (uint32_t i = 0; i < drawn->tensors; i++) {
        const uint64_t parts = part_count(drawn, i);
        for (uint32_t rank = 0; rank < drawn->workers; rank++) {
            most += parts * all->workers[rank].tensors[i].submitted;
        }
        least += tt_policy_is_bulk(&drawn->policy) ? parts * own->iteration * drawn->workers
                                                   : parts * own->tensors[i].submitted;
    }
    least -= tt_min_u64(least, own->late * 256); /* a tensor has fewer parts */
    if (counts->pushes != own->pushes || counts->pulls != own->pulls ||
        counts->uncounted != own->late || counts->clock != own->iteration) {
        blame(all,
              "rank %u counted %" PRIu64 " pushes, %" PRIu64 " pulls, %" PRIu64
              " late, not %" PRIu64 ", %" PRIu64 ", %" PRIu64,
              own->rank, counts->pushes, counts->pulls, counts->uncounted, own->pushes, own->pulls,
              own->late);
    } else if (applied > most || (is_whole && applied < least)) {
        blame(all, "rank %u: owners applied %" PRIu64 " parts, not %" PRIu64 " to %" PRIu64,
              own->rank, applied, least, most);
    }
    if (drawn->policy.staleness == TT_STALENESS_ANY && /* I7 */
        counts->clock_waits + counts->pull_waits > 0) {
        blame(all, "rank %u waited under async: %" PRIu64 " clocks, %" PRIu64 " pulls", own->rank,
              counts->clock_waits, counts->pull_waits);
    }
    for (uint32_t rank = 0; rank < drawn->workers && drawn->policy.quorum == 0; rank++) {
        if (!all->done.is_killed[rank] && counts->least > all->workers[rank].clocked) {
            blame(all, "rank %u counted %" PRIu64 " iterations of all, rank %u has %u", own->rank,
                  counts->least, rank, all->workers[rank].clocked);
        }
    }
}

/* ---- programs ---- */

static void proceed(void *argument);

static void judge_error(worker *own, const tt_sync_request *request)
{
    play *all = own->all;
    char words[32];
    bool is_named = false;
    for (uint32_t rank = 0; rank < all->drawn->workers + all->drawn->servers; rank++) {
        (void)snprintf(words, sizeof(words), "(rank %u)", rank);
        is_named = is_named || ((all->done.is_killed[rank] || all->done.is_severed[rank]) &&
                                strstr(request->error, words) != NULL);
    }
    if (request->status != TT_ERR_PEER_DOWN || !is_named) {
        blame(all, "rank %u failed without a reason: %d %s", own->rank, (int)request->status,
              request->error);
    }
}

/* One less is open; the last one lets the program go on, after a while. */
static void release(worker *own)
{
    play *all = own->all;
    TT_ASSERT(own->open > 0);
    own->open--;
    if (own->open == 0 && own->phase != PHASE_OVER) {
        tt_sim_call(all->sim, own->rank,
                    tt_sim_now(all->sim) + tt_random_below(&all->random, 300000), proceed, own);
    }
}

/* A call on a bulk sum failed with a server. If that was an iteration, the next one works. */
static bool can_go_on(worker *own, tt_sync_request *request)
{
    play *all = own->all;
    const scene *drawn = all->drawn;
    bool has_owner = false;
    for (uint32_t i = 0; i < all->split.owners; i++) {
        const uint32_t rank = tt_split_rank(&all->split, i);
        has_owner = has_owner || (!all->done.is_killed[rank] &&
                                  (rank < drawn->workers || !all->done.is_severed[rank]));
    }
    if (drawn->has_members && strstr(request->error, "and with it") != NULL) {
        tensor_state *state = TT_CONTAINER_OF(request, tensor_state, request);
        state->is_lost = true;
        all->result.lost++;
        return true;
    }
    /* A server that has lost a worker may be the first to say so. */
    if (drawn->has_members || !drawn->can_lose || !has_owner ||
        strncmp(request->error, "worker", 6) == 0 || all->done.killed > all->done.killed_servers ||
        (request->verb != TT_STORE_PUSH && request->verb != TT_STORE_PULL &&
         request->verb != TT_STORE_PUSH_PULL)) {
        return false;
    }
    tensor_state *state = TT_CONTAINER_OF(request, tensor_state, request);
    state->is_lost = true;
    own->all->result.lost++;
    state->has_failed[state->wanted] = true;
    return true;
}

static void take_end(tt_sync_request *request)
{
    worker *own = request->owner;
    play *all = own->all;
    if (request->status == TT_OK) {
        const bool is_both = request->verb == TT_STORE_PUSH_PULL;
        own->pushes += request->verb == TT_STORE_PUSH || is_both ? 1 : 0;
        own->pulls += request->verb == TT_STORE_PULL || is_both ? 1 : 0;
        own->late += request->is_uncounted ? 1 : 0;
    }
    if (all->drawn->has_members && request != &own->clock && request->verb != TT_STORE_ADD) {
        const tensor_state *state = TT_CONTAINER_OF(request, tensor_state, request);
        const uint32_t tensor = (uint32_t)(state - own->tensors);
        members_ended(all->members, (members_call){own->rank, tensor, state->call}, request);
    }
    if (request->status == TT_OK && request->verb == TT_STORE_PUSH) {
        tensor_state *state = TT_CONTAINER_OF(request, tensor_state, request);
        const uint32_t tensor = (uint32_t)(state - own->tensors);
        if (request->is_uncounted) {
            state->uncounted++;
        } else if (coded_applies(all->drawn, tensor)) {
            state->uncounted = 0; /* error feedback has sent them with this one */
        }
    }
    if (request->status == TT_OK && request->verb == TT_STORE_CLOCK) {
        own->iteration = (uint32_t)request->clock;
        judge_clock(own);
    }
    if (request->status != TT_OK && !all->is_ending) {
        judge_error(own, request);
        own->is_broken = own->is_broken || !can_go_on(own, request);
    }
    release(own);
}

static void submit(worker *own, tt_sync_request *request, tt_sync_verb verb)
{
    own->open++;
    request->verb = verb;
    request->store = own->store;
    request->owner = own;
    request->finished = take_end;
    tt_sync_submit(own->sync, request);
}

static void submit_tensors(worker *own, tt_sync_verb verb)
{
    static const char *const names[TENSORS_MAX] = {"t0", "t1", "t2"};
    play *all = own->all;
    const scene *drawn = all->drawn;
    own->open++; /* until all are submitted */
    for (uint32_t i = 0; i < drawn->tensors; i++) {
        tensor_state *state = &own->tensors[i];
        const bool pushes = verb == TT_STORE_PUSH || verb == TT_STORE_PUSH_PULL;
        if (verb == TT_STORE_ADD) {
            oracle_first(drawn, i, state->pushed);
        } else if (pushes) {
            oracle_push(drawn, own->rank, i, own->iteration, state->pushed);
            state->submitted++;
        }
        state->is_lost = false;
        state->call = own->iteration;
        if (drawn->has_members && pushes) {
            members_pushed(all->members, (members_call){own->rank, i, own->iteration});
        }
        state->wanted = own->iteration - (verb == TT_STORE_PULL && own->iteration > 0 ? 1 : 0);
        state->request =
            (tt_sync_request){.name = names[i],
                              .dtype = drawn->dtype,
                              .count = drawn->counts[i],
                              .row_elements = drawn->row_elements[i],
                              .input = state->pushed,
                              .output = pushes && drawn->is_in_place ? state->pushed : state->read,
                              .urgency = (int32_t)i};
        if (verb != TT_STORE_ADD) {
            const rows_call call = {own->rank, i, own->iteration, !pushes};
            rows_choose(drawn, call, &state->request, state->rows, state->pushed);
        }
        submit(own, &state->request, verb);
    }
    release(own);
}

static void submit_clock(worker *own)
{
    own->clock = (tt_sync_request){.verb = TT_STORE_CLOCK};
    own->clocked = own->iteration + 1;
    submit(own, &own->clock, TT_STORE_CLOCK);
}

/* Does this worker set an option before this phase? Then it is submitted. */
static bool submit_set(worker *own, phase next)
{
    const scene *drawn = own->all->drawn;
    for (uint32_t i = 0; i < drawn->sets && (next == PHASE_PUSH || next == PHASE_PUSH_PULL); i++) {
        const set_call *one = &drawn->set[i];
        if (one->worker == own->rank && one->at == own->iteration && !own->has_set[i]) {
            own->has_set[i] = true;
            own->phase = PHASE_SET;
            own->after_set = next;
            own->clock = (tt_sync_request){.name = "lr",
                                           .value = (double)one->rate,
                                           .clock = one->is_now ? UINT64_MAX : one->from};
            submit(own, &own->clock, TT_STORE_SET);
            return true;
        }
    }
    return false;
}

/* The phase after this one. */
static phase next_phase(const worker *own)
{
    static const phase first[HABIT_COUNT_ALL] = {PHASE_PULL, PHASE_PUSH_PULL, PHASE_PUSH,
                                                 PHASE_PUSH_PULL};
    const scene *drawn = own->all->drawn;
    switch (own->phase) {
    case PHASE_OPEN:
        return PHASE_ADD;
    case PHASE_ADD:
        return first[drawn->habit];
    case PHASE_PULL:
        if (drawn->habit == HABIT_PULL_PUSH) {
            return PHASE_PUSH;
        }
        return own->iteration >= drawn->iterations ? PHASE_COUNT : PHASE_PUSH;
    case PHASE_PUSH:
    case PHASE_PUSH_PULL:
        if (drawn->habit == HABIT_TOGETHER) {
            return own->iteration >= drawn->iterations ? PHASE_COUNT : PHASE_PUSH_PULL;
        }
        return drawn->habit == HABIT_PUSH_CLOCK_PULL ? PHASE_PULL : PHASE_CLOCK;
    case PHASE_CLOCK:
        return own->iteration >= drawn->iterations ? PHASE_COUNT : first[drawn->habit];
    case PHASE_SET:
        return own->after_set;
    case PHASE_COUNT:
        return PHASE_CLOSE;
    case PHASE_CLOSE:
    case PHASE_OVER:
        break;
    }
    return PHASE_OVER;
}

/* The requests of a phase are over. */
static void conclude(worker *own)
{
    if (own->phase == PHASE_OPEN) {
        own->store = own->clock.store;
    } else if (own->phase == PHASE_PULL || own->phase == PHASE_PUSH_PULL) {
        for (uint32_t i = 0; i < own->all->drawn->tensors; i++) {
            if (!own->tensors[i].is_lost) {
                judge_read(own, i);
            }
        }
    } else if (own->phase == PHASE_COUNT) {
        judge_counts(own);
    }
}

/* I8: a worker that nobody is behind needs no more of the others than they have started. */
static const worker *find_least(const play *all)
{
    const worker *found = NULL;
    for (uint32_t i = 0; i < all->drawn->workers; i++) {
        const worker *one = &all->workers[i];
        bool is_least = one->open > 0 && !all->done.is_killed[i] &&
                        (one->phase == PHASE_PULL || one->phase == PHASE_CLOCK);
        for (uint32_t k = 0; k < all->drawn->workers; k++) {
            is_least =
                is_least && (all->done.is_killed[k] || one->clocked <= all->workers[k].clocked);
        }
        found = is_least ? one : found;
    }
    return found;
}

/* So it is served while they make no call. */
static bool gives_way(worker *own)
{
    enum { NAP_NS = 100000, NAPS_MAX = 2000 };
    play *all = own->all;
    const worker *least = all->drawn->gives_way ? find_least(all) : NULL;
    own->naps = least != NULL ? own->naps + 1 : 0;
    if (own->naps > NAPS_MAX) {
        blame(all, "rank %u at clock %u, which nobody is behind, waits for rank %u", least->rank,
              least->clocked, own->rank);
    } else if (least != NULL) {
        tt_sim_call(all->sim, own->rank, tt_sim_now(all->sim) + NAP_NS, proceed, own);
    }
    return least != NULL;
}

static void proceed(void *argument)
{
    worker *own = argument;
    play *all = own->all;
    if (gives_way(own)) {
        return;
    }
    if (!own->is_broken) {
        conclude(own);
    }
    own->phase = own->is_broken && own->phase < PHASE_CLOSE ? PHASE_CLOSE : next_phase(own);
    if (submit_set(own, own->phase)) {
        return;
    }
    if (all->is_verbose) {
        printf("%10" PRIu64 " rank %u phase %d iteration %u\n", tt_sim_now(all->sim), own->rank,
               (int)own->phase, own->iteration);
    }
    switch (own->phase) {
    case PHASE_ADD:
        submit_tensors(own, TT_STORE_ADD);
        break;
    case PHASE_PULL:
        submit_tensors(own, TT_STORE_PULL);
        break;
    case PHASE_PUSH:
        own->open++; /* until all are submitted */
        submit_tensors(own, TT_STORE_PUSH);
        if (all->drawn->habit == HABIT_PUSH_CLOCK_PULL) {
            submit_clock(own);
        }
        release(own);
        break;
    case PHASE_PUSH_PULL:
        own->open++;
        submit_tensors(own, TT_STORE_PUSH_PULL);
        if (all->drawn->habit == HABIT_TOGETHER) {
            submit_clock(own);
        }
        release(own);
        break;
    case PHASE_CLOCK:
        submit_clock(own);
        break;
    case PHASE_COUNT:
        own->clock = (tt_sync_request){.counts = &own->counts};
        submit(own, &own->clock, TT_STORE_COUNT);
        break;
    case PHASE_CLOSE:
        own->clock = (tt_sync_request){.verb = TT_STORE_CLOSE};
        submit(own, &own->clock, TT_STORE_CLOSE);
        break;
    case PHASE_OPEN:
    case PHASE_SET:
    case PHASE_OVER:
        all->result.finished++;
        break;
    }
}

static void start(void *argument)
{
    worker *own = argument;
    const scene *drawn = own->all->drawn;
    own->clock = (tt_sync_request){
        .policy = drawn->policy_text, .update = drawn->update_text, .codec = drawn->codec_text};
    submit(own, &own->clock, TT_STORE_OPEN);
}

/* ---- a play ---- */

static void drop_report(void *owner, int level, const char *text)
{
    (void)owner, (void)level, (void)text;
}

static void set_alarm(void *owner, uint64_t at_ns)
{
    worker *own = owner;
    tt_platform *platform = tt_sim_platform(own->all->sim, own->rank);
    if (own->alarms++ < ALARMS_MAX) {
        platform->ops->timer(platform, at_ns);
    }
}

static void process_make(play *all, uint32_t rank)
{
    const scene *drawn = all->drawn;
    worker *own = &all->workers[rank];
    const tt_roles roles = {
        .rank = rank, .workers = drawn->workers, .servers = drawn->servers, .epoch = SCENE_EPOCH};
    const tt_sync_listener listener = {
        .owner = own, .report = drop_report, .alarm = set_alarm, .stall_ns = STALL_NS};
    *own = (worker){.all = all, .rank = rank};
    const tt_status status = tt_sync_create(tt_sim_platform(all->sim, rank), &roles,
                                            store_no_collectives(), &listener, &own->sync);
    TT_ASSERT(status == TT_OK);
    tt_sim_attach(all->sim, rank, tt_sync_machine(own->sync));
    for (uint32_t i = 0; i < drawn->tensors; i++) {
        const size_t bytes = drawn->counts[i] * tt_dtype_bytes(drawn->dtype) + 8;
        own->tensors[i].pushed = calloc(1, bytes);
        own->tensors[i].read = calloc(1, bytes);
        own->tensors[i].rows = calloc(drawn->counts[i] + 1, sizeof(uint64_t));
        own->tensors[i].seen = calloc(256, sizeof(*own->tensors[i].seen));
    }
    if (rank < drawn->workers) {
        tt_sim_call(all->sim, rank, tt_random_below(&all->random, 500000), start, own);
    }
}

static void process_end(play *all, uint32_t rank)
{
    worker *own = &all->workers[rank];
    own->phase = PHASE_OVER;
    all->is_ending = true;
    tt_sync_shut_down(own->sync, TT_ERR_SHUT_DOWN, "over");
    tt_sync_destroy(own->sync);
    for (uint32_t i = 0; i < TENSORS_MAX; i++) {
        free(own->tensors[i].pushed);
        free(own->tensors[i].read);
        free(own->tensors[i].rows);
        free(own->tensors[i].seen);
    }
}

static void play_all(play *all)
{
    enum { EVENTS_MAX = 2 * 1000 * 1000 }; /* a hundred times as many as a scene has */
    bool has_more = true;
    while (has_more && all->result.is_good) {
        scene_apply_faults(all->drawn, all->sim, &all->done);
        has_more = tt_sim_step(all->sim);
        if (tt_sim_events(all->sim) > EVENTS_MAX) {
            blame(all, "events never end");
        }
    }
}

static bool has_one_part(const scene *drawn, uint32_t tensor)
{
    return drawn->counts[tensor] * tt_dtype_bytes(drawn->dtype) <= TT_SPLIT_WHOLE_BYTES;
}

/* Iterations that failed, of bulk sums: not more than there were deaths, and not one that nobody
 * has. */
static void judge_losses(play *all)
{
    const scene *drawn = all->drawn;
    for (uint32_t tensor = 0;
         tensor < drawn->tensors && all->done.killed == all->done.killed_servers; tensor++) {
        uint32_t everyone[ITERATIONS_MAX + 1] = {0};
        for (uint32_t rank = 0; rank < drawn->workers; rank++) {
            uint32_t failed = 0;
            for (uint32_t i = 0; i <= ITERATIONS_MAX; i++) {
                const bool has = all->workers[rank].tensors[tensor].has_failed[i];
                failed += has ? 1 : 0;
                everyone[i] += has ? 1 : 0;
            }
            if (failed > all->done.killed + all->done.severed) {
                blame(all, "rank %u lost %u iterations of tensor %u by %u deaths", rank, failed,
                      tensor, all->done.killed + all->done.severed);
            }
        }
        for (uint32_t i = 0; i <= ITERATIONS_MAX; i++) {
            if (everyone[i] == drawn->workers && has_one_part(drawn, tensor) &&
                drawn->habit == HABIT_PUSH_PULL) {
                blame(all, "everyone lost iteration %u of tensor %u", i, tensor);
            }
        }
    }
}

/* Nothing happens any more: is everyone at the end? */
static void judge_end(play *all)
{
    const scene *drawn = all->drawn;
    const char *why = drawn->has_members ? members_judge_end(all->members) : NULL;
    if (why != NULL) {
        blame(all, "%s", why);
    }
    bool owner_is_killed = false, worker_is_killed = false, owning_worker_is_killed = false;
    for (uint32_t rank = 0; rank < drawn->workers + drawn->servers; rank++) {
        const bool owns = tt_split_number(&all->split, rank) < all->split.owners;
        owner_is_killed = owner_is_killed || (all->done.is_killed[rank] && owns);
        owning_worker_is_killed =
            owning_worker_is_killed || (all->done.is_killed[rank] && owns && rank < drawn->workers);
        worker_is_killed = worker_is_killed || (all->done.is_killed[rank] && rank < drawn->workers);
    }
    bool has_owner = false;
    for (uint32_t i = 0; i < all->split.owners; i++) {
        const uint32_t rank = tt_split_rank(&all->split, i);
        has_owner = has_owner || (!all->done.is_killed[rank] &&
                                  (rank < drawn->workers || !all->done.is_severed[rank]));
    }
    if (drawn->can_lose && has_owner) {
        judge_losses(all);
        owner_is_killed = drawn->has_members && owning_worker_is_killed;
    }
    const bool may_fail = owner_is_killed || all->done.severed > 0 ||
                          all->done.is_killed[0] || /* which has the first values */
                          (worker_is_killed && tt_policy_is_bulk(&drawn->policy));
    for (uint32_t rank = 0; rank < drawn->workers; rank++) {
        const worker *own = &all->workers[rank];
        if (all->done.is_killed[rank]) {
            continue;
        }
        if (own->phase != PHASE_OVER) {
            blame(all, "rank %u hangs in phase %d, iteration %u", rank, (int)own->phase,
                  own->iteration);
        } else if (own->is_broken && !may_fail) {
            blame(all, "rank %u failed although nobody that it needs was killed", rank);
        }
    }
}

store_result store_run(const scene *drawn, bool is_verbose)
{
    play *all = calloc(1, sizeof(*all));
    all->drawn = drawn;
    all->is_verbose = is_verbose;
    all->result = (store_result){.is_good = true};
    all->split = tt_split_make(drawn->workers, drawn->servers);
    all->known = oracle_make(drawn);
    all->losses = losses_make(drawn, all->known);
    all->members = drawn->has_members ? members_make(drawn, &all->done) : NULL;
    all->sim = tt_sim_create(&drawn->sim);
    tt_random_init(&all->random, drawn->seed, 78);
    for (uint32_t rank = 0; rank < drawn->sim.size; rank++) {
        process_make(all, rank);
    }
    play_all(all);
    judge_end(all);
    all->result.events = tt_sim_events(all->sim);
    all->result.hash = tt_sim_hash(all->sim);
    for (uint32_t rank = 0; rank < drawn->sim.size; rank++) {
        process_end(all, rank);
    }
    if (!tt_sim_destroy(all->sim)) {
        blame(all, "memory is left behind");
    }
    members_free(all->members);
    losses_free(all->losses);
    oracle_free(all->known);
    const store_result result = all->result;
    free(all);
    return result;
}
