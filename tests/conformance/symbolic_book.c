/* SPDX-License-Identifier: Apache-2.0
 *
 * symbolic_book.c - the problem of a symbolic case, as each rank sees it. */
#include <string.h>

#include "conformance/symbolic.h"

static uint64_t uneven_count(const symbolic_case *what, uint32_t row, uint32_t column)
{
    return (what->count * (row + 2 * column + 1)) % (2 * what->count + 1);
}

static void fill_offsets(symbolic_book *book, const symbolic_case *what, uint32_t self)
{
    for (uint32_t i = 0; i < what->size; i++) {
        const bool is_private = what->collective == TT_ALLTOALL;
        book->part_offsets[self][i + 1] =
            book->part_offsets[self][i] +
            uneven_count(what, is_private ? self : 0, i) * SYMBOLIC_ELEMENT_BYTES;
        book->output_offsets[self][i + 1] =
            book->output_offsets[self][i] + uneven_count(what, i, self) * SYMBOLIC_ELEMENT_BYTES;
    }
}

bool symbolic_book_fill(symbolic_book *book, const symbolic_case *what)
{
    memset(book, 0, sizeof(*book));
    for (uint32_t r = 0; r < what->size; r++) {
        const bool is_pair = what->collective == TT_SEND;
        book->facts[r].is_shared = what->shared_pattern >> (r % 32) & 1;
        fill_offsets(book, what, r);
        book->problems[r] = (tt_problem){
            .collective = is_pair && r == 1 ? TT_RECEIVE : what->collective,
            .dtype = TT_F32,
            .redop = strcmp(what->algorithm->name, "adasum") == 0 ? TT_ADASUM : TT_SUM,
            .self = r,
            .size = what->size,
            .root = what->root,
            .element_bytes = SYMBOLIC_ELEMENT_BYTES,
            .segment_bytes = what->segment_bytes,
            .bytes = what->count * SYMBOLIC_ELEMENT_BYTES,
            .part_offsets = what->is_uneven ? book->part_offsets[r] : NULL,
            .output_offsets =
                what->is_uneven && what->collective == TT_ALLTOALL ? book->output_offsets[r] : NULL,
            .postscale = 1.0,
            .is_in_place = what->is_in_place,
            .is_uneven = what->is_uneven,
            .topology = what->topology,
            .facts = book->facts,
        };
        if (!what->algorithm->fits(&book->problems[r])) {
            return false;
        }
    }
    for (uint32_t r = 0; r < what->size; r++) {
        memset(&book->plans[r], 0xa5, sizeof(book->plans[r]));
        what->algorithm->plan(&book->problems[r], &book->plans[r]);
    }
    return true;
}
