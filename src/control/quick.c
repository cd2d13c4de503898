/* SPDX-License-Identifier: Apache-2.0
 *
 * quick.c - a call, small or in shared memory, that is what an earlier one was: nothing of it is
 * checked, hashed, chosen or laid out again.
 *
 * The op of the earlier call still has its claim, descriptor, problem and plan, and is kept for
 * calls like it (idle.h; of named calls, the last one). A request that makes the same claim, on a
 * set with which all is well, takes the next place and runs that plan. Whatever is out of the
 * ordinary goes the long way (op.c). */
#include "control/quick.h"

#include <string.h>

#include "base/assert.h"
#include "base/plant.h"
#include "control/engine.h"
#include "control/named.h"
#include "control/pace.h"

enum {
    TIMED_ONE_IN = 16, /* of these calls one is timed, and counted for the others */
    /* A call that was not timed is dated when the patrol finds it: no matter for a deadline of so
     * many rounds of it. */
    PATROLS_MIN = 100,
    LONG_BYTES_MIN = 128 * 1024, /* beside these the clock is nothing: they are all timed */
};

/* A planned tensor that goes alone, by a call of its own. */
static bool is_single(const tt_op *op)
{
    const tt_named *named = op->request->named;
    return op->space == SPACE_PLANNED && op->planned != NULL && op->slot != UINT32_MAX &&
           named != NULL && named->member_max == 0 && op->request->group == NULL;
}

/* Does it share memory, so that places are to be told before it is run? */
static bool has_places(const tt_op *op)
{
    return op->exec.problem.facts != NULL && !op->by_engine;
}

/* Of an op that has just ended well: may its record serve the next call as it is? */
bool tt_quick_keeps(tt_op *op)
{
    const tt_exec *exec = &op->exec;
    const bool is_call = op->space == SPACE_CALLS && op->claim.name[0] == 0;
    op->is_plain =
        is_call && op->set->id == 0 && op->claim.postscale == 1.0 && op->claim.shape[0] == 0;
    if (op->claim.form != 0 || op->claim.prescale != 1.0 || op->divisor != op->set->size) {
        return false;
    }
    if (op->by_engine) { /* the plan is that of the agreement before it */
        return is_call && op->phase == OP_ENGINE && op->claim.collective == TT_ALLREDUCE &&
               exec->is_planned && exec->plan.is_flat;
    }
    if (op->phase != OP_DATA && !TT_PLANT(IDLE_AFTER_FAILURE)) {
        return false;
    }
    if (has_places(op)) {
        return is_call && op->request->output_capacity == 0 && tt_exec_can_meet(exec);
    }
    return (is_call || is_single(op)) && exec->is_planned && exec->plan.is_flat;
}

void tt_quick_release(tt_control *control)
{
    tt_op *op = control->resting;
    if (op != NULL) {
        control->resting = NULL;
        op->is_quick = false;
        op->kept->is_resting = false;
        tt_named_release(control, op->kept);
        op->kept = NULL;
        op->next = control->free_ops;
        control->free_ops = op;
    }
}

void tt_quick_rest(tt_op *op)
{
    tt_control *control = op->control;
    tt_named *named = op->request->named;
    tt_quick_release(control);
    named->is_resting = true;
    op->next = NULL;
    op->kept = named;
    control->resting = op;
}

/* Are they one buffer, if the plan is for one, or else apart? An engine takes either. */
static bool has_buffers(const tt_request *request, const tt_op *op)
{
    const tt_problem *problem = &op->exec.problem;
    const uintptr_t input = (uintptr_t)request->input, output = (uintptr_t)request->output;
    const uint64_t distance = input > output ? input - output : output - input;
    const uint64_t bytes =
        op->by_engine ? request->count * tt_dtype_bytes(request->dtype) : problem->bytes;
    const bool is_in_place = input == output;
    if (has_places(op) && problem->collective != TT_ALLREDUCE) {
        /* How far apart they must be was checked when these were first given. */
        return input != 0 && request->input == op->exec.input && request->output == op->exec.output;
    }
    if (problem->is_in_place != is_in_place && !op->by_engine) {
        return false;
    }
    return bytes == 0 || (input != 0 && output != 0 && (is_in_place || distance >= bytes));
}

