/* SPDX-License-Identifier: Apache-2.0
 *
 * list_test.c - order, removal from the middle, and the test of membership. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/list.h"

static void test_order_is_that_of_the_pushes(void **state)
{
    (void)state;
    tt_list list;
    tt_list_node nodes[3] = {0};
    tt_list_init(&list);
    tt_list_push_back(&list, &nodes[1]);
    tt_list_push_back(&list, &nodes[2]);
    tt_list_push_front(&list, &nodes[0]);
    tt_list_node *node = tt_list_first(&list);
    for (size_t i = 0; i < 3; i++) {
        assert_ptr_equal(node, &nodes[i]);
        node = tt_list_next(&list, node);
    }
    assert_null(node);
    for (size_t i = 0; i < 3; i++) {
        assert_ptr_equal(tt_list_pop_front(&list), &nodes[i]);
    }
    assert_null(tt_list_pop_front(&list));
    assert_true(tt_list_is_empty(&list));
}

static void test_a_node_can_leave_from_the_middle_and_return(void **state)
{
    (void)state;
    tt_list list;
    tt_list_node nodes[3] = {0};
    tt_list_init(&list);
    for (size_t i = 0; i < 3; i++) {
        tt_list_push_back(&list, &nodes[i]);
    }
    assert_true(tt_list_has_node(&nodes[1]));
    tt_list_remove(&nodes[1]);
    assert_false(tt_list_has_node(&nodes[1]));
    assert_ptr_equal(tt_list_next(&list, &nodes[0]), &nodes[2]);
    tt_list_insert_before(&nodes[0], &nodes[1]);
    assert_ptr_equal(tt_list_first(&list), &nodes[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_is_that_of_the_pushes),
        cmocka_unit_test(test_a_node_can_leave_from_the_middle_and_return),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
