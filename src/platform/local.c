/* SPDX-License-Identifier: Apache-2.0
 *
 * local.c - memory and frames of ranks in one process; see local.h. */
#include "platform/local.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/base.h"

enum { ALIGNMENT = 64, POISON = 0xdb };

void *tt_local_take(size_t bytes)
{
    void *memory = calloc(1, bytes > 0 ? bytes : 1);
    TT_ASSERT(memory != NULL); /* a test driver cannot recover */
    return memory;
}

static void *take_aligned(size_t bytes)
{
    void *memory = aligned_alloc(ALIGNMENT, tt_round_up(bytes > 0 ? bytes : 1, ALIGNMENT));
    TT_ASSERT(memory != NULL);
    memset(memory, 0, bytes);
    return memory;
}

void tt_local_init(tt_local *local, tt_local_shortage *shortage)
{
    *local = (tt_local){.shortage = shortage};
}

static bool is_poisoned(const tt_local_region *region)
{
    return region->bytes == 0 ||
           (region->memory[0] == POISON && /* and each as the one before it */
            memcmp(region->memory, region->memory + 1, region->bytes - 1) == 0);
}

bool tt_local_fini(tt_local *local)
{
    bool is_intact = true;
    for (uint32_t i = 0; i < local->region_count; i++) {
        tt_local_region *region = &local->regions[i];
        is_intact = is_intact && (!region->is_released || is_poisoned(region));
        free(region->memory);
    }
    free(local->regions);
    local->regions = NULL;
    local->region_count = local->region_capacity = 0;
    return is_intact;
}

static void region_add(tt_local *local, void *memory, size_t bytes)
{
    if (local->region_count == local->region_capacity) {
        local->region_capacity = local->region_capacity > 0 ? 2 * local->region_capacity : 8;
        local->regions = realloc(local->regions, local->region_capacity * sizeof(*local->regions));
        TT_ASSERT(local->regions != NULL);
    }
    local->regions[local->region_count++] = (tt_local_region){.memory = memory, .bytes = bytes};
}

static bool is_short(const tt_local *local)
{
    tt_local_shortage *shortage = local->shortage;
    if (shortage->fail_at == 0 || shortage->is_over || shortage->attempts < shortage->fail_at) {
        return false;
    }
    if (shortage->attempts == shortage->fail_at) {
        shortage->starved = local;
        return true;
    }
    const bool has_further = shortage->starved == local && shortage->further > 0;
    shortage->further -= has_further ? 1 : 0;
    return shortage->is_lasting || has_further;
}

bool tt_local_admit(tt_local *local, size_t bytes)
{
    local->shortage->attempts++;
    if (is_short(local)) {
        local->starved_count++;
        return false;
    }
    local->live_count++;
    local->live_bytes += bytes;
    return true;
}

void tt_local_dismiss(tt_local *local, size_t bytes)
{
    TT_ASSERT(local->live_count > 0);
    TT_ASSERT(local->live_bytes >= bytes);
    local->live_count--;
    local->live_bytes -= bytes;
}

void *tt_local_allocate(tt_local *local, tt_memory_kind kind, size_t bytes)
{
    if (!tt_local_admit(local, bytes)) {
        return NULL;
    }
    void *memory = take_aligned(bytes);
    if (kind == TT_MEMORY_SHARED) {
        region_add(local, memory, bytes);
    }
    return memory;
}

static tt_local_region *region_of(const tt_local *local, const void *memory, size_t bytes)
{
    const uintptr_t first = (uintptr_t)memory;
    for (uint32_t i = 0; i < local->region_count; i++) {
        tt_local_region *region = &local->regions[i];
        const uintptr_t start = (uintptr_t)region->memory;
        if (first >= start && first - start <= region->bytes &&
            bytes <= region->bytes - (first - start)) {
            return region;
        }
    }
    return NULL;
}

void tt_local_release(tt_local *local, tt_memory_kind kind, void *memory, size_t bytes)
{
    tt_local_dismiss(local, bytes);
    if (kind == TT_MEMORY_PRIVATE) {
        free(memory);
        return;
    }
    tt_local_region *region = region_of(local, memory, bytes);
    TT_ASSERT(region != NULL);
    TT_ASSERT(region->memory == memory && region->bytes == bytes && !region->is_released);
    region->is_released = true;
    memset(memory, POISON, bytes);
}

