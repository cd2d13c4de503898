/* SPDX-License-Identifier: Apache-2.0
 *
 * store.h - servers of a job, and stores: tensors that workers push to and pull from.
 *
 * Workers train and call the collectives of tutti.h; servers keep parts of stores. Of the processes
 * that the launcher numbers, the last TUTTI_SERVERS are servers:
 *
 *     tutti run -n 4 --servers 2 ./train
 *     TUTTI_SERVERS=2 mpirun -n 4 ./train : -n 2 tutti server
 *
 * Rank and size of tutti_options and of launchers count all processes; those that tutti.h returns,
 * hosts and process sets are the workers' alone. No collective involves a server, so a server that
 * ends or dies breaks none. TUTTI_SERVERS, or tutti_options.servers, must be the same on all
 * processes; joining checks it. Servers end when all workers have left, so the workers of such a
 * job call tutti_init once; a program that meets elsewhere for a job without servers sets the
 * option to -1. An outside engine (TUTTI_ENGINE) excludes servers.
 *
 * A store holds tensors in parts, each with an owner. With as many servers as workers, servers own
 * all; with fewer, workers own a share, too; without servers, workers own all. A worker trains with
 * a store like this:
 *
 *     tutti_store *store;
 *     tutti_store_config config = TUTTI_STORE_CONFIG_INIT;
 *     config.policy = "stale:3";
 *     config.update = "sgd:lr=0.1";
 *     tutti_store_open(context, &config, &store);
 *     tutti_store_add(store, "w", first, count, TUTTI_F32);      (worker 0's first value counts)
 *     for (;;) {
 *         tutti_store_pull(store, "w", weights);
 *         ... gradient of this worker at these weights ...
 *         tutti_store_push(store, "w", gradient);
 *         tutti_store_clock(store, NULL);                        (the iteration is over)
 *     }
 *     tutti_store_close(store);
 *
 * Policies: when a worker may go on. Its clock is the number of iterations it has completed.
 *   "bulk"     when all workers have completed as many. What they push in one iteration is added in
 *              the order of workers: runs have the same bits.
 *   "stale:S"  when all have completed all but S of them. Pushes are applied as they arrive, so
 *              runs differ. A pull sees every push of iterations below clock - S, all own ones, and
 *              newer ones of others as they are there. stale:0 is bulk.
 *   "async"    at once.
 *   "quorum:K" when K workers have completed as many (backup workers). What these K have pushed in
 *              the iteration counts; what the others push for it is dropped (counted_out), and they
 *              go on at the present clock. A push ends with its iteration, so it is started
 *              (tutti_store_start) before the clock.
 * Updates: what a push does to the value.
 *   "sum"      The value is the sum of an iteration's pushes (bulk and quorum only).
 *   "add"      Each push is added to the value.
 *   "sgd:lr=0.1", "momentum:lr=0.1,momentum=0.9,nesterov=0",
 *   "adam:lr=0.001,beta1=0.9,beta2=0.999,eps=1e-8,decay=0"
 *              Pushes are gradients, in f32; their mean over the workers, or the quorum, is one
 *              step; under stale and async each push is, divided by the number of workers.
 *
 *              Under stale and async, tau=1 divides a gradient by its staleness too: the updates
 *              of its part since its worker's last read. "sgd:lr=0.1,dc=0.04" corrects a gradient
 *              g to g + dc * g * g * (value - value read) (DC-ASGD); an owner then keeps what each
 *              worker has read last: as much memory again as for pushes.
 *
 *   "own:NAME", "own:NAME:lr=0.1"
 *              A function of the program: tutti_store_update below.
 *
 * Codecs: config.codec = "int8" sends what is pushed in fewer bytes, and with update sum the
 * answer, too: once per sum, so all workers get the same bits. Other answers are the model, and are
 * sent as they are. Tables, and tensors up to 64 KiB or of another type than f32, are sent as they
 * are. With error feedback (ef=on) a worker keeps what its codes lack for its next push, and a
 * whole push that did not count in a quorum; an owner keeps what its sums lack. Codecs with scales
 * that ranks share (int8sum, terngrad, majority), ef=21 and lists are refused; `where` has no
 * effect.
 *
 * A table (tutti_store_add_table) is a tensor of which chosen rows can be pushed and pulled, such
 * as the embeddings of a vocabulary of which a batch has some words:
 *
 *     tutti_store_add_table(store, "words", first, 100000, 64, TUTTI_F32);
 *     const uint64_t rows[] = {7, 19, 4021};                     (ascending, each once)
 *     tutti_store_pull_rows(store, "words", rows, 3, values);    (values: 3 x 64, row after row)
 *     tutti_store_push_rows(store, "words", rows, 3, gradients);
 *
 * A push of rows is that of the whole table with zeros in all other rows, to the bit, under every
 * policy and update. So momentum and adam move other rows, too, as they do for a gradient of zero,
 * and decay shrinks them. Bytes on links are those of the chosen rows and 8 for the number of each;
 * owners still add and update whole parts. Whole tables can be pushed and pulled as well. They are
 * never coded, and take no dc; for tau a pull of rows is a read of the parts they are in.
 *
 * A push is applied exactly once, and a part is never read half updated; parts of one tensor may be
 * of different age. A worker that has left or died counts no more; of its last push some parts may
 * be applied and others not. Under bulk a death fails the store. A worker that is stopped is waited
 * for. If an owner dies, what it owned is lost, and every call on the store fails with
 * TUTTI_ERR_PEER_DOWN; the text names it. Collectives of workers that live go on if it was a
 * server.
 *
 * With update sum, under bulk and quorum, a server that dies has nothing that cannot be sent again,
 * and the store goes on with the owners left. Calls in flight are repeated inside the library and
 * succeed, except an iteration of which some worker had received a part from that server: it
 * succeeds there, and fails with TUTTI_ERR_PEER_DOWN on the workers that lack the part. So does a
 * pull of it. The text names the server; the next push works. What that server kept for error
 * feedback is lost. When no owner is left, every call fails.
 */
