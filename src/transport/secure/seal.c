/* SPDX-License-Identifier: Apache-2.0
 *
 * seal.c - ChaCha20-Poly1305 (IETF) or AES-256-GCM with counter nonces, and the CRC32C trailer. */
#include "transport/secure/seal.h"

#include <sodium.h>
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "kernel/crc32c.h"

enum {
    SUBKEY_HEAD = 1,
    SUBKEY_PAYLOAD = 2,
    SUBKEY_PAYLOAD_AES = 3,
    SUBKEY_REJECTION = 4,
    NONCE_BYTES = crypto_aead_chacha20poly1305_ietf_NPUBBYTES,
};

static const char subkey_context[crypto_kdf_CONTEXTBYTES + 1] = "TTsealed";

_Static_assert(TT_SEAL_KEY_BYTES == crypto_aead_chacha20poly1305_ietf_KEYBYTES, "cipher key");
_Static_assert(TT_SEAL_KEY_BYTES == crypto_kdf_KEYBYTES, "subkeys are derived from it");
_Static_assert(TT_SEAL_TAG_BYTES == crypto_aead_chacha20poly1305_ietf_ABYTES, "cipher tag");
_Static_assert(TT_SEAL_KEY_BYTES == crypto_aead_aes256gcm_KEYBYTES, "both ciphers alike");
_Static_assert(TT_SEAL_TAG_BYTES == crypto_aead_aes256gcm_ABYTES, "both ciphers alike");
_Static_assert(NONCE_BYTES == crypto_aead_aes256gcm_NPUBBYTES, "both ciphers alike");
_Static_assert(TT_SEAL_AES_STATE_BYTES == sizeof(crypto_aead_aes256gcm_state), "kept as bytes");
_Static_assert(_Alignof(crypto_aead_aes256gcm_state) <= 16, "kept as bytes");
_Static_assert(NONCE_BYTES == 4 + sizeof(uint64_t), "four zero bytes, then the counter");

static void write_nonce(uint64_t count, uint8_t nonce_out[NONCE_BYTES])
{
    memset(nonce_out, 0, 4);
    memcpy(nonce_out + 4, &count, sizeof(count));
}

/* Increments the counter before use: no path can take a count twice. */
static bool take_count(const tt_seal *seal, uint64_t *counter, uint64_t *count_out)
{
    if (!seal->alive || *counter == UINT64_MAX) {
        return false;
    }
    *count_out = (*counter)++;
    return true;
}

static bool take_nonce(tt_seal *seal, uint64_t *counter, uint8_t nonce_out[NONCE_BYTES])
{
    uint64_t count;
    if (!take_count(seal, counter, &count)) {
        return false;
    }
    write_nonce(count, nonce_out);
    return true;
}

static tt_status seal_break(tt_seal *seal)
{
    tt_seal_fini(seal);
    return TT_ERR_BAD_WIRE;
}

bool tt_seal_has_aes(void)
{
    return sodium_init() >= 0 && crypto_aead_aes256gcm_is_available() != 0;
}

/* Keeps the expanded key only. */
static void expand_aes_key(tt_seal *seal, const uint8_t key[TT_SEAL_KEY_BYTES])
{
    uint8_t subkey[TT_SEAL_KEY_BYTES];

    crypto_kdf_derive_from_key(subkey, sizeof(subkey), SUBKEY_PAYLOAD_AES, subkey_context, key);
    crypto_aead_aes256gcm_beforenm((void *)seal->aes_state, subkey);
    sodium_memzero(subkey, sizeof(subkey));
}

static const crypto_aead_aes256gcm_state *aes_state(const tt_seal *seal)
{
    return (const void *)seal->aes_state;
}

tt_status tt_seal_init(tt_seal *seal, const uint8_t key[TT_SEAL_KEY_BYTES])
{
    return tt_seal_init_with(seal, key, TT_SEAL_CHACHA20);
}

