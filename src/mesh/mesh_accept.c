/* SPDX-License-Identifier: Apache-2.0
 *
 * mesh_accept.c - incoming connections: each is a stranger until its handshake has succeeded.
 *
 * (1) At most TT_MESH_STRANGERS_MAX connections over TCP and as many over Unix sockets are
 *     unauthenticated at a time; more wait in the kernel's queue. Places are separate because
 *     anyone can dial TCP, but only processes of this user get a place of the Unix listener.
 * (2) While others wait, an unauthenticated connection is dropped after PATIENCE_MS; in any case
 *     after TT_MESH_STRANGER_MS. A genuine rank has sent its first message before it is accepted.
 * (3) Dropped is not refused: a drop is a TCP reset, a refusal ends the stream in order. So a rank
 *     that lost its place to a flood dials again, and a rank with another secret fails.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/plant.h"
#include "mesh/mesh_internal.h"

enum {
    ACCEPT_BATCH = 32,
    ACCEPT_PAUSE_MS = 5,
    PATIENCE_MS = 20,
    PATIENCE_ANSWERED_MS = 1000,
    SHORTAGE_MS = 2000,
};

bool tt_mesh_is_stranger(const tt_mesh_connection *connection)
{
    return !connection->outgoing && (connection->phase == TT_MESH_PHASE_GREETING ||
                                     connection->phase == TT_MESH_PHASE_LEAVING);
}

void tt_mesh_drop_stranger(tt_mesh_connection *connection)
{
    TT_ASSERT(tt_mesh_is_stranger(connection));
    /* A refused connection ends in order: the refusal may still be in flight. */
    if (!connection->local && connection->phase == TT_MESH_PHASE_GREETING) {
        const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
        (void)setsockopt(connection->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    }
    tt_mesh_connection_close(connection);
}

/* Makes room for one more of this kind by dropping a connection: the oldest of those whose first
 * message is missing, else the oldest of all; but none that was just accepted, because a rank needs
 * time to reply. Connections are kept in the order of their arrival. */
static bool make_room(tt_mesh_work *work, bool local, size_t strangers_max)
{
    const uint64_t now_ns = tt_launch_now_ns();
    tt_mesh_connection *victim = NULL;
    size_t stranger_count = 0;
    for (size_t i = 0; i < work->connection_count; i++) {
        tt_mesh_connection *each = work->connections[i];
        if (!tt_mesh_is_stranger(each) || each->local != local) {
            continue;
        }
        stranger_count++;
        const uint64_t patience_ms = each->answered ? PATIENCE_ANSWERED_MS : PATIENCE_MS;
        if (now_ns - each->created_ns >= patience_ms * 1000000 &&
            (victim == NULL || (victim->answered && !each->answered))) {
            victim = each;
        }
    }
    if (stranger_count < strangers_max) {
        return true;
    }
    if (victim != NULL) {
        tt_mesh_drop_stranger(victim);
    }
    return victim != NULL;
}

void tt_mesh_note_refusal(tt_mesh_work *work, tt_mesh_connection *connection)
{
    const tt_hello_refusal refusal = tt_handshake_refusal(&connection->handshake);
    char name[96];
    char text[TT_HANDSHAKE_TEXT_BYTES];
    (void)tt_mesh_connection_name(connection, name);
    (void)tt_handshake_explain(&connection->handshake, text, sizeof(text));
    TT_ASSERT((size_t)refusal < TT_ARRAY_COUNT(work->refused_count));
    (void)snprintf(work->last_refusal, sizeof(work->last_refusal), "%s: %.150s", name, text);
    if (work->refused_count[refusal]++ == 0) {
        tt_log_write(work->config->log, TT_LOG_WARN,
                     "refused a connection from %s: %s (further ones of this kind are not logged)",
                     name, text);
    }
}

/* No descriptor is left for a new connection. Drops strangers; fails if that has not helped for
 * SHORTAGE_MS. */
static void run_short(tt_mesh_work *work, int error)
{
    const uint64_t now_ns = tt_launch_now_ns();
    for (int local = 0; local < 2; local++) {
        (void)make_room(work, local, 1);
        work->accept_again_ns[local] = tt_launch_deadline_after_ms(ACCEPT_PAUSE_MS);
    }
    if (work->accept_short_ns == 0) {
        work->accept_short_ns = now_ns;
    }
    if (now_ns - work->accept_short_ns > (uint64_t)SHORTAGE_MS * 1000000) {
        char text[64];
        (void)tt_mesh_work_fail(work, TT_ERR_NO_RESOURCE,
                                "rank %u has no descriptor left for its peers: %s; raise the limit "
                                "of open files (ulimit -n)",
                                work->mesh->rank, strerror_r(error, text, sizeof(text)));
    }
}

/* -1: no connection is waiting, or no descriptor is left. */
static int take_one(tt_mesh_work *work, int listen_fd, tt_launch_address *address)
{
    address->bytes = sizeof(address->storage);
    const int fd = accept4(listen_fd, (struct sockaddr *)&address->storage, &address->bytes,
                           SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)) {
        run_short(work, errno);
    } else if (fd >= 0) {
        work->accept_short_ns = 0;
    }
    return fd;
}

static bool is_same_user(int fd, pid_t *pid_out)
{
    struct ucred credentials;
    socklen_t bytes = sizeof(credentials);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) != 0) {
        return false;
    }
    *pid_out = credentials.pid;
    return credentials.uid == geteuid() || TT_PLANT(OTHER_USER_TAKEN);
}

static void welcome(tt_mesh_work *work, int fd, const tt_launch_address *address, bool local)
{
    pid_t pid = 0;
    if (local && !is_same_user(fd, &pid)) {
        tt_log_write(work->config->log, TT_LOG_WARN,
                     "refused local process %d: it runs as another user", (int)pid);
        (void)close(fd);
        return;
    }
    tt_mesh_connection *connection = tt_mesh_connection_create(work);
    if (connection == NULL) {
        (void)close(fd);
        return;
    }
    const int one = 1;
    if (!local) {
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    }
    connection->fd = fd;
    connection->local = local;
    connection->pid = pid;
    connection->address = *address;
    connection->peer = TT_HELLO_RANK_UNKNOWN;
    connection->deadline_ns = tt_launch_deadline_after_ms(TT_MESH_STRANGER_MS);
    tt_mesh_connection_greet(work, connection);
    if (work->status == TT_OK) {
        tt_mesh_connection_progress(work, connection);
    }
}

void tt_mesh_accept(tt_mesh_work *work, int listen_fd, bool local)
{
    for (int i = 0; i < ACCEPT_BATCH && work->status == TT_OK && !work->going; i++) {
        if (!make_room(work, local, TT_MESH_STRANGERS_MAX)) {
            work->accept_again_ns[local] = tt_launch_deadline_after_ms(ACCEPT_PAUSE_MS);
            return;
        }
        tt_launch_address address;
        const int fd = take_one(work, listen_fd, &address);
        if (fd < 0) {
            return;
        }
        welcome(work, fd, &address, local);
    }
}
