/* SPDX-License-Identifier: Apache-2.0
 *
 * rules.h - which codec a tensor gets: rules with their codecs, ready to be looked up.
 *
 * Made once per job from a text of rules (rule_text.h) and one codec for all other gradients. The
 * codec of a rule is CODEC, or CODEC@STEP,CODEC@STEP...: each from that step on, the first at 0:
 * "none@0,int8:block=512@500".
 *
 * Rules (rules_test.c):
 *  (1) The first rule that a tensor meets decides, also where it leaves the tensor plain.
 *  (2) A tensor of at most `plain_bytes_max` bytes is plain, whatever rules say; so is one whose
 *      type no codec takes (not f32, f16 or bf16).
 *  (3) Plain is NULL, here and in each phase: codec none is never run, it would widen f16.
 *  (4) A rule may say sum= without a codec: its tensors are plain then.
 *  (5) Equal sources give equal choices, by index too: ranks that share the source may compare
 * them.
 *
 * Layer:   codec; may include base/ and kernel/.
 * Threads: pure; rules do not change once they are made.
 * Memory:  from the allocator, by tt_rules_create alone.
 */
#ifndef TUTTI_CODEC_RULES_H
#define TUTTI_CODEC_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/status.h"
#include "base/text.h"
#include "codec/rule_text.h"
#include "codec/spec.h"

enum { TT_RULE_PHASES_MAX = 8 };

typedef struct tt_rules tt_rules;

/* A codec, from a step on. */
typedef struct tt_rule_phase {
    uint64_t first_step;
    tt_codec_spec spec;
} tt_rule_phase;

/* What a tensor gets. It stays where it is until the rules are destroyed. */
typedef struct tt_rule_choice {
    uint32_t index; /* of the rule, from 0; the number of rules: the codec for all others */
    uint32_t line;  /* in the text of rules; 0: it comes from no line */
    bool is_plain;  /* in every phase */
    uint32_t phase_count;
    tt_rule_phase phases[TT_RULE_PHASES_MAX]; /* steps ascend, from 0 */
} tt_rule_choice;

typedef struct tt_rules_source {
    const char *text; /* of rules; need not end in a zero */
    size_t text_bytes;
    const char *text_name; /* for errors: "TUTTI_RULES=rules.txt" */
    const char *codec;     /* for gradients that meet no rule; "": none */
    uint64_t plain_bytes_max;
} tt_rules_source;

/* Rules of the source, of which nothing is kept; the caller destroys them. TT_ERR_BAD_CONFIG: `why`
 * has one sentence with source, line, what is wrong and the cure. TT_ERR_NO_MEMORY: likewise. */
tt_status tt_rules_create(const tt_rules_source *source, const tt_allocator *allocator,
                          tt_rules **rules_out, tt_text *why);
/* NULL is ignored. */
void tt_rules_destroy(tt_rules *rules);

/* A choice that no rule made: CODEC, or CODEC@STEP,CODEC@STEP... BAD_CONFIG: `why` says what is
 * wrong with it. */
tt_status tt_rule_choice_parse(const char *text, tt_rule_choice *choice_out, tt_text *why);

/* NULL: the tensor is plain. `rules` NULL: all are; `name` NULL: it has none. */
const tt_rule_choice *tt_rules_find(const tt_rules *rules, const char *name, uint64_t elements,
                                    tt_dtype dtype, bool is_gradient);

/* The setting sum= of the first rule that the tensor meets; `otherwise` if there is none. */
tt_rule_sum tt_rules_sum(const tt_rules *rules, const tt_rule_subject *subject,
                         tt_rule_sum otherwise);
/* Does some rule say sum=server? `rules` NULL: none. */
bool tt_rules_have_servers(const tt_rules *rules);

/* The codec of a choice in this step; NULL: plain. */
const tt_codec_spec *tt_rule_choice_at(const tt_rule_choice *choice, uint64_t step);

#endif
