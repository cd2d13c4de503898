/* SPDX-License-Identifier: Apache-2.0
 *
 * explore_test.c - small worlds in every order of frames and calls.
 *
 * Depth-first search over states. A state is the world's hash (state.h): the members' states and
 * events, frames in flight, calls to be made. A visited state is not explored again. All memory of
 * a world lies in one place (the wrapped allocator below); backtracking copies it.
 *
 * Merging by state is right only if the hash covers everything. Where time allows, the search is
 * repeated, merging only states with the same history on every member: it must reach the same ends.
 *
 * Wrap: malloc calloc realloc free
 * Timeout: 400 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/assert.h"
#include "kernel/hash64.h"
#include "tests/negotiate/state.h"
#include "tests/negotiate/world.h"

enum {
    MEMBERS = 3,
    ACTIONS = 6,
    CHOICES = 48,
    DEPTH_MAX = 400,
    STATES_LOG2 = 22,
    ENDS_LOG2 = 16,
    ARENA_BYTES = 1 << 20,
    CLASS_BYTES = 32,
    CLASSES = 512,
};

/* ---- memory: one place, so that a world can be copied ---- */

typedef struct chunk {
    uint32_t class;
    uint32_t next_free; /* offset; 0: none */
    uint64_t pad;
} chunk;

typedef struct arena {
    size_t used;
    uint32_t free[CLASSES];
    _Alignas(16) uint8_t bytes[ARENA_BYTES];
} arena;

static arena *ground;    /* memory of worlds */
static bool is_grounded; /* allocations now belong to a world */

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void __real_free(void *memory);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void __wrap_free(void *memory);

static bool is_ground(const void *memory)
{
    const uint8_t *at = memory;
    return ground != NULL && at >= ground->bytes && at < ground->bytes + ARENA_BYTES;
}

void *__wrap_malloc(size_t bytes)
{
    if (!is_grounded) {
        return __real_malloc(bytes);
    }
    const size_t class = (bytes + sizeof(chunk) + CLASS_BYTES - 1) / CLASS_BYTES;
    TT_ASSERT(class < CLASSES);
    chunk *taken;
    if (ground->free[class] != 0) {
        taken = (chunk *)(void *)(ground->bytes + ground->free[class]);
        ground->free[class] = taken->next_free;
    } else {
        if (ground->used == 0) {
            ground->used = CLASS_BYTES; /* offset 0 is none */
        }
        taken = (chunk *)(void *)(ground->bytes + ground->used);
        ground->used += class * CLASS_BYTES;
        TT_ASSERT(ground->used <= ARENA_BYTES);
    }
    taken->class = (uint32_t) class;
    return taken + 1;
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    if (!is_grounded) {
        return __real_calloc(count, bytes);
    }
    void *memory = __wrap_malloc(count * bytes);
    memset(memory, 0, count * bytes);
    return memory;
}

void __wrap_free(void *memory)
{
    if (!is_ground(memory)) {
        __real_free(memory);
        return;
    }
    chunk *given = (chunk *)memory - 1;
    given->next_free = ground->free[given->class];
    ground->free[given->class] = (uint32_t)((uint8_t *)given - ground->bytes);
}

void *__wrap_realloc(void *memory, size_t bytes)
{
    if (!is_grounded) {
        return __real_realloc(memory, bytes);
    }
    void *larger = __wrap_malloc(bytes);
    if (memory != NULL) {
        const size_t room = ((chunk *)memory - 1)->class * (size_t)CLASS_BYTES - sizeof(chunk);
        memcpy(larger, memory, room < bytes ? room : bytes);
        __wrap_free(memory);
    }
    return larger;
}

/* ---- scenarios ---- */

typedef enum action_kind {
    ACTION_NONE,
    ACTION_SUBMIT,
    ACTION_JOIN,
    ACTION_CANCEL,
    ACTION_PLAN_FAILED,
    ACTION_LEAVE, /* when its tickets have ended; frames to it are lost from then on */
} action_kind;

