/* SPDX-License-Identifier: Apache-2.0
 *
 * command_simulate.c - `tutti simulate`: what a training job would do on a cluster. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/config.h"
#include "base/nearest.h"
#include "cli/cluster/cluster_file.h"
#include "cli/commands.h"
#include "cli/schedule/graph_file.h"
#include "cli/simulate/simulate_report.h"
#include "cli/simulate/sweep.h"
#include "sim/sim.h"

enum { EXIT_USAGE = 2, SLOW_MAX = 64, SHOWN_BYTES = 60, CYCLE_MS_MAX = 60000 };

typedef struct simulate_values {
    const char *graph;
    int64_t batch;
    double samples_per_s;
    int dtype;
    int64_t rank_count;
    const char *cluster;
    const char *strategy;
    uint64_t chunk_bytes;
    uint64_t credit_bytes;
    uint64_t fuse_bytes;
    int64_t group_count;
    double cycle_ms;
    int64_t server_count;
    int control;
    int engine;
    int depth;
    const char *algorithm;
    bool crosses_steps;
    tt_option_list slow;
    int64_t step_count;
    int64_t seed;
    tt_option_list sweeps;
    const char *json;
    bool lists;
} simulate_values;

#define AT(member) offsetof(simulate_values, member)

static const tt_option options[] = {
    {'g', "graph", TT_OPTION_STRING, AT(graph), "GRAPH",
     "a dataflow graph (.json), a trace of tensors (.tsv), or the name of a known network; see "
     "tutti schedule --list",
     NULL, NULL, NULL, 0, 0},
    {'\0', "batch", TT_OPTION_INT, AT(batch), "SAMPLES",
     "samples of a rank in a step; default: those of the network", NULL, NULL, NULL, 1, 1 << 24},
    {'\0', "samples-per-s", TT_OPTION_RATE, AT(samples_per_s), "RATE",
     "samples that a rank alone computes in a second, forward and backward; of a known network; "
     "default: those of a nominal accelerator of 10 TFLOP/s",
     NULL, NULL, NULL, 0, 0},
    {'\0', "dtype", TT_OPTION_CHOICE, AT(dtype), NULL, "type in which gradients are exchanged",
     "f32", "f32|f16|bf16", NULL, 0, 0},
    {'n', "ranks", TT_OPTION_INT, AT(rank_count), "N", "number of ranks", "8", NULL, NULL, 1,
     TT_CLUSTER_RANKS_MAX},
    {'\0', "cluster", TT_OPTION_STRING, AT(cluster), "NAME",
     "a known cluster, or a file of one (.json); see tutti cluster", "ethernet-25g", NULL, NULL, 0,
     0},
    {'\0', "strategy", TT_OPTION_STRING, AT(strategy), "NAME",
     "how gradients are exchanged, see --list", "tutti", NULL, NULL, 0, 0},
    {'c', "chunk", TT_OPTION_BYTES, AT(chunk_bytes), "BYTES",
     "size of chunks, or of the buckets of ddp and tf-distribute; 0: the strategy's own", "0", NULL,
     NULL, 0, 0},
    {'\0', "credit", TT_OPTION_BYTES, AT(credit_bytes), "BYTES",
     "bytes in flight, of strategy tutti; 0 is four chunks", "0", NULL, NULL, 0, 0},
    {'\0', "fuse", TT_OPTION_BYTES, AT(fuse_bytes), "BYTES",
     "tensors up to this length are fused, of strategy tutti (0: 64K); of horovod and "
     "horovod-cached together up to this (0: 128M)",
     "0", NULL, NULL, 0, 0},
    {'\0', "groups", TT_OPTION_INT, AT(group_count), "N",
     "of consecutive tensors that are requested together, of horovod and horovod-cached; 0: each "
     "alone",
     "0", NULL, NULL, 0, 1 << 20},
    {'\0', "cycle", TT_OPTION_RATE, AT(cycle_ms), "MS",
     "milliseconds between two negotiations of horovod, horovod-cached and --control original; "
     "default: 1",
     NULL, NULL, NULL, 0, 0},
    {'\0', "control", TT_OPTION_CHOICE, AT(control), NULL,
     "how ranks agree on tensors, of strategy tutti, as TUTTI_CONTROL", "plan",
     "plan|bitvector|coordinator|original", NULL, 0, 0},
    {'\0', "servers", TT_OPTION_INT, AT(server_count), "N",
     "hosts of servers beside those of ranks, of byteps (0: none) and ps (0: as many as hosts)",
     "0", NULL, NULL, 0, TT_CLUSTER_RANKS_MAX},
    {'\0', "engine", TT_OPTION_CHOICE, AT(engine), NULL,
     "what makes the all-reduces; auto: tutti for tutti, NCCL for others where the cluster has "
     "accelerators, else tutti for ddp and tf-distribute and mpi for Horovod",
     "auto", "auto|tutti|nccl|mpi", NULL, 0, 0},
    {'\0', "depth", TT_OPTION_CHOICE, AT(depth), NULL,
     "how times of Tutti's all-reduces are found: message by message, or by formula; auto: moves "
     "where they take seconds and fit the memory",
     "auto", "auto|moves|closed", NULL, 0, 0},
    {'\0', "algorithm", TT_OPTION_STRING, AT(algorithm), "NAME",
     "of all-reduces, where it fits; default: as the library chooses", NULL, NULL, NULL, 0, 0},
    {'\0', "cross", TT_OPTION_FLAG, AT(crosses_steps), NULL,
     "the next forward begins with the parameters that have arrived, of strategy tutti", NULL, NULL,
     NULL, 0, 0},
    {'\0', "slow", TT_OPTION_LIST, AT(slow), "RANK=FACTOR",
     "this rank computes so many times as long; may be given several times", NULL, NULL, NULL, 0,
     0},
    {'\0', "steps", TT_OPTION_INT, AT(step_count), "N", "steps that are simulated", "50", NULL,
     NULL, 1, 100000},
    {'\0', "seed", TT_OPTION_INT, AT(seed), "N", "of the noise of ranks", "1", NULL, NULL, 0,
     INT64_MAX},
    {'\0', "sweep", TT_OPTION_LIST, AT(sweeps), "NAME=A,B,...",
     "one line for each value of ranks, strategy, cluster, chunk, credit, fuse, groups, cycle, "
     "control, servers, engine, depth, algorithm, seed, or a field of clusters "
     "(network.bandwidth_gbs); "
     "given several times: a grid",
     NULL, NULL, NULL, 0, 0},
    {'\0', "json", TT_OPTION_STRING, AT(json), "FILE", "write one object per line and point", NULL,
     NULL, NULL, 0, 0},
    {'\0', "list", TT_OPTION_FLAG, AT(lists), NULL, "list strategies, with their sources", NULL,
     NULL, NULL, 0, 0},
};

typedef struct simulation {
    const simulate_values *values;
    tt_graph *graph;
    tt_scratch scratch;
    tt_workload workload;
    tt_slow_rank slow[SLOW_MAX];
    tt_sweep sweep;
    tt_cluster cluster;
    tt_job job; /* of the point that is computed */
    FILE *json;
    tt_text why;
} simulation;

