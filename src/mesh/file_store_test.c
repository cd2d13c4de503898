/* SPDX-License-Identifier: Apache-2.0
 *
 * Goal: a blob is read whole or not at all, by the right incarnation only, and never from a file
 * that another user could have planted. Method: a directory of its own per test. */
#include <dirent.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "mesh/file_store.h"

enum { TIMEOUT_MS = 20000 };

typedef struct place {
    char path[64];
    tt_mesh_file_store store;
} place;

static int place_make(void **state)
{
    place *made = calloc(1, sizeof(*made));
    tt_launch_why why = {""};
    (void)snprintf(made->path, sizeof(made->path), "/tmp/tutti-file-store-XXXXXX");
    if (mkdtemp(made->path) == NULL) {
        return -1;
    }
    *state = made;
    return tt_mesh_file_store_init(&made->store, made->path, "job", 3, &why) == TT_OK ? 0 : -1;
}

static size_t count_files(const char *path, bool remove_them)
{
    size_t count = 0;
    DIR *directory = opendir(path);
    assert_non_null(directory);
    for (const struct dirent *each; (each = readdir(directory)) != NULL;) {
        if (strcmp(each->d_name, ".") != 0 && strcmp(each->d_name, "..") != 0) {
            count++;
            if (remove_them) {
                (void)unlinkat(dirfd(directory), each->d_name, 0);
            }
        }
    }
    (void)closedir(directory);
    return count;
}

static int place_remove(void **state)
{
    place *made = *state;
    (void)count_files(made->path, true);
    const int result = rmdir(made->path);
    free(made);
    return result;
}

static tt_status get(const tt_mesh_file_store *store, const char *key, uint64_t timeout_ms,
                     char *text, size_t text_bytes)
{
    tt_launch_why why = {""};
    tt_mesh_blob blob = {.bytes = text, .capacity = text_bytes - 1};
    const tt_status status =
        tt_mesh_file_store_get(store, key, tt_launch_deadline_after_ms(timeout_ms), &blob, &why);
    text[status == TT_OK ? blob.count : 0] = '\0';
    if (status != TT_OK) {
        assert_string_not_equal(why.text, "");
    }
    return status;
}

static void test_put_then_get(void **state)
{
    const place *made = *state;
    tt_launch_why why;
    char text[16];
    assert_int_equal(tt_mesh_file_store_put(&made->store, "addr-0", "hello", 5, &why), TT_OK);
    assert_int_equal(get(&made->store, "addr-0", 0, text, sizeof(text)), TT_OK);
    assert_string_equal(text, "hello");
    assert_int_equal(tt_mesh_file_store_put(&made->store, "addr-0", "bye", 3, &why), TT_OK);
    assert_int_equal(get(&made->store, "addr-0", 0, text, sizeof(text)), TT_OK);
    assert_string_equal(text, "bye");
    assert_int_equal(count_files(made->path, false), 1);
    tt_mesh_file_store_remove(&made->store, "addr-0");
    tt_mesh_file_store_remove(&made->store, "addr-0");
    assert_int_equal(count_files(made->path, false), 0);
}

static void *put_later(void *argument)
{
    const place *made = argument;
    tt_launch_why why;
    (void)tt_mesh_file_store_put(&made->store, "late", "now", 3, &why);
    return NULL;
}

