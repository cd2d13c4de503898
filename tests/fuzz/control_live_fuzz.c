/* SPDX-License-Identifier: Apache-2.0
 *
 * control_live_fuzz.c - three ranks that negotiate and exchange, over links that change frames.
 *
 * The machines are the library's; the input chooses the calls they submit (names, groups, joins,
 * unnamed calls, calls of several stages, coded ones), the order in which links deliver, and the
 * frames that are changed on the way: a bit, the kind, the stage, the length, duplicated, or
 * dropped. So every decoder gets frames that were right before the change, in the state in which
 * they are expected. Whatever arrives, every call ends exactly once, a coded call that fails leaves
 * its residuals as they were, no payload is read beyond its length, and all memory is freed.
 *
 * Labels: control negotiate */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "conformance/programs.c"
#include "control/control_internal.h"
#include "fuzz/coded_fuzz.h"

enum {
    RANKS = 3,
    CALLS_MAX = 96,
    FRAMES_MAX = 512, /* in flight */
    EVENTS_MAX = 1024,
    ELEMENTS = 64,
    EPOCH = 7,
};

typedef struct live_frame {
    uint32_t from, to;
    tt_head head;
    uint8_t *payload;
} live_frame;

typedef struct live_call {
    tt_request request;
    tt_control *control;
    int finish_count;
    coded_fuzz_call coded;
    uint64_t counts[2 * RANKS];
    uint64_t input[ELEMENTS * RANKS], output[ELEMENTS * RANKS];
} live_call;

typedef struct live_rank {
    tt_platform platform; /* first */
    struct live_world *world;
    uint32_t rank;
    tt_control *control;
    tt_machine machine;
    coded_fuzz coded;
} live_rank;

