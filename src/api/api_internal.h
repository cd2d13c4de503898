/* SPDX-License-Identifier: Apache-2.0
 *
 * api_internal.h - the parts of a context.
 *
 * Layer:   api, private.
 * Threads: each field's comment names its guard. "Baton": only the holder of the baton.
 * Memory:  a context owns everything it points to.
 */
#ifndef TUTTI_API_API_INTERNAL_H
#define TUTTI_API_API_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "api/api.h"
#include "api/drive.h"
#include "base/log.h"
#include "base/queue.h"
#include "base/text.h"
#include "codec/codec.h"
#include "control/control.h"
#include "launch/launch.h"
#include "mesh/mesh.h"
#include "platform/registry.h"
#include "plugin/plugin.h"
#include "sync/sync.h"
#include "transport/registry.h"
#include "tutti/tutti.h"

enum { TT_COSTS_PATH_BYTES = 1024 };

typedef struct tt_steps tt_steps;
typedef struct tt_store_room tt_store_room;

typedef enum tt_handle_state {
    HANDLE_IDLE,    /* declared, not started */
    HANDLE_STARTED, /* in the queue or in the machine */
    HANDLE_CALLING, /* over; its callback runs, so waiters still wait */
    HANDLE_DONE,
    HANDLE_ABANDONED, /* has no owner: returns to the pool when it is over */
} tt_handle_state;

struct tutti_handle {
    tt_queue_node node; /* in context->submitted */
    tutti_context *context;
    tutti_handle *next;     /* in finished or free lists */
    tutti_handle *next_all; /* in context->all_handles */
    tt_request request;
    _Atomic(int) state;
    atomic_int sleepers; /* threads that sleep in the driver until this call is over */
    bool has_event;      /* completion is signalled through the event descriptor */
    bool is_persistent;
    tutti_status status; /* valid in HANDLE_CALLING and HANDLE_DONE */
    void (*done)(void *user, tutti_handle *handle, tutti_status status);
    void *done_user;
    void **result_out;
    void *output;              /* as the caller gave it; the request's may be the library's */
    int32_t urgency;           /* likewise */
    unsigned start;            /* context->starts at its submission */
    bool is_by_owners;         /* a sum that owners make, or a join that they must know of; */
    bool is_with_workers;      /* this run of it is made by the workers after all */
    tt_store_room *store_call; /* of a call on a store, else NULL */
    tt_store_room *store_room; /* memory for such calls; NULL: there was none. store/stores.c */
    char name[256], group[256];
};

/* Arguments of a call beyond tutti_call. */
typedef struct tt_call_extra {
    bool is_join;           /* see tt_request */
    int *last_out;          /* of a join */
    uint64_t salt;          /* see tt_request */
    tt_about about;         /* see tt_request */
    const uint8_t *shape;   /* with `about`: its subject */
    tutti_status objection; /* negative: this rank cannot take part, for the reason in `text` */
    const char *text;
} tt_call_extra;

/* A peer, by which contexts of this process recognise the same death. */
typedef struct tt_known_peer {
    uint64_t process; /* see tt_mesh_peer */
    bool is_told;     /* this context has logged that it is down; guarded by process.c's lock */
} tt_known_peer;

/* This rank's place in a process set. */
typedef struct tt_set_place {
    uint32_t set, self, size; /* self: UINT32_MAX if no member */
} tt_set_place;

/* State of the progress thread. A submitting thread wakes it from the last two. */
typedef enum tt_progress_state {
    PROGRESS_RUNNING,
    PROGRESS_LINGERING, /* looks again after LINGER_NS, or when signalled */
    PROGRESS_ASLEEP,    /* in epoll; peers and sockets wake it */
} tt_progress_state;

enum { HANDLE_SHELVES = 16 };

/* Handles for reuse. A thread begins at a shelf of its own, so that submitting threads do not
 * contend. */
typedef struct tt_shelf {
    pthread_mutex_t lock; /* guards `free` */
    tutti_handle *free;
    uint8_t apart[64]; /* shares no cache line with the next shelf */
} tt_shelf;

struct tutti_context {
    tutti_context *next; /* in the process-wide list; its lock */
    tt_settings settings;
    tt_log log;
    char error_host[64];
    uint64_t incarnation;       /* of its job: see tt_mesh */
    tt_known_peer *known_peers; /* by rank; NULL until the peers have met. Set by process.c */
    int rank, size, local_rank, local_size, cross_rank, cross_size; /* a server is alone */
    bool is_server;
    uint32_t *worker_hosts; /* [workers] number of each one's host; see tt_roles */
    char family[TT_LAUNCH_DESCRIPTION_BYTES];
    atomic_bool is_forked; /* this is a child's copy */
    atomic_bool is_closing;
    atomic_bool keeps_memory; /* a stopped peer may yet store: no arena memory is used again */
    _Atomic uint64_t bytes_unchecked; /* private memory given since the last check */

