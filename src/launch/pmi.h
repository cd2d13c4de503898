/* SPDX-License-Identifier: Apache-2.0
 *
 * pmi.h - client of a PMI-1 server: the key-value store that mpiexec and its relatives offer.
 *
 * The server is reached over an inherited descriptor (PMI_FD) or over TCP (PMI_PORT=host:port
 * and PMI_ID). One process has one server connection: a program that also starts MPI by itself
 * must meet otherwise (TUTTI_RENDEZVOUS), for MPI would find the connection used up.
 *
 * Use: put, barrier, get; values are seen by others only after the barrier.
 *
 * Layer:   launch.
 * Threads: one thread per client at a time.
 * Memory:  create allocates, destroy frees; the caller owns every buffer.
 */
#ifndef TUTTI_LAUNCH_PMI_H
#define TUTTI_LAUNCH_PMI_H

#include <stddef.h>
#include <stdint.h>

#include "launch/family.h"

typedef struct tt_launch_pmi tt_launch_pmi;

/* Reach the server that `source` names and greet it. Every call after this one waits at most
 * `timeout_ms`; the barrier is where a late rank is waited for. The caller must destroy it. */
tt_status tt_launch_pmi_create(const tt_launch_source *source, uint64_t timeout_ms,
                               tt_launch_pmi **pmi_out, tt_launch_why *why);

/* The same over a connected descriptor, which is adopted, on failure too. */
tt_status tt_launch_pmi_adopt(int fd, uint64_t timeout_ms, tt_launch_pmi **pmi_out,
                              tt_launch_why *why);

/* Say goodbye, so that the launcher does not take our exit for a crash, and free. NULL is fine. */
void tt_launch_pmi_destroy(tt_launch_pmi *pmi);

/* Free without a word, and leave the descriptor to whoever speaks to the server next. */
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

/* What a rank runs on. */
typedef struct tt_launch_pmi_side {
    uint32_t rank, size;
    const char *engine; /* tag of 8 bytes; begins with NUL: none */
} tt_launch_pmi_side;

/* Tell the others before the barrier; after it compare with rank 0, or, as rank 0, with the first
 * ranks: TT_ERR_MISMATCH names both sides. */
tt_status tt_launch_pmi_announce(tt_launch_pmi *pmi, const tt_launch_pmi_side *side,
                                 tt_launch_why *why);
tt_status tt_launch_pmi_compare(tt_launch_pmi *pmi, const tt_launch_pmi_side *side,
                                tt_launch_why *why);
/* Both, for ranks whose engine then speaks to the same server: an MPI under Hydra, which minds no
 * second greeting. */
tt_status tt_launch_pmi_meet_before(const tt_launch_source *source, uint64_t timeout_ms,
                                    const tt_launch_pmi_side *side, tt_launch_why *why);

#endif
