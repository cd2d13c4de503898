/* SPDX-License-Identifier: Apache-2.0
 *
 * shm_test.c - two ends of a link in one process, driven by hand, by two threads, and with a
 * hostile or dying peer. A small recording machine stands above each end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "transport/shm/line_ring.h"
#include "transport/shm/shm.h"

enum { MIB = 1024 * 1024, RING_BYTES = 2048, EVENT_MAX = 64 };

/* Upcalls that a machine received. */
typedef struct box {
    uint8_t *sink; /* for long frames; NULL drops them */
    uint64_t frame_count, payload_count, sent_count;
    uint64_t ops[EVENT_MAX];  /* of completed frames, in order of arrival */
    uint64_t sent[EVENT_MAX]; /* tokens */
    bool mangled;
} box;

/* Every payload is a function of its op, so that a receiver can check it by itself. */
static void fill_payload(uint8_t *bytes, size_t count, uint64_t op)
{
    uint64_t value = op * UINT64_C(0x9e3779b97f4a7c15) + 1;
    for (size_t i = 0; i < count; i++) {
        value = value * UINT64_C(6364136223846793005) + 1442695040888963407;
        bytes[i] = (uint8_t)(value >> 56);
    }
}

static bool payload_is_right(const uint8_t *bytes, size_t count, uint64_t op)
{
    uint64_t value = op * UINT64_C(0x9e3779b97f4a7c15) + 1;
    for (size_t i = 0; i < count; i++) {
        value = value * UINT64_C(6364136223846793005) + 1442695040888963407;
        if (bytes[i] != (uint8_t)(value >> 56)) {
            return false;
        }
    }
    return true;
}

static void box_complete(box *seen, const tt_head *head, const uint8_t *bytes)
{
    if (!payload_is_right(bytes, head->payload_bytes, head->op)) {
        seen->mangled = true;
    }
    if (seen->payload_count < EVENT_MAX) {
        seen->ops[seen->payload_count] = head->op;
    }
    seen->payload_count++;
}

static void *box_frame(void *machine, uint32_t peer, const tt_head *head, const void *payload)
{
    box *seen = machine;
    (void)peer;
    seen->frame_count++;
    if (payload != NULL) {
        box_complete(seen, head, payload);
        return NULL;
    }
    return seen->sink;
}

static void box_payload(void *machine, uint32_t peer, const tt_head *head)
{
    box *seen = machine;
    (void)peer;
    box_complete(seen, head, seen->sink);
}

static void box_sent(void *machine, uint64_t token)
{
    box *seen = machine;
    if (seen->sent_count < EVENT_MAX) {
        seen->sent[seen->sent_count] = token;
    }
    seen->sent_count++;
}

static void box_timer(void *machine)
{
    (void)machine;
}

static void box_peer(void *machine, uint32_t peer, tt_peer_event event, const char *why)
{
    (void)machine;
    (void)peer;
    (void)event;
    (void)why;
}

static bool box_step(void *machine)
{
    (void)machine;
    return false;
}

static const tt_machine_ops BOX_OPS = {
    .frame = box_frame,
    .payload = box_payload,
    .sent = box_sent,
    .timer = box_timer,
    .peer = box_peer,
    .step = box_step,
};

typedef struct pair {
    tt_segment *segments[2];
    tt_link *links[2];
    box boxes[2];
    tt_machine machines[2];
    int sockets[2]; /* owned by the links */
} pair;

