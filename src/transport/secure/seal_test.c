/* SPDX-License-Identifier: Apache-2.0
 *
 * Goal: only the strictly next head or block of the right direction opens.
 * Method: a sender and a receiver per direction; sealed bytes are recorded and replayed wrongly. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <sodium.h>

#include "base/base.h"
#include "transport/secure/seal.h"

static const uint8_t key_a[TT_SEAL_KEY_BYTES] = {10};
static const uint8_t key_b[TT_SEAL_KEY_BYTES] = {11};

typedef struct direction {
    tt_seal sender;
    tt_seal receiver;
    uint8_t head[3][TT_SEAL_HEAD_BYTES];
    uint8_t sealed[3][TT_SEAL_SEALED_HEAD_BYTES];
    uint8_t opened[TT_SEAL_HEAD_BYTES];
} direction;

static void start_with(direction *d, tt_seal_cipher cipher)
{
    assert_int_equal(tt_seal_init_with(&d->sender, key_a, cipher), TT_OK);
    assert_int_equal(tt_seal_init_with(&d->receiver, key_a, cipher), TT_OK);
    for (uint8_t i = 0; i < 3; i++) {
        memset(d->head[i], 0x40 + i, TT_SEAL_HEAD_BYTES);
        assert_int_equal(tt_seal_head(&d->sender, d->head[i], d->sealed[i]), TT_OK);
    }
    memset(d->opened, 0xee, sizeof(d->opened));
}

static void start(direction *d)
{
    start_with(d, TT_SEAL_CHACHA20);
}

static void assert_broken(direction *d)
{
    assert_true(sodium_is_zero((const uint8_t *)&d->receiver, sizeof(d->receiver)));
    assert_true(sodium_is_zero(d->opened, sizeof(d->opened)));
    assert_int_equal(tt_open_head(&d->receiver, d->sealed[0], d->opened), TT_ERR_SHUT_DOWN);
}

static void test_heads_open_in_order(void **state)
{
    direction d;

    (void)state;
    start(&d);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(tt_open_head(&d.receiver, d.sealed[i], d.opened), TT_OK);
        assert_memory_equal(d.opened, d.head[i], TT_SEAL_HEAD_BYTES);
    }
}

static void test_equal_heads_do_not_look_equal(void **state)
{
    direction d;
    uint8_t again[TT_SEAL_SEALED_HEAD_BYTES];

    (void)state;
    start(&d);
    assert_int_equal(tt_seal_head(&d.sender, d.head[0], again), TT_OK);
    assert_memory_not_equal(again, d.sealed[0], sizeof(again));
}

static void test_a_replayed_head_breaks_the_link(void **state)
{
    direction d;

    (void)state;
    start(&d);
    assert_int_equal(tt_open_head(&d.receiver, d.sealed[0], d.opened), TT_OK);
    assert_int_equal(tt_open_head(&d.receiver, d.sealed[0], d.opened), TT_ERR_BAD_WIRE);
    assert_broken(&d);
}

static void test_a_reordered_head_breaks_the_link(void **state)
{
    direction d;

    (void)state;
    start(&d);
    assert_int_equal(tt_open_head(&d.receiver, d.sealed[1], d.opened), TT_ERR_BAD_WIRE);
    assert_broken(&d);
}

static void test_a_reflected_head_breaks_the_link(void **state)
{
    direction d;

    (void)state;
    start(&d);
    assert_int_equal(tt_seal_init(&d.receiver, key_b), TT_OK);
    assert_int_equal(tt_open_head(&d.receiver, d.sealed[0], d.opened), TT_ERR_BAD_WIRE);
    assert_broken(&d);
}

static void test_every_bit_of_a_head_is_protected(void **state)
{
    direction d;

    (void)state;
    start(&d);
    for (size_t bit = 0; bit < 8 * TT_SEAL_SEALED_HEAD_BYTES; bit++) {
        uint8_t bytes[TT_SEAL_SEALED_HEAD_BYTES];
        memcpy(bytes, d.sealed[0], sizeof(bytes));
        bytes[bit / 8] ^= (uint8_t)(1U << bit % 8);
        assert_int_equal(tt_seal_init(&d.receiver, key_a), TT_OK);
        assert_int_equal(tt_open_head(&d.receiver, bytes, d.opened), TT_ERR_BAD_WIRE);
        assert_broken(&d);
    }
}

static void test_the_last_counter_is_never_used(void **state)
{
    direction d;

    (void)state;
    start(&d);
    d.sender.head_counter = UINT64_MAX - 1;
    assert_int_equal(tt_seal_head(&d.sender, d.head[0], d.sealed[0]), TT_OK);
    assert_int_equal(tt_seal_head(&d.sender, d.head[0], d.sealed[0]), TT_ERR_SHUT_DOWN);
    assert_int_equal(tt_seal_head(&d.sender, d.head[0], d.sealed[0]), TT_ERR_SHUT_DOWN);
}

static void blocks_round_trip(tt_seal_cipher cipher)
{
    static const size_t counts[] = {1, 63, 64, 65, 4096, TT_SEAL_BLOCK_BYTES_MAX};
    static uint8_t plain[TT_SEAL_BLOCK_BYTES_MAX];
    static uint8_t bytes[TT_SEAL_BLOCK_BYTES_MAX];
    uint8_t tag[TT_SEAL_TAG_BYTES];
    direction d;

    start_with(&d, cipher);
    for (size_t i = 0; i < TT_ARRAY_COUNT(counts); i++) {
        memset(plain, (int)i + 1, counts[i]);
        memcpy(bytes, plain, counts[i]);
        assert_int_equal(tt_seal_payload_block(&d.sender, bytes, counts[i], bytes, tag), TT_OK);
        assert_memory_not_equal(bytes, plain, counts[i]);
        assert_int_equal(tt_open_payload_block(&d.receiver, bytes, counts[i], tag, bytes), TT_OK);
        assert_memory_equal(bytes, plain, counts[i]);
    }
}

static void changed_blocks_break(tt_seal_cipher cipher)
{
    uint8_t plain[100] = {9};
    uint8_t bytes[100];
    uint8_t opened[100];
    uint8_t tag[TT_SEAL_TAG_BYTES];
    direction d;

    start_with(&d, cipher);
    assert_int_equal(tt_seal_payload_block(&d.sender, plain, 100, bytes, tag), TT_OK);
    for (size_t byte = 0; byte < sizeof(bytes) + sizeof(tag); byte++) {
        uint8_t *target = byte < sizeof(bytes) ? bytes + byte : tag + (byte - sizeof(bytes));
        assert_int_equal(tt_seal_init_with(&d.receiver, key_a, cipher), TT_OK);
        *target ^= 0x10;
        assert_int_equal(tt_open_payload_block(&d.receiver, bytes, 100, tag, opened),
                         TT_ERR_BAD_WIRE);
        assert_true(sodium_is_zero(opened, sizeof(opened)));
        *target ^= 0x10;
    }
    assert_int_equal(tt_seal_init_with(&d.receiver, key_a, cipher), TT_OK);
    assert_int_equal(tt_open_payload_block(&d.receiver, bytes, 100, tag, opened), TT_OK);
    assert_int_equal(tt_open_payload_block(&d.receiver, bytes, 100, tag, opened), TT_ERR_BAD_WIRE);
    assert_int_equal(tt_seal_init_with(&d.receiver, key_a, cipher), TT_OK);
    assert_int_equal(tt_open_payload_block(&d.receiver, bytes, 99, tag, opened), TT_ERR_BAD_WIRE);
}

static void test_blocks_of_every_kind_of_length_round_trip_in_place(void **state)
{
    (void)state;
    blocks_round_trip(TT_SEAL_CHACHA20);
    if (tt_seal_has_aes()) {
        blocks_round_trip(TT_SEAL_AES256);
    }
}

static void test_a_changed_or_repeated_block_breaks_the_link(void **state)
{
    (void)state;
    changed_blocks_break(TT_SEAL_CHACHA20);
    if (tt_seal_has_aes()) {
        changed_blocks_break(TT_SEAL_AES256);
    }
}

/* One key, one counter, two ciphers: neither opens what the other sealed. */
static void test_ends_that_differ_in_the_cipher_break_the_link(void **state)
{
    uint8_t plain[100] = {9};
    uint8_t bytes[100];
    uint8_t tag[TT_SEAL_TAG_BYTES];
    direction d;

    (void)state;
    if (!tt_seal_has_aes()) {
        skip();
    }
    start_with(&d, TT_SEAL_AES256);
    assert_int_equal(tt_seal_init(&d.receiver, key_a), TT_OK);
    assert_int_equal(tt_seal_payload_block(&d.sender, plain, 100, bytes, tag), TT_OK);
    assert_int_equal(tt_open_payload_block(&d.receiver, bytes, 100, tag, bytes), TT_ERR_BAD_WIRE);
    assert_true(sodium_is_zero((const uint8_t *)&d.receiver, sizeof(d.receiver)));
}

