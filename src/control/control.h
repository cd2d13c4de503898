/* SPDX-License-Identifier: Apache-2.0
 *
 * control.h - one rank's machine: process sets, matching of calls, agreement on errors.
 *
 * A request is submitted; it becomes an op with a place in its set's order; its algorithm is
 * chosen and run (aggregate); `finished` reports its end. Frames are matched to ops by
 * (set, sequence, stage), never by arrival. Every frame carries the hash of its sender's claim
 * (descriptor), so that a disagreement is found before a byte is reduced; then the members send
 * their claims to the set's first member, which sends one verdict to all.
 *
 *  (1) Every submitted request ends exactly once; after that neither this rank nor a peer touches
 *      its buffers. Exception: a peer that was stopped for longer than stop_ns while it stored;
 *      the request then has has_strays set.
 *  (2) A failed op consumes its place in the order: later ops still match.
 *  (3) All members of a failed op get the same status and text, except that an op may succeed on
 *      some ranks when a rank dies at its very end.
 *
 * Layer:   control; may include aggregate/, tune/, platform/ and base/.
 * Threads: one at a time (the baton's holder).
 * Memory:  ops, sets and cases come from the platform's allocator and are kept for reuse.
 */
#ifndef TUTTI_CONTROL_CONTROL_H
#define TUTTI_CONTROL_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "aggregate/aggregate.h"
#include "base/status.h"
#include "base/text.h"
#include "control/coded/state.h"
#include "control/counters.h"
#include "negotiate/negotiate.h"
#include "platform/platform.h"
#include "tune/tune.h"

typedef struct tt_control tt_control;
typedef struct tt_op tt_op;
typedef struct tt_set tt_set;

enum { TT_ERROR_BYTES = 512, TT_NAME_BYTES = 256, TT_SEGMENT_BYTES = 256 * 1024 };

/* The ranks of the job. */
typedef struct tt_world {
    uint32_t rank, size;
    uint32_t epoch;
    const uint32_t *host_of; /* [size] host of each rank, numbered from 0; copied */
    uint32_t rail_max;       /* ranks of a host that drive its network card; 0: all */
    bool has_views;          /* ranks of one host see each other's arena */
    bool is_crowded;         /* ranks outnumber cores on some host; equal on all ranks */
} tt_world;

/* Named all-reduces up to this size, or up to fuse_bytes if more, have the same bits for every
 * fuse_bytes; the tuner does not exceed it. Not on three or more hosts with several ranks each: a
 * network card would carry as many times the bytes as its host has ranks. */
enum { TT_STEADY_BYTES = 256 * 1024 };

typedef struct tt_control_config {
    uint32_t segment_bytes;   /* longest frame; usually TT_SEGMENT_BYTES */
    uint32_t eager_bytes_max; /* frames up to here need no grant */
    uint64_t probe_ns;        /* a call this old probes the first member */
    uint64_t verdict_ns;      /* how long the first member waits for claims */
    uint64_t stall_ns;        /* a call this old is reported, repeatedly */
    uint64_t stop_ns; /* a failed call waits so long for peers that store to it; 0: without limit */
    uint64_t deadline_ns;  /* a call this old fails; 0: never */
    uint64_t fuse_bytes;   /* named all-reduces up to here may share an op */
    uint64_t bundle_bytes; /* of several in one op */
    uint64_t spread_bytes; /* of its results that one step copies to them */
    uint64_t late_ns;      /* planned tensors wait so long for the rest of their bundle */
    uint32_t groups; /* that the library makes of named sums; 0: none; UINT32_MAX: it chooses */
    tt_negotiate_config negotiate;
    uint32_t staged_max;   /* ops of one order in flight that hold staging slots */
    uint64_t credit_bytes; /* of gradients in flight; see pace.c. 0: unlimited */
    bool is_fifo;          /* credit goes to the oldest, not to the most urgent or the shortest */
    /* Some rank may hold back ops for lack of credit: a rank that waits for a peer sends it a
     * demand. Equal on all ranks. */
    bool is_paced;
    const char *algorithm; /* forced where it fits; NULL: by size and placement */
} tt_control_config;

