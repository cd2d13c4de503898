/* SPDX-License-Identifier: Apache-2.0
 *
 * step.h - what happens once a step: its times, the order that is learnt, settings that are tried.
 *
 * A stepper is one rank's; its owner is its world. Its owner reports names as their calls are
 * submitted, uses, and the end of each step; the stepper answers with a call's urgency, and with
 * changes of chunk, credit and batching threshold. Every rank ends its steps at the same places
 * among its calls, so what rank 0 says there holds on all ranks from the same step on.
 *
 *  (1) Rank 0 speaks by carriers: sums that all ranks make, at the same place. While one is
 *      under way the owner submits no call that is to come after the step.
 *  (2) To its words the others add zeros, and all add up how many they are. A rank that has joined
 *      counts as nobody; then nothing is learnt and no setting changes, for it would not know. When
 *      all have joined they begin to count steps anew, together.
 *  (3) A change holds for what is submitted after `apply`, on every rank from the same step on.
 *  (4) A carrier that fails changes nothing. It fails on all ranks, but where a rank has died, or
 * had no memory when it had sent its part: the owner is told, and should not go on.
 *
 * Layer:   schedule; may include tune/ and base/. No I/O, no clock, no thread.
 * Threads: one at a time per stepper: in a running job the baton's holder.
 * Memory:  from the allocator: names of the first step, the order, its text while it travels.
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

/* A sum of all ranks, outside of the program's; in place, urgent and alone. Nobody has one that
 * another rank has not, as rooted exchanges may. */
typedef struct tt_carrier {
    const char *name;
    void *memory;           /* NULL: there is none for it; the exchange is to fail everywhere */
    uint64_t count;         /* of elements, */
    uint32_t element_bytes; /* 8: signed numbers, 1: bytes */
} tt_carrier;

typedef struct tt_step_host {
    void *owner;
    /* Make the exchange and tell its end by tt_stepper_carried, not from inside. The carrier and
     * its memory stay until then. */
    void (*carry)(void *owner, const tt_carrier *carrier);
    void (*apply)(void *owner, const tt_setting *setting);
    /* Of a sum of so many bytes, by the table of costs; 0: it says nothing. */
    double (*forecast_ns)(void *owner, uint64_t bytes);
    /* Rank 0: tuning has ended with this setting, or begins anew with it. */
    void (*tuned)(void *owner, const tt_tuner_setting *setting, bool is_settled);
} tt_step_host;

typedef struct tt_step_config {
    uint32_t rank, size;
    tt_setting setting; /* to begin with; the same on all ranks */
    bool learns, tunes; /* likewise */
    bool is_plain;      /* urgencies are ignored */
    bool is_auto;       /* they are where steps leave nothing to gain */
    /* Of a setting: steps that are not counted, as many more where what travels together changes,
     * steps that are, and as many as a sample lasts. */
    uint32_t warmup_steps, fuse_warmup_steps, sample_steps_min, sample_steps_max;
    uint64_t sample_ns;
    tt_setting min, max; /* what the tuner tries; a longer fuse_bytes to begin with counts, too */
} tt_step_config;

/* At the end of a step. Sums since the beginning. */
typedef struct tt_step_moment {
    uint64_t now_ns, waited_ns;       /* waited: by all threads of this rank */
    uint64_t busy_ns, gradient_bytes; /* see tt_control_counters */
    uint64_t named_count;             /* named calls that all ranks agreed on, carriers' as well */
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

/* A gradient is submitted, under this name or "": its urgency, by the order if that names it, else
 * what its caller gave. */
int32_t tt_stepper_submit(tt_stepper *stepper, const char *name, int32_t given);
/* The parameter of this name is used. True: that was worth telling, and further ones are. */
bool tt_stepper_use(tt_stepper *stepper, const char *name);
/* A sample of an earlier run. False: it is none, or one too many. */
bool tt_stepper_recall(tt_stepper *stepper, const tt_tuner_sample *sample);
/* All ranks have joined, and are here again. */
void tt_stepper_joined(tt_stepper *stepper);

/* A step is over. Not while a carrier is under way. */
void tt_stepper_end(tt_stepper *stepper, const tt_step_moment *moment);
/* Make the text that rank 0 has the order of all, as at the end of a step; 0 bytes: there is none.
 */
void tt_stepper_spread(tt_stepper *stepper, const char *text, size_t bytes);
void tt_stepper_carried(tt_stepper *stepper, tt_status status);
/* How that went, once no carrier is under way; `*why_out` is empty where a carrier has failed. */
tt_status tt_stepper_status(const tt_stepper *stepper, const char **why_out);

tt_step_counters tt_stepper_count(const tt_stepper *stepper);
/* Names of the order that no call had so far, of how many, and the most urgent of them. */
size_t tt_stepper_unused(const tt_stepper *stepper, size_t *count_out, const char **first_out);
/* Of the text of the order; 0: there is none. */
uint64_t tt_stepper_order_hash(const tt_stepper *stepper);
/* Rank 0: the best samples of this run, quickest first; how many. */
uint32_t tt_stepper_samples(const tt_stepper *stepper,
                            tt_tuner_sample samples[TT_TUNER_RECALLED_MAX]);

#endif
