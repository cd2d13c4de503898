/* SPDX-License-Identifier: Apache-2.0
 *
 * explore.c - see explore.h. */
#include "store/explore.h"

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

enum { WORKERS = 3, CLOCKS_MAX = 4, CHOICES = 128, DEPTH_MAX = 1000, STATES_LOG2 = 24 };

/* ---- programs ---- */

typedef struct program {
    tt_sync_request pull, push, clock;
    bool is_pulling, is_pushing, is_clocking;
    uint32_t completed; /* iterations */
    uint32_t pushes;
    bool is_over, is_broken;
    uint64_t pushed, read;
} program;

typedef enum choice_kind { DELIVER, DELIVER_TWICE, STEP, KILL, STOP, TELL } choice_kind;

typedef struct choice {
    choice_kind kind;
    uint32_t index; /* of a frame, or rank */
} choice;

/* What a choice changes besides the machines. */
typedef struct place {
    uint64_t hashes[SMALL_PROCESSES];
    uint32_t arrived[WORKERS]; /* clocks that have reached the keeper */
    bool is_told[SMALL_PROCESSES];
    uint32_t dead; /* WORKERS: nobody */
    bool is_stopped;
    bool has_doubled;
} place;

typedef struct search {
    const scenario *scene;
    small_world *world;
    tt_policy policy;
    program *programs[WORKERS];
    place here;
    uint64_t *seen; /* open addressing; 0: free */
    uint32_t log2;
    uint64_t states, edges, ends, depth;
} search;

static uint64_t counter(uint32_t worker, uint32_t iteration)
{
    return UINT64_C(1) << (4 * (worker * CLOCKS_MAX + iteration));
}

static uint32_t times(uint64_t value, uint32_t worker, uint32_t iteration)
{
    return (uint32_t)(value / counter(worker, iteration)) & 15;
}

static bool is_async(const search *all)
{
    return all->policy.staleness == TT_STALENESS_ANY;
}

/* Does the keeper wait for this worker? */
static bool counts(const search *all, uint32_t worker)
{
    const uint32_t keeper = tt_split_rank(&all->world->machines[0]->sync->split, 0);
    return all->here.dead != worker || !all->here.is_told[keeper];
}

/* ---- invariants ---- */

/* I1, I2: `ahead` may be so far ahead of the least clock. */
static void judge_clock(const search *all, uint32_t ahead, uint64_t most)
{
    for (uint32_t i = 0; i < WORKERS && !is_async(all); i++) {
        if (counts(all, i) && all->here.arrived[i] + most < all->programs[ahead]->completed) {
            fail_msg("%s: worker %u has completed %u iterations, worker %u %u", all->scene->name,
                     ahead, all->programs[ahead]->completed, i, all->here.arrived[i]);
        }
    }
}

/* The part at its owner. */
static uint64_t owned_value(const search *all)
{
    const uint32_t rank = tt_split_rank(&all->world->machines[0]->sync->split, all->scene->owner);
    const tt_owner_part *part = all->world->machines[rank]->sync->parts[0];
    uint64_t value;
    memcpy(&value, part->values[part->current], sizeof(value));
    return value;
}

/* I10: pushes that were made, the first ones, each once. */
static void judge_once(const search *all, uint64_t value)
{
    for (uint32_t i = 0; i < WORKERS; i++) {
        for (uint32_t k = 0; k < CLOCKS_MAX; k++) {
            const uint32_t found = times(value, i, k);
            if (found > (k < all->programs[i]->pushes ? 1 : 0)) {
                fail_msg("%s: push %u of worker %u is there %u times", all->scene->name, k, i,
                         found);
            }
            if (k > 0 && found > times(value, i, k - 1)) {
                fail_msg("%s: push %u of worker %u is there without the one before",
                         all->scene->name, k, i);
            }
        }
    }
}

static void judge_read(const search *all, uint32_t reader)
{
    program *own = all->programs[reader];
    const uint64_t value = own->read;
    const uint64_t needs = tt_policy_needs(&all->policy, own->completed);
    const bool is_bulk = tt_policy_is_bulk(&all->policy);
    judge_clock(all, reader, all->policy.staleness);
    judge_once(all, value);
    for (uint32_t i = 0; i < WORKERS; i++) {
        for (uint32_t k = 0; k < CLOCKS_MAX; k++) {
            const bool must = i == reader ? k < own->pushes : k < needs && all->here.dead != i;
            if (times(value, i, k) == 0 && must) {
                fail_msg("%s: worker %u at clock %u did not read push %u of worker %u",
                         all->scene->name, reader, own->completed, k, i);
            }
            if (is_bulk && k >= needs && times(value, i, k) != 0) {
                fail_msg("%s: worker %u at clock %u read push %u of worker %u", all->scene->name,
                         reader, own->completed, k, i);
            }
        }
    }
    own->read = 0;
}

