/* SPDX-License-Identifier: Apache-2.0
 *
 * coded_test.c - sums whose data are sent coded: the oracle's bits with every codec, whatever the
 * frames, hands and steps are; residuals that lose nothing; bad bytes that name their sender.
 * Labels: asan tsan
 * Timeout: 300
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
#include "codec/registry.h"
#include "conformance/coded.h"
#include "kernel/half.h"

static const uint32_t sizes[] = {1, 2, 3, 4, 8};
static const tt_dtype dtypes[] = {TT_F32, TT_F16, TT_BF16};

/* ---- memory of all ranks ---- */

typedef struct memory {
    uint32_t size;
    coded_call call;
    coded_buffers got[CODED_RANKS_MAX], wanted[CODED_RANKS_MAX];
} memory;

/* At least one byte, of garbage. */
static void *garbage(size_t bytes)
{
    void *made = malloc(bytes > 0 ? bytes : 1);
    assert_non_null(made);
    memset(made, 0xa5, bytes > 0 ? bytes : 1);
    return made;
}

static float random_value(tt_random *random)
{
    return ((float)tt_random_below(random, 20001) - 10000.0f) / 10000.0f;
}

static void set_value(tt_dtype dtype, void *values, uint64_t index, float value)
{
    if (dtype == TT_F32) {
        ((float *)values)[index] = value;
    } else {
        ((uint16_t *)values)[index] =
            dtype == TT_F16 ? tt_f16_from_f32(value) : tt_bf16_from_f32(value);
    }
}

static float get_value(tt_dtype dtype, const void *values, uint64_t index)
{
    if (dtype == TT_F32) {
        return ((const float *)values)[index];
    }
    const uint16_t half = ((const uint16_t *)values)[index];
    return dtype == TT_F16 ? tt_f16_to_f32(half) : tt_bf16_to_f32(half);
}

static void *random_values(tt_dtype dtype, uint64_t count, tt_random *random)
{
    void *values = garbage(count * tt_dtype_bytes(dtype));
    for (uint64_t i = 0; i < count; i++) {
        set_value(dtype, values, i, random_value(random));
    }
    return values;
}

/* Inputs and old residuals are shared, the rest is there twice. */
static void memory_make(memory *made, uint32_t size, const coded_call *call, uint64_t seed)
{
    const size_t width = tt_dtype_bytes(call->dtype);
    const uint64_t in_count = coded_input_count(call, size);
    const bool has_feedback = call->codec->has_feedback;
    tt_random random;
    tt_random_init(&random, seed, 0);
    *made = (memory){.size = size, .call = *call};
    for (uint32_t r = 0; r < size; r++) {
        uint64_t first;
        const uint64_t slice_count = coded_slice_count(call, size, r, &first);
        const size_t out_bytes = coded_output_count(call, size, r) * width;
        const bool has_owner = has_feedback && call->collective == TT_ALLREDUCE;
        const coded_buffers old = {
            .input = random_values(call->dtype, in_count, &random),
            .residual = has_feedback ? random_values(TT_F32, in_count, &random) : NULL,
            .owner_residual = has_owner ? random_values(TT_F32, slice_count, &random) : NULL};
        coded_buffers *both[2] = {&made->got[r], &made->wanted[r]};
        for (int i = 0; i < 2; i++) {
            *both[i] = old;
            both[i]->output = garbage(out_bytes);
            both[i]->residual_out = has_feedback ? garbage(in_count * sizeof(float)) : NULL;
            both[i]->owner_residual_out = has_owner ? garbage(slice_count * sizeof(float)) : NULL;
        }
    }
}

static void memory_drop(memory *made)
{
    for (uint32_t r = 0; r < made->size; r++) {
        coded_buffers *both[2] = {&made->got[r], &made->wanted[r]};
        free((void *)(uintptr_t)made->got[r].input);
        free((void *)(uintptr_t)made->got[r].residual);
        free((void *)(uintptr_t)made->got[r].owner_residual);
        for (int i = 0; i < 2; i++) {
            if (both[i]->output != both[i]->input) {
                free(both[i]->output);
            }
            free(both[i]->residual_out);
            free(both[i]->owner_residual_out);
        }
    }
}

