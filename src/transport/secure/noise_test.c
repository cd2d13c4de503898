/* SPDX-License-Identifier: Apache-2.0
 *
 * Goal: the handshake is the published Noise_NNpsk0_25519_ChaChaPoly_SHA256 and refuses the rest.
 * Method: the public cacophony vector of that name (prologue, psk, both ephemerals, six
 * messages), byte for byte in both roles; then every truncation and every bit flip. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <sodium.h>

#include "base/base.h"
#include "transport/secure/noise.h"

#define MESSAGE_BYTES_MAX 128

static const char prologue_hex[] = "4a6f686e2047616c74";
static const char psk_hex[] = "54686973206973206d7920417573747269616e20706572737065637469766521";
static const char initiator_hex[] =
    "893e28b9dc6ca8d611ab664754b8ceb7bac5117349a4439a6b0569da977c464a";
static const char responder_hex[] =
    "bbdb4cdbd309f1a1f2e1456967fe288cadd6f712d65dc7b7793d5e63da6b375b";

typedef struct vector_message {
    const char *payload;
    const char *message;
} vector_message;

static const vector_message vector[] = {
    {"4c756477696720766f6e204d69736573",
     "ca35def5ae56cec33dc2036731ab14896bc4c75dbb07a61f879f8e3afa4c7944"
     "79b962b8aff8485742ac32f905ba45369e2465fb59e138a93d67a0d1266b6a54"},
    {"4d757272617920526f746862617264",
     "95ebc60d2b1fa672c1f46a8aa265ef51bfe38e7ccb39ec5be34069f144808843"
     "d6062704d5a9c422a8e834423f8c1feada7e8d0d910a1a2cd030fb584221e3"},
    {"462e20412e20486179656b", "e632c3763d7669067383433197a3baddf146e9e70ad4b4e9e59e0f"},
    {"4361726c204d656e676572", "64c6bee32ea91c8474bb4c21d7a700109ad45af77b29764ba5eb1e"},
    {"4a65616e2d426170746973746520536179",
     "e2fa0bed0603b62d3ccac2ecabbf3fe33f3e86514909b323361626266cb2471cc8"},
    {"457567656e2042f6686d20766f6e2042617765726b",
     "0c01dc9cec1fe4ddd692e8dd32188aa351088dc91183639a53b57aa4692b5ebdef8b8ca111"},
};

static size_t from_hex(const char *hex, uint8_t *bytes)
{
    size_t count = 0;

    assert_int_equal(sodium_hex2bin(bytes, MESSAGE_BYTES_MAX, hex, strlen(hex), NULL, &count, NULL),
                     0);
    return count;
}

/* "Randomness" that is the ephemeral secret of the vector. */
static void fill_from_hex(void *user, uint8_t *bytes, size_t count)
{
    uint8_t secret[MESSAGE_BYTES_MAX];

    assert_int_equal(from_hex(user, secret), count);
    memcpy(bytes, secret, count);
}

static void start(tt_noise *noise, tt_noise_role role)
{
    uint8_t psk[MESSAGE_BYTES_MAX];
    uint8_t prologue[MESSAGE_BYTES_MAX];
    const char *secret = role == TT_NOISE_INITIATOR ? initiator_hex : responder_hex;

    assert_int_equal(from_hex(psk_hex, psk), TT_NOISE_KEY_BYTES);
    const tt_noise_setup setup = {
        .psk = psk,
        .prologue = prologue,
        .prologue_bytes = from_hex(prologue_hex, prologue),
        .random = {.fill = fill_from_hex, .user = (void *)(uintptr_t)secret},
    };
    assert_int_equal(tt_noise_init(noise, role, &setup), TT_OK);
}

