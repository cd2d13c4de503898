/* SPDX-License-Identifier: Apache-2.0
 *
 * simulate_trace.c - see simulate_trace.h.
 *
 * The evaluated steps know neither the processor's overhead nor the wait for samples. They are
 * shown at the end of each step, and all later steps are shifted by them. */
#include "cli/simulate/simulate_trace.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "cli/allocate.h"

enum { SHOWN_BYTES = 60, EXCHANGES_PID = 0, EXCHANGES_FIRST = 256, DIGITS = 15 };

static const double same_us = 1e-6; /* chunks that are this near follow each other */

typedef struct simulate_trace {
    const tt_simulate_trace_config *config;
    FILE *stream;
    uint32_t step_first, step_end;
    tt_arrivals arrivals;
    tt_interval *exchanges; /* of the traced steps and the one before */
    size_t exchange_count, exchange_capacity;
    const tt_training *training; /* while it is written */
    double *end_us;              /* [step_end + 1] of the step before, of the slowest rank */
    double *shift_us;            /* [step_end + 1] of a step: for overhead and input before it */
    uint32_t rank;               /* that is written */
    bool has_event;
} simulate_trace;

/* ---- ranks ---- */

static bool read_number(const char **text_io, uint32_t *number_out)
{
    char *end = NULL;
    if (**text_io < '0' || **text_io > '9') {
        return false;
    }
    const unsigned long long number = strtoull(*text_io, &end, 10);
    *text_io = end;
    *number_out = (uint32_t)number;
    return number < TT_CLUSTER_RANKS_MAX;
}

tt_status tt_rank_ranges_parse(const char *text, tt_text *why, tt_rank_ranges *ranges_out)
{
    const char *at = text;
    tt_rank_ranges ranges = {.count = 0};
    uint64_t rank_count = 0;
    bool is_sound = true;
    while (is_sound && ranges.count < TT_TRACE_RANGES_MAX) {
        uint32_t first = 0, last = 0;
        is_sound = read_number(&at, &first);
        last = first;
        if (is_sound && *at == '-') {
            at++;
            is_sound = read_number(&at, &last) && last >= first;
        }
        rank_count += is_sound ? last - first + 1 : 0;
        ranges.items[ranges.count].first = first;
        ranges.items[ranges.count++].last = last;
        if (!is_sound || *at != ',') {
            break;
        }
        at++;
    }
    if (!is_sound || *at != '\0' || rank_count > TT_TRACE_RANKS_MAX) {
        tt_text_add_quoted(why, text, SHOWN_BYTES);
        tt_text_add(why, " is no list of up to %d ranks; give ranks and ranges, such as 0,7,16-23",
                    TT_TRACE_RANKS_MAX);
        return TT_ERR_BAD_ARGUMENT;
    }
    *ranges_out = ranges;
    return TT_OK;
}

/* ---- what is kept of the steps ---- */

/* Chunks of one transfer that follow each other are one bar. */
static bool continues(const tt_interval *last, const tt_interval *span)
{
    return last->kind == span->kind && last->step == span->step &&
           last->transfer == span->transfer && span->start_us <= last->end_us + same_us;
}

static void on_span(void *user, const tt_interval *span)
{
    simulate_trace *trace = user;
    tt_arrivals_note(&trace->arrivals, span);
    if (span->kind < TT_SPAN_PUSH || span->step + 1 < trace->step_first ||
        span->step >= trace->step_end) {
        return;
    }
    tt_interval *last =
        trace->exchange_count > 0 ? &trace->exchanges[trace->exchange_count - 1] : NULL;
    if (last != NULL && continues(last, span)) {
        last->end_us = span->end_us;
        last->arrived_us = span->arrived_us;
        return;
    }
    if (trace->exchange_count == trace->exchange_capacity) {
        const size_t capacity =
            trace->exchange_capacity > 0 ? 2 * trace->exchange_capacity : EXCHANGES_FIRST;
        tt_interval *wider = tt_cli_allocate(capacity, sizeof(*wider));
        if (trace->exchange_count > 0) {
            memcpy(wider, trace->exchanges, trace->exchange_count * sizeof(*wider));
        }
        free(trace->exchanges);
        trace->exchanges = wider;
        trace->exchange_capacity = capacity;
    }
    trace->exchanges[trace->exchange_count++] = *span;
}

