/* SPDX-License-Identifier: Apache-2.0
 *
 * step.h - the stepper: once per step it takes times, learns an order and tries settings.
 *
 * Every rank has one stepper. Its owner reports names as their calls are submitted, uses, and the
 * end of each step; the stepper returns a call's urgency, and changes chunk, credit and fusion
 * threshold. Every rank ends its steps at the same places among its calls, so rank 0's decisions
 * hold on all ranks from the same step on.
 *
 *  (1) Rank 0 broadcasts by carriers: sums that all ranks make, at the same place. While one is in
 *      flight the owner submits no call of the next step.
 *  (2) The other ranks contribute zeros, and every rank adds 1 to a count of ranks. A joined rank
 *      contributes nothing, also to the count; then nothing is learnt and no setting changes,
 *      because that rank would miss it. When all have joined they begin to count steps anew,
 *      together.
 *  (3) A change holds for calls submitted after `apply`, on every rank from the same step on.
 *  (4) A carrier that fails changes nothing. It fails on all ranks, unless a rank has died, or ran
 *      out of memory after it sent its part: the owner gets the error and should stop.
 *
 * Layer:   schedule; may include tune/ and base/. No I/O, no clock, no thread.
 * Threads: one at a time per stepper: in a running job the baton's holder.
 * Memory:  from the allocator: names of the first step, the order, its text while it is exchanged.
 */
#ifndef TUTTI_SCHEDULE_STEP_H
#define TUTTI_SCHEDULE_STEP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/status.h"
#include "tune/tune.h"

typedef struct tt_stepper tt_stepper;

typedef struct tt_setting {
    uint64_t chunk_bytes, credit_bytes, fuse_bytes; /* credit 0: endless */
} tt_setting;

/* A sum of all ranks, apart from the program's; in place, urgent and never fused. Unlike a rooted
 * exchange it ends on no rank before all have started it. */
typedef struct tt_carrier {
    const char *name;
    void *memory;           /* NULL: out of memory; the exchange must fail on all ranks */
    uint64_t count;         /* of elements, */
    uint32_t element_bytes; /* 8: signed numbers, 1: bytes */
} tt_carrier;

typedef struct tt_step_host {
    void *owner;
    /* Make the exchange and report its end by tt_stepper_carried, not from inside this call. The
     * carrier and its memory stay until then. */
    void (*carry)(void *owner, const tt_carrier *carrier);
    void (*apply)(void *owner, const tt_setting *setting);
    /* Time of a sum of `bytes` by the table of costs; 0: no line. */
    double (*forecast_ns)(void *owner, uint64_t bytes);
    /* Rank 0: tuning has ended with this setting, or starts anew from it. */
    void (*tuned)(void *owner, const tt_tuner_setting *setting, bool is_settled);
} tt_step_host;

typedef struct tt_step_config {
    uint32_t rank, size;
    tt_setting setting; /* to begin with; the same on all ranks */
    bool learns, tunes; /* likewise */
    bool is_plain;      /* urgencies are ignored */
    bool is_auto;       /* they are ignored where an order gains nothing */
    /* Per setting: steps not counted, further ones where fusion changes, and the least and largest
     * number of steps in a sample. */
    uint32_t warmup_steps, fuse_warmup_steps, sample_steps_min, sample_steps_max;
    uint64_t sample_ns;
    tt_setting min, max; /* range of the tuner; a larger initial fuse_bytes extends it */
} tt_step_config;

/* State at the end of a step; sums since the start of the job. */
typedef struct tt_step_moment {
    uint64_t now_ns, waited_ns;       /* waited: by all threads of this rank */
    uint64_t busy_ns, gradient_bytes; /* see tt_control_counters */
    uint64_t named_count;             /* named calls that all ranks agreed on, carriers included */
} tt_step_moment;

typedef struct tt_step_times {
    uint64_t step_ns, compute_ns, network_ns;
    double rho, alpha, utilisation, efficiency;
} tt_step_times;

typedef struct tt_step_counters {
    uint64_t count;
    tt_step_times last;
    tt_setting setting;
} tt_step_counters;

/* Defaults in every field. */
void tt_step_config_init(tt_step_config *config);
/* The allocator must outlive the stepper. */
tt_status tt_stepper_create(const tt_step_config *config, const tt_step_host *host,
                            const tt_allocator *allocator, tt_stepper **stepper_out);
void tt_stepper_destroy(tt_stepper *stepper);

/* A gradient is submitted, with this name or "": its urgency, by the order if that has the name,
 * else `given`. */
int32_t tt_stepper_submit(tt_stepper *stepper, const char *name, int32_t given);
/* The parameter of this name is used. True: uses are still being learnt. */
bool tt_stepper_use(tt_stepper *stepper, const char *name);
/* A sample of an earlier run. False: invalid, or one too many. */
bool tt_stepper_recall(tt_stepper *stepper, const tt_tuner_sample *sample);
/* All ranks have joined, and their joins have returned. */
void tt_stepper_joined(tt_stepper *stepper);

/* A step is over. Not while a carrier is in flight. */
void tt_stepper_end(tt_stepper *stepper, const tt_step_moment *moment);
/* Make rank 0's text the order of all ranks, as at the end of a step; 0 bytes: no text.
 */
void tt_stepper_spread(tt_stepper *stepper, const char *text, size_t bytes);
void tt_stepper_carried(tt_stepper *stepper, tt_status status);
/* Status of the last end or spread, once no carrier is in flight; `*why_out` is empty where a
 * carrier has failed. */
tt_status tt_stepper_status(const tt_stepper *stepper, const char **why_out);

tt_step_counters tt_stepper_count(const tt_stepper *stepper);
/* Number of names of the order that no call had so far, number of all, and the most urgent unused
 * one. */
size_t tt_stepper_unused(const tt_stepper *stepper, size_t *count_out, const char **first_out);
/* Hash of the text of the order; 0: no order. */
uint64_t tt_stepper_order_hash(const tt_stepper *stepper);
/* Rank 0: the best samples of this run, quickest first; returns their number. */
uint32_t tt_stepper_samples(const tt_stepper *stepper,
                            tt_tuner_sample samples[TT_TUNER_RECALLED_MAX]);

#endif
