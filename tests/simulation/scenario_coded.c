/* SPDX-License-Identifier: Apache-2.0
 *
 * scenario_coded.c - additional draws of all seeds from SCENARIO_CODED on: sums that are coded, and
 * what ranks do to the state of codecs between calls.
 *
 * A tensor has one codec and one set in all of its calls, and one length until it is reset. In
 * unnamed programs some few tensors replace most of the calls. Ranks commit, undo, forget, save and
 * load at the same places of all programs, where none of their calls is in flight; not beside
 * joins, deadlines and cancels, after which a rank may have an op in flight that is no request of
 * it.
 *
 * From SCENARIO_TRACKED on codecs with error feedback have estimates (ef=21). Then no rank joins or
 * resets alone: such calls fail, as the tests of codecs check. Nor does a rank cancel, miss a
 * deadline or lack memory, since others may count a call that it does not.
 *
 * From a random stream of its own, and only in these seeds: other seeds keep their meaning. */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/philox.h"
#include "simulation/scenario.h"

enum {
    POOL_MAX = 4,
    LONG_PROGRAM = 60, /* calls: then tensors are shorter */
    LONG_COUNT_MAX = 300,
    SHORT_FRAME = 128,
    MANY_FRAMES = 700,
    GROWTH = 33,
};

static uint32_t below(tt_random *random, uint32_t limit)
{
    return (uint32_t)tt_random_below(random, limit);
}

static bool one_in(tt_random *random, uint32_t count)
{
    return below(random, count) == 0;
}

bool scenario_keeps_state(const scenario_call *call)
{
    return call->codec != NULL && call->codec->scheme.keeps_state;
}

/* Ranks that join cannot take part in calls with estimates. */
static bool is_tracked_seed(const scenario *drawn)
{
    return drawn->seed >= SCENARIO_TRACKED && !drawn->has_joins;
}

/* ---- codecs ---- */

typedef struct draw_limits {
    bool keep_state, have_phases;
} draw_limits;

static void draw_codec(tt_random *random, bool is_tracked, char *text, size_t bytes)
{
    static const char *const names[] = {"int8", "int8sum", "int4", "sign", "onebit", "e4m3",
                                        "e5m2", "natural", "qsgd", "fp16", "bf16"};
    static const char *const feedback[] = {"", ",ef=on", ",ef=on", ",ef=off"};
    static const uint32_t blocks[] = {16, 16, 32, 64, 512};
    tt_codec_spec spec;
    tt_text why = {0};
    do {
        char block[32] = "";
        if (!one_in(random, 4)) {
            (void)snprintf(block, sizeof(block), ",block=%u",
                           blocks[below(random, TT_ARRAY_COUNT(blocks))]);
        }
        const char *own = feedback[below(random, TT_ARRAY_COUNT(feedback))];
        const char *where = one_in(random, 8) ? "across" : "all";
        const char *name = names[below(random, TT_ARRAY_COUNT(names))];
        const bool has_owners = strcmp(name, "int8sum") != 0;
        if (is_tracked && strcmp(own, ",ef=off") != 0) {
            own = has_owners ? ",ef=21" : ",ef=off";
        }
        (void)snprintf(text, bytes, "%s:where=%s%s%s", name, where, block, own);
        tt_text_clear(&why);
    } while (tt_codec_parse(text, &spec, &why) != TT_OK);
}

static void draw_scheme(tt_random *random, bool is_tracked, bool may_have_phases,
                        char text[SCENARIO_CODEC_BYTES], tt_scheme *scheme)
{
    char first[TT_CODEC_TEXT_BYTES], second[TT_CODEC_TEXT_BYTES];
    tt_rule_choice choice;
    tt_text why = {0};
    draw_codec(random, is_tracked, first, sizeof(first));
    (void)snprintf(text, SCENARIO_CODEC_BYTES, "%s", first);
    if (may_have_phases && one_in(random, 3)) {
        draw_codec(random, is_tracked, second, sizeof(second));
        const uint32_t at = 1 + below(random, 5);
        const bool begins_plain = one_in(random, 2);
        (void)snprintf(text, SCENARIO_CODEC_BYTES, "%s@0,%s@%u", begins_plain ? "none" : first,
                       second, at);
    }
    const tt_status status = tt_rule_choice_parse(text, &choice, &why);
    TT_ASSERT(status == TT_OK);
    tt_scheme_make(scheme, &choice);
}

