/* SPDX-License-Identifier: Apache-2.0
 *
 * overlap.c - see overlap.h. */
#include "schedule/overlap.h"

#include <math.h>

double tt_overlap_gain(double network_us, double compute_us)
{
    const double forward_us = compute_us / 3, backward_us = compute_us - forward_us;
    const double plain_us = forward_us + fmax(backward_us, backward_us / 8 + network_us);
    const double best_us = fmax(compute_us, network_us);
    return best_us > 0 ? plain_us / best_us - 1 : 0;
}

bool tt_overlap_is_worth(double gain, bool has_order)
{
    return gain >= (has_order ? 0.01 : 0.02);
}
