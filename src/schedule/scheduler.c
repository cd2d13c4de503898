/* SPDX-License-Identifier: Apache-2.0
 *
 * scheduler.c - invariants:
 *  (1) used_bytes of a lane is the sum of the charges of its chunks in flight; in ordered mode, of
 *      those not yet agreed. A charge is the chunk's size, at least one.
 *  (2) A chunk is in its lane's heap exactly while its state is CHUNK_QUEUED.
 *  (3) Only pump starts queued chunks, and pump is never nested: the loop that called an op sees
 *      the changes that the op made.
 *  (4) In ordered mode pump runs from ready, agree and changes of configuration only.
 *
 * Cost: O(log n) for a chunk, n those queued in its lane. */
#include "schedule/scheduler.h"

#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/heap.h"

typedef enum chunk_state {
    CHUNK_IDLE,
    CHUNK_QUEUED,
    CHUNK_STARTED,
    CHUNK_FINISHED,
} chunk_state;

typedef struct chunk_slot {
    tt_heap_node node;
    uint64_t urgency;  /* class and priority; 0 in a FIFO */
    uint64_t sequence; /* order of becoming ready */
    tt_task_id task;
    uint32_t index;
    chunk_state state;
} chunk_slot;

typedef struct task_slot {
    tt_task_config config;
    tt_task_state state;
    tt_status status; /* first failure of this round */
    uint32_t chunk_first;
    uint32_t chunk_count;
    uint32_t started_count;
    uint32_t finished_count;
    uint32_t released_count; /* chunks that became ready in this round */
    uint32_t agreed_count;   /* ordered mode: agreed chunks of this round */
    tt_task_id follower;     /* first that follows this one */
    tt_task_id sibling;      /* next that follows the same task_slot */
    uint64_t round;
} task_slot;

typedef struct lane_slot {
    tt_heap heap;
    uint64_t used_bytes;
    uint64_t newest_sequence; /* largest started so far: a smaller one was overtaken */
} lane_slot;

typedef struct flight {
    tt_task_id task;
    uint32_t index;
    uint64_t charge;
} flight;

struct tt_scheduler {
    tt_scheduler_config config;
    task_slot *tasks;
    uint32_t task_count;
    chunk_slot *chunks;
    uint32_t chunk_count;
    lane_slot lanes[TT_LANE_COUNT];
    flight *flights; /* ordered mode: a ring of chunk_max, in order of starting */
    uint64_t flight_head;
    uint64_t flight_tail;
    uint64_t sequence;
    tt_scheduler_counts counts;
    bool is_pumping;
    tt_text why;
};

static bool chunk_before(const tt_heap_node *a, const tt_heap_node *b)
{
    const chunk_slot *x = TT_CONTAINER_OF(a, chunk_slot, node);
    const chunk_slot *y = TT_CONTAINER_OF(b, chunk_slot, node);
    return x->urgency != y->urgency ? x->urgency < y->urgency : x->sequence < y->sequence;
}

/* ---- life --------------------------------------------------------------------------------------
 */

static tt_status config_check(const tt_scheduler_config *config, tt_text *why)
{
    if (config->chunk_bytes == 0) {
        tt_text_add(why, "a chunk of 0 bytes moves nothing: give its size, or TT_CHUNK_WHOLE");
    } else if (config->credit_bytes == 0) {
        tt_text_add(why, "a credit of 0 bytes starts nothing: 1 is stop-and-wait");
    } else if (config->task_max == 0 || config->chunk_max < config->task_max) {
        tt_text_add(
            why,
            "room for %u tasks and only %u chunks: a task has at least one chunk; raise chunk_max",
            config->task_max, config->chunk_max);
    } else {
        return TT_OK;
    }
    return TT_ERR_BAD_ARGUMENT;
}

