/* SPDX-License-Identifier: Apache-2.0
 *
 * mpi_links.c - frames as messages of MPI, on a communicator of their own.
 *
 * A frame is one message: its head, the payload's length and a short payload. A long payload is a
 * second message, received directly into the memory that Tutti gives for it. MPI keeps the order of
 * messages between two ranks, so the n-th long payload belongs to the n-th frame that announces
 * one.
 *
 * MPI has no descriptor to sleep on: Tutti polls, at growing intervals.
 *
 * Two ranks that recall at the same time wait for each other to receive: so a rank that waits
 * receives all announced payloads, into memory of its own.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mpi_plugin.h"

enum { TAG_FRAME = 1, TAG_PAYLOAD = 2, COPY_BYTES_MAX = 16 * 1024, WAIT_MS = 400, PROBES_MAX = 16 };

typedef struct mpi_head {
    uint8_t head[TUTTI_FRAME_HEAD_BYTES];
    uint32_t payload_bytes, zero;
} mpi_head;

typedef struct mpi_send {
    struct mpi_send *next;
    MPI_Request requests[2]; /* the frame; its long payload, or MPI_REQUEST_NULL */
    uint64_t token;
    bool is_told;
    mpi_head head;
    uint8_t copy[COPY_BYTES_MAX]; /* follows the head: they are sent in one piece */
} mpi_send;

_Static_assert(offsetof(mpi_send, copy) == offsetof(mpi_send, head) + sizeof(mpi_head),
               "head and copy are one piece");

/* A frame that has arrived; `data` is its payload, or where a long one is being received. */
typedef struct mpi_message {
    struct mpi_message *next;
    mpi_head head;
    MPI_Request request; /* of a long payload */
    bool is_long, is_posted;
    uint8_t *data;
} mpi_message;

struct tutti_link {
    tutti_transport *transport;
    tutti_link *next;
    int peer;
    bool is_broken, is_mute;
    bool is_asking; /* in the upcall for a long payload's place: later ones are posted after it */
    tutti_link_upcalls upcalls;
    void *user;
    mpi_send *flying;
    mpi_message *messages, **messages_end;
    mpi_message *receiving; /* reported, its long payload goes to `sink`; not in the list */
    void *sink;
};

struct tutti_transport {
    MPI_Comm comm;
    tutti_link *links;
    tutti_link **by_rank;
    int size;
    uint8_t room[sizeof(mpi_head) + COPY_BYTES_MAX];
};

static double now_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* ---- receiving ---- */

static void free_message(mpi_message *message)
{
    if (message != NULL) {
        free(message->data);
        free(message);
    }
}

/* Keep the frame of `bytes` in the transport's receive buffer. */
static void keep_frame(tutti_transport *transport, tutti_link *link, int bytes)
{
    mpi_message *message = calloc(1, sizeof(*message));
    const size_t payload = bytes >= (int)sizeof(mpi_head) ? (size_t)bytes - sizeof(mpi_head) : 0;
    if (message != NULL && bytes >= (int)sizeof(mpi_head)) {
        memcpy(&message->head, transport->room, sizeof(mpi_head));
        message->request = MPI_REQUEST_NULL;
        message->is_long = message->head.payload_bytes > COPY_BYTES_MAX;
        message->data = message->is_long ? NULL : malloc(payload > 0 ? payload : 1);
    }
    if (message == NULL || bytes < (int)sizeof(mpi_head) ||
        (!message->is_long && (message->data == NULL || message->head.payload_bytes != payload))) {
        free_message(message);
        link->is_broken = true;
        return;
    }
    if (!message->is_long) {
        memcpy(message->data, transport->room + sizeof(mpi_head), payload);
    }
    *link->messages_end = message;
    link->messages_end = &message->next;
}

/* Take frames that have arrived; true if there was one. */
static bool take_frames(tutti_transport *transport)
{
    bool moved = false;
    for (int i = 0; i < PROBES_MAX; i++) {
        int is_there = 0, bytes = 0;
        MPI_Status status;
        if (MPI_Iprobe(MPI_ANY_SOURCE, TAG_FRAME, transport->comm, &is_there, &status) !=
                MPI_SUCCESS ||
            !is_there) {
            break;
        }
        if (MPI_Recv(transport->room, (int)sizeof(transport->room), MPI_BYTE, status.MPI_SOURCE,
                     TAG_FRAME, transport->comm, &status) != MPI_SUCCESS) {
            break;
        }
        tutti_link *link = transport->by_rank[status.MPI_SOURCE];
        (void)MPI_Get_count(&status, MPI_BYTE, &bytes);
        if (link != NULL) {
            keep_frame(transport, link, bytes);
        }
        moved = true;
    }
    return moved;
}

