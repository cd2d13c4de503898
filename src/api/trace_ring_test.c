/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_ring_test.c - records are read whole and in order, across the end of the memory and after
 * the ring was full. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "api/trace_ring.h"

enum { SMALL_BYTES = 256, RECORDS = 200000 };

/* Record n has a length and bytes that follow from n. */
static size_t length_of(uint32_t n)
{
    return 4 + n * 2654435761u % 61;
}

static bool put(tt_trace_ring *ring, uint32_t n)
{
    const size_t bytes = length_of(n);
    uint8_t *record = tt_trace_ring_claim(ring, bytes);
    if (record == NULL) {
        return false;
    }
    memset(record, (int)(n & 0xff), bytes);
    memcpy(record, &n, sizeof(n));
    tt_trace_ring_commit(ring, bytes);
    return true;
}

static void check_next(tt_trace_ring *ring, uint32_t n)
{
    const uint8_t *record = tt_trace_ring_peek(ring);
    uint32_t number;
    assert_non_null(record);
    memcpy(&number, record, sizeof(number));
    assert_int_equal(number, n);
    for (size_t i = sizeof(n); i < length_of(n); i++) {
        assert_int_equal(record[i], n & 0xff);
    }
    tt_trace_ring_pop(ring);
}

static void test_a_full_ring_refuses_and_loses_nothing(void **state)
{
    (void)state;
    tt_trace_ring ring;
    assert_true(tt_trace_ring_init(&ring, SMALL_BYTES));
    uint32_t in = 0, out = 0;
    for (int turn = 0; turn < 1000; turn++) {
        while (put(&ring, in)) {
            in++;
        }
        assert_true(in - out >= 2);
        for (int i = 0; i < 1 + turn % 3 && out < in; i++) {
            check_next(&ring, out++);
        }
    }
    while (out < in) {
        check_next(&ring, out++);
    }
    assert_null(tt_trace_ring_peek(&ring));
    assert_true(tt_trace_ring_is_empty(&ring));
    tt_trace_ring_fini(&ring);
}

static void test_a_record_longer_than_the_ring_is_refused(void **state)
{
    (void)state;
    tt_trace_ring ring;
    assert_true(tt_trace_ring_init(&ring, SMALL_BYTES));
    assert_null(tt_trace_ring_claim(&ring, SMALL_BYTES));
    assert_null(tt_trace_ring_claim(&ring, SIZE_MAX / 2));
    assert_non_null(tt_trace_ring_claim(&ring, SMALL_BYTES - 8));
    tt_trace_ring_fini(&ring);
}

static void *produce(void *argument)
{
    for (uint32_t n = 0; n < RECORDS;) {
        n += put(argument, n) ? 1 : 0;
    }
    return NULL;
}

static void test_two_threads_pass_every_record(void **state)
{
    (void)state;
    tt_trace_ring ring;
    pthread_t producer;
    assert_true(tt_trace_ring_init(&ring, 4 * SMALL_BYTES));
    assert_int_equal(pthread_create(&producer, NULL, produce, &ring), 0);
    for (uint32_t n = 0; n < RECORDS;) {
        if (!tt_trace_ring_is_empty(&ring)) {
            check_next(&ring, n++);
        }
    }
    (void)pthread_join(producer, NULL);
    assert_true(tt_trace_ring_is_empty(&ring));
    tt_trace_ring_fini(&ring);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_full_ring_refuses_and_loses_nothing),
        cmocka_unit_test(test_a_record_longer_than_the_ring_is_refused),
        cmocka_unit_test(test_two_threads_pass_every_record),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
