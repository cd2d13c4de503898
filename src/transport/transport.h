/* SPDX-License-Identifier: Apache-2.0
 *
 * transport.h - a link: the path between this rank and one peer.
 *
 * A link carries frames (platform.h) both ways. It is driven by the real platform driver, which
 * polls it, and hands what arrives straight to the rank's machine. shm.c and tcp.c each end in one
 * table.
 *
 * Layer:   transport; may include platform/platform.h and base/.
 * Threads: used by the baton's holder only.
 * Memory:  no allocation in steady state: frames that must wait lie in a pool that only grows.
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
    TT_LINK_LEFT, /* the peer said goodbye and everything it sent was delivered */
    TT_LINK_DOWN, /* broken; why[] says how */
} tt_link_state;

/* What every kind of link provides. Every member is required. */
typedef struct tt_link_ops {
    const char *name; /* as users write it: TUTTI_TRANSPORT=<name> */

    /* True: poll() finds its work by looking at memory, without a system call, so the driver calls
     * it on every pass. False: the driver calls it when a descriptor is ready or after a send. */
    bool polls_memory;

    /* As tt_platform_ops.send, recall and discard. */
    tt_status (*send)(tt_link *link, const tt_send *send);
    void (*recall)(tt_link *link, uint64_t token);
    void (*discard)(tt_link *link);

    /* Move what can be moved in both directions without blocking; makes upcalls frame, payload
     * and sent, the latter also for what a peer that left will not read. Bounded work (about
     * 256 KiB), so that other links get their turn. True if anything moved. May change
     * link->state; never makes the upcall `peer`. */
    bool (*poll)(tt_link *link);

    /* Descriptors whose readiness means poll() has work; up to 2; -1 for none. `wants_write_out`
     * tells for which of them writability matters now. */
    void (*descriptors)(const tt_link *link, int fds_out[2], bool wants_write_out[2]);

    /* Somebody is about to sleep on the descriptors: false if there is work already. NULL: the
     * descriptors need no preparation. */
    bool (*arm)(tt_link *link);

    /* From now on the longest frames have so many bytes: how much may wait where nothing overtakes
     * it follows from that. NULL: nothing does. */
    void (*expect)(tt_link *link, uint32_t frame_bytes);

    /* Nothing that was given to send is still here. */
    bool (*idle)(const tt_link *link);

    /* Say goodbye: flush what is queued, then tell the peer. Call poll until closed() is true. */
    void (*close)(tt_link *link);
    bool (*closed)(const tt_link *link);

    /* In a forked child: close every descriptor, touch nothing else. Safe after fork. */
    void (*forsake)(const tt_link *link);
    void (*destroy)(tt_link *link);
} tt_link_ops;

/* Threads that the driver lends to links for tasks, beside the one that drives. Called by the
 * baton's holder only; nothing here ever waits for a thread that has not begun. Every member is
 * required. */
typedef struct tt_hands_ops {
    /* The task may be done from now on, by any thread; finish it once. */
    void (*post)(void *owner, tt_task *task);
    /* Several were posted: somebody is to look. */
    void (*call)(void *owner);
    bool (*is_done)(void *owner, const tt_task *task);
    /* When it returns the task is done, by the caller if nobody else had begun it. */
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
    const tt_hands *hands;     /* the same; NULL: no threads are lent. Outlives the link */
    uint32_t peer;
    tt_link_state state;
    bool is_rejected; /* DOWN: the peer lives, and has proven that it rejects our frames */
    bool ready; /* set by the driver before poll(): a descriptor is ready; poll() may clear it if
                 * nothing is left that the descriptors would not tell */
    /* Of kinds that poll memory: both words stay zero as long as poll() has nothing to do that no
     * descriptor tells; NULL: it may have. Renewed by poll() and send(). */
    const _Atomic uint64_t *arrivals[2];
    bool is_bell_less; /* no descriptor tells of arrivals: poll() again and again */
    uint64_t bytes_sent, bytes_received, frames_sent, frames_received;
    char why[TT_LINK_WHY_BYTES];
};

/* Would poll() find nothing, unless a descriptor is ready? One load per ring. */
static inline bool tt_link_is_quiet(const tt_link *link)
{
    return link->arrivals[0] != NULL &&
           (atomic_load_explicit(link->arrivals[0], memory_order_seq_cst) |
            atomic_load_explicit(link->arrivals[1], memory_order_seq_cst)) == 0;
}

/* Where a rank posts frames for all other ranks of its host at once; owned by its driver. */
typedef struct tt_board tt_board;
typedef struct tt_segment tt_segment;

/* `links` through shared memory lead to every other rank of the host; borrowed. The caller destroys
 * the board before them. */
tt_status tt_board_create(tt_segment *own, tt_link *const links[], uint32_t link_count,
                          tt_board **board_out);
void tt_board_destroy(tt_board *board);

/* Something will be posted soon. */
void tt_board_expect(const tt_board *board);

/* TT_OK: copied, every peer will get it. TT_ERR_UNSUPPORTED: nobody will; send it to each. */
tt_status tt_board_post(tt_board *board, const tt_send *send);

#endif
