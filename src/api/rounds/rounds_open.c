/* SPDX-License-Identifier: Apache-2.0
 *
 * rounds_open.c - tutti_sync as it is opened, gets tensors, counts and is closed; see rounds.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api_internal.h"
#include "api/raise.h"
#include "api/rounds/rounds.h"
#include "base/base.h"
#include "codec/codec.h"

_Static_assert((int)TUTTI_F32 == (int)TT_F32 && (int)TUTTI_F64 == (int)TT_F64, "one numbering");

/* What ranks compare at the start. */
typedef struct notice {
    int32_t status; /* of the checks of one rank */
    int32_t host;
    char policy[ROUNDS_TEXT_BYTES], codec[ROUNDS_TEXT_BYTES];
    char text[ROUNDS_TEXT_BYTES];
} notice;

tutti_status tt_rounds_check(const tutti_sync *sync)
{
    if (sync == NULL) {
        return tt_error_raise(TUTTI_ERR_BAD_ARGUMENT, "sync is NULL; call tutti_sync_open first");
    }
    tt_error_about(sync->context);
    return TUTTI_OK;
}

static tutti_status out_of_memory(void)
{
    return tt_error_set(TUTTI_ERR_NO_MEMORY, "out of memory for a sync; this host needs more");
}

/* ---- open ---- */

/* Row 16 of what is refused: coding a model anew in each round leaves an error that never goes. */
static tt_status check_codec(const tt_when *when, const char *policy, const char *codec,
                             tt_text *why)
{
    tt_codec_spec spec;
    if (codec[0] == '\0' || strcmp(codec, "none") == 0) {
        return TT_OK;
    }
    if (when->policy->quantity == TT_QUANTITY_MODEL) {
        tt_text_add(why,
                    "policy %s exchanges models, and codec %s would round their weights in every "
                    "round; use outer:lr=1, which exchanges deltas",
                    policy, codec);
        return TT_ERR_BAD_ARGUMENT;
    }
    return tt_codec_parse(codec, &spec, why);
}

static tt_status check(tutti_sync *sync, tt_text *why)
{
    TT_TRY(tt_when_parse(sync->policy, &sync->when, why));
    if (sync->when.inside > 0 && sync->set != TUTTI_WORLD) {
        tt_text_add(why, "policy %s needs the ranks of each host; open it on TUTTI_WORLD",
                    sync->policy);
        return TT_ERR_BAD_ARGUMENT;
    }
    return check_codec(&sync->when, sync->policy, sync->codec, why);
}

static tutti_status compare(const tutti_sync *sync, const notice *notices, int size)
{
    for (int i = 0; i < size; i++) {
        if (notices[i].status != TUTTI_OK) {
            return tt_error_set((tutti_status)notices[i].status, "%s", notices[i].text);
        }
    }
    for (int i = 1; i < size; i++) {
        const bool is_policy = strcmp(notices[0].policy, notices[i].policy) != 0;
        if (is_policy || strcmp(notices[0].codec, notices[i].codec) != 0) {
            return tt_error_set(TUTTI_ERR_MISMATCH,
                                "ranks open a sync with different %s: rank 0 of set %u with "
                                "\"%.100s\", rank %d with \"%.100s\"; use the same on all",
                                is_policy ? "policies" : "codecs", sync->set,
                                is_policy ? notices[0].policy : notices[0].codec, i,
                                is_policy ? notices[i].policy : notices[i].codec);
        }
    }
    return TUTTI_OK;
}

/* Every rank creates the set of every host. */
static tutti_status make_host_sets(tutti_sync *sync, const notice *notices, int size)
{
    int *ranks = calloc((size_t)size, sizeof(*ranks));
    tutti_status status = ranks != NULL ? TUTTI_OK : out_of_memory();
    for (int host = 0; host < tutti_cross_size(sync->context) && status == TUTTI_OK; host++) {
        int count = 0;
        tutti_set set = TUTTI_WORLD;
        for (int i = 0; i < size; i++) {
            if (notices[i].host == host) {
                ranks[count++] = i;
            }
        }
        status = tutti_set_create(sync->context, ranks, count, &set);
        if (status == TUTTI_OK && host == tutti_cross_rank(sync->context)) {
            sync->host_set = set;
            sync->has_host_set = true;
        }
    }
    free(ranks);
    return status;
}

