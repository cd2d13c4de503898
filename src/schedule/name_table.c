/* SPDX-License-Identifier: Apache-2.0
 *
 * name_table.c - see name_table.h. The index is at most half full. */
#include "schedule/name_table.h"

#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "kernel/hash64.h"
#include "schedule/order_text.h"

enum { PLACES_MIN = 128, NUMBER_BYTES = 24 };

static size_t place_of(const tt_name_table *table, const char *name)
{
    TT_ASSERT(table->count < table->places); /* else the search would not end */
    size_t at = (size_t)tt_hash64(name, strlen(name), 0) & (table->places - 1);
    while (table->index[at] != 0 && strcmp(table->entries[table->index[at] - 1].name, name) != 0) {
        at = (at + 1) & (table->places - 1);
    }
    return at;
}

tt_name_entry *tt_name_table_find(const tt_name_table *table, const char *name)
{
    const uint32_t number = table->count > 0 ? table->index[place_of(table, name)] : 0;
    return number > 0 ? &table->entries[number - 1] : NULL;
}

static void release_arrays(tt_name_table *table)
{
    tt_release(table->allocator, table->entries, table->places / 2, sizeof(*table->entries));
    tt_release(table->allocator, table->index, table->places, sizeof(*table->index));
}

/* Room for one more name. */
static tt_status reserve(tt_name_table *table)
{
    if (2 * table->count < table->places) {
        return TT_OK;
    }
    tt_name_table larger = *table;
    larger.places = table->places > 0 ? 2 * table->places : PLACES_MIN;
    larger.entries = tt_allocate(table->allocator, larger.places / 2, sizeof(*larger.entries));
    larger.index = tt_allocate(table->allocator, larger.places, sizeof(*larger.index));
    if (larger.entries == NULL || larger.index == NULL) {
        release_arrays(&larger);
        return TT_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < table->count; i++) {
        larger.entries[i] = table->entries[i];
        larger.index[place_of(&larger, larger.entries[i].name)] = (uint32_t)i + 1;
    }
    release_arrays(table);
    *table = larger;
    return TT_OK;
}

tt_status tt_name_table_add(tt_name_table *table, const char *name, uint32_t priority)
{
    TT_TRY(reserve(table));
    const size_t at = place_of(table, name), bytes = strlen(name) + 1;
    if (table->index[at] != 0) {
        return TT_IN_PROGRESS;
    }
    char *copy = tt_allocate(table->allocator, bytes, 1);
    if (copy == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    memcpy(copy, name, bytes);
    table->entries[table->count++] = (tt_name_entry){.name = copy, .priority = priority};
    table->index[at] = (uint32_t)table->count;
    table->priority_max = priority > table->priority_max ? priority : table->priority_max;
    TT_ASSERT(2 * table->count <= table->places);
    return TT_OK;
}

void tt_name_table_clear(tt_name_table *table)
{
    for (size_t i = 0; i < table->count; i++) {
        char *name = table->entries[i].name;
        tt_release(table->allocator, name, strlen(name) + 1, 1);
    }
    release_arrays(table);
    *table = (tt_name_table){.allocator = table->allocator};
}

static tt_status add_line(void *user, const char *name, uint32_t priority, tt_text *why)
{
    const tt_status status = tt_name_table_add(user, name, priority);
    if (status == TT_IN_PROGRESS) {
        tt_text_add(why, "%s is listed twice; keep one of the lines", name);
        return TT_ERR_BAD_CONFIG;
    }
    return status;
}

tt_status tt_name_table_read(tt_name_table *table, const char *text, size_t bytes, tt_text *why)
{
    return tt_order_text_parse(text, bytes, add_line, table, why);
}

char *tt_name_table_write(const tt_name_table *table, bool is_reversed, size_t *bytes_out,
                          size_t *room_out)
{
    size_t room = strlen(TT_ORDER_TITLE) + 2, at = 0;
    for (size_t i = 0; i < table->count; i++) {
        room += strlen(table->entries[i].name) + NUMBER_BYTES;
    }
    char *text = table->count > 0 ? tt_allocate(table->allocator, room, 1) : NULL;
    for (size_t i = 0; text != NULL && i <= table->count; i++) {
        tt_text line = {0};
        if (i == 0) {
            tt_text_add(&line, "%s\n", TT_ORDER_TITLE);
        } else {
            const size_t from = is_reversed ? table->count - i : i - 1;
            tt_text_add(&line, "%zu\t%s\n", i - 1, table->entries[from].name);
        }
        TT_ASSERT(line.length <= room - at);
        memcpy(text + at, line.bytes, line.length);
        at += line.length;
    }
    *bytes_out = at;
    *room_out = room;
    return text;
}
