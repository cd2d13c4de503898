/* SPDX-License-Identifier: Apache-2.0
 *
 * misuse.h - a table of wrong uses of named calls: the difference, the ranks that deviate, and the
 * state of the tensor before.
 *
 * A case is a few rounds. In each round every rank makes the same number of calls and waits for
 * all. The rounds before the last but one are right and bring the tensor into its state; the last
 * but one deviates; the last is right again. A driver (real, simulated) runs them and reports the
 * outcome.
 *
 * Layer:   tests.
 */
#ifndef TUTTI_TESTS_CONFORMANCE_MISUSE_H
#define TUTTI_TESTS_CONFORMANCE_MISUSE_H

#include <stdbool.h>

#include "tutti/tutti.h"

enum {
    MISUSE_SIZE_MAX = 8,
    MISUSE_CALLS_MAX = 3, /* of one rank in one round */
    MISUSE_TEXT_BYTES = 512,
    MISUSE_BUFFER_BYTES = 4096,
};

typedef enum misuse_what {
    MISUSE_DTYPE,
    MISUSE_SHAPE,
    MISUSE_OP,
    MISUSE_ROOT,
    MISUSE_COLLECTIVE,
    MISUSE_PRESCALE,
    MISUSE_POSTSCALE,
    MISUSE_FORM, /* uneven parts or not */
    MISUSE_ACTIVE,
    MISUSE_DEVICE,
    MISUSE_ARGUMENT,
    MISUSE_GROUP_SIZE,
    MISUSE_GROUP_MEMBER,
    MISUSE_GROUP_NAME, /* the same tensors in a group of another name */
    MISUSE_APART,      /* ungrouped, although in a group on others */
    MISUSE_TOGETHER,   /* in a group, although ungrouped on others */
    MISUSE_WHATS,
} misuse_what;

typedef enum misuse_state {
    MISUSE_FRESH,
    MISUSE_CACHED,
    MISUSE_PLANNED,
    MISUSE_GROUPED,
    MISUSE_FUSED,         /* beside small ones that are right */
    MISUSE_GROUP_FRESH,   /* in a new group */
    MISUSE_GROUP_PLANNED, /* in one that is planned */
    MISUSE_STATES,
} misuse_state;

typedef enum misuse_who { MISUSE_BY_ONE, MISUSE_BY_HALF, MISUSE_BY_ALL, MISUSE_WHOS } misuse_who;

typedef struct misuse_case {
    int number;
    tutti_collective base;
    misuse_what what;
    misuse_state state;
    misuse_who who;
    int size;
} misuse_case;

/* Memory that one rank needs to make its calls. */
typedef struct misuse_memory {
    _Alignas(64) unsigned char input[MISUSE_CALLS_MAX][MISUSE_BUFFER_BYTES];
    _Alignas(64) unsigned char output[MISUSE_CALLS_MAX][MISUSE_BUFFER_BYTES];
    uint64_t input_counts[MISUSE_SIZE_MAX], output_counts[MISUSE_SIZE_MAX];
    char names[MISUSE_CALLS_MAX][64];
    char group[64];
} misuse_memory;

typedef struct misuse_outcome {
    tutti_status statuses[MISUSE_SIZE_MAX][MISUSE_CALLS_MAX];
    char texts[MISUSE_SIZE_MAX][MISUSE_CALLS_MAX][MISUSE_TEXT_BYTES];
} misuse_outcome;

/* The number-th case for this many ranks; false: there is none. */
bool misuse_at(int number, int size, misuse_case *one_out);
void misuse_describe(const misuse_case *one, char *text, size_t bytes);

int misuse_rounds(const misuse_case *one);
bool misuse_is_wrong(const misuse_case *one, int round);
/* The calls of `rank` in this round; returns their number. */
int misuse_calls(const misuse_case *one, int round, int rank, misuse_memory *memory,
                 tutti_call *calls);
/* Checks the outcome of a round: NULL, or the fault. `mode`: of the set's counters. */
const char *misuse_judge(const misuse_case *one, int round, const misuse_outcome *outcome,
                         const char *mode);
/* True: the results of this rank are right, after a right round. */
bool misuse_is_right(const misuse_case *one, const misuse_memory *memory);

#endif
