/* SPDX-License-Identifier: Apache-2.0
 *
 * segment.c - create, check and map the shared memory of a rank.
 *
 * File layout:   [control page][ring of local rank 0] ... [ring of local rank n-1][arena]
 *
 * The control page holds the header (written once, before any peer sees the file), the wake word
 * and the core word, each in a line of its own. Rings start at page boundaries, the arena at 2 MiB
 * so that huge pages are possible. An attacher reads the header with pread into private memory and
 * derives everything else from local_count and ring_bytes: no offset is ever taken from a peer.
 */
#include "transport/shm/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/base.h"
#include "transport/shm/line_ring.h"

enum {
    SEGMENT_VERSION = 1,
    CONTROL_BYTES = 4096,
    WAKE_OFFSET = 128,
    CORE_OFFSET = 256,
    HUGE_PAGE_BYTES = 2 * 1024 * 1024,
    ARENA_BYTES_MIN = HUGE_PAGE_BYTES,
    UNMAP_ASIDE_BYTES_MIN = 16 * 1024 * 1024, /* takes some milliseconds to unmap */
    UNMAP_STEP_BYTES = 4 * 1024 * 1024,
    UNMAP_STEPS_MAX = 4096,
    UNMAPPER_NICE = 10,
};

static const uint64_t ADDRESS_BYTES = UINT64_C(1) << 45;  /* a quarter of what a process has */
static const uint64_t SEGMENT_MAGIC = 0x746e656d67657354; /* "Tsegment" */

typedef struct segment_header {
    uint64_t magic;
    uint32_t version;
    uint32_t local_index;
    uint32_t local_count;
    uint32_t ring_bytes;
    uint64_t arena_bytes;
} segment_header;

_Static_assert(sizeof(segment_header) == 32, "segment_header is a shared format");
_Static_assert(sizeof(segment_header) <= WAKE_OFFSET, "the wake word has a line of its own");

typedef struct mapping {
    void *memory;
    uint64_t bytes;
} mapping;

typedef struct mapping_list {
    uint32_t count;
    mapping mappings[];
} mapping_list;

struct tt_segment {
    _Atomic uint32_t references;
    tt_segment_config facts;
    uint8_t *memory;
    uint64_t bytes; /* of the mapping and of the file */
    uint64_t arena_offset;
    int descriptor; /* -1 for an attached one */
    tt_arena *arena;
};

static tt_status fail(tt_status status, char *why_out, const char *what, int error)
{
    if (why_out != NULL) {
        if (error != 0) {
            char text[64];
            snprintf(why_out, TT_SEGMENT_WHY_BYTES, "shared segment: %s: %s", what,
                     strerror_r(error, text, sizeof text));
        } else {
            snprintf(why_out, TT_SEGMENT_WHY_BYTES, "shared segment: %s", what);
        }
    }
    return status;
}

static uint64_t ring_stride(uint32_t ring_bytes)
{
    return tt_round_up(sizeof(tt_ring_control) + ring_bytes, CONTROL_BYTES);
}

static uint64_t arena_offset_for(const tt_segment_config *facts)
{
    const uint64_t rings = facts->local_count * ring_stride(facts->ring_bytes);
    return tt_round_up(CONTROL_BYTES + rings, HUGE_PAGE_BYTES);
}

static bool facts_are_valid(const tt_segment_config *facts)
{
    return facts->local_count >= 1 && facts->local_count <= TT_SEGMENT_LOCAL_MAX &&
           facts->local_index < facts->local_count &&
           facts->ring_bytes >= TT_SEGMENT_RING_BYTES_MIN &&
           facts->ring_bytes <= TT_SEGMENT_RING_BYTES_MAX &&
           (facts->ring_bytes & (facts->ring_bytes - 1)) == 0 &&
           facts->arena_bytes % HUGE_PAGE_BYTES == 0 && facts->arena_bytes >= ARENA_BYTES_MIN &&
           facts->arena_bytes < UINT64_C(1) << 46;
}

