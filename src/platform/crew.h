/* SPDX-License-Identifier: Apache-2.0
 *
 * crew.h - a few threads that help one thread with long computations.
 *
 * The caller opens a job, takes parts of it like everybody else, closes it and waits for who is
 * still in a part. Parts are claimed one by one, so that a helper that sleeps or was put aside by
 * the kernel holds up nobody but with the part it has: if none comes, the caller does it all.
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

typedef struct tt_crew_config {
    uint32_t hand_count; /* the caller included; 1 to TT_HANDS_MAX */
    bool spins;          /* helpers may look for work before they sleep */
    cpu_set_t cores;     /* where helpers may run */
} tt_crew_config;

tt_status tt_crew_create(const tt_crew_config *config, tt_crew **crew_out);

/* All parts of the order; over when it returns. Helpers that cannot be started are done without. */
void tt_crew_run(tt_crew *crew, const tt_work_order *order);

/* Helpers that were started. */
uint32_t tt_crew_helpers(const tt_crew *crew);

/* NULL is fine. */
void tt_crew_destroy(tt_crew *crew);

#endif
