/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_network.c - links of the simulated cluster: queues, wires, noise.
 *
 * A link keeps sent frames in a queue, most urgent first. When its wire is free the first parcel
 * departs, occupies the wire for its length, and arrives after the latency. Parcels of a link
 * arrive in the order of departure unless noise reorders them, as on a stream: a late one delays
 * those behind it. With a model of the network they depart from cards instead: sim_card.c.
 */
#include <stdlib.h>

#include "base/assert.h"
#include "base/base.h"
#include "kernel/hash64.h"
#include "platform/sim_internal.h"

enum { FRAME_OVERHEAD_BYTES = 64, HOLD_NS = 1000 };

/* ---- the table of links ---- */

static size_t place_of(const tt_sim *sim, uint32_t from, uint32_t to)
{
    size_t place = (size_t)tt_hash64_mix(from, to) & (sim->link_capacity - 1);
    while (sim->links[place] != NULL &&
           (sim->links[place]->from != from || sim->links[place]->to != to)) {
        place = (place + 1) & (sim->link_capacity - 1);
    }
    return place;
}

tt_sim_link *tt_sim_link_find(const tt_sim *sim, uint32_t from, uint32_t to)
{
    return sim->link_capacity > 0 ? sim->links[place_of(sim, from, to)] : NULL;
}

static void table_grow(tt_sim *sim)
{
    tt_sim_link **old = sim->links;
    const size_t old_capacity = sim->link_capacity;
    sim->link_capacity = old_capacity > 0 ? 2 * old_capacity : 64;
    sim->links = tt_local_take(sim->link_capacity * sizeof(*sim->links));
    for (size_t i = 0; i < old_capacity; i++) {
        if (old[i] != NULL) {
            sim->links[place_of(sim, old[i]->from, old[i]->to)] = old[i];
        }
    }
    free(old);
}

tt_sim_link *tt_sim_link_of(tt_sim *sim, uint32_t from, uint32_t to)
{
    tt_sim_link *link = tt_sim_link_find(sim, from, to);
    if (link != NULL) {
        return link;
    }
    if (2 * (sim->link_count + 1) > sim->link_capacity) {
        table_grow(sim);
    }
    link = tt_local_take(sizeof(*link));
    link->from = from;
    link->to = to;
    sim->links[place_of(sim, from, to)] = link;
    sim->link_count++;
    return link;
}

void tt_sim_link_empty(tt_sim *sim, tt_sim_link *link)
{
    (void)sim;
    while (link->queue != NULL) {
        tt_parcel *next = link->queue->next;
        tt_parcel_release(link->queue);
        link->queue = next;
    }
}

void tt_sim_links_fini(tt_sim *sim)
{
    for (size_t i = 0; i < sim->link_capacity; i++) {
        if (sim->links[i] != NULL) {
            tt_sim_link_empty(sim, sim->links[i]);
            free(sim->links[i]);
        }
    }
    free(sim->links);
}

/* ---- sending ---- */

static bool happens(tt_sim *sim, uint32_t of_1000)
{
    return of_1000 > 0 && tt_random_below(&sim->random, 1000) < of_1000;
}

/* Was DOWN or LEFT of `peer` delivered to `rank`? */
static bool knows_gone(const tt_sim *sim, uint32_t rank, uint32_t peer)
{
    const tt_sim_link *back = sim->has_gone ? tt_sim_link_find(sim, peer, rank) : NULL;
    return back != NULL && back->has_said_down;
}

/* By urgency, then age, then order of sending, as transport/frame_queue.h. */
static bool goes_before(const tt_send *one, const tt_send *other)
{
    return one->urgency != other->urgency ? one->urgency > other->urgency : one->age < other->age;
}

void tt_sim_link_enqueue(tt_sim_link *link, tt_parcel *parcel)
{
    tt_parcel **at = &link->queue;
    while (*at != NULL && !goes_before(&parcel->send, &(*at)->send)) {
        at = &(*at)->next;
    }
    parcel->next = *at;
    *at = parcel;
}

static void wake_link(tt_sim *sim, tt_sim_link *link, uint64_t at)
{
    if (!link->is_busy) {
        link->is_busy = true;
        tt_sim_event_add(sim, TT_SIM_DEPART, link->from, tt_max_u64(at, link->free_at))->link =
            link;
    }
}

