/* SPDX-License-Identifier: Apache-2.0
 *
 * control.c - the machine's upcalls, and its beginning and end. */
#include "control/control.h"

#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/plant.h"
#include "control/any.h"
#include "control/engine.h"
#include "control/named/batch.h"

void tt_control_config_init(tt_control_config *config)
{
    *config = (tt_control_config){
        .segment_bytes = TT_SEGMENT_BYTES,
        .eager_bytes_max = 4 * 1024,
        .probe_ns = UINT64_C(250000000),
        .verdict_ns = UINT64_C(1000000000),
        .stall_ns = UINT64_C(30000000000),
        .deadline_ns = 0,
        .staged_max = 32,
        .fuse_bytes = 64 * 1024,
        .bundle_bytes = 2 * 1024 * 1024,
        .spread_bytes = 256 * 1024, /* about 50 us */
        .late_ns = 50 * 1000 * 1000,
        .algorithm = NULL,
    };
    tt_negotiate_config_init(&config->negotiate);
}

void tt_control_report(tt_control *control, int level, const tt_text *text)
{
    if (control->listener.report != NULL) {
        control->listener.report(control->listener.owner, level, text->bytes);
    }
}

/* Requests are pending: check them periodically. */
void tt_control_watch(tt_control *control)
{
    if (control->patrol_ns == UINT64_MAX) {
        control->patrol_ns = tt_now(control->platform) + PATROL_NS;
        tt_control_due(control, control->patrol_ns);
        TT_ASSERT(control->timer_ns <= control->patrol_ns);
    }
}

void tt_control_due(tt_control *control, uint64_t due_ns)
{
    if (due_ns < control->timer_ns) {
        control->timer_ns = due_ns;
        control->platform->ops->timer(control->platform, due_ns);
    }
}

void tt_control_alarm(tt_control *control, uint64_t at_ns)
{
    tt_control_due(control, at_ns);
}

/* ---- upcalls ---- */

/* The op of a frame. If this rank holds it, it begins: the sender waits for it. */
static tt_op *op_of_frame(tt_control *control, uint32_t peer, const tt_head *head)
{
    tt_op *op = tt_op_find(control, peer, head);
    if (op != NULL && op->phase == OP_HELD) {
        tt_pace_demand(op);
        op = tt_op_find(control, peer, head); /* it may be over */
    }
    TT_DEBUG_ASSERT(op == NULL || op->phase != OP_FREE);
    return op;
}

static bool is_running(const tt_op *op)
{
    return op != NULL && op->phase == OP_RUNNING && op->exec.is_running;
}

/* Data of an op or stage that has not begun on this rank; or of one that is over: then the sender
 * made another call, or the frame is a duplicate. */
static void other_data(tt_control *control, uint32_t peer, const tt_head *head, const tt_op *op,
                       const void *payload)
{
    const bool is_early = is_running(op) ? head->stage > op->stage
                                         : op == NULL && tt_op_is_future(control, peer, head);
    if (is_early && head->stage < TT_STAGES_MAX &&
        head->payload_bytes <= control->flow.eager_bytes_max) {
        const tt_status status = tt_flow_park(&control->flow, peer, head, payload);
        if (status == TT_OK) {
            return;
        }
        if (status == TT_ERR_NO_MEMORY) {
            tt_failure_memory(control, head->set);
        }
    }
    control->flow.frames_dropped++;
    if (op == NULL && !is_early) {
        tt_agree_stray(control, peer, head);
    }
    if ((head->flags & TT_FLAG_EAGER) != 0) {
        tt_flow_consumed(&control->flow, peer);
    }
}

static bool is_of_stage(const tt_op *op, const tt_head *head)
{
    return head->stage == op->stage || (TT_PLANT(STAGE_TAKEN_TOO_EARLY) && head->stage > op->stage);
}

