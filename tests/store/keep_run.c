/* SPDX-License-Identifier: Apache-2.0
 *
 * keep_run.c - stores that are read and filled into other ones, with other owners, at random
 * clocks; see store_run.h. Workers meet as collectives let them; the rest are frames that are
 * delayed, doubled and reordered. Every value has the bits of the oracle, which knows of no move.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "store/store_run.h"

typedef enum stage {
    STAGE_OPEN,
    STAGE_ADD,
    STAGE_SET,
    STAGE_PUSH,
    STAGE_CLOCK,
    STAGE_PULL,
    STAGE_MEET, /* from here on, a move */
    STAGE_OPTIONS,
    STAGE_REOPEN,
    STAGE_READD,
    STAGE_READ,
    STAGE_FILL,
    STAGE_CHANGE,
    STAGE_MEET_AGAIN,
    STAGE_DROP,
    STAGE_CLOSE,
    STAGE_OVER
} stage;

typedef struct play play;

typedef struct mover {
    play *all;
    uint32_t rank;
    tt_sync *sync;
    stage stage;
    uint32_t at; /* of tensors, sets or changes */
    uint32_t plane, iteration, store, next;
    uint64_t step;
    tt_sync_options options;
    tt_sync_request request;
    void *values;
} mover;

struct play {
    const scene *drawn;
    tt_sim *sim;
    oracle *known;
    mover movers[PROCESSES_MAX];
    damage done;
    tt_random random;
    bool moves[ITERATIONS_MAX + 1]; /* after so many iterations */
    uint8_t may_own[ITERATIONS_MAX + 1][SERVERS_MAX];
    uint32_t planes, met;
    bool is_verbose, is_ending;
    store_result result;
};

static const char *const names[TENSORS_MAX] = {"t0", "t1", "t2"};

static void blame(play *all, const mover *own, const char *what)
{
    if (all->result.is_good) {
        all->result.is_good = false;
        (void)snprintf(all->result.reason, sizeof(all->result.reason),
                       "rank %u, stage %d, iteration %u: %.160s", own->rank, (int)own->stage,
                       own->iteration, what);
    }
}

static void proceed(void *argument);

static void later(mover *own)
{
    play *all = own->all;
    tt_sim_call(all->sim, own->rank, tt_sim_now(all->sim) + tt_random_below(&all->random, 300000),
                proceed, own);
}

/* The last one lets all go on. */
static void meet(mover *own)
{
    play *all = own->all;
    if (++all->met == all->drawn->workers) {
        all->met = 0;
        for (uint32_t i = 0; i < all->drawn->workers; i++) {
            later(&all->movers[i]);
        }
    }
}

/* ---- ends of requests ---- */

static void judge_value(mover *own)
{
    play *all = own->all;
    const uint64_t bytes = all->drawn->counts[own->at] * sizeof(float);
    all->result.reads++;
    if (bytes > 0 &&
        memcmp(own->values, oracle_value(all->known, own->at, own->iteration), bytes) != 0) {
        blame(all, own, "other bits than the oracle's");
    }
}

static void take_end(tt_sync_request *request)
{
    mover *own = request->owner;
    if (own->all->is_ending) {
        return;
    }
    if (request->status != TT_OK) {
        blame(own->all, own, request->error);
        return;
    }
    if (own->stage == STAGE_OPEN) {
        own->store = request->store;
    } else if (own->stage == STAGE_REOPEN) {
        own->next = request->store;
    } else if (own->stage == STAGE_CLOCK) {
        own->iteration = (uint32_t)request->clock;
    } else if (own->stage == STAGE_PULL) {
        judge_value(own);
    } else if (own->stage == STAGE_READ) {
        own->step = request->step;
    } else if (own->stage == STAGE_DROP) {
        own->store = own->next;
        own->all->result.lost++;
    }
    later(own);
}

/* ---- requests ---- */

