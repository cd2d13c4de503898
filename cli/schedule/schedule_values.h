/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule_values.h - the options of `tutti schedule`, and which of them exclude each other.
 *
 * Layer:   cli.
 * Threads: pure, but for the error text.
 * Memory:  none taken.
 */
#ifndef TUTTI_CLI_SCHEDULE_SCHEDULE_VALUES_H
#define TUTTI_CLI_SCHEDULE_SCHEDULE_VALUES_H

#include <stdbool.h>
#include <stdint.h>

#include "model/model.h"

typedef struct tt_schedule_values {
    const char *graph;    /* file or network */
    int64_t batch;        /* 0: the network's */
    double samples_per_s; /* 0: those of the nominal accelerator */
    const char *policy;
    int form; /* tt_plan_form */
    int64_t rank_count;
    int64_t mbit;
    int64_t overhead_us;
    int64_t latency_us;
    uint64_t chunk_bytes;
    uint64_t credit_bytes;
    const char *samples;
    int ops; /* 0 none, 1 nearest, 2 cheapest */
    const char *order;
    const char *edges;
    const char *plot;
    const char *json;
    const char *save;
    bool keeps_barrier;
    bool is_forward;
    bool compares;
    bool is_verbose;
    bool lists;
} tt_schedule_values;

/* Options without effect are refused, so that no figure is mistaken for another one. Prints the
 * error. */
bool tt_schedule_is_contradictory(const tt_schedule_values *values, const tt_policy *policy);

#endif
