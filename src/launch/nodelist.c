/* SPDX-License-Identifier: Apache-2.0
 *
 * nodelist.c - the bracket syntax, without expansion.
 *
 *     list  = name { "," name }              name  = text { "[" set "]" text }
 *     set   = range { "," range }            range = digits [ "-" digits ]
 *
 * A name stands for the product of its sets. The host at an index is found by division: the
 * number of hosts of each name is counted first, then the index is split over its brackets.
 *
 * Invariants:
 *  (1) Digits keep the width of the range's first number: n[08-10] is n08 n09 n10.
 *  (2) Products saturate above TT_LAUNCH_NODELIST_HOSTS_MAX and are then refused, never wrapped.
 */
#include "launch/nodelist.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"

enum { DIGITS_MAX = 10, QUOTED_BYTES_MAX = 120 };

typedef struct range {
    uint64_t first;
    uint64_t count;
    int width;
} range;

/* One name of the list: [begin, end), the brackets inside and how many hosts it stands for. */
typedef struct name {
    const char *begin;
    const char *end;
    uint32_t set_counts[TT_LAUNCH_NODELIST_BRACKETS_MAX];
    uint32_t set_count;
    uint32_t host_count;
} name;

static tt_status refuse(const char *list, const char *at, const char *what, tt_launch_why *why)
{
    return tt_launch_fail(why, TT_ERR_BAD_CONFIG, "node list '%.*s': %s at character %zu",
                          QUOTED_BYTES_MAX, list, what, (size_t)(at - list) + 1);
}

/* Read one range at *at and step over it. */
static bool range_read(const char **at, range *range_out)
{
    const size_t first_digits = strspn(*at, "0123456789");
    uint64_t first = 0;
    if (first_digits > DIGITS_MAX ||
        !tt_launch_parse_number(*at, first_digits, UINT32_MAX, &first)) {
        return false;
    }
    uint64_t last = first;
    *at += first_digits;
    if (**at == '-') {
        *at += 1;
        const size_t last_digits = strspn(*at, "0123456789");
        if (last_digits > DIGITS_MAX ||
            !tt_launch_parse_number(*at, last_digits, UINT32_MAX, &last) || last < first) {
            return false;
        }
        *at += last_digits;
    }
    *range_out = (range){.first = first, .count = last - first + 1, .width = (int)first_digits};
    return true;
}

/* Count the numbers of the set that follows '['; leaves *at behind ']'. 0: syntax error. */
static uint64_t set_read(const char **at)
{
    uint64_t count = 0;
    range each;
    do {
        *at += 1; /* over '[' or ',' */
        if (!range_read(at, &each)) {
            return 0;
        }
        count += each.count;
        if (count > TT_LAUNCH_NODELIST_HOSTS_MAX) {
            count = TT_LAUNCH_NODELIST_HOSTS_MAX + 1; /* (2) */
        }
    } while (**at == ',');
    if (**at != ']') {
        return 0;
    }
    *at += 1;
    return count;
}

static bool is_name_character(char c)
{
    return isalnum((unsigned char)c) || c == '-' || c == '.' || c == '_';
}

static tt_status name_read(const char *list, const char *begin, name *name_out, tt_launch_why *why)
{
    name found = {.begin = begin, .host_count = 1};
    const char *at = begin;
    while (*at != '\0' && *at != ',') {
        if (*at != '[') {
            if (!is_name_character(*at)) {
                return refuse(list, at, "unexpected character", why);
            }
            at++;
            continue;
        }
        if (found.set_count == TT_LAUNCH_NODELIST_BRACKETS_MAX) {
            return refuse(list, at, "too many brackets in one name", why);
        }
        const char *bracket = at;
        const uint64_t count = set_read(&at);
        if (count == 0) {
            return refuse(list, at, "broken bracket", why);
        }
        if (count * found.host_count > TT_LAUNCH_NODELIST_HOSTS_MAX) {
            return refuse(list, bracket, "too many hosts", why);
        }
        found.set_counts[found.set_count++] = (uint32_t)count;
        found.host_count *= (uint32_t)count;
    }
    if (at == begin) {
        return refuse(list, at, "empty name", why);
    }
    found.end = at;
    *name_out = found;
    return TT_OK;
}

