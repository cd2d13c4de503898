/* SPDX-License-Identifier: Apache-2.0
 *
 * trace.c - traces: stages of calls as a file in Chrome's trace format.
 *
 * The holder of the baton puts a record into a ring; a thread of the trace's own formats it and
 * writes the file, so that no call waits for a disk. A full ring drops records; the file has their
 * number.
 *
 * Calls overlap, so every tensor is a track of its own: asynchronous events, whose id is a hash of
 * its name, local to the rank. Times are in microseconds of this host's monotonic clock; the first
 * event has its offset from 1970, so that files of several hosts can be merged.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "api/api_internal.h"
#include "api/trace_ring.h"
#include "kernel/hash64.h"

enum {
    RING_BYTES = 4 << 20,
    TEXT_BYTES = 64 << 10,
    EVENT_TEXT_BYTES = 6 * 3 * TT_NAME_BYTES + 512, /* the name three times, all escaped */
    GATHER_NS = 10 * 1000 * 1000, /* between two writes: the producer rarely wakes the writer */
    WRITER_NICE = 10,             /* ranks have precedence */
    CACHE_LINE = 64,
};

typedef struct trace_record {
    uint64_t begin_ns, end_ns, count;
    uint32_t set;
    uint8_t stage, collective, dtype;
    char name[]; /* terminated; empty: the call has none */
} trace_record;

typedef struct tt_trace {
    tt_tracer tracer;
    tt_trace_ring ring;
    _Atomic(uint64_t) dropped; /* records that found the ring full */
    _Atomic(bool) is_asleep;   /* the writer waits for `due` */
    _Atomic(bool) is_over;     /* nothing is put into the ring any more */
    sem_t due;
    pthread_t writer;
    int rank;
    /* The writer's. */
    int file;
    int error; /* of the first write that failed; 0: none */
    uint64_t dropped_told, last_ns;
    size_t text_bytes;
    char text[TEXT_BYTES];
} tt_trace;

/* ---- with the baton ---- */

static void trace_wake(tt_trace *trace)
{
    atomic_thread_fence(memory_order_seq_cst); /* the record is visible before the read below */
    if (atomic_load_explicit(&trace->is_asleep, memory_order_relaxed) &&
        atomic_exchange(&trace->is_asleep, false)) {
        (void)sem_post(&trace->due);
    }
}

static void trace_took(void *owner, const tt_trace_event *event)
{
    tt_trace *trace = owner;
    const tt_request *request = event->request;
    const size_t name_bytes = request->name != NULL ? strnlen(request->name, TT_NAME_BYTES - 1) : 0;
    const size_t bytes = sizeof(trace_record) + name_bytes + 1;
    trace_record *record = tt_trace_ring_claim(&trace->ring, bytes);
    if (record == NULL) {
        (void)atomic_fetch_add_explicit(&trace->dropped, 1, memory_order_relaxed);
        return;
    }
    *record = (trace_record){.begin_ns = event->begin_ns,
                             .end_ns = event->end_ns,
                             .count = request->count,
                             .set = request->set,
                             .stage = (uint8_t)event->span,
                             .collective = (uint8_t)request->collective,
                             .dtype = (uint8_t)request->dtype};
    if (name_bytes > 0) {
        memcpy(record->name, request->name, name_bytes);
    }
    record->name[name_bytes] = 0;
    tt_trace_ring_commit(&trace->ring, bytes);
    trace_wake(trace);
}

/* ---- the writer ---- */

static const char *stage_name(tt_call_span stage)
{
    switch (stage) {
    case TT_SPAN_NEGOTIATE:
        return "negotiate";
    case TT_SPAN_QUEUE:
        return "queue";
    case TT_SPAN_WAIT:
        return "wait for others";
    case TT_SPAN_CODE:
        return "encode and decode";
    case TT_SPAN_EXCHANGE:
        break;
    }
    return "exchange";
}

