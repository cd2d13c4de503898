/* SPDX-License-Identifier: Apache-2.0
 *
 * codecs_test.c - coded calls as programs make them: every rank has the same bits; what was not
 * sent is kept, also over failures, undone steps, checkpoints and new loss scales; wrong calls are
 * refused in words.
 *
 * Labels: asan tsan codec api */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "conformance/ranks.h"

enum { COUNT = 3000, STEPS = 12 };

static float value_at(int rank, int step, int i)
{
    return sinf((float)(i + 1) * 0.37f + (float)step * 1.3f + (float)rank) * (float)(rank + 1);
}

static void fill(float *values, int rank, int step)
{
    for (int i = 0; i < COUNT; i++) {
        values[i] = value_at(rank, step, i);
    }
}

static tutti_call coded_call(const float *input, float *output, const char *codec)
{
    tutti_call call = TUTTI_CALL_INIT;
    call.name = "w";
    call.input = input;
    call.output = output;
    call.count = COUNT;
    call.codec = codec;
    return call;
}

static void run_step(const ranks_self *self, int step, float *output, const char *codec)
{
    float input[COUNT];
    fill(input, self->rank, step);
    const tutti_call call = coded_call(input, output, codec);
    EXPECT_STATUS(TUTTI_OK, tutti_run(self->context, &call));
}

/* All ranks have the bits of rank 0. */
static void expect_same(const ranks_self *self, const float *output)
{
    float first[COUNT];
    memcpy(first, output, sizeof(first));
    EXPECT_STATUS(TUTTI_OK, tutti_broadcast(self->context, first, COUNT, TUTTI_F32, 0));
    EXPECT(memcmp(first, output, sizeof(first)) == 0);
}

static void bits_body(ranks_self *self)
{
    static const char *const codecs[] = {"fp16:where=all",
                                         "bf16:where=all",
                                         "e4m3:where=all",
                                         "int8:where=all",
                                         "int4:where=all",
                                         "qsgd:where=all",
                                         "natural:where=all",
                                         "sign:where=all",
                                         "onebit:where=all",
                                         "int8sum:where=all",
                                         "terngrad:where=all",
                                         "majority:where=all",
                                         "none",
                                         "int8:where=all,ef=off",
                                         "none@0,int8:where=all@3"};
    float output[COUNT];
    for (size_t c = 0; c < sizeof(codecs) / sizeof(codecs[0]); c++) {
        for (int step = 0; step < 5; step++) {
            run_step(self, step, output, codecs[c]);
            expect_same(self, output);
        }
        EXPECT_STATUS(TUTTI_OK, tutti_codec_reset(self->context, TUTTI_WORLD, NULL));
    }
}

static void test_all_ranks_have_the_same_bits(void **state)
{
    (void)state;
    ranks_run_both(3, bits_body, NULL);
    ranks_run(1, "shm", bits_body, NULL);
}

/* What was received and what all ranks still keep is what all gradients add up to. */
static void telescope_body(ranks_self *self)
{
    const char *codec = self->user;
    double got[COUNT] = {0}, wanted[COUNT] = {0};
    float output[COUNT];
    double norm = 0.0, lost = 0.0;
    for (int step = 0; step < STEPS; step++) {
        run_step(self, step, output, codec);
        for (int i = 0; i < COUNT; i++) {
            got[i] += output[i];
            for (int rank = 0; rank < self->size; rank++) {
                wanted[i] += value_at(rank, step, i);
            }
        }
    }
    for (int i = 0; i < COUNT; i++) {
        lost += (wanted[i] - got[i]) * (wanted[i] - got[i]);
    }
    EXPECT_STATUS(TUTTI_OK, tutti_codec_norm(self->context, &norm));
    double norms = norm;
    EXPECT_STATUS(TUTTI_OK, tutti_allreduce(self->context, &norm, &norms, 1, TUTTI_F64, TUTTI_SUM));
    EXPECT_SAY(sqrt(lost) <= norms * (1.0 + 1e-5), "%g is lost, %g is kept", sqrt(lost), norms);
    /* the residuals themselves: one more call, of zeros and exact, would bring what is missing */
    float zeros[COUNT] = {0};
    for (int step = 0; step < 60; step++) {
        tutti_call call = coded_call(zeros, output, codec);
        EXPECT_STATUS(TUTTI_OK, tutti_run(self->context, &call));
        for (int i = 0; i < COUNT; i++) {
            got[i] += output[i];
        }
    }
    for (int i = 0; i < COUNT; i++) {
        EXPECT_SAY(fabs(got[i] - wanted[i]) <= 1e-4 * (1.0 + fabs(wanted[i])),
                   "element %d: %g is not %g", i, got[i], wanted[i]);
    }
}

