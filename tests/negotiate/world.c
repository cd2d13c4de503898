/* SPDX-License-Identifier: Apache-2.0
 *
 * world.c - the host of many negotiators, and the rules that all of them must keep. */
#include "tests/negotiate/world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "kernel/hash64.h"
#include "tests/negotiate/parts.h"

/* ---- the host ---- */

static void *host_allocate(void *owner, size_t bytes)
{
    world_member *member = owner;
    const tt_allocator allocator = tt_counting_allocator_borrow(&member->world->counter);
    return allocator.allocate(allocator.user, bytes);
}

static void host_release(void *owner, void *memory, size_t bytes)
{
    world_member *member = owner;
    const tt_allocator allocator = tt_counting_allocator_borrow(&member->world->counter);
    allocator.release(allocator.user, memory, bytes);
}

static uint64_t host_now(void *owner)
{
    return ((world_member *)owner)->world->now_ns;
}

static void *grow(void *array, uint32_t *capacity, uint32_t count, size_t bytes)
{
    if (count < *capacity) {
        return array;
    }
    *capacity = *capacity == 0 ? 8 : 2 * *capacity;
    array = realloc(array, *capacity * bytes);
    TT_ASSERT(array != NULL);
    return array;
}

static void host_send(void *owner, uint32_t to, const tt_notice *notice)
{
    world_member *member = owner;
    test_world *world = member->world;
    world->frames =
        grow(world->frames, &world->frame_capacity, world->frame_count, sizeof(test_frame));
    test_frame *frame = &world->frames[world->frame_count++];
    frame->from = member->self;
    frame->to = to;
    frame->number = member->sent++;
    frame->notice = *notice;
    frame->payload = malloc(notice->bytes + 1U);
    TT_ASSERT(frame->payload != NULL);
    if (notice->bytes > 0) {
        memcpy(frame->payload, notice->payload, notice->bytes);
    }
    frame->notice.payload = frame->payload;
}

static test_event *add_event(world_member *member, event_kind kind)
{
    member->events =
        grow(member->events, &member->event_capacity, member->event_count, sizeof(test_event));
    test_event *event = &member->events[member->event_count++];
    memset(event, 0, sizeof(*event));
    event->kind = kind;
    return event;
}

static void end_ticket(world_member *member, tt_ticket *ticket)
{
    if (ticket != NULL) {
        world_ticket *mine = ticket->owner;
        TT_ASSERT(mine->member == member->self);
        TT_ASSERT(mine->ends == 0); /* every ticket ends once */
        mine->ends++;
        mine->event = member->event_count - 1;
    }
}

static void add_agreement(world_member *member, event_kind kind, const tt_agreement *item)
{
    test_event *event = add_event(member, kind);
    TT_ASSERT(item->name_bytes < sizeof(event->name) && item->claim_bytes < sizeof(event->claim));
    TT_ASSERT(strlen(item->name) == item->name_bytes);
    event->has_ticket = item->ticket != NULL;
    event->is_refused = item->rival != NULL;
    memcpy(event->name, item->name, item->name_bytes);
    memcpy(event->claim, item->claim, item->claim_bytes);
    event->active = item->active;
    event->index = item->index;
    event->generation = item->generation;
    event->bundle = item->bundle;
    event->bundle_size = item->bundle_size;
    event->bundle_place = item->bundle_place;
    event->order = item->order;
    if (item->ticket != NULL) {
        const world_ticket *mine = item->ticket->owner;
        TT_ASSERT(strcmp(mine->name, event->name) == 0);
        if (strcmp(mine->claim, event->claim) != 0) { /* came too late to change the plan */
            TT_ASSERT(kind == EVENT_PLANNED);
            event->status = TT_ERR_MISMATCH;
        }
    }
    end_ticket(member, item->ticket);
}

static void host_agreed(void *owner, const tt_agreement *items, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        add_agreement(owner, EVENT_AGREED, &items[i]);
    }
}

static void host_planned(void *owner, const tt_agreement *item)
{
    add_agreement(owner, EVENT_PLANNED, item);
}

/* Claims that begin with '+' may be fused if their second letter is the same; with a third letter
 * they are long. */
static bool host_may_plan(void *owner, const tt_plannable *item, tt_fusion *fusion)
{
    const char *text = item->claim;
    (void)owner;
    if (item->claim_bytes > 1 && text[0] == '+') {
        fusion->kind = (uint64_t)(uint8_t)text[1];
        fusion->bytes = item->claim_bytes > 2 && text[2] != 0 ? 5000 : 100;
        fusion->tensors = 1;
    }
    return true;
}

