/* SPDX-License-Identifier: Apache-2.0
 *
 * pacer.h - credit: how many bytes are in flight, and who of those that wait begins next.
 *
 * What is paced carries a node; its owner decides what is paced at all, and begins what comes out.
 *
 *  (1) used_bytes is the sum of the charges of what is in flight. One begins while that is less
 *      than the credit and nobody waits; so it overshoots by less than one of them.
 *  (2) The most urgent of those that wait goes first, among equals the oldest; under FIFO the
 *      oldest.
 *  (3) Credit that brings nothing to an end for PATIENCE_NS is not kept: one more begins.
 *  (4) What is short goes before what is long, while no more than a chunk's worth does.
 *
 * Layer:   schedule; may include base/.
 * Threads: one at a time per pacer: in a running job the baton's holder.
 * Memory:  a heap of pointers from the allocator, grown when one first has to wait.
 */
#ifndef TUTTI_SCHEDULE_PACER_H
#define TUTTI_SCHEDULE_PACER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/heap.h"

/* Lives in what is paced. All zeros has neither charge nor place. */
typedef struct tt_paced {
    tt_heap_node node; /* of those that wait */
    uint64_t age;      /* order of submission */
    int32_t urgency;   /* while it waits */
    uint64_t charge_bytes;
    uint64_t short_bytes;
} tt_paced;

typedef struct tt_pacer {
    tt_allocator allocator;
    tt_heap waiting;
    uint64_t credit_bytes; /* UINT64_MAX: endless */
    uint64_t used_bytes;
    uint32_t flight_count;
    uint64_t busy_since_ns;
    uint64_t moved_ns; /* while one waits: when one last began or ended */
    uint64_t next_age, newest_begun;
    uint64_t short_bytes;
    /* What happened so far. */
    uint64_t held_count;
    uint64_t overtaken_count; /* began after one that was submitted later */
    uint64_t busy_ns;         /* time with something in flight */
    uint64_t ended_bytes;
} tt_pacer;

void tt_pacer_init(tt_pacer *pacer, bool is_fifo, const tt_allocator *allocator);
void tt_pacer_fini(tt_pacer *pacer);
/* 0: endless. The owner then begins what tt_pacer_next gives. */
void tt_pacer_set_credit(tt_pacer *pacer, uint64_t credit_bytes);

/* It is submitted: later than all before it. */
static inline void tt_pacer_enter(tt_pacer *pacer, tt_paced *paced)
{
    paced->age = pacer->next_age++;
    paced->charge_bytes = 0;
}

static inline bool tt_pacer_has_waiting(const tt_pacer *pacer)
{
    return pacer->waiting.count > 0;
}

/* Would one more have to wait? */
static inline bool tt_pacer_is_short_of_credit(const tt_pacer *pacer)
{
    return pacer->credit_bytes != UINT64_MAX &&
           (pacer->used_bytes >= pacer->credit_bytes || tt_pacer_has_waiting(pacer));
}

/* It waits for credit from now on; false: there is no memory for that. */
bool tt_pacer_hold(tt_pacer *pacer, tt_paced *paced, int32_t urgency, uint64_t now_ns);
/* It begins, and takes so much of the credit, whether there is any or not. */
void tt_pacer_charge(tt_pacer *pacer, tt_paced *paced, uint64_t bytes, uint64_t now_ns);
/* The next that there is credit for; NULL: none waits, or there is none. It waits no more. */
tt_paced *tt_pacer_next(tt_pacer *pacer);
/* The next, where nothing has moved for too long; else NULL. */
tt_paced *tt_pacer_next_overdue(tt_pacer *pacer, uint64_t now_ns);
/* When to ask for that; UINT64_MAX: none waits. */
uint64_t tt_pacer_due_ns(const tt_pacer *pacer);
/* One that waited has begun, or one has ended while others wait. */
static inline void tt_pacer_moved(tt_pacer *pacer, uint64_t now_ns)
{
    pacer->moved_ns = now_ns;
}
/* It is not to begin; nothing if it does not wait. */
void tt_pacer_withdraw(tt_pacer *pacer, tt_paced *paced);
/* Does it go as a short one? Once it does it goes on so until it is over. */
bool tt_pacer_pass_short(tt_pacer *pacer, tt_paced *paced, uint64_t bytes, uint64_t room_bytes);
/* It is over, at `end_ns` if it was charged: its credit goes back. */
void tt_pacer_over(tt_pacer *pacer, tt_paced *paced, uint64_t end_ns);

#endif
