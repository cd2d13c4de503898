/* SPDX-License-Identifier: Apache-2.0
 *
 * judge.c - what must hold of every run.
 *
 * Results equal the oracle where a call succeeded. A call that is the same on all ranks succeeds
 * unless a member died. A call that is not fails with one status and one text on all ranks, except
 * where a rank's part was over before (rooted calls): that rank hears of it at a later call. An
 * error about a dead rank names a rank that is dead. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/hash64.h"
#include "simulation/run_internal.h"

static bool is_one_sided(tt_collective collective)
{
    return collective == TT_REDUCE || collective == TT_BROADCAST || collective == TT_GATHER ||
           collective == TT_SCATTER || collective == TT_SEND;
}

void judge_output(call_slot *slot)
{
    const collective_case *one = &slot->call->one;
    simulation *run = slot->simulation;
    const bool is_culprit = slot->member == slot->call->culprit;
    const bool is_other_call = slot->call->flaw != FLAW_NONE && slot->call->flaw != FLAW_CANCEL;
    if (is_other_call && (is_culprit || one->collective == TT_SEND)) {
        return;
    }
    const bool has_output = one->collective != TT_SEND || slot->is_receive;
    const size_t bytes =
        has_output ? case_output_count(one, slot->member) * tt_dtype_bytes(one->dtype) : 0;
    uint8_t *expected = calloc(1, bytes + 1);
    TT_ASSERT(expected != NULL);
    if (has_output) {
        case_fill_expected(one, slot->member, expected);
    }
    const uint8_t *output = slot->request.output;
    if (bytes > 0 && memcmp(expected, output, bytes) != 0) {
        run_fault(run, "call %u of rank %u: wrong result", slot->call_index, slot->rank);
    }
    for (size_t i = bytes; has_output && i < bytes + SLACK_BYTES; i++) {
        if (output[i] != POISON) {
            run_fault(run, "call %u of rank %u: written beyond the output", slot->call_index,
                      slot->rank);
            break;
        }
    }
    run->result.results_hash =
        tt_hash64(output, bytes, run->result.results_hash + slot->call_index * 64 + slot->rank);
    free(expected);
}

void judge_poison(simulation *run)
{
    for (uint32_t i = 0; i < run->slot_count; i++) {
        const call_slot *slot = &run->slots[i];
        if (slot->finished_count == 0 || run->ranks[slot->rank].is_dead) {
            continue;
        }
        for (size_t at = 0; at < slot->bytes; at++) {
            if (slot->memory[at] != POISON) {
                run_fault(run, "call %u of rank %u: memory written after its end", slot->call_index,
                          slot->rank);
                break;
            }
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

/* Was there trouble in this set before call `index`, of which a rank may hear late? */
static bool had_trouble(const simulation *run, uint32_t index)
{
    const scenario *what = run->what;
    for (uint32_t i = 0; i < index; i++) {
        if (what->calls[i].set == what->calls[index].set && what->calls[i].flaw != FLAW_NONE) {
            return true;
        }
    }
    return false;
}

static bool names_gone_rank(const simulation *run, const char *text)
{
    const char *at = strstr(text, "rank ");
    unsigned rank;
    return at != NULL && sscanf(at, "rank %u", &rank) == 1 && rank < run->what->size &&
           is_gone(run, rank);
}

/* May a request end like this? NULL: yes. */
static const char *judge_end(const simulation *run, const call_slot *slot, bool is_hit)
{
    const scenario_call *call = slot->call;
    const tt_request *request = &slot->request;
    const bool is_late = strstr(request->error, "an earlier call failed") != NULL;
    switch (request->status) {
    case TT_OK:
        return call->flaw == FLAW_NONE || call->flaw == FLAW_CANCEL || is_hit ||
                       is_one_sided(call->one.collective)
                   ? NULL
                   : "succeeded though the ranks differ";
    case TT_ERR_PEER_DOWN:
        if (!is_hit) {
            return "blames a member though all are there";
        }
        return names_gone_rank(run, request->error) ? NULL : "names a rank that is not dead";
    case TT_ERR_PEER_LEFT:
        return run->what->leaves_early &&
                       (is_hit || had_trouble(run, slot->call_index) || call->flaw != FLAW_NONE)
                   ? NULL
                   : "blames a rank that left when it was done";
    case TT_ERR_MISMATCH:
    case TT_ERR_BAD_ARGUMENT:
    case TT_ERR_CANCELLED:
        if (is_late) {
            return had_trouble(run, slot->call_index) ? NULL : "hears of trouble that never was";
        }
        return call->flaw != FLAW_NONE ? NULL : "fails though the ranks agree";
    default:
        return "unexpected status";
    }
}

/* A rank with a reason of its own, or told a second time, may say other words. */
static bool has_own_words(const call_slot *slot)
{
    return strstr(slot->request.error, "an earlier call failed") != NULL ||
           strstr(slot->request.error, " failed on rank ") != NULL;
}

/* Do two failed requests of one call tell the same? Pairs fail each for itself. */
static bool tell_same(const call_slot *a, const call_slot *b)
{
    if (has_own_words(a) || has_own_words(b)) {
        return true;
    }
    return a->request.status == b->request.status &&
           strcmp(a->request.error, b->request.error) == 0;
}

static void judge_agreement(simulation *run, const call_slot *slot, const call_slot **first)
{
    const bool is_failed = slot->request.status < 0;
    if (!is_failed || slot->call->one.collective == TT_SEND) {
        return;
    }
    if (*first == NULL) {
        *first = slot;
    } else if (!tell_same(*first, slot)) {
        run_fault(run, "call %u: rank %u says '%s', rank %u says '%s'", slot->call_index,
                  (*first)->rank, (*first)->request.error, slot->rank, slot->request.error);
    }
}

static bool is_disturbed(const simulation *run)
{
    const scenario *what = run->what;
    return what->fault_count > 0 || run->options->kill_at_event > 0 || what->gap_ns > 100000000 ||
           what->leaves_early;
}

void judge_calls(simulation *run)
{
    const call_slot *failed[SCENARIO_CALLS_MAX] = {0};
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
        if (!is_disturbed(run)) {
            if (strstr(slot->request.error, "no word from") != NULL) {
                run_fault(run, "call %u: decided before all had claimed", slot->call_index);
            }
            judge_agreement(run, slot, &failed[slot->call_index]);
        }
        run->result.results_hash =
            tt_hash64_mix(run->result.results_hash, (uint64_t)(int64_t)slot->request.status);
    }
}
