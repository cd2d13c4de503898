/* SPDX-License-Identifier: Apache-2.0
 *
 * control_frames_fuzz.c - a rank's machine against peers that send anything.
 *
 * The input is a list of events: calls of this rank, some of them of several stages or coded, and
 * frames of two peers whose heads are any bytes (half of the time with fields that nearly fit, so
 * that the search gets deep; some are the heads of frames that this rank has sent). The driver
 * keeps the rules of platform.h; the peers keep none. Whatever arrives, every call must end exactly
 * once, a call that fails must leave its residuals as they were, and all memory must be freed.
 *
 * Labels: control aggregate */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "conformance/programs.c"
#include "control/control_internal.h"
#include "fuzz/coded_fuzz.h"

enum { RANKS = 3, REQUESTS_MAX = 64, BUFFER_BYTES = 8192, EVENTS_MAX = 512, SENT_MAX = 8 };

typedef struct fuzz_driver {
    tt_platform platform; /* first */
    uint64_t now_ns;
    uint64_t last_descriptor; /* of a frame the machine sent, so that peers can forge it */
    tt_head sent[SENT_MAX];   /* of the last frames of data */
    uint32_t sent_count;
    coded_fuzz coded;
    uint8_t *arena;
    size_t arena_used;
} fuzz_driver;

typedef struct fuzz_input {
    const uint8_t *bytes;
    size_t left;
} fuzz_input;

static uint64_t take(fuzz_input *input, size_t count)
{
    uint64_t value = 0;
    for (size_t i = 0; i < count && input->left > 0; i++, input->left--) {
        value |= (uint64_t)*input->bytes++ << (8 * i);
    }
    return value;
}

/* ---- the driver ---- */

static uint64_t driver_now(tt_platform *platform)
{
    return ((fuzz_driver *)platform)->now_ns;
}

static uint64_t driver_random(tt_platform *platform)
{
    return ((fuzz_driver *)platform)->now_ns * UINT64_C(0x9e3779b97f4a7c15);
}

enum { ARENA_BYTES = 64 * 1024 };

static void *driver_allocate(tt_platform *platform, tt_memory_kind kind, size_t bytes)
{
    fuzz_driver *driver = (fuzz_driver *)platform;
    if (kind == TT_MEMORY_PRIVATE) {
        return bytes < (1 << 24) ? calloc(1, bytes) : NULL;
    }
    if (bytes > ARENA_BYTES - driver->arena_used) {
        return NULL;
    }
    void *memory = driver->arena + driver->arena_used;
    driver->arena_used += tt_round_up(bytes, 64);
    return memory;
}

static void driver_release(tt_platform *platform, tt_memory_kind kind, void *memory, size_t bytes)
{
    (void)platform;
    (void)bytes;
    if (kind == TT_MEMORY_PRIVATE) {
        free(memory);
    }
}

static void driver_timer(tt_platform *platform, uint64_t at_ns)
{
    (void)platform;
    (void)at_ns;
}