static void test_nothing_is_lost(void **state)
{
    (void)state;
    char codec[] = "int8:where=all,block=64", summed[] = "int8sum:where=all,block=64";
    ranks_run_both(3, telescope_body, codec);
    ranks_run_both(3, telescope_body, summed);
}

/* ---- copies ---- */

enum { PARTS_MAX = 4 };

/* Every rank decodes the same bytes, the sender too. */
static void gather(const ranks_self *self, uint64_t count, const char *codec)
{
    static _Thread_local float input[COUNT], output[PARTS_MAX * COUNT], first[PARTS_MAX * COUNT];
    const uint64_t all = count * (uint64_t)self->size;
    fill(input, self->rank, 1);
    memset(output, 0xff, sizeof(output));
    tutti_call call = coded_call(input, output, codec);
    call.collective = TUTTI_ALLGATHER;
    call.name = NULL;
    call.count = count;
    EXPECT_STATUS(TUTTI_OK, tutti_run(self->context, &call));
    memcpy(first, output, sizeof(first));
    EXPECT_STATUS(TUTTI_OK, tutti_broadcast(self->context, first, all, TUTTI_F32, 0));
    EXPECT(memcmp(first, output, all * sizeof(float)) == 0);
    for (uint64_t i = 0; i < all; i++) {
        const float wanted = value_at((int)(i / count), 1, (int)(i % count));
        EXPECT_SAY(fabsf(output[i] - wanted) <= 0.02f * (float)self->size, "element %d: %g, not %g",
                   (int)i, output[i], wanted);
    }
}

static void spread(const ranks_self *self, uint64_t count, int root, const char *codec)
{
    float values[COUNT], first[COUNT];
    fill(values, self->rank, 2);
    tutti_call call = coded_call(values, values, codec);
    call.collective = TUTTI_BROADCAST;
    call.name = NULL;
    call.count = count;
    call.root = root;
    EXPECT_STATUS(TUTTI_OK, tutti_run(self->context, &call));
    memcpy(first, values, sizeof(first));
    EXPECT_STATUS(TUTTI_OK, tutti_broadcast(self->context, first, count, TUTTI_F32, 0));
    EXPECT(memcmp(first, values, count * sizeof(float)) == 0);
    for (uint64_t i = 0; i < count; i++) {
        EXPECT(fabsf(values[i] - value_at(root, 2, (int)i)) <= 0.02f * (float)self->size);
    }
}

static void copies_body(ranks_self *self)
{
    static const uint64_t counts[] = {0, 1, 16, 17, 511, 512, 1000, COUNT};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        gather(self, counts[i], "int8:where=all");
        gather(self, counts[i], "bf16:where=all");
        spread(self, counts[i], (int)i % self->size, "int8:where=all,block=16");
        spread(self, counts[i], (int)i % self->size, "fp16:where=all");
    }
    EXPECT(self->size == 1 || ranks_counters(self).coded_calls > 0);
    EXPECT(ranks_counters(self).codec_bytes == 0);
}

static void test_copies_are_coded(void **state)
{
    (void)state;
    ranks_run_both(4, copies_body, NULL);
    ranks_run(3, "shm", copies_body, NULL);
    ranks_run(1, "shm", copies_body, NULL);
}

/* ---- steps and state ---- */

