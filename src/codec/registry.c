/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/registry.h"

#include <string.h>

#include "base/base.h"

static const tt_codec *const codecs[] = {
    &tt_codec_none,   &tt_codec_fp16,    &tt_codec_bf16,     &tt_codec_fp8_e4m3, &tt_codec_fp8_e5m2,
    &tt_codec_int8,   &tt_codec_int4,    &tt_codec_qsgd,     &tt_codec_natural,  &tt_codec_sign,
    &tt_codec_onebit, &tt_codec_int8sum, &tt_codec_terngrad, &tt_codec_majority,
};

const tt_codec *tt_codec_at(size_t index)
{
    return index < sizeof(codecs) / sizeof(codecs[0]) ? codecs[index] : NULL;
}

const tt_codec *tt_codec_find(const char *name)
{
    for (size_t i = 0; tt_codec_at(i) != NULL; i++) {
        if (strcmp(codecs[i]->name, name) == 0) {
            return codecs[i];
        }
    }
    return NULL;
}
