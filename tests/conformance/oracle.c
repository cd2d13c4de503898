/* SPDX-License-Identifier: Apache-2.0
 *
 * oracle.c - see oracle.h. */
#include "conformance/oracle.h"

#include <stdio.h>
#include <string.h>

bool oracle_is_reduction(tutti_collective collective)
{
    return collective == TUTTI_ALLREDUCE || collective == TUTTI_REDUCE ||
           collective == TUTTI_REDUCESCATTER;
}

static bool is_float(tutti_dtype dtype)
{
    return dtype >= TUTTI_F16 && dtype <= TUTTI_F64;
}

bool oracle_allows(tutti_dtype dtype, tutti_op op)
{
    return dtype == TUTTI_BOOL ? op != TUTTI_AVERAGE : !is_float(dtype) || op < TUTTI_AND;
}

/* ---- lengths ---- */

static bool is_gather(const oracle_case *one)
{
    return one->collective == TUTTI_ALLGATHER || one->collective == TUTTI_GATHER;
}

uint64_t oracle_part(const oracle_case *one, int from, int to)
{
    if (!one->is_uneven) {
        return one->count;
    }
    const uint64_t row = is_gather(one) || one->collective == TUTTI_ALLTOALL ? (uint64_t)from : 0;
    const uint64_t column = is_gather(one) ? 0 : (uint64_t)to;
    return one->count * (row + 2 * column + 1) % (2 * one->count + 1);
}

static uint64_t outgoing(const oracle_case *one, int from, int end)
{
    uint64_t sum = 0;
    for (int to = 0; to < end; to++) {
        sum += oracle_part(one, from, to);
    }
    return sum;
}

static uint64_t incoming(const oracle_case *one, int to, int end)
{
    uint64_t sum = 0;
    for (int from = 0; from < end; from++) {
        sum += oracle_part(one, from, to);
    }
    return sum;
}

uint64_t oracle_own_offset(const oracle_case *one, int rank)
{
    return incoming(one, rank, rank);
}

uint64_t oracle_input_count(const oracle_case *one, int rank)
{
    switch (one->collective) {
    case TUTTI_BROADCAST:
        return rank == one->root ? one->count : 0;
    case TUTTI_SCATTER:
        return rank == one->root ? outgoing(one, rank, one->size) : 0;
    case TUTTI_REDUCESCATTER:
    case TUTTI_ALLTOALL:
        return outgoing(one, rank, one->size);
    case TUTTI_ALLGATHER:
    case TUTTI_GATHER:
        return oracle_part(one, rank, 0);
    case TUTTI_BARRIER:
        return 0;
    default:
        return one->count;
    }
}

uint64_t oracle_output_count(const oracle_case *one, int rank)
{
    switch (one->collective) {
    case TUTTI_REDUCE:
        return rank == one->root ? one->count : 0;
    case TUTTI_SCATTER:
    case TUTTI_REDUCESCATTER:
        return oracle_part(one, one->root, rank);
    case TUTTI_GATHER:
        return rank == one->root ? incoming(one, rank, one->size) : 0;
    case TUTTI_ALLGATHER:
    case TUTTI_ALLTOALL:
        return incoming(one, rank, one->size);
    case TUTTI_BARRIER:
        return 0;
    default:
        return one->count;
    }
}

/* ---- values ---- */

static uint64_t noise(uint64_t seed, uint64_t index)
{
    uint64_t bits = seed * UINT64_C(0x9e3779b97f4a7c15) + index * UINT64_C(0xd1342543de82ef95);
    bits ^= bits >> 32;
    bits *= UINT64_C(0xd6e8feb86659fd93);
    return bits ^ bits >> 32;
}

static int64_t wrap(tutti_dtype dtype, int64_t value)
{
    switch (dtype) {
    case TUTTI_U8:
        return (uint8_t)value;
    case TUTTI_I8:
        return (int8_t)value;
    case TUTTI_U16:
        return (uint16_t)value;
    case TUTTI_I16:
        return (int16_t)value;
    case TUTTI_I32:
        return (int32_t)value;
    default:
        return value;
    }
}

