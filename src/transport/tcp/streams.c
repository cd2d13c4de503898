/* SPDX-License-Identifier: Apache-2.0
 *
 * streams.c - see streams.h. Works on the bodies of its TCP links, so that it can read one of them
 * and still write all. */
#include "transport/tcp/streams.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/base.h"
#include "transport/tcp/tcp_internal.h"

typedef struct stream {
    tt_tcp *tcp;
    uint32_t events[2]; /* registered for the sending and the receiving socket */
    int fds[2];         /* -1: no longer registered */
} stream;

typedef struct tt_streams {
    tt_link link;
    int epoll_fd;
    uint32_t count;
    stream streams[TT_STREAMS_MAX];
} tt_streams;

static tt_streams *streams_of(tt_link *link)
{
    TT_ASSERT(link->ops == &tt_streams_link_ops);
    return TT_CONTAINER_OF(link, tt_streams, link);
}

static bool is_inside_long(const tt_tcp *tcp)
{
    return tcp->link.state == TT_LINK_UP && (tcp->receiver.phase == TT_TCP_PHASE_LONG ||
                                             tcp->receiver.phase == TT_TCP_PHASE_TRAILER);
}

/* The stream a long frame is arriving on, or NULL. */
static const tt_tcp *busy_stream(const tt_streams *self)
{
    for (uint32_t i = 0; i < self->count; i++) {
        if (is_inside_long(self->streams[i].tcp)) {
            return self->streams[i].tcp;
        }
    }
    return NULL;
}

/* The stream that the next frame takes; one that has ended only if all have. */
static tt_tcp *choose(const tt_streams *self)
{
    tt_tcp *best = self->streams[0].tcp;
    size_t best_load = SIZE_MAX;
    for (uint32_t i = 0; i < self->count; i++) {
        tt_tcp *tcp = self->streams[i].tcp;
        const size_t load = tt_tcp_sender_has_work(tcp) ? 1 + tcp->sender.queue.count : 0;
        if (tcp->link.state == TT_LINK_UP && load < best_load) {
            best = tcp;
            best_load = load;
        }
    }
    return best;
}

static tt_status streams_send(tt_link *link, const tt_send *send)
{
    return tt_tcp_sender_send(choose(streams_of(link)), send);
}

static void streams_recall(tt_link *link, uint64_t token)
{
    const tt_streams *self = streams_of(link);
    for (uint32_t i = 0; i < self->count; i++) {
        tt_tcp_sender_recall(self->streams[i].tcp, token);
    }
}

static void streams_discard(tt_link *link)
{
    const tt_streams *self = streams_of(link);
    for (uint32_t i = 0; i < self->count; i++) {
        tt_tcp_receiver_discard(self->streams[i].tcp);
    }
}

/* Register sockets with the inner epoll. Streams that may not be read now are not watched for
 * input. */
static void watch(tt_streams *self)
{
    const tt_tcp *busy = busy_stream(self);
    for (uint32_t i = 0; i < self->count; i++) {
        stream *each = &self->streams[i];
        int fds[2];
        bool wants_write[2];
        tt_tcp_link_ops.descriptors(&each->tcp->link, fds, wants_write);
        for (uint32_t j = 0; j < 2; j++) {
            const bool is_held = j == 1 && busy != NULL && busy != each->tcp;
            struct epoll_event event = {.events = is_held ? 0 : EPOLLIN | EPOLLRDHUP};
            event.events |= wants_write[j] ? EPOLLOUT : 0;
            if (each->fds[j] >= 0 && fds[j] < 0) {
                (void)epoll_ctl(self->epoll_fd, EPOLL_CTL_DEL, each->fds[j], NULL);
                each->fds[j] = -1;
            } else if (each->fds[j] >= 0 && each->events[j] != event.events) {
                (void)epoll_ctl(self->epoll_fd, EPOLL_CTL_MOD, each->fds[j], &event);
                each->events[j] = event.events;
            }
        }
    }
}

/* Rule (2). */
static void settle(tt_streams *self)
{
    tt_link *link = &self->link;
    uint32_t left_count = 0;
    bool has_rejected = false;
    link->bytes_sent = link->bytes_received = link->frames_sent = link->frames_received = 0;
    for (uint32_t i = 0; i < self->count; i++) {
        const tt_link *each = &self->streams[i].tcp->link;
        link->bytes_sent += each->bytes_sent;
        link->bytes_received += each->bytes_received;
        link->frames_sent += each->frames_sent;
        link->frames_received += each->frames_received;
        left_count += each->state == TT_LINK_LEFT;
        has_rejected |= self->streams[i].tcp->receiver.has_rejected;
        if (each->state == TT_LINK_DOWN && link->state == TT_LINK_UP) {
            link->state = TT_LINK_DOWN;
            link->is_rejected = each->is_rejected;
            (void)snprintf(link->why, sizeof(link->why), "%s", each->why);
        }
    }
    for (uint32_t i = 0; link->state == TT_LINK_DOWN && i < self->count; i++) {
        if (has_rejected) { /* on all of them: the peer may read another one first */
            tt_tcp_receiver_reject(self->streams[i].tcp);
        }
        tt_tcp_fail(self->streams[i].tcp, "%s", link->why);
    }
    if (link->state == TT_LINK_UP && left_count == self->count) {
        link->state = TT_LINK_LEFT;
        (void)snprintf(link->why, sizeof(link->why), "%s", self->streams[0].tcp->link.why);
    }
}

