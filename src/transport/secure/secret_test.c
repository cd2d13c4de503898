/* SPDX-License-Identifier: Apache-2.0
 *
 * Goal: the key comes from the first source that is named, only from places that no other user can
 * write or read, and no failure falls through to another key.
 * Method: a private directory, an environment that is an array, real files and pipes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "transport/secure/secret.h"

static const char key_hex[] = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

enum { VARIABLE_COUNT = 5 };

typedef struct fixture {
    char directory[64];
    char path[160];
    const char *names[VARIABLE_COUNT];
    const char *values[VARIABLE_COUNT];
    tt_secret_sources sources;
    tt_secret secret;
    char text[TT_SECRET_TEXT_BYTES];
} fixture;

static const char *lookup(void *user, const char *name)
{
    fixture *f = user;

    for (size_t i = 0; i < VARIABLE_COUNT; i++) {
        if (f->names[i] != NULL && strcmp(f->names[i], name) == 0) {
            return f->values[i];
        }
    }
    return NULL;
}

static void forget(void *user, const char *name)
{
    fixture *f = user;

    for (size_t i = 0; i < VARIABLE_COUNT; i++) {
        if (f->names[i] != NULL && strcmp(f->names[i], name) == 0) {
            f->names[i] = NULL;
        }
    }
}

static void set(fixture *f, const char *name, const char *value)
{
    size_t i = 0;

    while (f->names[i] != NULL) {
        i++;
        assert_true(i < VARIABLE_COUNT);
    }
    f->names[i] = name;
    f->values[i] = value;
}

static void fill_random(void *user, uint8_t *bytes, size_t count)
{
    (void)user;
    randombytes_buf(bytes, count);
}

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof(*f));

    assert_non_null(f);
    (void)snprintf(f->directory, sizeof(f->directory), "/tmp/tutti-secret-XXXXXX");
    assert_non_null(mkdtemp(f->directory));
    (void)snprintf(f->path, sizeof(f->path), "%s/key", f->directory);
    f->sources = (tt_secret_sources){.lookup = lookup,
                                     .forget = forget,
                                     .user = f,
                                     .job_id = "job 42",
                                     .random = {.fill = fill_random}};
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    char path[160];
    static const char *const leaves[] = {"key",           "link",   "config/tutti/key",
                                         "config/tutti",  "config", ".config/tutti/key",
                                         ".config/tutti", ".config"};

    for (size_t i = 0; i < TT_ARRAY_COUNT(leaves); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", f->directory, leaves[i]);
        (void)remove(path);
    }
    assert_int_equal(rmdir(f->directory), 0); /* no temporary key file stays behind */
    free(f);
    return 0;
}

static void write_file(const char *path, const void *bytes, size_t count, mode_t mode)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, count), count);
    assert_int_equal(fchmod(fd, mode), 0);
    assert_int_equal(close(fd), 0);
}

static void expect_key(fixture *f, tt_secret_origin origin)
{
    uint8_t key[TT_SECRET_BYTES];

    assert_int_equal(sodium_hex2bin(key, sizeof(key), key_hex, 64, NULL, NULL, NULL), 0);
    assert_int_equal(tt_secret_find(&f->sources, &f->secret, f->text), TT_OK);
    assert_int_equal(f->secret.origin, origin);
    assert_memory_equal(f->secret.key, key, sizeof(key));
}

/* Refused, with a text that contains `part` and no part of the key. */
static void expect_refused(fixture *f, const char *part)
{
    assert_int_equal(tt_secret_find(&f->sources, &f->secret, f->text), TT_ERR_REFUSED);
    assert_non_null(strstr(f->text, part));
    assert_null(strstr(f->text, "00112233"));
    assert_true(sodium_is_zero(f->secret.key, sizeof(f->secret.key)));
}

static void test_a_private_file_gives_the_key(void **state)
{
    fixture *f = *state;
    char line[66];

    (void)snprintf(line, sizeof(line), "%s\n", key_hex);
    set(f, "TUTTI_SECRET_FILE", f->path);
    write_file(f->path, key_hex, 64, 0600);
    expect_key(f, TT_SECRET_FROM_FILE);
    write_file(f->path, line, 65, 0400);
    expect_key(f, TT_SECRET_FROM_FILE);
    assert_int_equal(unlink(f->path), 0);
    uint8_t raw[TT_SECRET_BYTES];
    assert_int_equal(sodium_hex2bin(raw, sizeof(raw), key_hex, 64, NULL, NULL, NULL), 0);
    write_file(f->path, raw, sizeof(raw), 0600);
    expect_key(f, TT_SECRET_FROM_FILE);
    assert_string_equal(f->text, "");
}

