/* SPDX-License-Identifier: Apache-2.0
 *
 * fabric_internal.h - cards and links that serve frame by frame, for all models.
 *
 * Layer:   sim, private to fabric_*.c.
 * Threads: one at a time.
 * Memory:  the models'.
 */
#ifndef TUTTI_SIM_FABRIC_INTERNAL_H
#define TUTTI_SIM_FABRIC_INTERNAL_H

#include "base/assert.h"
#include "base/base.h"
#include "base/plant.h"
#include "sim/fabric.h"

/* Both directions of a card, or of a rank's path to the others of its host. */
typedef struct tt_card {
    uint64_t sending_ns; /* busy until then */
    uint64_t receiving_ns;
} tt_card;

typedef struct tt_cards {
    tt_card *network; /* [host_count * cards_per_host] */
    tt_card *local;   /* [rank_count]; NULL: hosts have one rank */
    uint64_t network_count, local_count;
} tt_cards;

static inline uint32_t tt_fabric_host_count(const tt_fabric_config *config)
{
    return (config->rank_count + config->ranks_per_host - 1) / config->ranks_per_host;
}

uint64_t tt_cards_bytes(const tt_fabric_config *config);
tt_status tt_cards_init(tt_cards *cards, const tt_fabric_config *config,
                        const tt_allocator *allocator);
void tt_cards_fini(tt_cards *cards, const tt_allocator *allocator);
void tt_cards_reset(tt_cards *cards);

/* Number of the card that a rank has to other hosts. */
TT_INLINE uint32_t tt_card_number(const tt_fabric_config *config, uint32_t rank)
{
    if (config->ranks_per_host == 1) {
        return rank;
    }
    const uint32_t host = rank / config->ranks_per_host;
    return host * config->cards_per_host + rank % config->ranks_per_host % config->cards_per_host;
}

TT_INLINE tt_card *tt_card_of(const tt_cards *cards, const tt_fabric_config *config, uint32_t rank,
                              tt_fabric_level level)
{
    return level == TT_FABRIC_HOST && config->ranks_per_host > 1
               ? &cards->local[rank]
               : &cards->network[tt_card_number(config, rank)];
}

/* When a link that is busy until *busy_ns_io begins with a frame that is there at `at_ns`, and is
 * busy with it for `service_ns`. */
TT_INLINE uint64_t tt_link_serve(uint64_t *busy_ns_io, uint64_t service_ns, uint64_t at_ns)
{
    const uint64_t begin_ns = tt_max_u64(at_ns, *busy_ns_io);
    *busy_ns_io = begin_ns + service_ns;
    return begin_ns;
}

/* Bytes of a frame on a link. */
TT_INLINE uint64_t tt_frame_ns(const tt_fabric_config *config, const tt_fabric_link *link,
                               const tt_fabric_frame *frame)
{
    return tt_fabric_bytes_ns((uint64_t)frame->bytes + config->head_bytes, link->byte_fs);
}

/* How a card serves frames of a level: over uplinks at its own speed too. */
TT_INLINE const tt_fabric_link *tt_card_link(const tt_fabric_config *config, tt_fabric_level level)
{
    return &config->links[level == TT_FABRIC_TREE ? TT_FABRIC_LEAF : level];
}

/* Off the sender's card. The first byte leaves when the card begins: switches do not wait for the
 * whole frame. */
TT_INLINE tt_departure tt_card_send(const tt_cards *cards, const tt_fabric_config *config,
                                    const tt_fabric_frame *frame, uint64_t at_ns)
{
    const tt_fabric_level level = tt_fabric_level_of(config, frame->source, frame->target);
    const tt_fabric_link *link = tt_card_link(config, level);
    tt_card *card = tt_card_of(cards, config, frame->source, level);
    const uint64_t frame_ns = tt_frame_ns(config, link, frame);
    const uint64_t begin_ns =
        TT_PLANT(CARD_SENDS_ALL_AT_ONCE)
            ? at_ns
            : tt_link_serve(&card->sending_ns, link->gap_ns + frame_ns, at_ns);
    return (tt_departure){.released_ns = begin_ns + frame_ns,
                          .free_ns = begin_ns + link->gap_ns + frame_ns,
                          .head_ns = begin_ns + config->links[level].latency_ns};
}

/* Through the target's card; when it is in memory. */
TT_INLINE uint64_t tt_card_receive(const tt_cards *cards, const tt_fabric_config *config,
                                   const tt_fabric_frame *frame, uint64_t at_ns)
{
    const tt_fabric_level level = tt_fabric_level_of(config, frame->source, frame->target);
    const tt_fabric_link *link = tt_card_link(config, level);
    tt_card *card = tt_card_of(cards, config, frame->target, level);
    const uint64_t frame_ns = tt_frame_ns(config, link, frame);
    const uint64_t stored_ns = TT_PLANT(FRAME_FORWARDED_WHOLE) ? frame_ns : 0;
    return tt_link_serve(&card->receiving_ns, link->gap_ns + frame_ns, at_ns + stored_ns) +
           frame_ns;
}

/* Of a rank that shares its memory with nobody. */
TT_INLINE uint64_t tt_work_ns(const tt_fabric_config *config, tt_fabric_work work, uint64_t bytes)
{
    return tt_fabric_bytes_ns(bytes, work == TT_FABRIC_COPY ? config->copy_byte_fs
                                                            : config->reduce_byte_fs);
}

#endif
