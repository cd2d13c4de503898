/* SPDX-License-Identifier: Apache-2.0
 *
 * order.c - finds the op of a number: calls, agreed and planned tensors, pairs.
 *
 * Calls and agreed tensors have one sequence each, the same on all members, and a window of ops in
 * flight; finished ops are remembered for a while. A planned tensor has a key of its own for every
 * occurrence; at most one occurrence is open on a rank, so there is no window. An unknown
 * key belongs to the future: an occurrence after the last, a tensor or generation not yet begun.
 */
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/plant.h"
#include "control/named/batch.h"

/* ---- planned tensors ---- */

/* generation, index, occurrence, part, from the top. Generations and occurrences wrap; no frame is
 * late by half of the range. */
enum { PART_BITS = 12, OCCURRENCE_BITS = 20, INDEX_BITS = 13, GENERATION_BITS = 19 };

_Static_assert(PART_BITS + OCCURRENCE_BITS + INDEX_BITS + GENERATION_BITS == 64, "a key is a word");

static uint64_t low_bits(uint64_t value, uint32_t bits)
{
    TT_DEBUG_ASSERT(bits > 0 && bits < 64);
    return value & ((UINT64_C(1) << bits) - 1);
}

uint64_t tt_planned_key(uint32_t generation, uint32_t index, uint64_t occurrence, uint32_t part)
{
    TT_ASSERT(index < 1 << INDEX_BITS && part < 1 << PART_BITS);
    uint64_t key = low_bits(generation, GENERATION_BITS);
    key = key << INDEX_BITS | index;
    key = key << OCCURRENCE_BITS | low_bits(occurrence, OCCURRENCE_BITS);
    return key << PART_BITS | part;
}

static uint32_t key_generation(uint64_t key)
{
    return (uint32_t)(key >> (INDEX_BITS + OCCURRENCE_BITS + PART_BITS));
}

static uint32_t key_index(uint64_t key)
{
    return (uint32_t)low_bits(key >> (OCCURRENCE_BITS + PART_BITS), INDEX_BITS);
}

static uint64_t key_occurrence(uint64_t key)
{
    return low_bits(key >> PART_BITS, OCCURRENCE_BITS);
}

/* Is the occurrence of `key` that of `next` or a later one? */
static bool is_coming(uint64_t key, uint64_t next)
{
    const uint64_t ahead = low_bits(key_occurrence(key) - key_occurrence(next), OCCURRENCE_BITS);
    return ahead < UINT64_C(1) << (OCCURRENCE_BITS - 1);
}

bool tt_planned_is_one(uint64_t key, uint64_t other)
{
    return key >> PART_BITS == other >> PART_BITS;
}

static tt_planned *planned_find(const tt_set *set, uint64_t key)
{
    const tt_generation *generation = set->generations;
    while (generation != NULL && generation->number != key_generation(key)) {
        generation = generation->next;
    }
    return generation != NULL && key_index(key) < generation->capacity
               ? generation->tensors[key_index(key)]
               : NULL;
}

static void over_release(tt_control *control, tt_over *over)
{
    if (over == NULL) {
        return;
    }
    TT_DEBUG_ASSERT((over->key == 0) == (over->recipe == NULL));
    while (over->past != NULL) {
        tt_past *next = over->past->next;
        tt_recipe_release(control, over->past->recipe);
        tt_platform_release(control->platform, over->past, sizeof(tt_past));
        over->past = next;
    }
    if (over->recipe != NULL) {
        tt_recipe_release(control, over->recipe);
    }
    tt_platform_release(control->platform, over, sizeof(*over));
}

static void planned_release(tt_control *control, tt_planned *planned)
{
    TT_DEBUG_ASSERT(planned->open == NULL);
    for (uint32_t i = 0; i < planned->part_count; i++) {
        over_release(control, planned->overs[i]);
    }
    tt_platform_release(control->platform, planned->overs,
                        planned->part_count * sizeof(*planned->overs));
    tt_batch_release(control, planned->batch);
    tt_platform_release(control->platform, planned, sizeof(*planned));
}

