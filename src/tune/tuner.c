/* SPDX-License-Identifier: Apache-2.0
 *
 * tuner.c - proposals: (0) the present setting, (1) the seed, then smaller and larger than the seed
 * along each dimension, then the largest expected improvement over a grid of the cube, or where
 * none is expected, the point farthest from all samples; last, the final: the present setting
 * again, and the quickest again.
 *
 * Around a seed in a corner all times may be equal though there is a valley elsewhere: if entering
 * it takes a change in two dimensions, no step along one of them shows it. So the search does not
 * end early.
 *
 * The quickest of many samples is partly luck, and the present setting's first time may include
 * one-time work of the job. So another setting must be better in its second sample, too. Other
 * programs may disturb that one: where it contradicts the first, a third decides.
 *
 * Values are logarithms of step times: a relative change counts the same everywhere. */
#include "tune/tuner.h"

#include <math.h>

#include "base/assert.h"
#include "base/base.h"

enum {
    GRID_1 = 65, /* points per dimension, by number of dimensions */
    GRID_2 = 33,
    GRID_3 = 15,
    FINAL = 3, /* samples reserved for the final; the last one for contradictions */
};

static const double around_step = 0.25;       /* of the cube, from the seed */
static const double improvement_min = 0.0005; /* a smaller relative improvement counts as none */
static const double same_distance = 0.01;     /* nearer points count as the same */

/* ---- the cube ----------------------------------------------------------------------------------
 */

static tt_gauss_point to_cube(const tt_tuner *tuner, const tt_tuner_setting *setting)
{
    tt_gauss_point point = {{0}};
    for (uint32_t i = 0; i < tuner->config.dimension_count; i++) {
        const double low = log(tuner->config.min.at[i]);
        const double high = log(tuner->config.max.at[i]);
        const double value = (log(setting->at[i]) - low) / fmax(high - low, 1e-12);
        point.at[i] = fmin(fmax(value, 0), 1);
    }
    return point;
}

static tt_tuner_setting from_cube(const tt_tuner *tuner, const tt_gauss_point *point)
{
    tt_tuner_setting setting = {{0}};
    for (uint32_t i = 0; i < tuner->config.dimension_count; i++) {
        const double low = log(tuner->config.min.at[i]);
        const double high = log(tuner->config.max.at[i]);
        setting.at[i] = exp(low + point->at[i] * (high - low));
    }
    return setting;
}

static double distance(const tt_tuner *tuner, const tt_gauss_point *a, const tt_gauss_point *b)
{
    double largest = 0;
    for (uint32_t i = 0; i < tuner->config.dimension_count; i++) {
        largest = fmax(largest, fabs(a->at[i] - b->at[i]));
    }
    return largest;
}

/* Distance from the nearest sample of this run. */
static double distance_to_told(const tt_tuner *tuner, const tt_gauss_point *point)
{
    double nearest = 1;
    for (uint32_t i = tuner->sample_count - tuner->told_count; i < tuner->sample_count; i++) {
        const tt_gauss_point known = to_cube(tuner, &tuner->samples[i].setting);
        nearest = fmin(nearest, distance(tuner, &known, point));
    }
    return nearest;
}

static bool is_new(const tt_tuner *tuner, const tt_gauss_point *point)
{
    return distance_to_told(tuner, point) >= same_distance;
}

/* ---- life --------------------------------------------------------------------------------------
 */

