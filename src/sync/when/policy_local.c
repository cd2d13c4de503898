/* SPDX-License-Identifier: Apache-2.0
 *
 * policy_local.c - local SGD: models are replaced by their mean every few steps.
 *
 * Stich, Local SGD Converges Fast and Communicates Little (2019); with a schedule of periods:
 * Lin et al., Don't Use Large Mini-Batches, Use Local SGD (2020). */
#include <string.h>

#include "sync/when/when.h"

static tt_status check(const tt_when *when, const char *text, tt_text *why)
{
    if (when->inside > 0 && when->periods[0].steps % when->inside != 0) {
        tt_text_add(why, "policy %s: outside=%u is no multiple of inside=%u; use %u", text,
                    when->periods[0].steps, when->inside,
                    (when->periods[0].steps / when->inside + 1) * when->inside);
        return TT_ERR_BAD_ARGUMENT;
    }
    return TT_OK;
}

static void give(const tt_when_run *run)
{
    memcpy(run->exchanged, run->values, run->count * tt_dtype_bytes(run->dtype));
}

static void merge(tt_when_run *run)
{
    const size_t bytes = run->count * tt_dtype_bytes(run->dtype);
    double sum = 0.0;
    for (size_t i = 0; i < run->count; i++) {
        const double off = run->dtype == TT_F32 ? (double)((const float *)run->values)[i] -
                                                      (double)((const float *)run->exchanged)[i]
                                                : ((const double *)run->values)[i] -
                                                      ((const double *)run->exchanged)[i];
        sum += off * off;
    }
    run->distance += sum;
    memcpy(run->values, run->exchanged, bytes);
    memcpy(run->planes[0], run->exchanged, bytes);
}

const tt_when_policy tt_when_local = {
    .name = "local",
    .quantity = TT_QUANTITY_MODEL,
    .plane_count = 1,
    .options = " period inside outside state ",
    .check = check,
    .give = give,
    .merge = merge,
};
