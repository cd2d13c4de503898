/* SPDX-License-Identifier: Apache-2.0
 *
 * codec_test.c - what codec.h promises, over every codec that is registered. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/philox.h"
#include "codec/registry.h"
#include "kernel/half.h"
#include "kernel/hash64.h"
#include "support/codec_spec.h"

enum { COUNT = 1000, WIRE_BYTES_MAX = 8 * COUNT + 64, REPEATS = 4096 };

typedef enum shape { GAUSSIAN, LOGNORMAL, SPARSE, CONSTANT, ALTERNATING, TINY, SHAPES } shape;

static float normal(tt_random *random)
{
    double sum = -6.0;
    for (int i = 0; i < 12; i++) {
        sum += tt_random_real(random);
    }
    return (float)sum;
}

static void make_values(float *values, size_t count, shape kind, uint64_t seed)
{
    tt_random random;
    tt_random_init(&random, seed, (uint64_t)kind);
    for (size_t i = 0; i < count; i++) {
        const float drawn = normal(&random);
        switch (kind) {
        case GAUSSIAN:
            values[i] = drawn;
            break;
        case LOGNORMAL:
            values[i] = (i % 2 == 0 ? 1.0f : -1.0f) * expf(2.0f * drawn);
            break;
        case SPARSE:
            values[i] = i % 333 == 5 ? drawn : 0.0f;
            break;
        case CONSTANT:
            values[i] = -0.7f;
            break;
        case ALTERNATING:
            values[i] = i % 2 == 0 ? 3.0f : -3.0f;
            break;
        default:
            values[i] = drawn * 1e-20f;
            break;
        }
    }
}

/* Magnitudes that fp16 has no bits for. */
static bool is_beyond(const tt_codec_spec *spec, shape kind)
{
    return kind == TINY && strcmp(tt_codec_name(spec), "fp16") == 0;
}

static bool is_lossless(const tt_codec_spec *spec)
{
    return (tt_codec_traits(spec) & TT_CODEC_CAST) != 0 &&
           (tt_codec_traits(spec) & TT_CODEC_CONTRACTION) == 0;
}

static bool is_contraction(const tt_codec_spec *spec)
{
    return (tt_codec_traits(spec) & TT_CODEC_CONTRACTION) != 0;
}

/* The index-th codec; with error feedback, where it may have that. NULL: no more. */
static const char *text_at(size_t index, bool has_feedback, char text[TT_CODEC_TEXT_BYTES])
{
    const tt_codec *codec = tt_codec_at(index);
    if (codec == NULL) {
        return NULL;
    }
    const bool can = (codec->traits & TT_CODEC_CONTRACTION) != 0;
    (void)snprintf(text, TT_CODEC_TEXT_BYTES, "%s:ef=%s", codec->name,
                   has_feedback && can ? "on" : "off");
    return text;
}

#define FOR_EACH_CODEC(spec, has_feedback)                                              \
    for (char text_[TT_CODEC_TEXT_BYTES], *each_ = text_; each_ != NULL; each_ = NULL)  \
        for (size_t index_ = 0; text_at(index_, has_feedback, text_) != NULL; index_++) \
            for (tt_codec_spec spec = spec_of(text_), *once_ = &spec; once_ != NULL; once_ = NULL)

static void decode_f32(const tt_codec_spec *spec, const uint8_t *wire, float *values, size_t count)
{
    const tt_codec_target target = {
        .values = values, .dtype = TT_F32, .factor = 1.0f, .count = count};
    tt_codec_decode(spec, wire, &target);
}

/* Encode and decode again. */
static void pass(const tt_codec_spec *spec, const float *values, size_t count, uint32_t occurrence,
                 float *decoded)
{
    uint8_t *wire = malloc(tt_codec_wire_bytes(spec, count) + 1);
    const tt_codec_source source = {.values = values,
                                    .dtype = TT_F32,
                                    .factor = 1.0f,
                                    .count = count,
                                    .draw = {.seed = 3, .tensor = 4, .occurrence = occurrence}};
    assert_non_null(wire);
    assert_int_equal(tt_codec_encode(spec, &source, wire), 0);
    assert_int_equal(tt_codec_check(spec, wire, tt_codec_wire_bytes(spec, count), count), TT_OK);
    decode_f32(spec, wire, decoded, count);
    free(wire);
}

