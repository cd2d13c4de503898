/* SPDX-License-Identifier: Apache-2.0
 *
 * launcher_internal.h - the state shared by the launcher's event loop and its hosts.
 *
 * Layer:   cli; for launcher*.c only.
 * Threads: one.
 * Memory:  a tt_launcher_job owns its arrays and channels.
 */
#ifndef TUTTI_CLI_RUN_LAUNCHER_INTERNAL_H
#define TUTTI_CLI_RUN_LAUNCHER_INTERNAL_H

#include <poll.h>
#include <sys/types.h>

#include "cli/run/channel.h"
#include "cli/run/launcher.h"
#include "cli/run/output.h"

typedef enum tt_launcher_phase {
    TT_LAUNCHER_GREETING, /* waiting for the supervisor's greeting */
    TT_LAUNCHER_SPEC,     /* waiting for READY */
    TT_LAUNCHER_READY,    /* waiting for the other hosts */
    TT_LAUNCHER_RUNNING,
    TT_LAUNCHER_GONE, /* the supervisor's end is closed */
} tt_launcher_phase;

typedef struct tt_launcher_host {
    const char *name;
    bool is_local;
    bool serves; /* its ranks are servers; such hosts come behind those of workers */
    tt_launcher_phase phase;
    tt_channel channel;
    pid_t process; /* the supervisor, or the remote shell that leads to it */
    int rank_first;
    int rank_count;
    int rank_left;
    char real_name[256]; /* the host's own name */
} tt_launcher_host;

typedef struct tt_launcher_job {
    const tt_launcher *launch;
    tt_launcher_host *hosts;
    int host_count;
    int worker_host_count;
    pid_t *processes; /* by rank; 0 until started */
    bool *is_over;    /* by rank */
    tt_output *output;
    struct pollfd *polls;
    char rendezvous[512];
    uint8_t secret[TT_WIRE_SECRET_BYTES];
    char job_id[17];
    int signal_fd;
    int64_t deadline_ns; /* of the next event: start, kill or giving up; 0: none */
    int fatal_count;     /* SIGINT, SIGTERM, SIGHUP seen */
    bool is_stopping;    /* a rank failed: the others were asked to stop */
    bool is_killing;
    bool has_failed;
    int failed_count;      /* ranks that failed before the others were asked to stop */
    int exit_code;         /* of the first failure */
    bool awaits_servers;   /* all workers are over; the servers should end by themselves */
    bool has_told_servers; /* they did not: they were asked to stop */
    bool awaits_taken;     /* a chunk of input was sent and not taken yet */
    bool has_input_ended;
} tt_launcher_job;

void __attribute__((format(printf, 2, 3)))
tt_launcher_say(tt_launcher_job *job, const char *format, ...);

/* Start the supervisor of `host`; false with a message. */
bool tt_launcher_host_start(tt_launcher_job *job, tt_launcher_host *host);
/* Queue the job description for `host`. */
void tt_launcher_host_describe(tt_launcher_job *job, tt_launcher_host *host);
bool tt_launcher_host_is_local(const char *name);

#endif
