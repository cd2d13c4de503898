/* SPDX-License-Identifier: Apache-2.0
 *
 * space_order.c - calls without a name, and agreed tensors: one order each.
 *
 * An order has one sequence, the same on all members, and a window of ops in flight. Ops that are
 * over are remembered for a while. */
#include "base/assert.h"
#include "base/base.h"
#include "base/plant.h"
#include "control/control_internal.h"

void tt_order_forget(tt_control *control, tt_order *order)
{
    for (uint32_t i = 0; i < DONE_KEPT; i++) {
        TT_DEBUG_ASSERT((order->done[i].sequence == 0) == (order->done[i].recipe == NULL));
        if (order->done[i].recipe != NULL) {
            tt_recipe_release(control, order->done[i].recipe);
        }
        order->done[i] = (tt_done){0};
    }
}

void tt_order_destroy(tt_control *control, tt_order *order)
{
    if (order != NULL) {
        TT_DEBUG_ASSERT(order->queue.first == NULL && order->staged_count == 0);
        tt_order_forget(control, order);
        tt_platform_release(control->platform, order, sizeof(*order));
    }
}

/* NULL: no tensor was agreed on yet. */
static tt_order *order_of(tt_set *set, uint8_t flags)
{
    return (flags & TT_FLAG_AGREED) != 0 ? set->agreed : &set->calls;
}

static tt_op **place_of(tt_order *order, uint64_t sequence)
{
    return &order->ops[sequence % OPS_AHEAD_MAX];
}

/* ---- in flight ---- */

static bool order_number(tt_op *op, const tt_standing *standing)
{
    op->order = order_of(op->set, standing->space->flags);
    op->sequence = op->order->next++;
    TT_DEBUG_ASSERT(op->planned == NULL && op->any == NULL);
    return true;
}

/* May this op, the next in its order, begin? The first that is not over always may, on every rank:
 * so waiting for a place cannot deadlock. */
static bool has_place(const tt_op *op)
{
    return *place_of(op->order, op->sequence) == NULL &&
           op->order->staged_count < op->control->config.staged_max;
}

/* May it begin before its turn? It must be more urgent than all running ops; the few places for
 * this are separate from those given in order. */
static bool has_extra_place(const tt_op *op)
{
    return *place_of(op->order, op->sequence) == NULL && op->order->extra_count < OPS_EXTRA_MAX &&
           op->request->urgency > op->control->flow.urgency_top &&
           (op->recipe->traits & TRAIT_ENGINE) == 0;
}

static void begin(tt_op *op, bool is_extra)
{
    tt_op **place = place_of(op->order, op->sequence);
    TT_DEBUG_ASSERT(*place == NULL && !op->is_extra);
    op->is_extra = is_extra;
    op->order->extra_count += is_extra ? 1 : 0;
    TT_DEBUG_ASSERT(op->order->extra_count <= OPS_EXTRA_MAX);
    op->next = NULL;
    *place = op;
    tt_op_begin(op);
}

static void order_enter(tt_op *op)
{
    TT_DEBUG_ASSERT(op->phase == OP_RUNNING);
    if (op->order->queue.first == NULL && has_place(op)) {
        begin(op, false);
    } else if (has_extra_place(op)) {
        begin(op, true);
    } else {
        tt_op_queue_add(&op->order->queue, op);
    }
}

/* The first of the most urgent; NULL: there is none. */
static tt_op *most_urgent(tt_op *list)
{
    tt_op *found = list;
    for (tt_op *op = list; op != NULL; op = op->next) {
        found = op->request->urgency > found->request->urgency ? op : found;
    }
    return found;
}

static void order_pump(tt_op_queue *queue, uint32_t pair_index)
{
    (void)pair_index;
    const tt_order *order = TT_CONTAINER_OF(queue, tt_order, queue);
    if (queue->is_pumping) {
        return;
    }
    queue->is_pumping = true;
    while (queue->first != NULL && has_place(queue->first)) {
        tt_op *op = queue->first;
        TT_DEBUG_ASSERT(op->phase == OP_QUEUED);
        tt_op_queue_remove(queue, op);
        begin(op, false);
    }
    for (tt_op *op; order->extra_count < OPS_EXTRA_MAX &&
                    (op = most_urgent(queue->first)) != NULL && has_extra_place(op);) {
        tt_op_queue_remove(queue, op);
        begin(op, true);
    }
    queue->is_pumping = false;
}

