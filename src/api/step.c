/* SPDX-License-Identifier: Apache-2.0
 *
 * step.c - what happens once a step: its times, the order that is learnt, settings that are tried;
 * and a rank that makes no more of them.
 *
 * Every rank calls tutti_step at the same place among its calls, so what rank 0 says there holds on
 * all ranks from the same step on: a request is cut and batched as the setting says under which it
 * was submitted, and what was started before is submitted before the setting changes.
 *
 * Rank 0 speaks by a named sum to which the others give zeros, and all add up how many they are. A
 * rank that has joined is counted as nobody; then nothing is learnt and no setting changes, for it
 * would not know. When all have joined they begin to count steps anew, together.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api_internal.h"
#include "base/assert.h"
#include "base/base.h"
#include "base/hash64.h"
#include "schedule/schedule.h"

enum {
    NAMES_MAX = 65536,
    REPEATS_MIN = 64,       /* so many names come again, and so many times as many as there are: */
    REPEATS_FACTOR = 2,     /* the first step is over */
    WARMUP_STEPS = 2,       /* of a setting, not counted */
    SAMPLE_STEPS_MIN = 7,   /* counted */
    SAMPLE_STEPS_MAX = 50,  /* as many as a fifth of a second holds */
    FINAL_STEPS_FACTOR = 3, /* where a sample decides between two settings */
    SAMPLE_NS = 200 * 1000 * 1000,
    CHUNK_MIN = 16 * 1024,
    CHUNK_MAX = 512 * 1024,
    CREDIT_MIN = 256 * 1024,
    CREDIT_MAX = 256 * 1024 * 1024,
    FUSE_MIN = 1024,
    FUSE_MAX = TT_STEADY_BYTES, /* unless the user gave more */
    FUSE_WARMUP_STEPS = 4, /* more, where other tensors travel together: they are planned anew */
    DECIDE_STEPS = 3,      /* until auto says whether an order can help */
    WHOLE_STEPS = 2, /* calls of tutti_step with a whole step between, wherever it is called */
};

static const double batching_ratio = 0.8; /* of Caramel: what two transfers in one must save */

typedef struct name_list {
    char **names;
    uint32_t *index; /* [places] of names, + 1, by hash */
    size_t count, places;
} name_list;

struct tt_steps {
    pthread_mutex_t lock; /* guards the lists, and what tutti_count reads of the rest */
    name_list started, used;
    uint64_t repeat_count; /* names that were started again before the step was over */
    atomic_bool is_learning;
    atomic_bool is_noting; /* what is started */

    /* Of the thread that calls tutti_step. */
    uint64_t count;
    uint64_t began_ns, busy_ns, waited_ns, bytes; /* as they were at its last call */
    tutti_counters last;                          /* its times only */
    double gain;                                  /* what an order can bring at most; auto */
    uint64_t step_bytes;                          /* of gradients */

    tt_tuner tuner; /* rank 0, from its first proposal on */
    bool is_tuning, has_tuner;
    atomic_bool has_joined; /* all ranks have, since the last step */
    uint32_t steps_left, warmup_left, sample_count;
    double samples_us[SAMPLE_STEPS_MAX];
    uint64_t chunk_bytes, credit_bytes, fuse_bytes;
    uint64_t told_count; /* exchanges of this file's own, under a name */
};

/* ---- what rank 0 tells ---- */

enum { WORD_MEMBERS, WORD_CHUNK, WORD_CREDIT, WORD_FUSE, WORD_STEPS, WORD_COUNT };

/* Rank 0's words; the first one becomes the number of ranks that have not joined. */
static tutti_status tell(tutti_context *context, int64_t *words)
{
    tutti_call call = TUTTI_CALL_INIT;
    words[WORD_MEMBERS] = 1;
    call.name = "tutti.step";
    call.input = call.output = words;
    call.count = WORD_COUNT;
    call.dtype = TUTTI_I64;
    call.flags = TUTTI_ALONE | TUTTI_URGENT;
    context->steps->told_count++;
    return tutti_run(context, &call);
}

