/* SPDX-License-Identifier: Apache-2.0
 *
 * moves_lanes.c - lanes, rounds and arrivals of one rank, as aggregate/exec_lanes.c runs them.
 *
 *  (1) A rank's processor does one thing at a time: clock_ns is when it is free.
 *  (2) A lane has at most one event of its own queued: RELEASE or GO_ON.
 *  (3) Where a model must be asked in the order of times, it is asked for work when that begins:
 *      what the processor goes on with has an event, and what waits for it comes after that.
 *  (4) Long work is done in steps, as in jobs: a piece after each thing that the rank handles, and
 *      when it has nothing to handle.
 */
#include "sim/moves_internal.h"

static void lane_run(tt_walk *walk, uint32_t self, tt_walk_lane *lane);

static uint32_t slot_of(const tt_walk *walk, const tt_walk_lane *lane)
{
    return walk->lane_slots == 1 ? 0 : lane->number % TT_LANES_MAX;
}

/* ---- arrivals that were noted ---- */

TT_INLINE uint8_t *arrived_of(const tt_walk *walk, tt_walk_rank *rank, const tt_walk_lane *lane)
{
    return (uint8_t *)rank + walk->arrived_offset + slot_of(walk, lane) * walk->arrived_bytes;
}

TT_INLINE void note_arrival(const tt_walk *walk, tt_walk_rank *rank, const tt_walk_lane *lane,
                            uint32_t round)
{
    uint8_t *arrived = arrived_of(walk, rank, lane);
    if (walk->plans[0].fan == 1) {
        ((uint64_t *)(void *)arrived)[round / 64] |= UINT64_C(1) << (round % 64);
    } else {
        ((uint32_t *)(void *)arrived)[round]++;
    }
}

TT_INLINE uint32_t arrivals_noted(const tt_walk *walk, tt_walk_rank *rank, const tt_walk_lane *lane,
                                  uint32_t round)
{
    const uint8_t *arrived = arrived_of(walk, rank, lane);
    return walk->plans[0].fan == 1
               ? (uint32_t)(((const uint64_t *)(const void *)arrived)[round / 64] >> (round % 64) &
                            1)
               : ((const uint32_t *)(const void *)arrived)[round];
}

/* ---- grants ---- */

/* The partner of a plan whose rounds have one peer. */
static tt_walk_partner *partner_of(tt_walk *walk, uint32_t self, uint32_t member)
{
    tt_walk_rank *rank = tt_walk_rank_of(walk, self);
    tt_walk_partner *partners = &walk->partners[(size_t)self * walk->partner_max];
    for (uint32_t i = 0; i < rank->partner_count; i++) {
        if (partners[i].member == member) {
            return &partners[i];
        }
    }
    TT_ASSERT(rank->partner_count < walk->partner_max); /* the plan says how many there are */
    tt_walk_partner *partner = &partners[rank->partner_count++];
    *partner = (tt_walk_partner){.member = member};
    return partner;
}

static uint32_t *granted_by(tt_walk *walk, uint32_t self, uint32_t member)
{
    return walk->plans[0].fan == 1 ? &partner_of(walk, self, member)->granted
                                   : &walk->granted[(size_t)self * walk->problem.size + member];
}

/* Call `found` with every member that sends to `self`, once, in the order of the moves. */
static void each_source(tt_walk *walk, uint32_t self,
                        void (*found)(tt_walk *walk, uint32_t self, uint32_t member))
{
    tt_move move = {0};
    const uint32_t rounds = walk->plans[0].round_count;
    for (size_t i = 0; i < walk->bit_words; i++) {
        walk->seen[i] = 0;
    }
    for (uint32_t round = 0; round < rounds; round++) {
        tt_cursor at = {.round = round};
        for (; tt_walk_move(walk, self, &at, &move); at.index++) {
            const uint64_t bit = UINT64_C(1) << (move.peer % 64);
            const bool is_arrival = move.kind == TT_MOVE_STORE || move.kind == TT_MOVE_REDUCE;
            if (is_arrival && (walk->seen[move.peer / 64] & bit) == 0) {
                walk->seen[move.peer / 64] |= bit;
                found(walk, self, move.peer);
            }
        }
    }
}

