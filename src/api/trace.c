/* SPDX-License-Identifier: Apache-2.0
 *
 * trace.c - stages of calls as a file in Chrome's trace format.
 *
 * Calls overlap, so every tensor is a track of its own: asynchronous events, whose id is a hash of
 * its name. Times are in microseconds of this host's monotonic clock; the first event says what
 * that is in time since 1970, so that files of several hosts can be put together. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/api_internal.h"
#include "base/hash64.h"

typedef struct tt_trace {
    FILE *file;
    tt_tracer tracer;
    int rank;
} tt_trace;

static const char *stage_name(tt_stage stage)
{
    switch (stage) {
    case TT_STAGE_NEGOTIATE:
        return "negotiate";
    case TT_STAGE_QUEUE:
        return "queue";
    case TT_STAGE_WAIT:
        return "wait for others";
    case TT_STAGE_EXCHANGE:
        break;
    }
    return "exchange";
}

/* As the inside of a JSON string. Names are bytes; what is no text stays readable. */
static void write_escaped(FILE *file, const char *text)
{
    for (; *text != 0; text++) {
        const unsigned char byte = (unsigned char)*text;
        if (byte == '"' || byte == '\\') {
            (void)fprintf(file, "\\%c", byte);
        } else if (byte < 0x20 || byte > 0x7e) {
            (void)fprintf(file, "\\u%04x", byte);
        } else {
            (void)fputc(byte, file);
        }
    }
}

static void write_edge(const tt_trace *trace, const tt_trace_event *event, bool is_begin)
{
    const tt_request *request = event->request;
    const char *what = tt_collective_name(request->collective);
    const char *name = request->name != NULL ? request->name : what;
    const uint64_t at_ns = is_begin ? event->begin_ns : event->end_ns;
    FILE *file = trace->file;
    (void)fprintf(file, ",\n{\"ph\":\"%c\",\"pid\":%d,\"tid\":0,\"ts\":%llu.%03u,\"cat\":\"",
                  is_begin ? 'b' : 'e', trace->rank, (unsigned long long)(at_ns / 1000),
                  (unsigned)(at_ns % 1000));
    write_escaped(file, name);
    (void)fprintf(file, "\",\"id\":\"0x%016llx\",\"name\":\"%s %s\"",
                  (unsigned long long)tt_hash64(name, strlen(name), request->set),
                  stage_name(event->stage), what);
    if (is_begin) {
        (void)fprintf(file, ",\"args\":{\"tensor\":\"");
        write_escaped(file, name);
        (void)fprintf(file, "\",\"count\":%llu,\"dtype\":\"%s\",\"set\":%u}",
                      (unsigned long long)request->count, tt_dtype_name(request->dtype),
                      request->set);
    }
    (void)fputc('}', file);
}

static void trace_took(void *owner, const tt_trace_event *event)
{
    const tt_trace *trace = owner;
    write_edge(trace, event, true);
    write_edge(trace, event, false);
    (void)fflush(trace->file); /* it is read while the job runs, and where it died */
}

static void write_head(const tt_trace *trace)
{
    struct timespec since_1970, here;
    (void)clock_gettime(CLOCK_REALTIME, &since_1970);
    (void)clock_gettime(CLOCK_MONOTONIC, &here);
    const long long offset_us =
        (since_1970.tv_sec - here.tv_sec) * 1000000LL + (since_1970.tv_nsec - here.tv_nsec) / 1000;
    (void)fprintf(trace->file,
                  "[\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":{\"name\":"
                  "\"rank %d\",\"zero_since_epoch_in_micros\":%lld}}",
                  trace->rank, trace->rank, offset_us);
}

tutti_status tutti_trace_start(tutti_context *context, const char *path)
{
    tutti_status status = tt_call_check(context);
    if (status != TUTTI_OK) {
        return status;
    }
    if (path == NULL || *path == 0) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT, "path is empty");
    }
    tt_trace *trace = malloc(sizeof(*trace));
    if (trace == NULL) {
        return tt_error_set(TUTTI_ERR_NO_MEMORY, "out of memory for a trace");
    }
    *trace = (tt_trace){.file = fopen(path, "we"), .rank = context->rank};
    trace->tracer = (tt_tracer){.owner = trace, .took = trace_took};
    if (trace->file == NULL) {
        status = tt_error_set(TUTTI_ERR_SYSTEM, "%s: %s", path, strerror(errno));
        free(trace);
        return status;
    }
    write_head(trace);
    tt_drive_acquire(context);
    const bool is_free = context->trace == NULL;
    if (is_free) {
        context->trace = trace;
        tt_control_trace(context->control, &trace->tracer);
    }
    tt_drive_release(context);
    if (!is_free) {
        (void)fclose(trace->file);
        free(trace);
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT, "a trace is written already: stop it first");
    }
    return TUTTI_OK;
}

tutti_status tt_trace_close(tutti_context *context)
{
    tt_trace *trace = context->trace;
    tutti_status status = TUTTI_OK;
    if (trace == NULL) {
        return status;
    }
    context->trace = NULL;
    tt_control_trace(context->control, NULL);
    (void)fputs("\n]\n", trace->file);
    const bool is_bad = ferror(trace->file) != 0;
    if (fclose(trace->file) != 0 || is_bad) {
        status =
            tt_error_set(TUTTI_ERR_SYSTEM, "the trace could not be written: %s", strerror(errno));
    }
    free(trace);
    return status;
}

tutti_status tutti_trace_stop(tutti_context *context)
{
    const tutti_status status = tt_call_check(context);
    if (status != TUTTI_OK) {
        return status;
    }
    tt_drive_acquire(context);
    const tutti_status closed = tt_trace_close(context);
    tt_drive_release(context);
    return closed;
}
