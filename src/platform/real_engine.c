/* SPDX-License-Identifier: Apache-2.0
 *
 * real_engine.c - whole collectives by an outside engine (tutti/plugin.h).
 *
 * Launches are kept in a list and passed to the engine at the end of the pass, in order: so no
 * upcall is made from inside a downcall, and a call that blocks is made only when nothing is left
 * to send. A member that still waits for a frame of ours would never reach the engine, and a
 * blocking engine does not drive our links.
 */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "platform/real_internal.h"

enum {
    LANDINGS_MAX = 32,
    NAP_NS_MIN = 20 * 1000, /* between polls while no thread waits; doubles up to NAP_NS_MAX */
    NAP_NS_MAX = 1000 * 1000,
};

_Static_assert(TT_LAUNCH_NAMED == TUTTI_ENGINE_SET_NAMED, "sets are numbered alike");

static tutti_engine_op op_of(const tt_launch *launch)
{
    return (tutti_engine_op){
        .struct_bytes = sizeof(tutti_engine_op),
        .collective = (tutti_collective)launch->collective,
        .dtype = (tutti_dtype)launch->dtype,
        .op = (tutti_op)launch->redop,
        .set = launch->set,
        .root = (int)launch->root,
        .count = launch->count,
        .input = launch->input,
        .output = launch->output,
        .flags = launch->may_block ? TUTTI_LAUNCH_MAY_BLOCK : 0,
        .priority = launch->urgency,
        .device = -1,
    };
}

bool tt_real_engine_can_launch(tt_platform *platform, const tt_launch *launch)
{
    const tt_real *real = TT_CONTAINER_OF(platform, const tt_real, platform);
    if (real->engine.ops == NULL) {
        return false;
    }
    const tutti_engine_op op = op_of(launch);
    return real->engine.ops->supports(real->engine.self, &op) == 1;
}

void tt_real_engine_launch(tt_platform *platform, const tt_launch *launch)
{
    tt_real *real = TT_CONTAINER_OF(platform, tt_real, platform);
    TT_ASSERT(real->engine.ops != NULL);
    if (real->launch_count == real->launch_capacity) {
        const uint32_t capacity = real->launch_capacity > 0 ? 2 * real->launch_capacity : 64;
        tt_launch *grown = realloc(real->launches, capacity * sizeof(*grown));
        TT_ASSERT(grown != NULL); /* some KiB, once; the op is agreed on and cannot be undone */
        real->launches = grown;
        real->launch_capacity = capacity;
    }
    real->launches[real->launch_count++] = *launch;
    real->engine_nap = NAP_NS_MIN;
}

uint32_t tt_real_engine_flying(const tt_real *real)
{
    return real->flying + real->launch_count;
}

void tt_real_engine_leave(tt_real *real)
{
    real->is_engine_left = true;
    tt_real_epoll_unwatch_engine(real);
}

bool tt_real_engine_forsake(tt_real *real)
{
    real->keeps_memory = tt_real_engine_flying(real) > 0;
    return real->keeps_memory;
}

static bool links_are_idle(const tt_real *real)
{
    for (uint32_t i = 0; i < real->rank_count; i++) {
        const tt_link *link = real->peers[i].given.link;
        if (link != NULL && !real->peers[i].ended && !link->ops->idle(link)) {
            return false;
        }
    }
    return true;
}

static void land(tt_real *real, uint64_t token, int status)
{
    TT_ASSERT(real->machine.ops->landed != NULL);
    real->machine.ops->landed(real->machine.self, token, (tt_status)status);
}

/* Pass the first launch to the engine. False: it must wait. */
static bool hand_over(tt_real *real)
{
    const tt_launch launch = real->launches[0];
    if (launch.may_block && !links_are_idle(real)) {
        return false;
    }
    const tutti_engine_op op = op_of(&launch);
    real->launch_count--;
    memmove(real->launches, real->launches + 1, real->launch_count * sizeof(*real->launches));
    const int status = real->engine.ops->launch(real->engine.self, &op, launch.token);
    real->now_ns = 0; /* it may have blocked */
    if (status == TUTTI_IN_PROGRESS) {
        real->flying++;
    } else {
        land(real, launch.token, status);
    }
    return true;
}

bool tt_real_engine_pass(tt_real *real)
{
    uint64_t tokens[LANDINGS_MAX];
    int statuses[LANDINGS_MAX];
    bool moved = false;
    while (real->launch_count > 0 && !real->is_engine_left && hand_over(real)) {
        moved = true;
    }
    if (real->flying == 0 || real->is_engine_left) {
        return moved;
    }
    const int landed = real->engine.ops->test(real->engine.self, tokens, statuses, LANDINGS_MAX);
    TT_ASSERT(landed >= 0 && (uint32_t)landed <= real->flying);
    real->flying -= (uint32_t)landed;
    for (int i = 0; i < landed; i++) {
        land(real, tokens[i], statuses[i]);
    }
    if (landed > 0) {
        real->engine_nap = NAP_NS_MIN;
    }
    return moved || landed > 0;
}

int tt_real_engine_bell(const tt_real_engine *engine)
{
    const bool has_bell = engine->ops != NULL && engine->ops->descriptor != NULL;
    return has_bell ? engine->ops->descriptor(engine->self) : -1;
}

uint64_t tt_real_engine_due(tt_real *real)
{
    if (real->flying > 0 && real->engine_fd >= 0) {
        tt_real_epoll_watch_engine(real);
    }
    if (!tt_real_engine_must_ask(real)) {
        return UINT64_MAX;
    }
    const uint64_t due_ns = tt_real_clock() + real->engine_nap;
    real->engine_nap = tt_min_u64(2 * real->engine_nap, NAP_NS_MAX);
    return due_ns;
}
