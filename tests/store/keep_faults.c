/* SPDX-License-Identifier: Apache-2.0
 *
 * keep_faults.c - stores of every policy that move to other owners and are loaded again, while
 * workers and servers are killed in the middle; see store_run.h.
 *
 * A program is that of tutti_store_reshard and tutti_store_load: workers meet, open the next store,
 * add, read and fill, meet again, and drop one of the two stores. What the last good move has read
 * is the file that is loaded once calls have failed with a server.
 *
 *  (1) Nobody pushes between two meetings: the value that is read there has every push of every
 *      worker that counted, and all planes of the next store are those of the present one. Under a
 *      quorum a worker that is late skips iterations, but none at which the others meet.
 *  (2) A call fails only if an owner of its store is killed, or under bulk a worker; its error
 *      names one that was killed.
 *  (3) A move that fails leaves the present store as it was. A load succeeds as soon as workers
 *      know of all servers that are gone.
 *  (4) A meeting fails on all once a worker is dead: nothing moves, and what can goes on.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "store/keep_faults.h"

enum { STREAM = 65, MOVE_STEPS_MAX = 160, EVENTS_MAX = 4 * 1000 * 1000 };

/* ---- requests ---- */

static void submit(mover *own, tt_sync_verb verb)
{
    own->request.verb = verb;
    own->request.owner = own;
    tt_sync_submit(own->sync, &own->request);
}

static void take_end(tt_sync_request *request);

static void submit_tensor(mover *own, tt_sync_verb verb, uint32_t store)
{
    const scene *drawn = own->all->drawn;
    own->request = (tt_sync_request){.finished = take_end,
                                     .name = keep_name(own->tensor),
                                     .dtype = drawn->dtype,
                                     .count = drawn->counts[own->tensor],
                                     .store = store,
                                     .input = own->stage == STAGE_READD ? NULL : own->values,
                                     .output = own->values,
                                     .plane = own->plane,
                                     .step = own->step};
    submit(own, verb);
}

static void submit_plain(mover *own, tt_sync_verb verb, uint32_t store)
{
    own->request = (tt_sync_request){.finished = take_end, .store = store};
    submit(own, verb);
}

static void submit_open(mover *own)
{
    const play *all = own->all;
    const bool is_first = own->stage == STAGE_OPEN;
    own->request = (tt_sync_request){.finished = take_end,
                                     .store = UINT32_MAX,
                                     .policy = all->drawn->policy_text,
                                     .update = all->drawn->update_text,
                                     .clock = own->iteration,
                                     .may_own = is_first ? NULL : all->may_own};
    submit(own, TT_STORE_OPEN);
}

/* ---- meetings ---- */

static void proceed(void *argument);

static void later(mover *own)
{
    play *all = own->all;
    tt_sim_call(all->sim, own->rank, tt_sim_now(all->sim) + tt_random_below(&all->random, 300000),
                proceed, own);
}

static bool is_final(const mover *own)
{
    return own->iteration >= own->all->drawn->iterations && !own->has_failed;
}

static void enter(mover *own, stage next)
{
    const uint32_t last_plane = own->all->planes - 1;
    own->stage = next;
    own->tensor = 0;
    own->plane = next == STAGE_READ || next == STAGE_RECHECK ? last_plane : 0;
    if (next == STAGE_READ && own->rank != 0) {
        own->tensor = own->rank;
        if (own->tensor >= own->all->drawn->tensors) {
            own->stage = STAGE_MEET_FILLED; /* nothing of it is this worker's */
        }
    }
}

/* Servers that some worker has lost, or that shall own nothing, own nothing. */
static void plan(play *all)
{
    for (uint32_t k = 0; k < all->drawn->servers; k++) {
        all->may_own[k] = all->is_loading ? 1 : (uint8_t)tt_random_below(&all->random, 2);
        for (uint32_t i = 0; i < all->drawn->workers; i++) {
            if (tt_sync_server_is_gone(all->movers[i].sync, k)) {
                all->may_own[k] = 0;
            }
        }
    }
}

static void remember_split(play *all, uint32_t store, const uint8_t *may_own)
{
    uint32_t count = 0;
    TT_ASSERT(store < STORES_MAX);
    for (uint32_t k = 0; k < all->drawn->servers; k++) {
        if (may_own == NULL || may_own[k] != 0) {
            all->chosen[store][count++] = k;
        }
    }
    all->splits[store] =
        all->drawn->servers == 0
            ? tt_split_make(all->drawn->workers, 0)
            : tt_split_make_of(all->drawn->workers, all->drawn->servers, all->chosen[store], count);
}

