/* SPDX-License-Identifier: Apache-2.0
 *
 * engine.c - ops that an outside engine runs: when they are launched, and what becomes of them.
 *
 * An engine cannot check what the others believe an op to be, cannot be told to stop, and mixes up
 * ops that are launched in another order elsewhere. So:
 *  (1) An op is launched only after stage 0, an all-reduce of one byte over our own links, has
 *      passed: then every member has asked for the same op. A mismatch, a missing rank or a cancel
 *      before that never reaches the engine.
 *  (2) Unnamed ops of a set are launched in the order of calls, named ones in the agreed order,
 *      whatever order their stages 0 end in. The two orders do not mix: the engine knows them as
 * two sets. A planned tensor has no place in any order that is free of deadlocks (one rank may wait
 *      for a second tensor before it submits the first), so what an engine takes is not planned.
 *  (3) The byte says whether a member does nothing but wait, for ops of this order alone. Only if
 *      all do, the engine may use a call that blocks; engines do not match blocking calls with
 *      others. A member that blocks in an op has sent all that others need to come to it.
 *  (4) A launched op that fails leaves its buffers with the engine: the request says has_strays,
 * the set is stuck, and later ops for the engine fail on all members.
 *  (5) Credit bounds what is launched and has not landed, of each order by itself. So the first op
 * of an order that has not landed everywhere lacks credit nowhere: nothing waits but for landings
 *      of its own order, which all members launch alike. One credit for several orders would let
 *      two ranks spend it on different ones, each waiting for the other's launch.
 *  (6) What an engine holds for a dead rank it holds for good, in buffers that the callers of
 * failed calls think theirs. So it is not asked any more, and all it has of other sets fails, too.
 */
#include "control/engine.h"

#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/reduce.h"

enum { ENGINE_WAITS = 1 };

/* Tokens: the number of the launch above, the op's index below. */
enum { TOKEN_INDEX_BITS = 24 };

static uint32_t kind_of(const tt_op *op)
{
    return op->space == SPACE_AGREED ? ENGINE_NAMED : ENGINE_CALLS;
}

static tt_engine_order *order_of(const tt_op *op)
{
    return &op->set->engine[kind_of(op)];
}

static uint32_t number_of(const tt_set *set, uint32_t kind)
{
    return kind == ENGINE_NAMED ? set->id | TT_LAUNCH_NAMED : set->id;
}

static tt_launch launch_of(const tt_op *op)
{
    const tt_request *request = op->request;
    return (tt_launch){
        .collective = (uint8_t)request->collective,
        .dtype = (uint8_t)request->dtype,
        .redop = (uint8_t)(request->redop == TT_AVERAGE ? TT_SUM : request->redop),
        .set = number_of(op->set, kind_of(op)),
        .root = request->root,
        .self = op->set->self,
        .size = op->set->size,
        .urgency = request->urgency,
        .count = request->count,
        .input = op->exec.input,
        .output = op->exec.output,
    };
}

bool tt_engine_can_take(const tt_op *op)
{
    tt_platform *platform = op->control->platform;
    const tt_request *request = op->request;
    const bool has_order = op->space == SPACE_CALLS || op->space == SPACE_AGREED;
    if (platform->ops->can_launch == NULL || !has_order || op->set->size == 1 ||
        (op->set->id & TT_SET_KEYED) != 0 || /* the engine does not know of it */
        request->is_uneven || request->count == 0 || request->collective == TT_BARRIER ||
        !tt_redop_is_elementwise(request->redop)) {
        return false;
    }
    const tt_launch launch = launch_of(op);
    return platform->ops->can_launch(platform, &launch);
}

static void enter_order(tt_op *op)
{
    tt_engine_order *order = order_of(op);
    op->launch_token = 0;
    op->engine_next = NULL;
    *order->end = op;
    order->end = &op->engine_next;
    order->open++;
}

bool tt_engine_take(tt_op *op)
{
    if (!tt_engine_can_take(op)) {
        return false;
    }
    enter_order(op);
    return true;
}

bool tt_engine_takes_claim(const tt_set *set, const tt_claim *claim)
{
    tt_platform *platform = set->control->platform;
    const bool is_out = set->size == 1 || (set->id & TT_SET_KEYED) != 0 ||
                        (claim->form & CLAIM_UNEVEN) != 0 || claim->count == 0 ||
                        claim->collective == TT_BARRIER ||
                        !tt_redop_is_elementwise((tt_redop)claim->redop);
    if (platform->ops->can_launch == NULL || is_out) {
        return false;
    }
    const tt_launch launch = {
        .collective = claim->collective,
        .dtype = claim->dtype,
        .redop = (uint8_t)(claim->redop == TT_AVERAGE ? TT_SUM : claim->redop),
        .set = number_of(set, ENGINE_NAMED),
        .self = set->self,
        .size = set->size,
        .count = claim->count,
    };
    return platform->ops->can_launch(platform, &launch);
}

