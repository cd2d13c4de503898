/* SPDX-License-Identifier: Apache-2.0
 *
 * hash64.c - two lanes of 64 x 64 -> 128 bit multiplications folded to 64 bits.
 *
 * A fold of (x ^ constant) * (y ^ constant) is cheap and spreads every input bit over the result;
 * 32 bytes are taken per turn, 16 by each lane. The tail is zero-padded; the length, mixed in at
 * the end, distinguishes it from real zeros. */
#include "kernel/hash64.h"

#include <string.h>

__extension__ typedef unsigned __int128 wide;

/* Odd, with half of their bits set: the fractions of sqrt 2, 3, 5 and 7. */
static const uint64_t salt_0 = UINT64_C(0x6a09e667f3bcc909);
static const uint64_t salt_1 = UINT64_C(0xbb67ae8584caa73b);
static const uint64_t salt_2 = UINT64_C(0x3c6ef372fe94f82b);
static const uint64_t salt_3 = UINT64_C(0xa54ff53a5f1d36f1);

static uint64_t fold(uint64_t x, uint64_t y)
{
    const wide product = (wide)x * y;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t word_at(const unsigned char *source)
{
    uint64_t word;
    memcpy(&word, source, sizeof(word));
    return word;
}

/* One lane takes 16 bytes. Adding the lane again keeps its state when a factor is zero. */
static uint64_t lane_take(uint64_t lane, const unsigned char *source, uint64_t salt)
{
    return fold(word_at(source) ^ salt, word_at(source + 8) ^ lane) + lane;
}

/* The first `count` bytes of `source`, at most 8, zeros above. A buffer would be three times as
 * slow: a load that spans several stores waits until they are in memory. */
static uint64_t word_of(const unsigned char *source, size_t count)
{
    uint64_t word = 0;
    if (count >= 8) {
        return word_at(source);
    }
    if (count >= 4) {
        uint32_t low, high;
        memcpy(&low, source, sizeof(low));
        memcpy(&high, source + count - sizeof(high), sizeof(high));
        return low | (uint64_t)high << (8 * (count - sizeof(high)));
    }
    for (size_t i = 0; i < count; i++) {
        word |= (uint64_t)source[i] << (8 * i);
    }
    return word;
}

/* The last 1 to 31 bytes, as lane_take would take them with zeros behind. */
static uint64_t lane_take_tail(uint64_t lane, const unsigned char *source, size_t count,
                               uint64_t salt)
{
    const uint64_t low = word_of(source, count);
    const uint64_t high = count > 8 ? word_of(source + 8, count - 8) : 0;
    return fold(low ^ salt, high ^ lane) + lane;
}

uint64_t tt_hash64(const void *source, size_t bytes, uint64_t seed)
{
    const unsigned char *at = source;
    uint64_t left = fold(seed ^ salt_0, salt_1);
    uint64_t right = left ^ salt_2;
    size_t remaining = bytes;
    for (; remaining >= 32; remaining -= 32, at += 32) {
        left = lane_take(left, at, salt_1);
        right = lane_take(right, at + 16, salt_3);
    }
    if (remaining > 0) {
        left = lane_take_tail(left, at, remaining, salt_1);
        right = remaining > 16 ? lane_take_tail(right, at + 16, remaining - 16, salt_3)
                               : lane_take_tail(right, at, 0, salt_3);
    }
    return tt_hash64_mix(left ^ bytes, right);
}

uint64_t tt_hash64_mix(uint64_t a, uint64_t b)
{
    const uint64_t once = fold(a ^ salt_0, b ^ salt_1) + a + (b << 1 | b >> 63);
    return fold(once ^ salt_2, once ^ salt_3) + once;
}
