/* SPDX-License-Identifier: Apache-2.0
 *
 * scenario.c - see scenario.h. Each seed switches some dimensions off (a swarm), so that rare
 * combinations are not drowned by common ones. */
#include "simulation/scenario.h"

#include <stdio.h>
#include <string.h>

#include "aggregate/registry.h"
#include "base/base.h"
#include "base/philox.h"

#define MS UINT64_C(1000000)

static uint32_t below(tt_random *random, uint32_t limit)
{
    return (uint32_t)tt_random_below(random, limit);
}

static bool one_in(tt_random *random, uint32_t count)
{
    return below(random, count) == 0;
}

/* ---- ranks and sets ---- */

static void draw_places(scenario *drawn, tt_random *random)
{
    drawn->size = 1 + below(random, SCENARIO_SIZE_MAX);
    if (drawn->size == 1 && !one_in(random, 4)) {
        drawn->size = 2;
    }
    const uint32_t host_count = 1 + below(random, 3);
    for (uint32_t i = 0; i < drawn->size; i++) {
        drawn->host_of[i] = one_in(random, 3) ? below(random, host_count) : i % host_count;
    }
    drawn->set_count = 1 + below(random, SCENARIO_SETS_MAX);
    for (uint32_t set = 0; set < drawn->set_count; set++) {
        uint32_t *members = drawn->members[set];
        for (uint32_t i = 0; i < drawn->size; i++) {
            members[i] = i;
        }
        drawn->set_size[set] = drawn->size;
        if (set == 0) {
            continue;
        }
        for (uint32_t i = drawn->size; i > 1; i--) { /* shuffle */
            const uint32_t j = below(random, i);
            const uint32_t kept = members[i - 1];
            members[i - 1] = members[j];
            members[j] = kept;
        }
        drawn->set_size[set] = 1 + below(random, drawn->size);
    }
}

/* ---- calls ---- */

static bool is_reduction(tt_collective collective)
{
    return collective == TT_ALLREDUCE || collective == TT_REDUCE || collective == TT_REDUCESCATTER;
}

static bool is_rooted(tt_collective collective)
{
    return collective == TT_REDUCE || collective == TT_BROADCAST || collective == TT_GATHER ||
           collective == TT_SCATTER;
}

static bool flaw_fits(const scenario_call *call, uint32_t size)
{
    const tt_collective collective = call->one.collective;
    if (size < 2 || call->one.is_uneven) {
        return call->flaw == FLAW_CANCEL && size >= 2;
    }
    switch (call->flaw) {
    case FLAW_REDOP:
        return is_reduction(collective);
    case FLAW_ROOT:
        return is_rooted(collective);
    case FLAW_COUNT:
    case FLAW_DTYPE:
        return collective != TT_BARRIER;
    case FLAW_KIND:
    case FLAW_ARGUMENT:
        return collective != TT_SEND;
    default:
        return true;
    }
}

static tt_collective draw_collective(tt_random *random, uint32_t size)
{
    static const tt_collective some[] = {TT_ALLREDUCE,     TT_ALLREDUCE, TT_ALLREDUCE, TT_REDUCE,
                                         TT_BROADCAST,     TT_ALLGATHER, TT_GATHER,    TT_SCATTER,
                                         TT_REDUCESCATTER, TT_ALLTOALL,  TT_BARRIER,   TT_SEND};
    const tt_collective collective = some[below(random, TT_ARRAY_COUNT(some))];
    return collective == TT_SEND && size == 1 ? TT_BARRIER : collective;
}

