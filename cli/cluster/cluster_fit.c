/* SPDX-License-Identifier: Apache-2.0
 *
 * cluster_fit.c - see cluster_fit.h. */
#include "cli/cluster/cluster_fit.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "cli/allocate.h"
#include "cli/cluster/cluster_predict.h"
#include "cli/stopwatch.h"
#include "tune/tune.h"

enum {
    SHORT_BYTES_MAX = 64,       /* up to here, latency and overhead decide */
    LONG_BYTES_MIN = 64 * 1024, /* from here on, rates decide */
    SHARES = 64,                /* that are tried of the overhead */
    SHARE_STEPS = 40,           /* of the search around the best one */
    RATE_STEPS = 50,            /* of a bisection */
    PASSES = 2,                 /* overhead and rates each know the other's first result */
    DIGITS = 5,                 /* of a fitted number */
};

static const double rate_min_gbs = 0.01, rate_max_gbs = 5000;
static const double least_number = 1e-4; /* 0.1 ns, 100 KB/s */
static const double short_share = 0.5;   /* of a call's time that its bytes may take at most */
static const double told_min =
    0.01; /* relative error of short calls that an overhead must change */
static const double limited_min = 1.02; /* measured over modelled without a limit of the memory */

/* Places in tt_fit.numbers. */
typedef enum number_place {
    LOCAL_LATENCY,
    LOCAL_BANDWIDTH,
    NETWORK_LATENCY,
    NETWORK_BANDWIDTH,
    OVERHEAD,
    REDUCE,
    COPY,
    MEMORY,
} number_place;

static const char *const number_names[TT_FIT_NUMBERS] = {
    [LOCAL_LATENCY] = "local.latency_us",
    [LOCAL_BANDWIDTH] = "local.bandwidth_gbs",
    [NETWORK_LATENCY] = "network.latency_us",
    [NETWORK_BANDWIDTH] = "network.bandwidth_gbs",
    [OVERHEAD] = "processor.overhead_us",
    [REDUCE] = "processor.reduce_gbs",
    [COPY] = "processor.copy_gbs",
    [MEMORY] = "memory.bandwidth_gbs",
};

/* Which rows are meant. */
typedef struct row_filter {
    tt_collective collective;
    bool is_local;
    bool is_staged;
    uint32_t ranks_min, ranks_max;
    uint64_t bytes_min;
} row_filter;

/* The start of the line of each level: 2 o + L. 0: not known. */
typedef struct fit_state {
    const tt_bench_rows *rows;
    tt_fit *fit;
    double start_us[2]; /* of the network, local */
    double kept_us;     /* overhead of the base */
} fit_state;

/* ---- rows --------------------------------------------------------------------------------------
 */

static bool is_meant(const row_filter *filter, const tt_bench_row *row)
{
    return row->collective == filter->collective &&
           tt_bench_row_is_local(row) == filter->is_local && row->is_staged == filter->is_staged &&
           row->ranks >= filter->ranks_min && row->ranks <= filter->ranks_max &&
           row->bytes >= filter->bytes_min;
}

/* Narrow the filter to the smallest job, and to buffers of the arena if there are any such rows.
 * False: no row is meant. */
static bool narrow_to_smallest(const tt_bench_rows *rows, row_filter *filter)
{
    for (int staged = 0; staged < 2; staged++) {
        uint32_t least = UINT32_MAX;
        filter->is_staged = staged == 1;
        for (size_t i = 0; i < rows->count; i++) {
            if (is_meant(filter, &rows->rows[i]) && rows->rows[i].ranks < least) {
                least = rows->rows[i].ranks;
            }
        }
        if (least != UINT32_MAX) {
            filter->ranks_min = filter->ranks_max = least;
            return true;
        }
    }
    return false;
}

