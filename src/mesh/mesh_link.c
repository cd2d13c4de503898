/* SPDX-License-Identifier: Apache-2.0
 *
 * mesh_link.c - phase 2: of each pair the higher rank dials the lower.
 */
#include <errno.h>
#include <netinet/in.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/base.h"
#include "mesh/mesh_internal.h"

static bool shares_memory(const tt_mesh_work *work, uint32_t peer)
{
    const tt_mesh_record *own = &work->records[work->mesh->rank];
    const tt_mesh_record *other = &work->records[peer];
    return own->host_id == other->host_id && (own->flags & TT_MESH_SHARES_MEMORY) != 0 &&
           (other->flags & TT_MESH_SHARES_MEMORY) != 0;
}

static int compare_hosts(const void *a, const void *b, void *records)
{
    const uint64_t host_a = ((const tt_mesh_record *)records)[*(const uint32_t *)a].host_id;
    const uint64_t host_b = ((const tt_mesh_record *)records)[*(const uint32_t *)b].host_id;
    if (host_a != host_b) {
        return host_a < host_b ? -1 : 1;
    }
    return *(const uint32_t *)a < *(const uint32_t *)b ? -1 : 1;
}

static uint64_t name_process(const tt_mesh_record *record)
{
    const uint64_t id = tt_launch_hash(record->host_id, &record->pid, sizeof(record->pid));
    return id != 0 ? id : 1;
}

/* Numbers hosts by their lowest rank, and ranks within a host. */
static tt_status number_hosts(tt_mesh_work *work)
{
    tt_mesh *mesh = work->mesh;
    uint32_t *order = malloc(mesh->size * sizeof(*order));
    if (order == NULL) {
        return tt_mesh_work_fail(work, TT_ERR_NO_MEMORY, "no memory for %u ranks", mesh->size);
    }
    for (uint32_t i = 0; i < mesh->size; i++) {
        order[i] = i;
    }
    qsort_r(order, mesh->size, sizeof(*order), compare_hosts, work->records);
    uint32_t leader = order[0];
    for (uint32_t i = 0; i < mesh->size; i++) {
        tt_mesh_peer *peer = &mesh->peers[order[i]];
        if (work->records[order[i]].host_id != work->records[leader].host_id) {
            leader = order[i];
        }
        peer->host_index = leader; /* for now: the lowest rank of the host */
        peer->local_index = leader == order[i] ? 0 : mesh->peers[order[i - 1]].local_index + 1;
    }
    free(order);
    mesh->host_count = mesh->worker_host_count = 0;
    mesh->local_count = mesh->worker_local_count = 0;
    mesh->worker_count = mesh->size - work->config->server_count;
    for (uint32_t rank = 0; rank < mesh->size; rank++) {
        tt_mesh_peer *peer = &mesh->peers[rank];
        peer->host_index = peer->host_index == rank ? mesh->host_count++
                                                    : mesh->peers[peer->host_index].host_index;
        mesh->local_count += work->records[rank].host_id == work->config->host_id;
        if (rank + 1 == mesh->worker_count) {
            mesh->worker_host_count = mesh->host_count;
            mesh->worker_local_count = mesh->local_count;
        }
        memcpy(peer->host, work->records[rank].host, sizeof(peer->host));
        peer->process = name_process(&work->records[rank]);
        peer->has_aes =
            (work->records[mesh->rank].flags & work->records[rank].flags & TT_MESH_HAS_AES) != 0;
    }
    return TT_OK;
}

/* Merges the facts of each host's workers: the union of cores, the largest card numbers. Servers
 * count where there are no workers: they wait for workers most of the time. */
