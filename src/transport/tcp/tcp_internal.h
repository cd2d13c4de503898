/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp_internal.h - the body of a TCP link, shared by tcp.c, tcp_send.c and tcp_receive.c.
 *
 * Layer:   transport; private to tcp*.c.
 * Threads: used by the baton's holder only.
 * Memory:  see tcp.h.
 */
#ifndef TUTTI_TRANSPORT_TCP_TCP_INTERNAL_H
#define TUTTI_TRANSPORT_TCP_TCP_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/frame_queue.h"
#include "transport/secure/seal.h"
#include "transport/tcp/backlog.h"
#include "transport/tcp/tcp.h"

enum {
    TT_TCP_STAGE_BYTES = 128 * 1024,
    TT_TCP_STAGE_FILL = 32 * 1024, /* small frames are coalesced up to here */
    TT_TCP_COPY_BYTES = 4 * 1024,  /* payloads up to here are copied while they wait... */
    TT_TCP_COPY_MAX = 256,         /* ...but never more of them than this at a time */
    TT_TCP_BUFFER_BYTES = 128 * 1024,
    TT_TCP_PEEK_BYTES = 4 * 1024, /* read past a long payload: enough for heads, little to copy */
    TT_TCP_QUIET_READS = 16,   /* a power of two: reads until acknowledgements are delayed anew */
    TT_TCP_OTHER_END_MS = 200, /* longest time between the ends of both sockets */
};
#define TT_TCP_GOODBYE UINT32_MAX

_Static_assert(sizeof(tt_head) == TT_SEAL_HEAD_BYTES, "heads are sealed as they are");
_Static_assert(TT_INLINE_BYTES_MAX <= TT_SEAL_BLOCK_BYTES_MAX, "an inline payload is one block");
_Static_assert(TT_TCP_STAGE_FILL + TT_SEAL_SEALED_HEAD_BYTES + TT_SEAL_BLOCK_BYTES_MAX +
                       TT_SEAL_TAG_BYTES <=
                   TT_TCP_STAGE_BYTES,
               "a small frame, or a head and a block, fit behind what was coalesced");
_Static_assert(TT_SEAL_BLOCK_BYTES_MAX + TT_SEAL_TAG_BYTES < TT_TCP_BUFFER_BYTES,
               "a sealed block is opened in the buffer");

enum {
    TT_TCP_BLOCKS = 4, /* of a direction at a time: as many as the longest usual frame has */
    TT_TCP_BLOCK_STRIDE = TT_SEAL_BLOCK_BYTES_MAX + 64,
};

_Static_assert(TT_SEAL_BLOCK_BYTES_MAX + TT_SEAL_TAG_BYTES <= TT_TCP_BLOCK_STRIDE, "with its tag");

/* A block of a long sealed payload that any thread may seal or open. */
typedef struct tt_tcp_block {
    tt_task task;
    const tt_seal *seal;
    uint64_t place;       /* its nonce, taken before it was posted */
    const uint8_t *plain; /* to be sealed into `wire`; NULL: `wire` is to be opened */
    uint8_t *target;      /* to be opened to here, which may be `wire` */
    uint8_t *wire;        /* the block, then its tag */
    size_t plain_bytes;
    tt_status status; /* of opening */
    bool is_finished;
} tt_tcp_block;

/* A queue of blocks, in the order of the wire. Frames too short to gain from it do not use it. */
typedef struct tt_tcp_blocks {
    const tt_hands *hands;
    uint8_t *memory; /* taken for the first frame that needs it */
    bool is_missing; /* the allocation failed: not tried again */
    uint32_t first, count;
    size_t moved; /* wire bytes: written, of the first block; or arrived, of the one behind the last
                   */
    tt_tcp_block blocks[TT_TCP_BLOCKS];
} tt_tcp_blocks;

/* Memory for small payloads that wait: slots of TT_TCP_COPY_BYTES. */
typedef struct tt_tcp_copies {
    uint8_t *slots;
    uint16_t free_slots[TT_TCP_COPY_MAX];
    size_t free_count;
} tt_tcp_copies;

typedef struct tt_tcp_sender {
    int fd;
    tt_seal seal;
    tt_frame_queue queue;
    tt_tcp_copies copies;
    /* Wire bytes ready to be written: heads, small frames, sealed blocks. They precede `current`.
     */
    uint8_t *stage;
    size_t stage_begin;
    size_t stage_end;
    /* The long frame that has begun, if `has_current`; its head is already staged. `position`
     * counts payload and trailer bytes written, or (AEAD) payload bytes staged or posted as
     * blocks. */
    bool has_current;
    bool is_shared; /* `current` is written from `blocks`, after the stage */
    tt_tcp_blocks blocks;
    bool owes_sent; /* for `current`: its payload is still borrowed */
    tt_queued_frame current;
    size_t position;
    uint8_t trailer[TT_SEAL_CRC_BYTES];
    uint8_t *kept; /* TT_PAYLOAD_BYTES_MAX: copy of the rest of `current`, made by recall */
    tt_backlog backlog;
    bool was_full; /* the kernel's buffer was full at the last write */
    bool broken;   /* writing failed; the receiving side decides when the link is DOWN */
    bool closing;  /* the goodbye follows queued frames */
    bool said;     /* the goodbye is staged */
    bool finished; /* all is written and the sending side is shut */
    char why[TT_LINK_WHY_BYTES];
    uint8_t rejection[TT_SEAL_REJECTION_BYTES]; /* sent by the peer if it rejects our frames */
} tt_tcp_sender;

