/* SPDX-License-Identifier: Apache-2.0
 *
 * slot.c - the requests of a run: buffers, flaws, order, submission, end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "kernel/hash64.h"
#include "simulation/run_internal.h"

/* ---- buffers ---- */

static bool is_in_arena(const call_slot *slot)
{
    return slot->call->is_shared && slot->member + 1 != slot->call->foreign;
}

static bool has_phantoms(const call_slot *slot)
{
    return slot->simulation->options->has_phantoms;
}

static void *memory_take(call_slot *slot, size_t bytes)
{
    tt_platform *platform = tt_sim_platform(slot->simulation->sim, slot->rank);
    if (has_phantoms(slot)) {
        return tt_sim_phantom(slot->simulation->sim,
                              is_in_arena(slot) ? TT_MEMORY_SHARED : TT_MEMORY_PRIVATE);
    }
    void *memory = is_in_arena(slot) ? platform->ops->allocate(platform, TT_MEMORY_SHARED, bytes)
                                     : malloc(bytes);
    if (memory == NULL) { /* allocations that fail on purpose are the machines' only */
        tt_sim_feed(slot->simulation->sim, true);
        memory = platform->ops->allocate(platform, TT_MEMORY_SHARED, bytes);
        tt_sim_feed(slot->simulation->sim, false);
    }
    TT_ASSERT(memory != NULL);
    return memory;
}

static void buffers_make(call_slot *slot)
{
    const collective_case *one = &slot->call->one;
    const size_t width = tt_dtype_bytes(one->dtype);
    const size_t in = case_input_count(one, slot->member) * width;
    const size_t out = case_output_count(one, slot->member) * width;
    const size_t in_room = tt_round_up(in + SLACK_BYTES, 64);
    slot->bytes = in_room + out + 3 * SLACK_BYTES; /* flaws need a little more */
    slot->memory = memory_take(slot, slot->bytes);
    if (!has_phantoms(slot)) {
        memset(slot->memory, POISON, slot->bytes);
    }
    uint8_t *input = slot->memory, *output = slot->memory + in_room;
    if (one->is_in_place && out >= in) {
        const bool is_gather = one->collective == TT_ALLGATHER;
        input = output + (is_gather ? case_own_offset(one, slot->member) * width : 0);
    }
    if (!has_phantoms(slot)) {
        case_fill_input(one, slot->member, input);
    }
    slot->request.input = input;
    slot->request.output = output;
}

/* ---- requests ---- */

static void on_finished(tt_request *request);

call_slot *slot_of(const tt_request *request)
{
    return request->finished == on_finished ? request->owner : NULL;
}

/* True: the rank makes no second call of the tensor before the first is over. */
static bool is_exclusive(const scenario_call *call)
{
    return call->is_named || scenario_keeps_state(call);
}

static void request_fill(call_slot *slot)
{
    const collective_case *one = &slot->call->one;
    const uint32_t member = slot->member, size = one->size;
    const bool is_pair = one->collective == TT_SEND;
    tt_request *request = &slot->request;
    const bool is_gathered = one->collective == TT_ALLGATHER || one->collective == TT_GATHER;
    for (uint32_t to = 0; to < size; to++) {
        slot->counts[to] = case_part(one, member, to);
    }
    request->collective = slot->is_receive ? TT_RECEIVE : one->collective;
    request->dtype = one->dtype;
    request->redop = one->redop;
    request->set = slot->call->set;
    request->root = one->root;
    if (is_pair) {
        const uint32_t there = 1 + slot->call->shift;
        request->root = (slot->is_receive ? member + size - there : member + there) % size;
        request->root = slot->is_receive && slot->call->is_any ? TT_ANY_SOURCE : request->root;
        request->tag = slot->call->tag;
        request->source_out = &slot->source;
        slot->source = SOURCE_NONE;
    }
    request->urgency = slot->call->urgency;
    request->deadline_ns = slot->call->deadline_ns;
    request->count = one->count;
    if (one->is_uneven) {
        request->count = is_gathered ? case_input_count(one, member) : 0;
        request->output_capacity = case_output_count(one, member);
        request->input_counts = slot->counts;
        request->output_counts = slot->got_counts;
        request->is_uneven = true;
    }
    request->prescale = one->prescale;
    request->postscale = one->postscale;
    request->program = one->program;
    if (slot->call->codec != NULL) {
        request->program = &slot->call->codec->scheme.phases[0].program;
        request->key = slot->call->is_named ? 0 : slot->call->tensor + 1;
    }
    request->finished = on_finished;
    request->owner = slot;
    request->status = TT_IN_PROGRESS;
    if (slot->call->is_named) {
        (void)snprintf(slot->name, sizeof(slot->name), "tensor %u", slot->call->tensor);
        request->name = slot->name;
    }
    if (slot->call->group_size > 0) {
        (void)snprintf(slot->group, sizeof(slot->group), "group");
        request->group = slot->group;
        request->group_size = slot->call->group_size;
    }
}

