/* SPDX-License-Identifier: Apache-2.0
 *
 * backlog.h - how much a socket may hold: written, but not yet acknowledged.
 *
 * Nothing overtakes bytes that the kernel has, whether they are unsent, queue at a device, or are
 * under way. Too little of them leaves the wire idle while the rank is woken. What is right shows
 * in the time they queue, the kernel's round trip less the shortest one ever: about half a
 * millisecond is room for a thread to be woken, and less than most chunks take. So the bound is
 * found, not computed: it shrinks while bytes queue longer and grows when they hardly queue at all.
 *
 *  (1) Far peers (1 ms and more) get no bound: their bytes are under way, not in a queue.
 *  (2) A link so fast that no useful bound keeps it busy gets none, and is left alone for a while.
 *  (3) bbr takes a bounded socket for a slow path and slows down: such a socket gets cubic first,
 *      unless the user chose; then it gets no bound.
 *
 * Layer:   transport; learn is pure.
 * Threads: one at a time.
 * Memory:  none.
 */
#ifndef TUTTI_TRANSPORT_BACKLOG_H
#define TUTTI_TRANSPORT_BACKLOG_H

#include <stdbool.h>
#include <stdint.h>

enum {
    TT_BACKLOG_BYTES_MIN = 32 * 1024,
    TT_BACKLOG_BYTES_MAX = 256 * 1024,    /* beyond: no bound */
    TT_BACKLOG_SAMPLE_BYTES = 512 * 1024, /* written between two looks */
};

typedef struct tt_backlog {
    uint32_t bytes;     /* the bound; 0: none */
    uint32_t rest;      /* looks before it may shrink again */
    bool is_fixed;      /* by the user, or nothing can be done here */
    bool keeps_control; /* the user chose the congestion control */
    uint64_t looked_at; /* bytes written at the last look */
} tt_backlog;

/* What one look showed, in microseconds; `is_dry`: it ran empty while there was more to send. */
typedef struct tt_backlog_look {
    uint32_t round_trip_us, shortest_us;
    bool is_dry;
} tt_backlog_look;

/* `bytes` 0: to be found; UINT32_MAX: never a bound; else that, at once. */
void tt_backlog_begin(tt_backlog *backlog, int fd, uint32_t bytes, bool keeps_control);

/* The socket was full and can be written again, after `bytes_written` in all: look at it, now and
 * then. */
void tt_backlog_look_at(tt_backlog *backlog, int fd, uint64_t bytes_written);

/* True: the bound has changed. */
bool tt_backlog_learn(tt_backlog *backlog, tt_backlog_look look);

#endif
