/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_event.c - the heap of events, and what each does. The order is total: events of equal time
 * are ordered by sequence, so that a run is a function of its seed.
 *
 * Events of a busy rank are deferred until it is free, and all but one of them then again.
 * Consecutive events in time and sequence, with none of another rank between them, form a train, of
 * which the heap holds the first: a train is deferred as a whole, so that many events cost no more
 * than a few. The order is the same as if events were deferred one by one.
 *
 * With a model of the network, where the same happens to all ranks at the same time and trains are
 * short, events of a busy rank leave the heap and wait at the rank, in order; one event of the
 * rank, FREE, takes them one after the other. */
#include <stdlib.h>

#include "base/assert.h"
#include "base/base.h"
#include "kernel/hash64.h"
#include "platform/sim_internal.h"

/* ---- the heap ---- */

static bool is_before(const tt_sim_due *a, const tt_sim_due *b)
{
    return a->at != b->at ? a->at < b->at : a->sequence < b->sequence;
}

static void due_place(tt_sim *sim, size_t index, tt_sim_due due)
{
    sim->due[index] = due;
    if (due.has_place) { /* else the event, far in memory, is not written to */
        due.event->place = index + 1;
    }
}

/* Where `due` belongs, at `index` or above. */
static void due_rise(tt_sim *sim, size_t index, tt_sim_due due)
{
    while (index > 0 && is_before(&due, &sim->due[(index - 1) / 4])) {
        due_place(sim, index, sim->due[(index - 1) / 4]);
        index = (index - 1) / 4;
    }
    due_place(sim, index, due);
}

/* Where `due` belongs, at `index` or below. */
static void due_sink(tt_sim *sim, size_t index, tt_sim_due due)
{
    for (;;) {
        size_t least = 4 * index + 1;
        const size_t end = least + 4 < sim->due_count ? least + 4 : sim->due_count;
        for (size_t child = least + 1; child < end; child++) {
            least = is_before(&sim->due[child], &sim->due[least]) ? child : least;
        }
        if (least >= sim->due_count || is_before(&due, &sim->due[least])) {
            break;
        }
        due_place(sim, index, sim->due[least]);
        index = least;
    }
    due_place(sim, index, due);
}

static void due_change(tt_sim *sim, size_t index, tt_sim_due due)
{
    if (index > 0 && is_before(&due, &sim->due[(index - 1) / 4])) {
        due_rise(sim, index, due);
    } else {
        due_sink(sim, index, due);
    }
}

static void due_remove_at(tt_sim *sim, size_t index)
{
    sim->due[index].event->place = 0;
    sim->due_count--;
    if (index < sim->due_count) {
        due_change(sim, index, sim->due[sim->due_count]);
    }
}

static void due_remove(tt_sim *sim, tt_sim_event *event)
{
    TT_ASSERT(event->place >= 1 && event->place <= sim->due_count);
    TT_ASSERT(sim->due[event->place - 1].event == event);
    due_remove_at(sim, event->place - 1);
}

/* On modelled networks all but timers and cards leave the heap when they are due, and not before.
 * Trains are found by their places. */
static bool needs_place(const tt_sim *sim, const tt_sim_event *event)
{
    return sim->cards == NULL || event->kind == TT_SIM_TIMER || event->kind == TT_SIM_CARD;
}

/* Schedules the event, which may be in the heap already, at `at`. */
static void due_set(tt_sim *sim, tt_sim_event *event, uint64_t at)
{
    const tt_sim_due due = {.at = tt_max_u64(at, sim->now),
                            .sequence = sim->sequence++,
                            .event = event,
                            .has_place = needs_place(sim, event)};
    if (event->place > 0) {
        const size_t index = event->place - 1;
        TT_ASSERT(index < sim->due_count);
        event->place = TT_SIM_SOMEWHERE;
        due_change(sim, index, due);
        return;
    }
    event->place = TT_SIM_SOMEWHERE;
    if (sim->due_count == sim->due_capacity) {
        sim->due_capacity = sim->due_capacity > 0 ? 2 * sim->due_capacity : 64;
        sim->due = realloc(sim->due, sim->due_capacity * sizeof(*sim->due));
        TT_ASSERT(sim->due != NULL);
    }
    due_rise(sim, sim->due_count++, due);
}

