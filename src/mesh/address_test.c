/* SPDX-License-Identifier: Apache-2.0
 *
 * Goal: the advertised address fits the rendezvous, rank 0 is found, and host ids differ between
 * hosts. Only loopback is assumed to exist. */
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "mesh/address.h"

enum { TIMEOUT_MS = 20000 };

/* One variable and its value. */
static const char *lookup_pair(void *context, const char *variable)
{
    const char *const *pair = context;
    return strcmp(pair[0], variable) == 0 ? pair[1] : NULL;
}

#define SOURCE(name, value) \
    ((tt_launch_source){.lookup = lookup_pair, .context = (const char *[]){name, value}})

static tt_launch_rendezvous meet_at(const char *text)
{
    tt_launch_rendezvous meet;
    tt_launch_why why = {""};
    if (tt_launch_rendezvous_parse(text, &meet, &why) != TT_OK) {
        fail_msg("%s", why.text);
    }
    return meet;
}

static void test_loopback_meeting_gives_loopback(void **state)
{
    (void)state;
    const tt_launch_source source = SOURCE("X", "");
    const tt_launch_rendezvous meet = meet_at("tcp://127.0.0.1:4000");
    tt_launch_address address;
    tt_launch_why why = {""};
    assert_int_equal(tt_mesh_address_choose(&source, &meet, &address, &why), TT_OK);
    assert_true(tt_launch_address_is_loopback(&address));
}

static void test_interface_can_be_chosen(void **state)
{
    (void)state;
    static const char *const variables[] = {"TUTTI_INTERFACE", "NCCL_SOCKET_IFNAME",
                                            "GLOO_SOCKET_IFNAME", "HOROVOD_GLOO_IFACE"};
    const tt_launch_rendezvous meet = meet_at("pmi:");
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        tt_launch_address address;
        tt_launch_why why = {""};
        const tt_launch_source lo = SOURCE(variables[i], "=lo");
        assert_int_equal(tt_mesh_address_choose(&lo, &meet, &address, &why), TT_OK);
        assert_true(tt_launch_address_is_loopback(&address));
        assert_int_equal(address.storage.ss_family, AF_INET);
        const tt_launch_source none = SOURCE(variables[i], "nosuch");
        assert_int_equal(tt_mesh_address_choose(&none, &meet, &address, &why), TT_ERR_BAD_CONFIG);
        assert_non_null(strstr(why.text, variables[i]));
        assert_non_null(strstr(why.text, " lo"));
    }
}

static void test_meeting_without_a_host_finds_an_address(void **state)
{
    (void)state;
    const tt_launch_source source = SOURCE("X", "");
    const tt_launch_rendezvous meet = meet_at("file:///x");
    tt_launch_address address;
    tt_launch_why why = {""};
    char text[TT_LAUNCH_ADDRESS_TEXT_BYTES];
    assert_int_equal(tt_mesh_address_choose(&source, &meet, &address, &why), TT_OK);
    assert_false(tt_launch_address_is_any(&address));
    tt_launch_address_format(&address, text);
    assert_string_not_equal(text, "");
}

static void test_port_range(void **state)
{
    (void)state;
    tt_launch_listen_request request = {.port_first = 1};
    tt_launch_why why = {""};
    const tt_launch_source unset = SOURCE("X", "");
    assert_int_equal(tt_mesh_port_range(&unset, &request, &why), TT_OK);
    assert_int_equal(request.port_first, 0);
    assert_int_equal(request.port_count, 1);
    const tt_launch_source range = SOURCE("TUTTI_PORT_RANGE", "7000-7009");
    assert_int_equal(tt_mesh_port_range(&range, &request, &why), TT_OK);
    assert_int_equal(request.port_first, 7000);
    assert_int_equal(request.port_count, 10);
    const tt_launch_source broken = SOURCE("TUTTI_PORT_RANGE", "9-7");
    assert_int_equal(tt_mesh_port_range(&broken, &request, &why), TT_ERR_BAD_CONFIG);
    assert_non_null(strstr(why.text, "TUTTI_PORT_RANGE"));
}

