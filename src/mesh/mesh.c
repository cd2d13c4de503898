/* SPDX-License-Identifier: Apache-2.0
 *
 * mesh.c - the loop that drives both phases, and how it ends.
 */
#include "mesh/mesh.h"

#include <errno.h>
#include <poll.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/base.h"
#include "mesh/mesh_internal.h"

enum {
    LISTENERS_MAX = TT_MESH_MEETING_SOCKETS_MAX + 1,
    CONNECTIONS_PER_RANK = 5, /* the meeting, and links both ways with a spare */
    LAST_WORDS_MS = 2000,
    LINGER_MS = 1000,
};

tt_status tt_mesh_work_fail(tt_mesh_work *work, tt_status status, const char *format, ...)
{
    TT_ASSERT(status < TT_OK);
    if (work->lingering) {
        return status;
    }
    if (work->status == TT_OK) {
        va_list arguments;
        va_start(arguments, format);
        (void)vsnprintf(work->why->text, sizeof(work->why->text), format, arguments);
        va_end(arguments);
        work->status = status;
    }
    return status;
}

static int poll_timeout_ms(uint64_t now_ns, uint64_t wake_ns)
{
    if (wake_ns <= now_ns) {
        return 0;
    }
    return (int)tt_min_u64((wake_ns - now_ns) / 1000000 + 1, 1000);
}

/* Drops strangers whose deadline has passed, and dials where a retry is due. Returns when to check
 * again. */
static uint64_t handle_time(tt_mesh_work *work)
{
    const uint64_t now_ns = tt_launch_now_ns();
    uint64_t wake_ns = work->deadline_ns;
    if (now_ns >= work->deadline_ns && (work->lingering || work->going)) {
        work->over = true;
        return now_ns;
    }
    if (now_ns >= work->deadline_ns) {
        tt_mesh_meet_timed_out(work);
        return now_ns;
    }
    for (size_t i = 0; i < work->connection_count && work->status == TT_OK; i++) {
        tt_mesh_connection *each = work->connections[i];
        const bool stranger = tt_mesh_is_stranger(each);
        if (!stranger && each->phase != TT_MESH_PHASE_WAITING) {
            continue;
        }
        if (each->deadline_ns > now_ns) {
            wake_ns = tt_min_u64(wake_ns, each->deadline_ns);
        } else if (stranger) {
            tt_mesh_drop_stranger(each);
        } else {
            tt_mesh_connection_dial(work, each);
            if (each->phase == TT_MESH_PHASE_WAITING) { /* refused at once */
                wake_ns = tt_min_u64(wake_ns, each->deadline_ns);
            }
        }
    }
    return wake_ns;
}

/* Keeps the order of arrival. */
static void sweep(tt_mesh_work *work)
{
    size_t kept = 0;
    for (size_t i = 0; i < work->connection_count; i++) {
        tt_mesh_connection *each = work->connections[i];
        if (each->phase == TT_MESH_PHASE_DONE) {
            TT_ASSERT(each != work->root);
            tt_mesh_connection_destroy(each);
        } else {
            work->connections[kept++] = each;
        }
    }
    work->connection_count = kept;
}

static size_t listeners(const tt_mesh_work *work, struct pollfd polled[LISTENERS_MAX])
{
    /* Ranks other than 0 accept only once they have the table: until then peers wait in the
     * backlog. */
    const bool open = (tt_mesh_work_is_root(work) || work->linking) && !work->going;
    const uint64_t now_ns = tt_launch_now_ns();
    const bool open_tcp = open && now_ns >= work->accept_again_ns[0];
    const bool open_unix = open && work->linking && now_ns >= work->accept_again_ns[1];
    size_t count = 0;
    for (size_t i = 0; i < work->meeting.fd_count; i++) {
        polled[count++] =
            (struct pollfd){.fd = open_tcp ? work->meeting.fds[i] : -1, .events = POLLIN};
    }
    polled[count++] = (struct pollfd){.fd = open_unix ? work->unix_fd : -1, .events = POLLIN};
    return count;
}

