/* SPDX-License-Identifier: Apache-2.0
 *
 * mesh_test.c - jobs that join: rendezvous of several kinds, late ranks, many ranks.
 *
 * Method: every rank establishes; then each pair proves its connection (support/mesh_job.h).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "support/mesh_job.h"

/* Both ends have every stream, under the same number, each under a key of its own. */
static void check_streams(const tt_mesh_peer *from, const tt_mesh_peer *to, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const tt_mesh_stream *sending = &from->streams[i];
        const tt_mesh_stream *receiving = &to->streams[i];
        assert_memory_equal(sending->send_key, receiving->receive_key, TT_SEAL_KEY_BYTES);
        check_pipe(sending->send_fd, receiving->receive_fd, i);
        for (uint32_t j = 0; j < i; j++) {
            assert_memory_not_equal(sending->send_key, from->streams[j].send_key,
                                    TT_SEAL_KEY_BYTES);
        }
    }
    assert_int_equal(from->streams[count].send_fd, -1);
    assert_int_equal(from->streams[count].receive_fd, -1);
}

static void mesh_of(uint32_t size, uint32_t ranks_per_host, int family)
{
    member *members = calloc(size, sizeof(*members));
    job_init(members, size, family);
    for (uint32_t rank = 0; rank < size; rank++) {
        members[rank].config.host_id = 10 + rank / ranks_per_host;
    }
    job_run(members, size);
    check_job(members, size);
    for (uint32_t rank = 0; rank < size; rank++) {
        for (uint32_t peer = 0; peer < size; peer++) {
            const tt_mesh_peer *entry = &members[rank].mesh.peers[peer];
            const bool same_host = rank / ranks_per_host == peer / ranks_per_host;
            assert_int_equal(entry->host_index, peer / ranks_per_host);
            assert_int_equal(entry->local_index, peer % ranks_per_host);
            assert_int_equal(entry->kind, rank == peer ? TT_MESH_SELF
                                                       : (same_host ? TT_MESH_LOCAL : TT_MESH_TCP));
        }
        assert_int_equal(members[rank].mesh.host_count,
                         (size + ranks_per_host - 1) / ranks_per_host);
    }
    job_fini(members, size);
    free(members);
}

/* Ranks 0 to 2 are workers, 3 to 5 servers: on host 10 one of them, on host 12 two. */
static void test_hosts_and_facts_are_those_of_workers(void **state)
{
    (void)state;
    enum { SIZE = 6, SERVERS = 3 };
    static const uint64_t hosts[SIZE] = {10, 10, 11, 12, 10, 12};
    member members[SIZE];
    job_init(members, SIZE, AF_INET);
    for (uint32_t rank = 0; rank < SIZE; rank++) {
        members[rank].config.host_id = hosts[rank];
        members[rank].config.server_count = SERVERS;
        members[rank].config.serves = rank >= SIZE - SERVERS;
        members[rank].config.can_share_memory = rank != 4;
        members[rank].config.facts = (tt_facts){.cores = {(uint8_t)(1u << rank)}};
    }
    job_run(members, SIZE);
    for (uint32_t rank = 0; rank < SIZE; rank++) {
        const tt_mesh *mesh = &members[rank].mesh;
        assert_int_equal(members[rank].status, TT_OK);
        assert_int_equal(mesh->worker_count, SIZE - SERVERS);
        assert_int_equal(mesh->host_count, 3);
        assert_int_equal(mesh->worker_host_count, 2);
        assert_int_equal(mesh->worker_local_count, hosts[rank] == 10 ? 2 : hosts[rank] == 11);
        assert_true(mesh->all_share_memory); /* though a server does not */
        assert_int_equal(mesh->hosts[0].rank_count, 2);
        assert_int_equal(mesh->hosts[0].core_count, 2);
        assert_int_equal(mesh->hosts[1].rank_count, 1);
        assert_int_equal(mesh->hosts[2].rank_count, 2);
        assert_int_equal(mesh->peers[4].local_index, 2);
        assert_int_equal(mesh->peers[3].host_index, 2);
    }
    job_fini(members, SIZE);
}

