/* SPDX-License-Identifier: Apache-2.0
 *
 * state_test.c - the state of codecs as a whole: committed, undone, reset, rescaled, saved and
 * loaded; bytes that are truncated, damaged, or of another rank.
 *
 * Method: one rank of two, whose records are filled by hand; no call runs.
 *
 * Labels: codec */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "control/control_internal.h"
#include "kernel/hash64.h"
#include "support/lone_rank.h"

enum { HEAD_BYTES = 40, RECORDS_AT = 32, VERSION = 2 };

static void fill(tt_control *control, tt_kept *kept, uint64_t count, float value)
{
    assert_int_equal(tt_kept_make(kept, control->platform, count), TT_OK);
    for (uint64_t i = 0; i < count; i++) {
        tt_kept_now(kept)[i] = value + (float)i;
    }
}

/* A tensor with `count` values, of whose sums this rank owns half. */
static tt_feedback *add(tt_control *control, const char *name, uint64_t count, float value)
{
    tt_feedback *made = tt_feedback_of(control, 0, name, 0);
    assert_non_null(made);
    fill(control, &made->input, count, value);
    fill(control, &made->owner, count / 2, -value);
    made->occurrences = count;
    return made;
}

static lone_rank make(void)
{
    lone_rank it = lone_rank_create(2);
    (void)add(it.control, "weights", 7, 1.5f);
    (void)add(it.control, "bias", 1, 0.25f);
    return it;
}

static uint8_t *save(const tt_control *control, size_t *bytes_out)
{
    tt_text text = {0};
    assert_int_equal(tt_control_codec_save(control, NULL, 0, bytes_out, &text), TT_OK);
    uint8_t *bytes = malloc(*bytes_out);
    assert_non_null(bytes);
    assert_int_equal(tt_control_codec_save(control, bytes, *bytes_out, bytes_out, &text), TT_OK);
    return bytes;
}

static void sign(uint8_t *bytes, size_t count)
{
    const uint64_t hash = tt_hash64(bytes, count - sizeof(hash), VERSION);
    memcpy(bytes + count - sizeof(hash), &hash, sizeof(hash));
}

static void expect_refused(tt_control *control, const uint8_t *bytes, size_t count,
                           const char *words)
{
    tt_text text = {0};
    assert_int_equal(tt_control_codec_load(control, bytes, count, &text), TT_ERR_BAD_ARGUMENT);
    assert_non_null(strstr(text.bytes, words));
}

/* ---- saving and loading ---- */

static void test_what_was_saved_is_loaded(void **state)
{
    (void)state;
    size_t bytes, again;
    lone_rank it = make(), other = lone_rank_create(2);
    tt_text text = {0};
    assert_int_equal(tt_control_codec_unit(it.control, 4.0, &text), TT_OK);
    uint8_t *saved = save(it.control, &bytes);
    assert_int_equal(tt_control_codec_load(other.control, saved, bytes, &text), TT_OK);
    const tt_feedback *weights = tt_feedback_find(other.control, 0, "weights", 0);
    assert_non_null(weights);
    assert_int_equal(weights->occurrences, 7);
    assert_int_equal(weights->input.count, 7);
    assert_int_equal(weights->owner.count, 3);
    assert_true(tt_kept_now(&weights->input)[6] == 4.0f * 7.5f);
    assert_true(tt_kept_now(&weights->owner)[2] == 4.0f * 0.5f);
    assert_true(tt_control_codec_norm(other.control) == tt_control_codec_norm(it.control));
    uint8_t *saved_again = save(other.control, &again);
    assert_int_equal(again, bytes);
    free(saved_again);
    free(saved);
    lone_rank_destroy(&it);
    lone_rank_destroy(&other);
}

/* A tensor with estimates, of which this rank keeps three of the other's. */
static tt_feedback *add_tracked(tt_control *control, const char *name, uint64_t stamp)
{
    tt_feedback *made = add(control, name, 6, 2.0f);
    fill(control, &made->estimate, 3, 4.0f);
    made->estimate_first = 3;
    made->form = FORM_ESTIMATE_RAILS;
    made->stamp = stamp;
    return made;
}

