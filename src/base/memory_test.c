/* SPDX-License-Identifier: Apache-2.0
 *
 * Goal: the result is the least that the host, the process's control group and those above it
 * leave, wherever a container mounts them.
 * Method: trees of files as the kernel has them, below a folder of the test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

static int setup(void **state)
{
    char *root = malloc(64);
    assert_non_null(root);
    (void)snprintf(root, 64, "/tmp/tutti-memory-XXXXXX");
    assert_non_null(mkdtemp(root));
    *state = root;
    return 0;
}

static int delete_one(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    (void)status, (void)kind, (void)place;
    return remove(path);
}

static int teardown(void **state)
{
    (void)nftw(*state, delete_one, 8, FTW_DEPTH | FTW_PHYS);
    free(*state);
    return 0;
}

/* Makes the folders on the way, too. */
static void write_file(const char *root, const char *name, const char *text)
{
    char path[512];
    (void)snprintf(path, sizeof(path), "%s/%s", root, name);
    for (char *end = strchr(path + strlen(root) + 1, '/'); end != NULL;
         end = strchr(end + 1, '/')) {
        *end = '\0';
        (void)mkdir(path, 0700);
        *end = '/';
    }
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void test_the_host_alone(void **state)
{
    const char *root = *state;
    assert_int_equal(tt_memory_available_below(root), UINT64_MAX);
    write_file(root, "proc/meminfo", "MemTotal: 100 kB\nMemAvailable:      70 kB\n");
    assert_int_equal(tt_memory_available_below(root), 70 * 1024);
}

static void test_a_group_of_version_2_and_those_above(void **state)
{
    const char *root = *state;
    write_file(root, "proc/self/cgroup", "0::/job/step\n");
    write_file(root, "sys/fs/cgroup/job/step/memory.max", "max\n");
    write_file(root, "sys/fs/cgroup/job/step/memory.current", "1000\n");
    assert_int_equal(tt_memory_available_below(root), UINT64_MAX);
    write_file(root, "sys/fs/cgroup/job/memory.max", "5000\n");
    write_file(root, "sys/fs/cgroup/job/memory.current", "2000\n");
    write_file(root, "sys/fs/cgroup/job/memory.stat", "anon 5\ninactive_file 500\n");
    assert_int_equal(tt_memory_available_below(root), 3500);
    write_file(root, "sys/fs/cgroup/job/step/memory.max", "1200\n");
    assert_int_equal(tt_memory_available_below(root), 200);
    write_file(root, "sys/fs/cgroup/job/step/memory.current", "1300\n");
    assert_int_equal(tt_memory_available_below(root), 0);
}

/* Its group is mounted as the root, but has the host's name. */
static void test_a_container_of_version_1(void **state)
{
    const char *root = *state;
    write_file(root, "proc/self/cgroup", "5:cpu,cpuacct:/docker/ab\n4:memory:/docker/ab\n0::/\n");
    write_file(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9000\n");
    write_file(root, "sys/fs/cgroup/memory/memory.usage_in_bytes", "2000\n");
    assert_int_equal(tt_memory_available_below(root), 7000);
}

static void test_a_piece_is_the_whole_or_a_small_part_of_available_memory(void **state)
{
    (void)state;
    uint64_t available = 0;
    assert_int_equal(tt_memory_next_piece(UINT64_MAX - 1, &available), 0);
    assert_true(available > 0);
    assert_int_equal(tt_memory_next_piece(4096, &available), 4096);
    const uint64_t most = available / 2;
    const uint64_t piece = tt_memory_next_piece(most, &available);
    assert_true(piece > 0 && piece < most);
    assert_int_equal(piece % TT_MEMORY_PIECE_BYTES, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_host_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_group_of_version_2_and_those_above, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_container_of_version_1, setup, teardown),
        cmocka_unit_test(test_a_piece_is_the_whole_or_a_small_part_of_available_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
