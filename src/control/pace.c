/* SPDX-License-Identifier: Apache-2.0
 *
 * pace.c - credit: how many bytes of gradients are in flight, and which begins next.
 *
 * A gradient begins while credit > 0 and gives its credit back when it is over; the others are
 * held, most urgent first, then oldest. What is in flight yields to more urgent frames at every
 * link (transport/frame_queue.h), so an op that is more urgent than all of them is never held:
 * credit bounds what is begun beside it, not how fast it gets through.
 *
 *  (1) Each rank decides for itself, by its own credit. Who waits for a peer has sent it something
 *      about the op (a frame, GRANT or WANT: exec.tells), and an op that a peer has sent something
 *      about is begun, credit or not: what has begun on one rank begins wherever it is waited for.
 *      One circle is left, through the users: planned ops begin before all ranks have submitted
 *      them, and a user may wait for a held op before it submits the one that has the credit. So
 *      credit that brings nothing to an end for PATIENCE_NS is not kept: one more op begins.
 *  (2) used_bytes is the sum of the charges of ops in flight.
 *  (3) Without is_paced nothing is held, and this costs a comparison.
 *  (4) A short gradient goes before long ones. It needs hardly any bandwidth, but several hops: in
 *      strict order each of them would wait for all that is more urgent, and when its own turn
 *      comes it would still have them all before it. At most a chunk's worth goes so at a time, so
 *      that what is urgent waits for no more than that.
 *  (5) Ops for an outside engine are never held, for that would change the order of launches, which
 *      all ranks must share; engine.c delays their launch instead, in that order. */
#include "base/assert.h"
#include "base/base.h"
#include "base/plant.h"
#include "control/control_internal.h"
#include "control/engine.h"

enum { PATIENCE_NS = 20 * 1000 * 1000 };

static tt_op *op_of(tt_heap_node *node)
{
    return TT_CONTAINER_OF(node, tt_op, held);
}

static bool goes_before(const tt_heap_node *a, const tt_heap_node *b)
{
    const tt_op *x = TT_CONTAINER_OF(a, const tt_op, held);
    const tt_op *y = TT_CONTAINER_OF(b, const tt_op, held);
    const bool is_fifo = x->control->config.is_fifo;
    return is_fifo || x->request->urgency == y->request->urgency
               ? x->age < y->age
               : x->request->urgency > y->request->urgency;
}

static void *take(void *user, size_t bytes)
{
    return tt_platform_allocate(user, bytes);
}

static void give(void *user, void *memory, size_t bytes)
{
    tt_platform_release(user, memory, bytes);
}

void tt_pace_init(tt_control *control)
{
    tt_pace *pace = &control->pace;
    pace->allocator = (tt_allocator){.allocate = take, .release = give, .user = control->platform};
    tt_heap_init(&pace->held, goes_before, &pace->allocator);
}

void tt_pace_fini(tt_control *control)
{
    TT_ASSERT(control->pace.held.count == 0);
    tt_heap_fini(&control->pace.held);
}

static uint64_t credit_of(const tt_control *control)
{
    const uint64_t credit = control->config.credit_bytes;
    return credit > 0 && control->config.is_paced ? credit : UINT64_MAX;
}

/* What is scheduled: exchanges of data that nobody needs at once. */
static bool is_gradient(const tt_op *op)
{
    return !op->is_pair && op->request->collective != TT_BARRIER && op->set->size > 1 &&
           op->request->urgency < TT_URGENCY_ACTIVATION / 2;
}

static void charge(tt_op *op)
{
    tt_control *control = op->control;
    tt_pace *pace = &control->pace;
    if (!is_gradient(op)) {
        return;
    }
    const uint64_t bytes = op->request->count * tt_dtype_bytes(op->request->dtype);
    op->charge_bytes = tt_max_u64(bytes, 1);
    pace->used_bytes += op->charge_bytes;
    if (pace->flight_count++ == 0) {
        pace->busy_since_ns = op->begun_ns; /* now: the clock was read at its submission */
    }
    control->counters.overtaken += op->age < pace->newest_begun ? 1 : 0;
    pace->newest_begun = tt_max_u64(pace->newest_begun, op->age);
}

/* Is it more urgent than everything in flight? */
static bool passes(const tt_op *op)
{
    const tt_control *control = op->control;
    return !control->config.is_fifo && op->request->urgency > control->flow.urgency_top;
}

int32_t tt_pace_urgency(tt_op *op)
{
    const tt_control *control = op->control;
    tt_pace *pace = &op->control->pace;
    const tt_request *request = op->request;
    const uint64_t bytes = request->count * tt_dtype_bytes(request->dtype);
    if (op->short_bytes == 0 && is_gradient(op) && !control->config.is_fifo && bytes > 0 &&
        bytes <= tt_short_bytes(request->segment_bytes) &&
        pace->short_bytes + bytes <= request->segment_bytes) {
        op->short_bytes = bytes;
        pace->short_bytes += bytes;
    }
    return request->urgency + (op->short_bytes > 0 ? TT_URGENCY_SHORT : 0);
}

