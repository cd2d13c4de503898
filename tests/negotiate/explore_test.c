/* SPDX-License-Identifier: Apache-2.0
 *
 * explore_test.c - small worlds in every order that frames and calls can take.
 *
 * A member's state follows from what happened to it, in its order. So two ways that show every
 * member the same history lead to the same world, and only one of them is walked: the search is
 * complete over histories, not over all the orders that nobody can tell apart. A world is rebuilt
 * from its path wherever the search turns back.
 *
 * Timeout: 240 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/assert.h"
#include "base/hash64.h"
#include "tests/negotiate/world.h"

enum { MEMBERS = 3, ACTIONS = 6, PATH_MAX_LENGTH = 400, STATES_LOG2 = 20 };

typedef enum action_kind {
    ACTION_NONE,
    ACTION_SUBMIT,
    ACTION_JOIN,
    ACTION_CANCEL,
    ACTION_UPSET
} action_kind;

typedef struct test_action {
    action_kind kind;
    const char *name, *claim;
} test_action;

typedef struct test_scenario {
    uint32_t size, per_host;
    tt_negotiate_mode mode;
    uint32_t planned_steps; /* of tensor A, before the search begins */
    test_action actions[MEMBERS][ACTIONS];
    uint32_t agreed_or_failed; /* events of each member's tickets at the end */
} test_scenario;

/* A call of a member, or a frame by its sender and number. */
typedef struct test_choice {
    bool is_frame;
    uint32_t member, from;
    uint64_t number;
} test_choice;

typedef struct test_search {
    const test_scenario *scenario;
    test_choice path[PATH_MAX_LENGTH];
    uint64_t *seen; /* [1 << STATES_LOG2] of keys, open addressing */
    uint32_t states, leaves;
} test_search;

typedef struct test_place {
    test_world *world;
    uint32_t next[MEMBERS]; /* action of each member */
    world_ticket *last[MEMBERS];
    uint64_t history[MEMBERS];
} test_place;

static bool may_act(const test_search *search, const test_place *place, uint32_t member)
{
    if (place->next[member] == ACTIONS) {
        return false;
    }
    const test_action *action = &search->scenario->actions[member][place->next[member]];
    const world_ticket *last = place->last[member];
    if (action->kind == ACTION_SUBMIT && last != NULL && last->ends == 0) {
        return strcmp(last->name, action->name) != 0;
    }
    return action->kind != ACTION_NONE;
}

static void act(const test_search *search, test_place *place, uint32_t member)
{
    const test_action *action = &search->scenario->actions[member][place->next[member]++];
    tt_negotiator *negotiator = place->world->members[member].negotiator;
    if (action->kind == ACTION_SUBMIT) {
        place->last[member] = world_submit(place->world, member, action->name, action->claim);
    } else if (action->kind == ACTION_JOIN) {
        tt_negotiator_join(negotiator);
    } else if (action->kind == ACTION_UPSET) {
        const test_event *event = world_event(place->world, member, EVENT_PLANNED, 0);
        tt_negotiator_upset(negotiator, event->generation, event->index);
    } else {
        tt_negotiator_cancel(negotiator, &place->last[member]->ticket);
    }
    tt_negotiator_flush(negotiator);
}

static uint64_t history_after(const test_place *place, test_choice choice)
{
    const uint64_t what = choice.is_frame ? tt_hash64_mix(choice.from + 1, choice.number) : 0;
    return tt_hash64_mix(place->history[choice.member], what);
}

static void take(const test_search *search, test_place *place, test_choice choice)
{
    place->history[choice.member] = history_after(place, choice);
    if (!choice.is_frame) {
        act(search, place, choice.member);
        return;
    }
    for (uint32_t i = 0; i < place->world->frame_count; i++) {
        const test_frame *frame = &place->world->frames[i];
        if (frame->from == choice.from && frame->number == choice.number) {
            world_deliver(place->world, i);
            return;
        }
    }
    fail_msg("frame %llu of member %u is not there", (unsigned long long)choice.number,
             choice.from);
}

static test_place rebuild(const test_search *search, uint32_t length)
{
    const test_scenario *scenario = search->scenario;
    tt_negotiate_config config;
    tt_negotiate_config_init(&config);
    config.mode = scenario->mode;
    config.steps_to_plan = 1;
    config.capacity = 4;
    test_place place = {.world = world_create(scenario->size, scenario->per_host, &config, 1)};
    for (uint32_t i = 0; i < scenario->planned_steps; i++) {
        world_submit_all(place.world, "A", "c");
        world_run(place.world);
    }
    for (uint32_t i = 0; i < length; i++) {
        take(search, &place, search->path[i]);
    }
    return place;
}