static double square(const float *values, size_t count)
{
    double sum = 0.0;
    for (size_t i = 0; i < count; i++) {
        sum += (double)values[i] * (double)values[i];
    }
    return sum;
}

static void test_an_error_is_smaller_than_its_block(void **state)
{
    (void)state;
    static float values[COUNT], decoded[COUNT], error[COUNT];
    FOR_EACH_CODEC(spec, true)
    {
        for (shape kind = 0; kind < SHAPES; kind++) {
            double errors = 0.0, squares = 0.0;
            make_values(values, COUNT, kind, 1);
            const bool is_random = (tt_codec_traits(&spec) & TT_CODEC_UNBIASED) != 0;
            for (uint32_t i = 0; i < (is_random ? 64u : 1u); i++) {
                pass(&spec, values, COUNT, i, decoded);
                for (size_t k = 0; k < COUNT; k++) {
                    error[k] = decoded[k] - values[k];
                }
                errors += square(error, COUNT);
                squares += square(values, COUNT);
            }
            if (errors >= squares && !is_beyond(&spec, kind) &&
                (is_contraction(&spec) || is_lossless(&spec))) {
                fail_msg("%s, shape %d: error %g of %g", tt_codec_name(&spec), (int)kind, errors,
                         squares);
            }
        }
    }
}

/* How far an element may be off, as a part of the largest of its block. */
static double bound_of(const tt_codec_spec *spec)
{
    static const struct {
        const char *name;
        double bound;
    } bounds[] = {{"none", 0.0},          {"fp16", 0x1p-11},     {"bf16", 0x1p-8},
                  {"e4m3", 16.0 / 448.0}, {"e5m2", 1.0 / 14.0},  {"int8", 0.5 / 127.0},
                  {"int4", 0.5 / 7.0},    {"qsgd", 1.0 / 127.0}, {"int8sum", 0.5 / 127.0},
                  {"terngrad", 1.0},      {"majority", 1.0}};
    for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++) {
        if (strcmp(bounds[i].name, tt_codec_name(spec)) == 0) {
            return bounds[i].bound * 1.00001;
        }
    }
    return 2.0;
}

static void test_an_element_is_off_by_at_most_a_step(void **state)
{
    (void)state;
    static float values[COUNT], decoded[COUNT];
    FOR_EACH_CODEC(spec, false)
    {
        for (shape kind = 0; kind < SHAPES; kind++) {
            make_values(values, COUNT, kind, 2);
            pass(&spec, values, COUNT, 0, decoded);
            for (size_t first = 0; first < COUNT; first += spec.block) {
                const size_t end = first + spec.block < COUNT ? first + spec.block : COUNT;
                const double most =
                    (double)tt_codec_kernel_plain.largest(values + first, end - first);
                for (size_t i = first; i < end; i++) {
                    const double off = fabs((double)decoded[i] - (double)values[i]);
                    assert_true(off <= bound_of(&spec) * most || is_beyond(&spec, kind));
                }
            }
        }
    }
}

static void test_random_rounding_is_right_on_average(void **state)
{
    (void)state;
    enum { FEW = 64 };
    static float values[FEW], decoded[FEW];
    static double sums[FEW], squares[FEW];
    static const char *const texts[] = {"qsgd:block=64", "qsgd:bits=4,block=32", "natural",
                                        "terngrad:block=16", "terngrad:block=64"};
    for (size_t t = 0; t < sizeof(texts) / sizeof(texts[0]); t++) {
        const tt_codec_spec spec = spec_of(texts[t]);
        double errors = 0.0;
        make_values(values, FEW, GAUSSIAN, 3);
        memset(sums, 0, sizeof(sums));
        memset(squares, 0, sizeof(squares));
        for (uint32_t r = 0; r < REPEATS; r++) {
            pass(&spec, values, FEW, r, decoded);
            for (size_t i = 0; i < FEW; i++) {
                const double off = (double)decoded[i] - (double)values[i];
                sums[i] += off;
                squares[i] += off * off;
                errors += off * off;
            }
        }
        for (size_t i = 0; i < FEW; i++) {
            const double deviation = sqrt(squares[i]); /* of the sum */
            assert_true(fabs(sums[i]) <= 5.0 * deviation + 1e-6 * REPEATS);
        }
        const double omega = errors / REPEATS / square(values, FEW);
        assert_true(omega <= tt_codec_omega(&spec) * (1.0 + 5.0 / 64.0));
    }
}

