/* SPDX-License-Identifier: Apache-2.0
 *
 * measure.c - one table of costs for all ranks: read by rank 0, or measured by the first job.
 *
 * Rank 0 reads the table (a file of the user's, or this machine's cache) and sends it with the
 * table of ranks. If it has no line for a job of this size and placement, and a cache can be
 * written, the job measures itself at the end of tutti_init: rank 0 broadcasts which calls to make,
 * all ranks make them, rank 0 takes the time and sends the new table. All of it uses public calls,
 * so that a rank that dies meanwhile is an error like any other.
 *
 *  (1) Only rank 0's clock, settings and file matter; every rank installs the same text between
 *      the same two calls.
 *  (2) Time is limited: orders end after BUDGET_NS; a collective that was not finished gets no
 *      line, and the built-in sizes decide.
 *  (3) Lines end not far above the largest measured size. Beyond it, effects of links and caches
 *      dominate that short calls do not show (a switch passes a burst at once, and all algorithms
 *      look alike), and the built-in choice sends no byte more than it must. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/registry.h"
#include "api/api_internal.h"
#include "api/measure.h"
#include "base/assert.h"
#include "base/base.h"

enum {
    BUDGET_NS = 80 * 1000 * 1000, /* the last order may start just before it ends */
    SAMPLE_NS = 1000 * 1000,      /* of one algorithm at one size, about */
    WARMUP_COUNT = 64, /* barriers, until waiting ranks have adapted how long they poll */
    REPEATS_MIN = 3,
    REPEATS_MAX = 24,
    REPEAT_SLOW_NS = 3 * 1000 * 1000, /* slower calls are made once */
    POINT_COUNT = 3,
    WHOLE_UNIT = 256, /* bytes of the shortest vector; of parts a quarter */
    POINT_FACTOR = 32,
    REACH = 4, /* times the largest size: up to where its line holds, see (3) */
    RANKS_MAX = 256,
    RANKS_PARTED_MAX = 64, /* buffers hold a part of every rank */
    HOPELESS = 4,          /* times the best at the middle size: not measured further */
    ALGORITHMS_MAX = 32,
    HEAD_BYTES = 64,
};

static const tutti_collective measured[] = {TUTTI_ALLREDUCE, TUTTI_BROADCAST, TUTTI_ALLGATHER,
                                            TUTTI_REDUCESCATTER, TUTTI_ALLTOALL};

typedef struct order {
    int64_t collective; /* -1: end of the measurement */
    int64_t algorithm;  /* registry index */
    int64_t bytes;      /* of the vector, or of a part */
    int64_t repeat_count;
} order;

typedef struct session {
    tutti_context *context;
    float *input;
    float *output;
    uint64_t until_ns;
    tt_costs *found; /* rank 0 */
    uint64_t times_ns[REPEATS_MAX];
} session;

/* ---- rank 0's note ---- */

static tt_status read_given(const char *path, tt_costs *costs, tt_text *why)
{
    tt_text reason = {0};
    if (tt_costs_file_read(path, costs, &reason) != TT_OK) {
        tt_text_add(why, "TUTTI_COSTS=%s: %s", path, reason.bytes);
        return TT_ERR_BAD_CONFIG;
    }
    return TT_OK;
}

tt_status tt_costs_check(const char *wanted, tt_text *why)
{
    if (strcmp(wanted, "none") == 0 || strcmp(wanted, "auto") == 0) {
        return TT_OK;
    }
    tt_costs *costs = calloc(1, sizeof(*costs));
    const tt_status status = costs != NULL ? read_given(wanted, costs, why) : TT_ERR_NO_MEMORY;
    free(costs);
    return status;
}

static tt_status read_table(tutti_context *context, const tt_config_source *source, bool *measures,
                            tt_text *why)
{
    const char *wanted = context->settings.costs;
    tt_text reason = {0};
    *measures = false;
    if (strcmp(wanted, "none") == 0) {
        return TT_OK;
    }
    if (strcmp(wanted, "auto") != 0) {
        return read_given(wanted, context->costs, why);
    }
    if (!tt_costs_cache_path(source, &context->settings, context->costs_path)) {
        return TT_OK;
    }
    if (tt_costs_file_read(context->costs_path, context->costs, &reason) == TT_ERR_BAD_CONFIG) {
        tt_log_write(&context->log, TT_LOG_WARN, "%s is ignored and will be replaced: %s",
                     context->costs_path, reason.bytes);
    }
    *measures = tt_costs_cache_is_writable(context->costs_path);
    return TT_OK;
}

