/* SPDX-License-Identifier: Apache-2.0
 *
 * wire.h - the protocol of launcher and supervisor, over the supervisor's stdin and stdout.
 *
 * A frame is [u32 payload bytes][u16 type][u16 zero][payload]. A string is [u32 bytes][bytes][0],
 * a list is [u32 count][string]... Little-endian. Before its first frame a supervisor sends
 * TT_WIRE_GREETING, which separates its frames from the output of a remote login shell.
 *
 * Layer:   cli.
 * Threads: pure.
 * Memory:  decoded strings point into the payload; a decoded spec owns its arrays of pointers.
 */
#ifndef TUTTI_CLI_RUN_WIRE_H
#define TUTTI_CLI_RUN_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "cli/buffer.h"

#define TT_WIRE_GREETING "\n<tutti-supervisor 1>\n"

enum {
    TT_WIRE_HEAD_BYTES = 8,
    TT_WIRE_PAYLOAD_BYTES_MAX = 4 << 20, /* a spec: arguments and environment */
    TT_WIRE_CHUNK_BYTES = 32 << 10,      /* output or input in one frame */
    TT_WIRE_RANK_COUNT_MAX = 1 << 20,
    TT_WIRE_LOCAL_COUNT_MAX = 4096,
    TT_WIRE_SECRET_BYTES = 32,
    TT_WIRE_SECRET_OFFSET = 36, /* in a spec's payload, so that it can be wiped */
};

typedef enum tt_wire_type {
    TT_WIRE_SPEC = 1,    /* launcher: what to start; answered by READY or REFUSED */
    TT_WIRE_START = 2,   /* launcher: start the ranks; carries the rendezvous address */
    TT_WIRE_SIGNAL = 3,  /* launcher: signal every rank; SIGKILL reaches all descendants */
    TT_WIRE_STDIN = 4,   /* launcher: input of rank 0; empty at its end; one at a time */
    TT_WIRE_READY = 5,   /* supervisor: may start; carries the rendezvous address if it listens */
    TT_WIRE_STARTED = 6, /* supervisor: rank has a process */
    TT_WIRE_OUTPUT = 7,  /* supervisor: bytes of a rank's stdout or stderr */
    TT_WIRE_EXIT = 8,    /* supervisor: rank is over; its output so far was sent before */
    TT_WIRE_REFUSED = 9, /* supervisor: cannot continue; carries the reason */
    TT_WIRE_TAKEN = 10,  /* supervisor: the last STDIN was passed on */
} tt_wire_type;

typedef struct tt_wire_frame {
    tt_wire_type type;
    const uint8_t *payload;
    size_t payload_bytes;
} tt_wire_frame;

typedef struct tt_wire_list {
    const char **items; /* NULL after the last */
    size_t count;
} tt_wire_list;

typedef struct tt_wire_spec {
    uint32_t rank_first;
    uint32_t local_size;
    uint32_t world_size; /* workers and servers */
    uint32_t cross_rank; /* of the hosts of workers, or of those of servers; the next likewise */
    uint32_t cross_size;
    bool binds_cores;
    bool wants_stdin;
    bool is_loopback_only; /* every rank is on this host */
    uint32_t server_count; /* the last so many ranks of the job run `tutti server` */
    uint8_t secret[TT_WIRE_SECRET_BYTES];
    const char *job_id;
    const char *folder;     /* working directory; "" keeps the supervisor's */
    const char *interface;  /* to listen on; "" chooses */
    tt_wire_list peers;     /* host names of the job, to find the right interface */
    tt_wire_list program;   /* at least one */
    tt_wire_list variables; /* "NAME=value" */
} tt_wire_spec;

typedef struct tt_wire_ready {
    uint32_t core_count;
    const char *host;
    const char *rendezvous; /* "" unless this supervisor holds rank 0 */
    uint32_t thread_count;  /* OMP_NUM_THREADS it will set; 0: the user has set it */
} tt_wire_ready;

typedef struct tt_wire_event {
    uint32_t rank;
    uint32_t value;       /* STARTED: process id; OUTPUT: stream; EXIT: tt_wire_outcome */
    uint32_t detail;      /* EXIT: code, signal or errno */
    const uint8_t *bytes; /* OUTPUT */
    size_t byte_count;
} tt_wire_event;

typedef enum tt_wire_outcome {
    TT_WIRE_EXITED = 0,    /* detail: exit code */
    TT_WIRE_SIGNALLED = 1, /* detail: signal */
    TT_WIRE_NOT_BEGUN = 2, /* detail: errno of the exec */
} tt_wire_outcome;

/* The first frame of `bytes`. TT_IN_PROGRESS: more bytes are needed. TT_ERR_BAD_WIRE: not a valid
 * frame; the length is checked before the payload is awaited or allocated. */
tt_status tt_wire_next(const uint8_t *bytes, size_t byte_count, tt_wire_frame *frame_out,
                       size_t *used_out);

void tt_wire_put(tt_buffer *target, tt_wire_type type, const void *payload, size_t payload_bytes);
void tt_wire_put_text(tt_buffer *target, tt_wire_type type, const char *text);
void tt_wire_put_number(tt_buffer *target, tt_wire_type type, uint32_t number);
void tt_wire_put_spec(tt_buffer *target, const tt_wire_spec *spec);
void tt_wire_put_ready(tt_buffer *target, const tt_wire_ready *ready);
void tt_wire_put_event(tt_buffer *target, tt_wire_type type, const tt_wire_event *event);

tt_status tt_wire_get_text(const tt_wire_frame *frame, const char **text_out);
tt_status tt_wire_get_number(const tt_wire_frame *frame, uint32_t *number_out);
tt_status tt_wire_get_spec(const tt_wire_frame *frame, tt_wire_spec *spec_out);
/* Are its ranks servers? All of them are, or none. */
static inline bool tt_wire_spec_serves(const tt_wire_spec *spec)
{
    return spec->rank_first >= spec->world_size - spec->server_count;
}
void tt_wire_spec_release(tt_wire_spec *spec);
tt_status tt_wire_get_ready(const tt_wire_frame *frame, tt_wire_ready *ready_out);
tt_status tt_wire_get_event(const tt_wire_frame *frame, tt_wire_event *event_out);

#endif
