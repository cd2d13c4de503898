/* SPDX-License-Identifier: Apache-2.0
 *
 * stream.h - copies that bypass the cache.
 *
 * A store to a line that is not in the cache first fetches it; a target that is overwritten whole
 * and is larger than the cache is better written past it. This is much slower where the line is
 * cached, so the caller must choose (docs/performance.md).
 *
 * Layer:   kernel.
 * Threads: pure. The stores are visible to others once the call has returned and the caller
 *          synchronises as for any store.
 * Memory:  none.
 */
#ifndef TUTTI_KERNEL_STREAM_H
#define TUTTI_KERNEL_STREAM_H

#include <stddef.h>

/* As memcpy. */
void tt_stream_copy(void *target, const void *source, size_t bytes);

#endif
