/* SPDX-License-Identifier: Apache-2.0
 *
 * symbolic.c - see symbolic.h. */
#include "conformance/symbolic.h"

#include <stdlib.h>
#include <string.h>

#include "aggregate/exec.h"
#include "base/base.h"
#include "base/philox.h"
#include "conformance/symbolic_internal.h"
#include "kernel/adasum_math.h"

/* A region of symbols of one rank. */
typedef struct field {
    symbol *symbols;
    uint64_t count;
} field;

typedef struct lane_state {
    bool is_open;
    bool is_entered;
    bool has_work;   /* this round's, not yet done */
    bool is_working; /* its event is on the way */
    bool has_reduce; /* this round's, not yet applied */
    uint32_t round;
    uint32_t sends_open, arrivals_open;
    uint8_t *received; /* [round * size + peer] */
    field scratch;
    field slot;
} lane_state;

typedef struct rank_state {
    field input, output;
    lane_state *lanes;
    uint64_t lanes_opened, lanes_done;
    uint64_t knows; /* ranks that have surely started */
} rank_state;

typedef enum event_kind { EVENT_SEND, EVENT_ARRIVE, EVENT_WORK } event_kind;

typedef struct event {
    struct event *next;
    event_kind kind;
    uint32_t rank; /* where it happens */
    uint32_t peer;
    uint64_t lane;
    uint32_t round;
    tt_move move;
    uint64_t knows;
    uint64_t count;
    symbol symbols[];
} event;

typedef struct symbolic_model {
    const symbolic_book *book;
    const symbolic_case *what;
    rank_state ranks[SYMBOLIC_SIZE_MAX];
    event *events; /* newest first */
    uint64_t event_count;
    tt_random random;
    const char *error;
} symbolic_model;

static void lane_run(symbolic_model *model, uint32_t rank, uint64_t number);

/* ---- memory ---- */

static void *take(size_t bytes)
{
    void *memory = calloc(1, bytes > 0 ? bytes : 1);
    if (memory == NULL) {
        abort();
    }
    return memory;
}

static field field_make(uint64_t count)
{
    return (field){.symbols = take(count * sizeof(symbol)), .count = count};
}

static void fault(symbolic_model *model, const char *text)
{
    if (model->error == NULL) {
        model->error = text;
    }
}

/* The symbols at `spot`, or NULL after a fault. */
static symbol *symbols_at(symbolic_model *model, uint32_t rank, uint64_t lane, tt_spot spot,
                          uint64_t bytes)
{
    rank_state *state = &model->ranks[rank];
    const field fields[] = {[TT_INPUT] = state->input,
                            [TT_OUTPUT] = state->output,
                            [TT_SCRATCH] = state->lanes[lane].scratch,
                            [TT_SLOT] = state->lanes[lane].slot};
    if (spot.buffer > TT_SLOT) {
        fault(model, "a spot in no buffer");
        return NULL;
    }
    if (bytes == 0) {
        return fields[spot.buffer].symbols;
    }
    if (spot.offset % SYMBOLIC_ELEMENT_BYTES != 0 || bytes % SYMBOLIC_ELEMENT_BYTES != 0) {
        fault(model, "a move is not aligned to elements");
        return NULL;
    }
    if ((spot.offset + bytes) / SYMBOLIC_ELEMENT_BYTES > fields[spot.buffer].count) {
        fault(model, "a move goes beyond its buffer");
        return NULL;
    }
    return fields[spot.buffer].symbols + spot.offset / SYMBOLIC_ELEMENT_BYTES;
}

static symbol combine(symbolic_model *model, symbol a, symbol b)
{
    if (a.holders == 0 || b.holders == 0) {
        fault(model, "a sum reads memory that was never written");
    } else if ((a.holders & b.holders) != 0) {
        fault(model, "a contribution is added twice");
    } else if (a.element != b.element) {
        fault(model, "a sum mixes different elements");
    } else if (a.is_finished || b.is_finished) {
        fault(model, "a finished value is added to");
    }
    return (symbol){.holders = a.holders | b.holders, .element = a.element};
}

