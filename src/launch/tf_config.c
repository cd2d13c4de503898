/* SPDX-License-Identifier: Apache-2.0
 *
 * tf_config.c - one pass over the text, no memory: lists are counted, not stored.
 *
 * Invariants:
 *  (1) The cursor never passes the terminating NUL: every step checks the byte it consumes.
 *  (2) Nesting is bounded, so that skipping unused parts cannot exhaust the stack.
 */
#include "launch/tf_config.h"

#include <string.h>

#include "launch/family.h"

enum { DEPTH_MAX = 16, WORD_BYTES = 32 };

typedef struct reading {
    const char *at;
    uint32_t chief_count;
    uint32_t worker_count;
    char first_chief[TT_LAUNCH_TF_PLACE_BYTES];
    char first_worker[TT_LAUNCH_TF_PLACE_BYTES];
    char type[WORD_BYTES];
    char index[WORD_BYTES]; /* as text: some write "0" */
    bool has_cluster;
} reading;

static bool walk_value(reading *r, int depth);

static char peek(reading *r)
{
    r->at += strspn(r->at, " \t\r\n");
    return *r->at;
}

static bool eat(reading *r, char expected)
{
    if (peek(r) != expected) {
        return false;
    }
    r->at++;
    return true;
}

/* A string into `out`, truncated to fit; an escaped character is taken literally. */
static bool read_string(reading *r, char *out, size_t out_bytes)
{
    size_t used = 0;
    if (!eat(r, '"')) {
        return false;
    }
    for (; *r->at != '"'; r->at++) {
        if (*r->at == '\\') {
            r->at++;
        }
        if ((unsigned char)*r->at < ' ') {
            return false; /* (1) */
        }
        if (used + 1 < out_bytes) {
            out[used++] = *r->at;
        }
    }
    r->at++;
    out[used] = '\0';
    return true;
}

/* A number, true, false or null into `out`. */
static bool read_word(reading *r, char *out, size_t out_bytes)
{
    (void)peek(r);
    const size_t bytes =
        strspn(r->at, "+-.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz");
    const bool fits = bytes > 0 && tt_launch_copy(out, out_bytes, r->at, bytes);
    r->at += bytes;
    return fits;
}

static bool read_word_or_string(reading *r, char *out, size_t out_bytes)
{
    return peek(r) == '"' ? read_string(r, out, out_bytes) : read_word(r, out, out_bytes);
}

/* Is there one more member? Consumes the comma before it, or the end. */
static bool has_next(reading *r, char end, bool *is_first, bool *is_good)
{
    if (eat(r, end)) {
        return false;
    }
    *is_good = *is_first || eat(r, ',');
    *is_first = false;
    return *is_good;
}

static bool read_key(reading *r, char *key, size_t key_bytes)
{
    return read_string(r, key, key_bytes) && eat(r, ':');
}

static bool walk_members(reading *r, char end, int depth)
{
    bool is_first = true, is_good = true;
    char key[WORD_BYTES];
    while (has_next(r, end, &is_first, &is_good)) {
        if ((end == '}' && !read_key(r, key, sizeof(key))) || !walk_value(r, depth + 1)) {
            return false;
        }
    }
    return is_good;
}

static bool walk_value(reading *r, int depth)
{
    char unused[64];
    if (depth > DEPTH_MAX) {
        return false; /* (2) */
    }
    if (eat(r, '{')) {
        return walk_members(r, '}', depth);
    }
    if (eat(r, '[')) {
        return walk_members(r, ']', depth);
    }
    return read_word_or_string(r, unused, sizeof(unused));
}

/* A list of "host:port": their number, and the first. */
static bool read_list(reading *r, uint32_t *count, char first[TT_LAUNCH_TF_PLACE_BYTES])
{
    bool is_first = true, is_good = true;
    char place[TT_LAUNCH_TF_PLACE_BYTES];
    if (!eat(r, '[')) {
        return false;
    }
    while (has_next(r, ']', &is_first, &is_good)) {
        if (!read_string(r, place, sizeof(place)) || *count >= TT_LAUNCH_SIZE_MAX) {
            return false;
        }
        if ((*count)++ == 0) {
            memcpy(first, place, sizeof(place));
        }
    }
    return is_good;
}

static bool is_chief(const char *role)
{
    return strcmp(role, "chief") == 0 || strcmp(role, "master") == 0;
}

/* An object, member by member: `read_member` reads the value of a key, or skips it. */
static bool read_object(reading *r, bool (*read_member)(reading *, const char *key))
{
    bool is_first = true, is_good = true;
    char key[WORD_BYTES];
    if (!eat(r, '{')) {
        return false;
    }
    while (has_next(r, '}', &is_first, &is_good)) {
        if (!read_key(r, key, sizeof(key)) || !read_member(r, key)) {
            return false;
        }
    }
    return is_good;
}

static bool read_role(reading *r, const char *role)
{
    if (is_chief(role)) {
        return read_list(r, &r->chief_count, r->first_chief);
    }
    return strcmp(role, "worker") == 0 ? read_list(r, &r->worker_count, r->first_worker)
                                       : walk_value(r, 0);
}

static bool read_of_task(reading *r, const char *key)
{
    if (strcmp(key, "type") == 0) {
        return read_string(r, r->type, sizeof(r->type));
    }
    return strcmp(key, "index") == 0 ? read_word_or_string(r, r->index, sizeof(r->index))
                                     : walk_value(r, 0);
}

static bool read_part(reading *r, const char *key)
{
    if (strcmp(key, "cluster") == 0) {
        r->has_cluster = true;
        return read_object(r, read_role);
    }
    return strcmp(key, "task") == 0 ? read_object(r, read_of_task) : walk_value(r, 0);
}

static bool read_all(reading *r)
{
    return read_object(r, read_part) && peek(r) == '\0';
}

tt_status tt_launch_tf_config_parse(const char *text, tt_launch_tf_config *config_out,
                                    tt_launch_why *why)
{
    reading r = {.at = text};
    uint64_t index = 0;
    if (!read_all(&r)) {
        return tt_launch_fail(why, TT_ERR_BAD_CONFIG,
                              "invalid at byte %zu; it must be JSON with cluster and task",
                              (size_t)(r.at - text));
    }
    tt_launch_tf_config config = {.size = r.chief_count + r.worker_count};
    const uint32_t count = is_chief(r.type) ? r.chief_count : r.worker_count;
    config.is_rank = r.has_cluster && (is_chief(r.type) || strcmp(r.type, "worker") == 0);
    if (config.is_rank &&
        (!tt_launch_parse_number(r.index, strlen(r.index), TT_LAUNCH_SIZE_MAX, &index) ||
         index >= count)) {
        return tt_launch_fail(why, TT_ERR_BAD_CONFIG,
                              "task %s has index '%s', but the cluster has %u of this type; "
                              "indices count from 0",
                              r.type, r.index, count);
    }
    config.rank = (uint32_t)index + (is_chief(r.type) ? 0 : r.chief_count);
    memcpy(config.first, r.chief_count > 0 ? r.first_chief : r.first_worker, sizeof(config.first));
    *config_out = config;
    return TT_OK;
}