static void undo_body(ranks_self *self)
{
    static const char codec[] = "int4:where=all";
    float first[COUNT], again[COUNT];
    for (int step = 0; step < 3; step++) {
        run_step(self, step, first, codec);
        EXPECT_STATUS(TUTTI_OK, tutti_step(self->context));
    }
    run_step(self, 3, first, codec);
    EXPECT_STATUS(TUTTI_OK, tutti_step_undo(self->context));
    run_step(self, 3, again, codec);
    EXPECT(memcmp(first, again, sizeof(first)) == 0);
    run_step(self, 4, first, codec); /* two calls since the last commit */
    EXPECT_STATUS(TUTTI_OK, tutti_step_undo(self->context));
    run_step(self, 3, again, codec);
    run_step(self, 4, again, codec);
    EXPECT(memcmp(first, again, sizeof(first)) == 0);
    EXPECT_STATUS(TUTTI_OK, tutti_step(self->context));
    run_step(self, 5, first, codec);
    EXPECT(memcmp(first, again, sizeof(first)) != 0);
}

static void test_a_step_can_be_undone(void **state)
{
    (void)state;
    ranks_run_both(3, undo_body, NULL);
}

/* State that one job leaves for the next, by rank. */
typedef struct checkpoint {
    void *bytes[4];
    size_t byte_count[4];
    float outputs[3][COUNT];
} checkpoint;

static const char *const saved_codec = "none@0,int4:where=all@1";

static void save_body(ranks_self *self)
{
    checkpoint *kept = self->user;
    float output[COUNT];
    for (int step = 0; step < 4; step++) {
        run_step(self, step, output, saved_codec);
    }
    size_t needed = 0;
    EXPECT_STATUS(TUTTI_OK, tutti_codec_save(self->context, NULL, 0, &needed));
    kept->bytes[self->rank] = malloc(needed);
    kept->byte_count[self->rank] = needed;
    EXPECT(kept->bytes[self->rank] != NULL);
    EXPECT_STATUS(TUTTI_OK,
                  tutti_codec_save(self->context, kept->bytes[self->rank], needed, &needed));
    for (int step = 0; step < 3; step++) {
        run_step(self, 4 + step, self->rank == 0 ? kept->outputs[step] : output, saved_codec);
    }
}

static void expect_words(const ranks_self *self, const char *words)
{
    EXPECT_SAY(strstr(tutti_last_error(self->context), words) != NULL, "no '%s' in: %s", words,
               tutti_last_error(self->context));
}

static void load_body(ranks_self *self)
{
    const checkpoint *kept = self->user;
    const void *own = kept->bytes[self->rank];
    const size_t bytes = kept->byte_count[self->rank];
    const int other = (self->rank + 1) % self->size;
    float output[COUNT];
    EXPECT_STATUS(TUTTI_ERR_BAD_ARGUMENT, tutti_codec_load(self->context, own, bytes - 8));
    expect_words(self, "not all of them");
    EXPECT_STATUS(TUTTI_ERR_BAD_ARGUMENT,
                  tutti_codec_load(self->context, kept->bytes[other], kept->byte_count[other]));
    expect_words(self, "each rank loads its own");
    EXPECT_STATUS(TUTTI_OK, tutti_codec_load(self->context, own, bytes));
    for (int step = 0; step < 3; step++) {
        run_step(self, 4 + step, output, saved_codec);
        if (self->rank == 0) {
            EXPECT_SAY(memcmp(output, kept->outputs[step], sizeof(output)) == 0, "step %d", step);
        }
        expect_same(self, output);
    }
}

static void fewer_body(ranks_self *self)
{
    const checkpoint *kept = self->user;
    EXPECT_STATUS(TUTTI_ERR_BAD_ARGUMENT, tutti_codec_load(self->context, kept->bytes[self->rank],
                                                           kept->byte_count[self->rank]));
    expect_words(self, "of 3 ranks, the job has 2");
}

