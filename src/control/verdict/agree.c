/* SPDX-License-Identifier: Apache-2.0
 *
 * agree.c - one verdict for all members when a call cannot succeed.
 *
 * The first member of a set (of a pair: the sender) decides: case.c. A rank that receives a
 * different descriptor stops its op and sends its CLAIM; the first member requests the claims of
 * all (DISPUTE) and decides when all have arrived or verdict_ns has passed. A rank that cannot take
 * part (invalid arguments, no memory, cancel, deadline) fails its op at once and sends OBJECT; the
 * first member forwards it. Either way the members get one VERDICT. A verdict or dispute that
 * arrives before its op is kept: early_verdict.h. If the op had already succeeded on a rank, that
 * rank's next call returns the error.
 *
 * Ops that wait long send PROBE to the first member, which reports the missing members (STALL).
 * This also uncovers calls that differ so much that no frame passes between them.
 */
#include <string.h>

#include "base/base.h"
#include "base/plant.h"
#include "control/any.h"
#include "control/named/batch.h"
#include "control/verdict/case.h"

void tt_agree_keep_early(tt_control *control, uint32_t peer, const tt_head *head,
                         const tt_failure *failure)
{
    TT_ASSERT(failure->status < 0);
    if (tt_op_is_future(control, peer, head)) {
        tt_early_verdict_add(control, peer, head, failure);
    }
}

/* ---- verdicts ---- */

/* An op that had succeeded on this rank has failed: the set's next call returns that, once. Ranks
 * that still wait for the op may probe it before their verdict arrives: they get the same text. */
static void fail_late(tt_control *control, const tt_head *key, tt_status status, const char *text)
{
    tt_set *set = tt_set_find(control, key->set);
    const tt_space *space = tt_space_of(key);
    TT_ASSERT(status < 0);
    if (set == NULL || space == &tt_space_pair || space->failed(set, key) < 0) {
        return;
    }
    tt_text late = {0};
    tt_text_add(&late, "an earlier call failed on other ranks: %s", text);
    memcpy(set->late_text, late.bytes, sizeof(set->late_text));
    set->late = status;
    space->fail_late(set, key, status);
    tt_agree_reason(control, key, text);
}

void tt_agree_verdict(tt_control *control, uint32_t peer, const tt_head *key, tt_status status,
                      const char *text)
{
    TT_ASSERT(status < 0);
    tt_op *op = tt_op_find(control, peer, key);
    if (op != NULL) {
        tt_op_fail(op, status, text);
        return;
    }
    if (tt_op_is_future(control, peer, key)) {
        const tt_failure failure = {.status = status, .text = text};
        tt_early_verdict_add(control, peer, key, &failure);
        return;
    }
    fail_late(control, key, status, text);
}

/* ---- disputes ---- */

void tt_agree_dispute(tt_op *op)
{
    tt_control *control = op->control;
    if (op->phase == OP_DISPUTED || op->phase == OP_STOPPING || op->phase == OP_FREE) {
        return;
    }
    TT_ASSERT(op->any == NULL); /* it has no number yet, so no peer can dispute it */
    if (op->exec.is_running) {
        tt_exec_stop(&op->exec);
    }
    tt_op_set_phase(op, OP_DISPUTED);
    op->troubled_ns = tt_now(control->platform);
    tt_control_watch(control);
    const uint32_t first = tt_op_first(op);
    if (first != control->world.rank) {
        const tt_head head = tt_op_identity(op, TT_FRAME_CLAIM);
        tt_outgoing_send(control, first, head, &op->recipe->claim,
                         tt_claim_bytes(&op->recipe->claim));
        return;
    }
    const tt_head key = tt_op_arriving_key(op);
    tt_claim claim;
    tt_claim_copy(&claim, &op->recipe->claim);
    tt_case *found = tt_case_of(control, op->peer, &key);
    if (found == NULL) {
        tt_text text = {0};
        tt_text_add(&text, "rank %u is out of memory while ranks disagree", control->world.rank);
        tt_agree_object(op, TT_ERR_NO_MEMORY, text.bytes);
        return;
    }
    tt_case_dispute(control, found);
    tt_case_claim(control, found, tt_case_member(control, found, control->world.rank), &claim);
}

