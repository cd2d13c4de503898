/* SPDX-License-Identifier: Apache-2.0
 *
 * networks.c - the networks. The notation is explained in network.c; families are in exact/. */
#include <string.h>

#include "base/base.h"
#include "model/exact/exact.h"

/* Blocks that repeat with other widths are macros over string literals: a table of text. */
#define INCEPTION_A(pool) "[ c1-64 | c1-48 c5-64 | c1-64 c3-96 c3-96 | a3 c1-" pool " ] "
#define INCEPTION_B(width)                                                                      \
    "[ c1-192 | c1-" width " c1x7-" width " c7x1-192 | c1-" width " c7x1-" width " c1x7-" width \
    " c7x1-" width " c1x7-192 | a3 c1-192 ] "
#define INCEPTION_C                                                                           \
    "[ c1-320 | c1-384 [ c1x3-384 | c3x1-384 ] | c1-448 c3-384 [ c1x3-384 | c3x1-384 ] | a3 " \
    "c1-192 ] "

static const tt_network models[] = {
    {.name = "alexnet-v2",
     .image_size = 224,
     .batch = 512,
     .tensor_count = 16,
     .mib = 191.89,
     .layers = "b11-64/4v m3/2v b5-192 m3/2v b3-384 b3-384 b3-256 m3/2v b5-4096v b1-4096 l1000"},
    {.name = "inception-v1",
     .image_size = 224,
     .batch = 128,
     .tensor_count = 116,
     .mib = 25.24,
     .layers = "c7-64/2 m3/2 c1-64 c3-192 m3/2 "
               "[ c1-64 | c1-96 c3-128 | c1-16 c3-32 | m3 c1-32 ] "
               "[ c1-128 | c1-128 c3-192 | c1-32 c3-96 | m3 c1-64 ] m3/2 "
               "[ c1-192 | c1-96 c3-208 | c1-16 c3-48 | m3 c1-64 ] "
               "[ c1-160 | c1-112 c3-224 | c1-24 c3-64 | m3 c1-64 ] "
               "[ c1-128 | c1-128 c3-256 | c1-24 c3-64 | m3 c1-64 ] "
               "[ c1-112 | c1-144 c3-288 | c1-32 c3-64 | m3 c1-64 ] "
               "[ c1-256 | c1-160 c3-320 | c1-32 c3-128 | m3 c1-128 ] m2/2 "
               "[ c1-256 | c1-160 c3-320 | c1-32 c3-128 | m3 c1-128 ] "
               "[ c1-384 | c1-192 c3-384 | c1-48 c3-128 | m3 c1-128 ] g l1001"},
    {.name = "inception-v2",
     .image_size = 224,
     .batch = 128,
     .tensor_count = 141,
     .mib = 42.64,
     .layers = "s7-64/2 m3/2 c1-64 c3-192 m3/2 "
               "[ c1-64 | c1-64 c3-64 | c1-64 c3-96 c3-96 | a3 c1-32 ] "
               "[ c1-64 | c1-64 c3-96 | c1-64 c3-96 c3-96 | a3 c1-64 ] "
               "[ c1-128 c3-160/2 | c1-64 c3-96 c3-96/2 | m3/2 ] "
               "[ c1-224 | c1-64 c3-96 | c1-96 c3-128 c3-128 | a3 c1-128 ] "
               "[ c1-192 | c1-96 c3-128 | c1-96 c3-128 c3-128 | a3 c1-128 ] "
               "[ c1-160 | c1-128 c3-160 | c1-128 c3-160 c3-160 | a3 c1-96 ] "
               "[ c1-96 | c1-128 c3-192 | c1-160 c3-192 c3-192 | a3 c1-96 ] "
               "[ c1-128 c3-192/2 | c1-192 c3-256 c3-256/2 | m3/2 ] "
               "[ c1-352 | c1-192 c3-320 | c1-160 c3-224 c3-224 | a3 c1-128 ] "
               "[ c1-352 | c1-192 c3-320 | c1-192 c3-224 c3-224 | m3 c1-128 ] g l1001"},
    {.name = "inception-v3",
     .image_size = 299,
     .batch = 32,
     .tensor_count = 196,
     .mib = 103.54,
     .layers = "c3-32/2v c3-32v c3-64 m3/2v c1-80v c3-192v m3/2v " INCEPTION_A("32") INCEPTION_A(
         "64") INCEPTION_A("64") "[ c3-384/2v | c1-64 c3-96 c3-96/2v | m3/2v ] " INCEPTION_B("128")
         INCEPTION_B("160") INCEPTION_B("160") INCEPTION_B(
             "192") "{ a5/3v c1-128 c5-768v l1001 } "
                    "[ c1-192 c3-320/2v | c1-192 c1x7-192 c7x1-192 c3-192/2v | m3/2v ] " INCEPTION_C
                        INCEPTION_C "g l1001"},
    {.name = "resnet50-v1",
     .image_size = 224,
     .batch = 32,
     .tensor_count = 108,
     .mib = 97.39,
     .residual_units = {3, 4, 6, 3},
     .residual_version = 1},
    {.name = "resnet101-v1",
     .image_size = 224,
     .batch = 64,
     .tensor_count = 210,
     .mib = 169.74,
     .residual_units = {3, 4, 23, 3},
     .residual_version = 1},
    {.name = "resnet50-v2",
     .image_size = 224,
     .batch = 64,
     .tensor_count = 125,
     .mib = 97.45,
     .residual_units = {3, 4, 6, 3},
     .residual_version = 2},
    {.name = "resnet101-v2",
     .image_size = 224,
     .batch = 32,
     .tensor_count = 244,
     .mib = 169.86,
     .residual_units = {3, 4, 23, 3},
     .residual_version = 2},
    {.name = "vgg16",
     .image_size = 224,
     .batch = 32,
     .tensor_count = 32,
     .mib = 527.79,
     .layers = "b3-64 b3-64 m2/2 b3-128 b3-128 m2/2 b3-256 b3-256 b3-256 m2/2 b3-512 b3-512 b3-512 "
               "m2/2 b3-512 b3-512 b3-512 m2/2 b7-4096v b1-4096 l1000"},
    {.name = "vgg19",
     .image_size = 224,
     .batch = 32,
     .tensor_count = 38,
     .mib = 548.05,
     .layers = "b3-64 b3-64 m2/2 b3-128 b3-128 m2/2 b3-256 b3-256 b3-256 b3-256 m2/2 "
               "b3-512 b3-512 b3-512 b3-512 m2/2 b3-512 b3-512 b3-512 b3-512 m2/2 "
               "b7-4096v b1-4096 l1000"},

    /* Exact. */
    {.name = "resnet50",
     .image_size = 224,
     .batch = 128,
     .tensor_count = 161,
     .mib = 97.49,
     .family = tt_exact_residual,
     .residual_units = {3, 4, 6, 3}},
    {.name = "resnet101",
     .image_size = 224,
     .batch = 128,
     .tensor_count = 314,
     .mib = 169.94,
     .family = tt_exact_residual,
     .residual_units = {3, 4, 23, 3}},
    {.name = "resnet152",
     .image_size = 224,
     .batch = 64,
     .tensor_count = 467,
     .mib = 229.62,
     .family = tt_exact_residual,
     .residual_units = {3, 8, 36, 3}},
    {.name = "inception3",
     .image_size = 299,
     .batch = 64,
     .tensor_count = 292,
     .mib = 103.61,
     .family = tt_exact_inception},
    {.name = "alexnet",
     .image_size = 224,
     .batch = 512,
     .tensor_count = 16,
     .mib = 233.08,
     .family = tt_exact_alexnet},
    {.name = "bert-base",
     .batch = 64,
     .tensor_count = 206,
     .mib = 420.02,
     .family = tt_exact_bert,
     .depth = 12,
     .width = 768,
     .tokens = 128},
    {.name = "bert-large",
     .batch = 32,
     .tensor_count = 398,
     .mib = 1282.60,
     .family = tt_exact_bert,
     .depth = 24,
     .width = 1024,
     .tokens = 128},
    {.name = "gpt2",
     .batch = 8,
     .tensor_count = 148,
     .mib = 474.70,
     .family = tt_exact_gpt2,
     .depth = 12,
     .width = 768,
     .tokens = 1024},
    {.name = "gpt2-medium",
     .batch = 4,
     .tensor_count = 292,
     .mib = 1353.54,
     .family = tt_exact_gpt2,
     .depth = 24,
     .width = 1024,
     .tokens = 1024},
    {.name = "transformer-base",
     .batch = 64,
     .tensor_count = 253,
     .mib = 240.64,
     .family = tt_exact_translator,
     .depth = 6,
     .width = 512,
     .tokens = 64},
    {.name = "transformer-base-fused",
     .batch = 64,
     .tensor_count = 181,
     .mib = 240.64,
     .family = tt_exact_translator,
     .depth = 6,
     .width = 512,
     .tokens = 64,
     .is_fused = true},
    {.name = "transformer-big",
     .batch = 64,
     .tensor_count = 253,
     .mib = 817.28,
     .family = tt_exact_translator,
     .depth = 6,
     .width = 1024,
     .tokens = 64},
    {.name = "transformer-big-fused",
     .batch = 64,
     .tensor_count = 181,
     .mib = 817.28,
     .family = tt_exact_translator,
     .depth = 6,
     .width = 1024,
     .tokens = 64,
     .is_fused = true},
    {.name = "fcdensenet-128",
     .image_size = 512,
     .batch = 1,
     .tensor_count = 27,
     .mib = 228.25,
     .family = tt_exact_fc_densenet,
     .width = 128},
    {.name = "fcdensenet-128-bn",
     .image_size = 512,
     .batch = 1,
     .tensor_count = 63,
     .mib = 228.38,
     .family = tt_exact_fc_densenet,
     .width = 128,
     .is_normalised = true},
    {.name = "fcdensenet-256",
     .image_size = 512,
     .batch = 1,
     .tensor_count = 27,
     .mib = 888.01,
     .family = tt_exact_fc_densenet,
     .width = 256},
    {.name = "fcdensenet-256-bn",
     .image_size = 512,
     .batch = 1,
     .tensor_count = 63,
     .mib = 888.27,
     .family = tt_exact_fc_densenet,
     .width = 256,
     .is_normalised = true},
};

const tt_network *tt_network_at(size_t index)
{
    return index < TT_ARRAY_COUNT(models) ? &models[index] : NULL;
}

const tt_network *tt_network_find(const char *name)
{
    for (size_t i = 0; i < TT_ARRAY_COUNT(models); i++) {
        if (strcmp(models[i].name, name) == 0) {
            return &models[i];
        }
    }
    return NULL;
}