static void test_one_rank_is_a_mesh(void **state)
{
    (void)state;
    member self;
    job_init(&self, 1, AF_INET);
    job_run(&self, 1);
    assert_int_equal(self.status, TT_OK);
    assert_int_equal(self.mesh.local_count, 1);
    job_fini(&self, 1);
}

static void test_ranks_of_one_host_share_memory(void **state)
{
    (void)state;
    mesh_of(2, 2, AF_INET);
    mesh_of(5, 5, AF_INET);
    mesh_of(16, 16, AF_INET);
}

static void test_the_note_of_rank_0_reaches_every_rank(void **state)
{
    (void)state;
    enum { SIZE = 4 };
    member members[SIZE];
    static char note[TT_MESH_NOTE_BYTES_MAX];
    for (size_t i = 0; i < sizeof(note); i++) {
        note[i] = (char)('a' + i % 23);
    }
    job_init(members, SIZE, AF_INET);
    members[0].config.note = note;
    members[0].config.note_bytes = sizeof(note);
    members[1].config.note = "not used ";
    members[1].config.note_bytes = 9;
    job_run(members, SIZE);
    check_job(members, SIZE);
    for (uint32_t rank = 0; rank < SIZE; rank++) {
        assert_int_equal(members[rank].mesh.note_bytes, sizeof(note));
        assert_memory_equal(members[rank].mesh.note, note, sizeof(note));
    }
    job_fini(members, SIZE);
}

static void test_ranks_of_many_hosts_use_tcp(void **state)
{
    (void)state;
    mesh_of(2, 1, AF_INET);
    mesh_of(5, 1, AF_INET);
    mesh_of(16, 1, AF_INET);
}

static void test_hosts_of_several_ranks_use_both(void **state)
{
    (void)state;
    mesh_of(5, 2, AF_INET);
    mesh_of(16, 4, AF_INET);
}

static void test_ipv6_carries_a_mesh(void **state)
{
    (void)state;
    mesh_of(4, 2, AF_INET6);
}

static void test_ranks_that_cannot_share_memory_use_tcp(void **state)
{
    (void)state;
    member members[3];
    job_init(members, 3, AF_INET);
    members[1].config.can_share_memory = false;
    job_run(members, 3);
    check_job(members, 3);
    assert_int_equal(members[0].mesh.peers[1].kind, TT_MESH_TCP);
    assert_int_equal(members[0].mesh.peers[2].kind, TT_MESH_LOCAL);
    assert_int_equal(members[2].local_count, 3);
    job_fini(members, 3);
}

static void *establish_late(void *argument)
{
    /* Long enough that the others have failed to connect several times; nothing depends on it. */
    (void)poll(NULL, 0, 300);
    return establish(argument);
}

static void test_a_late_rank_0_is_found(void **state)
{
    (void)state;
    member members[3];
    pthread_t late;
    job_init(members, 3, AF_INET);
    close(members[0].config.listen_fd);
    members[0].config.listen_fd = -1; /* it opens its own listener, at the same port */
    members[0].absent = true;
    assert_int_equal(pthread_create(&late, NULL, establish_late, &members[0]), 0);
    job_run(members, 3);
    assert_int_equal(pthread_join(late, NULL), 0);
    members[0].absent = false;
    check_job(members, 3);
    job_fini(members, 3);
}

enum { RANGE_PORTS = 60 };

/* A port is bound at loopback: nobody else can listen there, and connections are refused at once
 * unless it listens itself. Returns -1 where it is taken. */
static int bind_port(uint16_t port)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0) {
        return fd;
    }
    close(fd);
    return -1;
}

/* Below the ports that the kernel gives to sockets that want any: those of programs beside this one
 * come and go. Returns the first port; every one of the range is bound. */