/* The first meeting: what follows, on all workers. */
static void conclude_first(play *all, bool any_failed)
{
    all->is_loading = any_failed;
    plan(all);
    if (any_failed && all->last.is_there) {
        all->loads++;
        if (all->loads > LOADS_MAX) {
            keep_blame(all, &all->movers[0], "loads fail for ever");
        }
    }
    for (uint32_t i = 0; i < all->drawn->workers; i++) {
        mover *own = &all->movers[i];
        if (any_failed ? !all->last.is_there : is_final(own)) {
            enter(own, STAGE_CLOSE);
            continue;
        }
        enter(own, STAGE_REOPEN);
        own->iteration = any_failed ? all->last.clock : own->iteration;
        own->has_failed = false;
    }
}

/* The planes that were read have all pushes that counted. */
static void keep_counted(play *all, keepsake *kept)
{
    for (uint32_t i = 0; i < all->drawn->workers; i++) {
        for (uint32_t k = 0; k < all->drawn->tensors; k++) {
            kept->counted[k][i] = all->movers[i].pushes[k] - all->movers[i].uncounted[k];
        }
    }
}

/* The planes that were read are those of the store now. */
static void settle_base(play *all)
{
    for (uint32_t i = 0; i < all->drawn->workers; i++) {
        for (uint32_t k = 0; k < all->drawn->tensors; k++) {
            all->movers[i].pushes[k] = all->base[k][i] = all->last.counted[k][i];
            all->movers[i].uncounted[k] = 0;
        }
    }
}

static void conclude_second(play *all, bool any_failed)
{
    if (!any_failed && !all->is_loading) {
        keepsake old = all->last;
        keep_counted(all, &all->now);
        all->last = all->now;
        all->now = old;
        all->last.is_there = true;
        all->last.clock = all->movers[0].iteration;
    }
    if (!any_failed) {
        settle_base(all);
        all->result.lost++;
    }
    for (uint32_t i = 0; i < all->drawn->workers; i++) {
        mover *own = &all->movers[i];
        enter(own, any_failed ? STAGE_FORGET : STAGE_DROP);
        own->has_failed = any_failed && all->is_loading;
    }
}

/* All are there. */
static void conclude(play *all)
{
    bool any_failed = false;
    for (uint32_t i = 0; i < all->drawn->workers; i++) {
        any_failed = any_failed || all->movers[i].has_failed;
    }
    const stage now = all->movers[0].stage;
    if (now == STAGE_MEET) {
        conclude_first(all, any_failed);
    } else if (now == STAGE_MEET_FILLED) {
        conclude_second(all, any_failed);
    }
    for (uint32_t i = 0; i < all->drawn->workers; i++) {
        mover *own = &all->movers[i];
        own->is_at_meeting = false;
        if (now == STAGE_MEET_CHECKED) {
            enter(own, own->has_failed ? STAGE_MEET : STAGE_PUSH);
        }
        later(own);
    }
}

/* (4) */
static void give_up_meeting(mover *own)
{
    own->is_at_meeting = false;
    if (own->stage == STAGE_MEET_FILLED) {
        enter(own, STAGE_FORGET);
        own->has_failed = own->all->is_loading;
    } else {
        enter(own, own->has_failed || is_final(own) ? STAGE_CLOSE : STAGE_PUSH);
    }
    later(own);
}

static void meet(mover *own)
{
    play *all = own->all;
    uint32_t there = 0;
    own->is_at_meeting = true;
    if (keep_has_dead_worker(all)) {
        give_up_meeting(own);
        return;
    }
    for (uint32_t i = 0; i < all->drawn->workers; i++) {
        there += all->movers[i].is_at_meeting ? 1 : 0;
    }
    if (there == all->drawn->workers) {
        conclude(all);
    }
}

/* ---- programs ---- */

/* With what was read, in this move or the last good one. */
static void fill(mover *own)
{
    const play *all = own->all;
    const keepsake *kept = all->is_loading ? &all->last : &all->now;
    memcpy(own->values, kept->planes[own->tensor][own->plane], keep_bytes(all, own->tensor));
    own->step = kept->steps[own->tensor];
    own->stage = STAGE_FILL;
    submit_tensor(own, TT_STORE_FILL, own->next);
}

static void take_counted(tt_sync_request *request);

