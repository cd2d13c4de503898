/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp_blocks_test.c - long sealed frames whose blocks other threads seal and open.
 *
 * Method: a link without threads is the plain twin. Threads are lent in several ways: no thread
 * ever runs a task, the last block is run first, real threads run posted tasks, or a thread has
 * begun a task and is held until the link waits for it. The contents of a frame follow from its op
 * number; borrowed memory is poisoned and freed as soon as it is given back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/base.h"
#include "support/payload.h"
#include "transport/tcp/tcp.h"
#include "transport/tcp/tcp_internal.h"

enum { OPS_MAX = 256, WORKERS = 3, WAITING_MAX = 64, BLOCK = TT_SEAL_BLOCK_BYTES_MAX };

/* ---- threads that are lent ---- */

typedef enum lending {
    LEND_NONE,     /* no hands at all: the plain twin */
    LEND_NOBODY,   /* threads that never run a task */
    LEND_BACKWARD, /* `call` runs all posted tasks, the last first */
    LEND_THREADS,
    LEND_HELD, /* a thread begins the last task, and ends it when the link waits for it */
    LEND_COUNT,
} lending;

typedef struct pool {
    lending how;
    tt_hands hands;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    tt_task *waiting[WAITING_MAX];
    uint32_t waiting_count;
    tt_task *done[WAITING_MAX];
    uint32_t done_count;
    uint32_t posted, finished, helped; /* helped: by other threads, or before they were needed */
    const tt_task *held;
    bool is_held_awaited, is_over;
    pthread_t workers[WORKERS];
} pool;

static bool remove_from(tt_task **tasks, uint32_t *count, const tt_task *task)
{
    for (uint32_t i = 0; i < *count; i++) {
        if (tasks[i] == task) {
            tasks[i] = tasks[--*count];
            return true;
        }
    }
    return false;
}

/* Takes the last task and runs it, without the lock. */
static void do_last(pool *self)
{
    tt_task *task = self->waiting[--self->waiting_count];
    if (self->how == LEND_HELD) {
        self->held = task;
        while (!self->is_held_awaited) {
            (void)pthread_cond_wait(&self->changed, &self->lock);
        }
        self->is_held_awaited = false;
    }
    (void)pthread_mutex_unlock(&self->lock);
    task->run(task);
    (void)pthread_mutex_lock(&self->lock);
    self->held = NULL;
    self->helped++;
    self->done[self->done_count++] = task;
    (void)pthread_cond_broadcast(&self->changed);
}

static void *work(void *argument)
{
    pool *self = argument;
    (void)pthread_mutex_lock(&self->lock);
    while (!self->is_over) {
        if (self->waiting_count > 0) {
            do_last(self);
        } else {
            (void)pthread_cond_wait(&self->changed, &self->lock);
        }
    }
    (void)pthread_mutex_unlock(&self->lock);
    return NULL;
}

static void pool_post(void *owner, tt_task *task)
{
    pool *self = owner;
    (void)pthread_mutex_lock(&self->lock);
    assert_true(self->waiting_count < WAITING_MAX);
    self->waiting[self->waiting_count++] = task;
    self->posted++;
    (void)pthread_mutex_unlock(&self->lock);
}

static void pool_call(void *owner)
{
    pool *self = owner;
    (void)pthread_mutex_lock(&self->lock);
    (void)pthread_cond_broadcast(&self->changed);
    while (self->how == LEND_BACKWARD && self->waiting_count > 0) {
        do_last(self);
    }
    while (self->how == LEND_HELD && self->held == NULL && self->waiting_count > 0) {
        (void)pthread_mutex_unlock(&self->lock);
        (void)sched_yield();
        (void)pthread_mutex_lock(&self->lock);
    }
    (void)pthread_mutex_unlock(&self->lock);
}

static bool pool_is_done(void *owner, const tt_task *task)
{
    pool *self = owner;
    bool is_done = false;
    (void)pthread_mutex_lock(&self->lock);
    for (uint32_t i = 0; i < self->done_count; i++) {
        is_done = is_done || self->done[i] == task;
    }
    (void)pthread_mutex_unlock(&self->lock);
    return is_done;
}