/* ---- workers ---- */

/* Others' memory is not touched here: frames are sent, and this rank's own are taken. */
static void finished(tt_sync_request *request)
{
    program *own = request->owner;
    own->is_broken = own->is_broken || request->status != TT_OK;
    if (request == &own->pull) {
        own->is_pulling = false;
    } else if (request == &own->push) {
        own->is_pushing = false;
    } else {
        own->is_clocking = false;
    }
}

static void submit(const search *all, uint32_t rank, tt_sync_request *request, tt_sync_verb verb)
{
    program *own = all->programs[rank];
    *request = (tt_sync_request){.verb = verb,
                                 .name = small_name(all->world, all->scene->owner),
                                 .input = &own->pushed,
                                 .output = &own->read,
                                 .owner = own,
                                 .finished = finished};
    tt_sync_submit(all->world->machines[rank]->sync, request);
}

static void start_push(const search *all, uint32_t rank)
{
    program *own = all->programs[rank];
    own->pushed = counter(rank, own->pushes++);
    own->is_pushing = true;
    submit(all, rank, &own->push, TT_STORE_PUSH);
}

static void start_clock(const search *all, uint32_t rank)
{
    program *own = all->programs[rank];
    own->completed++;
    own->is_clocking = true;
    judge_clock(all, rank, (uint64_t)all->policy.staleness + 1);
    submit(all, rank, &own->clock, TT_STORE_CLOCK);
    if (is_async(all) && own->is_clocking) {
        fail_msg("%s: worker %u waits for its clock", all->scene->name, rank);
    }
}

static void start_pull(const search *all, uint32_t rank)
{
    program *own = all->programs[rank];
    own->is_pulling = true;
    submit(all, rank, &own->pull, TT_STORE_PULL);
}

/* What the worker waited for is over: its next calls. A pull is the first call of an iteration. */
static void proceed(const search *all, uint32_t rank)
{
    program *own = all->programs[rank];
    while (!own->is_over && !own->is_broken && !own->is_pulling && !own->is_clocking) {
        if (own->pushes > own->completed) { /* its push is over, or has been started */
            if (own->is_pushing && !all->scene->is_started) {
                return;
            }
            start_clock(all, rank);
        } else if (own->pull.owner != NULL) {
            judge_read(all, rank);
            own->pull.owner = NULL;
            own->is_over = own->completed == all->scene->clocks;
            if (!own->is_over) {
                start_push(all, rank);
            }
        } else {
            start_pull(all, rank);
        }
    }
}

/* ---- states ---- */

/* Fields that nothing depends on get fixed values, so that more states are equal. */
static void forget_part(search *all, tt_owner_part *part)
{
    tt_owner_store *store = part->key->store;
    part->age = 0;
    part->step %= WORKERS; /* whose turn it is */
    part->sum_staleness = 0;
    part->sum_worker = 0;
    memset(part->sum_spec.options, 0, sizeof(part->sum_spec.options));
    if (!part->is_summing && part->lent[1 - part->current] == 0) {
        memset(part->values[1 - part->current], 0, 8);
    }
    tt_list_init(&store->pulls);
    for (uint32_t i = 0; i < WORKERS; i++) {
        tt_slot *slot = &part->slots[i];
        slot->read_step = 0;
        slot->has_waited = slot->has_waited && is_async(all);
        slot->pull = (tt_list_node){.next = NULL};
        if (slot->is_pulled) {
            tt_list_push_back(&store->pulls, &slot->pull);
        }
        if (slot->phase == TT_SLOT_EMPTY) {
            memset(part->memory + i * (part->values[0] - part->memory) / WORKERS, 0, 8);
        }
    }
}

/* Those that are over; the texts of failures are judged at the end. */
static void forget_requests(program *own)
{
    if (!own->is_pushing && !own->is_broken) {
        own->push = (tt_sync_request){.owner = NULL};
    }
    if (!own->is_clocking && !own->is_broken) {
        own->clock = (tt_sync_request){.owner = NULL};
    }
}

