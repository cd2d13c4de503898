/* SPDX-License-Identifier: Apache-2.0
 *
 * hello.c - layouts of the opening, the answer and the sealed payload.
 *
 *     opening   0 "TUTTI\0"  6 kind  8 version_min u16  10 version_max u16  12 zero[4]
 *              16 fingerprint[16]
 *     answer    the first 16 bytes of an opening
 *     payload   0 role u8  1 verdict u8  2 version u16  4 rank u32  8 world_size u32  12 zero[4]
 *              16 incarnation u64  24 features u64  32 library[16]  48 answer[16] */
#include "transport/secure/hello.h"

#include <sodium.h>
#include <stdbool.h>
#include <string.h>

#include "base/assert.h"
#include "base/base.h"

enum { MAGIC_BYTES = 6, KIND_BYTES = 2 };

static const char magic[MAGIC_BYTES] = {'T', 'U', 'T', 'T', 'I', '\0'};

static const char kinds[][KIND_BYTES] = {
    [TT_HELLO_OPENING] = {'H', 'I'},
    [TT_HELLO_YES] = {'O', 'K'},
    [TT_HELLO_NO] = {'N', 'O'},
};

const char *tt_hello_refusal_text(tt_hello_refusal refusal)
{
    switch (refusal) {
#define X(name, value, text) \
    case TT_REFUSAL_##name:  \
        return text;
        TT_HELLO_REFUSAL_MAP(X)
#undef X
    }
    return "unknown refusal";
}

void tt_hello_fingerprint(const char *job_id, uint8_t fingerprint_out[TT_HELLO_FINGERPRINT_BYTES])
{
    /* The key separates this use of BLAKE2b from others; it is no secret. */
    static const char key[] = "tutti job fingerprint";

    TT_ASSERT(job_id != NULL);
    crypto_generichash(fingerprint_out, TT_HELLO_FINGERPRINT_BYTES, (const uint8_t *)job_id,
                       strlen(job_id), (const uint8_t *)key, sizeof(key) - 1);
}

void tt_hello_clear_encode(const tt_hello_clear *clear, uint8_t *bytes_out)
{
    TT_ASSERT(clear->kind <= TT_HELLO_NO);
    memset(bytes_out, 0, TT_HELLO_ANSWER_BYTES);
    memcpy(bytes_out, magic, MAGIC_BYTES);
    memcpy(bytes_out + 6, kinds[clear->kind], KIND_BYTES);
    memcpy(bytes_out + 8, &clear->version_min, 2);
    memcpy(bytes_out + 10, &clear->version_max, 2);
    if (clear->kind == TT_HELLO_OPENING) {
        memcpy(bytes_out + 16, clear->fingerprint, TT_HELLO_FINGERPRINT_BYTES);
    }
}

static bool is_kind(const uint8_t *bytes, tt_hello_kind kind)
{
    return memcmp(bytes, magic, MAGIC_BYTES) == 0 &&
           memcmp(bytes + 6, kinds[kind], KIND_BYTES) == 0;
}

static tt_hello_refusal decode_versions(const uint8_t *bytes, tt_hello_clear *clear)
{
    memcpy(&clear->version_min, bytes + 8, 2);
    memcpy(&clear->version_max, bytes + 10, 2);
    if (clear->version_min == 0 || clear->version_min > clear->version_max) {
        return TT_REFUSAL_MALFORMED;
    }
    return sodium_is_zero(bytes + 12, 4) ? TT_REFUSAL_NONE : TT_REFUSAL_MALFORMED;
}

tt_hello_refusal tt_hello_opening_decode(const uint8_t *bytes, tt_hello_clear *clear_out)
{
    tt_hello_clear clear = {.kind = TT_HELLO_OPENING};

    if (!is_kind(bytes, TT_HELLO_OPENING)) {
        return TT_REFUSAL_BAD_MAGIC;
    }
    const tt_hello_refusal refusal = decode_versions(bytes, &clear);
    if (refusal == TT_REFUSAL_NONE) {
        memcpy(clear.fingerprint, bytes + 16, TT_HELLO_FINGERPRINT_BYTES);
        *clear_out = clear;
    }
    return refusal;
}