/* Starts with another listener each time: those over TCP share their places. */
static void accept_in_turn(tt_mesh_work *work, const struct pollfd *polled, size_t listener_count)
{
    work->accept_turn++;
    for (size_t i = 0; i < listener_count && work->status == TT_OK; i++) {
        const struct pollfd *each = &polled[(work->accept_turn + i) % listener_count];
        if (each->revents != 0) {
            tt_mesh_accept(work, each->fd, each->fd == work->unix_fd);
        }
    }
}

static void turn(tt_mesh_work *work, struct pollfd *polled)
{
    uint64_t wake_ns = handle_time(work);
    for (int local = 0; local < 2; local++) {
        if (work->accept_again_ns[local] > tt_launch_now_ns()) {
            wake_ns = tt_min_u64(wake_ns, work->accept_again_ns[local]);
        }
    }
    sweep(work);
    const size_t listener_count = listeners(work, polled);
    const size_t connection_count = work->connection_count;
    for (size_t i = 0; i < connection_count; i++) {
        const tt_mesh_connection *each = work->connections[i];
        polled[listener_count + i] = (struct pollfd){
            .fd = each->phase == TT_MESH_PHASE_WAITING || each->told ? -1 : each->fd,
            .events = tt_mesh_connection_events(each)};
    }
    if (work->status != TT_OK) {
        return;
    }
    if (poll(polled, listener_count + connection_count,
             poll_timeout_ms(tt_launch_now_ns(), wake_ns)) < 0 &&
        errno != EINTR) {
        (void)tt_mesh_work_fail(work, TT_ERR_SYSTEM, "poll failed: %s", strerror(errno));
        return;
    }
    /* Nothing is removed from the list before the next sweep, only added at its end. */
    for (size_t i = 0; i < connection_count && work->status == TT_OK && !work->over; i++) {
        if (polled[listener_count + i].revents != 0) {
            tt_mesh_connection_progress(work, work->connections[i]);
        }
    }
    accept_in_turn(work, polled, listener_count);
    tt_mesh_meet_advance(work);
}

/* Whether a message to a rank is not fully sent yet. */
static bool has_words_left(const tt_mesh_work *work)
{
    for (size_t i = 0; i < work->connection_count; i++) {
        const tt_mesh_connection *each = work->connections[i];
        if (each->phase == TT_MESH_PHASE_TALKING && each->out_end > 0) {
            return true;
        }
    }
    return false;
}

/* Sends the failure to all connected ranks, and lets them read it before the socket is closed. */
static void spread_failure(tt_mesh_work *work)
{
    const size_t text_bytes = strnlen(work->why->text, TT_MESH_TEXT_BYTES);
    for (size_t i = 0; i < work->connection_count; i++) {
        tt_mesh_connection *each = work->connections[i];
        if (each->phase == TT_MESH_PHASE_TALKING && !each->told) {
            each->told = true;
            (void)tt_mesh_message_queue(each, TT_MESH_FAILED, work->why->text, text_bytes);
        }
    }
    const uint64_t deadline_ns = tt_launch_deadline_after_ms(LAST_WORDS_MS);
    for (size_t i = 0; i < work->connection_count; i++) {
        tt_mesh_connection *each = work->connections[i];
        while (each->phase == TT_MESH_PHASE_TALKING && tt_mesh_connection_flush(each) &&
               each->out_end > 0 && tt_launch_wait_fd(each->fd, POLLOUT, deadline_ns) == TT_OK) {
        }
        if (each->phase != TT_MESH_PHASE_TALKING) {
            continue;
        }
        /* Closing with unread input resets the connection, and the peer would lose the text. */
        uint8_t ignored[256];
        (void)shutdown(each->fd, SHUT_WR);
        while (recv(each->fd, ignored, sizeof(ignored), MSG_DONTWAIT) > 0) {
        }
    }
}

