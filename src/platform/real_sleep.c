/* SPDX-License-Identifier: Apache-2.0
 *
 * real_sleep.c - waiting without burning CPU: spin, yield, sleep and wake.
 *
 * No wake-up is lost: the word is set to ASLEEP, with a full barrier, before the rings are checked
 * for the last time; senders store their line, with a full barrier, before they read the word.
 * The sleep itself is a poll of the epoll descriptor: it consumes no events, so it needs no baton.
 * Several threads may sleep; a wake is for all of them, so it is consumed only when none of them
 * sleeps any more (real_epoll.c).
 */
#include <poll.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/base.h"
#include "platform/real_internal.h"

enum {
    LOOK_NAP_NS_MAX = 2 * 1000 * 1000, /* a poll takes some 10 us: at most one percent of a core */
    SPIN_NS_MIN = 5 * 1000,
    SPIN_NS_MAX = 50 * 1000,
    SPIN_WORTH_NS = 100 * 1000,  /* a wait this short, wake-up included, was worth a spin */
    YIELD_NS = 100 * 1000,       /* of this core's time, where a host's ranks outnumber its cores */
    YIELD_WALL_NS = 1000 * 1000, /* by the clock: other threads may compute on the core for long */
    YIELD_OWN_NS = 1500,         /* a longer yield ran another thread */
    SOCKET_WORTH = 4,            /* times spin_ns with sockets, which are slower, as is epoll */
    YIELD_LONG_NS = 1000 * 1000, /* a yield this long ran a computing thread: a time slice */
    LONG_WORTH = 4,              /* one long yield counts as much as so many short ones */
    SHARED_SCORE = 16,           /* long yields less short ones: the core counts as shared */
    SHARED_NS = 100 * 1000 * 1000, /* for this long */
    BURST_LOOKS = 64,              /* checks of a spin before its first yield: some microseconds */
    GLANCES = 16,                  /* of them, at memory only, between two passes */
};

static const uint64_t NS_PER_S = 1000000000;

static void set_awake(tt_real *real, tt_wake awake)
{
    if (atomic_load_explicit(real->wake_word, memory_order_relaxed) == TT_WAKE_ASLEEP) {
        atomic_exchange_explicit(real->wake_word, (uint32_t)awake, memory_order_seq_cst);
    }
}

/* A spin that saw an event doubles the next one; one that saw none shortens it. */
static void learn(tt_real *real, bool answered)
{
    const uint64_t spin_ns = answered ? real->spin_ns * 2 : real->spin_ns * 3 / 4;
    real->spin_ns = tt_max_u64(SPIN_NS_MIN, tt_min_u64(SPIN_NS_MAX, spin_ns));
}

void tt_real_drive(tt_real *real)
{
    if (real->board != NULL) {
        tt_board_expect(real->board);
    }
    set_awake(real, TT_WAKE_DRIVING);
}

void tt_real_linger(tt_real *real)
{
    set_awake(real, TT_WAKE_LINGERING);
    if (atomic_load(&real->sleepers) > 0) {
        /* It sleeps because peers would ring; from now on they do not. */
        tt_real_wake(real);
    }
}

/* Arms links that need it before a sleep on their descriptors; false: there is work. */
static bool arm_links(tt_real *real)
{
    bool is_armed = true;
    for (uint32_t i = 0; i < real->memory_count; i++) {
        tt_link *link = real->peers[real->memory_peers[i]].given.link;
        is_armed = (link->ops->arm == NULL || link->ops->arm(link)) && is_armed;
    }
    return is_armed;
}

bool tt_real_sleep_begin(tt_real *real, uint64_t until_ns, uint64_t *until_ns_out)
{
    atomic_exchange_explicit(real->wake_word, TT_WAKE_ASLEEP, memory_order_seq_cst);
    real->look = true;
    if (tt_real_poll(real) || !arm_links(real)) {
        tt_real_drive(real);
        return false;
    }
    *until_ns_out = tt_min_u64(until_ns, real->timer_at_ns);
    if (real->must_look) {
        *until_ns_out = tt_min_u64(*until_ns_out, tt_real_clock() + real->look_nap);
        real->look_nap = tt_min_u64(2 * real->look_nap, LOOK_NAP_NS_MAX);
    }
    if (tt_real_engine_is_busy(real)) {
        *until_ns_out = tt_min_u64(*until_ns_out, tt_real_engine_due(real));
    }
    atomic_fetch_add(&real->sleepers, 1);
    return true;
}

void tt_real_sleep_block(tt_real *real, uint64_t until_ns)
{
    struct pollfd watch = {.fd = real->epoll_fd, .events = POLLIN};
    const uint64_t now_ns = until_ns == UINT64_MAX ? 0 : tt_real_clock();
    const uint64_t left_ns = until_ns > now_ns ? until_ns - now_ns : 0;
    const struct timespec left = {.tv_sec = (time_t)(left_ns / NS_PER_S),
                                  .tv_nsec = (long)(left_ns % NS_PER_S)};
    (void)ppoll(&watch, 1, until_ns == UINT64_MAX ? NULL : &left, NULL);
    const uint32_t before = atomic_fetch_sub(&real->sleepers, 1);
    TT_ASSERT(before > 0);
}

void tt_real_sleep_end(tt_real *real)
{
    /* Otherwise two ranks that reply to each other within a wake-up's time would always sleep. */
    if (real->spins && tt_real_clock() - real->quiet_since_ns < SPIN_WORTH_NS) {
        learn(real, true);
    }
    tt_real_drive(real);
    real->look = true;
}

