/* SPDX-License-Identifier: Apache-2.0
 *
 * mesh_internal.h - the state of one tt_mesh_establish, shared by mesh*.c.
 *
 * One loop drives connections. Each is in one phase:
 *
 *     WAITING --dial--> CONNECTING --> GREETING --> PASSING --> DONE (a link)
 *        ^------ retry -----+--------------+-----------+
 *     accept ---------------------> GREETING --> PASSING --> DONE
 *                                       +------> TALKING (with rank 0)
 *                                       +------> LEAVING (refused: send the reason, then close)
 *
 * Both ends of a link pass one byte, with a descriptor beside it where memory is shared. Only the
 * other end's byte proves that it has the link too: until then, the dialler retries.
 *
 * Layer:   mesh; private to mesh*.c.
 * Threads: one thread per work.
 * Memory:  connections come from malloc, at most `connection_max` of them.
 */
#ifndef TUTTI_MESH_MESH_INTERNAL_H
#define TUTTI_MESH_MESH_INTERNAL_H

#include <sys/un.h>

#include "launch/launch.h"
#include "mesh/file_store.h"
#include "mesh/mesh.h"
#include "mesh/mesh_wire.h"
#include "transport/secure/handshake.h"

enum {
    TT_MESH_OUT_BYTES = 512, /* by how much an output buffer grows beyond what is needed */
    TT_MESH_GRACE_MS = 5000, /* others wait longer than rank 0, for its report */
    TT_MESH_SILENT_MAX = 8,  /* how often rank 0 may close without a reason */
    TT_MESH_RETRY_MS_FIRST = 5,
    TT_MESH_RETRY_MS_LAST = 250,
    TT_MESH_REFUSAL_COUNT = 12,
    TT_MESH_ROOT = 0,
};

typedef enum tt_mesh_phase {
    TT_MESH_PHASE_WAITING,
    TT_MESH_PHASE_CONNECTING,
    TT_MESH_PHASE_GREETING,
    TT_MESH_PHASE_TALKING,
    TT_MESH_PHASE_PASSING,
    TT_MESH_PHASE_LEAVING,
    TT_MESH_PHASE_DONE, /* freed by the next sweep */
} tt_mesh_phase;

typedef struct tt_mesh_connection {
    tt_mesh_phase phase;
    int fd;
    bool outgoing;
    bool local;     /* a Unix socket */
    bool answered;  /* incoming: its first message proved the secret, or was a replay */
    bool was_reset; /* outgoing: the other side reset it, which is no refusal */
    tt_hello_role role;
    uint32_t peer; /* outgoing: the rank we dial; incoming: known after the handshake */
    tt_launch_address address;
    uint64_t created_ns;
    uint64_t deadline_ns; /* WAITING: when to dial; incoming: when it is dropped */
    uint32_t attempt;
    uint32_t silent_count; /* how often the other side closed without a reason */
    pid_t pid;
    char cause[256]; /* why the last attempt failed */

    tt_handshake handshake;
    tt_noise_keys keys;

    uint8_t *out;
    size_t out_begin, out_end, out_capacity;

    /* PASSING */
    bool passed, received;
    int received_fd;

    /* TALKING */
    tt_seal seal_out, seal_in;
    uint8_t *in;
    size_t in_bytes, in_capacity;
    bool head_open;
    bool told; /* the failure has been queued for it */
    tt_mesh_message kind;
    uint32_t body_bytes;
} tt_mesh_connection;

typedef struct tt_mesh_work {
    const tt_mesh_config *config;
    tt_mesh *mesh;
    tt_launch_why *why;
    uint8_t secret[TT_SEAL_KEY_BYTES]; /* the caller's, or from the launcher's key-value space */
    bool has_secret;
    uint8_t fingerprint[TT_HELLO_FINGERPRINT_BYTES];
    tt_launch_rendezvous meet; /* the TCP rendezvous, or the address found through another kind */
    tt_launch_address_list meet_addresses;
    size_t meet_turn;
    tt_mesh_file_store store; /* FILE only */
    bool has_store;

    uint64_t deadline_ns;
    uint64_t timeout_ms;
    bool linking;   /* the table is known */
    bool lingering; /* rank 0: failed, and reports it to ranks that still connect */
    bool going;     /* rank 0: every rank is ready, only GO is left to send */
    bool over;
    tt_status status; /* first failure */

    tt_mesh_meeting meeting; /* rank 0: where all ranks meet and link; others: where peers link */
    int unix_fd;
    size_t accept_turn;          /* which listener is served first */
    uint64_t accept_again_ns[2]; /* TCP, Unix: no accept before; all places are taken */
    uint64_t accept_short_ns;    /* since when accept has run out of descriptors; 0: it has not */

    tt_mesh_connection **connections;
    size_t connection_count, connection_max;
    tt_mesh_connection *root; /* of other ranks: the one to rank 0 */

    tt_mesh_record *records;
    bool *joined;
    uint32_t joined_count;
    uint32_t greeted_count; /* rank 0: ranks that passed the handshake, after a failure too */
    bool *ready;
    uint32_t ready_count;
    uint32_t linked_count; /* peers completely connected */
    uint32_t stream_count; /* TCP connections per peer and direction */
    bool said_ready;
    int segment_fd;

    uint64_t refused_count[TT_MESH_REFUSAL_COUNT];
    char last_refusal[256];
} tt_mesh_work;

