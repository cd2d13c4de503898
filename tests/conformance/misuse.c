/* SPDX-License-Identifier: Apache-2.0
 *
 * misuse.c - see misuse.h. */
#include "conformance/misuse.h"

#include <stdio.h>
#include <string.h>

enum { ELEMENTS = 10, CACHED_ROUNDS = 2, PLANNED_ROUNDS = 6 };

static bool is_reduction(tutti_collective base)
{
    return base == TUTTI_ALLREDUCE || base == TUTTI_REDUCE || base == TUTTI_REDUCESCATTER;
}

static bool is_rooted(tutti_collective base)
{
    return base == TUTTI_REDUCE || base == TUTTI_BROADCAST;
}

/* ---- the table ---- */

static bool fits_base(misuse_what what, tutti_collective base)
{
    switch (what) {
    case MISUSE_OP:
    case MISUSE_PRESCALE:
    case MISUSE_POSTSCALE:
        return is_reduction(base);
    case MISUSE_ROOT:
        return is_rooted(base);
    case MISUSE_FORM:
        return base == TUTTI_ALLGATHER || base == TUTTI_ALLTOALL;
    case MISUSE_ACTIVE:
    case MISUSE_DEVICE:
    case MISUSE_ARGUMENT:
        return base == TUTTI_ALLREDUCE;
    case MISUSE_GROUP_SIZE:
    case MISUSE_GROUP_MEMBER:
    case MISUSE_GROUP_NAME:
    case MISUSE_APART:
        return false;
    case MISUSE_TOGETHER:
        return base == TUTTI_ALLREDUCE || base == TUTTI_ALLGATHER;
    default:
        return true;
    }
}

static bool is_grouped(misuse_state state)
{
    return state == MISUSE_GROUPED || state == MISUSE_GROUP_FRESH || state == MISUSE_GROUP_PLANNED;
}

static bool is_many(misuse_state state)
{
    return is_grouped(state) || state == MISUSE_FUSED;
}

/* True: all calls of the round fail. */
static bool is_whole(const misuse_case *one)
{
    return one->state != MISUSE_FUSED || one->what == MISUSE_TOGETHER;
}

static bool fits(misuse_state state, misuse_what what, tutti_collective base)
{
    const bool is_group = what >= MISUSE_GROUP_SIZE && what <= MISUSE_APART;
    const bool is_objection = what == MISUSE_DEVICE || what == MISUSE_ARGUMENT;
    if (is_objection && (state == MISUSE_GROUPED || state == MISUSE_FUSED)) {
        return false; /* fails where it is started: its name is in use until the others know */
    }
    switch (state) {
    case MISUSE_PLANNED: /* a root may be done before the others; active counts are not planned */
        return fits_base(what, base) && !is_rooted(base) && what != MISUSE_ACTIVE;
    case MISUSE_GROUPED:
        return base == TUTTI_ALLREDUCE && what != MISUSE_TOGETHER &&
               (is_group || fits_base(what, base));
    case MISUSE_GROUP_FRESH:
    case MISUSE_GROUP_PLANNED:
        return base == TUTTI_ALLREDUCE && is_group;
    case MISUSE_FUSED:
        return base == TUTTI_ALLREDUCE && fits_base(what, base) && what != MISUSE_ACTIVE;
    default:
        return fits_base(what, base);
    }
}

bool misuse_at(int number, int size, misuse_case *one_out)
{
    static const tutti_collective bases[] = {TUTTI_ALLREDUCE, TUTTI_REDUCE,        TUTTI_BROADCAST,
                                             TUTTI_ALLGATHER, TUTTI_REDUCESCATTER, TUTTI_ALLTOALL};
    int count = 0;
    for (int state = 0; state < MISUSE_STATES; state++) {
        for (size_t base = 0; base < sizeof(bases) / sizeof(bases[0]); base++) {
            for (int what = 0; what < MISUSE_WHATS; what++) {
                if (!fits((misuse_state)state, (misuse_what)what, bases[base])) {
                    continue;
                }
                if (number - count < MISUSE_WHOS) {
                    *one_out = (misuse_case){.number = number,
                                             .base = bases[base],
                                             .what = (misuse_what)what,
                                             .state = (misuse_state)state,
                                             .who = (misuse_who)(number - count),
                                             .size = size};
                    return true;
                }
                count += MISUSE_WHOS;
            }
        }
    }
    return false;
}