tt_status tt_costs_note(tutti_context *context, const tt_config_source *source, char **note_out,
                        tt_text *why)
{
    bool measures;
    context->costs = calloc(1, sizeof(*context->costs));
    char *note = malloc(HEAD_BYTES + TT_COSTS_TEXT_BYTES_MAX + 1);
    if (context->costs == NULL || note == NULL) {
        free(note);
        return TT_ERR_NO_MEMORY;
    }
    *note_out = note;
    *note = '\0';
    if (context->rank != 0 || context->size == 1) {
        return TT_OK;
    }
    TT_TRY(read_table(context, source, &measures, why));
    const int head_bytes = snprintf(note, HEAD_BYTES, "%d\n", measures ? 1 : 0);
    TT_ASSERT(head_bytes > 0 && head_bytes < HEAD_BYTES);
    const size_t text_bytes = tt_costs_format(context->costs, note + head_bytes);
    note[(size_t)head_bytes + text_bytes] = '\0';
    return TT_OK;
}

bool tt_costs_is_crowded(const tt_mesh *mesh)
{
    for (uint32_t host = 0; host < mesh->worker_host_count; host++) {
        if (mesh->hosts[host].rank_count > mesh->hosts[host].core_count) {
            return true;
        }
    }
    return false;
}

tt_status tt_costs_take(tutti_context *context, const tt_mesh *mesh, tt_text *why)
{
    unsigned measures = 0;
    int head_bytes = 0;
    if (mesh->worker_count == 1) {
        return TT_OK;
    }
    if (mesh->note == NULL || mesh->note_bytes == 0 ||
        sscanf(mesh->note, "%1u%n", &measures, &head_bytes) != 1 ||
        mesh->note[head_bytes] != '\n' ||
        tt_costs_parse(mesh->note + head_bytes + 1, mesh->note_bytes - (size_t)head_bytes - 1,
                       context->costs, why) != TT_OK) {
        tt_text_add(why, "%srank 0 sent a malformed table of costs", why->length > 0 ? "; " : "");
        return TT_ERR_BAD_WIRE;
    }
    tt_control_set_costs(context->control, context->costs);
    const tt_forecast forecast = tt_control_forecast(context->control, TT_ALLREDUCE, 0);
    context->measures = measures != 0 && mesh->worker_count <= RANKS_MAX &&
                        context->settings.algorithm[0] == 0 && !context->engine_launches &&
                        !tt_costs_cover(context->costs, forecast.placement, mesh->worker_count);
    return TT_OK;
}

/* ---- orders ---- */

static bool is_parted(int64_t collective)
{
    return collective != TUTTI_ALLREDUCE && collective != TUTTI_BROADCAST;
}

static uint64_t point_bytes(tutti_collective collective, int point)
{
    uint64_t bytes = is_parted(collective) ? WHOLE_UNIT / 4 : WHOLE_UNIT;
    for (int i = 0; i < point; i++) {
        bytes *= POINT_FACTOR;
    }
    return bytes;
}

static tutti_status make_call(session *work, const order *given)
{
    const uint64_t count = (uint64_t)given->bytes / sizeof(float);
    tutti_call call = TUTTI_CALL_INIT;
    call.collective = (tutti_collective)given->collective;
    call.count = count;
    call.input = is_parted(given->collective) ? work->input : work->output;
    call.output = work->output;
    const tutti_status status = tt_call_run(work->context, &call, NULL);
    if (status != TUTTI_OK || given->collective != TUTTI_BROADCAST) {
        return status;
    }
    return tutti_barrier(work->context); /* a root returns long before the others */
}

static void force(tutti_context *context, const char *algorithm)
{
    tt_drive_acquire(context);
    tt_control_force(context->control, algorithm);
    tt_drive_release(context);
}

