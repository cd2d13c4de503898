/* SPDX-License-Identifier: Apache-2.0
 *
 * space_plan.c - planned tensors: a key of its own for every occurrence.
 *
 * At most one occurrence of a tensor is open on a rank, so there is no window. An unknown key
 * belongs to the future: an occurrence after the last, a tensor or generation not yet begun. */
#include "base/assert.h"
#include "base/base.h"
#include "control/named/batch.h"

enum {
    GENERATIONS_KEPT = 16,   /* of plans; nothing older is still in flight */
    PLANNED_FAILED_KEPT = 4, /* failures of one tensor: after the first it is cut */
};

/* An earlier claim of a part of a planned tensor, kept when the claim changed on this rank. Peers
 * that had begun the changed occurrence may dispute it when later ones, with the old claim again,
 * have succeeded. */
typedef struct tt_past {
    struct tt_past *next; /* older */
    uint64_t key;         /* + 1: of the last occurrence with this claim */
    tt_recipe *recipe;
} tt_past;

/* The finished occurrences of a part of a planned tensor. A failure may arrive long after its
 * occurrence and later ones had succeeded on this rank: it must not overwrite them. */
typedef struct tt_over {
    uint64_t key;      /* + 1: of the last occurrence that succeeded; 0: none has */
    tt_recipe *recipe; /* of that one */
    tt_past *past;     /* claims before it, newest first; nearly always NULL */
    uint64_t failed[PLANNED_FAILED_KEPT]; /* key + 1, the last ones */
    int8_t failed_status[PLANNED_FAILED_KEPT];
    uint32_t failed_count;
} tt_over;

/* Progress of one tensor of a plan on this rank. */
struct tt_planned {
    uint64_t next;   /* key of the next occurrence */
    bool is_failing; /* one part has failed, the others fail next */
    tt_op *open;     /* parts of the last occurrence that are not over */
    tt_over **overs; /* [part_count] */
    uint32_t part_count;
    tt_batch *batch; /* of a bundle's number: its members; else NULL */
};

/* The tensors of one generation of the plan, by index; NULL: not begun on this rank. */
typedef struct tt_generation {
    struct tt_generation *next; /* older */
    uint32_t number;
    uint32_t capacity;
    tt_planned **tensors;
} tt_generation;

/* ---- keys ---- */

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

/* ---- records ---- */

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
        tt_over **overs = tt_control_grow(control, planned->overs, planned->part_count, count);
        if (overs == NULL) {
            return false;
        }
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

static bool generation_reserve(tt_control *control, tt_generation *generation, uint32_t index)
{
    TT_DEBUG_ASSERT(index < 1 << INDEX_BITS);
    if (index < generation->capacity) {
        return true;
    }
    const uint32_t capacity = (uint32_t)tt_round_up((uint64_t)index + 1 + generation->capacity, 64);
    tt_planned **tensors =
        tt_control_grow(control, generation->tensors, generation->capacity, capacity);
    if (tensors == NULL) {
        return false;
    }
    generation->tensors = tensors;
    generation->capacity = capacity;
    return true;
}

/* The generation, created if need be; NULL: no memory. Generations in use are in front, and are not
 * trimmed. */
static tt_generation *generation_use(tt_control *control, tt_set *set, uint32_t number)
{
    tt_generation **link = &set->generations;
    while (*link != NULL && (*link)->number != number) {
        link = &(*link)->next;
    }
    tt_generation *used = *link;
    if (used != NULL) {
        *link = used->next;
    } else {
        generations_trim(control, set);
        used = tt_platform_allocate(control->platform, sizeof(*used));
        if (used == NULL) {
            return NULL;
        }
        used->number = number;
    }
    TT_DEBUG_ASSERT(used->number == number);
    used->next = set->generations;
    set->generations = used;
    return used;
}

/* The tensor of `key`, created if need be; NULL: no memory. */
static tt_planned *planned_make(tt_control *control, tt_set *set, uint64_t key)
{
    const uint32_t index = key_index(key);
    tt_generation *generation = generation_use(control, set, key_generation(key));
    if (generation == NULL || !generation_reserve(control, generation, index)) {
        return NULL;
    }
    tt_planned **planned = &generation->tensors[index];
    if (*planned == NULL) {
        *planned = tt_platform_allocate(control->platform, sizeof(**planned));
        if (*planned != NULL) {
            (*planned)->next = key;
        }
    }
    TT_DEBUG_ASSERT(planned_find(set, key) == *planned);
    return *planned;
}

tt_batch **tt_planned_batch(tt_control *control, tt_set *set, uint64_t key, bool is_wanted)
{
    tt_planned *planned = is_wanted ? planned_make(control, set, key) : planned_find(set, key);
    return planned != NULL ? &planned->batch : NULL;
}

/* ---- in flight ---- */

/* The occurrence of the op has its claim; a different claim of the last one is kept. False: no
 * memory. */
static bool past_keep(const tt_op *op)
{
    tt_over *over = over_find(op->planned, op->sequence);
    TT_ASSERT((over->key == 0) == (over->recipe == NULL));
    if (over->key == 0 || over->recipe == op->recipe ||
        tt_claim_equals(&over->recipe->claim, &op->recipe->claim) ||
        (over->past != NULL && over->past->key == over->key)) {
        return true;
    }
    tt_past *past = tt_platform_allocate(op->control->platform, sizeof(*past));
    if (past == NULL) {
        return false;
    }
    *past = (tt_past){.next = over->past, .key = over->key, .recipe = over->recipe};
    tt_recipe_use(past->recipe);
    TT_DEBUG_ASSERT(past->recipe->stamp != 0);
    over->past = past;
    return true;
}