/* Input of `rank` at `index`. */
static int64_t value_of(const oracle_case *one, int rank, uint64_t index)
{
    const uint64_t bits = noise(one->seed + (uint64_t)rank * 7919, index);
    if (is_float(one->dtype)) {
        const bool multiplies = oracle_is_reduction(one->collective) && one->op == TUTTI_PRODUCT;
        const bool divides = oracle_is_reduction(one->collective) && one->op == TUTTI_AVERAGE;
        const int64_t small = (int64_t)(bits % 7) - 3;
        return multiplies ? 1 + (int64_t)(bits % 2) : small * (divides ? one->size : 1);
    }
    if (one->dtype == TUTTI_BOOL) {
        static const int64_t bytes[] = {0, 1, 0, 2, 255, 0, 1};
        return one->size > 1 ? bytes[bits % 7] : bytes[bits % 2]; /* a lone rank's are copied */
    }
    return wrap(one->dtype, (int64_t)bits);
}

static uint16_t half_of(double value, int exponent_bits)
{
    /* Small whole numbers and halves of them: normal, and exact in either format. */
    const int mantissa_bits = 15 - exponent_bits;
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    const uint64_t sign = bits >> 63;
    const int64_t exponent = (int64_t)(bits >> 52 & 0x7ff) - 1023 + (1 << (exponent_bits - 1)) - 1;
    const uint64_t mantissa = bits >> (52 - mantissa_bits) & ((UINT64_C(1) << mantissa_bits) - 1);
    if (value == 0.0) {
        return (uint16_t)(sign << 15);
    }
    return (uint16_t)(sign << 15 | (uint64_t)exponent << mantissa_bits | mantissa);
}

static void put_float(tutti_dtype dtype, void *target, uint64_t index, double value)
{
    const float single = (float)value;
    const uint16_t half = half_of(value, dtype == TUTTI_F16 ? 5 : 8);
    const void *from = dtype == TUTTI_F64   ? (const void *)&value
                       : dtype == TUTTI_F32 ? (const void *)&single
                                            : (const void *)&half;
    const size_t bytes = tutti_dtype_bytes(dtype);
    memcpy((uint8_t *)target + index * bytes, from, bytes);
}

static void put_integer(tutti_dtype dtype, void *target, uint64_t index, int64_t value)
{
    const size_t bytes = tutti_dtype_bytes(dtype);
    memcpy((uint8_t *)target + index * bytes, &value, bytes); /* little-endian */
}

static void put_value(const oracle_case *one, void *target, uint64_t at, int rank, uint64_t index)
{
    const int64_t value = value_of(one, rank, index);
    if (is_float(one->dtype)) {
        put_float(one->dtype, target, at, (double)value);
    } else {
        put_integer(one->dtype, target, at, value);
    }
}

/* ---- arithmetic ---- */

static int64_t scale_integer(tutti_dtype dtype, int64_t value, double factor)
{
    const int bits = 8 * (int)tutti_dtype_bytes(dtype);
    const bool is_unsigned = dtype == TUTTI_U8 || dtype == TUTTI_U16;
    if (factor == 1.0) {
        return value;
    }
    const double scaled = (double)value * factor;
    const int64_t high = is_unsigned ? (INT64_C(1) << bits) - 1 : INT64_MAX >> (64 - bits);
    const int64_t low = is_unsigned ? 0 : -high - 1;
    if (scaled >= (double)high) {
        return high;
    }
    return scaled <= (double)low ? low : (int64_t)scaled;
}

