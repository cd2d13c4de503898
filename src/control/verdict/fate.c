/* SPDX-License-Identifier: Apache-2.0
 *
 * fate.c - what was said about ops before they were submitted here. */
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "control/named/batch.h"

bool tt_fate_same_key(const tt_head *a, uint32_t peer_a, const tt_head *b, uint32_t peer_b)
{
    const uint8_t spaces = TT_FLAGS_SPACE;
    return a->set == b->set && a->op == b->op && ((a->flags ^ b->flags) & spaces) == 0 &&
           ((a->flags & TT_FLAG_PAIR) == 0 || peer_a == peer_b);
}

void tt_fate_add(tt_control *control, uint32_t peer, const tt_head *key, const tt_failure *verdict)
{
    TT_ASSERT(verdict == NULL || verdict->status < 0);
    tt_fate *fate = control->fates;
    while (fate != NULL && !tt_fate_same_key(&fate->key, fate->peer, key, peer)) {
        fate = fate->next;
    }
    if (fate != NULL && fate->is_verdict) {
        return; /* the first verdict stands */
    }
    if (fate == NULL) {
        const bool has_room = control->peers[peer].fate_count < FATES_MAX;
        fate = has_room ? tt_platform_allocate(control->platform, sizeof(*fate)) : NULL;
        if (fate == NULL) {
            return; /* the op will probe, and hear again */
        }
        fate->next = control->fates;
        fate->key = *key;
        fate->peer = peer;
        control->fates = fate;
        control->peers[peer].fate_count++;
        TT_ASSERT(control->peers[peer].fate_count <= FATES_MAX);
    }
    fate->is_verdict = verdict != NULL;
    if (verdict != NULL) {
        tt_text copy = {0};
        tt_text_add(&copy, "%s", verdict->text);
        memcpy(fate->text, copy.bytes, sizeof(fate->text));
        fate->status = verdict->status;
    }
    if ((key->flags & TT_FLAG_PLANNED) != 0) {
        const tt_head planned = *key;
        tt_batch_foretold(control, &planned);
    }
}

static const tt_fate *fate_find(const tt_control *control, const tt_head *key)
{
    const tt_fate *fate = control->fates;
    while (fate != NULL && !tt_fate_same_key(&fate->key, fate->peer, key, fate->peer)) {
        fate = fate->next;
    }
    return fate;
}

bool tt_fate_has(const tt_control *control, uint32_t peer, const tt_head *key)
{
    TT_ASSERT((key->flags & TT_FLAG_PAIR) != 0); /* of others the peer means nothing */
    const tt_fate *fate = control->fates;
    while (fate != NULL && !tt_fate_same_key(&fate->key, fate->peer, key, peer)) {
        fate = fate->next;
    }
    return fate != NULL;
}

bool tt_fate_is_known(const tt_control *control, const tt_head *key)
{
    return fate_find(control, key) != NULL;
}

bool tt_fate_is_decided(const tt_control *control, const tt_head *key)
{
    const tt_fate *fate = (key->flags & TT_FLAG_PAIR) == 0 ? fate_find(control, key) : NULL;
    return fate != NULL && fate->is_verdict && fate->key.kind != TT_FRAME_OBJECT;
}

/* Take it out of the list, and give it back. */
static void fate_release(tt_control *control, tt_fate **link)
{
    tt_fate *fate = *link;
    TT_ASSERT(control->peers[fate->peer].fate_count > 0);
    *link = fate->next;
    control->peers[fate->peer].fate_count--;
    tt_platform_release(control->platform, fate, sizeof(*fate));
}

static bool fate_remove(const tt_op *op, tt_fate *fate_out)
{
    tt_control *control = op->control;
    const tt_head key = tt_op_arriving_key(op);
    tt_fate **link = &control->fates;
    while (*link != NULL && !tt_fate_same_key(&(*link)->key, (*link)->peer, &key, op->peer)) {
        link = &(*link)->next;
    }
    if (*link == NULL) {
        return false;
    }
    *fate_out = **link;
    fate_release(control, link);
    return true;
}

static void fate_apply(tt_op *op, const tt_fate *fate)
{
    TT_ASSERT(fate->status < 0);
    tt_op_set_phase(op, OP_DISPUTED);
    if (fate->key.kind == TT_FRAME_OBJECT) { /* the others have not heard */
        tt_agree_object(op, fate->status, fate->text);
    } else {
        tt_op_fail(op, fate->status, fate->text);
    }
}

bool tt_fate_take(tt_op *op)
{
    tt_fate taken;
    TT_ASSERT(op->any == NULL); /* nothing was said about one without a number */
    if (!fate_remove(op, &taken)) {
        return false;
    }
    if (taken.is_verdict) {
        fate_apply(op, &taken);
    } else {
        tt_agree_dispute(op);
    }
    return true;
}

bool tt_fate_take_verdict(tt_op *op)
{
    tt_fate taken;
    if (!fate_remove(op, &taken) || !taken.is_verdict) {
        return false;
    }
    fate_apply(op, &taken);
    return true;
}

void tt_fate_forget_set(tt_control *control, uint32_t set_id)
{
    for (tt_fate **link = &control->fates; *link != NULL;) {
        if ((*link)->key.set == set_id) {
            fate_release(control, link);
        } else {
            link = &(*link)->next;
        }
    }
}

void tt_fate_release_all(tt_control *control)
{
    while (control->fates != NULL) {
        fate_release(control, &control->fates);
    }
}