/* Rank 0 failed while other ranks had not connected yet: it still accepts them to send the reason.
 * Not after a timeout, which has waited long enough. */
static void linger(tt_mesh_work *work, struct pollfd *polled)
{
    const tt_status status = work->status;
    work->status = TT_OK;
    work->lingering = true;
    work->deadline_ns = tt_launch_deadline_after_ms(LINGER_MS);
    while (!work->over && work->status == TT_OK && work->greeted_count + 1 < work->mesh->size) {
        turn(work, polled);
    }
    work->status = status;
}

static tt_status work_init(tt_mesh_work *work)
{
    const uint32_t size = work->mesh->size;
    work->stream_count = (uint32_t)tt_max_u64(1, work->config->stream_count);
    TT_ASSERT(work->stream_count <= TT_MESH_STREAMS_MAX);
    work->connection_max = 2 * (size_t)TT_MESH_STRANGERS_MAX + /* over TCP, and over Unix sockets */
                           (size_t)CONNECTIONS_PER_RANK * work->stream_count * size;
    work->connections = calloc(work->connection_max, sizeof(tt_mesh_connection *));
    work->records = calloc(size, sizeof(*work->records));
    work->joined = calloc(size, sizeof(*work->joined));
    work->ready = calloc(size, sizeof(*work->ready));
    work->mesh->peers = calloc(size, sizeof(*work->mesh->peers));
    work->mesh->hosts = calloc(size, sizeof(*work->mesh->hosts)); /* no more than ranks */
    for (uint32_t rank = 0; work->mesh->peers != NULL && rank < size; rank++) {
        tt_mesh_peer *peer =
            &work->mesh->peers[rank]; /* before any failure: 0 is a valid descriptor */
        peer->socket_fd = peer->segment_fd = -1;
        for (uint32_t i = 0; i < TT_MESH_STREAMS_MAX; i++) {
            peer->streams[i].send_fd = peer->streams[i].receive_fd = -1;
        }
    }
    if (work->connections == NULL || work->records == NULL || work->joined == NULL ||
        work->ready == NULL || work->mesh->peers == NULL || work->mesh->hosts == NULL) {
        return tt_mesh_work_fail(work, TT_ERR_NO_MEMORY, "no memory for a job of %u ranks", size);
    }
    if (sodium_init() < 0) {
        return tt_mesh_work_fail(work, TT_ERR_NO_RESOURCE, "libsodium cannot be initialised");
    }
    tt_hello_fingerprint(work->config->identity->job_id, work->fingerprint);
    return TT_OK;
}

static void work_fini(tt_mesh_work *work)
{
    for (size_t i = 0; i < work->connection_count; i++) {
        tt_mesh_connection_destroy(work->connections[i]);
    }
    tt_mesh_place_withdraw(work);
    tt_mesh_meeting_close(&work->meeting);
    if (work->unix_fd >= 0) {
        (void)close(work->unix_fd);
    }
    free(work->connections);
    free(work->records);
    free(work->joined);
    free(work->ready);
    sodium_memzero(work->secret, sizeof(work->secret));
}

