/* SPDX-License-Identifier: Apache-2.0
 *
 * parse.c - codecs as text: "int8:block=512,ef=on". */
#include <string.h>

#include "base/assert.h"
#include "base/nearest.h"
#include "codec/registry.h"

enum { WORD_BYTES = 32 };

static tt_status unknown_codec(const char *name, tt_text *why)
{
    tt_nearest nearest;
    tt_nearest_init(&nearest, "", name);
    for (size_t i = 0; tt_codec_at(i) != NULL; i++) {
        tt_nearest_offer(&nearest, tt_codec_at(i)->name);
    }
    tt_text_add(why, "there is no codec ");
    tt_text_add_quoted(why, name, WORD_BYTES);
    if (nearest.best[0] != '\0') {
        tt_text_add(why, "; did you mean '%s'?", nearest.best);
    } else {
        tt_text_add(why, "; there are");
        for (size_t i = 0; tt_codec_at(i) != NULL; i++) {
            tt_text_add(why, "%s %s", i > 0 ? "," : "", tt_codec_at(i)->name);
        }
    }
    return TT_ERR_BAD_ARGUMENT;
}

/* A number without sign, at most nine digits. */
static bool read_number(const char *text, uint32_t *number_out)
{
    const size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 9 || text[digits] != '\0') {
        return false;
    }
    uint32_t number = 0;
    for (size_t i = 0; i < digits; i++) {
        number = 10 * number + (uint32_t)(text[i] - '0');
    }
    *number_out = number;
    return true;
}

static tt_status read_block(tt_codec_spec *spec, const char *value, tt_text *why)
{
    if (!read_number(value, &spec->block) || spec->block < TT_CODEC_BLOCK_MIN ||
        spec->block > TT_CODEC_BLOCK_MAX || (spec->block & (spec->block - 1)) != 0) {
        tt_text_add(why, "codec %s: block=%s is not a power of two from %d to %d",
                    spec->codec->name, value, (int)TT_CODEC_BLOCK_MIN, (int)TT_CODEC_BLOCK_MAX);
        return TT_ERR_BAD_ARGUMENT;
    }
    return TT_OK;
}

static tt_status read_bits(tt_codec_spec *spec, const char *value, tt_text *why)
{
    const tt_codec *codec = spec->codec;
    if (!read_number(value, &spec->bits) ||
        (spec->bits != codec->bits_min && spec->bits != codec->bits_max)) {
        tt_text_add(why, "codec %s: bits=%s is neither %u nor %u", codec->name, value,
                    codec->bits_min, codec->bits_max);
        return TT_ERR_BAD_ARGUMENT;
    }
    return TT_OK;
}

static tt_status read_feedback(tt_codec_spec *spec, const char *value, tt_text *why)
{
    const tt_codec *codec = spec->codec;
    const bool is_tracked = strcmp(value, "21") == 0;
    const bool is_on = is_tracked || strcmp(value, "on") == 0;
    if (!is_on && strcmp(value, "off") != 0) {
        tt_text_add(why, "codec %s: ef=%s is none of on, off and 21", codec->name, value);
        return TT_ERR_BAD_ARGUMENT;
    }
    if (is_on && (codec->traits & TT_CODEC_CONTRACTION) == 0) {
        const bool is_exact = (codec->traits & TT_CODEC_CAST) != 0;
        tt_text_add(why, "codec %s %s: leave out ef=%s", codec->name,
                    is_exact ? "loses nothing" : "would let its residual grow without bound",
                    value);
        return TT_ERR_BAD_ARGUMENT;
    }
    if (is_tracked && (codec->traits & TT_CODEC_SUMMABLE) != 0) {
        tt_text_add(why,
                    "codec %s has no owners to keep the estimates of ef=21: use int8, or ef=on",
                    codec->name);
        return TT_ERR_BAD_ARGUMENT;
    }
    spec->has_feedback = is_on;
    spec->is_tracked = is_tracked;
    return TT_OK;
}

static tt_status read_where(tt_codec_spec *spec, const char *value, tt_text *why)
{
    spec->is_everywhere = strcmp(value, "all") == 0;
    if (!spec->is_everywhere && strcmp(value, "across") != 0) {
        tt_text_add(why,
                    "codec %s: where=%s is neither across (between hosts) nor all (between ranks)",
                    spec->codec->name, value);
        return TT_ERR_BAD_ARGUMENT;
    }
    return TT_OK;
}

static bool has_bits(const tt_codec *codec)
{
    return codec->bits_min != codec->bits_max;
}

static tt_status unknown_option(const tt_codec *codec, const char *key, tt_text *why)
{
    tt_nearest nearest;
    tt_nearest_init(&nearest, "", key);
    if (codec->has_block) {
        tt_nearest_offer(&nearest, "block");
    }
    if (has_bits(codec)) {
        tt_nearest_offer(&nearest, "bits");
    }
    tt_nearest_offer(&nearest, "ef");
    tt_nearest_offer(&nearest, "where");
    tt_text_add(why, "codec %s has no option ", codec->name);
    tt_text_add_quoted(why, key, WORD_BYTES);
    if (nearest.best[0] != '\0') {
        tt_text_add(why, "; did you mean '%s'?", nearest.best);
    } else {
        tt_text_add(why, "; it has%s%s ef, where", codec->has_block ? " block," : "",
                    has_bits(codec) ? " bits," : "");
    }
    return TT_ERR_BAD_ARGUMENT;
}

