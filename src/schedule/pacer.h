/* SPDX-License-Identifier: Apache-2.0
 *
 * pacer.h - credit: how many bytes may be in flight, and which of the waiting calls starts next.
 *
 * A paced call has a node; the owner decides which calls are paced, and starts those that the pacer
 * returns.
 *
 *  (1) used_bytes is the sum of the charges in flight. A call starts while that is less than the
 *      credit and none waits; so the credit is overshot by less than one call.
 *  (2) The most urgent waiting call starts first, among equals the oldest; under FIFO the oldest.
 *  (3) If no call starts or ends for PATIENCE_NS while one waits, one more starts despite the
 *      credit.
 *  (4) Short calls overtake long ones, up to a chunk's worth of bytes.
 *
 * Layer:   schedule; may include base/.
 * Threads: one at a time per pacer: in a running job the baton's holder.
 * Memory:  a heap of pointers from the allocator, grown when calls have to wait.
 */
#ifndef TUTTI_SCHEDULE_PACER_H
#define TUTTI_SCHEDULE_PACER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/heap.h"

/* Part of a paced call. All zeros: no charge, not waiting. */
typedef struct tt_paced {
    tt_heap_node node; /* in the heap of waiting calls */
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
    uint64_t moved_ns; /* while a call waits: when one last started or ended */
    uint64_t next_age, newest_begun;
    uint64_t short_bytes;
    /* Counters. */
    uint64_t held_count;
    uint64_t overtaken_count; /* started after one that was submitted later */
    uint64_t busy_ns;         /* time with something in flight */
    uint64_t ended_bytes;
} tt_pacer;

void tt_pacer_init(tt_pacer *pacer, bool is_fifo, const tt_allocator *allocator);
void tt_pacer_fini(tt_pacer *pacer);
/* 0: endless. The owner then starts the calls that tt_pacer_next returns. */
void tt_pacer_set_credit(tt_pacer *pacer, uint64_t credit_bytes);

/* The call is submitted: it is the newest. */
static inline void tt_pacer_enter(tt_pacer *pacer, tt_paced *paced)
{
    paced->age = pacer->next_age++;
    paced->charge_bytes = 0;
}

static inline bool tt_pacer_has_waiting(const tt_pacer *pacer)
{
    return pacer->waiting.count > 0;
}

/* Would one more call have to wait? */
static inline bool tt_pacer_is_short_of_credit(const tt_pacer *pacer)
{
    return pacer->credit_bytes != UINT64_MAX &&
           (pacer->used_bytes >= pacer->credit_bytes || tt_pacer_has_waiting(pacer));
}

/* The call waits for credit from now on; false: no memory to queue it. */
bool tt_pacer_hold(tt_pacer *pacer, tt_paced *paced, int32_t urgency, uint64_t now_ns);
/* The call starts and is charged `bytes`, whether credit is left or not. */
void tt_pacer_charge(tt_pacer *pacer, tt_paced *paced, uint64_t bytes, uint64_t now_ns);
/* Remove and return the next call if credit is left; NULL: no call waits, or no credit. */
tt_paced *tt_pacer_next(tt_pacer *pacer);
/* The next call if none has started or ended for PATIENCE_NS; else NULL. */
tt_paced *tt_pacer_next_overdue(tt_pacer *pacer, uint64_t now_ns);
/* When to call tt_pacer_next_overdue; UINT64_MAX: no call waits. */
uint64_t tt_pacer_due_ns(const tt_pacer *pacer);
/* A waiting call has started, or a call has ended while others wait. */
static inline void tt_pacer_moved(tt_pacer *pacer, uint64_t now_ns)
{
    pacer->moved_ns = now_ns;
}
/* Remove a waiting call; no effect if it does not wait. */
void tt_pacer_withdraw(tt_pacer *pacer, tt_paced *paced);
/* May the call overtake as a short one? If so, it may until it is over. */
bool tt_pacer_pass_short(tt_pacer *pacer, tt_paced *paced, uint64_t bytes, uint64_t room_bytes);
/* The call is over, at `end_ns` if it was charged: its credit is returned. */
void tt_pacer_over(tt_pacer *pacer, tt_paced *paced, uint64_t end_ns);

#endif