/* Defaults in every field. */
void tt_control_config_init(tt_control_config *config);

/* Class precedes priority: control, then activations, then gradients. */
enum {
    TT_URGENCY_PRIORITY_MAX = (1 << 24) - 1, /* either sign, inside a class */
    TT_URGENCY_SHORT = 1 << 26, /* of frames only: gradients that are short; see pace.c */
    TT_URGENCY_ACTIVATION = 1 << 28,
    TT_URGENCY_MESSAGE = 1 << 29, /* the user's control messages; below TT_URGENCY_CONTROL */
};

enum {
    TT_SHAPE_BYTES = 32,
    TT_SHAPE_DIMS_MAX = 64,
    TT_TAG_MAX = (1 << 24) - 1,
};

#define TT_ANY_SOURCE UINT32_MAX /* `root` of a receive that takes the message of any member */

/* The shape of a tensor in the form in which ranks compare it. `is_first_free`: the first dimension
 * may differ between ranks. `ndim` is 1 to TT_SHAPE_DIMS_MAX. */
void tt_shape_write(uint8_t *shape, const uint64_t *dims, uint32_t ndim, bool is_first_free);

/* The purpose of a barrier that the library itself calls. */
typedef enum tt_about { TT_ABOUT_NOTHING, TT_ABOUT_SET_CREATE, TT_ABOUT_SET_REMOVE } tt_about;

/* One call of a user. Fields as in tutti_call; counts in elements. Caller's memory, which must
 * stay in place until `finished`. */
typedef struct tt_request {
    /* What is asked for, beside the set, name and shape: the key of its recipe (recipe.h). */
    tt_collective collective;
    tt_dtype dtype;
    tt_redop redop;
    bool is_uneven;    /* parts differ: counts are exchanged first */
    bool is_by_active; /* an average is divided by the number of ranks that have not joined */
    bool is_alone;     /* never fused, whatever its size */
    bool is_tuned;     /* control's, from submission: see CLAIM_TUNED */
    uint64_t count;
    double prescale, postscale;
    uint32_t root;          /* or peer; member of the set, or TT_ANY_SOURCE */
    uint32_t segment_bytes; /* longest frame; control's, from submission */
    uint64_t salt;          /* more that must be equal on all ranks (rank list of a new set) */
    /* Borrowed; NULL: one exchange of the data as they are. Steps of an unnamed all-reduce; or the
     * first phase of a scheme (aggregate/scheme.h), of which control selects the current one. */
    const tt_program *program;

    uint32_t set, tag; /* tag: of send and receive; up to TT_TAG_MAX */
    int *source_out;   /* of a receive: the member whose message it takes; NULL: not reported */
    int32_t urgency;   /* TT_URGENCY_*: class, plus a priority */
    const char *name;  /* or NULL: matched by order; of up to 255 bytes */
    const char *group; /* or NULL; with a name: one of group_size that are one ticket */
    uint32_t group_size;
    uint64_t key; /* of a declared call, unique on this rank: its residuals, if it has no name */
    bool is_join; /* no call: this rank joins; `root` is the last one's member number then */
    tt_about about;
    const void *input;
    void *output;
    uint64_t output_capacity; /* elements; 0: as the collective implies */
    const uint64_t *input_counts;
    uint64_t *output_counts;
    bool is_expected; /* output_counts has the only counts that are accepted */
    /* Negative: this rank cannot take part, `error` has the reason; the call fails on all ranks. */
    tt_status objection;
    uint64_t deadline_ns; /* from submission; 0: the configured one */
    bool is_waited;       /* its caller only waits for it */
    /* Allocates an output whose size is known only now; returns NULL if out of memory. May be NULL
     * if `output` is given. */
    void *(*allocate)(struct tt_request *request, size_t bytes);
    /* The call is over: status and error are set. May be called from inside submit. */
    void (*finished)(struct tt_request *request);
    void *owner;

    struct tt_recipe *recipe; /* control's hint: its last recipe, valid if the stamp matches */
    uint64_t recipe_stamp;
    tt_status status;
    bool has_strays; /* failed, and a stopped peer may yet store a block to its buffers */
    char error[TT_ERROR_BYTES];
    tt_op *op; /* from here on control's */
    struct tt_name *named;
    bool is_identity;              /* the input is the identity element: not scaled */
    bool is_taken_back;            /* to be cancelled when its group is dissolved */
    bool is_apart;                 /* its group was dissolved; it runs by itself this once */
    bool is_regrouped;             /* out of its group: see BID_REGROUPED */
    uint8_t shape[TT_SHAPE_BYTES]; /* the caller's; first byte 0: not given */
    bool is_lost;                  /* a stand-in for one that is over on this rank: see expire.c */
    uint64_t due_ns;               /* of a name: its deadline; 0: not set yet */
    struct tt_request *next_later; /* waits until an earlier one of its name is over */
    struct tt_name *name_hint;     /* record of its name, valid if the stamp matches; see name.h. */
    uint64_t name_stamp;           /* A change of set or name must reset name_hint to NULL */
} tt_request;