void misuse_describe(const misuse_case *one, char *text, size_t bytes)
{
    static const char *const whats[] = {"dtype",        "shape",      "op",        "root",
                                        "collective",   "prescale",   "postscale", "form",
                                        "active",       "device",     "argument",  "group size",
                                        "group member", "group name", "apart",     "together"};
    static const char *const states[] = {"fresh", "cached",        "planned",        "grouped",
                                         "fused", "grouped fresh", "grouped planned"};
    static const char *const whos[] = {"one", "half", "all"};
    (void)snprintf(text, bytes, "case %d of %d ranks: %s of a %s collective %d, by %s", one->number,
                   one->size, whats[one->what], states[one->state], (int)one->base, whos[one->who]);
}

/* ---- rounds ---- */

int misuse_rounds(const misuse_case *one)
{
    static const int before[] = {[MISUSE_FRESH] = 0,
                                 [MISUSE_CACHED] = CACHED_ROUNDS,
                                 [MISUSE_PLANNED] = PLANNED_ROUNDS,
                                 [MISUSE_GROUPED] = CACHED_ROUNDS,
                                 [MISUSE_FUSED] = CACHED_ROUNDS,
                                 [MISUSE_GROUP_FRESH] = 0,
                                 [MISUSE_GROUP_PLANNED] = PLANNED_ROUNDS};
    return before[one->state] + 2;
}

bool misuse_is_wrong(const misuse_case *one, int round)
{
    return round == misuse_rounds(one) - 2;
}

/* 0: right. One rank deviates, the upper half, or every rank in its own way. */
static int variant_of(const misuse_case *one, int rank)
{
    switch (one->who) {
    case MISUSE_BY_ONE:
        return rank == one->number % one->size ? 1 : 0;
    case MISUSE_BY_HALF:
        return rank >= one->size / 2 ? 1 : 0;
    default:
        return rank;
    }
}

static void deviate(const misuse_case *one, int variant, misuse_memory *memory, tutti_call *call)
{
    static const tutti_dtype dtypes[] = {TUTTI_F32, TUTTI_I32, TUTTI_F64, TUTTI_I64,
                                         TUTTI_U8,  TUTTI_F16, TUTTI_I8,  TUTTI_BF16};
    static const tutti_collective others[] = {TUTTI_ALLREDUCE, TUTTI_ALLGATHER, TUTTI_ALLTOALL,
                                              TUTTI_REDUCESCATTER};
    switch (one->what) {
    case MISUSE_DTYPE:
        call->dtype = dtypes[variant];
        break;
    case MISUSE_SHAPE:
        call->count = (uint64_t)(ELEMENTS + variant);
        break;
    case MISUSE_OP:
        call->op = (tutti_op)(variant % (TUTTI_MAX + 1));
        break;
    case MISUSE_ROOT:
        call->root = variant;
        break;
    case MISUSE_COLLECTIVE:
        for (int i = 0; i < 4 && variant > 0; i++) { /* one that differs from the base */
            const tutti_collective other = others[(i + variant) % 4];
            call->collective = other != one->base ? other : others[(i + variant + 1) % 4];
            break;
        }
        break;
    case MISUSE_PRESCALE:
        call->prescale = 1.0 + variant;
        break;
    case MISUSE_POSTSCALE:
        call->postscale = 1.0 + variant;
        break;
    case MISUSE_FORM:
        if (variant > 0) {
            call->input_counts = memory->input_counts;
            call->output_counts = memory->output_counts;
            call->output_capacity = ELEMENTS * MISUSE_SIZE_MAX;
        }
        break;
    case MISUSE_ACTIVE:
        call->op = TUTTI_AVERAGE;
        call->flags = variant > 0 ? TUTTI_BY_ACTIVE : 0;
        break;
    case MISUSE_DEVICE:
        call->device = variant > 0 ? variant : -1;
        break;
    case MISUSE_ARGUMENT:
        call->count = variant > 0 ? UINT64_MAX / 2 : ELEMENTS;
        break;
    default:
        break;
    }
}

