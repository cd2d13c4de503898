/* SPDX-License-Identifier: Apache-2.0
 *
 * cut.h - divides the tensors of a step into groups.
 *
 * A pure function of their sizes, of the rounds in which they were agreed and of their order, all
 * of which are the same on every rank.
 *
 * Layer:   control, private.
 * Threads: none of its own.
 * Memory:  the caller's.
 */
#ifndef TUTTI_CONTROL_NAMED_CUT_H
#define TUTTI_CONTROL_NAMED_CUT_H

#include <stdbool.h>
#include <stdint.h>

enum { TT_CUT_GROUPS = 8 }; /* target of tt_cut_begin when the library chooses the number */

typedef struct tt_cut {
    bool is_auto;
    uint32_t wanted, left; /* groups; tensors that are not in one */
    uint64_t target;       /* bytes of a group */
    uint64_t before;       /* bytes of all groups so far, the open one included */
    uint64_t open_bytes;
    uint32_t open_count, batch;
    uint32_t group_count;
} tt_cut;

/* Divide `count` tensors of `bytes` in all into `wanted` groups of equal bytes. UINT32_MAX: the
 * library chooses, and cuts where a round of agreement ended if that leaves groups of 0.5 to 1.5
 * times the target. */
void tt_cut_begin(tt_cut *cut, uint32_t wanted, uint32_t count, uint64_t bytes);
/* The group of the next tensor, from 1; `batch`: the round in which it was agreed. */
uint32_t tt_cut_next(tt_cut *cut, uint64_t bytes, uint32_t batch);

#endif
