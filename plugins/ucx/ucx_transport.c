/* SPDX-License-Identifier: Apache-2.0
 *
 * ucx_transport.c - frames as active messages of UCP: RDMA, shared memory or TCP, as UCX finds
 * them.
 *
 * A message's header is the frame's head, the receiver's cookie and the sender's rank; its data the
 * payload. Short payloads are copied, long ones are the caller's until UCX has done with them.
 * Calls up are made from inside poll only. Elsewhere (recall, discard) progress is made quietly:
 * what arrives meanwhile is held until the next poll.
 *
 * Between ranks of one host endpoints have no error handling, because UCX's shared memory has none;
 * Tutti watches the processes itself. Between hosts peer failures are UCX's to report, too.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucp/api/ucp.h>

#include "tutti/plugin.h"

enum { AM_ID = 7, COPY_BYTES_MAX = 16 * 1024, WAIT_MS = 1000 };

typedef struct ucx_header {
    uint8_t head[TUTTI_FRAME_HEAD_BYTES];
    uint64_t cookie; /* of the receiver: who does not know it is not heard */
    uint32_t rank;   /* of the sender */
    uint32_t zero;
} ucx_header;

typedef struct ucx_send {
    struct ucx_send *next;
    tutti_link *link;
    ucx_header header;
    uint64_t token;
    bool is_told; /* `sent` is to be called */
    uint8_t copy[COPY_BYTES_MAX];
} ucx_send;

/* A message whose turn to be told has not come. */
typedef struct ucx_held {
    struct ucx_held *next;
    ucx_header header;
    void *data; /* a copy, or a descriptor if the data is still with the sender */
    size_t bytes;
    bool is_remote;
} ucx_held;

struct tutti_link {
    tutti_transport *transport;
    tutti_link *next;
    int peer;
    uint64_t cookie; /* the peer's */
    ucp_ep_h endpoint;
    bool has_error_mode, is_broken;
    ucs_status_t error;
    tutti_link_upcalls upcalls;
    void *user;
    ucx_send *flying; /* not finished by UCX */
    ucx_held *held, **held_end;
    ucx_held *receiving; /* its data is on the way to `sink` */
    void *sink, *scratch;
    bool has_received; /* the data of `receiving` is there */
};

struct tutti_transport {
    ucp_context_h context;
    ucp_worker_h worker;
    int rank;
    uint64_t cookie;
    bool is_quiet;
    tutti_link *links;
    ucx_send *spare;
    ucx_send *done; /* finished, `sent` still to be called */
};

static double now_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* ---- receiving ---- */

static void hold(tutti_link *link, const ucx_header *header, void *data, size_t bytes, bool remote)
{
    ucx_held *held = calloc(1, sizeof(*held));
    if (held == NULL) {
        link->is_broken = true;
        link->error = UCS_ERR_NO_MEMORY;
        return;
    }
    held->header = *header;
    held->bytes = bytes;
    held->is_remote = remote;
    held->data = data;
    *link->held_end = held;
    link->held_end = &held->next;
}

/* The whole payload lies at `data`. */
static void tell(tutti_link *link, const ucx_header *header, const void *data, size_t bytes)
{
    const tutti_link_upcalls *up = &link->upcalls;
    if (bytes <= up->inline_bytes_max) {
        (void)up->frame(link->user, header->head, data, (uint32_t)bytes);
        return;
    }
    void *sink = up->frame(link->user, header->head, NULL, (uint32_t)bytes);
    if (sink != NULL) {
        memcpy(sink, data, bytes);
        up->stored(link->user, header->head);
    }
}

static tutti_link *link_of(tutti_transport *transport, const void *bytes, size_t count,
                           ucx_header *header_out)
{
    if (count != sizeof(*header_out)) {
        return NULL;
    }
    memcpy(header_out, bytes, sizeof(*header_out));
    tutti_link *link = transport->links;
    while (link != NULL && (uint32_t)link->peer != header_out->rank) {
        link = link->next;
    }
    return header_out->cookie == transport->cookie ? link : NULL;
}

