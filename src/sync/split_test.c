/* SPDX-License-Identifier: Apache-2.0
 *
 * split_test.c - shares are those of the closed form, and parts cover a tensor exactly once. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/base.h"
#include "kernel/hash64.h"
#include "sync/split.h"

enum { PARTS_MAX = 4096 };

static double share(const tt_split *split, bool is_server)
{
    const uint64_t one = is_server ? split->server_weight : split->worker_weight;
    return (double)one / (double)split->weight;
}

/* BytePS: n = 4, k = 0 to 4. */
static void test_shares_are_the_closed_form(void **state)
{
    (void)state;
    for (uint32_t n = 2; n < 10; n++) {
        for (uint32_t k = 0; k <= n; k++) {
            const tt_split split = tt_split_make(n, k);
            const double all = n * n + (double)k * n - 2.0 * k;
            assert_true(share(&split, true) == 2.0 * (n - 1) / all);
            assert_true(share(&split, false) == (n - k) / all);
            assert_int_equal(split.owners, k < n ? n + k : k);
        }
    }
}

static void test_more_servers_than_workers_own_nothing(void **state)
{
    (void)state;
    const tt_split split = tt_split_make(3, 5);
    assert_int_equal(split.owners, 3);
    assert_int_equal(tt_split_number(&split, 3), 0);
    assert_int_equal(tt_split_number(&split, 6), UINT32_MAX);
    assert_int_equal(tt_split_number(&split, 0), UINT32_MAX); /* servers own all */
    assert_int_equal(tt_split_rank(&split, 2), 5);
}

static void test_one_worker_and_its_server(void **state)
{
    (void)state;
    const tt_split alone = tt_split_make(1, 0), served = tt_split_make(1, 1);
    assert_int_equal(alone.owners, 1);
    assert_int_equal(tt_split_rank(&alone, 0), 0);
    assert_int_equal(served.owners, 1);
    assert_int_equal(tt_split_rank(&served, 0), 1);
}

static void check_cut(const tt_split *split, uint64_t bytes)
{
    static tt_split_part parts[PARTS_MAX];
    uint64_t owned[64] = {0};
    uint64_t at = 0;
    const uint32_t count = tt_split_cut(split, bytes * 7, bytes, parts, PARTS_MAX);
    assert_true(count > 0 && count <= PARTS_MAX);
    assert_int_equal(tt_split_cut(split, bytes * 7, bytes, NULL, 0), count);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(parts[i].first, at);
        assert_true(parts[i].first % TT_SPLIT_GRAIN == 0);
        assert_true(parts[i].bytes <= TT_SPLIT_PART_BYTES && parts[i].owner < split->owners);
        assert_true(parts[i].bytes > 0 || bytes == 0);
        owned[parts[i].owner] += parts[i].bytes;
        at += parts[i].bytes;
    }
    assert_int_equal(at, bytes);
    for (uint32_t owner = 0; bytes > TT_SPLIT_WHOLE_BYTES && owner < split->owners; owner++) {
        const double wanted = share(split, owner < split->used) * (double)bytes;
        assert_true((double)owned[owner] > wanted - 2.0 * TT_SPLIT_GRAIN);
        assert_true((double)owned[owner] < wanted + 2.0 * TT_SPLIT_GRAIN);
    }
}

static void test_parts_cover_a_tensor_once(void **state)
{
    static const uint64_t lengths[] = {0,     1,     4,      63,      64,       65536,
                                       65537, 65600, 100004, 1 << 20, 33333332, 64 << 20};
    (void)state;
    for (uint32_t n = 1; n < 9; n++) {
        for (uint32_t k = 0; k < 9; k++) {
            const tt_split split = tt_split_make(n, k);
            for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
                check_cut(&split, lengths[i]);
            }
        }
    }
}

