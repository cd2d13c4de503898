/* SPDX-License-Identifier: Apache-2.0
 *
 * rules.c - every rule's codec, configured once; the choices are an array beside the rules. */
#include "codec/rules.h"

#include <string.h>

#include "base/assert.h"
#include "base/config.h"
#include "codec/registry.h"

enum {
    CODEC_BYTES_MAX = 128, /* of one codec in a list, its zero included */
    STEP_BYTES_MAX = 20,   /* of a step's number, its zero included */
    SHOWN_BYTES = 48,
};

struct tt_rules {
    const tt_allocator *allocator;
    tt_rule_text *text;
    uint64_t plain_bytes_max;
    bool has_others; /* the last choice is for gradients that meet no rule */
    size_t choice_count;
    tt_rule_choice *choices; /* by rule */
};

static bool is_codable(tt_dtype dtype)
{
    return dtype == TT_F32 || dtype == TT_F16 || dtype == TT_BF16;
}

static bool is_exact(const tt_codec_spec *spec)
{
    return spec->codec == &tt_codec_none;
}

/* ---- phases ---- */

static tt_status refuse(tt_text *why, const char *text)
{
    tt_text_add(why, "%s", text);
    return TT_ERR_BAD_CONFIG;
}

/* Copy `bytes` of the text; false: there is no room. */
static bool copy_part(char *part, size_t room, const char *text, size_t bytes)
{
    if (bytes >= room) {
        return false;
    }
    memcpy(part, text, bytes);
    part[bytes] = '\0';
    return true;
}

/* The step behind an '@', up to a comma or the end, and its bytes; 0: it is not a number. */
static size_t read_step(const char *text, uint64_t *step_out)
{
    char digits[STEP_BYTES_MAX];
    const size_t bytes = strcspn(text, ",");
    int64_t step;
    if (text[0] < '0' || text[0] > '9' || !copy_part(digits, sizeof(digits), text, bytes) ||
        !tt_config_parse_int(digits, &step)) {
        return 0;
    }
    *step_out = (uint64_t)step;
    return bytes;
}

/* The next of CODEC@STEP,CODEC@STEP..., or a CODEC without a step; *text_io moves behind it. */
static tt_status read_phase(const char **text_io, bool is_first, tt_rule_phase *phase, tt_text *why)
{
    char codec[CODEC_BYTES_MAX];
    const char *text = *text_io;
    const size_t bytes = strcspn(text, "@");
    tt_text inner = {0};
    phase->first_step = 0;
    if (!copy_part(codec, sizeof(codec), text, bytes)) {
        tt_text_add(why, "a codec has at most %d bytes", (int)CODEC_BYTES_MAX - 1);
        return TT_ERR_BAD_CONFIG;
    }
    if (tt_codec_parse(codec, &phase->spec, &inner) != TT_OK) {
        tt_text_add_words(why, inner.bytes, inner.length); /* it shows what the user wrote */
        return TT_ERR_BAD_CONFIG;
    }
    text += bytes;
    if (*text == '@') {
        const size_t digits = read_step(text + 1, &phase->first_step);
        if (digits == 0) {
            tt_text_add(why, "'@' needs the number of a step behind it, not ");
            tt_text_add_quoted(why, text + 1, SHOWN_BYTES);
            tt_text_add(why, "; write, for example, none@0,int8@500");
            return TT_ERR_BAD_CONFIG;
        }
        text += 1 + digits;
    } else if (!is_first) {
        tt_text_add(why, "codec %s has no step; write, for example, %s@500", codec, codec);
        return TT_ERR_BAD_CONFIG;
    }
    *text_io = text;
    return TT_OK;
}

