/* SPDX-License-Identifier: Apache-2.0
 *
 * entry.h - names known to one member, and the cache of agreed names and claims.
 *
 * Layer:   negotiate, private.
 * Threads: one at a time.
 * Memory:  the host's allocator.
 */
#ifndef TUTTI_NEGOTIATE_ENTRY_H
#define TUTTI_NEGOTIATE_ENTRY_H

#include "base/alloc.h"
#include "base/list.h"
#include "negotiate/negotiate.h"
#include "negotiate/ranges.h"

#define TT_NONE UINT32_MAX /* no such entry, slot, member */

/* ---- entries: names known to this member ---- */

typedef enum tt_wait {
    TT_WAIT_NONE,
    TT_WAIT_VECTOR,  /* cached; its bit is set */
    TT_WAIT_UNTOLD,  /* waits for the next turn */
    TT_WAIT_TOLD,    /* the coordinator has it */
    TT_WAIT_CHANGED, /* cached with another claim: the slot must be erased */
    TT_WAIT_HELD,    /* planned, while a cut is being agreed */
} tt_wait;

/* Occurrences that peers had begun at a cut, and that this member must still run. */
typedef struct tt_owed {
    uint32_t generation, index;
    uint32_t bundle, bundle_size, bundle_place;
    uint32_t begun, limit;
    uint16_t claim_bytes;
    uint8_t claim[];
} tt_owed;

/* The failure of occurrences that this member has not submitted yet. */
typedef struct tt_debt {
    struct tt_debt *next; /* of later occurrences */
    tt_status status;
    uint32_t count;     /* consecutive occurrences */
    bool is_contest;    /* it was in a group that was contested (contest.c) */
    bool is_after_owed; /* occurrences owed by a cut plan precede it */
    tt_text text;
} tt_debt;

/* One of the coordinator's claims about a name. */
typedef struct tt_row_claim {
    struct tt_row_claim *next;
    tt_ranges members;
    bool has_parts;    /* of a group; set by the coordinator */
    bool is_regrouped; /* and has failed already on its member */
    uint16_t bytes;
    uint8_t claim[];
} tt_row_claim;

/* Requests about one name on their way to the coordinator, or waiting there. */
typedef struct tt_row {
    tt_list_node node;
    uint32_t entry;
    bool needs_all;
    uint8_t verdict;  /* 0, or TT_REQUEST_CANCEL or GIVE_UP with `text` */
    uint32_t contest; /* that it is part of in this turn; 0: none (contest.c) */
    tt_row_claim *claims;
    tt_text *text;
} tt_row;

/* One cache line: each entry is touched twice for every tensor. */
typedef struct tt_entry {
    char *name;        /* ends in 0; NULL: the entry is free */
    tt_ticket *ticket; /* not read between its submission and its end */
    tt_owed *owed;
    tt_debt *debt; /* of the next occurrence */
    tt_row *row;
    uint64_t submitted_ns; /* this and the next two: of the ticket */
    uint32_t older, newer; /* neighbours among waiting entries; TT_NONE: first, last */
    uint32_t slot;         /* of a free entry: the next one */
    uint8_t name_bytes;
    uint8_t wait; /* tt_wait */
    uint8_t wish; /* 0, or TT_REQUEST_CANCEL or GIVE_UP */
} tt_entry;

_Static_assert(sizeof(tt_entry) <= 64, "an entry is a line of cache");
_Static_assert(TT_TICKET_NAME_BYTES_MAX <= UINT8_MAX, "an entry counts them in 8 bits");

/* A place of the index; comparing the tag avoids reading other entries. */
typedef struct tt_entry_place {
    uint32_t tag; /* lower half of the hash: where it belongs */
    uint32_t entry;
} tt_entry_place;

typedef struct tt_entries {
    tt_entry *items;
    tt_entry_place *index; /* [index_capacity], open addressing, a power of two */
    uint32_t used, capacity, index_capacity;
    uint32_t live;
    uint32_t first_free;
    uint32_t oldest, newest; /* that wait; TT_NONE */
    uint32_t guess;          /* the next entry to be found, if names repeat in their first order */
    uint32_t run, run_expected; /* lookups since the last vector; before it */
} tt_entries;

