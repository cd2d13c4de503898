/* SPDX-License-Identifier: Apache-2.0
 *
 * explore_quorum_test.c - a quorum's sums and the death of its keeper, in every order of frames.
 *
 * The machines are those of src/sync (small.h): two workers, and one server or two, of which the
 * first is the keeper. It has one tensor; the other server has the second one, or worker 1, which
 * is an owner then. Each worker pushes to both, ends its iteration, and may pull both. The keeper
 * may die at any moment; frames of it that have not reached a process when that one learns of it
 * are lost. Depth-first search over states: the memory of each machine, its program, and the frames
 * in flight; steps are made after each frame.
 *
 * Each history must end with all calls over, and for both workers alike: what a worker pushed is in
 * every value that was pulled, of both tensors, or in none; in none if it was told so. A push or
 * pull fails only of the tensor that the server had, and a push only if the other worker has a
 * sum of it.
 *
 * Labels: sync
 * Timeout: 300 */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/assert.h"
#include "base/base.h"
#include "kernel/hash64.h"
#include "store/small.h"

enum { WORKERS = 2, SERVER = 2, MACHINES = 4, TENSORS = 2, DEPTH_MAX = 300, STATES_LOG2 = 24 };

typedef struct scenario {
    const char *policy;
    uint32_t servers, other; /* the other tensor's owner is this rank */
    bool pulls;
} scenario;

typedef struct program {
    tt_sync_request pushes[TENSORS], pulls[TENSORS], clock;
    uint32_t open; /* requests */
    bool is_pulling, is_over;
    int64_t pushed, pulled[TENSORS];
} program;

typedef enum choice_kind { DELIVER, KILL, TELL } choice_kind;

typedef struct choice {
    choice_kind kind;
    uint32_t index;
} choice;

typedef struct search {
    const scenario *scene;
    small_world *world;
    uint32_t machines;
    program *programs[WORKERS];
    uint64_t hashes[MACHINES];
    bool is_told[MACHINES];
    uint64_t *seen; /* open addressing; 0: free */
    uint64_t states, ends, lost;
} search;

/* ---- workers ---- */

static void finished(tt_sync_request *request)
{
    program *own = request->owner;
    own->open--;
}

static const char *name_of(const search *all, uint32_t tensor)
{
    const tt_split *split = &all->world->machines[0]->sync->split;
    return small_name(all->world, tensor == 0 ? 0 : tt_split_number(split, all->scene->other));
}

static void submit(const search *all, uint32_t rank, tt_sync_request *request, tt_sync_verb verb,
                   uint32_t tensor)
{
    program *own = all->programs[rank];
    *request = (tt_sync_request){.verb = verb,
                                 .name = name_of(all, tensor),
                                 .input = &own->pushed,
                                 .output = &own->pulled[tensor],
                                 .owner = own,
                                 .finished = finished};
    own->open++;
    tt_sync_submit(all->world->machines[rank]->sync, request);
}

static void proceed(const search *all, uint32_t rank)
{
    program *own = all->programs[rank];
    if (own->open > 0 || own->is_over) {
        return;
    }
    own->is_over = own->is_pulling || !all->scene->pulls;
    own->is_pulling = true;
    for (uint32_t i = 0; i < TENSORS && !own->is_over; i++) {
        submit(all, rank, &own->pulls[i], TT_STORE_PULL, i);
    }
}

/* ---- states ---- */

static void forget(small_machine *machine)
{
    tt_owner_store *owned = machine->sync->owned[0];
    machine->sync->age = 0;
    for (uint32_t i = 0; i < machine->sync->part_count; i++) {
        if (machine->sync->parts[i] != NULL) {
            machine->sync->parts[i]->age = 0;
        }
    }
    if (owned != NULL) {
        owned->tally = (tt_owner_tally){.dropped = 0};
    }
    if (machine->rank < WORKERS && machine->sync->stores[0] != NULL) {
        machine->sync->stores[0]->tally = (tt_sync_counts){.clock = 0};
    }
}

static uint64_t state_hash(const search *all)
{
    uint64_t frames = 0, hash = all->world->machines[SERVER]->is_gone ? 1 : 0;
    for (uint32_t i = 0; i < all->world->frame_count; i++) {
        const small_frame *frame = &all->world->frames[i];
        uint64_t one = tt_hash64_mix(frame->from * 8 + frame->to, frame->token);
        one = tt_hash64(&frame->head, sizeof(frame->head), one);
        frames += tt_hash64(frame->bytes, frame->head.payload_bytes, one); /* in any order */
    }
    for (uint32_t i = 0; i < all->machines; i++) {
        hash = tt_hash64_mix(hash, all->hashes[i]);
        hash = tt_hash64_mix(hash, all->is_told[i] ? 1 : 0);
    }
    return tt_hash64_mix(hash, frames);
}

