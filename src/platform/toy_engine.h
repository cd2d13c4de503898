/* SPDX-License-Identifier: Apache-2.0
 *
 * toy_engine.h - an outside engine for ranks in one process, for sim and shuffle.
 *
 * As strict as the strictest engine: ops of a set are matched by the order in which each member
 * launches them, and members that launch different ops are a bug of the machine.
 *
 * Layer:   platform; private to sim and shuffle.
 * Threads: one at a time.
 * Memory:  malloc; freed by destroy.
 */
#ifndef TUTTI_PLATFORM_TOY_ENGINE_H
#define TUTTI_PLATFORM_TOY_ENGINE_H

#include "platform/platform.h"

typedef struct tt_toy_engine tt_toy_engine;

typedef struct tt_toy_engine_landing {
    uint32_t rank;
    uint64_t token;
} tt_toy_engine_landing;

/* `platform` tells which buffers are phantom: these are matched alone. It outlives the engine. */
tt_toy_engine *tt_toy_engine_create(const tt_platform *platform);
void tt_toy_engine_destroy(tt_toy_engine *model);

/* `rank` launches. The last member's launch runs the op: then the outputs are written, and every
 * member's landing is put into landings_out[launch->size]. The number of landings: 0 or size. */
uint32_t tt_toy_engine_launch(tt_toy_engine *model, uint32_t rank, const tt_launch *launch,
                              tt_toy_engine_landing *landings_out);

#endif
