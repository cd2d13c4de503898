/* SPDX-License-Identifier: Apache-2.0
 *
 * sweep_plot_test.c - which axis is horizontal, what is drawn of it, and when. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "cli/simulate/sweep_plot.h"

static tt_sweep sweep_of(const char *first, const char *second)
{
    tt_sweep sweep = {.axis_count = 0};
    tt_text why = {.length = 0};
    assert_int_equal(TT_OK, tt_sweep_add(&sweep, first, &why));
    if (second != NULL) {
        assert_int_equal(TT_OK, tt_sweep_add(&sweep, second, &why));
    }
    return sweep;
}

static const char *axis_chosen(const char *first, const char *second)
{
    static const char *const names[] = {"ranks", "strategy", "chunk", "cluster"};
    tt_sweep sweep = sweep_of(first, second);
    tt_sweep_plot plot;
    tt_text why = {.length = 0};
    const char *found = "none";
    if (tt_sweep_plot_init(&plot, &sweep, "unused", &why) == TT_OK) {
        for (size_t i = 0; i < TT_ARRAY_COUNT(names); i++) {
            found = strcmp(sweep.axes[plot.axis].name, names[i]) == 0 ? names[i] : found;
        }
    }
    tt_sweep_plot_fini(&plot);
    tt_sweep_fini(&sweep);
    return found;
}

static void test_the_first_axis_of_numbers_is_horizontal(void **state)
{
    (void)state;
    assert_string_equal("ranks", axis_chosen("ranks=1,2", "chunk=1K,2K"));
    assert_string_equal("chunk", axis_chosen("chunk=1K,2M", "ranks=1,2"));
    assert_string_equal("ranks", axis_chosen("strategy=tutti,ddp", "ranks=1,2"));
    assert_string_equal("chunk", axis_chosen("ranks=8", "chunk=1K,2K"));
    assert_string_equal("strategy", axis_chosen("strategy=tutti,ddp", "cluster=a,b"));
    assert_string_equal("strategy", axis_chosen("strategy=tutti,ddp", "ranks=8"));
}

/* Drawn, once the first `count` points are known. The caller frees. */
static char *drawn(tt_sweep *sweep, size_t count)
{
    char *text = NULL;
    size_t bytes = 0;
    tt_sweep_plot plot;
    tt_text why = {.length = 0};
    FILE *stream = open_memstream(&text, &bytes);
    assert_non_null(stream);
    assert_int_equal(TT_OK, tt_sweep_plot_init(&plot, sweep, "unused", &why));
    for (size_t i = 0; i < count; i++) {
        plot.values[i] = (tt_sweep_plot_value){true, 100 + (double)i, 90, 120, 1 / (1 + (double)i)};
    }
    tt_sweep_plot_draw(&plot, stream);
    tt_sweep_plot_fini(&plot);
    assert_int_equal(0, fclose(stream));
    tt_sweep_fini(sweep);
    return text;
}

static size_t count_of(const char *text, const char *wanted)
{
    size_t count = 0;
    for (const char *at = strstr(text, wanted); at != NULL; at = strstr(at + 1, wanted)) {
        count++;
    }
    return count;
}

static void test_each_known_point_is_drawn_in_both_panels(void **state)
{
    (void)state;
    for (size_t known = 0; known <= 6; known++) {
        tt_sweep sweep = sweep_of("ranks=8,16,32", "strategy=tutti,ddp");
        char *text = drawn(&sweep, known);
        assert_int_equal(2 * known, count_of(text, "<circle"));
        assert_int_equal(1, count_of(text, ">tutti</text>"));
        assert_int_equal(1, count_of(text, ">ddp</text>"));
        assert_int_equal(2, count_of(text, ">16</text>"));
        assert_int_equal(known, count_of(text, "stroke-opacity"));
        free(text);
    }
}

static void test_words_are_points_that_nothing_joins(void **state)
{
    (void)state;
    tt_sweep sweep = sweep_of("strategy=tutti,ddp", "cluster=a,b");
    char *text = drawn(&sweep, 4);
    assert_int_equal(8, count_of(text, "<circle"));
    assert_int_equal(2, count_of(text, "stroke-width=\"2\"")); /* of the names */
    free(text);
}

