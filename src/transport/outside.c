/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/outside.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/base.h"
#include "transport/frame_queue.h"

enum {
    FLYING_MAX = 2,
    TAG_BYTES = crypto_auth_BYTES,
    GOODBYE_GRACE_NS =
        500 * 1000 * 1000, /* a goodbye may arrive after the end of the plugin's link */
};

_Static_assert(crypto_auth_KEYBYTES == TT_OUTSIDE_KEY_BYTES, "keys are used as they are");
_Static_assert(sizeof(tt_head) == TUTTI_FRAME_HEAD_BYTES, "heads travel as they are");

struct tt_outside {
    const tutti_transport_ops *ops;
    tutti_transport *self;
    uint32_t references;
};

/* The last message on a socket. */
typedef struct goodbye {
    uint64_t frame_count;
    uint8_t tag[TAG_BYTES];
} goodbye;

typedef struct outside_link {
    tt_link link;
    tt_outside *outside;
    tutti_link *self;
    int send_fd, receive_fd;
    int wake_fd; /* the transport's, for this link; -1: none */
    uint8_t send_key[TT_OUTSIDE_KEY_BYTES], receive_key[TT_OUTSIDE_KEY_BYTES];
    tt_frame_queue queue;
    uint32_t flying; /* long frames with the plugin */
    bool is_closing, has_said_goodbye;
    bool has_goodbye; /* the peer's is here: */
    uint64_t frames_expected;
    uint64_t broken_ns; /* when the plugin first reported the link broken; 0: it has not */
    goodbye heard;      /* the peer's, as far as it has arrived */
    size_t heard_bytes;
} outside_link;

static outside_link *outside_of(tt_link *link)
{
    return TT_CONTAINER_OF(link, outside_link, link);
}

/* ---- the transport ---- */

