/* SPDX-License-Identifier: Apache-2.0
 *
 * interface.h - this host's network interfaces, and which one a filter chooses.
 *
 * Layer:   launch.
 * Threads: no state.
 * Memory:  plain values.
 */
#ifndef TUTTI_LAUNCH_INTERFACE_H
#define TUTTI_LAUNCH_INTERFACE_H

#include <stdbool.h>

#include "launch/socket.h"

enum { TT_LAUNCH_INTERFACES_BYTES = 256 };

/* NCCL's syntax: "eth,ib" are prefixes, "=eth0,eth1" are names, a leading '^' excludes them. */
bool tt_launch_interface_matches(const char *filter, const char *name);

/* Whether some interface that is up matches `filter`; else `why` names `variable` and lists this
 * host's interfaces. */
tt_status tt_launch_interface_check(const char *variable, const char *filter, tt_launch_why *why);
/* This host's interfaces that have an address, a space before each. */
void tt_launch_interface_names(char names_out[TT_LAUNCH_INTERFACES_BYTES]);

/* Best address among the interfaces that match; `family` is preferred among equals. If none
 * matches, `why` names `variable`, which held the filter. */
tt_status tt_launch_interface_choose(const char *variable, const char *filter, int family,
                                     tt_launch_address *address_out, tt_launch_why *why);

#endif
