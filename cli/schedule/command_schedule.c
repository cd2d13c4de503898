/* SPDX-License-Identifier: Apache-2.0
 *
 * command_schedule.c - `tutti schedule`: the plan of a policy for a graph, without a run. */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/nearest.h"
#include "cli/commands.h"
#include "cli/schedule/graph_file.h"
#include "cli/schedule/samples.h"
#include "cli/schedule/schedule_json.h"
#include "cli/schedule/schedule_plot.h"
#include "cli/schedule/schedule_values.h"
#include "model/model.h"
#include "model/registry.h"
#include "schedule/schedule.h"
#include "tune/tune.h"

#define AT(member) offsetof(tt_schedule_values, member)

static const tt_option options[] = {
    {'g', "graph", TT_OPTION_STRING, AT(graph), "GRAPH",
     "a dataflow graph (.json), a trace of tensors (.tsv), or the name of a known network", NULL,
     NULL, NULL, 0, 0},
    {'\0', "batch", TT_OPTION_INT, AT(batch), "SAMPLES",
     "samples of a rank in a step, of a known network; default: see --list", NULL, NULL, NULL, 1,
     1 << 24},
    {'\0', "samples-per-s", TT_OPTION_RATE, AT(samples_per_s), "RATE",
     "samples that a rank computes in a second, forward and backward without communication; of a "
     "known network; default: those of a nominal accelerator of 10 TFLOP/s",
     NULL, NULL, NULL, 0, 0},
    {'p', "policy", TT_OPTION_STRING, AT(policy), "NAME",
     "scheduling policy, see --list; default: priority", NULL, NULL, NULL, 0, 0},
    {'\0', "form", TT_OPTION_CHOICE, AT(form), NULL, "how gradients are summed", "allreduce",
     "allreduce|server", NULL, 0, 0},
    {'n', "ranks", TT_OPTION_INT, AT(rank_count), "N",
     "number of ranks; default: as in --samples, else 4", NULL, NULL, NULL, 2, 1 << 20},
    {'\0', "mbit", TT_OPTION_INT, AT(mbit), "MBIT",
     "bandwidth of a link in each direction, in Mbit/s", "10000", NULL, NULL, 1, 10000000},
    {'\0', "overhead", TT_OPTION_INT, AT(overhead_us), "US",
     "time that a transfer occupies the wire in addition to its bytes, in microseconds", "50", NULL,
     NULL, 0, 1000000000},
    {'\0', "latency", TT_OPTION_INT, AT(latency_us), "US",
     "time until a transfer is acknowledged, in microseconds", "100", NULL, NULL, 0, 1000000000},
    {'\0', "samples", TT_OPTION_STRING, AT(samples), "FILE",
     "measured transfers, to which f(d) = a + b d is fitted: output of tutti bench allreduce "
     "--json FILE, or lines 'bytes microseconds'; replaces --mbit, --overhead and --latency",
     NULL, NULL, NULL, 0, 0},
    {'c', "chunk", TT_OPTION_BYTES, AT(chunk_bytes), "BYTES",
     "size of chunks, or of buckets; 0 lets the cost model choose; fifo cuts nothing", "0", NULL,
     NULL, 0, 0},
    {'\0', "credit", TT_OPTION_BYTES, AT(credit_bytes), "BYTES",
     "bytes in flight; less than a chunk is stop-and-wait, 0 is four chunks", "0", NULL, NULL, 0,
     0},
    {'\0', "ops", TT_OPTION_CHOICE, AT(ops), NULL,
     "order of operators: towards the nearest gradient, or the one with the cheapest dependencies",
     "free", "free|nearest|cheapest", NULL, 0, 0},
    {'o', "order", TT_OPTION_STRING, AT(order), "FILE", "write the order, for TUTTI_ORDER", NULL,
     NULL, "--output", 0, 0},
    {'\0', "edges", TT_OPTION_STRING, AT(edges), "FILE",
     "write the control edges that enforce one order of operators; with --ops", NULL, NULL, NULL, 0,
     0},
    {'\0', "plot", TT_OPTION_STRING, AT(plot), "FILE", "draw computation and communication (SVG)",
     NULL, NULL, NULL, 0, 0},
    {'\0', "json", TT_OPTION_STRING, AT(json), "FILE",
     "write one object per line and policy, fifo first; times in microseconds", NULL, NULL, NULL, 0,
     0},
    {'\0', "save", TT_OPTION_STRING, AT(save), "FILE", "write the graph as JSON", NULL, NULL, NULL,
     0, 0},
    {'\0', "barrier", TT_OPTION_FLAG, AT(keeps_barrier), NULL,
     "the next forward waits for every transfer", NULL, NULL, NULL, 0, 0},
    {'\0', "forward", TT_OPTION_FLAG, AT(is_forward), NULL,
     "orders of receiving parameters (priority, tic, tac); of a known network the forward pass "
     "only",
     NULL, NULL, NULL, 0, 0},
    {'\0', "compare", TT_OPTION_FLAG, AT(compares), NULL,
     "one line for every policy, instead of the plan of one", NULL, NULL, NULL, 0, 0},
    {'v', "verbose", TT_OPTION_FLAG, AT(is_verbose), NULL, "print the whole order", NULL, NULL,
     NULL, 0, 0},
    {'\0', "list", TT_OPTION_FLAG, AT(lists), NULL, "list policies and known networks", NULL, NULL,
     NULL, 0, 0},
};

