/* SPDX-License-Identifier: Apache-2.0
 *
 * kernel_plain.c - the loops of codecs in plain C, for every processor; the twin that the others
 * are compared with. */
#define TT_KERNEL_TABLE tt_codec_kernel_plain
#define TT_KERNEL_NAME "plain"
#include "codec/kernel_loops.h"
