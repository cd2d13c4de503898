/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_network_test.c - frames on a model of the network: when they depart, in which order, when
 * they arrive, and what the processor does meanwhile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "platform/sim.h"

enum {
    RANKS = 4,
    SEEN_MAX = 32,
    START_NS = 1000,
    OVERHEAD_NS = 10,
    LATENCY_NS = 1000,
    GAP_NS = 5,
    BYTES = 100, /* a nanosecond each */
};

/* A rank that notes what it is told. */
typedef struct seen {
    uint64_t at_ns, op;
    uint32_t from;
    bool is_payload, is_sent;
} seen;

typedef struct actor {
    struct world *world;
    uint32_t rank;
    seen list[SEEN_MAX];
    uint32_t count;
    uint8_t sink[64 * 1024];
} actor;

typedef struct model {
    tt_sim_network base;
    uint64_t asked_ns; /* latest */
    bool is_in_order;
} model;

typedef struct world {
    tt_sim *sim;
    model model;
    actor actors[RANKS];
} world;

/* ---- the model: a card per host of two ranks, or per rank ---- */

static uint32_t model_card(const tt_sim_network *network, uint32_t source, uint32_t target)
{
    (void)target;
    return network->is_private ? source : source / 2;
}

static void note_order(model *self, uint64_t at_ns)
{
    self->is_in_order = self->is_in_order && at_ns >= self->asked_ns;
    self->asked_ns = at_ns;
}

static tt_sim_departure model_send(tt_sim_network *network, const tt_sim_frame *frame,
                                   uint64_t at_ns)
{
    note_order(TT_CONTAINER_OF(network, model, base), at_ns);
    return (tt_sim_departure){.released_ns = at_ns + frame->bytes,
                              .free_ns = at_ns + frame->bytes + GAP_NS,
                              .head_ns = at_ns + LATENCY_NS / 2};
}

/* Two links. */
static bool model_pass(tt_sim_network *network, const tt_sim_frame *frame, uint32_t hop,
                       uint64_t *at_ns_io)
{
    note_order(TT_CONTAINER_OF(network, model, base), *at_ns_io);
    assert_in_range(hop, 1, 2);
    *at_ns_io += hop == 1 ? LATENCY_NS / 2 : frame->bytes;
    return hop == 2;
}

static uint64_t model_overhead(const tt_sim_network *network, uint32_t bytes)
{
    (void)network;
    (void)bytes;
    return OVERHEAD_NS;
}

static uint64_t model_work(tt_sim_network *network, uint32_t rank, tt_spend_kind kind,
                           uint64_t bytes, uint64_t at_ns)
{
    (void)network;
    (void)rank;
    return at_ns + bytes * (kind == TT_SPEND_REDUCE ? 2 : 1);
}

static const tt_sim_network_ops model_ops = {
    .card = model_card,
    .send = model_send,
    .pass = model_pass,
    .overhead = model_overhead,
    .work = model_work,
};

/* ---- ranks ---- */

static void note(actor *self, seen what)
{
    assert_in_range(self->count, 0, SEEN_MAX - 1);
    what.at_ns = tt_sim_now(self->world->sim);
    self->list[self->count++] = what;
}

static void *on_frame(void *self, uint32_t peer, const tt_head *head, const void *payload)
{
    note(self, (seen){.from = peer, .op = head->op});
    return payload == NULL ? ((actor *)self)->sink : NULL;
}

static void on_payload(void *self, uint32_t peer, const tt_head *head)
{
    note(self, (seen){.from = peer, .op = head->op, .is_payload = true});
}

static void on_sent(void *self, uint64_t token)
{
    note(self, (seen){.op = token, .is_sent = true});
}

static void on_timer(void *self)
{
    (void)self;
}

static void on_peer(void *self, uint32_t peer, tt_peer_event event, const char *why)
{
    (void)self;
    (void)peer;
    (void)event;
    (void)why;
}

static bool on_step(void *self)
{
    (void)self;
    return false;
}

static const tt_machine_ops actor_ops = {
    .frame = on_frame,
    .payload = on_payload,
    .sent = on_sent,
    .timer = on_timer,
    .peer = on_peer,
    .step = on_step,
};

static void world_init(world *it, bool is_private)
{
    tt_sim_config config;
    memset(it, 0, sizeof(*it));
    it->model = (model){
        .base = {.ops = &model_ops, .card_count = is_private ? RANKS : 2, .is_private = is_private},
        .is_in_order = true};
    tt_sim_config_init(&config);
    config.size = RANKS;
    config.upcall_ns = 0;
    config.network = &it->model.base;
    it->sim = tt_sim_create(&config);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        it->actors[rank].world = it;
        it->actors[rank].rank = rank;
        tt_sim_attach(it->sim, rank, (tt_machine){.ops = &actor_ops, .self = &it->actors[rank]});
    }
}

