/* SPDX-License-Identifier: Apache-2.0
 *
 * sync.h - workers and servers: exchanges that need not have every rank at every step.
 *
 * The processes of a job are workers, and behind them servers. Collectives are the workers' alone;
 * their machine (control) is wrapped by this one, which takes the frames and peers that are not
 * control's and passes on the rest.
 *
 * A store holds tensors in parts, each with an owner: a server or a worker (split.h). Workers push
 * to it and pull from it. A policy (sync_policy.h) says when they may go on, an update (update.h)
 * what a push does to the value.
 *
 *  (1) Control never gets a frame or an event of a server: a server that dies breaks no collective.
 *  (2) A server's own machine of collectives has no peers at all.
 *  (3) A push is applied exactly once, or not at all; a part is never read half updated.
 *  (4) A worker's clock is the number of iterations it has completed. A pull at clock c with
 *      staleness s sees every update of iterations below c - s, all of its own, and newer ones as
 *      they are there.
 *  (5) Bulk sums are added in the order of workers: bits do not depend on timing. So are those of a
 *      quorum, but who belongs to it does.
 *  (6) A push always has its place: an owner has memory for one push of each worker and part from
 *      the moment the tensor is added. So links always drain.
 *  (7) Every request ends exactly once; after that nobody touches its buffers.
 *  (8) A worker that has left or died counts no more, except under bulk: there a death fails the
 *      store, and everyone's calls name the dead rank. A worker that is silent is waited for.
 *  (9) A server that dies with a store of update sum, under bulk or a quorum, loses nothing that
 *      workers cannot send again: its parts go to the owners left. An iteration that some worker
 *      has of it fails on the workers that lack it, and is never summed twice. What the server kept
 *      of coded sums is lost. Other stores fail. Named sums are the workers' from then on.
 * (10) What READ finds of a store at rest, and OPTIONS, makes an equal one by FILL (keep.h).
 *
 * Layer:   sync; may include control/, aggregate/, codec/, platform/ and base/.
 * Threads: one at a time (the baton's holder).
 * Memory:  from the platform's allocator; for a tensor when it is added, none after that.
 */
#ifndef TUTTI_SYNC_SYNC_H
#define TUTTI_SYNC_SYNC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/text.h"
#include "control/control.h"
#include "kernel/dtype.h"
#include "platform/platform.h"
#include "sync/update.h"
#include "sync/when/when.h"

typedef struct tt_sync tt_sync;

/* The processes of the job: ranks of the driver. */
typedef struct tt_roles {
    uint32_t rank;
    uint32_t workers; /* ranks [0, workers) */
    uint32_t servers; /* behind them */
    uint32_t epoch;
    const uint32_t *hosts; /* [workers] host of each, from 0 on; copied. NULL: all are on one */
} tt_roles;

/* Receives the machine's log lines; level as in base/log.h. */
typedef struct tt_sync_listener {
    void *owner;
    void (*report)(void *owner, int level, const char *text);
    /* A server only: no worker is left. May be NULL. */
    void (*deserted)(void *owner);
    /* A server is gone: `request` of tt_sync_sum or tt_sync_join is for control to run. NULL where
     * there are no named sums. */
    void (*submit)(void *owner, tt_request *request);
    /* The driver's one timer is the wrapped machine's: have it fire at `at_ns` or before. NULL:
     * calls that wait long are not reported. */
    void (*alarm)(void *owner, uint64_t at_ns);
    uint64_t stall_ns; /* a call this old is reported, repeatedly */
} tt_sync_listener;

/* `inner` gets what is not this machine's. All arguments are copied. */
tt_status tt_sync_create(tt_platform *platform, const tt_roles *roles, tt_machine inner,
                         const tt_sync_listener *listener, tt_sync **sync_out);
/* Before the first store is opened: updates own:NAME of this process. They are borrowed. */
void tt_sync_use_updates(tt_sync *sync, const tt_update_list *own);
/* All requests must be over: see tt_sync_shut_down. */
void tt_sync_destroy(tt_sync *sync);

/* The upcalls for the driver, in place of inner's. */
tt_machine tt_sync_machine(tt_sync *sync);

/* Workers that have neither left nor died. */
uint32_t tt_sync_workers_left(const tt_sync *sync);

/* ---- stores: for workers ---- */

typedef enum tt_sync_verb {
    TT_STORE_OPEN,      /* all workers, with the same settings, in the same order of stores */
    TT_STORE_CLOSE,     /* all workers; the store is gone when it succeeds */
    TT_STORE_ADD,       /* all workers; `input` of worker 0 is the first value (update sum: none) */
    TT_STORE_PUSH,      /* ends when all owners have consumed it; also of chosen rows */
    TT_STORE_PULL,      /* `output` gets the value */
    TT_STORE_PUSH_PULL, /* both: the value with this push in it */
    TT_STORE_CLOCK,     /* an iteration is over; ends when the next one may start */
    TT_STORE_COUNT,     /* `counts` gets what has happened on the store */
    TT_STORE_SET,       /* option `name` of the update has `value` from `clock` on */
    TT_STORE_READ,    /* `output` gets plane `plane` of the tensor, and `step` its sums (keep.h) */
    TT_STORE_FILL,    /* `input` is a plane of a tensor that was added without a first value */
    TT_STORE_OPTIONS, /* `options` gets the update's options */
} tt_sync_verb;

