/* SPDX-License-Identifier: Apache-2.0
 *
 * group.c - groups: several named requests that are one ticket.
 *
 * Members are submitted one by one, in any order, and kept in the order of their names, which is
 * the same on all ranks; when all are submitted they become one ticket. No data of a group moves
 * before. An error in one member fails the group.
 *
 * A group that the library made (layout.c) may stay incomplete. A rank on which it does claims that
 * it is dissolved; when all ranks have sent their claims, these differ, or all are so, and every
 * rank submits its members one by one. The same happens when the ticket is cancelled, by a deadline
 * or a call, or when a rank has joined that cannot stand in. Any other error reported to all ranks
 * with a complete group fails the group, as always. A user's group is dissolved only in the last
 * case: when it has so many members that its claim is a digest. */
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/plant.h"
#include "control/named/name.h"

static void refuse(tt_request *request, const tt_text *text)
{
    tt_request_refuse(request, TT_ERR_BAD_ARGUMENT, text->bytes);
}

static void object_starved(const tt_control *control, tt_name *group)
{
    TT_ASSERT(group->kind == NAME_GROUP);
    tt_text text = {0};
    tt_text_add(&text, "rank %u is out of memory for a group", control->world.rank);
    tt_name_object(group, TT_ERR_NO_MEMORY, text.bytes);
}

/* The list of an earlier group of the name is reused if it is long enough. */
static bool members_reserve(tt_control *control, tt_name *group, uint32_t size)
{
    TT_ASSERT(group->kind == NAME_GROUP && group->member_count == 0);
    if (size <= group->member_room) {
        return true;
    }
    tt_request **members = tt_platform_allocate(control->platform, size * sizeof(*members));
    if (members == NULL) {
        return false;
    }
    if (group->members != &group->request) {
        tt_platform_release(control->platform, group->members,
                            group->member_room * sizeof(*members));
    }
    group->members = members;
    group->member_room = size;
    return true;
}

static tt_name *group_begin(tt_control *control, tt_set *set, const tt_membership *membership)
{
    TT_ASSERT(membership->size > 0 && membership->size <= GROUP_MEMBERS_MAX);
    tt_name *group = tt_name_open(control, set, membership->name, NAME_GROUP);
    if (group == NULL) {
        return NULL;
    }
    if (!members_reserve(control, group, membership->size)) {
        tt_name_refuse(control, group, TT_ERR_NO_MEMORY, "");
        return NULL;
    }
    group->deadline_ns = UINT64_MAX;
    group->reported_ns = 0;
    group->member_max = membership->size;
    group->layout = membership->number;
    group->policy = group->layout > 0 ? POLICY_LIBRARY : POLICY_GROUP;
    if (group->is_starved) {
        object_starved(control, group);
    }
    if (group->policy == POLICY_LIBRARY) {
        tt_control_due(control, group->submitted_ns + tt_layout_patience(control, set));
    }
    return group;
}

/* ---- names that members use ---- */

tt_request *tt_group_member(const tt_control *control, const tt_set *set, const char *text)
{
    const tt_name *name = tt_name_find(control, set, text, NAME_TENSOR);
    return name != NULL && name->phase == NAME_MEMBER ? name->request : NULL;
}

/* The record of the tensor that this request of an open group is for. */
static tt_name *record_of(const tt_name *group, const tt_request *request)
{
    tt_name *name = request->name_hint;
    TT_ASSERT(name->stamp == request->name_stamp && name->phase == NAME_MEMBER);
    TT_ASSERT(name->group == group && name->request == request);
    return name;
}

void tt_group_empty(tt_control *control, tt_name *group)
{
    TT_ASSERT(group->kind == NAME_GROUP);
    for (uint32_t i = 0; i < group->member_count; i++) {
        tt_name_close(control, record_of(group, group->members[i]));
    }
}

void tt_group_replace(tt_name *name, uint32_t place, tt_request *request)
{
    TT_ASSERT(place < name->member_count && request->is_lost);
    tt_request *replaced = name->members[place];
    TT_ASSERT(replaced->named == name && !replaced->is_lost);
    request->named = name;
    request->is_taken_back = replaced->is_taken_back;
    request->name_hint = replaced->name_hint;
    request->name_stamp = replaced->name_stamp;
    if (name->kind == NAME_GROUP) {
        record_of(name, replaced)->request = request;
    }
    name->members[place] = request;
}

/* ---- members ---- */

