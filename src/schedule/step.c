/* SPDX-License-Identifier: Apache-2.0
 *
 * step.c - the stepper: an order is learnt in the first step, settings are tried in later ones. */
#include "schedule/step.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/plant.h"
#include "kernel/hash64.h"
#include "schedule/name_table.h"
#include "schedule/order_text.h"
#include "schedule/overlap.h"

enum {
    NAMES_MAX = 65536,
    REPEATS_MIN = 64,   /* repeated names, this many plus a multiple of all names: */
    REPEATS_FACTOR = 2, /* the first step is over */
    SAMPLE_STEPS_MAX = 50,
    FINAL_STEPS_FACTOR = 3, /* for a sample that decides between two settings */
    DECIDE_STEPS = 3,       /* before it is decided whether an order can help */
    CHUNK_UNIT = 64,
};

static const double batching_ratio = 0.8; /* of Caramel: fuse up to this f(2d) / (2 f(d)) */

typedef enum step_phase {
    STEP_IDLE,
    STEP_ASKING, /* count the ranks; length of the order */
    STEP_TEXT,   /* the order itself */
    STEP_TUNING, /* the next setting */
} step_phase;

/* Words that rank 0 broadcasts. */
enum { WORD_MEMBERS, WORD_CHUNK, WORD_CREDIT, WORD_FUSE, WORD_STEPS, WORD_TEXT, WORD_COUNT };

struct tt_stepper {
    tt_step_config config;
    tt_step_host host;
    const tt_allocator *allocator;
    step_phase phase;
    bool is_ending; /* a step ends; else an order is being spread */
    tt_carrier carrier;
    int64_t words[WORD_COUNT];
    char *text; /* of the order, while it is exchanged */
    size_t text_room;
    tt_status status; /* of the last end or spread */
    tt_text why;

    tt_name_table started, used, order;
    uint64_t order_hash;
    uint64_t repeat_count; /* names started again before the step was over */
    bool is_learning, is_noting, is_plain;

    tt_step_counters counters;
    tt_step_moment last;
    double gain; /* largest gain of an order */
    uint64_t step_bytes;

    tt_tuner tuner, before; /* rank 0, from its first proposal on; state before this one */
    bool has_tuner, has_names;
    tt_tuner_sample recalled[TT_TUNER_RECALLED_MAX];
    uint32_t recalled_count;
    uint32_t steps_left, warmup_left, sample_count;
    double samples_us[SAMPLE_STEPS_MAX];
    uint64_t told_count; /* carriers */
};

static void step_set_phase(tt_stepper *stepper, step_phase phase)
{
    enum { IDLE = 1 << STEP_IDLE, TUNING = 1 << STEP_TUNING };
    static const uint8_t after[] = {
        [STEP_IDLE] = IDLE | 1 << STEP_ASKING | TUNING,
        [STEP_ASKING] = IDLE | 1 << STEP_TEXT | TUNING,
        [STEP_TEXT] = IDLE | TUNING,
        [STEP_TUNING] = IDLE,
    };
    TT_ASSERT((after[stepper->phase] >> phase & 1) != 0);
    stepper->phase = phase;
}

/* ---- carriers ---- */

static void carry(tt_stepper *stepper, step_phase phase, const tt_carrier *carrier)
{
    step_set_phase(stepper, phase);
    stepper->told_count++;
    stepper->carrier = *carrier;
    stepper->host.carry(stepper->host.owner, &stepper->carrier);
}

/* Broadcast rank 0's words; the first one becomes the number of ranks that have not joined. */
static void tell(tt_stepper *stepper, step_phase phase)
{
    stepper->words[WORD_MEMBERS] = 1;
    carry(stepper, phase,
          &(tt_carrier){.name = "tutti.step",
                        .memory = stepper->words,
                        .count = WORD_COUNT,
                        .element_bytes = sizeof(*stepper->words)});
}

