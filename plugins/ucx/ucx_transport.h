/* SPDX-License-Identifier: Apache-2.0
 *
 * ucx_transport.h - parts of the UCX transport: labels, sends, messages, links.
 *
 * Layer:   plugin; uses only tutti/plugin.h of Tutti.
 * Threads: as plugin.h: one at a time.
 * Memory:  sends and messages are kept for reuse; at most two long frames of a link are in flight.
 */
#ifndef TUTTI_UCX_TRANSPORT_H
#define TUTTI_UCX_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <ucp/api/ucp.h>

#include "tutti/plugin.h"

enum {
    AM_ID = 7,
    COPY_BYTES_MAX = 16 * 1024,
    SMALL_BYTES_MAX = 192, /* payloads kept without another allocation */
    WAIT_MS = 400,         /* for a peer to fetch a payload, or to send one that it announced */
    POLLS_MAX = 16,
};

typedef struct ucx_label {
    uint8_t head[TUTTI_FRAME_HEAD_BYTES];
    uint64_t cookie; /* of the receiver: messages with another one are dropped */
    uint32_t rank;   /* of the sender */
    uint32_t zero;
} ucx_label;

typedef struct ucx_send {
    struct ucx_send *next;
    tutti_link *link;
    uint64_t token;
    bool is_told; /* `sent` is to be called */
    ucx_label label;
    uint8_t copy[COPY_BYTES_MAX]; /* follows the label: they are sent in one piece */
} ucx_send;

_Static_assert(offsetof(ucx_send, copy) == offsetof(ucx_send, label) + sizeof(ucx_label),
               "label and copy are one piece");

typedef enum ucx_where {
    AT_SMALL,   /* in `small` */
    AT_COPY,    /* in memory of the transport */
    AT_UCX,     /* in UCX's, to be released */
    AT_SENDER,  /* `data` describes it; to be fetched */
    ON_THE_WAY, /* being fetched to `data`, or to the link's sink */
} ucx_where;

/* A message that has arrived, or been announced. */
typedef struct ucx_message {
    struct ucx_message *next;
    tutti_link *link;
    ucx_label label;
    ucx_where where;
    void *data;
    void *held; /* AT_UCX: what to release */
    size_t bytes;
    uint8_t small[SMALL_BYTES_MAX];
} ucx_message;

struct tutti_link {
    tutti_transport *transport;
    tutti_link *next, *next_news;
    int peer;
    uint64_t cookie; /* the peer's */
    ucp_ep_h endpoint;
    bool has_error_mode, is_broken, has_news, is_mute;
    ucs_status_t error;
    tutti_link_upcalls upcalls;
    void *user;
    ucx_send *flying; /* not finished by UCX */
    ucx_message *messages, **messages_end;
    ucx_message *receiving; /* to `sink`; not in the list */
    void *sink;
};

struct tutti_transport {
    ucp_context_h context;
    ucp_worker_h worker;
    int rank;
    uint64_t cookie;
    tutti_link *links;
    tutti_link **by_rank;
    int by_rank_count;
    tutti_link *news; /* links with something to report */
    ucx_send *spare;
    ucx_send *done; /* finished, `sent` still to be called */
    ucx_message *spare_messages;
};

#endif
