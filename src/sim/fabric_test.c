/* SPDX-License-Identifier: Apache-2.0
 *
 * fabric_test.c - single frames take the times that the models promise, and queues form. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "sim/registry.h"
#include "sim/sim.h"

enum { LATENCY_NS = 1200, BYTE_FS = 100000, BYTES = 10000, FRAME_NS = 1000 };

static tt_fabric_config plain(uint32_t ranks)
{
    tt_fabric_config config;
    const tt_fabric_link link = {.latency_ns = LATENCY_NS, .byte_fs = BYTE_FS};
    tt_fabric_config_plain(&config, ranks, link);
    return config;
}

static tt_fabric *fabric_of(const char *model, const tt_fabric_config *config)
{
    tt_text why = {0};
    tt_fabric *fabric = NULL;
    if (tt_fabric_create(tt_fabric_find(model), config, &tt_allocator_default, &why, &fabric) !=
        TT_OK) {
        fail_msg("%s", why.bytes);
    }
    return fabric;
}

/* When a frame that is submitted at `at_ns` is in memory; nothing else is on its way meanwhile. */
static uint64_t arrival(tt_fabric *fabric, uint32_t source, uint32_t target, uint64_t at_ns)
{
    const tt_fabric_frame frame = {.source = source, .target = target, .bytes = BYTES};
    at_ns = fabric->ops->send(fabric, &frame, at_ns).head_ns;
    for (uint32_t hop = 1; !fabric->ops->pass(fabric, &frame, hop, &at_ns); hop++) {
        assert_true(hop < 8);
    }
    return at_ns;
}

static void test_an_idle_network_takes_latency_and_bytes_in_every_model(void **state)
{
    (void)state;
    for (uint32_t i = 0; tt_fabric_at(i) != NULL; i++) {
        tt_fabric_config config = plain(12);
        config.ranks_per_host = 2;
        config.hosts_per_leaf = 3;
        config.uplinks_per_leaf = 1;
        tt_fabric *fabric = fabric_of(tt_fabric_at(i)->name, &config);
        for (uint32_t target = 1; target < 12; target++) {
            fabric->ops->reset(fabric);
            assert_int_equal(7 + LATENCY_NS + FRAME_NS, arrival(fabric, 0, target, 7));
        }
        fabric->ops->destroy(fabric);
    }
}

static void test_frames_of_a_card_follow_each_other(void **state)
{
    (void)state;
    for (uint32_t i = 0; tt_fabric_at(i) != NULL; i++) {
        tt_fabric_config config = plain(4);
        config.links[TT_FABRIC_LEAF].gap_ns = 30;
        tt_fabric *fabric = fabric_of(tt_fabric_at(i)->name, &config);
        assert_int_equal(LATENCY_NS + FRAME_NS, arrival(fabric, 0, 1, 0));
        /* The sender's card is busy. */
        assert_int_equal(LATENCY_NS + 2 * FRAME_NS + 30, arrival(fabric, 0, 2, 0));
        /* The receiver's card is busy. */
        assert_int_equal(LATENCY_NS + 3 * FRAME_NS + 60, arrival(fabric, 3, 2, 0));
        fabric->ops->destroy(fabric);
    }
}

static void test_ranks_of_a_host_share_its_cards(void **state)
{
    (void)state;
    for (uint32_t cards = 1; cards <= 2; cards++) {
        tt_fabric_config config = plain(8);
        config.ranks_per_host = 4;
        config.cards_per_host = cards;
        tt_fabric *fabric = fabric_of("ports", &config);
        assert_false(fabric->is_private);
        assert_int_equal(LATENCY_NS + FRAME_NS, arrival(fabric, 0, 4, 0));
        assert_int_equal(LATENCY_NS + (cards == 1 ? 2 : 1) * FRAME_NS, arrival(fabric, 1, 5, 0));
        assert_int_equal(LATENCY_NS + FRAME_NS, arrival(fabric, 2, 3, 0)); /* in the host */
        fabric->ops->destroy(fabric);
    }
}

/* Uplinks have no queue in the models of cards alone, but their way is longer. */
static void test_cards_keep_their_speed_over_slow_uplinks(void **state)
{
    (void)state;
    for (uint32_t i = 0; tt_fabric_at(i) != NULL; i++) {
        tt_fabric_config config = plain(8);
        config.hosts_per_leaf = 2;
        config.uplinks_per_leaf = 2;
        config.links[TT_FABRIC_LEAF].gap_ns = 30;
        config.links[TT_FABRIC_TREE] =
            (tt_fabric_link){.latency_ns = 3 * LATENCY_NS, .gap_ns = 70, .byte_fs = 2 * BYTE_FS};
        tt_fabric *fabric = fabric_of(tt_fabric_at(i)->name, &config);
        const uint64_t slower_ns = fabric->ops == &tt_fabric_tree ? FRAME_NS : 0;
        assert_int_equal(3 * LATENCY_NS + FRAME_NS + slower_ns, arrival(fabric, 0, 4, 0));
        /* The sender's card is busy, but not for as long as the uplink. */
        const tt_fabric_frame frame = {.source = 0, .target = 5, .bytes = BYTES};
        assert_int_equal(2 * FRAME_NS + 30, fabric->ops->send(fabric, &frame, 0).released_ns);
        fabric->ops->destroy(fabric);
    }
}

