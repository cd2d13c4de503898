/* SPDX-License-Identifier: Apache-2.0
 *
 * space.c - finds the op of a frame: its set, then its space. */
#include "control/space/space.h"

#include "base/assert.h"
#include "control/control_internal.h"

const tt_space *tt_space_of(const tt_head *head)
{
    static const tt_space *const spaces[TT_FLAGS_SPACE + 1] = {
        [0] = &tt_space_calls,
        [TT_FLAG_AGREED] = &tt_space_agreed,
        [TT_FLAG_PLANNED] = &tt_space_planned,
        [TT_FLAG_PAIR] = &tt_space_pair,
        [TT_FLAG_PAIR | TT_FLAG_REPLY] = &tt_space_pair,
    };
    const tt_space *space = spaces[head->flags & TT_FLAGS_SPACE];
    TT_ASSERT(space != NULL); /* frames of several spaces are dropped when they arrive */
    return space;
}

tt_op *tt_op_find(const tt_control *control, uint32_t peer, const tt_head *head)
{
    tt_set *set = tt_set_find(control, head->set);
    if (set == NULL || set->self == UINT32_MAX) {
        return NULL;
    }
    tt_op *op = tt_space_of(head)->find(set, peer, head);
    TT_DEBUG_ASSERT(op == NULL || (op->phase != OP_FREE && op->sequence == head->op));
    return op;
}

bool tt_op_is_future(const tt_control *control, uint32_t peer, const tt_head *head)
{
    tt_set *set = tt_set_find(control, head->set);
    TT_DEBUG_ASSERT(peer < control->world.size);
    return set != NULL ? tt_space_of(head)->is_future(set, peer, head)
                       : tt_set_is_future(control, head->set);
}

const tt_claim *tt_op_done(const tt_control *control, const tt_head *key)
{
    tt_set *set = tt_set_find(control, key->set);
    return set != NULL ? tt_space_of(key)->done(set, key) : NULL;
}

tt_status tt_op_failed(const tt_control *control, const tt_head *key)
{
    tt_set *set = tt_set_find(control, key->set);
    const tt_status status = set != NULL ? tt_space_of(key)->failed(set, key) : TT_OK;
    TT_DEBUG_ASSERT(status <= TT_OK);
    return status;
}

/* ---- lists of ops ---- */

void tt_op_queue_init(tt_op_queue *queue, tt_op_pump *pump)
{
    TT_DEBUG_ASSERT(queue->first == NULL);
    queue->pump = pump;
    queue->end = &queue->first;
}

void tt_op_queue_add(tt_op_queue *queue, tt_op *op)
{
    TT_DEBUG_ASSERT(*queue->end == NULL);
    tt_op_set_phase(op, OP_QUEUED);
    op->next = NULL;
    *queue->end = op;
    queue->end = &op->next;
}

void tt_op_queue_remove(tt_op_queue *queue, const tt_op *op)
{
    tt_op **link = &queue->first;
    while (*link != op) {
        TT_DEBUG_ASSERT(*link != NULL);
        link = &(*link)->next;
    }
    *link = op->next;
    if (op->next == NULL) {
        queue->end = link;
    }
}

void tt_op_unlink(tt_op **list, const tt_op *op)
{
    while (*list != NULL && *list != op) {
        list = &(*list)->next;
    }
    if (*list != NULL) {
        *list = op->next;
    }
}

tt_status tt_failed_find(const uint64_t *keys, const int8_t *statuses, uint32_t count, uint64_t key)
{
    for (uint32_t i = 0; i < count; i++) {
        if (keys[i] == key + 1) {
            TT_DEBUG_ASSERT(statuses[i] < 0);
            return (tt_status)statuses[i];
        }
    }
    return TT_OK;
}
