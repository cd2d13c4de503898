/* SPDX-License-Identifier: Apache-2.0
 *
 * sync.h - exchange less often: local SGD, outer optimizers (DiLoCo), pipelined SGD.
 *
 * Ranks train on copies of a model and exchange in rounds. A policy says what is exchanged, how
 * often, how late the result is merged, and how. All ranks of a process set make the same calls:
 *
 *     tutti_sync *sync;
 *     tutti_sync_open(context, TUTTI_WORLD, "local:period=8", NULL, &sync);
 *     tutti_sync_add(sync, "w", weights, count, TUTTI_F32);
 *     for (;;) {
 *         ... gradient, and the optimizer's step on `weights` ...
 *         tutti_sync_step(sync, NULL);
 *     }
 *     tutti_sync_flush(sync, NULL);                       (before evaluation: equal on all ranks)
 *     tutti_sync_close(sync);
 *
 * Policies. T is the number of steps so far; periods are steps.
 *   "local:period=8"   Every 8 steps the ranks' models are replaced by their mean (local SGD).
 *       period=1,16@1000       a schedule: 1, and 16 after step 1000 (post-local SGD)
 *       inside=1,outside=16    in place of period: ranks of a host every step, all every 16 steps
 *       state=keep|average|reset   what a round does with the optimizer's state
 *                                  (tutti_sync_add_state); needed if there is any
 *   "outer:period=500,lr=0.7,momentum=0.9"   Every 500 steps the mean of the ranks' deltas (model
 *       after the last round minus model now) is the gradient of an outer SGD step with Nesterov
 *       momentum, which all ranks make alike (DiLoCo, Douillard et al. 2023). The inner optimizer's
 *       state stays with its rank. nesterov=0: plain momentum.
 *       fragments=4    the model in four equal parts, one of which is exchanged every 125 steps
 *       delay=5        the result is merged five steps later; training goes on meanwhile
 *       alpha=0.5      a merge keeps so much of the local model: alpha * local + (1 - alpha) *
 *                      outer. (Streaming DiLoCo, Douillard et al. 2025.)
 *   "pipeline:delay=1" What is added are gradients. A step, made between backward and optimizer,
 *       takes this step's gradient and leaves the mean gradient of the step before: its exchange
 *       runs while the ranks compute. The first `delay` steps leave none (ready is 0: skip the
 *       optimizer), and a flush delivers what is left. delay=0: synchronous SGD.
 *
 * Exchanges are named all-reduces of the set ("sync/NAME"), in plans, with priorities, servers
 * (TUTTI_SUM) and everything else that these have. A round succeeds or fails as one. Several syncs
 * of a set may be used at a time if their tensors have different names.
 *
 * Failure. If a round fails, its error is returned, what is in flight is dropped, and the values
 * are what all ranks had in common last, bit for bit: the model after the last good round (of each
 * fragment), of outer that of the outer optimizer; with `inside` what the ranks of the host had. Of
 * pipeline the gradients in flight are lost. If the cause was no death, the next step goes on.
 *
 * Threads: a sync is used by one thread at a time. Memory: added values stay the caller's and must
 * stay in place; the library keeps 2 copies of them for local, 3 for outer, `delay` for pipeline.
 * With `inside` open creates a process set per host, which stays until the job ends.
 */
#ifndef TUTTI_SYNC_H
#define TUTTI_SYNC_H

#include <tutti/tutti.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tutti_sync tutti_sync;

/* Collective over the set: ranks that differ in policy or codec fail with both. `codec`: of deltas
 * and gradients ("int8"), NULL: by TUTTI_RULES and TUTTI_CODEC; a model is exchanged as it is, so
 * policy local refuses codecs. The caller closes it. */
TUTTI_API tutti_status tutti_sync_open(tutti_context *context, tutti_set set, const char *policy,
                                       const char *codec, tutti_sync **sync_out);

/* Before the first step; in the same order on all ranks. `values` are the same on all ranks now,
 * and f32 or f64. With pipeline they are the gradients. */
TUTTI_API tutti_status tutti_sync_add(tutti_sync *sync, const char *name, void *values,
                                      uint64_t count, tutti_dtype dtype);
/* State of the optimizer, such as momentum, of policy local: see its option `state`. */
TUTTI_API tutti_status tutti_sync_add_state(tutti_sync *sync, const char *name, void *values,
                                            uint64_t count, tutti_dtype dtype);

/* One more step is over: start the exchanges that are due, merge those whose time has come.
 * *ready_out (may be NULL): 1 if values were changed, of pipeline: if they are a gradient to be
 * applied. Blocks until what is to be merged has arrived. */
TUTTI_API tutti_status tutti_sync_step(tutti_sync *sync, int *ready_out);

/* Merge all that is in flight, and exchange what has had steps since its last round: then all ranks
 * have the same values. Collective. Ranks that have made different numbers of steps fail; the text
 * names who is ahead. Of pipeline: leaves the oldest gradient in flight; call it until *ready_out
 * is 0. */
TUTTI_API tutti_status tutti_sync_flush(tutti_sync *sync, int *ready_out);

/* The state of the sync, the caller's values not included: write it to `bytes` of length
 * `capacity`. *size_out is its length; TUTTI_ERR_NO_RESOURCE if there is no room for it. What is in
 * flight is part of it, so each rank saves its own; a run that goes on from it, with the same
 * values, has the same bits. */
TUTTI_API tutti_status tutti_sync_save(tutti_sync *sync, void *bytes, size_t capacity,
                                       size_t *size_out);
/* The same policy and tensors; nothing may be in flight. On all ranks. */
TUTTI_API tutti_status tutti_sync_load(tutti_sync *sync, const void *bytes, size_t size);

typedef struct tutti_sync_counts {
    size_t struct_bytes;
    uint64_t steps, rounds; /* of a model in fragments, a round of each fragment counts */
    uint64_t bytes;         /* of values that were exchanged */
    uint64_t waits, wait_ns; /* merges that had to wait */
    double distance; /* of this rank's model from the mean of all, in the last round (2-norm) */
} tutti_sync_counts;
#define TUTTI_SYNC_COUNTS_INIT                          \
    {                                                   \
        sizeof(tutti_sync_counts), 0, 0, 0, 0, 0, 0.0 \
    }
TUTTI_API tutti_status tutti_sync_count(tutti_sync *sync, tutti_sync_counts *counts_io);

/* What is in flight is waited for and dropped: flush before. NULL is allowed. */
TUTTI_API void tutti_sync_close(tutti_sync *sync);

#ifdef __cplusplus
}
#endif

#endif
