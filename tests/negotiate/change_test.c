/* SPDX-License-Identifier: Apache-2.0
 *
 * change_test.c - changes between steps: claims, names, cancellations, stalls, and caches that
 * diverged.
 *
 * Labels: asan */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "negotiate/internal.h"
#include "tests/negotiate/world.h"

static tt_negotiate_config config_of(tt_negotiate_mode mode)
{
    tt_negotiate_config config;
    tt_negotiate_config_init(&config);
    config.mode = mode;
    return config;
}

static void step(test_world *world, uint32_t tensors, const char *claim)
{
    for (uint32_t t = 0; t < tensors; t++) {
        char name[16];
        snprintf(name, sizeof(name), "t%u", t);
        world_submit_all(world, name, claim);
    }
    world_run(world);
}

/* Members may refuse frames and end the negotiation. */
static void run_unjudged(test_world *world)
{
    world_flush(world);
    while (world->frame_count > 0) {
        const test_frame frame = world->frames[--world->frame_count];
        tt_negotiator_notice(world->members[frame.to].negotiator, frame.from, &frame.notice);
        free(frame.payload);
        world_flush(world);
    }
}

static void test_a_claim_changed_by_all_is_negotiated_anew(void **state)
{
    (void)state;
    for (tt_negotiate_mode mode = TT_NEGOTIATE_AUTO; mode <= TT_NEGOTIATE_PLAN; mode++) {
        const tt_negotiate_config config = config_of(mode);
        test_world *world = world_create(5, 2, &config, mode);
        for (uint32_t i = 0; i < 8; i++) {
            step(world, 4, "old");
        }
        for (uint32_t i = 0; i < 8; i++) {
            world_submit_all(world, "t1", "new");
            world_run(world);
            assert_int_equal(world_waiting(world), 0);
        }
        step(world, 1, "old"); /* the others are not disturbed */
        assert_int_equal(world_waiting(world), 0);
        for (uint32_t i = 0; i < 5; i++) {
            assert_int_equal(world_count(world, i, EVENT_FAILED), 0);
            assert_int_equal(world_count(world, i, EVENT_AGREED) +
                                 world_count(world, i, EVENT_PLANNED),
                             8 * 4 + 8 + 1);
        }
        world_judge(world, true);
        world_destroy(world);
    }
}

static void test_a_claim_changed_by_one_fails_everywhere(void **state)
{
    (void)state;
    const tt_negotiate_config config = config_of(TT_NEGOTIATE_BITVECTOR);
    for (uint64_t seed = 0; seed < 20; seed++) {
        test_world *world = world_create(5, 2, &config, seed);
        step(world, 3, "old");
        for (uint32_t i = 0; i < 5; i++) {
            world_submit(world, i, "t1", i == seed % 5 ? "new" : "old");
        }
        world_run(world);
        assert_int_equal(world_waiting(world), 0);
        for (uint32_t i = 0; i < 5; i++) {
            const test_event *event = world_event(world, i, EVENT_FAILED, 0);
            assert_non_null(event);
            assert_int_equal(event->status, TT_ERR_MISMATCH);
            assert_string_equal(event->text, world_event(world, 0, EVENT_FAILED, 0)->text);
        }
        step(world, 3, "old");
        assert_int_equal(world_waiting(world), 0);
        world_judge(world, true);
        world_destroy(world);
    }
}

static void test_more_names_than_slots_are_evicted_alike(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 40; seed++) {
        tt_negotiate_config config =
            config_of((seed & 1) != 0 ? TT_NEGOTIATE_BITVECTOR : TT_NEGOTIATE_AUTO);
        config.capacity = 1 + (uint32_t)(seed % 9);
        test_world *world = world_create(4, 2, &config, seed);
        world->duplicate_percent = 10;
        for (uint32_t round = 0; round < 60; round++) {
            char name[16]; /* members submit different names: some wait when they are evicted */
            for (uint32_t i = 0; i < 4; i++) {
                for (uint32_t k = 0; k < 3; k++) {
                    snprintf(name, sizeof(name), "t%u", (round + k * (i + 1)) % 12);
                    if (world_waiting(world) < 30) {
                        world_submit(world, i, name, "c");
                    }
                }
            }
            world_run(world);
        }
        for (uint32_t i = 0; i < 4; i++) {
            assert_int_equal(world_counters(world, i)->divergences, 0);
        }
        assert_true(world_counters(world, 0)->evictions > 0);
        world_judge(world, false);
        world_destroy(world);
    }
}

