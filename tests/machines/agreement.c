/* SPDX-License-Identifier: Apache-2.0
 *
 * agreement.c - see agreement.h. */
#include "machines/agreement.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "aggregate/registry.h"
#include "base/base.h"
#include "sim/fabric_topology.h"
#include "sim/registry.h"
#include "sim/sim.h"

enum { RANKS_MAX = 256, LONG_BYTES = 64 * 1024, SEGMENT_BYTES = 256 * 1024, EAGER_BYTES = 4096 };

static const double long_percent = 5, short_percent = 10, exception_percent = 1;

/* One case. */
typedef struct trial {
    const agreement_scope *scope;
    const agreement_layout *layout;
    const tt_algorithm *algorithm;
    tt_collective collective;
    uint64_t bytes;
    tt_fabric *fabric;
    tt_fabric_places places;
    double moves_ns, machines_ns;
} trial;

typedef struct tally {
    uint64_t cases, failures, left_out;
    bool is_met[64]; /* of the scope's exceptions */
    double worst_percent;
} tally;

static tt_fabric_config config_of(const agreement_layout *layout)
{
    tt_fabric_config config;
    tt_fabric_config_plain(&config, layout->ranks,
                           (tt_fabric_link){.latency_ns = 1300, .gap_ns = 10, .byte_fs = 80000});
    config.ranks_per_host = layout->per_host;
    config.cards_per_host = layout->cards;
    config.hosts_per_leaf = 4;
    config.uplinks_per_leaf = 2;
    config.overhead_ns = 500;
    config.head_bytes = 48;
    config.reduce_byte_fs = 100000;
    config.copy_byte_fs = 80000;
    config.memory_byte_fs = 10000;
    if (layout->per_host > 1) {
        config.links[TT_FABRIC_HOST] =
            (tt_fabric_link){.latency_ns = 300, .gap_ns = 10, .byte_fs = 50000};
    }
    return config;
}

static tt_redop redop_of(const trial *it)
{
    return strcmp(it->algorithm->name, "adasum") == 0 ? TT_ADASUM : TT_SUM;
}

static tt_problem problem_of(const trial *it)
{
    return (tt_problem){.collective = it->collective,
                        .dtype = TT_F32,
                        .redop = redop_of(it),
                        .size = it->layout->ranks,
                        .element_bytes = sizeof(float),
                        .segment_bytes = SEGMENT_BYTES,
                        .bytes = it->bytes,
                        .postscale = 1.0,
                        .is_in_place = it->collective == TT_ALLREDUCE,
                        .topology = &it->places.topology};
}

/* Of the vector, or, where ranks have parts, of a part of it. */
static uint64_t length_of(const trial *it, uint64_t bytes)
{
    switch (it->collective) {
    case TT_BARRIER:
        return 0;
    case TT_ALLREDUCE:
    case TT_BROADCAST:
    case TT_REDUCE:
        return bytes;
    default:
        return bytes / it->layout->ranks / sizeof(float) * sizeof(float);
    }
}

/* Frames of about so many are not too many. */
static bool is_short(const trial *it)
{
    tt_plan plan;
    const tt_problem problem = problem_of(it);
    it->algorithm->plan(&problem, &plan);
    const uint64_t peers = tt_max_u64((uint64_t)(plan.fan - 1), plan.round_count);
    return plan.lane_count * problem.size * peers <= it->scope->frames_max;
}

static void walk(trial *it)
{
    uint64_t done_ns[RANKS_MAX];
    tt_text why = {0};
    tt_moves_result result;
    const tt_moves_input input = {.fabric = it->fabric,
                                  .problem = problem_of(it),
                                  .forced = it->algorithm->name,
                                  .is_staged = !it->layout->is_shared,
                                  .eager_bytes_max = EAGER_BYTES,
                                  .memory_bytes_max = UINT64_C(1) << 30,
                                  .allocator = &tt_allocator_default};
    if (tt_moves_run(&input, &why, done_ns, &result) != TT_OK) {
        fail_msg("%s", why.bytes);
    }
    it->moves_ns = (double)result.end_ns;
}

static void run(trial *it)
{
    tt_text why = {0};
    tt_machines *machines = NULL;
    tt_machines_config config;
    tt_machines_result result;
    tt_machines_config_init(&config);
    config.model = it->fabric->ops;
    config.fabric = it->fabric->config;
    config.control.algorithm = it->algorithm->name;
    config.control.segment_bytes = SEGMENT_BYTES;
    config.control.eager_bytes_max = EAGER_BYTES;
    const tt_machines_call call = {.collective = it->collective,
                                   .dtype = TT_F32,
                                   .redop = redop_of(it),
                                   .count = it->bytes / sizeof(float),
                                   .is_shared = it->layout->is_shared};
    if (tt_machines_create(&config, &why, &machines) != TT_OK ||
        tt_machines_run(machines, &call, 1, &why, &result) != TT_OK) {
        fail_msg("%s of %s: %s", tt_collective_name(it->collective), it->algorithm->name,
                 why.bytes);
    }
    it->machines_ns = (double)result.end_ns;
    tt_machines_destroy(machines);
}