/* ---- the order that is learnt ---- */

static size_t list_place(const name_list *list, const char *name)
{
    size_t at = (size_t)tt_hash64(name, strlen(name), 0) & (list->places - 1);
    while (list->index[at] != 0 && strcmp(list->names[list->index[at] - 1], name) != 0) {
        at = (at + 1) & (list->places - 1);
    }
    return at;
}

/* Room for one more name, and an index that is at most half full. */
static bool list_reserve(name_list *list)
{
    if (2 * list->count < list->places) {
        return true;
    }
    const size_t places = list->places > 0 ? 2 * list->places : 128;
    uint32_t *index = calloc(places, sizeof(*index));
    char **names = realloc(list->names, places / 2 * sizeof(*names));
    list->names = names != NULL ? names : list->names;
    if (index == NULL || names == NULL) {
        free(index);
        return false;
    }
    free(list->index);
    list->index = index;
    list->places = places;
    for (size_t i = 0; i < list->count; i++) {
        list->index[list_place(list, names[i])] = (uint32_t)i + 1;
    }
    return true;
}

/* False: it is there already. One that cannot be kept is left out. */
static bool list_add(name_list *list, const char *name)
{
    if (!list_reserve(list)) {
        return true;
    }
    const size_t at = list_place(list, name);
    if (list->index[at] != 0) {
        return false;
    }
    char *copy = list->count < NAMES_MAX && tt_order_name_is_writable(name) ? strdup(name) : NULL;
    if (copy != NULL) {
        list->names[list->count++] = copy;
        list->index[at] = (uint32_t)list->count;
    }
    return true;
}

static void list_clear(name_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->names[i]);
    }
    free(list->names);
    free(list->index);
    *list = (name_list){0};
}

void tt_steps_note(tutti_context *context, const tutti_handle *handle)
{
    tt_steps *steps = context->steps;
    if (steps == NULL || !atomic_load_explicit(&steps->is_noting, memory_order_relaxed) ||
        handle->request.urgency >= TT_URGENCY_ACTIVATION / 2) {
        return;
    }
    (void)pthread_mutex_lock(&steps->lock);
    steps->repeat_count += list_add(&steps->started, handle->name) ? 0 : 1;
    /* This program does not call tutti_step: its threads are spared the lock. */
    if (steps->repeat_count > REPEATS_MIN + REPEATS_FACTOR * steps->started.count) {
        atomic_store(&steps->is_noting, false);
    }
    (void)pthread_mutex_unlock(&steps->lock);
}

tutti_status tutti_use(tutti_context *context, const char *name)
{
    const tutti_status status = tt_call_check(context);
    if (status != TUTTI_OK) {
        return status;
    }
    if (name == NULL || !tt_order_name_is_writable(name)) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT,
                            "tutti_use: a name has 1 to 255 bytes and no control characters");
    }
    tt_steps *steps = context->steps;
    if (atomic_load(&steps->is_learning)) {
        (void)pthread_mutex_lock(&steps->lock);
        (void)list_add(&steps->used, name);
        (void)pthread_mutex_unlock(&steps->lock);
    }
    return TUTTI_OK;
}

/* As text; the caller frees. What is used first comes first: as told, else last ready, first used.
 */
static char *learnt_text(const tt_steps *steps, size_t *bytes_out)
{
    const bool is_told = steps->used.count > 0;
    const name_list *list = is_told ? &steps->used : &steps->started;
    size_t room = strlen(TT_ORDER_TITLE) + 2, at = 0;
    for (size_t i = 0; i < list->count; i++) {
        room += strlen(list->names[i]) + 24;
    }
    char *text = list->count > 0 ? malloc(room) : NULL;
    if (text == NULL) {
        *bytes_out = 0;
        return NULL;
    }
    at += (size_t)snprintf(text, room, "%s\n", TT_ORDER_TITLE);
    for (size_t i = 0; i < list->count; i++) {
        const size_t from = is_told ? i : list->count - 1 - i;
        at += (size_t)snprintf(text + at, room - at, "%zu\t%s\n", i, list->names[from]);
    }
    *bytes_out = at;
    return text;
}