static void pair_init_ring(pair *ends, uint32_t ring_bytes)
{
    *ends = (pair){0};
    assert_int_equal(
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends->sockets), 0);
    for (uint32_t i = 0; i < 2; i++) {
        const tt_segment_config config = {
            .local_index = i, .local_count = 2, .ring_bytes = ring_bytes, .arena_bytes = 2 * MIB};
        assert_int_equal(tt_segment_create(&config, &ends->segments[i], NULL), TT_OK);
        ends->boxes[i].sink = malloc(MIB);
        ends->machines[i] = (tt_machine){.ops = &BOX_OPS, .self = &ends->boxes[i]};
    }
    for (uint32_t i = 0; i < 2; i++) {
        const tt_shm_config config = {
            .peer = 1 - i,
            .own = ends->segments[i],
            .theirs = ends->segments[1 - i],
            .socket = ends->sockets[i],
            .pidfd = -1,
            .machine = &ends->machines[i],
        };
        assert_int_equal(tt_shm_link_create(&config, &ends->links[i]), TT_OK);
    }
}

static void pair_init(pair *ends)
{
    pair_init_ring(ends, RING_BYTES);
}

static void pair_fini(pair *ends)
{
    for (int i = 0; i < 2; i++) {
        if (ends->links[i] != NULL) {
            ends->links[i]->ops->destroy(ends->links[i]);
        }
        tt_segment_release(ends->segments[i]);
        free(ends->boxes[i].sink);
    }
}

/* Send one frame; `buffer` must hold it until it is sent. The op doubles as token; later frames
 * belong to older calls, so that order of sending and order of age differ. */
static tt_status send_frame(tt_link *link, uint64_t op, uint8_t *buffer, uint32_t bytes,
                            int32_t urgency)
{
    const tt_head head = {.op = op, .payload_bytes = bytes};
    const tt_send send = {.urgency = urgency,
                          .age = ~op,
                          .token = op,
                          .payload = bytes > 0 ? buffer : NULL,
                          .head = &head};
    fill_payload(buffer, bytes, op);
    return link->ops->send(link, &send);
}

static void poll_both(pair *ends)
{
    bool moved = true;
    while (moved) {
        moved = ends->links[0]->ops->poll(ends->links[0]);
        moved |= ends->links[1]->ops->poll(ends->links[1]);
    }
}

static void test_frames_of_every_size_arrive_unchanged(void **state)
{
    (void)state;
    pair ends;
    pair_init(&ends);
    uint8_t *buffer = malloc(MIB);
    uint64_t op = 0;
    for (uint32_t bytes = 0; bytes <= 1200; bytes++) {
        send_frame(ends.links[0], ++op, buffer, bytes, 0);
        poll_both(&ends);
        assert_int_equal(ends.boxes[1].payload_count, op);
    }
    const uint32_t sizes[] = {16383, 16384, 16385, 65536, MIB - 1, MIB};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        assert_int_equal(send_frame(ends.links[0], ++op, buffer, sizes[i], 0), TT_IN_PROGRESS);
        poll_both(&ends);
        assert_int_equal(ends.boxes[1].payload_count, op);
    }
    assert_false(ends.boxes[1].mangled);
    assert_int_equal(ends.boxes[1].frame_count, op);
    assert_int_equal(ends.links[1]->frames_received, op);
    assert_int_equal(ends.links[0]->bytes_sent, ends.links[1]->bytes_received);
    free(buffer);
    pair_fini(&ends);
}

static void test_waiting_frames_go_by_urgency_then_age(void **state)
{
    (void)state;
    pair ends;
    pair_init(&ends);
    uint8_t *big = malloc(MIB);
    uint8_t small[6][32];
    assert_int_equal(send_frame(ends.links[0], 100, big, 64 * 1024, 0), TT_IN_PROGRESS);
    const int32_t urgencies[6] = {1, 5, 1, TT_URGENCY_CONTROL, 5, -3};
    for (uint64_t i = 0; i < 6; i++) {
        assert_int_equal(send_frame(ends.links[0], i, small[i], 32, urgencies[i]), TT_IN_PROGRESS);
    }
    assert_int_equal(ends.boxes[0].sent_count, 0);
    poll_both(&ends);
    const uint64_t order[7] = {100, 3, 4, 1, 2, 0, 5};
    assert_int_equal(ends.boxes[1].payload_count, 7);
    assert_memory_equal(ends.boxes[1].ops, order, sizeof order);
    assert_memory_equal(ends.boxes[0].sent, order, sizeof order);
    assert_false(ends.boxes[1].mangled);
    free(big);
    pair_fini(&ends);
}

