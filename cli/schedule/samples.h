/* SPDX-License-Identifier: Apache-2.0
 *
 * samples.h - measured transfers, and the line f(d) = a + b d through them.
 *
 * A line of text is 'bytes microseconds', or an object as `tutti bench allreduce --json` writes it,
 * of which "op", "bytes", "time_us", "ranks" and "wrong" are read. Empty lines and lines that begin
 * with '#' are ignored.
 *
 * Layer:   cli.
 * Threads: pure, but for the reading of files.
 * Memory:  none kept.
 */
#ifndef TUTTI_CLI_SCHEDULE_SAMPLES_H
#define TUTTI_CLI_SCHEDULE_SAMPLES_H

#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "tune/tune.h"

typedef struct tt_samples {
    tt_linear line;
    size_t count;
    int64_t rank_count; /* of the measurement; 0: not in the text */
} tt_samples;

/* `text` ends in a zero. TT_ERR_BAD_ARGUMENT: `why` has the number of the wrong line, or what is
 * missing. */
tt_status tt_samples_read(const char *text, tt_text *why, tt_samples *samples_out);

/* The same for a file. */
tt_status tt_samples_load(const char *path, tt_text *why, tt_samples *samples_out);

#endif