static void note_source(tt_walk *walk, uint32_t self, uint32_t member)
{
    partner_of(walk, self, member)->is_source = true;
}

void tt_walk_find_sources(tt_walk *walk, uint32_t self)
{
    if (walk->plans[0].fan == 1) {
        each_source(walk, self, note_source);
    }
}

/* ---- sending ---- */

/* The rank's processor hands a frame to its card; at once where that is in the order of times. */
static void submit(tt_walk *walk, uint32_t self, uint32_t index)
{
    tt_walk_rank *rank = tt_walk_rank_of(walk, self);
    rank->clock_ns += tt_fabric_overhead(walk->fabric, walk->frames[index].route.bytes);
    if (walk->cards != NULL) {
        tt_walk_card_offer(walk, index, rank->clock_ns);
    } else if (walk->fabric->is_private || rank->clock_ns == walk->now_ns) {
        (void)tt_walk_depart(walk, index, rank->clock_ns);
    } else {
        tt_walk_push(walk, TT_WALK_DEPART, self, index, rank->clock_ns);
    }
}

static void issue(tt_walk *walk, uint32_t self, tt_walk_lane *lane, const tt_move *move)
{
    const uint32_t index = tt_walk_frame_take(walk);
    TT_ASSERT(move->bytes <= UINT32_MAX);
    if (index == TT_WALK_NONE) {
        return;
    }
    walk->frames[index] = (tt_walk_frame){
        .route = {.source = self, .target = move->peer, .bytes = (uint32_t)move->bytes},
        .lane = lane->number,
        .round = lane->round,
        .hop = 1};
    lane->departs_open++;
    submit(walk, self, index);
}

static void send_grant(tt_walk *walk, uint32_t self, uint32_t member, uint32_t lanes)
{
    const uint32_t index = tt_walk_frame_take(walk);
    if (index == TT_WALK_NONE) {
        return;
    }
    walk->frames[index] = (tt_walk_frame){
        .route = {.source = self, .target = member}, .lane = lanes, .hop = 1, .is_grant = true};
    walk->result.grants++;
    submit(walk, self, index);
}

static void grant(tt_walk *walk, uint32_t self, uint32_t member)
{
    send_grant(walk, self, member, tt_walk_rank_of(walk, self)->lanes_opened);
}

/* To all sources in the order in which the rank's moves name them, as the executor does. */
static void grant_open_lanes(tt_walk *walk, uint32_t self)
{
    const tt_walk_rank *rank = tt_walk_rank_of(walk, self);
    if (walk->is_eager) {
        return;
    }
    if (walk->plans[0].fan > 1) {
        each_source(walk, self, grant);
        return;
    }
    for (uint32_t i = 0; i < rank->partner_count; i++) {
        const tt_walk_partner *partner = &walk->partners[(size_t)self * walk->partner_max + i];
        if (partner->is_source) {
            grant(walk, self, partner->member);
        }
    }
}

/* The round's send to a peer that has just granted its lane; a round has at most one. */
static void issue_granted(tt_walk *walk, uint32_t self, tt_walk_lane *lane, uint32_t peer)
{
    tt_move move = {0};
    tt_cursor at = {.lane = lane->number, .round = lane->round};
    TT_ASSERT(!walk->is_eager && lane->is_entered);
    for (; tt_walk_move(walk, self, &at, &move); at.index++) {
        if (move.kind == TT_MOVE_SEND && move.peer == peer) {
            TT_ASSERT(lane->sends_waiting > 0);
            lane->sends_waiting--;
            issue(walk, self, lane, &move);
            return;
        }
    }
}

/* ---- rounds ---- */

static void enter_send(tt_walk *walk, uint32_t self, tt_walk_lane *lane, const tt_move *move)
{
    if (walk->is_eager || *granted_by(walk, self, move->peer) > lane->number) {
        issue(walk, self, lane, move);
    } else {
        lane->sends_waiting++;
    }
}