static void pool_finish(void *owner, tt_task *task)
{
    pool *self = owner;
    (void)pthread_mutex_lock(&self->lock);
    self->finished++;
    if (remove_from(self->waiting, &self->waiting_count, task)) {
        (void)pthread_mutex_unlock(&self->lock);
        task->run(task);
        return;
    }
    if (self->held == task) {
        self->is_held_awaited = true;
        (void)pthread_cond_broadcast(&self->changed);
    }
    while (!remove_from(self->done, &self->done_count, task)) {
        (void)pthread_cond_wait(&self->changed, &self->lock);
    }
    (void)pthread_mutex_unlock(&self->lock);
}

static const tt_hands_ops pool_ops = {
    .post = pool_post, .call = pool_call, .is_done = pool_is_done, .finish = pool_finish};

static uint32_t worker_count(const pool *self)
{
    return self->how == LEND_THREADS ? WORKERS : self->how == LEND_HELD ? 1 : 0;
}

static void pool_init(pool *self, lending how)
{
    *self = (pool){.how = how, .hands = {.ops = &pool_ops, .owner = self}};
    (void)pthread_mutex_init(&self->lock, NULL);
    (void)pthread_cond_init(&self->changed, NULL);
    for (uint32_t i = 0; i < worker_count(self); i++) {
        assert_int_equal(pthread_create(&self->workers[i], NULL, work, self), 0);
    }
}

/* In any case every task was finished once and none is left. */
static void pool_fini(pool *self)
{
    (void)pthread_mutex_lock(&self->lock);
    assert_int_equal(self->finished, self->posted);
    assert_int_equal(self->waiting_count + self->done_count, 0);
    self->is_over = true;
    (void)pthread_cond_broadcast(&self->changed);
    (void)pthread_mutex_unlock(&self->lock);
    for (uint32_t i = 0; i < worker_count(self); i++) {
        (void)pthread_join(self->workers[i], NULL);
    }
    (void)pthread_cond_destroy(&self->changed);
    (void)pthread_mutex_destroy(&self->lock);
}

static const tt_hands *hands_of(pool *self)
{
    return self->how == LEND_NONE ? NULL : &self->hands;
}

/* ---- ends ---- */

typedef struct end {
    tt_machine machine;
    tt_link *link;
    uint8_t *lent[OPS_MAX];
    uint32_t lent_bytes[OPS_MAX];
    uint32_t order[OPS_MAX];
    uint32_t arrived_count, lent_count;
    uint8_t *sink;
    uint32_t sink_bytes;
    bool drops_all;
} end;

static void *on_frame(void *machine, uint32_t peer, const tt_head *head, const void *payload)
{
    end *self = machine;
    (void)peer;
    assert_null(self->sink);
    if (head->payload_bytes <= TT_INLINE_BYTES_MAX) {
        check(payload, head->op, head->payload_bytes);
        self->order[self->arrived_count++] = (uint32_t)head->op;
        return NULL;
    }
    if (self->drops_all) {
        return NULL;
    }
    self->sink = calloc(1, head->payload_bytes);
    self->sink_bytes = head->payload_bytes;
    return self->sink;
}

static void on_payload(void *machine, uint32_t peer, const tt_head *head)
{
    end *self = machine;
    (void)peer;
    check(self->sink, head->op, head->payload_bytes);
    self->order[self->arrived_count++] = (uint32_t)head->op;
    free(self->sink);
    self->sink = NULL;
}

static void take_back(end *self, uint64_t token)
{
    assert_non_null(self->lent[token]);
    memset(self->lent[token], 0xee, self->lent_bytes[token]);
    free(self->lent[token]);
    self->lent[token] = NULL;
    self->lent_count--;
}

static void on_sent(void *machine, uint64_t token)
{
    take_back(machine, token);
}

static const tt_machine_ops end_ops = {.frame = on_frame, .payload = on_payload, .sent = on_sent};

