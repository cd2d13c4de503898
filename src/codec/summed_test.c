/* SPDX-License-Identifier: Apache-2.0
 *
 * summed_test.c - what codec.h promises of codecs whose levels are added as they are, over every
 * one that is registered, with 1 to 127 ranks. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/philox.h"
#include "codec/registry.h"
#include "kernel/half.h"
#include "kernel/hash64.h"
#include "support/codec_spec.h"

enum { COUNT = 1000, BLOCKS_MAX = COUNT / TT_CODEC_BLOCK_MIN + 1, RANKS = 5, REPEATS = 4096 };

static const uint32_t rank_counts[] = {1, 2, 3, 8, 63, 64, 127};

/* The index-th codec whose levels can be added; false: no more. */
static bool spec_at(size_t index, tt_codec_spec *spec_out)
{
    for (size_t i = 0; tt_codec_at(i) != NULL; i++) {
        if ((tt_codec_at(i)->traits & TT_CODEC_SUMMABLE) != 0 && index-- == 0) {
            *spec_out = spec_of(tt_codec_at(i)->name);
            return true;
        }
    }
    return false;
}

/* Ranks differ in their largest magnitudes. */
static void make_values(float *values, size_t count, uint32_t rank, uint64_t seed)
{
    tt_random random;
    tt_random_init(&random, seed, rank);
    for (size_t i = 0; i < count; i++) {
        values[i] = (float)(2.0 * tt_random_real(&random) - 1.0) * (float)(1 + rank % 7);
    }
}

/* One rank's values. */
static tt_codec_source source_of(const float *values, size_t count, uint32_t rank,
                                 uint32_t occurrence)
{
    return (tt_codec_source){.values = values,
                             .dtype = TT_F32,
                             .factor = 1.0f,
                             .count = count,
                             .draw = {.seed = 100 + rank, .tensor = 4, .occurrence = occurrence}};
}

/* What a program does over ranks: the largest scales, and the sums of levels. */
typedef struct sums {
    const tt_codec_spec *spec;
    uint32_t ranks;
    size_t count;
    float scales[BLOCKS_MAX];
    int32_t wide[COUNT]; /* no byte overflows, or it is seen */
    uint8_t bytes[COUNT];
} sums;

static tt_codec_shared shared_of(const sums *all)
{
    return (tt_codec_shared){.scales = all->scales, .ranks = all->ranks};
}

static void sums_begin(sums *all, const tt_codec_spec *spec, uint32_t ranks, size_t count)
{
    memset(all, 0, sizeof(*all));
    all->spec = spec;
    all->ranks = ranks;
    all->count = count;
}

static void sums_scale(sums *all, const tt_codec_source *source)
{
    float scales[BLOCKS_MAX];
    tt_codec_scales(all->spec, source, scales);
    for (size_t b = 0; b < tt_codec_block_count(all->spec, source->count); b++) {
        const bool is_nan = isnan(scales[b]) || isnan(all->scales[b]);
        all->scales[b] = is_nan ? NAN : fmaxf(scales[b], all->scales[b]);
    }
}

static uint64_t sums_add(sums *all, const tt_codec_source *source)
{
    uint8_t levels[COUNT];
    const tt_codec_shared shared = shared_of(all);
    const uint64_t uncoded = tt_codec_levels(all->spec, source, &shared, levels);
    for (size_t i = 0; i < source->count; i++) {
        all->wide[i] += (int8_t)levels[i];
        assert_in_range(all->wide[i] + 127, 0, 254);
        all->bytes[i] = (uint8_t)(int8_t)all->wide[i];
    }
    return uncoded;
}

static void sums_decode(const sums *all, float *values)
{
    const tt_codec_shared shared = shared_of(all);
    const tt_codec_target target = {
        .values = values, .dtype = TT_F32, .factor = 1.0f, .count = all->count};
    tt_codec_decode_sums(all->spec, all->bytes, &shared, &target);
}

/* ---- the sum of many ranks ---- */