static void test_estimates_are_saved_with_their_stamp(void **state)
{
    (void)state;
    size_t bytes;
    lone_rank it = make(), other = lone_rank_create(2);
    tt_text text = {0};
    (void)add_tracked(it.control, "tracked", 77);
    const double norm = tt_control_codec_norm(it.control);
    uint8_t *saved = save(it.control, &bytes);
    assert_int_equal(tt_control_codec_load(other.control, saved, bytes, &text), TT_OK);
    const tt_feedback *loaded = tt_feedback_find(other.control, 0, "tracked", 0);
    assert_non_null(loaded);
    assert_int_equal(loaded->form, FORM_ESTIMATE_RAILS);
    assert_true(loaded->stamp == 77 && loaded->stamp_last == 77);
    assert_true(loaded->estimate.count == 3 && loaded->estimate_first == 3);
    assert_true(tt_kept_now(&loaded->estimate)[2] == 6.0f);
    assert_true(tt_control_codec_norm(other.control) == norm); /* estimates are no residuals */
    assert_true(tt_control_codec_bytes(other.control) == tt_control_codec_bytes(it.control));
    assert_int_equal(tt_control_codec_reset(other.control, 0, "tracked", &text), TT_OK);
    assert_true(loaded->stamp == 0 && loaded->stamp_last == 0 && loaded->form == FORM_RESIDUAL);
    assert_int_equal(loaded->estimate.count, 0);
    free(saved);
    lone_rank_destroy(&it);
    lone_rank_destroy(&other);
}

static void test_stamps_follow_commit_undo_and_unit(void **state)
{
    (void)state;
    lone_rank it = make();
    tt_text text = {0};
    tt_feedback *tracked = add_tracked(it.control, "tracked", 5);
    tt_control_codec_commit(it.control);
    tracked->stamp = 6;
    tt_control_codec_undo(it.control);
    assert_int_equal(tracked->stamp, 5);
    tracked->stamp = 7;
    assert_int_equal(tt_control_codec_unit(it.control, 2.0, &text), TT_OK);
    const uint64_t stamp = tracked->stamp, last = tracked->stamp_last;
    assert_true(stamp != 7 && last != 5 && stamp != last);
    assert_true(tt_kept_now(&tracked->estimate)[0] == 8.0f);
    assert_int_equal(tt_control_codec_unit(it.control, 2.0, &text), TT_OK);
    assert_true(tracked->stamp == stamp); /* the same unit */
    assert_int_equal(tt_control_codec_unit(it.control, 1.0, &text), TT_OK);
    assert_true(tracked->stamp != stamp && tracked->stamp != 7);
    assert_int_equal(tt_feedback_find(it.control, 0, "bias", 0)->stamp, 0);
    lone_rank_destroy(&it);
}

static void test_what_is_loaded_is_committed(void **state)
{
    (void)state;
    size_t bytes;
    lone_rank it = make();
    tt_text text = {0};
    uint8_t *saved = save(it.control, &bytes);
    const double norm = tt_control_codec_norm(it.control);
    assert_int_equal(tt_control_codec_reset(it.control, 0, NULL, &text), TT_OK);
    assert_int_equal(tt_control_codec_load(it.control, saved, bytes, &text), TT_OK);
    tt_control_codec_undo(it.control);
    assert_true(tt_control_codec_norm(it.control) == norm);
    free(saved);
    lone_rank_destroy(&it);
}

static void test_too_little_room_is_not_written(void **state)
{
    (void)state;
    size_t bytes, needed = 0;
    lone_rank it = make();
    tt_text text = {0};
    uint8_t *saved = save(it.control, &bytes);
    memset(saved, 0x77, bytes);
    assert_int_equal(tt_control_codec_save(it.control, saved, bytes - 1, &needed, &text), TT_OK);
    assert_int_equal(needed, bytes);
    assert_int_equal(saved[0], 0x77);
    free(saved);
    lone_rank_destroy(&it);
}

static void test_calls_without_a_name_are_not_saved(void **state)
{
    (void)state;
    size_t bytes, more;
    lone_rank it = make();
    uint8_t *saved = save(it.control, &bytes);
    tt_feedback *declared = tt_feedback_of(it.control, 0, NULL, 12);
    assert_non_null(declared);
    fill(it.control, &declared->input, 9, 1.0f);
    free(saved);
    saved = save(it.control, &more);
    assert_int_equal(more, bytes);
    tt_control_codec_forget(it.control, 0, 12);
    assert_null(tt_feedback_find(it.control, 0, NULL, 12));
    free(saved);
    lone_rank_destroy(&it);
}

static void test_truncated_bytes_are_refused(void **state)
{
    (void)state;
    size_t bytes;
    lone_rank it = make(), other = lone_rank_create(2);
    uint8_t *saved = save(it.control, &bytes);
    for (size_t cut = 0; cut < bytes; cut++) {
        uint8_t *part = malloc(cut + 1);
        assert_non_null(part);
        memcpy(part, saved, cut);
        expect_refused(other.control, part, cut, "not the bytes of tutti_codec_save");
        if (cut >= HEAD_BYTES + sizeof(uint64_t)) { /* with a hash that fits */
            sign(part, cut);
            expect_refused(other.control, part, cut, "damaged");
        }
        free(part);
    }
    assert_int_equal(other.control->feedbacks.count, 0);
    expect_refused(other.control, NULL, 0, "not the bytes");
    free(saved);
    lone_rank_destroy(&it);
    lone_rank_destroy(&other);
}

