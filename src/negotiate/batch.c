/* SPDX-License-Identifier: Apache-2.0
 *
 * batch.c - what is agreed in one go, told to the host in one call. */
#include "negotiate/internal.h"

tt_status tt_batch_add(tt_negotiator *self, const tt_agreement *item)
{
    void *items = self->items;
    const tt_status status = tt_negotiator_grow(self, &items, &self->item_capacity,
                                                sizeof(tt_agreement), self->item_count + 1);
    self->items = items;
    if (status == TT_OK) {
        self->items[self->item_count++] = *item;
    }
    return status;
}

void tt_batch_tell(tt_negotiator *self)
{
    const uint32_t count = self->item_count;
    if (count == 0) {
        return;
    }
    self->item_count = 0;
    self->is_useful = true;
    self->count.agreed += count;
    self->host.agreed(self->host.owner, self->items, count);
}
