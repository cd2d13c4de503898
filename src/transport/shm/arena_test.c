/* SPDX-License-Identifier: Apache-2.0
 *
 * arena_test.c - the heap against a model: random allocations, each filled with its own pattern,
 * so that overlap, loss, memory that is not zeroed and leaks are detected.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "transport/shm/arena.h"
#include "transport/shm/segment.h"

enum { MIB = 1024 * 1024, SLOT_COUNT = 40, ROUND_COUNT = 3000 };

static tt_segment *make_segment(uint64_t arena_bytes)
{
    const tt_segment_config config = {
        .local_count = 1, .ring_bytes = 1024, .arena_bytes = arena_bytes};
    tt_segment *segment = NULL;
    assert_int_equal(tt_segment_create(&config, &segment, NULL), TT_OK);
    return segment;
}

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525 + 1013904223;
    return *state >> 8;
}

typedef struct slot {
    uint8_t *memory;
    size_t bytes;
    uint8_t pattern;
} slot;

static size_t random_bytes(uint32_t *state)
{
    switch (next_random(state) % 4) {
    case 0:
        return 1 + next_random(state) % 200;
    case 1:
        return 1 + next_random(state) % 70000;
    case 2:
        return 1 + next_random(state) % (2 * MIB);
    default:
        return 4 * MIB + next_random(state) % MIB;
    }
}

static bool all_bytes_are(const slot *checked, uint8_t value)
{
    return checked->memory[0] == value &&
           memcmp(checked->memory, checked->memory + 1, checked->bytes - 1) == 0;
}

static void test_blocks_are_zeroed_aligned_and_never_overlap(void **state)
{
    (void)state;
    tt_segment *segment = make_segment(48 * MIB);
    tt_arena *arena = tt_segment_arena(segment);
    slot slots[SLOT_COUNT] = {0};
    uint32_t seed = 7;
    for (int round = 0; round < ROUND_COUNT / 4; round++) {
        slot *chosen = &slots[next_random(&seed) % SLOT_COUNT];
        if (chosen->memory != NULL) {
            assert_true(all_bytes_are(chosen, chosen->pattern));
            assert_int_equal(tt_arena_release(arena, chosen->memory), TT_OK);
            chosen->memory = NULL;
            continue;
        }
        chosen->bytes = random_bytes(&seed);
        void *memory = NULL;
        if (tt_arena_allocate(arena, chosen->bytes, &memory, NULL) != TT_OK) {
            continue;
        }
        chosen->memory = memory;
        assert_int_equal((uintptr_t)memory % (chosen->bytes >= 4 * MIB ? 2 * MIB : 64), 0);
        assert_true(all_bytes_are(chosen, 0));
        chosen->pattern = (uint8_t)(1 + round % 255);
        memset(memory, chosen->pattern, chosen->bytes);
    }
    for (int i = 0; i < SLOT_COUNT; i++) {
        if (slots[i].memory != NULL) {
            assert_true(all_bytes_are(&slots[i], slots[i].pattern));
            assert_int_equal(tt_arena_release(arena, slots[i].memory), TT_OK);
        }
    }
    assert_int_equal(tt_arena_bytes_used(arena), 0);
    void *whole = NULL;
    assert_int_equal(tt_arena_allocate(arena, 48 * MIB, &whole, NULL), TT_OK);
    tt_segment_release(segment);
}

static void test_the_error_of_a_full_arena_names_it_and_it_stays_usable(void **state)
{
    (void)state;
    tt_segment *segment = make_segment(4 * MIB);
    tt_arena *arena = tt_segment_arena(segment);
    void *first = NULL;
    void *second = NULL;
    char why[TT_ARENA_WHY_BYTES] = "";
    assert_int_equal(tt_arena_allocate(arena, 3 * MIB, &first, NULL), TT_OK);
    assert_int_equal(tt_arena_allocate(arena, 2 * MIB, &second, why), TT_ERR_NO_MEMORY);
    assert_non_null(strstr(why, "shared arena"));
    assert_int_equal(tt_arena_allocate(arena, 5 * MIB, &second, why), TT_ERR_NO_MEMORY);
    assert_int_equal(tt_arena_allocate(arena, 0, &second, why), TT_ERR_BAD_ARGUMENT);
    assert_int_equal(tt_arena_allocate(arena, SIZE_MAX, &second, why), TT_ERR_NO_MEMORY);
    assert_null(second);
    assert_int_equal(tt_arena_release(arena, first), TT_OK);
    assert_int_equal(tt_arena_allocate(arena, 4 * MIB, &second, NULL), TT_OK);
    tt_segment_release(segment);
}

static void test_more_than_the_host_has_is_an_error_and_no_signal(void **state)
{
    (void)state;
    tt_segment *segment = make_segment(UINT64_C(1) << 43);
    tt_arena *arena = tt_segment_arena(segment);
    char why[TT_ARENA_WHY_BYTES] = "";
    void *memory = NULL;
    const size_t bytes = (size_t)tt_segment_facts(segment)->arena_bytes;
    assert_int_equal(tt_arena_allocate(arena, bytes, &memory, why), TT_ERR_NO_MEMORY);
    assert_non_null(strstr(why, "host"));
    assert_int_equal(tt_arena_allocate(arena, 100, &memory, why), TT_OK);
    tt_segment_release(segment);
}

static void test_memory_that_was_never_allocated_cannot_be_released(void **state)
{
    (void)state;
    tt_segment *segment = make_segment(4 * MIB);
    tt_arena *arena = tt_segment_arena(segment);
    void *memory = NULL;
    assert_int_equal(tt_arena_allocate(arena, 1000, &memory, NULL), TT_OK);
    assert_int_equal(tt_arena_release(arena, (uint8_t *)memory + 64), TT_ERR_BAD_ARGUMENT);
    assert_int_equal(tt_arena_release(arena, &memory), TT_ERR_BAD_ARGUMENT);
    assert_int_equal(tt_arena_release(arena, NULL), TT_ERR_BAD_ARGUMENT);
    assert_int_equal(tt_arena_release(arena, memory), TT_OK);
    assert_int_equal(tt_arena_release(arena, memory), TT_ERR_BAD_ARGUMENT);
    tt_segment_release(segment);
}

static void test_release_gives_pages_back(void **state)
{
    (void)state;
    tt_segment *segment = make_segment(16 * MIB);
    tt_arena *arena = tt_segment_arena(segment);
    struct stat before;
    struct stat between;
    struct stat after;
    void *memory = NULL;
    assert_int_equal(fstat(tt_segment_descriptor(segment), &before), 0);
    assert_int_equal(tt_arena_allocate(arena, 8 * MIB, &memory, NULL), TT_OK);
    assert_int_equal(fstat(tt_segment_descriptor(segment), &between), 0);
    assert_int_equal(tt_arena_release(arena, memory), TT_OK);
    assert_int_equal(fstat(tt_segment_descriptor(segment), &after), 0);
    assert_true(between.st_blocks >= before.st_blocks + 8 * MIB / 512);
    assert_int_equal(after.st_blocks, before.st_blocks);
    tt_segment_release(segment);
}

static void test_locate_and_view_agree_and_refuse_memory_outside(void **state)
{
    (void)state;
    tt_segment *segment = make_segment(4 * MIB);
    tt_arena *arena = tt_segment_arena(segment);
    void *memory = NULL;
    uint64_t offset = 0;
    assert_int_equal(tt_arena_allocate(arena, 1000, &memory, NULL), TT_OK);
    assert_true(tt_arena_locate(arena, (uint8_t *)memory + 10, 990, &offset));
    assert_ptr_equal(tt_segment_view(segment, offset, 990), (uint8_t *)memory + 10);
    assert_false(tt_arena_locate(arena, &offset, sizeof offset, &offset));
    assert_false(tt_arena_locate(arena, memory, 5 * MIB, &offset));
    assert_false(tt_arena_locate(arena, memory, SIZE_MAX, &offset));
    assert_non_null(tt_segment_view(segment, 0, 4 * MIB));
    assert_null(tt_segment_view(segment, 1, 4 * MIB));
    assert_null(tt_segment_view(segment, UINT64_MAX, 2));
    assert_null(tt_segment_view(segment, 4 * MIB + 1, 0));
    assert_null(tt_segment_view(segment, 8, SIZE_MAX));
    tt_segment_release(segment);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_are_zeroed_aligned_and_never_overlap),
        cmocka_unit_test(test_the_error_of_a_full_arena_names_it_and_it_stays_usable),
        cmocka_unit_test(test_more_than_the_host_has_is_an_error_and_no_signal),
        cmocka_unit_test(test_memory_that_was_never_allocated_cannot_be_released),
        cmocka_unit_test(test_release_gives_pages_back),
        cmocka_unit_test(test_locate_and_view_agree_and_refuse_memory_outside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
