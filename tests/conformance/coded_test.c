/* SPDX-License-Identifier: Apache-2.0
 *
 * coded_test.c - sums whose data are sent coded: the oracle's bits with every codec, whatever the
 * frames, hands and steps are; residuals that lose nothing; bad bytes that name their sender. Once
 * for ranks that share no memory, once for hosts with several ranks.
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
#include "conformance/coded_memory.h"
#include "kernel/half.h"
#include "support/codec_spec.h"

static const uint32_t sizes[] = {1, 2, 3, 4, 8};
static const tt_dtype dtypes[] = {TT_F32, TT_F16, TT_BF16};

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

/* ---- calls ---- */

static bool can_track(const tt_codec *codec)
{
    return (codec->traits & (TT_CODEC_CONTRACTION | TT_CODEC_SUMMABLE)) == TT_CODEC_CONTRACTION;
}

enum { FORMS = 4 };

/* The index-th form of a codec: as it is, with small blocks, with the other setting of feedback,
 * with estimates; false: there is none. */
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
    if (index == 3) {
        spec_out->has_feedback = spec_out->is_tracked = true;
        return can_track(codec);
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

static const uint32_t shared_patterns[] = {0, UINT32_MAX, 0x55555555, 0x66666666};

/* The same bits with each of several frames, hands, steps and places of buffers. */
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
        config.shared_pattern = shared_patterns[(seed + i) % TT_ARRAY_COUNT(shared_patterns)];
        run_once(&config, &made, "one of several ways");
    }
    memory_drop(&made);
}

/* Some lengths, with the turn-th types, operators and factors. */
static void run_lengths(const tt_codec_spec *spec, const coded_hosts *hosts, uint32_t size,
                        uint64_t turn)
{
    const uint64_t counts[] = {
        0, 1, spec->block - 1, spec->block, spec->block + 1, 3000 + turn % 97, 6 * spec->block};
    for (size_t i = 0; i < TT_ARRAY_COUNT(counts); i++, turn++) {
        const coded_call call = {.hosts = hosts,
                                 .codec = spec,
                                 .collective = TT_ALLREDUCE,
                                 .dtype = dtypes[turn % 3],
                                 .redop = turn % 2 == 0 ? TT_SUM : TT_AVERAGE,
                                 .count = counts[i],
                                 .prescale = turn % 5 < 3 ? 1.0f : 0.3f,
                                 .postscale = turn % 7 < 4 ? 1.0 : -1.7};
        run_all_ways(size, &call, turn);
    }
}

static void test_every_codec_has_the_bits_of_the_oracle(void **state)
{
    (void)state;
    uint64_t turn = 0;
    tt_codec_spec spec;
    for (size_t c = 0; tt_codec_at(c) != NULL; c++) {
        for (uint32_t form = 0; form < FORMS; form++) {
            if (!form_of(tt_codec_at(c), form, &spec)) {
                continue;
            }
            for (size_t i = 0; i < TT_ARRAY_COUNT(sizes); i++, turn += 8) {
                run_lengths(&spec, NULL, sizes[i], turn);
            }
            for (size_t i = 0; i < TT_ARRAY_COUNT(layouts); i++, turn += 8) {
                run_lengths(&spec, &layouts[i], layouts[i].size, turn);
            }
        }
    }
}

