/* SPDX-License-Identifier: Apache-2.0
 *
 * listen.c - finds the address by which the other hosts reach this one, and listens there. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/run/descriptor.h"
#include "cli/run/listen.h"

typedef struct net_address {
    struct sockaddr_storage storage;
    socklen_t bytes;
} net_address;

static bool is_loopback(const struct sockaddr *socket_address)
{
    if (socket_address->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const void *)socket_address;
        return (ntohl(v4->sin_addr.s_addr) >> 24) == 127;
    }
    const struct sockaddr_in6 *v6 = (const void *)socket_address;
    return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr) || IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr);
}

static bool can_bind(const net_address *address)
{
    const int fd = socket(address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool is_bound = fd >= 0 && bind(fd, (const void *)&address->storage, address->bytes) == 0;
    if (fd >= 0) {
        close(fd);
    }
    return is_bound;
}

/* 127.0.0.1, or ::1 on a host without IPv4. */
static net_address loopback(void)
{
    net_address found = {.bytes = sizeof(struct sockaddr_in)};
    struct sockaddr_in *v4 = (void *)&found.storage;
    v4->sin_family = AF_INET;
    v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (can_bind(&found)) {
        return found;
    }
    net_address newer = {.bytes = sizeof(struct sockaddr_in6)};
    struct sockaddr_in6 *v6 = (void *)&newer.storage;
    v6->sin6_family = AF_INET6;
    v6->sin6_addr = in6addr_loopback;
    return can_bind(&newer) ? newer : found;
}

/* Connecting a datagram socket sends nothing; it only asks the kernel for the route. */
static bool route_to(const char *host, net_address *address_out)
{
    struct addrinfo hints = {.ai_socktype = SOCK_DGRAM};
    struct addrinfo *results = NULL;
    if (getaddrinfo(host, "9", &hints, &results) != 0) {
        return false;
    }
    bool is_found = false;
    for (struct addrinfo *result = results; result != NULL && !is_found; result = result->ai_next) {
        const int fd = socket(result->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        address_out->bytes = sizeof(address_out->storage);
        is_found = fd >= 0 && !is_loopback(result->ai_addr) &&
                   connect(fd, result->ai_addr, result->ai_addrlen) == 0 &&
                   getsockname(fd, (void *)&address_out->storage, &address_out->bytes) == 0 &&
                   !is_loopback((void *)&address_out->storage);
        if (fd >= 0) {
            close(fd);
        }
    }
    freeaddrinfo(results);
    return is_found;
}

/* IPv4 first: it is what most clusters route. `name` "" takes any interface but loopback. */
static bool interface_address(const char *name, net_address *address_out)
{
    struct ifaddrs *interfaces;
    if (getifaddrs(&interfaces) != 0) {
        return false;
    }
    bool is_found = false;
    const int families[2] = {AF_INET, AF_INET6};
    for (int i = 0; i < 2 && !is_found; i++) {
        for (struct ifaddrs *item = interfaces; item != NULL && !is_found; item = item->ifa_next) {
            if (item->ifa_addr == NULL || item->ifa_addr->sa_family != families[i] ||
                (item->ifa_flags & IFF_UP) == 0) {
                continue;
            }
            const bool is_wanted =
                name[0] != '\0' ? strcmp(name, item->ifa_name) == 0 : !is_loopback(item->ifa_addr);
            if (is_wanted) {
                address_out->bytes = families[i] == AF_INET ? sizeof(struct sockaddr_in)
                                                            : sizeof(struct sockaddr_in6);
                memcpy(&address_out->storage, item->ifa_addr, address_out->bytes);
                is_found = true;
            }
        }
    }
    freeifaddrs(interfaces);
    return is_found;
}

static bool choose(const tt_wire_spec *spec, net_address *address_out)
{
    if (spec->interface[0] != '\0') {
        return interface_address(spec->interface, address_out);
    }
    if (spec->is_loopback_only) {
        *address_out = loopback();
        return true;
    }
    for (size_t i = 0; i < spec->peers.count; i++) {
        if (i != spec->cross_rank && route_to(spec->peers.items[i], address_out)) {
            return true;
        }
    }
    if (!interface_address("", address_out)) {
        *address_out = loopback();
    }
    return true;
}

static void format_url(const net_address *address, char *url, size_t url_bytes)
{
    char host[NI_MAXHOST];
    char port[NI_MAXSERV];
    (void)getnameinfo((const void *)&address->storage, address->bytes, host, sizeof(host), port,
                      sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV);
    const bool is_v6 = address->storage.ss_family == AF_INET6;
    snprintf(url, url_bytes, "tcp://%s%s%s:%s", is_v6 ? "[" : "", host, is_v6 ? "]" : "", port);
}

static void explain(char *text, size_t text_bytes)
{
    char reason[256];
    tt_descriptor_explain(errno, reason, sizeof(reason));
    snprintf(text, text_bytes, "cannot listen for the ranks: %s", reason);
}

static uint16_t *port_of(net_address *address)
{
    return address->storage.ss_family == AF_INET6
               ? &((struct sockaddr_in6 *)(void *)&address->storage)->sin6_port
               : &((struct sockaddr_in *)(void *)&address->storage)->sin_port;
}

static bool has_room_for_store(const net_address *address)
{
    net_address store = *address;
    const uint32_t port = ntohs(*port_of(&store)) + (uint32_t)TT_LISTEN_STORE_OFFSET;
    *port_of(&store) = htons((uint16_t)port);
    return port <= UINT16_MAX && can_bind(&store);
}

/* -1: errno says why. */
static int listen_at(net_address *address)
{
    enum { BACKLOG = 1024 };
    *port_of(address) = 0;
    const int fd = socket(address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 &&
        (bind(fd, (void *)&address->storage, address->bytes) != 0 || listen(fd, BACKLOG) != 0 ||
         getsockname(fd, (void *)&address->storage, &address->bytes) != 0)) {
        const int reason = errno;
        close(fd);
        errno = reason;
        return -1;
    }
    return fd;
}

int tt_listen_open(const tt_wire_spec *spec, char *url, size_t url_bytes)
{
    enum { TRIES = 20 };
    net_address address = {0};
    if (!choose(spec, &address)) {
        snprintf(url, url_bytes, "interface '%s' is not up or has no address; see 'tutti info'",
                 spec->interface);
        return -1;
    }
    int fd = listen_at(&address);
    for (int i = 0; i < TRIES && fd >= 0 && !has_room_for_store(&address); i++) {
        close(fd);
        fd = listen_at(&address);
    }
    if (fd < 0) {
        explain(url, url_bytes);
        return -1;
    }
    const int passed_fd = tt_descriptor_raise(fd);
    if (passed_fd < 0) {
        explain(url, url_bytes);
    } else {
        format_url(&address, url, url_bytes);
    }
    return passed_fd;
}