static tt_launch_address loopback(void)
{
    tt_launch_address_list list;
    tt_launch_why why = {""};
    assert_int_equal(tt_launch_resolve("127.0.0.1", &list, &why), TT_OK);
    return list.addresses[0];
}

static void test_meeting_is_found_by_trying_the_range(void **state)
{
    (void)state;
    /* Another socket holds the first port of the range: rank 0 takes a later one. */
    tt_launch_listen_request request = {.address = loopback(), .port_count = 1};
    tt_launch_listener stranger;
    tt_launch_why why = {""};
    assert_int_equal(tt_launch_listen(&request, &stranger, &why), TT_OK);
    tt_launch_rendezvous meet = meet_at("tcp://127.0.0.1:1");
    meet.port_first = stranger.port;
    meet.port_count = stranger.port > 65535 - 15 ? 1 : 16;
    if (meet.port_count == 1) {
        meet.port_first = (uint16_t)(stranger.port - 15);
        meet.port_count = 16;
    }
    tt_mesh_meeting meeting;
    assert_int_equal(tt_mesh_meeting_listen(&meet, &meeting, &why), TT_OK);
    assert_int_not_equal(meeting.port, stranger.port);
    assert_int_equal(meeting.fd_count, 1);

    tt_launch_address_list list;
    tt_launch_address candidate;
    bool is_reached = false;
    assert_int_equal(tt_launch_resolve(meet.host, &list, &why), TT_OK);
    size_t turn = 0;
    for (; tt_mesh_meeting_candidate(&list, &meet, turn, &candidate); turn++) {
        int fd;
        const struct sockaddr_in *address = (const struct sockaddr_in *)&candidate.storage;
        if (tt_launch_connect(&candidate, tt_launch_deadline_after_ms(TIMEOUT_MS), &fd, &why) ==
            TT_OK) {
            is_reached = is_reached || ntohs(address->sin_port) == meeting.port;
            close(fd);
        }
    }
    assert_int_equal(turn, list.count * 16);
    assert_true(is_reached);
    tt_mesh_meeting_close(&meeting);
    close(stranger.fd);
}

static void test_meeting_on_the_own_host_name_listens(void **state)
{
    (void)state;
    tt_launch_rendezvous meet = meet_at("tcp://h:50000-50063");
    tt_mesh_meeting meeting;
    tt_launch_address_list list;
    tt_launch_why why = {""};
    assert_int_equal(gethostname(meet.host, sizeof(meet.host) - 1), 0);
    if (tt_launch_resolve(meet.host, &list, &why) != TT_OK) {
        skip(); /* a host that cannot resolve its own name */
    }
    assert_int_equal(tt_mesh_meeting_listen(&meet, &meeting, &why), TT_OK);
    assert_true(meeting.fd_count >= 1);
    tt_mesh_meeting_close(&meeting);
}

static void test_host_id_is_stable_and_can_be_given(void **state)
{
    (void)state;
    const tt_launch_source unset = SOURCE("X", "");
    const tt_launch_source a = SOURCE("TUTTI_HOSTID", "a");
    const tt_launch_source b = SOURCE("TUTTI_HOSTID", "b");
    assert_true(tt_mesh_host_id(&unset) == tt_mesh_host_id(&unset));
    assert_true(tt_mesh_host_id(&a) != tt_mesh_host_id(&unset));
    assert_true(tt_mesh_host_id(&a) != tt_mesh_host_id(&b));
    assert_true(tt_mesh_host_id(&a) == UINT64_C(0x82a2a958a9bece5b));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loopback_meeting_gives_loopback),
        cmocka_unit_test(test_interface_can_be_chosen),
        cmocka_unit_test(test_meeting_without_a_host_finds_an_address),
        cmocka_unit_test(test_port_range),
        cmocka_unit_test(test_meeting_is_found_by_trying_the_range),
        cmocka_unit_test(test_meeting_on_the_own_host_name_listens),
        cmocka_unit_test(test_host_id_is_stable_and_can_be_given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
