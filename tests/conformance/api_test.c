/* SPDX-License-Identifier: Apache-2.0
 *
 * api_test.c - every collective of tutti.h, in every form, against the oracle.
 *
 * The ranks are threads of this process, over shared memory and over TCP.
 *
 * Labels: asan tsan
 * Timeout: 300
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "conformance/oracle.h"
#include "conformance/ranks.h"

enum { SIZE_MAX_RANKS = 8, CANARY = 0xa5, CANARY_BYTES = 64 };

/* Where a buffer lies. */
typedef enum memory_kind { FOREIGN, FOREIGN_ODD, ARENA, ARENA_ODD, MEMORY_KINDS } memory_kind;

typedef struct buffer {
    uint8_t *base; /* as it was allocated */
    uint8_t *data; /* between canaries */
    size_t bytes;
    memory_kind kind;
} buffer;

typedef struct form {
    bool is_in_place;
    bool is_allocated; /* through result_out */
    uint64_t salt;     /* chooses the memory */
} form;

/* ---- buffers ---- */

static buffer buffer_new(tutti_context *context, memory_kind kind, size_t bytes)
{
    const bool is_arena = kind == ARENA || kind == ARENA_ODD;
    const size_t odd = kind == FOREIGN_ODD ? 1 : kind == ARENA_ODD ? 3 : 0;
    const size_t room = bytes + 2 * CANARY_BYTES + 8;
    buffer made = {.bytes = bytes, .kind = kind};
    made.base = is_arena ? tutti_alloc(context, room) : malloc(room);
    EXPECT_SAY(made.base != NULL, "%zu bytes", bytes);
    memset(made.base, CANARY, room);
    made.data = made.base + CANARY_BYTES + odd;
    return made;
}

static void buffer_free(tutti_context *context, buffer *old)
{
    for (size_t i = 0; i < CANARY_BYTES; i++) {
        EXPECT_SAY(old->data[-1 - (ptrdiff_t)i] == CANARY, "byte -%zu was written", i + 1);
        EXPECT_SAY(old->data[old->bytes + i] == CANARY, "byte %zu + %zu was written", old->bytes,
                   i);
    }
    if (old->kind == ARENA || old->kind == ARENA_ODD) {
        tutti_free(context, old->base);
    } else {
        free(old->base);
    }
}

/* ---- one call ---- */

typedef struct attempt {
    const oracle_case *one;
    tutti_call call;
    size_t element;
    buffer input, output;
    uint64_t input_counts[SIZE_MAX_RANKS], output_counts[SIZE_MAX_RANKS];
    void *result;
} attempt;

static bool shares_buffer(const oracle_case *one, form how)
{
    return how.is_in_place || one->collective == TUTTI_BROADCAST;
}

static void place_buffers(ranks_self *self, attempt *try, form how)
{
    const oracle_case *one = try->one;
    const size_t in_bytes = oracle_input_count(one, self->rank) * try->element;
    const size_t out_bytes = oracle_output_count(one, self->rank) * try->element;
    const uint64_t pick = how.salt * 5 + (uint64_t)self->rank * (how.salt % 3);
    const bool is_shared = shares_buffer(one, how);
    const size_t room = is_shared && in_bytes > out_bytes ? in_bytes : out_bytes;
    size_t offset = 0;
    try->output = buffer_new(self->context, (memory_kind)(pick % MEMORY_KINDS), room);
    try->input =
        buffer_new(self->context, (memory_kind)(pick / 4 % MEMORY_KINDS), is_shared ? 0 : in_bytes);
    if (is_shared && (one->collective == TUTTI_ALLGATHER || one->collective == TUTTI_GATHER) &&
        out_bytes > 0) {
        offset = oracle_own_offset(one, self->rank) * try->element;
    }
    uint8_t *input = is_shared ? try->output.data + offset : try->input.data;
    oracle_fill_input(one, self->rank, input);
    try->call.input = input;
    try->call.output = how.is_allocated ? NULL : try->output.data;
}