static void shape_body(ranks_self *self)
{
    const checkpoint *kept = self->user;
    float values[COUNT] = {0};
    EXPECT_STATUS(TUTTI_OK, tutti_codec_load(self->context, kept->bytes[self->rank],
                                             kept->byte_count[self->rank]));
    tutti_call call = coded_call(values, values, saved_codec);
    call.count = COUNT / 2;
    EXPECT_STATUS(TUTTI_ERR_BAD_ARGUMENT, tutti_run(self->context, &call));
    expect_words(self, "the residual of tensor \"w\" has 3000 elements, the call 1500");
    EXPECT_STATUS(TUTTI_OK, tutti_codec_reset(self->context, TUTTI_WORLD, "w"));
    EXPECT_STATUS(TUTTI_OK, tutti_run(self->context, &call));
}

static void test_a_checkpoint_continues_bit_for_bit(void **state)
{
    (void)state;
    checkpoint *kept = calloc(1, sizeof(*kept));
    assert_non_null(kept);
    ranks_run(3, "shm", save_body, kept);
    ranks_run(3, "tcp", load_body, kept);
    ranks_run(2, "shm", fewer_body, kept);
    ranks_run(3, "shm", shape_body, kept);
    for (int rank = 0; rank < 3; rank++) {
        free(kept->bytes[rank]);
    }
    free(kept);
}

/* A loss scale that changes changes residuals, too: the results are those of the other unit. */
static void unit_body(ranks_self *self)
{
    static const char codec[] = "int8:where=all,block=64";
    float plain[COUNT], scaled[COUNT], input[COUNT];
    run_step(self, 0, plain, codec);
    run_step(self, 1, plain, codec);
    EXPECT_STATUS(TUTTI_OK, tutti_codec_reset(self->context, TUTTI_WORLD, "w"));
    run_step(self, 0, scaled, codec);
    EXPECT_STATUS(TUTTI_OK, tutti_codec_unit(self->context, 1024.0));
    fill(input, self->rank, 1);
    for (int i = 0; i < COUNT; i++) {
        input[i] *= 1024.0f;
    }
    const tutti_call call = coded_call(input, scaled, codec);
    EXPECT_STATUS(TUTTI_OK, tutti_run(self->context, &call));
    for (int i = 0; i < COUNT; i++) {
        EXPECT(scaled[i] == plain[i] * 1024.0f);
    }
    EXPECT_STATUS(TUTTI_ERR_BAD_ARGUMENT, tutti_codec_unit(self->context, 0.0));
    expect_words(self, "unit 0 is not a positive number");
}

static void test_residuals_follow_the_loss_scale(void **state)
{
    (void)state;
    ranks_run(3, "shm", unit_body, NULL);
}

/* ---- declared calls, counters ---- */

static void declared_body(ranks_self *self)
{
    float input[COUNT], output[COUNT], other[COUNT];
    tutti_call call = coded_call(input, output, "int4:where=all");
    tutti_handle *handles[2];
    call.name = NULL;
    EXPECT_STATUS(TUTTI_OK, tutti_declare(self->context, &call, &handles[0]));
    call.output = other;
    EXPECT_STATUS(TUTTI_OK, tutti_declare(self->context, &call, &handles[1]));
    for (int step = 0; step < 4; step++) {
        fill(input, self->rank, step);
        EXPECT_STATUS(TUTTI_OK, tutti_rerun(handles[0]));
        EXPECT_STATUS(TUTTI_OK, tutti_rerun(handles[1]));
        EXPECT(memcmp(output, other, sizeof(output)) == 0); /* residuals of their own */
    }
    tutti_counters counters = ranks_counters(self);
    EXPECT(counters.coded_calls == 8 && counters.coded_raw_bytes == 8 * sizeof(output));
    EXPECT(counters.coded_wire_bytes < counters.coded_raw_bytes / 7);
    EXPECT(counters.codec_bytes >= 2 * 2 * sizeof(output) && counters.uncoded == 0);
    tutti_handle_free(handles[0]);
    tutti_handle_free(handles[1]);
    EXPECT(ranks_counters(self).codec_bytes == 0);
}

