/* SPDX-License-Identifier: Apache-2.0
 *
 * judge.c - the rules that every run must keep.
 *
 * Results equal the oracle where a call succeeded. A call that is the same on all ranks succeeds
 * unless a member died. A call that differs fails with one status and one text on all ranks, with
 * two exceptions. Where a rank's part had ended before (rooted calls), a later call of that rank
 * returns the error. Where several ranks object (parts of one group), each may report its own
 * objection. An error about a dead rank names a rank that is dead. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "control/control_internal.h"
#include "kernel/hash64.h"
#include "simulation/run_internal.h"

static bool is_one_sided(tt_collective collective)
{
    return collective == TT_REDUCE || collective == TT_BROADCAST || collective == TT_GATHER ||
           collective == TT_SCATTER || collective == TT_SEND;
}

void judge_join(call_slot *slot)
{
    simulation *run = slot->simulation;
    uint32_t *last = &run->joined_last[slot->call_index];
    if (slot->request.status != TT_OK) {
        return;
    }
    if (*last == 0) {
        *last = slot->request.root + 1;
    }
    if (*last != slot->request.root + 1) {
        run_fault(run, "rank %u got %u as the last to join, another rank %u", slot->rank,
                  slot->request.root, *last - 1);
    }
}

/* DOWN is proof that a process is gone (platform.h), but a severed link of one host leaves a rank
 * that lives, maps the memory, and cannot be asked whether it has stopped storing. */
static bool may_have_strays(const call_slot *slot)
{
    return slot->simulation->ranks[slot->rank].is_parted && slot->call->is_shared &&
           slot->request.status < 0;
}

void judge_poison(simulation *run)
{
    for (uint32_t i = 0; i < run->slot_count; i++) {
        const call_slot *slot = &run->slots[i];
        if (slot->finished_count == 0 || run->ranks[slot->rank].is_dead || may_have_strays(slot)) {
            continue;
        }
        if (slot->bytes > 0 && (slot->memory[0] != POISON || /* each byte equals the one before */
                                memcmp(slot->memory, slot->memory + 1, slot->bytes - 1) != 0)) {
            run_fault(run, "call %u of rank %u: memory written after its end", slot->call_index,
                      slot->rank);
        }
    }
}

/* ---- calls ---- */

static bool is_gone(const simulation *run, uint32_t rank)
{
    return run->ranks[rank].is_dead || run->ranks[rank].is_severed;
}

static bool set_is_hit(const simulation *run, uint32_t set)
{
    for (uint32_t i = 0; i < run->what->set_size[set]; i++) {
        if (is_gone(run, run->what->members[set][i])) {
            return true;
        }
    }
    return false;
}

static bool may_travel_together(const call_slot *a, const call_slot *b)
{
    return a->call->is_named && b->call->is_named && a->call->set == b->call->set;
}

/* True: some rank has waited until its deadline for this call, or for a tensor fused with it. */
static bool has_timed_out(const simulation *run, const call_slot *slot)
{
    for (uint32_t i = 0; i < run->slot_count; i++) {
        const call_slot *other = &run->slots[i];
        const uint64_t deadline_ns = other->call->deadline_ns;
        if (!other->is_join && other->finished_count > 0 && deadline_ns > 0 &&
            (judge_are_grouped(other->call, slot->call) || may_travel_together(other, slot)) &&
            other->finished_ns >= other->submitted_ns + deadline_ns) {
            return true;
        }
    }
    return false;
}

/* A call ends at its deadline, whatever its peers do, unless its rank is stopped, or a peer that
 * may store to its memory cannot be asked whether it has stopped storing. */
static bool is_overdue(const simulation *run, const call_slot *slot)
{
    const uint64_t slack_ns = 200 * 1000 * 1000, deadline_ns = slot->call->deadline_ns;
    const scenario *what = run->what;
    for (uint32_t i = 0; i < what->fault_count; i++) {
        const scenario_fault *fault = &what->faults[i];
        const bool is_away = fault->kind == FAULT_STOP && fault->a == slot->rank;
        const bool is_stored_to = what->sim.has_views && fault->kind != FAULT_KILL;
        if (is_away || is_stored_to) {
            return false;
        }
    }
    return deadline_ns > 0 && slot->finished_ns > slot->submitted_ns + deadline_ns + slack_ns;
}