static bool is_same(const void *a, const void *b, size_t bytes)
{
    return a == NULL || bytes == 0 || memcmp(a, b, bytes) == 0;
}

static void memory_check(const memory *made, const char *what)
{
    const coded_call *call = &made->call;
    for (uint32_t r = 0; r < made->size; r++) {
        const coded_buffers *got = &made->got[r], *wanted = &made->wanted[r];
        const size_t out_bytes =
            coded_output_count(call, made->size, r) * tt_dtype_bytes(call->dtype);
        const size_t in_count = coded_input_count(call, made->size);
        uint64_t first;
        const size_t slice_count = coded_slice_count(call, made->size, r, &first);
        const bool is_right =
            is_same(got->output, wanted->output, out_bytes) &&
            is_same(got->residual_out, wanted->residual_out, in_count * sizeof(float)) &&
            is_same(got->owner_residual_out, wanted->owner_residual_out,
                    slice_count * sizeof(float));
        if (!is_right) {
            char text[TT_CODEC_TEXT_BYTES];
            tt_codec_print(call->codec, text);
            fail_msg("%s: %s %s %s, %u ranks, %llu elements: rank %u differs: output %d, residual "
                     "%d, owner's %d",
                     what, text, tt_collective_name(call->collective), tt_dtype_name(call->dtype),
                     made->size, (unsigned long long)call->count, r,
                     is_same(got->output, wanted->output, out_bytes),
                     is_same(got->residual_out, wanted->residual_out, in_count * sizeof(float)),
                     is_same(got->owner_residual_out, wanted->owner_residual_out,
                             slice_count * sizeof(float)));
        }
    }
}

/* ---- calls ---- */

static tt_codec_spec spec_of(const char *text)
{
    tt_codec_spec spec;
    tt_text why;
    if (tt_codec_parse(text, &spec, &why) != TT_OK) {
        fail_msg("%s: %s", text, why.bytes);
    }
    return spec;
}

/* The index-th form of a codec: as it is, with small blocks, with the other setting of feedback;
 * false: there is none. */
static bool form_of(const tt_codec *codec, uint32_t index, tt_codec_spec *spec_out)
{
    *spec_out = spec_of(codec->name);
    if (index == 1) {
        spec_out->block = TT_CODEC_BLOCK_MIN;
        return codec->has_block;
    }
    if (index == 2) {
        spec_out->has_feedback = !spec_out->has_feedback;
        return (codec->traits & TT_CODEC_CONTRACTION) != 0;
    }
    return index == 0;
}

static void expect_success(const coded_job *job, uint32_t size)
{
    for (uint32_t r = 0; r < size; r++) {
        uint32_t culprit;
        assert_int_equal(coded_job_status(job, r, &culprit), TT_OK);
    }
}

static void run_once(const coded_config *config, memory *made, const char *what)
{
    coded_job *job = coded_job_create(config);
    coded_job_plan(job, &made->call);
    coded_job_run(job, made->got);
    expect_success(job, config->size);
    memory_check(made, what);
    assert_true(coded_job_destroy(job));
}

/* The same bits with each of several frames, hands and steps. */
static void run_all_ways(uint32_t size, const coded_call *call, uint64_t seed)
{
    const coded_config ways[] = {
        {.segment_bytes = UINT32_C(64) << seed % 5, .eager_bytes_max = 64},
        {.segment_bytes = 4096, .eager_bytes_max = 4096, .hands = 3},
        {.segment_bytes = 1024, .eager_bytes_max = 1024, .hands = 1, .is_rushed = true},
    };
    memory made;
    memory_make(&made, size, call, seed);
    coded_expect(call, size, made.wanted);
    for (size_t i = 0; i < TT_ARRAY_COUNT(ways); i++) {
        coded_config config = ways[i];
        config.size = size;
        config.seed = seed + i;
        run_once(&config, &made, "one of several ways");
    }
    memory_drop(&made);
}

