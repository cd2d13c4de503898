/* SPDX-License-Identifier: Apache-2.0
 *
 * zmq_engine.c - the example of docs/plugins.md: sums of floats by push and pull over ZeroMQ.
 *
 * Rank 0 is the server. Every rank pushes its vectors to it; when all ranks' next one is there, the
 * server adds them in rank order and sends the sum back. Vectors need no names: Tutti launches ops
 * only when all ranks have them, and in one order, so that the n-th of every rank belong together.
 * Sums of floats on the world are taken; the rest is left to Tutti's own algorithms.
 *
 * ZMQ_ENGINE_ADDRESS says where the server is: two digits, the rank, are put behind it, as in
 * ipc:///tmp/sums or tcp://node1:55 (ports 5500, 5501, ...). Set it on all ranks.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "tutti/plugin.h"

enum { SIZE_MAX_HERE = 100, ADDRESS_BYTES = 256 };

typedef struct op { /* launched, its sum not back */
    struct op *next;
    uint64_t token;
    float *output;
} op;

struct tutti_engine {
    int size;
    void *context;
    void *client;                /* to the server */
    void *server[SIZE_MAX_HERE]; /* rank 0: one socket for each rank, else NULL */
    zmq_msg_t next[SIZE_MAX_HERE];
    bool has_next[SIZE_MAX_HERE];
    op *first, **end; /* in the order of launching */
};

/* ---- the server ---- */

/* Is the next vector of every rank here? */
static bool gather(tutti_engine *engine)
{
    bool has_all = true;
    for (int rank = 0; rank < engine->size; rank++) {
        if (!engine->has_next[rank]) {
            (void)zmq_msg_init(&engine->next[rank]);
            engine->has_next[rank] =
                zmq_msg_recv(&engine->next[rank], engine->server[rank], ZMQ_DONTWAIT) >= 0;
        }
        has_all = has_all && engine->has_next[rank];
    }
    return has_all;
}

static void serve(tutti_engine *engine)
{
    while (engine->server[0] != NULL && gather(engine)) {
        float *total = zmq_msg_data(&engine->next[0]);
        const size_t bytes = zmq_msg_size(&engine->next[0]);
        for (int rank = 1; rank < engine->size; rank++) {
            const float *vector = zmq_msg_data(&engine->next[rank]);
            for (size_t i = 0; i < bytes / sizeof(float); i++) {
                total[i] += vector[i];
            }
        }
        for (int rank = 0; rank < engine->size; rank++) {
            (void)zmq_send(engine->server[rank], total, bytes, 0);
        }
        for (int rank = 0; rank < engine->size; rank++) {
            (void)zmq_msg_close(&engine->next[rank]);
            engine->has_next[rank] = false;
        }
    }
}

/* ---- every rank ---- */

static int zmq_supports(const tutti_engine *engine, const tutti_engine_op *call)
{
    return engine->size <= SIZE_MAX_HERE && call->set == TUTTI_WORLD &&
           call->collective == TUTTI_ALLREDUCE && call->dtype == TUTTI_F32 &&
           call->op == TUTTI_SUM && call->device < 0;
}

static int zmq_launch(tutti_engine *engine, const tutti_engine_op *call, uint64_t token)
{
    op *made = malloc(sizeof(*made));
    if (made == NULL ||
        zmq_send(engine->client, call->input, call->count * sizeof(float), ZMQ_DONTWAIT) < 0) {
        free(made);
        return TUTTI_ERR_NO_RESOURCE;
    }
    *made = (op){.token = token, .output = call->output};
    *engine->end = made;
    engine->end = &made->next;
    return TUTTI_IN_PROGRESS;
}

static int zmq_test(tutti_engine *engine, uint64_t *tokens, int *statuses, int capacity)
{
    int landed = 0;
    zmq_msg_t vector;
    serve(engine);
    (void)zmq_msg_init(&vector);
    while (landed < capacity && engine->first != NULL &&
           zmq_msg_recv(&vector, engine->client, ZMQ_DONTWAIT) >= 0) {
        op *done = engine->first;
        memcpy(done->output, zmq_msg_data(&vector), zmq_msg_size(&vector));
        tokens[landed] = done->token;
        statuses[landed++] = TUTTI_OK;
        engine->first = done->next;
        engine->end = engine->first == NULL ? &engine->first : engine->end;
        free(done);
    }
    (void)zmq_msg_close(&vector);
    return landed;
}

static int zmq_open(const tutti_plugin_host *host, tutti_engine **engine_out, char *why)
{
    const char *base = getenv("ZMQ_ENGINE_ADDRESS");
    char address[ADDRESS_BYTES];
    tutti_engine *engine = calloc(1, sizeof(*engine));
    if (base == NULL || engine == NULL || host->size > SIZE_MAX_HERE) {
        (void)snprintf(why, TUTTI_PLUGIN_WHY_BYTES, "set ZMQ_ENGINE_ADDRESS; at most %d ranks",
                       SIZE_MAX_HERE);
        free(engine);
        return TUTTI_ERR_BAD_CONFIG;
    }
    engine->size = host->size;
    engine->end = &engine->first;
    engine->context = zmq_ctx_new();
    int code = 0;
    for (int rank = 0; rank < host->size && host->rank == 0; rank++) {
        (void)snprintf(address, sizeof(address), "%s%02d", base, rank);
        engine->server[rank] = zmq_socket(engine->context, ZMQ_PAIR);
        code |= zmq_bind(engine->server[rank], address);
    }
    (void)snprintf(address, sizeof(address), "%s%02d", base, host->rank);
    engine->client = zmq_socket(engine->context, ZMQ_PAIR);
    if (code != 0 || zmq_connect(engine->client, address) != 0) {
        (void)snprintf(why, TUTTI_PLUGIN_WHY_BYTES, "%s: %s", address, zmq_strerror(errno));
        return TUTTI_ERR_SYSTEM;
    }
    *engine_out = engine;
    return TUTTI_OK;
}

static void zmq_close_engine(tutti_engine *engine)
{
    const int patience_ms = 1000; /* for the last sums to get out */
    for (int i = 0; i <= engine->size; i++) {
        void *socket = i < engine->size ? engine->server[i] : engine->client;
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
    int major, minor, patch;
    (void)engine;
    zmq_version(&major, &minor, &patch);
    (void)snprintf(text, TUTTI_PLUGIN_WHY_BYTES, "ZeroMQ %d.%d.%d", major, minor, patch);
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