/* mesh.c: the first failure wins; always returns `status`. */
tt_status tt_mesh_work_fail(tt_mesh_work *work, tt_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static inline bool tt_mesh_work_is_root(const tt_mesh_work *work)
{
    return work->config->identity->rank == TT_MESH_ROOT;
}

/* mesh_connection.c */
tt_mesh_connection *tt_mesh_connection_create(tt_mesh_work *work);
void tt_mesh_connection_close(tt_mesh_connection *connection); /* DONE; closes the fd */
void tt_mesh_connection_destroy(tt_mesh_connection *connection);
void tt_mesh_connection_dial(tt_mesh_work *work, tt_mesh_connection *connection);
void tt_mesh_connection_greet(tt_mesh_work *work, tt_mesh_connection *connection);
/* Reads and writes as far as possible without blocking. */
void tt_mesh_connection_progress(tt_mesh_work *work, tt_mesh_connection *connection);
short tt_mesh_connection_events(const tt_mesh_connection *connection);
bool tt_mesh_connection_flush(tt_mesh_connection *connection); /* false: broken */
void tt_mesh_connection_retry(tt_mesh_work *work, tt_mesh_connection *connection);
/* "[::1]:29501", "local socket of rank 3". */
const char *tt_mesh_connection_name(const tt_mesh_connection *connection, char text[96]);

/* mesh_message.c: sealed messages with rank 0. */
tt_status tt_mesh_talk(tt_mesh_connection *connection);
tt_status tt_mesh_message_queue(tt_mesh_connection *connection, tt_mesh_message kind,
                                const void *body, size_t body_bytes);
void tt_mesh_message_read(tt_mesh_work *work, tt_mesh_connection *connection);
bool tt_mesh_out_append(tt_mesh_connection *connection, const void *bytes, size_t count);

/* mesh_accept.c */
void tt_mesh_accept(tt_mesh_work *work, int listen_fd, bool local);
/* Incoming, and not authenticated yet. */
bool tt_mesh_is_stranger(const tt_mesh_connection *connection);
/* DONE. The dialler sees a reset, not an end of stream: it may retry without limit. */
void tt_mesh_drop_stranger(tt_mesh_connection *connection);
void tt_mesh_note_refusal(tt_mesh_work *work, tt_mesh_connection *connection);

/* mesh_place.c */
tt_status tt_mesh_place_root(tt_mesh_work *work); /* rank 0: listen, and publish the address */
void tt_mesh_place_withdraw(tt_mesh_work *work);  /* remove the published address */
tt_status tt_mesh_place_find(tt_mesh_work *work); /* others: find rank 0's address; listen too */
tt_status tt_mesh_place_listen_local(tt_mesh_work *work);
tt_status tt_mesh_place_record(tt_mesh_work *work);
/* The next address of rank 0. False: all have been tried, this is the first one again. */
bool tt_mesh_place_next(tt_mesh_work *work, tt_mesh_connection *connection);
socklen_t tt_mesh_unix_address(const uint8_t name[TT_MESH_NAME_BYTES],
                               struct sockaddr_un *address_out);

/* mesh_meet.c */
void tt_mesh_meet_greeted(tt_mesh_work *work, tt_mesh_connection *connection);
void tt_mesh_meet_message(tt_mesh_work *work, tt_mesh_connection *connection, const uint8_t *body);
void tt_mesh_meet_timed_out(tt_mesh_work *work);
void tt_mesh_meet_advance(tt_mesh_work *work); /* sends READY and GO when they are due */

/* mesh_link.c */
void tt_mesh_link_start(tt_mesh_work *work);
void tt_mesh_link_greeted(tt_mesh_work *work, tt_mesh_connection *connection);
void tt_mesh_link_pass(tt_mesh_work *work, tt_mesh_connection *connection);

#endif
