/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_test.c - traces of real calls: each has its events, and no call waits for the file.
 *
 * Labels: asan tsan
 * Timeout: 120
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "conformance/ranks.h"

enum { CALLS = 300, STUCK_CALLS = 4000, PATH_BYTES = 128 };

typedef struct trace_folder {
    char path[PATH_BYTES / 2];
} trace_folder;

static trace_folder folder_new(void)
{
    trace_folder folder = {.path = "/tmp/tutti-trace-XXXXXX"};
    EXPECT(mkdtemp(folder.path) != NULL);
    return folder;
}

static void path_of(const ranks_self *self, char *path_out)
{
    const trace_folder *folder = self->user;
    (void)snprintf(path_out, PATH_BYTES, "%s/%d", folder->path, self->rank);
}

static char *read_all(const char *path)
{
    FILE *file = fopen(path, "r");
    EXPECT(file != NULL && fseek(file, 0, SEEK_END) == 0);
    const long bytes = ftell(file);
    EXPECT(bytes > 0 && fseek(file, 0, SEEK_SET) == 0);
    char *text = malloc((size_t)bytes + 1);
    EXPECT(text != NULL && fread(text, 1, (size_t)bytes, file) == (size_t)bytes);
    text[bytes] = 0;
    (void)fclose(file);
    return text;
}

static int count_of(const char *text, const char *what)
{
    int count = 0;
    for (const char *at = text; (at = strstr(at, what)) != NULL; at += strlen(what)) {
        count++;
    }
    return count;
}

static void sum(ranks_self *self, const char *name)
{
    int32_t value = self->rank + 1;
    tutti_call call = TUTTI_CALL_INIT;
    call.input = call.output = &value;
    call.count = 1;
    call.dtype = TUTTI_I32;
    call.name = name;
    EXPECT_STATUS(TUTTI_OK, tutti_run(self->context, &call));
    EXPECT_SAY(value == self->size * (self->size + 1) / 2, "%d", value);
}

/* Repeated calls and others, named and not: each has an exchange, or a wait, once. */
static void body_every_call(ranks_self *self)
{
    char path[PATH_BYTES];
    path_of(self, path);
    sum(self, "warm \"name\"");
    EXPECT_STATUS(TUTTI_OK, tutti_trace_start(self->context, path));
    EXPECT_STATUS(TUTTI_ERR_BAD_ARGUMENT, tutti_trace_start(self->context, path));
    for (int i = 0; i < CALLS; i++) {
        sum(self, NULL);
        sum(self, "warm \"name\"");
    }
    ranks_meet(self);
    EXPECT_STATUS(TUTTI_OK, tutti_trace_stop(self->context));
    EXPECT_STATUS(TUTTI_OK, tutti_trace_stop(self->context)); /* nothing is written: fine */
    sum(self, NULL);
    char *text = read_all(path);
    const int named = count_of(text, "\"args\":{\"tensor\":\"warm \\\"name\\\"\"");
    const int unnamed = count_of(text, "\"args\":{\"tensor\":\"allreduce\"");
    EXPECT_SAY(count_of(text, "\"ph\":\"b\"") == count_of(text, "\"ph\":\"e\""), "%s", text);
    EXPECT_SAY(named >= CALLS, "%d", named);
    EXPECT_SAY(unnamed >= CALLS && unnamed <= 2 * CALLS, "%d", unnamed);
    EXPECT(count_of(text, "events dropped") == 0);
    EXPECT(strcmp(text + strlen(text) - 3, "\n]\n") == 0);
    free(text);
    (void)unlink(path);
}

static void test_every_call_has_its_events(void **state)
{
    (void)state;
    trace_folder folder = folder_new();
    ranks_run(2, "shm", body_every_call, &folder);
    (void)rmdir(folder.path);
}

/* A pipe without a reader stands in for a disk that does not respond. */
static void body_stuck(ranks_self *self)
{
    char path[PATH_BYTES], scrap[4096];
    path_of(self, path);
    EXPECT(mkfifo(path, 0600) == 0);
    const int reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    EXPECT(reader >= 0);
    EXPECT_STATUS(TUTTI_OK, tutti_trace_start(self->context, path));
    for (int i = 0; i < STUCK_CALLS; i++) {
        sum(self, NULL);
    }
    EXPECT(fcntl(reader, F_SETFL, 0) == 0);
    for (ssize_t got = 0; got < (ssize_t)sizeof(scrap);) { /* the writer continues by itself */
        const ssize_t more = read(reader, scrap, sizeof(scrap));
        EXPECT(more > 0);
        got += more;
    }
    (void)close(reader); /* from now on writing fails */
    EXPECT_STATUS(TUTTI_ERR_SYSTEM, tutti_trace_stop(self->context));
    sum(self, NULL);
    (void)unlink(path);
}

static void test_calls_do_not_wait_for_the_file(void **state)
{
    (void)state;
    trace_folder folder = folder_new();
    ranks_run(2, "shm", body_stuck, &folder);
    (void)rmdir(folder.path);
}

static void body_no_file(ranks_self *self)
{
    EXPECT_STATUS(TUTTI_ERR_SYSTEM, tutti_trace_start(self->context, "/nowhere/at/all"));
    EXPECT(strstr(tutti_last_error(self->context), "/nowhere/at/all") != NULL);
    EXPECT_STATUS(TUTTI_ERR_BAD_ARGUMENT, tutti_trace_start(self->context, ""));
    sum(self, NULL);
}

static void test_a_file_that_cannot_be_made_is_named(void **state)
{
    (void)state;
    ranks_run(2, "shm", body_no_file, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_call_has_its_events),
        cmocka_unit_test(test_calls_do_not_wait_for_the_file),
        cmocka_unit_test(test_a_file_that_cannot_be_made_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
