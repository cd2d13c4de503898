/* SPDX-License-Identifier: Apache-2.0
 *
 * hash64.h - a fast 64-bit hash of bytes. Not for secrets, nor against an adversary.
 *
 * The value depends on the bytes, their number and the seed alone, on every host: it travels on
 * the wire and never changes meaning.
 *
 * Layer:   kernel.
 * Threads: pure.
 */
#ifndef TUTTI_KERNEL_HASH64_H
#define TUTTI_KERNEL_HASH64_H

#include <stddef.h>
#include <stdint.h>

uint64_t tt_hash64(const void *source, size_t bytes, uint64_t seed);

/* One well-mixed word from two; the order counts. Chain it to hash a sequence of numbers. */
uint64_t tt_hash64_mix(uint64_t a, uint64_t b);

#endif