static tt_status driver_send(tt_platform *platform, const tt_send *send)
{
    fuzz_driver *driver = (fuzz_driver *)platform;
    if (send->peer == TT_PEER_HOST) {
        return TT_ERR_UNSUPPORTED;
    }
    TT_ASSERT(send->peer < RANKS);
    if (send->head->descriptor != 0) {
        driver->last_descriptor = send->head->descriptor;
    }
    if (send->head->kind == TT_FRAME_DATA) {
        driver->sent[driver->sent_count++ % SENT_MAX] = *send->head;
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
    fuzz_driver *driver = (fuzz_driver *)platform;
    (void)peer;
    if (place.offset > ARENA_BYTES || bytes > ARENA_BYTES - place.offset) {
        return NULL;
    }
    return driver->arena + place.offset;
}

static bool driver_locate(tt_platform *platform, const void *memory, size_t bytes,
                          tt_place *place_out)
{
    const fuzz_driver *driver = (fuzz_driver *)platform;
    const uintptr_t first = (uintptr_t)driver->arena, at = (uintptr_t)memory;
    if (at < first || at - first > ARENA_BYTES || bytes > ARENA_BYTES - (at - first)) {
        return false;
    }
    *place_out = (tt_place){.offset = at - first};
    return true;
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

/* ---- the calls of this rank ---- */

typedef struct fuzz_call {
    tt_request request;
    int finish_count;
    coded_fuzz_call coded;
    uint64_t counts[2 * RANKS];
    uint8_t input[BUFFER_BYTES], output[BUFFER_BYTES];
} fuzz_call;

static void finished(tt_request *request)
{
    fuzz_call *call = request->owner;
    call->finish_count++;
    TT_ASSERT(call->finish_count == 1);
    coded_fuzz_end(&call->coded, request);
}

/* A call that keeps residuals is declared; there is one of each at a time. */
static fuzz_call *submit_coded(tt_control *control, fuzz_driver *driver, fuzz_input *input)
{
    const uint64_t choice = take(input, 2);
    fuzz_call *call = calloc(1, sizeof(*call));
    TT_ASSERT(call != NULL);
    call->request = (tt_request){
        .collective = (choice >> 14 & 3) == 3 ? TT_REDUCESCATTER : TT_ALLREDUCE,
        .dtype = TT_F32,
        .redop = (choice >> 13 & 1) != 0 ? TT_AVERAGE : TT_SUM,
        .input = call->input,
        .output = call->output,
        .prescale = 1.0,
        .postscale = 1.0,
        .finished = finished,
        .owner = call,
    };
    memset(call->input, (int)(choice >> 5 & 0x3f), sizeof(call->input));
    if (!coded_fuzz_begin(&driver->coded, control, (uint32_t)choice, &call->coded,
                          &call->request)) {
        free(call);
        return NULL;
    }
    tt_control_submit(control, &call->request);
    return call;
}

static fuzz_call *submit_program(tt_control *control, fuzz_input *input)
{
    static const tt_program *const programs[] = {&program_max_sum, &program_two_sums,
                                                 &program_max_often};
    fuzz_call *call = calloc(1, sizeof(*call));
    TT_ASSERT(call != NULL);
    const uint64_t choice = take(input, 2);
    call->request = (tt_request){
        .collective = TT_ALLREDUCE,
        .dtype = TT_F32,
        .redop = TT_SUM,
        .input = call->input,
        .output = (choice >> 2 & 1) != 0 ? call->input : call->output,
        .count = (choice >> 3) % 300,
        .program = programs[(choice & 3) % TT_ARRAY_COUNT(programs)],
        .prescale = 1.0,
        .postscale = 1.0,
        .finished = finished,
        .owner = call,
    };
    tt_control_submit(control, &call->request);
    return call;
}

static fuzz_call *submit(tt_control *control, fuzz_input *input)
{
    fuzz_call *call = calloc(1, sizeof(*call));
    TT_ASSERT(call != NULL);
    const uint64_t choice = take(input, 4);
    call->request = (tt_request){
        .collective = (tt_collective)(choice % TT_COLLECTIVE_COUNT),
        .dtype = (tt_dtype)((choice >> 4) % TT_DTYPE_COUNT),
        .redop = (tt_redop)((choice >> 8) % TT_REDOP_COUNT),
        .root = (uint32_t)((choice >> 12) % RANKS),
        .input = call->input,
        .output = call->output,
        .count = (choice >> 16) % 300,
        .output_capacity = BUFFER_BYTES / 8,
        .input_counts = call->counts,
        .output_counts = call->counts + RANKS,
        .is_uneven = (choice >> 14 & 3) == 0,
        .prescale = 1.0,
        .postscale = 1.0,
        .finished = finished,
        .owner = call,
    };
    if (call->request.collective == TT_RECEIVE && (choice >> 28 & 1) != 0) {
        call->request.root = TT_ANY_SOURCE;
    }
    const bool is_pair =
        call->request.collective == TT_SEND || call->request.collective == TT_RECEIVE;
    call->request.tag = is_pair ? (uint32_t)(choice >> 29 & 1) : 0;
    for (size_t i = 0; i < RANKS; i++) {
        call->counts[i] = take(input, 1) % 64;
    }
    tt_control_submit(control, &call->request);
    return call;
}

/* ---- frames of the peers ---- */

enum { EPOCH = 7 };

/* `has_stage`: any stage, else one of the first two. */
static void deliver(const tt_machine *machine, const fuzz_driver *driver, fuzz_input *input,
                    bool has_stage)
{
    const uint16_t stage = has_stage ? (uint16_t)take(input, 2) : 0;
    static const uint8_t kinds[] = {1, 1, 1, 2, 3, 4, 16, 17, 18, 19, 20, 21, 22, 23, 24, 99};
    const uint64_t shape = take(input, 2);
    uint8_t payload[TT_INLINE_BYTES_MAX];
    tt_head head = {.kind = kinds[shape & 15],
                    .flags = (uint8_t)(shape >> 4 & 7),
                    .stage = has_stage ? stage : (uint16_t)(shape >> 7 & 1),
                    .set = (uint32_t)(shape >> 8 & 1),
                    .op = take(input, 1) % 80,
                    .lane = (uint32_t)(take(input, 1) % 12),
                    .round = (uint32_t)(take(input, 1) % 8),
                    .descriptor = driver->last_descriptor,
                    .payload_bytes = (uint32_t)(take(input, 2) % 3000),
                    .epoch = EPOCH,
                    .argument = take(input, 2)};
    if ((shape >> 11 & 1) != 0) {
        head.kind = head.kind == 99 ? TT_FRAME_ASK : head.kind;
        head.op |= (shape >> 12 & 1) << 40; /* of a tag */
    }
    if ((shape >> 9 & 1) != 0) { /* anything at all */
        head.op = take(input, 8);
        head.set = (uint32_t)take(input, 4);
        head.lane = (uint32_t)take(input, 4);
        head.round = (uint32_t)take(input, 4);
        head.descriptor = take(input, 8);
        head.argument = take(input, 8);
        head.epoch = (shape >> 10 & 1) != 0 ? EPOCH : (uint32_t)take(input, 4);
        head.payload_bytes = (uint32_t)(take(input, 4) % TT_PAYLOAD_BYTES_MAX);
    }
    const uint32_t peer = 1 + (uint32_t)(shape >> 15 & 1);
    const bool is_inline = head.payload_bytes <= sizeof(payload);
    memset(payload, (int)(shape & 0xff), sizeof(payload));
    for (size_t i = 0; i < 16 && is_inline && i < head.payload_bytes; i++) {
        payload[i] = (uint8_t)take(input, 1);
    }
    void *sink = machine->ops->frame(machine->self, peer, &head, is_inline ? payload : NULL);
    if (!is_inline && sink != NULL) {
        memset(sink, 1, head.payload_bytes); /* a wrong sink is a write out of bounds */
        machine->ops->payload(machine->self, peer, &head);
    }
}

/* A peer's frame with the head of one that this rank has sent, and any payload. */
static void mirror(const tt_machine *machine, const fuzz_driver *driver, fuzz_input *input)
{
    const uint64_t choice = take(input, 2);
    if (driver->sent_count == 0) {
        return;
    }
    uint8_t payload[TT_INLINE_BYTES_MAX];
    tt_head head = driver->sent[choice % tt_min_u64(driver->sent_count, SENT_MAX)];
    head.lane += (uint32_t)(choice >> 3 & 3) == 3 ? 1 : 0;
    head.round += (uint32_t)(choice >> 5 & 3) == 3 ? 2 : 0;
    head.payload_bytes += (choice >> 7 & 7) == 7 ? 1 : 0;
    const bool is_inline = head.payload_bytes <= sizeof(payload);
    const uint32_t peer = 1 + (uint32_t)(choice >> 15 & 1);
    memset(payload, (int)(choice >> 10 & 31), sizeof(payload));
    for (size_t i = 0; i < 24 && is_inline && i < head.payload_bytes; i++) {
        payload[i] = (uint8_t)take(input, 1);
    }
    uint8_t *sink = machine->ops->frame(machine->self, peer, &head, is_inline ? payload : NULL);
    for (uint32_t i = 0; !is_inline && sink != NULL && i < head.payload_bytes; i++) {
        sink[i] = i < 24 ? (uint8_t)take(input, 1) : (uint8_t)(choice >> 8);
    }
    if (!is_inline && sink != NULL) {
        machine->ops->payload(machine->self, peer, &head);
    }
}

static void play(tt_control *control, fuzz_driver *driver, fuzz_input *input)
{
    fuzz_call *calls[REQUESTS_MAX];
    size_t call_count = 0;
    const tt_machine machine = tt_control_machine(control);
    for (int event = 0; event < EVENTS_MAX && input->left > 0; event++) {
        const uint64_t choice = take(input, 1);
        driver->now_ns += 1000 * 1000;
        if (choice % 8 < 2 && call_count < REQUESTS_MAX) {
            calls[call_count++] = submit(control, input);
        } else if (choice % 8 == 2) {
            driver->now_ns += UINT64_C(1) << (choice / 8 % 32);
            machine.ops->timer(machine.self);
        } else if (choice == 254 && call_count > 0) {
            fuzz_call *last = calls[call_count - 1];
            (void)(last->finish_count == 0 && tt_control_cancel(control, &last->request));
        } else if (choice == 255) {
            machine.ops->peer(machine.self, 1 + (uint32_t)take(input, 1) % 2,
                              (tt_peer_event)(take(input, 1) % 4), "fuzzed");
        } else if (choice == 252 && call_count < REQUESTS_MAX) {
            calls[call_count++] = submit_program(control, input);
        } else if (choice == 251 && call_count < REQUESTS_MAX) {
            fuzz_call *coded = submit_coded(control, driver, input);
            if (coded != NULL) {
                calls[call_count++] = coded;
            }
        } else if (choice % 64 == 59) {
            mirror(&machine, driver, input);
        } else {
            deliver(&machine, driver, input, choice == 253);
        }
        for (int i = 0; i < 64 && machine.ops->step(machine.self); i++) {
        }
    }
    tt_control_shut_down(control, TT_ERR_SHUT_DOWN, "over");
    tt_control_shut_down(control, TT_ERR_SHUT_DOWN, "over");
    TT_ASSERT(tt_control_pending(control) == 0);
    for (size_t i = 0; i < call_count; i++) {
        TT_ASSERT(calls[i]->finish_count == 1);
        free(calls[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t byte_count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t byte_count)
{
    static const uint32_t hosts[2][RANKS] = {{0, 0, 0}, {0, 1, 1}};
    fuzz_input input = {.bytes = bytes, .left = byte_count};
    fuzz_driver driver = {.platform = {.ops = &driver_ops}, .now_ns = 1};
    const uint64_t choice = take(&input, 1);
    const tt_world world = {.rank = 0,
                            .size = RANKS,
                            .epoch = EPOCH,
                            .host_of = hosts[choice & 1],
                            .has_views = (choice >> 1 & 1) != 0};
    tt_control_config config;
    tt_control_config_init(&config);
    config.segment_bytes = UINT32_C(64) << (choice >> 2 & 3);
    config.eager_bytes_max = UINT32_C(64) << (choice >> 4 & 3);
    config.deadline_ns = UINT64_C(3600000000000);
    const tt_control_listener listener = {.owner = NULL};
    tt_control *control;
    coded_fuzz_init(&driver.coded);
    driver.arena = calloc(1, ARENA_BYTES);
    TT_ASSERT(driver.arena != NULL);
    if (tt_control_create(&driver.platform, &world, &config, &listener, &control) == TT_OK) {
        play(control, &driver, &input);
        tt_control_destroy(control);
    }
    free(driver.arena);
    return 0;
}
