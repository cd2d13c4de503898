/* SPDX-License-Identifier: Apache-2.0
 *
 * hostfile.c - pure parsing of host lists; the caller reads the file. */
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/buffer.h"
#include "cli/run/hostfile.h"

typedef struct text_span {
    const char *start;
    size_t length;
} text_span;

typedef struct complaint {
    char *text;
    size_t bytes;
} complaint;

static tt_status complain(complaint problem, const char *what, text_span span)
{
    const int shown = span.length < 60 ? (int)span.length : 60;
    snprintf(problem.text, problem.bytes, "%s '%.*s'", what, shown, span.start);
    return TT_ERR_BAD_ARGUMENT;
}

static text_span trim(text_span span)
{
    while (span.length > 0 && isspace((unsigned char)span.start[0])) {
        span.start++;
        span.length--;
    }
    while (span.length > 0 && isspace((unsigned char)span.start[span.length - 1])) {
        span.length--;
    }
    return span;
}

/* 0 if `span` is not a number from 1 to TT_HOST_SLOTS_MAX. */
static int parse_slots(text_span span)
{
    int slots = 0;
    for (size_t i = 0; i < span.length; i++) {
        if (!isdigit((unsigned char)span.start[i])) {
            return 0;
        }
        slots = slots * 10 + (span.start[i] - '0');
        if (slots > TT_HOST_SLOTS_MAX) {
            return 0;
        }
    }
    return slots;
}

/* A leading '-' would be read as an option by the remote shell. */
static bool is_host_name(text_span span)
{
    if (span.length == 0 || span.length > TT_HOST_NAME_MAX || span.start[0] == '-') {
        return false;
    }
    for (size_t i = 0; i < span.length; i++) {
        const unsigned char letter = (unsigned char)span.start[i];
        if (!isalnum(letter) && strchr(".-_:%@", letter) == NULL) {
            return false;
        }
    }
    return true;
}

static void add_host(tt_hosts *hosts, text_span name, int slots)
{
    for (size_t i = 0; i < hosts->count; i++) {
        tt_host *host = &hosts->items[i];
        if (strlen(host->name) == name.length && memcmp(host->name, name.start, name.length) == 0) {
            host->slots =
                host->slots + slots < TT_HOST_SLOTS_MAX ? host->slots + slots : TT_HOST_SLOTS_MAX;
            return;
        }
    }
    if (hosts->count == hosts->capacity) {
        const size_t capacity = hosts->capacity > 0 ? 2 * hosts->capacity : 8;
        tt_host *items = tt_cli_allocate(capacity, sizeof(*items));
        if (hosts->count > 0) {
            memcpy(items, hosts->items, hosts->count * sizeof(*items));
        }
        free(hosts->items);
        hosts->items = items;
        hosts->capacity = capacity;
    }
    tt_host *host = &hosts->items[hosts->count++];
    memcpy(host->name, name.start, name.length);
    host->name[name.length] = '\0';
    host->slots = slots;
}

/* Cut "name:4" or "[::1]:4" in two; `*slots_out` stays empty without a colon. */
static text_span split_name(text_span entry, text_span *slots_out)
{
    *slots_out = (text_span){NULL, 0};
    const char *close = entry.start[0] == '[' ? memchr(entry.start, ']', entry.length) : NULL;
    if (close != NULL) {
        const text_span name = {entry.start + 1, (size_t)(close - entry.start) - 1};
        const size_t left = entry.length - name.length - 2;
        if (left > 0 && close[1] != ':') {
            return (text_span){entry.start, 0};
        }
        *slots_out = left > 0 ? (text_span){close + 2, left - 1} : *slots_out;
        return name;
    }
    const char *colon = memchr(entry.start, ':', entry.length);
    if (colon == NULL || memchr(colon + 1, ':', entry.length - (size_t)(colon + 1 - entry.start))) {
        return entry; /* none, or a bare IPv6 address */
    }
    const size_t length = (size_t)(colon - entry.start);
    *slots_out = (text_span){colon + 1, entry.length - length - 1};
    return (text_span){entry.start, length};
}

static tt_status add_checked(tt_hosts *hosts, text_span name, int slots, complaint problem)
{
    if (!is_host_name(name)) {
        return complain(problem, "not a host name:", name);
    }
    if (slots < 1 || slots > TT_HOST_SLOTS_MAX) {
        return complain(problem, "slots must be a number from 1 to 4096:", name);
    }
    if (hosts->count >= TT_HOST_COUNT_MAX) {
        return complain(problem, "too many hosts at", name);
    }
    add_host(hosts, name, slots);
    return TT_OK;
}

static int default_slots(const tt_hosts *hosts)
{
    return hosts->slots_default > 0 ? hosts->slots_default : 1;
}

