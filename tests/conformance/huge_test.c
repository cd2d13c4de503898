/* SPDX-License-Identifier: Apache-2.0
 *
 * huge_test.c - counts beyond 2^31 elements: no index, offset or length is kept in 32 bits.
 *
 * Labels: check
 * Timeout: 300
 * Serial: yes
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "conformance/ranks.h"

static const uint64_t count = (UINT64_C(1) << 31) + 4099;

/* A value that differs between elements beyond 2^31 and those 2^31 or 2^32 before. */
static uint8_t value_at(uint64_t index, int rank)
{
    return (uint8_t)(index * 7 + (index >> 31) * 3 + (uint64_t)rank);
}

static void huge_body(ranks_self *self)
{
    uint8_t *values = tutti_alloc(self->context, count);
    assert_non_null(values);
    for (uint64_t i = 0; i < count; i++) {
        values[i] = value_at(i, self->rank);
    }
    assert_int_equal(TUTTI_OK,
                     tutti_allreduce(self->context, values, values, count, TUTTI_U8, TUTTI_SUM));
    for (uint64_t i = 0; i < count; i++) {
        if (values[i] != (uint8_t)(value_at(i, 0) + value_at(i, 1))) {
            fail_msg("element %llu is wrong", (unsigned long long)i);
        }
    }
    memset(values, self->rank == 1 ? 9 : 0, count);
    values[count - 1] = self->rank == 1 ? 77 : 0;
    assert_int_equal(TUTTI_OK, tutti_broadcast(self->context, values, count, TUTTI_U8, 1));
    assert_int_equal(77, values[count - 1]);
    assert_int_equal(9, values[count - 2]);
    assert_int_equal(9, values[UINT32_MAX / 2]);
    tutti_free(self->context, values);
}

static void test_counts_beyond_two_to_the_31(void **state)
{
    (void)state;
    ranks_run(2, "shm", huge_body, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_counts_beyond_two_to_the_31)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