static void submit(mover *own, tt_sync_verb verb)
{
    own->request.verb = verb;
    own->request.owner = own;
    own->request.finished = take_end;
    tt_sync_submit(own->sync, &own->request);
}

static void submit_tensor(mover *own, tt_sync_verb verb, uint32_t store)
{
    const scene *drawn = own->all->drawn;
    own->request = (tt_sync_request){.name = names[own->at],
                                     .dtype = drawn->dtype,
                                     .count = drawn->counts[own->at],
                                     .row_elements = drawn->row_elements[own->at],
                                     .store = store,
                                     .input = own->stage == STAGE_READD ? NULL : own->values,
                                     .output = own->values,
                                     .plane = own->plane,
                                     .step = verb == TT_STORE_FILL ? own->step : 0};
    submit(own, verb);
}

static void submit_set(mover *own, uint32_t store, const char *option, double value, uint64_t clock)
{
    own->request =
        (tt_sync_request){.store = store, .name = option, .value = value, .clock = clock};
    submit(own, TT_STORE_SET);
}

static void submit_plain(mover *own, tt_sync_verb verb, uint32_t store)
{
    own->request = (tt_sync_request){.store = store, .options = &own->options};
    submit(own, verb);
}

static void submit_open(mover *own)
{
    const play *all = own->all;
    const bool is_first = own->stage == STAGE_OPEN;
    own->request = (tt_sync_request){
        .policy = all->drawn->policy_text,
        .update = is_first ? all->drawn->update_text : own->options.update,
        .clock = is_first ? 0 : own->iteration,
        .may_own = is_first ? NULL : all->may_own[own->iteration],
    };
    submit(own, TT_STORE_OPEN);
}

/* ---- programs ---- */

/* Of the stages that go through tensors, sets or changes: the next one that is this worker's. */
static bool has_next(mover *own, uint32_t from)
{
    const scene *drawn = own->all->drawn;
    const bool sets = own->stage == STAGE_SET;
    const uint32_t end = sets                         ? drawn->sets
                         : own->stage == STAGE_CHANGE ? own->options.change_count
                         : own->stage == STAGE_CLOCK  ? 0
                         : own->stage < STAGE_MEET    ? drawn->tensors
                         : own->stage == STAGE_READD  ? drawn->tensors
                         : own->stage == STAGE_READ   ? drawn->tensors
                                                      : 0;
    for (own->at = from; own->at < end; own->at++) {
        const set_call *one = &drawn->set[own->at];
        if (sets                         ? one->worker == own->rank && one->at == own->iteration
            : own->stage == STAGE_CHANGE ? own->rank == 0
            : own->stage == STAGE_READ   ? own->at % drawn->workers == own->rank
                                         : true) {
            return true;
        }
    }
    return false;
}

static stage after_pull(const mover *own, bool has_moved)
{
    if (!has_moved && own->all->moves[own->iteration]) {
        return STAGE_MEET;
    }
    return own->iteration >= own->all->drawn->iterations ? STAGE_CLOSE : STAGE_SET;
}

/* Where the program goes when nothing of the stage is left. */
static stage next_stage(const mover *own)
{
    switch (own->stage) {
    case STAGE_ADD:
    case STAGE_PULL:
        return after_pull(own, false);
    case STAGE_CLOCK:
        return STAGE_PULL;
    case STAGE_READ:
        return STAGE_CHANGE;
    case STAGE_DROP:
        return after_pull(own, true);
    default:
        return (stage)(own->stage + 1);
    }
}

/* The planes of a tensor: the value is the last. False: all are over. */
static bool next_plane(mover *own)
{
    if (own->stage == STAGE_READ) {
        own->stage = STAGE_FILL;
        return true;
    }
    own->stage = STAGE_READ;
    if (own->plane > 0) {
        own->plane--;
        return true;
    }
    own->plane = own->all->planes - 1;
    return false;
}