enum {
    EXIT_USAGE = 2,
    RANKS = 4, /* default */
    ORDER_SHOWN = 10,
    RANDOM_RUNS = 100,
};

/* State of one run. */
typedef struct job_state {
    const tt_schedule_values *values;
    const char *culprit; /* the file or name that is being read */
    tt_graph *graph;
    tt_graph_stats stats;
    tt_workload workload;
    tt_samples samples;       /* count 0: none */
    FILE *json;               /* a line for each policy; NULL: none */
    uint32_t *compute_places; /* NULL: free */
    tt_policy_input input;
    tt_scratch scratch;
    tt_text why;
} job_state;

static int complain(const char *what, const char *why)
{
    fprintf(stderr, "tutti schedule: %s: %s\n", what, why);
    return 1;
}

/* ---- small printers ----------------------------------------------------------------------------
 */

static double mib(double bytes)
{
    return bytes / (1 << 20);
}

static void print_bytes(const char *before, uint64_t bytes, const char *after)
{
    if (bytes >= TT_GRAPH_TENSOR_BYTES_MAX) {
        printf("%swhole%s", before, after);
    } else if (bytes >= 1 << 20) {
        printf("%s%.4g MiB%s", before, mib((double)bytes), after);
    } else {
        printf("%s%.4g KiB%s", before, (double)bytes / 1024, after);
    }
}

/* Control characters in names from a file must not reach the terminal. */
static void print_name(const char *name)
{
    for (; *name != '\0'; name++) {
        putchar((unsigned char)*name < ' ' || *name == 0x7f ? '?' : *name);
    }
}

static void print_networks(bool is_exact)
{
    for (size_t i = 0; tt_network_at(i) != NULL; i++) {
        const tt_network *model = tt_network_at(i);
        if ((model->family != NULL) != is_exact) {
            continue;
        }
        printf("  %-24s%u tensors, %.2f MiB, batch %u", model->name, model->tensor_count,
               model->mib, model->batch);
        if (model->tokens > 0) {
            printf(" x %u tokens", model->tokens);
        }
        printf("\n");
    }
}

static int print_list(void)
{
    printf("policies:\n");
    for (size_t i = 0; tt_policy_at(i) != NULL; i++) {
        printf("  %-14s%s\n", tt_policy_at(i)->name, tt_policy_at(i)->summary);
    }
    printf("networks, as TensorFlow's slim library defines them:\n");
    print_networks(false);
    printf("exact networks, with the tensors of PyTorch:\n");
    print_networks(true);
    return 0;
}

