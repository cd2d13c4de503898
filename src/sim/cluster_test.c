/* SPDX-License-Identifier: Apache-2.0
 *
 * cluster_test.c - fields are kept as they are told, faults are named, ranks are placed. */
#include "sim/cluster.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "sim/registry.h"

static tt_cluster small(void)
{
    tt_cluster cluster;
    tt_cluster_init(&cluster);
    cluster.host_count = 8;
    cluster.ranks_per_host = 4;
    cluster.cards_per_host = 2;
    cluster.local = (tt_cluster_link){.latency_us = 0.3, .bandwidth_gbs = 20};
    cluster.network = (tt_cluster_link){.latency_us = 1.5, .gap_us = 0.1, .bandwidth_gbs = 12.5};
    cluster.overhead_us = 0.5;
    return cluster;
}

static void set(tt_cluster *cluster, const char *name, double value)
{
    tt_text why = {.length = 0};
    const tt_cluster_field *field = tt_cluster_field_find(name);
    assert_non_null(field);
    if (tt_cluster_field_set(cluster, field, value, &why) != TT_OK) {
        fail_msg("%s", why.bytes);
    }
}

static void assert_same(const tt_cluster *a, const tt_cluster *b)
{
    const tt_cluster_field *field;
    for (size_t i = 0; (field = tt_cluster_field_at(i)) != NULL; i++) {
        assert_true(tt_cluster_field_get(a, field) == tt_cluster_field_get(b, field));
    }
}

/* ---- fields ---- */

static void test_every_field_has_a_place_of_its_own_and_a_text(void **state)
{
    (void)state;
    const tt_cluster_field *field;
    int group = 0;
    for (size_t i = 0; (field = tt_cluster_field_at(i)) != NULL; i++) {
        const char *group_name = tt_cluster_group_name(field->group);
        const size_t group_bytes = strlen(group_name);
        assert_true((int)field->group == group || (int)field->group == ++group);
        assert_memory_equal(field->name, group_name, group_bytes);
        assert_string_equal(field->name + group_bytes + 1, tt_cluster_field_member(field));
        assert_ptr_equal(field, tt_cluster_field_find(field->name));
        assert_true(strlen(field->help) > 0);
        assert_true(field->minimum <= field->maximum);
        assert_int_equal(field->words != NULL, field->kind == TT_CLUSTER_WORD);
        for (size_t k = 0; k < i; k++) {
            assert_true(tt_cluster_field_at(k)->offset != field->offset);
        }
        tt_text text = {.length = 0};
        tt_cluster_field_describe(field, &text);
        assert_true(text.length > 0);
    }
    assert_int_equal(group, TT_CLUSTER_GROUPS - 1);
    assert_null(tt_cluster_field_find("network"));
}

static void test_a_value_is_read_as_it_was_printed(void **state)
{
    (void)state;
    const tt_cluster_field *field;
    for (size_t i = 0; (field = tt_cluster_field_at(i)) != NULL; i++) {
        const double middle = field->kind == TT_CLUSTER_REAL
                                  ? field->minimum + (field->maximum - field->minimum) / 7
                                  : field->maximum;
        tt_cluster first, second;
        tt_text text = {.length = 0}, why = {.length = 0};
        tt_cluster_init(&first);
        tt_cluster_init(&second);
        assert_int_equal(tt_cluster_field_set(&first, field, middle, &why), TT_OK);
        tt_cluster_field_print(&first, field, &text);
        assert_int_equal(tt_cluster_field_parse(&second, field, text.bytes, &why), TT_OK);
        assert_same(&first, &second);
    }
}