/* `writer` must produce the vector's bytes, `reader` must recover its payload. */
static void pass_vector_message(tt_noise *writer, tt_noise *reader, const vector_message *expected)
{
    uint8_t payload[MESSAGE_BYTES_MAX];
    uint8_t message[MESSAGE_BYTES_MAX];
    uint8_t produced[MESSAGE_BYTES_MAX];
    uint8_t recovered[MESSAGE_BYTES_MAX];
    const size_t payload_bytes = from_hex(expected->payload, payload);
    const size_t message_bytes = from_hex(expected->message, message);

    assert_int_equal(message_bytes, payload_bytes + TT_NOISE_OVERHEAD_BYTES);
    assert_int_equal(tt_noise_write(writer, payload, payload_bytes, produced), TT_OK);
    assert_memory_equal(produced, message, message_bytes);
    assert_int_equal(tt_noise_read(reader, produced, message_bytes, recovered), TT_OK);
    assert_memory_equal(recovered, payload, payload_bytes);
}

static void check_transport_message(const uint8_t *key, uint8_t counter,
                                    const vector_message *expected)
{
    uint8_t payload[MESSAGE_BYTES_MAX];
    uint8_t message[MESSAGE_BYTES_MAX];
    uint8_t produced[MESSAGE_BYTES_MAX];
    const uint8_t nonce[12] = {0, 0, 0, 0, counter};
    const size_t payload_bytes = from_hex(expected->payload, payload);
    const size_t message_bytes = from_hex(expected->message, message);

    crypto_aead_chacha20poly1305_ietf_encrypt(produced, NULL, payload, payload_bytes, NULL, 0, NULL,
                                              nonce, key);
    assert_memory_equal(produced, message, message_bytes);
}

static void test_handshake_and_keys_match_the_public_vector(void **state)
{
    tt_noise initiator;
    tt_noise responder;
    tt_noise_keys initiator_keys;
    tt_noise_keys responder_keys;

    (void)state;
    start(&initiator, TT_NOISE_INITIATOR);
    start(&responder, TT_NOISE_RESPONDER);
    pass_vector_message(&initiator, &responder, &vector[0]);
    pass_vector_message(&responder, &initiator, &vector[1]);
    assert_int_equal(tt_noise_split(&initiator, &initiator_keys), TT_OK);
    assert_int_equal(tt_noise_split(&responder, &responder_keys), TT_OK);
    assert_memory_equal(initiator_keys.send, responder_keys.receive, TT_NOISE_KEY_BYTES);
    assert_memory_equal(initiator_keys.receive, responder_keys.send, TT_NOISE_KEY_BYTES);
    assert_memory_equal(initiator_keys.transcript, responder_keys.transcript, TT_NOISE_HASH_BYTES);
    check_transport_message(initiator_keys.send, 0, &vector[2]);
    check_transport_message(responder_keys.send, 0, &vector[3]);
    check_transport_message(initiator_keys.send, 1, &vector[4]);
    check_transport_message(responder_keys.send, 1, &vector[5]);
}

/* A responder fed `message` must refuse, wipe its state and leave no payload behind. */
static void refuse_message_1(const uint8_t *message, size_t message_bytes)
{
    tt_noise responder;
    uint8_t recovered[MESSAGE_BYTES_MAX];

    memset(recovered, 0, sizeof(recovered));
    start(&responder, TT_NOISE_RESPONDER);
    assert_true(tt_noise_read(&responder, message, message_bytes, recovered) < 0);
    assert_true(sodium_is_zero((const uint8_t *)&responder, sizeof(responder)));
    assert_true(sodium_is_zero(recovered, sizeof(recovered)));
    assert_int_equal(tt_noise_write(&responder, NULL, 0, recovered), TT_ERR_REFUSED);
}

