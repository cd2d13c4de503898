/* SPDX-License-Identifier: Apache-2.0
 *
 * scheduler_test.c - the scheduler over a stack that is FIFO inside: started chunks enter a queue,
 * and the test decides when its head has crossed the wire. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/philox.h"
#include "schedule/scheduler.h"

enum {
    STARTS_MAX = 4096,
    TASKS_MAX = 64,
};

/* An outside engine: it has start and finish and nothing else. */
typedef struct test_stack {
    tt_scheduler *scheduler;
    tt_task_chunk started[STARTS_MAX];
    size_t started_count;
    size_t finished_count;
    uint64_t flight_bytes;
    uint64_t flight_bytes_max;
    uint32_t done_count[TASKS_MAX];
    tt_status done_status[TASKS_MAX];
    bool is_instant; /* finishes inside start */
} test_stack;

static void stack_start(void *user, const tt_task_chunk *chunk)
{
    test_stack *stack = user;
    assert_true(stack->started_count < STARTS_MAX);
    stack->started[stack->started_count++] = *chunk;
    stack->flight_bytes += chunk->bytes;
    if (stack->flight_bytes > stack->flight_bytes_max) {
        stack->flight_bytes_max = stack->flight_bytes;
    }
    if (stack->is_instant) {
        stack->finished_count++;
        assert_int_equal(TT_OK,
                         tt_scheduler_finish(stack->scheduler, chunk->task, chunk->index, TT_OK));
    }
}

static void stack_finished(void *user, tt_task_id task, tt_status status)
{
    test_stack *stack = user;
    stack->done_count[task]++;
    stack->done_status[task] = status;
}

static const tt_scheduler_ops stack_ops = {.start = stack_start, .finished = stack_finished};

/* The head of the queue has crossed the wire. */
static void stack_step(test_stack *stack)
{
    assert_true(stack->finished_count < stack->started_count);
    const tt_task_chunk chunk = stack->started[stack->finished_count++];
    stack->flight_bytes -= chunk.bytes;
    assert_int_equal(TT_OK, tt_scheduler_finish(stack->scheduler, chunk.task, chunk.index, TT_OK));
}

static void stack_drain(test_stack *stack)
{
    while (stack->finished_count < stack->started_count) {
        stack_step(stack);
    }
}

static tt_scheduler_config config_of(uint64_t chunk_bytes, uint64_t credit_bytes)
{
    return (tt_scheduler_config){
        .task_max = TASKS_MAX,
        .chunk_max = STARTS_MAX,
        .chunk_bytes = chunk_bytes,
        .credit_bytes = credit_bytes,
        .ops = &stack_ops,
        .allocator = &tt_allocator_default,
    };
}

static void stack_init(test_stack *stack, tt_scheduler_config config)
{
    tt_text why = {0};
    memset(stack, 0, sizeof(*stack));
    config.user = stack;
    assert_int_equal(TT_OK, tt_scheduler_create(&config, &why, &stack->scheduler));
}

static tt_task_id declare(test_stack *stack, tt_task_kind kind, uint32_t priority, uint64_t bytes)
{
    const tt_task_config task = {.kind = kind,
                                 .class = TT_TASK_GRADIENT,
                                 .priority = priority,
                                 .bytes = bytes,
                                 .align_bytes = 4,
                                 .after = TT_TASK_NONE};
    tt_task_id id;
    assert_int_equal(TT_OK, tt_scheduler_declare(stack->scheduler, &task, &id));
    return id;
}

static tt_task_id declare_after(test_stack *stack, tt_task_kind kind, tt_task_id after,
                                uint64_t bytes)
{
    const tt_task_config task = {
        .kind = kind, .class = TT_TASK_GRADIENT, .bytes = bytes, .align_bytes = 4, .after = after};
    tt_task_id id;
    assert_int_equal(TT_OK, tt_scheduler_declare(stack->scheduler, &task, &id));
    return id;
}

static void ready(test_stack *stack, tt_task_id id)
{
    assert_int_equal(TT_OK, tt_scheduler_ready(stack->scheduler, id));
}

