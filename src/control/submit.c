/* SPDX-License-Identifier: Apache-2.0
 *
 * submit.c - from a request to an op: finds its recipe and its place. */
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/plant.h"
#include "control/any.h"
#include "control/named/name.h"

enum { TIMED_ONE_IN = 16 }; /* one short call in so many is timed, and counted for the others */

/* How many calls its time is counted for; 0: it is not timed. */
static uint32_t weight_of(const tt_op *op)
{
    const tt_request *request = op->request;
    if ((op->recipe->traits & TRAIT_SAMPLED) == 0 || op->control->times_all ||
        request->deadline_ns > 0 ||
        (request->named != NULL && request->named->deadline_ns != UINT64_MAX)) {
        return 1;
    }
    return op->paced.age % TIMED_ONE_IN == 0 ? TIMED_ONE_IN : 0;
}

/* Must the arrival of partners' frames be timed? Not if its first stage ends with it anyway. */
static bool hears(const tt_recipe *recipe)
{
    TT_DEBUG_ASSERT((recipe->traits & TRAIT_BARREN) != 0 || recipe->stage_count > 0);
    return (recipe->traits & (TRAIT_BRIEF | TRAIT_BARREN)) == 0 &&
           recipe->stages[0].kind == TT_STAGE_EXCHANGE;
}

/* Date the op: it was submitted now. */
static void date(tt_op *op)
{
    TT_DEBUG_ASSERT(op->submitted_ns == 0);
    const tt_request *request = op->request;
    op->heard_ns = 0;
    op->heard = op->weight > 0 && hears(op->recipe) ? 0 : UINT64_MAX;
    tt_op_date(op, tt_now(op->control->platform));
    if (request->named != NULL) { /* the time until it could begin counts */
        op->deadline_ns = tt_min_u64(op->deadline_ns, request->named->deadline_ns);
        op->waiting_ns = request->named->submitted_ns;
    }
}

/* From now on the request runs as this op, which was free. */
static void run(tt_op *op, tt_request *request)
{
    TT_DEBUG_ASSERT(op->recipe->idle != op);
    tt_control *control = op->control;
    op->request = request;
    tt_op_set_phase(op, OP_RUNNING);
    op->stage = 0;
    tt_pacer_enter(&control->pace.pacer, &op->paced);
    request->has_strays = false;
    request->op = op;
    control->pending++;
}

/* The op has its number. Of many short calls one is timed. */
static void watch(tt_op *op)
{
    TT_DEBUG_ASSERT(op->phase == OP_RUNNING);
    tt_control *control = op->control;
    op->weight = weight_of(op);
    op->submitted_ns = 0;
    op->heard = UINT64_MAX;
    if (op->weight > 0 || control->tracer != NULL) {
        date(op);
    }
    if (control->patrol_ns == UINT64_MAX) {
        tt_control_watch(control);
    }
}

static void refuse_starved(tt_op *op)
{
    tt_text text = {0};
    tt_text_add(&text, "rank %u is out of memory", op->control->world.rank);
    tt_op_refuse(op, TT_ERR_NO_MEMORY, text.bytes);
}

/* The set's next call returns a failure that arrived late. */
static void refuse_late(tt_op *op)
{
    const tt_status late = op->set->late;
    TT_DEBUG_ASSERT(late < 0);
    op->set->late = TT_OK;
    tt_op_refuse(op, late, op->set->late_text);
}

static void submit(tt_recipe *recipe, tt_request *request, const tt_standing *standing,
                   const tt_failure *objection)
{
    bool is_last;
    tt_set *set = recipe->set;
    TT_DEBUG_ASSERT((recipe->traits & TRAIT_BARREN) == 0 || recipe->stage_count == 0);
    tt_control *control = set->control;
    tt_op *op = tt_op_take(control, recipe, &is_last);
    run(op, request);
    op->space = standing->space;
    op->divisor = standing->active > 0 ? standing->active : set->size;
    const bool waits = tt_any_waits(set, request);
    const bool has_room = op->space->number(op, standing);
    watch(op);
    /* The reserved block serves only calls that end at once. */
    const bool has_no_recipe = (recipe->traits & TRAIT_BARREN) != 0 &&
                               (objection == NULL || control->recipes.spare == NULL);
    if (objection != NULL && !waits) {
        tt_op_refuse(op, objection->status, objection->text);
    } else if (is_last || !has_room || has_no_recipe || set->broken == TT_ERR_NO_MEMORY) {
        refuse_starved(op);
    } else if (set->late < 0) {
        refuse_late(op);
    } else if (waits) {
        tt_any_wait(op, objection);
    } else {
        op->space->enter(op);
    }
}

void tt_op_submit(tt_control *control, tt_set *set, tt_request *request,
                  const tt_standing *standing, const tt_failure *objection)
{
    TT_DEBUG_ASSERT(objection == NULL || objection->status < 0);
    const bool is_bound = request->program == NULL || request->program->scheme == NULL ||
                          tt_feedback_bind(control, set, request) == TT_OK;
    tt_recipe *recipe =
        objection == NULL && is_bound ? tt_recipe_of(control, set, request, standing->space) : NULL;
    if (recipe == NULL) {
        recipe = tt_recipe_barren(control, set, request, standing->space);
    }
    submit(recipe, request, standing, objection);
}

/* Why this rank refuses a request, as the text for all ranks. All parts of a group have the same
 * text, whichever of them a peer receives first. */
