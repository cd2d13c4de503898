/* SPDX-License-Identifier: Apache-2.0
 *
 * backlog.h - how much a socket may hold: written, but not yet acknowledged.
 *
 * Nothing overtakes bytes that the kernel has, whether they are unsent, queue at a device, or are
 * under way. Too little of them leaves the wire idle while the rank is woken. Half a millisecond's
 * worth is room for a thread to be woken, and less than most chunks take. The rate is what the
 * socket took while there was always more for it.
 *
 *  (1) Far peers (a quarter of a millisecond and more) get no bound: their bytes are under way, not
 *      in a queue.
 *  (2) Fast links (4 Gbit/s and more) get none either: a rank cannot be woken that often.
 *  (3) It begins with the least, which hides neither: 64 KiB reach more than 4 Gbit/s near by.
 *  (4) Where a packet is long (loopback: 64 KiB) there is none: of a few, the last would wait for
 *      an acknowledgement that is delayed.
 *  (5) Frames below 32 KiB are meant to be overtaken: half as much then, in time and at least.
 *  (6) An acknowledgement queues behind what the peer and the switch send, a packet of 64 KiB each.
 *      Of one packet at a time the wire is then half idle, and looks it: the bound would stay. So
 *      there are three where frames are longer than that.
 *  (7) bbr takes a bounded socket for a slow path and slows down: such a socket gets cubic first,
 *      unless the user chose; then it gets no bound.
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
    TT_BACKLOG_BYTES_MIN = 64 * 1024,   /* what the kernel sends at once, at most */
    TT_BACKLOG_BYTES_SHORT = 32 * 1024, /* where frames are short */
    TT_BACKLOG_BYTES_LONG = 192 * 1024, /* where they are longer than this */
    TT_BACKLOG_BYTES_MAX = 256 * 1024,
    TT_BACKLOG_SAMPLE_BYTES = 512 * 1024, /* written between two looks */
};

typedef struct tt_backlog {
    uint32_t bytes;                   /* the bound; 0: none */
    uint32_t frame_bytes;             /* longest frame; 0: long */
    bool is_fixed;                    /* by the user, or nothing can be done here */
    bool keeps_control;               /* the user chose the congestion control */
    uint64_t rate, last;              /* bytes a millisecond: believed, and by the last look */
    uint64_t looked_bytes, looked_ns; /* written by then; 0 ns: it was idle meanwhile */
} tt_backlog;

/* What one look showed. */
typedef struct tt_backlog_look {
    uint64_t bytes, took_ns; /* written since the last one, always with more to write */
    uint32_t shortest_us;    /* round trip ever; 0: not known */
    uint32_t segment_bytes;  /* of one packet */
} tt_backlog_look;

/* What the user and the links' owner say. */
typedef struct tt_backlog_config {
    uint32_t bytes;       /* 0: to be found; UINT32_MAX: never a bound; else that, at once */
    uint32_t frame_bytes; /* longest frame; 0: long */
    bool keeps_control;   /* the user chose the congestion control */
} tt_backlog_config;

void tt_backlog_begin(tt_backlog *backlog, int fd, const tt_backlog_config *config);

/* The socket was full and may be written again, after `bytes_written` in all: look at it, now and
 * then. */
void tt_backlog_look_at(tt_backlog *backlog, int fd, uint64_t bytes_written);

/* The longest frame has another length now: so has the bound, unless there is none. */
void tt_backlog_expect(tt_backlog *backlog, int fd, uint32_t frame_bytes);

/* There is nothing to write. */
static inline void tt_backlog_idle(tt_backlog *backlog)
{
    backlog->looked_ns = 0;
}

/* True: the bound has changed. */
bool tt_backlog_learn(tt_backlog *backlog, tt_backlog_look look);

#endif
