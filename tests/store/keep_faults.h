/* SPDX-License-Identifier: Apache-2.0
 *
 * keep_faults.h - what the plays of stores that move while processes are killed have in common: the
 * program of keep_faults.c and its judge, keep_judge.c.
 *
 * Layer:   tests.
 * Threads: one.
 * Memory:  none of its own.
 */
#ifndef TUTTI_TESTS_STORE_KEEP_FAULTS_H
#define TUTTI_TESTS_STORE_KEEP_FAULTS_H

#include "store/store_run.h"

enum {
    STORES_MAX = 64,
    PLANES_MAX = 4,
    LOADS_MAX = 12,
    PARTS_MAX = 256,
    COUNT_MAX = KEEP_FAULTS_COUNT_MAX
};

typedef enum stage {
    STAGE_OPEN,
    STAGE_ADD,
    STAGE_PUSH,
    STAGE_CLOCK,
    STAGE_PULL,
    STAGE_MEET, /* from here on, a move, a load or the end */
    STAGE_REOPEN,
    STAGE_READD,
    STAGE_READ,
    STAGE_FILL,
    STAGE_MEET_FILLED,
    STAGE_DROP,
    STAGE_RECHECK,
    STAGE_MEET_CHECKED,
    STAGE_FORGET, /* the next store, after a failure */
    STAGE_CLOSE,
    STAGE_OVER
} stage;

typedef struct play play;

typedef struct mover {
    play *all;
    uint32_t rank;
    tt_sync *sync;
    stage stage;
    uint32_t tensor, plane, iteration, store, next;
    bool has_failed, is_at_meeting;
    uint64_t step;
    uint32_t pushes[TENSORS_MAX];    /* of which some may be in flight */
    uint32_t uncounted[TENSORS_MAX]; /* of them: too late for a quorum */
    tt_sync_request request;
    uint8_t *values;
    tt_sync_request pushing[TENSORS_MAX]; /* under a quorum, with the clock in `request`; */
    uint8_t *pushed[TENSORS_MAX];         /* what they push, */
    uint32_t open;                        /* and how many are not over */
} mover;

/* Planes of all tensors, and the clock that they are of. */
typedef struct keepsake {
    bool is_there;
    uint32_t clock;
    uint32_t counted[TENSORS_MAX][WORKERS_MAX]; /* pushes in it */
    uint64_t steps[TENSORS_MAX];
    uint8_t *planes[TENSORS_MAX][PLANES_MAX];
} keepsake;

struct play {
    const scene *drawn;
    tt_sim *sim;
    oracle *known;
    mover movers[PROCESSES_MAX];
    damage done;
    tt_random random;
    uint32_t planes, loads;
    bool moves[ITERATIONS_MAX + 1];
    bool is_loading;                         /* what all do between two meetings */
    uint8_t may_own[SERVERS_MAX];            /* the next store */
    keepsake last, now;                      /* `now` is read in the present move */
    uint32_t base[TENSORS_MAX][WORKERS_MAX]; /* pushes in the value for good */
    tt_split splits[STORES_MAX];
    uint32_t chosen[STORES_MAX][SERVERS_MAX];
    uint32_t move_steps, kill_after, victim; /* a kill in the middle of a move */
    bool is_verbose, is_ending;
    store_result result;
};

/* The first one is kept. */
void keep_blame(play *all, const mover *own, const char *what);
uint64_t keep_bytes(const play *all, uint32_t tensor);
const char *keep_name(uint32_t tensor);
bool keep_has_dead_worker(const play *all);

/* The request has failed: may it? */
void keep_judge_error(mover *own, const tt_sync_request *request);
/* A value that was read by a pull. */
void keep_judge_pull(mover *own);
/* A value at rest: every element has every push of everyone that counted, and of a quorum as many
 * as there are iterations. */
void keep_judge_rest(mover *own);

#endif
