/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule-server.c - one rank of a job with a server, for bench/schedule. The last rank is the
 * server, the others are workers; each line of the driver is answered by one line:
 *
 *   rate BYTES COUNT                     the server sends alone. Answer: nanoseconds of each
 *   duplex BYTES COUNT                   server and workers send to each other. The same
 *   golden IS_CHUNKED UNIT_BYTES UNIT_US COUNT
 *       three layers of 3, 6 and 3 units, forward and backward 2 units each, pushed, summed and
 *       pulled; one worker. What goes next is up to a scheduler of tutti/schedule.h at each end,
 *       and proxies hold the layers of forward back: chunks of one unit by first use, one at a
 *       time, or whole layers in order of readiness. Answer: nanoseconds from backward's start to
 *       the next forward's end
 *   pulls NETWORK ORDER SEED FORWARD_US BYTES BYTE_US
 *       one forward pass of a known network whose parameters arrive in that order: tic, tac or
 *       random. Operators run as their inputs allow. Answer: nanoseconds of the pass
 *
 * In a job with servers, all ranks are workers:
 *
 *   stored-rate BYTES COUNT              pulls of one tensor. Answer: nanoseconds of each
 *   stored NETWORK ORDER SEED FORWARD_US BYTES BYTE_US IS_TRAINING
 *       the same pass, parameters pulled from a store by priority; in training a backward pass of
 *       twice its length follows, which pushes gradients from the last tensor to the first */
#include <stdatomic.h>

#include "base/base.h"
#include "base/philox.h"
#include "model/first_use.h"
#include "model/model.h"
#include "model/network.h"
#include "schedule_rank.h"
#include "tutti/schedule.h"
#include "tutti/store.h"

enum {
    LAYERS = 3,
    UNITS = 12,
    LAYER_TIME = 2, /* units, of one pass */
    TENSORS_MAX = 512,
    NODES_MAX = 4096,
    SLACK_NS = 200 * 1000, /* computation may run ahead of the clock by so much */
};

static const uint32_t layer_units[LAYERS] = {3, 6, 3};

/* What a message begins with; a word about one is nothing else. */
enum { HEAD_LAYER, HEAD_PIECE, HEAD_ELEMENTS };

typedef struct piece {
    struct server_state *server;
    uint32_t layer;
    uint64_t elements;
    float *memory;
    tutti_handle *handle;
    tutti_task task;              /* of pieces that go out */
    _Atomic(tutti_handle *) said; /* of those that come in: that it is here */
    tutti_handle *heard;          /* and that one of ours is there */
    float word[HEAD_ELEMENTS];
} piece;

typedef struct server_state {
    tutti_context *context;
    rank_line line;
    uint32_t rank, server; /* also the number of workers */
    double clock_ns;
    piece out[UNITS]; /* of the golden example */
    piece in[UNITS];
    uint32_t piece_count;
    uint32_t peer;
    int started;
    tutti_set words; /* the same ranks: words match apart from pieces */
    tutti_scheduler *scheduler;
    tutti_proxy *layers[LAYERS];
    tutti_store *store;
    char stored[64]; /* the network whose tensors the store has */
} server_state;

static tutti_handle *message(server_state *self, tutti_collective kind, float *memory,
                             uint64_t elements, int peer_and_priority[2])
{
    tutti_call call = TUTTI_CALL_INIT;
    tutti_handle *handle = NULL;
    call.collective = kind;
    call.root = peer_and_priority[0];
    call.priority = peer_and_priority[1];
    if (kind == TUTTI_SEND) {
        call.input = memory;
    } else {
        call.output = memory;
    }
    call.count = elements;
    rank_must(self->context, tutti_start(self->context, &call, &handle), "message");
    return handle;
}

static void meet(server_state *self)
{
    rank_must(self->context, tutti_barrier(self->context), "barrier");
    self->clock_ns = (double)bench_now_ns();
}

static void compute(server_state *self, double us)
{
    self->clock_ns += us * 1e3;
    rank_sleep_until((int64_t)self->clock_ns);
}

static void present(server_state *self)
{
    const double now_ns = (double)bench_now_ns();
    self->clock_ns = now_ns > self->clock_ns ? now_ns : self->clock_ns;
}

