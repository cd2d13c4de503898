/* SPDX-License-Identifier: Apache-2.0
 *
 * handshake.c - the handshake: Noise messages that carry hellos.
 *
 * Phases. Initiator: ANSWER, MESSAGE_2, DONE. Responder: OPENING, MESSAGE_1, CONFIRM, DONE.
 * Any of them may end in REFUSED, where no key is left in memory. */
#include "transport/secure/handshake.h"

#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/base.h"

enum handshake_phase {
    PHASE_REFUSED, /* zero, so that wiped memory is refused */
    PHASE_ANSWER,
    PHASE_MESSAGE_2,
    PHASE_OPENING,
    PHASE_MESSAGE_1,
    PHASE_CONFIRM,
    PHASE_DONE,
};

static const uint8_t phase_wants_bytes[] = {
    [PHASE_REFUSED] = 0,
    [PHASE_ANSWER] = TT_HELLO_ANSWER_BYTES,
    [PHASE_MESSAGE_2] = TT_HANDSHAKE_MESSAGE_BYTES,
    [PHASE_OPENING] = TT_HELLO_OPENING_BYTES,
    [PHASE_MESSAGE_1] = TT_HANDSHAKE_MESSAGE_BYTES,
    [PHASE_CONFIRM] = TT_HANDSHAKE_CONFIRM_BYTES,
    [PHASE_DONE] = 0,
};

_Static_assert(TT_HELLO_OPENING_BYTES + TT_HANDSHAKE_MESSAGE_BYTES + TT_HANDSHAKE_CONFIRM_BYTES <=
                   TT_HANDSHAKE_BYTES_MAX,
               "bound on an unauthenticated initiator");
_Static_assert(TT_HELLO_ANSWER_BYTES + TT_HANDSHAKE_MESSAGE_BYTES <= TT_HANDSHAKE_BYTES_MAX,
               "bound on an unauthenticated responder");

static void handshake_wipe_keys(tt_handshake *handshake)
{
    sodium_memzero(handshake->psk, sizeof(handshake->psk));
    sodium_memzero(&handshake->keys, sizeof(handshake->keys));
    tt_noise_fini(&handshake->noise);
}

static tt_status handshake_refuse(tt_handshake *handshake, tt_hello_refusal why)
{
    TT_ASSERT(why != TT_REFUSAL_NONE);
    handshake_wipe_keys(handshake);
    handshake->refusal = why;
    handshake->phase = PHASE_REFUSED;
    return TT_ERR_REFUSED;
}

static void handshake_queue(tt_handshake *handshake, const uint8_t *bytes, size_t count)
{
    TT_ASSERT(handshake->output_bytes + count <= sizeof(handshake->output));
    memcpy(handshake->output + handshake->output_bytes, bytes, count);
    handshake->output_bytes += count;
}

static tt_hello_clear own_clear(const tt_handshake *handshake, tt_hello_kind kind)
{
    tt_hello_clear clear = {
        .kind = kind,
        .version_min = handshake->setup.version_min,
        .version_max = handshake->setup.version_max,
    };

    memcpy(clear.fingerprint, handshake->setup.fingerprint, sizeof(clear.fingerprint));
    return clear;
}

static tt_status handshake_start_noise(tt_handshake *handshake)
{
    const tt_noise_setup setup = {
        .psk = handshake->psk,
        .prologue = handshake->opening,
        .prologue_bytes = sizeof(handshake->opening),
        .random = handshake->setup.random,
    };
    const tt_status status = tt_noise_init(&handshake->noise, handshake->setup.side, &setup);

    sodium_memzero(handshake->psk, sizeof(handshake->psk));
    return status;
}

/* Encodes `hello`, seals it as the next Noise message and queues it. */
static tt_status handshake_queue_hello(tt_handshake *handshake, const tt_hello *hello)
{
    uint8_t payload[TT_HELLO_PAYLOAD_BYTES];
    uint8_t message[TT_HANDSHAKE_MESSAGE_BYTES];

    tt_hello_encode(hello, payload);
    const tt_status status = tt_noise_write(&handshake->noise, payload, sizeof(payload), message);
    if (status == TT_OK) {
        handshake_queue(handshake, message, sizeof(message));
    }
    return status;
}