static void world_fini(world *it)
{
    assert_true(tt_sim_destroy(it->sim));
}

static uint8_t bytes_to_send[64 * 1024];

static void send_one(const actor *self, uint32_t peer, uint64_t op, uint32_t bytes, int32_t urgency)
{
    tt_platform *platform = tt_sim_platform(self->world->sim, self->rank);
    const tt_head head = {.op = op, .payload_bytes = bytes};
    const tt_send send = {.peer = peer,
                          .urgency = urgency,
                          .age = op,
                          .token = op,
                          .payload = bytes_to_send,
                          .head = &head};
    assert_int_equal(platform->ops->send(platform, &send), bytes > 0 ? TT_IN_PROGRESS : TT_OK);
}

static void run_call(world *it, uint32_t rank, tt_sim_call_fn *call)
{
    tt_sim_call(it->sim, rank, START_NS, call, &it->actors[rank]);
    tt_sim_run(it->sim, UINT64_MAX);
}

/* The index-th frame that a rank got. */
static const seen *frame_at(const actor *self, uint32_t index)
{
    for (uint32_t i = 0; i < self->count; i++) {
        if (!self->list[i].is_sent && !self->list[i].is_payload && index-- == 0) {
            return &self->list[i];
        }
    }
    fail_msg("a frame is missing");
    return NULL;
}

/* ---- tests ---- */

static void send_short(void *self)
{
    send_one(self, 1, 7, BYTES, 0);
}

static void test_a_frame_takes_the_time_of_the_model(void **state)
{
    (void)state;
    for (int is_private = 0; is_private < 2; is_private++) {
        world it;
        world_init(&it, is_private == 1);
        run_call(&it, 0, send_short);
        const actor *sender = &it.actors[0], *receiver = &it.actors[1];
        assert_int_equal(sender->count, 1);
        assert_true(sender->list[0].is_sent);
        assert_int_equal(sender->list[0].at_ns, START_NS + OVERHEAD_NS + BYTES);
        assert_int_equal(receiver->count, 1);
        assert_int_equal(receiver->list[0].at_ns, START_NS + OVERHEAD_NS + LATENCY_NS + BYTES);
        world_fini(&it);
    }
}

static void send_long(void *self)
{
    bytes_to_send[40000] = 99;
    send_one(self, 1, 7, sizeof(bytes_to_send), 0);
}

static void test_a_long_frame_is_announced_when_all_of_it_is_here(void **state)
{
    (void)state;
    world it;
    world_init(&it, true);
    run_call(&it, 0, send_long);
    const actor *receiver = &it.actors[1];
    const uint64_t here_ns = START_NS + OVERHEAD_NS + LATENCY_NS + sizeof(bytes_to_send);
    assert_int_equal(receiver->count, 2);
    assert_int_equal(receiver->list[0].at_ns, here_ns);
    assert_true(receiver->list[1].is_payload);
    assert_int_equal(receiver->list[1].at_ns, here_ns);
    assert_int_equal(receiver->sink[40000], 99);
    world_fini(&it);
}

static void send_three(void *self)
{
    send_one(self, 1, 1, BYTES, 0);
    send_one(self, 1, 2, BYTES, 0);
    send_one(self, 1, 3, BYTES, 5);
}

static void test_an_urgent_frame_overtakes_what_waits_for_the_card(void **state)
{
    (void)state;
    for (int is_private = 0; is_private < 2; is_private++) {
        world it;
        world_init(&it, is_private == 1);
        run_call(&it, 0, send_three);
        static const uint64_t order[] = {1, 3, 2};
        for (uint32_t i = 0; i < 3; i++) {
            const seen *frame = frame_at(&it.actors[1], i);
            assert_int_equal(frame->op, order[i]);
            assert_int_equal(frame->at_ns,
                             START_NS + OVERHEAD_NS + LATENCY_NS + BYTES + i * (BYTES + GAP_NS));
        }
        assert_true(it.model.is_in_order);
        world_fini(&it);
    }
}

static void send_to_two(void *self)
{
    send_one(self, 1, 1, BYTES, 0);
    send_one(self, 1, 2, BYTES, 0);
    send_one(self, 1, 3, BYTES, 0);
    send_one(self, 2, 4, BYTES, 0);
}