static void test_one_wrong_bit_is_found(void **state)
{
    (void)state;
    size_t bytes;
    lone_rank it = make();
    uint8_t *saved = save(it.control, &bytes);
    for (size_t i = 0; i < bytes; i++) {
        saved[i] ^= 4;
        expect_refused(it.control, saved, bytes, "not the bytes of tutti_codec_save");
        saved[i] ^= 4;
    }
    free(saved);
    lone_rank_destroy(&it);
}

/* Lengths that a hash cannot vouch for. */
static void test_lengths_beyond_the_bytes_are_refused(void **state)
{
    static const uint64_t lengths[] = {8, 1000, UINT64_C(1) << 47, UINT64_C(1) << 62, UINT64_MAX};
    (void)state;
    size_t bytes;
    lone_rank it = make(), other = lone_rank_create(2);
    uint8_t *saved = save(it.control, &bytes);
    uint8_t *changed = malloc(bytes);
    assert_non_null(changed);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        for (size_t field = 0; field < 6; field++) { /* records, name, three lengths, form */
            static const size_t places[] = {RECORDS_AT,      HEAD_BYTES,      HEAD_BYTES + 16,
                                            HEAD_BYTES + 24, HEAD_BYTES + 32, HEAD_BYTES + 64};
            const size_t width = field == 1 ? sizeof(uint32_t) : sizeof(uint64_t);
            memcpy(changed, saved, bytes);
            memcpy(changed + places[field] + (field == 1 ? 4 : 0), &lengths[i], width);
            sign(changed, bytes);
            expect_refused(other.control, changed, bytes, "damaged");
        }
    }
    assert_int_equal(other.control->feedbacks.count, 0);
    free(changed);
    free(saved);
    lone_rank_destroy(&it);
    lone_rank_destroy(&other);
}

static void test_bytes_behind_the_records_are_refused(void **state)
{
    (void)state;
    size_t bytes;
    lone_rank it = make();
    uint8_t *saved = save(it.control, &bytes);
    uint8_t *longer = calloc(1, bytes + 8);
    assert_non_null(longer);
    memcpy(longer, saved, bytes - sizeof(uint64_t));
    sign(longer, bytes + 8);
    expect_refused(it.control, longer, bytes + 8, "damaged");
    free(longer);
    free(saved);
    lone_rank_destroy(&it);
}

static void test_state_of_another_rank_or_job_is_refused(void **state)
{
    (void)state;
    size_t bytes;
    lone_rank it = make(), three = lone_rank_create(3);
    uint8_t *saved = save(it.control, &bytes);
    const uint32_t rank = 1;
    expect_refused(three.control, saved, bytes, "the state is of 2 ranks, the job has 3");
    memcpy(saved + 12, &rank, sizeof(rank));
    sign(saved, bytes);
    expect_refused(it.control, saved, bytes, "the state is of rank 1, this is rank 0");
    free(saved);
    lone_rank_destroy(&it);
    lone_rank_destroy(&three);
}

static void test_state_of_another_length_is_refused_as_a_whole(void **state)
{
    (void)state;
    size_t bytes;
    lone_rank it = make(), other = lone_rank_create(2);
    uint8_t *saved = save(it.control, &bytes);
    (void)add(other.control, "weights", 8, 2.0f);
    const double norm = tt_control_codec_norm(other.control);
    expect_refused(other.control, saved, bytes, "has 7 elements, the tensor has 8");
    assert_true(tt_control_codec_norm(other.control) == norm);
    free(saved);
    lone_rank_destroy(&it);
    lone_rank_destroy(&other);
}

static void test_without_memory_nothing_is_loaded(void **state)
{
    (void)state;
    size_t bytes;
    lone_rank it = make();
    uint8_t *saved = save(it.control, &bytes);
    tt_status status = TT_ERR_NO_MEMORY;
    uint32_t failed = 0;
    for (uint64_t after = 1; status != TT_OK; after++) {
        lone_rank other = lone_rank_create(2);
        tt_text text = {0};
        tt_feedback *bias = add(other.control, "bias", 1, 9.0f);
        const double norm = tt_control_codec_norm(other.control);
        tt_sim_starve(other.sim, after, 0);
        status = tt_control_codec_load(other.control, saved, bytes, &text);
        assert_true(status == TT_OK || status == TT_ERR_NO_MEMORY);
        if (status != TT_OK) {
            assert_true(tt_control_codec_norm(other.control) == norm);
            assert_true(tt_kept_now(&bias->input)[0] == 9.0f);
            failed++;
        }
        lone_rank_destroy(&other);
        assert_true(after < 100);
    }
    assert_true(failed > 4);
    free(saved);
    lone_rank_destroy(&it);
}

