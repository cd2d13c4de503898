/* SPDX-License-Identifier: Apache-2.0
 *
 * Goal: format writes back every form that parse accepts; errors quote the text they refuse. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "launch/rendezvous.h"

static void test_accepted_forms_round_trip(void **state)
{
    (void)state;
    static const char *const forms[] = {
        "tcp://node7:29501",
        "tcp://10.0.0.7:1-65535",
        "tcp://[::1]:65535",
        "tcp://[fe80::1%eth0]:29501",
        "tcp://a.b-c_d:7-9",
        "file:///shared/job 17",
        "pmi:",
        "none",
    };
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        tt_launch_rendezvous rendezvous;
        tt_launch_why why = {""};
        char text[TT_LAUNCH_RENDEZVOUS_TEXT_BYTES];
        if (tt_launch_rendezvous_parse(forms[i], &rendezvous, &why) != TT_OK) {
            fail_msg("'%s' refused: %s", forms[i], why.text);
        }
        tt_launch_rendezvous_format(&rendezvous, text);
        assert_string_equal(text, forms[i]);
    }
}

static void test_broken_forms_are_refused_with_the_cure(void **state)
{
    (void)state;
    static const char *const forms[] = {
        "",
        "tcp",
        "tcp://",
        "tcp://h",
        "tcp://h:",
        "tcp://:1",
        "tcp://h:0",
        "tcp://h:65536",
        "tcp://h:2-1",
        "tcp://h:1-",
        "tcp://::1:5",
        "tcp://[::1]",
        "tcp://[h]:1",
        "tcp://[::1:1",
        "tcp://10.1:5",
        "tcp://a b:1",
        "tcp://1.2.3.256:1",
        "file://",
        "file://x/y",
        "file:///",
        "pmi:x",
        "http://h:1",
        "tcp://[fe80::1%]:1",
        "tcp://-h:1",
        "TCP://h:1",
        "tcp://h:+1",
        "tcp://h: 1",
    };
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        tt_launch_rendezvous rendezvous = {.port_first = 7};
        tt_launch_why why = {""};
        if (tt_launch_rendezvous_parse(forms[i], &rendezvous, &why) != TT_ERR_BAD_CONFIG) {
            fail_msg("'%s' was accepted", forms[i]);
        }
        assert_string_not_equal(why.text, "");
        assert_int_equal(rendezvous.port_first, 7);
    }
}

static void test_lengths_are_limited(void **state)
{
    (void)state;
    char text[2 * TT_LAUNCH_PATH_BYTES];
    tt_launch_rendezvous rendezvous;
    tt_launch_why why;
    memset(text, 'a', sizeof(text));
    memcpy(text, "file:///", 8);
    text[sizeof(text) - 1] = '\0';
    assert_int_equal(tt_launch_rendezvous_parse(text, &rendezvous, &why), TT_ERR_BAD_CONFIG);
    memcpy(text, "tcp://aa", 8);
    memcpy(text + 6 + TT_LAUNCH_HOST_BYTES, ":1", 3);
    assert_int_equal(tt_launch_rendezvous_parse(text, &rendezvous, &why), TT_ERR_BAD_CONFIG);
    memcpy(text + 6 + TT_LAUNCH_HOST_BYTES - 1, ":1", 3);
    assert_int_equal(tt_launch_rendezvous_parse(text, &rendezvous, &why), TT_OK);
}

static void test_numbers_are_strict(void **state)
{
    (void)state;
    uint64_t value = 5;
    assert_true(tt_launch_parse_number("18446744073709551615", 20, UINT64_MAX, &value));
    assert_true(value == UINT64_MAX);
    assert_false(tt_launch_parse_number("18446744073709551616", 20, UINT64_MAX, &value));
    assert_true(tt_launch_parse_number("000", 3, 0, &value));
    assert_false(tt_launch_parse_number("5", 1, 4, &value));
    assert_true(tt_launch_parse_number("4", 1, 4, &value));
    assert_false(tt_launch_parse_number("", 0, 4, &value));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accepted_forms_round_trip),
        cmocka_unit_test(test_broken_forms_are_refused_with_the_cure),
        cmocka_unit_test(test_lengths_are_limited),
        cmocka_unit_test(test_numbers_are_strict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
