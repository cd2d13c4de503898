/* SPDX-License-Identifier: Apache-2.0
 *
 * noise.h - Noise_NNpsk0_25519_ChaChaPoly_SHA256 as a pure state machine of two messages.
 *
 * Both sides prove that they hold the same 32-byte key and agree on two fresh transport keys
 * that stay secret even if the key leaks later. Every primitive is libsodium's; this file only
 * orders the calls as revision 34 of the Noise specification requires.
 *
 *     initiator  init  write(message 1)                    read(message 2)  split
 *     responder  init                    read(message 1)  write(message 2)  split
 *
 * (1) A call out of turn, or a message that fails authentication, kills the state: its keys are
 *     wiped and every later call returns TT_ERR_REFUSED.
 * (2) A low-order public key (all-zero shared secret) is refused.
 * (3) Only the first bytes sealed with a transport key prove to the responder that message 1 was
 *     not a replay. handshake.h adds that proof; no other file should call this one.
 *
 * Layer:   transport; may include base/ only. No I/O, no clock.
 * Threads: one thread at a time per state.
 * Memory:  caller's storage; allocates nothing; fini wipes it.
 */
#ifndef TUTTI_TRANSPORT_SECURE_NOISE_H
#define TUTTI_TRANSPORT_SECURE_NOISE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define TT_NOISE_KEY_BYTES 32
#define TT_NOISE_HASH_BYTES 32
#define TT_NOISE_TAG_BYTES 16
/* Bytes of a message beyond its payload: a public key and a tag. */
#define TT_NOISE_OVERHEAD_BYTES (TT_NOISE_KEY_BYTES + TT_NOISE_TAG_BYTES)
#define TT_NOISE_PAYLOAD_BYTES_MAX 1024

typedef enum tt_noise_role {
    TT_NOISE_INITIATOR,
    TT_NOISE_RESPONDER,
} tt_noise_role;

/* Source of unpredictable bytes. A simulator or a test passes a seeded one. */
typedef struct tt_noise_random {
    void (*fill)(void *user, uint8_t *bytes, size_t count);
    void *user;
} tt_noise_random;

/* Borrowed during tt_noise_init only, except `random`, kept until fini. */
typedef struct tt_noise_setup {
    const uint8_t *psk; /* TT_NOISE_KEY_BYTES */
    const uint8_t *prologue;
    size_t prologue_bytes;
    tt_noise_random random;
} tt_noise_setup;

typedef struct tt_noise_keys {
    uint8_t send[TT_NOISE_KEY_BYTES];
    uint8_t receive[TT_NOISE_KEY_BYTES];
    /* Hash of the whole exchange; differs between any two handshakes, equal on both sides. */
    uint8_t transcript[TT_NOISE_HASH_BYTES];
} tt_noise_keys;

/* Fields are private to noise.c; the body is here so that the caller can hold it. */
typedef struct tt_noise {
    tt_noise_random random;
    uint8_t chaining_key[TT_NOISE_HASH_BYTES];
    uint8_t hash[TT_NOISE_HASH_BYTES];
    uint8_t cipher_key[TT_NOISE_KEY_BYTES];
    uint8_t psk[TT_NOISE_KEY_BYTES];
    uint8_t ephemeral_secret[TT_NOISE_KEY_BYTES];
    uint8_t ephemeral_public[TT_NOISE_KEY_BYTES];
    uint8_t peer_public[TT_NOISE_KEY_BYTES];
    uint64_t nonce;
    uint8_t role;
    uint8_t phase;
} tt_noise;

/* TT_ERR_NO_RESOURCE if libsodium cannot start. */
tt_status tt_noise_init(tt_noise *noise, tt_noise_role role, const tt_noise_setup *setup);

/* Wipes everything. Safe to call twice, and on a state that refused. */
void tt_noise_fini(tt_noise *noise);

/* Writes payload_bytes + TT_NOISE_OVERHEAD_BYTES at `message_out`. */
tt_status tt_noise_write(tt_noise *noise, const uint8_t *payload, size_t payload_bytes,
                         uint8_t *message_out);

/* Writes message_bytes - TT_NOISE_OVERHEAD_BYTES at `payload_out`; zeros there on failure.
 * TT_ERR_BAD_WIRE for an impossible length, TT_ERR_REFUSED for anything not authentic. */
tt_status tt_noise_read(tt_noise *noise, const uint8_t *message, size_t message_bytes,
                        uint8_t *payload_out);

/* After both messages, once: the transport keys. The state is wiped; the caller wipes the keys. */
tt_status tt_noise_split(tt_noise *noise, tt_noise_keys *keys_out);

#endif
