/* SPDX-License-Identifier: Apache-2.0
 *
 * transport.h - a link: the path between this rank and one peer.
 *
 * A link carries frames (platform.h) both ways. The real platform driver polls it, and the link
 * hands arriving frames straight to the rank's machine. shm.c and tcp.c each end in one table.
 *
 * Layer:   transport; may include platform/platform.h and base/.
 * Threads: used by the baton's holder only.
 * Memory:  no allocation in steady state: waiting frames lie in a pool that only grows.
 */
#ifndef TUTTI_TRANSPORT_TRANSPORT_H
#define TUTTI_TRANSPORT_TRANSPORT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "platform/platform.h"

typedef struct tt_link tt_link;

typedef enum tt_link_state {
    TT_LINK_UP,
    TT_LINK_LEFT, /* the peer's goodbye has arrived, and all its frames were delivered */
    TT_LINK_DOWN, /* broken; why[] has the cause */
} tt_link_state;

/* Functions that every kind of link provides. Members are required unless NULL has a meaning. */
typedef struct tt_link_ops {
    const char *name; /* as users write it: TUTTI_TRANSPORT=<name> */

    /* True: poll() finds its work by reading memory, without a system call, so the driver calls
     * it on every pass. False: the driver calls it when a descriptor is ready or after a send. */
    bool polls_memory;

    /* As tt_platform_ops.send, recall and discard. */
    tt_status (*send)(tt_link *link, const tt_send *send);
    void (*recall)(tt_link *link, uint64_t token);
    void (*discard)(tt_link *link);

    /* Move bytes in both directions without blocking; makes the upcalls frame, payload and sent,
     * the latter also for frames that a peer that left will not read. Bounded work (about
     * 256 KiB), so that other links get their turn. True if anything moved. May change
     * link->state; never makes the upcall `peer`. */
    bool (*poll)(tt_link *link);

    /* Descriptors whose readiness means poll() has work; up to 2; -1 for none. `wants_write_out`
     * is true for those whose writability matters now. */
    void (*descriptors)(const tt_link *link, int fds_out[2], bool wants_write_out[2]);

    /* A thread is about to sleep on the descriptors: false if there is work already. NULL: the
     * descriptors need no preparation. */
    bool (*arm)(tt_link *link);

    /* From now on the longest frames have so many bytes, which sets how many bytes may wait where
     * no frame can overtake them. NULL: the link has no such bound. */
    void (*expect)(tt_link *link, uint32_t frame_bytes);

    /* No frame given to send is still queued or being written. */
    bool (*idle)(const tt_link *link);

    /* Flush queued frames, then send a goodbye. Call poll until closed() is true. */
    void (*close)(tt_link *link);
    bool (*closed)(const tt_link *link);

    /* In a forked child: close every descriptor, touch nothing else. Safe after fork. */
    void (*forsake)(const tt_link *link);
    void (*destroy)(tt_link *link);
} tt_link_ops;

/* Threads that the driver lends to links for tasks, beside the driving thread. Called by the
 * baton's holder only; no function waits for a task that no thread has begun. Every member is
 * required. */
typedef struct tt_hands_ops {
    /* From now on any thread may run the task; finish it once. */
    void (*post)(void *owner, tt_task *task);
    /* Several tasks were posted: wake a thread. */
    void (*call)(void *owner);
    bool (*is_done)(void *owner, const tt_task *task);
    /* The task is done on return; the caller runs it if no other thread had begun it. */
    void (*finish)(void *owner, tt_task *task);
} tt_hands_ops;

typedef struct tt_hands {
    const tt_hands_ops *ops;
    void *owner;
} tt_hands;

enum { TT_LINK_WHY_BYTES = 96 };

/* Kinds embed this as their first member. */
struct tt_link {
    const tt_link_ops *ops;
    const tt_machine *machine; /* receives the upcalls; set before the first poll */
    const tt_hands *hands;     /* set likewise; NULL: no threads are lent. Outlives the link */
    uint32_t peer;
    tt_link_state state;
    bool is_rejected; /* DOWN: the peer lives, and has proven that it rejects our frames */
    bool ready; /* set by the driver before poll(): a descriptor is ready; poll() may clear it if
                 * the descriptors will show all remaining work */
    /* Of kinds that poll memory: while both words are zero, poll() has no work but what the
     * descriptors show; NULL: it may have. Renewed by poll() and send(). */
    const _Atomic uint64_t *arrivals[2];
    bool is_bell_less; /* no descriptor shows arrivals: the driver must keep polling */
    uint64_t bytes_sent, bytes_received, frames_sent, frames_received;
    char why[TT_LINK_WHY_BYTES];
};

/* True: poll() has no work unless a descriptor is ready. One load per ring. */
static inline bool tt_link_is_quiet(const tt_link *link)
{
    return link->arrivals[0] != NULL &&
           (atomic_load_explicit(link->arrivals[0], memory_order_seq_cst) |
            atomic_load_explicit(link->arrivals[1], memory_order_seq_cst)) == 0;
}

/* Where a rank posts frames for all other ranks of its host at once; owned by its driver. */
typedef struct tt_board tt_board;
typedef struct tt_segment tt_segment;

/* `links` through shared memory lead to every other rank of the host that is to get the posts; the
 * links of the others are apart (shm/shm.h). Borrowed. The caller destroys
 * the board before them. */
tt_status tt_board_create(tt_segment *own, tt_link *const links[], uint32_t link_count,
                          tt_board **board_out);
void tt_board_destroy(tt_board *board);

/* A post follows soon: prefetch its line. */
void tt_board_expect(const tt_board *board);

/* TT_OK: copied, every peer will get it. TT_ERR_UNSUPPORTED: no peer will; send it to each. */
tt_status tt_board_post(tt_board *board, const tt_send *send);

#endif
