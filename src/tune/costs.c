/* SPDX-License-Identifier: Apache-2.0
 *
 * costs.c - the table of costs: lookup, and its text; see costs.h. */
#include "tune/costs.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/base.h"

enum { FIELD_COUNT = 7, MIB_SHIFT = 20 };

static const char title[] = "tutti costs 1\n";
static const char heads[] =
    "# collective algorithm placement ranks up-to-bytes alpha-ns ns-per-MiB\n";

_Static_assert(sizeof(title) + sizeof(heads) +
                       TT_COSTS_LINES_MAX * (size_t)TT_COSTS_LINE_BYTES_MAX <=
                   TT_COSTS_TEXT_BYTES_MAX,
               "a full table has room in a text");

/* ---- keys and lines ---- */

static bool is_name_byte(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9') || byte == '-';
}

static bool name_set(tt_costs_name name, const char *source, size_t bytes)
{
    if (bytes == 0 || bytes >= TT_COSTS_NAME_BYTES) {
        return false;
    }
    for (size_t i = 0; i < bytes; i++) {
        if (!is_name_byte(source[i])) {
            return false;
        }
    }
    memset(name, 0, TT_COSTS_NAME_BYTES);
    memcpy(name, source, bytes);
    return true;
}

bool tt_cost_key_make(tt_cost_key *key, const char *collective, const char *algorithm,
                      const char *placement, uint32_t rank_count)
{
    memset(key, 0, sizeof(*key));
    key->rank_count = rank_count;
    return name_set(key->collective, collective, strlen(collective)) &&
           name_set(key->algorithm, algorithm, strlen(algorithm)) &&
           name_set(key->placement, placement, strlen(placement));
}

static int key_compare(const tt_cost_key *a, const tt_cost_key *b)
{
    int order = memcmp(a->collective, b->collective, sizeof(a->collective));
    order = order != 0 ? order : memcmp(a->placement, b->placement, sizeof(a->placement));
    order = order != 0 ? order : (a->rank_count > b->rank_count) - (a->rank_count < b->rank_count);
    return order != 0 ? order : memcmp(a->algorithm, b->algorithm, sizeof(a->algorithm));
}

static int cost_compare(const tt_cost *a, const tt_cost *b)
{
    const int order = key_compare(&a->key, &b->key);
    return order != 0 ? order : (a->bytes_max > b->bytes_max) - (a->bytes_max < b->bytes_max);
}

tt_status tt_costs_put(tt_costs *costs, const tt_cost *cost)
{
    uint32_t at = 0;
    TT_ASSERT(cost->alpha_ns <= TT_COSTS_ALPHA_MAX);
    TT_ASSERT(cost->beta <= TT_COSTS_BETA_MAX);
    while (at < costs->line_count && cost_compare(&costs->lines[at], cost) < 0) {
        at++;
    }
    if (at == costs->line_count || cost_compare(&costs->lines[at], cost) != 0) {
        if (costs->line_count == TT_COSTS_LINES_MAX) {
            return TT_ERR_NO_RESOURCE;
        }
        memmove(&costs->lines[at + 1], &costs->lines[at],
                (costs->line_count - at) * sizeof(costs->lines[0]));
        costs->line_count++;
    }
    costs->lines[at] = *cost;
    return TT_OK;
}

