/* SPDX-License-Identifier: Apache-2.0
 *
 * tutti.h - sums and moves tensors between the ranks of a data-parallel job.
 *
 * This header is the manual. A program joins a job, hands over buffers, and leaves:
 *
 *     tutti_context *context;
 *     if (tutti_init(NULL, &context) != TUTTI_OK) {
 *         fprintf(stderr, "%s\n", tutti_last_error(NULL));
 *         return 1;
 *     }
 *     tutti_allreduce(context, gradient, gradient, count, TUTTI_F32, TUTTI_AVERAGE);
 *     tutti_shutdown(context);
 *
 * and is started with `tutti run -n 4 ./program` (or mpirun, srun, torchrun; see tutti_init).
 *
 * Matching.  A call without a name matches by call order: the n-th call of a rank on a process
 *   set meets the n-th call of every other member. A call with a name meets the calls of that name,
 *   in whatever order and from whatever thread each rank makes them; what comes in every step soon
 *   goes without any message of its own. A name may be used again when its call is over. Ranks
 *   that disagree about type, count, shape, op or root get TUTTI_ERR_MISMATCH on every rank, with
 *   one text that says who asked for what; the context stays usable. A rank whose part was over
 *   before (root of a short broadcast, sender of a short message) may have returned success;
 *   then its next call returns that error. Two threads must not make unnamed calls on one process
 *   set at once; named ones they may. Send and receive match by call order per pair of ranks and
 *   tag; a receive may take any source (TUTTI_ANY_SOURCE).
 * Errors.    0 is success, > 0 is "not yet", < 0 is failure. tutti_last_error gives the text.
 *   A failed call leaves its output undefined. When a rank dies, every pending and later call on
 *   a process set it belongs to ends with TUTTI_ERR_PEER_DOWN; the text names the rank.
 * Same bits. Every rank receives the same bits, from run to run, for a fixed world size,
 *   placement and configuration. f16 and bf16 are added in f32; algorithms that pass partial sums
 *   from rank to rank (ring, trees) round once per hop, the shared-memory one rounds once. Small
 *   named tensors have the same bits whatever they are exchanged with.
 * Arithmetic. Integers wrap. The average of integers is the wrapped sum divided by the number of
 *   ranks, truncated toward zero. NaN wins in min and max. For bool, any non-zero byte is true;
 *   sum and max are "or", product and min are "and"; average is refused. Adasum adds vectors
 *   pairwise, (0, 1), (2, 3), then (01, 23) ..., as a (1 - ab / 2aa) + b (1 - ab / 2bb): the sum
 *   of orthogonal ones, the average of parallel ones. Products are of the whole tensor, in f64.
 * Memory.    Buffers belong to the caller; a started call borrows them until it is over. Input and
 *   output may be the same pointer (in place) where counts are equal, but must not overlap
 *   otherwise (refused). Any alignment works. Zero-length calls are legal and still synchronise.
 * Threads.   Every function may be called from any thread. Waiting threads drive progress.
 * Fork.      A forked child must not use the context: every call returns TUTTI_ERR_FORKED.
 */
#ifndef TUTTI_TUTTI_H
#define TUTTI_TUTTI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TUTTI_API __attribute__((visibility("default")))
#else
#define TUTTI_API
#endif

#define TUTTI_VERSION_MAJOR 0
#define TUTTI_VERSION_MINOR 1
#define TUTTI_VERSION_PATCH 0

/* "0.1.0", of the library that is running (not of the header). */
TUTTI_API const char *tutti_version(void);

