/* SPDX-License-Identifier: Apache-2.0
 *
 * secret.h - source of the job's 32-byte key.
 *
 * The first source that is named wins, and if it is invalid the search ends there: a rank must
 * never fall through to another key than its peers.
 *
 *     TUTTI_SECRET_FD    descriptor inherited from the launcher: a file (memfd), which every
 *                        context of the process reads, or a pipe, read once and closed
 *     TUTTI_SECRET_FILE  regular file of this user, mode 0600 or stricter, no symbolic link
 *     TUTTI_SECRET       64 hex digits; others can read it in /proc, so a warning is logged and it
 *                        is unset
 *     the caller's blob  from a launcher's key-value store
 *     the user's key     $XDG_CONFIG_HOME/tutti/key or ~/.config/tutti/key, made on first use;
 *                        the job key is BLAKE2b(key = user's key, message = job id)
 *
 * Descriptor and file hold 32 raw bytes, or 64 hex digits and an optional newline.
 *
 * Layer:   transport; may include base/ only. Reads files; the environment through a callback.
 * Threads: any; a pipe in FD and TUTTI_SECRET are used up by the first call.
 * Memory:  caller's storage; every copy made here is wiped. Key bytes never reach a text.
 */
#ifndef TUTTI_TRANSPORT_SECURE_SECRET_H
#define TUTTI_TRANSPORT_SECURE_SECRET_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "transport/secure/noise.h"

#define TT_SECRET_BYTES 32
#define TT_SECRET_TEXT_BYTES 512

typedef enum tt_secret_origin {
    TT_SECRET_FROM_DESCRIPTOR,
    TT_SECRET_FROM_FILE,
    TT_SECRET_FROM_ENVIRONMENT,
    TT_SECRET_FROM_CALLER,
    TT_SECRET_FROM_USER_KEY,
} tt_secret_origin;

typedef struct tt_secret_sources {
    /* Value of an environment variable or NULL; borrowed until the next call. */
    const char *(*lookup)(void *user, const char *name);
    /* Overwrite and unset it. */
    void (*forget)(void *user, const char *name);
    void *user;
    const uint8_t *blob; /* 32 raw bytes or 64 hex digits; NULL if there is none */
    size_t blob_bytes;
    const char *job_id;     /* needed for the user's key; NULL or "" if unknown */
    tt_noise_random random; /* makes the user's key on first use */
} tt_secret_sources;

typedef struct tt_secret {
    uint8_t key[TT_SECRET_BYTES];
    tt_secret_origin origin;
} tt_secret;

/* On failure TT_ERR_REFUSED (a source is invalid, or there is none) and `text_out`, of
 * TT_SECRET_TEXT_BYTES, names the source and the cure. On success `text_out` is empty or a
 * warning to log once. */
tt_status tt_secret_find(const tt_secret_sources *sources, tt_secret *secret_out, char *text_out);

/* Describes the source that a job started here would use: its name, and a fingerprint to compare
 * two hosts. Nothing is used up, unset or made. Needs `lookup` and `user` only. */
void tt_secret_describe(const tt_secret_sources *sources, char text_out[TT_SECRET_TEXT_BYTES]);

void tt_secret_wipe(tt_secret *secret);

#endif