static void test_declared_calls_keep_their_own(void **state)
{
    (void)state;
    ranks_run(3, "shm", declared_body, NULL);
}

/* NaN reaches all ranks and does no harm to the next step. */
static void nan_body(ranks_self *self)
{
    static const char codec[] = "int8:where=all,block=64";
    float output[COUNT], input[COUNT];
    run_step(self, 0, output, codec);
    fill(input, self->rank, 1);
    input[100] = self->rank == 1 ? NAN : input[100];
    tutti_call call = coded_call(input, output, codec);
    EXPECT_STATUS(TUTTI_OK, tutti_run(self->context, &call));
    EXPECT(isnan(output[100]));
    EXPECT(!isnan(output[1000]));
    run_step(self, 2, output, codec);
    for (int i = 0; i < COUNT; i++) {
        EXPECT(isfinite(output[i]));
    }
}

static void test_nan_reaches_all_and_is_over(void **state)
{
    (void)state;
    ranks_run(3, "shm", nan_body, NULL);
}

/* ---- rules ---- */

static void rules_body(ranks_self *self)
{
    float input[COUNT], output[COUNT];
    tutti_call call = coded_call(input, output, NULL);
    fill(input, self->rank, 0);
    EXPECT_STATUS(TUTTI_OK, tutti_run(self->context, &call));
    EXPECT(ranks_counters(self).coded_calls == 0); /* no gradient */
    call.flags = TUTTI_GRADIENT;
    EXPECT_STATUS(TUTTI_OK, tutti_run(self->context, &call));
    EXPECT(ranks_counters(self).coded_calls == 1);
    call.op = TUTTI_MAX;
    EXPECT_STATUS(TUTTI_OK, tutti_run(self->context, &call));
    EXPECT(ranks_counters(self).coded_calls == 1);
    call.op = TUTTI_AVERAGE;
    call.codec = "none";
    EXPECT_STATUS(TUTTI_OK, tutti_run(self->context, &call));
    EXPECT(ranks_counters(self).coded_calls == 1);
}

static void test_rules_apply_to_gradients(void **state)
{
    (void)state;
    (void)setenv("TUTTI_CODEC", "int8:where=all", 1);
    (void)setenv("TUTTI_CODEC_MIN", "1K", 1);
    ranks_run(2, "shm", rules_body, NULL);
    (void)unsetenv("TUTTI_CODEC_MIN");
    (void)unsetenv("TUTTI_CODEC");
}

/* ---- wrong calls ---- */

static void expect_refused(const ranks_self *self, const tutti_call *call, const char *words)
{
    EXPECT_STATUS(TUTTI_ERR_BAD_ARGUMENT, tutti_run(self->context, call));
    expect_words(self, words);
}

static void refusals_body(ranks_self *self)
{
    float values[COUNT] = {0};
    double wide[8] = {0};
    tutti_call call = coded_call(values, values, "int9");
    expect_refused(self, &call, "there is no codec \"int9\"; did you mean 'int8'?");
    call.codec = "int8:blok=64";
    expect_refused(self, &call, "did you mean 'block'?");
    call.codec = "int8:where=all";
    call.op = TUTTI_MAX;
    expect_refused(self, &call, "ef=on,where=all works with sum and average, not with max");
    call.op = TUTTI_SUM;
    call.collective = TUTTI_REDUCE;
    expect_refused(self, &call,
                   "is for allreduce, reducescatter, allgather and broadcast, not for "
                   "reduce");
    call.collective = TUTTI_ALLREDUCE;
    call.name = NULL;
    expect_refused(self, &call, "keeps state of its tensor; give the call a name");
    call.codec = "int8:where=all,ef=off";
    EXPECT_STATUS(TUTTI_OK, tutti_run(self->context, &call));
    call.input = call.output = wide;
    call.count = 8;
    call.dtype = TUTTI_F64;
    expect_refused(self, &call, "takes f32, f16 and bf16, not f64");
}

static void test_wrong_calls_are_refused(void **state)
{
    (void)state;
    ranks_run(2, "shm", refusals_body, NULL);
}