static void apply_reduce(symbolic_model *model, const event *at, const symbol *arrival)
{
    const symbol *own = symbols_at(model, at->rank, at->lane, at->move.source, at->move.bytes);
    symbol *target = symbols_at(model, at->rank, at->lane, at->move.target, at->move.bytes);
    for (uint64_t i = 0; model->error == NULL && i < at->move.bytes / SYMBOLIC_ELEMENT_BYTES; i++) {
        target[i] = combine(model, own[i], arrival[i]);
    }
}

/* ---- work ---- */

static void finish_symbols(symbolic_model *model, symbol *symbols, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        if (symbols[i].is_finished) {
            fault(model, "a value is finished twice");
        }
        symbols[i].is_finished = true;
    }
}

static void work_copy(symbolic_model *model, const event *at, uint64_t count)
{
    const tt_work work = at->move.work;
    const bool is_taken = work == TT_WORK_PULL || work == TT_WORK_CAST;
    const uint32_t from = is_taken ? at->move.peer : at->rank;
    const uint32_t to = work == TT_WORK_PUSH ? at->move.peer : at->rank;
    const symbol *source = symbols_at(model, from, at->lane, at->move.source, at->move.bytes);
    for (uint32_t r = 0; model->error == NULL && r < model->what->size; r++) {
        const bool is_meant = r == to || work == TT_WORK_CAST;
        symbol *target =
            is_meant ? symbols_at(model, r, at->lane, at->move.target, at->move.bytes) : NULL;
        if (target != NULL) {
            memmove(target, source, count * sizeof(symbol));
            if (work == TT_WORK_FINISH) {
                finish_symbols(model, target, count);
            }
        }
    }
}

/* Sum of slots in the own scratch, or of all ranks' inputs. */
static void work_sum(symbolic_model *model, const event *at, uint64_t count)
{
    const bool is_fold = at->move.work == TT_WORK_FOLD;
    symbol *target = symbols_at(model, is_fold ? at->move.peer : at->rank, at->lane,
                                at->move.target, at->move.bytes);
    for (uint64_t i = 0; model->error == NULL && i < count; i++) {
        symbol sum = {0};
        for (uint32_t r = 0; model->error == NULL && r < model->what->size; r++) {
            const tt_spot slot = {.buffer = TT_SCRATCH, .offset = r * at->move.slot};
            const symbol *source =
                symbols_at(model, is_fold ? r : at->rank, at->lane,
                           is_fold || r == at->rank ? at->move.source : slot, at->move.bytes);
            if (source != NULL) {
                sum = r == 0 ? source[i] : combine(model, sum, source[i]);
            }
        }
        target[i] = sum;
    }
    if (model->error == NULL) {
        finish_symbols(model, target, count);
    }
}

/* Place of the lane's chunk at `member`, as views show it. */
static symbol *viewed(symbolic_model *model, const event *at, uint32_t member, bool is_output)
{
    const tt_plan *plan = &model->book->plans[at->rank];
    const bool is_own =
        member == at->rank && at->move.work == TT_WORK_VIEWS && at->move.target.buffer == TT_OUTPUT;
    tt_spot spot = {.buffer = TT_SLOT, .offset = at->move.offset};
    if (model->book->facts[member].is_shared != 0 || is_own) {
        spot.buffer = is_output ? TT_OUTPUT : TT_INPUT;
        spot.offset += at->lane * plan->lane_bytes;
    }
    if (!model->ranks[member].lanes[at->lane].is_open && spot.buffer == TT_SLOT) {
        fault(model, "a view of a lane that is not open");
        return NULL;
    }
    return symbols_at(model, member, at->lane, spot, at->move.bytes);
}

