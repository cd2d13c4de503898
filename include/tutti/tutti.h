/* SPDX-License-Identifier: Apache-2.0
 *
 * tutti.h - reduces and moves tensors between the ranks of a data-parallel job.
 *
 * This header is the manual. A program joins a job, makes calls on its buffers, and leaves:
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
 *   set matches the n-th call of every other member. A call with a name matches the calls of that
 *   name, in any order and from any thread; tensors repeated every step soon need no negotiation.
 *   A name may be used again once its call is over. If ranks disagree about type, count, shape, op
 *   or root, the call fails on every rank with TUTTI_ERR_MISMATCH and one text that gives the
 *   arguments of each rank; the context stays usable. A rank whose part was over before (root of a
 *   short broadcast, sender of a short message) may have returned success; its next call then
 *   returns that error. Two threads must not make unnamed calls on one process set concurrently;
 *   named calls may be concurrent. Send and receive match by call order per pair of ranks and tag;
 *   a receive may take any source (TUTTI_ANY_SOURCE).
 * Errors.    0 is success, > 0 is "not yet", < 0 is failure. tutti_last_error gives the text.
 *   A failed call leaves its output undefined. When a rank dies, every pending and later call on
 *   a process set it belongs to ends with TUTTI_ERR_PEER_DOWN; the text names the rank.
 * Same bits. Every rank receives the same bits, from run to run, for a fixed world size,
 *   placement and configuration. f16 and bf16 are added in f32; algorithms that pass partial sums
 *   from rank to rank (ring, trees) round once per hop, the shared-memory one rounds once. The
 *   result of a small named tensor does not depend on the tensors that it is fused with.
 * Arithmetic. Integers wrap. The average of integers is the wrapped sum divided by the number of
 *   ranks, truncated toward zero. NaN wins in min and max. For bool, any non-zero byte is true;
 *   sum and max are "or", product and min are "and"; average is refused. Adasum adds vectors
 *   pairwise, (0, 1), (2, 3), then (01, 23) ..., as a (1 - ab / 2aa) + b (1 - ab / 2bb): the sum
 *   of orthogonal vectors, the average of parallel ones. The dot products ab, aa and bb are taken
 *   over the whole tensor, in f64.
 * Memory.    Buffers belong to the caller; a started call borrows them until it is over. Input and
 *   output may be the same pointer (in place) where counts are equal; any other overlap is refused.
 *   Any alignment works. Zero-length calls are legal and still synchronise.
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

/* Version of the loaded library (not of the header), such as "0.1.0". */
TUTTI_API const char *tutti_version(void);

typedef enum tutti_status {
    TUTTI_OK = 0,
    TUTTI_IN_PROGRESS = 1,        /* of poll, or of wait with a timeout: not over yet */
    TUTTI_ERR_NO_MEMORY = -1,     /* on this rank or a peer; the text says which */
    TUTTI_ERR_BAD_CONFIG = -2,    /* an option or environment variable; the text names it */
    TUTTI_ERR_BAD_WIRE = -3,      /* malformed bytes from a peer */
    TUTTI_ERR_BAD_ARGUMENT = -4,  /* an argument of this call; it fails on the peers, too */
    TUTTI_ERR_MISMATCH = -5,      /* ranks disagree about a call */
    TUTTI_ERR_PEER_DOWN = -6,     /* a process or host died */
    TUTTI_ERR_PEER_LEFT = -7,     /* a rank shut down while others still make calls */
    TUTTI_ERR_TIMED_OUT = -8,     /* the deadline passed; the text names missing ranks */
    TUTTI_ERR_CANCELLED = -9,     /* tutti_cancel, on this rank or a peer */
    TUTTI_ERR_SHUT_DOWN = -10,    /* the context was shut down during the call */
    TUTTI_ERR_NO_RESOURCE = -11,  /* no descriptors, shared memory or ports; the text names it */
    TUTTI_ERR_REFUSED = -12,      /* authentication failed, or no secret was found */
    TUTTI_ERR_UNSUPPORTED = -13,  /* this combination of arguments is not supported */
    TUTTI_ERR_SYSTEM = -14,       /* a system call failed; the text names it */
    TUTTI_ERR_FORKED = -15,       /* called in a forked child */
    TUTTI_ERR_WRONG_THREAD = -16, /* waiting inside a callback */
} tutti_status;

