/* SPDX-License-Identifier: Apache-2.0
 *
 * log.h - one line per event, with level and rank, to a writer the owner chose.
 *
 * The function that first decides that something is an error logs it, with the cause ("%s",
 * strerror(errno) for system calls: %m is not ISO C, and strerror is thread-safe in both glibc and
 * musl); its callers do not. Lower case, "peer 3" and not "peer=3".
 *
 * Layer:   base.
 * Threads: tt_log_write from any thread, if `write` may be called so (the default may). A tt_log
 *          is not changed while it is in use.
 * Memory:  a line is built on the stack and cut at TT_TEXT_BYTES.
 */
#ifndef TUTTI_BASE_LOG_H
#define TUTTI_BASE_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum tt_log_level {
    TT_LOG_ERROR,
    TT_LOG_WARN,
    TT_LOG_INFO,
    TT_LOG_DEBUG,
    TT_LOG_TRACE,
    TT_LOG_LEVEL_COUNT
} tt_log_level;

typedef struct tt_log {
    int level; /* lines above it are dropped */
    uint32_t rank;
    const char *role; /* put before the rank: "server "; NULL: nothing */
    uint32_t size;    /* 0 while rank and size are not known yet */
    void (*write)(void *user, int level, const char *text); /* NULL: one line to stderr */
    void *user;
} tt_log;

/* "error" ... "trace"; "invalid" beyond. The array ends in NULL, as tt_config_entry requires. */
const char *tt_log_level_name(int level);
extern const char *const tt_log_level_names[TT_LOG_LEVEL_COUNT + 1];

/* A NULL log drops everything. The text has neither prefix nor newline when `write` gets it; the
 * default writer prints "tutti[rank/size] level: text" with one write(2), so lines of many
 * processes do not mix. errno is preserved. */
__attribute__((format(printf, 3, 4))) void tt_log_write(const tt_log *log, int level,
                                                        const char *format, ...);

static inline bool tt_log_has_level(const tt_log *log, int level)
{
    return log != NULL && level <= log->level;
}

/* Lets the first event pass, then every `interval`-th; 0: the first only. */
typedef struct tt_log_limit {
    _Atomic(uint64_t) count; /* events so far */
    uint64_t interval;
} tt_log_limit;

/* Count one event; true if it should be logged. From any thread. */
bool tt_log_limit_pass(tt_log_limit *limit);

#endif
