/* SPDX-License-Identifier: Apache-2.0
 *
 * Goal: the layouts are the documented ones, and no field leaves its range.
 * Method: golden bytes, then each field set to its limits and one beyond. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "transport/secure/hello.h"

static tt_hello sample(void)
{
    return (tt_hello){.role = TT_HELLO_LINK_SEND,
                      .rank = 772,
                      .world_size = 1000,
                      .incarnation = 0x1122334455667788,
                      .features = 0x99,
                      .library = "0.1.0"};
}

static tt_hello_refusal decode_changed(size_t offset, uint64_t value, size_t value_bytes)
{
    const tt_hello hello = sample();
    uint8_t bytes[TT_HELLO_PAYLOAD_BYTES];
    tt_hello decoded;

    tt_hello_encode(&hello, bytes);
    memcpy(bytes + offset, &value, value_bytes);
    return tt_hello_decode(bytes, &decoded);
}

static void test_an_opening_has_the_documented_bytes(void **state)
{
    const tt_hello_clear clear = {
        .kind = TT_HELLO_OPENING, .version_min = 1, .version_max = 0x203, .fingerprint = {0xaa}};
    const uint8_t expected[TT_HELLO_OPENING_BYTES] = {'T', 'U', 'T', 'T', 'I', 0, 'H', 'I', 1,
                                                      0,   3,   2,   0,   0,   0, 0,   0xaa};
    uint8_t bytes[TT_HELLO_OPENING_BYTES];
    tt_hello_clear decoded;

    (void)state;
    tt_hello_clear_encode(&clear, bytes);
    assert_memory_equal(bytes, expected, sizeof(expected));
    assert_int_equal(tt_hello_opening_decode(bytes, &decoded), TT_REFUSAL_NONE);
    assert_int_equal(decoded.version_max, 0x203);
    assert_int_equal(tt_hello_answer_decode(bytes, &decoded), TT_REFUSAL_BAD_MAGIC);
    bytes[8] = 0;
    assert_int_equal(tt_hello_opening_decode(bytes, &decoded), TT_REFUSAL_MALFORMED);
    bytes[8] = 1;
    bytes[15] = 1;
    assert_int_equal(tt_hello_opening_decode(bytes, &decoded), TT_REFUSAL_MALFORMED);
}

static void test_a_payload_round_trips(void **state)
{
    const tt_hello hello = sample();
    uint8_t bytes[TT_HELLO_PAYLOAD_BYTES];
    tt_hello decoded;

    (void)state;
    tt_hello_encode(&hello, bytes);
    assert_int_equal(bytes[16], 0x88);
    assert_int_equal(bytes[32], '0');
    assert_int_equal(tt_hello_decode(bytes, &decoded), TT_REFUSAL_NONE);
    assert_int_equal(decoded.rank, hello.rank);
    assert_int_equal(decoded.world_size, hello.world_size);
    assert_int_equal(decoded.incarnation, hello.incarnation);
    assert_int_equal(decoded.features, hello.features);
    assert_string_equal(decoded.library, hello.library);
}

static void test_every_field_is_kept_in_its_range(void **state)
{
    (void)state;
    assert_int_equal(decode_changed(0, TT_HELLO_LOCAL, 1), TT_REFUSAL_NONE);
    assert_int_equal(decode_changed(0, 0, 1), TT_REFUSAL_MALFORMED);
    assert_int_equal(decode_changed(0, TT_HELLO_LOCAL + 1, 1), TT_REFUSAL_MALFORMED);
    assert_int_equal(decode_changed(1, TT_REFUSAL_CLOSED + 1, 1), TT_REFUSAL_MALFORMED);
    assert_int_equal(decode_changed(4, 999, 4), TT_REFUSAL_NONE);
    assert_int_equal(decode_changed(4, 1000, 4), TT_REFUSAL_MALFORMED);
    assert_int_equal(decode_changed(4, TT_HELLO_RANK_UNKNOWN, 4), TT_REFUSAL_MALFORMED);
    assert_int_equal(decode_changed(8, TT_HELLO_WORLD_SIZE_MAX, 4), TT_REFUSAL_NONE);
    assert_int_equal(decode_changed(8, TT_HELLO_WORLD_SIZE_MAX + 1, 4), TT_REFUSAL_MALFORMED);
    assert_int_equal(decode_changed(8, 0, 4), TT_REFUSAL_MALFORMED);
    assert_int_equal(decode_changed(12, 1, 4), TT_REFUSAL_MALFORMED);
    assert_int_equal(decode_changed(16, UINT64_MAX, 8), TT_REFUSAL_MALFORMED);
    assert_int_equal(decode_changed(24, UINT64_MAX, 8), TT_REFUSAL_NONE);
}

static void test_library_text_cannot_carry_control_bytes(void **state)
{
    (void)state;
    assert_int_equal(decode_changed(32, '\n', 1), TT_REFUSAL_MALFORMED);
    assert_int_equal(decode_changed(32, 0x7f, 1), TT_REFUSAL_MALFORMED);
    assert_int_equal(decode_changed(32, 0x80, 1), TT_REFUSAL_MALFORMED);
    assert_int_equal(decode_changed(47, 'x', 1), TT_REFUSAL_MALFORMED); /* after the end */
    assert_int_equal(decode_changed(37, 0x6161616161616161, 8), TT_REFUSAL_NONE);
}

static void test_the_highest_common_version_is_chosen(void **state)
{
    const tt_hello_clear a = {.version_min = 2, .version_max = 5};
    const tt_hello_clear b = {.version_min = 1, .version_max = 3};
    const tt_hello_clear c = {.version_min = 6, .version_max = 6};

    (void)state;
    assert_int_equal(tt_hello_common_version(&a, &b), 3);
    assert_int_equal(tt_hello_common_version(&b, &a), 3);
    assert_int_equal(tt_hello_common_version(&a, &c), 0);
}

static void test_fingerprints_of_two_jobs_differ(void **state)
{
    uint8_t a[TT_HELLO_FINGERPRINT_BYTES];
    uint8_t b[TT_HELLO_FINGERPRINT_BYTES];

    (void)state;
    tt_hello_fingerprint("job 1", a);
    tt_hello_fingerprint("job 2", b);
    assert_memory_not_equal(a, b, sizeof(a));
    tt_hello_fingerprint("job 1", b);
    assert_memory_equal(a, b, sizeof(a));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_opening_has_the_documented_bytes),
        cmocka_unit_test(test_a_payload_round_trips),
        cmocka_unit_test(test_every_field_is_kept_in_its_range),
        cmocka_unit_test(test_library_text_cannot_carry_control_bytes),
        cmocka_unit_test(test_the_highest_common_version_is_chosen),
        cmocka_unit_test(test_fingerprints_of_two_jobs_differ),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