bool tt_costs_cover(const tt_costs *costs, const char *placement, uint32_t rank_count)
{
    for (uint32_t i = 0; i < costs->line_count; i++) {
        const tt_cost_key *key = &costs->lines[i].key;
        if (key->rank_count == rank_count && strcmp(key->placement, placement) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- times ---- */

/* bytes * beta / 2^20, without overflow: beta has a bound, and sizes are capped at 2^51. */
static uint64_t slope_ns(uint64_t bytes, uint64_t beta)
{
    const uint64_t mebibytes = tt_min_u64(bytes >> MIB_SHIFT, UINT64_C(1) << 31);
    const uint64_t rest = bytes & ((UINT64_C(1) << MIB_SHIFT) - 1);
    return mebibytes * beta + (rest * beta >> MIB_SHIFT);
}

/* The line that holds for `bytes`, else the key's last one; NULL: the key has no line. */
static const tt_cost *line_near(const tt_costs *costs, const tt_cost_key *key, uint64_t bytes)
{
    const tt_cost *near = NULL;
    for (uint32_t i = 0; i < costs->line_count; i++) {
        const tt_cost *line = &costs->lines[i];
        if (key_compare(&line->key, key) == 0) {
            near = line;
            if (line->bytes_max >= bytes) {
                break;
            }
        }
    }
    return near;
}

bool tt_costs_guess(const tt_costs *costs, const tt_cost_key *key, uint64_t bytes,
                    uint64_t *time_ns_out)
{
    const tt_cost *line = line_near(costs, key, bytes);
    if (line != NULL) {
        *time_ns_out = line->alpha_ns + slope_ns(bytes, line->beta);
    }
    return line != NULL;
}

bool tt_costs_time(const tt_costs *costs, const tt_cost_key *key, uint64_t bytes,
                   uint64_t *time_ns_out)
{
    const tt_cost *line = line_near(costs, key, bytes);
    return line != NULL && line->bytes_max >= bytes &&
           tt_costs_guess(costs, key, bytes, time_ns_out);
}

tt_cost tt_cost_through(const tt_cost_key *key, const uint64_t bytes[2], const uint64_t time_ns[2],
                        uint64_t bytes_max)
{
    TT_ASSERT(bytes[0] < bytes[1]);
    tt_cost cost = {.key = *key, .bytes_max = bytes_max};
    const uint64_t from_ns = tt_min_u64(time_ns[0], TT_COSTS_ALPHA_MAX);
    const uint64_t to_ns = tt_min_u64(time_ns[1], TT_COSTS_ALPHA_MAX);
    if (to_ns > from_ns) { /* a longer call that was faster is noise: flat */
        const uint64_t slope =
            ((to_ns - from_ns) << MIB_SHIFT) / tt_max_u64(1, bytes[1] - bytes[0]);
        cost.beta = tt_min_u64(slope, TT_COSTS_BETA_MAX);
    }
    const uint64_t moved_ns = slope_ns(bytes[0], cost.beta);
    cost.alpha_ns = from_ns > moved_ns ? from_ns - moved_ns : 0;
    return cost;
}

/* ---- text ---- */

typedef struct words {
    const char *start[FIELD_COUNT];
    size_t bytes[FIELD_COUNT];
    size_t count; /* FIELD_COUNT + 1: too many */
} words;

static words words_cut(const char *line, size_t bytes)
{
    words found = {.count = 0};
    size_t at = 0;
    while (at < bytes && found.count <= FIELD_COUNT) {
        const size_t start = at;
        while (at < bytes && line[at] != ' ' && line[at] != '\t') {
            at++;
        }
        if (at > start) {
            if (found.count < FIELD_COUNT) {
                found.start[found.count] = line + start;
                found.bytes[found.count] = at - start;
            }
            found.count++;
        }
        at++;
    }
    return found;
}

static bool number_parse(const words *line, size_t field, uint64_t maximum, uint64_t *value_out)
{
    uint64_t value = 0;
    for (size_t i = 0; i < line->bytes[field]; i++) {
        const char digit = line->start[field][i];
        if (digit < '0' || digit > '9' || value > (UINT64_MAX - 9) / 10) {
            return false;
        }
        value = value * 10 + (uint64_t)(digit - '0');
    }
    *value_out = value;
    return value <= maximum;
}

static bool bound_parse(const words *line, size_t field, uint64_t *value_out)
{
    if (line->bytes[field] == 3 && memcmp(line->start[field], "any", 3) == 0) {
        *value_out = TT_COSTS_ANY_BYTES;
        return true;
    }
    return number_parse(line, field, UINT64_MAX, value_out);
}

/* NULL, or the error in the line. */
static const char *cost_parse(const char *line, size_t bytes, tt_cost *cost_out)
{
    const words found = words_cut(line, bytes);
    tt_cost cost = {0};
    uint64_t rank_count;
    if (found.count != FIELD_COUNT) {
        return "seven words are expected: collective algorithm placement ranks up-to-bytes "
               "alpha-ns ns-per-MiB";
    }
    if (!name_set(cost.key.collective, found.start[0], found.bytes[0]) ||
        !name_set(cost.key.algorithm, found.start[1], found.bytes[1]) ||
        !name_set(cost.key.placement, found.start[2], found.bytes[2])) {
        return "a name has 1 to 19 lower-case letters, digits and dashes";
    }
    if (!number_parse(&found, 3, UINT32_MAX, &rank_count) || rank_count == 0) {
        return "the fourth word must be a number of ranks";
    }
    if (!bound_parse(&found, 4, &cost.bytes_max)) {
        return "the fifth word must be a number of bytes, or any";
    }
    if (!number_parse(&found, 5, TT_COSTS_ALPHA_MAX, &cost.alpha_ns)) {
        return "the sixth word must be a time in nanoseconds";
    }
    if (!number_parse(&found, 6, TT_COSTS_BETA_MAX, &cost.beta)) {
        return "the seventh word must be nanoseconds per MiB";
    }
    cost.key.rank_count = (uint32_t)rank_count;
    *cost_out = cost;
    return NULL;
}

static const char *line_take(tt_costs *costs, const char *line, size_t bytes)
{
    tt_cost cost;
    while (bytes > 0 && (line[bytes - 1] == '\r' || line[bytes - 1] == ' ')) {
        bytes--;
    }
    if (bytes == 0 || line[0] == '#') {
        return NULL;
    }
    const char *problem =
        bytes < TT_COSTS_LINE_BYTES_MAX ? cost_parse(line, bytes, &cost) : "the line is too long";
    if (problem == NULL && tt_costs_put(costs, &cost) != TT_OK) {
        problem = "the table is full";
    }
    return problem;
}

tt_status tt_costs_parse(const char *text, size_t text_bytes, tt_costs *costs_out, tt_text *why)
{
    const size_t title_bytes = sizeof(title) - 1;
    costs_out->line_count = 0;
    if (text_bytes > TT_COSTS_TEXT_BYTES_MAX) {
        tt_text_add(why, "the text is longer than %d bytes", TT_COSTS_TEXT_BYTES_MAX);
        return TT_ERR_BAD_CONFIG;
    }
    if (text_bytes < title_bytes || memcmp(text, title, title_bytes) != 0) {
        tt_text_add(why, "line 1: expected 'tutti costs 1'");
        return TT_ERR_BAD_CONFIG;
    }
    uint32_t number = 1;
    for (size_t at = title_bytes; at < text_bytes;) {
        const char *end = memchr(text + at, '\n', text_bytes - at);
        const size_t bytes = end != NULL ? (size_t)(end - text) - at : text_bytes - at;
        const char *problem = line_take(costs_out, text + at, bytes);
        number++;
        if (problem != NULL) {
            tt_text_add(why, "line %" PRIu32 ": %s", number, problem);
            costs_out->line_count = 0;
            return TT_ERR_BAD_CONFIG;
        }
        at += bytes + 1;
    }
    return TT_OK;
}

static size_t append(char *text, size_t at, const char *source, size_t bytes)
{
    TT_ASSERT(at + bytes <= TT_COSTS_TEXT_BYTES_MAX);
    memcpy(text + at, source, bytes);
    return at + bytes;
}

size_t tt_costs_format(const tt_costs *costs, char text_out[TT_COSTS_TEXT_BYTES_MAX])
{
    char line[2 * TT_COSTS_LINE_BYTES_MAX];
    size_t at = append(text_out, 0, title, sizeof(title) - 1);
    at = append(text_out, at, heads, sizeof(heads) - 1);
    for (uint32_t i = 0; i < costs->line_count; i++) {
        const tt_cost *cost = &costs->lines[i];
        char bound[24] = "any";
        if (cost->bytes_max != TT_COSTS_ANY_BYTES) {
            (void)snprintf(bound, sizeof(bound), "%" PRIu64, cost->bytes_max);
        }
        const int bytes =
            snprintf(line, sizeof(line), "%s %s %s %" PRIu32 " %s %" PRIu64 " %" PRIu64 "\n",
                     cost->key.collective, cost->key.algorithm, cost->key.placement,
                     cost->key.rank_count, bound, cost->alpha_ns, cost->beta);
        TT_ASSERT(bytes > 0 && bytes <= TT_COSTS_LINE_BYTES_MAX);
        at = append(text_out, at, line, (size_t)bytes);
    }
    return at;
}