/* Under a quorum a push ends with its iteration. */
static void push_and_clock(mover *own)
{
    const scene *drawn = own->all->drawn;
    own->stage = STAGE_CLOCK;
    own->open = drawn->tensors + 1;
    for (uint32_t i = 0; i < drawn->tensors; i++) {
        oracle_push(drawn, own->rank, i, own->iteration, own->pushed[i]);
        own->pushes[i]++;
        own->pushing[i] = (tt_sync_request){.verb = TT_STORE_PUSH,
                                            .finished = take_counted,
                                            .owner = own,
                                            .name = keep_name(i),
                                            .store = own->store,
                                            .input = own->pushed[i]};
        tt_sync_submit(own->sync, &own->pushing[i]);
    }
    own->request = (tt_sync_request){.finished = take_counted, .store = own->store};
    submit(own, TT_STORE_CLOCK);
}

static void act(mover *own)
{
    play *all = own->all;
    const scene *drawn = all->drawn;
    if (own->stage == STAGE_PUSH && drawn->policy.quorum > 0) {
        push_and_clock(own);
        return;
    }
    all->move_steps += own->stage >= STAGE_REOPEN && own->stage <= STAGE_DROP ? 1 : 0;
    switch (own->stage) {
    case STAGE_OPEN:
    case STAGE_REOPEN:
        submit_open(own);
        break;
    case STAGE_ADD:
        oracle_first(drawn, own->tensor, own->values);
        submit_tensor(own, TT_STORE_ADD, own->store);
        break;
    case STAGE_PUSH:
        oracle_push(drawn, own->rank, own->tensor, own->iteration, own->values);
        own->pushes[own->tensor]++;
        submit_tensor(own, TT_STORE_PUSH, own->store);
        break;
    case STAGE_CLOCK:
        submit_plain(own, TT_STORE_CLOCK, own->store);
        break;
    case STAGE_PULL:
        submit_tensor(own, TT_STORE_PULL, own->store);
        break;
    case STAGE_MEET:
    case STAGE_MEET_FILLED:
    case STAGE_MEET_CHECKED:
        meet(own);
        break;
    case STAGE_READD:
        submit_tensor(own, TT_STORE_ADD, own->next);
        break;
    case STAGE_READ:
        if (all->is_loading) {
            fill(own);
        } else {
            submit_tensor(own, TT_STORE_READ, own->store);
        }
        break;
    case STAGE_FILL:
        fill(own);
        break;
    case STAGE_RECHECK:
        submit_tensor(own, TT_STORE_READ, own->store);
        break;
    case STAGE_FORGET:
        submit_plain(own, TT_STORE_CLOSE, own->next);
        break;
    case STAGE_DROP: /* the caller's store is the next one before the other is closed */
        submit_plain(own, TT_STORE_CLOSE, own->store);
        own->store = own->next;
        break;
    case STAGE_CLOSE:
        submit_plain(own, TT_STORE_CLOSE, own->store);
        break;
    case STAGE_OVER:
        all->result.finished++;
        break;
    }
}

/* The next tensor of a stage that is this worker's; false: there is none. */
static bool next_tensor(mover *own)
{
    const scene *drawn = own->all->drawn;
    const bool is_shared = own->stage == STAGE_READ || own->stage == STAGE_FILL;
    do {
        own->tensor++;
    } while (is_shared && own->tensor < drawn->tensors &&
             own->tensor % drawn->workers != own->rank);
    return own->tensor < drawn->tensors;
}

static void after_pulls(mover *own)
{
    const bool moves = own->all->moves[own->iteration] || is_final(own);
    enter(own, moves ? STAGE_MEET : STAGE_PUSH);
}

/* Planes of a tensor, then those of the next one; false: all are over. */
static bool next_plane(mover *own)
{
    if (own->stage == STAGE_READ) {
        own->stage = STAGE_FILL;
        return true;
    }
    own->stage = own->stage == STAGE_FILL ? STAGE_READ : own->stage;
    if (own->plane > 0) {
        own->plane--;
        return true;
    }
    own->plane = own->all->planes - 1;
    return next_tensor(own);
}