static void host_failed(void *owner, tt_ticket *ticket, tt_status status, const char *text)
{
    test_event *event = add_event(owner, EVENT_FAILED);
    const world_ticket *mine = ticket->owner;
    memcpy(event->name, mine->name, sizeof(event->name));
    memcpy(event->claim, mine->claim, sizeof(event->claim));
    event->has_ticket = true;
    event->status = status;
    snprintf(event->text, sizeof(event->text), "%s", text);
    end_ticket(owner, ticket);
}

static void host_joined(void *owner, uint32_t last)
{
    add_event(owner, EVENT_JOINED)->last = last;
}

static tt_status host_explain(void *owner, const char *name, const tt_claimant *claimants,
                              uint32_t count, tt_text *text)
{
    (void)owner;
    tt_text_add(text, "%s:", name);
    for (uint32_t i = 0; i < count; i++) {
        tt_text_add(text, " %.*s by", claimants[i].claim_bytes, (const char *)claimants[i].claim);
        for (uint32_t k = 0; k < claimants[i].member_count; k++) {
            tt_text_add(text, " %u", claimants[i].members[k]);
        }
    }
    return TT_ERR_MISMATCH;
}

static void host_report(void *owner, int level, const char *text)
{
    world_member *member = owner;
    if (level <= 1) {
        member->reports++;
        snprintf(member->report, sizeof(member->report), "%s", text);
    }
}

/* ---- life ---- */

static void place_members(test_world *world, uint32_t per_host)
{
    const uint32_t hosts = (world->size + per_host - 1) / per_host;
    for (uint32_t i = 0; i < world->size; i++) {
        world->host_of[i] = i / per_host;
        world->host_members[i] = i;
    }
    for (uint32_t i = 0; i <= hosts; i++) {
        world->host_first[i] = i * per_host < world->size ? i * per_host : world->size;
    }
}

test_world *world_create(uint32_t size, uint32_t per_host, const tt_negotiate_config *config,
                         uint64_t seed)
{
    test_world *world = calloc(1, sizeof(*world));
    TT_ASSERT(world != NULL && size <= WORLD_MEMBERS_MAX);
    tt_negotiate_config defaults;
    tt_negotiate_config_init(&defaults);
    world->size = size;
    world->members = calloc(size, sizeof(*world->members));
    TT_ASSERT(world->members != NULL);
    world->now_ns = 1;
    tt_random_init(&world->random, seed, 0);
    place_members(world, per_host);
    for (uint32_t i = 0; i < size; i++) {
        world_member *member = &world->members[i];
        member->world = world;
        member->self = i;
        const tt_negotiate_host host = {.owner = member,
                                        .allocate = host_allocate,
                                        .release = host_release,
                                        .now = host_now,
                                        .send = host_send,
                                        .agreed = host_agreed,
                                        .planned = host_planned,
                                        .failed = host_failed,
                                        .judged = host_failed,
                                        .joined = host_joined,
                                        .explain = host_explain,
                                        .part = parts_next,
                                        .may_plan = host_may_plan,
                                        .report = host_report};
        const tt_negotiate_members members = {.size = size,
                                              .self = i,
                                              .host_count = (size + per_host - 1) / per_host,
                                              .host_of = world->host_of,
                                              .host_first = world->host_first,
                                              .host_members = world->host_members};
        TT_ASSERT(tt_negotiator_create(&host, &members, config == NULL ? &defaults : config,
                                       &member->negotiator) == TT_OK);
    }
    return world;
}

void world_destroy(test_world *world)
{
    world_judge(world, false);
    for (uint32_t i = 0; i < world->size; i++) {
        tt_negotiator_shut(world->members[i].negotiator, TT_ERR_SHUT_DOWN, "over");
        tt_negotiator_destroy(world->members[i].negotiator);
        free(world->members[i].events);
    }
    TT_ASSERT(world->counter.live_bytes == 0);
    for (uint32_t i = 0; i < world->ticket_count; i++) {
        TT_ASSERT(world->tickets[i]->ends == 1);
        free(world->tickets[i]);
    }
    for (uint32_t i = 0; i < world->frame_count; i++) {
        free(world->frames[i].payload);
    }
    free(world->members);
    free(world->tickets);
    free(world->frames);
    free(world);
}

/* ---- events ---- */