static tt_status read_option(tt_codec_spec *spec, const char *key, const char *value, tt_text *why)
{
    const tt_codec *codec = spec->codec;
    if (strcmp(key, "block") == 0 && codec->has_block) {
        return read_block(spec, value, why);
    }
    if (strcmp(key, "bits") == 0 && has_bits(codec)) {
        return read_bits(spec, value, why);
    }
    if (strcmp(key, "ef") == 0) {
        return read_feedback(spec, value, why);
    }
    if (strcmp(key, "where") == 0) {
        return read_where(spec, value, why);
    }
    return unknown_option(codec, key, why);
}

tt_status tt_codec_parse(const char *text, tt_codec_spec *spec_out, tt_text *why)
{
    char name[WORD_BYTES], key[WORD_BYTES], value[WORD_BYTES];
    tt_text_clear(why);
    if (!tt_text_take_word(&text, ":", name, WORD_BYTES)) {
        tt_text_add(why, "the name of a codec has at most %d letters", (int)WORD_BYTES - 1);
        return TT_ERR_BAD_ARGUMENT;
    }
    const tt_codec *codec = tt_codec_find(name);
    if (codec == NULL) {
        return unknown_codec(name, why);
    }
    tt_codec_spec spec = {.codec = codec, .block = codec->block, .bits = codec->bits};
    spec.has_feedback = (codec->traits & TT_CODEC_CONTRACTION) != 0 &&
                        (codec->traits & (TT_CODEC_CAST | TT_CODEC_UNBIASED)) == 0;
    while (*text != '\0') {
        text++; /* ':' or ',' */
        if (!tt_text_take_word(&text, "=,", key, WORD_BYTES) || *text != '=') {
            tt_text_add(why, "codec %s: options are KEY=VALUE, with a comma between two", name);
            return TT_ERR_BAD_ARGUMENT;
        }
        text++;
        if (!tt_text_take_word(&text, ",", value, WORD_BYTES)) {
            tt_text_add(why, "codec %s: the value of %s is too long", name, key);
            return TT_ERR_BAD_ARGUMENT;
        }
        TT_TRY(read_option(&spec, key, value, why));
    }
    *spec_out = spec;
    return TT_OK;
}

void tt_codec_print(const tt_codec_spec *spec, char text_out[TT_CODEC_TEXT_BYTES])
{
    const tt_codec *codec = spec->codec;
    tt_text text = {.length = 0};
    tt_text_add(&text, "%s:", codec->name);
    if (codec->has_block) {
        tt_text_add(&text, "block=%u,", spec->block);
    }
    if (has_bits(codec)) {
        tt_text_add(&text, "bits=%u,", spec->bits);
    }
    const char *on = spec->is_tracked ? "21" : "on";
    tt_text_add(&text, "ef=%s%s", spec->has_feedback ? on : "off",
                spec->is_everywhere ? ",where=all" : "");
    TT_ASSERT(text.length < TT_CODEC_TEXT_BYTES);
    memcpy(text_out, text.bytes, text.length + 1);
}

/* ---- numbers ---- */

enum {
    PACK_CODEC = 0xff,
    PACK_BITS = 8,
    PACK_BLOCK = 12,
    PACK_FEEDBACK = 16,
    PACK_WHERE = 17,
    PACK_TRACKED = 18,
};

static uint32_t log2_of(uint32_t power)
{
    uint32_t log = 0;
    while (power >> log > 1) {
        log++;
    }
    TT_ASSERT(power == UINT32_C(1) << log);
    return log;
}

uint32_t tt_codec_pack(const tt_codec_spec *spec)
{
    uint32_t index = 0;
    while (tt_codec_at(index) != spec->codec) {
        index++;
        TT_ASSERT(tt_codec_at(index) != NULL);
    }
    TT_ASSERT(index < PACK_CODEC && spec->bits < 16);
    return (index + 1) | spec->bits << PACK_BITS | log2_of(spec->block) << PACK_BLOCK |
           (uint32_t)spec->has_feedback << PACK_FEEDBACK |
           (uint32_t)spec->is_everywhere << PACK_WHERE | (uint32_t)spec->is_tracked << PACK_TRACKED;
}

bool tt_codec_unpack(uint32_t number, tt_codec_spec *spec_out)
{
    char text[TT_CODEC_TEXT_BYTES];
    tt_text why = {0};
    const uint32_t index = number & PACK_CODEC;
    const tt_codec *codec = index > 0 ? tt_codec_at(index - 1) : NULL;
    if (codec == NULL) {
        return false;
    }
    const tt_codec_spec spec = {.codec = codec,
                                .block = UINT32_C(1) << (number >> PACK_BLOCK & 15),
                                .bits = number >> PACK_BITS & 15,
                                .has_feedback = (number >> PACK_FEEDBACK & 1) != 0,
                                .is_everywhere = (number >> PACK_WHERE & 1) != 0,
                                .is_tracked = (number >> PACK_TRACKED & 1) != 0};
    tt_codec_print(&spec, text); /* what has no text is no spec */
    return tt_codec_parse(text, spec_out, &why) == TT_OK && tt_codec_pack(spec_out) == number;
}
