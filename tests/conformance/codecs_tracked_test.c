/* SPDX-License-Identifier: Apache-2.0
 *
 * codecs_tracked_test.c - coded calls with estimates (ef=21) as programs make them: sums of
 * constant gradients converge; senders and owners stay in step over failures, undone steps,
 * checkpoints and new loss scales; ranks that are not get an error that names them and the cure.
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

enum { COUNT = 1200, RANKS_MAX = 4 };

static const char *const codec = "int4:where=all,ef=21";

static float value_at(int rank, int step, int i)
{
    return sinf((float)(i + 1) * 0.37f + (float)step * 1.3f + (float)rank) * (float)(rank + 1);
}

static tutti_call tracked_call(const float *input, float *output)
{
    tutti_call call = TUTTI_CALL_INIT;
    call.name = "w";
    call.input = input;
    call.output = output;
    call.count = COUNT;
    call.codec = codec;
    return call;
}

static void fill(float *values, int rank, int step)
{
    for (int i = 0; i < COUNT; i++) {
        values[i] = value_at(rank, step, i);
    }
}

static void run_step(const ranks_self *self, int step, float *output)
{
    float input[COUNT];
    fill(input, self->rank, step);
    const tutti_call call = tracked_call(input, output);
    EXPECT_STATUS(TUTTI_OK, tutti_run(self->context, &call));
}

static void expect_words(const ranks_self *self, const char *words)
{
    EXPECT_SAY(strstr(tutti_last_error(self->context), words) != NULL, "no '%s' in: %s", words,
               tutti_last_error(self->context));
}

/* All ranks have the bits of rank 0. */
static void expect_same(const ranks_self *self, const float *output)
{
    float first[COUNT];
    memcpy(first, output, sizeof(first));
    EXPECT_STATUS(TUTTI_OK, tutti_broadcast(self->context, first, COUNT, TUTTI_F32, 0));
    EXPECT(memcmp(first, output, sizeof(first)) == 0);
}

/* ---- convergence ---- */

static double scatter(const ranks_self *self, const char *text, float *input)
{
    float output[COUNT];
    const int count = COUNT / self->size;
    double error = 0.0;
    tutti_call call = tracked_call(input, output);
    call.collective = TUTTI_REDUCESCATTER;
    call.name = text;
    call.count = (uint64_t)count;
    call.codec = text;
    EXPECT_STATUS(TUTTI_OK, tutti_run(self->context, &call));
    for (int i = 0; i < count; i++) {
        double wanted = 0.0;
        for (int rank = 0; rank < self->size; rank++) {
            wanted += value_at(rank, 0, self->rank * count + i);
        }
        error += (output[i] - wanted) * (output[i] - wanted);
    }
    return sqrt(error);
}

/* Residuals leave the error of single sums as it is; estimates do away with it, also behind a NaN.
 */
static void converge_body(ranks_self *self)
{
    float input[COUNT];
    fill(input, self->rank, 0);
    const double first = scatter(self, "int4:where=all,ef=21", input);
    double tracked = first, kept = scatter(self, "int4:where=all,ef=on", input), nan = 0.0;
    for (int step = 0; step < 20; step++) {
        tracked = scatter(self, "int4:where=all,ef=21", input);
        kept = scatter(self, "int4:where=all,ef=on", input);
    }
    EXPECT_SAY(tracked < 1e-3 * first, "%g, at first %g", tracked, first);
    EXPECT_SAY(tracked < 1e-2 * kept, "%g, with a residual %g", tracked, kept);
    const float value = input[7];
    input[7] = self->rank == 1 ? NAN : value;
    nan = scatter(self, "int4:where=all,ef=21", input);
    EXPECT(isnan(nan) == (self->rank == 0)); /* it owns the element */
    input[7] = value;
    for (int step = 0; step < 20; step++) {
        tracked = scatter(self, "int4:where=all,ef=21", input);
    }
    EXPECT_SAY(tracked < 1e-3 * first, "%g after a NaN, at first %g", tracked, first);
}

static void test_sums_of_constant_gradients_converge(void **state)
{
    (void)state;
    ranks_run_both(3, converge_body, NULL);
    ranks_run(4, "shm", converge_body, NULL);
}

