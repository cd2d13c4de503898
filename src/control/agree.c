/* SPDX-License-Identifier: Apache-2.0
 *
 * agree.c - one verdict for everyone when a call cannot succeed.
 *
 * The first member of a set that is still there (of a pair: the sender) decides. A rank that sees a
 * foreign descriptor stops its op and sends its CLAIM; the first member asks all for theirs
 * (DISPUTE) and decides when all are in or verdict_ns has passed. A rank that cannot take part
 * (wrong arguments, no memory, cancel, deadline) fails its op at once and sends OBJECT; the first
 * member passes it on. Either way the members get one VERDICT. What arrives before its op is kept
 * as its fate. A rank whose op had succeeded already learns of it at its next call.
 *
 * Ops that wait long ask the first member who is missing (PROBE, STALL), which also uncovers calls
 * that differ so much that no frame passes between them.
 */
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/plant.h"
#include "control/any.h"
#include "control/named.h"

/* Heads of frames to send for the op that `key` (as it arrives) names. */
static tt_head reply_head(const tt_control *control, const tt_head *key, tt_frame_kind kind)
{
    tt_head head = {.kind = (uint8_t)kind,
                    .flags = key->flags & TT_FLAGS_SPACE,
                    .set = key->set,
                    .op = key->op,
                    .epoch = control->world.epoch};
    if ((head.flags & TT_FLAG_PAIR) != 0) {
        head.flags ^= TT_FLAG_REPLY;
    }
    return head;
}

void tt_agree_foretell(tt_control *control, uint32_t peer, const tt_head *head,
                       const tt_failure *failure)
{
    if (tt_op_is_future(control, peer, head)) {
        tt_fate_add(control, peer, head, failure);
    }
}

/* ---- cases ---- */

static void case_destroy(tt_control *control, tt_case *found)
{
    const size_t size = found->size;
    control->peers[found->peer].case_count--;
    tt_platform_release(control->platform, found->has_probed, size * sizeof(bool));
    tt_platform_release(control->platform, found->has_claimed, size * sizeof(bool));
    tt_platform_release(control->platform, found->claims, size * sizeof(tt_claim));
    tt_platform_release(control->platform, found, sizeof(*found));
}

static tt_case *case_create(tt_control *control, uint32_t peer, const tt_head *key, uint32_t size)
{
    const bool has_room = control->peers[peer].case_count < CASES_MAX;
    tt_case *made = has_room ? tt_platform_allocate(control->platform, sizeof(*made)) : NULL;
    if (made == NULL) {
        return NULL;
    }
    control->peers[peer].case_count++;
    made->size = size;
    made->key = *key;
    made->peer = peer;
    made->opened_ns = tt_now(control->platform);
    made->has_probed = tt_platform_allocate(control->platform, size * sizeof(bool));
    made->has_claimed = tt_platform_allocate(control->platform, size * sizeof(bool));
    made->claims = tt_platform_allocate(control->platform, size * sizeof(tt_claim));
    if (made->has_probed == NULL || made->has_claimed == NULL || made->claims == NULL) {
        case_destroy(control, made);
        return NULL;
    }
    made->next = control->cases;
    control->cases = made;
    tt_control_watch(control);
    return made;
}

/* Does this rank decide about the op that `key` names? */
static bool is_first_member(const tt_control *control, const tt_head *key)
{
    const tt_set *set = tt_set_find(control, key->set);
    if (set == NULL || set->self == UINT32_MAX) {
        return false;
    }
    if ((key->flags & TT_FLAG_PAIR) != 0) {
        return (key->flags & TT_FLAG_REPLY) != 0;
    }
    for (uint32_t member = 0; member < set->self; member++) {
        if (!control->peers[set->members[member]].is_gone) {
            return false;
        }
    }
    return true;
}

/* The case of the op that `key` names, made if there is none. NULL: not ours to decide, over, or
 * no memory. */
