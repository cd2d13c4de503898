/* SPDX-License-Identifier: Apache-2.0
 *
 * wakeups.c - what of an urgent call's time in shared memory is the kernel's: the same threads
 * without the library.
 *
 * Two processes of two threads each, as many threads as the kernel likes on a core. The worker sums
 * pieces of 256 KB and checks, after each, for a request; then it notifies the other
 * process's worker, sums pieces of 32 KB until that one has told it, too, and wakes its asker. The
 * asker sleeps to an instant that both share, asks, and sleeps on a futex. So an answer takes what
 * is left of a piece, and two wake-ups on cores that are busy.
 *
 *   bench-wakeups [CALLS]   medians and most of: timers late, both met, asker woken, in all */
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench/common/clock.h"

enum {
    CALLS_MAX = 1000,
    PIECE = 256 * 1024,
    SMALL_PIECE = 32 * 1024,
    HALF = 64 * 1024 * 1024, /* bytes of each of the two vectors: no cache holds them */
    GAP_NS = 4 * 1000 * 1000,
};

typedef struct shared {
    _Atomic int told[2][CALLS_MAX];
    int64_t asked_ns[2][CALLS_MAX], met_ns[2][CALLS_MAX], woken_ns[2][CALLS_MAX];
    _Atomic int is_ready[2];
    _Atomic int64_t begin_ns;
} shared;

typedef struct process {
    shared *all;
    int self, calls;
    float *target, *source;
    uint64_t at; /* next byte to sum */
    _Atomic int asked, answered, stops;
} process;

static void sum(process *it, uint64_t bytes)
{
    it->at = it->at + bytes > HALF ? 0 : it->at;
    const uint64_t first = it->at / sizeof(float);
    for (uint64_t i = first; i < first + bytes / sizeof(float); i++) {
        it->target[i] += it->source[i];
    }
    it->at += bytes;
}

static void *work(void *argument)
{
    process *it = argument;
    for (int call = 0; atomic_load(&it->stops) == 0;) {
        sum(it, PIECE);
        if (atomic_load(&it->asked) <= call) {
            continue;
        }
        atomic_store(&it->all->told[it->self][call], 1);
        while (atomic_load(&it->all->told[1 - it->self][call]) == 0) {
            sum(it, SMALL_PIECE);
        }
        it->all->met_ns[it->self][call] = bench_now_ns();
        atomic_store(&it->answered, ++call);
        (void)syscall(SYS_futex, &it->answered, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    }
    return NULL;
}

static void ask(process *it, int call)
{
    const int64_t at_ns = atomic_load(&it->all->begin_ns) + (int64_t)(call + 1) * GAP_NS;
    const struct timespec at = {.tv_sec = at_ns / 1000000000, .tv_nsec = at_ns % 1000000000};
    (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
    it->all->asked_ns[it->self][call] = bench_now_ns();
    atomic_store(&it->asked, call + 1);
    while (atomic_load(&it->answered) <= call) {
        (void)syscall(SYS_futex, &it->answered, FUTEX_WAIT_PRIVATE, call, NULL, NULL, 0);
    }
    it->all->woken_ns[it->self][call] = bench_now_ns();
}

static void run(process *it)
{
    pthread_t worker;
    it->target = calloc(1, HALF);
    it->source = calloc(1, HALF);
    (void)prctl(PR_SET_TIMERSLACK, 1);
    (void)prctl(PR_SET_PDEATHSIG, it->self == 1 ? SIGKILL : 0);
    if (it->target == NULL || it->source == NULL || pthread_create(&worker, NULL, work, it) != 0) {
        exit(1);
    }
    atomic_store(&it->all->is_ready[it->self], 1);
    while (atomic_load(&it->all->is_ready[1 - it->self]) == 0) {
        (void)usleep(1000);
    }
    if (it->self == 0) {
        atomic_store(&it->all->begin_ns, bench_now_ns());
    }
    while (atomic_load(&it->all->begin_ns) == 0) {
        (void)usleep(100);
    }
    for (int call = 0; call < it->calls; call++) {
        ask(it, call);
    }
    atomic_store(&it->stops, 1);
    (void)pthread_join(worker, NULL);
    free(it->target);
    free(it->source);
}

static int by_size(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

static void print(const char *what, int64_t *times_ns, int count)
{
    qsort(times_ns, (size_t)count, sizeof(*times_ns), by_size);
    printf("%-36s median %7.1f us, most %8.1f us\n", what, (double)times_ns[count / 2] / 1e3,
           (double)times_ns[count - 1] / 1e3);
}

static int64_t last(const int64_t times_ns[2][CALLS_MAX], int call)
{
    return times_ns[0][call] > times_ns[1][call] ? times_ns[0][call] : times_ns[1][call];
}

static void report(const shared *all, int calls)
{
    static int64_t late[CALLS_MAX], met[CALLS_MAX], woken[CALLS_MAX], total[CALLS_MAX];
    for (int call = 0; call < calls; call++) {
        const int64_t asked_ns = last(all->asked_ns, call), met_ns = last(all->met_ns, call);
        late[call] = asked_ns - (atomic_load(&all->begin_ns) + (int64_t)(call + 1) * GAP_NS);
        met[call] = met_ns - asked_ns;
        woken[call] = last(all->woken_ns, call) - met_ns;
        total[call] = last(all->woken_ns, call) - asked_ns;
    }
    print("timer, after its instant", late, calls);
    print("asked by both, until both have met", met, calls);
    print("met, until both askers are awake", woken, calls);
    print("asked by both, until both are awake", total, calls);
}

int main(int count, char **words)
{
    const int calls = count > 1 ? atoi(words[1]) : 100;
    shared *all =
        mmap(NULL, sizeof(*all), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED || calls < 1 || calls > CALLS_MAX) {
        fprintf(stderr, "usage: bench-wakeups [CALLS], at most %d\n", CALLS_MAX);
        return 1;
    }
    process it = {.all = all, .calls = calls};
    const pid_t child = fork();
    it.self = child == 0 ? 1 : 0;
    run(&it);
    if (child == 0) {
        _exit(0);
    }
    (void)waitpid(child, NULL, 0);
    report(all, calls);
    return 0;
}