world_ticket *world_submit(test_world *world, uint32_t member, const char *name, const char *claim)
{
    world->tickets =
        grow(world->tickets, &world->ticket_capacity, world->ticket_count, sizeof(void *));
    world_ticket *mine = calloc(1, sizeof(*mine));
    TT_ASSERT(mine != NULL);
    world->tickets[world->ticket_count++] = mine;
    mine->member = member;
    snprintf(mine->name, sizeof(mine->name), "%s", name);
    snprintf(mine->claim, sizeof(mine->claim), "%s", claim);
    mine->ticket = (tt_ticket){.name = mine->name,
                               .claim = mine->claim,
                               .name_bytes = (uint16_t)strlen(mine->name),
                               .claim_bytes = (uint16_t)strlen(mine->claim),
                               .needs_all = claim[0] == '!',
                               .owner = mine};
    tt_negotiator_submit(world->members[member].negotiator, &mine->ticket);
    return mine;
}

void world_submit_all(test_world *world, const char *name, const char *claim)
{
    for (uint32_t i = 0; i < world->size; i++) {
        world_submit(world, i, name, claim);
    }
}

void world_flush(test_world *world)
{
    for (uint32_t i = 0; i < world->size; i++) {
        tt_negotiator_flush(world->members[i].negotiator);
    }
}

void world_deliver(test_world *world, uint32_t number)
{
    const test_frame frame = world->frames[number];
    world->frames[number] = world->frames[--world->frame_count];
    tt_negotiator *negotiator = world->members[frame.to].negotiator;
    world->delivered++;
    TT_ASSERT(tt_negotiator_notice(negotiator, frame.from, &frame.notice) == TT_OK);
    if (world->duplicate_percent > 0 &&
        tt_random_below(&world->random, 100) < world->duplicate_percent) {
        world->frames =
            grow(world->frames, &world->frame_capacity, world->frame_count, sizeof(test_frame));
        world->frames[world->frame_count++] = frame;
    } else {
        free(frame.payload);
    }
    if (!world->is_lazy) {
        tt_negotiator_flush(negotiator);
    } else {
        const uint32_t member = (uint32_t)tt_random_below(&world->random, world->size);
        tt_negotiator_flush(world->members[member].negotiator);
    }
}

void world_run(test_world *world)
{
    world_flush(world);
    for (uint64_t steps = 0; world->frame_count > 0; steps++) {
        TT_ASSERT(steps < 10 * 1000 * 1000); /* else it does not terminate */
        world_deliver(world, (uint32_t)tt_random_below(&world->random, world->frame_count));
        if (world->frame_count == 0) {
            world_flush(world);
        }
    }
}

void world_pass(test_world *world, uint64_t ns)
{
    world->now_ns += ns;
    for (uint32_t i = 0; i < world->size; i++) {
        tt_negotiator *negotiator = world->members[i].negotiator;
        if (tt_negotiator_due(negotiator) <= world->now_ns) {
            tt_negotiator_tick(negotiator);
        }
    }
}

/* ---- results ---- */

uint32_t world_count(const test_world *world, uint32_t member, event_kind kind)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < world->members[member].event_count; i++) {
        count += world->members[member].events[i].kind == kind;
    }
    return count;
}

const test_event *world_event(const test_world *world, uint32_t member, event_kind kind,
                              uint32_t number)
{
    for (uint32_t i = 0; i < world->members[member].event_count; i++) {
        const test_event *event = &world->members[member].events[i];
        if (event->kind == kind && number-- == 0) {
            return event;
        }
    }
    return NULL;
}

uint32_t world_waiting(const test_world *world)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < world->ticket_count; i++) {
        count += world->tickets[i]->ends == 0;
    }
    return count;
}

const tt_negotiate_counters *world_counters(const test_world *world, uint32_t member)
{
    return tt_negotiator_count(world->members[member].negotiator);
}

static bool same_agreement(const test_event *a, const test_event *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->claim, b->claim) == 0 &&
           a->order == b->order && a->active == b->active;
}

static void judge_agreed(const test_world *world, uint32_t member)
{
    uint32_t a = 0, b = 0;
    const world_member *first = &world->members[0], *other = &world->members[member];
    for (;; a++, b++) {
        while (a < first->event_count && first->events[a].kind != EVENT_AGREED) {
            a++;
        }
        while (b < other->event_count && other->events[b].kind != EVENT_AGREED) {
            b++;
        }
        if (a == first->event_count || b == other->event_count) {
            return; /* one may be behind */
        }
        TT_ASSERT(same_agreement(&first->events[a], &other->events[b]));
    }
}

