/* SPDX-License-Identifier: Apache-2.0
 *
 * cases.c - see cases.h. */
#include "conformance/cases.h"

#include <stdio.h>
#include <string.h>

#include "aggregate/registry.h"
#include "base/base.h"
#include "base/half.h"
#include "base/hash64.h"

static bool is_reduction(tt_collective collective)
{
    return collective == TT_ALLREDUCE || collective == TT_REDUCE || collective == TT_REDUCESCATTER;
}

static bool is_rooted(tt_collective collective)
{
    return collective == TT_REDUCE || collective == TT_BROADCAST || collective == TT_GATHER ||
           collective == TT_SCATTER;
}

static bool has_parts(tt_collective collective)
{
    return collective == TT_ALLGATHER || collective == TT_GATHER || collective == TT_SCATTER ||
           collective == TT_REDUCESCATTER || collective == TT_ALLTOALL;
}

/* ---- enumeration ---- */

static bool may_alias(tt_collective collective)
{
    return collective != TT_SCATTER && collective != TT_REDUCESCATTER && collective != TT_SEND &&
           collective != TT_BARRIER;
}

/* Forms of one (collective, type, operator). */
static void each_form(collective_case one, case_fn *call, void *owner)
{
    static const uint64_t counts[] = {0, 1, 3, 17, 100, 1025};
    for (size_t c = 0; c < TT_ARRAY_COUNT(counts); c++) {
        one.count = counts[c];
        one.is_in_place = one.is_uneven = false;
        one.prescale = one.postscale = 1.0;
        one.root = is_rooted(one.collective) ? (uint32_t)(c % one.size) : 0;
        call(&one, owner);
        if (may_alias(one.collective)) {
            one.is_in_place = true;
            call(&one, owner);
            one.is_in_place = false;
        }
        if (has_parts(one.collective)) {
            one.is_uneven = true;
            call(&one, owner);
            one.is_uneven = false;
        }
        if (is_reduction(one.collective)) {
            one.prescale = one.redop == TT_PRODUCT ? 1.0 : 2.0; /* stays within f16 */
            one.postscale = 0.5;
            one.is_in_place = may_alias(one.collective) && c % 2 == 0;
            call(&one, owner);
        }
    }
}

void cases_for_each(uint32_t size, case_fn *call, void *owner)
{
    for (tt_collective collective = 0; collective < TT_COLLECTIVE_COUNT; collective++) {
        if (collective == TT_RECEIVE || (collective == TT_SEND && size == 1)) {
            continue;
        }
        for (tt_dtype dtype = 0; dtype < TT_DTYPE_COUNT; dtype++) {
            for (tt_redop redop = 0; redop < TT_REDOP_COUNT; redop++) {
                const bool is_wanted =
                    is_reduction(collective) ? tt_redop_allowed(dtype, redop) : redop == TT_SUM;
                if (is_reduction(collective) && redop == TT_ADASUM &&
                    (collective != TT_ALLREDUCE || (size & (size - 1)) != 0)) {
                    continue;
                }
                if (is_wanted && (collective != TT_BARRIER || dtype == TT_U8)) {
                    each_form(
                        (collective_case){
                            .collective = collective, .dtype = dtype, .redop = redop, .size = size},
                        call, owner);
                }
            }
        }
    }
}

void cases_for_each_algorithm(uint32_t size, case_fn *call, void *owner)
{
    for (size_t a = 0; tt_algorithm_at(a) != NULL; a++) {
        for (tt_collective collective = 0; collective < TT_COLLECTIVE_COUNT; collective++) {
            if (collective == TT_RECEIVE || (collective == TT_SEND && size == 1)) {
                continue;
            }
            each_form((collective_case){.collective = collective,
                                        .dtype = TT_F32,
                                        .redop = TT_AVERAGE,
                                        .size = size,
                                        .algorithm = tt_algorithm_at(a)->name,
                                        .salt = a},
                      call, owner);
        }
    }
}

void case_describe(const collective_case *one, char *text, size_t bytes)
{
    (void)snprintf(text, bytes, "%s %s %s of %llu%s%s root %u on %u ranks, scaled %g %g, by %s",
                   tt_collective_name(one->collective), tt_dtype_name(one->dtype),
                   tt_redop_name(one->redop), (unsigned long long)one->count,
                   one->is_uneven ? " uneven" : "", one->is_in_place ? " in place" : "", one->root,
                   one->size, one->prescale, one->postscale,
                   one->algorithm != NULL ? one->algorithm : "choice");
}

