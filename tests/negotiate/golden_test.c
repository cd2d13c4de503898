/* SPDX-License-Identifier: Apache-2.0
 *
 * golden_test.c - the published examples of caching and grouping, and the basic guarantees.
 *
 * Labels: asan */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/negotiate/world.h"

static tt_negotiate_config config_of(tt_negotiate_mode mode)
{
    tt_negotiate_config config;
    tt_negotiate_config_init(&config);
    config.mode = mode;
    return config;
}

/* Four workers, three cached tensors; only A is pending on all of them. */
static void test_only_the_common_tensor_is_agreed(void **state)
{
    (void)state;
    const tt_negotiate_config config = config_of(TT_NEGOTIATE_BITVECTOR);
    test_world *world = world_create(4, 2, &config, 1);
    world_submit_all(world, "A", "4 floats");
    world_submit_all(world, "B", "4 floats");
    world_submit_all(world, "C", "4 floats");
    world_run(world);
    assert_int_equal(world_waiting(world), 0);
    const uint64_t turns = world_counters(world, 0)->coordinator_turns;

    static const char *const pending[4][3] = {
        {"A", "B", NULL}, {"A", "C", NULL}, {"B", "A", NULL}, {"A", NULL, NULL}};
    for (uint32_t i = 0; i < 4; i++) {
        for (uint32_t k = 0; pending[i][k] != NULL; k++) {
            world_submit(world, i, pending[i][k], "4 floats");
        }
    }
    world_run(world);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(world_count(world, i, EVENT_AGREED), 4);
        assert_string_equal(world_event(world, i, EVENT_AGREED, 3)->name, "A");
    }
    assert_int_equal(world_waiting(world), 3); /* B, C, B */
    assert_int_equal(world_counters(world, 0)->coordinator_turns, turns);
    world_destroy(world);
}

/* A task graph produces T1..T6 over three cycles; groups are blue {1, 2, 4} and green {3, 5, 6}. A
 * group is submitted as one request when its last tensor is ready. */
static void test_groups_become_visible_over_three_rounds(void **state)
{
    (void)state;
    const tt_negotiate_config config = config_of(TT_NEGOTIATE_BITVECTOR);
    test_world *world = world_create(2, 1, &config, 2);
    world_submit_all(world, "blue", "T1 T2 T4");
    world_submit_all(world, "green", "T3 T5 T6");
    world_run(world);
    const uint32_t before = world_count(world, 0, EVENT_AGREED);
    world_run(world); /* first cycle: T1, T2, T3: no group is complete */
    assert_int_equal(world_count(world, 0, EVENT_AGREED), before);
    world_submit_all(world, "blue", "T1 T2 T4"); /* second: T4, T5 */
    world_run(world);
    assert_int_equal(world_count(world, 1, EVENT_AGREED), before + 1);
    assert_string_equal(world_event(world, 1, EVENT_AGREED, before)->name, "blue");
    world_submit_all(world, "green", "T3 T5 T6"); /* third: T6 */
    world_run(world);
    assert_int_equal(world_count(world, 1, EVENT_AGREED), before + 2);
    assert_string_equal(world_event(world, 1, EVENT_AGREED, before + 1)->name, "green");
    world_destroy(world);
}

static void test_the_coordinator_ran_in_the_first_of_a_thousand_steps_only(void **state)
{
    (void)state;
    const tt_negotiate_mode modes[] = {TT_NEGOTIATE_BITVECTOR, TT_NEGOTIATE_AUTO};
    for (uint32_t m = 0; m < 2; m++) {
        const tt_negotiate_config config = config_of(modes[m]);
        test_world *world = world_create(6, 2, &config, 3);
        uint64_t turns = 0, sent = 0;
        for (uint32_t step = 0; step < 1000; step++) {
            for (uint32_t t = 0; t < 12; t++) {
                char name[16];
                snprintf(name, sizeof(name), "t%u", t);
                world_submit_all(world, name, "claim");
            }
            world_run(world);
            assert_int_equal(world_waiting(world), 0);
            if (step == 0) {
                turns = world_counters(world, 0)->coordinator_turns;
            }
            if (step == 10) {
                sent = world_counters(world, 0)->notices_sent;
            }
        }
        assert_int_equal(turns, world_counters(world, 0)->coordinator_turns);
        if (modes[m] == TT_NEGOTIATE_AUTO) { /* no frames once planned */
            assert_int_equal(world_counters(world, 0)->notices_sent, sent);
            assert_string_equal(tt_negotiator_mode(world->members[3].negotiator), "plan");
        }
        world_judge(world, true);
        world_destroy(world);
    }
}

static uint64_t sizes_sum(const tt_negotiate_counters *count)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < 16; i++) {
        sum += count->sizes_sent[i];
    }
    return sum;
}

/* One cached step of `tensors` tensors: only vectors are sent, all of about the same size. */
static void expect_in_bucket(uint32_t tensors, uint32_t bucket)
{
    const tt_negotiate_config config = config_of(TT_NEGOTIATE_BITVECTOR);
    test_world *world = world_create(4, 2, &config, 8);
    tt_negotiate_counters before[4];
    for (uint32_t step = 0; step < 3; step++) {
        for (uint32_t i = 0; i < 4; i++) {
            before[i] = *world_counters(world, i);
        }
        for (uint32_t t = 0; t < tensors; t++) {
            char name[16];
            snprintf(name, sizeof(name), "t%u", t);
            world_submit_all(world, name, "4 floats");
        }
        world_run(world);
        assert_int_equal(world_waiting(world), 0);
    }
    for (uint32_t i = 0; i < 4; i++) {
        const tt_negotiate_counters *count = world_counters(world, i);
        const uint64_t sent = count->notices_sent - before[i].notices_sent;
        const uint64_t bytes = count->bytes_sent - before[i].bytes_sent;
        assert_int_equal(sizes_sum(count), count->notices_sent);
        assert_true(sent > 0);
        assert_int_equal(count->sizes_sent[bucket] - before[i].sizes_sent[bucket], sent);
        assert_true(bytes < (UINT64_C(16) << bucket) * sent);
        assert_true(bucket == 0 || bytes >= (UINT64_C(8) << bucket) * sent);
    }
    world_destroy(world);
}