/* The question of stage 0, and this rank's answer: see (3). */
static void ask(tt_op *op)
{
    const tt_control *control = op->control;
    const bool is_alone = control->pending == order_of(op)->open && control->next_set == 1;
    const bool is_waited = op->request->is_waited || control->is_waited;
    op->engine_own = is_waited && is_alone ? ENGINE_WAITS : 0;
    op->exec.input = &op->engine_own;
    op->exec.output = &op->engine_all;
}

tt_status tt_engine_prepare(tt_op *op, tt_text *text)
{
    const tt_problem problem = {
        .collective = TT_ALLREDUCE,
        .dtype = TT_U8,
        .redop = TT_AND,
        .self = op->set->self,
        .size = op->set->size,
        .element_bytes = 1,
        .segment_bytes = op->control->config.segment_bytes,
        .bytes = 1,
        .postscale = 1.0,
        .topology = &op->set->topology,
    };
    tt_exec_pose(&op->exec, &problem, NULL); /* the same for all ops of a set: planned once */
    TT_ASSERT(!op->exec.algorithm->needs_facts);
    if (op->set->engine_is_stuck) { /* posed before: what ends it looks at its members */
        tt_text_add(text,
                    "the engine still holds an earlier call of this process set, which failed"
                    " (%s); start the job anew",
                    op->set->engine_text);
        return TT_ERR_UNSUPPORTED;
    }
    op->exec.divisor = 1;
    ask(op);
    return TT_OK;
}

void tt_engine_repeat(tt_op *op)
{
    TT_ASSERT(op->by_engine && !op->set->engine_is_stuck);
    enter_order(op);
    ask(op);
}

/* ---- the order ---- */

static void leave_order(tt_op *op)
{
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
        return; /* the outermost call goes on, so that the stack does not grow */
    }
    order->is_pumping = true;
    while (order->ops != NULL && order->ops->phase == OP_ENGINE &&
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
        op->launched_bytes = op->request->count * tt_dtype_bytes(op->request->dtype);
        order->launched_bytes += op->launched_bytes;
        control->platform->ops->launch(control->platform, &launch);
    }
    order->is_pumping = false;
}

void tt_engine_agreed(tt_op *op)
{
    tt_op_set_phase(op, OP_ENGINE);
    op->has_views = false;
    op->exec.is_running = false;
    pump(op->set, order_of(op));
}

void tt_engine_failed(tt_op *op)
{
    tt_set *set = op->set;
    tt_engine_order *order = order_of(op);
    const bool was_launched = op->launch_token != 0;
    if (!op->by_engine) {
        return;
    }
    order->open--;
    if (!was_launched) {
        leave_order(op);
    } else {
        op->launch_token = 0;
        order->launched_bytes -= op->launched_bytes;
        op->request->has_strays = true;
        op->prescaled = NULL; /* the engine may still read it */
        op->prescaled_bytes = 0;
        memcpy(set->engine_text, op->request->error, sizeof(set->engine_text));
        set->engine_is_stuck = true;
    }
    op->by_engine = false;
    for (int i = 0; i < ENGINE_ORDERS && op->control->shut_down >= 0; i++) {
        pump(set, &set->engine[i]); /* those behind it may go on; or learn that the set is stuck */
    }
}

void tt_engine_peer_down(tt_control *control, uint32_t rank, const tt_text *text)
{
    bool has_strays = false;
    for (uint32_t i = 0; i < control->op_count; i++) {
        const tt_op *op = control->ops[i];
        has_strays = has_strays || (op->phase == OP_ENGINE && op->launch_token != 0 &&
                                    op->set->member_of[rank] != UINT32_MAX);
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
    const tt_request *request = op->request;
    const bool is_reduction = request->collective == TT_ALLREDUCE ||
                              request->collective == TT_REDUCE ||
                              request->collective == TT_REDUCESCATTER;
    if (!is_reduction || (request->collective == TT_REDUCE && request->root != op->set->self)) {
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
    if (op->phase != OP_ENGINE || op->launch_token != token) {
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
    order->open--;
    op->launch_token = 0;
    order->launched_bytes -= op->launched_bytes;
    pump(op->set, order);
    tt_op_end(op, TT_OK);
}