static void test_slow_uplinks_are_shared_by_turns(void **state)
{
    (void)state;
    tt_fabric_config config = plain(8);
    config.hosts_per_leaf = 4;
    config.uplinks_per_leaf = 1;
    config.links[TT_FABRIC_TREE].byte_fs = 2 * BYTE_FS;
    tt_fabric *fabric = fabric_of("tree", &config);
    assert_int_equal(LATENCY_NS + FRAME_NS, arrival(fabric, 0, 1, 0));
    fabric->ops->reset(fabric);
    /* Not FRAME_NS more: it passes all links at once, at the speed of the slowest. */
    assert_int_equal(LATENCY_NS + 2 * FRAME_NS, arrival(fabric, 0, 4, 0));
    assert_int_equal(LATENCY_NS + 4 * FRAME_NS, arrival(fabric, 1, 5, 0));
    assert_int_equal(LATENCY_NS + 2 * FRAME_NS, arrival(fabric, 4, 0, 0)); /* the other way */
    fabric->ops->destroy(fabric);
}

static void test_ranks_of_a_host_share_its_memory(void **state)
{
    (void)state;
    tt_fabric_config config = plain(4);
    config.ranks_per_host = 2;
    config.copy_byte_fs = BYTE_FS;
    config.reduce_byte_fs = BYTE_FS;
    config.memory_byte_fs = BYTE_FS / 2; /* a copy of one rank keeps all of it busy */
    tt_fabric *fabric = fabric_of("memory", &config);
    assert_int_equal(FRAME_NS, fabric->ops->work(fabric, 0, TT_FABRIC_COPY, BYTES, 0));
    assert_int_equal(2 * FRAME_NS, fabric->ops->work(fabric, 1, TT_FABRIC_COPY, BYTES, 0));
    assert_int_equal(FRAME_NS, fabric->ops->work(fabric, 2, TT_FABRIC_COPY, BYTES, 0));
    assert_int_equal(2 * FRAME_NS + FRAME_NS / 2,
                     fabric->ops->work(fabric, 2, TT_FABRIC_REDUCE, BYTES, 0));
    fabric->ops->destroy(fabric);
    fabric = fabric_of("ports", &config);
    assert_int_equal(FRAME_NS, fabric->ops->work(fabric, 0, TT_FABRIC_COPY, BYTES, 0));
    assert_int_equal(FRAME_NS, fabric->ops->work(fabric, 1, TT_FABRIC_COPY, BYTES, 0));
    fabric->ops->destroy(fabric);
}

static void test_a_configuration_without_sense_is_refused(void **state)
{
    (void)state;
    static const char *const causes[] = {"rank_count", "ranks_per_host", "cards_per_host",
                                         "uplinks_per_leaf", "byte_fs"};
    for (uint32_t i = 0; i < TT_ARRAY_COUNT(causes); i++) {
        tt_fabric_config config = plain(4);
        config.rank_count = i == 0 ? 0 : 4;
        config.ranks_per_host = i == 1 ? 5 : 2;
        config.cards_per_host = i == 2 ? 3 : 1;
        config.hosts_per_leaf = i == 3 ? 2 : 0;
        config.links[TT_FABRIC_TREE].byte_fs = i == 4 ? UINT64_MAX : BYTE_FS;
        tt_text why = {0};
        tt_fabric *fabric;
        assert_int_equal(TT_ERR_BAD_CONFIG, tt_fabric_create(&tt_fabric_ports, &config,
                                                             &tt_allocator_default, &why, &fabric));
        assert_non_null(strstr(why.bytes, causes[i]));
    }
}

static void test_failing_allocations_leave_nothing(void **state)
{
    (void)state;
    tt_fabric_config config = plain(4);
    config.ranks_per_host = 2;
    for (uint32_t i = 0; tt_fabric_at(i) != NULL; i++) {
        tt_status status = TT_ERR_NO_MEMORY;
        uint64_t fail_at = 1;
        for (; status != TT_OK; fail_at++) {
            tt_counting_allocator counter = {.fail_at = fail_at};
            const tt_allocator allocator = tt_counting_allocator_borrow(&counter);
            tt_text why = {0};
            tt_fabric *fabric;
            status = tt_fabric_create(tt_fabric_at(i), &config, &allocator, &why, &fabric);
            if (status == TT_OK) {
                assert_int_equal(tt_fabric_at(i)->bytes(&config), counter.live_bytes);
                fabric->ops->destroy(fabric);
            }
            assert_int_equal(0, counter.live_bytes);
        }
        assert_true(fail_at > 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_idle_network_takes_latency_and_bytes_in_every_model),
        cmocka_unit_test(test_frames_of_a_card_follow_each_other),
        cmocka_unit_test(test_ranks_of_a_host_share_its_cards),
        cmocka_unit_test(test_cards_keep_their_speed_over_slow_uplinks),
        cmocka_unit_test(test_slow_uplinks_are_shared_by_turns),
        cmocka_unit_test(test_ranks_of_a_host_share_its_memory),
        cmocka_unit_test(test_a_configuration_without_sense_is_refused),
        cmocka_unit_test(test_failing_allocations_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