static void test_chunks_cover_a_task_once_and_complete_it(void **state)
{
    (void)state;
    test_stack stack;
    stack_init(&stack, config_of(10, TT_CREDIT_ENDLESS)); /* cut to 8: whole elements */
    const tt_task_id id = declare(&stack, TT_TASK_ALLREDUCE, 0, 44);
    assert_int_equal(6, tt_scheduler_task_chunks(stack.scheduler, id));
    assert_int_equal(TT_TASK_DECLARED, tt_scheduler_task_state(stack.scheduler, id));
    ready(&stack, id);
    assert_int_equal(TT_TASK_STARTED, tt_scheduler_task_state(stack.scheduler, id));
    uint64_t offset = 0;
    for (size_t i = 0; i < stack.started_count; i++) {
        assert_int_equal(offset, stack.started[i].offset);
        assert_true(stack.started[i].bytes <= 8);
        offset += stack.started[i].bytes;
        assert_int_equal(0, stack.done_count[id]);
        stack_step(&stack);
    }
    assert_int_equal(44, offset);
    assert_int_equal(1, stack.done_count[id]);
    assert_int_equal(TT_TASK_FINISHED, tt_scheduler_task_state(stack.scheduler, id));
    tt_scheduler_destroy(stack.scheduler);
}

static void test_an_urgent_task_overtakes_within_the_credit(void **state)
{
    (void)state;
    test_stack stack;
    stack_init(&stack, config_of(8, 16));
    const tt_task_id late = declare(&stack, TT_TASK_ALLREDUCE, 9, 80);
    const tt_task_id urgent = declare(&stack, TT_TASK_ALLREDUCE, 0, 16);
    ready(&stack, late);
    assert_int_equal(2, stack.started_count); /* the credit's worth */
    ready(&stack, urgent);
    stack_step(&stack);
    stack_step(&stack);
    assert_int_equal(urgent, stack.started[2].task);
    assert_int_equal(urgent, stack.started[3].task);
    stack_drain(&stack);
    assert_int_equal(12, stack.started_count);
    assert_true(tt_scheduler_count(stack.scheduler).overtaken_chunks > 0);
    tt_scheduler_destroy(stack.scheduler);
}

static void test_ties_keep_the_order_of_submission(void **state)
{
    (void)state;
    test_stack stack;
    stack_init(&stack, config_of(8, TT_CREDIT_STOP_AND_WAIT));
    tt_task_id ids[5];
    for (int i = 0; i < 5; i++) {
        ids[i] = declare(&stack, TT_TASK_ALLREDUCE, 3, 8);
    }
    static const int order[5] = {2, 0, 4, 1, 3};
    for (int i = 0; i < 5; i++) {
        ready(&stack, ids[order[i]]);
    }
    stack_drain(&stack);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(ids[order[i]], stack.started[i].task);
    }
    tt_scheduler_destroy(stack.scheduler);
}

static void test_a_class_goes_before_every_priority_of_the_next(void **state)
{
    (void)state;
    test_stack stack;
    stack_init(&stack, config_of(8, TT_CREDIT_STOP_AND_WAIT));
    const tt_task_id first = declare(&stack, TT_TASK_ALLREDUCE, 0, 8);
    const tt_task_id gradient = declare(&stack, TT_TASK_ALLREDUCE, 0, 8);
    tt_task_config config = {.kind = TT_TASK_BROADCAST,
                             .class = TT_TASK_ACTIVATION,
                             .priority = TT_TASK_PRIORITY_MAX,
                             .bytes = 8,
                             .after = TT_TASK_NONE};
    tt_task_id activation;
    tt_task_id control;
    assert_int_equal(TT_OK, tt_scheduler_declare(stack.scheduler, &config, &activation));
    config.class = TT_TASK_CONTROL;
    assert_int_equal(TT_OK, tt_scheduler_declare(stack.scheduler, &config, &control));
    ready(&stack, first);
    ready(&stack, gradient);
    ready(&stack, activation);
    ready(&stack, control);
    stack_drain(&stack);
    assert_int_equal(control, stack.started[1].task);
    assert_int_equal(activation, stack.started[2].task);
    assert_int_equal(gradient, stack.started[3].task);
    tt_scheduler_destroy(stack.scheduler);
}

static void test_credit_is_overshot_by_less_than_one_chunk(void **state)
{
    (void)state;
    test_stack stack;
    stack_init(&stack, config_of(8, 20));
    ready(&stack, declare(&stack, TT_TASK_ALLREDUCE, 0, 400));
    stack_drain(&stack);
    assert_int_equal(24, stack.flight_bytes_max);
    tt_scheduler_destroy(stack.scheduler);
}

