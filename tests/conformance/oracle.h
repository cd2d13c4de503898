/* SPDX-License-Identifier: Apache-2.0
 *
 * oracle.h - each rank's input to a collective, and its result by plain arithmetic.
 *
 * Integers use their whole range and wrap; floats are small whole numbers, exact in any order, so
 * that every algorithm must give the oracle's very bits.
 *
 * Layer:   tests.
 */
#ifndef TUTTI_TESTS_CONFORMANCE_ORACLE_H
#define TUTTI_TESTS_CONFORMANCE_ORACLE_H

#include <stdbool.h>

#include "tutti/tutti.h"

typedef struct oracle_case {
    tutti_collective collective;
    tutti_dtype dtype;
    tutti_op op;
    int size, root;
    uint64_t count; /* of every part, or the base of uneven parts */
    bool is_uneven;
    double prescale, postscale;
    uint64_t seed;
} oracle_case;

bool oracle_is_reduction(tutti_collective collective);
bool oracle_allows(tutti_dtype dtype, tutti_op op);
/* Elements that `from` has for `to`. */
uint64_t oracle_part(const oracle_case *one, int from, int to);
uint64_t oracle_input_count(const oracle_case *one, int rank);
uint64_t oracle_output_count(const oracle_case *one, int rank);
/* Place of `rank`'s part in a gathered output. */
uint64_t oracle_own_offset(const oracle_case *one, int rank);
void oracle_fill_input(const oracle_case *one, int rank, void *input);
void oracle_fill_expected(const oracle_case *one, int rank, void *output);
void oracle_describe(const oracle_case *one, char *text, size_t bytes);

#endif
