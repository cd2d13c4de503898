/* SPDX-License-Identifier: Apache-2.0
 *
 * simulate_report.c - see simulate_report.h. */
#include "cli/simulate/simulate_report.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/base.h"

static const char *const level_names[TT_FABRIC_LEVELS] = {
    [TT_FABRIC_HOST] = "in hosts", [TT_FABRIC_LEAF] = "to hosts", [TT_FABRIC_TREE] = "to leaves"};

static void print_size(double bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    size_t unit = 0;
    while (bytes >= 1024 && unit + 1 < TT_ARRAY_COUNT(units)) {
        bytes /= 1024;
        unit++;
    }
    printf("%.4g %s", bytes, units[unit]);
}

/* ---- text ---- */

static void print_job(const tt_simulate_point *point)
{
    const tt_job *job = point->job;
    const tt_cluster *cluster = job->cluster;
    const uint32_t hosts =
        (job->rank_count + cluster->ranks_per_host - 1) / cluster->ranks_per_host;
    printf("job         %s: %zu tensors, ", point->workload, job->workload->tensor_count);
    print_size((double)tt_workload_bytes(job->workload));
    printf("; %" PRIu32 " rank%s", job->rank_count, job->rank_count == 1 ? "" : "s");
    if (job->samples > 0) {
        printf(" of %.6g samples a step", job->samples);
    }
    printf("\ncluster     %s: %" PRIu32 " host%s of %" PRIu32 "; network model %s\n", cluster->name,
           hosts, hosts == 1 ? "" : "s",
           job->rank_count < cluster->ranks_per_host ? job->rank_count : cluster->ranks_per_host,
           tt_cluster_model(cluster)->name);
    printf("strategy    %s: %s\n", job->strategy->name, job->strategy->summary);
    printf("engine      %s, depth %s\n", tt_engine_name(point->result->engine),
           tt_depth_name(point->result->depth));
}

static void print_step(const tt_simulate_point *point)
{
    const tt_job_result *result = point->result;
    const tt_training_result *step = &result->training;
    printf("step        %.3f ms (p5 %.3f, p95 %.3f of %" PRIu32 " steps)", step->step_us / 1000,
           step->p5_us / 1000, step->p95_us / 1000, point->job->step_count);
    if (result->samples_per_s > 0) {
        printf("; %.6g samples/s", result->samples_per_s);
    }
    printf("; efficiency %.3f\n", result->efficiency);
    printf("of it       %.3f computation, %.3f waiting for the slowest rank, %.3f exposed "
           "communication,\n            %.3f agreement, %.3f overhead, %.3f waiting for samples\n",
           step->compute_us / 1000, step->wait_us / 1000, step->exposed_us / 1000,
           step->agreement_us / 1000, step->overhead_us / 1000, step->input_us / 1000);
    if (result->depth == TT_DEPTH_MACHINES) { /* its agreement is part of what is exposed */
        printf("without     network %.3f ms, noise %.3f\n", step->free_network_us / 1000,
               step->without_noise_us / 1000);
        return;
    }
    printf("without     network %.3f ms, agreement %.3f, noise %.3f\n",
           step->free_network_us / 1000, step->free_control_us / 1000,
           step->without_noise_us / 1000);
    printf("metrics     rho %.3f, alpha %.3f, U %.3f\n", step->evaluation.rho,
           step->evaluation.alpha, step->evaluation.utilisation);
}

static void print_traffic(const tt_job_result *result)
{
    if (result->exchange_count > 0) {
        printf("exchanges   %" PRIu32 " a step:", result->exchange_count);
    }
    for (uint32_t i = 0; i < TT_JOB_SIZES; i++) {
        if (result->size_counts[i] > 0) {
            printf(" %" PRIu64 " to ", result->size_counts[i]);
            print_size(ldexp(1, (int)i));
            putchar(';');
        }
    }
    if (result->exchange_count > 0) {
        putchar('\n');
    }
    for (int level = 0; level < TT_FABRIC_LEVELS; level++) {
        const tt_fabric_traffic *traffic = &result->levels[level];
        if (traffic->frames_sent > 0) {
            printf("%-12s", level_names[level]);
            print_size((double)traffic->bytes_sent);
            printf(" in %" PRIu64 " messages a step, all ranks together\n", traffic->frames_sent);
        }
    }
}

void tt_simulate_print(const tt_simulate_point *point)
{
    print_job(point);
    print_step(point);
    print_traffic(point->result);
}

/* ---- tables ---- */

enum { COORDINATE_WIDTH = 14 }; /* of a column, if its name is not wider */

static int width_of(const tt_simulate_coordinate *coordinate)
{
    const int width = (int)strlen(coordinate->name);
    return width > COORDINATE_WIDTH ? width : COORDINATE_WIDTH;
}

