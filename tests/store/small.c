/* SPDX-License-Identifier: Apache-2.0
 *
 * small.c - see small.h. */
#include "store/small.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "kernel/hash64.h"
#include "store/store_run.h"

/* ---- the platform ---- */

static small_machine *machine_of(tt_platform *platform)
{
    return (small_machine *)(void *)platform;
}

static uint64_t small_now(tt_platform *platform)
{
    (void)platform;
    return 1;
}

void *small_allocate(small_machine *machine, size_t bytes)
{
    const uint32_t room = (uint32_t)tt_round_up(bytes > 0 ? bytes : 1, 64);
    for (uint32_t i = 0; i < machine->gap_count; i++) {
        if (machine->gaps[i].bytes == room) {
            const uint32_t first = machine->gaps[i].first;
            machine->gap_count--;
            machine->gaps[i] = machine->gaps[machine->gap_count];
            return machine->memory + first;
        }
    }
    if (machine->used + room > SMALL_MEMORY_BYTES) {
        return NULL;
    }
    machine->used += room;
    return machine->memory + machine->used - room;
}

static void *take(tt_platform *platform, tt_memory_kind kind, size_t bytes)
{
    TT_ASSERT(kind == TT_MEMORY_PRIVATE);
    return small_allocate(machine_of(platform), bytes);
}

/* Zeroed, so that equal states have equal bytes. */
static void give(tt_platform *platform, tt_memory_kind kind, void *memory, size_t bytes)
{
    small_machine *machine = machine_of(platform);
    const uint32_t room = (uint32_t)tt_round_up(bytes > 0 ? bytes : 1, 64);
    TT_ASSERT(kind == TT_MEMORY_PRIVATE);
    memset(memory, 0, room);
    if (machine->gap_count < SMALL_GAPS) { /* else it is not used again */
        machine->gaps[machine->gap_count].first = (uint32_t)((uint8_t *)memory - machine->memory);
        machine->gaps[machine->gap_count].bytes = room;
        machine->gap_count++;
    }
}

static tt_status small_send(tt_platform *platform, const tt_send *send)
{
    const small_machine *machine = machine_of(platform);
    small_world *world = machine->world;
    TT_ASSERT(send->peer < world->workers + world->servers && send->peer != machine->rank);
    if (world->machines[send->peer]->is_gone || world->machines[send->peer]->is_deaf) {
        return TT_OK;
    }
    TT_ASSERT(world->frame_count < SMALL_FRAMES);
    small_frame *frame = &world->frames[world->frame_count++];
    TT_ASSERT(send->head->payload_bytes <= sizeof(frame->bytes));
    world->sent++;
    *frame = (small_frame){
        .from = machine->rank, .to = send->peer, .head = *send->head, .token = send->token};
    if (send->head->payload_bytes > 0) {
        memcpy(frame->bytes, send->payload, send->head->payload_bytes);
    }
    if (send->head->payload_bytes > 0 && send->token != TT_TOKEN_NONE &&
        (send->token & TOKEN_TEXT) == 0) {
        frame->lent = send->payload;
        return TT_IN_PROGRESS;
    }
    frame->token = TT_TOKEN_NONE;
    return TT_OK;
}

/* The sender must not have written to what it has lent. */
static void check_lent(const small_frame *frame)
{
    TT_ASSERT(memcmp(frame->bytes, frame->lent, frame->head.payload_bytes) == 0);
}

static void small_recall(tt_platform *platform, uint32_t peer, uint64_t token)
{
    const small_machine *machine = machine_of(platform);
    for (uint32_t i = 0; i < machine->world->frame_count; i++) {
        small_frame *frame = &machine->world->frames[i];
        if (frame->from == machine->rank && frame->to == peer && frame->token == token) {
            check_lent(frame);
            frame->lent = NULL;
            frame->token = TT_TOKEN_NONE;
        }
    }
}

