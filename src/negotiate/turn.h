/* SPDX-License-Identifier: Apache-2.0
 *
 * turn.h - requests up to the coordinator, answers down.
 *
 * Layer:   negotiate, private.
 * Threads: one at a time.
 * Memory:  the host's allocator.
 */
#ifndef TUTTI_NEGOTIATE_TURN_H
#define TUTTI_NEGOTIATE_TURN_H

#include "negotiate/entry.h"
#include "negotiate/notice.h"

/* ---- turn: requests up to the coordinator, answers down ---- */

typedef struct tt_child {
    tt_ranges parts;
    uint32_t part_count; /* 0: not known */
    bool is_over;
} tt_child;

typedef struct tt_part {
    uint8_t *bytes;
    uint32_t count;
} tt_part;

typedef struct tt_turn {
    tt_child *children;
    uint32_t children_over;
    tt_list rows;      /* of this turn; at the coordinator: of all that wait */
    tt_ranges joiners; /* of this turn */
    tt_ranges joined;  /* at the coordinator */
    uint32_t last;     /* at the coordinator: the member that joined last */
    uint32_t groups;   /* at the coordinator: claims of groups in `rows` */
    tt_part *answers;
    uint32_t answer_capacity;
    tt_ranges answered;    /* parts that have arrived */
    uint32_t answer_count; /* 0: not known */
    bool is_used;          /* not empty */
} tt_turn;

tt_status tt_turn_init(tt_negotiator *self);
void tt_turn_destroy(tt_negotiator *self);
tt_status tt_turn_requests(tt_negotiator *self, uint32_t member, const tt_notice *notice);
tt_status tt_turn_answers(tt_negotiator *self, uint32_t member, const tt_notice *notice);
/* Send this member's requests and those of its children up; the coordinator answers. */
tt_status tt_turn_pass_up(tt_negotiator *self);
/* Add this member's requests to the rows. */
tt_status tt_turn_tell(tt_negotiator *self);
static inline bool tt_turn_has_all(const tt_turn *turn, uint32_t child_count)
{
    return turn->children_over == child_count;
}
static inline bool tt_turn_is_answered(const tt_turn *turn)
{
    return turn->answer_count > 0 && turn->answered.count == 1 &&
           turn->answered.items[0].first == 0 &&
           turn->answered.items[0].last == turn->answer_count - 1;
}
void tt_turn_reset(tt_negotiator *self);

/* roll.c: rows */
typedef struct tt_request_view {
    tt_request_head head;
    const uint8_t *ranges; /* unaligned */
    const char *name;
    const uint8_t *claim;
} tt_request_view;

tt_status tt_roll_add(tt_negotiator *self, const tt_request_view *view);
void tt_roll_remove(tt_negotiator *self, tt_row *row);
/* A record at *bytes, of *left bytes; both move on. */
tt_status tt_roll_parse(const tt_negotiator *self, const uint8_t **bytes, uint32_t *left,
                        tt_request_view *view_out);

/* coordinator.c: compare complete rows, and answer */
tt_status tt_coordinator_answer(tt_negotiator *self);

/* writer.c: records into parts */
typedef struct tt_writer {
    tt_negotiator *self;
    tt_notice_kind kind;
    uint32_t part, used;
    tt_status status;
    uint8_t bytes[TT_NOTICE_BYTES_MAX];
} tt_writer;

/* contest.c: end tensors that members have in different tickets */
tt_status tt_contest_answer(tt_writer *writer);
void tt_writer_answer(tt_writer *writer, const tt_answer_head *head, const char *name,
                      const void *claim);

void tt_writer_begin(tt_writer *writer, tt_negotiator *self, tt_notice_kind kind);
/* Room for a record, in this part or the next. */
uint8_t *tt_writer_take(tt_writer *writer, uint32_t bytes);
tt_status tt_writer_end(tt_writer *writer);
/* Keep a part of the answers, and pass it down. */
tt_status tt_turn_keep(tt_negotiator *self, uint32_t part, bool is_last, const void *bytes,
                       uint32_t count);

/* answer.c: apply the coordinator's answers. */
tt_status tt_answers_apply(tt_negotiator *self);
/* told.c: agreements of one list, reported to the host in one call */
enum { TT_TOLD_NEAR = 64 };

typedef struct tt_told {
    tt_agreement *items; /* NULL: none is open */
    uint32_t count, capacity;
    tt_agreement *far; /* [far_capacity], kept from batch to batch */
    uint32_t far_capacity;
} tt_told;

/* `near`: room for TT_TOLD_NEAR items, until the batch is closed. */
void tt_told_open(tt_negotiator *self, tt_agreement *near);
/* A place for one more, to be filled; NULL: memory is out. */
tt_agreement *tt_told_add(tt_negotiator *self);
void tt_told_tell(tt_negotiator *self);
/* Report the remaining items; `status` negative: the list is incomplete, and its tickets fail. */
void tt_told_close(tt_negotiator *self, tt_status status);

#endif
