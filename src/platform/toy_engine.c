/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/toy_engine.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "kernel/dtype.h"
#include "kernel/reduce.h"
#include "platform/local.h"
#include "tutti/tutti.h"

/* An op that some members have launched. */
typedef struct model_op {
    struct model_op *next;
    uint32_t set, size, launched;
    tt_launch *launches; /* [size] by member */
    bool *has_launched;  /* [size] */
    uint32_t *ranks;     /* [size] */
} model_op;

struct tt_toy_engine {
    const tt_platform *platform;
    model_op *ops; /* oldest first */
};

tt_toy_engine *tt_toy_engine_create(const tt_platform *platform)
{
    tt_toy_engine *model = tt_local_take(sizeof(*model));
    model->platform = platform;
    return model;
}

static void op_free(model_op *op)
{
    free(op->launches);
    free(op->has_launched);
    free(op->ranks);
    free(op);
}

void tt_toy_engine_destroy(tt_toy_engine *model)
{
    while (model->ops != NULL) {
        model_op *next = model->ops->next;
        op_free(model->ops);
        model->ops = next;
    }
    free(model);
}

/* ---- running an op ---- */

/* Parts in a member's input, and in its output; 0: it has none. */
static uint32_t input_parts(const tt_launch *launch)
{
    switch (launch->collective) {
    case TUTTI_BROADCAST:
        return launch->self == launch->root ? 1 : 0;
    case TUTTI_SCATTER:
        return launch->self == launch->root ? launch->size : 0;
    case TUTTI_REDUCESCATTER:
    case TUTTI_ALLTOALL:
        return launch->size;
    default:
        return 1;
    }
}

static bool has_output(const tt_launch *launch)
{
    const bool is_rooted = launch->collective == TUTTI_REDUCE || launch->collective == TUTTI_GATHER;
    return !is_rooted || launch->self == launch->root;
}

static void reduce_to(const tt_launch *launch, uint8_t *const *inputs, size_t offset)
{
    memcpy(launch->output, inputs[0] + offset, launch->count * tt_dtype_bytes(launch->dtype));
    for (uint32_t i = 1; i < launch->size; i++) {
        tt_reduce((tt_dtype)launch->dtype, (tt_redop)launch->redop, launch->output, launch->output,
                  inputs[i] + offset, launch->count);
    }
}

static void write_output(const tt_launch *launch, uint8_t *const *inputs)
{
    const size_t bytes = launch->count * tt_dtype_bytes(launch->dtype);
    uint8_t *output = launch->output;
    switch (launch->collective) {
    case TUTTI_ALLREDUCE:
    case TUTTI_REDUCE:
        reduce_to(launch, inputs, 0);
        break;
    case TUTTI_REDUCESCATTER:
        reduce_to(launch, inputs, launch->self * bytes);
        break;
    case TUTTI_BROADCAST:
        memcpy(output, inputs[launch->root], bytes);
        break;
    case TUTTI_SCATTER:
        memcpy(output, inputs[launch->root] + launch->self * bytes, bytes);
        break;
    case TUTTI_ALLGATHER:
    case TUTTI_GATHER:
    case TUTTI_ALLTOALL:
        for (uint32_t i = 0; i < launch->size; i++) {
            const size_t part = launch->collective == TUTTI_ALLTOALL ? launch->self * bytes : 0;
            memcpy(output + i * bytes, inputs[i] + part, bytes);
        }
        break;
    default:
        TT_ASSERT(false);
    }
}

static bool is_phantom(const tt_toy_engine *model, const model_op *op)
{
    bool is_one = false;
    for (uint32_t i = 0; i < op->size && !is_one; i++) {
        is_one = tt_has_phantom(model->platform, op->launches[i].input, op->launches[i].output);
    }
    return is_one;
}

/* Inputs are copied before anything is written: outputs may overlap them. */
static void run(const model_op *op)
{
    uint8_t **inputs = tt_local_take(op->size * sizeof(*inputs));
    for (uint32_t i = 0; i < op->size; i++) {
        const tt_launch *launch = &op->launches[i];
        const size_t bytes = input_parts(launch) * launch->count * tt_dtype_bytes(launch->dtype);
        inputs[i] = tt_local_take(bytes + 1);
        if (bytes > 0) {
            memcpy(inputs[i], launch->input, bytes);
        }
    }
    for (uint32_t i = 0; i < op->size; i++) {
        if (has_output(&op->launches[i])) {
            write_output(&op->launches[i], inputs);
        }
    }
    for (uint32_t i = 0; i < op->size; i++) {
        free(inputs[i]);
    }
    free(inputs);
}

/* ---- launching ---- */

/* The oldest op of the set that this member has not launched. */
static model_op *op_for(tt_toy_engine *model, const tt_launch *launch)
{
    model_op **link = &model->ops;
    for (; *link != NULL; link = &(*link)->next) {
        if ((*link)->set == launch->set && !(*link)->has_launched[launch->self]) {
            return *link;
        }
    }
    model_op *op = tt_local_take(sizeof(*op));
    op->set = launch->set;
    op->size = launch->size;
    op->launches = tt_local_take(launch->size * sizeof(*op->launches));
    op->has_launched = tt_local_take(launch->size * sizeof(*op->has_launched));
    op->ranks = tt_local_take(launch->size * sizeof(*op->ranks));
    *link = op;
    return op;
}

static void check_same(const tt_launch *a, const tt_launch *b)
{
    TT_ASSERT(a->size == b->size && a->collective == b->collective && a->dtype == b->dtype);
    TT_ASSERT(a->redop == b->redop && a->root == b->root && a->count == b->count);
    TT_ASSERT(a->may_block == b->may_block);
}

uint32_t tt_toy_engine_launch(tt_toy_engine *model, uint32_t rank, const tt_launch *launch,
                              tt_toy_engine_landing *landings_out)
{
    TT_ASSERT(launch->self < launch->size);
    model_op *op = op_for(model, launch);
    op->launches[launch->self] = *launch;
    op->has_launched[launch->self] = true;
    op->ranks[launch->self] = rank;
    if (++op->launched < op->size) {
        return 0;
    }
    for (uint32_t i = 0; i < op->size; i++) {
        check_same(&op->launches[0], &op->launches[i]);
        landings_out[i] =
            (tt_toy_engine_landing){.rank = op->ranks[i], .token = op->launches[i].token};
    }
    if (!is_phantom(model, op)) {
        run(op);
    }
    model_op **link = &model->ops;
    while (*link != op) {
        link = &(*link)->next;
    }
    *link = op->next;
    const uint32_t count = op->size;
    op_free(op);
    return count;
}
