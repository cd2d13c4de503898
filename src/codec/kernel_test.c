/* SPDX-License-Identifier: Apache-2.0
 *
 * kernel_test.c - every table of loops against the plain one, byte by byte, on values of all kinds
 * and counts with every remainder; and the plain one against what is easy to say. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/philox.h"
#include "codec/kernel.h"
#include "kernel/half.h"

enum { COUNT_MAX = 100, ROOM = COUNT_MAX + 4 };

/* One case: the same values for both tables. */
typedef struct sample {
    float values[ROOM], other[ROOM];
    uint32_t random[ROOM];
    uint8_t bytes[4 * ROOM];
    size_t count;
    float factor;
} sample;

/* Magnitudes from 2^-20 to 2^20, some zeros of both signs, some equal. */
static float ordinary(tt_random *random)
{
    const uint32_t kind = tt_random_u32(random) % 16;
    const float sign = tt_random_u32(random) % 2 == 0 ? 1.0f : -1.0f;
    if (kind == 0) {
        return sign * 0.0f;
    }
    const float mantissa = kind < 4 ? 1.5f : 1.0f + (float)tt_random_real(random);
    return sign * ldexpf(mantissa, (int)(tt_random_u32(random) % 41) - 20);
}

static void sample_make(sample *made, uint64_t seed, size_t count)
{
    tt_random random;
    tt_random_init(&random, seed, count);
    memset(made, 0, sizeof(*made));
    made->count = count;
    made->factor = 0.37f;
    for (size_t i = 0; i < count; i++) {
        made->values[i] = ordinary(&random);
        made->other[i] = ordinary(&random);
        made->random[i] = tt_random_u32(&random);
    }
    for (size_t i = 0; i < sizeof(made->bytes); i++) {
        made->bytes[i] = (uint8_t)tt_random_u32(&random);
    }
}

typedef struct result {
    uint8_t bytes[8 * ROOM];
    double numbers[4];
} result;

typedef void run_fn(const tt_codec_kernel *kernel, const sample *in, result *out);

static float inverse_of(const tt_codec_kernel *kernel, const sample *in, float most)
{
    const float largest = kernel->largest(in->values, in->count);
    return largest > 0.0f ? most / largest : 0.0f;
}

static void run_load_f32(const tt_codec_kernel *kernel, const sample *in, result *out)
{
    float *target = (float *)(void *)out->bytes;
    kernel->load(target, in->values, TT_F32, in->factor, in->count);
}

static void run_load_halves(const tt_codec_kernel *kernel, const sample *in, result *out)
{
    float *target = (float *)(void *)out->bytes;
    kernel->load(target, in->bytes, TT_BF16, 1.0f, in->count);
    for (size_t i = 0; i < in->count; i++) { /* the payload of a NaN is not compared */
        target[i] = isnan(target[i]) ? NAN : target[i];
    }
    kernel->load(target + ROOM, in->bytes, TT_F16, in->factor, in->count);
    for (size_t i = 0; i < in->count; i++) {
        target[ROOM + i] = isnan(target[ROOM + i]) ? NAN : target[ROOM + i];
    }
}

static void run_store(const tt_codec_kernel *kernel, const sample *in, result *out)
{
    kernel->store(out->bytes, TT_F16, in->values, in->factor, in->count);
    kernel->store(out->bytes + 2 * ROOM, TT_BF16, in->values, in->factor, in->count);
    kernel->store(out->bytes + 4 * ROOM, TT_F32, in->values, in->factor, in->count);
}

static void run_arithmetic(const tt_codec_kernel *kernel, const sample *in, result *out)
{
    float *target = (float *)(void *)out->bytes;
    float sums[2];
    size_t negatives;
    memcpy(target, in->values, in->count * sizeof(float));
    kernel->add(target, in->other, in->count);
    kernel->subtract(target + ROOM, in->values, in->other, NULL, in->count);
    out->numbers[0] = (double)kernel->largest(in->values, in->count);
    out->numbers[1] = (double)kernel->magnitude_sum(in->values, in->count);
    kernel->sums_by_sign(in->values, in->count, sums, &negatives);
    out->numbers[2] = (double)sums[0] - 2.0 * (double)sums[1];
    out->numbers[3] = (double)negatives;
}

static void run_integers(const tt_codec_kernel *kernel, const sample *in, result *out)
{
    float *decoded = (float *)(void *)(out->bytes + 4 * ROOM);
    uint8_t codes[ROOM] = {0};
    kernel->to_int8(out->bytes, in->values, inverse_of(kernel, in, 127.0f), in->count);
    kernel->from_int8(decoded, out->bytes, in->factor, in->count);
    kernel->to_int8(codes, in->values, inverse_of(kernel, in, 7.0f), in->count);
    kernel->pack_int4(out->bytes + ROOM, codes, in->count);
    kernel->unpack_int4(out->bytes + 2 * ROOM, out->bytes + ROOM, in->count);
    assert_memory_equal(codes, out->bytes + 2 * ROOM, in->count);
    kernel->to_int8_random(out->bytes + 3 * ROOM, in->values, inverse_of(kernel, in, 127.0f),
                           in->random, in->count);
}

