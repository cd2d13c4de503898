/* SPDX-License-Identifier: Apache-2.0
 *
 * start-rank.c - one rank of bench/start: joining, leaving, joining again, idling and waiting.
 *
 * usage: bench-start-rank ROUNDS ARENA_BYTES PAUSE_MS   (started by bench/start/run)
 *
 * A round: allocate and fill ARENA_BYTES, sum them, shut down, join again. Times are the slowest
 * rank's. Then all are idle for PAUSE_MS, then all wait for rank 0 for so long, then rank 0
 * comes 10 ms late fifty times: what share of a core the others used. Rank 0 prints a line of JSON
 * for each. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/common/clock.h"
#include "tutti/tutti.h"

enum { LATE_MS = 10, LATE_COUNT = 50 };

typedef struct start_bench {
    tutti_context *context;
    size_t arena_bytes;
    int pause_ms;
} start_bench;

static double now_ms(void)
{
    return bench_now_us() * 1e-3;
}

static double cpu_ms(void)
{
    return bench_cpu_us() * 1e-3;
}

static void pause_ms(int milliseconds)
{
    const struct timespec time = {.tv_sec = milliseconds / 1000,
                                  .tv_nsec = milliseconds % 1000 * 1000000L};
    nanosleep(&time, NULL);
}

static void check(const start_bench *self, tutti_status status, const char *what)
{
    if (status != TUTTI_OK) {
        fprintf(stderr, "bench-start-rank: %s: %s\n", what, tutti_last_error(self->context));
        exit(1);
    }
}

static void join(start_bench *self)
{
    self->context = NULL;
    check(self, tutti_init(NULL, &self->context), "tutti_init");
}

/* One line: what, and the slowest rank's values. */
static void report(const start_bench *self, const char *what, const char *const names[],
                   double *values, uint64_t count)
{
    check(self, tutti_allreduce(self->context, values, values, count, TUTTI_F64, TUTTI_MAX), what);
    if (tutti_rank(self->context) != 0) {
        return;
    }
    printf("{\"what\": \"%s\", \"ranks\": %d", what, tutti_size(self->context));
    for (uint64_t i = 0; i < count; i++) {
        printf(", \"%s\": %.3f", names[i], values[i]);
    }
    printf("}\n");
    fflush(stdout);
}

static void use_arena(const start_bench *self)
{
    float *memory = tutti_alloc(self->context, self->arena_bytes);
    if (memory == NULL) {
        check(self, TUTTI_ERR_NO_MEMORY, "tutti_alloc");
        return;
    }
    const uint64_t count = self->arena_bytes / sizeof(float);
    memset(memory, 0, self->arena_bytes);
    check(self, tutti_allreduce(self->context, memory, memory, count, TUTTI_F32, TUTTI_SUM), "sum");
    check(self, tutti_barrier(self->context), "barrier");
}

static void measure_round(start_bench *self)
{
    static const char *const names[] = {"shutdown_ms", "init_ms", "both_ms"};
    use_arena(self);
    const double begin = now_ms();
    check(self, tutti_shutdown(self->context), "tutti_shutdown");
    const double left = now_ms();
    join(self);
    const double joined = now_ms();
    double values[] = {left - begin, joined - left, joined - begin};
    report(self, "again", names, values, 3);
}

static void measure_shares(const start_bench *self)
{
    static const char *const names[] = {"core_percent"};
    const bool is_late = tutti_rank(self->context) == 0;
    pause_ms(200); /* no progress thread lingers after the last call any more */
    double begin = now_ms(), used = cpu_ms();
    pause_ms(self->pause_ms);
    double share = 100.0 * (cpu_ms() - used) / (now_ms() - begin);
    report(self, "idle", names, &share, 1);
    begin = now_ms();
    used = cpu_ms();
    if (is_late) {
        pause_ms(self->pause_ms);
    }
    check(self, tutti_barrier(self->context), "barrier");
    share = is_late ? 0.0 : 100.0 * (cpu_ms() - used) / (now_ms() - begin);
    report(self, "one long wait", names, &share, 1);
    begin = now_ms();
    used = cpu_ms();
    for (int i = 0; i < LATE_COUNT; i++) {
        if (is_late) {
            pause_ms(LATE_MS);
        }
        check(self, tutti_barrier(self->context), "barrier");
    }
    share = is_late ? 0.0 : 100.0 * (cpu_ms() - used) / (now_ms() - begin);
    report(self, "a peer 10 ms late", names, &share, 1);
}

int main(int count, char **words)
{
    static const char *const names[] = {"init_ms"};
    if (count != 4) {
        fprintf(stderr, "usage: bench-start-rank ROUNDS ARENA_BYTES PAUSE_MS\n");
        return 2;
    }
    start_bench self = {.arena_bytes = strtoull(words[2], NULL, 10), .pause_ms = atoi(words[3])};
    const double begin = now_ms();
    join(&self);
    double took = now_ms() - begin;
    report(&self, "first", names, &took, 1);
    for (int i = atoi(words[1]); i > 0; i--) {
        measure_round(&self);
    }
    measure_shares(&self);
    return tutti_shutdown(self.context) == TUTTI_OK ? 0 : 1;
}