static int complain(const char *what, const char *why)
{
    if (what != NULL) {
        fprintf(stderr, "tutti simulate: %s: %s\n", what, why);
    } else {
        fprintf(stderr, "tutti simulate: %s\n", why);
    }
    return 1;
}

static int print_list(void)
{
    for (size_t i = 0; tt_strategy_at(i) != NULL; i++) {
        const tt_strategy *strategy = tt_strategy_at(i);
        printf("%-15s%s\n%-15sfrom: %s\n", strategy->name, strategy->summary, "", strategy->source);
    }
    return 0;
}

/* ---- input -------------------------------------------------------------------------------------
 */

static tt_status find_strategy(const char *name, tt_text *why, const tt_strategy **strategy_out)
{
    const tt_strategy *strategy = tt_strategy_find(name);
    if (strategy == NULL) {
        tt_nearest nearest;
        tt_nearest_init(&nearest, "", name);
        for (size_t i = 0; tt_strategy_at(i) != NULL; i++) {
            tt_nearest_offer(&nearest, tt_strategy_at(i)->name);
        }
        tt_text_add(why, "unknown strategy ");
        tt_text_add_quoted(why, name, SHOWN_BYTES);
        tt_text_add(why, "%s%s; --list shows them",
                    nearest.best[0] != '\0' ? "; did you mean " : "", nearest.best);
        return TT_ERR_BAD_ARGUMENT;
    }
    *strategy_out = strategy;
    return TT_OK;
}