static tutti_status learn(tutti_context *context, tt_steps *steps)
{
    size_t bytes = 0;
    int64_t words[WORD_COUNT] = {0};
    const tutti_status told = tell(context, words);
    if (told != TUTTI_OK || words[WORD_MEMBERS] < context->size) {
        return told; /* or later, when nobody has joined */
    }
    (void)pthread_mutex_lock(&steps->lock);
    char *text = context->rank == 0 ? learnt_text(steps, &bytes) : NULL;
    atomic_store(&steps->is_learning, false);
    atomic_store(&steps->is_noting, false);
    list_clear(&steps->started);
    list_clear(&steps->used);
    (void)pthread_mutex_unlock(&steps->lock);
    const tutti_status status = tt_name_order_spread(context, text, bytes);
    free(text);
    return status;
}

/* ---- times ---- */

static double ratio(double part, double whole)
{
    return whole > 0.0 ? part / whole : 0.0;
}

/* (N + C - T) / min(N, C): of what could run side by side, how much did. */
static double overlap(double network, double compute, double step)
{
    return ratio(network + compute - step, network < compute ? network : compute);
}

/* By the table of costs; 0: it says nothing. */
static double model_ns(tutti_context *context, uint64_t bytes)
{
    return bytes > 0 ? tt_context_model(context, TUTTI_ALLREDUCE, bytes).time_s * 1e9 : 0.0;
}

static void take_times(tutti_context *context, tt_steps *steps, uint64_t now_ns)
{
    tt_drive_acquire(context);
    const tt_control_counters counted = tt_control_count(context->control);
    tt_drive_release(context);
    const uint64_t waited_ns = atomic_load(&context->waited_ns);
    const double model = model_ns(context, counted.gradient_bytes - steps->bytes);
    (void)pthread_mutex_lock(&steps->lock);
    if (steps->count > 0) {
        const double step = (double)(now_ns - steps->began_ns);
        const double waited = (double)(waited_ns - steps->waited_ns);
        const double compute = waited < step ? step - waited : 0.0;
        const double busy = (double)(counted.busy_ns - steps->busy_ns);
        const double network = busy < step ? busy : step;
        const double wire = model > 0.0 ? model : network;
        const double order = overlap(wire, compute, step);
        steps->step_bytes = counted.gradient_bytes - steps->bytes;
        steps->last.step_ns = (uint64_t)step;
        steps->last.compute_ns = (uint64_t)compute;
        steps->last.network_ns = (uint64_t)network;
        steps->last.rho = ratio(network, compute);
        steps->last.alpha = overlap(network, compute, step);
        steps->last.utilisation = ratio(compute, step);
        steps->last.efficiency = order < 0.0 ? 0.0 : (order > 1.0 ? 1.0 : order);
        steps->gain = tt_overlap_gain(wire, compute);
    }
    steps->began_ns = now_ns;
    steps->busy_ns = counted.busy_ns;
    steps->bytes = counted.gradient_bytes;
    steps->waited_ns = waited_ns;
    steps->count++;
    (void)pthread_mutex_unlock(&steps->lock);
}

void tt_steps_count(tutti_context *context, tutti_counters *counters_out)
{
    tt_steps *steps = context->steps;
    (void)pthread_mutex_lock(&steps->lock);
    counters_out->step_count = steps->count;
    counters_out->step_ns = steps->last.step_ns;
    counters_out->compute_ns = steps->last.compute_ns;
    counters_out->network_ns = steps->last.network_ns;
    counters_out->rho = steps->last.rho;
    counters_out->alpha = steps->last.alpha;
    counters_out->utilisation = steps->last.utilisation;
    counters_out->efficiency = steps->last.efficiency;
    counters_out->chunk_bytes = steps->chunk_bytes;
    counters_out->credit_bytes = steps->credit_bytes;
    counters_out->fuse_bytes = steps->fuse_bytes;
    (void)pthread_mutex_unlock(&steps->lock);
}

