/* SPDX-License-Identifier: Apache-2.0
 *
 * programs.h - calls of several stages that tests run, and their expected results.
 *
 * Layer:   tests.
 */
#ifndef TUTTI_TESTS_CONFORMANCE_PROGRAMS_H
#define TUTTI_TESTS_CONFORMANCE_PROGRAMS_H

#include "aggregate/aggregate.h"

/* The largest input of all ranks is added to each rank's, and that is summed. */
extern const tt_program program_max_sum;
/* The sum, and the sum of that. */
extern const tt_program program_two_sums;
/* The largest, as often as there can be stages. */
extern const tt_program program_max_often;

const char *program_name(const tt_program *program);

/* Result on every rank: `inputs` are those of `size` ranks. */
typedef struct program_oracle {
    const tt_program *program;
    tt_dtype dtype;
    uint32_t size;
    uint64_t count;
    double prescale, postscale;
} program_oracle;
void program_expect(const program_oracle *what, const void *const *inputs, void *output);

#endif