/* Whatever algorithm adds levels: they are integers. */
static void test_levels_are_added_by_every_algorithm(void **state)
{
    (void)state;
    static const char *const algorithms[] = {NULL,   "flat",    "star",  "doubling",
                                             "ring", "halving", "direct"};
    static const char *const texts[] = {"int8sum", "int8sum:ef=off,block=16", "terngrad:block=64",
                                        "majority"};
    const uint32_t ways = TT_ARRAY_COUNT(algorithms) * TT_ARRAY_COUNT(texts);
    for (uint32_t turn = 0; turn < CODED_RANKS_MAX * ways; turn++) {
        const tt_codec_spec spec = spec_of(texts[turn % TT_ARRAY_COUNT(texts)]);
        const coded_call call = {.codec = &spec,
                                 .collective = TT_ALLREDUCE,
                                 .dtype = dtypes[turn % 3],
                                 .redop = turn % 2 == 0 ? TT_AVERAGE : TT_SUM,
                                 .count = turn % 11 * 300 + turn,
                                 .prescale = turn % 3 < 2 ? 0.7f : 1.0f,
                                 .postscale = turn % 7 < 4 ? 1.0 : 3.0};
        const coded_config config = {
            .size = 1 + turn / ways,
            .seed = turn,
            .segment_bytes = UINT32_C(64) << turn % 5,
            .eager_bytes_max = turn % 2 == 0 ? 64 : 1024,
            .hands = turn % 4,
            .algorithm = algorithms[turn / TT_ARRAY_COUNT(texts) % TT_ARRAY_COUNT(algorithms)]};
        memory made;
        memory_make(&made, config.size, &call, turn);
        coded_expect(&call, config.size, made.wanted);
        run_once(&config, &made, config.algorithm != NULL ? config.algorithm : "any algorithm");
        memory_drop(&made);
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
                tt_codec_spec spec = spec_of(tt_codec_at(c)->name);
                if (i % 3 == 2 && can_track(tt_codec_at(c))) {
                    spec.has_feedback = spec.is_tracked = true;
                }
                const uint64_t width = tt_dtype_bytes(dtypes[turn % 3]);
                uint64_t offsets[CODED_RANKS_MAX + 1] = {0};
                for (uint32_t r = 0; r < sizes[s]; r++) {
                    offsets[r + 1] = offsets[r] + (counts[i / 2] * (r + 1) % 900) * width;
                }
                const coded_call call = {.hosts = sizes[s] == 4 ? &layouts[0] : NULL,
                                         .codec = &spec,
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
static void run_long(const coded_call *call, uint32_t size, uint64_t seed)
{
    static const coded_config ways[] = {
        {.segment_bytes = 2048, .eager_bytes_max = 512},
        {.segment_bytes = 1 << 20, .eager_bytes_max = 4096},
        {.segment_bytes = 1 << 16, .eager_bytes_max = 4096, .hands = 4},
        {.segment_bytes = 1 << 16, .eager_bytes_max = 4096, .hands = 4, .is_rushed = true},
        {.segment_bytes = 40000, .eager_bytes_max = 64, .hands = 2},
        {.segment_bytes = 1 << 16, .eager_bytes_max = 4096, .hands = 3, .has_threads = true},
    };
    memory made;
    memory_make(&made, size, call, seed);
    coded_expect(call, size, made.wanted);
    for (size_t w = 0; w < TT_ARRAY_COUNT(ways); w++) {
        coded_config config = ways[w];
        config.size = size;
        config.seed = 100 * seed + w;
        config.shared_pattern = shared_patterns[(seed + w) % TT_ARRAY_COUNT(shared_patterns)];
        run_once(&config, &made, "a long vector");
    }
    memory_drop(&made);
}

static void test_long_vectors_have_the_same_bits_every_way(void **state)
{
    (void)state;
    static const char *const texts[] = {"int8",       "qsgd",       "sign",
                                        "bf16",       "majority",   "int4:block=4096",
                                        "terngrad",   "int8sum",    "int8sum:block=4096",
                                        "int8:ef=21", "sign:ef=21", "qsgd:ef=21,block=64"};
    for (size_t t = 0; t < TT_ARRAY_COUNT(texts); t++) {
        const tt_codec_spec spec = spec_of(texts[t]);
        coded_call call = {.codec = &spec,
                           .collective = TT_ALLREDUCE,
                           .dtype = dtypes[t % 3],
                           .redop = TT_AVERAGE,
                           .count = 200 * 1000 + 13,
                           .prescale = 2.0f,
                           .postscale = 0.25};
        run_long(&call, 3, t);
        call.hosts = &layouts[t % TT_ARRAY_COUNT(layouts)];
        run_long(&call, call.hosts->size, t);
    }
}

/* 40000 + 40000 is infinite in f16. */
static void test_sums_of_a_host_do_not_overflow(void **state)
{
    (void)state;
    const tt_codec_spec spec = spec_of("none");
    const coded_call call = {.hosts = &layouts[0],
                             .codec = &spec,
                             .collective = TT_ALLREDUCE,
                             .dtype = TT_F16,
                             .redop = TT_AVERAGE,
                             .count = 100,
                             .prescale = 1.0f,
                             .postscale = 1.0};
    const coded_config config = {.size = 4, .seed = 2, .segment_bytes = 64, .eager_bytes_max = 64};
    memory made;
    memory_make(&made, 4, &call, 6);
    for (uint64_t i = 0; i < 4 * call.count; i++) {
        void *values = (void *)(uintptr_t)made.got[i % 4].input;
        set_value(TT_F16, values, i / 4, 40000.0f);
    }
    coded_expect(&call, 4, made.wanted);
    run_once(&config, &made, "near the largest value");
    for (uint64_t i = 0; i < call.count; i++) {
        assert_true(get_value(TT_F16, made.got[3].output, i) == 40000.0f);
    }
    memory_drop(&made);
}

static void run_in_place(const char *text, const coded_hosts *hosts, uint32_t size, uint64_t turn)
{
    const tt_codec_spec spec = spec_of(text);
    const coded_call call = {.hosts = hosts,
                             .codec = &spec,
                             .collective = TT_ALLREDUCE,
                             .dtype = dtypes[turn % 3],
                             .redop = TT_SUM,
                             .count = 5000,
                             .prescale = 1.0f,
                             .postscale = 1.0};
    const coded_config config = {.size = size,
                                 .seed = turn,
                                 .segment_bytes = turn % 2 == 0 ? 128 : 4096,
                                 .eager_bytes_max = 128,
                                 .shared_pattern = shared_patterns[turn % 4],
                                 .hands = 3};
    memory made;
    memory_make(&made, size, &call, turn);
    coded_expect(&call, size, made.wanted);
    for (uint32_t r = 0; r < size; r++) {
        free(made.got[r].output);
        made.got[r].output = (void *)(uintptr_t)made.got[r].input;
    }
    run_once(&config, &made, "in place");
    memory_drop(&made);
}

static void test_input_may_be_the_output(void **state)
{
    (void)state;
    static const char *const texts[] = {"int8:block=64", "int8sum:block=64", "int8:ef=21,block=64"};
    for (uint64_t turn = 0; turn < 6; turn++) {
        for (size_t s = 0; s < TT_ARRAY_COUNT(sizes); s++) {
            run_in_place(texts[turn % 3], NULL, sizes[s], turn + s);
            run_in_place(texts[(turn + 1) % 3], NULL, sizes[s], turn + s);
        }
        for (size_t i = 0; i < TT_ARRAY_COUNT(layouts); i++) {
            run_in_place(texts[turn % 3], &layouts[i], layouts[i].size, turn + i);
        }
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
        if (made->got[r].owner_residual != NULL && index >= first && index - first < count) {
            sum += (double)made->got[r].owner_residual[index - first];
        }
    }
    return sum;
}

/* Only residuals of the own rail count: zeros elsewhere, as the caller provides them. */
static void clear_other_rails(memory *made)
{
    const coded_hosts *hosts = made->call.hosts;
    for (uint32_t r = 0; hosts != NULL && r < made->size; r++) {
        const uint32_t local = coded_local(hosts, r);
        uint64_t from = 0, end = 0, count;
        if (local < hosts->rail_count) {
            (void)coded_slice_count(&made->call, made->size, coded_rank_at(hosts, 0, local), &from);
            count = coded_slice_count(&made->call, made->size,
                                      coded_rank_at(hosts, hosts->host_count - 1, local), &end);
            end += count;
        }
        for (uint64_t i = 0; i < made->call.count; i++) {
            if (i < from || i >= end) {
                ((float *)(uintptr_t)made->got[r].residual)[i] = 0.0f;
                made->got[r].residual_out[i] = 0.0f;
            }
        }
    }
}

static void telescope(const tt_codec_spec *spec, const coded_hosts *hosts, uint32_t size)
{
    enum { COUNT = 1500, CALLS = 50 };
    static double given[COUNT], gotten[COUNT], magnitude[COUNT];
    const coded_call call = {.hosts = hosts,
                             .codec = spec,
                             .collective = TT_ALLREDUCE,
                             .dtype = TT_F32,
                             .redop = TT_SUM,
                             .count = COUNT,
                             .prescale = 1.0f,
                             .postscale = 1.0};
    const coded_config config = {.size = size,
                                 .seed = size,
                                 .segment_bytes = 256,
                                 .eager_bytes_max = 256,
                                 .hands = 2,
                                 .shared_pattern = shared_patterns[2]};
    coded_job *job = coded_job_create(&config);
    memory made;
    tt_random random;
    uint64_t allocations = 0;
    memory_make(&made, size, &call, 9);
    clear_other_rails(&made);
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
        /* Room for early frames is taken when the first of a peer comes: without owners few ranks
         * exchange frames, and the first that is early may come late. */
        allocations = n < CALLS / 2 ? coded_job_allocations(job) : allocations;
        const uint64_t spare = coded_is_summed(&call) ? (uint64_t)size * size : 0;
        assert_in_range(coded_job_allocations(job), allocations, allocations + spare);
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
            telescope(&spec, NULL, sizes[s]);
        }
        for (size_t i = 0; i < TT_ARRAY_COUNT(layouts); i += 3) {
            telescope(&spec, &layouts[i], layouts[i].size);
        }
    }
}

/* ---- bad bytes ---- */

typedef struct damage {
    const coded_hosts *hosts;
    uint32_t from, to;
    uint32_t round;
    bool is_shorter;
    uint32_t skipped; /* bytes before the first block */
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
        memcpy(payload + what->skipped, &negative, sizeof(negative)); /* the first block's scale */
    }
}

