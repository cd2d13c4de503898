/* SPDX-License-Identifier: Apache-2.0
 *
 * mesh_wire_test.c - records, tables and message heads: one encoding each, and no other accepted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "base/base.h"
#include "mesh/mesh_wire.h"

enum { TABLE_SIZE = 3 };

static tt_mesh_record make_record(uint32_t rank, int family)
{
    tt_mesh_record record = {.rank = rank,
                             .flags = TT_MESH_SHARES_MEMORY | TT_MESH_HAS_AES,
                             .host_id = UINT64_C(0x1122334455667788),
                             .settings = {.digest = 9, .parts = {1, 2}},
                             .pid = 4242,
                             .host = "node7",
                             .facts = {.cores = {0x0f}, .card_count = 2, .card_mbits = 20000},
                             .server_count = 3};
    memset(record.name, 0xab, sizeof(record.name));
    if (family == AF_INET) {
        struct sockaddr_in *ipv4 = (void *)&record.address.storage;
        *ipv4 = (struct sockaddr_in){
            .sin_family = AF_INET, .sin_port = htons(29501), .sin_addr.s_addr = htonl(0x0a000007)};
        record.address.bytes = sizeof(*ipv4);
    } else {
        struct sockaddr_in6 *ipv6 = (void *)&record.address.storage;
        *ipv6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(29502)};
        ipv6->sin6_addr = in6addr_loopback;
        record.address.bytes = sizeof(*ipv6);
    }
    return record;
}

static void test_a_record_survives_the_wire(void **state)
{
    (void)state;
    static const int families[] = {AF_INET, AF_INET6};
    for (size_t i = 0; i < TT_ARRAY_COUNT(families); i++) {
        const tt_mesh_record record = make_record(7, families[i]);
        uint8_t wire[TT_MESH_RECORD_BYTES];
        tt_mesh_record decoded;
        tt_mesh_record_encode(&record, wire);
        assert_int_equal(tt_mesh_record_decode(wire, &decoded), TT_OK);
        assert_int_equal(decoded.rank, 7);
        assert_int_equal(decoded.flags, record.flags);
        assert_int_equal(decoded.host_id, record.host_id);
        assert_memory_equal(&decoded.settings, &record.settings, sizeof(record.settings));
        assert_int_equal(decoded.pid, record.pid);
        assert_int_equal(decoded.address.bytes, record.address.bytes);
        assert_memory_equal(&decoded.address.storage, &record.address.storage,
                            record.address.bytes);
        assert_memory_equal(decoded.name, record.name, sizeof(record.name));
        assert_string_equal(decoded.host, "node7");
        assert_memory_equal(&decoded.facts, &record.facts, sizeof(record.facts));
        assert_int_equal(decoded.server_count, 3);
    }
}

typedef struct lie {
    size_t offset;
    uint8_t value;
} lie;

static void test_a_record_with_a_field_out_of_range_is_refused(void **state)
{
    (void)state;
    static const lie lies[] = {
        {2, 0x10},   /* rank 2^20 and more */
        {3, 0x80},   /* rank beyond 2^31 */
        {4, 15},     /* an unknown flag */
        {7, 0x80},   /* another */
        {28, 5},     /* neither IPv4 nor IPv6 */
        {29, 1},     /* a byte that must be zero */
        {40, 1},     /* beyond an IPv4 address */
        {64, 0},     /* no host name */
        {64, '\n'},  /* a host name that breaks a log line */
        {65, 0x80},  /* one that is not ASCII */
        {103, 'x'},  /* one without an end */
        {111, 0x01}, /* engine */
        {112, 0},    /* no core */
        {154, 0x10}, /* 2^20 servers and more */
        {156, 1},    /* another byte that must be zero */
    };
    for (size_t i = 0; i < TT_ARRAY_COUNT(lies); i++) {
        const tt_mesh_record record = make_record(7, AF_INET);
        uint8_t wire[TT_MESH_RECORD_BYTES];
        tt_mesh_record decoded;
        tt_mesh_record_encode(&record, wire);
        wire[lies[i].offset] = lies[i].value;
        assert_int_equal(tt_mesh_record_decode(wire, &decoded), TT_ERR_BAD_WIRE);
    }
}

