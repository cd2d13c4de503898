/* SPDX-License-Identifier: Apache-2.0
 *
 * prepare.c - from a request to a problem: checks, descriptor, facts, offsets, buffers. */
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/reduce.h"
#include "control/control_internal.h"
#include "control/engine.h"
#include "control/quick.h"

#define COUNT_MAX (UINT64_C(1) << 48) /* elements of any buffer: no sum of bytes overflows */

static bool is_reduction(tt_collective collective)
{
    return collective == TT_ALLREDUCE || collective == TT_REDUCE || collective == TT_REDUCESCATTER;
}

static bool is_rooted(tt_collective collective)
{
    return collective == TT_REDUCE || collective == TT_BROADCAST || collective == TT_GATHER ||
           collective == TT_SCATTER;
}

static bool is_pair(tt_collective collective)
{
    return collective == TT_SEND || collective == TT_RECEIVE;
}

static uint64_t sum_of(const uint64_t *counts, uint32_t size)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < size; i++) {
        sum = counts[i] > COUNT_MAX - sum ? COUNT_MAX : sum + counts[i];
    }
    return sum;
}

/* Elements this rank gives. */
static uint64_t input_count(const tt_request *request, uint32_t self, uint32_t size)
{
    switch (request->collective) {
    case TT_RECEIVE:
    case TT_BARRIER:
        return 0;
    case TT_BROADCAST:
        return self == request->root ? request->count : 0;
    case TT_SCATTER:
        if (self != request->root) {
            return 0;
        }
        return request->is_uneven ? sum_of(request->input_counts, size) : request->count * size;
    case TT_REDUCESCATTER:
    case TT_ALLTOALL:
        return request->is_uneven ? sum_of(request->input_counts, size) : request->count * size;
    default:
        return request->count;
    }
}

uint64_t tt_request_output_count(const tt_request *request, uint32_t self, uint32_t size)
{
    switch (request->collective) {
    case TT_SEND:
    case TT_BARRIER:
        return 0;
    case TT_REDUCE:
        return self == request->root ? request->count : 0;
    case TT_GATHER:
        return self != request->root || request->is_uneven ? 0 : request->count * size;
    case TT_ALLGATHER:
    case TT_ALLTOALL:
        return request->is_uneven ? 0 : request->count * size;
    case TT_SCATTER:
        return request->is_uneven ? 0 : request->count;
    case TT_REDUCESCATTER:
        return request->is_uneven ? request->input_counts[self] : request->count;
    default:
        return request->count;
    }
}

/* Input and output may not overlap, but for the in-place forms: all of it, or of a gather the own
 * part where it belongs. */
static bool overlaps_badly(const tt_request *request, uint64_t in_count, uint64_t out_count,
                           uint64_t own_offset)
{
    const uint64_t element_bytes = tt_dtype_bytes(request->dtype);
    const uint64_t in_bytes = in_count * element_bytes, out_bytes = out_count * element_bytes;
    const uintptr_t in = (uintptr_t)request->input, out = (uintptr_t)request->output;
    if (in_bytes == 0 || out_bytes == 0 || in + in_bytes <= out || out + out_bytes <= in) {
        return false;
    }
    if (request->collective == TT_ALLGATHER || request->collective == TT_GATHER) {
        return in != out + own_offset * element_bytes;
    }
    return in != out || in_bytes != out_bytes;
}