static void test_links_take_turns_at_a_card(void **state)
{
    (void)state;
    world it;
    world_init(&it, true);
    run_call(&it, 0, send_to_two);
    const uint64_t first_ns = START_NS + OVERHEAD_NS + LATENCY_NS + BYTES;
    assert_int_equal(frame_at(&it.actors[1], 0)->at_ns, first_ns);
    assert_int_equal(frame_at(&it.actors[1], 1)->at_ns, first_ns + BYTES + GAP_NS);
    assert_int_equal(frame_at(&it.actors[2], 0)->at_ns, first_ns + 2 * (BYTES + GAP_NS));
    assert_int_equal(frame_at(&it.actors[1], 2)->at_ns, first_ns + 3 * (BYTES + GAP_NS));
    world_fini(&it);
}

enum { LONG_WORK_NS = 4000 };

static void work_and_send(void *self)
{
    const actor *rank = self;
    tt_platform *platform = tt_sim_platform(rank->world->sim, rank->rank);
    platform->ops->spend(platform, TT_SPEND_REDUCE, LONG_WORK_NS / 8, 4);
    platform->ops->spend(platform, TT_SPEND_COPY, LONG_WORK_NS, 0);
    send_one(self, 2, 1, BYTES, 9);
}

static void send_in_between(void *self)
{
    send_one(self, 2, 2, BYTES, 0);
}

/* Also if the one that works was called first, and is more urgent. */
static void test_a_card_is_not_kept_for_a_frame_that_is_not_there_yet(void **state)
{
    (void)state;
    world it;
    world_init(&it, false);
    tt_sim_call(it.sim, 0, START_NS, work_and_send, &it.actors[0]);
    run_call(&it, 1, send_in_between);
    const actor *receiver = &it.actors[2];
    assert_int_equal(frame_at(receiver, 0)->op, 2);
    assert_int_equal(frame_at(receiver, 0)->at_ns, START_NS + OVERHEAD_NS + LATENCY_NS + BYTES);
    assert_int_equal(frame_at(receiver, 1)->at_ns,
                     START_NS + LONG_WORK_NS + OVERHEAD_NS + LATENCY_NS + BYTES);
    assert_true(it.model.is_in_order);
    world_fini(&it);
}

static void test_the_processor_takes_one_frame_at_a_time(void **state)
{
    (void)state;
    world it;
    world_init(&it, true);
    tt_sim_call(it.sim, 1, START_NS, send_in_between, &it.actors[1]);
    tt_sim_call(it.sim, 3, START_NS, send_in_between, &it.actors[3]);
    run_call(&it, 0, send_in_between);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(frame_at(&it.actors[2], i)->at_ns,
                         START_NS + OVERHEAD_NS + LATENCY_NS + BYTES + i * OVERHEAD_NS);
    }
    world_fini(&it);
}

static void send_two_and_stop(void *self)
{
    const actor *rank = self;
    send_one(self, 1, 1, BYTES, 0);
    send_one(self, 1, 2, BYTES, 0);
    tt_sim_stop(rank->world->sim, rank->rank, START_NS + 50 * LATENCY_NS);
}

static void send_two_and_die(void *self)
{
    const actor *rank = self;
    send_one(self, 1, 1, BYTES, 0);
    send_one(self, 1, 2, BYTES, 0);
    tt_sim_kill(rank->world->sim, rank->rank);
}

static void test_what_a_stopped_rank_has_not_sent_waits(void **state)
{
    (void)state;
    world it;
    world_init(&it, true);
    run_call(&it, 0, send_two_and_stop);
    const uint64_t first_ns = START_NS + OVERHEAD_NS + LATENCY_NS + BYTES;
    assert_int_equal(frame_at(&it.actors[1], 0)->at_ns, first_ns);
    assert_int_equal(frame_at(&it.actors[1], 1)->at_ns,
                     START_NS + 50 * LATENCY_NS + LATENCY_NS + BYTES);
    world_fini(&it);
}

static void test_what_a_dead_rank_has_not_sent_is_lost(void **state)
{
    (void)state;
    world it;
    world_init(&it, true);
    run_call(&it, 0, send_two_and_die);
    assert_int_equal(it.actors[1].count, 1);
    world_fini(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_frame_takes_the_time_of_the_model),
        cmocka_unit_test(test_a_long_frame_is_announced_when_all_of_it_is_here),
        cmocka_unit_test(test_an_urgent_frame_overtakes_what_waits_for_the_card),
        cmocka_unit_test(test_links_take_turns_at_a_card),
        cmocka_unit_test(test_a_card_is_not_kept_for_a_frame_that_is_not_there_yet),
        cmocka_unit_test(test_the_processor_takes_one_frame_at_a_time),
        cmocka_unit_test(test_what_a_stopped_rank_has_not_sent_waits),
        cmocka_unit_test(test_what_a_dead_rank_has_not_sent_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