typedef enum tt_tcp_phase {
    TT_TCP_PHASE_HEAD,
    TT_TCP_PHASE_SMALL,
    TT_TCP_PHASE_LONG,
    TT_TCP_PHASE_TRAILER,
    TT_TCP_PHASE_ENDED,
} tt_tcp_phase;

typedef struct tt_tcp_receiver {
    int fd;
    tt_seal seal;
    tt_tcp_phase phase;
    uint8_t *buffer; /* unread bytes lie in [begin, end) */
    size_t begin;
    size_t end;
    tt_head head;
    uint8_t *sink;   /* of the long frame; NULL: dropped */
    size_t position; /* payload bytes arrived, and opened */
    bool is_shared;  /* the long frame arrives by `blocks` */
    tt_tcp_blocks blocks;
    size_t arrived; /* is_shared: payload bytes in blocks that arrived whole */
    uint32_t crc;
    bool after_long;      /* the next read is short: a long payload probably follows its head */
    bool is_drained;      /* the last read got less than it asked for */
    uint32_t quiet_reads; /* since acknowledgements were last delayed */
    uint8_t rejection[TT_SEAL_REJECTION_BYTES];
    bool has_rejected;
    uint64_t ended_ns; /* when the stream was first seen to have ended; 0: not yet */
} tt_tcp_receiver;

typedef struct tt_tcp {
    tt_link link;
    tt_seal_mode mode;
    tt_tcp_sender sender;
    tt_tcp_receiver receiver;
} tt_tcp;

/* First failure wins: the state is DOWN, `why` holds the text, both sockets are shut. */
void tt_tcp_fail(tt_tcp *tcp, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The peer sent its goodbye, or ended its stream after ours. */
void tt_tcp_leave(tt_tcp *tcp);

tt_status tt_tcp_sender_send(tt_tcp *tcp, const tt_send *send);
void tt_tcp_sender_recall(tt_tcp *tcp, uint64_t token);
bool tt_tcp_sender_poll(tt_tcp *tcp);
bool tt_tcp_sender_has_work(const tt_tcp *tcp);
/* Forgets every frame that waits; payloads are the machine's again, without `sent`. */
void tt_tcp_sender_drop(tt_tcp *tcp);
/* Ends the sending side to a peer that left: a goodbye if no frame is half written, then end of
 * stream. */
void tt_tcp_sender_end(tt_tcp *tcp);

bool tt_tcp_receiver_poll(tt_tcp *tcp);
/* True: poll must be called again although no descriptor becomes ready. */
bool tt_tcp_receiver_has_more(const tt_tcp *tcp);
void tt_tcp_receiver_discard(tt_tcp *tcp);
/* A frame cannot be verified: sends the rejection to the peer, once. The caller then fails the
 * link. */
void tt_tcp_receiver_reject(tt_tcp *tcp);

/* tcp_blocks.c. True: a frame of so many bytes uses blocks. Allocates memory for the first one. */
bool tt_tcp_blocks_begin(tt_tcp_blocks *blocks, const tt_hands *hands, uint32_t payload_bytes);
/* The block `index` places behind the first. */
tt_tcp_block *tt_tcp_blocks_at(tt_tcp_blocks *blocks, uint32_t index);
/* The block behind the last is filled in: appends it to the queue; any thread may run it. */
void tt_tcp_blocks_post(tt_tcp_blocks *blocks);
void tt_tcp_blocks_call(const tt_tcp_blocks *blocks);
bool tt_tcp_blocks_is_done(tt_tcp_blocks *blocks, uint32_t index);
/* Runs the block if no thread has begun it. */
void tt_tcp_blocks_finish(tt_tcp_blocks *blocks, uint32_t index);
void tt_tcp_blocks_finish_all(tt_tcp_blocks *blocks);
/* Removes the first block, which is finished. */
void tt_tcp_blocks_pop(tt_tcp_blocks *blocks);
/* Finishes and removes all blocks: afterwards no thread uses one. */
void tt_tcp_blocks_clear(tt_tcp_blocks *blocks);
void tt_tcp_blocks_fini(tt_tcp_blocks *blocks);

#endif
