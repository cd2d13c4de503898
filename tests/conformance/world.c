/* SPDX-License-Identifier: Apache-2.0
 *
 * world.c - see world.h. */
#include "conformance/world.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "kernel/hash64.h"
#include "platform/shuffle.h"
#include "platform/sim.h"

/* A request to be submitted; kept as long as the world. */
typedef struct submission {
    struct submission *next;
    test_world *world;
    uint32_t rank;
    tt_request *request;
} submission;

struct test_world {
    submission *submissions;
    world_config config;
    tt_shuffle *shuffle;
    tt_sim *sim;
    tt_control *controls[CASE_SIZE_MAX];
    uint32_t submits_open;
};

static tt_platform *platform_of(test_world *world, uint32_t rank)
{
    return world->sim != NULL ? tt_sim_platform(world->sim, rank)
                              : tt_shuffle_platform(world->shuffle, rank);
}

static void driver_create(test_world *world)
{
    const world_config *config = &world->config;
    if (config->driver == WORLD_SHUFFLE) {
        const tt_shuffle_config shuffle = {.size = config->size,
                                           .seed = config->seed,
                                           .is_borrowing = config->seed % 3 != 0,
                                           .is_ordered = config->seed % 5 == 0,
                                           .fail_at = config->fail_at,
                                           .fails_forever = config->fails_forever,
                                           .has_engine = config->has_engine,
                                           .strays_at = config->strays_at,
                                           .hands = (uint32_t)(config->seed % 4)};
        world->shuffle = tt_shuffle_create(&shuffle);
        return;
    }
    tt_sim_config sim;
    uint32_t host_of[CASE_SIZE_MAX];
    tt_sim_config_init(&sim);
    for (uint32_t i = 0; i < config->size; i++) {
        host_of[i] = i % (config->host_count > 0 ? config->host_count : 1);
    }
    sim.size = config->size;
    sim.seed = config->seed;
    sim.host_of = host_of;
    sim.has_views = true;
    sim.fail_at = config->fail_at;
    sim.noise.spike = sim.noise.reorder = 100;
    world->sim = tt_sim_create(&sim);
}

static tt_status control_create(test_world *world, uint32_t rank)
{
    const world_config *config = &world->config;
    uint32_t host_of[CASE_SIZE_MAX] = {0};
    for (uint32_t i = 0; world->sim != NULL && i < config->size; i++) {
        host_of[i] = i % (config->host_count > 0 ? config->host_count : 1);
    }
    const tt_world job = {
        .rank = rank, .size = config->size, .epoch = 1, .host_of = host_of, .has_views = true};
    tt_control_config control;
    tt_control_config_init(&control);
    control.segment_bytes = config->segment_bytes;
    control.eager_bytes_max = config->eager_bytes_max;
    control.algorithm = config->algorithm;
    control.negotiate.mode = config->negotiate_mode;
    control.credit_bytes = config->credit_bytes;
    control.is_paced = config->credit_bytes > 0;
    return tt_control_create(platform_of(world, rank), &job, &control, &(tt_control_listener){0},
                             &world->controls[rank]);
}

test_world *world_create(const world_config *config)
{
    test_world *made = calloc(1, sizeof(*made));
    TT_ASSERT(made != NULL);
    made->config = *config;
    driver_create(made);
    for (uint32_t rank = 0; rank < config->size; rank++) {
        if (control_create(made, rank) != TT_OK) {
            (void)world_destroy(made);
            return NULL;
        }
        const tt_machine machine = tt_control_machine(made->controls[rank]);
        if (made->sim != NULL) {
            tt_sim_attach(made->sim, rank, machine);
        } else {
            tt_shuffle_attach(made->shuffle, rank, machine);
        }
    }
    return made;
}

bool world_destroy(test_world *world)
{
    for (uint32_t rank = 0; rank < world->config.size; rank++) {
        if (world->controls[rank] != NULL) {
            tt_control_destroy(world->controls[rank]);
        }
    }
    const bool is_clean =
        world->sim != NULL ? tt_sim_destroy(world->sim) : tt_shuffle_destroy(world->shuffle);
    while (world->submissions != NULL) {
        submission *next = world->submissions->next;
        free(world->submissions);
        world->submissions = next;
    }
    free(world);
    return is_clean;
}

tt_control *world_control(test_world *world, uint32_t rank)
{
    return world->controls[rank];
}

uint64_t world_allocations(const test_world *world)
{
    return world->sim != NULL ? tt_sim_allocations(world->sim)
                              : tt_shuffle_allocations(world->shuffle);
}