static void fill(const misuse_case *one, int rank, int index, misuse_memory *memory,
                 tutti_call *call)
{
    const tutti_call plain = TUTTI_CALL_INIT;
    float *input = (float *)(void *)memory->input[index];
    for (int i = 0; i < MISUSE_BUFFER_BYTES / 4; i++) {
        input[i] = (float)(rank + 1);
    }
    memset(memory->output[index], 0, MISUSE_BUFFER_BYTES);
    (void)snprintf(memory->names[index], sizeof(memory->names[index]), "tensor %d.%d", one->number,
                   index);
    *call = plain;
    call->collective = one->base;
    call->name = memory->names[index];
    call->input = memory->input[index];
    call->output = memory->output[index];
    call->count = ELEMENTS;
    for (int i = 0; i < MISUSE_SIZE_MAX; i++) {
        memory->input_counts[i] = 3;
        memory->output_counts[i] = 0;
    }
}

/* Sets the group of these calls, in this variant. */
static void put_together(const misuse_case *one, int variant, misuse_memory *memory,
                         tutti_call *calls, int count)
{
    const bool is_apart = one->what == MISUSE_APART && variant > 0;
    const bool is_put = one->what == MISUSE_TOGETHER && variant > 0;
    const int kind = one->what == MISUSE_GROUP_NAME || is_put ? variant : 0;
    (void)snprintf(memory->group, sizeof(memory->group), "tensor group %d.%d", one->number, kind);
    for (int i = 0; i < count && !is_apart && (is_put || is_grouped(one->state)); i++) {
        calls[i].group = memory->group;
        calls[i].group_size = count;
    }
}

int misuse_calls(const misuse_case *one, int round, int rank, misuse_memory *memory,
                 tutti_call *calls)
{
    const int variant = misuse_is_wrong(one, round) ? variant_of(one, rank) : 0;
    int count = is_many(one->state) ? MISUSE_CALLS_MAX : 1;
    if (one->what == MISUSE_GROUP_SIZE && variant > 0) {
        count = 1 + (variant - 1) % 2;
    }
    for (int i = 0; i < count; i++) {
        fill(one, rank, i, memory, &calls[i]);
    }
    put_together(one, variant, memory, calls, count);
    if (misuse_is_wrong(one, round)) {
        deviate(one, variant, memory, &calls[is_many(one->state) ? 1 % count : 0]);
    }
    if (one->what == MISUSE_GROUP_MEMBER && variant > 0) {
        (void)snprintf(memory->names[1], sizeof(memory->names[1]), "another %d", variant);
    }
    return count;
}

/* ---- outcomes ---- */

static const char *judge_right(const misuse_case *one, int round, const misuse_outcome *outcome,
                               const char *mode)
{
    const int calls = is_many(one->state) ? 3 : 1;
    const bool is_planned = one->state == MISUSE_PLANNED || one->state == MISUSE_GROUP_PLANNED;
    for (int rank = 0; rank < one->size; rank++) {
        for (int i = 0; i < calls; i++) {
            if (outcome->statuses[rank][i] != TUTTI_OK) {
                return "a right call failed";
            }
        }
    }
    const bool is_last_before = round == misuse_rounds(one) - 3;
    if (is_last_before && is_planned && strcmp(mode, "plan") != 0) {
        return "it is not planned";
    }
    if (is_last_before && !is_planned && strcmp(mode, "bitvector") != 0) {
        return "it is not cached";
    }
    return NULL;
}

/* The name of the tensor that differs; or, where a group does, of the group or one of its members.
 */
static bool is_named(const misuse_case *one, const char *text)
{
    const bool is_put = one->what >= MISUSE_GROUP_SIZE && one->what <= MISUSE_TOGETHER;
    char tensor[32], group[32];
    (void)snprintf(tensor, sizeof(tensor), "tensor %d.", one->number);
    (void)snprintf(group, sizeof(group), "tensor group %d.", one->number);
    if (is_put) {
        return strstr(text, tensor) != NULL || strstr(text, group) != NULL;
    }
    (void)snprintf(tensor, sizeof(tensor), "\"tensor %d.%d\"", one->number,
                   is_many(one->state) ? 1 : 0);
    return strstr(text, tensor) != NULL;
}