/* False: a world that shows all members the same was seen. */
static bool is_new(test_search *search, const test_place *place, test_choice choice)
{
    uint64_t key = 1;
    for (uint32_t i = 0; i < MEMBERS; i++) {
        key = tt_hash64_mix(key,
                            i == choice.member ? history_after(place, choice) : place->history[i]);
    }
    const uint32_t mask = (1U << STATES_LOG2) - 1;
    uint32_t at = (uint32_t)key & mask;
    for (; search->seen[at] != 0; at = (at + 1) & mask) {
        if (search->seen[at] == key) {
            return false;
        }
    }
    TT_ASSERT(search->states < mask / 2); /* choose a smaller scenario */
    search->seen[at] = key;
    search->states++;
    return true;
}

static uint32_t list_choices(test_search *search, const test_place *place, test_choice *choices)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < search->scenario->size; i++) {
        if (may_act(search, place, i)) {
            choices[count++] = (test_choice){.member = i};
        }
    }
    for (uint32_t i = 0; i < place->world->frame_count; i++) {
        const test_frame *frame = &place->world->frames[i];
        TT_ASSERT(count < 32);
        choices[count++] = (test_choice){
            .is_frame = true, .member = frame->to, .from = frame->from, .number = frame->number};
    }
    return count;
}

/* Nothing can happen any more: everything must have ended, on all members alike. */
static void judge_end(test_search *search, const test_place *place)
{
    search->leaves++;
    assert_int_equal(world_waiting(place->world), 0);
    world_judge(place->world, true);
    for (uint32_t i = 0; i < search->scenario->size; i++) {
        uint32_t count = 0;
        for (uint32_t k = 0; k < place->world->members[i].event_count; k++) {
            count += place->world->members[i].events[k].kind != EVENT_JOINED;
        }
        assert_int_equal(count,
                         search->scenario->planned_steps + search->scenario->agreed_or_failed);
    }
}

/* Takes the place over. */
static void explore(test_search *search, test_place here, uint32_t length)
{
    test_choice choices[32];
    const uint32_t count = list_choices(search, &here, choices);
    TT_ASSERT(length < PATH_MAX_LENGTH);
    if (count == 0) {
        judge_end(search, &here);
    }
    test_choice fresh[32];
    uint32_t fresh_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (is_new(search, &here, choices[i])) {
            fresh[fresh_count++] = choices[i];
        }
    }
    for (uint32_t i = 0; i < fresh_count; i++) {
        const bool is_last = i == fresh_count - 1;
        test_place next = is_last ? here : rebuild(search, length);
        search->path[length] = fresh[i];
        take(search, &next, fresh[i]);
        explore(search, next, length + 1);
    }
    if (fresh_count == 0) {
        world_destroy(here.world);
    }
}

static void run(const test_scenario *scenario)
{
    test_search *search = calloc(1, sizeof(*search));
    assert_non_null(search);
    search->scenario = scenario;
    search->seen = calloc(1U << STATES_LOG2, sizeof(uint64_t));
    assert_non_null(search->seen);
    explore(search, rebuild(search, 0), 0);
    print_message("%u states, %u ends\n", search->states, search->leaves);
    assert_true(search->leaves > 0);
    free(search->seen);
    free(search);
}

#define SUBMIT(name_, claim_)                                     \
    {                                                             \
        .kind = ACTION_SUBMIT, .name = (name_), .claim = (claim_) \
    }
#define UPSET                \
    {                        \
        .kind = ACTION_UPSET \
    }
#define JOIN                \
    {                       \
        .kind = ACTION_JOIN \
    }
#define CANCEL                \
    {                         \
        .kind = ACTION_CANCEL \
    }

static void test_two_members_in_opposite_order(void **state)
{
    (void)state;
    const test_scenario scenario = {
        .size = 2,
        .per_host = 1,
        .actions = {{SUBMIT("A", "c"), SUBMIT("B", "c")}, {SUBMIT("B", "c"), SUBMIT("A", "c")}},
        .agreed_or_failed = 2};
    run(&scenario);
}

