/* SPDX-License-Identifier: Apache-2.0
 *
 * command_simulate.c - `tutti simulate`: what a training job would do on a cluster. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/config.h"
#include "cli/cluster/cluster_file.h"
#include "cli/commands.h"
#include "cli/simulate/coordinate.h"
#include "cli/simulate/line_cluster.h"
#include "cli/simulate/scenario_file.h"
#include "cli/simulate/simulate_report.h"
#include "cli/simulate/simulate_trace.h"
#include "cli/simulate/simulate_workload.h"
#include "cli/simulate/sweep.h"
#include "cli/simulate/sweep_plot.h"
#include "cli/simulate/validate.h"
#include "sim/sim.h"

enum { EXIT_USAGE = 2, SLOW_MAX = 64, SHOWN_BYTES = 60 };

typedef struct simulate_values {
    const char *graph;
    int64_t batch;
    double samples_per_s;
    int64_t pass_count;
    double time_scale;
    double bytes_scale;
    int dtype;
    int64_t rank_count;
    const char *cluster;
    tt_line_cluster line;
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
    const char *plot;
    const char *trace;
    const char *trace_ranks;
    int64_t trace_steps;
    const char *scenario;
    bool validates;
    const char *markdown;
    bool lists;
    uint64_t given; /* options on the command line */
} simulate_values;

#define AT(member) offsetof(simulate_values, member)

static const tt_option options[] = {
    {'g', "graph", TT_OPTION_STRING, AT(graph), "GRAPH",
     "a dataflow graph (.json), a trace of tensors (.tsv), or the name of a known network; see "
     "tutti schedule --list",
     NULL, NULL, NULL, 0, 0},
    {'\0', "batch", TT_OPTION_INT, AT(batch), "SAMPLES",
     "samples of a rank in a pass; default: those of the network", NULL, NULL, NULL, 1, 1 << 24},
    {'\0', "samples-per-s", TT_OPTION_RATE, AT(samples_per_s), "RATE",
     "samples that a rank alone computes in a second, forward and backward; of a known network; "
     "default: those of a nominal accelerator of 10 TFLOP/s",
     NULL, NULL, NULL, 0, 0},
    {'\0', "accumulate", TT_OPTION_INT, AT(pass_count), "N",
     "passes of computation, of --batch samples each, before gradients are exchanged", "1", NULL,
     NULL, 1, 1 << 20},
    {'\0', "scale-time", TT_OPTION_RATE, AT(time_scale), "FACTOR",
     "computation takes so many times as long", "1", NULL, NULL, 0, 0},
    {'\0', "scale-bytes", TT_OPTION_RATE, AT(bytes_scale), "FACTOR",
     "each tensor has so many times as many bytes", "1", NULL, NULL, 0, 0},
    {'\0', "dtype", TT_OPTION_CHOICE, AT(dtype), NULL, "type in which gradients are exchanged",
     "f32", "f32|f16|bf16", NULL, 0, 0},
    {'n', "ranks", TT_OPTION_INT, AT(rank_count), "N", "number of ranks", "8", NULL, NULL, 1,
     TT_CLUSTER_RANKS_MAX},
    {'\0', "cluster", TT_OPTION_STRING, AT(cluster), "NAME",
     "a known cluster, or a file of one (.json); see tutti cluster", "ethernet-25g", NULL, NULL, 0,
     0},
    {'\0', "mbit", TT_OPTION_INT, AT(line.mbit), "MBIT",
     "instead of --cluster: hosts of one rank whose cards have so many Mbit/s in each direction",
     NULL, NULL, NULL, 8, 10000000},
    {'\0', "overhead", TT_OPTION_INT, AT(line.gap_us), "US",
     "with --mbit, time for which a frame occupies a card in addition to its bytes", NULL, NULL,
     NULL, 0, 1000000},
    {'\0', "latency", TT_OPTION_INT, AT(line.latency_us), "US",
     "with --mbit, latency from card to card", NULL, NULL, NULL, 0, 1000000},
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
     "how times of Tutti's all-reduces are found: by the machines of all ranks, which run the job; "
     "message by message; or by formula; auto: moves where they take seconds and fit the memory",
     "auto", "auto|machines|moves|closed", NULL, 0, 0},
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
     "one line for each value of an option of the job (ranks, strategy, graph, cross=false,true) "
     "or "
     "of a field of clusters (network.bandwidth_gbs); given several times: a grid",
     NULL, NULL, NULL, 0, 0},
    {'\0', "json", TT_OPTION_STRING, AT(json), "FILE", "write one object per line and point", NULL,
     NULL, NULL, 0, 0},
    {'\0', "plot", TT_OPTION_STRING, AT(plot), "FILE",
     "draw a sweep (SVG): step and efficiency over its first axis of numbers", NULL, NULL, NULL, 0,
     0},
    {'\0', "trace", TT_OPTION_STRING, AT(trace), "FILE",
     "write the steps of some ranks, for Perfetto: computation, waits, and all exchanges", NULL,
     NULL, NULL, 0, 0},
    {'\0', "trace-ranks", TT_OPTION_STRING, AT(trace_ranks), "LIST",
     "ranks of the trace, such as 0,7,16-23; default: 0 and the slowest", NULL, NULL, NULL, 0, 0},
    {'\0', "trace-steps", TT_OPTION_INT, AT(trace_steps), "N", "steps of the trace", "1", NULL,
     NULL, 1, TT_TRACE_STEPS_MAX},
    {'\0', "scenario", TT_OPTION_STRING, AT(scenario), "FILE",
     "take options from a file (.json); those on the command line replace the file's", NULL, NULL,
     NULL, 0, 0},
    {'\0', "validate", TT_OPTION_FLAG, AT(validates), NULL,
     "compute what was measured or published, as the files say, and print each error; without "
     "files those of bench/validation/",
     NULL, NULL, NULL, 0, 0},
    {'\0', "markdown", TT_OPTION_STRING, AT(markdown), "FILE",
     "with --validate, write all rows as a document", NULL, NULL, NULL, 0, 0},
    {'\0', "list", TT_OPTION_FLAG, AT(lists), NULL, "list strategies, with their sources", NULL,
     NULL, NULL, 0, 0},
};