static void advance(mover *own)
{
    switch (own->stage) {
    case STAGE_OPEN:
        enter(own, STAGE_ADD);
        break;
    case STAGE_ADD:
    case STAGE_PULL:
        if (!next_tensor(own)) {
            after_pulls(own);
        }
        break;
    case STAGE_PUSH:
        if (!next_tensor(own)) {
            enter(own, STAGE_CLOCK);
        }
        break;
    case STAGE_CLOCK:
        enter(own, STAGE_PULL);
        break;
    case STAGE_REOPEN:
        enter(own, STAGE_READD);
        break;
    case STAGE_READD:
        if (!next_tensor(own)) {
            enter(own, STAGE_READ);
        }
        break;
    case STAGE_READ:
    case STAGE_FILL:
        if (!next_plane(own)) {
            enter(own, STAGE_MEET_FILLED);
        }
        break;
    case STAGE_DROP:
        enter(own, STAGE_RECHECK);
        break;
    case STAGE_RECHECK:
        if (!next_plane(own)) {
            enter(own, STAGE_MEET_CHECKED);
        }
        break;
    case STAGE_FORGET: /* with a store that has failed, to the next load */
        enter(own, own->has_failed ? STAGE_MEET : STAGE_PUSH);
        break;
    case STAGE_CLOSE:
        enter(own, STAGE_OVER);
        break;
    default: /* meetings set the stage that follows */
        break;
    }
}

static void proceed(void *argument)
{
    mover *own = argument;
    if (own->all->is_verbose) {
        printf("%10" PRIu64 " rank %u at stage %d, tensor %u, plane %u, iteration %u%s\n",
               tt_sim_now(own->all->sim), own->rank, (int)own->stage, own->tensor, own->plane,
               own->iteration, own->has_failed ? ", failed" : "");
    }
    act(own);
}

/* ---- ends of requests ---- */

static void take_plane(mover *own)
{
    play *all = own->all;
    const uint64_t bytes = keep_bytes(all, own->tensor);
    const bool is_check = own->stage == STAGE_RECHECK;
    const keepsake *kept = is_check ? &all->last : &all->now;
    if (all->drawn->has_counters && own->plane == 0) {
        keep_judge_rest(own);
    }
    if (is_check && bytes > 0 && !keep_has_dead_worker(all) && /* (4): others may push */
        memcmp(kept->planes[own->tensor][own->plane], own->values, bytes) != 0) {
        keep_blame(all, own, "a plane has changed in a move");
    }
    if (is_check && !keep_has_dead_worker(all) && kept->steps[own->tensor] != own->request.step) {
        keep_blame(all, own, "sums were counted anew in a move");
    }
    if (!is_check) {
        memcpy(kept->planes[own->tensor][own->plane], own->values, bytes);
        all->now.steps[own->tensor] = own->request.step;
    }
    all->result.reads++;
}

static void take_failure(mover *own)
{
    keep_judge_error(own, &own->request);
    own->has_failed = true;
    const bool is_moving = own->stage >= STAGE_REOPEN && own->stage <= STAGE_FILL;
    enter(own, is_moving                     ? STAGE_MEET_FILLED
               : own->stage == STAGE_RECHECK ? STAGE_MEET_CHECKED
                                             : STAGE_MEET);
}

static void take_counted(tt_sync_request *request)
{
    mover *own = request->owner;
    if (own->all->is_ending) {
        return;
    }
    if (request->status != TT_OK) {
        keep_judge_error(own, request);
        own->has_failed = true;
    } else if (request == &own->request) {
        own->iteration = (uint32_t)request->clock;
    } else {
        own->uncounted[request - own->pushing] += request->is_uncounted ? 1 : 0;
    }
    if (--own->open == 0) {
        enter(own, own->has_failed ? STAGE_MEET : STAGE_PULL);
        later(own);
    }
}

static void take_end(tt_sync_request *request)
{
    mover *own = request->owner;
    play *all = own->all;
    if (all->is_ending) {
        return;
    }
    if (own->stage == STAGE_OPEN) {
        own->store = request->store;
        remember_split(all, own->store, NULL);
    } else if (own->stage == STAGE_REOPEN) {
        own->next = request->store;
        remember_split(all, own->next, all->may_own);
    }
    if (request->status != TT_OK) {
        take_failure(own);
        later(own);
        return;
    }
    if (own->stage == STAGE_CLOCK) {
        own->iteration = (uint32_t)request->clock;
    } else if (own->stage == STAGE_PULL) {
        keep_judge_pull(own);
    } else if (own->stage == STAGE_READ || own->stage == STAGE_RECHECK) {
        take_plane(own);
    }
    advance(own);
    later(own);
}

/* ---- a seed ---- */

