/* SPDX-License-Identifier: Apache-2.0
 *
 * inception.c - Inception-v3 (Szegedy et al., 2016), as torchvision trains it: with the auxiliary
 * classifier.
 *
 * A module is a list of convolutions. Each takes the value that enters the module or the result of
 * another row; rows whose result no other row takes make up the result of the module. */
#include "base/assert.h"
#include "base/base.h"
#include "base/text.h"
#include "model/exact/exact.h"

enum {
    ENTRY = -1, /* the value that enters the module */
    WIDTH = 0,  /* as many channels as the module's width */
    ROWS_MAX = 10,
    CLASSES = 1000,
};

typedef struct inception_row {
    const char *name;
    int from; /* a row, or ENTRY */
    uint32_t channels;
    uint32_t kernel_height;
    uint32_t kernel_width;
    bool halves; /* stride 2, no padding */
} inception_row;

static const inception_row module_a[] = {
    {"branch1x1", ENTRY, 64, 1, 1, false},      /* 0 */
    {"branch5x5_1", ENTRY, 48, 1, 1, false},    /* 1 */
    {"branch5x5_2", 1, 64, 5, 5, false},        /* 2 */
    {"branch3x3dbl_1", ENTRY, 64, 1, 1, false}, /* 3 */
    {"branch3x3dbl_2", 3, 96, 3, 3, false},     /* 4 */
    {"branch3x3dbl_3", 4, 96, 3, 3, false},     /* 5 */
    {"branch_pool", ENTRY, WIDTH, 1, 1, false}, /* 6 */
    {NULL, ENTRY, 0, 0, 0, false},
};
static const inception_row module_b[] = {
    {"branch3x3", ENTRY, 384, 3, 3, true},      /* 0 */
    {"branch3x3dbl_1", ENTRY, 64, 1, 1, false}, /* 1 */
    {"branch3x3dbl_2", 1, 96, 3, 3, false},     /* 2 */
    {"branch3x3dbl_3", 2, 96, 3, 3, true},      /* 3 */
    {NULL, ENTRY, 0, 0, 0, false},
};
static const inception_row module_c[] = {
    {"branch1x1", ENTRY, 192, 1, 1, false},        /* 0 */
    {"branch7x7_1", ENTRY, WIDTH, 1, 1, false},    /* 1 */
    {"branch7x7_2", 1, WIDTH, 1, 7, false},        /* 2 */
    {"branch7x7_3", 2, 192, 7, 1, false},          /* 3 */
    {"branch7x7dbl_1", ENTRY, WIDTH, 1, 1, false}, /* 4 */
    {"branch7x7dbl_2", 4, WIDTH, 7, 1, false},     /* 5 */
    {"branch7x7dbl_3", 5, WIDTH, 1, 7, false},     /* 6 */
    {"branch7x7dbl_4", 6, WIDTH, 7, 1, false},     /* 7 */
    {"branch7x7dbl_5", 7, 192, 1, 7, false},       /* 8 */
    {"branch_pool", ENTRY, 192, 1, 1, false},      /* 9 */
    {NULL, ENTRY, 0, 0, 0, false},
};
static const inception_row module_d[] = {
    {"branch3x3_1", ENTRY, 192, 1, 1, false},   /* 0 */
    {"branch3x3_2", 0, 320, 3, 3, true},        /* 1 */
    {"branch7x7x3_1", ENTRY, 192, 1, 1, false}, /* 2 */
    {"branch7x7x3_2", 2, 192, 1, 7, false},     /* 3 */
    {"branch7x7x3_3", 3, 192, 7, 1, false},     /* 4 */
    {"branch7x7x3_4", 4, 192, 3, 3, true},      /* 5 */
    {NULL, ENTRY, 0, 0, 0, false},
};
static const inception_row module_e[] = {
    {"branch1x1", ENTRY, 320, 1, 1, false},      /* 0 */
    {"branch3x3_1", ENTRY, 384, 1, 1, false},    /* 1 */
    {"branch3x3_2a", 1, 384, 1, 3, false},       /* 2 */
    {"branch3x3_2b", 1, 384, 3, 1, false},       /* 3 */
    {"branch3x3dbl_1", ENTRY, 448, 1, 1, false}, /* 4 */
    {"branch3x3dbl_2", 4, 384, 3, 3, false},     /* 5 */
    {"branch3x3dbl_3a", 5, 384, 1, 3, false},    /* 6 */
    {"branch3x3dbl_3b", 5, 384, 3, 1, false},    /* 7 */
    {"branch_pool", ENTRY, 192, 1, 1, false},    /* 8 */
    {NULL, ENTRY, 0, 0, 0, false},
};