/* `other` keeps state if and only if the codec itself does, so that the call with it counts. */
static void draw_tensor_codec(const scenario *drawn, tt_random *random, draw_limits may,
                              scenario_codec *codec)
{
    char text[SCENARIO_CODEC_BYTES];
    const bool is_tracked = is_tracked_seed(drawn);
    do {
        draw_scheme(random, is_tracked, may.keep_state && may.have_phases, codec->text,
                    &codec->scheme);
    } while (codec->scheme.keeps_state && !may.keep_state);
    do {
        draw_scheme(random, is_tracked, codec->scheme.keeps_state, text, &codec->other);
    } while (codec->other.keeps_state != codec->scheme.keeps_state ||
             codec->other.code == codec->scheme.code);
}

/* ---- calls ---- */

/* True: the culprit counts the call as an occurrence, too, or no rank does. */
static bool flaw_is_counted(call_flaw flaw)
{
    return flaw == FLAW_CANCEL || flaw == FLAW_ARGUMENT || flaw == FLAW_CODEC || flaw == FLAW_APART;
}

static void flaw_adapt(scenario_call *call)
{
    const bool has_phases = call->codec->scheme.phase_count > 1;
    if (call->one.size < 2 || call->flaw == FLAW_ROOT ||
        (has_phases && !flaw_is_counted(call->flaw))) {
        call->flaw = FLAW_NONE;
    }
    call->culprit %= call->one.size;
}

static void draw_sum(const scenario *drawn, tt_random *random, scenario_call *call)
{
    static const uint32_t counts[] = {0, 1, 5, 16, 17, 40, 63, 64, 200, 700, 1500, 3000};
    static const tt_dtype dtypes[] = {TT_F32, TT_F32, TT_F32, TT_F32, TT_F16, TT_BF16};
    collective_case *one = &call->one;
    const bool may_scatter = !drawn->has_joins && call->group_size == 0;
    one->collective = may_scatter && one_in(random, 8) ? TT_REDUCESCATTER : TT_ALLREDUCE;
    one->dtype = dtypes[below(random, TT_ARRAY_COUNT(dtypes))];
    one->redop = one_in(random, 3) ? TT_AVERAGE : TT_SUM;
    one->count = counts[below(random, TT_ARRAY_COUNT(counts))];
    one->prescale = one_in(random, 6) ? 2.0 : 1.0;
    one->postscale = one_in(random, 6) ? 0.5 : 1.0;
    one->is_in_place = one->collective == TT_ALLREDUCE && one_in(random, 3);
    one->is_uneven = false;
    one->is_rounding = true;
    one->root = 0;
    one->program = NULL;
    if (drawn->call_count > LONG_PROGRAM) {
        one->count %= LONG_COUNT_MAX;
    }
    if (drawn->control.segment_bytes <= SHORT_FRAME) {
        one->count %= MANY_FRAMES;
    }
    if (one->collective == TT_REDUCESCATTER) {
        one->count %= LONG_COUNT_MAX;
    }
}

/* The call becomes one of the same tensor as `like`, with its own values. */
static void make_like(scenario_call *call, const scenario_call *like)
{
    const uint64_t salt = call->one.salt;
    call->one = like->one;
    call->one.salt = salt;
    call->set = like->set;
    call->codec = like->codec;
    call->foreign = call->foreign > call->one.size ? 0 : call->foreign;
    flaw_adapt(call);
}

/* ---- programs ---- */

/* A rank that has joined knows the phases of a tensor if it has called it. */
static bool all_call_first(const scenario *drawn)
{
    bool all = true;
    for (uint32_t rank = 0; rank < drawn->size; rank++) {
        all = all && drawn->rank_steps[0][rank] > 0;
    }
    return all || !drawn->has_joins;
}

