/* SPDX-License-Identifier: Apache-2.0
 *
 * outside_test.c - links over a plugin's transport: the frames it gets, and their order.
 *
 * Method: a transport that keeps long frames until the test releases one. Both ends of a link are
 * in one process; goodbyes and addresses go over real sockets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <sys/socket.h>

#include "base/base.h"
#include "transport/outside.h"

enum { LONG_BYTES = 64 * 1024, FRAMES_MAX = 32 };

/* ---- a transport that holds long frames ---- */

struct tutti_transport {
    int unused;
};

struct tutti_link {
    tutti_link_upcalls upcalls;
    void *user;
    uint64_t flying[FRAMES_MAX]; /* tokens, oldest first */
    uint32_t flying_count;
    uint64_t order[FRAMES_MAX]; /* tokens of all frames handed over */
    uint32_t order_count;
    bool may_go; /* the next poll ends the oldest */
};

static struct tutti_transport transport_made;
static struct tutti_link link_made;

static int fake_open(const tutti_plugin_host *host, tutti_transport **out, char *why)
{
    (void)host;
    (void)why;
    *out = &transport_made;
    return TUTTI_OK;
}

static void fake_close(tutti_transport *self)
{
    (void)self;
}

static int fake_address(tutti_transport *self, void *bytes, size_t *count)
{
    (void)self;
    *(char *)bytes = 'a';
    *count = 1;
    return TUTTI_OK;
}

static int fake_connect(tutti_transport *self, const tutti_link_place *place, tutti_link **out)
{
    (void)self;
    assert_int_equal(1, place->address_bytes);
    link_made = (tutti_link){.may_go = false};
    *out = &link_made;
    return TUTTI_OK;
}

static void fake_disconnect(tutti_link *self)
{
    (void)self;
}

static void fake_attach(tutti_link *self, const tutti_link_upcalls *upcalls, void *user)
{
    self->upcalls = *upcalls;
    self->user = user;
}

static int fake_send(tutti_link *self, const tutti_frame *frame)
{
    self->order[self->order_count++] = frame->token;
    if (frame->payload_bytes < LONG_BYTES) {
        return TUTTI_OK;
    }
    self->flying[self->flying_count++] = frame->token;
    return TUTTI_IN_PROGRESS;
}

static void fake_recall(tutti_link *self, uint64_t token)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < self->flying_count; i++) {
        if (self->flying[i] != token) {
            self->flying[kept++] = self->flying[i];
        }
    }
    self->flying_count = kept;
}

static int fake_poll(tutti_transport *self)
{
    (void)self;
    if (!link_made.may_go || link_made.flying_count == 0) {
        return 0;
    }
    const uint64_t token = link_made.flying[0];
    link_made.may_go = false;
    fake_recall(&link_made, token);
    link_made.upcalls.sent(link_made.user, token);
    return 1;
}

static int fake_descriptor(const tutti_transport *self)
{
    (void)self;
    return -1;
}

static int fake_arm(tutti_transport *self)
{
    (void)self;
    return 0;
}

static int fake_is_idle(const tutti_link *self)
{
    return self->flying_count == 0;
}

static int fake_state(const tutti_link *self, char *why)
{
    (void)self;
    (void)why;
    return 0;
}

static const tutti_transport_ops fake_ops = {
    .struct_bytes = sizeof(tutti_transport_ops),
    .flags = TUTTI_TRANSPORT_POLLED,
    .open = fake_open,
    .close = fake_close,
    .address = fake_address,
    .connect = fake_connect,
    .disconnect = fake_disconnect,
    .attach = fake_attach,
    .send = fake_send,
    .recall = fake_recall,
    .poll = fake_poll,
    .descriptor = fake_descriptor,
    .arm = fake_arm,
    .is_idle = fake_is_idle,
    .state = fake_state,
};

/* ---- a machine that counts ---- */

static uint64_t told[FRAMES_MAX];
static uint32_t told_count;

static void on_sent(void *machine, uint64_t token)
{
    (void)machine;
    told[told_count++] = token;
}

static const tt_machine_ops machine_ops = {.sent = on_sent};
static const tt_machine machine = {.ops = &machine_ops};

typedef struct fixture {
    tt_outside *outside;
    tt_link *link;
    uint64_t age; /* of the calls whose frames are sent */
    uint8_t payload[LONG_BYTES];
} fixture;