tt_hello_refusal tt_hello_answer_decode(const uint8_t *bytes, tt_hello_clear *clear_out)
{
    tt_hello_clear clear = {.kind = TT_HELLO_YES};

    if (is_kind(bytes, TT_HELLO_NO)) {
        clear.kind = TT_HELLO_NO;
    } else if (!is_kind(bytes, TT_HELLO_YES)) {
        return TT_REFUSAL_BAD_MAGIC;
    }
    const tt_hello_refusal refusal = decode_versions(bytes, &clear);
    if (refusal == TT_REFUSAL_NONE) {
        *clear_out = clear;
    }
    return refusal;
}

uint16_t tt_hello_common_version(const tt_hello_clear *a, const tt_hello_clear *b)
{
    const uint16_t low = a->version_min > b->version_min ? a->version_min : b->version_min;
    const uint16_t high = a->version_max < b->version_max ? a->version_max : b->version_max;

    return low <= high ? high : 0;
}

void tt_hello_encode(const tt_hello *hello, uint8_t bytes_out[TT_HELLO_PAYLOAD_BYTES])
{
    memset(bytes_out, 0, TT_HELLO_PAYLOAD_BYTES);
    bytes_out[0] = (uint8_t)hello->role;
    bytes_out[1] = (uint8_t)hello->verdict;
    memcpy(bytes_out + 2, &hello->version, 2);
    memcpy(bytes_out + 4, &hello->rank, 4);
    memcpy(bytes_out + 8, &hello->world_size, 4);
    memcpy(bytes_out + 16, &hello->incarnation, 8);
    memcpy(bytes_out + 24, &hello->features, 8);
    memcpy(bytes_out + 32, hello->library, TT_HELLO_LIBRARY_BYTES);
    memcpy(bytes_out + 48, hello->answer, TT_HELLO_ANSWER_BYTES);
}

/* Printable ASCII, then at least one NUL, and nothing but NUL from there on. */
static bool is_clean_text(const uint8_t *text, size_t count)
{
    size_t length = 0;

    while (length < count && text[length] >= 0x20 && text[length] < 0x7f) {
        length++;
    }
    return length < count && sodium_is_zero(text + length, count - length);
}

static bool is_place_in_range(const tt_hello *hello)
{
    const bool rank_known = hello->rank != TT_HELLO_RANK_UNKNOWN;
    const bool size_known = hello->world_size != TT_HELLO_WORLD_SIZE_UNKNOWN;

    if (hello->world_size > TT_HELLO_WORLD_SIZE_MAX) {
        return false;
    }
    if (rank_known && hello->rank >= (size_known ? hello->world_size : TT_HELLO_WORLD_SIZE_MAX)) {
        return false;
    }
    return hello->role == TT_HELLO_RENDEZVOUS ||
           (rank_known && size_known && hello->incarnation != TT_HELLO_INCARNATION_UNKNOWN);
}

tt_hello_refusal tt_hello_decode(const uint8_t bytes[TT_HELLO_PAYLOAD_BYTES], tt_hello *hello_out)
{
    tt_hello hello = {.role = TT_HELLO_RENDEZVOUS};

    if (bytes[0] < TT_HELLO_RENDEZVOUS || bytes[0] > TT_HELLO_LOCAL ||
        bytes[1] > TT_REFUSAL_CLOSED || !sodium_is_zero(bytes + 12, 4) ||
        !is_clean_text(bytes + 32, TT_HELLO_LIBRARY_BYTES)) {
        return TT_REFUSAL_MALFORMED;
    }
    hello.role = (tt_hello_role)bytes[0];
    hello.verdict = (tt_hello_refusal)bytes[1];
    memcpy(&hello.version, bytes + 2, 2);
    memcpy(&hello.rank, bytes + 4, 4);
    memcpy(&hello.world_size, bytes + 8, 4);
    memcpy(&hello.incarnation, bytes + 16, 8);
    memcpy(&hello.features, bytes + 24, 8);
    memcpy(hello.library, bytes + 32, TT_HELLO_LIBRARY_BYTES);
    memcpy(hello.answer, bytes + 48, TT_HELLO_ANSWER_BYTES);
    if (!is_place_in_range(&hello)) {
        return TT_REFUSAL_MALFORMED;
    }
    *hello_out = hello;
    return TT_REFUSAL_NONE;
}