static int compare_planned(const void *a, const void *b)
{
    const test_event *left = *(const test_event *const *)a, *right = *(const test_event *const *)b;
    const uint64_t l[3] = {left->generation, left->index, left->order};
    const uint64_t r[3] = {right->generation, right->index, right->order};
    for (int i = 0; i < 3; i++) {
        if (l[i] != r[i]) {
            return l[i] < r[i] ? -1 : 1;
        }
    }
    return 0;
}

/* Planned occurrences of a member in ascending order, each once. */
static const test_event **sort_planned(const world_member *member, uint32_t *count_out)
{
    const test_event **sorted = calloc(member->event_count + 1U, sizeof(*sorted));
    uint32_t count = 0;
    TT_ASSERT(sorted != NULL);
    for (uint32_t i = 0; i < member->event_count; i++) {
        if (member->events[i].kind == EVENT_PLANNED) {
            sorted[count++] = &member->events[i];
        }
    }
    qsort(sorted, count, sizeof(*sorted), compare_planned);
    for (uint32_t i = 1; i < count; i++) {
        TT_ASSERT(compare_planned(&sorted[i - 1], &sorted[i]) < 0); /* exactly once */
    }
    *count_out = count;
    return sorted;
}

static void judge_planned(const test_world *world, uint32_t member, bool is_settled)
{
    uint32_t first_count, other_count;
    const test_event **first = sort_planned(&world->members[0], &first_count);
    const test_event **other = sort_planned(&world->members[member], &other_count);
    TT_ASSERT(!is_settled || first_count == other_count);
    for (uint32_t a = 0, b = 0; a < first_count && b < other_count;) {
        const int order = compare_planned(&first[a], &other[b]);
        TT_ASSERT(!is_settled || order == 0);
        if (order == 0) {
            TT_ASSERT(strcmp(first[a]->name, other[b]->name) == 0);
            TT_ASSERT(strcmp(first[a]->claim, other[b]->claim) == 0);
        }
        a += order <= 0;
        b += order >= 0;
    }
    free(first);
    free(other);
}

void world_judge(const test_world *world, bool is_settled)
{
    for (uint32_t i = 0; i < world->size; i++) {
        judge_agreed(world, i);
        judge_planned(world, i, is_settled);
        TT_ASSERT(!is_settled ||
                  world_count(world, i, EVENT_AGREED) == world_count(world, 0, EVENT_AGREED));
    }
}

/* The number-th ticket of this name on `member`, from 0. */
static const world_ticket *ticket_at(const test_world *world, uint32_t member, const char *name,
                                     uint32_t number)
{
    for (uint32_t i = 0; i < world->ticket_count; i++) {
        const world_ticket *ticket = world->tickets[i];
        if (ticket->member == member && strcmp(ticket->name, name) == 0 && number-- == 0) {
            return ticket;
        }
    }
    return NULL;
}

static void judge_occurrence(const test_world *world, const char *name, uint32_t number)
{
    const test_event *first = NULL;
    uint32_t submitted = 0, ended = 0;
    for (uint32_t i = 0; i < world->size; i++) {
        const world_ticket *ticket = ticket_at(world, i, name, number);
        submitted += ticket != NULL;
        if (ticket == NULL || ticket->ends == 0) {
            continue;
        }
        const test_event *event = &world->members[i].events[ticket->event];
        ended++;
        first = first == NULL ? event : first;
        TT_ASSERT(event->kind == first->kind);
        TT_ASSERT(event->order == first->order && event->generation == first->generation &&
                  event->index == first->index);
        TT_ASSERT(event->kind == EVENT_FAILED || strcmp(event->claim, first->claim) == 0);
        TT_ASSERT(event->kind != EVENT_FAILED ||
                  (event->status == first->status && strcmp(event->text, first->text) == 0));
    }
    TT_ASSERT(submitted < world->size || ended == world->size);
}

void world_judge_occurrences(const test_world *world)
{
    for (uint32_t i = 0; i < world->ticket_count; i++) {
        const world_ticket *ticket = world->tickets[i];
        for (uint32_t number = 0;; number++) {
            const world_ticket *found = ticket_at(world, ticket->member, ticket->name, number);
            TT_ASSERT(found != NULL);
            if (found == ticket) {
                judge_occurrence(world, ticket->name, number);
                break;
            }
        }
    }
}
