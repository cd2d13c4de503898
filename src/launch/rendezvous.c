/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/rendezvous.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"

static const char accepted_forms[] = "write tcp://host:port, tcp://[ipv6]:port, "
                                     "tcp://host:first-last, file:///path, pmi:, pmix or mpi";

/* Quoting a hostile text in an error must not flood the terminal. */
enum { QUOTED_BYTES_MAX = 120 };

static int quoted_bytes(size_t text_bytes)
{
    return (int)(text_bytes < QUOTED_BYTES_MAX ? text_bytes : QUOTED_BYTES_MAX);
}

static bool is_host_name(const char *host)
{
    for (const char *at = host; *at != '\0'; at++) {
        if (!isalnum((unsigned char)*at) && *at != '-' && *at != '.' && *at != '_') {
            return false;
        }
    }
    return host[0] != '\0' && host[0] != '-' && host[0] != '.';
}

/* An IPv6 literal, perhaps with a scope: fe80::1%eth0. */
static bool is_ipv6(const char *host)
{
    char address[INET6_ADDRSTRLEN];
    const char *scope = strchr(host, '%');
    const size_t address_bytes = scope != NULL ? (size_t)(scope - host) : strlen(host);
    struct in6_addr parsed;
    if (scope != NULL && !is_host_name(scope + 1)) {
        return false;
    }
    return tt_launch_copy(address, sizeof(address), host, address_bytes) &&
           inet_pton(AF_INET6, address, &parsed) == 1;
}

/* Digits and dots only look like an address; the resolver would read "10.1" as 10.0.0.1. */
static bool is_broken_ipv4(const char *host)
{
    struct in_addr parsed;
    return strspn(host, "0123456789.") == strlen(host) && inet_pton(AF_INET, host, &parsed) != 1;
}

tt_status tt_launch_host_parse(const char *text, size_t text_bytes,
                               char host_out[TT_LAUNCH_HOST_BYTES], tt_launch_why *why)
{
    char host[TT_LAUNCH_HOST_BYTES];
    const bool bracketed = text_bytes >= 2 && text[0] == '[' && text[text_bytes - 1] == ']';
    const char *begin = bracketed ? text + 1 : text;
    const size_t bytes = bracketed ? text_bytes - 2 : text_bytes;

    if (memchr(begin, '\0', bytes) != NULL || !tt_launch_copy(host, sizeof(host), begin, bytes)) {
        return tt_launch_fail(why, TT_ERR_BAD_CONFIG, "host '%.*s' is longer than %d characters",
                              quoted_bytes(text_bytes), text, TT_LAUNCH_HOST_BYTES - 1);
    }
    const bool accepted = bracketed
                              ? is_ipv6(host)
                              : (is_ipv6(host) || (is_host_name(host) && !is_broken_ipv4(host)));
    if (!accepted) {
        return tt_launch_fail(why, TT_ERR_BAD_CONFIG,
                              "'%.*s' is not a host name, IPv4 or IPv6 address",
                              quoted_bytes(text_bytes), text);
    }
    memcpy(host_out, host, sizeof(host));
    return TT_OK;
}

tt_status tt_launch_port_range_parse(const char *text, size_t text_bytes,
                                     tt_launch_rendezvous *range_out, tt_launch_why *why)
{
    const char *dash = memchr(text, '-', text_bytes);
    const size_t first_bytes = dash != NULL ? (size_t)(dash - text) : text_bytes;
    uint64_t first = 0;
    bool parsed = tt_launch_parse_number(text, first_bytes, TT_LAUNCH_PORT_MAX, &first);
    uint64_t last = first;

    if (parsed && dash != NULL) {
        parsed = tt_launch_parse_number(dash + 1, text_bytes - first_bytes - 1, TT_LAUNCH_PORT_MAX,
                                        &last);
    }
    if (!parsed || first == 0 || last < first) {
        return tt_launch_fail(why, TT_ERR_BAD_CONFIG,
                              "'%.*s' is not a port or port range; write 29501 or 29501-29516",
                              quoted_bytes(text_bytes), text);
    }
    range_out->port_first = (uint16_t)first;
    range_out->port_count = (uint16_t)(last - first + 1);
    return TT_OK;
}

