/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_report.c - the columns of nccl-tests, and JSON lines. */
#include <inttypes.h>
#include <jansson.h>

#include "cli/bench/bench.h"
#include "kernel/dtype.h"

static const char *op_name(const tt_bench_plan *plan)
{
    return tt_bench_reduces(plan->collective) ? tt_redop_name((tt_redop)plan->op) : "none";
}

void tt_bench_print_header(const tt_bench_plan *plan)
{
    char iterations[16] = "by time";
    if (plan->iteration_count > 0) {
        (void)snprintf(iterations, sizeof(iterations), "%d", plan->iteration_count);
    }
    printf("# tutti bench %s: %d ranks on %d host%s, transport %s, %s buffers%s%s\n"
           "# warmup %d, iterations %s; time is the median over iterations of the slowest rank\n"
           "#\n",
           tt_bench_name(plan->collective), plan->size, plan->host_count,
           plan->host_count == 1 ? "" : "s", plan->transport,
           plan->is_foreign ? "foreign" : "arena", plan->is_in_place ? ", in place" : "",
           plan->is_touched ? ", rewritten each time" : "", plan->warmup_count, iterations);
    printf("# %10s  %12s  %8s  %7s  %6s  %9s  %7s  %7s  %6s%s\n", "size", "count", "type", "redop",
           "root", "time", "algbw", "busbw", "#wrong",
           plan->has_model ? "     algorithm      model  model/time" : "");
    printf("# %10s  %12s  %8s  %7s  %6s  %9s  %7s  %7s  %6s%s\n", "(B)", "(elements)", "", "", "",
           "(us)", "(GB/s)", "(GB/s)", "", plan->has_model ? "                     (us)" : "");
    fflush(stdout);
}

void tt_bench_print_row(const tt_bench_case *item, const tt_bench_result *result)
{
    const tt_bench_plan *plan = item->plan;
    const double time_us = result->time_s * 1e6;
    const int decimals = time_us < 100 ? 2 : time_us < 10000 ? 1 : 0;
    printf("%12" PRIu64 "  %12" PRIu64 "  %8s  %7s  %6d  %9.*f  %7.2f  %7.2f  %6" PRIu64,
           item->bytes, item->count, tt_dtype_name((tt_dtype)plan->dtype), op_name(plan),
           plan->collective == TUTTI_BROADCAST ? 0 : -1, decimals, time_us,
           result->algorithm_bandwidth * 1e-9, result->bus_bandwidth * 1e-9, result->wrong_count);
    if (plan->has_model && result->model_s > 0) {
        printf("  %12s  %9.*f  %10.2f", result->algorithm, decimals, result->model_s * 1e6,
               result->model_s / result->time_s);
    } else if (plan->has_model) {
        printf("  %12s  %9s  %10s", result->algorithm, "-", "-");
    }
    putchar('\n');
    fflush(stdout);
}

void tt_bench_print_footer(double bus_bandwidth_mean, uint64_t wrong_count)
{
    printf("# Wrong values         : %" PRIu64 " %s\n# Avg bus bandwidth    : %g\n#\n", wrong_count,
           wrong_count == 0 ? "OK" : "FAILED", bus_bandwidth_mean * 1e-9);
}

void tt_bench_print_json(FILE *file, const tt_bench_case *item, const tt_bench_result *result)
{
    const tt_bench_plan *plan = item->plan;
    json_t *line = json_pack(
        "{s:s, s:s, s:s, s:I, s:i, s:s, s:s, s:b, s:b, s:i, s:f, s:f, s:f, s:I, s:s, s:f, s:i}",
        "op", tt_bench_name(plan->collective), "dtype", tt_dtype_name((tt_dtype)plan->dtype),
        "redop", op_name(plan), "bytes", (json_int_t)item->bytes, "ranks", plan->size, "transport",
        plan->transport, "buffers", plan->is_foreign ? "foreign" : "arena", "in_place",
        (int)plan->is_in_place, "touched", (int)plan->is_touched, "iterations",
        item->iteration_count, "time_us", result->time_s * 1e6, "algbw_gbs",
        result->algorithm_bandwidth * 1e-9, "busbw_gbs", result->bus_bandwidth * 1e-9, "wrong",
        (json_int_t)result->wrong_count, "algorithm", result->algorithm, "model_us",
        result->model_s * 1e6, "hosts", plan->host_count);
    if (line != NULL) {
        (void)json_dumpf(line, file, JSON_COMPACT);
        fputc('\n', file);
        fflush(file);
        json_decref(line);
    }
}
