/* SPDX-License-Identifier: Apache-2.0
 *
 * layout.c - groups that the library makes of the sums it saw in the first steps.
 *
 * All ranks see the same tensors agreed in the same order with the same sizes, so all make the same
 * groups of them, at the same place of that order and without a message. A step ends in it when a
 * tensor repeats. When all tensors of a step were in the one before, too, they are divided, in the
 * order in which they became ready, into as many groups of equal bytes as the user requested; or,
 * if the library chooses, preferably where a round of agreement ended: tensors agreed in one round
 * were ready at the same time, so they do not wait for each other.
 *
 *  (1) The groups are made at the end of the list of agreements in which step s began. Each of
 * their tensors is still submitted alone in steps s and s + 1, and in its group from s + 2 on. A
 *      rank can compute how many of its submissions that leaves: two, less one that was agreed in
 *      this list, less one that waits, plus those that ended on other ranks before this rank
 *      submitted them (debts). So the n-th submission of a tensor is treated alike on every rank,
 *      however far ahead a rank is.
 *  (2) A group's ticket is one occurrence of each of its members.
 *  (3) A group may stay incomplete. A rank on which members are missing, a deadline and a cancelled
 *      call dissolve the group (group.c), before any of its data has moved; that occurrence of its
 *      members then runs alone on every rank, and so do all later ones.
 *  (4) Such groups are not planned, and neither are their members: a planned exchange that a peer
 *      has begun cannot be undone. Nothing is planned while steps are observed, so that (1)
 *      holds.
 *  (5) When all ranks have joined, none has a ticket: all forget their groups and observe again.
 */
#include "control/named/layout.h"

#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/plant.h"
#include "control/named/cut.h"
#include "control/named/name.h"
#include "kernel/hash64.h"

enum { STEPS_MAX = 64, INDEX_MIN = 64, PATIENT_STEPS = 2 };

/* A tensor that was agreed while steps were observed. */
typedef struct layout_name {
    uint64_t hash;
    char *name;
    uint16_t name_bytes;
    bool is_dissolved;
    uint32_t step, earlier; /* the last two steps it was in, from 1 */
    uint32_t batch;         /* in which it was agreed last */
    uint64_t bytes;
    uint32_t group, group_size; /* group from 1; 0: in none */
    uint32_t alone;             /* submissions that are still made alone */
} layout_name;

typedef enum layout_phase { LAYOUT_OFF, LAYOUT_WATCHING, LAYOUT_IN_USE } layout_phase;

struct tt_layout {
    layout_phase phase;
    uint32_t turn; /* how often groups were made */
    uint32_t step, batch;
    uint64_t step_began_ns, step_ns; /* on this rank; the longest of them */
    layout_name *names;              /* [capacity] */
    uint32_t *order;                 /* [capacity] of the step that runs, as agreed */
    uint32_t *index;                 /* [2 * capacity] of names, + 1, by hash */
    uint32_t name_count, order_count, capacity;
    uint32_t group_count;
};

/* Groups are made of the observed steps; observation may restart at any time. */
static void layout_set_phase(tt_layout *layout, layout_phase phase)
{
    TT_ASSERT(phase == LAYOUT_WATCHING || layout->phase == LAYOUT_WATCHING);
    layout->phase = phase;
}

/* ---- names ---- */

static uint32_t index_place(const tt_layout *layout, uint64_t hash, const char *name)
{
    TT_DEBUG_ASSERT(layout->name_count <= layout->capacity); /* so the index has a free place */
    TT_DEBUG_ASSERT((layout->capacity & (layout->capacity - 1)) == 0);
    const uint32_t mask = 2 * layout->capacity - 1;
    uint32_t at = (uint32_t)hash & mask;
    while (layout->index[at] != 0) {
        const layout_name *found = &layout->names[layout->index[at] - 1];
        if (found->hash == hash && strcmp(found->name, name) == 0) {
            break;
        }
        at = (at + 1) & mask;
    }
    return at;
}

static layout_name *name_find(const tt_layout *layout, const char *name)
{
    if (layout->capacity == 0) {
        return NULL;
    }
    const uint32_t at = index_place(layout, tt_hash64(name, strlen(name), 0), name);
    return layout->index[at] == 0 ? NULL : &layout->names[layout->index[at] - 1];
}