static void code_named(scenario *drawn, tt_random *random)
{
    const bool may_have_phases = all_call_first(drawn);
    for (uint32_t t = 0; t < drawn->tensor_count; t++) {
        scenario_call like = drawn->calls[t];
        if (one_in(random, 4)) {
            continue; /* plain */
        }
        draw_sum(drawn, random, &like);
        draw_tensor_codec(drawn, random, (draw_limits){true, may_have_phases}, &drawn->codecs[t]);
        like.codec = &drawn->codecs[t];
        for (uint32_t i = t; i < drawn->call_count; i += drawn->tensor_count) {
            make_like(&drawn->calls[i], &like);
        }
    }
}

static void code_unnamed(scenario *drawn, tt_random *random)
{
    scenario_call pool[POOL_MAX];
    const uint32_t pool_count = 1 + below(random, POOL_MAX);
    const bool may_keep_state = !one_in(random, 3);
    for (uint32_t i = 0; i < pool_count; i++) {
        scenario_call *like = &pool[i];
        *like = (scenario_call){.set = below(random, drawn->set_count)};
        like->one.size = drawn->set_size[like->set];
        draw_sum(drawn, random, like);
        draw_tensor_codec(drawn, random, (draw_limits){may_keep_state, true}, &drawn->codecs[i]);
        like->codec = &drawn->codecs[i];
        drawn->is_shuffled = drawn->is_shuffled && !scenario_keeps_state(like);
    }
    for (uint32_t i = 0; i < drawn->call_count; i++) {
        scenario_call *call = &drawn->calls[i];
        if (call->one.collective != TT_SEND && !one_in(random, 4)) {
            call->tensor = below(random, pool_count);
            make_like(call, &pool[call->tensor]);
        }
    }
}

/* Some calls have another codec on one rank. */
static void draw_other_codecs(scenario *drawn, tt_random *random)
{
    const uint32_t rate = one_in(random, 2) ? 20 : 0;
    for (uint32_t i = 0; i < drawn->call_count && rate > 0 && !drawn->has_joins; i++) {
        scenario_call *call = &drawn->calls[i];
        if (call->codec != NULL && call->one.size > 1 && call->flaw == FLAW_NONE &&
            call->deadline_ns == 0 && one_in(random, rate)) {
            call->flaw = FLAW_CODEC;
            call->culprit = below(random, call->one.size);
        }
    }
}

/* ---- acts ---- */

static void drop_other_trouble(scenario *drawn)
{
    drawn->starve_after = 0;
    drawn->nests = false; /* no act from inside an upcall */
    drawn->is_shuffled = drawn->is_shuffled && drawn->is_named;
    for (uint32_t i = 0; i < drawn->call_count; i++) {
        scenario_call *call = &drawn->calls[i];
        call->deadline_ns = 0;
        call->is_recalled = false;
        call->flaw = call->flaw == FLAW_CODEC ? FLAW_CODEC : FLAW_NONE;
    }
}

/* No call ends otherwise on one rank than on others that live. */
static void drop_lone_trouble(scenario *drawn)
{
    drawn->starve_after = 0;
    for (uint32_t i = 0; i < drawn->call_count; i++) {
        scenario_call *call = &drawn->calls[i];
        call->deadline_ns = 0;
        call->is_recalled = false;
        call->flaw = call->flaw == FLAW_CANCEL ? FLAW_NONE : call->flaw;
    }
}

/* Calls of a tensor after a rank alone has forgotten the earlier ones: they fail while that rank is
 * in another phase. */
static void find_drift(scenario *drawn, uint32_t tensor, uint32_t rank)
{
    uint64_t counted = 0, counted_there = 0;
    uint32_t acts = 0, member;
    for (uint32_t i = 0; i < drawn->call_count; i++) {
        scenario_call *call = &drawn->calls[i];
        const uint32_t place = drawn->is_named ? call->step : i;
        for (; acts < drawn->act_count && drawn->acts[acts].before <= place; acts++) {
            const act_kind kind = drawn->acts[acts].kind;
            counted = kind == ACT_RESET ? 0 : counted;
            counted_there = kind == ACT_RESET || kind == ACT_DRIFT ? 0 : counted_there;
        }
        if (!scenario_keeps_state(call) || call->tensor != tensor) {
            continue;
        }
        const tt_scheme *scheme = &call->codec->scheme;
        if (tt_scheme_phase_at(scheme, counted++) != tt_scheme_phase_at(scheme, counted_there++) &&
            call->one.size > 1 && scenario_is_member(drawn, call->set, rank, &member)) {
            call->flaw = FLAW_DRIFT;
            call->culprit = member;
        }
    }
}

