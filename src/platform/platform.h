/* SPDX-License-Identifier: Apache-2.0
 *
 * platform.h - the seam between the state machines and the world.
 *
 * Everything above (control, schedule, aggregate, sync) is one machine per rank that reacts to
 * upcalls and asks the world through the platform's table. It has no thread, lock, clock or
 * descriptor. Three drivers stand below: real (sockets, shared memory), sim (seeded discrete
 * events, all ranks in one process) and shuffle (an in-memory bag of messages for tests).
 *
 * What every driver promises:
 *  (1) Upcalls to one machine never overlap and never nest: none is made from inside a downcall.
 *  (2) A frame is delivered whole, unchanged, at most once, or the peer is reported down. Frames
 *      of one link may overtake each other (urgency); nothing above may rely on their order.
 *  (3) `now` is monotonic, and constant within one upcall but for `spend`.
 *  (4) After peer DOWN or LEFT nothing more comes from that peer; all it sent before has come.
 *
 * Layer:   platform; may include base/ only.
 * Threads: a machine and its platform are used by one thread at a time (the baton's holder).
 * Memory:  heads are copied; payloads are borrowed as said at send.
 */
#ifndef TUTTI_PLATFORM_PLATFORM_H
#define TUTTI_PLATFORM_PLATFORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/status.h"

enum {
    TT_INLINE_BYTES_MAX = 16 * 1024,    /* payloads up to here lie in memory at `frame` */
    TT_PAYLOAD_BYTES_MAX = 1024 * 1024, /* longest payload of one frame */
};

/* What goes before every payload; 48 bytes, little-endian, sent as it lies here. The driver reads
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

/* Token of frames that nobody waits for; never recalled, and `sent` for it means nothing. */
#define TT_TOKEN_NONE UINT64_MAX

/* As the peer of a send: every other rank that shares memory with this one. */
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

/* Where in the arena of its owner a buffer lies. */
typedef struct tt_place {
    uint32_t region;
    uint64_t offset;
} tt_place;

typedef enum tt_memory_kind {
    TT_MEMORY_PRIVATE,
    TT_MEMORY_SHARED, /* peers with a view can reach it; NULL where there is no arena */
} tt_memory_kind;

typedef enum tt_spend_kind { TT_SPEND_COPY, TT_SPEND_REDUCE } tt_spend_kind;

/* Bit of tt_launch.set: named ops, which have an order of their own. */
#define TT_LAUNCH_NAMED UINT32_C(0x80000000)

/* A whole collective for an outside engine; numbers as in tutti_call. */
typedef struct tt_launch {
    uint8_t collective, dtype, redop;
    bool may_block; /* every member waits, for ops of this set and for nothing else */
    uint32_t set, root;
    uint32_t self, size; /* member number of this rank in the set, and how many there are */
    int32_t urgency;
    uint64_t count; /* elements */
    const void *input;
    void *output;
    uint64_t token; /* comes back in `landed` */
} tt_launch;

/* A long computation over [0, bytes) that may be cut anywhere between multiples of TT_WORK_GRAIN:
 * `part` does [first, first + bytes) of it. Parts may run at the same time, on any thread; the two
 * of one `hand` (0 <= hand < tt_platform.hands) never do. */
enum { TT_WORK_GRAIN = 64, TT_HANDS_MAX = 64 };

typedef struct tt_work_order {
    void (*part)(void *argument, uint32_t hand, uint64_t first, uint64_t bytes);
    void *argument;
    uint64_t bytes;
} tt_work_order;

/* One piece of work that another thread may do: it touches nothing but what it was given. Embedded
 * in what it is about, which stays where it is until the task is finished. */
typedef struct tt_task tt_task;

struct tt_task {
    void (*run)(tt_task *task);
    uint32_t ticket; /* whoever took it: private */
};

typedef struct tt_platform tt_platform;