static void end_init(end *self, const int fds[2], const uint8_t keys[2], const tt_hands *hands)
{
    tt_tcp_config config = {.peer = 3,
                            .send_fd = fds[0],
                            .receive_fd = fds[1],
                            .mode = TT_SEAL_AEAD,
                            .cipher = tt_seal_has_aes() ? TT_SEAL_AES256 : TT_SEAL_CHACHA20};
    memset(self, 0, sizeof(*self));
    self->machine = (tt_machine){.ops = &end_ops, .self = self};
    config.machine = &self->machine;
    memset(config.send_key, keys[0], sizeof(config.send_key));
    memset(config.receive_key, keys[1], sizeof(config.receive_key));
    assert_int_equal(tt_tcp_link_create(&config, &self->link), TT_OK);
    self->link->hands = hands;
}

static void end_fini(end *self)
{
    self->link->ops->destroy(self->link); /* first: no thread may use lent memory afterwards */
    for (size_t i = 0; i < OPS_MAX; i++) {
        free(self->lent[i]);
    }
    free(self->sink);
}

static tt_status end_send(end *self, uint64_t op, uint32_t payload_bytes, int32_t urgency)
{
    const tt_head head = {.kind = 7, .op = op, .payload_bytes = payload_bytes};
    uint8_t *payload = malloc(payload_bytes + 1);
    fill(payload, op, payload_bytes);
    self->lent[op] = payload;
    self->lent_bytes[op] = payload_bytes;
    self->lent_count++;
    const tt_send send = {
        .peer = 3, .urgency = urgency, .age = op, .token = op, .payload = payload, .head = &head};
    const tt_status status = self->link->ops->send(self->link, &send);
    if (status != TT_IN_PROGRESS) {
        take_back(self, op);
    }
    return status;
}

static void stream_pair(int fds[2], int room)
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    for (int i = 0; i < 2 && room > 0; i++) {
        assert_int_equal(setsockopt(fds[i], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)), 0);
    }
}

static void ends_create(end *a, end *b, int room, pool *pool_a, pool *pool_b)
{
    int there[2], back[2];
    stream_pair(there, room);
    stream_pair(back, room);
    end_init(a, (const int[2]){there[0], back[0]}, (const uint8_t[2]){1, 2}, hands_of(pool_a));
    end_init(b, (const int[2]){back[1], there[1]}, (const uint8_t[2]){2, 1}, hands_of(pool_b));
}

static void ends_poll(end *a, end *b)
{
    (void)a->link->ops->poll(a->link);
    (void)b->link->ops->poll(b->link);
}

static void ends_close(end *a, end *b)
{
    a->link->ops->close(a->link);
    b->link->ops->close(b->link);
    while (!a->link->ops->closed(a->link) || !b->link->ops->closed(b->link)) {
        ends_poll(a, b);
    }
    assert_int_equal(a->link->state, TT_LINK_LEFT);
    assert_int_equal(b->link->state, TT_LINK_LEFT);
    end_fini(a);
    end_fini(b);
}

static const uint32_t SIZES[] = {
    100,       BLOCK,         BLOCK + 1,  5, 2 * BLOCK, 2 * BLOCK + 7, 300000,       20000,
    4 * BLOCK, 4 * BLOCK + 1, 16 * BLOCK, 0, 700,       9 * BLOCK - 1, BLOCK + 65535};

/* ---- the wire ---- */

typedef struct recording {
    uint8_t *bytes;
    size_t count;
} recording;

