/* SPDX-License-Identifier: Apache-2.0
 *
 * launcher.h - start a job on one or many hosts, show its output, and make sure that it ends.
 *
 * Layer:   cli.
 * Threads: one; it blocks signals and takes over the process until the job is over.
 * Memory:  everything in tt_launcher is borrowed.
 */
#ifndef TUTTI_CLI_RUN_LAUNCHER_H
#define TUTTI_CLI_RUN_LAUNCHER_H

#include <stdbool.h>

#include "cli/option.h"
#include "cli/run/hostfile.h"

typedef struct tt_launcher {
    const char *title;     /* in front of messages: "tutti run" */
    const tt_hosts *hosts; /* placement: hosts are filled in order */
    int rank_count;
    const tt_hosts *server_hosts; /* the same for servers, which have the ranks behind; may be
                                   * NULL where there are none */
    int server_count;
    int keep_min;   /* a rank that fails stops the others only if fewer than so many are left; 0: it
                     * always does */
    char **program; /* NULL-terminated */
    const tt_option_list *variables; /* "NAME=value", or "NAME" to pass on */
    const char *rsh;                 /* remote shell with its arguments */
    const char *remote_tutti;        /* path of this program on remote hosts; NULL: as here */
    const char *interface;           /* NULL: choose */
    const char *output_folder;
    const char *folder; /* working folder of the ranks; NULL: this process's */
    double start_timeout_s;
    double grace_s; /* after a failure, from SIGTERM to SIGKILL of the other ranks */
    bool binds_cores;
    bool wants_stdin;
    bool has_prefix;
    bool is_quiet;
} tt_launcher;

/* The exit status for the shell: 0 if every rank succeeded, or `keep_min` of them, else the first
 * failing rank's code or 128 + its signal. Servers do not count. */
int tt_launcher_run(const tt_launcher *launch);

#endif
