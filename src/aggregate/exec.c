/* SPDX-License-Identifier: Apache-2.0
 *
 * exec.c - lanes, rounds and moves; see exec.h. Local work is in exec_work.c. */
#include "aggregate/exec.h"

#include <string.h>

#include "aggregate/exec_internal.h"
#include "base/assert.h"
#include "base/base.h"
#include "base/plant.h"
#include "base/reduce.h"

static void lane_run(tt_exec *exec, tt_lane *lane);

static void fail(tt_exec *exec, tt_status status, uint32_t culprit)
{
    if (exec->status == TT_OK) {
        exec->status = status;
        exec->culprit = culprit;
        exec->is_quick = false;
    }
}

void tt_exec_fail(tt_exec *exec, tt_status status, uint32_t culprit)
{
    fail(exec, status, culprit);
}

static void bit_set(uint64_t *bits, uint64_t index)
{
    bits[index / 64] |= UINT64_C(1) << (index % 64);
}

static bool reduces_early(const tt_exec *exec)
{
    return exec->plan.reduce_early || TT_PLANT(REDUCE_BEFORE_ROUND);
}

uint32_t tt_exec_member(const tt_exec *exec, uint32_t peer)
{
    if (exec->member_of != NULL) {
        return exec->member_of[peer];
    }
    for (uint32_t i = 0; i < exec->problem.size; i++) {
        if (exec->members[i] == peer) {
            return i;
        }
    }
    return UINT32_MAX;
}

void *tt_exec_address(const tt_exec *exec, const tt_lane *lane, tt_spot spot)
{
    switch (spot.buffer) {
    case TT_INPUT:
        /* never written through: moves have inputs as sources only */
        return (uint8_t *)(uintptr_t)(exec->input + spot.offset);
    case TT_OUTPUT:
        return exec->output + spot.offset;
    case TT_SLOT:
        return exec->slots + (lane->number % TT_LANES_MAX) * exec->plan.slot_bytes + spot.offset;
    case TT_SCRATCH:
        break;
    }
    TT_ASSERT(spot.offset <= exec->plan.scratch_bytes);
    return lane->scratch + spot.offset;
}

/* ---- partners and grants ---- */

/* NULL: nothing was heard of it or told to it yet. */
static tt_partner *partner_find(const tt_exec *exec, uint32_t member)
{
    for (uint32_t i = 0; i < exec->partner_count; i++) {
        if (exec->partners[i].member == member) {
            return &exec->partners[i];
        }
    }
    return NULL;
}

/* NULL: there are more than the algorithm has, so one of them is none; the exec has failed. */
static tt_partner *partner_of(tt_exec *exec, uint32_t member)
{
    tt_partner *found = partner_find(exec, member);
    if (found != NULL) {
        return found;
    }
    if (exec->partner_count == exec->plan.partner_max) {
        fail(exec, TT_ERR_BAD_WIRE, member); /* a signal of a rank that has no part in this */
        return NULL;
    }
    tt_partner *partner = &exec->partners[exec->partner_count++];
    *partner = (tt_partner){.member = member};
    return partner;
}

static void send_signal(tt_exec *exec, tt_frame_kind kind, uint32_t member, uint64_t argument)
{
    tt_head head = exec->identity;
    head.kind = (uint8_t)kind;
    head.argument = argument;
    tt_flow_control(exec->flow, exec->members[member], &head);
}

/* Long frames come only after a grant: tell all who will send. */
static void grant_open_lanes(tt_exec *exec)
{
    for (uint32_t i = 0; i < exec->partner_count; i++) {
        if (exec->partners[i].is_source || exec->partners[i].has_wanted) {
            send_signal(exec, TT_FRAME_GRANT, exec->partners[i].member,
                        exec->lanes_opened + (TT_PLANT(LANE_GRANTED_TOO_EARLY) ? 1 : 0));
        }
    }
}

static void find_sources(tt_exec *exec)
{
    const tt_lane first = {.number = 0};
    tt_move move = {0};
    for (uint32_t round = 0; round < exec->plan.round_count; round++) {
        for (uint32_t i = 0; tt_exec_move(exec, &first, round, i, &move); i++) {
            if (move.kind == TT_MOVE_STORE || move.kind == TT_MOVE_REDUCE) {
                tt_partner *partner = partner_of(exec, move.peer);
                TT_ASSERT(partner != NULL); /* no signal was taken yet */
                partner->is_source = true;
            }
        }
    }
}

