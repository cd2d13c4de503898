/* SPDX-License-Identifier: Apache-2.0
 *
 * network.h - dataflow graphs of well-known networks, generated from their descriptions.
 *
 * Layers, sizes and numbers of parameters are those of the published networks (as TensorFlow's slim
 * library defines them, batch normalisation without scale). Times follow from multiplications and
 * memory traffic on a nominal accelerator: good for shapes and ratios, not for predictions.
 *
 * Layer:   model; may include base/.
 * Threads: const tables, pure functions.
 * Memory:  the graph's.
 */
#ifndef TUTTI_MODEL_NETWORK_H
#define TUTTI_MODEL_NETWORK_H

#include "model/graph.h"

typedef struct tt_network {
    const char *name;
    uint32_t image_size;
    uint32_t batch;
    uint32_t tensor_count; /* as published, for the tests */
    double mib;            /* of parameters, as published */
    /* Layers in the notation of network.c; NULL for residual networks. */
    const char *layers;
    uint32_t residual_units[4]; /* per block */
    uint32_t residual_version;  /* 1 or 2: activation after or before the convolutions */
} tt_network;

/* The index-th model, or NULL at the end; by name, or NULL. */
const tt_network *tt_network_at(size_t index);
const tt_network *tt_network_find(const char *name);

/* The forward graph, sealed; tt_graph_differentiate makes it a training graph. The caller destroys.
 */
tt_status tt_network_build(const tt_network *model, const tt_allocator *allocator, tt_text *why,
                           tt_graph **graph_out);

#endif
