/* SPDX-License-Identifier: Apache-2.0
 *
 * moves.c - runs of moves: memory, frames, and events in the order of their times; see moves.h. */
#include "sim/moves.h"

#include <inttypes.h>
#include <string.h>

#include "sim/moves_internal.h"

enum {
    FRAMES_MIN = 1024,
    LINE_BYTES = 64,
    RANK_AHEAD = TT_EVENTS_AHEAD - 1, /* events before which memory is fetched */
    FRAME_AHEAD = 4,
};

/* ---- memory ---- */

static void *bounded_allocate(void *user, size_t bytes)
{
    tt_walk *walk = user;
    if (walk->live_bytes > walk->bytes_max || bytes > walk->bytes_max - walk->live_bytes) {
        return NULL;
    }
    void *memory = walk->allocator->allocate(walk->allocator->user, bytes);
    if (memory != NULL) {
        walk->live_bytes += bytes;
        walk->result.memory_bytes = tt_max_u64(walk->result.memory_bytes, walk->live_bytes);
    }
    return memory;
}

static void bounded_release(void *user, void *memory, size_t bytes)
{
    tt_walk *walk = user;
    TT_ASSERT(walk->live_bytes >= bytes);
    walk->live_bytes -= bytes;
    walk->allocator->release(walk->allocator->user, memory, bytes);
}

/* Sizes of what a run holds from its start. */
static void lay_out(tt_walk *walk)
{
    const tt_plan *plan = &walk->plans[0];
    walk->lane_count = (uint32_t)plan->lane_count;
    walk->lane_slots = (uint32_t)tt_min_u64(plan->lane_count, TT_LANES_MAX);
    walk->partner_max = plan->partner_max;
    walk->arrived_bytes = plan->fan == 1
                              ? ((size_t)plan->round_count + 63) / 64 * sizeof(uint64_t)
                              : tt_round_up(plan->round_count * sizeof(uint32_t), sizeof(uint64_t));
    walk->arrived_offset = sizeof(tt_walk_rank) + walk->lane_slots * sizeof(tt_walk_lane);
    walk->rank_bytes =
        tt_round_up(walk->arrived_offset + walk->lane_slots * walk->arrived_bytes, LINE_BYTES);
    walk->bit_words = ((size_t)walk->problem.size + 63) / 64;
}

typedef struct sizes {
    size_t ranks, partners, granted, seen, facts, cards, heads;
} sizes;

static sizes sizes_of(const tt_walk *walk)
{
    const size_t size = walk->problem.size;
    const bool has_few = !walk->is_eager && walk->plans[0].fan == 1;
    const bool has_many = !walk->is_eager && walk->plans[0].fan > 1;
    return (sizes){
        .ranks = size * walk->rank_bytes,
        .partners = has_few ? size * walk->partner_max : 0,
        .granted = has_many ? size * size : 0,
        .seen = walk->is_eager ? 0 : walk->bit_words,
        .facts = walk->algorithm->needs_facts ? size : 0,
        .cards = walk->lane_slots > 1 ? tt_fabric_card_count(&walk->fabric->config) : 0,
        .heads = walk->lane_slots > 1 && walk->plans[0].fan > 1 ? size * size : 0,
    };
}

/* True: not wanted, or taken. */
static bool take(tt_walk *walk, void *array_out, size_t count, size_t bytes)
{
    void *array = count > 0 ? tt_allocate(&walk->bounded, count, bytes) : NULL;
    memcpy(array_out, &array, sizeof(array));
    return array != NULL || count == 0;
}

static tt_status walk_reserve(tt_walk *walk)
{
    const sizes wanted = sizes_of(walk);
    TT_ASSERT(wanted.ranks > 0);
    const bool is_there = take(walk, &walk->ranks, wanted.ranks, 1) &&
                          take(walk, &walk->partners, wanted.partners, sizeof(*walk->partners)) &&
                          take(walk, &walk->granted, wanted.granted, sizeof(*walk->granted)) &&
                          take(walk, &walk->seen, wanted.seen, sizeof(*walk->seen)) &&
                          take(walk, &walk->cards, wanted.cards, sizeof(*walk->cards)) &&
                          take(walk, &walk->heads, wanted.heads, sizeof(*walk->heads)) &&
                          take(walk, &walk->frames, FRAMES_MIN, sizeof(*walk->frames));
    walk->frame_capacity = walk->frames != NULL ? FRAMES_MIN : 0;
    walk->frame_free = TT_WALK_NONE;
    for (size_t i = 0; is_there && i < wanted.cards; i++) {
        walk->cards[i].first = TT_WALK_NONE;
    }
    return is_there ? TT_OK : TT_ERR_NO_MEMORY;
}