static void check_damage(const tt_codec_spec *spec, damage what, tt_collective collective)
{
    const coded_call call = {.hosts = what.hosts,
                             .codec = spec,
                             .collective = collective,
                             .dtype = TT_F32,
                             .redop = TT_SUM,
                             .count = 3000,
                             .prescale = 1.0f,
                             .postscale = 1.0};
    const coded_config config = {.size = 4,
                                 .seed = what.from + what.round,
                                 .shared_pattern = shared_patterns[what.from],
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
        const bool is_summable = (tt_codec_at(c)->traits & TT_CODEC_SUMMABLE) != 0;
        for (uint32_t from = 0; from < 4; from++) {
            const damage what = {.from = from, .to = (from + 1 + c % 3) % 4, .round = 1};
            damage later = what, shorter = what;
            later.round = 3;
            shorter.is_shorter = true;
            check_damage(&spec, shorter, is_summable ? TT_REDUCESCATTER : TT_ALLREDUCE);
            if (has_heads) {
                check_damage(&spec, what, TT_REDUCESCATTER);
            }
            if (has_heads && !is_summable) { /* else any bytes are good */
                check_damage(&spec, what, TT_ALLREDUCE);
                check_damage(&spec, later, TT_ALLREDUCE);
            }
            damage across = {.hosts = &layouts[0], .from = from, .to = (from + 2) % 4, .round = 3};
            if (is_summable) {
                continue; /* it has no rails */
            }
            if (has_heads) {
                check_damage(&spec, across, TT_ALLREDUCE);
                across.round = 5;
                check_damage(&spec, across, TT_ALLREDUCE);
            }
            across.is_shorter = true;
            check_damage(&spec, across, TT_ALLREDUCE);
        }
    }
}

