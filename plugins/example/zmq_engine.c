/* SPDX-License-Identifier: Apache-2.0
 *
 * zmq_engine.c - the example of docs/plugins.md: sums of floats by push and pull over ZeroMQ.
 *
 * Rank 0 is the server. Every rank pushes its vectors to it; when every rank's next one has come,
 * the server adds them in rank order and sends the sum back. Vectors need no names: Tutti launches
 * ops only when all ranks have them, and in one order: the n-th of every rank belong together.
 *
 * ZMQ_ENGINE_ADDRESS, the same on all ranks, is the server's address without two digits (the rank;
 * 50 more for named ops): ipc:///tmp/sums, or tcp://node1:55 (ports 5500, 5501, ...).
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <zmq.h>

#include "tutti/plugin.h"

enum { SIZE_MAX_HERE = 50, ADDRESS_BYTES = 256 };

typedef struct op { /* launched, its sum not yet received */
    struct op *next;
    uint64_t token;
    void *output;
    size_t bytes;
} op;

typedef struct order {
    int size;
    void *client;                /* to the server */
    void *server[SIZE_MAX_HERE]; /* rank 0: one socket for each rank, else NULL */
    zmq_msg_t next[SIZE_MAX_HERE];
    bool has_next[SIZE_MAX_HERE];
    op *first, **end; /* in the order of launching */
} order;

struct tutti_engine {
    int size;
    void *context;
    order orders[2]; /* of unnamed ops, of named ones */
};

/* On the server: has the next vector of every rank arrived? */
static bool gather(order *it)
{
    int count = 0;
    for (int rank = 0; rank < it->size; rank++) {
        if (!it->has_next[rank]) {
            (void)zmq_msg_init(&it->next[rank]);
            it->has_next[rank] = zmq_msg_recv(&it->next[rank], it->server[rank], ZMQ_DONTWAIT) >= 0;
        }
        count += it->has_next[rank];
    }
    return count == it->size;
}

static void serve(order *it)
{
    while (it->server[0] != NULL && gather(it)) {
        float *total = zmq_msg_data(&it->next[0]);
        const size_t bytes = zmq_msg_size(&it->next[0]);
        for (int rank = 1; rank < it->size; rank++) {
            const float *vector = zmq_msg_data(&it->next[rank]);
            for (size_t i = 0; i < bytes / sizeof(float); i++) {
                total[i] += vector[i];
            }
        }
        for (int rank = it->size - 1; rank >= 0; rank--) { /* the total is in that of rank 0 */
            (void)zmq_send(it->server[rank], total, bytes, ZMQ_DONTWAIT); /* a rank may be dead */
            (void)zmq_msg_close(&it->next[rank]);
            it->has_next[rank] = false;
        }
    }
}

/* The rest is left to Tutti's own algorithms. */
static int zmq_supports(const tutti_engine *engine, const tutti_engine_op *call)
{
    const bool is_world = (call->set & ~TUTTI_ENGINE_SET_NAMED) == TUTTI_WORLD;
    return engine->size <= SIZE_MAX_HERE && is_world && call->collective == TUTTI_ALLREDUCE &&
           call->dtype == TUTTI_F32 && call->op == TUTTI_SUM && call->device < 0;
}

static int zmq_launch(tutti_engine *engine, const tutti_engine_op *call, uint64_t token)
{
    order *it = &engine->orders[(call->set & TUTTI_ENGINE_SET_NAMED) != 0];
    op *made = malloc(sizeof(*made));
    const size_t bytes = call->count * sizeof(float);
    if (made == NULL || zmq_send(it->client, call->input, bytes, ZMQ_DONTWAIT) < 0) {
        free(made);
        return TUTTI_ERR_NO_RESOURCE;
    }
    *made = (op){.token = token, .output = call->output, .bytes = bytes};
    *it->end = made;
    it->end = &made->next;
    return TUTTI_IN_PROGRESS;
}

