/* SPDX-License-Identifier: Apache-2.0
 *
 * closed_time.c - see closed_time.h.
 *
 * Formulas are those of Thakur et al. (2005) and Hoefler et al. (2010), in nanoseconds. A frame of
 * n bytes takes 2 o + L + n G from one idle rank to another: a hop. It occupies a card for g + n G,
 * its service. A round of k lanes takes as long as a hop, or as k services where that is longer. */
#include "sim/closed/closed_time.h"

#include <math.h>
#include <string.h>

#include "aggregate/registry.h"
#include "base/assert.h"
#include "base/base.h"
#include "sim/registry.h"

enum {
    LANES_AT_ONCE = 8,      /* as the executor of lanes */
    LOADS_MAX = 64,         /* cards of a host and uplinks of a leaf, each counted */
    COPY_MOVES = 2,         /* bytes that the memory moves for each that is copied, */
    REDUCE_MOVES = 3,       /* added, */
    FRAME_MOVES = 4,        /* or sent to a rank of the host, as in fabric_memory.c */
    SHORT_BYTES = 32 << 10, /* longer work is done in pieces, as by the executor */
    PIECE_BYTES = 256 << 10,
};

typedef struct closed {
    const tt_closed_input *input;
    const tt_fabric_config *fabric;
    tt_plan plan;
    double ranks, hosts, per_host; /* ranks of a full host */
    double grants;                 /* frames in which a rank grants its lanes to a source */
    tt_moves_result *result;
} closed;

/* Lanes that are under way at once, of equal length. */
typedef struct some_lanes {
    double lanes;
    double bytes; /* of the vector, in each of them */
} some_lanes;

/* ---- frames ---- */

static double overhead_ns(const closed *own, double bytes)
{
    return (double)own->fabric->overhead_ns + bytes * (double)own->fabric->overhead_byte_fs / 1e6;
}

static double wire_ns(const closed *own, tt_fabric_level level, double bytes)
{
    return (bytes + own->fabric->head_bytes) * (double)own->fabric->links[level].byte_fs / 1e6;
}

/* Frames between leaves pass cards at the speed of these. */
static tt_fabric_level card_level(tt_fabric_level level)
{
    return level == TT_FABRIC_TREE ? TT_FABRIC_LEAF : level;
}

static double service_ns(const closed *own, tt_fabric_level level, double bytes)
{
    return (double)own->fabric->links[level].gap_ns + wire_ns(own, level, bytes);
}

static double hop_ns(const closed *own, tt_fabric_level level, double bytes)
{
    double wire = wire_ns(own, card_level(level), bytes);
    if (level == TT_FABRIC_TREE) {
        wire = fmax(wire, wire_ns(own, level, bytes)); /* of the slowest link */
    }
    return 2 * overhead_ns(own, bytes) + (double)own->fabric->links[level].latency_ns + wire;
}

/* ---- work ---- */

static double limit_of_memory(const closed *own, double moves, double workers)
{
    const bool has_memory = own->input->model == &tt_fabric_memory;
    return has_memory ? moves * workers * (double)own->fabric->memory_byte_fs / 1e6 : 0;
}

/* Of bytes that `workers` ranks of a host add, or copy, each as many at the same time. */
static double reduce_ns(const closed *own, double bytes, double workers)
{
    return bytes * fmax((double)own->fabric->reduce_byte_fs / 1e6,
                        limit_of_memory(own, REDUCE_MOVES, workers));
}

static double copy_ns(const closed *own, double bytes, double workers)
{
    return bytes *
           fmax((double)own->fabric->copy_byte_fs / 1e6, limit_of_memory(own, COPY_MOVES, workers));
}

/* ---- traffic ---- */

static void add_traffic(const closed *own, tt_fabric_level level, double frames, double bytes)
{
    tt_fabric_traffic *traffic = &own->result->levels[level];
    traffic->frames_sent += (uint64_t)llround(frames);
    traffic->bytes_sent += (uint64_t)llround(bytes);
    traffic->frames_received = traffic->frames_sent;
    traffic->bytes_received = traffic->bytes_sent;
}

/* ---- grants ---- */

static bool is_eager(const closed *own)
{
    return own->plan.frame_bytes <= own->input->eager_bytes_max;
}

