/* SPDX-License-Identifier: Apache-2.0
 *
 * output.c - from chunks of bytes to whole prefixed lines. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/environment.h"
#include "cli/run/output.h"

enum {
    PENDING_BYTES_MAX = 1 << 20,
    WRITE_BYTES = 4096, /* PIPE_BUF: a pipe that polls writable takes this much without blocking */
};

typedef struct rank_stream {
    tt_buffer line; /* an unfinished line */
    int file_fd;
} rank_stream;

struct tt_output {
    tt_output_config config;
    bool has_colour[TT_OUTPUT_STREAMS];
    bool is_terminal[TT_OUTPUT_STREAMS];
    tt_buffer pending[TT_OUTPUT_STREAMS];
    rank_stream *streams; /* rank * TT_OUTPUT_STREAMS + stream */
};

static bool wants_colour(bool is_terminal)
{
    const char *no_colour = tt_environment_get("NO_COLOR");
    const char *terminal = tt_environment_get("TERM");
    return is_terminal && (no_colour == NULL || no_colour[0] == '\0') && terminal != NULL &&
           strcmp(terminal, "dumb") != 0;
}

static int open_file(const tt_output_config *config, int rank, int stream)
{
    char path[4096];
    const int worker_count = config->rank_count - config->server_count;
    const bool is_server = rank >= worker_count;
    const char *kind = is_server ? "server" : "rank";
    const int number = is_server ? rank - worker_count : rank;
    (void)mkdir(config->folder, 0777);
    snprintf(path, sizeof(path), "%s/%s.%d", config->folder, kind, number);
    (void)mkdir(path, 0777);
    snprintf(path, sizeof(path), "%s/%s.%d/%s", config->folder, kind, number,
             stream == 0 ? "stdout" : "stderr");
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) {
        fprintf(stderr, "tutti: cannot write %s: %s\n", path, strerror(errno));
    }
    return fd;
}

tt_output *tt_output_create(const tt_output_config *config)
{
    tt_output *output = tt_cli_allocate(1, sizeof(*output));
    const size_t count = (size_t)config->rank_count * TT_OUTPUT_STREAMS;
    output->config = *config;
    output->streams = tt_cli_allocate(count, sizeof(*output->streams));
    for (int stream = 0; stream < TT_OUTPUT_STREAMS; stream++) {
        output->is_terminal[stream] = isatty(stream + 1) == 1;
        output->has_colour[stream] = wants_colour(output->is_terminal[stream]);
    }
    for (size_t i = 0; i < count; i++) {
        output->streams[i].file_fd = -1;
    }
    for (size_t i = 0; config->folder != NULL && i < count; i++) {
        rank_stream *stream = &output->streams[i];
        stream->file_fd =
            open_file(config, (int)(i / TT_OUTPUT_STREAMS), (int)(i % TT_OUTPUT_STREAMS));
        if (stream->file_fd < 0) {
            tt_output_destroy(output);
            return NULL;
        }
    }
    return output;
}

void tt_output_destroy(tt_output *output)
{
    const size_t count = (size_t)output->config.rank_count * TT_OUTPUT_STREAMS;
    for (size_t i = 0; i < count; i++) {
        tt_buffer_fini(&output->streams[i].line);
        if (output->streams[i].file_fd >= 0) {
            close(output->streams[i].file_fd);
        }
    }
    for (int stream = 0; stream < TT_OUTPUT_STREAMS; stream++) {
        tt_buffer_fini(&output->pending[stream]);
    }
    free(output->streams);
    free(output);
}

static void put_prefix(tt_output *output, int rank, int stream)
{
    char prefix[48];
    static const char *const colours[] = {"36", "33", "32", "35", "34", "31"};
    if (!output->config.has_prefix) {
        return;
    }
    const int worker_count = output->config.rank_count - output->config.server_count;
    const char *kind = rank >= worker_count ? "s" : "";
    const int number = rank >= worker_count ? rank - worker_count : rank;
    const int length = output->has_colour[stream]
                           ? snprintf(prefix, sizeof(prefix), "\033[%sm[%s%d]\033[0m ",
                                      colours[rank % 6], kind, number)
                           : snprintf(prefix, sizeof(prefix), "[%s%d] ", kind, number);
    tt_buffer_append(&output->pending[stream], prefix, (size_t)length);
}

