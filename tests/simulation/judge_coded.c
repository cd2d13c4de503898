/* SPDX-License-Identifier: Apache-2.0
 *
 * judge_coded.c - rules of coded calls (control/coded/feedback.h):
 *
 *  (1) Results and residuals are those of the oracle, bit for bit, computed from the residuals that
 *      the members had before the call.
 *  (2) A call that fails, or sends its data as they are, leaves the residuals as they were; so does
 *      everything between two calls of a tensor.
 *  (3) Members count the same occurrences of a tensor.
 *  (4) So it is with estimates, the residuals of EF21, and their stamps are equal on all members.
 *
 * What an op had and left is copied when its exchange ends, by a tracer: so the ops of ranks that
 * have joined are seen, too. One of these may still be open when the rank calls the tensor again;
 * then that call may be coded without residuals, and the owner's may change between two calls. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "conformance/coded.h"
#include "control/control_internal.h"
#include "kernel/hash64.h"
#include "simulation/run_internal.h"

/* A residual and the one that replaces it. */
typedef struct copied {
    uint64_t count; /* 0: the op had none */
    float *before, *after;
} copied;

struct coded_record {
    coded_record *next;
    uint32_t set;
    bool is_identity;
    bool has_rails;
    coded_hosts hosts; /* with rails */
    tt_codec_spec spec;
    tt_codec_draw draw;
    copied input, owner, estimate;
};

/* ---- residuals ---- */

static uint64_t hash_of(const float *floats, uint64_t count)
{
    const uint8_t *bytes = (const uint8_t *)floats;
    const size_t length = count * sizeof(float);
    size_t zeros = 0;
    while (zeros < length && bytes[zeros] == 0) {
        zeros++;
    }
    return zeros == length ? 0 : tt_hash64(bytes, length, 3) | 1;
}

static const tt_feedback *feedback_of(const sim_rank_state *rank, const scenario_call *call)
{
    char name[16];
    (void)snprintf(name, sizeof(name), "tensor %u", call->tensor);
    return call->is_named ? tt_feedback_find(rank->control, call->set, name, 0)
                          : tt_feedback_find(rank->control, call->set, NULL, call->tensor + 1);
}

static coded_state state_of(const sim_rank_state *rank, const scenario_call *call)
{
    const tt_feedback *own = feedback_of(rank, call);
    coded_state state = {.is_known = true};
    if (own != NULL) {
        state.input = hash_of(tt_kept_now(&own->input), own->input.count);
        state.owner = hash_of(tt_kept_now(&own->owner), own->owner.count);
        state.estimate = hash_of(tt_kept_now(&own->estimate), own->estimate.count);
    }
    return state;
}

/* True: the residuals went with their set. */
static bool is_removed(const sim_rank_state *rank, const scenario_call *call)
{
    return rank->has_removed && call->set != 0 && feedback_of(rank, call) == NULL;
}

/* ---- ops ---- */

static copied copy(const float *before, const float *after, uint64_t count)
{
    copied made = {0};
    if (before != NULL && after != NULL && count > 0) {
        made.count = count;
        made.before = malloc(2 * count * sizeof(float));
        TT_ASSERT(made.before != NULL);
        made.after = made.before + count;
        memcpy(made.before, before, count * sizeof(float));
        memcpy(made.after, after, count * sizeof(float));
    }
    return made;
}

/* Where hosts exchange sums along rails, the oracle needs to know them. */
static void record_hosts(coded_record *record, const tt_problem *problem)
{
    const tt_topology *topology = problem->topology;
    if (!tt_coding_has_rails(problem)) {
        return;
    }
    record->has_rails = true;
    record->hosts = (coded_hosts){.size = problem->size,
                                  .host_count = topology->host_count,
                                  .rail_count = topology->rail_count};
    memcpy(record->hosts.host_of, topology->host_of, problem->size * sizeof(uint32_t));
}

