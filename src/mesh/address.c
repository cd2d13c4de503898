/* SPDX-License-Identifier: Apache-2.0
 *
 * address.c - which address to advertise, the rendezvous sockets, the host id. */
#include "mesh/address.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/base.h"

static const char *const filter_variables[] = {"TUTTI_INTERFACE", "NCCL_SOCKET_IFNAME",
                                               "GLOO_SOCKET_IFNAME", "HOROVOD_GLOO_IFACE"};

/* The source address the kernel would use towards `peer`: a UDP connect routes but sends nothing.
 */
static bool route_source(const tt_launch_address *peer, tt_launch_address *address_out)
{
    tt_launch_address target = *peer;
    tt_launch_address found = {.bytes = sizeof(found.storage)};
    tt_launch_address_set_port(&target, 9);
    const int fd = socket(target.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return false;
    }
    const bool is_found =
        connect(fd, (const struct sockaddr *)&target.storage, target.bytes) == 0 &&
        getsockname(fd, (struct sockaddr *)&found.storage, &found.bytes) == 0;
    close(fd);
    if (is_found) {
        tt_launch_address_set_port(&found, 0);
        *address_out = found;
    }
    return is_found;
}

/* The address of the default route, else of the best interface. */
static tt_status choose_outside(tt_launch_address *address_out, tt_launch_why *why)
{
    /* Addresses reserved for documentation: no host has them, so only the default route matches. */
    static const char *const outside[] = {"192.0.2.1", "2001:db8::1"};
    for (size_t i = 0; i < TT_ARRAY_COUNT(outside); i++) {
        tt_launch_address_list list;
        if (tt_launch_resolve(outside[i], &list, why) == TT_OK &&
            route_source(&list.addresses[0], address_out)) {
            return TT_OK;
        }
    }
    return tt_launch_interface_choose("interface", "^", AF_INET, address_out, why);
}

/* "localhost" and literals are loopback on every host; another name may be so on this host only. */
static bool is_loopback_everywhere(const char *host)
{
    unsigned char bytes[sizeof(struct in6_addr)];
    return strcmp(host, "localhost") == 0 || inet_pton(AF_INET, host, bytes) == 1 ||
           inet_pton(AF_INET6, host, bytes) == 1;
}

tt_status tt_mesh_address_choose(const tt_launch_source *source, const tt_launch_rendezvous *meet,
                                 tt_launch_address *address_out, tt_launch_why *why)
{
    tt_launch_address_list list = {.count = 0};
    if (meet->kind == TT_LAUNCH_RENDEZVOUS_TCP) {
        TT_TRY(tt_launch_resolve(meet->host, &list, why));
    }
    const int family = list.count > 0 ? list.addresses[0].storage.ss_family : AF_INET;
    for (size_t i = 0; i < TT_ARRAY_COUNT(filter_variables); i++) {
        const char *filter = tt_launch_source_get(source, filter_variables[i]);
        if (filter != NULL) {
            return tt_launch_interface_choose(filter_variables[i], filter, family, address_out,
                                              why);
        }
    }
    if (list.count == 0) {
        return choose_outside(address_out, why);
    }
    for (size_t i = 0; i < list.count; i++) {
        if (!route_source(&list.addresses[i], address_out)) {
            continue;
        }
        if (tt_launch_address_is_loopback(address_out) && !is_loopback_everywhere(meet->host)) {
            return choose_outside(address_out, why);
        }
        return TT_OK;
    }
    return tt_launch_fail(
        why, TT_ERR_SYSTEM,
        "no route to the rendezvous host %s; check the name, or choose an interface "
        "with TUTTI_INTERFACE",
        meet->host);
}

tt_status tt_mesh_port_range(const tt_launch_source *source, tt_launch_listen_request *request_out,
                             tt_launch_why *why)
{
    const char *text = tt_launch_source_get(source, "TUTTI_PORT_RANGE");
    tt_launch_rendezvous range = {.port_first = 0, .port_count = 1};
    tt_launch_why inner;
    if (text != NULL && tt_launch_port_range_parse(text, strlen(text), &range, &inner) != TT_OK) {
        return tt_launch_fail(why, TT_ERR_BAD_CONFIG, "TUTTI_PORT_RANGE: %.600s", inner.text);
    }
    request_out->port_first = range.port_first;
    request_out->port_count = range.port_count;
    return TT_OK;
}

