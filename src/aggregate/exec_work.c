/* SPDX-License-Identifier: Apache-2.0
 *
 * exec_work.c - the local work of rounds: copies, sums over slots, sums over views; and the staging
 * slots for private buffers. */
#include <string.h>

#include "aggregate/exec_internal.h"
#include "base/assert.h"
#include "base/base.h"
#include "base/plant.h"
#include "kernel/adasum_math.h"
#include "kernel/reduce.h"
#include "kernel/stream.h"

enum {
    BLOCK_BYTES = 4 * 1024,              /* stays in the first-level cache while it is finished */
    CARRY_BYTES = 16 * 1024,             /* the same, while it is copied to several */
    STREAM_BYTES_MIN = 16 * 1024 * 1024, /* longer results do not stay in a cache */
};

/* Buffers of a piece of work, gathered before any of it is done: sources at pointers[0 ..), targets
 * at pointers[size ..), each at the begin of the piece. */
typedef struct piece {
    tt_exec *exec;
    uint32_t source_count; /* 0: a view is missing, the exec has failed */
    uint32_t target_count;
    bool is_sum;      /* else the one source is copied */
    bool is_finished; /* divided and scaled on the way */
    bool is_streamed; /* stored past the cache */
    bool is_far;      /* the sources are the members', but for the one at `near` */
    uint32_t near;
} piece;

void *tt_exec_address(const tt_exec *exec, const tt_lane *lane, tt_spot spot)
{
    switch (spot.buffer) {
    case TT_INPUT:
        /* never written through: moves have inputs as sources only */
        return (uint8_t *)(uintptr_t)(exec->input + spot.offset);
    case TT_OUTPUT:
        return exec->output + spot.offset;
    case TT_SLOT:
        return exec->slots + (lane->number % TT_LANES_MAX) * exec->stage->plan.slot_bytes +
               spot.offset;
        TT_DEBUG_ASSERT(spot.offset <= exec->stage->plan.slot_bytes);
    case TT_SCRATCH:
        break;
    }
    TT_ASSERT(spot.offset <= exec->stage->plan.scratch_bytes);
    return lane->scratch + spot.offset;
}

static bool needs_finish(const tt_exec *exec)
{
    return exec->divisor > 1 || exec->stage->problem.postscale != 1.0;
}

void tt_exec_finish(const tt_exec *exec, void *target, uint64_t bytes)
{
    const tt_problem *problem = &exec->stage->problem;
    TT_DEBUG_ASSERT(bytes % problem->element_bytes == 0);
    const size_t count = bytes / problem->element_bytes;
    if (exec->divisor > 1) {
        tt_divide(problem->dtype, target, count, exec->divisor);
    }
    if (problem->postscale != 1.0) {
        tt_scale(problem->dtype, target, target, count, problem->postscale);
    }
}

static void plain_copy(void *target, const void *source, size_t bytes)
{
    memcpy(target, source, bytes);
}

/* Should results be stored past the cache: many bytes, none of them just read? */
static bool streams(const piece *work)
{
    const tt_exec *exec = work->exec;
    const uint64_t part_count = exec->stage->plan.round_count > 2 ? exec->stage->problem.size : 1;
    if (exec->stage->problem.bytes * part_count < STREAM_BYTES_MIN) {
        return false;
    }
    for (uint32_t t = 0; t < work->target_count; t++) {
        for (uint32_t i = 0; i < work->source_count; i++) {
            if (exec->pointers[exec->stage->problem.size + t] == exec->pointers[i]) {
                return false;
            }
        }
    }
    return true;
}

/* ---- doing the work: on any thread, with its own pointers ---- */

/* One source to one or all targets. A block is read from the nearest cache by all targets but the
 * first. */
static void copy_part(const piece *work, const void **pointers, uint64_t bytes)
{
    TT_DEBUG_ASSERT(work->source_count == 1 && !work->is_sum);
    const uint8_t *source = pointers[0];
    const void *const *targets = pointers + work->exec->stage->problem.size;
    const uint64_t step = work->target_count > 1 ? CARRY_BYTES : bytes;
    for (uint64_t done = 0; done < bytes; done += step) {
        const uint64_t length = tt_min_u64(bytes - done, step);
        for (uint32_t t = 0; t < work->target_count; t++) {
            uint8_t *target = (uint8_t *)(uintptr_t)targets[t] + done;
            if (target != source + done) { /* else in place */
                (work->is_streamed ? tt_stream_copy : plain_copy)(target, source + done, length);
            }
            if (work->is_finished) {
                tt_exec_finish(work->exec, target, length);
            }
        }
    }
}

