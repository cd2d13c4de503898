/* SPDX-License-Identifier: Apache-2.0
 *
 * simulate_trace.h - simulated steps for a viewer of traces (Perfetto, chrome://tracing).
 *
 * JSON of Chrome's trace event format: a process with the exchanges of all ranks, and one for each
 * rank that is asked for, with what it computes and waits for. Times are microseconds from the
 * start of the job, with the steps in which it settles.
 *
 * Layer:   cli.
 * Threads: one.
 * Memory:  none kept.
 */
#ifndef TUTTI_CLI_SIMULATE_SIMULATE_TRACE_H
#define TUTTI_CLI_SIMULATE_SIMULATE_TRACE_H

#include "sim/sim.h"

enum { TT_TRACE_RANGES_MAX = 64, TT_TRACE_RANKS_MAX = 4096, TT_TRACE_STEPS_MAX = 1000 };

/* Ranks, as a user lists them: "0,7,100-103". */
typedef struct tt_rank_ranges {
    struct {
        uint32_t first, last;
    } items[TT_TRACE_RANGES_MAX];
    uint32_t count; /* 0: the first, and the slowest of the first step that is traced */
} tt_rank_ranges;

/* TT_ERR_BAD_ARGUMENT and `why`. */
tt_status tt_rank_ranges_parse(const char *text, tt_text *why, tt_rank_ranges *ranges_out);

typedef struct tt_simulate_trace_config {
    const char *path;
    tt_rank_ranges ranks;
    uint32_t step_count; /* that are traced, of those that count */
    tt_job *job;         /* borrowed */
} tt_simulate_trace_config;

/* Run the job and write the file. As tt_job_run; TT_ERR_BAD_ARGUMENT besides: a rank is not of the
 * job, or the file cannot be written. */
tt_status tt_simulate_trace_run(const tt_simulate_trace_config *config, tt_text *why,
                                tt_job_result *result_out);

#endif