tt_status tt_seal_init_with(tt_seal *seal, const uint8_t key[TT_SEAL_KEY_BYTES],
                            tt_seal_cipher cipher)
{
    memset(seal, 0, sizeof(*seal));
    if (sodium_init() < 0) {
        return TT_ERR_NO_RESOURCE;
    }
    seal->cipher = cipher;
    if (cipher == TT_SEAL_AES256) {
        TT_ASSERT(tt_seal_has_aes());
        expand_aes_key(seal, key);
    }
    crypto_kdf_derive_from_key(seal->head_key, sizeof(seal->head_key), SUBKEY_HEAD, subkey_context,
                               key);
    crypto_kdf_derive_from_key(seal->payload_key, sizeof(seal->payload_key), SUBKEY_PAYLOAD,
                               subkey_context, key);
    seal->alive = true;
    return TT_OK;
}

void tt_seal_fini(tt_seal *seal)
{
    sodium_memzero(seal, sizeof(*seal));
}

tt_status tt_seal_head(tt_seal *seal, const uint8_t head[TT_SEAL_HEAD_BYTES],
                       uint8_t sealed_out[TT_SEAL_SEALED_HEAD_BYTES])
{
    uint8_t nonce[NONCE_BYTES];

    if (!take_nonce(seal, &seal->head_counter, nonce)) {
        return TT_ERR_SHUT_DOWN;
    }
    crypto_aead_chacha20poly1305_ietf_encrypt(sealed_out, NULL, head, TT_SEAL_HEAD_BYTES, NULL, 0,
                                              NULL, nonce, seal->head_key);
    return TT_OK;
}

tt_status tt_open_head(tt_seal *seal, const uint8_t sealed[TT_SEAL_SEALED_HEAD_BYTES],
                       uint8_t head_out[TT_SEAL_HEAD_BYTES])
{
    uint8_t nonce[NONCE_BYTES];

    if (!take_nonce(seal, &seal->head_counter, nonce)) {
        memset(head_out, 0, TT_SEAL_HEAD_BYTES);
        return TT_ERR_SHUT_DOWN;
    }
    if (crypto_aead_chacha20poly1305_ietf_decrypt(head_out, NULL, NULL, sealed,
                                                  TT_SEAL_SEALED_HEAD_BYTES, NULL, 0, nonce,
                                                  seal->head_key) != 0) {
        memset(head_out, 0, TT_SEAL_HEAD_BYTES);
        return seal_break(seal);
    }
    return TT_OK;
}

/* A block and its tag, which need not be adjacent. */
typedef struct span {
    const uint8_t *from;
    uint8_t *to;
    size_t count;
} span;

static void encrypt(const tt_seal *seal, uint64_t place, span block, uint8_t *tag_out)
{
    uint8_t nonce[NONCE_BYTES];

    TT_ASSERT(block.count > 0);
    TT_ASSERT(block.count <= TT_SEAL_BLOCK_BYTES_MAX);
    write_nonce(place, nonce);
    if (seal->cipher == TT_SEAL_AES256) {
        crypto_aead_aes256gcm_encrypt_detached_afternm(block.to, tag_out, NULL, block.from,
                                                       block.count, NULL, 0, NULL, nonce,
                                                       aes_state(seal));
    } else {
        crypto_aead_chacha20poly1305_ietf_encrypt_detached(block.to, tag_out, NULL, block.from,
                                                           block.count, NULL, 0, NULL, nonce,
                                                           seal->payload_key);
    }
}

static tt_status decrypt(const tt_seal *seal, uint64_t place, span block, const uint8_t *tag)
{
    uint8_t nonce[NONCE_BYTES];

    TT_ASSERT(block.count > 0);
    TT_ASSERT(block.count <= TT_SEAL_BLOCK_BYTES_MAX);
    write_nonce(place, nonce);
    const int differs =
        seal->cipher == TT_SEAL_AES256
            ? crypto_aead_aes256gcm_decrypt_detached_afternm(
                  block.to, NULL, block.from, block.count, tag, NULL, 0, nonce, aes_state(seal))
            : crypto_aead_chacha20poly1305_ietf_decrypt_detached(
                  block.to, NULL, block.from, block.count, tag, NULL, 0, nonce, seal->payload_key);
    if (differs != 0) {
        memset(block.to, 0, block.count);
        return TT_ERR_BAD_WIRE;
    }
    return TT_OK;
}