static void test_names_used_once_do_not_accumulate(void **state)
{
    (void)state;
    tt_negotiate_config config = config_of(TT_NEGOTIATE_AUTO);
    config.capacity = 16;
    test_world *world = world_create(2, 1, &config, 1);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < 2000; i++) {
        char name[16];
        snprintf(name, sizeof(name), "n%05u", i);
        world_submit_all(world, name, "c");
        world_run(world);
        if (i == 1000) {
            bytes = world->counter.live_bytes;
        }
    }
    assert_int_equal(world->counter.live_bytes, bytes);
    world_destroy(world);
}

static void test_a_cache_that_diverged_is_detected_and_all_start_anew(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        const tt_negotiate_config config = config_of(TT_NEGOTIATE_BITVECTOR);
        test_world *world = world_create(6, 2, &config, seed);
        step(world, 5, "c");
        step(world, 5, "c");
        tt_cache_touch(world->members[seed % 6].negotiator, 0); /* its order of use is wrong */
        for (uint32_t i = 0; i < 4; i++) {
            step(world, 5, "c");
            assert_int_equal(world_waiting(world), 0);
        }
        for (uint32_t i = 0; i < 6; i++) {
            assert_int_equal(world_counters(world, i)->divergences, 1);
            assert_int_equal(world_count(world, i, EVENT_AGREED), 6 * 5);
        }
        world_judge(world, true);
        world_destroy(world);
    }
}

static void test_a_diverged_cache_ends_plans_without_loss(void **state)
{
    (void)state;
    const tt_negotiate_config config = config_of(TT_NEGOTIATE_AUTO);
    test_world *world = world_create(4, 2, &config, 7);
    for (uint32_t i = 0; i < 6; i++) {
        step(world, 5, "c");
    }
    assert_true(world_counters(world, 0)->planned > 0);
    tt_cache_note(world->members[2].negotiator, 1);
    world_submit(world, 1, "t3", "c"); /* begun by one rank only */
    world_submit_all(world, "other", "c");
    world_run(world);
    assert_int_equal(world_counters(world, 3)->divergences, 1);
    for (uint32_t i = 0; i < 4; i++) {
        if (i != 1) {
            world_submit(world, i, "t3", "c");
        }
    }
    world_run(world);
    assert_int_equal(world_waiting(world), 0);
    world_judge(world, true);
    world_destroy(world);
}

static void test_plans_that_differ_end_the_negotiation(void **state)
{
    (void)state;
    const tt_negotiate_config config = config_of(TT_NEGOTIATE_AUTO);
    test_world *world = world_create(3, 1, &config, 8);
    for (uint32_t i = 0; i < 6; i++) {
        step(world, 2, "c");
    }
    tt_cache_note(world->members[1].negotiator, 1);
    world->members[1].negotiator->cache.plan_digest ^= 1;
    world_submit_all(world, "other", "c");
    run_unjudged(world);
    for (uint32_t i = 0; i < 3; i++) {
        assert_non_null(strstr(world_event(world, i, EVENT_FAILED, 0)->text, "plans differ"));
    }
    world_destroy(world);
}

static void test_a_cancelled_ticket_ends_everywhere(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 60; seed++) {
        const tt_negotiate_config config =
            config_of((seed & 1) != 0 ? TT_NEGOTIATE_BITVECTOR : TT_NEGOTIATE_COORDINATOR);
        test_world *world = world_create(4, 2, &config, seed);
        if ((seed & 2) != 0) {
            step(world, 2, "c"); /* cached */
        }
        world_ticket *mine = world_submit(world, 1, "t1", "c");
        world_submit(world, 0, "t1", "c");
        if ((seed & 4) != 0) {
            world_run(world);
        }
        assert_true(tt_negotiator_cancel(world->members[1].negotiator, &mine->ticket));
        world_run(world);
        assert_int_equal(world_waiting(world), 0);
        world_submit(world, 2, "t1", "c"); /* late: it was cancelled before */
        world_submit(world, 3, "t1", "c");
        assert_int_equal(world_waiting(world), 0);
        for (uint32_t i = 0; i < 4; i++) {
            const test_event *event = world_event(world, i, EVENT_FAILED, 0);
            assert_int_equal(event->status, TT_ERR_CANCELLED);
            assert_string_equal(event->text, "tensor \"t1\": rank 1 cancelled it");
        }
        assert_false(tt_negotiator_cancel(world->members[1].negotiator, &mine->ticket));
        step(world, 2, "c");
        assert_int_equal(world_waiting(world), 0);
        world_judge(world, true);
        world_destroy(world);
    }
}

