/* SPDX-License-Identifier: Apache-2.0
 *
 * noise.c - the NNpsk0 handshake, token by token:
 *
 *     -> psk, e      MixKeyAndHash(psk); e; MixHash(e); MixKey(e); EncryptAndHash(payload)
 *     <- e, ee       e; MixHash(e); MixKey(e); MixKey(DH(e, e)); EncryptAndHash(payload)
 *
 * The names MixHash, MixKey and so on are those of the Noise specification, section 5. */
#include "transport/secure/noise.h"

#include <sodium.h>
#include <string.h>

#include "base/assert.h"
#include "base/base.h"

static const char protocol_name[] = "Noise_NNpsk0_25519_ChaChaPoly_SHA256";

_Static_assert(sizeof(protocol_name) - 1 > TT_NOISE_HASH_BYTES, "a long name is hashed");
_Static_assert(TT_NOISE_HASH_BYTES == crypto_hash_sha256_BYTES, "SHA-256");
_Static_assert(TT_NOISE_HASH_BYTES == crypto_auth_hmacsha256_BYTES, "HMAC-SHA-256");
_Static_assert(TT_NOISE_KEY_BYTES == crypto_scalarmult_BYTES, "X25519 point");
_Static_assert(TT_NOISE_KEY_BYTES == crypto_scalarmult_SCALARBYTES, "X25519 scalar");
_Static_assert(TT_NOISE_KEY_BYTES == crypto_aead_chacha20poly1305_ietf_KEYBYTES, "cipher key");
_Static_assert(TT_NOISE_TAG_BYTES == crypto_aead_chacha20poly1305_ietf_ABYTES, "cipher tag");

enum noise_phase {
    PHASE_DEAD, /* zero, so that wiped memory is dead memory */
    PHASE_MESSAGE_1,
    PHASE_MESSAGE_2,
    PHASE_SPLIT,
};

static tt_status noise_refuse(tt_noise *noise, tt_status why)
{
    sodium_memzero(noise, sizeof(*noise));
    return why;
}

static void mix_hash(tt_noise *noise, const uint8_t *bytes, size_t count)
{
    crypto_hash_sha256_state state;

    crypto_hash_sha256_init(&state);
    crypto_hash_sha256_update(&state, noise->hash, sizeof(noise->hash));
    if (count > 0) {
        crypto_hash_sha256_update(&state, bytes, count);
    }
    crypto_hash_sha256_final(&state, noise->hash);
    sodium_memzero(&state, sizeof(state));
}

/* HMAC(key, bytes || suffix); a suffix of 0 is left out: HKDF counts from 1. */
static void hmac(const uint8_t *key, const uint8_t *bytes, size_t count, uint8_t suffix,
                 uint8_t *mac_out)
{
    crypto_auth_hmacsha256_state state;

    crypto_auth_hmacsha256_init(&state, key, TT_NOISE_HASH_BYTES);
    if (count > 0) {
        crypto_auth_hmacsha256_update(&state, bytes, count);
    }
    if (suffix != 0) {
        crypto_auth_hmacsha256_update(&state, &suffix, 1);
    }
    crypto_auth_hmacsha256_final(&state, mac_out);
    sodium_memzero(&state, sizeof(state));
}

/* Noise HKDF: `count` (2 or 3) outputs, one after the other, at `outputs`. */
static void hkdf(const uint8_t *chaining_key, const uint8_t *input, size_t input_bytes,
                 uint8_t (*outputs)[TT_NOISE_HASH_BYTES], uint8_t count)
{
    uint8_t temp_key[TT_NOISE_HASH_BYTES];

    TT_ASSERT(count == 2 || count == 3);
    hmac(chaining_key, input, input_bytes, 0, temp_key);
    hmac(temp_key, NULL, 0, 1, outputs[0]);
    for (uint8_t i = 1; i < count; i++) {
        hmac(temp_key, outputs[i - 1], TT_NOISE_HASH_BYTES, (uint8_t)(i + 1), outputs[i]);
    }
    sodium_memzero(temp_key, sizeof(temp_key));
}

static void set_cipher_key(tt_noise *noise, const uint8_t *key)
{
    memcpy(noise->cipher_key, key, TT_NOISE_KEY_BYTES);
    noise->nonce = 0;
}