static tt_status sum_up_hosts(tt_mesh_work *work)
{
    tt_mesh *mesh = work->mesh;
    uint8_t(*cores)[TT_FACTS_CORE_BYTES] = calloc(mesh->host_count, sizeof(*cores));
    if (cores == NULL) {
        return tt_mesh_work_fail(work, TT_ERR_NO_MEMORY, "no memory for %u hosts",
                                 mesh->host_count);
    }
    for (uint32_t rank = 0; rank < mesh->size; rank++) {
        const tt_facts *facts = &work->records[rank].facts;
        const uint32_t index = mesh->peers[rank].host_index;
        tt_host_facts *host = &mesh->hosts[index];
        if (rank >= mesh->worker_count && index < mesh->worker_host_count) {
            continue;
        }
        for (size_t i = 0; i < TT_FACTS_CORE_BYTES; i++) {
            cores[index][i] |= facts->cores[i];
        }
        host->rank_count++;
        host->core_count = tt_facts_core_count(cores[index]);
        host->card_count = (uint32_t)tt_max_u64(host->card_count, facts->card_count);
        host->card_mbits = (uint32_t)tt_max_u64(host->card_mbits, facts->card_mbits);
    }
    free(cores);
    return TT_OK;
}

/* Also if no other rank of this host shares memory: all ranks must agree whether memory is shared,
 * because algorithms are chosen by it. */
static void ask_for_segment(tt_mesh_work *work)
{
    tt_mesh *mesh = work->mesh;
    mesh->all_share_memory = true;
    for (uint32_t rank = 0; rank < mesh->worker_count; rank++) {
        const bool shares = (work->records[rank].flags & TT_MESH_SHARES_MEMORY) != 0;
        mesh->all_share_memory = mesh->all_share_memory && shares;
    }
    if (!shares_memory(work, mesh->rank) || work->config->segment == NULL) {
        return;
    }
    const tt_status status =
        work->config->segment(work->config->user, mesh->peers[mesh->rank].local_index,
                              mesh->local_count, &work->segment_fd);
    if (status != TT_OK) {
        (void)tt_mesh_work_fail(work, status,
                                "rank %u on %s could not create its shared memory: %s", mesh->rank,
                                work->records[mesh->rank].host, tt_status_text(status));
    }
}

/* The scope of a link-local address is our interface's number, not the peer's. */
static void scope_address(const tt_mesh_work *work, tt_launch_address *address)
{
    const tt_launch_address *own = &work->records[work->mesh->rank].address;
    if (tt_launch_address_is_link_local(address) && address->storage.ss_family == AF_INET6 &&
        own->storage.ss_family == AF_INET6) {
        ((struct sockaddr_in6 *)&address->storage)->sin6_scope_id =
            ((const struct sockaddr_in6 *)&own->storage)->sin6_scope_id;
    }
}

static void dial(tt_mesh_work *work, uint32_t peer, tt_hello_role role)
{
    tt_mesh_connection *connection = tt_mesh_connection_create(work);
    if (connection == NULL) {
        (void)tt_mesh_work_fail(work, TT_ERR_NO_MEMORY, "no memory to connect to rank %u", peer);
        return;
    }
    connection->outgoing = true;
    connection->peer = peer;
    connection->role = role;
    connection->local = role == TT_HELLO_LOCAL;
    if (connection->local) {
        struct sockaddr_un *address = (void *)&connection->address.storage;
        connection->address.bytes = tt_mesh_unix_address(work->records[peer].name, address);
    } else if (peer == TT_MESH_ROOT) {
        connection->address = work->root->address; /* it listens where we joined */
    } else {
        connection->address = work->records[peer].address;
        scope_address(work, &connection->address);
    }
    tt_mesh_connection_dial(work, connection);
}

void tt_mesh_link_start(tt_mesh_work *work)
{
    const uint32_t own = work->mesh->rank;
    work->linking = true;
    for (uint32_t rank = 0; rank < work->mesh->size; rank++) {
        work->joined[rank] = true;
    }
    work->deadline_ns = tt_launch_deadline_after_ms(
        work->timeout_ms + (tt_mesh_work_is_root(work) ? 0 : TT_MESH_GRACE_MS));
    if (number_hosts(work) != TT_OK || sum_up_hosts(work) != TT_OK) {
        return;
    }
    work->mesh->peers[own].kind = TT_MESH_SELF;
    ask_for_segment(work);
    for (uint32_t peer = 0; peer < own && work->status == TT_OK; peer++) {
        if (shares_memory(work, peer)) {
            dial(work, peer, TT_HELLO_LOCAL);
            continue;
        }
        for (uint32_t i = 0; i < work->stream_count; i++) {
            dial(work, peer, TT_HELLO_LINK_SEND);
            dial(work, peer, TT_HELLO_LINK_RECEIVE);
        }
    }
}