static tt_status post_frame(tt_board *board, uint64_t op, uint8_t *buffer, uint32_t bytes)
{
    const tt_head head = {.op = op, .payload_bytes = bytes};
    const tt_send send = {.peer = TT_PEER_HOST, .payload = buffer, .head = &head};
    fill_payload(buffer, bytes, op);
    return tt_board_post(board, &send);
}

static void test_posts_arrive_unchanged_or_are_refused(void **state)
{
    (void)state;
    pair ends;
    tt_board *board;
    uint8_t buffer[2048];
    uint64_t posted = 0;
    pair_init(&ends);
    assert_int_equal(tt_board_create(ends.segments[0], &ends.links[0], 1, &board), TT_OK);
    for (uint32_t bytes = 0; bytes < sizeof buffer; bytes++) {
        if (post_frame(board, posted + 1, buffer, bytes) == TT_OK) {
            posted++;
        } else { /* longer than a fragment: never taken, else not before the peer has read */
            assert_true(bytes > 448 || posted > ends.boxes[1].payload_count);
            poll_both(&ends);
        }
    }
    poll_both(&ends);
    assert_true(posted > 300);
    assert_int_equal(ends.boxes[1].payload_count, posted);
    assert_false(ends.boxes[1].mangled);
    tt_board_destroy(board);
    pair_fini(&ends);
}

static void test_a_post_waits_for_the_long_frame_that_is_arriving(void **state)
{
    (void)state;
    pair ends;
    tt_board *board;
    uint8_t small[8];
    uint8_t *big = malloc(MIB);
    pair_init(&ends);
    assert_int_equal(tt_board_create(ends.segments[0], &ends.links[0], 1, &board), TT_OK);
    assert_int_equal(send_frame(ends.links[0], 1, big, 64 * 1024, 0), TT_IN_PROGRESS);
    assert_true(ends.links[1]->ops->poll(ends.links[1]));
    assert_int_equal(post_frame(board, 2, small, sizeof small), TT_OK);
    (void)ends.links[1]->ops->poll(ends.links[1]);
    assert_int_equal(ends.boxes[1].frame_count, 1);
    poll_both(&ends);
    assert_int_equal(ends.boxes[1].payload_count, 2);
    assert_int_equal(ends.boxes[1].ops[0], 1);
    assert_int_equal(ends.boxes[1].ops[1], 2);
    assert_false(ends.boxes[1].mangled);
    tt_board_destroy(board);
    free(big);
    pair_fini(&ends);
}

static void test_a_post_arrives_before_the_goodbye_that_followed_it(void **state)
{
    (void)state;
    pair ends;
    tt_board *board;
    uint8_t small[8];
    pair_init(&ends);
    assert_int_equal(tt_board_create(ends.segments[0], &ends.links[0], 1, &board), TT_OK);
    assert_int_equal(post_frame(board, 1, small, sizeof small), TT_OK);
    ends.links[0]->ops->close(ends.links[0]);
    assert_int_equal(post_frame(board, 2, small, sizeof small), TT_ERR_UNSUPPORTED);
    poll_both(&ends);
    assert_int_equal(ends.boxes[1].payload_count, 1);
    assert_int_equal(ends.links[1]->state, TT_LINK_LEFT);
    tt_board_destroy(board);
    pair_fini(&ends);
}