/* auto: with nothing to gain, calls take the plain path. Each rank for itself: urgency is no one
 * else's affair. */
static void decide(tutti_context *context, const tt_steps *steps)
{
    const bool is_auto = context->settings.schedule == TT_SCHEDULE_AUTO;
    if (is_auto && steps->count >= DECIDE_STEPS) {
        const bool has_order = !atomic_load(&context->is_plain);
        atomic_store(&context->is_plain, !tt_overlap_is_worth(steps->gain, has_order));
    }
}

/* ---- tuning ---- */

/* A line a + b d through the table of costs; false: it says nothing. */
static bool fit(tutti_context *context, const tt_steps *steps, tt_linear *line_out)
{
    const double least_us = model_ns(context, 1) / 1e3;
    const double all_us = model_ns(context, steps->step_bytes) / 1e3;
    if (!(least_us > 0.0) || !(all_us > least_us)) {
        return false;
    }
    *line_out = (tt_linear){.start_us = least_us,
                            .byte_us = (all_us - least_us) / (double)steps->step_bytes};
    return true;
}

static double between(double value, double least, double most)
{
    return value < least ? least : (value < most ? value : most);
}

static uint64_t fuse_max(const tutti_context *context)
{
    return tt_max_u64(context->settings.fuse_bytes, FUSE_MAX);
}

/* Are there tensors that could travel together? */
static bool has_names(tutti_context *context, const tt_steps *steps)
{
    const char *mode = "";
    tt_drive_acquire(context);
    const tt_negotiate_counters *count = tt_control_set_count(context->control, 0, &mode);
    const uint64_t named = count != NULL ? count->agreed + count->planned : 0;
    tt_drive_release(context);
    return context->settings.fuse_bytes > 0 && named > steps->told_count;
}

/* c* of a step's bytes and the batching threshold by the table of costs; where it says nothing, the
 * middle of the range, from which all of it is near. The present setting may lie in a corner. */
static tt_tuner_config tuner_config(tutti_context *context, const tt_steps *steps)
{
    const double credit = steps->credit_bytes > 0 ? (double)steps->credit_bytes : CREDIT_MAX;
    const double fuse_most = (double)fuse_max(context);
    const double fuse = between((double)steps->fuse_bytes, FUSE_MIN, fuse_most);
    tt_tuner_config config = {.dimension_count = has_names(context, steps) ? 3 : 2,
                              .min = {{CHUNK_MIN, CREDIT_MIN, FUSE_MIN}},
                              .max = {{CHUNK_MAX, CREDIT_MAX, fuse_most}},
                              .start = {{(double)steps->chunk_bytes, credit, fuse}}};
    for (uint32_t i = 0; i < TT_GAUSS_DIMENSIONS; i++) {
        config.seed.at[i] = sqrt(config.min.at[i] * config.max.at[i]);
    }
    tt_linear line;
    if (fit(context, steps, &line)) {
        const double chunk =
            tt_tuner_chunk_seed((double)steps->step_bytes, line.start_us, 1.0 / line.byte_us, 1.0);
        config.seed.at[TT_TUNER_CHUNK] = between(chunk, CHUNK_MIN, CHUNK_MAX);
        config.seed.at[TT_TUNER_BATCH] =
            between(tt_linear_threshold_bytes(&line, batching_ratio), FUSE_MIN, fuse_most);
    }
    return config;
}