/* True: a call of this set before `index` may have failed, and a later call may return its error.
 */
static bool had_trouble(const simulation *run, uint32_t index)
{
    const scenario *what = run->what;
    /* Steps overlap; a message may be received by an earlier call. */
    const bool is_any = what->is_named || what->calls[index].tag != 0;
    const uint32_t count = is_any ? what->call_count : index;
    for (uint32_t i = 0; i < count; i++) {
        if (what->calls[i].set == what->calls[index].set &&
            (what->calls[i].flaw != FLAW_NONE || what->calls[i].deadline_ns > 0)) {
            return true;
        }
    }
    return tt_sim_has_starved(run->sim);
}

/* The rank that `text` names first; UINT32_MAX: it names none. */
static uint32_t first_rank(const simulation *run, const char *text)
{
    const char *at = strstr(text, "rank ");
    unsigned rank;
    return at != NULL && sscanf(at, "rank %u", &rank) == 1 && rank < run->what->size ? rank
                                                                                     : UINT32_MAX;
}

static bool names_gone_rank(const simulation *run, const char *text)
{
    const uint32_t rank = first_rank(run, text);
    return rank != UINT32_MAX && is_gone(run, rank);
}

/* A rank without any memory for named calls aborts, and its peers continue without it. */
static bool names_starved_rank(const simulation *run, const char *text)
{
    const uint32_t rank = first_rank(run, text);
    return rank != UINT32_MAX && tt_sim_is_starved(run->sim, rank);
}

/* True: the ranks differ about the call or another of its group, so that none may succeed. */
static bool must_fail(const scenario *what, const scenario_call *call)
{
    const scenario_call *first =
        call->group_size > 0 ? &what->calls[call->step * what->tensor_count] : call;
    const uint32_t count = call->group_size > 0 ? call->group_size : 1;
    bool is_flawed = false;
    for (uint32_t i = 0; i < count; i++) {
        is_flawed = is_flawed || (first[i].flaw != FLAW_NONE && first[i].flaw != FLAW_CANCEL);
        if (is_one_sided(first[i].one.collective)) {
            return false;
        }
    }
    return is_flawed;
}

/* Named tensors are accepted for LEFT_GRACE_NS after a member has left, which must be longer than a
 * frame takes (docs/control.md). True: a stop or a cut outlasted that, and the call ended after
 * it. */
static bool is_past_grace(const simulation *run, const call_slot *slot)
{
    const scenario *what = run->what;
    const uint32_t set = slot->call->set;
    bool is_outlasted = false, is_past = false;
    for (uint32_t i = 0; i < what->fault_count; i++) {
        const scenario_fault *fault = &what->faults[i];
        is_outlasted |= (fault->kind == FAULT_STOP || fault->kind == FAULT_CUT) &&
                        fault->duration_ns >= LEFT_GRACE_NS;
    }
    for (uint32_t i = 0; i < what->set_size[set]; i++) {
        const sim_rank_state *rank = &run->ranks[what->members[set][i]];
        is_past |= rank->has_left && rank->left_ns + LEFT_GRACE_NS <= slot->finished_ns;
    }
    return slot->call->is_named && is_outlasted && is_past;
}

