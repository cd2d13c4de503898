/* SPDX-License-Identifier: Apache-2.0
 *
 * fabric_tree.c - hosts on leaf switches, leaves on a core by uplinks that may be oversubscribed.
 *
 * A frame to another leaf passes its sender's card, an uplink of the sender's leaf, a downlink of
 * the target's leaf and the target's card, each of which serves frame by frame in the order in
 * which first bytes reach it: flows that share a link take turns. The target's host determines the
 * uplink and the sender's host the downlink, as static routes of fat trees do; the core is not
 * blocked. A link that is slower than the next one passes the first byte on so late that the last
 * byte is not waited for.
 */
#include "sim/fabric_internal.h"
#include "sim/registry.h"

enum { HOP_UP = 1, HOP_DOWN = 2, TREE_WAYS = 3 };

typedef struct tree {
    tt_fabric base;
    tt_cards cards;
    tt_card *uplinks; /* [leaf_count * uplinks_per_leaf], both directions */
} tree;

static uint64_t uplink_count(const tt_fabric_config *config)
{
    const uint64_t hosts = tt_fabric_host_count(config);
    const uint64_t leaves = config->hosts_per_leaf > 0
                                ? (hosts + config->hosts_per_leaf - 1) / config->hosts_per_leaf
                                : 1;
    return leaves * (config->uplinks_per_leaf > 0 ? config->uplinks_per_leaf : 1);
}

static tree *tree_of(tt_fabric *fabric)
{
    TT_DEBUG_ASSERT(fabric->ops == &tt_fabric_tree);
    return TT_CONTAINER_OF(fabric, tree, base);
}

static uint64_t tree_bytes(const tt_fabric_config *config)
{
    return sizeof(tree) + tt_cards_bytes(config) + uplink_count(config) * sizeof(tt_card);
}

static tt_status tree_create(const tt_fabric_config *config, const tt_allocator *allocator,
                             tt_fabric **fabric_out)
{
    tree *self = tt_allocate(allocator, 1, sizeof(*self));
    if (self == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    self->base = (tt_fabric){.ops = &tt_fabric_tree,
                             .allocator = allocator,
                             .config = *config,
                             .is_private = config->ranks_per_host == 1};
    const tt_status status = tt_cards_init(&self->cards, config, allocator);
    if (status != TT_OK) {
        goto free_self;
    }
    self->uplinks = tt_allocate(allocator, uplink_count(config), sizeof(tt_card));
    if (self->uplinks == NULL) {
        goto free_cards;
    }
    *fabric_out = &self->base;
    return TT_OK;
free_cards:
    tt_cards_fini(&self->cards, allocator);
free_self:
    tt_release(allocator, self, 1, sizeof(*self));
    return TT_ERR_NO_MEMORY;
}

static void tree_destroy(tt_fabric *fabric)
{
    tree *self = tree_of(fabric);
    const tt_allocator *allocator = fabric->allocator;
    tt_release(allocator, self->uplinks, uplink_count(&fabric->config), sizeof(tt_card));
    tt_cards_fini(&self->cards, allocator);
    tt_release(allocator, self, 1, sizeof(*self));
}

static void tree_reset(tt_fabric *fabric)
{
    tree *self = tree_of(fabric);
    tt_cards_reset(&self->cards);
    for (uint64_t i = 0; i < uplink_count(&fabric->config); i++) {
        self->uplinks[i] = (tt_card){0};
    }
}

/* Of the latency, which is that of the whole way, a part is before the uplink. */
static tt_departure tree_send(tt_fabric *fabric, const tt_fabric_frame *frame, uint64_t at_ns)
{
    const tt_fabric_config *config = &fabric->config;
    const tt_fabric_link *uplink = &config->links[TT_FABRIC_TREE];
    tt_departure departure = tt_card_send(&tree_of(fabric)->cards, config, frame, at_ns);
    if (tt_fabric_level_of(config, frame->source, frame->target) == TT_FABRIC_TREE) {
        const uint64_t card_ns = tt_frame_ns(config, &config->links[TT_FABRIC_LEAF], frame);
        departure.head_ns += tt_elapsed_ns(card_ns, tt_frame_ns(config, uplink, frame));
        departure.head_ns -= uplink->latency_ns - uplink->latency_ns / TREE_WAYS;
    }
    return departure;
}

/* Through the up- or downlink; when the first byte is at the next one. */
static uint64_t pass_link(tree *self, const tt_fabric_frame *frame, uint32_t hop, uint64_t at_ns)
{
    const tt_fabric_config *config = &self->base.config;
    const tt_fabric_link *link = &config->links[TT_FABRIC_TREE];
    const uint32_t source = tt_fabric_host(config, frame->source);
    const uint32_t target = tt_fabric_host(config, frame->target);
    const uint32_t leaf = (hop == HOP_UP ? source : target) / config->hosts_per_leaf;
    const uint32_t route = (hop == HOP_UP ? target : source) % config->uplinks_per_leaf;
    tt_card *uplink = &self->uplinks[(uint64_t)leaf * config->uplinks_per_leaf + route];
    const uint64_t frame_ns = tt_frame_ns(config, link, frame);
    uint64_t *busy_ns = hop == HOP_UP ? &uplink->sending_ns : &uplink->receiving_ns;
    const uint64_t begin_ns = tt_link_serve(busy_ns, link->gap_ns + frame_ns, at_ns);
    const uint64_t next_ns =
        hop == HOP_UP ? frame_ns : tt_frame_ns(config, &config->links[TT_FABRIC_LEAF], frame);
    const uint64_t latency_ns = hop == HOP_UP ? link->latency_ns / TREE_WAYS
                                              : link->latency_ns - link->latency_ns / TREE_WAYS * 2;
    return begin_ns + tt_elapsed_ns(frame_ns, next_ns) + latency_ns;
}

static bool tree_pass(tt_fabric *fabric, const tt_fabric_frame *frame, uint32_t hop,
                      uint64_t *at_ns_io)
{
    tree *self = tree_of(fabric);
    const tt_fabric_config *config = &fabric->config;
    const tt_fabric_level level = tt_fabric_level_of(config, frame->source, frame->target);
    if (level == TT_FABRIC_TREE && hop <= HOP_DOWN) {
        *at_ns_io = pass_link(self, frame, hop, *at_ns_io);
        return false;
    }
    *at_ns_io = tt_card_receive(&self->cards, config, frame, *at_ns_io);
    return true;
}

static uint64_t tree_work(tt_fabric *fabric, uint32_t rank, tt_fabric_work work, uint64_t bytes,
                          uint64_t at_ns)
{
    (void)rank;
    return at_ns + tt_work_ns(&fabric->config, work, bytes);
}

const tt_fabric_ops tt_fabric_tree = {
    .name = "tree",
    .bytes = tree_bytes,
    .create = tree_create,
    .destroy = tree_destroy,
    .reset = tree_reset,
    .send = tree_send,
    .pass = tree_pass,
    .work = tree_work,
};