/* Draws depend on the element, not on how the tensor is cut; ranks that differ in seed differ. */
static void test_a_tensor_may_be_cut_at_any_block(void **state)
{
    (void)state;
    static float values[COUNT], whole_residual[COUNT], residual[COUNT];
    static uint8_t whole[WIRE_BYTES_MAX], parts[WIRE_BYTES_MAX];
    make_values(values, COUNT, GAUSSIAN, 4);
    FOR_EACH_CODEC(spec, true)
    {
        tt_codec_source source = {.values = values,
                                  .dtype = TT_F32,
                                  .factor = 0.5f,
                                  .count = COUNT,
                                  .residual_out = whole_residual,
                                  .draw = {.seed = 1, .tensor = 2, .occurrence = 3}};
        (void)tt_codec_encode(&spec, &source, whole);
        uint8_t *wire = parts;
        for (size_t first = 0; first < COUNT; first += spec.block) {
            source.first = first;
            source.values = values + first;
            source.residual_out = residual + first;
            source.count = first + spec.block < COUNT ? spec.block : COUNT - first;
            (void)tt_codec_encode(&spec, &source, wire);
            wire += tt_codec_wire_bytes(&spec, source.count);
        }
        const size_t bytes = tt_codec_wire_bytes(&spec, COUNT);
        assert_int_equal(wire - parts, bytes);
        assert_memory_equal(whole, parts, bytes);
        assert_memory_equal(whole_residual, residual, sizeof(residual));
    }
}

/* Sent so far and what is left are all gradients so far. */
static void test_error_feedback_loses_nothing(void **state)
{
    enum { STEPS = 50 };
    (void)state;
    static float values[COUNT], residual[COUNT], decoded[COUNT];
    static double given[COUNT], sent[COUNT];
    static uint8_t wire[WIRE_BYTES_MAX];
    FOR_EACH_CODEC(spec, true)
    {
        memset(residual, 0, sizeof(residual));
        memset(given, 0, sizeof(given));
        memset(sent, 0, sizeof(sent));
        for (uint32_t step = 0; step < STEPS; step++) {
            make_values(values, COUNT, step % 2 == 0 ? GAUSSIAN : LOGNORMAL, step);
            const tt_codec_source source = {.values = values,
                                            .dtype = TT_F32,
                                            .factor = 1.0f,
                                            .count = COUNT,
                                            .residual = residual,
                                            .residual_out = residual,
                                            .draw = {.seed = 1, .occurrence = step}};
            (void)tt_codec_encode(&spec, &source, wire);
            decode_f32(&spec, wire, decoded, COUNT);
            for (size_t i = 0; i < COUNT; i++) {
                given[i] += (double)values[i];
                sent[i] += (double)decoded[i];
            }
        }
        double off = 0.0, all = 0.0;
        for (size_t i = 0; i < COUNT; i++) {
            off += fabs(sent[i] + (double)residual[i] - given[i]);
            all += fabs(given[i]);
        }
        assert_true(off <= 1e-6 * all);
        assert_true(!is_lossless(&spec) || square(residual, COUNT) == 0.0);
    }
}

static void test_a_nonfinite_value_affects_its_block_only(void **state)
{
    (void)state;
    static float values[COUNT], old[COUNT], residual[COUNT], decoded[COUNT];
    static uint8_t wire[WIRE_BYTES_MAX];
    FOR_EACH_CODEC(spec, true)
    {
        make_values(values, COUNT, GAUSSIAN, 5);
        make_values(old, COUNT, GAUSSIAN, 6);
        values[3] = INFINITY;
        const tt_codec_source source = {.values = values,
                                        .dtype = TT_F32,
                                        .factor = 1.0f,
                                        .count = COUNT,
                                        .residual = old,
                                        .residual_out = residual,
                                        .draw = {.seed = 1}};
        assert_int_equal(tt_codec_encode(&spec, &source, wire), 1);
        const size_t bytes = tt_codec_wire_bytes(&spec, COUNT);
        assert_int_equal(tt_codec_check(&spec, wire, bytes, COUNT), TT_OK);
        decode_f32(&spec, wire, decoded, COUNT);
        assert_true(!isfinite(decoded[3]) && residual[3] == old[3]);
        const bool is_cast = (tt_codec_traits(&spec) & TT_CODEC_CAST) != 0;
        assert_true(isnan(decoded[4]) == !is_cast);
        for (size_t i = spec.block; i < COUNT; i++) {
            assert_true(isfinite(decoded[i]) && isfinite(residual[i]));
        }
        memset(decoded, 0, sizeof(decoded));
        tt_codec_decode_add(&spec, wire, decoded, COUNT);
        assert_true(!isfinite(decoded[3]));
    }
}

