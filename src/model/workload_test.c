/* SPDX-License-Identifier: Apache-2.0
 *
 * workload_test.c - steps that are made from others. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base.h"
#include "model/graph.h"
#include "model/workload.h"

/* 10 us forward, 30 backward. */
static const tt_tensor tensors[] = {{"a", 100, 0, 40}, {"b", 3, 4, 25}, {"empty", 0, 10, 10}};
static const tt_workload step = {tensors, TT_ARRAY_COUNT(tensors), 10, 30};

static void assert_near(double expected, double found)
{
    if (!(fabs(expected - found) <= 1e-12 * fmax(1, fabs(expected)))) {
        fail_msg("expected %.17g, found %.17g", expected, found);
    }
}

static tt_workload changed(const tt_workload_change *change, tt_scratch *scratch)
{
    tt_workload workload;
    tt_text why = {.length = 0};
    assert_int_equal(TT_OK, tt_workload_change_apply(change, &step, scratch, &why, &workload));
    assert_int_equal(step.tensor_count, workload.tensor_count);
    assert_int_equal(TT_OK, tt_workload_check(&workload, &why));
    return workload;
}

static void test_gradients_of_several_passes_are_ready_in_the_last(void **state)
{
    (void)state;
    tt_scratch scratch;
    tt_scratch_init(&scratch, &tt_allocator_default);
    const tt_workload four = changed(&(tt_workload_change){4, 1, 1}, &scratch);
    assert_near(4 * 40, tt_workload_compute_us(&four));
    assert_near(30, four.backward_us);
    for (size_t i = 0; i < step.tensor_count; i++) {
        assert_near(tensors[i].first_use_us, four.tensors[i].first_use_us);
        assert_near(tensors[i].ready_us + 3 * 40, four.tensors[i].ready_us);
        assert_int_equal(tensors[i].bytes, four.tensors[i].bytes);
        assert_ptr_equal(tensors[i].name, four.tensors[i].name);
    }
    tt_scratch_fini(&scratch);
}

static void test_one_pass_at_the_same_speed_is_the_step_itself(void **state)
{
    (void)state;
    tt_scratch scratch;
    tt_scratch_init(&scratch, &tt_allocator_default);
    const tt_workload same = changed(&(tt_workload_change){1, 1, 1}, &scratch);
    assert_near(step.forward_us, same.forward_us);
    assert_near(step.backward_us, same.backward_us);
    for (size_t i = 0; i < step.tensor_count; i++) {
        assert_near(tensors[i].first_use_us, same.tensors[i].first_use_us);
        assert_near(tensors[i].ready_us, same.tensors[i].ready_us);
        assert_int_equal(tensors[i].bytes, same.tensors[i].bytes);
    }
    tt_scratch_fini(&scratch);
}

static void test_times_and_bytes_are_scaled_and_no_tensor_becomes_empty(void **state)
{
    (void)state;
    tt_scratch scratch;
    tt_scratch_init(&scratch, &tt_allocator_default);
    const tt_workload scaled = changed(&(tt_workload_change){2, 0.1, 0.1}, &scratch);
    assert_near(2 * 4, tt_workload_compute_us(&scaled));
    assert_near(4 + 4, scaled.tensors[0].ready_us);
    assert_near(0.4, scaled.tensors[1].first_use_us);
    assert_int_equal(10, scaled.tensors[0].bytes);
    assert_int_equal(1, scaled.tensors[1].bytes);
    assert_int_equal(0, scaled.tensors[2].bytes);
    tt_workload huge;
    tt_text why = {.length = 0};
    assert_int_equal(
        TT_ERR_BAD_ARGUMENT,
        tt_workload_change_apply(&(tt_workload_change){1, 1, 1e300}, &step, &scratch, &why, &huge));
    assert_string_equal("tensor \"a\" is 1e+302 bytes long: at most 4.39805e+12; scale it less",
                        why.bytes);
    tt_scratch_fini(&scratch);
}

/* Whatever is rounded, the step that results is one. */
static void test_times_stay_in_their_pass(void **state)
{
    (void)state;
    tt_scratch scratch;
    tt_scratch_init(&scratch, &tt_allocator_default);
    for (uint32_t passes = 1; passes < 100; passes += 7) {
        for (double scale = 1e-5; scale < 1e5; scale *= 3.7) {
            (void)changed(&(tt_workload_change){passes, scale, 1}, &scratch);
        }
    }
    tt_scratch_fini(&scratch);
}

static void test_a_step_that_lasts_too_long_is_refused_where_it_is_used(void **state)
{
    (void)state;
    tt_scratch scratch;
    tt_workload workload;
    tt_text why = {.length = 0};
    tt_scratch_init(&scratch, &tt_allocator_default);
    assert_int_equal(TT_OK, tt_workload_change_apply(&(tt_workload_change){1, 1e20, 1}, &step,
                                                     &scratch, &why, &workload));
    assert_int_equal(TT_ERR_BAD_ARGUMENT, tt_workload_check(&workload, &why));
    tt_scratch_fini(&scratch);
}

static void test_out_of_memory_is_reported(void **state)
{
    (void)state;
    tt_counting_allocator counter = {.fail_at = 1};
    const tt_allocator allocator = tt_counting_allocator_borrow(&counter);
    tt_scratch scratch;
    tt_workload workload;
    tt_text why = {.length = 0};
    tt_scratch_init(&scratch, &allocator);
    assert_int_equal(TT_ERR_NO_MEMORY, tt_workload_change_apply(&(tt_workload_change){1, 1, 1},
                                                                &step, &scratch, &why, &workload));
    tt_scratch_fini(&scratch);
    assert_int_equal(0, counter.live_count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients_of_several_passes_are_ready_in_the_last),
        cmocka_unit_test(test_one_pass_at_the_same_speed_is_the_step_itself),
        cmocka_unit_test(test_times_and_bytes_are_scaled_and_no_tensor_becomes_empty),
        cmocka_unit_test(test_times_stay_in_their_pass),
        cmocka_unit_test(test_a_step_that_lasts_too_long_is_refused_where_it_is_used),
        cmocka_unit_test(test_out_of_memory_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
