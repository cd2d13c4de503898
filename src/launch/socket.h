/* SPDX-License-Identifier: Apache-2.0
 *
 * socket.h - name resolution, listening and connecting, with errors that name the cure.
 *
 * Every descriptor made here is close-on-exec and non-blocking.
 *
 * Layer:   launch.
 * Threads: no state; resolving a name may block for as long as the system's resolver does.
 * Memory:  plain values; the caller owns returned descriptors.
 */
#ifndef TUTTI_LAUNCH_SOCKET_H
#define TUTTI_LAUNCH_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "launch/reasons.h"

enum {
    TT_LAUNCH_ADDRESS_TEXT_BYTES = 80, /* [IPv6 with scope]:port and more */
    TT_LAUNCH_RESOLVED_MAX = 8,
};

/* An IPv4 or IPv6 address; its port field is unused unless a function's comment names it. */
typedef struct tt_launch_address {
    struct sockaddr_storage storage;
    socklen_t bytes;
} tt_launch_address;

typedef struct tt_launch_address_list {
    tt_launch_address addresses[TT_LAUNCH_RESOLVED_MAX];
    size_t count; /* at least 1 after a successful resolve */
} tt_launch_address_list;

typedef struct tt_launch_listen_request {
    tt_launch_address address;
    uint16_t port_first; /* 0: the kernel chooses, port_count must be 1 */
    uint16_t port_count;
    bool allow_any; /* without it, 0.0.0.0 and :: are refused */
} tt_launch_listen_request;

typedef struct tt_launch_listener {
    int fd;
    uint16_t port;
} tt_launch_listener;

/* Name or literal, with scope where IPv6 needs one, in the resolver's order. */
tt_status tt_launch_resolve(const char *host, tt_launch_address_list *list_out, tt_launch_why *why);

/* "10.0.0.7", "fe80::1%eth0". */
void tt_launch_address_format(const tt_launch_address *address,
                              char text_out[TT_LAUNCH_ADDRESS_TEXT_BYTES]);

bool tt_launch_address_is_loopback(const tt_launch_address *address);
bool tt_launch_address_is_any(const tt_launch_address *address);
bool tt_launch_address_is_link_local(const tt_launch_address *address);
void tt_launch_address_set_port(tt_launch_address *address, uint16_t port);

/* Listen on the first free port of the range. `*listener_out` is set only on TT_OK. */
tt_status tt_launch_listen(const tt_launch_listen_request *request,
                           tt_launch_listener *listener_out, tt_launch_why *why);

/* Connect to the address and the port in it. TT_ERR_TIMED_OUT, or TT_ERR_SYSTEM with errno. */
tt_status tt_launch_connect(const tt_launch_address *address, uint64_t deadline_ns, int *fd_out,
                            tt_launch_why *why);

#endif