static void draw_call(scenario *drawn, tt_random *random, uint32_t flaw_rate, uint32_t index)
{
    static const uint32_t counts[] = {0, 1, 5, 16, 63, 200, 700, 2500, 7000};
    static const tt_dtype dtypes[] = {TT_F32, TT_F32, TT_F64, TT_I32, TT_U8, TT_BF16};
    scenario_call *call = &drawn->calls[index];
    call->set = below(random, drawn->set_count);
    const uint32_t size = drawn->set_size[call->set];
    call->one = (collective_case){
        .collective = draw_collective(random, size),
        .dtype = dtypes[below(random, TT_ARRAY_COUNT(dtypes))],
        .redop = (tt_redop)below(random, TT_PRODUCT),
        .size = size,
        .count = counts[below(random, TT_ARRAY_COUNT(counts))],
        .prescale = one_in(random, 8) ? 2.0 : 1.0,
        .postscale = one_in(random, 8) ? 0.5 : 1.0,
        .salt = drawn->seed * 1000 + index,
    };
    const tt_collective collective = call->one.collective;
    call->one.root = is_rooted(collective) ? below(random, size) : 0;
    call->one.is_uneven =
        (collective == TT_ALLGATHER || collective == TT_GATHER || collective == TT_SCATTER ||
         collective == TT_ALLTOALL || collective == TT_REDUCESCATTER) &&
        one_in(random, 3);
    call->one.is_in_place = (collective == TT_ALLREDUCE || collective == TT_REDUCE ||
                             collective == TT_BROADCAST || collective == TT_ALLGATHER) &&
                            one_in(random, 3);
    if (!is_reduction(collective)) {
        call->one.prescale = call->one.postscale = 1.0;
    }
    call->urgency = (int32_t)below(random, 5) - 2;
    call->is_shared = one_in(random, 2) && drawn->sim.has_views;
    call->culprit = below(random, size);
    call->flaw = flaw_rate > 0 && one_in(random, flaw_rate)
                     ? (call_flaw)(1 + below(random, FLAW_COUNT_ - 1))
                     : FLAW_NONE;
    if (!flaw_fits(call, size)) {
        call->flaw = FLAW_NONE;
    }
}

static void draw_program(scenario *drawn, tt_random *random)
{
    const uint32_t flaw_rate = one_in(random, 2) ? 0 : 3;
    drawn->call_count = 1 + below(random, 14);
    const bool is_crowd = one_in(random, 60);
    if (is_crowd) { /* more calls than places in the order window */
        drawn->call_count = 300 + below(random, 300);
    }
    for (uint32_t i = 0; i < drawn->call_count; i++) {
        draw_call(drawn, random, flaw_rate, i);
        if (is_crowd) {
            scenario_call *call = &drawn->calls[i];
            call->one.count = call->one.count % 7;
            call->flaw = i % 37 == 0 ? call->flaw : FLAW_NONE;
        }
    }
    drawn->window = one_in(random, 3) ? 1 + below(random, 4) : 0;
    drawn->is_shuffled = drawn->window == 0 && one_in(random, 2);
    static const uint64_t gaps[] = {0, 0, 1000, 100 * 1000, 20 * 1000 * 1000, 400 * 1000 * 1000};
    drawn->gap_ns = gaps[below(random, TT_ARRAY_COUNT(gaps))];
}

/* ---- settings and faults ---- */

static const uint32_t segments[] = {64, 128, 192, 1024, 40 * 1024};

static void draw_config(scenario *drawn, tt_random *random)
{
    static const uint32_t eager[] = {0, 64, 128, 1024, 4096};
    tt_control_config_init(&drawn->control);
    drawn->control.segment_bytes = segments[below(random, TT_ARRAY_COUNT(segments))];
    drawn->control.eager_bytes_max = eager[below(random, TT_ARRAY_COUNT(eager))];
    drawn->control.probe_ns = 100 * MS;
    drawn->control.verdict_ns = 500 * MS;
    drawn->control.stall_ns = 5000 * MS;
    size_t algorithm_count = 0;
    while (tt_algorithm_at(algorithm_count) != NULL) {
        algorithm_count++;
    }
    if (one_in(random, 2)) {
        drawn->control.algorithm = tt_algorithm_at(below(random, (uint32_t)algorithm_count))->name;
    }
    tt_sim_config_init(&drawn->sim);
    drawn->sim.size = drawn->size;
    drawn->sim.seed = drawn->seed;
    drawn->sim.host_of = drawn->host_of;
    drawn->sim.has_views = !one_in(random, 4);
    drawn->sim.borrow = below(random, 3) * 500;
    if (one_in(random, 2)) {
        drawn->sim.noise.spike = below(random, 200);
        drawn->sim.noise.reorder = below(random, 500);
        drawn->sim.noise.drop = below(random, 30);
        drawn->sim.noise.resend_ns = 30 * MS;
    }
}

