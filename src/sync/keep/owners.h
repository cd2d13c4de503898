/* SPDX-License-Identifier: Apache-2.0
 *
 * owners.h - which servers own parts of a store that does not use all of them, and its first clock.
 *
 * Both are words of the store's settings: "clock=1200 servers=d", a bit per server in hexadecimal
 * digits, server 0 the lowest bit of the first digit. A store with all servers and clock 0 has no
 * such words.
 *
 * Layer:   sync, private.
 * Threads: as sync.h.
 * Memory:  a number per server that is used, until tt_owners_release.
 */
#ifndef TUTTI_SYNC_KEEP_OWNERS_H
#define TUTTI_SYNC_KEEP_OWNERS_H

#include "sync/split.h"
#include "sync/sync.h"

enum { TT_OWNERS_SERVERS_MAX = 512 }; /* of a job in which a store does not use all of them */

/* `may_own` as tt_sync_request has it. On failure `why` has a sentence, and there is nothing to
 * release. */
tt_status tt_owners_make(tt_sync *sync, const uint8_t *may_own, tt_split *split_out, tt_text *why);
void tt_owners_release(tt_sync *sync, tt_split *split);
/* Append the words. */
void tt_owners_print(const tt_split *split, uint64_t clock, tt_text *settings);
/* One word of a peer: sets the clock, or makes the split. BAD_WIRE: it is neither. */
tt_status tt_owners_read(tt_sync *sync, const char *word, tt_split *split_io, uint64_t *clock_io);

#endif
