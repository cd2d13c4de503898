/* SPDX-License-Identifier: Apache-2.0
 *
 * machine.h - what this host offers: cores, memory, limits, kernel features, interfaces.
 *
 * Layer:   cli.
 * Threads: any.
 */
#ifndef TUTTI_CLI_MACHINE_H
#define TUTTI_CLI_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tt_machine {
    char host[256];
    char kernel[256];
    char processor[128];
    char features[512]; /* instruction sets that matter to the reduction kernels */
    int core_count;
    int allowed_core_count; /* in this process's affinity mask */
    int node_count;         /* of memory; 0: unknown */
    int own_node_count;     /* of those, near a core of the affinity mask */
    char huge_pages[32];    /* the kernel's setting for huge pages of shared memory; "": none */
    uint64_t memory_bytes;
    uint64_t memory_free_bytes;
    uint64_t shm_bytes;
    uint64_t shm_free_bytes;
    uint64_t file_limit;
    uint64_t file_limit_max;
    uint64_t lock_limit_bytes; /* UINT64_MAX: none */
    bool has_shm;
    bool has_memfd; /* created, sized, mapped and sealed */
    bool has_pidfd;
    bool has_proc;
} tt_machine;

void tt_machine_read(tt_machine *machine);

/* Interfaces with an address, one text each ("eth0 192.0.2.7"). */
void tt_machine_interfaces(void (*each)(void *user, const char *text), void *user);

#endif