static void walk_release(tt_walk *walk)
{
    const sizes held = sizes_of(walk);
    tt_event_queue_fini(&walk->queue);
    tt_release(&walk->bounded, walk->ranks, held.ranks, 1);
    tt_release(&walk->bounded, walk->partners, held.partners, sizeof(*walk->partners));
    tt_release(&walk->bounded, walk->granted, held.granted, sizeof(*walk->granted));
    tt_release(&walk->bounded, walk->seen, held.seen, sizeof(*walk->seen));
    tt_release(&walk->bounded, walk->facts, held.facts, sizeof(*walk->facts));
    tt_release(&walk->bounded, walk->cards, held.cards, sizeof(*walk->cards));
    tt_release(&walk->bounded, walk->heads, held.heads, sizeof(*walk->heads));
    tt_release(&walk->bounded, walk->frames, walk->frame_capacity, sizeof(*walk->frames));
    TT_ASSERT(walk->live_bytes == sizeof(*walk));
}

/* ---- frames ---- */

static bool frames_grow(tt_walk *walk)
{
    const uint32_t capacity = walk->frame_capacity;
    TT_ASSERT(walk->frame_count == capacity);
    tt_walk_frame *frames = NULL;
    if (2 * (uint64_t)capacity <= TT_WALK_NONE) {
        frames = tt_allocate(&walk->bounded, 2 * (size_t)capacity, sizeof(*frames));
    }
    if (frames == NULL) {
        walk->queue.has_failed = true;
        return false;
    }
    memcpy(frames, walk->frames, capacity * sizeof(*frames));
    tt_release(&walk->bounded, walk->frames, capacity, sizeof(*frames));
    walk->frames = frames;
    walk->frame_capacity = 2 * capacity;
    return true;
}

uint32_t tt_walk_frame_take(tt_walk *walk)
{
    const uint32_t index = walk->frame_free;
    if (index != TT_WALK_NONE) {
        walk->frame_free = walk->frames[index].next;
        return index;
    }
    if (walk->frame_count == walk->frame_capacity && !frames_grow(walk)) {
        return TT_WALK_NONE;
    }
    return walk->frame_count++;
}

void tt_walk_frame_give(tt_walk *walk, uint32_t index)
{
    TT_DEBUG_ASSERT(index < walk->frame_count);
    walk->frames[index].next = walk->frame_free;
    walk->frame_free = index;
}

static tt_fabric_traffic *traffic_of(tt_walk *walk, const tt_walk_frame *frame)
{
    const tt_fabric_level level =
        tt_fabric_level_of(&walk->fabric->config, frame->route.source, frame->route.target);
    return &walk->result.levels[level];
}

uint64_t tt_walk_depart(tt_walk *walk, uint32_t index, uint64_t at_ns)
{
    const tt_walk_frame *frame = &walk->frames[index];
    TT_ASSERT(!tt_walk_is_early(walk, at_ns));
    const tt_departure departure = walk->fabric->ops->send(walk->fabric, &frame->route, at_ns);
    tt_fabric_traffic *traffic = traffic_of(walk, frame);
    traffic->frames_sent++;
    traffic->bytes_sent += frame->route.bytes;
    TT_DEBUG_ASSERT(departure.released_ns >= at_ns && departure.head_ns >= at_ns);
    tt_walk_push(walk, TT_WALK_HEAD, frame->route.target, index, departure.head_ns);
    if (!frame->is_grant) {
        tt_walk_departed(walk, frame, departure.released_ns);
    }
    return departure.free_ns;
}

/* The processor of its rank is done with the frame. */
static void depart_due(tt_walk *walk, uint32_t index)
{
    if (walk->cards != NULL) {
        tt_walk_card_arrive(walk, index);
        return;
    }
    const tt_walk_frame frame = walk->frames[index];
    (void)tt_walk_depart(walk, index, walk->now_ns);
    tt_walk_release_due(walk, &frame);
}

