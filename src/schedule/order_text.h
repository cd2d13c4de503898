/* SPDX-License-Identifier: Apache-2.0
 *
 * order_text.h - an order of tensors as text: written by `tutti schedule -o F`, read by
 * TUTTI_ORDER=F.
 *
 *     tutti order 1
 *     0<TAB>conv1/weights
 *     1<TAB>conv1/bias
 *
 * First line and format number, then a priority and a name per line; 0 is the most urgent. Empty
 * lines and lines that begin with '#' are ignored.
 *
 * Layer:   schedule; may include base/.
 * Threads: pure.
 * Memory:  none taken.
 */
#ifndef TUTTI_SCHEDULE_ORDER_TEXT_H
#define TUTTI_SCHEDULE_ORDER_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/text.h"

enum {
    TT_ORDER_NAME_BYTES_MAX = 255,
    TT_ORDER_TEXT_BYTES_MAX = 16 << 20,
};
#define TT_ORDER_TITLE "tutti order 1"

/* One line: the name ends in a zero. A failure ends the reading; `why` may have a text. */
typedef tt_status tt_order_line_fn(void *user, const char *name, uint32_t priority, tt_text *why);

/* `text` need not end in a zero. TT_ERR_BAD_CONFIG: `why` has the number of the first invalid line
 * and its error. */
tt_status tt_order_text_parse(const char *text, size_t text_bytes, tt_order_line_fn *line,
                              void *user, tt_text *why);

/* Can the name be written to such a text: not empty, not too long, no control characters? */
bool tt_order_name_is_writable(const char *name);

#endif
