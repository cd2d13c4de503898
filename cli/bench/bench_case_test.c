/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_case_test.c - a wrong element is counted, a right one is not; one rank, no transport. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "cli/bench/bench.h"

static tt_bench_plan plan_of(tutti_collective collective, tutti_dtype dtype)
{
    return (tt_bench_plan){
        .collective = collective, .dtype = dtype, .op = TUTTI_SUM, .size = 1, .is_foreign = true};
}

/* With one rank every collective copies, whatever the type. */
static void test_every_damaged_element_is_counted(void **state)
{
    (void)state;
    const tutti_collective all[] = {TUTTI_ALLREDUCE,     TUTTI_BROADCAST, TUTTI_ALLGATHER,
                                    TUTTI_REDUCESCATTER, TUTTI_ALLTOALL,  TUTTI_SEND};
    for (size_t i = 0; i < TT_ARRAY_COUNT(all); i++) {
        for (int dtype = TUTTI_U8; dtype <= TUTTI_BOOL; dtype++) {
            const tt_bench_plan plan = plan_of(all[i], (tutti_dtype)dtype);
            const size_t element_bytes = tutti_dtype_bytes(plan.dtype);
            tt_bench_case item;
            assert_int_equal(tt_bench_open(&item, &plan, 1000), TUTTI_OK);
            tt_bench_fill(&item);
            memmove(item.output, item.input, (size_t)item.output_count * element_bytes);
            assert_int_equal(tt_bench_check(&item), 0);
            ((uint8_t *)item.output)[0] ^= 0x40;
            ((uint8_t *)item.output)[(item.output_count - 1) * element_bytes] ^= 0x40;
            assert_int_equal(tt_bench_check(&item), 2);
            tt_bench_close(&item);
        }
    }
}

static void test_output_that_was_never_written_is_wrong_throughout(void **state)
{
    (void)state;
    const tt_bench_plan plan = plan_of(TUTTI_ALLREDUCE, TUTTI_F32);
    tt_bench_case item;
    assert_int_equal(tt_bench_open(&item, &plan, 4096), TUTTI_OK);
    tt_bench_fill(&item);
    assert_int_equal(tt_bench_check(&item), item.output_count);
    tt_bench_close(&item);
}

static void test_sizes_are_shared_out_and_never_empty(void **state)
{
    (void)state;
    tt_bench_plan plan = plan_of(TUTTI_ALLGATHER, TUTTI_F32);
    tt_bench_case item;
    plan.size = 4;
    assert_int_equal(tt_bench_open(&item, &plan, 64), TUTTI_OK);
    assert_int_equal(item.count, 4);
    assert_int_equal(item.bytes, 64);
    tt_bench_close(&item);
    assert_int_equal(tt_bench_open(&item, &plan, 1), TUTTI_OK);
    assert_int_equal(item.count, 1);
    assert_int_equal(item.bytes, 16);
    tt_bench_close(&item);
}

static void test_a_rank_expects_the_data_of_the_one_before(void **state)
{
    (void)state;
    tt_bench_plan plan = plan_of(TUTTI_SEND, TUTTI_F32), before = plan;
    tt_bench_case item, sent;
    plan.size = before.size = 4;
    before.rank = 3; /* of rank 0 */
    assert_int_equal(tt_bench_open(&item, &plan, 4096), TUTTI_OK);
    assert_int_equal(tt_bench_open(&sent, &before, 4096), TUTTI_OK);
    assert_int_equal(item.bytes, 4096);
    tt_bench_fill(&item);
    tt_bench_fill(&sent);
    memcpy(item.output, sent.input, 4096);
    assert_int_equal(tt_bench_check(&item), 0);
    memcpy(item.output, item.input, 4096);
    assert_int_equal(tt_bench_check(&item), 1024);
    tt_bench_close(&sent);
    tt_bench_close(&item);
}

static void test_a_barrier_has_no_bytes(void **state)
{
    (void)state;
    const tt_bench_plan plan = plan_of(TUTTI_BARRIER, TUTTI_F32);
    tt_bench_case item;
    assert_int_equal(tt_bench_open(&item, &plan, 4096), TUTTI_OK);
    assert_int_equal(item.bytes, 0);
    assert_int_equal(item.count, 0);
    tt_bench_fill(&item);
    assert_int_equal(tt_bench_check(&item), 0);
    tt_bench_close(&item);
}

static void test_bus_bandwidth_follows_nccl_tests(void **state)
{
    (void)state;
    assert_true(tt_bench_bus_factor(TUTTI_ALLREDUCE, 4) == 1.5);
    assert_true(tt_bench_bus_factor(TUTTI_ALLGATHER, 4) == 0.75);
    assert_true(tt_bench_bus_factor(TUTTI_REDUCESCATTER, 4) == 0.75);
    assert_true(tt_bench_bus_factor(TUTTI_ALLTOALL, 4) == 0.75);
    assert_true(tt_bench_bus_factor(TUTTI_BROADCAST, 4) == 1.0);
    assert_true(tt_bench_bus_factor(TUTTI_SEND, 4) == 1.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_damaged_element_is_counted),
        cmocka_unit_test(test_output_that_was_never_written_is_wrong_throughout),
        cmocka_unit_test(test_sizes_are_shared_out_and_never_empty),
        cmocka_unit_test(test_a_rank_expects_the_data_of_the_one_before),
        cmocka_unit_test(test_a_barrier_has_no_bytes),
        cmocka_unit_test(test_bus_bandwidth_follows_nccl_tests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
