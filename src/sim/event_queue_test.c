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

/* Many events of few times, pushed ahead at every distance: buckets, heap and both. */
static void test_equal_times_come_in_the_order_of_insertion(void **state)
{
    (void)state;
    tt_event_queue queue;
    tt_event_queue_init(&queue, &tt_allocator_default);
    tt_random random;
    tt_random_init(&random, 3, 4);
    uint32_t pushed = 0, popped = 0;
    tt_event event, before = {.at_ns = 0};
    for (uint32_t k = 0; k < EVENTS; k++) {
        for (uint32_t i = 0; i < 3; i++) {
            const uint64_t step_ns = SPAN_NS / 4; /* times meet again and again */
            const uint64_t at_ns =
                (before.at_ns / step_ns + 1 + tt_random_below(&random, 12)) * step_ns + i;
            tt_event_queue_push(&queue, (tt_event){.at_ns = at_ns, .what = pushed++});
        }
        assert_true(tt_event_queue_pop(&queue, &event));
        assert_true(event.at_ns > before.at_ns || event.what > before.what || popped == 0);
        before = event;
        popped++;
    }
    for (; tt_event_queue_pop(&queue, &event); popped++) {
        assert_true(event.at_ns > before.at_ns ||
                    (event.at_ns == before.at_ns && event.what > before.what));
        before = event;
    }
    assert_int_equal(pushed, popped);
    tt_event_queue_fini(&queue);
}

static void test_memory_follows_the_events_held_not_those_passed(void **state)
{
    (void)state;
    tt_event_queue queue;
    tt_event_queue_init(&queue, &tt_allocator_default);
    tt_event event;
    for (uint32_t i = 0; i < 16; i++) {
        tt_event_queue_push(&queue, (tt_event){.at_ns = i});
    }
    for (uint32_t i = 0; i < 100000; i++) {
        assert_true(tt_event_queue_pop(&queue, &event));
        tt_event_queue_push(&queue, (tt_event){.at_ns = event.at_ns + 40});
    }
    assert_true(queue.next_capacity <= 1024);
    tt_event_queue_fini(&queue);
}

/* As on a network where nothing takes time: no bucket is ever empty. */
static void test_memory_is_bounded_where_time_hardly_passes(void **state)
{
    (void)state;
    tt_event_queue queue;
    tt_event_queue_init(&queue, &tt_allocator_default);
    tt_event event;
    uint64_t now_ns = 0;
    for (uint32_t i = 0; i < 100; i++) {
        tt_event_queue_push(&queue, (tt_event){.at_ns = i % 2});
    }
    for (uint32_t i = 0; i < 300000; i++) {
        assert_true(tt_event_queue_pop(&queue, &event));
        assert_true(event.at_ns >= now_ns);
        now_ns = event.at_ns;
        tt_event_queue_push(&queue, (tt_event){.at_ns = now_ns + (i % 1000 == 0 ? 1 : 0)});
    }
    assert_int_equal(1024, queue.next_capacity);
    tt_event_queue_fini(&queue);
}

static void test_events_close_to_the_end_of_time_are_kept(void **state)
{
    (void)state;
    tt_event_queue queue;
    tt_event_queue_init(&queue, &tt_allocator_default);
    tt_event event;
    uint64_t now_ns = 0;
    uint32_t popped = 0;
    for (uint64_t i = 0; i < 100; i++) {
        tt_event_queue_push(&queue, (tt_event){.at_ns = UINT64_MAX - 100 - i * SPAN_NS / 64});
    }
    for (; tt_event_queue_pop(&queue, &event); popped++) {
        assert_true(event.at_ns > now_ns);
        now_ns = event.at_ns;
    }
    assert_int_equal(100, popped);
    tt_event_queue_fini(&queue);
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
        cmocka_unit_test(test_equal_times_come_in_the_order_of_insertion),
        cmocka_unit_test(test_memory_follows_the_events_held_not_those_passed),
        cmocka_unit_test(test_memory_is_bounded_where_time_hardly_passes),
        cmocka_unit_test(test_events_close_to_the_end_of_time_are_kept),
        cmocka_unit_test(test_an_event_without_memory_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