static tt_case *case_of(tt_control *control, uint32_t peer, const tt_head *key)
{
    const bool is_pair = (key->flags & TT_FLAG_PAIR) != 0;
    if (!is_first_member(control, key)) {
        return NULL;
    }
    for (tt_case *found = control->cases; found != NULL; found = found->next) {
        if (tt_fate_same_key(&found->key, found->peer, key, peer)) {
            return found;
        }
    }
    tt_claim done;
    if (tt_op_find(control, peer, key) == NULL && !tt_op_is_future(control, peer, key) &&
        !tt_order_done(control, key, &done)) {
        return NULL;
    }
    return case_create(control, peer, key, is_pair ? 2 : tt_set_find(control, key->set)->size);
}

static uint32_t case_member(const tt_control *control, const tt_case *found, uint32_t rank)
{
    if ((found->key.flags & TT_FLAG_PAIR) != 0) {
        return rank == control->world.rank ? 0 : 1;
    }
    return tt_set_find(control, found->key.set)->member_of[rank];
}

static uint32_t case_rank(const tt_control *control, const tt_case *found, uint32_t member)
{
    if ((found->key.flags & TT_FLAG_PAIR) != 0) {
        return member == 0 ? control->world.rank : found->peer;
    }
    return tt_set_find(control, found->key.set)->members[member];
}

void tt_agree_forget(tt_control *control, const tt_op *op)
{
    const tt_head key = tt_op_arriving_key(op);
    for (tt_case **link = &control->cases; *link != NULL; link = &(*link)->next) {
        tt_case *found = *link;
        if (tt_fate_same_key(&found->key, found->peer, &key, op->peer)) {
            if (found->is_disputed && !found->is_decided) {
                return;
            }
            *link = found->next;
            case_destroy(control, found);
            return;
        }
    }
}

void tt_agree_forget_set(tt_control *control, uint32_t set_id)
{
    for (tt_case **link = &control->cases; *link != NULL;) {
        tt_case *found = *link;
        if (found->key.set != set_id) {
            link = &found->next;
            continue;
        }
        *link = found->next;
        case_destroy(control, found);
    }
}

void tt_agree_release_all(tt_control *control)
{
    tt_agree_release_reasons(control);
    while (control->cases != NULL) {
        tt_case *next = control->cases->next;
        case_destroy(control, control->cases);
        control->cases = next;
    }
}

/* ---- words for people ---- */

/* "rank 3" or "ranks 0, 2" of the members for which `wanted` is true. */
static void add_ranks(tt_text *text, const tt_control *control, const tt_case *found,
                      const bool *wanted)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < found->size; i++) {
        count += wanted[i] ? 1 : 0;
    }
    tt_text_add(text, count == 1 ? "rank" : "ranks");
    const char *separator = " ";
    for (uint32_t i = 0; i < found->size; i++) {
        if (wanted[i]) {
            tt_text_add(text, "%s%u", separator, case_rank(control, found, i));
            separator = ", ";
        }
    }
}

/* ---- verdicts ---- */

/* An op that had succeeded here has failed all the same: this is told at the next call, once. Ranks
 * that still wait for it may ask before they are told: they are to hear the same words. */
static void fail_late(tt_control *control, const tt_head *key, tt_status status, const char *text)
{
    tt_set *set = tt_set_find(control, key->set);
    const bool is_pair = (key->flags & TT_FLAG_PAIR) != 0;
    if (set == NULL || is_pair || tt_order_failed(control, key) < 0) {
        return;
    }
    tt_text late = {0};
    tt_text_add(&late, "an earlier call failed on other ranks: %s", text);
    memcpy(set->late_text, late.bytes, sizeof(set->late_text));
    set->late = status;
    tt_order_remember(set, key, NULL, status);
    tt_agree_reason(control, key, text);
}

void tt_agree_verdict(tt_control *control, uint32_t peer, const tt_head *key, tt_status status,
                      const char *text)
{
    tt_op *op = tt_op_find(control, peer, key);
    if (op != NULL) {
        tt_op_fail(op, status, text);
        return;
    }
    if (tt_op_is_future(control, peer, key)) {
        const tt_failure failure = {.status = status, .text = text};
        tt_fate_add(control, peer, key, &failure);
        return;
    }
    fail_late(control, key, status, text);
}

