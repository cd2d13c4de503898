/* SPDX-License-Identifier: Apache-2.0
 *
 * record.c - records of named requests: found by name, kept for reuse, and one to spare.
 *
 * A call for which there is no memory must fail on all ranks, so one record is always kept back: it
 * takes the call's place and tells the peers. Where that is in use, or the negotiator has no
 * memory, no single call could be told of, and this rank gives up (tutti_abort does the same): all
 * its calls end with NO_MEMORY, its peers exclude it, and their errors give the reason.
 */
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/hash64.h"
#include "base/plant.h"
#include "control/named.h"
#include "control/quick.h"

static uint64_t hash_of(const tt_set *set, const char *name)
{
    return tt_hash64(name, strlen(name), set->id);
}

tt_named *tt_named_find(const tt_control *control, const tt_set *set, const char *name)
{
    const uint64_t hash = hash_of(set, name);
    tt_named *named = control->names->buckets[hash % NAME_BUCKETS];
    while (named != NULL &&
           ((TT_PLANT(NAME_FREE_TOO_EARLY) && !named->is_waiting) || named->hash != hash ||
            named->set != set || named->is_resting || strcmp(named->name, name) != 0)) {
        named = named->next;
    }
    return named;
}

static tt_named *named_make(tt_control *control)
{
    tt_named *named = tt_platform_allocate(control->platform, sizeof(*named));
    if (named != NULL) {
        named->bid = named->bid_short;
        named->bid_capacity = sizeof(named->bid_short);
    }
    return named;
}

bool tt_named_spare(tt_control *control)
{
    if (control->names->spare == NULL) {
        control->names->spare = named_make(control);
    }
    return control->names->spare != NULL;
}

#define STARVED "out of memory for named calls; raise its limit, or run fewer ranks on its host"

void tt_named_say_starved(const tt_control *control, tt_text *text)
{
    tt_text_add(text, "rank %u is " STARVED, control->world.rank);
}

void tt_named_starve(tt_control *control)
{
    if (control->is_starved) {
        return;
    }
    tt_text text = {0};
    tt_named_say_starved(control, &text);
    control->is_starved = control->is_starving = control->is_touched = true;
    for (tt_set *set = control->sets; set != NULL; set = set->next) {
        if (set->broken != TT_ERR_PEER_DOWN) {
            set->broken = TT_ERR_NO_MEMORY;
            memcpy(set->broken_text, text.bytes, sizeof(set->broken_text));
        }
    }
    if (!TT_PLANT(STARVED_IN_SILENCE)) {
        tt_control_give_up(control, STARVED);
    }
}

void tt_named_refuse_starved(tt_control *control, tt_request *request)
{
    tt_text text = {0};
    tt_named_say_starved(control, &text);
    tt_named_starve(control);
    tt_request_refuse(request, TT_ERR_NO_MEMORY, text.bytes);
}

void tt_named_end_starved(tt_control *control)
{
    tt_text text = {0};
    tt_named_say_starved(control, &text);
    control->is_starving = false;
    for (tt_set *set = control->sets; set != NULL; set = set->next) {
        tt_named_shut(control, set, TT_ERR_NO_MEMORY, text.bytes); /* unless it is shut */
    }
    for (uint32_t i = 0; i < control->op_count; i++) {
        tt_op_fail(control->ops[i], TT_ERR_NO_MEMORY, text.bytes);
    }
}

tt_named *tt_named_take(tt_control *control, tt_set *set, const char *name)
{
    tt_names *names = control->names;
    tt_named *named = names->free;
    bool is_starved = false;
    const size_t name_bytes = strlen(name);
    const uint64_t hash = tt_hash64(name, name_bytes, set->id);
    TT_ASSERT(name_bytes < sizeof(named->name));
    if (control->resting != NULL && control->resting->kept->hash == hash) {
        tt_quick_release(control); /* the name is taken again */
        named = names->free;
    }
    if (named != NULL) {
        names->free = named->next;
    } else {
        named = named_make(control);
        is_starved = named == NULL;
    }
    if (is_starved) {
        named = names->spare;
        names->spare = NULL;
    }
    if (named == NULL) {
        return NULL;
    }
    named->is_starved = is_starved;
    memcpy(named->name, name, name_bytes + 1);
    named->set = set;
    named->hash = hash;
    named->request = NULL;
    named->members = &named->request;
    named->member_count = named->member_max = named->open_count = 0;
    named->is_waiting = named->is_apart = named->is_resting = false;
    named->layout = 0;
    named->expired_ns = 0;
    named->status = named->objection = TT_OK;
    named->after = NULL;
    named->submitted_ns = tt_now(control->platform);
    named->ticket =
        (tt_ticket){.name = named->name, .name_bytes = (uint16_t)name_bytes, .owner = named};
    tt_named **bucket = &names->buckets[named->hash % NAME_BUCKETS];
    named->next = *bucket;
    *bucket = named;
    named->previous_waiting = NULL;
    named->next_waiting = names->waiting;
    if (names->waiting != NULL) {
        names->waiting->previous_waiting = named;
    }
    names->waiting = named;
    control->pending++;
    return named;
}

void tt_named_stop_waiting(tt_control *control, tt_named *named)
{
    tt_names *names = control->names;
    if (named->next_waiting != NULL) {
        named->next_waiting->previous_waiting = named->previous_waiting;
    }
    if (named->previous_waiting != NULL) {
        named->previous_waiting->next_waiting = named->next_waiting;
    } else {
        TT_ASSERT(names->waiting == named);
        names->waiting = named->next_waiting;
    }
    named->next_waiting = named->previous_waiting = NULL;
    named->is_waiting = false;
    control->pending--;
}

void tt_named_release(tt_control *control, tt_named *named)
{
    tt_named **link = &control->names->buckets[named->hash % NAME_BUCKETS];
    while (*link != named) {
        link = &(*link)->next;
    }
    *link = named->next;
    if (named->after != NULL) {
        tt_request **end = &named->after;
        while (*end != NULL) {
            end = &(*end)->next_later;
        }
        *end = control->names->later; /* what is left there was submitted after them */
        control->names->later = named->after;
        tt_named_touch(control, named->set); /* not from inside the negotiator */
    }
    if (named->members != &named->request) {
        tt_platform_release(control->platform, named->members,
                            named->member_max * sizeof(*named->members));
    }
    tt_named **list =
        control->names->spare == NULL ? &control->names->spare : &control->names->free;
    named->next = *list;
    *list = named;
}

bool tt_named_wait_behind(tt_control *control, tt_named *open, tt_request *request)
{
    const bool is_whole = open->member_count >= open->member_max;
    const tt_request *first = tt_group_member(control, open->set, request->name);
    if (first == NULL && open->layout == 0 && is_whole && open->member_count > 0) {
        first = open->members[0];
    }
    if (first == NULL || first->objection >= 0 || (!is_whole && !first->is_lost)) {
        return false;
    }
    tt_request **end = &open->after;
    while (*end != NULL) {
        if (!(*end)->is_lost && strcmp((*end)->name, request->name) == 0) {
            return false;
        }
        end = &(*end)->next_later;
    }
    *end = request;
    request->next_later = NULL;
    (void)tt_expire_due(control, request);
    control->pending++;
    return true;
}
