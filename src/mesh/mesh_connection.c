/* SPDX-License-Identifier: Apache-2.0
 *
 * mesh_connection.c - one connection: dial, handshake, retry, and reading and writing after it.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
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

tt_mesh_connection *tt_mesh_connection_create(tt_mesh_work *work)
{
    if (work->connection_count == work->connection_max) {
        return NULL;
    }
    tt_mesh_connection *connection = calloc(1, sizeof(*connection));
    if (connection == NULL) {
        return NULL;
    }
    connection->fd = -1;
    connection->received_fd = -1;
    connection->created_ns = tt_launch_now_ns();
    work->connections[work->connection_count++] = connection;
    return connection;
}

static void drop_socket(tt_mesh_connection *connection)
{
    if (connection->fd >= 0) {
        (void)close(connection->fd);
    }
    if (connection->received_fd >= 0) {
        (void)close(connection->received_fd);
    }
    connection->fd = -1;
    connection->received_fd = -1;
    connection->out_begin = connection->out_end = 0;
    connection->passed = connection->received = connection->was_reset = false;
    tt_handshake_fini(&connection->handshake);
}

void tt_mesh_connection_close(tt_mesh_connection *connection)
{
    drop_socket(connection);
    connection->phase = TT_MESH_PHASE_DONE;
}

void tt_mesh_connection_destroy(tt_mesh_connection *connection)
{
    drop_socket(connection);
    tt_seal_fini(&connection->seal_in);
    tt_seal_fini(&connection->seal_out);
    free(connection->in);
    free(connection->out);
    sodium_memzero(connection, sizeof(*connection));
    free(connection);
}

const char *tt_mesh_connection_name(const tt_mesh_connection *connection, char text[96])
{
    if (connection->local) {
        (void)snprintf(text, 96, "local process %d", (int)connection->pid);
        return text;
    }
    char host[TT_LAUNCH_ADDRESS_TEXT_BYTES];
    tt_launch_address_format(&connection->address, host);
    const bool ipv6 = connection->address.storage.ss_family == AF_INET6;
    const struct sockaddr_in *any = (const void *)&connection->address.storage;
    (void)snprintf(text, 96, ipv6 ? "[%s]:%u" : "%s:%u", host, ntohs(any->sin_port));
    return text;
}

short tt_mesh_connection_events(const tt_mesh_connection *connection)
{
    switch (connection->phase) {
    case TT_MESH_PHASE_WAITING:
    case TT_MESH_PHASE_DONE:
        return 0;
    case TT_MESH_PHASE_CONNECTING:
        return POLLOUT;
    case TT_MESH_PHASE_PASSING:
        return (short)(POLLIN | (connection->passed ? 0 : POLLOUT));
    default:
        break;
    }
    return (short)(POLLIN | (connection->out_begin < connection->out_end ? POLLOUT : 0));
}

bool tt_mesh_connection_flush(tt_mesh_connection *connection)
{
    while (connection->out_begin < connection->out_end) {
        const ssize_t sent =
            send(connection->fd, connection->out + connection->out_begin,
                 connection->out_end - connection->out_begin, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR) {
            continue;
        }
        if (sent < 0) {
            connection->was_reset = errno != EAGAIN && errno != EWOULDBLOCK;
            return !connection->was_reset;
        }
        connection->out_begin += (size_t)sent;
    }
    connection->out_begin = connection->out_end = 0;
    return true;
}

/* A closed port fails at once: all ports of a range together are one attempt. */
static void retry(tt_mesh_work *work, tt_mesh_connection *connection, bool is_port_closed)
{
    TT_ASSERT(connection->outgoing);
    drop_socket(connection);
    const bool has_next = connection == work->root && tt_mesh_place_next(work, connection);
    connection->phase = TT_MESH_PHASE_WAITING;
    if (has_next && is_port_closed) {
        connection->deadline_ns = tt_launch_now_ns();
        return;
    }
    const uint32_t doublings = (uint32_t)tt_min_u64(connection->attempt, 10);
    const uint64_t delay_ms =
        tt_min_u64((uint64_t)TT_MESH_RETRY_MS_FIRST << doublings, TT_MESH_RETRY_MS_LAST);
    connection->attempt++;
    connection->deadline_ns = tt_launch_deadline_after_ms(delay_ms);
}

