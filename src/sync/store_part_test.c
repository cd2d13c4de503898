/* SPDX-License-Identifier: Apache-2.0
 *
 * store_part_test.c - one owner: whose pushes it adds and in which order, which part is first, and
 * how much memory a tensor takes.
 *
 * The machine is that of server 0, over a platform that keeps what is sent. As many servers as
 * workers own all. The test plays the workers: it makes their frames, in an order of its own, and
 * the owner's steps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "kernel/hash64.h"
#include "sync/sync_internal.h"

enum {
    EPOCH = 3,
    FRAMES = 256,
    LONG_WORKERS = 31,                    /* of so many a part of */
    LONG_BYTES = TT_SPLIT_PART_BYTES_MIN, /* is added in several steps */
    RECORDS_BYTES = 48 * 1024,            /* of a tensor besides its values, at most */
};

typedef struct sent_frame {
    uint32_t peer;
    tt_head head;
    float first;                   /* of the payload */
    char text[TT_SYNC_TEXT_BYTES]; /* the payload of FAILED */
} sent_frame;

typedef struct owner {
    tt_platform platform;
    tt_sync *sync;
    uint32_t workers;
    uint64_t live_bytes; /* allocated and not released */
    uint64_t most_bytes; /* of them at one time */
    uint32_t frame_count;
    sent_frame frames[FRAMES]; /* that were sent */
} owner;

/* ---- the platform ---- */

static uint64_t now(tt_platform *platform)
{
    (void)platform;
    return 1;
}

static void *take(tt_platform *platform, tt_memory_kind kind, size_t bytes)
{
    owner *self = (owner *)(void *)platform;
    const size_t room = tt_round_up(bytes > 0 ? bytes : 1, 64);
    void *memory = aligned_alloc(64, room);
    assert_non_null(memory);
    assert_int_equal(kind, TT_MEMORY_PRIVATE);
    memset(memory, 0, room);
    self->live_bytes += bytes;
    self->most_bytes = tt_max_u64(self->most_bytes, self->live_bytes);
    return memory;
}

static void give(tt_platform *platform, tt_memory_kind kind, void *memory, size_t bytes)
{
    owner *self = (owner *)(void *)platform;
    (void)kind;
    self->live_bytes -= bytes;
    free(memory);
}

static tt_status keep_frame(tt_platform *platform, const tt_send *send)
{
    owner *self = (owner *)(void *)platform;
    assert_true(self->frame_count < FRAMES);
    sent_frame *frame = &self->frames[self->frame_count++];
    *frame = (sent_frame){.peer = send->peer, .head = *send->head};
    if (send->head->payload_bytes >= sizeof(frame->first)) {
        memcpy(&frame->first, send->payload, sizeof(frame->first));
    }
    if (send->head->kind == TT_SYNC_FAILED) {
        memcpy(frame->text, send->payload,
               tt_min_u64(send->head->payload_bytes, sizeof(frame->text) - 1));
    }
    return TT_OK;
}

static void spend(tt_platform *platform, tt_spend_kind kind, size_t bytes, uint32_t times)
{
    (void)platform, (void)kind, (void)bytes, (void)times;
}

static const tt_platform_ops ops = {
    .now = now, .allocate = take, .release = give, .send = keep_frame, .spend = spend};

static bool no_step(void *machine)
{
    (void)machine;
    return false;
}

static void no_peer(void *machine, uint32_t peer, tt_peer_event event, const char *why)
{
    (void)machine, (void)peer, (void)event, (void)why;
}

static const tt_machine_ops nothing = {.step = no_step, .peer = no_peer};

static void drop_report(void *listener, int level, const char *text)
{
    (void)listener, (void)level, (void)text;
}

/* ---- frames ---- */

/* As a driver delivers it: a long payload is written to the place that the machine names. */
static void frame(owner *self, uint32_t worker, tt_head head, const void *payload, uint32_t bytes)
{
    const tt_machine machine = tt_sync_machine(self->sync);
    const bool is_inline = bytes <= TT_INLINE_BYTES_MAX;
    head.epoch = EPOCH;
    head.payload_bytes = bytes;
    void *sink = machine.ops->frame(machine.self, worker, &head, is_inline ? payload : NULL);
    if (!is_inline) {
        assert_non_null(sink);
        memcpy(sink, payload, bytes);
        machine.ops->payload(machine.self, worker, &head);
    }
}