/* Claims differ: the text has the tensor's name, and every rank. */
static const char *judge_text(const misuse_case *one, const char *text)
{
    const bool is_objection = one->what == MISUSE_DEVICE || one->what == MISUSE_ARGUMENT;
    char culprit[32];
    (void)snprintf(culprit, sizeof(culprit), "rank %d", one->number % one->size);
    if (strstr(text, "rank") == NULL) {
        return "the text names no rank";
    }
    if (!is_objection && !is_named(one, text)) {
        return "the text does not name the tensor";
    }
    if (one->who == MISUSE_BY_ONE && strstr(text, culprit) == NULL) {
        return "the text does not name the rank that deviates";
    }
    return NULL;
}

/* A rank that objects to its own call, or to a planned one, may get that error at once; the others
 * get one of these errors, all the same one. */
static bool is_told_alike(const misuse_case *one, const misuse_outcome *outcome, int wrong)
{
    const bool is_objection = one->what == MISUSE_DEVICE || one->what == MISUSE_ARGUMENT ||
                              one->state == MISUSE_PLANNED || one->state == MISUSE_GROUP_PLANNED;
    const char *first = NULL;
    for (int rank = 0; rank < one->size; rank++) {
        const char *text = outcome->texts[rank][wrong];
        char own[32];
        (void)snprintf(own, sizeof(own), "rank %d: ", rank);
        if (is_objection && variant_of(one, rank) > 0 && strstr(text, own) != NULL) {
            continue;
        }
        if (first != NULL && strcmp(text, first) != 0) {
            return false;
        }
        first = text;
    }
    return true;
}

const char *misuse_judge(const misuse_case *one, int round, const misuse_outcome *outcome,
                         const char *mode)
{
    if (!misuse_is_wrong(one, round)) {
        return judge_right(one, round, outcome, mode);
    }
    const tutti_status wanted = one->what == MISUSE_DEVICE     ? TUTTI_ERR_UNSUPPORTED
                                : one->what == MISUSE_ARGUMENT ? TUTTI_ERR_BAD_ARGUMENT
                                                               : TUTTI_ERR_MISMATCH;
    const int wrong = is_whole(one) ? 0 : 1;
    for (int rank = 0; rank < one->size; rank++) {
        if (outcome->statuses[rank][wrong] != wanted) {
            return "a wrong call did not end as it must";
        }
        const char *bad = judge_text(one, outcome->texts[rank][wrong]);
        if (bad != NULL) {
            return bad;
        }
        for (int i = 0; !is_whole(one) && i < 3; i += 2) {
            if (outcome->statuses[rank][i] != TUTTI_OK) {
                return "a right call beside the wrong one failed";
            }
        }
    }
    return is_told_alike(one, outcome, wrong) ? NULL : "two ranks got different errors";
}

/* Element `at` of the collective's result on a rank. */
static float right_value(const misuse_case *one, int at)
{
    switch (one->base) {
    case TUTTI_BROADCAST:
        return 1.0f; /* of root 0 */
    case TUTTI_ALLGATHER:
    case TUTTI_ALLTOALL:
        return (float)(at / ELEMENTS + 1);
    default:
        return (float)(one->size * (one->size + 1) / 2);
    }
}

bool misuse_is_right(const misuse_case *one, const misuse_memory *memory)
{
    const int calls = is_many(one->state) ? 3 : 1;
    const bool has_all = one->base == TUTTI_ALLGATHER || one->base == TUTTI_ALLTOALL;
    const float own = *(const float *)(const void *)memory->input[0];
    if (one->base == TUTTI_REDUCE && own != 1.0f) {
        return true; /* root 0 alone has the sum */
    }
    for (int i = 0; i < calls; i++) {
        const float *output = (const float *)(const void *)memory->output[i];
        for (int k = 0; k < (has_all ? one->size : 1) * ELEMENTS; k++) {
            if (output[k] != right_value(one, k)) {
                return false;
            }
        }
    }
    return true;
}