/* False: it was there already. */
static bool add_state(search *all, uint64_t key)
{
    const uint64_t mask = (UINT64_C(1) << STATES_LOG2) - 1;
    key += key == 0;
    uint64_t at = key & mask;
    for (; all->seen[at] != 0; at = (at + 1) & mask) {
        if (all->seen[at] == key) {
            return false;
        }
    }
    TT_ASSERT(all->states < mask / 4 * 3); /* choose a smaller scenario */
    all->seen[at] = key;
    all->states++;
    return true;
}

/* ---- choices ---- */

static uint32_t list_choices(const search *all, choice *choices)
{
    const small_world *world = all->world;
    const bool is_dead = world->machines[SERVER]->is_gone;
    uint32_t count = 0;
    for (uint32_t i = 0; i < world->frame_count; i++) {
        choices[count++] = (choice){.kind = DELIVER, .index = i};
    }
    for (uint32_t i = 0; i < all->machines && is_dead; i++) {
        if (i != SERVER && !all->is_told[i]) {
            choices[count++] = (choice){.kind = TELL, .index = i};
        }
    }
    if (!is_dead) {
        choices[count++] = (choice){.kind = KILL};
    }
    return count;
}

/* Who is told by others (GONE) is told by the search. */
static void drop_gone(small_world *world)
{
    for (uint32_t i = world->frame_count; i > 0; i--) {
        if (world->frames[i - 1].head.kind == TT_SYNC_GONE) {
            small_drop(world, i - 1);
        }
    }
}

/* A frame to a worker that owns nothing changes that one alone, and one of an owner that lives is
 * not lost: it is delivered at once. */
static bool find_eager(const search *all, choice *choice_out)
{
    const small_world *world = all->world;
    for (uint32_t i = 0; i < world->frame_count; i++) {
        const small_frame *frame = &world->frames[i];
        if (all->scene->servers == WORKERS && frame->to < WORKERS && frame->from != SERVER) {
            *choice_out = (choice){.kind = DELIVER, .index = i};
            return true;
        }
    }
    return false;
}

/* The machines that a choice changes, as bits. */
static uint32_t touched(const search *all, choice taken)
{
    const small_frame *frames = all->world->frames;
    if (taken.kind == DELIVER) {
        const small_frame *frame = &frames[taken.index];
        return 1U << frame->to | (frame->lent != NULL ? 1U << frame->from : 0);
    }
    return (1U << all->machines) - 1; /* payloads are given back */
}

static void take(search *all, choice taken, uint32_t bits)
{
    small_world *world = all->world;
    if (taken.kind == DELIVER) {
        small_deliver(world, taken.index, false);
    } else if (taken.kind == KILL) {
        small_kill(world->machines[SERVER]);
    } else {
        all->is_told[taken.index] = true;
        small_tell_gone(world->machines[taken.index], SERVER);
    }
    for (uint32_t i = 0; i < all->machines; i++) {
        while (small_has_step(world->machines[i])) {
            small_step(world->machines[i]);
        }
        if (i < WORKERS && (bits >> i & 1) != 0) {
            proceed(all, i);
        }
    }
    drop_gone(world);
}

/* ---- ends ---- */

static void judge_call(search *all, const tt_sync_request *request, uint32_t tensor)
{
    const bool is_lost = request->status == TT_ERR_PEER_DOWN &&
                         strstr(request->error, "(rank 2) is gone, and with it") != NULL;
    all->lost += is_lost ? 1 : 0;
    if (request->status != TT_OK && (!is_lost || tensor != 0)) {
        fail_msg("a call failed with %d %s", (int)request->status, request->error);
    }
}

/* Is what the worker pushed in this value, as far as it says? */
static bool is_as_told(int64_t value, uint32_t worker, bool counts)
{
    return (value >> (8 * worker) & 255) == (counts ? 1 : 0);
}

static void judge_end(search *all)
{
    all->ends++;
    for (uint32_t i = 0; i < WORKERS; i++) {
        const program *own = all->programs[i], *other = all->programs[1 - i];
        if (!own->is_over) {
            fail_msg("worker %u waits", i);
        }
        for (uint32_t k = 0; k < TENSORS; k++) {
            judge_call(all, &own->pushes[k], k);
            judge_call(all, &own->pulls[k], k);
        }
        const bool counts = !own->pushes[1].is_uncounted;
        const bool has_part = own->pushes[0].status == TT_OK || own->pushes[0].is_uncounted;
        if (counts == own->pushes[0].is_uncounted) {
            fail_msg("worker %u's pushes count, and do not", i);
        }
        if (!has_part && other->pushes[0].status != TT_OK && other->pulls[0].status != TT_OK) {
            fail_msg("worker %u's push is lost to nobody", i);
        }
        for (uint32_t k = 0; k < 2 * TENSORS; k++) {
            const program *reader = all->programs[k / TENSORS];
            if (all->scene->pulls && reader->pulls[k % TENSORS].status == TT_OK &&
                !is_as_told(reader->pulled[k % TENSORS], i, counts)) {
                fail_msg("worker %u read %llx, worker %u's push counts: %d", k / TENSORS,
                         (unsigned long long)reader->pulled[k % TENSORS], i, counts);
            }
        }
    }
}

/* ---- the search ---- */