/* Reserve the record for the end of this part. */
static bool overs_reserve(tt_control *control, tt_planned *planned, uint32_t part)
{
    if (part >= planned->part_count) {
        const uint32_t count = part == 0 ? 1 : (uint32_t)tt_round_up(2 * (uint64_t)part, 16);
        tt_over **overs = tt_platform_allocate(control->platform, count * sizeof(*overs));
        if (overs == NULL) {
            return false;
        }
        if (planned->part_count > 0) {
            memcpy(overs, planned->overs, planned->part_count * sizeof(*overs));
        }
        tt_platform_release(control->platform, planned->overs,
                            planned->part_count * sizeof(*overs));
        planned->overs = overs;
        planned->part_count = count;
    }
    TT_DEBUG_ASSERT(part < planned->part_count);
    if (planned->overs[part] == NULL) {
        planned->overs[part] = tt_platform_allocate(control->platform, sizeof(tt_over));
    }
    return planned->overs[part] != NULL;
}

static tt_over *over_find(const tt_planned *planned, uint64_t key)
{
    const uint64_t part = low_bits(key, PART_BITS);
    return planned != NULL && part < planned->part_count ? planned->overs[part] : NULL;
}

static void generation_release(tt_control *control, tt_generation *generation)
{
    for (uint32_t i = 0; i < generation->capacity; i++) {
        if (generation->tensors[i] != NULL) {
            planned_release(control, generation->tensors[i]);
        }
    }
    tt_platform_release(control->platform, generation->tensors,
                        generation->capacity * sizeof(*generation->tensors));
    tt_platform_release(control->platform, generation, sizeof(*generation));
}

void tt_planned_release_all(tt_control *control, tt_set *set)
{
    while (set->generations != NULL) {
        tt_generation *next = set->generations->next;
        generation_release(control, set->generations);
        set->generations = next;
    }
}

/* Forget old generations. */
static void generations_trim(tt_control *control, tt_set *set)
{
    uint32_t kept = 0;
    for (tt_generation **link = &set->generations; *link != NULL;) {
        tt_generation *generation = *link;
        bool is_open = kept++ < GENERATIONS_KEPT;
        for (uint32_t i = 0; !is_open && i < generation->capacity; i++) {
            const tt_planned *planned = generation->tensors[i];
            is_open = planned != NULL &&
                      (planned->open != NULL ||
                       (planned->batch != NULL && planned->batch->phase != BATCH_IDLE));
        }
        if (is_open) {
            link = &generation->next;
        } else {
            *link = generation->next;
            generation_release(control, generation);
        }
    }
}

static tt_generation *generation_make(tt_control *control, tt_set *set, uint32_t number)
{
    tt_generation *generation = set->generations;
    while (generation != NULL && generation->number != number) {
        generation = generation->next;
    }
    if (generation == NULL) {
        generations_trim(control, set);
        generation = tt_platform_allocate(control->platform, sizeof(*generation));
        if (generation != NULL) {
            generation->number = number;
            generation->next = set->generations;
            set->generations = generation;
        }
    }
    return generation;
}

static bool generation_reserve(tt_control *control, tt_generation *generation, uint32_t index)
{
    TT_DEBUG_ASSERT(index < 1 << INDEX_BITS);
    if (index < generation->capacity) {
        return true;
    }
    const uint32_t capacity = (uint32_t)tt_round_up((uint64_t)index + 1 + generation->capacity, 64);
    tt_planned **tensors = tt_platform_allocate(control->platform, capacity * sizeof(*tensors));
    if (tensors == NULL) {
        return false;
    }
    if (generation->capacity > 0) {
        memcpy(tensors, generation->tensors, generation->capacity * sizeof(*tensors));
    }
    tt_platform_release(control->platform, generation->tensors,
                        generation->capacity * sizeof(*tensors));
    TT_DEBUG_ASSERT(index < capacity);
    generation->tensors = tensors;
    generation->capacity = capacity;
    return true;
}