static tt_status check_counts(const tt_request *request, uint32_t self, uint32_t size,
                              tt_text *text)
{
    const bool is_root = !is_rooted(request->collective) || request->root == self;
    const bool has_counts = request->collective == TT_REDUCESCATTER ||
                            request->collective == TT_ALLTOALL ||
                            (request->collective == TT_SCATTER && is_root);
    if (request->is_uneven && has_counts && request->input_counts == NULL) {
        tt_text_add(text, "input_counts is NULL");
        return TT_ERR_BAD_ARGUMENT;
    }
    if (request->count > COUNT_MAX / size || input_count(request, self, size) >= COUNT_MAX) {
        tt_text_add(text, "count is too large");
        return TT_ERR_BAD_ARGUMENT;
    }
    if (request->input == NULL && input_count(request, self, size) > 0) {
        tt_text_add(text, "input is NULL");
        return TT_ERR_BAD_ARGUMENT;
    }
    const uint64_t output_count = tt_request_output_count(request, self, size);
    if (request->output == NULL && request->allocate == NULL && output_count > 0) {
        tt_text_add(text, "output is NULL");
        return TT_ERR_BAD_ARGUMENT;
    }
    if (request->output_capacity > 0 && request->output_capacity < output_count) {
        tt_text_add(text, "output has room for %llu elements, %llu are needed",
                    (unsigned long long)request->output_capacity, (unsigned long long)output_count);
        return TT_ERR_BAD_ARGUMENT;
    }
    const uint64_t in_count = input_count(request, self, size);
    if (overlaps_badly(request, in_count, output_count, self * in_count)) {
        tt_text_add(text, "input and output overlap");
        return TT_ERR_BAD_ARGUMENT;
    }
    return TT_OK;
}

static tt_status check_adasum(const tt_request *request, uint32_t size, tt_text *text)
{
    if (request->collective != TT_ALLREDUCE) {
        tt_text_add(text, "op adasum exists for allreduce only");
        return TT_ERR_BAD_ARGUMENT;
    }
    if ((size & (size - 1)) != 0) {
        tt_text_add(text, "op adasum needs 2, 4, 8 ... ranks, the process set has %u", size);
        return TT_ERR_BAD_ARGUMENT;
    }
    return TT_OK;
}

static tt_status check_any_source(const tt_request *request, uint32_t size, tt_text *text)
{
    if (request->collective == TT_SEND) {
        tt_text_add(text, "peer %d (any source) is for receives; name the rank to send to",
                    (int)request->root);
        return TT_ERR_BAD_ARGUMENT;
    }
    if (size == 1) {
        tt_text_add(text, "the process set has no other rank to receive from");
        return TT_ERR_BAD_ARGUMENT;
    }
    return TT_OK;
}

tt_status tt_request_check(const tt_request *request, uint32_t self, uint32_t size, tt_text *text)
{
    if ((uint32_t)request->collective >= TT_COLLECTIVE_COUNT) {
        tt_text_add(text, "unknown collective %d", (int)request->collective);
        return TT_ERR_BAD_ARGUMENT;
    }
    if (request->collective == TT_BARRIER) {
        return TT_OK;
    }
    if (!tt_dtype_is_valid((int)request->dtype)) {
        tt_text_add(text, "unknown dtype %d", (int)request->dtype);
        return TT_ERR_BAD_ARGUMENT;
    }
    if (is_reduction(request->collective) && (!tt_redop_is_valid((int)request->redop) ||
                                              !tt_redop_allowed(request->dtype, request->redop))) {
        tt_text_add(text, "op %s does not exist for dtype %s", tt_redop_name(request->redop),
                    tt_dtype_name(request->dtype));
        return TT_ERR_BAD_ARGUMENT;
    }
    if (is_reduction(request->collective) && request->redop == TT_ADASUM) {
        TT_TRY(check_adasum(request, size, text));
    }
    if (is_pair(request->collective) && request->root == TT_ANY_SOURCE) {
        TT_TRY(check_any_source(request, size, text));
    } else if ((is_rooted(request->collective) || is_pair(request->collective)) &&
               request->root >= size) {
        tt_text_add(text, "%s %d is not in the process set of %u ranks",
                    is_pair(request->collective) ? "peer" : "root", (int)request->root, size);
        return TT_ERR_BAD_ARGUMENT;
    }
    if (is_pair(request->collective) && request->root == self) {
        tt_text_add(text, "peer %u is this rank itself", self);
        return TT_ERR_BAD_ARGUMENT;
    }
    return check_counts(request, self, size, text);
}

void tt_op_describe(tt_op *op)
{
    const tt_request *request = op->request;
    const uint32_t seed = op->is_pair ? 2 : op->set->size;
    tt_claim claim;
    tt_claim_make(&claim, request, op->set->size);
    claim.salt = tt_op_salt(op->control, claim.salt, request->segment_bytes);
    if (request->name != NULL) {
        const size_t length = tt_min_u64(strlen(request->name), sizeof(claim.name) - 1);
        memcpy(claim.name, request->name, length);
        claim.name[length] = 0;
    }
    /* Calls repeat: an op taken for the same claim as last time has its hash already. */
    if (op->descriptor_seed != seed || !tt_claim_equals(&op->claim, &claim)) {
        tt_claim_copy(&op->claim, &claim);
        op->descriptor = tt_claim_hash(&claim, seed);
        op->descriptor_seed = seed;
    }
}

