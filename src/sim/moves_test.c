/* SPDX-License-Identifier: Apache-2.0
 *
 * moves_test.c - times of collectives on a plain LogGP machine are those of the closed formulas.
 *
 * Method: a card per rank, no contention; where ranks fold in pairs first, the others start when
 * the fold is over, so that no two frames meet. Formulas: Thakur et al. 2005, with alpha = L + 2 o,
 * beta = G, gamma the time of an addition. With --bug NAME (a build with planted bugs) the test
 * must fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "aggregate/registry.h"
#include "base/base.h"
#include "base/plant.h"
#include "sim/sim.h"

enum {
    RANKS_MAX = 64,
    OVERHEAD_NS = 500,
    LATENCY_NS = 1300,
    BYTE_FS = 80000, /* 12.5 GB/s */
    REDUCE_FS = 100000,
    MIB = 1 << 20,
};

static double alpha(void)
{
    return LATENCY_NS + 2 * OVERHEAD_NS;
}

static double beta(double bytes)
{
    return bytes * BYTE_FS / 1e6;
}

static double gamma_of(double bytes)
{
    return bytes * REDUCE_FS / 1e6;
}

static tt_fabric *plain_fabric(uint32_t size)
{
    tt_fabric_config config;
    const tt_fabric_link link = {.latency_ns = LATENCY_NS, .byte_fs = BYTE_FS};
    tt_fabric_config_plain(&config, size, link);
    config.overhead_ns = OVERHEAD_NS;
    config.reduce_byte_fs = REDUCE_FS;
    tt_text why = {0};
    tt_fabric *fabric = NULL;
    assert_int_equal(TT_OK, tt_fabric_create(tt_fabric_find("ports"), &config,
                                             &tt_allocator_default, &why, &fabric));
    return fabric;
}

static tt_moves_input input_of(tt_fabric *fabric, tt_collective collective, uint32_t size,
                               uint64_t bytes)
{
    return (tt_moves_input){
        .fabric = fabric,
        .problem = {.collective = collective,
                    .dtype = TT_F32,
                    .redop = TT_SUM,
                    .size = size,
                    .element_bytes = 4,
                    .segment_bytes = MIB,
                    .bytes = bytes,
                    .postscale = 1.0,
                    .is_in_place = true},
        .eager_bytes_max = 4U * MIB,
        .memory_bytes_max = 512U * MIB,
        .allocator = &tt_allocator_default,
    };
}

/* Nanoseconds until the last rank is done. */
static double time_of(const tt_moves_input *input)
{
    tt_text why = {0};
    uint64_t done_ns[RANKS_MAX];
    tt_moves_result result;
    const tt_status status = tt_moves_run(input, &why, done_ns, &result);
    if (status != TT_OK) {
        fail_msg("%s", why.bytes);
    }
    if (input->forced != NULL) {
        assert_string_equal(input->forced, result.algorithm->name);
    }
    return (double)result.end_ns;
}

static double time_plain(const char *algorithm, tt_collective collective, uint32_t size,
                         uint64_t bytes)
{
    tt_fabric *fabric = plain_fabric(size);
    tt_moves_input input = input_of(fabric, collective, size, bytes);
    input.forced = algorithm;
    const double found = time_of(&input);
    fabric->ops->destroy(fabric);
    return found;
}

static void assert_near(const char *what, uint32_t size, double expected, double found)
{
    if (fabs(expected - found) > 1e-3 * expected) {
        fail_msg("%s, %u ranks: the formula gives %.0f ns, moves %.0f", what, size, expected,
                 found);
    }
}

/* ---- formulas ---- */

static void test_a_ring_takes_its_formula(void **state)
{
    (void)state;
    for (uint32_t size = 2; size <= RANKS_MAX; size++) {
        for (uint64_t slice = 64; slice <= 512 * 1024; slice *= 32) {
            const double expected = 2 * (size - 1) * (alpha() + beta((double)slice)) +
                                    (size - 1) * gamma_of((double)slice);
            assert_near("ring", size, expected,
                        time_plain("ring", TT_ALLREDUCE, size, slice * size));
            assert_near("ring all-gather", size, (size - 1) * (alpha() + beta((double)slice)),
                        time_plain("ring", TT_ALLGATHER, size, slice));
        }
    }
}

