/* SPDX-License-Identifier: Apache-2.0
 *
 * op.c - life of an op: its place in the order, its stages, its end. */
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/plant.h"
#include "control/any.h"
#include "control/engine.h"
#include "control/named/name.h"

enum { TOKEN_LANE_BITS = 4 };

_Static_assert(TT_LANES_MAX <= 1 << TOKEN_LANE_BITS, "a token's low bits are its lane");

uint32_t tt_op_first(const tt_op *op)
{
    uint32_t member = 0;
    TT_DEBUG_ASSERT(op->self < op->size);
    while (member < op->self && op->control->peers[op->members[member]].is_gone) {
        member++;
    }
    return op->members[member];
}

/* Head of frames about this op that this rank sends. */
tt_head tt_op_identity(const tt_op *op, tt_frame_kind kind)
{
    const bool is_reply = op->space == &tt_space_pair && !op->is_sender;
    TT_DEBUG_ASSERT(op->space == &tt_space_pair || !op->is_sender);
    return (tt_head){.kind = (uint8_t)kind,
                     .flags = (uint8_t)(op->space->flags | (is_reply ? TT_FLAG_REPLY : 0)),
                     .set = op->set->id,
                     .op = op->sequence,
                     .descriptor = op->recipe->descriptor,
                     .epoch = op->control->world.epoch};
}

tt_head tt_op_arriving_key(const tt_op *op)
{
    tt_head head = tt_op_identity(op, TT_FRAME_DATA);
    head.flags ^= op->space == &tt_space_pair ? TT_FLAG_REPLY : 0;
    return head;
}

/* ---- storage ---- */

void *tt_control_grow(tt_control *control, void *old, uint32_t count, uint32_t new_count)
{
    TT_DEBUG_ASSERT(count < new_count);
    void *made = tt_platform_allocate(control->platform, new_count * sizeof(void *));
    if (made != NULL && count > 0) {
        memcpy(made, old, count * sizeof(void *));
        tt_platform_release(control->platform, old, count * sizeof(void *));
    }
    return made;
}

