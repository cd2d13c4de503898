/* SPDX-License-Identifier: Apache-2.0
 *
 * registry.c - the table of algorithms, and the built-in choice. */
#include "aggregate/registry.h"

#include <string.h>

#include "base/assert.h"
#include "base/base.h"

static const tt_algorithm *const algorithms[] = {
    &tt_algorithm_flat,   &tt_algorithm_star,   &tt_algorithm_doubling,     &tt_algorithm_halving,
    &tt_algorithm_ring,   &tt_algorithm_direct, &tt_algorithm_binomial,     &tt_algorithm_pairwise,
    &tt_algorithm_shared, &tt_algorithm_views,  &tt_algorithm_hierarchical, &tt_algorithm_adasum,
    /* tt_algorithm_owner and tt_algorithm_rails are no choices: calls with a codec run the one that
     * fits, and no others */
};

/* Sizes at which one algorithm gives way to the next, by bytes of the vector. */
enum {
    FLAT_BYTES_MAX = 2 * 1024, /* every rank reduces everything: one phase */
    FLAT_SIZE_MAX = 16,        /* ranks that share memory, with a core for each */
    FLAT_SIZE_MAX_CROWDED = 8, /* ranks that share cores, too: beyond, a star saves frames */
    FLAT_SIZE_MAX_WIRE = 3,    /* ranks on a network: P - 1 messages each, doubling has log P */
    STAR_BYTES_MAX = 2 * 1024, /* on one host, through shared memory */
    STAR_SIZE_MAX = 32,        /* beyond, the center is the bottleneck */
    HALVING_BYTES_MAX = 256 * 1024, /* with at least HALVING_SIZE_MIN ranks */
    HALVING_SIZE_MIN = 8,
    SHARED_BYTES_MIN = 4 * 1024, /* below, the exchange of places costs more than it saves */
    VIEWS_BYTES_MIN = 16 * 1024, /* the same, of a part, for other collectives */
    PAIRWISE_SIZE_MAX = 8,       /* allgather: ranks that all send to all */
    STEADY_SIZE_MAX = 32, /* ranks that all send to all, so that bits do not depend on length */
};

const tt_algorithm *tt_algorithm_at(size_t index)
{
    return index < TT_ARRAY_COUNT(algorithms) ? algorithms[index] : NULL;
}

const tt_algorithm *tt_algorithm_find(const char *name)
{
    for (size_t i = 0; i < TT_ARRAY_COUNT(algorithms); i++) {
        TT_ASSERT(algorithms[i]->fits != NULL);
        TT_ASSERT(algorithms[i]->plan != NULL);
        TT_ASSERT(algorithms[i]->move != NULL);
        if (strcmp(algorithms[i]->name, name) == 0) {
            return algorithms[i];
        }
    }
    return NULL;
}

static bool is_local(const tt_problem *problem)
{
    const tt_topology *topology = problem->topology;
    return topology != NULL && topology->has_views && topology->host_count == 1;
}

static uint32_t flat_size_max(const tt_problem *problem)
{
    if (!is_local(problem)) {
        return FLAT_SIZE_MAX_WIRE;
    }
    return problem->topology->is_crowded ? FLAT_SIZE_MAX_CROWDED : FLAT_SIZE_MAX;
}

/* In shared memory, with many ranks, one more hop costs less than the frames it saves. */
static bool prefers_star(const tt_problem *problem)
{
    return is_local(problem) && problem->size > flat_size_max(problem) &&
           problem->size <= STAR_SIZE_MAX && problem->bytes <= STAR_BYTES_MAX;
}

/* For tensors that may or may not be fused, depending on when ranks submit them: one order of
 * additions for all lengths. With two hosts the order of the last addition does not matter; a tree
 * is one order, too, and halving's is that of doubling. */
