/* SPDX-License-Identifier: Apache-2.0
 *
 * Goal: two ranks with one secret connect and get the same keys; every other peer is refused, for
 * the right reason, and no key stays in memory.
 * Method: both ends in one process with seeded randomness; bytes are carried, cut, flipped,
 * replayed, reflected and spliced by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <sodium.h>

#include "base/base.h"
#include "transport/secure/handshake.h"

enum {
    FIRST_BYTES = TT_HELLO_OPENING_BYTES + TT_HANDSHAKE_MESSAGE_BYTES,
    SECOND_BYTES = TT_HELLO_ANSWER_BYTES + TT_HANDSHAKE_MESSAGE_BYTES,
};

static const uint8_t secret[TT_NOISE_KEY_BYTES] = {1, 2, 3};
static const uint8_t other_secret[TT_NOISE_KEY_BYTES] = {1, 2, 4};

static void fill_seeded(void *user, uint8_t *bytes, size_t count)
{
    uint8_t *seed = user;

    randombytes_buf_deterministic(bytes, count, seed);
    seed[0]++;
}

static uint8_t initiator_seed[randombytes_SEEDBYTES];
static uint8_t responder_seed[randombytes_SEEDBYTES];

/* Rank 2 connects to rank 5 of 8; the seeds are fixed so that message 1 is the same each time. */
static tt_handshake_setup setup_of(tt_noise_role side)
{
    const int initiator = side == TT_NOISE_INITIATOR;
    uint8_t *seed = initiator ? initiator_seed : responder_seed;
    tt_handshake_setup setup = {
        .side = side,
        .psk = secret,
        .version_min = 1,
        .version_max = 3,
        .self = {.role = TT_HELLO_LINK_SEND,
                 .rank = initiator ? 2 : 5,
                 .world_size = 8,
                 .incarnation = 77,
                 .features = initiator ? 6 : 3,
                 .library = "0.1.0"},
        .roles_accepted = 1U << TT_HELLO_LINK_SEND | 1U << TT_HELLO_RENDEZVOUS,
        .expected_rank = initiator ? 5 : TT_HELLO_RANK_UNKNOWN,
        .random = {.fill = fill_seeded, .user = seed},
    };

    tt_hello_fingerprint("job 42", setup.fingerprint);
    memset(seed, initiator ? 0x11 : 0x22, randombytes_SEEDBYTES);
    return setup;
}

static size_t take_output(tt_handshake *handshake, uint8_t *bytes)
{
    const uint8_t *output = NULL;
    const size_t count = tt_handshake_output(handshake, &output);

    memcpy(bytes, output, count);
    tt_handshake_output_sent(handshake, count);
    return count;
}

/* Feeds in pieces of at most `piece` bytes, stopping when the state wants no more. */
static tt_status feed_all(tt_handshake *handshake, const uint8_t *bytes, size_t count, size_t piece)
{
    tt_status status = TT_IN_PROGRESS;

    while (count > 0 && status == TT_IN_PROGRESS) {
        size_t taken = tt_handshake_wants_bytes(handshake);
        taken = taken < piece ? taken : piece;
        taken = taken < count ? taken : count;
        status = tt_handshake_feed(handshake, bytes, taken);
        bytes += taken;
        count -= taken;
    }
    return status;
}

typedef struct pair {
    tt_handshake initiator;
    tt_handshake responder;
    uint8_t bytes[TT_HANDSHAKE_BYTES_MAX];
} pair;

static void start_pair(pair *both, const tt_handshake_setup *initiator,
                       const tt_handshake_setup *responder)
{
    assert_int_equal(tt_handshake_init(&both->initiator, initiator), TT_OK);
    assert_int_equal(tt_handshake_init(&both->responder, responder), TT_OK);
}

/* Carries message 1; returns the responder's status. */
static tt_status carry_first(pair *both)
{
    const size_t count = take_output(&both->initiator, both->bytes);

    assert_int_equal(count, FIRST_BYTES);
    return feed_all(&both->responder, both->bytes, count, 7);
}

static tt_status carry_second(pair *both)
{
    const size_t count = take_output(&both->responder, both->bytes);

    return feed_all(&both->initiator, both->bytes, count, 5);
}

static void assert_no_key_left(const tt_handshake *handshake)
{
    assert_true(sodium_is_zero(handshake->psk, sizeof(handshake->psk)));
    assert_true(sodium_is_zero((const uint8_t *)&handshake->keys, sizeof(handshake->keys)));
    assert_true(sodium_is_zero((const uint8_t *)&handshake->noise, sizeof(handshake->noise)));
}

static void assert_refused(const tt_handshake *handshake, tt_hello_refusal why)
{
    assert_int_equal(tt_handshake_refusal(handshake), why);
    assert_int_equal(tt_handshake_wants_bytes(handshake), 0);
    assert_no_key_left(handshake);
}

