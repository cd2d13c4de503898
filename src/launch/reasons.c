/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/reasons.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"

tt_status tt_launch_fail(tt_launch_why *why, tt_status status, const char *format, ...)
{
    TT_ASSERT(why != NULL);
    TT_ASSERT(status < 0);
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(why->text, sizeof(why->text), format, arguments);
    va_end(arguments);
    return status;
}

void tt_launch_tag_tell(const char *tag, tt_launch_tag_text text_out)
{
    if (strncmp(tag, TT_LAUNCH_TAG_MISSING, sizeof(TT_LAUNCH_TAG_MISSING)) == 0) {
        (void)snprintf(text_out, sizeof(tt_launch_tag_text), "cannot load its plugin");
    } else {
        (void)snprintf(text_out, sizeof(tt_launch_tag_text), "uses %s%.8s",
                       tag[0] != '\0' ? "engine " : "no engine", tag);
    }
}

void tt_launch_append(char *text, size_t text_bytes, const char *format, ...)
{
    const size_t used_bytes = strnlen(text, text_bytes);
    TT_ASSERT(used_bytes < text_bytes);
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text + used_bytes, text_bytes - used_bytes, format, arguments);
    va_end(arguments);
}

bool tt_launch_copy(char *target, size_t target_bytes, const char *source, size_t source_bytes)
{
    TT_ASSERT(target_bytes > 0);
    target[0] = '\0';
    if (source_bytes >= target_bytes) {
        return false;
    }
    memcpy(target, source, source_bytes);
    target[source_bytes] = '\0';
    return true;
}

bool tt_launch_parse_number(const char *text, size_t text_bytes, uint64_t value_max,
                            uint64_t *value_out)
{
    uint64_t value = 0;
    if (text_bytes == 0) {
        return false;
    }
    for (size_t i = 0; i < text_bytes; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
        const uint64_t digit = (uint64_t)(text[i] - '0');
        if (digit > value_max || value > (value_max - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    *value_out = value;
    return true;
}

uint64_t tt_launch_hash(uint64_t seed, const void *bytes, size_t byte_count)
{
    const unsigned char *source = bytes;
    uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ seed;
    for (size_t i = 0; i < byte_count; i++) {
        hash = (hash ^ source[i]) * UINT64_C(0x100000001b3);
    }
    /* FNV mixes the high bits of short texts badly; a port depends on all of them. */
    hash = (hash ^ (hash >> 33)) * UINT64_C(0xff51afd7ed558ccd);
    hash = (hash ^ (hash >> 33)) * UINT64_C(0xc4ceb9fe1a85ec53);
    return hash ^ (hash >> 33);
}