static const struct {
    const char *name;
    const inception_row *rows; /* the last has no name */
    uint32_t width;
    bool is_reduction;  /* its result also has the channels that enter it, pooled */
    bool has_auxiliary; /* the auxiliary classifier takes its result */
} modules[] = {
    {"Mixed_5b", module_a, 32, false, false},  {"Mixed_5c", module_a, 64, false, false},
    {"Mixed_5d", module_a, 64, false, false},  {"Mixed_6a", module_b, 0, true, false},
    {"Mixed_6b", module_c, 128, false, false}, {"Mixed_6c", module_c, 160, false, false},
    {"Mixed_6d", module_c, 160, false, false}, {"Mixed_6e", module_c, 192, false, true},
    {"Mixed_7a", module_d, 0, true, false},    {"Mixed_7b", module_e, 0, false, false},
    {"Mixed_7c", module_e, 0, false, false},
};

static void basic(tt_exact *exact, const char *module, const char *name,
                  tt_exact_convolution convolution)
{
    tt_text text = {.length = 0};
    tt_text_add(&text, "%s%s.conv", module, name);
    tt_exact_convolution_add(exact, text.bytes, &convolution, false);
    tt_text_clear(&text);
    tt_text_add(&text, "%s%s.bn", module, name);
    tt_exact_norm_add(exact, text.bytes, convolution.outputs);
}

static uint32_t half(uint32_t size)
{
    return (size - 3) / 2 + 1;
}

static void module_add(tt_exact *exact, size_t module, uint64_t *channels_io, uint32_t size)
{
    const inception_row *rows = modules[module].rows;
    uint64_t channels[ROWS_MAX];
    bool is_end[ROWS_MAX];
    tt_text prefix = {.length = 0};
    tt_text_add(&prefix, "%s.", modules[module].name);
    size_t count = 0;
    for (size_t i = 0; rows[i].name != NULL; i++) {
        TT_ASSERT(i < ROWS_MAX);
        const inception_row *row = &rows[i];
        count++;
        const uint64_t inputs = row->from == ENTRY ? *channels_io : channels[row->from];
        channels[i] = row->channels == WIDTH ? modules[module].width : row->channels;
        is_end[i] = true;
        if (row->from != ENTRY) {
            is_end[row->from] = false;
        }
        basic(exact, prefix.bytes, row->name,
              (tt_exact_convolution){inputs, channels[i], row->kernel_height, row->kernel_width,
                                     row->halves ? half(size) : size});
    }
    uint64_t result = modules[module].is_reduction ? *channels_io : 0;
    for (size_t i = 0; i < count; i++) {
        result += is_end[i] ? channels[i] : 0;
    }
    *channels_io = result;
}

void tt_exact_inception(const tt_network *network, tt_exact *exact)
{
    const uint32_t half_size = half(network->image_size);
    const uint32_t pooled = half(half_size - 2);
    uint32_t size = half(pooled - 2);
    uint64_t channels = 192;
    basic(exact, "", "Conv2d_1a_3x3", (tt_exact_convolution){3, 32, 3, 3, half_size});
    basic(exact, "", "Conv2d_2a_3x3", (tt_exact_convolution){32, 32, 3, 3, half_size - 2});
    basic(exact, "", "Conv2d_2b_3x3", (tt_exact_convolution){32, 64, 3, 3, half_size - 2});
    basic(exact, "", "Conv2d_3b_1x1", (tt_exact_convolution){64, 80, 1, 1, pooled});
    basic(exact, "", "Conv2d_4a_3x3", (tt_exact_convolution){80, 192, 3, 3, pooled - 2});
    for (size_t i = 0; i < TT_ARRAY_COUNT(modules); i++) {
        module_add(exact, i, &channels, size);
        size = modules[i].is_reduction ? half(size) : size;
        if (modules[i].has_auxiliary) {
            basic(exact, "AuxLogits.", "conv0", (tt_exact_convolution){channels, 128, 1, 1, 5});
            basic(exact, "AuxLogits.", "conv1", (tt_exact_convolution){128, 768, 5, 5, 1});
            tt_exact_linear_add(exact, "AuxLogits.fc", &(tt_exact_linear){768, CLASSES, 1});
        }
    }
    tt_exact_linear_add(exact, "fc", &(tt_exact_linear){channels, CLASSES, 1});
}
