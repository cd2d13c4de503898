/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp_test.c - the TCP link over real sockets.
 *
 * Method: two ends with a machine each. The contents of a frame follow from its op number, so that
 * every arrival can be checked by itself, in any order. Borrowed memory is poisoned and freed as
 * soon as it is given back. Hostile streams are recorded from a link with fixed keys, changed, and
 * played to a fresh one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/base.h"
#include "support/payload.h"
#include "transport/tcp/tcp.h"
#include "transport/tcp/tcp_internal.h"

enum { OP_COUNT_MAX = 1024, POLL_MS = 5000 };

typedef struct end {
    tt_machine machine;
    tt_link *link;
    uint8_t *lent[OP_COUNT_MAX]; /* payloads the link borrows, by op = token */
    uint32_t lent_bytes[OP_COUNT_MAX];
    uint8_t arrived[OP_COUNT_MAX];
    uint32_t order[OP_COUNT_MAX];
    uint32_t arrived_count, sent_count, lent_count;
    uint8_t *sink;
    bool dropping;  /* the machine discarded the sink */
    bool drops_all; /* returns NULL for long frames */
    uint32_t drop_every;
    uint64_t random_state;
} end;

static void note_arrival(end *self, const tt_head *head)
{
    assert_true(head->op < OP_COUNT_MAX);
    assert_int_equal(self->arrived[head->op], 0);
    self->arrived[head->op] = 1;
    self->order[self->arrived_count++] = (uint32_t)head->op;
}

static void *on_frame(void *machine, uint32_t peer, const tt_head *head, const void *payload)
{
    end *self = machine;
    assert_int_equal(peer, self->link->peer);
    assert_int_equal(head->argument, ~head->op);
    if (head->payload_bytes <= TT_INLINE_BYTES_MAX) {
        assert_non_null(payload);
        check(payload, head->op, head->payload_bytes);
        note_arrival(self, head);
        return NULL;
    }
    assert_null(payload);
    assert_null(self->sink);
    if (self->drops_all) {
        return NULL;
    }
    self->sink = malloc(head->payload_bytes);
    return self->sink;
}

static void on_payload(void *machine, uint32_t peer, const tt_head *head)
{
    end *self = machine;
    (void)peer;
    assert_non_null(self->sink);
    check(self->sink, head->op, head->payload_bytes);
    note_arrival(self, head);
    free(self->sink);
    self->sink = NULL;
}

static void take_back(end *self, uint64_t token)
{
    assert_true(token < OP_COUNT_MAX);
    assert_non_null(self->lent[token]);
    memset(self->lent[token], 0xee, self->lent_bytes[token]);
    free(self->lent[token]);
    self->lent[token] = NULL;
    self->lent_count--;
}

static void on_sent(void *machine, uint64_t token)
{
    end *self = machine;
    take_back(self, token);
    self->sent_count++;
}

static void on_timer(void *machine)
{
    (void)machine;
}

static void on_peer(void *machine, uint32_t peer, tt_peer_event event, const char *why)
{
    (void)machine, (void)peer, (void)event, (void)why;
    fail_msg("a link never makes this upcall");
}

static bool on_step(void *machine)
{
    (void)machine;
    return false;
}

static const tt_machine_ops end_ops = {.frame = on_frame,
                                       .payload = on_payload,
                                       .sent = on_sent,
                                       .timer = on_timer,
                                       .peer = on_peer,
                                       .step = on_step};

/* Later frames belong to older calls, so that order of sending and order of age differ. */
static tt_status end_send(end *self, uint64_t op, uint32_t payload_bytes, int32_t urgency)
{
    const tt_head head = {.kind = 7, .op = op, .payload_bytes = payload_bytes, .argument = ~op};
    uint8_t *payload = malloc(payload_bytes + 1);
    fill(payload, op, payload_bytes);
    self->lent[op] = payload;
    self->lent_bytes[op] = payload_bytes;
    self->lent_count++;
    const tt_send send = {.peer = self->link->peer,
                          .urgency = urgency,
                          .age = ~op,
                          .token = op,
                          .payload = payload,
                          .head = &head};
    const tt_status status = self->link->ops->send(self->link, &send);
    if (status != TT_IN_PROGRESS) {
        take_back(self, op);
    }
    return status;
}

