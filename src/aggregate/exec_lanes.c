/* SPDX-License-Identifier: Apache-2.0
 *
 * exec_lanes.c - an executor: lanes, rounds and moves of an algorithm; see exec.h. Local work is in
 * exec_work.c, the end of lanes in lanes_end.c. */
#include <string.h>

#include "aggregate/exec_internal.h"
#include "base/base.h"
#include "base/plant.h"
#include "kernel/reduce.h"

static void lane_run(tt_exec *exec, tt_lane *lane);

static void bit_set(uint64_t *bits, uint64_t index)
{
    bits[index / 64] |= UINT64_C(1) << (index % 64);
}

static bool reduces_early(const tt_exec *exec)
{
    return exec->stage->plan.reduce_early || TT_PLANT(REDUCE_BEFORE_ROUND);
}

/* ---- partners and grants ---- */

/* NULL: no signal was exchanged with it yet. */
static tt_partner *partner_find(const tt_exec *exec, uint32_t member)
{
    TT_DEBUG_ASSERT(exec->partner_count <= exec->stage->plan.partner_max);
    for (uint32_t i = 0; i < exec->partner_count; i++) {
        if (exec->partners[i].member == member) {
            return &exec->partners[i];
        }
    }
    return NULL;
}

/* NULL: more partners than the algorithm has, so one signal is not from a partner; the exec has
 * failed. */
static tt_partner *partner_of(tt_exec *exec, uint32_t member)
{
    TT_DEBUG_ASSERT(member < exec->stage->problem.size);
    tt_partner *found = partner_find(exec, member);
    if (found != NULL) {
        return found;
    }
    if (exec->partner_count == exec->stage->plan.partner_max) {
        tt_exec_fail(exec, TT_ERR_BAD_WIRE, member); /* a signal of a rank that is no partner */
        return NULL;
    }
    tt_partner *partner = &exec->partners[exec->partner_count++];
    *partner = (tt_partner){.member = member};
    return partner;
}

/* Long frames are sent only after a grant: send it to all sources. */
static void grant_open_lanes(tt_exec *exec)
{
    TT_DEBUG_ASSERT(exec->lanes_opened <= exec->stage->plan.lane_count);
    for (uint32_t i = 0; i < exec->partner_count; i++) {
        if (exec->partners[i].is_source || exec->partners[i].has_wanted) {
            tt_exec_signal(exec, TT_FRAME_GRANT, exec->partners[i].member,
                           exec->lanes_opened + (TT_PLANT(LANE_GRANTED_TOO_EARLY) ? 1 : 0));
        }
    }
}

static void find_sources(tt_exec *exec)
{
    TT_DEBUG_ASSERT(exec->partner_count == 0);
    const tt_lane first = {.number = 0};
    tt_move move = {0};
    for (uint32_t round = 0; round < exec->stage->plan.round_count; round++) {
        for (uint32_t i = 0; tt_exec_move(exec, &first, round, i, &move); i++) {
            if (move.kind == TT_MOVE_STORE || move.kind == TT_MOVE_REDUCE) {
                tt_partner *partner = partner_of(exec, move.peer);
                TT_ASSERT(partner != NULL); /* no signal was processed yet */
                partner->is_source = true;
            }
        }
    }
}

/* ---- sending ---- */

/* Request a grant of the lanes open on the peer, once. */
static void want(tt_exec *exec, uint32_t member)
{
    tt_partner *partner = partner_of(exec, member);
    if (partner != NULL && !partner->has_wanted) {
        partner->has_wanted = true;
        tt_exec_signal(exec, TT_FRAME_WANT, member, 0);
    }
}