/* Until the first frame may be sent: each rank grants its lanes to all its `sources`, one of which
 * is at that level, and waits for the one of its first target. */
static double grants_ns(const closed *own, tt_fabric_level level, double sources)
{
    if (is_eager(own)) {
        return 0;
    }
    const double o = overhead_ns(own, 0), hop = hop_ns(own, level, 0);
    add_traffic(own, level, own->ranks * sources * own->grants, 0);
    return fmax(fmax(sources * o, hop - o) + o, sources * service_ns(own, level, 0));
}

/* ---- neighbours in a ring ---- */

/* Links of a ring over places that lie side by side: how many are of each level. */
typedef struct ring_links {
    double counts[TT_FABRIC_LEVELS];
    tt_fabric_level slowest;
    double hosts_per_leaf;
} ring_links;

static ring_links links_of_ring(const closed *own, double places, double per_host)
{
    ring_links links = {.slowest = TT_FABRIC_HOST};
    const double hosts = own->hosts;
    const bool has_leaves = own->input->model == &tt_fabric_tree && own->fabric->hosts_per_leaf > 0;
    const double leaves = has_leaves ? ceil(hosts / own->fabric->hosts_per_leaf) : 1;
    const double between_hosts = hosts > 1 ? hosts : 0;
    links.counts[TT_FABRIC_TREE] = leaves > 1 ? leaves : 0;
    links.counts[TT_FABRIC_LEAF] = between_hosts - links.counts[TT_FABRIC_TREE];
    links.counts[TT_FABRIC_HOST] = per_host > 1 ? places - between_hosts : 0;
    for (int level = 0; level < TT_FABRIC_LEVELS; level++) {
        links.slowest = links.counts[level] > 0 ? (tt_fabric_level)level : links.slowest;
    }
    return links;
}

/* A ring all-reduce of slices of `slice` bytes in `lanes` lanes at once, `rings` of them from each
 * host: every slice goes over every link once in each half, so that the links' mean latency counts,
 * and of what links have to do the busiest. */
static double ring_ns(const closed *own, const ring_links *links, double places, some_lanes slices,
                      double rings)
{
    const double slice = slices.bytes, o = overhead_ns(own, slice);
    const double sum = reduce_ns(own, slice, rings);
    double hop = 0, busiest = 0;
    for (int i = 0; i < TT_FABRIC_LEVELS; i++) {
        const tt_fabric_level level = (tt_fabric_level)i;
        if (links->counts[level] > 0) {
            const double share = level == TT_FABRIC_TREE ? rings : 1; /* one route to a host */
            hop += links->counts[level] / places * hop_ns(own, level, slice);
            busiest = fmax(busiest, share * service_ns(own, level, slice));
        }
    }
    const double adding = fmax(hop + sum, slices.lanes * fmax(busiest, 2 * o + sum));
    const double passing = fmax(hop, slices.lanes * fmax(busiest, 2 * o));
    return (places - 1) * (adding + passing);
}

static void count_ring(const closed *own, const ring_links *links, double places, some_lanes slices,
                       double rings)
{
    for (int i = 0; i < TT_FABRIC_LEVELS; i++) {
        const double frames = 2 * (places - 1) * links->counts[i] * slices.lanes * rings;
        add_traffic(own, (tt_fabric_level)i, frames, frames * slices.bytes);
    }
}

static double ring_time(const closed *own, some_lanes window)
{
    const ring_links links = links_of_ring(own, own->ranks, own->per_host);
    window.bytes /= own->ranks; /* a slice */
    count_ring(own, &links, own->ranks, window, 1);
    return grants_ns(own, links.slowest, 1) + ring_ns(own, &links, own->ranks, window, 1);
}

/* ---- exchanges of pairs ---- */

/* What pairs at one distance do to each other's cards and uplinks. */
typedef struct exchange_turn {
    double frames[TT_FABRIC_LEVELS];  /* of all ranks */
    double sharers[TT_FABRIC_LEVELS]; /* most that leave by one card or uplink */
} exchange_turn;

static uint32_t log2_of(uint32_t value)
{
    return 31U - (uint32_t)__builtin_clz(value);
}

static uint32_t member_of(uint32_t number, uint32_t rest)
{
    return number < rest ? 2 * number + 1 : number + rest;
}