/* ---- steps and state ---- */

static void undo_body(ranks_self *self)
{
    float first[COUNT], again[COUNT];
    for (int step = 0; step < 3; step++) {
        run_step(self, step, first);
        EXPECT_STATUS(TUTTI_OK, tutti_step(self->context));
    }
    run_step(self, 3, first);
    EXPECT_STATUS(TUTTI_OK, tutti_step_undo(self->context));
    run_step(self, 3, again);
    EXPECT(memcmp(first, again, sizeof(first)) == 0);
    run_step(self, 4, first); /* two calls since the last commit */
    expect_same(self, first);
    EXPECT_STATUS(TUTTI_OK, tutti_step_undo(self->context));
    run_step(self, 3, again);
    run_step(self, 4, again);
    EXPECT(memcmp(first, again, sizeof(first)) == 0);
}

static void test_a_step_can_be_undone(void **state)
{
    (void)state;
    ranks_run_both(3, undo_body, NULL);
}

/* A call that fails on all ranks moves no estimate. */
static void failure_body(ranks_self *self)
{
    float input[COUNT], wanted[COUNT], got[COUNT];
    run_step(self, 0, wanted);
    run_step(self, 1, wanted);
    EXPECT_STATUS(TUTTI_OK, tutti_codec_reset(self->context, TUTTI_WORLD, "w"));
    run_step(self, 0, got);
    fill(input, self->rank, 5);
    tutti_call call = tracked_call(input, got);
    call.dtype = self->rank == 1 ? TUTTI_BF16 : TUTTI_F32;
    EXPECT_STATUS(TUTTI_ERR_MISMATCH, tutti_run(self->context, &call));
    run_step(self, 1, got);
    EXPECT(memcmp(wanted, got, sizeof(wanted)) == 0);
}

static void test_a_call_that_fails_moves_nothing(void **state)
{
    (void)state;
    ranks_run_both(3, failure_body, NULL);
}

typedef struct checkpoint {
    void *bytes[RANKS_MAX];
    size_t byte_count[RANKS_MAX];
    float outputs[2][COUNT];
} checkpoint;

static void save_body(ranks_self *self)
{
    checkpoint *kept = self->user;
    float output[COUNT];
    size_t needed = 0;
    run_step(self, 0, output);
    run_step(self, 1, output);
    EXPECT_STATUS(TUTTI_OK, tutti_codec_unit(self->context, 2.0));
    EXPECT_STATUS(TUTTI_OK, tutti_codec_save(self->context, NULL, 0, &needed));
    kept->bytes[self->rank] = malloc(needed);
    kept->byte_count[self->rank] = needed;
    EXPECT(kept->bytes[self->rank] != NULL);
    EXPECT_STATUS(TUTTI_OK,
                  tutti_codec_save(self->context, kept->bytes[self->rank], needed, &needed));
    for (int step = 0; step < 2; step++) {
        run_step(self, 2 + step, self->rank == 0 ? kept->outputs[step] : output);
    }
}

static void load_body(ranks_self *self)
{
    const checkpoint *kept = self->user;
    float output[COUNT];
    run_step(self, 9, output);
    EXPECT_STATUS(TUTTI_OK, tutti_codec_load(self->context, kept->bytes[self->rank],
                                             kept->byte_count[self->rank]));
    for (int step = 0; step < 2; step++) {
        run_step(self, 2 + step, output);
        EXPECT(self->rank != 0 || memcmp(output, kept->outputs[step], sizeof(output)) == 0);
        expect_same(self, output);
    }
}

static void test_a_checkpoint_continues_bit_for_bit(void **state)
{
    (void)state;
    checkpoint *kept = calloc(1, sizeof(*kept));
    assert_non_null(kept);
    ranks_run(3, "shm", save_body, kept);
    ranks_run(3, "tcp", load_body, kept);
    for (int rank = 0; rank < 3; rank++) {
        free(kept->bytes[rank]);
    }
    free(kept);
}