/* May the frame be sent now? Takes a credit if it needs one. */
static bool may_send(tt_exec *exec, const tt_lane *lane, uint32_t member, uint8_t *flags_out)
{
    TT_DEBUG_ASSERT(member != exec->stage->problem.self);
    tt_partner *partner = partner_find(exec, member);
    *flags_out = 0;
    if (partner != NULL && partner->granted > lane->number) {
        return true;
    }
    if (!exec->stage->is_eager) {
        if (exec->tells && (partner == NULL || partner->granted == 0)) {
            want(exec, member);
        }
        return false;
    }
    if (tt_flow_take(exec->flow, exec->members[member])) {
        *flags_out = TT_FLAG_EAGER;
        return true;
    }
    exec->is_blocked = true;
    want(exec, member);
    return false;
}

static tt_head head_of(const tt_exec *exec, const tt_lane *lane, const tt_move *move, uint8_t flags)
{
    tt_head head = exec->identity;
    head.kind = TT_FRAME_DATA;
    head.flags |= flags;
    head.lane = (uint32_t)lane->number;
    head.round = lane->round;
    head.payload_bytes = (uint32_t)move->bytes;
    TT_ASSERT(move->bytes <= exec->stage->plan.frame_bytes);
    return head;
}

/* Send one frame for all members, where all get the same bytes and are all ranks of this host. */
static bool try_post(tt_exec *exec, const tt_lane *lane, const tt_move *move)
{
    tt_platform *platform = exec->flow->platform;
    const uint32_t size = exec->stage->problem.size, self = exec->stage->problem.self;
    if (!exec->stage->plan.sends_alike || !exec->is_host_wide || !exec->stage->is_eager ||
        exec->partner_count > 0 || !tt_flow_take_all(exec->flow, exec->members, size, self)) {
        return false;
    }
    const tt_head head = head_of(exec, lane, move, TT_FLAG_EAGER);
    const tt_send send = {
        .peer = TT_PEER_HOST,
        .urgency = exec->urgency,
        .age = exec->age,
        .token = TT_TOKEN_NONE,
        .payload = move->bytes > 0 ? tt_exec_address(exec, lane, move->source) : NULL,
        .head = &head,
    };
    if (platform->ops->send(platform, &send) == TT_OK) {
        return true;
    }
    tt_flow_return_all(exec->flow, exec->members, size, self);
    return false;
}

static void issue(tt_exec *exec, tt_lane *lane, const tt_move *move, uint8_t flags)
{
    TT_DEBUG_ASSERT(lane->sends_open > 0);
    const tt_head head = head_of(exec, lane, move, flags);
    const tt_send send = {
        .peer = exec->members[move->peer],
        .urgency = exec->urgency,
        .age = exec->age,
        .token = exec->token + lane->number % TT_LANES_MAX,
        .payload = move->bytes > 0 ? tt_exec_address(exec, lane, move->source) : NULL,
        .head = &head,
    };
    const tt_status status = exec->flow->platform->ops->send(exec->flow->platform, &send);
    if (status == TT_OK) {
        lane->sends_open--;
    } else if (status < 0) {
        tt_exec_fail(exec, status, move->peer);
    }
}

/* Send it now if it may be sent. */
static void try_issue(tt_exec *exec, tt_lane *lane, const tt_move *move)
{
    uint8_t flags;
    if (may_send(exec, lane, move->peer, &flags)) {
        TT_DEBUG_ASSERT(lane->sends_waiting > 0);
        bit_set(lane->issued, tt_exec_slot(exec, move->peer));
        lane->sends_waiting--;
        issue(exec, lane, move, flags);
    }
}

static void issue_waiting(tt_exec *exec, tt_lane *lane)
{
    TT_DEBUG_ASSERT(lane->sends_waiting <= lane->sends_open);
    tt_move move = {0};
    for (uint32_t i = 0; lane->sends_waiting > 0 && tt_exec_move(exec, lane, lane->round, i, &move);
         i++) {
        if (move.kind == TT_MOVE_SEND && !tt_bit_get(lane->issued, tt_exec_slot(exec, move.peer))) {
            try_issue(exec, lane, &move);
        }
    }
}

/* ---- rounds ---- */

static void clear_words(uint64_t *words, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        words[i] = 0;
    }
}

