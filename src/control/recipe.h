/* SPDX-License-Identifier: Apache-2.0
 *
 * recipe.h - a call prepared once: its claim, and the stages that run it.
 *
 * An op is one run of a recipe. Calls find theirs by a hint of their request, or in a table. A
 * changed setting changes the key, so recipes made under the old setting age out.
 *
 * Invariants:
 *  (1) A recipe does not change, except for `uses`, `idle` and its place in lists.
 *  (2) It lives while the table, an op that is not over, or the record of an op that is over
 *      refers to it. An idle op uses its recipe, too. The block stays until the machine ends: a
 * stale hint reads a stamp that is not its own. (3) `idle` is an op that succeeded and is laid out
 * for this recipe; it is in no other list. At most IDLE_MAX ops are idle, each with at most
 * IDLE_BYTES_MAX of memory. Beyond that they return to the free ops in rotation: with more recipes
 * in use a better choice gains nothing. (4) One block is always kept for a call that finds no
 * memory. It has no stages: such a call ends at once, and objects with the reason.
 *
 * Layer:   control, private.
 * Threads: as control.h.
 * Memory:  blocks from the platform, in lists by size, kept for reuse.
 */
#ifndef TUTTI_CONTROL_RECIPE_H
#define TUTTI_CONTROL_RECIPE_H

#include <string.h>

#include "aggregate/aggregate.h"
#include "base/assert.h"
#include "control/claim.h"
#include "control/control.h"
#include "control/space/space.h"

enum {
    RECIPES_MAX = 1024,       /* in the table, without a name */
    NAMED_RECIPES_MAX = 4096, /* with one */
    RECIPE_BUCKETS = 1024,
    RECIPE_SIZES = 6, /* of blocks: by stages and length of the name */
    IDLE_MAX = 128,
    IDLE_BYTES_MAX = 8 * 1024,
};

/* NAMED to TITLED are part of the key, the others follow from it. */
enum {
    TRAIT_NAMED = 1, /* its sums have one order of additions, whatever they are fused with */
    TRAIT_IN_PLACE = 2,
    TRAIT_PAIR = 4,
    TRAIT_SENDS = 8,    /* of a pair */
    TRAIT_PLANNED = 16, /* never run by an engine: see engine.c (2) */
    TRAIT_SHAPED = 32,  /* its claim has a shape, */
    TRAIT_TITLED = 64,  /* a name */
    TRAITS_OF_KEY = 127,
    TRAIT_ENGINE = 128,
    TRAIT_BRIEF = 256,     /* one short frame to all: never held, never split into steps */
    TRAIT_SAMPLED = 512,   /* so short that only one call in many is timed */
    TRAIT_STRAIGHT = 1024, /* one exchange directly on the caller's buffers */
    TRAIT_BARREN = 2048,   /* has no stages: this rank objects to the call */
    TRAIT_CODED = 4096,    /* its data are sent coded */
};

/* What a request asks for, as its first fields: calls with the same key, set, name and shape share
 * a recipe. */
typedef struct tt_request_key {
    tt_collective collective;
    tt_dtype dtype;
    tt_redop redop;
    bool is_uneven, is_by_active, is_alone, is_tuned;
    uint64_t count;
    uint64_t prescale, postscale; /* their bits */
    uint32_t root, segment_bytes;
    uint64_t salt;
    const tt_program *program;
} tt_request_key;

_Static_assert(sizeof(tt_request_key) == 64, "a recipe's first cache line");

static inline uint64_t tt_scale_bits(double scale)
{
    uint64_t bits;
    memcpy(&bits, &scale, sizeof(bits));
    return bits;
}

/* Does a request of this count and segment have the key? Compared field by field, each as wide as
 * it was written: a wider load of fields that have just been stored would wait for the stores. */
