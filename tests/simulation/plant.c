/* SPDX-License-Identifier: Apache-2.0
 *
 * plant.c - selects the active planted bug; see base/plant.h. */
#include "base/plant.h"

#include <string.h>

#ifdef TUTTI_PLANTED_BUGS

static int chosen = -1;

bool tt_planted(tt_plant_id id)
{
    return (int)id == chosen;
}

bool tt_plant_choose(const char *name)
{
    static const char *const names[] = {
#define X(name) #name,
        TT_PLANT_MAP(X)
#undef X
    };
    for (int i = 0; i < TT_PLANT_COUNT; i++) {
        if (strcmp(names[i], name) == 0) {
            chosen = i;
            return true;
        }
    }
    return false;
}

#endif