static void mismatch_body(ranks_self *self)
{
    float values[COUNT] = {0};
    tutti_call call = coded_call(values, values, self->rank == 1 ? "int8:block=64" : "int8");
    EXPECT_STATUS(TUTTI_ERR_MISMATCH, tutti_run(self->context, &call));
    expect_words(self, "coded by int8:block=64,ef=on");
    expect_words(self, "coded by int8:block=512,ef=on");
    call.name = NULL;
    call.codec = self->rank == 0 ? "bf16" : NULL;
    EXPECT_STATUS(TUTTI_ERR_MISMATCH, tutti_run(self->context, &call));
    expect_words(self, "coded by bf16:ef=off");
    call.codec = NULL;
    EXPECT_STATUS(TUTTI_OK, tutti_run(self->context, &call));
}

static void test_ranks_must_agree(void **state)
{
    (void)state;
    ranks_run_both(3, mismatch_body, NULL);
}

/* One rank resets its count of calls: the next call fails with a mismatch on all ranks. */
static void drift_body(ranks_self *self)
{
    float output[COUNT];
    run_step(self, 0, output, saved_codec);
    run_step(self, 1, output, saved_codec);
    if (self->rank == 1) {
        EXPECT_STATUS(TUTTI_OK, tutti_codec_reset(self->context, TUTTI_WORLD, "w"));
    }
    tutti_call call = coded_call(output, output, saved_codec);
    EXPECT_STATUS(TUTTI_ERR_MISMATCH, tutti_run(self->context, &call));
    expect_words(self, "codec 2)");
    expect_words(self, "codec 1)");
}

static void test_drift_is_an_error(void **state)
{
    (void)state;
    ranks_run_both(3, drift_body, NULL);
}

/* A joined rank gives zeros, and keeps what it has not sent. */
static void joined_body(ranks_self *self)
{
    static const char codec[] = "int8:where=all,block=64";
    float output[COUNT], input[COUNT];
    double before = 0.0, after = 0.0;
    run_step(self, 0, output, codec);
    EXPECT_STATUS(TUTTI_OK, tutti_codec_norm(self->context, &before));
    if (self->rank == self->size - 1) {
        EXPECT_STATUS(TUTTI_OK, tutti_join(self->context, TUTTI_WORLD, NULL));
        EXPECT_STATUS(TUTTI_OK, tutti_codec_norm(self->context, &after));
        EXPECT(before > 0.0 && after > 0.0);
        return;
    }
    for (int step = 1; step < 4; step++) {
        fill(input, self->rank, step);
        tutti_call call = coded_call(input, output, codec);
        EXPECT_STATUS(TUTTI_OK, tutti_run(self->context, &call));
        for (int i = 0; i < COUNT; i++) {
            double wanted = 0.0;
            for (int rank = 0; rank + 1 < self->size; rank++) {
                wanted += value_at(rank, step, i);
            }
            EXPECT(fabs(output[i] - wanted) < 0.2);
        }
    }
    EXPECT_STATUS(TUTTI_OK, tutti_join(self->context, TUTTI_WORLD, NULL));
}

static void test_joined_ranks_give_zeros(void **state)
{
    (void)state;
    ranks_run_both(3, joined_body, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_ranks_have_the_same_bits),
        cmocka_unit_test(test_nothing_is_lost),
        cmocka_unit_test(test_copies_are_coded),
        cmocka_unit_test(test_a_step_can_be_undone),
        cmocka_unit_test(test_a_checkpoint_continues_bit_for_bit),
        cmocka_unit_test(test_residuals_follow_the_loss_scale),
        cmocka_unit_test(test_declared_calls_keep_their_own),
        cmocka_unit_test(test_nan_reaches_all_and_is_over),
        cmocka_unit_test(test_rules_apply_to_gradients),
        cmocka_unit_test(test_wrong_calls_are_refused),
        cmocka_unit_test(test_ranks_must_agree),
        cmocka_unit_test(test_drift_is_an_error),
        cmocka_unit_test(test_joined_ranks_give_zeros),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
