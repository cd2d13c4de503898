/* SPDX-License-Identifier: Apache-2.0
 *
 * Goal: a listener gets a free port or an error with the reason, a failed connect names the
 * address, and addresses are classified correctly. Only loopback is assumed to exist. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "launch/deadline.h"
#include "launch/socket.h"

enum { TIMEOUT_MS = 20000 };

static tt_launch_address loopback(void)
{
    tt_launch_address_list list;
    tt_launch_why why = {""};
    assert_int_equal(tt_launch_resolve("127.0.0.1", &list, &why), TT_OK);
    return list.addresses[0];
}

static void test_listen_skips_ports_in_use(void **state)
{
    (void)state;
    tt_launch_listen_request request = {.address = loopback(), .port_count = 1};
    tt_launch_listener first;
    tt_launch_listener second;
    tt_launch_why why = {""};
    assert_int_equal(tt_launch_listen(&request, &first, &why), TT_OK);
    assert_int_not_equal(first.port, 0);
    request.port_first = first.port;
    assert_int_equal(tt_launch_listen(&request, &second, &why), TT_ERR_NO_RESOURCE);
    assert_non_null(strstr(why.text, "TUTTI_PORT_RANGE"));
    assert_non_null(strstr(why.text, "127.0.0.1"));
    request.port_first = (uint16_t)(first.port - 1);
    request.port_count = 3;
    tt_launch_listener below;
    if (tt_launch_listen(&request, &below, &why) == TT_OK) {
        assert_int_not_equal(below.port, first.port);
        close(below.fd);
    }
    close(first.fd);
}

static void test_listen_refuses_foreign_addresses_and_all_interfaces(void **state)
{
    (void)state;
    tt_launch_address_list list;
    tt_launch_listener listener;
    tt_launch_why why = {""};
    assert_int_equal(tt_launch_resolve("0.0.0.0", &list, &why), TT_OK);
    tt_launch_listen_request request = {.address = list.addresses[0], .port_count = 1};
    assert_int_equal(tt_launch_listen(&request, &listener, &why), TT_ERR_BAD_CONFIG);
    request.allow_any = true;
    assert_int_equal(tt_launch_listen(&request, &listener, &why), TT_OK);
    close(listener.fd);
    assert_int_equal(tt_launch_resolve("192.0.2.1", &list, &why), TT_OK);
    request.address = list.addresses[0];
    assert_int_equal(tt_launch_listen(&request, &listener, &why), TT_ERR_SYSTEM);
    assert_non_null(strstr(why.text, "192.0.2.1"));
    assert_non_null(strstr(why.text, "TUTTI_INTERFACE"));
}

static void test_connect_names_the_address_that_failed(void **state)
{
    (void)state;
    tt_launch_listen_request request = {.address = loopback(), .port_count = 1};
    tt_launch_listener listener;
    tt_launch_why why = {""};
    int fd = -1;
    assert_int_equal(tt_launch_listen(&request, &listener, &why), TT_OK);
    close(listener.fd);
    tt_launch_address_set_port(&request.address, listener.port);
    assert_int_equal(
        tt_launch_connect(&request.address, tt_launch_deadline_after_ms(TIMEOUT_MS), &fd, &why),
        TT_ERR_SYSTEM);
    char port[16];
    (void)snprintf(port, sizeof(port), "port %u", (unsigned)listener.port);
    assert_non_null(strstr(why.text, port));
    assert_int_equal(fd, -1);
}

static void test_addresses_are_classified(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool loopback;
        bool any;
        bool link_local;
    } cases[] = {
        {"127.9.9.9", true, false, false},
        {"10.0.0.1", false, false, false},
        {"0.0.0.0", false, true, false},
        {"169.254.1.1", false, false, true},
        {"::1", true, false, false},
        {"::", false, true, false},
        {"fe80::1%lo", false, false, true},
        {"::ffff:127.0.0.1", true, false, false},
        {"::ffff:0.0.0.0", false, true, false},
        {"2001:db8::1", false, false, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        tt_launch_address_list list;
        tt_launch_why why = {""};
        char text[TT_LAUNCH_ADDRESS_TEXT_BYTES];
        assert_int_equal(tt_launch_resolve(cases[i].text, &list, &why), TT_OK);
        assert_int_equal(tt_launch_address_is_loopback(&list.addresses[0]), cases[i].loopback);
        assert_int_equal(tt_launch_address_is_any(&list.addresses[0]), cases[i].any);
        assert_int_equal(tt_launch_address_is_link_local(&list.addresses[0]), cases[i].link_local);
        tt_launch_address_format(&list.addresses[0], text);
        assert_string_equal(text, cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_listen_skips_ports_in_use),
        cmocka_unit_test(test_listen_refuses_foreign_addresses_and_all_interfaces),
        cmocka_unit_test(test_connect_names_the_address_that_failed),
        cmocka_unit_test(test_addresses_are_classified),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
