/* SPDX-License-Identifier: Apache-2.0 */
#include "mesh/mesh_wire.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "base/assert.h"

/* The wire layout; every field is naturally aligned, so there is no padding. */
typedef struct wire_record {
    uint32_t rank;
    uint32_t flags;
    uint64_t host_id;
    uint64_t digest;
    uint32_t pid;
    uint8_t family; /* 4 or 6 */
    uint8_t zero;
    uint16_t port;
    uint8_t address[16]; /* IPv4: the first four, the rest zero */
    uint8_t name[TT_MESH_NAME_BYTES];
    char host[TT_MESH_HOST_BYTES];      /* printable, padded with at least one NUL */
    char engine[TT_MESH_ENGINE_BYTES];  /* printable, padded with NULs */
    uint8_t cores[TT_FACTS_CORE_BYTES]; /* at least one bit */
    uint32_t card_count;
    uint32_t card_mbits;
    uint32_t server_count;
    uint32_t zero_too;
    uint16_t setting_parts[TT_MESH_SETTINGS_MAX];
} wire_record;

typedef struct wire_table {
    uint64_t incarnation;
    uint32_t size;
    uint32_t zero;
} wire_table;

typedef struct wire_head {
    uint32_t kind;
    uint32_t body_bytes;
    uint8_t zeros[TT_SEAL_HEAD_BYTES - 8];
} wire_head;

_Static_assert(sizeof(wire_record) == TT_MESH_RECORD_BYTES, "a record is a wire format");
_Static_assert(sizeof(wire_table) == TT_MESH_TABLE_HEAD_BYTES, "a table is a wire format");
_Static_assert(sizeof(wire_head) == TT_SEAL_HEAD_BYTES, "a message head is a wire format");

void tt_mesh_record_encode(const tt_mesh_record *record, uint8_t bytes_out[TT_MESH_RECORD_BYTES])
{
    wire_record wire = {.rank = record->rank,
                        .flags = record->flags,
                        .host_id = record->host_id,
                        .digest = record->settings.digest,
                        .pid = record->pid,
                        .card_count = record->facts.card_count,
                        .card_mbits = record->facts.card_mbits,
                        .server_count = record->server_count};
    if (record->address.storage.ss_family == AF_INET) {
        const struct sockaddr_in *ipv4 = (const void *)&record->address.storage;
        wire.family = 4;
        wire.port = ntohs(ipv4->sin_port);
        memcpy(wire.address, &ipv4->sin_addr, sizeof(ipv4->sin_addr));
    } else {
        const struct sockaddr_in6 *ipv6 = (const void *)&record->address.storage;
        TT_ASSERT(record->address.storage.ss_family == AF_INET6);
        wire.family = 6;
        wire.port = ntohs(ipv6->sin6_port);
        memcpy(wire.address, &ipv6->sin6_addr, sizeof(ipv6->sin6_addr));
    }
    memcpy(wire.name, record->name, sizeof(wire.name));
    memcpy(wire.host, record->host, sizeof(wire.host));
    memcpy(wire.engine, record->engine, sizeof(wire.engine));
    memcpy(wire.cores, record->facts.cores, sizeof(wire.cores));
    memcpy(wire.setting_parts, record->settings.parts, sizeof(wire.setting_parts));
    memcpy(bytes_out, &wire, sizeof(wire));
}

static bool is_zero(const uint8_t *bytes, size_t count)
{
    uint8_t any = 0;
    for (size_t i = 0; i < count; i++) {
        any |= bytes[i];
    }
    return any == 0;
}

/* Length of a text that is printable, then NULs to the end; SIZE_MAX if it is not. */
static size_t text_length(const char *text, size_t bytes)
{
    size_t length = 0;
    while (length < bytes && text[length] > ' ' && text[length] <= '~') {
        length++;
    }
    return is_zero((const uint8_t *)text + length, bytes - length) ? length : SIZE_MAX;
}

static bool host_is_text(const char host[TT_MESH_HOST_BYTES])
{
    const size_t length = text_length(host, TT_MESH_HOST_BYTES);
    return length > 0 && length < TT_MESH_HOST_BYTES;
}

static bool address_decode(const wire_record *wire, tt_launch_address *address)
{
    memset(address, 0, sizeof(*address));
    if (wire->port == 0) {
        return false;
    }
    if (wire->family == 4) {
        struct sockaddr_in *ipv4 = (void *)&address->storage;
        ipv4->sin_family = AF_INET;
        ipv4->sin_port = htons(wire->port);
        memcpy(&ipv4->sin_addr, wire->address, sizeof(ipv4->sin_addr));
        address->bytes = sizeof(*ipv4);
        return is_zero(wire->address + 4, sizeof(wire->address) - 4);
    }
    struct sockaddr_in6 *ipv6 = (void *)&address->storage;
    ipv6->sin6_family = AF_INET6;
    ipv6->sin6_port = htons(wire->port);
    memcpy(&ipv6->sin6_addr, wire->address, sizeof(ipv6->sin6_addr));
    address->bytes = sizeof(*ipv6);
    return wire->family == 6;
}