#ifndef TUTTI_STORE_H
#define TUTTI_STORE_H

#include <tutti/tutti.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- servers ---- */

/* Join the job as a server, and serve until every worker has left or died. `options` as of
 * tutti_init. TUTTI_OK once no worker is left, also if workers
 * died. A failure to join is returned like that of tutti_init: tutti_last_error(NULL) has the text.
 * A process that is a worker is refused; so is tutti_init in a process that is a server. Blocks
 * without using the processor while workers send nothing. `tutti server` is a program that makes
 * this one call. */
TUTTI_API tutti_status tutti_server_run(const tutti_options *options);

/* ---- updates of the program's own ---- */

/* Some elements of a tensor, and what to do with them. */
typedef struct tutti_store_update_args {
    size_t struct_bytes;
    const char *tensor;
    uint64_t first;        /* of the tensor's elements */
    size_t count;          /* of elements here */
    const float *value;    /* as it is */
    const float *gradient; /* mean of what was pushed, as for sgd */
    float *value_out;      /* write all. It may be the memory of `gradient` */
    float *const *states; /* of the update, [state_count][count]; zeros at first. Change in place */
    const float *options; /* [option_count], as of this clock */
    uint64_t step;        /* of these elements, from 1 */
    uint64_t clock;       /* iteration of the push; of several, the latest */
    uint64_t staleness;   /* of one push (stale, async): updates since its worker's last read */
    uint32_t workers;     /* by which the sum was divided: of the job, or of the quorum */
} tutti_store_update_args;

enum { TUTTI_STORE_STATES_MAX = 4, TUTTI_STORE_OPTIONS_MAX = 6 };

/* A function that owners apply for update "own:NAME". Servers, and workers if they own parts, pass
 * it in tutti_options.updates, and it must be the same on all; where one lacks it, tutti_store_open
 * fails on all workers, and the text names that process. So with servers of a program of their own
 * (tutti_server_run) and as many of them as workers, workers need no function; without it they
 * cannot tutti_store_set its options.
 *
 * Elements are treated one by one: in how many calls, and in which order, depends on owners and
 * workers. The function must call nothing of Tutti and not block; it runs on the thread that drives
 * the process. The array, its texts and `user` stay in place until the context is gone. */
typedef struct tutti_store_update {
    size_t struct_bytes;
    const char *name; /* 1 to 31 of letters, digits, '_' and '-' */
    void (*apply)(void *user, const tutti_store_update_args *args);
    void *user;
    uint32_t state_count;            /* floats per element beside the value */
    uint32_t option_count;           /* all from 0 on; not tau nor dc */
    const char *const *option_names; /* [option_count] of at most 31 bytes */
    const float *option_values;      /* [option_count] unless the text has them */
} tutti_store_update;

#define TUTTI_STORE_UPDATE_INIT                                        \
    {                                                                  \
        sizeof(tutti_store_update), NULL, NULL, NULL, 0, 0, NULL, NULL \
    }

/* ---- stores ---- */

typedef struct tutti_store tutti_store;