static void on_twin_finished(tt_request *request)
{
    (void)request;
}

/* A second call of a name while the first is in flight: refused on this rank, unknown to others. */
static void submit_twin(call_slot *slot)
{
    simulation *run = slot->simulation;
    tt_request *twin = &slot->twin;
    *twin = slot->request;
    twin->finished = on_twin_finished;
    twin->status = TT_IN_PROGRESS;
    tt_control_submit(run->ranks[slot->rank].control, twin);
    const bool is_starved = tt_sim_is_starved(run->sim, slot->rank);
    if (twin->status != TT_ERR_BAD_ARGUMENT && twin->status != TT_ERR_PEER_DOWN &&
        !(twin->status == TT_ERR_NO_MEMORY && is_starved)) {
        run_fault(run, "call %u of rank %u: a second one of its name was accepted",
                  slot->call_index, slot->rank);
    }
}

static void submit_join(call_slot *slot)
{
    sim_rank_state *rank = &slot->simulation->ranks[slot->rank];
    slot->request = (tt_request){.collective = TT_BARRIER,
                                 .is_join = true,
                                 .prescale = 1.0,
                                 .postscale = 1.0,
                                 .finished = on_finished,
                                 .owner = slot,
                                 .status = TT_IN_PROGRESS};
    slot->is_submitted = true;
    rank->in_flight++;
    tt_control_submit(rank->control, &slot->request);
}

/* A codec would refuse the type or operator, before ranks could differ in it. */
static void leave_codec_out(call_slot *slot)
{
    if (slot->call->codec != NULL) {
        slot->request.program = NULL;
    }
}

static void flaw_apply(call_slot *slot)
{
    tt_request *request = &slot->request;
    switch (slot->call->flaw) {
    case FLAW_DTYPE:
        request->dtype = request->dtype == TT_I8 ? TT_U8 : TT_I8;
        request->redop = TT_SUM;
        leave_codec_out(slot);
        break;
    case FLAW_REDOP:
        request->redop = request->redop == TT_MAX ? TT_MIN : TT_MAX;
        leave_codec_out(slot);
        break;
    case FLAW_ROOT:
        request->root = (request->root + 1) % slot->call->one.size;
        request->count = 0; /* the new root has no buffers for it */
        break;
    case FLAW_COUNT:
        request->count += request->count == 0 ? 1 : UINT64_MAX;
        break;
    case FLAW_KIND:
        request->collective = request->collective == TT_BARRIER ? TT_ALLREDUCE : TT_BARRIER;
        request->count = 1;
        request->program = NULL;
        break;
    case FLAW_ARGUMENT:
        request->collective = TT_ALLREDUCE;
        request->dtype = (tt_dtype)99;
        break;
    case FLAW_APART:
        request->group = NULL;
        request->group_size = 0;
        break;
    case FLAW_CODEC:
        request->program = &slot->call->codec->other.phases[0].program;
        break;
    default:
        break;
    }
}

/* Every other named call finds the record of its name by hint and stamp, as a handle that is
 * started again does. */
static void take_hint(call_slot *slot)
{
    const sim_rank_state *rank = &slot->simulation->ranks[slot->rank];
    const uint32_t tensor = slot->call->tensor;
    if (rank->hints[tensor].set == slot->call->set &&
        tt_hash64_mix(slot->call_index, slot->rank) % 2 == 0) {
        slot->request.name_hint = rank->hints[tensor].hint;
        slot->request.name_stamp = rank->hints[tensor].stamp;
    }
}

static void keep_hint(const call_slot *slot)
{
    sim_rank_state *rank = &slot->simulation->ranks[slot->rank];
    const uint32_t tensor = slot->call->tensor;
    rank->hints[tensor].set = slot->call->set;
    rank->hints[tensor].hint = slot->request.name_hint;
    rank->hints[tensor].stamp = slot->request.name_stamp;
}

static void do_cancel(void *argument)
{
    call_slot *slot = argument;
    if (slot->finished_count == 0) {
        slot->is_cancelled =
            tt_control_cancel(slot->simulation->ranks[slot->rank].control, &slot->request);
    }
}

