/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp.c - life, end and table of a TCP link. The two directions are tcp_send.c and tcp_receive.c.
 */
#include "transport/tcp/tcp.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/base.h"
#include "transport/tcp/tcp_internal.h"

enum { UNSENT_BYTES_MIN = 8 * 1024 };

static tt_tcp *tcp_of(tt_link *link)
{
    TT_ASSERT(link->ops == &tt_tcp_link_ops);
    return TT_CONTAINER_OF(link, tt_tcp, link);
}

void tt_tcp_fail(tt_tcp *tcp, const char *format, ...)
{
    if (tcp->link.state != TT_LINK_UP) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(tcp->link.why, sizeof(tcp->link.why), format, arguments);
    va_end(arguments);
    tcp->link.state = TT_LINK_DOWN;
    tcp->receiver.phase = TT_TCP_PHASE_ENDED;
    tt_tcp_blocks_clear(&tcp->receiver.blocks);
    tt_tcp_sender_drop(tcp);
    (void)shutdown(tcp->sender.fd, SHUT_RDWR);
    (void)shutdown(tcp->receiver.fd, SHUT_RDWR);
}

void tt_tcp_leave(tt_tcp *tcp)
{
    TT_ASSERT(tcp->link.state == TT_LINK_UP);
    (void)snprintf(tcp->link.why, sizeof(tcp->link.why), "said goodbye");
    tcp->link.state = TT_LINK_LEFT;
    tt_tcp_blocks_clear(&tcp->receiver.blocks);
    tt_tcp_sender_end(tcp);
}

static tt_status tcp_send(tt_link *link, const tt_send *send)
{
    return tt_tcp_sender_send(tcp_of(link), send);
}

static void tcp_recall(tt_link *link, uint64_t token)
{
    tt_tcp_sender_recall(tcp_of(link), token);
}

static void tcp_discard(tt_link *link)
{
    tt_tcp_receiver_discard(tcp_of(link));
}

static bool tcp_poll(tt_link *link)
{
    tt_tcp *tcp = tcp_of(link);
    TT_ASSERT(link->machine != NULL);
    const bool received = tt_tcp_receiver_poll(tcp);
    const bool sent = tt_tcp_sender_poll(tcp);
    link->ready = tt_tcp_receiver_has_more(tcp) || (sent && tt_tcp_sender_has_work(tcp));
    return received || sent;
}

static bool tcp_closed(const tt_link *link)
{
    return link->state != TT_LINK_UP;
}

static void tcp_descriptors(const tt_link *link, int fds_out[2], bool wants_write_out[2])
{
    const tt_tcp *tcp = TT_CONTAINER_OF(link, const tt_tcp, link);
    const bool can_write = !tcp_closed(link) && !tcp->sender.broken && !tcp->sender.finished;
    fds_out[0] = can_write ? tcp->sender.fd : -1;
    fds_out[1] = tcp_closed(link) ? -1 : tcp->receiver.fd;
    wants_write_out[0] = can_write && tt_tcp_sender_has_work(tcp);
    wants_write_out[1] = false;
}

static bool tcp_idle(const tt_link *link)
{
    return !tt_tcp_sender_has_work(TT_CONTAINER_OF(link, const tt_tcp, link));
}

static void tcp_close(tt_link *link)
{
    tcp_of(link)->sender.closing = true;
}

static void tcp_forsake(const tt_link *link)
{
    const tt_tcp *tcp = TT_CONTAINER_OF(link, const tt_tcp, link);
    (void)close(tcp->sender.fd);
    (void)close(tcp->receiver.fd);
}

static void tcp_free(tt_tcp *tcp)
{
    tt_tcp_blocks_fini(&tcp->sender.blocks);
    tt_tcp_blocks_fini(&tcp->receiver.blocks);
    tt_seal_fini(&tcp->sender.seal);
    tt_seal_fini(&tcp->receiver.seal);
    tt_frame_queue_fini(&tcp->sender.queue);
    free(tcp->sender.copies.slots);
    free(tcp->sender.stage);
    free(tcp->sender.kept);
    free(tcp->receiver.buffer);
    free(tcp);
}

static void tcp_destroy(tt_link *link)
{
    tt_tcp *tcp = tcp_of(link);
    tt_tcp_sender_drop(tcp);
    (void)close(tcp->sender.fd);
    (void)close(tcp->receiver.fd);
    tcp_free(tcp);
}