static void work_views(symbolic_model *model, const event *at, uint64_t count)
{
    const tt_topology *topology = model->what->topology;
    const uint32_t host = topology->host_of[at->rank];
    const bool is_rail = at->move.target.buffer == TT_SCRATCH;
    symbol *sums = take(count * sizeof(symbol));
    for (uint32_t m = topology->host_first[host]; m < topology->host_first[host + 1]; m++) {
        const symbol *source = viewed(model, at, topology->host_members[m], false);
        for (uint64_t i = 0; model->error == NULL && i < count; i++) {
            sums[i] =
                m == topology->host_first[host] ? source[i] : combine(model, sums[i], source[i]);
        }
    }
    if (is_rail) {
        symbol *target = symbols_at(model, at->rank, at->lane, at->move.target, at->move.bytes);
        if (target != NULL && model->error == NULL) {
            memcpy(target, sums, count * sizeof(symbol));
        }
    } else {
        finish_symbols(model, sums, count);
    }
    for (uint32_t m = topology->host_first[host]; !is_rail && m < topology->host_first[host + 1];
         m++) {
        symbol *target = viewed(model, at, topology->host_members[m], true);
        if (model->error == NULL) {
            memcpy(target, sums, count * sizeof(symbol));
        }
    }
    free(sums);
}

static void work_spread(symbolic_model *model, const event *at, uint64_t count)
{
    const tt_topology *topology = model->what->topology;
    const uint32_t host = topology->host_of[at->rank];
    const symbol *source = symbols_at(model, at->rank, at->lane, at->move.source, at->move.bytes);
    for (uint32_t m = topology->host_first[host]; m < topology->host_first[host + 1]; m++) {
        symbol *target = viewed(model, at, topology->host_members[m], true);
        if (model->error == NULL) {
            memcpy(target, source, count * sizeof(symbol));
        }
    }
}

/* Products of a part record the rank that computed them; summed, all ranks of the block. A blend
 * must have those of exactly the ranks whose contributions it joins. */
static void work_adasum(symbolic_model *model, const event *at, uint64_t count)
{
    const tt_move *move = &at->move;
    const bool is_first = move->work == TT_WORK_PRODUCTS, is_blend = move->work == TT_WORK_BLEND;
    const uint64_t product_bytes = sizeof(tt_products);
    const symbol *own = symbols_at(model, at->rank, at->lane, move->source, move->bytes);
    const symbol *theirs =
        symbols_at(model, at->rank, at->lane, (tt_spot){TT_SCRATCH, move->slot}, move->bytes);
    const symbol *known = symbols_at(model, at->rank, at->lane,
                                     (tt_spot){TT_SCRATCH, is_blend ? move->offset : 0}, 24);
    symbol *target =
        symbols_at(model, at->rank, at->lane, move->target, is_first ? product_bytes : move->bytes);
    for (uint64_t i = 0; model->error == NULL && i < count; i++) {
        const symbol both = combine(model, own[i], theirs[i]);
        if (is_blend && known[0].holders != both.holders) {
            fault(model, "a blend by the products of other ranks");
        }
        target[is_first ? 0 : i] = both;
    }
    for (uint32_t i = 0; is_first && model->error == NULL && i < product_bytes / 4; i++) {
        target[i] = (symbol){.holders = UINT64_C(1) << at->rank, .element = i};
    }
}

/* The index-th rank whose memory a coded work reads and writes: all of the host with rails, else
 * the own one. UINT32_MAX: no more. */
static uint32_t sharer(const symbolic_model *model, const event *at, uint32_t index)
{
    const tt_topology *topology = model->what->topology;
    if (!tt_coding_has_rails(&model->book->problems[at->rank])) {
        return index == 0 ? at->rank : UINT32_MAX;
    }
    const uint32_t *first = &topology->host_first[topology->host_of[at->rank]];
    return index < first[1] - first[0] ? topology->host_members[first[0] + index] : UINT32_MAX;
}

