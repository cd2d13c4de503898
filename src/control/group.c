/* SPDX-License-Identifier: Apache-2.0
 *
 * group.c - groups: several named requests that are one ticket.
 *
 * Members come one by one, in any order, and are kept in the order of their names, which is the
 * same on all ranks; when all have come they become one ticket. Nothing of a group moves before. An
 * error in one member is the group's.
 *
 * Of a group that the library made (layout.c) nobody has promised that all members come. A rank on
 * which they do not claims that it is dissolved; when all ranks have told their claims, these
 * differ, or all say so, and every rank submits its members one by one. So it does when the ticket
 * is cancelled, by a deadline or a call, or when a rank has joined that could not stand in. An
 * error that all ranks with a complete group are told is the group's, as always. A user's group
 * comes apart in the last case alone: where it has so many members that its claim is a digest. */
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/hash64.h"
#include "base/plant.h"
#include "control/named.h"

static void refuse(tt_request *request, const tt_text *text)
{
    tt_request_refuse(request, TT_ERR_BAD_ARGUMENT, text->bytes);
}

static tt_named *group_begin(tt_control *control, tt_set *set, const tt_membership *membership)
{
    tt_named *named = tt_named_take(control, set, membership->name);
    if (named == NULL) {
        return NULL;
    }
    tt_request **members =
        tt_platform_allocate(control->platform, membership->size * sizeof(*named->members));
    if (members == NULL) {
        tt_named_refuse(control, named, TT_ERR_NO_MEMORY, "");
        return NULL;
    }
    named->deadline_ns = UINT64_MAX;
    named->reported_ns = 0;
    named->members = members;
    named->member_max = membership->size;
    named->layout = membership->number;
    if (named->is_starved) {
        tt_text text = {0};
        tt_text_add(&text, "rank %u is out of memory for a group", control->world.rank);
        memcpy(named->error, text.bytes, sizeof(named->error));
        named->objection = TT_ERR_NO_MEMORY;
    }
    if (named->layout > 0) {
        tt_control_due(control, named->submitted_ns + tt_layout_patience(control, set));
    }
    return named;
}

/* ---- names that are taken by members ---- */

static tt_request **bucket_of(const tt_control *control, uint64_t hash)
{
    return &control->names->members[hash % NAME_BUCKETS];
}

static uint64_t hash_of(const tt_set *set, const char *name)
{
    return tt_hash64(name, strlen(name), set->id);
}

tt_request *tt_group_member(const tt_control *control, const tt_set *set, const char *name)
{
    const uint64_t hash = hash_of(set, name);
    tt_request *request = *bucket_of(control, hash);
    while (request != NULL && (request->name_hash != hash || request->named->set != set ||
                               strcmp(request->name, name) != 0)) {
        request = request->next_member;
    }
    return request;
}

static void member_enter(tt_control *control, tt_request *request)
{
    request->name_hash = hash_of(request->named->set, request->name);
    tt_request **bucket = bucket_of(control, request->name_hash);
    request->next_member = *bucket;
    *bucket = request;
}

void tt_group_leave(tt_control *control, tt_request *request)
{
    tt_request **link = bucket_of(control, request->name_hash);
    while (*link != request) {
        TT_ASSERT(*link != NULL);
        link = &(*link)->next_member;
    }
    *link = request->next_member;
}

void tt_group_replace(tt_control *control, tt_named *named, uint32_t place, tt_request *request)
{
    tt_request *replaced = named->members[place];
    request->named = named;
    request->is_taken_back = replaced->is_taken_back;
    named->members[place] = request;
    if (named->member_max > 0) {
        tt_group_leave(control, replaced);
        member_enter(control, request);
    }
}

/* ---- members ---- */