/* Sum of the sources to all targets. */
static void sum_part(const piece *work, const void **pointers, uint64_t bytes)
{
    TT_DEBUG_ASSERT(work->source_count > 0 && work->target_count > 0);
    const tt_problem *problem = &work->exec->stage->problem;
    TT_DEBUG_ASSERT(bytes % problem->element_bytes == 0);
    const void *const *outputs = pointers + problem->size;
    void *const *targets = (void *const *)(uintptr_t)outputs;
    _Alignas(64) uint8_t block[BLOCK_BYTES];
    void *const single[1] = {block};
    if (!work->is_streamed && !work->is_finished) {
        const tt_fold fold = {.targets = targets,
                              .target_count = work->target_count,
                              .sources = pointers,
                              .source_count = work->source_count,
                              .count = bytes / problem->element_bytes,
                              .is_far = work->is_far,
                              .near = work->near};
        tt_reduce_fold(problem->dtype, problem->redop, &fold);
        return;
    }
    for (uint64_t done = 0; done < bytes;) {
        const uint64_t length = tt_min_u64(bytes - done, BLOCK_BYTES);
        tt_reduce_many(problem->dtype, problem->redop, single, 1, pointers, work->source_count,
                       length / problem->element_bytes);
        tt_exec_finish(work->exec, block, work->is_finished ? length : 0);
        for (uint32_t t = 0; t < work->target_count; t++) {
            uint8_t *target = (uint8_t *)targets[t] + done;
            (work->is_streamed ? tt_stream_copy : plain_copy)(target, block, length);
        }
        for (uint32_t i = 0; i < work->source_count; i++) {
            pointers[i] = (const uint8_t *)pointers[i] + length;
        }
        done += length;
    }
}

static void do_part(const piece *work, const void **pointers, uint64_t bytes)
{
    if (work->is_sum) {
        sum_part(work, pointers, bytes);
    } else {
        copy_part(work, pointers, bytes);
    }
}

/* tt_work_order.part: each hand has pointers of its own behind those of the piece. */
static void hand_part(void *argument, uint32_t hand, uint64_t first, uint64_t bytes)
{
    const piece *work = argument;
    TT_DEBUG_ASSERT(hand < work->exec->flow->platform->hands);
    const uint32_t size = work->exec->stage->problem.size;
    const void *const *from = work->exec->pointers;
    const void **own = work->exec->pointers + (uint64_t)(1 + hand) * 2 * size;
    for (uint32_t i = 0; i < work->source_count; i++) {
        own[i] = (const uint8_t *)from[i] + first;
    }
    for (uint32_t t = 0; t < work->target_count; t++) {
        own[size + t] = (const uint8_t *)from[size + t] + first;
    }
    do_part(work, own, bytes);
}

/* Is some of the buffers phantom? */
static bool is_phantom(const piece *work)
{
    const tt_exec *exec = work->exec;
    const tt_platform *platform = exec->flow->platform;
    const void *const *targets = exec->pointers + exec->stage->problem.size;
    bool is_one = tt_exec_is_phantom(exec, NULL);
    for (uint32_t i = 0; i < work->source_count && !is_one; i++) {
        is_one = tt_is_phantom(platform, exec->pointers[i]);
    }
    for (uint32_t t = 0; t < work->target_count && !is_one; t++) {
        is_one = tt_is_phantom(platform, targets[t]);
    }
    return is_one;
}

/* Bytes done: see tt_platform_ops.work. */
static uint64_t do_piece(piece *work, uint64_t bytes)
{
    tt_platform *platform = work->exec->flow->platform;
    const uint32_t size = work->exec->stage->problem.size; /* a single rank has almost no work */
    TT_DEBUG_ASSERT(work->source_count <= size && work->target_count <= size);
    if (work->source_count == 0 || (platform->phantom_bytes > 0 && is_phantom(work))) {
        return bytes;
    }
    if (platform->hands > 0 && bytes >= platform->work_bytes_min && size > 1) {
        const tt_work_order order = {.part = hand_part, .argument = work, .bytes = bytes};
        return platform->ops->work(platform, &order);
    }
    do_part(work, work->exec->pointers, bytes);
    return bytes;
}