typedef struct simulation {
    const simulate_values *values;
    const simulate_values *typed; /* on the command line */
    simulate_values point;        /* of the point that is computed */
    tt_scenario scenario;
    const char *member; /* of the scenario, that an error would be about; or NULL */
    const char *what;   /* the error would be about, besides; or NULL */
    bool is_quiet;      /* remarks about files are not printed */
    tt_simulate_workload loaded;
    tt_slow_rank slow[SLOW_MAX];
    tt_sweep sweep;
    tt_cluster cluster;
    tt_job job; /* of the point that is computed */
    FILE *json;
    tt_sweep_plot plot;
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

static void describe_error(const simulation *own, tt_text *text)
{
    if (own->what != NULL) {
        tt_text_add_words(text, own->what, SHOWN_BYTES);
        tt_text_add(text, ": ");
    }
    tt_text_add_words(text, own->why.bytes, TT_TEXT_BYTES);
}

/* About the member of the scenario that is looked at, if there is one. */
static int complain_here(const simulation *own)
{
    tt_text text = {.length = 0};
    if (own->member != NULL && !tt_option_is_given(&tt_command_simulate, own->typed, own->member)) {
        tt_scenario_where(&own->scenario, own->member, &text);
    }
    describe_error(own, &text);
    return complain(NULL, text.bytes);
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

/* ---- options from files and sweeps --------------------------------------------------------------
 */

static const char *const scenario_files[] = {"graph", "cluster", NULL};
static const char *const scenario_refused[] = {"scenario", "json",        "plot",        "list",
                                               "trace",    "trace-ranks", "trace-steps", "validate",
                                               "markdown", NULL};
static const tt_scenario_rules scenario_rules = {
    .command = &tt_command_simulate, .files = scenario_files, .refused = scenario_refused};

/* ---- points ------------------------------------------------------------------------------------
 */

static bool is_swept(const simulation *own, const char *const *names)
{
    for (size_t i = 0; i < own->sweep.axis_count; i++) {
        for (const char *const *name = names; *name != NULL; name++) {
            if (strcmp(own->sweep.axes[i].name, *name) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* Once, unless it differs from point to point. */
static tt_status load_workload(simulation *own)
{
    static const char *const names[] = {"graph", "batch",      "samples-per-s", "accumulate",
                                        "dtype", "scale-time", "scale-bytes",   NULL};
    const simulate_values *values = &own->point;
    const tt_simulate_workload_config config = {.graph = values->graph,
                                                .batch = values->batch,
                                                .samples_per_s = values->samples_per_s,
                                                .pass_count = values->pass_count,
                                                .time_scale = values->time_scale,
                                                .bytes_scale = values->bytes_scale,
                                                .is_half = values->dtype != 0};
    if (own->loaded.is_loaded && !is_swept(own, names)) {
        return TT_OK;
    }
    tt_simulate_workload_fini(&own->loaded);
    TT_TRY(tt_simulate_workload_load(&config, &own->why, &own->loaded));
    if (own->why.length > 0 && !own->is_quiet) {
        (void)complain(values->graph, own->why.bytes); /* a remark: it was read */
    }
    tt_text_clear(&own->why);
    return TT_OK;
}

/* A file or a known one, or one from the options. */
static tt_status load_cluster(simulation *own)
{
    const simulate_values *values = &own->point;
    const tt_line_cluster *line = &values->line;
    if (line->mbit == 0 && line->gap_us == 0 && line->latency_us == 0) {
        return tt_cluster_load(values->cluster, &own->why, &own->cluster);
    }
    if (tt_option_is_given(&tt_command_simulate, values, "cluster")) {
        tt_text_add(&own->why, "--cluster excludes --mbit, --overhead and --latency: its network "
                               "has its own; leave one out");
        return TT_ERR_BAD_ARGUMENT;
    }
    return tt_line_cluster_make(line, &own->why, &own->cluster);
}

static tt_status set_job(simulation *own)
{
    const simulate_values *values = &own->point;
    own->job = (tt_job){.cluster = &own->cluster,
                        .rank_count = (uint32_t)values->rank_count,
                        .workload = &own->loaded.workload,
                        .samples = own->loaded.samples,
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
    own->member = "cluster";
    TT_TRY(load_cluster(own));
    own->member = "strategy";
    TT_TRY(tt_coordinate_strategy(values->strategy, &own->why, &own->job.strategy));
    own->member = own->sweep.axis_count > 0 ? "sweep" : NULL;
    return TT_OK;
}

static tt_status set_coordinates(simulation *own, size_t index, tt_simulate_coordinate *coordinates)
{
    own->point = *own->values;
    own->member = "sweep";
    for (size_t i = 0; i < own->sweep.axis_count; i++) {
        const char *name = own->sweep.axes[i].name;
        const char *value = tt_sweep_value(&own->sweep, index, i);
        coordinates[i] = (tt_simulate_coordinate){name, value};
        if (tt_cluster_field_find(name) == NULL) {
            TT_TRY(tt_coordinate_set(&scenario_rules, &own->point, &coordinates[i], &own->why));
        }
    }
    return TT_OK;
}

/* The job of the index-th point, and where it differs from others. */
static tt_status set_point(simulation *own, size_t index, tt_simulate_coordinate *coordinates)
{
    tt_text_clear(&own->why);
    TT_TRY(set_coordinates(own, index, coordinates));
    own->member = "graph";
    own->what = own->point.graph;
    TT_TRY(load_workload(own));
    own->what = NULL;
    TT_TRY(set_job(own));
    for (size_t i = 0; i < own->sweep.axis_count; i++) {
        const tt_cluster_field *field = tt_cluster_field_find(coordinates[i].name);
        if (field != NULL) {
            TT_TRY(tt_cluster_field_parse(&own->cluster, field, coordinates[i].value, &own->why));
        }
    }
    return tt_coordinate_check(&own->job, &own->why);
}

/* Its steps are traced besides, if that is wanted. */
static tt_status run_job(simulation *own, tt_job_result *result_out)
{
    const simulate_values *values = own->values;
    if (values->trace == NULL) {
        return tt_job_run(&own->job, &own->why, result_out);
    }
    tt_simulate_trace_config config = {
        .path = values->trace, .step_count = (uint32_t)values->trace_steps, .job = &own->job};
    if (values->trace_ranks != NULL) {
        TT_TRY(tt_rank_ranges_parse(values->trace_ranks, &own->why, &config.ranks));
    }
    return tt_simulate_trace_run(&config, &own->why, result_out);
}

static int show_point(simulation *own, size_t index, const tt_simulate_point *point)
{
    const tt_training_result *step = &point->result->training;
    if (own->sweep.axis_count == 0) {
        tt_simulate_print(point);
    } else {
        if (index == 0) {
            tt_simulate_print_header(point);
        }
        tt_simulate_print_row(point);
    }
    if (own->json != NULL && !tt_simulate_write_json(point, own->json)) {
        return complain(own->values->json, "cannot be written");
    }
    const tt_sweep_plot_value value = {.step_ms = step->step_us / 1000,
                                       .p5_ms = step->p5_us / 1000,
                                       .p95_ms = step->p95_us / 1000,
                                       .efficiency = point->result->efficiency};
    return own->values->plot == NULL || tt_sweep_plot_add(&own->plot, index, &value)
               ? 0
               : complain(own->values->plot, strerror(errno));
}

/* On a terminal, the point that is computed; NULL takes it away. */
static void show_progress(const simulation *own, const size_t *index)
{
    const size_t count = tt_sweep_point_count(&own->sweep);
    if (count < 2 || isatty(STDERR_FILENO) == 0) {
        return;
    }
    if (index != NULL) {
        fprintf(stderr, "point %zu of %zu", *index + 1, count);
    } else {
        fputs("\r\033[K", stderr);
    }
}

static int run_point(simulation *own, size_t index)
{
    tt_simulate_coordinate coordinates[TT_SWEEP_AXES_MAX];
    tt_job_result result;
    show_progress(own, &index);
    tt_status status = set_point(own, index, coordinates);
    status = status == TT_OK ? run_job(own, &result) : status;
    show_progress(own, NULL);
    if (status != TT_OK) {
        tt_text_add(&own->why, "%s", own->why.length > 0 ? "" : tt_status_text(status));
        return complain_here(own);
    }
    const tt_simulate_point point = {.job = &own->job,
                                     .result = &result,
                                     .workload = own->point.graph,
                                     .coordinates = coordinates,
                                     .coordinate_count = own->sweep.axis_count};
    return show_point(own, index, &point);
}

static int run_points(simulation *own)
{
    const size_t count = tt_sweep_point_count(&own->sweep);
    int code = 0;
    for (size_t i = 0; i < count && code == 0; i++) {
        code = run_point(own, i);
    }
    if (own->values->plot != NULL && !tt_sweep_plot_finish(&own->plot)) {
        code = complain(own->values->plot, strerror(errno));
    }
    return code;
}

/* ---- the command -------------------------------------------------------------------------------
 */

static tt_status prepare_sweep(simulation *own)
{
    const simulate_values *values = own->values;
    own->member = "sweep";
    own->what = "--sweep";
    for (size_t i = 0; i < values->sweeps.count; i++) {
        TT_TRY(tt_sweep_add(&own->sweep, values->sweeps.items[i], &own->why));
    }
    if (values->trace != NULL && tt_sweep_point_count(&own->sweep) > 1) {
        own->what = "--trace";
        tt_text_add(&own->why, "a trace is of one job; leave out --sweep");
        return TT_ERR_BAD_ARGUMENT;
    }
    if (values->plot != NULL) {
        own->what = "--plot";
        TT_TRY(tt_sweep_plot_init(&own->plot, &own->sweep, values->plot, &own->why));
        tt_text cluster = {.length = 0};
        if (values->line.mbit > 0) {
            tt_text_add(&cluster, "%lld Mbit/s", (long long)values->line.mbit);
        } else {
            tt_text_add_words(&cluster, values->cluster, SHOWN_BYTES);
        }
        tt_sweep_plot_describe(&own->plot,
                               &(tt_sweep_plot_job){values->graph, cluster.bytes, values->strategy,
                                                    values->rank_count});
    }
    return TT_OK;
}

/* All that is the same at all points. */
static tt_status prepare(simulation *own)
{
    TT_TRY(prepare_sweep(own));
    own->member = "slow";
    own->what = NULL;
    TT_TRY(parse_slow(own));
    return TT_OK;
}

static int simulate(simulation *own)
{
    const simulate_values *values = own->values;
    int code = prepare(own) == TT_OK ? 0 : complain_here(own);
    if (code == 0 && values->json != NULL) {
        own->json = fopen(values->json, "we");
        code = own->json != NULL ? 0 : complain(values->json, strerror(errno));
    }
    code = code == 0 ? run_points(own) : code;
    if (own->json != NULL && fclose(own->json) != 0) {
        code = complain(values->json, strerror(errno));
    }
    return code;
}

/* The options of the file, replaced by those of the command line. */
static tt_status load_scenario(simulation *own)
{
    TT_TRY(tt_scenario_load(&scenario_rules, own->values->scenario, &own->why, &own->scenario));
    tt_option_override(&tt_command_simulate, own->scenario.values, own->values);
    own->values = own->scenario.values;
    return TT_OK;
}

static void fini(simulation *own)
{
    tt_sweep_plot_fini(&own->plot);
    tt_sweep_fini(&own->sweep);
    tt_simulate_workload_fini(&own->loaded);
    tt_scenario_fini(&own->scenario);
}

/* ---- validation --------------------------------------------------------------------------------
 */

static tt_status compute_point(simulation *own, json_t **figures_out)
{
    tt_simulate_coordinate coordinates[TT_SWEEP_AXES_MAX];
    tt_job_result result;
    if (tt_sweep_point_count(&own->sweep) != 1) {
        tt_text_add(&own->why, "a row is one job; give one value of each name");
        return TT_ERR_BAD_ARGUMENT;
    }
    TT_TRY(set_point(own, 0, coordinates));
    TT_TRY(tt_job_run(&own->job, &own->why, &result));
    const tt_simulate_point point = {
        .job = &own->job, .result = &result, .workload = own->point.graph};
    *figures_out = tt_simulate_figures(&point);
    return *figures_out != NULL ? TT_OK : TT_ERR_NO_MEMORY;
}

/* tt_validate_compute_fn */
static tt_status compute_figures(const void *values, tt_text *why, json_t **figures_out)
{
    simulation own = {.values = values, .typed = values, .is_quiet = true};
    tt_status status = prepare(&own);
    status = status == TT_OK ? compute_point(&own, figures_out) : status;
    if (status != TT_OK) {
        tt_text_add(&own.why, "%s", own.why.length > 0 ? "" : tt_status_text(status));
        describe_error(&own, why);
    }
    fini(&own);
    return status;
}

/* What cannot be asked for at the same time, or is missing. NULL: nothing. */
static const char *usage_error(const simulate_values *values, int operand_count)
{
    if (!values->validates && operand_count > 0) {
        return "files of rows need --validate; give a graph as --graph FILE";
    }
    if (values->markdown != NULL && !values->validates) {
        return "--markdown needs --validate";
    }
    return values->graph == NULL && values->sweeps.count == 0 && !values->validates
               ? "no graph; give --graph FILE, or a network of tutti schedule --list"
               : NULL;
}

static int run(const void *raw_values, int operand_count, char **operands)
{
    simulation own = {.values = raw_values, .typed = raw_values};
    if (own.values->lists) {
        return print_list();
    }
    if (own.values->scenario != NULL && load_scenario(&own) != TT_OK) {
        return complain(NULL, own.why.bytes);
    }
    int code = EXIT_USAGE;
    const char *error = usage_error(own.values, operand_count);
    if (error != NULL) {
        (void)complain(NULL, error);
    } else if (own.values->validates) {
        code = tt_validate(&(tt_validate_config){.paths = (const char *const *)operands,
                                                 .path_count = (size_t)operand_count,
                                                 .rules = &scenario_rules,
                                                 .compute = compute_figures,
                                                 .markdown = own.values->markdown});
    } else {
        code = simulate(&own);
    }
    fini(&own);
    return code;
}

static const tt_command_note exit_status[] = {
    {"0", "All points were computed."},
    {"1", "A file cannot be read, a job cannot be, and the error names the culprit; or a row of "
          "--validate is outside its tolerance."},
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
    {"tutti simulate -g resnet50 -n 64 --trace step.json --trace-ranks 0-7",
     "A step of the first eight ranks, for ui.perfetto.dev:"},
    {"tutti simulate --scenario scaling.json --plot scaling.svg",
     "All of it in a file: {\"graph\": \"resnet50\", \"sweep\": {\"ranks\": [8, 64, 512]}}"},
    {"tutti simulate --validate", "Rows of bench/validation, in the source tree:"},
    {"tutti simulate -g resnet50 --cluster summit --sweep ranks=96,768,6000,27600 --sweep "
     "strategy=tutti,horovod-cached,horovod --engine nccl",
     "What agreeing on tensors costs, with the same all-reduces:"},
    {NULL, NULL},
};

const tt_command tt_command_simulate = {
    .name = "simulate",
    .summary = "Compute what a training job would do on a cluster that is described.",
    .operands = "[FILE...]",
    .operand_max = 64,
    .description =
        "Takes a graph, trace or known network, and a cluster; plans the exchange of gradients as "
        "the strategy does; finds how long each exchange of the plan takes; and computes training "
        "steps whose ranks differ as the cluster's noise says. All-reduces of Tutti are walked "
        "message by message on the cluster's cards, links and memory with the library's own "
        "algorithms, or computed by formula (--depth), or the machines of all ranks run the job; "
        "those "
        "of NCCL are its own model of them, "
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
        "what is done, in the files of --json and --plot, too.\n\n"
        "A scenario is an object whose members are options by their long names: numbers, texts, "
        "true and false; --sweep and --slow are objects, {\"ranks\": [8, 64]}. Files in it are "
        "found from its folder.\n\n"
        "In a trace every moment of a rank is in one bar: forward (with all passes before the last "
        "backward), backward, waits for the slowest rank, for exchanges and for samples, overhead. "
        "Exchanges are those of all ranks: a bar is as long as an exchange keeps the next one "
        "waiting; arrived_us is when its result is there. Times are microseconds from the start of "
        "the job, which settles for four steps.\n\n"
        "--validate prints what was expected of each row and what is computed, and the error in "
        "percent of the first. A row that was fitted gave the model a number, a predicted one did "
        "not; one that is only shown may have any error.",
    .options = options,
    .option_count = TT_ARRAY_COUNT(options),
    .values_bytes = sizeof(simulate_values),
    .given_offset = AT(given),
    .exit_status = exit_status,
    .examples = examples,
    .run = run,
};
