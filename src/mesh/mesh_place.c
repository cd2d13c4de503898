/* SPDX-License-Identifier: Apache-2.0
 *
 * mesh_place.c - where this rank listens, and how it finds rank 0's address.
 */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/assert.h"
#include "mesh/mesh_internal.h"

enum { RESOLVE_AGAIN_NS = 200 * 1000 * 1000 };

static const char root_key[] = "root";

/* The address a socket is bound to, port included. */
static tt_status bound_address(int fd, tt_launch_address *address)
{
    address->bytes = sizeof(address->storage);
    return getsockname(fd, (struct sockaddr *)&address->storage, &address->bytes) == 0
               ? TT_OK
               : TT_ERR_SYSTEM;
}

static tt_status listen_anywhere(tt_mesh_work *work, const tt_launch_address *address)
{
    tt_launch_listen_request request = {.address = *address};
    TT_TRY(tt_mesh_port_range(work->config->source, &request, work->why));
    request.address = *address;
    request.allow_any = false;
    tt_launch_listener listener;
    TT_TRY(tt_launch_listen(&request, &listener, work->why));
    work->meeting.fds[0] = listener.fd;
    work->meeting.fd_count = 1;
    work->meeting.port = listener.port;
    return TT_OK;
}

tt_status tt_mesh_place_record(tt_mesh_work *work)
{
    const tt_mesh_config *config = work->config;
    tt_mesh_record *record = &work->records[work->mesh->rank];
    record->rank = work->mesh->rank;
    record->host_id = config->host_id;
    record->settings = config->settings;
    memcpy(record->engine, config->engine, sizeof(record->engine));
    record->facts = config->facts;
    if (tt_facts_core_count(record->facts.cores) == 0) { /* unknown */
        record->facts.cores[0] = 1;
    }
    record->pid = (uint32_t)getpid();
    record->server_count = config->server_count;
    record->flags = (work->unix_fd >= 0 ? TT_MESH_SHARES_MEMORY : 0) |
                    (config->has_aes ? TT_MESH_HAS_AES : 0) | (config->serves ? TT_MESH_SERVES : 0);
    char host[TT_LAUNCH_HOST_BYTES] = "";
    const bool named = gethostname(host, sizeof(host) - 1) == 0 && host[0] > ' ' && host[0] <= '~';
    const char *source = named ? host : "unnamed";
    for (size_t i = 0; i < TT_MESH_HOST_BYTES - 1 && source[i] > ' ' && source[i] <= '~'; i++) {
        record->host[i] = source[i];
    }
    return bound_address(work->meeting.fds[0], &record->address);
}

socklen_t tt_mesh_unix_address(const uint8_t name[TT_MESH_NAME_BYTES], struct sockaddr_un *address)
{
    char hex[2 * TT_MESH_NAME_BYTES + 1];
    (void)sodium_bin2hex(hex, sizeof(hex), name, TT_MESH_NAME_BYTES);
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    const int length =
        snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1, "tutti-%s", hex);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

/* A random abstract name, so that no other process can bind it first. */
tt_status tt_mesh_place_listen_local(tt_mesh_work *work)
{
    if (!work->config->can_share_memory) {
        return TT_OK;
    }
    uint8_t *name = work->records[work->mesh->rank].name;
    struct sockaddr_un address;
    randombytes_buf(name, TT_MESH_NAME_BYTES);
    const socklen_t bytes = tt_mesh_unix_address(name, &address);
    work->unix_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (work->unix_fd < 0 || bind(work->unix_fd, (struct sockaddr *)&address, bytes) != 0 ||
        listen(work->unix_fd, 4096) != 0) {
        return tt_mesh_work_fail(work, TT_ERR_SYSTEM, "rank %u cannot listen on a Unix socket: %s",
                                 work->mesh->rank, strerror(errno));
    }
    return TT_OK;
}

/* "tcp://10.0.0.7:40001", as parse takes it. */
static void meeting_text(const tt_launch_address *address, uint16_t port,
                         char text_out[TT_LAUNCH_RENDEZVOUS_TEXT_BYTES])
{
    tt_launch_rendezvous meet = {
        .kind = TT_LAUNCH_RENDEZVOUS_TCP, .port_first = port, .port_count = 1};
    tt_launch_address_format(address, meet.host);
    tt_launch_rendezvous_format(&meet, text_out);
}

enum { SECRET_HEX_BYTES = 2 * TT_SEAL_KEY_BYTES + 1 };

/* Without a secret from the caller, rank 0 creates one: only the job's own processes can read the
 * launcher's key-value space. */
static tt_status pmi_put_secret(tt_mesh_work *work, tt_launch_pmi *pmi)
{
    char hex[SECRET_HEX_BYTES];
    randombytes_buf(work->secret, sizeof(work->secret));
    work->has_secret = true;
    (void)sodium_bin2hex(hex, sizeof(hex), work->secret, sizeof(work->secret));
    const tt_status status = tt_launch_pmi_put(pmi, "tutti-secret", hex, work->why);
    sodium_memzero(hex, sizeof(hex));
    return status;
}

