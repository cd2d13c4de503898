/* SPDX-License-Identifier: Apache-2.0
 *
 * samples.h - measured transfers from a file, and the line through them.
 *
 * Layer:   cli.
 * Threads: pure, but for the reading of files.
 * Memory:  none kept.
 */
#ifndef TUTTI_CLI_SAMPLES_H
#define TUTTI_CLI_SAMPLES_H

#include "base/text.h"
#include "tune/tune.h"

/* f(d) = a + b d of a file of 'bytes microseconds' lines. On failure `why` says what is wrong. */
tt_status tt_samples_fit(const char *path, tt_text *why, tt_linear *line_out);

#endif
