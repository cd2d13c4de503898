/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_event.c - the heap of events, and what each does. Times are unique in order: equal ones go
 * by sequence, so that a run is a function of its seed. */
#include <stdlib.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/hash64.h"
#include "platform/sim_internal.h"

static bool event_before(const tt_heap_node *a, const tt_heap_node *b)
{
    const tt_sim_event *first = TT_CONTAINER_OF((tt_heap_node *)(uintptr_t)a, tt_sim_event, node);
    const tt_sim_event *second = TT_CONTAINER_OF((tt_heap_node *)(uintptr_t)b, tt_sim_event, node);
    return first->at != second->at ? first->at < second->at : first->sequence < second->sequence;
}

void tt_sim_events_init(tt_sim *sim)
{
    tt_heap_init(&sim->heap, event_before, &tt_allocator_default);
}

static void event_free(tt_sim *sim, tt_sim_event *event)
{
    event->next = sim->events_free;
    sim->events_free = event;
}

void tt_sim_events_fini(tt_sim *sim)
{
    tt_heap_node *node;
    while ((node = tt_heap_pop(&sim->heap)) != NULL) {
        tt_sim_event *event = TT_CONTAINER_OF(node, tt_sim_event, node);
        if (event->parcel != NULL) {
            tt_parcel_release(event->parcel);
        }
        event_free(sim, event);
    }
    tt_heap_fini(&sim->heap);
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
    }
    *event = (tt_sim_event){
        .kind = kind, .rank = rank, .at = tt_max_u64(at, sim->now), .sequence = sim->sequence++};
    const tt_status status = tt_heap_push(&sim->heap, &event->node);
    TT_ASSERT(status == TT_OK);
    return event;
}

void tt_sim_event_move(tt_sim *sim, tt_sim_event *event, uint64_t at)
{
    event->at = tt_max_u64(at, sim->now);
    event->sequence = sim->sequence++;
    if (tt_heap_has_node(&event->node)) {
        tt_heap_update(&sim->heap, &event->node);
    } else {
        const tt_status status = tt_heap_push(&sim->heap, &event->node);
        TT_ASSERT(status == TT_OK);
    }
}

void tt_sim_event_drop(tt_sim *sim, tt_sim_event *event)
{
    if (tt_heap_has_node(&event->node)) {
        tt_heap_remove(&sim->heap, &event->node);
    }
    event_free(sim, event);
}

void tt_sim_sent_forget(tt_sim *sim, const tt_sim_event *like, bool is_all)
{
    for (size_t i = sim->heap.count; i-- > 0;) {
        tt_sim_event *event = TT_CONTAINER_OF(sim->heap.nodes[i], tt_sim_event, node);
        if (event->kind == TT_SIM_SENT && event->rank == like->rank && event->peer == like->peer &&
            (is_all || event->token == like->token)) {
            /* Removal reorders the heap: keep the event, make it do nothing. */
            event->kind = TT_SIM_WORK;
        }
    }
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
    sim->hash = tt_hash64_mix(tt_hash64_mix(sim->hash, event->at), what ^ event->token);
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
    case TT_SIM_WORK:
    case TT_SIM_DEPART:
        break;
    }
}

/* Local work after every upcall; more of it later, so that frames come between. */
static void step_rank(tt_sim *sim, tt_sim_rank *rank)
{
    if (rank->life != TT_SIM_ALIVE || !rank->has_machine) {
        return; /* the call ended it */
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
        tt_sim_link *link = tt_sim_link_of(sim, event->parcel->from, event->rank);
        link->under_way--;
        link->arriving = NULL;
        tt_parcel_release(event->parcel);
    }
    if (event == rank->timer) {
        rank->timer = NULL;
    }
    event_free(sim, event);
}

bool tt_sim_step(tt_sim *sim)
{
    tt_heap_node *node = tt_heap_pop(&sim->heap);
    if (node == NULL) {
        return false;
    }
    tt_sim_event *event = TT_CONTAINER_OF(node, tt_sim_event, node);
    tt_sim_rank *rank = &sim->ranks[event->rank];
    sim->now = event->at;
    if (event->kind == TT_SIM_DEPART) {
        note(sim, event);
        tt_sim_link_depart(sim, event->link);
        event_free(sim, event);
        return true;
    }
    const uint64_t at = callable_at(sim, rank);
    if (at == 0 || !rank->has_machine) {
        bury(sim, event);
        return true;
    }
    if (at > sim->now) {
        tt_sim_event_move(sim, event, at);
        return true;
    }
    if (event->kind == TT_SIM_PEER && !tt_sim_peer_told(sim, event)) {
        return true; /* frames are still to come; later */
    }
    note(sim, event);
    rank->now = sim->now;
    rank->busy_until = sim->now + sim->config.upcall_ns;
    rank->is_stepping = rank->is_stepping && event->kind != TT_SIM_WORK;
    call_rank(sim, event);
    if (!tt_heap_has_node(&event->node)) { /* a long frame uses its event again */
        event_free(sim, event);
    }
    step_rank(sim, rank);
    return true;
}

void tt_sim_run(tt_sim *sim, uint64_t until_ns)
{
    for (tt_heap_node *node; (node = tt_heap_peek(&sim->heap)) != NULL;) {
        if (TT_CONTAINER_OF(node, tt_sim_event, node)->at > until_ns) {
            break;
        }
        (void)tt_sim_step(sim);
    }
}
