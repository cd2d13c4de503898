/* SPDX-License-Identifier: Apache-2.0
 *
 * letter.h - frames with a payload, kept until the driver has taken them.
 *
 * Layer:   control.
 * Threads: those of the machine: one at a time.
 * Memory:  from the platform; letters are used again.
 */
#ifndef TUTTI_CONTROL_LETTER_H
#define TUTTI_CONTROL_LETTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "aggregate/aggregate.h"
#include "control/control.h"

/* A text on its way; its memory must stay until the driver has sent it. */
typedef struct tt_letter {
    struct tt_letter *next;
    uint32_t number;
    uint32_t bytes, capacity;
    uint8_t payload[];
} tt_letter;

#define TOKEN_LETTER (UINT64_C(1) << 63) /* tokens of letters, not of execs */

/* A frame with a payload of up to TT_NOTICE_BYTES_MAX, copied here. False: there was no
 * memory, and the head went alone. */
bool tt_letter_send(tt_control *control, uint32_t peer, tt_head head, const void *payload,
                    size_t bytes);
void tt_letter_sent(tt_control *control, uint64_t token);
void tt_letter_release_all(tt_control *control);

#endif