typedef enum tutti_dtype { /* numbers 11 to 15 are reserved for fp8, u32 and u64 */
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

/* Initialise with TUTTI_OPTIONS_INIT, then set fields. Every field has a TUTTI_* variable, too.
 * Structs begin with their size and only grow at the end: a program built with a later header works
 * with this library as long as it leaves the new fields zero. */
typedef struct tutti_options {
    size_t struct_bytes;
    int rank;               /* -1: from the environment */
    int size;               /* -1: from the environment */
    const char *rendezvous; /* "tcp://host:port" or "file:///path"; NULL: from the environment */
    const char *job_id;     /* NULL: from the environment */
    const uint8_t *secret;  /* 32 bytes; NULL: found as described in docs/security-protocol.md */
    const char *transport;  /* "auto", "shm", "tcp" or a plugin's name; NULL: TUTTI_TRANSPORT */
    void (*log)(void *user, int level, const char *text); /* NULL: stderr */
    void *log_user;
    double timeout_s; /* for joining; 0: TUTTI_START_TIMEOUT (60 s) */
    int listen_fd;    /* rank 0: a socket that listens at `rendezvous`, so that the address can be
                       * published before rank 0 joins; duplicated. 0: tutti_init opens one */
    int servers;      /* of `size`, the last so many: tutti/store.h; 0: TUTTI_SERVERS; -1: none */
    const struct tutti_store_update *updates; /* of stores, the program's own: tutti/store.h */
    size_t update_count;
} tutti_options;

#define TUTTI_OPTIONS_INIT                                                                    \
    {                                                                                         \
        sizeof(tutti_options), -1, -1, NULL, NULL, NULL, NULL, NULL, NULL, 0.0, 0, 0, NULL, 0 \
    }

/* Join the job; returns when every rank has joined. Rank and size come from `options`, else from
 * the launcher's variables: TUTTI_*, HOROVOD_*, torchrun, Open MPI, PMI (MPICH), Slurm, plain
 * RANK and WORLD_SIZE; without any of them the job has one rank. Refused in a process that is a
 * server (tutti/store.h). `*context_out` is set only on TUTTI_OK; end it with tutti_shutdown. May
 * be called again after a shutdown, and several times in one process (several contexts, or all
 * ranks of a job as threads). */
TUTTI_API tutti_status tutti_init(const tutti_options *options, tutti_context **context_out);

/* Leave the job and free the context. Pending calls end with TUTTI_ERR_SHUT_DOWN; peers' calls that
 * need this rank end with TUTTI_ERR_PEER_LEFT. Does not wait for the peers' calls. Handles of the
 * context are invalid afterwards: free them before. */
TUTTI_API tutti_status tutti_shutdown(tutti_context *context);

/* Report that this rank cannot continue: pending and later calls of all ranks end with
 * TUTTI_ERR_PEER_DOWN and a text that names this rank and quotes the first 200 bytes of `why`.
 * tutti_shutdown should follow. */
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
 * 64-byte aligned, zeroed. Falls back to private memory (only slower) where sharing is
 * impossible. NULL when exhausted, or when less than 16 MiB would be left before the memory limit
 * of the host or of a control group (a container), beyond which the kernel kills processes. */
TUTTI_API void *tutti_alloc(tutti_context *context, size_t bytes);
TUTTI_API void tutti_free(tutti_context *context, void *memory);

/* Memory from tutti_alloc and `result_out` is released with its context, unless the arena is held:
 * it then stays valid after tutti_shutdown until the last hold is dropped (from any thread). For
 * languages whose objects may outlive the job. NULL where memory is private, which outlives the
 * context anyway; dropping NULL does nothing. */
TUTTI_API void *tutti_arena_hold(tutti_context *context);
TUTTI_API void tutti_arena_drop(void *hold);

/* Register memory of the caller that will be used often. Optional. The memory must stay valid until
 * tutti_unregister. */
TUTTI_API tutti_status tutti_register(tutti_context *context, void *memory, size_t bytes);
TUTTI_API tutti_status tutti_unregister(tutti_context *context, void *memory);

/* ---- process sets --------------------------------------------------------------------------- */

/* A process set is a group of ranks that call collectives together; 0 is the whole world.
 * Creation and removal are collective over the world: every rank, member or not, calls with the
 * same ranks. Ranks inside a set are numbered by their place in `ranks`. Calls made on a set before
 * its removal complete normally; its memory is released when the last of them is over on all
 * members. */
typedef uint32_t tutti_set;
#define TUTTI_WORLD ((tutti_set)0)
TUTTI_API tutti_status tutti_set_create(tutti_context *context, const int *ranks, int rank_count,
                                        tutti_set *set_out);
TUTTI_API tutti_status tutti_set_remove(tutti_context *context, tutti_set set);
/* A set that only its members create and remove, without communication. `key`, below 2^30, is the
 * same on all members and differs from that of every other set of this job. The caller must make
 * sure (by a store or a barrier) that every member has created the set before any of them makes a
 * call on it. Removal does not wait; the memory of the set is released when all members have
 * removed it. */
TUTTI_API tutti_status tutti_set_create_keyed(tutti_context *context, const int *ranks,
                                              int rank_count, uint32_t key, tutti_set *set_out);
/* This rank's number in `set`, or -1 if it is not a member; the number of members, or -1. */
TUTTI_API int tutti_set_rank(const tutti_context *context, tutti_set set);
TUTTI_API int tutti_set_size(const tutti_context *context, tutti_set set);

/* ---- blocking calls on the world ------------------------------------------------------------ */

/* output = op over all ranks' inputs, on every rank. */
TUTTI_API tutti_status tutti_allreduce(tutti_context *context, const void *input, void *output,
                                       uint64_t count, tutti_dtype dtype, tutti_op op);
/* The same, on `root` only; output may be NULL on other ranks. */
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
/* `peer` may be TUTTI_ANY_SOURCE; tutti_call.source_out then reports the sender. */
TUTTI_API tutti_status tutti_receive(tutti_context *context, void *buffer, uint64_t count,
                                     tutti_dtype dtype, int peer);
TUTTI_API tutti_status tutti_barrier(tutti_context *context);

/* ---- the general call ------------------------------------------------------------------------ */

/* Every call above is a short form of this one. Initialise with TUTTI_CALL_INIT, then set fields.
 *
 * counts: with a non-NULL `input_counts` or `output_counts` the parts may differ in length:
 *   allgather, gather   count = own elements; the library writes every rank's count to
 *                       output_counts[size] (gather: on root) and places parts in rank order.
 *   scatter             root gives input_counts[size]; the rank's own count is written to
 *                       output_counts[0].
 *   reducescatter       input_counts[size], the same on every rank: elements each rank receives.
 *   alltoall            input_counts[size]: elements for each rank; the library writes
 *                       output_counts[size].
 *   With TUTTI_EXPECTED, allgather and alltoall read output_counts, too: the count that this rank
 *   expects from each rank. Any other count fails the call on all ranks.
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
    int priority;     /* larger is more urgent; 0 is usual. Urgent calls overtake calls in flight,
                       * chunk by chunk. For gradients: minus the place of first use */
    const char *name; /* NULL or "": matched by order. Copied; at most 255 bytes. Send and receive
                       * match by order even with a name, and must agree on it */
    const void *input;
    void *output;
    uint64_t count;           /* elements of this rank, as in the short forms */
    uint64_t output_capacity; /* elements; 0: what the short form implies */
    const uint64_t *input_counts;
    uint64_t *output_counts;
    void **result_out;
    double prescale;  /* multiplies every input; 1.0: not scaled */
    double postscale; /* multiplies the result; 1.0: not scaled */
    double timeout_s; /* deadline of this call; 0: TUTTI_TIMEOUT. Fused calls share the earliest
                       * deadline */
    int device;       /* -1: host memory. Other devices: TUTTI_ERR_UNSUPPORTED today */
    void *stream;     /* reserved for devices */
    void (*done)(void *user, tutti_handle *handle, tutti_status status);
    void *done_user; /* done runs once, on any thread; it may start calls but not wait */
    /* With a name: one of `group_size` calls of this group. No call of a group moves data until
     * every rank has submitted all of them; they end together, with one status. Copied; at most 255
     * bytes. */
    const char *group;
    int group_size;
    unsigned flags; /* TUTTI_BY_ACTIVE, TUTTI_ACTIVATION, TUTTI_URGENT, TUTTI_ALONE,
                     * TUTTI_EXPECTED, TUTTI_GRADIENT */
    /* The shape of this rank's tensor (reducescatter: of the whole input), which ranks compare.
     * For allgather, gather, scatter and alltoall the first dimension may differ. Set on all ranks
     * or on none; read before the call returns. ndim 0: not set. */
    int ndim;
    const uint64_t *dims; /* [ndim] */
    int tag; /* of send and receive: calls with the same tag match by call order per pair of ranks;
              * 0 to TUTTI_TAG_MAX. Some memory is kept for every tag that a pair has used */
    int *source_out; /* of receive: the member of the set whose message it takes; written before the
                      * call ends, valid if it succeeds. NULL: not reported */
    /* How the data of allreduce, reducescatter, allgather or broadcast are sent: "int8:block=512";
     * see codecs below. "none": as they are. NULL: by TUTTI_RULES and TUTTI_CODEC. Copied; the same
     * on all ranks. */
    const char *codec;
} tutti_call;

