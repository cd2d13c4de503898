/* SPDX-License-Identifier: Apache-2.0
 *
 * original.c - Horovod's control plane before the cache, for comparison: every cycle each member
 * sends its requests, even if there are none, to member 0, and gets the list of answers. */
#include "negotiate/internal.h"

uint64_t tt_original_due(const tt_negotiator *self)
{
    return self->phase == TT_PHASE_IDLE ? self->cycle_ns + self->config.cycle_ns : UINT64_MAX;
}

tt_status tt_original_tick(tt_negotiator *self, uint64_t now_ns)
{
    if (now_ns < tt_original_due(self)) {
        return TT_OK;
    }
    self->cycle_ns = now_ns;
    tt_negotiator_set_phase(self, TT_PHASE_GATHER);
    self->flags = TT_FLAG_TURN;
    self->count.coordinator_turns++;
    TT_TRY(tt_turn_tell(self));
    return tt_round_advance(self);
}
