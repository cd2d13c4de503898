/* SPDX-License-Identifier: Apache-2.0
 *
 * codec_spec.h - for tests: the codec of a text that must be valid. Include after cmocka.h.
 *
 * Layer:   tests.
 * Threads: pure.
 * Memory:  none.
 */
#ifndef TUTTI_TESTS_SUPPORT_CODEC_SPEC_H
#define TUTTI_TESTS_SUPPORT_CODEC_SPEC_H

#include "codec/codec.h"

static inline tt_codec_spec spec_of(const char *text)
{
    tt_codec_spec spec;
    tt_text why;
    if (tt_codec_parse(text, &spec, &why) != TT_OK) {
        fail_msg("%s: %s", text, why.bytes);
    }
    return spec;
}

#endif
