/* SPDX-License-Identifier: Apache-2.0
 *
 * ucx_transport.c - frames as active messages of UCP: RDMA, shared memory or TCP, as UCX finds
 * them.
 *
 * A label (the frame's head, the receiver's cookie, the sender's rank) is sent with the payload.
 * Short payloads follow it in one piece, which UCX copies at once; long ones have it as the
 * message's header and are borrowed until UCX has completed them.
 *
 * UCX is never re-entered: arriving messages are put in a list of their link and reported when
 * ucp_worker_progress has returned. So an upcall may recall and discard, which make progress
 * themselves, without upcalls: messages that arrive meanwhile stay in the list.
 *
 * Two ranks that recall at the same time wait for each other to fetch: so a rank that waits without
 * upcalls fetches all announced long messages, into memory of its own.
 *
 * Between ranks of one host endpoints have no error handling, because UCX's shared memory has none;
 * Tutti watches the processes itself. Between hosts UCX reports peer failures, too.
 */
#include "ucx_transport.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void break_link(tutti_link *link, ucs_status_t error)
{
    link->error = link->is_broken ? link->error : error;
    link->is_broken = true;
}

/* ---- receiving ---- */

static void add_news(tutti_link *link)
{
    if (!link->has_news) {
        link->has_news = true;
        link->next_news = link->transport->news;
        link->transport->news = link;
    }
}

/* The link of a valid label; NULL: it is not from a peer. */
static tutti_link *link_of(const tutti_transport *transport, const ucx_label *label)
{
    const bool is_known =
        label->cookie == transport->cookie && label->rank < (uint32_t)transport->by_rank_count;
    return is_known ? transport->by_rank[label->rank] : NULL;
}

static void release_message(ucx_message *message)
{
    tutti_transport *transport = message->link->transport;
    if (message->where == AT_COPY) {
        free(message->data);
    } else if (message->where == AT_UCX || message->where == AT_SENDER) {
        ucp_am_data_release(transport->worker, message->held);
    }
    message->next = transport->spare_messages;
    transport->spare_messages = message;
}

static ucx_message *take_message(tutti_link *link, const ucx_label *label)
{
    tutti_transport *transport = link->transport;
    ucx_message *message = transport->spare_messages;
    if (message != NULL) {
        transport->spare_messages = message->next;
    } else if ((message = malloc(sizeof(*message))) == NULL) {
        break_link(link, UCS_ERR_NO_MEMORY);
        return NULL;
    }
    message->next = NULL;
    message->link = link;
    message->label = *label;
    return message;
}

