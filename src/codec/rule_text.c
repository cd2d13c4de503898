/* SPDX-License-Identifier: Apache-2.0
 *
 * rule_text.c - the words of rules, in two passes over one copy of the text.
 *
 * The first pass bounds everything: length, lines, words. Then memory is taken once, and the second
 * pass cuts the copy into words in place: a rule is terms that point into it. */
#include "codec/rule_text.h"

#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/config.h"
#include "base/nearest.h"

enum {
    SHOWN_BYTES = 48,   /* of a user's word, in an error */
    KEY_BYTES_MAX = 32, /* of a key, its zero included */
};

/* ---- keys ---- */

enum { ONLY_IS = 1 << TT_RULE_IS, ANY_COMPARISON = (1 << (TT_RULE_AT_LEAST + 1)) - 1 };

typedef struct rule_key {
    const char *name;
    unsigned comparisons; /* bits by tt_rule_operator */
    bool may_repeat;      /* in one rule: all of them must hold */
    const char *accepted; /* for errors */
    /* False: not a value of this key. */
    bool (*read)(const char *value, uint64_t *number_out);
    /* NULL: a setting, not a condition. */
    bool (*holds)(const tt_rule_term *term, const tt_rule_subject *subject);
} rule_key;

static bool read_text(const char *value, uint64_t *number_out)
{
    *number_out = 0;
    return value[0] != '\0';
}

/* As TUTTI_* sizes are read, without the B of bytes. */
static bool read_elements(const char *value, uint64_t *number_out)
{
    const char *suffix = value + strspn(value, "0123456789");
    if (suffix == value || (suffix[0] != '\0' && suffix[1] != '\0') ||
        strspn(suffix, "KMGkmg") != strlen(suffix)) {
        return false;
    }
    return tt_config_parse_bytes(value, number_out);
}

static bool read_dtype(const char *value, uint64_t *number_out)
{
    tt_dtype dtype;
    if (!tt_dtype_parse(value, &dtype)) {
        return false;
    }
    *number_out = (uint64_t)dtype;
    return true;
}

/* 0 for `zero`, 1 for `one`. */
static bool read_either(const char *value, const char *zero, const char *one, uint64_t *number_out)
{
    const bool is_one = strcmp(value, one) == 0;
    if (!is_one && strcmp(value, zero) != 0) {
        return false;
    }
    *number_out = is_one ? 1 : 0;
    return true;
}

static bool read_role(const char *value, uint64_t *number_out)
{
    return read_either(value, "gradient", "any", number_out);
}

static bool read_feedback(const char *value, uint64_t *number_out)
{
    const bool is_tracked = strcmp(value, "21") == 0;
    *number_out = TT_RULE_EF21;
    return is_tracked || read_either(value, "off", "on", number_out);
}

static bool read_where(const char *value, uint64_t *number_out)
{
    return read_either(value, "across", "all", number_out);
}

static bool read_sum(const char *value, uint64_t *number_out)
{
    return read_either(value, "allreduce", "server", number_out);
}

static bool name_holds(const tt_rule_term *term, const tt_rule_subject *subject)
{
    return tt_rule_glob(term->value, subject->name != NULL ? subject->name : "");
}

static bool elements_hold(const tt_rule_term *term, const tt_rule_subject *subject)
{
    switch (term->comparison) {
    case TT_RULE_BELOW:
        return subject->elements < term->number;
    case TT_RULE_ABOVE:
        return subject->elements > term->number;
    case TT_RULE_AT_MOST:
        return subject->elements <= term->number;
    case TT_RULE_AT_LEAST:
        return subject->elements >= term->number;
    default:
        return subject->elements == term->number;
    }
}

static bool dtype_holds(const tt_rule_term *term, const tt_rule_subject *subject)
{
    return (uint64_t)subject->dtype == term->number;
}

static bool role_holds(const tt_rule_term *term, const tt_rule_subject *subject)
{
    return term->number == TT_RULE_ANY || subject->is_gradient;
}

static const rule_key keys[TT_RULE_KEY_COUNT] = {
    [TT_RULE_NAME] = {"name", ONLY_IS, true, "a name, '*' and '?' allowed", read_text, name_holds},
    [TT_RULE_ELEMENTS] = {"elements", ANY_COMPARISON, true, "a number such as 4096, 64K or 1M",
                          read_elements, elements_hold},
    [TT_RULE_DTYPE] = {"dtype", ONLY_IS, false, "a type such as f32, f16 or bf16", read_dtype,
                       dtype_holds},
    [TT_RULE_ROLE] = {"role", ONLY_IS, false, "gradient or any", read_role, role_holds},
    [TT_RULE_CODEC] = {"codec", ONLY_IS, false, "a codec such as int8", read_text, NULL},
    [TT_RULE_EF] = {"ef", ONLY_IS, false, "on, off or 21", read_feedback, NULL},
    [TT_RULE_WHERE] = {"where", ONLY_IS, false, "across or all", read_where, NULL},
    [TT_RULE_SUM] = {"sum", ONLY_IS, false, "allreduce or server", read_sum, NULL},
};

