/* SPDX-License-Identifier: Apache-2.0
 *
 * real_engine_test.c - the real driver and an engine that says when an op has landed, by an eventfd
 * as its descriptor, or that must be asked.
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

/* One rank, alone with its engine. */
typedef struct world {
    tutti_engine engine;
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

static const tt_machine_ops machine_ops = {.step = on_step, .landed = on_landed};

static void begin(world *self, bool has_descriptor)
{
    const tt_real_peer peers[1] = {{0}};
    *self = (world){.engine = {.has_descriptor = has_descriptor}};
    self->engine.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    assert_true(self->engine.fd >= 0);
    const tt_real_config config = {
        .rank_count = 1, .peers = peers, .engine = {.ops = &fake_ops, .self = &self->engine}};
    assert_int_equal(tt_real_create(&config, &self->real), TT_OK);
    const tt_machine machine = {.ops = &machine_ops, .self = self};
    tt_real_attach(self->real, &machine);
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

static void ring(world *self)
{
    const uint64_t one = 1;
    assert_int_equal(write(self->engine.fd, &one, sizeof(one)), sizeof(one));
}

static bool never(void *argument)
{
    (void)argument;
    return false;
}

/* Sleeps, and gives until when it would have. */
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
        assert_true(tt_real_clock() < limit_ns); /* it gave up, to sleep */
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

static void test_a_ring_for_nothing_keeps_nobody_awake(void **state)
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
    ring(&self); /* and nobody reads it */
    const uint64_t until_ns = tt_real_clock() + 20 * 1000 * 1000;
    tt_real_sleep_block(self.real, sleep_until(&self, until_ns));
    assert_true(tt_real_clock() >= until_ns);
    tt_real_sleep_end(self.real);
    launch(&self, 2, 0); /* it has rung */
    assert_int_equal(self.landed, 2);
    end(&self);
}

static void test_an_engine_without_a_descriptor_is_asked_again(void **state)
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
    assert_true(tt_real_clock() >= until_ns); /* who waits keeps asking */
    ring(&self);
    assert_true(tt_real_poll(self.real));
    assert_int_equal(self.landed, 1);
    end(&self);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_engine_with_a_descriptor_is_slept_on),
        cmocka_unit_test(test_a_ring_for_nothing_keeps_nobody_awake),
        cmocka_unit_test(test_an_engine_without_a_descriptor_is_asked_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
