/* SPDX-License-Identifier: Apache-2.0
 *
 * when_test.c - texts of policies that exchange in rounds, their errors, what is due, and slices.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "sync/when/when.h"

static tt_when parse(const char *text)
{
    tt_when when;
    tt_text why = {0};
    const tt_status status = tt_when_parse(text, &when, &why);
    assert_string_equal(why.bytes, "");
    assert_int_equal(status, TT_OK);
    return when;
}

static void test_policies_are_read(void **state)
{
    (void)state;
    const tt_when local = parse("local:period=1,16@1000,state=reset");
    assert_ptr_equal(local.policy, &tt_when_local);
    assert_int_equal(local.period_count, 2);
    assert_int_equal(local.periods[1].from, 1000);
    assert_int_equal(local.periods[1].steps, 16);
    assert_int_equal(local.state, TT_STATE_RESET);
    const tt_when outer =
        parse("outer:period=500,lr=0.7,momentum=0.9,nesterov=0,fragments=4,delay=5,alpha=0.5");
    assert_int_equal(outer.fragments, 4);
    assert_int_equal(outer.delay, 5);
    assert_false(outer.is_nesterov);
    assert_true(outer.lr == 0.7 && outer.momentum == 0.9 && outer.alpha == 0.5);
    assert_int_equal(parse("local:inside=2,outside=16").inside, 2);
    assert_int_equal(parse("pipeline:delay=3").delay, 3);
    assert_int_equal(parse("pipeline").delay, 0);
    assert_true(parse("outer:period=4").is_nesterov);
}

static void test_bad_policies_name_the_culprit(void **state)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"", "there is no policy"},
        {"lokal:period=8", "did you mean 'local'?"},
        {"gradient", "there are local, outer, pipeline"},
        {"local", "has no period; say local:period=STEPS"},
        {"local:periot=8", "has no option \"periot\"; it has period inside outside state"},
        {"local:period=0", "period=\"0\" is not STEPS, or STEPS@FROM"},
        {"local:period=8,x", "is not STEPS, or STEPS@FROM"},
        {"local:period=8,4@0", "ascending FROM"},
        {"local:period=8,4@9,2@9", "ascending FROM"},
        {"local:period=8@4", "is not STEPS, or STEPS@FROM"},
        {"local:period=8,period=4", "is not STEPS, or STEPS@FROM"},
        {"local:8", "has no option"},
        {"local:period=8,lr=1", "policy local has no option \"lr\""},
        {"local:period=8,state=drop", "is not keep, average or reset"},
        {"local:inside=3,outside=16", "no multiple of inside=3; use 18"},
        {"local:inside=0,outside=16", "inside=\"0\" is not a number from 1 on"},
        {"local:period=1,4@8,inside=2", "give one period"},
        {"outer:period=10,fragments=4", "no multiple of fragments=4; use period=12"},
        {"outer:period=8,fragments=4,delay=2", "use delay=1 or less"},
        {"outer:period=8,delay=8", "use delay=7 or less"},
        {"outer:period=8,alpha=1.5", "use 0 to 1"},
        {"outer:period=8,lr=-1", "lr=\"-1\" is not a number from 0 on"},
        {"outer:period=8,nesterov=2", "is not 0 or 1"},
        {"outer:period=8,4@100,fragments=2", "give one period"},
        {"pipeline:delay=x", "delay=\"x\" is not a number from 0 on"},
        {"pipeline:period=2", "policy pipeline has no option \"period\"; it has delay"},
    };
    (void)state;
    for (size_t i = 0; i < TT_ARRAY_COUNT(cases); i++) {
        tt_when when;
        tt_text why = {0};
        assert_int_equal(tt_when_parse(cases[i].text, &when, &why), TT_ERR_BAD_ARGUMENT);
        if (strstr(why.bytes, cases[i].words) == NULL) {
            fail_msg("%s: %s", cases[i].text, why.bytes);
        }
    }
}

static void test_fragments_are_due_one_at_a_time(void **state)
{
    const tt_when when = parse("outer:period=12,fragments=4,delay=2");
    (void)state;
    for (uint64_t step = 1; step <= 36; step++) {
        uint32_t due = 0;
        for (uint32_t i = 0; i < when.fragments; i++) {
            due += tt_when_due(&when, i, step) == TT_LEVEL_ALL;
        }
        assert_int_equal(due, step % 3 == 0 ? 1 : 0);
        assert_int_equal(tt_when_due(&when, 0, step) == TT_LEVEL_ALL, step % 12 == 0);
        assert_int_equal(tt_when_due(&when, 1, step) == TT_LEVEL_ALL, step % 12 == 3);
    }
}

static void test_hosts_have_their_own_period(void **state)
{
    const tt_when when = parse("local:inside=2,outside=6");
    static const tt_when_level wanted[] = {TT_LEVEL_NONE, TT_LEVEL_HOST, TT_LEVEL_NONE,
                                           TT_LEVEL_HOST, TT_LEVEL_NONE, TT_LEVEL_ALL};
    (void)state;
    for (uint64_t step = 1; step <= 18; step++) {
        assert_int_equal(tt_when_due(&when, 0, step), wanted[(step - 1) % 6]);
    }
}

static void test_slices_cover_all_once(void **state)
{
    const tt_when when = parse("outer:period=7,fragments=7");
    (void)state;
    for (uint64_t elements = 0; elements < 50; elements++) {
        uint64_t next = 0;
        for (uint32_t i = 0; i < when.fragments; i++) {
            uint64_t first = 0;
            const uint64_t count = tt_when_slice(&when, i, elements, &first);
            assert_int_equal(first, next);
            assert_true(count >= elements / 7 && count <= elements / 7 + 1);
            next += count;
        }
        assert_int_equal(next, elements);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_policies_are_read),
        cmocka_unit_test(test_bad_policies_name_the_culprit),
        cmocka_unit_test(test_fragments_are_due_one_at_a_time),
        cmocka_unit_test(test_hosts_have_their_own_period),
        cmocka_unit_test(test_slices_cover_all_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