static uint32_t log2_of(uint32_t size)
{
    return 31U - (uint32_t)__builtin_clz(size);
}

/* The last of the ranks that fold in pairs have folded; the others start then. */
static double time_folded(const char *algorithm, uint32_t size, uint64_t bytes)
{
    const uint32_t rest = size - (1U << log2_of(size));
    const double fold = alpha() + beta((double)bytes) + gamma_of((double)bytes);
    uint64_t start_ns[RANKS_MAX] = {0};
    tt_fabric *fabric = plain_fabric(size);
    tt_moves_input input = input_of(fabric, TT_ALLREDUCE, size, bytes);
    input.forced = algorithm;
    input.start_ns = start_ns;
    for (uint32_t i = 2 * rest; rest > 0 && i < size; i++) {
        start_ns[i] = (uint64_t)fold;
    }
    const double found = time_of(&input);
    fabric->ops->destroy(fabric);
    return found;
}

static double fold_and_unfold(uint32_t size, double bytes)
{
    return (size & (size - 1)) == 0 ? 0 : 2 * (alpha() + beta(bytes)) + gamma_of(bytes);
}

static void test_doubling_takes_its_formula(void **state)
{
    (void)state;
    for (uint32_t size = 2; size <= RANKS_MAX; size++) {
        for (uint64_t bytes = 40; bytes <= MIB; bytes *= 25) {
            const double hop = alpha() + beta((double)bytes) + gamma_of((double)bytes);
            assert_near("doubling", size,
                        log2_of(size) * hop + fold_and_unfold(size, (double)bytes),
                        time_folded("doubling", size, bytes));
        }
    }
}

static void test_halving_takes_its_formula(void **state)
{
    (void)state;
    for (uint32_t size = 2; size <= RANKS_MAX; size++) {
        const uint32_t power = 1U << log2_of(size);
        for (uint64_t bytes = 32000; bytes <= 2 * MIB; bytes *= 8) {
            const double part = (double)bytes * (power - 1) / power;
            const double expected = 2 * (log2_of(size) * alpha() + beta(part)) + gamma_of(part);
            assert_near("halving", size, expected + fold_and_unfold(size, (double)bytes),
                        time_folded("halving", size, bytes));
        }
    }
}

/* Slices so long that the card, not the processor, is the bottleneck. */
static void test_direct_takes_its_formula(void **state)
{
    (void)state;
    for (uint32_t size = 2; size <= RANKS_MAX; size++) {
        for (uint64_t slice = 25000; slice <= MIB; slice *= 25) {
            const double expected = 2 * (alpha() + (size - 1) * beta((double)slice)) +
                                    (size - 1) * gamma_of((double)slice);
            assert_near("direct", size, expected,
                        time_plain("direct", TT_ALLREDUCE, size, slice * size));
        }
    }
}

/* When rank `number` of a broadcast from 0 has the data: its parent has sent it to its own larger
 * subtrees first, one after the other. */
static double broadcast_done(uint32_t size, uint32_t depth, uint32_t number, double bytes)
{
    if (number == 0) {
        return 0;
    }
    const uint32_t turn = (uint32_t)__builtin_ctz(number);
    const uint32_t parent = number - (1U << turn);
    const uint32_t top = parent == 0 ? depth : (uint32_t)__builtin_ctz(parent);
    double before = 0;
    for (uint32_t earlier = turn + 1; earlier < top; earlier++) {
        before += parent + (1U << earlier) < size ? OVERHEAD_NS + beta(bytes) : 0;
    }
    return broadcast_done(size, depth, parent, bytes) + before + alpha() + beta(bytes);
}

static void test_binomial_trees_take_their_formula(void **state)
{
    (void)state;
    for (uint32_t size = 2; size <= RANKS_MAX; size++) {
        const uint32_t depth = log2_of(2 * size - 1);
        for (uint64_t bytes = 40; bytes <= MIB; bytes *= 25) {
            double last = 0;
            for (uint32_t i = 0; i < size; i++) {
                last = fmax(last, broadcast_done(size, depth, i, (double)bytes));
            }
            assert_near("binomial broadcast", size, last,
                        time_plain("binomial", TT_BROADCAST, size, bytes));
            if ((size & (size - 1)) != 0) {
                continue; /* frames of subtrees of different depths meet at their parent */
            }
            const double hop = alpha() + beta((double)bytes) + gamma_of((double)bytes);
            assert_near("binomial reduce", size, depth * hop,
                        time_plain("binomial", TT_REDUCE, size, bytes));
            assert_near("binomial", size, depth * hop + last,
                        time_plain("binomial", TT_ALLREDUCE, size, bytes));
        }
    }
}