/* ---- parsing ---- */

struct tt_rule_text {
    const tt_allocator *allocator;
    size_t text_bytes; /* of `text`, its last zero included */
    size_t rule_room, term_room;
    size_t rule_count, term_count;
    char *text; /* the copy, cut into words */
    tt_rule *rules;
    tt_rule_term *terms;
};

/* Where a pass is. */
typedef struct line_reader {
    const char *text;
    size_t bytes, next; /* of the text; where the next line begins */
    uint32_t number;    /* of the line that was read last, from 1 */
} line_reader;

static tt_status refuse(tt_text *why, uint32_t line, const char *text)
{
    tt_text_add(why, "line %u: %s", line, text);
    return TT_ERR_BAD_CONFIG;
}

/* The next line without its newline; false: there is none. */
static bool take_line(line_reader *reader, size_t *start_out, size_t *bytes_out)
{
    if (reader->next >= reader->bytes) {
        return false;
    }
    const char *start = reader->text + reader->next;
    const char *end = memchr(start, '\n', reader->bytes - reader->next);
    *start_out = reader->next;
    *bytes_out = end != NULL ? (size_t)(end - start) : reader->bytes - reader->next;
    reader->next += *bytes_out + 1;
    reader->number++;
    return true;
}

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\r';
}

/* The next word of a line from *at_io on, and move behind it; 0: no more, or a comment. */
static size_t take_word(const char *line, size_t bytes, size_t *at_io, size_t *start_out)
{
    size_t at = *at_io;
    while (at < bytes && is_blank(line[at])) {
        at++;
    }
    const size_t start = at;
    while (at < bytes && !is_blank(line[at])) {
        at++;
    }
    *at_io = at;
    *start_out = start;
    return start < bytes && line[start] == '#' ? 0 : at - start;
}

static bool is_printable(const char *line, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        const unsigned char byte = (unsigned char)line[i];
        if ((byte < ' ' && !is_blank(line[i])) || byte == 0x7f) {
            return false;
        }
    }
    return true;
}

/* Count rules and words, and check every length. */
static tt_status measure(const char *text, size_t text_bytes, tt_rule_text *sizes, tt_text *why)
{
    line_reader reader = {.text = text, .bytes = text_bytes};
    size_t start, bytes;
    if (text_bytes > TT_RULE_TEXT_BYTES_MAX) {
        return refuse(why, 1,
                      "the text is longer than 64 KiB; shorten it by patterns: name=*.bias");
    }
    while (take_line(&reader, &start, &bytes)) {
        if (bytes > TT_RULE_LINE_BYTES_MAX) {
            return refuse(why, reader.number, "longer than 1024 bytes; make two rules of it");
        }
        if (!is_printable(text + start, bytes)) {
            return refuse(why, reader.number, "has control characters; rules are plain text");
        }
        size_t at = 0, word, words = 0;
        while (take_word(text + start, bytes, &at, &word) > 0) {
            words++;
        }
        if (words > TT_RULE_TERMS_MAX) {
            return refuse(why, reader.number, "more than 16 words; make two rules of it");
        }
        sizes->term_room += words;
        sizes->rule_room += words > 0 ? 1 : 0;
        if (sizes->rule_room > TT_RULES_MAX) {
            return refuse(why, reader.number,
                          "the 1025th rule, at most 1024 are allowed; shorten them by patterns: "
                          "name=*.bias");
        }
    }
    return TT_OK;
}

/* The operator at the beginning of `text`, and its bytes; 0: there is none. */
static size_t operator_at(const char *text, tt_rule_operator *comparison_out)
{
    static const struct {
        const char *text;
        tt_rule_operator comparison;
    } operators[] = {{">=", TT_RULE_AT_LEAST},
                     {"<=", TT_RULE_AT_MOST},
                     {">", TT_RULE_ABOVE},
                     {"<", TT_RULE_BELOW},
                     {"=", TT_RULE_IS}};
    for (size_t i = 0; i < TT_ARRAY_COUNT(operators); i++) {
        const size_t bytes = strlen(operators[i].text);
        if (strncmp(text, operators[i].text, bytes) == 0) {
            *comparison_out = operators[i].comparison;
            return bytes;
        }
    }
    return 0;
}