/* ---- buffers for facts, counts and offsets ---- */

static tt_status facts_reserve(tt_op *op)
{
    const size_t size = tt_op_size(op);
    const size_t facts = size * sizeof(tt_fact);
    const size_t offsets = 2 * (size + 1) * sizeof(uint64_t);
    const size_t counts = 2 * size * sizeof(uint64_t);
    const size_t bits = (size + 63) / 64 * sizeof(uint64_t);
    const size_t bytes = facts + offsets + counts + bits;
    if (op->facts_bytes < bytes) {
        tt_platform_release(op->control->platform, op->facts, op->facts_bytes);
        op->facts_bytes = 0;
        op->facts = tt_platform_allocate(op->control->platform, bytes);
        if (op->facts == NULL) {
            return TT_ERR_NO_MEMORY;
        }
        op->facts_bytes = bytes;
    }
    uint8_t *at = (uint8_t *)op->facts;
    op->offsets = (void *)(at + facts);
    op->counts = (void *)(at + facts + offsets);
    op->stopped = (void *)(at + facts + offsets + counts);
    memset(op->stopped, 0, bits);
    return TT_OK;
}

/* The algorithm that is configured, else the one that costs least; NULL: the built-in one. Of
 * uneven parts a rank knows its own only: costs, which depend on bytes, have no say there. */
static const char *preferred(const tt_op *op, const tt_problem *problem)
{
    const char *forced = op->control->config.algorithm;
    if (forced != NULL || op->is_pair || problem->is_uneven) {
        return forced;
    }
    const tt_algorithm *algorithm = tt_choice_find(&op->set->choice, problem);
    if (algorithm != NULL && problem->is_steady &&
        !(algorithm->is_by_rank && tt_algorithm_choose(problem, NULL)->is_by_rank)) {
        return NULL;
    }
    return algorithm != NULL ? algorithm->name : NULL;
}

/* May it be exchanged together with others: by the threshold of now, or by another one (see
 * TT_STEADY_BYTES)? */
static bool may_be_fused(const tt_op *op)
{
    const tt_request *request = op->request;
    const tt_topology *topology = &op->set->topology;
    const uint64_t fuse_bytes = op->control->config.fuse_bytes;
    const size_t width = tt_dtype_bytes(request->dtype);
    if (topology->host_count > 2 && topology->host_count < tt_op_size(op)) {
        return (request->count <= fuse_bytes / width) != request->is_tuned;
    }
    return request->count <= tt_max_u64(fuse_bytes, TT_STEADY_BYTES) / width;
}

/* What may be exchanged together with others, now or another time, must not tell by its bits. */
static bool is_steady(const tt_op *op)
{
    const tt_request *request = op->request;
    return request->collective == TT_ALLREDUCE && tt_redop_is_elementwise(request->redop) &&
           (op->space == SPACE_AGREED || op->space == SPACE_PLANNED) &&
           (request->salt != 0 || may_be_fused(op));
}

void tt_op_choose(tt_op *op)
{
    const tt_request *request = op->request;
    const tt_control_config *config = &op->control->config;
    const size_t element_bytes = tt_dtype_bytes(request->dtype);
    const bool is_barrier = request->collective == TT_BARRIER;
    const tt_problem problem = {
        .collective = request->collective,
        .dtype = request->dtype,
        .redop = request->redop,
        .self = tt_op_self(op),
        .size = tt_op_size(op),
        .root = op->is_pair ? 0 : request->root,
        .element_bytes = is_barrier ? 1 : (uint32_t)element_bytes,
        .segment_bytes =
            request->segment_bytes > 0 ? request->segment_bytes : config->segment_bytes,
        .bytes = is_barrier ? 0 : request->count * element_bytes,
        .postscale = is_reduction(request->collective) ? request->postscale : 1.0,
        .is_in_place = request->input == request->output,
        .is_uneven = request->is_uneven,
        .is_steady = is_steady(op),
        .topology = op->is_pair ? NULL : &op->set->topology,
    };
    tt_exec_pose(&op->exec, &problem, preferred(op, &problem));
    op->exec.divisor =
        is_reduction(request->collective) && request->redop == TT_AVERAGE ? op->divisor : 1;
}

