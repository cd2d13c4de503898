/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <unistd.h>

#include "base/text.h"

const char *const tt_log_level_names[TT_LOG_LEVEL_COUNT + 1] = {
    [TT_LOG_ERROR] = "error", [TT_LOG_WARN] = "warn",   [TT_LOG_INFO] = "info",
    [TT_LOG_DEBUG] = "debug", [TT_LOG_TRACE] = "trace",
};

const char *tt_log_level_name(int level)
{
    return level >= 0 && level < TT_LOG_LEVEL_COUNT ? tt_log_level_names[level] : "invalid";
}

static void write_line(const tt_log *log, int level, const char *text)
{
    tt_text line = {0};
    if (log->size > 0) {
        tt_text_add(&line, "tutti[%s%u/%u] %s: %s", log->role != NULL ? log->role : "", log->rank,
                    log->size, tt_log_level_name(level), text);
    } else {
        tt_text_add(&line, "tutti %s: %s", tt_log_level_name(level), text);
    }
    line.bytes[line.length] = '\n'; /* replaces the final zero; write(2) takes the length */
    const ssize_t written = write(STDERR_FILENO, line.bytes, line.length + 1);
    (void)written; /* nowhere left to report it */
}

void tt_log_write(const tt_log *log, int level, const char *format, ...)
{
    if (!tt_log_has_level(log, level)) {
        return;
    }
    const int saved_errno = errno;
    tt_text text = {0};
    va_list arguments;
    va_start(arguments, format);
    tt_text_add_list(&text, format, arguments);
    va_end(arguments);
    if (log->write != NULL) {
        log->write(log->user, level, text.bytes);
    } else {
        write_line(log, level, text.bytes);
    }
    errno = saved_errno;
}

bool tt_log_limit_pass(tt_log_limit *limit)
{
    const uint64_t before = atomic_fetch_add_explicit(&limit->count, 1, memory_order_relaxed);
    return before == 0 || (limit->interval != 0 && before % limit->interval == 0);
}
