/* SPDX-License-Identifier: Apache-2.0
 *
 * mesh_job.h - all ranks of a job as threads of this process, over real sockets.
 *
 * A test sets up a job, changes the settings under test, runs it, and checks each member's mesh, or
 * the error in its place. Each pair proves its connection by sending, over the plain descriptors, a
 * byte that only the other end can know.
 *
 * Layer:   tests.
 * Threads: job_run starts one for each rank and waits for them.
 * Memory:  the caller's array of members; job_fini closes their descriptors.
 */
#ifndef TUTTI_TESTS_SUPPORT_MESH_JOB_H
#define TUTTI_TESTS_SUPPORT_MESH_JOB_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/base.h"
#include "mesh/mesh.h"

typedef struct member {
    tt_launch_identity identity;
    tt_launch_source source;
    tt_mesh_config config;
    uint8_t secret[32];
    tt_mesh mesh;
    tt_launch_why why;
    tt_status status;
    int segment_fd;
    uint32_t local_index, local_count;
    bool absent;
    pthread_t thread;
} member;

static inline const char *no_variable(void *context, const char *variable)
{
    (void)context, (void)variable;
    return NULL;
}

/* A memfd that holds its owner's rank. */
static inline tt_status make_segment(void *user, uint32_t local_index, uint32_t local_count,
                                     int *fd_out)
{
    member *self = user;
    self->local_index = local_index;
    self->local_count = local_count;
    self->segment_fd = memfd_create("segment", MFD_CLOEXEC);
    if (self->segment_fd < 0 || write(self->segment_fd, &self->identity.rank, 4) != 4) {
        return TT_ERR_SYSTEM;
    }
    *fd_out = self->segment_fd;
    return TT_OK;
}

static inline int listener_create(int family, uint16_t *port_out)
{
    struct sockaddr_in6 address = {.sin6_family = (sa_family_t)family};
    socklen_t bytes = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(address);
    if (family == AF_INET) {
        ((struct sockaddr_in *)&address)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    } else {
        address.sin6_addr = in6addr_loopback;
    }
    const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, bytes), 0);
    assert_int_equal(listen(fd, 512), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &bytes), 0);
    *port_out = ntohs(address.sin6_port); /* at the same place in both */
    return fd;
}

static inline void job_init(member *members, uint32_t size, int family)
{
    uint16_t port;
    const int listen_fd = listener_create(family, &port);
    static const char *const setting_names[TT_MESH_SETTINGS_MAX] = {"A", "B"};
    memset(members, 0, size * sizeof(*members));
    for (uint32_t rank = 0; rank < size; rank++) {
        member *self = &members[rank];
        self->identity = (tt_launch_identity){.rank = rank, .size = size, .job_id = "job-7"};
        self->identity.rendezvous = (tt_launch_rendezvous){
            .kind = TT_LAUNCH_RENDEZVOUS_TCP, .port_first = port, .port_count = 1};
        strcpy(self->identity.rendezvous.host, family == AF_INET ? "127.0.0.1" : "::1");
        self->source.lookup = no_variable;
        memset(self->secret, 0x42, sizeof(self->secret));
        self->segment_fd = -1;
        self->config = (tt_mesh_config){.identity = &self->identity,
                                        .source = &self->source,
                                        .secret = self->secret,
                                        .listen_fd = rank == 0 ? listen_fd : -1,
                                        .host_id = 1,
                                        .can_share_memory = true,
                                        .settings = {.digest = 5},
                                        .setting_names = setting_names,
                                        .timeout_ms = 60000,
                                        .segment = make_segment,
                                        .user = self};
    }
}

static inline void *establish(void *argument)
{
    member *self = argument;
    self->status = tt_mesh_establish(&self->config, &self->mesh, &self->why);
    return NULL;
}

static inline void job_run(member *members, uint32_t size)
{
    for (uint32_t rank = 0; rank < size; rank++) {
        if (!members[rank].absent) {
            assert_int_equal(pthread_create(&members[rank].thread, NULL, establish, &members[rank]),
                             0);
        }
    }
    for (uint32_t rank = 0; rank < size; rank++) {
        if (!members[rank].absent) {
            assert_int_equal(pthread_join(members[rank].thread, NULL), 0);
        }
    }
}

static inline void job_fini(member *members, uint32_t size)
{
    for (uint32_t rank = 0; rank < size; rank++) {
        if (!members[rank].absent && members[rank].status == TT_OK) {
            tt_mesh_fini(&members[rank].mesh);
        }
        if (members[rank].segment_fd >= 0) {
            close(members[rank].segment_fd);
        }
    }
}

/* Rank i writes byte 100 + i, and rank j must read it. */
static inline void check_pipe(int from_fd, int to_fd, uint32_t rank)
{
    uint8_t byte = (uint8_t)(100 + rank);
    assert_int_equal(send(from_fd, &byte, 1, MSG_NOSIGNAL), 1);
    struct pollfd polled = {.fd = to_fd, .events = POLLIN};
    assert_int_equal(poll(&polled, 1, 5000), 1);
    byte = 0;
    assert_int_equal(recv(to_fd, &byte, 1, 0), 1);
    assert_int_equal(byte, 100 + rank);
}

static inline void check_pair(const member *a, const member *b)
{
    const tt_mesh_peer *at_a = &a->mesh.peers[b->identity.rank];
    const tt_mesh_peer *at_b = &b->mesh.peers[a->identity.rank];
    assert_int_equal(at_a->kind, at_b->kind);
    assert_memory_equal(at_a->streams[0].send_key, at_b->streams[0].receive_key, TT_SEAL_KEY_BYTES);
    assert_memory_equal(at_a->streams[0].receive_key, at_b->streams[0].send_key, TT_SEAL_KEY_BYTES);
    assert_memory_not_equal(at_a->streams[0].send_key, at_a->streams[0].receive_key,
                            TT_SEAL_KEY_BYTES);
    if (at_a->kind == TT_MESH_TCP) {
        check_pipe(at_a->streams[0].send_fd, at_b->streams[0].receive_fd, a->identity.rank);
        check_pipe(at_b->streams[0].send_fd, at_a->streams[0].receive_fd, b->identity.rank);
        assert_int_equal(at_a->segment_fd, -1);
        return;
    }
    assert_int_equal(at_a->kind, TT_MESH_LOCAL);
    check_pipe(at_a->socket_fd, at_b->socket_fd, a->identity.rank);
    check_pipe(at_b->socket_fd, at_a->socket_fd, b->identity.rank);
    assert_int_equal(at_a->pid, getpid());
    assert_true(at_a->same_process && at_b->same_process);
    assert_true(at_a->process != 0 && at_a->process == at_b->process);
    uint32_t owner = 99;
    assert_int_equal(pread(at_a->segment_fd, &owner, 4, 0), 4);
    assert_int_equal(owner, b->identity.rank);
}

static inline void check_job(const member *members, uint32_t size)
{
    for (uint32_t a = 0; a < size; a++) {
        if (members[a].status != TT_OK) {
            print_message("rank %u: %s\n", a, members[a].why.text);
        }
        assert_int_equal(members[a].status, TT_OK);
    }
    for (uint32_t a = 0; a < size; a++) {
        assert_int_equal(members[a].mesh.incarnation, members[0].mesh.incarnation);
        assert_int_equal(members[a].mesh.peers[a].kind, TT_MESH_SELF);
        for (uint32_t b = a + 1; b < size; b++) {
            check_pair(&members[a], &members[b]);
        }
    }
}

#endif