static void test_a_post_of_a_dead_peer_arrives_before_its_end(void **state)
{
    (void)state;
    pair ends;
    tt_board *board;
    uint8_t small[8];
    uint8_t *big = malloc(MIB);
    pair_init(&ends);
    assert_int_equal(tt_board_create(ends.segments[0], &ends.links[0], 1, &board), TT_OK);
    assert_int_equal(send_frame(ends.links[0], 1, big, 64 * 1024, 0), TT_IN_PROGRESS);
    assert_int_equal(post_frame(board, 2, small, sizeof small), TT_OK);
    tt_board_destroy(board);
    ends.links[0]->ops->destroy(ends.links[0]);
    ends.links[0] = NULL;
    ends.links[1]->ready = true;
    while (ends.links[1]->ops->poll(ends.links[1])) {
    }
    assert_int_equal(ends.links[1]->state, TT_LINK_DOWN);
    assert_int_equal(ends.boxes[1].payload_count, 1); /* the long one was cut off */
    assert_int_equal(ends.boxes[1].ops[0], 2);
    free(big);
    pair_fini(&ends);
}

static void test_a_peer_that_corrupts_the_ring_gets_no_posts(void **state)
{
    (void)state;
    pair ends;
    tt_board *board;
    uint8_t small[8];
    uint32_t posted = 0;
    pair_init(&ends);
    assert_int_equal(tt_board_create(ends.segments[0], &ends.links[0], 1, &board), TT_OK);
    tt_ring_control *control = tt_segment_ring(ends.segments[1], 0);
    atomic_store(&control->board_consumed, UINT64_MAX);
    while (post_frame(board, 1, small, sizeof small) == TT_OK) {
        posted++;
    }
    assert_int_equal(posted, RING_BYTES / TT_RING_LINE_BYTES - 1);
    tt_board_destroy(board);
    pair_fini(&ends);
}

static void test_a_frame_that_found_no_room_is_overtaken(void **state)
{
    (void)state;
    pair ends;
    pair_init(&ends);
    uint8_t buffer[2][64];
    uint8_t filler[8];
    uint64_t op = 1000;
    while (send_frame(ends.links[0], op, filler, 0, 0) == TT_OK) {
        op++;
    }
    ends.links[0]->ops->recall(ends.links[0], op);
    send_frame(ends.links[0], 1, buffer[0], 64, 0);
    ends.links[0]->ops->poll(ends.links[0]);
    send_frame(ends.links[0], 2, buffer[1], 64, 9);
    poll_both(&ends);
    const uint64_t count = ends.boxes[1].payload_count;
    assert_int_equal(ends.boxes[1].ops[count - 2], 2);
    assert_int_equal(ends.boxes[1].ops[count - 1], 1);
    pair_fini(&ends);
}

static void test_recalled_payload_may_be_overwritten(void **state)
{
    (void)state;
    pair ends;
    pair_init(&ends);
    uint8_t *begun = malloc(MIB);
    uint8_t waiting[100];
    assert_int_equal(send_frame(ends.links[0], 1, begun, MIB, 0), TT_IN_PROGRESS);
    assert_int_equal(send_frame(ends.links[0], 2, waiting, 100, 0), TT_IN_PROGRESS);
    ends.links[0]->ops->recall(ends.links[0], 1);
    ends.links[0]->ops->recall(ends.links[0], 2);
    ends.links[0]->ops->recall(ends.links[0], 3);
    memset(begun, 0xee, MIB);
    memset(waiting, 0xee, sizeof waiting);
    poll_both(&ends);
    assert_int_equal(ends.boxes[1].payload_count, 1);
    assert_false(ends.boxes[1].mangled);
    assert_int_equal(ends.boxes[0].sent_count, 0);
    free(begun);
    pair_fini(&ends);
}

static void test_a_discarded_sink_is_not_touched_again(void **state)
{
    (void)state;
    pair ends;
    pair_init(&ends);
    uint8_t *buffer = malloc(MIB);
    assert_int_equal(send_frame(ends.links[0], 1, buffer, MIB, 0), TT_IN_PROGRESS);
    ends.links[1]->ops->poll(ends.links[1]);
    assert_int_equal(ends.boxes[1].frame_count, 1);
    ends.links[1]->ops->discard(ends.links[1]);
    memset(ends.boxes[1].sink, 0x55, MIB);
    poll_both(&ends);
    assert_int_equal(ends.boxes[1].payload_count, 0);
    for (size_t i = 0; i < MIB; i++) {
        assert_int_equal(ends.boxes[1].sink[i], 0x55);
    }
    send_frame(ends.links[0], 2, buffer, 20000, 0);
    poll_both(&ends);
    assert_int_equal(ends.boxes[1].payload_count, 1);
    assert_false(ends.boxes[1].mangled);
    free(buffer);
    pair_fini(&ends);
}