static inline bool tt_request_has_key(const tt_request *request, uint64_t count, uint32_t segment,
                                      const tt_request_key *key)
{
    if (count != key->count) { /* in this, calls differ most often */
        return false;
    }
    const uint32_t kind = ((uint32_t)request->collective ^ (uint32_t)key->collective) |
                          ((uint32_t)request->dtype ^ (uint32_t)key->dtype) |
                          ((uint32_t)request->redop ^ (uint32_t)key->redop) |
                          (request->root ^ key->root) | (segment ^ key->segment_bytes);
    const uint32_t form = (uint32_t)(request->is_uneven ^ key->is_uneven) |
                          (uint32_t)(request->is_by_active ^ key->is_by_active) |
                          (uint32_t)(request->is_alone ^ key->is_alone) |
                          (uint32_t)(request->is_tuned ^ key->is_tuned);
    const uint64_t rest = (request->salt ^ key->salt) |
                          (tt_scale_bits(request->prescale) ^ key->prescale) |
                          (tt_scale_bits(request->postscale) ^ key->postscale) |
                          ((uintptr_t)request->program ^ (uintptr_t)key->program);
    return (kind | form | rest) == 0;
}

static inline tt_request_key tt_request_key_of(const tt_request *request)
{
    return (tt_request_key){
        .collective = request->collective,
        .dtype = request->dtype,
        .redop = request->redop,
        .is_uneven = request->is_uneven,
        .is_by_active = request->is_by_active,
        .is_alone = request->is_alone,
        .is_tuned = request->is_tuned,
        .count = request->count,
        .prescale = tt_scale_bits(request->prescale),
        .postscale = tt_scale_bits(request->postscale),
        .root = request->root,
        .segment_bytes = request->segment_bytes,
        .salt = request->salt,
        .program = request->program,
    };
}

/* The fields that every run reads come first, in two cache lines. */
typedef struct tt_recipe {
    tt_request_key key; /* of an uneven call without its count */
    tt_set *set;
    uint64_t settings;
    uint64_t stamp;                     /* never reused; 0: free */
    uint64_t input_bytes, output_bytes; /* on this rank; uneven: unknown */
    uint64_t descriptor;
    tt_op *idle; /* or NULL */
    uint32_t uses;
    uint16_t traits;
    uint8_t stage_count;
    bool is_in; /* the table */

    tt_stage *stages;
    struct tt_recipe *next;       /* in its bucket, or among the free ones of its size */
    struct tt_recipe *next_block; /* of all */
    uint64_t hash;                /* of the key */
    uint8_t size;                 /* which of RECIPE_SIZES */
    tt_claim claim;               /* allocated up to the end of its name */
} tt_recipe;

_Static_assert(offsetof(tt_recipe, stages) == 128, "see above");

typedef struct tt_recipes {
    tt_recipe *buckets[RECIPE_BUCKETS];
    tt_recipe *last;    /* of the table: the one found last; or NULL */
    uint32_t counts[2]; /* in the table: without a name, with one */
    uint32_t hand;      /* clock hand: bucket from which the next eviction searches */
    uint32_t idle_count;
    uint32_t idle_hand; /* clock hand: op from which the next idle one to free is searched */
    uint64_t next_stamp;
    tt_recipe *free[RECIPE_SIZES];
    tt_recipe *spare;
    tt_recipe *blocks;
} tt_recipes;

tt_status tt_recipes_init(tt_control *control);
void tt_recipes_fini(tt_control *control);

/* The recipe of such a call on this set, made if need be. NULL: no memory. A caller that
 * does not use it at once may lose it. */
tt_recipe *tt_recipe_of(tt_control *control, tt_set *set, tt_request *request,
                        const tt_space *space);
/* A recipe without stages, for a call that must not run. Never fails. */
tt_recipe *tt_recipe_barren(tt_control *control, tt_set *set, tt_request *request,
                            const tt_space *space);
/* The recipe of an unnamed call, if there is one and the request needs no other check; else NULL.
 */
tt_recipe *tt_recipe_known(tt_control *control, tt_set *set, tt_request *request);
static inline void tt_recipe_use(tt_recipe *recipe)
{
    TT_DEBUG_ASSERT(recipe->stamp != 0);
    recipe->uses++;
}
/* One use less. */
void tt_recipe_release(tt_control *control, tt_recipe *recipe);
/* The set is released: forget its recipes. */
void tt_recipe_forget_set(tt_control *control, const tt_set *set);

/* Keep an op that is over for the next call of its recipe; false: it is not kept. */
bool tt_idle_keep(tt_op *op);
/* Return one idle op to the free ops; false: none is idle. */
bool tt_idle_drop_one(tt_control *control);

#endif
