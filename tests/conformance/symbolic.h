/* SPDX-License-Identifier: Apache-2.0
 *
 * symbolic.h - runs the moves of an algorithm on all ranks at once, on symbols instead of numbers.
 *
 * A symbol records its element and the ranks whose contributions it holds. Adding one contribution
 * twice, mixing elements, reading memory that was never written, and writing out of bounds are
 * detected at the move that does it. The order of events is drawn from a seed: sends read their
 * source late, stores happen as early as aggregate.h allows.
 *
 * Layer:   tests.
 */
#ifndef TUTTI_TESTS_CONFORMANCE_SYMBOLIC_H
#define TUTTI_TESTS_CONFORMANCE_SYMBOLIC_H

#include "aggregate/aggregate.h"
#include "codec/codec.h"

enum { SYMBOLIC_SIZE_MAX = 33, SYMBOLIC_ELEMENT_BYTES = 4 };

/* One case: a problem on every rank. Lengths in elements. */
typedef struct symbolic_case {
    const tt_algorithm *algorithm;
    tt_collective collective;
    uint32_t size, root;
    uint32_t segment_bytes;
    uint64_t count;
    bool is_uneven;
    bool is_in_place;
    uint32_t shared_pattern; /* bit r % 32: buffers of rank r lie in the arena */
    const tt_topology *topology;
    uint64_t seed; /* 0: oldest first; 1: newest first; else random */
} symbolic_case;

/* The problem as rank `self` sees it; its arrays belong to `book`. */
typedef struct symbolic_book {
    uint64_t part_offsets[SYMBOLIC_SIZE_MAX][SYMBOLIC_SIZE_MAX + 1];
    uint64_t output_offsets[SYMBOLIC_SIZE_MAX][SYMBOLIC_SIZE_MAX + 1];
    tt_fact facts[SYMBOLIC_SIZE_MAX];
    tt_codec_spec codec; /* of "owner" and "rails": the wire bytes of an element are its own */
    tt_problem problems[SYMBOLIC_SIZE_MAX];
    tt_plan plans[SYMBOLIC_SIZE_MAX];
} symbolic_book;

/* False: the algorithm does not fit. */
bool symbolic_book_fill(symbolic_book *book, const symbolic_case *what);

/* Run it; NULL when all rules hold, else the fault (static text). */
const char *symbolic_run(const symbolic_book *book, const symbolic_case *what);

#endif