/* Members 0 and 1 cancel, submit again, and one of them cancels that, before member 2 submits. */
static void test_a_late_member_gets_each_cancellation_in_turn(void **state)
{
    (void)state;
    static const uint32_t cancels[] = {1, 0, 0, 1};
    enum { COUNT = sizeof(cancels) / sizeof(cancels[0]) };
    for (uint64_t seed = 0; seed < 20; seed++) {
        const tt_negotiate_config config =
            config_of((seed & 1) != 0 ? TT_NEGOTIATE_BITVECTOR : TT_NEGOTIATE_COORDINATOR);
        test_world *world = world_create(3, 1, &config, seed);
        for (uint32_t i = 0; i < COUNT; i++) {
            world_ticket *tickets[] = {world_submit(world, 0, "t", "c"),
                                       world_submit(world, 1, "t", "c")};
            const uint32_t who = cancels[i];
            assert_true(
                tt_negotiator_cancel(world->members[who].negotiator, &tickets[who]->ticket));
            world_run(world);
            assert_int_equal(world_waiting(world), 0);
        }
        assert_int_equal(tt_negotiator_debts(world->members[2].negotiator, "t", 1), COUNT);
        for (uint32_t i = 0; i < COUNT; i++) {
            world_submit(world, 2, "t", "c");
            assert_int_equal(world_waiting(world), 0);
            for (uint32_t member = 0; member < 3; member++) {
                const test_event *event = world_event(world, member, EVENT_FAILED, i);
                char text[64];
                (void)snprintf(text, sizeof(text), "tensor \"t\": rank %u cancelled it",
                               cancels[i]);
                assert_string_equal(event->text, text);
            }
        }
        assert_int_equal(tt_negotiator_debts(world->members[2].negotiator, "t", 1), 0);
        world_submit_all(world, "t", "c");
        world_run(world);
        world_judge(world, true);
        world_destroy(world);
    }
}

/* Two members begin a planned tensor, cut the plan, and cancel the next call of that name, all
 * before the third member makes the first of the two calls. */
static void test_a_late_member_owes_before_a_cancellation_reaches_it(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        const tt_negotiate_config config = config_of(TT_NEGOTIATE_AUTO);
        test_world *world = world_create(3, 1, &config, seed);
        for (uint32_t i = 0; i < 6; i++) {
            step(world, 2, "c");
        }
        const uint32_t planned = world_count(world, 2, EVENT_PLANNED);
        assert_true(planned > 0);
        for (uint32_t i = 0; i < 2; i++) {
            world_submit(world, i, "t1", "c");
        }
        world_ticket *changed = world_submit(world, 1, "t1", "d");
        world_run(world);
        assert_true(tt_negotiator_cancel(world->members[1].negotiator, &changed->ticket));
        world_run(world);
        assert_int_equal(tt_negotiator_debts(world->members[2].negotiator, "t1", 2), 1);
        world_submit(world, 2, "t1", "c");
        assert_int_equal(world_count(world, 2, EVENT_PLANNED), planned + 1);
        assert_int_equal(world_count(world, 2, EVENT_FAILED), 0);
        world_submit(world, 2, "t1", "d");
        world_submit(world, 0, "t1", "d");
        assert_int_equal(world_count(world, 2, EVENT_FAILED), 1);
        assert_int_equal(world_waiting(world), 0);
        world_judge_occurrences(world);
        step(world, 2, "c");
        world_judge(world, true);
        world_destroy(world);
    }
}

static void test_a_stall_report_names_the_missing_members(void **state)
{
    (void)state;
    tt_negotiate_config config = config_of(TT_NEGOTIATE_AUTO);
    config.stall_ns = 1000;
    test_world *world = world_create(5, 2, &config, 9);
    step(world, 2, "c");
    for (uint32_t i = 0; i < 5; i++) {
        if (i != 3) {
            world_submit(world, i, "t1", "c");
        }
    }
    world_run(world);
    world_pass(world, 500);
    world_run(world);
    assert_int_equal(world->members[1].reports, 0);
    world_pass(world, 700);
    world_run(world);
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(world->members[i].reports, i == 3 ? 0 : 1);
        assert_string_equal(world->members[i].report,
                            i == 3
                                ? ""
                                : "tensor \"t1\" has waited for 0.0 s; submitted by ranks 0-2, 4; "
                                  "missing on rank 3");
    }
    world_submit(world, 3, "t1", "c");
    world_run(world);
    assert_int_equal(world_waiting(world), 0);
    assert_int_equal(tt_negotiator_due(world->members[2].negotiator), UINT64_MAX);
    world_destroy(world);
}

