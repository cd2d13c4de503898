/* SPDX-License-Identifier: Apache-2.0
 *
 * nccl_time_test.c - NCCL's model gives the values that its constants do by hand.
 *
 * Expected latencies are the formula of NCCL's src/graph/tuning.cc with the constants of Volta, six
 * ranks a host, 4,600 hosts: a tree 6.8 + 2 (5 * 0.6 + 12 * 5) = 132.8 us in LL and 8.4 +
 * 2 (5 * 4 + 12 * 14) = 384.4 us in Simple; a ring 6.6 + 46,000 * 1 + 9,198 * 2.7 = 70,841.2 us in
 * LL and 8.4 + 46,000 * 3.4 + 9,198 * 14 = 285,180.4 us in Simple. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "sim/closed/nccl_time.h"

static tt_nccl_job job_of(const char *name, uint32_t ranks)
{
    tt_text why = {.length = 0};
    tt_nccl_job job;
    assert_int_equal(tt_nccl_job_init(&job, tt_cluster_preset_find(name), ranks, &why), TT_OK);
    return job;
}

static void assert_close(double expected, double found)
{
    if (fabs(expected - found) > 1e-9 * fabs(expected)) {
        fail_msg("expected %.12g, found %.12g", expected, found);
    }
}

static void test_latencies_of_27600_ranks_are_the_published_ones(void **state)
{
    (void)state;
    const tt_nccl_job job = job_of("summit", 27600);
    assert_int_equal(job.host_count, 4600);
    assert_close(132.8, tt_nccl_latency_us(&job, TT_NCCL_TREE, TT_NCCL_LL, 4));
    assert_close(384.4, tt_nccl_latency_us(&job, TT_NCCL_TREE, TT_NCCL_SIMPLE, 4));
    assert_close(70841.2, tt_nccl_latency_us(&job, TT_NCCL_RING, TT_NCCL_LL, 4));
    assert_close(285180.4, tt_nccl_latency_us(&job, TT_NCCL_RING, TT_NCCL_SIMPLE, 4));
    /* from 64 bytes of each rank on, rings of Simple reach their plateau */
    assert_close(1.9 * 285180.4,
                 tt_nccl_latency_us(&job, TT_NCCL_RING, TT_NCCL_SIMPLE, 64 * 27600));
}

/* Summit: 24 GB/s between hosts. */
static void test_bandwidths_are_those_of_the_bus(void **state)
{
    (void)state;
    const tt_nccl_job job = job_of("summit", 96);
    const uint64_t long_bytes = UINT64_C(1) << 30;
    const double ring = 96.0 / (2 * 95);
    assert_close(24 * ring, tt_nccl_bandwidth_gbs(&job, TT_NCCL_RING, TT_NCCL_SIMPLE, long_bytes));
    assert_close(12 * ring, tt_nccl_bandwidth_gbs(&job, TT_NCCL_RING, TT_NCCL_LL, long_bytes));
    assert_close(24 * 0.92 * ring,
                 tt_nccl_bandwidth_gbs(&job, TT_NCCL_RING, TT_NCCL_LL128, long_bytes));
    assert_close(24 * 0.92 * 0.5,
                 tt_nccl_bandwidth_gbs(&job, TT_NCCL_TREE, TT_NCCL_SIMPLE, long_bytes));
    /* 256 KiB are 2^12 times 64 bytes: half of it */
    assert_close(24 * 0.92 * 0.25,
                 tt_nccl_bandwidth_gbs(&job, TT_NCCL_TREE, TT_NCCL_SIMPLE, 256 << 10));
    tt_nccl_job limited = job;
    limited.channels = 2; /* of 10 GB/s each between more than two hosts */
    assert_close(20 * 0.5,
                 tt_nccl_bandwidth_gbs(&limited, TT_NCCL_TREE, TT_NCCL_SIMPLE, long_bytes));
}

/* Rings are out beyond about a thousand accelerators. */
static void test_the_fastest_is_chosen(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {2, 6, 12, 96, 768, 6000, 27600};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        const tt_nccl_job job = job_of("summit", sizes[i]);
        for (uint64_t bytes = 4; bytes <= UINT64_C(1) << 30; bytes *= 8) {
            const tt_nccl_choice choice = tt_nccl_allreduce(&job, bytes);
            for (int k = 0; k < TT_NCCL_ALGORITHMS * TT_NCCL_PROTOCOLS; k++) {
                const tt_nccl_algorithm algorithm = (tt_nccl_algorithm)(k / TT_NCCL_PROTOCOLS);
                const tt_nccl_protocol protocol = (tt_nccl_protocol)(k % TT_NCCL_PROTOCOLS);
                const double gbs = tt_nccl_bandwidth_gbs(&job, algorithm, protocol, bytes);
                assert_true(choice.time_us <= tt_nccl_latency_us(&job, algorithm, protocol, bytes) +
                                                  (double)bytes / (1000 * gbs) + 1e-9);
            }
            assert_true(sizes[i] < 6000 || choice.algorithm == TT_NCCL_TREE);
        }
    }
    assert_close(0, tt_nccl_allreduce(&(tt_nccl_job){.rank_count = 1}, 1 << 20).time_us);
}

static void test_pcie_has_no_ll128(void **state)
{
    (void)state;
    const tt_nccl_job pcie = job_of("ethernet-25g", 64), nvlink = job_of("dgx2", 64);
    assert_false(pcie.has_nvlink);
    assert_true(nvlink.has_nvlink);
    assert_close(0, tt_nccl_bandwidth_gbs(&pcie, TT_NCCL_RING, TT_NCCL_LL128, 1 << 20));
    assert_close(6.6 + 2 * (64 - 16) * 1 + 2 * 15 * 2.7,
                 tt_nccl_latency_us(&pcie, TT_NCCL_RING, TT_NCCL_LL, 4));
}

static void test_a_cluster_without_accelerators_is_refused(void **state)
{
    (void)state;
    tt_text why = {.length = 0};
    tt_nccl_job job;
    assert_int_equal(tt_nccl_job_init(&job, tt_cluster_preset_find("laptop"), 8, &why),
                     TT_ERR_BAD_CONFIG);
    assert_non_null(strstr(why.bytes, "cluster laptop has no accelerators"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_latencies_of_27600_ranks_are_the_published_ones),
        cmocka_unit_test(test_bandwidths_are_those_of_the_bus),
        cmocka_unit_test(test_the_fastest_is_chosen),
        cmocka_unit_test(test_pcie_has_no_ll128),
        cmocka_unit_test(test_a_cluster_without_accelerators_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
