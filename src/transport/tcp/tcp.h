/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp.h - the link over TCP: two connected sockets per peer, one for each direction.
 *
 * seal.h has the layout of a frame on the wire in each mode. A head whose payload_bytes is
 * UINT32_MAX is the goodbye: it never reaches the machine, nothing follows it, and it takes no
 * bit of the head away from the layers above.
 *
 * (1) A frame once begun is finished before another begins; unbegun ones go by urgency, then age,
 *     then in the order of sending.
 * (2) The kernel holds a bounded number of unsent bytes (unsent_bytes), and to near peers of
 *     unacknowledged bytes (backlog.h): an urgent frame waits for no more than that.
 * (3) A frame that cannot be verified is never reported as arrived: the link goes DOWN with the
 *     cause.
 * (4) Silence is not failure. Keepalive on the receiving socket, which never holds unacknowledged
 *     bytes, detects a vanished host; there is no user timeout.
 * (5) DOWN and LEFT give every borrowed payload back: no `sent` follows, recall does nothing. They
 *     also shut the sockets, so that the peer detects it.
 * (6) An end that cannot verify a frame sends a rejection before it shuts the sockets: bytes that
 *     only the two ends can compute, backwards over the socket that it reads from, on which it
 *     sends nothing else. So both ends name the same rank: the one whose frames were not authentic.
 *     If these bytes are lost, the other end sees a closed connection.
 *
 * Layer:   transport.
 * Threads: used by the baton's holder only.
 * Memory:  create takes about 2.3 MiB of address space per link, touched only when used; the queue
 *          (frame_queue.h) only grows. Payloads up to 4 KiB are copied when they must wait. Mode
 *          AEAD with lent threads (transport.h) takes 256 KiB more for each direction at the first
 *          payload of more than one block.
 */
#ifndef TUTTI_TRANSPORT_TCP_TCP_H
#define TUTTI_TRANSPORT_TCP_TCP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "transport/secure/seal.h"
#include "transport/tcp/backlog.h"
#include "transport/transport.h"

enum {
    TT_TCP_CHUNK_BYTES = 256 * 1024, /* about the most that one poll moves each way */
    TT_TCP_KEEPALIVE_S = 30,
};

/* Both ends must agree on `mode`; the mesh checks that they do (configuration digest). */
typedef struct tt_tcp_config {
    uint32_t peer;
    int send_fd;    /* adopted on success: the link closes it */
    int receive_fd; /* adopted likewise */
    uint8_t send_key[TT_SEAL_KEY_BYTES];
    uint8_t receive_key[TT_SEAL_KEY_BYTES];
    tt_seal_mode mode;
    tt_seal_cipher cipher; /* mode AEAD: of payloads; agreed like `mode` */
    uint32_t keepalive_s;  /* 0: TT_TCP_KEEPALIVE_S */
    uint32_t unsent_bytes; /* bound on unsent bytes until the first `expect`; 0:
                            * TT_TCP_CHUNK_BYTES */
    tt_backlog_config backlog;
    const tt_machine *machine; /* may be set later in the link, before the first poll */
} tt_tcp_config;

extern const tt_link_ops tt_tcp_link_ops;

/* Bytes that wait in the kernel cannot be overtaken. A quarter of a frame keeps the wire busy while
 * the rank is woken: bytes already sent come on top (backlog.h). */
uint32_t tt_tcp_unsent_bytes(uint32_t frame_bytes);

/* `*link_out` is set only on TT_OK; destroy it through its table. */
tt_status tt_tcp_link_create(const tt_tcp_config *config, tt_link **link_out);

#endif
