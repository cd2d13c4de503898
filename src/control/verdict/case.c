/* SPDX-License-Identifier: Apache-2.0
 *
 * case.c - disputed ops on the first member: members, claims, verdict. */
#include "control/verdict/case.h"

#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/plant.h"
#include "control/named/name.h"

tt_head tt_case_reply(const tt_control *control, const tt_head *key, tt_frame_kind kind)
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

/* ---- cases ---- */

static void case_destroy(tt_control *control, tt_case *found)
{
    const size_t size = found->size;
    TT_ASSERT(control->peers[found->peer].case_count > 0);
    control->peers[found->peer].case_count--;
    tt_platform_release(control->platform, found->has_probed, size * sizeof(bool));
    tt_platform_release(control->platform, found->has_claimed, size * sizeof(bool));
    tt_platform_release(control->platform, found->claims, size * sizeof(tt_claim));
    tt_platform_release(control->platform, found, sizeof(*found));
}

static tt_case *case_create(tt_control *control, uint32_t peer, const tt_head *key, uint32_t size)
{
    const bool has_room = control->peers[peer].case_count < CASES_MAX;
    TT_ASSERT(size > 0);
    TT_DEBUG_ASSERT(tt_case_find(control, peer, key) == NULL); /* an op has one case */
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

tt_case *tt_case_find(const tt_control *control, uint32_t peer, const tt_head *key)
{
    tt_case *found = control->cases;
    while (found != NULL && !tt_early_verdict_same_key(&found->key, found->peer, key, peer)) {
        found = found->next;
    }
    return found;
}

bool tt_case_is_own(const tt_control *control, const tt_head *key)
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

tt_case *tt_case_of(tt_control *control, uint32_t peer, const tt_head *key)
{
    const bool is_pair = (key->flags & TT_FLAG_PAIR) != 0;
    if (!tt_case_is_own(control, key)) {
        return NULL;
    }
    tt_case *found = tt_case_find(control, peer, key);
    if (found != NULL ||
        (tt_op_find(control, peer, key) == NULL && !tt_op_is_future(control, peer, key) &&
         tt_op_done(control, key) == NULL)) {
        return found;
    }
    return case_create(control, peer, key, is_pair ? 2 : tt_set_find(control, key->set)->size);
}

uint32_t tt_case_member(const tt_control *control, const tt_case *found, uint32_t rank)
{
    TT_ASSERT(rank < control->world.size);
    if ((found->key.flags & TT_FLAG_PAIR) != 0) {
        return rank == control->world.rank ? 0 : 1;
    }
    return tt_set_find(control, found->key.set)->member_of[rank];
}

uint32_t tt_case_rank(const tt_control *control, const tt_case *found, uint32_t member)
{
    TT_ASSERT(member < found->size);
    if ((found->key.flags & TT_FLAG_PAIR) != 0) {
        return member == 0 ? control->world.rank : found->peer;
    }
    return tt_set_find(control, found->key.set)->members[member];
}

void tt_agree_over(const tt_op *op, tt_status status)
{
    tt_control *control = op->control;
    const tt_head key = tt_op_arriving_key(op);
    tt_case **link = &control->cases;
    while (*link != NULL &&
           !tt_early_verdict_same_key(&(*link)->key, (*link)->peer, &key, op->peer)) {
        link = &(*link)->next;
    }
    tt_case *found = *link;
    if (found != NULL && (!found->is_disputed || found->is_decided)) {
        *link = found->next;
        case_destroy(control, found);
    }
    if (control->flow.parked_count > 0 || control->flow.note_count > 0) {
        tt_flow_purge(&control->flow, &key, op->peer);
    }
    if (status < 0) {
        tt_agree_reason(control, &key, op->request->error);
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

/* ---- texts ---- */

void tt_case_add_ranks(tt_text *text, const tt_control *control, const tt_case *found,
                       const bool *wanted)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < found->size; i++) {
        count += wanted[i] ? 1 : 0;
    }
    TT_ASSERT(count > 0); /* else the text would name no rank */
    tt_text_add(text, count == 1 ? "rank" : "ranks");
    const char *separator = " ";
    for (uint32_t i = 0; i < found->size; i++) {
        if (wanted[i]) {
            tt_text_add(text, "%s%u", separator, tt_case_rank(control, found, i));
            separator = ", ";
        }
    }
}

/* ---- verdicts ---- */

/* Send the verdict to all members except the rank `except`, which has failed already. */
static void verdict_send(tt_control *control, const tt_case *found, tt_status status,
                         const char *text, uint32_t except)
{
    TT_ASSERT(status < 0);
    tt_head head = tt_case_reply(control, &found->key, TT_FRAME_VERDICT);
    head.argument = (uint64_t)(int64_t)status;
    for (uint32_t member = 0; member < found->size; member++) {
        const uint32_t rank = tt_case_rank(control, found, member);
        if (rank != control->world.rank && rank != except) {
            tt_outgoing_send(control, rank, head, text, strlen(text));
        }
    }
}

void tt_case_decide(tt_control *control, uint32_t peer, tt_head key, const tt_failure *failure,
                    uint32_t except)
{
    tt_case *found = tt_case_find(control, peer, &key);
    const tt_set *set = tt_set_find(control, key.set);
    const tt_case bare = {
        .key = key, .peer = peer, .size = (key.flags & TT_FLAG_PAIR) != 0 ? 2 : set->size};
    if (found != NULL && found->is_decided) {
        return;
    }
    /* For a pair the receiver decides, too, if the sender is gone. */
    TT_ASSERT((key.flags & TT_FLAG_PAIR) != 0 || tt_case_is_own(control, &key));
    if (found != NULL) {
        found->is_decided = true;
    }
    verdict_send(control, &bare, failure->status, failure->text, except);
    if (except != control->world.rank) {
        key.kind = TT_FRAME_VERDICT; /* all members have it */
        tt_agree_verdict(control, peer, &key, failure->status, failure->text);
    }
}

/* Are all calls equal? Then the ranks differ in settings that are not arguments of a call. */
static bool differs_in_settings(const tt_case *found)
{
    bool is_one = true;
    for (uint32_t i = 0; i < found->size && is_one; i++) {
        is_one = found->has_claimed[i] && tt_claim_asks_same(&found->claims[0], &found->claims[i]);
    }
    return is_one;
}

/* List the ranks with their claims, equal claims together. */
static void decide_mismatch(tt_control *control, tt_case *found)
{
    tt_text text = {0};
    const bool is_pair = (found->key.flags & TT_FLAG_PAIR) != 0;
    TT_ASSERT(found->is_disputed);
    TT_ASSERT(!found->is_decided);
    tt_text_add(&text, "ranks disagree about %s %llu:", is_pair ? "message" : "call",
                (unsigned long long)(is_pair ? tt_pair_number(found->key.op) : found->key.op));
    bool *wanted = found->has_probed; /* no longer needed: used as scratch memory */
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
        tt_case_add_ranks(&text, control, found, wanted);
        tt_text_add(&text, ": ");
        tt_claim_tell(&text, &found->claims[i]);
        tt_text_add(&text, ";");
    }
    if (found->claim_count < found->size) {
        for (uint32_t j = 0; j < found->size; j++) {
            wanted[j] = !found->has_claimed[j];
        }
        tt_text_add(&text, " no claim from ");
        tt_case_add_ranks(&text, control, found, wanted);
    } else {
        text.bytes[--text.length] = 0; /* the last semicolon */
    }
    if (differs_in_settings(found)) {
        tt_text_add(&text, "; the calls are equal, but the settings differ: TUTTI_SEGMENT, "
                           "TUTTI_FUSE, the table of costs, or the fused tensors");
    }
    const tt_failure failure = {.status = TT_ERR_MISMATCH, .text = text.bytes};
    tt_case_decide(control, found->peer, found->key, &failure, UINT32_MAX);
}

