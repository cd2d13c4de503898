/* SPDX-License-Identifier: Apache-2.0
 *
 * backlog_test.c - the bound of a socket follows from the rate at which it takes bytes. Wires are
 * modelled by their rate and round trip. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transport/tcp/backlog.h"

enum { LOOKS = 200 };

/* Sample of a wire that carries `rate` bytes per microsecond. */
static tt_backlog_look wire(uint32_t rate, uint32_t shortest_us)
{
    return (tt_backlog_look){.bytes = TT_BACKLOG_SAMPLE_BYTES,
                             .took_ns = (uint64_t)TT_BACKLOG_SAMPLE_BYTES * 1000 / rate,
                             .shortest_us = shortest_us,
                             .segment_bytes = 1448};
}

static uint32_t settle(tt_backlog *backlog, tt_backlog_look look)
{
    for (int i = 0; i < LOOKS; i++) {
        (void)tt_backlog_learn(backlog, look);
    }
    return backlog->bytes;
}

static void test_a_wire_holds_half_a_millisecond(void **state)
{
    (void)state;
    tt_backlog backlog = {.frame_bytes = 64 * 1024};
    assert_in_range(settle(&backlog, wire(298, 60)), 298 * 500, 298 * 600); /* 2.5 Gbit/s */
    assert_false(tt_backlog_learn(&backlog, wire(298, 60)));                /* and stays */
}

static void test_a_slow_wire_keeps_enough_for_the_kernel_to_send_at_once(void **state)
{
    (void)state;
    tt_backlog backlog = {.frame_bytes = 64 * 1024};
    assert_int_equal(settle(&backlog, wire(119, 60)), TT_BACKLOG_BYTES_MIN); /* 1 Gbit/s */
    assert_int_equal(settle(&backlog, wire(12, 60)), TT_BACKLOG_BYTES_MIN);
}

/* With one packet of 64 KiB in flight, acknowledged behind two other packets, the wire carries half
 * of what it could. A rate measured under a bound must not confirm that bound. */
static void test_long_frames_allow_three_packets_in_flight(void **state)
{
    (void)state;
    for (uint32_t frame_bytes = 0; frame_bytes <= 512 * 1024; frame_bytes += 256 * 1024) {
        tt_backlog backlog = {.frame_bytes = frame_bytes, .bytes = TT_BACKLOG_BYTES_LONG};
        assert_int_equal(settle(&backlog, wire(119, 60)), 3 * TT_BACKLOG_BYTES_MIN);
        assert_int_equal(settle(&backlog, wire(57, 60)), 3 * TT_BACKLOG_BYTES_MIN);
    }
    tt_backlog backlog = {.frame_bytes = 128 * 1024}; /* an urgent frame would wait for more */
    assert_int_equal(settle(&backlog, wire(119, 60)), TT_BACKLOG_BYTES_MIN);
}

static void test_short_frames_halve_the_bound(void **state)
{
    (void)state;
    tt_backlog backlog = {.frame_bytes = 16 * 1024};
    assert_in_range(settle(&backlog, wire(298, 60)), 298 * 250, 298 * 300);
    backlog = (tt_backlog){.frame_bytes = 16 * 1024};
    assert_int_equal(settle(&backlog, wire(119, 60)), TT_BACKLOG_BYTES_SHORT);
    assert_int_equal(settle(&backlog, wire(12, 60)), TT_BACKLOG_BYTES_SHORT);
    backlog = (tt_backlog){.frame_bytes = 32 * 1024}; /* not short */
    assert_int_equal(settle(&backlog, wire(119, 60)), TT_BACKLOG_BYTES_MIN);
}

static void test_a_fast_wire_has_no_bound(void **state)
{
    (void)state;
    tt_backlog backlog = {0};
    assert_int_equal(settle(&backlog, wire(1190, 20)), 0); /* 10 Gbit/s */
}

static void test_a_far_peer_has_no_bound(void **state)
{
    (void)state;
    tt_backlog backlog = {.bytes = 65536};
    assert_int_equal(settle(&backlog, wire(119, 20000)), 0);
    assert_int_equal(settle(&backlog, wire(12, 250)), 0);
    assert_int_equal(settle(&backlog, wire(12, 0)), 0); /* nothing was measured yet */
}

static void test_long_packets_have_no_bound(void **state)
{
    (void)state;
    tt_backlog backlog = {.bytes = 65536, .frame_bytes = 64 * 1024};
    tt_backlog_look look = wire(119, 60);
    look.segment_bytes = 65483; /* loopback */
    assert_int_equal(settle(&backlog, look), 0);
    look.segment_bytes = 8948; /* jumbo frames */
    assert_int_equal(settle(&backlog, look), TT_BACKLOG_BYTES_MIN);
}

