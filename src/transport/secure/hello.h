/* SPDX-License-Identifier: Apache-2.0
 *
 * hello.h - messages that open a connection between two ranks, and the causes of a refusal.
 *
 * Three fixed layouts, all little-endian (docs/security-protocol.md has the tables):
 *
 *     opening  32 bytes, clear   magic, kind, version range, job fingerprint
 *     answer   16 bytes, clear   magic, kind (yes or no), version range
 *     payload  64 bytes, sealed  role, rank, world size, incarnation, features, library version
 *
 * (1) Opening and answer keep their layout in every protocol version, so that two releases
 *     without a common version can report it.
 * (2) Decoding trusts nothing: each field is range-checked, unused bytes must be zero, text that
 *     may reach a log is printable.
 *
 * Layer:   transport; may include base/ only. No I/O, no clock.
 * Threads: pure.
 * Memory:  caller's buffers.
 */
#ifndef TUTTI_TRANSPORT_SECURE_HELLO_H
#define TUTTI_TRANSPORT_SECURE_HELLO_H

#include <stdint.h>

#include "base/status.h"

/* 3: any member may ask which members have a named tensor; claims have a shape. 4: ASK. 5: stages
 * count from 0. 6: claims have a codec. 7: servers. 8: named sums by owners. 9: relays of hosts,
 * planes of parts. 10: rows of tables; workers take over sums. 11: sums of a quorum outlive
 * servers; STALLED. Raised with every change of the bytes on the wire: heads, claims, the records
 * of mesh/mesh_wire.h, the notices and records of negotiate/notice.h, the frames of
 * sync/sync_wire.h (frames_test.c in tests/negotiate and tests/store hold them as bytes). Two
 * builds that share no version refuse each other and name both ranges. */
#define TT_PROTOCOL_VERSION_MIN 11
#define TT_PROTOCOL_VERSION_MAX 11

#define TT_HELLO_FINGERPRINT_BYTES 16
#define TT_HELLO_OPENING_BYTES 32
#define TT_HELLO_ANSWER_BYTES 16
#define TT_HELLO_PAYLOAD_BYTES 64
#define TT_HELLO_LIBRARY_BYTES 16

/* Largest world that can be announced; a bound for tables sized from it. */
#define TT_HELLO_WORLD_SIZE_MAX (1U << 20)

/* Allowed with TT_HELLO_RENDEZVOUS only: a rank that joins may not know these yet. */
#define TT_HELLO_RANK_UNKNOWN UINT32_MAX
#define TT_HELLO_WORLD_SIZE_UNKNOWN 0U
#define TT_HELLO_INCARNATION_UNKNOWN UINT64_MAX

/* Purpose of the connection, chosen by its initiator. Values are wire format. */
typedef enum tt_hello_role {
    TT_HELLO_RENDEZVOUS = 1,   /* join the job */
    TT_HELLO_LINK_SEND = 2,    /* a link whose initiator sends the data */
    TT_HELLO_LINK_RECEIVE = 3, /* a link whose initiator receives the data */
    TT_HELLO_LOCAL = 4,        /* a Unix socket that will pass descriptors */
} tt_hello_role;

/* name, value, text. Values are wire format (verdict of the answer): append, never renumber. */
#define TT_HELLO_REFUSAL_MAP(X)                                                                  \
    X(NONE, 0, "not refused")                                                                    \
    X(BAD_MAGIC, 1, "it does not use Tutti's protocol")                                          \
    X(VERSION_SKEW, 2, "the two sides have no protocol version in common")                       \
    X(WRONG_JOB, 3, "it belongs to another job")                                                 \
    X(BAD_SECRET, 4, "it does not hold this job's secret, or the bytes were changed on the way") \
    X(MALFORMED, 5, "it sent a field outside its range")                                         \
    X(WRONG_INCARNATION, 6, "it belongs to another incarnation of the job")                      \
    X(WRONG_SIZE, 7, "it was started with another number of ranks")                              \
    X(WRONG_RANK, 8, "it is not the rank that was expected")                                     \
    X(DUPLICATE_RANK, 9, "its rank is taken")                                                    \
    X(WRONG_ROLE, 10, "it requested a kind of connection that is not offered")                   \
    X(CLOSED, 11, "it closed the connection before it answered")

typedef enum tt_hello_refusal {
#define X(name, value, text) TT_REFUSAL_##name = (value),
    TT_HELLO_REFUSAL_MAP(X)
#undef X
} tt_hello_refusal;

/* Text of the map; "unknown refusal" for other values. */
const char *tt_hello_refusal_text(tt_hello_refusal refusal);

typedef enum tt_hello_kind {
    TT_HELLO_OPENING,
    TT_HELLO_YES,
    TT_HELLO_NO,
} tt_hello_kind;

/* The clear part of either direction; the fingerprint travels in the opening only. */
typedef struct tt_hello_clear {
    tt_hello_kind kind;
    uint16_t version_min;
    uint16_t version_max;
    uint8_t fingerprint[TT_HELLO_FINGERPRINT_BYTES];
} tt_hello_clear;

/* The sealed part. Version and verdict are zero in the initiator's. */
typedef struct tt_hello {
    tt_hello_role role;
    tt_hello_refusal verdict;
    uint16_t version; /* that both will use */
    uint32_t rank;
    uint32_t world_size;
    uint64_t incarnation;
    uint64_t features;                     /* both use the intersection; unknown bits are ignored */
    char library[TT_HELLO_LIBRARY_BYTES];  /* "0.1.0", padded with NUL, at least one */
    uint8_t answer[TT_HELLO_ANSWER_BYTES]; /* copy of the clear answer; zero from the initiator */
} tt_hello;

/* Keyed BLAKE2b of the job id: distinguishes jobs without sending the id. */
void tt_hello_fingerprint(const char *job_id, uint8_t fingerprint_out[TT_HELLO_FINGERPRINT_BYTES]);

/* Writes TT_HELLO_OPENING_BYTES (kind OPENING) or TT_HELLO_ANSWER_BYTES (YES, NO). */
void tt_hello_clear_encode(const tt_hello_clear *clear, uint8_t *bytes_out);

/* Reads an opening, or an answer. NONE, BAD_MAGIC or MALFORMED. */
tt_hello_refusal tt_hello_opening_decode(const uint8_t *bytes, tt_hello_clear *clear_out);
tt_hello_refusal tt_hello_answer_decode(const uint8_t *bytes, tt_hello_clear *clear_out);

/* Highest version inside both ranges, or 0. */
uint16_t tt_hello_common_version(const tt_hello_clear *a, const tt_hello_clear *b);

void tt_hello_encode(const tt_hello *hello, uint8_t bytes_out[TT_HELLO_PAYLOAD_BYTES]);

/* NONE or MALFORMED. */
tt_hello_refusal tt_hello_decode(const uint8_t bytes[TT_HELLO_PAYLOAD_BYTES], tt_hello *hello_out);

#endif
