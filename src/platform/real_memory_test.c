/* SPDX-License-Identifier: Apache-2.0
 *
 * real_memory_test.c - passes over links through memory: which are polled, and when a pass ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdatomic.h>

#include "platform/real.h"

enum { PEERS = 3 };

/* A rank that counts its frames. */
typedef struct reader {
    tt_real *real;
    uint64_t frame_count, wanted;
    uint8_t last; /* the byte of the last frame */
} reader;

static void *on_frame(void *machine, uint32_t peer, const tt_head *head, const void *payload)
{
    reader *self = machine;
    (void)peer;
    (void)head;
    self->frame_count++;
    self->last = *(const uint8_t *)payload;
    return NULL;
}

static bool on_step(void *machine)
{
    (void)machine;
    return false;
}

static const tt_machine_ops READER_OPS = {.frame = on_frame, .step = on_step};

static bool has_wanted(void *argument)
{
    const reader *self = argument;
    return self->frame_count >= self->wanted;
}

/* A link whose frame is one word; a poll takes it. */
typedef struct word_link {
    tt_link link;
    _Atomic uint64_t word, always_zero;
} word_link;

static bool word_poll(tt_link *link)
{
    word_link *self = (word_link *)link;
    const tt_head head = {.payload_bytes = 1};
    const uint8_t payload = (uint8_t)atomic_exchange(&self->word, 0);
    if (payload == 0) {
        return false;
    }
    (void)link->machine->ops->frame(link->machine->self, link->peer, &head, &payload);
    return true;
}

static void word_descriptors(const tt_link *link, int fds_out[2], bool wants_write_out[2])
{
    (void)link;
    fds_out[0] = fds_out[1] = -1;
    wants_write_out[0] = wants_write_out[1] = false;
}

static void word_nothing(tt_link *link)
{
    (void)link;
}

static bool word_closed(const tt_link *link)
{
    (void)link;
    return true;
}

static const tt_link_ops WORD_OPS = {
    .name = "word",
    .polls_memory = true,
    .poll = word_poll,
    .descriptors = word_descriptors,
    .idle = word_closed,
    .close = word_nothing,
    .closed = word_closed,
    .destroy = word_nothing,
};

static void reader_create(reader *self, word_link *links)
{
    tt_real_peer peers[1 + PEERS] = {{0}};
    *self = (reader){.real = NULL};
    for (uint32_t i = 0; i < PEERS; i++) {
        links[i] = (word_link){.link = {.ops = &WORD_OPS, .peer = 1 + i}};
        links[i].link.arrivals[0] = &links[i].always_zero;
        links[i].link.arrivals[1] = &links[i].word;
        peers[1 + i].link = &links[i].link;
    }
    const tt_real_config config = {.rank_count = 1 + PEERS, .peers = peers, .spins = true};
    assert_int_equal(tt_real_create(&config, &self->real), TT_OK);
    const tt_machine machine = {.ops = &READER_OPS, .self = self};
    tt_real_attach(self->real, &machine);
}

static void test_a_pass_ends_with_what_is_waited_for_and_the_next_begins_there(void **state)
{
    (void)state;
    reader self;
    word_link links[PEERS];
    reader_create(&self, links);
    assert_false(tt_real_poll(self.real)); /* the first pass polls everything */
    for (uint32_t i = 0; i < PEERS; i++) {
        atomic_store(&links[i].word, 1 + i);
    }
    for (self.wanted = 1; self.wanted <= PEERS; self.wanted++) {
        assert_true(tt_real_spin(self.real, has_wanted, &self, UINT64_MAX));
        assert_int_equal(self.frame_count, self.wanted);
        assert_int_equal(self.last, self.wanted); /* each in turn, though the first has more */
        atomic_store(&links[0].word, 9);
    }
    assert_true(tt_real_spin(self.real, has_wanted, &self, UINT64_MAX));
    assert_int_equal(self.last, 9);
    tt_real_close(self.real, 0);
}

static void test_a_plain_pass_polls_all_links(void **state)
{
    (void)state;
    reader self;
    word_link links[PEERS];
    reader_create(&self, links);
    for (uint32_t i = 0; i < PEERS; i++) {
        atomic_store(&links[i].word, 1 + i);
    }
    assert_true(tt_real_poll(self.real));
    assert_int_equal(self.frame_count, PEERS);
    tt_real_close(self.real, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_pass_ends_with_what_is_waited_for_and_the_next_begins_there),
        cmocka_unit_test(test_a_plain_pass_polls_all_links),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