static void test_values_out_of_range_are_refused_with_the_range(void **state)
{
    (void)state;
    static const struct {
        const char *name, *value, *why;
    } cases[] = {
        {"network.bandwidth_gbs", "-1",
         "network.bandwidth_gbs is -1: give 0.001 to 10000 GB/s, or 0: none, for a single host"},
        {"network.latency_us", "1e9", "network.latency_us is 1e+09: give 0 to 1000000 us"},
        {"hosts.ranks_per_host", "2.5",
         "hosts.ranks_per_host is 2.5: give a whole number, 1 to 4096 ranks"},
        {"hosts.ranks_per_host", "0",
         "hosts.ranks_per_host is 0: give a whole number, 1 to 4096 ranks"},
        {"network.gap_us", "fast", "network.gap_us is \"fast\": give 0 to 1000000 us"},
        {"gpu.generation", "pascal",
         "gpu.generation is \"pascal\": give none, volta, ampere or hopper"},
    };
    for (size_t i = 0; i < TT_ARRAY_COUNT(cases); i++) {
        tt_cluster cluster = small();
        const tt_cluster before = cluster;
        tt_text why = {.length = 0};
        assert_int_equal(tt_cluster_field_parse(&cluster, tt_cluster_field_find(cases[i].name),
                                                cases[i].value, &why),
                         TT_ERR_BAD_CONFIG);
        assert_string_equal(why.bytes, cases[i].why);
        assert_same(&before, &cluster);
    }
}

static void test_zero_is_allowed_where_it_means_something(void **state)
{
    (void)state;
    tt_cluster cluster = small();
    set(&cluster, "hosts.count", 0);
    set(&cluster, "memory.bandwidth_gbs", 0);
    set(&cluster, "input.samples_per_s", 0);
    assert_int_equal(cluster.host_count, 0);
}

static void test_a_mistyped_field_is_guessed(void **state)
{
    (void)state;
    tt_text why = {.length = 0};
    tt_cluster_field_suggest("network.latensy_us", &why);
    assert_string_equal(why.bytes, "did you mean network.latency_us");
    tt_text_clear(&why);
    tt_cluster_field_suggest("colour", &why);
    assert_non_null(strstr(why.bytes, "--fields"));
}

/* ---- faults ---- */

static void test_a_fault_names_the_field_the_cause_and_the_cure(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double value;
        const char *culprit, *cure;
    } cases[] = {
        {"network.bandwidth_gbs", 0, "network.bandwidth_gbs is 0: ", "1 as hosts.count"},
        {"local.bandwidth_gbs", 0, "local.bandwidth_gbs is 0: ", "1 as hosts.ranks_per_host"},
        {"hosts.cards_per_host", 5, "hosts.cards_per_host is 5: ", "hosts.ranks_per_host"},
        {"tree.hosts_per_leaf", 4, "tree.uplinks_per_leaf is 0: ", "0 as tree.hosts_per_leaf"},
        {"noise.hiccups_per_million", 4, "noise.hiccup_ms is 0: ", "0 as noise.hiccups"},
        {"gpu.generation", TT_CLUSTER_VOLTA, "gpu.local_gbs is 0: ", "none as gpu.generation"},
        {"hosts.count", 1 << 20, "hosts.count is 1048576: ", "fewer hosts"},
    };
    for (size_t i = 0; i < TT_ARRAY_COUNT(cases); i++) {
        tt_cluster cluster = small();
        tt_text why = {.length = 0};
        assert_null(tt_cluster_fault(&cluster, &why));
        set(&cluster, cases[i].name, cases[i].value);
        assert_non_null(tt_cluster_fault(&cluster, &why));
        assert_ptr_equal(strstr(why.bytes, cases[i].culprit), why.bytes);
        assert_non_null(strstr(why.bytes, cases[i].cure));
    }
}

static void test_a_value_that_was_put_past_the_table_is_a_fault(void **state)
{
    (void)state;
    tt_cluster cluster = small();
    tt_text why = {.length = 0};
    cluster.request_us = NAN;
    assert_string_equal(tt_cluster_fault(&cluster, &why)->name, "coordinator.request_us");
    cluster = small();
    cluster.reduce_gbs = 0;
    tt_text_clear(&why);
    assert_int_equal(tt_cluster_check(&cluster, &why), TT_ERR_BAD_CONFIG);
    assert_string_equal(why.bytes, "processor.reduce_gbs is 0: give 0.001 to 10000 GB/s");
}

static void test_a_single_host_needs_no_network(void **state)
{
    (void)state;
    tt_cluster cluster = small();
    tt_text why = {.length = 0};
    cluster.host_count = 1;
    cluster.network.bandwidth_gbs = 0;
    assert_int_equal(tt_cluster_check(&cluster, &why), TT_OK);
}

/* ---- placement ---- */

