/* SPDX-License-Identifier: Apache-2.0
 *
 * ranks.c - see ranks.h. */
#include "conformance/ranks.h"

#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { RANKS_MAX = 16 };

static const uint8_t secret[32] = "thirty-two bytes, known to all.";

_Noreturn void ranks_die(const char *file, int line, const char *what, const char *format, ...)
{
    va_list arguments;
    (void)fprintf(stderr, "%s:%d: %s: ", file, line, what);
    va_start(arguments, format);
    (void)vfprintf(stderr, format, arguments);
    va_end(arguments);
    (void)fprintf(stderr, "\n");
    abort();
}

void ranks_expect(tutti_status wanted, tutti_status got, const char *file, int line,
                  const char *what)
{
    if (got != wanted) {
        ranks_die(file, line, what, "%s instead of %s: %s", tutti_status_text(got),
                  tutti_status_text(wanted), got < 0 ? tutti_last_error(NULL) : "");
    }
}

static double seconds_of(clockid_t clock)
{
    struct timespec now;
    (void)clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

double ranks_clock_s(void)
{
    return seconds_of(CLOCK_MONOTONIC);
}

double ranks_cpu_s(void)
{
    return seconds_of(CLOCK_THREAD_CPUTIME_ID);
}

static int free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof(address);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT(probe >= 0);
    EXPECT(bind(probe, (struct sockaddr *)&address, sizeof(address)) == 0);
    EXPECT(getsockname(probe, (struct sockaddr *)&address, &length) == 0);
    (void)close(probe);
    return ntohs(address.sin_port);
}

ranks_place ranks_place_new(bool over_tcp)
{
    ranks_place place;
    if (over_tcp) {
        (void)snprintf(place.rendezvous, sizeof(place.rendezvous), "tcp://127.0.0.1:%d",
                       free_port());
        return place;
    }
    char folder[] = "/tmp/tutti-ranks-XXXXXX";
    EXPECT(mkdtemp(folder) != NULL);
    (void)snprintf(place.rendezvous, sizeof(place.rendezvous), "file://%s/meet", folder);
    return place;
}

void ranks_place_drop(const ranks_place *place)
{
    if (strncmp(place->rendezvous, "file://", 7) == 0) {
        char path[sizeof(place->rendezvous)];
        (void)snprintf(path, sizeof(path), "%s", place->rendezvous + 7);
        (void)unlink(path);
        *strrchr(path, '/') = 0;
        (void)rmdir(path);
    }
}

tutti_options ranks_options(const ranks_place *place, int rank, int size, const char *transport)
{
    tutti_options options = TUTTI_OPTIONS_INIT;
    options.rank = rank;
    options.size = size;
    options.rendezvous = place->rendezvous;
    options.job_id = "ranks";
    options.secret = secret;
    options.transport = transport;
    options.timeout_s = 60.0;
    return options;
}

typedef struct thread_start {
    ranks_self self;
    const ranks_place *place;
    ranks_fn *body;
} thread_start;

static void *thread_main(void *argument)
{
    thread_start *start = argument;
    ranks_self *self = &start->self;
    tutti_options options =
        ranks_options(start->place, self->rank, self->size, self->job->transport);
    options.log = self->job->log;
    options.log_user = self;
    EXPECT_STATUS(TUTTI_OK, tutti_init(&options, &self->context));
    EXPECT(tutti_rank(self->context) == self->rank && tutti_size(self->context) == self->size);
    start->body(self);
    if (self->context != NULL) {
        EXPECT_STATUS(TUTTI_OK, tutti_shutdown(self->context));
    }
    return NULL;
}

void ranks_run(int size, const char *transport, ranks_fn *body, void *user)
{
    ranks_run_logged(size, transport, body, user, NULL);
}

void ranks_run_logged(int size, const char *transport, ranks_fn *body, void *user,
                      void (*log)(void *self, int level, const char *text))
{
    ranks_job job = {.size = size, .transport = transport != NULL ? transport : "shm", .log = log};
    const ranks_place place = ranks_place_new(strcmp(job.transport, "tcp") == 0);
    pthread_t threads[RANKS_MAX];
    thread_start starts[RANKS_MAX];
    EXPECT(size <= RANKS_MAX);
    EXPECT(pthread_barrier_init(&job.barrier, NULL, (unsigned)size) == 0);
    for (int rank = 0; rank < size; rank++) {
        starts[rank] = (thread_start){
            .self = {.job = &job, .rank = rank, .size = size, .user = user},
            .place = &place,
            .body = body,
        };
        EXPECT(pthread_create(&threads[rank], NULL, thread_main, &starts[rank]) == 0);
    }
    for (int rank = 0; rank < size; rank++) {
        EXPECT(pthread_join(threads[rank], NULL) == 0);
    }
    (void)pthread_barrier_destroy(&job.barrier);
    ranks_place_drop(&place);
}

void ranks_run_both(int size, ranks_fn *body, void *user)
{
    ranks_run(size, "shm", body, user);
    ranks_run(size, "tcp", body, user);
}

tutti_counters ranks_counters(const ranks_self *self)
{
    tutti_counters counters = TUTTI_COUNTERS_INIT;
    EXPECT_STATUS(TUTTI_OK, tutti_count(self->context, TUTTI_WORLD, &counters));
    return counters;
}

void ranks_meet(ranks_self *self)
{
    (void)pthread_barrier_wait(&self->job->barrier);
}
