/* SPDX-License-Identifier: Apache-2.0
 *
 * rounds_rank_main.c - one rank that trains in rounds (tutti/sync.h), for rounds_test.py.
 *
 *     tutti-rounds_rank serve
 *     tutti-rounds_rank POLICY STEPS [hold=N]
 *
 * Each step moves the weights of rank r by r + 1. Prints "going" after three steps; at the end
 * "step S mean M", the first weight after a flush, or, when a call has failed, "restored" if the
 * weights are those of the last round. `hold=N`: after N steps it waits for a line on standard
 * input. Exit codes: 0; 2 wrong usage; 3 no init; 4 wrong value; 7 a call failed.
 */
#include <stdbool.h>

#include "processes/store_report.h"
#include "tutti/sync.h"

enum { COUNT = 50000 };

static float weights[COUNT], merged[COUNT];

static void must_hold(tutti_context *context, tutti_status status)
{
    if (status != TUTTI_OK) {
        const bool is_restored = memcmp(weights, merged, sizeof(weights)) == 0;
        say(is_restored ? "restored" : "other weights");
        must(context, status);
    }
}

static void train(tutti_context *context, tutti_sync *sync, uint64_t steps, uint64_t holds_after)
{
    const float own = (float)(tutti_rank(context) + 1);
    for (uint64_t t = 0; t < steps; t++) {
        int ready = 0;
        for (int i = 0; i < COUNT; i++) {
            weights[i] += own;
        }
        must_hold(context, tutti_sync_step(sync, &ready));
        if (ready == 1) {
            memcpy(merged, weights, sizeof(merged));
        }
        go_on(t, t + 1, holds_after);
    }
    must_hold(context, tutti_sync_flush(sync, NULL));
    printf("step %llu first %g last %g\n", (unsigned long long)steps, (double)weights[0],
           (double)weights[COUNT - 1]);
}

int main(int argc, char **argv)
{
    tutti_context *context;
    tutti_sync *sync = NULL;
    if (argc == 2 && strcmp(argv[1], "serve") == 0) {
        const tutti_options options = TUTTI_OPTIONS_INIT;
        return tutti_server_run(&options) == TUTTI_OK ? 0 : FAILED;
    }
    if (argc < 3) {
        return USAGE;
    }
    if (tutti_init(NULL, &context) != TUTTI_OK) {
        say(tutti_last_error(NULL));
        return NO_INIT;
    }
    must(context, tutti_sync_open(context, TUTTI_WORLD, argv[1], NULL, &sync));
    must(context, tutti_sync_add(sync, "weights", weights, COUNT, TUTTI_F32));
    train(context, sync, strtoull(argv[2], NULL, 10), number_of(argv + 3, "hold", 0));
    tutti_sync_close(sync);
    return tutti_shutdown(context) == TUTTI_OK ? 0 : FAILED;
}