/* Map `bytes` of `descriptor` at a multiple of 2 MiB; NULL if the address space has no room. */
static uint8_t *map_aligned(int descriptor, uint64_t bytes)
{
    const uint64_t reserved = bytes + HUGE_PAGE_BYTES;
    uint8_t *hold =
        mmap(NULL, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (hold == MAP_FAILED) {
        return NULL;
    }
    uint8_t *start = (uint8_t *)tt_round_up((uintptr_t)hold, HUGE_PAGE_BYTES);
    const uint64_t before = (uint64_t)(start - hold);
    const uint64_t after = reserved - bytes - before;
    if (mmap(start, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED,
             descriptor, 0) == MAP_FAILED) {
        munmap(hold, reserved);
        return NULL;
    }
    if (before > 0) {
        munmap(hold, before);
    }
    if (after > 0) {
        munmap(start + bytes, after);
    }
    /* Otherwise unmapping marks each page as accessed for the kernel's page replacement, under a
     * lock that all processes share: half the time of leaving a job. */
    (void)madvise(start, bytes, MADV_RANDOM);
    return start;
}

/* The host's memory, limited so that all local ranks' segments fit one address space. */
static uint64_t default_arena_bytes(uint32_t local_count)
{
    const uint64_t share = ADDRESS_BYTES / (local_count > 0 ? local_count : 1);

    const long pages = sysconf(_SC_PHYS_PAGES);
    const long page_bytes = sysconf(_SC_PAGESIZE);
    if (pages <= 0 || page_bytes <= 0) {
        return tt_min_u64(share, UINT64_C(1) << 30);
    }
    return tt_min_u64(share, (uint64_t)pages * (uint64_t)page_bytes);
}

/* Size the file and map it; halves the arena as long as it cannot be mapped. */
static tt_status map_new(tt_segment *segment, char *why_out)
{
    int error = 0;
    for (;;) {
        segment->bytes = segment->arena_offset + segment->facts.arena_bytes;
        if (ftruncate(segment->descriptor, (off_t)segment->bytes) == 0) {
            segment->memory = map_aligned(segment->descriptor, segment->bytes);
        }
        error = errno;
        if (segment->memory != NULL) {
            return TT_OK;
        }
        if (segment->facts.arena_bytes == ARENA_BYTES_MIN) {
            return fail(TT_ERR_NO_RESOURCE, why_out, "address space (ulimit -v)", error);
        }
        segment->facts.arena_bytes = tt_round_up(segment->facts.arena_bytes / 2, HUGE_PAGE_BYTES);
    }
}

static tt_status prepare_new(tt_segment *segment, char *why_out)
{
    const tt_segment_config *facts = &segment->facts;
    if (fallocate(segment->descriptor, FALLOC_FL_KEEP_SIZE, 0,
                  (off_t)(CONTROL_BYTES + facts->local_count * ring_stride(facts->ring_bytes))) !=
        0) {
        return fail(TT_ERR_NO_RESOURCE, why_out, "shared memory for the rings", errno);
    }
    if (fcntl(segment->descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
        return fail(TT_ERR_SYSTEM, why_out, "cannot seal the memfd", errno);
    }
    const segment_header header = {
        .magic = SEGMENT_MAGIC,
        .version = SEGMENT_VERSION,
        .local_index = facts->local_index,
        .local_count = facts->local_count,
        .ring_bytes = facts->ring_bytes,
        .arena_bytes = facts->arena_bytes,
    };
    memcpy(segment->memory, &header, sizeof header);
    const tt_arena_span span = {
        .memory = segment->memory + segment->arena_offset,
        .bytes = facts->arena_bytes,
        .file_offset = segment->arena_offset,
        .descriptor = segment->descriptor,
    };
    const tt_status status = tt_arena_create(&span, &segment->arena);
    return status == TT_OK ? TT_OK : fail(status, why_out, "heap memory", 0);
}

tt_status tt_segment_create(const tt_segment_config *config, tt_segment **segment_out,
                            char why_out[TT_SEGMENT_WHY_BYTES])
{
    tt_segment *segment = calloc(1, sizeof *segment);
    if (segment == NULL) {
        return fail(TT_ERR_NO_MEMORY, why_out, "heap memory", 0);
    }
    atomic_init(&segment->references, 1);
    segment->facts = *config;
    if (segment->facts.ring_bytes == 0) {
        segment->facts.ring_bytes = TT_SEGMENT_RING_BYTES_DEFAULT;
    }
    if (segment->facts.arena_bytes == 0) {
        segment->facts.arena_bytes = default_arena_bytes(config->local_count);
    }
    segment->facts.arena_bytes = tt_round_up(segment->facts.arena_bytes, HUGE_PAGE_BYTES);
    if (!facts_are_valid(&segment->facts)) {
        free(segment);
        return fail(TT_ERR_BAD_ARGUMENT, why_out, "sizes out of range", 0);
    }
    segment->arena_offset = arena_offset_for(&segment->facts);
    segment->descriptor = memfd_create("tutti", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    tt_status status = TT_OK;
    if (segment->descriptor < 0) {
        const bool is_full = errno == EMFILE || errno == ENFILE;
        status =
            fail(TT_ERR_NO_RESOURCE, why_out,
                 is_full ? "no descriptor for memfd_create (ulimit -n)" : "memfd_create", errno);
    }
    if (status == TT_OK) {
        status = map_new(segment, why_out);
    }
    if (status == TT_OK) {
        status = prepare_new(segment, why_out);
    }
    if (status != TT_OK) {
        tt_segment_release(segment);
        return status;
    }
    *segment_out = segment;
    return TT_OK;
}

/* Size and seals first: the kernel vouches for them. Then the header, from a private copy. */
static tt_status check_foreign(int descriptor, const tt_segment_config *expected,
                               tt_segment *segment, char *why_out)
{
    struct stat facts;
    if (fstat(descriptor, &facts) != 0) {
        return fail(TT_ERR_SYSTEM, why_out, "fstat", errno);
    }
    const int seals = fcntl(descriptor, F_GET_SEALS);
    if (!S_ISREG(facts.st_mode) || seals < 0 ||
        (seals & (F_SEAL_SHRINK | F_SEAL_GROW)) != (F_SEAL_SHRINK | F_SEAL_GROW)) {
        return fail(TT_ERR_BAD_WIRE, why_out, "a peer's descriptor is not a sealed memfd", 0);
    }
    segment_header header;
    if (pread(descriptor, &header, sizeof header, 0) != (ssize_t)sizeof header ||
        header.magic != SEGMENT_MAGIC || header.version != SEGMENT_VERSION) {
        return fail(TT_ERR_BAD_WIRE, why_out, "a peer's segment has an invalid header", 0);
    }
    segment->facts = (tt_segment_config){
        .local_index = header.local_index,
        .local_count = header.local_count,
        .ring_bytes = header.ring_bytes,
        .arena_bytes = header.arena_bytes,
    };
    if (!facts_are_valid(&segment->facts) || header.local_index != expected->local_index ||
        header.local_count != expected->local_count) {
        return fail(TT_ERR_BAD_WIRE, why_out, "a peer's segment does not fit this host", 0);
    }
    segment->arena_offset = arena_offset_for(&segment->facts);
    segment->bytes = segment->arena_offset + segment->facts.arena_bytes;
    if (facts.st_size < 0 || (uint64_t)facts.st_size != segment->bytes) {
        return fail(TT_ERR_BAD_WIRE, why_out, "a peer's segment has a wrong size", 0);
    }
    return TT_OK;
}

tt_status tt_segment_attach(int descriptor, const tt_segment_config *expected,
                            tt_segment **segment_out, char why_out[TT_SEGMENT_WHY_BYTES])
{
    tt_segment *segment = calloc(1, sizeof *segment);
    if (segment == NULL) {
        return fail(TT_ERR_NO_MEMORY, why_out, "heap memory", 0);
    }
    atomic_init(&segment->references, 1);
    segment->descriptor = -1;
    tt_status status = check_foreign(descriptor, expected, segment, why_out);
    if (status == TT_OK) {
        segment->memory = map_aligned(descriptor, segment->bytes);
        if (segment->memory == NULL) {
            status = fail(TT_ERR_NO_RESOURCE, why_out, "address space (ulimit -v)", errno);
        }
    }
    if (status == TT_OK) {
        /* A core file need not hold the tensors of every rank of the host. */
        (void)madvise(segment->memory, segment->bytes, MADV_DONTDUMP);
    }
    if (status != TT_OK) {
        tt_segment_release(segment);
        return status;
    }
    *segment_out = segment;
    return TT_OK;
}

tt_segment *tt_segment_retain(tt_segment *segment)
{
    const uint32_t before = atomic_fetch_add(&segment->references, 1);
    TT_ASSERT(before > 0);
    return segment;
}

/* Everything but the mapping; false: there are other references. */
static bool dismantle(tt_segment *segment, mapping *mapping_out)
{
    *mapping_out = (mapping){0};
    if (segment == NULL || atomic_fetch_sub(&segment->references, 1) != 1) {
        return false;
    }
    *mapping_out = (mapping){.memory = segment->memory, .bytes = segment->bytes};
    tt_arena_destroy(segment->arena);
    if (segment->descriptor >= 0) {
        close(segment->descriptor);
    }
    free(segment);
    return mapping_out->memory != NULL;
}

void tt_segment_release(tt_segment *segment)
{
    mapping left;
    if (dismantle(segment, &left)) {
        munmap(left.memory, left.bytes);
    }
}

static void unmap_all(mapping_list *list)
{
    for (uint32_t i = 0; i < list->count; i++) {
        munmap(list->mappings[i].memory, list->mappings[i].bytes);
    }
    free(list);
}

/* Piece by piece: a large munmap blocks every mmap of the process, such as those of joining. */
static void empty_slowly(const mapping *target)
{
    const uint64_t step =
        tt_round_up(tt_max_u64(UNMAP_STEP_BYTES, target->bytes / UNMAP_STEPS_MAX), HUGE_PAGE_BYTES);
    for (uint64_t done = 0; done < target->bytes; done += step) {
        (void)madvise((uint8_t *)target->memory + done, tt_min_u64(step, target->bytes - done),
                      MADV_DONTNEED);
    }
}

static void *unmapper_main(void *argument)
{
    mapping_list *list = argument;
    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), UNMAPPER_NICE);
    for (uint32_t i = 0; i < list->count; i++) {
        empty_slowly(&list->mappings[i]);
    }
    unmap_all(list);
    return NULL;
}

/* False: no thread could be started; the list is still the caller's. */
static bool unmap_aside(mapping_list *list)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    for (uint32_t i = 0; i < list->count; i++) {
        (void)madvise(list->mappings[i].memory, list->mappings[i].bytes, MADV_DONTFORK);
    }
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all,
                          &before); /* it must not handle the program's signals */
    (void)pthread_attr_init(&attributes);
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    const bool is_started = pthread_create(&thread, &attributes, unmapper_main, list) == 0;
    (void)pthread_attr_destroy(&attributes);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return is_started;
}