static void end_init(end *self, tt_tcp_config config)
{
    memset(self, 0, sizeof(*self));
    self->machine = (tt_machine){.ops = &end_ops, .self = self};
    self->random_state = 88172645463325252u;
    config.machine = &self->machine;
    assert_int_equal(tt_tcp_link_create(&config, &self->link), TT_OK);
}

static void end_fini(end *self)
{
    for (size_t i = 0; i < OP_COUNT_MAX; i++) {
        free(self->lent[i]);
    }
    free(self->sink);
    self->link->ops->destroy(self->link);
}

/* A connected pair over the loopback of `family`. */
static void loopback_pair(int family, int fds[2])
{
    struct sockaddr_storage address = {.ss_family = (sa_family_t)family};
    socklen_t address_bytes = sizeof(struct sockaddr_in);
    if (family == AF_INET) {
        ((struct sockaddr_in *)&address)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    } else {
        ((struct sockaddr_in6 *)&address)->sin6_addr = in6addr_loopback;
        address_bytes = sizeof(struct sockaddr_in6);
    }
    const int listener = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(listener >= 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, address_bytes), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &address_bytes), 0);
    fds[0] = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fds[0], (struct sockaddr *)&address, address_bytes), 0);
    fds[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(fds[1] >= 0);
    close(listener);
}

