/* SPDX-License-Identifier: Apache-2.0
 *
 * real_engine_test.c - the real driver and an engine that signals landed ops by an eventfd, or that
 * must be polled; and peers that die meanwhile.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/eventfd.h>
#include <unistd.h>

#include "platform/real_internal.h"

static const uint64_t LIMIT_NS = UINT64_C(60) * 1000000000; /* of waits that would hang */

struct tutti_engine {
    int fd;
    bool has_descriptor;
    uint64_t token; /* of the op it has */
    uint32_t test_count;
    uint32_t test_us; /* duration of each test, as if another thread had the core */
};

static int fake_launch(tutti_engine *engine, const tutti_engine_op *op, uint64_t token)
{
    (void)op;
    engine->token = token;
    return TUTTI_IN_PROGRESS;
}

static int fake_test(tutti_engine *engine, uint64_t *tokens, int *statuses, int capacity)
{
    uint64_t rings = 0;
    (void)capacity;
    engine->test_count++;
    (void)usleep(engine->test_us);
    if (read(engine->fd, &rings, sizeof(rings)) != (ssize_t)sizeof(rings)) {
        return 0;
    }
    tokens[0] = engine->token;
    statuses[0] = TUTTI_OK;
    return 1;
}

static int fake_descriptor(const tutti_engine *engine)
{
    return engine->has_descriptor ? engine->fd : -1;
}

static const tutti_engine_ops fake_ops = {.struct_bytes = sizeof(tutti_engine_ops),
                                          .thread_level = TUTTI_THREAD_SERIALIZED,
                                          .launch = fake_launch,
                                          .test = fake_test,
                                          .descriptor = fake_descriptor};

/* A peer through memory that sends nothing, and whose descriptor signals only its end. */
typedef struct quiet_link {
    tt_link link;
    _Atomic uint64_t arrivals;
    int fd;
    bool is_busy; /* has something to send */
} quiet_link;

static void quiet_descriptors(const tt_link *link, int fds[2], bool wants_write[2])
{
    fds[0] = ((const quiet_link *)link)->fd;
    wants_write[0] = false;
}

static bool quiet_poll(tt_link *link)
{
    link->state = link->ready ? TT_LINK_DOWN : TT_LINK_UP;
    return link->ready;
}

static bool quiet_idle(const tt_link *link)
{
    return !((const quiet_link *)link)->is_busy;
}

static void quiet_destroy(tt_link *link)
{
    close(((quiet_link *)link)->fd);
}

static const tt_link_ops quiet_ops = {.name = "quiet",
                                      .polls_memory = true,
                                      .poll = quiet_poll,
                                      .descriptors = quiet_descriptors,
                                      .idle = quiet_idle,
                                      .destroy = quiet_destroy};

/* One rank and its engine, alone or with a peer. */
typedef struct world {
    tutti_engine engine;
    quiet_link peer;
    bool is_peer_down;
    tt_real *real;
    uint64_t landed; /* the last token */
} world;

static void on_landed(void *machine, uint64_t token, tt_status status)
{
    assert_int_equal(status, TT_OK);
    ((world *)machine)->landed = token;
}

static bool on_step(void *machine)
{
    (void)machine;
    return false;
}

static void on_peer(void *machine, uint32_t peer, tt_peer_event event, const char *why)
{
    (void)peer;
    (void)why;
    ((world *)machine)->is_peer_down = event == TT_PEER_DOWN;
}

static const tt_machine_ops machine_ops = {.step = on_step, .landed = on_landed, .peer = on_peer};

static void begin_with(world *self, bool has_descriptor, uint32_t rank_count)
{
    *self = (world){.engine = {.has_descriptor = has_descriptor}};
    self->peer.link = (tt_link){
        .ops = &quiet_ops, .peer = 1, .arrivals = {&self->peer.arrivals, &self->peer.arrivals}};
    const tt_real_peer peers[2] = {{0}, {.link = &self->peer.link}};
    self->engine.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    self->peer.fd = rank_count > 1 ? eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC) : -1;
    assert_true(self->engine.fd >= 0);
    const tt_real_config config = {.rank_count = rank_count,
                                   .peers = peers,
                                   .engine = {.ops = &fake_ops, .self = &self->engine}};
    assert_int_equal(tt_real_create(&config, &self->real), TT_OK);
    const tt_machine machine = {.ops = &machine_ops, .self = self};
    tt_real_attach(self->real, &machine);
}