void tt_exec_fold_two(tt_exec *exec, void *target, const void *a, const void *b, uint64_t bytes)
{
    TT_DEBUG_ASSERT(exec->stage->problem.size >= 2);
    piece work = {.exec = exec, .source_count = 2, .target_count = 1, .is_sum = true};
    for (uint64_t done = 0; done < bytes;) { /* completed here, even if a caller waits */
        exec->pointers[0] = (const uint8_t *)a + done;
        exec->pointers[1] = (const uint8_t *)b + done;
        exec->pointers[exec->stage->problem.size] = (uint8_t *)target + done;
        done += do_piece(&work, bytes - done);
    }
}

/* ---- gathering sources and targets ---- */

static void gather_copy(piece *work, const tt_lane *lane, const tt_move *move)
{
    TT_DEBUG_ASSERT(lane->work_done < move->bytes);
    tt_exec *exec = work->exec;
    const uint8_t *source = tt_exec_address(exec, lane, move->source);
    uint8_t *target = tt_exec_address(exec, lane, move->target);
    exec->pointers[0] = source + lane->work_done;
    exec->pointers[exec->stage->problem.size] = target + lane->work_done;
    work->source_count = work->target_count = 1;
    work->is_finished = move->work == TT_WORK_FINISH && needs_finish(exec);
}

/* The members' values lie in slots of the lane's scratch, the own one at `source`. */
static void gather_sum(piece *work, const tt_lane *lane, const tt_move *move)
{
    tt_exec *exec = work->exec;
    const tt_problem *problem = &exec->stage->problem;
    TT_DEBUG_ASSERT(problem->size * move->slot <= exec->stage->plan.scratch_bytes);
    for (uint32_t i = 0; i < problem->size; i++) {
        const uint8_t *base = i == problem->self ? tt_exec_address(exec, lane, move->source)
                                                 : lane->scratch + i * move->slot;
        const uint32_t at = TT_PLANT(SUM_ORDER_BY_RANK) ? (i + problem->self) % problem->size : i;
        exec->pointers[at] = base + lane->work_done;
    }
    exec->pointers[problem->size] =
        (uint8_t *)tt_exec_address(exec, lane, move->target) + lane->work_done;
    work->source_count = problem->size;
    work->target_count = 1;
    work->is_finished = needs_finish(exec);
}

void *tt_exec_view(tt_exec *exec, uint32_t member, uint64_t offset, uint64_t bytes)
{
    tt_platform *platform = exec->flow->platform;
    TT_DEBUG_ASSERT(member < exec->stage->problem.size);
    const tt_place place = {.region = (uint32_t)exec->stage->problem.facts[member].region,
                            .offset = offset};
    void *view = platform->ops->view(platform, exec->members[member], place, bytes);
    if (view == NULL) { /* its facts were wrong */
        tt_exec_fail(exec, TT_ERR_BAD_WIRE, member);
    }
    return view;
}

/* The lane's chunk in the memory of member `member` of this host. */
static void *member_view(tt_exec *exec, const tt_lane *lane, uint32_t member, bool is_output)
{
    const tt_problem *problem = &exec->stage->problem;
    const tt_fact *fact = &problem->facts[member];
    const uint64_t first = lane->number * exec->stage->plan.lane_bytes;
    TT_DEBUG_ASSERT(first <= problem->bytes && member < problem->size);
    const uint64_t bytes = tt_min_u64(problem->bytes - first, exec->stage->plan.lane_bytes);
    const uint64_t slot = lane->number % TT_LANES_MAX * exec->stage->plan.slot_bytes;
    if (fact->is_shared == 0) {
        return tt_exec_view(exec, member, fact->input_offset + slot, bytes);
    }
    return tt_exec_view(exec, member,
                        (is_output ? fact->output_offset : fact->input_offset) + first, bytes);
}

/* Inputs of this host's members to pointers[0 ..), outputs to pointers[size ..); their number, or
 * 0 if a view is missing. */
static uint32_t collect_views(tt_exec *exec, const tt_lane *lane, uint64_t offset)
{
    const tt_problem *problem = &exec->stage->problem;
    const tt_topology *topology = problem->topology;
    const uint32_t host = topology->host_of[problem->self];
    const uint32_t first = topology->host_first[host];
    const uint32_t count = topology->host_first[host + 1] - first;
    TT_DEBUG_ASSERT(count > 0 && count <= problem->size);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t member = topology->host_members[first + i];
        const uint8_t *input = member_view(exec, lane, member, false);
        const uint8_t *output = member_view(exec, lane, member, true);
        if (input == NULL || output == NULL) {
            return 0;
        }
        exec->pointers[i] = input + offset;
        exec->pointers[problem->size + i] = output + offset;
    }
    return count;
}