static bool is_local(const tt_launch_address *address)
{
    tt_launch_address own = *address;
    tt_launch_address_set_port(&own, 0);
    const int fd = socket(own.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const bool is_bound =
        fd >= 0 && bind(fd, (const struct sockaddr *)&own.storage, own.bytes) == 0;
    if (fd >= 0) {
        close(fd);
    }
    return is_bound;
}

/* The addresses of this host that the others may dial. */
static tt_status list_own(const char *host, tt_launch_address_list *own, tt_launch_why *why)
{
    tt_launch_address_list resolved;
    bool is_known_outside = false;
    own->count = 0;
    TT_TRY(tt_launch_resolve(host, &resolved, why));
    for (size_t i = 0; i < resolved.count && own->count < TT_MESH_MEETING_SOCKETS_MAX - 1; i++) {
        if (is_local(&resolved.addresses[i])) {
            own->addresses[own->count++] = resolved.addresses[i];
            is_known_outside =
                is_known_outside || !tt_launch_address_is_loopback(&resolved.addresses[i]);
        }
    }
    if (is_known_outside || (own->count > 0 && is_loopback_everywhere(host))) {
        return TT_OK;
    }
    return choose_outside(&own->addresses[own->count++], why);
}

void tt_mesh_meeting_close(tt_mesh_meeting *meeting)
{
    for (size_t i = 0; i < meeting->fd_count; i++) {
        close(meeting->fds[i]);
    }
    meeting->fd_count = 0;
}

/* Listen on one port of all addresses, or on none. */
static tt_status listen_on_all(const tt_launch_address_list *own, uint16_t port,
                               tt_mesh_meeting *meeting, tt_launch_why *why)
{
    *meeting = (tt_mesh_meeting){.port = port};
    for (size_t i = 0; i < own->count; i++) {
        const tt_launch_listen_request request = {.address = own->addresses[i],
                                                  .port_first = port,
                                                  .port_count = 1,
                                                  .allow_any = true}; /* the user wrote the host */
        tt_launch_listener listener;
        const tt_status status = tt_launch_listen(&request, &listener, why);
        if (status != TT_OK) {
            tt_mesh_meeting_close(meeting);
            return status;
        }
        meeting->fds[meeting->fd_count++] = listener.fd;
    }
    return TT_OK;
}

tt_status tt_mesh_meeting_listen(const tt_launch_rendezvous *meet, tt_mesh_meeting *meeting_out,
                                 tt_launch_why *why)
{
    tt_launch_address_list own;
    tt_mesh_meeting meeting;
    TT_ASSERT(meet->kind == TT_LAUNCH_RENDEZVOUS_TCP);
    TT_TRY(list_own(meet->host, &own, why));
    for (uint32_t i = 0; i < meet->port_count; i++) {
        const tt_status status =
            listen_on_all(&own, (uint16_t)(meet->port_first + i), &meeting, why);
        if (status == TT_OK) {
            *meeting_out = meeting;
            return TT_OK;
        }
        if (status != TT_ERR_NO_RESOURCE) {
            return status;
        }
    }
    char place[TT_LAUNCH_RENDEZVOUS_TEXT_BYTES];
    tt_launch_rendezvous_format(meet, place);
    return tt_launch_fail(
        why, TT_ERR_NO_RESOURCE,
        "rank 0 cannot listen at %.300s: all its ports are in use; end the job that holds "
        "them or choose another TUTTI_RENDEZVOUS",
        place);
}

bool tt_mesh_meeting_candidate(const tt_launch_address_list *addresses,
                               const tt_launch_rendezvous *meet, size_t turn,
                               tt_launch_address *address_out)
{
    TT_ASSERT(addresses->count > 0);
    const size_t port_index = turn / addresses->count;
    if (port_index >= meet->port_count) {
        return false;
    }
    *address_out = addresses->addresses[turn % addresses->count];
    tt_launch_address_set_port(address_out, (uint16_t)(meet->port_first + port_index));
    return true;
}

static uint64_t hash_file(uint64_t seed, const char *path)
{
    char bytes[128];
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t count = fd >= 0 ? read(fd, bytes, sizeof(bytes)) : 0;
    if (fd >= 0) {
        close(fd);
    }
    return count > 0 ? tt_launch_hash(seed, bytes, (size_t)count) : seed;
}

static uint64_t hash_namespace(uint64_t seed, const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0) {
        return seed;
    }
    const uint64_t identity[2] = {status.st_dev, status.st_ino};
    return tt_launch_hash(seed, identity, sizeof(identity));
}

uint64_t tt_mesh_host_id(const tt_launch_source *source)
{
    const char *given = tt_launch_source_get(source, "TUTTI_HOSTID");
    char name[TT_LAUNCH_HOST_BYTES] = "";
    uint64_t id;
    if (given != NULL) {
        id = tt_launch_hash(0, given, strlen(given));
    } else {
        (void)gethostname(name, sizeof(name) - 1);
        id = tt_launch_hash(0, name, strlen(name));
        id = hash_file(id, "/proc/sys/kernel/random/boot_id");
        id = hash_namespace(id, "/proc/self/ns/net");
        id = hash_namespace(id, "/proc/self/ns/ipc");
    }
    return id != 0 ? id : 1;
}
