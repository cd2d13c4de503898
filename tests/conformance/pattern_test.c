/* SPDX-License-Identifier: Apache-2.0
 *
 * pattern_test.c - every algorithm keeps the rules of aggregate.h, on every collective it fits.
 *
 * First by counting moves, then by running them on symbols (symbolic.h) in several orders.
 * Labels: asan
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "aggregate/registry.h"
#include "base/base.h"
#include "conformance/symbolic.h"

static const uint32_t sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 33};

typedef struct placement {
    tt_topology topology;
    uint32_t host_of[SYMBOLIC_SIZE_MAX], local_of[SYMBOLIC_SIZE_MAX];
    uint32_t host_first[SYMBOLIC_SIZE_MAX + 1], host_members[SYMBOLIC_SIZE_MAX];
} placement;

typedef enum host_layout {
    LAYOUT_ONE,
    LAYOUT_EVEN,
    LAYOUT_UNEVEN,
    LAYOUT_DEALT,
    LAYOUT_FEW_RAILS, /* two hosts with more members than rails */
    LAYOUT_COUNT
} host_layout;

static uint32_t host_in(host_layout layout, uint32_t rank, uint32_t size)
{
    switch (layout) {
    case LAYOUT_EVEN:
        return rank / 2;
    case LAYOUT_UNEVEN:
        return rank * 3 < size ? 0 : 1;
    case LAYOUT_DEALT:
        return rank % (size < 3 ? size : 3);
    case LAYOUT_FEW_RAILS:
        return rank * 2 / size;
    default:
        return 0;
    }
}

static void placement_make(placement *made, host_layout layout, uint32_t size)
{
    uint32_t at = 0, host = 0;
    memset(made, 0, sizeof(*made));
    made->topology.rail_count = UINT32_MAX;
    for (; at < size; host++) {
        const uint32_t first = at;
        made->host_first[host] = first;
        for (uint32_t r = 0; r < size; r++) {
            if (host_in(layout, r, size) == host) {
                made->host_of[r] = host;
                made->local_of[r] = at - first;
                made->host_members[at++] = r;
            }
        }
        made->topology.rail_count = (uint32_t)tt_min_u64(made->topology.rail_count, at - first);
    }
    if (layout == LAYOUT_FEW_RAILS) {
        made->topology.rail_count = (uint32_t)tt_min_u64(made->topology.rail_count, 2);
    }
    made->host_first[host] = at;
    made->topology.host_count = host;
    made->topology.host_of = made->host_of;
    made->topology.local_of = made->local_of;
    made->topology.host_first = made->host_first;
    made->topology.host_members = made->host_members;
    made->topology.has_views = true;
}

/* ---- counting ---- */

/* Frames from one rank to another in one round of one lane. */
typedef struct edge {
    uint32_t sends, arrivals;
    uint64_t sent_bytes, arriving_bytes;
} edge;

static const char *check_move(const tt_plan *plan, const tt_move *move, const symbolic_case *what)
{
    if (move->kind == TT_MOVE_NONE || move->kind == TT_MOVE_WORK) {
        return NULL;
    }
    if (move->peer >= what->size) {
        return "a peer beyond the set";
    }
    if (move->bytes > plan->frame_bytes || move->bytes > 2 * (uint64_t)what->segment_bytes) {
        return "a frame longer than the plan says";
    }
    if (move->kind == TT_MOVE_REDUCE && move->slot + move->bytes > plan->scratch_bytes) {
        return "an arrival slot beyond the scratch";
    }
    return NULL;
}