/* Receive a long payload to `target`. */
static void post(tutti_link *link, mpi_message *message, void *target)
{
    message->is_posted = true;
    if (MPI_Irecv(target, (int)message->head.payload_bytes, MPI_BYTE, link->peer, TAG_PAYLOAD,
                  link->transport->comm, &message->request) != MPI_SUCCESS) {
        link->is_broken = true;
    }
}

/* Receive it to the link's own memory. */
static void post_aside(tutti_link *link, mpi_message *message)
{
    message->data = malloc(message->head.payload_bytes);
    if (message->data == NULL) {
        link->is_broken = true;
        return;
    }
    post(link, message, message->data);
}

static bool is_here(mpi_message *message)
{
    int is_over = 1;
    if (message->is_posted && message->request != MPI_REQUEST_NULL) {
        (void)MPI_Test(&message->request, &is_over, MPI_STATUS_IGNORE);
    }
    return is_over != 0;
}

/* Report a message whose payload is here. */
static void tell(tutti_link *link, mpi_message *message)
{
    const tutti_link_upcalls *up = &link->upcalls;
    const uint32_t bytes = message->head.payload_bytes;
    if (bytes <= up->inline_bytes_max) {
        (void)up->frame(link->user, message->head.head, message->data, bytes);
    } else {
        void *sink = up->frame(link->user, message->head.head, NULL, bytes);
        if (sink != NULL) {
            memcpy(sink, message->data, bytes);
            up->stored(link->user, message->head.head);
        }
    }
    free_message(message);
}

static void announce(tutti_link *link, mpi_message *message)
{
    const uint32_t bytes = message->head.payload_bytes;
    link->is_asking = true;
    void *sink = bytes > link->upcalls.inline_bytes_max
                     ? link->upcalls.frame(link->user, message->head.head, NULL, bytes)
                     : NULL;
    link->is_asking = false;
    link->receiving = message;
    link->sink = sink;
    if (sink != NULL) {
        post(link, message, sink);
    } else {
        post_aside(link, message);
    }
}

static void finish(tutti_link *link)
{
    mpi_message *message = link->receiving;
    const bool has_sink = link->sink != NULL;
    link->receiving = NULL;
    link->sink = NULL;
    if (has_sink) {
        link->upcalls.stored(link->user, message->head.head);
    } else if (message->head.payload_bytes <= link->upcalls.inline_bytes_max) {
        tell(link, message);
        return;
    }
    free_message(message);
}

static bool tell_link(tutti_link *link)
{
    bool moved = false;
    while (link->upcalls.frame != NULL && !link->is_broken) {
        mpi_message *message = link->messages;
        if (link->receiving != NULL) {
            if (!is_here(link->receiving)) {
                break;
            }
            finish(link);
        } else if (message != NULL && (!message->is_posted || is_here(message))) {
            link->messages = message->next;
            if (link->messages == NULL) {
                link->messages_end = &link->messages;
            }
            if (message->is_long && !message->is_posted) {
                announce(link, message);
            } else {
                tell(link, message);
            }
        } else {
            break;
        }
        moved = true;
    }
    return moved;
}

/* ---- sending ---- */

static int links_send(tutti_link *link, const tutti_frame *frame)
{
    const bool is_long = frame->payload_bytes > COPY_BYTES_MAX;
    const MPI_Comm comm = link->transport->comm;
    if (link->is_broken) {
        return TUTTI_ERR_PEER_DOWN;
    }
    mpi_send *send = malloc(sizeof(*send));
    if (send == NULL) {
        return TUTTI_ERR_NO_MEMORY;
    }
    send->token = frame->token;
    send->is_told = is_long;
    send->requests[0] = send->requests[1] = MPI_REQUEST_NULL;
    memcpy(send->head.head, frame->head, sizeof(send->head.head));
    send->head.payload_bytes = frame->payload_bytes;
    send->head.zero = 0;
    const uint32_t copied = is_long ? 0 : frame->payload_bytes;
    if (copied > 0) {
        memcpy(send->copy, frame->payload, copied);
    }
    int code = MPI_Isend(&send->head, (int)(sizeof(send->head) + copied), MPI_BYTE, link->peer,
                         TAG_FRAME, comm, &send->requests[0]);
    if (code == MPI_SUCCESS && is_long) {
        code = MPI_Isend(frame->payload, (int)frame->payload_bytes, MPI_BYTE, link->peer,
                         TAG_PAYLOAD, comm, &send->requests[1]);
    }
    if (code != MPI_SUCCESS) {
        link->is_broken = true; /* started requests are left to MPI */
        return TUTTI_ERR_PEER_DOWN;
    }
    send->next = link->flying;
    link->flying = send;
    return is_long ? TUTTI_IN_PROGRESS : TUTTI_OK;
}