static int64_t combine(tutti_dtype dtype, tutti_op op, int64_t a, int64_t b)
{
    if (dtype == TUTTI_BOOL) {
        const bool both = op == TUTTI_MIN || op == TUTTI_PRODUCT || op == TUTTI_AND;
        const int x = a != 0, y = b != 0;
        return op == TUTTI_XOR ? x ^ y : both ? x & y : x | y;
    }
    switch (op) {
    case TUTTI_MIN:
        return a < b ? a : b;
    case TUTTI_MAX:
        return a > b ? a : b;
    case TUTTI_PRODUCT:
        return wrap(dtype, (int64_t)((uint64_t)a * (uint64_t)b));
    case TUTTI_AND:
        return a & b;
    case TUTTI_OR:
        return a | b;
    case TUTTI_XOR:
        return a ^ b;
    default:
        return wrap(dtype, (int64_t)((uint64_t)a + (uint64_t)b));
    }
}

static void put_reduced_integer(const oracle_case *one, void *target, uint64_t at, uint64_t index)
{
    int64_t sum = 0;
    for (int rank = 0; rank < one->size; rank++) {
        int64_t value = value_of(one, rank, index);
        if (one->dtype != TUTTI_BOOL) {
            value = scale_integer(one->dtype, value, one->prescale);
        }
        sum = rank == 0 ? value : combine(one->dtype, one->op, sum, value);
    }
    if (one->dtype == TUTTI_BOOL) {
        sum = sum != 0;
    } else {
        sum = one->op == TUTTI_AVERAGE ? sum / one->size : sum;
        sum = scale_integer(one->dtype, sum, one->postscale);
    }
    put_integer(one->dtype, target, at, sum);
}

static void put_reduced_float(const oracle_case *one, void *target, uint64_t at, uint64_t index)
{
    double sum = 0.0;
    for (int rank = 0; rank < one->size; rank++) {
        const double value = (double)value_of(one, rank, index) * one->prescale;
        const double lower = value < sum ? value : sum, higher = value > sum ? value : sum;
        sum = rank == 0                  ? value
              : one->op == TUTTI_MIN     ? lower
              : one->op == TUTTI_MAX     ? higher
              : one->op == TUTTI_PRODUCT ? sum * value
                                         : sum + value;
    }
    sum = one->op == TUTTI_AVERAGE ? sum / one->size : sum;
    put_float(one->dtype, target, at, sum * one->postscale);
}

/* ---- buffers ---- */

void oracle_fill_input(const oracle_case *one, int rank, void *input)
{
    const uint64_t count = oracle_input_count(one, rank);
    for (uint64_t i = 0; i < count; i++) {
        put_value(one, input, i, rank, i);
    }
}

void oracle_fill_expected(const oracle_case *one, int rank, void *output)
{
    const uint64_t count = oracle_output_count(one, rank);
    const bool is_parted =
        one->collective == TUTTI_SCATTER || one->collective == TUTTI_REDUCESCATTER;
    const uint64_t first = is_parted ? outgoing(one, one->root, rank) : 0;
    if (is_gather(one) || one->collective == TUTTI_ALLTOALL) {
        uint64_t at = 0;
        for (int from = 0; from < one->size && count > 0; from++) {
            const uint64_t offset = is_gather(one) ? 0 : outgoing(one, from, rank);
            for (uint64_t i = 0; i < oracle_part(one, from, rank); i++) {
                put_value(one, output, at++, from, offset + i);
            }
        }
        return;
    }
    for (uint64_t i = 0; i < count; i++) {
        if (!oracle_is_reduction(one->collective)) {
            put_value(one, output, i, one->root, first + i);
        } else if (is_float(one->dtype)) {
            put_reduced_float(one, output, i, first + i);
        } else {
            put_reduced_integer(one, output, i, first + i);
        }
    }
}

void oracle_describe(const oracle_case *one, char *text, size_t bytes)
{
    (void)snprintf(text, bytes, "collective %d dtype %d op %d size %d root %d count %llu%s x%g x%g",
                   (int)one->collective, (int)one->dtype, (int)one->op, one->size, one->root,
                   (unsigned long long)one->count, one->is_uneven ? " uneven" : "", one->prescale,
                   one->postscale);
}
