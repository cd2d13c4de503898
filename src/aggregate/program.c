/* SPDX-License-Identifier: Apache-2.0
 *
 * program.c - the stages of a call; see stage.h. */
#include "aggregate/copied_stages.h"
#include "aggregate/flow.h"
#include "aggregate/stage.h"
#include "aggregate/summed_stages.h"
#include "base/assert.h"

enum { FLAT_MEMBERS_MAX = 64 }; /* one word of bits */

static bool runs_flat(const tt_stage *stage)
{
    const tt_plan *plan = &stage->plan;
    const uint32_t size = stage->problem.size;
    return plan->is_flat && stage->is_eager && plan->lane_count == 1 && size >= 2 &&
           size <= FLAT_MEMBERS_MAX;
}

void tt_stage_plan(tt_stage *stage, uint32_t eager_bytes_max)
{
    const tt_problem *problem = &stage->problem;
    TT_ASSERT(stage->algorithm != NULL && stage->algorithm->fits(problem));
    stage->algorithm->plan(problem, &stage->plan);
    TT_ASSERT(stage->plan.lane_count > 0 && stage->plan.round_count > 0);
    stage->is_eager = stage->plan.frame_bytes <= eager_bytes_max;
    const bool is_flat = runs_flat(stage);
    const bool is_sum = is_flat && problem->collective == TT_ALLREDUCE && problem->bytes > 0;
    stage->executor = is_flat ? &tt_executor_flat : &tt_executor_lanes;
    stage->fold = is_sum ? tt_reduce_find(problem->dtype, problem->redop) : NULL;
    stage->fold_count = is_sum ? problem->bytes / problem->element_bytes : 0;
}

tt_stage tt_stage_local(const tt_problem *problem, tt_stage_buffer from, tt_stage_buffer to,
                        tt_local_fn *local)
{
    return (tt_stage){.kind = TT_STAGE_LOCAL,
                      .from = (uint8_t)from,
                      .to = (uint8_t)to,
                      .executor = &tt_executor_local,
                      .problem = *problem,
                      .local = local};
}

void tt_stage_exchange_work(tt_stage *stage, const tt_program_input *input, tt_dtype dtype,
                            uint64_t count)
{
    tt_problem *problem = &stage->problem;
    TT_ASSERT(stage->from == TT_RUN_WORK && stage->to == TT_RUN_WORK);
    problem->dtype = dtype;
    problem->element_bytes = (uint32_t)tt_dtype_bytes(dtype);
    problem->bytes = count * problem->element_bytes;
    problem->postscale = 1.0;
    problem->is_steady = false;
    problem->topology = NULL;
    problem->codec = NULL;
    stage->kind = TT_STAGE_EXCHANGE;
    stage->algorithm = tt_algorithm_choose(problem, input->preferred);
    TT_ASSERT(!stage->algorithm->needs_facts);
    tt_stage_plan(stage, input->eager_bytes_max);
}

static tt_stage exchange(const tt_program_input *input, const tt_problem *problem)
{
    return (tt_stage){.kind = TT_STAGE_EXCHANGE,
                      .from = TT_RUN_INPUT,
                      .to = TT_RUN_OUTPUT,
                      .problem = *problem,
                      .algorithm = tt_algorithm_choose(problem, input->preferred)};
}

/* A short exchange about the call: bytes are gathered or scattered directly. */
static tt_stage about(const tt_program_input *input, tt_stage_kind kind, tt_collective collective,
                      uint64_t bytes)
{
    tt_stage stage = {.kind = (uint8_t)kind, .from = TT_RUN_NONE, .to = TT_RUN_NONE};
    stage.problem = input->problem;
    stage.problem.collective = collective;
    stage.problem.dtype = TT_U8;
    stage.problem.element_bytes = 1;
    stage.problem.bytes = bytes;
    stage.problem.is_uneven = stage.problem.is_in_place = stage.problem.is_steady = false;
    stage.problem.codec = NULL;
    stage.algorithm = tt_algorithm_choose(&stage.problem, "pairwise");
    tt_stage_plan(&stage, input->eager_bytes_max);
    return stage;
}

/* Each member has its own count, or for all-to-all and scatter one per receiver. */
static tt_stage counts(const tt_program_input *input)
{
    const tt_collective collective = input->problem.collective;
    const bool is_dealt = collective == TT_ALLTOALL || collective == TT_SCATTER;
    return about(input, TT_STAGE_COUNTS, is_dealt ? collective : TT_ALLGATHER, sizeof(uint64_t));
}