/* The bottleneck is the sending card, the receiving one, or all of them. */
static void test_pairwise_exchanges_take_their_formula(void **state)
{
    (void)state;
    static const tt_collective collectives[] = {TT_SCATTER, TT_GATHER, TT_ALLTOALL, TT_ALLGATHER};
    for (uint32_t size = 2; size <= RANKS_MAX; size++) {
        for (uint32_t i = 0; i < TT_ARRAY_COUNT(collectives); i++) {
            const double expected = alpha() + (size - 1) * beta(100000);
            assert_near(tt_collective_name(collectives[i]), size, expected,
                        time_plain("pairwise", collectives[i], size, 100000));
        }
    }
}

/* A card that sends to all others, or receives from them, is the bottleneck wherever it is. */
static void test_every_root_takes_the_same_time(void **state)
{
    (void)state;
    static const tt_collective collectives[] = {TT_BROADCAST, TT_REDUCE, TT_SCATTER, TT_GATHER};
    const uint32_t size = 13;
    tt_fabric *fabric = plain_fabric(size);
    for (uint32_t i = 0; i < TT_ARRAY_COUNT(collectives); i++) {
        tt_moves_input input = input_of(fabric, collectives[i], size, 100000);
        double expected = 0;
        for (uint32_t root = 0; root < size; root++) {
            input.problem.root = root;
            fabric->ops->reset(fabric);
            const double found = time_of(&input);
            expected = root == 0 ? found : expected;
            assert_true(expected > alpha() + beta(100000));
            assert_near(tt_collective_name(collectives[i]), size, expected, found);
        }
    }
    fabric->ops->destroy(fabric);
}

static void test_a_rank_alone_only_copies(void **state)
{
    (void)state;
    for (int collective = 0; collective < TT_COLLECTIVE_COUNT; collective++) {
        if (collective == TT_SEND || collective == TT_RECEIVE) {
            continue; /* of two ranks */
        }
        tt_fabric *fabric = plain_fabric(1);
        const uint64_t bytes = collective == TT_BARRIER ? 0 : 100000;
        tt_moves_input input = input_of(fabric, (tt_collective)collective, 1, bytes);
        fabric->config.copy_byte_fs = REDUCE_FS;
        input.problem.is_in_place = false;
        const double expected = gamma_of((double)bytes);
        const double found = time_of(&input);
        if (found < expected || found > 2 * expected) {
            fail_msg("%s: %.0f ns for a copy of %.0f",
                     tt_collective_name((tt_collective)collective), found, expected);
        }
        fabric->ops->destroy(fabric);
    }
}

/* Lanes overlap: after the first one has passed all rounds, the card is never idle. */
static void test_lanes_of_a_ring_hide_the_latency(void **state)
{
    (void)state;
    const uint32_t size = 8;
    const uint64_t slice = 64U * MIB / size;
    tt_fabric *fabric = plain_fabric(size);
    tt_moves_input input = input_of(fabric, TT_ALLREDUCE, size, slice * size);
    input.forced = "ring";
    input.problem.segment_bytes = 128 * 1024;
    input.eager_bytes_max = 16 * 1024; /* every frame waits for a grant */
    const double least = 2 * (size - 1) * beta((double)slice);
    const double work = (size - 1) * gamma_of((double)slice);
    const double found = time_of(&input);
    assert_true(found >= fmax(least, work));
    assert_true(found <= 1.35 * fmax(least, work));
    fabric->ops->destroy(fabric);
}

/* ---- conservation ---- */

typedef struct counts {
    uint64_t frames, bytes;
} counts;