static void finish(server_state *self, tutti_handle **handle)
{
    rank_wait(self->context, *handle, "message");
    tutti_handle_free(*handle);
    *handle = NULL;
}

static float *memory_take(server_state *self, uint64_t elements)
{
    float *memory = calloc(elements > 0 ? elements : 1, sizeof(float));
    if (memory == NULL) {
        rank_die(self->context, "memory");
    }
    return memory;
}

/* ---- the golden example ---- */

/* Pieces in order of readiness: the last layer's first. A piece carries its layer. */
static void pieces_make(server_state *self, bool is_chunked, uint64_t unit_elements)
{
    self->piece_count = 0;
    for (uint32_t layer = LAYERS; layer-- > 0;) {
        const uint32_t count = is_chunked ? layer_units[layer] : 1;
        for (uint32_t i = 0; i < count; i++) {
            const uint64_t elements = unit_elements * (layer_units[layer] / count);
            piece *out = &self->out[self->piece_count];
            *out = (piece){.server = self, .layer = layer, .elements = elements};
            out->memory = memory_take(self, elements);
            out->memory[HEAD_LAYER] = (float)layer;
            out->memory[HEAD_PIECE] = (float)self->piece_count;
            self->in[self->piece_count] = *out;
            self->in[self->piece_count++].memory = memory_take(self, elements);
        }
    }
}

static void pieces_free(server_state *self)
{
    for (uint32_t i = 0; i < self->piece_count; i++) {
        free(self->out[i].memory);
        free(self->in[i].memory);
    }
}

/* The scheduler's turn to send a piece; what it has started goes in that order. */
static void piece_start(void *user, const tutti_chunk *chunk)
{
    server_state *self = user;
    piece *out = chunk->user;
    out->handle = message(self, TUTTI_SEND, out->memory, out->elements,
                          (int[2]){(int)self->peer, -self->started++});
}

/* Whole layers in order of readiness, all at once; or chunks by first use, one at a time: the next
 * begins when the other side has said that it has the last. */
static void scheduler_make(server_state *self, bool is_chunked)
{
    tutti_scheduler_config config = TUTTI_SCHEDULER_INIT;
    config.is_fifo = !is_chunked;
    config.chunk_bytes = UINT64_MAX; /* the pieces are the chunks: the server has them one by one */
    config.credit_bytes = is_chunked ? 1 : UINT64_MAX;
    config.start = piece_start;
    config.user = self;
    rank_must(NULL, tutti_scheduler_create(&config, &self->scheduler), "scheduler");
    for (uint32_t i = 0; i < self->piece_count; i++) {
        tutti_task_config task = TUTTI_TASK_INIT;
        task.kind = self->rank == self->server ? TUTTI_TASK_PULL : TUTTI_TASK_PUSH;
        task.priority = self->out[i].layer;
        task.bytes = self->out[i].elements * sizeof(float);
        task.user = &self->out[i];
        rank_must(NULL, tutti_task_declare(self->scheduler, &task, &self->out[i].task), "task");
    }
}

/* The other side has a piece of ours: credit comes back. */
static void word_arrived(void *user, tutti_handle *handle, tutti_status status)
{
    piece *word = user;
    server_state *self = word->server;
    (void)handle;
    rank_must(self->context, status, "word");
    const piece *sent = &self->out[(uint32_t)word->word[HEAD_PIECE]];
    rank_must(NULL, tutti_task_finish(self->scheduler, sent->task, 0, TUTTI_OK), "finish");
}

/* A piece is here: say so, and let its layer go on. */
static void piece_arrived(void *user, tutti_handle *handle, tutti_status status)
{
    piece *in = user;
    server_state *self = in->server;
    (void)handle;
    rank_must(self->context, status, "piece");
    tutti_call call = TUTTI_CALL_INIT;
    call.collective = TUTTI_SEND;
    call.root = (int)self->peer;
    call.set = self->words;
    call.input = in->memory;
    call.count = HEAD_ELEMENTS;
    call.flags = TUTTI_URGENT;
    tutti_handle *said = NULL;
    rank_must(self->context, tutti_start(self->context, &call, &said), "word");
    atomic_store(&in->said, said);
    if (self->rank != self->server) {
        const uint32_t layer = (uint32_t)in->memory[HEAD_LAYER];
        rank_must(NULL, tutti_proxy_pay(self->layers[layer], TUTTI_OK), "layer");
    }
}