static uint32_t build_engine(const tt_program_input *input, tt_stage *stages)
{
    tt_stage *agree = &stages[0], *launch = &stages[1];
    *agree = (tt_stage){.kind = TT_STAGE_AGREE, .from = TT_RUN_NONE, .to = TT_RUN_NONE};
    agree->problem = (tt_problem){
        .collective = TT_ALLREDUCE,
        .dtype = TT_U8,
        .redop = TT_AND,
        .self = input->problem.self,
        .size = input->problem.size,
        .element_bytes = 1,
        .segment_bytes = input->problem.segment_bytes,
        .bytes = 1,
        .postscale = 1.0,
        .topology = input->problem.topology,
    };
    agree->algorithm = tt_algorithm_choose(&agree->problem, NULL);
    TT_ASSERT(!agree->algorithm->needs_facts);
    tt_stage_plan(agree, input->eager_bytes_max);
    *launch = (tt_stage){.kind = TT_STAGE_LAUNCH,
                         .from = TT_RUN_INPUT,
                         .to = TT_RUN_OUTPUT,
                         .problem = input->problem};
    return 2;
}

/* Index of the last step that exchanges; step_count: none does. */
static uint32_t last_exchange(const tt_program *program)
{
    uint32_t last = program->step_count;
    for (uint32_t i = 0; i < program->step_count; i++) {
        last = program->steps[i].kind == TT_STAGE_EXCHANGE ? i : last;
    }
    return last;
}

/* Steps of a program work on private memory: no algorithm that needs shared memory. The result is
 * scaled once, in the last exchange. */
static uint32_t build_steps(const tt_program_input *input, tt_stage *stages)
{
    const tt_program *program = input->program;
    const uint32_t last = last_exchange(program);
    TT_ASSERT(program->step_count > 0 && program->step_count <= TT_STAGES_MAX);
    TT_ASSERT(input->problem.collective == TT_ALLREDUCE);
    for (uint32_t i = 0; i < program->step_count; i++) {
        const tt_program_step *step = &program->steps[i];
        tt_problem problem = input->problem;
        problem.redop = step->redop;
        problem.is_in_place = step->from == step->to;
        problem.postscale = i == last ? problem.postscale : 1.0;
        problem.topology = NULL;
        stages[i] = (tt_stage){.kind = (uint8_t)step->kind,
                               .from = (uint8_t)step->from,
                               .to = (uint8_t)step->to,
                               .work_bytes = problem.bytes,
                               .problem = problem,
                               .local = step->local};
        if (step->kind == TT_STAGE_LOCAL) {
            stages[i].executor = &tt_executor_local;
            continue;
        }
        stages[i].algorithm = tt_algorithm_choose(&problem, input->preferred);
        TT_ASSERT(!stages[i].algorithm->needs_facts);
        tt_stage_plan(&stages[i], input->eager_bytes_max);
    }
    return program->step_count;
}

uint32_t tt_program_build(const tt_program_input *input, tt_stage stages[TT_STAGES_MAX])
{
    uint32_t count = 0;
    TT_ASSERT(input->problem.facts == NULL && input->problem.part_offsets == NULL);
    TT_ASSERT(input->problem.codec == NULL || (!input->by_engine && input->program == NULL));
    if (input->by_engine) {
        return build_engine(input, stages);
    }
    if (input->program != NULL) {
        return build_steps(input, stages);
    }
    if (tt_summed_fits(&input->problem)) {
        return tt_summed_build(input, stages);
    }
    if (tt_copied_fits(&input->problem)) {
        return tt_copied_build(input, stages);
    }
    tt_stage data = exchange(input, &input->problem);
    const bool has_places = data.algorithm->needs_facts;
    data.is_late = has_places || input->problem.is_uneven;
    if (input->exchanges_counts) {
        TT_ASSERT(!has_places); /* lengths are known to their rank only */
        stages[count++] = counts(input);
    } else if (has_places) {
        stages[count++] = about(input, TT_STAGE_PLACES, TT_ALLGATHER, sizeof(tt_fact));
    }
    if (!input->problem.is_uneven) { /* before facts are known, the staged plan */
        tt_stage_plan(&data, input->eager_bytes_max);
    }
    stages[count++] = data;
    return count;
}
