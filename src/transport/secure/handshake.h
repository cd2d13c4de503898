/* SPDX-License-Identifier: Apache-2.0
 *
 * handshake.h - opens a connection: bytes in, bytes out, then two keys or a named refusal.
 *
 *     initiator                                         responder
 *       opening 32 (clear), message 1 (112)   ------>
 *                                             <------   answer 16 (clear), message 2 (112)
 *       confirmation 16                       ------>
 *
 * The caller moves bytes and keeps the deadline (5 s for the whole, not per read):
 *
 *     send tt_handshake_output() until it is empty; read at most tt_handshake_wants_bytes() and
 *     feed them; end of stream: tt_handshake_closed(). Ready when feed returns TT_OK.
 *
 * (1) Nothing is allocated, and at most 160 bytes are read from, and 128 written to, an
 *     unauthenticated peer.
 * (2) The opening is the prologue of the Noise exchange and the answer is repeated under its
 *     seal, so nothing in clear can be changed, spliced or downgraded unnoticed.
 * (3) A responder is done only after the confirmation: a replayed message 1 never gets there.
 * (4) Before the peer has proven that it holds the secret, the only answer is the version range.
 *     After it, a refusal travels under the seal. Every other failure sends nothing.
 * (5) A refused state may still hold output (the refusal itself). Send it, shut down the sending
 *     side, and read to the end or the deadline before closing: closing with unread bytes resets
 *     the connection and may lose the refusal.
 *
 * Layer:   transport; may include base/ only. No I/O, no clock.
 * Threads: one thread at a time per state.
 * Memory:  caller's storage; fini wipes it.
 */
#ifndef TUTTI_TRANSPORT_SECURE_HANDSHAKE_H
#define TUTTI_TRANSPORT_SECURE_HANDSHAKE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "transport/secure/hello.h"
#include "transport/secure/noise.h"

#define TT_HANDSHAKE_MESSAGE_BYTES (TT_HELLO_PAYLOAD_BYTES + TT_NOISE_OVERHEAD_BYTES)
#define TT_HANDSHAKE_CONFIRM_BYTES 16
/* Most bytes in one direction before the peer is authenticated. */
#define TT_HANDSHAKE_BYTES_MAX 256
/* Room for any text of tt_handshake_explain. */
#define TT_HANDSHAKE_TEXT_BYTES 320

typedef struct tt_handshake_setup {
    tt_noise_role side;
    const uint8_t *psk; /* TT_NOISE_KEY_BYTES: the job's secret; copied */
    uint8_t fingerprint[TT_HELLO_FINGERPRINT_BYTES];
    uint16_t version_min;
    uint16_t version_max;
    /* This rank's hello. A responder's role is ignored: it answers with the initiator's. */
    tt_hello self;
    uint32_t roles_accepted; /* responder: bit 1 << role for each role it serves */
    uint32_t expected_rank;  /* initiator: the rank it connects to, or TT_HELLO_RANK_UNKNOWN */
    tt_noise_random random;
    /* May be NULL. Final check of an authentic peer that passed all others, against the caller's
     * own state (rank taken, not a member). Must not change anything: the responder calls it
     * before the confirmation has arrived, so check again when the handshake is done. */
    tt_hello_refusal (*judge)(void *user, const tt_hello *peer);
    void *judge_user;
} tt_handshake_setup;

/* Fields are private to handshake.c. */
typedef struct tt_handshake {
    tt_handshake_setup setup;
    uint8_t psk[TT_NOISE_KEY_BYTES];
    uint8_t opening[TT_HELLO_OPENING_BYTES];
    tt_hello_clear peer_clear;
    tt_noise noise;
    tt_noise_keys keys;
    tt_hello peer;
    tt_hello_refusal refusal;
    uint8_t phase;
    uint8_t refused_by_peer;
    uint8_t input[TT_HANDSHAKE_MESSAGE_BYTES];
    size_t input_bytes;
    uint8_t output[TT_HANDSHAKE_BYTES_MAX];
    size_t output_bytes;
    size_t output_sent;
} tt_handshake;

/* Result of a finished handshake. Wipe `keys` after use. */
typedef struct tt_handshake_result {
    tt_hello peer;
    uint16_t version;
    uint64_t features; /* that both ends have */
    tt_noise_keys keys;
} tt_handshake_result;

/* TT_ERR_NO_RESOURCE if libsodium cannot start. */
tt_status tt_handshake_init(tt_handshake *handshake, const tt_handshake_setup *setup);

/* Wipes everything; safe to call twice. */
void tt_handshake_fini(tt_handshake *handshake);

/* How many bytes the state still needs for its next step; 0 when done or refused. */
size_t tt_handshake_wants_bytes(const tt_handshake *handshake);

/* Takes `count` <= tt_handshake_wants_bytes() bytes. TT_OK: done. TT_IN_PROGRESS: go on.
 * TT_ERR_REFUSED: see tt_handshake_refusal. */
tt_status tt_handshake_feed(tt_handshake *handshake, const uint8_t *bytes, size_t count);

/* The stream ended: TT_OK if the handshake was already done, else refused as CLOSED. */
tt_status tt_handshake_closed(tt_handshake *handshake);

/* Bytes waiting to be sent, and a pointer to them valid until the next feed. */
size_t tt_handshake_output(const tt_handshake *handshake, const uint8_t **bytes_out);
void tt_handshake_output_sent(tt_handshake *handshake, size_t count);

/* Once done: the result; the state keeps no key afterwards. TT_ERR_REFUSED otherwise. */
tt_status tt_handshake_take_result(tt_handshake *handshake, tt_handshake_result *result_out);

tt_hello_refusal tt_handshake_refusal(const tt_handshake *handshake);

/* One sentence with the cause, both sides' values and the cure. Returns `text`. */
const char *tt_handshake_explain(const tt_handshake *handshake, char *text, size_t text_bytes);

#endif
