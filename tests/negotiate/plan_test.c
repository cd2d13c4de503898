/* SPDX-License-Identifier: Apache-2.0
 *
 * plan_test.c - plans are made, left and made again, members join, and nothing is lost.
 *
 * Labels: asan
 * Timeout: 300 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "negotiate/notice.h"
#include "tests/negotiate/world.h"

enum { TENSORS = 4, CHAIN = 8 };

static const char *name_of(uint32_t tensor)
{
    static const char *const names[] = {"t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7"};
    return names[tensor];
}

static void step(test_world *world, const char *claim)
{
    for (uint32_t t = 0; t < TENSORS; t++) {
        world_submit_all(world, name_of(t), claim);
    }
    world_run(world);
}

static test_world *planned_world(uint32_t size, uint64_t seed)
{
    test_world *world = world_create(size, 2, NULL, seed);
    for (uint32_t i = 0; i < 6; i++) {
        step(world, "c");
    }
    assert_int_equal(world_counters(world, 0)->plans_made, 1);
    assert_true(world_count(world, size - 1, EVENT_PLANNED) > 0);
    return world;
}

static void test_training_and_evaluation_are_planned_side_by_side(void **state)
{
    (void)state;
    test_world *world = planned_world(4, 1);
    for (uint32_t i = 0; i < 6; i++) {
        world_submit_all(world, "eval.loss", "c");
        world_submit_all(world, "eval.accuracy", "c");
        world_run(world);
        step(world, "c");
    }
    const uint64_t sent = world_counters(world, 1)->notices_sent;
    assert_int_equal(world_counters(world, 1)->plans_made, 2);
    for (uint32_t i = 0; i < 6; i++) {
        world_submit_all(world, "eval.accuracy", "c");
        world_submit_all(world, "eval.loss", "c");
        step(world, "c");
    }
    assert_int_equal(world_counters(world, 1)->notices_sent, sent);
    assert_int_equal(world_waiting(world), 0);
    world_judge(world, true);
    world_destroy(world);
}

static void test_a_tensor_outside_the_plan_is_negotiated_separately(void **state)
{
    (void)state;
    test_world *world = planned_world(4, 2);
    const uint64_t planned = world_counters(world, 2)->planned;
    for (uint32_t i = 0; i < 5; i++) {
        char name[16];
        snprintf(name, sizeof(name), "once.%u", i);
        world_submit_all(world, name, "c");
        step(world, "c");
    }
    assert_int_equal(world_waiting(world), 0);
    assert_int_equal(world_counters(world, 2)->planned, planned + 5 * TENSORS);
    assert_int_equal(world_counters(world, 2)->plans_cut, 0);
    world_judge(world, true);
    world_destroy(world);
}

/* At each place of a series of planned steps one tensor changes on all members, which are at
 * different places when the first one changes it. */
static void test_a_change_at_any_place_loses_nothing(void **state)
{
    (void)state;
    for (uint32_t place = 0; place < 3 * TENSORS; place++) {
        for (uint64_t seed = 0; seed < 12; seed++) {
            test_world *world = planned_world(5, seed);
            for (uint32_t at = 0; at < 6 * TENSORS; at++) {
                const uint32_t tensor = at % TENSORS;
                const bool is_new = at >= place && tensor == place % TENSORS;
                for (uint32_t i = 0; i < 5; i++) { /* some members get frames in between */
                    world_submit(world, i, name_of(tensor), is_new ? "new" : "c");
                    tt_negotiator_flush(world->members[i].negotiator);
                    while (world->frame_count > 0 && tt_random_below(&world->random, 3) > 0) {
                        world_deliver(
                            world, (uint32_t)tt_random_below(&world->random, world->frame_count));
                    }
                }
                if (tt_random_below(&world->random, 2) == 0) {
                    world_run(world);
                }
            }
            world_run(world);
            assert_int_equal(world_waiting(world), 0);
            for (uint32_t i = 0; i < 5; i++) {
                const uint32_t again = world_count(world, i, EVENT_FAILED); /* duplicates */
                assert_int_equal(world_count(world, i, EVENT_AGREED) +
                                     world_count(world, i, EVENT_PLANNED) + again,
                                 12 * TENSORS);
            }
            world_judge(world, true);
            world_destroy(world);
        }
    }
}

