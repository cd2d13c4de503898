/* SPDX-License-Identifier: Apache-2.0
 *
 * walked_wire.c - see walked_wire.h. */
#include "sim/train/walked_wire.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "kernel/hash64.h"
#include "sim/fabric_topology.h"

enum {
    LENGTHS_MAX = 4096, /* remembered; a power of two */
    LINE_LOW = 64 << 10,
    LINE_HIGH = 16 << 20,
    SEGMENT_BYTES = 256 << 10,
    EAGER_BYTES = 4 << 10,
};

static const uint64_t memory_bytes_max = UINT64_C(2) << 30;

typedef struct walked_length {
    uint64_t bytes;
    bool is_known;
    tt_moves_result result;
} walked_length;

struct tt_walked_wire {
    tt_walked_config config;
    const tt_allocator *allocator;
    tt_fabric *fabric;
    tt_fabric_places places;
    uint64_t *done_ns;      /* [ranks] */
    walked_length *lengths; /* [LENGTHS_MAX] open addressing */
    uint32_t length_count;
    walked_length spare; /* of a length that is not remembered */
    tt_status status;
    tt_text why;
    double line_start_us, line_byte_us;
    bool overlaps;
};

void tt_walked_config_init(tt_walked_config *config)
{
    *config = (tt_walked_config){.segment_bytes = SEGMENT_BYTES,
                                 .eager_bytes_max = EAGER_BYTES,
                                 .memory_bytes_max = memory_bytes_max,
                                 .allocator = &tt_allocator_default};
}

static tt_status walk(tt_walked_wire *wire, walked_length *length)
{
    const tt_walked_config *config = &wire->config;
    const uint64_t elements = (length->bytes + sizeof(float) - 1) / sizeof(float);
    const tt_moves_input input = {
        .fabric = wire->fabric,
        .problem = {.collective = TT_ALLREDUCE,
                    .dtype = TT_F32,
                    .redop = TT_SUM,
                    .size = config->fabric.rank_count,
                    .element_bytes = sizeof(float),
                    .segment_bytes = config->segment_bytes,
                    .bytes = elements * sizeof(float),
                    .postscale = 1.0,
                    .is_in_place = true,
                    .topology = &wire->places.topology},
        .forced = config->algorithm,
        .eager_bytes_max = config->eager_bytes_max,
        .memory_bytes_max = config->memory_bytes_max,
        .allocator = wire->allocator,
    };
    wire->fabric->ops->reset(wire->fabric);
    return tt_moves_run(&input, &wire->why, wire->done_ns, &length->result);
}

/* The place of a length in the table: its own, or a free one. */
static walked_length *place_of(tt_walked_wire *wire, uint64_t bytes)
{
    uint64_t at = tt_hash64_mix(bytes, 0) % LENGTHS_MAX;
    while (wire->lengths[at].is_known && wire->lengths[at].bytes != bytes) {
        at = (at + 1) % LENGTHS_MAX;
    }
    return &wire->lengths[at];
}

/* NULL: it cannot be walked. */
static const walked_length *find(tt_walked_wire *wire, uint64_t bytes)
{
    walked_length *length = place_of(wire, bytes);
    if (length->is_known) {
        return length;
    }
    const bool is_kept = wire->length_count + 1 < LENGTHS_MAX; /* a search ends at a free place */
    length = is_kept ? length : &wire->spare;
    length->bytes = bytes;
    if (wire->status == TT_OK) {
        wire->status = walk(wire, length);
    }
    if (wire->status != TT_OK) {
        return NULL;
    }
    length->is_known = is_kept;
    wire->length_count += is_kept ? 1 : 0;
    return length;
}

const tt_moves_result *tt_walked_wire_result(tt_walked_wire *wire, uint64_t bytes)
{
    const walked_length *length = find(wire, bytes);
    return length != NULL ? &length->result : NULL;
}

/* How long the busiest part of the network or of the ranks works for an all-reduce, if all of a
 * kind do the same: what other all-reduces that are under way at the same time cannot use. */