/* Removes the first event. The rest of its train keeps its place in the order. */
static void due_take(tt_sim *sim)
{
    tt_sim_event *event = sim->due[0].event, *heir = event->next;
    if (event->behind == 0) {
        due_remove_at(sim, 0);
        return;
    }
    heir->behind = event->behind - 1;
    heir->last = event->last;
    due_place(sim, 0,
              (tt_sim_due){.at = sim->due[0].at,
                           .sequence = sim->due[0].sequence + 1,
                           .event = heir,
                           .has_place = true});
    event->place = event->behind = 0;
    event->next = event->last = NULL;
}

/* Reschedules the first event, and its train unless `is_single`, at `at`. */
static void due_put_off(tt_sim *sim, uint64_t at, bool is_single)
{
    tt_sim_event *event = sim->due[0].event, *train = sim->put_off;
    if (is_single && event->behind > 0) {
        due_take(sim);
        due_set(sim, event, at);
        sim->put_off = event;
        sim->put_off_end = sim->sequence;
        return;
    }
    const bool is_timer = event->kind == TT_SIM_TIMER; /* may be moved at any time */
    if (train != NULL && !is_timer && train->rank == event->rank &&
        sim->put_off_end == sim->sequence && sim->due[train->place - 1].at == at) {
        due_remove(sim, event);
        (train->behind > 0 ? train->last : train)->next = event;
        train->last = event->behind > 0 ? event->last : event;
        train->behind += event->behind + 1;
        sim->sequence += event->behind + 1;
        event->behind = 0;
    } else {
        event->place = 1; /* it is the first */
        due_set(sim, event, at);
        sim->sequence += event->behind;
        sim->put_off = event->kind == TT_SIM_TIMER || sim->cards != NULL ? NULL : event;
    }
    sim->put_off_end = sim->sequence;
}

/* ---- events ---- */

static void event_free(tt_sim *sim, tt_sim_event *event)
{
    event->next = sim->events_free;
    sim->events_free = event;
}

/* An event and those that follow it. */
static void events_release(tt_sim *sim, tt_sim_event *event)
{
    while (event != NULL) {
        tt_sim_event *next = event->next;
        if (event->parcel != NULL) {
            tt_parcel_release(event->parcel);
        }
        event_free(sim, event);
        event = next;
    }
}

void tt_sim_events_fini(tt_sim *sim)
{
    for (size_t i = 0; i < sim->due_count; i++) {
        events_release(sim, sim->due[i].event);
    }
    for (uint32_t rank = 0; rank < sim->config.size; rank++) {
        events_release(sim, sim->ranks[rank].waiting);
    }
    free(sim->due);
    while (sim->events_free != NULL) {
        tt_sim_event *next = sim->events_free->next;
        free(sim->events_free);
        sim->events_free = next;
    }
}

tt_sim_event *tt_sim_event_add(tt_sim *sim, tt_sim_event_kind kind, uint32_t rank, uint64_t at)
{
    tt_sim_event *event = sim->events_free;
    if (event != NULL) {
        sim->events_free = event->next;
    } else {
        event = tt_local_take(sizeof(*event));
        sim->events_made++;
    }
    *event = (tt_sim_event){.kind = kind, .rank = rank};
    due_set(sim, event, at);
    return event;
}

void tt_sim_event_move(tt_sim *sim, tt_sim_event *event, uint64_t at)
{
    due_set(sim, event, at);
}

void tt_sim_event_drop(tt_sim *sim, tt_sim_event *event)
{
    if (event->place > 0) {
        due_remove(sim, event);
    }
    event_free(sim, event);
}