static void set_counts(ranks_self *self, attempt *try)
{
    const oracle_case *one = try->one;
    tutti_call *call = &try->call;
    if (!one->is_uneven) {
        return;
    }
    call->output_capacity = call->output != NULL ? oracle_output_count(one, self->rank) : 0;
    for (int to = 0; to < one->size; to++) {
        try->input_counts[to] = oracle_part(one, self->rank, to);
    }
    const bool is_gather = one->collective == TUTTI_ALLGATHER || one->collective == TUTTI_GATHER;
    const bool gives = one->collective != TUTTI_SCATTER || self->rank == one->root;
    call->input_counts = !is_gather && gives ? try->input_counts : NULL;
    call->output_counts = one->collective == TUTTI_REDUCESCATTER ? NULL : try->output_counts;
    call->count = is_gather ? oracle_part(one, self->rank, 0) : 0;
}

static void check_counts(ranks_self *self, const attempt *try)
{
    const oracle_case *one = try->one;
    const bool is_silent = one->collective == TUTTI_REDUCESCATTER ||
                           (one->collective == TUTTI_GATHER && self->rank != one->root);
    if (!one->is_uneven || is_silent) {
        return;
    }
    if (one->collective == TUTTI_SCATTER) {
        EXPECT(try->output_counts[0] == oracle_part(one, one->root, self->rank));
        return;
    }
    for (int from = 0; from < one->size; from++) {
        EXPECT(try->output_counts[from] == oracle_part(one, from, self->rank));
    }
}

static void check_result(ranks_self *self, const attempt *try, form how)
{
    const oracle_case *one = try->one;
    char text[160];
    oracle_describe(one, text, sizeof(text));
    const size_t out_bytes = oracle_output_count(one, self->rank) * try->element;
    const size_t in_bytes = oracle_input_count(one, self->rank) * try->element;
    const uint8_t *got = how.is_allocated ? try->result : try->output.data;
    uint8_t *wanted = malloc(out_bytes + in_bytes + 1);
    EXPECT(wanted != NULL);
    oracle_fill_expected(one, self->rank, wanted);
    for (size_t i = 0; i < out_bytes; i++) {
        EXPECT_SAY(got[i] == wanted[i], "%s: rank %d byte %zu of %zu is %02x, not %02x (salt %llu)",
                   text, self->rank, i, out_bytes, got[i], wanted[i], (unsigned long long)how.salt);
    }
    if (!shares_buffer(one, how)) {
        oracle_fill_input(one, self->rank, wanted);
        EXPECT_SAY(in_bytes == 0 || memcmp(try->input.data, wanted, in_bytes) == 0,
                   "%s: rank %d: the input was written", text, self->rank);
    }
    free(wanted);
}

static void run_case(ranks_self *self, const oracle_case *one, form how)
{
    attempt try = {.one = one, .call = TUTTI_CALL_INIT, .element = tutti_dtype_bytes(one->dtype)};
    char text[160];
    oracle_describe(one, text, sizeof(text));
    place_buffers(self, &try, how);
    try.call.collective = one->collective;
    try.call.dtype = one->dtype;
    try.call.op = one->op;
    try.call.root = one->root;
    try.call.count = one->count;
    try.call.prescale = one->prescale;
    try.call.postscale = one->postscale;
    try.call.result_out = how.is_allocated ? &try.result : NULL;
    set_counts(self, &try);
    const tutti_status status = tutti_run(self->context, &try.call);
    EXPECT_SAY(status == TUTTI_OK, "%s: rank %d salt %llu: %s: %s", text, self->rank,
               (unsigned long long)how.salt, tutti_status_text(status),
               tutti_last_error(self->context));
    check_counts(self, &try);
    check_result(self, &try, how);
    if (how.is_allocated) {
        tutti_free(self->context, try.result);
    }
    buffer_free(self->context, &try.input);
    buffer_free(self->context, &try.output);
}

/* ---- tables ---- */

static bool may_alias(tutti_collective collective)
{
    return collective != TUTTI_SCATTER && collective != TUTTI_REDUCESCATTER &&
           collective != TUTTI_BARRIER;
}

