/* SPDX-License-Identifier: Apache-2.0
 *
 * crew.c - see crew.h.
 *
 * `state` is a bit OPEN and the number of helpers inside. A helper adds itself while OPEN is set,
 * in one compare-and-exchange; the caller clears OPEN and waits for zero. So the job's fields are
 * written only while no helper is inside, and read only from inside.
 *
 * `bell` counts jobs. A helper that finds no part left waits for another count: entering the same
 * job again would only move the cache line between cores. Sleeper: sleepers + 1, then read the bell
 * (the kernel does). Caller: bell + 1, then read sleepers. Both are read-modify-write, so one of
 * the two sees the other.
 *
 * Tasks have numbered places. Only the caller allocates and frees places (`taken`); a bit of
 * `posted` marks a task that waits, and the thread that clears the bit runs the task. So every task
 * runs exactly once, and a place is filled only while its bit is clear. */
#include "platform/crew.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/base.h"

enum {
    STACK_BYTES = 256 * 1024,
    PART_BYTES_MIN = 32 * 1024,
    PART_ALIGN = 4096,
    ALONE_PART_BYTES = 64 * 1024, /* some 5 to 15 us */
    PARTS_PER_HAND = 4,           /* slower threads take fewer */
    IDLE_SPIN_NS = 40 * 1000,     /* longer than the pause between two steps of a call */
    TASK_SPIN_NS = 120 * 1000,    /* the same after tasks: between two frames of a fast link */
    IDLE_SPIN_LOOK = 64,          /* pauses between reads of the clock */
    CLOSE_SPINS = 2000,           /* pauses before the caller yields to helpers still in a part */
};

#define OPEN (UINT32_C(1) << 31)
#define NO_PLACE UINT32_MAX

_Static_assert(TT_CREW_TASKS_MAX == 64, "a bit of a word each");

typedef struct crew_place {
    _Alignas(64) tt_task *task;
    _Atomic bool is_done;
} crew_place;

struct tt_crew {
    tt_crew_config config;
    uint32_t helper_count;
    bool is_started;
    pthread_t helpers[TT_HANDS_MAX];
    tt_work_order order; /* of the open job */
    uint64_t part_bytes;
    _Alignas(64) _Atomic uint32_t state;
    _Alignas(64) _Atomic uint64_t next; /* first unclaimed byte */
    _Alignas(64) _Atomic uint32_t bell;
    _Atomic uint32_t sleepers;
    _Atomic bool is_over;
    _Alignas(64) _Atomic uint64_t posted; /* places whose task has not begun */
    _Alignas(64) uint64_t taken;          /* the caller's: places in use */
    crew_place places[TT_CREW_TASKS_MAX];
};

typedef struct crew_helper {
    tt_crew *crew;
    uint32_t hand;
} crew_helper;

static uint64_t clock_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static bool take_part(tt_crew *crew, uint32_t hand)
{
    const tt_work_order *order = &crew->order;
    const uint64_t first =
        atomic_fetch_add_explicit(&crew->next, crew->part_bytes, memory_order_relaxed);
    if (first >= order->bytes) {
        return false;
    }
    order->part(order->argument, hand, first, tt_min_u64(crew->part_bytes, order->bytes - first));
    return true;
}

static bool is_called(const tt_call_away *away)
{
    return away->is_called != NULL && away->is_called(away->owner);
}

/* Help with the job that is open, if one is. */
static void help(tt_crew *crew, uint32_t hand)
{
    uint32_t state = atomic_load_explicit(&crew->state, memory_order_relaxed);
    while ((state & OPEN) != 0) {
        if (atomic_compare_exchange_weak_explicit(&crew->state, &state, state + 1,
                                                  memory_order_acquire, memory_order_relaxed)) {
            while (take_part(crew, hand)) {
            }
            (void)atomic_fetch_sub_explicit(&crew->state, 1, memory_order_release);
            return;
        }
    }
}

/* Runs the task at `index` unless a thread has begun it. */
static bool take_task(tt_crew *crew, uint32_t index)
{
    const uint64_t bit = UINT64_C(1) << index;
    if ((atomic_fetch_and_explicit(&crew->posted, ~bit, memory_order_acquire) & bit) == 0) {
        return false;
    }
    crew_place *place = &crew->places[index];
    place->task->run(place->task);
    atomic_store_explicit(&place->is_done, true, memory_order_release);
    return true;
}