static ucs_status_t on_message(void *user, const void *header_bytes, size_t header_count,
                               void *data, size_t bytes, const ucp_am_recv_param_t *param)
{
    tutti_transport *transport = user;
    ucx_header header;
    tutti_link *link = link_of(transport, header_bytes, header_count, &header);
    const bool is_remote = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
    if (link == NULL || bytes > UINT32_MAX) {
        return UCS_OK; /* a stranger's */
    }
    if (is_remote) {
        hold(link, &header, data, bytes, true);
        return UCS_INPROGRESS;
    }
    if (!transport->is_quiet && link->held == NULL && link->receiving == NULL &&
        link->upcalls.frame != NULL) {
        tell(link, &header, data, bytes);
        return UCS_OK;
    }
    void *copy = malloc(bytes > 0 ? bytes : 1);
    if (copy == NULL) {
        link->is_broken = true;
        link->error = UCS_ERR_NO_MEMORY;
        return UCS_OK;
    }
    memcpy(copy, data, bytes);
    hold(link, &header, copy, bytes, false);
    return UCS_OK;
}

static void on_received(void *request, ucs_status_t status, size_t bytes, void *user)
{
    tutti_link *link = user;
    (void)bytes;
    link->has_received = true;
    if (status != UCS_OK) {
        link->is_broken = true;
        link->error = status;
    }
    ucp_request_free(request);
}

/* Fetch the data of a message that is still with its sender. */
static void fetch(tutti_link *link, ucx_held *held)
{
    const bool is_inline = held->bytes <= link->upcalls.inline_bytes_max;
    link->receiving = held;
    link->has_received = false;
    link->sink =
        is_inline ? NULL
                  : link->upcalls.frame(link->user, held->header.head, NULL, (uint32_t)held->bytes);
    link->scratch = link->sink == NULL ? malloc(held->bytes) : NULL;
    const ucp_request_param_t param = {.op_attr_mask =
                                           UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                       .cb.recv_am = on_received,
                                       .user_data = link};
    void *target = link->sink != NULL ? link->sink : link->scratch;
    void *request =
        ucp_am_recv_data_nbx(link->transport->worker, held->data, target, held->bytes, &param);
    if (request == NULL) {
        link->has_received = true;
    } else if (UCS_PTR_IS_ERR(request)) {
        link->has_received = true;
        link->is_broken = true;
        link->error = UCS_PTR_STATUS(request);
    }
}

static void finish_fetch(tutti_link *link)
{
    ucx_held *held = link->receiving;
    void *scratch = link->scratch;
    const bool is_inline = held->bytes <= link->upcalls.inline_bytes_max;
    const bool has_sink = link->sink != NULL;
    link->receiving = NULL;
    link->sink = link->scratch = NULL;
    if (!link->is_broken && has_sink) {
        link->upcalls.stored(link->user, held->header.head);
    } else if (!link->is_broken && is_inline) {
        (void)link->upcalls.frame(link->user, held->header.head, scratch, (uint32_t)held->bytes);
    }
    free(scratch);
    free(held);
}

/* Tell what was held; true if anything was. */
static bool tell_held(tutti_link *link)
{
    bool moved = false;
    while (link->upcalls.frame != NULL) {
        if (link->receiving != NULL) {
            if (!link->has_received) {
                break;
            }
            finish_fetch(link);
        } else if (link->held != NULL) {
            ucx_held *held = link->held;
            link->held = held->next;
            if (link->held == NULL) {
                link->held_end = &link->held;
            }
            if (held->is_remote) {
                fetch(link, held);
            } else {
                tell(link, &held->header, held->data, held->bytes);
                free(held->data);
                free(held);
            }
        } else {
            break;
        }
        moved = true;
    }
    return moved;
}

/* ---- sending ---- */

static void take_out(ucx_send **list, const ucx_send *send)
{
    while (*list != NULL && *list != send) {
        list = &(*list)->next;
    }
    if (*list != NULL) {
        *list = send->next;
    }
}

static void on_sent(void *request, ucs_status_t status, void *user)
{
    ucx_send *send = user;
    tutti_link *link = send->link;
    tutti_transport *transport = link->transport;
    take_out(&link->flying, send);
    if (status != UCS_OK) {
        link->is_broken = true;
        link->error = status;
    }
    ucx_send **list = send->is_told ? &transport->done : &transport->spare;
    send->next = *list;
    *list = send;
    ucp_request_free(request);
}

