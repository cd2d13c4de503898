/* SPDX-License-Identifier: Apache-2.0
 *
 * fabric_memory.c - ports, and ranks of a host that share the bandwidth of its memory.
 *
 * Every byte that a rank copies, sums or sends to another rank of its host is moved through the
 * memory: a copy reads and writes it, an addition reads two and writes one, a frame is copied in
 * and out. The memory serves the ranks by turns, piece by piece as the caller cuts the work, while
 * each of them is not faster than its processor. What network cards read and write is left out.
 *
 * Whole machines ask for the work of an upcall ahead of other ranks' times (platform/sim.h). What
 * is asked for later and begins before that is served in the gaps that were left: of each memory
 * the latest are known. Asked in the order of times, no gap is ever used.
 */
#include "sim/fabric_internal.h"
#include "sim/registry.h"

enum { COPY_MOVES = 2, REDUCE_MOVES = 3, FRAME_MOVES = 4, GAPS = 64 };

typedef struct gap {
    uint64_t begin_ns, end_ns;
} gap;

/* The memory of a host. */
typedef struct bus {
    uint64_t busy_ns; /* until then, but for the gaps */
    uint32_t oldest;  /* gap; the one before it is the latest */
    gap gaps[GAPS];
} bus;

typedef struct memory {
    tt_fabric base;
    tt_cards cards;
    bus *buses; /* [host_count] */
} memory;

static memory *memory_of(tt_fabric *fabric)
{
    TT_DEBUG_ASSERT(fabric->ops == &tt_fabric_memory);
    return TT_CONTAINER_OF(fabric, memory, base);
}

static uint64_t memory_bytes(const tt_fabric_config *config)
{
    return sizeof(memory) + tt_cards_bytes(config) + tt_fabric_host_count(config) * sizeof(bus);
}

static tt_status memory_create(const tt_fabric_config *config, const tt_allocator *allocator,
                               tt_fabric **fabric_out)
{
    memory *self = tt_allocate(allocator, 1, sizeof(*self));
    if (self == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    self->base = (tt_fabric){.ops = &tt_fabric_memory,
                             .allocator = allocator,
                             .config = *config,
                             .is_private = config->ranks_per_host == 1};
    const tt_status status = tt_cards_init(&self->cards, config, allocator);
    if (status != TT_OK) {
        goto free_self;
    }
    self->buses = tt_allocate(allocator, tt_fabric_host_count(config), sizeof(bus));
    if (self->buses == NULL) {
        goto free_cards;
    }
    *fabric_out = &self->base;
    return TT_OK;
free_cards:
    tt_cards_fini(&self->cards, allocator);
free_self:
    tt_release(allocator, self, 1, sizeof(*self));
    return TT_ERR_NO_MEMORY;
}

static void memory_destroy(tt_fabric *fabric)
{
    memory *self = memory_of(fabric);
    const tt_allocator *allocator = fabric->allocator;
    tt_release(allocator, self->buses, tt_fabric_host_count(&fabric->config), sizeof(bus));
    tt_cards_fini(&self->cards, allocator);
    tt_release(allocator, self, 1, sizeof(*self));
}

static void memory_reset(tt_fabric *fabric)
{
    memory *self = memory_of(fabric);
    tt_cards_reset(&self->cards);
    for (uint32_t host = 0; host < tt_fabric_host_count(&fabric->config); host++) {
        self->buses[host] = (bus){.busy_ns = 0};
    }
}

/* When the memory has done what takes it `service_ns` and begins at `at_ns` at the earliest. */
static uint64_t serve(bus *it, uint64_t service_ns, uint64_t at_ns)
{
    const uint64_t gaps_end_ns = it->gaps[(it->oldest + GAPS - 1) % GAPS].end_ns;
    for (uint32_t i = 0; i < GAPS && at_ns < gaps_end_ns && service_ns > 0; i++) {
        gap *one = &it->gaps[(it->oldest + i) % GAPS];
        const uint64_t begin_ns = tt_max_u64(at_ns, one->begin_ns);
        if (begin_ns + service_ns <= one->end_ns) {
            one->begin_ns = begin_ns + service_ns;
            return one->begin_ns;
        }
        if (begin_ns < one->end_ns) { /* a part of it */
            service_ns -= one->end_ns - begin_ns;
            one->end_ns = begin_ns;
        }
    }
    if (at_ns > it->busy_ns) {
        it->gaps[it->oldest] = (gap){.begin_ns = it->busy_ns, .end_ns = at_ns};
        it->oldest = (it->oldest + 1) % GAPS;
    }
    it->busy_ns = tt_max_u64(at_ns, it->busy_ns) + service_ns;
    return it->busy_ns;
}

/* When bytes that a rank begins to move at `at_ns` have been moved. */
static uint64_t move_bytes(memory *self, uint32_t rank, uint64_t bytes, uint64_t at_ns)
{
    const tt_fabric_config *config = &self->base.config;
    const uint64_t service_ns = tt_fabric_bytes_ns(bytes, config->memory_byte_fs);
    TT_DEBUG_ASSERT(rank < config->rank_count);
    return serve(&self->buses[tt_fabric_host(config, rank)], service_ns, at_ns);
}

static tt_departure memory_send(tt_fabric *fabric, const tt_fabric_frame *frame, uint64_t at_ns)
{
    return tt_card_send(&memory_of(fabric)->cards, &fabric->config, frame, at_ns);
}

static bool memory_pass(tt_fabric *fabric, const tt_fabric_frame *frame, uint32_t hop,
                        uint64_t *at_ns_io)
{
    TT_DEBUG_ASSERT(hop == 1);
    (void)hop;
    memory *self = memory_of(fabric);
    const tt_fabric_config *config = &fabric->config;
    const uint64_t card_ns = tt_card_receive(&self->cards, config, frame, *at_ns_io);
    const bool is_local =
        tt_fabric_level_of(config, frame->source, frame->target) == TT_FABRIC_HOST;
    const uint64_t moved_ns =
        is_local ? move_bytes(self, frame->target, (uint64_t)FRAME_MOVES * frame->bytes, *at_ns_io)
                 : 0;
    *at_ns_io = tt_max_u64(card_ns, moved_ns);
    return true;
}

static uint64_t memory_work(tt_fabric *fabric, uint32_t rank, tt_fabric_work work, uint64_t bytes,
                            uint64_t at_ns)
{
    const uint64_t moves = work == TT_FABRIC_COPY ? COPY_MOVES : REDUCE_MOVES;
    const uint64_t moved_ns = move_bytes(memory_of(fabric), rank, moves * bytes, at_ns);
    return tt_max_u64(at_ns + tt_work_ns(&fabric->config, work, bytes), moved_ns);
}

const tt_fabric_ops tt_fabric_memory = {
    .name = "memory",
    .bytes = memory_bytes,
    .create = memory_create,
    .destroy = memory_destroy,
    .reset = memory_reset,
    .send = memory_send,
    .pass = memory_pass,
    .work = memory_work,
};