static tt_status parse_tcp(const char *text, tt_launch_rendezvous *rendezvous, tt_launch_why *why)
{
    const char *colon = strrchr(text, ':');
    if (colon == NULL) {
        return tt_launch_fail(why, TT_ERR_BAD_CONFIG, "'tcp://%.*s' has no port; %s",
                              quoted_bytes(strlen(text)), text, accepted_forms);
    }
    /* Without brackets the last group of an IPv6 address would be read as the port. */
    if (text[0] != '[' && memchr(text, ':', (size_t)(colon - text)) != NULL) {
        return tt_launch_fail(why, TT_ERR_BAD_CONFIG,
                              "the IPv6 address in 'tcp://%.*s' needs brackets; %s",
                              quoted_bytes(strlen(text)), text, accepted_forms);
    }
    TT_TRY(tt_launch_host_parse(text, (size_t)(colon - text), rendezvous->host, why));
    TT_TRY(tt_launch_port_range_parse(colon + 1, strlen(colon + 1), rendezvous, why));
    rendezvous->kind = TT_LAUNCH_RENDEZVOUS_TCP;
    return TT_OK;
}

static tt_status parse_file(const char *path, tt_launch_rendezvous *rendezvous, tt_launch_why *why)
{
    if (path[0] != '/' || path[1] == '\0') {
        return tt_launch_fail(why, TT_ERR_BAD_CONFIG, "'file://%.*s' is not an absolute path; %s",
                              quoted_bytes(strlen(path)), path, accepted_forms);
    }
    if (!tt_launch_copy(rendezvous->path, sizeof(rendezvous->path), path, strlen(path))) {
        return tt_launch_fail(why, TT_ERR_BAD_CONFIG,
                              "the path of 'file://%.*s...' exceeds %d bytes; choose a shorter one",
                              QUOTED_BYTES_MAX, path, TT_LAUNCH_PATH_BYTES - 1);
    }
    rendezvous->kind = TT_LAUNCH_RENDEZVOUS_FILE;
    return TT_OK;
}

tt_status tt_launch_rendezvous_parse(const char *text, tt_launch_rendezvous *rendezvous_out,
                                     tt_launch_why *why)
{
    tt_launch_rendezvous rendezvous = {.kind = TT_LAUNCH_RENDEZVOUS_NONE};
    if (strncmp(text, "tcp://", 6) == 0) {
        TT_TRY(parse_tcp(text + 6, &rendezvous, why));
    } else if (strncmp(text, "file://", 7) == 0) {
        TT_TRY(parse_file(text + 7, &rendezvous, why));
    } else if (strcmp(text, "pmi:") == 0 || strcmp(text, "pmi") == 0) {
        rendezvous.kind = TT_LAUNCH_RENDEZVOUS_PMI;
    } else if (strcmp(text, "mpi:") == 0 || strcmp(text, "mpi") == 0 ||
               strcmp(text, "pmix:") == 0 || strcmp(text, "pmix") == 0) {
        rendezvous.kind = TT_LAUNCH_RENDEZVOUS_ENGINE;
    } else if (strcmp(text, "none") != 0) {
        return tt_launch_fail(why, TT_ERR_BAD_CONFIG, "rendezvous '%.*s' is unknown; %s",
                              quoted_bytes(strlen(text)), text, accepted_forms);
    }
    *rendezvous_out = rendezvous;
    return TT_OK;
}

static void format_tcp(const tt_launch_rendezvous *rendezvous, char *text, size_t text_bytes)
{
    const bool is_literal = strchr(rendezvous->host, ':') != NULL;
    TT_ASSERT(rendezvous->port_count >= 1);
    (void)snprintf(text, text_bytes, is_literal ? "tcp://[%s]:%u" : "tcp://%s:%u", rendezvous->host,
                   (unsigned)rendezvous->port_first);
    if (rendezvous->port_count > 1) {
        tt_launch_append(text, text_bytes, "-%u",
                         (unsigned)(rendezvous->port_first + rendezvous->port_count - 1));
    }
}

void tt_launch_rendezvous_format(const tt_launch_rendezvous *rendezvous,
                                 char text_out[TT_LAUNCH_RENDEZVOUS_TEXT_BYTES])
{
    switch (rendezvous->kind) {
    case TT_LAUNCH_RENDEZVOUS_NONE:
        (void)snprintf(text_out, TT_LAUNCH_RENDEZVOUS_TEXT_BYTES, "none");
        break;
    case TT_LAUNCH_RENDEZVOUS_TCP:
        format_tcp(rendezvous, text_out, TT_LAUNCH_RENDEZVOUS_TEXT_BYTES);
        break;
    case TT_LAUNCH_RENDEZVOUS_FILE:
        (void)snprintf(text_out, TT_LAUNCH_RENDEZVOUS_TEXT_BYTES, "file://%s", rendezvous->path);
        break;
    case TT_LAUNCH_RENDEZVOUS_PMI:
        (void)snprintf(text_out, TT_LAUNCH_RENDEZVOUS_TEXT_BYTES, "pmi:");
        break;
    case TT_LAUNCH_RENDEZVOUS_ENGINE:
        (void)snprintf(text_out, TT_LAUNCH_RENDEZVOUS_TEXT_BYTES, "mpi:");
        break;
    }
}