/* MAC over the transcript with a key only the two ends can derive: proves that message 1 was no
 * replay. */
static void confirmation(const uint8_t *initiator_key, const uint8_t *transcript,
                         uint8_t confirm_out[TT_HANDSHAKE_CONFIRM_BYTES])
{
    static const char context[crypto_kdf_CONTEXTBYTES + 1] = "TTconfrm";
    uint8_t key[crypto_generichash_KEYBYTES];

    crypto_kdf_derive_from_key(key, sizeof(key), 1, context, initiator_key);
    crypto_generichash(confirm_out, TT_HANDSHAKE_CONFIRM_BYTES, transcript, TT_NOISE_HASH_BYTES,
                       key, sizeof(key));
    sodium_memzero(key, sizeof(key));
}

/* Checks of an authentic hello that need our own values. */
static tt_hello_refusal judge_peer(const tt_handshake *handshake, const tt_hello *peer)
{
    const tt_handshake_setup *setup = &handshake->setup;
    const tt_hello *self = &setup->self;
    const bool initiator = setup->side == TT_NOISE_INITIATOR;

    if (initiator ? peer->role != self->role : (setup->roles_accepted >> peer->role & 1U) == 0) {
        return TT_REFUSAL_WRONG_ROLE;
    }
    if (peer->incarnation != self->incarnation &&
        peer->incarnation != TT_HELLO_INCARNATION_UNKNOWN &&
        self->incarnation != TT_HELLO_INCARNATION_UNKNOWN) {
        return TT_REFUSAL_WRONG_INCARNATION;
    }
    if (peer->world_size != self->world_size && peer->world_size != TT_HELLO_WORLD_SIZE_UNKNOWN &&
        self->world_size != TT_HELLO_WORLD_SIZE_UNKNOWN) {
        return TT_REFUSAL_WRONG_SIZE;
    }
    if (initiator && setup->expected_rank != TT_HELLO_RANK_UNKNOWN &&
        peer->rank != setup->expected_rank) {
        return TT_REFUSAL_WRONG_RANK;
    }
    /* A rank may join at its own rendezvous; a link from its own rank is an impostor's. */
    if (peer->role != TT_HELLO_RENDEZVOUS && peer->rank == self->rank) {
        return TT_REFUSAL_DUPLICATE_RANK;
    }
    return setup->judge != NULL ? setup->judge(setup->judge_user, peer) : TT_REFUSAL_NONE;
}

static tt_status step_answer(tt_handshake *handshake)
{
    const tt_hello_clear own = own_clear(handshake, TT_HELLO_OPENING);
    const tt_hello_refusal refusal =
        tt_hello_answer_decode(handshake->input, &handshake->peer_clear);

    if (refusal != TT_REFUSAL_NONE) {
        return handshake_refuse(handshake, refusal);
    }
    const bool meets = tt_hello_common_version(&own, &handshake->peer_clear) != 0;
    if (!meets) {
        return handshake_refuse(handshake, TT_REFUSAL_VERSION_SKEW);
    }
    /* The clear answer NO means version skew only. */
    if (handshake->peer_clear.kind == TT_HELLO_NO) {
        return handshake_refuse(handshake, TT_REFUSAL_MALFORMED);
    }
    handshake->phase = PHASE_MESSAGE_2;
    return TT_IN_PROGRESS;
}

static tt_hello_refusal judge_answer(tt_handshake *handshake, const uint8_t *payload)
{
    const tt_hello_clear own = own_clear(handshake, TT_HELLO_OPENING);
    uint8_t answer[TT_HELLO_ANSWER_BYTES];

    if (tt_hello_decode(payload, &handshake->peer) != TT_REFUSAL_NONE) {
        return TT_REFUSAL_MALFORMED;
    }
    tt_hello_clear_encode(&handshake->peer_clear, answer);
    if (sodium_memcmp(answer, handshake->peer.answer, sizeof(answer)) != 0 ||
        handshake->peer.version != tt_hello_common_version(&own, &handshake->peer_clear)) {
        return TT_REFUSAL_BAD_SECRET; /* the clear part was changed on the way */
    }
    if (handshake->peer.verdict != TT_REFUSAL_NONE) {
        handshake->refused_by_peer = 1;
        return handshake->peer.verdict;
    }
    return judge_peer(handshake, &handshake->peer);
}

