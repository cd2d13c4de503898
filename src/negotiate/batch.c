/* SPDX-License-Identifier: Apache-2.0
 *
 * batch.c - what is agreed in one go, told to the host in one call. */
#include "negotiate/internal.h"

tt_status tt_batch_add(tt_negotiator *self, const tt_agreement *item)
{
    if (self->item_count == self->item_capacity) {
        void *items = self->items;
        TT_TRY(tt_negotiator_grow(self, &items, &self->item_capacity, sizeof(tt_agreement),
                                  self->item_count + 1));
        self->items = items;
    }
    self->items[self->item_count++] = *item;
    return TT_OK;
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
