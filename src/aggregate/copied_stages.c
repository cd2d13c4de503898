/* SPDX-License-Identifier: Apache-2.0
 *
 * copied_stages.c - see copied_stages.h.
 *
 *   LOCAL     the input (of a broadcast the root's), coded
 *   EXCHANGE  allgather or broadcast of the wire bytes
 *   LOCAL     all of them, decoded to the output
 *
 * Work memory of a run: this rank's wire bytes, then those of all members. A broadcast has one part
 * only, in place.
 *
 * Steps of the last stage are cut anywhere in the output, parts of members are coded from their own
 * beginning on: a step does the blocks that begin in it.
 */
#include "aggregate/copied_stages.h"

#include "aggregate/code_ranges.h"
#include "base/assert.h"
#include "base/base.h"
#include "codec/codec.h"

enum { PARTS_ALIGN = 64 };

bool tt_copied_fits(const tt_problem *problem)
{
    return problem->codec != NULL &&
           (problem->collective == TT_ALLGATHER || problem->collective == TT_BROADCAST);
}

static bool is_gather(const tt_problem *problem)
{
    return problem->collective == TT_ALLGATHER;
}

static uint64_t part_count(const tt_problem *problem)
{
    return is_gather(problem) ? problem->size : 1;
}

/* ---- work on a range ---- */

static void encode(const tt_exec *exec, tt_range some, tt_range_finding *found)
{
    const tt_problem *problem = &exec->stage->problem;
    const tt_codec_source source = {
        .values = exec->input + some.first * problem->element_bytes,
        .dtype = problem->dtype,
        .factor = 1.0f,
        .first = some.first,
        .count = some.count,
        .draw = exec->coding->draw,
    };
    found->uncoded += tt_codec_encode(
        problem->codec, &source, exec->output + tt_codec_wire_bytes(problem->codec, some.first));
}

/* Blocks [from, to) of a member's part. */
static void decode_blocks(const tt_exec *exec, uint32_t part, uint64_t from, uint64_t to,
                          tt_range_finding *found)
{
    const tt_problem *problem = &exec->stage->problem;
    const tt_codec_spec *codec = problem->codec;
    const uint64_t elements = problem->bytes / problem->element_bytes / part_count(problem);
    const uint64_t first = from * codec->block, end = tt_min_u64(to * codec->block, elements);
    const uint8_t *wire = exec->input + part * tt_codec_wire_bytes(codec, elements) +
                          tt_codec_wire_bytes(codec, first);
    const size_t count = end - first;
    const uint32_t member = is_gather(problem) ? part : problem->root;
    TT_DEBUG_ASSERT(from < to && first < end);
    if (tt_codec_check(codec, wire, tt_codec_wire_bytes(codec, count), count) != TT_OK) {
        found->culprit = member + 1;
        return;
    }
    const tt_codec_target target = {
        .values = exec->output + (part * elements + first) * problem->element_bytes,
        .dtype = problem->dtype,
        .factor = 1.0f,
        .count = count,
    };
    tt_codec_decode(codec, wire, &target);
}

static void decode(const tt_exec *exec, tt_range some, tt_range_finding *found)
{
    const tt_problem *problem = &exec->stage->problem;
    const uint64_t elements = problem->bytes / problem->element_bytes / part_count(problem);
    const uint64_t block = problem->codec->block, end = some.first + some.count;
    for (uint64_t part = some.first / elements; part * elements < end; part++) {
        const uint64_t begin = part * elements;
        const uint64_t first = some.first > begin ? some.first - begin : 0;
        const uint64_t last = tt_min_u64(end - begin, elements);
        const uint64_t from = (first + block - 1) / block, to = (last + block - 1) / block;
        if (from < to) {
            decode_blocks(exec, (uint32_t)part, from, to, found);
        }
    }
}

static void encode_local(const tt_exec *exec, uint64_t first, uint64_t bytes)
{
    tt_code_ranges(exec, first, bytes, encode);
}

static void decode_local(const tt_exec *exec, uint64_t first, uint64_t bytes)
{
    tt_code_ranges(exec, first, bytes, decode);
}

/* ---- the stages ---- */

static tt_stage exchange(const tt_program_input *input, uint64_t wire_bytes)
{
    tt_stage stage = tt_stage_local(&input->problem, TT_RUN_WORK, TT_RUN_WORK, NULL);
    stage.problem.is_in_place = !is_gather(&stage.problem);
    tt_stage_exchange_work(&stage, input, TT_U8, wire_bytes);
    return stage;
}

uint32_t tt_copied_build(const tt_program_input *input, tt_stage *stages)
{
    const tt_problem *problem = &input->problem;
    const uint64_t elements = problem->bytes / problem->element_bytes;
    const uint64_t wire_bytes = tt_codec_wire_bytes(problem->codec, elements);
    const uint64_t own_bytes = is_gather(problem) ? tt_round_up(wire_bytes, PARTS_ALIGN) : 0;
    TT_ASSERT(tt_copied_fits(problem) && !problem->is_uneven);
    stages[0] = tt_stage_local(problem, TT_RUN_INPUT, TT_RUN_WORK, encode_local);
    if (!is_gather(problem) && problem->self != problem->root) {
        stages[0].problem.bytes = 0;
    }
    stages[1] = exchange(input, wire_bytes);
    stages[2] = tt_stage_local(problem, TT_RUN_WORK, TT_RUN_OUTPUT, decode_local);
    stages[2].problem.bytes = problem->bytes * part_count(problem);
    stages[1].to_offset = stages[2].from_offset = own_bytes;
    for (uint32_t i = 0; i < 3; i++) {
        stages[i].work_bytes = own_bytes + wire_bytes * part_count(problem);
    }
    return 3;
}
