/* SPDX-License-Identifier: Apache-2.0
 *
 * tuner.h - find good settings by trying few: Bayesian optimisation in log space.
 *
 * The tuner proposes settings; the caller runs some steps with each and reports the step time. The
 * first proposal is the present setting; then the seed of the cost model and points around it, then
 * those of largest expected improvement or farthest from all others; last, the present setting and
 * the quickest once more. It never ends with a setting measured worse than the present one: that
 * stays unless another is better by a margin, twice in two or three samples. Afterwards it watches,
 * and tunes again when the step time has drifted.
 *
 * One rank tunes; its owner applies each setting on all ranks from the same step on.
 *
 * Layer:   tune; may include base/.
 * Threads: one at a time per tuner.
 * Memory:  none taken.
 */
#ifndef TUTTI_TUNE_TUNER_H
#define TUTTI_TUNE_TUNER_H

#include <stdbool.h>

#include "base/status.h"
#include "base/text.h"
#include "tune/gauss.h"

enum {
    TT_TUNER_CHUNK = 0, /* the dimensions, by index; a tuner may use the first one, two or three */
    TT_TUNER_CREDIT = 1,
    TT_TUNER_BATCH = 2,
    TT_TUNER_SAMPLES_MAX = 15,
    TT_TUNER_RECALLED_MAX = 6, /* from a profile: less than half of the samples before the final */
    TT_TUNER_WATCHED = 9,
};

typedef struct tt_tuner_setting {
    double at[TT_GAUSS_DIMENSIONS]; /* bytes */
} tt_tuner_setting;

typedef struct tt_tuner_config {
    uint32_t dimension_count;
    tt_tuner_setting min;   /* positive */
    tt_tuner_setting max;   /* not below min */
    tt_tuner_setting start; /* the present setting */
    tt_tuner_setting seed;  /* by the cost model, else the middle; clamped to the range */
    uint32_t sample_max;    /* in all; at most TT_TUNER_SAMPLES_MAX; 0: that many */
    double margin;          /* by which another must be better than the start; 0: 2 % */
    double drift;           /* change of step time that means drift; 0: 20 % */
} tt_tuner_config;

typedef struct tt_tuner_sample {
    tt_tuner_setting setting;
    double step_us;
} tt_tuner_sample;

typedef struct tt_tuner {
    tt_tuner_config config;
    tt_tuner_sample samples[TT_TUNER_SAMPLES_MAX];
    uint32_t sample_count;
    uint32_t told_count; /* of them measured in this run; the others are from a profile */
    uint32_t favourite; /* index of the quickest, once all are measured; 0: none, the start stays */
    uint32_t final_count; /* repeated samples: of the start, then of the favourite once or twice */
    tt_tuner_setting asked; /* the last proposal */
    bool is_asking;         /* its time has not been reported */
    bool is_settled;
    double watched[TT_TUNER_WATCHED]; /* last step times after settling */
    uint32_t watched_count;
    double settled_us; /* median when watching began; 0: not known yet */
} tt_tuner;

/* TT_ERR_BAD_ARGUMENT: a range that is empty or not positive, no dimension; `why` names it. */
tt_status tt_tuner_init(tt_tuner *tuner, const tt_tuner_config *config, tt_text *why);

/* c* = sqrt(S t B / k) with total bytes, cost of a chunk, bytes per microsecond, chunks in flight.
 */
double tt_tuner_chunk_seed(double total_bytes, double chunk_us, double bytes_a_us, double flight);

/* A sample of an earlier run: it guides the search but is no answer until it was measured again,
 * because the machine may have changed. False: no room left. */
bool tt_tuner_recall(tt_tuner *tuner, const tt_tuner_sample *sample);

/* The next setting to try, or false: settled, and `*setting_out` is the answer. The same until its
 * time is reported. */
bool tt_tuner_ask(tt_tuner *tuner, tt_tuner_setting *setting_out);
/* Does the current proposal belong to the final, which decides? It is worth more steps. */
bool tt_tuner_is_final(const tt_tuner *tuner);
/* Report the step time under the last proposal. A time that is not positive and finite counts as
 * twice the worst. */
void tt_tuner_tell(tt_tuner *tuner, double step_us);

/* After settling: one step's time. True if it has drifted and tuning starts anew. */
bool tt_tuner_watch(tt_tuner *tuner, double step_us);

#endif
