/* SPDX-License-Identifier: Apache-2.0
 *
 * idle_test.c - which ops are kept for calls like theirs, and how many. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "control/control_internal.h"
#include "platform/shuffle.h"

enum { OPS = IDLE_MAX + 40 };

/* A machine's ops without the machine, and a platform for their memory. */
static tt_shuffle *shuffle;

static tt_control *bare_control(void)
{
    const tt_shuffle_config config = {.size = 2, .seed = 1};
    shuffle = tt_shuffle_create(&config);
    tt_control *control = calloc(1, sizeof(*control));
    assert_non_null(control);
    control->platform = control->flow.platform = tt_shuffle_platform(shuffle, 0);
    control->ops = calloc(OPS, sizeof(*control->ops));
    assert_non_null(control->ops);
    for (uint32_t i = 0; i < OPS; i++) {
        control->ops[i] = calloc(1, sizeof(tt_op));
        assert_non_null(control->ops[i]);
        control->ops[i]->index = i;
        control->ops[i]->control = control;
        control->ops[i]->exec.flow = &control->flow;
    }
    control->op_count = OPS;
    return control;
}

static void bare_release(tt_control *control)
{
    for (uint32_t i = 0; i < OPS; i++) {
        tt_exec_fini(&control->ops[i]->exec);
        free(control->ops[i]);
    }
    free(control->ops);
    free(control);
    assert_true(tt_shuffle_destroy(shuffle));
}

static tt_request sum_of(uint64_t count)
{
    static float input[4], output[4];
    return (tt_request){.collective = TT_ALLREDUCE,
                        .dtype = TT_F32,
                        .redop = TT_SUM,
                        .count = count,
                        .input = input,
                        .output = output};
}

/* Op number `index` has ended well. */
static tt_op *keep(tt_control *control, uint32_t index, const tt_request *request)
{
    tt_op *op = control->ops[index];
    op->phase = OP_FREE;
    op->is_quick = true;
    op->idle_era = control->idle.era;
    tt_idle_keep(control, op, request);
    return op;
}

static uint32_t free_count(const tt_control *control)
{
    uint32_t count = 0;
    for (const tt_op *op = control->free_ops; op != NULL; op = op->next) {
        assert_false(op->idle.is_in || op->is_quick);
        count++;
    }
    return count;
}

static void test_a_call_finds_the_op_of_its_like(void **state)
{
    (void)state;
    tt_control *control = bare_control();
    const tt_request one = sum_of(1), two = sum_of(2);
    tt_request other;
    const tt_op *first = keep(control, 0, &one), *second = keep(control, 1, &two);
    assert_ptr_equal(tt_idle_find(&control->idle, &one), first);
    assert_ptr_equal(tt_idle_find(&control->idle, &two), second);
    other = sum_of(3);
    assert_null(tt_idle_find(&control->idle, &other));
    other = one, other.output = (void *)(uintptr_t)other.input;
    assert_null(tt_idle_find(&control->idle, &other));
    other = one, other.set = 1;
    assert_null(tt_idle_find(&control->idle, &other));
    other = one, other.dtype = TT_I32;
    assert_null(tt_idle_find(&control->idle, &other));
    other = one, other.redop = TT_MAX;
    assert_null(tt_idle_find(&control->idle, &other));
    bare_release(control);
}

/* Where a broadcast's memory lies is part of what was laid out. */
static void test_buffers_count_but_for_sums(void **state)
{
    (void)state;
    tt_control *control = bare_control();
    float a[4], b[4];
    tt_request request = sum_of(1);
    const tt_op *sum = keep(control, 0, &request);
    request.input = a, request.output = b;
    assert_ptr_equal(tt_idle_find(&control->idle, &request), sum);
    request.collective = TT_BROADCAST;
    const tt_op *broadcast = keep(control, 1, &request);
    assert_ptr_equal(tt_idle_find(&control->idle, &request), broadcast);
    request.output = a;
    assert_null(tt_idle_find(&control->idle, &request));
    bare_release(control);
}

