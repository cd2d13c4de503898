/* SPDX-License-Identifier: Apache-2.0
 *
 * exact.h - networks as frameworks train them: every parameter under its name, every operator with
 * its multiplications.
 *
 * A family describes its networks by two calls: tt_exact_op_add adds an operator, in the order in
 * which a framework runs them; tt_exact_tensor_add adds a parameter, in the order of the
 * framework's parameters(). Both orders matter: gradients become ready in the reverse of the first,
 * buckets and bit vectors are formed by the second.
 *
 * Layer:   model; private to the networks. May include base/.
 * Threads: one at a time.
 * Memory:  the caller's; nothing is allocated.
 */
#ifndef TUTTI_MODEL_EXACT_EXACT_H
#define TUTTI_MODEL_EXACT_EXACT_H

#include <stdbool.h>
#include <stdint.h>

#include "model/network.h"

enum {
    TT_EXACT_OPS_MAX = 1024,
    TT_EXACT_TENSORS_MAX = 512,
    TT_EXACT_NAME_BYTES = 80,
};

typedef struct tt_exact_op {
    double macs;     /* multiplications with addition for one sample, forward */
    bool is_product; /* of two results, not of a result and a parameter of its own */
} tt_exact_op;

typedef struct tt_exact_tensor {
    char name[TT_EXACT_NAME_BYTES];
    uint64_t elements;
    uint32_t op; /* that uses it, and whose backward makes its gradient */
} tt_exact_tensor;

typedef struct tt_exact {
    tt_exact_op ops[TT_EXACT_OPS_MAX];
    uint32_t op_count;
    tt_exact_tensor tensors[TT_EXACT_TENSORS_MAX];
    uint32_t tensor_count;
} tt_exact;

/* An operator with parameters, and a product of two results. Both return its place. */
uint32_t tt_exact_op_add(tt_exact *exact, double macs);
uint32_t tt_exact_product_add(tt_exact *exact, double macs);

/* "NAME.PART". Returns its place among the tensors. */
uint32_t tt_exact_tensor_add(tt_exact *exact, const char *name, const char *part, uint64_t elements,
                             uint32_t op);

/* NAME.weight and NAME.bias of `width` elements: a normalisation. The second form takes an operator
 * that is there already, for parameters that are registered after later operators. */
void tt_exact_norm_add(tt_exact *exact, const char *name, uint64_t width);
void tt_exact_norm_register(tt_exact *exact, const char *name, uint64_t width, uint32_t op);

/* A matrix and a bias, applied to `positions` rows of a sample. */
typedef struct tt_exact_linear {
    uint64_t inputs;
    uint64_t outputs;
    uint64_t positions;
} tt_exact_linear;

void tt_exact_linear_add(tt_exact *exact, const char *name, const tt_exact_linear *linear);
/* The same under other names than NAME.weight and NAME.bias, which are given whole. */
void tt_exact_linear_add_as(tt_exact *exact, const char *weight, const char *bias,
                            const tt_exact_linear *linear);

typedef struct tt_exact_convolution {
    uint64_t inputs; /* channels */
    uint64_t outputs;
    uint32_t kernel_height;
    uint32_t kernel_width;
    uint32_t size; /* height and width of the result */
} tt_exact_convolution;

void tt_exact_convolution_add(tt_exact *exact, const char *name,
                              const tt_exact_convolution *convolution, bool has_bias);

/* The families; `network` selects the member. */
void tt_exact_residual(const tt_network *network, tt_exact *exact);
void tt_exact_inception(const tt_network *network, tt_exact *exact);
void tt_exact_alexnet(const tt_network *network, tt_exact *exact);
void tt_exact_bert(const tt_network *network, tt_exact *exact);
void tt_exact_gpt2(const tt_network *network, tt_exact *exact);
void tt_exact_translator(const tt_network *network, tt_exact *exact);
void tt_exact_fc_densenet(const tt_network *network, tt_exact *exact);

/* The forward graph of such a network, sealed: a chain of its operators. The caller destroys. */
tt_status tt_exact_build(const tt_network *network, const tt_allocator *allocator, tt_text *why,
                         tt_graph **graph_out);

#endif
