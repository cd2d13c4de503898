/* SPDX-License-Identifier: Apache-2.0
 *
 * judge_values.c - results of a call that succeeded: the oracle's values, counts of uneven parts,
 * and the same bits on all ranks. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "kernel/half.h"
#include "kernel/hash64.h"
#include "kernel/reduce.h"
#include "simulation/run_internal.h"

/* Ranks that have joined contribute nothing. */
static void fill_expected_of_active(const call_slot *slot, uint8_t *output)
{
    const collective_case *one = &slot->call->one;
    const scenario *what = slot->simulation->what;
    const uint64_t parts = one->collective == TT_REDUCESCATTER ? one->size : 1;
    const size_t width = tt_dtype_bytes(one->dtype), count = one->count * parts;
    uint8_t *sum = calloc(2, count * width + 1), *input = sum + count * width;
    TT_ASSERT(sum != NULL);
    tt_fill_identity(one->dtype, one->redop, sum, count);
    for (uint32_t member = 0; member < one->size; member++) {
        if (scenario_takes_part(what, what->members[slot->call->set][member], slot->call->step)) {
            case_fill_input(one, member, input);
            tt_scale(one->dtype, input, input, count, one->prescale);
            tt_reduce(one->dtype, one->redop, sum, sum, input, count);
        }
    }
    if (one->redop == TT_AVERAGE) {
        tt_divide(one->dtype, sum, count, one->size);
    }
    tt_scale(one->dtype, sum, sum, count, one->postscale);
    const size_t first = parts > 1 ? slot->member * one->count * width : 0;
    memcpy(output, sum + first, case_output_count(one, slot->member) * width);
    free(sum);
}

/* ---- sums that round ---- */

static double element_of(tt_dtype dtype, const uint8_t *memory, uint64_t index)
{
    const uint8_t *at = memory + index * tt_dtype_bytes(dtype);
    double wide;
    float single;
    uint16_t half;
    switch (dtype) {
    case TT_F64:
        memcpy(&wide, at, sizeof(wide));
        return wide;
    case TT_F32:
        memcpy(&single, at, sizeof(single));
        return single;
    default:
        memcpy(&half, at, sizeof(half));
        return dtype == TT_F16 ? tt_f16_to_f32(half) : tt_bf16_to_f32(half);
    }
}

static double epsilon_of(tt_dtype dtype)
{
    switch (dtype) {
    case TT_F64:
        return DBL_EPSILON;
    case TT_F32:
        return FLT_EPSILON;
    case TT_F16:
        return 0x1p-10;
    default:
        return 0x1p-7;
    }
}

/* Any order of adding is right: every sum rounds by at most half a unit of what was added so far.
 */
static bool is_close(const call_slot *slot, const uint8_t *output)
{
    const collective_case *one = &slot->call->one;
    const scenario *what = slot->simulation->what;
    const uint64_t parts = one->collective == TT_REDUCESCATTER ? one->size : 1;
    const uint64_t count = one->count * parts, own = case_output_count(one, slot->member);
    const uint64_t first = parts > 1 ? slot->member * one->count : 0;
    const double factor =
        one->prescale * one->postscale / (one->redop == TT_AVERAGE ? one->size : 1);
    double *sums = calloc(2, (count + 1) * sizeof(*sums)), *sizes = sums + count + 1;
    uint8_t *input = calloc(1, count * tt_dtype_bytes(one->dtype) + 1);
    bool is_good = true;
    TT_ASSERT(sums != NULL && input != NULL);
    for (uint32_t member = 0; member < one->size; member++) {
        if (!scenario_takes_part(what, what->members[slot->call->set][member], slot->call->step)) {
            continue;
        }
        case_fill_input(one, member, input);
        for (uint64_t i = 0; i < own; i++) {
            const double value = element_of(one->dtype, input, first + i);
            sums[i] += value * factor;
            sizes[i] += fabs(value * factor);
        }
    }
    for (uint64_t i = 0; i < own && is_good; i++) {
        const double room = (one->size + 3) * epsilon_of(one->dtype) * (sizes[i] + 0x1p-14);
        is_good = fabs(element_of(one->dtype, output, i) - sums[i]) <= room;
    }
    free(input);
    free(sums);
    return is_good;
}

/* ---- messages ---- */

/* True: `sent` is a message that the receive may have taken from its source. */
static bool may_be_taken(const call_slot *slot, const call_slot *sent)
{
    const scenario_call *call = sent->call;
    return call->one.collective == TT_SEND && !sent->is_receive && !sent->is_taken &&
           call->set == slot->call->set && call->tag == slot->call->tag &&
           (int)sent->member == slot->source &&
           (sent->member + 1 + call->shift) % call->one.size == slot->member;
}