static void test_a_change_on_one_member_is_detected(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 40; seed++) {
        test_world *world = planned_world(3, seed);
        const uint32_t odd = (uint32_t)(seed % 3);
        const bool is_first = (seed / 3 & 1) != 0; /* before or after its peers have begun */
        for (uint32_t i = 0; i < 3 && !is_first; i++) {
            if (i != odd) {
                world_submit(world, i, "t2", "c");
            }
        }
        world_submit(world, odd, "t2", "new");
        world_run(world);
        for (uint32_t i = 0; i < 3 && is_first; i++) {
            if (i != odd) {
                world_submit(world, i, "t2", "c");
            }
        }
        world_run(world);
        assert_int_equal(world_waiting(world), 0);
        for (uint32_t i = 0; i < 3; i++) {
            const test_event *last = &world->members[i].events[world->members[i].event_count - 1];
            assert_string_equal(last->name, "t2");
            if (is_first) { /* no member had begun: the coordinator compared */
                assert_int_equal(last->kind, EVENT_FAILED);
                assert_int_equal(last->status, TT_ERR_MISMATCH);
            } else { /* the exchange detects it */
                assert_int_equal(last->kind, EVENT_PLANNED);
                assert_int_equal(last->status, i == odd ? TT_ERR_MISMATCH : TT_OK);
            }
        }
        for (uint32_t i = 0; i < 6; i++) {
            step(world, "c");
            assert_int_equal(world_waiting(world), 0);
        }
        world_judge(world, true);
        world_destroy(world);
    }
}

static void test_a_tensor_that_failed_leaves_the_plan_and_returns(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        test_world *world = planned_world(4, seed);
        const test_event *event = world_event(world, 0, EVENT_PLANNED, 1);
        for (uint32_t i = 0; i < 4; i++) {
            tt_negotiator_plan_failed(world->members[i].negotiator, event->generation,
                                      event->index);
            if (seed % 2 == 0) {
                world_run(world);
            }
        }
        world_run(world);
        for (uint32_t i = 0; i < 8; i++) {
            step(world, "c");
            assert_int_equal(world_waiting(world), 0);
        }
        for (uint32_t i = 0; i < 4; i++) {
            assert_int_equal(world_counters(world, i)->plans_cut, 1);
            assert_int_equal(world_counters(world, i)->plans_made, 2);
        }
        const uint64_t sent = world_counters(world, 1)->notices_sent;
        step(world, "c");
        assert_int_equal(world_counters(world, 1)->notices_sent, sent);
        world_judge(world, true);
        world_destroy(world);
    }
}

/* Four tensors of one kind and one of another, each submitted by all before the first round. */
static void step_of_five(test_world *world)
{
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    for (uint32_t i = 0; i < world->size; i++) {
        for (uint32_t t = 0; t < 5; t++) {
            world_submit(world, i, names[(t + i) % 5], (t + i) % 5 == 4 ? "+2" : "+1");
        }
    }
    world_flush(world);
    world_run(world);
    assert_int_equal(world_waiting(world), 0);
}

static const test_event *last_planned(const test_world *world, uint32_t member, const char *name)
{
    const test_event *found = NULL;
    for (uint32_t i = 0; i < world_count(world, member, EVENT_PLANNED); i++) {
        const test_event *event = world_event(world, member, EVENT_PLANNED, i);
        found = strcmp(event->name, name) == 0 ? event : found;
    }
    assert_non_null(found);
    return found;
}

static void test_tensors_agreed_in_one_round_are_planned_as_a_bundle(void **state)
{
    (void)state;
    tt_negotiate_config config;
    tt_negotiate_config_init(&config);
    for (uint64_t seed = 0; seed < 20; seed++) {
        config.bundle_bytes = seed % 2 == 0 ? 2 * 1024 * 1024 : 3 * 128; /* three of 100 bytes */
        test_world *world = world_create(3, 2, &config, seed);
        for (uint32_t i = 0; i < 5; i++) {
            step_of_five(world);
        }
        const uint32_t size = seed % 2 == 0 ? 4 : 3;
        for (uint32_t i = 0; i < 3; i++) {
            uint32_t together = 0, places = 0;
            for (uint32_t t = 0; t < 4; t++) {
                const char name[2] = {(char)('a' + t), 0};
                const test_event *own = last_planned(world, i, name);
                const test_event *first = last_planned(world, 0, name);
                assert_int_equal(own->bundle_size, first->bundle_size);
                assert_int_equal(own->bundle, first->bundle);
                assert_int_equal(own->bundle_place, first->bundle_place);
                assert_true(own->bundle_size == size || own->bundle_size == 0);
                together += own->bundle_size == size;
                places |= own->bundle_size == size ? 1U << own->bundle_place : 0;
            }
            assert_int_equal(together, size);
            assert_int_equal(places, (1U << size) - 1);
            assert_int_equal(last_planned(world, i, "e")->bundle_size, 0); /* of another kind */
        }
        world_judge(world, true);
        world_destroy(world);
    }
}

