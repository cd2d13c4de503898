/* SPDX-License-Identifier: Apache-2.0
 *
 * moves_input_test.c - calls that no rank could make are refused, and the text names the cause.
 *
 * Method: a sound call, one thing about it changed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "sim/sim.h"

enum { RANKS = 6 };

static tt_moves_input sound_input(tt_fabric *fabric)
{
    return (tt_moves_input){
        .fabric = fabric,
        .problem = {.collective = TT_ALLREDUCE,
                    .dtype = TT_F32,
                    .redop = TT_SUM,
                    .size = RANKS,
                    .element_bytes = 4,
                    .segment_bytes = 65536,
                    .bytes = 4000,
                    .postscale = 1.0},
        .eager_bytes_max = 65536,
        .memory_bytes_max = 1 << 28,
        .allocator = &tt_allocator_default,
    };
}

typedef void change(tt_moves_input *input);

static void no_segment(tt_moves_input *input)
{
    input->problem.segment_bytes = 0;
}

static void odd_segment(tt_moves_input *input)
{
    input->problem.segment_bytes = 130;
}

static void no_element(tt_moves_input *input)
{
    input->problem.element_bytes = 0;
}

static void half_an_element(tt_moves_input *input)
{
    input->problem.bytes = 4002;
}

static void no_such_root(tt_moves_input *input)
{
    input->problem.collective = TT_BROADCAST;
    input->problem.root = 6;
}

static void no_such_collective(tt_moves_input *input)
{
    input->problem.collective = TT_COLLECTIVE_COUNT;
}

static void six_send(tt_moves_input *input)
{
    input->problem.collective = TT_SEND;
}

static void six_receive(tt_moves_input *input)
{
    input->problem.collective = TT_RECEIVE;
}

static void adasum_of_six(tt_moves_input *input)
{
    input->problem.redop = TT_ADASUM;
}

static void uneven_alltoall(tt_moves_input *input)
{
    static const uint64_t offsets[] = {0, 4, 12, 24, 40, 60, 84};
    input->problem.collective = TT_ALLTOALL;
    input->problem.part_offsets = input->problem.output_offsets = offsets;
    input->problem.is_uneven = true;
}

static void parts_that_descend(tt_moves_input *input)
{
    static const uint64_t offsets[] = {0, 4, 12, 8, 40, 60, 84};
    input->problem.collective = TT_GATHER;
    input->problem.part_offsets = offsets;
    input->problem.is_uneven = true;
}

static void start_after_all(tt_moves_input *input)
{
    static const uint64_t start_ns[6] = {[4] = UINT64_MAX};
    input->start_ns = start_ns;
}

static void too_many_lanes(tt_moves_input *input)
{
    input->problem.bytes = UINT64_C(1) << 40;
    input->problem.segment_bytes = 64;
}

static void test_input_without_sense_is_refused_with_its_cause(void **state)
{
    (void)state;
    static const struct {
        change *change;
        tt_status status;
        const char *cause;
    } cases[] = {
        {no_segment, TT_ERR_BAD_ARGUMENT, "segments of 0 bytes"},
        {odd_segment, TT_ERR_BAD_ARGUMENT, "segments of 130 bytes"},
        {no_element, TT_ERR_BAD_ARGUMENT, "elements of 0 bytes"},
        {half_an_element, TT_ERR_BAD_ARGUMENT, "a call of 4002 bytes"},
        {no_such_root, TT_ERR_BAD_ARGUMENT, "root 6 of 6 ranks"},
        {no_such_collective, TT_ERR_BAD_ARGUMENT, "collective 11"},
        {six_send, TT_ERR_BAD_ARGUMENT, "a send of 6 ranks"},
        {six_receive, TT_ERR_BAD_ARGUMENT, "a receive of 6 ranks"},
        {adasum_of_six, TT_ERR_UNSUPPORTED, "an Adasum of 6 ranks"},
        {uneven_alltoall, TT_ERR_UNSUPPORTED, "an uneven alltoall"},
        {parts_that_descend, TT_ERR_BAD_ARGUMENT, "part 2 is from byte 12 to 8"},
        {start_after_all, TT_ERR_BAD_ARGUMENT, "rank 4 starts at"},
        {too_many_lanes, TT_ERR_UNSUPPORTED, "longer segments"},
    };
    tt_fabric_config config;
    tt_text why = {0};
    tt_fabric *fabric = NULL;
    tt_fabric_config_plain(&config, RANKS, (tt_fabric_link){.latency_ns = 1000});
    assert_int_equal(TT_OK, tt_fabric_create(tt_fabric_find("ports"), &config,
                                             &tt_allocator_default, &why, &fabric));
    for (uint32_t i = 0; i < TT_ARRAY_COUNT(cases); i++) {
        tt_moves_input input = sound_input(fabric);
        uint64_t done_ns[RANKS];
        tt_text_clear(&why);
        tt_moves_result result;
        assert_int_equal(TT_OK, tt_moves_run(&input, &why, done_ns, &result));
        cases[i].change(&input);
        assert_int_equal(cases[i].status, tt_moves_run(&input, &why, done_ns, &result));
        assert_non_null(strstr(why.bytes, cases[i].cause));
        assert_true(tt_moves_bytes(&input) == 0);
    }
    fabric->ops->destroy(fabric);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_input_without_sense_is_refused_with_its_cause),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
