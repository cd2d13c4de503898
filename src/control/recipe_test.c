/* SPDX-License-Identifier: Apache-2.0
 *
 * recipe_test.c - which calls share a recipe, how many recipes are kept, and idle ops. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/base.h"
#include "control/control_internal.h"
#include "platform/shuffle.h"

/* One rank's machine of two. */
typedef struct bench {
    tt_shuffle *shuffle;
    tt_control *control;
    tt_set *set;
} bench;

static bench bench_make(uint64_t fail_at)
{
    const tt_shuffle_config config = {
        .size = 2, .seed = 1, .fail_at = fail_at, .fails_forever = true};
    const uint32_t hosts[2] = {0, 0};
    const tt_world world = {.size = 2, .epoch = 1, .host_of = hosts, .has_views = true};
    tt_control_config control;
    bench made = {.shuffle = tt_shuffle_create(&config)};
    tt_control_config_init(&control);
    assert_int_equal(tt_control_create(tt_shuffle_platform(made.shuffle, 0), &world, &control,
                                       &(tt_control_listener){0}, &made.control),
                     TT_OK);
    made.set = tt_set_find(made.control, 0);
    assert_non_null(made.set);
    return made;
}

static void bench_drop(bench *made)
{
    tt_control_destroy(made->control);
    assert_true(tt_shuffle_destroy(made->shuffle));
}

static float input[4096], output[4096];

static tt_request sum_of(uint64_t count)
{
    return (tt_request){.collective = TT_ALLREDUCE,
                        .dtype = TT_F32,
                        .redop = TT_SUM,
                        .count = count,
                        .prescale = 1.0,
                        .postscale = 1.0,
                        .input = input,
                        .output = output};
}

static tt_recipe *recipe_of(bench *made, tt_request *request)
{
    tt_recipe *recipe = tt_recipe_of(made->control, made->set, request, &tt_space_calls);
    assert_non_null(recipe);
    assert_ptr_equal(request->recipe, recipe);
    assert_int_equal(request->recipe_stamp, recipe->stamp);
    return recipe;
}

/* The recipe of a request that has no hint. */
static tt_recipe *anew(bench *made, const tt_request *request)
{
    tt_request copy = *request;
    copy.recipe = NULL;
    copy.recipe_stamp = 0;
    return recipe_of(made, &copy);
}

static const tt_program one_step = {
    .number = 1,
    .step_count = 1,
    .steps = {
        {.kind = TT_STAGE_EXCHANGE, .redop = TT_MAX, .from = TT_RUN_INPUT, .to = TT_RUN_OUTPUT}}};

static void test_calls_that_are_alike_share_a_recipe(void **state)
{
    (void)state;
    bench made = bench_make(0);
    tt_request first = sum_of(5), other;
    tt_recipe *recipe = recipe_of(&made, &first);
    assert_ptr_equal(recipe_of(&made, &first), recipe); /* by its hint */
    assert_ptr_equal(anew(&made, &first), recipe);
    other = first, other.output = output + 64, other.input = input + 7;
    assert_ptr_equal(anew(&made, &other), recipe); /* where buffers lie does not matter */
    tt_request others[9];
    for (size_t i = 0; i < TT_ARRAY_COUNT(others); i++) {
        others[i] = sum_of(5); /* the hint is of another call */
        others[i].recipe = first.recipe;
        others[i].recipe_stamp = first.recipe_stamp;
    }
    others[0].count = 6;
    others[1].dtype = TT_I32;
    others[2].redop = TT_MAX;
    others[3].prescale = 2.0;
    others[4].postscale = 2.0;
    others[5].output = input; /* in place */
    others[6].segment_bytes = 128;
    others[7].collective = TT_BROADCAST;
    others[8].program = &one_step;
    for (size_t i = 0; i < TT_ARRAY_COUNT(others); i++) {
        tt_recipe *found = recipe_of(&made, &others[i]);
        assert_ptr_not_equal(found, recipe);
        assert_ptr_equal(anew(&made, &others[i]), found);
        for (size_t j = 0; j < i; j++) {
            assert_ptr_not_equal(found, others[j].recipe);
        }
    }
    assert_int_equal(made.control->recipes.counts[0], 1 + TT_ARRAY_COUNT(others));
    bench_drop(&made);
}

