/* SPDX-License-Identifier: Apache-2.0
 *
 * fabric_network_test.c - fabrics as networks of the simulated driver: against its wires where both
 * mean the same, and what is sent arrives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/philox.h"
#include "platform/sim.h"
#include "sim/registry.h"
#include "sim/sim.h"

enum {
    RANKS_MAX = 16,
    START_NS = 100,
    LATENCY_NS = 1300,
    HEAD_BYTES = 64, /* as a wire has it */
    BYTES_PER_US = 1000,
    BYTE_FS = 1000000000 / BYTES_PER_US,
    FRAMES = 2000,
    BYTES_MAX = 256 * 1024,
};

/* Ranks that send what the test says and note what arrives. */
typedef struct world world;

typedef struct actor {
    world *world;
    uint32_t rank;
    uint64_t frames, bytes, sent, last_ns;
} actor;

struct world {
    tt_sim *sim;
    tt_fabric *fabric;
    tt_fabric_network network;
    tt_random random;
    uint32_t ranks;
    tt_sim_frame next; /* to send */
    actor actors[RANKS_MAX];
};

static uint8_t payload_bytes[BYTES_MAX], sink[BYTES_MAX];

static void arrived(actor *self, const tt_head *head)
{
    self->frames++;
    self->bytes += head->payload_bytes;
    self->last_ns = tt_sim_now(self->world->sim);
}

static void *on_frame(void *self, uint32_t peer, const tt_head *head, const void *payload)
{
    (void)peer;
    if (payload != NULL) {
        arrived(self, head);
        return NULL;
    }
    return sink;
}

static void on_payload(void *self, uint32_t peer, const tt_head *head)
{
    (void)peer;
    arrived(self, head);
}

