/* SPDX-License-Identifier: Apache-2.0
 *
 * calls-rank.c - one rank of bench/calls: what a call costs that was made before.
 *
 * usage: bench-calls-rank PASSES BLOCK_US TRACE_FILE   (started by bench/calls/run)
 *
 * A case is a rotation of calls that differ in type, operator or length, or a step of named
 * tensors. The cases take turns, PASSES times; a turn is a block of about BLOCK_US. Rank 0 prints
 * one line of JSON: by case, the median of its blocks in microseconds per call (per step for named
 * tensors). TRACE_FILE.RANK is written while the traced case runs. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/common/clock.h"
#include "bench/common/median.h"
#include "tutti/tutti.h"

enum {
    KINDS_MAX = 64,
    TENSORS = 64,
    TENSOR_FLOATS = 1024,
    LONG_FLOATS = 16384,
    BUFFER_BYTES = (LONG_FLOATS + KINDS_MAX) * 4,
    PLAN_STEPS = 40, /* until a step is planned, with room to spare */
    PASSES_MAX = 1000,
};

typedef struct calls_bench calls_bench;

typedef struct bench_case {
    const char *name;
    void (*once)(calls_bench *self, uint32_t turn); /* a call of a rotation, or a step */
    uint32_t kinds;                                 /* calls in rotation */
    uint32_t repeats;                               /* of a block, measured once */
    double sample_us[PASSES_MAX];
} bench_case;

struct calls_bench {
    tutti_context *context;
    tutti_call kinds[KINDS_MAX], longs[KINDS_MAX], tensors[TENSORS];
    tutti_handle *declared[KINDS_MAX], *declared_longs[KINDS_MAX];
    tutti_handle *steps[TENSORS], *started[TENSORS];
    char names[TENSORS][16], start_names[TENSORS][16];
    char trace_file[4096]; /* of this rank */
    uint32_t in_rotation; /* of the case that runs */
};

static void check(const calls_bench *self, tutti_status status, const char *what)
{
    if (status != TUTTI_OK) {
        fprintf(stderr, "bench-calls-rank: %s: %s\n", what, tutti_last_error(self->context));
        exit(1);
    }
}

/* ---- cases ---- */

static void short_form(const calls_bench *self, const tutti_call *call)
{
    check(self,
          tutti_allreduce(self->context, call->input, call->output, call->count, call->dtype,
                          call->op),
          "tutti_allreduce");
}

static void once_short(calls_bench *self, uint32_t turn)
{
    short_form(self, &self->kinds[turn % self->in_rotation]);
}

static void once_short_long(calls_bench *self, uint32_t turn)
{
    short_form(self, &self->longs[turn % self->in_rotation]);
}

static void once_declared(calls_bench *self, uint32_t turn)
{
    check(self, tutti_rerun(self->declared[turn % self->in_rotation]), "tutti_rerun");
}

static void once_declared_long(calls_bench *self, uint32_t turn)
{
    check(self, tutti_rerun(self->declared_longs[turn % self->in_rotation]), "tutti_rerun");
}

static void once_step_declared(calls_bench *self, uint32_t turn)
{
    (void)turn;
    for (uint32_t i = 0; i < TENSORS; i++) {
        check(self, tutti_restart(self->steps[i]), "tutti_restart");
    }
    check(self, tutti_wait_all(self->steps, TENSORS, -1.0), "tutti_wait_all");
}

static void once_step_started(calls_bench *self, uint32_t turn)
{
    (void)turn;
    for (uint32_t i = 0; i < TENSORS; i++) {
        tutti_call call = self->tensors[i];
        call.name = self->start_names[i];
        check(self, tutti_start(self->context, &call, &self->started[i]), "tutti_start");
    }
    check(self, tutti_wait_all(self->started, TENSORS, -1.0), "tutti_wait_all");
    for (uint32_t i = 0; i < TENSORS; i++) {
        tutti_handle_free(self->started[i]);
    }
}

static bench_case cases[] = {
    {.name = "short, 1", .once = once_short, .kinds = 1},
    {.name = "short, 2", .once = once_short, .kinds = 2},
    {.name = "short, 4", .once = once_short, .kinds = 4},
    {.name = "short, 16", .once = once_short, .kinds = 16},
    {.name = "short, 64", .once = once_short, .kinds = 64},
    {.name = "declared, 1", .once = once_declared, .kinds = 1},
    {.name = "declared, 2", .once = once_declared, .kinds = 2},
    {.name = "declared, 4", .once = once_declared, .kinds = 4},
    {.name = "declared, 16", .once = once_declared, .kinds = 16},
    {.name = "declared, 64", .once = once_declared, .kinds = 64},
    {.name = "short 64 KB, 1", .once = once_short_long, .kinds = 1},
    {.name = "short 64 KB, 4", .once = once_short_long, .kinds = 4},
    {.name = "declared 64 KB, 1", .once = once_declared_long, .kinds = 1},
    {.name = "declared 64 KB, 4", .once = once_declared_long, .kinds = 4},
    {.name = "step, declared", .once = once_step_declared, .kinds = 1},
    {.name = "step, started", .once = once_step_started, .kinds = 1},
    {.name = "step, declared, traced", .once = once_step_declared, .kinds = 1},
};
enum { CASES = sizeof(cases) / sizeof(cases[0]), TRACED = CASES - 1 };

/* ---- preparation ---- */