static void test_ranks_are_placed_in_units_of_the_fabric(void **state)
{
    (void)state;
    const tt_cluster cluster = small();
    tt_text why = {.length = 0};
    tt_fabric_config config;
    assert_int_equal(tt_cluster_place(&cluster, 32, &why, &config), TT_OK);
    assert_int_equal(config.ranks_per_host, 4);
    assert_int_equal(config.cards_per_host, 2);
    assert_int_equal(config.links[TT_FABRIC_LEAF].latency_ns, 1500);
    assert_int_equal(config.links[TT_FABRIC_LEAF].gap_ns, 100);
    assert_int_equal(config.links[TT_FABRIC_LEAF].byte_fs, 80000);
    assert_int_equal(config.links[TT_FABRIC_HOST].byte_fs, 50000);
    assert_int_equal(config.overhead_ns, 500);
    assert_int_equal(config.overhead_byte_fs, 0);
    assert_int_equal(config.reduce_byte_fs, 125000);
}

static void test_fewer_ranks_than_a_host_has_are_placed_on_one(void **state)
{
    (void)state;
    const tt_cluster cluster = small();
    tt_text why = {.length = 0};
    tt_fabric_config config;
    assert_int_equal(tt_cluster_place(&cluster, 1, &why, &config), TT_OK);
    assert_int_equal(config.ranks_per_host, 1);
    assert_int_equal(config.cards_per_host, 1);
}

static void test_ranks_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    tt_cluster cluster = small();
    tt_text why = {.length = 0};
    tt_fabric_config config;
    assert_int_equal(tt_cluster_place(&cluster, 33, &why, &config), TT_ERR_BAD_CONFIG);
    assert_string_equal(why.bytes, "33 ranks do not fit cluster cluster of 8 hosts with 4 ranks "
                                   "each: give 1 to 32, or raise hosts.count");
    cluster.host_count = 0;
    assert_int_equal(tt_cluster_place(&cluster, 33, &why, &config), TT_OK);
    assert_int_equal(tt_cluster_place(&cluster, 0, &why, &config), TT_ERR_BAD_CONFIG);
    assert_int_equal(tt_cluster_place(&cluster, TT_CLUSTER_RANKS_MAX + 1, &why, &config),
                     TT_ERR_BAD_CONFIG);
}

static void test_the_model_is_the_one_that_the_cluster_needs(void **state)
{
    (void)state;
    tt_cluster cluster = small();
    assert_ptr_equal(tt_cluster_model(&cluster), &tt_fabric_ports);
    cluster.memory_gbs = 100;
    assert_ptr_equal(tt_cluster_model(&cluster), &tt_fabric_memory);
    cluster.hosts_per_leaf = 4;
    assert_ptr_equal(tt_cluster_model(&cluster), &tt_fabric_tree);
    cluster.hosts_per_leaf = 8; /* one leaf has all hosts */
    assert_ptr_equal(tt_cluster_model(&cluster), &tt_fabric_memory);
}

/* Every cluster that is accepted makes a fabric: at the ends of all ranges, too. */
static void test_an_accepted_cluster_is_an_accepted_fabric(void **state)
{
    (void)state;
    const tt_cluster_field *field;
    for (size_t i = 0; (field = tt_cluster_field_at(i)) != NULL; i++) {
        for (int end = 0; end < 2; end++) {
            tt_cluster cluster = small();
            tt_text why = {.length = 0};
            tt_fabric_config config;
            tt_fabric *fabric = NULL;
            cluster.tree = cluster.network;
            cluster.uplinks_per_leaf = 1;
            set(&cluster, field->name, end == 0 ? field->minimum : field->maximum);
            const uint32_t ranks = cluster.host_count < 8 ? 1 : 8;
            if (tt_cluster_place(&cluster, ranks, &why, &config) == TT_OK) {
                const tt_fabric_ops *ops = tt_cluster_model(&cluster);
                assert_int_equal(
                    tt_fabric_create(ops, &config, &tt_allocator_default, &why, &fabric), TT_OK);
                ops->destroy(fabric);
            }
        }
    }
}

/* ---- presets ---- */

