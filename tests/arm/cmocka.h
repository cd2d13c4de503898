/* SPDX-License-Identifier: Apache-2.0
 *
 * cmocka.h - the part of cmocka that the tests of kernels use, for processors without a build of
 * it.
 *
 * `make check` compiles those tests for 64-bit Arm and runs them in an emulator. The first failure
 * ends the program.
 *
 * Layer:   tests.
 * Threads: one.
 * Memory:  none.
 */
#ifndef TUTTI_TESTS_ARM_CMOCKA_H
#define TUTTI_TESTS_ARM_CMOCKA_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CMUnitTest {
    const char *name;
    void (*test)(void **state);
};

static inline void cmocka_check(int is_true, const char *what, const char *file, int line)
{
    if (!is_true) {
        (void)fprintf(stderr, "%s:%d: %s\n", file, line, what);
        abort();
    }
}

static inline int cmocka_run(const char *name, const struct CMUnitTest *tests, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        void *state = NULL;
        (void)printf("%s: %s\n", name, tests[i].name);
        tests[i].test(&state);
    }
    return 0;
}

#define assert_true(what) cmocka_check((what) ? 1 : 0, #what, __FILE__, __LINE__)
#define assert_false(what) assert_true(!(what))
#define assert_int_equal(a, b) assert_true((unsigned long long)(a) == (unsigned long long)(b))
#define assert_ptr_equal(a, b) assert_true((const void *)(a) == (const void *)(b))
#define assert_null(a) assert_true((a) == NULL)
#define assert_non_null(a) assert_true((a) != NULL)
#define assert_string_equal(a, b) assert_true(strcmp(a, b) == 0)
#define fail_msg(...) ((void)fprintf(stderr, __VA_ARGS__), assert_true(0))
#define assert_memory_equal(a, b, bytes) assert_true(memcmp(a, b, bytes) == 0)
#define cmocka_unit_test(function) \
    {                              \
#function, function        \
    }
#define cmocka_run_group_tests_name(name, tests, setup, teardown) \
    cmocka_run(name, tests, sizeof(tests) / sizeof((tests)[0]))
#define cmocka_run_group_tests(tests, setup, teardown) \
    cmocka_run_group_tests_name(#tests, tests, setup, teardown)

#endif