static bool all_were_told(const tt_stepper *stepper, tt_status status)
{
    return status == TT_OK && stepper->words[WORD_MEMBERS] >= (int64_t)stepper->config.size;
}

/* ---- the order ---- */

/* A name that cannot be kept is left out. */
static void note(tt_stepper *stepper, tt_name_table *table, const char *name)
{
    if (tt_name_table_find(table, name) != NULL) {
        stepper->repeat_count += table == &stepper->started ? 1 : 0;
    } else if (table->count < NAMES_MAX && tt_order_name_is_writable(name)) {
        (void)tt_name_table_add(table, name, 0);
    }
}

int32_t tt_stepper_submit(tt_stepper *stepper, const char *name, int32_t given)
{
    if (stepper->is_noting && name[0] != 0) {
        note(stepper, &stepper->started, name);
        /* The program never calls tutti_step: stop recording its names. */
        stepper->is_noting =
            stepper->repeat_count <= REPEATS_MIN + REPEATS_FACTOR * stepper->started.count;
    }
    if (stepper->is_plain) {
        return 0;
    }
    tt_name_entry *found = name[0] != 0 ? tt_name_table_find(&stepper->order, name) : NULL;
    if (found == NULL) {
        return given;
    }
    found->is_used = true;
    TT_ASSERT(found->priority <= stepper->order.priority_max);
    /* Tensors in the order go before all others. */
    return (int32_t)(stepper->order.priority_max - found->priority) + 1;
}

bool tt_stepper_use(tt_stepper *stepper, const char *name)
{
    if (stepper->is_learning) {
        note(stepper, &stepper->used, name);
    }
    return stepper->is_learning;
}

size_t tt_stepper_unused(const tt_stepper *stepper, size_t *count_out, const char **first_out)
{
    size_t unused = 0;
    const tt_name_entry *first = NULL;
    for (size_t i = 0; i < stepper->order.count; i++) {
        const tt_name_entry *one = &stepper->order.entries[i];
        if (!one->is_used) {
            unused++;
            first = first == NULL || one->priority < first->priority ? one : first;
        }
    }
    *count_out = stepper->order.count;
    *first_out = first != NULL ? first->name : NULL;
    return unused;
}

uint64_t tt_stepper_order_hash(const tt_stepper *stepper)
{
    return stepper->order_hash;
}

static void text_release(tt_stepper *stepper)
{
    tt_release(stepper->allocator, stepper->text, stepper->text_room, 1);
    stepper->text = NULL;
    stepper->text_room = 0;
}

/* Rank 0: tensors by first use: as tutti_use reported, else the reverse order of starts. */
static void write_text(tt_stepper *stepper)
{
    const bool is_told = stepper->used.count > 0;
    size_t bytes = 0;
    TT_ASSERT(stepper->config.rank == 0 && stepper->text == NULL);
    stepper->text = tt_name_table_write(is_told ? &stepper->used : &stepper->started, !is_told,
                                        &bytes, &stepper->text_room);
    stepper->words[WORD_TEXT] = stepper->text != NULL ? (int64_t)bytes : 0;
}

/* All ranks take part and have the length of the order; the others contribute zeros to its text. */
static void carry_text(tt_stepper *stepper)
{
    const int64_t length = stepper->words[WORD_TEXT];
    const size_t bytes = length > 0 && length <= TT_ORDER_TEXT_BYTES_MAX ? (size_t)length : 0;
    if (stepper->config.rank != 0 && bytes > 0) {
        TT_ASSERT(stepper->text == NULL);
        stepper->text = tt_allocate(stepper->allocator, bytes, 1); /* zeros */
        stepper->text_room = stepper->text != NULL ? bytes : 0;
    }
    carry(stepper, STEP_TEXT,
          &(tt_carrier){.name = "tutti.order",
                        .memory = stepper->text,
                        .count = (uint64_t)bytes,
                        .element_bytes = 1});
}

static void stop_learning(tt_stepper *stepper)
{
    stepper->is_learning = stepper->is_noting = false;
    tt_name_table_clear(&stepper->started);
    tt_name_table_clear(&stepper->used);
}