static void round_enter(tt_walk *walk, uint32_t self, tt_walk_rank *rank, tt_walk_lane *lane)
{
    tt_move move = {0};
    tt_cursor at = {.lane = lane->number, .round = lane->round};
    uint32_t arrivals = 0;
    lane->is_entered = true;
    lane->reduce_bytes = 0;
    lane->work_bytes = 0;
    TT_DEBUG_ASSERT(lane->sends_waiting == 0 && lane->departs_open == 0);
    for (; tt_walk_move(walk, self, &at, &move); at.index++) {
        switch (move.kind) {
        case TT_MOVE_NONE:
            break;
        case TT_MOVE_SEND:
            enter_send(walk, self, lane, &move);
            break;
        case TT_MOVE_REDUCE:
            lane->reduce_bytes = (uint32_t)move.bytes;
            lane->reduce_peer = move.peer;
            arrivals++;
            break;
        case TT_MOVE_STORE:
            arrivals++;
            break;
        case TT_MOVE_WORK: {
            const tt_walk_cost cost = tt_walk_cost_of(&walk->problem, &move);
            lane->work_bytes = cost.times > 0 ? move.bytes : 0;
            lane->work_times = cost.times;
            lane->work = (uint8_t)cost.work;
            break;
        }
        }
    }
    const uint32_t noted = arrivals_noted(walk, rank, lane, lane->round);
    TT_ASSERT(noted <= arrivals);
    lane->arrivals_open = arrivals - noted;
    if (noted > 0 && walk->plans[0].reduce_early) {
        lane->reduce_bytes = 0; /* it was added when it arrived */
    }
}

static void work(tt_walk *walk, uint32_t self, tt_fabric_work kind, uint64_t bytes)
{
    tt_walk_rank *rank = tt_walk_rank_of(walk, self);
    TT_ASSERT(!tt_walk_is_early(walk, rank->clock_ns));
    rank->clock_ns = walk->fabric->ops->work(walk->fabric, self, kind, bytes, rank->clock_ns);
}

/* The processor goes on when it has done what keeps it busy. */
static void resume_later(tt_walk *walk, uint32_t self, tt_walk_event kind, uint32_t index)
{
    tt_walk_rank *rank = tt_walk_rank_of(walk, self);
    rank->resumes++;
    tt_walk_push(walk, kind, self, index, rank->clock_ns);
}

/* The sum of the round. False: it is due later. */
static bool reduce_due(tt_walk *walk, uint32_t self, tt_walk_rank *rank, tt_walk_lane *lane)
{
    if (lane->reduce_bytes > 0 && tt_walk_is_early(walk, rank->clock_ns)) {
        resume_later(walk, self, TT_WALK_GO_ON, slot_of(walk, lane));
        return false;
    }
    if (lane->reduce_bytes > 0) {
        work(walk, self, TT_FABRIC_REDUCE, lane->reduce_bytes);
        lane->reduce_bytes = 0;
    }
    return true;
}

/* The round's work: at once if it is short, else in steps. True: none is left. */
static bool work_on(tt_walk *walk, uint32_t self, tt_walk_rank *rank, tt_walk_lane *lane)
{
    if (lane->work_bytes > TT_WALK_SHORT_BYTES || lane->has_steps) {
        if (!lane->has_steps) {
            lane->has_steps = true;
            rank->works++;
        }
        return false;
    }
    if (lane->work_bytes > 0 && tt_walk_is_early(walk, rank->clock_ns)) {
        resume_later(walk, self, TT_WALK_GO_ON, slot_of(walk, lane));
        return false;
    }
    if (lane->work_bytes > 0) {
        work(walk, self, (tt_fabric_work)lane->work, lane->work_bytes * lane->work_times);
        lane->work_bytes = 0;
    }
    return true;
}

/* A piece of the work of the first lane that has some. */
static void work_piece(tt_walk *walk, uint32_t self, tt_walk_rank *rank)
{
    uint32_t slot = 0;
    while (!tt_walk_lane_of(walk, rank, slot)->has_steps) {
        slot++;
        TT_ASSERT(slot < walk->lane_slots);
    }
    tt_walk_lane *lane = tt_walk_lane_of(walk, rank, slot);
    const uint64_t bytes = tt_min_u64(lane->work_bytes, TT_WALK_PIECE_BYTES);
    work(walk, self, (tt_fabric_work)lane->work, bytes * lane->work_times);
    lane->work_bytes -= bytes;
    if (lane->work_bytes == 0) {
        TT_ASSERT(rank->works > 0);
        lane->has_steps = false;
        rank->works--;
        lane_run(walk, self, lane);
    }
}

