/* SPDX-License-Identifier: Apache-2.0
 *
 * strategies.c - the table of strategies; see strategy.h. */
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "sim/strategy/launch_times.h"
#include "sim/strategy/strategy.h"

enum {
    KIB = 1024,
    MIB = 1024 * KIB,
    FUSE_BYTES = 64 * KIB,        /* TUTTI_FUSE */
    CHUNKS_IN_FLIGHT = 4,         /* links have a bounded number of frames under way */
    DDP_BYTES = 25 * MIB,         /* bucket_cap_mb */
    DDP_FIRST_BYTES = 1 * MIB,    /* dist._DEFAULT_FIRST_BUCKET_BYTES */
    TF_PACK_BYTES = 50 * 1000000, /* bytes_per_pack, as TensorFlow's documents set it */
};

/* ---- tutti ---- */

/* Priority of tensors that are exchanged as one: that of the one used first. */
static uint32_t first_place(const uint32_t *places, const uint32_t *tensors, uint32_t count)
{
    uint32_t first = places[tensors[0]];
    for (uint32_t i = 1; i < count; i++) {
        first = places[tensors[i]] < first ? places[tensors[i]] : first;
    }
    return first;
}

/* Planned tensors start when they are ready, without a message. Small ones that are ready one after
 * the other are fused: a batch is closed when it is full. */
static tt_status tutti_fill(const tt_strategy_settings *settings, const uint32_t *places,
                            tt_timetable *plan)
{
    const uint32_t count = (uint32_t)plan->workload->tensor_count;
    const uint64_t fuse_bytes = settings->fuse_bytes > 0 ? settings->fuse_bytes : FUSE_BYTES;
    const uint32_t *order = tt_workload_by_ready(plan->workload, &plan->scratch);
    uint32_t *batch = tt_scratch_take(&plan->scratch, count, sizeof(*batch));
    TT_TRY(tt_scratch_status(&plan->scratch));
    uint32_t batched = 0;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t own_bytes = plan->workload->tensors[order[i]].bytes;
        if (own_bytes > fuse_bytes) {
            (void)tt_plan_exchange(plan, &order[i], 1, places[order[i]]);
            continue;
        }
        if (batched > 0 && bytes + own_bytes > fuse_bytes) {
            (void)tt_plan_exchange(plan, batch, batched, first_place(places, batch, batched));
            batched = 0;
            bytes = 0;
        }
        batch[batched++] = order[i];
        bytes += own_bytes;
    }
    if (batched > 0) {
        (void)tt_plan_exchange(plan, batch, batched, first_place(places, batch, batched));
    }
    return TT_OK;
}

static tt_status tutti_plan(const tt_strategy_settings *settings, const tt_wire *wire,
                            tt_timetable *plan)
{
    const tt_policy_input input = {.workload = plan->workload,
                                   .wire = *wire,
                                   .chunk_bytes = settings->chunk_bytes,
                                   .credit_bytes = settings->credit_bytes};
    uint32_t *places;
    TT_TRY(tt_plan_use_places(plan->workload, &plan->scratch, &places));
    tt_policy_set_limits(&input, plan);
    plan->keeps_barrier = !settings->crosses_steps;
    return tutti_fill(settings, places, plan);
}

static const tt_strategy tutti = {
    .name = "tutti",
    .summary = "planned tensors by first use, in chunks; small ones fused",
    .source = "docs/scheduling.md",
    .overlaps = true,
    .can_cross = true,
    .takes_credit = true,
    .takes_fuse = true,
    .plan = tutti_plan,
};

/* ---- others ---- */

static tt_status ddp_plan(const tt_strategy_settings *settings, const tt_wire *wire,
                          tt_timetable *plan)
{
    const uint64_t bytes = settings->chunk_bytes > 0 ? settings->chunk_bytes : DDP_BYTES;
    const tt_bucket_rule rule = {.first_bytes = tt_min_u64(bytes, DDP_FIRST_BYTES), .bytes = bytes};
    (void)wire;
    plan->keeps_barrier = true;
    return tt_launch_in_order(&rule, plan);
}

static const tt_strategy ddp = {
    .name = "ddp",
    .summary = "torch DDP: buckets of 25 MiB, the first of 1 MiB, launched in one order",
    .source = "PyTorch, docs/source/notes/ddp.rst and reducer.cpp",
    .plan = ddp_plan,
};

static tt_status tf_plan(const tt_strategy_settings *settings, const tt_wire *wire,
                         tt_timetable *plan)
{
    const uint64_t bytes = settings->chunk_bytes > 0 ? settings->chunk_bytes : TF_PACK_BYTES;
    const tt_bucket_rule rule = {.first_bytes = bytes, .bytes = bytes};
    (void)wire;
    plan->keeps_barrier = true;
    return tt_launch_in_order(&rule, plan);
}

static const tt_strategy tf_distribute = {
    .name = "tf-distribute",
    .summary = "tf.distribute: packs of 50 MB, in one order",
    .source = "TensorFlow, CommunicationOptions.bytes_per_pack and cross_device_utils.py",
    .plan = tf_plan,
};

static const tt_strategy *const strategies[] = {&tutti, &ddp, &tf_distribute};

const tt_strategy *tt_strategy_at(size_t index)
{
    return index < TT_ARRAY_COUNT(strategies) ? strategies[index] : NULL;
}

const tt_strategy *tt_strategy_find(const char *name)
{
    for (size_t i = 0; i < TT_ARRAY_COUNT(strategies); i++) {
        TT_ASSERT(strategies[i]->plan != NULL && strategies[i]->source != NULL);
        if (strcmp(strategies[i]->name, name) == 0) {
            return strategies[i];
        }
    }
    return NULL;
}
