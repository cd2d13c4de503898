/* SPDX-License-Identifier: Apache-2.0
 *
 * crew.h - a few threads that help one thread with long computations.
 *
 * The caller opens a job, claims parts of it like the helpers, closes it and waits for helpers that
 * are still in a part. Parts are claimed one by one, so that a sleeping or descheduled helper
 * delays only the part it has claimed: without helpers the caller does everything. Parts are
 * claimed from the front, and the caller checks after each of its own whether it is called away:
 * then no more are claimed, and the parts done are a prefix of the whole.
 *
 * Tasks are the other kind of work: the caller posts some, continues, and finishes each when it
 * needs the result. Finishing a task that no helper has begun runs it on the caller, so a task
 * never waits for a helper. Jobs and tasks may be open at the same time.
 *
 * Between jobs a helper spins for some microseconds, then sleeps on a futex. Waking it is the only
 * system call, and only made if it sleeps.
 *
 * Layer:   platform; may include base/ only.
 * Threads: one caller at a time. A forked child has the memory but not the threads: it may neither
 *          run nor destroy.
 * Memory:  taken by create; helpers are started by the first run, and end in destroy.
 */
#ifndef TUTTI_PLATFORM_CREW_H
#define TUTTI_PLATFORM_CREW_H

#include <sched.h>
#include <stdbool.h>

#include "base/status.h"
#include "platform/platform.h"

typedef struct tt_crew tt_crew;

/* Has the working thread other work? Called often, from that thread: must be cheap. */
typedef struct tt_call_away {
    bool (*is_called)(void *owner); /* NULL: never */
    void *owner;
} tt_call_away;

typedef struct tt_crew_config {
    uint32_t hand_count; /* the caller included; 1 to TT_HANDS_MAX */
    bool spins;          /* helpers may spin before they sleep */
    cpu_set_t cores;     /* where helpers may run */
    tt_call_away away;
} tt_crew_config;

tt_status tt_crew_create(const tt_crew_config *config, tt_crew **crew_out);

/* As tt_platform_ops.work. Works without helpers that cannot be started. */
uint64_t tt_crew_run(tt_crew *crew, const tt_work_order *order);

/* The same by the caller alone. */
uint64_t tt_crew_run_alone(const tt_call_away *away, const tt_work_order *order);

/* Queue a task; tasks run in any order. Beyond TT_CREW_TASKS_MAX, a task runs in its finish. */
enum { TT_CREW_TASKS_MAX = 64 };
void tt_crew_post(tt_crew *crew, tt_task *task);
/* Wake helpers for posted tasks. Not for a single one: the caller does it as soon. */
void tt_crew_call(tt_crew *crew);
/* Would finish return at once? */
bool tt_crew_is_done(const tt_crew *crew, const tt_task *task);
/* On return the task is done and no longer referenced. Once for each posted task. */
void tt_crew_finish(tt_crew *crew, tt_task *task);

/* Helpers that were started. */
uint32_t tt_crew_helpers(const tt_crew *crew);

/* NULL is fine. */
void tt_crew_destroy(tt_crew *crew);

#endif