static void mix_key(tt_noise *noise, const uint8_t *input)
{
    uint8_t outputs[2][TT_NOISE_HASH_BYTES];

    hkdf(noise->chaining_key, input, TT_NOISE_KEY_BYTES, outputs, 2);
    memcpy(noise->chaining_key, outputs[0], TT_NOISE_HASH_BYTES);
    set_cipher_key(noise, outputs[1]);
    sodium_memzero(outputs, sizeof(outputs));
}

static void mix_psk(tt_noise *noise)
{
    uint8_t outputs[3][TT_NOISE_HASH_BYTES];

    hkdf(noise->chaining_key, noise->psk, TT_NOISE_KEY_BYTES, outputs, 3);
    memcpy(noise->chaining_key, outputs[0], TT_NOISE_HASH_BYTES);
    mix_hash(noise, outputs[1], TT_NOISE_HASH_BYTES);
    set_cipher_key(noise, outputs[2]);
    sodium_memzero(outputs, sizeof(outputs));
    sodium_memzero(noise->psk, sizeof(noise->psk));
}

/* The e token, for both sides: with a psk, a public key is mixed into the key as well. */
static void mix_public(tt_noise *noise, const uint8_t *public_key)
{
    mix_hash(noise, public_key, TT_NOISE_KEY_BYTES);
    mix_key(noise, public_key);
}

/* The ee token. libsodium returns -1 exactly for an all-zero result (2). */
static tt_status mix_shared_secret(tt_noise *noise)
{
    uint8_t shared[TT_NOISE_KEY_BYTES];
    const int result = crypto_scalarmult(shared, noise->ephemeral_secret, noise->peer_public);

    if (result != 0 || sodium_is_zero(shared, sizeof(shared))) {
        sodium_memzero(shared, sizeof(shared));
        return TT_ERR_REFUSED;
    }
    mix_key(noise, shared);
    sodium_memzero(shared, sizeof(shared));
    sodium_memzero(noise->ephemeral_secret, sizeof(noise->ephemeral_secret));
    return TT_OK;
}

static void noise_nonce(const tt_noise *noise, uint8_t *nonce_out)
{
    memset(nonce_out, 0, 4);
    memcpy(nonce_out + 4, &noise->nonce, sizeof(noise->nonce));
}

static void encrypt_and_hash(tt_noise *noise, const uint8_t *payload, size_t payload_bytes,
                             uint8_t *sealed_out)
{
    uint8_t nonce[crypto_aead_chacha20poly1305_ietf_NPUBBYTES];

    noise_nonce(noise, nonce);
    crypto_aead_chacha20poly1305_ietf_encrypt(sealed_out, NULL, payload, payload_bytes, noise->hash,
                                              sizeof(noise->hash), NULL, nonce, noise->cipher_key);
    noise->nonce++;
    mix_hash(noise, sealed_out, payload_bytes + TT_NOISE_TAG_BYTES);
}

static tt_status decrypt_and_hash(tt_noise *noise, const uint8_t *sealed, size_t sealed_bytes,
                                  uint8_t *payload_out)
{
    uint8_t nonce[crypto_aead_chacha20poly1305_ietf_NPUBBYTES];

    noise_nonce(noise, nonce);
    if (crypto_aead_chacha20poly1305_ietf_decrypt(payload_out, NULL, NULL, sealed, sealed_bytes,
                                                  noise->hash, sizeof(noise->hash), nonce,
                                                  noise->cipher_key) != 0) {
        return TT_ERR_REFUSED;
    }
    noise->nonce++;
    mix_hash(noise, sealed, sealed_bytes);
    return TT_OK;
}

/* The initiator writes message 1, the responder message 2. */
static int is_my_turn_to(const tt_noise *noise, tt_noise_role writer_of_message_1)
{
    return (noise->phase == PHASE_MESSAGE_1 && noise->role == writer_of_message_1) ||
           (noise->phase == PHASE_MESSAGE_2 && noise->role != writer_of_message_1);
}

