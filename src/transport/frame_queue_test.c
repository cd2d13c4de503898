/* SPDX-License-Identifier: Apache-2.0
 *
 * frame_queue_test.c - the heap against a plain search over an array.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "transport/frame_queue.h"

enum { FRAME_COUNT = 300 };

typedef struct entry {
    int32_t urgency;
    uint64_t age;
    bool waits;
} entry;

static bool goes_before(const entry *one, const entry *other)
{
    return one->urgency != other->urgency ? one->urgency > other->urgency : one->age < other->age;
}

/* Index, and thereby token and turn, of the frame that must be sent next. */
static int expected_next(const entry *entries, int count)
{
    int best = -1;
    for (int i = 0; i < count; i++) {
        if (entries[i].waits && (best < 0 || goes_before(&entries[i], &entries[best]))) {
            best = i;
        }
    }
    return best;
}

static void test_random_pushes_pops_and_removes_match_a_plain_search(void **state)
{
    (void)state;
    entry entries[FRAME_COUNT] = {{0}};
    tt_frame_queue queue = {0};
    uint32_t seed = 3;
    int count = 0;
    while (count < FRAME_COUNT || queue.count > 0) {
        seed = seed * 1664525 + 1013904223;
        const uint32_t choice = (seed >> 8) % 8;
        if (choice < 4 && count < FRAME_COUNT) {
            const tt_head head = {.op = (uint64_t)count};
            const tt_send send = {.urgency = (int32_t)(seed >> 29) - 4,
                                  .age = (seed >> 24) % 4,
                                  .token = (uint64_t)count,
                                  .head = &head};
            assert_int_equal(tt_frame_queue_push(&queue, &send), TT_OK);
            entries[count++] = (entry){.urgency = send.urgency, .age = send.age, .waits = true};
        } else if (choice == 4 && count > 0) {
            const int chosen = (int)((seed >> 12) % (uint32_t)count);
            assert_int_equal(tt_frame_queue_remove(&queue, (uint64_t)chosen),
                             entries[chosen].waits);
            entries[chosen].waits = false;
        } else if (choice > 5) {
            const int next = expected_next(entries, count);
            tt_queued_frame frame;
            assert_int_equal(tt_frame_queue_pop(&queue, &frame), next >= 0);
            if (next >= 0) {
                assert_int_equal(frame.token, next);
                assert_int_equal(frame.head.op, next);
                entries[next].waits = false;
            }
        }
    }
    assert_null(tt_frame_queue_top(&queue));
    tt_frame_queue_fini(&queue);
}

static void test_a_full_queue_refuses_and_keeps_what_it_has(void **state)
{
    (void)state;
    tt_frame_queue queue = {0};
    const tt_head head = {0};
    const tt_send send = {.head = &head};
    for (int i = 0; i < TT_FRAME_QUEUE_MAX; i++) {
        assert_int_equal(tt_frame_queue_push(&queue, &send), TT_OK);
    }
    assert_int_equal(tt_frame_queue_push(&queue, &send), TT_ERR_NO_RESOURCE);
    assert_int_equal(queue.count, TT_FRAME_QUEUE_MAX);
    tt_frame_queue_fini(&queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_pushes_pops_and_removes_match_a_plain_search),
        cmocka_unit_test(test_a_full_queue_refuses_and_keeps_what_it_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
