/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_rows.h - measured calls, from files that `tutti bench --json` wrote.
 *
 * Of a line "op", "bytes", "ranks", "time_us" and "wrong" are needed; "hosts", "transport",
 * "buffers", "in_place", "dtype" and "algorithm" say where and how, and have the defaults of
 * `tutti bench`. Empty lines and lines that begin with '#' are ignored.
 *
 * Layer:   cli.
 * Threads: pure, but for the reading of files.
 * Memory:  the rows belong to the set, from init to fini.
 */
#ifndef TUTTI_CLI_CLUSTER_BENCH_ROWS_H
#define TUTTI_CLI_CLUSTER_BENCH_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "aggregate/aggregate.h"
#include "base/text.h"

enum {
    TT_BENCH_ROWS_MAX = 8192,
    TT_BENCH_RANKS_MAX = 4096,
    TT_BENCH_ALGORITHM_BYTES = 20,
};

typedef struct tt_bench_row {
    tt_collective collective; /* SEND: to the next rank, and from the one before */
    tt_dtype dtype;
    uint64_t bytes; /* the larger of input and output */
    uint32_t ranks;
    uint32_t hosts; /* over TCP, ranks of one host are like hosts of their own: as many as ranks */
    double time_us;
    bool is_staged; /* buffers are not in the arena */
    bool is_in_place;
    char algorithm[TT_BENCH_ALGORITHM_BYTES]; /* "": not told */
} tt_bench_row;

typedef struct tt_bench_rows {
    tt_bench_row *rows;
    size_t count;
    size_t capacity;
} tt_bench_rows;

void tt_bench_rows_init(tt_bench_rows *rows);
void tt_bench_rows_fini(tt_bench_rows *rows);

/* Add the rows of a text that ends in a zero. TT_ERR_BAD_ARGUMENT: `why` is "path:line: cause". */
tt_status tt_bench_rows_read(tt_bench_rows *rows, const char *path, const char *text, tt_text *why);
/* The same for a file. */
tt_status tt_bench_rows_load(tt_bench_rows *rows, const char *path, tt_text *why);

/* "sendrecv" of SEND, else the collective's name. */
const char *tt_bench_row_name(const tt_bench_row *row);

static inline bool tt_bench_row_is_local(const tt_bench_row *row)
{
    return row->hosts == 1;
}

/* Ranks of a host, all hosts but the last. */
static inline uint32_t tt_bench_row_ranks_per_host(const tt_bench_row *row)
{
    return (row->ranks + row->hosts - 1) / row->hosts;
}

#endif
