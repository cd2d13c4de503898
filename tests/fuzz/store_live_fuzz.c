/* SPDX-License-Identifier: Apache-2.0
 *
 * store_live_fuzz.c - two workers and a server with a store and named sums, over links that change
 * frames.
 *
 * The machines are the library's; the input chooses the calls that workers submit, the order in
 * which frames arrive, and how they are changed on the way: a bit of the head or payload, the kind,
 * the length, doubled, or dropped; and when a process is gone. Whatever arrives, every call ends
 * exactly once, nothing is read or written beyond its bounds, and all memory is freed.
 *
 * Labels: sync */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "sync/sync.h"
#include "sync/sync_wire.h"

enum {
    WORKERS = 2,
    RANKS = 3,
    CALLS_MAX = 64,
    FRAMES_MAX = 256, /* in flight */
    EVENTS_MAX = 512,
    ELEMENTS = 20000, /* of the longest tensor: its parts are long frames */
    ROWS_MAX = 8,     /* of a call */
    LENGTH = 3,       /* of a row */
    EPOCH = 9,
};

typedef struct live_frame {
    uint32_t from, to;
    tt_head head;
    uint8_t *payload;
} live_frame;

typedef struct live_call {
    tt_sync_request request;
    int finish_count;
    tt_sync_counts counts;
    float *input, *output;
    uint64_t rows[ROWS_MAX];
} live_call;

/* A named sum. */
typedef struct live_sum {
    tt_request request;
    int finish_count;
    float *values;
} live_sum;

typedef struct live_rank {
    tt_platform platform; /* first */
    struct live_world *world;
    uint32_t rank;
    tt_sync *sync;
    bool is_gone;
    live_call *sums; /* OPEN of the store of named sums, or NULL */
    tt_request join;
    bool has_join;   /* it is not over, */
    bool is_joining; /* and control has it */
} live_rank;

typedef struct live_world {
    live_rank ranks[RANKS];
    live_frame frames[FRAMES_MAX];
    uint32_t frame_count;
    live_call *calls[CALLS_MAX];
    uint32_t call_count;
    live_sum *sums[CALLS_MAX];
    uint32_t sum_count;
    const uint8_t *bytes;
    size_t left;
} live_world;

static uint64_t take(live_world *world, size_t count)
{
    uint64_t value = 0;
    for (size_t i = 0; i < count && world->left > 0; i++, world->left--) {
        value |= (uint64_t)*world->bytes++ << (8 * i);
    }
    return value;
}

/* ---- the driver ---- */

/* Time stands: a call is long at once. */
static uint64_t driver_one(tt_platform *platform)
{
    (void)platform;
    return 1;
}

static void *driver_allocate(tt_platform *platform, tt_memory_kind kind, size_t bytes)
{
    (void)platform;
    return kind == TT_MEMORY_PRIVATE && bytes < (1 << 22) ? calloc(1, bytes) : NULL;
}

static void driver_release(tt_platform *platform, tt_memory_kind kind, void *memory, size_t bytes)
{
    (void)platform;
    (void)kind;
    (void)bytes;
    free(memory);
}

static void driver_timer(tt_platform *platform, uint64_t at_ns)
{
    (void)platform;
    (void)at_ns;
}

static void frame_add(live_world *world, live_frame frame, const void *payload)
{
    if (world->frame_count == FRAMES_MAX) {
        return; /* lost */
    }
    if (frame.head.payload_bytes > 0) {
        frame.payload = malloc(frame.head.payload_bytes);
        TT_ASSERT(frame.payload != NULL);
        memcpy(frame.payload, payload, frame.head.payload_bytes);
    }
    world->frames[world->frame_count++] = frame;
}

static tt_status driver_send(tt_platform *platform, const tt_send *send)
{
    live_rank *self = (live_rank *)platform;
    const live_frame frame = {.from = self->rank, .to = send->peer, .head = *send->head};
    TT_ASSERT(send->peer < RANKS && send->peer != self->rank);
    frame_add(self->world, frame, send->payload);
    return TT_OK;
}

static void driver_recall(tt_platform *platform, uint32_t peer, uint64_t token)
{
    (void)platform;
    (void)peer;
    (void)token;
}

static void driver_discard(tt_platform *platform, uint32_t peer)
{
    (void)platform;
    (void)peer;
}

