/* SPDX-License-Identifier: Apache-2.0
 *
 * residual.c - ResNet with bottleneck units (He et al., 2016), as torchvision defines it: version
 * 1.5, which has the stride in the convolution of 3x3. */
#include "base/text.h"
#include "model/exact/exact.h"

enum { STAGES = 4, CLASSES = 1000 };

typedef struct residual_state {
    tt_exact *exact;
    const char *unit;  /* "layer1.0." */
    uint64_t channels; /* of the value that enters the unit */
    uint32_t size;     /* its height and width */
} residual_state;

static void normalised(tt_exact *exact, const char *unit, const char *const names[2],
                       tt_exact_convolution convolution)
{
    tt_text name = {.length = 0};
    tt_text_add(&name, "%s%s", unit, names[0]);
    tt_exact_convolution_add(exact, name.bytes, &convolution, false);
    tt_text_clear(&name);
    tt_text_add(&name, "%s%s", unit, names[1]);
    tt_exact_norm_add(exact, name.bytes, convolution.outputs);
}

static void bottleneck(residual_state *state, uint64_t width, uint32_t stride)
{
    static const char *const names[][2] = {
        {"conv1", "bn1"}, {"conv2", "bn2"}, {"conv3", "bn3"}, {"downsample.0", "downsample.1"}};
    tt_exact *exact = state->exact;
    const uint64_t channels = state->channels, wide = 4 * width;
    const uint32_t size = state->size / stride;
    normalised(exact, state->unit, names[0],
               (tt_exact_convolution){channels, width, 1, 1, state->size});
    normalised(exact, state->unit, names[1], (tt_exact_convolution){width, width, 3, 3, size});
    normalised(exact, state->unit, names[2], (tt_exact_convolution){width, wide, 1, 1, size});
    if (channels != wide) {
        normalised(exact, state->unit, names[3],
                   (tt_exact_convolution){channels, wide, 1, 1, size});
    }
    state->channels = wide;
    state->size = size;
}

void tt_exact_residual(const tt_network *network, tt_exact *exact)
{
    static const char *const stem[2] = {"conv1", "bn1"};
    const uint32_t size = network->image_size;
    residual_state state = {.exact = exact, .channels = 64, .size = size / 4};
    normalised(exact, "", stem, (tt_exact_convolution){3, 64, 7, 7, size / 2});
    for (uint32_t stage = 0; stage < STAGES; stage++) {
        for (uint32_t unit = 0; unit < network->residual_units[stage]; unit++) {
            tt_text name = {.length = 0};
            tt_text_add(&name, "layer%u.%u.", stage + 1, unit);
            state.unit = name.bytes;
            bottleneck(&state, UINT64_C(64) << stage, stage > 0 && unit == 0 ? 2 : 1);
        }
    }
    tt_exact_linear_add(exact, "fc", &(tt_exact_linear){state.channels, CLASSES, 1});
}
