/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_case.c - data, calls and expected results of the measured collectives.
 *
 * Element i of rank r (for part p) has the residue (i + 3 r + 5 p) mod m, with m = 17 where the
 * type holds every partial sum of such values exactly, and less where it does not. A residue is
 * its own value, except for product (1 or 2, so that nothing overflows). For average all ranks
 * agree, since a quotient would not be exact. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "cli/bench/bench.h"
#include "kernel/half.h"

enum { PERIOD_MAX = 17, ELEMENT_BYTES_MAX = 8, POISON = 0x5a };

typedef struct value_table {
    uint8_t bytes[PERIOD_MAX][ELEMENT_BYTES_MAX];
} value_table;

typedef struct measured {
    const char *name;
    tutti_collective collective;
} measured;

static const measured collectives[] = {
    {"allreduce", TUTTI_ALLREDUCE}, {"broadcast", TUTTI_BROADCAST},
    {"allgather", TUTTI_ALLGATHER}, {"reducescatter", TUTTI_REDUCESCATTER},
    {"alltoall", TUTTI_ALLTOALL},   {"sendrecv", TUTTI_SEND},
    {"barrier", TUTTI_BARRIER},
};

bool tt_bench_find(const char *name, tutti_collective *collective_out)
{
    for (size_t i = 0; i < TT_ARRAY_COUNT(collectives); i++) {
        if (strcmp(collectives[i].name, name) == 0) {
            *collective_out = collectives[i].collective;
            return true;
        }
    }
    return false;
}

const char *tt_bench_name(tutti_collective collective)
{
    for (size_t i = 0; i < TT_ARRAY_COUNT(collectives); i++) {
        if (collectives[i].collective == collective) {
            return collectives[i].name;
        }
    }
    return "?";
}

bool tt_bench_reduces(tutti_collective collective)
{
    return collective == TUTTI_ALLREDUCE || collective == TUTTI_REDUCESCATTER;
}

/* The largest sum, (m - 1) * size, must be an integer that the type holds exactly. */
static uint64_t period(const tt_bench_plan *plan)
{
    if (plan->dtype == TUTTI_BOOL) {
        return 2;
    }
    const int exact = plan->dtype == TUTTI_BF16 ? 256 : plan->dtype == TUTTI_F16 ? 2048 : 1 << 24;
    const int fitting = exact / plan->size + 1;
    return (uint64_t)(fitting < 2 ? 2 : fitting < PERIOD_MAX ? fitting : PERIOD_MAX);
}

static uint64_t rank_shift(const tt_bench_plan *plan, int rank)
{
    const bool agrees = tt_bench_reduces(plan->collective) && plan->op == TUTTI_AVERAGE;
    return agrees ? 0 : 3 * (uint64_t)rank;
}

static int64_t residue_value(const tt_bench_plan *plan, uint64_t residue)
{
    const bool multiplies = tt_bench_reduces(plan->collective) && plan->op == TUTTI_PRODUCT &&
                            plan->dtype != TUTTI_BOOL;
    return multiplies ? 1 + (residue == 0) : (int64_t)residue;
}

static void encode(tutti_dtype dtype, int64_t value, uint8_t *target)
{
    const uint64_t bits = (uint64_t)value;
    const float single = (float)value;
    const double wide = (double)value;
    const uint16_t half = dtype == TUTTI_F16 ? tt_f16_from_f32(single) : tt_bf16_from_f32(single);
    switch (dtype) {
    case TUTTI_F16:
    case TUTTI_BF16:
        memcpy(target, &half, sizeof(half));
        break;
    case TUTTI_F32:
        memcpy(target, &single, sizeof(single));
        break;
    case TUTTI_F64:
        memcpy(target, &wide, sizeof(wide));
        break;
    default: /* little-endian: the low bytes are the wrapped value */
        memcpy(target, &bits, tutti_dtype_bytes(dtype));
        break;
    }
}

static int64_t combine(const tt_bench_plan *plan, int64_t a, int64_t b)
{
    const bool is_bool = plan->dtype == TUTTI_BOOL;
    switch (plan->op) {
    case TUTTI_SUM:
    case TUTTI_AVERAGE:
    case TUTTI_ADASUM:
        return is_bool ? (a | b) : a + b;
    case TUTTI_MIN:
        return a < b ? a : b;
    case TUTTI_MAX:
        return a > b ? a : b;
    case TUTTI_PRODUCT:
        return a * b;
    case TUTTI_AND:
        return a & b;
    case TUTTI_OR:
        return a | b;
    case TUTTI_XOR:
        return a ^ b;
    }
    return 0;
}

/* Sums of average are P times the same small value; narrow integers wrap before the division. */
static int64_t divide(const tt_bench_plan *plan, int64_t sum)
{
    switch (plan->dtype) {
    case TUTTI_U8:
        return (uint8_t)sum / plan->size;
    case TUTTI_I8:
        return (int8_t)sum / plan->size;
    case TUTTI_U16:
        return (uint16_t)sum / plan->size;
    case TUTTI_I16:
        return (int16_t)sum / plan->size;
    default:
        return sum / plan->size;
    }
}