tt_status tt_tuner_init(tt_tuner *tuner, const tt_tuner_config *config, tt_text *why)
{
    if (config->dimension_count < 1 || config->dimension_count > TT_GAUSS_DIMENSIONS ||
        config->sample_max > TT_TUNER_SAMPLES_MAX) {
        tt_text_add(why, "a tuner has 1 to %d dimensions and at most %d samples, not %u and %u",
                    TT_GAUSS_DIMENSIONS, TT_TUNER_SAMPLES_MAX, config->dimension_count,
                    config->sample_max);
        return TT_ERR_BAD_ARGUMENT;
    }
    for (uint32_t i = 0; i < config->dimension_count; i++) {
        if (!(config->min.at[i] > 0 && config->min.at[i] <= config->max.at[i]) ||
            !isfinite(config->max.at[i]) || !(config->start.at[i] > 0) ||
            !(config->seed.at[i] > 0)) {
            tt_text_add(why, "dimension %u: a range from %g to %g is empty or not positive", i,
                        config->min.at[i], config->max.at[i]);
            return TT_ERR_BAD_ARGUMENT;
        }
    }
    *tuner = (tt_tuner){.config = *config};
    tuner->config.sample_max = config->sample_max == 0 ? TT_TUNER_SAMPLES_MAX : config->sample_max;
    tuner->config.margin = config->margin > 0 ? config->margin : 0.02;
    tuner->config.drift = config->drift > 0 ? config->drift : 0.2;
    return TT_OK;
}

double tt_tuner_chunk_seed(double total_bytes, double chunk_us, double bytes_a_us, double flight)
{
    return sqrt(total_bytes * chunk_us * bytes_a_us / fmax(flight, 1));
}

bool tt_tuner_recall(tt_tuner *tuner, const tt_tuner_sample *sample)
{
    if (tuner->told_count > 0 || tuner->sample_count >= TT_TUNER_RECALLED_MAX ||
        !(sample->step_us > 0) || !isfinite(sample->step_us)) {
        return false;
    }
    for (uint32_t i = 0; i < tuner->config.dimension_count; i++) {
        if (!(sample->setting.at[i] > 0) || !isfinite(sample->setting.at[i])) {
            return false;
        }
    }
    tuner->samples[tuner->sample_count++] = *sample;
    return true;
}

/* ---- answers -----------------------------------------------------------------------------------
 */

static uint32_t told_place(const tt_tuner *tuner, uint32_t index)
{
    return tuner->sample_count - tuner->told_count + index;
}

static const tt_tuner_sample *told(const tt_tuner *tuner, uint32_t index)
{
    return &tuner->samples[told_place(tuner, index)];
}

/* Quickest sample of this run; 0, the start, unless another was better by the margin. */
static uint32_t quickest(const tt_tuner *tuner)
{
    uint32_t best = 0;
    double bar_us = told(tuner, 0)->step_us * (1 - tuner->config.margin);
    for (uint32_t i = 1; i < tuner->told_count; i++) {
        if (told(tuner, i)->step_us < bar_us) {
            bar_us = told(tuner, i)->step_us;
            best = i;
        }
    }
    return best;
}

/* Is the favourite better in the samples of the final, by the margin? */
static bool favourite_is_better(const tt_tuner *tuner)
{
    const double bar_us = told(tuner, 0)->step_us * (1 - tuner->config.margin);
    return told(tuner, tuner->favourite)->step_us < bar_us;
}

static bool final_is_over(const tt_tuner *tuner)
{
    return tuner->final_count == FINAL ||
           (tuner->final_count == FINAL - 1 && favourite_is_better(tuner));
}

/* The setting that won the final. */
static tt_tuner_setting answer(const tt_tuner *tuner)
{
    const bool is_kept = tuner->favourite == 0 || !favourite_is_better(tuner);
    return is_kept ? tuner->config.start : told(tuner, tuner->favourite)->setting;
}

/* ---- proposals ---------------------------------------------------------------------------------
 */

/* Around the seed, one dimension at a time, both ways; mirrored where it would leave the cube. */
static tt_gauss_point around_seed(const tt_tuner *tuner, uint32_t index)
{
    tt_gauss_point point = to_cube(tuner, &tuner->config.seed);
    const uint32_t dimension = index / 2;
    const double step = index % 2 == 0 ? -around_step : around_step;
    double value = point.at[dimension] + step;
    if (value < 0 || value > 1) {
        value = point.at[dimension] - step * 1.5;
    }
    point.at[dimension] = fmin(fmax(value, 0), 1);
    return point;
}