/* Sends that have ended; `sent` is called only if `tells`. True if there was one. */
static bool end_sends(tutti_link *link, bool tells)
{
    bool moved = false;
    for (mpi_send **at = &link->flying; *at != NULL;) {
        mpi_send *send = *at;
        MPI_Status statuses[2];
        int is_over = 0;
        if (MPI_Testall(2, send->requests, &is_over, statuses) != MPI_SUCCESS) {
            link->is_broken = true;
        }
        if (!is_over || (send->is_told && !tells)) {
            at = &send->next;
            continue;
        }
        *at = send->next;
        const bool is_told = send->is_told;
        const uint64_t token = send->token;
        free(send);
        moved = true;
        if (is_told && link->upcalls.sent != NULL) {
            link->upcalls.sent(link->user, token);
            at = &link->flying; /* the upcall may have changed it */
        }
    }
    return moved;
}

static bool is_landed(tutti_link *link, uint64_t token)
{
    for (mpi_send *send = link->flying; send != NULL; send = send->next) {
        MPI_Status statuses[2];
        int is_over = 0;
        if (send->token == token && send->is_told) {
            (void)MPI_Testall(2, send->requests, &is_over, statuses);
            return is_over != 0;
        }
    }
    return true;
}

static bool is_received(tutti_link *link, uint64_t token)
{
    (void)token;
    return link->receiving == NULL || is_here(link->receiving);
}

/* Make progress without upcalls, until `is_over` or for WAIT_MS. */
static bool wait_quietly(tutti_link *link, bool (*is_over)(tutti_link *, uint64_t), uint64_t token)
{
    tutti_transport *transport = link->transport;
    const double until = now_s() + (link->is_mute ? 0.0 : WAIT_MS * 1e-3);
    bool is_done = is_over(link, token);
    while (!is_done && !link->is_broken && now_s() < until) {
        (void)take_frames(transport);
        for (tutti_link *other = transport->links; other != NULL; other = other->next) {
            mpi_message *at = other->is_asking ? NULL : other->messages;
            for (; at != NULL; at = at->next) {
                if (at->is_long && !at->is_posted) {
                    post_aside(other, at);
                }
            }
        }
        is_done = is_over(link, token);
    }
    link->is_mute = !is_done; /* an unresponsive peer is waited for only once */
    return is_done;
}

static void links_recall(tutti_link *link, uint64_t token)
{
    (void)wait_quietly(link, is_landed, token);
    for (mpi_send *send = link->flying; send != NULL; send = send->next) {
        if (send->token == token) {
            send->is_told = false;
        }
    }
}

static void links_discard(tutti_link *link)
{
    mpi_message *message = link->receiving;
    if (message == NULL || link->sink == NULL) {
        return;
    }
    if (!wait_quietly(link, is_received, 0)) {
        (void)MPI_Cancel(&message->request);
        (void)MPI_Wait(&message->request, MPI_STATUS_IGNORE);
        link->is_broken = true; /* its messages no longer fit its frames */
    }
    link->receiving = NULL;
    link->sink = NULL;
    free_message(message);
}

/* ---- the pass ---- */

static int links_poll(tutti_transport *transport)
{
    bool moved = take_frames(transport);
    for (tutti_link *link = transport->links; link != NULL; link = link->next) {
        if (link->flying != NULL) {
            moved = end_sends(link, true) || moved;
        }
        if (link->messages != NULL || link->receiving != NULL) {
            moved = tell_link(link) || moved;
        }
    }
    return moved ? 1 : 0;
}

static int links_descriptor(const tutti_transport *transport)
{
    (void)transport;
    return -1;
}

static int links_arm(tutti_transport *transport)
{
    (void)transport;
    return 0;
}

