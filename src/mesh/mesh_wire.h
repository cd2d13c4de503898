/* SPDX-License-Identifier: Apache-2.0
 *
 * mesh_wire.h - the messages between ranks and rank 0 while they join.
 *
 * After the handshake both directions carry messages: a sealed head {kind, body_bytes, zeros},
 * then the body in sealed blocks (seal.h, mode AEAD). All numbers are little-endian.
 *
 *     record   208 bytes: a rank's identity, where it listens, the facts of its machine, its job's
 *              number of servers, its settings
 *     table    {incarnation u64, size u32, zero u32}, then `size` records in rank order, then rank
 *              0's note to all, of any length to TT_MESH_NOTE_BYTES_MAX
 *     ready, go   empty
 *     failed   text, printable ASCII
 *
 * Layer:   mesh.
 * Threads: pure.
 * Memory:  the caller's buffers.
 */
#ifndef TUTTI_MESH_MESH_WIRE_H
#define TUTTI_MESH_MESH_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "mesh/mesh.h"

enum {
    TT_MESH_RECORD_BYTES = 208,
    TT_MESH_TABLE_HEAD_BYTES = 16,
    TT_MESH_NAME_BYTES = 16,
    TT_MESH_TEXT_BYTES = 704, /* longest text of FAILED */
};

typedef enum tt_mesh_message {
    TT_MESH_RECORD = 1,
    TT_MESH_TABLE,
    TT_MESH_READY,
    TT_MESH_GO,
    TT_MESH_FAILED,
} tt_mesh_message;

/* Flags of a record; unknown ones are refused. */
enum {
    TT_MESH_SHARES_MEMORY = 1,
    TT_MESH_HAS_AES = 2, /* its processor has AES-256-GCM; used if both ends have it */
    TT_MESH_SERVES = 4,  /* joins as a server */
    TT_MESH_FLAGS = TT_MESH_SHARES_MEMORY | TT_MESH_HAS_AES | TT_MESH_SERVES,
};

typedef struct tt_mesh_record {
    uint32_t rank;
    uint32_t flags;
    uint64_t host_id;
    uint32_t pid;
    tt_launch_address address;        /* where it listens, port included */
    uint8_t name[TT_MESH_NAME_BYTES]; /* of its Unix socket; zeros if it has none */
    char host[TT_MESH_HOST_BYTES];
    char engine[TT_MESH_ENGINE_BYTES]; /* printable, padded with NULs, if any */
    tt_facts facts;
    uint32_t server_count; /* as its TUTTI_SERVERS has it */
    tt_mesh_settings settings;
} tt_mesh_record;

void tt_mesh_record_encode(const tt_mesh_record *record, uint8_t bytes_out[TT_MESH_RECORD_BYTES]);

/* TT_ERR_BAD_WIRE unless every field is in its range. */
tt_status tt_mesh_record_decode(const uint8_t bytes[TT_MESH_RECORD_BYTES],
                                tt_mesh_record *record_out);

size_t tt_mesh_table_bytes(uint32_t size);
void tt_mesh_table_encode(uint64_t incarnation, const tt_mesh_record *records, uint32_t size,
                          uint8_t *bytes_out);

/* Writes `size` records. TT_ERR_BAD_WIRE unless the table is of that size, whole and in order. */
tt_status tt_mesh_table_decode(const uint8_t *bytes, size_t byte_count, uint32_t size,
                               tt_mesh_record *records_out, uint64_t *incarnation_out);

/* Message heads. decode: TT_ERR_BAD_WIRE if the kind is unknown or the body longer than
 * `body_bytes_max`. */
void tt_mesh_head_encode(tt_mesh_message kind, uint32_t body_bytes,
                         uint8_t head_out[TT_SEAL_HEAD_BYTES]);
tt_status tt_mesh_head_decode(const uint8_t head[TT_SEAL_HEAD_BYTES], uint32_t body_bytes_max,
                              tt_mesh_message *kind_out, uint32_t *body_bytes_out);

#endif
