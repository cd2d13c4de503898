/* SPDX-License-Identifier: Apache-2.0
 *
 * crc32c_fallback.c - bitwise CRC32C, weak: base/crc32c.c takes its place where linked. */
#include <stddef.h>
#include <stdint.h>

uint32_t tt_crc32c(uint32_t crc, const void *bytes, size_t count);

__attribute__((weak)) uint32_t tt_crc32c(uint32_t crc, const void *bytes, size_t count)
{
    const uint8_t *byte = bytes;

    crc = ~crc;
    for (size_t i = 0; i < count; i++) {
        crc ^= byte[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ (0x82f63b78U & (0U - (crc & 1U)));
        }
    }
    return ~crc;
}