void tt_agree_stray(tt_control *control, uint32_t peer, const tt_head *head)
{
    const tt_set *set = tt_set_find(control, head->set);
    const tt_claim *done = tt_op_done(control, head);
    if (done == NULL || tt_claim_hash(done, set->size) == head->descriptor) {
        return;
    }
    if (tt_case_is_own(control, head)) {
        tt_case *found = tt_case_of(control, peer, head);
        if (found != NULL) {
            tt_case_dispute(control, found);
        }
        return;
    }
    uint32_t first = 0;
    while (control->peers[set->members[first]].is_gone) {
        first++;
    }
    TT_ASSERT(first < set->self);
    tt_outgoing_send(control, set->members[first], tt_case_reply(control, head, TT_FRAME_CLAIM),
                     done, tt_claim_bytes(done));
}

void tt_agree_object(tt_op *op, tt_status status, const char *text)
{
    tt_control *control = op->control;
    TT_ASSERT(status < 0);
    TT_ASSERT(op->phase != OP_FREE);
    const uint32_t first = tt_op_first(op);
    tt_head head = tt_op_identity(op, TT_FRAME_OBJECT);
    head.argument = (uint64_t)(int64_t)status;
    if (first != control->world.rank) {
        tt_outgoing_send(control, first, head, text, strlen(text));
    } else {
        const tt_failure failure = {.status = status, .text = text};
        tt_case_decide(control, op->peer, tt_op_arriving_key(op), &failure, control->world.rank);
    }
    tt_op_fail(op, status, text);
}

/* ---- frames ---- */

enum { PROBE_TELLS = 0, PROBE_ASKS = 1, PROBE_QUERY = 2 }; /* argument of PROBE */

/* A rank on which the op is over does not probe: query the missing ranks for their descriptors. */
static void query(tt_control *control, const tt_case *found, const bool *missing)
{
    TT_ASSERT(!found->is_disputed); /* `missing` shares the memory of has_claimed */
    tt_head head = tt_case_reply(control, &found->key, TT_FRAME_PROBE);
    head.argument = PROBE_QUERY;
    for (uint32_t i = 0; i < found->size; i++) {
        const uint32_t rank = tt_case_rank(control, found, i);
        if (missing[i] && rank != control->world.rank) {
            tt_flow_control(&control->flow, rank, &head);
        }
    }
}

static void query_frame(tt_control *control, uint32_t peer, const tt_head *head)
{
    const tt_op *op = tt_op_find(control, peer, head);
    const tt_claim *done = tt_op_done(control, head);
    if (op == NULL && done == NULL) {
        return;
    }
    tt_head reply = tt_case_reply(control, head, TT_FRAME_PROBE);
    reply.argument = PROBE_TELLS;
    reply.descriptor = op != NULL ? op->recipe->descriptor
                                  : tt_claim_hash(done, tt_set_find(control, head->set)->size);
    tt_flow_control(&control->flow, peer, &reply);
}

static void probe_frame(tt_control *control, uint32_t peer, const tt_head *head, tt_case *found)
{
    const uint32_t member = tt_case_member(control, found, peer);
    const tt_op *own = tt_op_find(control, peer, head);
    if (member >= found->size) {
        return;
    }
    found->has_probed[member] = true;
    const tt_claim *done = tt_op_done(control, head);
    const uint64_t done_hash = done != NULL ? tt_claim_hash(done, found->size) : 0;
    if (own != NULL ? own->recipe->descriptor != head->descriptor
                    : done != NULL && done_hash != head->descriptor) {
        tt_case_dispute(control, found);
        return;
    }
    if (found->key.descriptor == 0) {
        found->key.descriptor = head->descriptor;
    } else if (found->key.descriptor != head->descriptor) {
        tt_case_dispute(control, found);
        return;
    }
    bool missing_any = false;
    bool *missing = found->has_claimed; /* undisputed: used as scratch memory */
    if (found->is_disputed || head->argument == PROBE_TELLS) {
        return;
    }
    TT_ASSERT(found->claim_count == 0);
    for (uint32_t i = 0; i < found->size; i++) {
        const bool is_self = tt_case_rank(control, found, i) == control->world.rank;
        const bool is_here = is_self ? own != NULL || done != NULL : found->has_probed[i];
        missing[i] = !is_here;
        missing_any = missing_any || !is_here;
    }
    if (missing_any) {
        tt_text text = {0};
        tt_case_add_ranks(&text, control, found, missing);
        const tt_head reply = tt_case_reply(control, head, TT_FRAME_STALL);
        tt_outgoing_send(control, peer, reply, text.bytes, text.length);
        query(control, found, missing);
    }
    memset(missing, 0, found->size * sizeof(bool));
}

