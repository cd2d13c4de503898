/* SPDX-License-Identifier: Apache-2.0
 *
 * mpi_plugin.h - the two parts of the MPI plugin: collectives, and links for all other frames.
 *
 * Layer:   plugin; uses only tutti/plugin.h of Tutti.
 * Threads: as plugin.h: one at a time.
 * Memory:  links keep sent frames until MPI has completed them.
 */
#ifndef TUTTI_MPI_PLUGIN_H
#define TUTTI_MPI_PLUGIN_H

#include <mpi.h>

#include "tutti/plugin.h"

/* Start MPI unless it runs; TUTTI_OK, or a negative status with the cause in `why`. */
int tt_mpi_start(char *why);

/* Frames as messages between two ranks (TUTTI_CONTROL_TRANSPORT=mpi). */
extern const tutti_transport_ops tt_mpi_links;

#endif
