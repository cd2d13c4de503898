/* SPDX-License-Identifier: Apache-2.0
 *
 * frame.h - the kinds of frames, and the meaning of their head fields.
 *
 * Layer:   aggregate; control uses its own range of kinds.
 * Threads: pure.
 * Memory:  none.
 */
#ifndef TUTTI_AGGREGATE_FRAME_H
#define TUTTI_AGGREGATE_FRAME_H

/* set, op, stage, lane, round and descriptor identify the target of a frame; each kind has its own
 * `argument`. */
typedef enum tt_frame_kind {
    TT_FRAME_DATA = 1,   /* payload of (lane, round) */
    TT_FRAME_GRANT = 2,  /* argument: the sender's lanes below this are open for long frames */
    TT_FRAME_WANT = 3,   /* the sender has no credit: send GRANT once the op has started */
    TT_FRAME_CREDIT = 4, /* argument: the receiver's eager frames consumed so far (cumulative) */

    TT_FRAME_DISPUTE = 16, /* from the first member: descriptors differ, send your claim */
    TT_FRAME_CLAIM = 17,   /* to the first member, payload: the sender's claim; opens a case */
    TT_FRAME_OBJECT = 18,  /* argument: status, payload: text. The sender cannot take part */
    TT_FRAME_VERDICT = 19, /* argument: status, payload: text. The op fails on all members */
    TT_FRAME_PROBE = 20,   /* to the first member: the sender has the op (argument 0), which members
                              lack it (1)? From it (2): do you have the op, or had you? */
    TT_FRAME_STALL = 21,   /* payload: text. Members that have not submitted the op */
    TT_FRAME_ABORT = 22, /* argument: rank that is gone or, if the sender, gives up; payload: how */
    TT_FRAME_STOP = 23,  /* the sender's op failed: reply STOPPED once its memory is not touched */
    TT_FRAME_STOPPED = 24,
    TT_FRAME_NOTICE = 25, /* between negotiators; see control/named/notice.c */
    TT_FRAME_ASK = 26, /* to a sender: a receive from any source matches such a message; reply WANT
                          when there is one. See control/any.c */
} tt_frame_kind;

/* Kinds from here on are not control's: sync/sync_wire.h. */
enum { TT_SYNC_KIND_FIRST = 64 };

enum {
    TT_FLAG_EAGER = 1,    /* took a credit */
    TT_FLAG_PAIR = 2,     /* send and receive: op counts per pair and direction */
    TT_FLAG_REPLY = 4,    /* pair only: from the receiver back to the sender */
    TT_FLAG_AGREED = 8,   /* op counts in the order that was agreed for named tensors */
    TT_FLAG_PLANNED = 16, /* op is (generation, index, occurrence, part) of a planned tensor */
    /* With set and op these identify an op. */
    TT_FLAGS_SPACE = TT_FLAG_PAIR | TT_FLAG_REPLY | TT_FLAG_AGREED | TT_FLAG_PLANNED,
};

#endif
