/* SPDX-License-Identifier: Apache-2.0
 *
 * name_table.h - names in the order in which they were added, each once, found by hash; with
 * priorities they are an order of tensors, read from its text (order_text.h) and written as one.
 *
 * Layer:   schedule; may include base/.
 * Threads: one at a time per table.
 * Memory:  from the allocator, which must outlive the table; all zeros but that is an empty one.
 */
#ifndef TUTTI_SCHEDULE_NAME_TABLE_H
#define TUTTI_SCHEDULE_NAME_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/status.h"
#include "base/text.h"

typedef struct tt_name_entry {
    char *name;
    uint32_t priority; /* 0 is the most urgent */
    bool is_used;      /* the owner's */
} tt_name_entry;

typedef struct tt_name_table {
    const tt_allocator *allocator;
    tt_name_entry *entries; /* [places / 2] */
    uint32_t *index;        /* [places] of entries, + 1, by hash */
    size_t count, places;
    uint32_t priority_max;
} tt_name_table;

/* NULL: not in the table. */
tt_name_entry *tt_name_table_find(const tt_name_table *table, const char *name);
/* TT_IN_PROGRESS: in the table already. TT_ERR_NO_MEMORY leaves the table as it was. */
tt_status tt_name_table_add(tt_name_table *table, const char *name, uint32_t priority);
void tt_name_table_clear(tt_name_table *table);

/* Add the names of the text. Errors as of tt_order_text_parse; a name listed twice is one, too. */
tt_status tt_name_table_read(tt_name_table *table, const char *text, size_t bytes, tt_text *why);
/* The text of an order: as added, or the reverse. NULL: there are no names, or no memory; else
 * `*room_out` bytes of the allocator, of which `*bytes_out` are the text. */
char *tt_name_table_write(const tt_name_table *table, bool is_reversed, size_t *bytes_out,
                          size_t *room_out);

#endif