static tt_status parse_slow(simulation *own)
{
    const tt_option_list *list = &own->values->slow;
    if (list->count > SLOW_MAX) {
        tt_text_add(&own->why, "--slow: at most %d ranks can be named", SLOW_MAX);
        return TT_ERR_BAD_ARGUMENT;
    }
    for (size_t i = 0; i < list->count; i++) {
        char *end = NULL;
        const unsigned long long rank = strtoull(list->items[i], &end, 10);
        double factor = 0;
        if (end == list->items[i] || *end != '=' || rank > UINT32_MAX ||
            !tt_config_parse_real(end + 1, &factor) || !(factor > 0 && factor <= 1e6)) {
            tt_text_add(&own->why, "--slow ");
            tt_text_add_quoted(&own->why, list->items[i], SHOWN_BYTES);
            tt_text_add(&own->why, ": give RANK=FACTOR, such as 3=1.5");
            return TT_ERR_BAD_ARGUMENT;
        }
        own->slow[i] = (tt_slow_rank){(uint32_t)rank, factor};
    }
    return TT_OK;
}

/* Gradients of the graph are f32. */
static tt_status narrow(simulation *own)
{
    tt_tensor *tensors =
        tt_scratch_take(&own->scratch, own->workload.tensor_count, sizeof(*tensors));
    TT_TRY(tt_scratch_status(&own->scratch));
    for (size_t i = 0; i < own->workload.tensor_count; i++) {
        tensors[i] = own->workload.tensors[i];
        tensors[i].bytes /= 2;
    }
    own->workload.tensors = tensors;
    return TT_OK;
}

static tt_status load_workload(simulation *own)
{
    const simulate_values *values = own->values;
    const tt_network_config config = {.batch = (uint32_t)values->batch,
                                      .samples_per_s = values->samples_per_s};
    TT_TRY(tt_graph_load(values->graph, &config, &own->why, &own->graph));
    if (own->why.length > 0) {
        (void)complain(values->graph, own->why.bytes); /* a remark: it was read */
        tt_text_clear(&own->why);
    }
    TT_TRY(tt_graph_workload(own->graph, NULL, &own->scratch, &own->why, &own->workload));
    return values->dtype == 0 ? TT_OK : narrow(own);
}

static double samples_of(const simulate_values *values)
{
    const tt_network *network =
        tt_graph_is_file(values->graph) ? NULL : tt_network_find(values->graph);
    return values->batch > 0 ? (double)values->batch : network != NULL ? network->batch : 0;
}

/* ---- points ------------------------------------------------------------------------------------
 */

static tt_status set_bytes(const char *text, uint64_t *bytes_out, tt_text *why)
{
    if (tt_option_parse_bytes(text, bytes_out) != TT_OK) {
        tt_text_add_quoted(why, text, SHOWN_BYTES);
        tt_text_add(why, " is no size; give bytes, or a number with K, M or G");
        return TT_ERR_BAD_ARGUMENT;
    }
    return TT_OK;
}

static tt_status set_count(const char *text, uint64_t most, uint64_t *count_out, tt_text *why)
{
    int64_t value;
    if (!tt_config_parse_int(text, &value) || value < 0 || (uint64_t)value > most) {
        tt_text_add_quoted(why, text, SHOWN_BYTES);
        tt_text_add(why, " is no number from 0 to %" PRIu64, most);
        return TT_ERR_BAD_ARGUMENT;
    }
    *count_out = (uint64_t)value;
    return TT_OK;
}

static tt_status set_number32(const char *text, uint32_t *count_out, tt_text *why)
{
    uint64_t number = 0;
    TT_TRY(set_count(text, TT_CLUSTER_RANKS_MAX, &number, why));
    *count_out = (uint32_t)number;
    return TT_OK;
}

static tt_status set_cycle(const char *text, double *cycle_us_out, tt_text *why)
{
    double value;
    if (!tt_config_parse_real(text, &value) || !(value > 0)) {
        tt_text_add_quoted(why, text, SHOWN_BYTES);
        tt_text_add(why, " is no time; give milliseconds above 0");
        return TT_ERR_BAD_ARGUMENT;
    }
    *cycle_us_out = 1000 * value;
    return TT_OK;
}

/* The place of a word among `count` names. */
static tt_status set_word(const char *text, const char *const *names, int count, tt_text *why,
                          int *place_out)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(text, names[i]) == 0) {
            *place_out = i;
            return TT_OK;
        }
    }
    tt_text_add_quoted(why, text, SHOWN_BYTES);
    tt_text_add(why, " is none of");
    for (int i = 0; i < count; i++) {
        tt_text_add(why, "%s %s", i > 0 ? "," : "", names[i]);
    }
    return TT_ERR_BAD_ARGUMENT;
}

