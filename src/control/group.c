/* SPDX-License-Identifier: Apache-2.0
 *
 * group.c - groups: several named requests that are one ticket.
 *
 * Members come one by one, in any order, and are kept in the order of their names, which is the
 * same on all ranks; when all have come they become one ticket. Nothing of a group moves before. An
 * error in one member is the group's. */
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "control/named.h"

static void refuse(tt_request *request, const tt_text *text)
{
    tt_request_refuse(request, TT_ERR_BAD_ARGUMENT, text->bytes);
}

static tt_named *group_begin(tt_control *control, tt_set *set, const tt_request *request)
{
    tt_named *named = tt_named_take(control, set, request->group);
    if (named == NULL) {
        return NULL;
    }
    tt_request **members =
        tt_platform_allocate(control->platform, request->group_size * sizeof(*named->members));
    if (members == NULL) {
        tt_named_refuse(control, named, TT_ERR_NO_MEMORY, "");
        return NULL;
    }
    const uint64_t patience =
        request->deadline_ns > 0 ? request->deadline_ns : control->config.deadline_ns;
    named->deadline_ns = patience > 0 ? named->submitted_ns + patience : UINT64_MAX;
    named->members = members;
    named->member_max = request->group_size;
    return named;
}

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

static void member_add(tt_named *named, tt_request *request)
{
    bool is_there;
    const uint32_t place = member_place(named, request->name, &is_there);
    tt_request **target = &named->members[place];
    TT_ASSERT(!is_there);
    memmove(target + 1, target, (named->member_count - place) * sizeof(*target));
    *target = request;
    named->member_count++;
}

void tt_group_submit(tt_control *control, tt_set *set, tt_request *request,
                     const tt_failure *objection)
{
    tt_text text = {0};
    tt_named *named = tt_named_find(control, set, request->group);
    if (request->name == NULL || request->group_size == 0 ||
        request->group_size > GROUP_MEMBERS_MAX) {
        tt_text_add(&text, "members of a group have names, and there are 1 to %d of them",
                    (int)GROUP_MEMBERS_MAX);
        refuse(request, &text);
        return;
    }
    const bool is_complete = named != NULL && named->member_count == named->member_max;
    if (named != NULL && (is_complete || named->member_max != request->group_size ||
                          has_member(named, request->name))) {
        tt_text_add(&text, "group ");
        tt_text_add_quoted(&text, request->group, TT_NAME_BYTES);
        tt_text_add(&text, is_complete ? " is submitted already and not over yet"
                           : named->member_max != request->group_size
                               ? " was begun with another number of members"
                               : " has this member already: ");
        if (!is_complete && named->member_max == request->group_size) {
            tt_text_add_quoted(&text, request->name, TT_NAME_BYTES);
        }
        refuse(request, &text);
        return;
    }
    if (named == NULL) {
        named = group_begin(control, set, request);
    }
    if (named == NULL) {
        tt_request_refuse(request, TT_ERR_NO_MEMORY, "out of memory for a group");
        return;
    }
    if (objection != NULL && named->objection == TT_OK) { /* kept until the group is complete */
        tt_text words = {0};
        tt_text_add(&words, "%s", objection->text);
        memcpy(named->error, words.bytes, sizeof(named->error));
        named->objection = objection->status;
    }
    request->named = named;
    member_add(named, request);
    if (named->member_count == named->member_max) {
        const tt_failure found = {.status = named->objection, .text = named->error};
        tt_named_offer(control, named, found.status < 0 ? &found : NULL);
    }
}
