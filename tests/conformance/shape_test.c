/* SPDX-License-Identifier: Apache-2.0
 *
 * shape_test.c - ranks that give the shapes of their tensors have them compared.
 *
 * Goal: equal counts of unlike shapes fail on all ranks, and the text has both shapes with their
 * ranks; parts may differ in their first dimension and in no other; repeated calls are still
 * compared, on every path that a name can take. Method: real ranks.
 *
 * Labels: asan
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "conformance/ranks.h"

enum { SIZE = 3, COUNT = 12, PLANNED_AFTER = 12 };

typedef struct one_call {
    tutti_collective collective;
    const char *name;
    uint64_t dims[2], other_dims[2]; /* of all ranks, of rank 1 */
} one_call;

static tutti_status run(ranks_self *self, const one_call *one, const uint64_t *dims)
{
    int32_t input[SIZE * COUNT], output[SIZE * COUNT * SIZE];
    uint64_t counts[SIZE];
    tutti_call call = TUTTI_CALL_INIT;
    for (int i = 0; i < SIZE * COUNT; i++) {
        input[i] = 1;
    }
    const bool is_gather = one->collective == TUTTI_ALLGATHER;
    call.collective = one->collective;
    call.dtype = TUTTI_I32;
    call.name = one->name;
    call.input = input;
    call.output = one->collective == TUTTI_BROADCAST ? input : output;
    call.count = dims == NULL ? COUNT : dims[0] * dims[1];
    call.output_capacity = is_gather ? SIZE * COUNT * SIZE : 0;
    call.output_counts = is_gather ? counts : NULL;
    call.ndim = dims == NULL ? 0 : 2;
    call.dims = dims;
    return tutti_run(self->context, &call);
}

static void expect_mismatch(ranks_self *self, const one_call *one, const char *first,
                            const char *second)
{
    const tutti_status status = run(self, one, self->rank == 1 ? one->other_dims : one->dims);
    const char *error = tutti_last_error(self->context);
    EXPECT_SAY(status == TUTTI_ERR_MISMATCH, "%d: %s", status, error);
    EXPECT_SAY(strstr(error, first) != NULL && strstr(error, second) != NULL, "%s", error);
    EXPECT_SAY(strstr(error, "ranks 0, 2") != NULL && strstr(error, "rank 1") != NULL, "%s", error);
    EXPECT_SAY(strstr(error, "key") == NULL, "%s", error);
}

static void unlike_shapes(ranks_self *self)
{
    static const one_call calls[] = {
        {TUTTI_ALLREDUCE, "sum", {3, 4}, {4, 3}},
        {TUTTI_ALLREDUCE, NULL, {3, 4}, {4, 3}},
        {TUTTI_BROADCAST, "all", {3, 4}, {2, 6}},
        {TUTTI_ALLREDUCE, "long", {1, 12}, {12, 1}},
    };
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        char texts[2][64];
        const one_call *one = &calls[i];
        const uint64_t *dims = one->dims, *other = one->other_dims;
        (void)snprintf(texts[0], sizeof(texts[0]), "shape (%d, %d)", (int)dims[0], (int)dims[1]);
        (void)snprintf(texts[1], sizeof(texts[1]), "shape (%d, %d)", (int)other[0], (int)other[1]);
        expect_mismatch(self, one, texts[0], texts[1]);
        EXPECT_STATUS(TUTTI_OK, run(self, one, one->dims));
    }
    const one_call gather = {TUTTI_ALLGATHER, "parts", {2, 3}, {2, 4}};
    expect_mismatch(self, &gather, "shape (any, 3)", "shape (any, 4)");
    const one_call longer = {TUTTI_ALLGATHER, "parts", {2, 3}, {4, 3}};
    EXPECT_STATUS(TUTTI_OK, run(self, &longer, self->rank == 1 ? longer.other_dims : longer.dims));
    const one_call given = {TUTTI_ALLREDUCE, "given", {3, 4}, {0, 0}};
    EXPECT_STATUS(TUTTI_ERR_MISMATCH, run(self, &given, self->rank == 1 ? NULL : given.dims));
    ranks_meet(self);
}

static void test_the_error_names_shapes_that_differ(void **state)
{
    (void)state;
    ranks_run_both(SIZE, unlike_shapes, NULL);
}

