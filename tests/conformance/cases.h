/* SPDX-License-Identifier: Apache-2.0
 *
 * cases.h - collectives to try on any driver, their inputs, and their expected results.
 *
 * Values are small integers, so that every sum and product is exact in every type whatever the
 * order: the oracle is plain arithmetic, and all algorithms must give the same bits. Sums that
 * round have no exact oracle; the simulation judges them.
 *
 * Layer:   tests.
 */
#ifndef TUTTI_TESTS_CONFORMANCE_CASES_H
#define TUTTI_TESTS_CONFORMANCE_CASES_H

#include "aggregate/aggregate.h"

enum { CASE_SIZE_MAX = 16 };

typedef struct collective_case {
    tt_collective collective; /* TT_SEND: every rank sends to the next and receives */
    tt_dtype dtype;
    tt_redop redop;
    uint32_t size, root;
    uint64_t count; /* elements; of parts if there are parts */
    bool is_in_place;
    bool is_uneven;
    bool is_rounding; /* a sum of floats whose bits depend on the order of adding */
    double prescale, postscale;
    const char *algorithm;     /* NULL: chosen */
    uint64_t salt;             /* of the values */
    const tt_program *program; /* of an all-reduce: its steps; NULL: one exchange */
} collective_case;

typedef void case_fn(const collective_case *one, void *owner);

/* Every collective, type, operator, length, root and form for this many ranks. */
void cases_for_each(uint32_t size, case_fn *call, void *owner);
/* Every algorithm by name, over lengths. */
void cases_for_each_algorithm(uint32_t size, case_fn *call, void *owner);

void case_describe(const collective_case *one, char *text, size_t bytes);

/* Elements of part (from, to): those that `from` holds for `to`. */
uint64_t case_part(const collective_case *one, uint32_t from, uint32_t to);
uint64_t case_input_count(const collective_case *one, uint32_t rank);
uint64_t case_output_count(const collective_case *one, uint32_t rank);
/* First element of the own part in the output of an all-gather (in-place inputs lie there). */
uint64_t case_own_offset(const collective_case *one, uint32_t rank);

void case_fill_input(const collective_case *one, uint32_t rank, void *input);
void case_fill_expected(const collective_case *one, uint32_t rank, void *output);

#endif
