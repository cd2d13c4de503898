/* SPDX-License-Identifier: Apache-2.0
 *
 * rendezvous_table_fuzz.c - decoders of the records that ranks send to rank 0, and of the table
 * that it answers with.
 *
 * Input: one byte chooses the decoder (modulo 3: record, table, message head), for a table one
 * more is the size the reader expects; the rest is the wire. Accepted bytes must encode to the very
 * same bytes: the format has one encoding for each meaning.
 *
 * Labels: mesh */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "mesh/mesh_wire.h"

enum { SIZE_MAX_HERE = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_record(const uint8_t *wire, size_t wire_bytes)
{
    tt_mesh_record record;
    uint8_t again[TT_MESH_RECORD_BYTES];
    if (wire_bytes != TT_MESH_RECORD_BYTES || tt_mesh_record_decode(wire, &record) != TT_OK) {
        return;
    }
    TT_ASSERT(record.rank < TT_LAUNCH_SIZE_MAX);
    TT_ASSERT(memchr(record.host, '\0', sizeof(record.host)) != NULL);
    tt_mesh_record_encode(&record, again);
    TT_ASSERT(memcmp(again, wire, sizeof(again)) == 0);
}

static void try_table(uint32_t size, const uint8_t *wire, size_t wire_bytes)
{
    tt_mesh_record records[SIZE_MAX_HERE];
    uint64_t incarnation;
    if (tt_mesh_table_decode(wire, wire_bytes, size, records, &incarnation) != TT_OK) {
        return;
    }
    uint8_t *again = malloc(wire_bytes);
    TT_ASSERT(again != NULL);
    tt_mesh_table_encode(incarnation, records, size, again);
    TT_ASSERT(memcmp(again, wire, wire_bytes) == 0);
    free(again);
}

static void try_head(const uint8_t *wire, size_t wire_bytes)
{
    tt_mesh_message kind;
    uint32_t body_bytes;
    uint8_t again[TT_SEAL_HEAD_BYTES];
    if (wire_bytes != sizeof(again) ||
        tt_mesh_head_decode(wire, TT_MESH_TEXT_BYTES, &kind, &body_bytes) != TT_OK) {
        return;
    }
    TT_ASSERT(body_bytes <= (uint32_t)TT_MESH_TEXT_BYTES);
    tt_mesh_head_encode(kind, body_bytes, again);
    TT_ASSERT(memcmp(again, wire, sizeof(again)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) {
        return 0;
    }
    switch (data[0] % 3) {
    case 0:
        try_record(data + 1, size - 1);
        break;
    case 1:
        try_table(1 + data[1] % SIZE_MAX_HERE, data + 2, size - 2);
        break;
    default:
        try_head(data + 1, size - 1);
        break;
    }
    return 0;
}