/* Codecs.  Sums, averages and copies of f32, f16 and bf16 can be sent in fewer bytes: fp16, bf16,
 *   e4m3, e5m2, int8, int4, qsgd, natural, sign, onebit, int8sum, terngrad, majority (described by
 *   tutti codec --list and docs/compression.md). The text is NAME[:KEY=VALUE,...], with block=
 *   (elements that share a scale), bits=, ef= (error feedback) and where=: across (the default)
 *   codes what hosts exchange and leaves memory inside a host exact; all codes between all ranks.
 *   "none@0,int8@500" changes the codec at the 500th call of the tensor. All ranks get the same
 *   bits.
 * Error feedback.  With ef=on, the default of codecs other than casts and random ones, a rank keeps
 *   what coding lost of a sum, and adds it to the tensor's next gradient. The call needs a name, or
 *   must be declared. A call that fails changes nothing of it. It costs two floats per element (and
 *   two more per element that the rank sums up). With ef=21 (EF21) ranks send what the receiver's
 *   estimate of a gradient lacks: sums of gradients that change little converge. Ranks whose
 *   estimates differ, after one of them was reset, say, get TUTTI_ERR_MISMATCH until
 *   tutti_codec_reset on all of them. Ranks that have joined cannot take part.
 * NaN, infinity.  A value that is not finite reaches all ranks as NaN, with the block of its codec,
 *   and leaves what is kept of that block unchanged.
 * By rule.  TUTTI_CODEC and TUTTI_RULES apply to calls with TUTTI_GRADIENT, and rules with role=any
 *   to all, above TUTTI_CODEC_MIN bytes. A call that they cannot apply to is sent as it is.
 */

