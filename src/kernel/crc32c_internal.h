/* SPDX-License-Identifier: Apache-2.0
 *
 * crc32c_internal.h - the variants of tt_crc32c, for the test that proves them equal.
 *
 * Layer:   kernel, private to crc32c.c and its test.
 * Threads: pure.
 */
#ifndef TUTTI_KERNEL_CRC32C_INTERNAL_H
#define TUTTI_KERNEL_CRC32C_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

uint32_t tt_crc32c_plain(uint32_t crc, const void *source, size_t bytes);
uint32_t tt_crc32c_sse42(uint32_t crc, const void *source, size_t bytes); /* x86-64 only */

#endif
