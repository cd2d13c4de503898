/* SPDX-License-Identifier: Apache-2.0
 *
 * mesh_fault_test.c - a job that cannot join reports the cause on every rank; strangers do no harm.
 *
 * Method: one rank is missing, late, wrong or fails, and each rank's text is compared. Hostile
 * strangers connect to the same port (support/mesh_job.h).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "mesh/mesh_internal.h"
#include "support/mesh_job.h"

enum { GUESTS_MAX = 300 };

/* ---- jobs that time out ---- */

/* The error reports what was found before the timeout. A machine that stalls may find too little:
 * then the job is tried once more with much more time. */
static void expect_in_time(bool (*job)(uint64_t timeout_ms))
{
    assert_true(job(400) || job(8000));
}

static bool says(const member *self, const char *text)
{
    const bool is_said = self->status < TT_OK && strstr(self->why.text, text) != NULL;
    if (!is_said) {
        print_message("no \"%s\" in \"%s\", status %d\n", text, self->why.text, self->status);
    }
    return is_said;
}

static bool is_missing_rank_named(uint64_t timeout_ms)
{
    member members[4];
    char expected[160];
    bool is_right = true;
    (void)snprintf(expected, sizeof(expected),
                   "rank 2 did not join within %g s (joined: 0, 1, 3); start every rank with this "
                   "rendezvous, or raise TUTTI_START_TIMEOUT",
                   (double)timeout_ms / 1000);
    job_init(members, 4, AF_INET);
    members[2].absent = true;
    for (uint32_t rank = 0; rank < 4; rank++) {
        members[rank].config.timeout_ms = timeout_ms;
    }
    job_run(members, 4);
    for (uint32_t rank = 0; rank < 4; rank++) {
        is_right &= rank == 2 || (says(&members[rank], expected) &&
                                  strlen(members[rank].why.text) == strlen(expected));
    }
    job_fini(members, 4);
    return is_right;
}

static void test_a_missing_rank_is_named_to_everyone(void **state)
{
    (void)state;
    expect_in_time(is_missing_rank_named);
}

static bool is_missing_rank_0_named(uint64_t timeout_ms)
{
    member members[2];
    job_init(members, 2, AF_INET);
    close(members[0].config.listen_fd);
    members[0].absent = true;
    members[1].config.timeout_ms = timeout_ms;
    job_run(members, 2);
    const bool is_right = members[1].status == TT_ERR_TIMED_OUT &&
                          says(&members[1], "could not reach rank 0 at tcp://127.0.0.1:") &&
                          says(&members[1], "Connection refused");
    job_fini(members, 2);
    return is_right;
}

static void test_a_missing_rank_0_is_named_with_its_place(void **state)
{
    (void)state;
    expect_in_time(is_missing_rank_0_named);
}

static bool is_wrong_secret_told(uint64_t timeout_ms)
{
    member members[3];
    char expected[96];
    (void)snprintf(expected, sizeof(expected), "rank 1 did not join within %g s (joined: 0, 2)",
                   (double)timeout_ms / 1000);
    job_init(members, 3, AF_INET);
    members[1].secret[0] ^= 1;
    members[0].config.timeout_ms = timeout_ms;
    job_run(members, 3);
    const bool is_right = members[1].status == TT_ERR_REFUSED &&
                          says(&members[1], "rank 1 was refused by rank 0 at 127.0.0.1:") &&
                          says(&members[0], expected) && says(&members[0], "secret") &&
                          says(&members[2], members[0].why.text);
    job_fini(members, 3);
    return is_right;
}

static void test_a_wrong_secret_is_refused_and_reported(void **state)
{
    (void)state;
    assert_true(is_wrong_secret_told(3000) ||
                is_wrong_secret_told(15000)); /* it retries for long */
}

#define WORD(number) #number
#define WORDS(low, high) WORD(low) " to " WORD(high)
#define OURS WORDS(TT_PROTOCOL_VERSION_MIN, TT_PROTOCOL_VERSION_MAX)

static bool is_version_skew_told(uint64_t timeout_ms)
{
    member members[2];
    job_init(members, 2, AF_INET);
    members[0].config.timeout_ms = timeout_ms;
    members[1].config.version_min = 100;
    members[1].config.version_max = 101;
    job_run(members, 2);
    const bool is_right = members[1].status == TT_ERR_REFUSED &&
                          says(&members[1], "peer supports " OURS ", this side 100 to 101") &&
                          says(&members[0], "peer supports 100 to 101, this side " OURS);
    job_fini(members, 2);
    return is_right;
}