static tt_status set_mode(tt_job *job, const char *name, const char *text, tt_text *why)
{
    const char *names[TT_ENGINES];
    const bool is_engine = strcmp(name, "engine") == 0, is_depth = strcmp(name, "depth") == 0;
    const int count = is_engine ? TT_ENGINE_SERVERS : is_depth ? TT_DEPTHS : TT_AGREE_MODES;
    int place = 0;
    for (int i = 0; i < count; i++) {
        names[i] = is_engine  ? tt_engine_name((tt_engine)i)
                   : is_depth ? tt_depth_name((tt_depth)i)
                              : tt_agree_mode_name((tt_agree_mode)i);
    }
    TT_TRY(set_word(text, names, count, why, &place));
    if (is_engine) {
        job->engine = (tt_engine)place;
    } else if (is_depth) {
        job->depth = (tt_depth)place;
    } else {
        job->settings.control = (tt_agree_mode)place;
    }
    return TT_OK;
}

static tt_status set_field(simulation *own, const char *name, const char *value)
{
    const tt_cluster_field *field = tt_cluster_field_find(name);
    if (field == NULL) {
        tt_text_add_quoted(&own->why, name, SHOWN_BYTES);
        tt_text_add(&own->why, " cannot be swept; give ranks, strategy, cluster, chunk, credit, "
                               "fuse, groups, cycle, control, servers, engine, depth, algorithm, "
                               "seed, or a field of clusters: ");
        tt_cluster_field_suggest(name, &own->why);
        return TT_ERR_BAD_ARGUMENT;
    }
    return tt_cluster_field_parse(&own->cluster, field, value, &own->why);
}

static tt_status set_coordinate(simulation *own, const char *name, const char *value)
{
    tt_job *job = &own->job;
    if (strcmp(name, "strategy") == 0) {
        return find_strategy(value, &own->why, &job->strategy);
    } else if (strcmp(name, "cluster") == 0) {
        return tt_cluster_load(value, &own->why, &own->cluster);
    } else if (strcmp(name, "chunk") == 0) {
        return set_bytes(value, &job->settings.chunk_bytes, &own->why);
    } else if (strcmp(name, "credit") == 0) {
        return set_bytes(value, &job->settings.credit_bytes, &own->why);
    } else if (strcmp(name, "fuse") == 0) {
        return set_bytes(value, &job->settings.fuse_bytes, &own->why);
    } else if (strcmp(name, "algorithm") == 0) {
        job->algorithm = value;
        return TT_OK;
    } else if (strcmp(name, "seed") == 0) {
        return set_count(value, INT64_MAX, &job->seed, &own->why);
    } else if (strcmp(name, "ranks") == 0) {
        return set_number32(value, &job->rank_count, &own->why);
    } else if (strcmp(name, "groups") == 0) {
        return set_number32(value, &job->settings.group_count, &own->why);
    } else if (strcmp(name, "servers") == 0) {
        return set_number32(value, &job->settings.server_count, &own->why);
    } else if (strcmp(name, "cycle") == 0) {
        return set_cycle(value, &job->settings.cycle_us, &own->why);
    } else if (strcmp(name, "engine") == 0 || strcmp(name, "depth") == 0 ||
               strcmp(name, "control") == 0) {
        return set_mode(job, name, value, &own->why);
    }
    return set_field(own, name, value);
}

