/* SPDX-License-Identifier: Apache-2.0
 *
 * launch.h - the door of the launch layer: rank, size and rendezvous of this process.
 *
 * Layer:   launch; may include base/ only.
 * Threads: see each header.
 * Memory:  see each header.
 */
#ifndef TUTTI_LAUNCH_LAUNCH_H
#define TUTTI_LAUNCH_LAUNCH_H

#include "launch/deadline.h"
#include "launch/family.h"
#include "launch/interface.h"
#include "launch/nodelist.h"
#include "launch/pmi/pmi.h"
#include "launch/reasons.h"
#include "launch/rendezvous.h"
#include "launch/servers.h"
#include "launch/socket.h"
#include "launch/tf_config.h"
#include "launch/variables.h"

#endif
