/* SPDX-License-Identifier: Apache-2.0
 *
 * variables.c - names and meanings; values are read where they are used, and checked by the
 * functions that read them. */
#include "launch/variables.h"

#include <string.h>

#include "base/base.h"
#include "launch/family.h"
#include "launch/interface.h"
#include "launch/servers.h"

static bool is_launcher(const char *value)
{
    const char *name, *evidence;
    for (size_t i = 0; (name = tt_launch_family_at(i, &evidence)) != NULL; i++) {
        if (strcmp(name, value) == 0) {
            return true;
        }
    }
    return strcmp(value, "none") == 0;
}

static void list_launchers(tt_text *text)
{
    const char *name, *evidence;
    for (size_t i = 0; (name = tt_launch_family_at(i, &evidence)) != NULL; i++) {
        tt_text_add(text, "%s%s", i == 0 ? "one of " : ", ", name);
    }
    tt_text_add(text, ", none");
}

static bool is_server_count(const char *value)
{
    uint64_t count;
    return tt_launch_parse_number(value, strlen(value), TT_LAUNCH_SIZE_MAX - 1, &count);
}

static bool is_role(const char *value)
{
    tt_launch_claim claim;
    return tt_launch_claim_parse(value, &claim);
}

static bool is_port_range(const char *value)
{
    tt_launch_rendezvous range;
    tt_launch_why why;
    return tt_launch_port_range_parse(value, strlen(value), &range, &why) == TT_OK;
}

static bool is_interface(const char *value)
{
    tt_launch_why why;
    return tt_launch_interface_check("TUTTI_INTERFACE", value, &why) == TT_OK;
}

static void list_interfaces(tt_text *text)
{
    char names[TT_LAUNCH_INTERFACES_BYTES];
    tt_launch_interface_names(names);
    tt_text_add(
        text, "prefixes of interfaces that are up (=NAME: exact, ^NAME: all but); this host has%s",
        names);
}

/* As transport/secure/secret.h reads it. */
static bool is_key(const char *value)
{
    enum { KEY_DIGITS = 64 };
    return strspn(value, "0123456789abcdefABCDEF") == KEY_DIGITS && value[KEY_DIGITS] == 0 &&
           strspn(value, "0") < KEY_DIGITS;
}

static const tt_config_entry launcher_entries[] = {
    {.name = "RANK",
     .kind = TT_CONFIG_STRING,
     .fallback = "",
     .unit = "",
     .help = "this process's number in the job"},
    {.name = "SIZE",
     .kind = TT_CONFIG_STRING,
     .fallback = "",
     .unit = "",
     .help = "number of ranks"},
    {.name = "LOCAL_RANK",
     .kind = TT_CONFIG_STRING,
     .fallback = "",
     .unit = "",
     .help = "this process's number on its host"},
    {.name = "LOCAL_SIZE",
     .kind = TT_CONFIG_STRING,
     .fallback = "",
     .unit = "",
     .help = "number of ranks on this host"},
    {.name = "CROSS_RANK",
     .kind = TT_CONFIG_STRING,
     .fallback = "",
     .unit = "",
     .help = "number of this host in the job"},
    {.name = "CROSS_SIZE",
     .kind = TT_CONFIG_STRING,
     .fallback = "",
     .unit = "",
     .help = "number of hosts"},
    {.name = "JOB_ID",
     .kind = TT_CONFIG_STRING,
     .fallback = "",
     .unit = "",
     .help = "name of the job, random for each run"},
    {.name = "RENDEZVOUS",
     .kind = TT_CONFIG_STRING,
     .fallback = "",
     .unit = "",
     .help = "where ranks meet to join: tcp://host:port or file:///path"},
    {.name = "LISTEN_FD",
     .kind = TT_CONFIG_STRING,
     .fallback = "",
     .unit = "",
     .help = "descriptor on which rank 0 already listens"},
    {.name = "SECRET_FD",
     .kind = TT_CONFIG_STRING,
     .fallback = "",
     .unit = "",
     .help = "descriptor from which the job's 32-byte secret is read"},
};

static const tt_config_entry user_entries[] = {
    {.name = "SECRET_FILE",
     .kind = TT_CONFIG_STRING,
     .fallback = "",
     .unit = "",
     .help = "file with the job's secret; must be private to its owner",
     .accepted = "a file of mode 600 with 32 bytes or 64 hex digits"},
    {.name = "SECRET",
     .kind = TT_CONFIG_STRING,
     .is_secret = true,
     .fallback = "",
     .unit = "",
     .help = "the secret as 64 hex digits; other processes can read it: prefer SECRET_FILE",
     .accepts = is_key,
     .accepted = "64 hex digits, not all of them 0"},
    {.name = "SERVERS",
     .kind = TT_CONFIG_STRING,
     .fallback = "0",
     .unit = "",
     .help = "the last so many processes of the job are servers; equal on all ranks",
     .accepts = is_server_count,
     .accepted = "a whole number, below the number of processes"},
    {.name = "ROLE",
     .kind = TT_CONFIG_STRING,
     .fallback = "",
     .unit = "",
     .help = "what this process should be; refused if its rank and SERVERS contradict it",
     .accepts = is_role,
     .accepted = "worker or server"},
    {.name = "LAUNCHER",
     .kind = TT_CONFIG_STRING,
     .fallback = "",
     .unit = "",
     .help = "launcher family to use where several have set variables",
     .accepts = is_launcher,
     .list_accepted = list_launchers},
    {.name = "INTERFACE",
     .kind = TT_CONFIG_STRING,
     .fallback = "",
     .unit = "",
     .help = "network interfaces: prefixes, ^ to exclude, = for exact names",
     .accepts = is_interface,
     .list_accepted = list_interfaces},
    {.name = "PORT_RANGE",
     .kind = TT_CONFIG_STRING,
     .fallback = "",
     .unit = "",
     .help = "ports to listen on: first-last",
     .accepts = is_port_range,
     .accepted = "a port, or two with a hyphen: 29600-29700"},
    {.name = "HOSTID",
     .kind = TT_CONFIG_STRING,
     .fallback = "",
     .unit = "",
     .help = "identity of this host; ranks with the same one share memory"},
    {.name = "LIBRARY",
     .kind = TT_CONFIG_STRING,
     .fallback = "",
     .unit = "",
     .help = "shared object that Python loads instead of the one beside its modules"},
    {.name = "AS_HOROVOD",
     .kind = TT_CONFIG_STRING,
     .fallback = "",
     .unit = "",
     .help = "set by tutti run --as-horovod"},
    {.name = "INCARNATION",
     .kind = TT_CONFIG_STRING,
     .fallback = "0",
     .unit = "",
     .help = "restart count of the job"},
};

const tt_config_table tt_launch_launcher_variables = {
    .entries = launcher_entries, .entry_count = TT_ARRAY_COUNT(launcher_entries)};
const tt_config_table tt_launch_user_variables = {.entries = user_entries,
                                                  .entry_count = TT_ARRAY_COUNT(user_entries)};