static void receive_all(server_state *self)
{
    for (uint32_t i = 0; i < self->piece_count; i++) {
        piece *in = &self->in[i];
        tutti_call call = TUTTI_CALL_INIT;
        call.collective = TUTTI_RECEIVE;
        call.root = (int)self->peer;
        call.output = in->memory;
        call.count = in->elements;
        call.done = piece_arrived;
        call.done_user = in;
        rank_must(self->context, tutti_start(self->context, &call, &in->handle), "receive");
        call.set = self->words;
        call.output = in->word;
        call.count = HEAD_ELEMENTS;
        call.done = word_arrived;
        rank_must(self->context, tutti_start(self->context, &call, &in->heard), "receive");
    }
}

/* The next piece that has arrived, or NULL if none is left. */
static piece *next_arrival(server_state *self)
{
    struct pollfd ended = {.fd = tutti_event_fd(self->context), .events = POLLIN};
    for (;;) {
        uint32_t open_count = 0;
        for (uint32_t i = 0; i < self->piece_count; i++) {
            piece *in = &self->in[i];
            open_count += in->handle != NULL;
            if (in->handle != NULL && tutti_poll(in->handle) != TUTTI_IN_PROGRESS) {
                finish(self, &in->handle);
                return in;
            }
        }
        if (open_count == 0) {
            return NULL;
        }
        (void)poll(&ended, 1, -1);
        (void)tutti_event_clear(self->context);
    }
}

static void finish_all(server_state *self)
{
    for (uint32_t i = 0; i < self->piece_count; i++) {
        finish(self, &self->in[i].heard);
    }
    for (uint32_t i = 0; i < self->piece_count; i++) { /* all of them have been sent */
        piece *in = &self->in[i];
        tutti_handle *said;
        if (in->handle != NULL) {
            finish(self, &in->handle);
        }
        while ((said = atomic_load(&in->said)) == NULL) { /* its callback runs */
            rank_sleep_until(bench_now_ns() + SLACK_NS);
        }
        finish(self, &said);
        atomic_store(&in->said, NULL);
        finish(self, &self->out[i].handle);
    }
}

static void serve(server_state *self)
{
    piece *in;
    while ((in = next_arrival(self)) != NULL) {
        piece *sum = &self->out[(uint32_t)in->memory[HEAD_PIECE]];
        for (uint64_t i = HEAD_ELEMENTS; i < in->elements; i++) {
            sum->memory[i] = in->memory[i] + sum->memory[i];
        }
        rank_must(NULL, tutti_task_ready(self->scheduler, sum->task), "ready");
    }
}

/* One step of the worker: backward makes pieces ready, forward waits for what comes back. */
static void work(server_state *self, double unit_us)
{
    uint32_t layer = LAYERS;
    for (uint32_t i = 0; i < self->piece_count; i++) {
        const piece *out = &self->out[i];
        if (out->layer != layer) {
            compute(self, LAYER_TIME * unit_us);
            layer = out->layer;
        }
        rank_must(NULL, tutti_proxy_post(self->layers[layer], 1), "layer");
        rank_must(NULL, tutti_task_ready(self->scheduler, out->task), "ready");
    }
    for (layer = 0; layer < LAYERS; layer++) {
        rank_must(NULL, tutti_proxy_wait(self->layers[layer]), "layer");
        present(self);
        compute(self, LAYER_TIME * unit_us);
    }
}

static double golden_step(server_state *self, double unit_us)
{
    receive_all(self);
    meet(self);
    const double begin_ns = self->clock_ns;
    if (self->rank == self->server) {
        serve(self);
    } else {
        work(self, unit_us);
    }
    const double took_ns = self->rank == self->server ? 0 : self->clock_ns - begin_ns;
    finish_all(self);
    return took_ns;
}