static recording record_sizes(lending how, const uint32_t *sizes, uint32_t count, bool goodbye)
{
    enum { ROOM = 8 * 1024 * 1024 };
    recording tape = {.bytes = malloc(ROOM)};
    pool helpers;
    end a;
    int there[2], back[2];
    stream_pair(there, 0);
    stream_pair(back, 0);
    pool_init(&helpers, how);
    end_init(&a, (const int[2]){there[0], back[0]}, (const uint8_t[2]){1, 2}, hands_of(&helpers));
    for (uint32_t op = 0; op < count; op++) {
        assert_true(end_send(&a, op, sizes[op], 0) >= TT_OK);
    }
    if (goodbye) {
        a.link->ops->close(a.link);
    }
    do {
        (void)a.link->ops->poll(a.link);
        const ssize_t got =
            recv(there[1], tape.bytes + tape.count, ROOM - tape.count, MSG_DONTWAIT);
        tape.count += got > 0 ? (size_t)got : 0;
    } while (tt_tcp_sender_has_work(TT_CONTAINER_OF(a.link, tt_tcp, link)) ||
             tape.count < a.link->bytes_sent);
    assert_int_equal(a.lent_count, 0);
    (void)close(there[1]);
    (void)close(back[1]);
    end_fini(&a);
    pool_fini(&helpers);
    return tape;
}

static void test_the_wire_carries_the_bytes_of_the_plain_twin(void **state)
{
    (void)state;
    const recording plain = record_sizes(LEND_NONE, SIZES, TT_ARRAY_COUNT(SIZES), true);
    for (lending how = LEND_NOBODY; how < LEND_COUNT; how++) {
        recording shared = record_sizes(how, SIZES, TT_ARRAY_COUNT(SIZES), true);
        assert_int_equal(shared.count, plain.count);
        assert_memory_equal(shared.bytes, plain.bytes, plain.count);
        free(shared.bytes);
    }
    free(plain.bytes);
}

/* Plays bytes to a fresh link until it ends. */
static void play(lending how, const recording *tape, size_t count, end *b)
{
    int there[2], back[2];
    pool helpers;
    size_t written = 0;
    stream_pair(there, 0);
    stream_pair(back, 0);
    pool_init(&helpers, how);
    end_init(b, (const int[2]){back[1], there[1]}, (const uint8_t[2]){2, 1}, hands_of(&helpers));
    while (b->link->state == TT_LINK_UP) {
        const ssize_t sent =
            send(there[0], tape->bytes + written, count - written, MSG_DONTWAIT | MSG_NOSIGNAL);
        written += sent > 0 ? (size_t)sent : 0;
        if (written == count) {
            (void)shutdown(there[0], SHUT_WR);
            (void)shutdown(back[0], SHUT_WR);
        }
        (void)b->link->ops->poll(b->link);
    }
    (void)close(there[0]);
    (void)close(back[0]);
    b->link->hands = NULL; /* the link has ended: no thread works for it */
    pool_fini(&helpers);
}

enum { PREFIX_BYTES = 300, LONG_BLOCKS = 6 };
static const uint32_t TAMPERED[] = {PREFIX_BYTES, LONG_BLOCKS *BLOCK - 1000, 70};

/* Offset of the block on the wire. */
static size_t block_at(size_t block)
{
    return TT_SEAL_SEALED_HEAD_BYTES + PREFIX_BYTES + TT_SEAL_TAG_BYTES +
           TT_SEAL_SEALED_HEAD_BYTES + block * (BLOCK + TT_SEAL_TAG_BYTES);
}

static bool is_zero(const uint8_t *bytes, size_t count)
{
    uint8_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum |= bytes[i];
    }
    return sum == 0;
}

static void check_tampered(lending how, const recording *tape, size_t block, size_t offset)
{
    end b;
    uint8_t *expected = malloc(TAMPERED[1]);
    tape->bytes[block_at(block) + offset] ^= 0x40;
    play(how, tape, tape->count, &b);
    tape->bytes[block_at(block) + offset] ^= 0x40;
    assert_int_equal(b.link->state, TT_LINK_DOWN);
    assert_string_equal(b.link->why, "payload of frame from rank 3 is not authentic");
    assert_int_equal(b.arrived_count, 1); /* the frame before it only */
    assert_non_null(b.sink);
    fill(expected, 1, TAMPERED[1]);
    for (size_t i = 0; i < LONG_BLOCKS; i++) { /* the sink only ever holds authentic bytes */
        const size_t at = i * BLOCK, count = tt_min_u64(BLOCK, TAMPERED[1] - at);
        assert_true(is_zero(b.sink + at, count) ||
                    (i != block && memcmp(b.sink + at, expected + at, count) == 0));
    }
    const tt_tcp *tcp = TT_CONTAINER_OF(b.link, tt_tcp, link);
    assert_false(tcp->receiver.seal.alive);
    assert_true(tcp->receiver.has_rejected);
    free(expected);
    end_fini(&b);
}