/* Make the text the order; on failure the old order stays and `why` has the error. */
static tt_status install(tt_stepper *stepper)
{
    const size_t bytes = (size_t)stepper->carrier.count;
    tt_name_table order = {.allocator = stepper->allocator};
    tt_text why = {0};
    TT_ASSERT(stepper->text != NULL && bytes <= stepper->text_room);
    const tt_status status = tt_name_table_read(&order, stepper->text, bytes, &why);
    if (status != TT_OK) {
        tt_text_add(&stepper->why, "order of tensors: %s",
                    why.length > 0 ? why.bytes : tt_status_text(status));
        tt_name_table_clear(&order);
        return status;
    }
    tt_name_table_clear(&stepper->order);
    stepper->order = order;
    stepper->order_hash = tt_hash64(stepper->text, bytes, 1);
    return TT_OK;
}

/* ---- times ---- */

static double ratio(double part, double whole)
{
    return whole > 0.0 ? part / whole : 0.0;
}

/* (N + C - T) / min(N, C): the fraction of the possible overlap that was reached. */
static double overlap(double network, double compute, double step)
{
    return ratio(network + compute - step, network < compute ? network : compute);
}

static double between(double value, double least, double most)
{
    return value < least ? least : (value < most ? value : most);
}

static double forecast_ns(const tt_stepper *stepper, uint64_t bytes)
{
    return bytes > 0 ? stepper->host.forecast_ns(stepper->host.owner, bytes) : 0.0;
}

static void take_times(tt_stepper *stepper, const tt_step_moment *moment)
{
    const tt_step_moment *last = &stepper->last;
    TT_ASSERT(moment->now_ns >= last->now_ns && moment->busy_ns >= last->busy_ns);
    if (stepper->counters.count > 0) {
        const double step = (double)(moment->now_ns - last->now_ns);
        const double waited = (double)(moment->waited_ns - last->waited_ns);
        const double compute = waited < step ? step - waited : 0.0;
        const double network = fmin((double)(moment->busy_ns - last->busy_ns), step);
        stepper->step_bytes = moment->gradient_bytes - last->gradient_bytes;
        const double model = forecast_ns(stepper, stepper->step_bytes);
        const double wire = model > 0.0 ? model : network;
        stepper->counters.last = (tt_step_times){
            .step_ns = (uint64_t)step,
            .compute_ns = (uint64_t)compute,
            .network_ns = (uint64_t)network,
            .rho = ratio(network, compute),
            .alpha = overlap(network, compute, step),
            .utilisation = ratio(compute, step),
            .efficiency = between(overlap(wire, compute, step), 0.0, 1.0),
        };
        stepper->gain = tt_overlap_gain(wire, compute);
    }
    stepper->last = *moment;
    stepper->has_names =
        stepper->config.setting.fuse_bytes > 0 && moment->named_count > stepper->told_count;
    stepper->counters.count++;
}

/* With nothing to gain, calls take the plain path. Each rank decides for itself: urgency affects
 * only its own sends. */
static void decide(tt_stepper *stepper)
{
    if (stepper->config.is_auto && stepper->counters.count >= DECIDE_STEPS) {
        stepper->is_plain = !tt_overlap_is_worth(stepper->gain, !stepper->is_plain);
    }
}

tt_step_counters tt_stepper_count(const tt_stepper *stepper)
{
    return stepper->counters;
}

/* ---- tuning ---- */

/* A line a + b d through the table of costs; false: the table has no line. */
static bool fit(const tt_stepper *stepper, tt_linear *line_out)
{
    const double least_us = forecast_ns(stepper, 1) / 1e3;
    const double all_us = forecast_ns(stepper, stepper->step_bytes) / 1e3;
    if (!(least_us > 0.0) || !(all_us > least_us)) {
        return false;
    }
    *line_out = (tt_linear){.start_us = least_us,
                            .byte_us = (all_us - least_us) / (double)stepper->step_bytes};
    return true;
}

