/* SPDX-License-Identifier: Apache-2.0
 *
 * links.c - one link per peer: shared memory inside a host, TCP between hosts, or a plugin's.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sodium.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "api/build_internal.h"
#include "base/base.h"

enum { BACKLOG_BYTES_MAX = 16 * 1024 * 1024 }; /* larger values mean no limit */

static tt_status link_local(tt_build_work *work, uint32_t rank)
{
    tutti_context *context = work->context;
    tt_mesh_peer *peer = &work->mesh.peers[rank];
    tt_real_peer *made = &work->peers[rank];
    char why[TT_SEGMENT_WHY_BYTES] = "it sent no memory";
    const tt_segment_config expected = {.local_index = peer->local_index,
                                        .local_count = work->mesh.local_count};
    tt_status status = TT_ERR_NO_RESOURCE;
    if (peer->same_process) {
        made->segment = tt_process_find_segment(peer->segment_fd);
        status = made->segment != NULL ? TT_OK : status;
    }
    if (made->segment == NULL && peer->segment_fd >= 0) { /* also of a rank that has left already */
        status = tt_segment_attach(peer->segment_fd, &expected, &made->segment, why);
    }
    if (status != TT_OK) {
        tt_text_add(work->why, "shared memory of rank %u: %s", rank, why);
        return status;
    }
    int pidfd = -1;
    if (!peer->same_process && peer->pid > 0) {
        made->pid = peer->pid;
        pidfd = (int)syscall(SYS_pidfd_open, peer->pid, 0);
    }
    const tt_shm_config config = {.peer = rank,
                                  .own = context->segment,
                                  .theirs = made->segment,
                                  .socket = peer->socket_fd,
                                  .pidfd = pidfd,
                                  .is_apart = made->is_apart};
    status = tt_shm_link_create(&config, &made->link);
    if (status != TT_OK) {
        if (pidfd >= 0) {
            (void)close(pidfd);
        }
        tt_text_add(work->why, "link to rank %u: %s", rank, tt_status_text(status));
        return status;
    }
    peer->socket_fd = -1;
    return TT_OK;
}

static tt_backlog_config backlog_of(const tt_settings *settings)
{
    const bool is_bound = settings->backlog_bytes <= BACKLOG_BYTES_MAX;
    return (tt_backlog_config){.bytes = is_bound ? (uint32_t)settings->backlog_bytes : UINT32_MAX,
                               .frame_bytes = (uint32_t)settings->segment_bytes,
                               .keeps_control = settings->congestion[0] != 0};
}

/* The system's choice may suit other traffic: bbr cost some percent on a dedicated link. */
static tt_status set_congestion(tt_build_work *work, int fd)
{
    const char *name = work->context->settings.congestion;
    if (name[0] == 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name)) == 0) {
        return TT_OK;
    }
    tt_text_add(work->why,
                "TUTTI_CONGESTION=%.64s: the kernel refuses it (%s); use one listed in "
                "/proc/sys/net/ipv4/tcp_allowed_congestion_control",
                name, strerror(errno));
    return TT_ERR_BAD_CONFIG;
}

static tt_status link_stream(tt_build_work *work, uint32_t rank, uint32_t index, tt_link **link_out)
{
    static const tt_seal_mode modes[] = {[TT_INTEGRITY_CRC] = TT_SEAL_CRC,
                                         [TT_INTEGRITY_NONE] = TT_SEAL_NONE,
                                         [TT_INTEGRITY_AEAD] = TT_SEAL_AEAD};
    const tt_settings *settings = &work->context->settings;
    tt_mesh_stream *stream = &work->mesh.peers[rank].streams[index];
    tt_tcp_config config = {.peer = rank,
                            .send_fd = stream->send_fd,
                            .receive_fd = stream->receive_fd,
                            .mode = modes[settings->integrity],
                            .cipher =
                                work->mesh.peers[rank].has_aes ? TT_SEAL_AES256 : TT_SEAL_CHACHA20,
                            .keepalive_s = (uint32_t)(settings->keepalive_ns / 1000000000),
                            .unsent_bytes = tt_tcp_unsent_bytes((uint32_t)settings->segment_bytes),
                            .backlog = backlog_of(settings)};
    TT_TRY(set_congestion(work, stream->send_fd));
    memcpy(config.send_key, stream->send_key, sizeof(config.send_key));
    memcpy(config.receive_key, stream->receive_key, sizeof(config.receive_key));
    const tt_status status = tt_tcp_link_create(&config, link_out);
    sodium_memzero(&config, sizeof(config));
    if (status == TT_OK) {
        stream->send_fd = stream->receive_fd = -1;
    }
    return status;
}