tt_status tt_noise_init(tt_noise *noise, tt_noise_role role, const tt_noise_setup *setup)
{
    TT_ASSERT(setup->psk != NULL);
    TT_ASSERT(setup->random.fill != NULL);
    TT_ASSERT(setup->prologue != NULL || setup->prologue_bytes == 0);
    memset(noise, 0, sizeof(*noise));
    if (sodium_init() < 0) {
        return TT_ERR_NO_RESOURCE;
    }
    noise->random = setup->random;
    noise->role = (uint8_t)role;
    noise->phase = PHASE_MESSAGE_1;
    memcpy(noise->psk, setup->psk, sizeof(noise->psk));
    crypto_hash_sha256(noise->hash, (const uint8_t *)protocol_name, sizeof(protocol_name) - 1);
    memcpy(noise->chaining_key, noise->hash, sizeof(noise->hash));
    mix_hash(noise, setup->prologue, setup->prologue_bytes);
    return TT_OK;
}

void tt_noise_fini(tt_noise *noise)
{
    sodium_memzero(noise, sizeof(*noise));
}

tt_status tt_noise_write(tt_noise *noise, const uint8_t *payload, size_t payload_bytes,
                         uint8_t *message_out)
{
    TT_ASSERT(payload_bytes <= TT_NOISE_PAYLOAD_BYTES_MAX);
    if (!is_my_turn_to(noise, TT_NOISE_INITIATOR)) {
        return noise_refuse(noise, TT_ERR_REFUSED);
    }
    if (noise->phase == PHASE_MESSAGE_1) {
        mix_psk(noise);
    }
    noise->random.fill(noise->random.user, noise->ephemeral_secret, TT_NOISE_KEY_BYTES);
    crypto_scalarmult_base(noise->ephemeral_public, noise->ephemeral_secret);
    memcpy(message_out, noise->ephemeral_public, TT_NOISE_KEY_BYTES);
    mix_public(noise, noise->ephemeral_public);
    if (noise->phase == PHASE_MESSAGE_2 && mix_shared_secret(noise) != TT_OK) {
        return noise_refuse(noise, TT_ERR_REFUSED);
    }
    encrypt_and_hash(noise, payload, payload_bytes, message_out + TT_NOISE_KEY_BYTES);
    noise->phase++;
    return TT_OK;
}

tt_status tt_noise_read(tt_noise *noise, const uint8_t *message, size_t message_bytes,
                        uint8_t *payload_out)
{
    if (!is_my_turn_to(noise, TT_NOISE_RESPONDER)) {
        return noise_refuse(noise, TT_ERR_REFUSED);
    }
    if (message_bytes < TT_NOISE_OVERHEAD_BYTES ||
        message_bytes > TT_NOISE_OVERHEAD_BYTES + TT_NOISE_PAYLOAD_BYTES_MAX) {
        return noise_refuse(noise, TT_ERR_BAD_WIRE);
    }
    if (noise->phase == PHASE_MESSAGE_1) {
        mix_psk(noise);
    }
    memcpy(noise->peer_public, message, TT_NOISE_KEY_BYTES);
    mix_public(noise, noise->peer_public);
    if (noise->phase == PHASE_MESSAGE_2 && mix_shared_secret(noise) != TT_OK) {
        return noise_refuse(noise, TT_ERR_REFUSED);
    }
    if (decrypt_and_hash(noise, message + TT_NOISE_KEY_BYTES, message_bytes - TT_NOISE_KEY_BYTES,
                         payload_out) != TT_OK) {
        return noise_refuse(noise, TT_ERR_REFUSED);
    }
    noise->phase++;
    return TT_OK;
}

tt_status tt_noise_split(tt_noise *noise, tt_noise_keys *keys_out)
{
    uint8_t outputs[2][TT_NOISE_HASH_BYTES];

    if (noise->phase != PHASE_SPLIT) {
        return noise_refuse(noise, TT_ERR_REFUSED);
    }
    const int initiator = noise->role == TT_NOISE_INITIATOR;
    hkdf(noise->chaining_key, NULL, 0, outputs, 2);
    memcpy(keys_out->send, outputs[initiator ? 0 : 1], TT_NOISE_KEY_BYTES);
    memcpy(keys_out->receive, outputs[initiator ? 1 : 0], TT_NOISE_KEY_BYTES);
    memcpy(keys_out->transcript, noise->hash, TT_NOISE_HASH_BYTES);
    sodium_memzero(outputs, sizeof(outputs));
    sodium_memzero(noise, sizeof(*noise));
    return TT_OK;
}