static uint16_t bind_range(int fds_out[RANGE_PORTS])
{
    for (uint16_t first = 12000; first < 32000; first += RANGE_PORTS) {
        uint32_t count = 0;
        while (count < RANGE_PORTS &&
               (fds_out[count] = bind_port((uint16_t)(first + count))) >= 0) {
            count++;
        }
        if (count == RANGE_PORTS) {
            return first;
        }
        while (count > 0) {
            close(fds_out[--count]);
        }
    }
    fail_msg("no %d ports in a row are free below 32000", RANGE_PORTS);
    return 0;
}

/* Rank 0 listens at the last port of a range. A pause after each closed port would add up to more
 * than the time there is. */
static void test_closed_ports_of_a_range_are_skipped_without_pauses(void **state)
{
    enum { TIMEOUT_MS = 8000 };
    (void)state;
    member members[2];
    int fds[RANGE_PORTS];
    job_init(members, 2, AF_INET);
    const uint16_t first = bind_range(fds);
    close(members[0].config.listen_fd);
    members[0].config.listen_fd = fds[RANGE_PORTS - 1];
    assert_int_equal(listen(members[0].config.listen_fd, 512), 0);
    for (uint32_t rank = 0; rank < 2; rank++) {
        tt_launch_rendezvous *meet = &members[rank].identity.rendezvous;
        meet->port_first = first;
        meet->port_count = RANGE_PORTS;
        members[rank].config.timeout_ms = TIMEOUT_MS;
    }
    job_run(members, 2);
    check_job(members, 2);
    job_fini(members, 2);
    for (uint32_t i = 0; i + 1 < RANGE_PORTS; i++) {
        close(fds[i]);
    }
}

/* Drops more connections than it may end in order, as a rank 0 whose places are taken. */
static void *drop_then_establish(void *argument)
{
    const member *self = argument;
    const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    for (int i = 0; i < 10; i++) {
        struct pollfd polled = {.fd = self->config.listen_fd, .events = POLLIN};
        assert_int_equal(poll(&polled, 1, 30000), 1);
        const int fd = accept(self->config.listen_fd, NULL, NULL);
        assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), 0);
        (void)close(fd);
    }
    return establish(argument);
}

static void test_a_dropped_rank_dials_until_it_is_accepted(void **state)
{
    (void)state;
    member members[2];
    pthread_t late;
    job_init(members, 2, AF_INET);
    members[0].absent = true;
    assert_int_equal(pthread_create(&late, NULL, drop_then_establish, &members[0]), 0);
    job_run(members, 2);
    assert_int_equal(pthread_join(late, NULL), 0);
    members[0].absent = false;
    check_job(members, 2);
    job_fini(members, 2);
}

static void test_a_cipher_is_used_where_both_ends_have_it(void **state)
{
    (void)state;
    member members[3];
    job_init(members, 3, AF_INET);
    members[0].config.has_aes = members[2].config.has_aes = true;
    job_run(members, 3);
    assert_true(members[0].mesh.peers[2].has_aes && members[2].mesh.peers[0].has_aes);
    assert_false(members[0].mesh.peers[1].has_aes || members[1].mesh.peers[2].has_aes);
    job_fini(members, 3);
}

static void test_no_socket_listens_after_joining(void **state)
{
    (void)state;
    member members[2];
    job_init(members, 2, AF_INET);
    job_run(members, 2);
    check_job(members, 2);
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port =
                                            htons(members[0].identity.rendezvous.port_first),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), -1);
    assert_int_equal(errno, ECONNREFUSED);
    close(fd);
    job_fini(members, 2);
}

static void test_ranks_find_each_other_through_a_directory(void **state)
{
    (void)state;
    char path[] = "/tmp/tutti-mesh-test-XXXXXX";
    assert_non_null(mkdtemp(path));
    member members[3];
    job_init(members, 3, AF_INET);
    close(members[0].config.listen_fd);
    members[0].config.listen_fd = -1;
    for (uint32_t rank = 0; rank < 3; rank++) {
        tt_launch_rendezvous *meet = &members[rank].identity.rendezvous;
        *meet = (tt_launch_rendezvous){.kind = TT_LAUNCH_RENDEZVOUS_FILE};
        strcpy(meet->path, path);
        members[rank].config.host_id = rank;
    }
    job_run(members, 3);
    check_job(members, 3);
    job_fini(members, 3);
    assert_int_equal(rmdir(path), 0); /* rank 0 left nothing behind */
}