typedef enum tutti_status {
    TUTTI_OK = 0,
    TUTTI_IN_PROGRESS = 1,        /* poll, or wait with a timeout: not over yet */
    TUTTI_ERR_NO_MEMORY = -1,     /* here or on a peer; the text says where */
    TUTTI_ERR_BAD_CONFIG = -2,    /* an option or environment variable; the text names it */
    TUTTI_ERR_BAD_WIRE = -3,      /* malformed bytes from a peer */
    TUTTI_ERR_BAD_ARGUMENT = -4,  /* this call; peers are told, so that they fail too */
    TUTTI_ERR_MISMATCH = -5,      /* ranks disagree about a call */
    TUTTI_ERR_PEER_DOWN = -6,     /* a process or host is gone */
    TUTTI_ERR_PEER_LEFT = -7,     /* a rank shut down while others still call */
    TUTTI_ERR_TIMED_OUT = -8,     /* the deadline passed; the text names missing ranks */
    TUTTI_ERR_CANCELLED = -9,     /* tutti_cancel, here or on a peer */
    TUTTI_ERR_SHUT_DOWN = -10,    /* the context was shut down meanwhile */
    TUTTI_ERR_NO_RESOURCE = -11,  /* descriptors, shared memory, ports; the text names it */
    TUTTI_ERR_REFUSED = -12,      /* authentication failed, or no secret was found */
    TUTTI_ERR_UNSUPPORTED = -13,  /* this combination does not exist */
    TUTTI_ERR_SYSTEM = -14,       /* a system call failed; the text has its name */
    TUTTI_ERR_FORKED = -15,       /* called in a forked child */
    TUTTI_ERR_WRONG_THREAD = -16, /* waiting inside a callback */
} tutti_status;

typedef enum tutti_dtype { /* numbers 11 to 15 are kept for fp8, u32 and u64 */
                           TUTTI_U8 = 0,
                           TUTTI_I8 = 1,
                           TUTTI_U16 = 2,
                           TUTTI_I16 = 3,
                           TUTTI_I32 = 4,
                           TUTTI_I64 = 5,
                           TUTTI_F16 = 6,
                           TUTTI_BF16 = 7,
                           TUTTI_F32 = 8,
                           TUTTI_F64 = 9,
                           TUTTI_BOOL = 10,
} tutti_dtype;

typedef enum tutti_op {
    TUTTI_SUM = 0,
    TUTTI_AVERAGE = 1,
    TUTTI_MIN = 2,
    TUTTI_MAX = 3,
    TUTTI_PRODUCT = 4,
    TUTTI_AND = 5, /* and, or, xor: integers and bool only */
    TUTTI_OR = 6,
    TUTTI_XOR = 7,
    TUTTI_ADASUM = 8, /* all-reduce of floats on 1, 2, 4, 8 ... ranks; see Arithmetic */
} tutti_op;

typedef enum tutti_collective {
    TUTTI_ALLREDUCE = 0,
    TUTTI_REDUCE = 1,
    TUTTI_BROADCAST = 2,
    TUTTI_ALLGATHER = 3,
    TUTTI_GATHER = 4,
    TUTTI_SCATTER = 5,
    TUTTI_REDUCESCATTER = 6,
    TUTTI_ALLTOALL = 7,
    TUTTI_SEND = 8,
    TUTTI_RECEIVE = 9,
    TUTTI_BARRIER = 10,
} tutti_collective;

typedef struct tutti_context tutti_context;
typedef struct tutti_handle tutti_handle;

/* ---- joining and leaving ------------------------------------------------------------------ */

/* Fill with TUTTI_OPTIONS_INIT, then set what you need. Everything has a TUTTI_* variable too.
 * Structs begin with their size and only grow at the end: a program built with a later header works
 * with this library as long as it leaves the new fields zero. */
typedef struct tutti_options {
    size_t struct_bytes;
    int rank;               /* -1: from the environment */
    int size;               /* -1: from the environment */
    const char *rendezvous; /* "tcp://host:port" or "file:///path"; NULL: from the environment */
    const char *job_id;     /* NULL: from the environment */
    const uint8_t *secret;  /* 32 bytes; NULL: found as docs/security-protocol.md says */
    const char *transport;  /* "auto", "shm", "tcp" or a plugin's; NULL: TUTTI_TRANSPORT */
    void (*log)(void *user, int level, const char *text); /* NULL: stderr */
    void *log_user;
    double timeout_s; /* for joining; 0: TUTTI_START_TIMEOUT (60 s) */
    int listen_fd; /* rank 0: a socket that listens at `rendezvous`, so that the others may be told
                    * of it before rank 0 joins; duplicated. 0: tutti_init makes one */
} tutti_options;

