/* SPDX-License-Identifier: Apache-2.0
 *
 * when.h - policies that exchange in rounds: what is exchanged, how often, how late, how it is
 * merged.
 *
 * A policy is one file that ends in a table. It decides by the number of steps alone, so all ranks
 * agree without a message, and it computes element by element, so a model may be cut anywhere.
 *
 *  (1) Step t is the t-th call. A fragment is due at steps t > from with (t - from) % period equal
 *      to its phase, of the last period with from < t.
 *  (2) Its exchange ends at step t + delay, before the next fragment is due: one is in flight at a
 *      time, in one order on all ranks.
 *  (3) After a merge the first plane has what all ranks had in common last, the anchor.
 *
 * Layer:   sync, private to it but for sync.h, which includes this header; api/rounds makes the
 *          exchanges.
 * Threads: pure.
 * Memory:  the caller's.
 */
#ifndef TUTTI_SYNC_WHEN_WHEN_H
#define TUTTI_SYNC_WHEN_WHEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/text.h"
#include "kernel/dtype.h"

enum { TT_WHEN_PERIODS_MAX = 16, TT_WHEN_PLANES_MAX = 2, TT_WHEN_DELAY_MAX = 1 << 16 };

typedef enum tt_quantity {
    TT_QUANTITY_MODEL,    /* its mean replaces it */
    TT_QUANTITY_DELTA,    /* the anchor less the model; the outer optimizer's gradient */
    TT_QUANTITY_GRADIENT, /* of this step; the mean is that of an earlier one */
} tt_quantity;

/* What a round does with the optimizer's state. */
typedef enum tt_when_state {
    TT_STATE_UNSAID,
    TT_STATE_KEEP,
    TT_STATE_AVERAGE,
    TT_STATE_RESET,
} tt_when_state;

/* With whom. */
typedef enum tt_when_level {
    TT_LEVEL_NONE, /* nothing is due */
    TT_LEVEL_HOST,
    TT_LEVEL_ALL,
} tt_when_level;

typedef struct tt_when_period {
    uint64_t from; /* of steps above */
    uint32_t steps;
} tt_when_period;

typedef struct tt_when_policy tt_when_policy;

typedef struct tt_when {
    const tt_when_policy *policy;
    tt_when_period periods[TT_WHEN_PERIODS_MAX]; /* of all; ascending, the first from 0 */
    uint32_t period_count;
    uint32_t inside; /* period of the ranks of a host; 0: they are as others */
    uint32_t fragments, delay;
    tt_when_state state;
    double lr, momentum, alpha;
    bool is_nesterov;
} tt_when;

/* Some elements of a tensor. */
typedef struct tt_when_run {
    const tt_when *when;
    tt_dtype dtype; /* f32 or f64 */
    size_t count;
    void *values;
    void *planes[TT_WHEN_PLANES_MAX];
    void *exchanged; /* what this rank gives, and then the mean of all */
    double distance; /* of merges: squares of (model - mean of all) are added to it */
} tt_when_run;

struct tt_when_policy {
    const char *name;
    tt_quantity quantity;
    uint32_t plane_count;
    const char *options; /* with spaces around: " period state " */
    /* Sound in itself? `text` is the whole policy, for `why`. */
    tt_status (*check)(const tt_when *when, const char *text, tt_text *why);
    void (*give)(const tt_when_run *run); /* write `exchanged` */
    void (*merge)(tt_when_run *run);      /* `exchanged` has the mean */
};

/* "local:period=8". BAD_ARGUMENT: `why` names the culprit and the cure. */
tt_status tt_when_parse(const char *text, tt_when *when_out, tt_text *why);
/* Number `index` of the policies, or NULL. */
const tt_when_policy *tt_when_policy_at(size_t index);

/* Is fragment `fragment` due at step `step`, and with whom? */
tt_when_level tt_when_due(const tt_when *when, uint32_t fragment, uint64_t step);
/* Elements of fragment `fragment` of so many: from *first_out on. */
uint64_t tt_when_slice(const tt_when *when, uint32_t fragment, uint64_t elements,
                       uint64_t *first_out);

extern const tt_when_policy tt_when_local, tt_when_outer, tt_when_pipeline;

#endif
