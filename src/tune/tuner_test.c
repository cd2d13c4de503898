/* SPDX-License-Identifier: Apache-2.0
 *
 * tuner_test.c - the tuner on functions whose minimum is known. On simulated steps it is tested in
 * schedule/tuning_test.c. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/philox.h"
#include "tune/tuner.h"

typedef double cost_fn(const tt_tuner_setting *setting);

static tt_tuner_config config_2d(void)
{
    return (tt_tuner_config){.dimension_count = 2,
                             .min = {{4e3, 4e3}},
                             .max = {{1e8, 4e8}},
                             .start = {{4e6, 1.6e7}},
                             .seed = {{1e6, 4e6}}};
}

/* A bowl in log space with its bottom at 200 kB and 3 MB. */
static double bowl(const tt_tuner_setting *setting)
{
    const double x = log(setting->at[0] / 2e5);
    const double y = log(setting->at[1] / 3e6);
    return 1000 * (1 + 0.05 * x * x + 0.03 * (y - 0.3 * x) * (y - 0.3 * x));
}

static double plateau(const tt_tuner_setting *setting)
{
    (void)setting;
    return 1000;
}

/* Everything but the start is worse. */
static double trap(const tt_tuner_setting *setting)
{
    return fabs(log(setting->at[0] / 4e6)) < 0.01 ? 1000 : 1500 + setting->at[0] * 1e-6;
}

/* Like steps over 250 Mbit/s: only short chunks that do not wait for a long batch overtake. A
 * change in one dimension alone gains nothing. */
static double valley(const tt_tuner_setting *setting)
{
    const double chunk = log(setting->at[TT_TUNER_CHUNK] / 16e3) / log(32);
    const double batch = log(setting->at[TT_TUNER_BATCH] / 1e3) / log(256);
    return 1000 + 130 * fmin(fmax(chunk, batch > 0.6 ? 1 : 0), 1);
}

static tt_tuner_config config_3d(void)
{
    return (tt_tuner_config){.dimension_count = 3,
                             .min = {{16e3, 256e3, 1e3}},
                             .max = {{512e3, 256e6, 256e3}},
                             .start = {{512e3, 256e3, 256e3}},
                             .seed = {{90e3, 8e6, 16e3}}};
}

/* Steps of a job on busy cores: most within some percent of the setting's time, some much longer,
 * and at times all of a sample. The first ones under a setting are slow; step.c leaves them out,
 * all but one. A sample is the lower quartile. */
static double busy_us(double cost_us, bool is_final, tt_random *random)
{
    enum { STEPS = 7, FINAL_STEPS = 21 };
    double times_us[FINAL_STEPS];
    const int count = is_final ? FINAL_STEPS : STEPS;
    const double others = tt_random_real(random) < 0.05 ? 1 + 0.1 * tt_random_real(random) : 1;
    for (int i = 0; i < count; i++) {
        const double noise = 0.04 * (tt_random_real(random) - 0.5);
        const double tail = tt_random_real(random);
        double time_us = cost_us * others * (1 + noise + (tail < 0.1 ? 4 * tail : 0));
        time_us += i == 0 ? cost_us / 2 : 0;
        int at = i;
        for (; at > 0 && times_us[at - 1] > time_us; at--) {
            times_us[at] = times_us[at - 1];
        }
        times_us[at] = time_us;
    }
    return times_us[count / 4];
}

/* Undisturbed time of the setting that was found. */
static double busy_run(tt_tuner *tuner, cost_fn *cost, uint64_t seed)
{
    tt_random random;
    tt_random_init(&random, seed, 0);
    tt_tuner_setting setting;
    uint32_t count = 0;
    for (; tt_tuner_ask(tuner, &setting); count++) {
        tt_tuner_tell(tuner, busy_us(cost(&setting), tt_tuner_is_final(tuner), &random));
    }
    assert_true(count <= TT_TUNER_SAMPLES_MAX);
    return cost(&setting);
}

static uint32_t run(tt_tuner *tuner, cost_fn *cost, double noise, uint64_t seed)
{
    tt_random random;
    tt_random_init(&random, seed, 0);
    tt_tuner_setting setting;
    uint32_t count = 0;
    while (tt_tuner_ask(tuner, &setting)) {
        tt_tuner_setting again;
        assert_true(tt_tuner_ask(tuner, &again)); /* the same until its time is reported */
        assert_memory_equal(&setting, &again, sizeof(setting));
        tt_tuner_tell(tuner, cost(&setting) * (1 + noise * (tt_random_real(&random) - 0.5)));
        assert_true(++count <= TT_TUNER_SAMPLES_MAX);
    }
    return count;
}