static void test_a_sum_that_overflows_makes_the_block_nan(void **state)
{
    (void)state;
    static float values[COUNT], decoded[COUNT];
    static uint8_t wire[WIRE_BYTES_MAX];
    for (size_t i = 0; i < COUNT; i++) {
        values[i] = i % 3 == 0 ? -3e38f : 3e38f;
    }
    FOR_EACH_CODEC(spec, false)
    {
        const tt_codec_source source = {
            .values = values, .dtype = TT_F32, .factor = 1.0f, .count = COUNT};
        (void)tt_codec_encode(&spec, &source, wire);
        const size_t bytes = tt_codec_wire_bytes(&spec, COUNT);
        assert_int_equal(tt_codec_check(&spec, wire, bytes, COUNT), TT_OK);
        decode_f32(&spec, wire, decoded, COUNT);
        assert_true(isnan(decoded[0]) || decoded[0] < 0.0f);
    }
}

static void test_zeros_and_nothing(void **state)
{
    (void)state;
    static const float zeros[COUNT];
    static float decoded[COUNT], residual[COUNT];
    static uint8_t wire[WIRE_BYTES_MAX];
    FOR_EACH_CODEC(spec, true)
    {
        const tt_codec_source source = {.values = zeros,
                                        .dtype = TT_F32,
                                        .factor = 1.0f,
                                        .count = COUNT,
                                        .residual_out = residual};
        memset(wire, 0xff, sizeof(wire));
        assert_int_equal(tt_codec_encode(&spec, &source, wire), 0);
        decode_f32(&spec, wire, decoded, COUNT);
        for (size_t i = 0; i < COUNT; i++) {
            assert_true(decoded[i] == 0.0f && residual[i] == 0.0f);
        }
        assert_int_equal(tt_codec_wire_bytes(&spec, 0), 0);
        assert_int_equal(tt_codec_check(&spec, wire, 0, 0), TT_OK);
        const tt_codec_source nothing = {.values = zeros, .dtype = TT_F32, .factor = 1.0f};
        assert_int_equal(tt_codec_encode(&spec, &nothing, wire), 0);
        decode_f32(&spec, wire, decoded, 0);
    }
}

/* Every length writes just its bytes, and one element more or less is refused. */
static void test_lengths(void **state)
{
    (void)state;
    static float values[COUNT];
    static uint8_t wire[WIRE_BYTES_MAX];
    make_values(values, COUNT, GAUSSIAN, 7);
    FOR_EACH_CODEC(spec, false)
    {
        const size_t most = spec.block + 40 < COUNT ? spec.block + 40 : COUNT;
        for (size_t count = 1; count < most; count++) {
            const tt_codec_source source = {
                .values = values, .dtype = TT_F32, .factor = 1.0f, .count = count};
            const size_t bytes = tt_codec_wire_bytes(&spec, count);
            memset(wire + bytes, 0xa5, 8);
            (void)tt_codec_encode(&spec, &source, wire);
            for (size_t i = 0; i < 8; i++) {
                assert_int_equal(wire[bytes + i], 0xa5);
            }
            assert_int_equal(tt_codec_check(&spec, wire, bytes, count), TT_OK);
            assert_int_equal(tt_codec_check(&spec, wire, bytes - 1, count), TT_ERR_BAD_WIRE);
            assert_int_equal(tt_codec_check(&spec, wire, bytes + 1, count), TT_ERR_BAD_WIRE);
        }
    }
}

static void test_bad_scales_are_refused(void **state)
{
    (void)state;
    static const float bad[] = {INFINITY, -INFINITY, -1.0f};
    static float values[COUNT];
    static uint8_t wire[WIRE_BYTES_MAX];
    make_values(values, COUNT, GAUSSIAN, 8);
    FOR_EACH_CODEC(spec, false)
    {
        const tt_codec_source source = {
            .values = values, .dtype = TT_F32, .factor = 1.0f, .count = COUNT};
        const size_t bytes = tt_codec_wire_bytes(&spec, COUNT);
        for (size_t i = 0; i < 3 && spec.codec->head_bytes > 0; i++) {
            (void)tt_codec_encode(&spec, &source, wire);
            tt_block_set_head(wire + tt_codec_wire_bytes(&spec, spec.block), 0, bad[i]);
            assert_int_equal(tt_codec_check(&spec, wire, bytes, COUNT), TT_ERR_BAD_WIRE);
        }
    }
}