/* The owner has no place for it. */
static void refused_frame(owner *self, uint32_t worker, tt_head head, const void *payload,
                          uint32_t bytes)
{
    const tt_machine machine = tt_sync_machine(self->sync);
    head.epoch = EPOCH;
    head.payload_bytes = bytes;
    assert_null(machine.ops->frame(machine.self, worker, &head,
                                   bytes <= TT_INLINE_BYTES_MAX ? payload : NULL));
}

static bool step(owner *self)
{
    const tt_machine machine = tt_sync_machine(self->sync);
    return machine.ops->step(machine.self);
}

static void run(owner *self)
{
    while (step(self)) {
    }
}

static uint64_t key_of(const char *name)
{
    return tt_hash64(name, strlen(name), 0);
}

/* The first part of a tensor that this owner has; the bytes of all of them. */
static uint64_t own_parts(const owner *self, const char *name, uint64_t bytes, uint32_t *first_out)
{
    const tt_split split = tt_split_make(self->workers, self->workers);
    tt_split_part parts[64];
    const uint32_t count = tt_split_cut(&split, key_of(name), bytes, parts, TT_ARRAY_COUNT(parts));
    uint64_t sum = 0;
    assert_true(count <= TT_ARRAY_COUNT(parts));
    *first_out = UINT32_MAX;
    for (uint32_t i = count; i > 0; i--) {
        if (parts[i - 1].owner == 0) {
            *first_out = i - 1;
            sum += parts[i - 1].bytes;
        }
    }
    return sum;
}

/* A tensor of one element, number `index` of those that are this owner's. */
static void own_name(const owner *self, uint32_t index, char name_out[8])
{
    uint32_t found = 0, part = 0;
    for (uint32_t i = 0; found <= index; i++) {
        (void)snprintf(name_out, 8, "t%u", i);
        (void)own_parts(self, name_out, sizeof(float), &part);
        found += part == 0 ? 1 : 0;
    }
}

static void open_store(owner *self, uint32_t workers, const char *settings)
{
    *self = (owner){.platform = {.ops = &ops}, .workers = workers};
    const tt_roles roles = {
        .rank = workers, .workers = workers, .servers = workers, .epoch = EPOCH};
    const tt_sync_listener listener = {.report = drop_report};
    const tt_machine inner = {.ops = &nothing};
    assert_int_equal(tt_sync_create(&self->platform, &roles, inner, &listener, &self->sync), TT_OK);
    for (uint32_t i = 0; i < workers; i++) {
        frame(self, i, (tt_head){.kind = TT_SYNC_OPEN}, settings, (uint32_t)strlen(settings));
    }
    assert_int_equal(self->frame_count, workers);
    assert_int_equal(self->frames[0].head.argument, TT_OK);
    self->frame_count = 0;
}

/* All floats; the first value is 0. */
static void add(owner *self, const char *name, uint64_t count)
{
    struct {
        tt_sync_claim claim;
        char name[8];
    } payload = {.claim = {.count = count, .dtype = TT_F32}};
    const tt_head head = {.kind = TT_SYNC_ADD, .op = key_of(name)};
    (void)snprintf(payload.name, sizeof(payload.name), "%s", name);
    for (uint32_t i = 0; i < self->workers; i++) {
        frame(self, i, head, &payload, (uint32_t)(sizeof(payload.claim) + strlen(name)));
    }
    assert_int_equal(self->frames[self->frame_count - 1].head.kind, TT_SYNC_ADDED);
    self->frame_count = 0;
}

static void close_store(owner *self)
{
    for (uint32_t i = 0; i < self->workers; i++) {
        frame(self, i, (tt_head){.kind = TT_SYNC_CLOSE}, NULL, 0);
    }
}

static void end(owner *self)
{
    tt_sync_destroy(self->sync);
    assert_int_equal(self->live_bytes, 0);
}

static void send_first(owner *self, const char *name)
{
    const float zero = 0.0f;
    frame(self, 0, (tt_head){.kind = TT_SYNC_FIRST, .op = key_of(name), .descriptor = 1}, &zero,
          sizeof(zero));
    run(self);
    self->frame_count = 0;
}

/* Push number `number` of a worker and part, for iteration number - 1, and with an answer. */
static void push(owner *self, uint32_t worker, tt_head head, const float *values, uint32_t bytes)
{
    head.kind = TT_SYNC_PUSH;
    head.round = (uint32_t)head.argument - 1;
    head.descriptor = 1 + head.argument;
    frame(self, worker, head, values, bytes);
}

/* ---- quorum ---- */

static void push_one(owner *self, uint32_t worker, const char *name, uint64_t number, float value)
{
    push(self, worker, (tt_head){.op = key_of(name), .argument = number}, &value, sizeof(value));
}