static void *data_frame(tt_control *control, uint32_t peer, const tt_head *head,
                        const void *payload)
{
    tt_op *op = op_of_frame(control, peer, head);
    if (!is_running(op) || !is_of_stage(op, head)) {
        other_data(control, peer, head, op, payload);
        return NULL;
    }
    TT_DEBUG_ASSERT(op->stage < op->recipe->stage_count);
    const uint32_t member = tt_exec_member(&op->exec, peer);
    const bool is_foreign =
        head->descriptor != op->recipe->descriptor && !TT_PLANT(DESCRIPTOR_IGNORED);
    if (member == UINT32_MAX || is_foreign) {
        control->flow.frames_dropped += member == UINT32_MAX ? 1 : 0;
        if ((head->flags & TT_FLAG_EAGER) != 0) {
            tt_flow_consumed(&control->flow, peer);
        }
        if (member != UINT32_MAX) {
            tt_agree_dispute(op);
        }
        return NULL;
    }
    TT_DEBUG_ASSERT(member < op->size);
    if (op->heard != UINT64_MAX) {
        tt_op_hear(op, member);
    }
    void *sink = tt_exec_frame(&op->exec, member, head, payload);
    tt_op_settle(op);
    return sink;
}

static void signal_frame(tt_control *control, uint32_t peer, const tt_head *head)
{
    TT_ASSERT(head->kind == TT_FRAME_GRANT || head->kind == TT_FRAME_WANT);
    tt_op *op = op_of_frame(control, peer, head);
    if (is_running(op) && head->stage == op->stage) {
        const uint32_t member = tt_exec_member(&op->exec, peer);
        if (head->descriptor != op->recipe->descriptor || member == UINT32_MAX) {
            tt_agree_dispute(op);
            return;
        }
        if (op->heard != UINT64_MAX) {
            tt_op_hear(op, member);
        }
        if (head->kind == TT_FRAME_GRANT) {
            tt_exec_granted(&op->exec, member, head->argument);
        } else {
            tt_exec_wanted(&op->exec, member);
        }
        tt_op_settle(op);
        return;
    }
    const bool is_early = is_running(op) ? head->stage > op->stage
                                         : op == NULL && tt_op_is_future(control, peer, head);
    if (is_early && head->stage < TT_STAGES_MAX &&
        tt_flow_note(&control->flow, peer, head) == TT_ERR_NO_MEMORY) {
        tt_failure_memory(control, head->set);
    }
}

static void credit_frame(tt_control *control, uint32_t peer, const tt_head *head)
{
    if (!tt_flow_credit(&control->flow, peer, head->argument)) {
        return;
    }
    for (uint32_t i = 0; i < control->op_count; i++) {
        tt_op *op = control->ops[i];
        if (is_running(op) && op->exec.is_blocked) {
            tt_exec_retry(&op->exec);
            tt_op_settle(op);
        }
    }
}

static void abort_frame(tt_control *control, uint32_t peer, const tt_head *head,
                        const void *payload)
{
    char why[TT_ERROR_BYTES] = {0};
    memcpy(why, payload != NULL ? payload : "", tt_min_u64(head->payload_bytes, sizeof(why) - 1));
    if (head->payload_bytes == 0) {
        tt_agree_say_silent(peer, why);
    }
    if (head->argument == control->world.rank) {
        tt_failure_excluded(control, peer, why);
    } else if (head->argument < control->world.size) { /* another rank, or the sender itself */
        tt_failure_peer(control, (uint32_t)head->argument, TT_ERR_PEER_DOWN, why);
    }
}