/* ---- lengths ---- */

uint64_t case_part(const collective_case *one, uint32_t from, uint32_t to)
{
    if (!one->is_uneven) {
        return one->count;
    }
    const bool is_private = one->collective == TT_ALLTOALL;
    const bool is_gathered = one->collective == TT_ALLGATHER || one->collective == TT_GATHER;
    const uint64_t row = is_private ? from : (is_gathered ? from : 0);
    const uint64_t column = is_gathered ? 0 : to;
    return (one->count * (row + 2 * column + 1)) % (2 * one->count + 1);
}

uint64_t case_input_count(const collective_case *one, uint32_t rank)
{
    uint64_t sum = 0;
    switch (one->collective) {
    case TT_BROADCAST:
        return rank == one->root ? one->count : 0;
    case TT_SCATTER:
    case TT_REDUCESCATTER:
    case TT_ALLTOALL:
        for (uint32_t to = 0; to < one->size; to++) {
            sum += case_part(one, rank, to);
        }
        return one->collective == TT_SCATTER && rank != one->root ? 0 : sum;
    case TT_ALLGATHER:
    case TT_GATHER:
        return case_part(one, rank, 0);
    case TT_BARRIER:
        return 0;
    default:
        return one->count;
    }
}

uint64_t case_output_count(const collective_case *one, uint32_t rank)
{
    uint64_t sum = 0;
    switch (one->collective) {
    case TT_REDUCE:
        return rank == one->root ? one->count : 0;
    case TT_SCATTER:
    case TT_REDUCESCATTER:
        return case_part(one, one->root, rank);
    case TT_ALLGATHER:
    case TT_GATHER:
    case TT_ALLTOALL:
        for (uint32_t from = 0; from < one->size; from++) {
            sum += case_part(one, from, rank);
        }
        return one->collective == TT_GATHER && rank != one->root ? 0 : sum;
    case TT_BARRIER:
        return 0;
    default:
        return one->count;
    }
}

uint64_t case_own_offset(const collective_case *one, uint32_t rank)
{
    uint64_t offset = 0;
    for (uint32_t from = 0; from < rank; from++) {
        offset += case_part(one, from, rank);
    }
    return offset;
}

/* ---- values ---- */

/* What rank contributes at `index`: small, and within what the type and operator bear. */
static int64_t value_of(const collective_case *one, uint32_t rank, uint64_t index)
{
    const uint64_t random = tt_hash64_mix(one->salt + rank * 1000003, index);
    if (one->redop == TT_PRODUCT && is_reduction(one->collective)) {
        return 1 + (int64_t)(random % 2);
    }
    if (one->redop == TT_ADASUM && is_reduction(one->collective)) {
        /* orthogonal, so that the answer is the sum */
        return index % one->size == rank ? 1 + (int64_t)(random % 3) : 0;
    }
    if (one->dtype == TT_BOOL) {
        return (int64_t)(random % 2);
    }
    const bool is_unsigned = one->dtype == TT_U8 || one->dtype == TT_U16;
    return (int64_t)(random % 6) - (is_unsigned ? 0 : 3);
}

static void put_integer(tt_dtype dtype, uint8_t *at, int64_t value)
{
    memcpy(at, &value, tt_dtype_bytes(dtype)); /* little-endian: the low bytes come first */
}

static void put(tt_dtype dtype, void *target, uint64_t index, double value)
{
    uint8_t *at = (uint8_t *)target + index * tt_dtype_bytes(dtype);
    const float single = (float)value;
    uint16_t half;
    switch (dtype) {
    case TT_F64:
        memcpy(at, &value, sizeof(value));
        break;
    case TT_F32:
        memcpy(at, &single, sizeof(single));
        break;
    case TT_F16:
        half = tt_f16_from_f32(single);
        memcpy(at, &half, sizeof(half));
        break;
    case TT_BF16:
        half = tt_bf16_from_f32(single);
        memcpy(at, &half, sizeof(half));
        break;
    case TT_BOOL:
        *at = value != 0.0;
        break;
    default:
        put_integer(dtype, at, (int64_t)value);
        break;
    }
}