void *world_take(test_world *world, uint32_t rank, size_t bytes)
{
    if (!world->config.is_shared) {
        void *memory = calloc(1, bytes > 0 ? bytes : 1);
        TT_ASSERT(memory != NULL);
        return memory;
    }
    tt_platform *platform = platform_of(world, rank);
    void *memory = platform->ops->allocate(platform, TT_MEMORY_SHARED, bytes);
    TT_ASSERT(memory != NULL);
    return memory;
}

void world_give(test_world *world, uint32_t rank, void *memory, size_t bytes)
{
    if (!world->config.is_shared) {
        free(memory);
        return;
    }
    tt_platform *platform = platform_of(world, rank);
    platform->ops->release(platform, TT_MEMORY_SHARED, memory, bytes);
}

static void do_submit(void *argument)
{
    const submission *what = argument;
    what->world->submits_open--;
    tt_control_submit(what->world->controls[what->rank], what->request);
}

void world_submit(test_world *world, uint32_t rank, tt_request *request)
{
    submission *what = malloc(sizeof(*what));
    TT_ASSERT(what != NULL);
    *what =
        (submission){.next = world->submissions, .world = world, .rank = rank, .request = request};
    world->submissions = what;
    world->submits_open++;
    if (world->sim != NULL) {
        tt_sim_call(world->sim, rank, tt_sim_now(world->sim), do_submit, what);
    } else {
        do_submit(what);
        for (uint64_t i = world->config.seed % 4; i > 0; i--) {
            (void)tt_shuffle_step_frames(world->shuffle);
        }
    }
}

static bool is_pending(const test_world *world)
{
    uint32_t pending = world->submits_open;
    for (uint32_t rank = 0; rank < world->config.size; rank++) {
        pending += tt_control_pending(world->controls[rank]);
    }
    return pending > 0;
}

bool world_step(test_world *world)
{
    return world->sim != NULL ? tt_sim_step(world->sim) : tt_shuffle_step(world->shuffle);
}

static void tell_down(test_world *world, uint32_t rank, uint32_t peer)
{
    const tt_machine machine = tt_control_machine(world->controls[rank]);
    machine.ops->peer(machine.self, peer, TT_PEER_DOWN, "its link broke");
}

void world_lose(test_world *world, uint32_t rank)
{
    for (uint32_t i = 0; i < world->config.size; i++) {
        if (i != rank) {
            tell_down(world, i, rank);
            tell_down(world, rank, i);
        }
    }
}

void world_kill(test_world *world, uint32_t rank)
{
    tt_sim_kill(world->sim, rank);
}

void world_stop(test_world *world, uint32_t rank, uint64_t duration_ns)
{
    tt_sim_stop(world->sim, rank, tt_sim_now(world->sim) + duration_ns);
}

bool world_run(test_world *world)
{
    const uint64_t steps_max = 20 * 1000 * 1000;
    for (uint64_t step = 0; step < steps_max; step++) {
        if (step % 16 == 0 && !is_pending(world)) {
            return true;
        }
        if (!world_step(world)) {
            return !is_pending(world);
        }
    }
    return false;
}

uint64_t world_now(const test_world *world)
{
    return world->sim != NULL ? tt_sim_now(world->sim) : 0;
}

/* ---- one case ---- */

enum { REQUESTS_MAX = 2 * CASE_SIZE_MAX, GUARD_BYTES = 64, GUARD = 0x5c };

typedef struct case_buffer {
    uint8_t *memory;
    size_t bytes;
} case_buffer;

struct case_run {
    test_world *world;
    collective_case one;
    uint32_t ranks[CASE_SIZE_MAX];
    case_buffer inputs[CASE_SIZE_MAX], outputs[CASE_SIZE_MAX];
    void *output_at[CASE_SIZE_MAX];
    uint64_t counts[CASE_SIZE_MAX][CASE_SIZE_MAX];
    uint64_t got_counts[CASE_SIZE_MAX][CASE_SIZE_MAX];
    tt_request requests[REQUESTS_MAX];
    uint32_t request_count;
    uint32_t finished_count;
};

static void on_finished(tt_request *request)
{
    case_run *run = request->owner;
    run->finished_count++;
}

static size_t bytes_of(const collective_case *one, uint64_t count)
{
    return count * tt_dtype_bytes(one->dtype);
}

/* Input and output side by side in one region, so that both are located; or the same memory. */
static void make_buffers(case_run *run, uint32_t member)
{
    const collective_case *one = &run->one;
    const size_t in = bytes_of(one, case_input_count(one, member));
    const size_t out = bytes_of(one, case_output_count(one, member));
    case_buffer *buffer = &run->outputs[member];
    buffer->bytes = tt_round_up(in, 64) + out + GUARD_BYTES;
    buffer->memory = world_take(run->world, run->ranks[member], buffer->bytes);
    memset(buffer->memory, GUARD, buffer->bytes);
    uint8_t *output = buffer->memory + tt_round_up(in, 64);
    uint8_t *input = buffer->memory;
    run->output_at[member] = output;
    if (one->is_in_place && out >= in) {
        const bool is_gather = one->collective == TT_ALLGATHER || one->collective == TT_GATHER;
        input = output + (is_gather ? bytes_of(one, case_own_offset(one, member)) : 0);
    }
    case_fill_input(one, member, input);
    run->inputs[member].memory = input;
}

