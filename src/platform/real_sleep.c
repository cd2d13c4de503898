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
    SPIN_NS_MIN = 5 * 1000,
    SPIN_NS_MAX = 50 * 1000,
    SPIN_WORTH_NS = 100 * 1000, /* a wait so short, being woken included, was worth a spin */
    YIELD_NS = 100 * 1000,
    CLOCK_PASSES = 16, /* a power of two: while spinning, the clock is read this seldom */
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

bool tt_real_sleep_begin(tt_real *real, uint64_t until_ns, uint64_t *until_ns_out)
{
    atomic_exchange_explicit(real->wake_word, TT_WAKE_ASLEEP, memory_order_seq_cst);
    real->look = true;
    if (tt_real_poll(real)) {
        tt_real_drive(real);
        return false;
    }
    *until_ns_out = tt_min_u64(until_ns, real->timer_at_ns);
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

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

bool tt_real_spin(tt_real *real, bool (*done)(void *), void *argument, uint64_t until_ns)
{
    const uint64_t quiet_ns_max = real->spins ? real->spin_ns : YIELD_NS;
    uint64_t quiet_since_ns = 0; /* 0: take the time at the next look at the clock */
    for (uint32_t pass = 0; !done(argument); pass++) {
        if (tt_real_poll(real)) {
            quiet_since_ns = 0;
            continue;
        }
        if (!real->spins) {
            sched_yield();
        } else {
            relax();
            if ((pass & (CLOCK_PASSES - 1)) != 0) {
                continue;
            }
        }
        const uint64_t now_ns = tt_real_clock();
        if (quiet_since_ns == 0) {
            quiet_since_ns = now_ns;
        }
        if (now_ns - quiet_since_ns >= quiet_ns_max || now_ns >= until_ns) {
            learn(real, false);
            real->quiet_since_ns = quiet_since_ns;
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