/* From a random stream of its own: the other draws of a seed keep their meaning. */
static void draw_pace(scenario *drawn)
{
    static const uint64_t credits[] = {0, 1, 300, 5000, 60000};
    tt_random random;
    tt_random_init(&random, drawn->seed, 78);
    tt_control_config *control = &drawn->control;
    control->is_paced = one_in(&random, 2);
    control->is_fifo = one_in(&random, 4);
    control->credit_bytes = credits[below(&random, TT_ARRAY_COUNT(credits))];
    if (control->is_paced && one_in(&random, 2)) {
        for (uint32_t i = 0; i < drawn->call_count; i++) {
            drawn->calls[i].urgency = (int32_t)below(&random, 1000) - 500;
        }
    }
}

static void draw_faults(scenario *drawn, tt_random *random)
{
    drawn->leaves_early = one_in(random, 3);
    for (uint32_t i = 0; i < drawn->call_count; i++) { /* a rank that left makes no claim */
        drawn->leaves_early = drawn->leaves_early && drawn->calls[i].flaw == FLAW_NONE;
    }
    drawn->has_stale = one_in(random, 4);
    drawn->has_duplicates = one_in(random, 8);
    if (one_in(random, 2) || drawn->size < 2) {
        return;
    }
    static const uint64_t spans[] = {100 * 1000, 2 * 1000 * 1000, 100 * 1000 * 1000};
    const uint64_t span = spans[below(random, TT_ARRAY_COUNT(spans))];
    drawn->fault_count = 1 + below(random, SCENARIO_FAULTS_MAX - 1);
    for (uint32_t i = 0; i < drawn->fault_count; i++) {
        scenario_fault *fault = &drawn->faults[i];
        fault->kind = (fault_kind)below(random, FAULT_KIND_COUNT);
        if (fault->kind == FAULT_SEVER && !one_in(random, 3)) {
            fault->kind = FAULT_KILL;
        }
        fault->at_ns = 1 + tt_random_below(random, span);
        fault->duration_ns = 1 + tt_random_below(random, 3000 * MS);
        fault->a = below(random, drawn->size);
        fault->b = (fault->a + 1 + below(random, drawn->size - 1)) % drawn->size;
    }
}

/* From some seed on: one host whose ranks repeat a call in shared memory, so that it is not laid
 * out again, with others and wrong ones in between. */
static void draw_repeats(scenario *drawn)
{
    tt_random random;
    tt_random_init(&random, drawn->seed, 79);
    drawn->sim.has_views = true;
    drawn->sim.post = 900;
    drawn->control.is_paced = one_in(&random, 8);
    drawn->control.eager_bytes_max = one_in(&random, 8) ? 0 : 4096;
    drawn->call_count = 4 + drawn->call_count % 32;
    drawn->window = 1 + below(&random, 3);
    drawn->is_shuffled = false;
    memset(drawn->host_of, 0, sizeof(drawn->host_of));
    for (uint32_t i = 0; i < drawn->call_count; i++) {
        scenario_call *call = &drawn->calls[i];
        if (i == 0 || one_in(&random, 8)) {
            draw_call(drawn, &random, 0, i);
            call->set = one_in(&random, 8) ? call->set : 0;
            if (call->one.collective == TT_SEND) {
                call->one.collective = TT_ALLREDUCE;
            }
            call->one.size = drawn->set_size[call->set];
            call->one.root = call->one.root % call->one.size;
            call->culprit = call->culprit % call->one.size;
            call->one.is_uneven = false;
            call->one.prescale = 1.0;
        } else {
            *call = drawn->calls[i - 1];
            call->flaw = FLAW_NONE;
        }
        call->is_shared = !one_in(&random, 16);
        call->foreign = one_in(&random, 8) ? 1 + below(&random, call->one.size) : 0;
        call->one.salt = drawn->seed * 1000 + i;
        if (one_in(&random, 12)) {
            call->flaw = (call_flaw)(1 + below(&random, FLAW_COUNT_ - 1));
            call->culprit = below(&random, call->one.size);
            call->flaw = flaw_fits(call, call->one.size) ? call->flaw : FLAW_NONE;
        }
    }
}

/* True: a seed from `first` on is of the special kind that begins there; of wide ones one in
 * four. */
static bool is_special(uint64_t seed, uint64_t first)
{
    return seed >= first && (seed < SCENARIO_WIDE || seed % 4 == 3);
}