/* ---- events ---- */

/* The frame is in the rank's memory at `at_ns`. */
static void complete(tt_walk *walk, uint32_t self, uint32_t index, uint64_t at_ns)
{
    tt_walk_rank *rank = tt_walk_rank_of(walk, self);
    const tt_walk_frame *frame = &walk->frames[index];
    tt_fabric_traffic *traffic = traffic_of(walk, frame);
    traffic->frames_received++;
    traffic->bytes_received += frame->route.bytes;
    rank->clock_ns = tt_max_u64(rank->clock_ns, at_ns);
    tt_walk_take(walk, self, index);
    tt_walk_step(walk, self);
}

/* The first byte of a frame is at a link. Where nothing else can happen to the rank before the
 * frame is complete, it is handled without an event of its own: later frames come by the same
 * link, after it. */
static void pass(tt_walk *walk, uint32_t self, uint32_t index)
{
    tt_walk_rank *rank = tt_walk_rank_of(walk, self);
    tt_walk_frame *frame = &walk->frames[index];
    uint64_t at_ns = walk->now_ns;
    if (!walk->fabric->ops->pass(walk->fabric, &frame->route, frame->hop, &at_ns)) {
        frame->hop++;
        tt_walk_push(walk, TT_WALK_HEAD, self, index, at_ns);
    } else if (walk->fabric->is_private && (rank->queued == 0 || at_ns == walk->now_ns)) {
        complete(walk, self, index, at_ns);
    } else {
        rank->queued++;
        tt_walk_push(walk, TT_WALK_FRAME, self, index, at_ns);
    }
}

/* The event is one of the rank's processor, which is free. */
static void serve(tt_walk *walk, uint32_t self, uint32_t what)
{
    const uint32_t index = what >> TT_WALK_WHAT_BITS;
    tt_walk_rank *rank = tt_walk_rank_of(walk, self);
    TT_ASSERT(rank->queued > 0);
    rank->queued--;
    switch ((tt_walk_event)(what & ((1 << TT_WALK_WHAT_BITS) - 1))) {
    case TT_WALK_START:
        tt_walk_start(walk, self);
        break;
    case TT_WALK_FRAME:
        complete(walk, self, index, walk->now_ns);
        return;
    case TT_WALK_WORK:
        rank->is_stepping = false;
        rank->clock_ns = tt_max_u64(rank->clock_ns, walk->now_ns);
        break;
    default:
        tt_walk_released(walk, self, index);
        break;
    }
    tt_walk_step(walk, self);
}

static void wait_in_line(tt_walk *walk, tt_walk_rank *rank, uint32_t self, uint32_t what)
{
    const uint32_t index = tt_walk_frame_take(walk);
    if (index == TT_WALK_NONE) {
        return;
    }
    walk->frames[index].what = what;
    walk->frames[index].next = TT_WALK_NONE;
    if (rank->waiting == TT_WALK_NONE) {
        rank->waiting = index;
        tt_walk_push(walk, TT_WALK_IDLE, self, 0, rank->clock_ns);
    } else {
        walk->frames[rank->waiting_last].next = index;
    }
    rank->waiting_last = index;
}

static bool is_busy(const tt_walk *walk, const tt_walk_rank *rank)
{
    return rank->clock_ns > walk->now_ns || rank->resumes > 0;
}

/* Where ranks share links or memory, everything must happen in the order of times: a rank does
 * nothing before its processor is free. */
static void offer(tt_walk *walk, uint32_t self, uint32_t what)
{
    tt_walk_rank *rank = tt_walk_rank_of(walk, self);
    if (!walk->fabric->is_private && (is_busy(walk, rank) || rank->waiting != TT_WALK_NONE)) {
        wait_in_line(walk, rank, self, what);
    } else {
        serve(walk, self, what);
    }
}

static void serve_waiting(tt_walk *walk, uint32_t self)
{
    tt_walk_rank *rank = tt_walk_rank_of(walk, self);
    while (rank->waiting != TT_WALK_NONE && !is_busy(walk, rank)) {
        const uint32_t index = rank->waiting, what = walk->frames[index].what;
        rank->waiting = walk->frames[index].next;
        tt_walk_frame_give(walk, index);
        serve(walk, self, what);
    }
    if (rank->waiting != TT_WALK_NONE) {
        tt_walk_push(walk, TT_WALK_IDLE, self, 0, rank->clock_ns);
    }
}