/* 16-bit tensors are widened first; a factor is applied before, or after. */
static void test_other_types_and_factors(void **state)
{
    (void)state;
    static float values[COUNT], wide[COUNT], expected[COUNT];
    static uint16_t halves[COUNT], decoded[COUNT];
    static uint8_t wire[WIRE_BYTES_MAX];
    make_values(values, COUNT, GAUSSIAN, 9);
    for (size_t i = 0; i < COUNT; i++) {
        halves[i] = tt_bf16_from_f32(values[i]);
        wide[i] = tt_bf16_to_f32(halves[i]) * 0.25f;
    }
    FOR_EACH_CODEC(spec, false)
    {
        const tt_codec_source source = {.values = halves,
                                        .dtype = TT_BF16,
                                        .factor = 0.25f,
                                        .count = COUNT,
                                        .draw = {.seed = 3, .tensor = 4}};
        (void)tt_codec_encode(&spec, &source, wire);
        pass(&spec, wide, COUNT, 0, expected);
        tt_codec_decode(&spec, wire,
                        &(tt_codec_target){
                            .values = decoded, .dtype = TT_BF16, .factor = 4.0f, .count = COUNT});
        for (size_t i = 0; i < COUNT; i++) {
            assert_int_equal(decoded[i], tt_bf16_from_f32(expected[i] * 4.0f));
        }
    }
}

/* The same bytes on every machine and in every version: a change here is a change of the wire. */
static void test_golden_bytes(void **state)
{
    static const struct {
        const char *text;
        uint64_t hash;
    } golden[] = {
        {"none", UINT64_C(0x3690623a1751c5f2)},        {"fp16", UINT64_C(0x5bbaba0583a7520b)},
        {"bf16", UINT64_C(0x27ba885543028d97)},        {"e4m3", UINT64_C(0xe1ed5fffd928dca3)},
        {"e5m2", UINT64_C(0x94a5b387cac76139)},        {"int8", UINT64_C(0xaa868361818e48cb)},
        {"int4", UINT64_C(0xd224a4318282d9fb)},        {"qsgd", UINT64_C(0x27afa98f3806a0c5)},
        {"qsgd:bits=4", UINT64_C(0x0fe4ff402b534056)}, {"natural", UINT64_C(0x48bb7b549c1a7661)},
        {"sign", UINT64_C(0x1adaddf7ad6f46fb)},        {"onebit", UINT64_C(0xbef4ea7a8dcdbaa5)},
        {"int8sum", UINT64_C(0x373e1ca87dd28154)},     {"terngrad", UINT64_C(0xa3b815b4216ba4b8)},
        {"majority", UINT64_C(0x8f09c1c708ced93b)},
    };
    (void)state;
    static float values[COUNT];
    static uint8_t wire[WIRE_BYTES_MAX];
    for (size_t i = 0; i < COUNT; i++) { /* no library function: those differ between systems */
        values[i] = (float)((int32_t)(i * 7919 % 2003) - 1001) / 64.0f;
    }
    for (size_t i = 0; i < sizeof(golden) / sizeof(golden[0]); i++) {
        const tt_codec_spec spec = spec_of(golden[i].text);
        const tt_codec_source source = {.values = values,
                                        .dtype = TT_F32,
                                        .factor = 1.0f,
                                        .count = COUNT,
                                        .draw = {.seed = 1, .tensor = 2, .occurrence = 3}};
        (void)tt_codec_encode(&spec, &source, wire);
        const uint64_t hash = tt_hash64(wire, tt_codec_wire_bytes(&spec, COUNT), 0);
        if (hash != golden[i].hash) {
            fail_msg("%s: UINT64_C(0x%016llx)", golden[i].text, (unsigned long long)hash);
        }
    }
}

static void expect_wrong(const char *text, const char *words)
{
    tt_codec_spec spec;
    tt_text why;
    assert_int_equal(tt_codec_parse(text, &spec, &why), TT_ERR_BAD_ARGUMENT);
    assert_string_equal(why.bytes, words);
}

