/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule-rank.c - one rank of bench/schedule: training steps of which only the communication is
 * real. Started by bench/schedule/run; what to do comes as lines, each is answered by one line:
 *
 *   table FILE                       the step: see table_read. Answer: number of transfers
 *   steps FLAGS WARM COUNT           run them; flags as below. Answer: nanoseconds of each step
 *   spent                            Answer: of the steps counted last, the processor time of this
 *                                    rank's threads, in nanoseconds; and rho as the library saw it
 *   train COUNT                      run them by priority, across the barrier, with names and with
 *                                    tutti_step behind each backward. Answer: nanoseconds, chunk,
 *                                    credit and fuse of each step
 *   bulk BYTES COUNT [PIECE]         all-reduce alone, in calls of PIECE bytes each that start
 *                                    together. Answer: nanoseconds of each time
 *   urgent BYTES SMALL COUNT GAP_US [PIECE]
 *                                    COUNT urgent calls of SMALL bytes, GAP_US apart, behind BYTES
 *                                    (0: nothing), in calls of PIECE bytes each. Answer: of each
 *                                    urgent call, nanoseconds from its instant to its start and to
 *                                    its end; -1 -1 if the others were over by then
 *
 * A step is backward, then the forward that follows. Every transfer is one all-reduce that
 * starts when backward has produced it and that forward waits for where it is first used. */
#include <stdbool.h>

#include "schedule_rank.h"

enum {
    BY_PRIORITY = 1, /* else all alike: then they go in the order of starting */
    CROSSES = 2,     /* the barrier between steps: else forward waits for everything */
    COLD = 4,        /* ranks meet before each step, and it ends with its forward */
    NAMED = 8,       /* tensors have names, and tutti_step is called */
    TOLD = 16,       /* tutti_step is called, without names */
    TRANSFERS_MAX = 1024,
    CALLS_MAX = 4096,
    PIECES_MAX = 1000, /* in flight are at most 1,024 calls, the urgent one among them */
};

typedef struct transfer {
    uint64_t elements;
    double use_us;   /* from the start of forward */
    double ready_us; /* from the start of backward */
    int place;       /* of its first use: 0 is first */
    bool in_forward; /* not before backward is over */
    float *memory;
    char name[16];
    tutti_handle *handle;
} transfer;

typedef struct rank_state {
    tutti_context *context;
    rank_line line;
    double forward_us, backward_us;
    uint32_t count;
    transfer transfers[TRANSFERS_MAX];
    uint32_t by_use[TRANSFERS_MAX];
    uint32_t by_ready[TRANSFERS_MAX];
    unsigned flags;
    double clock_ns;
    int64_t spent_ns;
    int64_t times_ns[CALLS_MAX];
    unsigned long long piece_bytes; /* 0: all in one call */
    uint32_t piece_count;
    tutti_handle *pieces[PIECES_MAX];
} rank_state;

/* ---- the table ---- */

static void sort(rank_state *self, uint32_t *order, double (*key)(const transfer *))
{
    for (uint32_t i = 0; i < self->count; i++) {
        uint32_t at = i;
        for (; at > 0 && key(&self->transfers[order[at - 1]]) > key(&self->transfers[i]); at--) {
            order[at] = order[at - 1];
        }
        order[at] = i;
    }
}

static double use_key(const transfer *one)
{
    return one->use_us;
}

static double ready_key(const transfer *one)
{
    return one->in_forward ? one->ready_us + 1e12 : one->ready_us;
}

static void table_free(rank_state *self)
{
    for (uint32_t i = 0; i < self->count; i++) {
        free(self->transfers[i].memory);
    }
    self->count = 0;
}

/* "forward_us backward_us", then "elements use_us ready_us place in_forward" a line. */
static void table_read(rank_state *self, const char *path)
{
    table_free(self);
    FILE *file = fopen(path, "r");
    if (file == NULL || fscanf(file, "%lf %lf", &self->forward_us, &self->backward_us) != 2) {
        rank_die(self->context, path);
    }
    transfer one = {.place = 0};
    unsigned long long elements;
    int in_forward;
    while (self->count < TRANSFERS_MAX && fscanf(file, "%llu %lf %lf %d %d", &elements, &one.use_us,
                                                 &one.ready_us, &one.place, &in_forward) == 5) {
        one.elements = elements;
        one.in_forward = in_forward != 0;
        (void)snprintf(one.name, sizeof(one.name), "t%u", self->count);
        one.memory = calloc(elements > 0 ? elements : 1, sizeof(float));
        if (one.memory == NULL) {
            rank_die(self->context, "memory");
        }
        self->transfers[self->count++] = one;
    }
    fclose(file);
    sort(self, self->by_use, use_key);
    sort(self, self->by_ready, ready_key);
    fprintf(self->line.answers, "%u\n", self->count);
}

/* ---- steps ---- */

static void compute(rank_state *self, double us)
{
    self->clock_ns += us * 1e3;
    rank_sleep_until((int64_t)self->clock_ns);
}

