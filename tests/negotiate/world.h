/* SPDX-License-Identifier: Apache-2.0
 *
 * world.h - P negotiators and a network that delays, duplicates and reorders, from a seed.
 *
 * The world records the events of each member and checks them: all agree on one order, every ticket
 * ends once, all members run a planned occurrence under the same name. */
#ifndef TUTTI_TESTS_NEGOTIATE_WORLD_H
#define TUTTI_TESTS_NEGOTIATE_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/philox.h"
#include "negotiate/negotiate.h"

enum { WORLD_MEMBERS_MAX = 64 };

typedef enum event_kind { EVENT_AGREED, EVENT_PLANNED, EVENT_FAILED, EVENT_JOINED } event_kind;

/* An event of a member. */
typedef struct test_event {
    event_kind kind;
    bool has_ticket;
    bool is_refused; /* it was planned, but this member has a tensor of it in another ticket */
    char name[64], claim[64]; /* of the agreement; of the ticket where it failed */
    char text[192];
    tt_status status;
    uint32_t active, index, generation, last;
    uint32_t bundle, bundle_size, bundle_place;
    uint64_t order;
} test_event;

typedef struct test_frame {
    uint32_t from, to;
    uint64_t number; /* in the order of sending, of its sender */
    tt_notice notice;
    uint8_t *payload;
} test_frame;

typedef struct world_ticket {
    tt_ticket ticket;
    uint32_t member;
    uint32_t event; /* that ended it */
    int ends;
    char name[64], claim[64];
} world_ticket;

typedef struct world_member {
    struct test_world *world;
    uint32_t self;
    tt_negotiator *negotiator;
    test_event *events;
    uint32_t event_count, event_capacity;
    uint64_t sent;
    char report[192]; /* the last one */
    uint32_t reports;
} world_member;

typedef struct test_world {
    uint32_t size;
    uint64_t now_ns;
    tt_random random;
    uint32_t duplicate_percent;
    bool is_lazy; /* flushes are delayed, too */
    tt_counting_allocator counter;
    uint32_t host_of[WORLD_MEMBERS_MAX], host_first[WORLD_MEMBERS_MAX + 1];
    uint32_t host_members[WORLD_MEMBERS_MAX];
    world_member *members; /* [size] */
    test_frame *frames;
    uint32_t frame_count, frame_capacity;
    world_ticket **tickets;
    uint32_t ticket_count, ticket_capacity;
    uint64_t delivered;
} test_world;

/* `per_host` members on each host. The config is copied; NULL: the defaults. */
test_world *world_create(uint32_t size, uint32_t per_host, const tt_negotiate_config *config,
                         uint64_t seed);
/* Judges, shuts down, frees, and checks that no memory leaks. */
void world_destroy(test_world *world);

/* A claim that begins with '!' needs all members; "=ab" is of a group that has the tensors a, b. */
world_ticket *world_submit(test_world *world, uint32_t member, const char *name, const char *claim);
void world_submit_all(test_world *world, const char *name, const char *claim);
void world_flush(test_world *world);
/* Deliver one frame. */
void world_deliver(test_world *world, uint32_t frame);
/* Deliver frames in random order until there are none. */
void world_run(test_world *world);
/* Advance the clock, and tick the members that are due. */
void world_pass(test_world *world, uint64_t ns);

uint32_t world_count(const test_world *world, uint32_t member, event_kind kind);
/* The number-th event of this kind, from 0. */
const test_event *world_event(const test_world *world, uint32_t member, event_kind kind,
                              uint32_t number);
uint32_t world_waiting(const test_world *world); /* tickets that have not ended */
const tt_negotiate_counters *world_counters(const test_world *world, uint32_t member);
/* Agreed orders are equal; an occurrence planned on one member is planned on all (if is_settled).
 */
void world_judge(const test_world *world, bool is_settled);
/* While no member has joined, left or shut down: the n-th ticket of a name on one member ends like
 * the n-th on every other, and has ended if all members submitted it. */
void world_judge_occurrences(const test_world *world);

#endif
