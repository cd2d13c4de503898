/* SPDX-License-Identifier: Apache-2.0
 *
 * split.h - which process owns which part of a tensor.
 *
 * With n workers and k servers, each behind a card of the same speed, time is least if a server
 * owns 2(n-1) / (n^2 + kn - 2k) of the bytes and a worker (n-k) of that many (BytePS, OSDI'20).
 * k = 0 is an all-reduce, k = n a parameter server. More servers than workers gain nothing: the
 * rest own nothing.
 *
 * Owners are numbered: the servers that are used, then the workers, unless their share is 0. A
 * tensor is cut into one range per owner, in this order, and each range into parts of one frame. No
 * link is busy both ways before the first parts are answered and after the last are sent, so a part
 * is a small share of a tensor. A short tensor is one part, whose owner follows from the hash of
 * its name; many of them are shared out as bytes are.
 *
 * Layer:   sync, private.
 * Threads: pure.
 * Memory:  none.
 */
#ifndef TUTTI_SYNC_SPLIT_H
#define TUTTI_SYNC_SPLIT_H

#include <stdbool.h>
#include <stdint.h>

enum {
    TT_SPLIT_WHOLE_BYTES = 16 * 1024, /* tensors up to here are not cut */
    TT_SPLIT_PARTS = 1024,            /* of longer ones, if parts then have */
    TT_SPLIT_PART_BYTES_MIN = 32 * 1024,
    TT_SPLIT_PART_BYTES = 256 * 1024, /* to so many bytes */
    TT_SPLIT_GRAIN = 64,              /* bytes; that of tensors as they are */
};

typedef struct tt_split {
    uint32_t workers, servers; /* processes of the job */
    uint32_t used;             /* servers that own something */
    uint32_t owners;           /* servers used, and workers if they own something */
    uint64_t server_weight, worker_weight, weight; /* of each, of all */
    uint32_t grain;                                /* bytes; parts begin at multiples of it */
    const uint32_t *chosen; /* [used] servers that own parts, ascending; NULL: the first ones */
} tt_split;

typedef struct tt_split_part {
    uint64_t first, bytes;
    uint32_t owner; /* number */
} tt_split_part;

typedef struct tt_split_parts {
    const tt_split_part *list;
    uint32_t count;
} tt_split_parts;

/* Parts of one owner: the next one to send, how many were and how many there are. */
typedef struct tt_split_turn {
    uint32_t next, sent, count;
} tt_split_turn;

tt_split tt_split_make(uint32_t workers, uint32_t servers);
/* The same for workers that share cards, one of each host: n is the number of hosts, and their
 * workers share what a host owns, all alike. Workers are owners also if they own no bytes. */
tt_split tt_split_make_hosts(uint32_t workers, uint32_t hosts, uint32_t servers);
/* The same if only `chosen_count` of the servers may own parts. `chosen` stays the caller's. */
tt_split tt_split_make_of(uint32_t workers, uint32_t servers, const uint32_t *chosen,
                          uint32_t chosen_count);

/* The rank of an owner, and the number of a rank; not below `owners`: it owns nothing. */
uint32_t tt_split_rank(const tt_split *split, uint32_t owner);
uint32_t tt_split_number(const tt_split *split, uint32_t rank);

/* The owners that a part may have, in the order in which they follow each other when one is gone:
 * `turn` 0 is the first one. Parts of one owner go to different ones. */
uint32_t tt_split_heir(const tt_split *split, uint32_t owner, uint32_t part, uint32_t turn);

/* The parts of a tensor of `bytes`: how many there are; up to `capacity` of them are written to
 * `parts`. An empty tensor has one empty part. */
uint32_t tt_split_cut(const tt_split *split, uint64_t hash, uint64_t bytes, tt_split_part *parts,
                      uint32_t capacity);
/* Numbers of a tensor's parts in the order in which `worker` sends them: to all owners in
 * proportion to what they have, so that all end together; workers begin with different owners.
 * `turns` is scratch, one for each owner; `order` has place for each part. */
void tt_split_order(const tt_split *split, tt_split_parts parts, uint32_t worker,
                    tt_split_turn *turns, uint32_t *order);

#endif
