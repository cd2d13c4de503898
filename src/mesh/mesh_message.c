/* SPDX-License-Identifier: Apache-2.0
 *
 * mesh_message.c - sealed messages between a rank and rank 0 (mesh_wire.h has the layout).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/assert.h"
#include "base/base.h"
#include "mesh/mesh_internal.h"

bool tt_mesh_out_append(tt_mesh_connection *connection, const void *bytes, size_t count)
{
    if (connection->out_end + count > connection->out_capacity) {
        const size_t capacity = connection->out_end + count + TT_MESH_OUT_BYTES;
        uint8_t *out = realloc(connection->out, capacity);
        if (out == NULL) {
            return false;
        }
        connection->out = out;
        connection->out_capacity = capacity;
    }
    if (bytes != NULL) {
        memcpy(connection->out + connection->out_end, bytes, count);
    }
    connection->out_end += count;
    return true;
}

tt_status tt_mesh_talk(tt_mesh_connection *connection)
{
    connection->phase = TT_MESH_PHASE_TALKING;
    TT_TRY(tt_seal_init(&connection->seal_out, connection->keys.send));
    return tt_seal_init(&connection->seal_in, connection->keys.receive);
}

tt_status tt_mesh_message_queue(tt_mesh_connection *connection, tt_mesh_message kind,
                                const void *body, size_t body_bytes)
{
    const size_t begin = connection->out_end;
    const size_t wire_bytes =
        TT_SEAL_SEALED_HEAD_BYTES + tt_seal_payload_wire_bytes(TT_SEAL_AEAD, (uint32_t)body_bytes);
    TT_ASSERT(connection->phase == TT_MESH_PHASE_TALKING);
    if (!tt_mesh_out_append(connection, NULL, wire_bytes)) {
        return TT_ERR_NO_MEMORY;
    }
    uint8_t head[TT_SEAL_HEAD_BYTES];
    uint8_t *wire = connection->out + begin;
    tt_mesh_head_encode(kind, (uint32_t)body_bytes, head);
    TT_TRY(tt_seal_head(&connection->seal_out, head, wire));
    wire += TT_SEAL_SEALED_HEAD_BYTES;
    const uint8_t *plain = body;
    while (body_bytes > 0) {
        const size_t block_bytes = tt_min_u64(body_bytes, TT_SEAL_BLOCK_BYTES_MAX);
        TT_TRY(tt_seal_payload_block(&connection->seal_out, plain, block_bytes, wire,
                                     wire + block_bytes));
        wire += block_bytes + TT_SEAL_TAG_BYTES;
        plain += block_bytes;
        body_bytes -= block_bytes;
    }
    return TT_OK;
}

/* The longest body that this side accepts. */
static uint32_t body_bytes_max(const tt_mesh_work *work)
{
    const size_t others = TT_MESH_TEXT_BYTES;
    const size_t table = tt_mesh_work_is_root(work)
                             ? 0
                             : tt_mesh_table_bytes(work->mesh->size) + TT_MESH_NOTE_BYTES_MAX;
    return (uint32_t)tt_max_u64(others, table);
}

static tt_status open_head(tt_mesh_work *work, tt_mesh_connection *connection)
{
    uint8_t head[TT_SEAL_HEAD_BYTES];
    TT_TRY(tt_open_head(&connection->seal_in, connection->in, head));
    TT_TRY(tt_mesh_head_decode(head, body_bytes_max(work), &connection->kind,
                               &connection->body_bytes));
    connection->head_open = true;
    connection->in_bytes = 0;
    return TT_OK;
}

/* Blocks are decrypted in place, and moved together. */
static tt_status open_body(tt_mesh_connection *connection)
{
    uint8_t *plain = connection->in;
    const uint8_t *wire = connection->in;
    size_t rest = connection->body_bytes;
    while (rest > 0) {
        const size_t block_bytes = tt_min_u64(rest, TT_SEAL_BLOCK_BYTES_MAX);
        uint8_t tag[TT_SEAL_TAG_BYTES];
        memcpy(tag, wire + block_bytes, sizeof(tag));
        memmove(plain, wire, block_bytes);
        TT_TRY(tt_open_payload_block(&connection->seal_in, plain, block_bytes, tag, plain));
        plain += block_bytes;
        wire += block_bytes + TT_SEAL_TAG_BYTES;
        rest -= block_bytes;
    }
    return TT_OK;
}

static void peer_gone(tt_mesh_work *work, const tt_mesh_connection *connection)
{
    const uint32_t peer = connection->peer;
    const bool known = work->joined[peer];
    (void)tt_mesh_work_fail(work, TT_ERR_PEER_DOWN,
                            "rank %u%s%s closed its connection while the job was joining; see its "
                            "log",
                            peer, known ? " on " : "", known ? work->records[peer].host : "");
}

static void peer_talks_nonsense(tt_mesh_work *work, const tt_mesh_connection *connection)
{
    (void)tt_mesh_work_fail(work, TT_ERR_BAD_WIRE,
                            "rank %u sent a malformed message while the job was joining",
                            connection->peer);
}

/* Fills `in` up to `needed`. False: not all received yet, or the stream ended. */
static bool read_up_to(tt_mesh_work *work, tt_mesh_connection *connection, size_t needed)
{
    if (needed > connection->in_capacity) {
        uint8_t *in = realloc(connection->in, needed);
        if (in == NULL) {
            (void)tt_mesh_work_fail(work, TT_ERR_NO_MEMORY, "no memory for a message of %zu bytes",
                                    needed);
            return false;
        }
        connection->in = in;
        connection->in_capacity = needed;
    }
    while (connection->in_bytes < needed) {
        const ssize_t received = recv(connection->fd, connection->in + connection->in_bytes,
                                      needed - connection->in_bytes, MSG_DONTWAIT);
        if (received > 0) {
            connection->in_bytes += (size_t)received;
        } else if (received < 0 && errno == EINTR) {
            continue;
        } else if (received < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            return false;
        } else {
            peer_gone(work, connection);
            return false;
        }
    }
    return true;
}

void tt_mesh_message_read(tt_mesh_work *work, tt_mesh_connection *connection)
{
    while (work->status == TT_OK && !work->over && connection->phase == TT_MESH_PHASE_TALKING) {
        if (!connection->head_open) {
            if (!read_up_to(work, connection, TT_SEAL_SEALED_HEAD_BYTES)) {
                return;
            }
            if (open_head(work, connection) != TT_OK) {
                peer_talks_nonsense(work, connection);
                return;
            }
        }
        const size_t wire_bytes = tt_seal_payload_wire_bytes(TT_SEAL_AEAD, connection->body_bytes);
        if (!read_up_to(work, connection, wire_bytes)) {
            return;
        }
        if (open_body(connection) != TT_OK) {
            peer_talks_nonsense(work, connection);
            return;
        }
        connection->head_open = false;
        connection->in_bytes = 0;
        tt_mesh_meet_message(work, connection, connection->in);
    }
}