/* Tell all members; `except` (a rank) knows already. */
static void verdict_send(tt_control *control, const tt_case *found, tt_status status,
                         const char *text, uint32_t except)
{
    tt_head head = reply_head(control, &found->key, TT_FRAME_VERDICT);
    head.argument = (uint64_t)(int64_t)status;
    for (uint32_t member = 0; member < found->size; member++) {
        const uint32_t rank = case_rank(control, found, member);
        if (rank != control->world.rank && rank != except) {
            tt_letter_send(control, rank, head, text, strlen(text));
        }
    }
}

static tt_case *case_find(const tt_control *control, uint32_t peer, const tt_head *key)
{
    tt_case *found = control->cases;
    while (found != NULL && !tt_fate_same_key(&found->key, found->peer, key, peer)) {
        found = found->next;
    }
    return found;
}

/* Decide about the op that `key` names, once. Needs no memory: without a case a second verdict may
 * follow, which nobody heeds. `except` (a rank) knows already. */
static void decide(tt_control *control, uint32_t peer, tt_head key, const tt_failure *failure,
                   uint32_t except)
{
    tt_case *found = case_find(control, peer, &key);
    const tt_set *set = tt_set_find(control, key.set);
    const tt_case bare = {
        .key = key, .peer = peer, .size = (key.flags & TT_FLAG_PAIR) != 0 ? 2 : set->size};
    if (found != NULL && found->is_decided) {
        return;
    }
    if (found != NULL) {
        found->is_decided = true;
    }
    verdict_send(control, &bare, failure->status, failure->text, except);
    if (except != control->world.rank) {
        key.kind = TT_FRAME_VERDICT; /* all have heard */
        tt_agree_verdict(control, peer, &key, failure->status, failure->text);
    }
}

/* Do all ask for the same? Then they differ in what nobody asks for by a call. */
static bool differs_in_settings(const tt_case *found)
{
    bool is_one = true;
    for (uint32_t i = 0; i < found->size && is_one; i++) {
        is_one = found->has_claimed[i] && tt_claim_asks_same(&found->claims[0], &found->claims[i]);
    }
    return is_one;
}

/* Say who asked for what, equal claims together. */
static void decide_mismatch(tt_control *control, tt_case *found)
{
    tt_text text = {0};
    const bool is_pair = (found->key.flags & TT_FLAG_PAIR) != 0;
    tt_text_add(&text, "ranks disagree about %s %llu:", is_pair ? "message" : "call",
                (unsigned long long)(is_pair ? tt_pair_number(found->key.op) : found->key.op));
    bool *wanted = found->has_probed; /* no longer needed: room for a selection */
    for (uint32_t i = 0; i < found->size; i++) {
        bool is_first = found->has_claimed[i];
        for (uint32_t j = 0; j < i; j++) {
            is_first = is_first && !(found->has_claimed[j] &&
                                     tt_claim_equals(&found->claims[i], &found->claims[j]));
        }
        if (!is_first) {
            continue;
        }
        for (uint32_t j = 0; j < found->size; j++) {
            wanted[TT_PLANT(WRONG_RANKS_TOLD) ? (j + 1) % found->size : j] =
                found->has_claimed[j] && tt_claim_equals(&found->claims[i], &found->claims[j]);
        }
        tt_text_add(&text, " ");
        add_ranks(&text, control, found, wanted);
        tt_text_add(&text, ": ");
        tt_claim_tell(&text, &found->claims[i]);
        tt_text_add(&text, ";");
    }
    if (found->claim_count < found->size) {
        for (uint32_t j = 0; j < found->size; j++) {
            wanted[j] = !found->has_claimed[j];
        }
        tt_text_add(&text, " no word from ");
        add_ranks(&text, control, found, wanted);
    } else {
        text.bytes[--text.length] = 0; /* the last semicolon */
    }
    if (differs_in_settings(found)) {
        tt_text_add(&text, "; they ask for the same, but their settings differ: TUTTI_SEGMENT, "
                           "TUTTI_FUSE, the table of costs, or what travels together");
    }
    const tt_failure failure = {.status = TT_ERR_MISMATCH, .text = text.bytes};
    decide(control, found->peer, found->key, &failure, UINT32_MAX);
}

/* ---- disputes ---- */