/* Moves of one round of one rank; edges are [from * size + to]. */
static const char *count_round(const symbolic_book *book, const symbolic_case *what, uint32_t rank,
                               tt_cursor at, edge *edges)
{
    uint32_t sends = 0, arrivals = 0, reduces = 0, works = 0;
    tt_move move;
    for (at.index = 0;; at.index++) {
        memset(&move, 0xa5, sizeof(move));
        if (!what->algorithm->move(&book->problems[rank], &book->plans[rank], at, &move)) {
            break;
        }
        const char *error = check_move(&book->plans[rank], &move, what);
        if (error != NULL) {
            return error;
        }
        if (move.kind == TT_MOVE_SEND) {
            edge *to = &edges[rank * what->size + move.peer];
            to->sends++;
            to->sent_bytes += move.bytes;
            sends++;
        } else if (move.kind == TT_MOVE_STORE || move.kind == TT_MOVE_REDUCE) {
            edge *from = &edges[move.peer * what->size + rank];
            from->arrivals++;
            from->arriving_bytes += move.bytes;
            arrivals++;
            reduces += move.kind == TT_MOVE_REDUCE ? 1 : 0;
        } else if (move.kind == TT_MOVE_WORK) {
            works++;
        }
    }
    if (book->plans[rank].fan == 1 && (sends > 1 || arrivals > 1)) {
        return "more than one peer in a direction, but fan is 1";
    }
    return reduces > 1 || works > 1 ? "more than one reduce or work in a round" : NULL;
}

static const char *check_edges(const edge *edges, const symbolic_case *what, uint8_t *partners)
{
    for (uint32_t from = 0; from < what->size; from++) {
        for (uint32_t to = 0; to < what->size; to++) {
            const edge *one = &edges[from * what->size + to];
            if (one->sends > 1 || one->arrivals > 1) {
                return "more than one frame between two ranks in a round";
            }
            if (one->sends != one->arrivals) {
                return one->sends > 0 ? "a send without an arrival" : "an arrival without a send";
            }
            if (one->sent_bytes != one->arriving_bytes) {
                return "a send and its arrival differ in length";
            }
            if (one->sends > 0) {
                if (from == to) {
                    return "a rank sends to itself";
                }
                partners[from * what->size + to] = partners[to * what->size + from] = 1;
            }
        }
    }
    return NULL;
}

static const char *check_partners(const symbolic_book *book, const symbolic_case *what,
                                  const uint8_t *partners)
{
    for (uint32_t r = 0; r < what->size; r++) {
        uint32_t count = 0;
        for (uint32_t peer = 0; peer < what->size; peer++) {
            count += partners[r * what->size + peer];
        }
        if (count > book->plans[r].partner_max) {
            return "more partners than the plan says";
        }
    }
    return NULL;
}

static const char *count_moves(const symbolic_book *book, const symbolic_case *what)
{
    const size_t pairs = (size_t)what->size * what->size;
    edge *edges = malloc(pairs * sizeof(*edges));
    uint8_t *partners = calloc(pairs, 1);
    const char *error = edges == NULL || partners == NULL ? "out of memory" : NULL;
    uint64_t lane_count = 0;
    for (uint32_t r = 0; r < what->size; r++) {
        lane_count = tt_max_u64(lane_count, book->plans[r].lane_count);
        if (book->plans[r].round_count != book->plans[0].round_count) {
            error = "ranks differ in the number of rounds";
        }
    }
    for (uint64_t lane = 0; error == NULL && lane < lane_count; lane++) {
        for (uint32_t round = 0; error == NULL && round < book->plans[0].round_count; round++) {
            const tt_cursor at = {.lane = lane, .round = round};
            memset(edges, 0, pairs * sizeof(*edges));
            for (uint32_t r = 0; error == NULL && r < what->size; r++) {
                if (lane < book->plans[r].lane_count) {
                    error = count_round(book, what, r, at, edges);
                }
            }
            if (error == NULL) {
                error = check_edges(edges, what, partners);
            }
        }
    }
    if (error == NULL) {
        error = check_partners(book, what, partners);
    }
    free(edges);
    free(partners);
    return error;
}

/* ---- the cases ---- */

typedef struct case_tally {
    uint32_t runs, failures;
} case_tally;

static void judge(const symbolic_case *what, const char *error, case_tally *tally)
{
    tally->runs++;
    if (error == NULL) {
        return;
    }
    if (tally->failures++ < 20) {
        print_error(
            "%s %s: size %u root %u count %llu segment %u%s%s shared %x hosts %u seed %llu: "
            "%s\n",
            what->algorithm->name, tt_collective_name(what->collective), what->size, what->root,
            (unsigned long long)what->count, what->segment_bytes, what->is_uneven ? " uneven" : "",
            what->is_in_place ? " in place" : "", what->shared_pattern, what->topology->host_count,
            (unsigned long long)what->seed, error);
    }
}