static void handle(tt_walk *walk, tt_event event)
{
    const uint32_t self = event.rank, index = event.what >> TT_WALK_WHAT_BITS;
    const tt_walk_event kind = event.what & ((1 << TT_WALK_WHAT_BITS) - 1);
    switch (kind) {
    case TT_WALK_HEAD:
        pass(walk, self, index);
        break;
    case TT_WALK_DEPART:
        depart_due(walk, index);
        break;
    case TT_WALK_CARD:
        tt_walk_card_serve(walk, index);
        break;
    case TT_WALK_IDLE:
        serve_waiting(walk, self);
        break;
    case TT_WALK_TAKE:
    case TT_WALK_GO_ON:
    case TT_WALK_UNPARK:
    case TT_WALK_STEP:
        tt_walk_resume(walk, self, kind, index);
        break;
    default:
        offer(walk, self, event.what);
        break;
    }
}

/* What events to come will need: the rank with its first lane, and the frame. */
static void fetch_ahead(const tt_walk *walk)
{
    const tt_event *far = tt_event_queue_see(&walk->queue, RANK_AHEAD);
    const tt_event *near = tt_event_queue_see(&walk->queue, FRAME_AHEAD);
    if (far != NULL) {
        const uint8_t *rank = walk->ranks + far->rank * walk->rank_bytes;
        __builtin_prefetch(rank, 1);
        __builtin_prefetch(rank + LINE_BYTES, 1);
    }
    if (near != NULL) {
        const uint32_t index = near->what >> TT_WALK_WHAT_BITS;
        __builtin_prefetch(&walk->frames[index < walk->frame_count ? index : 0]);
    }
}

static tt_status run_events(tt_walk *walk, tt_text *why)
{
    tt_event event;
    while (!walk->queue.has_failed && tt_event_queue_pop(&walk->queue, &event)) {
        TT_DEBUG_ASSERT(event.at_ns >= walk->now_ns);
        walk->now_ns = event.at_ns;
        fetch_ahead(walk);
        handle(walk, event);
        walk->result.events++;
    }
    if (walk->queue.has_failed) {
        tt_text_add(why,
                    "'%s' of %u ranks needs more than the %" PRIu64
                    " bytes it may take: allow more memory, or simulate fewer ranks",
                    walk->algorithm->name, walk->problem.size, walk->bytes_max);
        return TT_ERR_NO_MEMORY;
    }
    TT_ASSERT(walk->ranks_left == 0); /* else the algorithm's moves do not match */
    return TT_OK;
}

/* ---- plans ---- */

static bool are_alike(const tt_plan *a, const tt_plan *b)
{
    return a->lane_bytes == b->lane_bytes && a->partner_max == b->partner_max &&
           a->frame_bytes == b->frame_bytes && a->scratch_bytes == b->scratch_bytes &&
           a->slot_bytes == b->slot_bytes && a->sends_alike == b->sends_alike &&
           a->is_flat == b->is_flat;
}

/* Plans depend on the rank only where one of them is the center; false: too many. */
static bool plan_rank(tt_walk *walk, uint32_t self, uint8_t *number_out)
{
    tt_plan plan;
    walk->problem.self = self;
    walk->algorithm->plan(&walk->problem, &plan);
    const tt_plan *first = &walk->plans[0];
    if (walk->plan_count > 0) { /* all ranks agree on these */
        TT_ASSERT(plan.lane_count == first->lane_count && plan.fan == first->fan);
        TT_ASSERT(plan.round_count == first->round_count);
        TT_ASSERT(plan.reduce_early == first->reduce_early);
    }
    uint32_t number = 0;
    while (number < walk->plan_count && !are_alike(&walk->plans[number], &plan)) {
        number++;
    }
    if (number == TT_WALK_PLANS_MAX) {
        return false;
    }
    walk->plans[number] = plan;
    walk->plan_count += number == walk->plan_count ? 1 : 0;
    *number_out = (uint8_t)number;
    return true;
}

/* ---- start ---- */