static tt_tuner_setting point_of(const tt_setting *setting)
{
    return (tt_tuner_setting){
        {(double)setting->chunk_bytes, (double)setting->credit_bytes, (double)setting->fuse_bytes}};
}

/* c* of a step's bytes and the fusion threshold by the table of costs; without a line there, the
 * middle of the range, which is near to all of it. The present setting may be in a corner. */
static tt_tuner_config tuner_config(const tt_stepper *stepper)
{
    tt_tuner_config config = {.dimension_count = stepper->has_names ? 3 : 2,
                              .min = point_of(&stepper->config.min),
                              .max = point_of(&stepper->config.max),
                              .start = point_of(&stepper->counters.setting)};
    const double *min = config.min.at, *max = config.max.at;
    double *start = config.start.at, *seed = config.seed.at;
    if (!(start[TT_TUNER_CREDIT] > 0)) {
        start[TT_TUNER_CREDIT] = max[TT_TUNER_CREDIT];
    }
    start[TT_TUNER_BATCH] =
        between(start[TT_TUNER_BATCH], min[TT_TUNER_BATCH], max[TT_TUNER_BATCH]);
    for (uint32_t i = 0; i < TT_GAUSS_DIMENSIONS; i++) {
        seed[i] = sqrt(min[i] * max[i]);
    }
    tt_linear line;
    if (fit(stepper, &line)) {
        const double bytes = (double)stepper->step_bytes;
        seed[TT_TUNER_CHUNK] =
            between(tt_tuner_chunk_seed(bytes, line.start_us, 1.0 / line.byte_us, 1.0),
                    min[TT_TUNER_CHUNK], max[TT_TUNER_CHUNK]);
        seed[TT_TUNER_BATCH] = between(tt_linear_threshold_bytes(&line, batching_ratio),
                                       min[TT_TUNER_BATCH], max[TT_TUNER_BATCH]);
    }
    return config;
}

bool tt_stepper_recall(tt_stepper *stepper, const tt_tuner_sample *sample)
{
    bool is_good = stepper->recalled_count < TT_TUNER_RECALLED_MAX && sample->step_us > 0 &&
                   isfinite(sample->step_us);
    for (uint32_t i = 0; i < TT_GAUSS_DIMENSIONS; i++) {
        const double value = sample->setting.at[i];
        const bool may_be_0 = i == TT_TUNER_BATCH && stepper->config.setting.fuse_bytes == 0;
        is_good = is_good && isfinite(value) && (value > 0 || may_be_0);
    }
    if (is_good) {
        stepper->recalled[stepper->recalled_count++] = *sample;
    }
    return is_good;
}

/* The present setting has run until now, and is the tuner's first proposal. */
static void tuner_begin(tt_stepper *stepper)
{
    const tt_tuner_config config = tuner_config(stepper);
    tt_text why = {0};
    tt_tuner_setting present;
    const tt_status status = tt_tuner_init(&stepper->tuner, &config, &why);
    TT_ASSERT(status == TT_OK); /* the ranges are ours */
    for (uint32_t i = 0; i < stepper->recalled_count; i++) {
        (void)tt_tuner_recall(&stepper->tuner, &stepper->recalled[i]);
    }
    (void)tt_tuner_ask(&stepper->tuner, &present);
    stepper->has_tuner = true;
}

uint32_t tt_stepper_samples(const tt_stepper *stepper,
                            tt_tuner_sample samples[TT_TUNER_RECALLED_MAX])
{
    uint32_t count = 0;
    double bar_us = 0.0; /* step time of the last sample kept */
    for (; count < TT_TUNER_RECALLED_MAX; count++) {
        const tt_tuner_sample *next = NULL;
        for (uint32_t i = 0; i < stepper->tuner.sample_count; i++) {
            const tt_tuner_sample *one = &stepper->tuner.samples[i];
            if (one->step_us > bar_us && (next == NULL || one->step_us < next->step_us)) {
                next = one;
            }
        }
        if (next == NULL) {
            break;
        }
        bar_us = next->step_us;
        samples[count] = *next;
        if (!(next->setting.at[TT_TUNER_BATCH] > 0)) {
            samples[count].setting.at[TT_TUNER_BATCH] =
                (double)stepper->counters.setting.fuse_bytes;
        }
    }
    return count;
}