static int setup(void **state)
{
    static fixture self;
    static const uint8_t key[TT_OUTSIDE_KEY_BYTES] = {1};
    static const tutti_plugin plugin = {.abi = TUTTI_PLUGIN_ABI, .transport = &fake_ops};
    const tutti_plugin_host host = {.struct_bytes = sizeof(host), .size = 2};
    char why[TUTTI_PLUGIN_WHY_BYTES];
    int fds[2];
    assert_int_equal(0, socketpair(AF_UNIX, SOCK_STREAM, 0, fds));
    const tt_outside_config config = {
        .peer = 1, .send_fd = fds[0], .receive_fd = fds[1], .send_key = key, .receive_key = key};
    assert_int_equal(TT_OK, tt_outside_open(&plugin, &host, &self.outside, why));
    assert_int_equal(TT_OK, tt_outside_greet(self.outside, &config)); /* to itself */
    assert_int_equal(TT_OK, tt_outside_link_create(self.outside, &config, 1000, &self.link));
    self.link->machine = &machine;
    told_count = 0;
    *state = &self;
    return 0;
}

static int teardown(void **state)
{
    fixture *self = *state;
    self->link->ops->destroy(self->link);
    tt_outside_release(self->outside);
    return 0;
}

static tt_status send_frame(fixture *self, uint64_t token, int32_t urgency, uint32_t bytes)
{
    const tt_head head = {.payload_bytes = bytes};
    const tt_send send = {.peer = 1,
                          .urgency = urgency,
                          .age = self->age,
                          .token = token,
                          .payload = self->payload,
                          .head = &head};
    return self->link->ops->send(self->link, &send);
}

static void let_one_go(fixture *self)
{
    link_made.may_go = true;
    (void)self->link->ops->poll(self->link);
}

/* ---- claims ---- */

static void test_at_most_two_long_frames_are_with_the_plugin(void **state)
{
    fixture *self = *state;
    for (uint64_t token = 1; token <= 6; token++) {
        assert_int_equal(TT_IN_PROGRESS, send_frame(self, token, 0, LONG_BYTES));
        assert_true(link_made.flying_count <= 2);
    }
    for (uint32_t gone = 1; gone <= 6; gone++) {
        let_one_go(self);
        assert_true(link_made.flying_count <= 2);
        assert_int_equal(gone, told_count);
        assert_int_equal(gone, told[gone - 1]);
    }
    assert_true(self->link->ops->idle(self->link));
}

static void test_an_urgent_frame_overtakes_all_but_those_two(void **state)
{
    fixture *self = *state;
    for (uint64_t token = 1; token <= 5; token++) {
        assert_int_equal(TT_IN_PROGRESS, send_frame(self, token, 0, LONG_BYTES));
    }
    assert_int_equal(TT_IN_PROGRESS, send_frame(self, 6, 3, LONG_BYTES));
    assert_int_equal(TT_IN_PROGRESS, send_frame(self, 7, 9, 64));
    let_one_go(self);
    static const uint64_t order[] = {1, 2, 7, 6};
    assert_int_equal(4, link_made.order_count); /* the short one was sent together with the next */
    assert_memory_equal(order, link_made.order, sizeof(order));
}

static void test_of_equal_urgency_frames_of_the_older_call_go_first(void **state)
{
    fixture *self = *state;
    static const uint64_t ages[] = {5, 5, 5, 3, 4, 3};
    for (uint64_t i = 0; i < 6; i++) {
        self->age = ages[i];
        assert_int_equal(TT_IN_PROGRESS, send_frame(self, i + 1, 0, LONG_BYTES));
    }
    self->age = 0;
    for (int i = 0; i < 4; i++) {
        let_one_go(self);
    }
    static const uint64_t order[] = {1, 2, 4, 6, 5, 3};
    assert_int_equal(6, link_made.order_count);
    assert_memory_equal(order, link_made.order, sizeof(order));
}

static void test_a_recalled_frame_is_not_sent(void **state)
{
    fixture *self = *state;
    for (uint64_t token = 1; token <= 4; token++) {
        assert_int_equal(TT_IN_PROGRESS, send_frame(self, token, 0, LONG_BYTES));
    }
    self->link->ops->recall(self->link, 3); /* in the queue */
    self->link->ops->recall(self->link, 1); /* with the plugin */
    let_one_go(self);
    let_one_go(self);
    static const uint64_t order[] = {1, 2, 4};
    assert_int_equal(3, link_made.order_count);
    assert_memory_equal(order, link_made.order, sizeof(order));
    assert_int_equal(2, told_count);
    assert_true(self->link->ops->idle(self->link));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_at_most_two_long_frames_are_with_the_plugin, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_an_urgent_frame_overtakes_all_but_those_two, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_of_equal_urgency_frames_of_the_older_call_go_first,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_recalled_frame_is_not_sent, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