static bool is_list(stage now)
{
    return now == STAGE_ADD || now == STAGE_SET || now == STAGE_PUSH || now == STAGE_PULL ||
           now == STAGE_READD || now == STAGE_READ || now == STAGE_CHANGE;
}

static void advance(mover *own)
{
    const bool moves = own->stage == STAGE_READ || own->stage == STAGE_FILL;
    if (moves && next_plane(own)) {
        return;
    }
    if (is_list(own->stage) && has_next(own, own->at + 1)) {
        return;
    }
    do {
        own->stage = next_stage(own);
        own->plane = own->stage == STAGE_READ ? own->all->planes - 1 : 0;
    } while (is_list(own->stage) && !has_next(own, 0));
}

static void act(mover *own)
{
    const scene *drawn = own->all->drawn;
    const set_call *set = &drawn->set[own->at % SETS_MAX];
    const uint32_t change = own->at % TT_SYNC_CHANGES_MAX;
    switch (own->stage) {
    case STAGE_OPEN:
    case STAGE_REOPEN:
        submit_open(own);
        break;
    case STAGE_ADD:
        oracle_first(drawn, own->at, own->values);
        submit_tensor(own, TT_STORE_ADD, own->store);
        break;
    case STAGE_SET:
        submit_set(own, own->store, "lr", (double)set->rate,
                   set->is_now ? UINT64_MAX : (uint64_t)set->from);
        break;
    case STAGE_PUSH:
        oracle_push(drawn, own->rank, own->at, own->iteration, own->values);
        submit_tensor(own, TT_STORE_PUSH, own->store);
        break;
    case STAGE_CLOCK:
        submit_plain(own, TT_STORE_CLOCK, own->store);
        break;
    case STAGE_PULL:
        submit_tensor(own, TT_STORE_PULL, own->store);
        break;
    case STAGE_MEET:
    case STAGE_MEET_AGAIN:
        meet(own);
        break;
    case STAGE_OPTIONS:
        submit_plain(own, TT_STORE_OPTIONS, own->store);
        break;
    case STAGE_READD:
        submit_tensor(own, TT_STORE_ADD, own->next);
        break;
    case STAGE_READ:
        submit_tensor(own, TT_STORE_READ, own->store);
        break;
    case STAGE_FILL:
        submit_tensor(own, TT_STORE_FILL, own->next);
        break;
    case STAGE_CHANGE:
        submit_set(own, own->next, own->options.changes[change].option,
                   own->options.changes[change].value,
                   tt_max_u64(own->options.changes[change].clock, own->iteration));
        break;
    case STAGE_DROP:
    case STAGE_CLOSE:
        submit_plain(own, TT_STORE_CLOSE, own->store);
        break;
    case STAGE_OVER:
        own->all->result.finished++;
        break;
    }
}

static void proceed(void *argument)
{
    mover *own = argument;
    if (own->all->is_verbose) {
        printf("%10" PRIu64 " rank %u leaves stage %d at %u, iteration %u\n",
               tt_sim_now(own->all->sim), own->rank, (int)own->stage, own->at, own->iteration);
    }
    advance(own);
    act(own);
}

static void start(void *argument)
{
    act(argument);
}

/* ---- a seed ---- */

/* Bulk, of an update with state or without, and nobody dies. */
static scene draw(const scene *drawn)
{
    scene kept = *drawn;
    tt_text why = {0};
    if (!tt_policy_is_bulk(&kept.policy) || kept.update.update->is_sum || kept.codec_text != NULL) {
        kept.is_uniform = false;
        kept.policy_text = "bulk";
        kept.update_text = kept.seed % 2 == 0 ? "adam:lr=0.125,decay=0.0625" : "add";
        kept.codec_text = NULL;
        kept.codec = (tt_codec_spec){.codec = NULL};
        kept.dtype = TT_F32;
        kept.has_counters = kept.can_lose = false;
        kept.sets = 0;
        (void)tt_policy_parse(kept.policy_text, kept.workers, &kept.policy, &why);
        (void)tt_update_parse(kept.update_text, &kept.update, &why);
    }
    for (uint32_t i = 0; i < kept.faults; i++) {
        if (kept.fault[i].kind == FAULT_KILL || kept.fault[i].kind == FAULT_SEVER) {
            kept.fault[i].kind = FAULT_STOP;
            kept.fault[i].until_ns = kept.fault[i].at_ns + 1000000;
        }
    }
    return kept;
}

