/* SPDX-License-Identifier: Apache-2.0
 *
 * keep_owner.c - planes of parts and options of updates at an owner; see keep.h. */
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/plant.h"
#include "sync/keep/keep.h"

_Static_assert(sizeof(tt_sync_kept_options) <= TT_SYNC_TEXT_BYTES, "fits one frame");
_Static_assert((int)TT_SYNC_CHANGES_MAX == (int)OWNER_SETS_MAX, "all of them");

static bool has_plane(const tt_owner_part *part, uint32_t plane)
{
    const tt_update *update = part->key->store->update.update;
    return !update->is_sum && plane <= update->state_count;
}

static uint8_t *plane_of(const tt_owner_part *part, uint32_t plane)
{
    TT_ASSERT(has_plane(part, plane));
    return plane == 0 ? part->values[part->current] : (uint8_t *)part->states[plane - 1];
}

/* ---- reads ---- */

void tt_keep_take_read(tt_sync *sync, uint32_t worker, const tt_head *head, tt_owner_part *part)
{
    tt_slot *slot = &part->slots[worker];
    const bool is_copy =
        TT_PLANT(READ_COPY_TAKEN) ? slot->is_read : head->descriptor <= slot->plane_asked;
    if (slot->is_read || is_copy || !has_plane(part, head->round)) {
        return; /* a second copy, or nonsense */
    }
    slot->is_read = true;
    slot->plane = head->round;
    slot->plane_asked = head->descriptor;
    tt_owner_due(sync, part);
}

void tt_keep_answer(tt_sync *sync, tt_owner_part *part, uint32_t worker)
{
    tt_slot *slot = &part->slots[worker];
    const uint32_t spare = 1 - part->current;
    const uint32_t version = slot->plane == 0 ? part->current : spare;
    const bool is_busy =
        slot->plane == 0 ? slot->is_lent[version] : part->lent[spare] > 0 || part->is_summing;
    if (!part->is_valid || is_busy) {
        return; /* the end of a send, or of the sum, serves the part again */
    }
    tt_head head = tt_owner_answer_head(part, TT_SYNC_VALUE, slot->plane_asked);
    head.argument = part->step;
    if (slot->plane > 0 && part->bytes > 0 && !TT_PLANT(STATE_NOT_KEPT)) {
        memcpy(part->values[spare], plane_of(part, slot->plane), part->bytes);
    }
    slot->is_read = false;
    tt_owner_send_version(sync, part, worker, head, version);
}

/* ---- fills ---- */

void tt_keep_filled(tt_sync *sync, tt_owner_part *part, uint32_t worker, const tt_head *head)
{
    TT_ASSERT(!part->is_valid);
    part->is_first_arriving = false;
    part->slots[worker].asked = part->slots[worker].plane_asked = head->descriptor;
    part->slots[worker].owes = true;
    if (head->round == 0) {
        part->is_valid = true;
        part->step = TT_PLANT(STEPS_NOT_KEPT) ? 0 : head->argument;
        for (uint32_t i = 0; i < sync->roles.workers; i++) {
            part->slots[i].read_step = part->step;
        }
    }
    tt_owner_due(sync, part);
}

void *tt_keep_take_fill(tt_sync *sync, uint32_t worker, const tt_head *head, tt_owner_part *part,
                        const void *payload)
{
    if (part->is_valid || part->is_first_arriving || !has_plane(part, head->round) ||
        head->descriptor <= part->slots[worker].plane_asked || head->payload_bytes != part->bytes) {
        return NULL; /* a second copy, or nonsense */
    }
    if (payload == NULL) {
        part->is_first_arriving = true;
        sync->arriving[worker].part = part;
        return plane_of(part, head->round);
    }
    if (part->bytes > 0) {
        memcpy(plane_of(part, head->round), payload, part->bytes);
    }
    tt_keep_filled(sync, part, worker, head);
    return NULL;
}

/* ---- options ---- */

void tt_keep_options_frame(tt_sync *sync, tt_owner_store *store, uint32_t worker,
                           const tt_head *head)
{
    tt_sync_kept_options kept = {.change_count = store->set.count};
    const tt_head reply = {
        .kind = TT_SYNC_OPTIONED, .set = store->id, .descriptor = head->descriptor};
    memcpy(kept.options, store->update.options, sizeof(kept.options));
    for (uint32_t i = 0; i < store->set.count; i++) {
        kept.changes[i].clock = (uint32_t)store->set.entries[i].clock;
        kept.changes[i].option = store->set.entries[i].option;
        kept.changes[i].value = store->set.entries[i].value;
    }
    if (!tt_sync_send_text(sync, worker, reply, &kept, sizeof(kept))) {
        tt_sync_signal(sync, worker, reply); /* no memory: the worker's call fails */
    }
}
