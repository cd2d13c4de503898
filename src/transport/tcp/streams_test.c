/* SPDX-License-Identifier: Apache-2.0
 *
 * streams_test.c - one link over several connections.
 *
 * Method: two ends over socket pairs, or over loopback where TCP options are checked. After a pass
 * in which nothing moved, no link is polled before a descriptor is readable, as in the driver. The
 * contents of a frame follow from its op number.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/base.h"
#include "transport/tcp/streams.h"
#include "transport/tcp/tcp.h"

enum { STREAMS = 3, OP_COUNT = 200, POLL_MS = 5000, BYTES_MAX = 300 * 1024 };

typedef struct end {
    tt_machine machine;
    tt_link *link;
    int fds[STREAMS][2]; /* sending, receiving */
    uint8_t *lent[OP_COUNT];
    uint8_t arrived[OP_COUNT];
    uint32_t arrived_count, lent_count;
    uint8_t *sink;
} end;

static uint32_t op_bytes(uint64_t op)
{
    return (uint32_t)(op * 7919 % BYTES_MAX);
}

static void fill(uint8_t *bytes, uint64_t op)
{
    for (uint32_t i = 0; i < op_bytes(op); i++) {
        bytes[i] = (uint8_t)(op * 31 + i * 7 + i / 256);
    }
}

static void note_arrival(end *self, const tt_head *head, const uint8_t *bytes)
{
    uint8_t *expected = malloc(BYTES_MAX);
    fill(expected, head->op);
    assert_int_equal(head->payload_bytes, op_bytes(head->op));
    assert_memory_equal(bytes, expected, head->payload_bytes);
    assert_int_equal(self->arrived[head->op], 0);
    self->arrived[head->op] = 1;
    self->arrived_count++;
    free(expected);
}

static void *on_frame(void *machine, uint32_t peer, const tt_head *head, const void *payload)
{
    end *self = machine;
    assert_int_equal(peer, 3);
    assert_null(self->sink); /* rule (1) of streams.h */
    if (head->payload_bytes <= TT_INLINE_BYTES_MAX) {
        note_arrival(self, head, payload);
        return NULL;
    }
    self->sink = malloc(head->payload_bytes);
    return self->sink;
}

static void on_payload(void *machine, uint32_t peer, const tt_head *head)
{
    end *self = machine;
    (void)peer;
    uint8_t *sink = self->sink;
    self->sink = NULL;
    note_arrival(self, head, sink);
    free(sink);
}

static void on_sent(void *machine, uint64_t token)
{
    end *self = machine;
    assert_non_null(self->lent[token]);
    memset(self->lent[token], 0xee, op_bytes(token));
    free(self->lent[token]);
    self->lent[token] = NULL;
    self->lent_count--;
}

static const tt_machine_ops end_ops = {.frame = on_frame, .payload = on_payload, .sent = on_sent};

static void pair_of_unix(int fds_out[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds_out), 0);
}

static void pair_of_tcp(int fds_out[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, length), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &length), 0);
    fds_out[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fds_out[0], (struct sockaddr *)&address, length), 0);
    fds_out[1] = accept(listener, NULL, NULL);
    assert_true(fds_out[1] >= 0);
    (void)close(listener);
}

static void ends_create_over(void (*pair)(int fds_out[2]), end *a, end *b)
{
    end *ends[2] = {a, b};
    memset(a, 0, sizeof(*a));
    memset(b, 0, sizeof(*b));
    for (int i = 0; i < STREAMS; i++) {
        int there[2], back[2];
        pair(there);
        pair(back);
        a->fds[i][0] = there[0], b->fds[i][1] = there[1];
        b->fds[i][0] = back[0], a->fds[i][1] = back[1];
    }
    for (int e = 0; e < 2; e++) {
        tt_link *links[STREAMS];
        ends[e]->machine = (tt_machine){.ops = &end_ops, .self = ends[e]};
        for (int i = 0; i < STREAMS; i++) {
            tt_tcp_config config = {.peer = 3,
                                    .send_fd = ends[e]->fds[i][0],
                                    .receive_fd = ends[e]->fds[i][1],
                                    .mode = TT_SEAL_CRC,
                                    .machine = &ends[e]->machine};
            assert_int_equal(tt_tcp_link_create(&config, &links[i]), TT_OK);
        }
        assert_int_equal(tt_streams_link_create(links, STREAMS, &ends[e]->link), TT_OK);
    }
}

static void ends_create(end *a, end *b)
{
    ends_create_over(pair_of_unix, a, b);
}

static void end_fini(end *self)
{
    for (size_t i = 0; i < OP_COUNT; i++) {
        free(self->lent[i]);
    }
    free(self->sink);
    self->link->ops->destroy(self->link);
}

static void end_send(end *self, uint64_t op)
{
    const tt_head head = {.kind = 7, .op = op, .payload_bytes = op_bytes(op)};
    uint8_t *payload = malloc(BYTES_MAX);
    fill(payload, op);
    const tt_send send = {.peer = 3, .token = op, .payload = payload, .head = &head};
    const tt_status status = self->link->ops->send(self->link, &send);
    assert_true(status == TT_OK || status == TT_IN_PROGRESS);
    if (status == TT_OK) {
        free(payload);
        return;
    }
    self->lent[op] = payload;
    self->lent_count++;
}