static void test_two_ranks_with_one_secret_share_keys(void **state)
{
    const tt_handshake_setup first = setup_of(TT_NOISE_INITIATOR);
    const tt_handshake_setup second = setup_of(TT_NOISE_RESPONDER);
    tt_handshake_result a;
    tt_handshake_result b;
    pair both;

    (void)state;
    start_pair(&both, &first, &second);
    assert_int_equal(carry_first(&both), TT_IN_PROGRESS);
    assert_int_equal(tt_handshake_take_result(&both.responder, &b), TT_ERR_REFUSED);
    assert_int_equal(carry_second(&both), TT_OK);
    const size_t count = take_output(&both.initiator, both.bytes);
    assert_int_equal(count, TT_HANDSHAKE_CONFIRM_BYTES);
    assert_int_equal(feed_all(&both.responder, both.bytes, count, 3), TT_OK);
    assert_int_equal(tt_handshake_take_result(&both.initiator, &a), TT_OK);
    assert_int_equal(tt_handshake_take_result(&both.responder, &b), TT_OK);
    assert_memory_equal(a.keys.send, b.keys.receive, TT_NOISE_KEY_BYTES);
    assert_memory_equal(a.keys.receive, b.keys.send, TT_NOISE_KEY_BYTES);
    assert_memory_not_equal(a.keys.send, a.keys.receive, TT_NOISE_KEY_BYTES);
    assert_int_equal(a.peer.rank, 5);
    assert_int_equal(b.peer.rank, 2);
    assert_int_equal(a.version, 3);
    assert_int_equal(b.version, 3);
    assert_int_equal(a.features, 2);
    assert_int_equal(b.features, 2);
    assert_string_equal(b.peer.library, "0.1.0");
    assert_no_key_left(&both.initiator);
    assert_no_key_left(&both.responder);
}

/* Runs both ends with changed setups; the responder, or else the initiator, must refuse with
 * `seen`. */
static void expect_responder_refuses(const tt_handshake_setup *first,
                                     const tt_handshake_setup *second, tt_hello_refusal why)
{
    pair both;
    char text[TT_HANDSHAKE_TEXT_BYTES];

    start_pair(&both, first, second);
    assert_int_equal(carry_first(&both), TT_ERR_REFUSED);
    assert_refused(&both.responder, why);
    assert_non_null(strstr(tt_handshake_explain(&both.responder, text, sizeof(text)),
                           tt_hello_refusal_text(why)));
    if (why < TT_REFUSAL_MALFORMED && why != TT_REFUSAL_VERSION_SKEW) {
        assert_int_equal(take_output(&both.responder, both.bytes), 0); /* no answer */
        assert_int_equal(tt_handshake_closed(&both.initiator), TT_ERR_REFUSED);
        assert_refused(&both.initiator, TT_REFUSAL_CLOSED);
        return;
    }
    assert_int_equal(carry_second(&both), TT_ERR_REFUSED);
    assert_refused(&both.initiator, why);
}

static void test_another_secret_is_refused_without_an_answer(void **state)
{
    const tt_handshake_setup second = setup_of(TT_NOISE_RESPONDER);
    tt_handshake_setup first = setup_of(TT_NOISE_INITIATOR);

    (void)state;
    first.psk = other_secret;
    expect_responder_refuses(&first, &second, TT_REFUSAL_BAD_SECRET);
}

static void test_another_job_is_refused_without_an_answer(void **state)
{
    const tt_handshake_setup second = setup_of(TT_NOISE_RESPONDER);
    tt_handshake_setup first = setup_of(TT_NOISE_INITIATOR);

    (void)state;
    tt_hello_fingerprint("job 43", first.fingerprint);
    expect_responder_refuses(&first, &second, TT_REFUSAL_WRONG_JOB);
}

static void test_version_skew_names_both_ranges_on_both_sides(void **state)
{
    const tt_handshake_setup second = setup_of(TT_NOISE_RESPONDER);
    tt_handshake_setup first = setup_of(TT_NOISE_INITIATOR);
    char text[TT_HANDSHAKE_TEXT_BYTES];
    pair both;

    (void)state;
    first.version_min = 4;
    first.version_max = 9;
    expect_responder_refuses(&first, &second, TT_REFUSAL_VERSION_SKEW);
    start_pair(&both, &first, &second);
    assert_int_equal(carry_first(&both), TT_ERR_REFUSED);
    (void)tt_handshake_explain(&both.responder, text, sizeof(text));
    assert_non_null(strstr(text, "peer supports 4 to 9, this side 1 to 3"));
    assert_int_equal(carry_second(&both), TT_ERR_REFUSED);
    (void)tt_handshake_explain(&both.initiator, text, sizeof(text));
    assert_non_null(strstr(text, "peer supports 1 to 3, this side 4 to 9"));
}

