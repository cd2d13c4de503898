/* SPDX-License-Identifier: Apache-2.0
 *
 * summed_stages.c - all-reduce with a codec whose levels are added as they are.
 *
 *   LOCAL     the scales of this rank's blocks, from the input
 *   EXCHANGE  MAX of the scales, f32: NaN wins, and infinity is the largest
 *   LOCAL     levels of the input in units of the shared scales; the new residual
 *   EXCHANGE  SUM of the levels, i8: integers, so that no bit depends on the algorithm
 *   LOCAL     sums to values: divided, scaled, rounded to the output
 *
 * Work memory of a run: scales, one for each block, then levels, one for each element. Both are
 * exchanged in place. It is in no arena, so that no algorithm that needs places of buffers fits.
 *
 * A single rank codes nothing: one LOCAL stage adds its residual.
 *
 * What a block becomes depends on its elements alone: bits are the same for any budget and number
 * of hands.
 */
#include "aggregate/summed_stages.h"

#include <string.h>

#include "aggregate/code_ranges.h"
#include "aggregate/exec_internal.h"
#include "base/assert.h"
#include "base/base.h"
#include "codec/codec.h"

enum { LEVELS_ALIGN = 64, CHUNK = TT_CODEC_BLOCK_MAX };

bool tt_summed_fits(const tt_problem *problem)
{
    return problem->codec != NULL && problem->collective == TT_ALLREDUCE &&
           (tt_codec_traits(problem->codec) & TT_CODEC_SUMMABLE) != 0;
}

static uint64_t element_count(const tt_problem *problem)
{
    return problem->bytes / problem->element_bytes;
}

/* Where levels begin in the work memory. */
static uint64_t levels_offset(const tt_problem *problem)
{
    const uint64_t blocks = tt_codec_block_count(problem->codec, element_count(problem));
    return tt_round_up(blocks * sizeof(float), LEVELS_ALIGN);
}

/* ---- work on a range ---- */

static tt_codec_source source_of(const tt_exec *exec, tt_range some)
{
    const tt_problem *problem = &exec->stage->problem;
    const tt_coding *coding = exec->coding;
    return (tt_codec_source){
        .values = exec->input + some.first * problem->element_bytes,
        .dtype = problem->dtype,
        .factor = coding->factor,
        .first = some.first,
        .count = some.count,
        .residual = coding->residual != NULL ? coding->residual + some.first : NULL,
        .residual_out = coding->residual_out != NULL ? coding->residual_out + some.first : NULL,
        .draw = coding->draw,
    };
}

static tt_codec_target target_of(const tt_exec *exec, tt_range some)
{
    const tt_problem *problem = &exec->stage->problem;
    TT_DEBUG_ASSERT(exec->divisor > 0);
    return (tt_codec_target){
        .values = exec->output + some.first * problem->element_bytes,
        .dtype = problem->dtype,
        .factor = (float)(problem->postscale / exec->divisor),
        .count = some.count,
    };
}

/* The scales of a range, in the work memory. */
static tt_codec_shared shared_of(const tt_exec *exec, const uint8_t *work, tt_range some)
{
    const tt_problem *problem = &exec->stage->problem;
    TT_DEBUG_ASSERT(some.first % problem->codec->block == 0);
    return (tt_codec_shared){
        .scales = (const float *)(const void *)work + some.first / problem->codec->block,
        .ranks = problem->size,
    };
}

static void make_scales(const tt_exec *exec, tt_range some, tt_range_finding *found)
{
    const tt_codec_spec *codec = exec->stage->problem.codec;
    const tt_codec_source source = source_of(exec, some);
    (void)found;
    tt_codec_scales(codec, &source, (float *)(void *)exec->output + some.first / codec->block);
}

static void make_levels(const tt_exec *exec, tt_range some, tt_range_finding *found)
{
    const tt_problem *problem = &exec->stage->problem;
    const tt_codec_source source = source_of(exec, some);
    const tt_codec_shared shared = shared_of(exec, exec->output, some);
    found->uncoded += tt_codec_levels(problem->codec, &source, &shared,
                                      exec->output + levels_offset(problem) + some.first);
}

