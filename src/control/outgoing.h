/* SPDX-License-Identifier: Apache-2.0
 *
 * outgoing.h - outgoing frames with a payload, kept until the driver has taken them.
 *
 * Layer:   control.
 * Threads: those of the machine: one at a time.
 * Memory:  from the platform; frames are reused.
 */
#ifndef TUTTI_CONTROL_OUTGOING_H
#define TUTTI_CONTROL_OUTGOING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "aggregate/aggregate.h"
#include "control/control.h"

/* A frame in flight: its memory must stay valid until the driver has sent it. */
typedef struct tt_outgoing {
    struct tt_outgoing *next;
    uint32_t number;
    uint32_t bytes, capacity;
    uint8_t payload[];
} tt_outgoing;

#define TOKEN_OUTGOING (UINT64_C(1) << 63) /* tokens of outgoing frames, not of executors */

/* A frame with a payload of up to TT_NOTICE_BYTES_MAX, copied here. False: there was no
 * memory, and the head went alone. */
bool tt_outgoing_send(tt_control *control, uint32_t peer, tt_head head, const void *payload,
                      size_t bytes);
void tt_outgoing_sent(tt_control *control, uint64_t token);
void tt_outgoing_release_all(tt_control *control);

#endif