static void test_a_member_that_does_not_answer_is_named_too(void **state)
{
    (void)state;
    tt_negotiate_config config = config_of(TT_NEGOTIATE_AUTO);
    config.stall_ns = 1000;
    test_world *world = world_create(3, 3, &config, 9);
    world_submit(world, 0, "w", "c");
    world_flush(world);
    world_pass(world, 1001);
    world_pass(world, 500); /* frames are not delivered */
    assert_string_equal(world->members[0].report,
                        "tensor \"w\" has waited for 0.0 s; submitted by rank 0; no answer from "
                        "ranks 1-2");
    world_destroy(world);
}

static void test_a_ticket_too_old_fails_on_all_members(void **state)
{
    (void)state;
    tt_negotiate_config config = config_of(TT_NEGOTIATE_AUTO);
    config.stall_ns = 0;
    config.stall_fail_ns = 2000;
    test_world *world = world_create(4, 2, &config, 10);
    world_submit(world, 2, "w", "c");
    world_run(world);
    world_pass(world, 1000);
    world_submit(world, 1, "w", "c");
    world_run(world);
    assert_int_equal(world_waiting(world), 2);
    world_pass(world, 1001);
    world_run(world);
    assert_int_equal(world_waiting(world), 0);
    world_submit(world, 0, "w", "c");
    world_submit(world, 3, "w", "c");
    for (uint32_t i = 0; i < 4; i++) {
        const test_event *event = world_event(world, i, EVENT_FAILED, 0);
        assert_int_equal(event->status, TT_ERR_TIMED_OUT);
        assert_string_equal(event->text, "tensor \"w\": rank 2 gave up after 0.0 s");
    }
    step(world, 2, "c");
    assert_int_equal(world_waiting(world), 0);
    world_destroy(world);
}

static void test_shutdown_ends_waiting_and_later_tickets(void **state)
{
    (void)state;
    test_world *world = world_create(2, 1, NULL, 11);
    world_submit(world, 0, "w", "c");
    tt_negotiator_shut(world->members[0].negotiator, TT_ERR_PEER_DOWN, "rank 1 died");
    world_submit(world, 0, "v", "c");
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(world_event(world, 0, EVENT_FAILED, i)->status, TT_ERR_PEER_DOWN);
        assert_string_equal(world_event(world, 0, EVENT_FAILED, i)->text, "rank 1 died");
    }
    world_destroy(world);
}

static void test_long_lists_are_sent_in_parts(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 5; seed++) {
        test_world *world = world_create(7, 2, NULL, seed);
        world->duplicate_percent = 30;
        for (uint32_t t = 0; t < 900; t++) {
            char name[64];
            snprintf(name, sizeof(name), "a.rather.long.name.of.a.layer.number.%u.weight", t);
            for (uint32_t i = 0; i < 7; i++) {
                world_submit(world, i, name, t % 100 == 7 && i == 2 ? "other" : "claim");
            }
        }
        world_run(world);
        assert_int_equal(world_waiting(world), 0);
        assert_int_equal(world_count(world, 4, EVENT_AGREED), 900 - 9);
        assert_int_equal(world_count(world, 4, EVENT_FAILED), 9);
        world_judge(world, true);
        world_destroy(world);
    }
}

/* The k-th allocation fails, once or for good; remaining tickets must end at shutdown. */
static void test_without_memory_every_ticket_still_ends(void **state)
{
    (void)state;
    for (uint64_t k = 1; k < 300; k++) {
        tt_negotiate_config config = config_of(TT_NEGOTIATE_AUTO);
        config.capacity = 3;
        config.steps_to_plan = 1;
        test_world *world = world_create(3, 2, &config, k);
        world->counter.fail_at = world->counter.allocation_count + k;
        world->counter.fail_forever = k % 2 == 0;
        for (uint32_t i = 0; i < 6; i++) {
            world_submit_all(world, "a", i < 4 ? "c" : "new");
            world_submit_all(world, "b", "c");
            world_submit(world, 0, "d", "c");
            world_submit(world, 1, "d", "other");
            world_submit(world, 2, "d", "c");
            run_unjudged(world);
        }
        tt_negotiator_join(world->members[k % 3].negotiator);
        run_unjudged(world);
        world_destroy(world);
    }
}