static tt_status parse_entry(tt_hosts *hosts, text_span entry, complaint problem)
{
    text_span slots_text;
    if (entry.length == 0) {
        return complain(problem, "empty host name in the list", entry);
    }
    const text_span name = split_name(entry, &slots_text);
    if (!is_host_name(name)) {
        return complain(problem, "not a host name:", entry);
    }
    const int slots = slots_text.start != NULL ? parse_slots(slots_text) : default_slots(hosts);
    if (slots == 0) {
        return complain(problem, "slots must be a number from 1 to 4096:", entry);
    }
    return add_checked(hosts, name, slots, problem);
}

/* The first word of `rest`, which is cut off. */
static text_span take_word(text_span *rest)
{
    size_t length = 0;
    while (length < rest->length && !isspace((unsigned char)rest->start[length])) {
        length++;
    }
    const text_span word = {rest->start, length};
    *rest = trim((text_span){rest->start + length, rest->length - length});
    return word;
}

/* Whether `word` begins with `key`; the number after it is 0 if it is bad. */
static bool is_setting(text_span word, const char *key, int *number_out)
{
    const size_t length = strlen(key);
    if (word.length < length || memcmp(word.start, key, length) != 0) {
        return false;
    }
    *number_out = parse_slots((text_span){word.start + length, word.length - length});
    return true;
}

/* "name slots=4 max_slots=8": the first word is the host, unknown keys are errors. */
static tt_status parse_line(tt_hosts *hosts, text_span line, complaint problem)
{
    text_span rest = line;
    const text_span entry = take_word(&rest);
    int slots = -1, bound = -1;
    if (rest.length == 0) {
        return parse_entry(hosts, entry, problem);
    }
    while (rest.length > 0) {
        const text_span word = take_word(&rest);
        if (!is_setting(word, "slots=", &slots) && !is_setting(word, "max_slots=", &bound) &&
            !is_setting(word, "max-slots=", &bound)) {
            return complain(problem, "expected slots=NUMBER or max_slots=NUMBER, found", word);
        }
        if (slots == 0 || bound == 0) {
            return complain(problem, "slots must be a number from 1 to 4096:", word);
        }
    }
    text_span own_slots;
    const text_span name = split_name(entry, &own_slots);
    if (own_slots.start != NULL && slots > 0) {
        return complain(problem, "slots given twice for", entry);
    }
    slots = own_slots.start != NULL ? parse_slots(own_slots) : slots;
    if (bound > 0 && slots > bound) {
        return complain(problem, "more slots than max_slots:", line);
    }
    if (slots < 0) {
        slots = bound > 0 && bound < default_slots(hosts) ? bound : default_slots(hosts);
    }
    return add_checked(hosts, name, slots, problem);
}

tt_status tt_hosts_add(tt_hosts *hosts, const char *name, int slots, char *error,
                       size_t error_bytes)
{
    return add_checked(hosts, (text_span){name, strlen(name)}, slots,
                       (complaint){error, error_bytes});
}

tt_status tt_hosts_parse_list(tt_hosts *hosts, const char *list, char *error, size_t error_bytes)
{
    while (list != NULL) {
        const char *comma = strchr(list, ',');
        const text_span entry = {list, comma != NULL ? (size_t)(comma - list) : strlen(list)};
        TT_TRY(parse_entry(hosts, trim(entry), (complaint){error, error_bytes}));
        list = comma != NULL ? comma + 1 : NULL;
    }
    return TT_OK;
}

tt_status tt_hosts_parse_file(tt_hosts *hosts, const char *file_name, const char *text, char *error,
                              size_t error_bytes)
{
    const size_t count_before = hosts->count;
    for (int number = 1; text != NULL; number++) {
        const char *newline = strchr(text, '\n');
        const size_t line_length = newline != NULL ? (size_t)(newline - text) : strlen(text);
        const char *comment = memchr(text, '#', line_length);
        const size_t length = comment != NULL ? (size_t)(comment - text) : line_length;
        const text_span line = trim((text_span){text, length});
        char reason[160];
        if (line.length > 0 &&
            parse_line(hosts, line, (complaint){reason, sizeof(reason)}) != TT_OK) {
            snprintf(error, error_bytes, "%s:%d: %s", file_name, number, reason);
            return TT_ERR_BAD_ARGUMENT;
        }
        text = newline != NULL ? newline + 1 : NULL;
    }
    if (hosts->count == count_before && hosts->count == 0) {
        snprintf(error, error_bytes, "%s: names no host", file_name);
        return TT_ERR_BAD_ARGUMENT;
    }
    return TT_OK;
}

int tt_hosts_slots(const tt_hosts *hosts)
{
    int slots = 0;
    for (size_t i = 0; i < hosts->count; i++) {
        slots += hosts->items[i].slots;
    }
    return slots;
}

void tt_hosts_fini(tt_hosts *hosts)
{
    free(hosts->items);
    *hosts = (tt_hosts){0};
}
