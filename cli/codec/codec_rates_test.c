/* SPDX-License-Identifier: Apache-2.0
 *
 * codec_rates_test.c - the wire bytes of every codec fit a room, and what is measured is done. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "cli/codec/codec_rates.h"
#include "cli/stopwatch.h"
#include "codec/registry.h"

static tt_codec_spec spec_of(const char *text)
{
    tt_codec_spec spec;
    tt_text why;
    assert_int_equal(tt_codec_parse(text, &spec, &why), TT_OK);
    return spec;
}

static void test_every_codec_fits_even_with_small_blocks(void **state)
{
    (void)state;
    tt_rates_room room;
    assert_true(tt_rates_room_take(&room, TT_RATES_GRAIN));
    for (size_t i = 0; tt_codec_at(i) != NULL; i++) {
        char text[TT_CODEC_TEXT_BYTES];
        const tt_codec *codec = tt_codec_at(i);
        (void)snprintf(text, sizeof(text), "%s%s", codec->name,
                       codec->has_block ? ":block=16" : "");
        const tt_codec_spec spec = spec_of(text);
        assert_true(tt_rates_encode_s(&spec, &room) >= 0.0);
        assert_true(tt_rates_add_s(&spec, &room) >= 0.0);
    }
    tt_rates_room_give(&room);
}

static void test_adding_decodes_what_was_encoded(void **state)
{
    (void)state;
    tt_rates_room room;
    const tt_codec_spec spec = spec_of("none");
    assert_true(tt_rates_room_take(&room, 4 * TT_RATES_GRAIN));
    (void)tt_rates_copy_s(&room);
    (void)tt_rates_encode_s(&spec, &room);
    (void)tt_rates_add_s(&spec, &room);
    for (size_t i = 0; i < room.count; i++) {
        assert_true(room.target[i] == 2.0f * room.values[i]);
    }
    tt_rates_room_give(&room);
}

static void test_error_feedback_is_measured_with_its_residual(void **state)
{
    (void)state;
    tt_rates_room room;
    const tt_codec_spec off = spec_of("int8:ef=off"), on = spec_of("int8:ef=on");
    assert_true(tt_rates_room_take(&room, TT_RATES_GRAIN));
    (void)tt_rates_encode_s(&off, &room);
    for (size_t i = 0; i < room.count; i++) {
        assert_true(room.residual[i] == 0.0f);
    }
    size_t changed = 0;
    (void)tt_rates_encode_s(&on, &room);
    for (size_t i = 0; i < room.count; i++) {
        changed += room.residual[i] != 0.0f ? 1 : 0;
    }
    assert_true(changed > room.count / 2);
    tt_rates_room_give(&room);
}

static void test_the_median(void **state)
{
    (void)state;
    double values[] = {3.0, 1.0, 9.0, 2.0, 4.0};
    assert_true(tt_stopwatch_median(values, 5) == 3.0);
    assert_true(tt_stopwatch_median(values, 4) == 2.5);
    assert_true(tt_stopwatch_median(values, 1) == 1.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_codec_fits_even_with_small_blocks),
        cmocka_unit_test(test_adding_decodes_what_was_encoded),
        cmocka_unit_test(test_error_feedback_is_measured_with_its_residual),
        cmocka_unit_test(test_the_median),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