/* Two members with a planned group "g" of a and b, and a planned "w". */
static test_world *planned_group(void)
{
    tt_negotiate_config config = config_of(TT_NEGOTIATE_PLAN);
    config.steps_to_plan = 1;
    test_world *world = world_create(2, 1, &config, 1);
    for (uint32_t i = 0; i < 3; i++) {
        world_submit_all(world, "g", "=ab");
        world_submit_all(world, "w", "c");
        world_run(world);
    }
    assert_int_equal(world->frame_count + world_waiting(world), 0);
    return world;
}

static void assert_refused(const test_world *world, uint32_t before, uint32_t occurrences)
{
    assert_int_equal(world_count(world, 1, EVENT_PLANNED), before + occurrences);
    for (uint32_t i = 0; i < occurrences; i++) {
        const test_event *event = world_event(world, 1, EVENT_PLANNED, before + i);
        assert_string_equal(event->name, "g");
        assert_true(event->is_refused && !event->has_ticket);
    }
}

static void test_a_tensor_of_a_planned_group_is_not_announced_before_the_cut(void **state)
{
    (void)state;
    test_world *world = planned_group();
    const uint32_t before = world_count(world, 1, EVENT_PLANNED);
    world_submit(world, 0, "g", "=ab"); /* begins */
    world_submit(world, 0, "w", "new"); /* has a cut of its own */
    tt_negotiator_flush(world->members[0].negotiator);
    assert_int_equal(world->frames[0].notice.kind, TT_NOTICE_CALL);
    world_deliver(world, 0); /* member 1 puts in its vector; then: */
    world_submit(world, 1, "a", "c");
    world_run(world);
    assert_refused(world, before, 1);
    assert_int_equal(world_count(world, 1, EVENT_FAILED), 1);
    world_submit(world, 1, "b", "c"); /* also a member of the group */
    assert_int_equal(world_count(world, 1, EVENT_FAILED), 2);
    world_submit(world, 1, "w", "new");
    world_submit_all(world, "g", "=ab");
    world_run(world);
    assert_int_equal(world_waiting(world), 0);
    world_destroy(world);
}

static void test_an_ungrouped_tensor_ends_one_occurrence_of_its_planned_group(void **state)
{
    (void)state;
    test_world *world = planned_group();
    const uint32_t before = world_count(world, 1, EVENT_PLANNED);
    world_submit(world, 0, "g", "=ab");
    world_submit(world, 0, "g", "=ab"); /* it may only send, and be a step ahead */
    world_submit(world, 1, "a", "c");
    world_run(world);
    assert_refused(world, before, 1);
    world_submit(world, 1, "g", "=ab"); /* b was never submitted by itself */
    const test_event *paid = world_event(world, 1, EVENT_PLANNED, before + 1);
    assert_true(paid->has_ticket && !paid->is_refused);
    assert_int_equal(paid->order, world_event(world, 0, EVENT_PLANNED, before + 1)->order);
    world_submit_all(world, "b", "c");
    world_run(world);
    assert_int_equal(world_waiting(world), 0);
    assert_int_equal(world_count(world, 1, EVENT_FAILED), 1);
    world_judge(world, true);
    world_destroy(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_claim_changed_by_all_is_negotiated_anew),
        cmocka_unit_test(test_a_claim_changed_by_one_fails_everywhere),
        cmocka_unit_test(test_more_names_than_slots_are_evicted_alike),
        cmocka_unit_test(test_names_used_once_do_not_accumulate),
        cmocka_unit_test(test_a_cache_that_diverged_is_detected_and_all_start_anew),
        cmocka_unit_test(test_a_diverged_cache_ends_plans_without_loss),
        cmocka_unit_test(test_plans_that_differ_end_the_negotiation),
        cmocka_unit_test(test_a_cancelled_ticket_ends_everywhere),
        cmocka_unit_test(test_a_late_member_gets_each_cancellation_in_turn),
        cmocka_unit_test(test_a_late_member_owes_before_a_cancellation_reaches_it),
        cmocka_unit_test(test_a_stall_report_names_the_missing_members),
        cmocka_unit_test(test_a_member_that_does_not_answer_is_named_too),
        cmocka_unit_test(test_a_ticket_too_old_fails_on_all_members),
        cmocka_unit_test(test_shutdown_ends_waiting_and_later_tickets),
        cmocka_unit_test(test_long_lists_are_sent_in_parts),
        cmocka_unit_test(test_without_memory_every_ticket_still_ends),
        cmocka_unit_test(test_a_tensor_of_a_planned_group_is_not_announced_before_the_cut),
        cmocka_unit_test(test_an_ungrouped_tensor_ends_one_occurrence_of_its_planned_group),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