static int ucx_send_frame(tutti_link *link, const tutti_frame *frame)
{
    tutti_transport *transport = link->transport;
    ucx_send *send = transport->spare;
    if (link->is_broken) {
        return TUTTI_ERR_PEER_DOWN;
    }
    if (send != NULL) {
        transport->spare = send->next;
    } else if ((send = malloc(sizeof(*send))) == NULL) {
        return TUTTI_ERR_NO_MEMORY;
    }
    const bool is_copied = frame->payload_bytes <= COPY_BYTES_MAX;
    send->link = link;
    send->token = frame->token;
    send->is_told = !is_copied;
    memcpy(send->header.head, frame->head, sizeof(send->header.head));
    send->header.cookie = link->cookie;
    send->header.rank = (uint32_t)transport->rank;
    send->header.zero = 0;
    const void *payload = frame->payload;
    if (is_copied && frame->payload_bytes > 0) {
        memcpy(send->copy, frame->payload, frame->payload_bytes);
        payload = send->copy;
    }
    const ucp_request_param_t param = {.op_attr_mask =
                                           UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                       .cb.send = on_sent,
                                       .user_data = send};
    send->next = link->flying;
    link->flying = send;
    void *request = ucp_am_send_nbx(link->endpoint, AM_ID, &send->header, sizeof(send->header),
                                    payload, frame->payload_bytes, &param);
    if (request != NULL && !UCS_PTR_IS_ERR(request)) {
        return is_copied ? TUTTI_OK : TUTTI_IN_PROGRESS;
    }
    take_out(&link->flying, send);
    send->next = transport->spare;
    transport->spare = send;
    if (request != NULL) {
        link->is_broken = true;
        link->error = UCS_PTR_STATUS(request);
        return TUTTI_ERR_PEER_DOWN;
    }
    return TUTTI_OK;
}

/* Progress without calls up until `*flag` or too long. */
static void wait_quietly(tutti_transport *transport, bool (*is_over)(tutti_link *, uint64_t),
                         tutti_link *link, uint64_t token)
{
    const double until = now_s() + WAIT_MS * 1e-3;
    const bool was_quiet = transport->is_quiet;
    transport->is_quiet = true;
    while (!is_over(link, token) && !link->is_broken && now_s() < until) {
        (void)ucp_worker_progress(transport->worker);
    }
    transport->is_quiet = was_quiet;
}

static bool is_landed(tutti_link *link, uint64_t token)
{
    for (const ucx_send *send = link->flying; send != NULL; send = send->next) {
        if (send->token == token && send->is_told) {
            return false;
        }
    }
    return true;
}

static void ucx_recall(tutti_link *link, uint64_t token)
{
    wait_quietly(link->transport, is_landed, link, token);
    for (ucx_send **at = &link->transport->done; *at != NULL; at = &(*at)->next) {
        ucx_send *send = *at;
        if (send->link == link && send->token == token) {
            *at = send->next;
            send->next = link->transport->spare;
            link->transport->spare = send;
            return;
        }
    }
    for (ucx_send *send = link->flying; send != NULL; send = send->next) {
        if (send->is_told && send->token == token) {
            send->is_told = false;
            return;
        }
    }
}

static bool is_received(tutti_link *link, uint64_t token)
{
    (void)token;
    return link->receiving == NULL || link->has_received;
}

static void ucx_discard(tutti_link *link)
{
    if (link->receiving != NULL && link->sink != NULL) {
        wait_quietly(link->transport, is_received, link, 0);
        link->sink = NULL; /* told to nobody */
    }
}

/* ---- the pass ---- */

static int ucx_poll(tutti_transport *transport)
{
    bool moved = false;
    for (int i = 0; i < 16 && ucp_worker_progress(transport->worker) != 0; i++) {
        moved = true;
    }
    while (transport->done != NULL) {
        ucx_send *send = transport->done;
        transport->done = send->next;
        const uint64_t token = send->token;
        tutti_link *link = send->link;
        send->next = transport->spare;
        transport->spare = send;
        link->upcalls.sent(link->user, token);
        moved = true;
    }
    for (tutti_link *link = transport->links; link != NULL; link = link->next) {
        if (link->held != NULL || link->receiving != NULL) {
            moved = tell_held(link) || moved;
        }
    }
    return moved ? 1 : 0;
}

static int ucx_descriptor(const tutti_transport *transport)
{
    int fd = -1;
    return ucp_worker_get_efd(transport->worker, &fd) == UCS_OK ? fd : -1;
}

