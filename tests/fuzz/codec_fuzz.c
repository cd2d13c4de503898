/* SPDX-License-Identifier: Apache-2.0
 *
 * codec_fuzz.c - any text as a codec, any bytes as its wire bytes: refused, or decoded within
 * bounds. Decoding what was refused stays within bounds, too.
 *
 * The text ends at the first zero; a byte follows for the count, then wire bytes. Of a codec whose
 * levels are summed, they are also scales and sums of peers, each of which may be anything.
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
    TT_ASSERT(again.is_tracked == spec->is_tracked);
    return true;
}

/* Any scales and sums are decoded, and any values have levels in units of any scales. */
static void sum(const tt_codec_spec *spec, const uint8_t *wire, float *values, size_t count)
{
    const size_t blocks = tt_codec_block_count(spec, count);
    float *scales = calloc(blocks + 1, sizeof(*scales));
    uint8_t *levels = calloc(count + 1, 1);
    if (scales != NULL && levels != NULL) {
        memcpy(scales, wire, blocks * sizeof(*scales));
        const tt_codec_shared shared = {.scales = scales,
                                        .ranks = 1 + wire[0] % TT_CODEC_RANKS_MAX};
        const tt_codec_source source = {
            .values = values, .dtype = TT_F32, .factor = 1.0f, .count = count};
        tt_codec_decode_sums(
            spec, wire + blocks * sizeof(*scales), &shared,
            &(tt_codec_target){.values = values, .dtype = TT_F32, .factor = 0.5f, .count = count});
        TT_ASSERT(tt_codec_levels(spec, &source, &shared, levels) <= count);
        tt_codec_scales(spec, &source, scales);
    }
    free(scales);
    free(levels);
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
        if ((tt_codec_traits(&spec) & TT_CODEC_SUMMABLE) != 0 && elements > 0) {
            sum(&spec, wire, values, elements);
        }
    }
    free(wire);
    free(values);
    return 0;
}
