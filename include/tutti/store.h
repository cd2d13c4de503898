/* SPDX-License-Identifier: Apache-2.0
 *
 * store.h - servers of a job: processes beside its workers.
 *
 * Workers train and call the collectives of tutti.h; servers wait for what workers send them. Of
 * the processes that the launcher numbers, the last TUTTI_SERVERS are servers:
 *
 *     tutti run -n 4 --servers 2 ./train
 *     TUTTI_SERVERS=2 mpirun -n 4 ./train : -n 2 tutti server
 *
 * Rank and size of tutti_options and of launchers count all processes; those that tutti.h returns,
 * hosts and process sets are the workers' alone. No collective involves a server, so a server that
 * ends or dies breaks none. TUTTI_SERVERS, or tutti_options.servers, must be the same on all
 * processes; joining checks it. Servers end when all workers have left, so the workers of such a
 * job call tutti_init once; a program that meets elsewhere for a job without servers sets the
 * option to -1. An outside engine (TUTTI_ENGINE) excludes servers.
 */
#ifndef TUTTI_STORE_H
#define TUTTI_STORE_H

#include <tutti/tutti.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Join the job as a server, and serve until every worker has left or died. `options` as of
 * tutti_init. TUTTI_OK once no worker is left, also if workers
 * died. A failure to join is returned like that of tutti_init: tutti_last_error(NULL) has the text.
 * A process that is a worker is refused; so is tutti_init in a process that is a server. Blocks
 * without using the processor while workers send nothing. `tutti server` is a program that makes
 * this one call. */
TUTTI_API tutti_status tutti_server_run(const tutti_options *options);

#ifdef __cplusplus
}
#endif

#endif
