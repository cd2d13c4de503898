/* SPDX-License-Identifier: Apache-2.0
 *
 * programs.c - see programs.h. The oracle takes the steps of a program literally, one rank and one
 * operation after the other. */
#include "conformance/programs.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "kernel/reduce.h"

static void add_input(const tt_exec *exec, uint64_t first, uint64_t bytes)
{
    const tt_problem *problem = &exec->stage->problem;
    uint8_t *to = exec->output + first;
    TT_ASSERT(bytes > 0 && first + bytes <= problem->bytes);
    tt_reduce(problem->dtype, TT_SUM, to, to, exec->input + first, bytes / problem->element_bytes);
}

#define EXCHANGE(op, source, target)                                               \
    {                                                                              \
        .kind = TT_STAGE_EXCHANGE, .redop = (op), .from = (source), .to = (target) \
    }

const tt_program program_max_sum = {
    .number = 1,
    .step_count = 3,
    .steps = {EXCHANGE(TT_MAX, TT_RUN_INPUT, TT_RUN_WORK),
              {.kind = TT_STAGE_LOCAL, .from = TT_RUN_INPUT, .to = TT_RUN_WORK, .local = add_input},
              EXCHANGE(TT_SUM, TT_RUN_WORK, TT_RUN_OUTPUT)},
};

const tt_program program_two_sums = {
    .number = 2,
    .step_count = 2,
    .steps = {EXCHANGE(TT_SUM, TT_RUN_INPUT, TT_RUN_OUTPUT),
              EXCHANGE(TT_SUM, TT_RUN_OUTPUT, TT_RUN_OUTPUT)},
};

#define MAX_AGAIN EXCHANGE(TT_MAX, TT_RUN_WORK, TT_RUN_WORK)

const tt_program program_max_often = {
    .number = 3,
    .step_count = TT_STAGES_MAX,
    .steps = {EXCHANGE(TT_MAX, TT_RUN_INPUT, TT_RUN_WORK), MAX_AGAIN, MAX_AGAIN, MAX_AGAIN,
              MAX_AGAIN, MAX_AGAIN, MAX_AGAIN, MAX_AGAIN, MAX_AGAIN, MAX_AGAIN, MAX_AGAIN,
              MAX_AGAIN, MAX_AGAIN, MAX_AGAIN, MAX_AGAIN,
              EXCHANGE(TT_MAX, TT_RUN_WORK, TT_RUN_OUTPUT)},
};

const char *program_name(const tt_program *program)
{
    static const char *const names[] = {"", "max then sum", "two sums", "max often"};
    TT_ASSERT(program->number < sizeof(names) / sizeof(names[0]));
    return names[program->number];
}

/* Of all ranks' vectors; it replaces each of them. */
static void combine(const program_oracle *what, tt_redop redop, uint8_t *const *vectors)
{
    const size_t bytes = what->count * tt_dtype_bytes(what->dtype);
    for (uint32_t i = 1; i < what->size; i++) {
        tt_reduce(what->dtype, redop, vectors[0], vectors[0], vectors[i], what->count);
    }
    for (uint32_t i = 1; i < what->size; i++) {
        memcpy(vectors[i], vectors[0], bytes);
    }
}

enum { ORACLE_SIZE_MAX = 16 };

void program_expect(const program_oracle *what, const void *const *inputs, void *output)
{
    const size_t bytes = what->count * tt_dtype_bytes(what->dtype);
    uint8_t *vectors[ORACLE_SIZE_MAX], *scaled[ORACLE_SIZE_MAX];
    if (bytes == 0) {
        return;
    }
    TT_ASSERT(what->size <= ORACLE_SIZE_MAX);
    uint8_t *memory = malloc(2 * what->size * bytes);
    TT_ASSERT(memory != NULL);
    for (uint32_t i = 0; i < what->size; i++) {
        vectors[i] = memory + 2 * i * bytes;
        scaled[i] = vectors[i] + bytes;
        tt_scale(what->dtype, scaled[i], inputs[i], what->count, what->prescale);
        memcpy(vectors[i], scaled[i], bytes);
    }
    for (uint32_t i = 0; i < what->program->step_count; i++) {
        const tt_program_step *step = &what->program->steps[i];
        if (step->kind == TT_STAGE_EXCHANGE) {
            combine(what, step->redop, vectors);
        }
        for (uint32_t rank = 0; step->kind == TT_STAGE_LOCAL && rank < what->size; rank++) {
            tt_reduce(what->dtype, TT_SUM, vectors[rank], vectors[rank], scaled[rank], what->count);
        }
    }
    tt_scale(what->dtype, output, vectors[0], what->count, what->postscale);
    free(memory);
}