static bool exchanges_counts(const tt_op *op)
{
    return op->request->is_uneven && op->request->collective != TT_REDUCESCATTER;
}

bool tt_op_needs_facts(const tt_op *op)
{
    return op->by_engine || exchanges_counts(op) || op->exec.algorithm->needs_facts;
}

static bool scales(const tt_request *request)
{
    return is_reduction(request->collective) && request->prescale != 1.0 && !request->is_identity;
}

static bool copies(const tt_request *request)
{
    return request->collective == TT_ALLTOALL && request->input == request->output;
}

/* Where the input lies once it is prepared. */
static const uint8_t *prepared_input(const tt_op *op)
{
    const tt_request *request = op->request;
    if (!scales(request) && !copies(request)) {
        return request->input;
    }
    return request->collective == TT_ALLREDUCE ? request->output : op->prescaled;
}

/* Scale the input before anything is sent: into the output where that is as long, else apart.
 * In-place all-to-all needs a copy too: parts would overwrite what was not yet sent. */
static tt_status prepare_input(tt_op *op)
{
    const tt_request *request = op->request;
    op->exec.input = request->input;
    op->exec.output = request->output;
    if (!scales(request) && !copies(request)) {
        return TT_OK;
    }
    const uint64_t count = input_count(request, tt_op_self(op), tt_op_size(op));
    const size_t bytes = count * tt_dtype_bytes(request->dtype);
    if (bytes == 0) {
        return TT_OK; /* there may be no memory to scale into */
    }
    if (request->collective != TT_ALLREDUCE && op->prescaled_bytes < bytes) {
        tt_platform_release(op->control->platform, op->prescaled, op->prescaled_bytes);
        op->prescaled_bytes = 0;
        op->prescaled = tt_platform_allocate(op->control->platform, bytes);
        if (op->prescaled == NULL) {
            return TT_ERR_NO_MEMORY;
        }
        op->prescaled_bytes = bytes;
    }
    uint8_t *target = request->collective == TT_ALLREDUCE ? request->output : op->prescaled;
    tt_scale(request->dtype, target, request->input, count,
             scales(request) ? request->prescale : 1.0);
    op->exec.input = target;
    return TT_OK;
}

/* Of the buffers that peers read or write: do they lie in the arena? What nobody reaches need not,
 * and counts as beside the other. */
static bool locate_shared(const tt_op *op, tt_place *input_out, tt_place *output_out)
{
    tt_platform *platform = op->control->platform;
    const tt_request *request = op->request;
    const uint32_t self = tt_op_self(op), size = tt_op_size(op);
    const size_t element_bytes = op->exec.problem.element_bytes;
    const bool is_given = request->collective == TT_ALLGATHER || request->collective == TT_GATHER ||
                          request->collective == TT_ALLTOALL;
    const bool is_taken =
        request->collective == TT_SCATTER || request->collective == TT_REDUCESCATTER;
    const size_t input_bytes = is_given ? 0 : input_count(request, self, size) * element_bytes;
    const size_t output_bytes =
        is_taken ? 0 : tt_request_output_count(request, self, size) * element_bytes;
    *input_out = *output_out = (tt_place){0};
    if (input_bytes > 0 &&
        !platform->ops->locate(platform, op->exec.input, input_bytes, input_out)) {
        return false;
    }
    if (output_bytes == 0) {
        output_out->region = input_out->region;
        return true;
    }
    return platform->ops->locate(platform, op->exec.output, output_bytes, output_out) &&
           (input_bytes == 0 || input_out->region == output_out->region);
}

bool tt_op_locate(tt_op *op)
{
    tt_place input, output;
    if (!locate_shared(op, &input, &output)) {
        return false;
    }
    op->fact = (tt_fact){.is_shared = 1,
                         .input_offset = input.offset,
                         .output_offset = output.offset,
                         .region = output.region};
    return true;
}

