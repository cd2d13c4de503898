/* SPDX-License-Identifier: Apache-2.0
 *
 * rounds.h - exchanges in rounds (tutti/sync.h): what a tutti_sync has.
 *
 * The policy (sync/when) says what is due and computes; this room makes the exchanges, named
 * all-reduces like any other.
 *
 *  (1) The values that were added are one sequence of elements; a fragment is a slice of it.
 *  (2) A flight is the exchange of one fragment, or of one step's gradients: a group of calls,
 * which succeeds or fails as one. (3) What a rank gives is copied first, so that it may train on
 * while the exchange runs.
 *
 * Layer:   api, private.
 * Threads: one at a time.
 * Memory:  the heap's, from open to close.
 */
#ifndef TUTTI_API_ROUNDS_ROUNDS_H
#define TUTTI_API_ROUNDS_ROUNDS_H

#include "sync/sync.h"
#include "tutti/sync.h"

enum { ROUNDS_NAME_BYTES = 200, ROUNDS_TEXT_BYTES = 256 };

typedef struct rounds_tensor {
    char name[ROUNDS_NAME_BYTES];
    bool is_state;
    tutti_dtype dtype;
    uint64_t count;
    uint64_t first; /* number of its first element in the sequence (1) */
    void *values;   /* the caller's */
    void *planes[TT_WHEN_PLANES_MAX];
    uint8_t *exchanged; /* [flight_count][count] */
} rounds_tensor;

typedef struct rounds_flight {
    bool is_open;
    uint32_t fragment;
    tt_when_level level;
    uint64_t merge_at; /* step */
    tutti_handle **handles;
    int handle_count;
} rounds_flight;

struct tutti_sync {
    tutti_context *context;
    tutti_set set, host_set;
    bool has_host_set;
    tt_when when;
    char policy[ROUNDS_TEXT_BYTES], codec[ROUNDS_TEXT_BYTES]; /* codec "": by rules */
    rounds_tensor *tensors;
    uint32_t tensor_count, tensor_capacity;
    uint64_t elements; /* of values */
    rounds_flight *flights;
    uint32_t flight_count;
    uint64_t *last_round; /* [fragments] steps at their last round with all */
    uint64_t step;
    bool must_meet; /* steps of all ranks are compared at the next call */
    tutti_sync_counts counts;
};

/* The part of a tensor that a fragment has; .count 0: none. `flight` has room for it. */
tt_when_run tt_rounds_slice(const tutti_sync *sync, uint32_t tensor, const rounds_flight *flight);
/* Does a round exchange it? */
bool tt_rounds_exchanges(const tutti_sync *sync, const rounds_tensor *tensor);
/* Wait for what is in flight; its result is not merged. */
void tt_rounds_drop(tutti_sync *sync);
/* Wait for a flight, whose room has the mean then: it is over, or, arrive, stays to be merged. */
tutti_status tt_rounds_wait(tutti_sync *sync, rounds_flight *flight);
tutti_status tt_rounds_arrive(tutti_sync *sync, rounds_flight *flight);
/* A round has failed: nothing is in flight any more, and the values are those of the last one. */
tutti_status tt_rounds_fail(tutti_sync *sync, tutti_status status);
/* TUTTI_ERR_BAD_ARGUMENT: it is NULL. */
tutti_status tt_rounds_check(const tutti_sync *sync);

#endif