/* Sum of the members' inputs to all outputs (one host), or unfinished to scratch (rails). */
static void gather_views(piece *work, const tt_lane *lane, const tt_move *move)
{
    tt_exec *exec = work->exec;
    const tt_problem *problem = &exec->stage->problem;
    const uint64_t offset = move->offset + lane->work_done;
    work->source_count = work->target_count = collect_views(exec, lane, offset);
    work->is_far = true;
    work->near = problem->topology->local_of[problem->self];
    TT_DEBUG_ASSERT(work->source_count == 0 || work->near < work->source_count);
    if (work->source_count > 0 && move->target.buffer == TT_SCRATCH) {
        work->target_count = 1;
        exec->pointers[problem->size] = lane->scratch + move->target.offset + lane->work_done;
    } else if (work->source_count > 0) {
        const uint64_t at = lane->number * exec->stage->plan.lane_bytes + offset;
        exec->pointers[work->near] = exec->input + at;
        exec->pointers[problem->size + work->near] = exec->output + at;
        work->is_finished = needs_finish(exec);
        work->is_streamed = streams(work);
    }
}

static void gather_spread(piece *work, const tt_lane *lane, const tt_move *move)
{
    work->target_count = collect_views(work->exec, lane, move->offset + lane->work_done);
    work->source_count = work->target_count > 0 ? 1 : 0;
    work->exec->pointers[0] = lane->scratch + move->source.offset + lane->work_done;
}

/* `bytes` at `offset` of the whole input (or output) of a member, which is this rank or one whose
 * facts say it is shared. */
static void *buffer_view(tt_exec *exec, uint32_t member, tt_spot spot, uint64_t bytes)
{
    TT_DEBUG_ASSERT(spot.buffer == TT_INPUT || spot.buffer == TT_OUTPUT);
    const tt_fact *fact = &exec->stage->problem.facts[member];
    const bool is_output = spot.buffer == TT_OUTPUT;
    if (member == exec->stage->problem.self) {
        return tt_exec_address(exec, NULL, spot);
    }
    return tt_exec_view(
        exec, member, (is_output ? fact->output_offset : fact->input_offset) + spot.offset, bytes);
}

static tt_spot spot_after(tt_spot spot, uint64_t bytes)
{
    return (tt_spot){.buffer = spot.buffer, .offset = spot.offset + bytes};
}

/* Views of the outputs a move writes, to pointers[size ..); their number, or 0 if one is missing.
 */
static uint32_t collect_targets(tt_exec *exec, const tt_lane *lane, const tt_move *move,
                                uint64_t bytes)
{
    const tt_problem *problem = &exec->stage->problem;
    const bool is_cast = move->work == TT_WORK_CAST;
    const uint32_t single = move->work == TT_WORK_PULL ? problem->self : move->peer;
    const uint32_t count = is_cast ? problem->size : 1;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t member = is_cast ? (problem->self + i) % problem->size : single;
        void *view = buffer_view(exec, member, spot_after(move->target, lane->work_done), bytes);
        if (view == NULL) {
            return 0;
        }
        exec->pointers[problem->size + i] = view;
    }
    return count;
}

/* Pull, push and cast: one source, one or all targets. */
static void gather_carry(piece *work, const tt_lane *lane, const tt_move *move, uint64_t bytes)
{
    tt_exec *exec = work->exec;
    const uint32_t giver = move->work == TT_WORK_PUSH ? exec->stage->problem.self : move->peer;
    work->target_count = collect_targets(exec, lane, move, bytes);
    const void *source =
        work->target_count == 0
            ? NULL
            : buffer_view(exec, giver, spot_after(move->source, lane->work_done), bytes);
    if (source != NULL) {
        exec->pointers[0] = source;
        work->source_count = 1;
        work->is_streamed = streams(work);
    }
}