static void test_a_program_is_part_of_the_descriptor(void **state)
{
    (void)state;
    bench made = bench_make(0);
    tt_program twin = one_step, second = one_step;
    second.number = 2;
    tt_request plain = sum_of(5), with = sum_of(5), alike = sum_of(5), unlike = sum_of(5);
    with.program = &one_step, alike.program = &twin, unlike.program = &second;
    const uint64_t descriptor = recipe_of(&made, &with)->descriptor;
    assert_true(recipe_of(&made, &plain)->descriptor != descriptor);
    assert_true(recipe_of(&made, &alike)->descriptor == descriptor); /* at another address */
    assert_true(recipe_of(&made, &unlike)->descriptor != descriptor);
    bench_drop(&made);
}

static void test_settings_are_part_of_the_key(void **state)
{
    (void)state;
    bench made = bench_make(0);
    tt_request request = sum_of(2000);
    tt_recipe *first = recipe_of(&made, &request);
    tt_control_force(made.control, "ring");
    tt_recipe *forced = recipe_of(&made, &request);
    assert_ptr_not_equal(forced, first);
    assert_string_equal(forced->stages[forced->stage_count - 1].algorithm->name, "ring");
    tt_control_force(made.control, "doubling");
    tt_recipe *again = recipe_of(&made, &request);
    assert_true(again != forced && again != first);
    assert_string_equal(again->stages[again->stage_count - 1].algorithm->name, "doubling");
    bench_drop(&made);
}

static void test_the_table_is_bounded_and_stamps_are_not_given_twice(void **state)
{
    (void)state;
    bench made = bench_make(0);
    tt_request first = sum_of(1);
    char name[32];
    uint64_t stamp = recipe_of(&made, &first)->stamp;
    for (uint64_t i = 2; i < 3 * RECIPES_MAX; i++) {
        tt_request request = sum_of(i);
        const tt_recipe *recipe = recipe_of(&made, &request);
        assert_true(recipe->stamp > stamp);
        stamp = recipe->stamp;
        assert_true(made.control->recipes.counts[0] <= RECIPES_MAX);
    }
    assert_int_equal(made.control->recipes.counts[0], RECIPES_MAX);
    for (uint32_t i = 0; i < NAMED_RECIPES_MAX + 100; i++) {
        tt_request request = sum_of(1);
        (void)snprintf(name, sizeof(name), "tensor %u", i);
        request.name = name;
        tt_recipe *recipe = tt_recipe_of(made.control, made.set, &request, &tt_space_agreed);
        assert_true(recipe != NULL && recipe->stamp > stamp);
        assert_string_equal(recipe->claim.name, name);
        stamp = recipe->stamp;
    }
    assert_int_equal(made.control->recipes.counts[0], RECIPES_MAX); /* none left for a name */
    assert_int_equal(made.control->recipes.counts[1], NAMED_RECIPES_MAX);
    bench_drop(&made);
}

/* The block of an evicted recipe serves another call: the hint must not take that. */
static void test_a_hint_whose_recipe_was_evicted_is_not_taken(void **state)
{
    (void)state;
    bench made = bench_make(0);
    tt_request first = sum_of(1);
    const tt_recipe *recipe = recipe_of(&made, &first);
    const uint64_t stamp = recipe->stamp;
    for (uint64_t i = 2; recipe->stamp == stamp; i++) {
        tt_request request = sum_of(i);
        (void)recipe_of(&made, &request);
        assert_true(i < 10 * RECIPES_MAX);
    }
    const tt_recipe *found = recipe_of(&made, &first);
    assert_true(found->key.count == 1 && found->stamp > stamp);
    assert_ptr_equal(anew(&made, &first), found);
    bench_drop(&made);
}

