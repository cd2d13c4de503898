/* SPDX-License-Identifier: Apache-2.0
 *
 * simulate-moves.c - how fast a collective of many ranks is walked on a model of a network.
 *
 * usage: bench-simulate-moves RANKS ALGORITHM BYTES [ROUNDS [MODEL [SEGMENT]]]
 *
 * One all-reduce per round, on a card per rank at 12.5 GB/s with 1.3 us of latency and 0.5 us of
 * the processor per frame. Rounds are repeated for 0.3 s at least. Prints one JSON object: frames
 * per second of processor time in the best round and in the median one, and what a round holds. An
 * algorithm that cannot do the call is replaced by the built-in one. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/common/clock.h"
#include "bench/common/median.h"
#include "sim/sim.h"

enum { ROUNDS_MAX = 1000, EAGER_BYTES_MAX = 16 * 1024 };

static const double seconds_min = 0.3;
static const uint64_t memory_bytes_max = UINT64_C(4) << 30;

static int fail(const char *what, const tt_text *why)
{
    fprintf(stderr, "simulate-moves: %s: %s\n", what, why->bytes);
    return 1;
}

static tt_moves_input input_of(uint32_t ranks, const char *algorithm, uint64_t bytes)
{
    return (tt_moves_input){
        .problem = {.collective = TT_ALLREDUCE,
                    .dtype = TT_F32,
                    .redop = TT_SUM,
                    .size = ranks,
                    .element_bytes = 4,
                    .bytes = bytes,
                    .postscale = 1.0,
                    .is_in_place = true},
        .forced = algorithm,
        .eager_bytes_max = EAGER_BYTES_MAX,
        .memory_bytes_max = memory_bytes_max,
        .allocator = &tt_allocator_default,
    };
}

/* Processor seconds of each round; short rounds are repeated. Returns their number, 0 if one
 * failed. */
static uint32_t measure(tt_moves_input *input, uint64_t *done_ns, uint32_t rounds, double *seconds,
                        tt_moves_result *result)
{
    tt_text why = {0};
    double total = 0;
    uint32_t round = 0;
    for (; round < rounds || (total < seconds_min && round < ROUNDS_MAX); round++) {
        input->fabric->ops->reset(input->fabric);
        const int64_t begin_ns = bench_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
        if (tt_moves_run(input, &why, done_ns, result) != TT_OK) {
            (void)fail("no run", &why);
            return 0;
        }
        seconds[round] = (double)(bench_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - begin_ns) * 1e-9;
        total += seconds[round];
    }
    return round;
}

static void print(const tt_moves_input *input, const tt_moves_result *result, double *seconds,
                  uint32_t rounds)
{
    uint64_t frames = 0;
    for (uint32_t level = 0; level < TT_FABRIC_LEVELS; level++) {
        frames += result->levels[level].frames_sent;
    }
    bench_sort(seconds, rounds);
    printf("{\"bench\": \"simulate\", \"model\": \"%s\", \"ranks\": %u, \"algorithm\": \"%s\", "
           "\"bytes\": %llu, \"frames\": %llu, \"events\": %llu, \"frames_per_second\": %.0f, "
           "\"median_frames_per_second\": %.0f, \"memory_bytes\": %llu, \"end_us\": %.3f}\n",
           input->fabric->ops->name, input->problem.size, result->algorithm->name,
           (unsigned long long)input->problem.bytes, (unsigned long long)frames,
           (unsigned long long)result->events, (double)frames / seconds[0],
           (double)frames / seconds[rounds / 2],
           (unsigned long long)(result->memory_bytes +
                                input->fabric->ops->bytes(&input->fabric->config)),
           (double)result->end_ns * 1e-3);
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
        fprintf(stderr, "simulate-moves: %s '%s': give a number from %llu to %llu\n", name, text,
                (unsigned long long)least, (unsigned long long)most);
        return false;
    }
    *value_out = value;
    return true;
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: bench-simulate-moves RANKS ALGORITHM BYTES [ROUNDS [MODEL "
                        "[SEGMENT]]]\n");
        return 1;
    }
    uint64_t ranks, bytes, rounds = 7, segment = 128 * 1024;
    if (!parse("RANKS", argv[1], 1, UINT32_MAX, &ranks) ||
        !parse("BYTES", argv[3], 0, UINT64_MAX, &bytes) ||
        (argc > 4 && !parse("ROUNDS", argv[4], 1, ROUNDS_MAX, &rounds)) ||
        (argc > 6 && !parse("SEGMENT", argv[6], 1, UINT32_MAX, &segment))) {
        return 1;
    }
    const tt_fabric_ops *ops = tt_fabric_find(argc > 5 ? argv[5] : "ports");
    if (ops == NULL) {
        fprintf(stderr, "simulate-moves: MODEL '%s': give ports, memory or tree\n", argv[5]);
        return 1;
    }
    tt_moves_input input = input_of((uint32_t)ranks, argv[2], bytes);
    tt_text why = {0};
    tt_fabric_config config;
    input.problem.segment_bytes = (uint32_t)segment;
    tt_fabric_config_plain(&config, (uint32_t)ranks,
                           (tt_fabric_link){.latency_ns = 1300, .gap_ns = 10, .byte_fs = 80000});
    config.overhead_ns = 500;
    config.reduce_byte_fs = 100000;
    config.head_bytes = 48;
    if (tt_fabric_create(ops, &config, &tt_allocator_default, &why, &input.fabric) != TT_OK) {
        return fail("no network", &why);
    }
    double *seconds = malloc(ROUNDS_MAX * sizeof(*seconds));
    uint64_t *done_ns = malloc(ranks * sizeof(*done_ns));
    tt_moves_result result;
    const uint32_t done = seconds == NULL || done_ns == NULL
                              ? 0
                              : measure(&input, done_ns, (uint32_t)rounds, seconds, &result);
    if (done > 0) {
        print(&input, &result, seconds, done);
    }
    free(seconds);
    free(done_ns);
    input.fabric->ops->destroy(input.fabric);
    return done > 0 ? 0 : 1;
}