static void add_request(case_run *run, uint32_t member, uint32_t set, tt_collective collective)
{
    const collective_case *one = &run->one;
    tt_request *request = &run->requests[run->request_count++];
    const bool is_pair = collective == TT_SEND || collective == TT_RECEIVE;
    const uint32_t peer =
        collective == TT_SEND ? (member + 1) % one->size : (member + one->size - 1) % one->size;
    for (uint32_t to = 0; to < one->size; to++) {
        run->counts[member][to] = case_part(one, member, to);
    }
    *request = (tt_request){
        .collective = collective,
        .dtype = one->dtype,
        .redop = one->redop,
        .set = set,
        .root = is_pair ? peer : one->root,
        .urgency = (int32_t)(one->count % 3),
        .input = run->inputs[member].memory,
        .output = run->output_at[member],
        .count = one->is_uneven && (one->collective == TT_ALLGATHER || one->collective == TT_GATHER)
                     ? case_input_count(one, member)
                     : (one->is_uneven ? 0 : one->count),
        .output_capacity = one->is_uneven ? case_output_count(one, member) : 0,
        .input_counts = one->is_uneven ? run->counts[member] : NULL,
        .output_counts = one->is_uneven ? run->got_counts[member] : NULL,
        .is_uneven = one->is_uneven,
        .prescale = one->prescale,
        .postscale = one->postscale,
        .program = one->program,
        .finished = on_finished,
        .owner = run,
        .status = TT_IN_PROGRESS,
    };
    world_submit(run->world, run->ranks[member], request);
}

case_run *case_start(test_world *world, const collective_case *one, uint32_t set,
                     const uint32_t *ranks)
{
    case_run *run = calloc(1, sizeof(*run));
    TT_ASSERT(run != NULL);
    run->world = world;
    run->one = *one;
    memcpy(run->ranks, ranks, one->size * sizeof(*ranks));
    for (uint32_t member = 0; member < one->size; member++) {
        make_buffers(run, member);
    }
    for (uint32_t i = 0; i < one->size; i++) {
        const uint32_t member = (uint32_t)((i + one->count) % one->size);
        add_request(run, member, set, one->collective);
        if (one->collective == TT_SEND) {
            add_request(run, member, set, TT_RECEIVE);
        }
    }
    return run;
}

tt_status case_status(const case_run *run)
{
    tt_status worst = TT_OK;
    for (uint32_t i = 0; i < run->request_count; i++) {
        worst = run->requests[i].status < worst ? run->requests[i].status : worst;
    }
    return worst;
}

const tt_request *case_request(const case_run *run, uint32_t member)
{
    for (uint32_t i = 0; i < run->request_count; i++) {
        const uint32_t rank = (uint32_t)((i + run->one.count) % run->one.size);
        if (rank == member) {
            return &run->requests[i];
        }
    }
    TT_ASSERT(false);
    return NULL;
}

static const char *check_member(case_run *run, uint32_t member, uint64_t *hash_io)
{
    const collective_case *one = &run->one;
    const size_t out = bytes_of(one, case_output_count(one, member));
    uint8_t *expected = calloc(1, out > 0 ? out : 1);
    TT_ASSERT(expected != NULL);
    case_fill_expected(one, member, expected);
    const char *error = NULL;
    if (out > 0 && memcmp(expected, run->output_at[member], out) != 0) {
        error = "wrong result";
    }
    for (size_t i = 0; i < GUARD_BYTES; i++) {
        if (((uint8_t *)run->output_at[member])[out + i] != GUARD) {
            error = "written beyond the output";
        }
    }
    *hash_io = tt_hash64(run->output_at[member], out, *hash_io);
    free(expected);
    return error;
}

const char *case_finish(case_run *run, uint64_t *hash_io)
{
    const char *error = NULL;
    if (run->finished_count != run->request_count) {
        error = "a request did not end exactly once";
    } else if (case_status(run) != TT_OK) {
        for (uint32_t i = 0; i < run->request_count && error == NULL; i++) {
            error =
                run->requests[i].status != TT_OK ? tt_status_text(run->requests[i].status) : NULL;
        }
    }
    for (uint32_t member = 0; member < run->one.size; member++) {
        if (error == NULL) {
            error = check_member(run, member, hash_io);
        }
        world_give(run->world, run->ranks[member], run->outputs[member].memory,
                   run->outputs[member].bytes);
    }
    free(run);
    return error;
}