/* Receives the machine's log lines; level as in base/log.h. */
typedef struct tt_control_listener {
    void *owner;
    void (*report)(void *owner, int level, const char *text);
    /* `rank` is down; called once for each rank. NULL: `report` gets it, as an error. */
    void (*peer_down)(void *owner, uint32_t rank, const char *text);
} tt_control_listener;

/* Phases of a call, for traces. */
typedef enum tt_call_span {
    TT_SPAN_NEGOTIATE, /* of a name: until every rank had it */
    TT_SPAN_QUEUE,     /* until its turn */
    TT_SPAN_WAIT,      /* until all members had begun it */
    TT_SPAN_EXCHANGE,
    TT_SPAN_CODE, /* how long coding took in all, at the end of the exchange that it overlaps */
} tt_call_span;

typedef struct tt_trace_event {
    const tt_request *request;
    tt_call_span span;
    uint64_t begin_ns, end_ns;
} tt_trace_event;

typedef struct tt_tracer {
    void *owner;
    void (*took)(void *owner, const tt_trace_event *event); /* with the baton: must be quick */
} tt_tracer;

/* `world`, `config` and `listener` are copied. */
tt_status tt_control_create(tt_platform *platform, const tt_world *world,
                            const tt_control_config *config, const tt_control_listener *listener,
                            tt_control **control_out);
/* All requests must be over (see tt_control_shut_down). */
void tt_control_destroy(tt_control *control);

/* The upcalls for the driver. */
tt_machine tt_control_machine(tt_control *control);
/* Have the timer fire at `at_ns` or before, for a machine that wraps this one. */
void tt_control_alarm(tt_control *control, uint64_t at_ns);

/* Choose algorithms by this table from the next call on; borrowed, NULL: by the built-in sizes. All
 * ranks must do so between the same two calls, with the same table: it goes into the descriptors,
 * as does whether ranks outnumber cores. */
void tt_control_set_costs(tt_control *control, const tt_costs *costs);
/* Force an algorithm where it fits, as the configuration does; NULL: none. Likewise. */
void tt_control_force(tt_control *control, const char *algorithm);
/* The algorithm that a call on the world would run, and its time by the table; 0: unknown. */
typedef struct tt_forecast {
    const tt_algorithm *algorithm;
    const char *placement;
    uint64_t time_ns;
} tt_forecast;
tt_forecast tt_control_forecast(const tt_control *control, tt_collective collective,
                                uint64_t bytes);
/* Could this algorithm run such a call on the world? */
bool tt_control_fits(const tt_control *control, tt_collective collective,
                     const tt_algorithm *algorithm, uint64_t bytes);