/* How far one rank's element may be off, in units of the shared scale. */
static double bound_of(const tt_codec_spec *spec, uint32_t ranks)
{
    const bool is_divided = spec->codec->summed->is_divided;
    return is_divided ? 0.5 / floor(127.0 / ranks) : 1.0;
}

static void check_sums(const tt_codec_spec *spec, uint32_t ranks)
{
    static float values[COUNT], decoded[COUNT];
    static double exact[COUNT];
    static sums all;
    sums_begin(&all, spec, ranks, COUNT);
    memset(exact, 0, sizeof(exact));
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t r = 0; r < ranks; r++) {
            make_values(values, COUNT, r, 1);
            const tt_codec_source source = source_of(values, COUNT, r, 0);
            if (pass == 0) {
                sums_scale(&all, &source);
                continue;
            }
            assert_int_equal(sums_add(&all, &source), 0);
            for (size_t i = 0; i < COUNT; i++) {
                exact[i] += (double)values[i];
            }
        }
    }
    sums_decode(&all, decoded);
    for (size_t i = 0; i < COUNT && !spec->codec->summed->is_vote; i++) {
        const double most = bound_of(spec, ranks) * ranks * (double)all.scales[i / spec->block];
        assert_true(fabs((double)decoded[i] - exact[i]) <= most * 1.00001);
    }
}

static void test_a_sum_is_off_by_at_most_a_step_of_each_rank(void **state)
{
    (void)state;
    tt_codec_spec spec;
    for (size_t c = 0; spec_at(c, &spec); c++) {
        for (size_t r = 0; r < TT_ARRAY_COUNT(rank_counts); r++) {
            check_sums(&spec, rank_counts[r]);
        }
    }
}

/* Equal vectors: their mean is what one rank would have had, up to a step. */
static void test_the_largest_levels_of_all_ranks_fit_a_byte(void **state)
{
    (void)state;
    tt_codec_spec spec;
    static float values[COUNT], decoded[COUNT];
    static sums all;
    for (size_t i = 0; i < COUNT; i++) {
        values[i] = i % 2 == 0 ? 3.25f : -3.25f;
    }
    for (size_t c = 0; spec_at(c, &spec); c++) {
        for (size_t k = 0; k < TT_ARRAY_COUNT(rank_counts); k++) {
            const uint32_t ranks = rank_counts[k];
            const tt_codec_source source = source_of(values, COUNT, 0, 0);
            sums_begin(&all, &spec, ranks, COUNT);
            sums_scale(&all, &source);
            for (uint32_t r = 0; r < ranks; r++) {
                assert_int_equal(sums_add(&all, &source), 0);
            }
            sums_decode(&all, decoded);
            for (size_t i = 0; i < COUNT; i++) {
                assert_true(fabsf(decoded[i] - (float)ranks * values[i]) <= 1e-5f * (float)ranks);
            }
        }
    }
}

static void test_a_vote_has_the_sign_of_most_ranks(void **state)
{
    (void)state;
    const tt_codec_spec spec = spec_of("majority:block=16");
    static const float votes[3][4] = {
        {1.0f, -2.0f, 0.0f, 5.0f}, {-1.0f, -2.0f, 0.0f, 0.0f}, {0.0f, 6.0f, 0.0f, 0.0f}};
    float decoded[4];
    static sums all;
    sums_begin(&all, &spec, 3, 4);
    for (uint32_t r = 0; r < 3; r++) {
        const tt_codec_source source = source_of(votes[r], 4, r, 0);
        sums_scale(&all, &source);
    }
    for (uint32_t r = 0; r < 3; r++) {
        const tt_codec_source source = source_of(votes[r], 4, r, 0);
        assert_int_equal(sums_add(&all, &source), 0);
    }
    sums_decode(&all, decoded);
    assert_true(all.scales[0] == 2.0f);                     /* the means are 2, 0.75 and 1.5 */
    assert_true(decoded[0] == 0.0f && decoded[2] == 0.0f);  /* a tie, and no vote */
    assert_true(decoded[1] == -6.0f && decoded[3] == 6.0f); /* for each of three ranks */
}

