/* SPDX-License-Identifier: Apache-2.0
 *
 * worker.c - what every rank under measurement does, whatever its library.
 *
 * A command is one line: "COLLECTIVE BYTES TOUCH ARENA KEEP WARMUP ITERATIONS CHECK". The answer is
 * "ok WRONG NS NS ..." (this rank's time of each timed call), "unsupported" or "failed".
 *
 * (1) Calls follow each other without a pause, unless buffers are rewritten or the call has a root:
 *     then a barrier precedes each one, so that no rank is measured while it waits for a peer that
 *     still writes, and no root runs ahead.
 * (2) That barrier is the worker's own, of shared memory: no library pays for its barrier here.
 * (3) Element i of rank r, for part p, is (i + 3 r + 5 p) mod 17: every sum is exact. */
#include "worker.h"

#include <malloc.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fcntl.h>

#include "bench/common/clock.h"
#include "bench/common/line.h"

enum { PERIOD = 17, PATTERN_FLOATS = PERIOD * 512, PAGE = 4096, SPIN_MAX = 2000, RANKS_MAX = 64 };

typedef struct barrier_word {
    _Alignas(64) atomic_uint arrived;
} barrier_word;

typedef struct command {
    int collective;
    size_t bytes;
    int touches;
    int is_arena;
    int keeps;
    int warmup_count;
    int iteration_count;
    int checks;
} command;

typedef struct worker {
    const bench_peer *peer;
    int rank;
    int size;
    int yields; /* more ranks than cores */
    unsigned turn;
    barrier_word *words;
    float *pattern;      /* value i is i mod 17; one period longer than PATTERN_FLOATS */
    bench_case items[2]; /* by place: a library measured with both keeps both */
    size_t case_bytes[2];
    bench_case *item; /* the one at hand */
    uint64_t *times;
    FILE *orders;
    FILE *answers;
} worker;

int bench_variable(const char *name)
{
    const char *text = getenv(name);
    return text == NULL ? -1 : atoi(text);
}

void *bench_allocate(size_t bytes, int is_arena)
{
    void *memory = NULL;
    (void)is_arena;
    return posix_memalign(&memory, PAGE, bytes) == 0 ? memory : NULL;
}

void bench_release(void *memory, int is_arena)
{
    (void)is_arena;
    free(memory);
}

static void barrier(worker *self)
{
    const unsigned turn = ++self->turn;
    atomic_store(&self->words[self->rank].arrived, turn);
    for (int peer = 0; peer < self->size; peer++) {
        for (int i = 0; (int)(atomic_load(&self->words[peer].arrived) - turn) < 0; i++) {
            if (self->yields || i > SPIN_MAX) {
                sched_yield();
            }
        }
    }
}

/* ---- data ---- */

static void fill_run(const worker *self, float *target, size_t count, size_t shift)
{
    const float *source = self->pattern + shift % PERIOD;
    for (size_t done = 0; done < count; done += PATTERN_FLOATS) {
        const size_t part = count - done < PATTERN_FLOATS ? count - done : PATTERN_FLOATS;
        memcpy(target + done, source, part * sizeof(*target));
    }
}

static void fill(worker *self)
{
    const bench_case *item = self->item;
    const size_t shift = 3 * (size_t)self->rank;
    if (item->collective != BENCH_ALLTOALL) {
        fill_run(self, item->input, item->input_count, shift);
        return;
    }
    for (size_t part = 0; part < (size_t)self->size; part++) {
        fill_run(self, item->input + part * item->count, item->count, shift + 5 * part);
    }
}

static size_t count_wrong_run(const float *found, size_t count, const float *expected, size_t shift)
{
    size_t wrong_count = 0;
    for (size_t i = 0; i < count; i++) {
        wrong_count += found[i] != expected[(i + shift) % PERIOD];
    }
    return wrong_count;
}