static void golden_run(server_state *self, bool is_chunked, uint64_t unit_bytes, double unit_us,
                       int count)
{
    self->peer = self->rank == self->server ? 0 : self->server;
    self->started = 0;
    for (uint32_t layer = 0; layer < LAYERS; layer++) {
        rank_must(NULL, tutti_proxy_create(&self->layers[layer]), "proxy");
    }
    pieces_make(self, is_chunked, unit_bytes / sizeof(float));
    scheduler_make(self, is_chunked);
    for (int i = 0; i < count; i++) {
        fprintf(self->line.answers, "%.0f ", golden_step(self, unit_us));
    }
    fprintf(self->line.answers, "\n");
    tutti_scheduler_destroy(self->scheduler);
    pieces_free(self);
    for (uint32_t layer = 0; layer < LAYERS; layer++) {
        tutti_proxy_destroy(self->layers[layer]);
    }
}

/* ---- a server that sends alone ---- */

static void rate_run(server_state *self, uint64_t bytes, int count)
{
    float *memory = memory_take(self, bytes / sizeof(float));
    const bool is_server = self->rank == self->server;
    for (int i = 0; i < count; i++) {
        tutti_handle *handles[TENSORS_MAX] = {NULL};
        meet(self);
        for (uint32_t peer = 0; peer < (is_server ? self->server : 1); peer++) {
            const int where = is_server ? (int)peer : (int)self->server;
            handles[peer] = message(self, is_server ? TUTTI_SEND : TUTTI_RECEIVE, memory,
                                    bytes / sizeof(float), (int[2]){where, 0});
        }
        for (uint32_t peer = 0; peer < (is_server ? self->server : 1); peer++) {
            finish(self, &handles[peer]);
        }
        fprintf(self->line.answers, "%.0f ", (double)bench_now_ns() - self->clock_ns);
    }
    fprintf(self->line.answers, "\n");
    free(memory);
}

static void duplex_run(server_state *self, uint64_t bytes, int count)
{
    const uint64_t elements = bytes / sizeof(float);
    float *out = memory_take(self, elements), *in = memory_take(self, elements);
    const int peer = self->rank == self->server ? 0 : (int)self->server;
    for (int i = 0; i < count; i++) {
        meet(self);
        tutti_handle *received = message(self, TUTTI_RECEIVE, in, elements, (int[2]){peer, 0});
        tutti_handle *sent = message(self, TUTTI_SEND, out, elements, (int[2]){peer, 0});
        finish(self, &sent);
        finish(self, &received);
        fprintf(self->line.answers, "%.0f ", (double)bench_now_ns() - self->clock_ns);
    }
    fprintf(self->line.answers, "\n");
    free(out);
    free(in);
}

/* ---- pulls ---- */

typedef struct pass {
    tt_graph *graph;
    tt_scratch scratch;
    uint32_t *sequence; /* tensors as they are sent */
    uint32_t tensor_count;
    float *memory[TENSORS_MAX];
    uint64_t elements[TENSORS_MAX];
    double time_scale;
    double byte_scale;
    tutti_handle *handles[TENSORS_MAX][8]; /* by place in the sequence, and worker */
    uint32_t open_inputs[NODES_MAX];
    uint64_t runnable[NODES_MAX / 64];
    uint32_t arrived; /* of the sequence */
} pass;

static void order_random(pass *self, uint64_t seed, uint32_t *places)
{
    tt_random random;
    tt_random_init(&random, seed, 0);
    for (uint32_t i = 0; i < self->tensor_count; i++) {
        const uint32_t other = (uint32_t)tt_random_below(&random, i + 1);
        places[i] = places[other];
        places[other] = i;
    }
}

static void order_make(pass *self, const char *order, uint64_t seed, const tt_wire *wire)
{
    uint32_t *places = tt_scratch_take(&self->scratch, self->tensor_count, sizeof(uint32_t));
    self->sequence = tt_scratch_take(&self->scratch, self->tensor_count, sizeof(uint32_t));
    if (tt_scratch_status(&self->scratch) != TT_OK) {
        exit(1);
    }
    if (strcmp(order, "tic") == 0) {
        (void)tt_order_tic(self->graph, &self->scratch, &places);
    } else if (strcmp(order, "tac") == 0) {
        (void)tt_order_tac(self->graph, wire, &self->scratch, &places);
    } else {
        order_random(self, seed, places);
    }
    for (uint32_t i = 0; i < self->tensor_count; i++) {
        self->sequence[places[i]] = i;
    }
}