static void test_a_change_in_any_block_ends_the_link_and_is_never_delivered(void **state)
{
    (void)state;
    const recording tape = record_sizes(LEND_NONE, TAMPERED, TT_ARRAY_COUNT(TAMPERED), true);
    for (lending how = LEND_NONE; how < LEND_COUNT; how++) {
        for (size_t block = 0; block < LONG_BLOCKS; block++) {
            const size_t plain_bytes = tt_min_u64(BLOCK, TAMPERED[1] - block * BLOCK);
            check_tampered(how, &tape, block, 0);
            check_tampered(how, &tape, block, plain_bytes - 1);
            check_tampered(how, &tape, block, plain_bytes + TT_SEAL_TAG_BYTES - 1);
        }
    }
    free(tape.bytes);
}

static void test_blocks_that_change_places_are_refused(void **state)
{
    (void)state;
    const recording tape = record_sizes(LEND_NONE, TAMPERED, TT_ARRAY_COUNT(TAMPERED), true);
    const size_t stride = BLOCK + TT_SEAL_TAG_BYTES;
    uint8_t *kept = malloc(stride);
    memcpy(kept, tape.bytes + block_at(1), stride);
    memcpy(tape.bytes + block_at(1), tape.bytes + block_at(2), stride);
    memcpy(tape.bytes + block_at(2), kept, stride);
    for (lending how = LEND_NOBODY; how < LEND_COUNT; how++) {
        end b;
        play(how, &tape, tape.count, &b);
        assert_string_equal(b.link->why, "payload of frame from rank 3 is not authentic");
        assert_int_equal(b.arrived_count, 1);
        end_fini(&b);
    }
    free(kept);
    free(tape.bytes);
}

static void test_a_stream_cut_anywhere_is_down_and_never_wrong(void **state)
{
    (void)state;
    const recording tape = record_sizes(LEND_NONE, TAMPERED, TT_ARRAY_COUNT(TAMPERED), true);
    for (lending how = LEND_NOBODY; how < LEND_COUNT; how++) {
        for (size_t cut = block_at(0); cut < tape.count; cut += 9973) {
            end b;
            play(how, &tape, cut, &b);
            assert_int_equal(b.link->state, TT_LINK_DOWN);
            assert_string_equal(b.link->why, "connection closed");
            end_fini(&b);
        }
        end b;
        play(how, &tape, tape.count, &b);
        assert_int_equal(b.link->state, TT_LINK_LEFT);
        assert_int_equal(b.arrived_count, TT_ARRAY_COUNT(TAMPERED));
        end_fini(&b);
    }
    free(tape.bytes);
}

/* ---- two ends ---- */

static void frames_both_ways(lending how_a, lending how_b, int room, bool drops)
{
    pool pool_a, pool_b;
    end a, b;
    const uint32_t count = TT_ARRAY_COUNT(SIZES);
    uint32_t inline_count = 0;
    pool_init(&pool_a, how_a);
    pool_init(&pool_b, how_b);
    ends_create(&a, &b, room, &pool_a, &pool_b);
    b.drops_all = drops;
    for (uint32_t op = 0; op < count; op++) {
        inline_count += SIZES[op] <= TT_INLINE_BYTES_MAX;
        assert_true(end_send(&a, op, SIZES[op], 0) >= TT_OK);
        assert_true(end_send(&b, op, SIZES[count - 1 - op], 0) >= TT_OK);
    }
    while (a.arrived_count < count || b.link->frames_received < count || a.lent_count > 0 ||
           b.arrived_count < (drops ? inline_count : count)) {
        ends_poll(&a, &b);
    }
    ends_close(&a, &b);
    pool_fini(&pool_a);
    pool_fini(&pool_b);
}

