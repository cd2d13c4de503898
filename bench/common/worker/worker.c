/* SPDX-License-Identifier: Apache-2.0
 *
 * worker.c - see worker.h.
 *
 * Wire, in lines of text: the worker says "RANK"; then for each line "BYTES ITERATIONS" it answers
 * "NANOSECONDS WRONG", the time of one iteration and the number of wrong elements. */
#include "worker.h"

#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/common/clock.h"
#include "bench/common/line.h"

size_t worker_bytes_max(void)
{
    const char *text = getenv("BENCH_BYTES");
    return text != NULL ? strtoull(text, NULL, 10) : (size_t)64 << 20;
}

static void fill(const worker_library *library, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        library->values[i] = (float)(i % 16 + (size_t)library->rank);
    }
}

/* One sum of known values; sums of the timed iterations run away but cost the same. */
static size_t count_wrong(const worker_library *library, size_t count)
{
    const size_t ranks = (size_t)library->size;
    size_t wrong = 0;
    fill(library, count);
    if (library->allreduce(library->self, library->values, count) != 0) {
        return count;
    }
    for (size_t i = 0; i < count; i++) {
        const float expected = (float)(i % 16 * ranks + ranks * (ranks - 1) / 2);
        wrong += library->values[i] != expected;
    }
    return wrong;
}

/* BENCH_BIND: the calling thread stays on a core of its own, if there are enough. */
static void bind_rank(int rank, int size)
{
    cpu_set_t all, one;
    int left = rank;
    if (getenv("BENCH_BIND") == NULL || sched_getaffinity(0, sizeof(all), &all) != 0 ||
        CPU_COUNT(&all) < size) {
        return;
    }
    for (size_t core = 0; core < CPU_SETSIZE; core++) {
        if (CPU_ISSET(core, &all) && left-- == 0) {
            CPU_ZERO(&one);
            CPU_SET(core, &one);
            (void)sched_setaffinity(0, sizeof(one), &one);
        }
    }
}

int worker_serve(const worker_library *library)
{
    FILE *commands = NULL, *answers = NULL;
    if (bench_line_open(&commands, &answers) != 0) {
        fprintf(stderr, "worker: cannot reach BENCH_SOCKET\n");
        return 1;
    }
    char line[128];
    size_t wrong_total = 0;
    bind_rank(library->rank, library->size);
    fprintf(answers, "%d\n", library->rank);
    fflush(answers);
    while (fgets(line, sizeof(line), commands) != NULL) {
        char *rest = NULL;
        const size_t count = strtoull(line, &rest, 10) / sizeof(float);
        const long iterations = strtol(rest, NULL, 10);
        if (count > library->count_max || iterations < 1) {
            return 1;
        }
        /* Wakes the ranks and the links, and is the only check. */
        const size_t checked = count < 1 << 18 ? count : 1 << 18;
        const size_t wrong = count_wrong(library, checked);
        memset(library->values, 0, count * sizeof(float));
        wrong_total += wrong;
        if (library->barrier(library->self) != 0) {
            return 1;
        }
        const int64_t begin_ns = bench_now_ns();
        for (long i = 0; i < iterations; i++) {
            if (library->allreduce(library->self, library->values, count) != 0) {
                return 1;
            }
        }
        fprintf(answers, "%.1f %zu\n", (double)(bench_now_ns() - begin_ns) / (double)iterations,
                wrong);
        fflush(answers);
    }
    fclose(commands);
    fclose(answers);
    return wrong_total == 0 ? 0 : 1;
}