static pass *pass_make(server_state *server, const char *network, double forward_us, double bytes)
{
    pass *self = calloc(1, sizeof(*self));
    tt_text why = {0};
    tt_graph_stats stats;
    double total_bytes = 0;
    if (self == NULL || tt_network_find(network) == NULL ||
        tt_network_build(tt_network_find(network), &tt_allocator_default, &why, &self->graph) !=
            TT_OK ||
        tt_graph_measure(self->graph, &stats) != TT_OK ||
        tt_graph_node_count(self->graph) > NODES_MAX ||
        tt_graph_tensor_count(self->graph) > TENSORS_MAX) {
        rank_die(server->context, network);
    }
    tt_scratch_init(&self->scratch, &tt_allocator_default);
    self->tensor_count = tt_graph_tensor_count(self->graph);
    self->time_scale = forward_us / stats.compute_us;
    for (uint32_t i = 0; i < self->tensor_count; i++) {
        total_bytes += (double)tt_graph_tensor_at(self->graph, i)->bytes;
    }
    self->byte_scale = bytes / total_bytes;
    for (uint32_t i = 0; i < self->tensor_count; i++) {
        const double own = (double)tt_graph_tensor_at(self->graph, i)->bytes * self->byte_scale;
        self->elements[i] = 1 + (uint64_t)(own / sizeof(float));
        self->memory[i] = memory_take(server, self->elements[i]);
    }
    return self;
}

static void pass_free(pass *self)
{
    for (uint32_t i = 0; i < self->tensor_count; i++) {
        free(self->memory[i]);
    }
    tt_scratch_fini(&self->scratch);
    tt_graph_destroy(self->graph);
    free(self);
}

static void node_done(pass *self, uint32_t node)
{
    uint32_t count;
    const uint32_t *outputs = tt_graph_outputs(self->graph, node, &count);
    for (uint32_t i = 0; i < count; i++) {
        if (--self->open_inputs[outputs[i]] == 0) {
            self->runnable[outputs[i] / 64] |= UINT64_C(1) << (outputs[i] % 64);
        }
    }
}

static void arrivals_take(server_state *server, pass *self, bool waits)
{
    while (self->arrived < self->tensor_count) {
        tutti_handle **handle = &self->handles[self->arrived][0];
        if (tutti_poll(*handle) == TUTTI_IN_PROGRESS) {
            if (!waits) {
                return;
            }
            rank_wait(server->context, *handle, "pull");
            present(server);
        }
        waits = false;
        finish(server, handle);
        const uint32_t tensor = self->sequence[self->arrived++];
        node_done(self, tt_graph_tensor_at(self->graph, tensor)->recv);
    }
}

/* The first runnable operator in the graph's order, or NODES_MAX. */
static uint32_t runnable_take(pass *self)
{
    for (uint32_t word = 0; word < NODES_MAX / 64; word++) {
        if (self->runnable[word] != 0) {
            const uint32_t bit = (uint32_t)__builtin_ctzll(self->runnable[word]);
            self->runnable[word] &= self->runnable[word] - 1;
            return word * 64 + bit;
        }
    }
    return NODES_MAX;
}

static void pass_run(server_state *server, pass *self)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < tt_graph_node_count(self->graph); i++) {
        (void)tt_graph_inputs(self->graph, i, &self->open_inputs[i]);
        if (tt_graph_node(self->graph, i)->kind == TT_NODE_COMPUTE) {
            left++;
            if (self->open_inputs[i] == 0) {
                self->runnable[i / 64] |= UINT64_C(1) << (i % 64);
            }
        }
    }
    while (left > 0) {
        arrivals_take(server, self, false);
        const uint32_t node = runnable_take(self);
        if (node == NODES_MAX) {
            arrivals_take(server, self, true);
            continue;
        }
        server->clock_ns += tt_graph_node(self->graph, node)->time_us * self->time_scale * 1e3;
        if (server->clock_ns > (double)bench_now_ns() + SLACK_NS) {
            rank_sleep_until((int64_t)server->clock_ns);
        }
        node_done(self, node);
        left--;
    }
    while (self->arrived < self->tensor_count) {
        arrivals_take(server, self, true);
    }
}

