/* SPDX-License-Identifier: Apache-2.0
 *
 * store_scene.c - scenes by seed, and the oracle of bulk values; see store_run.h. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "kernel/hash64.h"
#include "kernel/reduce.h"
#include "store/store_run.h"

/* ---- drawing ---- */

static uint64_t below(tt_random *random, uint64_t limit)
{
    return tt_random_below(random, limit);
}

static void draw_policy(scene *drawn, tt_random *random)
{
    static const char *const policies[] = {"bulk",    "bulk",    "stale:0", "stale:1",
                                           "stale:1", "stale:3", "async"};
    static const char *const updates[] = {"sum", "add", "sgd:lr=0.5",
                                          "momentum:lr=0.25,momentum=0.5,nesterov=1",
                                          "adam:lr=0.125,decay=0.0625"};
    static const char *const quorums[] = {"quorum:1", "quorum:2", "quorum:3", "quorum:4",
                                          "quorum:5"};
    _Static_assert(TT_ARRAY_COUNT(quorums) == WORKERS_MAX, "one for each number of workers");
    tt_text why = {0};
    drawn->policy_text = below(random, 4) == 0 ? quorums[below(random, drawn->workers)]
                                               : policies[below(random, TT_ARRAY_COUNT(policies))];
    tt_status status = tt_policy_parse(drawn->policy_text, drawn->workers, &drawn->policy, &why);
    TT_ASSERT(status == TT_OK);
    const bool is_bulk = tt_policy_is_bulk(&drawn->policy);
    drawn->update_text = is_bulk ? updates[below(random, TT_ARRAY_COUNT(updates))] : "add";
    status = tt_update_parse(drawn->update_text, &drawn->update, &why);
    TT_ASSERT(status == TT_OK);
    drawn->dtype = is_bulk ? TT_F32 : TT_I64;
    drawn->has_counters = !is_bulk;
    drawn->habit = (habit)below(random, HABIT_COUNT);
    if (drawn->policy.quorum > 0) {
        drawn->habit = HABIT_PUSH_CLOCK_PULL; /* a push ends with its iteration */
    }
    if (drawn->update.update->is_sum) {
        drawn->habit = HABIT_PUSH_PULL;
    }
}

static void draw_faults(scene *drawn, tt_random *random)
{
    const uint32_t processes = drawn->workers + drawn->servers;
    drawn->faults = below(random, 2) == 0 ? 0 : 1 + (uint32_t)below(random, FAULTS_MAX - 1);
    for (uint32_t i = 0; i < drawn->faults; i++) {
        fault *one = &drawn->fault[i];
        one->kind = below(random, 2) == 0 ? FAULT_CUT : (fault_kind)below(random, FAULT_CUT);
        one->rank = (uint32_t)below(random, processes);
        one->other = (one->rank + 1 + (uint32_t)below(random, processes)) % processes;
        one->at_ns = below(random, UINT64_C(4000000));
        if (one->kind == FAULT_CUT && drawn->servers > 0) { /* it is the link to an owner */
            one->rank = (uint32_t)below(random, drawn->workers);
            one->other = drawn->workers + (uint32_t)below(random, drawn->servers);
        }
        one->until_ns = one->at_ns + below(random, UINT64_C(3000000));
        if (one->kind == FAULT_CUT && one->rank == one->other) {
            one->kind = FAULT_STOP;
        }
    }
}

/* From a stream of its own. Two of them are never for the same clock: the later one would count,
 * and nobody knows which that is. */
static void draw_sets(scene *drawn)
{
    tt_random random;
    tt_random_init(&random, drawn->seed, 91);
    if (drawn->update.update->option_count == 0 || below(&random, 2) == 0) {
        return;
    }
    for (uint32_t i = 0; i < SETS_MAX; i++) {
        set_call *one = &drawn->set[drawn->sets];
        one->worker = (uint32_t)below(&random, drawn->workers);
        one->at = (uint32_t)below(&random, drawn->iterations);
        one->is_now = below(&random, 3) == 0;
        one->from = one->at + (one->is_now ? 0 : (uint32_t)below(&random, 4));
        one->rate = 0.0625f * (float)(1 + below(&random, 32));
        drawn->sets += drawn->sets == 0 || one->from != drawn->set[0].from ? 1 : 0;
    }
}

