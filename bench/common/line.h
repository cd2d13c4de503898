/* SPDX-License-Identifier: Apache-2.0
 *
 * line.h - the line between a rank and the driver that started it: text, both ways.
 *
 * Layer:   bench; knows no library.
 * Threads: one.
 * Memory:  two streams, which the caller closes.
 */
#ifndef TUTTI_BENCH_COMMON_LINE_H
#define TUTTI_BENCH_COMMON_LINE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Connect to the socket BENCH_SOCKET; 0 if the driver answered. A stream each way: one of both
 * would have to seek between reading and writing. */
static inline int bench_line_open(FILE **commands_out, FILE **answers_out)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *path = getenv("BENCH_SOCKET");
    if (path == NULL || strlen(path) >= sizeof(address.sun_path)) {
        return 1;
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        return 1;
    }
    *commands_out = fdopen(fd, "r");
    *answers_out = fdopen(dup(fd), "w");
    return *commands_out == NULL || *answers_out == NULL;
}

#endif