/* After every reset tensors may be longer: no residual of the old length is left. */
static void draw_growth(scenario *drawn)
{
    for (uint32_t k = 0; k < drawn->act_count; k++) {
        const scenario_act *act = &drawn->acts[k];
        for (uint32_t i = 0; i < drawn->call_count && act->kind == ACT_RESET; i++) {
            scenario_call *call = &drawn->calls[i];
            const uint32_t place = drawn->is_named ? call->step : i;
            call->one.count += call->codec != NULL && place >= act->before ? GROWTH : 0;
        }
    }
}

/* A message may be received by the next call: a rank that waits for it could wait for itself. */
static bool has_messages(const scenario *drawn)
{
    bool has_messages = false;
    for (uint32_t i = 0; i < drawn->call_count; i++) {
        has_messages = has_messages || drawn->calls[i].tag != 0;
    }
    return has_messages;
}

/* Parts of a group are agreed on together, and run one by one: one may drift alone. */
static bool has_groups(const scenario *drawn)
{
    bool has_groups = drawn->control.groups > 0;
    for (uint32_t i = 0; i < drawn->call_count; i++) {
        has_groups = has_groups || drawn->calls[i].group_size > 0;
    }
    return has_groups;
}

static void draw_acts(scenario *drawn, tt_random *random)
{
    const uint32_t places = drawn->is_named ? drawn->steps_per_phase : drawn->call_count;
    const uint32_t drifter = below(random, drawn->size);
    uint32_t before = 0;
    const bool may_drift = !has_groups(drawn) && !is_tracked_seed(drawn);
    bool drifts = false;
    drop_other_trouble(drawn);
    while (drawn->act_count < SCENARIO_ACTS_MAX && before < places) {
        scenario_act *act = &drawn->acts[drawn->act_count];
        before += 1 + below(random, places / 2 + 1);
        act->kind = (act_kind)below(random, ACT_KIND_COUNT);
        act->before = before;
        act->rank = drifter;
        if (act->kind != ACT_DRIFT || (may_drift && !drifts)) {
            drawn->act_count++;
            drifts = drifts || act->kind == ACT_DRIFT;
        }
    }
    /* A call with another codec may fail before it is an op: then no rank counts it. */
    for (uint32_t i = 0; i < drawn->call_count && drifts; i++) {
        drawn->calls[i].flaw = FLAW_NONE;
    }
    for (uint32_t t = 0; t < SCENARIO_TENSORS_MAX; t++) {
        find_drift(drawn, t, drifter);
    }
    if (one_in(random, 2)) {
        draw_growth(drawn);
    }
}

/* ---- all ---- */

void scenario_add_codecs(scenario *drawn)
{
    tt_random random;
    bool has_phases = false, has_flaws = false;
    tt_random_init(&random, drawn->seed, 100);
    if (is_tracked_seed(drawn)) {
        drop_lone_trouble(drawn);
    }
    if (drawn->is_named) {
        code_named(drawn, &random);
    } else {
        code_unnamed(drawn, &random);
    }
    draw_other_codecs(drawn, &random);
    if (!drawn->has_joins && !has_messages(drawn) && one_in(&random, 3)) {
        draw_acts(drawn, &random);
    }
    for (uint32_t i = 0; i < drawn->call_count; i++) {
        const scenario_codec *codec = drawn->calls[i].codec;
        has_phases = has_phases || (codec != NULL && codec->scheme.phase_count > 1);
        has_flaws = has_flaws || drawn->calls[i].flaw != FLAW_NONE;
    }
    drawn->leaves_early = drawn->leaves_early && !has_flaws; /* a rank that left makes no claim */
    drawn->starve_after = has_phases ? 0 : drawn->starve_after; /* a call may not be counted */
}
