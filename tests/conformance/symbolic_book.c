/* SPDX-License-Identifier: Apache-2.0
 *
 * symbolic_book.c - the problem of a symbolic case, as each rank sees it; inputs and expected
 * results. */
#include <string.h>

#include "codec/registry.h"
#include "conformance/symbolic_internal.h"

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
    const bool is_owner = strcmp(what->algorithm->name, "owner") == 0;
    const bool is_coded = is_owner || strcmp(what->algorithm->name, "rails") == 0;
    memset(book, 0, sizeof(*book));
    book->codec = (tt_codec_spec){
        .codec = tt_codec_find("none"), .block = TT_CODEC_BLOCK_MIN, .is_everywhere = is_owner};
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
            .codec = is_coded ? &book->codec : NULL,
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

/* ---- inputs and expected results ---- */

static uint64_t parts_end(const tt_problem *problem)
{
    return tt_part_offset(problem, problem->size) / SYMBOLIC_ELEMENT_BYTES;
}

uint64_t symbolic_input_count(const symbolic_case *what, const tt_problem *problem)
{
    switch (what->collective) {
    case TT_ALLGATHER:
    case TT_GATHER:
        return tt_part_bytes(problem, problem->self) / SYMBOLIC_ELEMENT_BYTES;
    case TT_SCATTER:
        return problem->self == problem->root ? parts_end(problem) : 0;
    case TT_REDUCESCATTER:
    case TT_ALLTOALL:
        return parts_end(problem);
    case TT_BROADCAST:
        return problem->self == problem->root ? what->count : 0;
    case TT_SEND:
        return problem->self == 0 ? what->count : 0;
    case TT_BARRIER:
        return 0;
    default:
        return what->count;
    }
}

uint64_t symbolic_output_count(const symbolic_case *what, const tt_problem *problem)
{
    switch (what->collective) {
    case TT_ALLGATHER:
        return parts_end(problem);
    case TT_GATHER:
        return problem->self == problem->root ? parts_end(problem) : 0;
    case TT_SCATTER:
    case TT_REDUCESCATTER:
        return tt_part_bytes(problem, problem->self) / SYMBOLIC_ELEMENT_BYTES;
    case TT_ALLTOALL:
        return (problem->output_offsets != NULL ? problem->output_offsets[problem->size]
                                                : problem->size * problem->bytes) /
               SYMBOLIC_ELEMENT_BYTES;
    case TT_REDUCE:
        return problem->self == problem->root ? what->count : 0;
    case TT_SEND:
        return problem->self == 1 ? what->count : 0;
    case TT_BARRIER:
        return 0;
    default:
        return what->count;
    }
}

/* Element number of `index` of an alltoall: (from, to, place in the part). */
static uint32_t pair_element(uint32_t from, uint32_t to, uint64_t place)
{
    return (from * SYMBOLIC_SIZE_MAX + to) * 65536 + (uint32_t)place;
}

static uint32_t part_of(const uint64_t *offsets, const tt_problem *problem, uint64_t index,
                        uint64_t *place_out)
{
    uint32_t part = 0;
    uint64_t first = 0;
    for (;; part++) {
        const uint64_t end = (offsets != NULL ? offsets[part + 1] : (part + 1) * problem->bytes) /
                             SYMBOLIC_ELEMENT_BYTES;
        if (index < end) {
            *place_out = index - first;
            return part;
        }
        first = end;
    }
}

symbol symbolic_input_symbol(const symbolic_case *what, const tt_problem *problem, uint64_t index)
{
    symbol made = {.holders = UINT64_C(1) << problem->self, .element = (uint32_t)index};
    uint64_t place;
    if (what->collective == TT_ALLGATHER || what->collective == TT_GATHER) {
        made.element += (uint32_t)(tt_part_offset(problem, problem->self) / SYMBOLIC_ELEMENT_BYTES);
    } else if (what->collective == TT_ALLTOALL) {
        const uint32_t to = part_of(problem->part_offsets, problem, index, &place);
        made.element = pair_element(problem->self, to, place);
    }
    return made;
}

symbol symbolic_output_symbol(const symbolic_case *what, const tt_problem *problem, uint64_t index)
{
    symbol wanted = {.element = (uint32_t)index};
    uint64_t place;
    switch (what->collective) {
    case TT_ALLGATHER:
    case TT_GATHER:
        wanted.holders = UINT64_C(1) << part_of(problem->part_offsets, problem, index, &place);
        break;
    case TT_ALLTOALL: {
        const uint32_t from = part_of(problem->output_offsets, problem, index, &place);
        wanted.holders = UINT64_C(1) << from;
        wanted.element = pair_element(from, problem->self, place);
        break;
    }
    case TT_SCATTER:
        wanted.holders = UINT64_C(1) << problem->root;
        wanted.element +=
            (uint32_t)(tt_part_offset(problem, problem->self) / SYMBOLIC_ELEMENT_BYTES);
        break;
    case TT_BROADCAST:
    case TT_SEND:
        wanted.holders = UINT64_C(1) << (what->collective == TT_SEND ? 0 : problem->root);
        break;
    case TT_REDUCESCATTER:
        wanted.element +=
            (uint32_t)(tt_part_offset(problem, problem->self) / SYMBOLIC_ELEMENT_BYTES);
        /* fall through */
    default:
        wanted.holders = (UINT64_C(1) << problem->size) - 1;
        wanted.is_finished = true;
        break;
    }
    return wanted;
}