/* The ranks of a host use about the same, so only this rank's own arena is measured. */
static bool holds_much(tt_segment *const *segments, uint32_t count)
{
    uint64_t used = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (segments[i] != NULL && segments[i]->arena != NULL) {
            used += tt_arena_bytes_used(segments[i]->arena);
        }
    }
    return used >= UNMAP_ASIDE_BYTES_MIN;
}

void tt_segment_release_all(tt_segment *const *segments, uint32_t count)
{
    const bool is_slow = holds_much(segments, count);
    mapping_list *list = is_slow ? malloc(sizeof(*list) + count * sizeof(list->mappings[0])) : NULL;
    if (list == NULL) {
        for (uint32_t i = 0; i < count; i++) {
            tt_segment_release(segments[i]);
        }
        return;
    }
    list->count = 0;
    for (uint32_t i = 0; i < count; i++) {
        list->count += dismantle(segments[i], &list->mappings[list->count]);
    }
    if (list->count == 0 || !unmap_aside(list)) {
        unmap_all(list);
    }
}

int tt_segment_descriptor(const tt_segment *segment)
{
    return segment->descriptor;
}

const tt_segment_config *tt_segment_facts(const tt_segment *segment)
{
    return &segment->facts;
}

_Atomic uint32_t *tt_segment_wake_word(const tt_segment *segment)
{
    return (_Atomic uint32_t *)(void *)(segment->memory + WAKE_OFFSET);
}

