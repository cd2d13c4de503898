/* SPDX-License-Identifier: Apache-2.0
 *
 * outgoing.c - frames with a short payload; the payload is copied and kept until it is sent. */
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "control/control_internal.h"

/* Error texts and notices have free lists of their own. */
static tt_outgoing **free_list(tt_control *control, uint32_t capacity)
{
    TT_ASSERT(capacity == TT_ERROR_BYTES || capacity == TT_NOTICE_BYTES_MAX);
    return capacity == TT_ERROR_BYTES ? &control->free_short : &control->free_long;
}

static tt_outgoing *outgoing_take(tt_control *control, size_t bytes)
{
    const uint32_t capacity = bytes <= TT_ERROR_BYTES ? TT_ERROR_BYTES : TT_NOTICE_BYTES_MAX;
    TT_ASSERT(bytes <= capacity); /* else it would be truncated */
    tt_outgoing **list = free_list(control, capacity);
    tt_outgoing *frame = *list;
    if (frame != NULL) {
        TT_ASSERT(frame->capacity == capacity);
        *list = frame->next;
        return frame;
    }
    frame = tt_platform_allocate(control->platform, sizeof(*frame) + capacity);
    if (frame != NULL) {
        frame->number = control->outgoing_count++;
        frame->capacity = capacity;
    }
    return frame;
}

bool tt_outgoing_send(tt_control *control, uint32_t peer, tt_head head, const void *payload,
                      size_t bytes)
{
    TT_ASSERT(peer != control->world.rank);
    tt_outgoing *frame = outgoing_take(control, bytes);
    if (frame == NULL && head.kind == TT_FRAME_NOTICE && bytes > 0) {
        return false; /* without its payload it would mean something else */
    }
    if (frame == NULL) { /* the head alone still carries the event */
        head.payload_bytes = 0;
        tt_flow_control(&control->flow, peer, &head);
        return bytes == 0;
    }
    frame->bytes = (uint32_t)bytes;
    if (frame->bytes > 0) {
        memcpy(frame->payload, payload, frame->bytes);
    }
    head.payload_bytes = frame->bytes;
    const tt_send send = {.peer = peer,
                          .urgency = TT_URGENCY_CONTROL,
                          .token = TOKEN_OUTGOING | frame->number,
                          .payload = frame->bytes > 0 ? frame->payload : NULL,
                          .head = &head};
    const bool is_kept = control->platform->ops->send(control->platform, &send) == TT_IN_PROGRESS;
    tt_outgoing **list = is_kept ? &control->outgoing : free_list(control, frame->capacity);
    frame->next = *list;
    *list = frame;
    return true;
}

void tt_outgoing_sent(tt_control *control, uint64_t token)
{
    tt_outgoing **link = &control->outgoing;
    while (*link != NULL && (TOKEN_OUTGOING | (*link)->number) != token) {
        link = &(*link)->next;
    }
    tt_outgoing *frame = *link;
    TT_ASSERT(frame != NULL); /* the driver reports each token once */
    *link = frame->next;
    tt_outgoing **list = free_list(control, frame->capacity);
    frame->next = *list;
    *list = frame;
}

/* Returns the number of frames released. */
static uint32_t release_list(tt_control *control, tt_outgoing *frame)
{
    uint32_t count = 0;
    for (; frame != NULL; count++) {
        tt_outgoing *next = frame->next;
        tt_platform_release(control->platform, frame, sizeof(*frame) + frame->capacity);
        frame = next;
    }
    return count;
}

void tt_outgoing_release_all(tt_control *control)
{
    const uint32_t count = release_list(control, control->outgoing) +
                           release_list(control, control->free_short) +
                           release_list(control, control->free_long);
    TT_ASSERT(count == control->outgoing_count);
    control->outgoing_count = 0;
    control->outgoing = control->free_short = control->free_long = NULL;
}
