/* SPDX-License-Identifier: Apache-2.0
 *
 * recipe.c - see recipe.h. */
#include "control/recipe.h"

#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/plant.h"
#include "control/control_internal.h"
#include "control/engine.h"
#include "kernel/hash64.h"

/* ---- blocks ---- */

enum { NAME_SHORT_BYTES = 64, FEW_STAGES = 2 };

static const struct {
    uint32_t stages, name_bytes;
} block_sizes[RECIPE_SIZES] = {
    {0, TT_NAME_BYTES},
    {1, NAME_SHORT_BYTES},
    {FEW_STAGES, NAME_SHORT_BYTES},
    {FEW_STAGES, TT_NAME_BYTES},
    {TT_STAGES_MAX, NAME_SHORT_BYTES},
    {TT_STAGES_MAX, TT_NAME_BYTES},
};

static size_t stages_offset(uint8_t size)
{
    TT_DEBUG_ASSERT(size < RECIPE_SIZES);
    return tt_round_up(
        offsetof(tt_recipe, claim) + CLAIM_FIXED_BYTES + block_sizes[size].name_bytes, 64);
}

static size_t block_bytes(uint8_t size)
{
    return stages_offset(size) + block_sizes[size].stages * sizeof(tt_stage);
}

static uint8_t size_for(uint32_t stage_count, size_t name_bytes)
{
    uint8_t size = 0;
    while (block_sizes[size].stages < stage_count || block_sizes[size].name_bytes < name_bytes) {
        size++;
        TT_ASSERT(size < RECIPE_SIZES);
    }
    return size;
}

/* NULL: no memory. */
static tt_recipe *block_take(tt_control *control, uint8_t size)
{
    tt_recipes *recipes = &control->recipes;
    tt_recipe *recipe = recipes->free[size];
    if (recipe != NULL) {
        TT_DEBUG_ASSERT(recipe->size == size && recipe->stamp == 0);
        recipes->free[size] = recipe->next;
        return recipe;
    }
    recipe = tt_platform_allocate(control->platform, block_bytes(size));
    if (recipe != NULL) {
        recipe->size = size;
        recipe->stages = (void *)((uint8_t *)recipe + stages_offset(size));
        recipe->next_block = recipes->blocks;
        recipes->blocks = recipe;
    }
    return recipe;
}

static void block_give(tt_control *control, tt_recipe *recipe)
{
    tt_recipes *recipes = &control->recipes;
    TT_ASSERT(recipe->uses == 0 && recipe->idle == NULL && !recipe->is_in);
    TT_DEBUG_ASSERT(recipe->stamp != 0 && recipe != recipes->spare);
    recipe->stamp = 0;
    recipe->set = NULL;
    if (recipe->size == 0 && recipes->spare == NULL) {
        recipes->spare = recipe;
        return;
    }
    recipe->next = recipes->free[recipe->size];
    recipes->free[recipe->size] = recipe;
}

tt_status tt_recipes_init(tt_control *control)
{
    TT_DEBUG_ASSERT(control->recipes.blocks == NULL);
    control->recipes.next_stamp = 1;
    control->recipes.spare = block_take(control, 0);
    return control->recipes.spare != NULL ? TT_OK : TT_ERR_NO_MEMORY;
}

void tt_recipes_fini(tt_control *control)
{
    while (control->recipes.blocks != NULL) {
        tt_recipe *recipe = control->recipes.blocks;
        TT_DEBUG_ASSERT(recipe->uses == 0);
        control->recipes.blocks = recipe->next_block;
        tt_platform_release(control->platform, recipe, block_bytes(recipe->size));
    }
}

/* ---- the table ---- */

static tt_recipe **bucket_of(tt_recipes *recipes, uint64_t hash)
{
    return &recipes->buckets[hash % RECIPE_BUCKETS];
}

/* An op that returns to the free list with more memory than this releases it, and is not the next
 * to be taken: otherwise, over time, every op would have run every call, and hold the memory of the
 * largest. */
enum { DROPPED_BYTES_MAX = 1024 };

