/* SPDX-License-Identifier: Apache-2.0
 *
 * kept.c - see kept.h. */
#include "control/coded/kept.h"

#include "base/assert.h"
#include "base/plant.h"

static tt_status buffer_make(tt_kept *kept, tt_platform *platform, uint32_t index)
{
    if (kept->buffers[index] == NULL) {
        kept->buffers[index] = tt_platform_allocate(platform, kept->count * sizeof(float));
    }
    return kept->buffers[index] != NULL ? TT_OK : TT_ERR_NO_MEMORY;
}

tt_status tt_kept_make(tt_kept *kept, tt_platform *platform, uint64_t count)
{
    TT_ASSERT(kept->count == 0);
    *kept = (tt_kept){.count = count};
    if (count > 0 && (buffer_make(kept, platform, 0) < 0 || buffer_make(kept, platform, 1) < 0)) {
        tt_kept_clear(kept, platform);
        return TT_ERR_NO_MEMORY;
    }
    return TT_OK;
}

void tt_kept_clear(tt_kept *kept, tt_platform *platform)
{
    for (uint32_t i = 0; i < TT_KEPT_BUFFERS; i++) {
        tt_platform_release(platform, kept->buffers[i], kept->count * sizeof(float));
    }
    *kept = (tt_kept){.count = 0};
}

tt_status tt_kept_begin(tt_kept *kept, tt_platform *platform)
{
    if (kept->count == 0) {
        return TT_OK;
    }
    kept->next = 0;
    while (kept->next == kept->now || kept->next == kept->last) {
        kept->next++;
    }
    TT_ASSERT(kept->next < TT_KEPT_BUFFERS);
    if (TT_PLANT(RESIDUAL_KEPT_AFTER_FAILURE)) {
        kept->next = kept->now;
    }
    return buffer_make(kept, platform, kept->next);
}

bool tt_kept_is_zero(const tt_kept *kept)
{
    bool is_zero = true;
    for (uint64_t k = 0; k < kept->count && is_zero; k++) {
        is_zero = kept->buffers[kept->now][k] == 0.0f && kept->buffers[kept->last][k] == 0.0f;
    }
    return is_zero;
}

void tt_kept_scale(tt_kept *kept, float factor)
{
    for (uint32_t i = 0; i < TT_KEPT_BUFFERS; i++) {
        for (uint64_t k = 0; kept->buffers[i] != NULL && k < kept->count; k++) {
            kept->buffers[i][k] *= factor;
        }
    }
}

uint64_t tt_kept_bytes(const tt_kept *kept)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < TT_KEPT_BUFFERS; i++) {
        bytes += kept->buffers[i] != NULL ? kept->count * sizeof(float) : 0;
    }
    return bytes;
}

double tt_kept_squares(const tt_kept *kept)
{
    double sum = 0.0;
    for (uint64_t k = 0; k < kept->count; k++) {
        const double one = kept->buffers[kept->now][k];
        sum += one * one;
    }
    return sum;
}
