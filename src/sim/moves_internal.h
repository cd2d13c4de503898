/* SPDX-License-Identifier: Apache-2.0
 *
 * moves_internal.h - state of a run of moves.
 *
 * moves.c memory, frames and events | moves_lanes.c lanes, rounds and arrivals of a rank |
 * moves_cards.c frames that wait for a card | moves_places.c the stage before those that use
 * memory of others | moves_input.c what is refused | moves_work.c the cost of local work.
 *
 * Layer:   sim, private to moves*.c.
 * Threads: one at a time.
 * Memory:  moves.h.
 */
#ifndef TUTTI_SIM_MOVES_INTERNAL_H
#define TUTTI_SIM_MOVES_INTERNAL_H

#include "base/assert.h"
#include "base/base.h"
#include "sim/event_queue.h"
#include "sim/moves.h"

enum {
    TT_WALK_PLANS_MAX = 4, /* different plans in one problem: that of a center, of others */
    TT_WALK_WHAT_BITS = 4, /* of an event: its kind */
    TT_WALK_NONE = UINT32_MAX >> TT_WALK_WHAT_BITS, /* no frame */
    /* As in aggregate/exec_internal.h: work that is done at once, and pieces of longer work. */
    TT_WALK_SHORT_BYTES = 32 * 1024,
    TT_WALK_PIECE_BYTES = 256 * 1024,
};

typedef enum tt_walk_event {
    TT_WALK_START,
    TT_WALK_HEAD,    /* frame: its first byte is at the next link */
    TT_WALK_FRAME,   /* frame: it is in memory */
    TT_WALK_DEPART,  /* frame: the processor hands it to the card */
    TT_WALK_CARD,    /* card: it takes a frame that waits for it */
    TT_WALK_RELEASE, /* lane slot: its sends are off the card */
    TT_WALK_WORK,    /* the next piece of work of its lanes */
    TT_WALK_IDLE,    /* the rank's processor is free for what waits for it */
    /* What the processor is in the middle of, and goes on with before anything that waits: */
    TT_WALK_TAKE,   /* frame: it was taken, and is stored or added */
    TT_WALK_GO_ON,  /* lane slot: its sum or short work */
    TT_WALK_UNPARK, /* parked frames */
    TT_WALK_STEP,   /* a piece of work */
} tt_walk_event;

/* A frame in flight, parked or free; or an event that waits for the processor of its rank. */
typedef struct tt_walk_frame {
    tt_fabric_frame route;
    uint32_t lane; /* of a grant: lanes below are open */
    uint32_t round;
    uint32_t next; /* of those parked, free or behind it in a link; events that wait likewise */
    union {
        uint32_t what; /* of an event that waits for the processor */
        uint32_t turn; /* first frame of the next link, at a card */
    };
    uint8_t hop;
    bool is_grant;
} tt_walk_frame;

typedef struct tt_walk_lane {
    uint64_t released_ns; /* all sends issued are off the card */
    uint64_t work_bytes;  /* of the round's work, left */
    uint32_t number, round;
    uint32_t sends_waiting; /* for a grant */
    uint32_t departs_open;  /* sends that the card has not been given yet */
    uint32_t arrivals_open;
    uint32_t reduce_bytes; /* of the arrival that is not added yet */
    uint32_t reduce_peer;
    uint32_t work_times; /* they are copied or added */
    uint8_t work;        /* tt_fabric_work */
    bool is_open, is_entered;
    bool has_steps; /* its work is done in steps, and some is left */
} tt_walk_lane;

_Static_assert(sizeof(tt_walk_lane) <= 64, "a lane is a line of cache");

/* A sender or receiver of long frames, if a round has one peer. */
typedef struct tt_walk_partner {
    uint32_t member;
    uint32_t granted; /* lanes below are open there */
    bool is_source;
} tt_walk_partner;

/* Followed by its lanes, and for each of them by what has arrived: a bit per round if a round has
 * one peer, else a count per round. */
typedef struct tt_walk_rank {
    uint64_t clock_ns; /* its processor is busy until then */
    uint32_t lanes_opened, lanes_done;
    uint32_t parked, parked_last; /* frames of lanes that are not open, the oldest first */
    uint32_t queued;              /* events of this rank, besides those of first bytes */
    uint32_t partner_count;
    uint32_t waiting, waiting_last; /* events that the processor was too busy for, in order */
    uint8_t plan;
    uint8_t resumes; /* events of what the processor is in the middle of */
    uint8_t works;   /* lanes that have steps */
    bool is_started, is_opening, is_unparking, is_stepping;
} tt_walk_rank;

_Static_assert(sizeof(tt_walk_rank) + sizeof(tt_walk_lane) + sizeof(uint64_t) <= 128,
               "a rank with one lane, and its arrivals, are two lines of cache");

/* A card, where links take turns. */
typedef struct tt_walk_card {
    uint64_t free_ns;
    uint32_t first, last; /* of the frames that wait: one of each link */
    uint32_t coming;      /* frames of which DEPART is queued */
} tt_walk_card;

