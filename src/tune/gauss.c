/* SPDX-License-Identifier: Apache-2.0
 *
 * gauss.c - Cholesky of at most 24 by 24, for each of some hundred choices of lengths and noise:
 * a fraction of a millisecond. */
#include "tune/gauss.h"

#include <math.h>
#include <stdbool.h>

#include "base/assert.h"
#include "base/base.h"

static const double length_choices[] = {0.15, 0.3, 0.6, 1.2, 2.4};
static const double noise_choices[] = {1e-4, 1e-2};
static const double pi = 3.14159265358979323846;

enum {
    LENGTHS = TT_ARRAY_COUNT(length_choices),
};

static double kernel(const tt_gauss *gauss, const tt_gauss_point *a, const tt_gauss_point *b)
{
    double square = 0;
    for (uint32_t i = 0; i < gauss->dimension_count; i++) {
        const double step = (a->at[i] - b->at[i]) / gauss->lengths[i];
        square += step * step;
    }
    const double root = sqrt(5 * square);
    return (1 + root + 5 * square / 3) * exp(-root);
}

static bool factorise(tt_gauss *gauss, double noise)
{
    for (uint32_t i = 0; i < gauss->count; i++) {
        for (uint32_t j = 0; j <= i; j++) {
            double sum = kernel(gauss, &gauss->points[i], &gauss->points[j]);
            sum += i == j ? noise : 0;
            for (uint32_t k = 0; k < j; k++) {
                sum -= gauss->factor[i][k] * gauss->factor[j][k];
            }
            if (i == j && !(sum > 0)) {
                return false;
            }
            gauss->factor[i][j] = i == j ? sqrt(sum) : sum / gauss->factor[j][j];
        }
    }
    return true;
}

/* vector := inverse of the factor times vector. */
static void solve_lower(const tt_gauss *gauss, double *vector)
{
    for (uint32_t i = 0; i < gauss->count; i++) {
        for (uint32_t k = 0; k < i; k++) {
            vector[i] -= gauss->factor[i][k] * vector[k];
        }
        vector[i] /= gauss->factor[i][i];
    }
}

static void solve_upper(const tt_gauss *gauss, double *vector)
{
    for (uint32_t i = gauss->count; i-- > 0;) {
        for (uint32_t k = i + 1; k < gauss->count; k++) {
            vector[i] -= gauss->factor[k][i] * vector[k];
        }
        vector[i] /= gauss->factor[i][i];
    }
}

/* Log likelihood of the values under the process, but for a constant; -INFINITY if it has none. */
static double likelihood(tt_gauss *gauss, double noise, const double *values)
{
    if (!factorise(gauss, noise)) {
        return -INFINITY;
    }
    double whitened[TT_GAUSS_SAMPLES_MAX];
    for (uint32_t i = 0; i < gauss->count; i++) {
        whitened[i] = values[i];
    }
    solve_lower(gauss, whitened);
    double sum = 0;
    for (uint32_t i = 0; i < gauss->count; i++) {
        sum -= whitened[i] * whitened[i] / 2 + log(gauss->factor[i][i]);
    }
    return sum;
}

/* The choice-th combination of lengths. */
static void lengths_set(tt_gauss *gauss, uint32_t choice)
{
    for (uint32_t i = 0; i < gauss->dimension_count; i++) {
        gauss->lengths[i] = length_choices[choice % LENGTHS];
        choice /= LENGTHS;
    }
}

static void choose(tt_gauss *gauss, const double *values)
{
    uint32_t choice_count = 1;
    for (uint32_t i = 0; i < gauss->dimension_count; i++) {
        choice_count *= LENGTHS;
    }
    double best = -INFINITY;
    uint32_t best_choice = choice_count - 1;
    double best_noise = noise_choices[1];
    for (uint32_t choice = 0; choice < choice_count; choice++) {
        lengths_set(gauss, choice);
        for (size_t n = 0; n < TT_ARRAY_COUNT(noise_choices); n++) {
            const double found = likelihood(gauss, noise_choices[n], values);
            if (found > best) {
                best = found;
                best_choice = choice;
                best_noise = noise_choices[n];
            }
        }
    }
    lengths_set(gauss, best_choice);
    const bool is_sound = factorise(gauss, best_noise);
    TT_ASSERT(is_sound);
}

void tt_gauss_fit(tt_gauss *gauss, uint32_t dimension_count, const tt_gauss_point *points,
                  const double *values, uint32_t count)
{
    TT_ASSERT(count >= 1);
    TT_ASSERT(count <= TT_GAUSS_SAMPLES_MAX);
    TT_ASSERT(dimension_count >= 1);
    TT_ASSERT(dimension_count <= TT_GAUSS_DIMENSIONS);
    *gauss = (tt_gauss){.dimension_count = dimension_count, .count = count};
    double squares = 0;
    for (uint32_t i = 0; i < count; i++) {
        gauss->points[i] = points[i];
        gauss->mean += values[i] / count;
    }
    for (uint32_t i = 0; i < count; i++) {
        squares += (values[i] - gauss->mean) * (values[i] - gauss->mean);
    }
    gauss->deviation = fmax(sqrt(squares / count), 1e-9);
    for (uint32_t i = 0; i < count; i++) {
        gauss->weights[i] = (values[i] - gauss->mean) / gauss->deviation;
    }
    choose(gauss, gauss->weights);
    solve_lower(gauss, gauss->weights);
    solve_upper(gauss, gauss->weights);
}

tt_gauss_guess tt_gauss_at(const tt_gauss *gauss, const tt_gauss_point *point)
{
    double near[TT_GAUSS_SAMPLES_MAX];
    double mean = 0;
    for (uint32_t i = 0; i < gauss->count; i++) {
        near[i] = kernel(gauss, point, &gauss->points[i]);
        mean += near[i] * gauss->weights[i];
    }
    solve_lower(gauss, near);
    double variance = 1;
    for (uint32_t i = 0; i < gauss->count; i++) {
        variance -= near[i] * near[i];
    }
    return (tt_gauss_guess){.mean = gauss->mean + gauss->deviation * mean,
                            .deviation = gauss->deviation * sqrt(fmax(variance, 0))};
}

double tt_gauss_improvement(const tt_gauss *gauss, const tt_gauss_point *point, double best)
{
    const tt_gauss_guess guess = tt_gauss_at(gauss, point);
    const double gap = best - guess.mean;
    if (guess.deviation < 1e-12) {
        return fmax(gap, 0);
    }
    const double score = gap / guess.deviation;
    const double below = 0.5 * erfc(-score / sqrt(2));
    const double density = exp(-score * score / 2) / sqrt(2 * pi);
    return fmax(gap * below + guess.deviation * density, 0);
}
