/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule_values.c - options of `tutti schedule` that contradict each other. */
#include "cli/schedule/schedule_values.h"

#include <stdio.h>

#include "base/base.h"
#include "cli/schedule/graph_file.h"
#include "model/registry.h"

typedef struct conflict {
    bool is_there;
    const char *first;
    const char *second;
    const char *why;
} conflict;

static bool has_conflict(const conflict *conflicts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (conflicts[i].is_there) {
            fprintf(stderr, "tutti schedule: %s and %s cannot be combined: %s\n",
                    conflicts[i].first, conflicts[i].second, conflicts[i].why);
            return true;
        }
    }
    return false;
}

static bool has_forward_conflict(const tt_schedule_values *values, const tt_policy *policy)
{
    static const char *const one = "--forward";
    const conflict conflicts[] = {
        {values->plot != NULL, one, "--plot", "pictures show training steps"},
        {values->json != NULL, one, "--json", "its rows are of training steps"},
        {values->compares, one, "--compare", "--forward compares all orders already"},
        {values->ops != 0, one, "--ops", "it orders by gradients, and a forward pass has none"},
        {values->edges != NULL, one, "--edges", "they need --ops, which is for training steps"},
        {values->keeps_barrier, one, "--barrier", "the barrier is between training steps"},
        {values->chunk_bytes != 0, one, "--chunk", "tensors are received whole"},
        {values->credit_bytes != 0, one, "--credit", "tensors are received one by one"},
        {policy != &tt_policy_priority && policy != &tt_policy_tic && policy != &tt_policy_tac, one,
         "this --policy", "orders of receiving are priority (first use), tic and tac"},
    };
    return values->is_forward && has_conflict(conflicts, TT_ARRAY_COUNT(conflicts));
}

static bool has_compare_conflict(const tt_schedule_values *values)
{
    static const char *const one = "--compare";
    static const char *const why = "it is for one policy: leave out --compare";
    const conflict conflicts[] = {
        {values->policy != NULL, one, "--policy", "all of them are compared"},
        {values->order != NULL, one, "--order", why},
        {values->plot != NULL, one, "--plot", why},
        {values->is_verbose, one, "--verbose", why},
    };
    return values->compares && has_conflict(conflicts, TT_ARRAY_COUNT(conflicts));
}

static bool has_file_conflict(const tt_schedule_values *values)
{
    static const char *const one = "--graph FILE";
    static const char *const why = "a file has its own times; give a network of --list";
    const conflict conflicts[] = {
        {values->batch != 0, one, "--batch", why},
        {values->samples_per_s > 0, one, "--samples-per-s", why},
    };
    return tt_graph_is_file(values->graph) && has_conflict(conflicts, TT_ARRAY_COUNT(conflicts));
}

bool tt_schedule_is_contradictory(const tt_schedule_values *values, const tt_policy *policy)
{
    if (has_forward_conflict(values, policy) || has_compare_conflict(values) ||
        has_file_conflict(values)) {
        return true;
    }
    if (values->edges != NULL && values->ops == 0) {
        fprintf(stderr, "tutti schedule: --edges needs --ops nearest or --ops cheapest\n");
        return true;
    }
    const bool is_chunk = values->chunk_bytes != 0 && !policy->takes_chunk;
    const bool is_credit = values->credit_bytes != 0 && !policy->takes_credit;
    if (!values->compares && (is_chunk || is_credit)) {
        fprintf(stderr, "tutti schedule: --%s has no effect with --policy %s; leave it out\n",
                is_chunk ? "chunk" : "credit", policy->name);
        return true;
    }
    return false;
}
