/* SPDX-License-Identifier: Apache-2.0
 *
 * real_sleep.c - waiting without burning: spin, yield, sleep, and being woken.
 *
 * Nobody misses a line: the word says ASLEEP, with a full barrier, before the rings are looked at
 * for the last time; senders store their line, with a full barrier, before they read the word.
 * The sleep itself is a poll of the epoll descriptor: it takes no events away, so that it can be
 * done without the baton. Several threads may sleep; a wake is for all of them, so it is taken
 * away only when none of them sleeps any more (real_epoll.c).
 */
#include <poll.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/base.h"
#include "platform/real_internal.h"

enum {
    LOOK_NAP_NS_MAX = 2 * 1000 * 1000, /* a look takes some 10 us: one percent of a core at most */
    SPIN_NS_MIN = 5 * 1000,
    SPIN_NS_MAX = 50 * 1000,
    SPIN_WORTH_NS = 100 * 1000,  /* a wait so short, being woken included, was worth a spin */
    YIELD_NS = 100 * 1000,       /* of this core's time, where a host's ranks outnumber its cores */
    YIELD_WALL_NS = 1000 * 1000, /* by the clock: others that compute may keep the core for long */
    YIELD_OWN_NS = 1500,         /* a yield that took longer ran somebody else */
    SOCKET_WORTH = 4,            /* spins: news by sockets take longer, as does a look */
    YIELD_LONG_NS = 1000 * 1000, /* one that took so long ran somebody who computes: a time slice */
    LONG_WORTH = 4,              /* short ones that a long one outweighs */
    SHARED_SCORE = 16,           /* of long ones less short ones: the core is shared, */
    SHARED_NS = 100 * 1000 * 1000, /* for so long */
    BURST_LOOKS = 64,              /* of a spin before its first yield: some microseconds */
    GLANCES = 16,                  /* of them, at memory alone, between two passes */
};

static const uint64_t NS_PER_S = 1000000000;

static void set_awake(tt_real *real, tt_wake awake)
{
    if (atomic_load_explicit(real->wake_word, memory_order_relaxed) == TT_WAKE_ASLEEP) {
        atomic_exchange_explicit(real->wake_word, (uint32_t)awake, memory_order_seq_cst);
    }
}

/* A spin that was answered earns the next one more time, a vain one less. */
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
        /* It went to sleep when peers were told to ring; now they are not. */
        tt_real_wake(real);
    }
}

/* Links that must be told before somebody sleeps on their descriptors; false: there is work. */
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
    /* Else two ranks that answer each other in the time it takes to wake would sleep for ever. */
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
    /* A full counter has rung already. */
    (void)!write(real->event_fd, &one, sizeof one);
}

/* A wait that finds nothing new. Its first passes only pause: an answer of a peer that runs is
 * here within a microsecond. Later ones yield, even where every rank has a core by count: the
 * kernel may have put two of them on one, and then the one that spins keeps the other from
 * answering. What others ran for meanwhile is not counted as burnt; looking is, however long it
 * takes: it may be a system call for each socket.
 *
 * Who yields to a program that computes, such as a loader of data, is back a time slice later, in
 * each wait anew; a sleeper is put before it when woken. So where yields take slices again and
 * again nobody yields for a while. A peer that computes makes a few of them long, too. */
typedef struct quiet_time {
    uint64_t since_ns, last_ns; /* 0: no yield yet */
    uint64_t burnt_ns;
    uint32_t burst; /* looks left before the first yield */
} quiet_time;

/* Might a pass find something? One load per ring. */
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

/* An engine without a descriptor moves nothing unless it is asked: who waits keeps asking, as the
 * engine's own wait would. Dead peers show at a descriptor, stopped ones by a watch: both are
 * looked for by the clock, since on a busy machine each of these passes may take milliseconds. */
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
        real->shared_score -= LONG_WORTH; /* the next long one is enough */
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

/* True: enough is enough. */
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