/* `found` NULL: there is no case any more. */
static void case_claim(tt_control *control, tt_case *found, uint32_t member, const tt_claim *claim)
{
    if (found == NULL || member >= found->size || found->has_claimed[member] || found->is_decided) {
        return;
    }
    found->has_claimed[member] = true;
    tt_claim_copy(&found->claims[member], claim);
    found->claim_count++;
    if (found->claim_count == found->size || TT_PLANT(VERDICT_BEFORE_CLAIMS)) {
        decide_mismatch(control, found);
    }
}

/* Ask everyone, this rank included, for its claim. Afterwards the case may be over. */
static void case_dispute(tt_control *control, tt_case *found)
{
    if (found->is_disputed) {
        return;
    }
    found->is_disputed = true;
    found->opened_ns = tt_now(control->platform);
    const tt_head head = reply_head(control, &found->key, TT_FRAME_DISPUTE);
    for (uint32_t member = 0; member < found->size; member++) {
        const uint32_t rank = case_rank(control, found, member);
        if (rank != control->world.rank) {
            tt_flow_control(&control->flow, rank, &head);
        }
    }
    tt_op *op = tt_op_find(control, found->peer, &found->key);
    tt_claim done;
    if (op != NULL) {
        tt_agree_dispute(op);
    } else if (tt_order_done(control, &found->key, &done)) {
        case_claim(control, found, case_member(control, found, control->world.rank), &done);
    } else {
        tt_fate_add(control, found->peer, &found->key, NULL);
    }
}

void tt_agree_dispute(tt_op *op)
{
    tt_control *control = op->control;
    if (op->phase == OP_DISPUTED || op->phase == OP_STOPPING || op->phase == OP_FREE) {
        return;
    }
    if (op->exec.is_running) {
        tt_exec_stop(&op->exec);
    }
    tt_op_set_phase(op, OP_DISPUTED);
    op->disputed_ns = tt_now(control->platform);
    tt_control_watch(control);
    const uint32_t first = tt_op_first(op);
    if (first != control->world.rank) {
        const tt_head head = tt_op_identity(op, TT_FRAME_CLAIM);
        tt_letter_send(control, first, head, &op->claim, tt_claim_bytes(&op->claim));
        return;
    }
    const tt_head key = tt_op_arriving_key(op);
    tt_claim claim;
    tt_claim_copy(&claim, &op->claim);
    tt_case *found = case_of(control, op->peer, &key);
    if (found == NULL) {
        tt_text text = {0};
        tt_text_add(&text, "rank %u is out of memory while ranks disagree", control->world.rank);
        tt_agree_object(op, TT_ERR_NO_MEMORY, text.bytes);
        return;
    }
    case_dispute(control, found);
    case_claim(control, found, case_member(control, found, control->world.rank), &claim);
}

void tt_agree_stray(tt_control *control, uint32_t peer, const tt_head *head)
{
    const tt_set *set = tt_set_find(control, head->set);
    tt_claim done;
    if (!tt_order_done(control, head, &done) ||
        tt_claim_hash(&done, set->size) == head->descriptor) {
        return;
    }
    if (is_first_member(control, head)) {
        tt_case *found = case_of(control, peer, head);
        if (found != NULL) {
            case_dispute(control, found);
        }
        return;
    }
    uint32_t first = 0;
    while (control->peers[set->members[first]].is_gone) {
        first++;
    }
    tt_letter_send(control, set->members[first], reply_head(control, head, TT_FRAME_CLAIM), &done,
                   tt_claim_bytes(&done));
}

void tt_agree_object(tt_op *op, tt_status status, const char *text)
{
    tt_control *control = op->control;
    const uint32_t first = tt_op_first(op);
    tt_head head = tt_op_identity(op, TT_FRAME_OBJECT);
    head.argument = (uint64_t)(int64_t)status;
    if (first != control->world.rank) {
        tt_letter_send(control, first, head, text, strlen(text));
    } else {
        const tt_failure failure = {.status = status, .text = text};
        decide(control, op->peer, tt_op_arriving_key(op), &failure, control->world.rank);
    }
    tt_op_fail(op, status, text);
}

/* ---- frames ---- */

enum { PROBE_TELLS = 0, PROBE_ASKS = 1, PROBE_QUERY = 2 }; /* argument of PROBE */

