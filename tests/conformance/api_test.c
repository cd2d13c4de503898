/* SPDX-License-Identifier: Apache-2.0
 *
 * api_test.c - every collective of tutti.h, in every form, against the oracle.
 *
 * The ranks are threads of this process, over shared memory and over TCP.
 *
 * Labels: asan tsan
 * Timeout: 600
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "conformance/forms.h"

enum { SIZE_MAX_RANKS = 8 };

/* Sanitizers are slow: with many ranks they run every third combination. */
#ifdef TUTTI_DEBUG
enum { MANY_RANKS_STRIDE = 3 };
#else
enum { MANY_RANKS_STRIDE = 1 };
#endif

/* Every type and operator. */
static void every_type(ranks_self *self, uint64_t count)
{
    uint64_t salt = count;
    const int stride = self->size > 4 ? MANY_RANKS_STRIDE : 1;
    for (int collective = TUTTI_ALLREDUCE; collective <= TUTTI_ALLTOALL; collective++) {
        for (int dtype = TUTTI_U8; dtype <= TUTTI_BOOL; dtype++) {
            for (int op = TUTTI_SUM; op <= TUTTI_XOR; op++) {
                const bool is_wanted = oracle_is_reduction((tutti_collective)collective)
                                           ? oracle_allows((tutti_dtype)dtype, (tutti_op)op)
                                           : op == TUTTI_SUM;
                if (is_wanted && (collective + dtype + op) % stride == self->size % stride) {
                    forms_run(self,
                              (oracle_case){.collective = (tutti_collective)collective,
                                            .dtype = (tutti_dtype)dtype,
                                            .op = (tutti_op)op,
                                            .size = self->size,
                                            .count = count},
                              &salt);
                }
            }
        }
    }
}

static void every_type_body(ranks_self *self)
{
    every_type(self, 37);
    if (self->size <= 2) {
        every_type(self, 1);
    }
}

/* Around the limits of lines, eager frames, segments and lanes. */
static void every_size_body(ranks_self *self)
{
    static const uint64_t counts[] = {0, 1, 16, 1023, 1025, 16384, 65537, 700001};
    uint64_t salt = 0;
    for (int collective = TUTTI_ALLREDUCE; collective <= TUTTI_ALLTOALL; collective++) {
        for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
            const uint64_t total =
                counts[i] * (forms_has_parts((tutti_collective)collective) ? 4 : 1);
            if (total * (uint64_t)self->size * (uint64_t)self->size > 1500000) {
                continue;
            }
            forms_run(self,
                      (oracle_case){.collective = (tutti_collective)collective,
                                    .dtype = i % 2 == 0 ? TUTTI_BF16 : TUTTI_F32,
                                    .op = TUTTI_SUM,
                                    .size = self->size,
                                    .count = counts[i]},
                      &salt);
        }
    }
}