static void test_credit_below_a_chunk_is_stop_and_wait(void **state)
{
    (void)state;
    static const uint64_t credits[] = {TT_CREDIT_STOP_AND_WAIT, 3, 8};
    for (size_t i = 0; i < TT_ARRAY_COUNT(credits); i++) {
        test_stack stack;
        stack_init(&stack, config_of(8, credits[i]));
        ready(&stack, declare(&stack, TT_TASK_ALLREDUCE, 0, 80));
        ready(&stack, declare(&stack, TT_TASK_ALLREDUCE, 1, 0)); /* empty, but one chunk */
        stack_drain(&stack);
        assert_int_equal(8, stack.flight_bytes_max);
        assert_int_equal(11, stack.started_count);
        tt_scheduler_destroy(stack.scheduler);
    }
}

static void test_a_pull_follows_its_push_chunk_by_chunk(void **state)
{
    (void)state;
    test_stack stack;
    stack_init(&stack, config_of(8, TT_CREDIT_STOP_AND_WAIT));
    const tt_task_id push = declare(&stack, TT_TASK_PUSH, 0, 24);
    const tt_task_id pull = declare_after(&stack, TT_TASK_PULL, push, 24);
    assert_int_equal(TT_ERR_BAD_ARGUMENT, tt_scheduler_ready(stack.scheduler, pull));
    ready(&stack, push);
    stack_step(&stack); /* push 0 is over: push 1 and pull 0 are in flight, one a lane */
    assert_int_equal(3, stack.started_count);
    assert_int_equal(TT_TASK_PUSH, stack.started[1].kind);
    assert_int_equal(TT_TASK_PULL, stack.started[2].kind);
    assert_int_equal(0, stack.started[2].index);
    assert_int_equal(TT_ERR_BAD_ARGUMENT, tt_scheduler_ready(stack.scheduler, push));
    stack_drain(&stack);
    assert_int_equal(1, stack.done_count[push]);
    assert_int_equal(1, stack.done_count[pull]);
    ready(&stack, push); /* the next step */
    stack_drain(&stack);
    assert_int_equal(2, stack.done_count[pull]);
    assert_int_equal(1, stack.started[stack.started_count - 1].round);
    tt_scheduler_destroy(stack.scheduler);
}

static void test_a_follower_with_other_chunks_waits_for_the_whole_task(void **state)
{
    (void)state;
    test_stack stack;
    stack_init(&stack, config_of(8, TT_CREDIT_ENDLESS));
    const tt_task_id scatter = declare(&stack, TT_TASK_REDUCE_SCATTER, 0, 24);
    const tt_task_id gather = declare_after(&stack, TT_TASK_ALL_GATHER, scatter, 8);
    ready(&stack, scatter);
    stack_step(&stack);
    stack_step(&stack);
    assert_int_equal(3, stack.started_count);
    stack_step(&stack);
    assert_int_equal(4, stack.started_count);
    assert_int_equal(gather, stack.started[3].task);
    stack_drain(&stack);
    tt_scheduler_destroy(stack.scheduler);
}

/* Random submissions interleaved with completions, the same for two schedulers. */
static void test_endless_credit_over_a_fifo_stack_is_fifo(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        test_stack plain;
        test_stack priority;
        tt_scheduler_config config = config_of(8, TT_CREDIT_ENDLESS);
        stack_init(&priority, config);
        config.queue = TT_QUEUE_FIFO;
        stack_init(&plain, config);
        tt_random random;
        tt_random_init(&random, seed, 0);
        for (int i = 0; i < 40; i++) {
            const uint32_t place = (uint32_t)tt_random_below(&random, 10);
            const uint64_t bytes = tt_random_below(&random, 50);
            ready(&plain, declare(&plain, TT_TASK_ALLREDUCE, place, bytes));
            ready(&priority, declare(&priority, TT_TASK_ALLREDUCE, place, bytes));
            while (tt_random_below(&random, 2) == 0 && plain.finished_count < plain.started_count) {
                stack_step(&plain);
                stack_step(&priority);
            }
        }
        stack_drain(&plain);
        stack_drain(&priority);
        assert_int_equal(plain.started_count, priority.started_count);
        for (size_t i = 0; i < plain.started_count; i++) {
            assert_int_equal(plain.started[i].task, priority.started[i].task);
            assert_int_equal(plain.started[i].index, priority.started[i].index);
        }
        tt_scheduler_destroy(plain.scheduler);
        tt_scheduler_destroy(priority.scheduler);
    }
}

