/* SPDX-License-Identifier: Apache-2.0
 *
 * choice.c - the choice of an algorithm by costs; see choice.h. */
#include "aggregate/choice.h"

#include <string.h>

#include "aggregate/registry.h"
#include "base/assert.h"
#include "base/base.h"

enum { GAIN_NUMERATOR = 4, GAIN_DENOMINATOR = 5, ALGORITHMS_MAX = 254 };

const char *tt_placement_name(const tt_topology *topology, uint32_t size)
{
    const bool is_crowded = topology->is_crowded;
    TT_ASSERT(topology->host_count > 0);
    TT_ASSERT(topology->host_count <= size);
    if (topology->host_count == 1 && topology->has_views) {
        return is_crowded ? "shm-crowded" : "shm";
    }
    if (topology->host_count == 1) {
        return is_crowded ? "lo-crowded" : "lo";
    }
    if (topology->host_count == size) {
        return is_crowded ? "net-crowded" : "net";
    }
    return is_crowded ? "mixed-crowded" : "mixed";
}

static bool key_of(const tt_problem *problem, const tt_algorithm *algorithm, tt_cost_key *key_out)
{
    return problem->topology != NULL &&
           tt_cost_key_make(key_out, tt_collective_name(problem->collective), algorithm->name,
                            tt_placement_name(problem->topology, problem->size), problem->size);
}

bool tt_choice_predict(const tt_costs *costs, const tt_problem *problem,
                       const tt_algorithm *algorithm, uint64_t *time_ns_out)
{
    tt_cost_key key;
    return key_of(problem, algorithm, &key) &&
           tt_costs_guess(costs, &key, problem->bytes, time_ns_out);
}

static bool is_known(const tt_costs *costs, const tt_problem *problem,
                     const tt_algorithm *algorithm, uint64_t *time_ns_out)
{
    tt_cost_key key;
    return key_of(problem, algorithm, &key) &&
           tt_costs_time(costs, &key, problem->bytes, time_ns_out);
}

/* Registry index + 1 of the algorithm that beats the built-in choice for this problem; 0: none
 * does. */
static uint8_t choose_one(const tt_costs *costs, const tt_problem *problem)
{
    const tt_algorithm *built_in = tt_algorithm_choose(problem, NULL);
    uint64_t limit_ns;
    uint8_t best = 0;
    if (!is_known(costs, problem, built_in, &limit_ns)) {
        return 0; /* nothing to compare with */
    }
    limit_ns = limit_ns / GAIN_DENOMINATOR * GAIN_NUMERATOR;
    TT_ASSERT(tt_algorithm_at(ALGORITHMS_MAX) == NULL); /* each has a number in a byte */
    for (size_t i = 0; i < ALGORITHMS_MAX && tt_algorithm_at(i) != NULL; i++) {
        const tt_algorithm *algorithm = tt_algorithm_at(i);
        uint64_t time_ns;
        if (algorithm->fits(problem) && is_known(costs, problem, algorithm, &time_ns) &&
            time_ns < limit_ns) {
            limit_ns = time_ns;
            best = (uint8_t)(i + 1);
        }
    }
    return best;
}

void tt_choice_build(tt_choice *choice_out, const tt_costs *costs, const tt_problem *shape)
{
    TT_ASSERT(shape->facts == NULL); /* facts of one rank must not affect the choice */
    TT_ASSERT(shape->part_offsets == NULL);
    memset(choice_out, 0, sizeof(*choice_out));
    if (shape->size < 2 ||
        !tt_costs_cover(costs, tt_placement_name(shape->topology, shape->size), shape->size)) {
        return;
    }
    tt_problem problem = *shape;
    problem.dtype = TT_F32;
    problem.redop = TT_SUM;
    problem.element_bytes = 4;
    problem.postscale = 1.0;
    for (int collective = 0; collective < TT_COLLECTIVE_COUNT; collective++) {
        if (collective == TT_SEND || collective == TT_RECEIVE || collective == TT_BARRIER) {
            continue;
        }
        problem.collective = (tt_collective)collective;
        for (uint32_t bits = 1; bits < TT_CHOICE_BUCKETS; bits++) {
            problem.bytes = UINT64_C(1) << (bits - 1);
            choice_out->algorithm[collective][bits] = choose_one(costs, &problem);
        }
    }
}

static uint32_t bit_count(uint64_t bytes)
{
    return bytes == 0 ? 0 : 64 - (uint32_t)__builtin_clzll(bytes);
}

const tt_algorithm *tt_choice_find(const tt_choice *choice, const tt_problem *problem)
{
    TT_ASSERT(problem->collective < TT_COLLECTIVE_COUNT);
    if (problem->codec != NULL) {
        return NULL; /* costs are of plain calls */
    }
    const uint8_t index = choice->algorithm[problem->collective][bit_count(problem->bytes)];
    if (index == 0) {
        return NULL;
    }
    const tt_algorithm *algorithm = tt_algorithm_at(index - 1u);
    return algorithm->fits(problem) ? algorithm : NULL;
}