_Atomic uint32_t *tt_segment_core_word(const tt_segment *segment)
{
    return (_Atomic uint32_t *)(void *)(segment->memory + CORE_OFFSET);
}

void *tt_segment_ring(const tt_segment *segment, uint32_t sender)
{
    TT_ASSERT(sender < segment->facts.local_count);
    return segment->memory + CONTROL_BYTES + sender * ring_stride(segment->facts.ring_bytes);
}

tt_arena *tt_segment_arena(const tt_segment *segment)
{
    return segment->arena;
}

void *tt_segment_view(const tt_segment *segment, uint64_t offset, size_t bytes)
{
    const uint64_t arena_bytes = segment->facts.arena_bytes;
    if (offset > arena_bytes || bytes > arena_bytes - offset) {
        return NULL;
    }
    return segment->memory + segment->arena_offset + offset;
}

void tt_segment_child_after_fork(tt_segment *segment)
{
    if (segment->descriptor >= 0) {
        /* A private mapping cannot be made writable to the parent's pages again. */
        (void)mmap(segment->memory, segment->bytes, PROT_READ,
                   MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED, segment->descriptor, 0);
        close(segment->descriptor);
        segment->descriptor = -1;
    } else {
        (void)mprotect(segment->memory, segment->bytes, PROT_READ);
    }
}
