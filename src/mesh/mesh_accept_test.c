/* SPDX-License-Identifier: Apache-2.0
 *
 * mesh_accept_test.c - the Unix socket accepts only processes of the same user.
 *
 * Method: a child connects, as this user or as another one, before accept is called; the kernel
 * keeps its user. With --bug NAME (a build with planted bugs) the test must fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/plant.h"
#include "mesh/mesh_internal.h"

enum { CONNECTIONS_MAX = 4, NOBODY = 65534 };

typedef struct door {
    tt_launch_identity identity;
    tt_log log;
    tt_mesh_config config;
    tt_mesh mesh;
    tt_launch_why why;
    tt_mesh_connection *connections[CONNECTIONS_MAX];
    tt_mesh_work work;
    struct sockaddr_un address;
    socklen_t address_bytes;
    int listen_fd;
    char said[256];
} door;

static void keep_line(void *user, int level, const char *text)
{
    door *self = user;
    (void)level;
    (void)snprintf(self->said, sizeof(self->said), "%s", text);
}

static void door_init(door *self)
{
    memset(self, 0, sizeof(*self));
    self->identity = (tt_launch_identity){.rank = 0, .size = 2, .job_id = "job-7"};
    self->log = (tt_log){.level = TT_LOG_WARN, .write = keep_line, .user = self};
    self->config = (tt_mesh_config){.identity = &self->identity, .log = &self->log};
    self->mesh = (tt_mesh){.rank = 0, .size = 2};
    self->work = (tt_mesh_work){.config = &self->config,
                                .mesh = &self->mesh,
                                .why = &self->why,
                                .has_secret = true,
                                .connections = self->connections,
                                .connection_max = CONNECTIONS_MAX};
    self->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(self->listen_fd >= 0);
    self->address.sun_family = AF_UNIX;
    self->address_bytes = sizeof(self->address);
    assert_int_equal(/* the kernel chooses an abstract name */
                     bind(self->listen_fd, (struct sockaddr *)&self->address, sizeof(sa_family_t)),
                     0);
    assert_int_equal(
        getsockname(self->listen_fd, (struct sockaddr *)&self->address, &self->address_bytes), 0);
    assert_int_equal(listen(self->listen_fd, 4), 0);
}

static void door_fini(door *self)
{
    for (size_t i = 0; i < self->work.connection_count; i++) {
        tt_mesh_connection_destroy(self->connections[i]);
    }
    close(self->listen_fd);
}

/* A child that runs as `user`; -1: this process may not create one. */
static pid_t guest_enter(const door *self, uid_t user)
{
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        const bool is_there =
            setuid(user) == 0 &&
            connect(fd, (const struct sockaddr *)&self->address, self->address_bytes) == 0;
        _exit(write(ready[1], is_there ? "y" : "n", 1) == 1 ? 0 : 1);
    }
    char answer = 0;
    close(ready[1]);
    assert_int_equal(read(ready[0], &answer, 1), 1);
    close(ready[0]);
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    return answer == 'y' ? child : -1;
}

static void test_a_process_of_this_user_is_accepted(void **state)
{
    (void)state;
    door self;
    door_init(&self);
    const pid_t guest = guest_enter(&self, geteuid());
    assert_true(guest > 0);
    tt_mesh_accept(&self.work, self.listen_fd, true);
    assert_int_equal(self.work.connection_count, 1);
    assert_int_equal(self.connections[0]->pid, guest);
    assert_null(strstr(self.said, "another user"));
    door_fini(&self);
}

static void test_a_process_of_another_user_is_refused(void **state)
{
    (void)state;
    door self;
    door_init(&self);
    const bool is_there = guest_enter(&self, NOBODY) > 0;
    tt_mesh_accept(&self.work, self.listen_fd, true);
    const size_t count = self.work.connection_count;
    const bool is_told = strstr(self.said, "another user") != NULL;
    door_fini(&self);
    if (!is_there) {
        skip(); /* only root can become another user */
    }
    assert_int_equal(count, 0);
    assert_true(is_told);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_process_of_this_user_is_accepted),
        cmocka_unit_test(test_a_process_of_another_user_is_refused),
    };
    if (argc == 3 && strcmp(argv[1], "--bug") == 0 && !tt_plant_choose(argv[2])) {
        (void)fprintf(stderr, "no planted bug is called '%s' here\n", argv[2]);
        return 99; /* cmocka returns how many failed */
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