static void test_every_chunk_starts_once_and_only_when_ready(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 100; seed++) {
        test_stack stack;
        tt_random random;
        tt_random_init(&random, seed, 1);
        stack_init(&stack,
                   config_of(1 + tt_random_below(&random, 30), 1 + tt_random_below(&random, 100)));
        bool is_ready[TASKS_MAX] = {false};
        size_t chunks = 0;
        for (int i = 0; i < 30; i++) {
            const tt_task_id id =
                declare(&stack, TT_TASK_ALLREDUCE, (uint32_t)tt_random_below(&random, 5),
                        tt_random_below(&random, 200));
            chunks += tt_scheduler_task_chunks(stack.scheduler, id);
        }
        for (tt_task_id id = 30; id-- > 0;) {
            const size_t before = stack.started_count;
            is_ready[id] = true;
            ready(&stack, id);
            for (size_t i = before; i < stack.started_count; i++) {
                assert_true(is_ready[stack.started[i].task]);
            }
            if (stack.finished_count < stack.started_count) {
                stack_step(&stack);
            }
        }
        stack_drain(&stack);
        assert_int_equal(chunks, stack.started_count); /* finish refuses a chunk that is finished */
        for (tt_task_id id = 0; id < 30; id++) {
            assert_int_equal(1, stack.done_count[id]);
        }
        assert_int_equal(0, tt_scheduler_count(stack.scheduler).flight_bytes);
        tt_scheduler_destroy(stack.scheduler);
    }
}

/* Two ranks whose chunks finish in different orders; agreement is counted in starts. */
static void test_an_ordered_engine_sees_one_order_on_all_ranks(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        test_stack ranks[2];
        bool is_over[2][STARTS_MAX] = {{false}};
        tt_random random;
        tt_random_init(&random, seed, 2);
        tt_scheduler_config config = config_of(8, 24);
        config.is_ordered = true;
        for (int r = 0; r < 2; r++) {
            stack_init(&ranks[r], config);
            for (uint32_t i = 0; i < 20; i++) {
                declare(&ranks[r], TT_TASK_ALLREDUCE, (i * 7) % 20, 8 + 8 * (i % 4));
            }
        }
        uint64_t agreed = 0;
        tt_task_id next = 0;
        while (next < 20 || agreed < ranks[0].started_count) {
            if (next < 20 && tt_random_below(&random, 2) == 0) {
                ready(&ranks[0], next);
                ready(&ranks[1], next);
                next++;
            }
            for (int r = 0; r < 2; r++) { /* locally, any chunk in flight may end */
                for (size_t i = 0; i < ranks[r].started_count; i++) {
                    if (!is_over[r][i] && tt_random_below(&random, 3) == 0) {
                        is_over[r][i] = true;
                        const tt_task_chunk *chunk = &ranks[r].started[i];
                        assert_int_equal(TT_OK, tt_scheduler_finish(ranks[r].scheduler, chunk->task,
                                                                    chunk->index, TT_OK));
                    }
                }
            }
            while (agreed < ranks[0].started_count && is_over[0][agreed] && is_over[1][agreed]) {
                agreed++;
            }
            assert_int_equal(TT_OK, tt_scheduler_agree(ranks[0].scheduler, agreed));
            assert_int_equal(TT_OK, tt_scheduler_agree(ranks[1].scheduler, agreed));
            assert_int_equal(ranks[0].started_count, ranks[1].started_count);
        }
        assert_int_equal(50, ranks[0].started_count);
        for (size_t i = 0; i < ranks[0].started_count; i++) {
            assert_int_equal(ranks[0].started[i].task, ranks[1].started[i].task);
            assert_int_equal(ranks[0].started[i].index, ranks[1].started[i].index);
        }
        tt_scheduler_destroy(ranks[0].scheduler);
        tt_scheduler_destroy(ranks[1].scheduler);
    }
}

static void test_agreeing_on_unfinished_chunks_is_refused(void **state)
{
    (void)state;
    test_stack stack;
    tt_scheduler_config config = config_of(8, 8);
    config.is_ordered = true;
    stack_init(&stack, config);
    ready(&stack, declare(&stack, TT_TASK_ALLREDUCE, 0, 24));
    assert_int_equal(TT_ERR_BAD_ARGUMENT, tt_scheduler_agree(stack.scheduler, 1));
    assert_non_null(strstr(tt_scheduler_why(stack.scheduler), "not finished on this rank"));
    assert_int_equal(TT_ERR_BAD_ARGUMENT, tt_scheduler_agree(stack.scheduler, 2));
    stack_step(&stack);
    assert_int_equal(1, stack.started_count); /* finished, but not agreed */
    assert_int_equal(TT_OK, tt_scheduler_agree(stack.scheduler, 1));
    assert_int_equal(2, stack.started_count);
    tt_scheduler_destroy(stack.scheduler);
}