/* Is it a frame of this epoch, from a rank that is not excluded, for one op? */
static bool is_good(const tt_control *control, uint32_t peer, const tt_head *head)
{
    if (head->kind == TT_FRAME_DATA && (head->flags & ~TT_FLAG_EAGER) == 0 &&
        head->epoch == control->world.epoch) {
        return !control->peers[peer].is_gone;
    }
    /* STOP and STOPPED are still exchanged with a peer that others reported as gone. */
    const bool is_gone = control->peers[peer].is_gone && head->kind != TT_FRAME_STOP &&
                         head->kind != TT_FRAME_STOPPED;
    const uint8_t space = head->flags & (TT_FLAGS_SPACE & ~TT_FLAG_REPLY);
    const bool is_nonsense =
        (space & (space - 1)) != 0 || ((head->flags & TT_FLAG_REPLY) != 0 && space != TT_FLAG_PAIR);
    const bool is_stale = head->epoch != control->world.epoch && !TT_PLANT(EPOCH_IGNORED) &&
                          !(TT_PLANT(NEWER_EPOCH_TAKEN) && head->epoch > control->world.epoch);
    return !is_stale && !is_gone && !is_nonsense;
}

static void *take_frame(tt_control *control, uint32_t peer, const tt_head *head,
                        const void *payload)
{
    TT_ASSERT(peer < control->world.size);
    switch (head->kind) {
    case TT_FRAME_DATA:
        return data_frame(control, peer, head, payload);
    case TT_FRAME_GRANT:
    case TT_FRAME_WANT:
        signal_frame(control, peer, head);
        break;
    case TT_FRAME_CREDIT:
        credit_frame(control, peer, head);
        break;
    case TT_FRAME_ABORT:
        abort_frame(control, peer, head, payload);
        break;
    case TT_FRAME_NOTICE:
        tt_notice_frame(control, peer, head, payload);
        break;
    case TT_FRAME_ASK:
        tt_any_ask_frame(control, peer, head);
        break;
    case TT_FRAME_STOP:
    case TT_FRAME_STOPPED: {
        char text[TT_ERROR_BYTES] = {0};
        memcpy(text, payload != NULL ? payload : "",
               tt_min_u64(head->payload_bytes, sizeof(text) - 1));
        if (head->payload_bytes == 0) {
            tt_agree_say_silent(peer, text);
        }
        tt_failure_stop_frame(control, peer, head, text);
        break;
    }
    default:
        if (head->kind >= TT_FRAME_DISPUTE && head->kind <= TT_FRAME_STALL) {
            tt_agree_frame(control, peer, head, payload);
        }
        break;
    }
    return NULL;
}

static void *on_frame(void *machine, uint32_t peer, const tt_head *head, const void *payload)
{
    tt_control *control = machine;
    TT_ASSERT(peer < control->world.size);
    control->counters.frames_received++;
    if (!is_good(control, peer, head)) {
        control->flow.frames_dropped++;
        return NULL;
    }
    if (head->kind == TT_FRAME_DATA && control->any_waiting == 0) {
        return data_frame(control, peer, head, payload);
    }
    if (head->kind != TT_FRAME_DATA && head->kind != TT_FRAME_NOTICE &&
        head->payload_bytes > TT_ERROR_BYTES) {
        return NULL;
    }
    void *sink = take_frame(control, peer, head, payload);
    if (control->any_waiting > 0) {
        tt_any_arrived(control, peer, head);
    }
    return sink;
}

static void on_payload(void *machine, uint32_t peer, const tt_head *head)
{
    tt_control *control = machine;
    TT_ASSERT(peer < control->world.size);
    tt_exec *exec = control->flow.peers[peer].arriving;
    control->flow.peers[peer].arriving = NULL;
    if (exec == NULL) {
        return;
    }
    tt_op *op = TT_CONTAINER_OF(exec, tt_op, exec);
    TT_ASSERT(is_running(op)); /* an op that ends withdraws its sinks */
    tt_exec_payload(exec, tt_exec_member(exec, peer), head);
    tt_op_settle(op);
}

static void on_sent(void *machine, uint64_t token)
{
    tt_control *control = machine;
    if (token == TT_TOKEN_NONE) {
        return;
    }
    if ((token & TOKEN_OUTGOING) != 0) {
        tt_outgoing_sent(control, token);
        return;
    }
    const uint64_t index = token >> 4;
    TT_ASSERT(index < control->op_count);
    tt_op *op = control->ops[index];
    if (is_running(op)) {
        tt_exec_sent(&op->exec, (uint32_t)(token & 15));
        tt_op_settle(op);
    }
}