/* Of an agreed op every rank has made the call: it waits for no rank's call. */
static bool is_overdue(const tt_op *op, uint64_t now_ns)
{
    const uint64_t fail_ns = op->control->config.negotiate.stall_fail_ns;
    return fail_ns > 0 && op->space == &tt_space_planned &&
           tt_elapsed_ns(now_ns, op->waiting_ns) >= fail_ns;
}

static void give_up(tt_op *op, uint64_t now_ns, const char *who)
{
    const char *name = op->request->name != NULL ? op->request->name : "";
    tt_text text = {0};
    TT_ASSERT(op->space == &tt_space_planned);
    TT_ASSERT(op->waiting_ns <= op->overdue_ns);
    tt_text_add(&text, "tensor ");
    tt_text_add_quoted(&text, name, TT_NAME_BYTES);
    tt_text_add(&text, ": rank %u gave up after %.1f s, missing: %s", op->control->world.rank,
                (double)(now_ns - op->waiting_ns) / 1e9, who);
    /* No rank can have completed a batch that a rank has not begun: its tensors report the stall
     * again, one by one. */
    const bool is_batch = tt_batch_is_planned(op->request);
    tt_agree_object(op, is_batch ? TT_ERR_CANCELLED : TT_ERR_TIMED_OUT, text.bytes);
}

static void stall_frame(tt_control *control, uint32_t peer, const tt_head *head, const char *who)
{
    tt_op *op = tt_op_find(control, peer, head);
    if (op == NULL) {
        return;
    }
    tt_text text = {0};
    tt_text_add_words(&text, who, TT_ERROR_BYTES - 1);
    tt_op_tell_stall(op, text.bytes);
    if (op->submitted_ns == 0) {
        tt_op_date(op, tt_now(control->platform));
    }
    const uint64_t now_ns = tt_now(control->platform), waited_ns = now_ns - op->submitted_ns;
    TT_ASSERT(op->submitted_ns <= now_ns);
    TT_ASSERT(op->reported_after_ns <= waited_ns);
    /* Members that were late have been probed in between, and have answered. */
    if (op->overdue_ns > 0 && now_ns - op->overdue_ns >= control->config.probe_ns) {
        give_up(op, now_ns, text.bytes);
        return;
    }
    if (waited_ns >= control->config.stall_ns &&
        waited_ns - op->reported_after_ns >= control->config.stall_ns / 2) {
        op->reported_after_ns = waited_ns;
        tt_text report = {0};
        tt_claim_tell(&report, &op->recipe->claim);
        tt_text_add(&report, " (call %llu) has waited %.1f s for %s",
                    (unsigned long long)op->sequence, (double)waited_ns / 1e9, text.bytes);
        tt_control_report(control, LEVEL_WARN, &report);
    }
}

/* `peer` waits for an op that is over on this rank: it has failed, or the message was sent but
 * differs from the receiver's claim. */
static void answer_over(tt_control *control, uint32_t peer, const tt_head *head)
{
    const bool is_pair = (head->flags & TT_FLAG_PAIR) != 0;
    const tt_status status =
        is_pair && head->kind == TT_FRAME_CLAIM ? TT_ERR_MISMATCH : tt_op_failed(control, head);
    /* Each rank detects by itself that a rank is gone. */
    if (status == TT_OK || status == TT_ERR_PEER_DOWN || status == TT_ERR_PEER_LEFT) {
        return;
    }
    TT_ASSERT(status < 0);
    tt_text text = {0};
    const char *reason = is_pair ? NULL : tt_agree_reason_of(control, head);
    if (reason != NULL) {
        tt_text_add(&text, "%s", reason);
    } else {
        tt_text_add(&text,
                    is_pair
                        ? "ranks disagree about message %llu: rank %u sent another than rank %u "
                          "expects"
                        : "call %llu failed on rank %u, probed by rank %u",
                    (unsigned long long)(is_pair ? tt_pair_number(head->op) : head->op),
                    control->world.rank, peer);
    }
    tt_head reply = tt_case_reply(control, head, TT_FRAME_VERDICT);
    reply.argument = (uint64_t)(int64_t)status;
    tt_outgoing_send(control, peer, reply, text.bytes, text.length);
}

