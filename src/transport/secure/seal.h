/* SPDX-License-Identifier: Apache-2.0
 *
 * seal.h - encryption and checksums of the frames of a TCP link after the handshake.
 *
 *     frame, mode NONE   sealed head 64 | payload
 *     frame, mode CRC    sealed head 64 | payload | CRC32C of the payload, u32 little-endian
 *     frame, mode AEAD   sealed head 64 | { block of 1..64 KiB | tag 16 } ...
 *
 * A frame without payload is its sealed head alone. All blocks but the last are full, so the
 * head's payload length fixes where each begins.
 *
 * (1) One tt_seal serves one direction. Head and payload have keys of their own; each nonce is a
 *     counter that starts at 0, is never sent and never reused.
 * (2) Only the strictly next head or block opens: replay, loss, reorder, reflection and any change
 *     fail, and the first failure wipes the state. The link is then closed.
 * (3) Payload blocks are sealed by ChaCha20-Poly1305, or by AES-256-GCM where both processors have
 *     instructions for it (announced in the mesh's records, under the seal). Each cipher has a key
 *     of its own. Heads are always sealed by ChaCha20-Poly1305.
 * (4) The head is always sealed. NONE and CRC leave the payload readable and changeable by an
 *     attacker on the wire; CRC finds accidents, not attackers.
 *
 * Layer:   transport; may include base/ only. No I/O, no clock.
 * Threads: one thread at a time per state, but for tt_seal_block_at and tt_open_block_at.
 * Memory:  caller's storage and buffers; allocates nothing; fini wipes.
 */
#ifndef TUTTI_TRANSPORT_SECURE_SEAL_H
#define TUTTI_TRANSPORT_SECURE_SEAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define TT_SEAL_KEY_BYTES 32
#define TT_SEAL_TAG_BYTES 16
#define TT_SEAL_HEAD_BYTES 48
#define TT_SEAL_SEALED_HEAD_BYTES (TT_SEAL_HEAD_BYTES + TT_SEAL_TAG_BYTES)
#define TT_SEAL_BLOCK_BYTES_MAX (64U * 1024U)
#define TT_SEAL_CRC_BYTES 4
#define TT_SEAL_REJECTION_BYTES 32

typedef enum tt_seal_mode {
    TT_SEAL_NONE,
    TT_SEAL_CRC,
    TT_SEAL_AEAD,
} tt_seal_mode;

/* Cipher of payload blocks; both ends must use the same. */
typedef enum tt_seal_cipher {
    TT_SEAL_CHACHA20,
    TT_SEAL_AES256, /* only where tt_seal_has_aes */
} tt_seal_cipher;

#define TT_SEAL_AES_STATE_BYTES 512

/* Fields are private to seal.c. */
typedef struct tt_seal {
    _Alignas(16) uint8_t aes_state[TT_SEAL_AES_STATE_BYTES]; /* the expanded payload key */
    uint8_t head_key[TT_SEAL_KEY_BYTES];
    uint8_t payload_key[TT_SEAL_KEY_BYTES];
    uint64_t head_counter;
    uint64_t payload_counter;
    tt_seal_cipher cipher;
    bool alive;
} tt_seal;

/* `key` is tt_noise_keys.send at one end and .receive at the other; wipe it afterwards.
 * TT_ERR_NO_RESOURCE if libsodium cannot start. */
tt_status tt_seal_init(tt_seal *seal, const uint8_t key[TT_SEAL_KEY_BYTES]);
/* The same with a cipher for payload blocks; tt_seal_init takes ChaCha20. */
tt_status tt_seal_init_with(tt_seal *seal, const uint8_t key[TT_SEAL_KEY_BYTES],
                            tt_seal_cipher cipher);
void tt_seal_fini(tt_seal *seal);

/* True: this processor has instructions for AES-256-GCM that libsodium uses. */
bool tt_seal_has_aes(void);

/* TT_ERR_SHUT_DOWN after a failure or 2^64 - 1 heads. */
tt_status tt_seal_head(tt_seal *seal, const uint8_t head[TT_SEAL_HEAD_BYTES],
                       uint8_t sealed_out[TT_SEAL_SEALED_HEAD_BYTES]);

/* TT_ERR_BAD_WIRE if these bytes are not the next head; `head_out` is then zero. */
tt_status tt_open_head(tt_seal *seal, const uint8_t sealed[TT_SEAL_SEALED_HEAD_BYTES],
                       uint8_t head_out[TT_SEAL_HEAD_BYTES]);

/* Bytes that the receiver of a direction sends back when it rejects the sender's frames; derived
 * from the direction's key, so that only the two ends can compute them. */
void tt_seal_rejection(const uint8_t key[TT_SEAL_KEY_BYTES],
                       uint8_t rejection_out[TT_SEAL_REJECTION_BYTES]);

/* One block of 1..TT_SEAL_BLOCK_BYTES_MAX bytes; sealed and plain may be the same buffer. */
tt_status tt_seal_payload_block(tt_seal *seal, const uint8_t *plain, size_t count,
                                uint8_t *sealed_out, uint8_t tag_out[TT_SEAL_TAG_BYTES]);

/* TT_ERR_BAD_WIRE if this is not the next block; `plain_out` is then zero. */
tt_status tt_open_payload_block(tt_seal *seal, const uint8_t *sealed, size_t count,
                                const uint8_t tag[TT_SEAL_TAG_BYTES], uint8_t *plain_out);

/* The same in two steps, for blocks that other threads seal or open. The thread that drives the
 * link takes the places in the order of the wire; any thread may do the rest, in any order. It only
 * reads the state, which must outlive it. The tag follows the sealed bytes.
 * TT_ERR_SHUT_DOWN as above. */
tt_status tt_seal_take_place(tt_seal *seal, uint64_t *place_out);
void tt_seal_block_at(const tt_seal *seal, uint64_t place, const uint8_t *plain, size_t count,
                      uint8_t *wire_out);
/* TT_ERR_BAD_WIRE if this is not the block of that place; `plain_out` is then zero, and the thread
 * that drives the link ends the state with tt_seal_fini. */
tt_status tt_open_block_at(const tt_seal *seal, uint64_t place, const uint8_t *wire, size_t count,
                           uint8_t *plain_out);

/* Bytes that follow the sealed head of a frame with `payload_bytes` of payload. */
uint64_t tt_seal_payload_wire_bytes(tt_seal_mode mode, uint32_t payload_bytes);

/* Mode CRC: start with 0, feed the payload as it passes, then write or check the trailer. */
uint32_t tt_seal_crc_add(uint32_t crc, const void *bytes, size_t count);
void tt_seal_crc_encode(uint32_t crc, uint8_t trailer_out[TT_SEAL_CRC_BYTES]);
/* TT_ERR_BAD_WIRE if the trailer differs. */
tt_status tt_seal_crc_check(uint32_t crc, const uint8_t trailer[TT_SEAL_CRC_BYTES]);

#endif