static tt_status step_message_2(tt_handshake *handshake)
{
    uint8_t payload[TT_HELLO_PAYLOAD_BYTES];
    uint8_t confirm[TT_HANDSHAKE_CONFIRM_BYTES];

    if (tt_noise_read(&handshake->noise, handshake->input, TT_HANDSHAKE_MESSAGE_BYTES, payload) !=
        TT_OK) {
        return handshake_refuse(handshake, TT_REFUSAL_BAD_SECRET);
    }
    const tt_hello_refusal refusal = judge_answer(handshake, payload);
    if (refusal != TT_REFUSAL_NONE) {
        return handshake_refuse(handshake, refusal);
    }
    if (tt_noise_split(&handshake->noise, &handshake->keys) != TT_OK) {
        return handshake_refuse(handshake, TT_REFUSAL_BAD_SECRET);
    }
    confirmation(handshake->keys.send, handshake->keys.transcript, confirm);
    handshake_queue(handshake, confirm, sizeof(confirm));
    handshake->phase = PHASE_DONE;
    return TT_OK;
}

static tt_status step_opening(tt_handshake *handshake)
{
    tt_hello_clear own = own_clear(handshake, TT_HELLO_NO);
    const tt_hello_refusal refusal =
        tt_hello_opening_decode(handshake->input, &handshake->peer_clear);

    if (refusal != TT_REFUSAL_NONE) {
        return handshake_refuse(handshake, refusal);
    }
    if (tt_hello_common_version(&own, &handshake->peer_clear) == 0) {
        uint8_t answer[TT_HELLO_ANSWER_BYTES];
        tt_hello_clear_encode(&own, answer);
        handshake_queue(handshake, answer, sizeof(answer));
        return handshake_refuse(handshake, TT_REFUSAL_VERSION_SKEW);
    }
    if (sodium_memcmp(own.fingerprint, handshake->peer_clear.fingerprint,
                      sizeof(own.fingerprint)) != 0) {
        return handshake_refuse(handshake, TT_REFUSAL_WRONG_JOB);
    }
    memcpy(handshake->opening, handshake->input, sizeof(handshake->opening));
    if (handshake_start_noise(handshake) != TT_OK) {
        return handshake_refuse(handshake, TT_REFUSAL_BAD_SECRET);
    }
    handshake->phase = PHASE_MESSAGE_1;
    return TT_IN_PROGRESS;
}

static tt_hello_refusal judge_opening(tt_handshake *handshake, const uint8_t *payload)
{
    const tt_hello_refusal refusal = tt_hello_decode(payload, &handshake->peer);

    if (refusal != TT_REFUSAL_NONE) {
        return refusal;
    }
    if (handshake->peer.verdict != TT_REFUSAL_NONE || handshake->peer.version != 0 ||
        !sodium_is_zero(handshake->peer.answer, sizeof(handshake->peer.answer))) {
        return TT_REFUSAL_MALFORMED;
    }
    return judge_peer(handshake, &handshake->peer);
}

/* Queues the clear answer and message 2, which carries `verdict`. */
static tt_status handshake_queue_answer(tt_handshake *handshake, tt_hello_refusal verdict)
{
    const tt_hello_clear own = own_clear(handshake, TT_HELLO_YES);
    tt_hello hello = handshake->setup.self;

    tt_hello_clear_encode(&own, hello.answer);
    handshake_queue(handshake, hello.answer, sizeof(hello.answer));
    hello.role = handshake->peer.role == 0 ? TT_HELLO_RENDEZVOUS : handshake->peer.role;
    hello.verdict = verdict;
    hello.version = tt_hello_common_version(&own, &handshake->peer_clear);
    return handshake_queue_hello(handshake, &hello);
}

