/* SPDX-License-Identifier: Apache-2.0
 *
 * codec_fuzz.c - any text as a codec, any bytes as its wire bytes: refused, or decoded within
 * bounds. Decoding what was refused stays within bounds, too.
 *
 * The text ends at the first zero; a byte follows for the count, then wire bytes.
 *
 * Labels: codec */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "codec/codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

/* The spec that a text asks for is the one that its own text asks for. */
static bool parse(const char *text, tt_codec_spec *spec)
{
    tt_text why;
    tt_codec_spec again;
    char printed[TT_CODEC_TEXT_BYTES];
    if (tt_codec_parse(text, spec, &why) != TT_OK) {
        TT_ASSERT(why.length > 0);
        return false;
    }
    tt_codec_print(spec, printed);
    TT_ASSERT(tt_codec_parse(printed, &again, &why) == TT_OK);
    TT_ASSERT(again.codec == spec->codec && again.block == spec->block);
    TT_ASSERT(again.bits == spec->bits && again.has_feedback == spec->has_feedback);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    const uint8_t *end = memchr(bytes, 0, count);
    tt_codec_spec spec;
    if (end == NULL || end + 2 > bytes + count || !parse((const char *)bytes, &spec)) {
        return 0;
    }
    const size_t elements = (size_t)end[1] * 5, given = count - (size_t)(end + 2 - bytes);
    const size_t wire_bytes = tt_codec_wire_bytes(&spec, elements);
    uint8_t *wire = calloc(1, wire_bytes > 0 ? wire_bytes : 1);
    float *values = calloc(elements + 1, sizeof(*values));
    if (wire != NULL && values != NULL) {
        memcpy(wire, end + 2, given < wire_bytes ? given : wire_bytes);
        (void)tt_codec_check(&spec, end + 2, given, elements);
        tt_codec_decode_add(&spec, wire, values, elements);
        tt_codec_decode(&spec, wire,
                        &(tt_codec_target){
                            .values = values, .dtype = TT_F16, .factor = 0.5f, .count = elements});
    }
    free(wire);
    free(values);
    return 0;
}