static void test_every_codec_has_the_bits_of_the_oracle(void **state)
{
    (void)state;
    uint64_t turn = 0;
    tt_codec_spec spec;
    for (size_t c = 0; tt_codec_at(c) != NULL; c++) {
        for (uint32_t form = 0; form < 3; form++) {
            if (!form_of(tt_codec_at(c), form, &spec)) {
                continue;
            }
            const uint64_t counts[] = {
                0, 1, spec.block - 1, spec.block, spec.block + 1, 3000 + 7 * c, 6 * spec.block};
            for (size_t i = 0; i < TT_ARRAY_COUNT(sizes) * TT_ARRAY_COUNT(counts); i++, turn++) {
                const coded_call call = {.codec = &spec,
                                         .collective = TT_ALLREDUCE,
                                         .dtype = dtypes[turn % 3],
                                         .redop = turn % 2 == 0 ? TT_SUM : TT_AVERAGE,
                                         .count = counts[i / TT_ARRAY_COUNT(sizes)],
                                         .prescale = turn % 5 < 3 ? 1.0f : 0.3f,
                                         .postscale = turn % 7 < 4 ? 1.0 : -1.7};
                run_all_ways(sizes[i % TT_ARRAY_COUNT(sizes)], &call, turn);
            }
        }
    }
}

static void test_every_codec_scatters_sums(void **state)
{
    (void)state;
    uint64_t turn = 0;
    for (size_t c = 0; tt_codec_at(c) != NULL; c++) {
        for (size_t s = 0; s < TT_ARRAY_COUNT(sizes); s++) {
            for (uint32_t i = 0; i < 8; i++, turn++) {
                static const uint64_t counts[] = {0, 1, 511, 700};
                const tt_codec_spec spec = spec_of(tt_codec_at(c)->name);
                const uint64_t width = tt_dtype_bytes(dtypes[turn % 3]);
                uint64_t offsets[CODED_RANKS_MAX + 1] = {0};
                for (uint32_t r = 0; r < sizes[s]; r++) {
                    offsets[r + 1] = offsets[r] + (counts[i / 2] * (r + 1) % 900) * width;
                }
                const coded_call call = {.codec = &spec,
                                         .collective = TT_REDUCESCATTER,
                                         .dtype = dtypes[turn % 3],
                                         .redop = turn % 2 == 0 ? TT_SUM : TT_AVERAGE,
                                         .count = counts[i / 2],
                                         .part_offsets = i % 2 == 0 ? NULL : offsets,
                                         .prescale = turn % 5 < 3 ? 1.0f : 0.3f,
                                         .postscale = turn % 7 < 4 ? 1.0 : -1.7};
                run_all_ways(sizes[s], &call, turn);
            }
        }
    }
}

/* Long enough for several lanes at once, work in steps, and orders for all hands. */
static void test_long_vectors_have_the_same_bits_every_way(void **state)
{
    (void)state;
    static const char *const texts[] = {"int8", "qsgd", "sign", "bf16", "int4:block=4096"};
    static const coded_config ways[] = {
        {.segment_bytes = 2048, .eager_bytes_max = 512},
        {.segment_bytes = 1 << 20, .eager_bytes_max = 4096},
        {.segment_bytes = 1 << 16, .eager_bytes_max = 4096, .hands = 4},
        {.segment_bytes = 1 << 16, .eager_bytes_max = 4096, .hands = 4, .is_rushed = true},
        {.segment_bytes = 40000, .eager_bytes_max = 64, .hands = 2},
        {.segment_bytes = 1 << 16, .eager_bytes_max = 4096, .hands = 3, .has_threads = true},
    };
    for (size_t t = 0; t < TT_ARRAY_COUNT(texts); t++) {
        const tt_codec_spec spec = spec_of(texts[t]);
        const coded_call call = {.codec = &spec,
                                 .collective = TT_ALLREDUCE,
                                 .dtype = dtypes[t % 3],
                                 .redop = TT_AVERAGE,
                                 .count = 200 * 1000 + 13,
                                 .prescale = 2.0f,
                                 .postscale = 0.25};
        memory made;
        memory_make(&made, 3, &call, t);
        coded_expect(&call, 3, made.wanted);
        for (size_t w = 0; w < TT_ARRAY_COUNT(ways); w++) {
            coded_config config = ways[w];
            config.size = 3;
            config.seed = 100 * t + w;
            run_once(&config, &made, "a long vector");
        }
        memory_drop(&made);
    }
}