void scenario_draw(scenario *drawn, uint64_t seed)
{
    tt_random random;
    memset(drawn, 0, sizeof(*drawn));
    tt_random_init(&random, seed, 77);
    drawn->seed = seed;
    draw_places(drawn, &random);
    draw_config(drawn, &random);
    draw_program(drawn, &random);
    if (is_special(seed, SCENARIO_REPEATS)) {
        draw_repeats(drawn);
    }
    draw_faults(drawn, &random);
    if (!is_special(seed, SCENARIO_REPEATS)) {
        draw_pace(drawn);
    }
    if (seed >= SCENARIO_WIDE) {
        scenario_widen(drawn);
    }
    drawn->removes_sets = seed >= SCENARIO_REMOVES;
    if (is_special(seed, SCENARIO_ROTATES)) {
        scenario_rotate(drawn);
    } else if (seed >= SCENARIO_ANY) {
        scenario_add_any(drawn);
    }
    if (seed >= SCENARIO_PROGRAMS) {
        scenario_add_programs(drawn);
    }
    if (seed >= SCENARIO_CODED) {
        scenario_add_codecs(drawn);
    }
}

/* ---- named tensors ---- */

static void draw_negotiation(scenario *drawn, tt_random *random)
{
    static const uint32_t capacities[] = {0, 2, 5, 1024};
    static const uint64_t fuse[] = {0, 64, 64 * 1024};
    static const uint64_t bundles[] = {128, 1024, 2 * 1024 * 1024};
    tt_negotiate_config *negotiate = &drawn->control.negotiate;
    negotiate->mode = one_in(random, 2)
                          ? TT_NEGOTIATE_PLAN /* auto, which plans as well */
                          : (tt_negotiate_mode)below(random, TT_NEGOTIATE_ORIGINAL + 1);
    negotiate->capacity = capacities[below(random, TT_ARRAY_COUNT(capacities))];
    negotiate->steps_to_plan = 1 + below(random, 3);
    negotiate->stall_ns = 5000 * MS;
    drawn->control.fuse_bytes = fuse[below(random, TT_ARRAY_COUNT(fuse))];
    drawn->control.bundle_bytes = bundles[below(random, TT_ARRAY_COUNT(bundles))];
    drawn->control.staged_max = one_in(random, 3) ? 1 : 32;
}

/* All calls of a tensor equal the first except in their values; some change their length. */
static void draw_steps(scenario *drawn, tt_random *random, uint32_t flaw_rate)
{
    const uint32_t step_count = drawn->steps_per_phase * drawn->phase_count;
    const bool has_groups = drawn->is_shuffled && one_in(random, 3);
    const bool has_unnamed = !drawn->has_joins && one_in(random, 3);
    uint32_t change_at[SCENARIO_TENSORS_MAX];
    const uint32_t group_size = has_groups ? 2 + below(random, 3) : 0;
    for (uint32_t t = 0; t < drawn->tensor_count; t++) {
        scenario_call *call = &drawn->calls[t];
        do {
            draw_call(drawn, random, 0, t);
        } while (call->one.collective == TT_SEND ||
                 (drawn->has_joins && call->one.collective != TT_ALLREDUCE &&
                  call->one.collective != TT_REDUCE));
        call->is_named = !(has_unnamed && one_in(random, 4)) || t < group_size;
        call->tensor = t;
        if (t > 0 && t < group_size) { /* a group is of one set */
            call->set = drawn->calls[0].set;
            call->one.size = drawn->set_size[call->set];
            call->one.root = 0;
            call->culprit %= call->one.size;
        }
        call->group_size = group_size <= drawn->tensor_count && t < group_size ? group_size : 0;
        change_at[t] = one_in(random, 3) ? below(random, step_count) : UINT32_MAX;
    }
    drawn->call_count = drawn->tensor_count * step_count;
    for (uint32_t i = drawn->tensor_count; i < drawn->call_count; i++) {
        drawn->calls[i] = drawn->calls[i % drawn->tensor_count];
        drawn->calls[i].step = i / drawn->tensor_count;
    }
    for (uint32_t i = 0; i < drawn->call_count; i++) {
        scenario_call *call = &drawn->calls[i];
        call->one.salt = drawn->seed * 1000 + i;
        call->one.count += call->step >= change_at[call->tensor] ? 3 : 0;
        call->culprit = below(random, call->one.size);
        call->flaw = flaw_rate > 0 && one_in(random, flaw_rate)
                         ? (call_flaw)(1 + below(random, FLAW_COUNT_ - 1))
                         : FLAW_NONE;
        if (!flaw_fits(call, call->one.size)) {
            call->flaw = FLAW_NONE;
        }
    }
}

