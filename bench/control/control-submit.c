/* SPDX-License-Identifier: Apache-2.0
 *
 * control-submit.c - what it costs a thread to submit a named tensor while others do the same.
 *
 * usage: bench-control-submit STEPS THREADS TENSORS   (started by bench/control/run --submit)
 *
 * Every step each thread submits its share of the tensors one by one, in an order of its own, and
 * waits for them. Rank 0 prints one line of JSON: how long tutti_start took, over all threads and
 * steps. It includes reading the clock, whose cost is printed beside it. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/common/clock.h"
#include "shuffle.h"
#include "tutti/tutti.h"

enum { NAME_BYTES = 32, WARM_UP = 6 };

typedef struct submit_bench {
    tutti_context *context;
    uint32_t steps, threads, tensors;
    float *memory;
    float *sample_ns; /* [steps * tensors] */
    pthread_barrier_t barrier;
} submit_bench;

typedef struct worker {
    submit_bench *bench;
    pthread_t thread;
    uint32_t first, count;
    char (*names)[NAME_BYTES];
    tutti_handle **handles;
    uint64_t random;
} worker;

static void die(const submit_bench *self, const char *what)
{
    fprintf(stderr, "bench-control-submit: %s: %s\n", what, tutti_last_error(self->context));
    exit(1);
}

static void step(worker *self, uint32_t *order, float *sample_ns)
{
    submit_bench *bench = self->bench;
    shuffle(order, self->count, &self->random);
    (void)pthread_barrier_wait(&bench->barrier);
    for (uint32_t i = 0; i < self->count; i++) {
        const uint32_t own = order[i];
        tutti_call call = TUTTI_CALL_INIT;
        call.name = self->names[own];
        call.input = call.output = bench->memory + (size_t)16 * (self->first + own);
        call.count = 16;
        const int64_t begin = bench_now_ns();
        const tutti_status status = tutti_start(bench->context, &call, &self->handles[own]);
        if (sample_ns != NULL) {
            sample_ns[i] = (float)(bench_now_ns() - begin);
        }
        if (status != TUTTI_OK) {
            die(bench, "tutti_start");
        }
    }
    for (uint32_t i = 0; i < self->count; i++) {
        if (tutti_wait(self->handles[i], -1.0) != TUTTI_OK) {
            die(bench, tutti_handle_error(self->handles[i]));
        }
        tutti_handle_free(self->handles[i]);
    }
}

static void *worker_main(void *argument)
{
    worker *self = argument;
    submit_bench *bench = self->bench;
    uint32_t *order = calloc(self->count + 1, sizeof(*order));
    self->names = calloc(self->count + 1, sizeof(*self->names));
    self->handles = calloc(self->count + 1, sizeof(*self->handles));
    if (order == NULL || self->names == NULL || self->handles == NULL) {
        die(bench, "out of memory");
    }
    for (uint32_t i = 0; i < self->count; i++) {
        (void)snprintf(self->names[i], NAME_BYTES, "tensor.%u", self->first + i);
    }
    for (int i = 0; i < WARM_UP; i++) {
        step(self, order, NULL);
    }
    for (uint32_t i = 0; i < bench->steps; i++) {
        step(self, order, bench->sample_ns + (size_t)i * bench->tensors + self->first);
    }
    free(order);
    free(self->names);
    free(self->handles);
    return NULL;
}

static int by_value(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static double clock_cost_ns(void)
{
    const int64_t begin = bench_now_ns();
    for (int i = 0; i < 1000; i++) {
        (void)bench_now_ns();
    }
    return (double)(bench_now_ns() - begin) / 1001.0;
}

static void run_workers(submit_bench *self)
{
    worker *workers = calloc(self->threads, sizeof(*workers));
    if (workers == NULL) {
        die(self, "out of memory");
    }
    for (uint32_t i = 0; i < self->threads; i++) {
        workers[i].bench = self;
        workers[i].first = (uint32_t)((uint64_t)i * self->tensors / self->threads);
        workers[i].count =
            (uint32_t)((uint64_t)(i + 1) * self->tensors / self->threads) - workers[i].first;
        workers[i].random = (uint64_t)tutti_rank(self->context) * 1000 + i + 1;
        if (pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]) != 0) {
            die(self, "pthread_create");
        }
    }
    for (uint32_t i = 0; i < self->threads; i++) {
        (void)pthread_join(workers[i].thread, NULL);
    }
    free(workers);
}

int main(int argc, char **argv)
{
    submit_bench self = {0};
    if (argc != 4) {
        fprintf(stderr,
                "usage: bench-control-submit STEPS THREADS TENSORS; see bench/control/run\n");
        return 2;
    }
    self.steps = (uint32_t)strtoul(argv[1], NULL, 10);
    self.threads = (uint32_t)strtoul(argv[2], NULL, 10);
    self.tensors = (uint32_t)strtoul(argv[3], NULL, 10);
    if (self.steps == 0 || self.threads == 0 || self.tensors < self.threads) {
        fprintf(stderr, "bench-control-submit: at least a step, a thread, a tensor for each\n");
        return 2;
    }
    if (tutti_init(NULL, &self.context) != TUTTI_OK) {
        die(&self, "tutti_init");
    }
    const size_t samples = (size_t)self.steps * self.tensors;
    self.memory = tutti_alloc(self.context, (size_t)16 * self.tensors * sizeof(float));
    self.sample_ns = calloc(samples, sizeof(*self.sample_ns));
    if (self.memory == NULL || self.sample_ns == NULL) {
        die(&self, "out of memory");
    }
    (void)pthread_barrier_init(&self.barrier, NULL, self.threads);
    run_workers(&self);
    tutti_counters count = TUTTI_COUNTERS_INIT;
    tutti_count(self.context, TUTTI_WORLD, &count);
    qsort(self.sample_ns, samples, sizeof(*self.sample_ns), by_value);
    if (tutti_rank(self.context) == 0) {
        printf("{\"ranks\": %d, \"threads\": %u, \"tensors\": %u, \"mode\": \"%s\", "
               "\"median_ns\": %.0f, \"p99_ns\": %.0f, \"clock_ns\": %.0f}\n",
               tutti_size(self.context), self.threads, self.tensors, count.mode,
               (double)self.sample_ns[samples / 2], (double)self.sample_ns[samples * 99 / 100],
               clock_cost_ns());
    }
    free(self.sample_ns);
    (void)pthread_barrier_destroy(&self.barrier);
    return tutti_shutdown(self.context) == TUTTI_OK ? 0 : 1;
}
