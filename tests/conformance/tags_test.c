/* SPDX-License-Identifier: Apache-2.0
 *
 * tags_test.c - messages of a tag match receives of that tag, in the order of calls.
 *
 * Goal: sends and receives whose tags have different orders on both sides move the right data,
 * short and long, many at a time; a wrong tag is refused. Method: real ranks, which draw the order
 * of tags.
 *
 * Labels: asan tsan
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/philox.h"
#include "conformance/ranks.h"

enum { TAGS = 7, EACH = 6, MESSAGES = TAGS * EACH, LONG = 60000 };

static const int tags[TAGS] = {0, 1, 2, 255, 4096, 1 << 20, TUTTI_TAG_MAX};

typedef struct message {
    int tag_index, number;
    int32_t *values;
    tutti_handle *handle;
} message;

static uint64_t count_of(int tag_index, int number)
{
    return (tag_index + number) % 5 == 0 ? LONG : 3;
}

static int32_t value_of(int tag_index, int number)
{
    return 1000 * tag_index + number;
}

/* The next tag, until each was used EACH times. */
static void draw_order(message *messages, uint64_t seed)
{
    int left[TAGS], numbers[TAGS] = {0};
    tt_random random;
    tt_random_init(&random, seed, 3);
    for (int i = 0; i < TAGS; i++) {
        left[i] = EACH;
    }
    for (int i = 0; i < MESSAGES; i++) {
        int tag = (int)tt_random_below(&random, TAGS);
        while (left[tag] == 0) {
            tag = (tag + 1) % TAGS;
        }
        left[tag]--;
        messages[i].tag_index = tag;
        messages[i].number = numbers[tag]++;
    }
}

static void start(ranks_self *self, message *one, tutti_collective collective)
{
    const uint64_t count = count_of(one->tag_index, one->number);
    one->values = calloc(count, sizeof(*one->values));
    EXPECT(one->values != NULL);
    for (uint64_t i = 0; i < count && collective == TUTTI_SEND; i++) {
        one->values[i] = value_of(one->tag_index, one->number);
    }
    tutti_call call = TUTTI_CALL_INIT;
    call.collective = collective;
    call.dtype = TUTTI_I32;
    call.root = 1 - self->rank;
    call.tag = tags[one->tag_index];
    call.count = count;
    call.input = call.output = one->values;
    EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &call, &one->handle));
}

static void finish(message *one)
{
    const uint64_t count = count_of(one->tag_index, one->number);
    const int32_t value = value_of(one->tag_index, one->number);
    EXPECT_STATUS(TUTTI_OK, tutti_wait(one->handle, -1.0));
    EXPECT_SAY(one->values[0] == value && one->values[count - 1] == value, "tag %d, message %d: %d",
               tags[one->tag_index], one->number, one->values[0]);
    tutti_handle_free(one->handle);
    free(one->values);
}

/* Both send and receive at the same time; each order is another. */
static void any_order(ranks_self *self)
{
    for (uint64_t round = 0; round < 4; round++) {
        message sent[MESSAGES], received[MESSAGES];
        draw_order(sent, 4 * round + (uint64_t)self->rank);
        draw_order(received, 4 * round + 2 + (uint64_t)self->rank);
        for (int i = 0; i < MESSAGES; i++) {
            start(self, &sent[i], TUTTI_SEND);
            start(self, &received[i], TUTTI_RECEIVE);
        }
        for (int i = 0; i < MESSAGES; i++) {
            finish(&sent[i]);
            finish(&received[i]);
        }
    }
}

static void test_tags_match_in_any_order(void **state)
{
    (void)state;
    ranks_run_both(2, any_order, NULL);
}

static void wrong_tags(ranks_self *self)
{
    int32_t value = 1;
    tutti_call call = TUTTI_CALL_INIT;
    call.dtype = TUTTI_I32;
    call.count = 1;
    call.input = call.output = &value;
    call.tag = 5;
    EXPECT_STATUS(TUTTI_ERR_BAD_ARGUMENT, tutti_run(self->context, &call)); /* a sum has none */
    call.collective = self->rank == 0 ? TUTTI_SEND : TUTTI_RECEIVE;
    call.root = 1 - self->rank;
    for (int i = 0; i < 2; i++) {
        call.tag = i == 0 ? -1 : TUTTI_TAG_MAX + 1;
        EXPECT_STATUS(TUTTI_ERR_BAD_ARGUMENT, tutti_run(self->context, &call));
        EXPECT_SAY(strstr(tutti_last_error(self->context), "TUTTI_TAG_MAX") != NULL, "%s",
                   tutti_last_error(self->context));
    }
    call.tag = 7;
    call.count = self->rank == 0 ? 1 : 0; /* they disagree */
    const tutti_status status = tutti_run(self->context, &call);
    EXPECT_SAY(status == TUTTI_ERR_MISMATCH || (status == TUTTI_OK && self->rank == 0), "%s",
               tutti_last_error(self->context));
    EXPECT_SAY(status == TUTTI_OK || strstr(tutti_last_error(self->context), "disagree") != NULL,
               "%s", tutti_last_error(self->context));
    ranks_meet(self); /* a rank that leaves before would be named instead */
}

static void test_wrong_tags_are_refused(void **state)
{
    (void)state;
    ranks_run_both(2, wrong_tags, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tags_match_in_any_order),
        cmocka_unit_test(test_wrong_tags_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