static bool has_parts(tutti_collective collective)
{
    return collective >= TUTTI_ALLGATHER && collective <= TUTTI_ALLTOALL;
}

/* All forms of one (collective, dtype, op, count). */
static void run_forms(ranks_self *self, oracle_case one, uint64_t *salt)
{
    one.root = (int)(*salt % (uint64_t)self->size);
    one.prescale = one.postscale = 1.0;
    one.seed = ++*salt;
    run_case(self, &one, (form){.salt = one.seed});
    one.seed = ++*salt;
    if (one.collective != TUTTI_BROADCAST && one.collective != TUTTI_BARRIER) {
        run_case(self, &one, (form){.is_allocated = true, .salt = one.seed});
    }
    if (may_alias(one.collective)) {
        one.seed = ++*salt;
        run_case(self, &one, (form){.is_in_place = true, .salt = one.seed});
    }
    if (oracle_is_reduction(one.collective)) {
        one.prescale = one.op == TUTTI_PRODUCT ? 1.0 : 2.0;
        one.postscale = 0.5;
        one.seed = ++*salt;
        run_case(self, &one,
                 (form){.is_in_place = may_alias(one.collective) && one.seed % 2 == 0,
                        .is_allocated = one.seed % 4 == 1,
                        .salt = one.seed});
        one.prescale = one.postscale = 1.0;
    }
    if (has_parts(one.collective)) {
        one.is_uneven = true;
        one.seed = ++*salt;
        run_case(self, &one, (form){.salt = one.seed});
        one.seed = ++*salt;
        run_case(self, &one, (form){.is_allocated = true, .salt = one.seed});
    }
}

static void every_type(ranks_self *self, const uint64_t *counts, size_t count_count)
{
    uint64_t salt = 0;
    for (int collective = TUTTI_ALLREDUCE; collective <= TUTTI_ALLTOALL; collective++) {
        for (int dtype = TUTTI_U8; dtype <= TUTTI_BOOL; dtype++) {
            for (int op = TUTTI_SUM; op <= TUTTI_XOR; op++) {
                const bool is_wanted = oracle_is_reduction((tutti_collective)collective)
                                           ? oracle_allows((tutti_dtype)dtype, (tutti_op)op)
                                           : op == TUTTI_SUM;
                for (size_t i = 0; is_wanted && i < count_count; i++) {
                    run_forms(self,
                              (oracle_case){.collective = (tutti_collective)collective,
                                            .dtype = (tutti_dtype)dtype,
                                            .op = (tutti_op)op,
                                            .size = self->size,
                                            .count = counts[i]},
                              &salt);
                }
            }
        }
    }
}

static void every_type_body(ranks_self *self)
{
    static const uint64_t counts[] = {0, 1, 37, 700};
    const size_t first = self->size > 3 ? 2 : 0;
    every_type(self, counts + first, (self->size > 4 ? 1 : 4 - first));
}

static void every_size_body(ranks_self *self)
{
    static const uint64_t counts[] = {0,    1,    15,   16,    63,    255,
                                      1023, 1024, 1025, 16383, 65537, 300001};
    const size_t last = self->size > 3 ? 11 : 12;
    uint64_t salt = 0;
    for (int collective = TUTTI_ALLREDUCE; collective <= TUTTI_ALLTOALL; collective++) {
        for (size_t i = 0; i < last; i++) {
            if (counts[i] > 40000 && has_parts((tutti_collective)collective) && self->size > 2) {
                continue;
            }
            run_forms(self,
                      (oracle_case){.collective = (tutti_collective)collective,
                                    .dtype = i % 2 == 0 ? TUTTI_F32 : TUTTI_BF16,
                                    .op = TUTTI_SUM,
                                    .size = self->size,
                                    .count = counts[i]},
                      &salt);
        }
    }
}

static const int sizes[] = {1, 2, 3, 4, 5, 8};

static void on_all_sizes(const char *transport, ranks_fn *body)
{
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        ranks_run(sizes[i], transport, body, NULL);
    }
}

