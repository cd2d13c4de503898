/* SPDX-License-Identifier: Apache-2.0
 *
 * place.c - the topology: members send to the leader of their host, leaders to each other.
 *
 * Leaders are numbered by `turn`, from the host of member 0, which is the coordinator. The tree is
 * binomial over turns, so a subtree is a block of hosts, and of members where ranks are numbered by
 * host. The original mode has a star instead. */
#include "base/assert.h"
#include "negotiate/internal.h"

static uint32_t turn_of_host(const tt_negotiator *self, uint32_t host)
{
    const tt_negotiate_members *members = &self->members;
    return (host + members->host_count - members->host_of[0]) % members->host_count;
}

static bool is_star(const tt_negotiator *self)
{
    return self->config.mode == TT_NEGOTIATE_ORIGINAL;
}

/* Below `turn`, the bits that lead to children. */
static uint32_t tree_bits(const tt_negotiator *self)
{
    const uint32_t turn = self->place.turn;
    uint32_t bits = 0;
    while (bits < 32 && (turn >> bits & 1) == 0 &&
           turn + (UINT64_C(1) << bits) < self->members.host_count) {
        bits++;
    }
    return bits;
}

/* Are the caller's arrays consistent? Else the negotiator is not created. */
static bool members_are_right(const tt_negotiate_members *members)
{
    if (members->size == 0 || members->self >= members->size || members->host_count == 0 ||
        members->host_first[0] != 0 || members->host_first[members->host_count] != members->size) {
        return false;
    }
    const uint32_t host = members->host_of[members->self], zero = members->host_of[0];
    return host < members->host_count && zero < members->host_count &&
           members->host_members[members->host_first[zero]] == 0;
}

tt_status tt_place_init(tt_negotiator *self)
{
    const tt_negotiate_members *members = &self->members;
    if (!members_are_right(members)) {
        return TT_ERR_BAD_ARGUMENT;
    }
    tt_place *place = &self->place;
    const uint32_t host = members->host_of[members->self];
    place->locals = members->host_members + members->host_first[host];
    place->local_count = members->host_first[host + 1] - members->host_first[host];
    place->turn = turn_of_host(self, host);
    place->local = tt_place_local(self, members->self);
    if (place->local == TT_NONE) {
        return TT_ERR_BAD_ARGUMENT;
    }
    for (place->power = 1; place->power <= members->host_count / 2; place->power *= 2) {
        place->dimensions++;
    }
    if (is_star(self)) {
        place->child_count = members->self == 0 ? members->size - 1 : 0;
    } else if (place->local == 0) {
        place->child_count = place->local_count - 1 + tree_bits(self);
    }
    return TT_OK;
}

uint32_t tt_place_leader(const tt_negotiator *self, uint32_t turn)
{
    const tt_negotiate_members *members = &self->members;
    const uint32_t host = (uint32_t)(((uint64_t)turn + members->host_of[0]) % members->host_count);
    return members->host_members[members->host_first[host]];
}

uint32_t tt_place_turn(const tt_negotiator *self, uint32_t member)
{
    const uint32_t turn = turn_of_host(self, self->members.host_of[member]);
    return tt_place_leader(self, turn) == member ? turn : TT_NONE;
}

uint32_t tt_place_local(const tt_negotiator *self, uint32_t member)
{
    uint32_t low = 0, high = self->place.local_count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (self->place.locals[middle] < member) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < self->place.local_count && self->place.locals[low] == member ? low : TT_NONE;
}

uint32_t tt_place_parent(const tt_negotiator *self)
{
    const tt_place *place = &self->place;
    if (self->members.self == 0) {
        return TT_NONE;
    }
    if (is_star(self)) {
        return 0;
    }
    return place->local > 0 ? place->locals[0]
                            : tt_place_leader(self, place->turn & (place->turn - 1));
}

/* The largest subtree first: it is the deepest. */
uint32_t tt_place_child(const tt_negotiator *self, uint32_t child)
{
    const tt_place *place = &self->place;
    TT_ASSERT(child < place->child_count);
    if (is_star(self)) {
        return child + 1;
    }
    const uint32_t bits = place->child_count - (place->local_count - 1);
    return child < bits ? tt_place_leader(self, place->turn + (1U << (bits - 1 - child)))
                        : place->locals[child - bits + 1];
}

uint32_t tt_place_child_of(const tt_negotiator *self, uint32_t member)
{
    const tt_place *place = &self->place;
    if (place->child_count == 0 || member == self->members.self) {
        return TT_NONE;
    }
    if (is_star(self)) {
        return member - 1;
    }
    const uint32_t bits = place->child_count - (place->local_count - 1);
    const uint32_t local = tt_place_local(self, member);
    if (local != TT_NONE) {
        return bits + local - 1;
    }
    const uint32_t turn = tt_place_turn(self, member);
    for (uint32_t bit = 0; turn != TT_NONE && bit < bits; bit++) {
        if (turn == place->turn + (1U << bit)) {
            return bits - 1 - bit;
        }
    }
    return TT_NONE;
}
