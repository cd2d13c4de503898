/* SPDX-License-Identifier: Apache-2.0
 *
 * resnet50.h - the 161 tensors of ResNet50, by name and length, in the order of the model.
 *
 * Layer:   bench.
 * Threads: pure.
 * Memory:  the caller's.
 */
#ifndef TUTTI_BENCH_RESNET50_H
#define TUTTI_BENCH_RESNET50_H

#include <stdint.h>
#include <stdio.h>

#include "base/assert.h"

enum { RESNET50_TENSORS = 161, RESNET50_NAME_BYTES = 40 };

typedef struct bench_tensor {
    char name[RESNET50_NAME_BYTES];
    uint64_t claim[3]; /* kind, type, elements */
} bench_tensor;

static uint32_t add_tensor(bench_tensor *tensors, uint32_t at, const char *name, uint64_t elements)
{
    snprintf(tensors[at].name, RESNET50_NAME_BYTES, "%s", name);
    tensors[at].claim[0] = 1;
    tensors[at].claim[1] = 7;
    tensors[at].claim[2] = elements;
    return at + 1;
}

/* A convolution and the two vectors of its normalisation. */
static uint32_t add_layer(bench_tensor *tensors, uint32_t at, const char *prefix, uint64_t in,
                          uint64_t out_and_window)
{
    char name[RESNET50_NAME_BYTES];
    const uint64_t out = out_and_window >> 8, window = out_and_window & 255;
    snprintf(name, sizeof(name), "%s.conv", prefix);
    at = add_tensor(tensors, at, name, in * out * window * window);
    snprintf(name, sizeof(name), "%s.bn.weight", prefix);
    at = add_tensor(tensors, at, name, out);
    snprintf(name, sizeof(name), "%s.bn.bias", prefix);
    return add_tensor(tensors, at, name, out);
}

static void make_resnet50(bench_tensor *tensors)
{
    static const uint32_t blocks[4] = {3, 4, 6, 3};
    char name[RESNET50_NAME_BYTES];
    uint64_t in = 64;
    uint32_t at = add_layer(tensors, 0, "stem", 3, 64 << 8 | 7);
    for (uint32_t stage = 0; stage < 4; stage++) {
        const uint64_t width = UINT64_C(64) << stage;
        for (uint32_t block = 0; block < blocks[stage]; block++) {
            snprintf(name, sizeof(name), "layer%u.%u.1", stage + 1, block);
            at = add_layer(tensors, at, name, in, width << 8 | 1);
            snprintf(name, sizeof(name), "layer%u.%u.2", stage + 1, block);
            at = add_layer(tensors, at, name, width, width << 8 | 3);
            snprintf(name, sizeof(name), "layer%u.%u.3", stage + 1, block);
            at = add_layer(tensors, at, name, width, 4 * width << 8 | 1);
            if (block == 0) {
                snprintf(name, sizeof(name), "layer%u.0.down", stage + 1);
                at = add_layer(tensors, at, name, in, 4 * width << 8 | 1);
            }
            in = 4 * width;
        }
    }
    at = add_tensor(tensors, at, "fc.weight", 2048 * 1000);
    at = add_tensor(tensors, at, "fc.bias", 1000);
    TT_ASSERT(at == RESNET50_TENSORS);
}

#endif
