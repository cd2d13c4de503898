/* SPDX-License-Identifier: Apache-2.0
 *
 * fabric.h - models of what connects the ranks of a cluster: cards, links, memory of hosts.
 *
 * A fabric is asked when a frame that a rank submits is off its card and when it is in the memory
 * of its target, and how long copies and sums take. The processor's own time per frame (o and O of
 * LogGOPS) is the caller's, who knows when it is free: tt_fabric_overhead. A frame passes links one
 * after the other; the caller asks again at each of them, in the order of time, so that a link
 * serves frames in the order in which they reach it.
 *
 * Promises of a model:
 *  (1) Calls are made in the order of their times, `at_ns`, except as is_private allows.
 *  (2) The same calls give the same answers. No allocation after create.
 *  (3) released_ns and every time of pass are at least `at_ns`.
 *  (4) is_private: what a rank sends, receives and works on delays no frame on any other rank's
 *      first or last link, and all its frames come by one last link. Then `send` and `work` may be
 *      asked ahead of other ranks' times, and a frame may be handled before it is complete.
 *
 * Layer:   sim.
 * Threads: one at a time.
 * Memory:  the allocator's, at creation; tt_fabric_ops.bytes is known before.
 */
#ifndef TUTTI_SIM_FABRIC_H
#define TUTTI_SIM_FABRIC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/status.h"
#include "base/text.h"

/* How far a frame goes. */
typedef enum tt_fabric_level {
    TT_FABRIC_HOST, /* between ranks of one host */
    TT_FABRIC_LEAF, /* between hosts of one leaf switch; without leaves, between all hosts */
    TT_FABRIC_TREE, /* over uplinks; cards keep gap and speed of a leaf's links */
    TT_FABRIC_LEVELS,
} tt_fabric_level;

/* A link of a level. Speeds are times per byte in femtoseconds: 80,000 are 12.5 GB/s. */
typedef struct tt_fabric_link {
    uint64_t latency_ns; /* L: of the whole way at this level */
    uint64_t gap_ns;     /* g: a card is busy with a frame for this and its bytes */
    uint64_t byte_fs;    /* G */
} tt_fabric_link;

/* Ranks are placed on hosts in blocks, and hosts on leaves. */
typedef struct tt_fabric_config {
    uint32_t rank_count;
    uint32_t ranks_per_host;
    uint32_t cards_per_host; /* ranks take them in turn; as many as ranks: one each */
    uint32_t hosts_per_leaf; /* tree */
    uint32_t uplinks_per_leaf;
    uint32_t head_bytes; /* that every frame has besides its payload */
    tt_fabric_link links[TT_FABRIC_LEVELS];
    uint64_t overhead_ns; /* o: of the processor, for every frame sent and every one received */
    uint64_t overhead_byte_fs; /* O */
    uint64_t reduce_byte_fs;   /* of one addition */
    uint64_t copy_byte_fs;
    uint64_t memory_byte_fs; /* memory: of the bandwidth that the ranks of a host share */
} tt_fabric_config;

typedef struct tt_fabric_frame {
    uint32_t source, target;
    uint32_t bytes; /* payload */
} tt_fabric_frame;

typedef struct tt_departure {
    uint64_t released_ns; /* the payload may be changed */
    uint64_t free_ns;     /* the card begins with the next frame */
    uint64_t head_ns;     /* the first byte is at the next link */
} tt_departure;

/* Frames of one level, for those who count them. */
typedef struct tt_fabric_traffic {
    uint64_t frames_sent, frames_received;
    uint64_t bytes_sent, bytes_received; /* payload */
} tt_fabric_traffic;

/* Copies and sums. `bytes` of a sum are those of all additions: of k vectors, k - 1 times one. */
typedef enum tt_fabric_work { TT_FABRIC_COPY, TT_FABRIC_REDUCE } tt_fabric_work;

typedef struct tt_fabric tt_fabric;

/* A model. Every member is required. */
typedef struct tt_fabric_ops {
    const char *name;
    uint64_t (*bytes)(const tt_fabric_config *config);
    /* The configuration was checked. */
    tt_status (*create)(const tt_fabric_config *config, const tt_allocator *allocator,
                        tt_fabric **fabric_out);
    void (*destroy)(tt_fabric *fabric);
    /* Forget all frames: as after create. */
    void (*reset)(tt_fabric *fabric);
    tt_departure (*send)(tt_fabric *fabric, const tt_fabric_frame *frame, uint64_t at_ns);
    /* The first byte is at link `hop`, from 1. True: it was the last one, and the frame is in
     * memory at *at_ns_io; false: the first byte is then at the next link. */
    bool (*pass)(tt_fabric *fabric, const tt_fabric_frame *frame, uint32_t hop, uint64_t *at_ns_io);
    /* When `rank` has done work of so many bytes that it begins at `at_ns`. */
    uint64_t (*work)(tt_fabric *fabric, uint32_t rank, tt_fabric_work work, uint64_t bytes,
                     uint64_t at_ns);
} tt_fabric_ops;

/* The first member of a model's state. */
struct tt_fabric {
    const tt_fabric_ops *ops;
    const tt_allocator *allocator;
    tt_fabric_config config;
    bool is_private;
};

static inline uint64_t tt_fabric_bytes_ns(uint64_t bytes, uint64_t byte_fs)
{
    return (bytes * byte_fs + 500000) / 1000000;
}

/* Processor time for a frame, at each of its ends. */
static inline uint64_t tt_fabric_overhead(const tt_fabric *fabric, uint32_t bytes)
{
    return fabric->config.overhead_ns + tt_fabric_bytes_ns(bytes, fabric->config.overhead_byte_fs);
}

static inline uint32_t tt_fabric_host(const tt_fabric_config *config, uint32_t rank)
{
    return config->ranks_per_host == 1 ? rank : rank / config->ranks_per_host;
}

static inline tt_fabric_level tt_fabric_level_of(const tt_fabric_config *config, uint32_t a,
                                                 uint32_t b)
{
    const uint32_t host_a = tt_fabric_host(config, a), host_b = tt_fabric_host(config, b);
    if (host_a == host_b) {
        return TT_FABRIC_HOST;
    }
    if (config->hosts_per_leaf == 0 ||
        host_a / config->hosts_per_leaf == host_b / config->hosts_per_leaf) {
        return TT_FABRIC_LEAF;
    }
    return TT_FABRIC_TREE;
}

/* Cards of all hosts, and of ranks where several share a host: their paths to each other. */
uint32_t tt_fabric_card_count(const tt_fabric_config *config);
/* The one that sends a frame from `source` to `target`. */
uint32_t tt_fabric_card(const tt_fabric_config *config, uint32_t source, uint32_t target);

/* The model called `name`, or NULL; the index-th, or NULL at the end. */
const tt_fabric_ops *tt_fabric_find(const char *name);
const tt_fabric_ops *tt_fabric_at(size_t index);

/* A card and a rank on each of `rank_count` hosts, all links alike: the plain LogGP machine. */
void tt_fabric_config_plain(tt_fabric_config *config, uint32_t rank_count, tt_fabric_link link);

/* TT_ERR_BAD_CONFIG and `why`: a size or speed is missing or absurd. Destroyed by the caller with
 * ops->destroy. */
tt_status tt_fabric_create(const tt_fabric_ops *ops, const tt_fabric_config *config,
                           const tt_allocator *allocator, tt_text *why, tt_fabric **fabric_out);

#endif