static uint64_t piece_count(const symbolic_model *model, const event *at, uint32_t owner)
{
    return tt_owned_piece(&model->book->problems[at->rank], &model->book->plans[at->rank], at->lane,
                          owner)
        .count;
}

/* The piece of `owner` in the memory of `rank`: `buffer` is its input, output or staging slot. */
static symbol *piece_at(symbolic_model *model, const event *at, uint32_t owner, uint32_t rank,
                        tt_buffer buffer)
{
    const tt_problem *problem = &model->book->problems[at->rank];
    const tt_plan *plan = &model->book->plans[at->rank];
    const tt_owned piece = tt_owned_piece(problem, plan, at->lane, owner);
    const tt_spot spot = {.buffer = buffer,
                          .offset = buffer == TT_SLOT
                                        ? tt_owner_number(problem, owner) * plan->lane_bytes
                                        : piece.first * SYMBOLIC_ELEMENT_BYTES};
    if (buffer == TT_SLOT && !model->ranks[rank].lanes[at->lane].is_open) {
        fault(model, "a view of a lane that is not open");
        return NULL;
    }
    return symbols_at(model, rank, at->lane, spot, piece.count * SYMBOLIC_ELEMENT_BYTES);
}

static tt_buffer shared_buffer(const symbolic_model *model, uint32_t rank, const event *at,
                               tt_buffer buffer)
{
    const bool has_rails = tt_coding_has_rails(&model->book->problems[at->rank]);
    return has_rails && model->book->facts[rank].is_shared == 0 ? TT_SLOT : buffer;
}

/* Own values of a piece: with rails, the host's sum. */
static void piece_load(symbolic_model *model, const event *at, uint32_t owner, symbol *values)
{
    for (uint32_t s = 0, rank; (rank = sharer(model, at, s)) != UINT32_MAX; s++) {
        const symbol *source =
            piece_at(model, at, owner, rank, shared_buffer(model, rank, at, TT_INPUT));
        for (uint64_t i = 0; model->error == NULL && i < piece_count(model, at, owner); i++) {
            values[i] = s == 0 ? source[i] : combine(model, values[i], source[i]);
        }
    }
}

static void piece_store(symbolic_model *model, const event *at, uint32_t owner,
                        const symbol *values)
{
    for (uint32_t s = 0, rank; (rank = sharer(model, at, s)) != UINT32_MAX; s++) {
        symbol *target =
            piece_at(model, at, owner, rank, shared_buffer(model, rank, at, TT_OUTPUT));
        for (uint64_t i = 0; model->error == NULL && i < piece_count(model, at, owner); i++) {
            if (values[i].holders == 0) {
                fault(model, "coding reads memory that was never written");
            }
            target[i] = values[i];
        }
    }
}

/* Wire bytes of a piece. The codec is "none": they are the elements themselves. */
static symbol *wire_at(symbolic_model *model, const event *at, tt_spot slots, uint32_t position,
                       uint64_t count)
{
    slots.offset += position * at->move.slot;
    return symbols_at(model, at->rank, at->lane, slots, count * SYMBOLIC_ELEMENT_BYTES);
}

static void work_pieces(symbolic_model *model, const event *at)
{
    const tt_problem *problem = &model->book->problems[at->rank];
    const bool is_encode = at->move.work == TT_WORK_ENCODE;
    for (uint32_t position = 0; position < tt_rail_size(problem); position++) {
        const uint32_t owner = tt_rail_member(problem, position);
        symbol *wire = wire_at(model, at, is_encode ? at->move.target : at->move.source, position,
                               piece_count(model, at, owner));
        if (owner == at->rank || wire == NULL || model->error != NULL) {
            continue;
        }
        if (is_encode) {
            piece_load(model, at, owner, wire);
        } else {
            piece_store(model, at, owner, wire);
        }
    }
}

