/* SPDX-License-Identifier: Apache-2.0
 *
 * tuner.h - find good settings by trying few: Bayesian optimisation in log space.
 *
 * The tuner proposes settings, the caller runs some steps with them and tells what one takes.
 * The first proposal is the present setting; then come the seed of the cost model and points around
 * it, then those of largest expected improvement or farthest from all others; last, the present
 * setting and the quickest once more. It never ends with anything that was measured worse than the
 * present setting: that stays unless another is better by a margin, twice in two or three samples.
 * Afterwards it watches, and tunes again when the step time has drifted.
 *
 * One rank tunes; the others are told which setting holds from which step on.
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
    TT_TUNER_RECALLED_MAX = 6, /* from a profile: less than half of what is not tried twice */
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
    tt_tuner_setting seed;  /* what the cost model says, else the middle; moved into the range */
    uint32_t sample_max;    /* all told; at most TT_TUNER_SAMPLES_MAX; 0: that many */
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
    uint32_t told_count;  /* of them by this run; the others came from a profile */
    uint32_t favourite;   /* of these, the quickest, once all are told; 0: none, the start stays */
    uint32_t final_count; /* times told again: the start's, then the favourite's once or twice */
    tt_tuner_setting asked; /* the last proposal */
    bool is_asking;         /* its time has not been told */
    bool is_settled;
    double watched[TT_TUNER_WATCHED]; /* last step times after settling */
    uint32_t watched_count;
    double settled_us; /* median when watching began; 0: not known yet */
} tt_tuner;

/* TT_ERR_BAD_ARGUMENT: a range that is empty or not positive, no dimension; `why` says which. */
tt_status tt_tuner_init(tt_tuner *tuner, const tt_tuner_config *config, tt_text *why);

/* c* = sqrt(S t B / k) with total bytes, cost of a chunk, bytes a microsecond, chunks in flight. */
double tt_tuner_chunk_seed(double total_bytes, double chunk_us, double bytes_a_us, double flight);

/* A sample of an earlier run: it guides the search but is not an answer until it was tried again,
 * for the machine may have changed. False once there is no room. */
bool tt_tuner_recall(tt_tuner *tuner, const tt_tuner_sample *sample);

/* The next setting to try, or false: settled, and `*setting_out` is the answer. The same until its
 * time is told. */
bool tt_tuner_ask(tt_tuner *tuner, tt_tuner_setting *setting_out);
/* Is what it asks for one of the times that decide? They are worth more steps. */
bool tt_tuner_is_final(const tt_tuner *tuner);
/* What a step took under the last proposal. A time that is not positive and finite counts as
 * twice the worst. */
void tt_tuner_tell(tt_tuner *tuner, double step_us);

/* After settling: one step's time. True if it has drifted and tuning begins anew. */
bool tt_tuner_watch(tt_tuner *tuner, double step_us);

#endif
