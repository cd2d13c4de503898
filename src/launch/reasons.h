/* SPDX-License-Identifier: Apache-2.0
 *
 * reasons.h - small text tools of launch and mesh: error texts, strict numbers, a stable hash.
 *
 * Layer:   launch; may include base/ only.
 * Threads: pure.
 * Memory:  the caller owns every buffer; nothing allocates.
 */
#ifndef TUTTI_LAUNCH_REASONS_H
#define TUTTI_LAUNCH_REASONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { TT_LAUNCH_WHY_BYTES = 768 };

/* Why a call failed: culprit, cause and cure in one line, for the user.
 * Written only on failure, always terminated. */
typedef struct tt_launch_why {
    char text[TT_LAUNCH_WHY_BYTES];
} tt_launch_why;

/* Fill `why` and return `status`, so that a failing function ends in one statement. */
tt_status tt_launch_fail(tt_launch_why *why, tt_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Engines of ranks are compared by tags of 8 bytes: zeros for our own transports, a plugin's tag,
 * or this one for a plugin that is set but cannot be loaded. */
#define TT_LAUNCH_TAG_MISSING "missing"
typedef char tt_launch_tag_text[48];
/* "uses engine ucx", for error texts. */
void tt_launch_tag_tell(const char *tag, tt_launch_tag_text text_out);

/* Append to a terminated text; the result is truncated to fit. */
void tt_launch_append(char *text, size_t text_bytes, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Copy source[0..source_bytes) and terminate it; false, and an empty target, if it does not fit. */
bool tt_launch_copy(char *target, size_t target_bytes, const char *source, size_t source_bytes);

/* Decimal digits only, the whole of text[0..text_bytes), at most `value_max`.
 * No sign, no blank, no base prefix: launchers write plain decimal numbers. */
bool tt_launch_parse_number(const char *text, size_t text_bytes, uint64_t value_max,
                            uint64_t *value_out);

/* 64-bit FNV-1a with a final mix, chained through `seed`; 0 starts a chain.
 * The same on every host and in every version: ports and host ids are derived from it. */
uint64_t tt_launch_hash(uint64_t seed, const void *bytes, size_t byte_count);

#endif
