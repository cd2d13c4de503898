/* SPDX-License-Identifier: Apache-2.0
 *
 * Goal: the client completes the PMI-1 protocol with a well-behaved server and fails cleanly with
 * any other. Method: a server thread on a socket pair replies from a script or from a store. */
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "launch/deadline.h"
#include "launch/pmi/pmi.h"
#include "launch/pmi/pmi_line.h"
#include "launch/socket.h"

enum { TIMEOUT_MS = 20000 };

/* Replies in order, one for each line received, until the script ends; then closes. */
typedef struct server {
    pthread_t thread;
    int fd;
    const char *const *script;
    char heard[4096];
} server;

static const char *const greeting[] = {
    "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n",
    "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=128\n",
    "cmd=my_kvsname rc=0 kvsname=kvs_7\n",
};

static bool hear_line(server *each)
{
    size_t count = strlen(each->heard);
    char c;
    while (count + 1 < sizeof(each->heard) && read(each->fd, &c, 1) == 1) {
        each->heard[count++] = c;
        each->heard[count] = '\0';
        if (c == '\n') {
            return true;
        }
    }
    return false;
}

/* One byte at a time: the client must not rely on how lines are cut. */
static void say(int fd, const char *text)
{
    for (const char *at = text; *at != '\0'; at++) {
        if (send(fd, at, 1, MSG_NOSIGNAL) != 1) {
            return;
        }
    }
}

static void *serve(void *argument)
{
    server *each = argument;
    for (size_t i = 0; each->script[i] != NULL && hear_line(each); i++) {
        say(each->fd, each->script[i]);
    }
    shutdown(each->fd, SHUT_RDWR);
    return NULL;
}

static int server_start(server *each, const char *const *script)
{
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    *each = (server){.fd = fds[1], .script = script};
    assert_int_equal(pthread_create(&each->thread, NULL, serve, each), 0);
    return fds[0];
}

static void server_stop(server *each)
{
    assert_int_equal(pthread_join(each->thread, NULL), 0);
    close(each->fd);
}

#define SCRIPT(...) \
    ((const char *const[]){greeting[0], greeting[1], greeting[2], __VA_ARGS__, NULL})

static void test_all_requests_with_a_good_server(void **state)
{
    (void)state;
    server each;
    tt_launch_pmi *pmi = NULL;
    tt_launch_why why = {""};
    char value[64];
    const int fd =
        server_start(&each, SCRIPT("cmd=put_result rc=0 msg=success\n", "cmd=barrier_out rc=0\n",
                                   "cmd=get_result rc=0 msg=success value=tcp://h:1=x\n",
                                   "cmd=finalize_ack rc=0\n"));
    assert_int_equal(tt_launch_pmi_adopt(fd, TIMEOUT_MS, &pmi, &why), TT_OK);
    assert_string_equal(tt_launch_pmi_job(pmi), "kvs_7");
    assert_int_equal(tt_launch_pmi_value_bytes_max(pmi), 127);
    assert_int_equal(tt_launch_pmi_put(pmi, "a-0", "here", &why), TT_OK);
    assert_int_equal(tt_launch_pmi_barrier(pmi, &why), TT_OK);
    assert_int_equal(tt_launch_pmi_get(pmi, "a-1", value, sizeof(value), &why), TT_OK);
    assert_string_equal(value, "tcp://h:1=x");
    tt_launch_pmi_destroy(pmi);
    server_stop(&each);
    assert_string_equal(each.heard, "cmd=init pmi_version=1 pmi_subversion=1\n"
                                    "cmd=get_maxes\n"
                                    "cmd=get_my_kvsname\n"
                                    "cmd=put kvsname=kvs_7 key=a-0 value=here\n"
                                    "cmd=barrier_in\n"
                                    "cmd=get kvsname=kvs_7 key=a-1\n"
                                    "cmd=finalize\n");
}

static void test_a_refused_request_is_reported_and_the_next_succeeds(void **state)
{
    (void)state;
    server each;
    tt_launch_pmi *pmi = NULL;
    tt_launch_why why = {""};
    char value[8];
    const int fd =
        server_start(&each, SCRIPT("cmd=get_result rc=-1 msg=key not found\n",
                                   "cmd=get_result rc=0 value=12345678\n", "cmd=finalize_ack\n"));
    assert_int_equal(tt_launch_pmi_adopt(fd, TIMEOUT_MS, &pmi, &why), TT_OK);
    assert_int_equal(tt_launch_pmi_get(pmi, "k", value, sizeof(value), &why), TT_ERR_REFUSED);
    assert_non_null(strstr(why.text, "key not found"));
    /* Too long for the caller's buffer: refused, not cut. */
    assert_int_equal(tt_launch_pmi_get(pmi, "k", value, sizeof(value), &why), TT_ERR_BAD_WIRE);
    tt_launch_pmi_destroy(pmi);
    server_stop(&each);
}

static void test_our_own_limits_are_checked_before_sending(void **state)
{
    (void)state;
    server each;
    tt_launch_pmi *pmi = NULL;
    tt_launch_why why = {""};
    char value[200];
    memset(value, 'v', sizeof(value));
    value[sizeof(value) - 1] = '\0';
    const int fd = server_start(&each, SCRIPT("cmd=finalize_ack\n"));
    assert_int_equal(tt_launch_pmi_adopt(fd, TIMEOUT_MS, &pmi, &why), TT_OK);
    assert_int_equal(tt_launch_pmi_put(pmi, "k", value, &why), TT_ERR_BAD_ARGUMENT);
    assert_int_equal(tt_launch_pmi_put(pmi, value, "v", &why), TT_ERR_BAD_ARGUMENT);
    assert_int_equal(tt_launch_pmi_put(pmi, "k", "v v", &why), TT_ERR_BAD_ARGUMENT);
    assert_int_equal(tt_launch_pmi_put(pmi, "k", "v\ncmd=abort", &why), TT_ERR_BAD_ARGUMENT);
    tt_launch_pmi_destroy(pmi);
    server_stop(&each);
    assert_null(strstr(each.heard, "put"));
}