/* What the ranks of one host and of one leaf have sent so far. */
typedef struct turn_loads {
    uint32_t host, leaf;
    double cards[LOADS_MAX], uplinks[LOADS_MAX];
} turn_loads;

static void load(double *loads, uint32_t index, double *most_io)
{
    loads[index % LOADS_MAX]++;
    *most_io = fmax(*most_io, loads[index % LOADS_MAX]);
}

/* The target's host determines the uplink, as in fabric_tree.c. */
static void add_sender(const closed *own, uint32_t self, uint32_t peer, turn_loads *loads,
                       exchange_turn *turn)
{
    const tt_fabric_config *fabric = own->fabric;
    const uint32_t host = tt_fabric_host(fabric, self);
    const uint32_t leaf = fabric->hosts_per_leaf > 0 ? host / fabric->hosts_per_leaf : 0;
    const tt_fabric_level level = tt_fabric_level_of(fabric, self, peer);
    turn->frames[level]++;
    turn->sharers[TT_FABRIC_HOST] = 1;
    if (host != loads->host) {
        memset(loads->cards, 0, sizeof(loads->cards));
        loads->host = host;
    }
    if (leaf != loads->leaf) {
        memset(loads->uplinks, 0, sizeof(loads->uplinks));
        loads->leaf = leaf;
    }
    if (level != TT_FABRIC_HOST) {
        load(loads->cards, self % fabric->ranks_per_host % fabric->cards_per_host,
             &turn->sharers[TT_FABRIC_LEAF]);
    }
    if (level == TT_FABRIC_TREE) {
        load(loads->uplinks, tt_fabric_host(fabric, peer) % fabric->uplinks_per_leaf,
             &turn->sharers[TT_FABRIC_TREE]);
    }
}

/* Members `distance` apart, of the 2^k that are left when the others have folded. */
static exchange_turn turn_of(const closed *own, uint32_t distance)
{
    const uint32_t size = own->input->problem.size, power = UINT32_C(1) << log2_of(size);
    exchange_turn turn = {.frames = {0}};
    turn_loads loads = {.host = 0};
    for (uint32_t number = 0; number < power; number++) {
        add_sender(own, member_of(number, size - power), member_of(number ^ distance, size - power),
                   &loads, &turn);
    }
    return turn;
}

/* All pairs send `bytes` to each other and do `work_ns`. Ranks that share a card take turns: those
 * that came first in one turn come first in the next, so that only the service of all, where it
 * is longer than a hop, is paid every time; *waits_io has what is paid once. */
static double turn_ns(const closed *own, const exchange_turn *turn, some_lanes sent, double work_ns,
                      double *waits_io)
{
    const double o = overhead_ns(own, sent.bytes);
    double time = sent.lanes * (2 * o + work_ns);
    for (int i = 0; i < TT_FABRIC_LEVELS; i++) {
        const tt_fabric_level level = (tt_fabric_level)i;
        if (turn->frames[level] <= 0) {
            continue;
        }
        const double card =
            turn->sharers[card_level(level)] * service_ns(own, card_level(level), sent.bytes);
        const double link = turn->sharers[level] * service_ns(own, level, sent.bytes);
        const double memory = level == TT_FABRIC_HOST
                                  ? sent.bytes * limit_of_memory(own, FRAME_MOVES, own->per_host)
                                  : 0;
        const double all = fmax(fmax(card, link), memory);
        const double alone = service_ns(own, level, sent.bytes);
        const double hop = hop_ns(own, level, sent.bytes) + work_ns;
        time = fmax(time, fmax(hop, sent.lanes * all));
        *waits_io = fmax(*waits_io, fmin(all, hop) - alone);
        add_traffic(own, level, turn->frames[level] * sent.lanes,
                    turn->frames[level] * sent.lanes * sent.bytes);
    }
    return time;
}

/* The ranks beyond a power of two: each folds into a neighbour before, and is sent the result. */
static double folds_ns(const closed *own, some_lanes window)
{
    const uint32_t size = own->input->problem.size;
    const double folded = size - (UINT32_C(1) << log2_of(size));
    if (folded <= 0) {
        return 0;
    }
    const tt_fabric_level level = tt_fabric_level_of(own->fabric, 0, 1);
    const double hop =
        fmax(hop_ns(own, level, window.bytes), window.lanes * service_ns(own, level, window.bytes));
    add_traffic(own, level, 2 * folded * window.lanes, 2 * folded * window.lanes * window.bytes);
    return 2 * hop + reduce_ns(own, window.bytes, 1) * window.lanes;
}