static void present(rank_state *self)
{
    const double now_ns = (double)bench_now_ns();
    self->clock_ns = now_ns > self->clock_ns ? now_ns : self->clock_ns;
}

static void start(rank_state *self, transfer *one)
{
    tutti_call call = TUTTI_CALL_INIT;
    call.input = call.output = one->memory;
    call.count = one->elements;
    call.priority = (self->flags & BY_PRIORITY) != 0 ? -one->place : 0;
    call.name = (self->flags & NAMED) != 0 ? one->name : NULL;
    rank_must(self->context, tutti_start(self->context, &call, &one->handle), "start");
}

static void await(rank_state *self, transfer *one)
{
    if (one->handle == NULL) {
        return;
    }
    if (tutti_poll(one->handle) == TUTTI_IN_PROGRESS) {
        rank_wait(self->context, one->handle, "all-reduce");
        present(self);
    } else {
        rank_must(self->context, tutti_poll(one->handle), "all-reduce");
    }
    tutti_handle_free(one->handle);
    one->handle = NULL;
}

static void await_all(rank_state *self)
{
    for (uint32_t i = 0; i < self->count; i++) {
        await(self, &self->transfers[self->by_use[i]]);
    }
}

static void backward(rank_state *self)
{
    double done_us = 0;
    for (uint32_t i = 0; i < self->count; i++) {
        transfer *one = &self->transfers[self->by_ready[i]];
        const double until_us = one->in_forward ? self->backward_us : one->ready_us;
        compute(self, until_us - done_us);
        done_us = until_us;
        start(self, one);
    }
    compute(self, self->backward_us - done_us);
    if ((self->flags & (NAMED | TOLD)) != 0) {
        rank_must(self->context, tutti_step(self->context), "step");
        present(self);
    }
}

static void forward(rank_state *self)
{
    double done_us = 0;
    if ((self->flags & CROSSES) == 0) {
        await_all(self);
    }
    for (uint32_t i = 0; i < self->count; i++) {
        transfer *one = &self->transfers[self->by_use[i]];
        compute(self, one->use_us - done_us);
        done_us = one->use_us;
        await(self, one);
    }
    compute(self, self->forward_us - done_us);
}

static void meet(rank_state *self)
{
    rank_must(self->context, tutti_barrier(self->context), "barrier");
    self->clock_ns = (double)bench_now_ns();
}

/* A step's time is that between the ends of two forward passes, or its own if it is cold. */
static void steps_run(rank_state *self, int warm, int count)
{
    meet(self);
    for (int i = 0; i < warm + count && i < CALLS_MAX; i++) {
        if ((self->flags & COLD) != 0) {
            meet(self);
        }
        self->spent_ns = i == warm ? rank_spent_ns() : self->spent_ns;
        const double begin_ns = self->clock_ns;
        backward(self);
        forward(self);
        self->times_ns[i] = (int64_t)(self->clock_ns - begin_ns);
    }
    self->spent_ns = rank_spent_ns() - self->spent_ns;
    for (int i = warm; i < warm + count; i++) {
        fprintf(self->line.answers, "%lld ", (long long)self->times_ns[i]);
    }
    fprintf(self->line.answers, "\n");
}

static void spent_tell(rank_state *self)
{
    tutti_counters now = TUTTI_COUNTERS_INIT;
    rank_must(self->context, tutti_count(self->context, TUTTI_WORLD, &now), "count");
    fprintf(self->line.answers, "%lld %.4f\n", (long long)self->spent_ns, now.rho);
}

static void train_run(rank_state *self, int count)
{
    self->flags = BY_PRIORITY | CROSSES | NAMED;
    self->clock_ns = (double)bench_now_ns();
    for (int i = 0; i < count; i++) {
        const double begin_ns = self->clock_ns;
        tutti_counters now = TUTTI_COUNTERS_INIT;
        backward(self);
        forward(self);
        rank_must(self->context, tutti_count(self->context, TUTTI_WORLD, &now), "count");
        fprintf(self->line.answers, "%.0f %llu %llu %llu ", self->clock_ns - begin_ns,
                (unsigned long long)now.chunk_bytes, (unsigned long long)now.credit_bytes,
                (unsigned long long)now.fuse_bytes);
    }
    fprintf(self->line.answers, "\n");
}

/* ---- calls alone ---- */

static tutti_handle *call_start(rank_state *self, float *memory, uint64_t bytes, int priority)
{
    tutti_call call = TUTTI_CALL_INIT;
    tutti_handle *handle = NULL;
    call.input = call.output = memory;
    call.count = bytes / sizeof(float);
    call.priority = priority;
    rank_must(self->context, tutti_start(self->context, &call, &handle), "start");
    return handle;
}

/* With BENCH_ARENA memory that all ranks of the host see, else the rank's own. */
static float *memory_take(rank_state *self, uint64_t bytes)
{
    float *memory =
        getenv("BENCH_ARENA") != NULL ? tutti_alloc(self->context, bytes) : calloc(1, bytes);
    if (memory == NULL) {
        rank_die(self->context, "memory");
    }
    return memory;
}

