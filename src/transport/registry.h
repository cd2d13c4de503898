/* SPDX-License-Identifier: Apache-2.0
 *
 * registry.h - every kind of link Tutti has, and what a context needs to make them.
 *
 * Layer:   transport; for the composition root and tests.
 * Threads: see each header.
 * Memory:  see each header.
 */
#ifndef TUTTI_TRANSPORT_REGISTRY_H
#define TUTTI_TRANSPORT_REGISTRY_H

#include "transport/outside.h"
#include "transport/secure/secret.h"
#include "transport/shm/segment.h"
#include "transport/shm/shm.h"
#include "transport/tcp/streams.h"
#include "transport/tcp/tcp.h"
#include "transport/transport.h"

#endif