tt_status tt_mesh_record_decode(const uint8_t bytes[TT_MESH_RECORD_BYTES],
                                tt_mesh_record *record_out)
{
    wire_record wire;
    memcpy(&wire, bytes, sizeof(wire));
    tt_mesh_record record = {
        .rank = wire.rank,
        .flags = wire.flags,
        .host_id = wire.host_id,
        .pid = wire.pid,
        .facts = {.card_count = wire.card_count, .card_mbits = wire.card_mbits},
        .server_count = wire.server_count,
        .settings = {.digest = wire.digest}};
    if ((wire.flags & ~(uint32_t)TT_MESH_FLAGS) != 0 || wire.zero != 0 || wire.zero_too != 0 ||
        wire.server_count >= TT_LAUNCH_SIZE_MAX || is_zero(wire.cores, sizeof(wire.cores)) ||
        text_length(wire.engine, sizeof(wire.engine)) == SIZE_MAX ||
        wire.rank >= TT_LAUNCH_SIZE_MAX || !host_is_text(wire.host) ||
        !address_decode(&wire, &record.address)) {
        return TT_ERR_BAD_WIRE;
    }
    memcpy(record.name, wire.name, sizeof(record.name));
    memcpy(record.host, wire.host, sizeof(record.host));
    memcpy(record.engine, wire.engine, sizeof(record.engine));
    memcpy(record.facts.cores, wire.cores, sizeof(wire.cores));
    memcpy(record.settings.parts, wire.setting_parts, sizeof(wire.setting_parts));
    *record_out = record;
    return TT_OK;
}

size_t tt_mesh_table_bytes(uint32_t size)
{
    TT_ASSERT(size <= TT_LAUNCH_SIZE_MAX);
    return TT_MESH_TABLE_HEAD_BYTES + (size_t)size * TT_MESH_RECORD_BYTES;
}

void tt_mesh_table_encode(uint64_t incarnation, const tt_mesh_record *records, uint32_t size,
                          uint8_t *bytes_out)
{
    const wire_table head = {.incarnation = incarnation, .size = size};
    memcpy(bytes_out, &head, sizeof(head));
    for (uint32_t rank = 0; rank < size; rank++) {
        TT_ASSERT(records[rank].rank == rank);
        tt_mesh_record_encode(&records[rank], bytes_out + tt_mesh_table_bytes(rank));
    }
}

tt_status tt_mesh_table_decode(const uint8_t *bytes, size_t byte_count, uint32_t size,
                               tt_mesh_record *records_out, uint64_t *incarnation_out)
{
    if (byte_count != tt_mesh_table_bytes(size)) {
        return TT_ERR_BAD_WIRE;
    }
    wire_table head;
    memcpy(&head, bytes, sizeof(head));
    if (head.size != size || head.zero != 0) {
        return TT_ERR_BAD_WIRE;
    }
    for (uint32_t rank = 0; rank < size; rank++) {
        TT_TRY(tt_mesh_record_decode(bytes + tt_mesh_table_bytes(rank), &records_out[rank]));
        if (records_out[rank].rank != rank) {
            return TT_ERR_BAD_WIRE;
        }
    }
    *incarnation_out = head.incarnation;
    return TT_OK;
}

void tt_mesh_head_encode(tt_mesh_message kind, uint32_t body_bytes,
                         uint8_t head_out[TT_SEAL_HEAD_BYTES])
{
    const wire_head head = {.kind = (uint32_t)kind, .body_bytes = body_bytes};
    memcpy(head_out, &head, sizeof(head));
}

tt_status tt_mesh_head_decode(const uint8_t bytes[TT_SEAL_HEAD_BYTES], uint32_t body_bytes_max,
                              tt_mesh_message *kind_out, uint32_t *body_bytes_out)
{
    wire_head head;
    memcpy(&head, bytes, sizeof(head));
    if (head.kind < TT_MESH_RECORD || head.kind > TT_MESH_FAILED ||
        head.body_bytes > body_bytes_max || !is_zero(head.zeros, sizeof(head.zeros))) {
        return TT_ERR_BAD_WIRE;
    }
    *kind_out = (tt_mesh_message)head.kind;
    *body_bytes_out = head.body_bytes;
    return TT_OK;
}