static void test_version_skew_names_both_versions(void **state)
{
    (void)state;
    expect_in_time(is_version_skew_told);
}

/* Protocol version 1, before named tensors were negotiated. */
static bool is_older_build_told(uint64_t timeout_ms)
{
    member members[3];
    job_init(members, 3, AF_INET);
    members[0].config.timeout_ms = members[1].config.timeout_ms = timeout_ms;
    members[2].config.version_min = members[2].config.version_max = 1;
    job_run(members, 3);
    const bool is_right = members[2].status == TT_ERR_REFUSED &&
                          says(&members[2], "peer supports " OURS ", this side 1 to 1") &&
                          says(&members[0], "peer supports 1 to 1, this side " OURS);
    job_fini(members, 3);
    return is_right;
}

static void test_a_rank_of_an_older_build_is_refused_with_both_versions(void **state)
{
    (void)state;
    expect_in_time(is_older_build_told);
}

static void test_a_rank_taken_twice_is_named_to_everyone(void **state)
{
    (void)state;
    member members[4];
    job_init(members, 4, AF_INET);
    members[3].identity.rank = 1;
    job_run(members, 4);
    char expected[96];
    snprintf(expected, sizeof(expected), "rank 1 joined twice: process %d on ", (int)getpid());
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(members[i].status < TT_OK);
        assert_non_null(strstr(members[i].why.text, expected));
    }
    job_fini(members, 4);
}

static void test_other_settings_are_refused_for_everyone(void **state)
{
    (void)state;
    member members[3];
    job_init(members, 3, AF_INET);
    members[2].config.settings.digest = 6;
    members[2].config.settings.parts[1] = 1;
    job_run(members, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(members[i].status < TT_OK);
        assert_non_null(strstr(members[i].why.text, "rank 2 on "));
        assert_non_null(strstr(members[i].why.text, "other settings than rank 0 in TUTTI_B;"));
    }
    job_fini(members, 3);
}

static void set_servers(member *members, uint32_t size, uint32_t count)
{
    for (uint32_t rank = 0; rank < size; rank++) {
        members[rank].config.server_count = count;
        members[rank].config.serves = rank + count >= size;
    }
}

static void expect_of_all(const member *members, uint32_t size, const char *text)
{
    for (uint32_t i = 0; i < size; i++) {
        assert_true(says(&members[i], text));
    }
}

static void test_other_numbers_of_servers_are_named_to_everyone(void **state)
{
    (void)state;
    member members[4];
    job_init(members, 4, AF_INET);
    set_servers(members, 4, 2);
    members[3].config.server_count = 1;
    job_run(members, 4);
    expect_of_all(members, 4, "has TUTTI_SERVERS=2, rank 3 on ");
    expect_of_all(members, 4, " has TUTTI_SERVERS=1; set the same number");
    job_fini(members, 4);
}

static void test_a_rank_in_the_wrong_role_is_named_to_everyone(void **state)
{
    (void)state;
    static const struct {
        uint32_t rank;
        const char *text;
    } cases[] = {{0, "joins as a server, but with TUTTI_SERVERS=1 rank 0 of 4 is a worker"},
                 {2, "joins as a server, but with TUTTI_SERVERS=1 rank 2 of 4 is a worker"},
                 {3, "joins as a worker, but with TUTTI_SERVERS=1 rank 3 of 4 is a server"}};
    for (size_t i = 0; i < TT_ARRAY_COUNT(cases); i++) {
        member members[4];
        char culprit[32];
        job_init(members, 4, AF_INET);
        set_servers(members, 4, 1);
        members[cases[i].rank].config.serves = !members[cases[i].rank].config.serves;
        job_run(members, 4);
        (void)snprintf(culprit, sizeof(culprit), "rank %u on ", cases[i].rank);
        expect_of_all(members, 4, culprit);
        expect_of_all(members, 4, cases[i].text);
        job_fini(members, 4);
    }
}

static void test_a_job_without_workers_is_refused(void **state)
{
    (void)state;
    member members[2];
    job_init(members, 2, AF_INET);
    set_servers(members, 2, 2);
    job_run(members, 2);
    expect_of_all(members, 2, "TUTTI_SERVERS=2 leaves no worker: the job has 2 processes");
    job_fini(members, 2);
}

