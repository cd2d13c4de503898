/* SPDX-License-Identifier: Apache-2.0
 *
 * space_order_test.c - ops of an order: numbered, found, queued, remembered.
 * Method: one rank's set; ops that begin no stage are put through the table of their space. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "control/control_internal.h"
#include "support/lone_rank.h"

typedef struct fixture {
    lone_rank rank;
    tt_control *control;
    tt_set *set;
    tt_recipe *recipe;
} fixture;

static fixture fixture_create(const tt_space *space)
{
    fixture it = {.rank = lone_rank_create(1)};
    it.control = it.rank.control;
    it.set = tt_set_find(it.control, 0);
    tt_request request = {.collective = TT_GATHER, .root = 7};
    it.recipe = tt_recipe_barren(it.control, it.set, &request, space);
    tt_recipe_use(it.recipe);
    return it;
}

static void fixture_destroy(fixture *it)
{
    tt_recipe_release(it->control, it->recipe);
    lone_rank_destroy(&it->rank);
}

static tt_op op_of(const fixture *it, const tt_space *space)
{
    return (tt_op){.control = it->control,
                   .set = it->set,
                   .recipe = it->recipe,
                   .space = space,
                   .phase = OP_RUNNING};
}

static tt_head key_of(const tt_op *op)
{
    return (tt_head){.flags = op->space->flags, .op = op->sequence};
}

/* Number an op, which has no place yet. */
static tt_op numbered(const fixture *it, const tt_space *space)
{
    const tt_standing standing = {.space = space};
    tt_op op = op_of(it, space);
    assert_true(space->number(&op, &standing));
    return op;
}

static void check_life(const tt_space *space)
{
    fixture it = fixture_create(space);
    if (space == &tt_space_agreed) {
        const tt_head first = {.flags = space->flags};
        assert_true(tt_op_is_future(it.control, 0, &first)); /* nothing was agreed on yet */
        assert_null(tt_op_done(it.control, &first));
        it.set->agreed = tt_order_create(it.control->platform);
    }
    for (uint64_t i = 0; i < 3; i++) {
        tt_op op = numbered(&it, space);
        const tt_head key = key_of(&op);
        const tt_head next = {.flags = key.flags, .op = key.op + 1};
        const tt_status status = i == 1 ? TT_ERR_MISMATCH : TT_OK;
        assert_int_equal(op.sequence, i);
        assert_null(tt_op_find(it.control, 0, &key));
        op.order->ops[i] = &op; /* it has begun */
        assert_ptr_equal(tt_op_find(it.control, 0, &key), &op);
        assert_false(tt_op_is_future(it.control, 0, &key));
        assert_true(tt_op_is_future(it.control, 0, &next));
        assert_null(tt_op_done(it.control, &key));
        assert_ptr_equal(space->leave(&op, status), &op.order->queue);
        assert_null(tt_op_find(it.control, 0, &key));
        assert_int_equal(tt_op_failed(it.control, &key), status);
        assert_int_equal(tt_op_done(it.control, &key) != NULL, status == TT_OK);
    }
    fixture_destroy(&it);
}

static void test_a_call_is_found_and_remembered(void **state)
{
    (void)state;
    check_life(&tt_space_calls);
}

static void test_an_agreed_tensor_is_found_and_remembered(void **state)
{
    (void)state;
    check_life(&tt_space_agreed);
}

static void test_a_call_without_a_place_waits_and_is_of_the_future(void **state)
{
    (void)state;
    fixture it = fixture_create(&tt_space_calls);
    tt_request request = {0};
    it.control->config.staged_max = 0; /* no place for any */
    it.control->flow.urgency_top = 0;
    tt_op first = numbered(&it, &tt_space_calls), second = numbered(&it, &tt_space_calls);
    first.request = second.request = &request;
    tt_space_calls.enter(&first);
    tt_space_calls.enter(&second);
    const tt_head keys[2] = {key_of(&first), key_of(&second)};
    for (uint32_t i = 0; i < 2; i++) {
        assert_null(tt_op_find(it.control, 0, &keys[i]));
        assert_true(tt_op_is_future(it.control, 0, &keys[i]));
    }
    assert_null(tt_space_calls.leave(&second, TT_ERR_CANCELLED)); /* it had no place to free */
    assert_false(tt_op_is_future(it.control, 0, &keys[1]));
    assert_ptr_equal(it.set->calls.queue.first, &first);
    assert_ptr_equal(it.set->calls.queue.end, &first.next);
    assert_null(tt_space_calls.leave(&first, TT_ERR_CANCELLED));
    assert_null(it.set->calls.queue.first);
    fixture_destroy(&it);
}

static void test_a_late_failure_is_remembered_beside_success(void **state)
{
    (void)state;
    fixture it = fixture_create(&tt_space_calls);
    tt_op op = numbered(&it, &tt_space_calls);
    const tt_head key = key_of(&op);
    op.is_counted = op.is_extra = true;
    op.order->staged_count = op.order->extra_count = 1;
    (void)tt_space_calls.leave(&op, TT_OK);
    assert_int_equal(op.order->staged_count + op.order->extra_count, 0);
    assert_int_equal(tt_op_done(it.control, &key)->root, 7);
    tt_space_calls.fail_late(it.set, &key, TT_ERR_TIMED_OUT);
    assert_int_equal(tt_op_failed(it.control, &key), TT_ERR_TIMED_OUT);
    fixture_destroy(&it);
}

static void test_heads_name_their_space(void **state)
{
    (void)state;
    const tt_space *const spaces[] = {&tt_space_calls, &tt_space_agreed, &tt_space_planned,
                                      &tt_space_pair};
    for (uint32_t i = 0; i < 4; i++) {
        const tt_head head = {.flags = (uint8_t)(spaces[i]->flags | TT_FLAG_EAGER)};
        assert_ptr_equal(tt_space_of(&head), spaces[i]);
    }
    const tt_head reply = {.flags = TT_FLAG_PAIR | TT_FLAG_REPLY};
    assert_ptr_equal(tt_space_of(&reply), &tt_space_pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_call_is_found_and_remembered),
        cmocka_unit_test(test_an_agreed_tensor_is_found_and_remembered),
        cmocka_unit_test(test_a_call_without_a_place_waits_and_is_of_the_future),
        cmocka_unit_test(test_a_late_failure_is_remembered_beside_success),
        cmocka_unit_test(test_heads_name_their_space),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
