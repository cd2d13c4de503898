/* SPDX-License-Identifier: Apache-2.0
 *
 * layout.h - groups that the library makes of the sums it saw in the first steps.
 *
 * Layer:   control, private.
 * Threads: as control.h.
 * Memory:  one record per name that was agreed during the observed first steps.
 */
#ifndef TUTTI_CONTROL_NAMED_LAYOUT_H
#define TUTTI_CONTROL_NAMED_LAYOUT_H

#include "control/control_internal.h"

typedef struct tt_layout tt_layout;

/* Prefix of the ticket names of such groups; users' tensors must not have it. */
#define LAYOUT_PREFIX "tutti.group."

/* The group of a request. */
typedef struct tt_membership {
    char name[TT_NAME_BYTES];
    uint32_t size;
    uint32_t number; /* in the layout, from 1; 0: the user named it */
} tt_membership;

/* Observe the set's first steps, or those after a join, if groups are wanted. */
tt_status tt_layout_begin(tt_control *control, tt_set *set);
void tt_layout_release(tt_control *control, tt_set *set);
/* These were agreed in one round; their tickets are over. */
void tt_layout_watch(tt_control *control, tt_set *set, const tt_agreement *items, uint32_t count);
/* The ranks disagreed about this tensor, on all ranks alike: it still belongs to this step. */
void tt_layout_watch_failed(tt_control *control, tt_set *set, const char *name);
/* The group of the next request of this name; false: it is in none. */
bool tt_layout_take(tt_set *set, const char *name, tt_membership *membership_out);
/* From now on the tensors of this group run alone. */
void tt_layout_dissolve(tt_set *set, uint32_t group);
/* How long a group may wait for its members on this rank before it is dissolved. */
uint64_t tt_layout_patience(const tt_control *control, const tt_set *set);
/* May a ticket of this name be planned? The same answer on all ranks. */
bool tt_layout_lets_plan(const tt_set *set, const char *name);

#endif
