/* SPDX-License-Identifier: Apache-2.0
 *
 * first_use_internal.h - sets of tensors by node, for TIC and TAC.
 *
 * Layer:   model; private to order*.c.
 * Threads: pure.
 * Memory:  from the scratch.
 */
#ifndef TUTTI_MODEL_FIRST_USE_INTERNAL_H
#define TUTTI_MODEL_FIRST_USE_INTERNAL_H

#include "model/first_use.h"

/* Rows of bits: row i is a set. */
typedef struct tt_bit_rows {
    uint64_t *words;
    size_t words_a_row;
} tt_bit_rows;

static inline uint64_t *tt_bit_row(const tt_bit_rows *rows, uint32_t row)
{
    return &rows->words[row * rows->words_a_row];
}

static inline void tt_bit_set(uint64_t *row, uint32_t bit)
{
    row[bit / 64] |= UINT64_C(1) << (bit % 64);
}

static inline void tt_bit_clear(uint64_t *row, uint32_t bit)
{
    row[bit / 64] &= ~(UINT64_C(1) << (bit % 64));
}

static inline bool tt_bit_has(const uint64_t *row, uint32_t bit)
{
    return (row[bit / 64] >> (bit % 64) & 1) != 0;
}

tt_status tt_bit_rows_take(tt_bit_rows *rows, size_t row_count, size_t bit_count,
                           tt_scratch *scratch);

/* By node, the received tensors it depends on, directly or not; one more row, for temporary use. */
tt_status tt_order_dependencies(const tt_graph *graph, tt_scratch *scratch, tt_bit_rows *rows_out);

/* P and M+ of every tensor in `outstanding`, whose transfer_us are given. Not timed: computation
 * takes no time. */
void tt_order_properties(const tt_graph *graph, const tt_bit_rows *dependencies,
                         const uint64_t *outstanding, bool is_timed, tt_order_property *properties);

#endif