/* ---- events ---- */

/* Of a bar in the file; a pid of 0 is that of the exchanges. */
typedef struct trace_bar {
    uint32_t pid, tid;
    const char *category;
    double start_us, end_us;
} trace_bar;

/* Whole nanoseconds. */
static double rounded(double us)
{
    return round(us * 1000) / 1000;
}

static void event_write(simulate_trace *trace, json_t *event)
{
    fputs(trace->has_event ? ",\n" : "\n", trace->stream);
    (void)json_dumpf(event, trace->stream, JSON_COMPACT | JSON_REAL_PRECISION(DIGITS));
    json_decref(event);
    trace->has_event = true;
}

static void name_write(simulate_trace *trace, const char *what, const trace_bar *place,
                       const char *name)
{
    event_write(trace, json_pack("{s:s, s:s, s:I, s:I, s:{s:s}}", "ph", "M", "name", what, "pid",
                                 (json_int_t)place->pid, "tid", (json_int_t)place->tid, "args",
                                 "name", name));
}

/* `arguments` are given away. */
static void bar_write(simulate_trace *trace, const trace_bar *bar, const char *name,
                      json_t *arguments)
{
    const double start_us = rounded(bar->start_us);
    event_write(trace, json_pack("{s:s, s:s, s:s, s:I, s:I, s:f, s:f, s:o}", "ph", "X", "cat",
                                 bar->category, "name", name, "pid", (json_int_t)bar->pid, "tid",
                                 (json_int_t)bar->tid, "ts", start_us, "dur",
                                 rounded(rounded(bar->end_us) - start_us), "args", arguments));
}

/* Names of tensors come from files, in which any bytes may be. */
static void tensor_name(const tt_tensor *tensor, tt_text *name)
{
    tt_text_add_words(name, tensor->name != NULL ? tensor->name : "?", SHOWN_BYTES);
}

static void transfer_name(const tt_timetable *plan, const tt_transfer *transfer, tt_text *name)
{
    if (transfer->member_count == 1) {
        tensor_name(&plan->workload->tensors[plan->members[transfer->member_first]], name);
    } else {
        tt_text_add(name, "%u tensors", transfer->member_count);
    }
}

static double shift_of(const simulate_trace *trace, uint32_t step)
{
    return trace->shift_us[step < trace->step_end ? step : trace->step_end];
}

static void exchange_write(simulate_trace *trace, const tt_interval *span)
{
    const tt_timetable *plan = trace->training->plan;
    const tt_transfer *transfer = &plan->transfers[span->transfer];
    const double shift_us = shift_of(trace, span->step);
    const trace_bar bar = {EXCHANGES_PID, (uint32_t)span->kind, "exchange",
                           shift_us + span->start_us, shift_us + span->end_us};
    tt_text name = {.length = 0};
    transfer_name(plan, transfer, &name);
    bar_write(trace, &bar, name.bytes,
              json_pack("{s:I, s:I, s:I, s:f}", "step", (json_int_t)span->step, "bytes",
                        (json_int_t)transfer->bytes, "tensors", (json_int_t)transfer->member_count,
                        "arrived_us", rounded(shift_us + span->arrived_us)));
}

static void exchanges_write(simulate_trace *trace)
{
    static const char *const names[TT_SPAN_KINDS] = {
        [TT_SPAN_PUSH] = "push", [TT_SPAN_PULL] = "pull", [TT_SPAN_COLLECTIVE] = "all-reduce"};
    bool is_named[TT_SPAN_KINDS] = {false};
    if (trace->exchange_count > 0) {
        name_write(trace, "process_name", &(trace_bar){.pid = EXCHANGES_PID},
                   "exchanges of all ranks");
    }
    for (size_t i = 0; i < trace->exchange_count; i++) {
        const tt_interval *span = &trace->exchanges[i];
        if (!is_named[span->kind]) {
            is_named[span->kind] = true;
            name_write(trace, "thread_name",
                       &(trace_bar){.pid = EXCHANGES_PID, .tid = (uint32_t)span->kind},
                       names[span->kind]);
        }
        exchange_write(trace, span);
    }
}