static tutti_status meet(tutti_sync *sync)
{
    const int size = tutti_set_size(sync->context, sync->set);
    notice own = {.host = tutti_cross_rank(sync->context)};
    tt_text why = {0};
    if (size <= 0) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT, "this rank is no member of set %u", sync->set);
    }
    own.status = (int32_t)check(sync, &why);
    (void)snprintf(own.policy, sizeof(own.policy), "%s", sync->policy);
    (void)snprintf(own.codec, sizeof(own.codec), "%s", sync->codec);
    (void)snprintf(own.text, sizeof(own.text), "%.250s", why.bytes);
    notice *notices = calloc((size_t)size, sizeof(*notices));
    if (notices == NULL) {
        return out_of_memory();
    }
    tutti_call call = TUTTI_CALL_INIT;
    call.collective = TUTTI_ALLGATHER;
    call.dtype = TUTTI_U8;
    call.set = sync->set;
    call.input = &own;
    call.output = notices;
    call.count = sizeof(own);
    tutti_status status = tutti_run(sync->context, &call);
    if (status == TUTTI_OK) {
        status = compare(sync, notices, size);
    }
    if (status == TUTTI_OK && sync->when.inside > 0) {
        status = make_host_sets(sync, notices, size);
    }
    free(notices);
    return status;
}

static bool make_flights(tutti_sync *sync)
{
    const bool is_pipeline = sync->when.policy->quantity == TT_QUANTITY_GRADIENT;
    sync->flight_count = is_pipeline && sync->when.delay > 0 ? sync->when.delay : 1;
    sync->flights = calloc(sync->flight_count, sizeof(*sync->flights));
    sync->last_round = calloc(sync->when.fragments, sizeof(*sync->last_round));
    return sync->flights != NULL && sync->last_round != NULL;
}

tutti_status tutti_sync_open(tutti_context *context, tutti_set set, const char *policy,
                             const char *codec, tutti_sync **sync_out)
{
    tutti_status status = tt_call_check(context);
    if (status != TUTTI_OK) {
        return status;
    }
    tt_error_about(context);
    if (policy == NULL || sync_out == NULL || strlen(policy) >= ROUNDS_TEXT_BYTES ||
        (codec != NULL && strlen(codec) >= ROUNDS_TEXT_BYTES)) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT,
                            "policy or sync_out is NULL, or policy or codec has more than %d "
                            "bytes",
                            ROUNDS_TEXT_BYTES - 1);
    }
    tutti_sync *sync = calloc(1, sizeof(*sync));
    if (sync == NULL) {
        return out_of_memory();
    }
    sync->context = context;
    sync->set = set;
    (void)snprintf(sync->policy, sizeof(sync->policy), "%s", policy);
    (void)snprintf(sync->codec, sizeof(sync->codec), "%s", codec != NULL ? codec : "");
    status = meet(sync);
    if (status == TUTTI_OK && !make_flights(sync)) {
        status = out_of_memory();
    }
    if (status != TUTTI_OK) {
        tutti_sync_close(sync);
        return status;
    }
    *sync_out = sync;
    return TUTTI_OK;
}

/* ---- tensors ---- */

static tutti_status check_tensor(const tutti_sync *sync, const rounds_tensor *wanted,
                                 const char *name)
{
    if (name == NULL || name[0] == '\0' || strnlen(name, ROUNDS_NAME_BYTES) == ROUNDS_NAME_BYTES) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT,
                            "a tensor of a sync needs a name of 1 to %d "
                            "bytes",
                            ROUNDS_NAME_BYTES - 1);
    }
    if (sync->step > 0) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT,
                            "tensor '%s' is added after the first step; add all before it", name);
    }
    if (wanted->values == NULL && wanted->count > 0) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT, "tensor '%s': values is NULL", name);
    }
    if (wanted->dtype != TUTTI_F32 && wanted->dtype != TUTTI_F64) {
        return tt_error_set(TUTTI_ERR_UNSUPPORTED,
                            "tensor '%s' is neither f32 nor f64; integers have no mean: leave them "
                            "out, and add the f32 copy of weights in shorter floats",
                            name);
    }
    if (wanted->is_state && sync->when.state == TT_STATE_UNSAID) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT,
                            "tensor '%s': policy %.100s does not say what a round does with state "
                            "of the optimizer; add state=keep, average or reset (policy local)",
                            name, sync->policy);
    }
    for (uint32_t i = 0; i < sync->tensor_count; i++) {
        if (strcmp(sync->tensors[i].name, name) == 0) {
            return tt_error_set(TUTTI_ERR_BAD_ARGUMENT,
                                "tensor '%s' was added before; give it another name", name);
        }
    }
    return TUTTI_OK;
}