/* Removal reorders the heap: keep the events, make them do nothing. */
static void forget(tt_sim_event *event, const tt_sim_event *like, bool is_all)
{
    for (; event != NULL; event = event->next) {
        if (event->kind == TT_SIM_SENT && event->peer == like->peer &&
            (is_all || event->token == like->token)) {
            event->kind = TT_SIM_WORK;
        }
    }
}

void tt_sim_sent_forget(tt_sim *sim, const tt_sim_event *like, bool is_all)
{
    for (size_t i = sim->due_count; i-- > 0;) {
        if (sim->due[i].event->rank == like->rank) { /* as its train has */
            forget(sim->due[i].event, like, is_all);
        }
    }
    forget(sim->ranks[like->rank].waiting, like, is_all);
}

/* When the rank can next be called; 0: never. */
static uint64_t callable_at(const tt_sim *sim, const tt_sim_rank *rank)
{
    if (rank->life != TT_SIM_ALIVE) {
        return 0;
    }
    return tt_max_u64(sim->now, tt_max_u64(rank->busy_until, rank->stopped_until));
}

static void note(tt_sim *sim, const tt_sim_event *event)
{
    const uint64_t what = (uint64_t)event->kind << 56 ^ (uint64_t)event->rank << 28 ^ event->peer;
    sim->hash = tt_hash64_mix(tt_hash64_mix(sim->hash, sim->now), what ^ event->token);
    sim->event_count++;
}

static void call_rank(tt_sim *sim, tt_sim_event *event)
{
    tt_sim_rank *rank = &sim->ranks[event->rank];
    switch (event->kind) {
    case TT_SIM_ARRIVE:
        tt_sim_link_arrive(sim, event);
        break;
    case TT_SIM_PAYLOAD:
        tt_sim_link_complete(sim, event);
        break;
    case TT_SIM_SENT:
        rank->machine.ops->sent(rank->machine.self, event->token);
        break;
    case TT_SIM_TIMER:
        rank->timer = NULL;
        rank->machine.ops->timer(rank->machine.self);
        break;
    case TT_SIM_PEER:
        rank->machine.ops->peer(rank->machine.self, event->peer, event->peer_event, event->why);
        break;
    case TT_SIM_CALL:
        event->call(event->argument);
        break;
    case TT_SIM_LANDED:
        rank->machine.ops->landed(rank->machine.self, event->token, TT_OK);
        break;
    case TT_SIM_WORK:
    case TT_SIM_DEPART:
    case TT_SIM_CARD:
    case TT_SIM_HOP:
    case TT_SIM_FREE:
        break;
    }
}

/* Local work after every upcall; the rest later, so that frames can arrive in between. */
static void step_rank(tt_sim *sim, tt_sim_rank *rank)
{
    if (rank->life != TT_SIM_ALIVE || !rank->has_machine) {
        return; /* the call killed it */
    }
    if (rank->machine.ops->step(rank->machine.self) && !rank->is_stepping) {
        rank->is_stepping = true;
        (void)tt_sim_event_add(sim, TT_SIM_WORK, rank->rank, rank->busy_until + 1);
    }
}

/* An event whose rank is gone. */
static void bury(tt_sim *sim, tt_sim_event *event)
{
    tt_sim_rank *rank = &sim->ranks[event->rank];
    if (event->parcel != NULL) {
        tt_sim_link *link = event->link;
        link->under_way--;
        link->arriving = NULL;
        tt_parcel_release(event->parcel);
    }
    if (event == rank->timer) {
        rank->timer = NULL;
    }
    event_free(sim, event);
}

/* Events of the network happen whatever the rank does. */
static bool is_of_network(const tt_sim_event *event)
{
    return event->kind == TT_SIM_DEPART || event->kind == TT_SIM_CARD || event->kind == TT_SIM_HOP;
}

static void serve_network(tt_sim *sim, tt_sim_event *event)
{
    if (event->kind == TT_SIM_HOP) {
        tt_sim_card_pass(sim, event);
        return; /* the event goes on with its parcel */
    }
    if (event->kind == TT_SIM_CARD) {
        tt_sim_card_serve(sim, event->card);
    } else {
        tt_sim_link_depart(sim, event->link);
    }
    event_free(sim, event);
}

