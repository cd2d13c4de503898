/* SPDX-License-Identifier: Apache-2.0
 *
 * lone_rank.h - for unit tests: the control machine of rank 0, on a simulated platform without
 * peers. Include after cmocka.h.
 *
 * Layer:   tests.
 * Threads: one.
 * Memory:  lone_rank_destroy checks that all of it was returned.
 */
#ifndef TUTTI_TESTS_SUPPORT_LONE_RANK_H
#define TUTTI_TESTS_SUPPORT_LONE_RANK_H

#include "control/control.h"
#include "platform/sim.h"

enum { LONE_RANK_SIZE_MAX = 8 };

typedef struct lone_rank {
    tt_sim *sim;
    tt_control *control;
} lone_rank;

/* Rank 0 of `size`, all on one host. */
static inline lone_rank lone_rank_create(uint32_t size)
{
    static const uint32_t host_of[LONE_RANK_SIZE_MAX] = {0};
    assert_in_range(size, 1, LONE_RANK_SIZE_MAX);
    lone_rank it = {0};
    tt_sim_config sim;
    tt_sim_config_init(&sim);
    sim.size = size;
    sim.host_of = host_of;
    it.sim = tt_sim_create(&sim);
    tt_control_config config;
    tt_control_config_init(&config);
    const tt_world world = {.rank = 0, .size = size, .epoch = 1, .host_of = host_of};
    const tt_status status = tt_control_create(tt_sim_platform(it.sim, 0), &world, &config,
                                               &(tt_control_listener){0}, &it.control);
    assert_int_equal(status, TT_OK);
    return it;
}

static inline void lone_rank_destroy(lone_rank *it)
{
    tt_control_destroy(it->control);
    assert_true(tt_sim_destroy(it->sim)); /* nothing was left behind */
}

#endif
