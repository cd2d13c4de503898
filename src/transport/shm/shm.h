/* SPDX-License-Identifier: Apache-2.0
 *
 * shm.h - the link between two ranks of one host.
 *
 * Frames go through a ring in the receiver's segment. A Unix stream socket beside it carries single
 * bytes as a bell that wakes a sleeping peer; its end of stream shows that the peer is gone. A
 * pidfd shows the same when another process keeps the peer's end of the socket open.
 *
 * (1) A frame once begun is finished before another begins; unbegun ones go by urgency, then age,
 *     then in the order of sending.
 * (2) poll() makes no system call unless link->ready is set, a sleeping peer must be woken or the
 *     peer is gone.
 * (3) Bytes of the ring are copied before they are checked. Invalid contents end the link as DOWN,
 *     "malformed frame in shared memory".
 * (4) When the peer is gone, frames it had sent are delivered first.
 * (5) Beside its inbound rings a rank has a board, the ring of its segment that no peer writes to:
 *     every peer of the host reads its posts, unless their link is apart. No rank waits for room
 *     on a board: a post that does not fit goes through the rings. (3) and (4) hold for it too.
 * (6) DOWN and LEFT give every borrowed payload back: no `sent` follows, recall does nothing.
 * (7) A goodbye is answered by one unless a frame is half written. The end of a peer after our
 *     goodbye is LEFT, not DOWN: it may exit then.
 *
 * Layer:   transport.
 * Threads: used by the baton's holder only.
 * Memory:  create takes about 1 MiB of address space per link, touched only by recall and by
 *          frames of several lines. The queue only grows.
 */
#ifndef TUTTI_TRANSPORT_SHM_SHM_H
#define TUTTI_TRANSPORT_SHM_SHM_H

#include <stdint.h>

#include "base/status.h"
#include "transport/shm/segment.h"
#include "transport/transport.h"

typedef struct tt_shm_config {
    uint32_t peer;      /* rank */
    tt_segment *own;    /* retained */
    tt_segment *theirs; /* retained; same process: the peer's own segment */
    int socket;         /* connected Unix stream socket; adopted on success */
    int pidfd;          /* of the peer's process; -1 in the same process; adopted on success */
    const tt_machine *machine; /* may be set later in the link, before the first poll */
    bool is_apart; /* neither end reads the other's posts, and neither's board has this link */
} tt_shm_config;

extern const tt_link_ops tt_shm_link_ops;

/* `*link_out` is set only on TT_OK; destroy it through its table. */
tt_status tt_shm_link_create(const tt_shm_config *config, tt_link **link_out);

#endif