static void add_blame(const tt_control *control, const tt_request *request, tt_text *text_io)
{
    const tt_text words = *text_io;
    tt_text_clear(text_io);
    tt_text_add(text_io, "rank %u: %s: %s", control->world.rank, tt_request_what(request),
                words.bytes);
}

void tt_request_submit_again(tt_control *control, tt_request *request)
{
    tt_set *set = tt_set_find(control, request->set);
    tt_text text;
    tt_text_clear(&text);
    request->named = NULL;
    if (TT_PLANT(SETTING_TAKEN_ANEW)) {
        request->is_tuned = tt_request_is_tuned(control, request);
    }
    if (control->shut_down < 0) {
        tt_request_refuse(request, control->shut_down, control->shut_down_text);
        return;
    }
    if (set == NULL || set->self == UINT32_MAX) {
        tt_text_add(
            &text, set == NULL ? "process set %u does not exist" : "not a member of process set %u",
            request->set);
        tt_request_refuse(request, TT_ERR_BAD_ARGUMENT, text.bytes);
        return;
    }
    if (request->is_join) {
        tt_host_join(control, set, request);
        return;
    }
    tt_status status = request->objection;
    if (status < 0) {
        tt_text_add(&text, "%s", request->error);
    } else {
        status = tt_request_check(request, set->self, set->size, &text);
    }
    const bool is_pair = request->collective == TT_SEND || request->collective == TT_RECEIVE;
    if (status != TT_OK && is_pair && (request->root >= set->size || request->root == set->self)) {
        tt_request_refuse(request, status, text.bytes); /* there is no peer to notify */
        return;
    }
    if (status != TT_OK) {
        add_blame(control, request, &text);
    }
    const tt_failure objection = {.status = status, .text = text.bytes};
    if (request->name != NULL && !is_pair) {
        if (status == TT_OK && request->program != NULL && request->program->scheme != NULL) {
            (void)tt_feedback_learn(control, request->program->scheme); /* else with its op */
        }
        tt_name_submit(control, set, request, status != TT_OK ? &objection : NULL);
        return;
    }
    if (is_pair && !tt_any_has_room(set, request)) {
        return;
    }
    const tt_standing standing = {.space = is_pair ? &tt_space_pair : &tt_space_calls};
    tt_op_submit(control, set, request, &standing, status != TT_OK ? &objection : NULL);
}

/* An op of one short frame that may begin at once: its frame is sent before any bookkeeping. False:
 * it may have to wait. */
static bool post_first(tt_op *op, const tt_request *request)
{
    const tt_control *control = op->control;
    const tt_order *order = &op->set->calls;
    tt_exec *exec = &op->exec;
    if (!exec->is_host_wide || request->output == NULL || order->queue.first != NULL ||
        order->ops[op->sequence % OPS_AHEAD_MAX] != NULL ||
        order->staged_count >= control->config.staged_max || control->early_verdicts != NULL ||
        exec->laid_out != exec->stage) {
        return false;
    }
    exec->identity.op = op->sequence;
    exec->input = request->input;
    exec->output = request->output;
    exec->urgency = request->urgency;
    exec->age = control->pace.pacer.next_age; /* which it is given next */
    tt_exec_post(exec);
    return true;
}

/* A call with a recipe, of which only the buffers need a check: it may take the op that is kept for
 * it, with the same standing every time. */
static bool submit_known(tt_control *control, tt_set *set, tt_request *request)
{
    static const tt_standing calls = {.space = &tt_space_calls};
    tt_recipe *known = tt_recipe_known(control, set, request);
    if (known == NULL) {
        return false;
    }
    TT_DEBUG_ASSERT(known->set == set && (known->traits & TRAIT_BARREN) == 0);
    if (known->idle == NULL || set->broken < 0 || set->late < 0) {
        submit(known, request, &calls, NULL);
        return true;
    }
    tt_op *op = tt_idle_take(control, known);
    TT_ASSERT(op->space == &tt_space_calls && op->divisor == set->size);
    op->sequence = set->calls.next++;
    const uint16_t plain = TRAIT_BRIEF | TRAIT_STRAIGHT;
    const bool begins = (known->traits & plain) == plain && post_first(op, request);
    run(op, request);
    watch(op);
    if (begins) {
        tt_op_begin_posted(op);
        return true;
    }
    op->space->enter(op);
    return true;
}

static void refuse_removed(tt_request *request)
{
    tt_text text = {0};
    tt_text_add(&text, "process set %u does not exist", request->set);
    tt_request_refuse(request, TT_ERR_BAD_ARGUMENT, text.bytes);
}

void tt_control_submit(tt_control *control, tt_request *request)
{
    if (request->name != NULL && tt_name_repeat(control, request)) {
        return;
    }
    if (control->names != NULL && control->names->later != NULL) {
        tt_group_flush(control);
        tt_name_submit_later(control); /* requests that wait for these names keep their order */
    }
    request->segment_bytes = control->config.segment_bytes;
    request->due_ns = 0;
    request->is_tuned = tt_request_is_tuned(control, request);
    tt_set *set = tt_set_find(control, request->set);
    if (set == NULL || set->self == UINT32_MAX || control->shut_down < 0) {
        tt_request_submit_again(control, request); /* to be refused */
    } else if (set->phase != SET_OPEN) {           /* requests submitted earlier may continue */
        refuse_removed(request);
    } else if (!submit_known(control, set, request)) {
        tt_request_submit_again(control, request);
    }
}
