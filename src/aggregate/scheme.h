/* SPDX-License-Identifier: Apache-2.0
 *
 * scheme.h - how the data of a call are coded, occurrence by occurrence.
 *
 * A scheme has one phase for each codec of a choice ("none@0,int8@500"), from an occurrence of the
 * tensor on. The phase is a program, which a request points to; so calls without a codec pay
 * nothing for it.
 *
 * Ranks compare schemes as a number, the code. It holds the first codec of the scheme that is not
 * `none`, and for several phases a hash of all of them. Phases are no part of the code: a tensor
 * keeps its place in a plan when the next phase begins.
 *
 * Layer:   aggregate.
 * Threads: const once made.
 * Memory:  none; the owner keeps a scheme as long as calls may refer to it.
 */
#ifndef TUTTI_AGGREGATE_SCHEME_H
#define TUTTI_AGGREGATE_SCHEME_H

#include "aggregate/stage.h"
#include "base/text.h"
#include "codec/codec.h"

typedef struct tt_scheme_phase {
    uint64_t first; /* occurrence */
    tt_codec_spec spec;
    tt_program program;
} tt_scheme_phase;

typedef struct tt_scheme {
    uint64_t code;    /* not 0 */
    bool keeps_state; /* of each tensor: residuals, or the number of its occurrences */
    uint32_t block;   /* the largest of its codecs'; 0: it has none */
    uint32_t phase_count;
    tt_scheme_phase phases[TT_RULE_PHASES_MAX];
} tt_scheme;

/* The scheme of a choice that is not plain. It must not move afterwards. */
void tt_scheme_make(tt_scheme *scheme, const tt_rule_choice *choice);
/* The scheme of a code that a peer sent; false: it has several phases, or is no code. */
bool tt_scheme_from_code(tt_scheme *scheme, uint64_t code);

/* The number of the phase of this occurrence. */
uint32_t tt_scheme_phase_at(const tt_scheme *scheme, uint64_t occurrence);
/* The code with the number of a phase in it. */
uint64_t tt_scheme_code_in(const tt_program *program);
/* Adds " coded by int8:block=512,ef=on", from any bytes. */
void tt_scheme_tell(tt_text *text, uint64_t code);

/* The codec that a call of this program on such members has; NULL: its data are sent as they are.
 * Between ranks of one host data are coded only if the codec says where=all. */
const tt_codec_spec *tt_program_codec(const tt_program *program, uint32_t size,
                                      const tt_topology *topology);

#endif