/* As `root` of a receive: take the next message with this tag, from any member that has one.
 *
 * Matching.  Receives of one tag on a set take messages in the order of the receive calls: a
 *   receive from a given rank, made after a receive from any source, takes its message after it.
 *   Messages of one sender and tag are taken in the order of its sends. Members that have messages
 *   take turns: none is served twice before the others are served once. Messages of different
 *   senders have no order otherwise. Type and count must be those of the message taken; otherwise
 *   both calls end with TUTTI_ERR_MISMATCH.
 * Cancel, deadlines.  Until it has taken a message, the receive fails alone: after tutti_cancel, a
 *   missed deadline or a lack of memory the next receive takes the message. Once it has taken one,
 *   tutti_cancel is too late, and a missed deadline fails that message on both ranks. The same
 *   holds for a receive from a given rank that waits behind one from any source.
 * Failures.  A send that was cancelled or has failed keeps its place: the receive that would take
 *   its message fails with its error. When a member dies, the receive ends with TUTTI_ERR_PEER_DOWN
 *   as every call on the set does. Members that leave do not end it, and their messages are still
 *   received; when all others have left, it ends with TUTTI_ERR_PEER_LEFT.
 * Cost.  A receive that finds no message sends every member of the set one short frame, which
 *   requests the member's next message and is not repeated. Some memory is kept for every tag and
 *   member.
 */
#define TUTTI_ANY_SOURCE (-1)

