/* SPDX-License-Identifier: Apache-2.0
 *
 * run.h - runs a scenario over the simulated driver and judges it.
 *
 * Layer:   tests.
 */
#ifndef TUTTI_TESTS_SIMULATION_RUN_H
#define TUTTI_TESTS_SIMULATION_RUN_H

#include "simulation/scenario.h"

typedef struct run_options {
    uint64_t kill_at_event; /* kill `kill_rank` when so many events have passed; 0: never */
    uint32_t kill_rank;
    uint64_t salt; /* the same scenario over another network, in other orders; 0: the seed's own */
    bool has_phantoms; /* callers' buffers have no bytes: values are not judged */
    bool is_verbose;
} run_options;

typedef struct run_result {
    bool is_good;
    char reason[512];
    uint64_t hash; /* of all events */
    uint64_t event_count;
    uint64_t simulated_ns;
    uint64_t results_hash; /* of all statuses and outputs */
    uint64_t bits_hash;    /* of the results of all-reduces, on any rank */
    uint32_t change_count; /* of settings, by the stepper of rank 0 */
    uint32_t coded_count;  /* calls compared with the oracle of coded sums */
} run_result;

run_result run_scenario(const scenario *what, const run_options *options);

#endif
