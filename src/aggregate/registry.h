/* SPDX-License-Identifier: Apache-2.0
 *
 * registry.h - every algorithm Tutti has. To add one: write aggregate/pattern/<name>.c, declare
 * its table here, list it in registry.c. Nothing else changes.
 *
 * Layer:   aggregate.
 * Threads: pure.
 * Memory:  none.
 */
#ifndef TUTTI_AGGREGATE_REGISTRY_H
#define TUTTI_AGGREGATE_REGISTRY_H

#include <stddef.h>

#include "aggregate/algorithm.h"

extern const tt_algorithm tt_algorithm_ring;
extern const tt_algorithm tt_algorithm_direct;
extern const tt_algorithm tt_algorithm_flat;
extern const tt_algorithm tt_algorithm_star;
extern const tt_algorithm tt_algorithm_doubling;
extern const tt_algorithm tt_algorithm_halving;
extern const tt_algorithm tt_algorithm_binomial;
extern const tt_algorithm tt_algorithm_pairwise;
extern const tt_algorithm tt_algorithm_shared;
extern const tt_algorithm tt_algorithm_views;
extern const tt_algorithm tt_algorithm_hierarchical;
extern const tt_algorithm tt_algorithm_adasum;
/* Of calls with a codec: they have no others, exactly one of them fits, and other calls cannot name
 * them. */
extern const tt_algorithm tt_algorithm_owner;
extern const tt_algorithm tt_algorithm_rails;

/* The algorithm called `name` that plain calls can have, or NULL. */
const tt_algorithm *tt_algorithm_find(const char *name);

/* The index-th of them, or NULL at the end. */
const tt_algorithm *tt_algorithm_at(size_t index);

/* The algorithm where memory is not shared, for collectives other than the all-reduce. */
const tt_algorithm *tt_algorithm_framed(const tt_problem *problem);

#endif
