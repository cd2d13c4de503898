/* SPDX-License-Identifier: Apache-2.0
 *
 * scheduler.c - what scheduling costs: 10,000 tasks made ready in the worst order, started and
 * finished, per task, for several sizes of the queue. `bench-scheduler [rounds]`. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/common/clock.h"
#include "bench/common/median.h"
#include "schedule/schedule.h"

enum {
    TASKS = 10000,
    ROUNDS = 200,
};

/* A wire that is always as far as the credit lets it be: finishes in the order of starting. */
typedef struct wire_state {
    tt_task_chunk *ring;
    uint64_t head;
    uint64_t tail;
    uint64_t capacity;
} wire_state;

static void on_start(void *user, const tt_task_chunk *chunk)
{
    wire_state *wire = user;
    wire->ring[wire->tail++ % wire->capacity] = *chunk;
}

static void on_finished(void *user, tt_task_id task, tt_status status)
{
    (void)user;
    (void)task;
    (void)status;
}

static const tt_scheduler_ops ops = {.start = on_start, .finished = on_finished};

static tt_scheduler *scheduler_build(wire_state *wire, uint64_t chunk_bytes, uint64_t credit_bytes)
{
    tt_text why = {.length = 0};
    tt_scheduler *scheduler;
    const tt_scheduler_config config = {.task_max = TASKS,
                                        .chunk_max = (uint32_t)wire->capacity,
                                        .chunk_bytes = chunk_bytes,
                                        .credit_bytes = credit_bytes,
                                        .ops = &ops,
                                        .user = wire,
                                        .allocator = &tt_allocator_default};
    if (tt_scheduler_create(&config, &why, &scheduler) != TT_OK) {
        fprintf(stderr, "bench-scheduler: %s\n", why.bytes);
        exit(1);
    }
    for (uint32_t i = 0; i < TASKS; i++) {
        const tt_task_config task = {.kind = TT_TASK_ALLREDUCE,
                                     .class = TT_TASK_GRADIENT,
                                     .priority = i,
                                     .bytes = 1 << 16,
                                     .after = TT_TASK_NONE};
        tt_task_id id;
        if (tt_scheduler_declare(scheduler, &task, &id) != TT_OK) {
            fprintf(stderr, "bench-scheduler: %s\n", tt_scheduler_why(scheduler));
            exit(1);
        }
    }
    return scheduler;
}

/* As backward produces them: the most urgent last, so that every one goes to the top of the heap.
 */
static double round_ns(tt_scheduler *scheduler, wire_state *wire)
{
    const int64_t start_ns = bench_now_ns();
    for (uint32_t i = TASKS; i-- > 0;) {
        (void)tt_scheduler_ready(scheduler, i);
    }
    while (wire->head < wire->tail) {
        const tt_task_chunk chunk = wire->ring[wire->head++ % wire->capacity];
        (void)tt_scheduler_finish(scheduler, chunk.task, chunk.index, TT_OK);
    }
    return (double)(bench_now_ns() - start_ns) / TASKS;
}

static void measure(const char *name, uint64_t chunk_bytes, uint64_t credit_bytes, int rounds)
{
    wire_state wire = {.capacity = 4 * TASKS};
    double *times_ns = calloc((size_t)rounds, sizeof(*times_ns));
    wire.ring = calloc(wire.capacity, sizeof(*wire.ring));
    if (wire.ring == NULL || times_ns == NULL) {
        exit(1);
    }
    tt_scheduler *scheduler = scheduler_build(&wire, chunk_bytes, credit_bytes);
    for (int i = 0; i < rounds; i++) {
        times_ns[i] = round_ns(scheduler, &wire);
    }
    bench_sort(times_ns, (size_t)rounds);
    const tt_scheduler_counts counts = tt_scheduler_count(scheduler);
    printf("%-28s %8.1f ns a task (median of %d), %8.1f slowest; %" PRIu64 " chunks a round\n",
           name, times_ns[rounds / 2], rounds, times_ns[rounds - 1],
           counts.started_chunks / (uint64_t)rounds);
    tt_scheduler_destroy(scheduler);
    free(wire.ring);
    free(times_ns);
}

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? atoi(argv[1]) : ROUNDS;
    if (rounds < 1) {
        fprintf(stderr, "usage: bench-scheduler [rounds]\n");
        return 2;
    }
    measure("whole, endless credit", TT_CHUNK_WHOLE, TT_CREDIT_ENDLESS, rounds);
    measure("whole, 4 in flight", TT_CHUNK_WHOLE, 4 << 16, rounds);
    measure("whole, stop-and-wait", TT_CHUNK_WHOLE, TT_CREDIT_STOP_AND_WAIT, rounds);
    measure("4 chunks, 4 in flight", 1 << 14, 4 << 14, rounds);
    return 0;
}
