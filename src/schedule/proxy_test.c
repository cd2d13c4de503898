/* SPDX-License-Identifier: Apache-2.0
 *
 * proxy_test.c - proxies in two small engines with a barrier between steps.
 *
 * The declarative engine runs a graph of operators one at a time, each as soon as its inputs have
 * completed; `barrier` needs every node of its step, and the next step needs the barrier. The
 * imperative one is a loop. Neither contains communication: the test advances the wire. Last, the
 * declarative engine communicates itself, by operators of its own that proxies put in order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "schedule/proxy.h"
#include "schedule/scheduler.h"

enum {
    LAYERS = 3,
    STEPS = 2,
    OPS_A_STEP = 4 * LAYERS + 1, /* gate, forward, backward, post of each layer; the barrier */
    OPS = STEPS * OPS_A_STEP,
};

typedef struct test_engine test_engine;

typedef struct node {
    test_engine *engine;
    char kind; /* g gate, f forward, b backward, p post, | barrier; s start, c carry, e end */
    int layer;
    int needs[OPS_A_STEP];
    int need_count;
    bool is_started;
    bool is_completed;
} node;

struct test_engine {
    node ops[OPS];
    bool is_blocked; /* a gate waits inside, else it is deferred */
    tt_proxy proxies[LAYERS];
    tt_proxy starts[LAYERS];
    tt_scheduler *scheduler;
    tt_task_id tasks[LAYERS];
    tt_task_chunk wire[64];
    size_t wire_head;
    size_t wire_tail;
    char trace[256]; /* operators that ran, as "f0 f1 ..." */
};

static void trace(test_engine *engine, char kind, int layer)
{
    const size_t length = strlen(engine->trace);
    assert_true(length + 4 < sizeof(engine->trace));
    engine->trace[length] = kind;
    engine->trace[length + 1] = (char)('0' + layer);
    engine->trace[length + 2] = ' ';
}

/* ---- the wire ----------------------------------------------------------------------------------
 */

static void wire_start(void *user, const tt_task_chunk *chunk)
{
    test_engine *engine = user;
    engine->wire[engine->wire_tail++] = *chunk;
}

static void wire_finished(void *user, tt_task_id task, tt_status status)
{
    test_engine *engine = user;
    assert_int_equal(TT_OK, tt_proxy_pay(&engine->proxies[task], status));
}

static const tt_scheduler_ops wire_ops = {.start = wire_start, .finished = wire_finished};

static bool wire_advance(test_engine *engine)
{
    if (engine->wire_head == engine->wire_tail) {
        return false;
    }
    const tt_task_chunk chunk = engine->wire[engine->wire_head++];
    if (chunk.index + 1 == chunk.count) {
        trace(engine, 'w', (int)chunk.task); /* the sum of this layer has arrived */
    }
    assert_int_equal(TT_OK, tt_scheduler_finish(engine->scheduler, chunk.task, chunk.index, TT_OK));
    return true;
}

static void engine_init(test_engine *engine, const tt_scheduler_ops *ops, uint64_t chunk_bytes)
{
    memset(engine, 0, sizeof(*engine));
    const tt_scheduler_config config = {.task_max = LAYERS,
                                        .chunk_max = 64,
                                        .chunk_bytes = chunk_bytes,
                                        .credit_bytes = 4,
                                        .ops = ops,
                                        .user = engine,
                                        .allocator = &tt_allocator_default};
    tt_text why = {0};
    assert_int_equal(TT_OK, tt_scheduler_create(&config, &why, &engine->scheduler));
    for (uint32_t i = 0; i < LAYERS; i++) {
        const tt_task_config task = {.kind = TT_TASK_ALLREDUCE,
                                     .class = TT_TASK_GRADIENT,
                                     .priority = i,
                                     .bytes = 8,
                                     .after = TT_TASK_NONE};
        assert_int_equal(TT_OK, tt_scheduler_declare(engine->scheduler, &task, &engine->tasks[i]));
    }
}

static void post(test_engine *engine, int layer)
{
    tt_proxy_post(&engine->proxies[layer], 1);
    assert_int_equal(TT_OK, tt_scheduler_ready(engine->scheduler, engine->tasks[layer]));
}

/* ---- the declarative engine --------------------------------------------------------------------
 */

static int op_index(int step, char kind, int layer)
{
    static const char kinds[] = "gfbp";
    if (kind == '|') {
        return step * OPS_A_STEP + OPS_A_STEP - 1;
    }
    return step * OPS_A_STEP + (int)(strchr(kinds, kind) - kinds) * LAYERS + layer;
}

static void need(test_engine *engine, int op, int before)
{
    engine->ops[op].needs[engine->ops[op].need_count++] = before;
}

