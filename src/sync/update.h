/* SPDX-License-Identifier: Apache-2.0
 *
 * update.h - what an owner does with what workers push, as a text: "sgd:lr=0.1".
 *
 *  sum       The value is the sum of one iteration's pushes: an all-reduce. Bulk and quorum only.
 *  add       Each push is added to the value: the owner keeps a running sum, as of deltas.
 *  sgd       value -= lr * g
 *  momentum  m = mu * m + g; value -= lr * m; with nesterov=1: value -= lr * (g + mu * m)
 *  adam      with bias correction; decay: decoupled weight decay (AdamW)
 *  own:NAME  a function that the program has given, in f32; options as of others: own:NAME:lr=1
 *
 * g is the mean of the workers' gradients: the sum of pushes divided by the number of workers (of a
 * quorum: by its number). Under stale and async each push is a step of its own with g divided so.
 *
 * For stale and async: with tau=1 g is also divided by max(1, staleness); with dc=L each gradient p
 * that is pushed is corrected to p + L * p * p * (value - value that its worker has read) before it
 * is divided (DC-ASGD, Zheng et al. 2017).
 *
 *  (1) The same bits on every instruction set: f32, in the order written here.
 *  (2) `value_out` may be anything before; `value` is not written. State is written in place.
 *
 * Layer:   sync; api gives it the program's functions.
 * Threads: pure.
 * Memory:  none; state belongs to the caller.
 */
#ifndef TUTTI_SYNC_UPDATE_H
#define TUTTI_SYNC_UPDATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/text.h"
#include "kernel/dtype.h"

enum { TT_UPDATE_OPTIONS_MAX = 6, TT_UPDATE_STATES_MAX = 4, TT_UPDATE_WORD_BYTES = 32 };

typedef struct tt_update tt_update;

typedef struct tt_update_spec {
    const tt_update *update;
    float options[TT_UPDATE_OPTIONS_MAX]; /* in the order of the table */
} tt_update_spec;

/* Some elements of a part. */
typedef struct tt_update_run {
    const tt_update_spec *spec;
    float *gradient; /* sums of pushes; not kept */
    const float *value;
    float *value_out;
    float *states[TT_UPDATE_STATES_MAX];
    uint64_t step;      /* of this part, from 1 */
    uint32_t divisor;   /* of the gradient */
    uint64_t staleness; /* of the push */
    const float *read;  /* what its worker has read last; NULL: not known */
    size_t count;
    const char *tensor; /* its name, */
    uint64_t first;     /* and which of its elements is the first one here */
    uint64_t clock;     /* iteration of the pushes; the latest of them */
} tt_update_run;

struct tt_update {
    const char *name;
    uint32_t state_count;  /* floats per element beside the value */
    bool is_sum;           /* the value is what was pushed; there is no first one */
    bool takes_any_type;   /* else f32 only */
    bool is_own;           /* a function of the program's; its text begins with "own:" */
    uint32_t option_count; /* names, what they are if not given */
    const char *option_names[TT_UPDATE_OPTIONS_MAX];
    float option_values[TT_UPDATE_OPTIONS_MAX];
    void (*apply)(const tt_update_run *run); /* NULL: sums, see update.c */
    void *user;                              /* of functions that the program has given */
};

/* The program's own; borrowed. */
typedef struct tt_update_list {
    const tt_update *updates;
    uint32_t count;
} tt_update_list;

/* One that this process does not have, as another described it: it cannot be applied. */
typedef struct tt_update_described {
    tt_update update; /* its names are those below */
    char name[TT_UPDATE_WORD_BYTES];
    char option_names[TT_UPDATE_OPTIONS_MAX][TT_UPDATE_WORD_BYTES];
} tt_update_described;

/* BAD_ARGUMENT: `why` names the culprit and the cure. */
tt_status tt_update_parse(const char *text, tt_update_spec *spec_out, tt_text *why);
/* The same, and own:NAME of this list. */
tt_status tt_update_parse_own(const char *text, const tt_update_list *own, tt_update_spec *spec_out,
                              tt_text *why);
bool tt_update_is_own(const char *text);
/* Stands for a function that a worker does not have, until an owner has described it. */
const tt_update *tt_update_absent(void);
/* How many states it has and the names of its options: "1 lr mu". */
void tt_update_describe(const tt_update *update, tt_text *text);
/* `text`: of the update, own:NAME. BAD_WIRE: no process could describe it so. */
tt_status tt_update_read_description(const char *text, const char *description,
                                     tt_update_described *described_out);
/* The update with these options, as tt_update_parse_own reads it. */
void tt_update_print(const tt_update *update, const float *options, tt_text *text);
/* Adds that the update has no such option, and those that it has. */
void tt_update_add_unknown(const tt_update *update, const char *option, tt_text *why);
/* What an option is; 0 if the update does not have it. */
float tt_update_option(const tt_update_spec *spec, const char *name);
/* Options that correct for staleness; they cannot change. */
bool tt_update_is_correction(const char *option);
bool tt_update_is_corrected(const tt_update_spec *spec);
/* The n-th update there is, or NULL. */
const tt_update *tt_update_at(size_t index);

#endif
