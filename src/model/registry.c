/* SPDX-License-Identifier: Apache-2.0
 *
 * registry.c - the table of policies. */
#include "model/registry.h"

#include <string.h>

#include "base/base.h"

static const tt_policy *const policies[] = {
    &tt_policy_fifo, &tt_policy_slices,  &tt_policy_priority,   &tt_policy_p3,
    &tt_policy_tic,  &tt_policy_tac,     &tt_policy_buckets_25, &tt_policy_mg_wfbp,
    &tt_policy_dear, &tt_policy_caramel,
};

const tt_policy *tt_policy_at(size_t index)
{
    return index < TT_ARRAY_COUNT(policies) ? policies[index] : NULL;
}

const tt_policy *tt_policy_find(const char *name)
{
    for (size_t i = 0; i < TT_ARRAY_COUNT(policies); i++) {
        if (strcmp(policies[i]->name, name) == 0) {
            return policies[i];
        }
    }
    return NULL;
}