static void work_merge(symbolic_model *model, const event *at)
{
    const tt_problem *problem = &model->book->problems[at->rank];
    const bool is_sent_on = model->what->collective == TT_ALLREDUCE && model->what->size > 1;
    const uint64_t count = piece_count(model, at, at->rank);
    const uint32_t self = tt_rail_position(problem);
    symbol *sums = take(count * sizeof(symbol)), *own = take(count * sizeof(symbol));
    piece_load(model, at, at->rank, own);
    for (uint32_t r = 0; model->error == NULL && r < tt_rail_size(problem); r++) {
        const symbol *part = r == self ? own : wire_at(model, at, at->move.source, r, count);
        for (uint64_t i = 0; model->error == NULL && i < count; i++) {
            sums[i] = r == 0 ? part[i] : combine(model, sums[i], part[i]);
        }
    }
    finish_symbols(model, sums, count);
    const tt_spot slots = {TT_SCRATCH, 0};
    symbol *coded = is_sent_on ? wire_at(model, at, slots, self, count) : NULL;
    if (coded != NULL && model->error == NULL) {
        memcpy(coded, sums, count * sizeof(symbol));
    }
    if (model->what->collective == TT_ALLREDUCE) {
        piece_store(model, at, at->rank, sums);
    } else {
        symbol *target =
            symbols_at(model, at->rank, at->lane, at->move.target, count * SYMBOLIC_ELEMENT_BYTES);
        memcpy(target, sums, target != NULL ? count * sizeof(symbol) : 0);
    }
    free(sums);
    free(own);
}

static void work_stage(symbolic_model *model, const event *at)
{
    const tt_problem *problem = &model->book->problems[at->rank];
    for (uint32_t number = 0; number < tt_owner_count(problem); number++) {
        const uint32_t owner = tt_owner_member(problem, number);
        const symbol *source = piece_at(model, at, owner, at->rank, at->move.source.buffer);
        symbol *target = piece_at(model, at, owner, at->rank, at->move.target.buffer);
        if (model->error == NULL) {
            memcpy(target, source, piece_count(model, at, owner) * sizeof(symbol));
        }
    }
}

static void do_work(symbolic_model *model, const event *at)
{
    const uint64_t count = at->move.bytes / SYMBOLIC_ELEMENT_BYTES;
    if (count == 0 && at->move.work != TT_WORK_PRODUCTS) {
        return;
    }
    switch (at->move.work) {
    case TT_WORK_COPY:
    case TT_WORK_FINISH:
    case TT_WORK_PULL:
    case TT_WORK_PUSH:
    case TT_WORK_CAST:
        work_copy(model, at, count);
        break;
    case TT_WORK_SUM:
    case TT_WORK_FOLD:
        work_sum(model, at, count);
        break;
    case TT_WORK_VIEWS:
        work_views(model, at, count);
        break;
    case TT_WORK_SPREAD:
        work_spread(model, at, count);
        break;
    case TT_WORK_PRODUCTS:
    case TT_WORK_ADD:
    case TT_WORK_BLEND:
        work_adasum(model, at, count);
        break;
    case TT_WORK_ENCODE:
    case TT_WORK_DECODE:
        work_pieces(model, at);
        break;
    case TT_WORK_MERGE:
        work_merge(model, at);
        break;
    case TT_WORK_STAGE:
        work_stage(model, at);
        break;
    }
}

/* ---- lanes and rounds ---- */

static bool move_at(const symbolic_model *model, uint32_t rank, tt_cursor at, tt_move *move_out)
{
    memset(move_out, 0xa5, sizeof(*move_out)); /* an algorithm must set what its move needs */
    return model->what->algorithm->move(&model->book->problems[rank], &model->book->plans[rank], at,
                                        move_out);
}

