/* SPDX-License-Identifier: Apache-2.0
 *
 * An unknown peer connects. First byte: piece size and kind. Even: raw bytes. Odd: the rest is
 * XORed over a valid first flight and confirmation, so that the input reaches behind the seal. No
 * peer without the secret may complete.
 *
 * Labels: mesh transport */
#include "handshake_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The responder draws fixed randomness, so one recorded confirmation fits every run. */
static size_t record_flight(uint8_t bytes[TT_HANDSHAKE_BYTES_MAX])
{
    const tt_handshake_setup first = fuzz_setup(TT_NOISE_INITIATOR);
    const tt_handshake_setup second = fuzz_setup(TT_NOISE_RESPONDER);
    uint8_t answer[TT_HANDSHAKE_BYTES_MAX];
    tt_handshake initiator;
    tt_handshake responder;

    TT_ASSERT(tt_handshake_init(&initiator, &first) == TT_OK);
    TT_ASSERT(tt_handshake_init(&responder, &second) == TT_OK);
    size_t count = fuzz_take(&initiator, bytes);
    TT_ASSERT(fuzz_feed(&responder, bytes, count, count) == TT_IN_PROGRESS);
    const size_t answer_bytes = fuzz_take(&responder, answer);
    TT_ASSERT(fuzz_feed(&initiator, answer, answer_bytes, answer_bytes) == TT_OK);
    count += fuzz_take(&initiator, bytes + count);
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const tt_handshake_setup setup = fuzz_setup(TT_NOISE_RESPONDER);
    uint8_t bytes[TT_HANDSHAKE_BYTES_MAX];
    tt_handshake responder;

    if (size == 0) {
        return 0;
    }
    const size_t piece = (size_t)data[0] / 2 + 1;
    TT_ASSERT(tt_handshake_init(&responder, &setup) == TT_OK);
    if ((data[0] & 1) == 0) {
        (void)fuzz_feed(&responder, data + 1, size - 1, piece);
        fuzz_finish(&responder);
        return 0;
    }
    const size_t count = record_flight(bytes);
    const int changed = fuzz_mutate(bytes, count, data + 1, size - 1);
    const tt_status status = fuzz_feed(&responder, bytes, count, piece);
    TT_ASSERT((status == TT_OK) == !changed);
    if (changed) {
        fuzz_finish(&responder);
    }
    return 0;
}