/* Where this name is among the members, or where it belongs: they are kept in order. */
static uint32_t member_place(const tt_named *named, const char *name, bool *is_there_out)
{
    uint32_t low = 0, high = named->member_count;
    *is_there_out = false;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const int side = strcmp(named->members[middle]->name, name);
        if (side == 0) {
            *is_there_out = true;
            return middle;
        }
        low = side < 0 ? middle + 1 : low;
        high = side < 0 ? high : middle;
    }
    return low;
}

static bool has_member(const tt_named *named, const char *name)
{
    bool is_there;
    (void)member_place(named, name, &is_there);
    return is_there;
}

static void member_insert(tt_named *named, tt_request *request)
{
    bool is_there;
    const uint32_t place = member_place(named, request->name, &is_there);
    tt_request **target = &named->members[place];
    TT_ASSERT(!is_there);
    memmove(target + 1, target, (named->member_count - place) * sizeof(*target));
    *target = request;
    named->member_count++;
}

/* Why the group cannot take this member. */
static void explain(const tt_named *named, const tt_request *request,
                    const tt_membership *membership, tt_text *text)
{
    if (named->layout > 0) {
        tt_text_add(text, "tensor ");
        tt_text_add_quoted(text, request->name, TT_NAME_BYTES);
        tt_text_add(text, " is submitted already and not over yet; wait for it, or give this one "
                          "another name");
        return;
    }
    tt_text_add(text, "group ");
    tt_text_add_quoted(text, membership->name, TT_NAME_BYTES);
    if (named->member_count == named->member_max) {
        tt_text_add(text, " is submitted already and not over yet");
    } else if (named->member_max != membership->size) {
        tt_text_add(text, " was begun with another number of members");
    } else {
        tt_text_add(text, " has this member already: ");
        tt_text_add_quoted(text, request->name, TT_NAME_BYTES);
    }
}

/* An objection is kept until the group is complete. */
static void member_add(tt_control *control, tt_named *named, tt_request *request,
                       const tt_failure *objection)
{
    named->deadline_ns = tt_min_u64(named->deadline_ns, tt_expire_due(control, request));
    if (objection != NULL && named->objection == TT_OK && !named->is_apart) {
        tt_text words = {0};
        tt_text_add(&words, "%s", objection->text);
        memcpy(named->error, words.bytes, sizeof(named->error));
        named->objection = objection->status;
    }
    request->named = named;
    request->is_taken_back = false;
    member_insert(named, request);
    member_enter(control, request);
}

void tt_group_submit(tt_control *control, tt_set *set, tt_request *request,
                     const tt_membership *membership, const tt_failure *objection)
{
    tt_text text = {0};
    tt_named *named = tt_named_find(control, set, membership->name);
    if (request->name == NULL || membership->size == 0 || membership->size > GROUP_MEMBERS_MAX) {
        tt_text_add(&text, "members of a group have names, and there are 1 to %d of them",
                    (int)GROUP_MEMBERS_MAX);
        refuse(request, &text);
        return;
    }
    if (named != NULL &&
        (named->member_count == named->member_max || named->member_max != membership->size ||
         named->layout != membership->number || has_member(named, request->name))) {
        if (named->layout == 0 && named->member_max == membership->size &&
            tt_named_wait_behind(control, named, request)) {
            return;
        }
        explain(named, request, membership, &text);
        refuse(request, &text);
        return;
    }
    if (named == NULL) {
        named = group_begin(control, set, membership);
    }
    if (named == NULL) {
        tt_named_refuse_starved(control, request);
        return;
    }
    member_add(control, named, request, objection);
    if (named->member_count == named->member_max && !named->is_apart) {
        const tt_failure found = {.status = named->objection, .text = named->error};
        tt_named_offer(control, named, found.status < 0 ? &found : NULL);
    }
}

