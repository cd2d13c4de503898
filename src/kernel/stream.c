/* SPDX-License-Identifier: Apache-2.0
 *
 * stream.c - see stream.h. Whole lines go past the cache on x86-64, where every processor can. */
#include "kernel/stream.h"

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <emmintrin.h>

enum {
    LINE_BYTES = 64,
    AHEAD_BYTES =
        4096, /* prefetched of the source: enough to be in the second-level cache in time */
};

static void copy_line(uint8_t *to, const uint8_t *from)
{
    const __m128i *read = (const void *)from;
    __m128i *write = (void *)to;
    const __m128i a = _mm_loadu_si128(read), b = _mm_loadu_si128(read + 1);
    const __m128i c = _mm_loadu_si128(read + 2), d = _mm_loadu_si128(read + 3);
    _mm_stream_si128(write, a);
    _mm_stream_si128(write + 1, b);
    _mm_stream_si128(write + 2, c);
    _mm_stream_si128(write + 3, d);
}

void tt_stream_copy(void *target, const void *source, size_t bytes)
{
    uint8_t *to = target;
    const uint8_t *from = source;
    const size_t unaligned = (LINE_BYTES - (uintptr_t)to % LINE_BYTES) % LINE_BYTES;
    const size_t head = unaligned < bytes ? unaligned : bytes;
    memcpy(to, from, head);
    size_t done = head;
    for (; done + AHEAD_BYTES + LINE_BYTES <= bytes; done += LINE_BYTES) {
        __builtin_prefetch(from + done + AHEAD_BYTES, 0, 2);
        copy_line(to + done, from + done);
    }
    for (; done + LINE_BYTES <= bytes; done += LINE_BYTES) {
        copy_line(to + done, from + done);
    }
    memcpy(to + done, from + done, bytes - done);
    _mm_sfence(); /* streaming stores are not ordered with a flag that is set after them */
}

#else
void tt_stream_copy(void *target, const void *source, size_t bytes)
{
    memcpy(target, source, bytes);
}
#endif
