/* SPDX-License-Identifier: Apache-2.0
 *
 * idle.h - ops that ended well and are kept as they were laid out, found by what a call asks for.
 *
 * Invariants:
 *  (1) An op of the table that is free is idle, and in no other list. One that serves again stays
 *      in the table until it ends: well, and it is idle, or badly, and it leaves.
 *  (2) No two ops of the table have one key: of calls that are alike the last to end is kept.
 *  (3) A key is a hint: the request is compared with the op's claim before the op serves it.
 *  (4) At most IDLE_MAX ops and IDLE_BYTES_MAX of their memory are idle, the newest one always.
 *      Others go back to the list of free ops, by turns: with more calls in rotation than that
 *      nothing is gained by a better choice.
 *
 * Layer:   control, private.
 * Threads: as control.h.
 * Memory:  none: ops belong to control->ops.
 */
#ifndef TUTTI_CONTROL_IDLE_H
#define TUTTI_CONTROL_IDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control/control.h"

enum {
    IDLE_BUCKETS = 256,
    IDLE_MAX = 128,
    IDLE_BYTES_MAX = 2 << 20,
};

struct tt_op;

/* Part of an op: its place in the table. */
typedef struct tt_idle_node {
    struct tt_op *next; /* in its bucket */
    uint64_t key;
    size_t bytes;
    bool is_in;
} tt_idle_node;

typedef struct tt_idle {
    struct tt_op *buckets[IDLE_BUCKETS];
    struct tt_op
        *last; /* the one of the table that served last, or NULL: calls often repeat at once */
    uint32_t count;
    uint32_t hand; /* index of an op: the next to go back is looked for from there on */
    size_t bytes;
    uint32_t era; /* of what is chosen: ops of earlier ones do not become idle */
} tt_idle;

/* An idle op that was laid out for such a request, or NULL. */
struct tt_op *tt_idle_find(const tt_idle *idle, const tt_request *request);
/* The op of `request` has ended well: it is free, and idle from now on. */
void tt_idle_keep(tt_control *control, struct tt_op *op, const tt_request *request);
/* It leaves the table: for the free ops, unless it runs. */
void tt_idle_drop(tt_control *control, struct tt_op *op);
/* Give one back to the free ops, not `but` (or NULL); false: there is none. */
bool tt_idle_drop_one(tt_control *control, const struct tt_op *but);
/* What was chosen holds no more: all are given back, and so is what runs now when it ends. */
void tt_idle_drop_all(tt_control *control);

#endif