/* Ranks that have nothing folded into them are a fold ahead: where all pairs of doubling's last
 * turn have one, its frame has come as much earlier. */
static double ahead_ns(const closed *own, some_lanes window, double turn_ns)
{
    const uint32_t size = own->input->problem.size, power = UINT32_C(1) << log2_of(size);
    if (size == power || 2 * (size - power) > power) {
        return 0;
    }
    const double work = reduce_ns(own, window.bytes, 1), o = overhead_ns(own, window.bytes);
    const double fold = hop_ns(own, tt_fabric_level_of(own->fabric, 0, 1), window.bytes) + work;
    return fmax(0, fmin(fold, turn_ns - o - work));
}

/* Recursive doubling: the whole in every turn; halving: a half, a quarter ..., and back. */
static double exchanges_time(const closed *own, some_lanes window, bool is_halving)
{
    const uint32_t size = own->input->problem.size;
    double time = 0, waits = 0, bytes = window.bytes, turns = 0, last = 0;
    for (uint32_t distance = 1; 2 * distance <= size; distance *= 2) {
        const exchange_turn turn = turn_of(own, distance);
        bytes = is_halving ? bytes / 2 : bytes;
        const some_lanes sent = {window.lanes, bytes};
        last = turn_ns(own, &turn, sent, reduce_ns(own, bytes, own->per_host), &waits);
        time += last;
        time += is_halving ? turn_ns(own, &turn, sent, 0, &waits) : 0;
        turns++;
    }
    const tt_fabric_level near = tt_fabric_level_of(own->fabric, 0, 1);
    return grants_ns(own, near, turns) + folds_ns(own, window) + time + waits -
           (is_halving ? 0 : ahead_ns(own, window, last));
}

static double doubling_time(const closed *own, some_lanes window)
{
    return exchanges_time(own, window, false);
}

static double halving_time(const closed *own, some_lanes window)
{
    return exchanges_time(own, window, true);
}

/* ---- trees ---- */

/* A hop between ranks so far apart. */
static tt_fabric_level level_between(const closed *own, uint32_t distance)
{
    const uint32_t size = own->input->problem.size;
    return distance < size ? tt_fabric_level_of(own->fabric, 0, distance) : TT_FABRIC_HOST;
}

/* Sums go up from the nearest, the result down from the farthest: a hop for each of the depth. The
 * root adds for every turn of every lane, and its card sends as often; the first lane goes down
 * when the last ones are added for the last time. */
static double binomial_time(const closed *own, some_lanes window)
{
    const uint32_t size = own->input->problem.size;
    const double sum = reduce_ns(own, window.bytes, 1), o = overhead_ns(own, window.bytes);
    double alone = 0, up = 0, down = 0, hop = 0;
    for (uint32_t distance = 1; distance < size; distance *= 2) {
        const tt_fabric_level level = level_between(own, distance);
        const double service = service_ns(own, level, window.bytes);
        const double frames = ceil((own->ranks - distance) / (2.0 * distance));
        hop = hop_ns(own, level, window.bytes);
        alone += 2 * hop + sum;
        up += window.lanes * fmax(service, o + sum);
        down += window.lanes * fmax(service, o);
        add_traffic(own, level, 2 * frames * window.lanes,
                    2 * frames * window.lanes * window.bytes);
    }
    return grants_ns(own, level_between(own, 1), 2) +
           fmax(alone, up - (window.lanes - 1) * (o + sum) + down + hop);
}

/* ---- all to all ---- */

/* Ordered pairs of ranks that share a group: the first so many, the next so many, ... */
static double pairs_within(const closed *own, double group)
{
    const double full = floor(own->ranks / group), rest = own->ranks - full * group;
    return full * group * (group - 1) + rest * fmax(rest - 1, 0);
}