static bool is_named_so(const tt_op *op, const tt_request *request)
{
    if (op->space == SPACE_CALLS) {
        return request->name == NULL;
    }
    const int form = (request->is_alone ? CLAIM_ALONE : 0) |
                     (tt_request_is_tuned(op->control, request) ? CLAIM_TUNED : 0);
    return request->name != NULL && request->group == NULL && form == op->claim.form &&
           strcmp(request->name, op->claim.name) == 0;
}

static bool has_shape(const tt_op *op, const tt_request *request)
{
    const uint8_t *shape = op->claim.shape;
    return request->shape[0] == shape[0] &&
           (shape[0] == 0 || memcmp(request->shape, shape, TT_SHAPE_BYTES) == 0);
}

/* What is not there in a plain request. */
static bool repeats_rest(const tt_op *op, const tt_request *request)
{
    const tt_claim *claim = &op->claim;
    return request->set == op->set->id && request->prescale == claim->prescale &&
           request->postscale == claim->postscale && is_named_so(op, request) &&
           !request->is_uneven && !request->is_by_active && !request->is_join &&
           !request->is_identity && request->objection == TT_OK && request->deadline_ns == 0 &&
           request->output_capacity == 0 && has_shape(op, request);
}

/* Does it claim what the op's record says? */
static bool repeats(const tt_op *op, const tt_request *request)
{
    const tt_claim *claim = &op->claim;
    return (request->count == claim->count || TT_PLANT(REPEAT_OF_ANOTHER_COUNT)) &&
           request->collective == (tt_collective)claim->collective &&
           request->dtype == (tt_dtype)claim->dtype && request->redop == (tt_redop)claim->redop &&
           ((TT_PLANT(SETTING_NOT_IN_KEY) && op->control->world.rank == 0) ||
            tt_op_salt(op->control, request->salt, op->control->config.segment_bytes) ==
                claim->salt) &&
           ((op->is_plain && request->is_plain) || repeats_rest(op, request)) &&
           (!has_places(op) || request->root == op->exec.problem.root) && has_buffers(request, op);
}

static bool is_smooth(const tt_control *control, const tt_op *op)
{
    const tt_set *set = op->set;
    const uint64_t deadline_ns = control->config.deadline_ns;
    return control->shut_down == TT_OK && control->fates == NULL &&
           (deadline_ns == 0 || deadline_ns >= (uint64_t)PATROLS_MIN * PATROL_NS) &&
           set->broken == TT_OK && set->late == TT_OK && set->phase == SET_OPEN &&
           !(op->by_engine && set->engine_is_stuck);
}

/* Give it the next place of the set's order; false: others come before it. */
static bool place_call(tt_op *op)
{
    tt_order *order = &op->set->calls;
    if (order->queue != NULL || order->ops[order->next % OPS_AHEAD_MAX] != NULL ||
        order->staged_count >= op->control->config.staged_max) {
        return false;
    }
    op->sequence = order->next++;
    op->weight = op->sequence % TIMED_ONE_IN == 0 ? TIMED_ONE_IN : 0;
    order->ops[op->sequence % OPS_AHEAD_MAX] = op;
    return true;
}

/* The next occurrence of its planned tensor; false: it is not planned any more. */
static bool place_planned(tt_op *op, tt_request *request)
{
    tt_set *set = op->set;
    const tt_upset *tensor = &op->tensor;
    if (set->shut != TT_OK || set->join != NULL) {
        return false;
    }
    const uint64_t order =
        tt_negotiator_next(set->negotiator, op->slot, tensor->generation, tensor->index);
    const uint64_t key = tt_planned_key(tensor->generation, tensor->index, order, 0);
    tt_planned *planned = order > 0 ? tt_planned_begin(op->control, set, key) : NULL;
    if (planned == NULL) {
        return false;
    }
    TT_ASSERT(op->control->resting == op);
    TT_ASSERT(planned->open == NULL); /* the name was free */
    tt_negotiator_repeat(set->negotiator, op->slot);
    op->sequence = key;
    op->planned = planned;
    op->weight = order % TIMED_ONE_IN == 0 ? TIMED_ONE_IN : 0;
    planned->open = op;
    op->control->resting = NULL;
    op->kept->is_resting = false;
    op->kept->request = request;
    op->kept->open_count = 1;
    return true;
}