/* Move the generation to the front of the list: generations in use are not trimmed. */
static void generation_use(tt_set *set, uint32_t number)
{
    tt_generation **link = &set->generations;
    while (*link != NULL && (*link)->number != number) {
        link = &(*link)->next;
    }
    tt_generation *used = *link;
    TT_DEBUG_ASSERT(used == NULL || used->number == number);
    if (used != NULL && used != set->generations) {
        *link = used->next;
        used->next = set->generations;
        set->generations = used;
    }
}

/* The tensor of `key`, created if need be. */
static tt_planned *planned_make(tt_control *control, tt_set *set, uint64_t key)
{
    generation_use(set, key_generation(key));
    tt_planned *planned = planned_find(set, key);
    if (planned == NULL) {
        tt_generation *generation = generation_make(control, set, key_generation(key));
        if (generation == NULL || !generation_reserve(control, generation, key_index(key))) {
            return NULL;
        }
        TT_DEBUG_ASSERT(set->generations == generation);
        planned = tt_platform_allocate(control->platform, sizeof(*planned));
        if (planned == NULL) {
            return NULL;
        }
        planned->next = key;
        generation->tensors[key_index(key)] = planned;
    }
    return planned;
}

tt_batch **tt_planned_batch(tt_control *control, tt_set *set, uint64_t key, bool is_wanted)
{
    tt_planned *planned = is_wanted ? planned_make(control, set, key) : planned_find(set, key);
    return planned != NULL ? &planned->batch : NULL;
}

tt_planned *tt_planned_begin(tt_control *control, tt_set *set, uint64_t key)
{
    tt_planned *planned = planned_make(control, set, key);
    if (planned == NULL) {
        return NULL;
    }
    if (!overs_reserve(control, planned, (uint32_t)low_bits(key, PART_BITS))) {
        return NULL;
    }
    planned->next = key + (UINT64_C(1) << PART_BITS); /* only its occurrence is compared */
    TT_DEBUG_ASSERT(!is_coming(key, planned->next));
    return planned;
}

bool tt_planned_claim(tt_control *control, const tt_planned *planned, uint64_t key,
                      const tt_recipe *recipe)
{
    tt_over *over = over_find(planned, key);
    TT_ASSERT((over->key == 0) == (over->recipe == NULL));
    if (over->key == 0 || over->recipe == recipe ||
        tt_claim_equals(&over->recipe->claim, &recipe->claim) ||
        (over->past != NULL && over->past->key == over->key)) {
        return true;
    }
    tt_past *past = tt_platform_allocate(control->platform, sizeof(*past));
    if (past == NULL) {
        return false;
    }
    past->key = over->key;
    past->recipe = over->recipe;
    tt_recipe_use(past->recipe);
    TT_DEBUG_ASSERT(past->recipe->stamp != 0);
    past->next = over->past;
    over->past = past;
    return true;
}

/* ---- ordered spaces ---- */

void tt_order_init(tt_order *order)
{
    TT_DEBUG_ASSERT(order->queue == NULL && order->next == 0);
    order->queue_end = &order->queue;
}

tt_order *tt_order_create(tt_platform *platform)
{
    tt_order *order = tt_platform_allocate(platform, sizeof(*order));
    if (order == NULL) {
        return NULL;
    }
    tt_order_init(order);
    return order;
}

void tt_order_forget(tt_control *control, tt_order *order)
{
    for (uint32_t i = 0; i < DONE_KEPT; i++) {
        TT_DEBUG_ASSERT((order->done[i].sequence == 0) == (order->done[i].recipe == NULL));
        if (order->done[i].recipe != NULL) {
            tt_recipe_release(control, order->done[i].recipe);
        }
        order->done[i] = (tt_done){0};
    }
}

void tt_order_destroy(tt_control *control, tt_order *order)
{
    if (order != NULL) {
        TT_DEBUG_ASSERT(order->queue == NULL && order->staged_count == 0);
        tt_order_forget(control, order);
        tt_platform_release(control->platform, order, sizeof(*order));
    }
}

static tt_order *order_of_head(const tt_set *set, const tt_head *head)
{
    TT_DEBUG_ASSERT((head->flags & (TT_FLAG_PAIR | TT_FLAG_PLANNED)) == 0);
    return (head->flags & TT_FLAG_AGREED) != 0 ? set->agreed : (tt_order *)(uintptr_t)&set->calls;
}

