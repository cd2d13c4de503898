/* SPDX-License-Identifier: Apache-2.0
 *
 * listen.h - the socket on which rank 0 accepts its peers, bound before its port is published.
 *
 * Layer:   cli.
 * Threads: any.
 */
#ifndef TUTTI_CLI_RUN_LISTEN_H
#define TUTTI_CLI_RUN_LISTEN_H

#include "cli/run/wire.h"

/* The port at this offset is free, too: for torch.distributed's store. Linux gives outgoing
 * connections even ports first, and listeners odd ones. */
enum { TT_LISTEN_STORE_OFFSET = 2 };

/* Listen on a free port: on loopback if the whole job is here, else on `spec->interface`, else on
 * the interface that leads to the first peer, else on the first one that is up.
 * `url` receives "tcp://address:port". Returns the descriptor (close-on-exec), or -1 with the
 * reason in `url`. */
int tt_listen_open(const tt_wire_spec *spec, char *url, size_t url_bytes);

#endif
