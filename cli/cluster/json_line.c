/* SPDX-License-Identifier: Apache-2.0
 *
 * json_line.c - see json_line.h. Colons and commas are passed as blanks are: a parser has seen that
 * they are where they belong. */
#include "cli/cluster/json_line.h"

#include <stdbool.h>
#include <string.h>

typedef struct line_scanner {
    const char *at;
    const char *end;
    int line;
} line_scanner;

static bool is_one_of(char byte, const char *bytes)
{
    return byte != '\0' && strchr(bytes, byte) != NULL;
}

static bool is_at(const line_scanner *scanner, char byte)
{
    return scanner->at < scanner->end && *scanner->at == byte;
}

static void blanks_pass(line_scanner *scanner)
{
    for (; scanner->at < scanner->end && is_one_of(*scanner->at, " \t\r\n:,"); scanner->at++) {
        scanner->line += *scanner->at == '\n';
    }
}

/* Behind the string that begins here. */
static void string_pass(line_scanner *scanner)
{
    for (scanner->at++; scanner->at < scanner->end && *scanner->at != '"'; scanner->at++) {
        scanner->at += *scanner->at == '\\' && scanner->at + 1 < scanner->end;
    }
    scanner->at += scanner->at < scanner->end;
}

/* Behind the value that comes next. */
static void value_pass(line_scanner *scanner)
{
    int depth = 0;
    do {
        blanks_pass(scanner);
        if (is_at(scanner, '"')) {
            string_pass(scanner);
            continue;
        }
        if (scanner->at < scanner->end && is_one_of(*scanner->at, "{}[]")) {
            depth += is_at(scanner, '{') || is_at(scanner, '[') ? 1 : -1;
            scanner->at++;
            continue;
        }
        while (scanner->at < scanner->end && !is_one_of(*scanner->at, "{}[]\" \t\r\n:,")) {
            scanner->at++;
        }
    } while (depth > 0 && scanner->at < scanner->end);
}

static bool is_equal(const char *wanted, const char *start, const char *end)
{
    const size_t bytes = (size_t)(end - start);
    return strlen(wanted) == bytes && memcmp(wanted, start, bytes) == 0;
}

static bool is_before_colon(const line_scanner *scanner)
{
    const char *at = scanner->at;
    while (at < scanner->end && is_one_of(*at, " \t\r\n")) {
        at++;
    }
    return at < scanner->end && *at == ':';
}

/* Behind the name of the member, whose line is returned; 0: there is none. */
static int member_pass(line_scanner *scanner, const char *name)
{
    for (blanks_pass(scanner); is_at(scanner, '"'); blanks_pass(scanner)) {
        const char *start = scanner->at + 1;
        const int line = scanner->line;
        string_pass(scanner);
        if (!is_before_colon(scanner)) {
            return 0; /* the text is cut off */
        }
        if (is_equal(name, start, scanner->at - 1)) {
            return line;
        }
        value_pass(scanner);
    }
    return 0;
}

/* At the element, whose line is returned; 0: there is none. */
static int element_pass(line_scanner *scanner, const char *place)
{
    size_t index = 0;
    for (; *place >= '0' && *place <= '9'; place++) {
        index = 10 * index + (size_t)(*place - '0');
    }
    if (*place != '\0') {
        return 0;
    }
    for (size_t i = 0;; i++) {
        blanks_pass(scanner);
        if (scanner->at == scanner->end || is_at(scanner, ']')) {
            return 0;
        }
        if (i == index) {
            return scanner->line;
        }
        value_pass(scanner);
    }
}

int tt_json_path_line(const char *text, size_t bytes, const char *const *steps, size_t step_count)
{
    line_scanner scanner = {.at = text, .end = text + bytes, .line = 1};
    int line = 0;
    for (size_t i = 0; i < step_count; i++) {
        blanks_pass(&scanner);
        const bool is_object = is_at(&scanner, '{');
        if (!is_object && !is_at(&scanner, '[')) {
            return 0;
        }
        scanner.at++;
        line = is_object ? member_pass(&scanner, steps[i]) : element_pass(&scanner, steps[i]);
        if (line == 0) {
            return 0;
        }
    }
    return line;
}

int tt_json_line(const char *text, size_t bytes, const char *outer, const char *inner)
{
    const char *const steps[] = {outer, inner};
    return tt_json_path_line(text, bytes, steps, inner != NULL ? 2 : 1);
}