static int zmq_test(tutti_engine *engine, uint64_t *tokens, int *statuses, int capacity)
{
    int landed = 0;
    for (order *it = engine->orders; it < engine->orders + 2; it++) {
        serve(it);
        while (landed < capacity && it->first != NULL &&
               zmq_recv(it->client, it->first->output, it->first->bytes, ZMQ_DONTWAIT) >= 0) {
            op *done = it->first;
            tokens[landed] = done->token;
            statuses[landed++] = TUTTI_OK;
            it->first = done->next;
            it->end = it->first == NULL ? &it->first : it->end;
            free(done);
        }
    }
    return landed;
}

static bool connect_order(tutti_engine *engine, int number, int self, char *address)
{
    order *it = &engine->orders[number];
    const int first = number * SIZE_MAX_HERE;
    const char *base = getenv("ZMQ_ENGINE_ADDRESS");
    int code = 0;
    *it = (order){.size = engine->size, .end = &it->first};
    for (int rank = 0; rank < engine->size && self == 0; rank++) {
        (void)snprintf(address, ADDRESS_BYTES, "%s%02d", base, first + rank);
        it->server[rank] = zmq_socket(engine->context, ZMQ_PAIR);
        code |= zmq_bind(it->server[rank], address);
    }
    (void)snprintf(address, ADDRESS_BYTES, "%s%02d", base, first + self);
    it->client = zmq_socket(engine->context, ZMQ_PAIR);
    return code == 0 && zmq_connect(it->client, address) == 0;
}

static int zmq_open(const tutti_plugin_host *host, tutti_engine **engine_out, char *why)
{
    char address[ADDRESS_BYTES];
    tutti_engine *engine = calloc(1, sizeof(*engine));
    if (getenv("ZMQ_ENGINE_ADDRESS") == NULL || engine == NULL || host->size > SIZE_MAX_HERE) {
        (void)snprintf(why, TUTTI_PLUGIN_WHY_BYTES, "set ZMQ_ENGINE_ADDRESS; at most 50 ranks");
        free(engine);
        return TUTTI_ERR_BAD_CONFIG;
    }
    engine->size = host->size;
    engine->context = zmq_ctx_new();
    if (!connect_order(engine, 0, host->rank, address) ||
        !connect_order(engine, 1, host->rank, address)) {
        (void)snprintf(why, TUTTI_PLUGIN_WHY_BYTES, "%s: %s", address, zmq_strerror(errno));
        return TUTTI_ERR_SYSTEM;
    }
    *engine_out = engine;
    return TUTTI_OK;
}

static void zmq_close_engine(tutti_engine *engine)
{
    const int patience_ms = 1000; /* for the last sums to be sent */
    for (int i = 0; i < 2 * (engine->size + 1); i++) {
        const order *it = &engine->orders[i % 2];
        void *socket = i / 2 < engine->size ? it->server[i / 2] : it->client;
        if (socket != NULL) {
            (void)zmq_setsockopt(socket, ZMQ_LINGER, &patience_ms, sizeof(patience_ms));
            (void)zmq_close(socket);
        }
    }
    (void)zmq_ctx_term(engine->context);
    free(engine);
}

static void zmq_describe(const tutti_engine *engine, char *text)
{
    (void)engine;
    (void)snprintf(text, TUTTI_PLUGIN_WHY_BYTES, "ZeroMQ %d.%d", ZMQ_VERSION_MAJOR,
                   ZMQ_VERSION_MINOR);
}

static const tutti_engine_ops engine_ops = {
    .struct_bytes = sizeof(tutti_engine_ops),
    .flags = TUTTI_ENGINE_SAME_ORDER,
    .thread_level = TUTTI_THREAD_SERIALIZED,
    .open = zmq_open,
    .close = zmq_close_engine,
    .describe = zmq_describe,
    .supports = zmq_supports,
    .launch = zmq_launch,
    .test = zmq_test,
};

TUTTI_PLUGIN_DEFINE = {
    .abi = TUTTI_PLUGIN_ABI,
    .struct_bytes = sizeof(tutti_plugin),
    .name = "zmq",
    .tag = {'z', 'm', 'q'},
    .summary = "example: push and pull of float sums over ZeroMQ",
    .package = "ZeroMQ (Debian: libzmq5)",
    .engine = &engine_ops,
};
