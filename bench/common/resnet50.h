/* SPDX-License-Identifier: Apache-2.0
 *
 * resnet50.h - the 161 tensors of ResNet50, by name and length, in the order of the model.
 *
 * Layer:   bench; knows no library.
 * Threads: pure.
 * Memory:  the caller's.
 */
#ifndef TUTTI_BENCH_COMMON_RESNET50_H
#define TUTTI_BENCH_COMMON_RESNET50_H

#include <stdint.h>
#include <stdio.h>

enum { RESNET50_TENSORS = 161, RESNET50_NAME_BYTES = 40 };

typedef struct resnet50_tensor {
    char name[RESNET50_NAME_BYTES];
    uint64_t elements;
} resnet50_tensor;

static inline resnet50_tensor *resnet50_add(resnet50_tensor *at, const char *layer,
                                            const char *part, uint64_t elements)
{
    (void)snprintf(at->name, sizeof(at->name), "%s.%s", layer, part);
    at->elements = elements;
    return at + 1;
}

/* A convolution without bias, and the two vectors of its normalisation. */
static inline resnet50_tensor *resnet50_add_layer(resnet50_tensor *at, const char *layer,
                                                  uint64_t weights, uint64_t channels)
{
    at = resnet50_add(at, layer, "conv", weights);
    at = resnet50_add(at, layer, "bn.weight", channels);
    return resnet50_add(at, layer, "bn.bias", channels);
}

static inline void resnet50_make(resnet50_tensor tensors[RESNET50_TENSORS])
{
    static const uint32_t blocks[4] = {3, 4, 6, 3};
    char layer[24];
    uint64_t in = 64;
    resnet50_tensor *at = resnet50_add_layer(tensors, "stem", UINT64_C(64) * 3 * 7 * 7, 64);
    for (uint32_t stage = 0; stage < 4; stage++) {
        const uint64_t width = UINT64_C(64) << stage, out = 4 * width;
        for (uint32_t block = 0; block < blocks[stage]; block++) {
            (void)snprintf(layer, sizeof(layer), "layer%u.%u.1", stage + 1, block);
            at = resnet50_add_layer(at, layer, in * width, width);
            (void)snprintf(layer, sizeof(layer), "layer%u.%u.2", stage + 1, block);
            at = resnet50_add_layer(at, layer, 9 * width * width, width);
            (void)snprintf(layer, sizeof(layer), "layer%u.%u.3", stage + 1, block);
            at = resnet50_add_layer(at, layer, width * out, out);
            if (block == 0) {
                (void)snprintf(layer, sizeof(layer), "layer%u.0.down", stage + 1);
                at = resnet50_add_layer(at, layer, in * out, out);
            }
            in = out;
        }
    }
    at = resnet50_add(at, "fc", "weight", in * 1000);
    (void)resnet50_add(at, "fc", "bias", 1000);
}

#endif