typedef struct tutti_store_config {
    size_t struct_bytes;
    const char *policy; /* NULL: "bulk" */
    const char *update; /* NULL: "sum" */
    const char *codec;  /* as tutti_call.codec, see above; NULL: none */
} tutti_store_config;

#define TUTTI_STORE_CONFIG_INIT                      \
    {                                                \
        sizeof(tutti_store_config), NULL, NULL, NULL \
    }

/* All workers, in the same order of stores, with the same config; NULL: its defaults. Where workers
 * differ, all fail with TUTTI_ERR_MISMATCH, and the text has both configs. Servers that are gone
 * own nothing of it: to agree on them the workers of a job with servers make a collective call. */
TUTTI_API tutti_status tutti_store_open(tutti_context *context, const tutti_store_config *config,
                                        tutti_store **store_out);
/* All workers that live. Refused while a call on the store is in flight, and in a callback:
 * TUTTI_ERR_BAD_ARGUMENT, TUTTI_ERR_WRONG_THREAD. The store is gone afterwards, whatever else is
 * returned. */
TUTTI_API tutti_status tutti_store_close(tutti_store *store);

/* All workers: a tensor with a name of 1 to 255 bytes. `first` of worker 0 is its value; with
 * update sum it is not read. Ranks that differ in count or type fail it on all of them. */
TUTTI_API tutti_status tutti_store_add(tutti_store *store, const char *name, const void *first,
                                       size_t count, tutti_dtype dtype);

/* As tutti_store_add of rows x row_elements elements, row after row; besides, rows of it can be
 * chosen. A row has 2 bytes to 256 KiB. Ranks that differ in row_elements fail it on all of them.
 * Owners keep 8 bytes for each row and worker besides. Refused if the update has dc. */
TUTTI_API tutti_status tutti_store_add_table(tutti_store *store, const char *name,
                                             const void *first, size_t rows, size_t row_elements,
                                             tutti_dtype dtype);

/* Returns when all owners have applied it; under bulk that is when all workers have pushed. Refused
 * under a quorum. */
TUTTI_API tutti_status tutti_store_push(tutti_store *store, const char *name, const void *values);
TUTTI_API tutti_status tutti_store_pull(tutti_store *store, const char *name, void *values);
/* Both in one round trip: the value with this push in it. `result` may be `values`. */
TUTTI_API tutti_status tutti_store_push_pull(tutti_store *store, const char *name,
                                             const void *values, void *result);
/* The same of chosen rows of a table. `rows` has the numbers of `count` rows, ascending, each once;
 * `values` has these rows one behind the other. Both stay in place until the call is over. With
 * count 0 a push is one of zeros, and counts as such for its iteration; `rows` and `values` may be
 * NULL then. Refused: a tensor that is no table, rows that do not ascend, and a row beyond the
 * table. A push of rows is refused under a quorum like any other; start it. */
TUTTI_API tutti_status tutti_store_push_rows(tutti_store *store, const char *name,
                                             const uint64_t *rows, size_t count,
                                             const void *values);
TUTTI_API tutti_status tutti_store_pull_rows(tutti_store *store, const char *name,
                                             const uint64_t *rows, size_t count, void *values);
/* This worker's iteration is over: returns when its next one may start. Pushes that were started
 * before belong to the iteration. `*clock_out`, unless NULL: how many it has completed. */
TUTTI_API tutti_status tutti_store_clock(tutti_store *store, uint64_t *clock_out);

/* One worker: an option of the update, "lr" say, has this value for pushes of iterations from
 * `from_clock` on; under bulk and a quorum these are the iterations that are summed, else those of
 * the worker that pushes. TUTTI_STORE_NOW: from the first iteration on of which no owner has
 * applied a push, and not before the caller's own. Returns when all owners have it; while they
 * agree, pushes of these iterations wait. Refused, at all owners: an option that the update does
 * not have, a value that is not finite or below 0, and a clock that is past for the caller or of
 * which an owner has applied a push. So under stale:S name a clock more than S beyond your own, and
 * under async use TUTTI_STORE_NOW. Owners keep 32 values for clocks to come. If the caller dies
 * during the call, only some owners may have the value; set it again then. */
#define TUTTI_STORE_NOW UINT64_MAX
TUTTI_API tutti_status tutti_store_set(tutti_store *store, const char *option, double value,
                                       uint64_t from_clock);

