/* SPDX-License-Identifier: Apache-2.0
 *
 * frame.h - the kinds of frames, and what their head fields mean.
 *
 * Layer:   aggregate; control uses its own range of kinds.
 * Threads: pure.
 * Memory:  none.
 */
#ifndef TUTTI_AGGREGATE_FRAME_H
#define TUTTI_AGGREGATE_FRAME_H

/* set, op, stage, lane, round and descriptor identify what a frame is for; `argument` as said. */
typedef enum tt_frame_kind {
    TT_FRAME_DATA = 1,   /* payload of (lane, round) */
    TT_FRAME_GRANT = 2,  /* argument: lanes below this are open here, long frames may come */
    TT_FRAME_WANT = 3,   /* the sender has no credit: grant when the op is here */
    TT_FRAME_CREDIT = 4, /* argument: eager frames of yours consumed so far (cumulative) */

    TT_FRAME_DISPUTE = 16, /* from the first member: descriptors differ, make your claim */
    TT_FRAME_CLAIM = 17,   /* to it, payload: what this rank believes the op to be; opens a case */
    TT_FRAME_OBJECT = 18,  /* argument: status, payload: text. This rank cannot take part */
    TT_FRAME_VERDICT = 19, /* argument: status, payload: text. The op failed, for everyone */
    TT_FRAME_PROBE = 20,   /* to the first member: this rank has the op (argument 0), who has not
                            * (1)? From it (2): do you have the op, or had you? */
    TT_FRAME_STALL = 21,   /* payload: text. Who has not submitted it */
    TT_FRAME_ABORT = 22, /* argument: rank that is gone or, if the sender, gives up; payload: how */
    TT_FRAME_STOP = 23,  /* the sender's op failed: say when you no longer touch its memory */
    TT_FRAME_STOPPED = 24,
    TT_FRAME_NOTICE = 25, /* between negotiators; see control/named/notice.c */
    TT_FRAME_ASK = 26, /* to a sender: a receive from any source would take this message; WANT when
                        * there is one. See control/any.c */
} tt_frame_kind;

enum {
    TT_FLAG_EAGER = 1,    /* took a credit */
    TT_FLAG_PAIR = 2,     /* send and receive: op counts per pair and direction */
    TT_FLAG_REPLY = 4,    /* pair only: from the receiver back to the sender */
    TT_FLAG_AGREED = 8,   /* op counts in the order that was agreed for named tensors */
    TT_FLAG_PLANNED = 16, /* op is (generation, index, occurrence, part) of a planned tensor */
    /* With set and op these say which op is meant. */
    TT_FLAGS_SPACE = TT_FLAG_PAIR | TT_FLAG_REPLY | TT_FLAG_AGREED | TT_FLAG_PLANNED,
};

#endif
