/* SPDX-License-Identifier: Apache-2.0
 *
 * alexnet.c - AlexNet (Krizhevsky, 2014), as torchvision defines it. */
#include "base/base.h"
#include "base/text.h"
#include "model/exact/exact.h"

void tt_exact_alexnet(const tt_network *network, tt_exact *exact)
{
    /* Names are places in two lists of modules, of which some have no parameters. */
    static const struct {
        const char *name;
        tt_exact_convolution convolution;
    } convolutions[] = {{"features.0", {3, 64, 11, 11, 55}},
                        {"features.3", {64, 192, 5, 5, 27}},
                        {"features.6", {192, 384, 3, 3, 13}},
                        {"features.8", {384, 256, 3, 3, 13}},
                        {"features.10", {256, 256, 3, 3, 13}}};
    (void)network;
    for (size_t i = 0; i < TT_ARRAY_COUNT(convolutions); i++) {
        tt_exact_convolution_add(exact, convolutions[i].name, &convolutions[i].convolution, true);
    }
    tt_exact_linear_add(exact, "classifier.1", &(tt_exact_linear){256 * 6 * 6, 4096, 1});
    tt_exact_linear_add(exact, "classifier.4", &(tt_exact_linear){4096, 4096, 1});
    tt_exact_linear_add(exact, "classifier.6", &(tt_exact_linear){4096, 1000, 1});
}
