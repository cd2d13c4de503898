/* SPDX-License-Identifier: Apache-2.0
 *
 * walked_wire.c - see walked_wire.h. */
#include "sim/train/walked_wire.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "kernel/hash64.h"
#include "sim/closed/closed_time.h"
#include "sim/fabric_topology.h"

enum {
    LENGTHS_MAX = 4096, /* remembered; a power of two */
    LINE_LOW = 64 << 10,
    LINE_HIGH = 16 << 20,
    SEGMENT_BYTES = 256 << 10,
    EAGER_BYTES = 4 << 10,
    SPLIT_BYTES_MIN = 4000000, /* a million of f32: MXNET_KVSTORE_BIGARRAY_BOUND */
};

static const uint64_t memory_bytes_max = UINT64_C(2) << 30;

typedef struct walked_length {
    uint64_t bytes;
    bool is_known;
    double hold_us, whole_us; /* hold_us below 0: all of it, or what the busiest part works */
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

static tt_moves_input input_of(const tt_walked_wire *wire, uint64_t bytes)
{
    const tt_walked_config *config = &wire->config;
    const uint64_t elements = (bytes + sizeof(float) - 1) / sizeof(float);
    return (tt_moves_input){
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
}

tt_walked_needs tt_walked_wire_survey(const tt_walked_wire *wire)
{
    tt_walked_needs needs = {.messages = 0};
    for (uint32_t i = 0; i < LENGTHS_MAX; i++) {
        const walked_length *length = &wire->lengths[i];
        if (!length->is_known) {
            continue;
        }
        const tt_moves_input input = input_of(wire, length->bytes);
        needs.memory_bytes = tt_max_u64(needs.memory_bytes, tt_moves_bytes(&input));
        for (int level = 0; level < TT_FABRIC_LEVELS; level++) {
            needs.messages += length->result.levels[level].frames_sent;
        }
    }
    return needs;
}

/* ---- sources ---- */

static tt_status find_walked(tt_walked_wire *wire, walked_length *length)
{
    const tt_moves_input input = input_of(wire, length->bytes);
    wire->fabric->ops->reset(wire->fabric);
    return tt_moves_run(&input, &wire->why, wire->done_ns, &length->result);
}

static tt_moves_result find_closed(const tt_walked_wire *wire, uint64_t bytes,
                                   const char *algorithm)
{
    const tt_moves_input input = input_of(wire, bytes);
    const tt_closed_input closed = {.model = wire->config.model,
                                    .fabric = &wire->config.fabric,
                                    .problem = input.problem,
                                    .forced = algorithm,
                                    .eager_bytes_max = input.eager_bytes_max};
    return tt_closed_allreduce(&closed);
}

static tt_moves_result find_mpi(const tt_walked_wire *wire, uint64_t bytes)
{
    const tt_moves_result doubling = find_closed(wire, bytes, "doubling");
    const tt_moves_result halving = find_closed(wire, bytes, "halving");
    tt_moves_result best = find_closed(wire, bytes, "ring");
    best = halving.end_ns < best.end_ns ? halving : best;
    best = doubling.end_ns < best.end_ns ? doubling : best;
    if (wire->config.staging_gbs > 0) {
        best.end_ns += (uint64_t)llround(2 * (double)bytes / wire->config.staging_gbs);
    }
    return best;
}

static void count_frames(tt_moves_result *result, tt_fabric_level level, double frames,
                         double bytes)
{
    const uint64_t whole_frames = (uint64_t)llround(frames), whole = (uint64_t)llround(bytes);
    result->levels[level] = (tt_fabric_traffic){whole_frames, whole_frames, whole, whole};
}

/* A ring passes 2 (N - 1) / N of the vector over each of its N links, a tree the whole twice. */
static void find_nccl(const tt_walked_wire *wire, walked_length *length)
{
    const tt_nccl_job *job = &wire->config.nccl;
    const tt_nccl_choice choice = tt_nccl_allreduce(job, length->bytes);
    const double ranks = job->rank_count, hosts = job->host_count;
    const bool is_ring = choice.algorithm == TT_NCCL_RING;
    const double far = is_ring && hosts > 1 ? hosts : hosts - 1;
    const double near = ranks > 1 ? (is_ring ? ranks - far : ranks - hosts) : 0;
    const double frames = is_ring ? 2 * (ranks - 1) : 2;
    const double bytes = (double)length->bytes * (is_ring ? frames / ranks : frames);
    length->whole_us = choice.time_us;
    count_frames(&length->result, TT_FABRIC_HOST, near * frames, near * bytes);
    count_frames(&length->result, TT_FABRIC_LEAF, far * frames, far * bytes);
}

/* Each host sends its vector to owners and receives the sum; colocated owners keep a part. */
static void find_servers(const tt_walked_wire *wire, walked_length *length)
{
    const tt_server_job *job = &wire->config.servers;
    const double n = job->hosts, k = job->servers;
    const bool is_push = wire->config.source == TT_WIRE_PUSHES;
    const tt_server_time time = is_push ? tt_server_push(job, length->bytes, SPLIT_BYTES_MIN)
                                        : tt_server_exchange(job, length->bytes);
    length->hold_us = time.hold_us;
    length->whole_us = time.whole_us;
    const double owned = n > 1 ? (n - k) / (n * n + k * n - 2 * k) : 1;
    const double sent = is_push ? n : 2 * n * (1 - owned);
    count_frames(&length->result, TT_FABRIC_LEAF, n > 1 || is_push ? sent : 0,
                 sent * (double)length->bytes);
}

static tt_status find_time(tt_walked_wire *wire, walked_length *length)
{
    tt_status status = TT_OK;
    length->result = (tt_moves_result){.end_ns = 0};
    length->hold_us = -1;
    switch (wire->config.source) {
    case TT_WIRE_MOVES:
        status = find_walked(wire, length);
        break;
    case TT_WIRE_CLOSED:
        length->result = find_closed(wire, length->bytes, wire->config.algorithm);
        break;
    case TT_WIRE_MPI:
        length->result = find_mpi(wire, length->bytes);
        break;
    case TT_WIRE_NCCL:
        find_nccl(wire, length);
        return TT_OK;
    case TT_WIRE_SERVERS:
    case TT_WIRE_PUSHES:
        find_servers(wire, length);
        return TT_OK;
    }
    length->whole_us = (double)length->result.end_ns / 1000;
    return status;
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
        wire->status = find_time(wire, length);
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
    const double whole_us = length->whole_us;
    if (length->hold_us >= 0) {
        return (tt_wire_cost){length->hold_us, whole_us - length->hold_us};
    }
    const double hold_us = wire->overlaps ? fmin(busy_us(wire, length), whole_us) : whole_us;
    return (tt_wire_cost){hold_us, whole_us - hold_us};
}

static tt_status make_line(tt_walked_wire *wire)
{
    const walked_length *low = find(wire, LINE_LOW);
    const double low_us = low != NULL ? low->whole_us : 0;
    const walked_length *high = find(wire, LINE_HIGH);
    const double high_us = high != NULL ? high->whole_us : 0;
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
