/* SPDX-License-Identifier: Apache-2.0
 *
 * platform.h - the seam between the state machines and the operating system.
 *
 * Everything above (control, schedule, aggregate, sync) is one machine per rank that reacts to
 * upcalls and makes downcalls through the platform's table. It has no thread, lock, clock or
 * descriptor. Three drivers stand below: real (sockets, shared memory), sim (seeded discrete
 * events, all ranks in one process) and shuffle (an in-memory bag of frames for tests).
 *
 * Every driver promises:
 *  (1) Upcalls to one machine never overlap and never nest: none is made from inside a downcall.
 *  (2) A frame is delivered whole, unchanged, at most once, or the peer is reported down. Frames
 *      of one link may overtake each other (urgency); nothing above may rely on their order.
 *  (3) `now` is monotonic, and constant within one upcall except after `spend`.
 *  (4) After peer DOWN or LEFT nothing more arrives from that peer; all it sent before has arrived.
 *
 * Layer:   platform; may include base/ only.
 * Threads: a machine and its platform are used by one thread at a time (the baton's holder).
 * Memory:  heads are copied; payloads are borrowed as described at send.
 */
#ifndef TUTTI_PLATFORM_PLATFORM_H
#define TUTTI_PLATFORM_PLATFORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/status.h"

enum {
    TT_INLINE_BYTES_MAX = 16 * 1024,    /* payloads up to this are in memory at `frame` */
    TT_PAYLOAD_BYTES_MAX = 1024 * 1024, /* longest payload of one frame */
};

/* The head of every frame; 48 bytes, little-endian, sent as it is in memory. The driver reads
 * payload_bytes only; the rest belongs to the layers above (kinds: aggregate/frame.h). */
typedef struct tt_head {
    uint8_t kind;
    uint8_t flags;
    uint16_t stage;         /* of the op's stages, from 0 (aggregate/stage.h) */
    uint32_t set;           /* process set */
    uint64_t op;            /* sequence number within the set */
    uint32_t lane;          /* chunk of the op */
    uint32_t round;         /* step of the chunk's algorithm */
    uint64_t descriptor;    /* hash of what the sender believes the op to be */
    uint32_t payload_bytes; /* of what follows */
    uint32_t epoch;         /* membership of the job */
    uint64_t argument;      /* meaning by kind */
} tt_head;

_Static_assert(sizeof(tt_head) == 48, "tt_head is a wire format");

enum { TT_URGENCY_CONTROL = INT32_MAX }; /* frames that free resources; ahead of all data */

/* Token of frames whose completion does not matter; never recalled, and `sent` is ignored. */
#define TT_TOKEN_NONE UINT64_MAX

/* As the peer of a send: every other rank that shares memory with this one, except servers. */
#define TT_PEER_HOST UINT32_MAX

/* One frame to send. */
typedef struct tt_send {
    uint32_t peer;
    int32_t urgency; /* larger first; */
    uint64_t age;    /* of equal urgency, smaller first; equal age keeps the order of sending */
    uint64_t token;  /* comes back in `sent` */
    const void *payload;
    const tt_head *head; /* head->payload_bytes at payload */
} tt_send;

/* The place of a buffer in its owner's arena. */
typedef struct tt_place {
    uint32_t region;
    uint64_t offset;
} tt_place;

typedef enum tt_memory_kind {
    TT_MEMORY_PRIVATE,
    TT_MEMORY_SHARED,  /* peers with a view can access it; NULL where there is no arena */
    TT_MEMORY_PHANTOM, /* with one of these: addresses alone (tt_platform.phantom_first) */
} tt_memory_kind;

typedef enum tt_spend_kind {
    TT_SPEND_COPY,
    TT_SPEND_REDUCE,
    TT_SPEND_CODE, /* bytes of the values as floats */
} tt_spend_kind;

/* Bit of tt_launch.set: named ops, which have an order of their own. */
#define TT_LAUNCH_NAMED UINT32_C(0x80000000)

/* A whole collective for an outside engine; enum values as in tutti_call. */
typedef struct tt_launch {
    uint8_t collective, dtype, redop;
    bool may_block; /* every member waits, for ops of this set and for nothing else */
    uint32_t set, root;
    uint32_t self, size; /* member number of this rank in the set, and the number of members */
    int32_t urgency;
    uint64_t count; /* elements */
    const void *input;
    void *output;
    uint64_t token; /* comes back in `landed` */
} tt_launch;