static bool is_same_layout(const agreement_layout *a, const agreement_layout *b)
{
    return strcmp(a->model, b->model) == 0 && a->ranks == b->ranks && a->per_host == b->per_host &&
           a->cards == b->cards && a->is_shared == b->is_shared;
}

/* The index of the case's exception; exception_count: it has none. */
static size_t exception_of(const trial *it)
{
    size_t i = 0;
    for (; i < it->scope->exception_count; i++) {
        const agreement_exception *one = &it->scope->exceptions[i];
        if (strcmp(one->algorithm, it->algorithm->name) == 0 &&
            strcmp(one->collective, tt_collective_name(it->collective)) == 0 &&
            is_same_layout(&one->layout, it->layout) && one->bytes == it->bytes) {
            break;
        }
    }
    return i;
}

static void judge(const trial *it, tally *sum)
{
    const double percent = 100 * (it->moves_ns / it->machines_ns - 1);
    const size_t exception = exception_of(it);
    const bool is_exception = exception < it->scope->exception_count;
    const double expected = is_exception ? it->scope->exceptions[exception].percent : 0;
    const double allowed = is_exception              ? exception_percent
                           : it->bytes >= LONG_BYTES ? long_percent
                                                     : short_percent;
    sum->cases++;
    if (is_exception) {
        sum->is_met[exception] = true;
    } else {
        sum->worst_percent = fmax(sum->worst_percent, fabs(percent));
    }
    if (fabs(percent - expected) > allowed) {
        sum->failures++;
        print_error("%s by %s, %llu bytes, %u ranks, %u a host with %u cards, %s%s: moves %.1f us, "
                    "machines %.1f: %+.1f %%\n",
                    tt_collective_name(it->collective), it->algorithm->name,
                    (unsigned long long)it->bytes, it->layout->ranks, it->layout->per_host,
                    it->layout->cards, it->layout->model, it->layout->is_shared ? ", shared" : "",
                    it->moves_ns * 1e-3, it->machines_ns * 1e-3, percent);
    }
}

static void try_sizes(trial *it, tally *sum)
{
    for (size_t i = 0; i < it->scope->bytes_count; i++) {
        it->bytes = length_of(it, it->scope->bytes[i]);
        const tt_problem problem = problem_of(it);
        if (!it->algorithm->fits(&problem) || (it->collective == TT_BARRIER && i > 0)) {
            continue;
        }
        it->fabric->ops->reset(it->fabric);
        if (is_short(it)) {
            walk(it);
            run(it);
            judge(it, sum);
        } else {
            sum->left_out++;
        }
    }
}

static void try_layout(const agreement_scope *scope, const agreement_layout *layout, tally *sum)
{
    const tt_fabric_config config = config_of(layout);
    tt_text why = {0};
    trial it = {.scope = scope, .layout = layout};
    if (tt_fabric_create(tt_fabric_find(layout->model), &config, &tt_allocator_default, &why,
                         &it.fabric) != TT_OK) {
        fail_msg("%s", why.bytes);
    }
    assert_int_equal(TT_OK, tt_fabric_places_make(&config, &tt_allocator_default, &it.places));
    for (size_t i = 0; tt_algorithm_at(i) != NULL; i++) {
        it.algorithm = tt_algorithm_at(i);
        for (int collective = 0; collective < TT_COLLECTIVE_COUNT; collective++) {
            it.collective = (tt_collective)collective;
            if (collective != TT_SEND && collective != TT_RECEIVE) { /* of two ranks */
                try_sizes(&it, sum);
            }
        }
    }
    tt_fabric_places_release(&it.places);
    it.fabric->ops->destroy(it.fabric);
}

void agreement_check(const agreement_scope *scope)
{
    tally sum = {.cases = 0};
    assert_true(scope->exception_count <= TT_ARRAY_COUNT(sum.is_met));
    for (size_t i = 0; i < scope->layout_count; i++) {
        assert_true(scope->layouts[i].ranks <= RANKS_MAX);
        try_layout(scope, &scope->layouts[i], &sum);
    }
    for (size_t i = 0; i < scope->exception_count; i++) {
        if (!sum.is_met[i]) {
            print_error("exception %zu, of %s, is no case\n", i, scope->exceptions[i].algorithm);
            sum.failures++;
        }
    }
    print_message("%llu cases, the worst is %.1f %% apart; %llu were too long\n",
                  (unsigned long long)sum.cases, sum.worst_percent,
                  (unsigned long long)sum.left_out);
    assert_int_equal(sum.failures, 0);
}