static void test_a_goodbye_follows_all_frames_and_outlives_the_socket(void **state)
{
    (void)state;
    pair ends;
    pair_init(&ends);
    uint8_t *buffer = malloc(MIB);
    send_frame(ends.links[0], 1, buffer, 100000, 0);
    ends.links[0]->ops->close(ends.links[0]);
    assert_int_equal(send_frame(ends.links[0], 2, buffer, 0, 0), TT_ERR_SHUT_DOWN);
    assert_false(ends.links[0]->ops->closed(ends.links[0]));
    fill_payload(buffer, 100000, 1);
    while (!ends.links[0]->ops->closed(ends.links[0])) {
        ends.links[0]->ops->poll(ends.links[0]);
        if (!ends.links[0]->ops->closed(ends.links[0])) {
            ends.links[1]->ops->poll(ends.links[1]);
        }
    }
    ends.links[0]->ops->destroy(ends.links[0]);
    ends.links[0] = NULL;
    assert_int_equal(ends.links[1]->state, TT_LINK_UP);
    ends.links[1]->ready = true;
    while (ends.links[1]->ops->poll(ends.links[1])) {
    }
    assert_int_equal(ends.links[1]->state, TT_LINK_LEFT);
    assert_int_equal(ends.boxes[1].payload_count, 1);
    assert_false(ends.boxes[1].mangled);
    assert_int_equal(send_frame(ends.links[1], 3, buffer, 0, 0), TT_ERR_PEER_LEFT);
    free(buffer);
    pair_fini(&ends);
}

static void poll_until_quiet(tt_link *link)
{
    link->ready = true;
    while (link->ops->poll(link)) {
    }
}

static void test_a_goodbye_is_answered(void **state)
{
    (void)state;
    pair ends;
    pair_init(&ends);
    ends.links[0]->ops->close(ends.links[0]);
    poll_until_quiet(ends.links[0]);
    assert_int_equal(ends.links[0]->state, TT_LINK_UP);
    poll_until_quiet(ends.links[1]);
    assert_int_equal(ends.links[1]->state, TT_LINK_LEFT);
    ends.links[1]->ops->destroy(ends.links[1]);
    ends.links[1] = NULL;
    poll_until_quiet(ends.links[0]);
    assert_int_equal(ends.links[0]->state, TT_LINK_LEFT);
    pair_fini(&ends);
}

/* Half a frame is in the ring, so the peer cannot answer the goodbye before it exits. */
static void test_an_exit_after_our_goodbye_is_no_death(void **state)
{
    (void)state;
    pair ends;
    pair_init(&ends);
    uint8_t *buffer = calloc(1, MIB);
    assert_int_equal(send_frame(ends.links[1], 1, buffer, MIB, 0), TT_IN_PROGRESS);
    ends.links[0]->ops->close(ends.links[0]);
    poll_until_quiet(ends.links[0]);
    assert_true(ends.links[0]->ops->closed(ends.links[0]));
    poll_until_quiet(ends.links[1]);
    assert_int_equal(ends.links[1]->state, TT_LINK_LEFT);
    ends.links[1]->ops->destroy(ends.links[1]);
    ends.links[1] = NULL;
    poll_until_quiet(ends.links[0]);
    assert_int_equal(ends.links[0]->state, TT_LINK_LEFT);
    free(buffer);
    pair_fini(&ends);
}

