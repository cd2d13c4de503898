/* SPDX-License-Identifier: Apache-2.0
 *
 * error.c - the last error of each thread, and whether it is inside a callback.
 *
 * Thread-local state, because a failed tutti_init leaves no context to hold its text, and because
 * threads fail independently. A thread that uses more contexts than there are slots loses the text
 * of the one that failed longest ago. */
#include <stdarg.h>
#include <stdio.h>

#include "api/api_internal.h"
#include "api/raise.h"

enum { SLOTS = 4, TEXT_BYTES = 1024 };

typedef struct error_slot {
    const tutti_context *context; /* compared, never followed; NULL in slot 0 */
    char text[TEXT_BYTES];
} error_slot;

/* Slot 0 is for calls without a context, chiefly tutti_init. */
static _Thread_local error_slot slots[1 + SLOTS];
static _Thread_local unsigned next_slot;
static _Thread_local const tutti_context *subject;
static _Thread_local int callback_depth;

static error_slot *slot_find(const tutti_context *context)
{
    if (context == NULL) {
        return &slots[0];
    }
    for (unsigned i = 1; i <= SLOTS; i++) {
        if (slots[i].context == context) {
            return &slots[i];
        }
    }
    return NULL;
}

void tt_error_about(const tutti_context *context)
{
    subject = context;
}

void tt_error_forget(const tutti_context *context)
{
    error_slot *slot = slot_find(context);
    if (slot != NULL) {
        slot->context = NULL;
        slot->text[0] = 0;
    }
}

tutti_status tt_error_set(tutti_status status, const char *format, ...)
{
    error_slot *slot = slot_find(subject);
    if (slot == NULL) {
        slot = &slots[1 + next_slot++ % SLOTS];
        slot->context = subject;
    }
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(slot->text, sizeof(slot->text), format, arguments);
    va_end(arguments);
    return status;
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
    const error_slot *slot = slot_find(context);
    return slot != NULL ? slot->text : "";
}

tutti_status tt_error_raise(tutti_status status, const char *text)
{
    tt_error_about(NULL);
    return tt_error_set(status, "%s", text);
}