/* Is the phase that was read last in order? */
static tt_status check_order(const tt_rule_choice *choice, tt_text *why)
{
    const tt_rule_phase *last = &choice->phases[choice->phase_count - 1];
    if (choice->phase_count == 1 && last->first_step != 0) {
        tt_text_add(why, "the first codec begins at step %llu; begin at 0, for example with none@0",
                    (unsigned long long)last->first_step);
        return TT_ERR_BAD_CONFIG;
    }
    if (choice->phase_count > 1 && last->first_step <= last[-1].first_step) {
        tt_text_add(why, "step %llu comes after step %llu; let steps ascend",
                    (unsigned long long)last->first_step, (unsigned long long)last[-1].first_step);
        return TT_ERR_BAD_CONFIG;
    }
    return TT_OK;
}

static tt_status read_phases(const char *text, tt_rule_choice *choice, tt_text *why)
{
    do {
        if (choice->phase_count == TT_RULE_PHASES_MAX) {
            tt_text_add(why, "more than %d codecs, one after the other; leave out some",
                        (int)TT_RULE_PHASES_MAX);
            return TT_ERR_BAD_CONFIG;
        }
        text += choice->phase_count > 0 ? 1 : 0; /* the comma */
        TT_TRY(
            read_phase(&text, choice->phase_count == 0, &choice->phases[choice->phase_count], why));
        choice->phase_count++;
        TT_TRY(check_order(choice, why));
    } while (*text == ',');
    TT_ASSERT(*text == '\0');
    return TT_OK;
}

/* ---- choices ---- */

/* ef= of a rule, which has precedence over that of its codec. Beside others, none may stay as it
 * is: it has no error to feed back. */
static tt_status set_feedback(tt_rule_choice *choice, tt_rule_ef feedback, tt_text *why)
{
    const bool is_on = feedback != TT_RULE_EF_OFF, is_tracked = feedback == TT_RULE_EF21;
    uint32_t exact_count = 0;
    for (uint32_t i = 0; i < choice->phase_count; i++) {
        tt_codec_spec *spec = &choice->phases[i].spec;
        const bool can_feed = (tt_codec_traits(spec) & TT_CODEC_CONTRACTION) != 0;
        char text[TT_CODEC_TEXT_BYTES];
        spec->has_feedback = is_on && can_feed;
        spec->is_tracked = is_tracked && can_feed;
        exact_count += can_feed ? 0 : 1;
        tt_codec_print(spec, text);
        if (tt_codec_parse(text, spec, why) != TT_OK) { /* it has no owners */
            return TT_ERR_BAD_CONFIG;
        }
    }
    if (is_on && exact_count == choice->phase_count) {
        tt_text_add(why, "codec %s loses nothing: leave out ef=%s",
                    tt_codec_name(&choice->phases[0].spec), is_tracked ? "21" : "on");
        return TT_ERR_BAD_CONFIG;
    }
    return TT_OK;
}

/* Residuals cannot become estimates, nor estimates residuals. */
static tt_status check_feedback(const tt_rule_choice *choice, tt_text *why)
{
    const tt_codec_spec *on = NULL, *tracked = NULL;
    TT_DEBUG_ASSERT(choice->phase_count > 0);
    for (uint32_t i = 0; i < choice->phase_count; i++) {
        const tt_codec_spec *spec = &choice->phases[i].spec;
        tracked = spec->is_tracked ? spec : tracked;
        on = spec->has_feedback && !spec->is_tracked ? spec : on;
    }
    if (on != NULL && tracked != NULL) {
        tt_text_add(why,
                    "codec %s keeps residuals (ef=on), codec %s estimates (ef=21); give both "
                    "the same ef=, or one of them ef=off",
                    tt_codec_name(on), tt_codec_name(tracked));
        return TT_ERR_BAD_CONFIG;
    }
    return TT_OK;
}

/* where= of a rule, likewise. */
static void set_where(tt_rule_choice *choice, tt_rule_where where)
{
    TT_DEBUG_ASSERT(choice->phase_count > 0);
    for (uint32_t i = 0; i < choice->phase_count; i++) {
        choice->phases[i].spec.is_everywhere = where == TT_RULE_ALL;
    }
}