static tt_status memory_take(tt_scheduler *scheduler)
{
    const tt_scheduler_config *config = &scheduler->config;
    scheduler->tasks = tt_allocate(config->allocator, config->task_max, sizeof(task_slot));
    scheduler->chunks = tt_allocate(config->allocator, config->chunk_max, sizeof(chunk_slot));
    if (scheduler->tasks == NULL || scheduler->chunks == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    if (config->is_ordered) {
        scheduler->flights = tt_allocate(config->allocator, config->chunk_max, sizeof(flight));
        if (scheduler->flights == NULL) {
            return TT_ERR_NO_MEMORY;
        }
    }
    for (int i = 0; i < TT_LANE_COUNT; i++) {
        TT_TRY(tt_heap_reserve(&scheduler->lanes[i].heap, config->chunk_max));
    }
    return TT_OK;
}

tt_status tt_scheduler_create(const tt_scheduler_config *config, tt_text *why,
                              tt_scheduler **scheduler_out)
{
    TT_ASSERT(config->ops != NULL);
    TT_ASSERT(config->ops->start != NULL);
    TT_ASSERT(config->ops->finished != NULL);
    TT_TRY(config_check(config, why));
    tt_scheduler *scheduler = tt_allocate(config->allocator, 1, sizeof(*scheduler));
    if (scheduler == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    scheduler->config = *config;
    for (int i = 0; i < TT_LANE_COUNT; i++) {
        tt_heap_init(&scheduler->lanes[i].heap, chunk_before, config->allocator);
    }
    const tt_status status = memory_take(scheduler);
    if (status != TT_OK) {
        tt_scheduler_destroy(scheduler);
        return status;
    }
    *scheduler_out = scheduler;
    return TT_OK;
}

void tt_scheduler_destroy(tt_scheduler *scheduler)
{
    if (scheduler == NULL) {
        return;
    }
    const tt_scheduler_config config = scheduler->config;
    for (int i = 0; i < TT_LANE_COUNT; i++) {
        tt_heap_fini(&scheduler->lanes[i].heap);
    }
    tt_release(config.allocator, scheduler->flights, config.chunk_max, sizeof(flight));
    tt_release(config.allocator, scheduler->chunks, config.chunk_max, sizeof(chunk_slot));
    tt_release(config.allocator, scheduler->tasks, config.task_max, sizeof(task_slot));
    tt_release(config.allocator, scheduler, 1, sizeof(*scheduler));
}

const char *tt_scheduler_why(const tt_scheduler *scheduler)
{
    return scheduler->why.bytes;
}

__attribute__((format(printf, 3, 4))) static tt_status
refuse(tt_scheduler *scheduler, tt_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    tt_text_clear(&scheduler->why);
    tt_text_add_list(&scheduler->why, format, arguments);
    va_end(arguments);
    return status;
}

/* ---- declaring ---------------------------------------------------------------------------------
 */

static tt_status task_check(tt_scheduler *scheduler, const tt_task_config *config)
{
    if ((unsigned)config->kind >= TT_TASK_KIND_COUNT ||
        (unsigned)config->class >= TT_TASK_CLASS_COUNT) {
        return refuse(
            scheduler, TT_ERR_BAD_ARGUMENT,
            "task of unknown kind %d or class %d; use a tutti_task_kind and a tutti_task_class",
            (int)config->kind, (int)config->class);
    }
    if (config->priority > TT_TASK_PRIORITY_MAX) {
        return refuse(scheduler, TT_ERR_BAD_ARGUMENT, "priority %u is beyond %d; 0 is most urgent",
                      config->priority, TT_TASK_PRIORITY_MAX);
    }
    if (config->after != TT_TASK_NONE && config->after >= scheduler->task_count) {
        return refuse(scheduler, TT_ERR_BAD_ARGUMENT,
                      "task %u follows task %u, which is not declared; declare that first",
                      scheduler->task_count, config->after);
    }
    return TT_OK;
}

static uint64_t chunks_of(const tt_task_config *config, uint64_t chunk_bytes)
{
    const uint64_t own_bytes = config->chunk_bytes != 0 ? config->chunk_bytes : chunk_bytes;
    return tt_task_chunk_count(config->bytes, own_bytes, config->align_bytes);
}

/* Give the task the next free chunks. */
static tt_status task_cut(tt_scheduler *scheduler, task_slot *task)
{
    const uint64_t count = chunks_of(&task->config, scheduler->config.chunk_bytes);
    const uint32_t room = scheduler->config.chunk_max - scheduler->chunk_count;
    if (count > room) {
        return refuse(scheduler, TT_ERR_NO_RESOURCE,
                      "%llu bytes in chunks of %llu are %llu chunks, but only %u of %u are free: "
                      "use larger chunks",
                      (unsigned long long)task->config.bytes,
                      (unsigned long long)scheduler->config.chunk_bytes, (unsigned long long)count,
                      room, scheduler->config.chunk_max);
    }
    task->chunk_first = scheduler->chunk_count;
    task->chunk_count = (uint32_t)count;
    scheduler->chunk_count += (uint32_t)count;
    for (uint32_t i = 0; i < task->chunk_count; i++) {
        scheduler->chunks[task->chunk_first + i] =
            (chunk_slot){.task = (tt_task_id)(task - scheduler->tasks), .index = i};
    }
    return TT_OK;
}

tt_status tt_scheduler_declare(tt_scheduler *scheduler, const tt_task_config *config,
                               tt_task_id *id_out)
{
    TT_TRY(task_check(scheduler, config));
    if (scheduler->task_count == scheduler->config.task_max) {
        return refuse(scheduler, TT_ERR_NO_RESOURCE, "all %u tasks are declared; raise task_max",
                      scheduler->config.task_max);
    }
    const tt_task_id id = scheduler->task_count;
    task_slot *new_task = &scheduler->tasks[id];
    *new_task = (task_slot){.config = *config, .follower = TT_TASK_NONE, .sibling = TT_TASK_NONE};
    TT_TRY(task_cut(scheduler, new_task));
    scheduler->task_count++;
    if (config->after != TT_TASK_NONE) {
        task_slot *before = &scheduler->tasks[config->after];
        new_task->sibling = before->follower;
        before->follower = id;
    }
    *id_out = id;
    return TT_OK;
}

/* ---- starting ----------------------------------------------------------------------------------
 */

static uint64_t chunk_charge(const tt_scheduler *scheduler, const task_slot *task, uint32_t index)
{
    tt_task_chunk range;
    tt_task_chunk_range(&task->config, scheduler->config.chunk_bytes, index, &range);
    return tt_max_u64(range.bytes, 1);
}

static void chunk_start(tt_scheduler *scheduler, chunk_slot *chunk)
{
    task_slot *task = &scheduler->tasks[chunk->task];
    chunk->state = CHUNK_STARTED;
    task->started_count++;
    task->state = TT_TASK_STARTED;
    scheduler->counts.started_chunks++;
    tt_task_chunk range = {
        .task = chunk->task,
        .index = chunk->index,
        .count = task->chunk_count,
        .kind = task->config.kind,
        .round = task->round,
        .user = task->config.user,
    };
    tt_task_chunk_range(&task->config, scheduler->config.chunk_bytes, chunk->index, &range);
    scheduler->config.ops->start(scheduler->config.user, &range);
}

static bool flights_are_full(const tt_scheduler *scheduler)
{
    return scheduler->flights != NULL &&
           scheduler->flight_tail - scheduler->flight_head == scheduler->config.chunk_max;
}

static void flight_note(tt_scheduler *scheduler, const chunk_slot *chunk, uint64_t charge)
{
    if (scheduler->flights != NULL) {
        scheduler->flights[scheduler->flight_tail % scheduler->config.chunk_max] =
            (flight){.task = chunk->task, .index = chunk->index, .charge = charge};
        scheduler->flight_tail++;
    }
}

static bool lane_start_one(tt_scheduler *scheduler, lane_slot *lane)
{
    if (lane->used_bytes >= scheduler->config.credit_bytes || flights_are_full(scheduler) ||
        tt_heap_peek(&lane->heap) == NULL) {
        return false;
    }
    chunk_slot *next = TT_CONTAINER_OF(tt_heap_pop(&lane->heap), chunk_slot, node);
    TT_ASSERT(next->state == CHUNK_QUEUED);
    const uint64_t charge = chunk_charge(scheduler, &scheduler->tasks[next->task], next->index);
    lane->used_bytes += charge;
    scheduler->counts.queued_chunks--;
    if (next->sequence < lane->newest_sequence) {
        scheduler->counts.overtaken_chunks++;
    }
    lane->newest_sequence = tt_max_u64(lane->newest_sequence, next->sequence);
    flight_note(scheduler, next, charge);
    chunk_start(scheduler, next);
    return true;
}

static void pump(tt_scheduler *scheduler)
{
    if (scheduler->is_pumping) {
        return;
    }
    scheduler->is_pumping = true;
    bool has_started = true;
    while (has_started) {
        has_started = false;
        for (int i = 0; i < TT_LANE_COUNT; i++) {
            while (lane_start_one(scheduler, &scheduler->lanes[i])) {
                has_started = true;
            }
        }
    }
    scheduler->is_pumping = false;
}

/* ---- becoming ready ----------------------------------------------------------------------------
 */

/* The first chunk of a round begins it. */
static void round_begin(task_slot *task)
{
    task->state = TT_TASK_READY;
    task->status = TT_OK;
    task->started_count = 0;
    task->finished_count = 0;
    task->released_count = 0;
    task->agreed_count = 0;
}

static void chunk_release(tt_scheduler *scheduler, tt_task_id id, uint32_t index)
{
    task_slot *task = &scheduler->tasks[id];
    if (task->state == TT_TASK_DECLARED || task->state == TT_TASK_FINISHED) {
        round_begin(task);
    }
    chunk_slot *ready = &scheduler->chunks[task->chunk_first + index];
    TT_ASSERT(ready->state == CHUNK_IDLE || ready->state == CHUNK_FINISHED);
    task->released_count++;
    if (task->config.is_immediate) {
        chunk_start(scheduler, ready);
        return;
    }
    const bool is_fifo = scheduler->config.queue == TT_QUEUE_FIFO;
    const uint64_t urgency = ((uint64_t)task->config.class << 32) | task->config.priority;
    ready->urgency = is_fifo ? 0 : urgency;
    ready->sequence = ++scheduler->sequence;
    ready->state = CHUNK_QUEUED;
    lane_slot *lane = &scheduler->lanes[tt_task_kind_lane(task->config.kind)];
    const tt_status status = tt_heap_push(&lane->heap, &ready->node);
    TT_ASSERT(status == TT_OK); /* room for chunk_max was reserved */
    scheduler->counts.queued_chunks++;
}

static void task_release(tt_scheduler *scheduler, tt_task_id id)
{
    for (uint32_t i = 0; i < scheduler->tasks[id].chunk_count; i++) {
        chunk_release(scheduler, id, i);
    }
}

static bool has_same_chunks(const task_slot *a, const task_slot *b)
{
    return a->chunk_count == b->chunk_count && a->config.bytes == b->config.bytes &&
           a->config.align_bytes == b->config.align_bytes &&
           a->config.chunk_bytes == b->config.chunk_bytes;
}

/* Chunk `index` of `task` is over, in ordered mode on all ranks; `done_count` of its chunks are. */
static void followers_release(tt_scheduler *scheduler, const task_slot *task, uint32_t index,
                              uint32_t done_count)
{
    for (tt_task_id id = task->follower; id != TT_TASK_NONE; id = scheduler->tasks[id].sibling) {
        if (has_same_chunks(task, &scheduler->tasks[id])) {
            chunk_release(scheduler, id, index);
        } else if (done_count == task->chunk_count) {
            task_release(scheduler, id);
        }
    }
}

/* Is the task, or one that follows it, between ready and finished? */
static bool task_is_busy(const tt_scheduler *scheduler, const task_slot *task)
{
    if (task->state == TT_TASK_READY || task->state == TT_TASK_STARTED) {
        return true;
    }
    for (tt_task_id id = task->follower; id != TT_TASK_NONE; id = scheduler->tasks[id].sibling) {
        const task_slot *follower = &scheduler->tasks[id];
        if (follower->round < task->round || task_is_busy(scheduler, follower)) {
            return true;
        }
    }
    return false;
}

static tt_status id_check(tt_scheduler *scheduler, tt_task_id id)
{
    if (id >= scheduler->task_count) {
        return refuse(scheduler, TT_ERR_BAD_ARGUMENT, "task %u is not declared", id);
    }
    return TT_OK;
}

tt_status tt_scheduler_ready(tt_scheduler *scheduler, tt_task_id id)
{
    TT_TRY(id_check(scheduler, id));
    const task_slot *task = &scheduler->tasks[id];
    if (task->config.after != TT_TASK_NONE) {
        return refuse(scheduler, TT_ERR_BAD_ARGUMENT,
                      "task %u follows task %u, which makes it ready; do not report it ready", id,
                      task->config.after);
    }
    if (task_is_busy(scheduler, task)) {
        return refuse(scheduler, TT_ERR_BAD_ARGUMENT,
                      "task %u is ready again before it, or a task that follows it, has finished; "
                      "wait for its end",
                      id);
    }
    task_release(scheduler, id);
    pump(scheduler);
    return TT_OK;
}

/* ---- finishing ---------------------------------------------------------------------------------
 */

static void credit_give(tt_scheduler *scheduler, const task_slot *task, uint64_t charge)
{
    lane_slot *lane = &scheduler->lanes[tt_task_kind_lane(task->config.kind)];
    TT_ASSERT(lane->used_bytes >= charge);
    lane->used_bytes -= charge;
}

static void chunk_over(tt_scheduler *scheduler, task_slot *task, chunk_slot *chunk)
{
    if (!scheduler->config.is_ordered || task->config.is_immediate) {
        if (!task->config.is_immediate) {
            credit_give(scheduler, task, chunk_charge(scheduler, task, chunk->index));
        }
        followers_release(scheduler, task, chunk->index, task->finished_count);
    }
}

tt_status tt_scheduler_finish(tt_scheduler *scheduler, tt_task_id id, uint32_t index,
                              tt_status status)
{
    TT_TRY(id_check(scheduler, id));
    task_slot *task = &scheduler->tasks[id];
    chunk_slot *chunk =
        index < task->chunk_count ? &scheduler->chunks[task->chunk_first + index] : NULL;
    if (chunk == NULL || chunk->state != CHUNK_STARTED) {
        return refuse(
            scheduler, TT_ERR_BAD_ARGUMENT,
            "chunk %u of task %u is not in flight; report each started chunk finished once", index,
            id);
    }
    chunk->state = CHUNK_FINISHED;
    task->finished_count++;
    task->status = task->status == TT_OK ? status : task->status;
    scheduler->counts.finished_chunks++;
    const bool is_last = task->finished_count == task->chunk_count;
    if (is_last) {
        task->state = TT_TASK_FINISHED;
        task->round++;
    }
    chunk_over(scheduler, task, chunk);
    if (is_last) {
        scheduler->config.ops->finished(scheduler->config.user, id, task->status);
    }
    if (!scheduler->config.is_ordered) {
        pump(scheduler);
    }
    return TT_OK;
}

tt_status tt_scheduler_agree(tt_scheduler *scheduler, uint64_t chunk_count)
{
    if (!scheduler->config.is_ordered) {
        return refuse(scheduler, TT_ERR_BAD_ARGUMENT,
                      "the scheduler is not ordered; set is_ordered to agree on chunks");
    }
    if (chunk_count > scheduler->flight_tail) {
        return refuse(scheduler, TT_ERR_BAD_ARGUMENT,
                      "%llu chunks are agreed on, but this rank started %llu; agree on chunks that "
                      "all ranks finished",
                      (unsigned long long)chunk_count, (unsigned long long)scheduler->flight_tail);
    }
    while (scheduler->flight_head < chunk_count) {
        const flight *oldest =
            &scheduler->flights[scheduler->flight_head % scheduler->config.chunk_max];
        task_slot *task = &scheduler->tasks[oldest->task];
        if (scheduler->chunks[task->chunk_first + oldest->index].state == CHUNK_STARTED) {
            return refuse(scheduler, TT_ERR_BAD_ARGUMENT,
                          "chunk %u of task %u is agreed on, but not finished on this rank; agree "
                          "on chunks that all ranks finished",
                          oldest->index, oldest->task);
        }
        const flight over = *oldest;
        scheduler->flight_head++;
        credit_give(scheduler, task, over.charge);
        task->agreed_count++;
        followers_release(scheduler, task, over.index, task->agreed_count);
    }
    pump(scheduler);
    return TT_OK;
}

/* ---- changing ----------------------------------------------------------------------------------
 */

tt_status tt_scheduler_set_priority(tt_scheduler *scheduler, tt_task_id id, uint32_t priority)
{
    TT_TRY(id_check(scheduler, id));
    if (priority > TT_TASK_PRIORITY_MAX) {
        return refuse(scheduler, TT_ERR_BAD_ARGUMENT, "priority %u is beyond %d; 0 is most urgent",
                      priority, TT_TASK_PRIORITY_MAX);
    }
    scheduler->tasks[id].config.priority = priority;
    return TT_OK;
}

tt_status tt_scheduler_set_credit(tt_scheduler *scheduler, uint64_t credit_bytes)
{
    if (credit_bytes == 0) {
        return refuse(scheduler, TT_ERR_BAD_ARGUMENT,
                      "a credit of 0 bytes starts nothing: 1 is stop-and-wait");
    }
    scheduler->config.credit_bytes = credit_bytes;
    pump(scheduler);
    return TT_OK;
}

static bool is_idle(const tt_scheduler *scheduler)
{
    if (scheduler->flight_head != scheduler->flight_tail) {
        return false;
    }
    for (uint32_t i = 0; i < scheduler->task_count; i++) {
        if (task_is_busy(scheduler, &scheduler->tasks[i])) {
            return false;
        }
    }
    return true;
}

tt_status tt_scheduler_set_chunk(tt_scheduler *scheduler, uint64_t chunk_bytes)
{
    if (chunk_bytes == 0) {
        return refuse(scheduler, TT_ERR_BAD_ARGUMENT,
                      "a chunk of 0 bytes moves nothing: give its size, or TT_CHUNK_WHOLE");
    }
    if (!is_idle(scheduler)) {
        return TT_IN_PROGRESS;
    }
    uint64_t total = 0;
    for (uint32_t i = 0; i < scheduler->task_count; i++) {
        total += chunks_of(&scheduler->tasks[i].config, chunk_bytes);
    }
    if (total > scheduler->config.chunk_max) {
        return refuse(
            scheduler, TT_ERR_NO_RESOURCE,
            "chunks of %llu bytes make %llu chunks, but there is room for %u; use larger chunks",
            (unsigned long long)chunk_bytes, (unsigned long long)total,
            scheduler->config.chunk_max);
    }
    scheduler->config.chunk_bytes = chunk_bytes;
    scheduler->chunk_count = 0;
    for (uint32_t i = 0; i < scheduler->task_count; i++) {
        const tt_status status = task_cut(scheduler, &scheduler->tasks[i]);
        TT_ASSERT(status == TT_OK);
    }
    return TT_OK;
}

/* ---- asking ------------------------------------------------------------------------------------
 */

tt_task_state tt_scheduler_task_state(const tt_scheduler *scheduler, tt_task_id id)
{
    TT_ASSERT(id < scheduler->task_count);
    return scheduler->tasks[id].state;
}

uint32_t tt_scheduler_task_chunks(const tt_scheduler *scheduler, tt_task_id id)
{
    TT_ASSERT(id < scheduler->task_count);
    return scheduler->tasks[id].chunk_count;
}

tt_scheduler_counts tt_scheduler_count(const tt_scheduler *scheduler)
{
    tt_scheduler_counts counts = scheduler->counts;
    counts.flight_bytes = 0;
    for (int i = 0; i < TT_LANE_COUNT; i++) {
        counts.flight_bytes += scheduler->lanes[i].used_bytes;
    }
    return counts;
}