#define TUTTI_OPTIONS_INIT                                                        \
    {                                                                             \
        sizeof(tutti_options), -1, -1, NULL, NULL, NULL, NULL, NULL, NULL, 0.0, 0 \
    }

/* Join the job; returns when every rank has joined. Rank and size come from `options`, else from
 * the launcher's variables: TUTTI_*, HOROVOD_*, torchrun, Open MPI, PMI (MPICH), Slurm, plain
 * RANK and WORLD_SIZE; with none of them the job has one rank. `*context_out` is set only on
 * TUTTI_OK; end it with tutti_shutdown. May be called again after a shutdown, and several times
 * in one process (several contexts, or all ranks of a job as threads). */
TUTTI_API tutti_status tutti_init(const tutti_options *options, tutti_context **context_out);

/* Say goodbye and free the context. Calls that are still pending end with TUTTI_ERR_SHUT_DOWN;
 * peers that still call this rank get TUTTI_ERR_PEER_LEFT. Does not wait for the peers' calls.
 * Every handle of the context must have been freed by its owner before or is invalid after. */
TUTTI_API tutti_status tutti_shutdown(tutti_context *context);

/* This rank cannot go on: pending and later calls of all ranks end with TUTTI_ERR_PEER_DOWN and a
 * text that names it and has `why` in it (200 bytes of it). tutti_shutdown should follow. */
TUTTI_API tutti_status tutti_abort(tutti_context *context, const char *why);

/* World rank and size; the rank among the processes of this host and their number; the index of
 * this host and the number of hosts. -1 where `context` is NULL. */
TUTTI_API int tutti_rank(const tutti_context *context);
TUTTI_API int tutti_size(const tutti_context *context);
TUTTI_API int tutti_local_rank(const tutti_context *context);
TUTTI_API int tutti_local_size(const tutti_context *context);
TUTTI_API int tutti_cross_rank(const tutti_context *context);
TUTTI_API int tutti_cross_size(const tutti_context *context);

/* Text of this thread's last failed call on `context`; NULL: of the last failed tutti_init.
 * Valid until this thread's next call. Never NULL. */
TUTTI_API const char *tutti_last_error(const tutti_context *context);
TUTTI_API const char *tutti_status_text(tutti_status status);
TUTTI_API size_t tutti_dtype_bytes(tutti_dtype dtype);

/* ---- memory -------------------------------------------------------------------------------- */

/* Memory in the arena that all ranks of this host share: the fastest place for tensors.
 * 64-byte aligned, zeroed. Falls back to private memory (then only slower) where sharing is
 * impossible. NULL when exhausted, or when less than 16 MiB would be left before the limit of the
 * host or of a control group (a container), at which the kernel kills. */
TUTTI_API void *tutti_alloc(tutti_context *context, size_t bytes);
TUTTI_API void tutti_free(tutti_context *context, void *memory);

/* What tutti_alloc and `result_out` gave goes with its context, unless the arena is held: it then
 * stays as it is after tutti_shutdown, until the last hold is dropped (from any thread). For
 * languages whose objects may outlive the job. NULL where memory is private, and outlives the
 * context anyway; dropping NULL does nothing. */
TUTTI_API void *tutti_arena_hold(tutti_context *context);
TUTTI_API void tutti_arena_drop(void *hold);

/* Tell Tutti about memory of your own that will be used often. Legal to omit. The memory must
 * stay valid until tutti_unregister. */