/* ---- sending ---- */

/* The peer is to grant what is open there; told once. */
static void want(tt_exec *exec, uint32_t member)
{
    tt_partner *partner = partner_of(exec, member);
    if (partner != NULL && !partner->has_wanted) {
        partner->has_wanted = true;
        send_signal(exec, TT_FRAME_WANT, member, 0);
    }
}

/* May the frame go now? Takes a credit if that is what lets it. */
static bool may_send(tt_exec *exec, const tt_lane *lane, uint32_t member, uint8_t *flags_out)
{
    tt_partner *partner = partner_find(exec, member);
    *flags_out = 0;
    if (partner != NULL && partner->granted > lane->number) {
        return true;
    }
    if (!exec->is_eager) {
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
    TT_ASSERT(move->bytes <= exec->plan.frame_bytes);
    return head;
}

/* Send what goes to every other member, and they are all ranks of this host, once for all. */
static bool try_post(tt_exec *exec, const tt_lane *lane, const tt_move *move)
{
    tt_platform *platform = exec->flow->platform;
    const uint32_t size = exec->problem.size, self = exec->problem.self;
    if (!exec->plan.sends_alike || !exec->is_host_wide || !exec->is_eager ||
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
        fail(exec, status, move->peer);
    }
}

/* Send it now if it may go. */
static void try_issue(tt_exec *exec, tt_lane *lane, const tt_move *move)
{
    uint8_t flags;
    if (may_send(exec, lane, move->peer, &flags)) {
        bit_set(lane->issued, tt_exec_slot(exec, move->peer));
        lane->sends_waiting--;
        issue(exec, lane, move, flags);
    }
}

static void issue_waiting(tt_exec *exec, tt_lane *lane)
{
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

/* Count the round's moves; what may be sent is sent on the way. */
static void round_enter(tt_exec *exec, tt_lane *lane)
{
    tt_move move = {0};
    bool is_tried = false, is_posted = false;
    lane->is_entered = true;
    lane->is_reduced = true;
    lane->is_worked = true;
    lane->sends_open = lane->sends_waiting = lane->arrivals_open = 0;
    lane->work_done = 0;
    clear_words(lane->issued, tt_bit_words(exec->plan.fan));
    const uint64_t base = (uint64_t)lane->round * exec->plan.fan;
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
    const tt_problem *problem = &exec->problem;
    tt_platform *platform = exec->flow->platform;
    if (move->bytes == 0) {
        return; /* a barrier may have no buffers, and so no addresses */
    }
    const void *own = tt_exec_address(exec, lane, move->source);
    void *target = tt_exec_address(exec, lane, move->target);
    const bool is_peer_first = move->peer < problem->self;
    const void *first = is_peer_first ? arrival : own, *second = is_peer_first ? own : arrival;
    if (platform->hands > 1 && move->bytes >= platform->share_bytes_min) {
        tt_exec_fold_two(exec, target, first, second, move->bytes);
    } else {
        tt_reduce(problem->dtype, problem->redop, target, first, second,
                  move->bytes / problem->element_bytes);
    }
    platform->ops->spend(platform, TT_SPEND_REDUCE, move->bytes);
}

static void reduce_waiting(tt_exec *exec, tt_lane *lane)
{
    tt_move move = {0};
    for (uint32_t i = 0; tt_exec_move(exec, lane, lane->round, i, &move); i++) {
        if (move.kind == TT_MOVE_REDUCE) {
            apply_reduce(exec, lane, &move, lane->scratch + move.slot);
        }
    }
    lane->is_reduced = true;
}

/* The round's work, now if it is short and nothing more urgent runs, for then it is done in steps,
 * which go by urgency. True when there is none left. */
static bool work_short(tt_exec *exec, tt_lane *lane)
{
    tt_move move = {0};
    (void)tt_exec_move(exec, lane, lane->round, lane->work_index, &move);
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

void tt_exec_lane_close(tt_exec *exec, tt_lane *lane)
{
    lane->is_open = false;
    exec->lanes_done++;
    if (exec->lanes_done == exec->plan.lane_count) {
        exec->is_running = false;
        return;
    }
    lanes_open(exec);
}

/* Go as far as possible. */
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
        exec->is_quick = false; /* the last frame was parked, or came by a grant */
        if (lane->round == exec->plan.round_count) {
            tt_exec_lane_close(exec, lane);
        }
    }
}

void tt_exec_lane_reset(tt_exec *exec, tt_lane *lane, uint64_t number)
{
    lane->is_open = true;
    lane->is_entered = false;
    lane->round = 0;
    lane->number = number;
    clear_words(lane->received, tt_bit_words((uint64_t)exec->plan.round_count * exec->plan.fan));
}

/* The other side of a send or receive; of no meaning for collectives. */
static uint32_t pair_peer(const tt_exec *exec)
{
    const bool is_first = exec->problem.self == 0 && exec->problem.size > 1;
    return exec->members[is_first ? 1 : 0];
}

/* Frames that came before their lane was open. */
void tt_exec_replay_parked(tt_exec *exec)
{
    tt_parked *parked;
    while (exec->status == TT_OK && exec->is_running &&
           (parked = tt_flow_find(exec->flow, &exec->arriving, exec->lanes_opened,
                                  pair_peer(exec))) != NULL) {
        const uint32_t member = tt_exec_member(exec, parked->peer);
        if (member != UINT32_MAX && parked->head.descriptor == exec->identity.descriptor) {
            parked->head.flags &= (uint8_t)~TT_FLAG_EAGER; /* unpark returns the credit */
            (void)tt_exec_frame(exec, member, &parked->head, parked->payload);
        } else {
            fail(exec, TT_ERR_MISMATCH, member);
        }
        tt_flow_unpark(exec->flow, parked);
    }
}

/* Run the lanes that were just opened, and what was parked for them. */
static void lanes_begin(tt_exec *exec, uint64_t first)
{
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
 * Lanes may be over as soon as they begin: the outermost call opens the next, so that the stack
 * does not grow with their number. */
static void lanes_open(tt_exec *exec)
{
    if (exec->is_opening) {
        return;
    }
    exec->is_opening = true;
    for (bool has_opened = true; has_opened && exec->is_running && exec->status == TT_OK;) {
        const uint64_t first = exec->lanes_opened;
        while (exec->lanes_opened < exec->plan.lane_count &&
               !exec->lanes[exec->lanes_opened % TT_LANES_MAX].is_open) {
            tt_exec_lane_reset(exec, &exec->lanes[exec->lanes_opened % TT_LANES_MAX],
                               exec->lanes_opened);
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

/* Lay out bits, partners, pointers and scratch in one block that is kept for the next op. */
static tt_status workspace_lay_out(tt_exec *exec)
{
    const tt_plan *plan = &exec->plan;
    const size_t received =
        tt_bit_words((uint64_t)plan->round_count * plan->fan) * sizeof(uint64_t);
    const size_t issued = tt_bit_words(plan->fan) * sizeof(uint64_t);
    const size_t partners = plan->partner_max * sizeof(tt_partner);
    const uint32_t hands = exec->flow->platform->hands;
    const size_t pointers = 2 * (size_t)exec->problem.size * (1 + (size_t)hands) * sizeof(void *);
    const size_t scratch = tt_round_up(plan->scratch_bytes, 64);
    const size_t lanes = tt_min_u64(plan->lane_count, TT_LANES_MAX);
    const size_t small = tt_round_up(partners + pointers + lanes * (received + issued), 64);
    const size_t bytes = small + lanes * scratch;
    if (exec->workspace_bytes < bytes) {
        tt_platform_release(exec->flow->platform, exec->workspace, exec->workspace_bytes);
        exec->workspace_bytes = 0;
        exec->workspace = tt_platform_allocate(exec->flow->platform, bytes);
        if (exec->workspace == NULL) {
            return TT_ERR_NO_MEMORY;
        }
        exec->workspace_bytes = bytes;
    }
    uint8_t *at = exec->workspace;
    exec->partners = (void *)at;
    exec->pointers = (void *)(at += tt_round_up(partners, 8));
    at += pointers;
    for (size_t i = 0; i < lanes; i++) {
        exec->lanes[i] = (tt_lane){.received = (void *)at,
                                   .issued = (void *)(at + received),
                                   .scratch = (uint8_t *)exec->workspace + small + i * scratch};
        at += received + issued;
    }
    return TT_OK;
}

static void take_notes(tt_exec *exec)
{
    tt_note note;
    while (tt_flow_note_take(exec->flow, &exec->arriving, pair_peer(exec), &note)) {
        const uint32_t member = tt_exec_member(exec, note.peer);
        if (member == UINT32_MAX || note.head.descriptor != exec->identity.descriptor) {
            fail(exec, TT_ERR_MISMATCH, member);
            continue;
        }
        tt_partner *partner = partner_of(exec, member);
        if (partner != NULL && note.head.kind == TT_FRAME_GRANT) {
            partner->granted = note.head.argument;
        } else if (partner != NULL) {
            partner->has_wanted = true;
        }
    }
}

/* Offsets and facts may change behind their pointers. */
static bool is_self_contained(const tt_problem *problem)
{
    return problem->part_offsets == NULL && problem->output_offsets == NULL &&
           problem->facts == NULL;
}

static bool is_same_problem(const tt_problem *a, const tt_problem *b)
{
    return a->bytes == b->bytes && a->collective == b->collective && a->dtype == b->dtype &&
           a->redop == b->redop && a->self == b->self && a->size == b->size && a->root == b->root &&
           a->element_bytes == b->element_bytes && a->segment_bytes == b->segment_bytes &&
           a->postscale == b->postscale && a->is_in_place == b->is_in_place &&
           a->is_uneven == b->is_uneven && a->is_steady == b->is_steady &&
           a->topology == b->topology;
}

void tt_exec_pose(tt_exec *exec, const tt_problem *problem, const char *forced)
{
    TT_ASSERT(is_self_contained(problem));
    if (exec->is_planned && exec->forced == forced && is_self_contained(&exec->problem) &&
        is_same_problem(problem, &exec->problem)) {
        return;
    }
    exec->is_planned = exec->is_laid_out = false;
    exec->forced = forced;
    exec->problem = *problem;
    exec->algorithm = tt_algorithm_choose(problem, forced);
}

static tt_status plan_and_lay_out(tt_exec *exec)
{
    exec->algorithm->plan(&exec->problem, &exec->plan);
    TT_ASSERT(exec->plan.lane_count > 0);
    TT_ASSERT(exec->plan.round_count > 0);
    exec->is_eager = exec->plan.frame_bytes <= exec->flow->eager_bytes_max;
    const tt_problem *problem = &exec->problem;
    const bool folds = exec->plan.is_flat && problem->bytes > 0;
    exec->fold = folds ? tt_reduce_find(problem->dtype, problem->redop) : NULL;
    exec->fold_count = folds ? problem->bytes / problem->element_bytes : 0;
    TT_TRY(workspace_lay_out(exec));
    exec->is_planned = is_self_contained(&exec->problem);
    return TT_OK;
}

tt_status tt_exec_start(tt_exec *exec)
{
    TT_ASSERT(!exec->is_running);
    exec->status = TT_OK;
    exec->is_blocked = exec->has_work = exec->is_opening = exec->is_quick = false;
    exec->lanes_opened = exec->lanes_done = 0;
    exec->partner_count = 0;
    if (!exec->is_laid_out && (!exec->is_planned || !is_self_contained(&exec->problem))) {
        exec->is_planned = false;
        TT_TRY(plan_and_lay_out(exec));
    }
    exec->is_again = exec->is_laid_out;
    exec->is_laid_out = false;
    if (!exec->is_eager || exec->tells) {
        find_sources(exec);
    }
    exec->is_running = true;
    if (exec->plan.is_flat && tt_exec_quick_start(exec)) {
        return TT_OK;
    }
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

/* The arrival that a frame of `member` with (lane, round) is, or false. */
static bool arrival_of(const tt_exec *exec, const tt_lane *lane, uint32_t member,
                       const tt_head *head, tt_move *move_out)
{
    /* Where all send to all, arrivals follow the sends, near peers first or far ones: look there
     * before the search. */
    const uint32_t size = exec->problem.size, self = exec->problem.self;
    const uint32_t distance = (member > self ? member : member + size) - self;
    const uint32_t guesses[2] = {size + distance - 2, 2 * size - distance - 1};
    for (uint32_t i = 0; exec->plan.fan > 1 && i < 2; i++) {
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
    bit_set(lane->received, (uint64_t)round * exec->plan.fan + tt_exec_slot(exec, member));
    if (lane->is_entered && lane->round == round) {
        TT_ASSERT(lane->arrivals_open > 0);
        lane->arrivals_open--;
    }
    lane_run(exec, lane);
}

static void take_inline(tt_exec *exec, tt_lane *lane, const tt_move *move, const tt_head *head,
                        const void *payload)
{
    const bool is_current = lane->is_entered && lane->round == head->round;
    if (move->kind == TT_MOVE_REDUCE &&
        (reduces_early(exec) || (is_current && lane->sends_open == 0))) {
        apply_reduce(exec, lane, move, payload);
        lane->is_reduced = lane->is_reduced || is_current;
    } else if (move->bytes > 0) {
        memcpy(move->kind == TT_MOVE_REDUCE ? lane->scratch + move->slot
                                            : tt_exec_address(exec, lane, move->target),
               payload, move->bytes);
    }
}

/* The open lane `number`; NULL if it is closed already or not yet open. */
static tt_lane *open_lane(tt_exec *exec, uint64_t number)
{
    tt_lane *lane = &exec->lanes[number % TT_LANES_MAX];
    return number < exec->lanes_opened && lane->is_open && lane->number == number ? lane : NULL;
}

void *tt_exec_frame(tt_exec *exec, uint32_t member, const tt_head *head, const void *payload)
{
    TT_ASSERT(exec->is_running);
    if (exec->is_quick && tt_head_equals(head, &exec->posted) &&
        tt_exec_quick_frame(exec, member, head, payload)) {
        return NULL;
    }
    if (exec->is_meeting) {
        if (!tt_exec_meet_frame(exec, member, head, payload)) {
            if ((head->flags & TT_FLAG_EAGER) != 0) {
                tt_flow_consumed(exec->flow, exec->members[member]);
            }
            fail(exec, TT_ERR_BAD_WIRE, member);
        }
        return NULL;
    }
    const uint32_t peer = exec->members[member];
    const bool is_inline = payload != NULL || head->payload_bytes == 0;
    if (head->lane >= exec->lanes_opened && head->lane < exec->plan.lane_count) {
        const tt_status status = tt_flow_park(exec->flow, peer, head, payload);
        if (status != TT_OK) {
            fail(exec, status, member);
        }
        return NULL;
    }
    if ((head->flags & TT_FLAG_EAGER) != 0) {
        tt_flow_consumed(exec->flow, peer);
    }
    tt_lane *lane = open_lane(exec, head->lane);
    tt_move move = {0};
    if (lane == NULL || head->round >= exec->plan.round_count ||
        !arrival_of(exec, lane, member, head, &move)) {
        if (head->lane >= exec->plan.lane_count || lane != NULL) {
            fail(exec, TT_ERR_BAD_WIRE, member);
        }
        exec->flow->frames_dropped++;
        return NULL;
    }
    const uint64_t bit = (uint64_t)head->round * exec->plan.fan + tt_exec_slot(exec, member);
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

void tt_exec_payload(tt_exec *exec, uint32_t member, const tt_head *head)
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
    for (uint32_t i = 0; i < TT_LANES_MAX && exec->is_running && exec->status == TT_OK; i++) {
        if (exec->lanes[i].is_open && exec->lanes[i].sends_waiting > 0) {
            lane_run(exec, &exec->lanes[i]);
        }
    }
}

void tt_exec_granted(tt_exec *exec, uint32_t member, uint64_t lanes)
{
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

void tt_exec_wanted(tt_exec *exec, uint32_t member)
{
    tt_partner *partner = partner_of(exec, member);
    if (partner != NULL) {
        partner->has_wanted = true;
        send_signal(exec, TT_FRAME_GRANT, member, exec->lanes_opened);
    }
}

void tt_exec_unblock(tt_exec *exec)
{
    if (exec->is_blocked) {
        exec->is_blocked = false;
        run_waiting(exec);
    }
}

void tt_exec_sent(tt_exec *exec, uint32_t lane_slot)
{
    TT_ASSERT(lane_slot < TT_LANES_MAX);
    tt_lane *lane = &exec->lanes[lane_slot];
    TT_ASSERT(lane->sends_open > lane->sends_waiting);
    lane->sends_open--;
    lane_run(exec, lane);
}

bool tt_exec_step(tt_exec *exec)
{
    exec->has_work = false;
    for (uint32_t i = 0; i < TT_LANES_MAX && exec->is_running && exec->status == TT_OK; i++) {
        tt_lane *lane = &exec->lanes[i];
        if (!lane->is_open || !lane->is_entered || lane->is_worked || lane->sends_open > 0 ||
            lane->arrivals_open > 0 || !lane->is_reduced) {
            continue;
        }
        tt_move move = {0};
        (void)tt_exec_move(exec, lane, lane->round, lane->work_index, &move);
        /* In small pieces while something more urgent runs, whose next frame may be here any time.
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
