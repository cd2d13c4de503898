/* SPDX-License-Identifier: Apache-2.0
 *
 * shm.h - the link between two ranks of one host.
 *
 * Frames go through a ring in the receiver's segment. Beside it stands a Unix stream socket, which
 * carries single bytes as a bell for a sleeping peer, and whose end tells that the peer is gone;
 * a pidfd tells the same when somebody else keeps the peer's end of the socket open.
 *
 * (1) A frame once begun is finished before another begins; unbegun ones go by urgency, then age,
 *     then in the order of sending.
 * (2) poll() makes no system call unless link->ready is set, a sleeping peer must be woken or the
 *     peer is gone.
 * (3) Bytes of the ring are copied before they are checked. What makes no sense ends the link as
 *     DOWN, "malformed frame in shared memory".
 * (4) When the peer is gone, what it had sent is delivered first.
 * (5) Beside its inbound rings a rank has a board, the ring of its segment that no peer writes to:
 *     what it posts there every peer of the host reads. Nobody waits for room on a board: what does
 *     not fit goes through the rings. (3) and (4) hold for it too.
 * (6) DOWN and LEFT give every borrowed payload back: no `sent` follows, recall does nothing.
 * (7) A goodbye is answered by one where a frame is not half written. The end of a peer after our
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
} tt_shm_config;

extern const tt_link_ops tt_shm_link_ops;

/* `*link_out` is set only on TT_OK; destroy it through its table. */
tt_status tt_shm_link_create(const tt_shm_config *config, tt_link **link_out);

#endif