static void test_bad_bytes_behind_a_stamp_name_their_sender(void **state)
{
    (void)state;
    const tt_codec_spec spec = spec_of("int8:ef=21,block=64");
    for (uint32_t from = 0; from < 4; from++) {
        damage what = {.from = from, .to = (from + 1) % 4, .round = 1, .skipped = TT_STAMP_BYTES};
        check_damage(&spec, what, TT_ALLREDUCE);
        check_damage(&spec, what, TT_REDUCESCATTER);
        what.is_shorter = true;
        check_damage(&spec, what, TT_ALLREDUCE);
        const damage later = {.from = from, .to = (from + 1) % 4, .round = 3};
        check_damage(&spec, later, TT_ALLREDUCE);
        damage across = {.hosts = &layouts[0], .from = from, .to = (from + 2) % 4, .round = 3};
        across.skipped = TT_STAMP_BYTES;
        check_damage(&spec, across, TT_ALLREDUCE);
    }
}

static void test_bad_places_name_their_rank(void **state)
{
    (void)state;
    const tt_codec_spec spec = spec_of("int8:block=64");
    const coded_call call = {.hosts = &layouts[0],
                             .codec = &spec,
                             .collective = TT_ALLREDUCE,
                             .dtype = TT_F32,
                             .redop = TT_SUM,
                             .count = 3000,
                             .prescale = 1.0f,
                             .postscale = 1.0};
    for (uint32_t wrong = 0; wrong < 4; wrong++) {
        const coded_config config = {.size = 4,
                                     .seed = wrong,
                                     .segment_bytes = 256,
                                     .eager_bytes_max = 4096,
                                     .shared_pattern = wrong % 2 == 0 ? 0 : UINT32_MAX,
                                     .misplaced = wrong + 1};
        coded_job *job = coded_job_create(&config);
        memory made;
        uint32_t culprit;
        memory_make(&made, 4, &call, 1);
        coded_job_plan(job, &call);
        coded_job_run(job, made.got);
        assert_int_equal(coded_job_status(job, wrong ^ 1, &culprit), TT_ERR_BAD_WIRE);
        assert_int_equal(culprit, wrong);
        memory_drop(&made);
        assert_true(coded_job_destroy(job));
    }
}

