/* SPDX-License-Identifier: Apache-2.0
 *
 * sync_policy.h - when workers may go on, as a text: "bulk", "stale:3", "async", "quorum:7".
 *
 *  bulk      A worker may start iteration c when all have completed c iterations. What they push in
 *            one iteration is added in the order of workers.
 *  stale:S   ... when all have completed c - S. Pushes are applied as they arrive. stale:0 is bulk.
 *  async     At any time.
 *  quorum:K  ... when K workers have completed c. What they pushed counts; what the others push for
 *            that iteration does not.
 *
 * Layer:   sync, private.
 * Threads: pure.
 * Memory:  none.
 */
#ifndef TUTTI_SYNC_SYNC_POLICY_H
#define TUTTI_SYNC_SYNC_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/text.h"

#define TT_STALENESS_ANY UINT32_MAX

typedef struct tt_policy {
    uint32_t staleness; /* iterations; TT_STALENESS_ANY: async */
    uint32_t quorum;    /* workers; 0: all */
} tt_policy;

/* BAD_ARGUMENT: `why` names the text and the cure. */
tt_status tt_policy_parse(const char *text, uint32_t workers, tt_policy *policy_out, tt_text *why);

/* Are pushes of one iteration added together, in the order of workers? */
static inline bool tt_policy_is_bulk(const tt_policy *policy)
{
    return policy->staleness == 0 && policy->quorum == 0;
}

/* The iterations that all workers must have completed before one may start iteration `clock`, or
 * read in it. */
static inline uint64_t tt_policy_needs(const tt_policy *policy, uint64_t clock)
{
    return clock > policy->staleness && policy->staleness != TT_STALENESS_ANY
               ? clock - policy->staleness
               : 0;
}

#endif