static void decode_sums(const tt_exec *exec, tt_range some, tt_range_finding *found)
{
    const tt_problem *problem = &exec->stage->problem;
    const tt_codec_target target = target_of(exec, some);
    const tt_codec_shared shared = shared_of(exec, exec->input, some);
    (void)found;
    tt_codec_decode_sums(problem->codec, exec->input + levels_offset(problem) + some.first, &shared,
                         &target);
}

static void pass_alone(const tt_exec *exec, tt_range some, tt_range_finding *found)
{
    float values[CHUNK];
    (void)found;
    for (const uint64_t end = some.first + some.count; some.first < end; some.first += some.count) {
        some.count = tt_min_u64(CHUNK, end - some.first);
        const tt_codec_source source = source_of(exec, some);
        const tt_codec_target target = target_of(exec, some);
        tt_codec_load(&source, values);
        tt_codec_store(values, &target);
        if (source.residual_out != NULL) {
            memset(source.residual_out, 0, some.count * sizeof(float));
        }
    }
}

/* ---- steps ---- */

static void scales_local(const tt_exec *exec, uint64_t first, uint64_t bytes)
{
    tt_code_ranges(exec, first, bytes, make_scales);
}

static void levels_local(const tt_exec *exec, uint64_t first, uint64_t bytes)
{
    tt_code_ranges(exec, first, bytes, make_levels);
}

static void decode_local(const tt_exec *exec, uint64_t first, uint64_t bytes)
{
    tt_code_ranges(exec, first, bytes, decode_sums);
}

static void alone_local(const tt_exec *exec, uint64_t first, uint64_t bytes)
{
    tt_code_ranges(exec, first, bytes, pass_alone);
}

/* ---- the stages ---- */

static tt_stage local(const tt_problem *problem, tt_stage_buffer from, tt_stage_buffer to,
                      tt_local_fn *work)
{
    tt_stage stage = tt_stage_local(problem, from, to, work);
    stage.work_bytes = levels_offset(problem) + element_count(problem);
    return stage;
}

/* Of `count` elements of the work memory, in place. Their results have the same bits in any order
 * of ranks, so that nothing is required of the order. */
static tt_stage exchange(const tt_program_input *input, tt_dtype dtype, tt_redop redop,
                         uint64_t count)
{
    tt_stage stage = local(&input->problem, TT_RUN_WORK, TT_RUN_WORK, NULL);
    stage.problem.redop = redop;
    stage.problem.is_in_place = true;
    tt_stage_exchange_work(&stage, input, dtype, count);
    return stage;
}

uint32_t tt_summed_build(const tt_program_input *input, tt_stage *stages)
{
    const tt_problem *problem = &input->problem;
    const uint64_t elements = element_count(problem);
    TT_ASSERT(tt_summed_fits(problem) && problem->size <= TT_CODEC_RANKS_MAX);
    TT_ASSERT(problem->redop == TT_SUM || problem->redop == TT_AVERAGE);
    TT_ASSERT(problem->dtype == TT_F32 || problem->dtype == TT_F16 || problem->dtype == TT_BF16);
    if (problem->size == 1) {
        stages[0] = local(problem, TT_RUN_INPUT, TT_RUN_OUTPUT, alone_local);
        return 1;
    }
    stages[0] = local(problem, TT_RUN_INPUT, TT_RUN_WORK, scales_local);
    stages[1] = exchange(input, TT_F32, TT_MAX, tt_codec_block_count(problem->codec, elements));
    stages[2] = local(problem, TT_RUN_INPUT, TT_RUN_WORK, levels_local);
    stages[3] = exchange(input, TT_I8, TT_SUM, elements);
    stages[3].from_offset = stages[3].to_offset = levels_offset(problem);
    stages[4] = local(problem, TT_RUN_WORK, TT_RUN_OUTPUT, decode_local);
    return 5;
}