/* ---- finding ---- */

static tt_op *pair_find(tt_op *list, uint32_t peer, const tt_head *head)
{
    const bool is_sender = (head->flags & TT_FLAG_REPLY) != 0; /* the receiver replies to it */
    for (tt_op *op = list; op != NULL; op = op->next) {
        TT_DEBUG_ASSERT(op->is_pair && op->any == NULL);
        if (op->peer == peer && op->sequence == head->op && op->is_sender == is_sender) {
            return op;
        }
    }
    return NULL;
}

tt_op *tt_op_find(const tt_control *control, uint32_t peer, const tt_head *head)
{
    const tt_set *set = tt_set_find(control, head->set);
    if (set == NULL || set->self == UINT32_MAX) {
        return NULL;
    }
    if ((head->flags & TT_FLAG_PAIR) != 0) {
        return pair_find(set->pairs, peer, head);
    }
    if ((head->flags & TT_FLAG_PLANNED) != 0) {
        const tt_planned *planned = planned_find(set, head->op);
        tt_op *open = planned != NULL ? planned->open : NULL;
        while (open != NULL && open->sequence != head->op) {
            open = open->next;
        }
        return open;
    }
    const tt_order *order = order_of_head(set, head);
    tt_op *op = order != NULL ? order->ops[head->op % OPS_AHEAD_MAX] : NULL;
    TT_DEBUG_ASSERT(op == NULL || op->phase != OP_FREE);
    return op != NULL && op->sequence == head->op ? op : NULL;
}

static bool pair_is_future(const tt_set *set, uint32_t peer, const tt_head *head)
{
    const uint32_t member = set->member_of[peer];
    TT_DEBUG_ASSERT(member == UINT32_MAX || member < set->size);
    const bool is_sender = (head->flags & TT_FLAG_REPLY) != 0;
    return member != UINT32_MAX &&
           (tt_pair_is_next(set, 2 * member + (is_sender ? 0 : 1), head->op) ||
            pair_find(set->pair_queue, peer, head) != NULL);
}

bool tt_op_is_future(const tt_control *control, uint32_t peer, const tt_head *head)
{
    const tt_set *set = tt_set_find(control, head->set);
    if (set == NULL) {
        return tt_set_is_future(control, head->set);
    }
    if ((head->flags & TT_FLAG_PAIR) != 0) {
        return pair_is_future(set, peer, head);
    }
    if ((head->flags & TT_FLAG_PLANNED) != 0) {
        const tt_planned *planned = planned_find(set, head->op);
        return planned == NULL || is_coming(head->op, planned->next);
    }
    const tt_order *order = order_of_head(set, head);
    if (order == NULL || head->op + (TT_PLANT(SECOND_LIFE_OF_AN_OP) ? 1 : 0) >= order->next) {
        return true;
    }
    for (const tt_op *op = order->queue; op != NULL; op = op->next) {
        TT_DEBUG_ASSERT(op->phase == OP_QUEUED);
        if (op->sequence == head->op) {
            return true; /* submitted, but not yet begun */
        }
    }
    return false;
}

/* ---- what is over ---- */

static tt_status failed_find(const uint64_t *failed, const int8_t *statuses, uint32_t count,
                             uint64_t key)
{
    for (uint32_t i = 0; i < count; i++) {
        if (failed[i] == key + 1) {
            TT_DEBUG_ASSERT(statuses[i] < 0);
            return (tt_status)statuses[i];
        }
    }
    return TT_OK;
}

static tt_status over_failed(const tt_over *over, uint64_t key)
{
    return over != NULL ? failed_find(over->failed, over->failed_status, PLANNED_FAILED_KEPT, key)
                        : TT_OK;
}

/* Is the occurrence of `key` that of `last` (+ 1) or an earlier one? */
static bool is_until(uint64_t key, uint64_t last)
{
    return !is_coming(key, last - 1 + (UINT64_C(1) << PART_BITS));
}