static bool we_send(const tt_mesh_connection *connection)
{
    return connection->outgoing == (connection->role == TT_HELLO_LINK_SEND);
}

/* The first stream without a connection in this direction, or NULL. */
static tt_mesh_stream *free_stream(const tt_mesh_work *work, uint32_t peer, bool is_sending)
{
    tt_mesh_stream *streams = work->mesh->peers[peer].streams;
    for (uint32_t i = 0; i < work->stream_count; i++) {
        if ((is_sending ? streams[i].send_fd : streams[i].receive_fd) < 0) {
            return &streams[i];
        }
    }
    return NULL;
}

/* A link that the higher rank dials, of the kind that the table requires, and still missing. */
static bool is_wanted(const tt_mesh_work *work, const tt_mesh_connection *connection)
{
    const uint32_t own = work->mesh->rank;
    const uint32_t peer = connection->peer;
    if (peer >= work->mesh->size || !work->linking ||
        (connection->outgoing ? peer >= own : peer <= own) ||
        (connection->role == TT_HELLO_LOCAL) != shares_memory(work, peer)) {
        return false;
    }
    if (connection->role == TT_HELLO_LOCAL) {
        return work->mesh->peers[peer].socket_fd < 0;
    }
    return free_stream(work, peer, we_send(connection)) != NULL;
}

void tt_mesh_link_greeted(tt_mesh_work *work, tt_mesh_connection *connection)
{
    if (!is_wanted(work, connection)) {
        char name[96];
        tt_log_write(work->config->log, TT_LOG_WARN,
                     "closed a connection from %s: rank %u must not open a link of role %d",
                     tt_mesh_connection_name(connection, name), connection->peer,
                     (int)connection->role);
        tt_mesh_connection_close(connection);
        return;
    }
    /* Authenticated: from here only the mesh's own deadline applies. */
    connection->deadline_ns = UINT64_MAX;
    connection->phase = TT_MESH_PHASE_PASSING;
}

/* The other end closed, perhaps because its accept queue was full. The dialler dials again. */
static void passing_broke(tt_mesh_work *work, tt_mesh_connection *connection)
{
    if (connection->outgoing) {
        (void)snprintf(connection->cause, sizeof(connection->cause), "connection closed");
        tt_mesh_connection_retry(work, connection);
    } else {
        tt_mesh_connection_close(connection);
    }
}

typedef union descriptor_room {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
} descriptor_room;

/* One byte: 1 with a descriptor beside it, 0 without. */
static void pass_own(tt_mesh_work *work, tt_mesh_connection *connection)
{
    const bool with_segment = connection->local && work->segment_fd >= 0;
    uint8_t byte = with_segment;
    struct iovec piece = {.iov_base = &byte, .iov_len = 1};
    descriptor_room room;
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    if (with_segment) {
        memset(&room, 0, sizeof(room));
        message.msg_control = room.bytes;
        message.msg_controllen = sizeof(room.bytes);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &work->segment_fd, sizeof(int));
    }
    const ssize_t sent = sendmsg(connection->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent == 1) {
        connection->passed = true;
    } else if (sent < 0 && errno != EAGAIN && errno != EINTR) {
        passing_broke(work, connection);
    }
}

