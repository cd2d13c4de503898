/* SPDX-License-Identifier: Apache-2.0
 *
 * facts.c - the affinity mask, and network cards as the kernel lists them. */
#include "mesh/facts.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/base.h"

void tt_facts_find_cores(tt_facts *facts_out)
{
    cpu_set_t cores;
    memset(facts_out->cores, 0, sizeof(facts_out->cores));
    if (sched_getaffinity(0, sizeof(cores), &cores) != 0) {
        facts_out->cores[0] = 1;
        return;
    }
    for (size_t core = 0; core < CPU_SETSIZE; core++) {
        if (CPU_ISSET(core, &cores)) {
            const size_t bit = core % ((size_t)TT_FACTS_CORE_BYTES * 8);
            facts_out->cores[bit / 8] |= (uint8_t)(1U << (bit % 8));
        }
    }
}

/* Has it an address that others can reach, and is its link up? */
static bool is_usable(const struct ifaddrs *each)
{
    const int family = each->ifa_addr != NULL ? each->ifa_addr->sa_family : AF_UNSPEC;
    const unsigned needed = IFF_UP | IFF_RUNNING;
    return (family == AF_INET || family == AF_INET6) && (each->ifa_flags & IFF_LOOPBACK) == 0 &&
           (each->ifa_flags & needed) == needed;
}

/* Was it counted before? The list has one entry for each address of an interface. */
static bool is_repeated(const struct ifaddrs *all, const struct ifaddrs *each)
{
    const struct ifaddrs *before = all;
    while (before != each &&
           (!is_usable(before) || strcmp(before->ifa_name, each->ifa_name) != 0)) {
        before = before->ifa_next;
    }
    return before != each;
}

/* Megabits per second; 0: unknown. */
static uint32_t card_speed(const char *name)
{
    char path[64 + IFNAMSIZ];
    long long speed = 0;
    (void)snprintf(path, sizeof(path), "/sys/class/net/%.*s/speed", IFNAMSIZ - 1, name);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return 0;
    }
    const bool is_number = fscanf(file, "%lld", &speed) == 1;
    (void)fclose(file);
    return is_number && speed > 0 && speed < 1000 * 1000 * 1000 ? (uint32_t)speed : 0;
}

static void find_cards(tt_facts *facts)
{
    struct ifaddrs *all = NULL;
    uint64_t mbits = 0;
    bool is_known = true;
    if (getifaddrs(&all) != 0) {
        return;
    }
    for (const struct ifaddrs *each = all; each != NULL; each = each->ifa_next) {
        if (is_usable(each) && !is_repeated(all, each)) {
            const uint32_t speed = card_speed(each->ifa_name);
            facts->card_count++;
            mbits += speed;
            is_known = is_known && speed > 0;
        }
    }
    freeifaddrs(all);
    facts->card_mbits = is_known ? (uint32_t)tt_min_u64(mbits, UINT32_MAX) : 0;
}

void tt_facts_find(tt_facts *facts_out)
{
    *facts_out = (tt_facts){0};
    tt_facts_find_cores(facts_out);
    find_cards(facts_out);
}

uint32_t tt_facts_core_count(const uint8_t cores[TT_FACTS_CORE_BYTES])
{
    uint32_t count = 0;
    for (size_t i = 0; i < TT_FACTS_CORE_BYTES; i++) {
        count += (uint32_t)__builtin_popcount(cores[i]);
    }
    return count;
}

uint32_t tt_facts_rails(const tt_host_facts *host)
{
    const uint64_t wanted =
        host->card_mbits == 0 ? TT_FACTS_RAILS_UNKNOWN
                              : (host->card_mbits + TT_FACTS_RAIL_MBITS - 1) / TT_FACTS_RAIL_MBITS;
    const uint64_t rails = tt_max_u64(wanted, host->card_count);
    return (uint32_t)tt_max_u64(1, tt_min_u64(rails, host->core_count));
}
