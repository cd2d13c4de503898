/* SPDX-License-Identifier: Apache-2.0
 *
 * order_text.h - the texts of orders, for files of this folder that include control.
 *
 * The doors of schedule and of control both name a tt_plan, so no file can open both.
 *
 * Layer:   api, private.
 * Threads: pure.
 * Memory:  none.
 */
#ifndef TUTTI_API_ORDER_TEXT_H
#define TUTTI_API_ORDER_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/text.h"

enum { TT_ORDER_BYTES_MAX = 16 << 20 };

/* See schedule/order_text.h. */
tt_status tt_order_read(const char *text, size_t text_bytes,
                        tt_status (*line)(void *user, const char *name, uint32_t priority,
                                          tt_text *why),
                        void *user, tt_text *why);
bool tt_order_can_name(const char *name);
const char *tt_order_title(void);

#endif