static void report(void *owner, int level, const char *text)
{
    (void)owner, (void)level, (void)text;
}

static void process_make(play *all, uint32_t rank)
{
    mover *own = &all->movers[rank];
    const tt_roles roles = {.rank = rank,
                            .workers = all->drawn->workers,
                            .servers = all->drawn->servers,
                            .epoch = SCENE_EPOCH};
    const tt_sync_listener listener = {.owner = own, .report = report};
    uint64_t most = 0;
    for (uint32_t i = 0; i < all->drawn->tensors; i++) {
        most = tt_max_u64(most, all->drawn->counts[i]);
    }
    *own = (mover){.all = all, .rank = rank, .plane = 0};
    own->values = calloc(most + 1, sizeof(float));
    const tt_status status = tt_sync_create(tt_sim_platform(all->sim, rank), &roles,
                                            store_no_collectives(), &listener, &own->sync);
    TT_ASSERT(status == TT_OK);
    tt_sim_attach(all->sim, rank, tt_sync_machine(own->sync));
    if (rank < all->drawn->workers) {
        tt_sim_call(all->sim, rank, tt_random_below(&all->random, 300000), start, own);
    }
}

static void draw_moves(play *all)
{
    all->planes = 1 + all->drawn->update.update->state_count;
    for (uint32_t i = 0; i <= all->drawn->iterations; i++) {
        all->moves[i] = tt_random_below(&all->random, 3) == 0;
        for (uint32_t k = 0; k < SERVERS_MAX; k++) {
            all->may_own[i][k] = (uint8_t)tt_random_below(&all->random, 2);
        }
    }
}

store_result keep_run(const scene *drawn, bool is_verbose)
{
    enum { EVENTS_MAX = 4 * 1000 * 1000 };
    if (drawn->seed >= KEEP_FAULTS_FIRST) {
        return keep_faults_run(drawn, is_verbose);
    }
    const scene kept = draw(drawn);
    play *all = calloc(1, sizeof(*all));
    all->drawn = &kept;
    all->is_verbose = is_verbose;
    all->result = (store_result){.is_good = true};
    all->known = oracle_make(&kept);
    all->sim = tt_sim_create(&kept.sim);
    tt_random_init(&all->random, kept.seed, 64);
    draw_moves(all);
    for (uint32_t rank = 0; rank < kept.sim.size; rank++) {
        process_make(all, rank);
    }
    bool has_more = true;
    while (has_more && all->result.is_good && tt_sim_events(all->sim) < EVENTS_MAX) {
        scene_apply_faults(&kept, all->sim, &all->done);
        has_more = tt_sim_step(all->sim);
    }
    for (uint32_t rank = 0; rank < kept.workers; rank++) {
        if (all->movers[rank].stage != STAGE_OVER) {
            blame(all, &all->movers[rank], "hangs");
        }
    }
    all->result.events = tt_sim_events(all->sim);
    all->result.hash = tt_sim_hash(all->sim);
    for (uint32_t rank = 0; rank < kept.sim.size; rank++) {
        mover *own = &all->movers[rank];
        all->is_ending = true;
        tt_sync_shut_down(own->sync, TT_ERR_SHUT_DOWN, "over");
        tt_sync_destroy(own->sync);
        free(own->values);
    }
    if (!tt_sim_destroy(all->sim)) {
        blame(all, &all->movers[0], "memory is left behind");
    }
    oracle_free(all->known);
    const store_result result = all->result;
    free(all);
    return result;
}