/* The problem as all ranks see it, its algorithm and first plan, and the sizes that follow. */
static tt_status walk_init(tt_walk *walk, const tt_moves_input *input, tt_text *why)
{
    TT_ASSERT(walk->plan_count == 0); /* zeros, as it was allocated */
    walk->problem = input->problem;
    walk->problem.facts = NULL;
    walk->fabric = input->fabric;
    walk->allocator = input->allocator;
    walk->bytes_max = input->memory_bytes_max;
    walk->live_bytes = sizeof(*walk);
    walk->ranks_left = input->problem.size;
    walk->bounded =
        (tt_allocator){.allocate = bounded_allocate, .release = bounded_release, .user = walk};
    tt_event_queue_init(&walk->queue, &walk->bounded);
    TT_TRY(tt_walk_check_input(input, why));
    walk->algorithm = tt_algorithm_choose(&walk->problem, input->forced);
    walk->result.algorithm = walk->algorithm;
    return TT_OK;
}

static tt_status make_facts(tt_walk *walk, bool is_staged)
{
    const size_t count = sizes_of(walk).facts;
    if (!take(walk, &walk->facts, count, sizeof(*walk->facts))) {
        return TT_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < count; i++) {
        walk->facts[i].is_shared = is_staged ? 0 : 1;
    }
    walk->problem.facts = walk->facts;
    return TT_OK;
}

static tt_status walk_plan(tt_walk *walk, const tt_moves_input *input, tt_text *why)
{
    uint8_t number;
    (void)plan_rank(walk, 0, &number);
    const tt_plan *plan = &walk->plans[0];
    if (plan->lane_count >= UINT32_MAX / 2) {
        tt_text_add(why,
                    "'%s' cuts the call into %" PRIu64
                    " lanes, more than moves can walk: give longer segments",
                    walk->algorithm->name, plan->lane_count);
        return TT_ERR_UNSUPPORTED;
    }
    if (plan->reduce_early && plan->fan > 1) {
        tt_text_add(why,
                    "'%s' adds arrivals of several peers early, which moves do not walk: "
                    "choose another algorithm",
                    walk->algorithm->name);
        return TT_ERR_UNSUPPORTED;
    }
    walk->is_eager = plan->frame_bytes <= input->eager_bytes_max;
    lay_out(walk);
    return TT_OK;
}

static tt_status start_ranks(tt_walk *walk, const uint64_t *start_ns, tt_text *why)
{
    for (uint32_t self = 0; self < walk->problem.size; self++) {
        tt_walk_rank *rank = tt_walk_rank_of(walk, self);
        *rank = (tt_walk_rank){.parked = TT_WALK_NONE, .waiting = TT_WALK_NONE, .queued = 1};
        if (!plan_rank(walk, self, &rank->plan)) {
            tt_text_add(why, "'%s' has more than %u plans for one call: moves keep no more",
                        walk->algorithm->name, (unsigned)TT_WALK_PLANS_MAX);
            return TT_ERR_UNSUPPORTED;
        }
        if (!walk->is_eager) {
            tt_walk_find_sources(walk, self);
        }
    }
    for (uint32_t self = 0; self < walk->problem.size; self++) {
        tt_walk_push(walk, TT_WALK_START, self, 0, start_ns != NULL ? start_ns[self] : 0);
    }
    return TT_OK;
}

static uint64_t bytes_held(const tt_walk *walk)
{
    const sizes held = sizes_of(walk);
    return sizeof(*walk) + held.ranks + held.partners * sizeof(*walk->partners) +
           held.granted * sizeof(*walk->granted) + held.seen * sizeof(*walk->seen) +
           held.facts * sizeof(*walk->facts) + held.cards * sizeof(*walk->cards) +
           held.heads * sizeof(*walk->heads) + FRAMES_MIN * sizeof(*walk->frames);
}

