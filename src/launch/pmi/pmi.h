/* SPDX-License-Identifier: Apache-2.0
 *
 * pmi.h - client of a PMI-1 server: the key-value store that mpiexec and its relatives offer.
 *
 * The server is reached over an inherited descriptor (PMI_FD) or over TCP (PMI_PORT=host:port
 * and PMI_ID). One process has one server connection: a program that also starts MPI by itself
 * needs another rendezvous (TUTTI_RENDEZVOUS), because MPI needs that connection.
 *
 * Use: put, barrier, get; values are visible to others only after the barrier.
 *
 * Layer:   launch.
 * Threads: one thread per client at a time.
 * Memory:  create allocates, destroy frees; the caller owns every buffer.
 */
#ifndef TUTTI_LAUNCH_PMI_PMI_H
#define TUTTI_LAUNCH_PMI_PMI_H

#include <stddef.h>
#include <stdint.h>

#include "launch/family.h"

typedef struct tt_launch_pmi tt_launch_pmi;

/* Connect to the server that `source` names and send init. Every later call waits at most
 * `timeout_ms`; the barrier waits for late ranks. The caller must destroy it. */
tt_status tt_launch_pmi_create(const tt_launch_source *source, uint64_t timeout_ms,
                               tt_launch_pmi **pmi_out, tt_launch_why *why);

/* The same over a connected descriptor, which the client then owns, on failure too. */
tt_status tt_launch_pmi_adopt(int fd, uint64_t timeout_ms, tt_launch_pmi **pmi_out,
                              tt_launch_why *why);

/* Send finalize, so that the launcher does not take our exit for a crash, and free. NULL is fine.
 */
void tt_launch_pmi_destroy(tt_launch_pmi *pmi);

/* Free without sending anything, and leave the descriptor open for the next PMI client. */
void tt_launch_pmi_forsake(tt_launch_pmi *pmi);

/* The store's name: unique among the server's jobs, the same on every rank. */
const char *tt_launch_pmi_job(const tt_launch_pmi *pmi);

/* Longest value that put takes. */
size_t tt_launch_pmi_value_bytes_max(const tt_launch_pmi *pmi);

/* Keys and values are printable ASCII without blanks. A key is put once. */
tt_status tt_launch_pmi_put(tt_launch_pmi *pmi, const char *key, const char *value,
                            tt_launch_why *why);
tt_status tt_launch_pmi_barrier(tt_launch_pmi *pmi, tt_launch_why *why);
tt_status tt_launch_pmi_get(tt_launch_pmi *pmi, const char *key, char *value_out,
                            size_t value_bytes, tt_launch_why *why);

/* The engine of a rank. */
typedef struct tt_launch_pmi_side {
    uint32_t rank, size;
    const char *engine; /* tag of 8 bytes; begins with NUL: none */
} tt_launch_pmi_side;

/* announce publishes the engine before the barrier. compare, after it, compares with rank 0, or on
 * rank 0 with the first 1023 others: TT_ERR_MISMATCH names both sides. */
tt_status tt_launch_pmi_announce(tt_launch_pmi *pmi, const tt_launch_pmi_side *side,
                                 tt_launch_why *why);
tt_status tt_launch_pmi_compare(tt_launch_pmi *pmi, const tt_launch_pmi_side *side,
                                tt_launch_why *why);
/* Both, for ranks whose engine then uses the same server: an MPI under Hydra, which accepts a
 * second init. */
tt_status tt_launch_pmi_meet_before(const tt_launch_source *source, uint64_t timeout_ms,
                                    const tt_launch_pmi_side *side, tt_launch_why *why);

#endif
