/* SPDX-License-Identifier: Apache-2.0
 *
 * rank.h - one rank's process, as its supervisor sees it.
 *
 * Layer:   cli.
 * Threads: one at a time.
 * Memory:  the caller's; descriptors belong to the rank until tt_rank_close.
 */
#ifndef TUTTI_CLI_RUN_RANK_H
#define TUTTI_CLI_RUN_RANK_H

#include <sys/types.h>

#include "cli/run/wire.h"

enum { TT_RANK_STREAMS = 2 }; /* 0: stdout, 1: stderr */

typedef struct tt_rank {
    pid_t process;
    int input_fd;                    /* -1: /dev/null */
    int output_fds[TT_RANK_STREAMS]; /* -1 once ended; non-blocking */
    bool is_running;
} tt_rank;

/* What all ranks of this host have in common. */
typedef struct tt_rank_plan {
    const tt_wire_spec *spec;
    const char *rendezvous;
    int listen_fd;    /* for rank 0; -1 elsewhere */
    const int *cores; /* allowed cores, for binding */
    uint32_t core_count;
    uint32_t thread_count; /* OMP_NUM_THREADS; 0: leave it */
} tt_rank_plan;

/* Start local rank `index` in a process group of its own. Returns 0, or the errno of the exec or of
 * a step before it; then nothing runs. */
int tt_rank_start(tt_rank *rank, const tt_rank_plan *plan, uint32_t index);
void tt_rank_close(tt_rank *rank);

#endif