/* A long computation over [0, bytes) that may be cut at any multiple of TT_WORK_GRAIN: `part`
 * computes [first, first + bytes). Parts may run at the same time, on any thread; two parts of one
 * `hand` (0 <= hand < tt_platform.hands) never do. */
enum { TT_WORK_GRAIN = 64, TT_HANDS_MAX = 64 };

typedef struct tt_work_order {
    void (*part)(void *argument, uint32_t hand, uint64_t first, uint64_t bytes);
    void *argument;
    uint64_t bytes;
} tt_work_order;

/* One piece of work that another thread may do: it touches nothing but its own data. Embedded in
 * the struct it works on, which must not move until the task is finished. */
typedef struct tt_task tt_task;

struct tt_task {
    void (*run)(tt_task *task);
    uint32_t ticket; /* private to the crew */
};

typedef struct tt_platform tt_platform;

/* Downcalls: from a machine to its driver. */
typedef struct tt_platform_ops {
    uint64_t (*now)(tt_platform *platform); /* nanoseconds */
    uint64_t (*random)(tt_platform *platform);

    /* Zeroed, 64-byte aligned, or NULL. Called only when ops, sets and contexts are created, never
     * in steady state. `bytes` of release are those of allocate. */
    void *(*allocate)(tt_platform *platform, tt_memory_kind kind, size_t bytes);
    void (*release)(tt_platform *platform, tt_memory_kind kind, void *memory, size_t bytes);

    /* One upcall `timer` at or after `at_ns`; a second call moves it; UINT64_MAX cancels it.
     * A machine has one timer. */
    void (*timer)(tt_platform *platform, uint64_t at_ns);

    /* TT_OK: the payload was copied or sent, it is the caller's again and no upcall follows.
     * TT_IN_PROGRESS: borrowed until the upcall sent(token). Negative (peer down, no memory):
     * nothing was or will be sent. Never blocks. To TT_PEER_HOST: TT_OK, or TT_ERR_UNSUPPORTED:
     * send to each peer instead; the next call may succeed. */
    tt_status (*send)(tt_platform *platform, const tt_send *send);

    /* Return the payload of `token` to the caller now: sent(token) will not follow, and the frame
     * may or may not arrive. The driver copies the bytes that it still must send. */
    void (*recall)(tt_platform *platform, uint32_t peer, uint64_t token);

    /* The sink of the frame that is arriving from `peer`, if any, is the machine's again: the rest
     * is dropped and no `payload` upcall follows. */
    void (*discard)(tt_platform *platform, uint32_t peer);

    /* Address of memory at `place` in the arena of `peer` (or of this rank), or NULL if there is
     * none or it does not hold `bytes`. Stays valid until the machine is destroyed. */
    void *(*view)(tt_platform *platform, uint32_t peer, tt_place place, size_t bytes);

    /* The place of `memory` in this rank's arena; false if it is not there. */
    bool (*locate)(tt_platform *platform, const void *memory, size_t bytes, tt_place *place_out);

    /* Local work was just done: simulated clocks advance. `bytes` are those of the result, and each
     * of them was added or copied `times` times; 0: they were in place already. */
    void (*spend)(tt_platform *platform, tt_spend_kind kind, size_t bytes, uint32_t times);

    /* Run the order's parts from its front; none is still running on return. Returns the bytes
     * done: all, or a multiple of TT_WORK_GRAIN above 0 if the machine has new and possibly more
     * urgent work. NULL where `hands` is 0. */
    uint64_t (*work)(tt_platform *platform, const tt_work_order *order);

    /* Can an outside engine run such an op? The same result on every rank: depends on collective,
     * dtype, redop and count only. NULL where there is no engine. */
    bool (*can_launch)(tt_platform *platform, const tt_launch *launch);
    /* Pass an op to the engine; `landed` follows. Every member of the set launches its ops in the
     * same order. Until then the engine owns the buffers, and they cannot be recalled. */
    void (*launch)(tt_platform *platform, const tt_launch *launch);
} tt_platform_ops;

