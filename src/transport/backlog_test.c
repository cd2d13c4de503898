/* SPDX-License-Identifier: Apache-2.0
 *
 * backlog_test.c - the bound of a socket is found where bytes queue for about half a millisecond.
 * A wire is modelled by its rate and round trip; what a socket holds beyond that queues. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transport/backlog.h"

enum { LOOKS = 200, UNBOUND_BYTES = 4 * 1024 * 1024 };

/* What the kernel would tell of a wire that carries `rate` bytes a microsecond. */
static tt_backlog_look wire(const tt_backlog *backlog, uint32_t rate, uint32_t shortest_us)
{
    const uint32_t held = backlog->bytes == 0 ? UNBOUND_BYTES : backlog->bytes;
    const uint32_t full_us = held / rate;
    return (tt_backlog_look){.shortest_us = shortest_us,
                             .round_trip_us = full_us > shortest_us ? full_us : shortest_us,
                             .is_dry = full_us < shortest_us};
}

static uint32_t settle(tt_backlog *backlog, uint32_t rate, uint32_t shortest_us)
{
    for (int i = 0; i < LOOKS; i++) {
        (void)tt_backlog_learn(backlog, wire(backlog, rate, shortest_us));
    }
    return backlog->bytes;
}

static void test_a_slow_wire_holds_half_a_millisecond(void **state)
{
    (void)state;
    tt_backlog backlog = {0};
    const uint32_t bytes = settle(&backlog, 119, 60); /* 1 Gbit/s */
    assert_in_range(bytes, 119 * 250, 119 * 620);
    assert_int_equal(settle(&backlog, 119, 60), bytes); /* and stays */
}

static void test_a_very_slow_wire_keeps_enough_for_a_few_packets(void **state)
{
    (void)state;
    tt_backlog backlog = {0};
    assert_int_equal(settle(&backlog, 12, 60), TT_BACKLOG_BYTES_MIN); /* 100 Mbit/s */
}

static void test_a_fast_wire_has_no_bound(void **state)
{
    (void)state;
    tt_backlog backlog = {0};
    uint32_t bounded = 0;
    for (int i = 0; i < 4000; i++) { /* 40 Gbit/s: it is tried once in a while, in vain */
        (void)tt_backlog_learn(&backlog, wire(&backlog, 5000, 20));
        bounded += backlog.bytes > 0;
    }
    assert_in_range(bounded, 0, 4);
}

static void test_a_far_peer_has_no_bound(void **state)
{
    (void)state;
    tt_backlog backlog = {.bytes = 65536};
    assert_int_equal(settle(&backlog, 119, 20000), 0);
    assert_int_equal(settle(&backlog, 12, 1000), 0);
}

static void test_a_socket_that_ran_dry_gets_more_and_keeps_it_for_a_while(void **state)
{
    (void)state;
    tt_backlog backlog = {0};
    const uint32_t bytes = settle(&backlog, 119, 60);
    const tt_backlog_look dry = {.round_trip_us = 500, .shortest_us = 60, .is_dry = true};
    assert_true(tt_backlog_learn(&backlog, dry));
    assert_int_equal(backlog.bytes, 2 * bytes);
    assert_false(tt_backlog_learn(&backlog, wire(&backlog, 119, 60)));
    assert_int_equal(backlog.bytes, 2 * bytes);
    assert_in_range(settle(&backlog, 119, 60), TT_BACKLOG_BYTES_MIN, 2 * bytes - 1);
}

static void test_a_wire_that_slows_down_gets_less(void **state)
{
    (void)state;
    tt_backlog backlog = {0};
    const uint32_t before = settle(&backlog, 300, 60);
    assert_in_range(settle(&backlog, 119, 60), TT_BACKLOG_BYTES_MIN, before - 1);
}

static void test_without_a_measurement_nothing_changes(void **state)
{
    (void)state;
    tt_backlog backlog = {.bytes = 65536};
    assert_false(tt_backlog_learn(&backlog, (tt_backlog_look){.round_trip_us = 5000}));
    assert_int_equal(backlog.bytes, 65536);
}

static int send_buffer(int fd)
{
    int bytes = 0;
    socklen_t length = sizeof(bytes);
    assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, &length), 0);
    return bytes;
}

static void test_a_given_bound_is_the_sockets(void **state)
{
    (void)state;
    tt_backlog backlog;
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    tt_backlog_begin(&backlog, fd, 65536, false);
    assert_int_equal(send_buffer(fd), 65536);
    tt_backlog_look_at(&backlog, fd, 1 << 30); /* never changed */
    assert_int_equal(send_buffer(fd), 65536);
    (void)close(fd);
}

static void test_a_chosen_bbr_is_left_alone(void **state)
{
    (void)state;
    tt_backlog backlog;
    char name[16] = {0};
    socklen_t length = sizeof(name) - 1;
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "bbr", 3) != 0) {
        (void)close(fd);
        skip();
    }
    const int before = send_buffer(fd);
    tt_backlog_begin(&backlog, fd, 65536, true);
    assert_int_equal(send_buffer(fd), before);
    tt_backlog_begin(&backlog, fd, 65536, false);
    assert_int_equal(send_buffer(fd), 65536);
    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &length), 0);
    assert_string_not_equal(name, "bbr");
    (void)close(fd);
}

static void test_what_is_no_tcp_socket_is_asked_once(void **state)
{
    (void)state;
    tt_backlog backlog;
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    tt_backlog_begin(&backlog, fds[0], 0, false);
    tt_backlog_look_at(&backlog, fds[0], 1 << 30);
    assert_true(backlog.is_fixed);
    (void)close(fds[0]);
    (void)close(fds[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_slow_wire_holds_half_a_millisecond),
        cmocka_unit_test(test_a_very_slow_wire_keeps_enough_for_a_few_packets),
        cmocka_unit_test(test_a_fast_wire_has_no_bound),
        cmocka_unit_test(test_a_far_peer_has_no_bound),
        cmocka_unit_test(test_a_socket_that_ran_dry_gets_more_and_keeps_it_for_a_while),
        cmocka_unit_test(test_a_wire_that_slows_down_gets_less),
        cmocka_unit_test(test_without_a_measurement_nothing_changes),
        cmocka_unit_test(test_a_given_bound_is_the_sockets),
        cmocka_unit_test(test_a_chosen_bbr_is_left_alone),
        cmocka_unit_test(test_what_is_no_tcp_socket_is_asked_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
