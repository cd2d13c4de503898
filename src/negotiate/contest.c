/* SPDX-License-Identifier: Apache-2.0
 *
 * contest.c - member 0 ends tensors that members have in different tickets.
 *
 * A tensor is contested when every member has sent a request for it, by itself or in a group, or
 * has joined, but not all in one ticket: by the rules of parts.c none of these can become complete.
 * They fail on all members, with one text; so do, at once, groups that are sent as regrouped. With
 * a group one occurrence of each of its tensors is over, on every member: tickets of others that
 * contain one of them fail, too; on members that have not submitted it, the next submission fails.
 */
#include "base/assert.h"
#include "negotiate/internal.h"

/* Members have this tensor, in this row. */
typedef struct mention {
    uint64_t hash;
    uint32_t place; /* of the row, from 1 */
    tt_row *row;
    const tt_row_claim *claim;
    tt_part_name part;
} mention;

typedef struct mentions {
    mention *items;
    uint32_t count, capacity;
} mentions;

static bool is_before(const mention *a, const mention *b)
{
    return a->hash != b->hash ? a->hash < b->hash : a->place < b->place;
}

/* Sift items[at] down in the heap of the first `count`. */
static void sink(mention *items, uint32_t count, uint32_t at)
{
    const mention one = items[at];
    for (uint32_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        child += child + 1 < count && is_before(&items[child], &items[child + 1]) ? 1 : 0;
        if (!is_before(&one, &items[child])) {
            break;
        }
        items[at] = items[child];
        at = child;
    }
    items[at] = one;
}

static void sort(mention *items, uint32_t count)
{
    for (uint32_t at = count / 2; at > 0; at--) {
        sink(items, count, at - 1);
    }
    for (uint32_t end = count; end > 1; end--) {
        const mention largest = items[0];
        items[0] = items[end - 1];
        items[end - 1] = largest;
        sink(items, end - 1, 0);
    }
}

static tt_status mention_add(tt_negotiator *self, mentions *all, const mention *one)
{
    void *items = all->items;
    TT_TRY(tt_negotiator_grow(self, &items, &all->capacity, sizeof(*one), all->count + 1));
    all->items = items;
    all->items[all->count++] = *one;
    return TT_OK;
}

static tt_status mention_row(tt_negotiator *self, mentions *all, tt_row *row, uint32_t place)
{
    const tt_entry *entry = &self->entries.items[row->entry];
    mention one = {.place = place, .row = row};
    for (const tt_row_claim *claim = row->claims; claim != NULL; claim = claim->next) {
        one.claim = claim;
        one.hash = tt_entry_hash(entry);
        one.part =
            (tt_part_name){.hash = one.hash, .name = entry->name, .name_bytes = entry->name_bytes};
        if (!claim->has_parts) {
            TT_TRY(mention_add(self, all, &one));
            continue;
        }
        for (uint32_t offset = 0;;) {
            offset =
                self->host.part(self->host.owner, claim->claim, claim->bytes, offset, &one.part);
            if (offset == 0) {
                break;
            }
            one.hash = one.part.hash;
            TT_TRY(mention_add(self, all, &one));
        }
    }
    return TT_OK;
}

static tt_status mention_all(tt_negotiator *self, mentions *all)
{
    uint32_t place = 0;
    for (tt_list_node *node = tt_list_first(&self->turn.rows); node != NULL;
         node = tt_list_next(&self->turn.rows, node)) {
        tt_row *row = TT_CONTAINER_OF(node, tt_row, node);
        row->contest = 0;
        place++;
        if (row->verdict == 0 && !(row->needs_all && self->turn.joined.total > 0)) {
            TT_TRY(mention_row(self, all, row, place));
        }
    }
    sort(all->items, all->count);
    return TT_OK;
}

/* The end of those that mention the same tensor as items[first]. */
static uint32_t run_end(const mentions *all, uint32_t first)
{
    uint32_t end = first + 1;
    while (end < all->count && all->items[end].hash == all->items[first].hash) {
        end++;
    }
    return end;
}