static void end_iteration(owner *self, uint32_t worker, uint32_t clock)
{
    frame(self, worker, (tt_head){.kind = TT_SYNC_CLOCK, .round = clock, .argument = clock}, NULL,
          0);
}

/* What a worker reads after so many iterations. */
static float read_at(owner *self, uint32_t worker, const char *name, uint32_t clock)
{
    self->frame_count = 0;
    frame(self, worker,
          (tt_head){
              .kind = TT_SYNC_PULL, .op = key_of(name), .round = clock, .descriptor = 100 + clock},
          NULL, 0);
    run(self);
    assert_int_equal(self->frame_count, 1);
    assert_int_equal(self->frames[0].head.kind, TT_SYNC_VALUE);
    return self->frames[0].first;
}

/* Flags of the only answer that this worker got; frames are forgotten. */
static uint8_t answer_flags(owner *self, uint32_t worker)
{
    uint32_t count = 0;
    uint8_t flags = 0;
    run(self);
    for (uint32_t i = 0; i < self->frame_count; i++) {
        if (self->frames[i].peer == worker && self->frames[i].head.kind == TT_SYNC_TAKEN) {
            flags = self->frames[i].head.flags;
            count++;
        }
    }
    assert_int_equal(count, 1);
    self->frame_count = 0;
    return flags;
}

/* The third worker is late: the mean of the first two, not of three. */
static void test_a_quorum_has_the_mean_of_its_first_pushes(void **state)
{
    owner self;
    char name[8];
    (void)state;
    open_store(&self, 3, "quorum:2 sgd:lr=1");
    own_name(&self, 0, name);
    add(&self, name, 1);
    send_first(&self, name);
    push_one(&self, 2, name, 1, 7.0f);
    end_iteration(&self, 2, 1);
    push_one(&self, 1, name, 1, 1000.0f); /* it arrives in time, but its iteration goes on */
    push_one(&self, 0, name, 1, 4.0f);
    end_iteration(&self, 0, 1);
    assert_int_equal(answer_flags(&self, 1), TT_SYNC_FLAG_UNCOUNTED);
    assert_true(read_at(&self, 0, name, 1) == -5.5f);
    push_one(&self, 1, name, 2, 1.0f);
    end_iteration(&self, 1, 2);
    push_one(&self, 2, name, 2, 2.0f);
    end_iteration(&self, 2, 2);
    assert_int_equal(answer_flags(&self, 1), 0);
    assert_true(read_at(&self, 2, name, 2) == -7.0f);
    end(&self);
}

/* ---- frames of another length ---- */

/* The owner has told every worker that it failed, and how; it takes no frame of it any more. */
static void expect_failed(owner *self, uint64_t key, const char *words)
{
    const uint32_t count = self->frame_count;
    assert_int_equal(count, self->workers);
    for (uint32_t i = 0; i < count; i++) {
        const sent_frame *one = &self->frames[i];
        assert_int_equal(one->peer, i);
        assert_int_equal(one->head.kind, TT_SYNC_FAILED);
        assert_int_equal((int64_t)one->head.argument, TT_ERR_BAD_WIRE);
        assert_int_equal(one->head.op, key);
        if (strstr(one->text, words) == NULL) {
            fail_msg("\"%s\" lacks \"%s\"", one->text, words);
        }
    }
}

/* A second copy of a frame has the length of the first one. */
static void test_a_push_of_another_length_fails_the_store(void **state)
{
    static const float values[LONG_BYTES / sizeof(float)];
    static const uint32_t lengths[] = {0, 4, 12, LONG_BYTES};
    (void)state;
    for (size_t i = 0; i < TT_ARRAY_COUNT(lengths); i++) {
        for (size_t k = 0; k < 2; k++) {
            owner self;
            char name[8];
            open_store(&self, 2, k == 0 ? "bulk sum" : "stale:1 add");
            own_name(&self, 0, name);
            add(&self, name, 2);
            tt_head head = {.kind = TT_SYNC_PUSH, .op = key_of(name), .argument = 1};
            refused_frame(&self, 1, head, values, lengths[i]);
            expect_failed(&self, 0, "worker 1 (rank 1) sent ");
            expect_failed(&self, 0, ", whose part 0 has 8; use one version of Tutti on all");
            head.argument = 2;
            refused_frame(&self, 0, head, values, 8);
            run(&self);
            assert_int_equal(self.frame_count, 2);
            end(&self);
        }
    }
}