static void memory_give(rank_state *self, float *memory)
{
    if (getenv("BENCH_ARENA") != NULL) {
        tutti_free(self->context, memory);
    } else {
        free(memory);
    }
}

static void pieces_start(rank_state *self, float *memory, uint64_t bytes, int priority)
{
    const uint64_t most = self->piece_bytes > 0 ? self->piece_bytes : bytes;
    self->piece_count = 0;
    for (uint64_t at = 0; at < bytes && self->piece_count < PIECES_MAX; at += most) {
        self->pieces[self->piece_count++] = call_start(
            self, memory + at / sizeof(float), bytes - at < most ? bytes - at : most, priority);
    }
}

/* They are alike, so the last one ends last. */
static bool pieces_are_over(const rank_state *self)
{
    return self->piece_count > 0 &&
           tutti_poll(self->pieces[self->piece_count - 1]) != TUTTI_IN_PROGRESS;
}

static void pieces_wait(rank_state *self)
{
    for (uint32_t i = 0; i < self->piece_count; i++) {
        rank_wait(self->context, self->pieces[i], "all-reduce");
        tutti_handle_free(self->pieces[i]);
    }
    self->piece_count = 0;
}

static void bulk_run(rank_state *self, uint64_t bytes, int count)
{
    float *memory = memory_take(self, bytes);
    meet(self);
    for (int i = 0; i < count; i++) {
        const int64_t begin_ns = bench_now_ns();
        pieces_start(self, memory, bytes, 0);
        pieces_wait(self);
        fprintf(self->line.answers, "%lld ", (long long)(bench_now_ns() - begin_ns));
    }
    fprintf(self->line.answers, "\n");
    memory_give(self, memory);
}

static void answer_since(rank_state *self, int64_t at_ns)
{
    fprintf(self->line.answers, "%lld ", (long long)((double)at_ns - self->clock_ns));
}

/* The ranks share a clock: all of them start the urgent calls at the same instants, or as soon
 * after as their timers wake them. */
static void urgent_run(rank_state *self, uint64_t bytes, uint64_t small, int count, double gap_us)
{
    float *large = memory_take(self, bytes + 4);
    float *urgent = memory_take(self, small);
    int64_t begin_ns[1] = {0};
    meet(self);
    begin_ns[0] = bench_now_ns();
    rank_must(self->context,
              tutti_allreduce(self->context, begin_ns, begin_ns, 1, TUTTI_I64, TUTTI_MAX), "clock");
    pieces_start(self, large, bytes, -1);
    for (int i = 0; i < count; i++) {
        self->clock_ns = (double)begin_ns[0] + (i + 1) * gap_us * 1e3;
        rank_sleep_until((int64_t)self->clock_ns);
        const bool is_behind = !pieces_are_over(self);
        const int64_t start_ns = bench_now_ns();
        tutti_handle *handle = call_start(self, urgent, small, 1);
        rank_wait(self->context, handle, "urgent call");
        answer_since(self, is_behind ? start_ns : (int64_t)self->clock_ns - 1);
        answer_since(self, is_behind ? bench_now_ns() : (int64_t)self->clock_ns - 1);
        tutti_handle_free(handle);
    }
    fprintf(self->line.answers, "\n");
    pieces_wait(self);
    memory_give(self, large);
    memory_give(self, urgent);
}

static void obey(rank_state *self, char *command)
{
    char path[512];
    unsigned long long bytes, small;
    int warm, count;
    double gap_us;
    self->piece_bytes = 0;
    if (sscanf(command, "table %511s", path) == 1) {
        table_read(self, path);
    } else if (sscanf(command, "steps %u %d %d", &self->flags, &warm, &count) == 3) {
        steps_run(self, warm, count);
    } else if (strncmp(command, "spent", 5) == 0) {
        spent_tell(self);
    } else if (sscanf(command, "train %d", &count) == 1) {
        train_run(self, count);
    } else if (sscanf(command, "bulk %llu %d %llu", &bytes, &count, &self->piece_bytes) >= 2) {
        bulk_run(self, bytes, count);
    } else if (sscanf(command, "urgent %llu %llu %d %lf %llu", &bytes, &small, &count, &gap_us,
                      &self->piece_bytes) >= 4) {
        urgent_run(self, bytes, small, count, gap_us);
    } else {
        fprintf(stderr, "bench-schedule-rank: what is '%s'?\n", command);
        exit(1);
    }
    fflush(self->line.answers);
}

int main(void)
{
    rank_state *self = calloc(1, sizeof(*self));
    char command[640];
    if (self == NULL) {
        return 1;
    }
    self->context = rank_join(&self->line);
    while (fgets(command, sizeof(command), self->line.commands) != NULL) {
        obey(self, command);
    }
    table_free(self);
    const tutti_status status = tutti_shutdown(self->context);
    free(self);
    return status == TUTTI_OK ? 0 : 1;
}