static void run_case(symbolic_case *what, case_tally *tally)
{
    static symbolic_book book; /* large */
    if (!symbolic_book_fill(&book, what)) {
        return;
    }
    const char *error = count_moves(&book, what);
    const bool is_large = what->size > 9;
    const uint64_t seed_count = is_large ? 3 : 5;
    for (what->seed = is_large ? 1 : 0; error == NULL && what->seed < seed_count; what->seed++) {
        error = symbolic_run(&book, what);
        if (error != NULL) {
            break;
        }
    }
    judge(what, error, tally);
}

static bool has_root(tt_collective collective)
{
    return collective == TT_REDUCE || collective == TT_BROADCAST || collective == TT_GATHER ||
           collective == TT_SCATTER;
}

static bool has_parts(tt_collective collective)
{
    return collective == TT_ALLGATHER || collective == TT_GATHER || collective == TT_SCATTER ||
           collective == TT_REDUCESCATTER || collective == TT_ALLTOALL;
}

/* Counts and segments of a case with everything else given. */
static void run_counts(symbolic_case what, case_tally *tally)
{
    static const uint64_t counts[] = {0, 1, 7, 16, 33, 200, 1000};
    static const uint32_t segments[] = {64, 128, 4096};
    const size_t count_count = what.collective == TT_BARRIER ? 1 : TT_ARRAY_COUNT(counts);
    for (size_t c = 0; c < count_count; c++) {
        for (size_t s = 0; s < TT_ARRAY_COUNT(segments); s++) {
            what.count = counts[c];
            what.segment_bytes = segments[s];
            if (what.size > 9 && (what.count == 1 || what.count == 16 || what.count > 200 ||
                                  (what.count > 33 && has_parts(what.collective)))) {
                continue; /* adds time, not cases */
            }
            run_case(&what, tally);
        }
    }
}

static void run_variants(symbolic_case what, case_tally *tally)
{
    const bool may_alias = what.collective == TT_ALLREDUCE || what.collective == TT_REDUCE ||
                           what.collective == TT_BROADCAST;
    const uint32_t last_root = has_root(what.collective) ? what.size - 1 : 0;
    for (uint32_t root = 0; root <= last_root; root += last_root > 0 ? (last_root + 1) / 2 : 1) {
        what.root = root;
        for (uint32_t variant = 0; variant < 2; variant++) {
            what.is_in_place = may_alias && variant == 1;
            what.is_uneven = has_parts(what.collective) && variant == 1;
            if (variant == 0 || what.is_in_place || what.is_uneven) {
                run_counts(what, tally);
            }
        }
    }
}

static void check_algorithm(const tt_algorithm *algorithm)
{
    static const uint32_t shared_patterns[] = {0, UINT32_MAX, 0x55555555};
    case_tally tally = {0};
    placement placed;
    for (size_t s = 0; s < TT_ARRAY_COUNT(sizes); s++) {
        for (host_layout layout = 0; layout < LAYOUT_COUNT; layout++) {
            placement_make(&placed, layout, sizes[s]);
            for (size_t p = 0; p < TT_ARRAY_COUNT(shared_patterns); p++) {
                if (!algorithm->needs_facts && (p > 0 || layout > 0)) {
                    continue;
                }
                for (tt_collective c = 0; c < TT_COLLECTIVE_COUNT; c++) {
                    const bool is_pair = c == TT_SEND || c == TT_RECEIVE;
                    if (c == TT_RECEIVE || (is_pair && sizes[s] != 2)) {
                        continue;
                    }
                    run_variants((symbolic_case){.algorithm = algorithm,
                                                 .collective = c,
                                                 .size = sizes[s],
                                                 .shared_pattern = shared_patterns[p],
                                                 .topology = &placed.topology},
                                 &tally);
                }
            }
        }
    }
    print_message("%s: %u cases\n", algorithm->name, tally.runs);
    assert_int_equal(tally.failures, 0);
    assert_true(tally.runs > 0);
}

static void test_moves_keep_their_promises(void **state)
{
    check_algorithm(*state);
}