/* Put the parcel into the queue of the link, from `at` on. */
static void put_in_queue(tt_sim *sim, tt_sim_link *link, tt_parcel *parcel, uint64_t at)
{
    parcel->ready_ns = at;
    tt_sim_link_enqueue(link, parcel);
    if (sim->cards != NULL) {
        tt_sim_card_offer(sim, link, parcel);
    } else {
        wake_link(sim, link, at);
    }
}

tt_status tt_sim_link_send(tt_sim *sim, uint32_t from, const tt_send *send)
{
    tt_sim_rank *rank = &sim->ranks[from];
    const tt_sim_network *network = sim->config.network;
    const uint32_t bytes = send->head->payload_bytes;
    if (knows_gone(sim, from, send->peer)) {
        return TT_ERR_PEER_DOWN;
    }
    tt_sim_link *link = tt_sim_link_of(sim, from, send->peer);
    const bool is_borrowed = bytes > 0 && (network != NULL || happens(sim, sim->config.borrow));
    tt_parcel *parcel = tt_parcel_make(&sim->ranks[from].base, from, send, is_borrowed);
    rank->busy_until += network != NULL ? network->ops->overhead(network, bytes) : 0;
    put_in_queue(sim, link, parcel, rank->busy_until);
    return is_borrowed ? TT_IN_PROGRESS : TT_OK;
}

/* One frame for each rank of the host; as with shared memory, there may be no room. */
tt_status tt_sim_link_post(tt_sim *sim, uint32_t from, const tt_send *send)
{
    if (sim->cards != NULL || sim->config.post == 0 || !happens(sim, sim->config.post)) {
        return TT_ERR_UNSUPPORTED;
    }
    for (uint32_t peer = 0; peer < sim->config.size; peer++) {
        if (peer != from && sim->host_of[peer] == sim->host_of[from] &&
            !knows_gone(sim, from, peer)) {
            tt_send one = *send;
            one.peer = peer;
            tt_sim_link *link = tt_sim_link_of(sim, from, peer);
            put_in_queue(sim, link, tt_parcel_make(&sim->ranks[from].base, from, &one, false),
                         sim->ranks[from].busy_until);
        }
    }
    return TT_OK;
}

void tt_sim_forge(tt_sim *sim, uint32_t from, const tt_send *send)
{
    tt_sim_link *link = tt_sim_link_of(sim, from, send->peer);
    put_in_queue(sim, link, tt_parcel_make(&sim->ranks[from].base, from, send, false), sim->now);
}

void tt_sim_link_recall(tt_sim *sim, uint32_t from, uint32_t to, uint64_t token)
{
    tt_sim_link *link = tt_sim_link_find(sim, from, to);
    for (tt_parcel *parcel = link != NULL ? link->queue : NULL; parcel != NULL;
         parcel = parcel->next) {
        if (parcel->send.token == token) {
            tt_parcel_own(parcel);
        }
    }
    tt_sim_sent_forget(sim, &(tt_sim_event){.rank = from, .peer = to, .token = token}, false);
}

/* ---- the wire ---- */

static uint64_t arrival_time(tt_sim *sim, tt_sim_link *link, uint64_t off_wire)
{
    const tt_sim_noise *noise = &sim->config.noise;
    const bool is_near = sim->host_of[link->from] == sim->host_of[link->to];
    uint64_t at = off_wire + (is_near ? sim->config.local_latency_ns : sim->config.latency_ns);
    at += tt_random_below(&sim->random,
                          (is_near ? sim->config.jitter_ns / 16 : sim->config.jitter_ns) + 1);
    if (happens(sim, noise->spike)) {
        at += tt_random_below(&sim->random, noise->spike_ns + 1);
    }
    if (happens(sim, noise->drop)) {
        at += noise->resend_ns;
    }
    if (happens(sim, noise->reorder)) {
        return at;
    }
    at = tt_max_u64(at, link->latest + 1);
    link->latest = at;
    return at;
}