static tutti_status obey(session *work, const order *given)
{
    const tt_algorithm *algorithm = tt_algorithm_at((size_t)given->algorithm);
    tutti_status status = TUTTI_OK;
    if (algorithm == NULL || given->collective > TUTTI_ALLTOALL || given->bytes < 0 ||
        given->repeat_count > REPEATS_MAX ||
        (uint64_t)given->bytes >
            point_bytes((tutti_collective)given->collective, POINT_COUNT - 1)) {
        return tt_error_set(
            TUTTI_ERR_BAD_WIRE,
            "rank 0 ordered a measurement out of range; run the same version on all ranks");
    }
    force(work->context, algorithm->name);
    for (int64_t i = -1; i < given->repeat_count && status == TUTTI_OK; i++) {
        const uint64_t start_ns = tt_clock_ns();
        status = make_call(work, given);
        if (i >= 0) {
            work->times_ns[i] = tt_clock_ns() - start_ns;
        }
    }
    force(work->context, NULL);
    return status;
}

static tutti_status tell(session *work, order *given)
{
    return tutti_broadcast(work->context, given, sizeof(*given) / sizeof(int64_t), TUTTI_I64, 0);
}

/* ---- rank 0: the measurement ---- */

static int compare_times(const void *a, const void *b)
{
    const uint64_t left = *(const uint64_t *)a;
    const uint64_t right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

typedef struct candidate {
    size_t algorithm;
    int point_count; /* measured */
    uint64_t time_ns[POINT_COUNT];
} candidate;

static tutti_status measure_point(session *work, tutti_collective collective, candidate *one)
{
    const int point = one->point_count;
    const uint64_t last_ns = point > 0 ? one->time_ns[point - 1] * (POINT_FACTOR / 4) : 0;
    const uint64_t fitting = SAMPLE_NS / tt_max_u64(1, last_ns);
    order given = {
        .collective = collective,
        .algorithm = (int64_t)one->algorithm,
        .bytes = (int64_t)point_bytes(collective, point),
        .repeat_count = (int64_t)tt_min_u64(
            REPEATS_MAX, tt_max_u64(last_ns > REPEAT_SLOW_NS ? 1 : REPEATS_MIN, fitting))};
    tutti_status status = tell(work, &given);
    if (status == TUTTI_OK) {
        status = obey(work, &given);
    }
    qsort(work->times_ns, (size_t)given.repeat_count, sizeof(work->times_ns[0]), compare_times);
    one->time_ns[point] = work->times_ns[given.repeat_count / 4]; /* noise only adds */
    one->point_count++;
    return status;
}

static size_t find_candidates(session *work, tutti_collective collective, candidate *candidates)
{
    size_t count = 0;
    for (size_t i = 0; tt_algorithm_at(i) != NULL && count < ALGORITHMS_MAX; i++) {
        if (tt_control_fits(work->context->control, (tt_collective)collective, tt_algorithm_at(i),
                            point_bytes(collective, 1))) {
            candidates[count++] = (candidate){.algorithm = i};
        }
    }
    return count;
}

static void keep_lines(session *work, tutti_collective collective, const candidate *one)
{
    const tt_algorithm *algorithm = tt_algorithm_at(one->algorithm);
    const tt_forecast forecast =
        tt_control_forecast(work->context->control, (tt_collective)collective, 0);
    tt_cost_key key;
    if (!tt_cost_key_make(&key, tt_collective_name((tt_collective)collective), algorithm->name,
                          forecast.placement, (uint32_t)work->context->size)) {
        return;
    }
    for (int point = 0; point + 1 < one->point_count; point++) {
        const bool is_last = point + 2 == one->point_count;
        const uint64_t bytes[] = {point_bytes(collective, point),
                                  point_bytes(collective, point + 1)};
        const tt_cost cost = tt_cost_through(&key, bytes, &one->time_ns[point],
                                             is_last ? bytes[1] * REACH : bytes[1]);
        (void)tt_costs_put(work->found, &cost);
    }
}

/* All candidates, one size after the other, so that hopeless ones are dropped before the long
 * sizes. `*is_late_out`: the budget is used up; nothing is kept. */
static tutti_status measure_collective(session *work, tutti_collective collective,
                                       bool *is_late_out)
{
    candidate candidates[ALGORITHMS_MAX];
    const size_t count = find_candidates(work, collective, candidates);
    if (count < 2 || (is_parted(collective) && work->context->size > RANKS_PARTED_MAX)) {
        return TUTTI_OK;
    }
    uint64_t best_ns = UINT64_MAX;
    for (int point = 0; point < POINT_COUNT; point++) {
        const uint64_t limit_ns = point < 2 ? UINT64_MAX : best_ns * HOPELESS;
        best_ns = UINT64_MAX;
        for (size_t i = 0; i < count; i++) {
            if (point > 0 && candidates[i].time_ns[point - 1] > limit_ns) {
                continue;
            }
            *is_late_out = tt_clock_ns() >= work->until_ns;
            if (*is_late_out) {
                return TUTTI_OK;
            }
            const tutti_status status = measure_point(work, collective, &candidates[i]);
            if (status != TUTTI_OK) {
                return status;
            }
            best_ns = tt_min_u64(best_ns, candidates[i].time_ns[point]);
        }
    }
    for (size_t i = 0; i < count; i++) {
        keep_lines(work, collective, &candidates[i]);
    }
    return TUTTI_OK;
}

/* Marks this size and placement as measured, even if time was too short for any line. */
static void keep_mark(session *work)
{
    const tt_forecast forecast = tt_control_forecast(work->context->control, TT_ALLREDUCE, 0);
    tt_cost mark = {.bytes_max = TT_COSTS_ANY_BYTES};
    if (tt_cost_key_make(&mark.key, "measured", "none", forecast.placement,
                         (uint32_t)work->context->size)) {
        (void)tt_costs_put(work->found, &mark);
    }
}

static tutti_status lead(session *work)
{
    bool is_late = false;
    order over = {.collective = -1};
    for (size_t i = 0; i < TT_ARRAY_COUNT(measured) && !is_late; i++) {
        const tutti_status status = measure_collective(work, measured[i], &is_late);
        if (status != TUTTI_OK) {
            return status;
        }
    }
    keep_mark(work);
    return tell(work, &over);
}

static tutti_status follow(session *work)
{
    order given = {0};
    tutti_status status = tell(work, &given);
    while (status == TUTTI_OK && given.collective >= 0) {
        status = obey(work, &given);
        if (status == TUTTI_OK) {
            status = tell(work, &given);
        }
    }
    return status;
}

/* ---- the session ---- */

/* Rank 0's table to all, by two broadcasts; then all ranks use it. */
static tutti_status share_table(session *work, char *text)
{
    tutti_context *context = work->context;
    tt_text why = {0};
    int64_t bytes = context->rank == 0 ? (int64_t)tt_costs_format(work->found, text) : 0;
    tutti_status status = tutti_broadcast(context, &bytes, 1, TUTTI_I64, 0);
    if (status == TUTTI_OK && (bytes < 0 || bytes > TT_COSTS_TEXT_BYTES_MAX)) {
        status = tt_error_set(TUTTI_ERR_BAD_WIRE, "rank 0 sent a malformed table of costs");
    }
    if (status == TUTTI_OK) {
        status = tutti_broadcast(context, text, (uint64_t)bytes, TUTTI_U8, 0);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    tt_drive_acquire(context);
    const tt_status parsed = tt_costs_parse(text, (size_t)bytes, context->costs, &why);
    tt_control_set_costs(context->control, context->costs);
    tt_drive_release(context);
    return parsed == TT_OK ? TUTTI_OK
                           : tt_error_set(TUTTI_ERR_BAD_WIRE,
                                          "rank 0 sent a malformed table of costs: %s", why.bytes);
}

/* The kernel starts ranks of one host on the same core and takes tens of milliseconds to move them
 * apart; a job that computes is long past that. False: nothing to undo. */
static bool spread(const tutti_context *context, cpu_set_t *before_out)
{
    cpu_set_t own;
    int left = context->local_rank;
    if (context->is_crowded || sched_getaffinity(0, sizeof(*before_out), before_out) != 0) {
        return false;
    }
    for (size_t core = 0; core < CPU_SETSIZE; core++) {
        if (CPU_ISSET(core, before_out) && left-- == 0) {
            CPU_ZERO(&own);
            CPU_SET(core, &own);
            return sched_setaffinity(0, sizeof(own), &own) == 0;
        }
    }
    return false;
}

static tutti_status run_session(session *work, char *text)
{
    tutti_context *context = work->context;
    const uint64_t start_ns = tt_clock_ns();
    work->until_ns = start_ns + BUDGET_NS;
    tutti_status status = TUTTI_OK;
    for (int i = 0; i < WARMUP_COUNT && status == TUTTI_OK; i++) {
        status = tutti_barrier(context);
    }
    if (status == TUTTI_OK) {
        status = context->rank == 0 ? lead(work) : follow(work);
    }
    if (status == TUTTI_OK) {
        status = share_table(work, text);
    }
    if (status == TUTTI_OK && context->rank == 0) {
        const bool is_kept = tt_costs_cache_save(context->costs_path, context->costs) == TT_OK;
        tt_log_write(&context->log, TT_LOG_INFO, "costs of calls measured in %llu ms, %s %s",
                     (unsigned long long)((tt_clock_ns() - start_ns) / 1000000),
                     is_kept ? "kept in" : "but cannot be kept in", context->costs_path);
    }
    return status;
}

tutti_status tt_costs_measure(tutti_context *context)
{
    const uint64_t size = (uint64_t)context->size;
    const uint64_t part_bytes = point_bytes(TUTTI_ALLGATHER, POINT_COUNT - 1);
    const uint64_t parts = size <= RANKS_PARTED_MAX ? size : 0;
    const uint64_t bytes =
        tt_max_u64(point_bytes(TUTTI_ALLREDUCE, POINT_COUNT - 1), parts * part_bytes);
    if (!context->measures) {
        return TUTTI_OK;
    }
    session work = {.context = context};
    work.input = tt_memory_allocate(context, (size_t)bytes);
    work.output = tt_memory_allocate(context, (size_t)bytes);
    work.found = malloc(sizeof(*work.found));
    char *text = malloc(TT_COSTS_TEXT_BYTES_MAX);
    tutti_status status = TUTTI_ERR_NO_MEMORY;
    if (work.input != NULL && work.output != NULL && work.found != NULL && text != NULL) {
        cpu_set_t before;
        const bool is_spread = spread(context, &before);
        *work.found = *context->costs;
        status = run_session(&work, text);
        if (is_spread) {
            (void)sched_setaffinity(0, sizeof(before), &before);
        }
    } else {
        (void)tt_error_set(status,
                           "out of memory to measure costs; set TUTTI_COSTS=none to skip that");
    }
    free(text);
    free(work.found);
    if (work.output != NULL) {
        tt_memory_release(context, work.output);
    }
    if (work.input != NULL) {
        tt_memory_release(context, work.input);
    }
    return status;
}

/* ---- for display ---- */

tt_model tt_context_model(tutti_context *context, int collective, uint64_t bytes)
{
    tt_drive_acquire(context);
    const tt_forecast forecast =
        tt_control_forecast(context->control, (tt_collective)collective, bytes);
    tt_drive_release(context);
    return (tt_model){.algorithm = forecast.algorithm->name,
                      .time_s = (double)forecast.time_ns * 1e-9};
}

static void print_lines(const tt_costs *costs, void (*print)(void *user, const char *line),
                        void *user)
{
    char *text = malloc(TT_COSTS_TEXT_BYTES_MAX + 1);
    if (text == NULL) {
        return;
    }
    text[tt_costs_format(costs, text)] = '\0';
    for (char *line = text; *line != '\0';) {
        char *end = strchr(line, '\n');
        *end = '\0';
        print(user, line);
        line = end + 1;
    }
    free(text);
}

void tt_costs_print(void (*print)(void *user, const char *line), void *user)
{
    tt_settings settings;
    tt_text why = {0};
    char path[TT_COSTS_PATH_BYTES] = "";
    tt_text head = {0};
    tt_costs *costs = calloc(1, sizeof(*costs));
    if (costs == NULL) {
        return;
    }
    if (tt_settings_load(&tt_config_environment, &settings, &why) != TT_OK) {
        tt_text_add(&head, "# %s", why.bytes);
    } else if (strcmp(settings.costs, "none") == 0) {
        tt_text_add(&head, "# no table (TUTTI_COSTS=none): built-in sizes decide");
    } else if (strcmp(settings.costs, "auto") != 0) {
        (void)snprintf(path, sizeof(path), "%s", settings.costs);
    } else if (!tt_costs_cache_path(&tt_config_environment, &settings, path)) {
        tt_text_add(&head, "# no cache folder (HOME is not set): built-in sizes decide");
    }
    if (path[0] != '\0') {
        const tt_status status = tt_costs_file_read(path, costs, &why);
        tt_text_add(&head, "# %.400s%s%s", path, status == TT_OK ? "" : ": ", why.bytes);
    }
    print(user, head.bytes);
    if (costs->line_count > 0) {
        print_lines(costs, print, user);
    }
    free(costs);
}