/* Scales beyond the values, and below them. */
static void run_ternary(const tt_codec_kernel *kernel, const sample *in, result *out)
{
    float *decoded = (float *)(void *)(out->bytes + 4 * ROOM);
    kernel->to_ternary(out->bytes, in->values, kernel->largest(in->values, in->count), in->random,
                       in->count);
    kernel->to_ternary(out->bytes + ROOM, in->values, in->factor, in->random, in->count);
    kernel->to_votes(out->bytes + 2 * ROOM, in->values, in->count);
    kernel->from_votes(decoded, in->bytes, in->factor, in->count);
}

static void run_floats(const tt_codec_kernel *kernel, const sample *in, result *out)
{
    kernel->to_f16(out->bytes, in->values, in->count);
    kernel->from_f16((float *)(void *)(out->bytes + 4 * ROOM), out->bytes, in->count);
    kernel->to_bf16(out->bytes + 2 * ROOM, in->values, in->count);
    uint8_t clamped[2 * ROOM];
    kernel->to_bf16_in_range(clamped, in->values, in->count);
    assert_memory_equal(clamped, out->bytes + 2 * ROOM, 2 * in->count);
    if (kernel->largest(in->values, in->count) <= 65504.0f) {
        kernel->to_f16_in_range(clamped, in->values, in->count);
        assert_memory_equal(clamped, out->bytes, 2 * in->count);
    }
}

static void run_small_floats(const tt_codec_kernel *kernel, const sample *in, result *out)
{
    float *decoded = (float *)(void *)(out->bytes + 4 * ROOM);
    kernel->to_e4m3(out->bytes, in->values, inverse_of(kernel, in, 448.0f), in->count);
    kernel->from_e4m3(decoded, out->bytes, in->factor, in->count);
    kernel->to_e5m2(out->bytes + ROOM, in->values, inverse_of(kernel, in, 57344.0f), in->count);
    kernel->to_powers(out->bytes + 2 * ROOM, in->values, in->random, in->count);
}

static void run_decoders(const tt_codec_kernel *kernel, const sample *in, result *out)
{
    float *decoded = (float *)(void *)out->bytes;
    kernel->from_e5m2(decoded, in->bytes, 1.0f, in->count);
    kernel->from_powers(decoded + ROOM, in->bytes, 1.0f, in->count);
}

static void run_signs(const tt_codec_kernel *kernel, const sample *in, result *out)
{
    const float pair[2] = {0.25f, -3.0f};
    kernel->to_signs(out->bytes, in->values, in->count);
    kernel->from_signs((float *)(void *)(out->bytes + ROOM), in->bytes, pair, in->count);
}

static void run_draw(const tt_codec_kernel *kernel, const sample *in, result *out)
{
    const uint32_t stream[2] = {7, 9};
    kernel->draw((uint32_t *)(void *)out->bytes, 0x123456789abcdef0, 4096, stream, in->count);
}

static void test_every_table_gives_the_same_bytes(void **state)
{
    static run_fn *const runs[] = {run_load_f32, run_load_halves, run_store,  run_arithmetic,
                                   run_integers, run_ternary,     run_floats, run_small_floats,
                                   run_decoders, run_signs,       run_draw};
    (void)state;
    static sample in;
    static result plain, other;
    for (size_t count = 1; count <= COUNT_MAX; count++) {
        sample_make(&in, 11, count);
        for (size_t r = 0; r < sizeof(runs) / sizeof(runs[0]); r++) {
            memset(&plain, 0, sizeof(plain));
            runs[r](&tt_codec_kernel_plain, &in, &plain);
            for (size_t i = 0; tt_codec_kernel_at(i) != NULL; i++) {
                memset(&other, 0, sizeof(other));
                runs[r](tt_codec_kernel_at(i), &in, &other);
                assert_memory_equal(&plain, &other, sizeof(plain));
            }
        }
    }
}