/* Half of the seeds kill one while parts move. */
static void draw_moves(play *all)
{
    all->planes = 1 + all->drawn->update.update->state_count;
    for (uint32_t i = 0; i <= all->drawn->iterations; i++) {
        all->moves[i] = i == 0 || tt_random_below(&all->random, 3) == 0;
    }
    all->kill_after = UINT32_MAX;
    if (tt_random_below(&all->random, 2) == 0) {
        const bool is_server = all->drawn->servers > 0 && tt_random_below(&all->random, 3) > 0;
        all->kill_after = 1 + (uint32_t)tt_random_below(&all->random, MOVE_STEPS_MAX);
        all->victim = is_server ? all->drawn->workers +
                                      (uint32_t)tt_random_below(&all->random, all->drawn->servers)
                                : (uint32_t)tt_random_below(&all->random, all->drawn->workers);
    }
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
    *own = (mover){.all = all, .rank = rank};
    own->values = calloc(COUNT_MAX, sizeof(int64_t));
    for (uint32_t i = 0; i < TENSORS_MAX; i++) {
        own->pushed[i] = calloc(COUNT_MAX, sizeof(int64_t));
    }
    const tt_status status = tt_sync_create(tt_sim_platform(all->sim, rank), &roles,
                                            store_no_collectives(), &listener, &own->sync);
    TT_ASSERT(status == TT_OK);
    tt_sim_attach(all->sim, rank, tt_sync_machine(own->sync));
    if (rank < all->drawn->workers) {
        tt_sim_call(all->sim, rank, tt_random_below(&all->random, 300000), proceed, own);
    }
}

static void make_keepsakes(play *all)
{
    for (uint32_t i = 0; i < TENSORS_MAX; i++) {
        for (uint32_t k = 0; k < PLANES_MAX; k++) {
            all->last.planes[i][k] = calloc(COUNT_MAX, sizeof(int64_t));
            all->now.planes[i][k] = calloc(COUNT_MAX, sizeof(int64_t));
        }
    }
}

static void apply_faults(play *all)
{
    scene_apply_faults(all->drawn, all->sim, &all->done);
    if (all->move_steps >= all->kill_after && !all->done.is_killed[all->victim]) {
        all->done.is_killed[all->victim] = true;
        all->done.killed++;
        all->done.killed_servers += all->victim >= all->drawn->workers ? 1 : 0;
        tt_sim_kill(all->sim, all->victim);
    }
    for (uint32_t i = 0; i < all->drawn->workers && keep_has_dead_worker(all); i++) {
        if (all->movers[i].is_at_meeting && !all->done.is_killed[i]) {
            give_up_meeting(&all->movers[i]);
        }
    }
}

static void play_all(play *all)
{
    bool has_more = true;
    while (has_more && all->result.is_good && tt_sim_events(all->sim) < EVENTS_MAX) {
        apply_faults(all);
        has_more = tt_sim_step(all->sim);
    }
    for (uint32_t rank = 0; rank < all->drawn->workers; rank++) {
        if (all->movers[rank].stage != STAGE_OVER && !all->done.is_killed[rank]) {
            keep_blame(all, &all->movers[rank], "hangs");
        }
    }
    all->result.events = tt_sim_events(all->sim);
    all->result.hash = tt_sim_hash(all->sim);
}

static void release(play *all)
{
    all->is_ending = true;
    for (uint32_t rank = 0; rank < all->drawn->sim.size; rank++) {
        mover *own = &all->movers[rank];
        tt_sync_shut_down(own->sync, TT_ERR_SHUT_DOWN, "over");
        tt_sync_destroy(own->sync);
        free(own->values);
        for (uint32_t i = 0; i < TENSORS_MAX; i++) {
            free(own->pushed[i]);
        }
    }
    for (uint32_t i = 0; i < TENSORS_MAX; i++) {
        for (uint32_t k = 0; k < PLANES_MAX; k++) {
            free(all->last.planes[i][k]);
            free(all->now.planes[i][k]);
        }
    }
    if (!tt_sim_destroy(all->sim)) {
        keep_blame(all, &all->movers[0], "memory is left behind");
    }
    oracle_free(all->known);
}

store_result keep_faults_run(const scene *drawn, bool is_verbose)
{
    play *all = calloc(1, sizeof(*all));
    tt_random_init(&all->random, drawn->seed, STREAM);
    const scene kept = keep_faults_draw(drawn, &all->random);
    all->drawn = &kept;
    all->is_verbose = is_verbose;
    all->result = (store_result){.is_good = true};
    all->known = oracle_make(&kept);
    all->sim = tt_sim_create(&kept.sim);
    draw_moves(all);
    make_keepsakes(all);
    if (is_verbose) {
        printf("policy %s, update %s\n", kept.policy_text, kept.update_text);
    }
    for (uint32_t rank = 0; rank < kept.sim.size; rank++) {
        process_make(all, rank);
    }
    play_all(all);
    release(all);
    const store_result result = all->result;
    free(all);
    return result;
}