/* Divide averages by the number of ranks that have not joined (tutti_join), not by that of all. */
#define TUTTI_BY_ACTIVE 1u
/* Classes, which go before every priority. ACTIVATION: the caller waits for the call right now
 * (activations, all-to-all of experts). URGENT: other calls wait behind this one. A call with
 * neither flag is a gradient. */
#define TUTTI_ACTIVATION 2u
#define TUTTI_URGENT 4u
/* This small named sum is never fused: for one that is needed before the tensors that it would be
 * fused with. The same on all ranks. */
#define TUTTI_ALONE 8u
/* output_counts is an input, too: see counts above. */
#define TUTTI_EXPECTED 16u
/* The tensor is a gradient: TUTTI_CODEC and TUTTI_RULES apply. The same on all ranks. */
#define TUTTI_GRADIENT 32u
#define TUTTI_PRIORITY_MAX 16777215 /* largest magnitude of a priority, either sign */
#define TUTTI_TAG_MAX 16777215

#define TUTTI_CALL_INIT                                                                           \
    {                                                                                             \
        sizeof(tutti_call), TUTTI_ALLREDUCE, TUTTI_F32, TUTTI_SUM, 0, TUTTI_WORLD, 0, NULL, NULL, \
            NULL, 0, 0, NULL, NULL, NULL, 1.0, 1.0, 0.0, -1, NULL, NULL, NULL, NULL, 0, 0, 0,     \
            NULL, 0, NULL, NULL                                                                   \
    }

/* Start a call, which runs while the caller computes. On TUTTI_OK the caller owns the handle and
 * must free it. Arguments that are invalid in themselves fail here, and on the peers, too. */
TUTTI_API tutti_status tutti_start(tutti_context *context, const tutti_call *call,
                                   tutti_handle **handle_out);
/* Start several calls at once: one wake-up, adjacent places in the call order. If all calls have a
 * name and are on one process set, they are a group (see tutti_call.group). */
TUTTI_API tutti_status tutti_start_group(tutti_context *context, const tutti_call *calls,
                                         int call_count, tutti_handle **handles_out);
/* Start and wait. */
TUTTI_API tutti_status tutti_run(tutti_context *context, const tutti_call *call);

/* The same, but wait at most `timeout_s`. TUTTI_IN_PROGRESS: not over yet; the caller waits for
 * *handle_out and frees it. *handle_out is NULL otherwise. For callers that must regain control
 * regularly, such as an interpreter that handles signals. */
TUTTI_API tutti_status tutti_run_for(tutti_context *context, const tutti_call *call,
                                     double timeout_s, tutti_handle **handle_out);

/* Replaces a call that this rank cannot make because of a local error: for layers that check more
 * than Tutti does. The call takes its place in the order and fails on all ranks with
 * TUTTI_ERR_BAD_ARGUMENT and a text that quotes `why`. It matches by collective, set, name and, for
 * send and receive, peer and tag; other fields do not matter. Does not wait for the others. */
TUTTI_API tutti_status tutti_refuse(tutti_context *context, const tutti_call *call,
                                    const char *why);

/* Wait until the call is over and return its status; TUTTI_IN_PROGRESS after `timeout_s`.
 * A negative timeout waits for ever. */
TUTTI_API tutti_status tutti_wait(tutti_handle *handle, double timeout_s);
/* Wait until all `count` calls are over, and return the first failure among them; or until one is
 * over, and return its status and its index. TUTTI_IN_PROGRESS after `timeout_s`. NULL handles are
 * skipped. With these a layer of the next forward pass waits only for the tensors that it reads
 * (examples/08_layers). */
TUTTI_API tutti_status tutti_wait_all(tutti_handle *const *handles, int count, double timeout_s);
TUTTI_API tutti_status tutti_wait_any(tutti_handle *const *handles, int count, double timeout_s,
                                      int *index_out);
/* The current status, without waiting. */
TUTTI_API tutti_status tutti_poll(tutti_handle *handle);
/* Text of a failed call; "" otherwise. Valid as long as the handle. */
TUTTI_API const char *tutti_handle_error(const tutti_handle *handle);
/* Cancel the call if it has not begun to move data: it then ends with TUTTI_ERR_CANCELLED on every
 * rank. TUTTI_IN_PROGRESS: too late, the call goes on or is over. Small calls move data at once. */