TUTTI_API tutti_status tutti_register(tutti_context *context, void *memory, size_t bytes);
TUTTI_API tutti_status tutti_unregister(tutti_context *context, void *memory);

/* ---- process sets --------------------------------------------------------------------------- */

/* A process set is a group of ranks that calls collectives on its own; 0 is the whole world.
 * Creation and removal are collective over the world: every rank calls with the same ranks,
 * members or not. Ranks inside a set are numbered by their place in `ranks`. Calls that were made
 * on a set before its removal end as they would have; its memory is released when the last of them
 * is over on all members. */
typedef uint32_t tutti_set;
#define TUTTI_WORLD ((tutti_set)0)
TUTTI_API tutti_status tutti_set_create(tutti_context *context, const int *ranks, int rank_count,
                                        tutti_set *set_out);
TUTTI_API tutti_status tutti_set_remove(tutti_context *context, tutti_set set);
/* A set that its members alone create and remove, and without a message. `key`, below 2^30, is the
 * same on all members and never that of another set of this job. The caller sees to it that every
 * member has created the set before one of them calls on it (a store, a barrier). Its removal waits
 * for nobody: what the set holds is released when all members have removed it. */
TUTTI_API tutti_status tutti_set_create_keyed(tutti_context *context, const int *ranks,
                                              int rank_count, uint32_t key, tutti_set *set_out);
/* This rank's number in `set`, or -1 if it is no member; the members' count, or -1. */
TUTTI_API int tutti_set_rank(const tutti_context *context, tutti_set set);
TUTTI_API int tutti_set_size(const tutti_context *context, tutti_set set);

/* ---- blocking calls on the world ------------------------------------------------------------ */

/* output = op over all ranks' inputs, on every rank. */
TUTTI_API tutti_status tutti_allreduce(tutti_context *context, const void *input, void *output,
                                       uint64_t count, tutti_dtype dtype, tutti_op op);
/* The same, on `root` only; output may be NULL elsewhere. */
TUTTI_API tutti_status tutti_reduce(tutti_context *context, const void *input, void *output,
                                    uint64_t count, tutti_dtype dtype, tutti_op op, int root);
/* `buffer` of `root` to every rank. */
TUTTI_API tutti_status tutti_broadcast(tutti_context *context, void *buffer, uint64_t count,
                                       tutti_dtype dtype, int root);
/* `count` elements of every rank, in rank order: output has count * size elements. */
TUTTI_API tutti_status tutti_allgather(tutti_context *context, const void *input, void *output,
                                       uint64_t count, tutti_dtype dtype);
/* The same on `root` only. */
TUTTI_API tutti_status tutti_gather(tutti_context *context, const void *input, void *output,
                                    uint64_t count, tutti_dtype dtype, int root);
/* Part r of root's input (count * size elements) to rank r. */
TUTTI_API tutti_status tutti_scatter(tutti_context *context, const void *input, void *output,
                                     uint64_t count, tutti_dtype dtype, int root);
/* Part r of the reduced input (count * size elements) to rank r. */
TUTTI_API tutti_status tutti_reducescatter(tutti_context *context, const void *input, void *output,
                                           uint64_t count, tutti_dtype dtype, tutti_op op);
/* Part p of the input goes to rank p; part p of the output comes from rank p; `count` each. */
TUTTI_API tutti_status tutti_alltoall(tutti_context *context, const void *input, void *output,
                                      uint64_t count, tutti_dtype dtype);
TUTTI_API tutti_status tutti_send(tutti_context *context, const void *buffer, uint64_t count,
                                  tutti_dtype dtype, int peer);
/* `peer` may be TUTTI_ANY_SOURCE; tutti_call.source_out tells whose message it was. */
TUTTI_API tutti_status tutti_receive(tutti_context *context, void *buffer, uint64_t count,
                                     tutti_dtype dtype, int peer);
TUTTI_API tutti_status tutti_barrier(tutti_context *context);