static void stream_pair(int fds[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
}

/* Where the processor has AES, sealed frames use it; seal_test.c tests both ciphers. */
static tt_seal_cipher cipher_here(void)
{
    return tt_seal_has_aes() ? TT_SEAL_AES256 : TT_SEAL_CHACHA20;
}

static void ends_create_over(end *a, end *b, tt_seal_mode mode, int there[2], int back[2])
{
    tt_tcp_config config = {.peer = 3,
                            .send_fd = there[0],
                            .receive_fd = back[0],
                            .mode = mode,
                            .cipher = cipher_here()};
    memset(config.send_key, 1, sizeof(config.send_key));
    memset(config.receive_key, 2, sizeof(config.receive_key));
    end_init(a, config);
    tt_tcp_config mirror = {.peer = 5,
                            .send_fd = back[1],
                            .receive_fd = there[1],
                            .mode = mode,
                            .cipher = cipher_here()};
    memset(mirror.send_key, 2, sizeof(mirror.send_key));
    memset(mirror.receive_key, 1, sizeof(mirror.receive_key));
    end_init(b, mirror);
}

static void ends_create(end *a, end *b, tt_seal_mode mode)
{
    int there[2];
    int back[2];
    loopback_pair(AF_INET, there);
    loopback_pair(AF_INET, back);
    ends_create_over(a, b, mode, there, back);
}

/* Sleeps until a descriptor of either end is ready, as the driver would. */
static void ends_wait(end *a, end *b)
{
    struct pollfd polled[4];
    end *ends[2] = {a, b};
    for (size_t i = 0; i < 2; i++) {
        int fds[2];
        bool wants_write[2];
        ends[i]->link->ops->descriptors(ends[i]->link, fds, wants_write);
        for (size_t k = 0; k < 2; k++) {
            polled[2 * i + k] = (struct pollfd){
                .fd = fds[k], .events = (short)(POLLIN | (wants_write[k] ? POLLOUT : 0))};
        }
    }
    assert_true(poll(polled, 4, POLL_MS) > 0); /* else a wake-up was missed */
}

static void ends_poll(end *a, end *b)
{
    const bool moved_a = a->link->ops->poll(a->link);
    const bool moved_b = b->link->ops->poll(b->link);
    if (!moved_a && !moved_b && !(a->link->ops->closed(a->link) && b->link->ops->closed(b->link))) {
        ends_wait(a, b);
    }
}

static void ends_close(end *a, end *b)
{
    a->link->ops->close(a->link);
    b->link->ops->close(b->link);
    while (!a->link->ops->closed(a->link) || !b->link->ops->closed(b->link)) {
        ends_poll(a, b);
    }
    assert_int_equal(a->link->state, TT_LINK_LEFT);
    assert_int_equal(b->link->state, TT_LINK_LEFT);
    end_fini(a);
    end_fini(b);
}

static uint32_t any_size(uint64_t *random_state)
{
    static const uint32_t sizes[] = {0,     1,     63,    4096,   4097,    16383,
                                     16384, 16385, 65536, 262144, 1048575, 1048576};
    const uint64_t draw = next_random(random_state);
    return draw % 4 == 0 ? (uint32_t)(draw >> 8) % 40000
                         : sizes[(draw >> 8) % TT_ARRAY_COUNT(sizes)];
}

static void frames_both_ways(tt_seal_mode mode)
{
    end a;
    end b;
    ends_create(&a, &b, mode);
    uint64_t random_state = 99;
    uint32_t op = 0;
    while (op < 200 || a.arrived_count < 200 || b.arrived_count < 200) {
        if (op < 200) {
            const int32_t urgency = (int32_t)(next_random(&random_state) % 5);
            assert_true(end_send(&a, op, any_size(&random_state), urgency) >= TT_OK);
            assert_true(end_send(&b, op, any_size(&random_state), urgency) >= TT_OK);
            op++;
        }
        if (op == 200 || op % 8 == 0) {
            ends_poll(&a, &b);
        }
    }
    assert_int_equal(a.lent_count + b.lent_count, 0);
    assert_int_equal(a.link->frames_sent, b.link->frames_received);
    assert_int_equal(a.link->bytes_sent, b.link->bytes_received);
    ends_close(&a, &b);
}

static void test_checked_frames_of_every_size_arrive_whole(void **state)
{
    (void)state;
    frames_both_ways(TT_SEAL_CRC);
}

static void test_bare_frames_of_every_size_arrive_whole(void **state)
{
    (void)state;
    frames_both_ways(TT_SEAL_NONE);
}

static void test_sealed_frames_of_every_size_arrive_whole(void **state)
{
    (void)state;
    frames_both_ways(TT_SEAL_AEAD);
}

static void test_ipv6_carries_frames_too(void **state)
{
    (void)state;
    end a;
    end b;
    int there[2];
    int back[2];
    loopback_pair(AF_INET6, there);
    loopback_pair(AF_INET6, back);
    ends_create_over(&a, &b, TT_SEAL_CRC, there, back);
    assert_true(end_send(&a, 0, 100000, 0) >= TT_OK);
    while (b.arrived_count == 0) {
        ends_poll(&a, &b);
    }
    ends_close(&a, &b);
}

static void tiny_stream_pair(int fds[2])
{
    stream_pair(fds);
    const int tiny = 1;
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(setsockopt(fds[i], SOL_SOCKET, SO_SNDBUF, &tiny, sizeof(tiny)), 0);
    }
}

/* Every write is short; payloads are recalled and sinks discarded at random moments. */
static void random_recalls_and_discards(tt_seal_mode mode, uint64_t seed)
{
    end a;
    end b;
    int there[2];
    int back[2];
    tiny_stream_pair(there);
    tiny_stream_pair(back);
    ends_create_over(&a, &b, mode, there, back);
    uint64_t random_state = seed;
    uint32_t op = 0;
    uint32_t gone = 0; /* recalled or discarded: may be missing at b */
    while (op < 120 || a.lent_count > 0) {
        const uint64_t draw = next_random(&random_state);
        if (op < 120) {
            const uint32_t bytes = (uint32_t)(draw >> 20) % 70000;
            assert_true(end_send(&a, op++, bytes, (int32_t)(draw % 3)) >= TT_OK);
        }
        const uint32_t victim = (uint32_t)(draw >> 40) % OP_COUNT_MAX % 120;
        if (draw % 5 == 0 && a.lent[victim] != NULL) {
            a.link->ops->recall(a.link, victim);
            take_back(&a, victim);
            gone++;
        }
        (void)a.link->ops->poll(a.link);
        (void)b.link->ops->poll(b.link);
        if (draw % 11 == 0 && b.sink != NULL) {
            b.link->ops->discard(b.link);
            free(b.sink);
            b.sink = NULL;
            gone++;
        }
    }
    a.link->ops->close(a.link);
    while (!b.link->ops->closed(b.link)) {
        ends_poll(&a, &b);
    }
    assert_string_equal(b.link->why, "said goodbye");
    assert_true(b.arrived_count + gone >= 120);
    assert_true(gone > 0);
    end_fini(&a);
    end_fini(&b);
}