static void on_took(void *owner, const tt_trace_event *event)
{
    sim_rank_state *rank = owner;
    const tt_op *op = event->request->op;
    if (event->span != TT_SPAN_EXCHANGE || (op->recipe->traits & TRAIT_CODED) == 0 ||
        op->stage + 1 != op->recipe->stage_count) {
        return;
    }
    const tt_coding *coding = op->exec.coding;
    const tt_feedback *own = TT_CONTAINER_OF(coding, const tt_coded_run, coding)->feedback;
    coded_record *record = calloc(1, sizeof(*record));
    TT_ASSERT(record != NULL);
    *record = (coded_record){.next = rank->records,
                             .set = op->set->id,
                             .is_identity = event->request->is_identity,
                             .spec = *op->exec.stage->problem.codec,
                             .draw = coding->draw};
    record_hosts(record, &op->exec.stage->problem);
    if (own != NULL) {
        record->input = copy(coding->residual, coding->residual_out, own->input.count);
        record->owner = copy(coding->owner_residual, coding->owner_residual_out, own->owner.count);
        record->estimate = copy(coding->estimate, coding->estimate_out, own->estimate.count);
    }
    rank->records = record;
    call_slot *slot = slot_of(event->request);
    if (slot != NULL) {
        slot->record = record;
    }
}

void coded_create(sim_rank_state *rank)
{
    rank->tracer = (tt_tracer){.owner = rank, .took = on_took};
    rank->unit = 1.0;
    tt_control_trace(rank->control, &rank->tracer);
}

void coded_destroy(sim_rank_state *rank)
{
    while (rank->records != NULL) {
        coded_record *gone = rank->records;
        rank->records = gone->next;
        free(gone->input.before);
        free(gone->owner.before);
        free(gone->estimate.before);
        free(gone);
    }
}

/* ---- one call ---- */

static bool owner_may_change(const simulation *run)
{
    return run->what->has_joins;
}

/* On rails a joined rank sends its host's sums, with their residual. */
static bool input_may_change(const simulation *run)
{
    bool has_hosts = false;
    for (uint32_t i = 1; i < run->what->size; i++) {
        has_hosts = has_hosts || run->what->host_of[i] != run->what->host_of[0];
    }
    return run->what->has_joins && has_hosts;
}

static bool is_same(const simulation *run, const coded_state *a, const coded_state *b)
{
    return (a->input == b->input || input_may_change(run)) &&
           (a->owner == b->owner || owner_may_change(run)) && a->estimate == b->estimate;
}

void judge_coded_begin(call_slot *slot)
{
    const scenario_call *call = slot->call;
    simulation *run = slot->simulation;
    const sim_rank_state *rank = &run->ranks[slot->rank];
    if (!scenario_keeps_state(call)) {
        return;
    }
    const coded_state *last = &rank->kept[call->tensor];
    slot->before = state_of(rank, call);
    if (last->is_known && !is_same(run, last, &slot->before)) {
        run_fault(run, "call %u of rank %u: the residuals changed after the last call",
                  slot->call_index, slot->rank);
    }
}

/* Whether the call of this rank had to be coded, after it has succeeded. */
static bool has_codec(const call_slot *slot)
{
    const scenario *what = slot->simulation->what;
    const scenario_call *call = slot->call;
    const tt_scheme *scheme = &call->codec->scheme;
    const tt_feedback *own = feedback_of(&slot->simulation->ranks[slot->rank], call);
    const uint64_t occurrence = scheme->keeps_state && own != NULL ? own->occurrences - 1 : 0;
    const tt_codec_spec *spec =
        scheme->phases[tt_scheme_phase_at(scheme, occurrence)].program.codec;
    bool is_across = false;
    for (uint32_t i = 1; i < call->one.size; i++) {
        is_across = is_across || what->host_of[what->members[call->set][i]] !=
                                     what->host_of[what->members[call->set][0]];
    }
    return call->one.size > 1 && spec != NULL && (is_across || spec->is_everywhere);
}

/* The residuals that the call must leave. */
static coded_state state_after(const call_slot *slot)
{
    coded_state after = slot->before;
    if (slot->request.status == TT_OK && slot->record != NULL) {
        const coded_record *record = slot->record;
        const copied *input = &record->input, *owner = &record->owner;
        const copied *estimate = &record->estimate;
        after.input = input->count > 0 ? hash_of(input->after, input->count) : after.input;
        after.owner = owner->count > 0 ? hash_of(owner->after, owner->count) : after.owner;
        after.estimate =
            estimate->count > 0 ? hash_of(estimate->after, estimate->count) : after.estimate;
    }
    return after;
}

void judge_coded_end(call_slot *slot)
{
    const scenario_call *call = slot->call;
    simulation *run = slot->simulation;
    sim_rank_state *rank = &run->ranks[slot->rank];
    if (slot->is_join || call->codec == NULL || is_removed(rank, call)) {
        return;
    }
    if (slot->request.status == TT_OK && has_codec(slot) != (slot->record != NULL)) {
        run_fault(run, "call %u of rank %u %s", slot->call_index, slot->rank,
                  slot->record != NULL ? "was coded" : "was not coded");
    }
    if (!scenario_keeps_state(call)) {
        return;
    }
    const coded_state after = state_after(slot), now = state_of(rank, call);
    if (!is_same(run, &after, &now)) {
        run_fault(run, "call %u of rank %u %s left other residuals", slot->call_index, slot->rank,
                  slot->request.status == TT_OK ? "succeeded and" : "failed and");
    }
    rank->kept[call->tensor] = now;
}