    tt_segment *segment; /* own; NULL: nothing is shared. Set by process.c, like the next */
    tt_real *real;       /* baton */
    tt_control *control; /* baton */
    tt_sync *sync;       /* between driver and control; NULL: no servers, and no store yet. Baton */
    tt_update_list own_updates; /* constant from tutti_init on */
    bool is_deserted;           /* a server: no worker is left. Baton */
    bool has_sums; /* some named sums are made by owners; constant from tutti_init on */
    const tutti_plugin *engine_plugin; /* NULL: no engine */
    tutti_engine *engine;              /* baton; NULL: not open */
    bool engine_launches;              /* else it only carries the rendezvous */
    char engine_text[TUTTI_PLUGIN_WHY_BYTES];

    struct tt_trace *trace; /* NULL: none is written; baton */
    bool has_trace;         /* one is written, or about to be; baton */

    tt_costs *costs; /* the table that all ranks use; baton */
    bool is_crowded; /* ranks outnumber cores somewhere */
    bool measures;   /* no line for this job: measured at the end of tutti_init */
    char costs_path[TT_COSTS_PATH_BYTES]; /* rank 0: the cache's file */

    tt_rules *rules; /* constant from the end of tutti_init on; NULL: all is plain */
    _Atomic(struct tt_codec_entry *) codecs; /* of calls so far; entries stay: codec/codecs.c */
    atomic_bool has_told_host;               /* that nothing is coded on one host was logged */
    atomic_ullong declared;                  /* calls, for their keys */
    tt_steps *steps;                         /* steps.c; NULL until tutti_init is about to end */
    atomic_bool counts_waits;                /* tutti_step is called: waiting is timed */
    atomic_ullong waited_ns;                 /* of all threads, in calls that wait */

    /* The baton: 1 while some thread runs the machine. */
    _Alignas(64) atomic_int baton;
    atomic_int waiting; /* threads that wait for the baton or for a handle */
    atomic_int asking;  /* of them, those that need the baton */
    atomic_int drivers; /* threads that drive, or sleep while waiting for their own call */
    atomic_int inside;  /* threads in a call that may wait; shutdown waits until it is 0 */
    atomic_int progress_state;
    atomic_bool stops;      /* the progress thread shall end */
    tt_queue submitted;     /* any thread pushes, the baton's holder pops */
    tutti_handle *finished; /* baton; completed, not yet delivered to their owners */
    tutti_handle **finished_end;

    /* Guards only the two conditions: `changed` is broadcast when the baton is free or a handle
     * done. */
    pthread_mutex_t sleep_lock;
    pthread_cond_t changed;
    pthread_cond_t progress_due;
    pthread_t progress;
    bool has_progress;

    tt_shelf shelves[HANDLE_SHELVES];
    _Atomic(tutti_handle *) all_handles; /* only ever pushed to */
    pthread_mutex_t set_lock;            /* guards the list of sets */
    tt_set_place *sets;
    size_t set_count, set_capacity;
    atomic_int event_fd;    /* -1 until tutti_event_fd is called */
    atomic_bool has_untold; /* a started call ended before the descriptor existed */
    atomic_uint calls;      /* recent activity, for the progress thread */
    /* Hints of drive.c, rule (8). `prompt`: started calls in a row that were waited for at once;
     * `prompt_needed`: how many more before that is relied on; `starts`: how often calls were left
     * in flight; `is_left`: the last of them did not wake the progress thread; `started_ns`: its
     * start while no thread waits for it, else 0; `linger_ns`: until when the progress thread
     * lingers; `left_ns`: how far ahead that may be. */
    atomic_uint prompt, prompt_needed, starts;
    atomic_bool is_left;
    atomic_ullong started_ns, linger_ns, left_ns;
    bool can_watch;         /* constant: this rank has cores for a driving and a polling thread */
    atomic_ullong watch_ns; /* a hint, too: how long polling pays off; rule (11) */
};

/* process.c: the one process-wide list, for forks and for ranks that are threads. */
void tt_process_add(tutti_context *context);
void tt_process_remove(tutti_context *context);
/* Set or clear fields that other threads (of other ranks, or forking) read. */
void tt_process_set_segment(tutti_context *context, tt_segment *segment);
void tt_process_set_driver(tutti_context *context, tt_real *real);
/* Takes ownership of the array. */
void tt_process_adopt_peers(tutti_context *context, uint64_t incarnation, tt_known_peer *peers);
/* `rank` is down: true if this context is to log it, false if another one of this process has
 * logged the same death to the same place. */