static void draw_named_program(scenario *drawn, tt_random *random)
{
    static const uint64_t gaps[] = {0, 0, 1000, 100 * 1000, 20 * 1000 * 1000};
    drawn->is_named = true;
    drawn->has_joins = one_in(random, 3);
    drawn->tensor_count = 1 + below(random, SCENARIO_TENSORS_MAX);
    drawn->steps_per_phase = 1 + below(random, 9);
    drawn->phase_count = drawn->has_joins ? 1 + below(random, SCENARIO_PHASES_MAX) : 1;
    drawn->window = one_in(random, 6) ? 1 + below(random, 4) : 0;
    drawn->is_shuffled = drawn->window == 0;
    drawn->gap_ns = gaps[below(random, TT_ARRAY_COUNT(gaps))];
    if (drawn->has_joins) {
        drawn->set_count = 1;
    }
    for (uint32_t phase = 0; phase < SCENARIO_PHASES_MAX; phase++) {
        for (uint32_t rank = 0; rank < drawn->size; rank++) {
            drawn->rank_steps[phase][rank] = drawn->has_joins
                                                 ? below(random, drawn->steps_per_phase + 1)
                                                 : drawn->steps_per_phase;
        }
    }
    draw_steps(drawn, random, drawn->has_joins || one_in(random, 2) ? 0 : 12);
}

static void draw_alike(scenario *drawn, tt_random *random)
{
    static const uint64_t late_ns[] = {100 * 1000, 2 * MS, 50 * MS};
    drawn->control.negotiate.mode = one_in(random, 2) ? TT_NEGOTIATE_PLAN : TT_NEGOTIATE_AUTO;
    drawn->control.negotiate.capacity = 1024;
    drawn->control.fuse_bytes = 64 * 1024;
    drawn->control.late_ns = late_ns[below(random, TT_ARRAY_COUNT(late_ns))];
    drawn->window = one_in(random, 2) ? 1 + below(random, 3) : 0;
    drawn->windowless = drawn->window > 0 ? 1 + below(random, drawn->size) : 0;
    drawn->is_shuffled = true;
    for (uint32_t i = 0; i < drawn->call_count; i++) {
        scenario_call *call = &drawn->calls[i];
        const scenario_call *first = &drawn->calls[i % drawn->tensor_count];
        call->set = 0;
        call->is_named = true;
        call->group_size = 0;
        call->one.collective = TT_ALLREDUCE;
        call->one.dtype = TT_F32;
        call->one.redop = TT_SUM;
        call->one.prescale = call->one.postscale = 1.0;
        call->one.size = drawn->set_size[0];
        call->one.root = 0;
        call->one.is_uneven = false;
        call->one.is_in_place = first->one.is_in_place;
        call->one.count = call->one.count % 300 + 1;
        call->culprit %= call->one.size;
        call->flaw = flaw_fits(call, call->one.size) ? call->flaw : FLAW_NONE;
    }
}

/* Automatic groups, in every fifth program: sums in all modes. */
static void draw_groups(scenario *drawn)
{
    tt_random random;
    const tt_negotiate_mode mode = drawn->control.negotiate.mode;
    tt_random_init(&random, drawn->seed, 79);
    if (!one_in(&random, 5)) {
        return;
    }
    if (!is_special(drawn->seed, SCENARIO_ALIKE_FIRST)) {
        draw_alike(drawn, &random);
        drawn->control.negotiate.mode = mode;
    }
    drawn->control.groups = one_in(&random, 2) ? UINT32_MAX : 1 + below(&random, 4);
}

/* A user's group of small sums beside others, in every seventh program: a plan fuses them. */
static void draw_small_group(scenario *drawn)
{
    tt_random random;
    tt_random_init(&random, drawn->seed, 92);
    if (!one_in(&random, 7) || drawn->control.groups > 0 || drawn->tensor_count < 3) {
        return;
    }
    draw_alike(drawn, &random);
    drawn->window = drawn->windowless = 0; /* waiting for a member is waiting for its group */
    const uint32_t group_size = 2 + below(&random, drawn->tensor_count - 2);
    for (uint32_t i = 0; i < drawn->call_count; i++) {
        const bool is_member = i % drawn->tensor_count < group_size;
        drawn->calls[i].group_size = is_member ? group_size : 0;
    }
}