static void sort(double *values, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        const double value = values[i];
        uint32_t at = i;
        for (; at > 0 && values[at - 1] > value; at--) {
            values[at] = values[at - 1];
        }
        values[at] = value;
    }
}

/* Report the lower quartile of the steps since the last proposal to the tuner. Disturbances only
 * make steps longer, and often last for seconds, so that most steps of a sample may be disturbed.
 */
static double report(tt_stepper *stepper)
{
    const bool is_settled = stepper->tuner.is_settled;
    const uint32_t count = stepper->sample_count;
    TT_ASSERT(count <= SAMPLE_STEPS_MAX);
    for (uint32_t i = 0; is_settled && i < count; i++) {
        (void)tt_tuner_watch(&stepper->tuner, stepper->samples_us[i]);
    }
    sort(stepper->samples_us, count);
    const double typical_us = count > 0 ? stepper->samples_us[count / 4] : 0.0;
    if (!is_settled && count > 0) {
        tt_tuner_tell(&stepper->tuner, typical_us);
    }
    return typical_us;
}

/* Rank 0: the next setting, and for how many steps it holds at least. */
static void propose(tt_stepper *stepper)
{
    const tt_step_config *config = &stepper->config;
    if (!stepper->has_tuner) {
        tuner_begin(stepper);
    }
    const bool was_settled = stepper->tuner.is_settled;
    const double typical_us = report(stepper);
    tt_tuner_setting next;
    const bool is_asking = tt_tuner_ask(&stepper->tuner, &next);
    if (stepper->tuner.config.dimension_count <= TT_TUNER_BATCH) {
        next.at[TT_TUNER_BATCH] = (double)stepper->counters.setting.fuse_bytes;
    }
    if (is_asking == was_settled) {
        stepper->host.tuned(stepper->host.owner, &next, !is_asking);
    }
    const double least = config->sample_steps_min, most = config->sample_steps_max;
    const double fitting = typical_us > 0.0 ? (double)config->sample_ns / 1e3 / typical_us : least;
    const double factor = tt_tuner_is_final(&stepper->tuner) ? FINAL_STEPS_FACTOR : 1;
    int64_t *words = stepper->words;
    words[WORD_CHUNK] = (int64_t)(next.at[TT_TUNER_CHUNK] / CHUNK_UNIT + 0.5) * CHUNK_UNIT;
    words[WORD_CREDIT] = (int64_t)(next.at[TT_TUNER_CREDIT] + 0.5);
    words[WORD_FUSE] = (int64_t)(next.at[TT_TUNER_BATCH] + 0.5);
    words[WORD_STEPS] = (int64_t)between(factor * fitting, factor * least, most);
}

static bool is_sane(const tt_step_config *config, const int64_t *words)
{
    return words[WORD_CHUNK] >= CHUNK_UNIT &&
           words[WORD_CHUNK] <= (int64_t)config->max.chunk_bytes &&
           words[WORD_CHUNK] % CHUNK_UNIT == 0 && words[WORD_CREDIT] > 0 && words[WORD_FUSE] >= 0 &&
           (uint64_t)words[WORD_FUSE] <= config->max.fuse_bytes && words[WORD_STEPS] > 0 &&
           words[WORD_STEPS] <= config->sample_steps_max;
}

static void sample(tt_stepper *stepper, uint32_t warmup_steps, uint32_t steps)
{
    TT_ASSERT(steps > 0);
    stepper->warmup_left = warmup_steps;
    stepper->steps_left = warmup_steps + steps;
    stepper->sample_count = 0;
}