bool tt_process_tells_death(tutti_context *context, uint32_t rank);
/* The segment behind `descriptor` if a context of this process owns it (retained), else NULL. */
tt_segment *tt_process_find_segment(int descriptor);

/* error.c: the last error of each thread, by context. */
/* Later errors of this thread are stored for `context`; NULL: for no context. */
void tt_error_about(const tutti_context *context);
/* A new context has no errors, even if an earlier one had the same address. */
void tt_error_forget(const tutti_context *context);
tutti_status tt_error_set(tutti_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool tt_error_in_callback(void);
void tt_error_enter_callback(void);
void tt_error_leave_callback(void);

/* build.c */
tt_status tt_build(tutti_context *context, const tutti_options *options, tt_text *why);
void tt_build_undo(tutti_context *context);

/* trace.c */
/* With the baton, or after the last call: stop recording. NULL: there was no trace. */
struct tt_trace *tt_trace_detach(tutti_context *context);
/* Write the remaining records and close the file; accepts NULL. Waits for the disk. */
tutti_status tt_trace_close(struct tt_trace *trace);

/* call.c */
tutti_status tt_call_prepare(tutti_context *context, const tutti_call *call, tutti_handle *handle);
tutti_status tt_call_check(const tutti_context *context);
/* Wait until one of the calls, all of this context, is over: its index and status. Index -1: none
 * is over; the status is the reason. */
tutti_status tt_call_await(tutti_context *context, tutti_handle *const *handles, int count,
                           double timeout_s, int *index_out);
/* Index of the first that is over, or -1. */
int tt_call_find_over(tutti_handle *const *handles, int count);
/* Start a call and wait for it; its handle is on the stack. */
tutti_status tt_call_run(tutti_context *context, const tutti_call *call,
                         const tt_call_extra *extra);

/* shape.c: write the shape of the call, as ranks compare it; check that ndim and dims are a shape.
 */
void tt_call_shape(const tutti_call *call, tt_request *request);
bool tt_call_shape_is_good(const tutti_call *call);
/* The tag of a send or receive; 0 if it has none or an invalid one. */
uint32_t tt_call_tag(const tutti_call *call);
bool tt_call_tag_is_good(const tutti_call *call);
/* Is `struct_bytes` that of a known version of the header, or of a later one with zeros at its end?
 */
bool tt_call_is_known(const tutti_call *call);
/* NULL: by rule. */
const char *tt_call_codec(const tutti_call *call);
int *tt_call_source(const tutti_call *call);

void tt_call_recycle(tutti_handle *handle);
void tt_call_release_all(tutti_context *context);

/* steps.c: once per step, and priorities of calls. */
/* At the end of tutti_init; collective: broadcasts rank 0's TUTTI_ORDER. */
tutti_status tt_steps_begin(tutti_context *context);
void tt_steps_end(tutti_context *context);
/* Baton's holder, before the call is submitted: a learnt or given order may replace the caller's
 * priority of a gradient; its place in the first step is recorded. */
void tt_steps_place(tutti_context *context, tutti_handle *handle);
/* Baton's holder. */
void tt_steps_count(const tutti_context *context, tutti_counters *counters_out);

/* The whole file that a setting names, at most `bytes_max`; the caller frees. NULL: `why` has the
 * reason. */
char *tt_setting_read_file(const char *path, size_t bytes_max, size_t *bytes_out, tt_text *why);

/* rules_share.c: which codec a tensor gets. */
/* Is there any rule or codec? The same on all ranks of a job. */
bool tt_rules_are_set(const tt_settings *settings);
/* In tutti_init, after the links are there; collective if any is set: broadcasts rank 0's. */
tutti_status tt_rules_begin(tutti_context *context);
void tt_rules_end(tutti_context *context);

/* codecs.c: the codecs of calls. */
/* How the data of the call are sent: the request's program, or its objection. */
void tt_call_choose_codec(const tutti_call *call, tutti_handle *handle, bool is_gradient);
/* A declared call without a name is gone; takes the baton. */
void tt_codec_forget(tutti_context *context, const tt_request *request);
/* All calls are over, and control is gone. */
void tt_codecs_end(tutti_context *context);

/* sets.c */
/* False: there is no such set. */
bool tt_set_place_find(tutti_context *context, uint32_t set, tt_set_place *place_out);

/* allocate.c */
void *tt_memory_allocate(tutti_context *context, size_t bytes);
void tt_memory_release(tutti_context *context, void *memory);

/* Can a caller's struct be read? A later header's is longer; its fields that this version lacks
 * must be zero. */
bool tt_struct_is_known(const void *given, size_t given_bytes, size_t known_bytes);
uint64_t tt_clock_ns(void);
/* Nanoseconds; 0 unless `seconds` is positive; at most 1e9 s, about 31 years. */
uint64_t tt_seconds_to_ns(double seconds);

#endif