static void test_input_may_be_the_output(void **state)
{
    (void)state;
    const tt_codec_spec spec = spec_of("int8:block=64");
    for (size_t i = 0; i < 2 * TT_ARRAY_COUNT(sizes); i++) {
        const size_t s = i / 2;
        const coded_call call = {.codec = &spec,
                                 .collective = TT_ALLREDUCE,
                                 .dtype = dtypes[s % 3],
                                 .redop = TT_SUM,
                                 .count = 5000,
                                 .prescale = 1.0f,
                                 .postscale = 1.0};
        memory made;
        memory_make(&made, sizes[s], &call, s);
        coded_expect(&call, sizes[s], made.wanted);
        for (uint32_t r = 0; r < sizes[s]; r++) {
            free(made.got[r].output);
            made.got[r].output = (void *)(uintptr_t)made.got[r].input;
        }
        const coded_config config = {.size = sizes[s],
                                     .seed = s,
                                     .segment_bytes = i % 2 == 0 ? 128 : 4096,
                                     .eager_bytes_max = 128,
                                     .hands = 3};
        run_once(&config, &made, "in place");
        memory_drop(&made);
    }
}

/* ---- residuals ---- */

static void swap_residuals(coded_buffers *buffers)
{
    float *old = (float *)(uintptr_t)buffers->residual;
    float *owner_old = (float *)(uintptr_t)buffers->owner_residual;
    buffers->residual = buffers->residual_out;
    buffers->owner_residual = buffers->owner_residual_out;
    buffers->residual_out = old;
    buffers->owner_residual_out = owner_old;
}

/* Elements that remain unsent somewhere: all ranks' residuals and the owner's. */
static double pending(const memory *made, uint64_t index)
{
    double sum = 0.0;
    for (uint32_t r = 0; r < made->size; r++) {
        uint64_t first;
        const uint64_t count = coded_slice_count(&made->call, made->size, r, &first);
        sum += (double)made->got[r].residual[index];
        if (index >= first && index - first < count) {
            sum += (double)made->got[r].owner_residual[index - first];
        }
    }
    return sum;
}

static void telescope(const tt_codec_spec *spec, uint32_t size)
{
    enum { COUNT = 1500, CALLS = 50 };
    static double given[COUNT], gotten[COUNT], magnitude[COUNT];
    const coded_call call = {.codec = spec,
                             .collective = TT_ALLREDUCE,
                             .dtype = TT_F32,
                             .redop = TT_SUM,
                             .count = COUNT,
                             .prescale = 1.0f,
                             .postscale = 1.0};
    const coded_config config = {
        .size = size, .seed = size, .segment_bytes = 256, .eager_bytes_max = 256, .hands = 2};
    coded_job *job = coded_job_create(&config);
    memory made;
    tt_random random;
    uint64_t allocations = 0;
    memory_make(&made, size, &call, 9);
    tt_random_init(&random, size, 3);
    for (uint64_t i = 0; i < COUNT; i++) {
        given[i] = magnitude[i] = pending(&made, i);
        gotten[i] = 0.0;
    }
    coded_job_plan(job, &call);
    for (uint32_t n = 0; n < CALLS; n++) {
        for (uint32_t r = 0; r < size; r++) {
            for (uint64_t i = 0; i < COUNT; i++) {
                void *values = (void *)(uintptr_t)made.got[r].input;
                set_value(call.dtype, values, i, random_value(&random));
                given[i] += (double)get_value(call.dtype, values, i);
                magnitude[i] += fabs((double)get_value(call.dtype, values, i));
            }
        }
        coded_job_run(job, made.got);
        expect_success(job, size);
        /* Room for early frames is taken when the first of a peer comes. */
        allocations = n < CALLS / 2 ? coded_job_allocations(job) : allocations;
        assert_int_equal(coded_job_allocations(job), allocations);
        for (uint32_t r = 0; r < size; r++) {
            swap_residuals(&made.got[r]);
        }
        for (uint64_t i = 0; i < COUNT; i++) {
            gotten[i] += (double)get_value(call.dtype, made.got[0].output, i);
        }
    }
    for (uint64_t i = 0; i < COUNT; i++) {
        const double error = fabs(gotten[i] + pending(&made, i) - given[i]);
        if (!(error <= 1e-6 * magnitude[i])) {
            fail_msg("%s, %u ranks: element %llu is off by %g of %g", tt_codec_name(spec), size,
                     (unsigned long long)i, error, magnitude[i]);
        }
    }
    memory_drop(&made);
    assert_true(coded_job_destroy(job));
}

