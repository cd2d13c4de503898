/* SPDX-License-Identifier: Apache-2.0
 *
 * fabric_network.h - a fabric as the network of the simulated driver (platform/sim.h), which then
 * runs whole machines on it.
 *
 * Layer:   sim.
 * Threads: one at a time.
 * Memory:  the caller's.
 */
#ifndef TUTTI_SIM_FABRIC_NETWORK_H
#define TUTTI_SIM_FABRIC_NETWORK_H

#include "platform/registry.h"
#include "sim/fabric.h"

typedef struct tt_fabric_network {
    tt_sim_network base; /* first */
    tt_fabric *fabric;
    tt_fabric_traffic levels[TT_FABRIC_LEVELS];
} tt_fabric_network;

/* `fabric` must outlive it. Work of codecs costs as much as copies. */
void tt_fabric_network_init(tt_fabric_network *network, tt_fabric *fabric);

#endif