static tt_status step_message_1(tt_handshake *handshake)
{
    uint8_t payload[TT_HELLO_PAYLOAD_BYTES];

    if (tt_noise_read(&handshake->noise, handshake->input, TT_HANDSHAKE_MESSAGE_BYTES, payload) !=
        TT_OK) {
        return handshake_refuse(handshake, TT_REFUSAL_BAD_SECRET);
    }
    const tt_hello_refusal refusal = judge_opening(handshake, payload);
    const size_t output_bytes = handshake->output_bytes;
    if (handshake_queue_answer(handshake, refusal) != TT_OK) {
        handshake->output_bytes = output_bytes;
        return handshake_refuse(handshake, TT_REFUSAL_BAD_SECRET);
    }
    if (refusal != TT_REFUSAL_NONE) {
        return handshake_refuse(handshake, refusal);
    }
    if (tt_noise_split(&handshake->noise, &handshake->keys) != TT_OK) {
        return handshake_refuse(handshake, TT_REFUSAL_BAD_SECRET);
    }
    handshake->phase = PHASE_CONFIRM;
    return TT_IN_PROGRESS;
}

static tt_status step_confirm(tt_handshake *handshake)
{
    uint8_t expected[TT_HANDSHAKE_CONFIRM_BYTES];

    confirmation(handshake->keys.receive, handshake->keys.transcript, expected);
    if (sodium_memcmp(expected, handshake->input, sizeof(expected)) != 0) {
        return handshake_refuse(handshake, TT_REFUSAL_BAD_SECRET);
    }
    handshake->phase = PHASE_DONE;
    return TT_OK;
}

static tt_status handshake_step(tt_handshake *handshake)
{
    switch ((enum handshake_phase)handshake->phase) {
    case PHASE_ANSWER:
        return step_answer(handshake);
    case PHASE_MESSAGE_2:
        return step_message_2(handshake);
    case PHASE_OPENING:
        return step_opening(handshake);
    case PHASE_MESSAGE_1:
        return step_message_1(handshake);
    case PHASE_CONFIRM:
        return step_confirm(handshake);
    case PHASE_DONE:
        return TT_OK;
    case PHASE_REFUSED:
        break;
    }
    return TT_ERR_REFUSED;
}

tt_status tt_handshake_init(tt_handshake *handshake, const tt_handshake_setup *setup)
{
    TT_ASSERT(setup->psk != NULL);
    TT_ASSERT(setup->version_min > 0);
    TT_ASSERT(setup->version_min <= setup->version_max);
    memset(handshake, 0, sizeof(*handshake));
    handshake->setup = *setup;
    handshake->setup.psk = NULL;
    handshake->setup.self.verdict = TT_REFUSAL_NONE;
    handshake->setup.self.version = 0;
    memset(handshake->setup.self.answer, 0, sizeof(handshake->setup.self.answer));
    memcpy(handshake->psk, setup->psk, sizeof(handshake->psk));
    if (setup->side == TT_NOISE_RESPONDER) {
        handshake->phase = PHASE_OPENING;
        return TT_OK;
    }
    const tt_hello_clear opening = own_clear(handshake, TT_HELLO_OPENING);
    tt_hello_clear_encode(&opening, handshake->opening);
    handshake_queue(handshake, handshake->opening, sizeof(handshake->opening));
    TT_TRY(handshake_start_noise(handshake));
    TT_TRY(handshake_queue_hello(handshake, &handshake->setup.self));
    handshake->phase = PHASE_ANSWER;
    return TT_OK;
}

void tt_handshake_fini(tt_handshake *handshake)
{
    sodium_memzero(handshake, sizeof(*handshake));
}

size_t tt_handshake_wants_bytes(const tt_handshake *handshake)
{
    TT_ASSERT(handshake->phase <= PHASE_DONE);
    const size_t wanted = phase_wants_bytes[handshake->phase];
    TT_ASSERT(wanted == 0 || handshake->input_bytes < wanted);
    return wanted == 0 ? 0 : wanted - handshake->input_bytes;
}

tt_status tt_handshake_feed(tt_handshake *handshake, const uint8_t *bytes, size_t count)
{
    const size_t wanted = tt_handshake_wants_bytes(handshake);

    TT_ASSERT(count <= wanted);
    if (wanted == 0) {
        return handshake->phase == PHASE_DONE ? TT_OK : TT_ERR_REFUSED;
    }
    if (count > 0) {
        memcpy(handshake->input + handshake->input_bytes, bytes, count);
        handshake->input_bytes += count;
    }
    if (count < wanted) {
        return TT_IN_PROGRESS;
    }
    handshake->input_bytes = 0;
    return handshake_step(handshake);
}