/* ---- the oracle ---- */

/* Members of one call. */
typedef struct coded_members {
    const call_slot *slots[SCENARIO_SIZE_MAX]; /* NULL: joined */
    const coded_record *records[SCENARIO_SIZE_MAX];
    tt_codec_draw draws[SCENARIO_SIZE_MAX];
    const coded_record *first;
} coded_members;

static void find_slots(const simulation *run, uint32_t call_index, coded_members *members)
{
    *members = (coded_members){.first = NULL};
    for (uint32_t i = 0; i < run->slot_count; i++) {
        const call_slot *slot = &run->slots[i];
        if (slot->call_index == call_index && !slot->is_join) {
            members->slots[slot->member] = slot;
            members->records[slot->member] = slot->record;
            if (slot->record != NULL && slot->request.status == TT_OK && slot->finished_count > 0) {
                members->first = slot->record;
            }
        }
    }
}

static bool is_one_op(const coded_record *a, const coded_record *b)
{
    return a->set == b->set && a->draw.tensor == b->draw.tensor &&
           a->draw.occurrence == b->draw.occurrence;
}

/* False: some member has no record: it has died, or lost a rank. Those of a rank that has joined
 * are found by their number, which differs after a call for which there was no memory. */
static bool find_records(const simulation *run, const scenario_call *call, coded_members *members)
{
    for (uint32_t m = 0; m < call->one.size; m++) {
        const uint32_t rank = run->what->members[call->set][m];
        const coded_record *found = run->ranks[rank].records;
        while (members->slots[m] == NULL && found != NULL &&
               !(found->is_identity && is_one_op(found, members->first))) {
            found = found->next;
        }
        if (members->slots[m] == NULL) {
            members->records[m] = tt_sim_has_starved(run->sim) ? NULL : found;
        }
        if (members->records[m] == NULL) {
            return false;
        }
        members->draws[m] = members->records[m]->draw;
    }
    return true;
}

/* All floats and values of one call. */
static void *room_take(uint8_t **room, uint64_t bytes)
{
    void *taken = *room;
    *room += tt_round_up(bytes, sizeof(uint64_t));
    return taken;
}

static void compare(simulation *run, const call_slot *slot, const copied *had, const float *after,
                    const char *what)
{
    if (had->count > 0 && memcmp(had->after, after, had->count * sizeof(float)) != 0) {
        run_fault(run, "call %u of rank %u left another residual of %s than the oracle",
                  slot->call_index, slot->rank, what);
    }
}

static void judge_member(simulation *run, const call_slot *slot, const coded_call *call,
                         const coded_buffers *expected)
{
    const uint64_t bytes =
        coded_output_count(call, slot->call->one.size, slot->member) * tt_dtype_bytes(call->dtype);
    if (slot->request.status != TT_OK || slot->finished_count == 0 ||
        run->ranks[slot->rank].is_dead) {
        return;
    }
    if (slot->output_hash != tt_hash64(expected->output, bytes, 7)) {
        run_fault(run, "call %u of rank %u: another result than the oracle's", slot->call_index,
                  slot->rank);
    }
    compare(run, slot, &slot->record->input, expected->residual_out, "its values");
    compare(run, slot, &slot->record->owner, expected->owner_residual_out, "its sums");
    compare(run, slot, &slot->record->estimate, expected->estimate_out, "the others' values");
}