/* Between the same two calls on every rank. */
static void change_settings(sim_rank_state *rank, uint32_t call_index)
{
    const scenario *what = rank->simulation->what;
    if (what->change_at > 0 && call_index >= what->change_at && !rank->is_changed) {
        rank->is_changed = true;
        tt_control_set_segment(rank->control, what->changed_segment_bytes);
        if (what->changed_algorithm != what->control.algorithm) {
            tt_control_force(rank->control, what->changed_algorithm);
        }
    }
}

static void submit(call_slot *slot)
{
    simulation *run = slot->simulation;
    sim_rank_state *rank = &run->ranks[slot->rank];
    if (slot->is_join) {
        submit_join(slot);
        return;
    }
    const bool is_culprit = slot->member == slot->call->culprit && !slot->is_receive;
    if (is_exclusive(slot->call)) {
        rank->busy[slot->call->tensor] = slot;
    }
    buffers_make(slot);
    request_fill(slot);
    if (is_culprit) {
        flaw_apply(slot);
    }
    slot->is_submitted = true;
    slot->submitted_ns = tt_sim_now(run->sim);
    rank->in_flight++;
    if (rank->stepper != NULL) {
        stepping_submit(slot);
    } else if (slot->call->is_named) {
        take_hint(slot);
        const scenario *what = run->what;
        const bool is_tuned = what->tuned_step > 0 && slot->call->step >= what->tuned_step;
        tt_control_set_fuse(rank->control, is_tuned ? what->tuned_bytes : what->control.fuse_bytes);
    }
    change_settings(rank, slot->call_index);
    if (!has_phantoms(slot)) {
        judge_coded_begin(slot);
    }
    tt_control_submit(rank->control, &slot->request);
    if (slot->call->is_named && slot->finished_count == 0 &&
        tt_random_below(&run->random, 8) == 0) {
        submit_twin(slot);
    }
    if (slot->is_receive && slot->call->is_recalled && slot->finished_count == 0) {
        tt_sim_call(run->sim, slot->rank,
                    tt_sim_now(run->sim) + tt_random_below(&run->random, 2000000), do_cancel, slot);
    }
    if (is_culprit && slot->call->flaw == FLAW_CANCEL && slot->finished_count == 0) {
        if (tt_random_below(&run->random, 2) == 0) {
            do_cancel(slot);
        } else {
            tt_sim_call(run->sim, slot->rank,
                        tt_sim_now(run->sim) + tt_random_below(&run->random, 200000), do_cancel,
                        slot);
        }
    }
}

/* A receive has ended, and has taken no message. */
static bool is_to_be_made_again(const call_slot *slot)
{
    const tt_status status = slot->request.status;
    return slot->is_receive && slot->call->tag != 0 && slot->source == SOURCE_NONE && status < 0 &&
           status != TT_ERR_PEER_DOWN && status != TT_ERR_PEER_LEFT;
}

static void do_again(void *argument)
{
    call_slot *slot = argument;
    request_fill(slot);
    tt_control_submit(slot->simulation->ranks[slot->rank].control, &slot->request);
}

void slot_pump_later(sim_rank_state *rank, uint64_t delay_ns)
{
    simulation *run = rank->simulation;
    if (!rank->is_pump_due && rank->next != NULL) {
        rank->is_pump_due = true;
        tt_sim_call(run->sim, rank->rank, tt_sim_now(run->sim) + delay_ns, slot_pump, rank);
    }
}

/* What the rank has to do before its next call; NULL: nothing. */
static const scenario_act *act_due(const sim_rank_state *rank)
{
    const scenario *what = rank->simulation->what;
    const call_slot *next = rank->next;
    if (next == NULL || rank->act_count == what->act_count) {
        return NULL;
    }
    const scenario_act *act = &what->acts[rank->act_count];
    return act->before <= (what->is_named ? next->call->step : next->call_index) ? act : NULL;
}

static bool may_submit(const sim_rank_state *rank)
{
    const scenario *what = rank->simulation->what;
    const bool is_limited = what->windowless == 0 || rank->rank < what->windowless;
    const uint32_t window = is_limited ? what->window : 0;
    const call_slot *next = rank->next;
    if (rank->is_ending) {
        return false;
    }
    if (next != NULL && (next->is_join || rank->has_joined) && rank->in_flight > 0) {
        return false;
    }
    if (next != NULL && !next->is_join && is_exclusive(next->call) &&
        rank->busy[next->call->tensor] != NULL) {
        return false;
    }
    if (act_due(rank) != NULL && rank->in_flight > 0) {
        return false;
    }
    return rank->next != NULL &&
           (window == 0 || rank->in_flight < window || rank->next->is_receive);
}