/* ---- random levels ---- */

static void test_random_levels_are_right_on_average(void **state)
{
    (void)state;
    enum { FEW = 64 };
    static float values[RANKS][FEW], decoded[FEW];
    static double total[FEW], squares[FEW];
    static sums all;
    tt_codec_spec spec = spec_of("terngrad:block=32");
    memset(total, 0, sizeof(total));
    memset(squares, 0, sizeof(squares));
    for (uint32_t repeat = 0; repeat < REPEATS; repeat++) {
        sums_begin(&all, &spec, RANKS, FEW);
        for (uint32_t r = 0; r < 2 * RANKS; r++) {
            float *own = values[r % RANKS];
            make_values(own, FEW, r % RANKS, 3);
            const tt_codec_source source = source_of(own, FEW, r % RANKS, repeat);
            if (r < RANKS) {
                sums_scale(&all, &source);
            } else {
                assert_int_equal(sums_add(&all, &source), 0);
            }
        }
        sums_decode(&all, decoded);
        for (size_t i = 0; i < FEW; i++) {
            double off = (double)decoded[i];
            for (uint32_t r = 0; r < RANKS; r++) {
                off -= (double)values[r][i];
            }
            total[i] += off;
            squares[i] += off * off;
        }
    }
    for (size_t i = 0; i < FEW; i++) {
        assert_true(fabs(total[i]) <= 5.0 * sqrt(squares[i]) + 1e-6 * REPEATS);
    }
}

/* ---- residuals ---- */

/* Sent by all ranks and left on all ranks are all gradients so far; and nothing grows. */
static void telescope(const tt_codec_spec *spec)
{
    enum { STEPS = 50 };
    static float values[RANKS][COUNT], residual[2][RANKS][COUNT], decoded[COUNT];
    static double given[COUNT], gotten[COUNT], magnitude[COUNT];
    static sums all;
    memset(residual, 0, sizeof(residual));
    memset(given, 0, sizeof(given));
    memset(gotten, 0, sizeof(gotten));
    memset(magnitude, 0, sizeof(magnitude));
    for (uint32_t step = 0; step < STEPS; step++) {
        const uint32_t now = step % 2;
        sums_begin(&all, spec, RANKS, COUNT);
        for (uint32_t r = 0; r < 2 * RANKS; r++) {
            const uint32_t rank = r % RANKS;
            make_values(values[rank], COUNT, rank, step);
            tt_codec_source source = source_of(values[rank], COUNT, rank, step);
            source.residual = residual[now][rank];
            source.residual_out = residual[1 - now][rank];
            if (r < RANKS) {
                sums_scale(&all, &source);
                continue;
            }
            assert_int_equal(sums_add(&all, &source), 0);
            for (size_t i = 0; i < COUNT; i++) {
                const double step_size = (double)all.scales[i / spec->block] / floor(127.0 / RANKS);
                assert_true(fabs((double)source.residual_out[i]) <= step_size * 0.50001);
                given[i] += (double)values[rank][i];
                magnitude[i] += fabs((double)values[rank][i]);
            }
        }
        sums_decode(&all, decoded);
        for (size_t i = 0; i < COUNT; i++) {
            gotten[i] += (double)decoded[i];
        }
    }
    for (size_t i = 0; i < COUNT; i++) {
        for (uint32_t r = 0; r < RANKS; r++) {
            gotten[i] += (double)residual[STEPS % 2][r][i];
        }
        assert_true(fabs(gotten[i] - given[i]) <= 1e-6 * magnitude[i]);
    }
}

static void test_error_feedback_loses_nothing(void **state)
{
    (void)state;
    tt_codec_spec spec;
    for (size_t c = 0; spec_at(c, &spec); c++) {
        if ((tt_codec_traits(&spec) & TT_CODEC_CONTRACTION) != 0) {
            telescope(&spec);
        }
    }
}