static void test_recall_and_discard_at_any_moment_keep_the_stream_whole(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        random_recalls_and_discards(TT_SEAL_CRC, seed);
        random_recalls_and_discards(TT_SEAL_NONE, seed);
        random_recalls_and_discards(TT_SEAL_AEAD, seed);
    }
}

static void test_recall_of_a_begun_frame_still_delivers_it(void **state)
{
    (void)state;
    end a;
    end b;
    int there[2];
    int back[2];
    tiny_stream_pair(there);
    tiny_stream_pair(back);
    ends_create_over(&a, &b, TT_SEAL_CRC, there, back);
    assert_int_equal(end_send(&a, 0, 300000, 0), TT_IN_PROGRESS);
    a.link->ops->recall(a.link, 0);
    take_back(&a, 0);
    while (b.arrived_count == 0) {
        ends_poll(&a, &b);
    }
    assert_int_equal(a.sent_count, 0);
    ends_close(&a, &b);
}

static void test_frames_that_have_not_begun_are_sent_by_urgency_then_by_age_of_call(void **state)
{
    (void)state;
    end a;
    end b;
    int there[2];
    int back[2];
    tiny_stream_pair(there);
    tiny_stream_pair(back);
    ends_create_over(&a, &b, TT_SEAL_CRC, there, back);
    for (uint32_t op = 0; op < 5; op++) {
        assert_int_equal(end_send(&a, op, 100000, 1), TT_IN_PROGRESS);
    }
    assert_int_equal(end_send(&a, 5, 8, TT_URGENCY_CONTROL), TT_OK);
    assert_int_equal(end_send(&a, 6, 100000, 2), TT_IN_PROGRESS);
    while (b.arrived_count < 7) {
        ends_poll(&a, &b);
    }
    static const uint32_t expected[7] = {0, 5, 6, 4, 3, 2, 1};
    assert_memory_equal(b.order, expected, sizeof(expected));
    ends_close(&a, &b);
}

static void test_dropped_frames_leave_the_next_ones_unharmed(void **state)
{
    (void)state;
    end a;
    end b;
    ends_create(&a, &b, TT_SEAL_CRC);
    b.drops_all = true;
    for (uint32_t op = 0; op < 10; op++) {
        assert_true(end_send(&a, op, op % 2 == 0 ? 1000000 : 10, 0) >= TT_OK);
    }
    while (b.arrived_count < 5) {
        ends_poll(&a, &b);
    }
    ends_close(&a, &b);
}

static void test_everything_queued_before_close_arrives(void **state)
{
    (void)state;
    end a;
    end b;
    int there[2];
    int back[2];
    tiny_stream_pair(there);
    tiny_stream_pair(back);
    ends_create_over(&a, &b, TT_SEAL_CRC, there, back);
    for (uint32_t op = 0; op < 50; op++) {
        assert_true(end_send(&a, op, 20000, 0) >= TT_OK);
    }
    a.link->ops->close(a.link);
    assert_int_equal(end_send(&a, 60, 1, 0), TT_ERR_SHUT_DOWN);
    while (!a.link->ops->closed(a.link)) {
        ends_poll(&a, &b);
    }
    assert_int_equal(b.link->state, TT_LINK_LEFT);
    assert_int_equal(b.arrived_count, 50);
    assert_int_equal(end_send(&b, 0, 1, 0), TT_ERR_PEER_LEFT);
    end_fini(&a);
    end_fini(&b);
}

