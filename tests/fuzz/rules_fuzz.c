/* SPDX-License-Identifier: Apache-2.0
 *
 * rules_fuzz.c - any text as rules and as a codec: refused with a reason, or every choice is a
 * codec that its own text asks for, and the same again from the same text.
 *
 * The codec ends at the first zero, the name of a tensor at the second; rules follow.
 *
 * Labels: codec */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/assert.h"
#include "codec/codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static tt_rules *create(const tt_rules_source *source)
{
    tt_rules *rules = NULL;
    tt_text why = {0};
    if (tt_rules_create(source, &tt_allocator_default, &rules, &why) != TT_OK) {
        TT_ASSERT(rules == NULL);
        TT_ASSERT(why.length > 0);
        TT_ASSERT(memchr(why.bytes, '\n', why.length) == NULL);
        return NULL;
    }
    TT_ASSERT(why.length == 0);
    return rules;
}

static void check_spec(const tt_codec_spec *spec)
{
    char printed[TT_CODEC_TEXT_BYTES];
    tt_codec_spec again;
    tt_text why;
    tt_codec_print(spec, printed);
    TT_ASSERT(tt_codec_parse(printed, &again, &why) == TT_OK);
    TT_ASSERT(again.codec == spec->codec);
    TT_ASSERT(again.has_feedback == spec->has_feedback);
    TT_ASSERT(again.is_tracked == spec->is_tracked);
}

/* One tensor by two rules of the same source. */
static void check_choice(const tt_rules *rules, const tt_rules *twin, const char *name, int turn)
{
    static const uint64_t elements[] = {0, 1, 4096, 1 << 20, UINT64_MAX};
    const tt_dtype dtype = (tt_dtype)(turn % TT_DTYPE_COUNT);
    const bool is_gradient = turn % 2 == 0;
    for (size_t i = 0; i < sizeof(elements) / sizeof(elements[0]); i++) {
        const tt_rule_choice *choice = tt_rules_find(rules, name, elements[i], dtype, is_gradient);
        const tt_rule_choice *other = tt_rules_find(twin, name, elements[i], dtype, is_gradient);
        TT_ASSERT((choice == NULL) == (other == NULL));
        if (choice == NULL) {
            continue;
        }
        TT_ASSERT(choice->index == other->index);
        TT_ASSERT(choice->index <= TT_RULES_MAX);
        TT_ASSERT(choice == tt_rules_find(rules, name, elements[i], dtype, is_gradient));
        for (uint32_t k = 0; k < choice->phase_count; k++) {
            const tt_codec_spec *spec = tt_rule_choice_at(choice, choice->phases[k].first_step);
            TT_ASSERT(spec == NULL || spec == &choice->phases[k].spec);
            check_spec(&choice->phases[k].spec);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    const char *codec = (const char *)bytes;
    const uint8_t *end = memchr(bytes, 0, count);
    const uint8_t *name = end != NULL ? end + 1 : NULL;
    end = name != NULL ? memchr(name, 0, count - (size_t)(name - bytes)) : NULL;
    if (end == NULL) {
        return 0;
    }
    const tt_rules_source source = {.text = (const char *)end + 1,
                                    .text_bytes = count - (size_t)(end + 1 - bytes),
                                    .text_name = "rules",
                                    .codec = codec,
                                    .plain_bytes_max = 1024};
    tt_rules *rules = create(&source), *twin = create(&source);
    TT_ASSERT((rules == NULL) == (twin == NULL));
    for (int turn = 0; rules != NULL && turn < 2 * TT_DTYPE_COUNT; turn++) {
        check_choice(rules, twin, (const char *)name, turn);
    }
    tt_rules_destroy(rules);
    tt_rules_destroy(twin);
    return 0;
}
