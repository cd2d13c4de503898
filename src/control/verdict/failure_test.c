/* SPDX-License-Identifier: Apache-2.0
 *
 * failure_test.c - one rank whose link breaks, or which another rank excludes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "control/control.h"
#include "platform/shuffle.h"

typedef struct lonely {
    tt_shuffle *shuffle;
    tt_platform_ops ops;
    tt_control *control;
    tt_machine machine;
    tt_request request;
    float value;
    uint32_t ended;
    uint32_t aborts[3]; /* sent to each rank, about this one, while its call was pending */
} lonely;

static lonely *excluded; /* whose frames `send_nothing` counts */

static tt_status send_into_nothing(tt_platform *platform, const tt_send *send)
{
    (void)platform;
    return send->peer == TT_PEER_HOST ? TT_ERR_UNSUPPORTED : TT_ERR_PEER_DOWN;
}

static tt_status send_nothing(tt_platform *platform, const tt_send *send)
{
    (void)platform;
    if (send->peer == TT_PEER_HOST) {
        return TT_ERR_UNSUPPORTED;
    }
    if (send->head->kind == TT_FRAME_ABORT && send->head->argument == 0 && excluded->ended == 0) {
        assert_memory_equal(send->payload, "bad frame", send->head->payload_bytes);
        excluded->aborts[send->peer]++;
    }
    return TT_OK;
}

static void finished(tt_request *request)
{
    ((lonely *)request->owner)->ended++;
}

/* Rank 0 of `size`, a host each; the others say nothing. */
static void submit_over(lonely *self, uint32_t size,
                        tt_status (*send)(tt_platform *platform, const tt_send *send))
{
    const tt_shuffle_config shuffle = {.size = size, .seed = 1, .is_ordered = true};
    const uint32_t host_of[3] = {0, 1, 2};
    const tt_world world = {.rank = 0, .size = size, .host_of = host_of};
    const tt_control_listener listener = {0};
    tt_control_config config;
    tt_control_config_init(&config);
    *self = (lonely){.shuffle = tt_shuffle_create(&shuffle), .value = 1.0f};
    tt_platform *platform = tt_shuffle_platform(self->shuffle, 0);
    self->ops = *platform->ops;
    self->ops.send = send;
    platform->ops = &self->ops;
    assert_int_equal(tt_control_create(platform, &world, &config, &listener, &self->control),
                     TT_OK);
    self->machine = tt_control_machine(self->control);
    tt_shuffle_attach(self->shuffle, 0, self->machine);
    self->request = (tt_request){.collective = TT_ALLREDUCE,
                                 .dtype = TT_F32,
                                 .redop = TT_SUM,
                                 .count = 1,
                                 .prescale = 1.0,
                                 .postscale = 1.0,
                                 .input = &self->value,
                                 .output = &self->value,
                                 .finished = finished,
                                 .owner = self};
    tt_control_submit(self->control, &self->request);
}

/* Rank 0 of two; its link to rank 1 is broken, which nobody has reported yet. */
static void submit_alone(lonely *self)
{
    submit_over(self, 2, send_into_nothing);
}

static void destroy(lonely *self)
{
    tt_control_destroy(self->control);
    assert_true(tt_shuffle_destroy(self->shuffle));
}

/* Had it ended at once, this rank could leave before it has told the others who is down. */
static void test_a_broken_link_ends_no_call_before_its_peer_is_reported(void **state)
{
    (void)state;
    lonely self;
    submit_alone(&self);
    assert_int_equal(self.ended, 0);
    self.machine.ops->peer(self.machine.self, 1, TT_PEER_DOWN, "Broken pipe");
    assert_int_equal(self.ended, 1);
    assert_int_equal(self.request.status, TT_ERR_PEER_DOWN);
    assert_string_equal(self.request.error, "rank 1 is down: Broken pipe");
    destroy(&self);
}

static void test_a_peer_that_had_left_is_not_called_down(void **state)
{
    (void)state;
    lonely self;
    submit_alone(&self);
    assert_int_equal(self.ended, 0);
    self.machine.ops->peer(self.machine.self, 1, TT_PEER_LEFT, "said goodbye");
    assert_int_equal(self.ended, 1);
    assert_int_equal(self.request.status, TT_ERR_PEER_LEFT);
    assert_string_equal(self.request.error, "rank 1 has left the job");
    destroy(&self);
}

/* Else rank 2 could get its goodbye first and call it a rank that has left in order. */
static void test_an_excluded_rank_reports_itself_before_its_call_ends(void **state)
{
    (void)state;
    lonely self;
    excluded = &self;
    submit_over(&self, 3, send_nothing);
    const tt_head abort = {.kind = TT_FRAME_ABORT, .payload_bytes = 9};
    self.machine.ops->frame(self.machine.self, 1, &abort, "bad frame");
    assert_int_equal(self.ended, 1);
    assert_int_equal(self.request.status, TT_ERR_PEER_DOWN);
    assert_string_equal(self.request.error, "rank 0 was excluded by rank 1");
    assert_int_equal(self.aborts[1], 0);
    assert_int_equal(self.aborts[2], 1);
    destroy(&self);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_broken_link_ends_no_call_before_its_peer_is_reported),
        cmocka_unit_test(test_a_peer_that_had_left_is_not_called_down),
        cmocka_unit_test(test_an_excluded_rank_reports_itself_before_its_call_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
