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
 * tensor is cut into one range per owner, in this order, and each range into parts of one frame. A
 * short tensor is one part, whose owner follows from the hash of its name; many of them are shared
 * out as bytes are.
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
    TT_SPLIT_PART_BYTES = 256 * 1024, /* of a part, at most */
    TT_SPLIT_WHOLE_BYTES = 64 * 1024, /* tensors up to here are not cut */
    TT_SPLIT_GRAIN = 64,              /* bytes; that of tensors as they are */
};

typedef struct tt_split {
    uint32_t workers, servers; /* processes of the job */
    uint32_t used;             /* servers that own something */
    uint32_t owners;           /* servers used, and workers if they own something */
    uint64_t server_weight, worker_weight, weight; /* of each, of all */
    uint32_t grain;                                /* bytes; parts begin at multiples of it */
} tt_split;

typedef struct tt_split_part {
    uint64_t first, bytes;
    uint32_t owner; /* number */
} tt_split_part;

tt_split tt_split_make(uint32_t workers, uint32_t servers);
/* The same for workers that share cards, one of each host: n is the number of hosts, and their
 * workers share what a host owns, all alike. Workers are owners also if they own no bytes. */
tt_split tt_split_make_hosts(uint32_t workers, uint32_t hosts, uint32_t servers);

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

#endif