/* Has this rank sent the verdict on the op of `key` to all members? A second verdict could overtake
 * the first, and members would get different texts. */
static bool is_told(tt_control *control, uint32_t peer, const tt_head *key)
{
    const tt_op *op = tt_op_find(control, peer, key);
    const tt_status status =
        op != NULL && op->phase == OP_STOPPING ? op->request->status : tt_op_failed(control, key);
    return tt_early_verdict_is_decided(control, key) ||
           (status < 0 && status != TT_ERR_PEER_DOWN && status != TT_ERR_PEER_LEFT);
}

static void to_first_member(tt_control *control, uint32_t peer, const tt_head *head,
                            const void *payload, const char *text)
{
    const tt_failure failure = {.status = (tt_status)(int64_t)head->argument, .text = text};
    if (head->kind == TT_FRAME_OBJECT && tt_set_find(control, head->set) == NULL) {
        tt_agree_keep_early(control, peer, head, &failure); /* the set does not exist yet */
        return;
    }
    if (!tt_case_is_own(control, head)) {
        return;
    }
    if (head->kind == TT_FRAME_OBJECT && is_told(control, peer, head)) {
        return;
    }
    if (head->kind == TT_FRAME_OBJECT) {
        tt_case_decide(control, peer, *head, &failure, peer);
        return;
    }
    tt_case *found = tt_case_of(control, peer, head);
    if (found == NULL) {
        answer_over(control, peer, head);
    } else if (head->kind == TT_FRAME_PROBE) {
        probe_frame(control, peer, head, found);
    } else {
        tt_claim claim;
        const uint32_t member = tt_case_member(control, found, peer);
        if (tt_claim_read(&claim, payload, head->payload_bytes)) {
            tt_case_dispute(control, found);
            /* A bundle that waited for members is refused at once, and its case is over. */
            tt_case_claim(control, tt_case_find(control, peer, head), member, &claim);
        }
    }
}

void tt_agree_frame(tt_control *control, uint32_t peer, const tt_head *head, const void *payload)
{
    char text[TT_ERROR_BYTES] = {0};
    TT_ASSERT(head->kind >= TT_FRAME_DISPUTE);
    TT_ASSERT(head->kind <= TT_FRAME_STALL);
    if (head->payload_bytes >= TT_ERROR_BYTES + 1) {
        return; /* malformed */
    }
    const int64_t status = (int64_t)head->argument;
    const bool has_status = head->kind == TT_FRAME_OBJECT || head->kind == TT_FRAME_VERDICT;
    if (head->payload_bytes > 0) {
        memcpy(text, payload, tt_min_u64(head->payload_bytes, sizeof(text) - 1));
    } else if (has_status) {
        tt_agree_say_silent(peer, text);
    }
    if (has_status && (status >= 0 || status < -64)) {
        return;
    }
    tt_op *op;
    const tt_claim *done;
    switch (head->kind) {
    case TT_FRAME_DISPUTE:
        op = tt_op_find(control, peer, head);
        if (op != NULL) {
            tt_agree_dispute(op);
        } else if (tt_op_is_future(control, peer, head)) {
            tt_early_verdict_add(control, peer, head, NULL);
        } else if ((done = tt_op_done(control, head)) != NULL) {
            tt_outgoing_send(control, peer, tt_case_reply(control, head, TT_FRAME_CLAIM), done,
                             tt_claim_bytes(done));
        }
        break;
    case TT_FRAME_VERDICT:
        tt_agree_verdict(control, peer, head, (tt_status)status, text);
        break;
    case TT_FRAME_STALL:
        stall_frame(control, peer, head, text);
        break;
    default:
        if (head->kind == TT_FRAME_PROBE && head->argument == PROBE_QUERY) {
            query_frame(control, peer, head);
            break;
        }
        to_first_member(control, peer, head, payload, text);
        break;
    }
}