tt_status tt_outside_open(const tutti_plugin *plugin, const tutti_plugin_host *host,
                          tt_outside **outside_out, char why[TUTTI_PLUGIN_WHY_BYTES])
{
    tt_outside *outside = calloc(1, sizeof(*outside));
    if (outside == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    outside->ops = plugin->transport;
    outside->references = 1;
    const int status = outside->ops->open(host, &outside->self, why);
    if (status != TUTTI_OK) {
        free(outside);
        return (tt_status)status;
    }
    *outside_out = outside;
    return TT_OK;
}

void tt_outside_release(tt_outside *outside)
{
    if (outside != NULL && --outside->references == 0) {
        outside->ops->close(outside->self);
        free(outside);
    }
}

/* ---- messages over the sockets ---- */

static void tag_of(uint8_t tag[TAG_BYTES], const void *bytes, size_t count, const uint8_t *key)
{
    uint8_t own[crypto_auth_KEYBYTES]; /* not the key that seals frames */
    static const uint8_t purpose[] = "tutti outside transport";
    (void)crypto_generichash(own, sizeof(own), purpose, sizeof(purpose), key, TT_OUTSIDE_KEY_BYTES);
    (void)crypto_auth(tag, bytes, count, own);
    sodium_memzero(own, sizeof(own));
}

static bool write_all(int fd, const void *bytes, size_t count)
{
    const uint8_t *at = bytes;
    while (count > 0) {
        const ssize_t written = send(fd, at, count, MSG_NOSIGNAL);
        if (written < 0 && errno == EAGAIN) {
            struct pollfd wait = {.fd = fd, .events = POLLOUT};
            (void)poll(&wait, 1, 1000);
            continue;
        }
        if (written <= 0) {
            return false;
        }
        at += written;
        count -= (size_t)written;
    }
    return true;
}

static bool read_all(int fd, void *bytes, size_t count, uint64_t timeout_ms)
{
    uint8_t *at = bytes;
    while (count > 0) {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        if (poll(&wait, 1, (int)timeout_ms) <= 0) {
            return false;
        }
        const ssize_t got = recv(fd, at, count, MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
            continue;
        }
        if (got <= 0) {
            return false;
        }
        at += got;
        count -= (size_t)got;
    }
    return true;
}

/* {bytes u32, tag, address} */
typedef struct greeting {
    uint32_t bytes;
    uint8_t tag[TAG_BYTES];
} greeting;

tt_status tt_outside_greet(tt_outside *outside, const tt_outside_config *config)
{
    uint8_t address[TUTTI_TRANSPORT_ADDRESS_BYTES_MAX];
    size_t bytes = sizeof(address);
    const int status = outside->ops->address(outside->self, address, &bytes);
    if (status != TUTTI_OK) {
        return (tt_status)status;
    }
    greeting words = {.bytes = (uint32_t)bytes};
    tag_of(words.tag, address, bytes, config->send_key);
    return write_all(config->send_fd, &words, sizeof(words)) &&
                   write_all(config->send_fd, address, bytes)
               ? TT_OK
               : TT_ERR_PEER_DOWN;
}

static tt_status hear_greeting(const tt_outside_config *config, uint64_t timeout_ms,
                               uint8_t *address, size_t *bytes_out)
{
    greeting words;
    uint8_t tag[TAG_BYTES];
    if (!read_all(config->receive_fd, &words, sizeof(words), timeout_ms)) {
        return TT_ERR_PEER_DOWN;
    }
    if (words.bytes == 0 || words.bytes > TUTTI_TRANSPORT_ADDRESS_BYTES_MAX) {
        return TT_ERR_BAD_WIRE;
    }
    if (!read_all(config->receive_fd, address, words.bytes, timeout_ms)) {
        return TT_ERR_PEER_DOWN;
    }
    tag_of(tag, address, words.bytes, config->receive_key);
    if (sodium_memcmp(tag, words.tag, sizeof(tag)) != 0) {
        return TT_ERR_REFUSED;
    }
    *bytes_out = words.bytes;
    return TT_OK;
}

/* ---- upcalls of the plugin ---- */

static void *on_frame(void *user, const void *head_bytes, const void *payload,
                      uint32_t payload_bytes)
{
    outside_link *self = user;
    tt_head head;
    memcpy(&head, head_bytes, sizeof(head));
    if (self->link.state != TT_LINK_UP) {
        return NULL;
    }
    if (head.payload_bytes != payload_bytes || payload_bytes > TT_PAYLOAD_BYTES_MAX) {
        self->link.state = TT_LINK_DOWN;
        (void)snprintf(self->link.why, sizeof(self->link.why), "a frame of a wrong length");
        return NULL;
    }
    self->link.frames_received++;
    self->link.bytes_received += sizeof(head) + payload_bytes;
    return self->link.machine->ops->frame(self->link.machine->self, self->link.peer, &head,
                                          payload);
}

static void on_stored(void *user, const void *head_bytes)
{
    outside_link *self = user;
    tt_head head;
    memcpy(&head, head_bytes, sizeof(head));
    if (self->link.state == TT_LINK_UP) {
        self->link.machine->ops->payload(self->link.machine->self, self->link.peer, &head);
    }
}

static void on_sent(void *user, uint64_t token)
{
    outside_link *self = user;
    TT_ASSERT(self->flying > 0);
    self->flying--;
    if (self->link.state == TT_LINK_UP) {
        self->link.machine->ops->sent(self->link.machine->self, token);
    }
}

/* ---- the link ---- */

/* Hand a frame to the plugin. */
static tt_status hand_over(outside_link *self, const tt_send *send)
{
    const tutti_frame frame = {.struct_bytes = sizeof(frame),
                               .head = send->head,
                               .payload = send->payload,
                               .payload_bytes = send->head->payload_bytes,
                               .urgency = send->urgency,
                               .token = send->token};
    const int status = self->outside->ops->send(self->self, &frame);
    if (status >= 0) {
        self->link.frames_sent++;
        self->link.bytes_sent += sizeof(tt_head) + frame.payload_bytes;
        self->flying += status == TUTTI_IN_PROGRESS ? 1 : 0;
    }
    return (tt_status)status;
}

static tt_status outside_send(tt_link *link, const tt_send *send)
{
    outside_link *self = outside_of(link);
    if (link->state != TT_LINK_UP) {
        return TT_ERR_PEER_DOWN;
    }
    if (self->queue.count == 0 && self->flying < FLYING_MAX) {
        return hand_over(self, send);
    }
    const tt_status status = tt_frame_queue_push(&self->queue, send);
    return status == TT_OK ? TT_IN_PROGRESS : status;
}

static void outside_recall(tt_link *link, uint64_t token)
{
    outside_link *self = outside_of(link);
    if (link->state == TT_LINK_UP && !tt_frame_queue_remove(&self->queue, token)) {
        const uint32_t before = self->flying;
        self->outside->ops->recall(self->self, token);
        self->flying -= before > 0 ? 1 : 0;
    }
}

static void outside_discard(tt_link *link)
{
    const outside_link *self = outside_of(link);
    self->outside->ops->discard(self->self);
}

static bool send_queued(outside_link *self)
{
    tt_queued_frame frame;
    bool moved = false;
    while (self->flying < FLYING_MAX && tt_frame_queue_pop(&self->queue, &frame)) {
        const tt_send send = {.peer = self->link.peer,
                              .urgency = frame.urgency,
                              .age = frame.age,
                              .token = frame.token,
                              .payload = frame.payload,
                              .head = &frame.head};
        const tt_status status = hand_over(self, &send);
        moved = true;
        if (status == TT_OK && frame.token != TT_TOKEN_NONE) {
            self->link.machine->ops->sent(self->link.machine->self, frame.token);
        } else if (status < 0) {
            break; /* the plugin's link state gives the cause at the next poll */
        }
    }
    return moved;
}

static bool outside_idle(const tt_link *link)
{
    const outside_link *self = TT_CONTAINER_OF(link, const outside_link, link);
    return self->queue.count == 0 && self->flying == 0 &&
           self->outside->ops->is_idle(self->self) != 0;
}

static void say_goodbye(outside_link *self)
{
    goodbye words = {.frame_count = self->link.frames_sent};
    tag_of(words.tag, &words.frame_count, sizeof(words.frame_count), self->send_key);
    (void)write_all(self->send_fd, &words, sizeof(words));
    (void)shutdown(self->send_fd, SHUT_WR);
    self->has_said_goodbye = true;
}

/* The connection has ended. After our goodbye the peer may exit without sending its own. */
static void go_down(outside_link *self, const char *why)
{
    self->link.state = self->has_said_goodbye ? TT_LINK_LEFT : TT_LINK_DOWN;
    (void)snprintf(self->link.why, sizeof(self->link.why), "%s", why);
}

/* The socket is readable: a goodbye, or the end. */
static bool hear_socket(outside_link *self)
{
    uint8_t *at = (uint8_t *)&self->heard + self->heard_bytes;
    const size_t room = sizeof(self->heard) - self->heard_bytes;
    uint8_t more;
    const ssize_t got =
        recv(self->receive_fd, room > 0 ? at : &more, room > 0 ? room : 1, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return false;
    }
    if (got <= 0) {
        if (!self->has_goodbye) {
            go_down(self, got == 0 ? "connection closed" : strerror(errno));
            return true;
        }
        return false;
    }
    self->heard_bytes += room > 0 ? (size_t)got : 0;
    if (self->heard_bytes == sizeof(self->heard) && !self->has_goodbye) {
        uint8_t tag[TAG_BYTES];
        tag_of(tag, &self->heard.frame_count, sizeof(self->heard.frame_count), self->receive_key);
        if (sodium_memcmp(tag, self->heard.tag, sizeof(tag)) != 0) {
            go_down(self, "a goodbye that is not the peer's");
            return true;
        }
        self->has_goodbye = true;
        self->frames_expected = self->heard.frame_count;
    }
    return true;
}

static uint64_t clock_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* The plugin reports the link broken: the socket shows whether the peer left or a fault occurred.
 * True if the link changed. */
static bool break_down(outside_link *self, const char *why)
{
    const bool moved = hear_socket(self);
    const uint64_t now_ns = clock_ns();
    if (self->link.state != TT_LINK_UP) {
        return true;
    }
    self->broken_ns = self->broken_ns != 0 ? self->broken_ns : now_ns;
    const bool is_whole = self->has_goodbye && self->link.frames_received >= self->frames_expected;
    if (is_whole) {
        self->link.state = TT_LINK_LEFT;
    } else if (self->has_goodbye || now_ns - self->broken_ns > GOODBYE_GRACE_NS) {
        go_down(self, why);
    }
    return moved || self->link.state != TT_LINK_UP;
}

static bool outside_poll(tt_link *link)
{
    outside_link *self = outside_of(link);
    char why[TUTTI_PLUGIN_WHY_BYTES];
    bool moved = self->outside->ops->poll(self->outside->self) != 0;
    why[0] = 0;
    if (link->state != TT_LINK_UP) {
        return moved;
    }
    if (self->queue.count > 0) {
        moved = send_queued(self) || moved;
    }
    if (link->ready) {
        link->ready = false;
        moved = hear_socket(self) || moved;
    }
    if (link->state == TT_LINK_UP && self->has_goodbye &&
        link->frames_received >= self->frames_expected) {
        link->state = TT_LINK_LEFT;
        return true;
    }
    if (link->state == TT_LINK_UP && self->outside->ops->state(self->self, why) != 0) {
        return break_down(self, why) || moved;
    }
    if (self->is_closing && !self->has_said_goodbye && outside_idle(link)) {
        say_goodbye(self);
        moved = true;
    }
    return moved;
}

static void outside_descriptors(const tt_link *link, int fds_out[2], bool wants_write_out[2])
{
    const outside_link *self = TT_CONTAINER_OF(link, const outside_link, link);
    fds_out[0] = link->state == TT_LINK_UP && !self->has_goodbye ? self->receive_fd : -1;
    fds_out[1] = link->state == TT_LINK_UP ? self->wake_fd : -1;
    wants_write_out[0] = wants_write_out[1] = false;
}

static bool outside_arm(tt_link *link)
{
    const outside_link *self = outside_of(link);
    return self->outside->ops->arm(self->outside->self) == 0;
}

static void outside_close(tt_link *link)
{
    outside_of(link)->is_closing = true;
}

static bool outside_closed(const tt_link *link)
{
    return link->state != TT_LINK_UP ||
           TT_CONTAINER_OF(link, const outside_link, link)->has_said_goodbye;
}

static void outside_forsake(const tt_link *link)
{
    const outside_link *self = TT_CONTAINER_OF(link, const outside_link, link);
    (void)close(self->send_fd);
    (void)close(self->receive_fd);
    if (self->wake_fd >= 0) {
        (void)close(self->wake_fd);
    }
}

static void outside_destroy(tt_link *link)
{
    outside_link *self = outside_of(link);
    if (self->wake_fd >= 0) {
        (void)close(self->wake_fd);
    }
    self->outside->ops->disconnect(self->self);
    (void)close(self->send_fd);
    (void)close(self->receive_fd);
    tt_frame_queue_fini(&self->queue);
    tt_outside_release(self->outside);
    sodium_memzero(self->send_key, sizeof(self->send_key));
    sodium_memzero(self->receive_key, sizeof(self->receive_key));
    free(self);
}

static const tt_link_ops outside_ops = {
    .name = "plugin",
    .polls_memory = true,
    .send = outside_send,
    .recall = outside_recall,
    .discard = outside_discard,
    .poll = outside_poll,
    .descriptors = outside_descriptors,
    .arm = outside_arm,
    .idle = outside_idle,
    .close = outside_close,
    .closed = outside_closed,
    .forsake = outside_forsake,
    .destroy = outside_destroy,
};

tt_status tt_outside_link_create(tt_outside *outside, const tt_outside_config *config,
                                 uint64_t timeout_ms, tt_link **link_out)
{
    static const tutti_link_upcalls upcalls = {.struct_bytes = sizeof(upcalls),
                                               .frame = on_frame,
                                               .stored = on_stored,
                                               .sent = on_sent,
                                               .inline_bytes_max = TT_INLINE_BYTES_MAX};
    uint8_t address[TUTTI_TRANSPORT_ADDRESS_BYTES_MAX];
    size_t bytes = 0;
    TT_TRY(hear_greeting(config, timeout_ms, address, &bytes));
    outside_link *self = calloc(1, sizeof(*self));
    if (self == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    const tutti_link_place place = {.struct_bytes = sizeof(place),
                                    .peer = (int)config->peer,
                                    .is_local = config->is_local ? 1 : 0,
                                    .address = address,
                                    .address_bytes = bytes};
    const int status = outside->ops->connect(outside->self, &place, &self->self);
    if (status != TUTTI_OK) {
        free(self);
        return (tt_status)status;
    }
    self->link = (tt_link){.ops = &outside_ops, .peer = config->peer, .state = TT_LINK_UP};
    self->outside = outside;
    self->send_fd = config->send_fd;
    self->receive_fd = config->receive_fd;
    memcpy(self->send_key, config->send_key, sizeof(self->send_key));
    memcpy(self->receive_key, config->receive_key, sizeof(self->receive_key));
    outside->references++;
    const int wake_fd = outside->ops->descriptor(outside->self);
    self->wake_fd = wake_fd >= 0 ? fcntl(wake_fd, F_DUPFD_CLOEXEC, 0) : -1;
    self->link.is_bell_less = self->wake_fd < 0;
    outside->ops->attach(self->self, &upcalls, self);
    *link_out = &self->link;
    return TT_OK;
}