/* Return the op to the free list. */
static void idle_drop(tt_control *control, tt_recipe *recipe)
{
    tt_op *op = tt_idle_take(control, recipe);
    if (op == NULL) {
        return;
    }
    TT_DEBUG_ASSERT(op->recipe == recipe && op->request == NULL);
    if (op->exec.counted_bytes + op->work_bytes > DROPPED_BYTES_MAX) {
        tt_exec_fini(&op->exec);
        tt_platform_release(control->platform, op->work, op->work_bytes);
        op->work = NULL;
        op->work_bytes = 0;
    }
    tt_op_cool(op, false);
}

static bool is_named(const tt_recipe *recipe)
{
    return (recipe->traits & TRAIT_TITLED) != 0;
}

static void table_leave(tt_control *control, tt_recipe *recipe)
{
    TT_DEBUG_ASSERT(recipe->is_in && recipe->stamp != 0);
    tt_recipes *recipes = &control->recipes;
    tt_recipe **link = bucket_of(recipes, recipe->hash);
    while (*link != recipe) {
        TT_ASSERT(*link != NULL);
        link = &(*link)->next;
    }
    *link = recipe->next;
    recipe->next = NULL;
    recipe->is_in = false;
    recipes->last = recipes->last == recipe ? NULL : recipes->last;
    TT_ASSERT(recipes->counts[is_named(recipe)] > 0);
    recipes->counts[is_named(recipe)]--;
    idle_drop(control, recipe);
    tt_recipe_release(control, recipe);
}

/* The oldest recipe of this kind in the bucket; NULL: there is none. */
static tt_recipe *oldest(tt_recipe *recipe, bool named)
{
    tt_recipe *found = NULL;
    for (; recipe != NULL; recipe = recipe->next) {
        found = is_named(recipe) == named ? recipe : found;
    }
    return found;
}

/* Evict one of this kind, from the next bucket that has any. */
static void table_evict(tt_control *control, bool named)
{
    tt_recipes *recipes = &control->recipes;
    tt_recipe *found = NULL;
    TT_ASSERT(recipes->counts[named] > 0);
    while (found == NULL) {
        recipes->hand = (recipes->hand + 1) % RECIPE_BUCKETS;
        found = oldest(recipes->buckets[recipes->hand], named);
    }
    table_leave(control, found);
}

static void table_enter(tt_control *control, tt_recipe *recipe)
{
    TT_DEBUG_ASSERT(!recipe->is_in && recipe->stamp != 0);
    tt_recipes *recipes = &control->recipes;
    const bool named = is_named(recipe);
    if (recipes->counts[named] == (named ? NAMED_RECIPES_MAX : RECIPES_MAX)) {
        table_evict(control, named);
    }
    tt_recipe **bucket = bucket_of(recipes, recipe->hash);
    recipe->next = *bucket;
    *bucket = recipe;
    recipe->is_in = true;
    recipes->counts[named]++;
    tt_recipe_use(recipe);
}

void tt_recipe_release(tt_control *control, tt_recipe *recipe)
{
    TT_ASSERT(recipe->uses > 0 && recipe->stamp != 0);
    if (--recipe->uses == 0) {
        block_give(control, recipe);
    }
}

void tt_recipe_forget_set(tt_control *control, const tt_set *set)
{
    for (uint32_t i = 0; i < RECIPE_BUCKETS; i++) {
        for (tt_recipe *recipe = control->recipes.buckets[i], *next; recipe != NULL;
             recipe = next) {
            next = recipe->next;
            if (recipe->set == set) {
                TT_ASSERT(recipe->uses == (recipe->idle != NULL ? 2 : 1));
                table_leave(control, recipe);
            }
        }
    }
}

/* ---- keys ---- */

/* 2^64 over the golden ratio, made odd: spreads bits well (Fibonacci hashing). */
static const uint64_t MIX = UINT64_C(0x9e3779b97f4a7c15);

static uint16_t traits_of(const tt_request *request)
{
    const bool is_titled = request->name != NULL && request->name[0] != 0;
    return (uint16_t)((request->input == request->output ? TRAIT_IN_PLACE : 0) |
                      (request->collective == TT_SEND ? TRAIT_SENDS : 0) |
                      (request->shape[0] != 0 ? TRAIT_SHAPED : 0) | (is_titled ? TRAIT_TITLED : 0));
}