/* The frames between all pairs, so many of each. */
static void count_pairs(const closed *own, double frames, double bytes)
{
    const double all = own->ranks * (own->ranks - 1), host = pairs_within(own, own->per_host);
    const double leaf_hosts = own->fabric->hosts_per_leaf;
    const double leaf = leaf_hosts > 0 ? pairs_within(own, leaf_hosts * own->per_host) : all;
    const double pairs[TT_FABRIC_LEVELS] = {
        [TT_FABRIC_HOST] = host, [TT_FABRIC_LEAF] = leaf - host, [TT_FABRIC_TREE] = all - leaf};
    for (int level = 0; level < TT_FABRIC_LEVELS; level++) {
        add_traffic(own, (tt_fabric_level)level, pairs[level] * frames,
                    pairs[level] * frames * bytes);
    }
}

/* What the ranks of other leaves send to those of one, over its busiest link. Ranks of a host send
 * to one host after the other at the same time, so that the last link waits for frames while those
 * between other pairs of hosts pass, and has as much left when the others are done. */
static double uplinks_ns(const closed *own, some_lanes window)
{
    const tt_fabric_config *fabric = own->fabric;
    const double hosts_out = own->hosts - fabric->hosts_per_leaf, links = fabric->uplinks_per_leaf;
    if (own->input->model != &tt_fabric_tree || fabric->hosts_per_leaf == 0 || hosts_out <= 0) {
        return 0;
    }
    const double service = window.lanes * service_ns(own, TT_FABRIC_TREE, window.bytes);
    const double pair = own->per_host * own->per_host * service; /* of hosts */
    const double waits = (hosts_out < links ? 1 : 2) * (fmin(links, hosts_out) - 1);
    return (ceil(hosts_out / links) * fabric->hosts_per_leaf + waits) * pair;
}

/* Every rank sends to every other one: its processor sends all, and receives while it waits for the
 * last. */
static double everyone_ns(const closed *own, some_lanes window)
{
    const double others = own->ranks - 1, local = own->per_host - 1, far = others - local;
    const double uplinks = uplinks_ns(own, window);
    const tt_fabric_level level = uplinks > 0      ? TT_FABRIC_TREE
                                  : own->hosts > 1 ? TT_FABRIC_LEAF
                                                   : TT_FABRIC_HOST;
    const double per_card = own->hosts > 1 ? own->per_host / own->fabric->cards_per_host : 1;
    const double o = overhead_ns(own, window.bytes), k = window.lanes;
    const double hop = hop_ns(own, level, window.bytes);
    /* A card gets the frames of a whole host at the same time, and so the last ones late. */
    const double card_frames = far > 0 ? k * far * per_card + own->per_host - per_card : 0;
    const double ports = fmax(k * local * service_ns(own, TT_FABRIC_HOST, window.bytes),
                              card_frames * service_ns(own, TT_FABRIC_LEAF, window.bytes));
    const double memory =
        k * local * window.bytes * limit_of_memory(own, FRAME_MOVES, own->per_host);
    const double links = fmax(fmax(ports, uplinks), memory);
    count_pairs(own, k, window.bytes);
    const double processor = fmax(2 * k * others * o, (k * others - 1) * o + hop);
    return fmax(processor, links - service_ns(own, level, window.bytes) + hop);
}

static double all_grants_ns(const closed *own)
{
    return is_eager(own) ? 0 : everyone_ns(own, (some_lanes){1, 0});
}

/* Each grants, and so is sent to, in an order of its own: all cards are busy from first to last. */
static double direct_time(const closed *own, some_lanes window)
{
    window.bytes /= own->ranks; /* a slice */
    return all_grants_ns(own) + everyone_ns(own, window) +
           window.lanes * reduce_ns(own, (own->ranks - 1) * window.bytes, own->per_host) +
           everyone_ns(own, window);
}

/* Before ranks use each other's memory, every one tells all others where its buffers are. */
static double places_ns(const closed *own)
{
    const some_lanes place = {1, sizeof(tt_fact)};
    if (!own->result->algorithm->needs_facts) {
        return 0;
    }
    const bool has_grants = sizeof(tt_fact) > own->input->eager_bytes_max;
    const double grants = has_grants ? everyone_ns(own, (some_lanes){1, 0}) : 0;
    return grants + copy_ns(own, place.bytes, 1) + everyone_ns(own, place);
}