void tt_simulate_print_header(const tt_simulate_point *point)
{
    for (size_t i = 0; i < point->coordinate_count; i++) {
        printf("%-*s ", width_of(&point->coordinates[i]), point->coordinates[i].name);
    }
    printf("%10s %10s %10s %12s %6s %10s %10s %10s %10s\n", "step ms", "p5", "p95", "samples/s",
           "eff", "compute", "slowest", "exposed", "agreement");
}

void tt_simulate_print_row(const tt_simulate_point *point)
{
    const tt_training_result *step = &point->result->training;
    for (size_t i = 0; i < point->coordinate_count; i++) {
        printf("%-*s ", width_of(&point->coordinates[i]), point->coordinates[i].value);
    }
    printf("%10.3f %10.3f %10.3f %12.6g %6.3f %10.3f %10.3f %10.3f %10.3f\n", step->step_us / 1000,
           step->p5_us / 1000, step->p95_us / 1000, point->result->samples_per_s,
           point->result->efficiency, step->compute_us / 1000, step->wait_us / 1000,
           step->exposed_us / 1000, step->agreement_us / 1000);
    (void)fflush(stdout);
}

/* ---- JSON ---- */

static json_t *levels_of(const tt_job_result *result)
{
    static const char *const names[TT_FABRIC_LEVELS] = {"host", "leaf", "tree"};
    json_t *levels = json_object();
    for (int level = 0; level < TT_FABRIC_LEVELS; level++) {
        const tt_fabric_traffic *traffic = &result->levels[level];
        (void)json_object_set_new(levels, names[level],
                                  json_pack("{s:I, s:I}", "bytes", (json_int_t)traffic->bytes_sent,
                                            "messages", (json_int_t)traffic->frames_sent));
    }
    return levels;
}

static json_t *sizes_of(const tt_job_result *result)
{
    json_t *sizes = json_object();
    for (uint32_t i = 0; i < TT_JOB_SIZES; i++) {
        char name[24];
        (void)snprintf(name, sizeof(name), "%" PRIu64, UINT64_C(1) << i);
        if (result->size_counts[i] > 0) {
            (void)json_object_set_new(sizes, name,
                                      json_integer((json_int_t)result->size_counts[i]));
        }
    }
    return sizes;
}

static json_t *step_of(const tt_training_result *step)
{
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "step",
                     step->step_us, "p5", step->p5_us, "p95", step->p95_us, "compute",
                     step->compute_us, "slowest", step->wait_us, "exposed", step->exposed_us,
                     "agreement", step->agreement_us, "overhead", step->overhead_us, "input",
                     step->input_us, "without_network", step->free_network_us, "without_agreement",
                     step->free_control_us, "without_noise", step->without_noise_us);
}

json_t *tt_simulate_figures(const tt_simulate_point *point)
{
    const tt_job *job = point->job;
    const tt_job_result *result = point->result;
    const tt_evaluation *evaluation = &result->training.evaluation;
    json_t *row = json_pack(
        "{s:s, s:s, s:s, s:I, s:I, s:I, s:s, s:s, s:o, s:f, s:f, s:{s:f, s:f, s:f}, s:o, s:o}",
        "graph", point->workload, "cluster", job->cluster->name, "strategy", job->strategy->name,
        "ranks", (json_int_t)job->rank_count, "steps", (json_int_t)job->step_count, "seed",
        (json_int_t)job->seed, "engine", tt_engine_name(result->engine), "depth",
        tt_depth_name(result->depth), "us", step_of(&result->training), "samples_per_s",
        result->samples_per_s, "efficiency", result->efficiency, "metrics", "rho",
        isfinite(evaluation->rho) ? evaluation->rho : 0, "alpha", evaluation->alpha, "utilisation",
        evaluation->utilisation, "levels", levels_of(result), "exchange_sizes", sizes_of(result));
    for (size_t i = 0; row != NULL && i < point->coordinate_count; i++) {
        json_t *sweep = json_object_get(row, "sweep");
        if (sweep == NULL) {
            sweep = json_object();
            (void)json_object_set_new(row, "sweep", sweep);
        }
        (void)json_object_set_new(sweep, point->coordinates[i].name,
                                  json_string(point->coordinates[i].value));
    }
    return row;
}

bool tt_simulate_write_json(const tt_simulate_point *point, FILE *stream)
{
    json_t *row = tt_simulate_figures(point);
    const bool is_written = row != NULL && json_dumpf(row, stream, JSON_REAL_PRECISION(9)) == 0 &&
                            fputc('\n', stream) != EOF && fflush(stream) == 0;
    json_decref(row);
    return is_written;
}