uint64_t tt_walk_stage_bytes(const tt_moves_input *input)
{
    tt_walk *walk = tt_allocate(input->allocator, 1, sizeof(*walk));
    tt_text why = {0};
    if (walk == NULL) {
        return 0;
    }
    uint64_t bytes = 0;
    if (walk_init(walk, input, &why) == TT_OK) {
        walk->bytes_max = UINT64_MAX; /* how much it is, not whether it is allowed */
        const bool is_fine =
            make_facts(walk, input->is_staged) == TT_OK && walk_plan(walk, input, &why) == TT_OK;
        bytes = is_fine ? bytes_held(walk) : 0;
        tt_release(&walk->bounded, walk->facts, sizes_of(walk).facts, sizeof(*walk->facts));
    }
    tt_release(input->allocator, walk, 1, sizeof(*walk));
    return bytes;
}

static tt_status refuse_memory(const tt_walk *walk, tt_text *why)
{
    tt_text_add(why,
                "'%s' of %u ranks needs %" PRIu64 " bytes, and may take %" PRIu64
                ": allow more memory, or simulate fewer ranks",
                walk->algorithm->name, walk->problem.size, bytes_held(walk), walk->bytes_max);
    return TT_ERR_NO_MEMORY;
}

static tt_status walk_run(tt_walk *walk, const tt_moves_input *input, tt_text *why)
{
    TT_TRY(make_facts(walk, input->is_staged) == TT_OK ? TT_OK : refuse_memory(walk, why));
    TT_TRY(walk_plan(walk, input, why));
    TT_TRY(walk_reserve(walk) == TT_OK ? TT_OK : refuse_memory(walk, why));
    TT_TRY(start_ranks(walk, input->start_ns, why));
    return run_events(walk, why);
}

tt_status tt_walk_stage(const tt_moves_input *input, tt_text *why, uint64_t *done_ns_out,
                        tt_moves_result *result_out)
{
    tt_walk *walk = tt_allocate(input->allocator, 1, sizeof(*walk));
    if (walk == NULL) {
        tt_text_add(why, "moves need %zu bytes: free some memory", sizeof(*walk));
        return TT_ERR_NO_MEMORY;
    }
    tt_status status = walk_init(walk, input, why);
    if (status == TT_OK) {
        walk->done_ns = done_ns_out;
        status = walk_run(walk, input, why);
        walk_release(walk);
    }
    if (status == TT_OK) {
        *result_out = walk->result;
    }
    tt_release(input->allocator, walk, 1, sizeof(*walk));
    return status;
}

uint64_t tt_moves_bytes(const tt_moves_input *input)
{
    tt_text why = {0};
    tt_moves_input places;
    const uint64_t bytes = tt_walk_stage_bytes(input);
    const bool has_places =
        tt_walk_check_input(input, &why) == TT_OK && tt_walk_has_places(input, &places);
    return has_places ? tt_max_u64(bytes, tt_walk_places_bytes(&places)) : bytes;
}

static void add_stage(tt_moves_result *total, const tt_moves_result *stage)
{
    for (int level = 0; level < TT_FABRIC_LEVELS; level++) {
        total->levels[level].frames_sent += stage->levels[level].frames_sent;
        total->levels[level].frames_received += stage->levels[level].frames_received;
        total->levels[level].bytes_sent += stage->levels[level].bytes_sent;
        total->levels[level].bytes_received += stage->levels[level].bytes_received;
    }
    total->grants += stage->grants;
    total->events += stage->events;
    total->memory_bytes = tt_max_u64(total->memory_bytes, stage->memory_bytes);
}

tt_status tt_moves_run(const tt_moves_input *input, tt_text *why, uint64_t *done_ns_out,
                       tt_moves_result *result_out)
{
    tt_moves_input exchange = *input, places;
    tt_moves_result before;
    TT_TRY(tt_walk_check_input(input, why));
    const bool has_places = tt_walk_has_places(input, &places);
    const uint64_t bytes = has_places ? tt_walk_stage_bytes(input) : 0;
    if (!has_places || bytes > input->memory_bytes_max) { /* or is refused, before the first */
        return tt_walk_stage(input, why, done_ns_out, result_out);
    }
    if (bytes == 0) { /* not even asked */
        tt_text_add(why, "moves need %zu bytes: free some memory", sizeof(tt_walk));
        return TT_ERR_NO_MEMORY;
    }
    TT_TRY(tt_walk_places(&places, why, done_ns_out, &before));
    exchange.start_ns = done_ns_out;
    TT_TRY(tt_walk_stage(&exchange, why, done_ns_out, result_out));
    add_stage(result_out, &before);
    return TT_OK;
}
