/* SPDX-License-Identifier: Apache-2.0
 *
 * machine_fuzz.h - a machine for links under attack: sinks have exactly the size that the head
 * announced, and payloads are read to their end, so that a sanitizer detects one byte too many.
 *
 * Layer:   tests.
 */
#ifndef TUTTI_TESTS_FUZZ_MACHINE_FUZZ_H
#define TUTTI_TESTS_FUZZ_MACHINE_FUZZ_H

#include <stdint.h>
#include <stdlib.h>

#include "transport/transport.h"

typedef struct fuzz_box {
    uint8_t *sink;
    uint32_t sink_bytes;
    bool drops; /* the next long frame */
    volatile uint8_t sum;
} fuzz_box;

static void *fuzz_frame(void *machine, uint32_t peer, const tt_head *head, const void *payload)
{
    fuzz_box *self = machine;
    (void)peer;
    if (head->payload_bytes > TT_PAYLOAD_BYTES_MAX) {
        abort();
    }
    if (payload != NULL) {
        for (uint32_t i = 0; i < head->payload_bytes; i++) {
            self->sum ^= ((const uint8_t *)payload)[i];
        }
        return NULL;
    }
    free(self->sink);
    self->sink = self->drops ? NULL : malloc(head->payload_bytes);
    self->sink_bytes = head->payload_bytes;
    return self->sink;
}

static void fuzz_payload(void *machine, uint32_t peer, const tt_head *head)
{
    fuzz_box *self = machine;
    (void)peer;
    if (self->sink == NULL || self->sink_bytes != head->payload_bytes) {
        abort(); /* a payload that was never announced */
    }
    self->sum ^= self->sink[head->payload_bytes - 1];
}

static void fuzz_sent(void *machine, uint64_t token)
{
    (void)machine;
    (void)token;
}

static void fuzz_timer(void *machine)
{
    (void)machine;
}

static void fuzz_peer(void *machine, uint32_t peer, tt_peer_event event, const char *why)
{
    (void)machine;
    (void)peer;
    (void)event;
    (void)why;
    abort(); /* a link never makes this upcall */
}

static bool fuzz_step(void *machine)
{
    (void)machine;
    return false;
}

static const tt_machine_ops FUZZ_MACHINE_OPS = {
    .frame = fuzz_frame,
    .payload = fuzz_payload,
    .sent = fuzz_sent,
    .timer = fuzz_timer,
    .peer = fuzz_peer,
    .step = fuzz_step,
};

#endif