static void print_graph(const job_state *job)
{
    const tt_graph_stats *stats = &job->stats;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < tt_graph_tensor_count(job->graph); i++) {
        bytes += tt_graph_tensor_at(job->graph, i)->bytes;
    }
    printf("graph       %s: %u tensors, %.2f MiB\n", job->values->graph,
           tt_graph_tensor_count(job->graph), mib((double)bytes));
    printf(
        "            %u ops (%u compute), longest path %u, %.2f direct dependencies (at most %u), "
        "%.2f ops in parallel\n",
        stats->node_count, stats->compute_count, stats->longest_path, stats->inputs_mean,
        stats->inputs_max, stats->parallel_mean);
    printf("forward     %.1f %% of %.2f ms of computation\n",
           stats->compute_us > 0 ? 100 * stats->forward_us / stats->compute_us : 0,
           stats->compute_us / 1000);
}

static void print_sizes(const tt_workload *workload)
{
    static const char *const names[TT_WORKLOAD_SIZES] = {"below 64 KiB", "below 1 MiB",
                                                         "below 16 MiB", "larger"};
    const tt_workload_sizes sizes = tt_workload_measure(workload);
    for (int i = 0; i < TT_WORKLOAD_SIZES; i++) {
        printf("%-12s%-13s%6zu tensors (%4.1f %%), %9.2f MiB\n", i == 0 ? "sizes" : "", names[i],
               sizes.count[i], 100.0 * (double)sizes.count[i] / (double)workload->tensor_count,
               mib((double)sizes.bytes[i]));
    }
}

static void print_wire(const job_state *job)
{
    const tt_wire *wire = &job->input.wire;
    const tt_linear line = {.start_us = wire->overhead_us + wire->latency_us,
                            .byte_us = wire->byte_us};
    printf("wire        f(d) = %.4g us + %.4g ns/B * d", line.start_us, 1000 * line.byte_us);
    const double threshold = tt_linear_threshold_bytes(&line, 0.8);
    if (isfinite(threshold)) {
        print_bytes("; batching pays below ", (uint64_t)threshold, "");
    }
    if (job->samples.count > 0) {
        printf("; fitted to %zu samples", job->samples.count);
    }
    if (job->samples.rank_count > 0) {
        printf(" of %u ranks", job->input.rank_count);
    }
    printf("\n");
}

/* ---- input -------------------------------------------------------------------------------------
 */

/* Times of tutti bench hold for its number of ranks and for all-reduce. */
static tt_status samples_check(job_state *job)
{
    const tt_schedule_values *values = job->values;
    const int64_t measured = job->samples.rank_count;
    if (measured == 0) {
        return TT_OK;
    }
    if (values->form == TT_FORM_SERVER) {
        tt_text_add(&job->why, "has times of all-reduce; for --form server give those of a push, "
                               "in lines 'bytes microseconds'");
        return TT_ERR_BAD_ARGUMENT;
    }
    if (values->rank_count != 0 && values->rank_count != measured) {
        tt_text_add(&job->why, "was measured with %lld ranks, but --ranks is %lld",
                    (long long)measured, (long long)values->rank_count);
        return TT_ERR_BAD_ARGUMENT;
    }
    job->input.rank_count = (uint32_t)tt_min_u64((uint64_t)measured, UINT32_MAX);
    return TT_OK;
}

/* An all-reduce sends each byte 2 (n - 1) / n times; a worker sends it to its server once. */
static tt_status wire_set(job_state *job)
{
    const tt_schedule_values *values = job->values;
    job->input.rank_count = values->rank_count != 0 ? (uint32_t)values->rank_count : RANKS;
    const double ranks = (double)job->input.rank_count;
    const double times = values->form == TT_FORM_SERVER ? 1 : 2 * (ranks - 1) / ranks;
    job->input.wire = (tt_wire){.overhead_us = (double)values->overhead_us,
                                .latency_us = (double)values->latency_us,
                                .byte_us = times * 8 / (double)values->mbit};
    if (values->samples == NULL) {
        return TT_OK;
    }
    TT_TRY(tt_samples_load(values->samples, &job->why, &job->samples));
    const tt_linear *line = &job->samples.line;
    job->input.wire = (tt_wire){.overhead_us = line->start_us, .byte_us = line->byte_us};
    return samples_check(job);
}