static double busy_us(const tt_walked_wire *wire, const walked_length *length)
{
    const tt_fabric_config *fabric = &wire->config.fabric;
    const tt_fabric_traffic *levels = length->result.levels;
    const double ranks = fabric->rank_count, hosts = wire->places.topology.host_count;
    const double users[TT_FABRIC_LEVELS] = {
        [TT_FABRIC_HOST] = ranks,
        [TT_FABRIC_LEAF] = hosts * fabric->cards_per_host,
        [TT_FABRIC_TREE] = fabric->hosts_per_leaf > 0
                               ? hosts / fabric->hosts_per_leaf * fabric->uplinks_per_leaf
                               : 1,
    };
    double most_ns = 0, processor_ns = (ranks - 1) / ranks * (double)length->bytes *
                                       (double)fabric->reduce_byte_fs / 1e6;
    for (int level = 0; level < TT_FABRIC_LEVELS; level++) {
        const double frames = (double)levels[level].frames_sent;
        const double bytes = (double)levels[level].bytes_sent + frames * fabric->head_bytes;
        const tt_fabric_link *link = &fabric->links[level];
        most_ns =
            fmax(most_ns, (frames * (double)link->gap_ns + bytes * (double)link->byte_fs / 1e6) /
                              fmax(users[level], 1));
        processor_ns += 2 *
                        (frames * (double)fabric->overhead_ns +
                         bytes * (double)fabric->overhead_byte_fs / 1e6) /
                        ranks;
    }
    return fmax(most_ns, processor_ns) / 1000;
}

static tt_wire_cost cost_of(void *user, uint64_t bytes)
{
    tt_walked_wire *wire = user;
    const walked_length *length = find(wire, bytes);
    if (length == NULL) {
        return (tt_wire_cost){.hold_us = 0};
    }
    const double whole_us = (double)length->result.end_ns / 1000;
    const double hold_us = wire->overlaps ? fmin(busy_us(wire, length), whole_us) : whole_us;
    return (tt_wire_cost){hold_us, whole_us - hold_us};
}

static tt_status make_line(tt_walked_wire *wire)
{
    const tt_moves_result *low = tt_walked_wire_result(wire, LINE_LOW);
    const double low_us = low != NULL ? (double)low->end_ns / 1000 : 0;
    const tt_moves_result *high = tt_walked_wire_result(wire, LINE_HIGH);
    const double high_us = high != NULL ? (double)high->end_ns / 1000 : 0;
    const double byte_us = (high_us - low_us) / (LINE_HIGH - LINE_LOW);
    wire->line_byte_us = byte_us > 0 ? byte_us : 0;
    const double start_us = low_us - wire->line_byte_us * LINE_LOW;
    wire->line_start_us = start_us > 0 ? start_us : 0;
    return wire->status;
}

static tt_status reserve(tt_walked_wire *wire, tt_text *why)
{
    const tt_walked_config *config = &wire->config;
    TT_TRY(tt_fabric_create(config->model, &config->fabric, wire->allocator, why, &wire->fabric));
    TT_TRY(tt_fabric_places_make(&config->fabric, wire->allocator, &wire->places));
    wire->done_ns = tt_allocate(wire->allocator, config->fabric.rank_count, sizeof(uint64_t));
    wire->lengths = tt_allocate(wire->allocator, LENGTHS_MAX, sizeof(*wire->lengths));
    return wire->done_ns != NULL && wire->lengths != NULL ? TT_OK : TT_ERR_NO_MEMORY;
}

tt_status tt_walked_wire_create(const tt_walked_config *config, tt_text *why,
                                tt_walked_wire **wire_out)
{
    tt_walked_wire *wire = tt_allocate(config->allocator, 1, sizeof(*wire));
    if (wire == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    wire->config = *config;
    wire->allocator = config->allocator;
    tt_status status = reserve(wire, why);
    if (status == TT_OK) {
        status = make_line(wire);
        tt_text_add(why, "%s", wire->why.bytes);
    }
    if (status != TT_OK) {
        tt_walked_wire_destroy(wire);
        return status;
    }
    *wire_out = wire;
    return TT_OK;
}

tt_wire tt_walked_wire_costs(tt_walked_wire *wire, bool overlaps)
{
    wire->overlaps = overlaps;
    return (tt_wire){.overhead_us = wire->line_start_us,
                     .byte_us = wire->line_byte_us,
                     .cost = cost_of,
                     .user = wire};
}

void tt_walked_wire_destroy(tt_walked_wire *wire)
{
    if (wire->fabric != NULL) {
        wire->fabric->ops->destroy(wire->fabric);
    }
    if (wire->places.numbers != NULL) {
        tt_fabric_places_release(&wire->places);
    }
    tt_release(wire->allocator, wire->done_ns, wire->config.fabric.rank_count, sizeof(uint64_t));
    tt_release(wire->allocator, wire->lengths, LENGTHS_MAX, sizeof(*wire->lengths));
    tt_release(wire->allocator, wire, 1, sizeof(*wire));
}

tt_status tt_walked_wire_status(const tt_walked_wire *wire, tt_text *why)
{
    if (wire->status != TT_OK) {
        tt_text_add(why, "%s", wire->why.bytes);
    }
    return wire->status;
}