/* Time of the processor for an upcall, besides what the machine spends. */
static uint64_t upcall_ns(const tt_sim *sim, const tt_sim_event *event)
{
    const tt_sim_network *network = sim->config.network;
    return network != NULL && event->kind == TT_SIM_ARRIVE
               ? network->ops->overhead(network, event->parcel->head.payload_bytes)
               : sim->config.upcall_ns;
}

/* The event happens to its rank, which can be called. */
static void deliver(tt_sim *sim, tt_sim_event *event)
{
    tt_sim_rank *rank = &sim->ranks[event->rank];
    if (event->kind == TT_SIM_PEER && !tt_sim_peer_told(sim, event)) {
        return; /* frames are still in flight; later */
    }
    note(sim, event);
    rank->now = sim->now;
    rank->busy_until = sim->now + upcall_ns(sim, event);
    rank->is_stepping = rank->is_stepping && event->kind != TT_SIM_WORK;
    call_rank(sim, event);
    if (event->place == 0) { /* a long frame reuses its event */
        event_free(sim, event);
    }
    step_rank(sim, rank);
}

/* ---- events that wait at their rank ---- */

/* Do events of this kind? A timer may be moved at any time. */
static bool can_wait(const tt_sim *sim, const tt_sim_event *event)
{
    return sim->cards != NULL && event->kind != TT_SIM_TIMER && event->kind != TT_SIM_FREE;
}

static void wait_at_rank(tt_sim *sim, tt_sim_rank *rank, tt_sim_event *event)
{
    TT_ASSERT(event->place == 0 && event->next == NULL);
    if (rank->waiting != NULL) {
        rank->waiting_last->next = event;
    } else {
        rank->waiting = event;
        (void)tt_sim_event_add(sim, TT_SIM_FREE, rank->rank, callable_at(sim, rank));
    }
    rank->waiting_last = event;
}

/* The rank may be called: the first event that waits, and FREE again for the next. */
static void serve_waiting(tt_sim *sim, tt_sim_event *free_event)
{
    tt_sim_rank *rank = &sim->ranks[free_event->rank];
    tt_sim_event *event = rank->waiting;
    TT_ASSERT(event != NULL && callable_at(sim, rank) <= sim->now);
    rank->waiting = event->next;
    event->next = NULL;
    if (rank->life == TT_SIM_ALIVE) {
        deliver(sim, event);
    } else {
        bury(sim, event);
    }
    if (rank->waiting != NULL) {
        due_set(sim, free_event, callable_at(sim, rank));
    } else {
        event_free(sim, free_event);
    }
}

bool tt_sim_step(tt_sim *sim)
{
    if (sim->due_count == 0) {
        return false;
    }
    tt_sim_event *event = sim->due[0].event;
    tt_sim_rank *rank = &sim->ranks[event->rank];
    const bool is_later = sim->due[0].at > sim->now;
    sim->now = sim->due[0].at;
    const uint64_t at = is_of_network(event) ? sim->now : callable_at(sim, rank);
    const bool is_late = at > sim->now && rank->has_machine;
    if (is_late && !can_wait(sim, event)) {
        /* Only the first: a fault at this very time may follow it. */
        due_put_off(sim, at, is_later);
        return true;
    }
    sim->put_off = NULL;
    due_take(sim);
    if (is_of_network(event)) {
        note(sim, event);
        serve_network(sim, event);
    } else if (event->kind == TT_SIM_FREE) {
        serve_waiting(sim, event);
    } else if (is_late || (rank->waiting != NULL && can_wait(sim, event))) {
        wait_at_rank(sim, rank, event);
    } else if (at == 0 || !rank->has_machine) {
        bury(sim, event);
    } else {
        deliver(sim, event);
    }
    return true;
}

void tt_sim_run(tt_sim *sim, uint64_t until_ns)
{
    while (sim->due_count > 0 && sim->due[0].at <= until_ns) {
        (void)tt_sim_step(sim);
    }
}