static void on_landed(void *machine, uint64_t token, tt_status status)
{
    tt_engine_landed(machine, token, status);
}

static void on_timer(void *machine)
{
    tt_control *control = machine;
    control->timer_ns = UINT64_MAX;
    tt_host_patrol(control);
    tt_pace_patrol(control);
    if (tt_now(control->platform) < control->patrol_ns) {
        tt_control_due(control, control->patrol_ns);
        return;
    }
    control->patrol_ns = UINT64_MAX;
    tt_agree_patrol(control);
    tt_op_patrol_stops(control);
    if (control->pending > 0 || control->cases != NULL) {
        tt_control_watch(control);
    }
    TT_ASSERT(control->pending == 0 || control->patrol_ns != UINT64_MAX);
}

static void on_peer(void *machine, uint32_t peer, tt_peer_event event, const char *why)
{
    tt_control *control = machine;
    TT_ASSERT(peer < control->world.size && peer != control->world.rank);
    tt_text text = {0};
    control->peers[peer].is_ended |=
        event == TT_PEER_DOWN || event == TT_PEER_LEFT || event == TT_PEER_REJECTS;
    switch (event) {
    case TT_PEER_DOWN:
        tt_failure_peer(control, peer, TT_ERR_PEER_DOWN, why);
        break;
    case TT_PEER_LEFT:
        tt_failure_peer(control, peer, TT_ERR_PEER_LEFT, why);
        break;
    case TT_PEER_REJECTS: /* it reports this rank to the others; reporting it would split the job */
        tt_failure_excluded(control, peer, why);
        tt_failure_peer(control, peer, TT_ERR_PEER_DOWN, why);
        break;
    case TT_PEER_SILENT:
        tt_text_add(&text, "rank %u does not respond (%s); waiting for it", peer, why);
        tt_control_report(control, LEVEL_WARN, &text);
        break;
    case TT_PEER_BACK:
        tt_text_add(&text, "rank %u responds again", peer);
        tt_control_report(control, LEVEL_INFO, &text);
        break;
    }
}

static bool works_before(const tt_op *one, const tt_op *other)
{
    TT_DEBUG_ASSERT(one != other);
    return one->exec.urgency != other->exec.urgency ? one->exec.urgency > other->exec.urgency
                                                    : one->paced.age < other->paced.age;
}

static uint64_t ended(const tt_control *control)
{
    return control->counters.ops_finished + control->counters.ops_failed;
}

/* The most urgent op with local work, of several the oldest, does a piece of it. The waiter of a
 * call that has just ended is notified before that piece, not after it. */
static bool work_on(tt_control *control)
{
    if (ended(control) != control->ended_seen) {
        control->ended_seen = ended(control);
        return true;
    }
    if (tt_batch_step(control)) {
        return true;
    }
    tt_op *chosen = NULL;
    uint32_t with_work = 0;
    for (uint32_t i = 0; i < control->op_count; i++) {
        tt_op *op = control->ops[i];
        if (is_running(op) && op->exec.has_work) {
            with_work++;
            chosen = chosen == NULL || works_before(op, chosen) ? op : chosen;
        }
    }
    control->has_work = with_work > 1;
    if (chosen != NULL) {
        TT_DEBUG_ASSERT(is_running(chosen));
        control->has_work = tt_exec_step(&chosen->exec) || control->has_work;
        tt_op_settle(chosen);
        control->ended_seen = ended(control); /* the driver checks after every step */
    }
    return control->has_work;
}

static bool on_step(void *machine)
{
    tt_control *control = machine;
    if (control->is_touched) {
        tt_host_flush(control);
    }
    if (control->removed_count > 0) {
        tt_removal_step(control);
    }
    return control->has_work && work_on(control);
}

static const tt_machine_ops control_machine = {
    .frame = on_frame,
    .payload = on_payload,
    .sent = on_sent,
    .landed = on_landed,
    .timer = on_timer,
    .peer = on_peer,
    .step = on_step,
};