TUTTI_API tutti_status tutti_cancel(tutti_handle *handle);
/* Free the handle; waits first if the call is not over. NULL is allowed. */
TUTTI_API void tutti_handle_free(tutti_handle *handle);

/* A declared call: prepared once (not started), then started many times with tutti_restart. Wait
 * for each start before the next. Arguments are checked only once. */
TUTTI_API tutti_status tutti_declare(tutti_context *context, const tutti_call *call,
                                     tutti_handle **handle_out);
TUTTI_API tutti_status tutti_restart(tutti_handle *handle);
/* The same with other buffers of the declared length. Later restarts use them, too, until others
 * are given. */
TUTTI_API tutti_status tutti_restart_at(tutti_handle *handle, const void *input, void *output);
/* tutti_restart and tutti_wait in one. Cheaper, because no other thread is notified; it does not
 * signal tutti_event_fd. */
TUTTI_API tutti_status tutti_rerun(tutti_handle *handle);

/* This rank has no more data: until all members of `set` have joined, it contributes the identity
 * element (0 for sums) to the other ranks' named tutti_allreduce and tutti_reduce. Returns when all
 * have joined; `*last_rank_out` (may be NULL) is the rank that joined last. Other named collectives
 * fail meanwhile with TUTTI_ERR_PEER_LEFT. Groups with more than 8 KiB of names and shapes (about
 * 100 calls) then run as single calls, whose statuses may differ. Wait for this rank's named calls
 * first. With TUTTI_TUNE only TUTTI_WORLD can be joined. */
TUTTI_API tutti_status tutti_join(tutti_context *context, tutti_set set, int *last_rank_out);

/* Marks the end of a training step. Optional; if used, every rank calls it once per step, at the
 * same place among its unnamed calls. It records the step's times for tutti_count. After the first
 * step the order in which rank 0 uses its tensors becomes the priority of named calls on all ranks,
 * unless TUTTI_ORDER or TUTTI_SCHEDULE selects another one. That order comes from tutti_use;
 * without it, it is the reverse of the order in which the calls were started. With TUTTI_TUNE it
 * changes settings on all ranks at the same step, so every rank must make a step's named calls
 * between the same two tutti_step. It waits for the other ranks, like a named sum, after the first
 * step and with TUTTI_TUNE. A rank may be in tutti_join meanwhile: nothing is learnt or changed
 * until all have joined. */
TUTTI_API tutti_status tutti_step(tutti_context *context);
/* The forward pass is about to read the tensor of this name; recorded in the first step only. */
TUTTI_API tutti_status tutti_use(tutti_context *context, const char *name);

/* What error feedback keeps (see codecs). Each of these is local. Once tutti_step was called, it is
 * committed by tutti_step, and tutti_step_undo brings back what was kept at the last tutti_step:
 * for a step whose gradients are thrown away. Until then each call commits. */
TUTTI_API tutti_status tutti_step_undo(tutti_context *context);
/* Gradients are multiplied by another factor from now on (a loss scale): multiplies what is kept by
 * `unit` / the last unit, which is 1 at first. */
TUTTI_API tutti_status tutti_codec_unit(tutti_context *context, double unit);
/* Forget what is kept of the tensor of this name on `set`; of all tensors, if `name` is NULL. */
TUTTI_API tutti_status tutti_codec_reset(tutti_context *context, tutti_set set, const char *name);
/* Write what is kept of all named tensors to `bytes`, for a checkpoint of this rank. `*bytes_out`
 * is the length that is needed; if `capacity` is less, nothing is written. Loading it on the same
 * rank of as many ranks continues bit for bit; anything else is refused and names the tensor. All
 * of them are refused while a call with error feedback is in flight. */
TUTTI_API tutti_status tutti_codec_save(tutti_context *context, void *bytes, size_t capacity,
                                        size_t *bytes_out);
TUTTI_API tutti_status tutti_codec_load(tutti_context *context, const void *bytes,
                                        size_t byte_count);
/* Root of the sum of squares of all that is kept. Reads all of it. */
TUTTI_API tutti_status tutti_codec_norm(tutti_context *context, double *norm_out);

/* A descriptor for poll or epoll: readable when a started call has ended since the last
 * tutti_event_clear. Owned by the context. -1 with an error text on failure. */