static void forget(search *all, small_machine *machine)
{
    tt_sync *sync = machine->sync;
    tt_owner_store *owned = sync->owned[0];
    sync->age = 0;
    for (uint32_t i = 0; i < sync->part_count; i++) {
        if (sync->parts[i] != NULL) {
            forget_part(all, sync->parts[i]);
        }
    }
    if (owned != NULL) {
        owned->tally = (tt_owner_tally){.dropped = 0};
        owned->set.applied = 0;
        for (uint32_t i = 0; i < WORKERS; i++) {
            tt_owner_worker *one = &owned->workers[i];
            memset(one->clocks + one->clock_count, 0,
                   (OWNER_CLOCKS_MAX - one->clock_count) * sizeof(one->clocks[0]));
        }
    }
    if (sync->stores[0] != NULL) {
        sync->stores[0]->tally = (tt_sync_counts){.clock = 0};
        forget_requests(all->programs[machine->rank]);
    }
}

static uint64_t frame_hash(const small_frame *frame)
{
    tt_head head = frame->head;
    head.flags &= (uint8_t)~TT_SYNC_FLAG_WAITED;
    const uint64_t ends = tt_hash64_mix(frame->from, frame->to);
    const uint64_t what = tt_hash64(&head, sizeof(head), tt_hash64_mix(ends, frame->token));
    return frame->lent != NULL ? what : tt_hash64(frame->bytes, head.payload_bytes, what);
}

static uint64_t state_hash(const search *all)
{
    const place *here = &all->here;
    uint64_t frames = 0, hash = here->dead + (here->is_stopped ? 8 : 0);
    for (uint32_t i = 0; i < all->world->frame_count; i++) {
        frames += frame_hash(&all->world->frames[i]); /* in any order */
    }
    for (uint32_t i = 0; i < all->world->workers + all->world->servers; i++) {
        hash = tt_hash64_mix(hash, here->hashes[i]);
        hash = tt_hash64_mix(hash, here->is_told[i]);
    }
    for (uint32_t i = 0; i < WORKERS; i++) {
        hash = tt_hash64_mix(hash, here->arrived[i]);
    }
    return tt_hash64_mix(tt_hash64_mix(hash, here->has_doubled), frames);
}

