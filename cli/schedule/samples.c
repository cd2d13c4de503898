/* SPDX-License-Identifier: Apache-2.0
 *
 * samples.c - see samples.h. Nothing of a file is trusted. */
#include "cli/schedule/samples.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "cli/file_text.h"

enum {
    SAMPLES_BYTES_MAX = 1 << 20,
    LINE_BYTES_MAX = 4096,
    WORD_BYTES_SHOWN = 40, /* bytes of a word in a message */
};

static const double number_max = 1e15; /* bytes, or microseconds */

typedef struct reader_state {
    tt_linear_sample samples[TT_LINEAR_SAMPLES_MAX];
    size_t count;
    size_t number; /* of the line */
    int64_t rank_count;
    tt_text *why;
} reader_state;

__attribute__((format(printf, 2, 3))) static tt_status line_refuse(reader_state *reader,
                                                                   const char *format, ...)
{
    va_list arguments;
    tt_text_add(reader->why, "line %zu: ", reader->number);
    va_start(arguments, format);
    tt_text_add_list(reader->why, format, arguments);
    va_end(arguments);
    return TT_ERR_BAD_ARGUMENT;
}

static tt_status sample_add(reader_state *reader, double bytes, double time_us)
{
    if (!(bytes >= 0 && bytes <= number_max && time_us >= 0 && time_us <= number_max)) {
        return line_refuse(reader, "bytes and microseconds are numbers from 0 to %g", number_max);
    }
    if (reader->count == TT_LINEAR_SAMPLES_MAX) {
        return line_refuse(reader, "more than %d samples", TT_LINEAR_SAMPLES_MAX);
    }
    reader->samples[reader->count++] = (tt_linear_sample){.bytes = bytes, .time_us = time_us};
    return TT_OK;
}

static tt_status pair_read(reader_state *reader, const char *line)
{
    char *middle;
    char *end;
    const double bytes = strtod(line, &middle);
    const double time_us = strtod(middle, &end);
    if (middle == line || end == middle || end[strspn(end, " \t\r")] != '\0') {
        return line_refuse(reader,
                           "expected 'bytes microseconds', or a line of tutti bench --json");
    }
    return sample_add(reader, bytes, time_us);
}

static tt_status object_read(reader_state *reader, const json_t *object)
{
    const json_t *bytes = json_object_get(object, "bytes");
    const json_t *time_us = json_object_get(object, "time_us");
    const json_t *ranks = json_object_get(object, "ranks");
    const char *op = json_string_value(json_object_get(object, "op"));
    if (op == NULL || !json_is_integer(bytes) || !json_is_number(time_us) ||
        !json_is_integer(ranks) || json_integer_value(ranks) < 2) {
        return line_refuse(reader, "is not a line of tutti bench --json on two or more ranks");
    }
    if (strcmp(op, "allreduce") != 0) {
        (void)line_refuse(reader, "has the time of ");
        tt_text_add_quoted(reader->why, op, WORD_BYTES_SHOWN);
        tt_text_add(reader->why, "; measure allreduce");
        return TT_ERR_BAD_ARGUMENT;
    }
    if (json_integer_value(json_object_get(object, "wrong")) != 0) {
        return line_refuse(reader, "its results were wrong; measure again");
    }
    if (reader->rank_count != 0 && reader->rank_count != json_integer_value(ranks)) {
        return line_refuse(reader, "was measured with %lld ranks, earlier lines with %lld",
                           (long long)json_integer_value(ranks), (long long)reader->rank_count);
    }
    reader->rank_count = json_integer_value(ranks);
    return sample_add(reader, (double)json_integer_value(bytes), json_number_value(time_us));
}

static tt_status sample_line_read(reader_state *reader, const char *line)
{
    line += strspn(line, " \t\r");
    if (*line == '\0' || *line == '#') {
        return TT_OK;
    }
    if (*line != '{') {
        return pair_read(reader, line);
    }
    json_error_t error;
    json_t *object = json_loads(line, JSON_REJECT_DUPLICATES, &error);
    if (object == NULL) {
        (void)line_refuse(reader, "is not JSON: ");
        tt_text_add_quoted(reader->why, error.text, WORD_BYTES_SHOWN);
        return TT_ERR_BAD_ARGUMENT;
    }
    const tt_status status = object_read(reader, object);
    json_decref(object);
    return status;
}

tt_status tt_samples_read(const char *text, tt_text *why, tt_samples *samples_out)
{
    reader_state reader = {.why = why};
    while (*text != '\0') {
        char line[LINE_BYTES_MAX];
        const size_t bytes = strcspn(text, "\n");
        reader.number++;
        if (bytes >= sizeof(line)) {
            return line_refuse(&reader, "is longer than %d bytes", LINE_BYTES_MAX);
        }
        memcpy(line, text, bytes);
        line[bytes] = '\0';
        text += bytes + (text[bytes] == '\n' ? 1 : 0);
        TT_TRY(sample_line_read(&reader, line));
    }
    tt_samples samples = {.count = reader.count, .rank_count = reader.rank_count};
    if (tt_linear_fit(reader.samples, reader.count, &samples.line) != TT_OK) {
        tt_text_add(why, "too few samples: a fit needs at least two sizes");
        return TT_ERR_BAD_ARGUMENT;
    }
    *samples_out = samples;
    return TT_OK;
}

tt_status tt_samples_load(const char *path, tt_text *why, tt_samples *samples_out)
{
    size_t bytes;
    char *text = tt_file_read(path, SAMPLES_BYTES_MAX, &bytes, why);
    if (text == NULL) {
        return TT_ERR_BAD_ARGUMENT;
    }
    const tt_status status = tt_samples_read(text, why, samples_out);
    free(text);
    return status;
}