static void test_every_preset_is_sound_and_makes_a_fabric(void **state)
{
    (void)state;
    static const char *const names[] = {"summit",        "ethernet-10g", "ethernet-25g",
                                        "ethernet-100g", "dgx1-v100",    "dgx2",
                                        "dgx-a100",      "laptop"};
    const tt_cluster *cluster;
    size_t count = 0;
    for (; (cluster = tt_cluster_preset_at(count)) != NULL; count++) {
        tt_text why = {.length = 0};
        tt_fabric_config config;
        tt_fabric *fabric = NULL;
        assert_string_equal(cluster->name, names[count]);
        assert_ptr_equal(cluster, tt_cluster_preset_find(cluster->name));
        assert_true(strlen(cluster->summary) > 0);
        const uint32_t ranks = cluster->host_count == 1 ? cluster->ranks_per_host : 64;
        if (tt_cluster_place(cluster, ranks, &why, &config) != TT_OK) {
            fail_msg("%s: %s", cluster->name, why.bytes);
        }
        const tt_fabric_ops *ops = tt_cluster_model(cluster);
        assert_int_equal(tt_fabric_create(ops, &config, &tt_allocator_default, &why, &fabric),
                         TT_OK);
        ops->destroy(fabric);
    }
    assert_int_equal(count, TT_ARRAY_COUNT(names));
    assert_null(tt_cluster_preset_find("summit2"));
}

/* A group whose fields are not all 0 or at their fallbacks. */
static bool is_told(const tt_cluster *cluster, tt_cluster_group group)
{
    const tt_cluster_field *field;
    for (size_t i = 0; (field = tt_cluster_field_at(i)) != NULL; i++) {
        const double value = tt_cluster_field_get(cluster, field);
        if (field->group == group && value != 0 && value != field->fallback) {
            return true;
        }
    }
    return false;
}

static void test_every_group_of_a_preset_has_a_source(void **state)
{
    (void)state;
    const tt_cluster *cluster;
    for (size_t i = 0; (cluster = tt_cluster_preset_at(i)) != NULL; i++) {
        for (int group = 0; group < TT_CLUSTER_GROUPS; group++) {
            if (is_told(cluster, (tt_cluster_group)group)) {
                assert_int_not_equal(cluster->sources[group], TT_CLUSTER_UNSTATED);
            }
        }
    }
}

/* Publicly known: hosts, ranks and what their cards carry. */
static void test_presets_have_the_published_sizes(void **state)
{
    (void)state;
    const tt_cluster *summit = tt_cluster_preset_find("summit");
    tt_text why = {.length = 0};
    tt_fabric_config config;
    assert_int_equal(summit->host_count * summit->ranks_per_host, 27648);
    assert_int_equal(tt_cluster_place(summit, 27648, &why, &config), TT_OK);
    assert_int_equal(tt_cluster_place(summit, 27649, &why, &config), TT_ERR_BAD_CONFIG);
    assert_true(tt_cluster_preset_find("dgx2")->ranks_per_host == 16);
    /* A hop between hosts, and one in shared memory. */
    assert_int_equal(2 * config.overhead_ns + config.links[TT_FABRIC_LEAF].latency_ns, 2300);
    assert_int_equal(2 * config.overhead_ns + config.links[TT_FABRIC_HOST].latency_ns, 350);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_field_has_a_place_of_its_own_and_a_text),
        cmocka_unit_test(test_a_value_is_read_as_it_was_printed),
        cmocka_unit_test(test_values_out_of_range_are_refused_with_the_range),
        cmocka_unit_test(test_zero_is_allowed_where_it_means_something),
        cmocka_unit_test(test_a_mistyped_field_is_guessed),
        cmocka_unit_test(test_a_fault_names_the_field_the_cause_and_the_cure),
        cmocka_unit_test(test_a_value_that_was_put_past_the_table_is_a_fault),
        cmocka_unit_test(test_a_single_host_needs_no_network),
        cmocka_unit_test(test_ranks_are_placed_in_units_of_the_fabric),
        cmocka_unit_test(test_fewer_ranks_than_a_host_has_are_placed_on_one),
        cmocka_unit_test(test_ranks_that_do_not_fit_are_refused),
        cmocka_unit_test(test_the_model_is_the_one_that_the_cluster_needs),
        cmocka_unit_test(test_an_accepted_cluster_is_an_accepted_fabric),
        cmocka_unit_test(test_every_preset_is_sound_and_makes_a_fabric),
        cmocka_unit_test(test_every_group_of_a_preset_has_a_source),
        cmocka_unit_test(test_presets_have_the_published_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
