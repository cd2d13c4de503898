/* SPDX-License-Identifier: Apache-2.0
 *
 * densenet.c - the fully convolutional DenseNet of STEMDL (Laanait et al., 2019), with the names
 * and the structure of its authors' generator, for images of 512x512 with 1024 channels.
 *
 * Down: a dense block, in which each convolution adds `width` channels to all that came before,
 * then a transition that halves the image. Up: the channels that the last block added are enlarged,
 * the result of the block at this size is appended, and a dense block follows. Enlarging is
 * computed on the larger image.
 *
 * The authors do not give the number of channels; they note 25 TFLOP for a width of 128. With 1024
 * channels the convolutions alone need 21.4 for a step of one image. */
#include "base/text.h"
#include "model/exact/exact.h"

enum {
    LEVELS = 3,
    KERNEL = 5,
    IMAGE_CHANNELS = 1024,
};

static const uint32_t block_layers[] = {2, 2, 3, 4, 3, 2, 2};
_Static_assert(sizeof(block_layers) / sizeof(block_layers[0]) == 2 * LEVELS + 1,
               "down, the bottleneck, up");

/* Batch normalisation is part of the layers of dense blocks alone, before the convolution. */
static void dense_block(const tt_network *network, tt_exact *exact, uint32_t block,
                        uint64_t channels, uint32_t size)
{
    for (uint32_t i = 0; i < block_layers[block]; i++) {
        tt_text name = {.length = 0};
        tt_text_add(&name, "DB_%u.conv_%u", block, i);
        if (network->is_normalised) {
            tt_text norm = {.length = 0};
            tt_text_add(&norm, "%s.batch_norm", name.bytes);
            tt_exact_norm_add(exact, norm.bytes, channels);
        }
        tt_exact_convolution_add(
            exact, name.bytes,
            &(tt_exact_convolution){channels, network->width, KERNEL, KERNEL, size}, false);
        channels += network->width;
    }
}

static void transition(tt_exact *exact, const char *before, uint32_t index, const char *after,
                       tt_exact_convolution convolution)
{
    tt_text name = {.length = 0};
    tt_text_add(&name, "%s%u%s", before, index, after);
    tt_exact_convolution_add(exact, name.bytes, &convolution, false);
}

void tt_exact_fc_densenet(const tt_network *network, tt_exact *exact)
{
    const uint64_t width = network->width;
    uint32_t size = network->image_size;
    uint64_t channels = width;
    uint64_t kept[LEVELS];
    tt_exact_convolution_add(exact, "CONV_INIT",
                             &(tt_exact_convolution){IMAGE_CHANNELS, width, KERNEL, KERNEL, size},
                             false);
    for (uint32_t i = 0; i < LEVELS; i++) {
        dense_block(network, exact, i, channels, size);
        channels += block_layers[i] * width;
        kept[i] = channels;
        transition(exact, "TD_", i, ".conv",
                   (tt_exact_convolution){channels, channels, 1, 1, size});
        size /= 2;
    }
    dense_block(network, exact, LEVELS, channels, size);
    for (uint32_t i = 0; i < LEVELS; i++) {
        const uint64_t added = block_layers[LEVELS + i] * width;
        size *= 2;
        transition(exact, "TU_", i, ".deconv", (tt_exact_convolution){added, added, 1, 1, size});
        channels = added + kept[LEVELS - 1 - i];
        dense_block(network, exact, LEVELS + 1 + i, channels, size);
        channels += block_layers[LEVELS + 1 + i] * width;
    }
    tt_exact_convolution_add(exact, "CONV_FIN", &(tt_exact_convolution){channels, 1, 1, 1, size},
                             true);
}