/* A rank whose part is over does not probe: ask the missing ones what they took the op for. */
static void query(tt_control *control, const tt_case *found, const bool *missing)
{
    tt_head head = reply_head(control, &found->key, TT_FRAME_PROBE);
    head.argument = PROBE_QUERY;
    for (uint32_t i = 0; i < found->size; i++) {
        const uint32_t rank = case_rank(control, found, i);
        if (missing[i] && rank != control->world.rank) {
            tt_flow_control(&control->flow, rank, &head);
        }
    }
}

static void query_frame(tt_control *control, uint32_t peer, const tt_head *head)
{
    const tt_op *op = tt_op_find(control, peer, head);
    tt_claim done;
    if (op == NULL && !tt_order_done(control, head, &done)) {
        return;
    }
    tt_head reply = reply_head(control, head, TT_FRAME_PROBE);
    reply.argument = PROBE_TELLS;
    reply.descriptor =
        op != NULL ? op->descriptor : tt_claim_hash(&done, tt_set_find(control, head->set)->size);
    tt_flow_control(&control->flow, peer, &reply);
}

static void probe_frame(tt_control *control, uint32_t peer, const tt_head *head, tt_case *found)
{
    const uint32_t member = case_member(control, found, peer);
    const tt_op *own = tt_op_find(control, peer, head);
    if (member >= found->size) {
        return;
    }
    found->has_probed[member] = true;
    tt_claim done;
    const bool is_done = tt_order_done(control, head, &done);
    const uint64_t done_hash = is_done ? tt_claim_hash(&done, found->size) : 0;
    if (own != NULL ? own->descriptor != head->descriptor
                    : is_done && done_hash != head->descriptor) {
        case_dispute(control, found);
        return;
    }
    if (found->key.descriptor == 0) {
        found->key.descriptor = head->descriptor;
    } else if (found->key.descriptor != head->descriptor) {
        case_dispute(control, found);
        return;
    }
    bool missing_any = false;
    bool *missing = found->has_claimed; /* undisputed: room for a selection */
    if (found->is_disputed || head->argument == PROBE_TELLS) {
        return;
    }
    for (uint32_t i = 0; i < found->size; i++) {
        const bool is_self = case_rank(control, found, i) == control->world.rank;
        const bool is_here = is_self ? own != NULL || is_done : found->has_probed[i];
        missing[i] = !is_here;
        missing_any = missing_any || !is_here;
    }
    if (missing_any) {
        tt_text text = {0};
        add_ranks(&text, control, found, missing);
        const tt_head reply = reply_head(control, head, TT_FRAME_STALL);
        tt_letter_send(control, peer, reply, text.bytes, text.length);
        query(control, found, missing);
    }
    memset(missing, 0, found->size * sizeof(bool));
}

/* Of an agreed op every rank has made the call: none lets it wait. */
static bool is_overdue(const tt_op *op, uint64_t now_ns)
{
    const uint64_t fail_ns = op->control->config.negotiate.stall_fail_ns;
    return fail_ns > 0 && op->space == SPACE_PLANNED && now_ns - op->waiting_ns >= fail_ns;
}

static void give_up(tt_op *op, uint64_t now_ns, const char *who)
{
    const char *name = op->request->name != NULL ? op->request->name : "";
    tt_text text = {0};
    tt_text_add(&text, "tensor ");
    tt_text_add_quoted(&text, name, TT_NAME_BYTES);
    tt_text_add(&text, ": rank %u gave up after %.1f s, missing: %s", op->control->world.rank,
                (double)(now_ns - op->waiting_ns) / 1e9, who);
    /* Nobody can have completed a pack that a rank has not begun: its tensors meet the stall
     * again, one by one. */
    const bool is_pack = tt_bundle_is_pack(op->request);
    tt_agree_object(op, is_pack ? TT_ERR_CANCELLED : TT_ERR_TIMED_OUT, text.bytes);
}

