/* SPDX-License-Identifier: Apache-2.0
 *
 * moves_input.c - is a call one that ranks could make, and that moves can walk? */
#include <inttypes.h>

#include "sim/moves_internal.h"

enum {
    SEGMENT_UNIT = 64, /* segments are multiples of it, as in control/ */
    SEGMENT_BYTES_MAX = 1 << 30,
    ELEMENT_BYTES_MAX = 8,
};

/* 146 years: no time of a run comes close to 2^64. */
#define START_NS_MAX (UINT64_C(1) << 62)

static tt_status check_lengths(const tt_problem *problem, tt_text *why)
{
    const uint32_t segment = problem->segment_bytes, element = problem->element_bytes;
    if (element == 0 || element > ELEMENT_BYTES_MAX || SEGMENT_UNIT % element != 0) {
        tt_text_add(why, "elements of %u bytes: give 1, 2, 4 or 8", element);
        return TT_ERR_BAD_ARGUMENT;
    }
    if (segment == 0 || segment % SEGMENT_UNIT != 0 || segment > SEGMENT_BYTES_MAX) {
        tt_text_add(why, "segments of %u bytes: give a multiple of %u, up to %u", segment,
                    (unsigned)SEGMENT_UNIT, (unsigned)SEGMENT_BYTES_MAX);
        return TT_ERR_BAD_ARGUMENT;
    }
    if (problem->bytes % element != 0) {
        tt_text_add(why, "a call of %" PRIu64 " bytes: give a multiple of the element's %u",
                    problem->bytes, element);
        return TT_ERR_BAD_ARGUMENT;
    }
    return TT_OK;
}

static tt_status check_parts(const tt_problem *problem, tt_text *why)
{
    const uint64_t *offsets = problem->part_offsets;
    const bool is_uneven = problem->is_uneven || offsets != NULL || problem->output_offsets != NULL;
    if (problem->collective == TT_ALLTOALL && is_uneven) {
        tt_text_add(why, "an uneven alltoall: moves know parts that are alike on all ranks alone");
        return TT_ERR_UNSUPPORTED;
    }
    for (uint32_t i = 0; offsets != NULL && i < problem->size; i++) {
        if (offsets[i + 1] < offsets[i] ||
            (offsets[i + 1] - offsets[i]) % problem->element_bytes != 0) {
            tt_text_add(why,
                        "part %u is from byte %" PRIu64 " to %" PRIu64
                        ": give ascending offsets of whole elements",
                        i, offsets[i], offsets[i + 1]);
            return TT_ERR_BAD_ARGUMENT;
        }
    }
    return TT_OK;
}

static tt_status check_problem(const tt_problem *problem, tt_text *why)
{
    if ((uint32_t)problem->collective >= TT_COLLECTIVE_COUNT) {
        tt_text_add(why, "collective %u: there are %u", (unsigned)problem->collective,
                    (unsigned)TT_COLLECTIVE_COUNT);
        return TT_ERR_BAD_ARGUMENT;
    }
    if (problem->root >= problem->size) {
        tt_text_add(why, "root %u of %u ranks: give one of them", problem->root, problem->size);
        return TT_ERR_BAD_ARGUMENT;
    }
    if ((problem->collective == TT_SEND || problem->collective == TT_RECEIVE) &&
        problem->size != 2) {
        tt_text_add(why, "a %s of %u ranks: give two, the sender first",
                    tt_collective_name(problem->collective), problem->size);
        return TT_ERR_BAD_ARGUMENT;
    }
    if (problem->collective == TT_ALLREDUCE && problem->redop == TT_ADASUM &&
        (problem->size & (problem->size - 1)) != 0) {
        tt_text_add(why, "an Adasum of %u ranks: give a power of two", problem->size);
        return TT_ERR_UNSUPPORTED;
    }
    TT_TRY(check_lengths(problem, why));
    return check_parts(problem, why);
}

static tt_status check_start(const tt_moves_input *input, tt_text *why)
{
    for (uint32_t i = 0; input->start_ns != NULL && i < input->problem.size; i++) {
        if (input->start_ns[i] > START_NS_MAX) {
            tt_text_add(why, "rank %u starts at %" PRIu64 " ns: give at most %" PRIu64, i,
                        input->start_ns[i], START_NS_MAX);
            return TT_ERR_BAD_ARGUMENT;
        }
    }
    return TT_OK;
}

tt_status tt_walk_check_input(const tt_moves_input *input, tt_text *why)
{
    const tt_problem *problem = &input->problem;
    TT_ASSERT(input->fabric != NULL && input->allocator != NULL);
    if (problem->size == 0 || problem->size > input->fabric->config.rank_count) {
        tt_text_add(why, "a call of %u ranks on a fabric of %u: give each rank a place",
                    problem->size, input->fabric->config.rank_count);
        return TT_ERR_BAD_ARGUMENT;
    }
    if (problem->codec != NULL) {
        tt_text_add(why, "a call with a codec: moves know the cost of plain data alone");
        return TT_ERR_UNSUPPORTED;
    }
    TT_TRY(check_problem(problem, why));
    return check_start(input, why);
}
