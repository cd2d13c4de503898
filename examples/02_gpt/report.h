/* SPDX-License-Identifier: Apache-2.0
 *
 * report.h - messages of a run: a live line while it trains, and a report at the end. Rank 0 only.
 *
 * Layer:   example; does not communicate.
 * Threads: none.
 * Memory:  none.
 */
#ifndef GPT_REPORT_H
#define GPT_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "data.h"
#include "model.h"

typedef struct gpt_progress {
    size_t step;
    double loss;
    double characters_per_s; /* of all workers together */
    double wait_share;       /* of the workers' time, between 0 and 1 */
    double done;             /* between 0 and 1 */
    double left_s;
} gpt_progress;

/* On a terminal one line that is redrawn each time; elsewhere a line every few seconds. */
typedef struct gpt_reporter {
    bool is_terminal;
    double spoken_s; /* when the last plain line was printed */
} gpt_reporter;

void gpt_reporter_init(gpt_reporter *reporter);
void gpt_reporter_show(gpt_reporter *reporter, const gpt_progress *progress, double now_s);
void gpt_reporter_end(const gpt_reporter *reporter);

/* Print `count` characters that the model generates, drawn at temperature 0.8. */
void gpt_report_sample(gpt_model *model, const gpt_shape *shape, const gpt_text *text,
                       size_t count);
/* Print every rank's hash; true if all are equal. */
bool gpt_report_hashes(const uint64_t *hashes, int rank_count);

typedef struct gpt_speed {
    double characters_per_s; /* of all workers together; 0: unknown */
    double cores_busy;       /* processor time they got, by wall time */
} gpt_speed;

/* Compare the speed of `workers` workers with that of one `alone`. `cores`: of all hosts. */
void gpt_report_speed(const gpt_speed *together, const gpt_speed *alone, int workers, int cores);

#endif