/* Samples of the present setting are taken anew. */
static void sample_anew(tt_stepper *stepper)
{
    sample(stepper, stepper->config.warmup_steps, stepper->config.sample_steps_min);
}

/* Apply rank 0's setting, on all ranks at the same step. */
static void take_setting(tt_stepper *stepper)
{
    const int64_t *words = stepper->words;
    tt_setting *setting = &stepper->counters.setting;
    const bool is_fused_anew = (uint64_t)words[WORD_FUSE] != setting->fuse_bytes;
    *setting = (tt_setting){.chunk_bytes = (uint64_t)words[WORD_CHUNK],
                            .credit_bytes = (uint64_t)words[WORD_CREDIT],
                            .fuse_bytes = (uint64_t)words[WORD_FUSE]};
    stepper->host.apply(stepper->host.owner, setting);
    const uint32_t further = is_fused_anew ? stepper->config.fuse_warmup_steps : 0;
    sample(stepper, stepper->config.warmup_steps + further, (uint32_t)words[WORD_STEPS]);
    if (TT_PLANT(TUNED_ONE_STEP_EARLY) && stepper->config.rank == 1 && stepper->steps_left > 1) {
        stepper->steps_left--;
    }
}

/* True: the setting has run for long enough, and rank 0 broadcasts the next. */
static bool tune(tt_stepper *stepper)
{
    const uint64_t step_ns = stepper->counters.last.step_ns;
    if (stepper->warmup_left > 0) {
        stepper->warmup_left--;
    } else if (stepper->sample_count < SAMPLE_STEPS_MAX && step_ns > 0) {
        stepper->samples_us[stepper->sample_count++] = (double)step_ns / 1e3;
    }
    TT_ASSERT(stepper->steps_left > 0);
    if (--stepper->steps_left > 0) {
        return false;
    }
    memset(stepper->words, 0, sizeof(stepper->words));
    stepper->before = stepper->tuner;
    if (stepper->config.rank == 0) {
        propose(stepper);
    }
    tell(stepper, STEP_TUNING);
    return true;
}

static tt_status tuned(tt_stepper *stepper, tt_status status)
{
    if (!all_were_told(stepper, status) && !(TT_PLANT(TUNED_WITHOUT_ALL) && status == TT_OK)) {
        /* Some rank has joined: the setting stays, and the proposal is undone. */
        stepper->has_tuner = stepper->before.config.dimension_count > 0;
        stepper->tuner = stepper->before;
        sample_anew(stepper);
        return status;
    }
    if (!is_sane(&stepper->config, stepper->words)) {
        tt_text_add(&stepper->why,
                    "rank 0 sent an invalid setting; run the same version on all ranks");
        sample_anew(stepper);
        return TT_ERR_BAD_WIRE;
    }
    take_setting(stepper);
    return TT_OK;
}

/* ---- the end of a step ---- */

static void finish(tt_stepper *stepper, tt_status status)
{
    stepper->status = status;
    step_set_phase(stepper, STEP_IDLE);
}

/* The order is settled; continue with tuning. */
static void go_on(tt_stepper *stepper, tt_status status)
{
    text_release(stepper);
    if (stepper->is_ending) {
        decide(stepper);
        if (status == TT_OK && stepper->config.tunes && tune(stepper)) {
            return;
        }
    }
    finish(stepper, status);
}

static void begin(tt_stepper *stepper, bool is_ending)
{
    TT_ASSERT(stepper->phase == STEP_IDLE);
    memset(stepper->words, 0, sizeof(stepper->words));
    stepper->is_ending = is_ending;
    tt_text_clear(&stepper->why);
}

void tt_stepper_end(tt_stepper *stepper, const tt_step_moment *moment)
{
    begin(stepper, true);
    take_times(stepper, moment);
    if (!stepper->is_learning) {
        go_on(stepper, TT_OK);
        return;
    }
    if (stepper->config.rank == 0) {
        write_text(stepper);
    }
    tell(stepper, STEP_ASKING);
}

