/* SPDX-License-Identifier: Apache-2.0
 *
 * early_verdict.c - verdicts and disputes about ops that are not submitted yet. */
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "control/named/batch.h"

bool tt_early_verdict_same_key(const tt_head *a, uint32_t peer_a, const tt_head *b, uint32_t peer_b)
{
    const uint8_t spaces = TT_FLAGS_SPACE;
    return a->set == b->set && a->op == b->op && ((a->flags ^ b->flags) & spaces) == 0 &&
           ((a->flags & TT_FLAG_PAIR) == 0 || peer_a == peer_b);
}

/* Where the entry of `key` is linked, or would be. */
static tt_early_verdict **early_find(tt_early_verdict **list, uint32_t peer, const tt_head *key)
{
    while (*list != NULL && !tt_early_verdict_same_key(&(*list)->key, (*list)->peer, key, peer)) {
        list = &(*list)->next;
    }
    return list;
}

void tt_early_verdict_add(tt_control *control, uint32_t peer, const tt_head *key,
                          const tt_failure *verdict)
{
    TT_ASSERT(verdict == NULL || verdict->status < 0);
    tt_early_verdict *early = *early_find(&control->early_verdicts, peer, key);
    if (early != NULL && early->has_verdict) {
        return; /* the first verdict stands */
    }
    if (early == NULL) {
        const bool has_room = control->peers[peer].early_verdict_count < EARLY_VERDICTS_MAX;
        early = has_room ? tt_platform_allocate(control->platform, sizeof(*early)) : NULL;
        if (early == NULL) {
            return; /* the op will probe, and receives it then */
        }
        early->next = control->early_verdicts;
        early->key = *key;
        early->peer = peer;
        control->early_verdicts = early;
        control->peers[peer].early_verdict_count++;
        TT_ASSERT(control->peers[peer].early_verdict_count <= EARLY_VERDICTS_MAX);
    }
    early->has_verdict = verdict != NULL;
    if (verdict != NULL) {
        tt_text copy = {0};
        tt_text_add(&copy, "%s", verdict->text);
        memcpy(early->text, copy.bytes, sizeof(early->text));
        early->status = verdict->status;
    }
    if ((key->flags & TT_FLAG_PLANNED) != 0) {
        const tt_head planned = *key;
        tt_batch_early_verdict(control, &planned);
    }
}

bool tt_early_verdict_has(tt_control *control, uint32_t peer, const tt_head *key)
{
    return *early_find(&control->early_verdicts, peer, key) != NULL;
}

bool tt_early_verdict_is_decided(tt_control *control, const tt_head *key)
{
    const bool is_pair = (key->flags & TT_FLAG_PAIR) != 0; /* then the peer is part of the key */
    const tt_early_verdict *early = is_pair ? NULL : *early_find(&control->early_verdicts, 0, key);
    return early != NULL && early->has_verdict && early->key.kind != TT_FRAME_OBJECT;
}

/* Unlink the entry and release its memory. */
static void early_release(tt_control *control, tt_early_verdict **link)
{
    tt_early_verdict *early = *link;
    TT_ASSERT(control->peers[early->peer].early_verdict_count > 0);
    *link = early->next;
    control->peers[early->peer].early_verdict_count--;
    tt_platform_release(control->platform, early, sizeof(*early));
}

static bool early_remove(const tt_op *op, tt_early_verdict *early_out)
{
    tt_control *control = op->control;
    const tt_head key = tt_op_arriving_key(op);
    tt_early_verdict **link = early_find(&control->early_verdicts, op->peer, &key);
    if (*link == NULL) {
        return false;
    }
    *early_out = **link;
    early_release(control, link);
    return true;
}

static void early_apply(tt_op *op, const tt_early_verdict *early)
{
    TT_ASSERT(early->status < 0);
    tt_op_set_phase(op, OP_DISPUTED);
    if (early->key.kind == TT_FRAME_OBJECT) { /* the other members do not have it yet */
        tt_agree_object(op, early->status, early->text);
    } else {
        tt_op_fail(op, early->status, early->text);
    }
}

bool tt_early_verdict_take(tt_op *op)
{
    tt_early_verdict taken;
    TT_ASSERT(op->any == NULL); /* an op without a number has no key yet */
    if (!early_remove(op, &taken)) {
        return false;
    }
    if (taken.has_verdict) {
        early_apply(op, &taken);
    } else {
        tt_agree_dispute(op);
    }
    return true;
}

bool tt_early_verdict_take_if_verdict(tt_op *op)
{
    tt_early_verdict taken;
    if (!early_remove(op, &taken) || !taken.has_verdict) {
        return false;
    }
    early_apply(op, &taken);
    return true;
}

void tt_early_verdict_forget_set(tt_control *control, uint32_t set_id)
{
    for (tt_early_verdict **link = &control->early_verdicts; *link != NULL;) {
        if ((*link)->key.set == set_id) {
            early_release(control, link);
        } else {
            link = &(*link)->next;
        }
    }
}

void tt_early_verdict_release_all(tt_control *control)
{
    while (control->early_verdicts != NULL) {
        early_release(control, &control->early_verdicts);
    }
}