/* The count of an uneven call may differ from run to run. */
TT_INLINE uint64_t count_of(const tt_request *request)
{
    return request->is_uneven || TT_PLANT(RECIPE_OF_ANOTHER_COUNT) ? 0 : request->count;
}

TT_INLINE uint64_t hash_of(const tt_set *set, const tt_request *request)
{
    const uint64_t kind = (uint64_t)request->collective ^ (uint64_t)request->dtype << 8 ^
                          (uint64_t)request->redop << 16 ^ (uint64_t)set->id << 32;
    uint64_t hash = (count_of(request) + kind * MIX) * MIX;
    if (request->name != NULL) {
        hash ^= tt_hash64(request->name, strlen(request->name), 0);
    }
    return hash ^ hash >> 32;
}

/* Are the name and shape of the recipe, which has both or one, the request's? */
static bool has_title(const tt_recipe *recipe, const tt_request *request)
{
    TT_DEBUG_ASSERT((recipe->traits & (TRAIT_SHAPED | TRAIT_TITLED)) != 0);
    return ((recipe->traits & TRAIT_SHAPED) == 0 ||
            memcmp(request->shape, recipe->claim.shape, TT_SHAPE_BYTES) == 0) &&
           ((recipe->traits & TRAIT_TITLED) == 0 ||
            strncmp(request->name, recipe->claim.name, TT_NAME_BYTES - 1) == 0);
}

/* Was it prepared for such a call, under the current settings? */
TT_INLINE bool is_for(const tt_control *control, const tt_recipe *recipe, const tt_set *set,
                      const tt_request *request, uint16_t traits)
{
    const bool is_settled = recipe->settings == control->settings ||
                            (TT_PLANT(SETTING_NOT_IN_KEY) && control->world.rank == 0);
    const uint32_t segment =
        TT_PLANT(SETTING_NOT_IN_KEY) ? recipe->key.segment_bytes : request->segment_bytes;
    return tt_request_has_key(request, count_of(request), segment, &recipe->key) &&
           (recipe->traits & TRAITS_OF_KEY) == traits && recipe->set == set && is_settled &&
           ((traits & (TRAIT_SHAPED | TRAIT_TITLED)) == 0 || has_title(recipe, request));
}

/* May such a call be repeated? A barrier about a set is not. An uneven reducescatter has its parts
 * in the claim, which would have to be built again for a comparison. */
static bool is_kept(const tt_request *request)
{
    return !(request->is_uneven && request->collective == TT_REDUCESCATTER) &&
           request->about == TT_ABOUT_NOTHING && !(request->salt != 0 && request->name == NULL);
}

TT_INLINE tt_recipe *find(const tt_control *control, const tt_set *set, const tt_request *request,
                          uint16_t traits)
{
    tt_recipe *recipe = request->recipe;
    if (recipe == NULL || recipe->stamp != request->recipe_stamp) {
        recipe = control->recipes.last; /* calls often repeat at once */
    }
    if (recipe != NULL &&
        (TT_PLANT(HINT_NOT_CHECKED) || is_for(control, recipe, set, request, traits))) {
        return recipe;
    }
    recipe = control->recipes.buckets[hash_of(set, request) % RECIPE_BUCKETS];
    while (recipe != NULL && !is_for(control, recipe, set, request, traits)) {
        recipe = recipe->next;
    }
    TT_DEBUG_ASSERT(recipe == NULL || recipe->is_in);
    return recipe;
}

/* ---- making ---- */

static void claim_of(const tt_control *control, const tt_set *set, const tt_request *request,
                     tt_claim *claim_out)
{
    tt_claim_make(claim_out, request, set->size);
    claim_out->salt = tt_op_salt(control, claim_out->salt, request->segment_bytes);
    if (claim_out->codec != 0) {
        claim_out->codec = tt_scheme_code_in(request->program);
    }
    if (request->name != NULL) {
        const size_t length = strnlen(request->name, sizeof(claim_out->name) - 1);
        memcpy(claim_out->name, request->name, length);
        claim_out->name[length] = 0;
    }
}

