/* SPDX-License-Identifier: Apache-2.0
 *
 * regrouped.c - planned tensors that peers have begun, and that are in another group on this rank.
 *
 * "In another group" includes a tensor submitted by itself. The negotiator finds the conflict when
 * the plan is cut (negotiate/parts.c). This rank refuses the planned exchange like invalid
 * arguments, so it fails on every rank that has begun it. The rest of this rank's own group is sent
 * with the objection BID_REGROUPED, and fails on all ranks, too. */
#include <string.h>

#include "base/base.h"
#include "control/named/batch.h"
#include "kernel/hash64.h"

static bool is_group(const tt_agreement *item)
{
    tt_part_name part;
    return tt_bid_part(NULL, item->claim, item->claim_bytes, 0, &part) > 0;
}

static void add_common(const tt_set *set, const tt_agreement *item, const tt_name *rival,
                       tt_text *text)
{
    TT_ASSERT(rival->set == set);
    if (!is_group(item)) {
        tt_text_add_quoted(text, item->name, item->name_bytes);
        return;
    }
    tt_part_name part;
    uint32_t place = 0;
    while ((place = tt_bid_part(NULL, item->claim, item->claim_bytes, place, &part)) > 0) {
        char name[TT_NAME_BYTES] = "";
        memcpy(name, part.name != NULL ? part.name : "", part.name_bytes);
        const tt_request *member = tt_group_member(set->control, set, name);
        if (strcmp(rival->name, name) == 0 || (member != NULL && member->named == rival)) {
            tt_text_add_quoted(text, name, sizeof(name));
            return;
        }
    }
    tt_text_add(text, "(of a large group)");
}

static bool has_part(const tt_agreement *item, const char *name)
{
    const uint64_t hash = tt_hash64(name, strlen(name), 0);
    tt_part_name part;
    uint32_t place = 0;
    while ((place = tt_bid_part(NULL, item->claim, item->claim_bytes, place, &part)) > 0) {
        if (part.hash == hash) {
            return true;
        }
    }
    return !is_group(item) && strcmp(item->name, name) == 0;
}

static void add_where(tt_text *text, bool is_grouped, const char *name)
{
    if (is_grouped) {
        tt_text_add(text, "in group ");
        tt_text_add_quoted(text, name, TT_NAME_BYTES);
    } else {
        tt_text_add(text, "by itself");
    }
}

void tt_regrouped_refuse(tt_control *control, tt_set *set, const tt_agreement *item)
{
    tt_name *rival = item->rival->owner;
    TT_ASSERT(rival->phase == NAME_WAITING && rival->member_count > 0);
    TT_ASSERT(item->ticket == NULL && item->rival == &rival->ticket);
    tt_text text = {0};
    TT_ASSERT(rival->set == set && set->control == control);
    tt_text_add(&text, "ranks disagree about the group of tensor ");
    add_common(set, item, rival, &text);
    tt_text_add(&text, ": rank %u: ", control->world.rank);
    add_where(&text, rival->member_max > 0, rival->name);
    tt_text_add(&text, "; ranks that began it as planned: ");
    add_where(&text, is_group(item), item->name);
    const tt_failure objection = {.status = TT_ERR_MISMATCH, .text = text.bytes};
    const tt_failure regrouped = {.status = BID_REGROUPED, .text = text.bytes};
    memcpy(rival->error, text.bytes, sizeof(rival->error));
    for (uint32_t i = 0; i < rival->member_count; i++) {
        rival->members[i]->is_regrouped |= has_part(item, rival->members[i]->name);
    }
    if (rival->member_max > 0) {
        tt_bid_make(control, rival, &regrouped);
    }
    tt_run_refuse(control, set, item, &objection);
}
