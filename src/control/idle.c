/* SPDX-License-Identifier: Apache-2.0
 *
 * idle.c - see idle.h. */
#include "control/idle.h"

#include "base/assert.h"
#include "base/base.h"
#include "control/control_internal.h"

/* Odd numbers whose bits are spread well: the golden ratio's, and another of Steele and Vigna's. */
static const uint64_t FIRST_MIX = UINT64_C(0x9e3779b97f4a7c15);
static const uint64_t SECOND_MIX = UINT64_C(0xd1342543de82ef95);

/* An op that goes back with more memory than this releases it: otherwise, over time, every op
 * would have run every call, and have the memory of the largest. */
enum { DROPPED_BYTES_MAX = 1024 };

/* Of a sum buffers may change from call to call, but not whether they are one; of everything else
 * they may not change. */
static uint64_t key_of(const tt_request *request)
{
    const bool is_sum = request->collective == TT_ALLREDUCE;
    const uint64_t kind = (uint64_t)request->collective | (uint64_t)request->dtype << 8 |
                          (uint64_t)request->redop << 16 |
                          (uint64_t)(request->input == request->output) << 24 |
                          (uint64_t)request->set << 32;
    uint64_t key = (request->count + kind * FIRST_MIX) * SECOND_MIX;
    if (!is_sum) {
        key = (key ^ (uintptr_t)request->input) * FIRST_MIX;
        key = (key ^ (uintptr_t)request->output) * SECOND_MIX;
    }
    return key ^ key >> 32;
}

static struct tt_op **bucket_of(tt_idle *idle, uint64_t key)
{
    return &idle->buckets[key % IDLE_BUCKETS];
}

static tt_op *find_key(const tt_idle *idle, uint64_t key)
{
    tt_op *op = idle->buckets[key % IDLE_BUCKETS];
    while (op != NULL && op->idle.key != key) {
        op = op->idle.next;
    }
    return op;
}

tt_op *tt_idle_find(const tt_idle *idle, const tt_request *request)
{
    tt_op *op = find_key(idle, key_of(request));
    return op != NULL && op->phase == OP_FREE ? op : NULL;
}

static void leave(tt_control *control, tt_op *op)
{
    tt_idle *idle = &control->idle;
    tt_op **link = bucket_of(idle, op->idle.key);
    while (*link != op) {
        TT_ASSERT(*link != NULL);
        link = &(*link)->idle.next;
    }
    *link = op->idle.next;
    op->idle.next = NULL;
    op->idle.is_in = false;
    idle->last = idle->last == op ? NULL : idle->last;
    TT_ASSERT(idle->count > 0 && idle->bytes >= op->idle.bytes);
    idle->count--;
    idle->bytes -= op->idle.bytes;
}

void tt_idle_drop(tt_control *control, tt_op *op)
{
    leave(control, op);
    if (op->phase == OP_FREE) {
        op->is_quick = false;
        op->next = control->free_ops;
        control->free_ops = op;
    }
}

/* But for the facts, which are few. */
static void release_memory(tt_op *op)
{
    tt_exec_forget(&op->exec);
    tt_exec_fini(&op->exec);
    tt_platform_release(op->control->platform, op->prescaled, op->prescaled_bytes);
    op->prescaled = NULL;
    op->prescaled_bytes = 0;
}

bool tt_idle_drop_one(tt_control *control, const tt_op *but)
{
    tt_idle *idle = &control->idle;
    for (uint32_t i = 0; idle->count > 0 && i < control->op_count; i++) {
        idle->hand = idle->hand + 1 < control->op_count ? idle->hand + 1 : 0;
        tt_op *op = control->ops[idle->hand];
        if (op->idle.is_in && op->phase == OP_FREE && op != but) {
            if (op->idle.bytes > DROPPED_BYTES_MAX) {
                release_memory(op);
            }
            tt_idle_drop(control, op);
            return true;
        }
    }
    return false;
}

void tt_idle_keep(tt_control *control, tt_op *op, const tt_request *request)
{
    tt_idle *idle = &control->idle;
    TT_ASSERT(op->phase == OP_FREE && op->is_quick && op->idle_era == idle->era);
    op->idle.key = key_of(request);
    op->idle.bytes =
        op->exec.workspace_bytes + op->exec.slots_bytes + op->facts_bytes + op->prescaled_bytes;
    tt_op *alike = find_key(idle, op->idle.key);
    if (alike != NULL) {
        tt_idle_drop(control, alike);
    }
    tt_op **bucket = bucket_of(idle, op->idle.key);
    op->idle.next = *bucket;
    *bucket = op;
    op->next = NULL;
    op->idle.is_in = true;
    idle->count++;
    idle->bytes += op->idle.bytes;
    while ((idle->count > IDLE_MAX || idle->bytes > IDLE_BYTES_MAX) &&
           tt_idle_drop_one(control, op)) {
    }
}

void tt_idle_drop_all(tt_control *control)
{
    for (uint32_t i = 0; control->idle.count > 0 && i < control->op_count; i++) {
        if (control->ops[i]->idle.is_in) {
            tt_idle_drop(control, control->ops[i]);
        }
    }
    control->idle.era++;
}