static void test_bad_servers_end_the_connection(void **state)
{
    (void)state;
    static char endless[TT_LAUNCH_PMI_LINE_BYTES + 2];
    memset(endless, 'x', sizeof(endless) - 1);
    const char *const scripts[][4] = {
        {NULL},
        {"\n", NULL},
        {"cmd=maxes rc=0\n", NULL},
        {"cmd=response_to_init rc=-1\n", NULL},
        {endless, NULL},
        {greeting[0], "cmd=maxes keylen_max=1 vallen_max=1\n", NULL},
        {greeting[0], "cmd=maxes keylen_max=0\n", NULL},
        {greeting[0], greeting[1], "cmd=my_kvsname\n", NULL},
        {greeting[0], greeting[1], "cmd=my_kvsname kvsname=\n", NULL},
        {greeting[0], greeting[1], "cmd=my_kvsname kvsname=a\tb\n", NULL},
        {greeting[0], greeting[1], NULL},
    };
    for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++) {
        server each;
        tt_launch_pmi *pmi = NULL;
        tt_launch_why why = {""};
        const int fd = server_start(&each, scripts[i]);
        assert_true(tt_launch_pmi_adopt(fd, TIMEOUT_MS, &pmi, &why) < 0);
        assert_null(pmi);
        assert_non_null(strstr(why.text, "PMI server"));
        server_stop(&each);
    }
}

static void test_a_silent_server_ends_at_the_deadline(void **state)
{
    (void)state;
    int fds[2];
    tt_launch_pmi *pmi = NULL;
    tt_launch_why why = {""};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    assert_int_equal(tt_launch_pmi_adopt(fds[0], 1, &pmi, &why), TT_ERR_TIMED_OUT);
    close(fds[1]);
}

static const char *lookup_port(void *context, const char *variable)
{
    static const char *const id = "3";
    return strcmp(variable, "PMI_PORT") == 0 ? context
           : strcmp(variable, "PMI_ID") == 0 ? id
                                             : NULL;
}

static void test_initack_is_sent_first_over_tcp(void **state)
{
    (void)state;
    tt_launch_address_list list;
    tt_launch_listener listener;
    tt_launch_why why = {""};
    tt_launch_pmi *pmi = NULL;
    assert_int_equal(tt_launch_resolve("127.0.0.1", &list, &why), TT_OK);
    const tt_launch_listen_request request = {.address = list.addresses[0], .port_count = 1};
    assert_int_equal(tt_launch_listen(&request, &listener, &why), TT_OK);
    char port[32];
    (void)snprintf(port, sizeof(port), "127.0.0.1:%u", (unsigned)listener.port);
    const tt_launch_source source = {.lookup = lookup_port, .context = port};

    server each = {.script = (const char *const[]){
                       "cmd=initack\ncmd=set size=4\ncmd=set rank=3\ncmd=set debug=0\n",
                       greeting[0], greeting[1], greeting[2], "cmd=finalize_ack\n", NULL}};
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        /* The client in a child, so that the server's side can be waited for in order. */
        const tt_status status = tt_launch_pmi_create(&source, TIMEOUT_MS, &pmi, &why);
        tt_launch_pmi_destroy(pmi);
        const char verdict = status == TT_OK ? 'y' : 'n';
        _exit(write(fds[1], &verdict, 1) == 1 ? 0 : 1);
    }
    close(fds[1]);
    assert_int_equal(
        tt_launch_wait_fd(listener.fd, POLLIN, tt_launch_deadline_after_ms(TIMEOUT_MS)), TT_OK);
    each.fd = accept(listener.fd, NULL, NULL);
    assert_true(each.fd >= 0);
    (void)serve(&each);
    char verdict = 'n';
    assert_int_equal(read(fds[0], &verdict, 1), 1);
    assert_int_equal(verdict, 'y');
    assert_non_null(strstr(each.heard, "cmd=initack pmiid=3\n"));
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(fds[0]);
    close(each.fd);
    close(listener.fd);
}

static void test_missing_server_is_explained(void **state)
{
    (void)state;
    char port[] = "nocolon";
    tt_launch_source source = {.lookup = lookup_port, .context = port};
    tt_launch_pmi *pmi = NULL;
    tt_launch_why why = {""};
    assert_int_equal(tt_launch_pmi_create(&source, 1, &pmi, &why), TT_ERR_BAD_CONFIG);
    assert_non_null(strstr(why.text, "PMI_PORT"));
    source.context = NULL;
    assert_int_equal(tt_launch_pmi_create(&source, 1, &pmi, &why), TT_ERR_BAD_CONFIG);
    assert_non_null(strstr(why.text, "mpiexec"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_requests_with_a_good_server),
        cmocka_unit_test(test_a_refused_request_is_reported_and_the_next_succeeds),
        cmocka_unit_test(test_our_own_limits_are_checked_before_sending),
        cmocka_unit_test(test_bad_servers_end_the_connection),
        cmocka_unit_test(test_a_silent_server_ends_at_the_deadline),
        cmocka_unit_test(test_initack_is_sent_first_over_tcp),
        cmocka_unit_test(test_missing_server_is_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