static void test_a_recipe_in_use_outlives_its_table_entry(void **state)
{
    (void)state;
    bench made = bench_make(0);
    tt_request first = sum_of(1);
    tt_recipe *recipe = recipe_of(&made, &first);
    const uint64_t stamp = recipe->stamp;
    tt_recipe_use(recipe);
    for (uint64_t i = 2; recipe->is_in; i++) {
        tt_request request = sum_of(i);
        (void)recipe_of(&made, &request);
        assert_true(i < 10 * RECIPES_MAX);
    }
    assert_int_equal(recipe->uses, 1);
    assert_true(recipe->stamp == stamp && recipe->key.count == 1 && recipe->stage_count > 0);
    tt_recipe_release(made.control, recipe);
    assert_int_equal(recipe->stamp, 0);
    bench_drop(&made);
}

static void test_calls_that_do_not_repeat_are_not_kept(void **state)
{
    (void)state;
    bench made = bench_make(0);
    const uint64_t counts[2] = {3, 4};
    tt_request uneven = sum_of(0), salted = sum_of(1);
    uneven.collective = TT_REDUCESCATTER;
    uneven.is_uneven = true;
    uneven.input_counts = counts;
    salted.collective = TT_BARRIER;
    salted.salt = 99;
    tt_request *requests[2] = {&uneven, &salted};
    for (size_t i = 0; i < TT_ARRAY_COUNT(requests); i++) {
        tt_recipe *recipe = recipe_of(&made, requests[i]);
        assert_false(recipe->is_in);
        tt_recipe_use(recipe);
        tt_recipe_release(made.control, recipe);
        assert_int_equal(recipe->stamp, 0);
    }
    assert_int_equal(made.control->recipes.counts[0], 0);
    bench_drop(&made);
}

/* A call that finds no memory can still be reported to the peers, any number of times. */
static void test_one_block_is_kept_for_a_call_without_memory(void **state)
{
    (void)state;
    bench counted = bench_make(0);
    const uint64_t allocations = tt_shuffle_allocations(counted.shuffle);
    bench_drop(&counted);
    bench made = bench_make(allocations + 1);
    for (uint32_t i = 0; i < 3; i++) {
        tt_request request = sum_of(1);
        assert_null(tt_recipe_of(made.control, made.set, &request, &tt_space_calls));
        tt_recipe *recipe = tt_recipe_barren(made.control, made.set, &request, &tt_space_calls);
        assert_non_null(recipe);
        assert_int_equal(recipe->stage_count, 0);
        tt_recipe_use(recipe);
        tt_recipe_release(made.control, recipe);
    }
    bench_drop(&made);
}

/* ---- idle ops ---- */

/* An op for this recipe has succeeded, with so much memory; is it kept? */
static bool keep(bench *made, tt_recipe *recipe, size_t bytes)
{
    bool is_last;
    tt_op *op = tt_op_take(made->control, recipe, &is_last);
    assert_true(op->phase == OP_FREE && op->recipe == recipe && !is_last);
    if (op->exec.workspace_bytes < bytes) {
        tt_exec_fini(&op->exec);
        op->exec.workspace = tt_platform_allocate(made->control->platform, bytes);
        assert_non_null(op->exec.workspace);
        op->exec.workspace_bytes = op->exec.counted_bytes = bytes;
    }
    const bool is_kept = tt_idle_keep(op);
    if (!is_kept) {
        tt_op_cool(op, true);
    }
    return is_kept;
}

static uint32_t free_count(const bench *made)
{
    uint32_t count = 0;
    for (const tt_op *op = made->control->free_ops; op != NULL; op = op->next) {
        assert_null(op->recipe);
        count++;
    }
    return count;
}

static void test_an_idle_op_serves_the_next_call_like_its_own(void **state)
{
    (void)state;
    bench made = bench_make(0);
    tt_request request = sum_of(1);
    tt_recipe *recipe = recipe_of(&made, &request);
    bool is_last;
    assert_true(keep(&made, recipe, 0));
    assert_int_equal(made.control->recipes.idle_count, 1);
    const tt_op *idle = recipe->idle;
    tt_op *op = tt_op_take(made.control, recipe, &is_last);
    assert_ptr_equal(op, idle);
    assert_null(recipe->idle);
    assert_int_equal(made.control->recipes.idle_count, 0);
    tt_op *second = tt_op_take(made.control, recipe, &is_last);
    assert_ptr_not_equal(second, op);
    assert_true(tt_idle_keep(op));
    assert_false(tt_idle_keep(second)); /* one for each recipe */
    tt_op_cool(second, true);
    assert_int_equal(recipe->uses, 2); /* the table's and the idle op's */
    bench_drop(&made);
}