static bool streams_poll(tt_link *link)
{
    tt_streams *self = streams_of(link);
    bool moved = false, has_more = false;
    for (uint32_t i = 0; i < self->count; i++) {
        tt_tcp *tcp = self->streams[i].tcp;
        const tt_tcp *busy = busy_stream(self);
        tcp->link.machine = link->machine;
        tcp->link.hands = link->hands;
        if (tcp->link.state == TT_LINK_UP && (busy == NULL || busy == tcp)) {
            moved |= tt_tcp_receiver_poll(tcp);
            has_more |= tt_tcp_receiver_has_more(tcp);
        }
        const bool sent = tt_tcp_sender_poll(tcp);
        has_more |= sent && tt_tcp_sender_has_work(tcp);
        moved |= sent;
    }
    settle(self);
    watch(self);
    link->ready = has_more;
    return moved;
}

static bool streams_closed(const tt_link *link)
{
    return link->state != TT_LINK_UP;
}

static void streams_descriptors(const tt_link *link, int fds_out[2], bool wants_write_out[2])
{
    const tt_streams *self = TT_CONTAINER_OF(link, const tt_streams, link);
    fds_out[0] = streams_closed(link) ? -1 : self->epoll_fd;
    fds_out[1] = -1;
    wants_write_out[0] = wants_write_out[1] = false;
    for (uint32_t i = 0; i < self->count; i++) { /* so that poll is called and watches for it */
        wants_write_out[0] |= tt_tcp_sender_has_work(self->streams[i].tcp);
    }
}

static void streams_expect(tt_link *link, uint32_t frame_bytes)
{
    const tt_streams *self = streams_of(link);
    for (uint32_t i = 0; i < self->count; i++) {
        tt_tcp_link_ops.expect(&self->streams[i].tcp->link, frame_bytes);
    }
}

static bool streams_idle(const tt_link *link)
{
    const tt_streams *self = TT_CONTAINER_OF(link, const tt_streams, link);
    bool is_idle = true;
    for (uint32_t i = 0; i < self->count; i++) {
        is_idle = is_idle && !tt_tcp_sender_has_work(self->streams[i].tcp);
    }
    return is_idle;
}

static void streams_forsake(const tt_link *link)
{
    const tt_streams *self = TT_CONTAINER_OF(link, const tt_streams, link);
    for (uint32_t i = 0; i < self->count; i++) {
        tt_tcp_link_ops.forsake(&self->streams[i].tcp->link);
    }
    (void)close(self->epoll_fd);
}

static void streams_close(tt_link *link)
{
    const tt_streams *self = streams_of(link);
    for (uint32_t i = 0; i < self->count; i++) {
        tt_tcp_link_ops.close(&self->streams[i].tcp->link);
    }
}

static void streams_destroy(tt_link *link)
{
    tt_streams *self = streams_of(link);
    for (uint32_t i = 0; i < self->count; i++) {
        tt_tcp_link_ops.destroy(&self->streams[i].tcp->link);
    }
    (void)close(self->epoll_fd);
    free(self);
}

static tt_status watch_begin(tt_streams *self)
{
    for (uint32_t i = 0; i < self->count; i++) {
        stream *each = &self->streams[i];
        bool wants_write[2];
        tt_tcp_link_ops.descriptors(&each->tcp->link, each->fds, wants_write);
        for (uint32_t j = 0; j < 2; j++) {
            struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP};
            each->events[j] = event.events;
            if (epoll_ctl(self->epoll_fd, EPOLL_CTL_ADD, each->fds[j], &event) != 0) {
                return TT_ERR_NO_RESOURCE;
            }
        }
    }
    return TT_OK;
}

tt_status tt_streams_link_create(tt_link *const *links, uint32_t count, tt_link **link_out)
{
    TT_ASSERT(count > 0);
    TT_ASSERT(count <= TT_STREAMS_MAX);
    tt_streams *self = calloc(1, sizeof(*self));
    if (self == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    self->link = (tt_link){.ops = &tt_streams_link_ops,
                           .machine = links[0]->machine,
                           .peer = links[0]->peer,
                           .state = TT_LINK_UP};
    self->count = count;
    for (uint32_t i = 0; i < count; i++) {
        TT_ASSERT(links[i]->ops == &tt_tcp_link_ops);
        self->streams[i].tcp = TT_CONTAINER_OF(links[i], tt_tcp, link);
    }
    self->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (self->epoll_fd < 0 || watch_begin(self) != TT_OK) {
        if (self->epoll_fd >= 0) {
            (void)close(self->epoll_fd);
        }
        free(self);
        return TT_ERR_NO_RESOURCE;
    }
    *link_out = &self->link;
    return TT_OK;
}

const tt_link_ops tt_streams_link_ops = {
    .name = "tcp",
    .polls_memory = false,
    .send = streams_send,
    .recall = streams_recall,
    .discard = streams_discard,
    .poll = streams_poll,
    .descriptors = streams_descriptors,
    .expect = streams_expect,
    .idle = streams_idle,
    .close = streams_close,
    .closed = streams_closed,
    .forsake = streams_forsake,
    .destroy = streams_destroy,
};
