/* SPDX-License-Identifier: Apache-2.0
 *
 * store_rows_scene.c - tables of scenes, and the rows that workers choose; see store_run.h.
 *
 * The oracle pushes whole tables whose other rows are zeros. Under bulk each call chooses anew, and
 * bits are compared. Counters: a worker pushes the same rows in each iteration, so that each of
 * them counts its pushes, and others must not. Uniform values: all rows, so that elements stay
 * equal. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "kernel/hash64.h"
#include "store/store_run.h"

/* Of the rows, as of a call. */
typedef enum choice {
    CHOICE_WHOLE, /* it is not a call of rows */
    CHOICE_ALL,
    CHOICE_NONE,
    CHOICE_THIRD,
    CHOICE_FEW,
    CHOICE_RANGE,
    CHOICE_COUNT
} choice;

void rows_draw(scene *drawn)
{
    static const uint32_t lengths[] = {1, 2, 7, 64, 100, 1000};
    tt_random random;
    tt_random_init(&random, drawn->seed, 131);
    if (tt_random_below(&random, 2) == 0 || tt_update_option(&drawn->update, "dc") > 0.0f ||
        (drawn->has_counters && drawn->codec_text != NULL)) {
        return;
    }
    for (uint32_t i = 0; i < drawn->tensors; i++) {
        const uint32_t length = lengths[tt_random_below(&random, TT_ARRAY_COUNT(lengths))];
        if (tt_random_below(&random, 3) != 0) {
            drawn->row_elements[i] = length;
            drawn->counts[i] -= drawn->counts[i] % length;
        }
    }
}

static uint64_t mix_of(const scene *drawn, rows_call call)
{
    const uint64_t iteration = drawn->has_counters && !call.is_pull ? 0 : call.iteration;
    const uint64_t who = call.worker * 100 + call.tensor * 2 + (call.is_pull ? 1 : 0);
    return tt_hash64_mix(tt_hash64_mix(drawn->seed + 1, who), iteration);
}

static choice choice_of(const scene *drawn, rows_call call)
{
    const uint64_t mixed = mix_of(drawn, call);
    if (drawn->row_elements[call.tensor] == 0) {
        return CHOICE_WHOLE;
    }
    const bool is_all = drawn->is_uniform || drawn->has_members;
    return (choice)(mixed % (is_all ? CHOICE_ALL + 1 : CHOICE_COUNT));
}

static uint64_t row_count(const scene *drawn, uint32_t tensor)
{
    return drawn->counts[tensor] / drawn->row_elements[tensor];
}

static bool is_chosen(const scene *drawn, rows_call call, uint64_t row)
{
    const uint64_t mixed = mix_of(drawn, call);
    const uint64_t rows = row_count(drawn, call.tensor);
    switch (choice_of(drawn, call)) {
    case CHOICE_WHOLE:
    case CHOICE_ALL:
        return true;
    case CHOICE_THIRD:
        return tt_hash64_mix(mixed, row) % 3 == 0;
    case CHOICE_FEW:
        return tt_hash64_mix(mixed, row) % 61 == 0;
    case CHOICE_RANGE:
        return row >= mixed / 64 % rows && row < mixed / 64 % rows + rows / 4 + 1;
    case CHOICE_NONE:
    case CHOICE_COUNT:
        break;
    }
    return false;
}

void rows_mask(const scene *drawn, rows_call call, void *values)
{
    if (choice_of(drawn, call) == CHOICE_WHOLE) {
        return;
    }
    const size_t bytes = drawn->row_elements[call.tensor] * tt_dtype_bytes(drawn->dtype);
    for (uint64_t row = 0; row < row_count(drawn, call.tensor); row++) {
        if (!is_chosen(drawn, call, row)) {
            memset((uint8_t *)values + row * bytes, 0, bytes);
        }
    }
}

void rows_choose(const scene *drawn, rows_call call, tt_sync_request *request, uint64_t *rows,
                 void *values)
{
    if (choice_of(drawn, call) == CHOICE_WHOLE) {
        return;
    }
    const size_t bytes = drawn->row_elements[call.tensor] * tt_dtype_bytes(drawn->dtype);
    uint64_t count = 0;
    for (uint64_t row = 0; row < row_count(drawn, call.tensor); row++) {
        if (is_chosen(drawn, call, row)) {
            memmove((uint8_t *)values + count * bytes, (uint8_t *)values + row * bytes, bytes);
            rows[count++] = row;
        }
    }
    request->is_rows = true;
    request->rows = rows;
    request->row_count = count;
}

bool rows_are_equal(const scene *drawn, uint32_t tensor, const tt_sync_request *request,
                    const void *wanted)
{
    const uint8_t *read = request->output;
    bool are_equal = true;
    if (!request->is_rows) {
        const uint64_t bytes = drawn->counts[tensor] * tt_dtype_bytes(drawn->dtype);
        return bytes == 0 || memcmp(read, wanted, bytes) == 0;
    }
    const size_t bytes = drawn->row_elements[tensor] * tt_dtype_bytes(drawn->dtype);
    for (uint64_t i = 0; i < request->row_count && are_equal; i++) {
        are_equal = memcmp(read + i * bytes, (const uint8_t *)wanted + request->rows[i] * bytes,
                           bytes) == 0;
    }
    return are_equal;
}

/* What each worker has pushed to a row, if it pushes it at all. */
static bool judge_row(const scene *drawn, uint32_t tensor, uint64_t row, const int64_t *values,
                      rows_counts *counts)
{
    bool is_whole = true;
    for (uint32_t rank = 0; rank < drawn->workers; rank++) {
        const rows_call call = {.worker = rank, .tensor = tensor};
        const bool has = is_chosen(drawn, call, row);
        const int shift = COUNTER_BITS * (int)rank;
        const int64_t mask = ((INT64_C(1) << COUNTER_BITS) - 1) << shift;
        if (has && !counts->is_known[rank]) {
            counts->is_known[rank] = true;
            counts->counters |= values[0] & mask;
        }
        for (uint32_t i = 0; i < drawn->row_elements[tensor]; i++) {
            is_whole = is_whole && (values[i] & mask) == (has ? counts->counters & mask : 0);
        }
    }
    return is_whole;
}

bool rows_counters(const scene *drawn, uint32_t tensor, const tt_sync_request *request,
                   const tt_split_part *part, rows_counts *counts_out)
{
    const uint32_t length = drawn->row_elements[tensor];
    const uint64_t first = part->first / sizeof(int64_t) / length;
    const uint64_t end = first + part->bytes / sizeof(int64_t) / length;
    const uint64_t count = request->is_rows ? request->row_count : row_count(drawn, tensor);
    const int64_t *read = request->output;
    bool is_whole = true;
    *counts_out = (rows_counts){.counters = 0};
    TT_ASSERT(drawn->dtype == TT_I64);
    for (uint64_t i = 0; i < count && is_whole; i++) {
        const uint64_t row = request->is_rows ? request->rows[i] : i;
        if (row >= first && row < end) {
            is_whole = judge_row(drawn, tensor, row, read + i * length, counts_out);
        }
    }
    return is_whole;
}