void tt_pace_run(tt_op *op)
{
    tt_control *control = op->control;
    const int32_t urgency = op->request->urgency;
    op->is_running = true;
    if (urgency > control->flow.urgency_top) {
        control->flow.urgency_top = urgency;
        control->pace.top_count = 0;
    }
    control->pace.top_count += urgency == control->flow.urgency_top ? 1 : 0;
}

/* The op does not run any more. */
static void rest(tt_op *op)
{
    tt_control *control = op->control;
    if (!op->is_running) {
        return;
    }
    op->is_running = false;
    if (op->request->urgency < control->flow.urgency_top || --control->pace.top_count > 0) {
        return;
    }
    control->flow.urgency_top = INT32_MIN;
    for (uint32_t i = 0; control->pending > 1 && i < control->op_count; i++) {
        if (control->ops[i]->is_running) {
            tt_pace_run(control->ops[i]);
        }
    }
}

static bool is_held_back(const tt_op *op)
{
    tt_control *control = op->control;
    const tt_pace *pace = &control->pace;
    if (credit_of(control) == UINT64_MAX || !is_gradient(op) || tt_engine_can_take(op)) {
        return false;
    }
    const bool has_credit = pace->used_bytes < credit_of(control) && pace->held.count == 0;
    const tt_head key = tt_op_arriving_key(op);
    return !has_credit && !passes(op) && !tt_flow_knows(&control->flow, &key, op->peer);
}

bool tt_pace_hold(tt_op *op)
{
    tt_control *control = op->control;
    if (!is_held_back(op) || tt_heap_push(&control->pace.held, &op->held) != TT_OK) {
        charge(op);
        return false;
    }
    tt_op_set_phase(op, OP_HELD);
    control->counters.held++;
    if (control->pace.held.count == 1) {
        control->pace.moved_ns = tt_now(control->platform);
        tt_control_due(control, control->pace.moved_ns + PATIENCE_NS);
    }
    return true;
}

static void begin(tt_op *op)
{
    op->control->pace.moved_ns = tt_now(op->control->platform);
    charge(op);
    tt_op_begin_now(op);
}

void tt_pace_patrol(tt_control *control)
{
    tt_pace *pace = &control->pace;
    if (pace->held.count == 0) {
        return;
    }
    if (tt_now(control->platform) - pace->moved_ns >= PATIENCE_NS && !TT_PLANT(CREDIT_KEPT)) {
        control->counters.demanded++;
        begin(op_of(tt_heap_pop(&pace->held)));
    }
    if (pace->held.count > 0) {
        tt_control_due(control, pace->moved_ns + PATIENCE_NS);
    }
}

void tt_pace_demand(tt_op *op)
{
    TT_ASSERT(op->phase == OP_HELD);
    tt_heap_remove(&op->control->pace.held, &op->held);
    op->control->counters.demanded++;
    begin(op);
}

void tt_pace_withdraw(tt_op *op)
{
    if (tt_heap_has_node(&op->held)) {
        tt_heap_remove(&op->control->pace.held, &op->held);
    }
}

void tt_pace_over(tt_op *op)
{
    tt_control *control = op->control;
    tt_pace *pace = &control->pace;
    rest(op);
    TT_ASSERT(pace->short_bytes >= op->short_bytes);
    pace->short_bytes -= op->short_bytes;
    op->short_bytes = 0;
    tt_pace_withdraw(op);
    if (op->charge_bytes == 0) {
        return;
    }
    TT_ASSERT(pace->used_bytes >= op->charge_bytes);
    TT_ASSERT(pace->flight_count > 0);
    pace->used_bytes -= op->charge_bytes;
    pace->moved_ns = pace->held.count > 0 ? tt_now(control->platform) : pace->moved_ns;
    control->counters.gradient_bytes += op->charge_bytes;
    op->charge_bytes = 0;
    if (--pace->flight_count == 0) {
        /* It was read at its end too, if it ended well. */
        control->counters.busy_ns +=
            tt_max_u64(op->begun_ns, pace->busy_since_ns) - pace->busy_since_ns;
    }
}

void tt_pace_pump(tt_control *control)
{
    tt_pace *pace = &control->pace;
    if (pace->is_pumping) {
        return; /* the outermost call goes on, so that the stack does not grow */
    }
    pace->is_pumping = true;
    while (pace->held.count > 0 && pace->used_bytes < credit_of(control)) {
        begin(op_of(tt_heap_pop(&pace->held)));
    }
    pace->is_pumping = false;
}

void tt_control_set_credit(tt_control *control, uint64_t credit_bytes)
{
    control->config.credit_bytes = credit_bytes;
    if (control->shut_down == TT_OK) {
        tt_pace_pump(control);
    }
}

void tt_control_set_fuse(tt_control *control, uint64_t fuse_bytes)
{
    control->fuse_bytes = fuse_bytes;
}

void tt_control_set_segment(tt_control *control, uint32_t segment_bytes)
{
    TT_ASSERT(segment_bytes % 64 == 0 && segment_bytes > 0);
    TT_ASSERT(segment_bytes <= TT_PAYLOAD_BYTES_MAX / 2);
    control->config.segment_bytes = segment_bytes;
}