/* In some programs with groups a rank submits, in one step, the tensors without their group. */
static void draw_apart(scenario *drawn)
{
    tt_random random;
    tt_random_init(&random, drawn->seed, 81);
    const uint32_t step = below(&random, drawn->steps_per_phase * drawn->phase_count);
    scenario_call *first = &drawn->calls[step * drawn->tensor_count];
    if (first->group_size == 0 || first->one.size < 2 || drawn->has_joins || !one_in(&random, 2)) {
        return;
    }
    for (uint32_t i = 0; i < first->group_size; i++) {
        first[i].flaw = FLAW_APART;
        first[i].culprit = first->culprit;
    }
}

/* In every third program, and in those with FLAW_APART, the fusion threshold changes at some
 * step. */
static void draw_tuned(scenario *drawn)
{
    static const uint64_t small[] = {0, 64, 300, 700, 64 * 1024};
    tt_random random;
    tt_random_init(&random, drawn->seed, 93);
    const uint32_t steps = drawn->steps_per_phase * drawn->phase_count;
    const bool is_tuned = one_in(&random, 3) || drawn->control.groups > 0;
    drawn->tuned_step = is_tuned ? below(&random, steps) : 0;
    drawn->tuned_bytes = small[below(&random, TT_ARRAY_COUNT(small))];
}

/* Approximate number of frames for the payload of all calls. */
static uint64_t frames_of(const scenario *drawn)
{
    uint64_t frames = 0;
    for (uint32_t i = 0; i < drawn->call_count; i++) {
        const collective_case *one = &drawn->calls[i].one;
        const uint64_t bytes = one->count * tt_dtype_bytes(one->dtype);
        const bool is_pieces = one->collective == TT_ALLGATHER || one->collective == TT_ALLTOALL ||
                               one->collective == TT_REDUCESCATTER;
        const uint64_t per_rank = bytes * (is_pieces ? one->size : 2);
        frames += one->size * (per_rank / drawn->control.segment_bytes + 1);
    }
    return frames;
}

/* Steps repeat their tensors: in small segments long ones cost millions of events that find no more
 * faults. Segments are then larger, from the same list. */
static void bound_frames(scenario *drawn)
{
    enum { FRAMES_MAX = 10000 };
    for (size_t i = 0; i < TT_ARRAY_COUNT(segments) && frames_of(drawn) > FRAMES_MAX; i++) {
        if (segments[i] > drawn->control.segment_bytes) {
            drawn->control.segment_bytes = segments[i];
        }
    }
}

/* Not beside callbacks that submit: steps end between the same two calls on all ranks. */
static bool has_steps(uint64_t seed)
{
    return seed >= SCENARIO_STEPS && seed < SCENARIO_NESTS;
}

void scenario_draw_named(scenario *drawn, uint64_t seed)
{
    tt_random random;
    memset(drawn, 0, sizeof(*drawn));
    tt_random_init(&random, seed, 80);
    drawn->seed = seed;
    draw_places(drawn, &random);
    draw_config(drawn, &random);
    draw_negotiation(drawn, &random);
    draw_named_program(drawn, &random);
    if (is_special(seed, SCENARIO_ALIKE_FIRST) || (seed >= SCENARIO_NESTS && seed % 4 < 2)) {
        draw_alike(drawn, &random);
    }
    draw_groups(drawn);
    draw_small_group(drawn);
    if (drawn->is_named) {
        draw_apart(drawn);
    }
    draw_tuned(drawn);
    draw_faults(drawn, &random);
    draw_pace(drawn);
    if (seed >= SCENARIO_WIDE) {
        scenario_widen(drawn);
    }
    if (has_steps(seed)) {
        scenario_add_steps(drawn);
    }
    bound_frames(drawn);
    if (has_steps(seed)) {
        scenario_add_ranges(drawn);
    }
    drawn->removes_sets = seed >= SCENARIO_REMOVES;
    if (seed >= SCENARIO_NESTS) {
        drawn->control.spread_bytes = 512;
        drawn->nests =
            drawn->control.groups == 0; /* a group's name is in use until all have ended */
        for (uint32_t i = 0; i < drawn->call_count; i++) {
            drawn->nests = drawn->nests && drawn->calls[i].group_size == 0;
        }
    }
    if (seed >= SCENARIO_CODED) {
        scenario_add_codecs(drawn);
    }
}