static void stall_frame(tt_control *control, uint32_t peer, const tt_head *head, const char *who)
{
    tt_op *op = tt_op_find(control, peer, head);
    if (op == NULL) {
        return;
    }
    tt_text text = {0};
    tt_text_add_words(&text, who, TT_ERROR_BYTES - 1);
    memcpy(op->stall_text, text.bytes, sizeof(op->stall_text));
    if (op->submitted_ns == 0) {
        tt_op_date(op, tt_now(control->platform));
    }
    const uint64_t now_ns = tt_now(control->platform), waited_ns = now_ns - op->submitted_ns;
    /* Those who came last were asked in between, and have answered. */
    if (op->overdue_ns > 0 && now_ns - op->overdue_ns >= control->config.probe_ns) {
        give_up(op, now_ns, text.bytes);
        return;
    }
    if (waited_ns >= control->config.stall_ns &&
        waited_ns - op->reported_after_ns >= control->config.stall_ns / 2) {
        op->reported_after_ns = waited_ns;
        tt_text report = {0};
        tt_claim_tell(&report, &op->claim);
        tt_text_add(&report, " (call %llu) has waited %.1f s for %s",
                    (unsigned long long)op->sequence, (double)waited_ns / 1e9, text.bytes);
        tt_control_report(control, LEVEL_WARN, &report);
    }
}

/* `peer` waits for an op that is over here: it has failed, or the message was sent but differs from
 * what the receiver claims to expect. */
static void answer_over(tt_control *control, uint32_t peer, const tt_head *head)
{
    const bool is_pair = (head->flags & TT_FLAG_PAIR) != 0;
    const tt_status status =
        is_pair && head->kind == TT_FRAME_CLAIM ? TT_ERR_MISMATCH : tt_order_failed(control, head);
    /* That a rank is gone it learns by itself. */
    if (status == TT_OK || status == TT_ERR_PEER_DOWN || status == TT_ERR_PEER_LEFT) {
        return;
    }
    tt_text text = {0};
    const char *reason = is_pair ? NULL : tt_agree_reason_of(control, head);
    if (reason != NULL) {
        tt_text_add(&text, "%s", reason);
    } else {
        tt_text_add(&text,
                    is_pair
                        ? "ranks disagree about message %llu: rank %u sent another than rank %u "
                          "expects"
                        : "call %llu failed on rank %u, asked by rank %u",
                    (unsigned long long)(is_pair ? tt_pair_number(head->op) : head->op),
                    control->world.rank, peer);
    }
    tt_head reply = reply_head(control, head, TT_FRAME_VERDICT);
    reply.argument = (uint64_t)(int64_t)status;
    tt_letter_send(control, peer, reply, text.bytes, text.length);
}

/* Has this rank told all members that the op of `key` fails? A second verdict could pass the first
 * one on its way, and members would be told different things. */
static bool is_told(tt_control *control, uint32_t peer, const tt_head *key)
{
    const tt_op *op = tt_op_find(control, peer, key);
    const tt_status status = op != NULL && op->phase == OP_STOPPING ? op->request->status
                                                                    : tt_order_failed(control, key);
    return tt_fate_is_decided(control, key) ||
           (status < 0 && status != TT_ERR_PEER_DOWN && status != TT_ERR_PEER_LEFT);
}

static void to_first_member(tt_control *control, uint32_t peer, const tt_head *head,
                            const void *payload, const char *text)
{
    const tt_failure failure = {.status = (tt_status)(int64_t)head->argument, .text = text};
    if (head->kind == TT_FRAME_OBJECT && tt_set_find(control, head->set) == NULL) {
        tt_agree_foretell(control, peer, head, &failure); /* a set that is still to come */
        return;
    }
    if (!is_first_member(control, head)) {
        return;
    }
    if (head->kind == TT_FRAME_OBJECT && is_told(control, peer, head)) {
        return;
    }
    if (head->kind == TT_FRAME_OBJECT) {
        decide(control, peer, *head, &failure, peer);
        return;
    }
    tt_case *found = case_of(control, peer, head);
    if (found == NULL) {
        answer_over(control, peer, head);
    } else if (head->kind == TT_FRAME_PROBE) {
        probe_frame(control, peer, head, found);
    } else {
        tt_claim claim;
        const uint32_t member = case_member(control, found, peer);
        if (tt_claim_read(&claim, payload, head->payload_bytes)) {
            case_dispute(control, found);
            /* A bundle that waited for members is refused at once, and its case is over. */
            case_claim(control, case_find(control, peer, head), member, &claim);
        }
    }
}

