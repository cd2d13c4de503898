/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_test.c - phantom memory of the simulated driver: addresses, places and frames without bytes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "platform/sim.h"

enum { RANKS = 3, LONG_BYTES = 100 * 1000, PHANTOM_BYTES = 1 << 20 };

typedef struct receiver {
    const tt_platform *platform;
    uint32_t frames, phantoms, payloads;
    uint8_t *sink;
} receiver;

typedef struct world {
    tt_sim *sim;
    receiver ranks[RANKS];
    uint8_t bytes[LONG_BYTES];
} world;

static void *on_frame(void *self, uint32_t peer, const tt_head *head, const void *payload)
{
    receiver *rank = self;
    (void)peer;
    (void)head;
    rank->frames++;
    rank->phantoms += payload != NULL && tt_is_phantom(rank->platform, payload) ? 1 : 0;
    return payload == NULL ? rank->sink : NULL;
}

static void on_payload(void *self, uint32_t peer, const tt_head *head)
{
    (void)peer;
    (void)head;
    ((receiver *)self)->payloads++;
}

static void on_sent(void *self, uint64_t token)
{
    (void)self;
    (void)token;
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

static const tt_machine_ops receiver_ops = {
    .frame = on_frame,
    .payload = on_payload,
    .sent = on_sent,
    .timer = on_timer,
    .peer = on_peer,
    .step = on_step,
};

/* Ranks 0 and 1 share a host. */
static void world_init(world *it)
{
    static const uint32_t host_of[RANKS] = {0, 0, 1};
    tt_sim_config config;
    memset(it, 0, sizeof(*it));
    tt_sim_config_init(&config);
    config.size = RANKS;
    config.host_of = host_of;
    config.has_views = true;
    config.phantom_bytes = PHANTOM_BYTES;
    it->sim = tt_sim_create(&config);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        it->ranks[rank] = (receiver){.platform = tt_sim_platform(it->sim, rank), .sink = it->bytes};
        tt_sim_attach(it->sim, rank, (tt_machine){.ops = &receiver_ops, .self = &it->ranks[rank]});
    }
}

static void world_fini(world *it)
{
    assert_true(tt_sim_destroy(it->sim));
}

static void test_shared_phantom_memory_has_places_on_its_host(void **state)
{
    (void)state;
    world it;
    world_init(&it);
    tt_platform *own = tt_sim_platform(it.sim, 0), *far = tt_sim_platform(it.sim, 2);
    uint8_t *shared = tt_sim_phantom(it.sim, TT_MEMORY_SHARED) + 100;
    tt_place place = {0};
    assert_false(own->ops->locate(own, tt_sim_phantom(it.sim, TT_MEMORY_PRIVATE), 8, &place));
    assert_true(own->ops->locate(own, shared, 8, &place));
    assert_ptr_equal(own->ops->view(own, 1, place, 8), shared);
    assert_null(far->ops->view(far, 1, place, 8)); /* of another host */
    assert_null(own->ops->view(own, 1, place, SIZE_MAX));
    world_fini(&it);
}

static void test_memory_like_a_buffer_is_phantom_or_real(void **state)
{
    (void)state;
    world it;
    world_init(&it);
    tt_platform *own = tt_sim_platform(it.sim, 0);
    const void *phantom = tt_sim_phantom(it.sim, TT_MEMORY_PRIVATE);
    static const tt_memory_kind kinds[] = {TT_MEMORY_PRIVATE, TT_MEMORY_SHARED};
    for (uint32_t i = 0; i < TT_ARRAY_COUNT(kinds); i++) {
        void *without = tt_platform_allocate_like(own, kinds[i], phantom, PHANTOM_BYTES);
        void *with = tt_platform_allocate_like(own, kinds[i], &it, 64);
        tt_place place;
        assert_true(tt_is_phantom(own, without));
        assert_false(tt_is_phantom(own, with));
        assert_int_equal(own->ops->locate(own, without, 8, &place), kinds[i] == TT_MEMORY_SHARED);
        memset(with, 1, 64);
        assert_int_equal(tt_sim_live_allocations(it.sim, 0), 2);
        own->ops->release(own, kinds[i], without, PHANTOM_BYTES);
        own->ops->release(own, kinds[i], with, 64);
        assert_int_equal(tt_sim_live_allocations(it.sim, 0), 0);
    }
    world_fini(&it);
}

/* A short one and a long one, of phantom bytes and of real ones. */
static void send_all(void *self)
{
    world *it = self;
    tt_platform *platform = tt_sim_platform(it->sim, 0);
    static uint8_t real[LONG_BYTES];
    memset(real, 7, sizeof(real));
    for (uint32_t i = 0; i < 4; i++) {
        const tt_head head = {.payload_bytes = i % 2 == 0 ? 16 : LONG_BYTES};
        const tt_send send = {.peer = 1,
                              .token = i,
                              .payload = i < 2 ? tt_sim_phantom(it->sim, TT_MEMORY_PRIVATE) : real,
                              .head = &head};
        assert_true(platform->ops->send(platform, &send) >= 0);
    }
}

/* Neither from a phantom payload nor to a phantom sink. */
static void test_frames_of_phantom_bytes_arrive_and_store_nothing(void **state)
{
    (void)state;
    for (int has_sink = 0; has_sink < 2; has_sink++) {
        world it;
        world_init(&it);
        if (has_sink == 0) {
            it.ranks[1].sink = tt_sim_phantom(it.sim, TT_MEMORY_SHARED);
        }
        tt_sim_call(it.sim, 0, 10, send_all, &it);
        tt_sim_run(it.sim, UINT64_MAX);
        assert_int_equal(it.ranks[1].frames, 4);
        assert_int_equal(it.ranks[1].phantoms, 1);
        assert_int_equal(it.ranks[1].payloads, 2);
        assert_int_equal(it.bytes[LONG_BYTES - 1], has_sink == 0 ? 0 : 7);
        world_fini(&it);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shared_phantom_memory_has_places_on_its_host),
        cmocka_unit_test(test_memory_like_a_buffer_is_phantom_or_real),
        cmocka_unit_test(test_frames_of_phantom_bytes_arrive_and_store_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