static void test_a_head_cannot_pass_as_a_block(void **state)
{
    uint8_t opened[TT_SEAL_HEAD_BYTES];
    direction d;

    (void)state;
    start(&d);
    assert_int_equal(tt_open_payload_block(&d.receiver, d.sealed[0], TT_SEAL_HEAD_BYTES,
                                           d.sealed[0] + TT_SEAL_HEAD_BYTES, opened),
                     TT_ERR_BAD_WIRE);
}

static void test_the_crc_is_crc32c_and_finds_a_flip(void **state)
{
    uint8_t text[] = "123456789";
    uint8_t trailer[TT_SEAL_CRC_BYTES];

    (void)state;
    const uint32_t crc = tt_seal_crc_add(tt_seal_crc_add(0, text, 4), text + 4, 5);
    assert_int_equal(crc, 0xe3069283U);
    tt_seal_crc_encode(crc, trailer);
    assert_int_equal(tt_seal_crc_check(crc, trailer), TT_OK);
    text[3] ^= 1;
    assert_int_equal(tt_seal_crc_check(tt_seal_crc_add(0, text, 9), trailer), TT_ERR_BAD_WIRE);
}

static void test_wire_bytes_count_trailers_and_tags(void **state)
{
    (void)state;
    assert_int_equal(tt_seal_payload_wire_bytes(TT_SEAL_NONE, 5), 5);
    assert_int_equal(tt_seal_payload_wire_bytes(TT_SEAL_CRC, 0), 0);
    assert_int_equal(tt_seal_payload_wire_bytes(TT_SEAL_CRC, 5), 9);
    assert_int_equal(tt_seal_payload_wire_bytes(TT_SEAL_AEAD, 0), 0);
    assert_int_equal(tt_seal_payload_wire_bytes(TT_SEAL_AEAD, 65536), 65552);
    assert_int_equal(tt_seal_payload_wire_bytes(TT_SEAL_AEAD, 65537), 65569);
    assert_true(tt_seal_payload_wire_bytes(TT_SEAL_AEAD, UINT32_MAX) > UINT32_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heads_open_in_order),
        cmocka_unit_test(test_equal_heads_do_not_look_equal),
        cmocka_unit_test(test_a_replayed_head_breaks_the_link),
        cmocka_unit_test(test_a_reordered_head_breaks_the_link),
        cmocka_unit_test(test_a_reflected_head_breaks_the_link),
        cmocka_unit_test(test_every_bit_of_a_head_is_protected),
        cmocka_unit_test(test_the_last_counter_is_never_used),
        cmocka_unit_test(test_blocks_of_every_kind_of_length_round_trip_in_place),
        cmocka_unit_test(test_ends_that_differ_in_the_cipher_break_the_link),
        cmocka_unit_test(test_a_changed_or_repeated_block_breaks_the_link),
        cmocka_unit_test(test_a_head_cannot_pass_as_a_block),
        cmocka_unit_test(test_the_crc_is_crc32c_and_finds_a_flip),
        cmocka_unit_test(test_wire_bytes_count_trailers_and_tags),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