/* NULL: the request may end like this; else the fault. */
static const char *judge_end(const simulation *run, const call_slot *slot, bool is_hit)
{
    const scenario_call *call = slot->call;
    const tt_request *request = &slot->request;
    const bool is_late = judge_is_late(slot);
    const bool is_flawed = scenario_is_flawed(run->what, slot->call_index);
    if (slot->is_join) {
        return request->status == TT_OK || is_hit || run->what->leaves_early ||
                       names_starved_rank(run, request->error)
                   ? NULL
                   : "cannot join";
    }
    switch (request->status) {
    case TT_OK:
        return is_hit || !must_fail(run->what, call) ? NULL : "succeeded though the ranks differ";
    case TT_ERR_PEER_DOWN:
        if (run->what->is_named && names_starved_rank(run, request->error) &&
            first_rank(run, request->error) != slot->rank) { /* the rank itself has the cause */
            return NULL;
        }
        if (!is_hit) {
            return "names a dead rank though all live";
        }
        return names_gone_rank(run, request->error) ? NULL : "names a rank that is not dead";
    case TT_ERR_PEER_LEFT:
        return run->what->leaves_early && (is_hit || had_trouble(run, slot->call_index) ||
                                           is_flawed || is_past_grace(run, slot))
                   ? NULL
                   : "fails for a rank that left when it was done";
    case TT_ERR_TIMED_OUT:
        if (is_late) {
            return had_trouble(run, slot->call_index) ? NULL : "returns a failure that never was";
        }
        return has_timed_out(run, slot) ? NULL : "timed out before its deadline";
    case TT_ERR_NO_MEMORY:
        if (!tt_sim_has_starved(run->sim)) {
            return "lacks memory though there is enough";
        }
        return !run->what->is_named || names_starved_rank(run, request->error)
                   ? NULL
                   : "does not name the rank without memory";
    case TT_ERR_MISMATCH:
    case TT_ERR_BAD_ARGUMENT:
    case TT_ERR_CANCELLED:
        if (is_late) {
            return had_trouble(run, slot->call_index) ? NULL : "returns a failure that never was";
        }
        return is_flawed ? NULL : "fails though the ranks agree";
    default:
        return "unexpected status";
    }
}

/* A rank with a cause of its own may report another text. */
static bool has_own_words(const call_slot *slot)
{
    return judge_is_late(slot) || slot->request.status == TT_ERR_TIMED_OUT ||
           strstr(slot->request.error, "began it as planned") != NULL;
}

/* True: two failed requests of one call have the same error. Pairs fail independently. */
static bool tell_same(const call_slot *a, const call_slot *b)
{
    if (has_own_words(a) || has_own_words(b)) {
        return true;
    }
    return a->request.status == b->request.status &&
           strcmp(a->request.error, b->request.error) == 0;
}

/* True: the error of the failed request is an objection of its own rank. */
static bool tells_own_objection(const simulation *run, const call_slot *slot)
{
    const tt_request *request = &slot->request;
    char cancelled[32], refused[32];
    (void)snprintf(cancelled, sizeof(cancelled), "cancelled by rank %u", slot->rank);
    (void)snprintf(refused, sizeof(refused), "rank %u: ", slot->rank);
    const bool says_cancelled =
        request->status == TT_ERR_CANCELLED && strcmp(request->error, cancelled) == 0;
    const bool says_refused = request->status == TT_ERR_BAD_ARGUMENT &&
                              strncmp(request->error, refused, strlen(refused)) == 0;
    for (uint32_t i = 0; i < run->slot_count && (says_cancelled || says_refused); i++) {
        const call_slot *other = &run->slots[i];
        if (other->rank == slot->rank && !other->is_join && other->is_submitted &&
            other->member == other->call->culprit && judge_are_grouped(other->call, slot->call) &&
            ((says_cancelled && other->is_cancelled) ||
             (says_refused && other->call->flaw == FLAW_ARGUMENT))) {
            return true;
        }
    }
    return false;
}

/* True: the error of a rank is the objection of some rank, with that rank's text. */
static bool is_objection(const simulation *run, const call_slot *told)
{
    for (uint32_t i = 0; i < run->slot_count; i++) {
        const call_slot *slot = &run->slots[i];
        if (slot->call_index == told->call_index && !slot->is_join &&
            slot->request.status == told->request.status &&
            strcmp(slot->request.error, told->request.error) == 0 &&
            tells_own_objection(run, slot)) {
            return true;
        }
    }
    return false;
}

/* `*first`: the request that later ones are compared with; one that has the verdict, as soon as
 * there is one. The call of a rank that objects fails before another's objection arrives; the
 * others wait for the verdict, which is one of the objections. */