enum { TT_SYNC_ERROR_BYTES = 512, TT_SYNC_NAME_BYTES = 256, TT_SYNC_STALENESS_MAX = 63 };

/* As tutti_store_counts. */
typedef struct tt_sync_counts {
    uint64_t clock, least;
    uint64_t pushes, pulls, pushed_bytes, pulled_bytes, uncounted;
    uint64_t clock_waits, clock_wait_ns, pull_waits, pull_wait_ns;
    uint64_t dropped;
    uint64_t staleness[TT_SYNC_STALENESS_MAX + 1];
} tt_sync_counts;

enum { TT_SYNC_CHANGES_MAX = 32, TT_SYNC_UPDATE_BYTES = 384, TT_SYNC_OPTION_BYTES = 32 };

/* The update of a store with the options that it has now, as a text, and those that it has from
 * clocks to come on. */
typedef struct tt_sync_options {
    char update[TT_SYNC_UPDATE_BYTES];
    uint32_t change_count;
    struct {
        uint64_t clock;
        char option[TT_SYNC_OPTION_BYTES];
        double value;
    } changes[TT_SYNC_CHANGES_MAX];
} tt_sync_options;

/* What a worker knows of a store without asking. */
typedef struct tt_sync_look {
    bool is_idle; /* no call is in flight */
    uint64_t clock;
    uint32_t planes; /* of a tensor: the value, and the update's state; 0: update sum */
} tt_sync_look;

/* One call of a worker. Requests on one tensor are served in the order of submission. The caller's
 * memory, which must stay in place until `finished`. */
typedef struct tt_sync_request {
    tt_sync_verb verb;
    uint32_t store;        /* OPEN: set to the number of the new store */
    const char *policy;    /* OPEN */
    const char *update;    /* OPEN */
    bool is_sums;          /* OPEN: the store of named sums; policy bulk, update sum */
    const char *codec;     /* OPEN; NULL: none */
    const char *name;      /* of the tensor */
    tt_dtype dtype;        /* ADD */
    uint64_t count;        /* ADD: elements */
    uint32_t row_elements; /* ADD: of a table, of which `count` is a multiple; 0: it is none */
    bool is_rows;          /* PUSH, PULL, PUSH_PULL: only of these rows of a table, ascending: */
    const uint64_t *rows;  /* the caller's, as input and output, which have them row by row */
    uint64_t row_count;
    const void *input;
    void *output; /* PUSH_PULL: may be the input */
    int32_t urgency;
    double value;             /* SET */
    tt_sync_counts *counts;   /* COUNT */
    tt_sync_options *options; /* OPTIONS */
    const uint8_t *may_own;   /* OPEN: [servers] 1: it may own parts; NULL: all may */
    uint32_t plane;           /* READ, FILL: 0 is the value */
    uint64_t step;            /* READ, FILL: sums that were made, the most of any part */
    /* May be called from inside submit. */
    void (*finished)(struct tt_sync_request *request);
    void *owner;

    tt_status status;
    bool
        is_uncounted; /* of a push under a quorum: it was too late for its iteration, and dropped */
    uint64_t clock;   /* CLOCK: iterations that this worker has completed. SET: from which one on;
                       * UINT64_MAX: the first that no owner has begun to apply. OPEN: iterations
                       * that count as completed */
    char error[TT_SYNC_ERROR_BYTES];

    struct tt_sync_request *next; /* from here on sync's */
    uint32_t open;                /* parts or owners that it waits for */
    uint32_t lent;                /* sends that have its input */
    bool is_first;                /* ADD: it sends first values now */
    bool is_now;                  /* SET: owners choose the clock */
    bool has_waited;              /* PULL, CLOCK: others were waited for */
    uint64_t since_ns;            /* it was submitted or, later, sent */
    tt_status lost;               /* negative: a part of it is lost; `error` says why */
} tt_sync_request;

void tt_sync_submit(tt_sync *sync, tt_sync_request *request);

/* False: there is no such store. */
bool tt_sync_look_at(const tt_sync *sync, uint32_t store, tt_sync_look *look_out);
/* The servers of the job, and whether one, by its number, is gone. */
uint32_t tt_sync_server_count(const tt_sync *sync);
bool tt_sync_server_is_gone(const tt_sync *sync, uint32_t server);

/* A named all-reduce of the world, of an elementwise operator: owners sum it (sum_worker.h). The
 * store of named sums must be open. Arguments have been checked: an objection fails it on all
 * workers. The request is this machine's until `finished`. */
void tt_sync_sum(tt_sync *sync, tt_request *request);
/* This worker joins the world; before the same request is submitted to control. True: not now, the
 * listener submits it. */
bool tt_sync_join(tt_sync *sync, tt_request *request);
/* End all requests with this status. */
void tt_sync_shut_down(tt_sync *sync, tt_status status, const char *text);
/* As an owner, has this rank answers that it could not send yet, or must it make sums of calls that
 * others made before a join? */
bool tt_sync_owes(const tt_sync *sync);
/* Requests that are not over. */
uint32_t tt_sync_pending(const tt_sync *sync);

#endif