/* Values that are not finite, in each table. */
static void test_nonfinite_values_are_detected_and_become_nan(void **state)
{
    (void)state;
    const float values[5] = {1.0f, NAN, -INFINITY, 1e30f, -2.0f};
    for (size_t i = 0; tt_codec_kernel_at(i) != NULL; i++) {
        const tt_codec_kernel *kernel = tt_codec_kernel_at(i);
        float decoded[5], kept[5];
        const float old[5] = {9.0f, 8.0f, 7.0f, 6.0f, 5.0f};
        uint8_t wire[10];
        assert_true(!isfinite(kernel->largest(values, 5)));
        assert_true(kernel->largest(values + 3, 2) == 1e30f);
        kernel->to_f16(wire, values, 5);
        kernel->from_f16(decoded, wire, 5);
        assert_true(decoded[0] == 1.0f && isnan(decoded[1]) && isnan(decoded[2]));
        assert_true(decoded[3] == 65504.0f && decoded[4] == -2.0f);
        kernel->to_bf16(wire, values, 5);
        kernel->from_bf16(decoded, wire, 5);
        assert_true(isnan(decoded[1]) && isnan(decoded[2]) && fabsf(decoded[3] - 1e30f) < 4e27f);
        kernel->subtract(kept, values, decoded, old, 5);
        assert_true(kept[0] == 0.0f && kept[1] == 8.0f && kept[2] == 7.0f && kept[4] == 0.0f);
    }
}

/* The level is the sign where the magnitude is above a part of the scale; no value traps. */
static void test_levels_of_three(void **state)
{
    (void)state;
    const float values[8] = {0.5f, -0.5f, 0.0f, -0.0f, NAN, INFINITY, -1.0f, 0.25f};
    const uint32_t random[8] = {0x7fffffff, 0x7fffffff, 0, 0, 0, 0, 0xffffffff, 0x80000000};
    const int8_t wanted[8] = {1, -1, 0, 0, 0, 1, -1, 0}, votes[8] = {1, -1, 0, 0, 0, 1, -1, 1};
    const int8_t sums[8] = {-128, -1, 0, 1, 127, 0, 5, -5};
    for (size_t i = 0; tt_codec_kernel_at(i) != NULL; i++) {
        const tt_codec_kernel *kernel = tt_codec_kernel_at(i);
        uint8_t codes[8];
        float decoded[8];
        kernel->to_ternary(codes, values, 1.0f, random, 8);
        assert_memory_equal(codes, wanted, 8);
        kernel->to_votes(codes, values, 8);
        assert_memory_equal(codes, votes, 8);
        kernel->from_votes(decoded, (const uint8_t *)sums, 2.5f, 8);
        for (size_t k = 0; k < 8; k++) {
            assert_true(decoded[k] == (sums[k] > 0 ? 2.5f : sums[k] < 0 ? -2.5f : 0.0f));
        }
    }
}

/* The draws are Philox itself, at the places that kernel.h names. */
static void test_draws_are_philox(void **state)
{
    (void)state;
    const uint32_t stream[2] = {5, 6};
    uint32_t random[8];
    tt_codec_kernel_plain.draw(random, 0x1122334455667788, 40, stream, 8);
    for (uint32_t k = 0; k < 2; k++) {
        const tt_philox_key key = {{0x55667788, 0x11223344}};
        const tt_philox_block block = tt_philox_at(key, (tt_philox_block){{10 + k, 5, 6, 0}});
        assert_memory_equal(block.word, random + 4 * k, sizeof(block.word));
    }
}

/* All codes of the 8-bit floats, there and back; and what lies half way goes to the even one. */
static void test_small_floats_keep_their_own_values(void **state)
{
    (void)state;
    const tt_codec_kernel *kernel = &tt_codec_kernel_plain;
    for (uint32_t code = 0; code < 0x7f; code++) {
        const uint8_t wire = (uint8_t)code;
        uint8_t again, half_way;
        float value, next;
        const uint8_t above = (uint8_t)(code + 1);
        kernel->from_e4m3(&value, &wire, 1.0f, 1);
        kernel->to_e4m3(&again, &value, 1.0f, 1);
        assert_int_equal(again, code);
        if (above < 0x7f) {
            kernel->from_e4m3(&next, &above, 1.0f, 1);
            const float middle = (value + next) / 2.0f;
            kernel->to_e4m3(&half_way, &middle, 1.0f, 1);
            assert_int_equal(half_way, code % 2 == 0 ? code : code + 1);
        }
        if (code <= 0x7b) {
            kernel->from_e5m2(&value, &wire, 1.0f, 1);
            kernel->to_e5m2(&again, &value, 1.0f, 1);
            assert_int_equal(again, code);
        }
    }
    const uint8_t most = 0x7e, least = 1;
    float value;
    kernel->from_e4m3(&value, &most, 1.0f, 1);
    assert_true(value == 448.0f);
    kernel->from_e4m3(&value, &least, 1.0f, 1);
    assert_true(value == 0x1p-9f);
    const uint8_t wide = 0x7b;
    kernel->from_e5m2(&value, &wide, 1.0f, 1);
    assert_true(value == 57344.0f);
    kernel->from_e5m2(&value, &least, 1.0f, 1);
    assert_true(value == 0x1p-16f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_table_gives_the_same_bytes),
        cmocka_unit_test(test_nonfinite_values_are_detected_and_become_nan),
        cmocka_unit_test(test_levels_of_three),
        cmocka_unit_test(test_draws_are_philox),
        cmocka_unit_test(test_small_floats_keep_their_own_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