void tt_mesh_connection_retry(tt_mesh_work *work, tt_mesh_connection *connection)
{
    retry(work, connection, false);
}

static void attempt_failed(tt_mesh_work *work, tt_mesh_connection *connection, int error)
{
    char name[96];
    char text[64];
    (void)snprintf(connection->cause, sizeof(connection->cause), "%s: %s",
                   tt_mesh_connection_name(connection, name),
                   strerror_r(error, text, sizeof(text)));
    retry(work, connection, error == ECONNREFUSED);
}

/* A Unix peer must be a process of the same user, as the kernel reports it. */
static bool credentials_are_ours(tt_mesh_connection *connection)
{
    struct ucred credentials;
    socklen_t bytes = sizeof(credentials);
    if (getsockopt(connection->fd, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) != 0) {
        return false;
    }
    connection->pid = credentials.pid;
    return credentials.uid == geteuid();
}

void tt_mesh_connection_dial(tt_mesh_work *work, tt_mesh_connection *connection)
{
    const struct sockaddr *address = (const struct sockaddr *)&connection->address.storage;
    connection->fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (connection->fd < 0) {
        (void)tt_mesh_work_fail(work, TT_ERR_NO_RESOURCE,
                                "rank %u has no descriptor left for rank %u: %s; raise the limit "
                                "of open files (ulimit -n)",
                                work->mesh->rank, connection->peer, strerror(errno));
        return;
    }
    connection->phase = TT_MESH_PHASE_CONNECTING;
    if (connect(connection->fd, address, connection->address.bytes) == 0) {
        tt_mesh_connection_progress(work, connection);
    } else if (errno != EINPROGRESS && errno != EINTR) {
        attempt_failed(work, connection, errno);
    }
}

static void fill_random(void *user, uint8_t *bytes, size_t count)
{
    (void)user;
    randombytes_buf(bytes, count);
}

/* Rank 0 refuses ranks that join after the table was sent: their rank is taken. */
static tt_hello_refusal judge(void *user, const tt_hello *peer)
{
    const tt_mesh_work *work = user;
    if (peer->role == TT_HELLO_RENDEZVOUS) {
        return work->linking ? TT_REFUSAL_DUPLICATE_RANK : TT_REFUSAL_NONE;
    }
    return peer->rank < work->mesh->size ? TT_REFUSAL_NONE : TT_REFUSAL_WRONG_RANK;
}

static uint32_t roles_accepted(const tt_mesh_work *work, const tt_mesh_connection *connection)
{
    if (connection->local) {
        return 1u << TT_HELLO_LOCAL;
    }
    uint32_t roles = tt_mesh_work_is_root(work) ? 1u << TT_HELLO_RENDEZVOUS : 0;
    if (work->linking) {
        roles |= 1u << TT_HELLO_LINK_SEND | 1u << TT_HELLO_LINK_RECEIVE;
    }
    return roles;
}

void tt_mesh_connection_greet(tt_mesh_work *work, tt_mesh_connection *connection)
{
    const tt_mesh_config *config = work->config;
    TT_ASSERT(work->has_secret);
    tt_handshake_setup setup = {
        .side = connection->outgoing ? TT_NOISE_INITIATOR : TT_NOISE_RESPONDER,
        .psk = work->secret,
        .version_min = config->version_min != 0 ? config->version_min : TT_PROTOCOL_VERSION_MIN,
        .version_max = config->version_max != 0 ? config->version_max : TT_PROTOCOL_VERSION_MAX,
        .self = {.role = connection->outgoing ? connection->role : TT_HELLO_RENDEZVOUS,
                 .rank = work->mesh->rank,
                 .world_size = work->mesh->size,
                 .incarnation =
                     work->linking ? work->mesh->incarnation : TT_HELLO_INCARNATION_UNKNOWN,
                 .library = "0.1.0"},
        .roles_accepted = roles_accepted(work, connection),
        .expected_rank = connection->peer,
        .random = {.fill = fill_random},
        .judge = connection->outgoing ? NULL : judge,
        .judge_user = work,
    };
    memcpy(setup.fingerprint, work->fingerprint, sizeof(setup.fingerprint));
    if (tt_handshake_init(&connection->handshake, &setup) != TT_OK) {
        (void)tt_mesh_work_fail(work, TT_ERR_NO_RESOURCE, "libsodium cannot be initialised");
        return;
    }
    connection->phase = TT_MESH_PHASE_GREETING;
}

