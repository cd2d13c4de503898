/* SPDX-License-Identifier: Apache-2.0
 *
 * handshake_fuzz.h - one recorded exchange with fixed randomness, for the handshake fuzzers.
 *
 * Layer:   tests.
 * Threads: one.
 * Memory:  the caller's.
 */
#ifndef TUTTI_FUZZ_HANDSHAKE_FUZZ_H
#define TUTTI_FUZZ_HANDSHAKE_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/assert.h"
#include "transport/secure/handshake.h"

static inline void fuzz_fill(void *user, uint8_t *bytes, size_t count)
{
    memset(bytes, *(const uint8_t *)user, count);
}

/* Rank 2 connects to rank 5 of 8. */
static inline tt_handshake_setup fuzz_setup(tt_noise_role side)
{
    static const uint8_t psk[TT_NOISE_KEY_BYTES] = {7};
    static uint8_t seeds[2] = {0x11, 0x22};
    const int initiator = side == TT_NOISE_INITIATOR;
    tt_handshake_setup setup = {
        .side = side,
        .psk = psk,
        .version_min = 1,
        .version_max = 3,
        .self = {.role = TT_HELLO_LINK_SEND,
                 .rank = initiator ? 2 : 5,
                 .world_size = 8,
                 .incarnation = 77,
                 .library = "0.1.0"},
        .roles_accepted = 1U << TT_HELLO_LINK_SEND,
        .expected_rank = initiator ? 5 : TT_HELLO_RANK_UNKNOWN,
        .random = {.fill = fuzz_fill, .user = &seeds[initiator ? 0 : 1]},
    };

    tt_hello_fingerprint("fuzz", setup.fingerprint);
    return setup;
}

/* Feeds pieces whose sizes the input chooses; returns the last status. */
static inline tt_status fuzz_feed(tt_handshake *handshake, const uint8_t *bytes, size_t count,
                                  size_t piece)
{
    tt_status status = TT_IN_PROGRESS;

    while (count > 0 && status == TT_IN_PROGRESS) {
        size_t taken = tt_handshake_wants_bytes(handshake);
        taken = taken < piece ? taken : piece;
        taken = taken < count ? taken : count;
        status = tt_handshake_feed(handshake, bytes, taken);
        bytes += taken;
        count -= taken;
    }
    return status;
}

static inline size_t fuzz_take(tt_handshake *handshake, uint8_t *bytes)
{
    const uint8_t *output = NULL;
    const size_t count = tt_handshake_output(handshake, &output);

    memcpy(bytes, output, count);
    tt_handshake_output_sent(handshake, count);
    return count;
}

/* A state that ended must have an explanation and no result. */
static inline void fuzz_finish(tt_handshake *handshake)
{
    char text[TT_HANDSHAKE_TEXT_BYTES];
    tt_handshake_result result;

    TT_ASSERT(tt_handshake_closed(handshake) == TT_ERR_REFUSED);
    TT_ASSERT(tt_handshake_take_result(handshake, &result) == TT_ERR_REFUSED);
    TT_ASSERT(strlen(tt_handshake_explain(handshake, text, sizeof(text))) > 0);
    tt_handshake_fini(handshake);
}

/* XORs the input over the valid bytes; true if that changed any of them. */
static inline int fuzz_mutate(uint8_t *valid, size_t valid_bytes, const uint8_t *data, size_t size)
{
    uint8_t changed = 0;

    for (size_t i = 0; i < valid_bytes && i < size; i++) {
        valid[i] ^= data[i];
        changed |= data[i];
    }
    return changed != 0;
}

#endif
