/* SPDX-License-Identifier: Apache-2.0
 *
 * named_step_test.c - steps by name: they end after computation, negotiate, overlap, and wait for
 * the slowest. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/base.h"
#include "sim/machines/named_step.h"
#include "sim/registry.h"

enum { RANKS = 8, TENSORS = 20, TENSOR_BYTES = 1 << 20 };

static const double forward_us = 1000, backward_us = 2000;

/* Equal tensors, the last produced first. */
static void make_workload(tt_tensor *tensors, tt_workload *workload)
{
    for (uint32_t i = 0; i < TENSORS; i++) {
        tensors[i] = (tt_tensor){.name = "weights",
                                 .bytes = TENSOR_BYTES,
                                 .first_use_us = forward_us * i / TENSORS,
                                 .ready_us = forward_us + backward_us * (TENSORS - i) / TENSORS};
    }
    *workload = (tt_workload){tensors, TENSORS, forward_us, backward_us};
}

static tt_machines *create(uint64_t byte_fs)
{
    tt_machines_config config;
    tt_text why = {0};
    tt_machines *machines = NULL;
    tt_machines_config_init(&config);
    config.model = &tt_fabric_ports;
    tt_fabric_config_plain(&config.fabric, RANKS,
                           (tt_fabric_link){.latency_ns = 1300, .byte_fs = byte_fs});
    config.fabric.overhead_ns = 500;
    if (tt_machines_create(&config, &why, &machines) != TT_OK) {
        fail_msg("%s", why.bytes);
    }
    return machines;
}

static tt_named_step_result run(tt_machines *machines, const tt_named_step *step)
{
    tt_text why = {0};
    tt_named_step_result result;
    if (tt_named_step_run(machines, step, &why, &result) != TT_OK) {
        fail_msg("%s", why.bytes);
    }
    return result;
}

static void test_a_fast_network_hides_all_but_the_last_tensor(void **state)
{
    (void)state;
    tt_tensor tensors[TENSORS];
    tt_workload workload;
    uint64_t done_ns[TENSORS];
    make_workload(tensors, &workload);
    tt_machines *machines = create(8000); /* 125 GB/s */
    const tt_named_step step = {.workload = &workload, .done_ns = done_ns};
    const tt_named_step_result result = run(machines, &step);
    assert_int_equal(result.computed_ns, 3000 * 1000);
    assert_int_equal(result.run.end_ns, result.computed_ns + result.exposed_ns);
    assert_in_range(result.exposed_ns, 1, 200 * 1000);
    for (uint32_t i = 0; i < TENSORS; i++) {
        assert_true((double)done_ns[i] > tensors[i].ready_us * 1e3);
        assert_true((double)done_ns[i] < tensors[i].ready_us * 1e3 + 200e3);
    }
    tt_machines_destroy(machines);
}

/* A ring or better moves 2 (N - 1) / N of all bytes through each card. */
static void test_a_slow_network_takes_what_its_cards_need(void **state)
{
    (void)state;
    tt_tensor tensors[TENSORS];
    tt_workload workload;
    make_workload(tensors, &workload);
    tt_machines *machines = create(1000 * 1000); /* 1 GB/s */
    const tt_named_step step = {.workload = &workload};
    const tt_named_step_result result = run(machines, &step);
    const double cards_ns = 2.0 * (RANKS - 1) / RANKS * TENSORS * TENSOR_BYTES;
    assert_true((double)result.run.end_ns > cards_ns);
    assert_true((double)result.run.end_ns < forward_us * 1e3 + 1.2 * cards_ns);
    tt_machines_destroy(machines);
}

static void test_what_is_used_first_is_there_before_the_rest(void **state)
{
    (void)state;
    tt_tensor tensors[TENSORS];
    tt_workload workload;
    uint64_t done_ns[TENSORS];
    make_workload(tensors, &workload);
    tt_machines *machines = create(1000 * 1000);
    const tt_named_step step = {.workload = &workload, .done_ns = done_ns};
    (void)run(machines, &step);
    assert_true(done_ns[0] < done_ns[TENSORS / 2]); /* produced last, overtakes */
    tt_machines_destroy(machines);
}

static void test_later_steps_negotiate_with_less(void **state)
{
    (void)state;
    tt_tensor tensors[TENSORS];
    tt_workload workload;
    make_workload(tensors, &workload);
    tt_machines *machines = create(80000);
    const tt_named_step step = {.workload = &workload};
    const tt_named_step_result first = run(machines, &step), second = run(machines, &step);
    assert_true(second.run.frames < first.run.frames);
    assert_true(second.run.end_ns <= first.run.end_ns);
    tt_machines_destroy(machines);
}

static void test_a_step_waits_for_the_slowest_rank(void **state)
{
    (void)state;
    static const double paces[RANKS] = {1, 1, 1, 1.5, 1, 1, 1, 1};
    tt_tensor tensors[TENSORS];
    tt_workload workload;
    make_workload(tensors, &workload);
    tt_machines *machines = create(8000);
    const tt_named_step step = {.workload = &workload, .paces = paces};
    const tt_named_step_result result = run(machines, &step);
    assert_int_equal(result.computed_ns, 4500 * 1000);
    assert_in_range(result.exposed_ns, 1, 200 * 1000);
    tt_machines_destroy(machines);
}

static void test_absurd_steps_are_refused(void **state)
{
    (void)state;
    static const double paces[RANKS] = {1, 1, -1};
    tt_tensor tensors[TENSORS];
    tt_workload workload;
    tt_text why = {0};
    tt_named_step_result result;
    make_workload(tensors, &workload);
    tt_machines *machines = create(8000);
    tt_named_step step = {.workload = &workload, .paces = paces};
    assert_int_equal(TT_ERR_BAD_ARGUMENT, tt_named_step_run(machines, &step, &why, &result));
    assert_non_null(strstr(why.bytes, "rank 2"));
    tensors[3].ready_us = -1;
    step.paces = NULL;
    assert_int_equal(TT_ERR_BAD_ARGUMENT, tt_named_step_run(machines, &step, &why, &result));
    tt_machines_destroy(machines);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_fast_network_hides_all_but_the_last_tensor),
        cmocka_unit_test(test_a_slow_network_takes_what_its_cards_need),
        cmocka_unit_test(test_what_is_used_first_is_there_before_the_rest),
        cmocka_unit_test(test_later_steps_negotiate_with_less),
        cmocka_unit_test(test_a_step_waits_for_the_slowest_rank),
        cmocka_unit_test(test_absurd_steps_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