/* ---- ranks ---- */

static json_t *step_argument(uint32_t step)
{
    return json_pack("{s:I}", "step", (json_int_t)step);
}

/* The end of a step: overhead, then a wait for the samples of the next one. */
static void end_write(simulate_trace *trace, const tt_rank_span *last)
{
    const double start_us = shift_of(trace, last->step) + last->end_us;
    const double next_us = trace->shift_us[last->step + 1] + last->end_us;
    const double over_us = fmin(start_us + trace->training->overhead_us, next_us);
    const uint32_t pid = trace->rank + 1;
    if (over_us > start_us) {
        bar_write(trace, &(trace_bar){pid, 0, "overhead", start_us, over_us}, "overhead",
                  step_argument(last->step));
    }
    if (next_us > over_us) {
        bar_write(trace, &(trace_bar){pid, 0, "wait", over_us, next_us}, "wait for samples",
                  step_argument(last->step));
    }
}

/* Where the next forward waits for every exchange, the last of them begins when the slowest rank
 * has ended the step. */
static void wait_write(simulate_trace *trace, const tt_rank_span *span)
{
    const tt_timetable *plan = trace->training->plan;
    const double shift_us = shift_of(trace, span->step);
    const double slowest_us =
        plan->keeps_barrier ? fmin(trace->end_us[span->step], span->end_us) : span->start_us;
    trace_bar bar = {trace->rank + 1, 0, "wait", shift_us + span->start_us, shift_us + slowest_us};
    tt_text name = {.length = 0};
    if (slowest_us > span->start_us + same_us) {
        bar_write(trace, &bar, "wait for the slowest rank", step_argument(span->step));
        bar.start_us = bar.end_us;
    }
    bar.end_us = shift_us + span->end_us;
    if (plan->keeps_barrier) {
        tt_text_add(&name, "wait for exchanges");
    } else {
        tt_text_add(&name, "wait for ");
        tensor_name(&plan->workload->tensors[span->tensor], &name);
    }
    if (bar.end_us > bar.start_us + same_us) {
        bar_write(trace, &bar, name.bytes, step_argument(span->step));
    }
}

static void on_rank_span(void *user, const tt_rank_span *span)
{
    static const char *const names[] = {
        [TT_RANK_FORWARD] = "forward", [TT_RANK_BACKWARD] = "backward"};
    simulate_trace *trace = user;
    if (span->step < trace->step_first || span->step >= trace->step_end) {
        return;
    }
    const double shift_us = shift_of(trace, span->step);
    const trace_bar bar = {trace->rank + 1, 0, "computation", shift_us + span->start_us,
                           shift_us + span->end_us};
    if (span->kind != TT_RANK_WAIT) {
        bar_write(trace, &bar, names[span->kind], step_argument(span->step));
        if (span->kind == TT_RANK_BACKWARD) {
            end_write(trace, span);
        }
        return;
    }
    wait_write(trace, span);
}

static tt_status rank_write(simulate_trace *trace, uint32_t rank)
{
    const tt_rank_replay replay = {.plan = trace->training->plan,
                                   .arrivals = &trace->arrivals,
                                   .noise = trace->training->noise,
                                   .rank = rank,
                                   .step_count = trace->step_end,
                                   .allocator = &tt_allocator_default,
                                   .on_span = on_rank_span,
                                   .user = trace};
    const tt_cluster *cluster = trace->config->job->cluster;
    tt_text name = {.length = 0};
    tt_text_add(&name, "rank %" PRIu32 ", host %" PRIu32, rank, rank / cluster->ranks_per_host);
    trace->rank = rank;
    name_write(trace, "process_name", &(trace_bar){.pid = rank + 1}, name.bytes);
    name_write(trace, "thread_name", &(trace_bar){.pid = rank + 1}, "steps");
    return tt_rank_replay_run(&replay);
}

