/* SPDX-License-Identifier: Apache-2.0
 *
 * op.c - life of an op: its place in the order, its stages, its end. */
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/plant.h"
#include "control/any.h"
#include "control/engine.h"
#include "control/named.h"
#include "control/quick.h"

enum { TOKEN_LANE_BITS = 4 };

_Static_assert(TT_LANES_MAX <= 1 << TOKEN_LANE_BITS, "a token's low bits are its lane");

uint32_t tt_op_size(const tt_op *op)
{
    return op->is_pair ? 2 : op->set->size;
}

uint32_t tt_op_self(const tt_op *op)
{
    if (op->is_pair) {
        return op->is_sender ? 0 : 1;
    }
    return op->set->self;
}

/* Who decides about this op: the first member that is still there. */
uint32_t tt_op_first(const tt_op *op)
{
    uint32_t member = 0;
    while (member < tt_op_self(op) && op->control->peers[tt_op_member_rank(op, member)].is_gone) {
        member++;
    }
    return tt_op_member_rank(op, member);
}

uint32_t tt_op_member_rank(const tt_op *op, uint32_t member)
{
    return op->is_pair ? op->pair_members[member] : op->set->members[member];
}

/* Head of frames about this op that this rank sends. */
tt_head tt_op_identity(const tt_op *op, tt_frame_kind kind)
{
    tt_head head = {.kind = (uint8_t)kind,
                    .set = op->set->id,
                    .op = op->sequence,
                    .descriptor = op->descriptor,
                    .epoch = op->control->world.epoch};
    switch (op->space) {
    case SPACE_CALLS:
        break;
    case SPACE_AGREED:
        head.flags = TT_FLAG_AGREED;
        break;
    case SPACE_PLANNED:
        head.flags = TT_FLAG_PLANNED;
        break;
    case SPACE_PAIR:
        head.flags = (uint8_t)(TT_FLAG_PAIR | (op->is_sender ? 0 : TT_FLAG_REPLY));
        break;
    }
    return head;
}

tt_head tt_op_arriving_key(const tt_op *op)
{
    tt_head head = tt_op_identity(op, TT_FRAME_DATA);
    if (op->is_pair) {
        head.flags ^= TT_FLAG_REPLY;
    }
    return head;
}

/* ---- storage ---- */

