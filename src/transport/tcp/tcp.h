/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp.h - the link over TCP: two connected sockets per peer, one for each direction.
 *
 * A frame on the wire is what seal.h says for the mode. A head whose payload_bytes is
 * UINT32_MAX is the goodbye: it never reaches the machine, nothing follows it, and it takes no
 * bit of the head away from the layers above.
 *
 * (1) A frame once begun is finished before another begins; unbegun ones go by urgency, then age,
 *     then in the order of sending.
 * (2) The kernel holds a bounded number of bytes, so an urgent frame waits for no more than that:
 *     of those not yet sent (unsent_bytes), and near by of all that are not acknowledged
 * (backlog.h). (3) What cannot be verified is never reported as arrived: the link goes DOWN and
 * says why. (4) Silence is not failure. A vanished host is noticed by keepalive on the receiving
 * socket, which never holds unacknowledged bytes; there is no user timeout. (5) DOWN and LEFT give
 * every borrowed payload back: no `sent` follows, recall does nothing. They also shut the sockets,
 * so that the peer learns of it.
 *
 * (6) Who finds that a frame cannot be verified says so before it shuts the sockets, by bytes that
 * only the two ends know, backwards over the socket that it reads from, on which it sends nothing
 * else. So both ends name the same rank: the one whose frames were not authentic. Where these bytes
 * are lost the other end sees a closed connection.
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
    TT_TCP_CHUNK_BYTES = 256 * 1024, /* what one poll moves each way, about */
    TT_TCP_KEEPALIVE_S = 30,
};

/* Both ends must agree on `mode`; the mesh checks that they do (configuration digest). */
typedef struct tt_tcp_config {
    uint32_t peer;
    int send_fd;    /* adopted on success: the link closes it */
    int receive_fd; /* the same */
    uint8_t send_key[TT_SEAL_KEY_BYTES];
    uint8_t receive_key[TT_SEAL_KEY_BYTES];
    tt_seal_mode mode;
    tt_seal_cipher cipher; /* mode AEAD: of payloads; agreed like `mode` */
    uint32_t keepalive_s;  /* 0: TT_TCP_KEEPALIVE_S */
    uint32_t unsent_bytes; /* bound of what is not on the wire, 0: TT_TCP_CHUNK_BYTES; until
                            * somebody says what to expect */
    tt_backlog_config backlog;
    const tt_machine *machine; /* may be set later in the link, before the first poll */
} tt_tcp_config;

extern const tt_link_ops tt_tcp_link_ops;

/* What waits in the kernel cannot be overtaken. A quarter of a frame keeps the wire busy while the
 * rank is woken: what is on its way to the wire lies beside it (backlog.h). */
uint32_t tt_tcp_unsent_bytes(uint32_t frame_bytes);

/* `*link_out` is set only on TT_OK; destroy it through its table. */
tt_status tt_tcp_link_create(const tt_tcp_config *config, tt_link **link_out);

#endif