static void test_shared_memory_serves_every_type_and_op(void **state)
{
    (void)state;
    on_all_sizes("shm", every_type_body);
}

static void test_tcp_serves_every_type_and_op(void **state)
{
    (void)state;
    on_all_sizes("tcp", every_type_body);
}

static void test_shared_memory_serves_every_size(void **state)
{
    (void)state;
    on_all_sizes("shm", every_size_body);
}

static void test_tcp_serves_every_size(void **state)
{
    (void)state;
    on_all_sizes("tcp", every_size_body);
}

/* ---- algorithms ---- */

static const char *const algorithms[] = {"flat",    "ring",     "doubling",
                                         "halving", "binomial", "pairwise",
                                         "direct",  "shared",   "hierarchical"};

static void algorithm_body(ranks_self *self)
{
    static const uint64_t counts[] = {0, 1, 1000, 70000};
    uint64_t salt = 0;
    for (int collective = TUTTI_ALLREDUCE; collective <= TUTTI_ALLTOALL; collective++) {
        for (size_t i = 0; i < 4; i++) {
            if (counts[i] > 2000 && !oracle_is_reduction((tutti_collective)collective)) {
                continue;
            }
            run_forms(self,
                      (oracle_case){.collective = (tutti_collective)collective,
                                    .dtype = TUTTI_F32,
                                    .op = TUTTI_AVERAGE,
                                    .size = self->size,
                                    .count = counts[i]},
                      &salt);
        }
    }
}

static void test_every_algorithm_can_be_forced(void **state)
{
    (void)state;
    static const int some_sizes[] = {2, 3, 5};
    for (size_t i = 0; i < sizeof(algorithms) / sizeof(algorithms[0]); i++) {
        assert_int_equal(setenv("TUTTI_ALGORITHM", algorithms[i], 1), 0);
        for (size_t j = 0; j < 3; j++) {
            ranks_run(some_sizes[j], (i + j) % 2 == 0 ? "shm" : "tcp", algorithm_body, NULL);
        }
    }
    assert_int_equal(unsetenv("TUTTI_ALGORITHM"), 0);
}

/* ---- bits ---- */

enum { BITS_COUNT = 300000 };

typedef struct bits_share {
    uint8_t *results[SIZE_MAX_RANKS];
} bits_share;

static uint32_t scramble(uint32_t x)
{
    x ^= x >> 16;
    x *= 0x7feb352dU;
    x ^= x >> 15;
    x *= 0x846ca68bU;
    return x ^ x >> 16;
}

static float wild(int rank, size_t index)
{
    const uint32_t bits = scramble((uint32_t)index * 31U + (uint32_t)rank);
    return (float)((int32_t)bits) * (index % 7 == 0 ? 1e20F : 1e-9F);
}

static void same_bits_body(ranks_self *self)
{
    static const size_t counts[] = {5, 900, 20000, BITS_COUNT};
    bits_share *share = self->user;
    float *values = malloc(BITS_COUNT * sizeof(*values));
    EXPECT(values != NULL);
    share->results[self->rank] = (uint8_t *)values;
    for (size_t c = 0; c < 4; c++) {
        for (size_t i = 0; i < counts[c]; i++) {
            values[i] = wild(self->rank, i);
        }
        EXPECT_STATUS(TUTTI_OK, tutti_allreduce(self->context, values, values, counts[c], TUTTI_F32,
                                                TUTTI_SUM));
        ranks_meet(self);
        EXPECT_SAY(memcmp(values, share->results[0], counts[c] * sizeof(*values)) == 0,
                   "rank %d and rank 0 differ in a sum of %zu", self->rank, counts[c]);
        for (size_t i = 0; i < counts[c]; i++) {
            double sum = 0.0, size = 0.0;
            for (int rank = 0; rank < self->size; rank++) {
                sum += (double)wild(rank, i);
                size += (double)(wild(rank, i) < 0 ? -wild(rank, i) : wild(rank, i));
            }
            const double error = (double)values[i] - sum;
            EXPECT_SAY((error < 0 ? -error : error) <= size * 1e-6, "%g instead of %g", values[i],
                       sum);
        }
        ranks_meet(self);
    }
    free(values);
}