static void tables_release(tt_platform *platform, const tt_layout *layout)
{
    tt_platform_release(platform, layout->names, layout->capacity * sizeof(*layout->names));
    tt_platform_release(platform, layout->order, layout->capacity * sizeof(*layout->order));
    tt_platform_release(platform, layout->index, 2 * layout->capacity * sizeof(*layout->index));
}

/* Reserve one more record. */
static bool names_reserve(tt_platform *platform, tt_layout *layout)
{
    if (layout->name_count < layout->capacity) {
        return true;
    }
    tt_layout larger = *layout;
    TT_ASSERT(layout->order_count <= layout->name_count);
    larger.capacity = layout->capacity == 0 ? INDEX_MIN : 2 * layout->capacity;
    larger.names = tt_platform_allocate(platform, larger.capacity * sizeof(*larger.names));
    larger.order = tt_platform_allocate(platform, larger.capacity * sizeof(*larger.order));
    larger.index = tt_platform_allocate(platform, 2 * larger.capacity * sizeof(*larger.index));
    if (larger.names == NULL || larger.order == NULL || larger.index == NULL) {
        tables_release(platform, &larger);
        return false;
    }
    if (layout->name_count > 0) {
        memcpy(larger.names, layout->names, layout->name_count * sizeof(*larger.names));
        memcpy(larger.order, layout->order, layout->order_count * sizeof(*larger.order));
    }
    tables_release(platform, layout);
    *layout = larger;
    TT_ASSERT(layout->name_count < layout->capacity);
    for (uint32_t i = 0; i < layout->name_count; i++) {
        const layout_name *name = &layout->names[i];
        layout->index[index_place(layout, name->hash, name->name)] = i + 1;
    }
    return true;
}

static layout_name *name_add(tt_platform *platform, tt_layout *layout, const tt_agreement *item)
{
    TT_ASSERT(layout->phase == LAYOUT_WATCHING);
    if (!names_reserve(platform, layout)) {
        return NULL;
    }
    char *name = tt_platform_allocate(platform, (size_t)item->name_bytes + 1);
    if (name == NULL) {
        return NULL;
    }
    memcpy(name, item->name, item->name_bytes);
    layout_name *added = &layout->names[layout->name_count];
    *added = (layout_name){
        .hash = tt_hash64(name, item->name_bytes, 0), .name = name, .name_bytes = item->name_bytes};
    layout->index[index_place(layout, added->hash, name)] = ++layout->name_count;
    TT_ASSERT(layout->name_count <= layout->capacity);
    return added;
}

static void names_clear(tt_platform *platform, tt_layout *layout)
{
    TT_ASSERT(layout->name_count <= layout->capacity && layout->order_count <= layout->name_count);
    for (uint32_t i = 0; i < layout->name_count; i++) {
        const layout_name *name = &layout->names[i];
        tt_platform_release(platform, name->name, (size_t)name->name_bytes + 1);
    }
    if (layout->capacity > 0) {
        memset(layout->index, 0, 2 * layout->capacity * sizeof(*layout->index));
    }
    layout->name_count = layout->order_count = 0;
}

