/* SPDX-License-Identifier: Apache-2.0
 *
 * api_internal.h - what a context is made of.
 *
 * Layer:   api, private.
 * Threads: fields are guarded as said beside them. "Baton": only who holds it.
 * Memory:  a context owns everything it points to.
 */
#ifndef TUTTI_API_API_INTERNAL_H
#define TUTTI_API_API_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "api/api.h"
#include "base/log.h"
#include "base/queue.h"
#include "base/text.h"
#include "control/control.h"
#include "join/join.h"
#include "platform/registry.h"
#include "transport/registry.h"
#include "tutti/tutti.h"

typedef enum tt_handle_state {
    HANDLE_IDLE,    /* declared, not started */
    HANDLE_STARTED, /* in the queue or in the machine */
    HANDLE_DONE,
} tt_handle_state;

struct tutti_handle {
    tt_queue_node node; /* in context->submitted */
    tutti_context *context;
    tutti_handle *next; /* in finished or free lists */
    tt_request request;
    _Atomic(int) state;
    bool has_event; /* completion is told through the event descriptor */
    bool is_persistent;
    bool is_abandoned;   /* freed by its own callback */
    tutti_status status; /* valid in HANDLE_DONE */
    void (*done)(void *user, tutti_handle *handle, tutti_status status);
    void *done_user;
    void **result_out;
    char name[256];
};

/* What the progress thread is doing. Who submits wakes it from the last two. */
typedef enum tt_progress_state {
    PROGRESS_RUNNING,
    PROGRESS_LINGERING, /* looks again in a millisecond, or when signalled */
    PROGRESS_ASLEEP,    /* in epoll; peers and sockets wake it */
} tt_progress_state;

struct tutti_context {
    tutti_context *next; /* in the process-wide list; its lock */
    tt_settings settings;
    tt_log log;
    char error_host[64];
    int rank, size, local_rank, local_size, cross_rank, cross_size;
    char family[TT_JOIN_DESCRIPTION_BYTES];
    atomic_bool is_forked; /* this is a child's copy */
    atomic_bool is_closing;

    tt_segment *segment; /* own; NULL: nothing is shared */
    tt_real *real;       /* baton */
    tt_control *control; /* baton */
    uint32_t set_count;  /* baton */

    /* The baton: 1 while some thread runs the machine. */
    _Alignas(64) atomic_int baton;
    atomic_int waiting; /* threads that wait for the baton or for a handle */
    atomic_int drivers; /* threads that drive, or sleep while waiting for their own call */
    atomic_int progress_state;
    atomic_bool stops;      /* the progress thread is to end */
    tt_queue submitted;     /* any thread pushes, the baton's holder pops */
    tutti_handle *finished; /* baton; their owners are not told yet */
    tutti_handle **finished_end;

    /* Guards nothing but sleep: `changed` is broadcast when the baton is free or a handle done. */
    pthread_mutex_t sleep_lock;
    pthread_cond_t changed;
    pthread_cond_t progress_due;
    pthread_t progress;
    bool has_progress;

    pthread_mutex_t handle_lock; /* guards free_handles, handle_count, privates */
    tutti_handle *free_handles;
    atomic_int event_fd; /* -1 until asked for */
    atomic_uint calls;   /* recent activity, for the progress thread */
};

/* process.c: the one process-wide list, for forks and for ranks that are threads. */
void tt_process_add(tutti_context *context);
void tt_process_remove(tutti_context *context);
/* The segment behind `descriptor` if a context of this process owns it (retained), else NULL. */
tt_segment *tt_process_find_segment(int descriptor);

/* error.c: the last error of each thread. */
tutti_status tt_error_set(tutti_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
const char *tt_error_text(void);
bool tt_error_in_callback(void);
void tt_error_enter_callback(void);
void tt_error_leave_callback(void);

/* build.c */
tt_status tt_build(tutti_context *context, const tutti_options *options, tt_text *why);
void tt_build_undo(tutti_context *context);

/* drive.c */
tutti_status tt_drive_start(tutti_context *context);
void tt_drive_stop(tutti_context *context);
/* Take the baton, waiting for it if need be; let it go. */
void tt_drive_acquire(tutti_context *context);
bool tt_drive_try_acquire(tutti_context *context);
void tt_drive_release(tutti_context *context);
/* Make sure somebody will look at the queue. */
void tt_drive_notify(tutti_context *context);
/* Baton's holder: submit what is queued. */
void tt_drive_drain(tutti_context *context);
/* Until the handle is done, or `until_ns`; drives if nobody else does. */
bool tt_drive_wait(tutti_handle *handle, uint64_t until_ns);
/* Baton's holder: tell the owners of finished calls; callbacks run without the baton. */
void tt_drive_deliver(tutti_context *context);
/* Called by the machine. */
void tt_drive_finished(tt_request *request);

/* call.c */
tutti_status tt_call_prepare(tutti_context *context, const tutti_call *call, tutti_handle *handle);
tutti_status tt_call_check(const tutti_context *context);
/* Start and wait on a handle of the caller's stack. */
tutti_status tt_call_run(tutti_context *context, const tutti_call *call, uint64_t salt);

void tt_call_recycle(tutti_handle *handle);
void tt_call_release_all(tutti_context *context);

/* memory.c */
void *tt_memory_allocate(tutti_context *context, size_t bytes);
void tt_memory_release(tutti_context *context, void *memory);

uint64_t tt_clock_ns(void);

#endif