static tt_status pmi_get_secret(tt_mesh_work *work, tt_launch_pmi *pmi)
{
    char hex[SECRET_HEX_BYTES];
    size_t bytes = 0;
    TT_TRY(tt_launch_pmi_get(pmi, "tutti-secret", hex, sizeof(hex), work->why));
    const bool is_good = sodium_hex2bin(work->secret, sizeof(work->secret), hex, strlen(hex), NULL,
                                        &bytes, NULL) == 0 &&
                         bytes == sizeof(work->secret);
    sodium_memzero(hex, sizeof(hex));
    work->has_secret = is_good;
    return is_good ? TT_OK
                   : tt_launch_fail(work->why, TT_ERR_REFUSED,
                                    "the launcher's key-value space has no valid secret of "
                                    "rank 0; set TUTTI_SECRET_FILE on every rank");
}

static tt_status pmi_exchange(tt_mesh_work *work, char text[TT_LAUNCH_RENDEZVOUS_TEXT_BYTES])
{
    const bool is_root = tt_mesh_work_is_root(work);
    const bool has_secret = work->config->secret != NULL;
    tt_launch_pmi *pmi = NULL;
    TT_TRY(tt_launch_pmi_create(work->config->source, work->timeout_ms, &pmi, work->why));
    const tt_launch_pmi_side side = {
        .rank = work->mesh->rank, .size = work->mesh->size, .engine = work->config->engine};
    tt_status status = tt_launch_pmi_announce(pmi, &side, work->why);
    if (status == TT_OK && is_root) {
        status = tt_launch_pmi_put(pmi, "tutti-root", text, work->why);
    }
    if (status == TT_OK && is_root && !has_secret) {
        status = pmi_put_secret(work, pmi);
    }
    if (status == TT_OK) {
        status = tt_launch_pmi_barrier(pmi, work->why);
    }
    if (status == TT_OK) {
        status = tt_launch_pmi_compare(pmi, &side, work->why);
    }
    if (status == TT_OK && !is_root) {
        status =
            tt_launch_pmi_get(pmi, "tutti-root", text, TT_LAUNCH_RENDEZVOUS_TEXT_BYTES, work->why);
    }
    if (status == TT_OK && !is_root && !has_secret) {
        status = pmi_get_secret(work, pmi);
    }
    tt_launch_pmi_destroy(pmi);
    return status;
}

/* The same through an engine: one broadcast of rank 0's address and, if needed, its secret. */
static tt_status engine_exchange(tt_mesh_work *work, char text[TT_LAUNCH_RENDEZVOUS_TEXT_BYTES])
{
    struct {
        char address[TT_LAUNCH_HOST_BYTES + 32];
        uint8_t secret[TT_SEAL_KEY_BYTES];
    } word = {.address = ""};
    const bool is_root = tt_mesh_work_is_root(work);
    if (work->config->broadcast == NULL) {
        return tt_launch_fail(work->why, TT_ERR_BAD_CONFIG,
                              "TUTTI_RENDEZVOUS needs an engine to send rank 0's address, but none "
                              "is loaded; see: tutti info --engines");
    }
    if (is_root) {
        (void)snprintf(word.address, sizeof(word.address), "%s", text);
        randombytes_buf(word.secret, sizeof(word.secret));
    }
    tt_status status = work->config->broadcast(work->config->user, &word, sizeof(word));
    if (status != TT_OK) {
        status =
            tt_launch_fail(work->why, status, "the engine failed to broadcast rank 0's address");
    } else if (!is_root) {
        word.address[sizeof(word.address) - 1] = '\0';
        (void)snprintf(text, TT_LAUNCH_RENDEZVOUS_TEXT_BYTES, "%s", word.address);
    }
    if (status == TT_OK && work->config->secret == NULL) {
        memcpy(work->secret, word.secret, sizeof(work->secret));
        work->has_secret = true;
    }
    sodium_memzero(&word, sizeof(word));
    return status;
}

static tt_status adopt_listener(tt_mesh_work *work)
{
    const int fd = work->config->listen_fd;
    const int flags = fcntl(fd, F_GETFL);
    int listening = 0;
    socklen_t bytes = sizeof(listening);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 ||
        fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 ||
        getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &bytes) != 0 || listening == 0) {
        return tt_mesh_work_fail(work, TT_ERR_BAD_CONFIG,
                                 "descriptor %d is not a listening socket; TUTTI_LISTEN_FD must "
                                 "name one that the launcher opened",
                                 fd);
    }
    return TT_OK;
}

