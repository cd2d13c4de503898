/* SPDX-License-Identifier: Apache-2.0
 *
 * backlog.c - see backlog.h. */
#include "transport/backlog.h"

#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#include "base/base.h"

#ifndef SO_BUF_LOCK
#define SO_BUF_LOCK 72 /* since Linux 5.15; headers may be older */
#endif

enum {
    FAR_US = 1000,
    QUEUED_US_MIN = 250,
    QUEUED_US_MAX = 550,
    RESTS_GROWN = 64,   /* looks: some tens of MB */
    RESTS_FAST = 4096,  /* some GB */
    CONTROL_BYTES = 16, /* TCP_CA_NAME_MAX */
};

/* What Linux gives since 4.6: glibc's struct ends before the shortest round trip. */
typedef struct look_at_socket {
    struct tcp_info known;
    uint64_t rates[2], bytes[2];
    uint32_t segments[2];
    uint32_t unsent_bytes;
    uint32_t shortest_us;
} look_at_socket;

_Static_assert(offsetof(look_at_socket, shortest_us) == 148, "as the kernel lays it out");

static uint32_t grown(tt_backlog *backlog)
{
    if (backlog->bytes == 0) {
        return 0;
    }
    const bool is_fast = backlog->bytes > TT_BACKLOG_BYTES_MAX / 2;
    backlog->rest = is_fast ? RESTS_FAST : RESTS_GROWN;
    return is_fast ? 0 : 2 * backlog->bytes;
}

static uint32_t shrunk(const tt_backlog *backlog)
{
    if (backlog->bytes == 0) {
        return TT_BACKLOG_BYTES_MAX;
    }
    return (uint32_t)tt_max_u64(TT_BACKLOG_BYTES_MIN, backlog->bytes / 4 * 3);
}

bool tt_backlog_learn(tt_backlog *backlog, tt_backlog_look look)
{
    const uint32_t before = backlog->bytes;
    const uint32_t queued_us =
        look.round_trip_us - (uint32_t)tt_min_u64(look.shortest_us, look.round_trip_us);
    if (look.shortest_us == 0 || look.shortest_us == UINT32_MAX) {
        return false; /* nothing was measured yet */
    }
    if (look.shortest_us >= FAR_US) {
        backlog->bytes = 0;
    } else if (look.is_dry || queued_us < QUEUED_US_MIN) {
        backlog->bytes = grown(backlog);
    } else if (backlog->rest > 0) {
        backlog->rest--;
    } else if (queued_us > QUEUED_US_MAX) {
        backlog->bytes = shrunk(backlog);
    }
    return backlog->bytes != before;
}

/* (3). False: the socket must not be bounded. */
static bool can_bound(const tt_backlog *backlog, int fd)
{
    char name[CONTROL_BYTES] = {0};
    socklen_t length = sizeof(name) - 1;
    if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &length) != 0 ||
        strncmp(name, "bbr", 3) != 0) {
        return true;
    }
    return !backlog->keeps_control &&
           (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5) == 0 ||
            setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4) == 0);
}

static void apply(tt_backlog *backlog, int fd)
{
    const int unlocked = 0;
    const int half = backlog->bytes == 0 ? INT_MAX / 2 : (int)(backlog->bytes / 2);
    if (backlog->bytes > 0 && !can_bound(backlog, fd)) {
        backlog->is_fixed = true;
        backlog->bytes = 0;
        return;
    }
    /* The kernel doubles what it is told. Without the lock it chooses again by itself. */
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &half, sizeof(half));
    if (backlog->bytes == 0) {
        (void)setsockopt(fd, SOL_SOCKET, SO_BUF_LOCK, &unlocked, sizeof(unlocked));
    }
}

void tt_backlog_begin(tt_backlog *backlog, int fd, uint32_t bytes, bool keeps_control)
{
    *backlog = (tt_backlog){.keeps_control = keeps_control,
                            .is_fixed = bytes > 0,
                            .bytes = bytes == UINT32_MAX ? 0 : bytes};
    if (backlog->bytes > 0) {
        apply(backlog, fd);
    }
}

void tt_backlog_look_at(tt_backlog *backlog, int fd, uint64_t bytes_written)
{
    look_at_socket socket = {0};
    socklen_t length = sizeof(socket);
    if (backlog->is_fixed || bytes_written - backlog->looked_at < TT_BACKLOG_SAMPLE_BYTES) {
        return;
    }
    backlog->looked_at = bytes_written;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &socket, &length) != 0 || length < sizeof(socket)) {
        backlog->is_fixed = true; /* no TCP, or an old kernel */
        return;
    }
    const tt_backlog_look look = {.round_trip_us = socket.known.tcpi_rtt,
                                  .shortest_us = socket.shortest_us,
                                  .is_dry =
                                      socket.known.tcpi_unacked == 0 && socket.unsent_bytes == 0};
    if (tt_backlog_learn(backlog, look)) {
        apply(backlog, fd);
    }
}