static void test_nothing_is_lost_over_many_calls(void **state)
{
    (void)state;
    for (size_t c = 0; tt_codec_at(c) != NULL; c++) {
        tt_codec_spec spec = spec_of(tt_codec_at(c)->name);
        if ((tt_codec_traits(&spec) & TT_CODEC_CONTRACTION) == 0) {
            continue;
        }
        spec.has_feedback = true;
        for (size_t s = 0; s < TT_ARRAY_COUNT(sizes); s++) {
            telescope(&spec, sizes[s]);
        }
    }
}

/* ---- bad bytes ---- */

typedef struct damage {
    uint32_t from, to;
    uint32_t round;
    bool is_shorter;
    uint32_t done;
} damage;

static void do_damage(void *user, uint32_t rank, uint32_t peer, tt_head *head, uint8_t *payload)
{
    damage *what = user;
    const float negative = -1.0f;
    if (rank != what->to || peer != what->from || head->round != what->round ||
        head->payload_bytes == 0) {
        return;
    }
    what->done++;
    if (what->is_shorter) {
        head->payload_bytes--;
    } else {
        memcpy(payload, &negative, sizeof(negative)); /* the scale of the first block */
    }
}

static void check_damage(const tt_codec_spec *spec, damage what, tt_collective collective)
{
    const coded_call call = {.codec = spec,
                             .collective = collective,
                             .dtype = TT_F32,
                             .redop = TT_SUM,
                             .count = 3000,
                             .prescale = 1.0f,
                             .postscale = 1.0};
    const coded_config config = {.size = 4,
                                 .seed = what.from + what.round,
                                 .segment_bytes = 256,
                                 .eager_bytes_max = 4096,
                                 .hands = what.from % 2 == 0 ? 0 : 3,
                                 .has_threads = what.from == 3};
    coded_job *job = coded_job_create(&config);
    memory made;
    uint32_t culprit;
    memory_make(&made, 4, &call, 1);
    const size_t bytes = coded_input_count(&call, 4) * sizeof(float);
    float *old = garbage(bytes);
    memcpy(old, made.got[what.to].residual, bytes);
    coded_job_plan(job, &call);
    coded_job_tamper(job, do_damage, &what);
    coded_job_run(job, made.got);
    assert_true(what.done > 0);
    assert_int_equal(coded_job_status(job, what.to, &culprit), TT_ERR_BAD_WIRE);
    assert_int_equal(culprit, what.from);
    /* The old residuals count: the call, made again, has the bits of one that never failed. */
    assert_memory_equal(old, made.got[what.to].residual, bytes);
    coded_job_tamper(job, NULL, NULL);
    coded_job_run(job, made.got);
    expect_success(job, 4);
    coded_expect(&call, 4, made.wanted);
    memory_check(&made, "again after a failure");
    free(old);
    memory_drop(&made);
    assert_true(coded_job_destroy(job));
}

static void test_bad_bytes_name_their_sender(void **state)
{
    (void)state;
    for (size_t c = 0; tt_codec_at(c) != NULL; c++) {
        tt_codec_spec spec = spec_of(tt_codec_at(c)->name);
        if (tt_codec_at(c)->has_block) {
            spec.block = 64;
        }
        spec.has_feedback = true;
        const bool has_heads = tt_codec_at(c)->head_bytes > 0;
        for (uint32_t from = 0; from < 4; from++) {
            const damage what = {.from = from, .to = (from + 1 + c % 3) % 4, .round = 1};
            damage later = what, shorter = what;
            later.round = 3;
            shorter.is_shorter = true;
            check_damage(&spec, shorter, TT_ALLREDUCE);
            if (has_heads) {
                check_damage(&spec, what, TT_ALLREDUCE);
                check_damage(&spec, later, TT_ALLREDUCE);
                check_damage(&spec, what, TT_REDUCESCATTER);
            }
        }
    }
}

