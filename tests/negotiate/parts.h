/* SPDX-License-Identifier: Apache-2.0
 *
 * parts.h - claims of groups in tests: "=ab" has the tensors a and b.
 *
 * Layer:   tests.
 * Threads: any.
 * Memory:  points into the claim.
 */
#ifndef TUTTI_TESTS_NEGOTIATE_PARTS_H
#define TUTTI_TESTS_NEGOTIATE_PARTS_H

#include "kernel/hash64.h"
#include "negotiate/negotiate.h"

/* Implements tt_negotiate_host.part. */
static inline uint32_t parts_next(void *owner, const void *claim, uint16_t claim_bytes,
                                  uint32_t offset, tt_part_name *part_out)
{
    const char *text = claim;
    const uint32_t at = offset > 0 ? offset : 1;
    (void)owner;
    if (at >= claim_bytes || text[0] != '=') {
        return 0;
    }
    *part_out =
        (tt_part_name){.hash = tt_hash64(text + at, 1, 0), .name = text + at, .name_bytes = 1};
    return at + 1;
}

#endif
