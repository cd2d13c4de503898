/* SPDX-License-Identifier: Apache-2.0
 *
 * mesh.h - from rank, size and rendezvous to a connection with every peer.
 *
 * Two phases in one event loop. Meet: every rank connects to rank 0, proves that it holds the job's
 * secret and sends its record; rank 0 replies to all with the whole table. Link: of each pair the
 * higher rank dials the lower, over a Unix socket where both can share memory, else over TCP, with
 * stream_count connections per direction. A rank with links to all peers sends READY to rank 0;
 * when all have, rank 0 sends GO.
 *
 * (1) All or none: if a rank is missing or fails before GO, every rank that can be reached fails
 *     with the same text, which names the culprit.
 * (2) A stranger (a connection before its handshake) gets 256 bytes and five seconds; at most 64
 *     over TCP and 64 over Unix sockets are read at a time, the oldest is dropped first. It can
 *     neither stop nor stall the job.
 * (3) Nothing from a peer is trusted before the handshake, and everything after it is checked.
 * (4) After the call no socket listens any more.
 *
 * Layer:   mesh; may include base/, launch/ and, of transport/, the handshake and the seal.
 * Threads: no state outside the call; any number of ranks may establish in one process.
 * Memory:  its size depends on the number of ranks, never on bytes from a peer.
 */
#ifndef TUTTI_MESH_MESH_H
#define TUTTI_MESH_MESH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/log.h"
#include "mesh/address.h"
#include "mesh/facts.h"
#include "transport/secure/seal.h"

enum {
    TT_MESH_TIMEOUT_MS = 60000,
    TT_MESH_STRANGER_MS = 5000,
    TT_MESH_STRANGERS_MAX = 64,
    TT_MESH_HOST_BYTES = 40,
    TT_MESH_STREAMS_MAX = 8,
    TT_MESH_ENGINE_BYTES = 8,
    TT_MESH_SETTINGS_MAX = 24,
    TT_MESH_NOTE_BYTES_MAX = 128 * 1024,
};

typedef enum tt_mesh_kind {
    TT_MESH_SELF,
    TT_MESH_TCP,
    TT_MESH_LOCAL, /* a Unix socket, memory can be shared */
} tt_mesh_kind;

/* A connection each way. The keys are those of its own two handshakes. */
typedef struct tt_mesh_stream {
    /* The caller takes a descriptor by setting it to -1 here. */
    int send_fd;
    int receive_fd;
    uint8_t send_key[TT_SEAL_KEY_BYTES];
    uint8_t receive_key[TT_SEAL_KEY_BYTES];
} tt_mesh_stream;

typedef struct tt_mesh_peer {
    tt_mesh_kind kind;
    uint32_t host_index;  /* hosts are numbered by their lowest rank */
    uint32_t local_index; /* among the ranks of its host, by rank */
    uint64_t process;     /* id of its process, as it reports: the same in all its jobs; not 0 */
    pid_t pid;            /* LOCAL: as the kernel reports it; 0 if not visible to us */
    bool same_process;    /* LOCAL: the peer is a thread of ours */
    bool has_aes;         /* both this rank and the peer have it */
    /* TCP: stream_count of them, numbered alike at both ends. LOCAL: the keys of the first. */
    tt_mesh_stream streams[TT_MESH_STREAMS_MAX];
    int socket_fd;                 /* LOCAL; taken as those of streams */
    int segment_fd;                /* LOCAL: the peer's memory; -1 if it sent none */
    char host[TT_MESH_HOST_BYTES]; /* for messages */
} tt_mesh_peer;

typedef struct tt_mesh {
    uint32_t rank;
    uint32_t size;
    uint64_t incarnation; /* random; the same on all ranks */
    uint32_t host_count;
    uint32_t local_count; /* ranks of this host, this one included */
    /* Ranks below it are workers, the others servers. Servers are last, so workers have the first
     * numbers among the ranks of a host, and hosts without workers the last ones of all hosts. */
    uint32_t worker_count;
    uint32_t worker_host_count;
    uint32_t worker_local_count;
    bool all_share_memory; /* each worker with the others of its host; the same on all ranks */
    tt_mesh_peer *peers;   /* by rank */
    tt_host_facts *hosts;  /* by host, of its workers, else of its servers; likewise */
    char *note;            /* rank 0's config->note; the same bytes on all ranks */
    size_t note_bytes;
} tt_mesh;

/* Settings that must agree: `digest` decides, `parts`, one for each of their names, say which one
 * differs. */
typedef struct tt_mesh_settings {
    uint64_t digest;
    uint16_t parts[TT_MESH_SETTINGS_MAX];
} tt_mesh_settings;

typedef struct tt_mesh_config {
    const tt_launch_identity *identity;
    const tt_launch_source *source;
    const uint8_t *secret; /* TT_NOISE_KEY_BYTES; NULL: from PMI's key-value space or the engine */
    int listen_fd;         /* rank 0: a listening socket to use, adopted; -1: create one */
    uint64_t host_id;
    tt_facts facts; /* of this rank's machine; sent to all */
    bool can_share_memory;
    bool has_aes;          /* payloads are to be encrypted, and this processor has AES for it */
    uint32_t server_count; /* of all ranks the last so many; joining fails if ranks differ */
    bool serves;           /* this rank joins as a server; joining fails if its number is another */
    uint32_t stream_count; /* TCP connections per peer and direction; 0: one */
    tt_mesh_settings settings;         /* joining fails if ranks differ */
    const char *const *setting_names;  /* [TT_MESH_SETTINGS_MAX]; NULL: no more of them */
    char engine[TT_MESH_ENGINE_BYTES]; /* tag of the outside engine, zeros: none; likewise */
    uint64_t timeout_ms;               /* 0: TT_MESH_TIMEOUT_MS */
    uint16_t version_min;              /* 0: this release's */
    uint16_t version_max;
    const tt_log *log;
    const char *note; /* rank 0: sent to every rank with the table of ranks */
    size_t note_bytes;

    /* Called once, after the meet phase, if this rank may share memory: yields the descriptor to
     * pass to peers, which stays the caller's, or -1 for none. NULL: none. */
    tt_status (*segment)(void *user, uint32_t local_index, uint32_t local_count, int *fd_out);
    /* Rendezvous ENGINE: broadcast `bytes` from rank 0; blocks. Else NULL. */
    tt_status (*broadcast)(void *user, void *bytes, size_t count);
    void *user;
} tt_mesh_config;

/* Blocks until all ranks are connected, a rank has failed, or the timeout has expired. `*mesh_out`
 * is set only on TT_OK; the caller then owns it. */
tt_status tt_mesh_establish(const tt_mesh_config *config, tt_mesh *mesh_out, tt_launch_why *why);

/* Closes the descriptors that were not taken, and wipes the keys. */
void tt_mesh_fini(tt_mesh *mesh);

#endif
