/* SPDX-License-Identifier: Apache-2.0
 *
 * simulate-machines.c - how fast the machines of many ranks run a collective on a model of a
 * network.
 *
 * usage: bench-simulate-machines RANKS ALGORITHM BYTES [ROUNDS [MODEL]]
 *
 * One unnamed all-reduce per round, on a card per rank at 12.5 GB/s with 1.3 us of latency and
 * 0.5 us of the processor per frame; payloads have no bytes. Prints one JSON object: frames per
 * second of processor time in the best round and in the median one, seconds to create the ranks,
 * and what they hold. An algorithm that cannot do the call is replaced by the built-in one. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/common/clock.h"
#include "bench/common/median.h"
#include "sim/sim.h"

enum { ROUNDS_MAX = 1000 };

static double seconds_now(void)
{
    return (double)bench_clock_ns(CLOCK_PROCESS_CPUTIME_ID) * 1e-9;
}

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "simulate-machines: %s: %s\n", what, why);
    return 1;
}

/* False: not a number from `least` to `most`, which is written. */
static bool parse(const char *name, const char *text, uint64_t least, uint64_t most,
                  uint64_t *value_out)
{
    char *end;
    errno = 0;
    const unsigned long long value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || value < least ||
        value > most) {
        fprintf(stderr, "simulate-machines: %s '%s': give a number from %llu to %llu\n", name, text,
                (unsigned long long)least, (unsigned long long)most);
        return false;
    }
    *value_out = value;
    return true;
}

static tt_machines_config config_of(uint32_t ranks, const char *algorithm,
                                    const tt_fabric_ops *model)
{
    tt_machines_config config;
    tt_machines_config_init(&config);
    config.model = model;
    config.control.algorithm = algorithm;
    config.memory_bytes_max = UINT64_MAX;
    tt_fabric_config_plain(&config.fabric, ranks,
                           (tt_fabric_link){.latency_ns = 1300, .gap_ns = 10, .byte_fs = 80000});
    config.fabric.overhead_ns = 500;
    config.fabric.reduce_byte_fs = 100000;
    config.fabric.head_bytes = 48;
    return config;
}

/* The first round, in which recipes are prepared, is not timed. */
static bool measure(tt_machines *machines, uint64_t bytes, uint32_t rounds, double *seconds,
                    tt_machines_result *result)
{
    const tt_machines_call call = {
        .collective = TT_ALLREDUCE, .dtype = TT_F32, .count = bytes / sizeof(float)};
    tt_text why = {0};
    for (uint32_t round = 0; round <= rounds; round++) {
        const double begin = seconds_now();
        if (tt_machines_run(machines, &call, 1, &why, result) != TT_OK) {
            (void)fail("no run", why.bytes);
            return false;
        }
        seconds[round > 0 ? round - 1 : 0] = seconds_now() - begin;
    }
    return true;
}

int main(int argc, char **argv)
{
    uint64_t ranks, bytes, rounds = 7;
    if (argc < 4) {
        fprintf(stderr, "usage: bench-simulate-machines RANKS ALGORITHM BYTES [ROUNDS [MODEL]]\n");
        return 1;
    }
    if (!parse("RANKS", argv[1], 2, 65536, &ranks) ||
        !parse("BYTES", argv[3], 4, UINT64_C(1) << 33, &bytes) ||
        (argc > 4 && !parse("ROUNDS", argv[4], 1, ROUNDS_MAX, &rounds))) {
        return 1;
    }
    const tt_fabric_ops *model = tt_fabric_find(argc > 5 ? argv[5] : "ports");
    if (model == NULL) {
        return fail(argv[5], "give ports, memory or tree as MODEL");
    }
    const tt_machines_config config = config_of((uint32_t)ranks, argv[2], model);
    tt_text why = {0};
    tt_machines *machines = NULL;
    tt_machines_result result;
    double seconds[ROUNDS_MAX];
    const double begin = seconds_now();
    if (tt_machines_create(&config, &why, &machines) != TT_OK) {
        return fail("no machines", why.bytes);
    }
    const double created = seconds_now() - begin;
    const bool is_done = measure(machines, bytes, (uint32_t)rounds, seconds, &result);
    if (is_done) {
        bench_sort(seconds, (size_t)rounds);
        printf("{\"bench\": \"machines\", \"model\": \"%s\", \"ranks\": %llu, \"algorithm\": "
               "\"%s\", \"bytes\": %llu, \"frames\": %llu, \"events\": %llu, "
               "\"frames_per_second\": %.0f, \"median_frames_per_second\": %.0f, "
               "\"create_seconds\": %.3f, \"bytes_per_rank\": %llu, \"end_us\": %.3f}\n",
               model->name, (unsigned long long)ranks, argv[2], (unsigned long long)bytes,
               (unsigned long long)result.frames, (unsigned long long)result.events,
               (double)result.frames / seconds[0], (double)result.frames / seconds[rounds / 2],
               created, (unsigned long long)(result.memory_bytes / ranks),
               (double)result.end_ns * 1e-3);
    }
    tt_machines_destroy(machines);
    return is_done ? 0 : 1;
}
