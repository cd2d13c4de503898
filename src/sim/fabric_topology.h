/* SPDX-License-Identifier: Apache-2.0
 *
 * fabric_topology.h - the placement of a fabric's ranks, as algorithms see it.
 *
 * Layer:   sim.
 * Threads: pure.
 * Memory:  the allocator's, until it is released.
 */
#ifndef TUTTI_SIM_FABRIC_TOPOLOGY_H
#define TUTTI_SIM_FABRIC_TOPOLOGY_H

#include "aggregate/aggregate.h"
#include "sim/fabric.h"

typedef struct tt_fabric_places {
    tt_topology topology;
    uint32_t *numbers; /* its arrays */
    size_t number_count;
    const tt_allocator *allocator;
} tt_fabric_places;

/* Ranks of a host see each other's memory; as many of them as it has cards exchange with other
 * hosts. TT_ERR_NO_MEMORY. */
tt_status tt_fabric_places_make(const tt_fabric_config *config, const tt_allocator *allocator,
                                tt_fabric_places *places_out);
void tt_fabric_places_release(tt_fabric_places *places);

#endif