static void test_a_peer_that_vanishes_is_down(void **state)
{
    (void)state;
    end a;
    end b;
    ends_create(&a, &b, TT_SEAL_CRC);
    assert_true(end_send(&a, 0, 100000, 0) >= TT_OK);
    while (b.arrived_count == 0) {
        ends_poll(&a, &b);
    }
    end_fini(&a);
    while (b.link->state == TT_LINK_UP) {
        ends_wait(&b, &b);
        (void)b.link->ops->poll(b.link);
    }
    assert_int_equal(b.link->state, TT_LINK_DOWN);
    assert_string_equal(b.link->why, "connection closed");
    assert_int_equal(end_send(&b, 0, 1, 0), TT_ERR_PEER_DOWN);
    end_fini(&b);
}

typedef struct recording {
    uint8_t *bytes;
    size_t count;
    uint32_t frame_count;
} recording;

/* The wire bytes of a few frames of every shape, and optionally the goodbye. */
static recording record(tt_seal_mode mode, bool goodbye)
{
    static const uint32_t sizes[] = {5, 0, 700, 18000, 64};
    end a;
    int there[2];
    int back[2];
    stream_pair(there);
    stream_pair(back);
    tt_tcp_config config = {.peer = 3,
                            .send_fd = there[0],
                            .receive_fd = back[0],
                            .mode = mode,
                            .cipher = cipher_here()};
    memset(config.send_key, 1, sizeof(config.send_key));
    end_init(&a, config);
    for (uint32_t op = 0; op < TT_ARRAY_COUNT(sizes); op++) {
        assert_int_equal(end_send(&a, op, sizes[op], 0), TT_OK);
    }
    if (goodbye) {
        a.link->ops->close(a.link);
        (void)a.link->ops->poll(a.link);
    }
    recording result = {.bytes = malloc(65536), .frame_count = TT_ARRAY_COUNT(sizes)};
    ssize_t got;
    while ((got = recv(there[1], result.bytes + result.count, 65536 - result.count, MSG_DONTWAIT)) >
           0) {
        result.count += (size_t)got;
    }
    assert_int_equal(result.count, a.link->bytes_sent);
    close(there[1]);
    close(back[1]);
    end_fini(&a);
    return result;
}

/* Plays bytes to a fresh link until it ends; the machine checks whatever is reported. */
static void play(tt_seal_mode mode, const uint8_t *bytes, size_t count, end *b)
{
    int there[2];
    int back[2];
    stream_pair(there);
    stream_pair(back);
    tt_tcp_config config = {.peer = 3,
                            .send_fd = back[1],
                            .receive_fd = there[1],
                            .mode = mode,
                            .cipher = cipher_here()};
    memset(config.receive_key, 1, sizeof(config.receive_key));
    end_init(b, config);
    assert_int_equal(write(there[0], bytes, count), count);
    close(there[0]);
    (void)shutdown(back[0], SHUT_WR); /* a process that dies ends both sockets */
    while (b->link->state == TT_LINK_UP) {
        (void)b->link->ops->poll(b->link);
    }
    close(back[0]);
}

/* The rejection that the other end sends after a changed frame; the test relays between them. */
static void reject(uint8_t rejection_out[TT_SEAL_REJECTION_BYTES])
{
    recording tape = record(TT_SEAL_AEAD, false);
    int there[2];
    int back[2];
    stream_pair(there);
    stream_pair(back);
    end b;
    tt_tcp_config config = {.peer = 3,
                            .send_fd = back[1],
                            .receive_fd = there[1],
                            .mode = TT_SEAL_AEAD,
                            .cipher = cipher_here()};
    memset(config.receive_key, 1, sizeof(config.receive_key));
    end_init(&b, config);
    tape.bytes[70] ^= 1;
    assert_int_equal(write(there[0], tape.bytes, tape.count), tape.count);
    while (b.link->state == TT_LINK_UP) {
        (void)b.link->ops->poll(b.link);
    }
    assert_false(b.link->is_rejected);
    assert_int_equal(recv(there[0], rejection_out, TT_SEAL_REJECTION_BYTES, 0),
                     TT_SEAL_REJECTION_BYTES);
    close(there[0]);
    close(back[0]);
    end_fini(&b);
    free(tape.bytes);
}

