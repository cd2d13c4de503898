/* SPDX-License-Identifier: Apache-2.0
 *
 * registry.h - every model of a fabric. To add one: write sim/fabric_<name>.c, declare its table
 * here, list it in registry.c. Nothing else changes.
 *
 * Layer:   sim.
 * Threads: pure.
 * Memory:  none.
 */
#ifndef TUTTI_SIM_REGISTRY_H
#define TUTTI_SIM_REGISTRY_H

#include "sim/fabric.h"

extern const tt_fabric_ops tt_fabric_ports;
extern const tt_fabric_ops tt_fabric_memory;
extern const tt_fabric_ops tt_fabric_tree;

#endif