static void step_build(test_engine *engine, int step)
{
    for (const char *kind = "gfbp"; *kind != '\0'; kind++) {
        for (int layer = 0; layer < LAYERS; layer++) {
            engine->ops[op_index(step, *kind, layer)] =
                (node){.engine = engine, .kind = *kind, .layer = layer};
        }
    }
    const int barrier = op_index(step, '|', 0);
    engine->ops[barrier] = (node){.engine = engine, .kind = '|'};
    for (int layer = 0; layer < LAYERS; layer++) {
        const int forward = op_index(step, 'f', layer);
        const int backward = op_index(step, 'b', layer);
        need(engine, forward, op_index(step, 'g', layer));
        if (layer > 0) {
            need(engine, forward, op_index(step, 'f', layer - 1));
        }
        need(engine, backward, layer == LAYERS - 1 ? forward : op_index(step, 'b', layer + 1));
        need(engine, op_index(step, 'p', layer), backward);
        need(engine, barrier, op_index(step, 'p', layer));
        if (step > 0) {
            need(engine, op_index(step, 'g', layer), op_index(step - 1, '|', 0));
        }
        if (engine->is_blocked && layer > 0) { /* it would block the engine's only thread */
            need(engine, op_index(step, 'g', layer), op_index(step, 'f', layer - 1));
        }
    }
}

static void op_completed(void *user, tt_status status)
{
    node *op = user;
    assert_int_equal(TT_OK, status);
    op->is_completed = true;
}

static tt_status block_on_the_wire(void *user)
{
    return wire_advance(user) ? TT_OK : TT_ERR_TIMED_OUT;
}

static void op_run(test_engine *engine, node *op)
{
    tt_proxy *start = &engine->starts[op->layer];
    op->is_started = true;
    switch (op->kind) {
    case 's': /* the engine may communicate, but not before the scheduler starts the task */
        tt_proxy_post(start, 1);
        assert_int_equal(TT_OK, tt_scheduler_ready(engine->scheduler, engine->tasks[op->layer]));
        if (tt_proxy_defer(start, op_completed, op) == TT_IN_PROGRESS) {
            trace(engine, 'h', op->layer);
            return;
        }
        break;
    case 'e': /* it has */
        assert_int_equal(
            TT_OK, tt_scheduler_finish(engine->scheduler, engine->tasks[op->layer], 0, TT_OK));
        break;
    case 'g':
        if (engine->is_blocked) {
            assert_int_equal(TT_OK,
                             tt_proxy_wait(&engine->proxies[op->layer], block_on_the_wire, engine));
            break;
        }
        if (tt_proxy_defer(&engine->proxies[op->layer], op_completed, op) == TT_IN_PROGRESS) {
            trace(engine, 'h', op->layer); /* held back */
            return;
        }
        break;
    case 'p':
        post(engine, op->layer);
        break;
    default:
        trace(engine, op->kind, op->layer);
    }
    op->is_completed = true;
}

static bool op_can_run(const test_engine *engine, const node *op)
{
    bool can_run = !op->is_started;
    for (int i = 0; i < op->need_count; i++) {
        can_run = can_run && engine->ops[op->needs[i]].is_completed;
    }
    return can_run;
}

static bool engine_run_one(test_engine *engine)
{
    for (int i = 0; i < OPS; i++) {
        if (op_can_run(engine, &engine->ops[i])) {
            op_run(engine, &engine->ops[i]);
            return true;
        }
    }
    return false;
}

static void test_a_deferred_proxy_holds_back_its_layer_and_crosses_the_barrier(void **state)
{
    (void)state;
    test_engine engine;
    engine_init(&engine, &wire_ops, 4);
    for (int step = 0; step < STEPS; step++) {
        step_build(&engine, step);
    }
    /* The wire moves only when the engine can do nothing else: the worst case. */
    while (engine_run_one(&engine) || wire_advance(&engine)) {
    }
    /* All gates of step 1 are held after the barrier was crossed with every gradient still on the
     * wire; w0 alone lets f0 run, w1 alone f1. b2 was started first, so its first chunk was out. */
    assert_string_equal(engine.trace, "f0 f1 f2 b2 b1 b0 |0 h0 h1 h2 w0 f0 w1 f1 w2 f2 "
                                      "b2 b1 b0 |0 w0 w1 w2 ");
    tt_scheduler_destroy(engine.scheduler);
}

static void test_a_blocking_proxy_crosses_the_barrier_of_a_declarative_engine(void **state)
{
    (void)state;
    test_engine engine;
    engine_init(&engine, &wire_ops, 4);
    engine.is_blocked = true;
    for (int step = 0; step < STEPS; step++) {
        step_build(&engine, step);
    }
    while (engine_run_one(&engine) || wire_advance(&engine)) {
    }
    assert_string_equal(engine.trace, "f0 f1 f2 b2 b1 b0 |0 w0 f0 w1 f1 w2 f2 "
                                      "b2 b1 b0 |0 w0 w1 w2 ");
    tt_scheduler_destroy(engine.scheduler);
}

/* ---- the imperative engine ---------------------------------------------------------------------
 */