/* Find or add; TT_NONE: out of memory, or not found and `is_wanted` is false. */
uint32_t tt_entry_find(tt_negotiator *self, const char *name, uint16_t name_bytes, bool is_wanted);
uint64_t tt_entry_hash(const tt_entry *entry); /* of its name */
/* The entry whose name has this hash; TT_NONE: none has. */
uint32_t tt_entry_of_hash(const tt_negotiator *self, uint64_t hash);
/* Forget the entry if nothing needs it any more. */
void tt_entry_release(tt_negotiator *self, uint32_t entry);
void tt_entries_destroy(tt_negotiator *self);
/* The ticket waits, as the newest. */
void tt_entry_begin(tt_negotiator *self, uint32_t entry, tt_ticket *ticket);
void tt_entry_wait(tt_negotiator *self, uint32_t entry, tt_wait wait);
/* The ticket leaves the entry; the caller notifies the host. */
tt_ticket *tt_entry_end(tt_negotiator *self, uint32_t entry);
/* The next ticket of this name that has no debt yet will fail with this. */
tt_status tt_entry_owe(tt_negotiator *self, uint32_t entry, tt_status status, const tt_text *text,
                       bool is_contest);
/* Its first debt is paid or forgiven. */
void tt_entry_drop_debt(tt_negotiator *self, uint32_t entry);
/* All have joined. A member that joined in place of a call that the others gave up never makes that
 * call: counting restarts with the next call of that name, on every member. */
void tt_entries_forgive(tt_negotiator *self);
void tt_entry_fail(tt_negotiator *self, uint32_t entry, tt_status status, const char *text);
/* The same after the coordinator compared all claims. */
void tt_entry_judge(tt_negotiator *self, uint32_t entry, tt_status status, const char *text);

/* ---- cache: agreed names and claims, in the same slots on all members ---- */

typedef struct tt_slot {
    uint32_t entry; /* TT_NONE: free */
    uint32_t older, newer;
    uint16_t claim_bytes;
    uint8_t splits; /* how often its bundle failed */
    bool needs_all : 1;
    bool is_planned : 1;
    bool is_frozen : 1;    /* its cut is being agreed */
    bool has_failed : 1;   /* its exchange failed: this member wants it out of the plan */
    bool has_parts : 1;    /* of a group */
    bool is_near : 1;      /* once agreed in the same round as the slot before it */
    bool is_displaced : 1; /* this member has a tensor of it in another ticket: erase it */
    void *claim;
    uint32_t streak;
    uint32_t begun; /* occurrences of the plan; this member's own */
    uint64_t last_step;
    uint64_t round; /* in which it was last agreed */
    uint32_t generation, index;
    uint32_t bundle; /* this and the next as in tt_agreement */
    uint16_t bundle_size, bundle_place;
} tt_slot;

_Static_assert(sizeof(tt_slot) <= 64, "a slot is a line of cache");
_Static_assert(TT_BUNDLE_MEMBERS_MAX <= UINT16_MAX, "a slot counts them in 16 bits");

/* The slot of the group that a tensor is in. */
typedef struct tt_part_place {
    uint64_t hash;
    uint32_t slot; /* TT_NONE: free */
} tt_part_place;

typedef struct tt_cache {
    tt_slot *slots;
    uint64_t *pending; /* bits of this member's tickets */
    uint32_t used, capacity;
    uint32_t reserved, words; /* room in slots, in pending */
    uint32_t oldest, newest, first_free;
    uint32_t planned;
    tt_part_place *parts; /* [part_capacity], open addressing, a power of two */
    uint32_t part_count, part_capacity;
    uint64_t digest;      /* of all changes */
    uint64_t plan_digest; /* of promotions and cuts */
} tt_cache;

void tt_cache_init(tt_negotiator *self, uint32_t capacity);
void tt_cache_destroy(tt_negotiator *self);
/* After an agreement. May evict a slot; inserts nothing if all slots are planned. */
tt_status tt_cache_insert(tt_negotiator *self, uint32_t entry, const void *claim,
                          uint16_t claim_bytes, bool needs_all);
void tt_cache_touch(tt_negotiator *self, uint32_t slot);
/* The slot is erased; a ticket that waits for it goes to the coordinator (UNTOLD). */
void tt_cache_erase(tt_negotiator *self, uint32_t slot);
void tt_cache_erase_all(tt_negotiator *self, uint64_t seed);
void tt_cache_pin(tt_negotiator *self, uint32_t slot);
void tt_cache_unpin(tt_negotiator *self, uint32_t slot);
void tt_cache_note(tt_negotiator *self, uint64_t what); /* into the digest */
static inline uint32_t tt_cache_words(const tt_cache *cache)
{
    return (cache->used + 63) / 64;
}

#endif
