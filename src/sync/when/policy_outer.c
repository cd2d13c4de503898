/* SPDX-License-Identifier: Apache-2.0
 *
 * policy_outer.c - an outer optimizer over the mean of the ranks' deltas.
 *
 * Douillard et al., DiLoCo (2023); with fragments, delay and alpha: Streaming DiLoCo (2025). The
 * outer step is SGD with momentum as torch.optim.SGD makes it, without dampening; SlowMo (Wang et
 * al. 2020) and the plain mean are its cases.
 *
 * Planes: the anchor, and the outer momentum. */
#include "sync/when/when.h"

static tt_status check(const tt_when *when, const char *text, tt_text *why)
{
    const uint32_t period = when->periods[0].steps;
    if (period % when->fragments != 0) {
        tt_text_add(why, "policy %s: period=%u is no multiple of fragments=%u; use period=%u", text,
                    period, when->fragments, (period / when->fragments + 1) * when->fragments);
        return TT_ERR_BAD_ARGUMENT;
    }
    if (when->delay >= period / when->fragments) {
        tt_text_add(why,
                    "policy %s: delay=%u, but the next exchange begins after %u steps (period over "
                    "fragments); use delay=%u or less",
                    text, when->delay, period / when->fragments, period / when->fragments - 1);
        return TT_ERR_BAD_ARGUMENT;
    }
    if (when->alpha > 1.0) {
        tt_text_add(why, "policy %s: alpha is the share of the local model; use 0 to 1", text);
        return TT_ERR_BAD_ARGUMENT;
    }
    return TT_OK;
}

/* Both types, each in its own precision. */
#define DEFINE_LOOPS(real)                                                                       \
    static void give_##real(const tt_when_run *run)                                              \
    {                                                                                            \
        const real *values = run->values, *anchor = run->planes[0];                              \
        real *exchanged = run->exchanged;                                                        \
        for (size_t i = 0; i < run->count; i++) {                                                \
            exchanged[i] = anchor[i] - values[i];                                                \
        }                                                                                        \
    }                                                                                            \
    static void merge_##real(tt_when_run *run)                                                   \
    {                                                                                            \
        const real rate = (real)run->when->lr, mu = (real)run->when->momentum;                   \
        const real alpha = (real)run->when->alpha;                                               \
        const real *mean = run->exchanged;                                                       \
        real *values = run->values, *anchor = run->planes[0], *velocity = run->planes[1];        \
        double sum = 0.0;                                                                        \
        for (size_t i = 0; i < run->count; i++) {                                                \
            const double off = (double)(anchor[i] - values[i]) - (double)mean[i];                \
            sum += off * off;                                                                    \
            velocity[i] = mu * velocity[i] + mean[i];                                            \
            const real step = run->when->is_nesterov ? mean[i] + mu * velocity[i] : velocity[i]; \
            anchor[i] -= rate * step;                                                            \
            values[i] = run->when->alpha == 0.0                                                  \
                            ? anchor[i]                                                          \
                            : alpha * values[i] + ((real)1 - alpha) * anchor[i];                 \
        }                                                                                        \
        run->distance += sum;                                                                    \
    }

DEFINE_LOOPS(float)
DEFINE_LOOPS(double)

static void give(const tt_when_run *run)
{
    (run->dtype == TT_F32 ? give_float : give_double)(run);
}

static void merge(tt_when_run *run)
{
    (run->dtype == TT_F32 ? merge_float : merge_double)(run);
}

const tt_when_policy tt_when_outer = {
    .name = "outer",
    .quantity = TT_QUANTITY_DELTA,
    .plane_count = 2,
    .options = " period lr momentum nesterov fragments delay alpha ",
    .check = check,
    .give = give,
    .merge = merge,
};