void tt_agree_frame(tt_control *control, uint32_t peer, const tt_head *head, const void *payload)
{
    char text[TT_ERROR_BYTES] = {0};
    if (head->payload_bytes >= TT_ERROR_BYTES + 1) {
        return; /* nobody honest sends that */
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
    tt_claim done;
    switch (head->kind) {
    case TT_FRAME_DISPUTE:
        op = tt_op_find(control, peer, head);
        if (op != NULL) {
            tt_agree_dispute(op);
        } else if (tt_op_is_future(control, peer, head)) {
            tt_fate_add(control, peer, head, NULL);
        } else if (tt_order_done(control, head, &done)) {
            tt_letter_send(control, peer, reply_head(control, head, TT_FRAME_CLAIM), &done,
                           tt_claim_bytes(&done));
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
    tt_case *found = case_of(control, op->peer, &key);
    if (found == NULL || !wants_answer) {
        return;
    }
    tt_text who = {0};
    bool *missing = found->has_claimed;
    bool missing_any = false;
    for (uint32_t i = 0; i < found->size && !found->is_disputed; i++) {
        missing[i] = !found->has_probed[i] && case_rank(control, found, i) != control->world.rank;
        missing_any = missing_any || missing[i];
    }
    if (missing_any) {
        add_ranks(&who, control, found, missing);
        query(control, found, missing);
        memset(missing, 0, found->size * sizeof(bool));
        stall_frame(control, op->peer, &key, who.bytes);
    }
}

static void patrol_op(tt_op *op, uint64_t now)
{
    const tt_control_config *config = &op->control->config;
    if (op->submitted_ns == 0) {
        tt_op_date(op, now);
    }
    op->weight = 1; /* one that lasts is counted as it is */
    if (tt_removal_is_farewell(op) && op->phase != OP_DISPUTED) {
        return; /* others may use the set for as long as they like */
    }
    if (now >= op->deadline_ns && !TT_PLANT(DEADLINE_IGNORED)) {
        tt_text text = {0};
        tt_text_add(&text, "rank %u: ", op->control->world.rank);
        tt_claim_tell(&text, &op->claim);
        tt_text_add(&text, " not over after %g s",
                    (double)(op->deadline_ns - op->waiting_ns) / 1e9);
        if (op->stall_text[0] != 0) {
            tt_text_add(&text, ", missing: %s", op->stall_text);
        }
        tt_agree_object(op, TT_ERR_TIMED_OUT, text.bytes);
        return;
    }
    if (op->any != NULL) {
        tt_any_patrol(op, now);
        return;
    }
    if (op->phase == OP_QUEUED || op->phase == OP_ENGINE) {
        return; /* those before it ask; every member has it */
    }
    if (op->phase == OP_HELD && now < op->report_ns) {
        return; /* waits for its own rank */
    }
    if (op->phase == OP_DISPUTED) {
        if (now - op->disputed_ns > 2 * config->verdict_ns) {
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
        op->probe_ns = now + (now - op->submitted_ns); /* others may have come since: ask again */
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
        if (control->ops[i]->phase != OP_FREE && control->ops[i]->phase != OP_STOPPING) {
            patrol_op(control->ops[i], now);
        }
    }
    for (tt_case **link = &control->cases; *link != NULL;) {
        tt_case *found = *link;
        const bool is_due = now - found->opened_ns >= control->config.verdict_ns;
        if (found->is_disputed && !found->is_decided && is_due) {
            decide_mismatch(control, found);
            link = &control->cases; /* deciding may have removed any of them */
            continue;
        }
        /* Of an op that is over here, a case is kept while others may still ask. */
        const bool is_idle = !found->is_disputed &&
                             now - found->opened_ns >= 2 * control->config.stall_ns &&
                             tt_op_find(control, found->peer, &found->key) == NULL &&
                             !tt_op_is_future(control, found->peer, &found->key);
        if ((found->is_decided && is_due) || is_idle) {
            *link = found->next;
            case_destroy(control, found);
            continue;
        }
        link = &found->next;
    }
}