static void test_get_waits_for_put(void **state)
{
    place *made = *state;
    pthread_t thread;
    char text[16];
    assert_int_equal(pthread_create(&thread, NULL, put_later, made), 0);
    assert_int_equal(get(&made->store, "late", TIMEOUT_MS, text, sizeof(text)), TT_OK);
    assert_string_equal(text, "now");
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void test_missing_key_ends_at_the_deadline(void **state)
{
    const place *made = *state;
    char text[16];
    assert_int_equal(get(&made->store, "never", 1, text, sizeof(text)), TT_ERR_TIMED_OUT);
}

static void test_other_incarnations_and_jobs_are_not_read(void **state)
{
    const place *made = *state;
    tt_mesh_file_store next;
    tt_mesh_file_store other;
    tt_launch_why why;
    char text[16];
    assert_int_equal(tt_mesh_file_store_init(&next, made->path, "job", 4, &why), TT_OK);
    assert_int_equal(tt_mesh_file_store_init(&other, made->path, "joc", 9, &why), TT_OK);
    assert_int_equal(tt_mesh_file_store_put(&made->store, "a", "old", 3, &why), TT_OK);
    assert_int_equal(tt_mesh_file_store_put(&next, "b", "new", 3, &why), TT_OK);
    assert_int_equal(get(&next, "a", 0, text, sizeof(text)), TT_ERR_TIMED_OUT);
    assert_int_equal(get(&other, "a", 0, text, sizeof(text)), TT_ERR_TIMED_OUT);
    assert_int_equal(tt_mesh_file_store_sweep(&other), 0);
    assert_int_equal(tt_mesh_file_store_sweep(&made->store), 0);
    assert_int_equal(tt_mesh_file_store_sweep(&next), 1);
    assert_int_equal(get(&next, "b", 0, text, sizeof(text)), TT_OK);
}

static void test_planted_files_are_refused(void **state)
{
    const place *made = *state;
    tt_launch_why why;
    char text[16];
    char name[128];
    char aside[128];
    assert_int_equal(tt_mesh_file_store_put(&made->store, "k", "x", 1, &why), TT_OK);
    (void)snprintf(name, sizeof(name), "%s/tutti.%016llx.3.k", made->path,
                   (unsigned long long)made->store.job);
    (void)snprintf(aside, sizeof(aside), "%s/aside", made->path);
    assert_int_equal(rename(name, aside), 0);
    assert_int_equal(symlink(aside, name), 0);
    assert_int_equal(get(&made->store, "k", 0, text, sizeof(text)), TT_ERR_SYSTEM);
    assert_int_equal(unlink(name), 0);
    assert_int_equal(mkfifo(name, 0600), 0);
    assert_int_equal(get(&made->store, "k", 0, text, sizeof(text)), TT_ERR_REFUSED);
}

static void test_sizes_and_keys_are_checked(void **state)
{
    const place *made = *state;
    static char large[TT_MESH_BLOB_BYTES_MAX + 1];
    static const char *const keys[] = {"", "a/b", "..", "a.b", "a b"};
    tt_launch_why why;
    char text[16];
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        assert_int_equal(tt_mesh_file_store_put(&made->store, keys[i], "x", 1, &why),
                         TT_ERR_BAD_ARGUMENT);
    }
    assert_int_equal(tt_mesh_file_store_put(&made->store, "k", large, sizeof(large), &why),
                     TT_ERR_BAD_ARGUMENT);
    assert_int_equal(tt_mesh_file_store_put(&made->store, "k", large, 16, &why), TT_OK);
    assert_int_equal(get(&made->store, "k", 0, text, sizeof(text)), TT_ERR_BAD_WIRE);
}

static void test_unsafe_places_are_refused(void **state)
{
    const place *made = *state;
    tt_mesh_file_store store;
    tt_launch_why why = {""};
    char path[128];
    assert_int_equal(chmod(made->path, 0777), 0);
    assert_int_equal(tt_mesh_file_store_init(&store, made->path, "j", 0, &why), TT_ERR_BAD_CONFIG);
    assert_non_null(strstr(why.text, "chmod 700"));
    assert_int_equal(chmod(made->path, 01777), 0);
    assert_int_equal(tt_mesh_file_store_init(&store, made->path, "j", 0, &why), TT_OK);
    assert_int_equal(chmod(made->path, 0700), 0);
    (void)snprintf(path, sizeof(path), "%s/missing/deep", made->path);
    assert_int_equal(tt_mesh_file_store_init(&store, path, "j", 0, &why), TT_ERR_SYSTEM);
    assert_int_equal(tt_mesh_file_store_init(&store, "/proc/self/cmdline", "j", 0, &why),
                     TT_ERR_BAD_CONFIG);
}

#define PLACED(test) cmocka_unit_test_setup_teardown(test, place_make, place_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PLACED(test_put_then_get),
        PLACED(test_get_waits_for_put),
        PLACED(test_missing_key_ends_at_the_deadline),
        PLACED(test_other_incarnations_and_jobs_are_not_read),
        PLACED(test_planted_files_are_refused),
        PLACED(test_sizes_and_keys_are_checked),
        PLACED(test_unsafe_places_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