tt_status tt_layout_begin(tt_control *control, tt_set *set)
{
    if (control->config.groups == 0 || set->size == 1) {
        return TT_OK;
    }
    if (set->layout == NULL) {
        set->layout = tt_platform_allocate(control->platform, sizeof(*set->layout));
    }
    if (set->layout == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    tt_layout *layout = set->layout;
    names_clear(control->platform, layout);
    layout_set_phase(layout, LAYOUT_WATCHING);
    layout->turn++;
    layout->step = 1;
    layout->batch = 0;
    layout->group_count = 0;
    layout->step_ns = 0;
    layout->step_began_ns = tt_now(control->platform);
    return TT_OK;
}

void tt_layout_release(tt_control *control, tt_set *set)
{
    if (set->layout == NULL) {
        return;
    }
    names_clear(control->platform, set->layout);
    tables_release(control->platform, set->layout);
    tt_platform_release(control->platform, set->layout, sizeof(*set->layout));
    set->layout = NULL;
}

/* ---- making groups ---- */

static void make_groups(tt_layout *layout, uint32_t wanted)
{
    TT_ASSERT(layout->phase == LAYOUT_WATCHING && layout->order_count > 1);
    tt_cut cut;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < layout->order_count; i++) {
        bytes += layout->names[layout->order[i]].bytes;
    }
    tt_cut_begin(&cut, wanted, layout->order_count, bytes);
    for (uint32_t i = 0; i < layout->order_count; i++) {
        layout_name *name = &layout->names[layout->order[i]];
        name->group = tt_cut_next(&cut, name->bytes, name->batch);
    }
    layout->group_count = cut.group_count;
    TT_ASSERT(layout->group_count <= layout->order_count);
    TT_ASSERT(cut.left == 0 && cut.group_count > 0);
    for (uint32_t first = 0, i = 0; first < layout->order_count; first = i) {
        const uint32_t group = layout->names[layout->order[first]].group;
        while (i < layout->order_count && layout->names[layout->order[i]].group == group) {
            i++;
        }
        for (uint32_t k = first; k < i; k++) {
            layout->names[layout->order[k]].group_size = i - first;
        }
    }
}

/* A step is over: are its tensors those of the one before? Then they get their groups. */
static void step_end(tt_control *control, tt_layout *layout)
{
    TT_ASSERT(layout->phase == LAYOUT_WATCHING && layout->order_count <= layout->name_count);
    const uint64_t now = tt_now(control->platform);
    layout->step_ns = tt_max_u64(layout->step_ns, now - layout->step_began_ns);
    layout->step_began_ns = now;
    bool is_repeated = layout->order_count > 1;
    for (uint32_t i = 0; i < layout->order_count; i++) {
        is_repeated = is_repeated && layout->names[layout->order[i]].earlier + 1 == layout->step;
    }
    if (is_repeated && layout->step > 1) {
        make_groups(layout, control->config.groups);
        layout_set_phase(layout, LAYOUT_IN_USE);
    } else if (layout->step >= STEPS_MAX) {
        layout_set_phase(layout, LAYOUT_OFF); /* no two steps are alike */
    }
    layout->step++;
    layout->order_count = 0;
}

/* The groups are made: how many submissions of each member are still alone on this rank; (1). */
static void count_alone(tt_control *control, tt_set *set)
{
    tt_layout *layout = set->layout;
    TT_ASSERT(layout->phase == LAYOUT_IN_USE && layout->group_count > 0);
    uint32_t tensors = 0;
    for (uint32_t i = 0; i < layout->name_count; i++) {
        layout_name *name = &layout->names[i];
        const tt_name *tensor = tt_name_find(control, set, name->name, NAME_TENSOR);
        const bool waits =
            tensor != NULL && tensor->phase == NAME_WAITING && !TT_PLANT(ALONE_TOO_OFTEN);
        name->alone = (name->step == layout->step ? 1U : 2U) - (waits ? 1U : 0U) +
                      tt_negotiator_debts(set->negotiator, name->name, name->name_bytes);
        tensors += name->group > 0 ? 1 : 0;
    }
    TT_ASSERT(tensors >= layout->group_count);
    tt_text text = {0};
    tt_text_add(&text, "%u tensors form %u groups from now on", tensors, layout->group_count);
    tt_control_report(control, LEVEL_INFO, &text);
}

/* A sum that is a ticket of its own. */
static bool is_plain(const tt_agreement *item, uint64_t *bytes_out)
{
    tt_bid bid;
    tt_claim claim;
    if (!tt_bid_read(&bid, item->claim, item->claim_bytes) || bid.member_count != 1 ||
        bid.is_digest || bid.objection < 0 || !tt_bid_next(&bid, &claim)) {
        return false;
    }
    *bytes_out = claim.count * tt_dtype_bytes((tt_dtype)claim.dtype);
    return claim.collective == TT_ALLREDUCE && claim.name[0] == 0;
}