/* A line is "chunk credit fuse microseconds"; older files have no fuse. */
static void profile_read(tutti_context *context, tt_steps *steps)
{
    const char *path = context->settings.profile;
    FILE *file = path[0] != 0 ? fopen(path, "re") : NULL;
    char line[256];
    for (int number = 1; file != NULL && fgets(line, sizeof(line), file) != NULL; number++) {
        double of[4];
        const int count = sscanf(line, "%lf %lf %lf %lf", &of[0], &of[1], &of[2], &of[3]);
        tt_tuner_sample sample = {
            .setting = {{of[0], of[1], count == 4 ? of[2] : (double)steps->fuse_bytes}},
            .step_us = of[count == 4 ? 3 : 2]};
        if (count < 3 || !tt_tuner_recall(&steps->tuner, &sample)) {
            tt_log_write(&context->log, TT_LOG_WARN,
                         "TUTTI_PROFILE=%s: line %d is no sample, or one too many; it and what "
                         "follows are ignored",
                         path, number);
            break;
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
}

/* Half of what a tuner keeps may come from a profile: the best of this run. */
static void profile_write(tutti_context *context, const tt_steps *steps)
{
    const char *path = context->settings.profile;
    FILE *file = path[0] != 0 ? fopen(path, "we") : NULL;
    if (file == NULL) {
        if (path[0] != 0) {
            tt_log_write(&context->log, TT_LOG_WARN, "TUTTI_PROFILE=%s cannot be written", path);
        }
        return;
    }
    double bar_us = 0.0; /* none of those kept is slower */
    for (uint32_t kept = 0; kept < TT_TUNER_RECALLED_MAX; kept++) {
        const tt_tuner_sample *next = NULL;
        for (uint32_t i = 0; i < steps->tuner.sample_count; i++) {
            const tt_tuner_sample *one = &steps->tuner.samples[i];
            if (one->step_us > bar_us && (next == NULL || one->step_us < next->step_us)) {
                next = one;
            }
        }
        if (next == NULL) {
            break;
        }
        bar_us = next->step_us;
        (void)fprintf(file, "%.0f %.0f %.0f %.3f\n", next->setting.at[TT_TUNER_CHUNK],
                      next->setting.at[TT_TUNER_CREDIT],
                      next->setting.at[TT_TUNER_BATCH] > 0 ? next->setting.at[TT_TUNER_BATCH]
                                                           : (double)steps->fuse_bytes,
                      next->step_us);
    }
    (void)fclose(file);
}

/* The present setting has run until now, and is what the tuner asks for first. */
static void tuner_begin(tutti_context *context, tt_steps *steps)
{
    const tt_tuner_config config = tuner_config(context, steps);
    tt_text why = {0};
    const tt_status status = tt_tuner_init(&steps->tuner, &config, &why);
    TT_ASSERT(status == TT_OK); /* the ranges are ours */
    steps->has_tuner = true;
    profile_read(context, steps);
    tt_tuner_setting present;
    (void)tt_tuner_ask(&steps->tuner, &present);
}

static int by_time(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The steps since the last proposal, to the tuner: their lower quartile. What disturbs a step only
 * makes it longer, and often comes for seconds, so that most steps of a sample may be disturbed. */
static double report(tt_steps *steps)
{
    const bool is_settled = steps->tuner.is_settled;
    for (uint32_t i = 0; is_settled && i < steps->sample_count; i++) {
        (void)tt_tuner_watch(&steps->tuner, steps->samples_us[i]);
    }
    qsort(steps->samples_us, steps->sample_count, sizeof(double), by_time);
    const double typical_us =
        steps->sample_count > 0 ? steps->samples_us[steps->sample_count / 4] : 0.0;
    if (!is_settled && steps->sample_count > 0) {
        tt_tuner_tell(&steps->tuner, typical_us);
    }
    return typical_us;
}

/* Rank 0: the next setting, and for how many steps it holds at least. */
static void propose(tutti_context *context, tt_steps *steps, int64_t *words)
{
    if (!steps->has_tuner) {
        tuner_begin(context, steps);
    }
    const bool was_settled = steps->tuner.is_settled;
    const double typical_us = report(steps);
    tt_tuner_setting next;
    const bool is_asking = tt_tuner_ask(&steps->tuner, &next);
    const bool has_fuse = steps->tuner.config.dimension_count > TT_TUNER_BATCH;
    const double fuse = has_fuse ? next.at[TT_TUNER_BATCH] : (double)steps->fuse_bytes;
    if (!is_asking && !was_settled) {
        profile_write(context, steps);
    }
    if (is_asking == was_settled) {
        tt_log_write(&context->log, TT_LOG_INFO,
                     is_asking ? "step times have changed: chunk %.0f bytes, credit %.0f and "
                                 "batches up to %.0f are tuned anew"
                               : "tuned: chunk %.0f bytes, credit %.0f, batches up to %.0f",
                     next.at[TT_TUNER_CHUNK], next.at[TT_TUNER_CREDIT], fuse);
    }
    const double fitting = typical_us > 0.0 ? SAMPLE_NS / 1e3 / typical_us : SAMPLE_STEPS_MIN;
    const double factor = tt_tuner_is_final(&steps->tuner) ? FINAL_STEPS_FACTOR : 1;
    words[WORD_CHUNK] = (int64_t)(next.at[TT_TUNER_CHUNK] / 64.0 + 0.5) * 64;
    words[WORD_CREDIT] = (int64_t)(next.at[TT_TUNER_CREDIT] + 0.5);
    words[WORD_FUSE] = (int64_t)(fuse + 0.5);
    words[WORD_STEPS] =
        (int64_t)between(factor * fitting, factor * SAMPLE_STEPS_MIN, SAMPLE_STEPS_MAX);
}

static bool is_sane(const tutti_context *context, const int64_t *words)
{
    return words[WORD_CHUNK] >= 64 && words[WORD_CHUNK] <= CHUNK_MAX &&
           words[WORD_CHUNK] % 64 == 0 && words[WORD_CREDIT] > 0 && words[WORD_FUSE] >= 0 &&
           (uint64_t)words[WORD_FUSE] <= fuse_max(context) && words[WORD_STEPS] > 0 &&
           words[WORD_STEPS] <= SAMPLE_STEPS_MAX;
}

/* From here on for all ranks. */
static void take_setting(tutti_context *context, tt_steps *steps, const int64_t *words)
{
    const uint32_t chunk_bytes = (uint32_t)words[WORD_CHUNK];
    const uint64_t fuse_bytes = (uint64_t)words[WORD_FUSE];
    const bool is_fused_anew = fuse_bytes != steps->fuse_bytes;
    tt_drive_acquire(context);
    tt_drive_drain(context); /* what was started before keeps its setting */
    if (chunk_bytes != steps->chunk_bytes) {
        tt_control_set_segment(context->control, chunk_bytes);
        tt_real_expect(context->real, chunk_bytes);
    }
    tt_control_set_credit(context->control, (uint64_t)words[WORD_CREDIT]);
    tt_control_set_fuse(context->control, fuse_bytes);
    tt_drive_release(context);
    (void)pthread_mutex_lock(&steps->lock);
    steps->chunk_bytes = chunk_bytes;
    steps->credit_bytes = (uint64_t)words[WORD_CREDIT];
    steps->fuse_bytes = fuse_bytes;
    (void)pthread_mutex_unlock(&steps->lock);
    steps->warmup_left = WARMUP_STEPS + (is_fused_anew ? FUSE_WARMUP_STEPS : 0);
    steps->steps_left = steps->warmup_left + (uint32_t)words[WORD_STEPS];
    steps->sample_count = 0;
}

/* Samples of the present setting are taken anew. */
static void sample_anew(tt_steps *steps)
{
    steps->warmup_left = WARMUP_STEPS;
    steps->steps_left = WARMUP_STEPS + SAMPLE_STEPS_MIN;
    steps->sample_count = 0;
}

static tutti_status tune(tutti_context *context, tt_steps *steps)
{
    if (steps->warmup_left > 0) {
        steps->warmup_left--;
    } else if (steps->sample_count < SAMPLE_STEPS_MAX && steps->last.step_ns > 0) {
        steps->samples_us[steps->sample_count++] = (double)steps->last.step_ns / 1e3;
    }
    if (--steps->steps_left > 0) {
        return TUTTI_OK;
    }
    int64_t words[WORD_COUNT] = {0};
    const tt_tuner before = steps->tuner;
    if (context->rank == 0) {
        propose(context, steps, words);
    }
    const tutti_status status = tell(context, words);
    if (status != TUTTI_OK || words[WORD_MEMBERS] < context->size) {
        /* Some rank has joined: what holds, holds on, and nothing was proposed. */
        steps->has_tuner = before.config.dimension_count > 0;
        steps->tuner = before;
        sample_anew(steps);
        return status;
    }
    if (!is_sane(context, words)) {
        return tt_error_set(TUTTI_ERR_BAD_WIRE, "rank 0 sent no setting");
    }
    take_setting(context, steps, words);
    return TUTTI_OK;
}

/* ---- life ---- */

tutti_status tt_steps_begin(tutti_context *context)
{
    tt_steps *steps = calloc(1, sizeof(*steps));
    if (steps == NULL) {
        return tt_error_set(TUTTI_ERR_NO_MEMORY, "out of memory for a context");
    }
    const tt_settings *settings = &context->settings;
    (void)pthread_mutex_init(&steps->lock, NULL);
    steps->chunk_bytes = settings->segment_bytes;
    steps->credit_bytes = settings->credit_bytes;
    steps->fuse_bytes = settings->fuse_bytes;
    atomic_init(&steps->has_joined, false);
    atomic_init(&steps->is_learning, settings->order[0] == 0 && context->size > 1 &&
                                         (settings->schedule == TT_SCHEDULE_AUTO ||
                                          settings->schedule == TT_SCHEDULE_PRIORITY));
    atomic_init(&steps->is_noting, atomic_load(&steps->is_learning));
    steps->is_tuning = settings->tunes && context->size > 1;
    sample_anew(steps);
    context->steps = steps;
    return TUTTI_OK;
}

void tt_steps_end(tutti_context *context)
{
    tt_steps *steps = context->steps;
    if (steps != NULL) {
        list_clear(&steps->started);
        list_clear(&steps->used);
        (void)pthread_mutex_destroy(&steps->lock);
        free(steps);
    }
}

tutti_status tutti_step(tutti_context *context)
{
    tutti_status status = tt_call_check(context);
    if (status != TUTTI_OK) {
        return status;
    }
    if (tt_error_in_callback()) {
        return tt_error_set(TUTTI_ERR_WRONG_THREAD, "a callback must not end a step");
    }
    tt_steps *steps = context->steps;
    atomic_store(&context->counts_waits, true);
    if (atomic_exchange(&steps->has_joined, false)) {
        sample_anew(steps); /* as all ranks do: they did not make equally many steps */
    }
    take_times(context, steps, tt_clock_ns());
    if (steps->count == WHOLE_STEPS) {
        tt_name_order_tell_unused(context, "in the first step");
    }
    if (atomic_load(&steps->is_learning)) {
        status = learn(context, steps);
    }
    decide(context, steps);
    if (status == TUTTI_OK && steps->is_tuning) {
        status = tune(context, steps);
    }
    return status;
}

tutti_status tutti_join(tutti_context *context, tutti_set set, int *last_rank_out)
{
    tutti_status status = tt_call_check(context);
    if (status != TUTTI_OK) {
        return status;
    }
    tt_steps *steps = context->steps;
    if (steps->is_tuning && set != 0) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT,
                            "with TUTTI_TUNE a rank joins process set 0, not %u: the others would "
                            "wait for it in tutti_step",
                            set);
    }
    tutti_call call = TUTTI_CALL_INIT;
    const tt_call_extra extra = {.is_join = true, .last_out = last_rank_out};
    call.collective = TUTTI_BARRIER;
    call.set = set;
    status = tt_call_run(context, &call, &extra);
    if (status == TUTTI_OK && set == 0) {
        atomic_store(&steps->has_joined, true);
    }
    return status;
}