static event *event_add(symbolic_model *model, event_kind kind, uint32_t rank, tt_cursor at,
                        const tt_move *move)
{
    const bool has_symbols = kind == EVENT_ARRIVE;
    event *made = take(sizeof(*made) +
                       (has_symbols ? move->bytes / SYMBOLIC_ELEMENT_BYTES : 0) * sizeof(symbol));
    made->kind = kind;
    made->rank = rank;
    made->peer = move->peer;
    made->lane = at.lane;
    made->round = at.round;
    made->move = *move;
    made->next = model->events;
    model->events = made;
    model->event_count++;
    return made;
}

static void round_enter(symbolic_model *model, uint32_t rank, uint64_t number)
{
    lane_state *lane = &model->ranks[rank].lanes[number];
    tt_cursor at = {.lane = number, .round = lane->round};
    tt_move move;
    lane->is_entered = true;
    lane->sends_open = lane->arrivals_open = 0;
    lane->has_work = lane->has_reduce = false;
    for (at.index = 0; move_at(model, rank, at, &move); at.index++) {
        if (move.kind == TT_MOVE_SEND) {
            lane->sends_open++;
            event_add(model, EVENT_SEND, rank, at, &move);
        } else if (move.kind == TT_MOVE_WORK) {
            lane->has_work = true;
        } else if (move.kind != TT_MOVE_NONE) {
            const bool is_here = lane->received[at.round * model->what->size + move.peer] != 0;
            lane->arrivals_open += is_here ? 0 : 1;
            if (move.kind == TT_MOVE_REDUCE) {
                lane->has_reduce = !(is_here && model->book->plans[rank].reduce_early);
            }
        }
    }
}

/* The arrival (rank, lane, round, peer), or false. */
static bool find_arrival(const symbolic_model *model, event *at)
{
    tt_cursor cursor = {.lane = at->lane, .round = at->round};
    for (; move_at(model, at->rank, cursor, &at->move); cursor.index++) {
        if ((at->move.kind == TT_MOVE_STORE || at->move.kind == TT_MOVE_REDUCE) &&
            at->move.peer == at->peer) {
            return true;
        }
    }
    return false;
}

static void round_finish(symbolic_model *model, uint32_t rank, uint64_t number, bool *waits_out)
{
    lane_state *lane = &model->ranks[rank].lanes[number];
    tt_cursor cursor = {.lane = number, .round = lane->round};
    tt_move move;
    *waits_out = false;
    for (; move_at(model, rank, cursor, &move); cursor.index++) {
        event at = {.rank = rank, .lane = number, .move = move};
        if (move.kind == TT_MOVE_REDUCE && lane->has_reduce) {
            const tt_spot slot = {.buffer = TT_SCRATCH, .offset = move.slot};
            const symbol *arrival = symbols_at(model, rank, number, slot, move.bytes);
            lane->has_reduce = false;
            if (arrival != NULL) {
                apply_reduce(model, &at, arrival);
            }
        } else if (move.kind == TT_MOVE_WORK && lane->has_work) {
            if (!lane->is_working) {
                event_add(model, EVENT_WORK, rank, cursor, &move);
            }
            lane->is_working = *waits_out = true;
        }
    }
}

static void lanes_open(symbolic_model *model, uint32_t rank)
{
    rank_state *state = &model->ranks[rank];
    const tt_plan *plan = &model->book->plans[rank];
    while (state->lanes_opened < plan->lane_count &&
           (state->lanes_opened < TT_LANES_MAX ||
            (!state->lanes[state->lanes_opened - TT_LANES_MAX].is_open))) {
        const uint64_t number = state->lanes_opened++;
        state->lanes[number].is_open = true;
        lane_run(model, rank, number);
    }
}

