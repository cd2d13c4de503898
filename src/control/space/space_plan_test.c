/* SPDX-License-Identifier: Apache-2.0
 *
 * space_plan_test.c - the claim of each occurrence of a planned tensor is found, also after it
 * changed. Method: one rank's record of a tensor whose occurrences begin and end one after the
 * other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "control/control_internal.h"
#include "support/lone_rank.h"

enum { GENERATION = 3, INDEX = 5, PART = 2, WRAP = 1 << 20 };

static tt_head head_of(uint64_t occurrence)
{
    return (tt_head){.flags = TT_FLAG_PLANNED,
                     .op = tt_planned_key(GENERATION, INDEX, occurrence, PART)};
}

static void end(lone_rank *it, uint64_t occurrence, uint32_t root, tt_status status)
{
    tt_set *set = tt_set_find(it->control, 0);
    const tt_head head = head_of(occurrence);
    tt_request request = {.collective = TT_GATHER, .root = root, .name = "tensor"};
    tt_recipe *recipe = tt_recipe_barren(it->control, set, &request, &tt_space_planned);
    tt_op op = {.control = it->control, .set = set, .recipe = recipe, .phase = OP_RUNNING};
    const tt_standing standing = {.space = &tt_space_planned, .sequence = head.op};
    tt_recipe_use(recipe);
    assert_true(tt_op_is_future(it->control, 0, &head));
    assert_true(tt_space_planned.number(&op, &standing));
    assert_ptr_equal(tt_op_find(it->control, 0, &head), &op);
    assert_false(tt_op_is_future(it->control, 0, &head));
    tt_space_planned.leave(&op, status);
    assert_null(tt_op_find(it->control, 0, &head));
    assert_int_equal(tt_op_failed(it->control, &head), status);
    tt_recipe_release(it->control, recipe);
}

static void assert_root(const lone_rank *it, uint64_t occurrence, uint32_t root)
{
    const tt_head head = head_of(occurrence);
    const tt_claim *claim = tt_op_done(it->control, &head);
    assert_non_null(claim);
    assert_int_equal(claim->root, root);
    assert_string_equal(claim->name, "tensor");
}

static void assert_not_done(const lone_rank *it, uint64_t occurrence)
{
    const tt_head head = head_of(occurrence);
    assert_null(tt_op_done(it->control, &head));
}

static void test_a_changed_claim_is_found_after_later_occurrences(void **state)
{
    lone_rank it = lone_rank_create(1);
    (void)state;
    for (uint64_t occurrence = 1; occurrence <= 20; occurrence++) {
        end(&it, occurrence, occurrence == 8 || occurrence == 9 ? 4 : 3, TT_OK);
    }
    for (uint64_t occurrence = 1; occurrence <= 20; occurrence++) {
        assert_root(&it, occurrence, occurrence == 8 || occurrence == 9 ? 4 : 3);
    }
    assert_not_done(&it, 21);
    lone_rank_destroy(&it);
}

static void test_the_first_occurrence_may_be_the_changed_one(void **state)
{
    lone_rank it = lone_rank_create(1);
    (void)state;
    end(&it, 1, 4, TT_OK);
    end(&it, 2, 3, TT_OK);
    assert_root(&it, 1, 4);
    assert_root(&it, 2, 3);
    lone_rank_destroy(&it);
}

static void test_every_one_of_many_changed_claims_is_found(void **state)
{
    lone_rank it = lone_rank_create(1);
    (void)state;
    for (uint32_t i = 0; i < 100; i++) { /* also where the numbers wrap */
        end(&it, WRAP - 50 + i, i, TT_OK);
    }
    for (uint32_t i = 0; i < 100; i++) {
        assert_root(&it, WRAP - 50 + i, i);
    }
    lone_rank_destroy(&it);
}

static void test_a_changed_claim_that_failed_changes_nothing(void **state)
{
    lone_rank it = lone_rank_create(1);
    (void)state;
    end(&it, 1, 3, TT_OK);
    end(&it, 2, 4, TT_ERR_MISMATCH);
    end(&it, 3, 4, TT_ERR_MISMATCH);
    assert_root(&it, 1, 3);
    end(&it, 4, 3, TT_OK);
    end(&it, 5, 6, TT_OK);
    assert_root(&it, 1, 3);
    assert_not_done(&it, 2);
    assert_not_done(&it, 3);
    assert_root(&it, 4, 3);
    assert_root(&it, 5, 6);
    lone_rank_destroy(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_changed_claim_is_found_after_later_occurrences),
        cmocka_unit_test(test_the_first_occurrence_may_be_the_changed_one),
        cmocka_unit_test(test_every_one_of_many_changed_claims_is_found),
        cmocka_unit_test(test_a_changed_claim_that_failed_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