static const tt_policy *policy_find(const char *name)
{
    const tt_policy *policy = tt_policy_find(name);
    if (policy == NULL) {
        tt_nearest nearest;
        tt_nearest_init(&nearest, "", name);
        for (size_t i = 0; tt_policy_at(i) != NULL; i++) {
            tt_nearest_offer(&nearest, tt_policy_at(i)->name);
        }
        fprintf(stderr, "tutti schedule: unknown policy '%s'%s%s; --list shows them\n", name,
                nearest.best[0] != '\0' ? "; did you mean " : "", nearest.best);
    }
    return policy;
}

/* ---- plans -------------------------------------------------------------------------------------
 */

static tt_status evaluate(job_state *job, const tt_policy *policy, tt_plot_panel *panel,
                          tt_timetable *plan, tt_evaluation *evaluation)
{
    TT_TRY(tt_policy_run(policy, &job->input, &tt_allocator_default, &job->why, plan));
    plan->keeps_barrier = job->values->keeps_barrier;
    const tt_evaluate_config config = {.wire = job->input.wire,
                                       .on_span = panel != NULL ? tt_plot_note : NULL,
                                       .user = panel,
                                       .allocator = &tt_allocator_default};
    const tt_status status = tt_evaluate(plan, &config, &job->why, evaluation);
    if (status != TT_OK) {
        tt_plan_fini(plan);
    } else if (job->json != NULL) {
        const tt_schedule_row row = {.graph = job->values->graph,
                                     .policy = policy,
                                     .wire = &job->input.wire,
                                     .plan = plan,
                                     .evaluation = evaluation};
        (void)tt_schedule_write_json(&row, job->json); /* run() looks for errors of the stream */
    }
    return status;
}

/* Place of each tensor: its transfer's priority if the plan has priorities, else its order in the
 * plan. */
static tt_status places_of(job_state *job, const tt_timetable *plan, uint32_t **places_out)
{
    uint32_t *places =
        tt_scratch_take(&job->scratch, plan->workload->tensor_count, sizeof(places[0]));
    if (places == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < plan->transfer_count; i++) {
        const tt_transfer *transfer = &plan->transfers[i];
        for (uint32_t k = 0; k < transfer->member_count; k++) {
            places[plan->members[transfer->member_first + k]] =
                plan->queue == TT_QUEUE_PRIORITY ? transfer->priority : i;
        }
    }
    *places_out = places;
    return TT_OK;
}

static bool place_before(const void *user, uint32_t a, uint32_t b)
{
    const uint32_t *places = user;
    return places[a] < places[b];
}

/* Tensors, most urgent first. */
static uint32_t *sorted_by(job_state *job, const uint32_t *places)
{
    const uint32_t count = tt_graph_tensor_count(job->graph);
    uint32_t *order = tt_scratch_take(&job->scratch, count, sizeof(order[0]));
    uint32_t *spare = tt_scratch_take(&job->scratch, count, sizeof(spare[0]));
    if (order == NULL || spare == NULL) {
        return NULL;
    }
    for (uint32_t i = 0; i < count; i++) {
        order[i] = i;
    }
    tt_sort_indices(order, spare, count, place_before, places);
    return order;
}

/* When the tensors are ready, with operators in any order or in the chosen one; NULL: no order was
 * chosen. */
static tt_ready_stats *ready_of(job_state *job, const uint32_t *compute_places)
{
    const uint32_t count = tt_graph_tensor_count(job->graph);
    tt_ready_stats *each = tt_scratch_take(&job->scratch, count, sizeof(each[0]));
    const bool is_asked = job->compute_places != NULL && each != NULL;
    const uint32_t runs = compute_places == NULL ? RANDOM_RUNS : 2;
    return is_asked && tt_graph_ready(job->graph, compute_places, runs, 1, each) == TT_OK ? each
                                                                                          : NULL;
}

static void print_change(const tt_ready_stats *before, const tt_ready_stats *after)
{
    printf("mean %.3f -> %.3f ms, standard deviation %.3f -> %.3f ms", before->mean_us / 1000,
           after->mean_us / 1000, sqrt(before->variance) / 1000, sqrt(after->variance) / 1000);
}