static void do_remove(void *argument)
{
    const sim_rank_state *rank = argument;
    simulation *run = rank->simulation;
    for (uint32_t set = 1; set < run->what->set_count; set++) {
        const tt_status status = tt_control_set_remove(rank->control, set);
        TT_ASSERT(status == TT_OK);
    }
}

/* Its calls may still be open, also on other ranks, which may not have made theirs. */
static void remove_later(sim_rank_state *rank)
{
    simulation *run = rank->simulation;
    if (rank->next == NULL && run->what->removes_sets && !rank->has_removed) {
        rank->has_removed = true;
        tt_sim_call(run->sim, rank->rank,
                    tt_sim_now(run->sim) + tt_random_below(&run->random, 1000000), do_remove, rank);
    }
}

void slot_pump(void *rank_state)
{
    sim_rank_state *rank = rank_state;
    simulation *run = rank->simulation;
    rank->is_pump_due = false;
    while (may_submit(rank)) {
        call_slot *slot = rank->next;
        for (const scenario_act *act = act_due(rank); act != NULL; act = act_due(rank)) {
            rank->act_count++;
            coded_act(rank, act);
        }
        rank->next = slot->next;
        rank->has_joined = slot->is_join;
        submit(slot);
        if (slot->ends_step) {
            stepping_end(rank);
        }
        const uint64_t gap = run->what->gap_ns;
        if (gap > 0 && rank->next != NULL && !rank->next->is_receive) {
            slot_pump_later(rank, tt_random_below(&run->random, gap));
            return;
        }
    }
    remove_later(rank);
}

static void do_leave(void *argument)
{
    sim_rank_state *rank = argument;
    rank->has_left = true;
    rank->left_ns = tt_sim_now(rank->simulation->sim);
    tt_sim_leave(rank->simulation->sim, rank->rank);
}

void slot_count_off(sim_rank_state *rank)
{
    simulation *run = rank->simulation;
    TT_ASSERT(rank->unfinished > 0);
    rank->unfinished--;
    if (run->what->nests && rank->is_in_data) {
        rank->is_in_data = false; /* requests that end in it may be part of the negotiation */
        slot_pump(rank);
        rank->is_in_data = true;
    } else {
        slot_pump_later(rank, 0);
    }
    if (rank->unfinished == 0 && run->what->leaves_early) {
        tt_sim_call(run->sim, rank->rank, tt_sim_now(run->sim) + 1, do_leave, rank);
    }
}

static void on_finished(tt_request *request)
{
    call_slot *slot = request->owner;
    simulation *run = slot->simulation;
    sim_rank_state *rank = &run->ranks[slot->rank];
    slot->finished_count++;
    slot->finished_ns = tt_sim_now(run->sim);
    if (run->is_over || rank->is_dead) {
        return;
    }
    if (run->options->is_verbose) {
        printf("%12llu us rank %u: call %u has ended%s%s\n",
               (unsigned long long)(tt_sim_now(run->sim) / 1000), slot->rank, slot->call_index,
               request->status < 0 ? ", failed: " : "", request->status < 0 ? request->error : "");
    }
    if (slot->finished_count == 1 && is_to_be_made_again(slot)) {
        slot->finished_count = 0;
        tt_sim_call(run->sim, slot->rank, tt_sim_now(run->sim) + 1, do_again, slot);
        return;
    }
    if (slot->finished_count > 1) {
        run_fault(run, "call %u of rank %u ended twice", slot->call_index, slot->rank);
        return;
    }
    if (slot->is_join) {
        judge_join(slot);
        if (rank->stepper != NULL && request->status == TT_OK) {
            tt_stepper_joined(rank->stepper);
        }
    } else if (request->status == TT_OK && !has_phantoms(slot)) {
        judge_output(slot);
    }
    if (!has_phantoms(slot)) {
        judge_coded_end(slot);
    }
    if (slot->memory != NULL && !has_phantoms(slot)) {
        memset(slot->memory, POISON, slot->bytes); /* the caller owns it again */
    }
    if (!slot->is_join && is_exclusive(slot->call) && rank->busy[slot->call->tensor] == slot) {
        rank->busy[slot->call->tensor] = NULL;
        if (slot->call->is_named) {
            keep_hint(slot);
        }
    }
    rank->in_flight--;
    slot_count_off(rank);
}

/* ---- the list ---- */