static tt_status ops_grow(tt_control *control)
{
    TT_DEBUG_ASSERT(control->op_count == control->op_capacity);
    const uint32_t capacity = control->op_capacity == 0 ? 64 : 2 * control->op_capacity;
    tt_op **ops = tt_control_grow(control, control->ops, control->op_capacity, capacity);
    if (ops == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    control->ops = ops;
    control->op_capacity = capacity;
    return TT_OK;
}

static tt_status op_make(tt_control *control)
{
    if (control->op_count == control->op_capacity) {
        TT_TRY(ops_grow(control));
    }
    TT_DEBUG_ASSERT(control->op_count < control->op_capacity);
    tt_op *op = tt_platform_allocate(control->platform, sizeof(*op));
    if (op == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    TT_DEBUG_ASSERT(op->phase == OP_FREE);
    op->index = control->op_count;
    op->control = control;
    op->exec.flow = &control->flow;
    op->exec.token = (uint64_t)op->index << TOKEN_LANE_BITS;
    op->next = control->free_ops;
    control->free_ops = op;
    control->ops[control->op_count++] = op;
    return TT_OK;
}

tt_status tt_op_reserve(tt_control *control)
{
    return op_make(control);
}

/* Reset a free op that was not laid out for `recipe`. */
static void op_reset(tt_op *op, tt_recipe *recipe)
{
    TT_ASSERT(op->recipe == NULL && op->phase == OP_FREE);
    op->next = NULL;
    op->recipe = recipe;
    op->set = recipe->set;
    op->order = NULL;
    op->planned = NULL;
    op->is_sender = (recipe->traits & TRAIT_SENDS) != 0;
    const bool is_pair = (recipe->traits & TRAIT_PAIR) != 0;
    op->members = is_pair ? op->pair_members : op->set->members;
    op->size = is_pair ? 2 : op->set->size;
    op->self = !is_pair ? op->set->self : op->is_sender ? 0 : 1;
    op->has_views = op->is_counted = op->is_extra = op->is_running = op->is_at_engine = false;
    op->reported_after_ns = op->overdue_ns = 0;
    op->exec.status = TT_OK;
    op->exec.is_running = false;
    if (op->stall_text != NULL) {
        op->stall_text[0] = 0;
    }
}

tt_op *tt_op_take(tt_control *control, tt_recipe *recipe, bool *is_last_out)
{
    tt_op *op = tt_idle_take(control, recipe);
    *is_last_out = false;
    if (op != NULL) {
        return op;
    }
    tt_recipe_use(recipe);
    *is_last_out =
        control->free_ops->next == NULL && op_make(control) != TT_OK && !tt_idle_drop_one(control);
    op = control->free_ops;
    control->free_ops = op->next;
    op_reset(op, recipe);
    return op;
}

void tt_op_cool(tt_op *op, bool is_next)
{
    tt_control *control = op->control;
    TT_ASSERT(op->phase == OP_FREE);
    TT_DEBUG_ASSERT(op->request == NULL);
    TT_DEBUG_ASSERT(op->recipe->idle != op);
    if (op->exec.stage != NULL) {
        tt_exec_forget(&op->exec);
    }
    if (op->room != NULL) {
        op->room->late_of = NULL;
    }
    tt_recipe_release(control, op->recipe);
    op->is_warm = false;
    op->recipe = NULL;
    op->set = NULL;
    tt_op **link = &control->free_ops;
    link = is_next || *link == NULL ? link : &(*link)->next;
    op->next = *link;
    *link = op;
}

void tt_op_release_all(tt_control *control)
{
    tt_platform *platform = control->platform;
    for (uint32_t i = 0; i < control->op_count; i++) {
        tt_op *op = control->ops[i];
        TT_ASSERT(op->phase == OP_FREE);
        tt_exec_fini(&op->exec);
        tt_platform_release(platform, op->exec.coding, sizeof(tt_coded_run));
        if (op->room != NULL) {
            tt_platform_release(platform, op->room, op->room->bytes);
        }
        tt_platform_release(platform, op->stall_text, TT_ERROR_BYTES);
        tt_platform_release(platform, op->work, op->work_bytes);
        tt_platform_release(platform, op, sizeof(*op));
    }
    tt_platform_release(platform, control->ops, control->op_capacity * sizeof(*control->ops));
}

/* ---- the end ---- */

/* The op is free: for a call of its recipe if it succeeded, else for any. It is not read any more.
 */
static void give_back(tt_op *op, tt_status status)
{
    TT_DEBUG_ASSERT(!op->exec.is_running);
    tt_control *control = op->control;
    tt_recipe *recipe = op->recipe;
    tt_op_set_phase(op, OP_FREE);
    TT_ASSERT(control->pending > 0);
    control->pending--;
    op->request = NULL;
    if (TT_PLANT(IDLE_AFTER_FAILURE) && status < 0 && recipe->is_in && recipe->idle == NULL) {
        recipe->idle = op; /* idle ops count as free */
        control->recipes.idle_count++;
        op->next = control->free_ops;
        control->free_ops = op;
    } else if (status == TT_OK && op->is_warm && recipe->is_in && recipe->idle == NULL &&
               control->recipes.idle_count < IDLE_MAX) {
        recipe->idle = op; /* it stays idle */
        TT_DEBUG_ASSERT((recipe->traits & TRAIT_STRAIGHT) != 0);
        control->recipes.idle_count++;
    } else if (status != TT_OK || !tt_idle_keep(op)) {
        tt_op_cool(op, true);
    }
}

/* Return its slots, credit, urgency and residuals. */
static void release(tt_op *op, tt_status status)
{
    if (op->exec.slots != NULL) {
        tt_exec_trim_slots(&op->exec);
    }
    tt_pace_over(op);
    TT_DEBUG_ASSERT(!op->is_running);
    if ((op->recipe->traits & TRAIT_CODED) != 0) {
        tt_feedback_settle(op, status);
    }
    op->has_views = op->is_at_engine = false;
    op->reported_after_ns = 0;
    if (op->stall_text != NULL) {
        op->stall_text[0] = 0;
    }
}

void tt_op_end(tt_op *op, tt_status status)
{
    tt_control *control = op->control;
    tt_request *request = op->request;
    const uint32_t pair_index = op->pair_index;
    TT_ASSERT(op->phase != OP_FREE);
    TT_DEBUG_ASSERT(status < 0 || op->stage + 1 == op->recipe->stage_count);
    TT_DEBUG_ASSERT(request->op == op && status <= TT_OK);
    tt_op_queue *behind = op->space->leave(op, status);
    if (status < 0 || control->cases != NULL ||
        (control->flow.parked_count | control->flow.note_count) != 0) {
        tt_agree_over(op, status);
    }
    if ((op->recipe->traits & TRAIT_BRIEF) == 0 || op->paced.short_bytes > 0 ||
        op->submitted_ns != 0) {
        release(op, status);
    }
    TT_DEBUG_ASSERT(!op->is_counted && !op->is_extra && !op->is_running);
    give_back(op, status);
    if (status == TT_OK) {
        control->counters.ops_finished++;
    } else {
        control->counters.ops_failed++;
    }
    tt_request_end(request, status, request->error);
    if (control->shut_down < 0) {
        return;
    }
    if (tt_pacer_has_waiting(&control->pace.pacer)) {
        tt_pace_pump(control);
    }
    if (behind != NULL && behind->first != NULL) {
        behind->pump(behind, pair_index);
    }
}

/* ---- stages ---- */

/* On a host a brief op is over before the class of its frames matters. */
static int32_t exec_urgency(tt_op *op)
{
    const bool is_passed = (op->recipe->traits & TRAIT_BRIEF) != 0 && op->set->is_host_wide;
    return is_passed ? op->request->urgency : tt_pace_urgency(op);
}

/* Set the fields that do not change from stage to stage. An op kept for this recipe has most of
 * them. */
static void exec_prepare(tt_op *op)
{
    TT_DEBUG_ASSERT(op->phase == OP_RUNNING);
    tt_exec *exec = &op->exec;
    if (exec->stage == NULL) {
        const bool is_pair = op->space == &tt_space_pair;
        exec->members = op->members;
        exec->member_of = is_pair ? NULL : op->set->member_of;
        exec->identity = tt_op_identity(op, TT_FRAME_DATA);
        exec->tells = op->control->config.is_paced;
        exec->is_host_wide = !is_pair && op->set->is_host_wide;
    }
    TT_ASSERT(exec->identity.descriptor == op->recipe->descriptor);
    exec->identity.op = op->sequence;
    exec->urgency = exec_urgency(op);
    exec->age = op->paced.age;
}

void tt_op_object(tt_op *op, tt_status status, const tt_text *why)
{
    TT_DEBUG_ASSERT(status < 0);
    tt_text text = {0};
    tt_text_add(&text, "rank %u: %s: %s", op->control->world.rank, tt_request_what(op->request),
                why->length > 0 ? why->bytes : tt_status_text(status));
    tt_agree_object(op, status, text.bytes);
}

bool tt_op_is_launched(const tt_op *op)
{
    return op->phase == OP_RUNNING && (op->recipe->traits & TRAIT_ENGINE) != 0 &&
           op->recipe->stages[op->stage].kind == TT_STAGE_LAUNCH;
}

/* The op's next stage; or, if it cannot begin, the end. */
static void stage_begin_prepared(tt_op *op)
{
    tt_text text;
    tt_text_clear(&text);
    tt_status status = tt_op_prepare(op, &text);
    if (status == TT_OK && tt_op_is_launched(op)) {
        tt_engine_agreed(op);
        return;
    }
    if (status == TT_OK) {
        status = tt_exec_start(&op->exec);
    }
    if (status != TT_OK) {
        tt_op_object(op, status, &text);
    }
}

static void stage_begin(tt_op *op)
{
    TT_DEBUG_ASSERT(op->stage < op->recipe->stage_count);
    tt_exec *exec = &op->exec;
    const tt_request *request = op->request;
    const bool is_straight = (op->recipe->traits & TRAIT_STRAIGHT) != 0 && request->output != NULL;
    exec->identity.stage = op->stage;
    if (!is_straight || exec->stage == NULL) {
        stage_begin_prepared(op);
        return;
    }
    TT_ASSERT(exec->stage == &op->recipe->stages[0]);
    exec->input = request->input;
    exec->output = request->output;
    const tt_status status = tt_exec_start(exec);
    TT_ASSERT(status == TT_OK); /* it was laid out by an earlier run */
}

void tt_op_begin(tt_op *op)
{
    if ((op->recipe->traits & TRAIT_BRIEF) != 0 || !tt_pace_hold(op)) {
        tt_op_begin_now(op);
    }
}

/* Fails the op if its failure is known already; true: it has failed. */
static bool is_doomed(tt_op *op)
{
    if (op->set->broken == TT_ERR_PEER_DOWN) {
        tt_op_set_phase(op, OP_DISPUTED); /* no stage of it has begun */
        tt_op_fail(op, op->set->broken, op->set->broken_text);
        return true;
    }
    return op->control->early_verdicts != NULL && tt_early_verdict_take(op);
}

void tt_op_begin_now(tt_op *op)
{
    const uint16_t traits = op->recipe->traits;
    TT_DEBUG_ASSERT((traits & TRAIT_BARREN) == 0);
    if (op->phase != OP_RUNNING) {
        if (op->phase != OP_DISPUTED) {
            tt_op_clock(op, TT_SPAN_QUEUE, 0, &op->control->counters.queued_ns);
        }
        tt_op_set_phase(op, OP_RUNNING);
    }
    if ((traits & TRAIT_BRIEF) == 0) {
        tt_pace_run(op);
    }
    if ((op->set->broken < 0 || op->control->early_verdicts != NULL) && is_doomed(op)) {
        return;
    }
    if ((traits & TRAIT_ENGINE) != 0) {
        tt_engine_enter(op);
    }
    exec_prepare(op);
    stage_begin(op);
    const tt_exec *exec = &op->exec;
    if (!exec->is_running || exec->has_work || exec->status < 0 || op->set->broken < 0) {
        tt_op_settle(op);
    }
}

static void exec_failed(tt_op *op)
{
    const tt_status status = op->exec.status;
    const uint32_t member = op->exec.culprit;
    TT_DEBUG_ASSERT(status < 0);
    tt_text text = {0};
    if (status == TT_ERR_MISMATCH && tt_feedback_is_astray(op, &text)) {
        tt_agree_object(op, status, text.bytes);
        return;
    }
    if (status == TT_ERR_MISMATCH) {
        tt_agree_dispute(op);
        return;
    }
    if ((status == TT_ERR_PEER_DOWN || status == TT_ERR_PEER_LEFT) &&
        !op->control->peers[op->members[member]].is_gone) {
        return; /* only a send has failed: whether the rank is down or has left, and why, is the
                   driver's next report, which others must get before this call ends and this rank
                   leaves */
    }
    if (status == TT_ERR_PEER_DOWN) {
        TT_DEBUG_ASSERT(member < op->size);
        const uint32_t rank = op->members[member];
        const bool has_left = op->control->peers[rank].status == TT_ERR_PEER_LEFT;
        tt_text_add(&text, has_left ? "rank %u has left the job" : "rank %u is down", rank);
        tt_op_fail(op, has_left ? TT_ERR_PEER_LEFT : status, text.bytes);
        return;
    }
    if (status == TT_ERR_NO_MEMORY) {
        tt_text_add(&text, "rank %u is ", op->control->world.rank);
    }
    tt_text_add(&text, "%s", tt_status_text(status));
    if (status == TT_ERR_BAD_WIRE && member != UINT32_MAX) {
        tt_text_add(&text, ", rank %u", op->members[member]);
    }
    tt_agree_object(op, status, text.bytes);
}

void tt_op_settle(tt_op *op)
{
    while (op->phase == OP_RUNNING) {
        tt_exec *exec = &op->exec;
        if (exec->is_running && op->set->broken < 0 && !tt_failure_allows(op)) {
            return;
        }
        if (exec->status < 0) {
            exec_failed(op);
            return;
        }
        if (exec->is_running) {
            op->control->has_work |= exec->has_work;
            return;
        }
        if (tt_op_is_launched(op)) {
            return;
        }
        if (op->weight > 0 || op->control->tracer != NULL) {
            tt_op_clock_stage(op, exec->stage);
        }
        if (op->stage + 1 == op->recipe->stage_count) {
            tt_op_end(op, TT_OK);
            return;
        }
        op->stage++;
        TT_DEBUG_ASSERT(op->stage < op->recipe->stage_count);
        stage_begin(op);
    }
}

/* ---- the beginning ---- */

void tt_op_begin_posted(tt_op *op)
{
    tt_order *order = &op->set->calls;
    tt_exec *exec = &op->exec;
    TT_ASSERT(op->space == &tt_space_calls && exec->stage != NULL);
    TT_DEBUG_ASSERT(exec->stage == &op->recipe->stages[0]);
    TT_DEBUG_ASSERT(order->ops[op->sequence % OPS_AHEAD_MAX] == NULL);
    order->ops[op->sequence % OPS_AHEAD_MAX] = op;
    const tt_status status = tt_exec_start(exec);
    TT_ASSERT(status == TT_OK); /* its memory is reserved */
    if (!exec->is_running || exec->status < 0) {
        tt_op_settle(op);
    }
}

void tt_op_refuse(tt_op *op, tt_status status, const char *text)
{
    TT_DEBUG_ASSERT(status < 0);
    tt_op_set_phase(op, OP_RUNNING); /* an op that waited for its turn has left its queue */
    if (op->space == &tt_space_planned && op->control->early_verdicts != NULL &&
        tt_early_verdict_take_if_verdict(op)) {
        return; /* the others have the verdict already */
    }
    tt_agree_object(op, status, text);
}