static void enter_send(tt_exec *exec, tt_lane *lane, const tt_move *move, bool is_posted)
{
    if (is_posted) {
        bit_set(lane->issued, tt_exec_slot(exec, move->peer));
        return;
    }
    lane->sends_open++;
    lane->sends_waiting++;
    if (exec->status == TT_OK) {
        try_issue(exec, lane, move);
    }
}

/* Count the round's moves, and issue the sends that may be sent. */
static void round_enter(tt_exec *exec, tt_lane *lane)
{
    TT_DEBUG_ASSERT(lane->is_open && !lane->is_entered);
    tt_move move = {0};
    bool is_tried = false, is_posted = false;
    lane->is_entered = true;
    lane->is_reduced = true;
    lane->is_worked = true;
    lane->sends_open = lane->sends_waiting = lane->arrivals_open = 0;
    lane->work_done = 0;
    clear_words(lane->issued, tt_bit_words(exec->stage->plan.fan));
    const uint64_t base = (uint64_t)lane->round * exec->stage->plan.fan;
    for (uint32_t i = 0; tt_exec_move(exec, lane, lane->round, i, &move); i++) {
        if (move.kind == TT_MOVE_SEND) {
            is_posted = is_posted || (!is_tried && try_post(exec, lane, &move));
            is_tried = true;
            enter_send(exec, lane, &move, is_posted);
        } else if (move.kind == TT_MOVE_WORK) {
            lane->is_worked = false;
            lane->work_index = i;
        } else if (move.kind != TT_MOVE_NONE) {
            const bool is_here = tt_bit_get(lane->received, base + tt_exec_slot(exec, move.peer));
            lane->arrivals_open += is_here ? 0 : 1;
            if (move.kind == TT_MOVE_REDUCE) {
                lane->is_reduced = is_here && reduces_early(exec);
            }
        }
    }
}

/* target = lower rank's value op higher rank's value, so that both partners get the same bits. */
static void apply_reduce(tt_exec *exec, tt_lane *lane, const tt_move *move, const void *arrival)
{
    TT_DEBUG_ASSERT(move->kind == TT_MOVE_REDUCE);
    const tt_problem *problem = &exec->stage->problem;
    TT_DEBUG_ASSERT(move->bytes % exec->stage->problem.element_bytes == 0);
    tt_platform *platform = exec->flow->platform;
    if (move->bytes == 0) {
        return; /* a barrier may have no buffers, and so no addresses */
    }
    const void *own = tt_exec_address(exec, lane, move->source);
    void *target = tt_exec_address(exec, lane, move->target);
    const bool is_peer_first = move->peer < problem->self;
    const void *first = is_peer_first ? arrival : own, *second = is_peer_first ? own : arrival;
    if (tt_exec_is_phantom(exec, arrival)) {
        /* there is nothing to add */
    } else if (platform->hands > 1 && move->bytes >= platform->share_bytes_min) {
        tt_exec_fold_two(exec, target, first, second, move->bytes);
    } else {
        tt_reduce(problem->dtype, problem->redop, target, first, second,
                  move->bytes / problem->element_bytes);
    }
    platform->ops->spend(platform, TT_SPEND_REDUCE, move->bytes, 1);
}

static void reduce_waiting(tt_exec *exec, tt_lane *lane)
{
    TT_DEBUG_ASSERT(lane->is_entered && lane->arrivals_open == 0);
    tt_move move = {0};
    for (uint32_t i = 0; tt_exec_move(exec, lane, lane->round, i, &move); i++) {
        if (move.kind == TT_MOVE_REDUCE) {
            apply_reduce(exec, lane, &move, lane->scratch + move.slot);
        }
    }
    lane->is_reduced = true;
}

/* Do the round's work now if it is short and no more urgent op runs; else it is done in steps,
 * which are ordered by urgency. True when no work is left. */
