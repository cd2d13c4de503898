/* SPDX-License-Identifier: Apache-2.0
 *
 * coded.c - ranks that run coded stages; see coded.h. */
#include "conformance/coded.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/registry.h"
#include "base/assert.h"
#include "base/base.h"

typedef struct coded_rank {
    coded_job *job;
    uint32_t rank;
    tt_platform *platform;
    tt_flow flow;
    tt_exec exec;
    tt_stage stages[TT_STAGES_MAX];
    uint32_t stage_count, at; /* stages, and the one that runs */
    uint8_t *work;            /* memory of a run's own */
    tt_coding coding;
    const void *input;  /* of the run */
    void *output;       /* likewise */
    uint8_t *arena;     /* shared input, then shared output; or NULL */
    size_t arena_bytes; /* of each */
    uint64_t op;        /* of the call that began last */
    bool is_over;
    tt_status status;
    uint32_t culprit;
} coded_rank;

struct coded_job {
    tt_platform_ops threaded; /* the driver's, but for `work` */
    coded_config config;
    tt_shuffle *shuffle;
    uint32_t members[CODED_RANKS_MAX];
    coded_rank ranks[CODED_RANKS_MAX];
    coded_call call;
    tt_topology topology;
    uint32_t local_of[CODED_RANKS_MAX], host_first[CODED_RANKS_MAX + 1];
    uint32_t host_members[CODED_RANKS_MAX];
    tt_fact facts[CODED_RANKS_MAX];
    coded_buffers *buffers;
    uint64_t op; /* of the call that runs */
    coded_tamper *tamper;
    void *user;
};

/* ---- stages ---- */

static void *buffer_of(const coded_rank *self, uint8_t which, uint64_t offset)
{
    if (which == TT_RUN_WORK) {
        return self->work + offset;
    }
    return which == TT_RUN_INPUT ? (void *)(uintptr_t)self->input : self->output;
}

static void stage_begin(coded_rank *self)
{
    tt_exec *exec = &self->exec;
    const tt_stage *stage = &self->stages[self->at];
    exec->stage = stage;
    exec->input = buffer_of(self, stage->from, stage->from_offset);
    exec->output = buffer_of(self, stage->to, stage->to_offset);
    exec->identity = (tt_head){
        .kind = TT_FRAME_DATA, .op = self->op, .stage = (uint16_t)self->at, .descriptor = 1};
    exec->divisor = stage->problem.redop == TT_AVERAGE ? stage->problem.size : 1;
    const tt_status status = tt_exec_start(exec);
    TT_ASSERT(status == TT_OK);
}

/* ---- the machine ---- */

/* Begin the next stage, or note the end. */
static void settle(coded_rank *self)
{
    tt_exec *exec = &self->exec;
    const bool has_begun = self->op == self->job->op;
    while (!self->is_over && has_begun && !exec->is_running && exec->status == TT_OK &&
           self->at + 1 < self->stage_count) {
        self->at++;
        stage_begin(self);
    }
    if (self->is_over || !has_begun || (exec->is_running && exec->status == TT_OK)) {
        return;
    }
    self->is_over = true;
    self->status = exec->status;
    self->culprit = exec->culprit;
    if (exec->is_running) {
        tt_exec_stop(exec);
    }
}

static bool is_running(const coded_rank *self, const tt_head *head)
{
    return !self->is_over && self->exec.is_running && head->op == self->op &&
           head->stage == self->at;
}

/* Is it of a call or stage that has not begun here? */
static bool is_early(const coded_rank *self, const tt_head *head)
{
    return head->op > self->op ||
           (head->op == self->op && !self->is_over && head->stage > self->at);
}

static void *data_frame(coded_rank *self, uint32_t peer, const tt_head *head, const void *payload)
{
    if (is_running(self, head)) {
        return tt_exec_frame(&self->exec, peer, head, payload);
    }
    if (is_early(self, head)) { /* only eager frames come before this rank's grant */
        const tt_status status = tt_flow_park(&self->flow, peer, head, payload);
        TT_ASSERT(status == TT_OK);
    } else if ((head->flags & TT_FLAG_EAGER) != 0) {
        tt_flow_consumed(&self->flow, peer);
    }
    return NULL;
}

static void signal_frame(coded_rank *self, uint32_t peer, const tt_head *head)
{
    if (head->kind == TT_FRAME_CREDIT) {
        if (tt_flow_credit(&self->flow, peer, head->argument) && self->exec.is_running &&
            self->exec.is_blocked) {
            tt_exec_retry(&self->exec);
        }
    } else if (!is_running(self, head)) {
        const tt_status status =
            is_early(self, head) ? tt_flow_note(&self->flow, peer, head) : TT_OK;
        TT_ASSERT(status == TT_OK);
    } else if (head->kind == TT_FRAME_GRANT) {
        tt_exec_granted(&self->exec, peer, head->argument);
    } else {
        tt_exec_wanted(&self->exec, peer);
    }
}

