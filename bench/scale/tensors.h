/* SPDX-License-Identifier: Apache-2.0
 *
 * tensors.h - the tensors of ResNet50 with what a member claims of each.
 *
 * Layer:   bench.
 * Threads: pure.
 * Memory:  the caller's.
 */
#ifndef TUTTI_BENCH_SCALE_TENSORS_H
#define TUTTI_BENCH_SCALE_TENSORS_H

#include <string.h>

#include "bench/common/resnet50.h"

typedef struct bench_tensor {
    char name[RESNET50_NAME_BYTES];
    uint64_t claim[3]; /* kind, type, elements */
} bench_tensor;

static inline void make_tensors(bench_tensor tensors[RESNET50_TENSORS])
{
    resnet50_tensor all[RESNET50_TENSORS];
    resnet50_make(all);
    for (uint32_t i = 0; i < RESNET50_TENSORS; i++) {
        tensors[i] = (bench_tensor){.claim = {1, 7, all[i].elements}};
        memcpy(tensors[i].name, all[i].name, RESNET50_NAME_BYTES);
    }
}

#endif