/* Runs any one waiting task. False: there is none. */
static bool take_any_task(tt_crew *crew)
{
    uint64_t posted = atomic_load_explicit(&crew->posted, memory_order_relaxed);
    while (posted != 0) {
        if (take_task(crew, (uint32_t)__builtin_ctzll(posted))) {
            return true;
        }
        posted = atomic_load_explicit(&crew->posted, memory_order_relaxed);
    }
    return false;
}

static bool is_quiet(tt_crew *crew, uint32_t seen)
{
    return atomic_load_explicit(&crew->bell, memory_order_acquire) == seen &&
           !atomic_load_explicit(&crew->is_over, memory_order_acquire);
}

static void await_bell(tt_crew *crew, uint32_t seen, uint64_t spin_ns)
{
    const uint64_t until_ns = crew->config.spins ? clock_ns() + spin_ns : 0;
    while (crew->config.spins && is_quiet(crew, seen) && clock_ns() < until_ns) {
        for (int i = 0; i < IDLE_SPIN_LOOK && is_quiet(crew, seen); i++) {
            tt_relax();
        }
    }
    while (is_quiet(crew, seen)) {
        (void)atomic_fetch_add(&crew->sleepers, 1);
        (void)syscall(SYS_futex, &crew->bell, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
        (void)atomic_fetch_sub(&crew->sleepers, 1);
    }
}

static void *helper_main(void *argument)
{
    const crew_helper self = *(crew_helper *)argument;
    tt_crew *crew = self.crew;
    free(argument);
    uint32_t seen = 0; /* helpers are started by the first job, whose count is 1 */
    uint64_t spin_ns = IDLE_SPIN_NS;
    while (!atomic_load_explicit(&crew->is_over, memory_order_acquire)) {
        await_bell(crew, seen, spin_ns);
        seen = atomic_load_explicit(&crew->bell, memory_order_acquire);
        spin_ns = IDLE_SPIN_NS;
        help(crew, self.hand);
        while (take_any_task(crew)) {
            spin_ns = TASK_SPIN_NS;
            help(crew, self.hand); /* jobs first: the caller waits for them */
        }
    }
    return NULL;
}

static void ring(tt_crew *crew, int helpers_max)
{
    (void)atomic_fetch_add(&crew->bell, 1);
    if (atomic_load(&crew->sleepers) > 0) {
        (void)syscall(SYS_futex, &crew->bell, FUTEX_WAKE_PRIVATE, helpers_max, NULL, NULL, 0);
    }
}

static bool start_helper(tt_crew *crew, uint32_t hand)
{
    pthread_attr_t attributes;
    crew_helper *helper = malloc(sizeof(*helper));
    if (helper == NULL) {
        return false;
    }
    *helper = (crew_helper){.crew = crew, .hand = hand};
    (void)pthread_attr_init(&attributes);
    (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
    (void)pthread_attr_setaffinity_np(&attributes, sizeof(crew->config.cores), &crew->config.cores);
    const int failed = pthread_create(&crew->helpers[hand - 1], &attributes, helper_main, helper);
    (void)pthread_attr_destroy(&attributes);
    if (failed != 0) {
        free(helper);
        return false;
    }
    (void)pthread_setname_np(crew->helpers[hand - 1], "tutti-hand");
    return true;
}

/* Helpers block all signals: those are for the program's threads. */
static void start_helpers(tt_crew *crew)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    while (crew->helper_count + 1 < crew->config.hand_count &&
           start_helper(crew, crew->helper_count + 1)) {
        crew->helper_count++;
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    crew->is_started = true;
}

tt_status tt_crew_create(const tt_crew_config *config, tt_crew **crew_out)
{
    TT_ASSERT(config->hand_count >= 1);
    TT_ASSERT(config->hand_count <= TT_HANDS_MAX);
    tt_crew *crew = aligned_alloc(64, sizeof(*crew));
    if (crew == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    *crew = (tt_crew){.config = *config};
    *crew_out = crew;
    return TT_OK;
}

/* Wait for helpers still in a part: it is short, and their cores were free a moment ago. */
static void close_job(tt_crew *crew)
{
    uint32_t state = atomic_fetch_and_explicit(&crew->state, ~OPEN, memory_order_acquire) & ~OPEN;
    for (int i = 0; state != 0; i++) {
        if (i < CLOSE_SPINS) {
            tt_relax();
        } else {
            (void)sched_yield();
        }
        state = atomic_load_explicit(&crew->state, memory_order_acquire);
    }
}

/* Runs the caller's parts, then ends claiming. Returns the bytes claimed. */
static uint64_t take_until_called(tt_crew *crew)
{
    while (take_part(crew, 0) && !is_called(&crew->config.away)) {
    }
    return tt_min_u64(crew->order.bytes, atomic_exchange_explicit(&crew->next, crew->order.bytes,
                                                                  memory_order_relaxed));
}

uint64_t tt_crew_run(tt_crew *crew, const tt_work_order *order)
{
    const uint64_t share = order->bytes / ((uint64_t)crew->config.hand_count * PARTS_PER_HAND);
    crew->order = *order;
    crew->part_bytes = tt_round_up(tt_max_u64(share, PART_BYTES_MIN), PART_ALIGN);
    atomic_store_explicit(&crew->next, 0, memory_order_relaxed);
    (void)atomic_fetch_or_explicit(&crew->state, OPEN, memory_order_release);
    ring(crew, INT32_MAX);
    if (!crew->is_started) {
        start_helpers(crew);
    }
    const uint64_t done = take_until_called(crew);
    close_job(crew);
    return done;
}

uint64_t tt_crew_run_alone(const tt_call_away *away, const tt_work_order *order)
{
    uint64_t done = 0;
    do {
        const uint64_t bytes = tt_min_u64(ALONE_PART_BYTES, order->bytes - done);
        order->part(order->argument, 0, done, bytes);
        done += bytes;
    } while (done < order->bytes && !is_called(away));
    return done;
}

void tt_crew_post(tt_crew *crew, tt_task *task)
{
    task->ticket = NO_PLACE;
    if (crew->taken == UINT64_MAX) {
        return;
    }
    task->ticket = (uint32_t)__builtin_ctzll(~crew->taken);
    const uint64_t bit = UINT64_C(1) << task->ticket;
    crew_place *place = &crew->places[task->ticket];
    crew->taken |= bit;
    place->task = task;
    atomic_store_explicit(&place->is_done, false, memory_order_relaxed);
    (void)atomic_fetch_or_explicit(&crew->posted, bit, memory_order_release);
}

void tt_crew_call(tt_crew *crew)
{
    const uint64_t posted = atomic_load_explicit(&crew->posted, memory_order_relaxed);
    const bool is_single = (posted & (posted - 1)) == 0;
    if (is_single && (!crew->is_started || atomic_load(&crew->sleepers) > 0)) {
        return; /* the caller is done before a helper is awake */
    }
    ring(crew, __builtin_popcountll(posted));
    if (!crew->is_started) {
        start_helpers(crew);
    }
}

bool tt_crew_is_done(const tt_crew *crew, const tt_task *task)
{
    return task->ticket != NO_PLACE &&
           atomic_load_explicit(&crew->places[task->ticket].is_done, memory_order_acquire);
}

void tt_crew_finish(tt_crew *crew, tt_task *task)
{
    const uint32_t index = task->ticket;
    if (index == NO_PLACE) {
        task->run(task);
        return;
    }
    if (!tt_crew_is_done(crew, task)) {
        (void)take_task(crew, index);
    }
    /* Another thread runs it: other tasks are a better use of the time than waiting. */
    for (int i = 0; !tt_crew_is_done(crew, task); i++) {
        if (take_any_task(crew)) {
            i = 0;
        } else if (i < CLOSE_SPINS) {
            tt_relax();
        } else {
            (void)sched_yield();
        }
    }
    crew->taken &= ~(UINT64_C(1) << index);
}

uint32_t tt_crew_helpers(const tt_crew *crew)
{
    return crew->helper_count;
}

void tt_crew_destroy(tt_crew *crew)
{
    if (crew == NULL) {
        return;
    }
    atomic_store(&crew->is_over, true);
    ring(crew, INT32_MAX);
    for (uint32_t i = 0; i < crew->helper_count; i++) {
        (void)pthread_join(crew->helpers[i], NULL);
    }
    free(crew);
}