static tt_recipe *make(tt_control *control, tt_set *set, const tt_request *request, uint16_t traits,
                       uint32_t stage_count)
{
    tt_claim claim;
    claim_of(control, set, request, &claim);
    const uint8_t size = size_for(stage_count, strlen(claim.name) + 1);
    tt_recipe *recipe = block_take(control, size);
    if (recipe == NULL && stage_count == 0) {
        recipe = control->recipes.spare;
        control->recipes.spare = NULL;
        TT_ASSERT(recipe != NULL); /* a call that uses it ends before the next is submitted */
    }
    if (recipe == NULL) {
        return NULL;
    }
    TT_DEBUG_ASSERT(recipe->uses == 0 && recipe->idle == NULL && !recipe->is_in);
    TT_DEBUG_ASSERT(block_sizes[recipe->size].stages >= stage_count);
    recipe->stamp = control->recipes.next_stamp++;
    recipe->key = tt_request_key_of(request);
    recipe->key.count = count_of(request);
    recipe->hash = hash_of(set, request);
    recipe->set = set;
    recipe->settings = control->settings;
    recipe->traits = traits;
    recipe->stage_count = (uint8_t)stage_count;
    recipe->uses = 0;
    tt_claim_copy(&recipe->claim, &claim);
    recipe->descriptor = tt_claim_hash(&claim, (traits & TRAIT_PAIR) != 0 ? 2 : set->size);
    return recipe;
}

enum { LONG_BYTES_MIN = 128 * 1024 }; /* for these the cost of reading the clock is negligible */

/* Does every run exchange the caller's buffers directly? */
static bool is_straight(const tt_recipe *recipe, const tt_request *request)
{
    const tt_stage *first = &recipe->stages[0];
    return recipe->stage_count == 1 && first->kind == TT_STAGE_EXCHANGE && !first->is_late &&
           first->problem.codec == NULL && first->from == TT_RUN_INPUT &&
           first->to == TT_RUN_OUTPUT && request->prescale == 1.0 &&
           request->collective != TT_ALLTOALL && request->redop != TT_AVERAGE;
}

static bool is_coded(const tt_recipe *recipe)
{
    bool has_codec = false;
    for (uint32_t i = 0; i < recipe->stage_count; i++) {
        has_codec = has_codec || recipe->stages[i].problem.codec != NULL;
    }
    return has_codec;
}

/* Traits that follow from the stages. */
static uint16_t derived_traits(const tt_recipe *recipe, const tt_request *request)
{
    TT_DEBUG_ASSERT(recipe->stage_count > 0);
    const tt_stage *first = &recipe->stages[0];
    const bool is_flat = first->executor == &tt_executor_flat;
    const bool is_brief = is_flat && recipe->stage_count == 1;
    const bool is_launch = first->kind == TT_STAGE_AGREE;
    TT_DEBUG_ASSERT(first->kind != TT_STAGE_PLACES || recipe->stage_count > 1);
    const bool is_short_place =
        first->kind == TT_STAGE_PLACES && recipe->stages[1].problem.bytes < LONG_BYTES_MIN;
    return (uint16_t)((is_brief ? TRAIT_BRIEF : 0) |
                      (is_straight(recipe, request) ? TRAIT_STRAIGHT : 0) |
                      (is_launch ? TRAIT_ENGINE : 0) | (is_coded(recipe) ? TRAIT_CODED : 0) |
                      (is_flat && (is_brief || is_launch || is_short_place) ? TRAIT_SAMPLED : 0));
}

/* NULL: no memory. */
static tt_recipe *prepare(tt_control *control, tt_set *set, const tt_request *request,
                          uint16_t traits)
{
    tt_stage stages[TT_STAGES_MAX];
    const uint32_t count = tt_op_program(control, set, request, traits, stages);
    TT_DEBUG_ASSERT(count > 0 && count <= TT_STAGES_MAX);
    tt_recipe *recipe = make(control, set, request, traits, count);
    if (recipe == NULL) {
        return NULL;
    }
    memcpy(recipe->stages, stages, count * sizeof(*stages));
    recipe->traits |= derived_traits(recipe, request);
    const uint32_t self = stages[0].problem.self, size = stages[0].problem.size;
    const size_t width = tt_dtype_bytes(request->dtype);
    recipe->input_bytes =
        request->is_uneven ? 0 : tt_request_input_count(request, self, size) * width;
    recipe->output_bytes = tt_request_output_count(request, self, size) * width;
    if (is_kept(request)) {
        table_enter(control, recipe);
    }
    return recipe;
}

