/* SPDX-License-Identifier: Apache-2.0
 *
 * costs.h - a table of costs: alpha + beta * bytes, per collective, algorithm, placement and ranks.
 *
 * Its text, which is kept in a file and sent to the ranks:
 *
 *     tutti costs 1
 *     # collective algorithm placement ranks up-to-bytes alpha-ns ns-per-MiB
 *     allreduce shared shm 4 16384 2100 180000
 *     allreduce shared shm 4 any 9000 91000
 *
 * Several lines of one (collective, algorithm, placement, ranks) cover bands of sizes; the line
 * with the smallest bound that is not below a size holds for it. Names have no meaning in this
 * layer: users of the table look up the names they know.
 *
 *  (1) A time is a function of the table and the key alone, in whole numbers: ranks that hold the
 *      same text compute the same times.
 *  (2) format and parse are inverse; the text of a table is unique, so its hash is the table's.
 *
 * Layer:   tune.
 * Threads: pure.
 * Memory:  the caller's; a table has a fixed size.
 */
#ifndef TUTTI_TUNE_COSTS_H
#define TUTTI_TUNE_COSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/text.h"

enum {
    TT_COSTS_NAME_BYTES = 20, /* the terminating zero included */
    TT_COSTS_LINES_MAX = 512,
    TT_COSTS_LINE_BYTES_MAX = 120,
    TT_COSTS_TEXT_BYTES_MAX = 64 * 1024, /* of any text that is parsed */
};

#define TT_COSTS_ANY_BYTES UINT64_MAX
#define TT_COSTS_ALPHA_MAX (UINT64_C(1) << 40) /* ns: 18 minutes */
#define TT_COSTS_BETA_MAX (UINT64_C(1) << 32)  /* ns per MiB: 4 s */

typedef char tt_costs_name[TT_COSTS_NAME_BYTES]; /* padded with zeros */

typedef struct tt_cost_key {
    tt_costs_name collective;
    tt_costs_name algorithm;
    tt_costs_name placement;
    uint32_t rank_count;
} tt_cost_key;

typedef struct tt_cost {
    tt_cost_key key;
    uint64_t bytes_max; /* the line holds up to here; TT_COSTS_ANY_BYTES: without limit */
    uint64_t alpha_ns;
    uint64_t beta; /* ns per MiB */
} tt_cost;

/* Sorted by key, then by bytes_max. All zeros is the empty table. */
typedef struct tt_costs {
    uint32_t line_count;
    tt_cost lines[TT_COSTS_LINES_MAX];
} tt_costs;

/* Make a key of names; false if one is empty, too long, or not of letters, digits and dashes. */
bool tt_cost_key_make(tt_cost_key *key, const char *collective, const char *algorithm,
                      const char *placement, uint32_t rank_count);

/* Add a line, or replace the one with its key and bound. TT_ERR_NO_RESOURCE: the table is full. */
tt_status tt_costs_put(tt_costs *costs, const tt_cost *cost);

/* Does any line have this placement and number of ranks? */
bool tt_costs_cover(const tt_costs *costs, const char *placement, uint32_t rank_count);

/* False, and nothing written: no line holds for this key and size. */
bool tt_costs_time(const tt_costs *costs, const tt_cost_key *key, uint64_t bytes,
                   uint64_t *time_ns_out);

/* The same, but the key's last line also holds for all sizes beyond it: a guess. */
bool tt_costs_guess(const tt_costs *costs, const tt_cost_key *key, uint64_t bytes,
                    uint64_t *time_ns_out);

/* The line through two measured points, from which it holds up to `bytes_max`. */
tt_cost tt_cost_through(const tt_cost_key *key, const uint64_t bytes[2], const uint64_t time_ns[2],
                        uint64_t bytes_max);

/* `text` need not end in a zero. TT_ERR_BAD_CONFIG: `why` has the number of the first invalid line
 * and its error; the table is then empty. */
tt_status tt_costs_parse(const char *text, size_t text_bytes, tt_costs *costs_out, tt_text *why);

/* Bytes written, without a zero at the end. Room for TT_COSTS_TEXT_BYTES_MAX always suffices. */
size_t tt_costs_format(const tt_costs *costs, char text_out[TT_COSTS_TEXT_BYTES_MAX]);

#endif