void tt_stepper_spread(tt_stepper *stepper, const char *text, size_t bytes)
{
    begin(stepper, false);
    if (stepper->config.rank == 0 && bytes > 0) {
        stepper->words[WORD_TEXT] = (int64_t)bytes;
        stepper->text = tt_allocate(stepper->allocator, bytes, 1);
        stepper->text_room = stepper->text != NULL ? bytes : 0;
    }
    if (stepper->text != NULL) {
        memcpy(stepper->text, text, bytes);
    }
    tell(stepper, STEP_ASKING);
}

void tt_stepper_carried(tt_stepper *stepper, tt_status status)
{
    TT_ASSERT(stepper->phase != STEP_IDLE);
    if (stepper->phase == STEP_TUNING) {
        finish(stepper, tuned(stepper, status));
    } else if (stepper->phase == STEP_TEXT) {
        go_on(stepper, status == TT_OK ? install(stepper) : status);
    } else if (!all_were_told(stepper, status)) {
        go_on(stepper, status); /* a later step tries again */
    } else {
        stop_learning(stepper);
        if (stepper->words[WORD_TEXT] != 0) {
            carry_text(stepper);
        } else {
            go_on(stepper, TT_OK);
        }
    }
}

tt_status tt_stepper_status(const tt_stepper *stepper, const char **why_out)
{
    TT_ASSERT(stepper->phase == STEP_IDLE);
    *why_out = stepper->why.bytes;
    return stepper->status;
}

void tt_stepper_joined(tt_stepper *stepper)
{
    sample_anew(stepper); /* on all ranks alike: their numbers of steps differ */
}

/* ---- life ---- */

void tt_step_config_init(tt_step_config *config)
{
    *config = (tt_step_config){
        .size = 1,
        .warmup_steps = 2,
        .fuse_warmup_steps = 4, /* tensors are planned anew */
        .sample_steps_min = 7,
        .sample_steps_max = SAMPLE_STEPS_MAX,
        .sample_ns = UINT64_C(200) * 1000 * 1000,
        .min = {.chunk_bytes = UINT64_C(16) << 10,
                .credit_bytes = UINT64_C(256) << 10,
                .fuse_bytes = UINT64_C(1) << 10},
        .max = {.chunk_bytes = UINT64_C(512) << 10,
                .credit_bytes = UINT64_C(256) << 20,
                .fuse_bytes = UINT64_C(256) << 10},
    };
}

tt_status tt_stepper_create(const tt_step_config *config, const tt_step_host *host,
                            const tt_allocator *allocator, tt_stepper **stepper_out)
{
    TT_ASSERT(config->rank < config->size);
    TT_ASSERT(config->sample_steps_min > 0 && config->sample_steps_max <= SAMPLE_STEPS_MAX);
    TT_ASSERT(config->sample_steps_max >= FINAL_STEPS_FACTOR * config->sample_steps_min);
    tt_stepper *stepper = tt_allocate(allocator, 1, sizeof(*stepper));
    if (stepper == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    *stepper = (tt_stepper){.config = *config, .host = *host, .allocator = allocator};
    stepper->started.allocator = stepper->used.allocator = stepper->order.allocator = allocator;
    stepper->counters.setting = config->setting;
    stepper->config.max.fuse_bytes = tt_max_u64(config->max.fuse_bytes, config->setting.fuse_bytes);
    stepper->is_plain = config->is_plain;
    stepper->is_learning = stepper->is_noting = config->learns;
    sample_anew(stepper);
    *stepper_out = stepper;
    return TT_OK;
}

void tt_stepper_destroy(tt_stepper *stepper)
{
    if (stepper != NULL) {
        tt_name_table_clear(&stepper->started);
        tt_name_table_clear(&stepper->used);
        tt_name_table_clear(&stepper->order);
        text_release(stepper);
        tt_release(stepper->allocator, stepper, 1, sizeof(*stepper));
    }
}