void tt_order_init(tt_order *order)
{
    TT_DEBUG_ASSERT(order->next == 0);
    tt_op_queue_init(&order->queue, order_pump);
}

tt_order *tt_order_create(tt_platform *platform)
{
    tt_order *order = tt_platform_allocate(platform, sizeof(*order));
    if (order != NULL) {
        tt_order_init(order);
    }
    return order;
}

static tt_op *order_find(tt_set *set, uint32_t peer, const tt_head *key)
{
    tt_order *order = order_of(set, key->flags);
    tt_op *op = order != NULL ? *place_of(order, key->op) : NULL;
    (void)peer;
    return op != NULL && op->sequence == key->op ? op : NULL;
}

static bool order_is_future(tt_set *set, uint32_t peer, const tt_head *key)
{
    const tt_order *order = order_of(set, key->flags);
    (void)peer;
    if (order == NULL || key->op + (TT_PLANT(SECOND_LIFE_OF_AN_OP) ? 1 : 0) >= order->next) {
        return true;
    }
    const tt_op *op = order->queue.first;
    while (op != NULL && op->sequence != key->op) {
        TT_DEBUG_ASSERT(op->phase == OP_QUEUED);
        op = op->next;
    }
    return op != NULL; /* submitted, but not yet begun */
}

/* ---- over ---- */

static void fail(tt_order *order, uint64_t sequence, tt_status status)
{
    const uint32_t place = order->failed_count++ % FAILED_KEPT;
    TT_DEBUG_ASSERT(status < 0);
    order->failed[place] = sequence + 1;
    order->failed_status[place] = (int8_t)status;
}

static void succeed(tt_order *order, uint64_t sequence, tt_recipe *recipe)
{
    tt_done *done = &order->done[sequence % DONE_KEPT];
    TT_DEBUG_ASSERT(recipe->stamp != 0 && done->sequence <= sequence);
    done->sequence = sequence + 1;
    tt_recipe_replace(&done->recipe, recipe);
}

static tt_op_queue *order_leave(tt_op *op, tt_status status)
{
    tt_order *order = op->order;
    tt_op **place = place_of(order, op->sequence);
    const bool was_queued = op->phase == OP_QUEUED;
    if (*place == op) { /* else it was refused, or is queued */
        *place = NULL;
    } else if (was_queued) {
        tt_op_queue_remove(&order->queue, op);
    }
    if (op->is_counted || op->is_extra) {
        TT_DEBUG_ASSERT(order->staged_count >= op->is_counted);
        TT_DEBUG_ASSERT(order->extra_count >= op->is_extra);
        order->staged_count -= op->is_counted ? 1 : 0;
        order->extra_count -= op->is_extra ? 1 : 0;
        op->is_counted = op->is_extra = false;
    }
    if (status == TT_OK) {
        succeed(order, op->sequence, op->recipe);
    } else {
        fail(order, op->sequence, status);
    }
    return was_queued ? NULL : &order->queue;
}

static const tt_claim *order_done(tt_set *set, const tt_head *key)
{
    const tt_order *order = order_of(set, key->flags);
    const tt_done *done = order != NULL ? &order->done[key->op % DONE_KEPT] : NULL;
    if (done == NULL || done->sequence != key->op + 1) {
        return NULL;
    }
    TT_DEBUG_ASSERT(done->recipe->stamp != 0);
    return &done->recipe->claim;
}

static tt_status order_failed(tt_set *set, const tt_head *key)
{
    const tt_order *order = order_of(set, key->flags);
    return order != NULL ? tt_failed_find(order->failed, order->failed_status, FAILED_KEPT, key->op)
                         : TT_OK;
}

static void order_fail_late(tt_set *set, const tt_head *key, tt_status status)
{
    tt_order *order = order_of(set, key->flags);
    if (order != NULL) {
        fail(order, key->op, status);
    }
}

const tt_space tt_space_calls = {
    .number = order_number,
    .enter = order_enter,
    .leave = order_leave,
    .find = order_find,
    .is_future = order_is_future,
    .done = order_done,
    .failed = order_failed,
    .fail_late = order_fail_late,
};

const tt_space tt_space_agreed = {
    .flags = TT_FLAG_AGREED,
    .traits = TRAIT_NAMED,
    .number = order_number,
    .enter = order_enter,
    .leave = order_leave,
    .find = order_find,
    .is_future = order_is_future,
    .done = order_done,
    .failed = order_failed,
    .fail_late = order_fail_late,
};
