/* SPDX-License-Identifier: Apache-2.0
 *
 * proxies.c - the scheduler below an engine that was written without it.
 *
 *     build/bin/proxies
 *
 * The engine is declarative: operators run when those they depend on are complete, and every step
 * ends with a barrier that waits for all of them. The communication stack is foreign too, and FIFO:
 * one thread that carries chunks in the order it gets them. Two operators a layer are added:
 *
 *     backward i --> post i     a sum is outstanding; its task is ready; the operator ends at once
 *     enter i --> forward i     deferred: complete when the sum has arrived
 *
 * So the barrier is crossed while sums are in flight, the scheduler starts them in the order of
 * use, and each layer of the next forward waits only for its own sum. The printed order of chunks
 * shows it: layer 0, ready last, overtakes chunks that have not begun.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <tutti/schedule.h>

enum { LAYERS = 4, CHUNKS = 3, CHUNK_BYTES = 1000, STEPS = 2, QUEUE = 64 };

/* ---- a stack that is FIFO inside ---- */

typedef struct stack {
    pthread_mutex_t lock;
    pthread_cond_t more;
    tutti_chunk queue[QUEUE];
    int head, tail;
    int is_over;
    tutti_scheduler *scheduler;
} stack;

static void stack_start(void *user, const tutti_chunk *chunk)
{
    stack *foreign = user;
    (void)pthread_mutex_lock(&foreign->lock);
    foreign->queue[foreign->tail++ % QUEUE] = *chunk;
    (void)pthread_cond_signal(&foreign->more);
    (void)pthread_mutex_unlock(&foreign->lock);
}

static void *stack_run(void *user)
{
    stack *foreign = user;
    for (;;) {
        (void)pthread_mutex_lock(&foreign->lock);
        while (foreign->head == foreign->tail && !foreign->is_over) {
            (void)pthread_cond_wait(&foreign->more, &foreign->lock);
        }
        const int is_empty = foreign->head == foreign->tail;
        const tutti_chunk chunk = foreign->queue[foreign->head % QUEUE];
        foreign->head += is_empty ? 0 : 1;
        (void)pthread_mutex_unlock(&foreign->lock);
        if (is_empty) {
            return NULL;
        }
        printf("  wire: layer %u, piece %u of %u\n", chunk.task, chunk.index + 1, chunk.count);
        (void)tutti_task_finish(foreign->scheduler, chunk.task, chunk.index, TUTTI_OK);
    }
}

/* ---- an engine with a barrier ---- */

typedef struct engine {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int is_complete[LAYERS]; /* the deferred operator of each layer */
} engine;

typedef struct entry {
    engine *owner;
    int layer;
} entry;

/* The engine's own completion of an operator that returned before it was complete. */
static void engine_complete(void *user, tutti_status status)
{
    const entry *which = user;
    if (status != TUTTI_OK) {
        fprintf(stderr, "layer %d: %s\n", which->layer, tutti_status_text(status));
        exit(1);
    }
    (void)pthread_mutex_lock(&which->owner->lock);
    which->owner->is_complete[which->layer] = 1;
    (void)pthread_cond_broadcast(&which->owner->changed);
    (void)pthread_mutex_unlock(&which->owner->lock);
}

/* ---- both together ---- */

typedef struct job {
    stack foreign;
    engine engine;
    tutti_scheduler *scheduler;
    tutti_proxy *proxies[LAYERS];
    tutti_task tasks[LAYERS];
    entry entries[LAYERS];
} job;

/* The scheduler's finish becomes the engine's completion. The task's number is its layer's. */
static void task_finished(void *user, tutti_task task, tutti_status status)
{
    job *it = user;
    (void)tutti_proxy_pay(it->proxies[task], status);
}

static void job_start(void *user, const tutti_chunk *chunk)
{
    stack_start(&((job *)user)->foreign, chunk);
}

static void must(tutti_status status)
{
    if (status < 0) {
        fprintf(stderr, "%s\n", tutti_last_error(NULL));
        exit(1);
    }
}

static void job_create(job *it)
{
    tutti_scheduler_config config = TUTTI_SCHEDULER_INIT;
    config.chunk_bytes = CHUNK_BYTES;
    config.credit_bytes = 1; /* chunks inside the stack can no longer be overtaken */
    config.start = job_start;
    config.finished = task_finished;
    config.user = it;
    must(tutti_scheduler_create(&config, &it->scheduler));
    it->foreign.scheduler = it->scheduler;
    for (int i = 0; i < LAYERS; i++) {
        tutti_task_config task = TUTTI_TASK_INIT;
        task.priority = (uint32_t)i;
        task.bytes = CHUNKS * CHUNK_BYTES;
        must(tutti_task_declare(it->scheduler, &task, &it->tasks[i]));
        must(tutti_proxy_create(&it->proxies[i]));
        it->entries[i] = (entry){.owner = &it->engine, .layer = i};
    }
}

static void forward(job *it)
{
    for (int i = 0; i < LAYERS; i++) { /* start the operators before all layers at once */
        it->engine.is_complete[i] = 0;
        if (tutti_proxy_defer(it->proxies[i], engine_complete, &it->entries[i]) == TUTTI_OK) {
            engine_complete(&it->entries[i], TUTTI_OK);
        }
    }
    for (int i = 0; i < LAYERS; i++) {
        (void)pthread_mutex_lock(&it->engine.lock);
        while (!it->engine.is_complete[i]) {
            (void)pthread_cond_wait(&it->engine.changed, &it->engine.lock);
        }
        (void)pthread_mutex_unlock(&it->engine.lock);
        printf("forward of layer %d\n", i);
    }
}

static void backward(job *it)
{
    for (int i = LAYERS; i-- > 0;) {
        printf("backward of layer %d\n", i);
        must(tutti_proxy_post(it->proxies[i], 1));
        must(tutti_task_ready(it->scheduler, it->tasks[i]));
    }
    printf("barrier: every operator of this step has ended\n");
}

int main(void)
{
    static job it;
    pthread_t wire;
    (void)pthread_mutex_init(&it.foreign.lock, NULL);
    (void)pthread_cond_init(&it.foreign.more, NULL);
    (void)pthread_mutex_init(&it.engine.lock, NULL);
    (void)pthread_cond_init(&it.engine.changed, NULL);
    job_create(&it);
    if (pthread_create(&wire, NULL, stack_run, &it.foreign) != 0) {
        return 1;
    }
    for (int step = 0; step < STEPS; step++) {
        forward(&it);
        backward(&it);
    }
    for (int i = 0; i < LAYERS; i++) {
        must(tutti_proxy_wait(it.proxies[i])); /* the blocking form: before the model is saved */
    }
    (void)pthread_mutex_lock(&it.foreign.lock);
    it.foreign.is_over = 1;
    (void)pthread_cond_signal(&it.foreign.more);
    (void)pthread_mutex_unlock(&it.foreign.lock);
    (void)pthread_join(wire, NULL);
    for (int i = 0; i < LAYERS; i++) {
        tutti_proxy_destroy(it.proxies[i]);
    }
    tutti_scheduler_destroy(it.scheduler);
    return 0;
}