static void test_a_closed_socket_is_down_after_the_last_frame(void **state)
{
    (void)state;
    pair ends;
    pair_init(&ends);
    uint8_t buffer[64];
    assert_int_equal(send_frame(ends.links[0], 1, buffer, 64, 0), TT_OK);
    ends.links[0]->ops->destroy(ends.links[0]);
    ends.links[0] = NULL;
    ends.links[1]->ready = true;
    while (ends.links[1]->ops->poll(ends.links[1])) {
    }
    assert_int_equal(ends.boxes[1].payload_count, 1);
    assert_int_equal(ends.links[1]->state, TT_LINK_DOWN);
    assert_string_equal(ends.links[1]->why, "connection closed");
    assert_int_equal(send_frame(ends.links[1], 3, buffer, 0, 0), TT_ERR_PEER_DOWN);
    pair_fini(&ends);
}

static int bell_count(int socket)
{
    char bells[64];
    const ssize_t count = recv(socket, bells, sizeof bells, MSG_DONTWAIT);
    return count < 0 ? 0 : (int)count;
}

static void test_only_a_sleeping_peer_is_woken_and_only_once(void **state)
{
    (void)state;
    pair ends;
    pair_init(&ends);
    uint8_t buffer[8];
    _Atomic uint32_t *word = tt_segment_wake_word(ends.segments[1]);
    send_frame(ends.links[0], 1, buffer, 8, 0);
    atomic_store(word, TT_WAKE_LINGERING);
    send_frame(ends.links[0], 2, buffer, 8, 0);
    assert_int_equal(bell_count(ends.sockets[1]), 0);
    atomic_store(word, TT_WAKE_ASLEEP);
    send_frame(ends.links[0], 3, buffer, 8, 0);
    send_frame(ends.links[0], 4, buffer, 8, 0);
    assert_int_equal(bell_count(ends.sockets[1]), 1);
    assert_int_equal(atomic_load(word), TT_WAKE_DRIVING);
    pair_fini(&ends);
}

static void test_a_sleeping_peer_that_waits_for_room_is_woken(void **state)
{
    (void)state;
    pair ends;
    pair_init(&ends);
    uint8_t *buffer = malloc(MIB);
    _Atomic uint32_t *word = tt_segment_wake_word(ends.segments[0]);
    uint8_t small[8];
    send_frame(ends.links[0], 1, small, 8, 0);
    atomic_store(word, TT_WAKE_ASLEEP);
    ends.links[1]->ops->poll(ends.links[1]);
    assert_int_equal(bell_count(ends.sockets[0]), 0); /* it has nothing to write: it may sleep */
    assert_int_equal(send_frame(ends.links[0], 2, buffer, MIB, 0), TT_IN_PROGRESS);
    ends.links[1]->ops->poll(ends.links[1]);
    assert_int_equal(bell_count(ends.sockets[0]), 1);
    free(buffer);
    pair_fini(&ends);
}

static void test_corrupt_rings_never_crash_and_end_in_down(void **state)
{
    (void)state;
    uint32_t seed = 99;
    int down_count = 0;
    uint8_t *buffer = malloc(MIB);
    for (int round = 0; round < 200; round++) {
        pair ends;
        pair_init(&ends);
        send_frame(ends.links[0], 1, buffer, 60000, 0);
        ends.links[1]->ops->poll(ends.links[1]);
        ends.links[0]->ops->poll(ends.links[0]);
        uint8_t *ring = tt_segment_ring(ends.segments[1], 0);
        const size_t ring_bytes = sizeof(tt_ring_control) + RING_BYTES;
        const int spots = round % 3 == 0 ? (int)ring_bytes : 1 + round % 40;
        for (int i = 0; i < spots; i++) {
            seed = seed * 1664525 + 1013904223;
            ring[(seed >> 8) % ring_bytes] = (uint8_t)(seed >> 24);
        }
        for (int i = 0; i < 100; i++) {
            ends.links[0]->ops->poll(ends.links[0]);
            ends.links[1]->ops->poll(ends.links[1]);
        }
        for (int i = 0; i < 2; i++) {
            if (ends.links[i]->state == TT_LINK_DOWN) {
                assert_string_equal(ends.links[i]->why, "malformed frame in shared memory");
                down_count++;
            }
        }
        pair_fini(&ends);
    }
    assert_true(down_count > 60);
    free(buffer);
}