/* Downcalls: what a machine may ask of the world. */
typedef struct tt_platform_ops {
    uint64_t (*now)(tt_platform *platform); /* nanoseconds */
    uint64_t (*random)(tt_platform *platform);

    /* Zeroed, 64-byte aligned, or NULL. Only when ops, sets and contexts are created, never in
     * steady state. `bytes` of release are those of allocate. */
    void *(*allocate)(tt_platform *platform, tt_memory_kind kind, size_t bytes);
    void (*release)(tt_platform *platform, tt_memory_kind kind, void *memory, size_t bytes);

    /* One upcall `timer` at or after `at_ns`; setting again moves it; UINT64_MAX switches it off.
     * A machine has one timer. */
    void (*timer)(tt_platform *platform, uint64_t at_ns);

    /* TT_OK: the payload is copied or gone, it is the caller's again and no upcall follows.
     * TT_IN_PROGRESS: borrowed until the upcall sent(token). Negative (peer down, no memory):
     * nothing was or will be sent. Never blocks. To TT_PEER_HOST: TT_OK, or TT_ERR_UNSUPPORTED,
     * which may be otherwise next time: send to each. */
    tt_status (*send)(tt_platform *platform, const tt_send *send);

    /* Give the payload of `token` back now: sent(token) will not come, and the frame may or may
     * not arrive. The driver copies what it still must put on the wire. */
    void (*recall)(tt_platform *platform, uint32_t peer, uint64_t token);

    /* The sink given for the frame that is arriving from `peer`, if any, is the machine's again:
     * the rest is dropped and no `payload` upcall comes for it. */
    void (*discard)(tt_platform *platform, uint32_t peer);

    /* Address of memory at `place` in the arena of `peer` (oneself included), or NULL if there is
     * none or it does not hold `bytes`. Stays valid until the machine is destroyed. */
    void *(*view)(tt_platform *platform, uint32_t peer, tt_place place, size_t bytes);

    /* Where `memory` lies in the own arena; false if it does not. */
    bool (*locate)(tt_platform *platform, const void *memory, size_t bytes, tt_place *place_out);

    /* Local work of this many bytes was just done: simulated clocks advance. */
    void (*spend)(tt_platform *platform, tt_spend_kind kind, size_t bytes);

    /* Do the order's parts from its front; none runs on when this returns. How many bytes are done:
     * all, or a multiple of TT_WORK_GRAIN above 0 if something new waits for the machine, which
     * may be more urgent. NULL where `hands` is 0. */
    uint64_t (*work)(tt_platform *platform, const tt_work_order *order);

    /* Can an outside engine run such an op? The same answer on every rank: looks at collective,
     * dtype, redop and count only. NULL where there is no engine. */
    bool (*can_launch)(tt_platform *platform, const tt_launch *launch);
    /* Hand an op to the engine; `landed` follows. Every member of the set launches its ops in the
     * same order. The buffers are the engine's until then, and cannot be taken back. */
    void (*launch)(tt_platform *platform, const tt_launch *launch);
} tt_platform_ops;

/* Drivers embed this as their first member. */
struct tt_platform {
    const tt_platform_ops *ops;
    uint32_t hands;           /* threads that `work` has, the caller's included; constant */
    uint64_t work_bytes_min;  /* shorter computations are not worth an order, */
    uint64_t share_bytes_min; /* shorter orders not several hands */
};

typedef enum tt_peer_event {
    TT_PEER_SILENT,  /* no sign of life for a while: a warning, never an error */
    TT_PEER_BACK,    /* it gave a sign of life after SILENT */
    TT_PEER_LEFT,    /* it said goodbye */
    TT_PEER_DOWN,    /* its process or host is gone; needs proof, not just silence */
    TT_PEER_REJECTS, /* it lives, its link is gone, and it takes this rank for the one at fault */
} tt_peer_event;

/* Upcalls: what the world tells a machine. */
typedef struct tt_machine_ops {
    /* A frame's head has arrived. Payload of up to TT_INLINE_BYTES_MAX: it lies at `inline_payload`
     * for the time of the call (any alignment) and the answer is ignored. Longer: `inline_payload`
     * is NULL, and the answer is where to store head->payload_bytes (any alignment), or NULL to
     * drop them. The head came from a peer: trust nothing in it but payload_bytes. */
    void *(*frame)(void *machine, uint32_t peer, const tt_head *head, const void *inline_payload);

    /* The payload of the long frame just announced lies in its sink. Between `frame` and this,
     * no other frame of the same peer is announced. */
    void (*payload)(void *machine, uint32_t peer, const tt_head *head);

    void (*sent)(void *machine, uint64_t token);
    /* What was launched is over. Where nothing can be launched, this may be NULL. */
    void (*landed)(void *machine, uint64_t token, tt_status status);
    void (*timer)(void *machine);

    /* `why` is a short text for people ("exited", "connection reset"). */
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

#endif