static tt_status read_codec(const char *text, tt_rule_choice *choice, tt_text *why)
{
    TT_TRY(read_phases(text, choice, why));
    choice->is_plain = true;
    for (uint32_t i = 0; i < choice->phase_count; i++) {
        choice->is_plain = choice->is_plain && is_exact(&choice->phases[i].spec);
    }
    return TT_OK;
}

tt_status tt_rule_choice_parse(const char *text, tt_rule_choice *choice_out, tt_text *why)
{
    *choice_out = (tt_rule_choice){0};
    TT_TRY(read_codec(text, choice_out, why));
    return check_feedback(choice_out, why);
}

static tt_status read_rule(const tt_rule *rule, tt_rule_choice *choice, tt_text *why)
{
    const tt_rule_term *codec = tt_rule_find(rule, TT_RULE_CODEC);
    const tt_rule_term *feedback = tt_rule_find(rule, TT_RULE_EF);
    const tt_rule_term *where = tt_rule_find(rule, TT_RULE_WHERE);
    const tt_rule_term *dtype = tt_rule_find(rule, TT_RULE_DTYPE);
    const tt_rule_term *sum = tt_rule_find(rule, TT_RULE_SUM);
    choice->line = rule->line;
    if (codec == NULL && sum == NULL) {
        return refuse(why, "the rule has no codec; add codec=none to leave its tensors plain");
    }
    TT_TRY(read_codec(codec != NULL ? codec->value : "none", choice, why));
    if (dtype != NULL && !is_codable((tt_dtype)dtype->number) && !choice->is_plain) {
        tt_text_add(why, "no codec takes dtype=%s; codecs are for f32, f16 and bf16",
                    tt_dtype_name((tt_dtype)dtype->number));
        return TT_ERR_BAD_CONFIG;
    }
    if (where != NULL) {
        set_where(choice, (tt_rule_where)where->number);
    }
    if (feedback != NULL) {
        TT_TRY(set_feedback(choice, (tt_rule_ef)feedback->number, why));
    }
    return check_feedback(choice, why);
}

/* ---- life ---- */

static tt_status read_lines(tt_rules *rules, tt_text *why)
{
    for (size_t i = 0; i < tt_rule_text_count(rules->text); i++) {
        const tt_rule *rule = tt_rule_text_at(rules->text, i);
        tt_text inner = {0};
        rules->choices[i].index = (uint32_t)i;
        if (read_rule(rule, &rules->choices[i], &inner) != TT_OK) {
            tt_text_add(why, "line %u: %s", rule->line, inner.bytes);
            return TT_ERR_BAD_CONFIG;
        }
    }
    return TT_OK;
}

static tt_status read_others(tt_rules *rules, const char *codec, tt_text *why)
{
    tt_rule_choice *choice = &rules->choices[rules->choice_count - 1];
    tt_text inner = {0};
    choice->index = (uint32_t)(rules->choice_count - 1);
    if (read_codec(codec, choice, &inner) != TT_OK || check_feedback(choice, &inner) != TT_OK) {
        tt_text_add(why, "TUTTI_CODEC=");
        tt_text_add_words(why, codec, SHOWN_BYTES);
        tt_text_add(why, ": %s", inner.bytes);
        return TT_ERR_BAD_CONFIG;
    }
    return TT_OK;
}

static tt_status fill(tt_rules *rules, const tt_rules_source *source, tt_text *why)
{
    tt_text inner = {0};
    tt_status status = tt_rule_text_parse(source->text, source->text_bytes, rules->allocator,
                                          &rules->text, &inner);
    if (status == TT_OK) {
        rules->choice_count = tt_rule_text_count(rules->text) + (rules->has_others ? 1 : 0);
        rules->choices =
            tt_allocate(rules->allocator, rules->choice_count, sizeof(*rules->choices));
        if (rules->choices == NULL && rules->choice_count > 0) {
            tt_text_add(why, "out of memory for rules");
            return TT_ERR_NO_MEMORY;
        }
        status = read_lines(rules, &inner);
    }
    if (status != TT_OK) {
        tt_text_add(why, "%s: %s", source->text_name, inner.bytes);
        return status;
    }
    return rules->has_others ? read_others(rules, source->codec, why) : TT_OK;
}