static void *take(const calls_bench *self, size_t bytes)
{
    void *memory = tutti_alloc(self->context, bytes);
    if (memory == NULL) {
        fprintf(stderr, "bench-calls-rank: no memory for %zu bytes\n", bytes);
        exit(1);
    }
    memset(memory, 0, bytes);
    return memory;
}

/* Calls of at most 32 bytes that differ in element type, operator or length. */
static void make_kinds(calls_bench *self)
{
    static const tutti_dtype dtypes[] = {TUTTI_F32, TUTTI_I32, TUTTI_F64, TUTTI_I64};
    static const tutti_op operators[] = {TUTTI_SUM, TUTTI_MAX, TUTTI_MIN, TUTTI_PRODUCT};
    for (uint32_t i = 0; i < KINDS_MAX; i++) {
        const tutti_call init = TUTTI_CALL_INIT;
        self->kinds[i] = self->longs[i] = init;
        self->kinds[i].dtype = dtypes[i % 4];
        self->kinds[i].op = operators[i / 4 % 4];
        self->kinds[i].count = 1 + i / 16;
        self->kinds[i].input = self->kinds[i].output = take(self, 64);
        check(self, tutti_declare(self->context, &self->kinds[i], &self->declared[i]), "declare");
        if (i < 4) {
            self->longs[i].count = LONG_FLOATS + i;
            self->longs[i].input = self->longs[i].output = take(self, BUFFER_BYTES);
            check(self, tutti_declare(self->context, &self->longs[i], &self->declared_longs[i]),
                  "declare");
        }
    }
}

static void make_tensors(calls_bench *self)
{
    float *memory = take(self, (size_t)TENSORS * TENSOR_FLOATS * sizeof(float));
    for (uint32_t i = 0; i < TENSORS; i++) {
        const tutti_call init = TUTTI_CALL_INIT;
        (void)snprintf(self->names[i], sizeof(self->names[i]), "kept.%u", i);
        (void)snprintf(self->start_names[i], sizeof(self->start_names[i]), "start.%u", i);
        self->tensors[i] = init;
        self->tensors[i].count = TENSOR_FLOATS;
        self->tensors[i].input = memory + (size_t)i * TENSOR_FLOATS;
        self->tensors[i].output = memory + (size_t)i * TENSOR_FLOATS;
        self->tensors[i].name = self->names[i];
        check(self, tutti_declare(self->context, &self->tensors[i], &self->steps[i]), "declare");
    }
    for (uint32_t i = 0; i < PLAN_STEPS; i++) {
        once_step_declared(self, i);
        once_step_started(self, i);
    }
}

/* ---- measuring ---- */

static double block_us(calls_bench *self, bench_case *each, uint32_t repeats)
{
    const uint32_t warm =
        each->once == once_step_declared || each->once == once_step_started ? 4 : 2 * each->kinds;
    self->in_rotation = each->kinds;
    for (uint32_t i = 0; i < warm; i++) {
        each->once(self, i);
    }
    check(self, tutti_barrier(self->context), "tutti_barrier");
    const double begin = bench_now_us();
    for (uint32_t i = 0; i < repeats; i++) {
        each->once(self, i);
    }
    return (bench_now_us() - begin) / repeats;
}

/* Rank 0 decides how often all ranks repeat a block. */
static uint32_t agreed_repeats(const calls_bench *self, double once_us, double block)
{
    int32_t repeats = (int32_t)(block / once_us);
    check(self, tutti_broadcast(self->context, &repeats, 1, TUTTI_I32, 0), "tutti_broadcast");
    return repeats < 64 ? 64 : (uint32_t)repeats;
}

static void take_turns(calls_bench *self, uint32_t passes, double block)
{
    for (uint32_t i = 0; i < CASES; i++) {
        cases[i].repeats = agreed_repeats(self, block_us(self, &cases[i], 64), block);
    }
    for (uint32_t pass = 0; pass < passes; pass++) {
        for (uint32_t i = 0; i < CASES; i++) {
            if (i == TRACED) {
                check(self, tutti_trace_start(self->context, self->trace_file), "trace");
            }
            cases[i].sample_us[pass] = block_us(self, &cases[i], cases[i].repeats);
            if (i == TRACED) {
                check(self, tutti_trace_stop(self->context), "trace");
            }
        }
    }
}

static void print(uint32_t passes)
{
    for (uint32_t i = 0; i < CASES; i++) {
        printf("%s\"%s\": %.4f", i == 0 ? "{" : ", ", cases[i].name,
               bench_median(cases[i].sample_us, passes));
    }
    printf("}\n");
}

int main(int argc, char **argv)
{
    static calls_bench self;
    if (argc != 4) {
        fprintf(stderr,
                "usage: bench-calls-rank PASSES BLOCK_US TRACE_FILE; see bench/calls/run\n");
        return 2;
    }
    const uint32_t passes = (uint32_t)strtoul(argv[1], NULL, 10);
    const double block = strtod(argv[2], NULL);
    if (passes == 0 || passes > PASSES_MAX || block <= 0) {
        fprintf(stderr, "bench-calls-rank: 1 to %d passes, blocks of more than 0 us\n", PASSES_MAX);
        return 2;
    }
    check(&self, tutti_init(NULL, &self.context), "tutti_init");
    (void)snprintf(self.trace_file, sizeof(self.trace_file), "%s.%d", argv[3],
                   tutti_rank(self.context));
    make_kinds(&self);
    make_tensors(&self);
    take_turns(&self, passes, block);
    if (tutti_rank(self.context) == 0) {
        print(passes);
    }
    return tutti_shutdown(self.context) == TUTTI_OK ? 0 : 1;
}