static void unit_body(ranks_self *self)
{
    float plain[COUNT], scaled[COUNT], input[COUNT];
    run_step(self, 0, plain);
    run_step(self, 1, plain);
    EXPECT_STATUS(TUTTI_OK, tutti_codec_reset(self->context, TUTTI_WORLD, "w"));
    run_step(self, 0, scaled);
    EXPECT_STATUS(TUTTI_OK, tutti_codec_unit(self->context, 1024.0));
    fill(input, self->rank, 1);
    for (int i = 0; i < COUNT; i++) {
        input[i] *= 1024.0f;
    }
    const tutti_call call = tracked_call(input, scaled);
    EXPECT_STATUS(TUTTI_OK, tutti_run(self->context, &call));
    for (int i = 0; i < COUNT; i++) {
        EXPECT(scaled[i] == plain[i] * 1024.0f);
    }
}

static void test_estimates_follow_the_loss_scale(void **state)
{
    (void)state;
    ranks_run(3, "shm", unit_body, NULL);
}

/* ---- ranks that are not in step ---- */

typedef void trouble(const ranks_self *self);

static void reset_one(const ranks_self *self)
{
    EXPECT_STATUS(TUTTI_OK, tutti_codec_reset(self->context, TUTTI_WORLD, "w"));
}

static void undo_one(const ranks_self *self)
{
    EXPECT_STATUS(TUTTI_OK, tutti_step_undo(self->context));
}

static void scale_one(const ranks_self *self)
{
    EXPECT_STATUS(TUTTI_OK, tutti_codec_unit(self->context, 4.0));
}

static void astray_body(ranks_self *self)
{
    static trouble *const troubles[] = {reset_one, undo_one, scale_one};
    float output[COUNT], input[COUNT], wanted[COUNT];
    fill(input, self->rank, 2);
    for (size_t i = 0; i < sizeof(troubles) / sizeof(troubles[0]); i++) {
        run_step(self, 0, wanted);
        EXPECT_STATUS(TUTTI_OK, tutti_step(self->context));
        run_step(self, 1, output);
        if (self->rank == 1) {
            troubles[i](self);
        }
        for (int again = 0; again < 2; again++) {
            const tutti_call call = tracked_call(input, output);
            EXPECT_STATUS(TUTTI_ERR_MISMATCH, tutti_run(self->context, &call));
            expect_words(self, "keep different estimates of tensor \"w\" (ef=21); call "
                               "tutti_codec_reset on all ranks");
            expect_words(self, "rank 1");
        }
        EXPECT_STATUS(TUTTI_OK, tutti_codec_reset(self->context, TUTTI_WORLD, "w"));
        run_step(self, 0, output);
        EXPECT(memcmp(output, wanted, sizeof(output)) == 0);
        EXPECT_STATUS(TUTTI_OK, tutti_codec_reset(self->context, TUTTI_WORLD, NULL));
    }
}

static void test_ranks_that_are_not_in_step_are_named(void **state)
{
    (void)state;
    ranks_run_both(3, astray_body, NULL);
}

/* ---- calls that are refused ---- */

