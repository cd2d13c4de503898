/* SPDX-License-Identifier: Apache-2.0
 *
 * sync.h - workers and servers: exchanges that need not have every rank at every step.
 *
 * The processes of a job are workers, and behind them servers. Collectives are the workers' alone;
 * their machine (control) is wrapped by this one, which takes the frames and peers that are not
 * control's and passes on the rest.
 *
 *  (1) Control never gets a frame or an event of a server: a server that dies breaks no collective.
 *  (2) A server's own machine of collectives has no peers at all.
 *
 * Layer:   sync; may include control/, aggregate/, codec/, platform/ and base/.
 * Threads: one at a time (the baton's holder).
 * Memory:  from the platform's allocator.
 */
#ifndef TUTTI_SYNC_SYNC_H
#define TUTTI_SYNC_SYNC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "platform/platform.h"

typedef struct tt_sync tt_sync;

/* The processes of the job: ranks of the driver. */
typedef struct tt_roles {
    uint32_t rank;
    uint32_t workers; /* ranks [0, workers) */
    uint32_t servers; /* behind them */
    uint32_t epoch;
} tt_roles;

/* Receives the machine's log lines; level as in base/log.h. */
typedef struct tt_sync_listener {
    void *owner;
    void (*report)(void *owner, int level, const char *text);
    /* A server only: no worker is left. May be NULL. */
    void (*deserted)(void *owner);
} tt_sync_listener;

/* `inner` gets what is not this machine's. All arguments are copied. */
tt_status tt_sync_create(tt_platform *platform, const tt_roles *roles, tt_machine inner,
                         const tt_sync_listener *listener, tt_sync **sync_out);
void tt_sync_destroy(tt_sync *sync);

/* The upcalls for the driver, in place of inner's. */
tt_machine tt_sync_machine(tt_sync *sync);

/* Workers that have neither left nor died. */
uint32_t tt_sync_workers_left(const tt_sync *sync);

#endif