/* Drivers embed this as their first member. */
struct tt_platform {
    const tt_platform_ops *ops;
    /* Addresses of payloads that have a length and no bytes, in simulations of many ranks: whoever
     * copies, adds, encodes or hashes bytes there spends the time, and touches nothing. The first
     * half are the callers' buffers, the second the machines' own; of each, half are private and
     * half shared. What protocols read is always real. 0 bytes: all memory is real. */
    uintptr_t phantom_first;
    uint64_t phantom_bytes;
    uint32_t hands;           /* threads that `work` has, the caller's included; constant */
    uint64_t work_bytes_min;  /* shorter computations are not worth an order */
    uint64_t share_bytes_min; /* shorter orders are not worth several hands */
};

typedef enum tt_peer_event {
    TT_PEER_SILENT,  /* does not run: a warning, never an error */
    TT_PEER_BACK,    /* runs again after SILENT */
    TT_PEER_LEFT,    /* left the job in order */
    TT_PEER_DOWN,    /* its process or host is gone; needs proof, not just silence */
    TT_PEER_REJECTS, /* it is alive, its link is gone, and it reports this rank as at fault */
} tt_peer_event;

/* Upcalls: from a driver to its machine. */
typedef struct tt_machine_ops {
    /* A frame's head has arrived. Payload of up to TT_INLINE_BYTES_MAX: it is at `inline_payload`
     * during the call (any alignment) and the result is ignored. Longer: `inline_payload` is NULL,
     * and the result is the sink for head->payload_bytes (any alignment), or NULL to drop them.
     * The head came from a peer: trust nothing in it but payload_bytes. */
    void *(*frame)(void *machine, uint32_t peer, const tt_head *head, const void *inline_payload);

    /* The payload of the long frame just announced is in its sink. Between `frame` and this, no
     * other frame of the same peer is announced. */
    void (*payload)(void *machine, uint32_t peer, const tt_head *head);

    void (*sent)(void *machine, uint64_t token);
    /* A launched op is over. May be NULL where nothing can be launched. */
    void (*landed)(void *machine, uint64_t token, tt_status status);
    void (*timer)(void *machine);

    /* `why` is a short text for messages ("exited", "connection reset"). */
    void (*peer)(void *machine, uint32_t peer, tt_peer_event event, const char *why);

    /* Do at most about 50 us of local work. True: more is left, call again soon. Called after
     * every batch of upcalls. */
    bool (*step)(void *machine);
} tt_machine_ops;

typedef struct tt_machine {
    const tt_machine_ops *ops;
    void *self;
} tt_machine;

/* Checked calls to the table. */
static inline uint64_t tt_now(tt_platform *platform)
{
    return platform->ops->now(platform);
}

static inline uint64_t tt_platform_random(tt_platform *platform)
{
    return platform->ops->random(platform);
}

static inline void *tt_platform_allocate(tt_platform *platform, size_t bytes)
{
    return platform->ops->allocate(platform, TT_MEMORY_PRIVATE, bytes);
}

static inline void tt_platform_release(tt_platform *platform, void *memory, size_t bytes)
{
    if (memory != NULL) {
        platform->ops->release(platform, TT_MEMORY_PRIVATE, memory, bytes);
    }
}

static inline bool tt_is_phantom(const tt_platform *platform, const void *address)
{
    return platform->phantom_bytes > 0 &&
           (uintptr_t)address - platform->phantom_first < platform->phantom_bytes;
}

/* For copies: is there nothing to read, or nothing to write? */
static inline bool tt_has_phantom(const tt_platform *platform, const void *a, const void *b)
{
    return platform->phantom_bytes > 0 &&
           (tt_is_phantom(platform, a) || tt_is_phantom(platform, b));
}

/* The machine's own addresses. */
static inline void *tt_phantom_memory(const tt_platform *platform, tt_memory_kind kind)
{
    const uint64_t quarter = platform->phantom_bytes / 4;
    return (void *)(platform->phantom_first + ((kind & TT_MEMORY_SHARED) != 0 ? 3 : 2) * quarter);
}

/* Memory for what is copied from or to `like`: phantom, where that is. */
static inline void *tt_platform_allocate_like(tt_platform *platform, tt_memory_kind kind,
                                              const void *like, size_t bytes)
{
    const unsigned phantom = tt_is_phantom(platform, like) ? TT_MEMORY_PHANTOM : 0;
    return platform->ops->allocate(platform, (tt_memory_kind)(kind | phantom), bytes);
}

#endif
