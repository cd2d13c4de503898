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
    tt_stage stage;
    tt_coding coding;
    uint64_t op; /* of the call that began last */
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
    coded_buffers *buffers;
    uint64_t op; /* of the call that runs */
    coded_tamper *tamper;
    void *user;
};

tt_codec_draw coded_draw(uint32_t rank)
{
    return (tt_codec_draw){.seed = 1000 + 77 * rank, .tensor = 3, .occurrence = 5};
}

/* ---- the machine ---- */

/* Note the end. */
static void settle(coded_rank *self)
{
    tt_exec *exec = &self->exec;
    const bool has_begun = self->op == self->job->op;
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
    return !self->is_over && self->exec.is_running && head->op == self->op;
}

static void *data_frame(coded_rank *self, uint32_t peer, const tt_head *head, const void *payload)
{
    if (is_running(self, head)) {
        return tt_exec_frame(&self->exec, peer, head, payload);
    }
    if (head->op > self->op) { /* only eager frames come before this rank's grant */
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
        if (tt_flow_credit(&self->flow, peer, head->argument) && self->exec.is_running) {
            tt_exec_retry(&self->exec);
        }
    } else if (!is_running(self, head)) {
        const tt_status status =
            head->op > self->op ? tt_flow_note(&self->flow, peer, head) : TT_OK;
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
    };
    exec->stage = &self->stage;
    exec->flow = &self->flow;
    exec->members = self->job->members;
    exec->input = buffers->input;
    exec->output = buffers->output;
    exec->coding = &self->coding;
    exec->identity = (tt_head){.op = self->op, .descriptor = 1};
    exec->divisor = self->job->call.redop == TT_AVERAGE ? self->job->config.size : 1;
    self->flow.urgency_top = self->job->config.is_rushed ? 1 : 0;
    const tt_status status = tt_exec_start(exec);
    TT_ASSERT(status == TT_OK);
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
    bool is_more = false;
    if (!self->is_over && self->exec.is_running && self->exec.has_work) {
        is_more = tt_exec_step(&self->exec);
        settle(self);
    }
    return is_more && !self->is_over;
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

bool coded_job_destroy(coded_job *job)
{
    for (uint32_t i = 0; i < job->config.size; i++) {
        tt_exec_fini(&job->ranks[i].exec);
        tt_flow_fini(&job->ranks[i].flow);
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

void coded_job_plan(coded_job *job, const coded_call *call)
{
    const uint32_t width = (uint32_t)tt_dtype_bytes(call->dtype);
    job->call = *call;
    for (uint32_t i = 0; i < job->config.size; i++) {
        coded_rank *rank = &job->ranks[i];
        if (rank->exec.stage != NULL) {
            tt_exec_forget(&rank->exec);
        }
        rank->stage = (tt_stage){
            .kind = TT_STAGE_EXCHANGE,
            .problem = {.collective = call->collective,
                        .dtype = call->dtype,
                        .redop = call->redop,
                        .self = i,
                        .size = job->config.size,
                        .element_bytes = width,
                        .segment_bytes = job->config.segment_bytes,
                        .bytes = call->count * width,
                        .part_offsets = call->part_offsets,
                        .is_uneven = call->part_offsets != NULL,
                        .postscale = call->postscale,
                        .codec = call->codec},
        };
        rank->stage.algorithm = tt_algorithm_choose(&rank->stage.problem, NULL);
        TT_ASSERT(rank->stage.algorithm == &tt_algorithm_owner);
        tt_stage_plan(&rank->stage, job->config.eager_bytes_max);
    }
}

void coded_job_run(coded_job *job, coded_buffers *buffers)
{
    job->buffers = buffers;
    job->op++;
    for (uint32_t i = 0; i < job->config.size; i++) {
        coded_rank *rank = &job->ranks[i];
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