static tt_status is_contested(tt_negotiator *self, const mentions *all, uint32_t first,
                              bool *is_contested_out)
{
    const uint32_t end = run_end(all, first);
    tt_ranges told = {0};
    *is_contested_out = false;
    for (uint32_t i = first; i < end; i++) {
        *is_contested_out |= all->items[i].claim->is_regrouped;
    }
    if (*is_contested_out || all->items[first].place == all->items[end - 1].place) {
        return TT_OK;
    }
    tt_status status = tt_ranges_add_all(&told, &self->memory, &self->turn.joined);
    for (uint32_t i = first; i < end && status == TT_OK; i++) {
        status = tt_ranges_add_all(&told, &self->memory, &all->items[i].claim->members);
    }
    *is_contested_out = told.total == self->members.size;
    tt_ranges_release(&told, &self->memory);
    return status;
}

/* Rows of one run are in one contest, and so are those of another run that shares a row with it. A
 * contest has the number of the first run, from 1, that `is_cause` of it. */
static bool merge(const mentions *all, uint32_t first, bool is_cause)
{
    const uint32_t end = run_end(all, first);
    uint32_t contest = is_cause ? first + 1 : UINT32_MAX;
    bool has_changed = false;
    for (uint32_t i = first; i < end; i++) {
        const uint32_t other = all->items[i].row->contest;
        contest = other != 0 && other < contest ? other : contest;
    }
    for (uint32_t i = first; i < end && contest < UINT32_MAX; i++) {
        has_changed |= all->items[i].row->contest != contest;
        all->items[i].row->contest = contest;
    }
    return has_changed;
}

static tt_status find_contests(tt_negotiator *self, const mentions *all, bool *has_any_out)
{
    bool has_changed = true;
    *has_any_out = false;
    while (has_changed) {
        has_changed = false;
        for (uint32_t first = 0; first < all->count; first = run_end(all, first)) {
            bool is_cause = false;
            TT_TRY(is_contested(self, all, first, &is_cause));
            has_changed |= merge(all, first, is_cause);
            *has_any_out |= is_cause;
        }
    }
    return TT_OK;
}

/* ---- texts ---- */

static void add_name(const mentions *all, uint32_t first, tt_text *text)
{
    for (uint32_t i = first; i < run_end(all, first); i++) {
        const tt_part_name *part = &all->items[i].part;
        if (part->name != NULL) {
            tt_text_add(text, "tensor ");
            tt_text_add_quoted(text, part->name, part->name_bytes);
            return;
        }
    }
    tt_text_add(text, "a tensor of large groups");
}

/* Members of the row of items[i] in this run that have the tensor in the same place; returns the
 * number of items. Without memory for the list each item is listed separately. */
static uint32_t gather(tt_negotiator *self, const mentions *all, uint32_t i, tt_ranges *who)
{
    const mention *one = &all->items[i];
    uint32_t end = i;
    while (end < run_end(all, i) && all->items[end].place == one->place &&
           all->items[end].claim->has_parts == one->claim->has_parts &&
           tt_ranges_add_all(who, &self->memory, &all->items[end].claim->members) == TT_OK) {
        end++;
    }
    return end - i;
}

/* The members and where they have the tensor, by rows: in the order of arrival at member 0. */
static void add_who(tt_negotiator *self, const mentions *all, uint32_t first, tt_text *text)
{
    const uint32_t end = run_end(all, first);
    uint32_t count = 0;
    for (uint32_t i = first; i < end; i += (count > 0) ? count : 1) {
        const mention *one = &all->items[i];
        const tt_entry *entry = &self->entries.items[one->row->entry];
        tt_ranges who = {0};
        count = gather(self, all, i, &who);
        const tt_ranges *told = count > 0 ? &who : &one->claim->members;
        tt_text_add(text, "%s%s ", i == first ? ": " : "; ", told->total == 1 ? "rank" : "ranks");
        tt_ranges_print(told, self->members.rank_of, text);
        tt_ranges_release(&who, &self->memory);
        if (one->claim->has_parts) {
            tt_text_add(text, ": in group ");
            tt_text_add_quoted(text, entry->name, entry->name_bytes);
        } else {
            tt_text_add(text, ": by itself");
        }
    }
}