static void test_steps_that_are_far_apart_have_a_logarithmic_scale(void **state)
{
    (void)state;
    for (int is_far = 0; is_far < 2; is_far++) {
        tt_sweep sweep = sweep_of("ranks=8,16", NULL);
        char *text = NULL;
        size_t bytes = 0;
        tt_sweep_plot plot;
        tt_text why = {.length = 0};
        FILE *stream = open_memstream(&text, &bytes);
        assert_non_null(stream);
        assert_int_equal(TT_OK, tt_sweep_plot_init(&plot, &sweep, "unused", &why));
        plot.values[0] = (tt_sweep_plot_value){true, 100, 100, 100, 1};
        plot.values[1] = (tt_sweep_plot_value){true, is_far ? 4000 : 400, 100, 400, 0.25};
        tt_sweep_plot_draw(&plot, stream);
        assert_int_equal(0, fclose(stream));
        assert_int_equal(is_far ? 1 : 2, count_of(text, ">0</text>"));
        assert_int_equal(1, count_of(text, is_far ? ">1000</text>" : ">400</text>"));
        free(text);
        tt_sweep_plot_fini(&plot);
        tt_sweep_fini(&sweep);
    }
}

static void test_names_of_users_are_text(void **state)
{
    (void)state;
    tt_sweep sweep = sweep_of("ranks=1,2", "cluster=<b>&\"\x01,x");
    char *text = drawn(&sweep, 4);
    assert_non_null(strstr(text, ">&lt;b&gt;&amp;\"?</text>"));
    free(text);
}

static void test_what_cannot_be_drawn_is_refused(void **state)
{
    (void)state;
    tt_sweep one = sweep_of("ranks=8", NULL);
    tt_sweep many = sweep_of("ranks=1,2", "seed=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17");
    tt_sweep_plot plot;
    tt_text why = {.length = 0};
    assert_int_equal(TT_ERR_BAD_ARGUMENT, tt_sweep_plot_init(&plot, &one, "unused", &why));
    assert_non_null(strstr(why.bytes, "give --sweep with several values"));
    tt_text_clear(&why);
    assert_int_equal(TT_ERR_BAD_ARGUMENT, tt_sweep_plot_init(&plot, &many, "unused", &why));
    assert_non_null(strstr(why.bytes, "17 lines over ranks; give fewer values"));
    tt_sweep_plot_fini(&plot);
    tt_sweep_fini(&one);
    tt_sweep_fini(&many);
}

static size_t points_in(const char *path)
{
    static char text[1 << 18];
    FILE *stream = fopen(path, "re");
    assert_non_null(stream);
    const size_t bytes = fread(text, 1, sizeof(text) - 1, stream);
    assert_int_equal(0, fclose(stream));
    text[bytes] = '\0';
    assert_non_null(strstr(text, "</svg>"));
    return count_of(text, "<circle") / 2;
}

/* At most a twentieth is missing, so that an interrupted sweep leaves the rest. */
static void test_a_picture_is_there_from_the_first_point_on(void **state)
{
    (void)state;
    tt_text path = {.length = 0}, why = {.length = 0}, list = {.length = 0};
    tt_text_add(&path, "/tmp/sweep_plot_test.%ld.svg", (long)getpid());
    tt_text_add(&list, "seed=1");
    for (int i = 2; i <= 100; i++) {
        tt_text_add(&list, ",%d", i);
    }
    tt_sweep sweep = sweep_of(list.bytes, NULL);
    tt_sweep_plot plot;
    assert_int_equal(TT_OK, tt_sweep_plot_init(&plot, &sweep, path.bytes, &why));
    for (size_t i = 0; i < 99; i++) {
        assert_true(tt_sweep_plot_add(&plot, i, &(tt_sweep_plot_value){.step_ms = 1}));
        assert_true(points_in(path.bytes) + (i + 1) / 20 >= i + 1);
    }
    assert_true(tt_sweep_plot_finish(&plot));
    assert_int_equal(99, points_in(path.bytes));
    assert_int_equal(0, unlink(path.bytes));
    plot.path = "/no/such/folder/picture.svg";
    assert_true(!tt_sweep_plot_add(&plot, 99, &(tt_sweep_plot_value){.step_ms = 1}) ||
                !tt_sweep_plot_finish(&plot));
    tt_sweep_plot_fini(&plot);
    tt_sweep_fini(&sweep);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_axis_of_numbers_is_horizontal),
        cmocka_unit_test(test_each_known_point_is_drawn_in_both_panels),
        cmocka_unit_test(test_words_are_points_that_nothing_joins),
        cmocka_unit_test(test_steps_that_are_far_apart_have_a_logarithmic_scale),
        cmocka_unit_test(test_names_of_users_are_text),
        cmocka_unit_test(test_what_cannot_be_drawn_is_refused),
        cmocka_unit_test(test_a_picture_is_there_from_the_first_point_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