static void test_heads_and_fragments_that_do_not_fit_are_malformed(void **state)
{
    (void)state;
    const struct {
        tt_ring_kind kind;
        uint32_t bytes, total;
    } cases[] = {
        {TT_RING_NEXT, 8, 8},        {TT_RING_FIRST, 8, 4},          {TT_RING_FIRST, 0, 4},
        {TT_RING_FIRST, 8, MIB + 1}, {TT_RING_FIRST, 8, UINT32_MAX}, {TT_RING_GOODBYE, 1, 0},
    };
    const uint8_t payload[64] = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pair ends;
        pair_init(&ends);
        tt_ring_out forged;
        const tt_head head = {.payload_bytes = cases[i].total};
        tt_ring_out_init(&forged, tt_segment_ring(ends.segments[1], 0), RING_BYTES);
        tt_ring_put(&forged, cases[i].kind, &head, payload, cases[i].bytes);
        ends.links[1]->ops->poll(ends.links[1]);
        assert_int_equal(ends.links[1]->state, TT_LINK_DOWN);
        assert_int_equal(ends.boxes[1].frame_count, 0);
        pair_fini(&ends);
    }
}

enum { STORM_FRAMES = 100000, STORM_BUFFERS = 64, STORM_BYTES = 40000 };

typedef struct storm {
    tt_link *link;
    box *seen;
    uint32_t seed;
} storm;

static uint32_t storm_bytes(uint32_t *seed)
{
    *seed = *seed * 1664525 + 1013904223;
    const uint32_t value = *seed >> 8;
    return value % 50 == 0 ? value % STORM_BYTES : value % 200;
}

static void *storm_run(void *argument)
{
    storm *self = argument;
    uint8_t *buffers = malloc((size_t)STORM_BUFFERS * STORM_BYTES);
    uint64_t sent = 0;
    uint64_t borrowed = 0;
    while (sent < STORM_FRAMES || self->seen->payload_count < STORM_FRAMES ||
           self->seen->sent_count < borrowed) {
        bool moved = self->link->ops->poll(self->link);
        /* A buffer is reused only when no payload is borrowed. */
        for (int i = 0; i < STORM_BUFFERS && sent < STORM_FRAMES; i++) {
            if (self->seen->sent_count < borrowed && i == 0) {
                break;
            }
            sent++;
            const tt_status status =
                send_frame(self->link, sent, buffers + (size_t)i * STORM_BYTES,
                           storm_bytes(&self->seed), (int32_t)(self->seed >> 30));
            borrowed += status == TT_IN_PROGRESS;
            moved = true;
        }
        if (!moved) {
            sched_yield();
        }
    }
    free(buffers);
    return NULL;
}