static void on_sent(void *self, uint64_t token)
{
    (void)token;
    ((actor *)self)->sent++;
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

/* On a model of the fabric, or, NULL, on wires of the same latency and speed. */
static void world_init(world *it, const tt_fabric_ops *model, const tt_fabric_config *config)
{
    tt_sim_config sim;
    tt_text why = {0};
    *it = (world){.ranks = config->rank_count};
    tt_random_init(&it->random, 5, 1);
    tt_sim_config_init(&sim);
    sim.size = config->rank_count;
    sim.upcall_ns = sim.jitter_ns = 0;
    sim.latency_ns = sim.local_latency_ns = LATENCY_NS;
    sim.bytes_per_us = sim.local_bytes_per_us = BYTES_PER_US;
    sim.borrow = 1000;
    if (model != NULL) {
        assert_int_equal(tt_fabric_create(model, config, &tt_allocator_default, &why, &it->fabric),
                         TT_OK);
        tt_fabric_network_init(&it->network, it->fabric);
        sim.network = &it->network.base;
    }
    it->sim = tt_sim_create(&sim);
    for (uint32_t rank = 0; rank < it->ranks; rank++) {
        it->actors[rank] = (actor){.world = it, .rank = rank};
        tt_sim_attach(it->sim, rank, (tt_machine){.ops = &actor_ops, .self = &it->actors[rank]});
    }
}

static void world_fini(world *it)
{
    assert_true(tt_sim_destroy(it->sim));
    if (it->fabric != NULL) {
        it->fabric->ops->destroy(it->fabric);
    }
}

static void send_frame(const actor *self, const tt_sim_frame *frame)
{
    tt_platform *platform = tt_sim_platform(self->world->sim, self->rank);
    const tt_head head = {.payload_bytes = frame->bytes};
    const tt_send send = {.peer = frame->target, .payload = payload_bytes, .head = &head};
    assert_true(platform->ops->send(platform, &send) >= 0);
}

static void send_next(void *self)
{
    send_frame(self, &((actor *)self)->world->next);
}

static tt_fabric_config plain(uint32_t ranks)
{
    tt_fabric_config config;
    tt_fabric_config_plain(&config, ranks,
                           (tt_fabric_link){.latency_ns = LATENCY_NS, .byte_fs = BYTE_FS});
    config.head_bytes = HEAD_BYTES;
    return config;
}

/* When one frame is with rank 1, on an idle network. */
static uint64_t arrival(const tt_fabric_ops *model, const tt_fabric_config *config, uint32_t bytes)
{
    world it;
    world_init(&it, model, config);
    it.next = (tt_sim_frame){.source = 0, .target = 1, .bytes = bytes};
    tt_sim_call(it.sim, 0, START_NS, send_next, &it.actors[0]);
    tt_sim_run(it.sim, UINT64_MAX);
    assert_int_equal(it.actors[1].frames, 1);
    assert_int_equal(it.actors[0].sent, bytes > 0 ? 1 : 0);
    const uint64_t at_ns = it.actors[1].last_ns;
    world_fini(&it);
    return at_ns;
}

static void test_one_frame_takes_as_long_as_on_a_wire(void **state)
{
    (void)state;
    const tt_fabric_config config = plain(4);
    for (uint32_t i = 0; tt_fabric_at(i) != NULL; i++) {
        for (uint32_t bytes = 0; bytes <= BYTES_MAX; bytes = 4 * bytes + 1000) {
            /* A wire tells of the second half of a long frame later. */
            const uint64_t half_ns = bytes > TT_INLINE_BYTES_MAX ? 1 : 0;
            assert_int_equal(arrival(NULL, &config, bytes),
                             arrival(tt_fabric_at(i), &config, bytes) + half_ns);
        }
    }
}

static void test_the_processor_is_busy_at_both_ends(void **state)
{
    (void)state;
    tt_fabric_config config = plain(4);
    const uint64_t free_ns = arrival(&tt_fabric_ports, &config, 1000);
    config.overhead_ns = 300;
    config.overhead_byte_fs = 100000; /* 0.1 ns */
    /* The receiver's share comes after the arrival. */
    assert_int_equal(arrival(&tt_fabric_ports, &config, 1000), free_ns + 400);
}

/* The draw of one more frame, which its sender sends at some time. */
static void send_any(void *self)
{
    actor *rank = self;
    world *it = rank->world;
    tt_sim_frame frame = {.source = rank->rank,
                          .target = (uint32_t)tt_random_below(&it->random, it->ranks - 1),
                          .bytes = (uint32_t)tt_random_below(&it->random, BYTES_MAX)};
    frame.target += frame.target >= rank->rank ? 1 : 0;
    frame.bytes >>= tt_random_below(&it->random, 18);
    send_frame(rank, &frame);
}

static void check_conservation(const world *it)
{
    uint64_t frames = 0, bytes = 0, frames_seen = 0, bytes_seen = 0;
    for (uint32_t level = 0; level < TT_FABRIC_LEVELS; level++) {
        const tt_fabric_traffic *traffic = &it->network.levels[level];
        assert_int_equal(traffic->frames_sent, traffic->frames_received);
        assert_int_equal(traffic->bytes_sent, traffic->bytes_received);
        frames += traffic->frames_sent;
        bytes += traffic->bytes_sent;
    }
    for (uint32_t rank = 0; rank < it->ranks; rank++) {
        frames_seen += it->actors[rank].frames;
        bytes_seen += it->actors[rank].bytes;
    }
    assert_int_equal(frames, FRAMES);
    assert_int_equal(frames_seen, FRAMES);
    assert_int_equal(bytes_seen, bytes);
}

static void test_every_frame_that_is_sent_arrives_once(void **state)
{
    (void)state;
    for (uint32_t i = 0; tt_fabric_at(i) != NULL; i++) {
        for (uint32_t per_host = 1; per_host <= 4; per_host *= 4) {
            world it;
            tt_fabric_config config = plain(RANKS_MAX);
            config.ranks_per_host = per_host;
            config.cards_per_host = per_host > 1 ? 2 : 1;
            config.hosts_per_leaf = 2;
            config.uplinks_per_leaf = 1;
            config.overhead_ns = 200;
            world_init(&it, tt_fabric_at(i), &config);
            for (uint32_t k = 0; k < FRAMES; k++) {
                const uint32_t rank = (uint32_t)tt_random_below(&it.random, RANKS_MAX);
                tt_sim_call(it.sim, rank, tt_random_below(&it.random, 1000 * 1000), send_any,
                            &it.actors[rank]);
            }
            tt_sim_run(it.sim, UINT64_MAX);
            check_conservation(&it);
            const bool has_hosts = per_host > 1;
            assert_int_equal(has_hosts, it.network.levels[TT_FABRIC_HOST].frames_sent > 0);
            assert_true(it.network.levels[TT_FABRIC_TREE].frames_sent > 0);
            world_fini(&it);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_frame_takes_as_long_as_on_a_wire),
        cmocka_unit_test(test_the_processor_is_busy_at_both_ends),
        cmocka_unit_test(test_every_frame_that_is_sent_arrives_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
