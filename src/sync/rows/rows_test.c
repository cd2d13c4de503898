/* SPDX-License-Identifier: Apache-2.0
 *
 * rows_test.c - rows are spread over a part and gathered from it as plain loops do it.
 *
 * Parts, rows and choices are drawn; the plain loops write each element by itself. What arrives in
 * frames is tested in tests/store/rows_test.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/philox.h"
#include "sync/rows/rows.h"

enum { ROWS_MAX = 50, ROW_BYTES_MAX = 24, RUNS = 2000, GUARD = 0xa5 };

typedef struct draw {
    tt_rows_part part;
    uint64_t numbers[ROWS_MAX];
    uint64_t count;
} draw;

static draw drawn(tt_random *random)
{
    draw made = {.part = {.first = tt_random_below(random, 1000),
                          .count = tt_random_below(random, ROWS_MAX + 1),
                          .row_bytes = 2 + tt_random_below(random, ROW_BYTES_MAX - 1)}};
    const uint64_t density = 1 + tt_random_below(random, 6);
    for (uint64_t row = 0; row < made.part.count; row++) {
        if (tt_random_below(random, density) == 0) {
            made.numbers[made.count++] = made.part.first + row;
        }
    }
    return made;
}

static void fill(tt_random *random, uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        bytes[i] = (uint8_t)tt_random_below(random, 256);
    }
}

static void test_spread_equals_its_plain_twin(void **state)
{
    tt_random random;
    uint8_t values[ROWS_MAX * ROW_BYTES_MAX + 1], wanted[sizeof(values)];
    (void)state;
    tt_random_init(&random, 1, 1);
    for (int run = 0; run < RUNS; run++) {
        const draw one = drawn(&random);
        const uint64_t row_bytes = one.part.row_bytes, bytes = one.part.count * row_bytes;
        fill(&random, values, bytes); /* behind the rows is what an earlier push has left */
        values[bytes] = GUARD;
        memset(wanted, 0, bytes);
        for (uint64_t i = 0; i < one.count; i++) {
            for (uint64_t k = 0; k < row_bytes; k++) {
                wanted[(one.numbers[i] - one.part.first) * row_bytes + k] =
                    values[i * row_bytes + k];
            }
        }
        assert_true(tt_rows_are_of(&one.part, one.numbers, one.count));
        tt_rows_spread(&one.part, one.numbers, one.count, values);
        assert_memory_equal(values, wanted, bytes);
        assert_int_equal(values[bytes], GUARD);
    }
}

static void test_gather_takes_back_what_was_spread(void **state)
{
    tt_random random;
    uint8_t values[ROWS_MAX * ROW_BYTES_MAX + 1], rows[sizeof(values)], gathered[sizeof(values)];
    (void)state;
    tt_random_init(&random, 2, 1);
    for (int run = 0; run < RUNS; run++) {
        const draw one = drawn(&random);
        const uint64_t bytes = one.count * one.part.row_bytes;
        fill(&random, values, sizeof(values));
        memcpy(rows, values, sizeof(rows));
        memset(gathered, GUARD, sizeof(gathered));
        tt_rows_spread(&one.part, one.numbers, one.count, values);
        tt_rows_gather(&one.part, one.numbers, one.count, values, gathered);
        assert_memory_equal(gathered, rows, bytes);
        assert_int_equal(gathered[bytes], GUARD);
    }
}

static void test_numbers_that_no_worker_sends(void **state)
{
    const tt_rows_part part = {.first = 10, .count = 5, .row_bytes = 4};
    static const struct {
        uint64_t numbers[2];
        uint64_t count;
        bool are;
    } cases[] = {
        {{0}, 0, true},           {{10}, 1, true},     {{14}, 1, true},      {{10, 14}, 2, true},
        {{9}, 1, false},          {{15}, 1, false},    {{11, 11}, 2, false}, {{12, 11}, 2, false},
        {{UINT64_MAX}, 1, false}, {{0, 11}, 2, false}, {{11, 15}, 2, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        assert_int_equal(tt_rows_are_of(&part, cases[i].numbers, cases[i].count), cases[i].are);
    }
}

/* Whatever the row and the number of owners, parts begin at rows and their frames are not too long.
 */
static void test_parts_begin_at_rows(void **state)
{
    static const uint32_t lengths[] = {1, 3, 63, 64, 1000, 65536};
    static tt_split_part parts[1 << 16];
    (void)state;
    for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
        for (uint32_t servers = 0; servers < 5; servers++) {
            const tt_sync_claim claim = {
                .count = lengths[i] * UINT64_C(1001), .dtype = TT_F32, .row_elements = lengths[i]};
            const uint64_t row_bytes = tt_rows_bytes(&claim);
            const tt_split whole = tt_split_make(4, servers);
            const tt_split split = tt_rows_split(&whole, &claim);
            const uint32_t count = tt_split_cut(&split, 7, claim.count * 4, parts, 1 << 16);
            uint64_t bytes = 0;
            assert_true(tt_rows_is_claim(&claim));
            for (uint32_t k = 0; k < count; k++) {
                assert_int_equal(parts[k].first % row_bytes, 0);
                assert_int_equal(parts[k].bytes % row_bytes, 0);
                assert_true(parts[k].bytes <= TT_PAYLOAD_BYTES_MAX);
                assert_true(parts[k].bytes / row_bytes * 8 <= TT_PAYLOAD_BYTES_MAX);
                bytes += parts[k].bytes;
            }
            assert_int_equal(bytes, claim.count * 4);
        }
    }
}

static void test_claims_that_no_worker_makes(void **state)
{
    (void)state;
    assert_true(tt_rows_is_claim(&(tt_sync_claim){.dtype = TT_U8, .count = 7}));
    assert_true(tt_rows_is_claim(&(tt_sync_claim){.dtype = TT_F32, .row_elements = 3}));
    assert_false(
        tt_rows_is_claim(&(tt_sync_claim){.dtype = TT_F32, .count = 7, .row_elements = 3}));
    assert_false(tt_rows_is_claim(&(tt_sync_claim){.dtype = TT_U8, .count = 7, .row_elements = 1}));
    assert_false(tt_rows_is_claim(&(tt_sync_claim){.dtype = TT_F32, .row_elements = 65537}));
    assert_false(tt_rows_is_claim(&(tt_sync_claim){.dtype = TT_F64, .row_elements = UINT32_MAX}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spread_equals_its_plain_twin),
        cmocka_unit_test(test_gather_takes_back_what_was_spread),
        cmocka_unit_test(test_numbers_that_no_worker_sends),
        cmocka_unit_test(test_parts_begin_at_rows),
        cmocka_unit_test(test_claims_that_no_worker_makes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