static tt_status link_tcp(tt_build_work *work, uint32_t rank)
{
    const uint32_t stream_count = (uint32_t)work->context->settings.sockets;
    tt_link *streams[TT_STREAMS_MAX];
    uint32_t made_count = 0;
    tt_status status = TT_OK;
    while (status == TT_OK && made_count < stream_count) {
        status = link_stream(work, rank, made_count, &streams[made_count]);
        made_count += status == TT_OK;
    }
    if (status == TT_OK && stream_count == 1) {
        work->peers[rank].link = streams[0];
    } else if (status == TT_OK) {
        status = tt_streams_link_create(streams, stream_count, &work->peers[rank].link);
    }
    if (status != TT_OK) {
        for (uint32_t i = 0; i < made_count; i++) {
            streams[i]->ops->destroy(streams[i]);
        }
        tt_text_add(work->why, "%slink to rank %u: %s", work->why->length > 0 ? "; " : "", rank,
                    tt_status_text(status));
    }
    return status;
}

static void plugin_log(void *user, int level, const char *text)
{
    const tutti_context *context = user;
    tt_log_write(&context->log, level, "%s", text);
}

static tt_outside_config outside_config(const tt_build_work *work, uint32_t rank)
{
    const tt_mesh_peer *peer = &work->mesh.peers[rank];
    return (tt_outside_config){.peer = rank,
                               .is_local = peer->host_index ==
                                           work->mesh.peers[work->identity.rank].host_index,
                               .send_fd = peer->streams[0].send_fd,
                               .receive_fd = peer->streams[0].receive_fd,
                               .send_key = peer->streams[0].send_key,
                               .receive_key = peer->streams[0].receive_key};
}

/* Links of a plugin: send all addresses before waiting for one. */
static tt_status make_outside_links(tt_build_work *work)
{
    const tutti_plugin_host host = {.struct_bytes = sizeof(host),
                                    .rank = (int)work->identity.rank,
                                    .size = (int)work->identity.size,
                                    .user = work->context,
                                    .log = plugin_log};
    char why[TUTTI_PLUGIN_WHY_BYTES] = "";
    tt_status status = tt_outside_open(work->transport, &host, &work->outside, why);
    for (uint32_t rank = 0; rank < work->mesh.size && status == TT_OK; rank++) {
        const tt_outside_config config = outside_config(work, rank);
        if (rank != work->identity.rank) {
            status = tt_outside_greet(work->outside, &config);
        }
    }
    for (uint32_t rank = 0; rank < work->mesh.size && status == TT_OK; rank++) {
        const tt_outside_config config = outside_config(work, rank);
        if (rank == work->identity.rank) {
            continue;
        }
        status = tt_outside_link_create(work->outside, &config,
                                        work->context->settings.start_timeout_ns / 1000000,
                                        &work->peers[rank].link);
        if (status == TT_OK) {
            tt_mesh_stream *stream = &work->mesh.peers[rank].streams[0]; /* others are closed */
            stream->send_fd = stream->receive_fd = -1;
        } else {
            tt_text_add(work->why, "link to rank %u by %s: ", rank, work->transport->name);
        }
    }
    if (status != TT_OK) {
        tt_text_add(work->why, "transport %s: %s", work->transport->name,
                    why[0] != 0 ? why : tt_status_text(status));
    }
    tt_outside_release(work->outside);
    return status;
}

tt_status tt_build_links(tt_build_work *work)
{
    for (uint32_t rank = 0; rank < work->mesh.size; rank++) {
        work->peers[rank].is_apart = work->context->is_server || rank >= work->mesh.worker_count;
    }
    if (work->transport != NULL && work->mesh.size > 1) {
        return make_outside_links(work);
    }
    for (uint32_t rank = 0; rank < work->mesh.size; rank++) {
        switch (work->mesh.peers[rank].kind) {
        case TT_MESH_SELF:
            work->peers[rank].segment = work->context->segment;
            break;
        case TT_MESH_LOCAL:
            TT_TRY(link_local(work, rank));
            break;
        case TT_MESH_TCP:
            TT_TRY(link_tcp(work, rank));
            break;
        }
    }
    return TT_OK;
}