static void *on_frame(void *machine, uint32_t peer, const tt_head *head, const void *payload)
{
    coded_rank *self = machine;
    const coded_job *job = self->job;
    void *sink = NULL;
    if (head->kind != TT_FRAME_DATA) {
        signal_frame(self, peer, head);
    } else if (job->tamper != NULL && payload != NULL) {
        tt_head changed = *head;
        uint8_t *copy = malloc(head->payload_bytes);
        TT_ASSERT(copy != NULL);
        memcpy(copy, payload, head->payload_bytes);
        job->tamper(job->user, self->rank, peer, &changed, copy);
        sink = data_frame(self, peer, &changed, copy);
        free(copy);
    } else {
        sink = data_frame(self, peer, head, payload);
    }
    settle(self);
    return sink;
}

static void on_payload(void *machine, uint32_t peer, const tt_head *head)
{
    coded_rank *self = machine;
    tt_exec *exec = self->flow.peers[peer].arriving;
    self->flow.peers[peer].arriving = NULL;
    if (exec != NULL) {
        tt_exec_payload(exec, peer, head);
        settle(self);
    }
}

static void on_sent(void *machine, uint64_t token)
{
    coded_rank *self = machine;
    if (token != TT_TOKEN_NONE && self->exec.is_running) {
        tt_exec_sent(&self->exec, (uint32_t)(token & 15));
        settle(self);
    }
}

/* The call begins. */
static void on_timer(void *machine)
{
    coded_rank *self = machine;
    const coded_buffers *buffers = &self->job->buffers[self->rank];
    tt_exec *exec = &self->exec;
    self->op = self->job->op;
    self->coding = (tt_coding){
        .draw = coded_draw(self->rank),
        .factor = self->job->call.prescale,
        .residual = buffers->residual,
        .residual_out = buffers->residual_out,
        .owner_residual = buffers->owner_residual,
        .owner_residual_out = buffers->owner_residual_out,
        .estimate = buffers->estimate,
        .estimate_out = buffers->estimate_out,
        .stamp = buffers->stamp,
    };
    exec->flow = &self->flow;
    exec->members = self->job->members;
    exec->coding = &self->coding;
    self->flow.urgency_top = self->job->config.is_rushed ? 1 : 0;
    self->at = 0;
    stage_begin(self);
    settle(self);
}

static void on_peer(void *machine, uint32_t peer, tt_peer_event event, const char *why)
{
    (void)machine;
    (void)peer;
    (void)event;
    (void)why;
}

static bool on_step(void *machine)
{
    coded_rank *self = machine;
    if (!self->is_over && self->exec.is_running && self->exec.has_work) {
        (void)tt_exec_step(&self->exec);
        settle(self);
    }
    return !self->is_over && self->exec.is_running && self->exec.has_work;
}

static const tt_machine_ops machine_ops = {.frame = on_frame,
                                           .payload = on_payload,
                                           .sent = on_sent,
                                           .timer = on_timer,
                                           .peer = on_peer,
                                           .step = on_step};

/* ---- hands that are threads ---- */

typedef struct thread_share {
    const tt_work_order *order;
    uint32_t hand;
    uint64_t first, bytes;
} thread_share;

static void *thread_main(void *argument)
{
    const thread_share *share = argument;
    const uint64_t half = share->bytes / 2 / TT_WORK_GRAIN * TT_WORK_GRAIN;
    share->order->part(share->order->argument, share->hand, share->first, half);
    share->order->part(share->order->argument, share->hand, share->first + half,
                       share->bytes - half);
    return NULL;
}

/* All of the order, one run of bytes for each hand, at the same time. */
static uint64_t thread_work(tt_platform *platform, const tt_work_order *order)
{
    pthread_t threads[TT_HANDS_MAX];
    thread_share shares[TT_HANDS_MAX];
    const uint64_t each = tt_round_up(order->bytes / platform->hands + 1, TT_WORK_GRAIN);
    for (uint32_t hand = 0; hand < platform->hands; hand++) {
        const uint64_t first = tt_min_u64(hand * each, order->bytes);
        shares[hand] = (thread_share){.order = order,
                                      .hand = hand,
                                      .first = first,
                                      .bytes = tt_min_u64(each, order->bytes - first)};
        const int error = pthread_create(&threads[hand], NULL, thread_main, &shares[hand]);
        TT_ASSERT(error == 0);
    }
    for (uint32_t hand = 0; hand < platform->hands; hand++) {
        (void)pthread_join(threads[hand], NULL);
    }
    return order->bytes;
}

/* ---- life ---- */