static bool work_short(tt_exec *exec, tt_lane *lane)
{
    tt_move move = {0};
    (void)tt_exec_move(exec, lane, lane->round, lane->work_index, &move);
    TT_DEBUG_ASSERT(move.kind == TT_MOVE_WORK && lane->work_done <= move.bytes);
    if (move.bytes - lane->work_done > TT_WORK_SHORT_BYTES ||
        exec->urgency < exec->flow->urgency_top) {
        exec->has_work = true;
        return false;
    }
    lane->is_worked = tt_exec_work(exec, lane, &move, UINT64_MAX);
    exec->has_work = exec->has_work || !lane->is_worked;
    return lane->is_worked;
}

static void lanes_open(tt_exec *exec);

static void lane_close(tt_exec *exec, tt_lane *lane)
{
    TT_DEBUG_ASSERT(lane->is_open && exec->lanes_done < exec->lanes_opened);
    lane->is_open = false;
    exec->lanes_done++;
    if (exec->lanes_done == exec->stage->plan.lane_count) {
        exec->is_running = false;
        return;
    }
    lanes_open(exec);
}

/* Advance the lane as far as possible. */
static void lane_run(tt_exec *exec, tt_lane *lane)
{
    while (exec->status == TT_OK && lane->is_open) {
        if (!lane->is_entered) {
            round_enter(exec, lane);
        } else if (lane->sends_waiting > 0) {
            issue_waiting(exec, lane);
        }
        if (lane->sends_open > 0 || lane->arrivals_open > 0 || exec->status != TT_OK) {
            return;
        }
        if (!lane->is_reduced) {
            reduce_waiting(exec, lane);
        }
        if (!lane->is_worked && !work_short(exec, lane)) {
            return;
        }
        lane->is_entered = false;
        lane->round++;
        if (lane->round == exec->stage->plan.round_count) {
            lane_close(exec, lane);
        }
    }
}

static void lane_reset(tt_exec *exec, tt_lane *lane, uint64_t number)
{
    TT_DEBUG_ASSERT(!lane->is_open);
    lane->is_open = true;
    lane->is_entered = false;
    lane->round = 0;
    lane->number = number;
    clear_words(lane->received,
                tt_bit_words((uint64_t)exec->stage->plan.round_count * exec->stage->plan.fan));
}

/* Run the lanes that were just opened, and take frames parked for them. */
static void lanes_begin(tt_exec *exec, uint64_t first)
{
    TT_DEBUG_ASSERT(first < exec->lanes_opened);
    grant_open_lanes(exec);
    for (uint64_t number = first; number < exec->lanes_opened; number++) {
        tt_lane *lane = &exec->lanes[number % TT_LANES_MAX];
        if (lane->is_open && lane->number == number) {
            lane_run(exec, lane);
        }
    }
    if (exec->flow->parked_count > 0) {
        tt_exec_replay_parked(exec);
    }
}

/* Open as many lanes as fit; a lane's place is free when the lane TT_LANES_MAX before is done.
 * Lanes may end as soon as they start: the outermost call opens the next, so that the stack does
 * not grow with their number. */
static void lanes_open(tt_exec *exec)
{
    if (exec->is_opening) {
        return;
    }
    exec->is_opening = true;
    for (bool has_opened = true; has_opened && exec->is_running && exec->status == TT_OK;) {
        const uint64_t first = exec->lanes_opened;
        while (exec->lanes_opened < exec->stage->plan.lane_count &&
               !exec->lanes[exec->lanes_opened % TT_LANES_MAX].is_open) {
            lane_reset(exec, &exec->lanes[exec->lanes_opened % TT_LANES_MAX], exec->lanes_opened);
            exec->lanes_opened++;
        }
        has_opened = exec->lanes_opened > first;
        if (has_opened) {
            lanes_begin(exec, first);
        }
    }
    exec->is_opening = false;
}

/* ---- life ---- */

