/* SPDX-License-Identifier: Apache-2.0
 *
 * local.h - memory and frames of ranks in one process, for the simulated drivers.
 *
 * Every shared allocation is a region of its own, so that views are bounds-checked exactly.
 * Released regions stay mapped, as the seam promises, and are poisoned: a later store is found when
 * the rank is destroyed.
 *
 * Layer:   platform; private to sim and shuffle.
 * Threads: one at a time.
 * Memory:  malloc; released blocks are counted, regions kept until tt_local_fini.
 */
#ifndef TUTTI_PLATFORM_LOCAL_H
#define TUTTI_PLATFORM_LOCAL_H

#include "platform/platform.h"

typedef struct tt_local_region {
    uint8_t *memory;
    size_t bytes;
    bool is_released;
} tt_local_region;

/* Which allocation fails, counted over all ranks; shared by them. */
typedef struct tt_local_shortage {
    uint64_t attempts;
    uint64_t fail_at; /* from 1; 0: never */
    bool is_lasting;
    bool is_over;     /* none fails for now */
    uint64_t further; /* how many more fail, of the rank whose allocation failed */
    const struct tt_local *starved;
} tt_local_shortage;

typedef struct tt_local {
    tt_local_shortage *shortage;
    tt_local_region *regions;
    uint32_t region_count, region_capacity;
    uint64_t live_count; /* allocations not released */
    uint64_t live_bytes;
    uint64_t starved_count; /* allocations that failed */
} tt_local;

void tt_local_init(tt_local *local, tt_local_shortage *shortage);
/* False: a region was written to after its release. */
bool tt_local_fini(tt_local *local);

/* Memory that is no more than an address counts like other memory. False: it fails on purpose. */
bool tt_local_admit(tt_local *local, size_t bytes);
void tt_local_dismiss(tt_local *local, size_t bytes);

void *tt_local_allocate(tt_local *local, tt_memory_kind kind, size_t bytes);
void tt_local_release(tt_local *local, tt_memory_kind kind, void *memory, size_t bytes);
void *tt_local_view(const tt_local *local, tt_place place, size_t bytes);
bool tt_local_locate(const tt_local *local, const void *memory, size_t bytes, tt_place *place_out);

/* Memory of the driver itself; never NULL. */
void *tt_local_take(size_t bytes);

/* A frame in flight. */
typedef struct tt_parcel {
    tt_send send;
    tt_head head;
    uint32_t from;
    bool is_borrowed : 1; /* `send.payload` is the sender's, which gets `sent` */
    bool is_phantom : 1;  /* it has a length and no bytes */
    bool is_announced : 1;
    bool is_discarded : 1;
    bool is_cut : 1; /* the sender died while it was sending */
    uint8_t hop;     /* sim: the link that its first byte is at */
    void *sink;
    union {
        uint64_t sequence; /* shuffle */
        uint64_t ready_ns; /* sim: no card takes it before that */
    };
    struct tt_parcel *next;
} tt_parcel;

/* `platform` tells which payloads are phantom. */
tt_parcel *tt_parcel_make(const tt_platform *platform, uint32_t from, const tt_send *send,
                          bool is_borrowed);
/* Copy the payload, so that it is the sender's again. */
void tt_parcel_own(tt_parcel *parcel);
void tt_parcel_release(tt_parcel *parcel);

/* Upcall `frame` of `machine`, whose platform is given. True: a payload upcall must follow. */
bool tt_parcel_announce(tt_parcel *parcel, const tt_platform *platform, const tt_machine *machine);
void tt_parcel_complete(tt_parcel *parcel, const tt_platform *platform, const tt_machine *machine);

#endif
