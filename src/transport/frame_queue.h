/* SPDX-License-Identifier: Apache-2.0
 *
 * frame_queue.h - frames that wait for their link: most urgent first, then by age, then by push.
 *
 * Layer:   transport; may include platform/platform.h and base/.
 * Threads: one at a time.
 * Memory:  the array only grows, by doubling, to TT_FRAME_QUEUE_MAX; heads are copied, payloads
 * borrowed.
 */
#ifndef TUTTI_TRANSPORT_FRAME_QUEUE_H
#define TUTTI_TRANSPORT_FRAME_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "platform/platform.h"

enum { TT_FRAME_QUEUE_MAX = 1 << 16 };

typedef struct tt_queued_frame {
    tt_head head;
    const void *payload;
    uint64_t token;
    uint64_t age;  /* of the call it belongs to, from tt_send */
    uint64_t turn; /* given by push; smaller was pushed earlier */
    int32_t urgency;
} tt_queued_frame;

typedef struct tt_frame_queue {
    tt_queued_frame *frames; /* a binary heap */
    size_t count, capacity;
    uint64_t turn_next;
} tt_frame_queue;

/* A zeroed queue is empty and ready. */
void tt_frame_queue_fini(tt_frame_queue *queue);

/* TT_ERR_NO_RESOURCE when full. */
tt_status tt_frame_queue_push(tt_frame_queue *queue, const tt_send *send);

/* The next frame to send; NULL if the queue is empty. Valid until the queue changes. */
const tt_queued_frame *tt_frame_queue_top(const tt_frame_queue *queue);

/* False if it is empty. */
bool tt_frame_queue_pop(tt_frame_queue *queue, tt_queued_frame *frame_out);

/* Remove the frame with this token that would be sent first; false if there is none. */
bool tt_frame_queue_remove(tt_frame_queue *queue, uint64_t token);

#endif
