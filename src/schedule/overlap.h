/* SPDX-License-Identifier: Apache-2.0
 *
 * overlap.h - how much an order of sending can shorten a training step.
 *
 * Layer:   schedule; may include base/.
 * Threads: pure functions.
 * Memory:  none.
 */
#ifndef TUTTI_SCHEDULE_OVERLAP_H
#define TUTTI_SCHEDULE_OVERLAP_H

#include <stdbool.h>

/* By what fraction a plain step is longer than the best one, with a third of the computation in
 * forward: (F + max(B, B / 8 + N)) / max(F + B, N) - 1. Plain sums overlap with backward only, and
 * not from its start: gradients become ready one after the other. B / 8 fits measured steps of
 * VGG16, ResNet-50 and BERT-large at every rho (docs/performance.md). */
double tt_overlap_gain(double network_us, double compute_us);
/* Is the gain worth an order? From 1 % with an order, from 2 % without one, so that it does not
 * oscillate. */
bool tt_overlap_is_worth(double gain, bool has_order);

#endif
