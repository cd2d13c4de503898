/* SPDX-License-Identifier: Apache-2.0
 *
 * engine.c - ops that an outside engine runs: their launch, completion and failure.
 *
 * An engine does not compare claims, cannot be stopped, and mixes up ops that ranks launch in
 * different orders. So:
 *  (1) An op is launched only after the stage AGREE, an all-reduce of one byte over Tutti's
 *      links, has succeeded: then every member has called the same op. A mismatch, a missing rank
 *      or a cancel before that never reaches the engine.
 *  (2) Unnamed ops of a set are launched in the order of calls, named ones in the agreed
 *      order, whatever order their agreements end in. The two orders do not mix: the engine gets
 *      them as two sets. A planned tensor has no place in any order that is free of deadlocks
 *      (one rank may wait for a second tensor before it submits the first), so ops for an
 *      engine are not planned.
 *  (3) The byte states whether a member only waits, and only for ops of this order.
 *      Only if all do, the engine may use a call that blocks; engines do not match blocking calls
 *      with others. A member that blocks in an op has sent everything that others need to reach it.
 *  (4) A launched op that fails leaves its buffers with the engine: the request has
 *      has_strays set, the set is stuck, and later ops for the engine fail on all members.
 *  (5) Credit limits the ops launched and not landed, for each order separately. So the first
 *      op of an order that has not landed on all ranks has credit on every rank: a launch waits
 *      only for landings of its own order, which all members launch alike. With one credit for
 *      several orders two ranks could spend it on different ones, each waiting for the other's
 *      launch.
 *  (6) An engine never releases an op of a dead rank, nor its buffers, which the callers of failed
 *      calls consider free. So it gets no more ops, and its ops of other sets fail, too.
 */
#include "control/engine.h"

#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "kernel/reduce.h"

enum { ENGINE_WAITS = 1 };

/* Tokens: the number of the launch above, the op's index below. */
enum { TOKEN_INDEX_BITS = 24 };

static uint32_t kind_of(const tt_op *op)
{
    return op->space == &tt_space_agreed ? ENGINE_NAMED : ENGINE_CALLS;
}

static tt_engine_order *order_of(const tt_op *op)
{
    return &op->set->engine[kind_of(op)];
}

static uint32_t number_of(const tt_set *set, uint32_t kind)
{
    return kind == ENGINE_NAMED ? set->id | TT_LAUNCH_NAMED : set->id;
}

/* The description by which an engine decides whether it can run a call. */
static tt_launch launch_like(const tt_set *set, uint32_t kind, const tt_claim *claim)
{
    TT_ASSERT(set->self < set->size && kind < ENGINE_ORDERS);
    return (tt_launch){
        .collective = claim->collective,
        .dtype = claim->dtype,
        .redop = (uint8_t)(claim->redop == TT_AVERAGE ? TT_SUM : claim->redop),
        .set = number_of(set, kind),
        .self = set->self,
        .size = set->size,
        .count = claim->count,
    };
}

static bool can_launch(const tt_set *set, uint32_t kind, const tt_claim *claim)
{
    tt_platform *platform = set->control->platform;
    const bool is_out = set->size == 1 || (set->id & TT_SET_KEYED) != 0 ||
                        (claim->form & CLAIM_UNEVEN) != 0 || claim->count == 0 ||
                        claim->collective == TT_BARRIER || claim->codec != 0 ||
                        !tt_redop_is_elementwise((tt_redop)claim->redop);
    if (platform->ops->can_launch == NULL || is_out) {
        return false;
    }
    const tt_launch launch = launch_like(set, kind, claim);
    return platform->ops->can_launch(platform, &launch);
}

bool tt_engine_takes_claim(const tt_set *set, const tt_claim *claim)
{
    return can_launch(set, ENGINE_NAMED, claim);
}

bool tt_engine_takes(const tt_set *set, const tt_request *request, uint16_t traits)
{
    const uint32_t kind = (traits & TRAIT_NAMED) != 0 ? ENGINE_NAMED : ENGINE_CALLS;
    const bool has_order = (traits & (TRAIT_PAIR | TRAIT_PLANNED)) == 0;
    tt_claim claim;
    tt_claim_make(&claim, request, set->size);
    return has_order && request->program == NULL && can_launch(set, kind, &claim);
}