/* It has its place, and perhaps its frame is on its way already: what every call begins with. */
static void begin(tt_op *op, tt_request *request)
{
    tt_control *control = op->control;
    control->pending++;
    op->request = request;
    request->op = op;
    request->named = op->space == SPACE_CALLS ? NULL : op->kept;
    request->has_strays = false;
    op->stall_text[0] = 0;
    op->reported_after_ns = op->submitted_ns = op->heard = op->heard_ns = 0;
    if (op->weight > 0 || control->tracer != NULL) {
        tt_op_date(op, tt_now(control->platform));
    }
    if (control->patrol_ns == UINT64_MAX) {
        tt_control_watch(control);
    }
}

static void name_frames(tt_op *op)
{
    op->exec.identity.op = op->exec.arriving.op = op->sequence;
    op->exec.age = op->age = op->control->pace.next_age++;
}

/* In shared memory: tell where the buffers lie, and hear where theirs do. */
static bool submit_places(tt_op *op, tt_request *request)
{
    tt_control *control = op->control;
    tt_exec *exec = &op->exec;
    op->request = request;
    exec->input = request->input;
    exec->output = request->output;
    if (control->config.is_paced || !tt_op_locate(op) || !place_call(op)) {
        op->request = NULL;
        return false;
    }
    const bool is_long = exec->problem.bytes >= LONG_BYTES_MIN;
    op->weight = is_long ? 1 : op->weight;
    begin(op, request);
    name_frames(op);
    request->segment_bytes = control->config.segment_bytes;
    op->facts[exec->problem.self] = op->fact;
    op->stopped[0] = 0;
    exec->identity.stage = exec->arriving.stage = 0;
    exec->urgency = tt_pace_urgency(op);
    tt_op_set_phase(op, OP_FACTS);
    op->has_views = true; /* who has all places may store here from now on */
    if (is_long) {
        const bool is_held = tt_pace_hold(op);
        TT_ASSERT(!is_held); /* nothing is, unless it is paced */
    }
    if (!tt_exec_meet(exec, op->facts)) {
        tt_op_begin_now(op);
        return true;
    }
    tt_pace_run(op);
    control->quick = op;
    tt_op_settle(op);
    return true;
}

/* The op that is kept for such a call, or NULL. */
static tt_op *find_kept(const tt_control *control, const tt_request *request)
{
    tt_op *op = control->idle.last;
    if (request->name != NULL) {
        op = control->resting;
    } else if (op == NULL || op->phase != OP_FREE || !repeats(op, request)) {
        op = tt_idle_find(&control->idle, request);
    } else {
        return op;
    }
    return op != NULL && (repeats(op, request) || TT_PLANT(HINT_NOT_CHECKED)) ? op : NULL;
}

bool tt_quick_submit(tt_control *control, tt_request *request)
{
    const bool is_call = request->name == NULL;
    tt_op *op = find_kept(control, request);
    if (op == NULL || !is_smooth(control, op)) {
        return false;
    }
    TT_ASSERT(op->is_quick && op->phase == OP_FREE);
    control->idle.last = is_call ? op : control->idle.last;
    if (has_places(op)) {
        return submit_places(op, request);
    }
    if (!(is_call ? place_call(op) : place_planned(op, request))) {
        return false;
    }
    tt_exec *exec = &op->exec;
    name_frames(op);
    exec->urgency = request->urgency;
    exec->input = request->input;
    exec->output = request->output;
    const bool is_begun = !op->by_engine && tt_exec_repeat(exec);
    begin(op, request);
    tt_op_set_phase(op, op->by_engine ? OP_FACTS : OP_DATA);
    if (op->by_engine) {
        tt_engine_repeat(op);
    }
    if (!is_begun) {
        const tt_status status = tt_exec_start(exec);
        TT_ASSERT(status == TT_OK); /* its plan and memory are there */
    }
    control->quick = exec->is_quick && exec->is_running ? op : NULL;
    if (control->quick == NULL) {
        tt_op_settle(op);
    }
    return true;
}