static void write_out(tt_trace *trace)
{
    size_t done = 0;
    while (done < trace->text_bytes && trace->error == 0) {
        const ssize_t count = write(trace->file, trace->text + done, trace->text_bytes - done);
        if (count < 0 && errno != EINTR) {
            trace->error = errno;
        }
        done += count > 0 ? (size_t)count : 0;
    }
    trace->text_bytes = 0;
}

static void add(tt_trace *trace, const char *text)
{
    const size_t bytes = strlen(text);
    memcpy(trace->text + trace->text_bytes, text, bytes);
    trace->text_bytes += bytes;
}

/* With at least `digits` digits. */
static void add_number(tt_trace *trace, uint64_t number, int digits)
{
    char text[24];
    char *at = text + sizeof(text) - 1;
    *at = 0;
    do {
        *--at = (char)('0' + number % 10);
        number /= 10;
        digits--;
    } while (number > 0 || digits > 0);
    add(trace, at);
}

static void add_hex(tt_trace *trace, uint64_t number)
{
    char text[17];
    for (int i = 15; i >= 0; i--, number >>= 4) {
        text[i] = "0123456789abcdef"[number & 15];
    }
    text[16] = 0;
    add(trace, text);
}

/* As the inside of a JSON string. Names are bytes; bytes that are not text are escaped. */
static void add_escaped(tt_trace *trace, const char *text)
{
    for (; *text != 0; text++) {
        const unsigned char byte = (unsigned char)*text;
        char *at = trace->text + trace->text_bytes;
        if (byte == '"' || byte == '\\') {
            at[0] = '\\';
            at[1] = (char)byte;
            trace->text_bytes += 2;
        } else if (byte < 0x20 || byte > 0x7e) {
            const char escape[] = {
                '\\', 'u', '0', '0', "0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]};
            memcpy(at, escape, sizeof(escape));
            trace->text_bytes += sizeof(escape);
        } else {
            at[0] = (char)byte;
            trace->text_bytes++;
        }
    }
}

static void add_edge(tt_trace *trace, const trace_record *record, bool is_begin)
{
    const char *what = tt_collective_name((tt_collective)record->collective);
    const char *name = record->name[0] != 0 ? record->name : what;
    const uint64_t at_ns = is_begin ? record->begin_ns : record->end_ns;
    add(trace, is_begin ? ",\n{\"ph\":\"b\",\"pid\":" : ",\n{\"ph\":\"e\",\"pid\":");
    add_number(trace, (uint64_t)trace->rank, 1);
    add(trace, ",\"tid\":0,\"ts\":");
    add_number(trace, at_ns / 1000, 1);
    add(trace, ".");
    add_number(trace, at_ns % 1000, 3);
    add(trace, ",\"cat\":\"");
    add_escaped(trace, name);
    add(trace, "\",\"id2\":{\"local\":\"0x");
    add_hex(trace, tt_hash64(name, strlen(name), record->set));
    add(trace, "\"},\"name\":\"");
    add(trace, stage_name((tt_call_span)record->stage));
    add(trace, " ");
    add(trace, what);
    if (is_begin) {
        add(trace, "\",\"args\":{\"tensor\":\"");
        add_escaped(trace, name);
        add(trace, "\",\"count\":");
        add_number(trace, record->count, 1);
        add(trace, ",\"dtype\":\"");
        add(trace, tt_dtype_name((tt_dtype)record->dtype));
        add(trace, "\",\"set\":");
        add_number(trace, record->set, 1);
        add(trace, "}}");
    } else {
        add(trace, "\"}");
    }
}

static void make_room(tt_trace *trace)
{
    if (trace->text_bytes + 2 * (size_t)EVENT_TEXT_BYTES > sizeof(trace->text)) {
        write_out(trace);
    }
}

/* An event with the number of dropped records: the ring was full some time before `at_ns`. */
static void add_dropped(tt_trace *trace, uint64_t at_ns)
{
    const uint64_t dropped = atomic_load_explicit(&trace->dropped, memory_order_relaxed);
    if (dropped == trace->dropped_told) {
        return;
    }
    make_room(trace);
    add(trace, ",\n{\"ph\":\"i\",\"s\":\"p\",\"pid\":");
    add_number(trace, (uint64_t)trace->rank, 1);
    add(trace, ",\"tid\":0,\"ts\":");
    add_number(trace, at_ns / 1000, 1);
    add(trace, ",\"name\":\"events dropped\",\"args\":{\"count\":");
    add_number(trace, dropped - trace->dropped_told, 1);
    add(trace, "}}");
    trace->dropped_told = dropped;
}

static void write_records(tt_trace *trace)
{
    for (const trace_record *record; (record = tt_trace_ring_peek(&trace->ring)) != NULL;) {
        add_dropped(trace, record->begin_ns);
        make_room(trace);
        add_edge(trace, record, true);
        add_edge(trace, record, false);
        trace->last_ns = record->end_ns;
        tt_trace_ring_pop(&trace->ring);
    }
    add_dropped(trace, trace->last_ns);
    write_out(trace);
}

/* Until the ring has a record, or the trace is over. */
static void sleep_until_due(tt_trace *trace)
{
    for (;;) {
        atomic_store(&trace->is_asleep, true);
        atomic_thread_fence(memory_order_seq_cst); /* the producer sees it, or we see its record */
        if (!tt_trace_ring_is_empty(&trace->ring) || atomic_load(&trace->is_over)) {
            atomic_store(&trace->is_asleep, false);
            return;
        }
        (void)sem_wait(&trace->due);
    }
}

static void *writer_main(void *argument)
{
    tt_trace *trace = argument;
    const struct timespec gather = {.tv_nsec = GATHER_NS};
    (void)pthread_setname_np(pthread_self(), "tutti-trace");
    (void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), WRITER_NICE);
    while (!atomic_load(&trace->is_over)) {
        sleep_until_due(trace);
        if (!atomic_load(&trace->is_over)) {
            (void)nanosleep(&gather, NULL);
            write_records(trace);
        }
    }
    return NULL; /* the thread that joins this one writes the rest */
}

