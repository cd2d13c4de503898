/* SPDX-License-Identifier: Apache-2.0
 *
 * state.h - hash of a world: equal hashes mean equal futures.
 *
 * It reads the negotiators' private fields. Fields without effect on later events are left out:
 * counters, and the places of frames in the list. A field that is missing here would merge states
 * that differ; explore_test.c compares the ends that it reaches with and without merging. */
#ifndef TUTTI_TESTS_NEGOTIATE_STATE_H
#define TUTTI_TESTS_NEGOTIATE_STATE_H

#include "tests/negotiate/world.h"

/* The events of a member so far, in their order. */
uint64_t state_told(const test_world *world, uint32_t member);
/* The world: every member's state and events, and the frames in flight. `members` caches the hash
 * of each member [size]; 0: it has changed since. */
uint64_t state_hash(const test_world *world, uint64_t *members);

#endif