/* What the moves of all ranks send, counted without walking them. */
static counts sends_of(const tt_algorithm *algorithm, tt_problem problem)
{
    counts found = {0};
    tt_plan plan;
    for (problem.self = 0; problem.self < problem.size; problem.self++) {
        algorithm->plan(&problem, &plan);
        for (uint64_t lane = 0; lane < plan.lane_count; lane++) {
            for (uint32_t round = 0; round < plan.round_count; round++) {
                tt_move move = {0};
                tt_cursor at = {.lane = lane, .round = round};
                for (; algorithm->move(&problem, &plan, at, &move); at.index++) {
                    found.frames += move.kind == TT_MOVE_SEND ? 1 : 0;
                    found.bytes += move.kind == TT_MOVE_SEND ? move.bytes : 0;
                }
            }
        }
    }
    return found;
}

static void check_walk(const tt_algorithm *algorithm, const tt_moves_input *input)
{
    tt_text why = {0};
    uint64_t done_ns[RANKS_MAX];
    tt_moves_result result;
    const counts expected = sends_of(algorithm, input->problem);
    if (tt_moves_run(input, &why, done_ns, &result) != TT_OK) {
        fail_msg("%s", why.bytes);
    }
    counts sent = {0};
    for (uint32_t level = 0; level < TT_FABRIC_LEVELS; level++) {
        const tt_fabric_traffic *traffic = &result.levels[level];
        assert_true(traffic->frames_sent == traffic->frames_received);
        assert_true(traffic->bytes_sent == traffic->bytes_received);
        sent.frames += traffic->frames_sent;
        sent.bytes += traffic->bytes_sent;
    }
    assert_ptr_equal(algorithm, result.algorithm);
    assert_true(expected.frames + result.grants == sent.frames);
    assert_true(expected.bytes == sent.bytes);
    assert_true(tt_moves_bytes(input) > 0 && tt_moves_bytes(input) <= result.memory_bytes);
}

static tt_fabric_config shared_config(uint32_t size, uint32_t per_host)
{
    tt_fabric_config config;
    const tt_fabric_link link = {.latency_ns = LATENCY_NS, .gap_ns = 20, .byte_fs = BYTE_FS};
    tt_fabric_config_plain(&config, size, link);
    config.ranks_per_host = per_host < size ? per_host : size;
    config.cards_per_host = 1;
    config.hosts_per_leaf = 2;
    config.uplinks_per_leaf = 1;
    config.head_bytes = 48;
    config.overhead_ns = 300;
    config.overhead_byte_fs = 1000;
    config.reduce_byte_fs = REDUCE_FS;
    config.copy_byte_fs = REDUCE_FS / 2;
    config.memory_byte_fs = REDUCE_FS / 4;
    config.links[TT_FABRIC_HOST].latency_ns = 350;
    config.links[TT_FABRIC_TREE].byte_fs = 2 * BYTE_FS;
    return config;
}

static void check_sizes(const tt_algorithm *algorithm, tt_collective collective, uint32_t size,
                        tt_fabric *fabric)
{
    static const uint64_t lengths[] = {0, 4, 1000, 300000};
    for (uint32_t i = 0; i < TT_ARRAY_COUNT(lengths); i++) {
        tt_moves_input input = input_of(fabric, collective, size, lengths[i]);
        input.forced = algorithm->name;
        input.problem.segment_bytes = 4096;
        input.problem.root = i * (size - 1) / (TT_ARRAY_COUNT(lengths) - 1); /* first to last */
        input.problem.is_in_place = i % 2 == 0;
        input.eager_bytes_max = i % 2 == 0 ? 8192 : 512;
        if (algorithm->fits(&input.problem) &&
            tt_algorithm_choose(&input.problem, algorithm->name) == algorithm) {
            fabric->ops->reset(fabric);
            check_walk(algorithm, &input);
        }
    }
}

static void test_what_is_sent_arrives_in_every_algorithm_and_model(void **state)
{
    (void)state;
    for (uint32_t model = 0; tt_fabric_at(model) != NULL; model++) {
        for (uint32_t size = 1; size <= 13; size++) {
            const tt_fabric_config config = shared_config(size, 1 + size % 3);
            tt_text why = {0};
            tt_fabric *fabric = NULL;
            assert_int_equal(TT_OK, tt_fabric_create(tt_fabric_at(model), &config,
                                                     &tt_allocator_default, &why, &fabric));
            for (uint32_t i = 0; tt_algorithm_at(i) != NULL; i++) {
                for (int collective = 0; collective < TT_COLLECTIVE_COUNT; collective++) {
                    if ((collective == TT_SEND || collective == TT_RECEIVE) && size != 2) {
                        continue; /* of two ranks */
                    }
                    check_sizes(tt_algorithm_at(i), (tt_collective)collective, size, fabric);
                }
            }
            fabric->ops->destroy(fabric);
        }
    }
}

