/* SPDX-License-Identifier: Apache-2.0
 *
 * coded_estimates_test.c - coded sums with estimates (EF21): the sums of constant gradients
 * converge, senders and owners stay in step, and a rank that is not is found. The bits of single
 * calls are compared with the oracle in coded_test.c.
 * Labels: asan
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/philox.h"
#include "conformance/coded_memory.h"
#include "support/codec_spec.h"

/* Even and uneven hosts, ranks dealt to them in turn, fewer rails than ranks. */
static const coded_hosts layouts[] = {
    {.size = 4, .host_count = 2, .rail_count = 2, .host_of = {0, 0, 1, 1}},
    {.size = 6, .host_count = 2, .rail_count = 3, .host_of = {0, 0, 0, 1, 1, 1}},
    {.size = 6, .host_count = 3, .rail_count = 2, .host_of = {0, 0, 1, 1, 2, 2}},
    {.size = 5, .host_count = 2, .rail_count = 2, .host_of = {0, 0, 0, 1, 1}},
    {.size = 3, .host_count = 2, .rail_count = 1, .host_of = {0, 1, 1}},
    {.size = 6, .host_count = 3, .rail_count = 2, .host_of = {0, 1, 2, 0, 1, 2}},
    {.size = 9, .host_count = 3, .rail_count = 1, .host_of = {0, 0, 0, 1, 1, 1, 2, 2, 2}},
    {.size = 8, .host_count = 2, .rail_count = 3, .host_of = {0, 0, 0, 0, 1, 1, 1, 1}},
};

static void expect_success(const coded_job *job, uint32_t size)
{
    for (uint32_t r = 0; r < size; r++) {
        uint32_t culprit;
        assert_int_equal(coded_job_status(job, r, &culprit), TT_OK);
    }
}

static void swap(const float **before, float **after)
{
    float *old = (float *)(uintptr_t)*before;
    *before = *after;
    *after = old;
}

/* What the call left is what the next one has. */
static void swap_all(coded_buffers *buffers)
{
    swap(&buffers->residual, &buffers->residual_out);
    swap(&buffers->owner_residual, &buffers->owner_residual_out);
    swap(&buffers->estimate, &buffers->estimate_out);
}

/* All of what ranks keep is 0, as before the first call. */
static void clear_state(memory *made)
{
    for (uint32_t r = 0; r < made->size; r++) {
        const coded_buffers *own = &made->got[r];
        uint64_t first;
        const size_t in_bytes = coded_input_count(&made->call, made->size) * sizeof(float);
        const size_t bytes = coded_slice_count(&made->call, made->size, r, &first) * sizeof(float);
        memset((float *)(uintptr_t)own->residual, 0, in_bytes);
        memset(own->residual_out, 0, in_bytes); /* rails do not write the others' */
        memset((float *)(uintptr_t)own->estimate, 0, bytes);
        if (own->owner_residual != NULL) {
            memset((float *)(uintptr_t)own->owner_residual, 0, bytes);
        }
    }
}

/* Sum over owners of the squares by which their sums are off; -1: one of them is not finite. */
static double scatter_error(const memory *made)
{
    double error = 0.0;
    for (uint32_t r = 0; r < made->size; r++) {
        uint64_t first;
        const uint64_t count = coded_slice_count(&made->call, made->size, r, &first);
        for (uint64_t i = 0; i < count && error >= 0.0; i++) {
            double sum = 0.0;
            for (uint32_t from = 0; from < made->size; from++) {
                sum += (double)((const float *)made->got[from].input)[first + i];
            }
            const double off = (double)((const float *)made->got[r].output)[i] - sum;
            error = isfinite(off) ? error + off * off : -1.0;
        }
    }
    return error;
}

/* The same gradient again and again: with estimates the sum gets better with each call, and better
 * than any residual makes it. One call with a NaN moves sender and owner alike. */
static void test_estimates_of_constant_gradients_converge(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t calls;
    } cases[] = {{"int4:ef=21", 30},
                 {"sign:ef=21,block=64", 300},
                 {"int8:ef=21", 12},
                 {"qsgd:ef=21", 60},
                 {"bf16:ef=21", 6}};
    for (size_t c = 0; c < TT_ARRAY_COUNT(cases); c++) {
        const tt_codec_spec spec = spec_of(cases[c].text);
        const coded_call call = {.codec = &spec,
                                 .collective = TT_REDUCESCATTER,
                                 .dtype = TT_F32,
                                 .redop = TT_SUM,
                                 .count = 600,
                                 .prescale = 1.0f,
                                 .postscale = 1.0};
        const coded_config config = {
            .size = 4, .seed = c, .segment_bytes = 256, .eager_bytes_max = 256, .hands = 2};
        coded_job *job = coded_job_create(&config);
        memory made;
        double first = 0.0;
        memory_make(&made, 4, &call, 9);
        clear_state(&made);
        coded_job_plan(job, &call);
        for (uint32_t n = 0; n < 2 * cases[c].calls + 1; n++) {
            float *one = &((float *)(uintptr_t)made.got[2].input)[100];
            const float value = *one;
            *one = n == cases[c].calls ? NAN : value;
            coded_job_run(job, made.got);
            expect_success(job, 4);
            assert_int_equal(scatter_error(&made) < 0.0, n == cases[c].calls);
            *one = value;
            for (uint32_t r = 0; r < 4; r++) {
                swap_all(&made.got[r]);
            }
            first = n == 0 ? scatter_error(&made) : first;
            if (n == cases[c].calls - 1 && !(scatter_error(&made) < 1e-4 * first)) {
                fail_msg("%s: %g, at first %g", cases[c].text, scatter_error(&made), first);
            }
        }
        if (!(scatter_error(&made) < 1e-6 * first)) {
            fail_msg("%s after a NaN: %g, at first %g", cases[c].text, scatter_error(&made), first);
        }
        memory_drop(&made);
        assert_true(coded_job_destroy(job));
    }
}