static void make_input_table(const tt_bench_plan *plan, value_table *table)
{
    for (uint64_t i = 0; i < period(plan); i++) {
        encode(plan->dtype, residue_value(plan, i), table->bytes[i]);
    }
}

static void make_reduced_table(const tt_bench_plan *plan, value_table *table)
{
    const uint64_t m = period(plan);
    for (uint64_t i = 0; i < m; i++) {
        int64_t value = residue_value(plan, (i + rank_shift(plan, 0)) % m);
        for (int rank = 1; rank < plan->size; rank++) {
            value = combine(plan, value, residue_value(plan, (i + rank_shift(plan, rank)) % m));
        }
        if (plan->op == TUTTI_AVERAGE) {
            value = divide(plan, value);
        }
        encode(plan->dtype, value, table->bytes[i]);
    }
}

static void fill_run(const tt_bench_plan *plan, const value_table *table, uint8_t *target,
                     uint64_t count, uint64_t shift)
{
    const size_t bytes = tutti_dtype_bytes(plan->dtype);
    const uint64_t m = period(plan);
    uint64_t residue = shift % m;
    for (uint64_t i = 0; i < count; i++) {
        memcpy(target + i * bytes, table->bytes[residue], bytes);
        residue = residue + 1 == m ? 0 : residue + 1;
    }
}

/* The library may multiply by 1/P: the last bit of an f32 or f64 average may differ. */
static bool is_close(const tt_bench_plan *plan, const uint8_t *found, const uint8_t *expected)
{
    float found_single;
    float expected_single;
    double found_wide;
    double expected_wide;
    if (plan->op != TUTTI_AVERAGE || !tt_bench_reduces(plan->collective)) {
        return false;
    }
    if (plan->dtype == TUTTI_F32) {
        memcpy(&found_single, found, sizeof(found_single));
        memcpy(&expected_single, expected, sizeof(expected_single));
        return fabsf(found_single - expected_single) <= 3e-7f * fabsf(expected_single);
    }
    memcpy(&found_wide, found, sizeof(found_wide) * (plan->dtype == TUTTI_F64));
    memcpy(&expected_wide, expected, sizeof(expected_wide) * (plan->dtype == TUTTI_F64));
    return plan->dtype == TUTTI_F64 &&
           fabs(found_wide - expected_wide) <= 5e-16 * fabs(expected_wide);
}

static uint64_t check_run(const tt_bench_plan *plan, const value_table *table, const uint8_t *found,
                          uint64_t count, uint64_t shift)
{
    const size_t bytes = tutti_dtype_bytes(plan->dtype);
    const uint64_t m = period(plan);
    uint64_t residue = shift % m;
    uint64_t wrong_count = 0;
    for (uint64_t i = 0; i < count; i++) {
        const uint8_t *element = found + i * bytes;
        const uint8_t *expected = table->bytes[residue];
        if (memcmp(element, expected, bytes) != 0 && !is_close(plan, element, expected)) {
            wrong_count++;
        }
        residue = residue + 1 == m ? 0 : residue + 1;
    }
    return wrong_count;
}

static void *allocate(const tt_bench_plan *plan, uint64_t count)
{
    const size_t bytes = (size_t)count * tutti_dtype_bytes(plan->dtype);
    void *memory = NULL;
    if (!plan->is_foreign) {
        return tutti_alloc(plan->context, bytes);
    }
    return posix_memalign(&memory, 4096, bytes) == 0 ? memory : NULL;
}

static void release(const tt_bench_plan *plan, void *memory)
{
    if (plan->is_foreign) {
        free(memory);
    } else if (memory != NULL) {
        tutti_free(plan->context, memory);
    }
}

static void set_counts(tt_bench_case *item, uint64_t element_count)
{
    const uint64_t size = (uint64_t)item->plan->size;
    const uint64_t share = element_count / size > 0 ? element_count / size : 1;
    item->count = item->input_count = item->output_count = element_count;
    switch (item->plan->collective) {
    case TUTTI_ALLGATHER:
        item->count = item->input_count = share;
        item->output_count = share * size;
        break;
    case TUTTI_REDUCESCATTER:
        item->count = item->output_count = share;
        item->input_count = share * size;
        break;
    case TUTTI_ALLTOALL:
        item->count = share;
        item->input_count = item->output_count = share * size;
        break;
    default:
        break;
    }
}

tutti_status tt_bench_open(tt_bench_case *item, const tt_bench_plan *plan, uint64_t bytes)
{
    const size_t element_bytes = tutti_dtype_bytes(plan->dtype);
    *item = (tt_bench_case){.plan = plan};
    set_counts(item, bytes / element_bytes > 0 ? bytes / element_bytes : 1);
    item->bytes = tt_max_u64(item->input_count, item->output_count) * element_bytes;
    if (plan->collective == TUTTI_BARRIER) {
        item->count = item->bytes = 0; /* buffers of an element are not used */
    }
    item->input = allocate(plan, item->input_count);
    const bool is_shared = plan->is_in_place || plan->collective == TUTTI_BROADCAST;
    item->output = is_shared ? item->input : allocate(plan, item->output_count);
    if (item->input == NULL || item->output == NULL) {
        tt_bench_close(item);
        return TUTTI_ERR_NO_MEMORY;
    }
    return TUTTI_OK;
}