/* ---- the general call ------------------------------------------------------------------------ */

/* Every call above is a short form of this one. Fill with TUTTI_CALL_INIT, then set.
 *
 * counts: with a non-NULL `input_counts` or `output_counts` the parts may differ in length:
 *   allgather, gather   count = own elements; the library writes every rank's count to
 *                       output_counts[size] (gather: on root) and places parts in rank order.
 *   scatter             root gives input_counts[size]; the rank's own count is written to
 *                       output_counts[0].
 *   reducescatter       input_counts[size], the same on every rank: elements each rank receives.
 *   alltoall            input_counts[size]: elements for each rank; the library writes
 *                       output_counts[size].
 *   With TUTTI_EXPECTED, allgather and alltoall find in output_counts what this rank has room for,
 *   part by part; other counts fail the call on all ranks.
 * output: output_capacity is the room in elements; a longer result is TUTTI_ERR_BAD_ARGUMENT on
 *   this rank. With output == NULL and result_out set, the library allocates the output (the sizes
 *   of uneven parts are known only then) and stores it to *result_out; free it with tutti_free. */
typedef struct tutti_call {
    size_t struct_bytes;
    tutti_collective collective;
    tutti_dtype dtype;
    tutti_op op;
    int root; /* root; for send and receive the peer, for receive also TUTTI_ANY_SOURCE; numbered
               * within the set */
    tutti_set set;
    int priority;     /* larger is more urgent; 0 is usual. What is urgent passes what is under way,
                       * piece by piece. For gradients: minus the place of first use */
    const char *name; /* NULL or "": matched by order. Copied; at most 255 bytes. Send and receive
                       * match by order all the same, and must agree on the name */
    const void *input;
    void *output;
    uint64_t count;           /* elements of this rank, as in the short forms */
    uint64_t output_capacity; /* elements; 0: what the short form implies */
    const uint64_t *input_counts;
    uint64_t *output_counts;
    void **result_out;
    double prescale;  /* multiplies every input; 1.0: nothing */
    double postscale; /* multiplies the result; 1.0: nothing */
    double timeout_s; /* deadline of this call; 0: TUTTI_TIMEOUT. Small named calls that travel
                       * together share the earliest */
    int device;       /* -1: host memory. Other devices: TUTTI_ERR_UNSUPPORTED today */
    void *stream;     /* kept for devices */
    void (*done)(void *user, tutti_handle *handle, tutti_status status);
    void *done_user; /* done runs once, on some thread; it may start calls but not wait */
    /* With a name: one of `group_size` calls of this group. Nothing of a group moves until all of
     * it is submitted, on every rank; its calls end together, with one status. Copied; at most 255
     * bytes. */
    const char *group;
    int group_size;
    unsigned flags; /* TUTTI_BY_ACTIVE, TUTTI_ACTIVATION, TUTTI_URGENT, TUTTI_ALONE,
                     * TUTTI_EXPECTED */
    /* The shape of the tensor, for the ranks to compare: what was given (reducescatter: the whole
     * input). Of gathers, scatter and alltoall the first dimension may differ. Given on all ranks
     * or on none; read before the call returns. ndim 0: left out. */
    int ndim;
    const uint64_t *dims; /* [ndim] */
    int tag; /* of send and receive: those of one tag match by call order per pair of ranks; 0 to
              * TUTTI_TAG_MAX. Some memory is kept for every tag that a pair has used */
    int *source_out; /* of receive: the member of the set whose message it takes; written before the
                      * call ends, valid if it succeeds. NULL: not reported */
} tutti_call;