static void test_texts(void **state)
{
    (void)state;
    char text[TT_CODEC_TEXT_BYTES];
    for (size_t i = 0; tt_codec_at(i) != NULL; i++) {
        assert_ptr_equal(tt_codec_find(tt_codec_at(i)->name), tt_codec_at(i)); /* names differ */
        assert_true(strlen(tt_codec_at(i)->summary) > 0);
    }
    const tt_codec_spec int8 = spec_of("int8:block=1024,ef=off");
    assert_int_equal(int8.block, 1024);
    assert_false(int8.has_feedback);
    tt_codec_print(&int8, text);
    assert_string_equal(text, "int8:block=1024,ef=off");
    const tt_codec_spec sign = spec_of("sign");
    assert_true(sign.has_feedback);
    assert_false(spec_of("bf16").has_feedback);
    assert_false(spec_of("qsgd").has_feedback);
    assert_true(spec_of("int8sum").has_feedback);
    assert_false(spec_of("terngrad").has_feedback);
    assert_false(spec_of("majority").has_feedback);
    const tt_codec_spec qsgd = spec_of("qsgd:bits=4,ef=on");
    tt_codec_print(&qsgd, text);
    assert_string_equal(text, "qsgd:block=512,bits=4,ef=on");
    const tt_codec_spec tracked = spec_of("int4:ef=21,where=all");
    assert_true(tracked.has_feedback && tracked.is_tracked);
    tt_codec_print(&tracked, text);
    assert_string_equal(text, "int4:block=128,ef=21,where=all");
    assert_false(spec_of("int4:ef=21,ef=on").is_tracked); /* the last one counts */
    expect_wrong("int9", "there is no codec \"int9\"; did you mean 'int8'?");
    expect_wrong("zstandard", "there is no codec \"zstandard\"; there are none, fp16, bf16, e4m3, "
                              "e5m2, int8, int4, qsgd, natural, sign, onebit, int8sum, "
                              "terngrad, majority");
    expect_wrong("int8:block=500", "codec int8: block=500 is not a power of two from 16 to 4096");
    expect_wrong("int8:block=", "codec int8: block= is not a power of two from 16 to 4096");
    expect_wrong("qsgd:bits=5", "codec qsgd: bits=5 is neither 4 nor 8");
    expect_wrong("int8:bits=8", "codec int8 has no option \"bits\"; it has block, ef, where");
    expect_wrong("int8:blok=64", "codec int8 has no option \"blok\"; did you mean 'block'?");
    expect_wrong("int8:where=here", "codec int8: where=here is neither across (between hosts) nor "
                                    "all (between ranks)");
    expect_wrong("bf16:block=64", "codec bf16 has no option \"block\"; it has ef, where");
    expect_wrong("int8:ef=maybe", "codec int8: ef=maybe is none of on, off and 21");
    expect_wrong("none:ef=21", "codec none loses nothing: leave out ef=21");
    expect_wrong("majority:ef=21",
                 "codec majority would let its residual grow without bound: leave out ef=21");
    expect_wrong("int8sum:ef=21",
                 "codec int8sum has no owners to keep the estimates of ef=21: use int8, or ef=on");
    expect_wrong("none:ef=on", "codec none loses nothing: leave out ef=on");
    expect_wrong("terngrad:ef=on",
                 "codec terngrad would let its residual grow without bound: leave out ef=on");
    expect_wrong("int8:", "codec int8: options are KEY=VALUE, with a comma between two");
    expect_wrong("int8:block", "codec int8: options are KEY=VALUE, with a comma between two");
    expect_wrong("", "there is no codec \"\"; there are none, fp16, bf16, e4m3, e5m2, int8, int4, "
                     "qsgd, natural, sign, onebit, int8sum, terngrad, majority");
}

/* Every spec has a number of its own; other numbers, which a peer may send, are refused. */
static void test_specs_as_numbers(void **state)
{
    (void)state;
    char text[TT_CODEC_TEXT_BYTES], other[TT_CODEC_TEXT_BYTES];
    tt_codec_spec spec;
    uint32_t good = 0;
    for (uint32_t number = 0; number < UINT32_C(1) << 20; number++) {
        if (tt_codec_unpack(number, &spec)) {
            good++;
            assert_int_equal(tt_codec_pack(&spec), number);
            tt_codec_print(&spec, text);
            const tt_codec_spec same = spec_of(text);
            tt_codec_print(&same, other);
            assert_string_equal(text, other);
        }
    }
    assert_true(good > 100);
    const tt_codec_spec one = spec_of("qsgd:bits=4,ef=on,where=all");
    assert_true(tt_codec_unpack(tt_codec_pack(&one), &spec));
    tt_codec_print(&spec, text);
    assert_string_equal(text, "qsgd:block=512,bits=4,ef=on,where=all");
    assert_false(tt_codec_unpack(0, &spec));
    assert_false(tt_codec_unpack(UINT32_MAX, &spec));
}