static size_t count_wrong(const worker *self)
{
    const bench_case *item = self->item;
    const size_t rank = (size_t)self->rank;
    float sums[PERIOD] = {0};
    for (size_t i = 0; i < PERIOD; i++) {
        for (size_t peer = 0; peer < (size_t)self->size; peer++) {
            sums[i] += self->pattern[(i + 3 * peer) % PERIOD];
        }
    }
    switch (item->collective) {
    case BENCH_ALLREDUCE:
        return count_wrong_run(item->output, item->output_count, sums, 0);
    case BENCH_REDUCESCATTER:
        return count_wrong_run(item->output, item->output_count, sums, rank * item->count);
    case BENCH_BROADCAST:
        return count_wrong_run(item->output, item->output_count, self->pattern, 0);
    default:
        break;
    }
    const size_t part = item->collective == BENCH_ALLTOALL ? 5 * rank : 0;
    size_t wrong_count = 0;
    for (size_t peer = 0; peer < (size_t)self->size; peer++) {
        wrong_count += count_wrong_run(item->output + peer * item->count, item->count,
                                       self->pattern, 3 * peer + part);
    }
    return wrong_count;
}

/* ---- buffers ---- */

static void close_case(worker *self)
{
    bench_case *item = self->item;
    if (item->output != item->input) {
        self->peer->release(item->output, item->is_arena);
    }
    if (item->input != NULL) {
        self->peer->release(item->input, item->is_arena);
    }
    *item = (bench_case){0};
    malloc_trim(0);
}

static void set_counts(bench_case *item, size_t float_count)
{
    const size_t size = (size_t)item->size;
    const size_t share = float_count / size > 0 ? float_count / size : 1;
    item->count = item->input_count = item->output_count = float_count > 0 ? float_count : 1;
    if (item->collective >= BENCH_ALLGATHER) {
        item->count = share;
        item->input_count = item->collective == BENCH_ALLGATHER ? share : share * size;
        item->output_count = item->collective == BENCH_REDUCESCATTER ? share : share * size;
    }
}

/* Bytes are those of the larger of input and output. */
static int open_case(worker *self, const command *order)
{
    bench_case *item = self->item = &self->items[order->is_arena];
    size_t *bytes = &self->case_bytes[order->is_arena];
    if (item->input != NULL && item->collective == order->collective && *bytes == order->bytes) {
        return BENCH_OK;
    }
    close_case(self);
    *bytes = order->bytes;
    item->collective = order->collective;
    item->is_arena = order->is_arena;
    item->rank = self->rank;
    item->size = self->size;
    set_counts(item, order->bytes / sizeof(float));
    item->input = self->peer->allocate(item->input_count * sizeof(float), item->is_arena);
    const int is_in_place = item->collective < BENCH_ALLGATHER;
    item->output = is_in_place
                       ? item->input
                       : self->peer->allocate(item->output_count * sizeof(float), item->is_arena);
    if (item->input == NULL || item->output == NULL) {
        return BENCH_FAILED;
    }
    memset(item->output, 0, item->output_count * sizeof(float));
    return BENCH_OK;
}

/* ---- measuring ---- */

static int time_calls(worker *self, const command *order)
{
    const int is_fenced = order->touches || order->collective == BENCH_BROADCAST;
    fill(self);
    barrier(self);
    for (int i = -order->warmup_count; i < order->iteration_count; i++) {
        if (order->touches) {
            fill(self);
        }
        if (is_fenced) {
            barrier(self);
        }
        const int64_t start = bench_now_ns();
        const int result = self->peer->call(self->item);
        if (i >= 0) {
            self->times[i] = (uint64_t)(bench_now_ns() - start);
        }
        if (result != BENCH_OK) {
            return result;
        }
    }
    return BENCH_OK;
}

static int check_call(worker *self, size_t *wrong_count_out)
{
    bench_case *item = self->item;
    barrier(self);
    if (item->output != item->input) {
        memset(item->output, 0x5a, item->output_count * sizeof(float));
    }
    fill(self);
    barrier(self);
    const int result = self->peer->call(item);
    *wrong_count_out = result == BENCH_OK ? count_wrong(self) : 0;
    return result;
}