/* Borrowed; NULL: no tracing. */
void tt_control_trace(tt_control *control, const tt_tracer *tracer);
/* How many bytes of gradients may be in flight; 0: unlimited. Each rank may set its own, at any
 * time, if the configuration has is_paced. */
void tt_control_set_credit(tt_control *control, uint64_t credit_bytes);
/* Longest frame of requests that are submitted from now on. All ranks must do so between the same
 * two requests of each order. A multiple of 64. */
void tt_control_set_segment(tt_control *control, uint32_t segment_bytes);
/* Replaces config.fuse_bytes for requests that are submitted from now on. The claim of a tensor
 * states which of the two applies: all ranks must submit an occurrence under the same one. */
void tt_control_set_fuse(tt_control *control, uint64_t fuse_bytes);

/* The machine owns the request until `finished`. Invalid arguments end it on all ranks. */
void tt_control_submit(tt_control *control, tt_request *request);
/* Is a thread likely to wait for the next ops, without a deadline? Then an engine may block. True
 * from a wait on, until a call has ended that no thread waited for. */
void tt_control_set_waited(tt_control *control, bool is_waited);
/* End the request if it has not begun to move data; it ends on all ranks. False: too late. */
bool tt_control_cancel(tt_control *control, tt_request *request);
/* End all requests with this status. */
void tt_control_shut_down(tt_control *control, tt_status status, const char *text);
/* Abort: send all ranks the reason; their calls fail as if this rank had died. */
void tt_control_give_up(tt_control *control, const char *why);
/* Has a rank of the job died? */
bool tt_control_lost_peer(const tt_control *control);
/* Has a rank died that takes part in ops of the engine? Then no op of the engine is waited for. */
bool tt_control_lost_engine(const tt_control *control);
/* Requests that are not over. */
uint32_t tt_control_pending(const tt_control *control);

/* Local part of creating a set; all ranks have agreed before (salted barrier on the world).
 * Numbers are given in order, so they agree. `ranks` are world ranks, copied. */
tt_status tt_control_set_create(tt_control *control, const uint32_t *ranks, uint32_t rank_count,
                                uint32_t *set_out);
/* The same in two steps: prepare may fail, commit cannot; drop releases a prepared set. */
tt_status tt_control_set_prepare(tt_control *control, const uint32_t *ranks, uint32_t rank_count,
                                 tt_set **set_out);
uint32_t tt_control_set_commit(tt_control *control, tt_set *set);
/* With a number of the caller's choice, which has TT_SET_KEYED; 0: a set has it already. Only
 * members need to commit. A rank drops frames for such a set while it does not exist: no member may
 * use the set before all have it. */
#define TT_SET_KEYED UINT32_C(0x40000000)
uint32_t tt_control_set_commit_keyed(tt_control *control, tt_set *set, uint32_t id);
void tt_control_set_drop(tt_control *control, tt_set *set);
/* Take no more calls on the set. Those that were made before end as they would have; its memory is
 * released when no member has one open. Local: all ranks must do so. */
tt_status tt_control_set_remove(tt_control *control, uint32_t set);
/* Member number of this rank, or -1; size, or -1 for an unknown set. */
int tt_control_set_rank(const tt_control *control, uint32_t set);
int tt_control_set_size(const tt_control *control, uint32_t set);

/* The name of the request in error and log texts. */
const char *tt_request_what(const tt_request *request);
/* Checks the request's arguments on member `self` of `size`; on failure `text` has the reason. */
tt_status tt_request_check(const tt_request *request, uint32_t self, uint32_t size, tt_text *text);
/* Elements the output of `request` holds on this rank of a set of `size`; uneven: 0. */
uint64_t tt_request_output_count(const tt_request *request, uint32_t self, uint32_t size);

tt_control_counters tt_control_count(const tt_control *control);
/* Of the set's negotiator; NULL: it has none. */
const tt_negotiate_counters *tt_control_set_count(const tt_control *control, uint32_t set,
                                                  const char **mode_out);

#endif
