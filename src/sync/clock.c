/* SPDX-License-Identifier: Apache-2.0
 *
 * clock.c - see clock.h. */
#include "sync/clock.h"

#include "base/assert.h"
#include "base/base.h"

tt_status tt_clock_make(tt_clock *clock, tt_platform *platform, uint32_t size)
{
    TT_ASSERT(size > 0);
    *clock = (tt_clock){.size = size};
    clock->counts = tt_platform_allocate(platform, size * sizeof(*clock->counts));
    clock->is_out = tt_platform_allocate(platform, size * sizeof(*clock->is_out));
    if (clock->counts == NULL || clock->is_out == NULL) {
        tt_clock_release(clock, platform);
        return TT_ERR_NO_MEMORY;
    }
    return TT_OK;
}

void tt_clock_release(tt_clock *clock, tt_platform *platform)
{
    tt_platform_release(platform, clock->counts, clock->size * sizeof(*clock->counts));
    tt_platform_release(platform, clock->is_out, clock->size * sizeof(*clock->is_out));
    *clock = (tt_clock){.size = 0};
}

static bool find_least(tt_clock *clock)
{
    const uint64_t before = clock->least;
    clock->least = UINT64_MAX;
    for (uint32_t i = 0; i < clock->size; i++) {
        clock->least = clock->is_out[i] ? clock->least : tt_min_u64(clock->least, clock->counts[i]);
    }
    TT_ASSERT(clock->least >= before);
    return clock->least > before;
}

void tt_clock_start(tt_clock *clock, uint64_t count)
{
    for (uint32_t i = 0; i < clock->size; i++) {
        clock->counts[i] = tt_max_u64(clock->counts[i], count);
    }
    (void)find_least(clock);
}

bool tt_clock_tick(tt_clock *clock, uint32_t worker, uint64_t count)
{
    TT_ASSERT(worker < clock->size);
    if (clock->is_out[worker] || count <= clock->counts[worker]) {
        return false;
    }
    const bool was_least = clock->counts[worker] == clock->least;
    clock->counts[worker] = count;
    return was_least && find_least(clock);
}

bool tt_clock_take_out(tt_clock *clock, uint32_t worker)
{
    TT_ASSERT(worker < clock->size);
    if (clock->is_out[worker]) {
        return false;
    }
    clock->is_out[worker] = true;
    return find_least(clock);
}
