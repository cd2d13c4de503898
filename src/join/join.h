/* SPDX-License-Identifier: Apache-2.0
 *
 * join.h - the door of the join layer: how a process finds out who it is and where to meet.
 *
 * Layer:   join; may include base/ and transport/ (the mesh shakes hands).
 * Threads: see each header.
 * Memory:  see each header.
 */
#ifndef TUTTI_JOIN_JOIN_H
#define TUTTI_JOIN_JOIN_H

#include "join/address.h"
#include "join/deadline.h"
#include "join/family.h"
#include "join/file_store.h"
#include "join/interface.h"
#include "join/mesh.h"
#include "join/nodelist.h"
#include "join/pmi.h"
#include "join/rendezvous.h"
#include "join/socket.h"
#include "join/reasons.h"
#include "join/tf_config.h"
#include "join/variables.h"

#endif
