/* SPDX-License-Identifier: Apache-2.0
 *
 * step_test.c - steppers of several ranks in one process: an order learnt or a setting tried by
 * rank 0 holds on all ranks from the same step on, and on none where a rank is missing. */
#include "schedule/step.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"

enum { RANKS = 3, STEP_NS = 1000 * 1000 };

typedef struct one_rank {
    tt_stepper *stepper;
    const tt_carrier *carrier;
    tt_setting setting;
    uint32_t applied_count, settled_count;
    bool is_away; /* has joined: contributes the identity element */
    tt_step_moment now;
    tt_counting_allocator counter;
    tt_allocator allocator;
} one_rank;

typedef struct job {
    one_rank ranks[RANKS];
    tt_status broken; /* status of carriers */
} job;

static void carry(void *owner, const tt_carrier *carrier)
{
    one_rank *rank = owner;
    assert_null(rank->carrier);
    rank->carrier = carrier;
}

static void apply(void *owner, const tt_setting *setting)
{
    one_rank *rank = owner;
    rank->setting = *setting;
    rank->applied_count++;
}

static double forecast(void *owner, uint64_t bytes)
{
    (void)owner;
    (void)bytes;
    return 0.0;
}

static void tuned(void *owner, const tt_tuner_setting *setting, bool is_settled)
{
    one_rank *rank = owner;
    (void)setting;
    rank->settled_count += is_settled;
}

static job *job_create(bool learns, bool tunes)
{
    static job it;
    memset(&it, 0, sizeof(it));
    for (uint32_t i = 0; i < RANKS; i++) {
        one_rank *rank = &it.ranks[i];
        const tt_step_host host = {
            .owner = rank, .carry = carry, .apply = apply, .forecast_ns = forecast, .tuned = tuned};
        tt_step_config config;
        tt_step_config_init(&config);
        config.rank = i;
        config.size = RANKS;
        config.setting = (tt_setting){.chunk_bytes = 65536, .fuse_bytes = 65536};
        config.learns = learns;
        config.tunes = tunes;
        config.sample_ns = 1;
        rank->allocator = tt_counting_allocator_borrow(&rank->counter);
        assert_int_equal(TT_OK,
                         tt_stepper_create(&config, &host, &rank->allocator, &rank->stepper));
    }
    return &it;
}

static void job_destroy(job *it)
{
    for (uint32_t i = 0; i < RANKS; i++) {
        tt_stepper_destroy(it->ranks[i].stepper);
        assert_int_equal(it->ranks[i].counter.live_count, 0);
    }
}

/* Make the exchange that all present ranks have requested. */
static tt_status exchange(job *it)
{
    const tt_carrier *first = it->ranks[0].carrier;
    tt_status status = it->broken;
    int64_t sums[256] = {0};
    for (uint32_t i = 0; i < RANKS; i++) {
        const tt_carrier *one = it->ranks[i].carrier;
        if (it->ranks[i].is_away) {
            continue;
        }
        assert_non_null(one);
        assert_int_equal(one->element_bytes, first->element_bytes);
        assert_string_equal(one->name, first->name);
        status = one->memory == NULL ? TT_ERR_NO_MEMORY : status;
        for (uint64_t at = 0; status == TT_OK && at < one->count; at++) {
            sums[at] += one->element_bytes == 1 ? ((const uint8_t *)one->memory)[at]
                                                : ((const int64_t *)one->memory)[at];
        }
    }
    for (uint32_t i = 0; status == TT_OK && i < RANKS; i++) {
        const tt_carrier *one = it->ranks[i].carrier;
        if (!it->ranks[i].is_away) {
            assert_int_equal(one->count, first->count);
            for (uint64_t at = 0; at < one->count; at++) {
                if (one->element_bytes == 1) {
                    ((uint8_t *)one->memory)[at] = (uint8_t)sums[at];
                } else {
                    ((int64_t *)one->memory)[at] = sums[at];
                }
            }
        }
    }
    return status;
}

/* All present ranks end a step; the same exchanges on all of them. */
static tt_status job_step(job *it)
{
    const char *why;
    for (uint32_t i = 0; i < RANKS; i++) {
        one_rank *rank = &it->ranks[i];
        rank->now.now_ns += STEP_NS;
        rank->now.named_count += 4;
        if (!rank->is_away) {
            tt_stepper_end(rank->stepper, &rank->now);
        }
    }
    while (it->ranks[0].carrier != NULL) {
        const tt_status status = exchange(it);
        for (uint32_t i = 0; i < RANKS; i++) {
            it->ranks[i].carrier = NULL;
            if (!it->ranks[i].is_away) {
                tt_stepper_carried(it->ranks[i].stepper, status);
            }
        }
    }
    for (uint32_t i = 0; i < RANKS; i++) {
        assert_null(it->ranks[i].carrier);
        const tt_setting one = tt_stepper_count(it->ranks[i].stepper).setting;
        const tt_setting first = tt_stepper_count(it->ranks[0].stepper).setting;
        assert_true(it->ranks[i].is_away || memcmp(&one, &first, sizeof(one)) == 0);
    }
    return tt_stepper_status(it->ranks[0].stepper, &why);
}