tt_status tt_seal_take_place(tt_seal *seal, uint64_t *place_out)
{
    return take_count(seal, &seal->payload_counter, place_out) ? TT_OK : TT_ERR_SHUT_DOWN;
}

void tt_seal_block_at(const tt_seal *seal, uint64_t place, const uint8_t *plain, size_t count,
                      uint8_t *wire_out)
{
    encrypt(seal, place, (span){.from = plain, .to = wire_out, .count = count}, wire_out + count);
}

tt_status tt_open_block_at(const tt_seal *seal, uint64_t place, const uint8_t *wire, size_t count,
                           uint8_t *plain_out)
{
    return decrypt(seal, place, (span){.from = wire, .to = plain_out, .count = count},
                   wire + count);
}

tt_status tt_seal_payload_block(tt_seal *seal, const uint8_t *plain, size_t count,
                                uint8_t *sealed_out, uint8_t tag_out[TT_SEAL_TAG_BYTES])
{
    uint64_t place;
    TT_TRY(tt_seal_take_place(seal, &place));
    encrypt(seal, place, (span){.from = plain, .to = sealed_out, .count = count}, tag_out);
    return TT_OK;
}

tt_status tt_open_payload_block(tt_seal *seal, const uint8_t *sealed, size_t count,
                                const uint8_t tag[TT_SEAL_TAG_BYTES], uint8_t *plain_out)
{
    uint64_t place;
    const tt_status status = tt_seal_take_place(seal, &place);
    if (status != TT_OK) {
        memset(plain_out, 0, count);
        return status;
    }
    if (decrypt(seal, place, (span){.from = sealed, .to = plain_out, .count = count}, tag) !=
        TT_OK) {
        return seal_break(seal);
    }
    return TT_OK;
}

void tt_seal_rejection(const uint8_t key[TT_SEAL_KEY_BYTES],
                       uint8_t rejection_out[TT_SEAL_REJECTION_BYTES])
{
    crypto_kdf_derive_from_key(rejection_out, TT_SEAL_REJECTION_BYTES, SUBKEY_REJECTION,
                               subkey_context, key);
}

uint64_t tt_seal_payload_wire_bytes(tt_seal_mode mode, uint32_t payload_bytes)
{
    const uint64_t bytes = payload_bytes;
    const uint64_t blocks = (bytes + TT_SEAL_BLOCK_BYTES_MAX - 1) / TT_SEAL_BLOCK_BYTES_MAX;

    switch (mode) {
    case TT_SEAL_CRC:
        return bytes == 0 ? 0 : bytes + TT_SEAL_CRC_BYTES;
    case TT_SEAL_AEAD:
        return bytes + blocks * TT_SEAL_TAG_BYTES;
    case TT_SEAL_NONE:
        break;
    }
    return bytes;
}

uint32_t tt_seal_crc_add(uint32_t crc, const void *bytes, size_t count)
{
    return tt_crc32c(crc, bytes, count);
}

void tt_seal_crc_encode(uint32_t crc, uint8_t trailer_out[TT_SEAL_CRC_BYTES])
{
    memcpy(trailer_out, &crc, TT_SEAL_CRC_BYTES);
}

tt_status tt_seal_crc_check(uint32_t crc, const uint8_t trailer[TT_SEAL_CRC_BYTES])
{
    return memcmp(&crc, trailer, TT_SEAL_CRC_BYTES) == 0 ? TT_OK : TT_ERR_BAD_WIRE;
}
