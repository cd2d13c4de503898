/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_card.c - cards of a model of the network, and frames on their way through it.
 *
 * A card keeps a list of links that have frames. When it is free, the first link of the list that
 * has a frame whose sender has done its work for it sends the most urgent of these, and goes to the
 * end of the list if it has more. A frame is then at one link of the network after the other, and
 * at last in the memory of its target: an event each, at which the model is asked.
 *
 * Where a card serves one rank alone, a frame that finds it free departs at once: no other rank can
 * come between its submission and the end of the work before it, and the rank itself submits in the
 * order of times.
 */
#include "base/assert.h"
#include "base/base.h"
#include "platform/sim_internal.h"

void tt_sim_cards_init(tt_sim *sim)
{
    const tt_sim_network *network = sim->config.network;
    if (network != NULL) {
        TT_ASSERT(network->card_count > 0);
        sim->cards = tt_local_take(network->card_count * sizeof(*sim->cards));
    }
}

static tt_sim_card *card_of(const tt_sim *sim, tt_sim_link *link)
{
    const tt_sim_network *network = sim->config.network;
    if (link->card == NULL) {
        const uint32_t number = network->ops->card(network, link->from, link->to);
        TT_ASSERT(number < network->card_count);
        link->card = &sim->cards[number];
    }
    return link->card;
}

/* An event CARD, at `at` or when the card is free; one that is due earlier will do. */
static void wake(tt_sim *sim, tt_sim_card *card, uint64_t at)
{
    const uint64_t due_at = tt_max_u64(tt_max_u64(at, card->free_at), sim->now);
    if (card->due == NULL) {
        card->due = tt_sim_event_add(sim, TT_SIM_CARD, card->first->from, due_at);
        card->due->card = card;
    } else if (due_at < card->due_at) {
        tt_sim_event_move(sim, card->due, due_at);
    } else {
        return;
    }
    card->due_at = due_at;
}

static void append(tt_sim_card *card, tt_sim_link *link)
{
    link->next = NULL;
    if (card->first == NULL) {
        card->first = link;
    } else {
        card->last->next = link;
    }
    card->last = link;
    link->is_waiting = true;
}

/* When the rank behind the link goes on; now, unless it is stopped. */
static uint64_t runs_at(const tt_sim *sim, const tt_sim_link *link)
{
    const tt_sim_rank *sender = &sim->ranks[link->from];
    return sender->life == TT_SIM_ALIVE ? sender->stopped_until : 0;
}

/* The most urgent parcel that was submitted by `at`, still in the queue; NULL, and when the first
 * one will be. */
static tt_parcel **ready_parcel(const tt_sim *sim, tt_sim_link *link, uint64_t at,
                                uint64_t *ready_ns_out)
{
    *ready_ns_out = UINT64_MAX;
    for (tt_parcel **place = &link->queue; *place != NULL; place = &(*place)->next) {
        const uint64_t ready_ns = tt_max_u64((*place)->ready_ns, runs_at(sim, link));
        if (ready_ns <= at) {
            return place;
        }
        *ready_ns_out = tt_min_u64(*ready_ns_out, ready_ns);
    }
    return NULL;
}

/* The card takes the parcel at `at`. */
static void depart(tt_sim *sim, tt_sim_link *link, tt_parcel **place, uint64_t at)
{
    tt_sim_network *network = sim->config.network;
    tt_parcel *parcel = *place;
    const tt_sim_frame frame = tt_sim_frame_of(parcel);
    *place = parcel->next;
    const tt_sim_departure departure = network->ops->send(network, &frame, at);
    TT_DEBUG_ASSERT(departure.released_ns >= at && departure.head_ns >= at);
    link->card->free_at = tt_max_u64(departure.free_ns, at);
    if (parcel->is_borrowed) {
        tt_parcel_own(parcel);
        tt_sim_event *sent = tt_sim_event_add(sim, TT_SIM_SENT, link->from, departure.released_ns);
        sent->peer = link->to;
        sent->token = parcel->send.token;
    }
    parcel->hop = 1;
    (void)tt_sim_link_launch(sim, link, parcel, TT_SIM_HOP, departure.head_ns);
}

void tt_sim_card_offer(tt_sim *sim, tt_sim_link *link, const tt_parcel *parcel)
{
    tt_sim_card *card = card_of(sim, link);
    const uint64_t at = tt_max_u64(parcel->ready_ns, runs_at(sim, link));
    TT_DEBUG_ASSERT(link->queue != NULL);
    if (sim->config.network->is_private && card->first == NULL && card->free_at <= at &&
        at == parcel->ready_ns) {
        depart(sim, link, &link->queue, at);
        return;
    }
    if (!link->is_waiting) {
        append(card, link);
    }
    wake(sim, card, at);
}

static void unlink_next(tt_sim_card *card, tt_sim_link *before)
{
    tt_sim_link **place = before != NULL ? &before->next : &card->first;
    tt_sim_link *gone = *place;
    TT_DEBUG_ASSERT(gone->is_waiting);
    *place = gone->next;
    card->last = card->last == gone ? before : card->last;
    gone->is_waiting = false;
}

void tt_sim_card_serve(tt_sim *sim, tt_sim_card *card)
{
    tt_sim_link *before = NULL, *link = card->first;
    uint64_t next_ns = UINT64_MAX, ready_ns;
    card->due = NULL;
    while (link != NULL) {
        tt_parcel **place = ready_parcel(sim, link, sim->now, &ready_ns);
        if (place != NULL) {
            unlink_next(card, before);
            depart(sim, link, place, sim->now);
            if (link->queue != NULL) {
                append(card, link);
            }
            next_ns = card->free_at;
            break;
        }
        if (link->queue == NULL) { /* its rank is gone */
            unlink_next(card, before);
        } else {
            next_ns = tt_min_u64(next_ns, ready_ns);
            before = link;
        }
        link = before != NULL ? before->next : card->first;
    }
    if (card->first != NULL) {
        wake(sim, card, next_ns);
    }
}

void tt_sim_card_pass(tt_sim *sim, tt_sim_event *event)
{
    tt_sim_network *network = sim->config.network;
    tt_parcel *parcel = event->parcel;
    const tt_sim_frame frame = tt_sim_frame_of(parcel);
    uint64_t at = sim->now;
    if (network->ops->pass(network, &frame, parcel->hop, &at)) {
        event->kind = TT_SIM_ARRIVE;
    }
    parcel->hop++;
    TT_DEBUG_ASSERT(at >= sim->now);
    tt_sim_event_move(sim, event, at);
}