static void test_a_first_value_of_another_length_fails_the_store(void **state)
{
    static const float values[2];
    owner self;
    char name[8];
    (void)state;
    open_store(&self, 2, "stale:1 add");
    own_name(&self, 0, name);
    add(&self, name, 1);
    refused_frame(&self, 0, (tt_head){.kind = TT_SYNC_FIRST, .op = key_of(name), .descriptor = 1},
                  values, 8);
    expect_failed(&self, 0, "worker 0 (rank 0) sent 8 bytes of tensor");
    end(&self);
}

/* Three pushes whose sum depends on the order: 3 as 0, 1, 3; 0 if 3 is first or second. */
static const float large = 3e8f, three = 3.0f;

static void test_a_quorum_adds_in_the_order_of_workers(void **state)
{
    static const uint32_t orders[][3] = {{0, 1, 3}, {0, 3, 1}, {1, 0, 3},
                                         {1, 3, 0}, {3, 0, 1}, {3, 1, 0}};
    (void)state;
    assert_true(large + -large + three == 3.0f && three + large + -large == 0.0f &&
                large + three + -large == 0.0f);
    for (size_t i = 0; i < TT_ARRAY_COUNT(orders); i++) {
        const float values[] = {large, -large, 1000.0f, three};
        owner self;
        char name[8];
        open_store(&self, 4, "quorum:3 sgd:lr=1");
        own_name(&self, 0, name);
        add(&self, name, 1);
        send_first(&self, name);
        for (uint32_t k = 0; k < 3; k++) {
            const uint32_t worker = orders[i][k];
            if (k == 2) { /* its clock overtakes its push, which is waited for */
                end_iteration(&self, worker, 1);
                run(&self);
            }
            push_one(&self, worker, name, 1, values[worker]);
            if (k != 2) {
                end_iteration(&self, worker, 1);
            }
        }
        run(&self);
        self.frame_count = 0;
        push_one(&self, 2, name, 1, values[2]);
        assert_int_equal(answer_flags(&self, 2), TT_SYNC_FLAG_UNCOUNTED);
        end_iteration(&self, 2, 1);
        assert_true(read_at(&self, 0, name, 1) == -1.0f);
        end(&self);
    }
}

/* ---- urgency ---- */

/* All workers push, and want the sum. */
static void push_all(owner *self, tt_head head, uint32_t bytes)
{
    float *values = calloc(1, bytes);
    assert_non_null(values);
    head.flags = TT_SYNC_FLAG_ANSWER;
    head.argument = 1;
    for (uint32_t i = 0; i < self->workers; i++) {
        push(self, i, head, values, bytes);
    }
    free(values);
}

static uint32_t answers_of(const owner *self, const char *name)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < self->frame_count; i++) {
        count +=
            self->frames[i].head.kind == TT_SYNC_VALUE && self->frames[i].head.op == key_of(name)
                ? 1
                : 0;
    }
    return count;
}

/* A tensor of one long part here. */
static tt_head add_long(owner *self)
{
    uint32_t number = 0;
    const uint64_t bytes = (uint64_t)LONG_BYTES * self->workers;
    assert_int_equal(own_parts(self, "long", bytes, &number), LONG_BYTES);
    add(self, "long", bytes / sizeof(float));
    return (tt_head){.op = key_of("long"), .lane = number};
}

static void test_the_most_urgent_part_is_first(void **state)
{
    static const int16_t urgencies[] = {0, 5, -3, 5, 32767, -32768};
    static const uint32_t order[] = {4, 1, 3, 0, 2, 5}; /* of equal ones the older */
    char names[TT_ARRAY_COUNT(urgencies)][8];
    owner self;
    (void)state;
    open_store(&self, 2, "bulk sum");
    for (uint32_t i = 0; i < TT_ARRAY_COUNT(urgencies); i++) {
        own_name(&self, i, names[i]);
        add(&self, names[i], 1);
    }
    for (uint32_t i = 0; i < TT_ARRAY_COUNT(urgencies); i++) {
        push_all(&self, (tt_head){.op = key_of(names[i]), .stage = (uint16_t)urgencies[i]},
                 sizeof(float));
    }
    run(&self);
    assert_int_equal(self.frame_count, 2 * TT_ARRAY_COUNT(urgencies));
    for (uint32_t i = 0; i < self.frame_count; i++) {
        assert_int_equal(self.frames[i].head.kind, TT_SYNC_VALUE);
        assert_int_equal(self.frames[i].head.op, key_of(names[order[i / 2]]));
    }
    end(&self);
}