static void test_a_file_that_others_may_touch_is_refused(void **state)
{
    fixture *f = *state;
    static const mode_t modes[] = {0640, 0604, 0620, 0602, 0610, 0601, 0644, 0666};

    set(f, "TUTTI_SECRET_FILE", f->path);
    for (size_t i = 0; i < TT_ARRAY_COUNT(modes); i++) {
        char mode[8];
        (void)snprintf(mode, sizeof(mode), "%04o", (unsigned)modes[i]);
        write_file(f->path, key_hex, 64, modes[i]);
        expect_refused(f, mode);
        assert_non_null(strstr(f->text, "chmod 600"));
        assert_non_null(strstr(f->text, f->path));
    }
}

static void test_a_symbolic_link_is_refused(void **state)
{
    fixture *f = *state;
    char link_path[160];

    (void)snprintf(link_path, sizeof(link_path), "%s/link", f->directory);
    write_file(f->path, key_hex, 64, 0600);
    assert_int_equal(symlink(f->path, link_path), 0);
    set(f, "TUTTI_SECRET_FILE", link_path);
    expect_refused(f, "symbolic link");
}

static void test_a_missing_file_does_not_fall_through(void **state)
{
    fixture *f = *state;

    set(f, "TUTTI_SECRET_FILE", f->path);
    set(f, "TUTTI_SECRET", key_hex);
    set(f, "HOME", f->directory);
    expect_refused(f, f->path);
}

static void test_a_directory_or_a_fifo_is_refused(void **state)
{
    fixture *f = *state;

    set(f, "TUTTI_SECRET_FILE", f->path);
    assert_int_equal(mkdir(f->path, 0700), 0);
    expect_refused(f, "not a regular file");
    assert_int_equal(rmdir(f->path), 0);
    assert_int_equal(mkfifo(f->path, 0600), 0);
    expect_refused(f, "not a regular file");
}

static void test_contents_that_are_no_key_are_refused(void **state)
{
    fixture *f = *state;
    static const uint8_t zeros[TT_SECRET_BYTES];
    char bytes[200];

    set(f, "TUTTI_SECRET_FILE", f->path);
    memset(bytes, 'a', sizeof(bytes));
    for (size_t count = 0; count <= 70; count++) {
        if (count != 32 && count != 64) {
            write_file(f->path, bytes, count, 0600);
            expect_refused(f, "holds no key");
        }
    }
    write_file(f->path, bytes, sizeof(bytes), 0600);
    expect_refused(f, "holds no key");
    bytes[40] = 'x';
    write_file(f->path, bytes, 64, 0600);
    expect_refused(f, "holds no key");
    write_file(f->path, zeros, sizeof(zeros), 0600);
    expect_refused(f, "holds no key");
}

static void test_a_descriptor_is_read_once_and_closed(void **state)
{
    fixture *f = *state;
    int ends[2];
    char number[16];

    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], key_hex, 64), 64);
    assert_int_equal(close(ends[1]), 0);
    (void)snprintf(number, sizeof(number), "%d", ends[0]);
    set(f, "TUTTI_SECRET_FD", number);
    set(f, "TUTTI_SECRET_FILE", "/nonexistent");
    expect_key(f, TT_SECRET_FROM_DESCRIPTOR);
    assert_int_equal(fcntl(ends[0], F_GETFD), -1);
    assert_null(lookup(f, "TUTTI_SECRET_FD"));
}

static void test_a_bad_descriptor_is_refused(void **state)
{
    fixture *f = *state;
    static const char *const values[] = {"x", "-1", "3x", "99999999999", "1048576", " 1"};

    for (size_t i = 0; i < TT_ARRAY_COUNT(values); i++) {
        set(f, "TUTTI_SECRET_FD", values[i]);
        expect_refused(f, "TUTTI_SECRET_FD");
        forget(f, "TUTTI_SECRET_FD");
    }
}

static void test_a_key_in_the_environment_is_accepted_with_a_warning_and_unset(void **state)
{
    fixture *f = *state;

    set(f, "TUTTI_SECRET", key_hex);
    expect_key(f, TT_SECRET_FROM_ENVIRONMENT);
    assert_non_null(strstr(f->text, "TUTTI_SECRET_FILE"));
    assert_null(strstr(f->text, "00112233"));
    assert_null(lookup(f, "TUTTI_SECRET"));
    tt_secret_wipe(&f->secret);
    set(f, "TUTTI_SECRET", "0011223344");
    expect_refused(f, "TUTTI_SECRET is not a key");
    assert_null(lookup(f, "TUTTI_SECRET"));
}

static void test_a_blob_of_the_launcher_is_used(void **state)
{
    fixture *f = *state;

    f->sources.blob = (const uint8_t *)key_hex;
    f->sources.blob_bytes = 64;
    expect_key(f, TT_SECRET_FROM_CALLER);
    tt_secret_wipe(&f->secret);
    f->sources.blob_bytes = 63;
    expect_refused(f, "key-value store");
}