/* Add the text of a member that has failed already; false: there is none. */
static bool repeat(const mentions *all, uint32_t contest, tt_text *text)
{
    for (uint32_t i = 0; i < all->count; i++) {
        const mention *one = &all->items[i];
        if (one->row->contest == contest && one->part.regrouped != NULL) {
            tt_text_add_words(text, one->part.regrouped, one->part.regrouped_bytes);
            return true;
        }
    }
    return false;
}

/* The text of a contest, from the run that gave it its number. */
static void explain(tt_negotiator *self, const mentions *all, uint32_t contest, tt_text *text)
{
    tt_text_clear(text);
    TT_ASSERT(contest > 0);
    TT_ASSERT(contest <= all->count);
    if (repeat(all, contest, text)) {
        return;
    }
    tt_text_add(text, "ranks disagree about the group of ");
    add_name(all, contest - 1, text);
    add_who(self, all, contest - 1, text);
}

/* ---- answers ---- */

static void write_one(tt_writer *writer, const tt_part_name *name, bool is_group,
                      const tt_text *text)
{
    const tt_answer_head head = {.kind = TT_ANSWER_CONTESTED,
                                 .needs_all = is_group,
                                 .status = TT_ERR_MISMATCH,
                                 .name_bytes = name->name_bytes,
                                 .claim_bytes = (uint16_t)text->length};
    tt_writer_answer(writer, &head, name->name, text->bytes);
}

static bool has_groups(const tt_row *row)
{
    for (const tt_row_claim *claim = row->claims; claim != NULL; claim = claim->next) {
        if (claim->has_parts) {
            return true;
        }
    }
    return false;
}

/* Groups first: a member must know the tensors of its own groups before their answers. */
static void write_groups(tt_writer *writer, const mentions *all)
{
    tt_negotiator *self = writer->self;
    for (tt_list_node *node = tt_list_first(&self->turn.rows); node != NULL;
         node = tt_list_next(&self->turn.rows, node)) {
        const tt_row *row = TT_CONTAINER_OF(node, tt_row, node);
        const tt_entry *entry = &self->entries.items[row->entry];
        if (row->contest > 0 && has_groups(row)) {
            tt_text text;
            const tt_part_name name = {.name = entry->name, .name_bytes = entry->name_bytes};
            explain(self, all, row->contest, &text);
            write_one(writer, &name, true, &text);
        }
    }
}

static void write_tensors(tt_writer *writer, const mentions *all)
{
    for (uint32_t first = 0; first < all->count; first = run_end(all, first)) {
        const mention *named = NULL;
        uint32_t contest = 0;
        for (uint32_t i = first; i < run_end(all, first); i++) {
            const mention *one = &all->items[i];
            contest = one->row->contest > 0 ? one->row->contest : contest;
            named = named == NULL && one->part.name != NULL ? one : named;
        }
        if (contest > 0 && named != NULL) {
            tt_text text;
            explain(writer->self, all, contest, &text);
            write_one(writer, &named->part, false, &text);
        }
    }
}

static void remove_rows(tt_negotiator *self)
{
    tt_list_node *next;
    for (tt_list_node *node = tt_list_first(&self->turn.rows); node != NULL; node = next) {
        next = tt_list_next(&self->turn.rows, node);
        tt_row *row = TT_CONTAINER_OF(node, tt_row, node);
        if (row->contest > 0) {
            tt_roll_remove(self, row);
        }
    }
}

tt_status tt_contest_answer(tt_writer *writer)
{
    tt_negotiator *self = writer->self;
    mentions all = {0};
    bool has_any = false;
    if (self->turn.groups == 0) {
        return TT_OK;
    }
    tt_status status = mention_all(self, &all);
    if (status == TT_OK) {
        status = find_contests(self, &all, &has_any);
    }
    if (status == TT_OK && has_any) {
        write_groups(writer, &all);
        write_tensors(writer, &all);
        remove_rows(self);
    }
    tt_release(&self->memory, all.items, all.capacity, sizeof(*all.items));
    return status;
}
