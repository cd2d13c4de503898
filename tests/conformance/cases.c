/* SPDX-License-Identifier: Apache-2.0
 *
 * cases.c - see cases.h. */
#include "conformance/cases.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/registry.h"
#include "base/assert.h"
#include "base/base.h"
#include "conformance/programs.h"
#include "kernel/half.h"
#include "kernel/hash64.h"

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
    (void)snprintf(text, bytes, "%s%s%s %s %s of %llu%s%s root %u on %u ranks, scaled %g %g, by %s",
                   one->program != NULL ? program_name(one->program) : "",
                   one->program != NULL ? ": " : "", tt_collective_name(one->collective),
                   tt_dtype_name(one->dtype), tt_redop_name(one->redop),
                   (unsigned long long)one->count, one->is_uneven ? " uneven" : "",
                   one->is_in_place ? " in place" : "", one->root, one->size, one->prescale,
                   one->postscale, one->algorithm != NULL ? one->algorithm : "choice");
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

/* Values are made a block at a time, so that kind and type are checked once for many of them. */
enum { BLOCK = 256 };

#define ALL_RANKS UINT32_MAX

/* Contribution of the rank from `first` on: small, and within the range of type and operator. */
static void values_of(const collective_case *one, uint32_t rank, uint64_t first, uint64_t count,
                      double *values)
{
    const uint64_t seed = one->salt + rank * 1000003;
    const bool is_product = one->redop == TT_PRODUCT && is_reduction(one->collective);
    const bool is_adasum = one->redop == TT_ADASUM && is_reduction(one->collective);
    const bool is_unsigned = one->dtype == TT_U8 || one->dtype == TT_U16;
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t random = tt_hash64_mix(seed, first + i);
        if (is_product) {
            values[i] = (double)(1 + random % 2);
        } else if (is_adasum) { /* orthogonal, so that the answer is the sum */
            values[i] = (first + i) % one->size == rank ? (double)(1 + random % 3) : 0.0;
        } else if (one->is_rounding) { /* of very different sizes */
            values[i] = ldexp((double)(int64_t)random, -63 - (int)(random % 7));
        } else if (one->dtype == TT_BOOL) {
            values[i] = (double)(random % 2);
        } else {
            values[i] = (double)((int64_t)(random % 6) - (is_unsigned ? 0 : 3));
        }
    }
}

static void put_halves(tt_dtype dtype, uint8_t *target, const double *values, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        const float single = (float)values[i];
        const uint16_t half = dtype == TT_F16 ? tt_f16_from_f32(single) : tt_bf16_from_f32(single);
        memcpy(target + i * sizeof(half), &half, sizeof(half));
    }
}

/* Little-endian: the low bytes come first. */
static void put_integers(tt_dtype dtype, uint8_t *target, const double *values, uint64_t count)
{
    const size_t bytes = tt_dtype_bytes(dtype);
    for (uint64_t i = 0; i < count; i++) {
        const int64_t value = dtype == TT_BOOL ? values[i] != 0.0 : (int64_t)values[i];
        memcpy(target + i * bytes, &value, bytes);
    }
}