static void explore(search *all, uint32_t depth)
{
    choice choices[SMALL_FRAMES + MACHINES];
    small_world *world = all->world;
    const uint32_t count = list_choices(all, choices);
    TT_ASSERT(depth < DEPTH_MAX);
    if (count == 0 || (count == 1 && choices[0].kind == KILL)) {
        judge_end(all);
        return; /* a death changes nothing any more */
    }
    const uint32_t frame_count = world->frame_count;
    bool is_told[MACHINES];
    uint64_t hashes[MACHINES];
    memcpy(is_told, all->is_told, sizeof(is_told));
    memcpy(hashes, all->hashes, sizeof(hashes));
    small_frame *frames = malloc((frame_count + 1) * sizeof(*frames));
    assert_non_null(frames);
    memcpy(frames, world->frames, frame_count * sizeof(*frames));
    for (uint32_t i = 0; i < count; i++) {
        small_copy *copies[MACHINES] = {NULL};
        choice taken = choices[i];
        do {
            const uint32_t bits = touched(all, taken);
            for (uint32_t k = 0; k < all->machines; k++) {
                if ((bits >> k & 1) != 0 && copies[k] == NULL) {
                    copies[k] = small_keep(world->machines[k]);
                }
            }
            take(all, taken, bits);
        } while (find_eager(all, &taken));
        for (uint32_t k = 0; k < all->machines; k++) {
            if (copies[k] != NULL) {
                forget(world->machines[k]);
                all->hashes[k] = small_hash(world->machines[k]);
            }
        }
        if (add_state(all, state_hash(all))) {
            explore(all, depth + 1);
        }
        for (uint32_t k = 0; k < all->machines; k++) {
            if (copies[k] != NULL) {
                small_restore(world->machines[k], copies[k]);
            }
        }
        memcpy(all->is_told, is_told, sizeof(is_told));
        memcpy(all->hashes, hashes, sizeof(hashes));
        world->frame_count = frame_count;
        memcpy(world->frames, frames, frame_count * sizeof(*frames));
    }
    free(frames);
}

static void all_call(const search *all, tt_sync_request request)
{
    for (uint32_t i = 0; i < WORKERS; i++) {
        all->programs[i]->clock = request;
        all->programs[i]->clock.owner = all->programs[i];
        all->programs[i]->clock.finished = finished;
        all->programs[i]->open++;
        tt_sync_submit(all->world->machines[i]->sync, &all->programs[i]->clock);
    }
    small_run(all->world);
    assert_int_equal(all->programs[0]->open + all->programs[1]->open, 0);
}

static void run(const scenario *scene)
{
    search all = {.scene = scene, .machines = WORKERS + scene->servers};
    const clock_t before = clock();
    all.seen = calloc((size_t)1 << STATES_LOG2, sizeof(uint64_t));
    assert_non_null(all.seen);
    all.world = small_create(WORKERS, scene->servers);
    for (uint32_t i = 0; i < WORKERS; i++) {
        all.programs[i] = small_allocate(all.world->machines[i], sizeof(program));
        all.programs[i]->pushed = INT64_C(1) << (8 * i);
    }
    all_call(&all,
             (tt_sync_request){.verb = TT_STORE_OPEN, .policy = scene->policy, .update = "sum"});
    for (uint32_t i = 0; i < TENSORS; i++) {
        all_call(&all,
                 (tt_sync_request){
                     .verb = TT_STORE_ADD, .name = name_of(&all, i), .dtype = TT_I64, .count = 1});
    }
    for (uint32_t i = 0; i < WORKERS; i++) {
        for (uint32_t k = 0; k < TENSORS; k++) {
            submit(&all, i, &all.programs[i]->pushes[k], TT_STORE_PUSH, k);
        }
        submit(&all, i, &all.programs[i]->clock, TT_STORE_CLOCK, 0);
    }
    explore(&all, 0);
    print_message("%s, %u servers: %llu states, %llu ends, %llu calls lost, %.1f s\n",
                  scene->policy, scene->servers, (unsigned long long)all.states,
                  (unsigned long long)all.ends, (unsigned long long)all.lost,
                  (double)(clock() - before) / CLOCKS_PER_SEC);
    assert_true(all.ends > 0);
    all.world->frame_count = 0;
    small_destroy(all.world);
    free(all.seen);
}

static void test_servers_own_all(void **state)
{
    (void)state;
    run(&(scenario){.policy = "quorum:2", .servers = 2, .other = 3, .pulls = true});
    run(&(scenario){.policy = "quorum:1", .servers = 2, .other = 3});
}

static void test_workers_own_too(void **state)
{
    (void)state;
    run(&(scenario){.policy = "quorum:2", .servers = 1, .other = 1});
    run(&(scenario){.policy = "quorum:1", .servers = 1, .other = 1});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_servers_own_all),
        cmocka_unit_test(test_workers_own_too),
    };
    (void)mallopt(M_TRIM_THRESHOLD, 256 << 20); /* states are kept and dropped all the time */
    (void)mallopt(M_TOP_PAD, 16 << 20);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