/* Two hosts of four ranks, which share memory. */
static tt_topology two_hosts(void)
{
    static const uint32_t host_of[] = {0, 0, 0, 0, 1, 1, 1, 1},
                          local_of[] = {0, 1, 2, 3, 0, 1, 2, 3};
    static const uint32_t members[] = {0, 1, 2, 3, 4, 5, 6, 7}, first[] = {0, 4, 8};
    return (tt_topology){.host_count = 2,
                         .rail_count = 2,
                         .host_of = host_of,
                         .local_of = local_of,
                         .host_first = first,
                         .host_members = members,
                         .has_views = true};
}

static tt_topology one_host(void)
{
    static const uint32_t first[] = {0, 4};
    tt_topology topology = two_hosts();
    topology.host_count = 1;
    topology.host_first = first;
    return topology;
}

static void test_algorithms_of_shared_memory_are_walked(void **state)
{
    (void)state;
    const tt_topology two = two_hosts(), single = one_host();
    const tt_fabric_config config = shared_config(8, 4);
    for (uint32_t i = 0; i < 4; i++) {
        tt_text why = {0};
        tt_fabric *fabric = NULL;
        assert_int_equal(TT_OK, tt_fabric_create(tt_fabric_find("memory"), &config,
                                                 &tt_allocator_default, &why, &fabric));
        tt_moves_input input = input_of(fabric, TT_ALLREDUCE, i < 2 ? 8 : 4, 3000000);
        input.problem.segment_bytes = 64 * 1024;
        input.problem.topology = i < 2 ? &two : &single, input.is_staged = i % 2 == 0;
        const double found = time_of(&input);
        tt_moves_result result;
        uint64_t done_ns[8];
        fabric->ops->reset(fabric);
        assert_int_equal(TT_OK, tt_moves_run(&input, &why, done_ns, &result));
        assert_string_equal(i < 2 ? "hierarchical" : "shared", result.algorithm->name);
        assert_true((double)result.end_ns <= found && (double)result.end_ns >= found);
        assert_int_equal(result.levels[TT_FABRIC_HOST].bytes_sent, /* places alone */
                         (i < 2 ? 24U : 12U) * sizeof(tt_fact));
        fabric->ops->destroy(fabric);
    }
}

/* ---- the order of times ---- */

/* A model that passes all questions on, if none is earlier than the one before. */
typedef struct watch {
    tt_fabric base;
    tt_fabric *inner;
    uint64_t last_ns, works;
} watch;

static watch *watch_at(tt_fabric *fabric, uint64_t at_ns)
{
    watch *self = TT_CONTAINER_OF(fabric, watch, base);
    assert_true(at_ns >= self->last_ns);
    self->last_ns = at_ns;
    return self;
}

static tt_departure watch_send(tt_fabric *fabric, const tt_fabric_frame *frame, uint64_t at_ns)
{
    tt_fabric *inner = watch_at(fabric, at_ns)->inner;
    return inner->ops->send(inner, frame, at_ns);
}

static bool watch_pass(tt_fabric *fabric, const tt_fabric_frame *frame, uint32_t hop,
                       uint64_t *at_ns_io)
{
    tt_fabric *inner = watch_at(fabric, *at_ns_io)->inner;
    return inner->ops->pass(inner, frame, hop, at_ns_io);
}

static uint64_t watch_work(tt_fabric *fabric, uint32_t rank, tt_fabric_work work, uint64_t bytes,
                           uint64_t at_ns)
{
    watch *self = watch_at(fabric, at_ns);
    self->works++;
    return self->inner->ops->work(self->inner, rank, work, bytes, at_ns);
}

/* Returns how often the model was asked for work. */
static uint64_t check_order(tt_moves_input *input, tt_fabric *inner)
{
    static const tt_fabric_ops ops = {
        .name = "watch", .send = watch_send, .pass = watch_pass, .work = watch_work};
    watch self = {.base = {.ops = &ops, .config = inner->config}, .inner = inner};
    uint64_t done_ns[RANKS_MAX];
    tt_text why = {0};
    tt_moves_result result;
    input->fabric = &self.base;
    if (tt_moves_run(input, &why, done_ns, &result) != TT_OK) {
        fail_msg("%s", why.bytes);
    }
    input->fabric = inner;
    return self.works;
}

