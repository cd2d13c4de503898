/* SPDX-License-Identifier: Apache-2.0
 *
 * After a valid handshake an attacker controls the stream. The input is a program of steps: one
 * byte chooses the next action (deliver, flip a bit, replay, skip, raw bytes, a block). Only
 * unchanged, strictly next bytes may open; after the first failure nothing opens again.
 *
 * Labels: transport */
#include <sodium.h>

#include "handshake_fuzz.h"
#include "transport/secure/seal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void meet(tt_seal *sender, tt_seal *receiver)
{
    const tt_handshake_setup first = fuzz_setup(TT_NOISE_INITIATOR);
    const tt_handshake_setup second = fuzz_setup(TT_NOISE_RESPONDER);
    uint8_t bytes[TT_HANDSHAKE_BYTES_MAX];
    tt_handshake initiator;
    tt_handshake responder;
    tt_handshake_result a;
    tt_handshake_result b;

    TT_ASSERT(tt_handshake_init(&initiator, &first) == TT_OK);
    TT_ASSERT(tt_handshake_init(&responder, &second) == TT_OK);
    size_t count = fuzz_take(&initiator, bytes);
    TT_ASSERT(fuzz_feed(&responder, bytes, count, count) == TT_IN_PROGRESS);
    count = fuzz_take(&responder, bytes);
    TT_ASSERT(fuzz_feed(&initiator, bytes, count, count) == TT_OK);
    count = fuzz_take(&initiator, bytes);
    TT_ASSERT(fuzz_feed(&responder, bytes, count, count) == TT_OK);
    TT_ASSERT(tt_handshake_take_result(&initiator, &a) == TT_OK);
    TT_ASSERT(tt_handshake_take_result(&responder, &b) == TT_OK);
    TT_ASSERT(tt_seal_init(sender, a.keys.send) == TT_OK);
    TT_ASSERT(tt_seal_init(receiver, b.keys.receive) == TT_OK);
}

/* One step on heads; true if the bytes delivered are the strictly next ones. */
static int next_head(tt_seal *sender, uint8_t action, uint8_t sealed[TT_SEAL_SEALED_HEAD_BYTES])
{
    uint8_t head[TT_SEAL_HEAD_BYTES];

    memset(head, action, sizeof(head));
    switch (action % 4) {
    case 0: /* deliver */
        TT_ASSERT(tt_seal_head(sender, head, sealed) == TT_OK);
        return 1;
    case 1: /* flip one bit */
        TT_ASSERT(tt_seal_head(sender, head, sealed) == TT_OK);
        sealed[action / 4] ^= (uint8_t)(1U << action % 8);
        return 0;
    case 2: /* skip one */
        TT_ASSERT(tt_seal_head(sender, head, sealed) == TT_OK);
        TT_ASSERT(tt_seal_head(sender, head, sealed) == TT_OK);
        return 0;
    default: /* replay the last bytes, or zeros */
        return 0;
    }
}

static tt_status pass_block(tt_seal *sender, tt_seal *receiver, uint8_t action)
{
    uint8_t block[64];
    uint8_t tag[TT_SEAL_TAG_BYTES];
    const size_t count = (size_t)action / 4 + 1;

    memset(block, action, sizeof(block));
    TT_ASSERT(tt_seal_payload_block(sender, block, count, block, tag) == TT_OK);
    if ((action & 1) != 0) {
        tag[action / 16] ^= 0x80;
    }
    return tt_open_payload_block(receiver, block, count, tag, block);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t sealed[TT_SEAL_SEALED_HEAD_BYTES] = {0};
    uint8_t head[TT_SEAL_HEAD_BYTES];
    tt_seal sender;
    tt_seal receiver;
    int alive = 1;

    meet(&sender, &receiver);
    if (size >= TT_SEAL_SEALED_HEAD_BYTES && data[0] == 0xff) {
        TT_ASSERT(tt_open_head(&receiver, data, head) == TT_ERR_BAD_WIRE);
        return 0;
    }
    for (size_t i = 0; i + 1 < size && i < 64; i += 2) {
        tt_status status = TT_OK;
        if ((data[i] & 1) != 0) {
            status = pass_block(&sender, &receiver, data[i + 1]);
            alive = alive && (data[i + 1] & 1) == 0;
        } else {
            alive = next_head(&sender, data[i + 1], sealed) && alive;
            status = tt_open_head(&receiver, sealed, head);
            TT_ASSERT(alive || sodium_is_zero(head, sizeof(head)));
        }
        TT_ASSERT((status == TT_OK) == (alive != 0));
    }
    return 0;
}