static double flat_time(const closed *own, some_lanes window)
{
    return all_grants_ns(own) + everyone_ns(own, window) +
           window.lanes * reduce_ns(own, (own->ranks - 1) * window.bytes, own->per_host);
}

/* All to rank 0, which adds, and back: its processor and its cards are busy with all of them. */
static double star_time(const closed *own, some_lanes window)
{
    const double others = own->ranks - 1, local = own->per_host - 1, far = others - local;
    const tt_fabric_level level = far > 0 ? TT_FABRIC_LEAF : TT_FABRIC_HOST;
    const double o = overhead_ns(own, window.bytes), frames = 2 * window.lanes;
    double busy = (others - 1) * o;
    busy = fmax(busy, (local - 1) * service_ns(own, TT_FABRIC_HOST, window.bytes));
    busy = fmax(busy, (far - 1) * service_ns(own, TT_FABRIC_LEAF, window.bytes));
    const double way = hop_ns(own, level, window.bytes) + window.lanes * busy;
    const double sum = window.lanes * reduce_ns(own, others * window.bytes, 1);
    add_traffic(own, TT_FABRIC_HOST, frames * local, frames * local * window.bytes);
    add_traffic(own, TT_FABRIC_LEAF, frames * far, frames * far * window.bytes);
    return (is_eager(own) ? 0 : hop_ns(own, level, 0) + 2 * others * o) + 2 * way + sum;
}

/* ---- shared memory ---- */

/* Every member of a host sends an empty frame to every other one. */
static double barrier_ns(const closed *own, double lanes)
{
    const double others = own->per_host - 1, o = overhead_ns(own, 0);
    add_traffic(own, TT_FABRIC_HOST, own->ranks * others * lanes, 0);
    return fmax(2 * others * o, (others - 1) * o + hop_ns(own, TT_FABRIC_HOST, 0)) * lanes;
}

static double shared_time(const closed *own, some_lanes window)
{
    const double slice = window.bytes / own->ranks;
    return reduce_ns(own, (own->ranks - 1) * slice, own->ranks) * window.lanes +
           barrier_ns(own, window.lanes);
}

/* What a lane of a rail costs its rank: pieces of a sum and of a copy, and frames of its ring. */
typedef struct rail_cost {
    uint32_t pieces;
    double sum_ns, copy_ns;                         /* a piece */
    double overhead_ns, way_ns, service_ns, add_ns; /* a slice; way: from card to memory */
} rail_cost;

typedef struct rail_lane {
    const rail_cost *cost;
    double arrival_ns; /* INFINITY: nothing is under way */
    uint32_t turn, pieces;
} rail_lane;

/* A rank of a rail with several lanes: its sums and copies are done piece by piece, one after each
 * thing that it handles, so that rings of some lanes are under way meanwhile. All such ranks do the
 * same at the same time: what one sends is what it gets. */
typedef struct rail {
    uint32_t lane_count, turns; /* of half a ring */
    uint32_t works;             /* lanes that have pieces left */
    double clock_ns, card_ns;   /* processor and card are busy until then */
    double work_ns;             /* when the next piece is due; INFINITY: none */
    rail_lane lanes[LANES_AT_ONCE];
} rail;

static void rail_send(rail *it, rail_lane *lane)
{
    it->clock_ns += lane->cost->overhead_ns;
    const double begin_ns = fmax(it->clock_ns, it->card_ns);
    it->card_ns = begin_ns + lane->cost->service_ns;
    lane->arrival_ns = begin_ns + lane->cost->way_ns;
}

static void rail_receive(rail *it, rail_lane *lane)
{
    it->clock_ns += lane->cost->overhead_ns + (lane->turn < it->turns ? lane->cost->add_ns : 0);
    lane->arrival_ns = INFINITY;
    lane->turn++;
    if (lane->turn < 2 * it->turns) {
        rail_send(it, lane);
        return;
    }
    lane->pieces = lane->cost->pieces;
    it->works++;
}