/* The update with the options of an iteration. */
static tt_update_spec update_at(const scene *drawn, uint32_t iteration)
{
    tt_update_spec spec = drawn->update;
    uint32_t last = 0;
    for (uint32_t i = 0; i < drawn->sets; i++) {
        const set_call *one = &drawn->set[i];
        if (one->from <= iteration && one->from >= last) {
            spec.options[0] = one->rate;
            last = one->from;
        }
    }
    return spec;
}

/* Bulk sums whose servers are killed, from a stream of their own. */
static void draw_losses(scene *drawn)
{
    tt_random random;
    tt_random_init(&random, drawn->seed, 79);
    if (below(&random, 3) == 0 && drawn->servers > 0) {
        const uint64_t end_ns = below(&random, 3) == 0 ? 4000000 : 1500000 * drawn->iterations;
        tt_text why = {0};
        drawn->policy_text = "bulk";
        drawn->update_text = "sum";
        (void)tt_policy_parse(drawn->policy_text, drawn->workers, &drawn->policy, &why);
        (void)tt_update_parse(drawn->update_text, &drawn->update, &why);
        drawn->dtype = TT_F32;
        drawn->has_counters = false;
        drawn->habit = (habit)below(&random, HABIT_COUNT);
        const uint32_t kills = 1 + (uint32_t)below(&random, 2);
        for (uint32_t i = 0; i < kills; i++) {
            const uint32_t used = drawn->servers < drawn->workers ? drawn->servers : drawn->workers;
            drawn->fault[i] = (fault){.kind = FAULT_KILL,
                                      .rank = drawn->workers + (uint32_t)below(&random, used),
                                      .at_ns = below(&random, end_ns)};
        }
        if (below(&random, 4) == 0) {
            drawn->fault[0].kind = FAULT_SEVER;
            drawn->fault[0].other = (uint32_t)below(&random, drawn->workers);
        }
        drawn->faults = drawn->faults > kills ? drawn->faults : kills;
    }
}

/* Gradients under stale, async and quorum, whose values follow from timing: from a stream of its
 * own. Their options change at a clock that owners choose. */
static void draw_uniform(scene *drawn)
{
    static const char *const stale[] = {"sgd:lr=0.5,tau=1,dc=0.125", "momentum:lr=0.25,tau=1",
                                        "adam:lr=0.125", "sgd:lr=0.5,dc=0.25"};
    static const char *const quorum[] = {"sgd:lr=0.5", "momentum:lr=0.25", "adam:lr=0.125"};
    tt_random random;
    tt_text why = {0};
    tt_random_init(&random, drawn->seed, 97);
    if (tt_policy_is_bulk(&drawn->policy) || drawn->codec_text != NULL || below(&random, 3) != 0) {
        return;
    }
    drawn->update_text = drawn->policy.quorum > 0 ? quorum[below(&random, TT_ARRAY_COUNT(quorum))]
                                                  : stale[below(&random, TT_ARRAY_COUNT(stale))];
    const tt_status status = tt_update_parse(drawn->update_text, &drawn->update, &why);
    TT_ASSERT(status == TT_OK);
    drawn->dtype = TT_F32;
    drawn->has_counters = false;
    drawn->is_uniform = true;
    draw_sets(drawn);
    for (uint32_t i = 0; i < drawn->sets; i++) {
        drawn->set[i].is_now = true;
    }
}

/* From a stream of its own. Of a quorum any workers may be the ones that are needed. */
static bool draw_gives_way(const scene *drawn)
{
    tt_random random;
    tt_random_init(&random, drawn->seed, 83);
    return below(&random, 4) == 0 && drawn->policy.quorum == 0;
}