static void test_an_engine_may_finish_inside_start(void **state)
{
    (void)state;
    test_stack stack;
    stack_init(&stack, config_of(8, 8));
    stack.is_instant = true;
    const tt_task_id push = declare(&stack, TT_TASK_PUSH, 0, 800);
    const tt_task_id pull = declare_after(&stack, TT_TASK_PULL, push, 800);
    ready(&stack, push);
    assert_int_equal(200, stack.started_count);
    assert_int_equal(1, stack.done_count[pull]);
    tt_scheduler_destroy(stack.scheduler);
}

static void test_an_immediate_task_passes_queue_and_credit(void **state)
{
    (void)state;
    test_stack stack;
    stack_init(&stack, config_of(8, TT_CREDIT_STOP_AND_WAIT));
    ready(&stack, declare(&stack, TT_TASK_ALLREDUCE, 0, 80));
    const tt_task_config config = {.kind = TT_TASK_BROADCAST,
                                   .class = TT_TASK_GRADIENT,
                                   .bytes = 16,
                                   .is_immediate = true,
                                   .after = TT_TASK_NONE};
    tt_task_id id;
    assert_int_equal(TT_OK, tt_scheduler_declare(stack.scheduler, &config, &id));
    ready(&stack, id);
    assert_int_equal(3, stack.started_count);
    stack_drain(&stack);
    assert_int_equal(12, stack.started_count);
    tt_scheduler_destroy(stack.scheduler);
}

static void test_the_first_failure_is_the_task_s_status(void **state)
{
    (void)state;
    test_stack stack;
    stack_init(&stack, config_of(8, TT_CREDIT_ENDLESS));
    const tt_task_id id = declare(&stack, TT_TASK_ALLREDUCE, 0, 24);
    ready(&stack, id);
    assert_int_equal(TT_OK, tt_scheduler_finish(stack.scheduler, id, 1, TT_ERR_PEER_DOWN));
    assert_int_equal(TT_OK, tt_scheduler_finish(stack.scheduler, id, 2, TT_ERR_MISMATCH));
    assert_int_equal(0, stack.done_count[id]);
    assert_int_equal(TT_OK, tt_scheduler_finish(stack.scheduler, id, 0, TT_OK));
    assert_int_equal(TT_ERR_PEER_DOWN, stack.done_status[id]);
    tt_scheduler_destroy(stack.scheduler);
}

static void test_chunks_are_cut_anew_between_steps_only(void **state)
{
    (void)state;
    test_stack stack;
    stack_init(&stack, config_of(8, 8));
    const tt_task_id push = declare(&stack, TT_TASK_PUSH, 0, 64);
    const tt_task_id pull = declare_after(&stack, TT_TASK_PULL, push, 64);
    ready(&stack, push);
    assert_int_equal(TT_IN_PROGRESS, tt_scheduler_set_chunk(stack.scheduler, 16));
    stack_drain(&stack);
    assert_int_equal(TT_OK, tt_scheduler_set_chunk(stack.scheduler, 16));
    assert_int_equal(4, tt_scheduler_task_chunks(stack.scheduler, pull));
    ready(&stack, push);
    assert_int_equal(TT_OK, tt_scheduler_set_credit(stack.scheduler, 32));
    stack_drain(&stack);
    assert_int_equal(2, stack.done_count[pull]);
    assert_int_equal(24, stack.started_count);
    tt_scheduler_destroy(stack.scheduler);
}

static void test_invalid_configurations_are_refused_with_a_reason(void **state)
{
    (void)state;
    tt_text why = {0};
    tt_scheduler *scheduler = NULL;
    tt_scheduler_config config = config_of(0, 8);
    assert_int_equal(TT_ERR_BAD_ARGUMENT, tt_scheduler_create(&config, &why, &scheduler));
    assert_non_null(strstr(why.bytes, "chunk of 0 bytes"));
    tt_text_clear(&why);
    config = config_of(8, 0);
    assert_int_equal(TT_ERR_BAD_ARGUMENT, tt_scheduler_create(&config, &why, &scheduler));
    assert_non_null(strstr(why.bytes, "stop-and-wait"));
    config = config_of(8, 8);
    config.chunk_max = config.task_max - 1;
    assert_int_equal(TT_ERR_BAD_ARGUMENT, tt_scheduler_create(&config, &why, &scheduler));
    assert_null(scheduler);
}

