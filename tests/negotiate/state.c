/* SPDX-License-Identifier: Apache-2.0
 *
 * state.c - see state.h. */
#include "tests/negotiate/state.h"

#include <string.h>

#include "kernel/hash64.h"
#include "negotiate/internal.h"

static void add(uint64_t *hash, uint64_t value)
{
    *hash = tt_hash64_mix(*hash, value);
}

static void add_bytes(uint64_t *hash, const void *bytes, size_t count)
{
    add(hash, count == 0 || bytes == NULL ? count : tt_hash64(bytes, count, 1));
}

static void add_ranges(uint64_t *hash, const tt_ranges *ranges)
{
    add_bytes(hash, ranges->items, ranges->count * sizeof(tt_range));
}

static void add_combine(uint64_t *hash, const tt_negotiator *self, const tt_combine *combine)
{
    add(hash, combine->round);
    add(hash, (uint64_t)combine->flags << 8 | (uint64_t)combine->is_open << 4 |
                  (uint64_t)combine->is_begun << 3 | (uint64_t)combine->is_over << 2 |
                  (uint64_t)combine->is_folded << 1 | combine->is_fold_sent);
    add(hash, combine->is_open ? combine->digest : 0);
    add(hash, (uint64_t)combine->dimensions_in << 32 | combine->dimensions_sent);
    add(hash, combine->locals_in);
    add_bytes(hash, combine->locals_seen,
              combine->locals_seen == NULL ? 0 : (self->place.local_count + 63) / 64 * 8U);
    add_bytes(hash, combine->bytes, combine->is_open ? 2U * combine->size : 0);
}

static void add_cache(uint64_t *hash, const tt_cache *cache)
{
    add(hash, cache->digest);
    add(hash, cache->plan_digest);
    add(hash, (uint64_t)cache->used << 32 | cache->planned);
    add(hash, (uint64_t)cache->oldest << 32 | cache->newest);
    add(hash, cache->first_free);
    add_bytes(hash, cache->pending, tt_cache_words(cache) * sizeof(uint64_t));
    for (uint32_t i = 0; i < cache->used; i++) {
        const tt_slot *slot = &cache->slots[i];
        add(hash, (uint64_t)slot->entry << 32 | slot->newer);
        if (slot->entry == TT_NONE) {
            continue;
        }
        add_bytes(hash, slot->claim, slot->claim_bytes);
        add(hash, (uint64_t)slot->older << 8 | (uint64_t)slot->is_near << 4 |
                      (uint64_t)slot->needs_all << 3 | (uint64_t)slot->is_planned << 2 |
                      (uint64_t)slot->is_frozen << 1 | slot->has_failed);
        add(hash, slot->last_step);
        add(hash, (uint64_t)slot->streak << 32 | slot->splits);
        add(hash, slot->round);
        if (slot->is_planned) {
            add(hash, (uint64_t)slot->bundle << 32 | slot->bundle_place);
            add(hash, slot->bundle_size);
            add(hash, (uint64_t)slot->generation << 32 | slot->index);
            add(hash, slot->begun);
        }
    }
}

static void add_row(uint64_t *hash, const tt_row *row)
{
    add(hash, (uint64_t)row->entry << 32 | (uint64_t)row->verdict << 8 | row->needs_all);
    if (row->text != NULL) {
        add_bytes(hash, row->text->bytes, row->text->length);
    }
    for (const tt_row_claim *claim = row->claims; claim != NULL; claim = claim->next) {
        add_bytes(hash, claim->claim, claim->bytes);
        add_ranges(hash, &claim->members);
    }
}

static void add_turn(uint64_t *hash, const tt_negotiator *self)
{
    const tt_turn *turn = &self->turn;
    for (uint32_t i = 0; i < self->place.child_count; i++) {
        add_ranges(hash, &turn->children[i].parts);
        add(hash, (uint64_t)turn->children[i].part_count << 1 | turn->children[i].is_over);
    }
    for (const tt_list_node *node = tt_list_first(&turn->rows); node != NULL;
         node = tt_list_next(&turn->rows, node)) {
        add_row(hash, TT_CONTAINER_OF(node, tt_row, node));
    }
    add_ranges(hash, &turn->joiners);
    add_ranges(hash, &turn->joined);
    add_ranges(hash, &turn->answered);
    add(hash, (uint64_t)turn->last << 32 | turn->answer_count);
    for (uint32_t i = 0; i < turn->answer_capacity; i++) {
        add_bytes(hash, turn->answers[i].bytes, turn->answers[i].count);
    }
}