static void print_order(job_state *job, const uint32_t *places)
{
    const tt_ready_stats *before = ready_of(job, NULL);
    const tt_ready_stats *after = ready_of(job, job->compute_places);
    const uint32_t count = tt_graph_tensor_count(job->graph);
    const uint32_t *order = sorted_by(job, places);
    const uint32_t shown = job->values->is_verbose ? count : ORDER_SHOWN;
    for (uint32_t i = 0; order != NULL && i < count && i < shown; i++) {
        const tt_graph_tensor *tensor = tt_graph_tensor_at(job->graph, order[i]);
        printf("%-12s%6u  ", i == 0 ? "order" : "", places[order[i]]);
        print_name(tensor->name);
        print_bytes("  (", tensor->bytes, ")");
        if (before != NULL && after != NULL) {
            printf("  ready ");
            print_change(&before[order[i]], &after[order[i]]);
        }
        printf("\n");
    }
    if (shown < count) {
        printf("            ... %u more; --verbose prints them, -o FILE writes them\n",
               count - shown);
    }
}

/* ---- files -------------------------------------------------------------------------------------
 */

/* Lines of these files end in a name. */
static int name_refuse(const char *path, const char *what, const char *name)
{
    tt_text why = {.length = 0};
    tt_text_add(&why, "%s ", what);
    tt_text_add_quoted(&why, name, TT_GRAPH_NAME_BYTES_MAX);
    tt_text_add(&why, " has control characters in its name and cannot be written to this file");
    return complain(path, why.bytes);
}

static int order_write(job_state *job, const uint32_t *places)
{
    for (uint32_t i = 0; i < tt_graph_tensor_count(job->graph); i++) {
        const char *name = tt_graph_tensor_at(job->graph, i)->name;
        if (!tt_order_name_is_writable(name)) {
            return name_refuse(job->values->order, "tensor", name);
        }
    }
    const uint32_t *order = sorted_by(job, places);
    FILE *stream = fopen(job->values->order, "w");
    if (stream == NULL || order == NULL) {
        return complain(job->values->order, strerror(errno));
    }
    bool is_written = fprintf(stream, "%s\n", TT_ORDER_TITLE) > 0;
    for (uint32_t i = 0; i < tt_graph_tensor_count(job->graph); i++) {
        const char *name = tt_graph_tensor_at(job->graph, order[i])->name;
        is_written &= fprintf(stream, "%u\t%s\n", places[order[i]], name) > 0;
    }
    is_written &= fclose(stream) == 0;
    return is_written ? 0 : complain(job->values->order, "cannot be written");
}

static int edges_write(job_state *job)
{
    tt_control_edge *edges;
    uint32_t count;
    if (tt_order_control_edges(job->graph, job->compute_places, &job->scratch, &edges, &count) !=
        TT_OK) {
        return complain("--edges", "out of memory");
    }
    for (uint32_t i = 0; i < tt_graph_node_count(job->graph); i++) {
        const char *name = tt_graph_node(job->graph, i)->name;
        if (!tt_order_name_is_writable(name)) {
            return name_refuse(job->values->edges, "operator", name);
        }
    }
    FILE *stream = fopen(job->values->edges, "w");
    if (stream == NULL) {
        return complain(job->values->edges, strerror(errno));
    }
    bool is_written = true;
    for (uint32_t i = 0; i < count; i++) {
        is_written &= fprintf(stream, "%s\t%s\n", tt_graph_node(job->graph, edges[i].from)->name,
                              tt_graph_node(job->graph, edges[i].to)->name) > 0;
    }
    is_written &= fclose(stream) == 0;
    return is_written ? 0 : complain(job->values->edges, "cannot be written");
}

static int plot_write(const job_state *job, const tt_plot_panel *panels, size_t count)
{
    FILE *stream = fopen(job->values->plot, "w");
    if (stream == NULL) {
        return complain(job->values->plot, strerror(errno));
    }
    bool is_written = tt_plot_write(stream, panels, count);
    is_written &= fclose(stream) == 0;
    return is_written ? 0 : complain(job->values->plot, "cannot be written");
}

