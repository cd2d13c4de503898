/* SPDX-License-Identifier: Apache-2.0
 *
 * base.h - what every file may assume about host and compiler.
 *
 * Layer:   base.
 * Threads: pure.
 */
#ifndef TUTTI_BASE_BASE_H
#define TUTTI_BASE_BASE_H

#include <stddef.h>
#include <stdint.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "wire structs are copied as they are");
_Static_assert(sizeof(float) == 4, "gradients are IEEE-754 binary32");
_Static_assert(sizeof(size_t) == 8, "64-bit hosts only");

/* For short functions, where a call would cost more than the body. */
#define TT_INLINE static inline __attribute__((always_inline))

#define TT_ARRAY_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* The struct of `type` whose `member` is at `pointer`. */
#define TT_CONTAINER_OF(pointer, type, member) \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

/* In a loop that polls memory which another thread writes. */
static inline void tt_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static inline uint64_t tt_min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t tt_max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* From `since_ns` to `now_ns`; 0 if `now_ns` is earlier. */
static inline uint64_t tt_elapsed_ns(uint64_t now_ns, uint64_t since_ns)
{
    return now_ns > since_ns ? now_ns - since_ns : 0;
}

static inline uint64_t tt_round_up(uint64_t value, uint64_t multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

#endif