void tt_real_sleep(tt_real *real, uint64_t until_ns)
{
    if (tt_real_sleep_begin(real, until_ns, &until_ns)) {
        tt_real_sleep_block(real, until_ns);
        tt_real_sleep_end(real);
    }
}

void tt_real_wake(tt_real *real)
{
    const uint64_t one = 1;
    /* If the counter is full, the descriptor is readable already. */
    (void)!write(real->event_fd, &one, sizeof one);
}

/* A wait without events. Its first passes only pause: a running peer replies within a microsecond.
 * Later ones yield, even if there are as many cores as ranks: the kernel may have put two ranks on
 * one core, where the one that spins keeps the other from replying. Time that other threads ran is
 * not counted as burnt; polling is, however long it takes: it may be a system call per socket.
 *
 * A thread that yields to a computing one, such as a data loader, resumes only a time slice later,
 * in each wait; a woken sleeper preempts it. So after repeated long yields this rank sleeps instead
 * of yielding for a while. A computing peer also causes a few long yields. */
typedef struct quiet_time {
    uint64_t since_ns, last_ns; /* 0: no yield yet */
    uint64_t burnt_ns;
    uint32_t burst; /* checks left before the first yield */
} quiet_time;

/* May a pass find anything? One load per ring. */
static bool has_mail(const tt_real *real)
{
    for (uint32_t i = 0; i < real->memory_count; i++) {
        if (!tt_link_is_quiet(real->peers[real->memory_peers[i]].given.link)) {
            return true;
        }
    }
    return real->memory_count == 0 || real->socket_count > 0 || real->ready_count > 0 ||
           tt_real_engine_is_busy(real);
}

/* An engine without a descriptor makes no progress unless polled: the waiting thread keeps polling,
 * as the engine's own wait would. Dead peers are found by epoll, stopped ones by a watch: both are
 * checked by the clock, since on a busy machine each of these passes may take milliseconds. */
static void ask_on(tt_real *real, quiet_time *quiet, uint64_t now_ns)
{
    if (now_ns - quiet->since_ns >= YIELD_WALL_NS) {
        quiet->since_ns = now_ns;
        real->look = true;
        (void)tt_real_watch(real);
    }
}

static void note_yield(tt_real *real, uint64_t now_ns, uint64_t took_ns)
{
    if (took_ns < YIELD_LONG_NS) {
        real->shared_score -= real->shared_score > 0 ? 1 : 0;
        return;
    }
    real->shared_score += LONG_WORTH;
    if (real->shared_score >= SHARED_SCORE) {
        real->shared_score -= LONG_WORTH; /* one more long yield reaches the score again */
        real->shared_until_ns = now_ns + SHARED_NS;
    }
}

static uint64_t burn_most_ns(const tt_real *real)
{
    if (!real->spins && real->memory_count > 0) {
        return YIELD_NS;
    }
    return real->socket_count > 0 ? SOCKET_WORTH * real->spin_ns : real->spin_ns;
}

/* True: the spin ends. */
static bool quiet_pass(tt_real *real, quiet_time *quiet, uint64_t until_ns)
{
    if (quiet->burst > 0) {
        do {
            tt_relax();
            quiet->burst--;
        } while (quiet->burst % GLANCES != 0 && !has_mail(real));
        return false;
    }
    const bool must_ask = tt_real_engine_must_ask(real);
    if (quiet->since_ns == 0) {
        quiet->since_ns = quiet->last_ns = tt_real_clock();
        if (quiet->since_ns < real->shared_until_ns && !must_ask) {
            return true;
        }
    }
    const uint64_t looked_ns = tt_real_clock();
    sched_yield();
    const uint64_t now_ns = tt_real_clock();
    note_yield(real, now_ns, now_ns - looked_ns);
    tt_real_place_look(real, now_ns);
    quiet->burnt_ns += looked_ns - quiet->last_ns + tt_min_u64(now_ns - looked_ns, YIELD_OWN_NS);
    quiet->last_ns = now_ns;
    const bool is_vain =
        quiet->burnt_ns >= burn_most_ns(real) || now_ns - quiet->since_ns >= YIELD_WALL_NS;
    if (must_ask) {
        ask_on(real, quiet, now_ns);
        return now_ns >= until_ns;
    }
    return is_vain || now_ns >= until_ns;
}

bool tt_real_spin(tt_real *real, bool (*done)(void *), void *argument, uint64_t until_ns)
{
    const quiet_time begin = {.burst = real->spins ? BURST_LOOKS : 0};
    quiet_time quiet = begin;
    while (!done(argument)) {
        if (tt_real_poll_memory(real, done, argument)) {
            quiet = begin;
        } else if (quiet_pass(real, &quiet, until_ns)) {
            learn(real, false);
            real->quiet_since_ns = quiet.since_ns;
            return done(argument);
        }
    }
    learn(real, true);
    return true;
}

tt_status tt_real_wait(tt_real *real, bool (*done)(void *), void *argument, uint64_t until_ns)
{
    while (!tt_real_spin(real, done, argument, until_ns)) {
        const uint64_t watch_at_ns = tt_real_watch(real);
        if (tt_real_clock() >= until_ns) {
            return TT_ERR_TIMED_OUT;
        }
        tt_real_sleep(real, tt_min_u64(until_ns, watch_at_ns));
    }
    return TT_OK;
}
