/* SPDX-License-Identifier: Apache-2.0
 *
 * overlap.h - what an order of sending can gain a training step.
 *
 * Layer:   schedule; may include base/.
 * Threads: pure functions.
 * Memory:  none.
 */
#ifndef TUTTI_SCHEDULE_OVERLAP_H
#define TUTTI_SCHEDULE_OVERLAP_H

#include <stdbool.h>

/* By what part a plain step is longer than the best one, with a third of the computation in
 * forward: (F + max(B, B / 8 + N)) / max(F + B, N) - 1. Plain sums run under backward alone, and
 * not from its begin: gradients come one after the other. An eighth is what measured steps of
 * VGG16, ResNet-50 and BERT-large come to at every rho (docs/performance.md). */
double tt_overlap_gain(double network_us, double compute_us);
/* Is that worth an order? From 1 %; once without, from 2 %, so that it does not swing. */
bool tt_overlap_is_worth(double gain, bool has_order);

#endif
