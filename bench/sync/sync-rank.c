/* SPDX-License-Identifier: Apache-2.0
 *
 * sync-rank.c - one rank of bench/sync. Each line of the driver is answered by one line:
 *
 *   train POLICY BYTES COMPUTE_US STEPS
 *         a model of so many bytes; steps of slept computation, then tutti_sync_step, or nothing
 *         (POLICY none). Answer: nanoseconds of all steps, bytes that were exchanged, most bytes in
 *         a step, rounds, waits; bytes -1 if a value is wrong
 */
#include <stdbool.h>
#include <string.h>

#include "bench/schedule/schedule_rank.h"
#include "tutti/sync.h"

enum { TENSORS = 24 };

typedef struct sync_rank {
    tutti_context *context;
    rank_line line;
    int rank, size;
    uint32_t serial; /* of names: each measurement has tensors of its own */
} sync_rank;

typedef struct training {
    char policy[256];
    unsigned long long bytes;
    double compute_us;
    int steps;
    uint64_t elements; /* of a tensor */
    float *values;     /* [TENSORS] */
    tutti_sync *sync;  /* NULL: policy none */
    bool is_pipeline;
    int64_t took_ns;
    uint64_t burst;
} training;

static void open_sync(sync_rank *self, training *own)
{
    if (strcmp(own->policy, "none") == 0) {
        return;
    }
    rank_must(self->context,
              tutti_sync_open(self->context, TUTTI_WORLD, own->policy, NULL, &own->sync), "open");
    for (int i = 0; i < TENSORS; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "%u.%d", self->serial, i);
        rank_must(self->context,
                  tutti_sync_add(own->sync, name, own->values + (uint64_t)i * own->elements,
                                 own->elements, TUTTI_F32),
                  "add");
    }
    self->serial++;
}

static uint64_t exchanged(training *own)
{
    tutti_sync_counts counts = TUTTI_SYNC_COUNTS_INIT;
    (void)tutti_sync_count(own->sync, &counts);
    return counts.bytes;
}

/* Each step adds rank + 1 to a model, or is that as a gradient. */
static void run(sync_rank *self, training *own)
{
    double clock_ns = (double)bench_now_ns();
    const int64_t begin_ns = bench_now_ns();
    uint64_t before = 0;
    for (int t = 0; t < own->steps; t++) {
        clock_ns += own->compute_us * 1e3;
        rank_sleep_until((int64_t)clock_ns);
        if (own->sync == NULL) {
            continue;
        }
        for (uint64_t i = 0; i < own->elements * TENSORS; i += own->elements) {
            own->values[i] = (float)(self->rank + 1) + (own->is_pipeline ? 0 : own->values[i]);
        }
        rank_must(self->context, tutti_sync_step(own->sync, NULL), "step");
        const uint64_t now = exchanged(own);
        own->burst = now - before > own->burst ? now - before : own->burst;
        before = now;
        const double now_ns = (double)bench_now_ns();
        clock_ns = now_ns > clock_ns ? now_ns : clock_ns; /* after a wait */
    }
    own->took_ns = bench_now_ns() - begin_ns;
}

/* A flush leaves the mean on all ranks. */
static bool is_right(sync_rank *self, training *own)
{
    const float mean = (float)(self->size + 1) / 2;
    int ready = 1;
    while (ready == 1) {
        rank_must(self->context, tutti_sync_flush(own->sync, &ready), "flush");
        ready = own->is_pipeline ? ready : 0;
    }
    const float wanted = own->is_pipeline ? mean : mean * (float)own->steps;
    const float off = own->values[0] / wanted - 1;
    return strncmp(own->policy, "outer", 5) == 0 || (off < 1e-4f && off > -1e-4f);
}

static void train(sync_rank *self, training own)
{
    tutti_sync_counts counts = TUTTI_SYNC_COUNTS_INIT;
    own.elements = own.bytes / sizeof(float) / TENSORS;
    own.values = calloc(own.elements * TENSORS + 1, sizeof(float));
    own.is_pipeline = strncmp(own.policy, "pipeline", 8) == 0;
    if (own.values == NULL) {
        rank_die(self->context, "no memory");
    }
    open_sync(self, &own);
    rank_must(self->context, tutti_barrier(self->context), "barrier");
    run(self, &own);
    if (own.sync != NULL) {
        rank_must(self->context, tutti_sync_count(own.sync, &counts), "count");
        counts.bytes = is_right(self, &own) ? counts.bytes : UINT64_MAX;
    }
    fprintf(self->line.answers, "%lld %lld %lld %lld %lld\n", (long long)own.took_ns,
            (long long)counts.bytes, (long long)own.burst, (long long)counts.rounds,
            (long long)counts.waits);
    fflush(self->line.answers);
    tutti_sync_close(own.sync);
    free(own.values);
}

int main(void)
{
    sync_rank self = {.serial = 0};
    char line[512];
    self.context = rank_join(&self.line);
    self.rank = tutti_rank(self.context);
    self.size = tutti_size(self.context);
    while (fgets(line, sizeof(line), self.line.commands) != NULL) {
        training own = {.sync = NULL};
        if (sscanf(line, "train %255s %llu %lf %d", own.policy, &own.bytes, &own.compute_us,
                   &own.steps) != 4) {
            fprintf(stderr, "bench-sync-rank: what is '%s'?\n", line);
            return 1;
        }
        train(&self, own);
    }
    return tutti_shutdown(self.context) == TUTTI_OK ? 0 : 1;
}