/* A piece of the first lane that has some. */
static void rail_work(rail *it)
{
    rail_lane *lane = it->lanes;
    if (it->works == 0) {
        return;
    }
    while (lane->pieces == 0) {
        lane++;
    }
    it->clock_ns += lane->turn == 0 ? lane->cost->sum_ns : lane->cost->copy_ns;
    lane->pieces--;
    if (lane->pieces == 0) {
        it->works--;
        if (lane->turn == 0) {
            rail_send(it, lane);
        }
    }
    if (it->works > 0 && isinf(it->work_ns)) {
        it->work_ns = it->clock_ns;
    }
}

/* Until all lanes are copied. */
static double rail_run(rail *it)
{
    for (;;) {
        rail_lane *next = &it->lanes[0];
        for (uint32_t i = 1; i < it->lane_count; i++) {
            next = it->lanes[i].arrival_ns < next->arrival_ns ? &it->lanes[i] : next;
        }
        const double at_ns = fmin(next->arrival_ns, it->work_ns);
        if (isinf(at_ns)) {
            return it->clock_ns;
        }
        it->clock_ns = fmax(it->clock_ns, at_ns);
        if (it->work_ns <= next->arrival_ns) {
            it->work_ns = INFINITY;
        } else {
            rail_receive(it, next);
        }
        rail_work(it);
    }
}

static rail_cost rail_cost_of(const closed *own, const ring_links *links, double bytes,
                              double rails)
{
    const double slice = bytes / own->hosts, o = overhead_ns(own, slice);
    const double pieces = ceil(bytes / PIECE_BYTES);
    rail_cost cost = {.pieces = (uint32_t)pieces,
                      .sum_ns = reduce_ns(own, (own->per_host - 1) * bytes, rails) / pieces,
                      .copy_ns = copy_ns(own, own->per_host * bytes, rails) / pieces,
                      .overhead_ns = o,
                      .add_ns = reduce_ns(own, slice, rails)};
    for (int i = 0; i < TT_FABRIC_LEVELS; i++) {
        const tt_fabric_level level = (tt_fabric_level)i;
        const double share = level == TT_FABRIC_TREE ? rails : 1; /* one route to a host */
        if (links->counts[level] > 0) {
            cost.way_ns += links->counts[level] / own->hosts * (hop_ns(own, level, slice) - 2 * o);
            cost.service_ns = fmax(cost.service_ns, share * service_ns(own, level, slice));
        }
    }
    return cost;
}

/* Sums, rings and copies of lanes that are under way at once. The last lane of a call has what the
 * others leave. */
static double rails_ns(const closed *own, const ring_links *links, some_lanes lanes, double rails)
{
    const uint32_t count = (uint32_t)lanes.lanes;
    const bool is_all = own->plan.lane_count == count;
    const double each = is_all ? (double)own->plan.lane_bytes / rails : lanes.bytes;
    const double last = lanes.lanes * lanes.bytes - (lanes.lanes - 1) * each;
    if (count < 2 || fmin(each, last) <= 0 || each <= SHORT_BYTES) {
        const some_lanes slices = {lanes.lanes, lanes.bytes / own->hosts};
        const double sum = reduce_ns(own, (own->per_host - 1) * lanes.bytes, rails);
        const double spread = copy_ns(own, own->per_host * lanes.bytes, rails);
        return lanes.lanes * (sum + spread) + ring_ns(own, links, own->hosts, slices, rails);
    }
    const rail_cost most = rail_cost_of(own, links, each, rails);
    const rail_cost rest = rail_cost_of(own, links, last, rails);
    rail it = {.lane_count = count, .turns = (uint32_t)own->hosts - 1, .works = count};
    for (uint32_t i = 0; i < count; i++) {
        const rail_cost *cost = i + 1 < count ? &most : &rest;
        it.lanes[i] = (rail_lane){.cost = cost, .arrival_ns = INFINITY, .pieces = cost->pieces};
    }
    return rail_run(&it);
}

/* Rails: as many members of a host sum its vectors, run rings with their like and store results to
 * all of the host. */
static double hierarchical_time(const closed *own, some_lanes window)
{
    const double rails = own->input->problem.topology->rail_count;
    const some_lanes lanes = {window.lanes, window.bytes / rails};
    const ring_links links = links_of_ring(own, own->hosts, 1);
    count_ring(own, &links, own->hosts, (some_lanes){lanes.lanes, lanes.bytes / own->hosts}, rails);
    const double grants = is_eager(own) ? 0 : barrier_ns(own, 1) + 2 * overhead_ns(own, 0);
    return grants + barrier_ns(own, lanes.lanes) + rails_ns(own, &links, lanes, rails) +
           barrier_ns(own, lanes.lanes);
}

