/* SPDX-License-Identifier: Apache-2.0
 *
 * kept_file.h - the file of a store: a list of what it has, then the planes of its tensors.
 *
 *     head      "TUTTI-ST", version, bytes and hash of the list
 *     list      clock, update with its options, options to come, tensors
 *     planes    of each tensor, the state first and the value last: values, then their hash
 *
 * Numbers are little endian. The file says nothing of owners or workers, so it can be loaded with
 * any number of them. A writer writes to PATH.tmp, which takes the place of PATH when it is
 * complete and on disk.
 *
 * Layer:   api, private.
 * Threads: one at a time per file and list.
 * Memory:  a list has its tensors until tt_kept_list_release.
 */
#ifndef TUTTI_API_STORE_KEPT_FILE_H
#define TUTTI_API_STORE_KEPT_FILE_H

#include <stdio.h>

#include "base/text.h"
#include "sync/sync.h"

enum { TT_KEPT_PATH_BYTES = 4096, TT_KEPT_TENSORS_MAX = 1 << 20 };

typedef struct tt_kept_tensor {
    uint64_t count; /* elements */
    uint64_t step;  /* sums that were made of it */
    uint32_t planes;
    uint32_t row_elements; /* of a table; else 0 */
    tt_dtype dtype;
    char name[TT_SYNC_NAME_BYTES];
} tt_kept_tensor;

typedef struct tt_kept_list {
    uint64_t clock;
    tt_sync_options options;
    uint32_t tensor_count;
    tt_kept_tensor *tensors;
} tt_kept_list;

/* Bytes of a plane. */
uint64_t tt_kept_plane_bytes(const tt_kept_tensor *tensor);

/* ---- the list as bytes ---- */

size_t tt_kept_list_bytes(const tt_kept_list *list);
void tt_kept_list_encode(const tt_kept_list *list, uint8_t *bytes);
/* Trusts nothing. On failure `why` has what is wrong, and there is nothing to release. */
tt_status tt_kept_list_decode(const uint8_t *bytes, size_t byte_count, tt_kept_list *list_out,
                              tt_text *why);
void tt_kept_list_release(tt_kept_list *list);

/* ---- files; on failure `why` has a sentence ---- */

typedef struct tt_kept_file {
    FILE *stream;
    char path[TT_KEPT_PATH_BYTES];
} tt_kept_file;

/* Room for a list of as many tensors and changes as this one has. */
tt_status tt_kept_create(tt_kept_file *file, const char *path, const tt_kept_list *list,
                         tt_text *why);
tt_status tt_kept_write(tt_kept_file *file, const void *values, uint64_t bytes, tt_text *why);
/* All planes were written: the list, then the file takes its place. The file is closed. */
tt_status tt_kept_finish(tt_kept_file *file, const tt_kept_list *list, tt_text *why);
/* Close it, and remove what was written. */
void tt_kept_abandon(tt_kept_file *file);

/* The file has exactly the length that its list says. */
tt_status tt_kept_open(tt_kept_file *file, const char *path, tt_kept_list *list_out, tt_text *why);
tt_status tt_kept_read(tt_kept_file *file, void *values, uint64_t bytes, tt_text *why);
void tt_kept_close(tt_kept_file *file);

#endif