tt_sim_event *tt_sim_link_launch(tt_sim *sim, tt_sim_link *link, tt_parcel *parcel,
                                 tt_sim_event_kind kind, uint64_t at)
{
    tt_sim_event *event = tt_sim_event_add(sim, kind, link->to, at);
    event->parcel = parcel;
    event->link = link;
    event->peer = link->from;
    event->token = tt_hash64_mix(parcel->head.op << 8 | parcel->head.kind,
                                 (uint64_t)parcel->head.lane << 32 | parcel->head.round);
    link->under_way++;
    return event;
}

static void put_on_wire(tt_sim *sim, tt_sim_link *link, tt_parcel *parcel, uint64_t at)
{
    (void)tt_sim_link_launch(sim, link, parcel, TT_SIM_ARRIVE, at);
}

void tt_sim_link_depart(tt_sim *sim, tt_sim_link *link)
{
    const tt_sim_rank *sender = &sim->ranks[link->from];
    link->is_busy = false;
    if (link->queue == NULL) {
        return;
    }
    if (sender->stopped_until > sim->now && sender->life == TT_SIM_ALIVE) {
        wake_link(sim, link, sender->stopped_until);
        return;
    }
    const bool is_near = sim->host_of[link->from] == sim->host_of[link->to];
    tt_parcel *parcel = link->queue;
    link->queue = parcel->next;
    const uint64_t bytes = parcel->head.payload_bytes + (uint64_t)FRAME_OVERHEAD_BYTES;
    link->free_at =
        sim->now +
        bytes * 1000 / (is_near ? sim->config.local_bytes_per_us : sim->config.bytes_per_us);
    if (parcel->is_borrowed) {
        tt_parcel_own(parcel);
        tt_sim_event *sent = tt_sim_event_add(sim, TT_SIM_SENT, link->from, link->free_at);
        sent->peer = link->to;
        sent->token = parcel->send.token;
    }
    put_on_wire(sim, link, parcel, arrival_time(sim, link, link->free_at));
    if (happens(sim, sim->config.noise.duplicate)) {
        put_on_wire(sim, link, tt_parcel_make(&sender->base, link->from, &parcel->send, false),
                    arrival_time(sim, link, link->free_at));
    }
    if (link->queue != NULL) {
        wake_link(sim, link, link->free_at);
    }
}

static void finish_parcel(tt_sim_link *link, tt_parcel *parcel)
{
    TT_ASSERT(link->under_way > 0);
    link->under_way--;
    tt_parcel_release(parcel);
}

void tt_sim_link_arrive(tt_sim *sim, tt_sim_event *event)
{
    tt_parcel *parcel = event->parcel;
    tt_sim_link *link = event->link;
    const tt_sim_rank *rank = &sim->ranks[event->rank];
    if (link->is_down) {
        finish_parcel(link, parcel);
        return;
    }
    if (link->held_until > sim->now || link->arriving != NULL) {
        const uint64_t jitter = tt_random_below(&sim->random, sim->config.jitter_ns + 1);
        tt_sim_event_move(sim, event, tt_max_u64(link->held_until, sim->now + HOLD_NS) + jitter);
        return;
    }
    if (sim->spy.seen != NULL) {
        sim->spy.seen(sim->spy.owner, parcel->from, &parcel->send);
    }
    const bool is_long = parcel->head.payload_bytes > TT_INLINE_BYTES_MAX;
    link->arriving = is_long ? parcel : NULL;
    const bool is_awaited = tt_parcel_announce(parcel, &rank->base, &rank->machine);
    if (is_awaited && sim->cards != NULL) { /* all of it is here */
        tt_sim_link_complete(sim, event);
        return;
    }
    if (is_awaited) {
        event->kind = TT_SIM_PAYLOAD;
        tt_sim_event_move(sim, event,
                          sim->now + 1 + tt_random_below(&sim->random, sim->config.jitter_ns + 1));
        return;
    }
    link->arriving = NULL;
    finish_parcel(link, parcel);
}

void tt_sim_link_complete(tt_sim *sim, tt_sim_event *event)
{
    tt_parcel *parcel = event->parcel;
    tt_sim_link *link = event->link;
    link->arriving = NULL;
    if (!parcel->is_cut) {
        const tt_sim_rank *rank = &sim->ranks[event->rank];
        tt_parcel_complete(parcel, &rank->base, &rank->machine);
    }
    finish_parcel(link, parcel);
}
