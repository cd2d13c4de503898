/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/servers.h"

#include <string.h>

#include "base/assert.h"
#include "launch/family_internal.h"

static const char *const role_names[] = {[TT_LAUNCH_CLAIM_NONE] = "",
                                         [TT_LAUNCH_CLAIM_WORKER] = "worker",
                                         [TT_LAUNCH_CLAIM_SERVER] = "server"};

bool tt_launch_claim_parse(const char *text, tt_launch_claim *claim_out)
{
    for (int claim = TT_LAUNCH_CLAIM_WORKER; claim <= TT_LAUNCH_CLAIM_SERVER; claim++) {
        if (strcmp(text, role_names[claim]) == 0) {
            *claim_out = (tt_launch_claim)claim;
            return true;
        }
    }
    return false;
}

tt_status tt_launch_servers_read(const tt_launch_source *source, const tt_launch_identity *identity,
                                 tt_launch_servers *servers_out, tt_launch_why *why)
{
    const char *role = tt_launch_source_get(source, "TUTTI_ROLE");
    tt_launch_servers servers = {.rank = identity->rank, .size = identity->size};
    uint64_t count = 0;
    if (tt_launch_source_get(source, "TUTTI_SERVERS") != NULL) {
        TT_TRY(tt_launch_read_number(source, "TUTTI_SERVERS", TT_LAUNCH_SIZE_MAX - 1, &count, why));
    }
    servers.count = (uint32_t)count;
    if (role != NULL && !tt_launch_claim_parse(role, &servers.claim)) {
        return tt_launch_fail(why, TT_ERR_BAD_CONFIG,
                              "TUTTI_ROLE='%.80s' is no role; write worker or server, or unset it",
                              role);
    }
    *servers_out = servers;
    return TT_OK;
}

bool tt_launch_servers_is_server(const tt_launch_servers *servers)
{
    return servers->count > 0 && servers->rank + (uint64_t)servers->count >= servers->size;
}

static tt_status refuse_call(const tt_launch_servers *servers, tt_launch_why *why)
{
    if (tt_launch_servers_is_server(servers)) {
        return tt_launch_fail(why, TT_ERR_BAD_CONFIG,
                              "this process is a server (rank %u of %u, TUTTI_SERVERS=%u): call "
                              "tutti_server_run, or run `tutti server`",
                              servers->rank, servers->size, servers->count);
    }
    if (servers->count == 0) {
        return tt_launch_fail(why, TT_ERR_BAD_CONFIG,
                              "this process is a worker (rank %u of %u, TUTTI_SERVERS=0): set "
                              "TUTTI_SERVERS to the number of servers on every process of the job, "
                              "or call tutti_init",
                              servers->rank, servers->size);
    }
    return tt_launch_fail(why, TT_ERR_BAD_CONFIG,
                          "this process is a worker (rank %u of %u, TUTTI_SERVERS=%u): call "
                          "tutti_init, or give it one of the last %u ranks",
                          servers->rank, servers->size, servers->count, servers->count);
}

tt_status tt_launch_servers_check(const tt_launch_servers *servers, bool serves, tt_launch_why *why)
{
    TT_ASSERT(servers->rank < servers->size);
    if (servers->count >= servers->size) {
        return tt_launch_fail(why, TT_ERR_BAD_CONFIG,
                              "TUTTI_SERVERS=%u leaves no worker: the job has %u process%s; lower "
                              "TUTTI_SERVERS, or start more processes",
                              servers->count, servers->size, servers->size == 1 ? "" : "es");
    }
    const bool is_server = tt_launch_servers_is_server(servers);
    const bool is_claimed = servers->claim == TT_LAUNCH_CLAIM_SERVER;
    if (servers->claim != TT_LAUNCH_CLAIM_NONE && is_claimed != is_server) {
        return tt_launch_fail(why, TT_ERR_BAD_CONFIG,
                              "TUTTI_ROLE=%s, but rank %u of %u is a %s with TUTTI_SERVERS=%u (the "
                              "last %u are servers); correct one of them, or unset TUTTI_ROLE",
                              role_names[servers->claim], servers->rank, servers->size,
                              is_server ? "server" : "worker", servers->count, servers->count);
    }
    return serves == is_server ? TT_OK : refuse_call(servers, why);
}
