/* SPDX-License-Identifier: Apache-2.0
 *
 * flow.c - credit and parking; see flow.h for the invariants. */
#include "aggregate/flow.h"

#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/plant.h"
#include "kernel/hash64.h"

enum { NOTE_BUCKETS_MIN = 64 };

enum { ANY_STAGE = UINT16_MAX }; /* in an identity: matches frames of every stage */

/* Everything for one op is in one bucket, whatever its stage. */
static uint64_t place_of(const tt_head *head)
{
    const uint64_t where = (uint64_t)head->set << 8 | (uint64_t)(head->flags & TT_FLAGS_SPACE);
    return tt_hash64_mix(head->op, where);
}

static size_t entry_bytes(const tt_flow *flow)
{
    return tt_round_up(sizeof(tt_parked) + flow->eager_bytes_max, 64);
}

tt_status tt_flow_init(tt_flow *flow, tt_platform *platform, uint32_t peer_count,
                       uint32_t eager_bytes_max)
{
    TT_ASSERT(eager_bytes_max <= TT_INLINE_BYTES_MAX);
    TT_ASSERT(peer_count > 0);
    *flow = (tt_flow){
        .platform = platform, .peer_count = peer_count, .eager_bytes_max = eager_bytes_max};
    flow->urgency_top = INT32_MIN;
    for (uint32_t i = 0; i < TT_PARKED_BUCKETS; i++) {
        flow->parked_end[i] = &flow->parked[i];
    }
    flow->peers = tt_platform_allocate(platform, peer_count * sizeof(*flow->peers));
    return flow->peers != NULL ? TT_OK : TT_ERR_NO_MEMORY;
}

/* Returns their number. */
static uint32_t release_notes(tt_flow *flow, tt_note *note)
{
    uint32_t count = 0;
    for (; note != NULL; count++) {
        tt_note *next = note->next;
        tt_platform_release(flow->platform, note, sizeof(*note));
        note = next;
    }
    return count;
}

void tt_flow_fini(tt_flow *flow)
{
    for (uint32_t i = 0; i < flow->note_buckets; i++) {
        flow->note_count -= release_notes(flow, flow->notes[i]);
    }
    TT_ASSERT(flow->note_count == 0);
    tt_platform_release(flow->platform, flow->notes, flow->note_buckets * sizeof(*flow->notes));
    (void)release_notes(flow, flow->notes_free);
    for (uint32_t i = 0; flow->peers != NULL && i < flow->peer_count; i++) {
        tt_platform_release(flow->platform, flow->peers[i].block,
                            TT_CREDIT_FRAMES * entry_bytes(flow));
    }
    tt_platform_release(flow->platform, flow->peers, flow->peer_count * sizeof(*flow->peers));
    flow->peers = NULL;
}

bool tt_flow_take_all(tt_flow *flow, const uint32_t *peers, uint32_t peer_count, uint32_t self)
{
    TT_ASSERT(self < peer_count); /* it would take credit with itself */
    for (uint32_t i = 0; i < peer_count; i++) {
        if (i != self && !tt_flow_take(flow, peers[i])) {
            tt_flow_return_all(flow, peers, i, self);
            return false;
        }
    }
    return true;
}

void tt_flow_return_all(tt_flow *flow, const uint32_t *peers, uint32_t peer_count, uint32_t self)
{
    for (uint32_t i = 0; i < peer_count; i++) {
        tt_flow_peer *state = &flow->peers[peers[i]];
        TT_ASSERT(i == self || state->sent > state->acknowledged);
        state->sent -= i != self ? 1 : 0;
    }
}

void tt_flow_control(tt_flow *flow, uint32_t peer, const tt_head *head)
{
    TT_ASSERT(head->payload_bytes == 0);
    TT_ASSERT(peer < flow->peer_count);
    const tt_send send = {
        .peer = peer, .urgency = TT_URGENCY_CONTROL, .token = TT_TOKEN_NONE, .head = head};
    (void)flow->platform->ops->send(flow->platform, &send);
}

void tt_flow_tell(tt_flow *flow, uint32_t peer)
{
    tt_flow_peer *state = &flow->peers[peer];
    TT_ASSERT(state->told < state->consumed);
    state->told = state->consumed;
    const tt_head head = {
        .kind = TT_FRAME_CREDIT, .epoch = flow->epoch, .argument = state->consumed};
    tt_flow_control(flow, peer, &head);
}

bool tt_flow_credit(tt_flow *flow, uint32_t peer, uint64_t consumed_total)
{
    tt_flow_peer *state = &flow->peers[peer];
    if (consumed_total <= state->acknowledged || consumed_total > state->sent) {
        return false; /* outdated, or invalid */
    }
    state->acknowledged = consumed_total;
    TT_ASSERT(state->sent - state->acknowledged < TT_CREDIT_FRAMES);
    return true;
}