static tt_status ops_grow(tt_control *control)
{
    const uint32_t capacity = control->op_capacity == 0 ? 64 : 2 * control->op_capacity;
    tt_op **ops = tt_platform_allocate(control->platform, capacity * sizeof(*ops));
    if (ops == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    if (control->op_count > 0) {
        memcpy(ops, control->ops, control->op_count * sizeof(*ops));
    }
    tt_platform_release(control->platform, control->ops,
                        control->op_capacity * sizeof(*control->ops));
    control->ops = ops;
    control->op_capacity = capacity;
    return TT_OK;
}

static tt_status op_make(tt_control *control)
{
    if (control->op_count == control->op_capacity) {
        TT_TRY(ops_grow(control));
    }
    tt_op *op = tt_platform_allocate(control->platform, sizeof(*op));
    if (op == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    op->index = control->op_count;
    op->control = control;
    op->exec.flow = &control->flow;
    op->next = control->free_ops;
    control->free_ops = op;
    control->ops[control->op_count++] = op;
    return TT_OK;
}

tt_status tt_op_reserve(tt_control *control)
{
    return op_make(control);
}

/* One op is always kept, to tell the peers when there is no memory for another: `*is_last_out`. */
static tt_op *op_take(tt_control *control, bool *is_last_out)
{
    *is_last_out = control->free_ops->next == NULL && op_make(control) != TT_OK &&
                   !tt_quick_give_back(control);
    tt_op *op = control->free_ops;
    control->free_ops = op->next;
    op->next = NULL;
    return op;
}

void tt_op_release_all(tt_control *control)
{
    for (uint32_t i = 0; i < control->op_count; i++) {
        tt_op *op = control->ops[i];
        TT_ASSERT(op->phase == OP_FREE);
        tt_exec_fini(&op->exec);
        tt_platform_release(control->platform, op->facts, op->facts_bytes);
        tt_platform_release(control->platform, op->prescaled, op->prescaled_bytes);
        tt_platform_release(control->platform, op, sizeof(*op));
    }
    tt_platform_release(control->platform, control->ops,
                        control->op_capacity * sizeof(*control->ops));
}

/* ---- the end ---- */

static void list_remove(tt_op **link, const tt_op *op)
{
    while (*link != NULL && *link != op) {
        link = &(*link)->next;
    }
    if (*link != NULL) {
        *link = op->next;
    }
}

static void queue_add(tt_op ***end, tt_op *op)
{
    tt_op_set_phase(op, OP_QUEUED);
    op->next = NULL;
    **end = op;
    *end = &op->next;
}

static void queue_remove(tt_op **link, tt_op ***end, const tt_op *op)
{
    while (*link != op) {
        link = &(*link)->next;
    }
    *link = op->next;
    if (op->next == NULL) {
        *end = link;
    }
}

static void op_begin(tt_op *op);

/* May this op, the next in its order, begin? The first that is not over always may, on every rank:
 * so waiting for a place never closes a circle. */
static bool has_place(const tt_order *order, const tt_op *op)
{
    const uint32_t staged_max = op->control->config.staged_max;
    return order->ops[op->sequence % OPS_AHEAD_MAX] == NULL && order->staged_count < staged_max;
}

/* May it begin before its turn? It must be more urgent than all that runs; the places for this are
 * few, and none of those that are given in order. */
static bool has_extra_place(const tt_order *order, const tt_op *op)
{
    return order->ops[op->sequence % OPS_AHEAD_MAX] == NULL && order->extra_count < OPS_EXTRA_MAX &&
           op->request->urgency > op->control->flow.urgency_top && !tt_engine_can_take(op);
}

static void begin_in_place(tt_order *order, tt_op *op)
{
    op->next = NULL;
    order->ops[op->sequence % OPS_AHEAD_MAX] = op;
    op_begin(op);
}

static void begin_extra(tt_order *order, tt_op *op)
{
    op->is_extra = true;
    order->extra_count++;
    begin_in_place(order, op);
}

static void pair_begin(tt_op *op)
{
    tt_set *set = op->set;
    op->is_counted = true;
    set->pair_open[op->pair_index]++;
    op->next = set->pairs;
    set->pairs = op;
    op_begin(op);
}

/* One of a pair's ops is over: begin those that wait for it, in their order. */
static void pair_pump(tt_set *set, uint32_t index)
{
    if (set->is_pair_pumping) {
        return;
    }
    set->is_pair_pumping = true;
    for (tt_op **link = &set->pair_queue; *link != NULL;) {
        tt_op *op = *link;
        if (set->pair_open[index] >= PAIRS_AHEAD_MAX) {
            break;
        }
        if (op->pair_index != index) {
            link = &op->next;
            continue;
        }
        queue_remove(link, &set->pair_queue_end, op);
        pair_begin(op);
        link = &set->pair_queue; /* beginning may have ended any of them */
    }
    set->is_pair_pumping = false;
}

/* The op no longer counts among those in flight. */
static void uncount(tt_op *op)
{
    if (op->is_counted && op->is_pair) {
        op->set->pair_open[op->pair_index]--;
    } else if (op->is_counted) {
        tt_order_of(op->set, op->space)->staged_count--;
    }
    if (op->is_extra) {
        tt_order_of(op->set, op->space)->extra_count--;
    }
    op->is_counted = op->is_extra = false;
    tt_exec_trim_slots(&op->exec);
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

/* Begin queued ops whose place has become free. Ops may be over as soon as they begin: the
 * outermost call begins the next, so that the stack does not grow with their number. */
static void queue_pump(tt_order *order)
{
    if (order->is_pumping) {
        return;
    }
    order->is_pumping = true;
    while (order->queue != NULL && has_place(order, order->queue)) {
        tt_op *op = order->queue;
        queue_remove(&order->queue, &order->queue_end, op);
        begin_in_place(order, op);
    }
    for (tt_op *op; order->extra_count < OPS_EXTRA_MAX &&
                    (op = most_urgent(order->queue)) != NULL && has_extra_place(order, op);) {
        queue_remove(&order->queue, &order->queue_end, op);
        begin_extra(order, op);
    }
    order->is_pumping = false;
}

/* Take the op out of the list it is found by. */
static void displace(tt_op *op)
{
    tt_set *set = op->set;
    tt_order *order = tt_order_of(set, op->space);
    const bool is_queued = op->phase == OP_QUEUED;
    if (op->any != NULL) {
        tt_any_leave(op);
    } else if (op->space == SPACE_PAIR && is_queued) {
        queue_remove(&set->pair_queue, &set->pair_queue_end, op);
    } else if (op->space == SPACE_PAIR) {
        list_remove(&set->pairs, op);
    } else if (op->space == SPACE_PLANNED) {
        if (op->planned != NULL) {
            list_remove(&op->planned->open, op);
        }
    } else if (is_queued) {
        queue_remove(&order->queue, &order->queue_end, op);
    } else if (order->ops[op->sequence % OPS_AHEAD_MAX] == op) {
        order->ops[op->sequence % OPS_AHEAD_MAX] = NULL;
    }
}

void tt_op_free(tt_op *op)
{
    tt_control *control = op->control;
    const tt_request *request = op->request;
    tt_op_set_phase(op, OP_FREE);
    op->is_quick = op->is_quick && op->idle_era == control->idle.era;
    control->pending--;
    if (op->idle.is_in && op->is_quick) {
        op->request = NULL; /* it served a call like its own, and is where it was */
        return;
    }
    if (op->is_quick && op->space == SPACE_PLANNED) {
        tt_quick_rest(op);
    } else if (op->is_quick) {
        tt_idle_keep(control, op, request);
    } else if (op->idle.is_in) { /* it failed, or ran across a change of settings */
        tt_idle_drop(control, op);
    } else {
        op->next = control->free_ops;
        control->free_ops = op;
    }
    op->request = NULL;
}

void tt_op_end(tt_op *op, tt_status status)
{
    tt_control *control = op->control;
    tt_set *set = op->set;
    tt_request *request = op->request;
    const bool was_queued = op->phase == OP_QUEUED, is_pair = op->is_pair;
    const uint32_t pair_index = op->pair_index;
    const tt_upset tensor = op->tensor;
    const bool is_planned = op->space == SPACE_PLANNED;
    tt_order *order = tt_order_of(set, op->space);
    tt_any *any = op->any;
    const tt_head key = tt_op_arriving_key(op);
    TT_ASSERT(op->phase != OP_FREE);
    op->is_quick = (status == TT_OK || TT_PLANT(IDLE_AFTER_FAILURE)) && tt_quick_keeps(op);
    control->quick = control->quick == op ? NULL : control->quick;
    displace(op);
    if (control->cases != NULL) {
        tt_agree_forget(control, op);
    }
    if (control->flow.parked_count > 0 || control->flow.note_count > 0) {
        tt_flow_purge(&control->flow, &key, op->peer);
    }
    uncount(op);
    tt_pace_over(op);
    tt_order_remember(set, &key, &op->claim, status);
    tt_op_free(op);
    if (status == TT_OK) {
        control->counters.ops_finished++;
        request->error[0] = 0;
    } else {
        control->counters.ops_failed++;
        tt_agree_reason(control, &key, request->error);
    }
    if (status < 0 && is_planned) {
        tt_named_upset(set, tensor.generation, tensor.index);
    }
    tt_request_end(request, status, request->error);
    if (control->shut_down < 0) {
        return;
    }
    tt_pace_pump(control);
    if (any != NULL) {
        tt_any_pump(any);
    }
    if (was_queued) {
        return;
    }
    if (is_pair) {
        pair_pump(set, pair_index);
    } else if (order != NULL) {
        queue_pump(order);
    }
}

/* ---- stages ---- */

static void exec_prepare(tt_op *op, uint16_t stage)
{
    tt_exec *exec = &op->exec;
    exec->members = op->is_pair ? op->pair_members : op->set->members;
    exec->member_of = op->is_pair ? NULL : op->set->member_of;
    exec->identity = tt_op_identity(op, TT_FRAME_DATA);
    exec->identity.stage = stage;
    exec->arriving = exec->identity;
    if (op->is_pair) {
        exec->arriving.flags ^= TT_FLAG_REPLY;
    }
    exec->urgency = tt_pace_urgency(op);
    exec->age = op->age;
    exec->tells = op->control->config.is_paced;
    exec->is_host_wide = !op->is_pair && op->set->is_host_wide;
    exec->token = (uint64_t)op->index << TOKEN_LANE_BITS;
}

void tt_op_object(tt_op *op, tt_status status, const tt_text *why)
{
    tt_text text = {0};
    tt_text_add(&text, "rank %u: %s: %s", op->control->world.rank, tt_request_what(op->request),
                why->length > 0 ? why->bytes : tt_status_text(status));
    tt_agree_object(op, status, text.bytes);
}

/* Stage 1; or, if it cannot begin, the end. */
static void begin_data(tt_op *op)
{
    tt_text text;
    tt_text_clear(&text);
    if (op->phase == OP_FACTS) {
        tt_op_clock(op, TT_STAGE_WAIT, 0, &op->control->counters.waiting_ns);
        op->heard = UINT64_MAX; /* that was the wait for all of them */
    }
    if (op->exec.is_laid_out && (tt_exec_can_meet(&op->exec) || TT_PLANT(PLACES_NOT_ASKED_AGAIN))) {
        tt_op_set_phase(op, OP_DATA);
        op->exec.identity.stage = op->exec.arriving.stage = 1;
        const tt_status started = tt_exec_start(&op->exec);
        TT_ASSERT(started == TT_OK); /* its plan and memory are there */
        return;
    }
    tt_status status = tt_op_prepare_data(op, &text);
    if (op->by_engine && status == TT_OK) {
        tt_engine_agreed(op);
        return;
    }
    tt_op_set_phase(op, OP_DATA);
    exec_prepare(op, 1);
    if (status == TT_OK) {
        op->has_views = op->exec.problem.facts != NULL;
        status = tt_exec_start(&op->exec);
    }
    if (status != TT_OK) {
        tt_op_object(op, status, &text);
    }
}

static void op_begin(tt_op *op)
{
    if (!tt_pace_hold(op)) {
        tt_op_begin_now(op);
    }
}

void tt_op_begin_now(tt_op *op)
{
    if (op->phase == OP_QUEUED || op->phase == OP_HELD) {
        tt_op_clock(op, TT_STAGE_QUEUE, 0, &op->control->counters.queued_ns);
    }
    tt_op_set_phase(op, OP_DATA);
    tt_pace_run(op);
    if (op->set->broken == TT_ERR_PEER_DOWN) {
        tt_op_set_phase(op, OP_DISPUTED); /* it has no algorithm yet */
        tt_op_fail(op, op->set->broken, op->set->broken_text);
        return;
    }
    if (op->control->fates != NULL && tt_fate_take(op)) {
        return;
    }
    op->by_engine = tt_engine_take(op);
    if (!op->by_engine) {
        tt_op_choose(op);
    }
    if (tt_op_needs_facts(op)) {
        tt_op_set_phase(op, OP_FACTS);
        exec_prepare(op, 0);
        tt_text text;
        tt_text_clear(&text);
        tt_status status = tt_op_prepare_facts(op, &text);
        if (status == TT_OK) {
            status = tt_exec_start(&op->exec);
        }
        if (status != TT_OK) {
            tt_op_object(op, status, &text);
            return;
        }
    } else {
        begin_data(op);
    }
    tt_op_settle(op);
}

static void exec_failed(tt_op *op)
{
    const tt_status status = op->exec.status;
    const uint32_t member = op->exec.culprit;
    tt_text text = {0};
    if (status == TT_ERR_MISMATCH) {
        tt_agree_dispute(op);
        return;
    }
    if (status == TT_ERR_PEER_DOWN) {
        const uint32_t rank = tt_op_member_rank(op, member);
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
        tt_text_add(&text, ", rank %u", tt_op_member_rank(op, member));
    }
    tt_agree_object(op, status, text.bytes);
}

void tt_op_settle(tt_op *op)
{
    while (op->phase == OP_FACTS || op->phase == OP_DATA) {
        if (op->set->broken < 0 && op->exec.is_running && !tt_failure_allows(op)) {
            return;
        }
        if (op->exec.status < 0) {
            exec_failed(op);
            return;
        }
        if (op->exec.is_running) {
            op->control->has_work = op->control->has_work || op->exec.has_work;
            return;
        }
        if (op->phase == OP_DATA) {
            tt_op_clock_data(op);
            tt_op_end(op, TT_OK);
            return;
        }
        begin_data(op);
    }
}

/* ---- submission ---- */

/* The op's place in the order: per set, or per pair and direction. */
static void take_place(tt_op *op, const tt_standing *standing)
{
    tt_set *set = op->set;
    op->space = op->is_pair ? SPACE_PAIR : standing->space;
    op->divisor = standing->active > 0 ? standing->active : set->size;
    op->planned = NULL;
    op->tensor = (tt_upset){.generation = standing->generation, .index = standing->index};
    op->slot = standing->slot;
    if (op->space == SPACE_PLANNED) {
        op->sequence = standing->sequence;
        op->planned = tt_planned_begin(op->control, set, op->sequence);
        return;
    }
    if (!op->is_pair) {
        op->sequence = tt_order_of(set, op->space)->next++;
        return;
    }
    if (tt_any_waits(op->set, op->request)) {
        tt_any_place(op);
    } else {
        tt_pair_place(op, op->request->root);
    }
}

static void op_reset(tt_op *op, tt_request *request, tt_set *set)
{
    tt_control *control = op->control;
    op->request = request;
    op->set = set;
    op->is_pair = request->collective == TT_SEND || request->collective == TT_RECEIVE;
    op->is_sender = request->collective == TT_SEND;
    tt_op_date(op, tt_now(control->platform));
    tt_op_set_phase(op, OP_DATA);
    if (request->named != NULL) { /* the time until it could begin counts */
        op->deadline_ns = tt_min_u64(op->deadline_ns, request->named->deadline_ns);
        op->waiting_ns = request->named->submitted_ns;
    }
    op->weight = 1;
    op->heard = op->heard_ns = 0;
    op->is_quick = false;
    op->idle_era = control->idle.era;
    op->reported_after_ns = 0;
    op->has_views = op->is_counted = op->is_extra = op->by_engine = op->is_running = false;
    op->stall_text[0] = 0;
    op->age = control->pace.next_age++;
    op->charge_bytes = 0;
    op->exec.status = TT_OK;
    op->exec.is_running = false;
    request->has_strays = false;
    request->op = op;
    control->pending++;
}

static void place_and_begin(tt_op *op)
{
    tt_set *set = op->set;
    if (op->is_pair && set->pair_open[op->pair_index] >= PAIRS_AHEAD_MAX) {
        queue_add(&set->pair_queue_end, op);
        return;
    }
    if (op->is_pair) {
        pair_begin(op);
        return;
    }
    if (op->space == SPACE_PLANNED) {
        op->next = op->planned->open;
        op->planned->open = op;
        op_begin(op);
        return;
    }
    tt_order *order = tt_order_of(set, op->space);
    if (order->queue == NULL && has_place(order, op)) {
        begin_in_place(order, op);
    } else if (has_extra_place(order, op)) {
        begin_extra(order, op);
    } else {
        queue_add(&order->queue_end, op);
    }
}

/* This request is wrong on its face, or another failure must be told: end it on all ranks. */
static void place_and_object(tt_op *op, tt_status status, const char *text)
{
    tt_op **list =
        op->is_pair ? &op->set->pairs : (op->planned != NULL ? &op->planned->open : NULL);
    tt_op_set_phase(op, OP_DATA);
    if (list != NULL) {
        op->next = *list;
        *list = op;
    }
    if (op->space == SPACE_PLANNED && op->control->fates != NULL && tt_fate_take_verdict(op)) {
        return; /* the others know already */
    }
    tt_agree_object(op, status, text);
}

void tt_op_begin_placed(tt_op *op, tt_status objection)
{
    if (objection < 0) {
        place_and_object(op, objection, op->request->error);
    } else {
        place_and_begin(op);
    }
}

void tt_op_submit(tt_control *control, tt_set *set, tt_request *request,
                  const tt_standing *standing, const tt_failure *objection)
{
    bool is_last;
    const bool is_pair = request->collective == TT_SEND || request->collective == TT_RECEIVE;
    if (is_pair && !tt_any_has_room(set, request)) {
        return;
    }
    tt_op *op = op_take(control, &is_last);
    const bool waits = tt_any_waits(set, request);
    op_reset(op, request, set);
    take_place(op, standing);
    tt_op_describe(op);
    tt_control_watch(control);
    if (control->asks.count > 0 && op->is_sender) {
        tt_any_answer(op);
    }
    const bool has_no_room =
        op->space == SPACE_PLANNED &&
        (op->planned == NULL || !tt_planned_claim(control, op->planned, op->sequence, &op->claim));
    if (objection != NULL && !waits) {
        place_and_object(op, objection->status, objection->text);
    } else if (is_last || has_no_room || set->broken == TT_ERR_NO_MEMORY) {
        tt_text full = {0};
        tt_text_add(&full, "rank %u is out of memory", control->world.rank);
        place_and_object(op, TT_ERR_NO_MEMORY, full.bytes);
    } else if (set->late < 0) {
        const tt_status late = set->late;
        set->late = TT_OK;
        place_and_object(op, late, set->late_text);
    } else if (waits) {
        tt_any_wait(op, objection);
    } else {
        place_and_begin(op);
    }
}

/* What is wrong with a request here, as all ranks are to read it. All parts of a group tell the
 * same words, whichever of them a peer meets first. */
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
        tt_named_join(control, set, request);
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
        tt_request_refuse(request, status, text.bytes); /* no peer to tell */
        return;
    }
    if (status != TT_OK) {
        add_blame(control, request, &text);
    }
    const tt_failure objection = {.status = status, .text = text.bytes};
    if (request->name != NULL && !is_pair) {
        tt_named_submit(control, set, request, status != TT_OK ? &objection : NULL);
        return;
    }
    const tt_standing standing = {.space = SPACE_CALLS};
    tt_op_submit(control, set, request, &standing, status != TT_OK ? &objection : NULL);
}

void tt_control_submit(tt_control *control, tt_request *request)
{
    if (tt_quick_submit(control, request)) {
        return;
    }
    if (control->names != NULL && control->names->later != NULL) {
        tt_group_flush(control);
        tt_named_submit_later(control); /* none of their names may be passed */
    }
    request->segment_bytes = control->config.segment_bytes;
    request->due_ns = 0;
    request->is_tuned = tt_request_is_tuned(control, request);
    const tt_set *set = tt_set_find(control, request->set);
    if (set != NULL && set->phase != SET_OPEN) { /* what was submitted before may go on */
        tt_text text = {0};
        tt_text_add(&text, "process set %u does not exist", request->set);
        tt_request_refuse(request, TT_ERR_BAD_ARGUMENT, text.bytes);
        return;
    }
    tt_request_submit_again(control, request);
}