/* ---- values that are not finite ---- */

static void check_nan(const coded_hosts *hosts, const tt_codec_spec *spec, uint32_t giver,
                      uint64_t where, float value)
{
    enum { COUNT = 4000 };
    const coded_call call = {.hosts = hosts,
                             .codec = spec,
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
            assert_true(isfinite(made.got[r].residual_out[i])); /* garbage is finite, too */
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
            for (int i = 0; i < 2; i++) {
                const coded_hosts *hosts = i == 0 ? NULL : &layouts[4];
                check_nan(hosts, &spec, giver, 5, NAN);
                check_nan(hosts, &spec, giver, 3999, NAN);
                check_nan(hosts, &spec, giver, 2000, INFINITY);
            }
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
        cmocka_unit_test(test_levels_are_added_by_every_algorithm),
        cmocka_unit_test(test_every_codec_scatters_sums),
        cmocka_unit_test(test_long_vectors_have_the_same_bits_every_way),
        cmocka_unit_test(test_sums_of_a_host_do_not_overflow),
        cmocka_unit_test(test_input_may_be_the_output),
        cmocka_unit_test(test_nothing_is_lost_over_many_calls),
        cmocka_unit_test(test_bad_bytes_name_their_sender),
        cmocka_unit_test(test_bad_bytes_behind_a_stamp_name_their_sender),
        cmocka_unit_test(test_bad_places_name_their_rank),
        cmocka_unit_test(test_divergence_reaches_all_ranks),
        cmocka_unit_test(test_finite_values_are_all_coded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