static void release_tensor(rounds_tensor *tensor)
{
    for (uint32_t i = 0; i < TT_WHEN_PLANES_MAX; i++) {
        free(tensor->planes[i]);
    }
    free(tensor->exchanged);
}

/* The anchor begins as the values, other planes with zeros. */
static bool make_planes(const tutti_sync *sync, rounds_tensor *tensor)
{
    const uint64_t bytes = tensor->count * tutti_dtype_bytes(tensor->dtype);
    bool has_all = true;
    if (!tt_rounds_exchanges(sync, tensor)) {
        return true;
    }
    for (uint32_t i = 0; i < sync->when.policy->plane_count; i++) {
        tensor->planes[i] = calloc(1, bytes + 1);
        has_all = has_all && tensor->planes[i] != NULL;
    }
    tensor->exchanged = calloc(sync->flight_count, bytes + 1);
    has_all = has_all && tensor->exchanged != NULL;
    if (has_all && tensor->planes[0] != NULL && bytes > 0) {
        memcpy(tensor->planes[0], tensor->values, bytes);
    }
    return has_all;
}

static bool grow(tutti_sync *sync)
{
    if (sync->tensor_count < sync->tensor_capacity) {
        return true;
    }
    const uint32_t larger = sync->tensor_capacity > 0 ? 2 * sync->tensor_capacity : 16;
    rounds_tensor *grown = realloc(sync->tensors, larger * sizeof(*grown));
    if (grown == NULL) {
        return false;
    }
    sync->tensors = grown;
    sync->tensor_capacity = larger;
    return true;
}

static tutti_status add(tutti_sync *sync, const rounds_tensor *wanted, const char *name)
{
    tutti_status status = tt_rounds_check(sync);
    if (status == TUTTI_OK) {
        status = check_tensor(sync, wanted, name);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    rounds_tensor tensor = *wanted;
    tensor.first = sync->elements;
    (void)snprintf(tensor.name, sizeof(tensor.name), "%s", name);
    if (!make_planes(sync, &tensor) || !grow(sync)) {
        release_tensor(&tensor);
        return out_of_memory();
    }
    sync->tensors[sync->tensor_count++] = tensor;
    sync->elements += tensor.is_state ? 0 : tensor.count;
    return TUTTI_OK;
}

tutti_status tutti_sync_add(tutti_sync *sync, const char *name, void *values, uint64_t count,
                            tutti_dtype dtype)
{
    const rounds_tensor wanted = {.values = values, .count = count, .dtype = dtype};
    return add(sync, &wanted, name);
}

tutti_status tutti_sync_add_state(tutti_sync *sync, const char *name, void *values, uint64_t count,
                                  tutti_dtype dtype)
{
    const rounds_tensor wanted = {
        .is_state = true, .values = values, .count = count, .dtype = dtype};
    return add(sync, &wanted, name);
}

/* ---- counts, close ---- */

tutti_status tutti_sync_count(tutti_sync *sync, tutti_sync_counts *counts_io)
{
    const tutti_status status = tt_rounds_check(sync);
    if (status != TUTTI_OK) {
        return status;
    }
    if (counts_io == NULL || counts_io->struct_bytes != sizeof(*counts_io)) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT, "counts_io is NULL or not initialised; begin "
                                                    "with TUTTI_SYNC_COUNTS_INIT");
    }
    sync->counts.struct_bytes = sizeof(*counts_io);
    sync->counts.steps = sync->step;
    *counts_io = sync->counts;
    return TUTTI_OK;
}

void tutti_sync_close(tutti_sync *sync)
{
    if (sync == NULL) {
        return;
    }
    tt_rounds_drop(sync);
    for (uint32_t i = 0; i < sync->tensor_count; i++) {
        release_tensor(&sync->tensors[i]);
    }
    free(sync->tensors);
    free(sync->flights);
    free(sync->last_round);
    free(sync);
}