static void test_shared_models_are_asked_in_the_order_of_times(void **state)
{
    (void)state;
    static const uint64_t lengths[] = {24, 1000, 60000, 900000};
    uint64_t start_ns[12], works = 0;
    const tt_fabric_config config = shared_config(12, 3);
    tt_text why = {0};
    tt_fabric *fabric = NULL;
    for (uint32_t rank = 0; rank < 12; rank++) {
        start_ns[rank] = rank * 7919 % 50000;
    }
    assert_int_equal(TT_OK, tt_fabric_create(tt_fabric_find("memory"), &config,
                                             &tt_allocator_default, &why, &fabric));
    for (uint32_t i = 0; tt_algorithm_at(i) != NULL; i++) {
        for (uint32_t k = 0; k < 2 * TT_ARRAY_COUNT(lengths); k++) {
            tt_moves_input input = input_of(fabric, TT_ALLREDUCE, 12, lengths[k / 2]);
            input.forced = tt_algorithm_at(i)->name;
            input.problem.segment_bytes = 4096;
            input.problem.is_in_place = false;
            input.eager_bytes_max = k % 2 == 0 ? 8192 : 512;
            input.start_ns = start_ns;
            fabric->ops->reset(fabric);
            works += check_order(&input, fabric);
        }
    }
    assert_true(works > 10000);
    fabric->ops->destroy(fabric);
}

/* ---- the rest of the contract ---- */

static void test_the_same_input_gives_the_same_times(void **state)
{
    (void)state;
    for (uint32_t model = 0; tt_fabric_at(model) != NULL; model++) {
        const tt_fabric_config config = shared_config(30, 3);
        uint64_t times[2][30], start_ns[30];
        for (uint32_t i = 0; i < 30; i++) {
            start_ns[i] = i * 7919 % 5000;
        }
        for (uint32_t run = 0; run < 2; run++) {
            tt_text why = {0};
            tt_fabric *fabric = NULL;
            tt_moves_result result;
            assert_int_equal(TT_OK, tt_fabric_create(tt_fabric_at(model), &config,
                                                     &tt_allocator_default, &why, &fabric));
            tt_moves_input input = input_of(fabric, TT_ALLREDUCE, 30, 500000);
            input.problem.segment_bytes = 8192;
            input.eager_bytes_max = 1024;
            input.start_ns = start_ns;
            assert_int_equal(TT_OK, tt_moves_run(&input, &why, times[run], &result));
            fabric->ops->destroy(fabric);
        }
        assert_memory_equal(times[0], times[1], sizeof(times[0]));
    }
}

/* Frames that are handled before they are complete, where nothing can come between, are handled at
 * the same times as with an event for everything. With several lanes a rank may get two things to
 * do at the same time, and do them in another order. */
static void check_shortcuts(tt_moves_input *input, double tolerance)
{
    uint64_t times[2][RANKS_MAX];
    for (uint32_t run = 0; run < 2; run++) {
        tt_text why = {0};
        tt_moves_result result;
        input->fabric->ops->reset(input->fabric);
        input->fabric->is_private = run == 0;
        assert_int_equal(TT_OK, tt_moves_run(input, &why, times[run], &result));
    }
    for (uint32_t rank = 0; rank < input->problem.size; rank++) {
        const double one = (double)times[0][rank], other = (double)times[1][rank];
        if (fabs(one - other) > tolerance * one) {
            fail_msg("%s: rank %u of %u is done at %.0f, or at %.0f", input->forced, rank,
                     input->problem.size, one, other);
        }
    }
}