/* It is no ticket yet: no other rank can ask about it. */
void tt_group_watch(tt_control *control, tt_named *named, uint64_t now_ns)
{
    enum { TOLD_MAX = 4 };
    const uint64_t since_ns = tt_max_u64(named->submitted_ns, named->reported_ns);
    if (named->member_count >= named->member_max || now_ns - since_ns < control->config.stall_ns) {
        return;
    }
    tt_text text = {0};
    named->reported_ns = now_ns;
    tt_text_add(&text, "group ");
    tt_text_add_quoted(&text, named->name, TT_NAME_BYTES);
    tt_text_add(&text, " has waited for %.1f s: rank %u has submitted %u of its %u members (",
                (double)(now_ns - named->submitted_ns) / 1e9, control->world.rank,
                named->member_count, named->member_max);
    for (uint32_t i = 0; i < named->member_count && i < TOLD_MAX; i++) {
        tt_text_add(&text, i == 0 ? "" : ", ");
        tt_text_add_quoted(&text, named->members[i]->name, TT_NAME_BYTES);
    }
    tt_text_add(&text, named->member_count > TOLD_MAX ? ", ...)" : ")");
    tt_control_report(control, LEVEL_WARN, &text);
}

/* ---- groups that nobody named ---- */

void tt_group_give_up(tt_control *control, tt_named *named)
{
    if (TT_PLANT(APART_HERE_ONLY)) {
        tt_group_come_apart(control, named);
        return;
    }
    static const tt_failure late = {.status = BID_APART, .text = "not all of a group came"};
    TT_ASSERT(named->layout > 0 && !named->is_apart && !named->is_waiting);
    named->is_apart = true;
    tt_named_offer(control, named, &late);
    tt_named_touch(control, named->set);
}

/* A rank that has joined stands in for sums, but cannot tell a digest's. */
bool tt_group_has_come_apart(const tt_named *named, tt_status status, bool is_explained)
{
    const bool is_recalled = status == TT_ERR_CANCELLED || status == TT_ERR_TIMED_OUT;
    if (named->set->shut != TT_OK) {
        return false;
    }
    if (status == TT_ERR_PEER_LEFT && !is_explained) {
        return named->layout > 0 || (named->member_max > 0 && named->is_vast);
    }
    return named->layout > 0 && (status == BID_APART || (is_recalled && !is_explained));
}

void tt_group_come_apart(tt_control *control, tt_named *named)
{
    if (named->layout > 0) {
        tt_layout_dissolve(named->set, named->layout);
    }
    named->is_waiting = false;
    named->is_apart = true;
    named->next_apart = control->names->apart;
    control->names->apart = named;
    tt_named_touch(control, named->set);
}

void tt_group_forget(tt_control *control, const tt_named *named)
{
    tt_named **link = &control->names->apart;
    while (*link != NULL && *link != named) {
        link = &(*link)->next_apart;
    }
    if (*link != NULL) {
        *link = named->next_apart;
    }
}

/* One of its requests, as it was submitted, but alone. */
static void submit_alone(tt_control *control, const tt_named *group, tt_request *request)
{
    char name[TT_NAME_BYTES]; /* the request may be over */
    const bool is_taken_back = request->is_taken_back;
    memcpy(name, request->name, strlen(request->name) + 1);
    request->is_apart = group->layout == 0;
    tt_request_submit_again(control, request);
    tt_named *named = tt_named_find(control, group->set, name);
    if (named != NULL && named->request == request && named->is_waiting) {
        named->submitted_ns = group->submitted_ns;
        named->expired_ns = named->deadline_ns <= group->expired_ns ? group->expired_ns : 0;
        if (is_taken_back) {
            (void)tt_named_cancel(control, request);
        }
    }
}

void tt_group_flush(tt_control *control)
{
    while (control->names != NULL && control->names->apart != NULL) {
        tt_named *named = control->names->apart;
        control->names->apart = named->next_apart;
        tt_named_stop_waiting(control, named);
        for (uint32_t i = 0; i < named->member_count; i++) {
            tt_group_leave(control, named->members[i]);
        }
        for (uint32_t i = 0; i < named->member_count; i++) {
            submit_alone(control, named, named->members[i]);
        }
        tt_named_release(control, named);
    }
}
