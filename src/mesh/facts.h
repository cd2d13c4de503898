/* SPDX-License-Identifier: Apache-2.0
 *
 * facts.h - the facts about its machine that a rank sends to the others, so that all compute the
 * same numbers: cores that a host has for its ranks, and ranks that its network cards need.
 *
 * Layer:   mesh; reads the affinity mask, the list of interfaces and /sys/class/net.
 * Threads: any.
 * Memory:  none that stays.
 */
#ifndef TUTTI_MESH_FACTS_H
#define TUTTI_MESH_FACTS_H

#include <stdint.h>

enum {
    TT_FACTS_CORE_BYTES = 32,   /* a bit for each core, modulo 256 */
    TT_FACTS_RAIL_MBITS = 2500, /* what one rank can easily sum and send */
    TT_FACTS_RAILS_UNKNOWN = 4, /* where a card reports no speed */
};

typedef struct tt_facts {
    uint8_t cores[TT_FACTS_CORE_BYTES]; /* where the calling thread may run */
    uint32_t card_count;                /* interfaces that are up, have an address and a carrier */
    uint32_t card_mbits;                /* of all of them; 0: at least one reports no speed */
} tt_facts;

/* The facts of all ranks of a host together. */
typedef struct tt_host_facts {
    uint32_t rank_count;
    uint32_t core_count; /* that any of its ranks may run on */
    uint32_t card_count;
    uint32_t card_mbits;
} tt_host_facts;

void tt_facts_find(tt_facts *facts_out);
/* The cores only. */
void tt_facts_find_cores(tt_facts *facts_out);

/* Bits that are set. */
uint32_t tt_facts_core_count(const uint8_t cores[TT_FACTS_CORE_BYTES]);

/* How many ranks of the host should drive its cards: as many as the cards can use, at least one
 * per card, and no more than it has cores. */
uint32_t tt_facts_rails(const tt_host_facts *host);

#endif