/* Occurrences up to that of the op are begun from now on. */
static bool plan_number(tt_op *op, const tt_standing *standing)
{
    const uint64_t key = standing->sequence;
    op->sequence = key;
    op->tensor = (tt_plan_entry){.generation = standing->generation, .index = standing->index};
    op->planned = NULL;
    tt_planned *planned = planned_make(op->control, op->set, key);
    if (planned == NULL ||
        !overs_reserve(op->control, planned, (uint32_t)low_bits(key, PART_BITS))) {
        return false;
    }
    planned->next = key + (UINT64_C(1) << PART_BITS); /* only its occurrence is compared */
    TT_DEBUG_ASSERT(!is_coming(key, planned->next));
    op->planned = planned;
    op->next = planned->open;
    planned->open = op;
    return past_keep(op);
}

static tt_op *plan_find(tt_set *set, uint32_t peer, const tt_head *key)
{
    const tt_planned *planned = planned_find(set, key->op);
    tt_op *op = planned != NULL ? planned->open : NULL;
    (void)peer;
    while (op != NULL && op->sequence != key->op) {
        op = op->next;
    }
    return op;
}

static bool plan_is_future(tt_set *set, uint32_t peer, const tt_head *key)
{
    const tt_planned *planned = planned_find(set, key->op);
    (void)peer;
    return planned == NULL || is_coming(key->op, planned->next);
}

void tt_planned_fail_parts(const tt_op *op, tt_status status, const char *text)
{
    tt_planned *planned = op->planned;
    TT_DEBUG_ASSERT(status < 0);
    if (planned->is_failing) {
        return;
    }
    planned->is_failing = true;
    tt_op *part = planned->open;
    while (part != NULL && op->control->shut_down == TT_OK) {
        if (part != op && part->phase != OP_STOPPING &&
            part->sequence >> PART_BITS == op->sequence >> PART_BITS) {
            tt_agree_object(part, status, text);
            part = planned->open; /* any of them may be over */
            continue;
        }
        part = part->next;
    }
    planned->is_failing = false;
}

/* ---- over ---- */

static void fail(tt_over *over, uint64_t key, tt_status status)
{
    const uint32_t place = over->failed_count++ % PLANNED_FAILED_KEPT;
    TT_DEBUG_ASSERT(status < 0);
    over->failed[place] = key + 1;
    over->failed_status[place] = (int8_t)status;
}

static void succeed(tt_over *over, uint64_t key, tt_recipe *recipe)
{
    TT_DEBUG_ASSERT(recipe->stamp != 0);
    over->key = key + 1;
    tt_recipe_replace(&over->recipe, recipe);
}

static tt_op_queue *plan_leave(tt_op *op, tt_status status)
{
    tt_over *over = over_find(op->planned, op->sequence);
    TT_ASSERT((op->planned == NULL) == (over == NULL)); /* NULL: there was no memory */
    if (over != NULL) {
        tt_op_unlink(&op->planned->open, op);
    }
    if (status < 0) {
        tt_host_plan_failed(op->set, op->tensor.generation, op->tensor.index);
    }
    if (over != NULL && status < 0) {
        fail(over, op->sequence, status);
    } else if (over != NULL) {
        succeed(over, op->sequence, op->recipe);
    }
    return NULL;
}

/* Is the occurrence of `key` that of `last` (+ 1) or an earlier one? */
static bool is_until(uint64_t key, uint64_t last)
{
    return !is_coming(key, last - 1 + (UINT64_C(1) << PART_BITS));
}

static tt_status plan_failed(tt_set *set, const tt_head *key)
{
    const tt_over *over = over_find(planned_find(set, key->op), key->op);
    return over != NULL
               ? tt_failed_find(over->failed, over->failed_status, PLANNED_FAILED_KEPT, key->op)
               : TT_OK;
}

/* A planned tensor always has the same claim, except on a rank that owes occurrences of a cut plan
 * and submits another claim. */
static const tt_claim *plan_done(tt_set *set, const tt_head *key)
{
    const tt_over *over = over_find(planned_find(set, key->op), key->op);
    if (over == NULL || over->key == 0 || !is_until(key->op, over->key) ||
        plan_failed(set, key) < 0) {
        return NULL;
    }
    const tt_recipe *recipe = over->recipe;
    for (const tt_past *past = over->past; past != NULL && is_until(key->op, past->key);
         past = past->next) {
        recipe = past->recipe;
    }
    TT_DEBUG_ASSERT(recipe->stamp != 0);
    return &recipe->claim;
}

static void plan_fail_late(tt_set *set, const tt_head *key, tt_status status)
{
    tt_over *over = over_find(planned_find(set, key->op), key->op);
    if (over != NULL) {
        fail(over, key->op, status);
    }
}

const tt_space tt_space_planned = {
    .flags = TT_FLAG_PLANNED,
    .traits = TRAIT_NAMED | TRAIT_PLANNED,
    .number = plan_number,
    .enter = tt_op_begin,
    .leave = plan_leave,
    .find = plan_find,
    .is_future = plan_is_future,
    .done = plan_done,
    .failed = plan_failed,
    .fail_late = plan_fail_late,
};