static void put_line(tt_output *output, int rank, int stream, size_t bytes)
{
    tt_buffer *line = &output->streams[rank * TT_OUTPUT_STREAMS + stream].line;
    const uint8_t *data = tt_buffer_data(line);
    const bool has_end = data[bytes - 1] == '\n' || data[bytes - 1] == '\r';
    put_prefix(output, rank, stream);
    tt_buffer_append(&output->pending[stream], data, bytes);
    if (!has_end && output->config.has_prefix) {
        tt_buffer_append(&output->pending[stream], "\n", 1);
    }
    tt_buffer_take(line, bytes);
}

/* Bytes of the first whole line, or 0. On a terminal a carriage return ends a line too, so that
 * progress bars move; one that may still become "\r\n" has to wait. */
static size_t line_bytes(const tt_output *output, const tt_buffer *line, int stream)
{
    const uint8_t *data = tt_buffer_data(line);
    const size_t held = tt_buffer_bytes(line);
    const uint8_t *newline = held > 0 ? memchr(data, '\n', held) : NULL;
    size_t bytes = newline != NULL ? (size_t)(newline - data) + 1 : 0;
    if (output->is_terminal[stream]) {
        const size_t searched = bytes > 0 ? bytes : held;
        const uint8_t *bar = searched > 0 ? memchr(data, '\r', searched) : NULL;
        const size_t bar_bytes = bar != NULL ? (size_t)(bar - data) + 1 : 0;
        if (bar_bytes > 0 && bar_bytes < held && data[bar_bytes] != '\n') {
            bytes = bar_bytes;
        }
    }
    if (bytes == 0 && held >= TT_OUTPUT_LINE_BYTES_MAX) {
        bytes = TT_OUTPUT_LINE_BYTES_MAX;
    }
    return bytes < TT_OUTPUT_LINE_BYTES_MAX + 1 ? bytes : TT_OUTPUT_LINE_BYTES_MAX;
}

static void write_file(int fd, const uint8_t *bytes, size_t count)
{
    while (fd >= 0 && count > 0) {
        const ssize_t written = write(fd, bytes, count);
        if (written <= 0) {
            return; /* a full disk must not stop the job; the terminal still shows it all */
        }
        bytes += written;
        count -= (size_t)written;
    }
}

void tt_output_take(tt_output *output, int rank, int stream, const uint8_t *bytes, size_t count)
{
    rank_stream *target = &output->streams[rank * TT_OUTPUT_STREAMS + stream];
    write_file(target->file_fd, bytes, count);
    tt_buffer_append(&target->line, bytes, count);
    size_t length;
    while ((length = line_bytes(output, &target->line, stream)) > 0) {
        put_line(output, rank, stream, length);
    }
}

void tt_output_end(tt_output *output, int rank)
{
    for (int stream = 0; stream < TT_OUTPUT_STREAMS; stream++) {
        const tt_buffer *line = &output->streams[rank * TT_OUTPUT_STREAMS + stream].line;
        if (tt_buffer_bytes(line) > 0) {
            put_line(output, rank, stream, tt_buffer_bytes(line));
        }
    }
}

bool tt_output_is_full(const tt_output *output)
{
    return tt_buffer_bytes(&output->pending[0]) > PENDING_BYTES_MAX ||
           tt_buffer_bytes(&output->pending[1]) > PENDING_BYTES_MAX;
}

bool tt_output_has_pending(const tt_output *output, int stream)
{
    return tt_buffer_bytes(&output->pending[stream]) > 0;
}

/* The descriptor is shared with the parent process, so it must not be made non-blocking. */
static bool can_write(int fd)
{
    struct pollfd item = {.fd = fd, .events = POLLOUT};
    return poll(&item, 1, 0) == 1;
}

tt_status tt_output_flush(tt_output *output, int stream)
{
    tt_buffer *pending = &output->pending[stream];
    while (tt_buffer_bytes(pending) > 0 && can_write(stream + 1)) {
        const size_t held = tt_buffer_bytes(pending);
        const ssize_t written =
            write(stream + 1, tt_buffer_data(pending), held < WRITE_BYTES ? held : WRITE_BYTES);
        if (written < 0 && errno != EAGAIN && errno != EINTR) {
            return TT_ERR_PEER_LEFT;
        }
        tt_buffer_take(pending, written > 0 ? (size_t)written : 0);
    }
    return tt_buffer_bytes(pending) > 0 ? TT_IN_PROGRESS : TT_OK;
}