/* Room for all frames that the peer's credit allows. */
static tt_status reserve(tt_flow *flow, tt_flow_peer *state)
{
    const size_t bytes = entry_bytes(flow);
    TT_ASSERT(state->free == NULL);
    state->block = tt_platform_allocate(flow->platform, TT_CREDIT_FRAMES * bytes);
    if (state->block == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < TT_CREDIT_FRAMES; i++) {
        tt_parked *entry = (void *)((uint8_t *)state->block + i * bytes);
        entry->next = state->free;
        state->free = entry;
    }
    return TT_OK;
}

tt_status tt_flow_park(tt_flow *flow, uint32_t peer, const tt_head *head, const void *payload)
{
    tt_flow_peer *state = &flow->peers[peer];
    if ((head->flags & TT_FLAG_EAGER) == 0 || head->payload_bytes > flow->eager_bytes_max) {
        return TT_ERR_BAD_WIRE;
    }
    if (state->block == NULL) {
        TT_TRY(reserve(flow, state));
    }
    tt_parked *entry = state->free;
    if (entry == NULL) {
        return TT_ERR_BAD_WIRE;
    }
    state->free = entry->next;
    entry->next = NULL;
    entry->peer = peer;
    entry->head = *head;
    if (head->payload_bytes > 0 && !tt_is_phantom(flow->platform, payload)) {
        memcpy(entry->payload, payload, head->payload_bytes);
    }
    const uint32_t bucket = (uint32_t)(place_of(head) % TT_PARKED_BUCKETS);
    TT_ASSERT(*flow->parked_end[bucket] == NULL);
    *flow->parked_end[bucket] = entry;
    flow->parked_end[bucket] = &entry->next;
    flow->parked_count++;
    TT_ASSERT(flow->parked_count <= (uint64_t)flow->peer_count * TT_CREDIT_FRAMES); /* (2) */
    return TT_OK;
}

/* Is a frame of `from` with this head meant for the op `identity` (of the pair with `peer`)? */
static bool is_for(const tt_head *head, uint32_t from, const tt_head *identity, uint32_t peer)
{
    const uint8_t kinds = TT_FLAGS_SPACE;
    const bool is_of_stage = identity->stage == ANY_STAGE || head->stage == identity->stage;
    return head->op == identity->op && head->set == identity->set && is_of_stage &&
           ((head->flags ^ identity->flags) & kinds) == 0 &&
           ((identity->flags & TT_FLAG_PAIR) == 0 || from == peer);
}

tt_parked *tt_flow_find(tt_flow *flow, const tt_head *identity, uint64_t lane_end, uint32_t peer)
{
    if (flow->parked_count == 0) {
        return NULL;
    }
    const uint32_t bucket = (uint32_t)(place_of(identity) % TT_PARKED_BUCKETS);
    TT_DEBUG_ASSERT(*flow->parked_end[bucket] == NULL);
    for (tt_parked **link = &flow->parked[bucket]; *link != NULL; link = &(*link)->next) {
        tt_parked *parked = *link;
        if (parked->head.lane >= lane_end || !is_for(&parked->head, parked->peer, identity, peer)) {
            continue;
        }
        *link = parked->next;
        if (parked->next == NULL) {
            flow->parked_end[bucket] = link;
        }
        flow->parked_count--;
        return parked;
    }
    return NULL;
}

bool tt_flow_has(const tt_flow *flow, const tt_head *identity, uint32_t peer, uint64_t lane,
                 uint32_t round)
{
    const tt_parked *parked =
        flow->parked_count > 0 ? flow->parked[place_of(identity) % TT_PARKED_BUCKETS] : NULL;
    for (; parked != NULL; parked = parked->next) {
        if (parked->peer == peer && parked->head.lane == lane && parked->head.round == round &&
            is_for(&parked->head, peer, identity, peer)) {
            return true;
        }
    }
    return false;
}

void tt_flow_unpark(tt_flow *flow, tt_parked *parked)
{
    const uint32_t peer = parked->peer;
    const size_t offset = (size_t)((uintptr_t)parked - (uintptr_t)flow->peers[peer].block);
    TT_ASSERT(offset < TT_CREDIT_FRAMES * entry_bytes(flow)); /* room of this peer, or (2) fails */
    if (!TT_PLANT(PARKED_ROOM_LOST)) {
        parked->next = flow->peers[peer].free;
        flow->peers[peer].free = parked;
    }
    tt_flow_consumed(flow, peer);
}

/* ---- notes ---- */

static tt_note **note_bucket(const tt_flow *flow, const tt_head *head)
{
    TT_ASSERT(flow->note_buckets > 0);
    return &flow->notes[place_of(head) & (flow->note_buckets - 1)];
}

/* Twice as many buckets; without memory the old ones stay. */
static tt_status notes_grow(tt_flow *flow)
{
    const uint32_t count = flow->note_buckets == 0 ? NOTE_BUCKETS_MIN : 2 * flow->note_buckets;
    tt_note **old = flow->notes;
    const uint32_t old_count = flow->note_buckets;
    TT_ASSERT((count & (count - 1)) == 0); /* a bucket is found by a mask */
    tt_note **buckets = tt_platform_allocate(flow->platform, count * sizeof(*buckets));
    if (buckets == NULL) {
        return old_count > 0 ? TT_OK : TT_ERR_NO_MEMORY;
    }
    flow->notes = buckets;
    flow->note_buckets = count;
    for (uint32_t i = 0; i < old_count; i++) {
        tt_note *next;
        for (tt_note *note = old[i]; note != NULL; note = next) {
            tt_note **bucket = note_bucket(flow, &note->head);
            next = note->next;
            note->next = *bucket;
            *bucket = note;
        }
    }
    tt_platform_release(flow->platform, old, old_count * sizeof(*old));
    return TT_OK;
}