/* ---- values that are not finite ---- */

static void check_nan(const tt_codec_spec *spec, uint32_t giver, uint64_t where, float value)
{
    enum { COUNT = 4000 };
    const coded_call call = {.codec = spec,
                             .collective = TT_ALLREDUCE,
                             .dtype = TT_F32,
                             .redop = TT_SUM,
                             .count = COUNT,
                             .prescale = 1.0f,
                             .postscale = 1.0};
    const coded_config config = {.size = 3,
                                 .seed = where,
                                 .segment_bytes = 4096,
                                 .eager_bytes_max = 512,
                                 .hands = 2,
                                 .has_threads = giver == 1};
    coded_job *job = coded_job_create(&config);
    memory made;
    uint64_t uncoded = 0;
    memory_make(&made, 3, &call, 4);
    ((float *)(uintptr_t)made.got[giver].input)[where] = value;
    coded_expect(&call, 3, made.wanted);
    coded_job_plan(job, &call);
    coded_job_run(job, made.got);
    expect_success(job, 3);
    for (uint32_t r = 0; r < 3; r++) {
        const float *output = made.got[r].output;
        const bool is_exact = tt_codec_wire_bytes(spec, 1) == sizeof(float) && isinf(value);
        assert_true(is_exact ? isinf(output[where]) : isnan(output[where]));
        assert_memory_equal(output, made.got[0].output, COUNT * sizeof(float));
        for (uint64_t i = 0; i < COUNT; i++) {
            assert_true(i / spec->block == where / spec->block || isfinite(output[i]));
        }
        for (uint64_t i = 0; spec->has_feedback && i < COUNT; i++) {
            assert_true(isfinite(made.got[r].residual_out[i]));
        }
        assert_int_equal(made.got[r].uncoded, made.wanted[r].uncoded);
        uncoded += made.got[r].uncoded;
    }
    assert_true(uncoded > 0);
    memory_drop(&made);
    assert_true(coded_job_destroy(job));
}

static void test_divergence_reaches_all_ranks(void **state)
{
    (void)state;
    for (size_t c = 0; tt_codec_at(c) != NULL; c++) {
        tt_codec_spec spec = spec_of(tt_codec_at(c)->name);
        for (uint32_t giver = 0; giver < 3; giver++) {
            check_nan(&spec, giver, 5, NAN);
            check_nan(&spec, giver, 3999, NAN);
            check_nan(&spec, giver, 2000, INFINITY);
        }
    }
}

static void test_finite_values_are_all_coded(void **state)
{
    (void)state;
    const tt_codec_spec spec = spec_of("int8");
    const coded_call call = {.codec = &spec,
                             .collective = TT_ALLREDUCE,
                             .dtype = TT_F32,
                             .redop = TT_SUM,
                             .count = 3000,
                             .prescale = 1.0f,
                             .postscale = 1.0};
    const coded_config config = {
        .size = 4, .seed = 1, .segment_bytes = 512, .eager_bytes_max = 512, .hands = 2};
    coded_job *job = coded_job_create(&config);
    memory made;
    memory_make(&made, 4, &call, 4);
    coded_job_plan(job, &call);
    coded_job_run(job, made.got);
    expect_success(job, 4);
    for (uint32_t r = 0; r < 4; r++) {
        assert_int_equal(made.got[r].uncoded, 0);
    }
    memory_drop(&made);
    assert_true(coded_job_destroy(job));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_codec_has_the_bits_of_the_oracle),
        cmocka_unit_test(test_every_codec_scatters_sums),
        cmocka_unit_test(test_long_vectors_have_the_same_bits_every_way),
        cmocka_unit_test(test_input_may_be_the_output),
        cmocka_unit_test(test_nothing_is_lost_over_many_calls),
        cmocka_unit_test(test_bad_bytes_name_their_sender),
        cmocka_unit_test(test_divergence_reaches_all_ranks),
        cmocka_unit_test(test_finite_values_are_all_coded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