/* A step whose first two tensors are agreed each by itself, and the others in two rounds. */
static void step_in_parts(test_world *world, uint32_t second_part, const char *claim)
{
    for (uint32_t t = 0; t < CHAIN; t++) {
        if (t == 1 || t == 2 || t == second_part) {
            world_flush(world);
            world_run(world);
        }
        world_submit_all(world, name_of(t), claim);
    }
    world_flush(world);
    world_run(world);
    assert_int_equal(world_waiting(world), 0);
}

static void assert_bundles(const test_world *world, const uint32_t sizes[CHAIN])
{
    for (uint32_t t = 0; t < CHAIN; t++) {
        assert_int_equal(last_planned(world, 1, name_of(t))->bundle_size, sizes[t]);
    }
}

static void test_bundles_do_not_depend_on_where_rounds_end(void **state)
{
    (void)state;
    static const uint32_t all[CHAIN] = {0, 0, 6, 6, 6, 6, 6, 6};
    for (uint32_t seed = 0; seed < 20; seed++) {
        test_world *world = world_create(3, 2, NULL, seed);
        for (uint32_t i = 0; i < 6; i++) {
            step_in_parts(world, 2 + (seed + 4 * i) % (CHAIN - 2), "+1");
        }
        assert_bundles(world, all);
        world_judge(world, true);
        world_destroy(world);
    }
}

static void test_tensors_never_agreed_in_one_round_are_not_bundled(void **state)
{
    (void)state;
    static const uint32_t halves[CHAIN] = {0, 0, 2, 2, 4, 4, 4, 4};
    for (uint32_t seed = 0; seed < 20; seed++) {
        test_world *world = world_create(3, 2, NULL, seed);
        for (uint32_t i = 0; i < 6; i++) {
            step_in_parts(world, 4, "+1");
        }
        assert_bundles(world, halves);
        world_judge(world, true);
        world_destroy(world);
    }
}

/* The last tensor is used first: the last bundle is short, each before it up to twice as long. */
static void test_bundles_grow_from_the_last_to_the_first(void **state)
{
    (void)state;
    static const uint32_t growing[CHAIN] = {0, 0, 2, 2, 3, 3, 3, 0};
    test_world *world = world_create(3, 2, NULL, 1);
    for (uint32_t i = 0; i < 6; i++) {
        step_in_parts(world, 1, "+1K");
    }
    assert_bundles(world, growing);
    world_judge(world, true);
    world_destroy(world);
}

static void test_a_broken_bundle_leaves_the_plan_and_returns_later(void **state)
{
    (void)state;
    test_world *world = world_create(3, 2, NULL, 7);
    for (uint32_t i = 0; i < 5; i++) {
        step_of_five(world);
    }
    const uint64_t turns = world_counters(world, 0)->coordinator_turns;
    const test_event *a = last_planned(world, 0, "a");
    tt_negotiator_plan_failed(world->members[1].negotiator, a->generation, a->bundle);
    world_flush(world);
    world_run(world);
    const uint64_t planned = world_counters(world, 2)->planned;
    step_of_five(world); /* only "e" is still planned */
    assert_int_equal(world_counters(world, 2)->planned, planned + 1);
    step_of_five(world);
    step_of_five(world);
    step_of_five(world); /* three equal steps do not suffice this time */
    assert_int_equal(world_counters(world, 2)->planned, planned + 4);
    for (uint32_t i = 0; i < 5; i++) {
        step_of_five(world);
    }
    assert_int_equal(last_planned(world, 2, "a")->bundle_size, 4);
    assert_int_equal(world_counters(world, 0)->coordinator_turns, turns); /* the cache was kept */
    world_judge(world, true);
    world_destroy(world);
}