static void refuse_message_2(const uint8_t *message, size_t message_bytes)
{
    tt_noise initiator;
    uint8_t scratch[MESSAGE_BYTES_MAX];

    start(&initiator, TT_NOISE_INITIATOR);
    const size_t payload_bytes = from_hex(vector[0].payload, scratch);
    uint8_t first[MESSAGE_BYTES_MAX];
    assert_int_equal(tt_noise_write(&initiator, scratch, payload_bytes, first), TT_OK);
    memset(scratch, 0, sizeof(scratch));
    assert_true(tt_noise_read(&initiator, message, message_bytes, scratch) < 0);
    assert_true(sodium_is_zero((const uint8_t *)&initiator, sizeof(initiator)));
    assert_true(sodium_is_zero(scratch, sizeof(scratch)));
}

static void test_every_truncation_is_refused(void **state)
{
    uint8_t message[MESSAGE_BYTES_MAX];

    (void)state;
    const size_t first_bytes = from_hex(vector[0].message, message);
    for (size_t count = 0; count < first_bytes; count++) {
        refuse_message_1(message, count);
    }
    const size_t second_bytes = from_hex(vector[1].message, message);
    for (size_t count = 0; count < second_bytes; count++) {
        refuse_message_2(message, count);
    }
}

static void test_every_bit_flip_is_refused(void **state)
{
    uint8_t message[MESSAGE_BYTES_MAX];

    (void)state;
    const size_t first_bits = 8 * from_hex(vector[0].message, message);
    for (size_t bit = 0; bit < first_bits; bit++) {
        message[bit / 8] ^= (uint8_t)(1U << bit % 8);
        refuse_message_1(message, first_bits / 8);
        message[bit / 8] ^= (uint8_t)(1U << bit % 8);
    }
    const size_t second_bits = 8 * from_hex(vector[1].message, message);
    for (size_t bit = 0; bit < second_bits; bit++) {
        message[bit / 8] ^= (uint8_t)(1U << bit % 8);
        refuse_message_2(message, second_bits / 8);
        message[bit / 8] ^= (uint8_t)(1U << bit % 8);
    }
}

static void test_a_reflected_message_is_refused(void **state)
{
    uint8_t message[MESSAGE_BYTES_MAX];

    (void)state;
    const size_t count = from_hex(vector[0].message, message);
    refuse_message_2(message, count);
}

/* A peer that knows the key but offers the zero point must not force a known shared secret. */
static void test_a_low_order_public_key_is_refused(void **state)
{
    tt_noise responder;
    uint8_t message[MESSAGE_BYTES_MAX] = {0};
    uint8_t payload[MESSAGE_BYTES_MAX];

    (void)state;
    start(&responder, TT_NOISE_RESPONDER);
    memset(responder.peer_public, 0, sizeof(responder.peer_public));
    responder.phase = 2; /* as if message 1 had carried the zero point */
    assert_int_equal(tt_noise_write(&responder, message, 4, payload), TT_ERR_REFUSED);
    assert_true(sodium_is_zero((const uint8_t *)&responder, sizeof(responder)));
}

static void test_calls_out_of_turn_are_refused(void **state)
{
    tt_noise noise;
    tt_noise_keys keys;
    uint8_t bytes[MESSAGE_BYTES_MAX] = {0};

    (void)state;
    start(&noise, TT_NOISE_RESPONDER);
    assert_int_equal(tt_noise_write(&noise, bytes, 0, bytes), TT_ERR_REFUSED);
    start(&noise, TT_NOISE_INITIATOR);
    assert_int_equal(tt_noise_read(&noise, bytes, 64, bytes), TT_ERR_REFUSED);
    start(&noise, TT_NOISE_INITIATOR);
    assert_int_equal(tt_noise_split(&noise, &keys), TT_ERR_REFUSED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_handshake_and_keys_match_the_public_vector),
        cmocka_unit_test(test_every_truncation_is_refused),
        cmocka_unit_test(test_every_bit_flip_is_refused),
        cmocka_unit_test(test_a_reflected_message_is_refused),
        cmocka_unit_test(test_a_low_order_public_key_is_refused),
        cmocka_unit_test(test_calls_out_of_turn_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