static void put(tt_dtype dtype, uint8_t *target, const double *values, uint64_t count)
{
    switch (dtype) {
    case TT_F64:
        memcpy(target, values, count * sizeof(*values));
        break;
    case TT_F32:
        for (uint64_t i = 0; i < count; i++) {
            const float single = (float)values[i];
            memcpy(target + i * sizeof(single), &single, sizeof(single));
        }
        break;
    case TT_F16:
    case TT_BF16:
        put_halves(dtype, target, values, count);
        break;
    default:
        put_integers(dtype, target, values, count);
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

/* As stored: wrapped, then divided, then scaled. */
static double stored_integer(const collective_case *one, double sum)
{
    const int64_t value = (int64_t)sum;
    int64_t stored = 0;
    const size_t width = 8 * tt_dtype_bytes(one->dtype);
    const bool is_unsigned = one->dtype == TT_U8 || one->dtype == TT_U16;
    memcpy(&stored, &value, tt_dtype_bytes(one->dtype));
    if (!is_unsigned && width < 64 && (stored >> (width - 1) & 1) != 0) {
        stored -= INT64_C(1) << width;
    }
    stored /= one->redop == TT_AVERAGE ? (int64_t)one->size : 1;
    return (double)(int64_t)((double)stored * one->postscale);
}

static double finished(const collective_case *one, double sum)
{
    if (one->dtype == TT_BOOL) {
        return sum;
    }
    if (!tt_dtype_is_float(one->dtype)) {
        return stored_integer(one, sum);
    }
    if (one->redop == TT_AVERAGE) {
        sum = one->dtype == TT_F64 ? sum / one->size : (double)((float)sum / (float)one->size);
    }
    return sum * one->postscale;
}

/* Reduced elements of all ranks, at most BLOCK. */
static void reduced(const collective_case *one, uint64_t first, uint64_t count, double *sums)
{
    const bool is_bool = one->dtype == TT_BOOL;
    const bool is_sum = !is_bool && (one->redop == TT_SUM || one->redop == TT_AVERAGE);
    const double factor = is_bool ? (double)(one->prescale != 0.0) : one->prescale;
    double values[BLOCK];
    for (uint32_t rank = 0; rank < one->size; rank++) {
        values_of(one, rank, first, count, rank == 0 ? sums : values);
        double *scaled = rank == 0 ? sums : values;
        for (uint64_t i = 0; i < count; i++) {
            scaled[i] *= factor;
        }
        for (uint64_t i = 0; rank > 0 && i < count; i++) {
            sums[i] = is_sum ? sums[i] + values[i] : combine(one, sums[i], values[i]);
        }
    }
    for (uint64_t i = 0; i < count; i++) {
        sums[i] = finished(one, sums[i]);
    }
}

/* Position of part (from, to) in the input of `from`. */
static uint64_t outgoing_offset(const collective_case *one, uint32_t from, uint32_t to)
{
    uint64_t offset = 0;
    for (uint32_t i = 0; i < to; i++) {
        offset += case_part(one, from, i);
    }
    return offset;
}

/* Contribution of `source` from `first` on; ALL_RANKS: the reduction over all. */
static void fill(const collective_case *one, uint32_t source, uint64_t first, uint64_t count,
                 uint8_t *target)
{
    double values[BLOCK];
    for (uint64_t at = 0; at < count; at += BLOCK) {
        const uint64_t now = tt_min_u64(BLOCK, count - at);
        if (source == ALL_RANKS) {
            reduced(one, first + at, now, values);
        } else {
            values_of(one, source, first + at, now, values);
        }
        put(one->dtype, target + at * tt_dtype_bytes(one->dtype), values, now);
    }
}

void case_fill_input(const collective_case *one, uint32_t rank, void *input)
{
    fill(one, rank, 0, case_input_count(one, rank), input);
}

static void fill_gathered(const collective_case *one, uint32_t rank, uint8_t *output)
{
    for (uint32_t from = 0; from < one->size; from++) {
        const uint64_t offset =
            one->collective == TT_ALLTOALL ? outgoing_offset(one, from, rank) : 0;
        const uint64_t count = case_part(one, from, rank);
        fill(one, from, offset, count, output);
        output += count * tt_dtype_bytes(one->dtype);
    }
}

static void fill_of_program(const collective_case *one, void *output)
{
    const program_oracle what = {.program = one->program,
                                 .dtype = one->dtype,
                                 .size = one->size,
                                 .count = one->count,
                                 .prescale = one->prescale,
                                 .postscale = one->postscale};
    const size_t bytes = one->count * tt_dtype_bytes(one->dtype);
    const void *inputs[CASE_SIZE_MAX];
    uint8_t *memory = malloc(one->size * bytes + 1);
    TT_ASSERT(memory != NULL);
    for (uint32_t rank = 0; rank < one->size; rank++) {
        case_fill_input(one, rank, memory + rank * bytes);
        inputs[rank] = memory + rank * bytes;
    }
    program_expect(&what, inputs, output);
    free(memory);
}

void case_fill_expected(const collective_case *one, uint32_t rank, void *output)
{
    if (one->program != NULL) {
        fill_of_program(one, output);
        return;
    }
    const uint64_t count = case_output_count(one, rank);
    uint64_t offset = 0;
    uint32_t source = one->root;
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
    case TT_SEND:
        source = (rank + one->size - 1) % one->size;
        break;
    default:
        break;
    }
    fill(one, is_reduction(one->collective) ? ALL_RANKS : source, offset, count, output);
}
