/* SPDX-License-Identifier: Apache-2.0
 *
 * error.c - the last error of each thread, and whether it is inside a callback.
 *
 * Thread-local state, because a failed tutti_init leaves no context to hold its text. */
#include <stdarg.h>
#include <stdio.h>

#include "api/api_internal.h"

static _Thread_local char last_error[1024];
static _Thread_local int callback_depth;

tutti_status tt_error_set(tutti_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(last_error, sizeof(last_error), format, arguments);
    va_end(arguments);
    return status;
}

const char *tt_error_text(void)
{
    return last_error;
}

bool tt_error_in_callback(void)
{
    return callback_depth > 0;
}

void tt_error_enter_callback(void)
{
    callback_depth++;
}

void tt_error_leave_callback(void)
{
    callback_depth--;
}

const char *tutti_last_error(const tutti_context *context)
{
    (void)context;
    return last_error;
}
