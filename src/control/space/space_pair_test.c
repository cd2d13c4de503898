/* SPDX-License-Identifier: Apache-2.0
 *
 * space_pair_test.c - messages: numbered per pair, direction and tag; found by peer and direction.
 * Method: rank 0 of a set of three; ops that begin no stage are put through the table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "control/control_internal.h"
#include "support/lone_rank.h"

enum { SIZE = 3, TAG = 9 };

typedef struct fixture {
    lone_rank rank;
    tt_control *control;
    tt_set *set;
    tt_recipe *recipe;
} fixture;

static fixture fixture_create(void)
{
    fixture it = {.rank = lone_rank_create(SIZE)};
    it.control = it.rank.control;
    it.set = tt_set_find(it.control, 0);
    tt_request request = {.collective = TT_SEND, .root = 1};
    it.recipe = tt_recipe_barren(it.control, it.set, &request, &tt_space_pair);
    tt_recipe_use(it.recipe);
    return it;
}

static void fixture_destroy(fixture *it)
{
    tt_recipe_release(it->control, it->recipe);
    lone_rank_destroy(&it->rank);
}

static tt_op numbered(const fixture *it, tt_request *request)
{
    const bool is_sender = request->collective == TT_SEND;
    const tt_standing standing = {.space = &tt_space_pair};
    tt_op op = {.control = it->control,
                .set = it->set,
                .recipe = it->recipe,
                .request = request,
                .space = &tt_space_pair,
                .is_sender = is_sender,
                .phase = OP_RUNNING};
    assert_true(tt_pair_reserve(it->set, 2 * request->root + (is_sender ? 0 : 1), request->tag));
    assert_true(tt_space_pair.number(&op, &standing));
    return op;
}

/* A frame of the op's peer about it. */
static tt_head key_of(const tt_op *op)
{
    return (tt_head){.flags = (uint8_t)(TT_FLAG_PAIR | (op->is_sender ? TT_FLAG_REPLY : 0)),
                     .op = op->sequence};
}

static void test_messages_are_counted_per_peer_direction_and_tag(void **state)
{
    (void)state;
    fixture it = fixture_create();
    tt_request send = {.collective = TT_SEND, .root = 1},
               receive = {.collective = TT_RECEIVE, .root = 1};
    tt_request tagged = {.collective = TT_SEND, .root = 1, .tag = TAG};
    tt_request other = {.collective = TT_SEND, .root = 2};
    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(numbered(&it, &send).sequence, i);
        assert_int_equal(numbered(&it, &other).sequence, i);
        assert_int_equal(numbered(&it, &receive).sequence, i);
        const tt_op op = numbered(&it, &tagged);
        assert_int_equal(tt_pair_tag(op.sequence), TAG);
        assert_int_equal(tt_pair_number(op.sequence), i);
        assert_int_equal(tt_pair_next(it.set, op.pair_index, TAG), op.sequence + 1);
    }
    fixture_destroy(&it);
}

static void test_a_message_is_found_by_peer_and_direction(void **state)
{
    (void)state;
    fixture it = fixture_create();
    tt_request send = {.collective = TT_SEND, .root = 1},
               receive = {.collective = TT_RECEIVE, .root = 1};
    const tt_head first = {.flags = TT_FLAG_PAIR | TT_FLAG_REPLY};
    assert_true(tt_op_is_future(it.control, 1, &first));
    tt_op out = numbered(&it, &send), in = numbered(&it, &receive);
    out.next = &in;
    it.set->pairs = &out; /* both have begun */
    const tt_head keys[2] = {key_of(&out), key_of(&in)};
    assert_ptr_equal(tt_op_find(it.control, 1, &keys[0]), &out);
    assert_ptr_equal(tt_op_find(it.control, 1, &keys[1]), &in);
    assert_null(tt_op_find(it.control, 2, &keys[0]));
    assert_false(tt_op_is_future(it.control, 1, &keys[0]));
    assert_true(tt_op_is_future(it.control, 2, &keys[0])); /* nothing was sent to it yet */
    assert_ptr_equal(tt_space_pair.leave(&out, TT_OK), &it.set->pair_queue);
    assert_null(tt_op_find(it.control, 1, &keys[0]));
    (void)tt_space_pair.leave(&in, TT_ERR_MISMATCH);
    assert_null(it.set->pairs);
    assert_null(tt_op_done(it.control, &keys[0])); /* ends are not remembered */
    assert_int_equal(tt_op_failed(it.control, &keys[1]), TT_OK);
    fixture_destroy(&it);
}

static void test_a_message_behind_many_waits(void **state)
{
    (void)state;
    fixture it = fixture_create();
    tt_request send = {.collective = TT_SEND, .root = 1};
    tt_op op = numbered(&it, &send);
    const tt_head key = key_of(&op);
    it.set->pair_open[op.pair_index] = PAIRS_AHEAD_MAX;
    tt_space_pair.enter(&op);
    assert_int_equal(op.phase, OP_QUEUED);
    assert_null(tt_op_find(it.control, 1, &key));
    assert_true(tt_op_is_future(it.control, 1, &key));
    assert_ptr_equal(tt_pair_queued(it.set, 1, &key), &op);
    it.set->pair_queue.pump(&it.set->pair_queue, op.pair_index); /* still no place */
    assert_int_equal(op.phase, OP_QUEUED);
    assert_null(tt_space_pair.leave(&op, TT_ERR_CANCELLED));
    assert_false(tt_op_is_future(it.control, 1, &key));
    it.set->pair_open[op.pair_index] = 0;
    fixture_destroy(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages_are_counted_per_peer_direction_and_tag),
        cmocka_unit_test(test_a_message_is_found_by_peer_and_direction),
        cmocka_unit_test(test_a_message_behind_many_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
