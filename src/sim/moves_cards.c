/* SPDX-License-Identifier: Apache-2.0
 *
 * moves_cards.c - frames that wait for a card, as platform/sim_card.c keeps them.
 *
 * Links that have frames take turns: a card sends the first frame of one link, then of the next,
 * and a link with more frames goes to the end of the line. In a link grants overtake data. So lanes
 * of a rank share its card by peers, not by age. Where a call has one lane, a link has one frame at
 * a time, turns are the order of submission, and the fabric keeps that itself: nothing waits here.
 *
 *  (1) A card's list has one frame of each link: the first of it. The others follow by `next`.
 *  (2) A card with a list has one event CARD queued.
 *  (3) `heads` has that frame of a link plus 1, or 0, where a card may have many links.
 *  (4) What a rank has submitted counts as queued until it departs: then its lane can go on.
 */
#include "sim/moves_internal.h"

static tt_walk_card *card_of(const tt_walk *walk, const tt_fabric_frame *route)
{
    const tt_fabric_config *config = &walk->fabric->config;
    return &walk->cards[tt_fabric_card(config, route->source, route->target)];
}

/* A frame that has waited departs now. */
static void depart(tt_walk *walk, tt_walk_card *card, uint32_t index)
{
    const tt_walk_frame frame = walk->frames[index];
    tt_walk_rank *rank = tt_walk_rank_of(walk, frame.route.source);
    TT_ASSERT(card->free_ns <= walk->now_ns && rank->queued > 0);
    rank->queued--;
    card->free_ns = tt_walk_depart(walk, index, walk->now_ns);
    tt_walk_release_due(walk, &frame);
}

/* ---- the list of a card ---- */

static bool is_of_link(const tt_walk_frame *frame, const tt_fabric_frame *route)
{
    return frame->route.source == route->source && frame->route.target == route->target;
}

static void note_head(tt_walk *walk, const tt_fabric_frame *route, uint32_t index)
{
    if (walk->heads != NULL) {
        walk->heads[(size_t)route->source * walk->problem.size + route->target] =
            index != TT_WALK_NONE ? index + 1 : 0;
    }
}

/* The first frame of the link; TT_WALK_NONE: none waits. */
static uint32_t find_link(const tt_walk *walk, const tt_walk_card *card,
                          const tt_fabric_frame *route)
{
    if (walk->heads != NULL) {
        const uint32_t head =
            walk->heads[(size_t)route->source * walk->problem.size + route->target];
        return head > 0 ? head - 1 : TT_WALK_NONE;
    }
    uint32_t index = card->first;
    while (index != TT_WALK_NONE && !is_of_link(&walk->frames[index], route)) {
        index = walk->frames[index].turn;
    }
    return index;
}

static void append(tt_walk *walk, tt_walk_card *card, uint32_t index)
{
    walk->frames[index].turn = TT_WALK_NONE;
    if (card->first == TT_WALK_NONE) {
        card->first = index;
    } else {
        walk->frames[card->last].turn = index;
    }
    card->last = index;
}

/* Behind the frames of its link, a grant behind its grants. */
static void line_up(tt_walk *walk, tt_walk_card *card, uint32_t index)
{
    tt_walk_frame *frames = walk->frames;
    uint32_t at = find_link(walk, card, &frames[index].route);
    if (at == TT_WALK_NONE) {
        frames[index].next = TT_WALK_NONE;
        append(walk, card, index);
        note_head(walk, &frames[index].route, index);
        return;
    }
    if (frames[index].is_grant && !frames[at].is_grant) { /* change places with the first */
        const tt_walk_frame first = frames[at];
        frames[at] = frames[index];
        frames[at].next = first.next;
        frames[at].turn = first.turn;
        frames[index] = first;
        frames[index].next = frames[at].next;
        frames[at].next = index;
        return;
    }
    while (frames[at].next != TT_WALK_NONE &&
           (!frames[index].is_grant || frames[frames[at].next].is_grant)) {
        at = frames[at].next;
    }
    frames[index].next = frames[at].next;
    frames[at].next = index;
}

static void wake(tt_walk *walk, tt_walk_card *card)
{
    const uint64_t at_ns = tt_max_u64(card->free_ns, walk->now_ns);
    tt_walk_push(walk, TT_WALK_CARD, walk->frames[card->first].route.source,
                 (uint32_t)(card - walk->cards), at_ns);
}

/* ---- submission and service ---- */

void tt_walk_card_offer(tt_walk *walk, uint32_t index, uint64_t at_ns)
{
    tt_walk_card *card = card_of(walk, &walk->frames[index].route);
    const uint32_t self = walk->frames[index].route.source;
    const bool is_idle = card->first == TT_WALK_NONE && card->coming == 0;
    if (is_idle && card->free_ns <= at_ns && !tt_walk_is_early(walk, at_ns)) {
        card->free_ns = tt_walk_depart(walk, index, at_ns);
        return;
    }
    tt_walk_rank_of(walk, self)->queued++;
    card->coming++;
    tt_walk_push(walk, TT_WALK_DEPART, self, index, at_ns);
}

void tt_walk_card_arrive(tt_walk *walk, uint32_t index)
{
    tt_walk_card *card = card_of(walk, &walk->frames[index].route);
    const bool is_waiting = card->first != TT_WALK_NONE;
    TT_ASSERT(card->coming > 0);
    card->coming--;
    if (!is_waiting && card->free_ns <= walk->now_ns) {
        depart(walk, card, index);
        return;
    }
    line_up(walk, card, index);
    if (!is_waiting) {
        wake(walk, card);
    }
}

void tt_walk_card_serve(tt_walk *walk, uint32_t number)
{
    tt_walk_card *card = &walk->cards[number];
    TT_ASSERT(card->first != TT_WALK_NONE);
    const uint32_t index = card->first, behind = walk->frames[index].next;
    card->first = walk->frames[index].turn;
    note_head(walk, &walk->frames[index].route, behind);
    if (behind != TT_WALK_NONE) {
        append(walk, card, behind);
    }
    depart(walk, card, index);
    if (card->first != TT_WALK_NONE) {
        wake(walk, card);
    }
}
