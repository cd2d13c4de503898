/* SPDX-License-Identifier: Apache-2.0
 *
 * named_step.c - see named_step.h. */
#include "sim/machines/named_step.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/assert.h"
#include "base/base.h"

enum { NAME_BYTES = 32 };

/* A step as calls. */
typedef struct room {
    size_t tensors, ranks;
    tt_machines_call *calls; /* [tensors] */
    char (*names)[NAME_BYTES];
    uint64_t *start_ns; /* [tensors][ranks] */
    uint64_t *done_ns;  /* likewise */
} room;

static bool room_take(room *it, const tt_allocator *allocator)
{
    const size_t count = it->tensors * it->ranks;
    it->calls = tt_allocate(allocator, it->tensors, sizeof(*it->calls));
    it->names = tt_allocate(allocator, it->tensors, sizeof(*it->names));
    it->start_ns = tt_allocate(allocator, count, sizeof(*it->start_ns));
    it->done_ns = tt_allocate(allocator, count, sizeof(*it->done_ns));
    return it->calls != NULL && it->names != NULL && it->start_ns != NULL && it->done_ns != NULL;
}

static void room_release(room *it, const tt_allocator *allocator)
{
    const size_t count = it->tensors * it->ranks;
    tt_release(allocator, it->calls, it->tensors, sizeof(*it->calls));
    tt_release(allocator, it->names, it->tensors, sizeof(*it->names));
    tt_release(allocator, it->start_ns, count, sizeof(*it->start_ns));
    tt_release(allocator, it->done_ns, count, sizeof(*it->done_ns));
}

/* Tensors that are used before it. */
static int32_t place_in_use(const tt_workload *workload, size_t index)
{
    int32_t before = 0;
    for (size_t i = 0; i < workload->tensor_count; i++) {
        before += workload->tensors[i].first_use_us < workload->tensors[index].first_use_us ? 1 : 0;
    }
    return before;
}

static void make_calls(room *it, const tt_named_step *step)
{
    for (size_t i = 0; i < it->tensors; i++) {
        const tt_tensor *tensor = &step->workload->tensors[i];
        (void)snprintf(it->names[i], NAME_BYTES, "tensor %zu", i); /* theirs may be alike */
        for (size_t rank = 0; rank < it->ranks; rank++) {
            const double pace = step->paces != NULL ? step->paces[rank] : 1;
            it->start_ns[i * it->ranks + rank] = (uint64_t)(tensor->ready_us * pace * 1e3);
        }
        it->calls[i] = (tt_machines_call){
            .collective = TT_ALLREDUCE,
            .dtype = TT_F32,
            .redop = TT_SUM,
            .count = (tensor->bytes + sizeof(float) - 1) / sizeof(float),
            .urgency = -place_in_use(step->workload, i),
            .name = it->names[i],
            .start_ns = &it->start_ns[i * it->ranks],
            .done_ns = &it->done_ns[i * it->ranks],
        };
    }
}

static tt_named_step_result result_of(const room *it, const tt_named_step *step,
                                      const tt_machines_result *run)
{
    tt_named_step_result result = {.run = *run};
    const double compute_us = tt_workload_compute_us(step->workload);
    for (size_t rank = 0; rank < it->ranks; rank++) {
        const double pace = step->paces != NULL ? step->paces[rank] : 1;
        result.computed_ns = tt_max_u64(result.computed_ns, (uint64_t)(compute_us * pace * 1e3));
    }
    result.exposed_ns = tt_elapsed_ns(run->end_ns, result.computed_ns);
    for (size_t i = 0; step->done_ns != NULL && i < it->tensors; i++) {
        step->done_ns[i] = 0;
        for (size_t rank = 0; rank < it->ranks; rank++) {
            step->done_ns[i] = tt_max_u64(step->done_ns[i], it->done_ns[i * it->ranks + rank]);
        }
    }
    return result;
}

static tt_status check_paces(const room *it, const tt_named_step *step, tt_text *why)
{
    for (size_t rank = 0; step->paces != NULL && rank < it->ranks; rank++) {
        if (!(step->paces[rank] > 0 && step->paces[rank] <= 1000)) {
            tt_text_add(why, "rank %zu computes %g times as long: give more than 0, at most 1000",
                        rank, step->paces[rank]);
            return TT_ERR_BAD_ARGUMENT;
        }
    }
    return TT_OK;
}

tt_status tt_named_step_run(tt_machines *machines, const tt_named_step *step, tt_text *why,
                            tt_named_step_result *result_out)
{
    const tt_machines_config *config = tt_machines_config_of(machines);
    room it = {.tensors = step->workload->tensor_count, .ranks = config->fabric.rank_count};
    tt_machines_result run;
    TT_TRY(tt_workload_check(step->workload, why));
    TT_TRY(check_paces(&it, step, why));
    tt_status status = TT_ERR_NO_MEMORY;
    if (room_take(&it, config->allocator)) {
        make_calls(&it, step);
        status = tt_machines_run(machines, it.calls, it.tensors, why, &run);
    } else {
        tt_text_add(why, "%zu tensors of %zu ranks: no memory; give fewer of them", it.tensors,
                    it.ranks);
    }
    if (status == TT_OK) {
        *result_out = result_of(&it, step, &run);
    }
    room_release(&it, config->allocator);
    return status;
}