/* The number at `index` of the set at *at, printed with its width (1); *at ends behind ']'. */
static void set_print(const char **at, uint32_t index, char *host, size_t host_bytes)
{
    uint64_t skipped = 0;
    bool printed = false;
    range each;
    do {
        *at += 1;
        const bool is_read = range_read(at, &each);
        TT_ASSERT(is_read); /* name_read has checked the same characters */
        if (!printed && index - skipped < each.count) {
            tt_launch_append(host, host_bytes, "%0*" PRIu64, each.width,
                             each.first + (index - skipped));
            printed = true;
        }
        skipped += each.count;
    } while (**at == ',');
    TT_ASSERT(printed);
    *at += 1;
}

/* Host `index` of one name; false if it does not fit. */
static bool name_print(const name *source, uint32_t index, char host[TT_LAUNCH_HOST_BYTES])
{
    /* One byte more than a host may have, so that truncation is detected. */
    char text[TT_LAUNCH_HOST_BYTES + 1] = "";
    uint32_t below = source->host_count; /* hosts per number of this bracket */
    uint32_t set_index = 0;
    const char *at = source->begin;

    TT_ASSERT(index < source->host_count);
    while (at < source->end) {
        if (*at == '[') {
            below /= source->set_counts[set_index++];
            set_print(&at, index / below, text, sizeof(text));
            index %= below;
        } else {
            const size_t plain_bytes = strcspn(at, "[,");
            tt_launch_append(text, sizeof(text), "%.*s", (int)plain_bytes, at);
            at += plain_bytes;
        }
    }
    return tt_launch_copy(host, TT_LAUNCH_HOST_BYTES, text, strlen(text));
}

/* Walk the names to the one that holds `index`; past the end, the name has host_count 0. */
static tt_status walk(const char *list, uint32_t index, name *name_out, uint32_t *before_out,
                      tt_launch_why *why)
{
    uint32_t before = 0;
    const char *at = list;
    name found;
    if (strlen(list) > INT32_MAX) {
        return refuse(list, list, "too long", why);
    }
    for (;;) {
        TT_TRY(name_read(list, at, &found, why));
        if (index - before < found.host_count) {
            break;
        }
        before += found.host_count;
        if (before > TT_LAUNCH_NODELIST_HOSTS_MAX) {
            return refuse(list, at, "too many hosts", why);
        }
        if (*found.end == '\0') {
            found.host_count = 0;
            break;
        }
        at = found.end + 1;
    }
    *name_out = found;
    *before_out = before;
    return TT_OK;
}

tt_status tt_launch_nodelist_host(const char *list, uint32_t index,
                                  char host_out[TT_LAUNCH_HOST_BYTES], tt_launch_why *why)
{
    name found;
    uint32_t before;
    TT_TRY(walk(list, index, &found, &before, why));
    if (found.host_count == 0) {
        return tt_launch_fail(why, TT_ERR_BAD_CONFIG, "node list '%.*s' has only %u hosts, not %u",
                              QUOTED_BYTES_MAX, list, before, index + 1);
    }
    char host[TT_LAUNCH_HOST_BYTES];
    if (!name_print(&found, index - before, host)) {
        return refuse(list, found.begin, "host name too long", why);
    }
    memcpy(host_out, host, sizeof(host));
    return TT_OK;
}

tt_status tt_launch_nodelist_count(const char *list, uint32_t *count_out, tt_launch_why *why)
{
    name last;
    uint32_t count;
    TT_TRY(walk(list, UINT32_MAX, &last, &count, why));
    *count_out = count;
    return TT_OK;
}

tt_status tt_launch_tasks_on_node(const char *counts, uint32_t index, uint32_t *tasks_out,
                                  tt_launch_why *why)
{
    uint64_t before = 0;
    const char *at = counts;
    for (;;) {
        uint64_t tasks = 0;
        uint64_t nodes = 1;
        const size_t task_digits = strspn(at, "0123456789");
        bool parsed = tt_launch_parse_number(at, task_digits, INT32_MAX, &tasks);
        at += task_digits;
        if (parsed && strncmp(at, "(x", 2) == 0) {
            const size_t node_digits = strspn(at + 2, "0123456789");
            parsed = tt_launch_parse_number(at + 2, node_digits, INT32_MAX, &nodes) &&
                     at[2 + node_digits] == ')';
            at += parsed ? node_digits + 3 : 0;
        }
        if (!parsed || (*at != ',' && *at != '\0')) {
            return refuse(counts, at, "no task count such as 2(x3),1", why);
        }
        before += nodes;
        if (index < before) {
            *tasks_out = (uint32_t)tasks;
            return TT_OK;
        }
        if (*at == '\0') {
            return refuse(counts, at, "fewer nodes than this node's index", why);
        }
        at++;
    }
}
