/* SPDX-License-Identifier: Apache-2.0
 *
 * file_store.h - small blobs through a directory that all ranks share.
 *
 * For clusters where ranks share a file system but no known port: rank 0 puts its address, the
 * others poll for it. A blob appears whole or not at all (written aside, then renamed).
 *
 *     <path>/tutti.<job>.<incarnation>.<key>
 *
 * The incarnation in the name keeps a restarted job from reading its earlier blobs. Two runs of
 * the same job id and incarnation look alike: a rank that gets an address must complete the
 * handshake, and on failure get again until the deadline; rank 0 removes its keys when done.
 *
 * Layer:   mesh.
 * Threads: any number of processes and threads; a store is read only after init.
 * Memory:  the caller owns every buffer; nothing allocates.
 */
#ifndef TUTTI_MESH_FILE_STORE_H
#define TUTTI_MESH_FILE_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "launch/launch.h"

enum {
    TT_MESH_BLOB_BYTES_MAX = 1 << 16,
    TT_MESH_KEY_BYTES_MAX = 64, /* letters, digits, '-' and '_' */
};

typedef struct tt_mesh_file_store {
    char path[TT_LAUNCH_PATH_BYTES];
    uint64_t job;
    uint32_t incarnation;
} tt_mesh_file_store;

typedef struct tt_mesh_blob {
    void *bytes;
    size_t capacity;
    size_t count; /* set by get */
} tt_mesh_blob;

/* Create the directory if need be (mode 0700) and check that no other user can write there. */
tt_status tt_mesh_file_store_init(tt_mesh_file_store *store, const char *path, const char *job_id,
                                  uint32_t incarnation, tt_launch_why *why);

/* Later puts of a key replace earlier ones. */
tt_status tt_mesh_file_store_put(const tt_mesh_file_store *store, const char *key,
                                 const void *bytes, size_t byte_count, tt_launch_why *why);

/* Wait for the key until the deadline: TT_ERR_TIMED_OUT names the missing file. */
tt_status tt_mesh_file_store_get(const tt_mesh_file_store *store, const char *key,
                                 uint64_t deadline_ns, tt_mesh_blob *blob, tt_launch_why *why);

/* Remove one key; a key that is not there is fine. */
void tt_mesh_file_store_remove(const tt_mesh_file_store *store, const char *key);

/* Remove the files of earlier incarnations of this job. Returns how many were removed. */
size_t tt_mesh_file_store_sweep(const tt_mesh_file_store *store);

#endif