/* As `root` of a receive: take the next message of whichever member has one of this tag.
 *
 * Matching.  Receives of one tag on a set take messages in the order of the receive calls: one from
 *   a named rank that was made after one from any source takes its message after it. Messages of
 *   one sender and tag are taken in the order of its sends. Of several members that have a message,
 *   none is taken twice before the others were taken once; the order in which messages of unlike
 *   senders arrive means nothing. Type and count must be those of the message that is taken, else
 *   both calls end with TUTTI_ERR_MISMATCH.
 * Cancel, deadlines.  Until it has taken a message, the receive ends alone: tutti_cancel, a
 *   deadline or a lack of memory take no message, and the next receive gets it. Once it has,
 *   tutti_cancel is too late, and a deadline fails that message on both ranks. The same holds for a
 *   receive from a named rank that waits behind one from any source.
 * Failures.  A send that was cancelled or has failed keeps its place: the receive that would take
 *   its message fails with its error. When a member dies, the receive ends with TUTTI_ERR_PEER_DOWN
 *   as every call on the set does. Members that leave do not end it, and what they sent is still
 *   received, until all others have left: then it ends with TUTTI_ERR_PEER_LEFT.
 * Cost.  One that finds no message asks every member of the set, by one short frame each, once for
 *   the member's next message. Some memory is kept for every tag and member.
 */
#define TUTTI_ANY_SOURCE (-1)

/* Averages are divided by the number of ranks that have not joined (tutti_join), not by all. */
#define TUTTI_BY_ACTIVE 1u
/* Classes, above all priorities: a call that somebody waits for right now (activations, all-to-all
 * of experts), and one that others wait for behind it. Without either a call is a gradient. */
#define TUTTI_ACTIVATION 2u
#define TUTTI_URGENT 4u
/* A small named sum that travels by itself: for one that somebody will wait for before the others
 * that it would be sent with. The same on all ranks. */
#define TUTTI_ALONE 8u
/* output_counts is given, too: see counts above. */
#define TUTTI_EXPECTED 16u
#define TUTTI_PRIORITY_MAX 16777215 /* of priorities, either sign */
#define TUTTI_TAG_MAX 16777215

#define TUTTI_CALL_INIT                                                                           \
    {                                                                                             \
        sizeof(tutti_call), TUTTI_ALLREDUCE, TUTTI_F32, TUTTI_SUM, 0, TUTTI_WORLD, 0, NULL, NULL, \
            NULL, 0, 0, NULL, NULL, NULL, 1.0, 1.0, 0.0, -1, NULL, NULL, NULL, NULL, 0, 0, 0,     \
            NULL, 0, NULL                                                                         \
    }

/* Start a call; it runs on while the caller computes. On TUTTI_OK the handle is the caller's and
 * must be freed. Arguments that are wrong on their face fail here, and fail the peers' call too. */
TUTTI_API tutti_status tutti_start(tutti_context *context, const tutti_call *call,
                                   tutti_handle **handle_out);
/* Start several calls at once: one wake-up, adjacent places in the order. Calls that all have a
 * name, on one process set, are a group (see tutti_call.group). */
TUTTI_API tutti_status tutti_start_group(tutti_context *context, const tutti_call *calls,
                                         int call_count, tutti_handle **handles_out);
/* Start and wait. */
TUTTI_API tutti_status tutti_run(tutti_context *context, const tutti_call *call);

/* The same, but wait no longer than `timeout_s`: then TUTTI_IN_PROGRESS, and *handle_out is to be
 * waited for and freed; NULL otherwise. For callers that must look up now and then, such as an
 * interpreter for its signals. */
TUTTI_API tutti_status tutti_run_for(tutti_context *context, const tutti_call *call,
                                     double timeout_s, tutti_handle **handle_out);

/* In place of a call that this rank cannot make because something of its own is wrong: for layers
 * that check more than this one does. The call has its place in the order and fails on all ranks
 * with TUTTI_ERR_BAD_ARGUMENT and a text that has `why` in it; of `call` collective, set, name and,
 * for send and receive, the peer count. Does not wait for the others. */
TUTTI_API tutti_status tutti_refuse(tutti_context *context, const tutti_call *call,
                                    const char *why);