static tt_launch launch_of(const tt_op *op)
{
    TT_ASSERT(op->is_at_engine);
    const tt_request *request = op->request;
    tt_launch launch = launch_like(op->set, kind_of(op), &op->recipe->claim);
    launch.root = request->root;
    launch.urgency = request->urgency;
    launch.input = op->exec.input;
    launch.output = op->exec.output;
    return launch;
}

static uint64_t bytes_of(const tt_op *op)
{
    return op->request->count * tt_dtype_bytes(op->request->dtype);
}

void tt_engine_enter(tt_op *op)
{
    tt_engine_order *order = order_of(op);
    TT_ASSERT(!op->is_at_engine);
    TT_ASSERT(*order->end == NULL && (op->recipe->traits & TRAIT_ENGINE) != 0);
    op->launch_token = 0;
    op->engine_next = NULL;
    *order->end = op;
    order->end = &op->engine_next;
    order->open++;
    op->is_at_engine = true;
}

/* Stage AGREE with this rank's byte: see (3). */
tt_status tt_engine_prepare(tt_op *op, tt_text *text)
{
    TT_ASSERT(op->is_at_engine && op->launch_token == 0);
    const tt_control *control = op->control;
    const bool is_alone = control->pending == order_of(op)->open && control->next_set == 1;
    const bool is_waited = op->request->is_waited || control->is_waited;
    if (op->set->engine_is_stuck) {
        tt_text_add(text,
                    "the engine still holds an earlier call of this process set, which failed"
                    " (%s); restart the job",
                    op->set->engine_text);
        return TT_ERR_UNSUPPORTED;
    }
    op->engine_own = is_waited && is_alone ? ENGINE_WAITS : 0;
    op->exec.input = &op->engine_own;
    op->exec.output = &op->engine_all;
    return TT_OK;
}

/* ---- the order ---- */

static void leave_order(tt_op *op)
{
    TT_ASSERT(op->launch_token == 0);
    tt_engine_order *order = order_of(op);
    for (tt_op **link = &order->ops; *link != NULL; link = &(*link)->engine_next) {
        if (*link == op) {
            *link = op->engine_next;
            break;
        }
    }
    order->end = &order->ops;
    while (*order->end != NULL) {
        order->end = &(*order->end)->engine_next;
    }
}

/* Is there credit for another launch? See (5). */
static bool has_credit(const tt_control *control, const tt_engine_order *order)
{
    const uint64_t credit = control->config.credit_bytes;
    return credit == 0 || order->launched_bytes < credit;
}

/* Launch those whose turn has come. */
static void pump(tt_set *set, tt_engine_order *order)
{
    if (order->is_pumping) {
        return; /* the outermost call continues, so that the stack does not grow */
    }
    order->is_pumping = true;
    while (order->ops != NULL && tt_op_is_launched(order->ops) &&
           (set->engine_is_stuck || has_credit(set->control, order))) {
        tt_op *op = order->ops;
        tt_control *control = op->control;
        if (set->engine_is_stuck) {
            tt_text text = {0};
            tt_text_add(&text, "the engine still holds an earlier call, which failed (%s)",
                        set->engine_text);
            tt_op_object(op, TT_ERR_UNSUPPORTED, &text); /* leaves the order */
            continue;
        }
        leave_order(op);
        TT_ASSERT(op->index < UINT32_C(1) << TOKEN_INDEX_BITS);
        op->launch_token = ++control->counters.launched << TOKEN_INDEX_BITS | op->index;
        tt_launch launch = launch_of(op);
        launch.may_block = (op->engine_all & ENGINE_WAITS) != 0;
        launch.token = op->launch_token;
        order->launched_bytes += bytes_of(op);
        control->platform->ops->launch(control->platform, &launch);
    }
    order->is_pumping = false;
}