/* Listen; ranks other than 0 find rank 0 and start to dial it. */
static tt_status start(tt_mesh_work *work)
{
    TT_TRY(tt_mesh_work_is_root(work) ? tt_mesh_place_root(work) : tt_mesh_place_find(work));
    TT_TRY(tt_mesh_place_listen_local(work));
    TT_TRY(tt_mesh_place_record(work));
    work->joined[work->mesh->rank] = true;
    work->joined_count = 1;
    if (tt_mesh_work_is_root(work)) {
        return TT_OK;
    }
    work->root = tt_mesh_connection_create(work);
    if (work->root == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    work->root->outgoing = true;
    work->root->role = TT_HELLO_RENDEZVOUS;
    work->root->peer = TT_MESH_ROOT;
    (void)tt_mesh_place_next(work, work->root);
    tt_mesh_connection_dial(work, work->root);
    return work->status;
}

static tt_status run(tt_mesh_work *work)
{
    struct pollfd *polled = calloc(work->connection_max + LISTENERS_MAX, sizeof(*polled));
    if (polled == NULL) {
        return tt_mesh_work_fail(work, TT_ERR_NO_MEMORY, "no memory to wait for %u ranks",
                                 work->mesh->size);
    }
    while (work->status == TT_OK && !work->over) {
        turn(work, polled);
        work->over = work->over || (work->going && !has_words_left(work));
    }
    if (work->status != TT_OK) {
        spread_failure(work);
    }
    if (work->status != TT_OK && work->status != TT_ERR_TIMED_OUT && tt_mesh_work_is_root(work) &&
        !work->linking) {
        linger(work, polled);
        spread_failure(work);
    }
    free(polled);
    return work->status;
}

tt_status tt_mesh_establish(const tt_mesh_config *config, tt_mesh *mesh_out, tt_launch_why *why)
{
    tt_mesh mesh = {.rank = config->identity->rank, .size = config->identity->size};
    const uint64_t timeout_ms = config->timeout_ms != 0 ? config->timeout_ms : TT_MESH_TIMEOUT_MS;
    tt_mesh_work work = {.config = config,
                         .mesh = &mesh,
                         .why = why,
                         .unix_fd = -1,
                         .segment_fd = -1,
                         .timeout_ms = timeout_ms,
                         .deadline_ns = tt_launch_deadline_after_ms(timeout_ms)};
    TT_ASSERT(mesh.rank < mesh.size);
    if (config->listen_fd >= 0) {
        work.meeting = (tt_mesh_meeting){.fds = {config->listen_fd}, .fd_count = 1};
    }
    why->text[0] = '\0';
    if (config->secret != NULL) {
        memcpy(work.secret, config->secret, sizeof(work.secret));
        work.has_secret = true;
    }
    tt_status status = work_init(&work);
    if (status == TT_OK && mesh.size == 1) {
        TT_ASSERT(config->server_count == 0);
        mesh.host_count = mesh.local_count = 1;
        mesh.worker_count = mesh.worker_host_count = mesh.worker_local_count = 1;
        mesh.hosts[0] = (tt_host_facts){
            .rank_count = 1,
            .core_count = (uint32_t)tt_max_u64(1, tt_facts_core_count(config->facts.cores)),
            .card_count = config->facts.card_count,
            .card_mbits = config->facts.card_mbits};
        randombytes_buf(&mesh.incarnation, sizeof(mesh.incarnation));
    } else if (status == TT_OK) {
        status = start(&work);
        if (status == TT_OK) {
            status = run(&work);
        }
    }
    work_fini(&work);
    if (status != TT_OK) {
        tt_mesh_fini(&mesh);
        if (why->text[0] == '\0') {
            (void)tt_launch_fail(why, status, "%s", tt_status_text(status));
        }
        return status;
    }
    *mesh_out = mesh;
    return TT_OK;
}

static void close_if_open(int fd)
{
    if (fd >= 0) {
        (void)close(fd);
    }
}

void tt_mesh_fini(tt_mesh *mesh)
{
    for (uint32_t rank = 0; mesh->peers != NULL && rank < mesh->size; rank++) {
        tt_mesh_peer *peer = &mesh->peers[rank];
        for (uint32_t i = 0; i < TT_MESH_STREAMS_MAX; i++) {
            close_if_open(peer->streams[i].send_fd);
            close_if_open(peer->streams[i].receive_fd);
        }
        close_if_open(peer->socket_fd);
        close_if_open(peer->segment_fd);
        sodium_memzero(peer, sizeof(*peer));
    }
    free(mesh->peers);
    free(mesh->hosts);
    free(mesh->note);
    mesh->peers = NULL;
    mesh->hosts = NULL;
    mesh->note = NULL;
}