static void test_the_sender_of_a_changed_frame_receives_the_rejection(void **state)
{
    (void)state;
    uint8_t rejection[TT_SEAL_REJECTION_BYTES];
    reject(rejection);
    for (int is_true = 0; is_true < 2; is_true++) {
        int there[2];
        int back[2];
        stream_pair(there);
        stream_pair(back);
        end a;
        tt_tcp_config config = {.peer = 5, .send_fd = there[0], .receive_fd = back[0]};
        memset(config.send_key, 1, sizeof(config.send_key));
        end_init(&a, config);
        rejection[0] ^= !is_true; /* a forged rejection */
        assert_int_equal(write(there[1], rejection, sizeof(rejection)), sizeof(rejection));
        rejection[0] ^= !is_true;
        close(back[1]);
        while (a.link->state == TT_LINK_UP) {
            (void)a.link->ops->poll(a.link);
        }
        assert_int_equal(a.link->state, TT_LINK_DOWN);
        assert_int_equal(a.link->is_rejected, is_true);
        close(there[1]);
        end_fini(&a);
    }
}

static void test_a_stream_cut_at_any_byte_is_down_and_never_wrong(void **state)
{
    (void)state;
    static const tt_seal_mode modes[] = {TT_SEAL_CRC, TT_SEAL_NONE, TT_SEAL_AEAD};
    for (size_t m = 0; m < TT_ARRAY_COUNT(modes); m++) {
        recording tape = record(modes[m], true);
        for (size_t cut = 0; cut < tape.count; cut += (cut > 1200 && cut < 18500) ? 211 : 1) {
            end b;
            play(modes[m], tape.bytes, cut, &b);
            assert_int_equal(b.link->state, TT_LINK_DOWN);
            assert_string_equal(b.link->why, "connection closed");
            end_fini(&b);
        }
        end b;
        play(modes[m], tape.bytes, tape.count, &b);
        assert_int_equal(b.link->state, TT_LINK_LEFT);
        assert_int_equal(b.arrived_count, tape.frame_count);
        end_fini(&b);
        free(tape.bytes);
    }
}

static void test_one_flipped_bit_anywhere_is_down_and_never_delivered(void **state)
{
    (void)state;
    static const tt_seal_mode modes[] = {TT_SEAL_CRC, TT_SEAL_AEAD};
    for (size_t m = 0; m < TT_ARRAY_COUNT(modes); m++) {
        recording tape = record(modes[m], true);
        for (size_t at = 0; at < tape.count; at += (at > 1200 && at < 18500) ? 211 : 1) {
            tape.bytes[at] ^= (uint8_t)(1u << (at % 8));
            end b;
            play(modes[m], tape.bytes, tape.count, &b);
            assert_int_equal(b.link->state, TT_LINK_DOWN);
            assert_non_null(strstr(b.link->why, "from rank 3"));
            assert_true(b.arrived_count < tape.frame_count || at >= tape.count - 64);
            end_fini(&b);
            tape.bytes[at] ^= (uint8_t)(1u << (at % 8));
        }
        free(tape.bytes);
    }
}

static void test_the_error_of_a_wrong_checksum_names_cause_and_rank(void **state)
{
    (void)state;
    recording tape = record(TT_SEAL_CRC, true);
    tape.bytes[TT_SEAL_SEALED_HEAD_BYTES] ^= 1; /* first payload byte of the first frame */
    end b;
    play(TT_SEAL_CRC, tape.bytes, tape.count, &b);
    assert_string_equal(b.link->why, "payload checksum of frame from rank 3 differs");
    assert_int_equal(b.arrived_count, 0);
    end_fini(&b);
    free(tape.bytes);
}