/* ---- the table ---- */

typedef struct closed_formula {
    const tt_algorithm *algorithm;
    double (*time)(const closed *own, some_lanes window);
    bool is_whole; /* buffers are in the arena: one lane */
} closed_formula;

static const closed_formula formulas[] = {
    {.algorithm = &tt_algorithm_ring, .time = ring_time},
    {.algorithm = &tt_algorithm_doubling, .time = doubling_time},
    {.algorithm = &tt_algorithm_halving, .time = halving_time},
    {.algorithm = &tt_algorithm_binomial, .time = binomial_time},
    {.algorithm = &tt_algorithm_direct, .time = direct_time},
    {.algorithm = &tt_algorithm_flat, .time = flat_time},
    {.algorithm = &tt_algorithm_star, .time = star_time},
    {.algorithm = &tt_algorithm_shared, .time = shared_time, .is_whole = true},
    {.algorithm = &tt_algorithm_hierarchical, .time = hierarchical_time},
};

static const closed_formula *formula_of(const tt_algorithm *algorithm)
{
    const closed_formula *found = NULL;
    for (size_t i = 0; i < TT_ARRAY_COUNT(formulas); i++) {
        found = formulas[i].algorithm == algorithm ? &formulas[i] : found;
    }
    TT_ASSERT(found != NULL); /* every all-reduce of the library has one */
    return found;
}

/* Of `count` windows one after the other. */
static double windows_ns(closed *own, const closed_formula *formula, some_lanes window,
                         double count)
{
    tt_moves_result one = {.end_ns = 0}, *all = own->result;
    if (count <= 0 || window.lanes <= 0) {
        return 0;
    }
    own->result = &one;
    const double time = formula->time(own, window);
    own->result = all;
    for (int level = 0; level < TT_FABRIC_LEVELS; level++) {
        const tt_fabric_traffic *traffic = &one.levels[level];
        add_traffic(own, (tt_fabric_level)level, count * (double)traffic->frames_sent,
                    count * (double)traffic->bytes_sent);
    }
    return count * time;
}

/* Lanes run eight at a time; the last ones together. */
static double lanes_ns(closed *own, const closed_formula *formula)
{
    const double lanes = formula->is_whole ? 1 : (double)own->plan.lane_count;
    const double bytes = (double)own->input->problem.bytes / lanes;
    const double whole = floor(lanes / LANES_AT_ONCE), rest = lanes - whole * LANES_AT_ONCE;
    own->grants = 1; /* lanes that open together */
    if (whole < 1) {
        return windows_ns(own, formula, (some_lanes){rest, bytes}, 1);
    }
    double time = windows_ns(own, formula, (some_lanes){LANES_AT_ONCE, bytes}, 1);
    own->grants = LANES_AT_ONCE; /* each in the place of one that is over */
    time += windows_ns(own, formula, (some_lanes){LANES_AT_ONCE, bytes}, whole - 1);
    own->grants = rest;
    return time + windows_ns(own, formula, (some_lanes){rest, bytes}, 1);
}

tt_moves_result tt_closed_allreduce(const tt_closed_input *input)
{
    const tt_problem *problem = &input->problem;
    const tt_fabric_config *fabric = input->fabric;
    TT_ASSERT(problem->collective == TT_ALLREDUCE && problem->size == fabric->rank_count);
    TT_ASSERT(tt_redop_is_elementwise(problem->redop) && problem->codec == NULL);
    tt_moves_result result = {.algorithm = tt_algorithm_choose(problem, input->forced)};
    closed own = {.input = input,
                  .fabric = fabric,
                  .ranks = problem->size,
                  .per_host = fmin(fabric->ranks_per_host, problem->size),
                  .result = &result};
    own.hosts = ceil(own.ranks / own.per_host);
    result.algorithm->plan(problem, &own.plan);
    if (problem->size > 1) {
        const double time = places_ns(&own) + lanes_ns(&own, formula_of(result.algorithm));
        result.end_ns = (uint64_t)llround(time);
    }
    return result;
}