void scene_draw(scene *drawn, uint64_t seed)
{
    static const uint64_t counts[] = {0, 1, 7, 1000, 8192, 8200, 20000, 70000};
    tt_random random;
    tt_random_init(&random, seed, 77);
    *drawn = (scene){.seed = seed};
    drawn->workers = 1 + (uint32_t)below(&random, WORKERS_MAX);
    drawn->servers = (uint32_t)below(&random, SERVERS_MAX + 1);
    drawn->tensors = 1 + (uint32_t)below(&random, TENSORS_MAX);
    drawn->iterations = 1 + (uint32_t)below(&random, ITERATIONS_MAX);
    for (uint32_t i = 0; i < drawn->tensors; i++) {
        drawn->counts[i] = counts[below(&random, TT_ARRAY_COUNT(counts))];
    }
    draw_policy(drawn, &random);
    draw_faults(drawn, &random);
    draw_losses(drawn);
    draw_sets(drawn);
    tt_sim_config_init(&drawn->sim);
    drawn->sim.size = drawn->workers + drawn->servers;
    drawn->sim.seed = seed;
    drawn->sim.borrow = (uint32_t)below(&random, 3) * 500;
    /* Never 0: frames that wait for a long one would be retried in step with its payload, for good.
     */
    drawn->sim.jitter_ns = 2000 + below(&random, 3) * 20000;
    if (below(&random, 2) == 0) {
        drawn->sim.noise = (tt_sim_noise){.spike = (uint32_t)below(&random, 60),
                                          .drop = (uint32_t)below(&random, 60),
                                          .reorder = (uint32_t)below(&random, 100),
                                          .duplicate = (uint32_t)below(&random, 60),
                                          .spike_ns = 400000,
                                          .resend_ns = 200000};
    }
    coded_draw(drawn);
    draw_uniform(drawn);
    rows_draw(drawn);
    if (seed >= MEMBERS_FIRST) {
        members_draw(drawn);
    }
    drawn->can_lose = drawn->update.update->is_sum;
    drawn->gives_way = draw_gives_way(drawn);
}

/* ---- values ---- */

/* Small numbers with a fraction, which depend on all of the arguments. */
static float value_at(const scene *drawn, uint64_t what, uint64_t element)
{
    const uint64_t hash = tt_hash64_mix(tt_hash64_mix(drawn->seed, what), element);
    return ((float)(int32_t)(hash & 0xffff) - 32768.0f) / 7.0f;
}

void oracle_push(const scene *drawn, uint32_t worker, uint32_t tensor, uint32_t iteration,
                 void *values)
{
    for (uint64_t i = 0; i < drawn->counts[tensor]; i++) {
        if (drawn->has_members) {
            const int64_t value =
                members_value(drawn, (members_call){worker, tensor, iteration}, i);
            if (drawn->dtype == TT_I64) {
                ((int64_t *)values)[i] = value;
            } else {
                ((float *)values)[i] = (float)value;
            }
        } else if (drawn->dtype == TT_I64) {
            ((int64_t *)values)[i] = INT64_C(1) << (COUNTER_BITS * worker);
        } else if (drawn->has_counters) {
            ((float *)values)[i] = i % drawn->workers == worker ? 1.0f : 0.0f;
        } else {
            const uint64_t what = (worker * 100 + tensor) * UINT64_C(1000) + iteration;
            ((float *)values)[i] = value_at(drawn, what, drawn->is_uniform ? 0 : i);
        }
    }
    const rows_call call = {.worker = worker, .tensor = tensor, .iteration = iteration};
    rows_mask(drawn, call, values);
}

void oracle_first(const scene *drawn, uint32_t tensor, void *values)
{
    for (uint64_t i = 0; i < drawn->counts[tensor]; i++) {
        if (drawn->dtype == TT_I64) {
            ((int64_t *)values)[i] = 0;
        } else if (drawn->has_counters) {
            ((float *)values)[i] = 0.0f;
        } else {
            ((float *)values)[i] = value_at(drawn, 999999 + tensor, drawn->is_uniform ? 0 : i);
        }
    }
}

struct oracle {
    const scene *drawn;
    float *values[TENSORS_MAX][ITERATIONS_MAX + 1];
    float *residuals[WORKERS_MAX + 1]; /* of the tensor at hand; the last: of owners */
    bool keeps_sums;                   /* that owners have coded with what they keep: */
    float *sums[TENSORS_MAX][ITERATIONS_MAX];
    /* [tensor][reset][iterations], made when asked for */
    float *after[TENSORS_MAX][ITERATIONS_MAX][ITERATIONS_MAX + 1];
};