/* ---- start and stop ---- */

static void add_head(tt_trace *trace)
{
    struct timespec since_1970, here;
    (void)clock_gettime(CLOCK_REALTIME, &since_1970);
    (void)clock_gettime(CLOCK_MONOTONIC, &here);
    const long long offset_us =
        (since_1970.tv_sec - here.tv_sec) * 1000000LL + (since_1970.tv_nsec - here.tv_nsec) / 1000;
    char text[EVENT_TEXT_BYTES];
    (void)snprintf(text, sizeof(text),
                   "[\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":{\"name\":"
                   "\"rank %d\",\"zero_since_epoch_in_micros\":%lld}}",
                   trace->rank, trace->rank, offset_us);
    add(trace, text);
}

/* Signals are delivered to the program's own threads. */
static int start_writer(tt_trace *trace)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(&trace->writer, NULL, writer_main, trace);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static void trace_free(tt_trace *trace)
{
    tt_trace_ring_fini(&trace->ring);
    (void)sem_destroy(&trace->due);
    if (trace->file >= 0) {
        (void)close(trace->file);
    }
    free(trace);
}

/* The writer ends, the file is closed. Without the baton: this waits for the disk. */
static tutti_status trace_finish(tt_trace *trace)
{
    atomic_store(&trace->is_over, true);
    (void)sem_post(&trace->due);
    (void)pthread_join(trace->writer, NULL);
    sigset_t pipe, before; /* a closed pipe is an error, not a signal */
    (void)sigemptyset(&pipe);
    (void)sigaddset(&pipe, SIGPIPE);
    (void)pthread_sigmask(SIG_BLOCK, &pipe, &before);
    write_records(trace);
    add(trace, "\n]\n");
    write_out(trace);
    if (trace->error == EPIPE && !sigismember(&before, SIGPIPE)) {
        const struct timespec now = {0};
        (void)sigtimedwait(&pipe, NULL, &now);
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (close(trace->file) != 0 && trace->error == 0) {
        trace->error = errno;
    }
    trace->file = -1;
    const int error = trace->error;
    trace_free(trace);
    return error == 0
               ? TUTTI_OK
               : tt_error_set(
                     TUTTI_ERR_SYSTEM,
                     "the trace is incomplete: %s; check the space and limits of its file system",
                     strerror(error));
}

static tutti_status trace_create(const tutti_context *context, const char *path,
                                 tt_trace **trace_out)
{
    _Static_assert(sizeof(tt_trace) % CACHE_LINE == 0,
                   "aligned_alloc requires a multiple of the alignment");
    tt_trace *trace = aligned_alloc(CACHE_LINE, sizeof(*trace));
    if (trace == NULL) {
        return tt_error_set(TUTTI_ERR_NO_MEMORY, "out of memory for a trace");
    }
    memset(trace, 0, sizeof(*trace));
    trace->rank = context->rank;
    trace->tracer = (tt_tracer){.owner = trace, .took = trace_took};
    (void)sem_init(&trace->due, 0, 0);
    trace->file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    tutti_status status = TUTTI_OK;
    if (trace->file < 0) {
        status = tt_error_set(TUTTI_ERR_SYSTEM, "%s: %s", path, strerror(errno));
    } else if (!tt_trace_ring_init(&trace->ring, RING_BYTES)) {
        status = tt_error_set(TUTTI_ERR_NO_MEMORY, "out of memory for a trace");
    } else {
        add_head(trace);
        write_out(trace);
        const int error = start_writer(trace);
        if (error != 0) {
            status = tt_error_set(TUTTI_ERR_SYSTEM,
                                  "cannot start the thread that writes a trace: %s; raise the "
                                  "limit of processes (ulimit -u)",
                                  strerror(error));
        }
    }
    if (status != TUTTI_OK) {
        trace_free(trace);
        return status;
    }
    *trace_out = trace;
    return TUTTI_OK;
}

/* A context writes one trace at a time; false: one is active. */
static bool reserve(tutti_context *context)
{
    tt_drive_acquire(context);
    const bool is_free = !context->has_trace;
    context->has_trace = true;
    tt_drive_release(context);
    return is_free;
}

/* NULL: the trace could not be created. */
static void install(tutti_context *context, tt_trace *trace)
{
    tt_drive_acquire(context);
    context->trace = trace;
    context->has_trace = trace != NULL;
    tt_control_trace(context->control, trace != NULL ? &trace->tracer : NULL);
    tt_drive_release(context);
}

tutti_status tutti_trace_start(tutti_context *context, const char *path)
{
    tutti_status status = tt_call_check(context);
    if (status != TUTTI_OK) {
        return status;
    }
    if (path == NULL || *path == 0) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT,
                            "path is NULL or empty; give the file to write");
    }
    if (!reserve(context)) { /* before opening: the active trace may write to this path */
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT,
                            "a trace is active already; call tutti_trace_stop first");
    }
    tt_trace *trace = NULL;
    status = trace_create(context, path, &trace);
    install(context, trace);
    return status;
}

struct tt_trace *tt_trace_detach(tutti_context *context)
{
    tt_trace *trace = context->trace;
    context->has_trace = context->has_trace && trace == NULL; /* one that starts stays */
    context->trace = NULL;
    tt_control_trace(context->control, NULL);
    return trace;
}

tutti_status tt_trace_close(struct tt_trace *trace)
{
    return trace != NULL ? trace_finish(trace) : TUTTI_OK;
}

tutti_status tutti_trace_stop(tutti_context *context)
{
    const tutti_status status = tt_call_check(context);
    if (status != TUTTI_OK) {
        return status;
    }
    tt_drive_acquire(context);
    tt_trace *trace = tt_trace_detach(context);
    tt_drive_release(context);
    return tt_trace_close(trace);
}
