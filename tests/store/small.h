/* SPDX-License-Identifier: Apache-2.0
 *
 * small.h - a few workers and servers in memory, whose frames the caller delivers one by one.
 *
 * The machines are those of src/sync, over a platform without time: a frame that was sent waits in
 * a list until it is delivered, in any order, also twice. Payloads of values and pushes are
 * borrowed, as by real drivers, and must be unchanged when their frame is delivered.
 *
 * All memory of a machine lies in one place, so that a copy of it is a copy of its state
 * (small_keep, small_restore), and its hash is one of its state (small_hash).
 *
 * Layer:   tests.
 * Threads: one.
 * Memory:  malloc.
 */
#ifndef TUTTI_TESTS_STORE_SMALL_H
#define TUTTI_TESTS_STORE_SMALL_H

#include <stdbool.h>
#include <stdint.h>

#include "sync/sync_internal.h"

enum {
    SMALL_PROCESSES = 6,
    SMALL_MEMORY_BYTES = 48 * 1024, /* of a machine */
    SMALL_GAPS = 16,
    SMALL_FRAMES = 96,
    SMALL_PAYLOAD_BYTES = 512,
    SMALL_EPOCH = 7,
};

typedef struct small_frame {
    uint32_t from, to;
    tt_head head;
    uint64_t token;
    const void *lent; /* where the payload is at the sender; NULL: it was copied */
    uint8_t bytes[SMALL_PAYLOAD_BYTES];
} small_frame;

typedef struct small_world small_world;

typedef struct small_machine {
    tt_platform platform;
    small_world *world;
    uint32_t rank;
    tt_sync *sync;
    bool is_gone; /* it has died */
    bool is_deaf; /* frames to it are dropped */
    size_t used;  /* of `memory` */
    uint32_t gap_count;
    struct {
        uint32_t first, bytes;
    } gaps[SMALL_GAPS]; /* what was released */
    _Alignas(64) uint8_t memory[SMALL_MEMORY_BYTES];
} small_machine;

struct small_world {
    uint32_t workers, servers;
    small_machine *machines[SMALL_PROCESSES];
    tt_text report; /* the last one */
    uint64_t sent;  /* frames */
    uint32_t frame_count;
    small_frame frames[SMALL_FRAMES];
};

small_world *small_create(uint32_t workers, uint32_t servers);
/* `hosts`: as tt_roles. */
small_world *small_create_on(uint32_t workers, uint32_t servers, const uint32_t *hosts);
/* All requests must be over, or their machine is shut down here. */
void small_destroy(small_world *world);

/* Zeroed memory in the place of a machine, for the caller's records; NULL: it is full. */
void *small_allocate(small_machine *machine, size_t bytes);
/* The name of a short tensor that this owner has. */
const char *small_name(const small_world *world, uint32_t owner);

/* Deliver frame `index`, and take it off the list unless it `stays` to be delivered again. */
void small_deliver(small_world *world, uint32_t index, bool stays);
void small_drop(small_world *world, uint32_t index);
/* All frames in the order of sending, and all steps, until nothing is left to do. */
void small_run(small_world *world);
bool small_has_step(const small_machine *machine);
void small_step(small_machine *machine);
/* The machine ends; frames to it are lost. Others learn of it by small_tell_gone, or, if it has
 * left in order, by small_tell_left. */
void small_kill(small_machine *machine);
/* Frames of the one that is gone which have not reached this machine are lost. */
void small_tell_gone(small_machine *machine, uint32_t rank);
/* All frames of the one that has left must have reached this machine. */
void small_tell_left(small_machine *machine, uint32_t rank);
bool small_has_frames(const small_world *world, uint32_t from, uint32_t to);

typedef struct small_copy small_copy;
small_copy *small_keep(const small_machine *machine);
/* And release the copy. */
void small_restore(small_machine *machine, small_copy *copy);
uint64_t small_hash(const small_machine *machine);

#endif
