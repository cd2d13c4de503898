/* SPDX-License-Identifier: Apache-2.0
 *
 * order_text.c - see order_text.h. */
#include "api/order_text.h"

#include "schedule/schedule.h"

_Static_assert((int)TT_ORDER_BYTES_MAX == (int)TT_ORDER_TEXT_BYTES_MAX, "one bound for both");

tt_status tt_order_read(const char *text, size_t text_bytes,
                        tt_status (*line)(void *user, const char *name, uint32_t priority,
                                          tt_text *why),
                        void *user, tt_text *why)
{
    return tt_order_text_parse(text, text_bytes, line, user, why);
}

bool tt_order_can_name(const char *name)
{
    return tt_order_name_is_writable(name);
}

const char *tt_order_title(void)
{
    return TT_ORDER_TITLE;
}