static void test_the_derived_key_is_stable_per_job_and_private(void **state)
{
    fixture *f = *state;
    char config[160];
    char path[200];
    uint8_t first[TT_SECRET_BYTES];
    struct stat status;

    (void)snprintf(config, sizeof(config), "%s/config", f->directory);
    (void)snprintf(path, sizeof(path), "%s/tutti/key", config);
    set(f, "XDG_CONFIG_HOME", config);
    assert_int_equal(tt_secret_find(&f->sources, &f->secret, f->text), TT_OK);
    assert_int_equal(f->secret.origin, TT_SECRET_FROM_USER_KEY);
    assert_string_equal(f->text, "");
    memcpy(first, f->secret.key, sizeof(first));
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0600);
    assert_int_equal(status.st_nlink, 1);
    assert_int_equal(tt_secret_find(&f->sources, &f->secret, f->text), TT_OK);
    assert_memory_equal(f->secret.key, first, sizeof(first));
    f->sources.job_id = "job 43";
    assert_int_equal(tt_secret_find(&f->sources, &f->secret, f->text), TT_OK);
    assert_memory_not_equal(f->secret.key, first, sizeof(first));
    tt_secret_wipe(&f->secret);
    assert_int_equal(chmod(path, 0644), 0);
    expect_refused(f, "chmod 600");
}

static void test_home_serves_where_xdg_is_unset_or_relative(void **state)
{
    fixture *f = *state;
    char path[160];

    set(f, "XDG_CONFIG_HOME", "config");
    set(f, "HOME", f->directory);
    assert_int_equal(tt_secret_find(&f->sources, &f->secret, f->text), TT_OK);
    (void)snprintf(path, sizeof(path), "%s/.config/tutti/key", f->directory);
    assert_int_equal(access(path, F_OK), 0);
}

/* Describes every source: no text has digits of the key, and the same key has one fingerprint. */
static void test_a_description_has_the_source_and_a_fingerprint_only(void **state)
{
    fixture *f = *state;
    char first[TT_SECRET_TEXT_BYTES];
    char path[256];

    (void)snprintf(path, sizeof(path), "%s/tutti/key", f->directory);
    set(f, "XDG_CONFIG_HOME", f->directory);
    tt_secret_describe(&f->sources, f->text);
    assert_non_null(strstr(f->text, "made when a job first needs it"));
    assert_int_not_equal(access(path, F_OK), 0); /* not by describing it */
    set(f, "TUTTI_SECRET", key_hex);
    tt_secret_describe(&f->sources, f->text);
    assert_non_null(strstr(f->text, "TUTTI_SECRET, fingerprint "));
    assert_null(strstr(f->text, "00112233"));
    (void)snprintf(first, sizeof(first), "%s", strstr(f->text, "fingerprint"));
    assert_non_null(lookup(f, "TUTTI_SECRET"));
    write_file(f->path, key_hex, strlen(key_hex), 0600);
    set(f, "TUTTI_SECRET_FILE", f->path);
    tt_secret_describe(&f->sources, f->text);
    assert_non_null(strstr(f->text, f->path));
    assert_string_equal(strstr(f->text, "fingerprint"), first);
    const int fd = open(f->path, O_RDONLY | O_CLOEXEC);
    char number[16];
    (void)snprintf(number, sizeof(number), "%d", fd);
    set(f, "TUTTI_SECRET_FD", number);
    tt_secret_describe(&f->sources, f->text);
    assert_non_null(strstr(f->text, "TUTTI_SECRET_FD"));
    assert_string_equal(strstr(f->text, "fingerprint"), first);
    (void)close(fd);
}

static void test_the_description_of_an_invalid_key_does_not_show_it(void **state)
{
    fixture *f = *state;

    set(f, "TUTTI_SECRET", "correct horse battery staple");
    tt_secret_describe(&f->sources, f->text);
    assert_non_null(strstr(f->text, "not a key"));
    assert_null(strstr(f->text, "horse"));
    assert_null(strstr(f->text, "fingerprint")); /* the text could be guessed from a fingerprint */
}

static void test_the_error_without_any_source_names_the_cure(void **state)
{
    fixture *f = *state;

    expect_refused(f, "TUTTI_SECRET_FILE");
    set(f, "HOME", f->directory);
    f->sources.job_id = NULL;
    expect_refused(f, "tutti run");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_private_file_gives_the_key, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_file_that_others_may_touch_is_refused, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_symbolic_link_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_missing_file_does_not_fall_through, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_directory_or_a_fifo_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_contents_that_are_no_key_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_descriptor_is_read_once_and_closed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_bad_descriptor_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(
            test_a_key_in_the_environment_is_accepted_with_a_warning_and_unset, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_blob_of_the_launcher_is_used, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_derived_key_is_stable_per_job_and_private, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_home_serves_where_xdg_is_unset_or_relative, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_the_error_without_any_source_names_the_cure, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_description_has_the_source_and_a_fingerprint_only,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_description_of_an_invalid_key_does_not_show_it,
                                        setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
