/* SPDX-License-Identifier: Apache-2.0
 *
 * engine.h - ops that an outside engine runs.
 *
 * Layer:   control, private.
 * Threads: as control.h.
 * Memory:  as control.h.
 */
#ifndef TUTTI_CONTROL_ENGINE_H
#define TUTTI_CONTROL_ENGINE_H

#include "control/control_internal.h"

/* Does an engine run such a call? */
bool tt_engine_takes(const tt_set *set, const tt_request *request, uint16_t traits);
/* The op, one for the engine, begins: it has a place in the engine's order. */
void tt_engine_enter(tt_op *op);
/* Would an engine run a named call of this claim? Such calls are not planned: see engine.c (2). */
bool tt_engine_takes_claim(const tt_set *set, const tt_claim *claim);
/* Stage AGREE: the members agree on the launch, and on whether all of them may block. */
tt_status tt_engine_prepare(tt_op *op, tt_text *text);
/* All have agreed: launch the op at its turn. */
void tt_engine_agreed(tt_op *op);
/* The op has failed: if it is one for the engine, it leaves the engine's order. */
void tt_engine_failed(tt_op *op);
/* `rank` is down. If the engine has an op that needs it, no set uses an engine any more: see
 * engine.c (6). Called before the rank's ops fail. */
void tt_engine_peer_down(tt_control *control, uint32_t rank, const tt_text *text);
void tt_engine_landed(tt_control *control, uint64_t token, tt_status status);

#endif