/* A rank whose values are far below the others' keeps them all, and loses none. */
static void test_an_error_is_at_most_its_block(void **state)
{
    (void)state;
    tt_codec_spec spec;
    static float values[COUNT], residual[COUNT];
    static uint8_t levels[COUNT];
    for (size_t c = 0; spec_at(c, &spec); c++) {
        if ((tt_codec_traits(&spec) & TT_CODEC_CONTRACTION) == 0) {
            continue;
        }
        make_values(values, COUNT, 0, 3);
        for (int exponent = 0; exponent <= 20; exponent++) {
            float scales[BLOCKS_MAX];
            for (size_t b = 0; b < BLOCKS_MAX; b++) {
                scales[b] = ldexpf(1.0f, exponent);
            }
            const tt_codec_shared shared = {.scales = scales, .ranks = 16};
            tt_codec_source source = source_of(values, COUNT, 0, 0);
            source.residual_out = residual;
            assert_int_equal(tt_codec_levels(&spec, &source, &shared, levels), 0);
            for (size_t i = 0; i < COUNT; i++) {
                assert_true(fabsf(residual[i]) <= fabsf(values[i]));
            }
        }
    }
}

/* ---- values that are not finite, zeros, nothing ---- */

static void check_nonfinite(const tt_codec_spec *spec, float bad)
{
    static float values[COUNT], old[COUNT], residual[COUNT], decoded[COUNT];
    static sums all;
    make_values(old, COUNT, 0, 5);
    sums_begin(&all, spec, 4, COUNT); /* each rank is added twice */
    for (uint32_t r = 0; r < 4; r++) {
        make_values(values, COUNT, r % 2, 6);
        values[3] = r % 2 == 0 ? bad : values[3];
        tt_codec_source source = source_of(values, COUNT, r % 2, 0);
        source.residual = old;
        source.residual_out = residual;
        if (r < 2) {
            sums_scale(&all, &source);
            continue;
        }
        assert_int_equal(sums_add(&all, &source), spec->block); /* on both ranks */
        assert_memory_equal(residual, old, spec->block * sizeof(float));
        for (size_t i = spec->block; i < COUNT; i++) {
            assert_true(isfinite(residual[i]) && residual[i] != old[i]);
        }
        source.residual = NULL;
        assert_int_equal(sums_add(&all, &source), spec->block);
        assert_true(residual[0] == 0.0f && residual[3] == 0.0f);
    }
    sums_decode(&all, decoded);
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(isnan(decoded[i]) == (i < spec->block));
    }
}

static void test_a_nonfinite_value_affects_its_block_on_all_ranks(void **state)
{
    (void)state;
    tt_codec_spec spec;
    for (size_t c = 0; spec_at(c, &spec); c++) {
        check_nonfinite(&spec, NAN);
        check_nonfinite(&spec, INFINITY);
        check_nonfinite(&spec, -INFINITY);
    }
}

static void test_zeros_and_nothing(void **state)
{
    (void)state;
    tt_codec_spec spec;
    static const float zeros[COUNT];
    static float tiny[COUNT], decoded[COUNT], residual[COUNT];
    static sums all;
    for (size_t i = 0; i < COUNT; i++) {
        tiny[i] = 0x1p-120f;
    }
    for (size_t c = 0; spec_at(c, &spec); c++) {
        for (int i = 0; i < 2; i++) {
            tt_codec_source source = source_of(i == 0 ? zeros : tiny, COUNT, 0, 0);
            source.residual_out = residual;
            sums_begin(&all, &spec, 2, COUNT);
            sums_scale(&all, &source);
            assert_int_equal(sums_add(&all, &source), 0);
            sums_decode(&all, decoded);
            for (size_t k = 0; k < COUNT; k++) {
                assert_true(decoded[k] == 0.0f && residual[k] == ((const float *)source.values)[k]);
            }
        }
        sums_begin(&all, &spec, 2, 0);
        const tt_codec_source nothing = source_of(zeros, 0, 0, 0);
        assert_int_equal(tt_codec_block_count(&spec, 0), 0);
        sums_scale(&all, &nothing);
        assert_int_equal(sums_add(&all, &nothing), 0);
        sums_decode(&all, decoded);
    }
}

