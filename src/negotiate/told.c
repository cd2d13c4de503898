/* SPDX-License-Identifier: Apache-2.0
 *
 * told.c - reports the agreements of one list to the host in one call.
 *
 * A few items are on the stack of the function that opened the list, which is in the processor's
 * cache; more are in memory that is kept. */
#include <string.h>

#include "base/assert.h"
#include "negotiate/internal.h"

void tt_told_open(tt_negotiator *self, tt_agreement *near)
{
    tt_told *batch = &self->batch;
    TT_ASSERT(batch->items == NULL);
    batch->items = near;
    batch->capacity = TT_TOLD_NEAR;
    batch->count = 0;
}

/* Move the items to the kept memory, after those already there. */
static tt_status move_far(tt_negotiator *self)
{
    tt_told *batch = &self->batch;
    const bool was_near = batch->items != batch->far;
    void *far = batch->far;
    TT_TRY(tt_negotiator_grow(self, &far, &batch->far_capacity, sizeof(tt_agreement),
                              batch->count + 1));
    batch->far = far;
    if (was_near) {
        memcpy(batch->far, batch->items, batch->count * sizeof(tt_agreement));
    }
    batch->items = batch->far;
    batch->capacity = batch->far_capacity;
    return TT_OK;
}

tt_agreement *tt_told_add(tt_negotiator *self)
{
    tt_told *batch = &self->batch;
    TT_ASSERT(batch->items != NULL);
    if (batch->count == batch->capacity && move_far(self) != TT_OK) {
        return NULL;
    }
    return &batch->items[batch->count++];
}

void tt_told_tell(tt_negotiator *self)
{
    tt_told *batch = &self->batch;
    const uint32_t count = batch->count;
    if (count == 0) {
        return;
    }
    batch->count = 0;
    self->is_useful = true;
    self->count.agreed += count;
    self->host.agreed(self->host.owner, batch->items, count);
}

/* Batches, and so the place of each item, depend on the whole list: a partial list cannot be
 * reported. */
static void fail_all(tt_negotiator *self, tt_status status)
{
    tt_told *batch = &self->batch;
    for (uint32_t i = 0; i < batch->count; i++) {
        if (batch->items[i].ticket != NULL) {
            self->count.failed++;
            self->host.failed(self->host.owner, batch->items[i].ticket, status,
                              tt_status_text(status));
        }
    }
    batch->count = 0;
}

void tt_told_close(tt_negotiator *self, tt_status status)
{
    if (status == TT_OK) {
        tt_told_tell(self);
    } else {
        fail_all(self, status);
    }
    self->batch.items = NULL;
    self->batch.capacity = 0;
}