static void pulls_start(server_state *server, pass *self)
{
    const bool is_server = server->rank == server->server;
    for (uint32_t i = 0; i < self->tensor_count; i++) {
        const uint32_t tensor = self->sequence[i];
        for (uint32_t peer = 0; peer < (is_server ? server->server : 1); peer++) {
            const int where = is_server ? (int)peer : (int)server->server;
            self->handles[i][peer] =
                message(server, is_server ? TUTTI_SEND : TUTTI_RECEIVE, self->memory[tensor],
                        self->elements[tensor], (int[2]){where, -(int)i});
        }
    }
}

static void pulls_run(server_state *server, const char *words)
{
    char network[64], order[16];
    unsigned long long seed;
    double forward_us, bytes, byte_us;
    if (sscanf(words, "pulls %63s %15s %llu %lf %lf %lf", network, order, &seed, &forward_us,
               &bytes, &byte_us) != 6) {
        rank_die(server->context, words);
    }
    pass *self = pass_make(server, network, forward_us, bytes);
    const tt_wire wire = {.byte_us = byte_us * self->byte_scale / self->time_scale};
    order_make(self, order, seed, &wire);
    meet(server);
    const double begin_ns = server->clock_ns;
    pulls_start(server, self);
    if (server->rank == server->server) {
        for (uint32_t i = 0; i < self->tensor_count * server->server; i++) {
            finish(server, &self->handles[i / server->server][i % server->server]);
        }
    } else {
        pass_run(server, self);
    }
    fprintf(server->line.answers, "%.0f\n",
            server->rank == server->server ? 0 : server->clock_ns - begin_ns);
    pass_free(self);
}

/* ---- pulls by a store ---- */

static void store_open(server_state *self)
{
    tutti_store_config config = TUTTI_STORE_CONFIG_INIT;
    config.policy = "bulk";
    config.update = "sgd:lr=0"; /* pushes cost what they cost, and values stay */
    if (self->store == NULL) {
        rank_must(self->context, tutti_store_open(self->context, &config, &self->store), "open");
    }
}

static void store_add(server_state *self, const char *name, const float *values, uint64_t elements)
{
    rank_must(self->context, tutti_store_add(self->store, name, values, elements, TUTTI_F32),
              "add");
}

static void stored_rate(server_state *self, uint64_t bytes, int count)
{
    const uint64_t elements = bytes / sizeof(float);
    float *memory = memory_take(self, elements);
    char name[96];
    store_open(self);
    (void)snprintf(name, sizeof(name), "rate %s %llu", self->stored, (unsigned long long)bytes);
    store_add(self, name, memory, elements);
    for (int i = 0; i < count; i++) {
        meet(self);
        rank_must(self->context, tutti_store_pull(self->store, name, memory), "pull");
        fprintf(self->line.answers, "%.0f ", (double)bench_now_ns() - self->clock_ns);
    }
    fprintf(self->line.answers, "\n");
    free(memory);
}

static void name_write(char *name, size_t bytes, const char *network, uint32_t tensor)
{
    (void)snprintf(name, bytes, "%s.%u", network, tensor);
}

/* One tensor, at its place of the sequence: pull it, or push its gradient. */
static void stored_start(server_state *server, pass *self, uint32_t place, tutti_store_verb verb)
{
    const uint32_t tensor = self->sequence[place];
    char name[80];
    tutti_store_call call = TUTTI_STORE_CALL_INIT;
    name_write(name, sizeof(name), server->stored, tensor);
    call.verb = verb;
    call.name = name;
    call.input = verb == TUTTI_STORE_PUSH ? self->memory[tensor] : NULL;
    call.output = verb == TUTTI_STORE_PULL ? self->memory[tensor] : NULL;
    call.priority = -(int)place;
    rank_must(server->context, tutti_store_start(server->store, &call, &self->handles[place][0]),
              "store");
}

