/* SPDX-License-Identifier: Apache-2.0
 *
 * flow_test.c - parked frames and notes are found again, however many there are.
 *
 * The platform provides memory only. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "aggregate/flow.h"

static void *test_allocate(tt_platform *platform, tt_memory_kind kind, size_t bytes)
{
    (void)platform;
    (void)kind;
    return calloc(1, bytes);
}

static void test_release(tt_platform *platform, tt_memory_kind kind, void *memory, size_t bytes)
{
    (void)platform;
    (void)kind;
    (void)bytes;
    free(memory);
}

static tt_status test_send(tt_platform *platform, const tt_send *send)
{
    (void)platform;
    (void)send;
    return TT_OK;
}

static const tt_platform_ops memory_only = {
    .allocate = test_allocate, .release = test_release, .send = test_send};

enum { OPS = 20000, PEERS = 3 };

static tt_head head_of(uint32_t op, uint8_t kind, uint16_t stage)
{
    return (tt_head){.kind = kind,
                     .flags = TT_FLAG_PLANNED,
                     .op = (uint64_t)op << 12,
                     .stage = stage,
                     .argument = op};
}

static void test_notes_of_many_ops_are_found_by_their_op_alone(void **state)
{
    (void)state;
    tt_platform platform = {.ops = &memory_only};
    tt_flow flow;
    assert_int_equal(tt_flow_init(&flow, &platform, PEERS, 64), TT_OK);
    for (uint32_t op = 0; op < OPS; op++) {
        for (uint32_t peer = 0; peer < PEERS; peer++) {
            const tt_head grant = head_of(op, TT_FRAME_GRANT, 1);
            tt_head larger = grant;
            larger.argument += OPS;
            assert_int_equal(tt_flow_note(&flow, peer, &grant), TT_OK);
            assert_int_equal(tt_flow_note(&flow, peer, &larger), TT_OK); /* replaces it */
        }
    }
    for (uint32_t i = 0; i < OPS; i++) {
        const uint32_t op = (uint32_t)((uint64_t)i * 7919 % OPS);
        const tt_head other = head_of(op, TT_FRAME_GRANT, 0), own = head_of(op, TT_FRAME_GRANT, 1);
        tt_note note;
        uint32_t seen = 0;
        assert_false(tt_flow_note_take(&flow, &other, 0, &note));
        while (tt_flow_note_take(&flow, &own, 0, &note)) {
            assert_int_equal(note.head.argument, op + OPS);
            seen |= 1U << note.peer;
        }
        assert_int_equal(seen, (1U << PEERS) - 1);
    }
    assert_int_equal(flow.note_count, 0);
    tt_flow_fini(&flow);
}

static void test_parked_frames_of_an_op_are_found_oldest_first(void **state)
{
    (void)state;
    tt_platform platform = {.ops = &memory_only};
    tt_flow flow;
    assert_int_equal(tt_flow_init(&flow, &platform, PEERS, 64), TT_OK);
    for (uint32_t i = 0; i < TT_CREDIT_FRAMES; i++) {
        for (uint32_t peer = 0; peer < PEERS; peer++) {
            tt_head head = head_of(i % 4, TT_FRAME_DATA, 1);
            head.flags |= TT_FLAG_EAGER;
            head.argument = i;
            assert_int_equal(tt_flow_park(&flow, peer, &head, NULL), TT_OK);
            if (i == TT_CREDIT_FRAMES - 1) { /* the room of this peer is used up */
                assert_int_equal(tt_flow_park(&flow, peer, &head, NULL), TT_ERR_BAD_WIRE);
            }
        }
    }
    for (uint32_t op = 0; op < 4; op++) {
        const tt_head own = head_of(op, TT_FRAME_DATA, 1);
        uint64_t last = 0;
        tt_parked *parked;
        uint32_t count = 0;
        while ((parked = tt_flow_find(&flow, &own, UINT64_MAX, 0)) != NULL) {
            assert_true(parked->head.argument >= last);
            last = parked->head.argument;
            tt_flow_unpark(&flow, parked);
            count++;
        }
        assert_int_equal(count, PEERS * TT_CREDIT_FRAMES / 4);
    }
    assert_int_equal(flow.parked_count, 0);
    tt_flow_fini(&flow);
}

/* Calls may have many stages. */
static void test_an_op_that_is_over_leaves_nothing_of_any_stage(void **state)
{
    (void)state;
    enum { STAGES = 16 };
    tt_platform platform = {.ops = &memory_only};
    tt_flow flow;
    assert_int_equal(tt_flow_init(&flow, &platform, PEERS, 64), TT_OK);
    for (uint16_t stage = STAGES; stage-- > 0;) {
        for (uint32_t op = 0; op < 2; op++) {
            tt_head head = head_of(op, TT_FRAME_DATA, stage);
            const tt_head grant = head_of(op, TT_FRAME_GRANT, stage);
            head.flags |= TT_FLAG_EAGER;
            assert_int_equal(tt_flow_park(&flow, 0, &head, NULL), TT_OK);
            assert_int_equal(tt_flow_note(&flow, 1, &grant), TT_OK);
        }
    }
    const tt_head over = head_of(0, TT_FRAME_DATA, 0), next = head_of(1, TT_FRAME_DATA, 0);
    tt_flow_purge(&flow, &over, 0);
    assert_int_equal(flow.parked_count, STAGES);
    assert_int_equal(flow.note_count, STAGES);
    assert_false(tt_flow_knows(&flow, &over, 0));
    assert_true(tt_flow_knows(&flow, &next, 0));
    tt_flow_purge(&flow, &next, 0);
    assert_int_equal(flow.parked_count + flow.note_count, 0);
    tt_flow_fini(&flow);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_notes_of_many_ops_are_found_by_their_op_alone),
        cmocka_unit_test(test_parked_frames_of_an_op_are_found_oldest_first),
        cmocka_unit_test(test_an_op_that_is_over_leaves_nothing_of_any_stage),
    };
    return cmocka_run_group_tests_name("flow", tests, NULL, NULL);
}