typedef struct test_action {
    action_kind kind;
    const char *name, *claim;
} test_action;

typedef struct test_scenario {
    uint32_t size, per_host;
    tt_negotiate_mode mode;
    uint32_t planned_steps; /* of A (and B), before the search begins */
    bool has_b;
    test_action actions[MEMBERS][ACTIONS];
    uint32_t agreed_or_failed; /* events of each member's tickets at the end */
    bool is_uneven;            /* members submit different tickets: judged by occurrences */
    bool has_joins;            /* all join in the end */
} test_scenario;

/* ---- the search ---- */

/* A call of a member, or a frame by its sender and number. */
typedef struct test_choice {
    bool is_frame;
    uint32_t member, from;
    uint64_t number;
} test_choice;

typedef struct key_set {
    uint64_t *keys; /* open addressing; 0: free */
    uint32_t log2, count;
} key_set;

typedef struct test_search {
    const test_scenario *scenario;
    bool by_history; /* else by state */
    key_set seen, ends;
    uint64_t edges;
    uint32_t leaves, depth;
} test_search;

typedef struct test_place {
    test_world *world;
    uint32_t next[MEMBERS]; /* action of each member */
    bool has_left[MEMBERS];
    world_ticket *last[MEMBERS];
    uint64_t history[MEMBERS];
    uint64_t states[MEMBERS]; /* as state_hash keeps them */
} test_place;

static void set_create(key_set *set, uint32_t log2)
{
    *set = (key_set){.log2 = log2};
    set->keys = calloc((size_t)1 << log2, sizeof(uint64_t));
    assert_non_null(set->keys);
}

/* False: it was there already. */
static bool set_add(key_set *set, uint64_t key)
{
    const uint32_t mask = (1U << set->log2) - 1;
    key += key == 0;
    uint32_t at = (uint32_t)key & mask;
    for (; set->keys[at] != 0; at = (at + 1) & mask) {
        if (set->keys[at] == key) {
            return false;
        }
    }
    TT_ASSERT(set->count < mask / 4 * 3); /* choose a smaller scenario */
    set->keys[at] = key;
    set->count++;
    return true;
}

/* True: a ticket of this member waits; NULL: of any name. */
static bool is_waiting(const test_world *world, uint32_t member, const char *name)
{
    for (uint32_t i = 0; i < world->ticket_count; i++) {
        const world_ticket *ticket = world->tickets[i];
        if (ticket->member == member && ticket->ends == 0 &&
            (name == NULL || strcmp(ticket->name, name) == 0)) {
            return true;
        }
    }
    return false;
}

static bool may_act(const test_search *search, const test_place *place, uint32_t member)
{
    if (place->next[member] == ACTIONS) {
        return false;
    }
    const test_action *action = &search->scenario->actions[member][place->next[member]];
    if (action->kind == ACTION_SUBMIT || action->kind == ACTION_LEAVE) {
        return !is_waiting(place->world, member, action->name);
    }
    return action->kind != ACTION_NONE;
}

static void act(const test_search *search, test_place *place, uint32_t member)
{
    const test_action *action = &search->scenario->actions[member][place->next[member]++];
    tt_negotiator *negotiator = place->world->members[member].negotiator;
    switch (action->kind) {
    case ACTION_SUBMIT:
        place->last[member] = world_submit(place->world, member, action->name, action->claim);
        break;
    case ACTION_JOIN:
        tt_negotiator_join(negotiator);
        break;
    case ACTION_PLAN_FAILED: {
        const test_event *event = world_event(place->world, member, EVENT_PLANNED, 0);
        tt_negotiator_plan_failed(negotiator, event->generation, event->index);
        break;
    }
    case ACTION_CANCEL:
        tt_negotiator_cancel(negotiator, &place->last[member]->ticket);
        break;
    case ACTION_LEAVE:
        place->has_left[member] = true;
        return;
    case ACTION_NONE:
        fail_msg("no action");
    }
    tt_negotiator_flush(negotiator);
}