static void submit_all(job *it)
{
    static const char *const names[] = {"last", "middle", "first"};
    for (uint32_t i = 0; i < RANKS; i++) {
        for (uint32_t at = 0; at < TT_ARRAY_COUNT(names); at++) { /* each in another order */
            const char *name = names[(at + i) % TT_ARRAY_COUNT(names)];
            assert_int_equal(tt_stepper_submit(it->ranks[i].stepper, name, -7), -7);
        }
    }
}

static void expect_order(job *it, const char *first, const char *last)
{
    for (uint32_t i = 0; i < RANKS; i++) {
        tt_stepper *stepper = it->ranks[i].stepper;
        assert_int_equal(tt_stepper_submit(stepper, first, -7), 3);
        assert_int_equal(tt_stepper_submit(stepper, "middle", -7), 2);
        assert_int_equal(tt_stepper_submit(stepper, last, -7), 1);
        assert_int_equal(tt_stepper_submit(stepper, "another", -7), -7);
        assert_int_equal(tt_stepper_submit(stepper, "", -7), -7);
    }
}

static void test_tensors_that_rank_0_starts_last_are_most_urgent_on_all_ranks(void **state)
{
    (void)state;
    job *it = job_create(true, false);
    submit_all(it);
    assert_int_equal(TT_OK, job_step(it));
    expect_order(it, "first", "last");
    assert_false(tt_stepper_use(it->ranks[0].stepper, "last"));
    job_destroy(it);
}

static void test_reported_uses_take_precedence_over_the_order_of_starts(void **state)
{
    (void)state;
    job *it = job_create(true, false);
    submit_all(it);
    assert_true(tt_stepper_use(it->ranks[0].stepper, "last"));
    assert_true(tt_stepper_use(it->ranks[0].stepper, "middle"));
    assert_true(tt_stepper_use(it->ranks[0].stepper, "first"));
    assert_true(tt_stepper_use(it->ranks[1].stepper, "first")); /* never submitted */
    assert_int_equal(TT_OK, job_step(it));
    expect_order(it, "last", "first");
    job_destroy(it);
}

static void test_while_a_rank_has_joined_nothing_is_learnt(void **state)
{
    (void)state;
    job *it = job_create(true, false);
    submit_all(it);
    it->ranks[2].is_away = true;
    assert_int_equal(TT_OK, job_step(it));
    assert_int_equal(tt_stepper_submit(it->ranks[0].stepper, "first", -7), -7);
    it->ranks[2].is_away = false;
    assert_int_equal(TT_OK, job_step(it));
    expect_order(it, "first", "last");
    job_destroy(it);
}

static void test_a_carrier_that_fails_changes_nothing(void **state)
{
    (void)state;
    job *it = job_create(true, true);
    submit_all(it);
    it->broken = TT_ERR_PEER_DOWN;
    for (int step = 0; step < 40; step++) {
        assert_int_equal(TT_ERR_PEER_DOWN, job_step(it));
    }
    assert_int_equal(it->ranks[0].applied_count, 0);
    it->broken = TT_OK;
    assert_int_equal(TT_OK, job_step(it));
    expect_order(it, "first", "last");
    job_destroy(it);
}

static void test_without_memory_for_the_order_it_fails_on_all_ranks(void **state)
{
    (void)state;
    job *it = job_create(true, false);
    submit_all(it);
    it->ranks[1].counter.fail_at = it->ranks[1].counter.allocation_count + 1;
    assert_int_equal(TT_ERR_NO_MEMORY, job_step(it));
    for (uint32_t i = 0; i < RANKS; i++) {
        assert_true(tt_stepper_order_hash(it->ranks[i].stepper) == 0);
    }
    assert_int_equal(TT_OK, job_step(it));
    job_destroy(it);
}