static const tt_algorithm *choose_steady(const tt_problem *problem)
{
    if (problem->topology != NULL && problem->topology->host_count == 2 &&
        tt_algorithm_hierarchical.fits(problem)) {
        return &tt_algorithm_hierarchical;
    }
    if (problem->size > STEADY_SIZE_MAX && !tt_algorithm_shared.fits(problem)) {
        return problem->bytes <= TT_SHORT_BYTES_MAX ? &tt_algorithm_doubling
                                                    : &tt_algorithm_halving;
    }
    if (tt_algorithm_shared.fits(problem) && problem->bytes >= SHARED_BYTES_MIN) {
        return &tt_algorithm_shared;
    }
    if (prefers_star(problem)) {
        return &tt_algorithm_star;
    }
    return problem->bytes <= FLAT_BYTES_MAX ? &tt_algorithm_flat : &tt_algorithm_direct;
}

static const tt_algorithm *choose_allreduce(const tt_problem *problem)
{
    if (problem->is_steady && problem->size > 1) {
        return choose_steady(problem);
    }
    if (tt_algorithm_shared.fits(problem) && problem->bytes >= SHARED_BYTES_MIN) {
        return &tt_algorithm_shared;
    }
    if (prefers_star(problem)) {
        return &tt_algorithm_star;
    }
    if (problem->size == 1 ||
        (problem->bytes <= FLAT_BYTES_MAX && problem->size <= flat_size_max(problem))) {
        return &tt_algorithm_flat;
    }
    if (problem->bytes <= tt_short_bytes(problem->segment_bytes)) {
        return &tt_algorithm_doubling; /* fewest hops, but log P times the bytes */
    }
    if (problem->bytes <= TT_SHORT_BYTES_MAX) {
        return &tt_algorithm_halving; /* the same tree of additions, whatever the segment */
    }
    if (tt_algorithm_hierarchical.fits(problem)) {
        return &tt_algorithm_hierarchical;
    }
    if (problem->bytes <= HALVING_BYTES_MAX && problem->size >= HALVING_SIZE_MIN) {
        return &tt_algorithm_halving;
    }
    return &tt_algorithm_ring;
}

const tt_algorithm *tt_algorithm_framed(const tt_problem *problem)
{
    TT_ASSERT(problem->collective != TT_ALLREDUCE);
    switch (problem->collective) {
    case TT_REDUCE:
    case TT_BROADCAST:
        return &tt_algorithm_binomial;
    case TT_BARRIER:
        if (prefers_star(problem)) {
            return &tt_algorithm_star;
        }
        return problem->size <= flat_size_max(problem) ? &tt_algorithm_flat
                                                       : &tt_algorithm_doubling;
    case TT_ALLGATHER:
        return problem->size <= PAIRWISE_SIZE_MAX ? &tt_algorithm_pairwise : &tt_algorithm_ring;
    case TT_REDUCESCATTER:
        return problem->size <= PAIRWISE_SIZE_MAX ? &tt_algorithm_direct : &tt_algorithm_ring;
    default:
        return &tt_algorithm_pairwise;
    }
}

static const tt_algorithm *choose_by_collective(const tt_problem *problem)
{
    if (problem->collective == TT_ALLREDUCE) {
        return choose_allreduce(problem);
    }
    if (tt_algorithm_views.fits(problem) && problem->bytes >= VIEWS_BYTES_MIN) {
        return &tt_algorithm_views;
    }
    return tt_algorithm_framed(problem);
}

const tt_algorithm *tt_algorithm_choose(const tt_problem *problem, const char *forced)
{
    TT_ASSERT(problem->size > 0);
    if (problem->codec != NULL) {
        const tt_algorithm *coded =
            tt_algorithm_rails.fits(problem) ? &tt_algorithm_rails : &tt_algorithm_owner;
        TT_ASSERT(coded->fits(problem));
        return coded;
    }
    if (problem->collective == TT_ALLREDUCE && !tt_redop_is_elementwise(problem->redop)) {
        TT_ASSERT(tt_algorithm_adasum.fits(problem));
        return &tt_algorithm_adasum;
    }
    const tt_algorithm *algorithm = forced != NULL ? tt_algorithm_find(forced) : NULL;
    if (algorithm == NULL || !algorithm->fits(problem)) {
        algorithm = choose_by_collective(problem);
    }
    TT_ASSERT(algorithm->fits(problem));
    return algorithm;
}