static void test_an_urgent_sum_overtakes_a_long_one(void **state)
{
    owner self;
    char name[8];
    (void)state;
    open_store(&self, LONG_WORKERS, "bulk sum");
    const tt_head whole = add_long(&self);
    own_name(&self, 0, name);
    add(&self, name, 1);
    push_all(&self, whole, LONG_BYTES);
    assert_true(step(&self)); /* the sum begins, */
    assert_true(step(&self)); /* and its first piece is added */
    assert_int_equal(self.frame_count, 0);
    push_all(&self, (tt_head){.op = key_of(name), .stage = 1}, sizeof(float));
    while (answers_of(&self, name) == 0) {
        assert_true(step(&self));
        assert_int_equal(answers_of(&self, "long"), 0);
    }
    assert_int_equal(answers_of(&self, name), LONG_WORKERS);
    assert_true(step(&self)); /* the long one has more than one piece left */
    assert_int_equal(answers_of(&self, "long"), 0);
    run(&self);
    assert_int_equal(answers_of(&self, "long"), LONG_WORKERS);
    end(&self);
}

/* A sum that is less urgent waits until the long one is over. */
static void test_a_long_sum_is_not_overtaken_by_others(void **state)
{
    owner self;
    char name[8];
    (void)state;
    open_store(&self, LONG_WORKERS, "bulk sum");
    tt_head whole = add_long(&self);
    whole.stage = 1;
    own_name(&self, 0, name);
    add(&self, name, 1);
    push_all(&self, whole, LONG_BYTES);
    assert_true(step(&self));
    push_all(&self, (tt_head){.op = key_of(name)}, sizeof(float));
    while (answers_of(&self, "long") == 0) {
        assert_true(step(&self));
        assert_int_equal(answers_of(&self, name), 0);
    }
    run(&self);
    assert_int_equal(answers_of(&self, name), LONG_WORKERS);
    end(&self);
}

/* ---- memory ---- */

/* Shares that a tensor takes here while it is added, by workers' pushes, versions and state. */
static void check_shares(uint32_t workers, const char *settings, uint32_t shares)
{
    enum { COUNT = 1024 * 1024 / sizeof(float) };
    owner self;
    char name[8];
    uint32_t first;
    open_store(&self, workers, settings);
    own_name(&self, 0, name);
    add(&self, name, 1); /* tables of parts grow */
    const uint64_t share = own_parts(&self, "large", COUNT * sizeof(float), &first);
    assert_true(share > 4 * RECORDS_BYTES);
    const uint64_t before = self.live_bytes;
    self.most_bytes = 0;
    add(&self, "large", COUNT);
    assert_in_range(self.live_bytes - before, shares * share, shares * share + RECORDS_BYTES);
    assert_true(self.most_bytes - before <= shares * share + RECORDS_BYTES);
    close_store(&self);
    assert_true(self.live_bytes < before);
    end(&self);
}

static void test_an_owner_has_workers_and_two_shares(void **state)
{
    static const char *const plain[] = {"bulk sum",       "bulk add",     "stale:2 add",
                                        "async sgd:lr=1", "quorum:2 sum", "bulk sgd:lr=1"};
    (void)state;
    for (size_t i = 0; i < TT_ARRAY_COUNT(plain); i++) {
        check_shares(2, plain[i], 2 + 2);
        check_shares(5, plain[i], 5 + 2);
    }
    check_shares(4, "bulk momentum", 4 + 2 + 1);
    check_shares(4, "async adam", 4 + 2 + 2);
    check_shares(4, "async sgd:dc=0.1", 4 + 2 + 4);
}

static void test_sums_take_no_memory(void **state)
{
    owner self;
    (void)state;
    open_store(&self, LONG_WORKERS, "bulk sum");
    const tt_head whole = add_long(&self);
    self.most_bytes = 0;
    const uint64_t before = self.live_bytes;
    push_all(&self, whole, LONG_BYTES);
    run(&self);
    assert_int_equal(answers_of(&self, "long"), LONG_WORKERS);
    assert_int_equal(self.live_bytes, before);
    assert_int_equal(self.most_bytes, 0);
    end(&self);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_quorum_has_the_mean_of_its_first_pushes),
        cmocka_unit_test(test_a_push_of_another_length_fails_the_store),
        cmocka_unit_test(test_a_first_value_of_another_length_fails_the_store),
        cmocka_unit_test(test_a_quorum_adds_in_the_order_of_workers),
        cmocka_unit_test(test_the_most_urgent_part_is_first),
        cmocka_unit_test(test_an_urgent_sum_overtakes_a_long_one),
        cmocka_unit_test(test_a_long_sum_is_not_overtaken_by_others),
        cmocka_unit_test(test_an_owner_has_workers_and_two_shares),
        cmocka_unit_test(test_sums_take_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