static void judge_agreement(simulation *run, const call_slot *slot, const call_slot **first)
{
    const bool is_failed = slot->request.status < 0;
    if (!is_failed || slot->call->one.collective == TT_SEND) {
        return;
    }
    if (*first == NULL) {
        *first = slot;
    } else if (!tell_same(*first, slot)) {
        const bool is_first_own = tells_own_objection(run, *first);
        if ((is_first_own || tells_own_objection(run, slot)) && is_objection(run, *first) &&
            is_objection(run, slot)) {
            *first = is_first_own ? slot : *first;
            return;
        }
        run_fault(run, "call %u: rank %u has '%s', rank %u has '%s'", slot->call_index,
                  (*first)->rank, (*first)->request.error, slot->rank, slot->request.error);
    }
}

static bool is_short_of_claims(const call_slot *slot)
{
    return strstr(slot->request.error, "no claim from") != NULL && !judge_is_late(slot);
}

/* The first member waits for claims for verdict_ns, not for ever: the claim of a rank that makes
 * the call later (an earlier tensor of its program is still open, and long) does not count. True:
 * the call was decided before that time, or with claims missing although every rank had made it. */
static bool is_decided_early(const simulation *run, uint32_t call_index)
{
    const uint64_t claim_ns = 100000000; /* to ask and to answer, some frames sent again */
    uint64_t first = UINT64_MAX, last = 0, decided = UINT64_MAX;
    for (uint32_t i = 0; i < run->slot_count; i++) {
        const call_slot *slot = &run->slots[i];
        if (slot->call_index == call_index && !slot->is_join) {
            first = tt_min_u64(first, slot->submitted_ns);
            last = tt_max_u64(last, slot->submitted_ns);
            decided = is_short_of_claims(slot) ? tt_min_u64(decided, slot->finished_ns) : decided;
        }
    }
    return decided < first + run->what->control.verdict_ns || last + claim_ns < decided;
}

static bool is_disturbed(const simulation *run)
{
    const scenario *what = run->what;
    return what->fault_count > 0 || run->options->kill_at_event > 0 || what->gap_ns > 100000000 ||
           what->leaves_early || tt_sim_has_starved(run->sim);
}

/* The members' caches are equal by construction; only a lack of memory makes them start anew. */
static void judge_caches(simulation *run)
{
    for (uint32_t rank = 0; rank < run->what->size; rank++) {
        for (uint32_t set = 0; set < run->what->set_count; set++) {
            uint32_t member;
            const char *mode;
            if (!scenario_is_member(run->what, set, rank, &member)) {
                continue;
            }
            const tt_negotiate_counters *count =
                tt_control_set_count(run->ranks[rank].control, set, &mode);
            if (count != NULL && count->divergences > 0) {
                run_fault(run, "rank %u: the caches of set %u differ", rank, set);
            }
        }
    }
}

void judge_calls(simulation *run)
{
    const call_slot *failed[SCENARIO_CALLS_MAX] = {0};
    judge_caches(run);
    for (uint32_t i = 0; i < run->slot_count; i++) {
        const call_slot *slot = &run->slots[i];
        if (run->ranks[slot->rank].is_dead || slot->finished_count == 0) {
            continue;
        }
        const char *wrong = judge_end(run, slot, set_is_hit(run, slot->call->set));
        if (wrong != NULL) {
            run_fault(run, "call %u of rank %u (%s: %s): %s", slot->call_index, slot->rank,
                      tt_status_text(slot->request.status), slot->request.error, wrong);
        }
        judge_text(run, slot);
        if (!slot->is_join && is_overdue(run, slot)) {
            run_fault(run, "call %u of rank %u ended %llu ms after its submission",
                      slot->call_index, slot->rank,
                      (unsigned long long)((slot->finished_ns - slot->submitted_ns) / 1000000));
        }
        if (!is_disturbed(run)) {
            if (is_short_of_claims(slot) && is_decided_early(run, slot->call_index)) {
                run_fault(run, "call %u: decided before all had claimed", slot->call_index);
            }
            if (!slot->is_join) {
                judge_agreement(run, slot, &failed[slot->call_index]);
            }
        }
        run->result.results_hash =
            tt_hash64_mix(run->result.results_hash, (uint64_t)(int64_t)slot->request.status);
    }
}