static tt_status unknown_key(const char *key, uint32_t line, tt_text *why)
{
    tt_nearest nearest;
    tt_nearest_init(&nearest, "", key);
    for (size_t i = 0; i < TT_RULE_KEY_COUNT; i++) {
        tt_nearest_offer(&nearest, keys[i].name);
    }
    tt_text_add(why, "line %u: there is no key ", line);
    tt_text_add_quoted(why, key, SHOWN_BYTES);
    if (nearest.best[0] != '\0') {
        tt_text_add(why, "; did you mean '%s'?", nearest.best);
        return TT_ERR_BAD_CONFIG;
    }
    for (size_t i = 0; i < TT_RULE_KEY_COUNT; i++) {
        tt_text_add(why, "%s %s", i == 0 ? "; there are" : ",", keys[i].name);
    }
    return TT_ERR_BAD_CONFIG;
}

static tt_status bad_value(const rule_key *key, const tt_rule_term *term, uint32_t line,
                           tt_text *why)
{
    tt_text_add(why, "line %u: %s does not accept ", line, key->name);
    tt_text_add_quoted(why, term->value, SHOWN_BYTES);
    tt_text_add(why, "; it takes %s", key->accepted);
    return TT_ERR_BAD_CONFIG;
}

/* The place of this name in the table; the count: it has none. */
static size_t key_find(const char *name)
{
    size_t index = 0;
    while (index < TT_RULE_KEY_COUNT && strcmp(keys[index].name, name) != 0) {
        index++;
    }
    return index;
}

/* Cut `word`, which ends in a zero, into key, operator and value. */
static tt_status split_word(char *word, uint32_t line, tt_rule_term *term, tt_text *why)
{
    char name[KEY_BYTES_MAX];
    const size_t name_bytes = strcspn(word, "=<>");
    const size_t operator_bytes = operator_at(word + name_bytes, &term->comparison);
    if (name_bytes == 0 || operator_bytes == 0) {
        tt_text_add(why, "line %u: ", line);
        tt_text_add_quoted(why, word, SHOWN_BYTES);
        tt_text_add(why, " is not KEY=VALUE; write, for example, name=*.bias codec=none");
        return TT_ERR_BAD_CONFIG;
    }
    const size_t kept = name_bytes < sizeof(name) ? name_bytes : sizeof(name) - 1;
    memcpy(name, word, kept);
    name[kept] = '\0';
    const size_t key = key_find(name);
    if (key == TT_RULE_KEY_COUNT) {
        return unknown_key(name, line, why);
    }
    term->key = (tt_rule_key)key;
    term->value = word + name_bytes + operator_bytes;
    if ((keys[key].comparisons & 1u << term->comparison) == 0) {
        tt_text_add(why, "line %u: %s is compared by '=' alone; write %s=...", line, keys[key].name,
                    keys[key].name);
        return TT_ERR_BAD_CONFIG;
    }
    return keys[key].read(term->value, &term->number) ? TT_OK
                                                      : bad_value(&keys[key], term, line, why);
}

/* A line of the copy, which has room for a zero behind it, to one rule, unless it has no word. */
static tt_status read_rule(tt_rule_text *rules, char *line, size_t bytes, uint32_t number,
                           tt_text *why)
{
    tt_rule_term *terms = rules->terms + rules->term_count;
    tt_rule rule = {.line = number, .terms = terms};
    size_t at = 0, start, word_bytes;
    while ((word_bytes = take_word(line, bytes, &at, &start)) > 0) {
        tt_rule_term term = {.number = 0};
        line[start + word_bytes] = '\0'; /* a blank, the newline, or the text's end */
        at += at < bytes ? 1 : 0;
        TT_TRY(split_word(line + start, number, &term, why));
        if (!keys[term.key].may_repeat && tt_rule_find(&rule, term.key) != NULL) {
            tt_text_add(why, "line %u: %s is given twice; keep one of them", number,
                        keys[term.key].name);
            return TT_ERR_BAD_CONFIG;
        }
        TT_ASSERT(rules->term_count + rule.term_count < rules->term_room);
        terms[rule.term_count++] = term;
    }
    if (rule.term_count > 0) {
        TT_ASSERT(rules->rule_count < rules->rule_room);
        rules->term_count += rule.term_count;
        rules->rules[rules->rule_count++] = rule;
    }
    return TT_OK;
}

