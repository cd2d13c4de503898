/* SPDX-License-Identifier: Apache-2.0
 *
 * moves_places_test.c - the stage before those that use memory of others: which calls have it, and
 * that its estimate for many ranks is near the walk. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "base/base.h"
#include "sim/fabric_topology.h"
#include "sim/moves_internal.h"
#include "sim/registry.h"

enum { RANKS_MAX = 512 };

static const double tolerance = 0.1;

typedef struct scene {
    const char *model;
    uint32_t ranks, per_host, cards, hosts_per_leaf, uplinks;
} scene;

typedef struct stage {
    tt_fabric *fabric;
    tt_fabric_places places;
    tt_moves_input input;
    uint64_t done_ns[RANKS_MAX];
} stage;

static void stage_init(stage *it, const scene *what)
{
    tt_text why = {0};
    tt_fabric_config config;
    tt_fabric_config_plain(&config, what->ranks,
                           (tt_fabric_link){.latency_ns = 1300, .gap_ns = 10, .byte_fs = 80000});
    config.ranks_per_host = what->per_host;
    config.cards_per_host = what->cards;
    config.hosts_per_leaf = what->hosts_per_leaf;
    config.uplinks_per_leaf = what->uplinks;
    config.overhead_ns = 500;
    config.head_bytes = 48;
    if (tt_fabric_create(tt_fabric_find(what->model), &config, &tt_allocator_default, &why,
                         &it->fabric) != TT_OK) {
        fail_msg("%s", why.bytes);
    }
    assert_int_equal(TT_OK, tt_fabric_places_make(&config, &tt_allocator_default, &it->places));
    it->input = (tt_moves_input){.fabric = it->fabric,
                                 .problem = {.collective = TT_ALLREDUCE,
                                             .dtype = TT_F32,
                                             .redop = TT_SUM,
                                             .size = what->ranks,
                                             .element_bytes = 4,
                                             .segment_bytes = 1 << 18,
                                             .bytes = 1 << 20,
                                             .postscale = 1.0,
                                             .is_in_place = true,
                                             .topology = &it->places.topology},
                                 .eager_bytes_max = 4096,
                                 .memory_bytes_max = UINT64_C(1) << 30,
                                 .allocator = &tt_allocator_default};
}

static void stage_fini(stage *it)
{
    tt_fabric_places_release(&it->places);
    it->fabric->ops->destroy(it->fabric);
}

static void test_only_those_who_share_memory_tell_their_places(void **state)
{
    (void)state;
    static const scene shared = {"ports", 16, 4, 1, 0, 0}, apart = {"ports", 16, 1, 1, 0, 0};
    stage *it = calloc(1, sizeof(*it));
    tt_moves_input places;
    assert_non_null(it);
    stage_init(it, &shared);
    it->input.forced = "hierarchical";
    assert_true(tt_walk_has_places(&it->input, &places));
    assert_int_equal(TT_ALLGATHER, places.problem.collective);
    it->input.forced = "ring";
    assert_false(tt_walk_has_places(&it->input, &places));
    stage_fini(it);
    stage_init(it, &apart);
    it->input.forced = "hierarchical"; /* does not fit: another one runs */
    assert_false(tt_walk_has_places(&it->input, &places));
    stage_fini(it);
    free(it);
}

static void check_traffic(const tt_moves_result *walked, const tt_moves_result *estimated)
{
    for (int level = 0; level < TT_FABRIC_LEVELS; level++) {
        assert_int_equal(walked->levels[level].frames_sent, estimated->levels[level].frames_sent);
        assert_int_equal(walked->levels[level].bytes_sent, estimated->levels[level].bytes_sent);
        assert_int_equal(walked->levels[level].frames_received,
                         estimated->levels[level].frames_received);
    }
}

static void test_the_estimate_is_near_the_walk(void **state)
{
    (void)state;
    static const scene scenes[] = {
        {"ports", 256, 4, 4, 0, 0}, {"ports", 512, 8, 1, 0, 0}, {"memory", 250, 4, 2, 0, 0},
        {"tree", 256, 4, 4, 8, 8},  {"tree", 256, 4, 4, 8, 1},
    };
    stage *it = calloc(1, sizeof(*it));
    assert_non_null(it);
    for (size_t i = 0; i < TT_ARRAY_COUNT(scenes); i++) {
        tt_moves_input places;
        tt_moves_result walked, estimated;
        tt_text why = {0};
        stage_init(it, &scenes[i]);
        it->input.forced = "hierarchical";
        assert_true(tt_walk_has_places(&it->input, &places));
        assert_int_equal(TT_OK, tt_walk_stage(&places, &why, it->done_ns, &walked));
        tt_walk_places_estimate(&places, it->done_ns, &estimated);
        const double ratio = (double)estimated.end_ns / (double)walked.end_ns;
        if (fabs(ratio - 1) > tolerance) {
            fail_msg("scene %zu: %.1f us are walked, %.1f estimated", i,
                     (double)walked.end_ns * 1e-3, (double)estimated.end_ns * 1e-3);
        }
        check_traffic(&walked, &estimated);
        stage_fini(it);
    }
    free(it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_those_who_share_memory_tell_their_places),
        cmocka_unit_test(test_the_estimate_is_near_the_walk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