static int graph_save(const job_state *job)
{
    FILE *stream = fopen(job->values->save, "w");
    if (stream == NULL) {
        return complain(job->values->save, strerror(errno));
    }
    bool is_written = tt_graph_write_json(job->graph, stream);
    is_written &= fclose(stream) == 0;
    return is_written ? 0 : complain(job->values->save, "cannot be written");
}

/* ---- a training step ---------------------------------------------------------------------------
 */

static void print_plan(const tt_timetable *plan, const tt_evaluation *evaluation)
{
    uint32_t forward_count = 0;
    for (uint32_t i = 0; i < plan->transfer_count; i++) {
        forward_count += plan->transfers[i].waits_for_forward;
    }
    printf("            %u transfers (%u in forward), %llu chunks", plan->transfer_count,
           forward_count, (unsigned long long)evaluation->chunk_count);
    print_bytes("; chunk ", plan->chunk_bytes, "");
    if (plan->credit_bytes == TT_CREDIT_ENDLESS) {
        printf(", endless credit\n");
    } else {
        print_bytes(", credit ", plan->credit_bytes, "\n");
    }
}

static void print_metrics(const job_state *job, const tt_evaluation *evaluation,
                          const tt_evaluation *plain)
{
    double ideal_us;
    printf("step        %.3f ms; fifo %.3f ms (%+.1f %%)", evaluation->step_us / 1000,
           plain->step_us / 1000, 100 * (plain->step_us / evaluation->step_us - 1));
    if (job->input.form == TT_FORM_ALLREDUCE &&
        tt_evaluate_fluid(&job->workload, job->input.wire.byte_us, &tt_allocator_default,
                          &ideal_us) == TT_OK) {
        printf("; ideal %.3f ms", ideal_us / 1000);
    }
    printf("\nmetrics     rho %.3f, alpha %.3f, U %.3f, E %.3f\n", evaluation->rho,
           evaluation->alpha, evaluation->utilisation, evaluation->efficiency);
}

static void print_ready(job_state *job)
{
    const uint32_t count = tt_graph_tensor_count(job->graph);
    const tt_ready_stats *each_before = ready_of(job, NULL);
    const tt_ready_stats *each_after = ready_of(job, job->compute_places);
    if (each_before != NULL && each_after != NULL) {
        const tt_ready_stats before = tt_ready_mean(each_before, count);
        const tt_ready_stats after = tt_ready_mean(each_after, count);
        printf("ready       ");
        print_change(&before, &after);
        printf(" (operators in any order -> in the chosen one; per tensor below)\n");
    }
}

static int step_show(job_state *job, const tt_policy *policy)
{
    tt_plot_panel panels[2] = {{.title = "fifo"}};
    tt_timetable plans[2];
    tt_evaluation evaluations[2];
    uint32_t *places = NULL;
    if (evaluate(job, &tt_policy_fifo, &panels[0], &plans[0], &evaluations[0]) != TT_OK) {
        tt_plot_fini(&panels[0]);
        return complain(job->values->graph, job->why.bytes);
    }
    if (evaluate(job, policy, &panels[1], &plans[1], &evaluations[1]) != TT_OK) {
        tt_plot_fini(&panels[0]);
        tt_plot_fini(&panels[1]);
        tt_plan_fini(&plans[0]);
        return complain(policy->name, job->why.bytes);
    }
    printf("policy      %s: %s\n", policy->name, policy->summary);
    print_plan(&plans[1], &evaluations[1]);
    int code = places_of(job, &plans[1], &places) == TT_OK ? 0 : complain("order", "out of memory");
    if (code == 0) {
        print_metrics(job, &evaluations[1], &evaluations[0]);
        print_ready(job);
        print_order(job, places);
    }
    if (code == 0 && job->values->order != NULL) {
        code = order_write(job, places);
    }
    if (code == 0 && job->values->plot != NULL) {
        for (int i = 0; i < 2; i++) {
            panels[i].plan = &plans[i];
            snprintf(panels[i].title, sizeof(panels[i].title), "%s: %.3f ms a step, U %.2f",
                     i == 0 ? "fifo" : policy->name, evaluations[i].step_us / 1000,
                     evaluations[i].utilisation);
        }
        code = plot_write(job, panels, 2);
    }
    for (int i = 0; i < 2; i++) {
        tt_plot_fini(&panels[i]);
        tt_plan_fini(&plans[i]);
    }
    return code;
}