void tt_walk_step(tt_walk *walk, uint32_t self)
{
    tt_walk_rank *rank = tt_walk_rank_of(walk, self);
    if (rank->works == 0 || rank->resumes > 0 || walk->queue.has_failed) {
        return;
    }
    if (tt_walk_is_early(walk, rank->clock_ns)) {
        resume_later(walk, self, TT_WALK_STEP, 0);
        return;
    }
    work_piece(walk, self, rank);
    if (rank->works > 0 && !rank->is_stepping) {
        rank->is_stepping = true;
        rank->queued++;
        tt_walk_push(walk, TT_WALK_WORK, self, 0, rank->clock_ns);
    }
}

static void lanes_open(tt_walk *walk, uint32_t self, tt_walk_rank *rank);

static void lane_close(tt_walk *walk, uint32_t self, tt_walk_rank *rank, tt_walk_lane *lane)
{
    TT_ASSERT(lane->is_open && rank->lanes_done < rank->lanes_opened);
    lane->is_open = false;
    rank->lanes_done++;
    if (rank->lanes_done < walk->lane_count) {
        lanes_open(walk, self, rank);
        return;
    }
    walk->done_ns[self] = rank->clock_ns;
    walk->result.end_ns = tt_max_u64(walk->result.end_ns, rank->clock_ns);
    walk->ranks_left--;
}

/* Is all done that the round's sum and work wait for? */
static bool is_exchanged(tt_walk *walk, uint32_t self, tt_walk_rank *rank, tt_walk_lane *lane)
{
    if (lane->sends_waiting > 0 || lane->departs_open > 0 || lane->arrivals_open > 0) {
        return false;
    }
    if (lane->released_ns > rank->clock_ns) {
        tt_walk_push(walk, TT_WALK_RELEASE, self, slot_of(walk, lane), lane->released_ns);
        rank->queued++;
        return false;
    }
    return true;
}

/* Advance the lane as far as possible. */
static void lane_run(tt_walk *walk, uint32_t self, tt_walk_lane *lane)
{
    tt_walk_rank *rank = tt_walk_rank_of(walk, self);
    while (lane->is_open && !walk->queue.has_failed) {
        if (!lane->is_entered) {
            round_enter(walk, self, rank, lane);
        }
        if (!is_exchanged(walk, self, rank, lane)) {
            return;
        }
        if (!reduce_due(walk, self, rank, lane) || !work_on(walk, self, rank, lane)) {
            return;
        }
        lane->is_entered = false;
        lane->round++;
        if (lane->round == walk->plans[0].round_count) {
            lane_close(walk, self, rank, lane);
            return; /* the lane opened in its place has been run */
        }
    }
}

static void lane_reset(const tt_walk *walk, tt_walk_rank *rank, uint32_t number)
{
    tt_walk_lane *lane = tt_walk_lane_of(walk, rank, number);
    TT_ASSERT(!lane->is_open);
    *lane = (tt_walk_lane){.number = number, .is_open = true};
    uint64_t *words = (void *)arrived_of(walk, rank, lane);
    for (size_t i = 0; i < walk->arrived_bytes / sizeof(*words); i++) {
        words[i] = 0;
    }
}

static void take_data(tt_walk *walk, uint32_t self, uint32_t index);

/* The oldest parked frame of an open lane, taken off the list; or TT_WALK_NONE. */
static uint32_t unpark(tt_walk *walk, tt_walk_rank *rank)
{
    uint32_t before = TT_WALK_NONE, found = rank->parked;
    while (found != TT_WALK_NONE && walk->frames[found].lane >= rank->lanes_opened) {
        before = found;
        found = walk->frames[found].next;
    }
    if (found == TT_WALK_NONE) {
        return found;
    }
    uint32_t *link = before == TT_WALK_NONE ? &rank->parked : &walk->frames[before].next;
    *link = walk->frames[found].next;
    rank->parked_last = rank->parked_last == found ? before : rank->parked_last;
    return found;
}

static void park(tt_walk *walk, tt_walk_rank *rank, uint32_t index)
{
    const bool is_first = rank->parked == TT_WALK_NONE;
    uint32_t *link = is_first ? &rank->parked : &walk->frames[rank->parked_last].next;
    *link = index;
    rank->parked_last = index;
    walk->frames[index].next = TT_WALK_NONE;
}