static void test_a_blocking_proxy_holds_back_its_layer_only(void **state)
{
    (void)state;
    test_engine engine;
    engine_init(&engine, &wire_ops, 4);
    for (int step = 0; step < STEPS; step++) {
        for (int layer = 0; layer < LAYERS; layer++) {
            assert_int_equal(TT_OK,
                             tt_proxy_wait(&engine.proxies[layer], block_on_the_wire, &engine));
            trace(&engine, 'f', layer);
        }
        for (int layer = LAYERS - 1; layer >= 0; layer--) {
            trace(&engine, 'b', layer);
            post(&engine, layer);
        }
        trace(&engine, '|', 0); /* optimizer.step(): nothing to wait for */
    }
    assert_string_equal(engine.trace, "f0 f1 f2 b2 b1 b0 |0 w0 f0 w1 f1 w2 f2 b2 b1 b0 |0 ");
    tt_scheduler_destroy(engine.scheduler);
}

static void test_a_layer_of_two_tensors_waits_for_both(void **state)
{
    (void)state;
    tt_proxy proxy = {0};
    assert_true(tt_proxy_is_open(&proxy));
    tt_proxy_post(&proxy, 2);
    node op = {0};
    assert_int_equal(TT_IN_PROGRESS, tt_proxy_defer(&proxy, op_completed, &op));
    assert_int_equal(TT_ERR_BAD_ARGUMENT, tt_proxy_defer(&proxy, op_completed, &op));
    assert_int_equal(TT_OK, tt_proxy_pay(&proxy, TT_OK));
    assert_false(op.is_completed);
    assert_int_equal(TT_OK, tt_proxy_pay(&proxy, TT_OK));
    assert_true(op.is_completed);
    assert_int_equal(TT_ERR_BAD_ARGUMENT, tt_proxy_pay(&proxy, TT_OK));
}

static void test_a_failed_task_fails_the_pass_once(void **state)
{
    (void)state;
    tt_proxy proxy = {0};
    tt_proxy_post(&proxy, 1);
    assert_int_equal(TT_OK, tt_proxy_pay(&proxy, TT_ERR_PEER_DOWN));
    assert_int_equal(TT_ERR_PEER_DOWN, tt_proxy_wait(&proxy, NULL, NULL));
    assert_int_equal(TT_OK, tt_proxy_wait(&proxy, NULL, NULL));
    test_engine engine = {.wire_head = 0};
    tt_proxy_post(&proxy, 1);
    assert_int_equal(TT_ERR_TIMED_OUT, tt_proxy_wait(&proxy, block_on_the_wire, &engine));
}

/* ---- an engine that communicates itself --------------------------------------------------------
 */

static void let_go(void *user, const tt_task_chunk *chunk)
{
    test_engine *engine = user;
    assert_int_equal(TT_OK, tt_proxy_pay(&engine->starts[chunk->task], TT_OK));
}

static void is_over(void *user, tt_task_id task, tt_status status)
{
    test_engine *engine = user;
    assert_int_equal(TT_OK, status);
    assert_int_equal(TT_OK, tt_proxy_pay(&engine->proxies[task], status));
}

static const tt_scheduler_ops in_engine_ops = {.start = let_go, .finished = is_over};

/* Operators start, carry and end a layer; forward needs the gate. The engine would carry layer 0, 1
 * and 2; for the scheduler the last one is the most urgent. */
static void test_a_proxy_ends_when_the_scheduler_starts_its_task(void **state)
{
    (void)state;
    test_engine engine;
    engine_init(&engine, &in_engine_ops, TT_CHUNK_WHOLE);
    for (int layer = 0; layer < LAYERS; layer++) {
        static const char kinds[] = "gfsce";
        assert_int_equal(TT_OK, tt_scheduler_set_priority(engine.scheduler, engine.tasks[layer],
                                                          (uint32_t)(LAYERS - layer)));
        tt_proxy_post(&engine.proxies[layer], 1);
        for (int i = 0; kinds[i] != 0; i++) {
            engine.ops[LAYERS * i + layer] =
                (node){.engine = &engine, .kind = kinds[i], .layer = layer};
            if (kinds[i] == 'c' || kinds[i] == 'e' || kinds[i] == 'f') {
                need(&engine, LAYERS * i + layer, LAYERS * (i - 1) + layer);
            }
        }
    }
    for (int i = 5 * LAYERS; i < OPS; i++) {
        engine.ops[i].is_started = true; /* there are no more */
    }
    while (engine_run_one(&engine)) {
    }
    /* All gates are held. 0 started at once, 1 and 2 wait for credit; 2 starts before 1. */
    assert_string_equal(engine.trace, "h0 h1 h2 h1 h2 c0 f0 c2 f2 c1 f1 ");
    tt_scheduler_destroy(engine.scheduler);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_deferred_proxy_holds_back_its_layer_and_crosses_the_barrier),
        cmocka_unit_test(test_a_blocking_proxy_crosses_the_barrier_of_a_declarative_engine),
        cmocka_unit_test(test_a_blocking_proxy_holds_back_its_layer_only),
        cmocka_unit_test(test_a_proxy_ends_when_the_scheduler_starts_its_task),
        cmocka_unit_test(test_a_layer_of_two_tensors_waits_for_both),
        cmocka_unit_test(test_a_failed_task_fails_the_pass_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