static void test_shortcuts_change_no_time(void **state)
{
    (void)state;
    uint64_t start_ns[RANKS_MAX];
    for (uint32_t rank = 0; rank < RANKS_MAX; rank++) {
        start_ns[rank] = rank * 7919 % 5003;
    }
    for (uint32_t i = 0; tt_algorithm_at(i) != NULL; i++) {
        for (uint32_t size = 2; size <= 24; size++) {
            tt_fabric *fabric = plain_fabric(size);
            tt_moves_input input = input_of(fabric, TT_ALLREDUCE, size, 20000);
            input.forced = tt_algorithm_at(i)->name;
            if (tt_algorithm_choose(&input.problem, input.forced) != tt_algorithm_at(i)) {
                fabric->ops->destroy(fabric);
                continue;
            }
            input.start_ns = start_ns;
            check_shortcuts(&input, 0);
            input.eager_bytes_max = 1024;
            check_shortcuts(&input, 0);
            input.problem.segment_bytes = 1024;
            check_shortcuts(&input, 0.1);
            fabric->ops->destroy(fabric);
        }
    }
}

static void test_a_late_rank_delays_the_others_by_as_much(void **state)
{
    (void)state;
    const uint64_t late_ns = 1000 * 1000;
    uint64_t start_ns[16] = {[5] = late_ns};
    tt_fabric *fabric = plain_fabric(16);
    tt_moves_input input = input_of(fabric, TT_ALLREDUCE, 16, 400);
    input.forced = "doubling";
    const double on_time = time_of(&input);
    fabric->ops->reset(fabric);
    input.start_ns = start_ns;
    const double found = time_of(&input);
    assert_true(found >= (double)late_ns + on_time);
    assert_true(found <= (double)late_ns + 2 * on_time);
    fabric->ops->destroy(fabric);
}

/* Frames of more lanes than are open at once, and of all of them before the call is made. */
static void test_a_late_root_takes_what_waits_for_it(void **state)
{
    (void)state;
    uint64_t start_ns[RANKS_MAX] = {[3] = UINT64_C(1000) * 1000 * 1000};
    tt_fabric *fabric = plain_fabric(RANKS_MAX);
    tt_moves_input input = input_of(fabric, TT_GATHER, RANKS_MAX, 100 * 1024 - 4);
    input.problem.segment_bytes = 1024;
    input.problem.root = 3;
    input.start_ns = start_ns;
    for (uint32_t i = 0; i < 2; i++) {
        fabric->is_private = i == 0;
        fabric->ops->reset(fabric);
        check_walk(tt_algorithm_find("pairwise"), &input);
    }
    fabric->ops->destroy(fabric);
}

static void test_oversubscribed_uplinks_take_as_much_longer(void **state)
{
    (void)state;
    tt_fabric_config config;
    const tt_fabric_link link = {.byte_fs = BYTE_FS};
    double times[2];
    for (uint32_t i = 0; i < 2; i++) {
        tt_fabric_config_plain(&config, 16, link);
        config.hosts_per_leaf = 8;
        config.uplinks_per_leaf = i == 0 ? 8 : 2;
        tt_text why = {0};
        tt_fabric *fabric = NULL;
        assert_int_equal(TT_OK, tt_fabric_create(tt_fabric_find("tree"), &config,
                                                 &tt_allocator_default, &why, &fabric));
        tt_moves_input input = input_of(fabric, TT_ALLTOALL, 16, 100000);
        times[i] = time_of(&input);
        fabric->ops->destroy(fabric);
    }
    /* 64 parts leave each leaf: over two uplinks these take longer than 15 over a card. */
    assert_true(times[0] >= 15 * beta(100000) && times[0] <= 1.7 * 15 * beta(100000));
    assert_true(times[1] >= 32 * beta(100000) && times[1] <= 1.2 * 32 * beta(100000));
}

/* With the plan that the run makes: by the places of buffers, where memory is shared. */
static void test_the_bytes_of_a_run_are_those_it_holds_at_its_start(void **state)
{
    (void)state;
    const tt_fabric_config config = shared_config(4, 4);
    tt_text why = {0};
    tt_fabric *fabric = NULL;
    assert_int_equal(TT_OK, tt_fabric_create(tt_fabric_find("memory"), &config,
                                             &tt_allocator_default, &why, &fabric));
    for (uint32_t i = 0; i < 2; i++) {
        tt_moves_input input = input_of(fabric, TT_ALLREDUCE, 4, 3000000);
        uint64_t done_ns[4];
        tt_moves_result result;
        const tt_topology host = one_host();
        input.problem.segment_bytes = 64 * 1024;
        input.problem.topology = &host;
        input.is_staged = i == 1;
        input.memory_bytes_max = tt_moves_bytes(&input) - 1;
        tt_text_clear(&why);
        assert_int_equal(TT_ERR_NO_MEMORY, tt_moves_run(&input, &why, done_ns, &result));
        assert_non_null(strstr(why.bytes, "allow more memory"));
        char bytes[32];
        (void)snprintf(bytes, sizeof(bytes), "needs %" PRIu64 " bytes", input.memory_bytes_max + 1);
        assert_non_null(strstr(why.bytes, bytes));
    }
    fabric->ops->destroy(fabric);
}

