/* SPDX-License-Identifier: Apache-2.0
 *
 * segment.h - the memory one rank shares with the other ranks of its host.
 *
 * One memfd per rank: [control page][one inbound ring per local rank][arena]. The owner creates
 * it; peers attach it by a descriptor that came over an authenticated Unix socket. The file can
 * neither shrink nor grow, so no access to the mapping can fail.
 *
 * Layer:   transport; may include base/ only.
 * Threads: retain and release from any thread; the rest is constant once made.
 * Memory:  counted references; releasing the last one unmaps it.
 */
#ifndef TUTTI_TRANSPORT_SHM_SEGMENT_H
#define TUTTI_TRANSPORT_SHM_SEGMENT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "transport/shm/arena.h"

enum {
    TT_SEGMENT_LOCAL_MAX = 1024,             /* ranks of one host */
    TT_SEGMENT_RING_BYTES_MIN = 1024,        /* 16 lines */
    TT_SEGMENT_RING_BYTES_MAX = 1 << 26,     /* 64 MiB */
    TT_SEGMENT_RING_BYTES_DEFAULT = 1 << 17, /* stays in the second-level cache */
    TT_SEGMENT_WHY_BYTES = TT_ARENA_WHY_BYTES,
};

/* State of a segment's owner; senders ring the bell only for ASLEEP. */
typedef enum tt_wake {
    TT_WAKE_DRIVING,
    TT_WAKE_LINGERING, /* between two blocking calls: no thread polls now, one soon will */
    TT_WAKE_ASLEEP,
} tt_wake;

typedef struct tt_segment tt_segment;

typedef struct tt_segment_config {
    uint32_t local_index; /* of the owner among the ranks of this host */
    uint32_t local_count;
    uint32_t ring_bytes;  /* a power of two; 0: the default */
    uint64_t arena_bytes; /* 0: as much as the host has memory; shrinks if it cannot be mapped */
} tt_segment_config;

/* The caller releases it. On failure `why_out` names the resource. */
tt_status tt_segment_create(const tt_segment_config *config, tt_segment **segment_out,
                            char why_out[TT_SEGMENT_WHY_BYTES]);

/* Map the segment of another process. `descriptor` stays the caller's and may be closed
 * afterwards. It came from a peer, so its size, seals and header are checked against
 * `expected` (local_index and local_count; the other members are ignored). */
tt_status tt_segment_attach(int descriptor, const tt_segment_config *expected,
                            tt_segment **segment_out, char why_out[TT_SEGMENT_WHY_BYTES]);

/* Another reference. A rank of the same process attaches in this way: one mapping for both. */
tt_segment *tt_segment_retain(tt_segment *segment);
void tt_segment_release(tt_segment *segment);

/* Release `count` segments, of which any may be NULL. Returning many pages to the kernel takes
 * longer than leaving and joining a job: a detached thread does it then. Forked children do not
 * see the mappings from here on. */
void tt_segment_release_all(tt_segment *const *segments, uint32_t count);

/* Descriptor to pass to peers; owned by the segment, -1 for an attached one. */
int tt_segment_descriptor(const tt_segment *segment);
const tt_segment_config *tt_segment_facts(const tt_segment *segment);

/* One of tt_wake. Peers can write it: not trusted. */
_Atomic uint32_t *tt_segment_wake_word(const tt_segment *segment);

/* Core on which the owner last waited, + 1; 0: not known. Not trusted. */
_Atomic uint32_t *tt_segment_core_word(const tt_segment *segment);

/* Memory of the ring through which local rank `sender` sends to the owner. */
void *tt_segment_ring(const tt_segment *segment, uint32_t sender);

/* The owner's heap; NULL for an attached segment. */
tt_arena *tt_segment_arena(const tt_segment *segment);

/* Address of arena bytes [offset, offset + bytes), or NULL if they do not lie inside. */
void *tt_segment_view(const tt_segment *segment, uint64_t offset, size_t bytes);

/* In a forked child: closes the descriptor and makes shared memory unwritable, by calls that are
 * safe after fork only. The child must neither use nor release the segment. */
void tt_segment_child_after_fork(tt_segment *segment);

#endif
