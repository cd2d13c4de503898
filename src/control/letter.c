/* SPDX-License-Identifier: Apache-2.0
 *
 * letter.c - short texts to peers; kept until the driver has taken them. */
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "control/control_internal.h"

/* Texts and notices have rooms of their own. */
static tt_letter **free_list(tt_control *control, uint32_t capacity)
{
    TT_ASSERT(capacity == TT_ERROR_BYTES || capacity == TT_NOTICE_BYTES_MAX);
    return capacity == TT_ERROR_BYTES ? &control->free_letters : &control->free_parcels;
}

static tt_letter *letter_take(tt_control *control, size_t bytes)
{
    const uint32_t capacity = bytes <= TT_ERROR_BYTES ? TT_ERROR_BYTES : TT_NOTICE_BYTES_MAX;
    TT_ASSERT(bytes <= capacity); /* it would be cut short */
    tt_letter **list = free_list(control, capacity);
    tt_letter *letter = *list;
    if (letter != NULL) {
        TT_ASSERT(letter->capacity == capacity);
        *list = letter->next;
        return letter;
    }
    letter = tt_platform_allocate(control->platform, sizeof(*letter) + capacity);
    if (letter != NULL) {
        letter->number = control->letter_count++;
        letter->capacity = capacity;
    }
    return letter;
}

bool tt_letter_send(tt_control *control, uint32_t peer, tt_head head, const void *payload,
                    size_t bytes)
{
    TT_ASSERT(peer != control->world.rank);
    tt_letter *letter = letter_take(control, bytes);
    if (letter == NULL && head.kind == TT_FRAME_NOTICE && bytes > 0) {
        return false; /* without its payload it would be another one */
    }
    if (letter == NULL) { /* the head alone still says what happened */
        head.payload_bytes = 0;
        tt_flow_control(&control->flow, peer, &head);
        return bytes == 0;
    }
    letter->bytes = (uint32_t)bytes;
    if (letter->bytes > 0) {
        memcpy(letter->payload, payload, letter->bytes);
    }
    head.payload_bytes = letter->bytes;
    const tt_send send = {.peer = peer,
                          .urgency = TT_URGENCY_CONTROL,
                          .token = TOKEN_LETTER | letter->number,
                          .payload = letter->bytes > 0 ? letter->payload : NULL,
                          .head = &head};
    const bool is_kept = control->platform->ops->send(control->platform, &send) == TT_IN_PROGRESS;
    tt_letter **list = is_kept ? &control->letters : free_list(control, letter->capacity);
    letter->next = *list;
    *list = letter;
    return true;
}

void tt_letter_sent(tt_control *control, uint64_t token)
{
    tt_letter **link = &control->letters;
    while (*link != NULL && (TOKEN_LETTER | (*link)->number) != token) {
        link = &(*link)->next;
    }
    tt_letter *letter = *link;
    TT_ASSERT(letter != NULL); /* the driver has it until it says so, once */
    *link = letter->next;
    tt_letter **list = free_list(control, letter->capacity);
    letter->next = *list;
    *list = letter;
}

/* How many there were. */
static uint32_t release_list(tt_control *control, tt_letter *letter)
{
    uint32_t count = 0;
    for (; letter != NULL; count++) {
        tt_letter *next = letter->next;
        tt_platform_release(control->platform, letter, sizeof(*letter) + letter->capacity);
        letter = next;
    }
    return count;
}

void tt_letter_release_all(tt_control *control)
{
    const uint32_t count = release_list(control, control->letters) +
                           release_list(control, control->free_letters) +
                           release_list(control, control->free_parcels);
    TT_ASSERT(count == control->letter_count);
    control->letter_count = 0;
    control->letters = control->free_letters = control->free_parcels = NULL;
}