static void test_invalid_tasks_are_refused_with_a_reason(void **state)
{
    (void)state;
    test_stack stack;
    stack_init(&stack, config_of(8, 8));
    tt_task_id id = 77;
    tt_task_config task = {
        .kind = TT_TASK_ALLREDUCE, .priority = TT_TASK_PRIORITY_MAX + 1, .after = TT_TASK_NONE};
    assert_int_equal(TT_ERR_BAD_ARGUMENT, tt_scheduler_declare(stack.scheduler, &task, &id));
    assert_non_null(strstr(tt_scheduler_why(stack.scheduler), "priority 16777216"));
    task.priority = 0;
    task.after = 5;
    assert_int_equal(TT_ERR_BAD_ARGUMENT, tt_scheduler_declare(stack.scheduler, &task, &id));
    assert_non_null(strstr(tt_scheduler_why(stack.scheduler), "task 5"));
    task.after = TT_TASK_NONE;
    task.kind = TT_TASK_KIND_COUNT;
    assert_int_equal(TT_ERR_BAD_ARGUMENT, tt_scheduler_declare(stack.scheduler, &task, &id));
    task.kind = TT_TASK_ALLREDUCE;
    task.bytes = UINT64_MAX;
    assert_int_equal(TT_ERR_NO_RESOURCE, tt_scheduler_declare(stack.scheduler, &task, &id));
    assert_non_null(strstr(tt_scheduler_why(stack.scheduler), "larger chunks"));
    assert_int_equal(77, id);
    assert_int_equal(TT_ERR_BAD_ARGUMENT, tt_scheduler_ready(stack.scheduler, 0));
    id = declare(&stack, TT_TASK_ALLREDUCE, 0, 8);
    assert_int_equal(TT_ERR_BAD_ARGUMENT, tt_scheduler_finish(stack.scheduler, id, 0, TT_OK));
    ready(&stack, id);
    assert_int_equal(TT_ERR_BAD_ARGUMENT, tt_scheduler_ready(stack.scheduler, id));
    assert_int_equal(TT_ERR_BAD_ARGUMENT, tt_scheduler_finish(stack.scheduler, id, 1, TT_OK));
    tt_scheduler_destroy(stack.scheduler);
}

static void test_out_of_memory_leaks_nothing(void **state)
{
    (void)state;
    for (uint64_t fail_at = 1; fail_at <= 7; fail_at++) {
        tt_counting_allocator counter = {.fail_at = fail_at};
        const tt_allocator allocator = tt_counting_allocator_borrow(&counter);
        tt_scheduler_config config = config_of(8, 8);
        config.allocator = &allocator;
        config.is_ordered = true;
        tt_text why = {0};
        tt_scheduler *scheduler;
        assert_int_equal(TT_ERR_NO_MEMORY, tt_scheduler_create(&config, &why, &scheduler));
        assert_int_equal(0, counter.live_count);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chunks_cover_a_task_once_and_complete_it),
        cmocka_unit_test(test_an_urgent_task_overtakes_within_the_credit),
        cmocka_unit_test(test_ties_keep_the_order_of_submission),
        cmocka_unit_test(test_a_class_goes_before_every_priority_of_the_next),
        cmocka_unit_test(test_credit_is_overshot_by_less_than_one_chunk),
        cmocka_unit_test(test_credit_below_a_chunk_is_stop_and_wait),
        cmocka_unit_test(test_a_pull_follows_its_push_chunk_by_chunk),
        cmocka_unit_test(test_a_follower_with_other_chunks_waits_for_the_whole_task),
        cmocka_unit_test(test_endless_credit_over_a_fifo_stack_is_fifo),
        cmocka_unit_test(test_every_chunk_starts_once_and_only_when_ready),
        cmocka_unit_test(test_an_ordered_engine_sees_one_order_on_all_ranks),
        cmocka_unit_test(test_agreeing_on_unfinished_chunks_is_refused),
        cmocka_unit_test(test_an_engine_may_finish_inside_start),
        cmocka_unit_test(test_an_immediate_task_passes_queue_and_credit),
        cmocka_unit_test(test_the_first_failure_is_the_task_s_status),
        cmocka_unit_test(test_chunks_are_cut_anew_between_steps_only),
        cmocka_unit_test(test_invalid_configurations_are_refused_with_a_reason),
        cmocka_unit_test(test_invalid_tasks_are_refused_with_a_reason),
        cmocka_unit_test(test_out_of_memory_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