static void test_two_threads_exchange_a_storm_of_frames(void **state)
{
    (void)state;
    pair ends;
    pair_init_ring(&ends, 16384);
    storm storms[2];
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        storms[i] =
            (storm){.link = ends.links[i], .seen = &ends.boxes[i], .seed = 17 + (uint32_t)i};
        assert_int_equal(pthread_create(&threads[i], NULL, storm_run, &storms[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ends.boxes[i].payload_count, STORM_FRAMES);
        assert_false(ends.boxes[i].mangled);
        assert_int_equal(ends.links[i]->state, TT_LINK_UP);
    }
    pair_fini(&ends);
}

/* In the child: attach as rank 0, send two frames, let a grandchild keep all descriptors, wait. */
static void doomed_child(pair *ends, int ready_pipe)
{
    uint8_t buffer[128];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    send_frame(ends->links[0], 1, buffer, 128, 0);
    send_frame(ends->links[0], 2, buffer, 128, 0);
    const pid_t grandchild = fork();
    if (grandchild == 0) {
        alarm(60); /* ends the child even if the test fails */
        pause();
        _exit(0);
    }
    (void)!write(ready_pipe, &grandchild, sizeof grandchild);
    pause();
    _exit(0);
}

static void test_a_killed_peer_is_detected_although_its_child_keeps_the_socket(void **state)
{
    (void)state;
    pair ends;
    pair_init(&ends);
    int pipe_ends[2];
    assert_int_equal(pipe(pipe_ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        doomed_child(&ends, pipe_ends[1]);
    }
    pid_t grandchild = -1;
    assert_int_equal(read(pipe_ends[0], &grandchild, sizeof grandchild), sizeof grandchild);
    const tt_shm_config config = {
        .peer = 0,
        .own = ends.segments[1],
        .theirs = ends.segments[0],
        .socket = dup(ends.sockets[1]),
        .pidfd = (int)syscall(SYS_pidfd_open, child, 0),
        .machine = &ends.machines[1],
    };
    tt_link *link = NULL;
    assert_int_equal(tt_shm_link_create(&config, &link), TT_OK);
    ends.links[0]->ops->destroy(ends.links[0]);
    ends.links[0] = NULL;
    link->ready = true;
    link->ops->poll(link);
    assert_int_equal(link->state, TT_LINK_UP);
    kill(child, SIGKILL);
    int fds[2];
    bool wants_write[2];
    link->ops->descriptors(link, fds, wants_write);
    struct pollfd watch[2] = {{.fd = fds[0], .events = POLLIN}, {.fd = fds[1], .events = POLLIN}};
    assert_int_equal(poll(watch, 2, 10000), 1);
    assert_int_equal(watch[0].revents, 0); /* the grandchild holds the socket */
    link->ready = true;
    while (link->ops->poll(link)) {
    }
    assert_int_equal(link->state, TT_LINK_DOWN);
    assert_string_equal(link->why, "exited");
    assert_int_equal(ends.boxes[1].payload_count, 2);
    kill(grandchild, SIGKILL);
    waitpid(child, NULL, 0);
    link->ops->destroy(link);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    pair_fini(&ends);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frames_of_every_size_arrive_unchanged),
        cmocka_unit_test(test_waiting_frames_go_by_urgency_then_age),
        cmocka_unit_test(test_posts_arrive_unchanged_or_are_refused),
        cmocka_unit_test(test_a_post_waits_for_the_long_frame_that_is_arriving),
        cmocka_unit_test(test_a_post_arrives_before_the_goodbye_that_followed_it),
        cmocka_unit_test(test_a_post_of_a_dead_peer_arrives_before_its_end),
        cmocka_unit_test(test_a_peer_that_corrupts_the_ring_gets_no_posts),
        cmocka_unit_test(test_a_frame_that_found_no_room_is_overtaken),
        cmocka_unit_test(test_recalled_payload_may_be_overwritten),
        cmocka_unit_test(test_a_discarded_sink_is_not_touched_again),
        cmocka_unit_test(test_a_goodbye_follows_all_frames_and_outlives_the_socket),
        cmocka_unit_test(test_a_goodbye_is_answered),
        cmocka_unit_test(test_an_exit_after_our_goodbye_is_no_death),
        cmocka_unit_test(test_a_closed_socket_is_down_after_the_last_frame),
        cmocka_unit_test(test_only_a_sleeping_peer_is_woken_and_only_once),
        cmocka_unit_test(test_a_sleeping_peer_that_waits_for_room_is_woken),
        cmocka_unit_test(test_corrupt_rings_never_crash_and_end_in_down),
        cmocka_unit_test(test_heads_and_fragments_that_do_not_fit_are_malformed),
        cmocka_unit_test(test_two_threads_exchange_a_storm_of_frames),
        cmocka_unit_test(test_a_killed_peer_is_detected_although_its_child_keeps_the_socket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