static void take_parked(tt_walk *walk, uint32_t self)
{
    tt_walk_rank *rank = tt_walk_rank_of(walk, self);
    while (!rank->is_unparking) {
        const uint32_t index = unpark(walk, rank);
        if (index == TT_WALK_NONE) {
            return;
        }
        if (tt_walk_is_early(walk, rank->clock_ns)) {
            rank->is_unparking = true;
            resume_later(walk, self, TT_WALK_UNPARK, index);
        } else {
            take_data(walk, self, index);
        }
    }
}

/* Open as many lanes as fit. Lanes may end as soon as they start: the outermost call opens the
 * next. */
static void lanes_open(tt_walk *walk, uint32_t self, tt_walk_rank *rank)
{
    if (rank->is_opening) {
        return;
    }
    rank->is_opening = true;
    for (bool has_opened = true; has_opened && !walk->queue.has_failed;) {
        const uint32_t first = rank->lanes_opened;
        while (rank->lanes_opened < walk->lane_count &&
               !tt_walk_lane_of(walk, rank, rank->lanes_opened)->is_open) {
            lane_reset(walk, rank, rank->lanes_opened++);
        }
        has_opened = rank->lanes_opened > first;
        if (has_opened) {
            grant_open_lanes(walk, self);
        }
        for (uint32_t number = first; number < rank->lanes_opened; number++) {
            tt_walk_lane *lane = tt_walk_lane_of(walk, rank, number);
            if (lane->is_open && lane->number == number) {
                lane_run(walk, self, lane);
            }
        }
        take_parked(walk, self);
    }
    rank->is_opening = false;
}

void tt_walk_start(tt_walk *walk, uint32_t self)
{
    tt_walk_rank *rank = tt_walk_rank_of(walk, self);
    TT_ASSERT(!rank->is_started);
    rank->is_started = true;
    rank->clock_ns = tt_max_u64(rank->clock_ns, walk->now_ns);
    lanes_open(walk, self, rank);
}

/* ---- arrivals ---- */

/* Is the frame one to be added, by the algorithm? */
static bool is_reduced(tt_walk *walk, uint32_t self, const tt_walk_frame *frame)
{
    tt_move move = {0};
    tt_cursor at = {.lane = frame->lane, .round = frame->round};
    for (; tt_walk_move(walk, self, &at, &move); at.index++) {
        if (move.peer == frame->route.source &&
            (move.kind == TT_MOVE_REDUCE || move.kind == TT_MOVE_STORE)) {
            TT_ASSERT(move.bytes == frame->route.bytes);
            return move.kind == TT_MOVE_REDUCE;
        }
    }
    TT_ASSERT(false); /* every send has its arrival */
    return false;
}

static void take_data(tt_walk *walk, uint32_t self, uint32_t index)
{
    tt_walk_rank *rank = tt_walk_rank_of(walk, self);
    const tt_walk_frame frame = walk->frames[index];
    tt_walk_lane *lane = tt_walk_lane_of(walk, rank, frame.lane);
    TT_ASSERT(lane->is_open && lane->number == frame.lane);
    tt_walk_frame_give(walk, index);
    if (!lane->is_entered || lane->round != frame.round) {
        TT_ASSERT(frame.round >= lane->round);
        note_arrival(walk, rank, lane, frame.round);
        if (walk->plans[0].reduce_early && is_reduced(walk, self, &frame)) {
            work(walk, self, TT_FABRIC_REDUCE, frame.route.bytes);
        }
        return;
    }
    TT_ASSERT(lane->arrivals_open > 0);
    lane->arrivals_open--;
    const bool is_sent =
        lane->sends_waiting == 0 && lane->departs_open == 0 && lane->released_ns <= rank->clock_ns;
    if (lane->reduce_bytes > 0 && lane->reduce_peer == frame.route.source &&
        (is_sent || walk->plans[0].reduce_early)) {
        work(walk, self, TT_FABRIC_REDUCE, lane->reduce_bytes);
        lane->reduce_bytes = 0;
    }
    lane_run(walk, self, lane);
}

