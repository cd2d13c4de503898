/* SPDX-License-Identifier: Apache-2.0
 *
 * scheme.c - see scheme.h.
 *
 * A code: the packed spec in 24 bits, the number of a phase in 8, a hash of all phases in 32 (0:
 * one phase). */
#include "aggregate/scheme.h"

#include "base/assert.h"
#include "kernel/hash64.h"

enum { SPEC_BITS = 24, PHASE_BITS = 8 };

#define SPEC_MASK ((UINT64_C(1) << SPEC_BITS) - 1)
#define PHASE_MASK (((UINT64_C(1) << PHASE_BITS) - 1) << SPEC_BITS)

static bool is_plain(const tt_codec_spec *spec)
{
    const uint32_t lossy = TT_CODEC_UNBIASED | TT_CODEC_CONTRACTION | TT_CODEC_SUMMABLE;
    return (tt_codec_traits(spec) & lossy) == 0;
}

/* The spec that people are shown. */
static const tt_codec_spec *first_coded(const tt_scheme *scheme)
{
    uint32_t i = 0;
    while (i + 1 < scheme->phase_count && is_plain(&scheme->phases[i].spec)) {
        i++;
    }
    return &scheme->phases[i].spec;
}

static uint64_t code_of(const tt_scheme *scheme)
{
    uint64_t hash = 0;
    for (uint32_t i = 0; i < scheme->phase_count && scheme->phase_count > 1; i++) {
        const tt_scheme_phase *phase = &scheme->phases[i];
        hash = tt_hash64_mix(tt_hash64_mix(hash, phase->first), tt_codec_pack(&phase->spec));
        hash |= 1; /* not 0 */
    }
    return tt_codec_pack(first_coded(scheme)) | hash << 32;
}

static void add_phase(tt_scheme *scheme, uint64_t first, const tt_codec_spec *spec)
{
    TT_ASSERT(scheme->phase_count < TT_RULE_PHASES_MAX);
    tt_scheme_phase *phase = &scheme->phases[scheme->phase_count++];
    phase->first = first;
    phase->spec = *spec;
    phase->program = (tt_program){.scheme = scheme, .codec = is_plain(spec) ? NULL : &phase->spec};
    scheme->keeps_state = scheme->keeps_state || spec->has_feedback || scheme->phase_count > 1;
    if (!is_plain(spec) && spec->block > scheme->block) {
        scheme->block = spec->block;
    }
}

/* where=all of one codec holds for all: owners must not change from phase to phase. */
static void share_where(tt_scheme *scheme)
{
    bool is_everywhere = false;
    for (uint32_t i = 0; i < scheme->phase_count; i++) {
        is_everywhere = is_everywhere || scheme->phases[i].spec.is_everywhere;
    }
    for (uint32_t i = 0; i < scheme->phase_count; i++) {
        scheme->phases[i].spec.is_everywhere = is_everywhere;
    }
}

void tt_scheme_make(tt_scheme *scheme, const tt_rule_choice *choice)
{
    TT_ASSERT(choice->phase_count > 0 && choice->phase_count <= TT_RULE_PHASES_MAX);
    *scheme = (tt_scheme){.code = 0};
    for (uint32_t i = 0; i < choice->phase_count; i++) {
        add_phase(scheme, choice->phases[i].first_step, &choice->phases[i].spec);
    }
    share_where(scheme);
    scheme->code = code_of(scheme);
    TT_ASSERT((scheme->code & PHASE_MASK) == 0 && (scheme->code & SPEC_MASK) != 0);
}

bool tt_scheme_from_code(tt_scheme *scheme, uint64_t code)
{
    tt_codec_spec spec;
    if (code > SPEC_MASK || !tt_codec_unpack((uint32_t)code, &spec)) {
        return false;
    }
    *scheme = (tt_scheme){.code = code};
    add_phase(scheme, 0, &spec);
    TT_ASSERT(code_of(scheme) == code);
    return true;
}

uint32_t tt_scheme_phase_at(const tt_scheme *scheme, uint64_t occurrence)
{
    uint32_t i = 0;
    TT_ASSERT(scheme->phase_count > 0 && scheme->phases[0].first == 0);
    while (i + 1 < scheme->phase_count && scheme->phases[i + 1].first <= occurrence) {
        i++;
    }
    return i;
}

uint64_t tt_scheme_code_in(const tt_program *program)
{
    const tt_scheme *scheme = program->scheme;
    uint64_t number = 0;
    while (&scheme->phases[number].program != program) {
        number++;
        TT_ASSERT(number < scheme->phase_count);
    }
    return scheme->code | number << SPEC_BITS;
}

void tt_scheme_tell(tt_text *text, uint64_t code)
{
    char words[TT_CODEC_TEXT_BYTES] = "an unknown codec";
    tt_codec_spec spec;
    if (tt_codec_unpack((uint32_t)(code & SPEC_MASK), &spec)) {
        tt_codec_print(&spec, words);
    }
    tt_text_add(text, " coded by %s", words);
    if (code >> 32 != 0) {
        tt_text_add(text, " among others (schedule %08x, codec %u)", (unsigned)(code >> 32),
                    (unsigned)((code & PHASE_MASK) >> SPEC_BITS) + 1);
    }
}

const tt_codec_spec *tt_program_codec(const tt_program *program, uint32_t size,
                                      const tt_topology *topology)
{
    if (program == NULL || program->codec == NULL || size < 2) {
        return NULL;
    }
    const bool is_across = topology == NULL || topology->host_count > 1;
    return is_across || program->codec->is_everywhere ? program->codec : NULL;
}