/* The claim of the occurrence of `key`, which is over. A planned tensor always has the same claim,
 * except on a rank that owes occurrences of a cut plan and submits another claim. */
static const tt_claim *over_claim(const tt_over *over, uint64_t key)
{
    TT_DEBUG_ASSERT(over->key != 0);
    const tt_recipe *recipe = over->recipe;
    for (const tt_past *past = over->past; past != NULL && is_until(key, past->key);
         past = past->next) {
        recipe = past->recipe;
    }
    return &recipe->claim;
}

bool tt_order_done(const tt_control *control, const tt_head *key, tt_claim *claim_out)
{
    const tt_set *set = tt_set_find(control, key->set);
    if (set == NULL || (key->flags & TT_FLAG_PAIR) != 0) {
        return false;
    }
    if ((key->flags & TT_FLAG_PLANNED) != 0) {
        const tt_over *over = over_find(planned_find(set, key->op), key->op);
        const bool is_done = over != NULL && over->key != 0 &&
                             over_failed(over, key->op) == TT_OK && is_until(key->op, over->key);
        if (is_done) {
            tt_claim_copy(claim_out, over_claim(over, key->op));
        }
        return is_done;
    }
    const tt_order *order = order_of_head(set, key);
    const uint64_t place = key->op % DONE_KEPT;
    if (order == NULL || order->done[place].sequence != key->op + 1) {
        return false;
    }
    TT_DEBUG_ASSERT(order->done[place].recipe->stamp != 0);
    tt_claim_copy(claim_out, &order->done[place].recipe->claim);
    return true;
}

tt_status tt_order_failed(const tt_control *control, const tt_head *key)
{
    const tt_set *set = tt_set_find(control, key->set);
    if (set == NULL || (key->flags & TT_FLAG_PAIR) != 0) {
        return TT_OK;
    }
    if ((key->flags & TT_FLAG_PLANNED) != 0) {
        return over_failed(over_find(planned_find(set, key->op), key->op), key->op);
    }
    const tt_order *order = order_of_head(set, key);
    return order != NULL ? failed_find(order->failed, order->failed_status, FAILED_KEPT, key->op)
                         : TT_OK;
}

static void over_remember(tt_control *control, tt_over *over, uint64_t key, tt_recipe *recipe,
                          tt_status status)
{
    TT_DEBUG_ASSERT(status < 0 || recipe->stamp != 0);
    if (status < 0) {
        const uint32_t place = over->failed_count++ % PLANNED_FAILED_KEPT;
        over->failed[place] = key + 1;
        over->failed_status[place] = (int8_t)status;
    } else {
        over->key = key + 1;
        if (over->recipe != recipe) {
            tt_recipe_use(recipe);
            if (over->recipe != NULL) {
                tt_recipe_release(control, over->recipe);
            }
            over->recipe = recipe;
        }
    }
}

void tt_planned_keep(tt_control *control, const tt_planned *planned, uint64_t key,
                     tt_recipe *recipe)
{
    tt_over *over = over_find(planned, key);
    TT_ASSERT(over != NULL);
    over_remember(control, over, key, recipe, TT_OK);
}

void tt_order_remember(tt_set *set, const tt_head *key, tt_recipe *recipe, tt_status status)
{
    TT_DEBUG_ASSERT(status <= TT_OK);
    TT_ASSERT(recipe != NULL || status < 0);
    if ((key->flags & TT_FLAG_PAIR) != 0) {
        return;
    }
    if ((key->flags & TT_FLAG_PLANNED) != 0) {
        tt_over *over = over_find(planned_find(set, key->op), key->op);
        if (over != NULL) {
            over_remember(set->control, over, key->op, recipe, status);
        }
        return;
    }
    tt_order *order = order_of_head(set, key);
    if (order == NULL) {
        return;
    }
    if (status < 0) {
        order->failed_status[order->failed_count % FAILED_KEPT] = (int8_t)status;
        order->failed[order->failed_count++ % FAILED_KEPT] = key->op + 1;
    } else {
        tt_order_keep(order, key->op, recipe);
    }
}
