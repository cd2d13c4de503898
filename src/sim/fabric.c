/* SPDX-License-Identifier: Apache-2.0
 *
 * fabric.c - what all models share: the check of a configuration, and cards. */
#include "sim/fabric.h"

#include <inttypes.h>
#include <string.h>

#include "sim/fabric_internal.h"

enum {
    RANKS_MAX = 1 << 20,
    LATENCY_NS_MAX = 1000 * 1000 * 1000,
    BYTE_FS_MAX = 1000 * 1000 * 1000, /* 1 MB/s */
    HEAD_BYTES_MAX = 4096,
};

void tt_fabric_config_plain(tt_fabric_config *config, uint32_t rank_count, tt_fabric_link link)
{
    TT_ASSERT(rank_count > 0);
    *config =
        (tt_fabric_config){.rank_count = rank_count, .ranks_per_host = 1, .cards_per_host = 1};
    for (uint32_t level = 0; level < TT_FABRIC_LEVELS; level++) {
        config->links[level] = link;
    }
}

/* ---- configuration ---- */

static tt_status check_range(const char *name, uint64_t value, uint64_t least, uint64_t most,
                             tt_text *why)
{
    TT_ASSERT(least <= most);
    if (value >= least && value <= most) {
        return TT_OK;
    }
    tt_text_add(why, "%s is %" PRIu64 ": it must be %" PRIu64 " to %" PRIu64, name, value, least,
                most);
    return TT_ERR_BAD_CONFIG;
}

static tt_status check_links(const tt_fabric_config *config, tt_text *why)
{
    for (uint32_t level = 0; level < TT_FABRIC_LEVELS; level++) {
        const tt_fabric_link *link = &config->links[level];
        TT_TRY(check_range("latency_ns of a link", link->latency_ns, 0, LATENCY_NS_MAX, why));
        TT_TRY(check_range("gap_ns of a link", link->gap_ns, 0, LATENCY_NS_MAX, why));
        TT_TRY(check_range("byte_fs of a link", link->byte_fs, 0, BYTE_FS_MAX, why));
    }
    return TT_OK;
}

static tt_status check_config(const tt_fabric_config *config, tt_text *why)
{
    TT_ASSERT(config != NULL);
    TT_TRY(check_range("rank_count", config->rank_count, 1, RANKS_MAX, why));
    TT_TRY(check_range("ranks_per_host", config->ranks_per_host, 1, config->rank_count, why));
    TT_TRY(check_range("cards_per_host", config->cards_per_host, 1, config->ranks_per_host, why));
    TT_TRY(check_range("hosts_per_leaf", config->hosts_per_leaf, 0, RANKS_MAX, why));
    TT_TRY(check_range("uplinks_per_leaf", config->uplinks_per_leaf,
                       config->hosts_per_leaf > 0 ? 1 : 0, RANKS_MAX, why));
    TT_TRY(check_range("head_bytes", config->head_bytes, 0, HEAD_BYTES_MAX, why));
    TT_TRY(check_range("overhead_ns", config->overhead_ns, 0, LATENCY_NS_MAX, why));
    TT_TRY(check_range("overhead_byte_fs", config->overhead_byte_fs, 0, BYTE_FS_MAX, why));
    TT_TRY(check_range("reduce_byte_fs", config->reduce_byte_fs, 0, BYTE_FS_MAX, why));
    TT_TRY(check_range("copy_byte_fs", config->copy_byte_fs, 0, BYTE_FS_MAX, why));
    TT_TRY(check_range("memory_byte_fs", config->memory_byte_fs, 0, BYTE_FS_MAX, why));
    return check_links(config, why);
}

tt_status tt_fabric_create(const tt_fabric_ops *ops, const tt_fabric_config *config,
                           const tt_allocator *allocator, tt_text *why, tt_fabric **fabric_out)
{
    TT_ASSERT(ops != NULL);
    TT_TRY(check_config(config, why));
    const tt_status status = ops->create(config, allocator, fabric_out);
    if (status != TT_OK) {
        tt_text_add(why, "a fabric '%s' of %u ranks needs %" PRIu64 " bytes: %s", ops->name,
                    config->rank_count, ops->bytes(config), tt_status_text(status));
    }
    return status;
}

/* ---- cards ---- */

static uint64_t network_cards(const tt_fabric_config *config)
{
    return (uint64_t)tt_fabric_host_count(config) * config->cards_per_host;
}

static uint64_t local_cards(const tt_fabric_config *config)
{
    return config->ranks_per_host > 1 ? config->rank_count : 0;
}

uint64_t tt_cards_bytes(const tt_fabric_config *config)
{
    return (network_cards(config) + local_cards(config)) * sizeof(tt_card);
}

uint32_t tt_fabric_card_count(const tt_fabric_config *config)
{
    TT_ASSERT(config->ranks_per_host > 0);
    return (uint32_t)(network_cards(config) + local_cards(config));
}

uint32_t tt_fabric_card(const tt_fabric_config *config, uint32_t source, uint32_t target)
{
    TT_DEBUG_ASSERT(source < config->rank_count && target < config->rank_count);
    const tt_fabric_level level = tt_fabric_level_of(config, source, target);
    return level == TT_FABRIC_HOST && config->ranks_per_host > 1
               ? (uint32_t)network_cards(config) + source
               : tt_card_number(config, source);
}

tt_status tt_cards_init(tt_cards *cards, const tt_fabric_config *config,
                        const tt_allocator *allocator)
{
    *cards = (tt_cards){.network_count = network_cards(config), .local_count = local_cards(config)};
    TT_ASSERT(cards->network_count > 0);
    cards->network = tt_allocate(allocator, cards->network_count, sizeof(tt_card));
    if (cards->network == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    if (cards->local_count == 0) {
        return TT_OK;
    }
    cards->local = tt_allocate(allocator, cards->local_count, sizeof(tt_card));
    if (cards->local == NULL) {
        tt_release(allocator, cards->network, cards->network_count, sizeof(tt_card));
        return TT_ERR_NO_MEMORY;
    }
    return TT_OK;
}

void tt_cards_fini(tt_cards *cards, const tt_allocator *allocator)
{
    tt_release(allocator, cards->network, cards->network_count, sizeof(tt_card));
    tt_release(allocator, cards->local, cards->local_count, sizeof(tt_card));
    *cards = (tt_cards){0};
}

void tt_cards_reset(tt_cards *cards)
{
    TT_ASSERT(cards->network != NULL);
    memset(cards->network, 0, cards->network_count * sizeof(tt_card));
    if (cards->local != NULL) {
        memset(cards->local, 0, cards->local_count * sizeof(tt_card));
    }
}