static tt_hello_refusal judge_taken(void *user, const tt_hello *peer)
{
    return peer->rank == *(const uint32_t *)user ? TT_REFUSAL_DUPLICATE_RANK : TT_REFUSAL_NONE;
}

static void test_authentic_peers_receive_the_cause_of_a_refusal(void **state)
{
    tt_handshake_setup first = setup_of(TT_NOISE_INITIATOR);
    tt_handshake_setup second = setup_of(TT_NOISE_RESPONDER);
    uint32_t taken = 2;

    (void)state;
    first.self.incarnation = 76;
    expect_responder_refuses(&first, &second, TT_REFUSAL_WRONG_INCARNATION);
    first = setup_of(TT_NOISE_INITIATOR);
    first.self.world_size = 16;
    expect_responder_refuses(&first, &second, TT_REFUSAL_WRONG_SIZE);
    first = setup_of(TT_NOISE_INITIATOR);
    first.self.rank = 5;
    expect_responder_refuses(&first, &second, TT_REFUSAL_DUPLICATE_RANK);
    first = setup_of(TT_NOISE_INITIATOR);
    first.self.role = TT_HELLO_LOCAL;
    expect_responder_refuses(&first, &second, TT_REFUSAL_WRONG_ROLE);
    first = setup_of(TT_NOISE_INITIATOR);
    first.self.rank = 8; /* of 8 */
    expect_responder_refuses(&first, &second, TT_REFUSAL_MALFORMED);
    first = setup_of(TT_NOISE_INITIATOR);
    second.judge = judge_taken;
    second.judge_user = &taken;
    expect_responder_refuses(&first, &second, TT_REFUSAL_DUPLICATE_RANK);
}

static void test_the_initiator_refuses_the_wrong_rank(void **state)
{
    const tt_handshake_setup second = setup_of(TT_NOISE_RESPONDER);
    tt_handshake_setup first = setup_of(TT_NOISE_INITIATOR);
    pair both;

    (void)state;
    first.expected_rank = 6;
    start_pair(&both, &first, &second);
    assert_int_equal(carry_first(&both), TT_IN_PROGRESS);
    assert_int_equal(carry_second(&both), TT_ERR_REFUSED);
    assert_refused(&both.initiator, TT_REFUSAL_WRONG_RANK);
    assert_int_equal(take_output(&both.initiator, both.bytes), 0);
}

static void test_a_rank_that_joins_may_know_nothing_yet(void **state)
{
    const tt_handshake_setup second = setup_of(TT_NOISE_RESPONDER);
    tt_handshake_setup first = setup_of(TT_NOISE_INITIATOR);
    pair both;

    (void)state;
    first.self.role = TT_HELLO_RENDEZVOUS;
    first.self.rank = TT_HELLO_RANK_UNKNOWN;
    first.self.world_size = TT_HELLO_WORLD_SIZE_UNKNOWN;
    first.self.incarnation = TT_HELLO_INCARNATION_UNKNOWN;
    start_pair(&both, &first, &second);
    assert_int_equal(carry_first(&both), TT_IN_PROGRESS);
    assert_int_equal(carry_second(&both), TT_OK);
}

/* A fresh responder fed `bytes` must not accept; with fewer bytes it just waits, unconfirmed. */
static void responder_rejects(const uint8_t *bytes, size_t count)
{
    const tt_handshake_setup setup = setup_of(TT_NOISE_RESPONDER);
    tt_handshake responder;

    assert_int_equal(tt_handshake_init(&responder, &setup), TT_OK);
    (void)feed_all(&responder, bytes, count, count + 1);
    assert_int_equal(tt_handshake_closed(&responder), TT_ERR_REFUSED);
    assert_no_key_left(&responder);
    tt_handshake_fini(&responder);
}

static void initiator_rejects(const uint8_t *bytes, size_t count)
{
    const tt_handshake_setup setup = setup_of(TT_NOISE_INITIATOR);
    tt_handshake initiator;

    assert_int_equal(tt_handshake_init(&initiator, &setup), TT_OK);
    (void)feed_all(&initiator, bytes, count, count + 1);
    assert_int_equal(tt_handshake_closed(&initiator), TT_ERR_REFUSED);
    assert_no_key_left(&initiator);
    tt_handshake_fini(&initiator);
}

/* One recorded exchange. The seeds are fixed, so a fresh initiator repeats `first`. */
static void record(uint8_t *first, uint8_t *second, uint8_t *third)
{
    const tt_handshake_setup initiator = setup_of(TT_NOISE_INITIATOR);
    const tt_handshake_setup responder = setup_of(TT_NOISE_RESPONDER);
    pair both;

    start_pair(&both, &initiator, &responder);
    assert_int_equal(carry_first(&both), TT_IN_PROGRESS);
    memcpy(first, both.bytes, FIRST_BYTES);
    assert_int_equal(carry_second(&both), TT_OK);
    memcpy(second, both.bytes, SECOND_BYTES);
    assert_int_equal(take_output(&both.initiator, third), TT_HANDSHAKE_CONFIRM_BYTES);
}