/* The tensor was agreed, in this step or, if a second time, in the next. */
static void came(tt_control *control, tt_layout *layout, layout_name *name)
{
    if (name->step == layout->step && layout->phase == LAYOUT_WATCHING) {
        step_end(control, layout);
    }
    name->earlier = name->step;
    name->step = layout->step;
    name->batch = layout->batch;
    if (layout->phase == LAYOUT_WATCHING) {
        TT_ASSERT(layout->order_count < layout->capacity);
        layout->order[layout->order_count++] = (uint32_t)(name - layout->names);
    }
}

/* False: no memory for it. */
static bool watch(tt_control *control, tt_layout *layout, const tt_agreement *item, uint64_t bytes)
{
    layout_name *name = name_find(layout, item->name);
    if (name == NULL && layout->phase == LAYOUT_IN_USE) {
        return true;
    }
    if (name == NULL) {
        name = name_add(control->platform, layout, item);
    }
    if (name != NULL) {
        name->bytes = bytes;
        came(control, layout, name);
    }
    return name != NULL;
}

void tt_layout_watch(tt_control *control, tt_set *set, const tt_agreement *items, uint32_t count)
{
    tt_layout *layout = set->layout;
    uint64_t bytes;
    if (layout == NULL || layout->phase != LAYOUT_WATCHING) {
        return;
    }
    layout->batch++;
    for (uint32_t i = 0; i < count && layout->phase != LAYOUT_OFF; i++) {
        if (is_plain(&items[i], &bytes) && !watch(control, layout, &items[i], bytes)) {
            layout_set_phase(layout, LAYOUT_OFF);
            tt_name_starve(control); /* it would not know which tensor is in which group */
        }
    }
    if (layout->phase == LAYOUT_IN_USE) {
        count_alone(control, set);
    }
}

void tt_layout_watch_failed(tt_control *control, tt_set *set, const char *words)
{
    tt_layout *layout = set->layout;
    layout_name *name =
        layout != NULL && layout->phase == LAYOUT_WATCHING ? name_find(layout, words) : NULL;
    if (name == NULL) {
        return;
    }
    came(control, layout, name);
    if (layout->phase == LAYOUT_IN_USE) {
        count_alone(control, set);
    }
}

/* ---- using them ---- */

static layout_name *grouped(const tt_layout *layout, const char *name)
{
    if (layout == NULL || layout->phase != LAYOUT_IN_USE) {
        return NULL;
    }
    layout_name *found = name_find(layout, name);
    TT_DEBUG_ASSERT(found == NULL || found->group <= layout->group_count);
    return found != NULL && found->group_size > 1 ? found : NULL;
}

bool tt_layout_take(tt_set *set, const char *name, tt_membership *membership_out)
{
    layout_name *found = grouped(set->layout, name);
    if (found == NULL || found->is_dissolved) {
        return false;
    }
    if (found->alone > 0) {
        found->alone--;
        return false;
    }
    tt_text text = {0};
    tt_text_add(&text, LAYOUT_PREFIX "%u.%u", set->layout->turn, found->group);
    TT_ASSERT(text.length < sizeof(membership_out->name) && found->group > 0);
    memcpy(membership_out->name, text.bytes, text.length + 1);
    membership_out->size = found->group_size;
    membership_out->number = found->group;
    return true;
}

void tt_layout_dissolve(tt_set *set, uint32_t group)
{
    TT_ASSERT(group > 0 && set->layout != NULL);
    for (uint32_t i = 0; i < set->layout->name_count; i++) {
        layout_name *name = &set->layout->names[i];
        name->is_dissolved |= name->group == group;
    }
}

uint64_t tt_layout_patience(const tt_control *control, const tt_set *set)
{
    return control->config.late_ns + PATIENT_STEPS * set->layout->step_ns;
}

bool tt_layout_lets_plan(const tt_set *set, const char *name)
{
    const tt_layout *layout = set->layout;
    if (layout == NULL || layout->phase == LAYOUT_OFF) {
        return true;
    }
    return layout->phase == LAYOUT_IN_USE && grouped(layout, name) == NULL &&
           strncmp(name, LAYOUT_PREFIX, sizeof(LAYOUT_PREFIX) - 1) != 0;
}