/* The next value from the last one: all pushes in the order of workers, then the update. */
static void next_value(oracle *known, uint32_t tensor, uint32_t iteration, float **states)
{
    const scene *drawn = known->drawn;
    const uint64_t count = drawn->counts[tensor];
    const float *last = known->values[tensor][iteration];
    float *next = known->values[tensor][iteration + 1];
    float *pushed = malloc(count * sizeof(float) + 1);
    const bool has_value = !drawn->update.update->is_sum && drawn->update.update->apply == NULL;
    if (has_value) {
        memcpy(next, last, count * sizeof(float));
    }
    for (uint32_t worker = 0; worker < drawn->workers; worker++) {
        oracle_push(drawn, worker, tensor, iteration, pushed);
        coded_pass(drawn, tensor, (coded_sender){worker, iteration, known->residuals[worker]},
                   pushed);
        for (uint64_t i = 0; i < count; i++) {
            next[i] = worker == 0 && !has_value ? pushed[i] : next[i] + pushed[i];
        }
    }
    if (known->keeps_sums) {
        memcpy(known->sums[tensor][iteration], next, count * sizeof(float));
    }
    if (drawn->update.update->is_sum) {
        coded_pass(drawn, tensor,
                   (coded_sender){UINT32_MAX, iteration, known->residuals[WORKERS_MAX]}, next);
    }
    if (drawn->update.update->apply != NULL) {
        const tt_update_spec spec = update_at(drawn, iteration);
        const tt_update_run run = {.spec = &spec,
                                   .gradient = next,
                                   .value = last,
                                   .value_out = next,
                                   .states = {states[0], states[1]},
                                   .step = iteration + 1,
                                   .divisor = drawn->workers,
                                   .count = count};
        drawn->update.update->apply(&run);
    }
    free(pushed);
}

oracle *oracle_make(const scene *drawn)
{
    oracle *known = calloc(1, sizeof(*known));
    known->drawn = drawn;
    known->keeps_sums = drawn->can_lose && !drawn->has_members && drawn->codec_text != NULL &&
                        drawn->codec.has_feedback;
    if (drawn->has_counters || drawn->is_uniform || drawn->has_members) {
        return known;
    }
    for (uint32_t tensor = 0; tensor < drawn->tensors; tensor++) {
        const uint64_t count = drawn->counts[tensor] + 1;
        float *states[2] = {calloc(count, sizeof(float)), calloc(count, sizeof(float))};
        for (uint32_t i = 0; i <= drawn->iterations; i++) {
            known->values[tensor][i] = calloc(count, sizeof(float));
        }
        for (uint32_t i = 0; known->keeps_sums && i < drawn->iterations; i++) {
            known->sums[tensor][i] = calloc(count, sizeof(float));
        }
        for (uint32_t i = 0; i <= WORKERS_MAX; i++) {
            known->residuals[i] = calloc(count, sizeof(float));
        }
        if (!drawn->update.update->is_sum) {
            oracle_first(drawn, tensor, known->values[tensor][0]);
        }
        for (uint32_t i = 0; i < drawn->iterations; i++) {
            next_value(known, tensor, i, states);
        }
        free(states[0]);
        free(states[1]);
        for (uint32_t i = 0; i <= WORKERS_MAX; i++) {
            free(known->residuals[i]);
        }
    }
    return known;
}

void oracle_free(oracle *known)
{
    for (uint32_t tensor = 0; tensor < TENSORS_MAX; tensor++) {
        for (uint32_t i = 0; i <= ITERATIONS_MAX; i++) {
            free(known->values[tensor][i]);
            for (uint32_t k = 0; k < ITERATIONS_MAX; k++) {
                free(known->after[tensor][k][i]);
            }
        }
        for (uint32_t i = 0; i < ITERATIONS_MAX; i++) {
            free(known->sums[tensor][i]);
        }
    }
    free(known);
}

const void *oracle_value(const oracle *known, uint32_t tensor, uint32_t iterations)
{
    TT_ASSERT(iterations <= known->drawn->iterations);
    return known->values[tensor][iterations];
}

const void *oracle_value_after(oracle *known, uint32_t tensor, uint32_t iterations, uint32_t reset)
{
    const scene *drawn = known->drawn;
    float **chain = known->after[tensor][reset];
    const uint64_t count = drawn->counts[tensor] + 1;
    TT_ASSERT(reset < iterations && iterations <= drawn->iterations);
    if (!known->keeps_sums) {
        return known->values[tensor][iterations];
    }
    if (chain[iterations] == NULL) {
        float *residual = calloc(count, sizeof(float));
        for (uint32_t i = reset; i < drawn->iterations; i++) {
            chain[i + 1] = malloc(count * sizeof(float));
            memcpy(chain[i + 1], known->sums[tensor][i], count * sizeof(float));
            coded_pass(drawn, tensor, (coded_sender){UINT32_MAX, i, residual}, chain[i + 1]);
        }
        free(residual);
    }
    return chain[iterations];
}
