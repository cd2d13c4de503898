/* SPDX-License-Identifier: Apache-2.0
 *
 * store_report.h - what the ranks of the tests of stores print, and how they end.
 *
 * One line per event on standard output, flushed. Exit codes: 0; 2 wrong usage; 3 no init; 4 wrong
 * value; 7 a call failed, which is printed as "ended NANOSECONDS" and "failed STATUS TEXT".
 *
 * Layer:   tests.
 * Threads: one.
 * Memory:  none.
 */
#ifndef TUTTI_TESTS_PROCESSES_STORE_REPORT_H
#define TUTTI_TESTS_PROCESSES_STORE_REPORT_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tutti/store.h>

enum { GOING = 3 };
enum { USAGE = 2, NO_INIT = 3, WRONG_VALUE = 4, FAILED = 7 };

static inline void say(const char *text)
{
    puts(text);
    (void)fflush(stdout);
}

/* The N of the word NAME=N, or `alone` if the word is NAME; UINT64_MAX if neither is among them. */
static inline uint64_t number_of(char *const *words, const char *name, uint64_t alone)
{
    const size_t length = strlen(name);
    for (; *words != NULL; words++) {
        if (strncmp(*words, name, length) == 0 && (*words)[length] == '=') {
            return strtoull(*words + length + 1, NULL, 10);
        }
        if (strcmp(*words, name) == 0) {
            return alone;
        }
    }
    return UINT64_MAX;
}

/* Until the test has written a line, or has ended. */
static inline void hold(void)
{
    while (getchar() != '\n' && !feof(stdin)) {
    }
}

/* A worker has completed `now` iterations, after `before`: it prints "going" after three, and holds
 * after `holds_after`. Under a quorum a worker that was late skips some. */
static inline void go_on(uint64_t before, uint64_t now, uint64_t holds_after)
{
    if (before < GOING && now >= GOING) {
        say("going");
    }
    if (before < holds_after && now >= holds_after) {
        hold();
    }
}

/* The time, on the clock of the test. */
static inline void say_time(const char *what)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    printf("%s %" PRIu64 "\n", what,
           (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec);
    (void)fflush(stdout);
}

static inline void must(tutti_context *context, tutti_status status)
{
    if (status != TUTTI_OK) {
        say_time("ended");
        printf("failed %d %s\n", (int)status, tutti_last_error(context));
        (void)fflush(stdout);
        (void)tutti_shutdown(context);
        exit(FAILED);
    }
}

static inline void wrong(uint32_t rank, const char *what, uint64_t got, uint64_t wanted)
{
    printf("rank %u: %s: %" PRIu64 ", not %" PRIu64 "\n", rank, what, got, wanted);
    (void)fflush(stdout);
    exit(WRONG_VALUE);
}

#endif
