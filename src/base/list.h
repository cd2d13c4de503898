/* SPDX-License-Identifier: Apache-2.0
 *
 * list.h - intrusive doubly linked list: the links are members of the elements.
 *
 * A ring through a head node; an element not in a list has null links, so that membership can be
 * tested and a double push is caught. TT_CONTAINER_OF finds the element of a node.
 *
 * Layer:   base.
 * Threads: one thread at a time per list.
 * Memory:  none taken. An element must leave its list before it is freed.
 */
#ifndef TUTTI_BASE_LIST_H
#define TUTTI_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/assert.h"

/* All zeros is a node in no list. */
typedef struct tt_list_node {
    struct tt_list_node *next;
    struct tt_list_node *previous;
} tt_list_node;

typedef struct tt_list {
    tt_list_node head;
} tt_list;

static inline void tt_list_init(tt_list *list)
{
    list->head.next = &list->head;
    list->head.previous = &list->head;
}

static inline bool tt_list_is_empty(const tt_list *list)
{
    return list->head.next == &list->head;
}

static inline bool tt_list_has_node(const tt_list_node *node)
{
    return node->next != NULL;
}

/* Put `node` before `place`, a node of some list or the head itself. */
static inline void tt_list_insert_before(tt_list_node *place, tt_list_node *node)
{
    TT_ASSERT(!tt_list_has_node(node));
    node->next = place;
    node->previous = place->previous;
    place->previous->next = node;
    place->previous = node;
}

static inline void tt_list_push_back(tt_list *list, tt_list_node *node)
{
    tt_list_insert_before(&list->head, node);
}

static inline void tt_list_push_front(tt_list *list, tt_list_node *node)
{
    tt_list_insert_before(list->head.next, node);
}

/* From the list it is in. */
static inline void tt_list_remove(tt_list_node *node)
{
    TT_ASSERT(tt_list_has_node(node));
    node->previous->next = node->next;
    node->next->previous = node->previous;
    node->next = NULL;
    node->previous = NULL;
}

/* NULL when there is none. */
static inline tt_list_node *tt_list_first(const tt_list *list)
{
    return tt_list_is_empty(list) ? NULL : list->head.next;
}

static inline tt_list_node *tt_list_next(const tt_list *list, const tt_list_node *node)
{
    return node->next == &list->head ? NULL : node->next;
}

static inline tt_list_node *tt_list_pop_front(tt_list *list)
{
    tt_list_node *node = tt_list_first(list);
    if (node != NULL) {
        tt_list_remove(node);
    }
    return node;
}

#endif
