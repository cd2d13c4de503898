/* SPDX-License-Identifier: Apache-2.0
 *
 * network.h - dataflow graphs of well-known networks, generated from their descriptions.
 *
 * There are two kinds. Networks of TensorFlow's slim library have the branches of the published
 * ones, and batch normalisation without scale; times follow from multiplications and memory
 * traffic. Exact networks have every parameter of PyTorch's, under its name and in its order, and a
 * chain of operators in the order in which PyTorch runs them; times follow from multiplications.
 *
 * Times are those of a nominal accelerator: good for shapes and ratios. For predictions give the
 * rate of the real one (tt_network_config).
 *
 * Layer:   model; may include base/.
 * Threads: const tables, pure functions.
 * Memory:  the graph's.
 */
#ifndef TUTTI_MODEL_NETWORK_H
#define TUTTI_MODEL_NETWORK_H

#include "model/graph.h"

/* Of the nominal accelerator: 10 TFLOP/s. */
enum { TT_NETWORK_MACS_A_US = 5 * 1000 * 1000 };

typedef struct tt_network tt_network;
typedef struct tt_exact tt_exact; /* operators and parameters: exact/exact.h */
typedef void tt_network_family(const tt_network *network, tt_exact *exact);

struct tt_network {
    const char *name;
    uint32_t image_size;        /* 0: samples are texts of `tokens` */
    uint32_t batch;             /* samples of a rank in a step */
    uint32_t tensor_count;      /* as published, for the tests */
    double mib;                 /* of parameters, as published */
    uint32_t residual_units[4]; /* per block */

    /* Of the slim library: layers in the notation of network.c; NULL for residual networks. */
    const char *layers;
    uint32_t residual_version; /* 1 or 2: activation after or before the convolutions */

    /* Exact: what describes it, and the member of the family. NULL: of the slim library. */
    tt_network_family *family;
    uint32_t depth; /* layers of a Transformer, of its encoder and of its decoder */
    uint32_t width; /* of a Transformer; channels that a layer of a DenseNet adds */
    uint32_t tokens;
    bool is_fused;      /* query, key and value are one matrix */
    bool is_normalised; /* a DenseNet with batch normalisation */
};

/* How one rank runs a network. All zeros: as the network's row says. */
typedef struct tt_network_config {
    uint32_t batch;       /* samples in a step; 0: the network's */
    double samples_per_s; /* forward and backward, alone; 0: those of the nominal accelerator */
    bool is_forward;      /* the forward pass only */
} tt_network_config;

/* The index-th model, or NULL at the end; by name, or NULL. */
const tt_network *tt_network_at(size_t index);
const tt_network *tt_network_find(const char *name);

/* A training step, or its forward pass. TT_ERR_BAD_ARGUMENT: a step of that batch at that rate
 * lasts more than TT_WORKLOAD_US_MAX. The caller destroys. */
tt_status tt_network_load(const tt_network *network, const tt_network_config *config,
                          const tt_allocator *allocator, tt_text *why, tt_graph **graph_out);

/* The forward graph, sealed; tt_graph_differentiate makes it a training graph. The caller destroys.
 */
tt_status tt_network_build(const tt_network *model, const tt_allocator *allocator, tt_text *why,
                           tt_graph **graph_out);

#endif