static size_t make_table(uint8_t *wire)
{
    const tt_mesh_record records[TABLE_SIZE] = {make_record(0, AF_INET), make_record(1, AF_INET6),
                                                make_record(2, AF_INET)};
    tt_mesh_table_encode(77, records, TABLE_SIZE, wire);
    return tt_mesh_table_bytes(TABLE_SIZE);
}

static void test_only_a_whole_table_is_accepted(void **state)
{
    (void)state;
    uint8_t wire[TT_MESH_TABLE_HEAD_BYTES + (TABLE_SIZE + 1) * TT_MESH_RECORD_BYTES] = {0};
    tt_mesh_record records[TABLE_SIZE + 1];
    uint64_t incarnation = 0;
    const size_t bytes = make_table(wire);
    assert_int_equal(tt_mesh_table_decode(wire, bytes, TABLE_SIZE, records, &incarnation), TT_OK);
    assert_int_equal(incarnation, 77);
    for (size_t cut = 0; cut < sizeof(wire); cut++) {
        if (cut != bytes) {
            assert_int_equal(tt_mesh_table_decode(wire, cut, TABLE_SIZE, records, &incarnation),
                             TT_ERR_BAD_WIRE);
        }
    }
    assert_int_equal(tt_mesh_table_decode(wire, bytes, TABLE_SIZE + 1, records, &incarnation),
                     TT_ERR_BAD_WIRE);
}

static void test_a_table_of_wrong_size_or_order_is_refused(void **state)
{
    (void)state;
    uint8_t wire[TT_MESH_TABLE_HEAD_BYTES + TABLE_SIZE * TT_MESH_RECORD_BYTES];
    tt_mesh_record records[TABLE_SIZE];
    uint64_t incarnation;
    static const lie lies[] = {{8, 2}, {8, 4}, {11, 0xff}, {12, 1}, {16, 1}, {16 + 112, 0}};
    for (size_t i = 0; i < TT_ARRAY_COUNT(lies); i++) {
        const size_t bytes = make_table(wire);
        wire[lies[i].offset] = lies[i].value;
        assert_int_equal(tt_mesh_table_decode(wire, bytes, TABLE_SIZE, records, &incarnation),
                         TT_ERR_BAD_WIRE);
    }
}

static void test_a_message_longer_than_allowed_is_refused(void **state)
{
    (void)state;
    uint8_t head[TT_SEAL_HEAD_BYTES];
    tt_mesh_message kind;
    uint32_t body_bytes;
    static const uint32_t lengths[] = {101, INT32_MAX, UINT32_C(1) << 31, UINT32_MAX};
    tt_mesh_head_encode(TT_MESH_FAILED, 100, head);
    assert_int_equal(tt_mesh_head_decode(head, 100, &kind, &body_bytes), TT_OK);
    assert_int_equal(kind, TT_MESH_FAILED);
    assert_int_equal(body_bytes, 100);
    for (size_t i = 0; i < TT_ARRAY_COUNT(lengths); i++) {
        tt_mesh_head_encode(TT_MESH_FAILED, lengths[i], head);
        assert_int_equal(tt_mesh_head_decode(head, 100, &kind, &body_bytes), TT_ERR_BAD_WIRE);
    }
    for (uint8_t unknown = 6; unknown != 1; unknown++) { /* 6 ... 255, 0 */
        tt_mesh_head_encode(TT_MESH_FAILED, 0, head);
        head[0] = unknown;
        assert_int_equal(tt_mesh_head_decode(head, 100, &kind, &body_bytes), TT_ERR_BAD_WIRE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_record_survives_the_wire),
        cmocka_unit_test(test_a_record_with_a_field_out_of_range_is_refused),
        cmocka_unit_test(test_only_a_whole_table_is_accepted),
        cmocka_unit_test(test_a_table_of_wrong_size_or_order_is_refused),
        cmocka_unit_test(test_a_message_longer_than_allowed_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