/* What a strategy has no use for, so that no figure is mistaken for another one. */
static tt_status check_settings(const tt_job *job, tt_text *why)
{
    const tt_strategy *strategy = job->strategy;
    const tt_strategy_settings *settings = &job->settings;
    const tt_engine engine =
        tt_strategy_engine(strategy, job->engine, job->cluster->generation != TT_CLUSTER_NO_GPU);
    const struct {
        bool is_unused;
        const char *name;
    } rules[] = {
        {settings->crosses_steps && !strategy->can_cross, "--cross"},
        {settings->credit_bytes > 0 && !strategy->takes_credit, "--credit"},
        {settings->fuse_bytes > 0 && !strategy->takes_fuse, "--fuse"},
        {settings->chunk_bytes > 0 && (strategy->takes_cycles || strategy->pushes), "--chunk"},
        {settings->group_count > 0 && !strategy->takes_cycles, "--groups"},
        {settings->cycle_us > 0 && !strategy->takes_cycles &&
             settings->control != TT_AGREE_ORIGINAL,
         "--cycle"},
        {settings->control != TT_AGREE_PLAN && !strategy->takes_control, "--control"},
        {settings->server_count > 0 && !strategy->takes_servers, "--servers"},
        {job->algorithm != NULL && engine != TT_ENGINE_TUTTI, "--algorithm"},
    };
    if (settings->cycle_us > CYCLE_MS_MAX * 1000.0) {
        tt_text_add(why, "--cycle: %g ms; give at most %d", settings->cycle_us / 1000,
                    CYCLE_MS_MAX);
        return TT_ERR_BAD_ARGUMENT;
    }
    for (size_t i = 0; i < TT_ARRAY_COUNT(rules); i++) {
        if (rules[i].is_unused) {
            tt_text_add(why, "%s has no effect on strategy %s with engine %s; leave it out",
                        rules[i].name, strategy->name, tt_engine_name(engine));
            return TT_ERR_BAD_ARGUMENT;
        }
    }
    return TT_OK;
}

static tt_status set_job(simulation *own)
{
    const simulate_values *values = own->values;
    own->job = (tt_job){.cluster = &own->cluster,
                        .rank_count = (uint32_t)values->rank_count,
                        .workload = &own->workload,
                        .samples = samples_of(values),
                        .settings = {.chunk_bytes = values->chunk_bytes,
                                     .credit_bytes = values->credit_bytes,
                                     .fuse_bytes = values->fuse_bytes,
                                     .group_count = (uint32_t)values->group_count,
                                     .cycle_us = 1000 * values->cycle_ms,
                                     .server_count = (uint32_t)values->server_count,
                                     .control = (tt_agree_mode)values->control,
                                     .crosses_steps = values->crosses_steps},
                        .engine = (tt_engine)values->engine,
                        .depth = (tt_depth)values->depth,
                        .algorithm = values->algorithm,
                        .step_count = (uint32_t)values->step_count,
                        .seed = (uint64_t)values->seed,
                        .slow = own->slow,
                        .slow_count = values->slow.count,
                        .allocator = &tt_allocator_default};
    TT_TRY(tt_cluster_load(values->cluster, &own->why, &own->cluster));
    return find_strategy(values->strategy, &own->why, &own->job.strategy);
}

static int run_point(simulation *own, size_t index)
{
    tt_simulate_coordinate coordinates[TT_SWEEP_AXES_MAX];
    tt_job_result result;
    tt_text_clear(&own->why);
    tt_status status = set_job(own);
    /* a cluster first: the fields that are swept are its */
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < own->sweep.axis_count && status == TT_OK; i++) {
            const char *name = own->sweep.axes[i].name;
            const char *value = tt_sweep_value(&own->sweep, index, i);
            coordinates[i] = (tt_simulate_coordinate){name, value};
            if ((strcmp(name, "cluster") == 0) == (pass == 0)) {
                status = set_coordinate(own, name, value);
            }
        }
    }
    status = status == TT_OK ? check_settings(&own->job, &own->why) : status;
    status = status == TT_OK ? tt_job_run(&own->job, &own->why, &result) : status;
    if (status != TT_OK) {
        return complain(NULL, own->why.length > 0 ? own->why.bytes : tt_status_text(status));
    }
    const tt_simulate_point point = {.job = &own->job,
                                     .result = &result,
                                     .workload = own->values->graph,
                                     .coordinates = coordinates,
                                     .coordinate_count = own->sweep.axis_count};
    if (own->sweep.axis_count == 0) {
        tt_simulate_print(&point);
    } else {
        if (index == 0) {
            tt_simulate_print_header(&point);
        }
        tt_simulate_print_row(&point);
    }
    return own->json == NULL || tt_simulate_write_json(&point, own->json)
               ? 0
               : complain(own->values->json, "cannot be written");
}

static int run_points(simulation *own)
{
    const size_t count = tt_sweep_point_count(&own->sweep);
    int code = 0;
    for (size_t i = 0; i < count && code == 0; i++) {
        code = run_point(own, i);
    }
    return code;
}

/* ---- the command -------------------------------------------------------------------------------
 */