static void test_of_alike_calls_the_last_is_kept(void **state)
{
    (void)state;
    tt_control *control = bare_control();
    const tt_request one = sum_of(1);
    for (uint32_t i = 0; i < 5; i++) {
        const tt_op *op = keep(control, i, &one);
        assert_ptr_equal(tt_idle_find(&control->idle, &one), op);
        assert_int_equal(control->idle.count, 1);
        assert_int_equal(free_count(control), i);
    }
    bare_release(control);
}

/* One that serves again is found by nobody else, stays, and leaves for good where it must. */
static void test_an_op_that_runs_is_not_idle(void **state)
{
    (void)state;
    tt_control *control = bare_control();
    const tt_request one = sum_of(1);
    tt_op *op = keep(control, 0, &one);
    op->phase = OP_DATA;
    assert_null(tt_idle_find(&control->idle, &one));
    assert_false(tt_idle_drop_one(control, NULL));
    const tt_op *alike = keep(control, 1, &one);
    assert_ptr_equal(tt_idle_find(&control->idle, &one), alike);
    assert_false(op->idle.is_in);
    assert_int_equal(free_count(control), 0);
    bare_release(control);
}

static void test_a_change_of_settings_drops_all(void **state)
{
    (void)state;
    tt_control *control = bare_control();
    const tt_request one = sum_of(1), two = sum_of(2);
    (void)keep(control, 0, &one);
    tt_op *busy = keep(control, 1, &two);
    busy->phase = OP_DATA;
    tt_idle_drop_all(control);
    assert_int_equal(control->idle.count, 0);
    assert_int_equal(free_count(control), 1);
    assert_false(busy->idle.is_in);
    assert_true(busy->idle_era != control->idle.era);
    bare_release(control);
}

static void test_idle_ops_are_bounded(void **state)
{
    (void)state;
    tt_control *control = bare_control();
    for (uint32_t i = 0; i < OPS; i++) {
        const tt_request request = sum_of(i + 1);
        const tt_op *op = keep(control, i, &request);
        assert_ptr_equal(tt_idle_find(&control->idle, &request), op);
        assert_true(control->idle.count <= IDLE_MAX);
        assert_int_equal(control->idle.count + free_count(control), i + 1);
    }
    assert_int_equal(control->idle.count, IDLE_MAX);
    bare_release(control);
}

static void give_memory(tt_control *control, uint32_t index, size_t bytes)
{
    tt_exec *exec = &control->ops[index]->exec;
    exec->workspace = tt_platform_allocate(control->platform, bytes);
    assert_non_null(exec->workspace);
    exec->workspace_bytes = bytes;
}

static void test_memory_of_idle_ops_is_bounded(void **state)
{
    (void)state;
    tt_control *control = bare_control();
    for (uint32_t i = 0; i < 10; i++) {
        const tt_request request = sum_of(i + 1);
        give_memory(control, i, IDLE_BYTES_MAX / 3);
        (void)keep(control, i, &request);
        assert_true(control->idle.bytes <= IDLE_BYTES_MAX);
    }
    assert_int_equal(control->idle.count, 3);
    const tt_request large = sum_of(100);
    give_memory(control, 10, 2 * IDLE_BYTES_MAX);
    const tt_op *op = keep(control, 10, &large); /* alone it may be: the last call may repeat */
    assert_ptr_equal(tt_idle_find(&control->idle, &large), op);
    assert_int_equal(control->idle.count, 1);
    bare_release(control);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_call_finds_the_op_of_its_like),
        cmocka_unit_test(test_buffers_count_but_for_sums),
        cmocka_unit_test(test_of_alike_calls_the_last_is_kept),
        cmocka_unit_test(test_an_op_that_runs_is_not_idle),
        cmocka_unit_test(test_a_change_of_settings_drops_all),
        cmocka_unit_test(test_idle_ops_are_bounded),
        cmocka_unit_test(test_memory_of_idle_ops_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