/* Put the payload where it can stay; returns the status for UCX. */
static ucs_status_t keep(ucx_message *message, void *held, void *data, uint64_t attributes)
{
    message->held = held;
    message->data = data;
    if ((attributes & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) {
        message->where = AT_SENDER;
        return UCS_INPROGRESS;
    }
    if (message->bytes <= sizeof(message->small)) {
        memcpy(message->small, data, message->bytes);
        message->data = message->small;
        message->where = AT_SMALL;
        return UCS_OK;
    }
    if ((attributes & UCP_AM_RECV_ATTR_FLAG_DATA) != 0) {
        message->where = AT_UCX;
        return UCS_INPROGRESS;
    }
    message->where = AT_COPY;
    message->data = malloc(message->bytes);
    if (message->data == NULL) {
        break_link(message->link, UCS_ERR_NO_MEMORY);
        message->bytes = 0;
        return UCS_OK;
    }
    memcpy(message->data, data, message->bytes);
    return UCS_OK;
}

static ucs_status_t on_message(void *user, const void *header, size_t header_bytes, void *data,
                               size_t bytes, const ucp_am_recv_param_t *param)
{
    tutti_transport *transport = user;
    ucx_label label;
    void *payload = data;
    if (header_bytes == sizeof(label)) {
        memcpy(&label, header, sizeof(label));
    } else if (header_bytes == 0 && bytes >= sizeof(label) &&
               (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0) {
        memcpy(&label, data, sizeof(label));
        payload = (char *)data + sizeof(label);
        bytes -= sizeof(label);
    } else {
        return UCS_OK;
    }
    tutti_link *link = link_of(transport, &label);
    if (link == NULL || bytes > UINT32_MAX) {
        return UCS_OK;
    }
    ucx_message *message = take_message(link, &label);
    if (message == NULL) {
        return UCS_OK;
    }
    message->bytes = bytes;
    const ucs_status_t answer = keep(message, data, payload, param->recv_attr);
    *link->messages_end = message;
    link->messages_end = &message->next;
    add_news(link);
    return answer;
}

/* The fetch of a message's payload has completed or failed. */
static void arrived(ucx_message *message, ucs_status_t status)
{
    message->where = AT_COPY;
    if (status != UCS_OK) {
        break_link(message->link, status);
    }
    add_news(message->link);
}

static void on_received(void *request, ucs_status_t status, size_t bytes, void *user)
{
    (void)bytes;
    arrived(user, status);
    ucp_request_free(request);
}

/* Fetch the payload of an announced message to `target`. */
static void fetch(ucx_message *message, void *target)
{
    const ucp_request_param_t param = {.op_attr_mask =
                                           UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                       .cb.recv_am = on_received,
                                       .user_data = message};
    void *description = message->held;
    message->where = ON_THE_WAY;
    message->data = target;
    void *request = ucp_am_recv_data_nbx(message->link->transport->worker, description, target,
                                         message->bytes, &param);
    if (!UCS_PTR_IS_PTR(request)) {
        arrived(message, UCS_PTR_RAW_STATUS(request));
    }
}

/* Fetch it to the transport's own memory, to be reported later. */
static void fetch_aside(ucx_message *message)
{
    void *memory = malloc(message->bytes > 0 ? message->bytes : 1);
    if (memory == NULL) {
        break_link(message->link, UCS_ERR_NO_MEMORY);
        return;
    }
    fetch(message, memory);
}

/* Report a message whose payload is here. */
static void tell(tutti_link *link, ucx_message *message)
{
    const tutti_link_upcalls *up = &link->upcalls;
    const uint8_t *head = message->label.head;
    if (message->bytes <= up->inline_bytes_max) {
        (void)up->frame(link->user, head, message->data, (uint32_t)message->bytes);
    } else {
        void *sink = up->frame(link->user, head, NULL, (uint32_t)message->bytes);
        if (sink != NULL) {
            memcpy(sink, message->data, message->bytes);
            up->stored(link->user, head);
        }
    }
    release_message(message);
}

/* Begin with an announced message: the upcall gives the memory for it. */
static void announce(tutti_link *link, ucx_message *message)
{
    const bool is_inline = message->bytes <= link->upcalls.inline_bytes_max;
    void *sink = is_inline ? NULL
                           : link->upcalls.frame(link->user, message->label.head, NULL,
                                                 (uint32_t)message->bytes);
    if (sink == NULL && !is_inline) {
        release_message(message); /* notifies the sender that it is over */
        return;
    }
    link->receiving = message;
    link->sink = sink;
    if (sink != NULL) {
        fetch(message, sink);
    } else {
        fetch_aside(message);
    }
}

static void finish_fetch(tutti_link *link)
{
    ucx_message *message = link->receiving;
    void *sink = link->sink;
    link->receiving = NULL;
    link->sink = NULL;
    if (sink == NULL && !link->is_broken) {
        tell(link, message); /* a short one that was fetched, or one that was discarded */
        return;
    }
    if (!link->is_broken) {
        link->upcalls.stored(link->user, message->label.head);
    }
    message->where = sink != NULL ? AT_SMALL : AT_COPY;
    release_message(message);
}

/* True if anything was reported. */
static bool tell_link(tutti_link *link)
{
    bool moved = false;
    while (link->upcalls.frame != NULL) {
        if (link->receiving != NULL) {
            if (link->receiving->where == ON_THE_WAY) {
                break;
            }
            finish_fetch(link);
            moved = true;
            continue;
        }
        ucx_message *message = link->messages;
        if (message == NULL || message->where == ON_THE_WAY || link->is_broken) {
            break;
        }
        link->messages = message->next;
        if (link->messages == NULL) {
            link->messages_end = &link->messages;
        }
        if (message->where == AT_SENDER) {
            announce(link, message);
        } else {
            tell(link, message);
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
        break_link(link, status);
    }
    ucx_send **list = send->is_told ? &transport->done : &transport->spare;
    send->next = *list;
    *list = send;
    ucp_request_free(request);
}

static ucx_send *take_send(tutti_link *link)
{
    tutti_transport *transport = link->transport;
    ucx_send *send = transport->spare;
    if (send != NULL) {
        transport->spare = send->next;
    } else {
        send = malloc(sizeof(*send));
    }
    return send;
}

static void label_fill(ucx_label *label, const tutti_link *link, const void *head)
{
    memcpy(label->head, head, sizeof(label->head));
    label->cookie = link->cookie;
    label->rank = (uint32_t)link->transport->rank;
    label->zero = 0;
}

/* A frame that fits UCX's shortest message needs no request; false: this one does. */
static bool send_short(tutti_link *link, const tutti_frame *frame)
{
    struct {
        ucx_label label;
        uint8_t payload[SMALL_BYTES_MAX];
    } piece;
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL};
    if (frame->payload_bytes > sizeof(piece.payload)) {
        return false;
    }
    label_fill(&piece.label, link, frame->head);
    if (frame->payload_bytes > 0) {
        memcpy(piece.payload, frame->payload, frame->payload_bytes);
    }
    return ucp_am_send_nbx(link->endpoint, AM_ID, NULL, 0, &piece,
                           sizeof(piece.label) + frame->payload_bytes, &param) == NULL;
}

static int ucx_send_frame(tutti_link *link, const tutti_frame *frame)
{
    const bool is_copied = frame->payload_bytes <= COPY_BYTES_MAX;
    if (link->is_broken) {
        return TUTTI_ERR_PEER_DOWN;
    }
    if (send_short(link, frame)) {
        return TUTTI_OK;
    }
    ucx_send *send = take_send(link);
    if (send == NULL) {
        return TUTTI_ERR_NO_MEMORY;
    }
    send->link = link;
    send->token = frame->token;
    send->is_told = !is_copied;
    label_fill(&send->label, link, frame->head);
    if (is_copied && frame->payload_bytes > 0) {
        memcpy(send->copy, frame->payload, frame->payload_bytes);
    }
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                       UCP_OP_ATTR_FIELD_USER_DATA |
                                                       UCP_OP_ATTR_FIELD_FLAGS,
                                       .flags = is_copied ? UCP_AM_SEND_FLAG_EAGER : 0,
                                       .cb.send = on_sent,
                                       .user_data = send};
    send->next = link->flying;
    link->flying = send;
    void *request = is_copied
                        ? ucp_am_send_nbx(link->endpoint, AM_ID, NULL, 0, &send->label,
                                          sizeof(send->label) + frame->payload_bytes, &param)
                        : ucp_am_send_nbx(link->endpoint, AM_ID, &send->label, sizeof(send->label),
                                          frame->payload, frame->payload_bytes, &param);
    if (UCS_PTR_IS_PTR(request)) {
        return is_copied ? TUTTI_OK : TUTTI_IN_PROGRESS;
    }
    take_out(&link->flying, send);
    send->next = link->transport->spare;
    link->transport->spare = send;
    if (request != NULL) {
        break_link(link, UCS_PTR_STATUS(request));
        return TUTTI_ERR_PEER_DOWN;
    }
    return TUTTI_OK;
}

/* Progress without upcalls until `is_over`, or for WAIT_MS. */
static void wait_quietly(tutti_transport *transport, bool (*is_over)(tutti_link *, uint64_t),
                         tutti_link *link, uint64_t token)
{
    const double until = now_s() + (link->is_mute ? 0.0 : WAIT_MS * 1e-3);
    link->is_mute = true; /* an unresponsive peer is waited for only once */
    while (!is_over(link, token) && !link->is_broken && now_s() < until) {
        (void)ucp_worker_progress(transport->worker);
        for (tutti_link *other = transport->links; other != NULL; other = other->next) {
            for (ucx_message *at = other->messages; at != NULL; at = at->next) {
                if (at->where == AT_SENDER) {
                    fetch_aside(at);
                }
            }
        }
    }
    link->is_mute = link->is_mute && !is_over(link, token);
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
    return link->receiving == NULL || link->receiving->where != ON_THE_WAY;
}

static void ucx_discard(tutti_link *link)
{
    ucx_message *message = link->receiving;
    if (message == NULL || link->sink == NULL) {
        return;
    }
    wait_quietly(link->transport, is_received, link, 0);
    link->sink = NULL;
    if (message->where != ON_THE_WAY) { /* not reported */
        link->receiving = NULL;
        message->where = AT_SMALL;
        release_message(message);
    } else {
        /* A dead peer sends nothing after what has arrived; once its endpoint is closed, the fabric
         * stores no more. */
        break_link(link, UCS_ERR_TIMED_OUT);
    }
}

/* ---- the pass ---- */

static bool tell_sent(tutti_transport *transport)
{
    bool moved = false;
    while (transport->done != NULL) {
        ucx_send *send = transport->done;
        transport->done = send->next;
        const uint64_t token = send->token;
        tutti_link *link = send->link;
        send->next = transport->spare;
        transport->spare = send;
        if (link->upcalls.sent != NULL) {
            link->upcalls.sent(link->user, token);
        }
        moved = true;
    }
    return moved;
}

static int ucx_poll(tutti_transport *transport)
{
    bool moved = false;
    for (int i = 0; i < POLLS_MAX && ucp_worker_progress(transport->worker) != 0; i++) {
        moved = true;
        if (transport->news != NULL) {
            break; /* report them at once */
        }
    }
    if (transport->done != NULL) {
        moved = tell_sent(transport) || moved;
    }
    while (transport->news != NULL) {
        tutti_link *link = transport->news;
        transport->news = link->next_news;
        link->has_news = false;
        moved = tell_link(link) || moved;
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
    return transport->done != NULL || transport->news != NULL ||
                   ucp_worker_arm(transport->worker) == UCS_ERR_BUSY
               ? 1
               : 0;
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
    if (transport->worker != NULL) {
        ucp_worker_destroy(transport->worker); /* may end requests that were not waited for */
    }
    if (transport->context != NULL) {
        ucp_cleanup(transport->context);
    }
    while (transport->spare != NULL) {
        ucx_send *next = transport->spare->next;
        free(transport->spare);
        transport->spare = next;
    }
    while (transport->spare_messages != NULL) {
        ucx_message *next = transport->spare_messages->next;
        free(transport->spare_messages);
        transport->spare_messages = next;
    }
    free(transport->by_rank);
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
                       "UCX is version %u.%u, the plugin was built for %d.%d; rebuild it: tutti "
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
    break_link(link, status);
}

static bool enter_rank(tutti_transport *transport, tutti_link *link)
{
    if (link->peer >= transport->by_rank_count) {
        const int count = link->peer + 1;
        tutti_link **grown = realloc(transport->by_rank, (size_t)count * sizeof(tutti_link *));
        if (grown == NULL) {
            return false;
        }
        for (int i = transport->by_rank_count; i < count; i++) {
            grown[i] = NULL;
        }
        transport->by_rank = grown;
        transport->by_rank_count = count;
    }
    transport->by_rank[link->peer] = link;
    return true;
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
    link->messages_end = &link->messages;
    link->has_error_mode = !place->is_local;
    memcpy(&link->cookie, place->address, sizeof(link->cookie));
    ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLER |
                      UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
        .address = (const void *)((const char *)place->address + sizeof(link->cookie)),
        .err_mode = place->is_local ? UCP_ERR_HANDLING_MODE_NONE : UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = {.cb = on_error, .arg = link}};
    const ucs_status_t status = ucp_ep_create(transport->worker, &params, &link->endpoint);
    if (status != UCS_OK || place->peer < 0 || !enter_rank(transport, link)) {
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

/* Close the endpoint; true when UCX has completed that. */
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

static void forget(tutti_link *link)
{
    tutti_transport *transport = link->transport;
    tutti_link **at = &transport->links;
    while (*at != link) {
        at = &(*at)->next;
    }
    *at = link->next;
    for (at = &transport->news; *at != NULL; at = &(*at)->next_news) {
        if (*at == link) {
            *at = link->next_news;
            break;
        }
    }
    for (ucx_send **done = &transport->done; *done != NULL;) {
        ucx_send *send = *done;
        if (send->link != link) {
            done = &send->next;
            continue;
        }
        *done = send->next;
        send->next = transport->spare;
        transport->spare = send;
    }
    transport->by_rank[link->peer] = NULL;
}

static void ucx_disconnect(tutti_link *link)
{
    link->upcalls = (tutti_link_upcalls){.struct_bytes = sizeof(link->upcalls)};
    while (link->messages != NULL && link->messages->where != ON_THE_WAY) {
        ucx_message *message = link->messages;
        link->messages = message->next;
        release_message(message);
    }
    if (link->messages == NULL) {
        link->messages_end = &link->messages;
    }
    /* Frames in flight must be sent: a forced end would lose them. */
    const bool is_forced = link->is_broken && link->has_error_mode;
    const bool is_over = close_endpoint(link, is_forced ? UCP_EP_CLOSE_FLAG_FORCE : 0, 0.5);
    forget(link);
    if (is_over && link->flying == NULL && link->receiving == NULL && link->messages == NULL) {
        free(link); /* else UCX may still use it */
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
    .summary = "Tutti's algorithms over UCX: RDMA, shared memory, TCP",
    .package = "UCX (Debian: libucx0)",
    .transport = &ucx_ops,
};
