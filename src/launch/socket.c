/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "launch/deadline.h"

/* The kernel limits it to somaxconn; all ranks of a job may connect at once. */
enum { BACKLOG = 4096 };

tt_status tt_launch_resolve(const char *host, tt_launch_address_list *list_out, tt_launch_why *why)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    const int error = getaddrinfo(host, NULL, &hints, &found);
    if (error != 0) {
        const char *text = error == EAI_SYSTEM ? strerror(errno) : gai_strerror(error);
        return tt_launch_fail(why, TT_ERR_SYSTEM,
                              "host '%.200s' cannot be resolved: %s; use a name that every node "
                              "can resolve, or an address",
                              host, text);
    }
    tt_launch_address_list list = {.count = 0};
    for (const struct addrinfo *each = found; each != NULL; each = each->ai_next) {
        if ((each->ai_family == AF_INET || each->ai_family == AF_INET6) &&
            list.count < TT_LAUNCH_RESOLVED_MAX) {
            tt_launch_address *address = &list.addresses[list.count++];
            memcpy(&address->storage, each->ai_addr, each->ai_addrlen);
            address->bytes = each->ai_addrlen;
        }
    }
    freeaddrinfo(found);
    if (list.count == 0) {
        return tt_launch_fail(why, TT_ERR_SYSTEM,
                              "host '%.200s' has no IPv4 or IPv6 address; use another name", host);
    }
    *list_out = list;
    return TT_OK;
}

void tt_launch_address_format(const tt_launch_address *address,
                              char text_out[TT_LAUNCH_ADDRESS_TEXT_BYTES])
{
    if (getnameinfo((const struct sockaddr *)&address->storage, address->bytes, text_out,
                    TT_LAUNCH_ADDRESS_TEXT_BYTES, NULL, 0, NI_NUMERICHOST) != 0) {
        (void)snprintf(text_out, TT_LAUNCH_ADDRESS_TEXT_BYTES, "(address family %d)",
                       (int)address->storage.ss_family);
    }
}

static const struct in6_addr *ipv6_of(const tt_launch_address *address)
{
    return address->storage.ss_family == AF_INET6
               ? &((const struct sockaddr_in6 *)&address->storage)->sin6_addr
               : NULL;
}

/* Host byte order; IPv4-mapped IPv6 counts as IPv4. 0 for other addresses. */
static uint32_t ipv4_of(const tt_launch_address *address)
{
    const struct in6_addr *ipv6 = ipv6_of(address);
    uint32_t bits = 0;
    if (address->storage.ss_family == AF_INET) {
        bits = ((const struct sockaddr_in *)&address->storage)->sin_addr.s_addr;
    } else if (ipv6 != NULL && IN6_IS_ADDR_V4MAPPED(ipv6)) {
        memcpy(&bits, &ipv6->s6_addr[12], sizeof(bits));
    }
    return ntohl(bits);
}

bool tt_launch_address_is_loopback(const tt_launch_address *address)
{
    const struct in6_addr *ipv6 = ipv6_of(address);
    return ipv4_of(address) >> 24 == 127 || (ipv6 != NULL && IN6_IS_ADDR_LOOPBACK(ipv6));
}

bool tt_launch_address_is_any(const tt_launch_address *address)
{
    const struct in6_addr *ipv6 = ipv6_of(address);
    const bool is_mapped = ipv6 != NULL && IN6_IS_ADDR_V4MAPPED(ipv6);
    if (address->storage.ss_family == AF_INET || is_mapped) {
        return ipv4_of(address) == INADDR_ANY;
    }
    return ipv6 != NULL && IN6_IS_ADDR_UNSPECIFIED(ipv6);
}

bool tt_launch_address_is_link_local(const tt_launch_address *address)
{
    const struct in6_addr *ipv6 = ipv6_of(address);
    return ipv4_of(address) >> 16 == 0xa9fe || (ipv6 != NULL && IN6_IS_ADDR_LINKLOCAL(ipv6));
}

void tt_launch_address_set_port(tt_launch_address *address, uint16_t port)
{
    if (address->storage.ss_family == AF_INET6) {
        ((struct sockaddr_in6 *)&address->storage)->sin6_port = htons(port);
    } else {
        TT_ASSERT(address->storage.ss_family == AF_INET);
        ((struct sockaddr_in *)&address->storage)->sin_port = htons(port);
    }
}

static uint16_t port_of(const tt_launch_address *address)
{
    return ntohs(address->storage.ss_family == AF_INET6
                     ? ((const struct sockaddr_in6 *)&address->storage)->sin6_port
                     : ((const struct sockaddr_in *)&address->storage)->sin_port);
}