static void small_spend(tt_platform *platform, tt_spend_kind kind, size_t bytes, uint32_t times)
{
    (void)platform, (void)kind, (void)bytes, (void)times;
}

static const tt_platform_ops small_ops = {.now = small_now,
                                          .allocate = take,
                                          .release = give,
                                          .send = small_send,
                                          .recall = small_recall,
                                          .spend = small_spend};

/* ---- machines ---- */

static void keep_report(void *owner, int level, const char *text)
{
    small_world *world = owner;
    (void)level;
    world->report = (tt_text){.length = 0};
    tt_text_add(&world->report, "%s", text);
}

/* There are no collectives that could make named sums. */
static void no_control(void *owner, tt_request *request)
{
    (void)owner, (void)request;
    TT_ASSERT(false);
}

small_world *small_create(uint32_t workers, uint32_t servers)
{
    return small_create_on(workers, servers, NULL);
}

small_world *small_create_on(uint32_t workers, uint32_t servers, const uint32_t *hosts)
{
    small_world *world = calloc(1, sizeof(*world));
    TT_ASSERT(world != NULL && workers + servers <= SMALL_PROCESSES);
    world->workers = workers;
    world->servers = servers;
    for (uint32_t rank = 0; rank < workers + servers; rank++) {
        small_machine *machine = aligned_alloc(64, tt_round_up(sizeof(*machine), 64));
        TT_ASSERT(machine != NULL);
        memset(machine, 0, sizeof(*machine));
        machine->platform.ops = &small_ops;
        machine->world = world;
        machine->rank = rank;
        world->machines[rank] = machine;
        const tt_roles roles = {.rank = rank,
                                .workers = workers,
                                .servers = servers,
                                .epoch = SMALL_EPOCH,
                                .hosts = hosts};
        const tt_sync_listener listener = {
            .owner = world, .report = keep_report, .submit = no_control};
        const tt_status status = tt_sync_create(&machine->platform, &roles, store_no_collectives(),
                                                &listener, &machine->sync);
        TT_ASSERT(status == TT_OK);
    }
    return world;
}

void small_destroy(small_world *world)
{
    for (uint32_t rank = 0; rank < world->workers + world->servers; rank++) {
        small_machine *machine = world->machines[rank];
        tt_sync_shut_down(machine->sync, TT_ERR_SHUT_DOWN, "over");
        tt_sync_destroy(machine->sync);
        free(machine);
    }
    free(world);
}

const char *small_name(const small_world *world, uint32_t owner)
{
    static const char letters[] = "a\0b\0c\0d\0e\0f\0g\0h\0i\0j\0k\0l\0m\0n\0o\0p";
    const tt_split split = tt_split_make(world->workers, world->servers);
    for (uint32_t i = 0; i < sizeof(letters); i += 2) {
        tt_split_part part;
        (void)tt_split_cut(&split, tt_hash64(letters + i, 1, 0), 8, &part, 1);
        if (part.owner == owner) {
            return letters + i;
        }
    }
    TT_ASSERT(false); /* more letters are needed */
    return NULL;
}

/* ---- events ---- */

static void take_off(small_world *world, uint32_t index)
{
    world->frame_count--;
    memmove(&world->frames[index], &world->frames[index + 1],
            (world->frame_count - index) * sizeof(world->frames[0]));
}

/* The frame does not need the sender's memory any more. */
static void give_back(small_world *world, small_frame *frame)
{
    const small_machine *sender = world->machines[frame->from];
    const uint64_t token = frame->token;
    if (frame->lent == NULL) {
        return;
    }
    check_lent(frame);
    frame->lent = NULL;
    frame->token = TT_TOKEN_NONE;
    if (!sender->is_gone) {
        const tt_machine machine = tt_sync_machine(sender->sync);
        machine.ops->sent(machine.self, token);
    }
}