/* Lay out lanes, bits, partners, pointers and scratch in one block that is kept for the next op. */
static tt_status lay_out(tt_exec *exec)
{
    const tt_plan *plan = &exec->stage->plan;
    TT_DEBUG_ASSERT(plan->lane_count > 0 && plan->round_count > 0);
    const size_t received =
        tt_bit_words((uint64_t)plan->round_count * plan->fan) * sizeof(uint64_t);
    const size_t issued = tt_bit_words(plan->fan) * sizeof(uint64_t);
    const size_t partners = plan->partner_max * sizeof(tt_partner);
    const uint32_t hands = exec->flow->platform->hands;
    const size_t pointers =
        2 * (size_t)exec->stage->problem.size * (1 + (size_t)hands) * sizeof(void *);
    const size_t scratch = tt_round_up(plan->scratch_bytes, 64);
    const tt_platform *platform = exec->flow->platform;
    const size_t count = tt_min_u64(plan->lane_count, TT_LANES_MAX);
    const size_t lanes = count * sizeof(tt_lane);
    const size_t small = tt_round_up(lanes + partners + pointers + count * (received + issued), 64);
    const bool is_phantom = tt_exec_is_phantom(exec, NULL);
    if (exec->laid_out == exec->stage && exec->has_phantom == is_phantom) {
        return TT_OK;
    }
    const size_t real = is_phantom ? 0 : count * scratch;
    TT_TRY(tt_exec_reserve(exec, small + real, count * scratch - real));
    uint8_t *at = exec->workspace;
    uint8_t *room = is_phantom ? tt_phantom_memory(platform, TT_MEMORY_PRIVATE) : at + small;
    exec->lanes = (void *)at;
    exec->lane_slots = (uint8_t)count;
    exec->partners = (void *)(at += lanes);
    exec->pointers = (void *)(at += partners);
    at += pointers;
    for (size_t i = 0; i < count; i++) {
        exec->lanes[i] = (tt_lane){.received = (void *)at,
                                   .issued = (void *)(at + received),
                                   .scratch = room + i * scratch};
        at += received + issued;
    }
    TT_ASSERT((size_t)(at - (uint8_t *)exec->workspace) <= small);
    exec->laid_out = exec->stage;
    exec->has_phantom = is_phantom;
    return TT_OK;
}

static void take_notes(tt_exec *exec)
{
    uint32_t member;
    tt_head head;
    while (tt_exec_take_note(exec, &member, &head)) {
        tt_partner *partner = partner_of(exec, member);
        if (partner != NULL && head.kind == TT_FRAME_GRANT) {
            partner->granted = head.argument;
        } else if (partner != NULL) {
            partner->has_wanted = true;
        }
    }
}

static tt_status lanes_start(tt_exec *exec)
{
    TT_TRY(lay_out(exec));
    tt_exec_reset(exec);
    if (!exec->stage->is_eager || exec->tells) {
        find_sources(exec);
    }
    exec->is_running = true;
    if (exec->flow->note_count > 0) {
        take_notes(exec);
    }
    if (exec->status == TT_OK) {
        lanes_open(exec);
    }
    return TT_OK;
}

/* ---- arrivals ---- */

static bool is_arrival(const tt_move *move, uint32_t member)
{
    return (move->kind == TT_MOVE_STORE || move->kind == TT_MOVE_REDUCE) && move->peer == member;
}

/* The store or reduce that a frame of `member` with (lane, round) is for; false: none. */
static bool arrival_of(const tt_exec *exec, const tt_lane *lane, uint32_t member,
                       const tt_head *head, tt_move *move_out)
{
    TT_DEBUG_ASSERT(head->round < exec->stage->plan.round_count);
    /* Where all send to all, arrivals follow the sends, near peers first or far ones: check those
     * two indices before the search. */
    const uint32_t size = exec->stage->problem.size, self = exec->stage->problem.self;
    const uint32_t distance = (member > self ? member : member + size) - self;
    const uint32_t guesses[2] = {size + distance - 2, 2 * size - distance - 1};
    for (uint32_t i = 0; exec->stage->plan.fan > 1 && i < 2; i++) {
        if (tt_exec_move(exec, lane, head->round, guesses[i], move_out) &&
            is_arrival(move_out, member)) {
            return move_out->bytes == head->payload_bytes;
        }
    }
    for (uint32_t i = 0; tt_exec_move(exec, lane, head->round, i, move_out); i++) {
        if (is_arrival(move_out, member)) {
            return move_out->bytes == head->payload_bytes;
        }
    }
    return false;
}