static void tuner_start(tt_tuner *tuner, tt_tuner_config config)
{
    tt_text why = {0};
    assert_int_equal(TT_OK, tt_tuner_init(tuner, &config, &why));
}

static void test_a_bowl_is_found_in_fifteen_samples(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        tt_tuner tuner;
        tuner_start(&tuner, config_2d());
        run(&tuner, bowl, 0.01, seed);
        tt_tuner_setting setting;
        assert_false(tt_tuner_ask(&tuner, &setting));
        assert_true(bowl(&setting) <= 1030);
    }
}

static void test_the_same_samples_give_the_same_proposals(void **state)
{
    (void)state;
    tt_tuner a;
    tt_tuner b;
    tuner_start(&a, config_2d());
    tuner_start(&b, config_2d());
    tt_tuner_setting from_a;
    tt_tuner_setting from_b;
    while (tt_tuner_ask(&a, &from_a)) {
        assert_true(tt_tuner_ask(&b, &from_b));
        assert_memory_equal(&from_a, &from_b, sizeof(from_a));
        tt_tuner_tell(&a, bowl(&from_a));
        tt_tuner_tell(&b, bowl(&from_b));
    }
}

static void test_it_never_ends_worse_than_it_began(void **state)
{
    (void)state;
    static cost_fn *const costs[] = {trap, plateau, bowl};
    for (int i = 0; i < 3; i++) {
        tt_tuner tuner;
        const tt_tuner_config config = config_2d();
        tuner_start(&tuner, config);
        run(&tuner, costs[i], 0, 1);
        tt_tuner_setting setting;
        assert_false(tt_tuner_ask(&tuner, &setting));
        assert_true(costs[i](&setting) <= costs[i](&config.start));
        if (costs[i] != bowl) {
            assert_memory_equal(&setting, &config.start, sizeof(setting));
        }
    }
}

/* All settings take equally long, except for the sample of that number. */
static uint32_t run_odd(tt_tuner *tuner, uint32_t odd, double odd_us)
{
    tt_tuner_setting setting;
    uint32_t count = 0;
    for (; tt_tuner_ask(tuner, &setting); count++) {
        assert_true(count < TT_TUNER_SAMPLES_MAX);
        tt_tuner_tell(tuner, count == odd ? odd_us : 1000);
    }
    assert_memory_equal(&setting, &tuner->config.start, sizeof(setting));
    return count;
}

static void test_one_lucky_sample_does_not_win(void **state)
{
    (void)state;
    tt_tuner tuner;
    for (uint32_t odd = 1; odd < TT_TUNER_SAMPLES_MAX - 2; odd++) {
        tuner_start(&tuner, config_2d());
        (void)run_odd(&tuner, odd, 900);
    }
    tuner_start(&tuner, config_2d()); /* the first steps of a job are slow */
    (void)run_odd(&tuner, 0, 1300);
    tuner_start(&tuner, config_2d());
    const uint32_t alone = run_odd(&tuner, 0, 1000); /* nothing to decide: no final */
    tuner_start(&tuner, config_2d());
    assert_true(run_odd(&tuner, 1, 900) >= 4 && alone <= TT_TUNER_SAMPLES_MAX - 2);
}

static void test_the_final_repeats_the_start_and_the_quickest(void **state)
{
    (void)state;
    tt_tuner tuner;
    tuner_start(&tuner, config_2d());
    tt_tuner_setting setting;
    tt_tuner_setting finals[2];
    tt_tuner_setting quickest = tuner.config.start;
    uint32_t final_count = 0;
    while (tt_tuner_ask(&tuner, &setting)) {
        if (tt_tuner_is_final(&tuner)) {
            assert_true(final_count < 2);
            finals[final_count++] = setting;
        } else if (bowl(&setting) < bowl(&quickest)) {
            quickest = setting;
        }
        tt_tuner_tell(&tuner, bowl(&setting));
    }
    assert_int_equal(2, final_count);
    assert_false(tt_tuner_is_final(&tuner));
    assert_memory_equal(&finals[0], &tuner.config.start, sizeof(setting));
    assert_memory_equal(&finals[1], &quickest, sizeof(setting));
    assert_memory_equal(&setting, &quickest, sizeof(setting));
}

enum { BUSY_RUNS = 40 };

