/* SPDX-License-Identifier: Apache-2.0
 *
 * backlog.h - how much a socket may hold: written, but not yet acknowledged.
 *
 * No frame overtakes bytes that the kernel has, whether they are unsent, queued at a device, or in
 * flight. Too few of them leave the wire idle while the rank is woken. Half a millisecond's worth
 * covers the wake-up of a thread, and is less than most chunks take. The rate is measured while the
 * socket always has more to send.
 *
 *  (1) Far peers (round trip of a quarter of a millisecond and more) get no bound: their bytes are
 *      in flight, not in a queue.
 *  (2) Fast links (4 Gbit/s and more) get none either: a rank cannot be woken that often.
 *  (3) The bound begins at its minimum, which hides neither: 64 KiB reach more than 4 Gbit/s to a
 *      near peer.
 *  (4) Where packets are long (loopback: 64 KiB) there is no bound: of a few packets, the last
 *      would wait for a delayed acknowledgement.
 *  (5) Frames below 32 KiB are meant to be overtaken: the time and the minimum are halved then.
 *  (6) An acknowledgement queues behind a packet of 64 KiB of the peer and one of the switch. With
 *      one packet in flight the wire would be half idle, the measured rate would be half as well,
 *      and the bound would stay. So the minimum is three packets where frames are longer than that.
 *  (7) bbr takes a bounded socket for a slow path and slows down: such a socket gets cubic first,
 *      unless the user chose a congestion control; then it gets no bound.
 *
 * Layer:   transport; learn is pure.
 * Threads: one at a time.
 * Memory:  none.
 */
#ifndef TUTTI_TRANSPORT_TCP_BACKLOG_H
#define TUTTI_TRANSPORT_TCP_BACKLOG_H

#include <stdbool.h>
#include <stdint.h>

enum {
    TT_BACKLOG_BYTES_MIN = 64 * 1024,   /* the most that the kernel sends at once */
    TT_BACKLOG_BYTES_SHORT = 32 * 1024, /* where frames are short */
    TT_BACKLOG_BYTES_LONG = 192 * 1024, /* where they are longer than this */
    TT_BACKLOG_BYTES_MAX = 256 * 1024,
    TT_BACKLOG_SAMPLE_BYTES = 512 * 1024, /* written between two samples */
};

typedef struct tt_backlog {
    uint32_t bytes;                   /* the bound; 0: none */
    uint32_t frame_bytes;             /* longest frame; 0: long */
    bool is_fixed;                    /* set by the user, or cannot be changed on this socket */
    bool keeps_control;               /* the user chose the congestion control */
    uint64_t rate, last;              /* bytes per millisecond: estimate, and last sample */
    uint64_t looked_bytes, looked_ns; /* at the last sample; 0 ns: the socket was idle since */
} tt_backlog;

/* One sample of a socket. */
typedef struct tt_backlog_look {
    uint64_t bytes, took_ns; /* written since the last one, with more always waiting */
    uint32_t shortest_us;    /* shortest round trip so far; 0: not known */
    uint32_t segment_bytes;  /* of one packet */
} tt_backlog_look;

/* Settings of the user and of the link's owner. */
typedef struct tt_backlog_config {
    uint32_t bytes;       /* 0: measured; UINT32_MAX: never a bound; else a fixed bound */
    uint32_t frame_bytes; /* longest frame; 0: long */
    bool keeps_control;   /* the user chose the congestion control */
} tt_backlog_config;

void tt_backlog_begin(tt_backlog *backlog, int fd, const tt_backlog_config *config);

/* The socket was full and is writable again, after `bytes_written` in all: samples it now and
 * then. */
void tt_backlog_look_at(tt_backlog *backlog, int fd, uint64_t bytes_written);

/* The length of the longest frame has changed: adapts the bound, unless there is none. */
void tt_backlog_expect(tt_backlog *backlog, int fd, uint32_t frame_bytes);

/* There is nothing to write. */
static inline void tt_backlog_idle(tt_backlog *backlog)
{
    backlog->looked_ns = 0;
}

/* True: the bound has changed. */
bool tt_backlog_learn(tt_backlog *backlog, tt_backlog_look look);

#endif
