/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule_rank.h - what the programs of bench/schedule share: a clock, emulated computation, and
 * the line to the driver.
 *
 * Computation is a clock of its own: it is moved on by the time an operator takes and slept up to;
 * a wait for communication moves it to the present. So late wake-ups do not add up.
 *
 * Layer:   bench; the public header only.
 * Threads: one.
 * Memory:  none taken.
 */
#ifndef TUTTI_BENCH_SCHEDULE_RANK_H
#define TUTTI_BENCH_SCHEDULE_RANK_H

#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#include "bench/common/clock.h"
#include "bench/common/line.h"
#include "tutti/tutti.h"

/* Processor time of all threads of this process, the library's too. */
static inline int64_t rank_spent_ns(void)
{
    return bench_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

static inline void rank_sleep_until(int64_t deadline_ns)
{
    const struct timespec deadline = {.tv_sec = deadline_ns / 1000000000,
                                      .tv_nsec = deadline_ns % 1000000000};
    if (deadline_ns > bench_now_ns()) {
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, NULL) != 0) {
        }
    }
}

static inline void rank_die(tutti_context *context, const char *what)
{
    fprintf(stderr, "bench-schedule: %s: %s\n", what, tutti_last_error(context));
    exit(1);
}

static inline void rank_must(tutti_context *context, tutti_status status, const char *what)
{
    if (status != TUTTI_OK) {
        rank_die(context, what);
    }
}

/* Sleeps until the call is over, and leaves the driving to the progress thread: the ranks of all
 * hosts share this machine's cores, so no thread should keep polling. With BENCH_DRIVES
 * the caller drives. */
static inline void rank_wait(tutti_context *context, tutti_handle *handle, const char *what)
{
    if (getenv("BENCH_DRIVES") != NULL) {
        rank_must(context, tutti_wait(handle, -1), what);
        return;
    }
    struct pollfd ended = {.fd = tutti_event_fd(context), .events = POLLIN};
    tutti_status status;
    while ((status = tutti_poll(handle)) == TUTTI_IN_PROGRESS) {
        (void)poll(&ended, 1, -1);
        (void)tutti_event_clear(context);
    }
    rank_must(context, status, what);
}

/* The driver's lines come in, answers go out; BENCH_SOCKET has the path. */
typedef struct rank_line {
    FILE *commands;
    FILE *answers;
} rank_line;

static inline rank_line rank_line_open(void)
{
    rank_line line;
    if (bench_line_open(&line.commands, &line.answers) != 0) {
        fprintf(stderr, "bench-schedule: BENCH_SOCKET leads nowhere; run bench/schedule/run\n");
        exit(1);
    }
    return line;
}

/* Joins the job and reports it to the driver. Timers must be exact. */
static inline tutti_context *rank_join(rank_line *line)
{
    tutti_context *context = NULL;
    (void)prctl(PR_SET_TIMERSLACK, 1);
    rank_must(NULL, tutti_init(NULL, &context), "joining");
    *line = rank_line_open();
    fprintf(line->answers, "%d\n", tutti_rank(context));
    fflush(line->answers);
    return context;
}

#endif