static void test_an_order_is_spread_and_an_invalid_one_changes_nothing(void **state)
{
    static const char good[] = "tutti order 1\n0\tfirst\n1\tmiddle\n2\tlast\n";
    static const char wrong[] = "tutti order 1\n0\tfirst\n1\tfirst\n";
    const char *why, *first;
    size_t count;
    (void)state;
    job *it = job_create(false, false);
    for (int turn = 0; turn < 2; turn++) {
        for (uint32_t i = 0; i < RANKS; i++) {
            const char *text = turn == 0 ? good : wrong;
            tt_stepper_spread(it->ranks[i].stepper, text, i == 1 ? 0 : strlen(text));
        }
        while (it->ranks[0].carrier != NULL) {
            const tt_status status = exchange(it);
            for (uint32_t i = 0; i < RANKS; i++) {
                it->ranks[i].carrier = NULL;
                tt_stepper_carried(it->ranks[i].stepper, status);
            }
        }
        const tt_status status = tt_stepper_status(it->ranks[1].stepper, &why);
        assert_int_equal(status, turn == 0 ? TT_OK : TT_ERR_BAD_CONFIG);
    }
    assert_string_equal(why, "order of tensors: first is listed twice; keep one of the lines");
    (void)tt_stepper_submit(it->ranks[0].stepper, "first", 0);
    assert_int_equal(tt_stepper_unused(it->ranks[0].stepper, &count, &first), 2);
    assert_int_equal(count, 3);
    assert_string_equal(first, "middle");
    expect_order(it, "first", "last");
    job_destroy(it);
}

static void test_tuning_changes_all_ranks_at_once_and_ends(void **state)
{
    tt_tuner_sample samples[TT_TUNER_RECALLED_MAX];
    (void)state;
    job *it = job_create(false, true);
    for (int step = 0; step < 400; step++) {
        assert_int_equal(TT_OK, job_step(it));
    }
    for (uint32_t i = 0; i < RANKS; i++) {
        assert_true(it->ranks[i].applied_count > 10);
        assert_int_equal(it->ranks[i].applied_count, it->ranks[0].applied_count);
        assert_int_equal(it->ranks[i].settled_count, i == 0 ? 1 : 0);
    }
    assert_true(tt_stepper_samples(it->ranks[0].stepper, samples) > 0);
    job_destroy(it);
}

static void test_while_a_rank_has_joined_no_setting_changes(void **state)
{
    (void)state;
    job *it = job_create(false, true);
    it->ranks[1].is_away = true;
    for (int step = 0; step < 40; step++) {
        assert_int_equal(TT_OK, job_step(it));
    }
    assert_int_equal(it->ranks[0].applied_count, 0);
    it->ranks[1].is_away = false;
    for (uint32_t i = 0; i < RANKS; i++) {
        tt_stepper_joined(it->ranks[i].stepper);
    }
    for (int step = 0; step < 40; step++) {
        assert_int_equal(TT_OK, job_step(it));
    }
    assert_true(it->ranks[0].applied_count > 0);
    assert_int_equal(it->ranks[1].applied_count, it->ranks[0].applied_count);
    job_destroy(it);
}

static void test_invalid_and_surplus_samples_of_a_profile_are_refused(void **state)
{
    tt_tuner_sample sample = {.setting = {{65536, 1e6, 8192}}, .step_us = 0};
    (void)state;
    job *it = job_create(false, true);
    tt_stepper *stepper = it->ranks[0].stepper;
    assert_false(tt_stepper_recall(stepper, &sample));
    sample.step_us = 10;
    for (int i = 0; i < TT_TUNER_RECALLED_MAX; i++) {
        assert_true(tt_stepper_recall(stepper, &sample));
    }
    assert_false(tt_stepper_recall(stepper, &sample));
    job_destroy(it);
}

static void test_names_of_a_program_without_steps_are_no_longer_recorded(void **state)
{
    (void)state;
    job *it = job_create(true, false);
    for (int i = 0; i < 100; i++) {
        submit_all(it);
    }
    const uint64_t before = it->ranks[0].counter.allocation_count;
    (void)tt_stepper_submit(it->ranks[0].stepper, "new", 0);
    assert_int_equal(it->ranks[0].counter.allocation_count, before);
    job_destroy(it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tensors_that_rank_0_starts_last_are_most_urgent_on_all_ranks),
        cmocka_unit_test(test_reported_uses_take_precedence_over_the_order_of_starts),
        cmocka_unit_test(test_while_a_rank_has_joined_nothing_is_learnt),
        cmocka_unit_test(test_a_carrier_that_fails_changes_nothing),
        cmocka_unit_test(test_without_memory_for_the_order_it_fails_on_all_ranks),
        cmocka_unit_test(test_an_order_is_spread_and_an_invalid_one_changes_nothing),
        cmocka_unit_test(test_tuning_changes_all_ranks_at_once_and_ends),
        cmocka_unit_test(test_while_a_rank_has_joined_no_setting_changes),
        cmocka_unit_test(test_invalid_and_surplus_samples_of_a_profile_are_refused),
        cmocka_unit_test(test_names_of_a_program_without_steps_are_no_longer_recorded),
    };
    return cmocka_run_group_tests_name("step", tests, NULL, NULL);
}
