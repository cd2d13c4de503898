/* SPDX-License-Identifier: Apache-2.0
 *
 * json_line.c - see json_line.h. */
#include "cli/cluster/json_line.h"

#include <stdbool.h>
#include <string.h>

typedef struct line_scanner {
    const char *at;
    const char *end;
    int line;
    int depth;
} line_scanner;

/* To the quote that ends the string that begins here. */
static void string_pass(line_scanner *scanner)
{
    for (scanner->at++; scanner->at < scanner->end && *scanner->at != '"'; scanner->at++) {
        scanner->at += *scanner->at == '\\' && scanner->at + 1 < scanner->end;
    }
}

/* Of the string that ends here: strings before a colon are names. */
static bool is_member_name(const line_scanner *scanner)
{
    const char *at = scanner->at + 1;
    while (at < scanner->end && (*at == ' ' || *at == '\t' || *at == '\r' || *at == '\n')) {
        at++;
    }
    return at < scanner->end && *at == ':';
}

static bool is_equal(const char *wanted, const char *start, const char *end)
{
    const size_t bytes = (size_t)(end - start);
    return wanted != NULL && strlen(wanted) == bytes && memcmp(wanted, start, bytes) == 0;
}

int tt_json_line(const char *text, size_t bytes, const char *outer, const char *inner)
{
    line_scanner scanner = {.at = text, .end = text + bytes, .line = 1};
    bool is_inside = false; /* of `outer` */
    for (; scanner.at < scanner.end; scanner.at++) {
        const char *start = scanner.at + 1;
        if (*scanner.at != '"') {
            scanner.line += *scanner.at == '\n';
            scanner.depth += *scanner.at == '{' || *scanner.at == '[';
            scanner.depth -= *scanner.at == '}' || *scanner.at == ']';
            continue;
        }
        string_pass(&scanner);
        if (!is_member_name(&scanner) || scanner.depth > 2) {
            continue;
        }
        if (scanner.depth == 1) {
            is_inside = is_equal(outer, start, scanner.at);
            if (is_inside && inner == NULL) {
                return scanner.line;
            }
        } else if (is_inside && is_equal(inner, start, scanner.at)) {
            return scanner.line;
        }
    }
    return 0;
}
