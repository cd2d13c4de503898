/* SPDX-License-Identifier: Apache-2.0
 *
 * choice.h - which algorithm runs, by measured costs: a table of costs compiled for one process
 * set, so that a call looks up one byte.
 *
 * A choice is made per collective and power of two of bytes. The built-in choice stands unless
 * another algorithm needs at most four fifths of its time by the table: one measurement is noisy,
 * and a tie is not worth different bits. Sizes beyond the lines of a table are left to the built-in
 * choice.
 *
 * Layer:   aggregate; may include tune/.
 * Threads: pure.
 * Memory:  the caller's.
 */
#ifndef TUTTI_AGGREGATE_CHOICE_H
#define TUTTI_AGGREGATE_CHOICE_H

#include "aggregate/algorithm.h"
#include "tune/tune.h"

enum { TT_CHOICE_BUCKETS = 65 }; /* bits that a number of bytes has */

/* All zeros: the built-in sizes decide. */
typedef struct tt_choice {
    uint8_t algorithm[TT_COLLECTIVE_COUNT][TT_CHOICE_BUCKETS]; /* registry index + 1; 0: built in */
} tt_choice;

/* Placement of the ranks, as a table of costs names it: "shm" one host that shares memory, "lo" one
 * host that does not, "net" one rank per host, "mixed"; with "-crowded" when ranks outnumber cores.
 */
const char *tt_placement_name(const tt_topology *topology, uint32_t size);

/* `shape` has size, topology and segment_bytes. Pure: the same on every rank with this table. */
void tt_choice_build(tt_choice *choice_out, const tt_costs *costs, const tt_problem *shape);

/* NULL: by the costs no algorithm is better than the built-in choice. */
const tt_algorithm *tt_choice_find(const tt_choice *choice, const tt_problem *problem);

/* The table's time of the algorithm for `problem`, also at sizes beyond its last line, where it is
 * not used for choices; false: no line. */
bool tt_choice_predict(const tt_costs *costs, const tt_problem *problem,
                       const tt_algorithm *algorithm, uint64_t *time_ns_out);

#endif
