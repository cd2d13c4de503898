/* SPDX-License-Identifier: Apache-2.0
 *
 * simulate_workload.c - see simulate_workload.h. */
#include "cli/simulate/simulate_workload.h"

#include "base/base.h"
#include "cli/schedule/graph_file.h"

static double samples_of(const tt_simulate_workload_config *config)
{
    const tt_network *network =
        tt_graph_is_file(config->graph) ? NULL : tt_network_find(config->graph);
    const double batch = config->batch > 0 ? (double)config->batch
                         : network != NULL ? network->batch
                                           : 0;
    return batch * (double)config->pass_count;
}

/* A file has its own times. */
static tt_status check(const tt_simulate_workload_config *config, tt_text *why)
{
    if (config->graph == NULL) {
        tt_text_add(why, "there is no graph; give --graph FILE, or a network of tutti schedule "
                         "--list");
        return TT_ERR_BAD_ARGUMENT;
    }
    if (tt_graph_is_file(config->graph) && config->samples_per_s > 0) {
        tt_text_add(why, "--samples-per-s is for known networks, and a file has its own times; "
                         "give --scale-time");
        return TT_ERR_BAD_ARGUMENT;
    }
    return TT_OK;
}

tt_status tt_simulate_workload_load(const tt_simulate_workload_config *config, tt_text *why,
                                    tt_simulate_workload *loaded_out)
{
    const tt_network_config network = {.batch = (uint32_t)config->batch,
                                       .samples_per_s = config->samples_per_s};
    const tt_workload_change change = {.pass_count = (uint32_t)config->pass_count,
                                       .time_scale = config->time_scale,
                                       .bytes_scale =
                                           config->bytes_scale * (config->is_half ? 0.5 : 1)};
    tt_simulate_workload *loaded = loaded_out;
    tt_workload traced;
    tt_text cause = {.length = 0};
    TT_TRY(check(config, why));
    *loaded = (tt_simulate_workload){.is_loaded = true, .samples = samples_of(config)};
    tt_scratch_init(&loaded->scratch, &tt_allocator_default);
    TT_TRY(tt_graph_load(config->graph, &network, why, &loaded->graph));
    TT_TRY(tt_graph_workload(loaded->graph, NULL, &loaded->scratch, why, &traced));
    const tt_status status =
        tt_workload_change_apply(&change, &traced, &loaded->scratch, &cause, &loaded->workload);
    if (status != TT_OK) {
        *why = cause; /* not the remark */
    }
    return status;
}

void tt_simulate_workload_fini(tt_simulate_workload *loaded)
{
    if (loaded->is_loaded) {
        tt_scratch_fini(&loaded->scratch);
        tt_graph_destroy(loaded->graph);
    }
    *loaded = (tt_simulate_workload){.is_loaded = false};
}