/* Cached, then planned, then by the quick path: the shape changes on one rank. */
static void changed_later(ranks_self *self)
{
    const one_call named = {TUTTI_ALLREDUCE, "repeated", {3, 4}, {4, 3}};
    const one_call unnamed = {TUTTI_ALLREDUCE, NULL, {3, 4}, {4, 3}};
    for (int repeats = 1; repeats <= PLANNED_AFTER; repeats += PLANNED_AFTER - 1) {
        for (int i = 0; i < repeats; i++) {
            EXPECT_STATUS(TUTTI_OK, run(self, &named, named.dims));
        }
        expect_mismatch(self, &named, "shape (3, 4)", "shape (4, 3)");
        for (int i = 0; i < repeats; i++) {
            EXPECT_STATUS(TUTTI_OK, run(self, &unnamed, unnamed.dims));
        }
        expect_mismatch(self, &unnamed, "shape (3, 4)", "shape (4, 3)");
    }
    ranks_meet(self);
}

static void test_a_shape_that_changes_is_detected(void **state)
{
    (void)state;
    ranks_run_both(SIZE, changed_later, NULL);
}

/* More dimensions than a claim has room for: compared, but not in the error. */
static void many_dimensions(ranks_self *self)
{
    uint64_t dims[40];
    int32_t value = 1;
    tutti_call call = TUTTI_CALL_INIT;
    for (int i = 0; i < 40; i++) {
        dims[i] = self->rank == 1 && i == 39 ? 100001 : 100000;
    }
    call.dtype = TUTTI_I32;
    call.name = "many";
    call.input = call.output = &value;
    call.count = 1;
    call.ndim = 40;
    call.dims = dims;
    EXPECT_STATUS(TUTTI_ERR_MISMATCH, tutti_run(self->context, &call));
    EXPECT(strstr(tutti_last_error(self->context), "40 numbers") != NULL);
    call.ndim = 1000;
    EXPECT_STATUS(TUTTI_ERR_BAD_ARGUMENT, tutti_run(self->context, &call));
    call.ndim = 0;
    call.flags = 1u << 20;
    EXPECT_STATUS(TUTTI_ERR_BAD_ARGUMENT, tutti_run(self->context, &call));
    EXPECT_SAY(strstr(tutti_last_error(self->context), "flags 0x100000") != NULL, "%s",
               tutti_last_error(self->context));
    ranks_meet(self);
}

static void test_long_shapes_and_unknown_flags(void **state)
{
    (void)state;
    ranks_run_both(SIZE, many_dimensions, NULL);
}

/* If ranks disagree about a process set, the error names both lists. */
static void unlike_sets(ranks_self *self)
{
    tutti_set set;
    const int ranks[] = {0, self->rank == 1 ? 2 : 1};
    EXPECT_STATUS(TUTTI_ERR_MISMATCH, tutti_set_create(self->context, ranks, 2, &set));
    const char *error = tutti_last_error(self->context);
    EXPECT_SAY(strstr(error, "tutti_set_create of ranks (0, 1)") != NULL &&
                   strstr(error, "tutti_set_create of ranks (0, 2)") != NULL &&
                   strstr(error, "barrier") == NULL && strstr(error, "key") == NULL,
               "%s", error);
    const int wrong[] = {0, 7};
    EXPECT_STATUS(TUTTI_ERR_BAD_ARGUMENT,
                  tutti_set_create(self->context, self->rank == 1 ? wrong : ranks, 2, &set));
    error = tutti_last_error(self->context);
    EXPECT_SAY(strstr(error, "rank 1: tutti_set_create: ") != NULL, "%s", error);
    ranks_meet(self); /* a rank that leaves before would be named instead */
}

static void test_errors_about_sets_name_sets(void **state)
{
    (void)state;
    ranks_run_both(SIZE, unlike_sets, NULL);
}

static void test_a_null_context_has_a_description(void **state)
{
    char text[64] = "";
    (void)state;
    assert_true(tutti_describe(NULL, text, sizeof(text)) > 0);
    assert_non_null(strstr(text, "no context"));
    assert_true(tutti_describe(NULL, NULL, 0) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_error_names_shapes_that_differ),
        cmocka_unit_test(test_a_shape_that_changes_is_detected),
        cmocka_unit_test(test_long_shapes_and_unknown_flags),
        cmocka_unit_test(test_errors_about_sets_name_sets),
        cmocka_unit_test(test_a_null_context_has_a_description),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
