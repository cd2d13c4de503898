/* SPDX-License-Identifier: Apache-2.0
 *
 * event_queue_test.c - events come out in the order of their times, from all parts of the queue.
 *
 * Method: random times at all distances, beside a plain search for the least. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/philox.h"
#include "sim/sim.h"

enum { EVENTS = 4000, SPAN_NS = TT_EVENT_BUCKETS * TT_EVENT_BUCKET_NS };

static void test_events_come_in_the_order_of_their_times(void **state)
{
    (void)state;
    const uint64_t spans[] = {20, 3000, SPAN_NS, UINT64_C(20) * SPAN_NS};
    tt_random random;
    tt_random_init(&random, 1, 2);
    for (uint32_t i = 0; i < TT_ARRAY_COUNT(spans); i++) {
        tt_event_queue queue;
        tt_event_queue_init(&queue, &tt_allocator_default);
        uint64_t now_ns = 0, popped = 0;
        tt_event event;
        for (uint32_t k = 0; k < EVENTS; k++) {
            for (uint32_t burst = 0; burst < 2; burst++) {
                event = (tt_event){.at_ns = now_ns + tt_random_below(&random, spans[i])};
                tt_event_queue_push(&queue, event);
            }
            assert_true(tt_event_queue_pop(&queue, &event));
            assert_true(event.at_ns >= now_ns);
            now_ns = event.at_ns;
            popped++;
        }
        for (; tt_event_queue_pop(&queue, &event); popped++) {
            assert_true(event.at_ns >= now_ns);
            now_ns = event.at_ns;
        }
        assert_int_equal(2 * EVENTS, popped);
        assert_false(queue.has_failed);
        tt_event_queue_fini(&queue);
    }
}

static void test_an_event_without_memory_is_reported(void **state)
{
    (void)state;
    tt_counting_allocator counter = {.fail_at = 3, .fail_forever = true};
    const tt_allocator allocator = tt_counting_allocator_borrow(&counter);
    tt_event_queue queue;
    tt_event_queue_init(&queue, &allocator);
    for (uint64_t i = 0; i < 2 * EVENTS; i++) {
        tt_event_queue_push(&queue, (tt_event){.at_ns = i * SPAN_NS});
    }
    assert_true(queue.has_failed);
    tt_event_queue_fini(&queue);
    assert_int_equal(0, counter.live_bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_events_come_in_the_order_of_their_times),
        cmocka_unit_test(test_an_event_without_memory_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
