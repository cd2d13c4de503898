/* SPDX-License-Identifier: Apache-2.0
 *
 * crew.h - a few threads that help one thread with long computations.
 *
 * The caller opens a job, takes parts of it like everybody else, closes it and waits for who is
 * still in a part. Parts are claimed one by one, so that a helper that sleeps or was put aside by
 * the kernel holds up nobody but with the part it has: if none comes, the caller does it all.
 * Parts are claimed from the front, and the caller looks after each of its own whether it is
 * called away: then no more are claimed, and what was done is a front part of the whole.
 *
 * Tasks are the other kind of work: the caller posts some, goes on with something else, and
 * finishes each when it needs the result. Finishing a task that no helper has begun runs it on the
 * caller, so a task is never late for want of a helper. Jobs and tasks may be open at the same
 * time.
 *
 * Between jobs a helper looks for some microseconds, then sleeps on a futex. Waking it is the only
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

/* Does something else wait for the thread that works? Asked often: cheap, and from that thread. */
typedef struct tt_call_away {
    bool (*is_called)(void *owner); /* NULL: never */
    void *owner;
} tt_call_away;

typedef struct tt_crew_config {
    uint32_t hand_count; /* the caller included; 1 to TT_HANDS_MAX */
    bool spins;          /* helpers may look for work before they sleep */
    cpu_set_t cores;     /* where helpers may run */
    tt_call_away away;
} tt_crew_config;

tt_status tt_crew_create(const tt_crew_config *config, tt_crew **crew_out);

/* As tt_platform_ops.work. Helpers that cannot be started are done without. */
uint64_t tt_crew_run(tt_crew *crew, const tt_work_order *order);

/* The same by the caller alone. */
uint64_t tt_crew_run_alone(const tt_call_away *away, const tt_work_order *order);

/* A task to be done; any order. More than TT_CREW_TASKS_MAX at a time are left to their finish. */
enum { TT_CREW_TASKS_MAX = 64 };
void tt_crew_post(tt_crew *crew, tt_task *task);
/* Helpers are to look for tasks. For a single one none is woken: the caller does it as soon. */
void tt_crew_call(tt_crew *crew);
/* Would finish return at once? */
bool tt_crew_is_done(const tt_crew *crew, const tt_task *task);
/* It is done, and forgotten, when this returns. Once for each task that was posted. */
void tt_crew_finish(tt_crew *crew, tt_task *task);

/* Helpers that were started. */
uint32_t tt_crew_helpers(const tt_crew *crew);

/* NULL is fine. */
void tt_crew_destroy(tt_crew *crew);

#endif