bool scenario_takes_part(const scenario *what, uint32_t rank, uint32_t step)
{
    return !what->is_named ||
           step % what->steps_per_phase < what->rank_steps[step / what->steps_per_phase][rank];
}

bool scenario_is_flawed(const scenario *what, uint32_t index)
{
    const scenario_call *call = &what->calls[index];
    bool is_flawed = call->flaw != FLAW_NONE;
    const uint32_t first = call->step * what->tensor_count;
    for (uint32_t i = 0; i < call->group_size; i++) {
        is_flawed = is_flawed || what->calls[first + i].flaw != FLAW_NONE;
    }
    for (uint32_t i = 0; i < what->call_count && what->control.groups > 0; i++) {
        const scenario_call *other = &what->calls[i]; /* perhaps in one group with it */
        is_flawed = is_flawed || (other->set == call->set && other->flaw != FLAW_NONE);
    }
    return is_flawed;
}

void scenario_small(scenario *drawn)
{
    tt_random random;
    memset(drawn, 0, sizeof(*drawn));
    tt_random_init(&random, 1, 78);
    drawn->seed = 1;
    drawn->size = drawn->set_size[0] = 3;
    drawn->set_count = 1;
    for (uint32_t i = 0; i < 3; i++) {
        drawn->members[0][i] = drawn->host_of[i] = i;
    }
    draw_config(drawn, &random);
    drawn->control.segment_bytes = 128;
    drawn->control.eager_bytes_max = 64;
    drawn->control.algorithm = "ring";
    drawn->sim.has_views = false;
    drawn->sim.noise = (tt_sim_noise){0};
    drawn->call_count = 4;
    for (uint32_t i = 0; i < drawn->call_count; i++) {
        drawn->calls[i].one = (collective_case){.collective = TT_ALLREDUCE,
                                                .dtype = TT_F32,
                                                .redop = TT_SUM,
                                                .size = 3,
                                                .count = i % 2 == 0 ? 300 : 12,
                                                .prescale = 1.0,
                                                .postscale = 1.0,
                                                .salt = i};
    }
}

void scenario_small_named(scenario *drawn, tt_negotiate_mode mode)
{
    scenario_small(drawn);
    drawn->is_named = drawn->is_shuffled = true;
    drawn->control.eager_bytes_max = 4096;
    drawn->control.negotiate.mode = mode;
    drawn->control.negotiate.steps_to_plan = 1;
    drawn->control.negotiate.cycle_ns = 50 * MS;
    drawn->tensor_count = 2;
    drawn->phase_count = 1;
    drawn->steps_per_phase = 5;
    drawn->call_count = drawn->tensor_count * drawn->steps_per_phase;
    for (uint32_t i = 0; i < drawn->size; i++) {
        drawn->rank_steps[0][i] = drawn->steps_per_phase;
    }
    for (uint32_t i = 0; i < drawn->call_count; i++) {
        scenario_call *call = &drawn->calls[i];
        *call = drawn->calls[0];
        call->is_named = true;
        call->tensor = i % drawn->tensor_count;
        call->step = i / drawn->tensor_count;
        call->one.salt = i;
        call->one.count = call->step >= 3 && call->tensor == 1 ? 20 : 12;
    }
}

/* ---- properties of a scenario ---- */

bool scenario_is_member(const scenario *what, uint32_t set, uint32_t rank, uint32_t *member_out)
{
    for (uint32_t i = 0; i < what->set_size[set]; i++) {
        if (what->members[set][i] == rank) {
            *member_out = i;
            return true;
        }
    }
    return false;
}

bool scenario_has_fault(const scenario *what, fault_kind kind)
{
    for (uint32_t i = 0; i < what->fault_count; i++) {
        if (what->faults[i].kind == kind) {
            return true;
        }
    }
    return false;
}