TUTTI_API int tutti_event_fd(tutti_context *context);
TUTTI_API tutti_status tutti_event_clear(tutti_context *context);

/* Write a description of this context (rank, transports, choices) to `buffer`; returns the length
 * needed, like snprintf. Without a context: the version only. */
TUTTI_API size_t tutti_describe(const tutti_context *context, char *buffer, size_t buffer_bytes);

/* From now on write the time that calls spend in each stage to `path`, in Chrome's trace format,
 * for Perfetto or chrome://tracing; the events of several ranks' files can be merged. One trace at
 * a time per context. tutti_shutdown stops it. A thread writes the file: no call waits for the
 * disk. Events are in the file within 0.1 s if the thread gets a core; if the thread or the disk
 * falls behind, the file states how many events are missing. */
TUTTI_API tutti_status tutti_trace_start(tutti_context *context, const char *path);
/* Write outstanding events and close the file. TUTTI_OK also without a trace. */
TUTTI_API tutti_status tutti_trace_stop(tutti_context *context);

/* Counters of the named calls of a process set on this rank so far. Times are sums over calls: for
 * one step, subtract the values read before it. */
typedef struct tutti_counters {
    size_t struct_bytes;
    uint64_t steps;     /* steps seen: a step begins when a tensor is repeated */
    uint64_t rounds;    /* of bit vectors */
    uint64_t turns;     /* rounds in which unknown names went to the coordinator */
    uint64_t messages;  /* control messages sent */
    uint64_t bytes;     /* in them */
    uint64_t sizes[16]; /* messages by size: below 16 bytes, below 32, below 64, ... */
    uint64_t agreed;    /* calls that were negotiated */
    uint64_t planned;   /* calls started from the plan, without negotiation */
    uint64_t failed;
    uint64_t plans_made, plans_cut, evictions, invalidations;
    /* Of all process sets: */
    uint64_t bundles;        /* exchanges of several fused tensors (batches) */
    uint64_t copied_bytes;   /* into them */
    uint64_t negotiation_ns; /* of named calls: until every rank had made them */
    uint64_t queueing_ns;    /* then until their turn in the order and their batch was complete */
    uint64_t late_ns;        /* then until the first frame of the last rank whose data they need */
    uint64_t exchange_ns;    /* then until the end; of small repeated calls one in 16 is timed */
    char mode[16];       /* of the last call: "coordinator", "bitvector", "plan" or "original" */
    uint64_t launched;   /* calls and batches run by an outside engine; of all process sets */
    uint64_t copying_ns; /* of small tensors into batches and out of them; of all process sets */
    /* Of scheduling. The last step, from tutti_step: */
    uint64_t step_count;
    uint64_t step_ns;    /* T: from one tutti_step to the next */
    uint64_t compute_ns; /* C: the part of T outside tutti_wait and other calls that wait */
    uint64_t network_ns; /* N: time with a gradient in flight */
    double rho;          /* N / C */
    double alpha;        /* overlap: (N + C - T) / min(N, C) */
    double utilisation;  /* C / T */
    double efficiency;   /* of the order, 0 to 1: as alpha, but N from the table of costs */
    /* Since the start: */
    uint64_t held;        /* calls that waited for credit */
    uint64_t overtaken;   /* calls that began after a call made later */
    uint64_t chunk_bytes; /* now */
    uint64_t credit_bytes;
    uint64_t fuse_bytes; /* fusion threshold: named all-reduces up to this size are fused */
    /* Of coded calls that succeeded, on all process sets: */
    uint64_t coded_calls;
    uint64_t coded_raw_bytes;  /* of their tensors */
    uint64_t coded_wire_bytes; /* of these tensors, coded once */
    uint64_t coding_ns;        /* encoding, adding and decoding */
    uint64_t uncoded;          /* elements that were not finite, or in a block with such */
    uint64_t codec_bytes;      /* memory of error feedback now */
} tutti_counters;

#define TUTTI_COUNTERS_INIT                                                                        \
    {                                                                                              \
        sizeof(tutti_counters), 0, 0, 0, 0, 0, {0}, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, {0}, 0, \
            0, 0, 0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0                     \
    }

TUTTI_API tutti_status tutti_count(tutti_context *context, tutti_set set,
                                   tutti_counters *counters_out);

#ifdef __cplusplus
}
#endif

#endif