static void add_entry(uint64_t *hash, const tt_entry *entry)
{
    add_bytes(hash, entry->name, entry->name_bytes);
    add(hash, (uint64_t)entry->slot << 16 | (uint64_t)entry->wait << 8 | entry->wish);
    add(hash, (uint64_t)(entry->ticket != NULL) << 2 | (uint64_t)(entry->owed != NULL) << 1 |
                  (entry->debt != NULL));
    if (entry->ticket != NULL) {
        add(hash, entry->ticket->is_given_up);
        add_bytes(hash, entry->ticket->claim, entry->ticket->claim_bytes);
    }
    if (entry->owed != NULL) {
        add(hash, (uint64_t)entry->owed->generation << 32 | entry->owed->index);
        add(hash, (uint64_t)entry->owed->begun << 32 | entry->owed->limit);
        add_bytes(hash, entry->owed->claim, entry->owed->claim_bytes);
    }
    for (const tt_debt *debt = entry->debt; debt != NULL; debt = debt->next) {
        add(hash, (uint64_t)(int64_t)debt->status << 32 | debt->count);
        add(hash, debt->is_after_owed);
        add_bytes(hash, debt->text.bytes, debt->text.length);
    }
}

static void add_entries(uint64_t *hash, const tt_negotiator *self)
{
    const tt_entries *entries = &self->entries;
    add(hash, (uint64_t)entries->used << 32 | entries->first_free);
    for (uint32_t i = 0; i < entries->used; i++) {
        if (entries->items[i].name == NULL) {
            add(hash, entries->items[i].slot); /* the next free one */
        } else {
            add_entry(hash, &entries->items[i]);
        }
    }
    for (uint32_t i = entries->oldest; i != TT_NONE; i = entries->items[i].newer) {
        add(hash, i);
    }
}

static uint64_t member_hash(const tt_negotiator *self)
{
    uint64_t hash = 1;
    add(&hash, (uint64_t)(int64_t)self->shut << 8 | self->phase);
    add(&hash, (uint64_t)self->untold_count << 32 | self->changed_count);
    add(&hash, (uint64_t)self->wish_count << 32 | self->failed_count);
    add(&hash, self->done);
    add(&hash, self->called);
    add(&hash, (uint64_t)self->flags << 8 | (uint64_t)self->has_news << 7 |
                   (uint64_t)self->is_urgent << 6 | (uint64_t)self->is_rearmed << 5 |
                   (uint64_t)self->is_useful << 4 | (uint64_t)self->is_boundary << 3 |
                   (uint64_t)self->is_joining << 2 | (uint64_t)self->is_join_told << 1 |
                   self->is_joined);
    add(&hash, (uint64_t)self->frozen_count << 32 | self->generation);
    add(&hash, self->order);
    add(&hash, self->step);
    add(&hash, (uint64_t)self->active << 32 | self->first_joined);
    add_combine(&hash, self, &self->vectors[0]);
    add_combine(&hash, self, &self->vectors[1]);
    add_combine(&hash, self, &self->cut);
    add_cache(&hash, &self->cache);
    add_turn(&hash, self);
    add_entries(&hash, self);
    return hash;
}

uint64_t state_told(const test_world *world, uint32_t member)
{
    uint64_t hash = 1;
    for (uint32_t i = 0; i < world->members[member].event_count; i++) {
        const test_event *event = &world->members[member].events[i];
        add(&hash, (uint64_t)event->kind << 1 | event->has_ticket);
        add_bytes(&hash, event->name, strlen(event->name));
        add_bytes(&hash, event->claim, strlen(event->claim));
        add_bytes(&hash, event->text, strlen(event->text));
        add(&hash, (uint64_t)(int64_t)event->status << 32 | event->active);
        add(&hash, (uint64_t)event->generation << 32 | event->index);
        add(&hash, event->order);
        add(&hash, event->last);
    }
    return hash;
}

static uint64_t frame_hash(const test_frame *frame)
{
    uint64_t hash = (uint64_t)frame->from << 32 | frame->to;
    add(&hash, (uint64_t)frame->notice.kind << 8 | frame->notice.flags);
    add(&hash, frame->notice.part);
    add(&hash, frame->notice.round);
    add(&hash, frame->notice.digest);
    add_bytes(&hash, frame->payload, frame->notice.bytes);
    return hash;
}

uint64_t state_hash(const test_world *world, uint64_t *members)
{
    uint64_t hash = 1, frames = 0;
    for (uint32_t i = 0; i < world->size; i++) {
        if (members[i] == 0) {
            members[i] =
                tt_hash64_mix(member_hash(world->members[i].negotiator), state_told(world, i)) | 1;
        }
        add(&hash, members[i]);
    }
    for (uint32_t i = 0; i < world->frame_count; i++) {
        frames += frame_hash(&world->frames[i]); /* in no order */
    }
    add(&hash, frames);
    return hash;
}