/* Each rank is at most one owner, and each owner one rank. */
static void test_numbers_and_ranks_are_inverse(void **state)
{
    (void)state;
    for (uint32_t n = 1; n < 9; n++) {
        for (uint32_t k = 0; k < 12; k++) {
            const tt_split split = tt_split_make(n, k);
            uint32_t owners = 0;
            for (uint32_t rank = 0; rank < n + k; rank++) {
                const uint32_t number = tt_split_number(&split, rank);
                if (number < split.owners) {
                    assert_int_equal(tt_split_rank(&split, number), rank);
                    owners++;
                }
            }
            assert_int_equal(owners, split.owners);
        }
    }
}

/* Short tensors by the thousand are shared out as bytes are. */
static void test_short_tensors_are_shared_out(void **state)
{
    enum { TENSORS = 20000 };
    const tt_split split = tt_split_make(4, 2);
    uint32_t counts[8] = {0};
    (void)state;
    for (uint64_t i = 0; i < TENSORS; i++) {
        tt_split_part part;
        (void)tt_split_cut(&split, tt_hash64(&i, sizeof(i), 0), 4096, &part, 1);
        counts[part.owner]++;
    }
    for (uint32_t owner = 0; owner < split.owners; owner++) {
        const double wanted = share(&split, owner < split.used) * TENSORS;
        assert_true(counts[owner] > 0.9 * wanted && counts[owner] < 1.1 * wanted);
    }
}

/* Whoever is left is somebody's turn, and parts of one owner go to different ones. */
static void test_heirs_are_all_owners_once(void **state)
{
    (void)state;
    for (uint32_t n = 1; n < 6; n++) {
        for (uint32_t k = 0; k < 6; k++) {
            const tt_split split = tt_split_make(n, k);
            for (uint32_t owner = 0; owner < split.owners; owner++) {
                uint64_t first_heirs = 0;
                for (uint32_t part = 0; part < split.owners; part++) {
                    uint64_t seen = 0;
                    for (uint32_t turn = 0; turn < split.owners; turn++) {
                        seen |= UINT64_C(1) << tt_split_heir(&split, owner, part, turn);
                    }
                    assert_int_equal(seen, (UINT64_C(1) << split.owners) - 1);
                    assert_int_equal(tt_split_heir(&split, owner, part, 0), owner);
                    if (split.owners > 1) {
                        first_heirs |= UINT64_C(1) << tt_split_heir(&split, owner, part, 1);
                    }
                }
                assert_int_equal(first_heirs | UINT64_C(1) << owner,
                                 (UINT64_C(1) << split.owners) - 1);
            }
        }
    }
}

/* Ratios are those of hosts; with one worker each they are the plain split's. */
static void test_hosts_share_as_workers_do(void **state)
{
    (void)state;
    for (uint32_t hosts = 2; hosts <= 5; hosts++) {
        for (uint32_t servers = 0; servers <= 6; servers++) {
            const tt_split plain = tt_split_make(hosts, servers);
            for (uint32_t each = 1; each <= 4; each++) {
                const tt_split split = tt_split_make_hosts(hosts * each, hosts, servers);
                assert_int_equal(split.used, plain.used);
                assert_int_equal(split.owners, plain.used + hosts * each);
                assert_int_equal(split.server_weight * plain.weight,
                                 plain.server_weight * split.weight);
                assert_int_equal(each * split.worker_weight * plain.weight,
                                 plain.worker_weight * split.weight);
                for (uint32_t rank = 0; rank < hosts * each; rank++) {
                    assert_int_equal(tt_split_rank(&split, tt_split_number(&split, rank)), rank);
                }
            }
        }
    }
}