/* Calls of one set keep their order on every rank; sets may be interleaved differently. */
static void order_calls(simulation *run, uint32_t *order)
{
    const scenario *what = run->what;
    uint32_t next[SCENARIO_SETS_MAX] = {0};
    for (uint32_t at = 0; at < what->call_count; at++) {
        uint32_t set = what->calls[at].set;
        if (what->is_shuffled) {
            set = (uint32_t)tt_random_below(&run->random, what->set_count);
        }
        for (uint32_t tried = 0;; tried++) {
            while (next[set] < what->call_count && what->calls[next[set]].set != set) {
                next[set]++;
            }
            if (next[set] < what->call_count) {
                break;
            }
            TT_ASSERT(tried < what->set_count);
            set = (set + 1) % what->set_count;
        }
        order[at] = next[set]++;
    }
}

/* Named tensors of a step are submitted in any order; unnamed calls keep theirs. */
static void order_steps(simulation *run, uint32_t rank, uint32_t *order)
{
    const scenario *what = run->what;
    const bool is_shuffled = what->is_shuffled && rank >= what->windowless;
    for (uint32_t first = 0; first < what->call_count; first += what->tensor_count) {
        uint32_t *step = order + first;
        for (uint32_t i = 0; i < what->tensor_count; i++) {
            step[i] = first + i;
        }
        for (uint32_t i = what->tensor_count; is_shuffled && i > 1; i--) {
            const uint32_t j = (uint32_t)tt_random_below(&run->random, i);
            const uint32_t kept = step[i - 1];
            step[i - 1] = step[j];
            step[j] = kept;
        }
        uint32_t unnamed = first;
        for (uint32_t i = 0; i < what->tensor_count; i++) {
            if (!what->calls[step[i]].is_named) {
                while (what->calls[unnamed].is_named) {
                    unnamed++;
                }
                step[i] = unnamed++;
            }
        }
    }
}

static void slot_add(simulation *run, uint32_t rank, uint32_t call_index, bool is_receive,
                     call_slot ***end_io)
{
    call_slot *slot = &run->slots[run->slot_count++];
    const scenario_call *call = &run->what->calls[call_index];
    slot->simulation = run;
    slot->call = call;
    slot->call_index = call_index;
    slot->rank = rank;
    slot->is_receive = is_receive;
    (void)scenario_is_member(run->what, call->set, rank, &slot->member);
    **end_io = slot;
    *end_io = &slot->next;
    run->ranks[rank].unfinished++;
}

static void join_add(simulation *run, uint32_t rank, uint32_t step, call_slot ***end_io)
{
    call_slot *slot = &run->slots[run->slot_count++];
    slot->simulation = run;
    slot->call = &run->what->calls[0];
    slot->call_index = step / run->what->steps_per_phase;
    slot->rank = slot->member = rank;
    slot->is_join = true;
    **end_io = slot;
    *end_io = &slot->next;
    run->ranks[rank].unfinished++;
}

void slots_make(simulation *run)
{
    const scenario *what = run->what;
    uint32_t order[SCENARIO_CALLS_MAX];
    run->slots = calloc((2 * (size_t)what->call_count + SCENARIO_PHASES_MAX) * what->size,
                        sizeof(*run->slots));
    TT_ASSERT(run->slots != NULL);
    for (uint32_t rank = 0; rank < what->size; rank++) {
        call_slot **end = &run->ranks[rank].next;
        if (what->is_named) {
            order_steps(run, rank, order);
        } else {
            order_calls(run, order);
        }
        call_slot *last = NULL; /* of this step */
        for (uint32_t i = 0; i < what->call_count; i++) {
            const scenario_call *call = &what->calls[order[i]];
            uint32_t member;
            const uint32_t tensors = what->tensor_count * what->steps_per_phase;
            if (scenario_is_member(what, call->set, rank, &member) &&
                scenario_takes_part(what, rank, call->step)) {
                slot_add(run, rank, order[i], false, &end);
                last = &run->slots[run->slot_count - 1];
                if (call->one.collective == TT_SEND) {
                    slot_add(run, rank, order[i], true, &end);
                }
            }
            if (what->has_steps && last != NULL && (i + 1) % what->tensor_count == 0) {
                last->ends_step = true;
                run->ranks[rank].unfinished++;
                last = NULL;
            }
            if (what->has_joins && (i + 1) % tensors == 0) {
                join_add(run, rank, call->step, &end);
            }
        }
    }
}

void slots_release(simulation *run)
{
    for (uint32_t i = 0; i < run->slot_count; i++) {
        call_slot *slot = &run->slots[i];
        tt_platform *platform = tt_sim_platform(run->sim, slot->rank);
        if (slot->memory == NULL || has_phantoms(slot)) {
            continue;
        }
        if (is_in_arena(slot)) {
            platform->ops->release(platform, TT_MEMORY_SHARED, slot->memory, slot->bytes);
        } else {
            free(slot->memory);
        }
    }
    free(run->slots);
}
