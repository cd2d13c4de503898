/* SPDX-License-Identifier: Apache-2.0
 *
 * model.h - an outside engine for ranks that live in one process: what sim and shuffle launch on.
 *
 * As strict as the strictest engine: ops of a set are matched by the order in which each member
 * launches them, and members that launch different ops are a bug of the machine.
 *
 * Layer:   platform; private to sim and shuffle.
 * Threads: one at a time.
 * Memory:  malloc; freed by destroy.
 */
#ifndef TUTTI_PLATFORM_MODEL_H
#define TUTTI_PLATFORM_MODEL_H

#include "platform/platform.h"

typedef struct tt_model tt_model;

typedef struct tt_model_landing {
    uint32_t rank;
    uint64_t token;
} tt_model_landing;

tt_model *tt_model_create(void);
void tt_model_destroy(tt_model *model);

/* `rank` launches. The last member's launch runs the op: then the outputs are written, and every
 * member's landing is put into landings_out[launch->size]. The number of landings: 0 or size. */
uint32_t tt_model_launch(tt_model *model, uint32_t rank, const tt_launch *launch,
                         tt_model_landing *landings_out);

#endif