static int compare_samples(const void *left, const void *right)
{
    const tt_linear_sample *a = left, *b = right;
    return (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

/* One sample for each size, the median of its times. Returns their number; at most
 * TT_LINEAR_SAMPLES_MAX sizes are taken. */
static size_t samples_of(const tt_bench_rows *rows, const row_filter *filter,
                         tt_linear_sample samples_out[TT_LINEAR_SAMPLES_MAX])
{
    tt_linear_sample *all = tt_cli_allocate(rows->count, sizeof(*all));
    double *times = tt_cli_allocate(rows->count, sizeof(*times));
    size_t count = 0, sizes = 0;
    for (size_t i = 0; i < rows->count; i++) {
        if (is_meant(filter, &rows->rows[i])) {
            all[count++] = (tt_linear_sample){.bytes = (double)rows->rows[i].bytes,
                                              .time_us = rows->rows[i].time_us};
        }
    }
    qsort(all, count, sizeof(*all), compare_samples);
    for (size_t first = 0, end; first < count && sizes < TT_LINEAR_SAMPLES_MAX; first = end) {
        for (end = first; end < count && all[end].bytes <= all[first].bytes; end++) {
            times[end - first] = all[end].time_us;
        }
        samples_out[sizes++] = (tt_linear_sample){
            .bytes = all[first].bytes, .time_us = tt_stopwatch_median(times, end - first)};
    }
    free(times);
    free(all);
    return sizes;
}

/* ---- numbers -----------------------------------------------------------------------------------
 */

static double rounded(double value)
{
    char digits[32];
    (void)snprintf(digits, sizeof(digits), "%.*g", DIGITS, value);
    return value < least_number ? 0 : strtod(digits, NULL);
}

/* False: out of the field's range, which is nothing to be told from. */
static bool number_set(tt_fit *fit, number_place place, double value)
{
    tt_text why = {.length = 0};
    return tt_cluster_field_set(&fit->cluster, fit->numbers[place].field, rounded(value), &why) ==
           TT_OK;
}

__attribute__((format(printf, 3, 4))) static void number_say(tt_fit *fit, number_place place,
                                                             const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(fit->numbers[place].how, sizeof(fit->numbers[place].how), format, arguments);
    va_end(arguments);
}

/* ---- links -------------------------------------------------------------------------------------
 */

/* Where the line begins, by the samples whose bytes take a small part of their time. */
static double start_of(const tt_linear_sample *samples, size_t count, const tt_linear *line)
{
    double starts[TT_LINEAR_SAMPLES_MAX];
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        const double bytes_us = line->byte_us * samples[i].bytes;
        if (bytes_us <= short_share * samples[i].time_us) {
            starts[used++] = samples[i].time_us - bytes_us;
        }
    }
    return used > 0 ? tt_stopwatch_median(starts, used) : line->start_us;
}

static bool is_short_sum(const tt_bench_row *row)
{
    return (row->collective == TT_ALLREDUCE || row->collective == TT_BARRIER) &&
           row->bytes <= SHORT_BYTES_MAX;
}

/* Short sums and barriers of two ranks are a frame each way, and one call where sendrecv is two.
 * Returns how many there are. */
static size_t shorten_start(const tt_bench_rows *rows, bool is_local, double *start_us_io)
{
    double *times = tt_cli_allocate(rows->count, sizeof(*times));
    size_t count = 0;
    for (size_t i = 0; i < rows->count; i++) {
        const tt_bench_row *row = &rows->rows[i];
        if (is_short_sum(row) && row->ranks == 2 && tt_bench_row_is_local(row) == is_local) {
            times[count++] = row->time_us;
        }
    }
    if (count > 0) {
        *start_us_io = fmin(*start_us_io, tt_stopwatch_median(times, count));
    }
    free(times);
    return count;
}

static void fit_link(fit_state *state, bool is_local)
{
    const number_place latency = is_local ? LOCAL_LATENCY : NETWORK_LATENCY;
    const number_place bandwidth = is_local ? LOCAL_BANDWIDTH : NETWORK_BANDWIDTH;
    row_filter filter = {.collective = TT_SEND, .is_local = is_local, .ranks_max = UINT32_MAX};
    tt_linear_sample samples[TT_LINEAR_SAMPLES_MAX];
    tt_linear line;
    const size_t count =
        narrow_to_smallest(state->rows, &filter) ? samples_of(state->rows, &filter, samples) : 0;
    number_say(state->fit, latency, "measure sendrecv %s, from 8 bytes to 16 MiB",
               is_local ? "on one host" : "on two hosts or more");
    memcpy(state->fit->numbers[bandwidth].how, state->fit->numbers[latency].how, TT_FIT_HOW_BYTES);
    if (tt_linear_fit(samples, count, &line) != TT_OK || line.byte_us <= 0 ||
        !number_set(state->fit, bandwidth, 1e-3 / line.byte_us)) {
        return;
    }
    state->start_us[is_local] = start_of(samples, count, &line);
    const size_t sums = shorten_start(state->rows, is_local, &state->start_us[is_local]);
    state->fit->numbers[latency].is_fitted = state->fit->numbers[bandwidth].is_fitted = true;
    number_say(state->fit, bandwidth, "sendrecv of %" PRIu32 " ranks, %zu sizes", filter.ranks_min,
               count);
    number_say(state->fit, latency, "short %s of 2 ranks, less twice the overhead",
               sums > 0 ? "allreduce and barrier" : "sendrecv");
}

/* ---- overhead ----------------------------------------------------------------------------------
 */

/* The overhead is this share of half the shorter start; latencies are what it leaves. */
static void share_set(fit_state *state, double share)
{
    const double *start_us = state->start_us;
    const bool has_both = start_us[0] > 0 && start_us[1] > 0;
    const double least_us = has_both ? fmin(start_us[0], start_us[1]) : start_us[0] + start_us[1];
    tt_cluster *cluster = &state->fit->cluster;
    cluster->overhead_us = share * least_us / 2;
    if (start_us[0] > 0) {
        cluster->network.latency_us = fmax(start_us[0] - 2 * cluster->overhead_us, 0);
    }
    if (start_us[1] > 0) {
        cluster->local.latency_us = fmax(start_us[1] - 2 * cluster->overhead_us, 0);
    }
}

/* Mean magnitude of log (modelled / measured) of short calls of several frames a rank; negative:
 * there are none. */
static double short_error(fit_state *state, double share)
{
    double sum = 0;
    size_t count = 0;
    share_set(state, share);
    for (size_t i = 0; i < state->rows->count; i++) {
        const tt_bench_row *row = &state->rows->rows[i];
        double modelled_us;
        if (is_short_sum(row) && row->ranks > 2 &&
            state->start_us[tt_bench_row_is_local(row)] > 0 &&
            tt_cluster_predict(&state->fit->cluster, row, &modelled_us) == TT_OK) {
            sum += fabs(log(fmax(modelled_us, 1e-3) / row->time_us));
            count++;
        }
    }
    return count > 0 ? sum / (double)count : -1;
}

/* The best share between two that enclose it. */
static double share_search(fit_state *state, double low, double high)
{
    const double ratio = 0.6180339887498949;
    for (int step = 0; step < SHARE_STEPS; step++) {
        const double a = high - ratio * (high - low), b = low + ratio * (high - low);
        if (short_error(state, a) < short_error(state, b)) {
            high = b;
        } else {
            low = a;
        }
    }
    return (low + high) / 2;
}

/* False: the short calls tell nothing, or there are none. */
static bool share_find(fit_state *state, double *share_out)
{
    double least = INFINITY, most = 0, best = 0;
    for (int i = 0; i <= SHARES; i++) {
        const double share = (double)i / SHARES;
        const double error = short_error(state, share);
        if (error < 0) {
            return false;
        }
        best = error < least ? share : best;
        least = fmin(least, error);
        most = fmax(most, error);
    }
    const double step = 1.0 / SHARES;
    *share_out = share_search(state, fmax(best - step, 0), fmin(best + step, 1));
    return most - least > told_min;
}

static void fit_overhead(fit_state *state)
{
    tt_fit *fit = state->fit;
    double share = 0;
    if (state->start_us[0] <= 0 && state->start_us[1] <= 0) {
        number_say(fit, OVERHEAD, "measure sendrecv, and barrier of three ranks or more");
        return;
    }
    fit->numbers[OVERHEAD].is_fitted = share_find(state, &share);
    if (fit->numbers[OVERHEAD].is_fitted) {
        number_say(fit, OVERHEAD, "short allreduce and barrier of three ranks or more");
    } else {
        share_set(state, 1);
        share = fmin(state->kept_us / fmax(fit->cluster.overhead_us, 1e-9), 1);
        number_say(fit, OVERHEAD, "%smeasure barrier of three ranks or more",
                   share < 1 ? "" : "lowered to half of the shortest exchange; ");
    }
    share_set(state, share);
    (void)number_set(fit, OVERHEAD, fit->cluster.overhead_us);
    (void)number_set(fit, LOCAL_LATENCY, fit->cluster.local.latency_us);
    (void)number_set(fit, NETWORK_LATENCY, fit->cluster.network.latency_us);
}

/* ---- rates -------------------------------------------------------------------------------------
 */

/* The rate at which the row's call is modelled to take as long as it did. False: none. */
static bool rate_of(const tt_cluster *cluster, const tt_cluster_field *field,
                    const tt_bench_row *row, double *rate_out)
{
    double low = log(rate_min_gbs), high = log(rate_max_gbs);
    for (int step = -2; step < RATE_STEPS; step++) {
        const double middle = step == -2 ? low : step == -1 ? high : (low + high) / 2;
        tt_cluster tried = *cluster;
        tt_text why = {.length = 0};
        double modelled_us;
        if (tt_cluster_field_set(&tried, field, exp(middle), &why) != TT_OK ||
            tt_cluster_predict(&tried, row, &modelled_us) != TT_OK) {
            return false;
        }
        const bool is_slow = modelled_us > row->time_us;
        if ((step == -2 && !is_slow) || (step == -1 && is_slow)) {
            return false;
        }
        low = step >= 0 && is_slow ? middle : low;
        high = step >= 0 && !is_slow ? middle : high;
    }
    *rate_out = exp(high);
    return true;
}

/* Set the number to the median of the rates of all rows that are meant. Returns how many rows have
 * one, of *count_out. */
static size_t fit_rate(fit_state *state, number_place place, const row_filter *filter,
                       size_t *count_out)
{
    double *rates = tt_cli_allocate(state->rows->count, sizeof(*rates));
    size_t found = 0;
    *count_out = 0;
    for (size_t i = 0; i < state->rows->count; i++) {
        const tt_bench_row *row = &state->rows->rows[i];
        if (is_meant(filter, row)) {
            ++*count_out;
            found +=
                rate_of(&state->fit->cluster, state->fit->numbers[place].field, row, &rates[found]);
        }
    }
    if (found > 0 && 2 * found >= *count_out) {
        state->fit->numbers[place].is_fitted =
            number_set(state->fit, place, tt_stopwatch_median(rates, found));
    }
    free(rates);
    return found;
}

static row_filter long_calls(tt_collective collective)
{
    return (row_filter){.collective = collective,
                        .is_local = true,
                        .ranks_max = UINT32_MAX,
                        .bytes_min = LONG_BYTES_MIN};
}

static void fit_reduce(fit_state *state, row_filter *filter_out)
{
    tt_fit *fit = state->fit;
    row_filter filter = long_calls(TT_ALLREDUCE);
    const double memory_gbs = fit->cluster.memory_gbs;
    size_t count = 0;
    number_say(fit, REDUCE, "measure allreduce of 64 KiB and more on one host");
    *filter_out = (row_filter){.ranks_max = 0};
    if (!narrow_to_smallest(state->rows, &filter)) {
        return;
    }
    *filter_out = filter;
    fit->cluster.memory_gbs = 0; /* the smallest job shows what a processor can */
    (void)fit_rate(state, REDUCE, &filter, &count);
    fit->cluster.memory_gbs = memory_gbs;
    if (fit->numbers[REDUCE].is_fitted) {
        number_say(fit, REDUCE, "allreduce of %" PRIu32 " ranks on one host, %zu rows",
                   filter.ranks_min, count);
    }
}

/* All collectives whose long calls are copies. */
static void fit_copy(fit_state *state)
{
    static const tt_collective copies[] = {TT_BROADCAST, TT_ALLGATHER};
    tt_fit *fit = state->fit;
    const double memory_gbs = fit->cluster.memory_gbs;
    size_t count = 0;
    number_say(fit, COPY, "measure broadcast of 64 KiB and more on one host");
    fit->cluster.memory_gbs = 0;
    fit->numbers[COPY].is_fitted = false;
    for (size_t i = 0; i < TT_ARRAY_COUNT(copies) && !fit->numbers[COPY].is_fitted; i++) {
        row_filter filter = long_calls(copies[i]);
        if (narrow_to_smallest(state->rows, &filter)) {
            (void)fit_rate(state, COPY, &filter, &count);
            number_say(fit, COPY, "%s of %" PRIu32 " ranks on one host, %zu rows",
                       tt_collective_name(copies[i]), filter.ranks_min, count);
        }
    }
    fit->cluster.memory_gbs = memory_gbs;
}

/* Rows that take longer than without a limit. */
static size_t limited_count(fit_state *state, const row_filter *filter, size_t *count_out)
{
    tt_cluster unlimited = state->fit->cluster;
    size_t limited = 0;
    unlimited.memory_gbs = 0;
    *count_out = 0;
    for (size_t i = 0; i < state->rows->count; i++) {
        const tt_bench_row *row = &state->rows->rows[i];
        double modelled_us;
        if (is_meant(filter, row) && tt_cluster_predict(&unlimited, row, &modelled_us) == TT_OK) {
            limited += row->time_us > limited_min * modelled_us;
            ++*count_out;
        }
    }
    return limited;
}

/* What so many ranks were seen to do at once may need more than the base's memory has: then it is
 * known to have at least that. */
static void raise_memory(fit_state *state, uint32_t ranks)
{
    enum { REDUCE_MOVES = 3, COPY_MOVES = 2 }; /* of a byte: fabric_memory.c */
    tt_fit *fit = state->fit;
    const double reduce_gbs = REDUCE_MOVES * fit->cluster.reduce_gbs;
    const double copy_gbs = fit->numbers[COPY].is_fitted ? COPY_MOVES * fit->cluster.copy_gbs : 0;
    const double least_gbs = ranks * fmax(reduce_gbs, copy_gbs);
    if (fit->cluster.memory_gbs > 0 && fit->cluster.memory_gbs < least_gbs &&
        number_set(fit, MEMORY, least_gbs)) {
        number_say(fit, MEMORY, "raised to what %" PRIu32 " ranks used; measure allreduce of more",
                   ranks);
    }
}

static void fit_memory(fit_state *state, const row_filter *smallest)
{
    tt_fit *fit = state->fit;
    row_filter filter = *smallest;
    size_t count = 0;
    number_say(fit, MEMORY, "measure allreduce of 64 KiB and more on one host with more ranks");
    if (!fit->numbers[REDUCE].is_fitted) {
        return;
    }
    raise_memory(state, smallest->ranks_min);
    filter.ranks_min = smallest->ranks_max + 1;
    filter.ranks_max = UINT32_MAX;
    const size_t limited = limited_count(state, &filter, &count);
    if (count == 0) {
        return;
    }
    if (2 * limited < count) {
        number_say(fit, MEMORY, "not reached by the ranks that were measured; measure more ranks");
        return;
    }
    (void)fit_rate(state, MEMORY, &filter, &count);
    if (fit->numbers[MEMORY].is_fitted) {
        number_say(fit, MEMORY, "allreduce of more than %" PRIu32 " ranks on one host, %zu rows",
                   smallest->ranks_max, count);
    }
}

/* ---- lines -------------------------------------------------------------------------------------
 */

static bool is_of_line(const tt_bench_row *a, const tt_bench_row *b)
{
    return a->collective == b->collective && a->hosts == b->hosts && a->ranks == b->ranks &&
           a->is_staged == b->is_staged && a->is_in_place == b->is_in_place && a->dtype == b->dtype;
}

static void line_measure(fit_state *state, tt_fit_line *line)
{
    double *errors = tt_cli_allocate(state->rows->count, sizeof(*errors));
    for (size_t i = 0; i < state->rows->count; i++) {
        const tt_bench_row *row = &state->rows->rows[i];
        double modelled_us;
        if (!is_of_line(line->first, row)) {
            continue;
        }
        if (tt_cluster_predict(&state->fit->cluster, row, &modelled_us) != TT_OK) {
            line->skipped++;
            continue;
        }
        const double error = modelled_us / row->time_us - 1;
        errors[line->row_count++] = fabs(error);
        if (line->worst_row == NULL || fabs(error) > fabs(line->worst)) {
            line->worst = error;
            line->worst_us = modelled_us;
            line->worst_row = row;
        }
    }
    line->median = line->row_count > 0 ? tt_stopwatch_median(errors, line->row_count) : 0;
    free(errors);
}

static void measure_lines(fit_state *state)
{
    tt_fit *fit = state->fit;
    for (size_t i = 0; i < state->rows->count; i++) {
        const tt_bench_row *row = &state->rows->rows[i];
        size_t known = 0;
        while (known < fit->line_count && !is_of_line(fit->lines[known].first, row)) {
            known++;
        }
        if (known == TT_FIT_LINES_MAX) {
            fit->lines_left++;
        } else if (known == fit->line_count) {
            fit->lines[fit->line_count] = (tt_fit_line){.first = row};
            line_measure(state, &fit->lines[fit->line_count++]);
        }
    }
}

/* ---- the fit -----------------------------------------------------------------------------------
 */

void tt_cluster_fit_hosts(const tt_bench_rows *rows, tt_cluster *cluster)
{
    cluster->host_count = 1;
    for (size_t i = 0; i < rows->count; i++) {
        const uint32_t ranks = tt_bench_row_ranks_per_host(&rows->rows[i]);
        cluster->host_count = rows->rows[i].hosts > 1 ? 0 : cluster->host_count;
        cluster->ranks_per_host = ranks > cluster->ranks_per_host ? ranks : cluster->ranks_per_host;
    }
}

/* A group is measured if its numbers are; if some are, it is no better than the others. */
static void sources_set(tt_fit *fit)
{
    size_t fitted[TT_CLUSTER_GROUPS] = {0}, all[TT_CLUSTER_GROUPS] = {0};
    for (size_t i = 0; i < TT_FIT_NUMBERS; i++) {
        all[fit->numbers[i].field->group]++;
        fitted[fit->numbers[i].field->group] += fit->numbers[i].is_fitted;
    }
    for (int group = 0; group < TT_CLUSTER_GROUPS; group++) {
        if (fitted[group] > 0) {
            fit->cluster.sources[group] =
                fitted[group] == all[group] ? TT_CLUSTER_MEASURED : TT_CLUSTER_ASSUMED;
        }
    }
}

tt_status tt_cluster_fit(const tt_cluster *base, const tt_bench_rows *rows, tt_text *why,
                         tt_fit *fit_out)
{
    row_filter smallest;
    TT_ASSERT(rows->count > 0);
    *fit_out = (tt_fit){.cluster = *base};
    fit_state state = {.rows = rows, .fit = fit_out, .kept_us = base->overhead_us};
    for (size_t i = 0; i < TT_FIT_NUMBERS; i++) {
        fit_out->numbers[i].field = tt_cluster_field_find(number_names[i]);
        TT_ASSERT(fit_out->numbers[i].field != NULL);
    }
    fit_link(&state, true);
    fit_link(&state, false);
    for (int pass = 0; pass < PASSES; pass++) {
        fit_overhead(&state);
        fit_reduce(&state, &smallest);
        fit_copy(&state);
    }
    fit_memory(&state, &smallest);
    sources_set(fit_out);
    const tt_cluster_field *fault = tt_cluster_fault(&fit_out->cluster, why);
    if (fault != NULL) {
        return TT_ERR_BAD_CONFIG;
    }
    measure_lines(&state);
    return TT_OK;
}