static void driver_spend(tt_platform *platform, tt_spend_kind kind, size_t bytes, uint32_t times)
{
    (void)platform;
    (void)kind;
    (void)bytes;
    (void)times;
}

static const tt_platform_ops driver = {
    .now = driver_one,
    .random = driver_one,
    .allocate = driver_allocate,
    .release = driver_release,
    .timer = driver_timer,
    .send = driver_send,
    .recall = driver_recall,
    .discard = driver_discard,
    .spend = driver_spend,
};

/* ---- there are no collectives here ---- */

static bool no_step(void *machine)
{
    (void)machine;
    return false;
}

static void no_peer(void *machine, uint32_t peer, tt_peer_event event, const char *why)
{
    (void)machine, (void)peer, (void)event, (void)why;
}

static void *no_frame(void *machine, uint32_t peer, const tt_head *head, const void *payload)
{
    (void)machine, (void)peer, (void)head, (void)payload;
    return NULL;
}

static void no_timer(void *machine)
{
    (void)machine;
}

static const tt_machine_ops nothing = {
    .frame = no_frame, .peer = no_peer, .step = no_step, .timer = no_timer};

static void drop_report(void *owner, int level, const char *text)
{
    (void)owner, (void)level, (void)text;
}

static void no_alarm(void *owner, uint64_t at_ns)
{
    (void)owner, (void)at_ns;
}

/* ---- calls ---- */

static void finished(tt_sync_request *request)
{
    live_call *call = request->owner;
    call->finish_count++;
}

/* Added as a table; pushed and pulled by rows, also of what is no table, and in another order. */
static void choose_rows(live_world *world, live_call *call)
{
    uint64_t row = take(world, 1);
    call->request.row_elements = call->request.count % LENGTH == 0 ? LENGTH : 4;
    call->request.is_rows =
        call->request.verb >= TT_STORE_PUSH && call->request.verb <= TT_STORE_PUSH_PULL;
    call->request.rows = call->rows;
    call->request.row_count = take(world, 1) % (ROWS_MAX + 1);
    for (uint64_t i = 0; i < call->request.row_count; i++) {
        call->rows[i] = row;
        row += take(world, 1) * (call->request.count / 256) + (row % 13 != 12 ? 1 : 0);
    }
}

/* NULL: there is no room for it, or its rank is gone. */
static live_call *submit_as(live_world *world, tt_sync_verb verb, uint32_t rank, bool is_sums)
{
    static const char *const policies[] = {"bulk", "stale:1", "async", "quorum:1", "quorum:2"};
    static const char *const updates[] = {"add", "sum", "sgd:lr=0.5", "adam",
                                          "sgd:lr=0.5,dc=0.25,tau=1"};
    static const char *const codecs[] = {NULL, "int8", NULL, "sign", "qsgd", "fp16:ef=on"};
    static const char *const names[] = {"a", "b", "c"};
    static const uint64_t counts[] = {3, 0, ELEMENTS};
    if (world->call_count == CALLS_MAX || world->ranks[rank].is_gone) {
        return NULL;
    }
    live_call *call = calloc(1, sizeof(*call));
    const uint64_t choice = take(world, 1);
    call->input = calloc(ELEMENTS, sizeof(float));
    call->output = calloc(ELEMENTS, sizeof(float));
    TT_ASSERT(call->input != NULL && call->output != NULL);
    call->request = (tt_sync_request){.verb = verb,
                                      .policy = policies[choice % 5],
                                      .update = updates[choice / 5 % 5],
                                      .codec = codecs[choice / 20 % 6],
                                      .name = names[choice % 3],
                                      .dtype = TT_F32,
                                      .count = counts[choice % 3],
                                      .input = call->input,
                                      .output = call->output,
                                      .urgency = (int32_t)choice,
                                      .finished = finished,
                                      .owner = call};
    call->request.counts = &call->counts;
    if (choice >= 128) {
        choose_rows(world, call);
    }
    if (verb == TT_STORE_SET) {
        call->request.name = "lr";
        call->request.value = (double)choice;
        call->request.clock = choice % 5 < 4 ? choice % 5 : UINT64_MAX;
    }
    if (is_sums) {
        call->request.is_sums = true;
        call->request.policy = "bulk";
        call->request.update = "sum";
        call->request.codec = NULL;
    }
    world->calls[world->call_count++] = call;
    tt_sync_submit(world->ranks[rank].sync, &call->request);
    return call;
}