static uint32_t slowest_rank(const simulate_trace *trace)
{
    const tt_training *training = trace->training;
    const double compute_us = tt_workload_compute_us(training->plan->workload);
    return training->noise != NULL
               ? tt_rank_noise_draw(training->noise, trace->step_first, compute_us).slowest
               : 0;
}

static tt_status ranks_write(simulate_trace *trace)
{
    const tt_rank_ranges *ranks = &trace->config->ranks;
    for (uint32_t i = 0; i < ranks->count; i++) {
        for (uint32_t rank = ranks->items[i].first; rank <= ranks->items[i].last; rank++) {
            TT_TRY(rank_write(trace, rank));
        }
    }
    if (ranks->count == 0) {
        const uint32_t slowest = slowest_rank(trace);
        TT_TRY(rank_write(trace, 0));
        return slowest != 0 ? rank_write(trace, slowest) : TT_OK;
    }
    return TT_OK;
}

static tt_status over(void *user, const tt_training *training, const double *step_us)
{
    simulate_trace *trace = user;
    trace->training = training;
    for (uint32_t i = 0; i < trace->step_end; i++) {
        trace->end_us[i + 1] = trace->end_us[i] + step_us[i];
        trace->shift_us[i + 1] =
            trace->shift_us[i] + tt_training_step_us(training, step_us[i]) - step_us[i];
    }
    fputs("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [", trace->stream);
    exchanges_write(trace);
    const tt_status status = ranks_write(trace);
    fputs("\n]}\n", trace->stream);
    return status;
}

/* ---- life cycle ---- */

static tt_status check_ranks(const tt_rank_ranges *ranks, uint32_t rank_count, tt_text *why)
{
    for (uint32_t i = 0; i < ranks->count; i++) {
        if (ranks->items[i].last >= rank_count) {
            tt_text_add(why,
                        "--trace-ranks %" PRIu32 ": the job has ranks 0 to %" PRIu32 "; name "
                        "some of them",
                        ranks->items[i].last, rank_count - 1);
            return TT_ERR_BAD_ARGUMENT;
        }
    }
    return TT_OK;
}

static tt_status init(const tt_simulate_trace_config *config, tt_text *why, simulate_trace *trace)
{
    const uint32_t steps = (uint32_t)tt_min_u64(config->step_count, config->job->step_count);
    *trace = (simulate_trace){
        .config = config, .step_first = TT_EVALUATE_SETTLE, .step_end = TT_EVALUATE_SETTLE + steps};
    tt_arrivals_init(&trace->arrivals, trace->step_end, &tt_allocator_default);
    trace->end_us = tt_cli_allocate(trace->step_end + 1, sizeof(double));
    trace->shift_us = tt_cli_allocate(trace->step_end + 1, sizeof(double));
    trace->stream = fopen(config->path, "we");
    if (trace->stream == NULL) {
        tt_text_add_words(why, config->path, SHOWN_BYTES);
        tt_text_add(why, ": %s", strerror(errno));
        return TT_ERR_BAD_ARGUMENT;
    }
    return TT_OK;
}

/* False: the file could not be written. */
static bool fini(simulate_trace *trace)
{
    bool is_written = true;
    if (trace->stream != NULL) {
        is_written = !ferror(trace->stream);
        is_written = fclose(trace->stream) == 0 && is_written;
    }
    tt_arrivals_fini(&trace->arrivals);
    free(trace->exchanges);
    free(trace->end_us);
    free(trace->shift_us);
    return is_written;
}

tt_status tt_simulate_trace_run(const tt_simulate_trace_config *config, tt_text *why,
                                tt_job_result *result_out)
{
    simulate_trace trace;
    const tt_training_watch watch = {.on_span = on_span, .over = over, .user = &trace};
    TT_TRY(check_ranks(&config->ranks, config->job->rank_count, why));
    tt_status status = init(config, why, &trace);
    config->job->watch = &watch;
    status = status == TT_OK ? tt_job_run(config->job, why, result_out) : status;
    config->job->watch = NULL;
    if (!fini(&trace) && status == TT_OK) {
        tt_text_add_words(why, config->path, SHOWN_BYTES);
        tt_text_add(why, " cannot be written");
        return TT_ERR_BAD_ARGUMENT;
    }
    return status;
}
