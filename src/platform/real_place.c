/* SPDX-License-Identifier: Apache-2.0
 *
 * real_place.c - which core a waiting rank runs on.
 *
 * Ranks that yield to each other all look busy to the kernel, which may leave most of them on one
 * core for seconds: each call then takes as many context switches as that core has ranks. So a
 * waiting rank publishes its core, and the last rank on a crowded core moves to the emptiest one.
 * It sets its affinity to that core and restores it at once: the thread's affinity mask belongs to
 * its owner, and does not change. */
#include <sched.h>

#include "base/base.h"
#include "platform/real_internal.h"

enum {
    LOOK_NS = 1000 * 1000,      /* between checks of a waiting rank */
    REST_NS = 20 * 1000 * 1000, /* after a move: others may have moved too */
    LOOKS = 2,                  /* checks with the same result before a move */
};

int tt_place_choose(const tt_place_crowd *crowd, const cpu_set_t *allowed)
{
    uint32_t here = 1;
    for (uint32_t i = 0; i < crowd->peer_count; i++) {
        const bool is_here = crowd->cores[i] == crowd->core;
        if (is_here && crowd->ranks[i] > crowd->rank) {
            return -1; /* that one moves */
        }
        here += is_here ? 1 : 0;
    }
    int best = -1;
    uint32_t least = here - 1; /* with one rank less than here, a move gains nothing */
    for (int core = 0; here > 1 && core < CPU_SETSIZE; core++) {
        if (core == crowd->core || !CPU_ISSET((size_t)core, allowed)) {
            continue;
        }
        uint32_t there = 0;
        for (uint32_t i = 0; i < crowd->peer_count; i++) {
            there += crowd->cores[i] == core ? 1 : 0;
        }
        if (there < least) {
            least = there;
            best = core;
        }
    }
    return best;
}

/* The cores that peers with shared memory have published. */
static void take_crowd(const tt_real *real, tt_place_crowd *crowd)
{
    crowd->peer_count = 0;
    for (uint32_t i = 0; i < real->memory_count && crowd->peer_count < TT_CROWD_MAX; i++) {
        const uint32_t peer = real->memory_peers[i];
        const tt_segment *segment = real->peers[peer].given.segment;
        const uint32_t word = segment == NULL ? 0
                                              : atomic_load_explicit(tt_segment_core_word(segment),
                                                                     memory_order_relaxed);
        if (word > 0 && word <= CPU_SETSIZE) {
            crowd->ranks[crowd->peer_count] = peer;
            crowd->cores[crowd->peer_count++] = (int)word - 1;
        }
    }
}

static void step_to(int core, const cpu_set_t *allowed)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((size_t)core, &one);
    if (sched_setaffinity(0, sizeof one, &one) == 0) {
        (void)sched_setaffinity(0, sizeof *allowed, allowed);
    }
}

void tt_real_place_look(tt_real *real, uint64_t now_ns)
{
    const tt_segment *own = real->peers[real->rank].given.segment;
    if (now_ns < real->place_at_ns || own == NULL || real->memory_count == 0) {
        return;
    }
    real->place_at_ns = now_ns + LOOK_NS;
    tt_place_crowd crowd = {.rank = real->rank, .core = sched_getcpu()};
    if (crowd.core < 0 || crowd.core >= CPU_SETSIZE) {
        return;
    }
    atomic_store_explicit(tt_segment_core_word(own), (uint32_t)crowd.core + 1,
                          memory_order_relaxed);
    cpu_set_t allowed;
    take_crowd(real, &crowd);
    if (crowd.peer_count == 0 || sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
        return;
    }
    const int target = tt_place_choose(&crowd, &allowed);
    real->crowded_looks = target < 0 ? 0 : real->crowded_looks + 1;
    if (real->crowded_looks >= LOOKS) {
        real->crowded_looks = 0;
        real->place_at_ns = now_ns + REST_NS;
        step_to(target, &allowed);
    }
}