/* ---- reset, unit, calls in flight ---- */

static void test_reset_forgets_one_or_all(void **state)
{
    (void)state;
    lone_rank it = make();
    tt_text text = {0};
    const tt_feedback *weights = tt_feedback_find(it.control, 0, "weights", 0);
    const tt_feedback *bias = tt_feedback_find(it.control, 0, "bias", 0);
    assert_int_equal(tt_control_codec_reset(it.control, 0, "unknown", &text), TT_OK);
    assert_int_equal(tt_control_codec_reset(it.control, 1, "bias", &text), TT_OK);
    assert_int_equal(bias->input.count, 1);
    assert_int_equal(tt_control_codec_reset(it.control, 0, "bias", &text), TT_OK);
    assert_int_equal(bias->input.count, 0);
    assert_int_equal(bias->occurrences, 0);
    assert_int_equal(weights->occurrences, 7);
    assert_int_equal(tt_control_codec_reset(it.control, 0, NULL, &text), TT_OK);
    assert_int_equal(tt_control_codec_bytes(it.control), 0);
    lone_rank_destroy(&it);
}

static void test_units_multiply_residuals(void **state)
{
    (void)state;
    lone_rank it = make();
    tt_text text = {0};
    const double norm = tt_control_codec_norm(it.control);
    assert_int_equal(tt_control_codec_unit(it.control, 8.0, &text), TT_OK);
    assert_true(tt_control_codec_norm(it.control) == 8.0 * norm);
    assert_int_equal(tt_control_codec_unit(it.control, 2.0, &text), TT_OK);
    assert_true(tt_control_codec_norm(it.control) == 2.0 * norm);
    assert_int_equal(tt_control_codec_unit(it.control, 0.0, &text), TT_ERR_BAD_ARGUMENT);
    assert_int_equal(tt_control_codec_unit(it.control, (double)INFINITY, &text),
                     TT_ERR_BAD_ARGUMENT);
    assert_int_equal(tt_control_codec_unit(it.control, -1.0, &text), TT_ERR_BAD_ARGUMENT);
    assert_true(tt_control_codec_norm(it.control) == 2.0 * norm);
    lone_rank_destroy(&it);
}

static void test_a_call_in_flight_is_named(void **state)
{
    (void)state;
    size_t bytes;
    lone_rank it = make();
    uint8_t *saved = save(it.control, &bytes);
    tt_feedback *bias = tt_feedback_find(it.control, 0, "bias", 0);
    bias->is_busy = true;
    expect_refused(it.control, saved, bytes, "a coded call of tensor \"bias\" is in flight");
    tt_text text = {0};
    assert_int_equal(tt_control_codec_reset(it.control, 0, NULL, &text), TT_ERR_BAD_ARGUMENT);
    assert_int_equal(tt_control_codec_unit(it.control, 2.0, &text), TT_ERR_BAD_ARGUMENT);
    tt_control_codec_undo(it.control);
    assert_true(bias->is_undone); /* what it leaves does not count */
    bias->is_busy = false;
    free(saved);
    lone_rank_destroy(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_was_saved_is_loaded),
        cmocka_unit_test(test_estimates_are_saved_with_their_stamp),
        cmocka_unit_test(test_stamps_follow_commit_undo_and_unit),
        cmocka_unit_test(test_what_is_loaded_is_committed),
        cmocka_unit_test(test_too_little_room_is_not_written),
        cmocka_unit_test(test_calls_without_a_name_are_not_saved),
        cmocka_unit_test(test_truncated_bytes_are_refused),
        cmocka_unit_test(test_one_wrong_bit_is_found),
        cmocka_unit_test(test_lengths_beyond_the_bytes_are_refused),
        cmocka_unit_test(test_bytes_behind_the_records_are_refused),
        cmocka_unit_test(test_state_of_another_rank_or_job_is_refused),
        cmocka_unit_test(test_state_of_another_length_is_refused_as_a_whole),
        cmocka_unit_test(test_without_memory_nothing_is_loaded),
        cmocka_unit_test(test_reset_forgets_one_or_all),
        cmocka_unit_test(test_units_multiply_residuals),
        cmocka_unit_test(test_a_call_in_flight_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