static void begin(world *self, bool has_descriptor)
{
    begin_with(self, has_descriptor, 1);
}

static void end(world *self)
{
    tt_real_close(self->real, 0);
    close(self->engine.fd);
}

static void launch(world *self, uint64_t token, uint32_t flying)
{
    const tt_launch op = {.token = token};
    tt_platform *platform = tt_real_platform(self->real);
    platform->ops->launch(platform, &op);
    while (tt_real_poll(self->real)) {
    }
    assert_int_equal(tt_real_engine_flying(self->real), flying);
}

static void ring_at(int fd)
{
    const uint64_t one = 1;
    assert_int_equal(write(fd, &one, sizeof(one)), sizeof(one));
}

static void ring(world *self)
{
    ring_at(self->engine.fd);
}

static bool never(void *argument)
{
    (void)argument;
    return false;
}

/* Sleeps, and returns the time until which it would have slept. */
static uint64_t sleep_until(world *self, uint64_t until_ns)
{
    uint64_t told_ns = 0;
    while (!tt_real_sleep_begin(self->real, until_ns, &told_ns)) {
    }
    return told_ns;
}

static void test_an_engine_with_a_descriptor_is_slept_on(void **state)
{
    (void)state;
    world self;
    begin(&self, true);
    for (uint64_t token = 7; token < 9; token++) {
        launch(&self, token, 1);
        const uint64_t limit_ns = tt_real_clock() + LIMIT_NS;
        assert_false(tt_real_spin(self.real, never, NULL, limit_ns));
        assert_true(tt_real_clock() < limit_ns); /* the spin ended, to sleep */
        assert_true(sleep_until(&self, UINT64_MAX) == UINT64_MAX);
        const uint32_t test_count = self.engine.test_count;
        ring(&self);
        tt_real_sleep_block(self.real, limit_ns);
        assert_true(tt_real_clock() < limit_ns);
        assert_int_equal(self.engine.test_count, test_count);
        tt_real_sleep_end(self.real);
        assert_true(tt_real_poll(self.real));
        assert_int_equal(self.landed, token);
    }
    end(&self);
}

static void test_a_spurious_signal_does_not_prevent_sleep(void **state)
{
    (void)state;
    world self;
    begin(&self, true);
    launch(&self, 1, 1);
    (void)sleep_until(&self, UINT64_MAX); /* watched from now on */
    ring(&self);
    tt_real_sleep_block(self.real, UINT64_MAX);
    tt_real_sleep_end(self.real);
    assert_true(tt_real_poll(self.real));
    ring(&self); /* and no thread reads it */
    const uint64_t until_ns = tt_real_clock() + 20 * 1000 * 1000;
    tt_real_sleep_block(self.real, sleep_until(&self, until_ns));
    assert_true(tt_real_clock() >= until_ns);
    tt_real_sleep_end(self.real);
    launch(&self, 2, 0); /* it has rung */
    assert_int_equal(self.landed, 2);
    end(&self);
}

static void test_an_engine_without_a_descriptor_is_polled_again(void **state)
{
    (void)state;
    world self;
    begin(&self, false);
    launch(&self, 1, 1);
    const uint64_t told_ns = sleep_until(&self, UINT64_MAX);
    assert_true(told_ns < UINT64_MAX);
    tt_real_sleep_block(self.real, told_ns);
    tt_real_sleep_end(self.real);
    const uint64_t until_ns = tt_real_clock() + 20 * 1000 * 1000;
    assert_false(tt_real_spin(self.real, never, NULL, until_ns));
    assert_true(tt_real_clock() >= until_ns); /* a waiting thread keeps polling */
    ring(&self);
    assert_true(tt_real_poll(self.real));
    assert_int_equal(self.landed, 1);
    end(&self);
}

