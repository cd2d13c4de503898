/* SPDX-License-Identifier: Apache-2.0
 *
 * interface.c - the list of interfaces, the filter syntax, and which address is best. */
#include "launch/interface.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>

bool tt_launch_interface_matches(const char *filter, const char *name)
{
    const bool is_exclusion = filter[0] == '^';
    filter += is_exclusion ? 1 : 0;
    const bool is_exact = filter[0] == '=';
    filter += is_exact ? 1 : 0;

    bool is_listed = false;
    for (const char *at = filter; *at != '\0';) {
        const size_t bytes = strcspn(at, ",");
        is_listed = is_listed || (bytes > 0 && strncmp(at, name, bytes) == 0 &&
                                  (!is_exact || name[bytes] == '\0'));
        at += bytes + (at[bytes] == ',' ? 1 : 0);
    }
    return is_listed != is_exclusion;
}

/* Higher is better; 0 cannot be used. Loopback scores lowest: only if nothing else matches. */
static int score(const struct ifaddrs *each, const tt_launch_address *address, int family)
{
    if ((each->ifa_flags & IFF_UP) == 0) {
        return 0;
    }
    int points = 1;
    points += tt_launch_address_is_loopback(address) ? 0 : 8;
    points += tt_launch_address_is_link_local(address) ? 0 : 4;
    points += address->storage.ss_family == family ? 2 : 0;
    return points;
}

static bool address_of(const struct ifaddrs *each, tt_launch_address *address_out)
{
    const struct sockaddr *source = each->ifa_addr;
    if (source == NULL || (source->sa_family != AF_INET && source->sa_family != AF_INET6)) {
        return false;
    }
    *address_out =
        (tt_launch_address){.bytes = source->sa_family == AF_INET ? sizeof(struct sockaddr_in)
                                                                  : sizeof(struct sockaddr_in6)};
    memcpy(&address_out->storage, source, address_out->bytes);
    return true;
}

void tt_launch_interface_names(char names_out[TT_LAUNCH_INTERFACES_BYTES])
{
    struct ifaddrs *all = NULL;
    names_out[0] = '\0';
    (void)getifaddrs(&all);
    for (const struct ifaddrs *each = all; each != NULL; each = each->ifa_next) {
        tt_launch_address address;
        if (address_of(each, &address) && strstr(names_out, each->ifa_name) == NULL) {
            tt_launch_append(names_out, TT_LAUNCH_INTERFACES_BYTES, " %s", each->ifa_name);
        }
    }
    if (all != NULL) {
        freeifaddrs(all);
    }
}

tt_status tt_launch_interface_choose(const char *variable, const char *filter, int family,
                                     tt_launch_address *address_out, tt_launch_why *why)
{
    struct ifaddrs *all = NULL;
    char names[TT_LAUNCH_INTERFACES_BYTES];
    int best = 0;
    if (getifaddrs(&all) != 0) {
        return tt_launch_fail(why, TT_ERR_SYSTEM, "cannot list network interfaces: %s",
                              strerror(errno));
    }
    for (const struct ifaddrs *each = all; each != NULL; each = each->ifa_next) {
        tt_launch_address address;
        if (!address_of(each, &address)) {
            continue;
        }
        const int points = score(each, &address, family);
        if (points > best && tt_launch_interface_matches(filter, each->ifa_name)) {
            best = points;
            *address_out = address;
        }
    }
    freeifaddrs(all);
    if (best == 0) {
        tt_launch_interface_names(names);
        return tt_launch_fail(why, TT_ERR_BAD_CONFIG,
                              "%s='%.100s' matches no interface that is up; this host has:%s",
                              variable, filter, names);
    }
    return TT_OK;
}

tt_status tt_launch_interface_check(const char *variable, const char *filter, tt_launch_why *why)
{
    tt_launch_address address;
    return tt_launch_interface_choose(variable, filter, AF_INET, &address, why);
}
