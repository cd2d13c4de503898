/* SPDX-License-Identifier: Apache-2.0
 *
 * pacer.c - see pacer.h. */
#include "schedule/pacer.h"

#include "base/assert.h"
#include "base/base.h"
#include "base/plant.h"

enum { PATIENCE_NS = 20 * 1000 * 1000 };

static bool is_older(const tt_heap_node *a, const tt_heap_node *b)
{
    return TT_CONTAINER_OF(a, const tt_paced, node)->age <
           TT_CONTAINER_OF(b, const tt_paced, node)->age;
}

static bool is_more_urgent(const tt_heap_node *a, const tt_heap_node *b)
{
    const tt_paced *x = TT_CONTAINER_OF(a, const tt_paced, node);
    const tt_paced *y = TT_CONTAINER_OF(b, const tt_paced, node);
    return x->urgency == y->urgency ? x->age < y->age : x->urgency > y->urgency;
}

void tt_pacer_init(tt_pacer *pacer, bool is_fifo, const tt_allocator *allocator)
{
    *pacer = (tt_pacer){.allocator = *allocator, .credit_bytes = UINT64_MAX};
    tt_heap_init(&pacer->waiting, is_fifo ? is_older : is_more_urgent, &pacer->allocator);
}

void tt_pacer_fini(tt_pacer *pacer)
{
    TT_ASSERT(!tt_pacer_has_waiting(pacer));
    tt_heap_fini(&pacer->waiting);
}

void tt_pacer_set_credit(tt_pacer *pacer, uint64_t credit_bytes)
{
    pacer->credit_bytes = credit_bytes > 0 ? credit_bytes : UINT64_MAX;
}

bool tt_pacer_hold(tt_pacer *pacer, tt_paced *paced, int32_t urgency, uint64_t now_ns)
{
    TT_ASSERT(!tt_heap_has_node(&paced->node));
    TT_ASSERT(paced->charge_bytes == 0); /* a started call does not wait again */
    paced->urgency = urgency;
    if (tt_heap_push(&pacer->waiting, &paced->node) != TT_OK) {
        return false;
    }
    pacer->held_count++;
    pacer->moved_ns = pacer->waiting.count == 1 ? now_ns : pacer->moved_ns;
    return true;
}

void tt_pacer_charge(tt_pacer *pacer, tt_paced *paced, uint64_t bytes, uint64_t now_ns)
{
    TT_ASSERT(!tt_heap_has_node(&paced->node));
    TT_ASSERT(paced->charge_bytes == 0);
    paced->charge_bytes = tt_max_u64(bytes, 1);
    pacer->used_bytes += paced->charge_bytes;
    if (pacer->flight_count++ == 0) {
        pacer->busy_since_ns = now_ns;
    }
    pacer->overtaken_count += paced->age < pacer->newest_begun ? 1 : 0;
    pacer->newest_begun = tt_max_u64(pacer->newest_begun, paced->age);
}

static tt_paced *pop(tt_pacer *pacer)
{
    TT_ASSERT(tt_pacer_has_waiting(pacer));
    return TT_CONTAINER_OF(tt_heap_pop(&pacer->waiting), tt_paced, node);
}

tt_paced *tt_pacer_next(tt_pacer *pacer)
{
    const bool has_credit = pacer->used_bytes < pacer->credit_bytes;
    return tt_pacer_has_waiting(pacer) && has_credit ? pop(pacer) : NULL;
}

tt_paced *tt_pacer_next_overdue(tt_pacer *pacer, uint64_t now_ns)
{
    const bool is_overdue = tt_pacer_has_waiting(pacer) && now_ns >= tt_pacer_due_ns(pacer);
    return is_overdue && !TT_PLANT(CREDIT_KEPT) ? pop(pacer) : NULL;
}

uint64_t tt_pacer_due_ns(const tt_pacer *pacer)
{
    return tt_pacer_has_waiting(pacer) ? pacer->moved_ns + PATIENCE_NS : UINT64_MAX;
}

void tt_pacer_withdraw(tt_pacer *pacer, tt_paced *paced)
{
    if (tt_heap_has_node(&paced->node)) {
        TT_ASSERT(paced->charge_bytes == 0);
        tt_heap_remove(&pacer->waiting, &paced->node);
    }
}

bool tt_pacer_pass_short(tt_pacer *pacer, tt_paced *paced, uint64_t bytes, uint64_t room_bytes)
{
    if (paced->short_bytes == 0 && bytes > 0 && pacer->short_bytes + bytes <= room_bytes) {
        paced->short_bytes = bytes;
        pacer->short_bytes += bytes;
    }
    return paced->short_bytes > 0;
}

void tt_pacer_over(tt_pacer *pacer, tt_paced *paced, uint64_t end_ns)
{
    TT_ASSERT(pacer->short_bytes >= paced->short_bytes);
    pacer->short_bytes -= paced->short_bytes;
    paced->short_bytes = 0;
    tt_pacer_withdraw(pacer, paced);
    if (paced->charge_bytes == 0) {
        return;
    }
    TT_ASSERT(pacer->used_bytes >= paced->charge_bytes);
    TT_ASSERT(pacer->flight_count > 0);
    pacer->used_bytes -= paced->charge_bytes;
    pacer->ended_bytes += paced->charge_bytes;
    paced->charge_bytes = 0;
    if (--pacer->flight_count == 0) {
        TT_ASSERT(pacer->used_bytes == 0);
        pacer->busy_ns += tt_max_u64(end_ns, pacer->busy_since_ns) - pacer->busy_since_ns;
    }
}