static int compare(job_state *job)
{
    printf("%-12s %10s %8s %7s %7s %7s %7s %10s\n", "policy", "step ms", "gain %", "rho", "alpha",
           "U", "E", "transfers");
    double plain_us = 0;
    for (size_t i = 0; tt_policy_at(i) != NULL; i++) {
        tt_timetable plan;
        tt_evaluation evaluation;
        tt_text_clear(&job->why);
        if (evaluate(job, tt_policy_at(i), NULL, &plan, &evaluation) != TT_OK) {
            printf("%-12s %s\n", tt_policy_at(i)->name, job->why.bytes);
            continue;
        }
        plain_us = i == 0 ? evaluation.step_us : plain_us;
        printf("%-12s %10.3f %+8.1f %7.3f %7.3f %7.3f %7.3f %10u\n", tt_policy_at(i)->name,
               evaluation.step_us / 1000, 100 * (plain_us / evaluation.step_us - 1), evaluation.rho,
               evaluation.alpha, evaluation.utilisation, evaluation.efficiency,
               plan.transfer_count);
        tt_plan_fini(&plan);
    }
    return 0;
}

/* ---- a forward pass ----------------------------------------------------------------------------
 */

static tt_status forward_places(job_state *job, const char *name, uint32_t **places_out)
{
    if (strcmp(name, "tac") == 0) {
        return tt_order_tac(job->graph, &job->input.wire, &job->scratch, places_out);
    }
    if (strcmp(name, "tic") == 0) {
        return tt_order_tic(job->graph, &job->scratch, places_out);
    }
    return tt_order_first_use(job->graph, &job->scratch, places_out);
}

/* Orders of receiving parameters: only first use, TIC and TAC differ. */
static int forward_show(job_state *job, const tt_policy *policy)
{
    static const char *const names[] = {"first use", "tic", "tac"};
    uint32_t *places = NULL;
    for (size_t i = 0; i < TT_ARRAY_COUNT(names); i++) {
        tt_graph_times times;
        if (forward_places(job, names[i], &places) != TT_OK ||
            tt_graph_run(job->graph,
                         &(tt_graph_run_config){.recv_places = places, .wire = job->input.wire},
                         &job->scratch, &times) != TT_OK) {
            return complain(names[i], "out of memory");
        }
        printf("%-12s%.3f ms, E %.3f\n", names[i], times.makespan_us / 1000, times.efficiency);
    }
    if (forward_places(job, policy->name, &places) != TT_OK) {
        return complain(policy->name, "out of memory");
    }
    print_order(job, places);
    return job->values->order != NULL ? order_write(job, places) : 0;
}

/* ---- the whole ---------------------------------------------------------------------------------
 */

static tt_status job_prepare(job_state *job)
{
    const tt_schedule_values *values = job->values;
    job->culprit = values->graph;
    const tt_network_config config = {.batch = (uint32_t)values->batch,
                                      .samples_per_s = values->samples_per_s,
                                      .is_forward = values->is_forward};
    TT_TRY(tt_graph_load(values->graph, &config, &job->why, &job->graph));
    if (job->why.length > 0) {
        (void)complain(values->graph, job->why.bytes); /* a remark: it was read */
        tt_text_clear(&job->why);
    }
    TT_TRY(tt_graph_measure(job->graph, &job->stats));
    job->input = (tt_policy_input){.workload = &job->workload,
                                   .graph = job->graph,
                                   .form = (tt_plan_form)values->form,
                                   .chunk_bytes = values->chunk_bytes,
                                   .credit_bytes = values->credit_bytes};
    job->culprit = values->samples;
    TT_TRY(wire_set(job));
    job->culprit = values->graph;
    if (values->is_forward) {
        return TT_OK;
    }
    if (values->ops != 0) {
        TT_TRY(tt_order_compute(job->graph, (tt_compute_rule)(values->ops - 1), &job->scratch,
                                &job->compute_places));
    }
    return tt_graph_workload(job->graph, job->compute_places, &job->scratch, &job->why,
                             &job->workload);
}

