/* SPDX-License-Identifier: Apache-2.0
 *
 * kernels.c - the kernels of sums beside the rate at which this core reads, adds and writes.
 *
 * usage: bench-kernels [--quick] [--json FILE]
 *
 * target = target + source, two arrays of 128 KiB, which lie in the second-level cache. The bound
 * is a bare loop of the widest registers with nothing to decide, in the same turns; bytes count
 * both reads and the write. The ratio of the kernel to the bound comes last. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "bench/common/clock.h"
#include "bench/common/median.h"
#include "kernel/reduce.h"

enum { BYTES = 128 * 1024, ROUNDS = 41, ROUNDS_QUICK = 11, SAMPLE_PASSES = 64 };

typedef void (*adder)(void *target, const void *source, size_t bytes);

/* Four registers a turn hide the latency of the additions. */
#define BARE_LOOP(name, element, width, target_set)                             \
    target_set static void name(void *target, const void *source, size_t bytes) \
    {                                                                           \
        typedef element vector __attribute__((vector_size(width), may_alias));  \
        vector *to = target;                                                    \
        const vector *from = source;                                            \
        for (size_t i = 0; i < bytes / (width); i += 4) {                       \
            to[i] += from[i];                                                   \
            to[i + 1] += from[i + 1];                                           \
            to[i + 2] += from[i + 2];                                           \
            to[i + 3] += from[i + 3];                                           \
        }                                                                       \
    }

#if defined(__x86_64__)
#define SET_512 __attribute__((target("avx512f")))
#define SET_256 __attribute__((target("avx2")))
BARE_LOOP(bare_f32_512, float, 64, SET_512)
BARE_LOOP(bare_f64_512, double, 64, SET_512)
BARE_LOOP(bare_i32_512, uint32_t, 64, SET_512)
BARE_LOOP(bare_f32_256, float, 32, SET_256)
BARE_LOOP(bare_f64_256, double, 32, SET_256)
BARE_LOOP(bare_i32_256, uint32_t, 32, SET_256)
#endif
#define SET_ANY
BARE_LOOP(bare_f32_128, float, 16, SET_ANY)
BARE_LOOP(bare_f64_128, double, 16, SET_ANY)
BARE_LOOP(bare_i32_128, uint32_t, 16, SET_ANY)

typedef struct kernel_case {
    const char *name;
    tt_dtype dtype;
    adder bare;
    double bare_gbs[ROUNDS], kernel_gbs[ROUNDS];
} kernel_case;

static double rate(int64_t begin_ns)
{
    return 3.0 * BYTES * SAMPLE_PASSES / (double)(bench_now_ns() - begin_ns);
}

static double sample_bare(const kernel_case *one, void *target, const void *source)
{
    const int64_t begin_ns = bench_now_ns();
    for (int i = 0; i < SAMPLE_PASSES; i++) {
        one->bare(target, source, BYTES);
    }
    return rate(begin_ns);
}

static double sample_kernel(const kernel_case *one, void *target, const void *source)
{
    const int64_t begin_ns = bench_now_ns();
    for (int i = 0; i < SAMPLE_PASSES; i++) {
        tt_reduce(one->dtype, TT_SUM, target, target, source, BYTES / tt_dtype_bytes(one->dtype));
    }
    return rate(begin_ns);
}

static void choose_bare(kernel_case *cases)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f")) {
        cases[0].bare = bare_f32_512;
        cases[1].bare = bare_f64_512;
        cases[2].bare = bare_i32_512;
    } else if (__builtin_cpu_supports("avx2")) {
        cases[0].bare = bare_f32_256;
        cases[1].bare = bare_f64_256;
        cases[2].bare = bare_i32_256;
    }
#else
    (void)cases;
#endif
}

static void report(kernel_case *cases, size_t count, size_t rounds, FILE *json)
{
    double kernels[3], bounds[3];
    for (size_t i = 0; i < count; i++) {
        kernels[i] = bench_median(cases[i].kernel_gbs, rounds);
        bounds[i] = bench_median(cases[i].bare_gbs, rounds);
        printf("%-4s sum   kernel %6.1f GB/s   read-add-write %6.1f GB/s\n", cases[i].name,
               kernels[i], bounds[i]);
    }
    for (size_t i = 0; i < count; i++) {
        printf("%-4s ratio %.3f   wanted: at least 0.9\n", cases[i].name, kernels[i] / bounds[i]);
        if (json != NULL) {
            fprintf(json,
                    "{\"bench\": \"kernels\", \"dtype\": \"%s\", \"kernel_gbs\": %.2f, "
                    "\"bound_gbs\": %.2f, \"ratio\": %.4f, \"rounds\": %zu}\n",
                    cases[i].name, kernels[i], bounds[i], kernels[i] / bounds[i], rounds);
        }
    }
}

int main(int count, char **words)
{
    static kernel_case cases[] = {{.name = "f32", .dtype = TT_F32, .bare = bare_f32_128},
                                  {.name = "f64", .dtype = TT_F64, .bare = bare_f64_128},
                                  {.name = "i32", .dtype = TT_I32, .bare = bare_i32_128}};
    size_t rounds = ROUNDS;
    const char *path = NULL;
    for (int i = 1; i < count; i++) {
        if (strcmp(words[i], "--quick") == 0) {
            rounds = ROUNDS_QUICK;
        } else if (strcmp(words[i], "--json") == 0 && i + 1 < count) {
            path = words[++i];
        } else {
            fprintf(stderr, "usage: bench-kernels [--quick] [--json FILE]\n");
            return 2;
        }
    }
    FILE *json = path != NULL ? fopen(path, "w") : NULL;
    void *target = aligned_alloc(4096, BYTES), *source = aligned_alloc(4096, BYTES);
    if (target == NULL || source == NULL || (path != NULL && json == NULL)) {
        perror("bench-kernels");
        return 1;
    }
    choose_bare(cases);
    memset(target, 0, BYTES);
    memset(source, 0, BYTES);
    for (size_t round = 0; round < rounds; round++) {
        for (size_t i = 0; i < TT_ARRAY_COUNT(cases); i++) {
            cases[i].bare_gbs[round] = sample_bare(&cases[i], target, source);
            cases[i].kernel_gbs[round] = sample_kernel(&cases[i], target, source);
        }
    }
    report(cases, TT_ARRAY_COUNT(cases), rounds, json);
    if (json != NULL) {
        (void)fclose(json);
    }
    free(target);
    free(source);
    return 0;
}
