/* SPDX-License-Identifier: Apache-2.0
 *
 * address.h - which of this host's addresses the others should use, and this host's id.
 *
 * Layer:   mesh.
 * Threads: no state.
 * Memory:  plain values.
 */
#ifndef TUTTI_MESH_ADDRESS_H
#define TUTTI_MESH_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "launch/launch.h"

enum { TT_MESH_MEETING_SOCKETS_MAX = 4 };

/* Rank 0's side of a TCP rendezvous: one port, on every address by which others may reach it. */
typedef struct tt_mesh_meeting {
    int fds[TT_MESH_MEETING_SOCKETS_MAX];
    size_t fd_count;
    uint16_t port;
} tt_mesh_meeting;

/* The address to advertise: of the interface that TUTTI_INTERFACE (else NCCL_SOCKET_IFNAME,
 * GLOO_SOCKET_IFNAME, HOROVOD_GLOO_IFACE) chooses; else loopback if the rendezvous is on loopback;
 * else the one the kernel would use to reach the rendezvous. Sends nothing. */
tt_status tt_mesh_address_choose(const tt_launch_source *source, const tt_launch_rendezvous *meet,
                                 tt_launch_address *address_out, tt_launch_why *why);

/* TUTTI_PORT_RANGE=first-last; port_first 0 and port_count 1, the kernel's choice, without it. */
tt_status tt_mesh_port_range(const tt_launch_source *source, tt_launch_listen_request *request_out,
                             tt_launch_why *why);

/* Rank 0: listen on every address that the others may dial. If the name is loopback on this host
 * only (Debian maps a host's own name so) or the address is not this host's (a service, a NAT), the
 * address of the default route is added. The caller closes it. */
tt_status tt_mesh_meeting_listen(const tt_launch_rendezvous *meet, tt_mesh_meeting *meeting_out,
                                 tt_launch_why *why);
void tt_mesh_meeting_close(tt_mesh_meeting *meeting);

/* The others: candidate `turn` for rank 0's address, with its port set, first all addresses of
 * the first port. False once there are no more. The peer must prove to be rank 0. */
bool tt_mesh_meeting_candidate(const tt_launch_address_list *addresses,
                               const tt_launch_rendezvous *meet, size_t turn,
                               tt_launch_address *address_out);

/* The same on all ranks that can share memory and loopback, different otherwise: from host name,
 * boot, network and IPC namespace, or from TUTTI_HOSTID. Never 0. */
uint64_t tt_mesh_host_id(const tt_launch_source *source);

#endif
