/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_rows.c - see bench_rows.h. Nothing of a file is trusted. */
#include "cli/cluster/bench_rows.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "cli/file_text.h"

enum {
    ROWS_BYTES_MAX = 4 << 20, /* of a file */
    LINE_BYTES_MAX = 4096,
    PATH_SHOWN = 200, /* bytes in a message */
    WORD_SHOWN = 40,
};

#define CALL_BYTES_MAX (INT64_C(1) << 40)

static const double time_us_max = 1e12;

typedef struct row_reader {
    tt_bench_rows *rows;
    const char *path;
    size_t number; /* of the line */
    tt_text *why;
} row_reader;

void tt_bench_rows_init(tt_bench_rows *rows)
{
    *rows = (tt_bench_rows){.rows = NULL};
}

void tt_bench_rows_fini(tt_bench_rows *rows)
{
    free(rows->rows);
    tt_bench_rows_init(rows);
}

__attribute__((format(printf, 2, 3))) static tt_status refuse(row_reader *reader,
                                                              const char *format, ...)
{
    va_list arguments;
    tt_text_add_words(reader->why, reader->path, PATH_SHOWN);
    tt_text_add(reader->why, ":%zu: ", reader->number);
    va_start(arguments, format);
    tt_text_add_list(reader->why, format, arguments);
    va_end(arguments);
    return TT_ERR_BAD_ARGUMENT;
}

static tt_status row_add(row_reader *reader, const tt_bench_row *row)
{
    tt_bench_rows *rows = reader->rows;
    if (rows->count == rows->capacity) {
        const size_t capacity = rows->capacity == 0 ? 64 : 2 * rows->capacity;
        tt_bench_row *larger =
            capacity > TT_BENCH_ROWS_MAX ? NULL : realloc(rows->rows, capacity * sizeof(*larger));
        if (larger == NULL) {
            return refuse(reader, "more than %d rows; give fewer files", TT_BENCH_ROWS_MAX);
        }
        rows->rows = larger;
        rows->capacity = capacity;
    }
    rows->rows[rows->count++] = *row;
    return TT_OK;
}

/* ---- a line ---- */

static bool collective_find(const char *name, tt_collective *collective_out)
{
    static const tt_collective measured[] = {TT_ALLREDUCE,     TT_BROADCAST, TT_ALLGATHER,
                                             TT_REDUCESCATTER, TT_ALLTOALL,  TT_BARRIER,
                                             TT_SEND};
    for (size_t i = 0; i < TT_ARRAY_COUNT(measured); i++) {
        const tt_bench_row row = {.collective = measured[i]};
        if (strcmp(tt_bench_row_name(&row), name) == 0) {
            *collective_out = measured[i];
            return true;
        }
    }
    return false;
}

const char *tt_bench_row_name(const tt_bench_row *row)
{
    return row->collective == TT_SEND ? "sendrecv" : tt_collective_name(row->collective);
}

static bool dtype_find(const char *name, tt_dtype *dtype_out)
{
    for (int dtype = 0; dtype < TT_DTYPE_COUNT; dtype++) {
        if (strcmp(tt_dtype_name((tt_dtype)dtype), name) == 0) {
            *dtype_out = (tt_dtype)dtype;
            return true;
        }
    }
    return false;
}

/* A member that is a string, or `fallback`. */
static const char *word_of(const json_t *object, const char *name, const char *fallback)
{
    const char *word = json_string_value(json_object_get(object, name));
    return word != NULL ? word : fallback;
}

/* A member that must be a whole number in a range; an absent one has the value `fallback`. */
static bool number_of(const json_t *object, const char *name, int64_t most, int64_t *value_io)
{
    const json_t *value = json_object_get(object, name);
    if (value == NULL && *value_io >= 0) {
        return true;
    }
    *value_io = json_integer_value(value);
    return json_is_integer(value) && *value_io >= 0 && *value_io <= most;
}