/* Where the own buffers lie in the arena, or where they will be staged. */
static tt_status locate_buffers(tt_op *op)
{
    tt_platform *platform = op->control->platform;
    tt_exec *exec = &op->exec;
    tt_place slots;
    op->fact = (tt_fact){0};
    if (tt_op_locate(op)) {
        return TT_OK;
    }
    exec->algorithm->plan(&exec->problem, &exec->plan);
    if (exec->plan.slot_bytes == 0) {
        return TT_OK;
    }
    TT_TRY(tt_exec_reserve_slots(exec, exec->plan.slot_bytes));
    tt_order *order = tt_order_of(op->set, op->space);
    if (order != NULL && !op->is_extra) { /* planned ops never wait for slots: see the README */
        op->is_counted = true;
        order->staged_count++;
    }
    if (!platform->ops->locate(platform, exec->slots, exec->slots_bytes, &slots)) {
        return TT_ERR_NO_RESOURCE;
    }
    op->fact.input_offset = op->fact.output_offset = slots.offset;
    op->fact.region = slots.region;
    return TT_OK;
}

static tt_status output_reserve(tt_op *op, uint64_t count, tt_text *text)
{
    tt_request *request = op->request;
    const size_t bytes = count * tt_dtype_bytes(request->dtype);
    if (request->output == NULL && request->allocate != NULL) {
        request->output = request->allocate(request, bytes > 0 ? bytes : 1);
        if (request->output == NULL) {
            tt_text_add(text, "no memory for an output of %zu bytes", bytes);
            return TT_ERR_NO_MEMORY;
        }
    } else if (count > request->output_capacity && request->is_uneven &&
               request->collective != TT_REDUCESCATTER) {
        tt_text_add(text, "output has room for %llu elements, %llu are needed",
                    (unsigned long long)request->output_capacity, (unsigned long long)count);
        return TT_ERR_BAD_ARGUMENT;
    }
    return TT_OK;
}

static void facts_problem(tt_op *op, tt_collective collective, uint64_t bytes)
{
    tt_problem problem = op->exec.problem;
    problem.collective = collective;
    problem.dtype = TT_U8;
    problem.element_bytes = 1;
    problem.bytes = bytes;
    tt_exec_pose(&op->exec, &problem, "pairwise");
}

tt_status tt_op_prepare_facts(tt_op *op, tt_text *text)
{
    const tt_request *request = op->request;
    if (op->by_engine) {
        return tt_engine_prepare(op, text);
    }
    TT_TRY(facts_reserve(op));
    if (!exchanges_counts(op)) {
        if (request->output == NULL) {
            TT_TRY(output_reserve(
                op, tt_request_output_count(request, tt_op_self(op), tt_op_size(op)), text));
        }
        TT_TRY(prepare_input(op));
        TT_TRY(locate_buffers(op));
        op->has_views = true;
        facts_problem(op, TT_ALLGATHER, sizeof(tt_fact));
        op->has_views = true; /* who has all places may store here from now on */
        op->exec.input = (const uint8_t *)&op->fact;
        op->exec.output = (uint8_t *)op->facts;
        return TT_OK;
    }
    op->exec.output = (uint8_t *)op->counts;
    if (request->collective == TT_ALLTOALL || request->collective == TT_SCATTER) {
        facts_problem(op, request->collective, sizeof(uint64_t));
        op->exec.input = (const uint8_t *)request->input_counts;
        return TT_OK;
    }
    facts_problem(op, TT_ALLGATHER, sizeof(uint64_t));
    op->fact.is_shared = request->count;
    op->exec.input = (const uint8_t *)&op->fact.is_shared;
    return TT_OK;
}

/* offsets[i + 1] - offsets[i] = counts[i] elements, in bytes; false: peers told nonsense. */
static bool offsets_from(uint64_t *offsets, const uint64_t *counts, uint32_t size,
                         uint64_t element_bytes)
{
    offsets[0] = 0;
    for (uint32_t i = 0; i < size; i++) {
        if (counts[i] >= COUNT_MAX || offsets[i] / element_bytes + counts[i] >= COUNT_MAX) {
            return false;
        }
        offsets[i + 1] = offsets[i] + counts[i] * element_bytes;
    }
    return true;
}