static void judge_members(simulation *run, const scenario_call *call, const coded_members *members)
{
    const collective_case *one = &call->one;
    const uint32_t size = one->size;
    const coded_call sum = {.hosts = members->first->has_rails ? &members->first->hosts : NULL,
                            .codec = &members->first->spec,
                            .owner_block = call->codec->scheme.block,
                            .collective = one->collective,
                            .dtype = one->dtype,
                            .redop = one->redop,
                            .count = one->count,
                            .prescale = (float)one->prescale,
                            .postscale = one->postscale,
                            .draws = members->draws};
    const uint64_t inputs = coded_input_count(&sum, size);
    const uint64_t width = sizeof(double); /* more than any of the types */
    uint8_t *memory = calloc(size, 5 * (inputs + 2) * width), *room = memory;
    coded_buffers buffers[SCENARIO_SIZE_MAX];
    TT_ASSERT(memory != NULL);
    for (uint32_t m = 0; m < size; m++) {
        const coded_record *record = members->records[m];
        void *input = room_take(&room, inputs * width);
        if (!record->is_identity) {
            case_fill_input(one, m, input);
        }
        buffers[m] = (coded_buffers){.input = input, .output = room_take(&room, inputs * width)};
        if (record->input.count > 0) {
            TT_ASSERT(record->input.count == inputs);
            buffers[m].residual = record->input.before;
        }
        buffers[m].owner_residual = record->owner.before;
        buffers[m].residual_out = room_take(&room, inputs * width);
        if (sum.hosts != NULL && buffers[m].residual != NULL) { /* those of other rails stay */
            memcpy(buffers[m].residual_out, buffers[m].residual, inputs * sizeof(float));
        }
        buffers[m].owner_residual_out = room_take(&room, inputs * width);
        buffers[m].estimate = record->estimate.before;
        buffers[m].estimate_out = room_take(&room, inputs * width);
    }
    coded_expect(&sum, size, buffers);
    run->result.coded_count++;
    for (uint32_t m = 0; m < size; m++) {
        if (members->slots[m] != NULL) {
            judge_member(run, members->slots[m], &sum, &buffers[m]);
        }
    }
    free(memory);
}

/* ---- occurrences ---- */

/* True: some member may not have counted a call, or has forgotten some. */
static bool may_differ(const simulation *run, const scenario_call *call)
{
    const scenario *what = run->what;
    bool may = tt_sim_has_starved(run->sim) || (what->removes_sets && call->set != 0);
    for (uint32_t i = 0; i < what->act_count; i++) {
        const act_kind kind = what->acts[i].kind; /* none after the last call of a rank */
        may = may || kind == ACT_DRIFT || kind == ACT_RESET;
    }
    for (uint32_t i = 0; i < what->set_size[call->set]; i++) {
        const sim_rank_state *rank = &run->ranks[what->members[call->set][i]];
        may = may || rank->is_dead || rank->is_severed || rank->has_left;
    }
    for (uint32_t i = 0; i < what->call_count; i++) {
        const scenario_call *other = &what->calls[i];
        may = may || (other->codec == call->codec && other->flaw != FLAW_NONE &&
                      other->flaw != FLAW_CANCEL && other->flaw != FLAW_CODEC);
    }
    return may;
}

static void judge_occurrences(simulation *run, const scenario_call *call)
{
    const uint32_t *members = run->what->members[call->set];
    const tt_feedback *first = feedback_of(&run->ranks[members[0]], call);
    if (!scenario_keeps_state(call) || may_differ(run, call)) {
        return;
    }
    for (uint32_t i = 1; i < call->one.size; i++) {
        const tt_feedback *own = feedback_of(&run->ranks[members[i]], call);
        const uint64_t a = first != NULL ? first->occurrences : 0;
        const uint64_t b = own != NULL ? own->occurrences : 0;
        const bool has_acts = run->what->act_count > 0; /* a rank does none after its last call */
        if (!has_acts && (first != NULL ? first->stamp : 0) != (own != NULL ? own->stamp : 0)) {
            run_fault(run, "tensor %u of set %u: ranks %u and %u have different stamps",
                      call->tensor, call->set, members[0], members[i]);
        }
        if (a != b) {
            run_fault(run, "tensor %u of set %u: rank %u counts %llu calls, rank %u %llu",
                      call->tensor, call->set, members[0], (unsigned long long)a, members[i],
                      (unsigned long long)b);
        }
    }
}

void judge_coded(simulation *run)
{
    const scenario *what = run->what;
    for (uint32_t i = 0; i < what->call_count; i++) {
        const scenario_call *call = &what->calls[i];
        coded_members members;
        if (call->codec == NULL) {
            continue;
        }
        find_slots(run, i, &members);
        if (members.first != NULL && find_records(run, call, &members)) {
            judge_members(run, call, &members);
        }
        judge_occurrences(run, call);
    }
}

/* ---- acts ---- */

/* One call of every tensor that keeps state, on sets of this rank. */
static const scenario_call *tensor_next(const sim_rank_state *rank, uint32_t *tensor_io)
{
    const scenario *what = rank->simulation->what;
    for (; *tensor_io < SCENARIO_TENSORS_MAX; ++*tensor_io) {
        for (uint32_t i = 0; i < what->call_count; i++) {
            const scenario_call *call = &what->calls[i];
            uint32_t member;
            if (scenario_keeps_state(call) && call->tensor == *tensor_io &&
                scenario_is_member(what, call->set, rank->rank, &member)) {
                return call;
            }
        }
    }
    return NULL;
}