static void submit(live_world *world, tt_sync_verb verb, uint32_t rank)
{
    (void)submit_as(world, verb, rank, false);
}

/* ---- named sums ---- */

static void sum_finished(tt_request *request)
{
    live_sum *sum = request->owner;
    sum->finish_count++;
}

static void join_finished(tt_request *request)
{
    live_rank *own = request->owner;
    own->has_join = own->is_joining = false;
}

/* tt_sync_listener.submit: control runs what owners do no more. */
static void submit_inner(void *owner, tt_request *request)
{
    live_rank *own = owner;
    if (request->is_join) {
        own->is_joining = true;
        return;
    }
    request->status = TT_OK;
    request->finished(request);
}

static void sum(live_world *world, live_rank *own, uint64_t choice)
{
    static const char *const names[] = {"a", "b", "c"};
    static const uint64_t counts[] = {3, 0, ELEMENTS, 5};
    if (world->sum_count == CALLS_MAX) {
        return;
    }
    live_sum *made = calloc(1, sizeof(*made));
    TT_ASSERT(made != NULL);
    made->values = calloc(ELEMENTS, sizeof(float));
    TT_ASSERT(made->values != NULL);
    tt_request *request = &made->request;
    request->collective = TT_ALLREDUCE;
    request->dtype = TT_F32;
    request->redop = choice % 5 == 0 ? TT_AVERAGE : TT_SUM;
    request->count = counts[choice / 3 % 4];
    request->prescale = request->postscale = 1.0;
    request->name = names[choice % 3];
    request->input = request->output = made->values;
    request->finished = sum_finished;
    request->owner = made;
    request->objection = choice % 7 == 6 ? TT_ERR_BAD_ARGUMENT : TT_OK;
    world->sums[world->sum_count++] = made;
    tt_sync_sum(own->sync, request);
}

/* Open their store; then sums, and joins that begin and end. */
static void sum_event(live_world *world, uint32_t rank)
{
    live_rank *own = &world->ranks[rank];
    const uint64_t choice = take(world, 1);
    if (own->is_gone) {
        return;
    }
    if (own->sums == NULL) {
        own->sums = submit_as(world, TT_STORE_OPEN, rank, true);
    } else if (own->sums->finish_count == 0 || own->sums->request.status != TT_OK) {
        return;
    } else if (choice < 200) {
        sum(world, own, choice);
    } else if (own->is_joining) {
        own->join.finished(&own->join);
    } else if (!own->has_join) {
        own->has_join = true;
        own->join = (tt_request){.is_join = true, .finished = join_finished, .owner = own};
        own->is_joining = !tt_sync_join(own->sync, &own->join);
    }
}

/* ---- frames ---- */

static void change(live_world *world, live_frame *frame)
{
    uint8_t *head = (uint8_t *)&frame->head;
    const uint64_t where = take(world, 2);
    const uint32_t bytes = frame->head.payload_bytes;
    switch (take(world, 1) % 5) {
    case 0:
        head[where % offsetof(tt_head, payload_bytes)] ^= (uint8_t)(1 << (where >> 8 & 7));
        break;
    case 1:
        frame->head.kind = (uint8_t)(TT_SYNC_KIND_FIRST + where % 64);
        break;
    case 2:
        frame->head.argument = take(world, 8);
        break;
    case 3:
        if (bytes > 0) {
            frame->payload[where % bytes] ^= (uint8_t)(1 + (where >> 8));
        }
        break;
    default:
        frame->head.payload_bytes = bytes > 0 ? (uint32_t)(where % bytes) : 0;
        break;
    }
}

static void deliver(live_world *world, const live_frame *frame)
{
    const live_rank *target = &world->ranks[frame->to];
    const tt_machine machine = tt_sync_machine(target->sync);
    const bool is_long = frame->head.payload_bytes > TT_INLINE_BYTES_MAX;
    if (target->is_gone) {
        return;
    }
    void *sink = machine.ops->frame(machine.self, frame->from, &frame->head,
                                    is_long ? NULL : frame->payload);
    if (is_long && sink != NULL) {
        memcpy(sink, frame->payload, frame->head.payload_bytes);
        machine.ops->payload(machine.self, frame->from, &frame->head);
    }
}

static void step_all(live_world *world)
{
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        const tt_machine machine = tt_sync_machine(world->ranks[rank].sync);
        for (int i = 0; i < 8 && machine.ops->step(machine.self); i++) {
        }
    }
}