/* False: it was there already. */
static bool add_state(search *all, uint64_t key)
{
    const uint64_t mask = (UINT64_C(1) << all->log2) - 1;
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

static bool can_take(const search *all, uint32_t rank)
{
    return !(all->here.is_stopped && all->here.dead == rank);
}

/* Frames to workers that own nothing change those alone. Failures race with answers, until one has
 * arrived. */
static bool is_eager(const search *all, const small_frame *frame)
{
    return all->scene->is_short && frame->to < all->world->workers && !all->scene->no_servers &&
           (all->scene->trouble != TROUBLE_DEATH || !tt_policy_is_bulk(&all->policy) ||
            all->world->machines[frame->to]->sync->stores[0]->status < 0);
}

/* Has the process still to learn that a worker has died or left? */
static bool is_due_to_learn(const search *all, uint32_t rank)
{
    const small_machine *machine = all->world->machines[rank];
    const bool can_learn = all->scene->trouble != TROUBLE_LEAVING ||
                           !small_has_frames(all->world, all->here.dead, rank);
    return all->here.dead < WORKERS && !all->here.is_stopped && !all->here.is_told[rank] &&
           !machine->is_gone && !machine->is_deaf && can_learn;
}

/* A choice that is always the next: it is no branch of the search. */
static bool find_only(const search *all, choice *choice_out)
{
    const small_world *world = all->world;
    for (uint32_t i = 0; i < world->frame_count; i++) {
        if (is_eager(all, &world->frames[i]) && can_take(all, world->frames[i].to)) {
            *choice_out = (choice){.kind = DELIVER, .index = i};
            return true;
        }
    }
    for (uint32_t i = 0; i < world->workers + world->servers; i++) {
        if (all->scene->is_prompt && small_has_step(world->machines[i]) && can_take(all, i)) {
            *choice_out = (choice){.kind = STEP, .index = i};
            return true;
        }
        if (i < WORKERS && all->scene->is_short && !all->scene->no_servers &&
            is_due_to_learn(all, i)) {
            *choice_out = (choice){.kind = TELL, .index = i}; /* it owns nothing */
            return true;
        }
    }
    return false;
}

static uint32_t list_frames(const search *all, choice *choices)
{
    const small_world *world = all->world;
    uint32_t count = 0;
    for (uint32_t i = 0; i < world->frame_count; i++) {
        TT_ASSERT(count + 2 * SMALL_PROCESSES < CHOICES);
        if (can_take(all, world->frames[i].to)) {
            choices[count++] = (choice){.kind = DELIVER, .index = i};
        }
        if (all->scene->trouble == TROUBLE_TWICE && !all->here.has_doubled &&
            world->frames[i].head.kind == TT_SYNC_PUSH) {
            choices[count++] = (choice){.kind = DELIVER_TWICE, .index = i};
        }
    }
    return count;
}

static uint32_t list_choices(const search *all, choice *choices)
{
    const small_world *world = all->world;
    const trouble kind = all->scene->trouble;
    const bool is_end = kind == TROUBLE_DEATH || kind == TROUBLE_LEAVING;
    uint32_t count = list_frames(all, choices);
    for (uint32_t i = 0; i < world->workers + world->servers; i++) {
        const small_machine *machine = world->machines[i];
        if (small_has_step(machine) && can_take(all, i)) {
            choices[count++] = (choice){.kind = STEP, .index = i};
        }
        if (is_due_to_learn(all, i)) {
            choices[count++] = (choice){.kind = TELL, .index = i};
        }
        if (i < WORKERS && all->here.dead == WORKERS &&
            (is_end || (kind == TROUBLE_STOP && !all->programs[i]->is_over))) {
            choices[count++] = (choice){.kind = is_end ? KILL : STOP, .index = i};
        }
    }
    return count;
}

/* The machines that a choice changes, as bits. */
static uint32_t touched(const search *all, choice taken)
{
    const small_world *world = all->world;
    uint32_t bits = 0;
    if (taken.kind == DELIVER || taken.kind == DELIVER_TWICE) {
        const small_frame *frame = &world->frames[taken.index];
        return 1U << frame->to | (frame->lent != NULL ? 1U << frame->from : 0);
    }
    bits = 1U << taken.index;
    for (uint32_t i = 0; i < world->frame_count && taken.kind != STEP; i++) {
        bits |= 1U << world->frames[i].from; /* it may get its payload back */
    }
    return bits;
}

/* What was lent to a stopped worker is in buffers of its link: senders have it back. */
static void copy_frames_to(small_world *world, uint32_t rank)
{
    for (uint32_t i = world->frame_count; i > 0; i--) {
        if (world->frames[i - 1].to == rank) {
            small_drop(world, i - 1);
        }
    }
    world->machines[rank]->is_deaf = true;
}

static void take_frame(search *all, choice taken)
{
    const small_world *world = all->world;
    const small_frame *frame = &world->frames[taken.index];
    const uint32_t keeper = tt_split_rank(&world->machines[0]->sync->split, 0);
    if (frame->head.kind == TT_SYNC_CLOCK && frame->to == keeper) {
        uint32_t *arrived = &all->here.arrived[frame->from];
        *arrived = frame->head.round > *arrived ? frame->head.round : *arrived;
    }
    if (is_async(all) && (frame->head.flags & TT_SYNC_FLAG_WAITED) != 0) {
        fail_msg("%s: a pull of worker %u was held back", all->scene->name, frame->to);
    }
    all->here.has_doubled = all->here.has_doubled || taken.kind == DELIVER_TWICE;
    small_deliver(all->world, taken.index, taken.kind == DELIVER_TWICE);
}

/* Clocks of a worker that is itself the keeper arrive by a plain call. */
static void count_own_clock(search *all)
{
    const uint32_t keeper = tt_split_rank(&all->world->machines[0]->sync->split, 0);
    if (keeper < WORKERS) {
        all->here.arrived[keeper] = all->programs[keeper]->completed;
    }
}

static void take(search *all, choice taken)
{
    small_world *world = all->world;
    const uint32_t bits = touched(all, taken);
    const uint64_t value = owned_value(all);
    switch (taken.kind) {
    case DELIVER:
    case DELIVER_TWICE:
        take_frame(all, taken);
        break;
    case STEP:
        small_step(world->machines[taken.index]);
        break;
    case KILL:
        all->here.dead = taken.index;
        small_kill(world->machines[taken.index]);
        break;
    case STOP:
        all->here.dead = taken.index;
        all->here.is_stopped = true;
        copy_frames_to(world, taken.index);
        break;
    case TELL:
        all->here.is_told[taken.index] = true;
        if (all->scene->trouble == TROUBLE_LEAVING) {
            small_tell_left(world->machines[taken.index], all->here.dead);
        } else {
            small_tell_gone(world->machines[taken.index], all->here.dead);
        }
        break;
    }
    for (uint32_t i = 0; i < world->workers + world->servers; i++) {
        if ((bits >> i & 1) != 0 && i < WORKERS && !world->machines[i]->is_gone &&
            can_take(all, i)) {
            proceed(all, i);
            count_own_clock(all);
        }
    }
    judge_once(all, owned_value(all));
    if ((value & ~owned_value(all)) != 0) { /* I5: answers are sent from the value */
        fail_msg("%s: a push was taken out of the value", all->scene->name);
    }
}

/* ---- ends ---- */

static void judge_broken(const search *all, const program *own)
{
    char words[16];
    const tt_status wanted =
        all->scene->trouble == TROUBLE_LEAVING ? TT_ERR_PEER_LEFT : TT_ERR_PEER_DOWN;
    const tt_sync_request *requests[] = {&own->pull, &own->push, &own->clock};
    (void)snprintf(words, sizeof(words), "(rank %u)", all->here.dead);
    for (uint32_t i = 0; i < 3; i++) {
        if (requests[i]->status != TT_OK &&
            (requests[i]->status != wanted || strstr(requests[i]->error, words) == NULL)) {
            fail_msg("%s: a call failed with %d %s", all->scene->name, (int)requests[i]->status,
                     requests[i]->error);
        }
    }
    assert_false(own->is_pulling || own->is_pushing || own->is_clocking);
}

/* Nothing is left to happen: who waits, waits for the worker that is stopped. */
static void judge_end(search *all)
{
    const place *here = &all->here;
    const bool is_leaving = all->scene->trouble == TROUBLE_LEAVING;
    const bool may_fail =
        here->dead < WORKERS && !here->is_stopped &&
        ((tt_policy_is_bulk(&all->policy) && !is_leaving) || all->scene->no_servers);
    all->ends++;
    for (uint32_t i = 0; i < WORKERS; i++) {
        const program *own = all->programs[i];
        if (i == here->dead || own->is_over) {
            continue;
        }
        if (own->is_broken && may_fail) {
            judge_broken(all, own);
            continue;
        }
        const program *slow = here->is_stopped ? all->programs[here->dead] : NULL;
        const bool waits_for_clock =
            slow != NULL && own->is_clocking && !is_async(all) &&
            own->completed == slow->completed + (uint64_t)all->policy.staleness + 1;
        const bool waits_for_push = slow != NULL && own->is_pushing && !own->is_clocking &&
                                    tt_policy_is_bulk(&all->policy) && slow->pushes < own->pushes;
        if (!waits_for_clock && !waits_for_push) {
            fail_msg("%s: worker %u waits at clock %u for nothing", all->scene->name, i,
                     own->completed);
        }
    }
    const uint32_t rank = tt_split_rank(&all->world->machines[0]->sync->split, all->scene->owner);
    if (rank == here->dead || all->world->machines[rank]->sync->owned[0]->status < 0) {
        return;
    }
    const uint64_t value = owned_value(all);
    judge_once(all, value);
    for (uint32_t i = 0; i < WORKERS; i++) {
        for (uint32_t k = 0; k < all->scene->clocks && all->programs[i]->is_over; k++) {
            if (i != here->dead && times(value, i, k) != 1) {
                fail_msg("%s: push %u of worker %u is lost", all->scene->name, k, i);
            }
        }
    }
    const bool is_whole = is_leaving && here->dead < WORKERS && !all->scene->no_servers;
    for (uint32_t k = 0; is_whole && k < all->programs[here->dead]->pushes; k++) {
        if (times(value, here->dead, k) != 1) {
            fail_msg("%s: push %u of worker %u, which has left, is lost", all->scene->name, k,
                     here->dead);
        }
    }
}

/* ---- the search ---- */

static void explore(search *all, uint32_t depth)
{
    choice choices[CHOICES];
    small_world *world = all->world;
    const uint32_t count = list_choices(all, choices);
    TT_ASSERT(depth < DEPTH_MAX);
    all->depth = depth > all->depth ? depth : all->depth;
    if (count == 0) {
        judge_end(all);
        return;
    }
    const place here = all->here;
    const uint32_t frame_count = world->frame_count;
    const uint64_t sent = world->sent;
    small_frame *frames = malloc((frame_count + 1) * sizeof(*frames));
    assert_non_null(frames);
    memcpy(frames, world->frames, frame_count * sizeof(*frames));
    for (uint32_t i = 0; i < count; i++) {
        small_copy *copies[SMALL_PROCESSES] = {NULL};
        choice taken = choices[i];
        do {
            const uint32_t bits = touched(all, taken);
            for (uint32_t k = 0; k < world->workers + world->servers; k++) {
                if ((bits >> k & 1) != 0 && copies[k] == NULL) {
                    copies[k] = small_keep(world->machines[k]);
                }
            }
            take(all, taken);
            all->edges++;
        } while (find_only(all, &taken));
        for (uint32_t k = 0; k < world->workers + world->servers; k++) {
            if (copies[k] != NULL) {
                forget(all, world->machines[k]);
                all->here.hashes[k] = small_hash(world->machines[k]);
            }
        }
        if (add_state(all, state_hash(all))) {
            explore(all, depth + 1);
        }
        for (uint32_t k = 0; k < world->workers + world->servers; k++) {
            if (copies[k] != NULL) {
                small_restore(world->machines[k], copies[k]);
            }
        }
        all->here = here;
        world->sent = sent;
        world->frame_count = frame_count;
        memcpy(world->frames, frames, frame_count * sizeof(*frames));
    }
    free(frames);
}

/* Open the store and add the tensor, in the order of sending. */
static void set_up(search *all)
{
    small_world *world = all->world;
    static const uint64_t first;
    const char *name = small_name(world, all->scene->owner);
    tt_sync_request *requests[WORKERS];
    for (uint32_t i = 0; i < WORKERS; i++) {
        all->programs[i] = small_allocate(world->machines[i], sizeof(program));
        requests[i] = &all->programs[i]->clock;
        *requests[i] = (tt_sync_request){.verb = TT_STORE_OPEN,
                                         .policy = all->scene->policy,
                                         .update = "add",
                                         .owner = all->programs[i],
                                         .finished = finished};
        tt_sync_submit(world->machines[i]->sync, requests[i]);
    }
    small_run(world);
    for (uint32_t i = 0; i < WORKERS; i++) {
        *requests[i] = (tt_sync_request){.verb = TT_STORE_ADD,
                                         .name = name,
                                         .dtype = TT_I64,
                                         .count = 1,
                                         .input = &first,
                                         .owner = all->programs[i],
                                         .finished = finished};
        tt_sync_submit(world->machines[i]->sync, requests[i]);
    }
    small_run(world);
    for (uint32_t i = 0; i < WORKERS; i++) {
        assert_false(all->programs[i]->is_broken);
        assert_int_equal(tt_sync_pending(world->machines[i]->sync), 0);
    }
    const tt_split *split = &world->machines[0]->sync->split;
    for (uint32_t owner = 1; owner < split->owners; owner++) {
        const uint32_t rank = tt_split_rank(split, owner);
        world->machines[rank]->is_deaf = owner != all->scene->owner && rank >= WORKERS;
    }
}

void explore_run(const scenario *scene)
{
    tt_text why = {0};
    search all = {.scene = scene, .log2 = STATES_LOG2, .here = {.dead = WORKERS}};
    const clock_t before = clock();
    assert_int_equal(tt_policy_parse(scene->policy, WORKERS, &all.policy, &why), TT_OK);
    all.seen = calloc((size_t)1 << all.log2, sizeof(uint64_t));
    assert_non_null(all.seen);
    all.world = small_create(WORKERS, scene->no_servers ? 0 : WORKERS);
    set_up(&all);
    for (uint32_t i = 0; i < WORKERS; i++) {
        proceed(&all, i);
        count_own_clock(&all);
    }
    for (uint32_t i = 0; i < all.world->workers + all.world->servers; i++) {
        forget(&all, all.world->machines[i]);
        all.here.hashes[i] = small_hash(all.world->machines[i]);
    }
    explore(&all, 0);
    assert_true(all.ends > 0);
    print_message("%s, %s, %u clocks: %llu states, %llu edges, %llu ends, depth %llu, %.1f s\n",
                  scene->name, scene->policy, scene->clocks, (unsigned long long)all.states,
                  (unsigned long long)all.edges, (unsigned long long)all.ends,
                  (unsigned long long)all.depth, (double)(clock() - before) / CLOCKS_PER_SEC);
    all.world->frame_count = 0;
    small_destroy(all.world);
    free(all.seen);
}
