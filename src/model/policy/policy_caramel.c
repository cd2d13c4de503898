/* SPDX-License-Identifier: Apache-2.0
 *
 * policy_caramel.c - a static plan from fitted costs (Caramel, 2020).
 *
 *  1. Small tensors join the active batch, in order of readiness, until it reaches the threshold
 *     min { d : f(2d) / 2f(d) > 0.8 }; larger ones are never fused.
 *  2. A batch may be exchanged between its boundaries: from its last gradient to its first use.
 *     Largest first, each is placed in the backward pass if it fits there, else in the next
 *     forward, else where most of it fits.
 *  3. A large transfer is cut into 1 to 8 parts, none below the threshold.
 *  4. The scheme follows the size: few long messages between neighbours, or many short ones.
 *
 * In backward the order is that of readiness, in forward that of first use: static on every rank.
 */
#include <math.h>

#include "base/base.h"
#include "model/registry.h"
#include "tune/tune.h"

enum {
    DEPTH_MAX = 8,
    SHUFFLE_RANKS_MAX = 8,
};

static const double batching_ratio = 0.8;

typedef struct batch_state {
    uint32_t first; /* in order of readiness */
    uint32_t count;
    uint64_t bytes;
    double time_us;
    double load_us;  /* of it within its boundaries, once it is placed */
    double ready_us; /* boundaries */
    double use_us;
    bool in_forward;
} batch_state;

typedef struct caramel_state {
    const tt_policy_input *input;
    tt_timetable *plan;
    const uint32_t *order;
    batch_state *batches;
    uint32_t batch_count;
    uint64_t threshold_bytes;
} caramel_state;

static uint64_t threshold_of(const tt_policy_input *input)
{
    const tt_linear line = {.start_us = tt_wire_time_us(&input->wire, TT_TASK_ALLREDUCE, 0),
                            .byte_us = input->wire.byte_us};
    const double bytes = tt_linear_threshold_bytes(&line, batching_ratio);
    return bytes < 1e18 ? (uint64_t)ceil(bytes) : UINT64_MAX;
}

/* ---- 1: batches --------------------------------------------------------------------------------
 */

static void batch_close(caramel_state *caramel, batch_state batch)
{
    const tt_workload *workload = caramel->plan->workload;
    batch.use_us = INFINITY;
    for (uint32_t i = 0; i < batch.count; i++) {
        const tt_tensor *tensor = &workload->tensors[caramel->order[batch.first + i]];
        batch.ready_us = fmax(batch.ready_us, tensor->ready_us);
        batch.use_us = fmin(batch.use_us, tensor->first_use_us);
    }
    batch.time_us = tt_wire_time_us(&caramel->input->wire, TT_TASK_ALLREDUCE, batch.bytes);
    caramel->batches[caramel->batch_count++] = batch;
}

/* A large tensor does not wait for the active batch, nor the batch for it: members of a batch are
 * neighbours in `order` once the large ones are taken out. A batch is complete at the threshold or
 * at the end of backward; no member's boundary closes before that, since every use is in the next
 * forward.
 */
static void batches_form(caramel_state *caramel, uint32_t *order)
{
    const tt_workload *workload = caramel->plan->workload;
    const uint32_t count = (uint32_t)workload->tensor_count;
    uint32_t small_count = 0;
    uint32_t large_first = count;
    for (uint32_t i = 0; i < count; i++) { /* small ones to the front, keeping their order */
        const uint32_t tensor = caramel->order[i];
        if (workload->tensors[tensor].bytes <= caramel->threshold_bytes) {
            order[small_count++] = tensor;
        } else {
            order[--large_first] = tensor;
        }
    }
    caramel->order = order;
    batch_state active = {.first = 0};
    for (uint32_t i = 0; i < small_count; i++) {
        active.bytes += workload->tensors[order[i]].bytes;
        active.count++;
        if (active.bytes >= caramel->threshold_bytes || i + 1 == small_count) {
            batch_close(caramel, active);
            active = (batch_state){.first = i + 1};
        }
    }
    for (uint32_t i = count; i-- > large_first;) {
        batch_close(
            caramel,
            (batch_state){.first = i, .count = 1, .bytes = workload->tensors[order[i]].bytes});
    }
}

/* ---- 2: passes ---------------------------------------------------------------------------------
 */

static bool larger_before(const void *user, uint32_t a, uint32_t b)
{
    const batch_state *batches = user;
    return batches[a].bytes > batches[b].bytes;
}

/* Deadline of a batch, counted from the other end of the pass: a tensor that is ready late has
 * little of backward left, one that is used early little of forward. */
static double window_us(const caramel_state *caramel, const batch_state *batch, bool in_forward)
{
    const double end_us = tt_workload_compute_us(caramel->plan->workload);
    return in_forward ? batch->use_us : end_us - batch->ready_us;
}

static bool use_before(const void *user, uint32_t a, uint32_t b)
{
    const batch_state *batches = user;
    return batches[a].use_us < batches[b].use_us;
}

static bool ready_after(const void *user, uint32_t a, uint32_t b)
{
    const batch_state *batches = user;
    return batches[a].ready_us > batches[b].ready_us;
}

/* Time left for batch `index` in one pass, so that neither it nor any that was placed there before
 * leaves its boundary: all with a window up to w fit into w. `by_window` has narrow ones first. */
