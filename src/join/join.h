/* SPDX-License-Identifier: Apache-2.0
 *
 * join.h - the door of the join layer: how ranks meet.
 *
 * Layer:   join; may include base/, launch/ and transport/ (the mesh shakes hands).
 * Threads: see each header.
 * Memory:  see each header.
 */
#ifndef TUTTI_JOIN_JOIN_H
#define TUTTI_JOIN_JOIN_H

#include "join/address.h"
#include "join/file_store.h"
#include "join/mesh.h"

#endif
