/* SPDX-License-Identifier: Apache-2.0
 *
 * state.h - a world as one number: equal numbers, equal futures.
 *
 * It reads the negotiators' private parts. What has no effect on what is yet to come is left out:
 * counters, and the places of frames in the list. A field that is forgotten here would merge
 * states that differ; explore_test.c compares the ends that it reaches with and without merging. */
#ifndef TUTTI_TESTS_NEGOTIATE_STATE_H
#define TUTTI_TESTS_NEGOTIATE_STATE_H

#include "tests/negotiate/world.h"

/* What a member was told so far, in its order. */
uint64_t state_told(const test_world *world, uint32_t member);
/* The world: every member's state and what it was told, and the frames under way. `members` keeps
 * what is known of each member [size]; 0: it has changed since. */
uint64_t state_hash(const test_world *world, uint64_t *members);

#endif