static double room_us(const caramel_state *caramel, const bool *is_placed, uint32_t index,
                      bool in_forward, const uint32_t *by_window)
{
    const double own_us = window_us(caramel, &caramel->batches[index], in_forward);
    double room = INFINITY, load_us = 0;
    for (uint32_t i = 0; i < caramel->batch_count; i++) {
        const uint32_t at = by_window[i];
        const batch_state *other = &caramel->batches[at];
        if (at != index && (!is_placed[at] || other->in_forward != in_forward)) {
            continue;
        }
        const double other_us = window_us(caramel, other, in_forward);
        load_us += at != index ? other->load_us : 0;
        room = other_us >= own_us ? fmin(room, other_us - load_us) : room;
    }
    return room;
}

/* Place a batch where it fits, backward before forward, else where more of it does. A batch that
 * does not fit delays the computation in either pass, so it takes no time from the others. */
static void place(caramel_state *caramel, const bool *is_placed, uint32_t index,
                  uint32_t *const *by_window)
{
    batch_state *batch = &caramel->batches[index];
    const double backward_us = room_us(caramel, is_placed, index, false, by_window[0]);
    const double forward_us = room_us(caramel, is_placed, index, true, by_window[1]);
    batch->in_forward = backward_us < batch->time_us && forward_us > backward_us;
    const double room = batch->in_forward ? forward_us : backward_us;
    batch->load_us = fmax(0, fmin(batch->time_us, room));
}

static tt_status passes_choose(caramel_state *caramel)
{
    static tt_sort_before_fn *const orders[3] = {larger_before, ready_after, use_before};
    tt_scratch *scratch = &caramel->plan->scratch;
    const uint32_t count = caramel->batch_count;
    uint32_t *sorted[3]; /* by size, by window in backward, by window in forward */
    uint32_t *spare = tt_scratch_take(scratch, count, sizeof(spare[0]));
    bool *is_placed = tt_scratch_take(scratch, count, sizeof(is_placed[0]));
    for (int k = 0; k < 3; k++) {
        sorted[k] = tt_scratch_take(scratch, count, sizeof(sorted[k][0]));
    }
    TT_TRY(tt_scratch_status(scratch));
    for (int k = 0; k < 3; k++) {
        for (uint32_t i = 0; i < count; i++) {
            sorted[k][i] = i;
        }
        tt_sort_indices(sorted[k], spare, count, orders[k], caramel->batches);
    }
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t index = sorted[0][i];
        place(caramel, is_placed, index, &sorted[1]);
        is_placed[index] = true;
    }
    return TT_OK;
}

/* ---- 3 and 4: depth and scheme -----------------------------------------------------------------
 */

static uint64_t part_bytes(const caramel_state *caramel, uint64_t bytes)
{
    const uint64_t threshold = tt_max_u64(caramel->threshold_bytes, 1);
    const uint64_t depth = tt_max_u64(tt_min_u64(bytes / threshold, DEPTH_MAX), 1);
    return tt_max_u64((bytes + depth - 1) / depth, 1);
}

static tt_plan_scheme scheme_of(const caramel_state *caramel, uint64_t bytes)
{
    const uint32_t ranks = caramel->input->rank_count;
    if (bytes > caramel->threshold_bytes) {
        return TT_SCHEME_RING;
    }
    return ranks <= SHUFFLE_RANKS_MAX ? TT_SCHEME_SHUFFLE : TT_SCHEME_HALVING;
}

/* ---- the plan ----------------------------------------------------------------------------------
 */

static bool travels_before(const void *user, uint32_t a, uint32_t b)
{
    const batch_state *x = &((const batch_state *)user)[a];
    const batch_state *y = &((const batch_state *)user)[b];
    if (x->in_forward != y->in_forward) {
        return y->in_forward;
    }
    return x->in_forward ? x->use_us < y->use_us : x->ready_us < y->ready_us;
}

static tt_status transfers_emit(caramel_state *caramel)
{
    tt_scratch *scratch = &caramel->plan->scratch;
    const uint32_t count = caramel->batch_count;
    uint32_t *order = tt_scratch_take(scratch, count, sizeof(order[0]));
    uint32_t *spare = tt_scratch_take(scratch, count, sizeof(spare[0]));
    TT_TRY(tt_scratch_status(scratch));
    for (uint32_t i = 0; i < count; i++) {
        order[i] = i;
    }
    tt_sort_indices(order, spare, count, travels_before, caramel->batches);
    for (uint32_t i = 0; i < count; i++) {
        const batch_state *batch = &caramel->batches[order[i]];
        const uint32_t before = caramel->plan->transfer_count;
        tt_transfer *transfer =
            tt_plan_exchange(caramel->plan, &caramel->order[batch->first], batch->count, i);
        transfer->waits_for_forward = batch->in_forward;
        for (uint32_t k = 0; k < caramel->plan->transfer_count - before; k++) {
            transfer[k].chunk_bytes = part_bytes(caramel, batch->bytes);
            transfer[k].scheme = scheme_of(caramel, batch->bytes);
        }
    }
    return TT_OK;
}

static tt_status caramel_plan(const tt_policy_input *input, tt_timetable *plan)
{
    caramel_state caramel = {.input = input, .plan = plan, .threshold_bytes = threshold_of(input)};
    const size_t count = plan->workload->tensor_count;
    plan->queue = TT_QUEUE_FIFO;
    caramel.order = tt_workload_by_ready(plan->workload, &plan->scratch);
    caramel.batches = tt_scratch_take(&plan->scratch, count, sizeof(batch_state));
    uint32_t *order = tt_scratch_take(&plan->scratch, count, sizeof(order[0]));
    TT_TRY(tt_scratch_status(&plan->scratch));
    batches_form(&caramel, order);
    TT_TRY(passes_choose(&caramel));
    return transfers_emit(&caramel);
}

const tt_policy tt_policy_caramel = {
    .name = "caramel",
    .summary = "batches by fitted cost, planned into backward or the next forward",
    .plan = caramel_plan,
};
