/* SPDX-License-Identifier: Apache-2.0
 *
 * backlog.c - see backlog.h. */
#include "transport/tcp/backlog.h"

#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "base/base.h"

#ifndef SO_BUF_LOCK
#define SO_BUF_LOCK 72 /* since Linux 5.15; headers may be older */
#endif

enum {
    FAR_US = 250,
    ROOM_US = 500,
    SEGMENTS_MIN = 4,       /* every second one is acknowledged at once */
    STEP_BYTES = 16 * 1024, /* of bounds */
    CONTROL_BYTES = 16,     /* TCP_CA_NAME_MAX */
};

/* TCP_INFO as of Linux 4.6: glibc's struct ends before the shortest round trip. */
typedef struct look_at_socket {
    struct tcp_info known;
    uint64_t rates[2], bytes[2];
    uint32_t segments[2];
    uint32_t unsent_bytes;
    uint32_t shortest_us; /* UINT32_MAX: none was measured */
} look_at_socket;

_Static_assert(offsetof(look_at_socket, shortest_us) == 148, "as the kernel lays it out");

static uint64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static bool suits(const tt_backlog_look *look)
{
    return look->shortest_us > 0 && look->shortest_us < FAR_US && look->segment_bytes > 0 &&
           look->segment_bytes <= TT_BACKLOG_BYTES_MIN / SEGMENTS_MIN;
}

/* The rate rises only by the lower of two samples: a burst does not mean a faster wire. It falls
 * slowly: a late wake-up does not mean a slower one. */
static void learn_rate(tt_backlog *backlog, tt_backlog_look look)
{
    const uint64_t now = look.bytes * 1000000 / tt_max_u64(look.took_ns, 1);
    const uint64_t rate = tt_min_u64(now, backlog->last);
    backlog->last = now;
    backlog->rate = tt_max_u64(rate, backlog->rate - backlog->rate / 8 + rate / 8);
}

static bool has_short_frames(const tt_backlog *backlog)
{
    return backlog->frame_bytes > 0 && backlog->frame_bytes < TT_BACKLOG_BYTES_SHORT;
}

/* (5), (6) */
static uint32_t least_bytes(const tt_backlog *backlog)
{
    if (has_short_frames(backlog)) {
        return TT_BACKLOG_BYTES_SHORT;
    }
    const bool has_long_frames =
        backlog->frame_bytes == 0 || backlog->frame_bytes > TT_BACKLOG_BYTES_LONG;
    return has_long_frames ? TT_BACKLOG_BYTES_LONG : TT_BACKLOG_BYTES_MIN;
}

static uint64_t room_bytes(const tt_backlog *backlog)
{
    return backlog->rate * ROOM_US / 1000;
}

static uint32_t bound_bytes(const tt_backlog *backlog)
{
    const uint64_t room = room_bytes(backlog);
    const uint64_t wanted = tt_round_up(has_short_frames(backlog) ? room / 2 : room, STEP_BYTES);
    return (uint32_t)tt_max_u64(wanted, least_bytes(backlog));
}

bool tt_backlog_learn(tt_backlog *backlog, tt_backlog_look look)
{
    const uint32_t before = backlog->bytes;
    learn_rate(backlog, look);
    const bool is_fast = tt_round_up(room_bytes(backlog), STEP_BYTES) > TT_BACKLOG_BYTES_MAX;
    backlog->bytes = !suits(&look) || is_fast ? 0 : bound_bytes(backlog);
    return backlog->bytes != before;
}

/* (7). False: the socket must not be bounded. */
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
    /* The kernel doubles SO_SNDBUF. Unlocked, it tunes the size by itself again. */
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &half, sizeof(half));
    if (backlog->bytes == 0) {
        (void)setsockopt(fd, SOL_SOCKET, SO_BUF_LOCK, &unlocked, sizeof(unlocked));
    }
}

/* Zeros if the kernel does not report it. */
static tt_backlog_look ask(int fd)
{
    look_at_socket socket = {0};
    socklen_t length = sizeof(socket);
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &socket, &length) != 0 || length < sizeof(socket)) {
        return (tt_backlog_look){0};
    }
    return (tt_backlog_look){.shortest_us = socket.shortest_us,
                             .segment_bytes = socket.known.tcpi_snd_mss};
}

void tt_backlog_begin(tt_backlog *backlog, int fd, const tt_backlog_config *config)
{
    *backlog = (tt_backlog){.keeps_control = config->keeps_control,
                            .is_fixed = config->bytes > 0,
                            .frame_bytes = config->frame_bytes,
                            .bytes = config->bytes == UINT32_MAX ? 0 : config->bytes};
    const tt_backlog_look look = ask(fd);
    if (config->bytes == 0 && suits(&look)) {
        backlog->bytes = least_bytes(backlog);
    }
    if (backlog->bytes > 0) {
        apply(backlog, fd);
    }
}

void tt_backlog_expect(tt_backlog *backlog, int fd, uint32_t frame_bytes)
{
    const uint32_t before = backlog->bytes;
    backlog->frame_bytes = frame_bytes;
    if (before > 0 && !backlog->is_fixed) {
        backlog->bytes = bound_bytes(backlog);
    }
    if (backlog->bytes != before) {
        apply(backlog, fd);
    }
}

void tt_backlog_look_at(tt_backlog *backlog, int fd, uint64_t bytes_written)
{
    const uint64_t bytes = bytes_written - backlog->looked_bytes;
    if (backlog->is_fixed || (backlog->looked_ns > 0 && bytes < TT_BACKLOG_SAMPLE_BYTES)) {
        return;
    }
    const uint64_t now = now_ns(), before = backlog->looked_ns;
    backlog->looked_bytes = bytes_written;
    backlog->looked_ns = now;
    if (before == 0) {
        return; /* a busy time begins */
    }
    tt_backlog_look look = ask(fd);
    look.bytes = bytes;
    look.took_ns = now - before;
    if (tt_backlog_learn(backlog, look)) {
        apply(backlog, fd);
    }
}