static tt_gauss_point grid_point(const tt_tuner *tuner, uint32_t index)
{
    static const uint32_t sizes[] = {GRID_1, GRID_2, GRID_3};
    const uint32_t size = sizes[tuner->config.dimension_count - 1];
    tt_gauss_point point = {{0}};
    for (uint32_t i = 0; i < tuner->config.dimension_count; i++) {
        point.at[i] = (double)(index % size) / (size - 1);
        index /= size;
    }
    return point;
}

static uint32_t grid_count(const tt_tuner *tuner)
{
    static const uint32_t counts[] = {GRID_1, GRID_2 * GRID_2, GRID_3 * GRID_3 * GRID_3};
    return counts[tuner->config.dimension_count - 1];
}

/* False: no point is left. */
static bool propose_far(const tt_tuner *tuner, tt_gauss_point *point_out)
{
    double farthest = same_distance;
    bool is_found = false;
    for (uint32_t i = 0; i < grid_count(tuner); i++) {
        const tt_gauss_point point = grid_point(tuner, i);
        const double far = distance_to_told(tuner, &point);
        if (far > farthest) {
            farthest = far;
            *point_out = point;
            is_found = true;
        }
    }
    return is_found;
}

/* False: no point has an expected improvement. */
static bool propose(const tt_tuner *tuner, tt_gauss_point *point_out)
{
    tt_gauss_point points[TT_TUNER_SAMPLES_MAX];
    double values[TT_TUNER_SAMPLES_MAX];
    double best = INFINITY;
    for (uint32_t i = 0; i < tuner->sample_count; i++) {
        points[i] = to_cube(tuner, &tuner->samples[i].setting);
        values[i] = log(tuner->samples[i].step_us);
    }
    for (uint32_t i = 0; i < tuner->told_count; i++) { /* to improve on */
        best = fmin(best, log(told(tuner, i)->step_us));
    }
    tt_gauss gauss;
    tt_gauss_fit(&gauss, tuner->config.dimension_count, points, values, tuner->sample_count);
    double most = improvement_min;
    bool is_found = false;
    for (uint32_t i = 0; i < grid_count(tuner); i++) {
        const tt_gauss_point point = grid_point(tuner, i);
        const double gain = tt_gauss_improvement(&gauss, &point, best);
        if (gain > most && is_new(tuner, &point)) {
            most = gain;
            *point_out = point;
            is_found = true;
        }
    }
    return is_found;
}

/* The best sample of a profile, to be measured again; the seed if there is none. */
static tt_gauss_point second_point(const tt_tuner *tuner)
{
    const uint32_t recalled_count = tuner->sample_count - tuner->told_count;
    const tt_tuner_sample *best = NULL;
    for (uint32_t i = 0; i < recalled_count; i++) {
        if (best == NULL || tuner->samples[i].step_us < best->step_us) {
            best = &tuner->samples[i];
        }
    }
    return to_cube(tuner, best != NULL ? &best->setting : &tuner->config.seed);
}

/* False: the search is over. */
static bool search_setting(const tt_tuner *tuner, tt_tuner_setting *setting_out)
{
    const bool is_warm = tuner->sample_count > tuner->told_count;
    if (tuner->sample_count + FINAL >= tuner->config.sample_max) {
        return false;
    }
    tt_gauss_point point = second_point(tuner);
    bool is_found = tuner->told_count == 1 && is_new(tuner, &point);
    const uint32_t around = 2 * tuner->config.dimension_count;
    for (uint32_t i = 0; !is_warm && !is_found && i < around && tuner->told_count < around + 2;
         i++) {
        point = around_seed(tuner, i);
        is_found = is_new(tuner, &point);
    }
    if (!is_found && !propose(tuner, &point) && !propose_far(tuner, &point)) {
        return false;
    }
    *setting_out = from_cube(tuner, &point);
    return true;
}