/* Every collective has an algorithm, and it is the same on all ranks. */
static void test_choice_is_the_same_on_all_ranks(void **state)
{
    (void)state;
    static symbolic_book book;
    placement placed;
    for (size_t s = 0; s < TT_ARRAY_COUNT(sizes); s++) {
        placement_make(&placed, LAYOUT_DEALT, sizes[s]);
        for (tt_collective c = 0; c < TT_COLLECTIVE_COUNT; c++) {
            if ((c == TT_SEND || c == TT_RECEIVE) && sizes[s] != 2) {
                continue;
            }
            for (uint64_t count = 0; count < 1000000; count = count * 3 + 1) {
                const symbolic_case what = {.algorithm = tt_algorithm_at(0),
                                            .collective = c,
                                            .size = sizes[s],
                                            .segment_bytes = 4096,
                                            .count = count,
                                            .topology = &placed.topology};
                (void)symbolic_book_fill(&book, &what);
                for (uint32_t r = 0; r < what.size; r++) {
                    book.problems[r] = book.problems[0];
                    book.problems[r].self = r;
                    assert_ptr_equal(tt_algorithm_choose(&book.problems[r], NULL),
                                     tt_algorithm_choose(&book.problems[0], NULL));
                }
            }
        }
    }
}

/* Calls with a codec have no other algorithm, plain ones cannot have this one. */
static void test_owner_is_for_coded_calls(void **state)
{
    (void)state;
    static symbolic_book book;
    placement placed;
    placement_make(&placed, LAYOUT_ONE, 4);
    const symbolic_case what = {.algorithm = &tt_algorithm_owner,
                                .collective = TT_ALLREDUCE,
                                .size = 4,
                                .segment_bytes = 4096,
                                .count = 1000,
                                .topology = &placed.topology};
    assert_true(symbolic_book_fill(&book, &what));
    tt_problem problem = book.problems[0];
    assert_ptr_equal(tt_algorithm_choose(&problem, NULL), &tt_algorithm_owner);
    assert_ptr_equal(tt_algorithm_choose(&problem, "ring"), &tt_algorithm_owner);
    for (size_t i = 0; tt_algorithm_at(i) != NULL; i++) {
        assert_ptr_not_equal(tt_algorithm_at(i), &tt_algorithm_owner);
    }
    assert_null(tt_algorithm_find("owner"));
    problem.redop = TT_MAX;
    assert_false(tt_algorithm_owner.fits(&problem));
    problem.redop = TT_AVERAGE;
    problem.dtype = TT_F64;
    assert_false(tt_algorithm_owner.fits(&problem));
    problem.dtype = TT_BF16;
    assert_true(tt_algorithm_owner.fits(&problem));
    problem.collective = TT_ALLGATHER;
    assert_false(tt_algorithm_owner.fits(&problem));
    problem = book.problems[0];
    problem.codec = NULL;
    assert_false(tt_algorithm_owner.fits(&problem));
    assert_ptr_not_equal(tt_algorithm_choose(&problem, "owner"), &tt_algorithm_owner);
}

/* Hosts with several ranks: their codec decides which of the two it is. */
static void test_rails_are_for_hosts_with_several_ranks(void **state)
{
    (void)state;
    static symbolic_book book;
    placement placed;
    placement_make(&placed, LAYOUT_EVEN, 6);
    const symbolic_case what = {.algorithm = &tt_algorithm_rails,
                                .collective = TT_ALLREDUCE,
                                .size = 6,
                                .segment_bytes = 4096,
                                .count = 1000,
                                .topology = &placed.topology};
    assert_true(symbolic_book_fill(&book, &what));
    tt_problem problem = book.problems[0];
    assert_ptr_equal(tt_algorithm_choose(&problem, NULL), &tt_algorithm_rails);
    assert_ptr_equal(tt_algorithm_choose(&problem, "ring"), &tt_algorithm_rails);
    assert_false(tt_algorithm_owner.fits(&problem));
    assert_null(tt_algorithm_find("rails"));
    problem.collective = TT_REDUCESCATTER;
    assert_ptr_equal(tt_algorithm_choose(&problem, NULL), &tt_algorithm_owner);
    assert_int_equal(tt_coding_owned(&problem), 0);
    problem.collective = TT_ALLREDUCE;
    book.codec.is_everywhere = true;
    assert_ptr_equal(tt_algorithm_choose(&problem, NULL), &tt_algorithm_owner);
    book.codec.is_everywhere = false;
    placed.topology.has_views = false;
    assert_ptr_equal(tt_algorithm_choose(&problem, NULL), &tt_algorithm_owner);
    placed.topology.has_views = true;
    problem.codec = NULL;
    assert_false(tt_algorithm_rails.fits(&problem));
    placement_make(&placed, LAYOUT_ONE, 6);
    problem.codec = &book.codec;
    assert_ptr_equal(tt_algorithm_choose(&problem, NULL), &tt_algorithm_owner);
}

