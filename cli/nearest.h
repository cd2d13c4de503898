/* SPDX-License-Identifier: Apache-2.0
 *
 * nearest.h - "did you mean": which known word a mistyped one is closest to.
 *
 * Layer:   cli.
 * Threads: pure.
 */
#ifndef TUTTI_CLI_NEAREST_H
#define TUTTI_CLI_NEAREST_H

#include <stddef.h>

typedef struct tt_nearest {
    const char *wanted;
    const char *best; /* NULL until something close enough was offered */
    size_t best_distance;
} tt_nearest;

void tt_nearest_init(tt_nearest *nearest, const char *wanted);
/* `candidate` is borrowed; it must outlive the search. */
void tt_nearest_offer(tt_nearest *nearest, const char *candidate);

#endif