/* The index of this name among the members, or where to insert it: they are kept in order. */
static uint32_t member_place(const tt_name *group, const char *name, bool *is_there_out)
{
    TT_DEBUG_ASSERT(group->member_count <= group->member_room);
    uint32_t low = 0, high = group->member_count;
    *is_there_out = false;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const int side = strcmp(group->members[middle]->name, name);
        if (side == 0) {
            *is_there_out = true;
            return middle;
        }
        low = side < 0 ? middle + 1 : low;
        high = side < 0 ? high : middle;
    }
    return low;
}

static bool has_member(const tt_name *group, const char *name)
{
    bool is_there;
    (void)member_place(group, name, &is_there);
    return is_there;
}

static void member_insert(tt_name *group, tt_request *request)
{
    bool is_there;
    const uint32_t place = member_place(group, request->name, &is_there);
    tt_request **target = &group->members[place];
    TT_ASSERT(!is_there);
    TT_ASSERT(group->member_count < group->member_max && place <= group->member_count);
    memmove(target + 1, target, (group->member_count - place) * sizeof(*target));
    *target = request;
    group->member_count++;
}

/* Why the group cannot have this member. */
static void explain(const tt_name *group, const tt_request *request,
                    const tt_membership *membership, tt_text *text)
{
    if (group->layout > 0) {
        tt_text_add(text, "tensor ");
        tt_text_add_quoted(text, request->name, TT_NAME_BYTES);
        tt_text_add(text, " is submitted already and not over yet; wait for it, or give this one "
                          "another name");
        return;
    }
    tt_text_add(text, "group ");
    tt_text_add_quoted(text, membership->name, TT_NAME_BYTES);
    if (group->member_count == group->member_max) {
        tt_text_add(text, " is submitted already and not over yet");
    } else if (group->member_max != membership->size) {
        tt_text_add(text, " was begun with another number of members");
    } else {
        tt_text_add(text, " has this member already: ");
        tt_text_add_quoted(text, request->name, TT_NAME_BYTES);
    }
}

/* An objection is kept until the group is complete. */
static void member_add(tt_control *control, tt_name *group, tt_request *request,
                       const tt_failure *objection)
{
    TT_ASSERT(group->phase == NAME_GATHERING || group->is_apart);
    const uint64_t due_ns = tt_expire_due(control, request, tt_now(control->platform));
    group->deadline_ns = tt_min_u64(group->deadline_ns, due_ns);
    if (objection != NULL && group->objection == TT_OK && !group->is_apart) {
        tt_name_object(group, objection->status, objection->text);
    }
    request->named = group;
    request->is_taken_back = false;
    member_insert(group, request);
}

/* The ticket that uses the group's name: its own, or a tensor's. */
static tt_name *open_ticket(const tt_control *control, const tt_set *set, const char *text)
{
    tt_name *group = tt_name_find(control, set, text, NAME_GROUP);
    if (group != NULL && group->phase != NAME_IDLE) {
        return group;
    }
    tt_name *tensor = tt_name_find(control, set, text, NAME_TENSOR);
    return tensor != NULL && tensor->phase != NAME_IDLE && tensor->phase != NAME_MEMBER ? tensor
                                                                                        : NULL;
}

void tt_group_submit(tt_control *control, tt_set *set, tt_request *request,
                     const tt_membership *membership, const tt_failure *objection)
{
    tt_text text = {0};
    tt_name *group = open_ticket(control, set, membership->name);
    if (request->name == NULL || membership->size == 0 || membership->size > GROUP_MEMBERS_MAX) {
        tt_text_add(&text, "members of a group need names, and a group has 1 to %d members",
                    (int)GROUP_MEMBERS_MAX);
        refuse(request, &text);
        return;
    }
    if (group != NULL &&
        (group->member_count == group->member_max || group->member_max != membership->size ||
         group->layout != membership->number || has_member(group, request->name))) {
        if (group->layout == 0 && group->member_max == membership->size &&
            tt_name_wait_behind(control, group, request)) {
            return;
        }
        explain(group, request, membership, &text);
        refuse(request, &text);
        return;
    }
    if (group == NULL) {
        group = group_begin(control, set, membership);
    }
    TT_ASSERT(group == NULL || group->kind == NAME_GROUP);
    const tt_name *member = group != NULL ? tt_name_open_member(control, group, request) : NULL;
    if (member == NULL) {
        tt_name_refuse_starved(control, request);
        return;
    }
    if (member->is_starved && group->objection == TT_OK) {
        object_starved(control, group);
    }
    member_add(control, group, request, objection);
    if (group->member_count == group->member_max && !group->is_apart) {
        const tt_failure found = {.status = group->objection, .text = group->error};
        tt_name_offer(control, group, found.status < 0 ? &found : NULL);
    }
}