void tt_bench_close(tt_bench_case *item)
{
    if (item->output != item->input) {
        release(item->plan, item->output);
    }
    release(item->plan, item->input);
    item->input = item->output = NULL;
}

void tt_bench_fill(tt_bench_case *item)
{
    const tt_bench_plan *plan = item->plan;
    const uint64_t shift = rank_shift(plan, plan->rank);
    const size_t element_bytes = tutti_dtype_bytes(plan->dtype);
    uint8_t *input = item->input;
    value_table table;
    make_input_table(plan, &table);
    memset(item->output, POISON, (size_t)item->output_count * element_bytes);
    if (plan->collective == TUTTI_ALLTOALL) {
        for (uint64_t part = 0; part < (uint64_t)plan->size; part++) {
            fill_run(plan, &table, input + part * item->count * element_bytes, item->count,
                     shift + 5 * part);
        }
    } else if (plan->collective != TUTTI_BROADCAST || plan->rank == 0) {
        fill_run(plan, &table, input, item->input_count, shift);
    }
}

static int neighbour(const tt_bench_plan *plan, int distance)
{
    return (plan->rank + distance + plan->size) % plan->size;
}

/* To the next rank and from the one before, at the same time: as nccl-tests. */
static tutti_status exchange(tt_bench_case *item)
{
    const tt_bench_plan *plan = item->plan;
    tutti_handle *handle;
    tutti_call call = TUTTI_CALL_INIT;
    call.collective = TUTTI_RECEIVE;
    call.dtype = plan->dtype;
    call.root = neighbour(plan, -1);
    call.output = item->output;
    call.count = item->count;
    const tutti_status started = tutti_start(plan->context, &call, &handle);
    if (started != TUTTI_OK) {
        return started;
    }
    const tutti_status sent =
        tutti_send(plan->context, item->input, item->count, plan->dtype, neighbour(plan, 1));
    const tutti_status received = tutti_wait(handle, -1);
    tutti_handle_free(handle);
    return received != TUTTI_OK ? received : sent;
}

tutti_status tt_bench_call(tt_bench_case *item)
{
    const tt_bench_plan *plan = item->plan;
    switch (plan->collective) {
    case TUTTI_BROADCAST:
        return tutti_broadcast(plan->context, item->output, item->count, plan->dtype, 0);
    case TUTTI_ALLGATHER:
        return tutti_allgather(plan->context, item->input, item->output, item->count, plan->dtype);
    case TUTTI_REDUCESCATTER:
        return tutti_reducescatter(plan->context, item->input, item->output, item->count,
                                   plan->dtype, plan->op);
    case TUTTI_ALLTOALL:
        return tutti_alltoall(plan->context, item->input, item->output, item->count, plan->dtype);
    case TUTTI_SEND:
        return exchange(item);
    case TUTTI_BARRIER:
        return tutti_barrier(plan->context);
    default:
        return tutti_allreduce(plan->context, item->input, item->output, item->count, plan->dtype,
                               plan->op);
    }
}

uint64_t tt_bench_check(const tt_bench_case *item)
{
    const tt_bench_plan *plan = item->plan;
    const size_t element_bytes = tutti_dtype_bytes(plan->dtype);
    const uint8_t *output = item->output;
    value_table table;
    if (plan->collective == TUTTI_BARRIER) {
        return 0; /* no data */
    }
    if (tt_bench_reduces(plan->collective)) {
        const bool is_part = plan->collective == TUTTI_REDUCESCATTER;
        make_reduced_table(plan, &table);
        return check_run(plan, &table, output, item->output_count,
                         is_part ? (uint64_t)plan->rank * item->count : 0);
    }
    make_input_table(plan, &table);
    if (plan->collective == TUTTI_BROADCAST || plan->collective == TUTTI_SEND) {
        const int source = plan->collective == TUTTI_SEND ? neighbour(plan, -1) : 0;
        return check_run(plan, &table, output, item->output_count, rank_shift(plan, source));
    }
    const uint64_t part = plan->collective == TUTTI_ALLTOALL ? 5 * (uint64_t)plan->rank : 0;
    uint64_t wrong_count = 0;
    for (int peer = 0; peer < plan->size; peer++) {
        wrong_count +=
            check_run(plan, &table, output + (uint64_t)peer * item->count * element_bytes,
                      item->count, rank_shift(plan, peer) + part);
    }
    return wrong_count;
}

double tt_bench_bus_factor(tutti_collective collective, int size)
{
    const double share = (double)(size - 1) / size;
    switch (collective) {
    case TUTTI_ALLREDUCE:
        return 2 * share;
    case TUTTI_BROADCAST:
    case TUTTI_SEND:
    case TUTTI_BARRIER:
        return 1;
    default:
        return share;
    }
}