static void arrived(tt_exec *exec, tt_lane *lane, uint32_t member, uint32_t round)
{
    TT_DEBUG_ASSERT(lane->is_open && round >= lane->round);
    bit_set(lane->received, (uint64_t)round * exec->stage->plan.fan + tt_exec_slot(exec, member));
    if (lane->is_entered && lane->round == round) {
        TT_ASSERT(lane->arrivals_open > 0);
        lane->arrivals_open--;
    }
    lane_run(exec, lane);
}

static void take_inline(tt_exec *exec, tt_lane *lane, const tt_move *move, const tt_head *head,
                        const void *payload)
{
    TT_DEBUG_ASSERT(move->bytes == head->payload_bytes);
    const bool is_current = lane->is_entered && lane->round == head->round;
    if (move->kind == TT_MOVE_REDUCE &&
        (reduces_early(exec) || (is_current && lane->sends_open == 0))) {
        apply_reduce(exec, lane, move, payload);
        lane->is_reduced = lane->is_reduced || is_current;
    } else if (move->bytes > 0 && !tt_exec_is_phantom(exec, payload)) {
        memcpy(move->kind == TT_MOVE_REDUCE ? lane->scratch + move->slot
                                            : tt_exec_address(exec, lane, move->target),
               payload, move->bytes);
    }
}

/* The open lane `number`; NULL if it is closed already or not yet open. */
static tt_lane *open_lane(tt_exec *exec, uint64_t number)
{
    if (number >= exec->lanes_opened) {
        return NULL;
    }
    tt_lane *lane = &exec->lanes[number % TT_LANES_MAX];
    return lane->is_open && lane->number == number ? lane : NULL;
}

static void *lanes_frame(tt_exec *exec, uint32_t member, const tt_head *head, const void *payload)
{
    const uint32_t peer = exec->members[member];
    const bool is_inline = payload != NULL || head->payload_bytes == 0;
    if (head->lane >= exec->lanes_opened && head->lane < exec->stage->plan.lane_count) {
        const tt_status status = tt_flow_park(exec->flow, peer, head, payload);
        if (status != TT_OK) {
            tt_exec_fail(exec, status, member);
        }
        return NULL;
    }
    if ((head->flags & TT_FLAG_EAGER) != 0) {
        tt_flow_consumed(exec->flow, peer);
    }
    tt_lane *lane = open_lane(exec, head->lane);
    tt_move move = {0};
    if (lane == NULL || head->round >= exec->stage->plan.round_count ||
        !arrival_of(exec, lane, member, head, &move)) {
        if (head->lane >= exec->stage->plan.lane_count || lane != NULL) {
            tt_exec_fail(exec, TT_ERR_BAD_WIRE, member);
        }
        exec->flow->frames_dropped++;
        return NULL;
    }
    const uint64_t bit = (uint64_t)head->round * exec->stage->plan.fan + tt_exec_slot(exec, member);
    if (tt_bit_get(lane->received, bit) && !TT_PLANT(DUPLICATE_ADDED_TWICE)) {
        exec->flow->frames_dropped++; /* a duplicate must not be added twice */
        return NULL;
    }
    if (is_inline) {
        take_inline(exec, lane, &move, head, payload);
        arrived(exec, lane, member, head->round);
        return NULL;
    }
    exec->flow->peers[peer].arriving = exec;
    return move.kind == TT_MOVE_REDUCE ? lane->scratch + move.slot
                                       : tt_exec_address(exec, lane, move.target);
}

