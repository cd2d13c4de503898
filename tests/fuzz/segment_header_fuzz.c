/* SPDX-License-Identifier: Apache-2.0
 *
 * segment_header_fuzz.c - a peer passes a hostile descriptor: an attached segment lies inside its
 * file, and fits the host; any other is refused.
 *
 * Input: flags (what is sealed, what is expected), the file's size in 2 MiB and in bytes, then the
 * bytes of its first page.
 *
 * Labels: transport */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/assert.h"
#include "transport/shm/segment.h"

enum { LEAD_BYTES = 4, HUGE_PAGE_BYTES = 2 << 20, PAGE_BYTES = 4096 };

static volatile uint8_t touched;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads the first and the last byte of each part; a read behind the end would fault. */
static uint8_t touch(const tt_segment *segment)
{
    const tt_segment_config *facts = tt_segment_facts(segment);
    uint8_t sum = (uint8_t)(*tt_segment_wake_word(segment) + *tt_segment_core_word(segment));
    for (uint32_t sender = 0; sender < facts->local_count; sender++) {
        const uint8_t *ring = tt_segment_ring(segment, sender);
        sum ^= (uint8_t)(ring[0] ^ ring[facts->ring_bytes - 1]);
    }
    const uint8_t *first = tt_segment_view(segment, 0, facts->arena_bytes);
    TT_ASSERT(first != NULL);
    TT_ASSERT(tt_segment_view(segment, 1, facts->arena_bytes) == NULL);
    TT_ASSERT(tt_segment_view(segment, UINT64_MAX, 2) == NULL);
    return (uint8_t)(sum ^ first[0] ^ first[facts->arena_bytes - 1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < LEAD_BYTES) {
        return 0;
    }
    const uint8_t flags = data[0];
    const size_t head_bytes = size - LEAD_BYTES < PAGE_BYTES ? size - LEAD_BYTES : PAGE_BYTES;
    const off_t bytes = (off_t)data[1] * HUGE_PAGE_BYTES + data[2];
    const tt_segment_config expected = {.local_index = data[3] % 4, .local_count = 1 + data[3] / 4};
    const int seals = (flags & 1 ? 0 : F_SEAL_SHRINK) | (flags & 2 ? 0 : F_SEAL_GROW);
    const int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    TT_ASSERT(fd >= 0 && ftruncate(fd, bytes) == 0);
    if (bytes >= (off_t)head_bytes) {
        TT_ASSERT(pwrite(fd, data + LEAD_BYTES, head_bytes, 0) == (ssize_t)head_bytes);
    }
    TT_ASSERT(fcntl(fd, F_ADD_SEALS, seals) == 0);
    tt_segment *segment = NULL;
    char why[TT_SEGMENT_WHY_BYTES] = "";
    const tt_status status = tt_segment_attach(fd, &expected, &segment, why);
    TT_ASSERT((status == TT_OK) == (why[0] == 0));
    if (status == TT_OK) {
        TT_ASSERT((flags & 3) == 0);
        TT_ASSERT(tt_segment_facts(segment)->local_index == expected.local_index);
        TT_ASSERT(tt_segment_facts(segment)->local_count == expected.local_count);
        touched = touch(segment);
        tt_segment_release(segment);
    }
    (void)close(fd);
    return 0;
}