static void test_every_message_is_counted_by_its_size(void **state)
{
    (void)state;
    expect_in_bucket(2, 0);   /* a word of bits: below 16 bytes */
    expect_in_bucket(100, 1); /* two or three */
    expect_in_bucket(300, 2); /* five to seven */
}

static void test_a_mismatch_fails_everywhere_with_one_text(void **state)
{
    (void)state;
    test_world *world = world_create(5, 2, NULL, 4);
    for (uint32_t i = 0; i < 5; i++) {
        world_submit(world, i, "w", i == 3 ? "8 floats" : "4 floats");
    }
    world_run(world);
    for (uint32_t i = 0; i < 5; i++) {
        const test_event *event = world_event(world, i, EVENT_FAILED, 0);
        assert_non_null(event);
        assert_int_equal(event->status, TT_ERR_MISMATCH);
        assert_string_equal(event->text, "w: 4 floats by 0 1 2 4 8 floats by 3");
    }
    world_submit_all(world, "w", "4 floats"); /* the job continues */
    world_run(world);
    assert_int_equal(world_waiting(world), 0);
    assert_int_equal(world_count(world, 2, EVENT_AGREED), 1);
    world_destroy(world);
}

static void test_a_second_ticket_of_a_waiting_name_fails_on_its_member_only(void **state)
{
    (void)state;
    test_world *world = world_create(3, 3, NULL, 5);
    world_submit(world, 1, "w", "c");
    world_submit(world, 1, "w", "c");
    assert_int_equal(world_count(world, 1, EVENT_FAILED), 1);
    world_submit(world, 0, "w", "c");
    world_submit(world, 2, "w", "c");
    world_run(world);
    assert_int_equal(world_waiting(world), 0);
    assert_int_equal(world_count(world, 0, EVENT_FAILED), 0);
    assert_int_equal(world_count(world, 1, EVENT_AGREED), 1);
    world_destroy(world);
}

static void test_every_mode_agrees_in_any_order_of_submission(void **state)
{
    (void)state;
    const tt_negotiate_mode modes[] = {TT_NEGOTIATE_AUTO, TT_NEGOTIATE_COORDINATOR,
                                       TT_NEGOTIATE_BITVECTOR, TT_NEGOTIATE_ORIGINAL};
    for (uint64_t seed = 0; seed < 200; seed++) {
        const tt_negotiate_config config = config_of(modes[seed % 4]);
        const uint32_t size = 1 + (uint32_t)(seed % 9);
        test_world *world = world_create(size, 1 + (uint32_t)(seed / 4 % 3), &config, seed);
        world->duplicate_percent = 20;
        world->is_lazy = (seed & 8) != 0;
        for (uint32_t step = 0; step < 6; step++) {
            uint32_t order[8] = {0, 1, 2, 3, 4, 5, 6, 7};
            for (uint32_t i = 0; i < size; i++) {
                for (uint32_t t = 8; t > 1; t--) {
                    const uint32_t k = (uint32_t)tt_random_below(&world->random, t);
                    const uint32_t swap = order[t - 1];
                    order[t - 1] = order[k];
                    order[k] = swap;
                }
                for (uint32_t t = 0; t < 8; t++) {
                    char name[16];
                    snprintf(name, sizeof(name), "t%u", order[t]);
                    world_submit(world, i, name, "c");
                    for (uint32_t k = 0; k < t && world->frame_count > 0; k++) {
                        world_deliver(
                            world, (uint32_t)tt_random_below(&world->random, world->frame_count));
                    }
                    tt_negotiator_flush(world->members[i].negotiator);
                }
            }
            world_run(world);
            for (int i = 0; i < 3 && config.mode == TT_NEGOTIATE_ORIGINAL; i++) {
                world_pass(world, config.cycle_ns);
                world_run(world);
            }
            assert_int_equal(world_waiting(world), 0);
        }
        world_judge(world, true);
        world_destroy(world);
    }
}

static void test_idle_members_send_nothing_except_in_the_original_mode(void **state)
{
    (void)state;
    for (tt_negotiate_mode mode = TT_NEGOTIATE_AUTO; mode <= TT_NEGOTIATE_ORIGINAL; mode++) {
        const tt_negotiate_config config = config_of(mode);
        test_world *world = world_create(4, 2, &config, 6);
        for (int i = 0; i < 10; i++) {
            world_pass(world, config.cycle_ns);
            world_run(world);
        }
        const uint64_t sent = world_counters(world, 0)->notices_sent;
        assert_int_equal(sent, mode == TT_NEGOTIATE_ORIGINAL ? 10 * 3 : 0);
        world_destroy(world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_the_common_tensor_is_agreed),
        cmocka_unit_test(test_groups_become_visible_over_three_rounds),
        cmocka_unit_test(test_the_coordinator_ran_in_the_first_of_a_thousand_steps_only),
        cmocka_unit_test(test_every_message_is_counted_by_its_size),
        cmocka_unit_test(test_a_mismatch_fails_everywhere_with_one_text),
        cmocka_unit_test(test_a_second_ticket_of_a_waiting_name_fails_on_its_member_only),
        cmocka_unit_test(test_every_mode_agrees_in_any_order_of_submission),
        cmocka_unit_test(test_idle_members_send_nothing_except_in_the_original_mode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