/* Requests that the machine itself makes come without one. */
static void segment_set(const tt_control *control, tt_request *request)
{
    TT_DEBUG_ASSERT(control->config.segment_bytes > 0);
    if (request->segment_bytes == 0) {
        request->segment_bytes = control->config.segment_bytes;
    }
}

tt_recipe *tt_recipe_of(tt_control *control, tt_set *set, tt_request *request,
                        const tt_space *space)
{
    const uint16_t traits = traits_of(request) | space->traits;
    segment_set(control, request);
    tt_recipe *recipe = is_kept(request) ? find(control, set, request, traits) : NULL;
    if (recipe == NULL) {
        recipe = prepare(control, set, request, traits);
    }
    request->recipe = recipe;
    request->recipe_stamp = recipe != NULL ? recipe->stamp : 0;
    TT_DEBUG_ASSERT(recipe == NULL || recipe->set == set);
    return recipe;
}

tt_recipe *tt_recipe_barren(tt_control *control, tt_set *set, tt_request *request,
                            const tt_space *space)
{
    segment_set(control, request);
    return make(control, set, request, traits_of(request) | space->traits | TRAIT_BARREN, 0);
}

/* Are the buffers of the request valid for it, so that no other check is needed? */
static bool takes(const tt_recipe *recipe, const tt_request *request)
{
    const uintptr_t input = (uintptr_t)request->input, output = (uintptr_t)request->output;
    const uint64_t input_bytes = recipe->input_bytes, output_bytes = recipe->output_bytes;
    if ((input == 0 && input_bytes > 0) || (output == 0 && output_bytes > 0) ||
        request->output_capacity > 0) {
        return false;
    }
    const bool is_apart = input + input_bytes <= output || output + output_bytes <= input;
    return is_apart || input_bytes == 0 || output_bytes == 0 ||
           (input == output && request->collective == TT_ALLREDUCE);
}

/* Is the request more than a call that was prepared before and has valid buffers? */
TT_INLINE bool is_special(const tt_request *request)
{
    const bool is_pair = request->collective == TT_SEND || request->collective == TT_RECEIVE;
    return request->name != NULL || is_pair || request->program != NULL ||
           ((uint32_t)request->objection | (uint32_t)request->about | request->is_join |
            request->is_uneven) != 0;
}

tt_recipe *tt_recipe_known(tt_control *control, tt_set *set, tt_request *request)
{
    if (is_special(request)) {
        return NULL;
    }
    tt_recipe *recipe = find(control, set, request, traits_of(request));
    if (recipe == NULL || !takes(recipe, request)) {
        return NULL;
    }
    TT_DEBUG_ASSERT((recipe->traits & (TRAIT_BARREN | TRAIT_PAIR)) == 0);
    request->recipe = control->recipes.last = recipe;
    request->recipe_stamp = recipe->stamp;
    return recipe;
}

/* ---- idle ops ---- */

bool tt_idle_keep(tt_op *op)
{
    tt_control *control = op->control;
    tt_recipe *recipe = op->recipe;
    const size_t bytes = op->exec.counted_bytes + op->work_bytes;
    TT_ASSERT(op->phase == OP_FREE && !op->exec.is_running);
    if (!recipe->is_in || recipe->idle != NULL || bytes > IDLE_BYTES_MAX ||
        op->exec.slots != NULL) {
        return false;
    }
    if (control->recipes.idle_count == IDLE_MAX) {
        (void)tt_idle_drop_one(control);
    }
    TT_DEBUG_ASSERT(control->recipes.idle_count < IDLE_MAX);
    recipe->idle = op;
    op->is_warm = (recipe->traits & TRAIT_STRAIGHT) != 0; /* its memory stays as it is */
    control->recipes.idle_count++;
    return true;
}

bool tt_idle_drop_one(tt_control *control)
{
    tt_recipes *recipes = &control->recipes;
    for (uint32_t i = 0; recipes->idle_count > 0 && i < control->op_count; i++) {
        recipes->idle_hand = (recipes->idle_hand + 1) % control->op_count;
        tt_op *op = control->ops[recipes->idle_hand];
        if (op->recipe != NULL && op->recipe->idle == op) {
            idle_drop(control, op->recipe);
            return true;
        }
    }
    return false;
}