static void lane_run(symbolic_model *model, uint32_t rank, uint64_t number)
{
    rank_state *state = &model->ranks[rank];
    lane_state *lane = &state->lanes[number];
    while (model->error == NULL && lane->is_open) {
        bool waits;
        if (!lane->is_entered) {
            round_enter(model, rank, number);
        }
        if (lane->sends_open > 0 || lane->arrivals_open > 0) {
            return;
        }
        round_finish(model, rank, number, &waits);
        if (waits) {
            return;
        }
        lane->is_entered = false;
        lane->round++;
        if (lane->round == model->book->plans[rank].round_count) {
            lane->is_open = false;
            state->lanes_done++;
            lanes_open(model, rank);
        }
    }
}

/* ---- events ---- */

static void do_send(symbolic_model *model, const event *at)
{
    lane_state *lane = &model->ranks[at->rank].lanes[at->lane];
    const tt_cursor cursor = {.lane = at->lane, .round = at->round};
    const symbol *source = symbols_at(model, at->rank, at->lane, at->move.source, at->move.bytes);
    if (source == NULL) {
        return;
    }
    event *arrival = event_add(model, EVENT_ARRIVE, at->move.peer, cursor, &at->move);
    arrival->peer = at->rank;
    arrival->count = at->move.bytes / SYMBOLIC_ELEMENT_BYTES;
    arrival->knows = model->ranks[at->rank].knows;
    memcpy(arrival->symbols, source, arrival->count * sizeof(symbol));
    for (uint64_t i = 0; i < arrival->count; i++) {
        if (source[i].holders == 0) {
            fault(model, "a send reads memory that was never written");
        }
    }
    lane->sends_open--;
    lane_run(model, at->rank, at->lane);
}

static void do_arrive(symbolic_model *model, event *at)
{
    rank_state *state = &model->ranks[at->rank];
    lane_state *lane = &state->lanes[at->lane];
    if (!find_arrival(model, at) || at->move.bytes / SYMBOLIC_ELEMENT_BYTES != at->count) {
        fault(model, "a send without an arrival");
        return;
    }
    lane->received[at->round * model->what->size + at->peer] = 1;
    const bool is_current = lane->is_entered && lane->round == at->round;
    if (at->move.kind == TT_MOVE_REDUCE && model->book->plans[at->rank].reduce_early) {
        apply_reduce(model, at, at->symbols);
        lane->has_reduce = lane->has_reduce && !is_current;
    } else {
        const tt_spot slot = {.buffer = TT_SCRATCH, .offset = at->move.slot};
        symbol *target =
            symbols_at(model, at->rank, at->lane,
                       at->move.kind == TT_MOVE_REDUCE ? slot : at->move.target, at->move.bytes);
        if (target != NULL) {
            memcpy(target, at->symbols, at->count * sizeof(symbol));
        }
    }
    state->knows |= at->knows;
    if (is_current) {
        lane->arrivals_open--;
    }
    lane_run(model, at->rank, at->lane);
}

static void do_event(symbolic_model *model, event *at)
{
    lane_state *lane = &model->ranks[at->rank].lanes[at->lane];
    switch (at->kind) {
    case EVENT_SEND:
        do_send(model, at);
        break;
    case EVENT_ARRIVE:
        do_arrive(model, at);
        break;
    case EVENT_WORK:
        do_work(model, at);
        lane->has_work = lane->is_working = false;
        lane_run(model, at->rank, at->lane);
        break;
    }
}

/* Take out one event that can happen now; NULL: none can. */
static event *event_take(symbolic_model *model)
{
    const uint64_t seed = model->what->seed;
    event **chosen = NULL;
    uint64_t skip = seed < 2 || model->event_count == 0
                        ? 0
                        : tt_random_below(&model->random, tt_min_u64(model->event_count, 64));
    for (event **link = &model->events; *link != NULL; link = &(*link)->next) {
        const event *at = *link;
        if (at->kind == EVENT_ARRIVE && at->lane >= model->ranks[at->rank].lanes_opened) {
            continue; /* parked until its lane opens */
        }
        chosen = link;
        if (seed != 0 && skip-- == 0) {
            break;
        }
    }
    if (chosen == NULL) {
        return NULL;
    }
    event *taken = *chosen;
    *chosen = taken->next;
    model->event_count--;
    return taken;
}