/* A member joins after `place` submissions; the others continue for a while, then join too. */
static void run_with_join(uint32_t place, uint64_t seed, const tt_negotiate_config *config)
{
    const uint32_t size = 2 + (uint32_t)(seed % 5);
    test_world *world = world_create(size, 1 + (uint32_t)(seed % 3), config, seed);
    world->duplicate_percent = 10;
    const uint32_t early = (uint32_t)(seed % size);
    for (uint32_t at = 0; at < 9 * TENSORS; at++) {
        for (uint32_t i = 0; i < size; i++) {
            if (i == early && at >= place) {
                if (at == place) {
                    tt_negotiator_join(world->members[i].negotiator);
                }
                continue;
            }
            world_submit(world, i, name_of(at % TENSORS), "c");
            for (uint32_t k = 0; k < 2 && world->frame_count > 0; k++) {
                world_deliver(world, (uint32_t)tt_random_below(&world->random, world->frame_count));
            }
        }
        if (at % TENSORS == TENSORS - 1) {
            world_run(world);
            assert_int_equal(world_waiting(world), 0);
        }
    }
    assert_int_equal(world_count(world, 0, EVENT_JOINED), 0);
    for (uint32_t i = 0; i < size; i++) {
        if (i != early) {
            tt_negotiator_join(world->members[i].negotiator);
            world_run(world);
        }
    }
    for (uint32_t i = 0; i < size; i++) {
        assert_int_equal(world_count(world, i, EVENT_JOINED), 1);
        assert_int_equal(world_event(world, i, EVENT_JOINED, 0)->last,
                         early == size - 1 ? size - 2 : size - 1);
        assert_int_equal(world_count(world, i, EVENT_FAILED), 0);
        assert_int_equal(world_count(world, i, EVENT_AGREED) + world_count(world, i, EVENT_PLANNED),
                         9 * TENSORS);
    }
    world_judge(world, true);
    for (uint32_t i = 0; i < 6; i++) { /* the next epoch of training */
        step(world, "c");
        assert_int_equal(world_waiting(world), 0);
    }
    world_judge(world, true);
    world_destroy(world);
}

static void test_a_member_may_join_at_any_place(void **state)
{
    (void)state;
    for (uint32_t place = 0; place < 8 * TENSORS; place++) {
        for (uint64_t seed = 0; seed < 10; seed++) {
            run_with_join(place, seed, NULL);
        }
    }
}

/* Found by fuzz.control_live: a joining member ran four thousand million occurrences. */
static void test_an_impossible_count_ends_the_negotiation(void **state)
{
    (void)state;
    test_world *world = planned_world(2, 5);
    const uint32_t planned = world_count(world, 1, EVENT_PLANNED);
    const uint32_t forged = UINT32_MAX - 1;
    tt_status status = TT_OK;
    tt_negotiator_join(world->members[1].negotiator);
    world_flush(world);
    while (status == TT_OK) {
        assert_true(world->frame_count > 0);
        test_frame *frame = &world->frames[0];
        if (frame->to != 1 || frame->notice.kind != TT_NOTICE_CUT) {
            world_deliver(world, 0);
            continue;
        }
        assert_true(frame->notice.bytes >= sizeof(forged));
        memcpy(frame->payload, &forged, sizeof(forged));
        status = tt_negotiator_notice(world->members[1].negotiator, 0, &frame->notice);
        break;
    }
    assert_int_equal(status, TT_ERR_BAD_WIRE);
    assert_int_equal(world_count(world, 1, EVENT_PLANNED), planned);
    world_destroy(world);
}

static void test_a_member_may_join_without_a_cache(void **state)
{
    (void)state;
    tt_negotiate_config config;
    tt_negotiate_config_init(&config);
    config.mode = TT_NEGOTIATE_COORDINATOR;
    for (uint64_t seed = 0; seed < 20; seed++) {
        run_with_join((uint32_t)seed, seed, &config);
    }
}

static void test_calls_that_need_all_members_fail_while_one_has_joined(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        test_world *world = world_create(4, 2, NULL, seed);
        if ((seed & 1) != 0) {
            world_submit_all(world, "b", "!root 0"); /* cached */
            world_run(world);
        }
        world_submit(world, 0, "b", "!root 0");
        world_submit(world, 2, "b", "!root 0");
        if ((seed & 2) != 0) {
            world_run(world);
        }
        tt_negotiator_join(world->members[3].negotiator);
        world_run(world);
        world_submit(world, 1, "b", "!root 0");
        assert_int_equal(world_waiting(world), 0);
        for (uint32_t i = 0; i < 3; i++) {
            const test_event *event = world_event(world, i, EVENT_FAILED, 0);
            assert_int_equal(event->status, TT_ERR_PEER_LEFT);
            assert_string_equal(event->text, "tensor \"b\" needs every rank, but rank 3 has "
                                             "joined; only allreduce and reduce run without it");
            tt_negotiator_join(world->members[i].negotiator);
        }
        world_run(world);
        assert_int_equal(world_count(world, 0, EVENT_JOINED), 1);
        world_submit_all(world, "b", "!root 0");
        world_run(world);
        assert_int_equal(world_waiting(world), 0);
        world_judge(world, true);
        world_destroy(world);
    }
}