static int ucx_arm(tutti_transport *transport)
{
    return transport->done != NULL || ucp_worker_arm(transport->worker) == UCS_ERR_BUSY ? 1 : 0;
}

static int ucx_is_idle(const tutti_link *link)
{
    return link->flying == NULL ? 1 : 0;
}

static int ucx_state(const tutti_link *link, char *why)
{
    if (link->is_broken) {
        (void)snprintf(why, TUTTI_PLUGIN_WHY_BYTES, "ucx: %s", ucs_status_string(link->error));
    }
    return link->is_broken ? 1 : 0;
}

/* ---- life ---- */

static int fail(char *why, const char *what, ucs_status_t status)
{
    (void)snprintf(why, TUTTI_PLUGIN_WHY_BYTES, "%s: %s", what, ucs_status_string(status));
    return TUTTI_ERR_SYSTEM;
}

static void ucx_close(tutti_transport *transport)
{
    while (transport->spare != NULL) {
        ucx_send *next = transport->spare->next;
        free(transport->spare);
        transport->spare = next;
    }
    if (transport->worker != NULL) {
        ucp_worker_destroy(transport->worker);
    }
    if (transport->context != NULL) {
        ucp_cleanup(transport->context);
    }
    free(transport);
}

static ucs_status_t start(tutti_transport *transport)
{
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                                 .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP};
    const ucp_worker_params_t worker = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                        .thread_mode = UCS_THREAD_MODE_SERIALIZED};
    const ucp_am_handler_param_t handler = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
                                                          UCP_AM_HANDLER_PARAM_FIELD_CB |
                                                          UCP_AM_HANDLER_PARAM_FIELD_ARG,
                                            .id = AM_ID,
                                            .cb = on_message,
                                            .arg = transport};
    ucs_status_t status = ucp_init(&params, NULL, &transport->context);
    if (status == UCS_OK) {
        status = ucp_worker_create(transport->context, &worker, &transport->worker);
    }
    return status == UCS_OK ? ucp_worker_set_am_recv_handler(transport->worker, &handler) : status;
}

static int ucx_open(const tutti_plugin_host *host, tutti_transport **transport_out, char *why)
{
    unsigned major, minor, release;
    ucp_get_version(&major, &minor, &release);
    if (major != UCP_API_MAJOR || minor < UCP_API_MINOR) {
        (void)snprintf(why, TUTTI_PLUGIN_WHY_BYTES,
                       "UCX is version %u.%u, the plugin was built for %d.%d; build it anew: tutti "
                       "plugin build ucx",
                       major, minor, UCP_API_MAJOR, UCP_API_MINOR);
        return TUTTI_ERR_UNSUPPORTED;
    }
    tutti_transport *transport = calloc(1, sizeof(*transport));
    if (transport == NULL) {
        return TUTTI_ERR_NO_MEMORY;
    }
    transport->rank = host->rank;
    FILE *random = fopen("/dev/urandom", "rbe");
    if (random == NULL || fread(&transport->cookie, sizeof(transport->cookie), 1, random) != 1) {
        transport->cookie = (uint64_t)(uintptr_t)transport ^ (uint64_t)(now_s() * 1e9);
    }
    if (random != NULL) {
        (void)fclose(random);
    }
    const ucs_status_t status = start(transport);
    if (status != UCS_OK) {
        ucx_close(transport);
        return fail(why, "UCX cannot start", status);
    }
    *transport_out = transport;
    return TUTTI_OK;
}

static void ucx_describe(const tutti_transport *transport, char *text)
{
    (void)transport;
    (void)snprintf(text, TUTTI_PLUGIN_WHY_BYTES, "UCX %s", ucp_get_version_string());
}

static int ucx_address(tutti_transport *transport, void *bytes, size_t *byte_count)
{
    ucp_address_t *address;
    size_t length;
    if (ucp_worker_get_address(transport->worker, &address, &length) != UCS_OK) {
        return TUTTI_ERR_SYSTEM;
    }
    const size_t whole = sizeof(transport->cookie) + length;
    const bool fits = whole <= *byte_count;
    if (fits) {
        memcpy(bytes, &transport->cookie, sizeof(transport->cookie));
        memcpy((char *)bytes + sizeof(transport->cookie), address, length);
        *byte_count = whole;
    }
    ucp_worker_release_address(transport->worker, address);
    return fits ? TUTTI_OK : TUTTI_ERR_NO_RESOURCE;
}

