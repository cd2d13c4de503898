/* SPDX-License-Identifier: Apache-2.0
 *
 * state.h - residuals of coded calls as a whole: commit, undo, reset, save and load; see
 * control/coded/feedback.h.
 *
 * Layer:   control; part of its door.
 * Threads: as control.h.
 * Memory:  loading allocates, once per tensor.
 */
#ifndef TUTTI_CONTROL_CODED_STATE_H
#define TUTTI_CONTROL_CODED_STATE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/text.h"

typedef struct tt_control tt_control;

/* Those of calls that are over count from now on; they are no longer committed call by call. */
void tt_control_codec_commit(tt_control *control);
/* Bring back the residuals of the last commit. What a call in flight leaves does not count. */
void tt_control_codec_undo(tt_control *control);
/* The following are refused while a call that has residuals is in flight: then `text` names it. */
/* Forget the residual and the number of occurrences of a tensor; of all, if `name` is NULL. */
tt_status tt_control_codec_reset(tt_control *control, uint32_t set, const char *name,
                                 tt_text *text);
/* Gradients are in another unit from now on (loss scale): multiply all residuals by unit / the last
 * unit, which is 1 at first. `unit` is finite and above 0. */
tt_status tt_control_codec_unit(tt_control *control, double unit, tt_text *text);
/* Write the state of all named tensors; `*bytes_out`: the length, also if `capacity` is less and
 * nothing was written. */
tt_status tt_control_codec_save(const tt_control *control, void *bytes, size_t capacity,
                                size_t *bytes_out, tt_text *text);
/* Take the state that this rank has saved, of the same number of ranks. All of it or nothing. */
tt_status tt_control_codec_load(tt_control *control, const void *bytes, size_t byte_count,
                                tt_text *text);
/* A declared call without a name, on this set, is gone: release its record. */
void tt_control_codec_forget(tt_control *control, uint32_t set, uint64_t key);
/* Memory of all residuals, and the root of their sum of squares. */
uint64_t tt_control_codec_bytes(const tt_control *control);
double tt_control_codec_norm(const tt_control *control);

#endif