/* ---- patrol ---- */

static void probe(tt_op *op, bool wants_answer)
{
    tt_control *control = op->control;
    const uint32_t first = tt_op_first(op);
    tt_head head = tt_op_identity(op, TT_FRAME_PROBE);
    head.argument = wants_answer ? PROBE_ASKS : PROBE_TELLS;
    if (first != control->world.rank) {
        tt_flow_control(&control->flow, first, &head);
        return;
    }
    const tt_head key = tt_op_arriving_key(op);
    tt_case *found = tt_case_of(control, op->peer, &key);
    if (found == NULL || !wants_answer) {
        return;
    }
    tt_text who = {0};
    bool *missing = found->has_claimed;
    bool missing_any = false;
    for (uint32_t i = 0; i < found->size && !found->is_disputed; i++) {
        missing[i] =
            !found->has_probed[i] && tt_case_rank(control, found, i) != control->world.rank;
        missing_any = missing_any || missing[i];
    }
    if (missing_any) {
        tt_case_add_ranks(&who, control, found, missing);
        query(control, found, missing);
        memset(missing, 0, found->size * sizeof(bool));
        stall_frame(control, op->peer, &key, who.bytes);
    }
}

static void patrol_op(tt_op *op, uint64_t now)
{
    const tt_control_config *config = &op->control->config;
    TT_ASSERT(op->any == NULL || op->phase == OP_QUEUED);
    if (op->submitted_ns == 0) {
        tt_op_date(op, now);
    }
    op->weight = 1; /* a long op is counted individually */
    if (tt_removal_is_farewell(op) && op->phase != OP_DISPUTED) {
        return; /* others may use the set for as long as they like */
    }
    if (now >= op->deadline_ns && !TT_PLANT(DEADLINE_IGNORED)) {
        tt_text text = {0};
        tt_text_add(&text, "rank %u: ", op->control->world.rank);
        tt_claim_tell(&text, &op->recipe->claim);
        tt_text_add(&text, " not over after %g s",
                    (double)(op->deadline_ns - op->waiting_ns) / 1e9);
        if (tt_op_stall(op)[0] != 0) {
            tt_text_add(&text, ", missing: %s", tt_op_stall(op));
        }
        tt_agree_object(op, TT_ERR_TIMED_OUT, text.bytes);
        return;
    }
    if (op->any != NULL) {
        tt_any_patrol(op, now);
        return;
    }
    if (op->phase == OP_QUEUED || tt_op_is_launched(op)) {
        return; /* earlier ops probe; every member has it */
    }
    if (op->phase == OP_HELD && now < op->report_ns) {
        return; /* it waits for this rank itself */
    }
    if (op->phase == OP_DISPUTED) {
        if (tt_elapsed_ns(now, op->troubled_ns) > 2 * config->verdict_ns) {
            tt_agree_object(op, TT_ERR_MISMATCH, "ranks disagree about a call");
        }
        return;
    }
    if (is_overdue(op, now)) {
        const bool is_first = op->overdue_ns == 0;
        op->overdue_ns = is_first ? now : op->overdue_ns;
        if (is_first || now >= op->probe_ns) {
            op->probe_ns = now + config->probe_ns;
            probe(op, true);
        }
    } else if (now >= op->probe_ns && now < op->report_ns) {
        op->probe_ns = now + (now - op->submitted_ns); /* probe again: members may be late */
        probe(op, true);
    } else if (now >= op->report_ns) {
        op->report_ns = now + config->stall_ns;
        probe(op, true);
    }
}

void tt_agree_patrol(tt_control *control)
{
    const uint64_t now = tt_now(control->platform);
    for (uint32_t i = 0; i < control->op_count; i++) {
        TT_ASSERT(control->ops[i]->index == i); /* tokens of frames hold it */
        if (control->ops[i]->phase != OP_FREE && control->ops[i]->phase != OP_STOPPING) {
            patrol_op(control->ops[i], now);
        }
    }
    tt_case_patrol(control, now);
}
