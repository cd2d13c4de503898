/* SPDX-License-Identifier: Apache-2.0
 *
 * coded_memory.h - for tests of coded sums: buffers of all ranks, those of the job and those of the
 * oracle. Include after cmocka.h.
 *
 * Layer:   tests.
 */
#ifndef TUTTI_TESTS_CONFORMANCE_CODED_MEMORY_H
#define TUTTI_TESTS_CONFORMANCE_CODED_MEMORY_H

#include "base/philox.h"
#include "conformance/coded.h"

typedef struct memory {
    uint32_t size;
    coded_call call;
    coded_buffers got[CODED_RANKS_MAX], wanted[CODED_RANKS_MAX];
} memory;

/* At least one byte, of garbage. */
void *garbage(size_t bytes);
void set_value(tt_dtype dtype, void *values, uint64_t index, float value);
float get_value(tt_dtype dtype, const void *values, uint64_t index);
float random_value(tt_random *random);
void *random_values(tt_dtype dtype, uint64_t count, tt_random *random);

/* Inputs and old residuals are shared, the rest is there twice. */
void memory_make(memory *made, uint32_t size, const coded_call *call, uint64_t seed);
void memory_drop(memory *made);
/* Fails the test where outputs or residuals differ from the oracle's. */
void memory_check(const memory *made, const char *what);

#endif