tt_status tt_rules_create(const tt_rules_source *source, const tt_allocator *allocator,
                          tt_rules **rules_out, tt_text *why)
{
    tt_rules *rules = tt_allocate(allocator, 1, sizeof(*rules));
    if (rules == NULL) {
        tt_text_add(why, "out of memory for rules");
        return TT_ERR_NO_MEMORY;
    }
    *rules = (tt_rules){.allocator = allocator,
                        .plain_bytes_max = source->plain_bytes_max,
                        .has_others = source->codec[0] != '\0'};
    const tt_status status = fill(rules, source, why);
    if (status != TT_OK) {
        tt_rules_destroy(rules);
        return status;
    }
    *rules_out = rules;
    return TT_OK;
}

void tt_rules_destroy(tt_rules *rules)
{
    if (rules == NULL) {
        return;
    }
    tt_release(rules->allocator, rules->choices, rules->choice_count, sizeof(*rules->choices));
    tt_rule_text_destroy(rules->text);
    tt_release(rules->allocator, rules, 1, sizeof(*rules));
}

/* ---- look-up ---- */

const tt_rule_choice *tt_rules_find(const tt_rules *rules, const char *name, uint64_t elements,
                                    tt_dtype dtype, bool is_gradient)
{
    if (rules == NULL || !is_codable(dtype) ||
        elements <= rules->plain_bytes_max / tt_dtype_bytes(dtype)) {
        return NULL;
    }
    const tt_rule_subject subject = {
        .name = name, .elements = elements, .dtype = dtype, .is_gradient = is_gradient};
    const size_t rule_count = tt_rule_text_count(rules->text);
    const size_t index = tt_rule_text_match(rules->text, &subject);
    if (index == rule_count && !(rules->has_others && is_gradient)) {
        return NULL;
    }
    TT_ASSERT(index < rules->choice_count);
    const tt_rule_choice *choice = &rules->choices[index];
    TT_ASSERT(choice->phase_count > 0);
    return choice->is_plain ? NULL : choice;
}

tt_rule_sum tt_rules_sum(const tt_rules *rules, const tt_rule_subject *subject,
                         tt_rule_sum otherwise)
{
    const size_t rule_count = rules != NULL ? tt_rule_text_count(rules->text) : 0;
    const size_t index = rule_count > 0 ? tt_rule_text_match(rules->text, subject) : 0;
    if (index == rule_count) {
        return otherwise;
    }
    const tt_rule_term *sum = tt_rule_find(tt_rule_text_at(rules->text, index), TT_RULE_SUM);
    return sum != NULL ? (tt_rule_sum)sum->number : otherwise;
}

bool tt_rules_have_servers(const tt_rules *rules)
{
    bool any = false;
    for (size_t i = 0; rules != NULL && i < tt_rule_text_count(rules->text); i++) {
        const tt_rule_term *sum = tt_rule_find(tt_rule_text_at(rules->text, i), TT_RULE_SUM);
        any = any || (sum != NULL && sum->number == TT_RULE_SUM_SERVER);
    }
    return any;
}

const tt_codec_spec *tt_rule_choice_at(const tt_rule_choice *choice, uint64_t step)
{
    TT_ASSERT(choice->phase_count > 0);
    TT_ASSERT(choice->phases[0].first_step == 0);
    const tt_rule_phase *phase = &choice->phases[0];
    for (uint32_t i = 1; i < choice->phase_count && choice->phases[i].first_step <= step; i++) {
        phase = &choice->phases[i];
    }
    return is_exact(&phase->spec) ? NULL : &phase->spec;
}