static void lanes_payload(tt_exec *exec, uint32_t member, const tt_head *head)
{
    tt_lane *lane = open_lane(exec, head->lane);
    tt_move move = {0};
    TT_ASSERT(lane != NULL);
    const bool is_expected = arrival_of(exec, lane, member, head, &move);
    TT_ASSERT(is_expected);
    if (move.kind == TT_MOVE_REDUCE && reduces_early(exec)) {
        apply_reduce(exec, lane, &move, lane->scratch + move.slot);
        lane->is_reduced = lane->is_reduced || (lane->is_entered && lane->round == head->round);
    }
    arrived(exec, lane, member, head->round);
}

static void run_waiting(tt_exec *exec)
{
    for (uint32_t i = 0; i < exec->lane_slots && exec->is_running && exec->status == TT_OK; i++) {
        if (exec->lanes[i].is_open && exec->lanes[i].sends_waiting > 0) {
            lane_run(exec, &exec->lanes[i]);
        }
    }
}

static void lanes_granted(tt_exec *exec, uint32_t member, uint64_t lanes)
{
    TT_DEBUG_ASSERT(member < exec->stage->problem.size);
    tt_partner *partner = partner_of(exec, member);
    if (partner == NULL) {
        return;
    }
    lanes += TT_PLANT(GRANT_ADDED_UP) ? partner->granted : 0;
    if (lanes > partner->granted) {
        partner->granted = lanes;
        run_waiting(exec);
    }
}

static void lanes_wanted(tt_exec *exec, uint32_t member)
{
    tt_partner *partner = partner_of(exec, member);
    if (partner != NULL) {
        partner->has_wanted = true;
        tt_exec_signal(exec, TT_FRAME_GRANT, member, exec->lanes_opened);
    }
}

static void lanes_retry(tt_exec *exec)
{
    if (exec->is_blocked) {
        exec->is_blocked = false;
        run_waiting(exec);
    }
}

static void lanes_sent(tt_exec *exec, uint32_t lane_slot)
{
    TT_ASSERT(lane_slot < exec->lane_slots);
    tt_lane *lane = &exec->lanes[lane_slot];
    TT_ASSERT(lane->sends_open > lane->sends_waiting);
    lane->sends_open--;
    lane_run(exec, lane);
}

static bool lanes_step(tt_exec *exec)
{
    exec->has_work = false;
    for (uint32_t i = 0; i < exec->lane_slots && exec->is_running && exec->status == TT_OK; i++) {
        tt_lane *lane = &exec->lanes[i];
        if (!lane->is_open || !lane->is_entered || lane->is_worked || lane->sends_open > 0 ||
            lane->arrivals_open > 0 || !lane->is_reduced) {
            continue;
        }
        tt_move move = {0};
        (void)tt_exec_move(exec, lane, lane->round, lane->work_index, &move);
        TT_DEBUG_ASSERT(move.kind == TT_MOVE_WORK);
        /* In small pieces while a more urgent op runs, whose next frame may arrive at any time.
         */
        const bool yields = exec->urgency < exec->flow->urgency_top;
        const uint64_t budget = yields ? TT_WORK_SHORT_BYTES : TT_WORK_STEP_BYTES;
        lane->is_worked = tt_exec_work(exec, lane, &move, budget);
        if (lane->is_worked) {
            lane_run(exec, lane);
        }
        exec->has_work = exec->is_running;
        break; /* one piece per step: frames may be waiting */
    }
    return exec->has_work && exec->status == TT_OK;
}

const tt_executor tt_executor_lanes = {
    .name = "lanes",
    .start = lanes_start,
    .frame = lanes_frame,
    .payload = lanes_payload,
    .granted = lanes_granted,
    .wanted = lanes_wanted,
    .sent = lanes_sent,
    .retry = lanes_retry,
    .step = lanes_step,
    .needs = tt_lanes_need,
    .is_untouched = tt_lanes_are_untouched,
    .stop = tt_lanes_stop,
};