/* Wait until the call is over and return its status; TUTTI_IN_PROGRESS after `timeout_s`.
 * A negative timeout waits for ever. */
TUTTI_API tutti_status tutti_wait(tutti_handle *handle, double timeout_s);
/* Wait until all `count` calls are over, or until one of them is: its index. NULL handles are
 * passed over. The first failure among all; that of the one; TUTTI_IN_PROGRESS after `timeout_s`.
 * So a layer of the next forward pass waits for the tensors that it reads and for no others
 * (examples/08_layers). */
TUTTI_API tutti_status tutti_wait_all(tutti_handle *const *handles, int count, double timeout_s);
TUTTI_API tutti_status tutti_wait_any(tutti_handle *const *handles, int count, double timeout_s,
                                      int *index_out);
/* The status now, without waiting. */
TUTTI_API tutti_status tutti_poll(tutti_handle *handle);
/* Text of a failed call; "" otherwise. Valid as long as the handle. */
TUTTI_API const char *tutti_handle_error(const tutti_handle *handle);
/* Take the call back if it has not begun to move data: it then ends with TUTTI_ERR_CANCELLED on
 * every rank. TUTTI_IN_PROGRESS: too late, it goes on or is over. Small calls move at once. */
TUTTI_API tutti_status tutti_cancel(tutti_handle *handle);
/* Free the handle; waits first if the call is not over. NULL is allowed. */
TUTTI_API void tutti_handle_free(tutti_handle *handle);

/* A persistent call: declared once (not started), started many times with tutti_restart, each
 * start waited for before the next. The descriptor is checked and prepared only once. */
TUTTI_API tutti_status tutti_declare(tutti_context *context, const tutti_call *call,
                                     tutti_handle **handle_out);
TUTTI_API tutti_status tutti_restart(tutti_handle *handle);
/* The same with other buffers, which are as long as the declared ones. Later restarts use them,
 * too, until others are given. */
TUTTI_API tutti_status tutti_restart_at(tutti_handle *handle, const void *input, void *output);
/* tutti_restart and tutti_wait in one; cheaper, because no other thread needs to take notice, nor
 * is it an event for tutti_event_fd. */
TUTTI_API tutti_status tutti_rerun(tutti_handle *handle);

/* This rank has no more to give: until all members of `set` have joined it takes part in other
 * ranks' named tutti_allreduce and tutti_reduce with what leaves them as they are (0 for sums).
 * Returns when all joined; `*last_rank_out` (may be NULL) is the one that was last. Other named
 * collectives fail meanwhile with TUTTI_ERR_PEER_LEFT. Groups with more than 8 KiB of names and
 * shapes (about 100 members) go on as single calls, which may then end differently. Wait for this
 * rank's named calls first. With TUTTI_TUNE only TUTTI_WORLD can be joined. */
TUTTI_API tutti_status tutti_join(tutti_context *context, tutti_set set, int *last_rank_out);

/* A step of training is over. Optional; if used, every rank calls it once a step, at the same place
 * among its calls without a name. It takes the step's times for tutti_count. After the first step
 * the order in which rank 0 used its tensors becomes the priority of named calls on all ranks,
 * unless TUTTI_ORDER or TUTTI_SCHEDULE say otherwise: as told by tutti_use, else the reverse of the
 * order in which they were started. With TUTTI_TUNE it changes settings, on all ranks at the same
 * step, so that every rank makes a step's named calls between the same two tutti_step; then, and
 * after the first step, it waits for the other ranks like a named sum. So a rank may be in
 * tutti_join meanwhile: nothing is learnt or changed until all have joined. */
TUTTI_API tutti_status tutti_step(tutti_context *context);
/* The forward pass is about to read the tensor of this name; noted in the first step only. */
TUTTI_API tutti_status tutti_use(tutti_context *context, const char *name);

/* A descriptor for poll or epoll: readable when some started call has ended since the last
 * tutti_event_clear. Owned by the context. -1 with an error text on failure. */
