/* SPDX-License-Identifier: Apache-2.0
 *
 * bid_test.c - a malformed claim of a peer is refused as a whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "control/named/name.h"

enum { HEAD_BYTES = 8, DIGEST_BYTES = 8 };

/* A group's claim by digest, of a member that objects: count, status, digest, text. */
static size_t objection_write(uint8_t *bytes, uint32_t count, int32_t status, const char *words)
{
    memset(bytes, 0, HEAD_BYTES + DIGEST_BYTES);
    memcpy(bytes, &count, sizeof(count));
    memcpy(bytes + 4, &status, sizeof(status));
    memcpy(bytes + HEAD_BYTES + DIGEST_BYTES, words, strlen(words));
    return HEAD_BYTES + DIGEST_BYTES + strlen(words);
}

static const uint32_t ONE_BY_DIGEST = UINT32_C(1) | UINT32_C(1) << 31;

static void test_an_objection_is_read(void **state)
{
    (void)state;
    uint8_t bytes[64];
    tt_bid bid;
    const size_t length = objection_write(bytes, ONE_BY_DIGEST, TT_ERR_BAD_ARGUMENT, "why");
    assert_true(tt_bid_read(&bid, bytes, length));
    assert_int_equal(bid.objection, TT_ERR_BAD_ARGUMENT);
    assert_int_equal(bid.text_bytes, 3);
    assert_memory_equal(bid.text, "why", 3);
}

/* The coordinator must return a status that all members accept. */
static void test_an_invalid_status_is_refused(void **state)
{
    (void)state;
    uint8_t bytes[64];
    tt_bid bid;
    const int32_t statuses[] = {1, TT_JUDGED_LOWEST, -40, -64, INT32_MIN};
    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
        const size_t length = objection_write(bytes, ONE_BY_DIGEST, statuses[i], "why");
        assert_false(tt_bid_read(&bid, bytes, length));
    }
}

static void test_a_truncated_claim_is_refused(void **state)
{
    (void)state;
    uint8_t bytes[64];
    tt_bid bid;
    (void)objection_write(bytes, ONE_BY_DIGEST, TT_ERR_MISMATCH, "");
    for (size_t length = 0; length < HEAD_BYTES + DIGEST_BYTES; length++) {
        assert_false(tt_bid_read(&bid, bytes, length));
    }
    (void)objection_write(bytes, 0, TT_ERR_MISMATCH, "");
    assert_false(tt_bid_read(&bid, bytes, HEAD_BYTES + DIGEST_BYTES));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_objection_is_read),
        cmocka_unit_test(test_an_invalid_status_is_refused),
        cmocka_unit_test(test_a_truncated_claim_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