static double combine(const collective_case *one, double a, double b)
{
    const int64_t left = (int64_t)a, right = (int64_t)b;
    const bool is_bool = one->dtype == TT_BOOL;
    switch (one->redop) {
    case TT_MIN:
        return a < b ? a : b;
    case TT_MAX:
        return a > b ? a : b;
    case TT_PRODUCT:
        return is_bool ? (double)(left != 0 && right != 0) : a * b;
    case TT_AND:
        return (double)(left & right);
    case TT_OR:
        return (double)(left | right);
    case TT_XOR:
        return (double)(left ^ right);
    default:
        return is_bool ? (double)(left != 0 || right != 0) : a + b;
    }
}

/* The reduced element `index` of all ranks. */
static double reduced(const collective_case *one, uint64_t index)
{
    double sum = 0.0;
    for (uint32_t rank = 0; rank < one->size; rank++) {
        double value = (double)value_of(one, rank, index);
        if (one->dtype == TT_BOOL) {
            value = value != 0.0 && one->prescale != 0.0;
        } else {
            value *= one->prescale;
        }
        sum = rank == 0 ? value : combine(one, sum, value);
    }
    if (one->dtype == TT_BOOL) {
        return sum;
    }
    if (!tt_dtype_is_float(one->dtype)) { /* as stored: wrapped, then divided, then scaled */
        int64_t stored = 0;
        uint8_t bytes[8];
        put_integer(TT_I64, bytes, (int64_t)sum);
        const size_t width = 8 * tt_dtype_bytes(one->dtype);
        const bool is_unsigned = one->dtype == TT_U8 || one->dtype == TT_U16;
        memcpy(&stored, bytes, tt_dtype_bytes(one->dtype));
        if (!is_unsigned && width < 64 && (stored >> (width - 1) & 1) != 0) {
            stored -= INT64_C(1) << width;
        }
        stored /= one->redop == TT_AVERAGE ? (int64_t)one->size : 1;
        return (double)(int64_t)((double)stored * one->postscale);
    }
    if (one->redop == TT_AVERAGE) {
        sum = one->dtype == TT_F64 ? sum / one->size : (double)((float)sum / (float)one->size);
    }
    return sum * one->postscale;
}

/* Position of part (from, to) in what `from` sends. */
static uint64_t outgoing_offset(const collective_case *one, uint32_t from, uint32_t to)
{
    uint64_t offset = 0;
    for (uint32_t i = 0; i < to; i++) {
        offset += case_part(one, from, i);
    }
    return offset;
}

void case_fill_input(const collective_case *one, uint32_t rank, void *input)
{
    const uint64_t count = case_input_count(one, rank);
    for (uint64_t i = 0; i < count; i++) {
        put(one->dtype, input, i, (double)value_of(one, rank, i));
    }
}

static void fill_gathered(const collective_case *one, uint32_t rank, void *output)
{
    uint64_t at = 0;
    for (uint32_t from = 0; from < one->size; from++) {
        const uint64_t offset =
            one->collective == TT_ALLTOALL ? outgoing_offset(one, from, rank) : 0;
        for (uint64_t i = 0; i < case_part(one, from, rank); i++) {
            put(one->dtype, output, at++, (double)value_of(one, from, offset + i));
        }
    }
}

void case_fill_expected(const collective_case *one, uint32_t rank, void *output)
{
    const uint64_t count = case_output_count(one, rank);
    uint64_t offset = 0;
    switch (one->collective) {
    case TT_ALLGATHER:
    case TT_GATHER:
    case TT_ALLTOALL:
        if (count > 0) {
            fill_gathered(one, rank, output);
        }
        return;
    case TT_SCATTER:
    case TT_REDUCESCATTER:
        offset = outgoing_offset(one, one->root, rank);
        break;
    default:
        break;
    }
    for (uint64_t i = 0; i < count; i++) {
        double value;
        if (is_reduction(one->collective)) {
            value = reduced(one, offset + i);
        } else {
            const uint32_t source =
                one->collective == TT_SEND ? (rank + one->size - 1) % one->size : one->root;
            value = (double)value_of(one, source, offset + i);
        }
        put(one->dtype, output, i, value);
    }
}