static void test_a_replayed_frame_is_refused(void **state)
{
    (void)state;
    recording tape = record(TT_SEAL_CRC, false);
    const size_t first_bytes = TT_SEAL_SEALED_HEAD_BYTES + 5 + TT_SEAL_CRC_BYTES;
    memcpy(tape.bytes + tape.count, tape.bytes, first_bytes); /* the tape has room to spare */
    end b;
    play(TT_SEAL_CRC, tape.bytes, tape.count + first_bytes, &b);
    assert_int_equal(b.link->state, TT_LINK_DOWN);
    assert_string_equal(b.link->why, "head of frame from rank 3 is not authentic");
    assert_int_equal(b.arrived_count, tape.frame_count);
    end_fini(&b);
    free(tape.bytes);
}

static void test_a_length_beyond_the_limit_is_refused(void **state)
{
    (void)state;
    static const uint32_t lies[] = {TT_PAYLOAD_BYTES_MAX + 1, INT32_MAX, UINT32_C(1) << 31,
                                    UINT32_MAX - 1};
    for (size_t i = 0; i < TT_ARRAY_COUNT(lies); i++) {
        uint8_t key[TT_SEAL_KEY_BYTES];
        memset(key, 1, sizeof(key));
        tt_seal seal;
        assert_int_equal(tt_seal_init(&seal, key), TT_OK);
        const tt_head head = {.payload_bytes = lies[i]};
        uint8_t wire[TT_SEAL_SEALED_HEAD_BYTES];
        assert_int_equal(tt_seal_head(&seal, (const uint8_t *)&head, wire), TT_OK);
        end b;
        play(TT_SEAL_CRC, wire, sizeof(wire), &b);
        assert_int_equal(b.link->state, TT_LINK_DOWN);
        assert_non_null(strstr(b.link->why, "at most 1048576 are allowed"));
        end_fini(&b);
    }
}

static void test_a_frame_too_long_to_send_is_refused(void **state)
{
    (void)state;
    end a;
    end b;
    ends_create(&a, &b, TT_SEAL_CRC);
    assert_int_equal(end_send(&a, 0, TT_PAYLOAD_BYTES_MAX + 1, 0), TT_ERR_BAD_ARGUMENT);
    ends_close(&a, &b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_checked_frames_of_every_size_arrive_whole),
        cmocka_unit_test(test_bare_frames_of_every_size_arrive_whole),
        cmocka_unit_test(test_sealed_frames_of_every_size_arrive_whole),
        cmocka_unit_test(test_ipv6_carries_frames_too),
        cmocka_unit_test(test_recall_and_discard_at_any_moment_keep_the_stream_whole),
        cmocka_unit_test(test_recall_of_a_begun_frame_still_delivers_it),
        cmocka_unit_test(test_frames_that_have_not_begun_are_sent_by_urgency_then_by_age_of_call),
        cmocka_unit_test(test_dropped_frames_leave_the_next_ones_unharmed),
        cmocka_unit_test(test_everything_queued_before_close_arrives),
        cmocka_unit_test(test_a_peer_that_vanishes_is_down),
        cmocka_unit_test(test_a_stream_cut_at_any_byte_is_down_and_never_wrong),
        cmocka_unit_test(test_one_flipped_bit_anywhere_is_down_and_never_delivered),
        cmocka_unit_test(test_the_error_of_a_wrong_checksum_names_cause_and_rank),
        cmocka_unit_test(test_a_replayed_frame_is_refused),
        cmocka_unit_test(test_the_sender_of_a_changed_frame_receives_the_rejection),
        cmocka_unit_test(test_a_length_beyond_the_limit_is_refused),
        cmocka_unit_test(test_a_frame_too_long_to_send_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