static bool is_another_size_refused(uint64_t timeout_ms)
{
    member members[2];
    job_init(members, 2, AF_INET);
    members[1].identity.size = 3;
    members[0].config.timeout_ms = timeout_ms;
    job_run(members, 2);
    const bool is_right = members[1].status == TT_ERR_REFUSED &&
                          says(&members[1], "number of ranks") &&
                          members[0].status == TT_ERR_TIMED_OUT;
    job_fini(members, 2);
    return is_right;
}

static void test_another_size_is_refused(void **state)
{
    (void)state;
    expect_in_time(is_another_size_refused);
}

static tt_status fail_segment(void *user, uint32_t local_index, uint32_t local_count, int *fd_out)
{
    (void)user, (void)local_index, (void)local_count, (void)fd_out;
    return TT_ERR_NO_RESOURCE;
}

static void test_a_late_failure_of_one_rank_fails_all(void **state)
{
    (void)state;
    member members[4];
    job_init(members, 4, AF_INET);
    members[2].config.segment = fail_segment;
    job_run(members, 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(members[i].status < TT_OK);
        assert_non_null(strstr(members[i].why.text, "rank 2"));
    }
    job_fini(members, 4);
}

typedef struct crowd {
    uint16_t port;
    int fds[GUESTS_MAX];
} crowd;

static int guest_connect(uint16_t port)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

/* Hundreds of strangers that send one byte, nothing, or garbage, and stay connected. */
static void crowd_enter(crowd *guests)
{
    for (uint32_t i = 0; i < GUESTS_MAX; i++) {
        guests->fds[i] = guest_connect(guests->port);
        const char *words =
            i % 3 == 0 ? "T" : (i % 3 == 1 ? "" : "GET / HTTP/1.1\r\nHost: you\r\n\r\n");
        (void)!send(guests->fds[i], words, strlen(words), MSG_NOSIGNAL);
    }
}

static void test_a_crowd_of_strangers_does_not_harm_the_job(void **state)
{
    (void)state;
    member members[6];
    crowd guests;
    job_init(members, 6, AF_INET);
    guests.port = members[0].identity.rendezvous.port_first;
    crowd_enter(&guests);
    for (uint32_t rank = 0; rank < 6; rank++) {
        members[rank].config.host_id = rank / 2;
    }
    job_run(members, 6);
    check_job(members, 6);
    for (uint32_t i = 0; i < GUESTS_MAX; i++) {
        close(guests.fds[i]);
    }
    job_fini(members, 6);
}

static void *pester(void *argument)
{
    crowd *guests = argument;
    crowd_enter(guests);
    return NULL;
}

static void test_strangers_that_keep_connecting_do_not_harm_the_job(void **state)
{
    (void)state;
    member members[4];
    crowd guests;
    pthread_t thread;
    job_init(members, 4, AF_INET);
    guests.port = members[0].identity.rendezvous.port_first;
    /* The mesh closes its listener at the end: a duplicate keeps the port open for late guests. */
    const int door = dup(members[0].config.listen_fd);
    assert_int_equal(pthread_create(&thread, NULL, pester, &guests), 0);
    job_run(members, 4);
    check_job(members, 4);
    assert_int_equal(pthread_join(thread, NULL), 0);
    for (uint32_t i = 0; i < GUESTS_MAX; i++) {
        close(guests.fds[i]);
    }
    close(door);
    job_fini(members, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_missing_rank_is_named_to_everyone),
        cmocka_unit_test(test_a_missing_rank_0_is_named_with_its_place),
        cmocka_unit_test(test_a_wrong_secret_is_refused_and_reported),
        cmocka_unit_test(test_version_skew_names_both_versions),
        cmocka_unit_test(test_a_rank_of_an_older_build_is_refused_with_both_versions),
        cmocka_unit_test(test_a_rank_taken_twice_is_named_to_everyone),
        cmocka_unit_test(test_other_settings_are_refused_for_everyone),
        cmocka_unit_test(test_other_numbers_of_servers_are_named_to_everyone),
        cmocka_unit_test(test_a_rank_in_the_wrong_role_is_named_to_everyone),
        cmocka_unit_test(test_a_job_without_workers_is_refused),
        cmocka_unit_test(test_another_size_is_refused),
        cmocka_unit_test(test_a_late_failure_of_one_rank_fails_all),
        cmocka_unit_test(test_a_crowd_of_strangers_does_not_harm_the_job),
        cmocka_unit_test(test_strangers_that_keep_connecting_do_not_harm_the_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