typedef struct live_world {
    live_rank ranks[RANKS];
    uint64_t now_ns;
    live_frame frames[FRAMES_MAX]; /* of each link in the order of sending */
    uint32_t frame_count;
    live_call *calls[CALLS_MAX];
    uint32_t call_count;
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

static uint64_t driver_now(tt_platform *platform)
{
    return ((live_rank *)platform)->world->now_ns;
}

static uint64_t driver_random(tt_platform *platform)
{
    return ((live_rank *)platform)->world->now_ns * UINT64_C(0x9e3779b97f4a7c15);
}

static void *driver_allocate(tt_platform *platform, tt_memory_kind kind, size_t bytes)
{
    (void)platform;
    return kind == TT_MEMORY_PRIVATE && bytes < (1 << 24) ? calloc(1, bytes) : NULL;
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

static tt_status driver_send(tt_platform *platform, const tt_send *send)
{
    live_rank *self = (live_rank *)platform;
    live_world *world = self->world;
    if (send->peer == TT_PEER_HOST) {
        return TT_ERR_UNSUPPORTED;
    }
    TT_ASSERT(send->peer < RANKS && send->peer != self->rank);
    if (world->frame_count == FRAMES_MAX) {
        return TT_OK; /* lost */
    }
    live_frame *frame = &world->frames[world->frame_count++];
    *frame = (live_frame){.from = self->rank, .to = send->peer, .head = *send->head};
    if (send->head->payload_bytes > 0) {
        frame->payload = malloc(send->head->payload_bytes);
        TT_ASSERT(frame->payload != NULL);
        memcpy(frame->payload, send->payload, send->head->payload_bytes);
    }
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

static void *driver_view(tt_platform *platform, uint32_t peer, tt_place place, size_t bytes)
{
    (void)platform;
    (void)peer;
    (void)place;
    (void)bytes;
    return NULL;
}

static bool driver_locate(tt_platform *platform, const void *memory, size_t bytes,
                          tt_place *place_out)
{
    (void)platform;
    (void)memory;
    (void)bytes;
    (void)place_out;
    return false;
}

static void driver_spend(tt_platform *platform, tt_spend_kind kind, size_t bytes, uint32_t times)
{
    (void)platform;
    (void)kind;
    (void)bytes;
    (void)times;
}

static const tt_platform_ops driver_ops = {
    .now = driver_now,
    .random = driver_random,
    .allocate = driver_allocate,
    .release = driver_release,
    .timer = driver_timer,
    .send = driver_send,
    .recall = driver_recall,
    .discard = driver_discard,
    .view = driver_view,
    .locate = driver_locate,
    .spend = driver_spend,
};

/* ---- calls ---- */

static void finished(tt_request *request)
{
    live_call *call = request->owner;
    TT_ASSERT(++call->finish_count == 1);
    coded_fuzz_end(&call->coded, request);
}

static void submit(live_world *world, live_rank *self)
{
    static const char *const names[] = {"a", "b", "c", "d", NULL, "a", "b", "c"};
    static const uint64_t counts[] = {4, 4, 4, 9, 0, 4, 4, ELEMENTS};
    const uint64_t choice = take(world, 2);
    if (world->call_count == CALLS_MAX) {
        return;
    }
    live_call *call = calloc(1, sizeof(*call));
    TT_ASSERT(call != NULL);
    world->calls[world->call_count++] = call;
    call->control = self->control;
    call->request = (tt_request){
        .collective =
            (choice & 7) < 5 ? TT_ALLREDUCE : (tt_collective)((choice & 7) % TT_COLLECTIVE_COUNT),
        .dtype = (choice >> 13 & 7) == 7 ? TT_I64 : TT_F32,
        .name = names[choice >> 3 & 7],
        .count = counts[choice >> 6 & 7],
        .is_join = (choice >> 9 & 31) == 31,
        .input = call->input,
        .output = call->output,
        .output_capacity = ELEMENTS * RANKS,
        .input_counts = call->counts,
        .output_counts = call->counts + RANKS,
        .prescale = 1.0,
        .postscale = 1.0,
        .finished = finished,
        .owner = call,
    };
    if ((choice >> 9 & 7) == 3 && call->request.name != NULL) {
        call->request.group = "g";
        call->request.group_size = 2;
    }
    for (size_t i = 0; i < RANKS; i++) {
        call->counts[i] = call->request.count / RANKS;
    }
    tt_control_submit(self->control, &call->request);
}

/* All ranks make one call; the last may make a different one. */
static void submit_program(live_world *world)
{
    static const tt_program *const programs[] = {&program_max_sum, &program_two_sums,
                                                 &program_max_often};
    static const uint64_t counts[] = {0, 4, 4, ELEMENTS};
    const uint64_t choice = take(world, 1);
    for (uint32_t i = 0; i < RANKS && world->call_count < CALLS_MAX; i++) {
        live_call *call = calloc(1, sizeof(*call));
        TT_ASSERT(call != NULL);
        world->calls[world->call_count++] = call;
        call->control = world->ranks[i].control;
        const uint64_t number = (choice & 3) + (i == 2 ? choice >> 4 & 1 : 0);
        call->request = (tt_request){
            .collective = TT_ALLREDUCE,
            .dtype = TT_F32,
            .count = counts[choice >> 2 & 3],
            .program = programs[number % TT_ARRAY_COUNT(programs)],
            .input = call->input,
            .output = call->output,
            .prescale = 1.0,
            .postscale = 1.0,
            .finished = finished,
            .owner = call,
        };
        tt_control_submit(call->control, &call->request);
    }
}

/* All ranks make one coded call, with a name or declared; the last may make a different one. */
static void submit_coded(live_world *world)
{
    static const char *const names[] = {"p", "q", "r", NULL};
    const uint32_t choice = (uint32_t)take(world, 2);
    for (uint32_t i = 0; i < RANKS && world->call_count < CALLS_MAX; i++) {
        live_rank *self = &world->ranks[i];
        live_call *call = calloc(1, sizeof(*call));
        TT_ASSERT(call != NULL);
        call->control = self->control;
        call->request = (tt_request){
            .collective = TT_ALLREDUCE,
            .dtype = TT_F32,
            .name = names[choice >> 12 & 3],
            .input = call->input,
            .output = call->output,
            .prescale = 1.0,
            .postscale = 1.0,
            .finished = finished,
            .owner = call,
        };
        memset(call->input, (int)(choice >> 6 & 0x3f), sizeof(call->input));
        const uint32_t own = choice ^ (i == 2 ? choice >> 14 & 1 : 0);
        if (coded_fuzz_begin(&self->coded, self->control, own, &call->coded, &call->request)) {
            world->calls[world->call_count++] = call;
            tt_control_submit(call->control, &call->request);
        } else {
            free(call);
        }
    }
}

/* ---- frames ---- */

static void hand_over(live_world *world, const live_frame *frame)
{
    const tt_machine *machine = &world->ranks[frame->to].machine;
    const bool is_inline = frame->head.payload_bytes <= TT_INLINE_BYTES_MAX;
    void *sink = machine->ops->frame(machine->self, frame->from, &frame->head,
                                     is_inline ? frame->payload : NULL);
    if (!is_inline && sink != NULL) {
        memcpy(sink, frame->payload, frame->head.payload_bytes);
        machine->ops->payload(machine->self, frame->from, &frame->head);
    }
}

/* The oldest frame of the link of the `number`th. */
static uint32_t first_of_link(const live_world *world, uint32_t number)
{
    const live_frame *like = &world->frames[number];
    uint32_t at = 0;
    while (world->frames[at].from != like->from || world->frames[at].to != like->to) {
        at++;
    }
    return at;
}

static live_frame remove_frame(live_world *world, uint32_t at)
{
    const live_frame frame = world->frames[at];
    world->frame_count--;
    memmove(&world->frames[at], &world->frames[at + 1],
            (world->frame_count - at) * sizeof(world->frames[0]));
    return frame;
}

static void deliver(live_world *world, uint32_t number)
{
    live_frame frame = remove_frame(world, first_of_link(world, number));
    hand_over(world, &frame);
    free(frame.payload);
}

/* A copy of the frame, exactly as long as its head says, with one change. */
static void forge(live_world *world, uint32_t number)
{
    const live_frame *real = &world->frames[number];
    const uint64_t choice = take(world, 1), value = take(world, 2);
    live_frame frame = *real;
    frame.payload = NULL;
    uint8_t *head = (uint8_t *)&frame.head;
    const uint32_t bytes = real->head.payload_bytes;
    if (choice % 4 == 0) {
        head[value % sizeof(tt_head)] ^= (uint8_t)(1 << (choice >> 2 & 7));
    } else if (choice % 4 == 1 && choice >> 2 < 8) {
        frame.head.kind = (uint8_t)(value % 32);
        frame.head.argument = value >> 5;
    } else if (choice % 4 == 1 && choice >> 2 == 8) {
        frame.head.stage = (uint16_t)value;
    }
    frame.head.payload_bytes =
        choice % 4 == 2 && bytes > 0 ? (uint32_t)(value % bytes) : bytes; /* cut short */
    if (frame.head.payload_bytes > 0) {
        frame.payload = malloc(frame.head.payload_bytes);
        TT_ASSERT(frame.payload != NULL);
        memcpy(frame.payload, real->payload, frame.head.payload_bytes);
        if (choice % 4 == 3) {
            frame.payload[value % frame.head.payload_bytes] ^= (uint8_t)(1 + (choice >> 2));
        }
    }
    if ((choice & 128) != 0) {
        free(remove_frame(world, number).payload);
    }
    hand_over(world, &frame);
    free(frame.payload);
}

/* ---- events ---- */

static void turn(live_world *world)
{
    for (uint32_t i = 0; i < RANKS; i++) {
        const tt_machine *machine = &world->ranks[i].machine;
        for (int k = 0; k < 64 && machine->ops->step(machine->self); k++) {
        }
    }
}

static void pass_time(live_world *world, uint64_t choice)
{
    world->now_ns += UINT64_C(1) << (choice % 36);
    for (uint32_t i = 0; i < RANKS; i++) {
        world->ranks[i].machine.ops->timer(world->ranks[i].machine.self);
    }
}

static void play(live_world *world)
{
    for (int event = 0; event < EVENTS_MAX && world->left > 0; event++) {
        const uint64_t choice = take(world, 1);
        const uint64_t what = choice % 16;
        world->now_ns += 1000;
        if (what < 5) {
            submit(world, &world->ranks[choice / 16 % RANKS]);
        } else if (what == 5 && world->call_count > 0) {
            live_call *call = world->calls[choice / 16 % world->call_count];
            if (call->finish_count == 0) {
                (void)tt_control_cancel(call->control, &call->request);
            }
        } else if (what == 6) {
            pass_time(world, choice / 16 + 20);
        } else if (choice == 239) {
            submit_program(world);
        } else if (choice == 223 || choice == 207) {
            submit_coded(world);
        } else if (choice == 255) {
            const tt_machine *machine = &world->ranks[take(world, 1) % RANKS].machine;
            const live_rank *other = &world->ranks[take(world, 1) % RANKS];
            if (machine->self != other->machine.self) {
                machine->ops->peer(machine->self, other->rank, TT_PEER_LEFT, "fuzzed");
            }
        } else if (what < 10 && world->frame_count > 0) {
            forge(world, (uint32_t)(take(world, 1) % world->frame_count));
        } else if (what < 13 && world->frame_count > 0) {
            deliver(world, (uint32_t)(take(world, 1) % world->frame_count));
        } else {
            for (int i = 0; i < 64 && world->frame_count > 0; i++) {
                deliver(world, 0);
                turn(world);
            }
        }
        turn(world);
    }
}

static bool begin(live_world *world, uint64_t choice)
{
    static const uint32_t hosts[2][RANKS] = {{0, 0, 0}, {0, 1, 2}};
    tt_control_config config;
    tt_control_config_init(&config);
    config.segment_bytes = 256;
    config.eager_bytes_max = 128;
    config.deadline_ns = UINT64_C(3600000000000);
    config.late_ns = 1000 * 1000;
    config.negotiate.mode = (tt_negotiate_mode)((choice >> 1 & 7) % 5);
    config.negotiate.capacity = (choice >> 4 & 1) != 0 ? 2 : 1024;
    config.negotiate.steps_to_plan = 1;
    for (uint32_t i = 0; i < RANKS; i++) {
        live_rank *self = &world->ranks[i];
        const tt_world place = {
            .rank = i, .size = RANKS, .epoch = EPOCH, .host_of = hosts[choice & 1]};
        const tt_control_listener listener = {.owner = NULL};
        self->platform.ops = &driver_ops;
        self->world = world;
        self->rank = i;
        if (tt_control_create(&self->platform, &place, &config, &listener, &self->control) !=
            TT_OK) {
            return false;
        }
        self->machine = tt_control_machine(self->control);
        coded_fuzz_init(&self->coded);
    }
    return true;
}

static void end(live_world *world)
{
    for (uint32_t i = 0; i < RANKS; i++) {
        tt_control *control = world->ranks[i].control;
        if (control != NULL) {
            tt_control_shut_down(control, TT_ERR_SHUT_DOWN, "over");
            tt_control_shut_down(control, TT_ERR_SHUT_DOWN, "over");
            TT_ASSERT(tt_control_pending(control) == 0);
        }
    }
    for (uint32_t i = 0; i < world->call_count; i++) {
        TT_ASSERT(world->calls[i]->finish_count == 1);
        free(world->calls[i]);
    }
    for (uint32_t i = 0; i < RANKS; i++) {
        if (world->ranks[i].control != NULL) {
            tt_control_destroy(world->ranks[i].control);
        }
    }
    for (uint32_t i = 0; i < world->frame_count; i++) {
        free(world->frames[i].payload);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t byte_count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t byte_count)
{
    live_world *world = calloc(1, sizeof(*world));
    TT_ASSERT(world != NULL);
    world->now_ns = 1;
    world->bytes = bytes;
    world->left = byte_count;
    if (begin(world, take(world, 1))) {
        play(world);
    }
    end(world);
    free(world);
    return 0;
}