static void gather_fold(piece *work, const tt_lane *lane, const tt_move *move, uint64_t bytes)
{
    tt_exec *exec = work->exec;
    const tt_problem *problem = &exec->stage->problem;
    work->target_count = collect_targets(exec, lane, move, bytes);
    bool is_complete = work->target_count > 0;
    for (uint32_t i = 0; is_complete && i < problem->size; i++) {
        exec->pointers[i] = buffer_view(exec, i, spot_after(move->source, lane->work_done), bytes);
        is_complete = exec->pointers[i] != NULL;
    }
    if (is_complete) {
        work->source_count = problem->size;
        work->is_far = true;
        work->near = problem->self;
        work->is_finished = needs_finish(exec);
        work->is_streamed = streams(work);
    }
}

/* Whole blocks, so that pieces begin at elements. A piece too short to be shared is at most one
 * hand's. */
static uint64_t piece_bytes(const tt_exec *exec, uint64_t left, uint64_t budget)
{
    const tt_platform *platform = exec->flow->platform;
    const uint64_t hands = tt_min_u64(tt_max_u64(platform->hands, 1), TT_WORK_HANDS_MAX);
    const uint64_t shared = budget < UINT64_MAX / hands ? tt_min_u64(left, budget * hands) : left;
    TT_DEBUG_ASSERT(shared <= left);
    return hands > 1 && shared >= platform->share_bytes_min ? shared : tt_min_u64(left, budget);
}

/* Adasum: the own vector and the one that arrived, the lower rank's first. */
static tt_vectors adasum_pair(const tt_exec *exec, const tt_lane *lane, const tt_move *move)
{
    TT_DEBUG_ASSERT(move->peer < exec->stage->problem.size &&
                    move->peer != exec->stage->problem.self);
    const uint8_t *own =
        (const uint8_t *)tt_exec_address(exec, lane, move->source) + lane->work_done;
    const uint8_t *theirs = lane->scratch + move->slot + lane->work_done;
    const bool is_peer_first = move->peer < exec->stage->problem.self;
    return is_peer_first ? (tt_vectors){.a = theirs, .b = own}
                         : (tt_vectors){.a = own, .b = theirs};
}

/* Pieces are whole blocks (adasum.c), so that the bits do not depend on where they are cut. */
static void products_piece(tt_exec *exec, const tt_lane *lane, const tt_move *move, uint64_t bytes)
{
    TT_DEBUG_ASSERT(bytes % exec->stage->problem.element_bytes == 0);
    const tt_problem *problem = &exec->stage->problem;
    tt_products products = {0};
    void *target = tt_exec_address(exec, lane, move->target);
    const tt_vectors pair = adasum_pair(exec, lane, move);
    if (lane->work_done > 0) {
        memcpy(&products, target, sizeof(products));
    }
    tt_adasum_products(problem->dtype, pair, bytes / problem->element_bytes, &products);
    memcpy(target, &products, sizeof(products));
}

static void add_piece(tt_exec *exec, const tt_lane *lane, const tt_move *move)
{
    const tt_vectors pair = adasum_pair(exec, lane, move);
    tt_products first, second;
    memcpy(&first, pair.a, sizeof(first));
    memcpy(&second, pair.b, sizeof(second));
    first = tt_adasum_add(&first, &second);
    memcpy(tt_exec_address(exec, lane, move->target), &first, sizeof(first));
}

static void blend_piece(tt_exec *exec, const tt_lane *lane, const tt_move *move, uint64_t bytes)
{
    const tt_problem *problem = &exec->stage->problem;
    tt_products products;
    const tt_vectors pair = adasum_pair(exec, lane, move);
    memcpy(&products, lane->scratch + move->offset, sizeof(products));
    uint8_t *target = (uint8_t *)tt_exec_address(exec, lane, move->target) + lane->work_done;
    tt_adasum_blend(problem->dtype, target, pair, bytes / problem->element_bytes, &products);
}

/* An empty part has products too: zeros. */
static void adasum_piece(tt_exec *exec, const tt_lane *lane, const tt_move *move, uint64_t bytes)
{
    if (tt_exec_is_phantom(exec, NULL)) {
        return;
    }
    if (move->work == TT_WORK_PRODUCTS) {
        products_piece(exec, lane, move, bytes);
    } else if (move->work == TT_WORK_ADD) {
        add_piece(exec, lane, move);
    } else if (bytes > 0) {
        blend_piece(exec, lane, move, bytes);
    }
}