static int job_run(job_state *job, const tt_policy *policy)
{
    const tt_status status = job_prepare(job);
    if (status != TT_OK) {
        const char *text = job->why.length > 0 ? job->why.bytes : tt_status_text(status);
        return complain(job->culprit, text);
    }
    print_graph(job);
    int code = 0;
    if (job->values->is_forward) {
        print_wire(job);
        code = forward_show(job, policy);
    } else {
        print_sizes(&job->workload);
        print_wire(job);
        code = job->values->compares ? compare(job) : step_show(job, policy);
    }
    if (code == 0 && job->values->edges != NULL) {
        code = edges_write(job);
    }
    if (code == 0 && job->values->save != NULL) {
        code = graph_save(job);
    }
    return code;
}

/* ---- the command -------------------------------------------------------------------------------
 */

static int run(const void *raw_values, int operand_count, char **operands)
{
    const tt_schedule_values *values = raw_values;
    (void)operand_count;
    (void)operands;
    if (values->lists) {
        return print_list();
    }
    if (values->graph == NULL) {
        fprintf(stderr, "tutti schedule: no graph; give --graph FILE, or a network of --list\n");
        return EXIT_USAGE;
    }
    const tt_policy *policy = policy_find(values->policy != NULL ? values->policy : "priority");
    if (policy == NULL || tt_schedule_is_contradictory(values, policy)) {
        return EXIT_USAGE;
    }
    job_state job = {.values = values};
    if (values->json != NULL) {
        job.json = fopen(values->json, "we");
        if (job.json == NULL) {
            return complain(values->json, strerror(errno));
        }
    }
    tt_scratch_init(&job.scratch, &tt_allocator_default);
    int code = job_run(&job, policy);
    if (job.json != NULL) {
        bool is_written = !ferror(job.json);
        is_written &= fclose(job.json) == 0;
        code = is_written ? code : complain(values->json, "cannot be written");
    }
    tt_scratch_fini(&job.scratch);
    tt_graph_destroy(job.graph);
    return code;
}

static const tt_command_note examples[] = {
    {"tutti schedule --list", "Known policies and networks:"},
    {"tutti schedule --graph resnet50 --policy priority", "Plan ResNet-50:"},
    {"tutti schedule --graph resnet50 --batch 256 --samples-per-s 1200 --compare",
     "Compare the policies for ResNet-50 on an accelerator that trains 1,200 images a second:"},
    {NULL, NULL},
};

const tt_command tt_command_schedule = {
    .name = "schedule",
    .summary = "Plan the communication of a training step, without running it.",
    .operands = "",
    .description =
        "Reads a dataflow graph or a trace, or takes a known network, lets a policy plan its "
        "communication, and evaluates the plan on a model of the wire. Every figure is computed, "
        "none is measured here; give measured transfers with --samples.\n\n"
        "For a step of time T that computes for C and occupies its busiest wire for N: "
        "rho = N / C; alpha = (N + C - T) / min(N, C), the share of the smaller one that is hidden "
        "behind the other, below 0 where even a serial step would be shorter; U = C / T, the share "
        "of time spent computing. E, the efficiency of the order, is (S - T) / (S - L), where S is "
        "the sum and L the largest of the times of computation and of each wire: 1 where the "
        "busiest of them never waits, 0 where nothing overlaps. With all-reduce there is one wire, "
        "and E is alpha; with a server, push and pull are two. With --forward, T is the time of "
        "that pass, and the wire is the one on which parameters arrive.\n\n"
        "A graph in JSON has \"tensors\" with \"name\" and \"bytes\", and \"ops\" with \"id\", "
        "\"kind\" (compute, recv, send), \"phase\" (forward, backward), \"time_us\", \"tensor\" "
        "and "
        "\"after\"; --save shows one.",
    .options = options,
    .option_count = TT_ARRAY_COUNT(options),
    .values_bytes = sizeof(tt_schedule_values),
    .examples = examples,
    .run = run,
};
