/* SPDX-License-Identifier: Apache-2.0
 *
 * sync_policy_test.c - texts of policies and updates, their errors, and golden numbers of updates.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "sync/sync_policy.h"
#include "sync/update.h"

static void test_policies_are_read(void **state)
{
    tt_policy policy;
    tt_text why = {0};
    (void)state;
    assert_int_equal(tt_policy_parse("bulk", 4, &policy, &why), TT_OK);
    assert_true(tt_policy_is_bulk(&policy));
    assert_int_equal(tt_policy_parse("stale:0", 4, &policy, &why), TT_OK);
    assert_true(tt_policy_is_bulk(&policy));
    assert_int_equal(tt_policy_parse("stale:3", 4, &policy, &why), TT_OK);
    assert_false(tt_policy_is_bulk(&policy));
    assert_int_equal(tt_policy_needs(&policy, 2), 0);
    assert_int_equal(tt_policy_needs(&policy, 10), 7);
    assert_int_equal(tt_policy_parse("async", 4, &policy, &why), TT_OK);
    assert_int_equal(tt_policy_needs(&policy, UINT64_C(1) << 40), 0);
    assert_int_equal(tt_policy_parse("quorum:3", 4, &policy, &why), TT_OK);
    assert_int_equal(policy.quorum, 3);
}

static void test_bad_policies_name_the_cure(void **state)
{
    static const char *const bad[][2] = {{"stale", "stale:S"},     {"stale:-1", "stale:S"},
                                         {"stale:x", "stale:S"},   {"quorum:0", "quorum:K"},
                                         {"quorum:5", "quorum:4"}, {"", "bulk"},
                                         {"bulk ", "bulk"},        {"sync", "async"}};
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        tt_policy policy;
        tt_text why = {0};
        assert_int_equal(tt_policy_parse(bad[i][0], 4, &policy, &why), TT_ERR_BAD_ARGUMENT);
        assert_non_null(strstr(why.bytes, bad[i][1]));
    }
}

static void test_bad_updates_name_the_culprit(void **state)
{
    static const char *const bad[][2] = {
        {"sdg", "did you mean 'sgd'"}, {"", "adam"},
        {"sgd:rate=1", "it has lr"},   {"sgd:lr", "KEY=VALUE"},
        {"sgd:lr=x", "lr=\"x\""},      {"sgd:lr=-1", "from 0 on"},
        {"sgd:lr=inf", "from 0 on"},   {"sum:lr=1", "has no option"}};
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        tt_update_spec spec;
        tt_text why = {0};
        assert_int_equal(tt_update_parse(bad[i][0], &spec, &why), TT_ERR_BAD_ARGUMENT);
        assert_non_null(strstr(why.bytes, bad[i][1]));
    }
}

/* Run three steps of one element with gradients 1, 2, -1 on two workers. */
static float run_three(const char *text)
{
    static const float gradients[] = {1.0f, 2.0f, -1.0f};
    tt_update_spec spec;
    tt_text why = {0};
    float value = 1.0f, first = 0.0f, second = 0.0f;
    assert_int_equal(tt_update_parse(text, &spec, &why), TT_OK);
    for (uint64_t i = 0; i < 3; i++) {
        float out = 2.0f * gradients[i];
        const tt_update_run run = {.spec = &spec,
                                   .gradient = &out,
                                   .value = &value,
                                   .value_out = &out,
                                   .states = {&first, &second},
                                   .step = i + 1,
                                   .divisor = 2,
                                   .count = 1};
        spec.update->apply(&run);
        value = out;
    }
    return value;
}

static void assert_near(float value, double wanted)
{
    assert_true(fabs((double)value - wanted) < 1e-6);
}

/* By hand; Adam's as torch.optim.Adam and AdamW compute them. */
static void test_updates_have_golden_values(void **state)
{
    (void)state;
    assert_near(run_three("sgd:lr=0.5"), 1.0 - 0.5 * (1.0 + 2.0 - 1.0));
    /* m: 1, 2.5, 0.25 */
    assert_near(run_three("momentum:lr=0.5,momentum=0.5"), 1.0 - 0.5 * (1.0 + 2.5 + 0.25));
    assert_near(run_three("momentum:lr=0.5,momentum=0.5,nesterov=1"),
                1.0 - 0.5 * (1.5 + 3.25 - 0.875));
    double value = 1.0, mean = 0.0, square = 0.0;
    static const double gradients[] = {1.0, 2.0, -1.0};
    for (int i = 0; i < 3; i++) {
        mean = 0.9 * mean + 0.1 * gradients[i];
        square = 0.999 * square + 0.001 * gradients[i] * gradients[i];
        value -= 0.1 * 0.01 * value;
        value -= 0.1 * (mean / (1.0 - pow(0.9, i + 1))) /
                 (sqrt(square / (1.0 - pow(0.999, i + 1))) + 1e-8);
    }
    assert_true(fabs((double)run_three("adam:lr=0.1,decay=0.01") - value) < 1e-5);
}

static void test_a_description_is_read_as_it_was_written(void **state)
{
    static const tt_update own = {.name = "m",
                                  .is_own = true,
                                  .state_count = 2,
                                  .option_count = 2,
                                  .option_names = {"lr", "mu"}};
    static const float options[] = {0.5f, 0.25f};
    tt_update_described read;
    tt_text text = {0}, print = {0}, again = {0};
    (void)state;
    tt_update_describe(&own, &text);
    assert_string_equal(text.bytes, "2 lr mu");
    assert_int_equal(tt_update_read_description("own:m:lr=3", text.bytes, &read), TT_OK);
    tt_update_describe(&read.update, &again);
    assert_string_equal(again.bytes, text.bytes);
    tt_update_print(&read.update, options, &print);
    assert_string_equal(print.bytes, "own:m:lr=0.5,mu=0.25");
}

static void test_bad_descriptions_are_refused(void **state)
{
    static const char *const bad[] = {"",
                                      "x",
                                      "5",
                                      "-1 lr",
                                      "1 ",
                                      "1 lr  mu",
                                      "0 a b c d e f g",
                                      "0 a-name-of-more-than-thirty-one-bytes",
                                      "a-number-of-more-than-thirty-one-bytes"};
    tt_update_described read;
    (void)state;
    for (size_t i = 0; i < TT_ARRAY_COUNT(bad); i++) {
        assert_int_equal(tt_update_read_description("own:m", bad[i], &read), TT_ERR_BAD_WIRE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_policies_are_read),
        cmocka_unit_test(test_bad_policies_name_the_cure),
        cmocka_unit_test(test_bad_updates_name_the_culprit),
        cmocka_unit_test(test_updates_have_golden_values),
        cmocka_unit_test(test_a_description_is_read_as_it_was_written),
        cmocka_unit_test(test_bad_descriptions_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