coded_job *coded_job_create(const coded_config *config)
{
    const tt_shuffle_config shuffle = {
        .size = config->size, .seed = config->seed, .is_borrowing = true, .hands = config->hands};
    coded_job *job = calloc(1, sizeof(*job));
    TT_ASSERT(job != NULL && config->size <= CODED_RANKS_MAX);
    job->config = *config;
    job->shuffle = tt_shuffle_create(&shuffle);
    for (uint32_t i = 0; i < config->size; i++) {
        coded_rank *rank = &job->ranks[i];
        job->members[i] = i;
        rank->job = job;
        rank->rank = i;
        rank->platform = tt_shuffle_platform(job->shuffle, i);
        rank->is_over = true;
        if (config->has_threads) {
            job->threaded = *rank->platform->ops;
            job->threaded.work = thread_work;
            rank->platform->ops = &job->threaded;
        }
        const tt_status status =
            tt_flow_init(&rank->flow, rank->platform, config->size, config->eager_bytes_max);
        TT_ASSERT(status == TT_OK);
        rank->exec.flow = &rank->flow;
        tt_shuffle_attach(job->shuffle, i, (tt_machine){.ops = &machine_ops, .self = rank});
    }
    return job;
}

static void arena_release(coded_rank *rank)
{
    if (rank->arena != NULL) {
        rank->platform->ops->release(rank->platform, TT_MEMORY_SHARED, rank->arena,
                                     2 * rank->arena_bytes);
        rank->arena = NULL;
    }
}

bool coded_job_destroy(coded_job *job)
{
    for (uint32_t i = 0; i < job->config.size; i++) {
        arena_release(&job->ranks[i]);
        tt_exec_fini(&job->ranks[i].exec);
        tt_flow_fini(&job->ranks[i].flow);
        free(job->ranks[i].work);
    }
    const bool is_clean = tt_shuffle_destroy(job->shuffle);
    free(job);
    return is_clean;
}

void coded_job_tamper(coded_job *job, coded_tamper *tamper, void *user)
{
    job->tamper = tamper;
    job->user = user;
}

uint64_t coded_job_allocations(const coded_job *job)
{
    return tt_shuffle_allocations(job->shuffle);
}

/* ---- calls ---- */

static bool is_shared(const coded_job *job, uint32_t rank)
{
    return (job->config.shared_pattern >> rank & 1) != 0;
}

static void plan_hosts(coded_job *job, const coded_hosts *hosts)
{
    uint32_t placed = 0;
    TT_ASSERT(hosts->size == job->config.size);
    for (uint32_t host = 0; host < hosts->host_count; host++) {
        job->host_first[host] = placed;
        for (uint32_t r = 0; r < hosts->size; r++) {
            if (hosts->host_of[r] == host) {
                job->local_of[r] = placed - job->host_first[host];
                job->host_members[placed++] = r;
            }
        }
    }
    job->host_first[hosts->host_count] = placed;
    job->topology = (tt_topology){.host_count = hosts->host_count,
                                  .rail_count = hosts->rail_count,
                                  .host_of = job->call.hosts->host_of,
                                  .local_of = job->local_of,
                                  .host_first = job->host_first,
                                  .host_members = job->host_members,
                                  .has_views = true};
}

/* Shared memory for the rank's buffers, or for its staging slots. */
static void plan_memory(coded_rank *rank)
{
    tt_platform *platform = rank->platform;
    const size_t bytes = rank->stages[0].problem.bytes;
    arena_release(rank);
    if (!is_shared(rank->job, rank->rank)) {
        const tt_status status =
            tt_exec_reserve_slots(&rank->exec, rank->stages[0].plan.slot_bytes, NULL);
        TT_ASSERT(status == TT_OK);
        return;
    }
    rank->arena_bytes = tt_round_up(bytes > 0 ? bytes : 1, 64);
    rank->arena = platform->ops->allocate(platform, TT_MEMORY_SHARED, 2 * rank->arena_bytes);
    TT_ASSERT(rank->arena != NULL);
}

static tt_place place_of(const coded_rank *rank, const void *memory, size_t bytes)
{
    tt_place place;
    const bool is_found = rank->platform->ops->locate(rank->platform, memory, bytes, &place);
    TT_ASSERT(is_found);
    return place;
}