static void option_set(int fd, int level, int option, int value)
{
    /* Errors are ignored: each option is an improvement, none is required. */
    (void)setsockopt(fd, level, option, &value, sizeof(value));
}

static void socket_tune(int fd, const tt_tcp_config *config)
{
    const uint32_t total_s = config->keepalive_s == 0 ? TT_TCP_KEEPALIVE_S : config->keepalive_s;
    const uint32_t unsent = config->unsent_bytes == 0 ? TT_TCP_CHUNK_BYTES : config->unsent_bytes;
    const int probe_count = 4;
    const int interval_s = (int)tt_max_u64(1, total_s / 6);
    const int idle_s = (int)tt_max_u64(1, total_s - tt_min_u64(total_s, 4 * total_s / 6));
    option_set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    option_set(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, (int)unsent);
    option_set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    option_set(fd, IPPROTO_TCP, TCP_KEEPIDLE, idle_s);
    option_set(fd, IPPROTO_TCP, TCP_KEEPINTVL, interval_s);
    option_set(fd, IPPROTO_TCP, TCP_KEEPCNT, probe_count);
}

uint32_t tt_tcp_unsent_bytes(uint32_t frame_bytes)
{
    return (uint32_t)tt_max_u64(frame_bytes / 4, UNSENT_BYTES_MIN);
}

static void tcp_expect(tt_link *link, uint32_t frame_bytes)
{
    tt_tcp_sender *sender = &tcp_of(link)->sender;
    option_set(sender->fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, (int)tt_tcp_unsent_bytes(frame_bytes));
    tt_backlog_expect(&sender->backlog, sender->fd, frame_bytes);
}

tt_status tt_tcp_link_create(const tt_tcp_config *config, tt_link **link_out)
{
    tt_tcp *tcp = calloc(1, sizeof(*tcp));
    if (tcp == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    tcp->sender.stage = malloc(TT_TCP_STAGE_BYTES);
    tcp->sender.kept = malloc(TT_PAYLOAD_BYTES_MAX);
    tcp->receiver.buffer = malloc(TT_TCP_BUFFER_BYTES);
    tcp->sender.copies.slots = malloc((size_t)TT_TCP_COPY_MAX * TT_TCP_COPY_BYTES);
    if (tcp->sender.stage == NULL || tcp->sender.kept == NULL || tcp->receiver.buffer == NULL ||
        tcp->sender.copies.slots == NULL) {
        tcp_free(tcp);
        return TT_ERR_NO_MEMORY;
    }
    for (uint16_t slot = 0; slot < TT_TCP_COPY_MAX; slot++) {
        tcp->sender.copies.free_slots[tcp->sender.copies.free_count++] = slot;
    }
    if (tt_seal_init_with(&tcp->sender.seal, config->send_key, config->cipher) != TT_OK ||
        tt_seal_init_with(&tcp->receiver.seal, config->receive_key, config->cipher) != TT_OK) {
        tcp_free(tcp);
        return TT_ERR_NO_RESOURCE;
    }
    tt_seal_rejection(config->send_key, tcp->sender.rejection);
    tt_seal_rejection(config->receive_key, tcp->receiver.rejection);
    tcp->link.ops = &tt_tcp_link_ops;
    tcp->link.machine = config->machine;
    tcp->link.peer = config->peer;
    tcp->link.state = TT_LINK_UP;
    tcp->mode = config->mode;
    tcp->sender.fd = config->send_fd;
    tcp->receiver.fd = config->receive_fd;
    socket_tune(config->send_fd, config);
    socket_tune(config->receive_fd, config);
    tt_backlog_begin(&tcp->sender.backlog, config->send_fd, &config->backlog);
    *link_out = &tcp->link;
    return TT_OK;
}

const tt_link_ops tt_tcp_link_ops = {
    .name = "tcp",
    .polls_memory = false,
    .send = tcp_send,
    .recall = tcp_recall,
    .discard = tcp_discard,
    .poll = tcp_poll,
    .descriptors = tcp_descriptors,
    .expect = tcp_expect,
    .idle = tcp_idle,
    .close = tcp_close,
    .closed = tcp_closed,
    .forsake = tcp_forsake,
    .destroy = tcp_destroy,
};
