/* SPDX-License-Identifier: Apache-2.0
 *
 * moves_places.c - what ranks exchange before they use each other's memory: where buffers are.
 *
 * Every rank sends a short frame to every other (aggregate/program.c, the stage PLACES). Up to
 * WALKED_MAX ranks that is walked, as a stage before the exchange. Beyond, its frames under way
 * would take gigabytes; its processors and cards are busy from the first to the last then, so that
 * the busiest of them gives the time. */
#include "sim/moves_internal.h"

enum { WALKED_MAX = 1024 };

bool tt_walk_has_places(const tt_moves_input *input, tt_moves_input *places_out)
{
    tt_problem problem = input->problem;
    problem.facts = NULL;
    const tt_algorithm *algorithm = tt_algorithm_choose(&problem, input->forced);
    if (!algorithm->needs_facts || problem.size == 1) {
        return false;
    }
    *places_out = *input;
    places_out->forced = "pairwise";
    places_out->is_staged = false;
    problem.collective = TT_ALLGATHER;
    problem.dtype = TT_U8;
    problem.root = 0;
    problem.element_bytes = 1;
    problem.bytes = sizeof(tt_fact);
    problem.part_offsets = problem.output_offsets = NULL;
    problem.postscale = 1.0;
    problem.is_in_place = problem.is_uneven = problem.is_steady = false;
    places_out->problem = problem;
    return true;
}

/* How many ranks share the host, and the leaf, of `rank`. */
static uint64_t group_size(const tt_problem *problem, uint64_t group_ranks, uint32_t rank)
{
    const uint64_t first = rank / group_ranks * group_ranks;
    return tt_min_u64(group_ranks, problem->size - first);
}

/* Frames of each level that `rank` sends, which are those that it gets. */
static void count_frames(const tt_moves_input *input, uint32_t rank,
                         uint64_t frames_out[TT_FABRIC_LEVELS])
{
    const tt_fabric_config *config = &input->fabric->config;
    const uint32_t size = input->problem.size;
    const uint64_t in_host = group_size(&input->problem, config->ranks_per_host, rank);
    const uint64_t leaf_ranks = (uint64_t)config->hosts_per_leaf * config->ranks_per_host;
    const uint64_t in_leaf = leaf_ranks > 0 ? group_size(&input->problem, leaf_ranks, rank) : size;
    frames_out[TT_FABRIC_HOST] = in_host - 1;
    frames_out[TT_FABRIC_LEAF] = in_leaf - in_host;
    frames_out[TT_FABRIC_TREE] = size - in_leaf;
}

/* Of the busiest part: a processor, a card, an uplink. */
static uint64_t busy_ns(const tt_fabric *fabric, const uint64_t frames[TT_FABRIC_LEVELS])
{
    const tt_fabric_config *config = &fabric->config;
    const uint64_t bytes = sizeof(tt_fact) + config->head_bytes;
    uint64_t all = 0, most_ns = 0;
    for (int level = 0; level < TT_FABRIC_LEVELS; level++) {
        const tt_fabric_link *link = &config->links[level];
        const uint64_t frame_ns = link->gap_ns + tt_fabric_bytes_ns(bytes, link->byte_fs);
        const uint64_t card_users = config->ranks_per_host / config->cards_per_host;
        const uint64_t tree_users = tt_max_u64(config->hosts_per_leaf, 1) * config->ranks_per_host /
                                    tt_max_u64(config->uplinks_per_leaf, 1);
        const uint64_t users = level == TT_FABRIC_HOST   ? 1
                               : level == TT_FABRIC_LEAF ? card_users
                                                         : tree_users;
        most_ns = tt_max_u64(most_ns, frames[level] * users * frame_ns);
        all += frames[level];
    }
    return tt_max_u64(most_ns, 2 * all * tt_fabric_overhead(fabric, sizeof(tt_fact)));
}

void tt_walk_places_estimate(const tt_moves_input *places, uint64_t *done_ns_out,
                             tt_moves_result *result_out)
{
    *result_out = (tt_moves_result){.end_ns = 0};
    const tt_fabric *fabric = places->fabric;
    const uint32_t size = places->problem.size;
    uint64_t last_ns = 0, most_ns = 0, latency_ns = 0;
    for (uint32_t rank = 0; rank < size; rank++) {
        uint64_t frames[TT_FABRIC_LEVELS];
        count_frames(places, rank, frames);
        for (int level = 0; level < TT_FABRIC_LEVELS; level++) {
            tt_fabric_traffic *traffic = &result_out->levels[level];
            traffic->frames_sent = traffic->frames_received += frames[level];
            traffic->bytes_sent = traffic->bytes_received += frames[level] * sizeof(tt_fact);
            if (frames[level] > 0) {
                latency_ns = tt_max_u64(latency_ns, fabric->config.links[level].latency_ns);
            }
        }
        most_ns = tt_max_u64(most_ns, busy_ns(fabric, frames));
        last_ns = tt_max_u64(last_ns, places->start_ns != NULL ? places->start_ns[rank] : 0);
    }
    for (uint32_t rank = 0; rank < size; rank++) {
        done_ns_out[rank] = last_ns + latency_ns + most_ns;
    }
    result_out->end_ns = done_ns_out[0];
}

tt_status tt_walk_places(const tt_moves_input *places, tt_text *why, uint64_t *done_ns_out,
                         tt_moves_result *result_out)
{
    if (places->problem.size <= WALKED_MAX) {
        return tt_walk_stage(places, why, done_ns_out, result_out);
    }
    tt_walk_places_estimate(places, done_ns_out, result_out);
    return TT_OK;
}

uint64_t tt_walk_places_bytes(const tt_moves_input *places)
{
    return places->problem.size <= WALKED_MAX ? tt_walk_stage_bytes(places) : 0;
}