/* Scales of a faulty peer: nothing traps, and levels beyond the range are not sent. */
static void test_any_scale_and_any_sum_is_decoded(void **state)
{
    (void)state;
    static const float strange[] = {0.0f,     -0.0f, -1.0f,     1e-45f,  0x1p-100f, 1e-3f,
                                    INFINITY, NAN,   -INFINITY, 3.4e38f, -3.4e38f};
    tt_codec_spec spec;
    static float values[COUNT], decoded[COUNT];
    static uint8_t levels[COUNT];
    for (size_t c = 0; spec_at(c, &spec); c++) {
        make_values(values, COUNT, 0, 9);
        for (size_t s = 0; s < TT_ARRAY_COUNT(strange); s++) {
            float scales[BLOCKS_MAX];
            for (size_t b = 0; b < BLOCKS_MAX; b++) {
                scales[b] = strange[s];
            }
            const tt_codec_shared shared = {.scales = scales, .ranks = 3};
            const tt_codec_source source = source_of(values, COUNT, 0, 0);
            const uint64_t uncoded = tt_codec_levels(&spec, &source, &shared, levels);
            assert_int_equal(uncoded, strange[s] == 3.4e38f ? 0 : COUNT);
            for (size_t i = 0; i < COUNT; i++) {
                assert_true((int8_t)levels[i] >= -42 && (int8_t)levels[i] <= 42);
                levels[i] = (uint8_t)i;
            }
            const tt_codec_target target = {
                .values = decoded, .dtype = TT_F16, .factor = 1e30f, .count = COUNT};
            tt_codec_decode_sums(&spec, levels, &shared, &target);
        }
    }
}

/* ---- ranges, types, factors, bits ---- */

static void test_a_tensor_may_be_cut_at_any_block(void **state)
{
    (void)state;
    tt_codec_spec spec;
    static float values[COUNT], residual[2][COUNT], decoded[2][COUNT];
    static uint8_t levels[2][COUNT];
    for (size_t c = 0; spec_at(c, &spec); c++) {
        float scales[2][BLOCKS_MAX];
        spec.block = 64;
        make_values(values, COUNT, 0, 4);
        for (size_t way = 0; way < 2; way++) {
            const size_t piece = way == 0 ? COUNT : 3 * (size_t)spec.block;
            for (size_t first = 0; first < COUNT; first += piece) {
                const size_t block = first / spec.block;
                tt_codec_source source = source_of(values + first, COUNT, 0, 0);
                source.first = first;
                source.count = tt_min_u64(piece, COUNT - first);
                source.residual_out = residual[way] + first;
                const tt_codec_shared shared = {.scales = scales[way] + block, .ranks = 3};
                const tt_codec_target target = {.values = decoded[way] + first,
                                                .dtype = TT_F32,
                                                .factor = 1.0f,
                                                .count = source.count};
                tt_codec_scales(&spec, &source, scales[way] + block);
                (void)tt_codec_levels(&spec, &source, &shared, levels[way] + first);
                tt_codec_decode_sums(&spec, levels[way] + first, &shared, &target);
            }
        }
        assert_memory_equal(levels[0], levels[1], COUNT);
        assert_memory_equal(residual[0], residual[1], sizeof(residual[0]));
        assert_memory_equal(decoded[0], decoded[1], sizeof(decoded[0]));
    }
}