static void refusals_body(ranks_self *self)
{
    float output[COUNT], input[COUNT];
    run_step(self, 0, output);
    fill(input, self->rank, 1);
    tutti_call call = tracked_call(input, output);
    call.codec = "int4:where=all,ef=on";
    EXPECT_STATUS(TUTTI_ERR_BAD_ARGUMENT, tutti_run(self->context, &call));
    expect_words(self, "of tensor \"w\" is the estimate of ef=21; tutti_codec_reset drops it");
    call.codec = "int4:where=all,ef=off"; /* uses nothing of it */
    EXPECT_STATUS(TUTTI_OK, tutti_run(self->context, &call));
    call.codec = "int4:where=all,ef=21,block=64";
    EXPECT_STATUS(TUTTI_ERR_BAD_ARGUMENT, tutti_run(self->context, &call));
    expect_words(self, "the estimate of tensor \"w\" is of a codec with another block or where=");
    call.codec = codec;
    call.count = COUNT / 2;
    EXPECT_STATUS(TUTTI_ERR_BAD_ARGUMENT, tutti_run(self->context, &call));
    expect_words(self, "the estimate of tensor \"w\" has 1200 elements, the call 600");
    run_step(self, 2, output);
    EXPECT_STATUS(TUTTI_OK, tutti_codec_reset(self->context, TUTTI_WORLD, "w"));
    call.codec = "int4:where=all,ef=on";
    EXPECT_STATUS(TUTTI_OK, tutti_run(self->context, &call));
    call.codec = codec;
    EXPECT_STATUS(TUTTI_ERR_BAD_ARGUMENT, tutti_run(self->context, &call));
    expect_words(self, "of tensor \"w\" is the residual of ef=on; tutti_codec_reset drops it");
    call.codec = "int8sum:where=all,ef=21";
    EXPECT_STATUS(TUTTI_ERR_BAD_ARGUMENT, tutti_run(self->context, &call));
    expect_words(self, "int8sum has no owners");
    call.codec = "int8@0,int4:ef=21@9";
    EXPECT_STATUS(TUTTI_ERR_BAD_ARGUMENT, tutti_run(self->context, &call));
    expect_words(self, "codec int8 keeps residuals (ef=on), codec int4 estimates (ef=21)");
}

static void test_other_kinds_of_state_are_refused(void **state)
{
    (void)state;
    ranks_run(3, "shm", refusals_body, NULL);
}

static void joined_body(ranks_self *self)
{
    float output[COUNT], input[COUNT];
    run_step(self, 0, output);
    if (self->rank == self->size - 1) {
        EXPECT_STATUS(TUTTI_OK, tutti_join(self->context, TUTTI_WORLD, NULL));
    } else {
        fill(input, self->rank, 1);
        const tutti_call call = tracked_call(input, output);
        EXPECT_STATUS(TUTTI_ERR_BAD_ARGUMENT, tutti_run(self->context, &call));
        expect_words(self, "a rank that has joined");
        expect_words(self, "use ef=on beside tutti_join");
        EXPECT_STATUS(TUTTI_OK, tutti_join(self->context, TUTTI_WORLD, NULL));
    }
    run_step(self, 2, output); /* the estimates are as they were */
    expect_same(self, output);
}

static void test_joined_ranks_are_refused(void **state)
{
    (void)state;
    ranks_run_both(3, joined_body, NULL);
}

/* Declared calls have estimates of their own; phases without coding leave them alone. */
static void declared_body(ranks_self *self)
{
    float input[COUNT], output[COUNT], other[COUNT];
    tutti_call call = tracked_call(input, output);
    tutti_handle *handles[2];
    call.name = NULL;
    call.codec = "none@0,sign:where=all,ef=21@1";
    EXPECT_STATUS(TUTTI_OK, tutti_declare(self->context, &call, &handles[0]));
    call.output = other;
    EXPECT_STATUS(TUTTI_OK, tutti_declare(self->context, &call, &handles[1]));
    for (int step = 0; step < 4; step++) {
        fill(input, self->rank, step);
        EXPECT_STATUS(TUTTI_OK, tutti_rerun(handles[0]));
        EXPECT_STATUS(TUTTI_OK, tutti_rerun(handles[1]));
        EXPECT(memcmp(output, other, sizeof(output)) == 0);
        expect_same(self, output);
    }
    tutti_handle_free(handles[0]);
    tutti_handle_free(handles[1]);
    EXPECT(ranks_counters(self).codec_bytes == 0);
}

static void test_declared_calls_keep_their_own(void **state)
{
    (void)state;
    ranks_run(3, "shm", declared_body, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums_of_constant_gradients_converge),
        cmocka_unit_test(test_a_step_can_be_undone),
        cmocka_unit_test(test_a_call_that_fails_moves_nothing),
        cmocka_unit_test(test_a_checkpoint_continues_bit_for_bit),
        cmocka_unit_test(test_estimates_follow_the_loss_scale),
        cmocka_unit_test(test_ranks_that_are_not_in_step_are_named),
        cmocka_unit_test(test_other_kinds_of_state_are_refused),
        cmocka_unit_test(test_joined_ranks_are_refused),
        cmocka_unit_test(test_declared_calls_keep_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