/* Saves, forgets, and loads; what has no name is not saved. */
static tt_status resume(const sim_rank_state *rank, tt_text *text)
{
    tt_control *control = rank->control;
    size_t bytes = 0;
    TT_TRY(tt_control_codec_save(control, NULL, 0, &bytes, text));
    uint8_t *saved = malloc(bytes);
    TT_ASSERT(saved != NULL);
    tt_status status = tt_control_codec_save(control, saved, bytes, &bytes, text);
    uint32_t tensor = 0;
    for (const scenario_call *call = tensor_next(rank, &tensor); call != NULL;
         tensor++, call = tensor_next(rank, &tensor)) {
        char name[16];
        (void)snprintf(name, sizeof(name), "tensor %u", tensor);
        if (call->is_named && status == TT_OK) {
            status = tt_control_codec_reset(control, call->set, name, text);
        }
    }
    if (status == TT_OK) {
        status = tt_control_codec_load(control, saved, bytes, text);
    }
    free(saved);
    return status;
}

static tt_status act_do(sim_rank_state *rank, const scenario_act *act, tt_text *text)
{
    tt_control *control = rank->control;
    switch (act->kind) {
    case ACT_COMMIT:
        tt_control_codec_commit(control);
        return TT_OK;
    case ACT_UNDO:
        tt_control_codec_undo(control);
        return TT_OK;
    case ACT_DRIFT:
        return rank->rank == act->rank ? tt_control_codec_reset(control, 0, NULL, text) : TT_OK;
    case ACT_RESET:
        return tt_control_codec_reset(control, 0, NULL, text);
    case ACT_RESUME:
        return resume(rank, text);
    default:
        rank->unit *= 2.0;
        return tt_control_codec_unit(control, rank->unit, text);
    }
}

/* Checks what an act made of the residuals of one tensor. */
static void judge_act(sim_rank_state *rank, const scenario_act *act, const scenario_call *call)
{
    coded_state *kept = &rank->kept[call->tensor], *committed = &rank->committed[call->tensor];
    const coded_state now = state_of(rank, call);
    const bool resets =
        act->kind == ACT_RESET || (act->kind == ACT_DRIFT && act->rank == rank->rank);
    coded_state expected = *kept;
    if (resets || !kept->is_known) {
        expected = (coded_state){.is_known = resets};
    } else if (act->kind == ACT_UNDO && rank->has_commits) {
        expected = *committed;
    }
    if (act->kind != ACT_UNIT && expected.is_known && !is_same(rank->simulation, &expected, &now)) {
        run_fault(rank->simulation, "rank %u: other residuals of tensor %u than before the last %s",
                  rank->rank, call->tensor, act->kind == ACT_UNDO ? "commit" : "act");
    }
    *kept = now;
    if (act->kind == ACT_COMMIT || resets || (act->kind == ACT_RESUME && call->is_named)) {
        *committed = now;
    }
    if (act->kind == ACT_UNIT) { /* these are multiplied, too */
        committed->is_known =
            committed->input == 0 && committed->owner == 0 && committed->estimate == 0;
    }
}

void coded_act(sim_rank_state *rank, const scenario_act *act)
{
    simulation *run = rank->simulation;
    tt_text text = {0};
    const double norm = tt_control_codec_norm(rank->control);
    const tt_status status = act_do(rank, act, &text);
    const double scaled = tt_control_codec_norm(rank->control);
    uint32_t tensor = 0;
    if (status != TT_OK) {
        run_fault(run, "rank %u: %s", rank->rank, text.bytes);
        return;
    }
    if (act->kind == ACT_UNIT && fabs(scaled - 2.0 * norm) > 1e-6 * scaled) {
        run_fault(run, "rank %u: the residuals are not in the new unit", rank->rank);
    }
    if (act->kind == ACT_COMMIT && !rank->has_commits) {
        rank->has_commits = true;
        for (uint32_t i = 0; i < SCENARIO_TENSORS_MAX; i++) { /* of those that come: none */
            rank->committed[i] = (coded_state){.is_known = true};
        }
    }
    for (const scenario_call *call = tensor_next(rank, &tensor); call != NULL;
         tensor++, call = tensor_next(rank, &tensor)) {
        judge_act(rank, act, call);
    }
}