tt_status tt_flow_note(tt_flow *flow, uint32_t peer, const tt_head *head)
{
    TT_ASSERT(head->kind == TT_FRAME_GRANT || head->kind == TT_FRAME_WANT);
    if (flow->note_count >= flow->note_buckets) {
        TT_TRY(notes_grow(flow));
    }
    tt_note **bucket = note_bucket(flow, head);
    for (tt_note *note = *bucket; note != NULL; note = note->next) {
        if (note->peer == peer && note->head.kind == head->kind &&
            is_for(head, peer, &note->head, peer)) {
            note->head.argument = tt_max_u64(note->head.argument, head->argument);
            return TT_OK;
        }
    }
    if (flow->peers[peer].note_count >= TT_NOTES_MAX) {
        return TT_ERR_BAD_WIRE;
    }
    tt_note *note = flow->notes_free;
    if (note != NULL) {
        flow->notes_free = note->next;
    } else {
        note = tt_platform_allocate(flow->platform, sizeof(*note));
        if (note == NULL) {
            return TT_ERR_NO_MEMORY;
        }
    }
    *note = (tt_note){.next = *bucket, .peer = peer, .head = *head};
    *bucket = note;
    flow->note_count++;
    flow->peers[peer].note_count++;
    TT_ASSERT(flow->peers[peer].note_count <= flow->note_count);
    return TT_OK;
}

bool tt_flow_note_take(tt_flow *flow, const tt_head *identity, uint32_t peer, tt_note *note_out)
{
    if (flow->note_count == 0) {
        return false;
    }
    for (tt_note **link = note_bucket(flow, identity); *link != NULL; link = &(*link)->next) {
        tt_note *note = *link;
        if (!is_for(&note->head, note->peer, identity, peer)) {
            continue;
        }
        *link = note->next;
        *note_out = *note;
        note->next = flow->notes_free;
        flow->notes_free = note;
        TT_ASSERT(flow->peers[note_out->peer].note_count > 0);
        flow->note_count--;
        flow->peers[note_out->peer].note_count--;
        return true;
    }
    return false;
}

bool tt_flow_knows(const tt_flow *flow, const tt_head *identity, uint32_t peer)
{
    tt_head head = *identity;
    head.stage = ANY_STAGE;
    const tt_parked *parked =
        flow->parked_count > 0 ? flow->parked[place_of(&head) % TT_PARKED_BUCKETS] : NULL;
    while (parked != NULL && !is_for(&parked->head, parked->peer, &head, peer)) {
        parked = parked->next;
    }
    const tt_note *note = flow->note_count > 0 ? *note_bucket(flow, &head) : NULL;
    while (note != NULL && !is_for(&note->head, note->peer, &head, peer)) {
        note = note->next;
    }
    return parked != NULL || note != NULL;
}

void tt_flow_purge(tt_flow *flow, const tt_head *identity, uint32_t peer)
{
    tt_head head = *identity;
    tt_parked *parked;
    tt_note note;
    head.stage = ANY_STAGE;
    while ((parked = tt_flow_find(flow, &head, UINT64_MAX, peer)) != NULL) {
        flow->frames_dropped++;
        tt_flow_unpark(flow, parked);
    }
    while (tt_flow_note_take(flow, &head, peer, &note)) {
    }
}

static void purge_parked(tt_flow *flow, uint32_t bucket, uint32_t set)
{
    tt_parked **link = &flow->parked[bucket];
    while (*link != NULL) {
        tt_parked *parked = *link;
        if (parked->head.set != set) {
            link = &parked->next;
            continue;
        }
        *link = parked->next;
        TT_ASSERT(flow->parked_count > 0);
        flow->parked_count--;
        flow->frames_dropped++;
        tt_flow_unpark(flow, parked);
    }
    flow->parked_end[bucket] = link;
}

static void purge_notes(tt_flow *flow, tt_note **link, uint32_t set)
{
    while (*link != NULL) {
        tt_note *note = *link;
        if (note->head.set != set) {
            link = &note->next;
            continue;
        }
        *link = note->next;
        note->next = flow->notes_free;
        flow->notes_free = note;
        TT_ASSERT(flow->peers[note->peer].note_count > 0);
        flow->note_count--;
        flow->peers[note->peer].note_count--;
    }
}

void tt_flow_purge_set(tt_flow *flow, uint32_t set)
{
    for (uint32_t i = 0; i < TT_PARKED_BUCKETS && flow->parked_count > 0; i++) {
        purge_parked(flow, i, set);
    }
    for (uint32_t i = 0; i < flow->note_buckets && flow->note_count > 0; i++) {
        purge_notes(flow, &flow->notes[i], set);
    }
}