/* One large sum in every form. */
static void large_body(ranks_self *self)
{
    uint64_t salt = 5;
    forms_run(self,
              (oracle_case){.collective = TUTTI_ALLREDUCE,
                            .dtype = TUTTI_F32,
                            .op = TUTTI_SUM,
                            .size = self->size,
                            .count = 1200001},
              &salt);
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

static void test_a_large_sum_runs_in_every_form(void **state)
{
    (void)state;
    ranks_run(2, "shm", large_body, NULL);
    ranks_run(2, "tcp", large_body, NULL);
}

static void test_several_threads_of_a_rank_sum_alike(void **state)
{
    (void)state;
    assert_int_equal(setenv("TUTTI_THREADS", "3", 1), 0);
    ranks_run(2, "shm", large_body, NULL);
    assert_int_equal(unsetenv("TUTTI_THREADS"), 0);
}

/* ---- past the cache ---- */

/* Results of 16 MiB and more that lie apart from their inputs are stored past the cache. */
enum { STREAMED_COUNT = 4200001, STREAMED_BYTES = STREAMED_COUNT * sizeof(float) };

/* Sums of such values are rounded: another order of adding gives other bits. */
static float streamed_value(int rank, size_t i)
{
    const uint32_t mixed = (uint32_t)(i + 1) * 2654435761U + (uint32_t)rank * 40503U;
    return (float)(mixed >> 7) * 0x1p-21F - 7.3F;
}

/* The plain twin: added by rank. */
static float streamed_sum(int size, size_t i)
{
    float sum = streamed_value(0, i);
    for (int rank = 1; rank < size; rank++) {
        sum += streamed_value(rank, i);
    }
    return sum;
}

/* Out of place and in place: both equal the twin. */
static void streamed_sums(ranks_self *self, const float *input, float *output, float *in_place)
{
    const size_t part = STREAMED_COUNT / (size_t)self->size;
    const float *own = input + part * (size_t)self->rank;
    memcpy(in_place, input, STREAMED_BYTES);
    EXPECT_STATUS(TUTTI_OK, tutti_allreduce(self->context, input, output, STREAMED_COUNT, TUTTI_F32,
                                            TUTTI_SUM));
    EXPECT_STATUS(TUTTI_OK, tutti_allreduce(self->context, in_place, in_place, STREAMED_COUNT,
                                            TUTTI_F32, TUTTI_SUM));
    for (size_t i = 0; i < STREAMED_COUNT; i++) {
        const float wanted = streamed_sum(self->size, i);
        EXPECT_SAY(output[i] == wanted && in_place[i] == wanted, "element %zu: %a, in place %a", i,
                   (double)output[i], (double)in_place[i]);
    }
    EXPECT_STATUS(TUTTI_OK, tutti_allreduce(self->context, input, output, STREAMED_COUNT, TUTTI_F32,
                                            TUTTI_AVERAGE));
    for (size_t i = 0; i < STREAMED_COUNT; i++) {
        EXPECT_SAY(output[i] == in_place[i] / (float)self->size, "average %zu", i);
    }
    EXPECT_STATUS(TUTTI_OK,
                  tutti_reducescatter(self->context, input, output, part, TUTTI_F32, TUTTI_SUM));
    EXPECT(memcmp(output, in_place + (own - input), part * sizeof(float)) == 0);
}

/* Copies: every part is another rank's. */
static void streamed_copies(ranks_self *self, const float *input, float *output)
{
    const size_t part = STREAMED_COUNT / (size_t)self->size;
    EXPECT_STATUS(TUTTI_OK, tutti_allgather(self->context, input, output, part, TUTTI_F32));
    for (size_t i = 0; i < part * (size_t)self->size; i++) {
        EXPECT_SAY(output[i] == streamed_value((int)(i / part), i % part), "gathered %zu", i);
    }
    EXPECT_STATUS(TUTTI_OK, tutti_alltoall(self->context, input, output, part, TUTTI_F32));
    for (size_t i = 0; i < part * (size_t)self->size; i++) {
        const size_t at = part * (size_t)self->rank + i % part;
        EXPECT_SAY(output[i] == streamed_value((int)(i / part), at), "exchanged %zu", i);
    }
    for (size_t i = 0; self->rank == 1 && i < STREAMED_COUNT; i++) {
        output[i] = input[i];
    }
    EXPECT_STATUS(TUTTI_OK, tutti_broadcast(self->context, output, STREAMED_COUNT, TUTTI_F32, 1));
    for (size_t i = 0; i < STREAMED_COUNT; i++) {
        EXPECT_SAY(output[i] == streamed_value(1, i), "told %zu", i);
    }
}

static void streamed_body(ranks_self *self)
{
    float *buffers[3];
    for (size_t i = 0; i < 3; i++) {
        buffers[i] = tutti_alloc(self->context, STREAMED_BYTES);
        EXPECT(buffers[i] != NULL);
    }
    for (size_t i = 0; i < STREAMED_COUNT; i++) {
        buffers[0][i] = streamed_value(self->rank, i);
    }
    streamed_sums(self, buffers[0], buffers[1], buffers[2]);
    streamed_copies(self, buffers[0], buffers[1]);
    for (size_t i = 0; i < 3; i++) {
        tutti_free(self->context, buffers[i]);
    }
}

static void test_results_stored_past_the_cache_have_the_same_bits(void **state)
{
    (void)state;
    ranks_run(2, "shm", streamed_body, NULL);
    assert_int_equal(setenv("TUTTI_THREADS", "3", 1), 0);
    ranks_run(3, "shm", streamed_body, NULL);
    assert_int_equal(unsetenv("TUTTI_THREADS"), 0);
}

/* ---- places ---- */

/* Each rank changes its buffers from call to call, independently of the others. */
static void places_body(ranks_self *self)
{
    enum { COUNT = 9000, BUFFERS = 3, CALLS = 60 };
    static const tutti_collective collectives[] = {TUTTI_ALLREDUCE, TUTTI_ALLTOALL,
                                                   TUTTI_BROADCAST};
    int32_t *inputs[BUFFERS], *outputs[BUFFERS];
    for (int i = 0; i < BUFFERS; i++) { /* the last one is its own */
        const size_t bytes = COUNT * sizeof(int32_t);
        inputs[i] = i < BUFFERS - 1 ? tutti_alloc(self->context, bytes) : malloc(bytes);
        outputs[i] = i < BUFFERS - 1 ? tutti_alloc(self->context, bytes) : malloc(bytes);
        EXPECT(inputs[i] != NULL && outputs[i] != NULL);
    }
    for (int turn = 0; turn < CALLS; turn++) {
        tutti_call call = TUTTI_CALL_INIT;
        const int mine = (turn / 4 + self->rank) % 13 == 5 ? 2 : turn / (2 + self->rank) % 2;
        call.collective = collectives[turn / 20 % 3];
        const bool is_alltoall = call.collective == TUTTI_ALLTOALL;
        const bool is_broadcast = call.collective == TUTTI_BROADCAST;
        call.input = inputs[mine];
        call.output = is_broadcast || turn % 20 < 5 ? inputs[mine] : outputs[mine];
        call.output = is_alltoall ? outputs[mine] : call.output;
        call.count = is_alltoall ? (uint64_t)(COUNT / self->size) : COUNT;
        call.dtype = TUTTI_I32;
        call.root = turn / 7 % self->size;
        for (int i = 0; i < COUNT; i++) {
            inputs[mine][i] = turn + i % 50 + 100 * self->rank;
        }
        EXPECT_STATUS(TUTTI_OK, tutti_run(self->context, &call));
        const int32_t *found = call.output;
        const int part = (int)call.count;
        for (int i = 0; i < part * (is_alltoall ? self->size : 1); i++) {
            const int at = is_alltoall ? self->rank * part + i % part : i;
            const int32_t of_zero = turn + at % 50;
            const int32_t wanted = is_alltoall ? of_zero + 100 * (i / part)
                                   : is_broadcast
                                       ? of_zero + 100 * call.root
                                       : self->size * of_zero + 50 * self->size * (self->size - 1);
            EXPECT_SAY(found[i] == wanted, "turn %d, rank %d, element %d: %d, not %d", turn,
                       self->rank, i, found[i], wanted);
        }
    }
    for (int i = 0; i < BUFFERS - 1; i++) {
        tutti_free(self->context, inputs[i]);
        tutti_free(self->context, outputs[i]);
    }
    free(inputs[BUFFERS - 1]);
    free(outputs[BUFFERS - 1]);
}

static void test_calls_that_repeat_find_their_buffers(void **state)
{
    (void)state;
    ranks_run(2, "shm", places_body, NULL);
    ranks_run(4, "shm", places_body, NULL);
}

/* ---- algorithms ---- */

static const char *const algorithms[] = {"flat",     "star",     "ring",        "doubling",
                                         "halving",  "binomial", "direct",      "shared",
                                         "pairwise", "views",    "hierarchical"};

static void algorithm_body(ranks_self *self)
{
    static const uint64_t counts[] = {1, 1000, 70000};
    uint64_t salt = 0;
    for (int collective = TUTTI_ALLREDUCE; collective <= TUTTI_ALLTOALL; collective++) {
        const size_t last = collective == TUTTI_ALLREDUCE ? 3 : 2;
        for (size_t i = 0; i < last; i++) {
            forms_run(self,
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
            const bool is_shared = strcmp(algorithms[i], "shared") == 0 ||
                                   strcmp(algorithms[i], "views") == 0 || (i + j) % 2 == 0;
            ranks_run(some_sizes[j], is_shared ? "shm" : "tcp", algorithm_body, NULL);
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
        cmocka_unit_test(test_a_large_sum_runs_in_every_form),
        cmocka_unit_test(test_several_threads_of_a_rank_sum_alike),
        cmocka_unit_test(test_results_stored_past_the_cache_have_the_same_bits),
        cmocka_unit_test(test_calls_that_repeat_find_their_buffers),
        cmocka_unit_test(test_every_algorithm_can_be_forced),
        cmocka_unit_test(test_all_ranks_get_the_same_bits),
        cmocka_unit_test(test_special_values_follow_the_header),
        cmocka_unit_test(test_shared_memory_rounds_halves_once),
    };
    return cmocka_run_group_tests_name("api", tests, NULL, NULL);
}
