/* SPDX-License-Identifier: Apache-2.0
 *
 * picture.h - the loss curve and one step of every rank, as one SVG file.
 *
 * Layer:   example; uses the timelines of train.h, does not communicate.
 * Threads: none.
 * Memory:  everything is the caller's.
 */
#ifndef GPT_PICTURE_H
#define GPT_PICTURE_H

#include <stdbool.h>
#include <stddef.h>

#include "train.h"

typedef struct gpt_picture {
    const char *title;
    const char *subtitle;
    const double *losses; /* one per step */
    size_t loss_count;
    const gpt_timeline *timelines; /* one per rank; without spans: none was recorded */
    int rank_count;
    size_t segment_count;
} gpt_picture;

/* False after a message on stderr. */
bool gpt_picture_write(const gpt_picture *picture, const char *path);

#endif