void small_deliver(small_world *world, uint32_t index, bool stays)
{
    TT_ASSERT(index < world->frame_count);
    give_back(world, &world->frames[index]);
    const small_frame frame = world->frames[index];
    if (!stays) {
        take_off(world, index);
    }
    const tt_machine machine = tt_sync_machine(world->machines[frame.to]->sync);
    (void)machine.ops->frame(machine.self, frame.from, &frame.head, frame.bytes);
}

void small_drop(small_world *world, uint32_t index)
{
    TT_ASSERT(index < world->frame_count);
    give_back(world, &world->frames[index]);
    take_off(world, index);
}

bool small_has_step(const small_machine *machine)
{
    return !machine->is_gone && (machine->sync->due.count > 0 || machine->sync->sums.ready != NULL);
}

void small_step(small_machine *machine)
{
    const tt_machine self = tt_sync_machine(machine->sync);
    (void)self.ops->step(self.self);
}

void small_run(small_world *world)
{
    bool is_idle = false;
    while (!is_idle) {
        is_idle = world->frame_count == 0;
        if (!is_idle) {
            small_deliver(world, 0, false);
        }
        for (uint32_t i = 0; i < world->workers + world->servers; i++) {
            while (small_has_step(world->machines[i])) {
                small_step(world->machines[i]);
                is_idle = false;
            }
        }
    }
}

void small_kill(small_machine *machine)
{
    small_world *world = machine->world;
    machine->is_gone = true;
    for (uint32_t i = world->frame_count; i > 0; i--) {
        small_frame *frame = &world->frames[i - 1];
        if (frame->to == machine->rank) {
            small_drop(world, i - 1);
        } else if (frame->from == machine->rank) {
            give_back(world, frame);
        }
    }
}

void small_tell_gone(small_machine *machine, uint32_t rank)
{
    small_world *world = machine->world;
    TT_ASSERT(world->machines[rank]->is_gone && !machine->is_gone);
    for (uint32_t i = world->frame_count; i > 0; i--) {
        if (world->frames[i - 1].from == rank && world->frames[i - 1].to == machine->rank) {
            take_off(world, i - 1);
        }
    }
    const tt_machine self = tt_sync_machine(machine->sync);
    self.ops->peer(self.self, rank, TT_PEER_DOWN, "killed");
}

bool small_has_frames(const small_world *world, uint32_t from, uint32_t to)
{
    bool any = false;
    for (uint32_t i = 0; i < world->frame_count; i++) {
        any = any || (world->frames[i].from == from && world->frames[i].to == to);
    }
    return any;
}

void small_tell_left(small_machine *machine, uint32_t rank)
{
    const small_world *world = machine->world;
    TT_ASSERT(world->machines[rank]->is_gone && !machine->is_gone);
    TT_ASSERT(!small_has_frames(world, rank, machine->rank));
    const tt_machine self = tt_sync_machine(machine->sync);
    self.ops->peer(self.self, rank, TT_PEER_LEFT, NULL);
}

/* ---- copies ---- */

struct small_copy {
    size_t bytes;
    uint8_t state[];
};

static size_t state_bytes(const small_machine *machine)
{
    return offsetof(small_machine, memory) + machine->used;
}

small_copy *small_keep(const small_machine *machine)
{
    const size_t bytes = state_bytes(machine);
    small_copy *copy = malloc(sizeof(*copy) + bytes);
    TT_ASSERT(copy != NULL);
    copy->bytes = bytes;
    memcpy(copy->state, machine, bytes);
    return copy;
}

/* Memory that was not in use is zero. */
void small_restore(small_machine *machine, small_copy *copy)
{
    const size_t bytes = state_bytes(machine);
    if (bytes > copy->bytes) {
        memset((uint8_t *)machine + copy->bytes, 0, bytes - copy->bytes);
    }
    memcpy(machine, copy->state, copy->bytes);
    free(copy);
}

uint64_t small_hash(const small_machine *machine)
{
    return tt_hash64(machine, state_bytes(machine), 1);
}