/* The group is no ticket yet: no other rank can report it. */
void tt_group_watch(tt_control *control, tt_name *group, uint64_t now_ns)
{
    enum { TOLD_MAX = 4 };
    const uint64_t since_ns = tt_max_u64(group->submitted_ns, group->reported_ns);
    if (group->member_count >= group->member_max || now_ns - since_ns < control->config.stall_ns) {
        return;
    }
    TT_ASSERT(group->kind == NAME_GROUP && group->phase != NAME_RUNNING);
    tt_text text = {0};
    group->reported_ns = now_ns;
    tt_text_add(&text, "group ");
    tt_text_add_quoted(&text, group->name, TT_NAME_BYTES);
    tt_text_add(&text, " has waited for %.1f s: rank %u has submitted %u of its %u members (",
                (double)(now_ns - group->submitted_ns) / 1e9, control->world.rank,
                group->member_count, group->member_max);
    for (uint32_t i = 0; i < group->member_count && i < TOLD_MAX; i++) {
        tt_text_add(&text, i == 0 ? "" : ", ");
        tt_text_add_quoted(&text, group->members[i]->name, TT_NAME_BYTES);
    }
    tt_text_add(&text, group->member_count > TOLD_MAX ? ", ...)" : ")");
    tt_control_report(control, LEVEL_WARN, &text);
}

/* ---- groups that the library made ---- */

void tt_group_give_up(tt_control *control, tt_name *group)
{
    if (TT_PLANT(APART_HERE_ONLY)) {
        tt_group_come_apart(control, group);
        return;
    }
    static const tt_failure late = {.status = BID_APART, .text = "a group stayed incomplete"};
    TT_ASSERT(tt_policies[group->policy].then == THEN_DISSOLVED && !group->is_apart &&
              group->phase == NAME_GATHERING);
    group->is_apart = true;
    tt_name_offer(control, group, &late);
    tt_host_touch(control, group->set);
}

/* A joined rank stands in for sums, but cannot resolve a digest. */
bool tt_group_has_come_apart(const tt_name *group, tt_status status, bool is_explained)
{
    const bool is_recalled = status == TT_ERR_CANCELLED || status == TT_ERR_TIMED_OUT;
    if (group->set->shut != TT_OK) {
        return false;
    }
    if (status == TT_ERR_PEER_LEFT && !is_explained) {
        return group->policy == POLICY_LIBRARY || (group->member_max > 0 && group->is_vast);
    }
    return group->policy == POLICY_LIBRARY &&
           (status == BID_APART || (is_recalled && !is_explained));
}

void tt_group_come_apart(tt_control *control, tt_name *group)
{
    TT_ASSERT(group->kind == NAME_GROUP && group->open_count == 0);
    if (group->layout > 0) {
        tt_layout_dissolve(group->set, group->layout);
    }
    tt_name_set_phase(group, NAME_APART);
    group->is_apart = true;
    group->next_apart = control->names->apart;
    control->names->apart = group;
    tt_host_touch(control, group->set);
}

void tt_group_forget(tt_control *control, const tt_name *group)
{
    tt_name **link = &control->names->apart;
    while (*link != NULL && *link != group) {
        link = &(*link)->next_apart;
    }
    if (*link != NULL) {
        *link = group->next_apart;
    }
}

/* Submit one of its requests again, without the group. */
static void submit_alone(tt_control *control, const tt_name *group, tt_request *request)
{
    TT_ASSERT(group->phase == NAME_RUNNING && request->named == group);
    char text[TT_NAME_BYTES]; /* the request may be over */
    const bool is_taken_back = request->is_taken_back;
    memcpy(text, request->name, strlen(request->name) + 1);
    request->is_apart = group->layout == 0;
    tt_request_submit_again(control, request);
    tt_name *name = tt_name_find(control, group->set, text, NAME_TENSOR);
    if (name != NULL && name->phase == NAME_WAITING && name->request == request) {
        name->submitted_ns = group->submitted_ns;
        name->expired_ns = name->deadline_ns <= group->expired_ns ? group->expired_ns : 0;
        if (is_taken_back) {
            (void)tt_name_cancel(control, request);
        }
    }
}

void tt_group_flush(tt_control *control)
{
    while (control->names != NULL && control->names->apart != NULL) {
        tt_name *group = control->names->apart;
        TT_ASSERT(group->phase == NAME_APART && group->is_apart);
        control->names->apart = group->next_apart;
        tt_name_stop_waiting(control, group);
        tt_group_empty(control, group);
        for (uint32_t i = 0; i < group->member_count; i++) {
            submit_alone(control, group, group->members[i]);
        }
        tt_name_close(control, group);
    }
}