static int obey(worker *self, const command *order)
{
    size_t wrong_count = 0;
    self->times = realloc(self->times, sizeof(*self->times) * ((size_t)order->iteration_count + 1));
    int result = self->times == NULL ? BENCH_FAILED : open_case(self, order);
    if (result == BENCH_OK && order->checks) {
        result = check_call(self, &wrong_count);
    }
    if (result == BENCH_OK) {
        result = time_calls(self, order);
    }
    if (result != BENCH_OK) {
        return fprintf(self->answers, "%s\n",
                       result == BENCH_UNSUPPORTED ? "unsupported" : "failed") < 0;
    }
    fprintf(self->answers, "ok %zu", wrong_count);
    for (int i = 0; i < order->iteration_count; i++) {
        fprintf(self->answers, " %llu", (unsigned long long)self->times[i]);
    }
    if (!order->keeps) {
        close_case(self);
    }
    return fprintf(self->answers, "\n") < 0;
}

static int serve(worker *self)
{
    char line[256];
    command order;
    fprintf(self->answers, "hello %s %d %d\n", getenv("BENCH_GROUP"), self->rank, self->size);
    while (fflush(self->answers) == 0 && fgets(line, sizeof(line), self->orders) != NULL) {
        if (sscanf(line, "%d %zu %d %d %d %d %d %d", &order.collective, &order.bytes,
                   &order.touches, &order.is_arena, &order.keeps, &order.warmup_count,
                   &order.iteration_count, &order.checks) != 8 ||
            order.collective < 0 || order.collective >= BENCH_COLLECTIVE_COUNT ||
            order.iteration_count < 0 || (order.is_arena != 0 && order.is_arena != 1)) {
            fprintf(stderr, "bench worker: no command: %s", line);
            return 1;
        }
        if (obey(self, &order)) {
            return 1;
        }
    }
    return 0;
}

/* ---- life ---- */

static barrier_word *map_barrier(void)
{
    const char *path = getenv("BENCH_SHARED");
    const int fd = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *memory =
        mmap(NULL, sizeof(barrier_word) * RANKS_MAX, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return memory == MAP_FAILED ? NULL : memory;
}

/* One calling thread to a core, where there is one for each; helper threads stay free. */
static void bind_rank(const worker *self)
{
    cpu_set_t allowed;
    cpu_set_t own;
    if (self->yields || bench_variable("BENCH_BIND") != 1 ||
        sched_getaffinity(0, sizeof(allowed), &allowed) != 0) {
        return;
    }
    int left = self->rank;
    for (int core = 0; core < CPU_SETSIZE; core++) {
        if (CPU_ISSET(core, &allowed) && left-- == 0) {
            CPU_ZERO(&own);
            CPU_SET(core, &own);
            (void)sched_setaffinity(0, sizeof(own), &own);
            return;
        }
    }
}

int bench_worker_run(const bench_peer *peer)
{
    worker self = {.peer = peer};
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    (void)sched_getaffinity(0, sizeof(allowed), &allowed);
    self.pattern = malloc(sizeof(float) * (PATTERN_FLOATS + PERIOD));
    self.words = map_barrier();
    if (self.pattern == NULL || self.words == NULL ||
        bench_line_open(&self.orders, &self.answers) != 0) {
        fprintf(stderr, "bench worker: started by bench/peers/run only\n");
        return 2;
    }
    for (size_t i = 0; i < PATTERN_FLOATS + PERIOD; i++) {
        self.pattern[i] = (float)(i % PERIOD);
    }
    if (peer->join(&self.rank, &self.size) != BENCH_OK || self.size > RANKS_MAX) {
        fprintf(stderr, "bench worker: cannot join\n");
        return 1;
    }
    self.yields = self.size > CPU_COUNT(&allowed);
    bind_rank(&self);
    const int code = serve(&self);
    if (code == 0) {
        for (int place = 0; place < 2; place++) {
            self.item = &self.items[place];
            close_case(&self);
        }
        peer->leave();
    }
    return code;
}