TUTTI_API int tutti_event_fd(tutti_context *context);
TUTTI_API tutti_status tutti_event_clear(tutti_context *context);

/* Write what is known about this context (rank, transports, choices) as text to `buffer`;
 * returns the length it needs, like snprintf. NULL has no more than the version to tell. */
TUTTI_API size_t tutti_describe(const tutti_context *context, char *buffer, size_t buffer_bytes);

/* Write what calls spend their time on, stage by stage, to `path` from now on: Chrome's trace
 * format, for Perfetto or chrome://tracing; events of several ranks' files can be put together. One
 * at a time for each context. tutti_shutdown stops it. A thread writes the file: no call waits for
 * the disk. Events are there within 0.1 s where the thread gets a core; where it or the disk cannot
 * follow, the file says how many are missing. */
TUTTI_API tutti_status tutti_trace_start(tutti_context *context, const char *path);
/* Write what is outstanding and close the file. TUTTI_OK also if nothing is written. */
TUTTI_API tutti_status tutti_trace_stop(tutti_context *context);

/* What happened to named calls of a process set on this rank so far. Times are sums over calls: to
 * see one step, subtract what was read before it. */
typedef struct tutti_counters {
    size_t struct_bytes;
    uint64_t steps;     /* times that tensors came again */
    uint64_t rounds;    /* of bit vectors */
    uint64_t turns;     /* gathers of requests never seen before */
    uint64_t messages;  /* control messages sent */
    uint64_t bytes;     /* in them */
    uint64_t sizes[16]; /* messages by size: below 16 bytes, below 32, below 64, ... */
    uint64_t agreed;    /* calls that were negotiated */
    uint64_t planned;   /* calls that went ahead without a message */
    uint64_t failed;
    uint64_t plans_made, plans_cut, evictions, invalidations;
    /* Of all process sets: */
    uint64_t bundles;        /* exchanges that carried several small tensors */
    uint64_t copied_bytes;   /* into them */
    uint64_t negotiation_ns; /* named calls, until every rank had them */
    uint64_t queueing_ns;    /* until their turn in the order; until those they go with had come */
    uint64_t late_ns;        /* until the last rank they take data from was first heard of */
    uint64_t exchange_ns;    /* from there on; small calls that repeat are timed one in 16 */
    char mode[16];       /* of the last call: "coordinator", "bitvector", "plan" or "original" */
    uint64_t launched;   /* calls, and bundles, that an outside engine ran; of all process sets */
    uint64_t copying_ns; /* small tensors into bundles and out of them; of all process sets */
    /* Of scheduling. The last step, from tutti_step: */
    uint64_t step_count;
    uint64_t step_ns;    /* T: from one tutti_step to the next */
    uint64_t compute_ns; /* C: of it, not in tutti_wait or another call that waits */
    uint64_t network_ns; /* N: with a gradient in flight */
    double rho;          /* N / C */
    double alpha;        /* overlap: (N + C - T) / min(N, C) */
    double utilisation;  /* C / T */
    double efficiency;   /* of the order, 0 to 1: as alpha, but N by the table of costs */
    /* Since the start: */
    uint64_t held;        /* calls that waited for credit */
    uint64_t overtaken;   /* calls that began after one that was made later */
    uint64_t chunk_bytes; /* now */
    uint64_t credit_bytes;
    uint64_t fuse_bytes; /* named all-reduces up to this size travel together */
} tutti_counters;

#define TUTTI_COUNTERS_INIT                                                                        \
    {                                                                                              \
        sizeof(tutti_counters), 0, 0, 0, 0, 0, {0}, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, {0}, 0, \
            0, 0, 0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0, 0, 0, 0, 0                                       \
    }

TUTTI_API tutti_status tutti_count(tutti_context *context, tutti_set set,
                                   tutti_counters *counters_out);

#ifdef __cplusplus
}
#endif

#endif
