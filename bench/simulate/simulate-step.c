/* SPDX-License-Identifier: Apache-2.0
 *
 * simulate-step.c - how long the machines of many ranks take for a ResNet50 step by name.
 *
 * usage: bench-simulate-step RANKS [STEPS]
 *
 * The 161 tensors are produced one after the other, evenly over 200 ms, and each rank has a card of
 * 12.5 GB/s. Names are negotiated; in the first step by the coordinator. Prints a JSON object for
 * each step: seconds of the processor, frames and frames a second, what ranks hold, and what the
 * step takes in the model. */
#include <stdio.h>
#include <stdlib.h>

#include "bench/common/clock.h"
#include "bench/common/resnet50.h"
#include "sim/sim.h"

enum { RANKS_MAX = 65536, STEPS_MAX = 1000 };

static const double forward_us = 100e3, backward_us = 200e3;

static void make_workload(tt_tensor tensors[RESNET50_TENSORS], tt_workload *workload)
{
    resnet50_tensor all[RESNET50_TENSORS];
    resnet50_make(all);
    for (uint32_t i = 0; i < RESNET50_TENSORS; i++) {
        const double place = (double)i / RESNET50_TENSORS;
        tensors[i] = (tt_tensor){.name = "weights",
                                 .bytes = all[i].elements * sizeof(float),
                                 .first_use_us = forward_us * place,
                                 .ready_us = forward_us + backward_us * (1 - place)};
    }
    *workload = (tt_workload){tensors, RESNET50_TENSORS, forward_us, backward_us};
}

static tt_machines *create(uint32_t ranks)
{
    tt_machines_config config;
    tt_text why = {0};
    tt_machines *machines = NULL;
    tt_machines_config_init(&config);
    config.model = tt_fabric_find("ports");
    config.memory_bytes_max = UINT64_MAX;
    tt_fabric_config_plain(&config.fabric, ranks,
                           (tt_fabric_link){.latency_ns = 1300, .gap_ns = 10, .byte_fs = 80000});
    config.fabric.overhead_ns = 500;
    config.fabric.reduce_byte_fs = config.fabric.copy_byte_fs = 100000;
    config.fabric.head_bytes = 48;
    if (tt_machines_create(&config, &why, &machines) != TT_OK) {
        fprintf(stderr, "simulate-step: %s\n", why.bytes);
    }
    return machines;
}

static bool run(tt_machines *machines, const tt_named_step *step, uint32_t ranks, uint32_t number)
{
    tt_text why = {0};
    tt_named_step_result result;
    const int64_t begin_ns = bench_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    if (tt_named_step_run(machines, step, &why, &result) != TT_OK) {
        fprintf(stderr, "simulate-step: %s\n", why.bytes);
        return false;
    }
    const double seconds = (double)(bench_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - begin_ns) * 1e-9;
    printf("{\"bench\": \"machines_step\", \"ranks\": %u, \"step\": %u, \"seconds\": %.3f, "
           "\"frames\": %llu, \"frames_per_second\": %.0f, \"bytes_per_rank\": %llu, "
           "\"computed_ms\": %.3f, \"exposed_ms\": %.3f}\n",
           ranks, number, seconds, (unsigned long long)result.run.frames,
           (double)result.run.frames / seconds,
           (unsigned long long)(result.run.memory_bytes / ranks), (double)result.computed_ns * 1e-6,
           (double)result.exposed_ns * 1e-6);
    return true;
}

/* 0: not a number from 1 to `most`. */
static uint32_t parse(const char *text, uint32_t most)
{
    char *end;
    const unsigned long value = strtoul(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && value <= most ? (uint32_t)value : 0;
}

int main(int argc, char **argv)
{
    const uint32_t ranks = argc > 1 ? parse(argv[1], RANKS_MAX) : 0;
    const uint32_t steps = argc > 2 ? parse(argv[2], STEPS_MAX) : 3;
    if (ranks < 2 || steps == 0) {
        fprintf(stderr, "usage: bench-simulate-step RANKS [STEPS], of 2 to %d and 1 to %d\n",
                RANKS_MAX, STEPS_MAX);
        return 1;
    }
    tt_tensor tensors[RESNET50_TENSORS];
    tt_workload workload;
    make_workload(tensors, &workload);
    tt_machines *machines = create(ranks);
    if (machines == NULL) {
        return 1;
    }
    const tt_named_step step = {.workload = &workload};
    bool is_done = true;
    for (uint32_t i = 0; i < steps && is_done; i++) {
        is_done = run(machines, &step, ranks, i);
    }
    tt_machines_destroy(machines);
    return is_done ? 0 : 1;
}
