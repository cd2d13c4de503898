/* SPDX-License-Identifier: Apache-2.0
 *
 * hierarchical.c - shared memory inside hosts, rings between them.
 *
 * A chunk is cut into as many rails as the smallest host has members, or fewer (TUTTI_RAILS): few
 * ranks saturate a network card, and each more costs processor time. Member l of every host sums
 * rail l over its host's buffers (views), runs a ring with the other members l on it, and stores
 * the result to all buffers of its host. Each byte crosses each host's network card 2 (H - 1) / H
 * times, however many ranks a host has; lanes overlap the three phases.
 *
 * Rounds: copy in, local barrier, local sum, ring, spread, local barrier, copy out. Ranks whose
 * buffers lie in the arena skip the copies.
 */
#include "aggregate/pattern/pattern.h"
#include "aggregate/registry.h"
#include "base/assert.h"

enum { ROUND_IN, ROUND_IN_READY, ROUND_SUM, ROUND_RING };

static bool hierarchical_fits(const tt_problem *problem)
{
    const tt_topology *topology = problem->topology;
    return problem->collective == TT_ALLREDUCE && topology != NULL && topology->has_views &&
           topology->host_count > 1 && topology->host_count < problem->size;
}

static void hierarchical_plan(const tt_problem *problem, tt_plan *plan_out)
{
    TT_ASSERT(hierarchical_fits(problem));
    const tt_topology *topology = problem->topology;
    const uint32_t host_count = topology->host_count;
    const uint64_t rail_bytes = (uint64_t)tt_rail_segment(problem) * host_count;
    const uint64_t lane_bytes = rail_bytes * topology->rail_count;
    *plan_out = (tt_plan){
        .lane_count = lanes_for(problem->bytes, lane_bytes),
        .lane_bytes = lane_bytes,
        .round_count = ROUND_RING + tt_ring_round_count(host_count) + 3,
        .fan = problem->size,
        .partner_max = problem->size,
        .frame_bytes = tt_rail_segment(problem),
        .scratch_bytes = 2 * rail_bytes, /* the rail's sum, then one arrival slot per turn */
        .slot_bytes = lane_bytes,
    };
}

/* The ring of this rank's rail; positions are hosts. */
static bool rail_move(const tt_problem *problem, uint64_t rail_bytes, tt_cursor at,
                      tt_move *move_out)
{
    const tt_topology *topology = problem->topology;
    const uint32_t local = topology->local_of[problem->self];
    const uint32_t turn = at.round - ROUND_RING;
    const tt_ring ring = {.position = topology->host_of[problem->self],
                          .count = topology->host_count,
                          .element_bytes = problem->element_bytes,
                          .bytes = rail_bytes,
                          .piece_bytes = UINT64_MAX,
                          .source = spot_at(TT_SCRATCH, 0),
                          .target = spot_at(TT_SCRATCH, 0),
                          .slot =
                              (uint64_t)tt_rail_segment(problem) * (topology->host_count + turn)};
    if (!tt_ring_move(&ring, turn, at.index, move_out)) {
        return false;
    }
    if (move_out->kind != TT_MOVE_WORK) { /* work has no peer */
        move_out->peer = topology->host_members[topology->host_first[move_out->peer] + local];
    }
    return true;
}

static bool hierarchical_move(const tt_problem *problem, const tt_plan *plan, tt_cursor at,
                              tt_move *move_out)
{
    TT_ASSERT(at.round < plan->round_count);
    const tt_topology *topology = problem->topology;
    const uint32_t local = topology->local_of[problem->self];
    const uint32_t round_spread = ROUND_RING + tt_ring_round_count(topology->host_count);
    const uint64_t chunk_bytes = lane_length(problem->bytes, plan->lane_bytes, at.lane);
    move_out->bytes = chunk_bytes;
    if (at.round == ROUND_IN || at.round == round_spread + 2) {
        return at.index == 0 &&
               tt_staging_move(problem, plan, at.lane, at.round == ROUND_IN, move_out);
    }
    if (at.round == ROUND_IN_READY || at.round == round_spread + 1) {
        return tt_host_notify_move(problem, at.index, move_out);
    }
    if (local >= topology->rail_count) {
        return false;
    }
    const tt_span rail = tt_slice(chunk_bytes, problem->element_bytes, topology->rail_count, local);
    TT_ASSERT(2 * rail.bytes <= plan->scratch_bytes);
    if (at.round == ROUND_SUM || at.round == round_spread) {
        move_out->kind = TT_MOVE_WORK;
        move_out->work = at.round == ROUND_SUM ? TT_WORK_VIEWS : TT_WORK_SPREAD;
        move_out->bytes = rail.bytes;
        move_out->offset = rail.first;
        move_out->source = move_out->target = spot_at(TT_SCRATCH, 0);
        return at.index == 0;
    }
    return rail_move(problem, rail.bytes, at, move_out);
}

const tt_algorithm tt_algorithm_hierarchical = {
    .name = "hierarchical",
    .needs_facts = true,
    .fits = hierarchical_fits,
    .plan = hierarchical_plan,
    .move = hierarchical_move,
};