static void test_other_types_and_factors(void **state)
{
    (void)state;
    tt_codec_spec spec;
    static float wide[COUNT], values[COUNT], decoded[COUNT];
    static uint16_t halves[COUNT], stored[COUNT];
    static uint8_t levels[2][COUNT];
    make_values(values, COUNT, 0, 9);
    for (size_t i = 0; i < COUNT; i++) {
        halves[i] = tt_bf16_from_f32(values[i]);
        wide[i] = tt_bf16_to_f32(halves[i]) * 0.25f;
    }
    for (size_t c = 0; spec_at(c, &spec); c++) {
        float scales[2][BLOCKS_MAX];
        tt_codec_source source = source_of(wide, COUNT, 0, 0);
        tt_codec_scales(&spec, &source, scales[0]);
        const tt_codec_shared shared = {.scales = scales[0], .ranks = 2};
        (void)tt_codec_levels(&spec, &source, &shared, levels[0]);
        source.values = halves;
        source.dtype = TT_BF16;
        source.factor = 0.25f;
        tt_codec_scales(&spec, &source, scales[1]);
        (void)tt_codec_levels(&spec, &source, &shared, levels[1]);
        assert_memory_equal(scales[0], scales[1],
                            tt_codec_block_count(&spec, COUNT) * sizeof(float));
        assert_memory_equal(levels[0], levels[1], COUNT);
        const tt_codec_target half = {
            .values = stored, .dtype = TT_F16, .factor = 0.5f, .count = COUNT};
        const tt_codec_target whole = {
            .values = decoded, .dtype = TT_F32, .factor = 0.5f, .count = COUNT};
        tt_codec_decode_sums(&spec, levels[0], &shared, &half);
        tt_codec_decode_sums(&spec, levels[0], &shared, &whole);
        for (size_t i = 0; i < COUNT; i++) {
            assert_int_equal(stored[i], tt_f16_from_f32(decoded[i]));
        }
    }
}

/* The same bytes on every machine and in every version: a change here is a change of the wire. */
static void test_golden_levels(void **state)
{
    static const struct {
        const char *text;
        uint64_t hash;
    } golden[] = {{"int8sum", UINT64_C(0x38b4cedb2b3c6225)},
                  {"terngrad", UINT64_C(0xeaa4fb2b06e3f264)},
                  {"majority", UINT64_C(0x0052be7178010127)}};
    (void)state;
    static float values[COUNT];
    static uint8_t bytes[COUNT + 64];
    for (size_t i = 0; i < COUNT; i++) { /* no library function: those differ between systems */
        values[i] = (float)((int32_t)(i * 7919 % 2003) - 1001) / 64.0f;
    }
    for (size_t i = 0; i < TT_ARRAY_COUNT(golden); i++) {
        const tt_codec_spec spec = spec_of(golden[i].text);
        float scales[BLOCKS_MAX];
        const tt_codec_source source = source_of(values, COUNT, 0, 3);
        tt_codec_scales(&spec, &source, scales);
        memcpy(bytes, scales, 2 * sizeof(float));
        scales[0] += scales[1]; /* as if another rank had a larger one */
        const tt_codec_shared shared = {.scales = scales, .ranks = 6};
        assert_int_equal(tt_codec_levels(&spec, &source, &shared, bytes + 2 * sizeof(float)), 0);
        const uint64_t hash = tt_hash64(bytes, COUNT + 2 * sizeof(float), 0);
        if (hash != golden[i].hash) {
            fail_msg("%s: UINT64_C(0x%016llx)", golden[i].text, (unsigned long long)hash);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_sum_is_off_by_at_most_a_step_of_each_rank),
        cmocka_unit_test(test_the_largest_levels_of_all_ranks_fit_a_byte),
        cmocka_unit_test(test_a_vote_has_the_sign_of_most_ranks),
        cmocka_unit_test(test_random_levels_are_right_on_average),
        cmocka_unit_test(test_error_feedback_loses_nothing),
        cmocka_unit_test(test_an_error_is_at_most_its_block),
        cmocka_unit_test(test_a_nonfinite_value_affects_its_block_on_all_ranks),
        cmocka_unit_test(test_zeros_and_nothing),
        cmocka_unit_test(test_any_scale_and_any_sum_is_decoded),
        cmocka_unit_test(test_a_tensor_may_be_cut_at_any_block),
        cmocka_unit_test(test_other_types_and_factors),
        cmocka_unit_test(test_golden_levels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