static int links_is_idle(const tutti_link *link)
{
    return link->flying == NULL ? 1 : 0;
}

static int links_state(const tutti_link *link, char *why)
{
    if (link->is_broken) {
        (void)snprintf(why, TUTTI_PLUGIN_WHY_BYTES, "mpi: a message could not be sent or received");
    }
    return link->is_broken ? 1 : 0;
}

/* ---- life ---- */

static int links_open(const tutti_plugin_host *host, tutti_transport **transport_out, char *why)
{
    const int status = tt_mpi_start(why);
    (void)host;
    if (status != TUTTI_OK) {
        return status;
    }
    tutti_transport *transport = calloc(1, sizeof(*transport));
    if (transport == NULL) {
        return TUTTI_ERR_NO_MEMORY;
    }
    if (MPI_Comm_dup(MPI_COMM_WORLD, &transport->comm) != MPI_SUCCESS) {
        free(transport);
        (void)snprintf(why, TUTTI_PLUGIN_WHY_BYTES, "MPI_Comm_dup of the world failed");
        return TUTTI_ERR_SYSTEM;
    }
    (void)MPI_Comm_set_errhandler(transport->comm, MPI_ERRORS_RETURN);
    (void)MPI_Comm_size(transport->comm, &transport->size);
    transport->by_rank = calloc((size_t)transport->size, sizeof(tutti_link *));
    if (transport->by_rank == NULL) {
        free(transport);
        return TUTTI_ERR_NO_MEMORY;
    }
    *transport_out = transport;
    return TUTTI_OK;
}

/* The communicator is left to MPI_Finalize: to free it is a collective call, and a peer may be
 * gone. */
static void links_close(tutti_transport *transport)
{
    free(transport->by_rank);
    free(transport);
}

static void links_describe(const tutti_transport *transport, char *text)
{
    (void)transport;
    (void)snprintf(text, TUTTI_PLUGIN_WHY_BYTES, "MPI messages");
}

static int links_address(tutti_transport *transport, void *bytes, size_t *byte_count)
{
    (void)transport;
    *(char *)bytes = 0; /* its rank is its address */
    *byte_count = 1;
    return TUTTI_OK;
}

static int links_connect(tutti_transport *transport, const tutti_link_place *place,
                         tutti_link **link_out)
{
    tutti_link *link = calloc(1, sizeof(*link));
    if (link == NULL || place->peer < 0 || place->peer >= transport->size) {
        free(link);
        return TUTTI_ERR_NO_RESOURCE;
    }
    link->transport = transport;
    link->peer = place->peer;
    link->messages_end = &link->messages;
    link->next = transport->links;
    transport->links = link;
    transport->by_rank[place->peer] = link;
    *link_out = link;
    return TUTTI_OK;
}

static void links_attach(tutti_link *link, const tutti_link_upcalls *upcalls, void *user)
{
    link->upcalls = *upcalls;
    link->user = user;
}

static void links_disconnect(tutti_link *link)
{
    tutti_transport *transport = link->transport;
    const double until = now_s() + (link->is_broken || link->is_mute ? 0.0 : 0.5);
    link->upcalls = (tutti_link_upcalls){.struct_bytes = sizeof(link->upcalls)};
    while (link->flying != NULL && now_s() < until) {
        (void)end_sends(link, true);
        (void)take_frames(transport);
    }
    tutti_link **at = &transport->links;
    while (*at != link) {
        at = &(*at)->next;
    }
    *at = link->next;
    transport->by_rank[link->peer] = NULL;
    while (link->messages != NULL && !link->messages->is_posted) {
        mpi_message *message = link->messages;
        link->messages = message->next;
        free_message(message);
    }
    if (link->flying == NULL && link->receiving == NULL && link->messages == NULL) {
        free(link); /* else MPI may still use its memory */
    }
}

const tutti_transport_ops tt_mpi_links = {
    .struct_bytes = sizeof(tutti_transport_ops),
    .flags = TUTTI_TRANSPORT_POLLED,
    .open = links_open,
    .close = links_close,
    .describe = links_describe,
    .address = links_address,
    .connect = links_connect,
    .disconnect = links_disconnect,
    .attach = links_attach,
    .send = links_send,
    .recall = links_recall,
    .discard = links_discard,
    .poll = links_poll,
    .descriptor = links_descriptor,
    .arm = links_arm,
    .is_idle = links_is_idle,
    .state = links_state,
};