static void test_memory_is_refused_before_the_start_and_never_exceeded(void **state)
{
    (void)state;
    tt_fabric *fabric = plain_fabric(RANKS_MAX);
    tt_moves_input input = input_of(fabric, TT_ALLREDUCE, RANKS_MAX, 24);
    tt_text why = {0};
    uint64_t done_ns[RANKS_MAX];
    tt_moves_result result;
    input.memory_bytes_max = tt_moves_bytes(&input) - 1;
    assert_int_equal(TT_ERR_NO_MEMORY, tt_moves_run(&input, &why, done_ns, &result));
    assert_non_null(strstr(why.bytes, "allow more memory"));
    input.memory_bytes_max += 1000; /* events do not fit */
    tt_text_clear(&why);
    assert_int_equal(TT_ERR_NO_MEMORY, tt_moves_run(&input, &why, done_ns, &result));
    tt_text_clear(&why);
    input.problem.size = RANKS_MAX + 1;
    assert_int_equal(TT_ERR_BAD_ARGUMENT, tt_moves_run(&input, &why, done_ns, &result));
    fabric->ops->destroy(fabric);
}

static void test_27600_ranks_fit_into_256_mib(void **state)
{
    (void)state;
    const uint32_t size = 27600;
    tt_fabric *fabric = plain_fabric(size);
    tt_moves_input input = input_of(fabric, TT_ALLREDUCE, size, 24);
    input.memory_bytes_max = 256U * MIB;
    tt_text why = {0};
    uint64_t *done_ns = tt_allocate(&tt_allocator_default, size, sizeof(*done_ns));
    tt_moves_result result;
    assert_int_equal(TT_OK, tt_moves_run(&input, &why, done_ns, &result));
    assert_string_equal("doubling", result.algorithm->name);
    assert_true(result.memory_bytes <= input.memory_bytes_max);
    assert_true((double)result.end_ns >= 14 * alpha());
    tt_release(&tt_allocator_default, done_ns, size, sizeof(*done_ns));
    fabric->ops->destroy(fabric);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--bug") == 0 && !tt_plant_choose(argv[2])) {
        (void)fprintf(stderr, "no planted bug is called '%s' here\n", argv[2]);
        return 2;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_ring_takes_its_formula),
        cmocka_unit_test(test_doubling_takes_its_formula),
        cmocka_unit_test(test_halving_takes_its_formula),
        cmocka_unit_test(test_direct_takes_its_formula),
        cmocka_unit_test(test_binomial_trees_take_their_formula),
        cmocka_unit_test(test_pairwise_exchanges_take_their_formula),
        cmocka_unit_test(test_every_root_takes_the_same_time),
        cmocka_unit_test(test_a_rank_alone_only_copies),
        cmocka_unit_test(test_lanes_of_a_ring_hide_the_latency),
        cmocka_unit_test(test_what_is_sent_arrives_in_every_algorithm_and_model),
        cmocka_unit_test(test_algorithms_of_shared_memory_are_walked),
        cmocka_unit_test(test_shared_models_are_asked_in_the_order_of_times),
        cmocka_unit_test(test_the_same_input_gives_the_same_times),
        cmocka_unit_test(test_shortcuts_change_no_time),
        cmocka_unit_test(test_a_late_rank_delays_the_others_by_as_much),
        cmocka_unit_test(test_a_late_root_takes_what_waits_for_it),
        cmocka_unit_test(test_oversubscribed_uplinks_take_as_much_longer),
        cmocka_unit_test(test_the_bytes_of_a_run_are_those_it_holds_at_its_start),
        cmocka_unit_test(test_memory_is_refused_before_the_start_and_never_exceeded),
        cmocka_unit_test(test_27600_ranks_fit_into_256_mib),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