static void take(const test_search *search, test_place *place, test_choice choice)
{
    const uint64_t what = choice.is_frame ? tt_hash64_mix(choice.from + 1, choice.number) : 0;
    place->history[choice.member] = tt_hash64_mix(place->history[choice.member], what);
    place->states[choice.member] = 0; /* only this member changes */
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
    fail_msg("a frame of member %u is not there", choice.from);
}

static test_place begin(const test_search *search)
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
        if (scenario->has_b) {
            world_submit_all(place.world, "B", "c");
        }
        world_run(place.world);
    }
    return place;
}

static uint64_t key_of(const test_search *search, test_place *place)
{
    uint64_t key = search->by_history ? 1 : state_hash(place->world, place->states);
    for (uint32_t i = 0; i < search->scenario->size; i++) {
        key = tt_hash64_mix(key, search->by_history ? place->history[i] : place->next[i]);
    }
    return key;
}

static uint32_t list_choices(const test_search *search, const test_place *place,
                             test_choice *choices)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < search->scenario->size; i++) {
        if (may_act(search, place, i)) {
            choices[count++] = (test_choice){.member = i};
        }
    }
    for (uint32_t i = 0; i < place->world->frame_count; i++) {
        const test_frame *frame = &place->world->frames[i];
        TT_ASSERT(count < CHOICES);
        if (!place->has_left[frame->to]) {
            choices[count++] = (test_choice){.is_frame = true,
                                             .member = frame->to,
                                             .from = frame->from,
                                             .number = frame->number};
        }
    }
    return count;
}

/* ---- ends ---- */

static uint32_t count_told(const test_world *world, uint32_t member)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < world->members[member].event_count; i++) {
        count += world->members[member].events[i].kind != EVENT_JOINED;
    }
    return count;
}

/* A member has left: tickets that wait for it fail in the end (control does that, after a time in
 * which frames still arrive). Agreements it took part in must have reached all members. */
static void judge_left(const test_place *place)
{
    const test_world *world = place->world;
    for (uint32_t i = 0; i < world->size; i++) {
        if (place->has_left[i]) {
            for (uint32_t k = 0; k < world->size; k++) {
                assert_true(world_count(world, k, EVENT_AGREED) >=
                            world_count(world, i, EVENT_AGREED));
            }
        } else {
            tt_negotiator_shut(world->members[i].negotiator, TT_ERR_PEER_LEFT, "left");
        }
    }
    assert_int_equal(world_waiting(world), 0);
    world_judge(world, false);
}

/* All have joined: no ticket waits, and all agree which member was last. */
static void judge_joined(const test_world *world)
{
    assert_int_equal(world_waiting(world), 0);
    world_judge(world, true);
    for (uint32_t i = 0; i < world->size; i++) {
        assert_int_equal(world_count(world, i, EVENT_JOINED), 1);
        assert_int_equal(world_event(world, i, EVENT_JOINED, 0)->last,
                         world_event(world, 0, EVENT_JOINED, 0)->last);
    }
}

/* No event is left: every ticket must have ended, on all members alike. */
static void judge_end(test_search *search, const test_place *place)
{
    const test_scenario *scenario = search->scenario;
    uint64_t end = 1;
    search->leaves++;
    bool has_left = false;
    for (uint32_t i = 0; i < scenario->size; i++) {
        end = tt_hash64_mix(end, state_told(place->world, i));
        has_left = has_left || place->has_left[i];
    }
    (void)set_add(&search->ends, end);
    if (has_left) {
        judge_left(place);
        return;
    }
    if (scenario->has_joins) {
        judge_joined(place->world);
        return;
    }
    if (scenario->is_uneven) {
        world_judge(place->world, false);
        world_judge_occurrences(place->world);
        return;
    }
    assert_int_equal(world_waiting(place->world), 0);
    world_judge(place->world, true);
    for (uint32_t i = 0; i < scenario->size; i++) {
        assert_int_equal(count_told(place->world, i),
                         scenario->planned_steps * (scenario->has_b ? 2 : 1) +
                             scenario->agreed_or_failed);
    }
}

