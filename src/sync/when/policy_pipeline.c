/* SPDX-License-Identifier: Apache-2.0
 *
 * policy_pipeline.c - pipelined SGD: each step applies the mean gradient of an earlier one.
 *
 * `values` are this step's gradient when its exchange begins; when an earlier one has ended, they
 * get its mean. Both at once: they are swapped. */
#include <string.h>

#include "sync/when/when.h"

static tt_status check(const tt_when *when, const char *text, tt_text *why)
{
    (void)when;
    (void)text;
    (void)why;
    return TT_OK;
}

static void give(const tt_when_run *run)
{
    memcpy(run->exchanged, run->values, run->count * tt_dtype_bytes(run->dtype));
}

static void merge(tt_when_run *run)
{
    enum { PIECE_BYTES = 512 };
    const size_t bytes = run->count * tt_dtype_bytes(run->dtype);
    uint8_t *values = run->values, *exchanged = run->exchanged, piece[PIECE_BYTES];
    for (size_t at = 0; at < bytes; at += PIECE_BYTES) {
        const size_t length = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
        memcpy(piece, values + at, length);
        memcpy(values + at, exchanged + at, length);
        memcpy(exchanged + at, piece, length);
    }
}

const tt_when_policy tt_when_pipeline = {
    .name = "pipeline",
    .quantity = TT_QUANTITY_GRADIENT,
    .options = " delay ",
    .check = check,
    .give = give,
    .merge = merge,
};