/* ---- disputes ---- */

void tt_case_claim(tt_control *control, tt_case *found, uint32_t member, const tt_claim *claim)
{
    if (found == NULL || member >= found->size || found->has_claimed[member] || found->is_decided) {
        return;
    }
    TT_ASSERT(found->is_disputed); /* else has_claimed marks missing ranks */
    TT_ASSERT(found->claim_count < found->size);
    found->has_claimed[member] = true;
    tt_claim_copy(&found->claims[member], claim);
    found->claim_count++;
    if (found->claim_count == found->size || TT_PLANT(VERDICT_BEFORE_CLAIMS)) {
        decide_mismatch(control, found);
    }
}

void tt_case_dispute(tt_control *control, tt_case *found)
{
    if (found->is_disputed) {
        return;
    }
    TT_ASSERT(found->claim_count == 0);
    found->is_disputed = true;
    found->opened_ns = tt_now(control->platform);
    const tt_head head = tt_case_reply(control, &found->key, TT_FRAME_DISPUTE);
    for (uint32_t member = 0; member < found->size; member++) {
        const uint32_t rank = tt_case_rank(control, found, member);
        if (rank != control->world.rank) {
            tt_flow_control(&control->flow, rank, &head);
        }
    }
    tt_op *op = tt_op_find(control, found->peer, &found->key);
    const tt_claim *done = tt_op_done(control, &found->key);
    if (op != NULL) {
        tt_agree_dispute(op);
    } else if (done != NULL) {
        tt_case_claim(control, found, tt_case_member(control, found, control->world.rank), done);
    } else {
        tt_early_verdict_add(control, found->peer, &found->key, NULL);
    }
}

void tt_case_patrol(tt_control *control, uint64_t now)
{
    for (tt_case **link = &control->cases; *link != NULL;) {
        tt_case *found = *link;
        const uint64_t age_ns = tt_elapsed_ns(now, found->opened_ns);
        const bool is_due = age_ns >= control->config.verdict_ns;
        if (found->is_disputed && !found->is_decided && is_due) {
            decide_mismatch(control, found);
            link = &control->cases; /* deciding may have removed any of them */
            continue;
        }
        /* The case of an op that is over on this rank is kept while others may still probe it. */
        const bool is_idle = !found->is_disputed && age_ns >= 2 * control->config.stall_ns &&
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
