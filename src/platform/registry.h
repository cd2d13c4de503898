/* SPDX-License-Identifier: Apache-2.0
 *
 * registry.h - the drivers of the seam.
 *
 * Layer:   platform; for the composition root and tests.
 * Threads: see each header.
 * Memory:  see each header.
 */
#ifndef TUTTI_PLATFORM_REGISTRY_H
#define TUTTI_PLATFORM_REGISTRY_H

#include "platform/platform.h"
#include "platform/real.h"
#include "platform/sim.h"

#endif