/* Take the op out of the list it is found by, and remember what it was. */
static void displace(tt_op *op)
{
    if (op->space == SPACE_PLANNED) {
        const tt_head key = op->exec.identity;
        TT_ASSERT(op->planned->open == op);
        op->planned->open = NULL;
        tt_order_remember(op->set, &key, &op->claim, TT_OK);
        return;
    }
    tt_order *order = &op->set->calls;
    order->ops[op->sequence % OPS_AHEAD_MAX] = NULL;
    tt_order_keep(order, op->sequence, &op->claim);
}

/* Nobody has asked about the call, and nothing else waits: its end is tt_op_end without all that
 * would find nothing to do. */
static void end(tt_op *op)
{
    tt_control *control = op->control;
    tt_request *request = op->request;
    if (op->exec.status < 0 || control->cases != NULL || control->flow.parked_count > 0 ||
        control->flow.note_count > 0 || op->set->calls.queue != NULL) {
        tt_op_settle(op);
        return;
    }
    /* One that lasted until a patrol saw it has waited for someone's only frame. */
    if (op->weight == 1 && op->exec.plan.is_flat) {
        tt_op_clock(op, TT_STAGE_WAIT, 0, &control->counters.waiting_ns);
    } else if (op->weight > 0 || control->tracer != NULL) {
        tt_op_clock(op, TT_STAGE_EXCHANGE, 0, &control->counters.exchange_ns);
    }
    if (op->is_running || op->short_bytes > 0 || op->charge_bytes > 0) {
        tt_pace_over(op);
    }
    displace(op);
    control->quick = NULL;
    tt_op_free(op);
    control->counters.ops_finished++;
    tt_request_end(request, TT_OK, request->error);
    if (control->pace.held.count > 0 && control->shut_down == TT_OK) {
        tt_pace_pump(control);
    }
}

static bool is_of(const tt_op *op, const tt_head *head)
{
    return head->op == op->sequence && head->descriptor == op->descriptor &&
           head->kind == TT_FRAME_DATA && head->stage == op->exec.identity.stage &&
           head->set == op->set->id && (head->flags & ~TT_FLAG_EAGER) == op->exec.identity.flags &&
           head->epoch == op->control->world.epoch;
}

bool tt_quick_frame(tt_control *control, uint32_t peer, const tt_head *head, const void *payload)
{
    tt_op *op = control->quick;
    if (op == NULL || op->set->broken < 0) {
        return false;
    }
    tt_exec *exec = &op->exec;
    const uint32_t member = op->set->member_of[peer];
    if (member >= op->set->size) {
        return false;
    }
    if (exec->is_quick) {
        if (!tt_head_equals(head, &exec->posted) ||
            !tt_exec_quick_frame(exec, member, head, payload)) {
            return false;
        }
    } else if (!is_of(op, head)) {
        return false;
    } else if (exec->is_meeting) {
        if (!tt_exec_meet_frame(exec, member, head, payload)) {
            return false;
        }
        tt_op_settle(op);
        return true;
    } else if (!exec->is_again || !tt_exec_part_frame(exec, member, head)) {
        return false;
    }
    if (!op->exec.is_running && op->by_engine) {
        control->quick = NULL;
        tt_op_settle(op); /* agreed: it goes to the engine */
    } else if (!op->exec.is_running) {
        end(op);
    }
    return true;
}

bool tt_quick_give_back(tt_control *control)
{
    const bool has_rest = control->resting != NULL;
    tt_quick_release(control);
    return has_rest || tt_idle_drop_one(control, NULL);
}

void tt_quick_forget(tt_control *control)
{
    tt_quick_release(control);
    tt_idle_drop_all(control);
}