static void connected(tt_mesh_work *work, tt_mesh_connection *connection)
{
    int error = 0;
    socklen_t bytes = sizeof(error);
    if (getsockopt(connection->fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) {
        error = errno;
    }
    struct sockaddr_storage name;
    socklen_t name_bytes = sizeof(name);
    if (error == 0 && getpeername(connection->fd, (struct sockaddr *)&name, &name_bytes) != 0) {
        return; /* not connected yet */
    }
    if (error != 0) {
        attempt_failed(work, connection, error);
        return;
    }
    if (connection->local && !credentials_are_ours(connection)) {
        (void)tt_mesh_work_fail(work, TT_ERR_REFUSED,
                                "rank %u found a process of another user at the local socket of "
                                "rank %u; start all ranks as one user",
                                work->mesh->rank, connection->peer);
        return;
    }
    const int one = 1;
    if (!connection->local) {
        (void)setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    }
    tt_mesh_connection_greet(work, connection);
}

/* A reset means that rank 0 needed the place for another connection, or is gone: retry. Rank 0
 * refuses a rank without the secret by an orderly end; but so may another program that listens at
 * one of rank 0's ports. */
static bool may_be_silent_again(const tt_mesh_work *work, tt_mesh_connection *connection)
{
    const size_t places = work->meet_addresses.count * work->meet.port_count;
    return connection->was_reset || work->linking || work->has_store ||
           ++connection->silent_count < TT_MESH_SILENT_MAX * places;
}

/* Our handshake was refused. Retries if another program may have been reached; else fails. */
static void we_are_refused(tt_mesh_work *work, tt_mesh_connection *connection)
{
    char name[96];
    char text[TT_HANDSHAKE_TEXT_BYTES];
    (void)tt_mesh_connection_name(connection, name);
    (void)tt_handshake_explain(&connection->handshake, text, sizeof(text));
    const bool silent = tt_handshake_refusal(&connection->handshake) == TT_REFUSAL_CLOSED;
    const bool stranger = tt_handshake_refusal(&connection->handshake) == TT_REFUSAL_BAD_MAGIC ||
                          tt_handshake_refusal(&connection->handshake) == TT_REFUSAL_WRONG_JOB;
    if (silent ? may_be_silent_again(work, connection) : stranger) {
        (void)snprintf(connection->cause, sizeof(connection->cause), "%s: %.90s", name, text);
        tt_mesh_connection_retry(work, connection);
        return;
    }
    (void)tt_mesh_work_fail(work, TT_ERR_REFUSED, "rank %u was refused by rank %u at %s: %s",
                            work->mesh->rank, connection->peer, name, text);
}

static void refused(tt_mesh_work *work, tt_mesh_connection *connection)
{
    if (connection->outgoing) {
        we_are_refused(work, connection);
        return;
    }
    tt_mesh_note_refusal(work, connection);
    connection->phase = TT_MESH_PHASE_LEAVING;
}

static void greeted(tt_mesh_work *work, tt_mesh_connection *connection)
{
    tt_handshake_result result;
    const tt_status status = tt_handshake_take_result(&connection->handshake, &result);
    TT_ASSERT(status == TT_OK);
    connection->keys = result.keys;
    connection->peer = result.peer.rank;
    connection->role = result.peer.role;
    sodium_memzero(&result.keys, sizeof(result.keys));
    tt_handshake_fini(&connection->handshake);
    if (connection->role == TT_HELLO_RENDEZVOUS) {
        tt_mesh_meet_greeted(work, connection);
    } else {
        tt_mesh_link_greeted(work, connection);
    }
}

/* Moves the handshake's output to the connection's buffer, which outlives the handshake. */
static bool take_output(tt_mesh_connection *connection)
{
    const uint8_t *bytes = NULL;
    const size_t count = tt_handshake_output(&connection->handshake, &bytes);
    if (count == 0) {
        return true;
    }
    tt_handshake_output_sent(&connection->handshake, count);
    connection->answered = true;
    return tt_mesh_out_append(connection, bytes, count);
}

/* Returns the number of bytes read; 0 if none are available, -1 at the end of the stream. */
static ssize_t read_some(tt_mesh_connection *connection, void *bytes, size_t count)
{
    ssize_t received;
    do {
        received = recv(connection->fd, bytes, count, MSG_DONTWAIT);
    } while (received < 0 && errno == EINTR);
    if (received < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        return 0;
    }
    connection->was_reset = received < 0 && errno == ECONNRESET;
    return received > 0 ? received : -1;
}

static void greeting_progress(tt_mesh_work *work, tt_mesh_connection *connection)
{
    tt_status status = TT_IN_PROGRESS;
    while (status == TT_IN_PROGRESS) {
        if (!take_output(connection) || !tt_mesh_connection_flush(connection)) {
            status = tt_handshake_closed(&connection->handshake);
            break;
        }
        uint8_t bytes[TT_HANDSHAKE_BYTES_MAX];
        const size_t wanted = tt_handshake_wants_bytes(&connection->handshake);
        TT_ASSERT(wanted > 0 && wanted <= sizeof(bytes));
        const ssize_t received = read_some(connection, bytes, wanted);
        if (received == 0) {
            return;
        }
        status = received < 0 ? tt_handshake_closed(&connection->handshake)
                              : tt_handshake_feed(&connection->handshake, bytes, (size_t)received);
    }
    (void)take_output(connection);
    (void)tt_mesh_connection_flush(connection);
    if (status == TT_OK) {
        greeted(work, connection);
    } else {
        refused(work, connection);
    }
}

/* Sends the refusal, ends our side, and reads on: closing with unread input would reset the
 * connection before the peer has read the refusal. */
static void leaving_progress(tt_mesh_connection *connection)
{
    uint8_t ignored[TT_HANDSHAKE_BYTES_MAX];
    if (!tt_mesh_connection_flush(connection)) {
        tt_mesh_connection_close(connection);
        return;
    }
    if (connection->out_end == 0) {
        (void)shutdown(connection->fd, SHUT_WR);
    }
    if (read_some(connection, ignored, sizeof(ignored)) != 0) {
        tt_mesh_connection_close(connection);
    }
}

static void talking_progress(tt_mesh_work *work, tt_mesh_connection *connection)
{
    if (!tt_mesh_connection_flush(connection)) {
        /* The peer's last message explains more than a broken pipe: read it. */
        connection->out_begin = connection->out_end = 0;
    }
    if (!work->going && !work->lingering) {
        tt_mesh_message_read(work, connection);
    }
}

void tt_mesh_connection_progress(tt_mesh_work *work, tt_mesh_connection *connection)
{
    if (connection->phase == TT_MESH_PHASE_CONNECTING) {
        connected(work, connection);
    }
    if (connection->phase == TT_MESH_PHASE_GREETING && work->status == TT_OK) {
        greeting_progress(work, connection);
    }
    switch (connection->phase) {
    case TT_MESH_PHASE_LEAVING:
        leaving_progress(connection);
        break;
    case TT_MESH_PHASE_TALKING:
        talking_progress(work, connection);
        break;
    case TT_MESH_PHASE_PASSING:
        tt_mesh_link_pass(work, connection);
        break;
    default:
        break;
    }
}