/* One of the messages that its source has sent to it, and that was not received before. */
static bool is_a_message(const call_slot *slot, const uint8_t *output, size_t bytes)
{
    simulation *run = slot->simulation;
    uint8_t *expected = calloc(1, bytes + 1);
    bool is_found = false;
    TT_ASSERT(expected != NULL);
    for (uint32_t i = 0; i < run->slot_count && !is_found; i++) {
        call_slot *sent = &run->slots[i];
        const collective_case *one = &sent->call->one;
        if (may_be_taken(slot, sent) && one->count * tt_dtype_bytes(one->dtype) == bytes) {
            case_fill_input(one, sent->member, expected);
            is_found = sent->is_taken = bytes == 0 || memcmp(expected, output, bytes) == 0;
        }
    }
    free(expected);
    return is_found;
}

/* ---- the end ---- */

static bool is_right(const call_slot *slot, const uint8_t *output, size_t bytes)
{
    const collective_case *one = &slot->call->one;
    if (slot->record != NULL) {
        return true; /* judge_coded does it when all members' residuals are known */
    }
    if (one->is_rounding) {
        return is_close(slot, output);
    }
    if (slot->is_receive && slot->call->tag != 0) {
        return is_a_message(slot, output, bytes);
    }
    uint8_t *expected = calloc(1, bytes + 1);
    TT_ASSERT(expected != NULL);
    if (slot->simulation->what->has_joins) {
        fill_expected_of_active(slot, expected);
    } else {
        case_fill_expected(one, slot->member, expected);
    }
    const bool is_equal = bytes == 0 || memcmp(expected, output, bytes) == 0;
    free(expected);
    return is_equal;
}

/* For an all-reduce, whose result is the same on all ranks. */
static void judge_bits(const call_slot *slot, const uint8_t *output, size_t bytes)
{
    simulation *run = slot->simulation;
    uint64_t *bits = &run->bits[slot->call_index];
    const uint64_t own = tt_hash64(output, bytes, 7) | 1;
    if (slot->call->one.collective != TT_ALLREDUCE) {
        return;
    }
    if (*bits == 0) {
        *bits = own;
    }
    if (*bits != own) {
        run_fault(run, "call %u of rank %u: other bits than on another rank", slot->call_index,
                  slot->rank);
    }
}

static void judge_counts(const call_slot *slot)
{
    const collective_case *one = &slot->call->one;
    const bool is_own = one->collective == TT_SCATTER || one->collective == TT_REDUCESCATTER;
    const bool is_elsewhere = one->collective == TT_GATHER && slot->member != one->root;
    if (!one->is_uneven || is_elsewhere) {
        return;
    }
    for (uint32_t from = 0; from < (is_own ? 1 : one->size); from++) {
        const uint64_t expected =
            is_own ? case_output_count(one, slot->member) : case_part(one, from, slot->member);
        if (slot->got_counts[from] != expected) {
            run_fault(slot->simulation, "call %u of rank %u: got %llu elements of %u, not %llu",
                      slot->call_index, slot->rank, (unsigned long long)slot->got_counts[from],
                      from, (unsigned long long)expected);
            return;
        }
    }
}

void judge_output(call_slot *slot)
{
    const collective_case *one = &slot->call->one;
    simulation *run = slot->simulation;
    const bool is_culprit = slot->member == slot->call->culprit;
    const bool is_other_call = slot->call->flaw != FLAW_NONE && slot->call->flaw != FLAW_CANCEL &&
                               slot->call->flaw != FLAW_APART;
    if (is_other_call && (is_culprit || one->collective == TT_SEND)) {
        return;
    }
    const bool has_output = one->collective != TT_SEND || slot->is_receive;
    const size_t bytes =
        has_output ? case_output_count(one, slot->member) * tt_dtype_bytes(one->dtype) : 0;
    const uint8_t *output = slot->request.output;
    if (has_output && !is_right(slot, output, bytes)) {
        run_fault(run, "call %u of rank %u: wrong result", slot->call_index, slot->rank);
    }
    for (size_t i = bytes; has_output && i < bytes + SLACK_BYTES; i++) {
        if (output[i] != POISON) {
            run_fault(run, "call %u of rank %u: written beyond the output", slot->call_index,
                      slot->rank);
            break;
        }
    }
    slot->output_hash = tt_hash64(output, bytes, 7);
    judge_bits(slot, output, bytes);
    judge_counts(slot);
    run->result.results_hash =
        tt_hash64(output, bytes, run->result.results_hash + slot->call_index * 64 + slot->rank);
}