/* Gradients are pushed as they come, the last tensor's first; the step ends when all are applied.
 */
static void stored_backward(server_state *server, pass *self, double backward_us)
{
    uint32_t *places = tt_scratch_take(&self->scratch, self->tensor_count, sizeof(uint32_t));
    if (places == NULL) {
        rank_die(server->context, "memory");
    }
    for (uint32_t i = 0; i < self->tensor_count; i++) {
        places[self->sequence[i]] = i;
    }
    for (uint32_t tensor = self->tensor_count; tensor-- > 0;) {
        compute(server, backward_us / self->tensor_count);
        stored_start(server, self, places[tensor], TUTTI_STORE_PUSH);
    }
    for (uint32_t i = 0; i < self->tensor_count; i++) {
        finish(server, &self->handles[i][0]);
    }
    rank_must(server->context, tutti_store_clock(server->store, NULL), "clock");
    present(server);
}

static void stored_add(server_state *server, const pass *self, const char *network)
{
    char name[80];
    if (strcmp(server->stored, network) == 0) {
        return;
    }
    (void)snprintf(server->stored, sizeof(server->stored), "%s", network);
    for (uint32_t i = 0; i < self->tensor_count; i++) {
        name_write(name, sizeof(name), network, i);
        store_add(server, name, self->memory[i], self->elements[i]);
    }
}

static void stored_run(server_state *server, const char *words)
{
    char network[64], order[16];
    unsigned long long seed;
    double forward_us, bytes, byte_us;
    int is_training;
    if (sscanf(words, "stored %63s %15s %llu %lf %lf %lf %d", network, order, &seed, &forward_us,
               &bytes, &byte_us, &is_training) != 7) {
        rank_die(server->context, words);
    }
    pass *self = pass_make(server, network, forward_us, bytes);
    const tt_wire wire = {.byte_us = byte_us * self->byte_scale / self->time_scale};
    order_make(self, order, seed, &wire);
    store_open(server);
    stored_add(server, self, network);
    meet(server);
    const double begin_ns = server->clock_ns;
    for (uint32_t i = 0; i < self->tensor_count; i++) {
        stored_start(server, self, i, TUTTI_STORE_PULL);
    }
    pass_run(server, self);
    if (is_training) {
        stored_backward(server, self, 2 * forward_us);
    }
    fprintf(server->line.answers, "%.0f\n", server->clock_ns - begin_ns);
    pass_free(self);
}

static void obey(server_state *self, char *command)
{
    unsigned long long bytes;
    int count, is_chunked;
    double unit_us;
    if (sscanf(command, "rate %llu %d", &bytes, &count) == 2) {
        rate_run(self, bytes, count);
    } else if (sscanf(command, "duplex %llu %d", &bytes, &count) == 2) {
        duplex_run(self, bytes, count);
    } else if (sscanf(command, "golden %d %llu %lf %d", &is_chunked, &bytes, &unit_us, &count) ==
               4) {
        golden_run(self, is_chunked != 0, bytes, unit_us, count);
    } else if (strncmp(command, "pulls ", 6) == 0) {
        pulls_run(self, command);
    } else if (sscanf(command, "stored-rate %llu %d", &bytes, &count) == 2) {
        stored_rate(self, bytes, count);
    } else if (strncmp(command, "stored ", 7) == 0) {
        stored_run(self, command);
    } else {
        fprintf(stderr, "bench-schedule-server: what is '%s'?\n", command);
        exit(1);
    }
    fflush(self->line.answers);
}

int main(void)
{
    server_state self = {0};
    char command[640];
    self.context = rank_join(&self.line);
    self.rank = (uint32_t)tutti_rank(self.context);
    self.server = (uint32_t)tutti_size(self.context) - 1;
    const int ends[2] = {0, (int)self.server};
    rank_must(self.context, tutti_set_create(self.context, ends, 2, &self.words), "set");
    while (fgets(command, sizeof(command), self.line.commands) != NULL) {
        obey(&self, command);
    }
    if (self.store != NULL) {
        rank_must(self.context, tutti_store_close(self.store), "close");
    }
    return tutti_shutdown(self.context) == TUTTI_OK ? 0 : 1;
}