/* One member's place in the program that all members run. */
typedef struct test_runner {
    uint32_t at;
    world_ticket *last[TENSORS]; /* of each name: the next is submitted when it has ended */
} test_runner;

typedef struct test_swarm {
    test_world *world;
    uint32_t changed_at, joins_at, joiner;
    test_runner runners[8];
} test_swarm;

enum { PROGRAM = 24 * TENSORS };

/* The next submission of a member; false: it must wait. */
static bool go_on(test_swarm *swarm, uint32_t member)
{
    test_runner *runner = &swarm->runners[member];
    const uint32_t tensor = runner->at % TENSORS, step_number = runner->at / TENSORS;
    if (member == swarm->joiner && runner->at >= swarm->joins_at) {
        tt_negotiator_join(swarm->world->members[member].negotiator);
        runner->at = PROGRAM;
        return true;
    }
    if (runner->last[tensor] != NULL && runner->last[tensor]->ends == 0) {
        return false;
    }
    char name[16];
    snprintf(name, sizeof(name), tensor == 3 ? "once.%u" : "t%u",
             tensor == 3 ? step_number : tensor);
    runner->last[tensor] = world_submit(
        swarm->world, member, name, tensor == 1 && step_number >= swarm->changed_at ? "new" : "c");
    runner->at++;
    return true;
}

/* Changes, names used once, a join, members as far apart as their tickets allow. */
static void test_a_swarm_of_everything_settles(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 400; seed++) {
        const uint32_t size = 1 + (uint32_t)(seed % 7);
        tt_negotiate_config config;
        tt_negotiate_config_init(&config);
        config.capacity = seed % 3 == 0 ? 6 : 64;
        config.steps_to_plan = 1 + (uint32_t)(seed % 4);
        test_world *world = world_create(size, 1 + (uint32_t)(seed % 4), &config, seed);
        world->duplicate_percent = seed % 2 == 0 ? 15 : 0;
        world->is_lazy = seed % 5 == 0;
        test_swarm swarm = {.world = world,
                            .changed_at = (uint32_t)tt_random_below(&world->random, 20),
                            .joins_at = (uint32_t)tt_random_below(&world->random, 2 * PROGRAM),
                            .joiner = (uint32_t)tt_random_below(&world->random, size)};
        for (uint32_t left = size; left > 0;) {
            const uint32_t i = (uint32_t)tt_random_below(&world->random, size);
            if (swarm.runners[i].at < PROGRAM && go_on(&swarm, i)) {
                left -= swarm.runners[i].at == PROGRAM;
            }
            tt_negotiator_flush(world->members[i].negotiator);
            if (world->frame_count > 0) {
                world_deliver(world, (uint32_t)tt_random_below(&world->random, world->frame_count));
            }
        }
        world_run(world);
        assert_int_equal(world_waiting(world), 0);
        world_judge(world, true);
        for (uint32_t i = 0; i < size; i++) {
            assert_int_equal(world_count(world, i, EVENT_FAILED), 0);
            assert_int_equal(world_counters(world, i)->divergences, 0);
        }
        world_destroy(world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_training_and_evaluation_are_planned_side_by_side),
        cmocka_unit_test(test_a_tensor_outside_the_plan_is_negotiated_separately),
        cmocka_unit_test(test_a_change_at_any_place_loses_nothing),
        cmocka_unit_test(test_a_change_on_one_member_is_detected),
        cmocka_unit_test(test_a_tensor_that_failed_leaves_the_plan_and_returns),
        cmocka_unit_test(test_tensors_agreed_in_one_round_are_planned_as_a_bundle),
        cmocka_unit_test(test_bundles_do_not_depend_on_where_rounds_end),
        cmocka_unit_test(test_tensors_never_agreed_in_one_round_are_not_bundled),
        cmocka_unit_test(test_bundles_grow_from_the_last_to_the_first),
        cmocka_unit_test(test_a_broken_bundle_leaves_the_plan_and_returns_later),
        cmocka_unit_test(test_a_member_may_join_at_any_place),
        cmocka_unit_test(test_an_impossible_count_ends_the_negotiation),
        cmocka_unit_test(test_a_member_may_join_without_a_cache),
        cmocka_unit_test(test_calls_that_need_all_members_fail_while_one_has_joined),
        cmocka_unit_test(test_a_swarm_of_everything_settles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