/* Every element has one owner, whatever the length of frames is, and pieces cover each slice.
 * Ranks that are no owners have empty slices. */
static void check_slices(const symbolic_book *book, uint32_t size, uint64_t count)
{
    const uint64_t block = book->codec.block;
    uint64_t next = 0, owned = 0;
    for (uint32_t r = 0; r < size; r++) {
        owned += tt_coding_owned(&book->problems[r]);
    }
    assert_int_equal(owned, count);
    for (uint32_t number = 0; number < tt_owner_count(&book->problems[0]); number++) {
        const uint32_t r = tt_owner_member(&book->problems[0], number);
        const tt_owned slice = tt_owned_slice(&book->problems[0], r);
        uint64_t covered = 0;
        assert_int_equal(tt_owner_number(&book->problems[0], r), number);
        assert_int_equal(slice.first, next);
        assert_true(slice.first % block == 0 || slice.first == count);
        for (uint64_t lane = 0; lane < book->plans[0].lane_count; lane++) {
            const tt_owned piece = tt_owned_piece(&book->problems[0], &book->plans[0], lane, r);
            assert_int_equal(piece.first, slice.first + covered);
            assert_true(piece.draw % block == 0);
            assert_true(piece.count == 0 || piece.draw == piece.first);
            covered += piece.count;
        }
        assert_int_equal(covered, slice.count);
        next += slice.count;
    }
    assert_int_equal(next, count);
}

static void test_slices_do_not_follow_frames(void **state)
{
    (void)state;
    static symbolic_book book;
    placement placed;
    for (uint32_t i = 0; i < 9 * LAYOUT_COUNT; i++) {
        const uint32_t size = 1 + i / LAYOUT_COUNT;
        placement_make(&placed, (host_layout)(i % LAYOUT_COUNT), size);
        for (uint64_t count = 0; count < 400; count += count < 40 ? 1 : 13) {
            for (uint32_t segment = 64; segment <= 1024; segment *= 2) {
                symbolic_case what = {.algorithm = &tt_algorithm_owner,
                                      .collective = TT_ALLREDUCE,
                                      .size = size,
                                      .segment_bytes = segment,
                                      .count = count,
                                      .topology = &placed.topology};
                assert_true(symbolic_book_fill(&book, &what));
                check_slices(&book, size, count);
                what.algorithm = &tt_algorithm_rails;
                if (symbolic_book_fill(&book, &what)) {
                    check_slices(&book, size, count);
                }
            }
        }
    }
}

static struct CMUnitTest promises_of(const tt_algorithm *algorithm)
{
    return (struct CMUnitTest){.name = algorithm->name,
                               .test_func = test_moves_keep_their_promises,
                               .initial_state = (void *)(uintptr_t)algorithm};
}

int main(void)
{
    enum { ALGORITHMS_MAX = 32 };
    struct CMUnitTest tests[ALGORITHMS_MAX + 6] = {
        cmocka_unit_test(test_choice_is_the_same_on_all_ranks),
        cmocka_unit_test(test_owner_is_for_coded_calls),
        cmocka_unit_test(test_rails_are_for_hosts_with_several_ranks),
        cmocka_unit_test(test_slices_do_not_follow_frames),
        promises_of(&tt_algorithm_owner),
        promises_of(&tt_algorithm_rails),
    };
    size_t count = 6;
    for (size_t i = 0; tt_algorithm_at(i) != NULL && count < TT_ARRAY_COUNT(tests); i++) {
        tests[count++] = promises_of(tt_algorithm_at(i));
    }
    return _cmocka_run_group_tests("pattern", tests, count, NULL, NULL);
}