typedef struct tt_walk {
    tt_problem problem; /* self changes from call to call */
    const tt_algorithm *algorithm;
    tt_plan plans[TT_WALK_PLANS_MAX];
    uint32_t plan_count;
    uint32_t lane_count, lane_slots;
    uint32_t partner_max;
    bool is_eager;
    tt_fabric *fabric;
    uint64_t now_ns;
    uint8_t *ranks; /* [size] of rank_bytes each */
    size_t rank_bytes, arrived_bytes, arrived_offset;
    tt_walk_partner *partners; /* [size * partner_max], if frames wait and a round has one peer */
    uint32_t *granted;         /* [size * size], if frames wait and a round has many */
    uint64_t *seen;            /* [size] bits, if frames wait: members found so far */
    size_t bit_words;          /* of `size` bits */
    tt_fact *facts;
    tt_walk_card *cards; /* NULL: the fabric's own order will do */
    uint32_t *heads; /* [size * size], with cards, if a round has many peers: see moves_cards.c */
    tt_walk_frame *frames;
    uint32_t frame_count, frame_capacity, frame_free;
    uint32_t ranks_left;
    tt_event_queue queue;
    uint64_t *done_ns;
    tt_moves_result result;
    /* Memory, bounded. */
    tt_allocator bounded;
    const tt_allocator *allocator;
    uint64_t live_bytes, bytes_max;
} tt_walk;

TT_INLINE tt_walk_rank *tt_walk_rank_of(const tt_walk *walk, uint32_t rank)
{
    TT_DEBUG_ASSERT(rank < walk->problem.size);
    return (void *)(walk->ranks + rank * walk->rank_bytes);
}

TT_INLINE tt_walk_lane *tt_walk_lane_of(const tt_walk *walk, tt_walk_rank *rank, uint64_t number)
{
    tt_walk_lane *lanes = (void *)(rank + 1);
    return &lanes[walk->lane_slots == 1 ? 0 : number % TT_LANES_MAX];
}

TT_INLINE void tt_walk_push(tt_walk *walk, tt_walk_event kind, uint32_t rank, uint32_t index,
                            uint64_t at_ns)
{
    const uint32_t what = index << TT_WALK_WHAT_BITS | (uint32_t)kind;
    tt_event_queue_push(&walk->queue, (tt_event){.at_ns = at_ns, .rank = rank, .what = what});
}

TT_INLINE bool tt_walk_move(tt_walk *walk, uint32_t self, const tt_cursor *at, tt_move *move_out)
{
    walk->problem.self = self;
    return walk->algorithm->move(&walk->problem, &walk->plans[tt_walk_rank_of(walk, self)->plan],
                                 *at, move_out);
}

/* Models where ranks share links or memory are asked in the order of times. */
TT_INLINE bool tt_walk_is_early(const tt_walk *walk, uint64_t at_ns)
{
    return !walk->fabric->is_private && at_ns > walk->now_ns;
}

/* ---- moves.c ---- */

/* A free frame, or TT_WALK_NONE: no memory, which ends the run. */
uint32_t tt_walk_frame_take(tt_walk *walk);
void tt_walk_frame_give(tt_walk *walk, uint32_t index);
/* The card takes the frame at `at_ns`; when it can take the next one. */
uint64_t tt_walk_depart(tt_walk *walk, uint32_t index, uint64_t at_ns);

/* One stage of a call; as tt_moves_run and tt_moves_bytes. `done_ns_out` may be its start_ns. */
tt_status tt_walk_stage(const tt_moves_input *input, tt_text *why, uint64_t *done_ns_out,
                        tt_moves_result *result_out);
uint64_t tt_walk_stage_bytes(const tt_moves_input *input);

/* ---- moves_lanes.c ---- */

/* Find the members that send long frames to `self`. */
void tt_walk_find_sources(tt_walk *walk, uint32_t self);
void tt_walk_start(tt_walk *walk, uint32_t self);
/* The frame is in memory, and the rank's processor takes it. */
void tt_walk_take(tt_walk *walk, uint32_t self, uint32_t index);
/* TAKE, GO_ON, UNPARK or STEP. */
void tt_walk_resume(tt_walk *walk, uint32_t self, tt_walk_event kind, uint32_t index);
/* The lane of this frame has one less to give to the card. */
void tt_walk_departed(tt_walk *walk, const tt_walk_frame *frame, uint64_t released_ns);
/* If nothing else keeps the frame's lane in its round, the end of its sends will. */
void tt_walk_release_due(tt_walk *walk, const tt_walk_frame *frame);
/* After each thing that the rank has handled: a piece of its long work. */
void tt_walk_step(tt_walk *walk, uint32_t self);
/* RELEASE of a lane. */
void tt_walk_released(tt_walk *walk, uint32_t self, uint32_t slot);

/* ---- moves_cards.c ---- */

/* The rank's processor is done with the frame at `at_ns`. */
void tt_walk_card_offer(tt_walk *walk, uint32_t index, uint64_t at_ns);
/* It is, now. */
void tt_walk_card_arrive(tt_walk *walk, uint32_t index);
void tt_walk_card_serve(tt_walk *walk, uint32_t number);

/* ---- moves_places.c ---- */

/* Do ranks exchange their places before such a call, which is valid? In which call? */
bool tt_walk_has_places(const tt_moves_input *input, tt_moves_input *places_out);
/* That stage. */
tt_status tt_walk_places(const tt_moves_input *places, tt_text *why, uint64_t *done_ns_out,
                         tt_moves_result *result_out);
uint64_t tt_walk_places_bytes(const tt_moves_input *places);
/* What it does for many ranks: nothing is walked. */
void tt_walk_places_estimate(const tt_moves_input *places, uint64_t *done_ns_out,
                             tt_moves_result *result_out);

/* ---- moves_input.c ---- */

/* TT_ERR_BAD_ARGUMENT or TT_ERR_UNSUPPORTED, and `why`. */
tt_status tt_walk_check_input(const tt_moves_input *input, tt_text *why);

/* ---- moves_work.c ---- */

/* What a WORK move does to each of its bytes. */
typedef struct tt_walk_cost {
    tt_fabric_work work;
    uint32_t times;
} tt_walk_cost;

tt_walk_cost tt_walk_cost_of(const tt_problem *problem, const tt_move *move);

#endif
