/* SPDX-License-Identifier: Apache-2.0
 *
 * kept_test.c - floats that calls replace as a whole, or not at all.
 *
 * Labels: codec */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "control/coded/kept.h"
#include "support/lone_rank.h"

enum { COUNT = 5 };

typedef struct fixture {
    lone_rank rank;
    tt_platform *platform;
    tt_kept kept;
} fixture;

static fixture fixture_create(void)
{
    fixture it = {.rank = lone_rank_create(1)};
    it.platform = tt_sim_platform(it.rank.sim, 0);
    assert_int_equal(tt_kept_make(&it.kept, it.platform, COUNT), TT_OK);
    return it;
}

static void fixture_destroy(fixture *it)
{
    tt_kept_clear(&it->kept, it->platform);
    lone_rank_destroy(&it->rank);
}

/* A call that writes `value`. */
static void call(fixture *it, float value, bool succeeds)
{
    assert_int_equal(tt_kept_begin(&it->kept, it->platform), TT_OK);
    assert_ptr_not_equal(tt_kept_next(&it->kept), tt_kept_now(&it->kept));
    for (uint32_t i = 0; i < COUNT; i++) {
        tt_kept_next(&it->kept)[i] = value;
    }
    if (succeeds) {
        tt_kept_turn(&it->kept);
    }
}

static void expect(const fixture *it, float value)
{
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_true(tt_kept_now(&it->kept)[i] == value);
    }
}

static void test_floats_are_zeros_at_first(void **state)
{
    (void)state;
    fixture it = fixture_create();
    expect(&it, 0.0f);
    assert_true(tt_kept_is_zero(&it.kept));
    fixture_destroy(&it);
}

static void test_a_call_that_fails_changes_nothing(void **state)
{
    (void)state;
    fixture it = fixture_create();
    call(&it, 1.0f, false);
    expect(&it, 0.0f);
    call(&it, 2.0f, true);
    call(&it, 3.0f, false);
    call(&it, 4.0f, false);
    expect(&it, 2.0f);
    fixture_destroy(&it);
}

static void test_undo_brings_back_the_last_commit(void **state)
{
    (void)state;
    fixture it = fixture_create();
    call(&it, 1.0f, true);
    tt_kept_commit(&it.kept);
    for (int i = 2; i < 9; i++) {
        call(&it, (float)i, i % 3 != 0);
    }
    expect(&it, 8.0f);
    tt_kept_undo(&it.kept);
    expect(&it, 1.0f);
    call(&it, 9.0f, true);
    tt_kept_undo(&it.kept);
    expect(&it, 1.0f);
    fixture_destroy(&it);
}

static void test_a_step_of_one_call_needs_two_buffers(void **state)
{
    (void)state;
    fixture it = fixture_create();
    for (int i = 0; i < 4; i++) {
        call(&it, 1.0f, true);
        tt_kept_commit(&it.kept);
    }
    assert_int_equal(tt_kept_bytes(&it.kept), 2 * COUNT * sizeof(float));
    call(&it, 2.0f, true);
    call(&it, 3.0f, true); /* the last commit, the current ones, and these */
    assert_int_equal(tt_kept_bytes(&it.kept), 3 * COUNT * sizeof(float));
    fixture_destroy(&it);
}

static void test_a_new_unit_is_for_committed_ones_too(void **state)
{
    (void)state;
    fixture it = fixture_create();
    call(&it, 1.0f, true);
    tt_kept_commit(&it.kept);
    call(&it, 3.0f, true);
    tt_kept_scale(&it.kept, 2.0f);
    expect(&it, 6.0f);
    assert_true(tt_kept_squares(&it.kept) == COUNT * 36.0);
    tt_kept_undo(&it.kept);
    expect(&it, 2.0f);
    fixture_destroy(&it);
}

static void test_committed_floats_are_not_zero(void **state)
{
    (void)state;
    fixture it = fixture_create();
    call(&it, 1.0f, true);
    tt_kept_commit(&it.kept);
    call(&it, 0.0f, true);
    assert_false(tt_kept_is_zero(&it.kept)); /* undo would bring them back */
    tt_kept_commit(&it.kept);
    assert_true(tt_kept_is_zero(&it.kept));
    fixture_destroy(&it);
}

static void test_nothing_is_kept_without_memory(void **state)
{
    (void)state;
    fixture it = fixture_create();
    tt_kept_clear(&it.kept, it.platform);
    tt_sim_starve(it.rank.sim, 1, 0); /* the second buffer */
    assert_int_equal(tt_kept_make(&it.kept, it.platform, COUNT), TT_ERR_NO_MEMORY);
    assert_int_equal(it.kept.count, 0);
    assert_int_equal(tt_kept_bytes(&it.kept), 0);
    fixture_destroy(&it);
}

static void test_none_are_kept_of_an_empty_tensor(void **state)
{
    (void)state;
    fixture it = fixture_create();
    tt_kept_clear(&it.kept, it.platform);
    assert_int_equal(tt_kept_make(&it.kept, it.platform, 0), TT_OK);
    assert_int_equal(tt_kept_begin(&it.kept, it.platform), TT_OK);
    assert_null(tt_kept_now(&it.kept));
    assert_null(tt_kept_next(&it.kept));
    tt_kept_turn(&it.kept);
    tt_kept_undo(&it.kept);
    assert_true(tt_kept_is_zero(&it.kept));
    fixture_destroy(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_floats_are_zeros_at_first),
        cmocka_unit_test(test_a_call_that_fails_changes_nothing),
        cmocka_unit_test(test_undo_brings_back_the_last_commit),
        cmocka_unit_test(test_a_step_of_one_call_needs_two_buffers),
        cmocka_unit_test(test_a_new_unit_is_for_committed_ones_too),
        cmocka_unit_test(test_committed_floats_are_not_zero),
        cmocka_unit_test(test_nothing_is_kept_without_memory),
        cmocka_unit_test(test_none_are_kept_of_an_empty_tensor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