/* How many of the runs ended within 3 % of the best. None ends worse than it began. */
static int busy_runs(const tt_tuner_config *config, cost_fn *cost)
{
    int found = 0;
    for (uint64_t seed = 0; seed < BUSY_RUNS; seed++) {
        tt_tuner tuner;
        tuner_start(&tuner, *config);
        const double time_us = busy_run(&tuner, cost, seed);
        assert_true(time_us <= cost(&config->start));
        found += time_us <= 1030;
    }
    return found;
}

static void test_a_valley_is_found_despite_disturbed_samples(void **state)
{
    (void)state;
    tt_tuner_config config = config_3d();
    assert_true(busy_runs(&config, valley) >= BUSY_RUNS * 6 / 10);
    config.start = (tt_tuner_setting){{256e3, 256e6, 64e3}};
    assert_true(busy_runs(&config, valley) >= BUSY_RUNS * 6 / 10);
    config = config_3d(); /* a corner in which all times are equal */
    config.seed = (tt_tuner_setting){{512e3, 16e6, 256e3}};
    assert_true(busy_runs(&config, valley) >= BUSY_RUNS * 3 / 10);
}

static void test_where_all_times_are_equal_the_present_setting_stays(void **state)
{
    (void)state;
    int kept = 0;
    for (uint64_t seed = 0; seed < BUSY_RUNS; seed++) {
        tt_tuner tuner;
        tt_tuner_setting setting;
        tuner_start(&tuner, config_3d());
        (void)busy_run(&tuner, plateau, seed);
        assert_false(tt_tuner_ask(&tuner, &setting));
        kept += memcmp(&setting, &tuner.config.start, sizeof(setting)) == 0;
    }
    assert_true(kept >= BUSY_RUNS * 95 / 100);
}

static void test_the_search_does_not_end_early(void **state)
{
    (void)state;
    tt_tuner tuner;
    tt_tuner_setting setting;
    tuner_start(&tuner, config_3d());
    uint32_t count = 0;
    for (; tt_tuner_ask(&tuner, &setting); count++) {
        tt_tuner_tell(&tuner, 1000);
    }
    assert_int_equal(TT_TUNER_SAMPLES_MAX - 3, count); /* without a final: nothing to decide */
}

static void test_a_disturbed_final_is_repeated(void **state)
{
    (void)state;
    for (int disturbed = 1; disturbed <= 2; disturbed++) { /* samples of the favourite */
        tt_tuner tuner;
        tt_tuner_setting setting;
        tuner_start(&tuner, config_2d());
        int finals = 0;
        uint32_t count = 0;
        for (; tt_tuner_ask(&tuner, &setting); count++) {
            finals += tt_tuner_is_final(&tuner);
            const bool is_slow = finals > 1 && finals <= 1 + disturbed;
            tt_tuner_tell(&tuner, bowl(&setting) * (is_slow ? 2 : 1));
        }
        assert_int_equal(3, finals);
        assert_true(count <= TT_TUNER_SAMPLES_MAX);
        const bool is_start = memcmp(&setting, &tuner.config.start, sizeof(setting)) == 0;
        assert_true(is_start == (disturbed == 2));
    }
}

static void test_one_and_three_dimensions_work_too(void **state)
{
    (void)state;
    tt_tuner_config config = config_2d();
    tt_tuner tuner;
    tt_tuner_setting setting;
    config.dimension_count = 1;
    tuner_start(&tuner, config);
    tt_tuner_setting asked;
    while (tt_tuner_ask(&tuner, &asked)) {
        asked.at[1] = 3e6;
        tt_tuner_tell(&tuner, bowl(&asked));
    }
    assert_false(tt_tuner_ask(&tuner, &setting));
    setting.at[1] = 3e6;
    assert_true(bowl(&setting) <= 1030);
    config.dimension_count = 3;
    config.min.at[2] = 1e3;
    config.max.at[2] = 1e7;
    config.start.at[2] = 1e5;
    config.seed.at[2] = 1e6;
    tuner_start(&tuner, config);
    run(&tuner, bowl, 0, 1);
    assert_false(tt_tuner_ask(&tuner, &setting));
    assert_true(bowl(&setting) <= 1060);
}