tt_machine tt_control_machine(tt_control *control)
{
    return (tt_machine){.ops = &control_machine, .self = control};
}

/* ---- life ---- */

void tt_control_trace(tt_control *control, const tt_tracer *tracer)
{
    const uint64_t now = tt_now(control->platform);
    for (uint32_t i = 0; tracer != NULL && i < control->op_count; i++) {
        tt_op *op = control->ops[i];
        if (op->phase != OP_FREE && op->submitted_ns == 0) {
            tt_op_date(op, now); /* calls in flight are dated from now */
        }
    }
    control->tracer = tracer;
}

tt_status tt_control_create(tt_platform *platform, const tt_world *world,
                            const tt_control_config *config, const tt_control_listener *listener,
                            tt_control **control_out)
{
    TT_ASSERT(world->rank < world->size);
    TT_ASSERT(config->segment_bytes % 64 == 0 && config->segment_bytes > 0);
    TT_ASSERT(config->segment_bytes <= TT_PAYLOAD_BYTES_MAX / 2);
    tt_control *control = tt_platform_allocate(platform, sizeof(*control));
    if (control == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    control->platform = platform;
    control->timer_ns = control->patrol_ns = UINT64_MAX;
    control->world = *world;
    control->config = *config;
    control->fuse_bytes = config->fuse_bytes;
    control->listener = *listener;
    tt_control_note_settings(control);
    /* The patrol dates a call that has no date yet: precise enough for a deadline of many patrol
     * periods. */
    control->times_all = config->is_paced || (config->deadline_ns > 0 &&
                                              config->deadline_ns < 100 * (uint64_t)PATROL_NS);
    tt_pace_init(control);
    control->host_of = tt_platform_allocate(platform, world->size * sizeof(uint32_t));
    control->peers = tt_platform_allocate(platform, world->size * sizeof(tt_peer_state));
    uint32_t *ranks = tt_platform_allocate(platform, world->size * sizeof(uint32_t));
    tt_status status = tt_flow_init(&control->flow, platform, world->size, config->eager_bytes_max);
    if (control->host_of == NULL || control->peers == NULL || ranks == NULL) {
        status = TT_ERR_NO_MEMORY;
    }
    if (status == TT_OK) {
        control->flow.epoch = world->epoch;
        status = tt_recipes_init(control);
    }
    if (status == TT_OK) {
        for (uint32_t i = 0; i < world->size; i++) {
            control->host_of[i] = world->host_of[i];
            ranks[i] = i;
        }
        uint32_t set;
        status = tt_control_set_create(control, ranks, world->size, &set);
    }
    if (status == TT_OK) {
        status = tt_op_reserve(control);
    }
    tt_platform_release(platform, ranks, world->size * sizeof(uint32_t));
    if (status != TT_OK) {
        tt_control_destroy(control);
        return status;
    }
    TT_ASSERT(control->op_count == 1 && control->sets->id == 0);
    *control_out = control;
    return TT_OK;
}

void tt_control_destroy(tt_control *control)
{
    tt_platform *platform = control->platform;
    TT_ASSERT(control->pending == 0);
    TT_ASSERT(control->any_waiting == 0);
    tt_agree_release_all(control);
    tt_early_verdict_release_all(control);
    tt_any_release_all(control);
    tt_outgoing_release_all(control);
    while (control->sets != NULL) {
        tt_set *set = control->sets;
        tt_set_unlink(control, set);
        tt_host_release_set(set);
        tt_set_destroy(control, set);
    }
    TT_ASSERT(control->cases == NULL && control->early_verdicts == NULL);
    tt_host_release_all(control);
    tt_notice_release_all(control);
    tt_op_release_all(control); /* sets held idle ones */
    tt_recipes_fini(control);
    tt_feedback_release_all(control);
    tt_flow_fini(&control->flow);
    tt_pace_fini(control);
    tt_platform_release(platform, control->host_of, control->world.size * sizeof(uint32_t));
    tt_platform_release(platform, control->peers, control->world.size * sizeof(tt_peer_state));
    tt_platform_release(platform, control, sizeof(*control));
}

/* The op exchanges counts or places, or is in its first exchange and no data has moved. */
static bool has_moved_nothing(const tt_op *op)
{
    if (op->phase != OP_RUNNING) {
        return false;
    }
    TT_ASSERT(op->stage < op->recipe->stage_count);
    for (uint32_t i = 0; i <= op->stage; i++) {
        const uint8_t kind = op->recipe->stages[i].kind;
        const bool is_about = kind == TT_STAGE_COUNTS || kind == TT_STAGE_PLACES;
        if (!is_about) {
            return i == op->stage && kind == TT_STAGE_EXCHANGE && op->exec.is_running &&
                   tt_exec_is_untouched(&op->exec);
        }
    }
    return true;
}

bool tt_control_cancel(tt_control *control, tt_request *request)
{
    tt_op *op = request->op;
    if (op == NULL) {
        return tt_name_cancel(control, request);
    }
    TT_ASSERT(op->phase != OP_FREE && op->request == request);
    if (op->space == &tt_space_pair && request->root == TT_ANY_SOURCE && op->any == NULL) {
        return false; /* it has taken a message, which would be lost */
    }
    if (op->phase != OP_QUEUED && op->phase != OP_HELD && !has_moved_nothing(op)) {
        return false;
    }
    tt_text text = {0};
    tt_text_add(&text, "cancelled by rank %u", control->world.rank);
    tt_agree_object(op, TT_ERR_CANCELLED, text.bytes);
    return true;
}

void tt_control_shut_down(tt_control *control, tt_status status, const char *text)
{
    const bool is_repeated = control->shut_down < 0;
    TT_ASSERT(status < 0);
    if (!is_repeated) {
        tt_text copy = {0};
        tt_text_add(&copy, "%s", text);
        memcpy(control->shut_down_text, copy.bytes, sizeof(control->shut_down_text));
        control->shut_down = status;
    }
    TT_ASSERT(control->shut_down < 0);
    for (tt_set *set = control->sets; set != NULL; set = set->next) {
        tt_host_shut(control, set, status, control->shut_down_text);
    }
    for (uint32_t i = 0; i < control->op_count; i++) {
        tt_op *op = control->ops[i];
        if (op->phase == OP_STOPPING && is_repeated) {
            tt_op_end(op, op->request->status);
        } else if (op->phase != OP_FREE) {
            tt_op_fail(op, status, control->shut_down_text);
        }
    }
    tt_name_submit_later(control); /* to be refused */
}

bool tt_control_lost_peer(const tt_control *control)
{
    for (uint32_t i = 0; i < control->world.size; i++) {
        if (control->peers[i].is_gone && control->peers[i].status == TT_ERR_PEER_DOWN) {
            return true;
        }
    }
    return false;
}

const tt_negotiate_counters *tt_control_set_count(const tt_control *control, uint32_t id,
                                                  const char **mode_out)
{
    const tt_set *set = tt_set_find(control, id);
    if (set == NULL || set->negotiator == NULL) {
        return NULL;
    }
    *mode_out = tt_negotiator_mode(set->negotiator);
    return tt_negotiator_count(set->negotiator);
}

void tt_control_set_waited(tt_control *control, bool is_waited)
{
    control->is_waited = is_waited;
}

uint32_t tt_control_pending(const tt_control *control)
{
    return control->pending;
}

tt_control_counters tt_control_count(const tt_control *control)
{
    tt_control_counters counters = control->counters;
    const tt_pacer *pacer = &control->pace.pacer;
    counters.frames_dropped = control->flow.frames_dropped;
    counters.held = pacer->held_count;
    counters.overtaken = pacer->overtaken_count;
    counters.busy_ns = pacer->busy_ns;
    counters.gradient_bytes = pacer->ended_bytes;
    return counters;
}