static void take_theirs(tt_mesh_work *work, tt_mesh_connection *connection)
{
    uint8_t byte = 0;
    struct iovec piece = {.iov_base = &byte, .iov_len = 1};
    descriptor_room room; /* for one descriptor: the kernel closes any more */
    memset(&room, 0, sizeof(room));
    struct msghdr message = {.msg_iov = &piece,
                             .msg_iovlen = 1,
                             .msg_control = room.bytes,
                             .msg_controllen = sizeof(room.bytes)};
    const ssize_t received = recvmsg(connection->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (received < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
        return;
    }
    const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (received == 1 && header != NULL && header->cmsg_level == SOL_SOCKET &&
        header->cmsg_type == SCM_RIGHTS && header->cmsg_len == CMSG_LEN(sizeof(int))) {
        memcpy(&connection->received_fd, CMSG_DATA(header), sizeof(int));
    }
    if ((message.msg_flags & MSG_CTRUNC) != 0) {
        (void)tt_mesh_work_fail(work, TT_ERR_NO_RESOURCE,
                                "rank %u has no descriptor left for the memory of rank %u; raise "
                                "the limit of open files (ulimit -n)",
                                work->mesh->rank, connection->peer);
        return;
    }
    if (received != 1 || byte > 1 || (byte == 1) != (connection->received_fd >= 0)) {
        passing_broke(work, connection);
        return;
    }
    connection->received = true;
}

/* Connections complete in any order; both ends number them by their keys, which both have. */
static void number_streams(tt_mesh_stream *streams, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        for (uint32_t j = i; j > 0; j--) {
            tt_mesh_stream *low = &streams[j - 1], *high = &streams[j];
            tt_mesh_stream kept = *low;
            if (memcmp(low->send_key, high->send_key, TT_SEAL_KEY_BYTES) > 0) {
                low->send_fd = high->send_fd;
                high->send_fd = kept.send_fd;
                memcpy(low->send_key, high->send_key, TT_SEAL_KEY_BYTES);
                memcpy(high->send_key, kept.send_key, TT_SEAL_KEY_BYTES);
            }
            if (memcmp(low->receive_key, high->receive_key, TT_SEAL_KEY_BYTES) > 0) {
                low->receive_fd = high->receive_fd;
                high->receive_fd = kept.receive_fd;
                memcpy(low->receive_key, high->receive_key, TT_SEAL_KEY_BYTES);
                memcpy(high->receive_key, kept.receive_key, TT_SEAL_KEY_BYTES);
            }
            sodium_memzero(&kept, sizeof(kept));
        }
    }
}

static void link_done(tt_mesh_work *work, tt_mesh_connection *connection)
{
    tt_mesh_peer *peer = &work->mesh->peers[connection->peer];
    if (!is_wanted(work, connection)) {
        tt_mesh_connection_close(connection); /* another of the same kind was faster */
        return;
    }
    if (connection->local) {
        peer->kind = TT_MESH_LOCAL;
        peer->socket_fd = connection->fd;
        peer->segment_fd = connection->received_fd;
        peer->pid = connection->pid;
        peer->same_process = connection->pid == getpid();
        memcpy(peer->streams[0].send_key, connection->keys.send, TT_SEAL_KEY_BYTES);
        memcpy(peer->streams[0].receive_key, connection->keys.receive, TT_SEAL_KEY_BYTES);
    } else if (we_send(connection)) {
        tt_mesh_stream *stream = free_stream(work, connection->peer, true);
        peer->kind = TT_MESH_TCP;
        stream->send_fd = connection->fd;
        memcpy(stream->send_key, connection->keys.send, TT_SEAL_KEY_BYTES);
    } else {
        tt_mesh_stream *stream = free_stream(work, connection->peer, false);
        peer->kind = TT_MESH_TCP;
        stream->receive_fd = connection->fd;
        memcpy(stream->receive_key, connection->keys.receive, TT_SEAL_KEY_BYTES);
    }
    connection->fd = -1;
    connection->received_fd = -1;
    tt_mesh_connection_close(connection);
    const bool has_streams = free_stream(work, connection->peer, true) == NULL &&
                             free_stream(work, connection->peer, false) == NULL;
    if (has_streams) {
        number_streams(peer->streams, work->stream_count);
    }
    work->linked_count += peer->kind == TT_MESH_LOCAL || has_streams;
}

void tt_mesh_link_pass(tt_mesh_work *work, tt_mesh_connection *connection)
{
    if (!tt_mesh_connection_flush(connection)) {
        passing_broke(work, connection);
        return;
    }
    if (connection->out_end == 0 && !connection->passed) {
        pass_own(work, connection);
    }
    if (connection->phase == TT_MESH_PHASE_PASSING && !connection->received) {
        take_theirs(work, connection);
    }
    if (connection->phase == TT_MESH_PHASE_PASSING && connection->passed && connection->received) {
        link_done(work, connection);
    }
}
