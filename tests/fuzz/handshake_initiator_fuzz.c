/* SPDX-License-Identifier: Apache-2.0
 *
 * This side connected to an unknown peer. First byte: piece size and kind. Even: the rest is its
 * answer. Odd: the rest is XORed over a valid answer. No peer without the secret may complete.
 *
 * Labels: mesh transport */
#include "handshake_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const tt_handshake_setup first = fuzz_setup(TT_NOISE_INITIATOR);
    const tt_handshake_setup second = fuzz_setup(TT_NOISE_RESPONDER);
    uint8_t bytes[TT_HANDSHAKE_BYTES_MAX];
    tt_handshake initiator;
    tt_handshake responder;

    if (size == 0) {
        return 0;
    }
    const size_t piece = (size_t)data[0] / 2 + 1;
    TT_ASSERT(tt_handshake_init(&initiator, &first) == TT_OK);
    size_t count = fuzz_take(&initiator, bytes);
    if ((data[0] & 1) == 0) {
        (void)fuzz_feed(&initiator, data + 1, size - 1, piece);
        fuzz_finish(&initiator);
        return 0;
    }
    TT_ASSERT(tt_handshake_init(&responder, &second) == TT_OK);
    TT_ASSERT(fuzz_feed(&responder, bytes, count, count) == TT_IN_PROGRESS);
    count = fuzz_take(&responder, bytes);
    const int changed = fuzz_mutate(bytes, count, data + 1, size - 1);
    const tt_status status = fuzz_feed(&initiator, bytes, count, piece);
    TT_ASSERT((status == TT_OK) == !changed);
    if (changed) {
        fuzz_finish(&initiator);
    }
    return 0;
}