/* The buffers of a run, and where others find them. */
static void place_buffers(coded_rank *rank, const coded_buffers *buffers)
{
    tt_fact *fact = &rank->job->facts[rank->rank];
    rank->input = buffers->input;
    rank->output = buffers->output;
    if (!coded_has_rails(&rank->job->call)) {
        return;
    }
    const void *memory[2] = {rank->exec.slots, rank->exec.slots};
    size_t bytes = rank->exec.slots_bytes;
    if (is_shared(rank->job, rank->rank)) {
        bytes = rank->arena_bytes;
        memory[0] = rank->arena;
        memory[1] = rank->arena + (rank->output == rank->input ? 0 : bytes);
        memcpy(rank->arena, buffers->input, rank->stages[0].problem.bytes);
        rank->input = memory[0];
        rank->output = (void *)(uintptr_t)memory[1];
    }
    *fact = (tt_fact){.is_shared = is_shared(rank->job, rank->rank),
                      .region = place_of(rank, memory[0], bytes).region,
                      .input_offset = place_of(rank, memory[0], bytes).offset,
                      .output_offset = place_of(rank, memory[1], bytes).offset};
    TT_ASSERT(place_of(rank, memory[1], bytes).region == fact->region);
    if (rank->rank + 1 == rank->job->config.misplaced) {
        fact->region += 1000;
    }
}

/* Parts and places are known: the stage is complete. */
static void plan_exchange(coded_rank *rank, const tt_program_input *input)
{
    const coded_call *call = &rank->job->call;
    tt_stage *stage = &rank->stages[0];
    *stage = (tt_stage){.kind = TT_STAGE_EXCHANGE, .to = TT_RUN_OUTPUT, .problem = input->problem};
    stage->problem.part_offsets = call->part_offsets;
    stage->problem.is_uneven = call->part_offsets != NULL;
    stage->problem.facts = rank->job->facts;
    stage->algorithm = tt_algorithm_choose(&stage->problem, NULL);
    tt_stage_plan(stage, input->eager_bytes_max);
    rank->stage_count = 1;
}

static void plan(coded_rank *rank)
{
    const coded_config *config = &rank->job->config;
    const coded_call *call = &rank->job->call;
    const uint32_t width = (uint32_t)tt_dtype_bytes(call->dtype);
    const bool has_rails = coded_has_rails(call);
    const tt_program_input input = {
        .problem = {.collective = call->collective,
                    .dtype = call->dtype,
                    .redop = call->redop,
                    .self = rank->rank,
                    .size = config->size,
                    .element_bytes = width,
                    .segment_bytes = config->segment_bytes,
                    .bytes = call->count * width,
                    .postscale = call->postscale,
                    .topology = call->hosts != NULL ? &rank->job->topology : NULL,
                    .codec = call->codec,
                    .owner_block = call->owner_block},
        .preferred = config->algorithm,
        .eager_bytes_max = config->eager_bytes_max,
    };
    if (call->collective == TT_REDUCESCATTER || has_rails) {
        plan_exchange(rank, &input);
    } else {
        rank->stage_count = tt_program_build(&input, rank->stages);
    }
    TT_ASSERT(coded_is_summed(call) ||
              rank->stages[0].algorithm == (has_rails ? &tt_algorithm_rails : &tt_algorithm_owner));
    if (has_rails) {
        plan_memory(rank);
    }
}

void coded_job_plan(coded_job *job, const coded_call *call)
{
    job->call = *call;
    if (call->hosts != NULL) {
        plan_hosts(job, call->hosts);
    }
    for (uint32_t i = 0; i < job->config.size; i++) {
        coded_rank *rank = &job->ranks[i];
        if (rank->exec.stage != NULL) {
            tt_exec_forget(&rank->exec);
        }
        plan(rank);
        free(rank->work);
        rank->work = malloc(rank->stages[0].work_bytes + 1); /* the bounds are checked by ASan */
        TT_ASSERT(rank->work != NULL);
    }
}

void coded_job_run(coded_job *job, coded_buffers *buffers)
{
    job->buffers = buffers;
    job->op++;
    for (uint32_t i = 0; i < job->config.size; i++) {
        coded_rank *rank = &job->ranks[i];
        place_buffers(rank, &buffers[i]);
        rank->is_over = false;
        rank->status = TT_IN_PROGRESS;
        rank->platform->ops->timer(rank->platform, job->op * 1000 + (i * 7 + job->op) % 5);
    }
    while (tt_shuffle_step(job->shuffle)) {
    }
    for (uint32_t i = 0; i < job->config.size; i++) {
        coded_rank *rank = &job->ranks[i];
        if (!rank->is_over) { /* another rank failed */
            rank->is_over = true;
            rank->status = TT_IN_PROGRESS;
            tt_exec_stop(&rank->exec);
        }
        buffers[i].uncoded = rank->coding.uncoded;
        if (rank->output != buffers[i].output) {
            memcpy(buffers[i].output, rank->output, rank->stages[0].problem.bytes);
        }
        for (uint32_t peer = 0; peer < job->config.size; peer++) {
            tt_flow_purge(&rank->flow, &rank->exec.identity, peer);
        }
    }
}

tt_status coded_job_status(const coded_job *job, uint32_t rank, uint32_t *culprit_out)
{
    *culprit_out = job->ranks[rank].culprit;
    return job->ranks[rank].status;
}
