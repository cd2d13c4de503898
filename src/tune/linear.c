/* SPDX-License-Identifier: Apache-2.0
 *
 * linear.c - medians by selection over at most 128 * 127 / 2 slopes. */
#include "tune/linear.h"

#include <math.h>
#include <stdbool.h>

#include "base/assert.h"

enum {
    SLOPES_MAX = TT_LINEAR_SAMPLES_MAX * (TT_LINEAR_SAMPLES_MAX - 1) / 2,
};

static void swap(double *a, double *b)
{
    const double kept = *a;
    *a = *b;
    *b = kept;
}

/* Hoare's selection; the middle element as pivot, so that sorted input is not the worst case. */
static double select_nth(double *values, size_t count, size_t nth)
{
    size_t low = 0;
    size_t high = count - 1;
    while (low < high) {
        const double pivot = values[low + (high - low) / 2];
        size_t i = low;
        size_t j = high;
        for (;;) {
            while (values[i] < pivot) {
                i++;
            }
            while (values[j] > pivot) {
                j--;
            }
            if (i >= j) {
                break;
            }
            swap(&values[i++], &values[j--]);
        }
        if (nth <= j) {
            high = j;
        } else {
            low = j + 1;
        }
    }
    return values[nth];
}

static double median(double *values, size_t count)
{
    TT_ASSERT(count > 0);
    const double upper = select_nth(values, count, count / 2);
    return count % 2 == 1 ? upper : (upper + select_nth(values, count, count / 2 - 1)) / 2;
}

static bool sample_is_sane(const tt_linear_sample *sample)
{
    return sample->bytes >= 0 && sample->time_us >= 0 && isfinite(sample->bytes) &&
           isfinite(sample->time_us);
}

tt_status tt_linear_fit(const tt_linear_sample *samples, size_t count, tt_linear *fit_out)
{
    double values[SLOPES_MAX];
    size_t slope_count = 0;
    if (count > TT_LINEAR_SAMPLES_MAX) {
        return TT_ERR_BAD_ARGUMENT;
    }
    for (size_t i = 0; i < count; i++) {
        if (!sample_is_sane(&samples[i])) {
            return TT_ERR_BAD_ARGUMENT;
        }
        for (size_t j = 0; j < i; j++) {
            const double step = samples[i].bytes - samples[j].bytes;
            if (step != 0) {
                values[slope_count++] = (samples[i].time_us - samples[j].time_us) / step;
            }
        }
    }
    if (slope_count == 0) {
        return TT_ERR_BAD_ARGUMENT;
    }
    const double byte_us = fmax(median(values, slope_count), 0);
    for (size_t i = 0; i < count; i++) {
        values[i] = samples[i].time_us - byte_us * samples[i].bytes;
    }
    *fit_out = (tt_linear){.start_us = fmax(median(values, count), 0), .byte_us = byte_us};
    return TT_OK;
}

double tt_linear_threshold_bytes(const tt_linear *line, double ratio)
{
    TT_ASSERT(ratio > 0.5);
    TT_ASSERT(ratio < 1);
    if (line->start_us <= 0) {
        return 0;
    }
    return line->byte_us > 0 ? (2 * ratio - 1) / (2 * (1 - ratio)) * line->start_us / line->byte_us
                             : INFINITY;
}