/* What happens between calls. */
static void describe_events(const scenario *what)
{
    static const char *const faults[] = {"kill", "stop", "cut", "sever"};
    static const char *const acts[] = {"commit", "undo", "reset", "resume", "unit", "drift"};
    for (uint32_t i = 0; i < what->act_count; i++) {
        printf("  before %s %u: %s (%u)\n", what->is_named ? "step" : "call", what->acts[i].before,
               acts[what->acts[i].kind], what->acts[i].rank);
    }
    for (uint32_t i = 0; i < what->fault_count; i++) {
        printf("  %s of %u (%u) at %llu us for %llu us\n", faults[what->faults[i].kind],
               what->faults[i].a, what->faults[i].b,
               (unsigned long long)(what->faults[i].at_ns / 1000),
               (unsigned long long)(what->faults[i].duration_ns / 1000));
    }
}

void scenario_describe(const scenario *what)
{
    static const char *const flaws[] = {"",         "dtype",  "redop", "root",  "count", "kind",
                                        "argument", "cancel", "apart", "codec", "drift"};
    printf("seed %llu: %u ranks, %u sets, %u calls, segment %u, eager %u, algorithm %s, window %u"
           "%s%s%s%s%s%s\n",
           (unsigned long long)what->seed, what->size, what->set_count, what->call_count,
           what->control.segment_bytes, what->control.eager_bytes_max,
           what->control.algorithm != NULL ? what->control.algorithm : "chosen", what->window,
           what->is_shuffled ? ", shuffled" : "", what->leaves_early ? ", leaving early" : "",
           what->removes_sets ? ", removing sets" : "", what->has_stale ? ", stale frames" : "",
           what->has_duplicates ? ", duplicates" : "", what->sim.has_views ? ", views" : "");
    if (what->is_named) {
        printf("  named: mode %d, capacity %u, %u steps to plan, %u tensors, %u phases of %u "
               "steps%s, fused to %llu of %llu, staged %u\n",
               (int)what->control.negotiate.mode, what->control.negotiate.capacity,
               what->control.negotiate.steps_to_plan, what->tensor_count, what->phase_count,
               what->steps_per_phase, what->has_joins ? ", joins" : "",
               (unsigned long long)what->control.fuse_bytes,
               (unsigned long long)what->control.bundle_bytes, what->control.staged_max);
        if (what->tuned_step > 0) {
            printf("  from step %u on fused to %llu\n", what->tuned_step,
                   (unsigned long long)what->tuned_bytes);
        }
    }
    if (what->has_steps) {
        printf("  steps:%s%s%s%s, %u + %u to %u steps a setting, chunk %llu to %llu\n",
               what->steps.learns ? " learning" : "", what->steps.tunes ? " tuning" : "",
               what->steps.is_auto ? " auto" : "", what->has_uses ? " uses" : "",
               what->steps.warmup_steps, what->steps.sample_steps_min, what->steps.sample_steps_max,
               (unsigned long long)what->steps.min.chunk_bytes,
               (unsigned long long)what->steps.max.chunk_bytes);
    }
    if (what->change_at > 0) {
        printf("  from call %u on segment %u, algorithm %s\n", what->change_at,
               what->changed_segment_bytes,
               what->changed_algorithm != NULL ? what->changed_algorithm : "chosen");
    }
    if (what->starve_after > 0) {
        printf("  allocation %llu fails, and %llu further ones of its rank\n",
               (unsigned long long)what->starve_after, (unsigned long long)what->starve_further);
    }
    printf("  hosts:");
    for (uint32_t i = 0; i < what->size; i++) {
        printf(" %u", what->host_of[i]);
    }
    printf("\n");
    for (uint32_t i = 0; i < what->call_count && i < 80; i++) {
        char text[256];
        case_describe(&what->calls[i].one, text, sizeof(text));
        const scenario_codec *codec = what->calls[i].codec;
        printf("  call %u on set %u: %s%s%s%s%s%s%s", i, what->calls[i].set, text,
               what->calls[i].is_named ? ", named" : "",
               what->calls[i].group_size > 0 ? ", grouped" : "", codec != NULL ? ", coded " : "",
               codec != NULL ? codec->text : "", what->calls[i].flaw != FLAW_NONE ? ", flaw " : "",
               flaws[what->calls[i].flaw]);
        printf(what->calls[i].deadline_ns > 0 ? ", within %llu ms\n" : "\n",
               (unsigned long long)(what->calls[i].deadline_ns / MS));
    }
    describe_events(what);
}