/* Ends when the parent closes its socket. Never returns. */
static void be_rank_1(member *self)
{
    uint8_t byte;
    (void)establish(self);
    if (self->status == TT_OK) {
        while (recv(self->mesh.peers[0].socket_fd, &byte, 1, 0) < 0 && errno == EAGAIN) {
            struct pollfd polled = {.fd = self->mesh.peers[0].socket_fd, .events = POLLIN};
            (void)poll(&polled, 1, -1);
        }
    }
    _exit(self->status == TT_OK && !self->mesh.peers[0].same_process &&
                  self->mesh.peers[0].pid == getppid()
              ? 0
              : 1);
}

static void test_a_local_peers_pid_comes_from_the_kernel(void **state)
{
    (void)state;
    member members[2];
    job_init(members, 2, AF_INET);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        be_rank_1(&members[1]);
    }
    (void)establish(&members[0]);
    assert_int_equal(members[0].status, TT_OK);
    assert_int_equal(members[0].mesh.peers[1].pid, child);
    assert_false(members[0].mesh.peers[1].same_process);
    assert_int_not_equal(members[0].mesh.peers[0].process, members[0].mesh.peers[1].process);
    uint32_t owner = 99;
    assert_int_equal(pread(members[0].mesh.peers[1].segment_fd, &owner, 4, 0), 4);
    assert_int_equal(owner, 1);
    tt_mesh_fini(&members[0].mesh);
    close(members[0].segment_fd);
    int result = -1;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
}

static void test_sixty_four_ranks_on_eight_hosts_are_a_mesh(void **state)
{
    (void)state;
    mesh_of(64, 8, AF_INET);
}

static void test_every_pair_has_the_configured_number_of_streams(void **state)
{
    (void)state;
    member members[3];
    job_init(members, 3, AF_INET);
    for (uint32_t rank = 0; rank < 3; rank++) {
        members[rank].config.can_share_memory = false;
        members[rank].config.stream_count = 3;
    }
    job_run(members, 3);
    for (uint32_t a = 0; a < 3; a++) {
        assert_int_equal(members[a].status, TT_OK);
        for (uint32_t b = 0; b < 3; b++) {
            if (a != b) {
                check_streams(&members[a].mesh.peers[b], &members[b].mesh.peers[a], 3);
            }
        }
    }
    job_fini(members, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_pair_has_the_configured_number_of_streams),
        cmocka_unit_test(test_one_rank_is_a_mesh),
        cmocka_unit_test(test_hosts_and_facts_are_those_of_workers),
        cmocka_unit_test(test_ranks_of_one_host_share_memory),
        cmocka_unit_test(test_the_note_of_rank_0_reaches_every_rank),
        cmocka_unit_test(test_ranks_of_many_hosts_use_tcp),
        cmocka_unit_test(test_hosts_of_several_ranks_use_both),
        cmocka_unit_test(test_ipv6_carries_a_mesh),
        cmocka_unit_test(test_ranks_that_cannot_share_memory_use_tcp),
        cmocka_unit_test(test_a_late_rank_0_is_found),
        cmocka_unit_test(test_closed_ports_of_a_range_are_skipped_without_pauses),
        cmocka_unit_test(test_a_dropped_rank_dials_until_it_is_accepted),
        cmocka_unit_test(test_a_cipher_is_used_where_both_ends_have_it),
        cmocka_unit_test(test_no_socket_listens_after_joining),
        cmocka_unit_test(test_ranks_find_each_other_through_a_directory),
        cmocka_unit_test(test_a_local_peers_pid_comes_from_the_kernel),
        cmocka_unit_test(test_sixty_four_ranks_on_eight_hosts_are_a_mesh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