static bool next_setting(tt_tuner *tuner, tt_tuner_setting *setting_out)
{
    if (tuner->told_count == 0) {
        *setting_out = tuner->config.start;
        return true;
    }
    if (tuner->favourite == 0 && search_setting(tuner, setting_out)) {
        return true;
    }
    if (tuner->favourite == 0) {
        tuner->favourite = quickest(tuner);
    }
    if (tuner->favourite == 0 || final_is_over(tuner)) {
        return false;
    }
    *setting_out = told(tuner, tuner->final_count == 0 ? 0 : tuner->favourite)->setting;
    return true;
}

bool tt_tuner_ask(tt_tuner *tuner, tt_tuner_setting *setting_out)
{
    if (!tuner->is_asking && !tuner->is_settled) {
        tuner->is_asking = next_setting(tuner, &tuner->asked);
        tuner->is_settled = !tuner->is_asking;
    }
    *setting_out = tuner->is_asking ? tuner->asked : answer(tuner);
    return tuner->is_asking;
}

bool tt_tuner_is_final(const tt_tuner *tuner)
{
    return tuner->is_asking && tuner->favourite > 0;
}

/* The present setting counts with its best time, another with its last. */
static void tell_final(tt_tuner *tuner, double step_us)
{
    const uint32_t index = tuner->final_count == 0 ? 0 : tuner->favourite;
    tt_tuner_sample *sample = &tuner->samples[told_place(tuner, index)];
    sample->step_us = index == 0 ? fmin(sample->step_us, step_us) : step_us;
    tuner->final_count++;
}

void tt_tuner_tell(tt_tuner *tuner, double step_us)
{
    TT_ASSERT(tuner->is_asking);
    TT_ASSERT(tuner->sample_count < TT_TUNER_SAMPLES_MAX);
    double worst_us = 1;
    for (uint32_t i = 0; i < tuner->sample_count; i++) {
        worst_us = fmax(worst_us, tuner->samples[i].step_us);
    }
    const bool is_sane = step_us > 0 && isfinite(step_us);
    const double told_us = is_sane ? step_us : 2 * worst_us;
    if (tt_tuner_is_final(tuner)) {
        tell_final(tuner, told_us);
    } else {
        tuner->samples[tuner->sample_count++] =
            (tt_tuner_sample){.setting = tuner->asked, .step_us = told_us};
        tuner->told_count++;
    }
    tuner->is_asking = false;
}

/* ---- watching ----------------------------------------------------------------------------------
 */

static double median_of(const double *values)
{
    double sorted[TT_TUNER_WATCHED];
    for (uint32_t i = 0; i < TT_TUNER_WATCHED; i++) {
        uint32_t place = i;
        for (; place > 0 && sorted[place - 1] > values[i]; place--) {
            sorted[place] = sorted[place - 1];
        }
        sorted[place] = values[i];
    }
    return sorted[TT_TUNER_WATCHED / 2];
}

bool tt_tuner_watch(tt_tuner *tuner, double step_us)
{
    if (!tuner->is_settled || !(step_us > 0) || !isfinite(step_us)) {
        return false;
    }
    tuner->watched[tuner->watched_count++ % TT_TUNER_WATCHED] = step_us;
    if (tuner->watched_count < TT_TUNER_WATCHED) {
        return false;
    }
    const double median_us = median_of(tuner->watched);
    if (tuner->settled_us <= 0) {
        tuner->settled_us = median_us;
    }
    if (fabs(median_us - tuner->settled_us) <= tuner->config.drift * tuner->settled_us) {
        return false;
    }
    tt_tuner_config config = tuner->config;
    config.start = answer(tuner);
    *tuner = (tt_tuner){.config = config};
    return true;
}