static void test_three_members_on_two_hosts(void **state)
{
    (void)state;
    const test_scenario scenario = {.size = 3,
                                    .per_host = 2,
                                    .mode = TT_NEGOTIATE_BITVECTOR,
                                    .planned_steps = 1, /* cached, not planned */
                                    .actions = {{SUBMIT("A", "c"), SUBMIT("A", "c")},
                                                {SUBMIT("A", "c"), SUBMIT("A", "c")},
                                                {SUBMIT("A", "c"), SUBMIT("A", "c")}},
                                    .agreed_or_failed = 2};
    run(&scenario);
}

static void test_three_hosts_and_claims_that_differ(void **state)
{
    (void)state;
    const test_scenario scenario = {
        .size = 3,
        .per_host = 1,
        .actions = {{SUBMIT("A", "c")}, {SUBMIT("A", "d")}, {SUBMIT("A", "c")}},
        .agreed_or_failed = 1};
    run(&scenario);
}

static void test_a_plan_is_cut_by_a_change_on_all(void **state)
{
    (void)state;
    const test_scenario scenario = {
        .size = 2,
        .per_host = 1,
        .planned_steps = 3,
        .actions = {{SUBMIT("A", "c"), SUBMIT("A", "new"), SUBMIT("A", "new")},
                    {SUBMIT("A", "c"), SUBMIT("A", "new"), SUBMIT("A", "new")}},
        .agreed_or_failed = 3};
    run(&scenario);
}

static void test_a_plan_is_cut_by_a_change_on_one(void **state)
{
    (void)state;
    const test_scenario scenario = {
        .size = 2,
        .per_host = 1,
        .planned_steps = 3,
        .actions = {{SUBMIT("A", "c"), SUBMIT("A", "new"), SUBMIT("A", "c")},
                    {SUBMIT("A", "c"), SUBMIT("A", "c"), SUBMIT("A", "c")}},
        .agreed_or_failed = 3};
    run(&scenario);
}

static void test_a_plan_of_three_members_is_cut(void **state)
{
    (void)state;
    for (uint32_t per_host = 1; per_host <= 3; per_host++) {
        const test_scenario scenario = {
            .size = 3, .per_host = per_host, .planned_steps = 3, .actions = {{UPSET}}};
        run(&scenario);
    }
}

static void test_a_plan_is_cut_by_a_join(void **state)
{
    (void)state;
    const test_scenario scenario = {
        .size = 2,
        .per_host = 1,
        .planned_steps = 3,
        .actions = {{SUBMIT("A", "c"), JOIN}, {SUBMIT("A", "c"), SUBMIT("A", "c"), JOIN}},
        .agreed_or_failed = 2};
    run(&scenario);
}

static void test_one_of_three_joins(void **state)
{
    (void)state;
    const test_scenario scenario = {.size = 3,
                                    .per_host = 3,
                                    .mode = TT_NEGOTIATE_BITVECTOR,
                                    .planned_steps = 1,
                                    .actions = {{JOIN}, {SUBMIT("A", "c")}, {SUBMIT("A", "c")}},
                                    .agreed_or_failed = 1};
    run(&scenario);
}

static void test_two_members_join_with_tickets_that_wait(void **state)
{
    (void)state;
    const test_scenario scenario = {.size = 2,
                                    .per_host = 1,
                                    .mode = TT_NEGOTIATE_BITVECTOR,
                                    .planned_steps = 1,
                                    .actions = {{SUBMIT("A", "c"), JOIN}, {SUBMIT("B", "c"), JOIN}},
                                    .agreed_or_failed = 2};
    run(&scenario);
}

static void test_a_ticket_is_cancelled(void **state)
{
    (void)state;
    const test_scenario scenario = {.size = 2,
                                    .per_host = 1,
                                    .mode = TT_NEGOTIATE_BITVECTOR,
                                    .planned_steps = 1,
                                    .actions = {{SUBMIT("A", "c"), CANCEL, SUBMIT("A", "c")},
                                                {SUBMIT("A", "c"), SUBMIT("A", "c")}},
                                    .agreed_or_failed = 2};
    run(&scenario);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_members_in_opposite_order),
        cmocka_unit_test(test_three_members_on_two_hosts),
        cmocka_unit_test(test_three_hosts_and_claims_that_differ),
        cmocka_unit_test(test_a_plan_is_cut_by_a_change_on_all),
        cmocka_unit_test(test_a_plan_is_cut_by_a_change_on_one),
        cmocka_unit_test(test_a_plan_of_three_members_is_cut),
        cmocka_unit_test(test_a_plan_is_cut_by_a_join),
        cmocka_unit_test(test_one_of_three_joins),
        cmocka_unit_test(test_two_members_join_with_tickets_that_wait),
        cmocka_unit_test(test_a_ticket_is_cancelled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