static void test_every_truncation_is_refused(void **state)
{
    uint8_t first[FIRST_BYTES + TT_HANDSHAKE_CONFIRM_BYTES];
    uint8_t second[SECOND_BYTES];

    (void)state;
    record(first, second, first + FIRST_BYTES);
    for (size_t count = 0; count < sizeof(first); count++) {
        responder_rejects(first, count);
    }
    for (size_t count = 0; count < sizeof(second); count++) {
        initiator_rejects(second, count);
    }
}

static void test_every_bit_flip_is_refused(void **state)
{
    uint8_t first[FIRST_BYTES + TT_HANDSHAKE_CONFIRM_BYTES];
    uint8_t second[SECOND_BYTES];

    (void)state;
    record(first, second, first + FIRST_BYTES);
    for (size_t bit = 0; bit < 8 * sizeof(first); bit++) {
        first[bit / 8] ^= (uint8_t)(1U << bit % 8);
        responder_rejects(first, sizeof(first));
        first[bit / 8] ^= (uint8_t)(1U << bit % 8);
    }
    for (size_t bit = 0; bit < 8 * sizeof(second); bit++) {
        second[bit / 8] ^= (uint8_t)(1U << bit % 8);
        initiator_rejects(second, sizeof(second));
        second[bit / 8] ^= (uint8_t)(1U << bit % 8);
    }
}

/* The whole first flight and its confirmation, played again at a responder with fresh keys. */
static void test_a_replay_never_completes(void **state)
{
    tt_handshake_setup setup = setup_of(TT_NOISE_RESPONDER);
    uint8_t first[FIRST_BYTES];
    uint8_t second[SECOND_BYTES];
    uint8_t third[TT_HANDSHAKE_CONFIRM_BYTES];
    tt_handshake responder;

    (void)state;
    record(first, second, third);
    memset(responder_seed, 0x33, sizeof(responder_seed));
    assert_int_equal(tt_handshake_init(&responder, &setup), TT_OK);
    assert_int_equal(feed_all(&responder, first, sizeof(first), 64), TT_IN_PROGRESS);
    assert_int_equal(feed_all(&responder, third, sizeof(third), 64), TT_ERR_REFUSED);
    assert_refused(&responder, TT_REFUSAL_BAD_SECRET);
}

static void test_reflected_and_spliced_messages_are_refused(void **state)
{
    uint8_t first[FIRST_BYTES];
    uint8_t second[SECOND_BYTES];
    uint8_t third[TT_HANDSHAKE_CONFIRM_BYTES];
    uint8_t spliced[SECOND_BYTES];

    (void)state;
    record(first, second, third);
    initiator_rejects(first, sizeof(first));
    responder_rejects(second, sizeof(second));
    memcpy(spliced, second, TT_HELLO_ANSWER_BYTES);
    memcpy(spliced + TT_HELLO_ANSWER_BYTES, first + TT_HELLO_OPENING_BYTES,
           TT_HANDSHAKE_MESSAGE_BYTES);
    initiator_rejects(spliced, sizeof(spliced));
}

/* An attacker narrows the ranges in clear so that both sides would choose version 1. */
static void test_a_downgrade_is_refused(void **state)
{
    uint8_t first[FIRST_BYTES];
    uint8_t second[SECOND_BYTES];
    uint8_t third[TT_HANDSHAKE_CONFIRM_BYTES];

    (void)state;
    record(first, second, third);
    first[10] = 1;
    responder_rejects(first, sizeof(first));
    second[10] = 1;
    initiator_rejects(second, sizeof(second));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_ranks_with_one_secret_share_keys),
        cmocka_unit_test(test_another_secret_is_refused_without_an_answer),
        cmocka_unit_test(test_another_job_is_refused_without_an_answer),
        cmocka_unit_test(test_version_skew_names_both_ranges_on_both_sides),
        cmocka_unit_test(test_authentic_peers_receive_the_cause_of_a_refusal),
        cmocka_unit_test(test_the_initiator_refuses_the_wrong_rank),
        cmocka_unit_test(test_a_rank_that_joins_may_know_nothing_yet),
        cmocka_unit_test(test_every_truncation_is_refused),
        cmocka_unit_test(test_every_bit_flip_is_refused),
        cmocka_unit_test(test_a_replay_never_completes),
        cmocka_unit_test(test_reflected_and_spliced_messages_are_refused),
        cmocka_unit_test(test_a_downgrade_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