static void on_error(void *user, ucp_ep_h endpoint, ucs_status_t status)
{
    tutti_link *link = user;
    (void)endpoint;
    link->is_broken = true;
    link->error = status;
}

static int ucx_connect(tutti_transport *transport, const tutti_link_place *place,
                       tutti_link **link_out)
{
    tutti_link *link = calloc(1, sizeof(*link));
    if (link == NULL || place->address_bytes <= sizeof(link->cookie)) {
        free(link);
        return TUTTI_ERR_BAD_WIRE;
    }
    link->transport = transport;
    link->peer = place->peer;
    link->held_end = &link->held;
    link->has_error_mode = !place->is_local;
    memcpy(&link->cookie, place->address, sizeof(link->cookie));
    ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLER |
                      UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
        .address = (const void *)((const char *)place->address + sizeof(link->cookie)),
        .err_mode = place->is_local ? UCP_ERR_HANDLING_MODE_NONE : UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = {.cb = on_error, .arg = link}};
    const ucs_status_t status = ucp_ep_create(transport->worker, &params, &link->endpoint);
    if (status != UCS_OK) {
        free(link);
        return TUTTI_ERR_NO_RESOURCE;
    }
    link->next = transport->links;
    transport->links = link;
    *link_out = link;
    return TUTTI_OK;
}

static void ucx_attach(tutti_link *link, const tutti_link_upcalls *upcalls, void *user)
{
    link->upcalls = *upcalls;
    link->user = user;
}

/* Close the endpoint; true when UCX has done with it. */
static bool close_endpoint(tutti_link *link, uint32_t flags, double patience_s)
{
    const double until = now_s() + patience_s;
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = flags};
    void *request = ucp_ep_close_nbx(link->endpoint, &param);
    if (!UCS_PTR_IS_PTR(request)) {
        return true;
    }
    while (ucp_request_check_status(request) == UCS_INPROGRESS && now_s() < until) {
        (void)ucp_worker_progress(link->transport->worker);
    }
    const bool is_over = ucp_request_check_status(request) != UCS_INPROGRESS;
    ucp_request_free(request);
    return is_over;
}

static void ucx_disconnect(tutti_link *link)
{
    tutti_transport *transport = link->transport;
    link->upcalls.frame = NULL;
    transport->is_quiet = true;
    /* What was sent must get out: a forced end would lose it. */
    const bool is_forced = link->is_broken && link->has_error_mode;
    const bool is_over = close_endpoint(link, is_forced ? UCP_EP_CLOSE_FLAG_FORCE : 0, 0.5);
    transport->is_quiet = false;
    for (tutti_link **at = &transport->links; *at != NULL; at = &(*at)->next) {
        if (*at == link) {
            *at = link->next;
            break;
        }
    }
    if (!is_over) {
        return; /* UCX may still use it */
    }
    while (link->held != NULL) {
        ucx_held *next = link->held->next;
        if (!link->held->is_remote) {
            free(link->held->data);
        }
        free(link->held);
        link->held = next;
    }
    if (link->flying == NULL) {
        free(link);
    }
}

static const tutti_transport_ops ucx_ops = {
    .struct_bytes = sizeof(tutti_transport_ops),
    .flags = TUTTI_TRANSPORT_POLLED,
    .open = ucx_open,
    .close = ucx_close,
    .describe = ucx_describe,
    .address = ucx_address,
    .connect = ucx_connect,
    .disconnect = ucx_disconnect,
    .attach = ucx_attach,
    .send = ucx_send_frame,
    .recall = ucx_recall,
    .discard = ucx_discard,
    .poll = ucx_poll,
    .descriptor = ucx_descriptor,
    .arm = ucx_arm,
    .is_idle = ucx_is_idle,
    .state = ucx_state,
};

TUTTI_PLUGIN_DEFINE = {
    .abi = TUTTI_PLUGIN_ABI,
    .struct_bytes = sizeof(tutti_plugin),
    .name = "ucx",
    .tag = {'u', 'c', 'x'},
    .summary = "our algorithms over UCX: RDMA, shared memory, TCP",
    .package = "UCX (Debian: libucx0)",
    .transport = &ucx_ops,
};