/* While no thread waits; each pause is read from the driver, not timed. */
static void test_a_slow_engine_is_polled_ever_less_often(void **state)
{
    (void)state;
    world self;
    begin(&self, false);
    for (uint64_t token = 1; token < 3; token++) { /* a new launch begins anew */
        launch(&self, token, 1);
        const uint64_t first_ns = self.real->engine_nap;
        for (uint64_t nap_ns = first_ns; nap_ns < 1000 * 1000; nap_ns *= 2) {
            assert_int_equal(self.real->engine_nap, nap_ns);
            (void)tt_real_engine_due(self.real);
        }
        assert_int_equal(self.real->engine_nap, 1000 * 1000);
        (void)tt_real_engine_due(self.real);
        assert_int_equal(self.real->engine_nap, 1000 * 1000); /* and no more */
        assert_in_range(first_ns, 1, 100 * 1000);
        ring(&self);
        assert_true(tt_real_poll(self.real));
        assert_int_equal(self.landed, token);
    }
    end(&self);
}

/* A blocked engine does not drive our links, and a peer may need a queued frame to reach the call.
 */
static void test_a_blocking_launch_waits_until_all_is_sent(void **state)
{
    (void)state;
    world self;
    begin_with(&self, false, 2);
    tt_platform *platform = tt_real_platform(self.real);
    const tt_launch blocking = {.token = 5, .may_block = true};
    self.peer.is_busy = true;
    platform->ops->launch(platform, &blocking);
    (void)tt_real_poll(self.real);
    assert_int_equal(self.engine.token, 0);
    self.peer.is_busy = false;
    (void)tt_real_poll(self.real);
    assert_int_equal(self.engine.token, 5);
    ring(&self);
    assert_true(tt_real_poll(self.real));
    self.peer.is_busy = true; /* a launch that does not block need not wait */
    launch(&self, 6, 1);
    assert_int_equal(self.engine.token, 6);
    ring(&self);
    assert_true(tt_real_poll(self.real));
    end(&self);
}

static bool has_lost_peer(void *argument)
{
    return ((const world *)argument)->is_peer_down;
}

/* Passes are slow on a busy core: a death must be seen before a thousand of them. */
static void test_a_peers_death_is_seen_while_polling_an_engine(void **state)
{
    (void)state;
    world self;
    begin_with(&self, false, 2);
    launch(&self, 1, 1);
    self.engine.test_us = 1000;
    const uint32_t test_count = self.engine.test_count;
    ring_at(self.peer.fd);
    assert_true(tt_real_spin(self.real, has_lost_peer, &self, tt_real_clock() + LIMIT_NS));
    assert_in_range(self.engine.test_count - test_count, 1, 8);
    end(&self);
}

/* Its buffers are their callers' again. */
static void test_an_engine_that_was_left_is_not_polled(void **state)
{
    (void)state;
    for (int has_descriptor = 0; has_descriptor < 2; has_descriptor++) {
        world self;
        begin(&self, has_descriptor != 0);
        launch(&self, 1, 1);
        (void)sleep_until(&self, UINT64_MAX);
        tt_real_sleep_block(self.real, 1);
        tt_real_engine_leave(self.real);
        const uint32_t test_count = self.engine.test_count;
        ring(&self);
        const uint64_t until_ns = tt_real_clock() + 20 * 1000 * 1000;
        assert_false(tt_real_spin(self.real, never, NULL, until_ns));
        tt_real_sleep_block(self.real, sleep_until(&self, until_ns));
        assert_true(tt_real_clock() >= until_ns); /* nor does it prevent sleep */
        assert_int_equal(self.engine.test_count, test_count);
        assert_int_equal(self.landed, 0);
        assert_true(tt_real_engine_forsake(self.real)); /* it still has ops */
        end(&self);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_engine_with_a_descriptor_is_slept_on),
        cmocka_unit_test(test_a_spurious_signal_does_not_prevent_sleep),
        cmocka_unit_test(test_an_engine_without_a_descriptor_is_polled_again),
        cmocka_unit_test(test_a_slow_engine_is_polled_ever_less_often),
        cmocka_unit_test(test_a_blocking_launch_waits_until_all_is_sent),
        cmocka_unit_test(test_a_peers_death_is_seen_while_polling_an_engine),
        cmocka_unit_test(test_an_engine_that_was_left_is_not_polled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