tt_status tt_handshake_closed(tt_handshake *handshake)
{
    if (handshake->phase == PHASE_DONE) {
        return TT_OK;
    }
    if (handshake->phase == PHASE_REFUSED) {
        return TT_ERR_REFUSED;
    }
    return handshake_refuse(handshake, TT_REFUSAL_CLOSED);
}

size_t tt_handshake_output(const tt_handshake *handshake, const uint8_t **bytes_out)
{
    *bytes_out = handshake->output + handshake->output_sent;
    return handshake->output_bytes - handshake->output_sent;
}

void tt_handshake_output_sent(tt_handshake *handshake, size_t count)
{
    TT_ASSERT(count <= handshake->output_bytes - handshake->output_sent);
    handshake->output_sent += count;
}

tt_status tt_handshake_take_result(tt_handshake *handshake, tt_handshake_result *result_out)
{
    const tt_hello_clear own = own_clear(handshake, TT_HELLO_OPENING);

    if (handshake->phase != PHASE_DONE) {
        return TT_ERR_REFUSED;
    }
    result_out->peer = handshake->peer;
    result_out->version = tt_hello_common_version(&own, &handshake->peer_clear);
    result_out->features = handshake->peer.features & handshake->setup.self.features;
    result_out->keys = handshake->keys;
    handshake_wipe_keys(handshake);
    return TT_OK;
}

tt_hello_refusal tt_handshake_refusal(const tt_handshake *handshake)
{
    return handshake->refusal;
}

static const char *refusal_cure(tt_hello_refusal refusal)
{
    switch (refusal) {
    case TT_REFUSAL_BAD_MAGIC:
        return "another program uses this port";
    case TT_REFUSAL_WRONG_JOB:
        return "two jobs share an address; check TUTTI_JOB_ID and the rendezvous address";
    case TT_REFUSAL_BAD_SECRET:
        return "give every rank the same TUTTI_SECRET_FILE, or start them with tutti run";
    case TT_REFUSAL_CLOSED:
        return "its log names the cause; most often another secret or another job";
    case TT_REFUSAL_DUPLICATE_RANK:
        return "two processes were started as the same rank";
    default:
        return "start every rank from the same launch";
    }
}

const char *tt_handshake_explain(const tt_handshake *handshake, char *text, size_t text_bytes)
{
    const tt_hello *self = &handshake->setup.self;
    const tt_hello *peer = &handshake->peer;
    const char *who = handshake->refused_by_peer ? "peer refused us, as seen by it: " : "";
    const char *cause = tt_hello_refusal_text(handshake->refusal);

    switch (handshake->refusal) {
    case TT_REFUSAL_NONE:
        (void)snprintf(text, text_bytes, "not refused");
        break;
    case TT_REFUSAL_VERSION_SKEW:
        (void)snprintf(text, text_bytes,
                       "%s: peer supports %u to %u, this side %u to %u; install the same Tutti "
                       "release on both",
                       cause, handshake->peer_clear.version_min, handshake->peer_clear.version_max,
                       handshake->setup.version_min, handshake->setup.version_max);
        break;
    case TT_REFUSAL_WRONG_INCARNATION:
    case TT_REFUSAL_WRONG_SIZE:
    case TT_REFUSAL_WRONG_RANK:
    case TT_REFUSAL_DUPLICATE_RANK:
    case TT_REFUSAL_WRONG_ROLE:
        (void)snprintf(text, text_bytes,
                       "%s%s: peer is rank %d of %u, incarnation %llu, version %s; this side is "
                       "rank %d of %u, incarnation %llu; %s",
                       who, cause, (int)peer->rank, peer->world_size,
                       (unsigned long long)peer->incarnation, peer->library, (int)self->rank,
                       self->world_size, (unsigned long long)self->incarnation,
                       refusal_cure(handshake->refusal));
        break;
    default:
        (void)snprintf(text, text_bytes, "%s%s; %s", who, cause, refusal_cure(handshake->refusal));
        break;
    }
    return text;
}