/* Sends to that member wait in exactly the lanes that it has not granted yet. */
static void take_grant(tt_walk *walk, uint32_t self, uint32_t index)
{
    tt_walk_rank *rank = tt_walk_rank_of(walk, self);
    const uint32_t peer = walk->frames[index].route.source, end = walk->frames[index].lane;
    uint32_t *granted = granted_by(walk, self, peer);
    const uint32_t first = *granted;
    tt_walk_frame_give(walk, index);
    *granted = end > first ? end : first;
    for (uint32_t slot = 0; slot < walk->lane_slots; slot++) {
        tt_walk_lane *lane = tt_walk_lane_of(walk, rank, slot);
        if (lane->is_open && lane->sends_waiting > 0 && lane->number >= first &&
            lane->number < end) {
            issue_granted(walk, self, lane, peer);
            lane_run(walk, self, lane);
        }
    }
}

static void take_frame(tt_walk *walk, uint32_t self, uint32_t index)
{
    tt_walk_rank *rank = tt_walk_rank_of(walk, self);
    const tt_walk_frame *frame = &walk->frames[index];
    if (frame->is_grant) {
        take_grant(walk, self, index);
    } else if (frame->lane >= rank->lanes_opened) {
        park(walk, rank, index);
    } else {
        take_data(walk, self, index);
    }
}

void tt_walk_take(tt_walk *walk, uint32_t self, uint32_t index)
{
    tt_walk_rank *rank = tt_walk_rank_of(walk, self);
    rank->clock_ns += tt_fabric_overhead(walk->fabric, walk->frames[index].route.bytes);
    if (tt_walk_is_early(walk, rank->clock_ns)) {
        resume_later(walk, self, TT_WALK_TAKE, index);
    } else {
        take_frame(walk, self, index);
    }
}

/* ---- events of a lane ---- */

static tt_walk_lane *lane_at(const tt_walk *walk, uint32_t self, uint32_t slot)
{
    tt_walk_rank *rank = tt_walk_rank_of(walk, self);
    TT_ASSERT(slot < walk->lane_slots);
    tt_walk_lane *lane = tt_walk_lane_of(walk, rank, slot);
    TT_ASSERT(lane->is_open && lane->is_entered);
    rank->clock_ns = tt_max_u64(rank->clock_ns, walk->now_ns);
    return lane;
}

void tt_walk_departed(tt_walk *walk, const tt_walk_frame *frame, uint64_t released_ns)
{
    tt_walk_rank *rank = tt_walk_rank_of(walk, frame->route.source);
    tt_walk_lane *lane = tt_walk_lane_of(walk, rank, frame->lane);
    TT_ASSERT(lane->is_open && lane->departs_open > 0);
    lane->departs_open--;
    lane->released_ns = tt_max_u64(lane->released_ns, released_ns);
}

void tt_walk_release_due(tt_walk *walk, const tt_walk_frame *frame)
{
    if (frame->is_grant) {
        return;
    }
    const uint32_t self = frame->route.source;
    tt_walk_rank *rank = tt_walk_rank_of(walk, self);
    const tt_walk_lane *lane = tt_walk_lane_of(walk, rank, frame->lane);
    if (lane->sends_waiting == 0 && lane->departs_open == 0 && lane->arrivals_open == 0) {
        tt_walk_push(walk, TT_WALK_RELEASE, self, slot_of(walk, lane), lane->released_ns);
        rank->queued++;
    }
}

void tt_walk_released(tt_walk *walk, uint32_t self, uint32_t slot)
{
    lane_run(walk, self, lane_at(walk, self, slot));
}

void tt_walk_resume(tt_walk *walk, uint32_t self, tt_walk_event kind, uint32_t index)
{
    tt_walk_rank *rank = tt_walk_rank_of(walk, self);
    TT_ASSERT(rank->resumes > 0);
    rank->resumes--;
    if (rank->clock_ns > walk->now_ns) { /* it went on with something else */
        resume_later(walk, self, kind, index);
        return;
    }
    switch (kind) {
    case TT_WALK_TAKE:
        take_frame(walk, self, index);
        break;
    case TT_WALK_GO_ON:
        lane_run(walk, self, lane_at(walk, self, index));
        break;
    case TT_WALK_UNPARK:
        rank->is_unparking = false;
        take_data(walk, self, index);
        take_parked(walk, self);
        break;
    default:
        break; /* a step */
    }
    tt_walk_step(walk, self);
}