static void explore(test_search *search, test_place here, uint32_t depth)
{
    test_choice choices[CHOICES];
    const uint32_t count = list_choices(search, &here, choices);
    TT_ASSERT(depth < DEPTH_MAX);
    search->depth = depth > search->depth ? depth : search->depth;
    if (count == 0) {
        judge_end(search, &here);
        return;
    }
    const size_t bytes = offsetof(arena, bytes) + ground->used;
    arena *kept = count > 1 ? __real_malloc(bytes) : NULL;
    if (kept != NULL) {
        memcpy(kept, ground, bytes);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (i > 0) {
            memcpy(ground, kept, bytes);
        }
        test_place next = here;
        take(search, &next, choices[i]);
        search->edges++;
        if (set_add(&search->seen, key_of(search, &next))) {
            explore(search, next, depth + 1);
        }
    }
    __real_free(kept);
}

static void search_run(test_search *search, const test_scenario *scenario, bool by_history)
{
    *search = (test_search){.scenario = scenario, .by_history = by_history};
    set_create(&search->seen, STATES_LOG2);
    set_create(&search->ends, ENDS_LOG2);
    memset(ground, 0, offsetof(arena, bytes));
    is_grounded = true;
    explore(search, begin(search), 0);
    is_grounded = false;
    assert_true(search->leaves > 0);
}

static void search_fini(test_search *search)
{
    free(search->seen.keys);
    free(search->ends.keys);
}

/* `is_checked`: both ways, to the same ends. */
static void run(const char *what, const test_scenario *scenario, bool is_checked)
{
    test_search states, histories;
    const clock_t before = clock();
    search_run(&states, scenario, false);
    print_message("%s, %u on hosts of %u: %u states, %llu edges, %u ends, depth %u, %.1f s\n", what,
                  scenario->size, scenario->per_host, states.seen.count,
                  (unsigned long long)states.edges, states.ends.count, states.depth,
                  (double)(clock() - before) / CLOCKS_PER_SEC);
    if (is_checked) {
        search_run(&histories, scenario, true);
        print_message("    the same by history: %u states\n", histories.seen.count);
        assert_int_equal(states.ends.count, histories.ends.count);
        for (uint32_t i = 0; i < 1U << ENDS_LOG2; i++) {
            assert_true(histories.ends.keys[i] == 0 ||
                        !set_add(&states.ends, histories.ends.keys[i]));
        }
        search_fini(&histories);
    }
    search_fini(&states);
}

/* ---- two members ---- */

#define SUBMIT(name_, claim_)                                     \
    {                                                             \
        .kind = ACTION_SUBMIT, .name = (name_), .claim = (claim_) \
    }
#define DO(kind_)       \
    {                   \
        .kind = (kind_) \
    }
#define PLAN_FAILED DO(ACTION_PLAN_FAILED)
#define JOIN DO(ACTION_JOIN)
#define LEAVE DO(ACTION_LEAVE)
#define CANCEL DO(ACTION_CANCEL)

static void test_two_members_in_opposite_order(void **state)
{
    (void)state;
    const test_scenario scenario = {
        .size = 2,
        .per_host = 1,
        .actions = {{SUBMIT("A", "c"), SUBMIT("B", "c")}, {SUBMIT("B", "c"), SUBMIT("A", "c")}},
        .agreed_or_failed = 2};
    run("two members in opposite order", &scenario, true);
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
    run("three members on two hosts", &scenario, true);
}