void tt_engine_agreed(tt_op *op)
{
    TT_ASSERT(tt_op_is_launched(op) && op->is_at_engine);
    pump(op->set, order_of(op));
}

void tt_engine_failed(tt_op *op)
{
    tt_set *set = op->set;
    tt_engine_order *order = order_of(op);
    const bool was_launched = op->launch_token != 0;
    if (!op->is_at_engine) {
        return;
    }
    TT_ASSERT(order->open > 0);
    order->open--;
    if (!was_launched) {
        leave_order(op);
    } else {
        op->launch_token = 0;
        TT_ASSERT(order->launched_bytes >= bytes_of(op));
        order->launched_bytes -= bytes_of(op);
        op->request->has_strays = true;
        op->work = NULL; /* the engine may still read it */
        op->work_bytes = 0;
        memcpy(set->engine_text, op->request->error, sizeof(set->engine_text));
        set->engine_is_stuck = true;
    }
    op->is_at_engine = false;
    for (int i = 0; i < ENGINE_ORDERS && op->control->shut_down >= 0; i++) {
        pump(set, &set->engine[i]); /* later ops may continue, or fail because the set is stuck */
    }
}

void tt_engine_peer_down(tt_control *control, uint32_t rank, const tt_text *text)
{
    bool has_strays = false;
    for (uint32_t i = 0; i < control->op_count; i++) {
        const tt_op *op = control->ops[i];
        has_strays =
            has_strays || (op->launch_token != 0 && op->set->member_of[rank] != UINT32_MAX);
    }
    for (const tt_set *set = control->sets; set != NULL; set = set->next) {
        has_strays = has_strays || set->engine_is_stuck;
    }
    for (tt_set *set = control->sets; set != NULL && has_strays; set = set->next) {
        if (!set->engine_is_stuck) {
            set->engine_is_stuck = true;
            memcpy(set->engine_text, text->bytes, sizeof(set->engine_text));
        }
    }
}

bool tt_control_lost_engine(const tt_control *control)
{
    for (const tt_set *set = control->sets; set != NULL; set = set->next) {
        if (!set->engine_is_stuck) {
            return false;
        }
    }
    return tt_control_lost_peer(control);
}

/* ---- landing ---- */

/* Divide and scale what the engine summed, where this rank holds a result. */
static void finish(tt_op *op)
{
    TT_ASSERT(op->divisor > 0);
    const tt_request *request = op->request;
    const bool is_reduction = request->collective == TT_ALLREDUCE ||
                              request->collective == TT_REDUCE ||
                              request->collective == TT_REDUCESCATTER;
    if (!is_reduction || (request->collective == TT_REDUCE && request->root != op->set->self) ||
        tt_is_phantom(op->control->platform, request->output)) {
        return;
    }
    if (request->redop == TT_AVERAGE) {
        tt_divide(request->dtype, request->output, request->count, op->divisor);
    }
    if (request->postscale != 1.0) {
        tt_scale(request->dtype, request->output, request->output, request->count,
                 request->postscale);
    }
}

void tt_engine_landed(tt_control *control, uint64_t token, tt_status status)
{
    const uint64_t index = token & ((UINT64_C(1) << TOKEN_INDEX_BITS) - 1);
    TT_ASSERT(index < control->op_count);
    tt_op *op = control->ops[index];
    if (op->launch_token != token) {
        return; /* it failed meanwhile */
    }
    if (status != TT_OK) {
        tt_text text = {0};
        tt_text_add(&text, "the engine could not run it: %s", tt_status_text(status));
        tt_op_object(op, status < 0 ? status : TT_ERR_SYSTEM, &text);
        return;
    }
    finish(op);
    tt_engine_order *order = order_of(op);
    TT_ASSERT(order->open > 0 && op->is_at_engine);
    order->open--;
    op->launch_token = 0;
    op->is_at_engine = false;
    TT_ASSERT(order->launched_bytes >= bytes_of(op));
    order->launched_bytes -= bytes_of(op);
    pump(op->set, order);
    tt_op_end(op, TT_OK);
}