/* How often each byte of the piece is added or copied. */
static uint32_t times_of(const piece *work)
{
    const tt_exec *exec = work->exec;
    TT_DEBUG_ASSERT(work->source_count <= exec->stage->problem.size);
    if (work->source_count == 0) {
        return 1; /* of Adasum */
    }
    if (work->is_sum && work->source_count > 1) {
        return work->source_count - 1;
    }
    const bool is_in_place =
        work->target_count == 1 && exec->pointers[0] == exec->pointers[exec->stage->problem.size];
    return is_in_place && !work->is_finished ? 0 : work->target_count;
}

bool tt_exec_work(tt_exec *exec, tt_lane *lane, const tt_move *move, uint64_t budget)
{
    TT_ASSERT(lane->work_done <= move->bytes);
    const uint64_t bytes = piece_bytes(exec, move->bytes - lane->work_done, budget);
    const bool is_sum =
        move->work == TT_WORK_SUM || move->work == TT_WORK_VIEWS || move->work == TT_WORK_FOLD;
    const bool is_adasum =
        move->work == TT_WORK_PRODUCTS || move->work == TT_WORK_ADD || move->work == TT_WORK_BLEND;
    piece work = {.exec = exec, .is_sum = is_sum};
    switch (bytes > 0 || is_adasum ? move->work : TT_WORK_COPY) {
    case TT_WORK_COPY:
    case TT_WORK_FINISH:
        if (bytes > 0) {
            gather_copy(&work, lane, move);
        }
        break;
    case TT_WORK_SUM:
        gather_sum(&work, lane, move);
        break;
    case TT_WORK_VIEWS:
        gather_views(&work, lane, move);
        break;
    case TT_WORK_SPREAD:
        gather_spread(&work, lane, move);
        break;
    case TT_WORK_PULL:
    case TT_WORK_PUSH:
    case TT_WORK_CAST:
        gather_carry(&work, lane, move, bytes);
        break;
    case TT_WORK_FOLD:
        gather_fold(&work, lane, move, bytes);
        break;
    case TT_WORK_PRODUCTS:
    case TT_WORK_ADD:
    case TT_WORK_BLEND:
        adasum_piece(exec, lane, move, bytes);
        break;
    case TT_WORK_ENCODE:
    case TT_WORK_MERGE:
    case TT_WORK_DECODE:
    case TT_WORK_STAGE:
        return tt_exec_code(exec, lane, move, bytes);
    }
    const uint32_t times = times_of(&work);
    const uint64_t done = do_piece(&work, bytes);
    TT_DEBUG_ASSERT(done <= bytes);
    lane->work_done += done;
    const bool is_arithmetic = is_sum || is_adasum || move->work == TT_WORK_FINISH;
    exec->flow->platform->ops->spend(exec->flow->platform,
                                     is_arithmetic ? TT_SPEND_REDUCE : TT_SPEND_COPY, done, times);
    return lane->work_done == move->bytes;
}

/* ---- staging slots ---- */

tt_status tt_exec_reserve_slots(tt_exec *exec, size_t slot_bytes, const void *like)
{
    TT_ASSERT((exec->slots != NULL) == (exec->slots_bytes > 0));
    tt_platform *platform = exec->flow->platform;
    const size_t bytes = slot_bytes * TT_LANES_MAX;
    const bool is_useless = tt_is_phantom(platform, exec->slots) && !tt_is_phantom(platform, like);
    if (exec->slots_bytes >= bytes && !is_useless) {
        return TT_OK;
    }
    if (exec->slots != NULL) {
        platform->ops->release(platform, TT_MEMORY_SHARED, exec->slots, exec->slots_bytes);
        exec->flow->slots_bytes -= exec->slots_bytes;
        exec->slots_bytes = 0;
    }
    exec->slots = tt_platform_allocate_like(platform, TT_MEMORY_SHARED, like, bytes);
    if (exec->slots == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    exec->slots_bytes = bytes;
    exec->flow->slots_bytes += bytes;
    return TT_OK;
}

void tt_exec_trim_slots(tt_exec *exec)
{
    tt_platform *platform = exec->flow->platform;
    if (exec->slots != NULL && exec->flow->slots_bytes > TT_SLOTS_KEPT_BYTES) {
        platform->ops->release(platform, TT_MEMORY_SHARED, exec->slots, exec->slots_bytes);
        tt_exec_forsake_slots(exec);
    }
}

void tt_exec_forsake_slots(tt_exec *exec)
{
    TT_ASSERT(exec->flow->slots_bytes >= exec->slots_bytes);
    exec->flow->slots_bytes -= exec->slots_bytes;
    exec->slots = NULL;
    exec->slots_bytes = 0;
}