static void test_three_hosts_and_claims_that_differ(void **state)
{
    (void)state;
    const test_scenario scenario = {
        .size = 3,
        .per_host = 1,
        .actions = {{SUBMIT("A", "c")}, {SUBMIT("A", "d")}, {SUBMIT("A", "c")}},
        .agreed_or_failed = 1};
    run("three hosts and claims that differ", &scenario, true);
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
    run("a plan is cut by a change on all", &scenario, true);
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
    run("a plan is cut by a change on one", &scenario, true);
}

static void test_a_plan_of_three_members_is_cut(void **state)
{
    (void)state;
    for (uint32_t per_host = 1; per_host <= 3; per_host++) {
        const test_scenario scenario = {
            .size = 3, .per_host = per_host, .planned_steps = 3, .actions = {{PLAN_FAILED}}};
        run("a plan of three members is cut", &scenario, true);
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
    run("a plan is cut by a join", &scenario, true);
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
    run("one of three joins", &scenario, true);
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
    run("two members join with tickets that wait", &scenario, true);
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
    run("a ticket is cancelled", &scenario, true);
}

/* ---- every combination of short programs ---- */

/* A and B are planned when a program begins. */
typedef struct test_menu {
    const char *what;
    uint32_t count;
    bool has_joins;
    test_action programs[8][ACTIONS];
} test_menu;

static const test_menu cuts = {.what = "cuts",
                               .count = 8,
                               .programs = {
                                   {SUBMIT("A", "c"), SUBMIT("A", "c")},
                                   {SUBMIT("A", "new"), SUBMIT("A", "new")},
                                   {SUBMIT("A", "c"), SUBMIT("A", "new")},
                                   {PLAN_FAILED, SUBMIT("A", "c")},
                                   {SUBMIT("B", "c"), SUBMIT("A", "new")},
                                   {{.kind = ACTION_NONE}},
                                   {SUBMIT("A", "c"), CANCEL, SUBMIT("B", "new")},
                                   {SUBMIT("A", "new"), SUBMIT("B", "new"), SUBMIT("A", "c")},
                               }};

static const test_menu joins = {.what = "joins",
                                .count = 5,
                                .has_joins = true,
                                .programs = {
                                    {JOIN},
                                    {SUBMIT("A", "c"), JOIN},
                                    {SUBMIT("A", "c"), SUBMIT("B", "c"), JOIN},
                                    {SUBMIT("A", "new"), JOIN},
                                    {SUBMIT("C", "c"), SUBMIT("A", "c"), JOIN},
                                }};

/* C is new: the agreement about it is in flight when a member leaves. */
static const test_menu leaves = {.what = "leaves",
                                 .count = 5,
                                 .programs = {
                                     {SUBMIT("C", "c"), LEAVE},
                                     {SUBMIT("C", "c"), SUBMIT("A", "c"), SUBMIT("C", "c")},
                                     {SUBMIT("A", "c"), SUBMIT("C", "c"), LEAVE},
                                     {SUBMIT("A", "new"), SUBMIT("C", "c"), LEAVE},
                                     {PLAN_FAILED, SUBMIT("C", "c"), SUBMIT("A", "c")},
                                 }};

typedef struct sweep {
    uint64_t scenarios, states, edges, ends;
    uint32_t depth;
} sweep;

static void sweep_one(sweep *sum, const test_scenario *scenario)
{
    test_search search;
    search_run(&search, scenario, false);
    sum->scenarios++;
    sum->states += search.seen.count;
    sum->edges += search.edges;
    sum->ends += search.ends.count;
    sum->depth = search.depth > sum->depth ? search.depth : sum->depth;
    search_fini(&search);
}

/* True: more than one member runs a program from `few` on. */
static bool has_many(uint32_t number, uint32_t size, uint32_t count, uint32_t few)
{
    uint32_t many = 0;
    for (uint32_t i = 0; i < size; i++, number /= count) {
        many += number % count >= few;
    }
    return many > 1;
}

/* Every choice of `count` programs; those from `few` on for one member at a time. */
static void sweep_some(const test_menu *menu, uint32_t size, uint32_t per_host, uint32_t count,
                       uint32_t few)
{
    sweep sum = {0};
    const clock_t before = clock();
    uint32_t total = 1;
    for (uint32_t i = 0; i < size; i++) {
        total *= count;
    }
    for (uint32_t number = 0; number < total; number++) {
        if (has_many(number, size, count, few)) {
            continue;
        }
        test_scenario scenario = {.size = size,
                                  .per_host = per_host,
                                  .planned_steps = 3,
                                  .has_b = true,
                                  .is_uneven = true,
                                  .has_joins = menu->has_joins};
        for (uint32_t i = 0, rest = number; i < size; i++, rest /= count) {
            memcpy(scenario.actions[i], menu->programs[rest % count], sizeof(menu->programs[0]));
        }
        sweep_one(&sum, &scenario);
    }
    print_message("%s, %u on hosts of %u: %llu scenarios, %llu states, %llu edges, %llu ends, "
                  "depth %u, %.1f s\n",
                  menu->what, size, per_host, (unsigned long long)sum.scenarios,
                  (unsigned long long)sum.states, (unsigned long long)sum.edges,
                  (unsigned long long)sum.ends, sum.depth,
                  (double)(clock() - before) / CLOCKS_PER_SEC);
}

static void sweep_menu(const test_menu *menu, uint32_t size, uint32_t per_host, uint32_t count)
{
    sweep_some(menu, size, per_host, count, count);
}

static void sweep_hosts(const test_menu *menu, uint32_t size, uint32_t count)
{
    for (uint32_t per_host = 1; per_host <= size; per_host++) {
        sweep_menu(menu, size, per_host, count);
    }
}

static void test_every_pair_of_programs(void **state)
{
    (void)state;
    sweep_hosts(&cuts, 2, cuts.count);
    sweep_hosts(&joins, 2, joins.count);
    sweep_hosts(&leaves, 2, leaves.count);
}

static void test_every_three_of_some_programs(void **state)
{
    (void)state;
    sweep_menu(&cuts, 3, 1, 3);
    sweep_menu(&joins, 3, 2, 2);
    sweep_menu(&leaves, 3, 1, 3);
}

/* Three members on two hosts equal those on three with other numbers: the same frames pass between
 * a first, its partner and the one folded onto it. Over all choices of programs both give the same
 * cases, so only one of the two is explored. */
static void test_every_three_programs_that_cut(void **state)
{
    (void)state;
    sweep_some(&cuts, 3, 1, 7, 2);
    sweep_menu(&cuts, 3, 1, 5);
    sweep_menu(&cuts, 3, 3, 5);
}

static void test_every_three_programs_that_leave_or_join(void **state)
{
    (void)state;
    sweep_some(&leaves, 3, 1, leaves.count, 3);
    sweep_some(&leaves, 3, 3, leaves.count, 3);
    sweep_menu(&joins, 3, 2, 3);
    sweep_menu(&joins, 3, 3, 3);
}

/* --cuts, --joins: the searches that take a minute each. */
int main(int count, char **words)
{
    ground = calloc(1, sizeof(*ground));
    assert_non_null(ground);
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
        cmocka_unit_test(test_every_pair_of_programs),
        cmocka_unit_test(test_every_three_of_some_programs),
    };
    const struct CMUnitTest cut_tests[] = {
        cmocka_unit_test(test_every_three_programs_that_cut),
    };
    const struct CMUnitTest join_tests[] = {
        cmocka_unit_test(test_every_three_programs_that_leave_or_join),
    };
    if (count > 1) {
        return strcmp(words[1], "--cuts") == 0 ? cmocka_run_group_tests(cut_tests, NULL, NULL)
                                               : cmocka_run_group_tests(join_tests, NULL, NULL);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
