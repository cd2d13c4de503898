/* SPDX-License-Identifier: Apache-2.0
 *
 * segment_test.c - a peer can map a segment; any other file is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "transport/shm/segment.h"

enum { MIB = 1024 * 1024 };

static const tt_segment_config CONFIG = {
    .local_index = 1, .local_count = 3, .ring_bytes = 4096, .arena_bytes = 4 * MIB};

static tt_segment *make_segment(void)
{
    tt_segment *segment = NULL;
    assert_int_equal(tt_segment_create(&CONFIG, &segment, NULL), TT_OK);
    return segment;
}

/* A copy of the segment's file, for the test to corrupt. */
static int copy_of(const tt_segment *segment, off_t extra_bytes, unsigned seals)
{
    uint8_t page[4096];
    const int descriptor = tt_segment_descriptor(segment);
    const int copy = memfd_create("copy", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(copy >= 0);
    assert_int_equal(pread(descriptor, page, sizeof page, 0), sizeof page);
    assert_int_equal(ftruncate(copy, lseek(descriptor, 0, SEEK_END) + extra_bytes), 0);
    assert_int_equal(pwrite(copy, page, sizeof page, 0), sizeof page);
    assert_int_equal(fcntl(copy, F_ADD_SEALS, seals), 0);
    return copy;
}

static void test_an_attached_segment_shows_the_owners_memory(void **state)
{
    (void)state;
    tt_segment *own = make_segment();
    tt_segment *attached = NULL;
    assert_int_equal(tt_segment_attach(tt_segment_descriptor(own), &CONFIG, &attached, NULL),
                     TT_OK);
    void *memory = NULL;
    uint64_t offset = 0;
    assert_int_equal(tt_arena_allocate(tt_segment_arena(own), 100, &memory, NULL), TT_OK);
    assert_true(tt_arena_locate(tt_segment_arena(own), memory, 100, &offset));
    strcpy(memory, "tensor");
    assert_string_equal(tt_segment_view(attached, offset, 100), "tensor");
    assert_ptr_not_equal(tt_segment_view(attached, offset, 100), memory);
    atomic_store(tt_segment_wake_word(own), TT_WAKE_ASLEEP);
    assert_int_equal(atomic_load(tt_segment_wake_word(attached)), TT_WAKE_ASLEEP);
    assert_int_equal(tt_segment_descriptor(attached), -1);
    assert_null(tt_segment_arena(attached));
    tt_segment_release(own);
    assert_string_equal(tt_segment_view(attached, offset, 100), "tensor");
    tt_segment_release(attached);
}

static void refuse(int descriptor, const tt_segment_config *expected, const char *reason)
{
    tt_segment *attached = NULL;
    char why[TT_SEGMENT_WHY_BYTES] = "";
    assert_int_equal(tt_segment_attach(descriptor, expected, &attached, why), TT_ERR_BAD_WIRE);
    assert_non_null(strstr(why, reason));
    assert_null(attached);
}

static void test_a_file_that_is_no_segment_of_this_host_is_refused(void **state)
{
    (void)state;
    tt_segment *own = make_segment();
    const unsigned sealed = F_SEAL_SHRINK | F_SEAL_GROW;
    const int good = copy_of(own, 0, sealed);
    const int unsealed = copy_of(own, 0, F_SEAL_GROW);
    const int longer = copy_of(own, 4096, sealed);
    const int shorter = copy_of(own, -4096, sealed);
    const int zero = open("/dev/zero", O_RDWR | O_CLOEXEC);
    tt_segment_config other = CONFIG;
    other.local_index = 2;
    refuse(good, &other, "does not fit");
    other = CONFIG;
    other.local_count = 4;
    refuse(good, &other, "does not fit");
    refuse(unsealed, &CONFIG, "sealed");
    refuse(zero, &CONFIG, "sealed");
    refuse(longer, &CONFIG, "size");
    refuse(shorter, &CONFIG, "size");
    const uint32_t ring_bytes = 4095;
    assert_int_equal(pwrite(good, &ring_bytes, 4, 20), 4);
    refuse(good, &CONFIG, "does not fit");
    assert_int_equal(pwrite(good, "x", 1, 0), 1);
    refuse(good, &CONFIG, "header");
    close(good);
    close(unsealed);
    close(longer);
    close(shorter);
    close(zero);
    tt_segment_release(own);
}

static void test_the_file_cannot_change_its_size(void **state)
{
    (void)state;
    tt_segment *own = make_segment();
    assert_int_not_equal(ftruncate(tt_segment_descriptor(own), 0), 0);
    assert_int_not_equal(ftruncate(tt_segment_descriptor(own), 1 << 30), 0);
    assert_int_equal(fcntl(tt_segment_descriptor(own), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    tt_segment_release(own);
}

static void test_sizes_out_of_range_are_refused(void **state)
{
    (void)state;
    tt_segment *segment = NULL;
    char why[TT_SEGMENT_WHY_BYTES] = "";
    tt_segment_config bad = CONFIG;
    bad.ring_bytes = 3000;
    assert_int_equal(tt_segment_create(&bad, &segment, why), TT_ERR_BAD_ARGUMENT);
    bad = CONFIG;
    bad.local_index = 3;
    assert_int_equal(tt_segment_create(&bad, &segment, why), TT_ERR_BAD_ARGUMENT);
    assert_non_null(strstr(why, "shared segment"));
}

static void test_a_forked_child_cannot_write_the_parents_memory(void **state)
{
    (void)state;
    tt_segment *own = make_segment();
    void *memory = NULL;
    assert_int_equal(tt_arena_allocate(tt_segment_arena(own), 4096, &memory, NULL), TT_OK);
    strcpy(memory, "parent");
    const pid_t child = fork();
    if (child == 0) {
        tt_segment_child_after_fork(own);
        const bool readable = strcmp(memory, "parent") == 0;
        /* Even made writable again, the pages are the child's own copies. */
        if (!readable || mprotect(memory, 4096, PROT_READ | PROT_WRITE) != 0) {
            _exit(1);
        }
        strcpy(memory, "child");
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_string_equal(memory, "parent");
    tt_segment_release(own);
}

static bool is_mapped(void *memory)
{
    unsigned char page;
    return mincore(memory, 4096, &page) == 0;
}

/* Another thread unmaps much memory a little later; little memory is unmapped at once. */
static void test_released_segments_are_unmapped(void **state)
{
    (void)state;
    for (size_t used = 20 * MIB; used > 0; used = used > MIB ? MIB : 0) {
        tt_segment_config config = CONFIG;
        tt_segment *segments[3] = {NULL};
        void *memory = NULL, *control[2];
        config.arena_bytes = 32 * MIB;
        assert_int_equal(tt_segment_create(&config, &segments[0], NULL), TT_OK);
        assert_int_equal(
            tt_segment_attach(tt_segment_descriptor(segments[0]), &config, &segments[2], NULL),
            TT_OK);
        assert_int_equal(tt_arena_allocate(tt_segment_arena(segments[0]), used, &memory, NULL),
                         TT_OK);
        control[0] = tt_segment_ring(segments[0], 0);
        control[1] = tt_segment_ring(segments[2], 0);
        tt_segment *held = tt_segment_retain(segments[0]);
        tt_segment_release_all(segments, 3);
        assert_true(is_mapped(control[0]));
        segments[0] = held;
        segments[2] = NULL;
        tt_segment_release_all(segments, 3);
        for (int i = 0; i < 2; i++) {
            while (used > MIB && is_mapped(control[i])) {
                (void)sched_yield();
            }
            assert_false(is_mapped(control[i]));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_attached_segment_shows_the_owners_memory),
        cmocka_unit_test(test_a_file_that_is_no_segment_of_this_host_is_refused),
        cmocka_unit_test(test_the_file_cannot_change_its_size),
        cmocka_unit_test(test_sizes_out_of_range_are_refused),
        cmocka_unit_test(test_a_forked_child_cannot_write_the_parents_memory),
        cmocka_unit_test(test_released_segments_are_unmapped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
