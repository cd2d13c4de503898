/* SPDX-License-Identifier: Apache-2.0
 *
 * prepare.c - prepares the stages of a request: checks, problem, facts, offsets, buffers. */
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/plant.h"
#include "control/control_internal.h"
#include "control/engine.h"
#include "kernel/reduce.h"

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
    TT_DEBUG_ASSERT(sum <= COUNT_MAX);
    return sum;
}

uint64_t tt_request_input_count(const tt_request *request, uint32_t self, uint32_t size)
{
    TT_DEBUG_ASSERT(size > 0);
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
    TT_DEBUG_ASSERT(size > 0);
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

/* Input and output may not overlap, except in place: all of it, or for a gather the own part at its
 * place of the output. */
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
    TT_DEBUG_ASSERT(size > 0);
    const bool is_root = !is_rooted(request->collective) || request->root == self;
    const bool has_counts = request->collective == TT_REDUCESCATTER ||
                            request->collective == TT_ALLTOALL ||
                            (request->collective == TT_SCATTER && is_root);
    if (request->is_uneven && has_counts && request->input_counts == NULL) {
        tt_text_add(text, "input_counts is NULL");
        return TT_ERR_BAD_ARGUMENT;
    }
    if (request->count > COUNT_MAX / size ||
        tt_request_input_count(request, self, size) >= COUNT_MAX) {
        tt_text_add(text, "count is too large");
        return TT_ERR_BAD_ARGUMENT;
    }
    if (request->input == NULL && tt_request_input_count(request, self, size) > 0) {
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
    const uint64_t in_count = tt_request_input_count(request, self, size);
    if (overlaps_badly(request, in_count, output_count, self * in_count)) {
        tt_text_add(text, "input and output overlap");
        return TT_ERR_BAD_ARGUMENT;
    }
    return TT_OK;
}

static tt_status check_adasum(const tt_request *request, uint32_t size, tt_text *text)
{
    TT_DEBUG_ASSERT(size > 0);
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

/* Adds "codec int8:block=512,ef=on ": the beginning of a refusal. */
static void add_codec(tt_text *text, const tt_scheme *scheme)
{
    char words[TT_CODEC_TEXT_BYTES];
    const tt_codec_spec *spec = NULL;
    for (uint32_t i = 0; i < scheme->phase_count && spec == NULL; i++) {
        spec = scheme->phases[i].program.codec;
    }
    TT_ASSERT(spec != NULL);
    tt_codec_print(spec, words);
    tt_text_add(text, "codec %s ", words);
}

static bool is_summable(const tt_scheme *scheme)
{
    bool has_one = false;
    for (uint32_t i = 0; i < scheme->phase_count; i++) {
        has_one = has_one || (tt_codec_traits(&scheme->phases[i].spec) & TT_CODEC_SUMMABLE) != 0;
    }
    return has_one;
}

static tt_status check_codec(const tt_request *request, uint32_t size, tt_text *text)
{
    const tt_scheme *scheme = request->program->scheme;
    const tt_dtype dtype = request->dtype;
    const tt_collective collective = request->collective;
    const bool is_copy = collective == TT_ALLGATHER || collective == TT_BROADCAST;
    const bool keeps_state = scheme->keeps_state && (!is_copy || scheme->phase_count > 1);
    const bool is_sum = is_copy || request->redop == TT_SUM || request->redop == TT_AVERAGE;
    if (!is_copy && collective != TT_ALLREDUCE && collective != TT_REDUCESCATTER) {
        add_codec(text, scheme);
        tt_text_add(text,
                    "is for allreduce, reducescatter, allgather and broadcast, not for %s; leave "
                    "the codec out",
                    tt_collective_name(collective));
    } else if (is_copy && request->is_uneven) {
        add_codec(text, scheme);
        tt_text_add(text, "needs parts of equal length; give no counts, or leave the codec out");
    } else if (dtype != TT_F32 && dtype != TT_F16 && dtype != TT_BF16) {
        add_codec(text, scheme);
        tt_text_add(text,
                    "takes f32, f16 and bf16, not %s; convert the tensor or leave the codec out",
                    tt_dtype_name(dtype));
    } else if (!is_sum) {
        add_codec(text, scheme);
        tt_text_add(text, "works with sum and average, not with %s; leave the codec out",
                    tt_redop_name(request->redop));
    } else if (collective == TT_ALLREDUCE && size > TT_CODEC_RANKS_MAX && is_summable(scheme)) {
        add_codec(text, scheme);
        tt_text_add(text, "adds up at most %d ranks, the process set has %u; use int8",
                    (int)TT_CODEC_RANKS_MAX, size);
    } else if (keeps_state && request->name == NULL && request->key == 0) {
        add_codec(text, scheme);
        tt_text_add(text,
                    "keeps state of its tensor; give the call a name, declare it, or use ef=off "
                    "and a single codec");
    }
    return text->length == 0 ? TT_OK : TT_ERR_BAD_ARGUMENT;
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
    if (request->program != NULL && request->program->scheme != NULL) {
        TT_TRY(check_codec(request, size, text));
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

/* ---- the program of a call ---- */

/* The algorithm that is configured, else the one that costs least; NULL: the built-in one. Of
 * uneven parts a rank knows only its own: costs, which depend on bytes, are not used there. */
static const char *preferred(const tt_control *control, const tt_set *set,
                             const tt_problem *problem)
{
    const char *forced = control->config.algorithm;
    if (forced != NULL || problem->topology == NULL || problem->is_uneven) {
        return forced;
    }
    const tt_algorithm *algorithm = tt_choice_find(&set->choice, problem);
    if (algorithm != NULL && problem->is_steady &&
        !(algorithm->is_by_rank && tt_algorithm_choose(problem, NULL)->is_by_rank)) {
        return NULL;
    }
    TT_ASSERT(algorithm == NULL || algorithm->fits(problem));
    return algorithm != NULL ? algorithm->name : NULL;
}

/* May it be fused: by the current threshold, or by another one (see TT_STEADY_BYTES)? */
static bool may_be_fused(const tt_control *control, const tt_set *set, const tt_request *request)
{
    const tt_topology *topology = &set->topology;
    const uint64_t fuse_bytes = control->config.fuse_bytes;
    const size_t width = tt_dtype_bytes(request->dtype);
    if (topology->host_count > 2 && topology->host_count < set->size) {
        return (request->count <= fuse_bytes / width) != request->is_tuned;
    }
    return request->count <= tt_max_u64(fuse_bytes, TT_STEADY_BYTES) / width;
}

/* A call that may be fused, now or later, must have the same result bits, fused or not. */
static bool is_steady(const tt_control *control, const tt_set *set, const tt_request *request,
                      uint16_t traits)
{
    return request->collective == TT_ALLREDUCE && tt_redop_is_elementwise(request->redop) &&
           (traits & TRAIT_NAMED) != 0 &&
           (request->salt != 0 || may_be_fused(control, set, request));
}

static bool exchanges_counts(const tt_request *request)
{
    return request->is_uneven && request->collective != TT_REDUCESCATTER;
}

uint32_t tt_op_program(const tt_control *control, const tt_set *set, const tt_request *request,
                       uint16_t traits, tt_stage stages[TT_STAGES_MAX])
{
    const tt_control_config *config = &control->config;
    const bool is_pair = (traits & TRAIT_PAIR) != 0;
    const bool is_barrier = request->collective == TT_BARRIER;
    const bool has_steps = request->program != NULL && request->program->scheme == NULL;
    const uint32_t element_bytes = is_barrier ? 1 : (uint32_t)tt_dtype_bytes(request->dtype);
    tt_program_input input = {
        .problem =
            {
                .collective = request->collective,
                .dtype = request->dtype,
                .redop = request->redop,
                .self = is_pair ? ((traits & TRAIT_SENDS) != 0 ? 0 : 1) : set->self,
                .size = is_pair ? 2 : set->size,
                .root = is_pair ? 0 : request->root,
                .element_bytes = element_bytes,
                .segment_bytes =
                    request->segment_bytes > 0 ? request->segment_bytes : config->segment_bytes,
                .bytes = is_barrier ? 0 : request->count * element_bytes,
                .postscale = is_reduction(request->collective) ? request->postscale : 1.0,
                .is_in_place = request->input == request->output,
                .is_uneven = request->is_uneven,
                .is_steady = is_steady(control, set, request, traits),
                .topology = is_pair ? NULL : &set->topology,
                .codec = tt_program_codec(request->program, set->size, &set->topology),
                .owner_block = request->program != NULL && request->program->scheme != NULL
                                   ? request->program->scheme->block
                                   : 0,
            },
        .eager_bytes_max = control->flow.eager_bytes_max,
        .by_engine = !is_pair && tt_engine_takes(set, request, traits),
        .exchanges_counts = exchanges_counts(request),
        .program = has_steps ? request->program : NULL,
    };
    TT_ASSERT(input.problem.self < input.problem.size);
    input.preferred = preferred(control, set, &input.problem);
    return tt_program_build(&input, stages);
}

/* ---- memory of a run ---- */

static tt_status room_reserve(tt_op *op)
{
    const size_t size = op->size;
    const size_t facts = size * sizeof(tt_fact);
    const size_t offsets = 2 * (size + 1) * sizeof(uint64_t);
    const size_t counts = 2 * size * sizeof(uint64_t);
    const size_t stopped = (size + 63) / 64 * sizeof(uint64_t);
    const size_t first = tt_round_up(sizeof(tt_room), 64);
    const size_t bytes = first + facts + offsets + counts + stopped;
    tt_room *room = op->room;
    if (room == NULL || room->bytes < bytes) {
        room = tt_platform_allocate(op->control->platform, bytes);
        if (room == NULL) {
            return TT_ERR_NO_MEMORY;
        }
        if (op->room != NULL) {
            TT_ASSERT(op->exec.laid_out != &op->room->late);
            tt_platform_release(op->control->platform, op->room, op->room->bytes);
        }
        room->bytes = bytes;
        op->room = room;
    }
    TT_DEBUG_ASSERT(op->room == room && room->bytes >= bytes);
    uint8_t *at = (uint8_t *)room + first;
    room->facts = (void *)at;
    room->offsets = (void *)(at + facts);
    room->counts = (void *)(at + facts + offsets);
    room->stopped = (void *)(at + facts + offsets + counts);
    memset(room->stopped, 0, stopped);
    return TT_OK;
}

/* A buffer of the caller that has bytes, real or phantom. */
static const void *caller_buffer(const tt_op *op)
{
    const tt_request *request = op->request;
    return request->output != NULL ? request->output : request->input;
}

static tt_status work_reserve(tt_op *op, size_t bytes)
{
    TT_DEBUG_ASSERT((op->work != NULL) == (op->work_bytes > 0));
    tt_platform *platform = op->control->platform;
    const void *like = caller_buffer(op);
    const bool is_useless = tt_is_phantom(platform, op->work) && !tt_is_phantom(platform, like);
    if (op->work_bytes < bytes || is_useless) {
        tt_platform_release(platform, op->work, op->work_bytes);
        op->work_bytes = 0;
        op->work = tt_platform_allocate_like(platform, TT_MEMORY_PRIVATE, like, bytes);
        if (op->work == NULL) {
            return TT_ERR_NO_MEMORY;
        }
        op->work_bytes = bytes;
    }
    TT_DEBUG_ASSERT(op->work_bytes >= bytes);
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

/* ---- the input ---- */

/* Coding multiplies by itself. */
static bool scales(const tt_op *op)
{
    const tt_request *request = op->request;
    return is_reduction(request->collective) && request->prescale != 1.0 && !request->is_identity &&
           (op->recipe->traits & TRAIT_CODED) == 0;
}

static bool copies(const tt_request *request)
{
    return request->collective == TT_ALLTOALL && request->input == request->output;
}

/* Where the input lies once it is prepared. */
static const uint8_t *prepared_input(const tt_op *op)
{
    const tt_request *request = op->request;
    if (!scales(op) && !copies(request)) {
        return request->input;
    }
    return request->collective == TT_ALLREDUCE ? request->output : op->work;
}

/* Scale the input before anything is sent: into the output where that is as long, else apart.
 * In-place all-to-all needs a copy too: parts would overwrite what was not yet sent. */
static tt_status prepare_input(tt_op *op)
{
    const tt_request *request = op->request;
    const bool is_apart = request->collective != TT_ALLREDUCE;
    if (!scales(op) && !copies(request)) {
        return TT_OK;
    }
    const uint64_t count = tt_request_input_count(request, op->self, op->size);
    const size_t bytes = count * tt_dtype_bytes(request->dtype);
    TT_DEBUG_ASSERT(count < COUNT_MAX);
    if (bytes == 0) {
        return TT_OK; /* there may be no memory to scale into */
    }
    if (is_apart) {
        TT_TRY(work_reserve(op, bytes));
    }
    TT_DEBUG_ASSERT(!is_apart || op->work_bytes >= bytes);
    if (tt_has_phantom(op->control->platform, request->input, request->output)) {
        return TT_OK;
    }
    tt_scale(request->dtype, is_apart ? op->work : request->output, request->input, count,
             scales(op) ? request->prescale : 1.0);
    return TT_OK;
}

/* Called before the first stage that shows a peer the input, or the place of the output. */
static tt_status prepare_buffers(tt_op *op, tt_text *text)
{
    const tt_request *request = op->request;
    if (request->output == NULL) {
        TT_TRY(output_reserve(op, tt_request_output_count(request, op->self, op->size), text));
    }
    return prepare_input(op);
}

/* ---- places ---- */

/* Do the buffers that peers read or write lie in the arena? A buffer that no peer accesses need
 * not, and gets the region of the other. */
static bool locate_shared(tt_op *op)
{
    tt_platform *platform = op->control->platform;
    const tt_recipe *recipe = op->recipe;
    const tt_collective collective = op->request->collective;
    const bool is_given =
        collective == TT_ALLGATHER || collective == TT_GATHER || collective == TT_ALLTOALL;
    const bool is_taken = collective == TT_SCATTER || collective == TT_REDUCESCATTER;
    const size_t input_bytes = is_given ? 0 : recipe->input_bytes;
    const size_t output_bytes = is_taken ? 0 : recipe->output_bytes;
    const void *first = prepared_input(op);
    tt_place input = {0}, output = {0};
    if (input_bytes > 0 && !platform->ops->locate(platform, first, input_bytes, &input)) {
        return false;
    }
    if (output_bytes == 0) {
        output.region = input.region;
    } else if (first == op->request->output && input_bytes == output_bytes) {
        output = input;
    } else if (!platform->ops->locate(platform, op->request->output, output_bytes, &output) ||
               (input_bytes > 0 && input.region != output.region)) {
        return false;
    }
    op->room->own = (tt_fact){.is_shared = 1,
                              .input_offset = input.offset,
                              .output_offset = output.offset,
                              .region = output.region};
    return true;
}

/* Places of this rank's buffers in the arena, or of their staging slots. */
static tt_status locate_buffers(tt_op *op)
{
    TT_ASSERT(op->stage + 1 < op->recipe->stage_count);
    tt_platform *platform = op->control->platform;
    tt_exec *exec = &op->exec;
    const size_t slot_bytes = op->recipe->stages[op->stage + 1].plan.slot_bytes;
    tt_place slots;
    op->room->own = (tt_fact){0};
    if (locate_shared(op) || slot_bytes == 0) {
        return TT_OK;
    }
    TT_TRY(tt_exec_reserve_slots(exec, slot_bytes, caller_buffer(op)));
    if (op->order != NULL && !op->is_extra) { /* planned ops never wait for slots: see the README */
        TT_ASSERT(!op->is_counted);
        op->is_counted = true;
        op->order->staged_count++;
    }
    if (!platform->ops->locate(platform, exec->slots, exec->slots_bytes, &slots)) {
        return TT_ERR_NO_RESOURCE;
    }
    TT_ASSERT(op->room->own.is_shared == 0);
    op->room->own.input_offset = op->room->own.output_offset = slots.offset;
    op->room->own.region = slots.region;
    return TT_OK;
}

static tt_status prepare_places(tt_op *op, tt_text *text)
{
    const tt_stage *next = &op->recipe->stages[op->stage + 1];
    TT_ASSERT(!op->has_views);
    if (op->room == NULL || op->room->late_of != next) { /* else unchanged since the last run */
        TT_TRY(room_reserve(op));
    }
    TT_TRY(prepare_buffers(op, text));
    TT_TRY(locate_buffers(op));
    op->has_views = true; /* peers that have all places may store from now on */
    op->exec.input = (const uint8_t *)&op->room->own;
    op->exec.output = (uint8_t *)op->room->facts;
    return TT_OK;
}

/* ---- counts ---- */

static tt_status prepare_counts(tt_op *op)
{
    const tt_request *request = op->request;
    TT_ASSERT(request->is_uneven && request->collective != TT_REDUCESCATTER);
    const bool is_dealt = request->collective == TT_ALLTOALL || request->collective == TT_SCATTER;
    TT_TRY(room_reserve(op));
    op->room->own_count = request->count;
    op->exec.input = (const uint8_t *)(is_dealt ? request->input_counts : &op->room->own_count);
    op->exec.output = (uint8_t *)op->room->counts;
    return TT_OK;
}

/* offsets[i + 1] - offsets[i] = counts[i] elements, in bytes; false: peers sent invalid counts. */
static bool offsets_from(uint64_t *offsets, const uint64_t *counts, uint32_t size,
                         uint64_t element_bytes)
{
    TT_DEBUG_ASSERT(element_bytes > 0);
    offsets[0] = 0;
    for (uint32_t i = 0; i < size; i++) {
        if (counts[i] >= COUNT_MAX || offsets[i] / element_bytes + counts[i] >= COUNT_MAX) {
            return false;
        }
        offsets[i + 1] = offsets[i] + counts[i] * element_bytes;
    }
    return true;
}

/* Do the exchanged counts differ from those this rank expects, part by part? */
static bool is_unexpected(const tt_op *op, tt_text *text)
{
    const tt_request *request = op->request;
    const tt_room *room = op->room;
    const bool has_all = request->collective == TT_ALLGATHER || request->collective == TT_ALLTOALL;
    for (uint32_t i = 0; request->is_expected && has_all && i < op->size; i++) {
        if (room->counts[i] != request->output_counts[i]) {
            tt_text_add(text, "rank %u gives %llu elements, %llu are expected", op->members[i],
                        (unsigned long long)room->counts[i],
                        (unsigned long long)request->output_counts[i]);
            return true;
        }
    }
    return false;
}

/* Uneven parts: offsets from the exchanged counts, counts for the user. */
static tt_status apply_counts(tt_op *op, tt_text *text)
{
    tt_request *request = op->request;
    tt_problem *problem = &op->room->late.problem;
    tt_room *room = op->room;
    const uint32_t size = problem->size, self = problem->self;
    const bool is_root = request->root == self;
    TT_ASSERT(size == op->size && self < size);
    const uint64_t *inner = room->counts; /* of part_offsets */
    uint64_t output_count = 0;
    if (request->collective == TT_ALLTOALL || request->collective == TT_REDUCESCATTER ||
        (request->collective == TT_SCATTER && is_root)) {
        inner = request->input_counts;
    } else if (request->collective == TT_SCATTER) { /* only the own part is known */
        const uint64_t own = room->counts[0];
        memset(room->counts, 0, size * sizeof(uint64_t));
        room->counts[self] = own;
    }
    TT_ASSERT(request->is_uneven && problem->facts == NULL);
    uint64_t *output_offsets = room->offsets + size + 1;
    bool is_good = offsets_from(room->offsets, inner, size, problem->element_bytes);
    problem->part_offsets = room->offsets;
    switch (request->collective) {
    case TT_ALLTOALL:
        is_good =
            is_good && offsets_from(output_offsets, room->counts, size, problem->element_bytes);
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
                           : room->offsets[size] / problem->element_bytes;
        break;
    }
    if (!is_good) {
        tt_text_add(text, "the sum of the ranks' counts is too large");
        return TT_ERR_BAD_ARGUMENT;
    }
    if (is_unexpected(op, text)) {
        return TT_ERR_BAD_ARGUMENT;
    }
    if (request->output_counts != NULL) {
        if (request->collective == TT_SCATTER || request->collective == TT_REDUCESCATTER) {
            request->output_counts[0] = output_count;
        } else if (request->collective != TT_GATHER || is_root) {
            memcpy(request->output_counts, room->counts, size * sizeof(uint64_t));
        }
    }
    if (overlaps_badly(request, tt_request_input_count(request, self, size), output_count,
                       room->offsets[self] / problem->element_bytes)) {
        tt_text_add(text, "input and output overlap");
        return TT_ERR_BAD_ARGUMENT;
    }
    return output_reserve(op, output_count, text);
}

/* ---- data ---- */

static bool all_are_shared(const tt_room *room, uint32_t size)
{
    bool is_shared = true;
    for (uint32_t i = 0; i < size && is_shared; i++) {
        is_shared = room->facts[i].is_shared != 0;
    }
    return is_shared;
}

/* Complete the stage for this run. If all buffers are shared, its moves do not depend on their
 * places: then those of the last run are reused, with the workspace still laid out. */
static tt_status complete_late(tt_op *op, const tt_stage *stage, tt_text *text)
{
    TT_ASSERT(stage->is_late && !op->exec.is_running);
    tt_exec *exec = &op->exec;
    const bool has_places = stage->algorithm->needs_facts;
    if (!has_places) {
        TT_TRY(room_reserve(op));
    }
    tt_room *room = op->room;
    const bool is_shared = has_places && all_are_shared(room, stage->problem.size);
    exec->stage = &room->late;
    if (room->late_of == stage && (is_shared || TT_PLANT(PLACES_NOT_ASKED_AGAIN))) {
        return TT_OK;
    }
    exec->laid_out = exec->laid_out == &room->late ? NULL : exec->laid_out;
    room->late = *stage;
    room->late_of = NULL;
    if (has_places) {
        room->late.problem.facts = room->facts;
        room->late_of = is_shared ? stage : NULL;
    } else {
        room->late.problem.bytes = op->request->count * stage->problem.element_bytes;
        TT_TRY(apply_counts(op, text));
    }
    TT_ASSERT(room->late.executor == stage->executor || room->late.is_late);
    tt_stage_plan(&room->late, op->control->flow.eager_bytes_max);
    return TT_OK;
}

/* `offset` is of WORK. */
static void *buffer_of(const tt_op *op, uint8_t which, uint64_t offset)
{
    switch ((tt_stage_buffer)which) {
    case TT_RUN_INPUT: /* never written through */
        return (void *)(uintptr_t)prepared_input(op);
    case TT_RUN_OUTPUT:
        return op->request->output;
    case TT_RUN_WORK: /* there may be none, for no elements */
        return op->work != NULL ? (uint8_t *)op->work + offset : NULL;
    case TT_RUN_NONE:
        break;
    }
    TT_ASSERT(false); /* stages of this kind have their own buffers */
    return NULL;
}

/* Is this the first stage behind those that gather facts about the call? */
static bool is_first_data(const tt_op *op)
{
    const uint8_t before = op->stage > 0 ? op->recipe->stages[op->stage - 1].kind : TT_STAGE_PLACES;
    return before == TT_STAGE_PLACES || before == TT_STAGE_COUNTS;
}

static tt_status prepare_data(tt_op *op, const tt_stage *stage, tt_text *text)
{
    if (stage->is_late) {
        TT_TRY(complete_late(op, stage, text));
    }
    TT_DEBUG_ASSERT((op->exec.stage == stage) == !stage->is_late);
    if (op->stage == 0 || op->recipe->stages[0].kind == TT_STAGE_COUNTS ||
        stage->kind == TT_STAGE_LAUNCH) { /* else it was done before the first stage */
        TT_TRY(prepare_buffers(op, text));
    }
    if ((op->recipe->traits & TRAIT_CODED) != 0 && is_first_data(op)) {
        TT_TRY(tt_feedback_prepare(op, text));
    }
    if (stage->from == TT_RUN_WORK || stage->to == TT_RUN_WORK) {
        TT_TRY(work_reserve(op, stage->work_bytes));
    }
    op->exec.input = buffer_of(op, stage->from, stage->from_offset);
    op->exec.output = buffer_of(op, stage->to, stage->to_offset);
    return TT_OK;
}

tt_status tt_op_prepare(tt_op *op, tt_text *text)
{
    const tt_stage *stage = &op->recipe->stages[op->stage];
    const tt_request *request = op->request;
    TT_ASSERT(op->stage < op->recipe->stage_count);
    TT_DEBUG_ASSERT(op->phase == OP_RUNNING && !op->exec.is_running);
    op->exec.stage = stage;
    op->exec.divisor = 1;
    switch ((tt_stage_kind)stage->kind) {
    case TT_STAGE_PLACES:
        return prepare_places(op, text);
    case TT_STAGE_COUNTS:
        return prepare_counts(op);
    case TT_STAGE_AGREE:
        return tt_engine_prepare(op, text);
    case TT_STAGE_EXCHANGE:
    case TT_STAGE_LAUNCH:
    case TT_STAGE_LOCAL:
        break;
    }
    const bool is_average = is_reduction(request->collective) && stage->problem.redop == TT_AVERAGE;
    op->exec.divisor = is_average ? op->divisor : 1;
    return prepare_data(op, stage, text);
}
