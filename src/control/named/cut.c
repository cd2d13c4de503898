/* SPDX-License-Identifier: Apache-2.0
 *
 * cut.c - see cut.h. */
#include "control/named/cut.h"

#include "base/assert.h"
#include "control/named/name.h"

void tt_cut_begin(tt_cut *cut, uint32_t wanted, uint32_t count, uint64_t bytes)
{
    const bool is_auto = wanted == UINT32_MAX;
    TT_ASSERT(wanted > 0);
    *cut = (tt_cut){.is_auto = is_auto, .wanted = is_auto ? TT_CUT_GROUPS : wanted, .left = count};
    cut->target = bytes / cut->wanted + 1;
}

/* Does a new group begin with this tensor? */
static bool is_cut(const tt_cut *cut, uint64_t bytes, uint32_t batch)
{
    if (cut->group_count == 0 || cut->open_count == GROUP_MEMBERS_MAX) {
        return true;
    }
    if (cut->is_auto) {
        const bool is_round = batch != cut->batch && cut->open_bytes >= cut->target / 2;
        return is_round || cut->open_bytes + bytes / 2 >= cut->target + cut->target / 2;
    }
    const bool is_full = cut->before + bytes / 2 >= cut->group_count * cut->target;
    return cut->group_count < cut->wanted &&
           (is_full || cut->left <= cut->wanted - cut->group_count);
}

uint32_t tt_cut_next(tt_cut *cut, uint64_t bytes, uint32_t batch)
{
    TT_ASSERT(cut->left > 0);
    if (is_cut(cut, bytes, batch)) {
        cut->group_count++;
        cut->open_bytes = cut->open_count = 0;
    }
    cut->batch = batch;
    cut->before += bytes;
    cut->open_bytes += bytes;
    cut->open_count++;
    cut->left--;
    TT_ASSERT(cut->group_count > 0 && cut->open_count <= GROUP_MEMBERS_MAX);
    return cut->group_count;
}
