/* SPDX-License-Identifier: Apache-2.0
 *
 * bench.h - one measured call: its data, its result, its report.
 *
 * Values are small integers that every type holds exactly, so the expected result is exact, too.
 * The value of element i from rank r repeats with a prime period; with a table of one period,
 * filling and checking take one pass each.
 *
 * Layer:   cli.
 * Threads: one.
 * Memory:  the caller's; buffers belong to the case between open and close.
 */
#ifndef TUTTI_CLI_BENCH_BENCH_H
#define TUTTI_CLI_BENCH_BENCH_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "tutti/tutti.h"

typedef struct tt_bench_plan {
    tutti_context *context;
    tutti_collective collective;
    tutti_dtype dtype;
    tutti_op op;
    int rank;
    int size;
    int host_count;
    int iteration_count; /* 0: chosen for each case */
    int warmup_count;
    bool is_foreign;
    bool is_in_place;
    bool is_touched;
    bool has_model; /* algorithm and model are shown */
    const char *transport;
} tt_bench_plan;

typedef struct tt_bench_case {
    const tt_bench_plan *plan;
    uint64_t count;       /* as the call takes it */
    uint64_t input_count; /* elements in the buffers */
    uint64_t output_count;
    uint64_t bytes; /* as reported: the larger of input and output */
    int iteration_count;
    void *input;
    void *output;
} tt_bench_case;

typedef struct tt_bench_result {
    double time_s;
    double algorithm_bandwidth; /* bytes per second */
    double bus_bandwidth;
    uint64_t wrong_count; /* on all ranks */
    const char *algorithm;
    double model_s; /* predicted by the table of costs; 0: no prediction */
} tt_bench_result;

/* The call named `name`: TUTTI_SEND is sendrecv, a send and a receive at once. False if there is
 * none that can be measured. */
bool tt_bench_find(const char *name, tutti_collective *collective_out);
const char *tt_bench_name(tutti_collective collective);
bool tt_bench_reduces(tutti_collective collective);

/* Allocate for about `bytes`; at least one element per rank. A barrier has no bytes. */
tutti_status tt_bench_open(tt_bench_case *item, const tt_bench_plan *plan, uint64_t bytes);
void tt_bench_close(tt_bench_case *item);
void tt_bench_fill(tt_bench_case *item);
tutti_status tt_bench_call(tt_bench_case *item);
/* Number of elements of this rank's output that differ from the expected ones. */
uint64_t tt_bench_check(const tt_bench_case *item);
/* Bus bandwidth over algorithm bandwidth, as nccl-tests defines it. */
double tt_bench_bus_factor(tutti_collective collective, int size);

void tt_bench_print_header(const tt_bench_plan *plan);
void tt_bench_print_row(const tt_bench_case *item, const tt_bench_result *result);
void tt_bench_print_footer(double bus_bandwidth_mean, uint64_t wrong_count);
void tt_bench_print_json(FILE *file, const tt_bench_case *item, const tt_bench_result *result);

#endif