/* All workers, after the same iteration, with no call on the store in flight: all that the store
 * has goes to a file, or comes from one. Of each tensor that is its value and the update's state,
 * such as momentum; of the store its clock and the update's options. Worker 0 writes and reads
 * `path`, and the others wait; a failure is the same on all, and leaves the store as it was.
 *
 * The file says nothing of servers or workers: load it with any number of them, under any policy.
 * Update (but for its options, which are the file's), and the count, type and rows of each tensor
 * must be the same. Tensors that the store lacks are added. After load the clock is that of the
 * file, and servers that are gone own nothing. So a store that has failed because a server died,
 * and all calls on it with TUTTI_ERR_PEER_DOWN, goes on from its last file:
 *
 *     if (tutti_store_push(store, "w", gradient) == TUTTI_ERR_PEER_DOWN) {
 *         tutti_store_load(store, "last.tutti");     (on all workers)
 *     }
 *
 * Not with a worker that is gone. Not saved: values of update sum, residuals of codecs, what dc
 * knows of reads, and counts; they begin anew. A file is complete when it has its name: it is
 * written to PATH.tmp before, and is on disk when save returns. */
TUTTI_API tutti_status tutti_store_save(tutti_store *store, const char *path);
TUTTI_API tutti_status tutti_store_load(tutti_store *store, const char *path);
/* Likewise, but without a file: from now on only the first `servers` servers own parts, and workers
 * what is theirs with so many servers. With more servers than the job has, all do. A job may so
 * stop using servers before they end, and use more of them later. Bits of bulk are as without it.
 */
TUTTI_API tutti_status tutti_store_reshard(tutti_store *store, int servers);

/* What has happened since the store was opened, loaded or resharded. */
typedef struct tutti_store_counts {
    size_t struct_bytes;
    uint64_t clock; /* iterations that this worker has completed */
    uint64_t least; /* that all have, with their pushes applied at all owners */
    uint64_t pushes, pulls, pushed_bytes, pulled_bytes; /* of this worker: calls that succeeded */
    uint64_t not_counted;                               /* of the pushes: too late for a quorum */
    uint64_t clock_waits, clock_wait_ns; /* calls of clock that waited for a reply of an owner */
    uint64_t pull_waits, pull_wait_ns;   /* pulls that an owner held back for others' clocks */
    uint64_t dropped;                    /* of all workers: frames that reached an owner twice */
    /* Of all workers: parts that were pushed, by how many updates their owner had applied between
     * the worker's last read of the part and the push; the last one has those of 63 and more. */
    uint64_t staleness[64];
} tutti_store_counts;

#define TUTTI_STORE_COUNTS_INIT                                         \
    {                                                                   \
        sizeof(tutti_store_counts), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
        {                                                               \
            0                                                           \
        }                                                               \
    }

/* Any worker; asks all owners. */
TUTTI_API tutti_status tutti_store_count(tutti_store *store, tutti_store_counts *counts);

/* ---- the same, started ---- */

typedef enum tutti_store_verb {
    TUTTI_STORE_PUSH = 0,
    TUTTI_STORE_PULL = 1,
    TUTTI_STORE_PUSH_PULL = 2,
    TUTTI_STORE_CLOCK = 3,
} tutti_store_verb;

typedef struct tutti_store_call {
    size_t struct_bytes;
    tutti_store_verb verb;
    const char *name;    /* of a tensor; not of CLOCK */
    const void *input;   /* of PUSH, PUSH_PULL */
    void *output;        /* of PULL, PUSH_PULL */
    int priority;        /* larger first, on links and at owners; -32768 to 32767 */
    uint64_t *clock_out; /* of CLOCK, or NULL */
    int *counted_out;    /* of PUSH, PUSH_PULL, or NULL: 1, or 0 if it was too late for a quorum */
    void (*done)(void *user, tutti_handle *handle, tutti_status status); /* or NULL */
    void *done_user;
    const uint64_t *rows; /* of a table, as of tutti_store_push_rows; input and output have only
                           * these. NULL: the whole tensor */
    size_t row_count;
} tutti_store_call;

#define TUTTI_STORE_CALL_INIT                                                                    \
    {                                                                                            \
        sizeof(tutti_store_call), TUTTI_STORE_PUSH, NULL, NULL, NULL, 0, NULL, NULL, NULL, NULL, \
            NULL, 0                                                                              \
    }

/* Calls on one tensor are served in the order in which they were started. Those that are started
 * while a CLOCK is in flight belong to the iteration after it; a push waits for it. The handle is
 * as those of tutti_start: wait for it, poll it, free it. It cannot be cancelled. */
TUTTI_API tutti_status tutti_store_start(tutti_store *store, const tutti_store_call *call,
                                         tutti_handle **handle_out);

#ifdef __cplusplus
}
#endif

#endif