static void test_frames_of_every_size_arrive_whole_both_ways(void **state)
{
    (void)state;
    for (lending how_a = LEND_NONE; how_a < LEND_COUNT; how_a++) {
        for (lending how_b = LEND_NONE; how_b < LEND_COUNT; how_b++) {
            frames_both_ways(how_a, how_b, 0, false);
        }
        frames_both_ways(how_a, how_a, 1, false); /* every write is short */
        frames_both_ways(how_a, how_a, 0, true);
    }
}

static void test_urgent_frames_overtake_frames_that_have_not_begun(void **state)
{
    (void)state;
    for (lending how = LEND_NONE; how < LEND_COUNT; how++) {
        static const uint32_t expected[] = {0, 5, 6, 1, 2, 3, 4};
        pool pool_a, pool_b;
        end a, b;
        pool_init(&pool_a, how);
        pool_init(&pool_b, how);
        ends_create(&a, &b, 1, &pool_a, &pool_b);
        for (uint32_t op = 0; op < 5; op++) {
            assert_int_equal(end_send(&a, op, 4 * BLOCK, 1), TT_IN_PROGRESS);
        }
        (void)a.link->ops->poll(a.link); /* the blocks of the first are sealed and wait */
        assert_int_equal(end_send(&a, 5, 8, TT_URGENCY_CONTROL), TT_OK);
        assert_int_equal(end_send(&a, 6, 4 * BLOCK, 2), TT_IN_PROGRESS);
        while (b.arrived_count < 7) {
            ends_poll(&a, &b);
        }
        assert_memory_equal(b.order, expected, sizeof(expected));
        ends_close(&a, &b);
        pool_fini(&pool_a);
        pool_fini(&pool_b);
    }
}

/* Payloads are recalled and sinks discarded while blocks are being sealed and opened. */
static void random_recalls_and_discards(lending how, uint64_t seed)
{
    enum { COUNT = 40 };
    pool pool_a, pool_b;
    end a, b;
    uint64_t random_state = seed;
    uint32_t op = 0, gone = 0;
    pool_init(&pool_a, how);
    pool_init(&pool_b, how);
    ends_create(&a, &b, 100000, &pool_a, &pool_b);
    while (op < COUNT || a.lent_count > 0) {
        const uint64_t draw = next_random(&random_state);
        if (op < COUNT && draw % 3 != 0) {
            assert_true(end_send(&a, op++, (uint32_t)(draw >> 20) % 400000, (int32_t)(draw % 3)) >=
                        TT_OK);
        }
        const uint32_t victim = (uint32_t)(draw >> 40) % COUNT;
        if (draw % 5 == 0 && a.lent[victim] != NULL) {
            a.link->ops->recall(a.link, victim);
            take_back(&a, victim);
            gone++;
        }
        ends_poll(&a, &b);
        if (draw % 11 == 0 && b.sink != NULL) {
            b.link->ops->discard(b.link);
            memset(b.sink, 0xdd, b.sink_bytes);
            free(b.sink);
            b.sink = NULL;
            gone++;
        }
    }
    a.link->ops->close(a.link);
    while (!b.link->ops->closed(b.link)) {
        ends_poll(&a, &b);
    }
    assert_string_equal(b.link->why, "said goodbye");
    assert_true(b.arrived_count + gone >= COUNT);
    end_fini(&a);
    end_fini(&b);
    pool_fini(&pool_a);
    pool_fini(&pool_b);
}

static void test_recall_and_discard_at_any_moment_keep_the_stream_whole(void **state)
{
    (void)state;
    for (lending how = LEND_NONE; how < LEND_COUNT; how++) {
        for (uint64_t seed = 1; seed <= 6; seed++) {
            random_recalls_and_discards(how, seed);
        }
    }
}