/* ---- the run ---- */

static void model_prepare(symbolic_model *model)
{
    const symbolic_case *what = model->what;
    for (uint32_t r = 0; r < what->size; r++) {
        rank_state *state = &model->ranks[r];
        const tt_problem *problem = &model->book->problems[r];
        const tt_plan *plan = &model->book->plans[r];
        const uint64_t in_count = symbolic_input_count(what, problem);
        const uint64_t out_count = symbolic_output_count(what, problem);
        state->knows = UINT64_C(1) << r;
        state->input = field_make(in_count);
        state->output =
            what->is_in_place && out_count == in_count ? state->input : field_make(out_count);
        for (uint64_t i = 0; i < in_count; i++) {
            state->input.symbols[i] = symbolic_input_symbol(what, problem, i);
        }
        state->lanes = take(plan->lane_count * sizeof(lane_state));
        for (uint64_t n = 0; n < plan->lane_count; n++) {
            lane_state *lane = &state->lanes[n];
            lane->received = take((size_t)plan->round_count * what->size);
            lane->scratch = field_make(plan->scratch_bytes / SYMBOLIC_ELEMENT_BYTES);
            lane->slot = n < TT_LANES_MAX ? field_make(plan->slot_bytes / SYMBOLIC_ELEMENT_BYTES)
                                          : state->lanes[n - TT_LANES_MAX].slot;
        }
    }
}

static void model_release(symbolic_model *model)
{
    for (uint32_t r = 0; r < model->what->size; r++) {
        rank_state *state = &model->ranks[r];
        for (uint64_t n = 0; n < model->book->plans[r].lane_count; n++) {
            free(state->lanes[n].received);
            free(state->lanes[n].scratch.symbols);
            if (n < TT_LANES_MAX) {
                free(state->lanes[n].slot.symbols);
            }
        }
        free(state->lanes);
        if (state->output.symbols != state->input.symbols) {
            free(state->output.symbols);
        }
        free(state->input.symbols);
    }
    while (model->events != NULL) {
        event *next = model->events->next;
        free(model->events);
        model->events = next;
    }
}

static void check_end(symbolic_model *model)
{
    const symbolic_case *what = model->what;
    for (uint32_t r = 0; model->error == NULL && r < what->size; r++) {
        const rank_state *state = &model->ranks[r];
        if (state->lanes_done != model->book->plans[r].lane_count) {
            fault(model, "deadlock: a lane never ends");
        }
        if (what->collective == TT_BARRIER && state->knows != (UINT64_C(1) << what->size) - 1) {
            fault(model, "a barrier ended before every rank had begun");
        }
        const uint64_t count = symbolic_output_count(what, &model->book->problems[r]);
        for (uint64_t i = 0; model->error == NULL && i < count; i++) {
            const symbol wanted = symbolic_output_symbol(what, &model->book->problems[r], i);
            const symbol got = state->output.symbols[i];
            if (got.holders != wanted.holders || got.element != wanted.element) {
                fault(model, "an output element is not the sum of each contribution once");
            } else if (got.is_finished != wanted.is_finished) {
                fault(model, "an output element is not finished");
            }
        }
    }
    if (model->events != NULL) {
        fault(model, "a frame was never taken");
    }
}

const char *symbolic_run(const symbolic_book *book, const symbolic_case *what)
{
    symbolic_model model = {.book = book, .what = what};
    tt_random_init(&model.random, what->seed, 0);
    model_prepare(&model);
    for (uint32_t r = 0; r < what->size; r++) {
        lanes_open(&model, r);
    }
    event *at;
    while (model.error == NULL && (at = event_take(&model)) != NULL) {
        do_event(&model, at);
        free(at);
    }
    check_end(&model);
    model_release(&model);
    return model.error;
}