tt_status tt_mesh_place_root(tt_mesh_work *work)
{
    const tt_launch_identity *identity = work->config->identity;
    if (work->config->listen_fd >= 0) {
        return adopt_listener(work);
    }
    if (identity->rendezvous.kind == TT_LAUNCH_RENDEZVOUS_TCP) {
        return tt_mesh_meeting_listen(&identity->rendezvous, &work->meeting, work->why);
    }
    tt_launch_address address;
    char text[TT_LAUNCH_RENDEZVOUS_TEXT_BYTES];
    TT_TRY(
        tt_mesh_address_choose(work->config->source, &identity->rendezvous, &address, work->why));
    TT_TRY(listen_anywhere(work, &address));
    meeting_text(&address, work->meeting.port, text);
    if (identity->rendezvous.kind == TT_LAUNCH_RENDEZVOUS_PMI) {
        return pmi_exchange(work, text);
    }
    if (identity->rendezvous.kind == TT_LAUNCH_RENDEZVOUS_ENGINE) {
        return engine_exchange(work, text);
    }
    TT_TRY(tt_mesh_file_store_init(&work->store, identity->rendezvous.path, identity->job_id,
                                   identity->incarnation, work->why));
    work->has_store = true;
    (void)tt_mesh_file_store_sweep(&work->store);
    return tt_mesh_file_store_put(&work->store, root_key, text, strlen(text), work->why);
}

void tt_mesh_place_withdraw(tt_mesh_work *work)
{
    if (work->has_store && tt_mesh_work_is_root(work)) {
        tt_mesh_file_store_remove(&work->store, root_key);
    }
}

static tt_status resolve(tt_mesh_work *work)
{
    for (;;) {
        const tt_status status =
            tt_launch_resolve(work->meet.host, &work->meet_addresses, work->why);
        if (status == TT_OK || tt_launch_wait_time(RESOLVE_AGAIN_NS, work->deadline_ns) != TT_OK) {
            return status;
        }
    }
}

/* The address in the store may be left from an earlier run, so it is read again later. */
static tt_status read_store(tt_mesh_work *work, uint64_t deadline_ns)
{
    char text[TT_LAUNCH_RENDEZVOUS_TEXT_BYTES];
    tt_mesh_blob blob = {.bytes = text, .capacity = sizeof(text) - 1};
    TT_TRY(tt_mesh_file_store_get(&work->store, root_key, deadline_ns, &blob, work->why));
    text[blob.count] = '\0';
    return tt_launch_rendezvous_parse(text, &work->meet, work->why);
}

tt_status tt_mesh_place_find(tt_mesh_work *work)
{
    const tt_launch_identity *identity = work->config->identity;
    char text[TT_LAUNCH_RENDEZVOUS_TEXT_BYTES];
    switch (identity->rendezvous.kind) {
    case TT_LAUNCH_RENDEZVOUS_TCP:
        work->meet = identity->rendezvous;
        break;
    case TT_LAUNCH_RENDEZVOUS_PMI:
        TT_TRY(pmi_exchange(work, text));
        TT_TRY(tt_launch_rendezvous_parse(text, &work->meet, work->why));
        break;
    case TT_LAUNCH_RENDEZVOUS_ENGINE:
        TT_TRY(engine_exchange(work, text));
        TT_TRY(tt_launch_rendezvous_parse(text, &work->meet, work->why));
        break;
    case TT_LAUNCH_RENDEZVOUS_FILE:
        TT_TRY(tt_mesh_file_store_init(&work->store, identity->rendezvous.path, identity->job_id,
                                       identity->incarnation, work->why));
        work->has_store = true;
        TT_TRY(read_store(work, work->deadline_ns));
        break;
    case TT_LAUNCH_RENDEZVOUS_NONE:
        return tt_mesh_work_fail(work, TT_ERR_BAD_CONFIG,
                                 "rank %u of %u has no rendezvous; set TUTTI_RENDEZVOUS",
                                 work->mesh->rank, work->mesh->size);
    }
    if (work->meet.kind != TT_LAUNCH_RENDEZVOUS_TCP) {
        return tt_mesh_work_fail(work, TT_ERR_BAD_WIRE, "rank 0 published no TCP address");
    }
    TT_TRY(resolve(work));
    tt_launch_address address;
    TT_TRY(tt_mesh_address_choose(work->config->source, &work->meet, &address, work->why));
    return listen_anywhere(work, &address);
}

bool tt_mesh_place_next(tt_mesh_work *work, tt_mesh_connection *connection)
{
    tt_launch_why ignored;
    tt_launch_why *why = work->why;
    work->why = &ignored; /* on failure the old address is tried again */
    if (work->has_store && read_store(work, tt_launch_now_ns()) == TT_OK) {
        (void)tt_launch_resolve(work->meet.host, &work->meet_addresses, &ignored);
    }
    work->why = why;
    if (tt_mesh_meeting_candidate(&work->meet_addresses, &work->meet, work->meet_turn++,
                                  &connection->address)) {
        return true;
    }
    work->meet_turn = 1;
    (void)tt_mesh_meeting_candidate(&work->meet_addresses, &work->meet, 0, &connection->address);
    return false;
}
