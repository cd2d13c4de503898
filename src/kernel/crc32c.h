/* SPDX-License-Identifier: Apache-2.0
 *
 * crc32c.h - CRC-32C (Castagnoli), which guards payloads on the wire against accidents.
 *
 * Layer:   kernel.
 * Threads: pure.
 */
#ifndef TUTTI_KERNEL_CRC32C_H
#define TUTTI_KERNEL_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Continue `crc`, 0 at the start, over `bytes` more bytes: any cutting gives the same result. */
uint32_t tt_crc32c(uint32_t crc, const void *source, size_t bytes);

#endif
