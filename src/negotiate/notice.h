/* SPDX-License-Identifier: Apache-2.0
 *
 * notice.h - the frames of a negotiation: kinds, flags and records. docs/control.md describes
 * their use.
 *
 * A frame is identified by (kind, round, sender, part), so a duplicate changes nothing. Numbers
 * are little-endian, records are packed one behind the other and never cross a part.
 *
 * Layer:   negotiate, private.
 * Threads: pure.
 * Memory:  none.
 */
#ifndef TUTTI_NEGOTIATE_NOTICE_H
#define TUTTI_NEGOTIATE_NOTICE_H

#include <stdint.h>

#include "base/base.h"
#include "negotiate/negotiate.h"

typedef enum tt_notice_kind {
    TT_NOTICE_VECTOR = 1, /* flags; [pending slots, AND] and, if MARKED, [slots to erase, OR] */
    TT_NOTICE_CUT,        /* [occurrences begun of the tensors that leave the plan, MAX] */
    TT_NOTICE_REQUESTS,   /* up the tree: tt_request_head records */
    TT_NOTICE_ANSWERS,    /* down the tree: tt_answer_head records */
    TT_NOTICE_CALL, /* flooded through the tree: take part in this round, with or without tickets */
    TT_NOTICE_ASK,  /* to member 0: this name waits too long */
    TT_NOTICE_QUERY,  /* to all: do you have this name? round: of member 0's inquiry, or of a
                       * member's survey (survey.c) */
    TT_NOTICE_HAVE,   /* the answer, in flags */
    TT_NOTICE_REPORT, /* of member 0 to those that wait: the name, 0, the text */
} tt_notice_kind;

/* Of VECTOR and CUT: OR of all members' flags. */
enum {
    TT_FLAG_TURN = 1,      /* a member has requests for the coordinator */
    TT_FLAG_INVALID = 2,   /* some slot must be erased */
    TT_FLAG_CUT = 4,       /* all plans must end */
    TT_FLAG_EMPTY = 8,     /* a member has nothing pending */
    TT_FLAG_DIVERGED = 16, /* digests differ */
    TT_FLAG_SPLIT = 32,    /* some slot must leave the plan, but may stay in the cache */
    TT_FLAGS_COMBINED = 63,
    TT_FLAGS_MARKED = TT_FLAG_INVALID | TT_FLAG_SPLIT, /* such slots are marked after the vector */
};
/* Of REQUESTS and ANSWERS. */
enum { TT_FLAG_LAST = 1 };
/* Of HAVE. */
enum { TT_HAVE_NOTHING, TT_HAVE_TICKET, TT_HAVE_JOINED };

enum {
    TT_NOTICE_PARTS_MAX = 1 << 16,
    TT_NOTICE_RANGES_MAX = 512, /* of one record; more need further records */
};

typedef enum tt_request_kind {
    TT_REQUEST_TENSOR = 1,
    TT_REQUEST_JOIN,
    TT_REQUEST_CANCEL,  /* the claim is a text */
    TT_REQUEST_GIVE_UP, /* the claim is a text */
} tt_request_kind;

/* Then range_count tt_range, the name, the claim. */
typedef struct tt_request_head {
    uint8_t kind;
    uint8_t needs_all;
    uint16_t name_bytes;
    uint16_t claim_bytes;
    uint16_t range_count;
} tt_request_head;

typedef enum tt_answer_kind {
    TT_ANSWER_AGREED = 1,
    TT_ANSWER_FAILED, /* the claim is a text */
    TT_ANSWER_JOINED, /* the claim is a tt_answer_join */
    /* The claim is a text. needs_all 1: a contested group; after the groups (0) their tensors,
     * which also fail on members that have not submitted them yet */
    TT_ANSWER_CONTESTED,
    TT_ANSWER_JUDGED, /* claims differ; status and text, in place of a claim, are the host's */
} tt_answer_kind;

/* Then the name and a 0, the claim and a 0. */
typedef struct tt_answer_head {
    uint8_t kind;
    uint8_t needs_all;
    int16_t status;
    uint16_t name_bytes;
    uint16_t claim_bytes;
} tt_answer_head;

typedef struct tt_answer_join {
    uint32_t active; /* members that have not joined */
    uint32_t first;  /* lowest member that has */
    uint32_t last;   /* that did so last, where none is active */
} tt_answer_join;

_Static_assert(sizeof(tt_request_head) == 8, "wire format");
_Static_assert(sizeof(tt_answer_head) == 8, "wire format");
_Static_assert(sizeof(tt_answer_join) == 12, "wire format");
_Static_assert(sizeof(tt_request_head) + TT_NOTICE_RANGES_MAX * 8 + TT_TICKET_NAME_BYTES_MAX +
                       TT_TICKET_CLAIM_BYTES_MAX <=
                   TT_NOTICE_BYTES_MAX,
               "a record fits a part");

#endif