/* Do the counts that were exchanged differ from those this rank has room for, part by part? */
static bool is_unexpected(const tt_op *op, tt_text *text)
{
    const tt_request *request = op->request;
    const bool has_all = request->collective == TT_ALLGATHER || request->collective == TT_ALLTOALL;
    for (uint32_t i = 0; request->is_expected && has_all && i < op->exec.problem.size; i++) {
        if (op->counts[i] != request->output_counts[i]) {
            tt_text_add(text, "rank %u gives %llu elements, %llu are expected",
                        tt_op_member_rank(op, i), (unsigned long long)op->counts[i],
                        (unsigned long long)request->output_counts[i]);
            return true;
        }
    }
    return false;
}

/* Uneven parts: offsets from the counts that were exchanged, counts for the user. */
static tt_status apply_counts(tt_op *op, tt_text *text)
{
    tt_request *request = op->request;
    tt_problem *problem = &op->exec.problem;
    const uint32_t size = problem->size, self = problem->self;
    const bool is_root = request->root == self;
    const uint64_t *inner = op->counts; /* of part_offsets */
    uint64_t output_count = 0;
    if (request->collective == TT_ALLTOALL || request->collective == TT_REDUCESCATTER ||
        (request->collective == TT_SCATTER && is_root)) {
        inner = request->input_counts;
    } else if (request->collective == TT_SCATTER) { /* only the own part is known */
        const uint64_t own = op->counts[0];
        memset(op->counts, 0, size * sizeof(uint64_t));
        op->counts[self] = own;
    }
    uint64_t *output_offsets = op->offsets + size + 1;
    bool is_good = offsets_from(op->offsets, inner, size, problem->element_bytes);
    problem->part_offsets = op->offsets;
    switch (request->collective) {
    case TT_ALLTOALL:
        is_good = is_good && offsets_from(output_offsets, op->counts, size, problem->element_bytes);
        problem->output_offsets = output_offsets;
        output_count = is_good ? output_offsets[size] / problem->element_bytes : 0;
        break;
    case TT_SCATTER:
    case TT_REDUCESCATTER:
        output_count = inner[self];
        break;
    default:
        output_count = request->collective == TT_GATHER && !is_root
                           ? 0
                           : op->offsets[size] / problem->element_bytes;
        break;
    }
    if (!is_good) {
        tt_text_add(text, "the ranks' counts add up to too much");
        return TT_ERR_BAD_ARGUMENT;
    }
    if (is_unexpected(op, text)) {
        return TT_ERR_BAD_ARGUMENT;
    }
    if (request->output_counts != NULL) {
        if (request->collective == TT_SCATTER || request->collective == TT_REDUCESCATTER) {
            request->output_counts[0] = output_count;
        } else if (request->collective != TT_GATHER || is_root) {
            memcpy(request->output_counts, op->counts, size * sizeof(uint64_t));
        }
    }
    if (overlaps_badly(request, input_count(request, self, size), output_count,
                       op->offsets[self] / problem->element_bytes)) {
        tt_text_add(text, "input and output overlap");
        return TT_ERR_BAD_ARGUMENT;
    }
    return output_reserve(op, output_count, text);
}

tt_status tt_op_prepare_data(tt_op *op, tt_text *text)
{
    tt_request *request = op->request;
    const bool has_facts = op->phase == OP_FACTS;
    if (has_facts &&
        !op->by_engine) { /* else it was chosen when the op began, or is the engine's */
        tt_op_choose(op);
    }
    if (request->is_uneven) {
        TT_TRY(facts_reserve(op));
        TT_TRY(apply_counts(op, text));
    } else if (request->output == NULL) {
        TT_TRY(output_reserve(op, tt_request_output_count(request, tt_op_self(op), tt_op_size(op)),
                              text));
    }
    if (has_facts && !op->by_engine && op->exec.algorithm->needs_facts) {
        op->exec.problem.facts = op->facts;
        op->exec.output = request->output;
        op->exec.input = prepared_input(op);
        return TT_OK;
    }
    return prepare_input(op);
}
