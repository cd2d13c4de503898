/* SPDX-License-Identifier: Apache-2.0
 *
 * registry.h - every scheduling policy Tutti has. To add one: write model/policy_<name>.c,
 * declare its table here, list it in registry.c. Nothing else changes.
 *
 * Layer: model.
 * Threads: pure.
 * Memory:  none.
 */
#ifndef TUTTI_MODEL_REGISTRY_H
#define TUTTI_MODEL_REGISTRY_H

#include <stddef.h>

#include "model/policy/policy.h"

extern const tt_policy tt_policy_fifo;
extern const tt_policy tt_policy_slices;
extern const tt_policy tt_policy_priority;
extern const tt_policy tt_policy_p3;
extern const tt_policy tt_policy_tic;
extern const tt_policy tt_policy_tac;
extern const tt_policy tt_policy_buckets_25;
extern const tt_policy tt_policy_mg_wfbp;
extern const tt_policy tt_policy_dear;
extern const tt_policy tt_policy_caramel;

/* The policy called `name`, or NULL. */
const tt_policy *tt_policy_find(const char *name);

/* The index-th policy, or NULL at the end. */
const tt_policy *tt_policy_at(size_t index);

#endif
