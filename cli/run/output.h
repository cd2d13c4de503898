/* SPDX-License-Identifier: Apache-2.0
 *
 * output.h - ranks' output, line by line, each line with its rank in front.
 *
 * Lines of one rank keep their order; a line is never mixed with another's. Lines longer than
 * TT_OUTPUT_LINE_BYTES_MAX are cut. Nothing here blocks: bytes that the terminal or pipe does not
 * take stay queued; while tt_output_is_full the caller must not read from the ranks.
 *
 * Layer:   cli.
 * Threads: one at a time.
 * Memory:  grows with the number of ranks; the queue is bounded if the caller obeys that rule.
 */
#ifndef TUTTI_CLI_RUN_OUTPUT_H
#define TUTTI_CLI_RUN_OUTPUT_H

#include <stdbool.h>

#include "base/status.h"
#include "cli/buffer.h"

enum {
    TT_OUTPUT_STREAMS = 2, /* 0: stdout, 1: stderr */
    TT_OUTPUT_LINE_BYTES_MAX = 64 << 10,
};

typedef struct tt_output tt_output;

typedef struct tt_output_config {
    int rank_count;   /* workers and, behind them, servers */
    int server_count; /* numbered from 0 */
    bool has_prefix;
    const char *folder; /* also write rank.N/stdout and stderr here, of servers server.N/; NULL: do
                         * not */
} tt_output_config;

/* NULL with a message on stderr if the folder cannot be written. */
tt_output *tt_output_create(const tt_output_config *config);
void tt_output_destroy(tt_output *output);

void tt_output_take(tt_output *output, int rank, int stream, const uint8_t *bytes, size_t count);
/* The rank writes no more: an unfinished last line is finished. */
void tt_output_end(tt_output *output, int rank);

bool tt_output_is_full(const tt_output *output);
bool tt_output_has_pending(const tt_output *output, int stream);
/* Write a little; call when the descriptor is writable. TT_ERR_PEER_LEFT: the reader is gone. */
tt_status tt_output_flush(tt_output *output, int stream);

#endif