static tt_status read_all(tt_rule_text *rules, tt_text *why)
{
    line_reader reader = {.text = rules->text, .bytes = rules->text_bytes - 1};
    size_t start, bytes;
    if (rules->rule_room == 0) {
        return TT_OK; /* there is no memory for terms, either */
    }
    while (take_line(&reader, &start, &bytes)) {
        TT_TRY(read_rule(rules, rules->text + start, bytes, reader.number, why));
    }
    TT_ASSERT(rules->rule_count == rules->rule_room);
    TT_ASSERT(rules->term_count == rules->term_room);
    return TT_OK;
}

/* False: out of memory; what was taken is in `rules`. */
static bool take_memory(tt_rule_text *rules)
{
    const tt_allocator *allocator = rules->allocator;
    rules->text = tt_allocate(allocator, rules->text_bytes, 1);
    if (rules->text == NULL || rules->rule_room == 0) {
        return rules->text != NULL;
    }
    rules->rules = tt_allocate(allocator, rules->rule_room, sizeof(*rules->rules));
    rules->terms = tt_allocate(allocator, rules->term_room, sizeof(*rules->terms));
    return rules->rules != NULL && rules->terms != NULL;
}

tt_status tt_rule_text_parse(const char *text, size_t text_bytes, const tt_allocator *allocator,
                             tt_rule_text **rules_out, tt_text *why)
{
    tt_rule_text sizes = {.allocator = allocator, .text_bytes = text_bytes + 1};
    TT_TRY(measure(text, text_bytes, &sizes, why));
    tt_rule_text *rules = tt_allocate(allocator, 1, sizeof(*rules));
    tt_status status = TT_ERR_NO_MEMORY;
    if (rules != NULL) {
        *rules = sizes;
    }
    if (rules == NULL || !take_memory(rules)) {
        tt_text_add(why, "out of memory for rules");
    } else {
        if (text_bytes > 0) {
            memcpy(rules->text, text, text_bytes);
        }
        status = read_all(rules, why);
    }
    if (status != TT_OK) {
        tt_rule_text_destroy(rules);
        return status;
    }
    *rules_out = rules;
    return TT_OK;
}

void tt_rule_text_destroy(tt_rule_text *rules)
{
    if (rules == NULL) {
        return;
    }
    const tt_allocator *allocator = rules->allocator;
    tt_release(allocator, rules->terms, rules->term_room, sizeof(*rules->terms));
    tt_release(allocator, rules->rules, rules->rule_room, sizeof(*rules->rules));
    tt_release(allocator, rules->text, rules->text_bytes, 1);
    tt_release(allocator, rules, 1, sizeof(*rules));
}

/* ---- matching ---- */

size_t tt_rule_text_count(const tt_rule_text *rules)
{
    return rules->rule_count;
}

const tt_rule *tt_rule_text_at(const tt_rule_text *rules, size_t index)
{
    TT_ASSERT(index < rules->rule_count);
    return &rules->rules[index];
}

const tt_rule_term *tt_rule_find(const tt_rule *rule, tt_rule_key key)
{
    for (uint32_t i = 0; i < rule->term_count; i++) {
        if (rule->terms[i].key == key) {
            return &rule->terms[i];
        }
    }
    return NULL;
}

/* A mismatch behind a '*' lets the last one take one more byte: earlier ones need no second look,
 * since the last can take all that they could. */
bool tt_rule_glob(const char *glob, const char *name)
{
    const char *star = NULL, *taken = NULL; /* behind the last '*'; the end of what it takes */
    while (*name != '\0') {
        if (*glob == '*') {
            star = ++glob;
            taken = name;
        } else if (*glob == '?' || *glob == *name) {
            glob++;
            name++;
        } else if (star != NULL) {
            glob = star;
            name = ++taken;
        } else {
            return false;
        }
    }
    glob += strspn(glob, "*");
    return *glob == '\0';
}

static bool rule_holds(const tt_rule *rule, const tt_rule_subject *subject)
{
    static const tt_rule_term gradients = {.key = TT_RULE_ROLE, .number = TT_RULE_GRADIENT};
    for (uint32_t i = 0; i < rule->term_count; i++) {
        const rule_key *key = &keys[rule->terms[i].key];
        if (key->holds != NULL && !key->holds(&rule->terms[i], subject)) {
            return false;
        }
    }
    return tt_rule_find(rule, TT_RULE_ROLE) != NULL || role_holds(&gradients, subject);
}

size_t tt_rule_text_match(const tt_rule_text *rules, const tt_rule_subject *subject)
{
    TT_ASSERT(tt_dtype_is_valid((int)subject->dtype));
    size_t index = 0;
    while (index < rules->rule_count && !rule_holds(&rules->rules[index], subject)) {
        index++;
    }
    return index;
}