static void test_one_burst_does_not_raise_the_rate(void **state)
{
    (void)state;
    tt_backlog backlog = {0};
    const uint32_t bytes = settle(&backlog, wire(298, 60));
    assert_false(tt_backlog_learn(&backlog, wire(5000, 60)));
    assert_int_equal(backlog.bytes, bytes);
    assert_false(tt_backlog_learn(&backlog, wire(298, 60)));
}

static void test_a_late_wake_up_does_not_lower_the_rate(void **state)
{
    (void)state;
    tt_backlog backlog = {.frame_bytes = 64 * 1024};
    const uint32_t bytes = settle(&backlog, wire(298, 60));
    (void)tt_backlog_learn(&backlog, wire(30, 60));
    assert_in_range(backlog.bytes, bytes * 3 / 4, bytes);
    assert_int_equal(settle(&backlog, wire(149, 60)), 5 * 16 * 1024); /* a slower wire does */
}

static int send_buffer(int fd)
{
    int bytes = 0;
    socklen_t length = sizeof(bytes);
    assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, &length), 0);
    return bytes;
}

static void test_a_fixed_bound_is_set_on_the_socket(void **state)
{
    (void)state;
    tt_backlog backlog;
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    tt_backlog_begin(&backlog, fd, &(tt_backlog_config){.bytes = 65536});
    assert_int_equal(send_buffer(fd), 65536);
    tt_backlog_look_at(&backlog, fd, 1 << 30); /* never changed */
    assert_int_equal(send_buffer(fd), 65536);
    (void)close(fd);
}

static void test_the_bound_follows_the_longest_frame(void **state)
{
    (void)state;
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    tt_backlog backlog = {.frame_bytes = 512 * 1024, .bytes = TT_BACKLOG_BYTES_LONG};
    tt_backlog_expect(&backlog, fd, 32 * 1024);
    assert_int_equal(send_buffer(fd), TT_BACKLOG_BYTES_MIN);
    tt_backlog_expect(&backlog, fd, 16 * 1024);
    assert_int_equal(send_buffer(fd), TT_BACKLOG_BYTES_SHORT);
    tt_backlog_expect(&backlog, fd, 512 * 1024);
    assert_int_equal(send_buffer(fd), TT_BACKLOG_BYTES_LONG);
    assert_int_equal(settle(&backlog, wire(119, 60)), TT_BACKLOG_BYTES_LONG);
    backlog = (tt_backlog){.bytes = 128 * 1024, .is_fixed = true}; /* by the user */
    tt_backlog_expect(&backlog, fd, 16 * 1024);
    assert_int_equal(backlog.bytes, 128 * 1024);
    backlog = (tt_backlog){0}; /* a fast wire, or a far one */
    tt_backlog_expect(&backlog, fd, 16 * 1024);
    assert_int_equal(backlog.bytes, 0);
    assert_int_equal(send_buffer(fd), TT_BACKLOG_BYTES_LONG);
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
    tt_backlog_begin(&backlog, fd, &(tt_backlog_config){.bytes = 65536, .keeps_control = true});
    assert_int_equal(send_buffer(fd), before);
    tt_backlog_begin(&backlog, fd, &(tt_backlog_config){.bytes = 65536});
    assert_int_equal(send_buffer(fd), 65536);
    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &length), 0);
    assert_string_not_equal(name, "bbr");
    (void)close(fd);
}

static void test_a_socket_that_is_not_tcp_has_no_bound(void **state)
{
    (void)state;
    tt_backlog backlog;
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    tt_backlog_begin(&backlog, fds[0], &(tt_backlog_config){0});
    tt_backlog_look_at(&backlog, fds[0], 1);
    tt_backlog_look_at(&backlog, fds[0], 1 << 30);
    assert_int_equal(backlog.bytes, 0);
    (void)close(fds[0]);
    (void)close(fds[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_wire_holds_half_a_millisecond),
        cmocka_unit_test(test_a_slow_wire_keeps_enough_for_the_kernel_to_send_at_once),
        cmocka_unit_test(test_long_frames_allow_three_packets_in_flight),
        cmocka_unit_test(test_short_frames_halve_the_bound),
        cmocka_unit_test(test_a_fast_wire_has_no_bound),
        cmocka_unit_test(test_a_far_peer_has_no_bound),
        cmocka_unit_test(test_long_packets_have_no_bound),
        cmocka_unit_test(test_one_burst_does_not_raise_the_rate),
        cmocka_unit_test(test_a_late_wake_up_does_not_lower_the_rate),
        cmocka_unit_test(test_a_fixed_bound_is_set_on_the_socket),
        cmocka_unit_test(test_the_bound_follows_the_longest_frame),
        cmocka_unit_test(test_a_chosen_bbr_is_left_alone),
        cmocka_unit_test(test_a_socket_that_is_not_tcp_has_no_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
