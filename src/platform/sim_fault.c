/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_fault.c - faults of ranks and of pairs of ranks. Promise (4) of platform.h is kept: DOWN and
 * LEFT are delivered after all frames on the wire. */
#include "base/base.h"
#include "platform/sim_internal.h"

enum { ASK_AGAIN_NS = 10 * 1000 };

static void announce(tt_sim *sim, uint32_t rank, uint32_t peer, tt_peer_event what, uint64_t at)
{
    static const char *const reasons[] = {[TT_PEER_SILENT] = "silent",
                                          [TT_PEER_BACK] = "back",
                                          [TT_PEER_LEFT] = "left",
                                          [TT_PEER_DOWN] = "exited"};
    tt_sim_event *event = tt_sim_event_add(sim, TT_SIM_PEER, rank, at);
    event->peer = peer;
    event->peer_event = what;
    event->why = reasons[what];
}

/* Half to one and a half times `ns`. */
static uint64_t about(tt_sim *sim, uint64_t ns)
{
    return ns / 2 + tt_random_below(&sim->random, ns + 1);
}

bool tt_sim_peer_told(tt_sim *sim, tt_sim_event *event)
{
    const bool is_end = event->peer_event == TT_PEER_DOWN || event->peer_event == TT_PEER_LEFT;
    tt_sim_link *link = tt_sim_link_of(sim, event->peer, event->rank);
    if (link->has_said_down) {
        tt_sim_event_drop(sim, event);
        return false;
    }
    if (!is_end) {
        return true;
    }
    if (link->under_way > 0 || link->queue != NULL) {
        tt_sim_event_move(sim, event, sim->now + ASK_AGAIN_NS);
        return false;
    }
    link->has_said_down = sim->has_gone = true;
    /* Borrowed payloads are returned without `sent`. */
    tt_sim_link_empty(sim, tt_sim_link_of(sim, event->rank, event->peer));
    tt_sim_sent_forget(sim, &(tt_sim_event){.rank = event->rank, .peer = event->peer}, true);
    return true;
}

void tt_sim_kill(tt_sim *sim, uint32_t rank)
{
    if (sim->ranks[rank].life != TT_SIM_ALIVE) {
        return;
    }
    sim->ranks[rank].life = TT_SIM_KILLED;
    for (uint32_t peer = 0; peer < sim->config.size; peer++) {
        tt_sim_link *link = tt_sim_link_find(sim, rank, peer);
        if (link != NULL) {
            tt_sim_link_empty(sim, link);
            if (link->arriving != NULL && tt_random_below(&sim->random, 2) == 0) {
                link->arriving->is_cut = true;
            }
        }
        if (peer != rank) {
            announce(sim, peer, rank, TT_PEER_DOWN, sim->now + about(sim, sim->config.detect_ns));
        }
    }
}

void tt_sim_leave(tt_sim *sim, uint32_t rank)
{
    if (sim->ranks[rank].life != TT_SIM_ALIVE) {
        return;
    }
    sim->ranks[rank].life = TT_SIM_LEFT;
    for (uint32_t peer = 0; peer < sim->config.size; peer++) {
        const tt_sim_link *link = tt_sim_link_find(sim, rank, peer);
        for (tt_parcel *parcel = link != NULL ? link->queue : NULL; parcel != NULL;
             parcel = parcel->next) {
            tt_parcel_own(parcel);
        }
        if (peer != rank && (link == NULL || !link->is_down)) { /* no goodbye on a severed link */
            announce(sim, peer, rank, TT_PEER_LEFT, sim->now + sim->config.latency_ns);
        }
    }
}

void tt_sim_stop(tt_sim *sim, uint32_t rank, uint64_t until_ns)
{
    sim->ranks[rank].stopped_until = tt_max_u64(sim->ranks[rank].stopped_until, until_ns);
    for (uint32_t peer = 0; peer < sim->config.size; peer++) {
        const uint64_t silent_at = sim->now + sim->config.silence_ns;
        if (peer != rank && silent_at < until_ns) {
            announce(sim, peer, rank, TT_PEER_SILENT, silent_at);
            announce(sim, peer, rank, TT_PEER_BACK, until_ns + sim->config.latency_ns);
        }
    }
}

void tt_sim_cut(tt_sim *sim, uint32_t a, uint32_t b, uint64_t until_ns)
{
    tt_sim_link_of(sim, a, b)->held_until = until_ns;
    tt_sim_link_of(sim, b, a)->held_until = until_ns;
}

static void sever_one(tt_sim *sim, uint32_t from, uint32_t to)
{
    tt_sim_link *link = tt_sim_link_of(sim, from, to);
    link->is_down = true;
    if (link->arriving != NULL) {
        link->arriving->is_cut = true;
    }
    announce(sim, to, from, TT_PEER_DOWN, sim->now + about(sim, sim->config.detect_ns));
}

void tt_sim_sever(tt_sim *sim, uint32_t a, uint32_t b)
{
    sever_one(sim, a, b);
    sever_one(sim, b, a);
}