static void test_chosen_servers_own_what_so_many_would(void **state)
{
    static const uint32_t chosen[] = {1, 4};
    const tt_split split = tt_split_make_of(4, 6, chosen, 2), plain = tt_split_make(4, 2);
    (void)state;
    assert_int_equal(split.owners, plain.owners);
    assert_int_equal(split.weight, plain.weight);
    for (uint32_t owner = 0; owner < split.owners; owner++) {
        const uint32_t rank = tt_split_rank(&split, owner);
        assert_int_equal(rank, owner < 2 ? 4 + chosen[owner] : owner - 2);
        assert_int_equal(tt_split_number(&split, rank), owner);
    }
    assert_true(tt_split_number(&split, 4) >= split.owners);
    assert_true(tt_split_number(&split, 9) >= split.owners);
    const tt_split none = tt_split_make_of(2, 2, chosen, 0);
    assert_int_equal(none.owners, 2);
    assert_int_equal(tt_split_rank(&none, 1), 1);
}

/* At any time each owner has got its share of what was sent, to within one part. */
static void test_parts_are_sent_in_proportion(void **state)
{
    enum { OWNERS_MAX = 16 };
    tt_split_part parts[PARTS_MAX];
    tt_split_turn turns[OWNERS_MAX];
    uint32_t order[PARTS_MAX];
    (void)state;
    for (uint32_t k = 0; k <= 4; k++) {
        const tt_split split = tt_split_make(4, k);
        const uint32_t count = tt_split_cut(&split, 0, 8 << 20, parts, PARTS_MAX);
        uint64_t first_owners = 0;
        assert_in_range(count, 256, 264);
        for (uint32_t worker = 0; worker < 4; worker++) {
            uint64_t got[OWNERS_MAX] = {0}, sent = 0;
            bool was_sent[PARTS_MAX] = {false};
            tt_split_order(&split, (tt_split_parts){parts, count}, worker, turns, order);
            for (uint32_t i = 0; i < count; i++) {
                const tt_split_part *part = &parts[order[i]];
                assert_false(was_sent[order[i]]);
                was_sent[order[i]] = true;
                got[part->owner] += part->bytes;
                sent += part->bytes;
                for (uint32_t owner = 0; owner < split.owners; owner++) {
                    const double wanted = share(&split, owner < split.used) * (double)sent;
                    assert_true(fabs((double)got[owner] - wanted) <= 2.0 * TT_SPLIT_PART_BYTES_MIN);
                }
            }
            first_owners |= UINT64_C(1) << parts[order[0]].owner;
        }
        assert_int_equal(__builtin_popcountll(first_owners), k == 0 ? 4 : tt_min_u64(k, 4));
    }
}

static void test_long_tensors_have_longer_parts(void **state)
{
    const tt_split split = tt_split_make(4, 4);
    static const struct {
        uint64_t bytes, part;
    } cases[] = {{TT_SPLIT_WHOLE_BYTES, TT_SPLIT_WHOLE_BYTES},
                 {TT_SPLIT_WHOLE_BYTES + 64, 4096},
                 {1 << 20, TT_SPLIT_PART_BYTES_MIN},
                 {64 << 20, 64 << 10},
                 {1 << 30, TT_SPLIT_PART_BYTES}};
    (void)state;
    for (size_t i = 0; i < TT_ARRAY_COUNT(cases); i++) {
        tt_split_part first;
        (void)tt_split_cut(&split, 0, cases[i].bytes, &first, 1);
        assert_int_equal(first.bytes, cases[i].part);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chosen_servers_own_what_so_many_would),
        cmocka_unit_test(test_shares_are_the_closed_form),
        cmocka_unit_test(test_more_servers_than_workers_own_nothing),
        cmocka_unit_test(test_one_worker_and_its_server),
        cmocka_unit_test(test_parts_cover_a_tensor_once),
        cmocka_unit_test(test_numbers_and_ranks_are_inverse),
        cmocka_unit_test(test_short_tensors_are_shared_out),
        cmocka_unit_test(test_heirs_are_all_owners_once),
        cmocka_unit_test(test_hosts_share_as_workers_do),
        cmocka_unit_test(test_parts_are_sent_in_proportion),
        cmocka_unit_test(test_long_tensors_have_longer_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