/* The next frame of some link; `fault` 0: as it is. */
static void pass(live_world *world, uint64_t which, uint64_t fault)
{
    if (world->frame_count == 0) {
        return;
    }
    const uint32_t index = (uint32_t)(which % world->frame_count);
    live_frame frame = world->frames[index];
    memmove(&world->frames[index], &world->frames[index + 1],
            (world->frame_count - index - 1) * sizeof(frame));
    world->frame_count--;
    if (fault % 8 == 1) {
        frame_add(world, (live_frame){frame.from, frame.to, frame.head, NULL}, frame.payload);
    } else if (fault % 8 == 2) {
        change(world, &frame);
    }
    if (fault % 8 != 3) {
        deliver(world, &frame);
    }
    free(frame.payload);
    step_all(world);
}

static void lose(live_world *world, uint32_t gone, bool is_dead)
{
    if (world->ranks[gone].is_gone) {
        return;
    }
    world->ranks[gone].is_gone = true;
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        if (rank != gone && !world->ranks[rank].is_gone) {
            const tt_machine machine = tt_sync_machine(world->ranks[rank].sync);
            machine.ops->peer(machine.self, gone, is_dead ? TT_PEER_DOWN : TT_PEER_LEFT, "gone");
        }
    }
    step_all(world);
}

/* Calls that wait are asked about. */
static void fire_timer(const live_rank *own)
{
    const tt_machine machine = tt_sync_machine(own->sync);
    if (!own->is_gone) {
        machine.ops->timer(machine.self);
    }
}

/* ---- one input ---- */

static void world_make(live_world *world)
{
    const tt_machine inner = {.ops = &nothing};
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        live_rank *own = &world->ranks[rank];
        const tt_sync_listener listener = {
            .owner = own, .report = drop_report, .submit = submit_inner, .alarm = no_alarm};
        const tt_roles roles = {
            .rank = rank, .workers = WORKERS, .servers = RANKS - WORKERS, .epoch = EPOCH};
        *own = (live_rank){.platform.ops = &driver, .world = world, .rank = rank};
        const tt_status status =
            tt_sync_create(&own->platform, &roles, inner, &listener, &own->sync);
        TT_ASSERT(status == TT_OK);
    }
}

static void world_end(live_world *world)
{
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        live_rank *own = &world->ranks[rank];
        if (own->is_joining) {
            own->join.finished(&own->join); /* control ends it */
        }
        tt_sync_shut_down(world->ranks[rank].sync, TT_ERR_SHUT_DOWN, "over");
        tt_sync_destroy(world->ranks[rank].sync);
    }
    for (uint32_t i = 0; i < world->call_count; i++) {
        TT_ASSERT(world->calls[i]->finish_count == 1);
        free(world->calls[i]->input);
        free(world->calls[i]->output);
        free(world->calls[i]);
    }
    for (uint32_t i = 0; i < world->sum_count; i++) {
        TT_ASSERT(world->sums[i]->finish_count == 1);
        free(world->sums[i]->values);
        free(world->sums[i]);
    }
    for (uint32_t i = 0; i < world->frame_count; i++) {
        free(world->frames[i].payload);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    live_world *world = calloc(1, sizeof(*world));
    TT_ASSERT(world != NULL);
    world->bytes = data;
    world->left = size;
    world_make(world);
    for (int i = 0; i < EVENTS_MAX && world->left > 0; i++) {
        const uint64_t event = take(world, 1);
        const uint32_t rank = (uint32_t)(event >> 7);
        if ((event & 127) < 70) {
            pass(world, take(world, 1), 0);
        } else if ((event & 127) < 90) {
            pass(world, take(world, 1), take(world, 1));
        } else if ((event & 127) == 90) {
            fire_timer(&world->ranks[rank]);
        } else if ((event & 127) >= 118 && (event & 127) < 124) {
            sum_event(world, rank);
        } else if ((event & 127) == 124) {
            submit(world, take(world, 1) % 2 == 0 ? TT_STORE_SET : TT_STORE_COUNT, rank);
        } else if ((event & 127) < 125) {
            submit(world, (tt_sync_verb)((event & 127) % (TT_STORE_CLOCK + 1)), rank);
        } else {
            lose(world, (uint32_t)take(world, 1) % RANKS, (event & 1) != 0);
        }
    }
    world_end(world);
    free(world);
    return 0;
}