/* What owners have of senders is what senders think they have. */
static void check_lockstep(const memory *made, uint64_t index)
{
    double kept = 0.0, estimate = 0.0, magnitude = 0.0;
    for (uint32_t r = 0; r < made->size; r++) {
        uint64_t first;
        const uint64_t count = coded_slice_count(&made->call, made->size, r, &first);
        kept += (double)made->got[r].residual[index];
        magnitude += fabs((double)made->got[r].residual[index]);
        if (index >= first && index - first < count) {
            estimate = (double)made->got[r].estimate[index - first];
        }
    }
    assert_true(fabs(kept - estimate) <= 1e-5 * (1.0 + magnitude));
}

static void test_estimates_stay_in_step(void **state)
{
    (void)state;
    for (size_t i = 0; i < TT_ARRAY_COUNT(layouts) + 2; i++) {
        const coded_hosts *hosts = i < TT_ARRAY_COUNT(layouts) ? &layouts[i] : NULL;
        const uint32_t size = hosts != NULL ? hosts->size : (uint32_t)(3 * (i % 2) + 2);
        const tt_codec_spec spec = spec_of(i % 2 == 0 ? "int4:ef=21" : "natural:ef=21");
        const coded_call call = {.hosts = hosts,
                                 .codec = &spec,
                                 .collective = TT_ALLREDUCE,
                                 .dtype = TT_F32,
                                 .redop = TT_AVERAGE,
                                 .count = 2000,
                                 .prescale = 1.0f,
                                 .postscale = 1.0};
        const coded_config config = {
            .size = size, .seed = i, .segment_bytes = 256, .eager_bytes_max = 256, .hands = 2};
        coded_job *job = coded_job_create(&config);
        memory made;
        tt_random random;
        memory_make(&made, size, &call, i);
        clear_state(&made);
        tt_random_init(&random, i, 3);
        coded_job_plan(job, &call);
        for (uint32_t n = 0; n < 20; n++) {
            for (uint32_t r = 0; r < size; r++) {
                float *values = (float *)(uintptr_t)made.got[r].input;
                for (uint64_t k = 0; k < call.count; k++) {
                    values[k] = random_value(&random);
                }
                values[(n * 37 + r) % call.count] = n % 4 == 1 ? NAN : 1.0f;
            }
            coded_job_run(job, made.got);
            expect_success(job, size);
            for (uint32_t r = 0; r < size; r++) {
                swap_all(&made.got[r]);
            }
            for (uint64_t k = 0; k < call.count; k++) {
                check_lockstep(&made, k);
            }
        }
        memory_drop(&made);
        assert_true(coded_job_destroy(job));
    }
}

/* A rank whose state is another is named, before its data are used. */
static void test_other_estimates_are_found(void **state)
{
    (void)state;
    const tt_codec_spec spec = spec_of("int8:ef=21,block=64");
    for (uint32_t turn = 0; turn < 12; turn++) {
        const uint32_t astray = turn % 4;
        const coded_call call = {.hosts = turn < 8 ? NULL : &layouts[0],
                                 .codec = &spec,
                                 .collective = turn < 4 ? TT_REDUCESCATTER : TT_ALLREDUCE,
                                 .dtype = TT_F32,
                                 .redop = TT_SUM,
                                 .count = 3000,
                                 .prescale = 1.0f,
                                 .postscale = 1.0};
        const coded_config config = {
            .size = 4, .seed = turn, .segment_bytes = 256, .eager_bytes_max = 256, .hands = 3};
        coded_job *job = coded_job_create(&config);
        memory made;
        memory_make(&made, 4, &call, turn);
        made.got[astray].stamp ^= UINT64_C(1) << (turn + 50);
        coded_job_plan(job, &call);
        coded_job_run(job, made.got);
        for (uint32_t r = 0; r < 4; r++) {
            uint32_t culprit;
            const bool is_on_rail = turn < 8 || r % 2 == astray % 2;
            const tt_status status = coded_job_status(job, r, &culprit);
            assert_true(is_on_rail ? status == TT_ERR_MISMATCH : status == TT_IN_PROGRESS);
            assert_true(!is_on_rail || r == astray || culprit == astray);
        }
        made.got[astray].stamp = made.got[astray ^ 1].stamp;
        coded_job_run(job, made.got);
        expect_success(job, 4);
        coded_expect(&call, 4, made.wanted);
        memory_check(&made, "after another stamp");
        memory_drop(&made);
        assert_true(coded_job_destroy(job));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_estimates_of_constant_gradients_converge),
        cmocka_unit_test(test_estimates_stay_in_step),
        cmocka_unit_test(test_other_estimates_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
