/* SPDX-License-Identifier: Apache-2.0
 *
 * registry.c - the table of models of a fabric. */
#include "sim/registry.h"

#include <string.h>

#include "base/assert.h"
#include "base/base.h"

static const tt_fabric_ops *const models[] = {
    &tt_fabric_ports,
    &tt_fabric_memory,
    &tt_fabric_tree,
};

const tt_fabric_ops *tt_fabric_at(size_t index)
{
    return index < TT_ARRAY_COUNT(models) ? models[index] : NULL;
}

const tt_fabric_ops *tt_fabric_find(const char *name)
{
    for (size_t i = 0; i < TT_ARRAY_COUNT(models); i++) {
        TT_ASSERT(models[i]->send != NULL);
        TT_ASSERT(models[i]->pass != NULL);
        if (strcmp(models[i]->name, name) == 0) {
            return models[i];
        }
    }
    return NULL;
}
