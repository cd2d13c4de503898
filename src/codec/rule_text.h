/* SPDX-License-Identifier: Apache-2.0
 *
 * rule_text.h - rules about tensors as text: their words, and which rule a tensor matches.
 *
 *     # biases stay as they are
 *     name=*.bias                codec=none
 *     elements>=1M               codec=int4 ef=on
 *     role=any   name=fsdp.*     codec=int8:block=512 where=all
 *
 * A line is a rule: conditions and settings, in any order, with blanks between them. A tensor gets
 * the settings of the first rule whose conditions it meets. A '#' at the beginning of a word starts
 * a comment. Values have no blanks; in a name, '?' stands for one.
 *
 *   condition  name=GLOB      '*' any bytes, '?' one byte; a tensor without a name is called ""
 *              elements>=N    also <= < > =; K, M and G are powers of 1024
 *              dtype=f32      as kernel/dtype.h names them
 *              role=gradient  gradients alone, the default; any: all tensors
 *   setting    codec=TEXT     see rules.h
 *              ef=on          error feedback: on, off or 21
 *              where=across   across: between hosts; all: between all ranks
 *              sum=server     named all-reduces are summed by servers; allreduce: by the workers
 *
 * Keys are a table (rule_text.c): another one is a line there. The parser itself knows only words:
 * key, operator, value.
 *
 * Layer:   codec, private; may include base/ and kernel/. (base/ may not: rules name dtypes.)
 * Threads: pure; rules do not change once they are parsed.
 * Memory:  from the allocator, by tt_rule_text_parse alone: at most about 1 MiB.
 */
#ifndef TUTTI_CODEC_RULE_TEXT_H
#define TUTTI_CODEC_RULE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/status.h"
#include "base/text.h"
#include "kernel/dtype.h"

enum {
    TT_RULE_TEXT_BYTES_MAX = 64 * 1024,
    TT_RULE_LINE_BYTES_MAX = 1024, /* without its newline */
    TT_RULES_MAX = 1024,
    TT_RULE_TERMS_MAX = 16, /* words of a rule */
};

typedef enum tt_rule_key {
    TT_RULE_NAME,
    TT_RULE_ELEMENTS,
    TT_RULE_DTYPE,
    TT_RULE_ROLE,
    TT_RULE_CODEC,
    TT_RULE_EF,
    TT_RULE_WHERE,
    TT_RULE_SUM,
    TT_RULE_KEY_COUNT
} tt_rule_key;

typedef enum tt_rule_operator {
    TT_RULE_IS, /* = */
    TT_RULE_BELOW,
    TT_RULE_ABOVE,
    TT_RULE_AT_MOST,
    TT_RULE_AT_LEAST,
} tt_rule_operator;

/* Values of role, ef, where and sum, in `number` of a term. */
enum { TT_RULE_GRADIENT, TT_RULE_ANY };
typedef enum tt_rule_ef { TT_RULE_EF_OFF, TT_RULE_EF_ON, TT_RULE_EF21 } tt_rule_ef;
typedef enum tt_rule_where { TT_RULE_ACROSS, TT_RULE_ALL } tt_rule_where;
typedef enum tt_rule_sum { TT_RULE_SUM_ALLREDUCE, TT_RULE_SUM_SERVER } tt_rule_sum;

/* One word of a rule. */
typedef struct tt_rule_term {
    tt_rule_key key;
    tt_rule_operator comparison;
    const char *value; /* as it was written */
    uint64_t number;   /* what the key made of it: elements, tt_dtype, one of these; else 0 */
} tt_rule_term;

/* One line. */
typedef struct tt_rule {
    uint32_t line; /* from 1 */
    uint32_t term_count;
    const tt_rule_term *terms;
} tt_rule;

/* A tensor, as rules see it. */
typedef struct tt_rule_subject {
    const char *name; /* NULL: "" */
    uint64_t elements;
    tt_dtype dtype;
    bool is_gradient;
} tt_rule_subject;

typedef struct tt_rule_text tt_rule_text;

/* The rules of a text, which need not end in a zero and is not kept; the caller destroys them. No
 * rules are rules, too. TT_ERR_BAD_CONFIG: `why` has the number of the first bad line, what is
 * wrong with it and the cure. TT_ERR_NO_MEMORY: `why` says so. */
tt_status tt_rule_text_parse(const char *text, size_t text_bytes, const tt_allocator *allocator,
                             tt_rule_text **rules_out, tt_text *why);
/* NULL is ignored. */
void tt_rule_text_destroy(tt_rule_text *rules);

size_t tt_rule_text_count(const tt_rule_text *rules);
/* The index-th rule, `index` below the count; it stays where it is until rules are destroyed. */
const tt_rule *tt_rule_text_at(const tt_rule_text *rules, size_t index);

/* The index of the first rule that the tensor meets; the count: none. */
size_t tt_rule_text_match(const tt_rule_text *rules, const tt_rule_subject *subject);

/* The word of this rule with this key, the first if there are several; NULL: none. */
const tt_rule_term *tt_rule_find(const tt_rule *rule, tt_rule_key key);

/* Does all of `name` match? Time: at most the product of the two lengths. */
bool tt_rule_glob(const char *glob, const char *name);

#endif