/* One attempt; -1 with errno. */
static int listen_on(const tt_launch_address *address)
{
    const int on = 1;
    const int fd =
        socket(address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -1;
    }
    /* A port left in TIME_WAIT by an earlier job can be used. */
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (address->storage.ss_family == AF_INET6) {
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
    }
    if (bind(fd, (const struct sockaddr *)&address->storage, address->bytes) != 0 ||
        listen(fd, BACKLOG) != 0) {
        const int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

static tt_status refuse_listen(const tt_launch_listen_request *request, uint16_t port, int error,
                               tt_launch_why *why)
{
    char text[TT_LAUNCH_ADDRESS_TEXT_BYTES];
    const unsigned last = (unsigned)request->port_first + request->port_count - 1;
    tt_launch_address_format(&request->address, text);
    if (error == EADDRINUSE) {
        return tt_launch_fail(why, TT_ERR_NO_RESOURCE,
                              "cannot listen on %s: ports %u-%u are all in use; choose others with "
                              "TUTTI_PORT_RANGE=first-last, or another TUTTI_RENDEZVOUS",
                              text, (unsigned)request->port_first, last);
    }
    const char *cure = "";
    if (error == EADDRNOTAVAIL) {
        cure = "; this host does not have the address, choose one with TUTTI_INTERFACE";
    } else if (error == EACCES) {
        cure = "; ports below 1024 need privileges, choose others with TUTTI_PORT_RANGE";
    }
    return tt_launch_fail(why, TT_ERR_SYSTEM, "cannot listen on %s port %u: %s%s", text,
                          (unsigned)port, strerror(error), cure);
}

tt_status tt_launch_listen(const tt_launch_listen_request *request,
                           tt_launch_listener *listener_out, tt_launch_why *why)
{
    TT_ASSERT(request->port_count >= 1);
    TT_ASSERT(request->port_first != 0 || request->port_count == 1);
    TT_ASSERT((uint32_t)request->port_first + request->port_count <= UINT16_MAX + 1);
    tt_launch_address address = request->address;
    if (tt_launch_address_is_any(&address) && !request->allow_any) {
        return tt_launch_fail(why, TT_ERR_BAD_CONFIG,
                              "listening on all interfaces is not allowed; choose one with "
                              "TUTTI_INTERFACE");
    }
    for (uint32_t i = 0; i < request->port_count; i++) {
        const uint16_t port = (uint16_t)(request->port_first + i);
        tt_launch_address_set_port(&address, port);
        const int fd = listen_on(&address);
        if (fd >= 0) {
            tt_launch_address bound = {.bytes = sizeof(bound.storage)};
            (void)getsockname(fd, (struct sockaddr *)&bound.storage, &bound.bytes);
            *listener_out = (tt_launch_listener){.fd = fd, .port = port_of(&bound)};
            return TT_OK;
        }
        if (errno != EADDRINUSE) {
            return refuse_listen(request, port, errno, why);
        }
    }
    return refuse_listen(request, request->port_first, EADDRINUSE, why);
}

/* TT_OK once connected; else a status with errno. */
static tt_status connect_fd(int fd, const tt_launch_address *address, uint64_t deadline_ns)
{
    int error = 0;
    socklen_t error_bytes = sizeof(error);
    if (connect(fd, (const struct sockaddr *)&address->storage, address->bytes) == 0) {
        return TT_OK;
    }
    if (errno != EINPROGRESS && errno != EINTR) {
        return TT_ERR_SYSTEM;
    }
    TT_TRY(tt_launch_wait_fd(fd, POLLOUT, deadline_ns));
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_bytes) == 0 && error != 0) {
        errno = error;
    }
    return error == 0 ? TT_OK : TT_ERR_SYSTEM;
}

tt_status tt_launch_connect(const tt_launch_address *address, uint64_t deadline_ns, int *fd_out,
                            tt_launch_why *why)
{
    char text[TT_LAUNCH_ADDRESS_TEXT_BYTES];
    const int on = 1;
    tt_launch_address_format(address, text);
    const int fd =
        socket(address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return tt_launch_fail(why, TT_ERR_SYSTEM, "cannot create a socket for %s: %s", text,
                              strerror(errno));
    }
    const tt_status status = connect_fd(fd, address, deadline_ns);
    if (status != TT_OK) {
        const int error = errno;
        close(fd);
        errno = error;
        return tt_launch_fail(why, status, "cannot connect to %s port %u: %s", text,
                              (unsigned)port_of(address),
                              status == TT_ERR_TIMED_OUT ? "timed out" : strerror(error));
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    *fd_out = fd;
    return TT_OK;
}