void *tt_local_view(const tt_local *local, tt_place place, size_t bytes)
{
    if (place.region >= local->region_count) {
        return NULL;
    }
    const tt_local_region *region = &local->regions[place.region];
    if (place.offset > region->bytes || bytes > region->bytes - place.offset) {
        return NULL;
    }
    return region->memory + place.offset;
}

bool tt_local_locate(const tt_local *local, const void *memory, size_t bytes, tt_place *place_out)
{
    const tt_local_region *region = region_of(local, memory, bytes);
    if (region == NULL || region->is_released) {
        return false;
    }
    *place_out = (tt_place){.region = (uint32_t)(region - local->regions),
                            .offset = (uintptr_t)memory - (uintptr_t)region->memory};
    return true;
}

/* ---- parcels ---- */

TT_INLINE void own(tt_parcel *parcel)
{
    if (!parcel->is_borrowed) {
        return;
    }
    parcel->is_borrowed = false;
    if (parcel->is_phantom) {
        return;
    }
    void *copy = tt_local_take(parcel->head.payload_bytes);
    if (parcel->head.payload_bytes > 0) {
        memcpy(copy, parcel->send.payload, parcel->head.payload_bytes);
    }
    parcel->send.payload = copy;
}

tt_parcel *tt_parcel_make(const tt_platform *platform, uint32_t from, const tt_send *send,
                          bool is_borrowed)
{
    tt_parcel *parcel = tt_local_take(sizeof(*parcel));
    TT_ASSERT(send->head->payload_bytes <= TT_PAYLOAD_BYTES_MAX);
    parcel->send = *send;
    parcel->head = *send->head;
    parcel->send.head = &parcel->head;
    parcel->from = from;
    parcel->is_borrowed = true;
    parcel->is_phantom = tt_is_phantom(platform, send->payload);
    if (!is_borrowed) {
        own(parcel);
    }
    return parcel;
}

void tt_parcel_own(tt_parcel *parcel)
{
    own(parcel);
}

void tt_parcel_release(tt_parcel *parcel)
{
    if (!parcel->is_borrowed && !parcel->is_phantom) {
        free((void *)(uintptr_t)parcel->send.payload);
    }
    free(parcel);
}

/* Store the first bytes of the payload, unless it or its place is phantom. */
static void store(const tt_parcel *parcel, const tt_platform *platform, size_t bytes)
{
    TT_ASSERT(bytes <= parcel->head.payload_bytes);
    if (!tt_has_phantom(platform, parcel->sink, parcel->send.payload)) {
        memcpy(parcel->sink, parcel->send.payload, bytes);
    }
}

bool tt_parcel_announce(tt_parcel *parcel, const tt_platform *platform, const tt_machine *machine)
{
    const uint32_t bytes = parcel->head.payload_bytes;
    const tt_head head = parcel->head; /* the machine may not change what is on the wire */
    parcel->is_announced = true;
    if (bytes > TT_INLINE_BYTES_MAX) {
        parcel->sink = machine->ops->frame(machine->self, parcel->from, &head, NULL);
        if (parcel->sink != NULL) { /* some bytes arrive at once, the rest later */
            store(parcel, platform, bytes / 2);
        }
        return parcel->sink != NULL;
    }
    if (parcel->is_phantom) {
        (void)machine->ops->frame(machine->self, parcel->from, &head, parcel->send.payload);
        return false;
    }
    /* An unaligned copy, whose end a sanitizer watches. */
    uint8_t *lying = tt_local_take((size_t)bytes + 1);
    if (bytes > 0) {
        memcpy(lying + 1, parcel->send.payload, bytes);
    }
    (void)machine->ops->frame(machine->self, parcel->from, &head, lying + 1);
    free(lying);
    return false;
}

void tt_parcel_complete(tt_parcel *parcel, const tt_platform *platform, const tt_machine *machine)
{
    if (parcel->is_discarded || parcel->sink == NULL) {
        return;
    }
    store(parcel, platform, parcel->head.payload_bytes);
    const tt_head head = parcel->head;
    machine->ops->payload(machine->self, parcel->from, &head);
}
