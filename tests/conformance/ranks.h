/* SPDX-License-Identifier: Apache-2.0
 *
 * ranks.h - all ranks of a job as threads of this process, on real transports.
 *
 * Layer:   tests.
 * Threads: ranks_run starts one per rank and joins them.
 */
#ifndef TUTTI_TESTS_CONFORMANCE_RANKS_H
#define TUTTI_TESTS_CONFORMANCE_RANKS_H

#include <pthread.h>
#include <stdbool.h>

#include "tutti/tutti.h"

typedef struct ranks_job {
    int size;
    const char *transport; /* as in tutti_options; NULL: "shm" */
    bool over_tcp;         /* rendezvous at a TCP address, else at a file */
    pthread_barrier_t barrier;
    void *user;
    void (*log)(void *self, int level, const char *text); /* NULL: stderr */
} ranks_job;

/* One rank of the job. */
typedef struct ranks_self {
    ranks_job *job;
    tutti_context *context;
    int rank, size;
    void *user;
} ranks_self;

typedef void ranks_fn(ranks_self *self);

/* Every rank joins, calls `body`, leaves. A body may shut its context down itself: then it sets
 * self->context to NULL. */
void ranks_run(int size, const char *transport, ranks_fn *body, void *user);
/* The same; log lines of a rank go to `log`, with its ranks_self. */
void ranks_run_logged(int size, const char *transport, ranks_fn *body, void *user,
                      void (*log)(void *self, int level, const char *text));
/* Over shared memory, then over TCP. */
void ranks_run_both(int size, ranks_fn *body, void *user);
/* A barrier of all ranks of the job, without Tutti. */
void ranks_meet(ranks_self *self);

/* Options of `rank`, for tests that call tutti_init themselves; a place serves one job. */
typedef struct ranks_place {
    char rendezvous[128];
} ranks_place;
ranks_place ranks_place_new(bool over_tcp);
tutti_options ranks_options(const ranks_place *place, int rank, int size, const char *transport);
void ranks_place_drop(const ranks_place *place);

/* Counters of the world's process set. */
tutti_counters ranks_counters(const ranks_self *self);

double ranks_clock_s(void);
/* Processor time of this thread. */
double ranks_cpu_s(void);

/* Ends the program: an assertion of cmocka would jump out of the wrong thread. */
#define EXPECT(condition) EXPECT_SAY(condition, "%s", "")
#define EXPECT_SAY(condition, ...)                                  \
    do {                                                            \
        if (!(condition)) {                                         \
            ranks_die(__FILE__, __LINE__, #condition, __VA_ARGS__); \
        }                                                           \
    } while (0)
#define EXPECT_STATUS(wanted, call) ranks_expect(wanted, call, __FILE__, __LINE__, #call)

_Noreturn void ranks_die(const char *file, int line, const char *what, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void ranks_expect(tutti_status wanted, tutti_status got, const char *file, int line,
                  const char *what);

#endif