static void test_a_profile_shortens_the_search(void **state)
{
    (void)state;
    tt_tuner first;
    tuner_start(&first, config_2d());
    run(&first, bowl, 0, 1);
    tt_tuner second;
    tt_tuner_config config = config_2d();
    config.sample_max = 11;
    tuner_start(&second, config);
    uint32_t recalled = 0;
    for (uint32_t i = 0; i < first.sample_count; i++) {
        recalled += tt_tuner_recall(&second, &first.samples[first.sample_count - 1 - i]);
    }
    assert_true(recalled > 0);
    const uint32_t count = run(&second, bowl, 0, 1);
    assert_true(count + recalled <= 11);
    tt_tuner_setting setting;
    assert_false(tt_tuner_ask(&second, &setting));
    assert_true(bowl(&setting) <= 1030);
    assert_false(tt_tuner_recall(&second, &first.samples[0]));
}

static void test_drift_restarts_tuning_from_the_answer(void **state)
{
    (void)state;
    tt_tuner tuner;
    tuner_start(&tuner, config_2d());
    run(&tuner, bowl, 0, 1);
    tt_tuner_setting before;
    assert_false(tt_tuner_ask(&tuner, &before));
    for (int i = 0; i < 100; i++) { /* noise and single outliers are no drift */
        assert_false(tt_tuner_watch(&tuner, i % 7 == 0 ? 9000 : 1000 + i % 5));
    }
    bool has_drifted = false;
    int steps = 0;
    for (; steps < 20 && !has_drifted; steps++) {
        has_drifted = tt_tuner_watch(&tuner, 1500);
    }
    assert_true(has_drifted);
    assert_true(steps <= TT_TUNER_WATCHED);
    tt_tuner_setting after;
    assert_true(tt_tuner_ask(&tuner, &after));
    assert_memory_equal(&before, &after, sizeof(before));
}

static void test_invalid_times_do_no_harm(void **state)
{
    (void)state;
    static const double wrong[] = {NAN, -1, INFINITY, 0};
    tt_tuner tuner;
    tuner_start(&tuner, config_2d());
    tt_tuner_setting setting;
    int count = 0;
    while (tt_tuner_ask(&tuner, &setting)) {
        tt_tuner_tell(&tuner, count % 3 == 1 ? wrong[count % 4] : bowl(&setting));
        count++;
    }
    assert_true(bowl(&setting) <= bowl(&(tt_tuner_setting){{4e6, 1.6e7}}));
    assert_false(tt_tuner_watch(&tuner, NAN));
}

static void test_invalid_configurations_are_refused_with_a_reason(void **state)
{
    (void)state;
    tt_tuner tuner;
    tt_text why = {0};
    tt_tuner_config config = config_2d();
    config.min.at[1] = 0;
    assert_int_equal(TT_ERR_BAD_ARGUMENT, tt_tuner_init(&tuner, &config, &why));
    assert_non_null(strstr(why.bytes, "dimension 1"));
    config = config_2d();
    config.max.at[0] = 1;
    assert_int_equal(TT_ERR_BAD_ARGUMENT, tt_tuner_init(&tuner, &config, &why));
    config = config_2d();
    config.dimension_count = 0;
    assert_int_equal(TT_ERR_BAD_ARGUMENT, tt_tuner_init(&tuner, &config, &why));
}

static void test_the_seed_is_that_of_the_cost_model(void **state)
{
    (void)state;
    /* VGG16 over 10 Gb/s, 50 us a chunk, 4 in flight: 2.9 MB */
    const double seed = tt_tuner_chunk_seed(553.4e6, 50, 1250, 4);
    assert_true(fabs(seed - 2.94e6) < 0.01e6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_bowl_is_found_in_fifteen_samples),
        cmocka_unit_test(test_the_same_samples_give_the_same_proposals),
        cmocka_unit_test(test_it_never_ends_worse_than_it_began),
        cmocka_unit_test(test_one_lucky_sample_does_not_win),
        cmocka_unit_test(test_the_final_repeats_the_start_and_the_quickest),
        cmocka_unit_test(test_a_disturbed_final_is_repeated),
        cmocka_unit_test(test_a_valley_is_found_despite_disturbed_samples),
        cmocka_unit_test(test_where_all_times_are_equal_the_present_setting_stays),
        cmocka_unit_test(test_the_search_does_not_end_early),
        cmocka_unit_test(test_one_and_three_dimensions_work_too),
        cmocka_unit_test(test_a_profile_shortens_the_search),
        cmocka_unit_test(test_drift_restarts_tuning_from_the_answer),
        cmocka_unit_test(test_invalid_times_do_no_harm),
        cmocka_unit_test(test_invalid_configurations_are_refused_with_a_reason),
        cmocka_unit_test(test_the_seed_is_that_of_the_cost_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
