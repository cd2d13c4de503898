/* SPDX-License-Identifier: Apache-2.0
 *
 * shm_apart_test.c - links that are apart: frames pass, posts do not, and posts of others that
 * overwrite the board many times do no harm. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sys/socket.h>

#include "transport/shm/line_ring.h"
#include "transport/shm/shm.h"

enum { RING_BYTES = TT_SEGMENT_RING_BYTES_MIN, ARENA_BYTES = 4 * 1024 * 1024 };

typedef struct box {
    uint32_t frame_count;
    uint64_t last_op;
} box;

static void *on_frame(void *machine, uint32_t peer, const tt_head *head, const void *payload)
{
    box *self = machine;
    (void)peer, (void)payload;
    self->frame_count++;
    self->last_op = head->op;
    return NULL;
}

static void on_peer(void *machine, uint32_t peer, tt_peer_event event, const char *why)
{
    (void)machine, (void)peer, (void)event, (void)why;
}

static const tt_machine_ops BOX_OPS = {.frame = on_frame, .peer = on_peer};

typedef struct pair {
    tt_segment *segments[2];
    tt_link *links[2];
    box boxes[2];
    tt_machine machines[2];
} pair;

static void pair_init(pair *ends)
{
    int sockets[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets),
                     0);
    for (uint32_t i = 0; i < 2; i++) {
        const tt_segment_config config = {.local_index = i,
                                          .local_count = 2,
                                          .ring_bytes = RING_BYTES,
                                          .arena_bytes = ARENA_BYTES};
        assert_int_equal(tt_segment_create(&config, &ends->segments[i], NULL), TT_OK);
        ends->boxes[i] = (box){0};
        ends->machines[i] = (tt_machine){.ops = &BOX_OPS, .self = &ends->boxes[i]};
    }
    for (uint32_t i = 0; i < 2; i++) {
        const tt_shm_config config = {.peer = 1 - i,
                                      .own = ends->segments[i],
                                      .theirs = ends->segments[1 - i],
                                      .socket = sockets[i],
                                      .pidfd = -1,
                                      .machine = &ends->machines[i],
                                      .is_apart = true};
        assert_int_equal(tt_shm_link_create(&config, &ends->links[i]), TT_OK);
    }
}

static void poll_both(pair *ends)
{
    bool has_moved = true;
    while (has_moved) {
        has_moved = ends->links[0]->ops->poll(ends->links[0]);
        has_moved = ends->links[1]->ops->poll(ends->links[1]) || has_moved;
    }
}

static void test_an_apart_link_carries_frames_and_no_posts(void **state)
{
    (void)state;
    pair ends;
    tt_board *board;
    const tt_head head = {.op = 5, .payload_bytes = 0};
    const tt_send post = {.peer = TT_PEER_HOST, .token = TT_TOKEN_NONE, .head = &head};
    const tt_send send = {.peer = 1, .token = TT_TOKEN_NONE, .head = &head};
    pair_init(&ends);
    /* Its readers are other ranks, which are not here: it always has room. */
    assert_int_equal(tt_board_create(ends.segments[0], NULL, 0, &board), TT_OK);
    for (uint32_t i = 0; i < 4 * RING_BYTES / TT_RING_LINE_BYTES; i++) {
        assert_int_equal(tt_board_post(board, &post), TT_OK);
        poll_both(&ends);
        assert_true(tt_link_is_quiet(ends.links[1]));
    }
    assert_int_equal(ends.boxes[1].frame_count, 0);
    assert_int_equal(ends.links[0]->ops->send(ends.links[0], &send), TT_OK);
    assert_false(tt_link_is_quiet(ends.links[1]));
    poll_both(&ends);
    assert_int_equal(ends.boxes[1].frame_count, 1);
    assert_int_equal(ends.boxes[1].last_op, 5);
    ends.links[0]->ops->close(ends.links[0]);
    poll_both(&ends);
    assert_int_equal(ends.links[1]->state, TT_LINK_LEFT);
    tt_board_destroy(board);
    for (int i = 0; i < 2; i++) {
        ends.links[i]->ops->destroy(ends.links[i]);
        tt_segment_release(ends.segments[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_apart_link_carries_frames_and_no_posts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