/* Where the call ran, and how. */
static void placement_read(const json_t *object, uint32_t hosts, tt_bench_row *row)
{
    const char *algorithm = word_of(object, "algorithm", "");
    const bool is_wire = strcmp(word_of(object, "transport", "auto"), "tcp") == 0;
    row->hosts = hosts == 1 && is_wire ? row->ranks : hosts;
    row->is_staged = strcmp(word_of(object, "buffers", "arena"), "foreign") == 0;
    row->is_in_place = json_is_true(json_object_get(object, "in_place"));
    if (strlen(algorithm) < sizeof(row->algorithm)) {
        memcpy(row->algorithm, algorithm, strlen(algorithm) + 1);
    }
}

static tt_status object_read(row_reader *reader, const json_t *object)
{
    tt_bench_row row = {.dtype = TT_F32};
    int64_t bytes = -1, ranks = -1, wrong = -1, hosts = 1;
    const json_t *time_us = json_object_get(object, "time_us");
    const char *op = word_of(object, "op", "");
    if (!collective_find(op, &row.collective)) {
        return refuse(reader, "is not a line of tutti bench --json: it has no known \"op\"");
    }
    if (!number_of(object, "bytes", CALL_BYTES_MAX, &bytes) ||
        !number_of(object, "ranks", TT_BENCH_RANKS_MAX, &ranks) ||
        !number_of(object, "wrong", INT64_MAX, &wrong) ||
        !number_of(object, "hosts", ranks, &hosts) || !json_is_number(time_us) ||
        !dtype_find(word_of(object, "dtype", "f32"), &row.dtype)) {
        return refuse(reader, "is not a line of tutti bench --json: bytes, ranks, hosts, wrong, "
                              "time_us or dtype are missing or no numbers of a call");
    }
    row.time_us = json_number_value(time_us);
    row.bytes = (uint64_t)bytes;
    row.ranks = (uint32_t)ranks;
    if (ranks < 2 || hosts < 1) {
        return refuse(reader, "was measured with one rank; measure with two or more");
    }
    if (wrong != 0) {
        return refuse(reader, "its results were wrong; measure again");
    }
    if (!(row.time_us > 0 && row.time_us <= time_us_max)) {
        return refuse(reader, "time_us is not above 0, up to %g", time_us_max);
    }
    placement_read(object, (uint32_t)hosts, &row);
    return row_add(reader, &row);
}

static tt_status row_line_read(row_reader *reader, const char *line)
{
    tt_text shown = {.length = 0};
    json_error_t error;
    line += strspn(line, " \t\r");
    if (*line == '\0' || *line == '#') {
        return TT_OK;
    }
    json_t *object = json_loads(line, JSON_REJECT_DUPLICATES, &error);
    if (object == NULL) {
        tt_text_add_words(&shown, error.text, WORD_SHOWN);
        return refuse(reader, "is not a line of tutti bench --json: %s", shown.bytes);
    }
    const tt_status status = object_read(reader, object);
    json_decref(object);
    return status;
}

tt_status tt_bench_rows_read(tt_bench_rows *rows, const char *path, const char *text, tt_text *why)
{
    row_reader reader = {.rows = rows, .path = path, .why = why};
    const size_t before = rows->count;
    while (*text != '\0') {
        char line[LINE_BYTES_MAX];
        const size_t bytes = strcspn(text, "\n");
        reader.number++;
        if (bytes >= sizeof(line)) {
            return refuse(&reader, "is longer than %d bytes", LINE_BYTES_MAX);
        }
        memcpy(line, text, bytes);
        line[bytes] = '\0';
        text += bytes + (text[bytes] == '\n' ? 1 : 0);
        TT_TRY(row_line_read(&reader, line));
    }
    reader.number = 1;
    return rows->count > before
               ? TT_OK
               : refuse(&reader, "has no measurements; write it by tutti bench ... --json");
}

tt_status tt_bench_rows_load(tt_bench_rows *rows, const char *path, tt_text *why)
{
    tt_text cause = {.length = 0};
    size_t bytes;
    char *text = tt_file_read(path, ROWS_BYTES_MAX, &bytes, &cause);
    if (text == NULL) {
        tt_text_add_words(why, path, PATH_SHOWN);
        tt_text_add(why, ": %s", cause.bytes);
        return TT_ERR_BAD_ARGUMENT;
    }
    const tt_status status = tt_bench_rows_read(rows, path, text, why);
    free(text);
    return status;
}
