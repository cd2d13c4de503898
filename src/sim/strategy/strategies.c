/* SPDX-License-Identifier: Apache-2.0
 *
 * strategies.c - the table of strategies; see strategy.h. */
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "sim/strategy/launch_times.h"
#include "sim/strategy/strategy.h"

enum {
    KIB = 1024,
    MIB = 1024 * KIB,
    FUSE_BYTES = 64 * KIB,            /* TUTTI_FUSE */
    DDP_BYTES = 25 * MIB,             /* bucket_cap_mb */
    DDP_FIRST_BYTES = 1 * MIB,        /* dist._DEFAULT_FIRST_BUCKET_BYTES */
    TF_PACK_BYTES = 50 * 1000000,     /* bytes_per_pack, as TensorFlow's documents set it */
    HOROVOD_FUSION_BYTES = 128 * MIB, /* HOROVOD_FUSION_THRESHOLD */
    CYCLE_US = 1000, /* TUTTI_CYCLE, and HOROVOD_CYCLE_TIME since 0.21; before, 5 ms and 64 MiB */
    BYTEPS_PART_BYTES = 4096000, /* BYTEPS_PARTITION_BYTES */
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

/* A bit for each tensor and three of state, in whole words (negotiate/round.c). */
static double vector_bytes(const tt_timetable *plan)
{
    return 8 * (double)((plan->workload->tensor_count + 3 + 63) / 64);
}

typedef struct round_costs {
    const tt_agree_job *agreement;
    tt_agree_mode mode;
    double vector_bytes;
} round_costs;

static double round_us(const void *user, uint32_t tensor_count)
{
    const round_costs *costs = user;
    if (costs->mode == TT_AGREE_BITVECTOR) {
        return tt_agree_bitvector_us(costs->agreement, costs->vector_bytes);
    } else if (costs->mode == TT_AGREE_COORDINATOR) {
        return tt_agree_coordinator_us(costs->agreement, costs->vector_bytes, tensor_count);
    }
    const tt_agree_star star = tt_agree_original(costs->agreement, tensor_count);
    return star.gather_us + star.send_us + star.last_us;
}

/* Without a plan, rounds of negotiation follow each other as long as there are tensors, those of
 * the original mode in cycles. */
static tt_status tutti_agree(const tt_strategy_input *input, tt_timetable *plan)
{
    const tt_strategy_settings *settings = input->settings;
    const round_costs costs = {input->agreement, settings->control, vector_bytes(plan)};
    const bool has_cycles = settings->control == TT_AGREE_ORIGINAL;
    const tt_cycle_rule rule = {.cycle_us = !has_cycles              ? 0
                                            : settings->cycle_us > 0 ? settings->cycle_us
                                                                     : CYCLE_US,
                                .agree_us = round_us,
                                .user = &costs};
    double *agreed_us =
        tt_scratch_take(&plan->scratch, plan->workload->tensor_count, sizeof(*agreed_us));
    TT_TRY(tt_scratch_status(&plan->scratch));
    TT_TRY(tt_agreed_by_cycles(&rule, plan->workload, &plan->scratch, agreed_us));
    for (uint32_t i = 0; i < plan->transfer_count; i++) {
        tt_transfer *transfer = &plan->transfers[i];
        double last_us = 0;
        for (uint32_t k = 0; k < transfer->member_count; k++) {
            last_us = fmax(last_us, agreed_us[plan->members[transfer->member_first + k]]);
        }
        transfer->delay_us = last_us - tt_policy_ready_us(plan, transfer);
    }
    return TT_OK;
}

static tt_status tutti_plan(const tt_strategy_input *asked, tt_timetable *plan)
{
    const tt_strategy_settings *settings = asked->settings;
    const tt_policy_input input = {.workload = plan->workload,
                                   .wire = *asked->wire,
                                   .chunk_bytes = settings->chunk_bytes,
                                   .credit_bytes = settings->credit_bytes};
    uint32_t *places;
    TT_TRY(tt_plan_use_places(plan->workload, &plan->scratch, &places));
    tt_policy_set_limits(&input, plan);
    plan->keeps_barrier = !settings->crosses_steps;
    TT_TRY(tutti_fill(settings, places, plan));
    return settings->control == TT_AGREE_PLAN ? TT_OK : tutti_agree(asked, plan);
}

static const tt_strategy tutti = {
    .name = "tutti",
    .summary = "planned tensors by first use, in chunks; small ones fused",
    .source = "docs/scheduling.md",
    .engine = TT_ENGINE_TUTTI,
    .plain = TT_ENGINE_TUTTI,
    .overlaps = true,
    .can_cross = true,
    .takes_credit = true,
    .takes_fuse = true,
    .takes_control = true,
    .plan = tutti_plan,
};

/* ---- buckets in one order ---- */

static tt_status ddp_plan(const tt_strategy_input *input, tt_timetable *plan)
{
    const uint64_t asked = input->settings->chunk_bytes, bytes = asked > 0 ? asked : DDP_BYTES;
    const tt_bucket_rule rule = {.first_bytes = tt_min_u64(bytes, DDP_FIRST_BYTES), .bytes = bytes};
    plan->keeps_barrier = true;
    return tt_launch_in_order(&rule, plan);
}

static const tt_strategy ddp = {
    .name = "ddp",
    .summary = "torch DDP: buckets of 25 MiB, the first of 1 MiB, launched in one order",
    .source = "PyTorch, docs/source/notes/ddp.rst and reducer.cpp",
    .engine = TT_ENGINE_NCCL,
    .plain = TT_ENGINE_TUTTI,
    .plan = ddp_plan,
};

static tt_status tf_plan(const tt_strategy_input *input, tt_timetable *plan)
{
    const uint64_t asked = input->settings->chunk_bytes, bytes = asked > 0 ? asked : TF_PACK_BYTES;
    const tt_bucket_rule rule = {.first_bytes = bytes, .bytes = bytes};
    plan->keeps_barrier = true;
    return tt_launch_in_order(&rule, plan);
}

static const tt_strategy tf_distribute = {
    .name = "tf-distribute",
    .summary = "tf.distribute: packs of 50 MB, in one order",
    .source = "TensorFlow, CommunicationOptions.bytes_per_pack and cross_device_utils.py",
    .engine = TT_ENGINE_NCCL,
    .plain = TT_ENGINE_TUTTI,
    .plan = tf_plan,
};

/* ---- cycles ---- */

typedef struct cycle_costs {
    const tt_agree_job *agreement;
    const tt_wire *wire;
    double all_tensors;
} cycle_costs;

static double exchange_us(const void *user, uint64_t bytes)
{
    return tt_wire_time_us(((const cycle_costs *)user)->wire, TT_TASK_ALLREDUCE, bytes);
}

static double coordinator_us(const void *user, uint32_t tensor_count)
{
    return tt_agree_horovod_us(((const cycle_costs *)user)->agreement, tensor_count);
}

static double cached_us(const void *user, uint32_t tensor_count)
{
    const cycle_costs *costs = user;
    return tt_agree_horovod_cached_us(costs->agreement, tensor_count, costs->all_tensors);
}

static tt_status cycles_plan(const tt_strategy_input *input, tt_timetable *plan,
                             double (*agree_us)(const void *user, uint32_t tensor_count))
{
    const tt_strategy_settings *settings = input->settings;
    const cycle_costs costs = {input->agreement, input->wire, (double)plan->workload->tensor_count};
    const tt_cycle_rule rule = {.cycle_us = settings->cycle_us > 0 ? settings->cycle_us : CYCLE_US,
                                .fusion_bytes = settings->fuse_bytes > 0 ? settings->fuse_bytes
                                                                         : HOROVOD_FUSION_BYTES,
                                .group_count = settings->group_count,
                                .agree_us = agree_us,
                                /* NCCL's are put into a stream */
                                .exchange_us = input->engine == TT_ENGINE_NCCL ? NULL : exchange_us,
                                .user = &costs};
    plan->keeps_barrier = true;
    return tt_launch_by_cycles(&rule, plan);
}

static tt_status horovod_plan(const tt_strategy_input *input, tt_timetable *plan)
{
    return cycles_plan(input, plan, coordinator_us);
}

static const tt_strategy horovod = {
    .name = "horovod",
    .summary = "Horovod before its cache: every cycle a coordinator gathers all requests",
    .source = "Horovod, operations.cc and controller.cc, HOROVOD_CACHE_CAPACITY=0",
    .engine = TT_ENGINE_NCCL,
    .plain = TT_ENGINE_MPI,
    .takes_fuse = true,
    .takes_cycles = true,
    .plan = horovod_plan,
};

static tt_status horovod_cached_plan(const tt_strategy_input *input, tt_timetable *plan)
{
    return cycles_plan(input, plan, cached_us);
}

static const tt_strategy horovod_cached = {
    .name = "horovod-cached",
    .summary = "Horovod with its cache: an AND of bit vectors every cycle, answers built locally",
    .source = "Horovod, response_cache.cc and controller.cc",
    .engine = TT_ENGINE_NCCL,
    .plain = TT_ENGINE_MPI,
    .takes_fuse = true,
    .takes_cycles = true,
    .plan = horovod_cached_plan,
};

/* ---- servers ---- */

/* Its priorities are off unless a credit is set. */
static tt_status byteps_plan(const tt_strategy_input *input, tt_timetable *plan)
{
    const uint64_t asked = input->settings->chunk_bytes;
    plan->queue = TT_QUEUE_FIFO;
    plan->keeps_barrier = true;
    plan->chunk_bytes = asked > 0 ? asked : BYTEPS_PART_BYTES;
    return tt_policy_each_tensor(plan, NULL);
}

static const tt_strategy byteps = {
    .name = "byteps",
    .summary = "BytePS: parts of 4 MB summed by servers on the hosts, and on --servers others",
    .source = "BytePS (OSDI'20), core_loops.cc and server.cc",
    .engine = TT_ENGINE_SERVERS,
    .plain = TT_ENGINE_SERVERS,
    .takes_servers = true,
    .plan = byteps_plan,
};

static tt_status ps_plan(const tt_strategy_input *input, tt_timetable *plan)
{
    (void)input;
    plan->form = TT_FORM_SERVER;
    plan->queue = TT_QUEUE_FIFO;
    plan->keeps_barrier = true;
    return tt_policy_each_tensor(plan, NULL);
}

static const tt_strategy ps = {
    .name = "ps",
    .summary = "a parameter server on --servers hosts: whole tensors, long ones split among all",
    .source = "MXNet, kvstore_dist.h, MXNET_KVSTORE_BIGARRAY_BOUND",
    .engine = TT_ENGINE_SERVERS,
    .plain = TT_ENGINE_SERVERS,
    .takes_servers = true,
    .pushes = true,
    .plan = ps_plan,
};

const char *tt_agree_mode_name(tt_agree_mode mode)
{
    static const char *const names[TT_AGREE_MODES] = {"plan", "bitvector", "coordinator",
                                                      "original"};
    TT_ASSERT(mode < TT_AGREE_MODES);
    return names[mode];
}

/* ---- the table ---- */

static const tt_strategy *const strategies[] = {
    &tutti, &ddp, &tf_distribute, &horovod, &horovod_cached, &byteps, &ps};

tt_engine tt_strategy_engine(const tt_strategy *strategy, tt_engine asked, bool has_accelerators)
{
    if (asked != TT_ENGINE_OWN) {
        return asked;
    }
    return has_accelerators ? strategy->engine : strategy->plain;
}

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
