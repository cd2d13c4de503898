/* SPDX-License-Identifier: Apache-2.0
 *
 * json_line.h - on which line of a file a member of its JSON is.
 *
 * The parser keeps no places; errors about values need them.
 *
 * Layer:   cli.
 * Threads: pure.
 * Memory:  none taken.
 */
#ifndef TUTTI_CLI_CLUSTER_JSON_LINE_H
#define TUTTI_CLI_CLUSTER_JSON_LINE_H

#include <stddef.h>

/* `text` is an object that a parser has accepted. The line, from 1, of its member `outer`, or of
 * the member `inner` of that one if it is not NULL; 0: there is none, or its name has escapes. */
int tt_json_line(const char *text, size_t bytes, const char *outer, const char *inner);

/* The same for a member or element at any depth: `steps` are names of members, and places of
 * elements in digits. */
int tt_json_path_line(const char *text, size_t bytes, const char *const *steps, size_t step_count);

#endif