static int simulate(simulation *own)
{
    const simulate_values *values = own->values;
    for (size_t i = 0; i < values->sweeps.count; i++) {
        if (tt_sweep_add(&own->sweep, values->sweeps.items[i], &own->why) != TT_OK) {
            return complain("--sweep", own->why.bytes);
        }
    }
    if (parse_slow(own) != TT_OK) {
        return complain(NULL, own->why.bytes);
    }
    const tt_status status = load_workload(own);
    if (status != TT_OK) {
        return complain(values->graph,
                        own->why.length > 0 ? own->why.bytes : tt_status_text(status));
    }
    if (values->json != NULL) {
        own->json = fopen(values->json, "we");
        if (own->json == NULL) {
            return complain(values->json, strerror(errno));
        }
    }
    int code = run_points(own);
    if (own->json != NULL && fclose(own->json) != 0) {
        code = complain(values->json, strerror(errno));
    }
    return code;
}

static int run(const void *raw_values, int operand_count, char **operands)
{
    simulation own = {.values = raw_values};
    (void)operand_count;
    (void)operands;
    if (own.values->lists) {
        return print_list();
    }
    if (own.values->graph == NULL) {
        (void)complain(NULL, "no graph; give --graph FILE, or a network of tutti schedule --list");
        return EXIT_USAGE;
    }
    tt_scratch_init(&own.scratch, &tt_allocator_default);
    const int code = simulate(&own);
    tt_sweep_fini(&own.sweep);
    tt_scratch_fini(&own.scratch);
    tt_graph_destroy(own.graph);
    return code;
}

static const tt_command_note exit_status[] = {
    {"0", "All points were computed."},
    {"1", "A file cannot be read, or a job cannot be; the error names the culprit."},
    {"2", "Wrong usage."},
    {NULL, NULL},
};

static const tt_command_note examples[] = {
    {"tutti simulate -g resnet50 --cluster ethernet-25g -n 64", "ResNet-50 on sixteen servers:"},
    {"tutti simulate -g bert-large --batch 32 --samples-per-s 300 --sweep ranks=8,64,512 --sweep "
     "strategy=tutti,ddp",
     "How two strategies scale with an accelerator that trains 300 texts a second:"},
    {"tutti simulate -g vgg16 --sweep network.bandwidth_gbs=1,2,5,10 --json vgg.json",
     "What a faster network would gain:"},
    {"tutti simulate -g resnet50 -n 16 --slow 3=1.5", "What one slow rank costs:"},
    {"tutti simulate -g resnet50 --cluster summit --sweep ranks=96,768,6000,27600 --sweep "
     "strategy=tutti,horovod-cached,horovod --engine nccl",
     "What agreeing on tensors costs, with the same all-reduces:"},
    {NULL, NULL},
};

const tt_command tt_command_simulate = {
    .name = "simulate",
    .summary = "Compute what a training job would do on a cluster that is described.",
    .operands = "",
    .description =
        "Takes a graph, trace or known network, and a cluster; plans the exchange of gradients as "
        "the strategy does; finds how long each exchange of the plan takes; and computes training "
        "steps whose ranks differ as the cluster's noise says. All-reduces of Tutti are walked "
        "message by message on the cluster's cards, links and memory with the library's own "
        "algorithms, or computed by formula (--depth); those of NCCL are its own model of them, "
        "those of MPI and of servers formulas. Nothing is measured here.\n\n"
        "The step is its mean over --steps; p5 and p95 are percentiles over steps. It is the sum "
        "of: computation, of the mean rank; waiting for the slowest rank, without which no "
        "all-reduce ends; exposed communication, which computation does not hide; agreement on "
        "what is exchanged; overhead of the processor; waiting for samples "
        "(input.samples_per_s). \"without\" is what the step would be if the network, the "
        "agreement or the noise took no time. Efficiency is the computation of a rank alone, "
        "without noise, over the step. For a step of time T that computes for C and occupies the "
        "network for N: rho = N / C; alpha = (N + C - T) / min(N, C); U = C / T.\n\n"
        "Messages and bytes are those that all ranks together send in a step, without heads; sizes "
        "of exchanges are those of the plan before chunks are cut. The same options and files give "
        "the same output. Each line is written when it is computed: an interrupted sweep leaves "
        "what "
        "is done.",
    .options = options,
    .option_count = TT_ARRAY_COUNT(options),
    .values_bytes = sizeof(simulate_values),
    .exit_status = exit_status,
    .examples = examples,
    .run = run,
};
