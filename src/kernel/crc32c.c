/* SPDX-License-Identifier: Apache-2.0
 *
 * crc32c.c - tables for any processor, the crc32 instruction where there is one.
 *
 * A CRC is linear: the entry of a table for a byte is the XOR of the entries of its bits. So eight
 * constants make a table of 256, and the compiler fills them in.
 *
 * The instruction takes 8 bytes every cycle, with a latency of three. Three lanes of LANE_BYTES
 * run side by side; each is then moved past the lanes that follow it (as many zero bytes) and
 * added. */
#include "kernel/crc32c.h"

#include <string.h>

#include "kernel/crc32c_internal.h"

#define BIT(byte, bit, value) (((byte) >> (bit)&1u) != 0 ? UINT32_C(value) : 0u)
#define ENTRY(b, c0, c1, c2, c3, c4, c5, c6, c7)                                     \
    (BIT(b, 0, c0) ^ BIT(b, 1, c1) ^ BIT(b, 2, c2) ^ BIT(b, 3, c3) ^ BIT(b, 4, c4) ^ \
     BIT(b, 5, c5) ^ BIT(b, 6, c6) ^ BIT(b, 7, c7))
#define ROW4(b, ...)                                                             \
    ENTRY(b, __VA_ARGS__), ENTRY(b + 1, __VA_ARGS__), ENTRY(b + 2, __VA_ARGS__), \
        ENTRY(b + 3, __VA_ARGS__)
#define ROW16(b, ...)                                                         \
    ROW4(b, __VA_ARGS__), ROW4(b + 4, __VA_ARGS__), ROW4(b + 8, __VA_ARGS__), \
        ROW4(b + 12, __VA_ARGS__)
#define ROW64(b, ...)                                                              \
    ROW16(b, __VA_ARGS__), ROW16(b + 16, __VA_ARGS__), ROW16(b + 32, __VA_ARGS__), \
        ROW16(b + 48, __VA_ARGS__)
#define TABLE(...)                                                                 \
    {                                                                              \
        ROW64(0u, __VA_ARGS__), ROW64(64u, __VA_ARGS__), ROW64(128u, __VA_ARGS__), \
            ROW64(192u, __VA_ARGS__)                                               \
    }

/* slice_table[k][b]: the CRC state after byte b and k zero bytes. */
static const uint32_t slice_table[8][256] = {
    TABLE(0xf26b8303, 0xe13b70f7, 0xc79a971f, 0x8ad958cf, 0x105ec76f, 0x20bd8ede, 0x417b1dbc,
          0x82f63b78),
    TABLE(0x13a29877, 0x274530ee, 0x4e8a61dc, 0x9d14c3b8, 0x3fc5f181, 0x7f8be302, 0xff17c604,
          0xfbc3faf9),
    TABLE(0xa541927e, 0x4f6f520d, 0x9edea41a, 0x38513ec5, 0x70a27d8a, 0xe144fb14, 0xc76580d9,
          0x8b277743),
    TABLE(0xdd45aab8, 0xbf672381, 0x7b2231f3, 0xf64463e6, 0xe964b13d, 0xd725148b, 0xaba65fe7,
          0x52a0c93f),
    TABLE(0x38116fac, 0x7022df58, 0xe045beb0, 0xc5670b91, 0x8f2261d3, 0x1ba8b557, 0x37516aae,
          0x6ea2d55c),
    TABLE(0xef306b19, 0xdb8ca0c3, 0xb2f53777, 0x6006181f, 0xc00c303e, 0x85f4168d, 0x0e045beb,
          0x1c08b7d6),
    TABLE(0x68032cc8, 0xd0065990, 0xa5e0c5d1, 0x4e2dfd53, 0x9c5bfaa6, 0x3d5b83bd, 0x7ab7077a,
          0xf56e0ef4),
    TABLE(0x493c7d27, 0x9278fa4e, 0x211d826d, 0x423b04da, 0x847609b4, 0x0d006599, 0x1a00cb32,
          0x34019664),
};

uint32_t tt_crc32c_plain(uint32_t crc, const void *source, size_t bytes)
{
    const unsigned char *at = source;
    uint32_t state = ~crc;
    for (; bytes >= 8; bytes -= 8, at += 8) {
        uint64_t word;
        memcpy(&word, at, sizeof(word));
        word ^= state;
        state = 0;
        for (unsigned k = 0; k < 8; k++) {
            state ^= slice_table[7 - k][(word >> (8 * k)) & 0xff];
        }
    }
    for (; bytes > 0; bytes--, at++) {
        state = (state >> 8) ^ slice_table[0][(state ^ *at) & 0xff];
    }
    return ~state;
}

#if defined(__x86_64__)
enum {
    LANE_BYTES = 1024,
};

/* lane_table[j][b]: byte j of a state, moved past LANE_BYTES zero bytes. */
static const uint32_t lane_table[4][256] = {
    TABLE(0xfe314258, 0xf98ef241, 0xf6f19273, 0xe80f5217, 0xd5f2d2df, 0xae09d34f, 0x59ffd06f,
          0xb3ffa0de),
    TABLE(0x6213374d, 0xc4266e9a, 0x8da0abc5, 0x1ead217b, 0x3d5a42f6, 0x7ab485ec, 0xf5690bd8,
          0xef3e6141),
    TABLE(0xdb90b473, 0xb2cd1e17, 0x60764adf, 0xc0ec95be, 0x84355d8d, 0x0d86cdeb, 0x1b0d9bd6,
          0x361b37ac),
    TABLE(0x6c366f58, 0xd86cdeb0, 0xb535cb91, 0x6f87e1d3, 0xdf0fc3a6, 0xbbf3f1bd, 0x720b958b,
          0xe4172b16),
};

static uint32_t lane_shift(uint64_t state)
{
    return lane_table[0][state & 0xff] ^ lane_table[1][(state >> 8) & 0xff] ^
           lane_table[2][(state >> 16) & 0xff] ^ lane_table[3][(state >> 24) & 0xff];
}

static uint64_t word_at(const unsigned char *source)
{
    uint64_t word;
    memcpy(&word, source, sizeof(word));
    return word;
}

__attribute__((target("sse4.2"))) uint32_t tt_crc32c_sse42(uint32_t crc, const void *source,
                                                           size_t bytes)
{
    const unsigned char *at = source;
    uint64_t state = ~crc;
    for (; bytes >= 3 * LANE_BYTES; bytes -= 3 * LANE_BYTES, at += 3 * LANE_BYTES) {
        uint64_t second = 0;
        uint64_t third = 0;
        for (size_t i = 0; i < LANE_BYTES; i += 8) {
            state = __builtin_ia32_crc32di(state, word_at(at + i));
            second = __builtin_ia32_crc32di(second, word_at(at + LANE_BYTES + i));
            third = __builtin_ia32_crc32di(third, word_at(at + 2 * LANE_BYTES + i));
        }
        state = lane_shift(lane_shift(state) ^ second) ^ third;
    }
    for (; bytes >= 8; bytes -= 8, at += 8) {
        state = __builtin_ia32_crc32di(state, word_at(at));
    }
    uint32_t short_state = (uint32_t)state;
    for (; bytes > 0; bytes--, at++) {
        short_state = __builtin_ia32_crc32qi(short_state, *at);
    }
    return ~short_state;
}
#endif

uint32_t tt_crc32c(uint32_t crc, const void *source, size_t bytes)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2")) {
        return tt_crc32c_sse42(crc, source, bytes);
    }
#endif
    return tt_crc32c_plain(crc, source, bytes);
}