/* What is not coded is read and written as if it were, but for the coding. */
static void test_values_pass_uncoded(void **state)
{
    (void)state;
    float values[COUNT], residual[COUNT], loaded[COUNT];
    uint16_t halves[COUNT], stored[COUNT];
    make_values(values, COUNT, GAUSSIAN, 3);
    make_values(residual, COUNT, GAUSSIAN, 4);
    for (size_t i = 0; i < COUNT; i++) {
        halves[i] = tt_bf16_from_f32(values[i]);
    }
    tt_codec_source source = {
        .values = halves, .dtype = TT_BF16, .factor = 0.3f, .count = COUNT, .residual = residual};
    const tt_codec_target target = {
        .values = stored, .dtype = TT_F16, .factor = 0.5f, .count = COUNT};
    tt_codec_load(&source, loaded);
    tt_codec_store(values, &target);
    for (size_t i = 0; i < COUNT; i++) {
        const float scaled = tt_bf16_to_f32(halves[i]) * 0.3f;
        assert_true(loaded[i] == scaled + residual[i]);
        assert_int_equal(stored[i], tt_f16_from_f32(values[i] * 0.5f));
    }
    source.residual = NULL;
    tt_codec_load(&source, loaded);
    assert_true(loaded[7] == tt_bf16_to_f32(halves[7]) * 0.3f);
}

/* EF21 (Richtarik et al. 2021): what the sender and the owner know of a constant vector gets closer
 * with each message, for every codec; one that is not finite changes nothing. */
static void test_estimates_converge(void **state)
{
    (void)state;
    FOR_EACH_CODEC(spec, true)
    {
        enum { MESSAGES = 400 };
        float values[COUNT], known[COUNT] = {0}, copy[COUNT] = {0}, lost[COUNT] = {0};
        uint8_t wire[8 * COUNT];
        double before = 0.0, after = 0.0;
        if (!spec.has_feedback) {
            continue;
        }
        make_values(values, COUNT, GAUSSIAN, 5);
        for (uint32_t n = 0; n < MESSAGES; n++) {
            const float first = values[0];
            values[0] = n == MESSAGES / 2 ? NAN : first;
            const tt_codec_source source = {.values = values,
                                            .dtype = TT_F32,
                                            .factor = 1.0f,
                                            .count = COUNT,
                                            .residual = known,
                                            .draw = {.seed = 1, .occurrence = n}};
            (void)tt_codec_encode(&spec, &source, wire);
            tt_codec_decode_known(&spec, wire, known, NULL, COUNT);
            tt_codec_decode_known(&spec, wire, copy, lost, COUNT);
            assert_memory_equal(known, copy, sizeof(known));
            assert_true(isnan(lost[0]) == (n >= MESSAGES / 2));
            values[0] = first;
        }
        for (size_t i = 0; i < COUNT; i++) {
            const double error = (double)values[i] + (double)known[i];
            assert_true(isfinite(known[i]));
            before += (double)values[i] * (double)values[i];
            after += error * error;
        }
        if (!(after < 1e-4 * before)) {
            fail_msg("%s: %g of %g is left", tt_codec_name(&spec), after, before);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_zeros_and_nothing),
        cmocka_unit_test(test_an_error_is_smaller_than_its_block),
        cmocka_unit_test(test_an_element_is_off_by_at_most_a_step),
        cmocka_unit_test(test_random_rounding_is_right_on_average),
        cmocka_unit_test(test_a_tensor_may_be_cut_at_any_block),
        cmocka_unit_test(test_error_feedback_loses_nothing),
        cmocka_unit_test(test_a_nonfinite_value_affects_its_block_only),
        cmocka_unit_test(test_a_sum_that_overflows_makes_the_block_nan),
        cmocka_unit_test(test_bad_scales_are_refused),
        cmocka_unit_test(test_other_types_and_factors),
        cmocka_unit_test(test_specs_as_numbers),
        cmocka_unit_test(test_values_pass_uncoded),
        cmocka_unit_test(test_estimates_converge),
        cmocka_unit_test(test_golden_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