/* One pass of a driver: sleeps only if the descriptors of both links would show all their work. */
static void drive(end *a, end *b)
{
    end *ends[2] = {a, b};
    struct pollfd watched[2];
    bool moved = false;
    for (int i = 0; i < 2; i++) {
        tt_link *link = ends[i]->link;
        int fds[2];
        bool wants_write[2];
        moved |= link->state == TT_LINK_UP && link->ops->poll(link);
        link->ops->descriptors(link, fds, wants_write);
        watched[i] = (struct pollfd){.fd = fds[0], .events = POLLIN};
    }
    if (!moved && (watched[0].fd >= 0 || watched[1].fd >= 0)) {
        assert_true(poll(watched, 2, POLL_MS) > 0);
    }
}

static void test_every_frame_arrives_once_and_every_payload_is_given_back(void **state)
{
    (void)state;
    end a, b;
    ends_create(&a, &b);
    for (uint64_t op = 0; op < OP_COUNT; op++) {
        end_send(&a, op);
        end_send(&b, op);
    }
    while (a.arrived_count < OP_COUNT || b.arrived_count < OP_COUNT || a.lent_count > 0 ||
           b.lent_count > 0) {
        drive(&a, &b);
    }
    assert_int_equal(a.link->frames_received, OP_COUNT);
    assert_int_equal(a.link->frames_sent, OP_COUNT);
    end_fini(&a);
    end_fini(&b);
}

static void test_frames_before_a_goodbye_arrive_and_both_ends_are_left(void **state)
{
    (void)state;
    end a, b;
    ends_create(&a, &b);
    for (uint64_t op = 0; op < OP_COUNT; op++) {
        end_send(&a, op);
    }
    a.link->ops->close(a.link);
    while (b.link->state == TT_LINK_UP || a.link->state == TT_LINK_UP) {
        drive(&a, &b);
    }
    assert_int_equal(a.link->state, TT_LINK_LEFT);
    assert_int_equal(b.link->state, TT_LINK_LEFT);
    assert_int_equal(b.arrived_count, OP_COUNT);
    end_fini(&a);
    end_fini(&b);
}

static void test_one_broken_connection_breaks_the_link(void **state)
{
    (void)state;
    end a, b;
    ends_create(&a, &b);
    end_send(&a, 1);
    while (b.arrived_count == 0) {
        drive(&a, &b);
    }
    assert_int_equal(shutdown(a.fds[1][0], SHUT_RDWR), 0);
    while (b.link->state == TT_LINK_UP || a.link->state == TT_LINK_UP) {
        drive(&a, &b);
    }
    assert_int_equal(a.link->state, TT_LINK_DOWN);
    assert_int_equal(b.link->state, TT_LINK_DOWN);
    assert_string_not_equal(b.link->why, "");
    end_fini(&a);
    end_fini(&b);
}

static void test_a_recalled_payload_is_no_longer_read(void **state)
{
    (void)state;
    end a, b;
    ends_create(&a, &b);
    for (uint64_t op = 100; op < 140; op++) {
        end_send(&a, op);
    }
    for (uint64_t op = 100; op < 140; op++) {
        if (a.lent[op] != NULL) {
            a.link->ops->recall(a.link, op);
            memset(a.lent[op], 0xee, op_bytes(op));
            free(a.lent[op]);
            a.lent[op] = NULL;
            a.lent_count--;
        }
    }
    a.link->ops->close(a.link);
    while (b.link->state == TT_LINK_UP) {
        drive(&a, &b);
    }
    assert_int_equal(b.link->state, TT_LINK_LEFT);
    assert_int_equal(a.lent_count, 0);
    end_fini(&a);
    end_fini(&b);
}

static uint32_t unsent_bytes(const end *self, int index)
{
    int value = 0;
    socklen_t length = sizeof(value);
    assert_int_equal(
        getsockopt(self->fds[index][0], IPPROTO_TCP, TCP_NOTSENT_LOWAT, &value, &length), 0);
    return (uint32_t)value;
}

static void test_expect_reaches_every_stream_of_one_end(void **state)
{
    (void)state;
    static const uint32_t frame_bytes[] = {512 * 1024, 64 * 1024};
    end a, b;
    ends_create_over(pair_of_tcp, &a, &b);
    const uint32_t untold = unsent_bytes(&b, 0);
    for (size_t i = 0; i < TT_ARRAY_COUNT(frame_bytes); i++) {
        const uint32_t told = tt_tcp_unsent_bytes(frame_bytes[i]);
        assert_int_not_equal(told, untold);
        a.link->ops->expect(a.link, frame_bytes[i]);
        for (int j = 0; j < STREAMS; j++) {
            assert_int_equal(unsent_bytes(&a, j), told);
            assert_int_equal(unsent_bytes(&b, j), untold);
        }
    }
    end_fini(&a);
    end_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_frame_arrives_once_and_every_payload_is_given_back),
        cmocka_unit_test(test_frames_before_a_goodbye_arrive_and_both_ends_are_left),
        cmocka_unit_test(test_one_broken_connection_breaks_the_link),
        cmocka_unit_test(test_a_recalled_payload_is_no_longer_read),
        cmocka_unit_test(test_expect_reaches_every_stream_of_one_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