static void test_idle_ops_and_their_memory_are_bounded(void **state)
{
    (void)state;
    bench made = bench_make(0);
    for (uint32_t i = 0; i < IDLE_MAX + 40; i++) {
        tt_request request = sum_of(i + 1);
        assert_true(keep(&made, recipe_of(&made, &request), 64));
        assert_true(made.control->recipes.idle_count <= IDLE_MAX);
        assert_int_equal(made.control->recipes.idle_count + free_count(&made),
                         made.control->op_count);
    }
    assert_int_equal(made.control->recipes.idle_count, IDLE_MAX);
    tt_request large = sum_of(4000);
    assert_false(keep(&made, recipe_of(&made, &large), IDLE_BYTES_MAX + 1));
    for (uint32_t i = IDLE_MAX; i > 0; i--) {
        assert_int_equal(made.control->recipes.idle_count, i);
        assert_true(tt_idle_drop_one(made.control));
    }
    assert_false(tt_idle_drop_one(made.control));
    bench_drop(&made);
}

static void test_an_idle_op_is_freed_with_its_recipe(void **state)
{
    (void)state;
    bench made = bench_make(0);
    tt_request first = sum_of(1);
    tt_recipe *recipe = recipe_of(&made, &first);
    assert_true(keep(&made, recipe, 64));
    for (uint64_t i = 2; recipe->is_in && recipe->key.count == 1; i++) {
        tt_request request = sum_of(i);
        (void)recipe_of(&made, &request);
        assert_true(i < 10 * RECIPES_MAX);
    }
    assert_int_equal(made.control->recipes.idle_count, 0);
    assert_int_equal(free_count(&made), made.control->op_count);
    bench_drop(&made);
}

static void test_a_released_set_releases_its_recipes(void **state)
{
    (void)state;
    bench made = bench_make(0);
    const uint32_t ranks[2] = {0, 1};
    uint32_t id;
    assert_int_equal(tt_control_set_create(made.control, ranks, 2, &id), TT_OK);
    tt_set *other = tt_set_find(made.control, id);
    tt_request request = sum_of(1), again = sum_of(1);
    tt_recipe *world = recipe_of(&made, &request);
    again.set = id;
    tt_recipe *recipe = tt_recipe_of(made.control, other, &again, &tt_space_calls);
    assert_true(recipe != NULL && recipe != world);
    assert_true(keep(&made, recipe, 64));
    tt_recipe_forget_set(made.control, other);
    assert_int_equal(made.control->recipes.counts[0], 1);
    assert_int_equal(made.control->recipes.idle_count, 0);
    assert_int_equal(recipe->stamp, 0);
    assert_ptr_equal(recipe_of(&made, &request), world);
    bench_drop(&made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls_that_are_alike_share_a_recipe),
        cmocka_unit_test(test_a_program_is_part_of_the_descriptor),
        cmocka_unit_test(test_settings_are_part_of_the_key),
        cmocka_unit_test(test_the_table_is_bounded_and_stamps_are_not_given_twice),
        cmocka_unit_test(test_a_hint_whose_recipe_was_evicted_is_not_taken),
        cmocka_unit_test(test_a_recipe_in_use_outlives_its_table_entry),
        cmocka_unit_test(test_calls_that_do_not_repeat_are_not_kept),
        cmocka_unit_test(test_one_block_is_kept_for_a_call_without_memory),
        cmocka_unit_test(test_an_idle_op_serves_the_next_call_like_its_own),
        cmocka_unit_test(test_idle_ops_and_their_memory_are_bounded),
        cmocka_unit_test(test_an_idle_op_is_freed_with_its_recipe),
        cmocka_unit_test(test_a_released_set_releases_its_recipes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