/* A thread runs a block when the link, its memory and the payload are released. */
static void test_a_link_ends_only_after_threads_finish_its_blocks(void **state)
{
    (void)state;
    for (int by_failure = 0; by_failure < 2; by_failure++) {
        pool pool_a, pool_b;
        end a, b;
        pool_init(&pool_a, LEND_HELD);
        pool_init(&pool_b, LEND_NONE);
        ends_create(&a, &b, 0, &pool_a, &pool_b);
        assert_int_equal(end_send(&a, 0, 4 * BLOCK, 0), TT_IN_PROGRESS);
        assert_non_null(pool_a.held); /* `call` has waited for it */
        if (by_failure) {
            tt_tcp_fail(TT_CONTAINER_OF(a.link, tt_tcp, link), "for a test");
            assert_int_equal(pool_a.finished, 4);
            take_back(&a, 0);
        }
        end_fini(&a);
        end_fini(&b);
        assert_int_equal(pool_a.helped, 1);
        pool_fini(&pool_a);
        pool_fini(&pool_b);
    }
}

static void test_a_receiver_ends_only_after_threads_finish_its_blocks(void **state)
{
    (void)state;
    pool pool_a, pool_b;
    end a, b;
    pool_init(&pool_a, LEND_NONE);
    pool_init(&pool_b, LEND_HELD);
    ends_create(&a, &b, 0, &pool_a, &pool_b);
    assert_true(end_send(&a, 0, 4 * BLOCK, 0) >= TT_OK);
    while (b.sink == NULL || TT_CONTAINER_OF(b.link, tt_tcp, link)->receiver.blocks.count == 0) {
        (void)a.link->ops->poll(a.link);
        (void)b.link->ops->poll(b.link);
    }
    assert_non_null(pool_b.held);
    b.link->ops->discard(b.link); /* afterwards the thread no longer writes to the sink */
    assert_null(pool_b.held);
    free(b.sink);
    b.sink = NULL;
    end_fini(&b);
    end_fini(&a);
    pool_fini(&pool_a);
    pool_fini(&pool_b);
}

static void test_the_first_frame_that_needs_memory_allocates_it(void **state)
{
    (void)state;
    for (lending how = LEND_NONE; how <= LEND_NOBODY; how++) {
        pool pool_a, pool_b;
        end a, b;
        pool_init(&pool_a, how);
        pool_init(&pool_b, how);
        ends_create(&a, &b, 0, &pool_a, &pool_b);
        const tt_tcp *sender = TT_CONTAINER_OF(a.link, tt_tcp, link);
        const tt_tcp *receiver = TT_CONTAINER_OF(b.link, tt_tcp, link);
        for (uint32_t op = 0; op < 2; op++) {
            assert_true(end_send(&a, op, op == 0 ? BLOCK : BLOCK + 1, 0) >= TT_OK);
            while (b.arrived_count <= op) {
                ends_poll(&a, &b);
            }
            const bool is_taken = op == 1 && how == LEND_NOBODY;
            assert_int_equal(sender->sender.blocks.memory != NULL, is_taken);
            assert_int_equal(receiver->receiver.blocks.memory != NULL, is_taken);
            assert_null(sender->receiver.blocks.memory);
        }
        ends_close(&a, &b);
        pool_fini(&pool_a);
        pool_fini(&pool_b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_wire_carries_the_bytes_of_the_plain_twin),
        cmocka_unit_test(test_a_change_in_any_block_ends_the_link_and_is_never_delivered),
        cmocka_unit_test(test_blocks_that_change_places_are_refused),
        cmocka_unit_test(test_a_stream_cut_anywhere_is_down_and_never_wrong),
        cmocka_unit_test(test_frames_of_every_size_arrive_whole_both_ways),
        cmocka_unit_test(test_urgent_frames_overtake_frames_that_have_not_begun),
        cmocka_unit_test(test_recall_and_discard_at_any_moment_keep_the_stream_whole),
        cmocka_unit_test(test_a_link_ends_only_after_threads_finish_its_blocks),
        cmocka_unit_test(test_a_receiver_ends_only_after_threads_finish_its_blocks),
        cmocka_unit_test(test_the_first_frame_that_needs_memory_allocates_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
