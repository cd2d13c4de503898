/* SPDX-License-Identifier: Apache-2.0
 *
 * symbolic_internal.h - symbols: between the cases (symbolic_book.c) and their runs (symbolic.c).
 *
 * Layer:   tests.
 */
#ifndef TUTTI_TESTS_CONFORMANCE_SYMBOLIC_INTERNAL_H
#define TUTTI_TESTS_CONFORMANCE_SYMBOLIC_INTERNAL_H

#include "conformance/symbolic.h"

typedef struct symbol {
    uint64_t holders; /* ranks whose contributions it holds; 0: never written */
    uint32_t element;
    bool is_finished;
} symbol;

/* Elements of a rank's input and output. */
uint64_t symbolic_input_count(const symbolic_case *what, const tt_problem *problem);
uint64_t symbolic_output_count(const symbolic_case *what, const tt_problem *problem);

/* What the rank has in its input, and what it must have in its output at the end. */
symbol symbolic_input_symbol(const symbolic_case *what, const tt_problem *problem, uint64_t index);
symbol symbolic_output_symbol(const symbolic_case *what, const tt_problem *problem, uint64_t index);

#endif
