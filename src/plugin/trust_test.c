/* SPDX-License-Identifier: Apache-2.0
 *
 * Goal: a plugin is opened only if no one but its user and root could have put it there.
 * Method: files and folders of every mode in a private folder; foreign owners are simulated by
 * checking as another user. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plugin/trust.h"

typedef struct fixture {
    char folder[64];
    char inner[96];
    char file[128];
    char link[128];
    char real[PATH_MAX];
    tt_plugin_owners owners;
    tt_text why;
} fixture;

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    (void)snprintf(f->folder, sizeof(f->folder), "/tmp/tutti-trust-XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    (void)snprintf(f->inner, sizeof(f->inner), "%s/inner", f->folder);
    (void)snprintf(f->file, sizeof(f->file), "%s/tutti-a.so", f->inner);
    (void)snprintf(f->link, sizeof(f->link), "%s/tutti-b.so", f->folder);
    assert_int_equal(mkdir(f->inner, 0755), 0);
    const int fd = open(f->file, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    (void)close(fd);
    assert_int_equal(chmod(f->inner, 0755), 0); /* whatever the umask */
    assert_int_equal(chmod(f->file, 0644), 0);
    f->owners = tt_plugin_owners_here(NULL);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    (void)unlink(f->link);
    (void)unlink(f->file);
    (void)rmdir(f->inner);
    (void)rmdir(f->folder);
    free(f);
    return 0;
}

static void expect_trusted(fixture *f, const char *path)
{
    tt_text_clear(&f->why);
    assert_true(tt_plugin_is_trusted(path, &f->owners, f->real, &f->why));
    assert_string_equal(f->why.bytes, "");
}

static void expect_refused(fixture *f, const char *path, const char *part)
{
    tt_text_clear(&f->why);
    assert_false(tt_plugin_is_trusted(path, &f->owners, f->real, &f->why));
    assert_non_null(strstr(f->why.bytes, part));
}

static void test_an_own_file_below_a_sticky_folder_is_trusted(void **state)
{
    fixture *f = *state;
    expect_trusted(f, f->file);
    assert_string_equal(f->real, f->file);
}

static void test_a_file_that_others_may_write_is_refused(void **state)
{
    fixture *f = *state;
    assert_int_equal(chmod(f->file, 0664), 0);
    expect_refused(f, f->file, "others may write it; run: chmod go-w");
    assert_int_equal(chmod(f->file, 0646), 0);
    expect_refused(f, f->file, "mode 0646");
}

static void test_a_folder_that_others_may_write_is_refused_wherever_it_is(void **state)
{
    fixture *f = *state;
    assert_int_equal(chmod(f->inner, 0775), 0);
    expect_refused(f, f->file, "inner has mode 0775");
    assert_int_equal(chmod(f->inner, 01777), 0); /* another user could add a link there */
    expect_refused(f, f->file, "inner has mode 1777");
    assert_int_equal(chmod(f->inner, 0755), 0);
    assert_int_equal(chmod(f->folder, 0707), 0);
    expect_refused(f, f->file, "others may write it");
    assert_int_equal(chmod(f->folder, 0700), 0);
    expect_trusted(f, f->file);
}

static void test_a_link_is_trusted_if_both_its_ends_are(void **state)
{
    fixture *f = *state;
    assert_int_equal(symlink(f->file, f->link), 0);
    expect_trusted(f, f->link);
    assert_string_equal(f->real, f->file);
    assert_int_equal(chmod(f->inner, 0777), 0);
    expect_refused(f, f->link, "inner has mode 0777");
    assert_int_equal(chmod(f->inner, 0755), 0);
    assert_int_equal(chmod(f->folder, 0777), 0);
    expect_refused(f, f->link, "mode 0777");
    assert_int_equal(chmod(f->folder, 0700), 0);
}

static void test_a_file_of_another_user_is_refused(void **state)
{
    fixture *f = *state;
    const uid_t own = geteuid();
    if (own == 0) { /* root's files are trusted: give ours away */
        assert_int_equal(chown(f->file, 12345, (gid_t)-1), 0);
        expect_refused(f, f->file, "belongs to uid 12345");
        f->owners.library = 12345; /* the library's owner may add plugins too */
        expect_trusted(f, f->file);
        return;
    }
    f->owners = (tt_plugin_owners){.user = own + 1, .library = own + 1};
    expect_refused(f, f->file, "belongs to uid");
    f->owners.library = own;
    expect_trusted(f, f->file);
}

static void test_a_missing_file_is_refused(void **state)
{
    fixture *f = *state;
    expect_refused(f, "/nowhere/tutti-a.so", "No such file");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_an_own_file_below_a_sticky_folder_is_trusted, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_file_that_others_may_write_is_refused, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            test_a_folder_that_others_may_write_is_refused_wherever_it_is, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_link_is_trusted_if_both_its_ends_are, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_file_of_another_user_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_missing_file_is_refused, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