static void test_all_ranks_get_the_same_bits(void **state)
{
    (void)state;
    bits_share share;
    for (int size = 2; size <= 5; size++) {
        ranks_run(size, "shm", same_bits_body, &share);
        ranks_run(size, "tcp", same_bits_body, &share);
    }
}

static void special_values_body(ranks_self *self)
{
    const float nan = __builtin_nanf("");
    float values[4] = {self->rank == 1 ? nan : 1.0F, self->rank == 0 ? nan : 2.0F, 3.0F,
                       (float)self->rank};
    float least[4], most[4];
    EXPECT_STATUS(TUTTI_OK, tutti_allreduce(self->context, values, least, 4, TUTTI_F32, TUTTI_MIN));
    EXPECT_STATUS(TUTTI_OK, tutti_allreduce(self->context, values, most, 4, TUTTI_F32, TUTTI_MAX));
    EXPECT(least[0] != least[0] && least[1] != least[1] && least[2] == 3.0F && least[3] == 0.0F);
    EXPECT(most[0] != most[0] && most[1] != most[1] && most[3] == (float)(self->size - 1));
    /* Seven, not a multiple of the ranks, of either sign: truncated toward zero. */
    int32_t seven[2] = {self->rank == 0 ? 7 : 0, self->rank == 0 ? -7 : 0};
    EXPECT_STATUS(TUTTI_OK,
                  tutti_allreduce(self->context, seven, seven, 2, TUTTI_I32, TUTTI_AVERAGE));
    EXPECT(seven[0] == 7 / self->size && seven[1] == -7 / self->size);
    uint8_t flags[3] = {(uint8_t)(self->rank == 0 ? 0x80 : 0), 2, 0};
    EXPECT_STATUS(TUTTI_OK, tutti_allreduce(self->context, flags, flags, 3, TUTTI_BOOL, TUTTI_SUM));
    EXPECT(flags[0] == 1 && flags[1] == 1 && flags[2] == 0);
}

static void test_special_values_follow_the_header(void **state)
{
    (void)state;
    ranks_run(2, "shm", special_values_body, NULL);
    ranks_run(3, "tcp", special_values_body, NULL);
}

/* 2048 + 1 in f16: a running f16 sum stays at 2048; added in f32 and rounded once it is 2056. */
static void half_body(ranks_self *self)
{
    enum { COUNT = 100000 }; /* by shared memory */
    const uint16_t one = 0x3c00, big = 0x6800;
    uint16_t *values = tutti_alloc(self->context, COUNT * sizeof(*values));
    EXPECT(values != NULL);
    for (size_t i = 0; i < COUNT; i++) {
        values[i] = self->rank == 0 ? big : one;
    }
    EXPECT_STATUS(TUTTI_OK,
                  tutti_allreduce(self->context, values, values, COUNT, TUTTI_F16, TUTTI_SUM));
    for (size_t i = 0; i < COUNT; i++) {
        EXPECT_SAY(values[i] == 0x6802, "%04x at %zu", values[i], i); /* 2052 */
    }
    tutti_free(self->context, values);
}

static void test_shared_memory_rounds_halves_once(void **state)
{
    (void)state;
    ranks_run(5, "shm", half_body, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shared_memory_serves_every_type_and_op),
        cmocka_unit_test(test_tcp_serves_every_type_and_op),
        cmocka_unit_test(test_shared_memory_serves_every_size),
        cmocka_unit_test(test_tcp_serves_every_size),
        cmocka_unit_test(test_every_algorithm_can_be_forced),
        cmocka_unit_test(test_all_ranks_get_the_same_bits),
        cmocka_unit_test(test_special_values_follow_the_header),
        cmocka_unit_test(test_shared_memory_rounds_halves_once),
    };
    return cmocka_run_group_tests_name("api", tests, NULL, NULL);
}
