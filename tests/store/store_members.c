/* SPDX-License-Identifier: Apache-2.0
 *
 * store_members.c - sums of quorums whose servers are killed; see store_run.h.
 *
 * Without a codec each worker has 12 bits of a number: how often its push is in the sum, and of
 * which iteration it is. With one, element i is worker i mod workers' own, and bit k of it says
 * that it pushed it in iteration k: bits below the highest are of pushes that did not count, and
 * were kept for a later one. fp16 codes them without an error. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "kernel/hash64.h"
#include "store/store_run.h"

enum { FIELD_BITS = 12, COUNT_BITS = 4, PARTS_MAX = 256 };

/* How a worker's push of an iteration has ended. */
typedef struct push_record {
    int64_t mask; /* coded: iterations in it */
    bool has_ended, is_lost, is_uncounted;
} push_record;

struct members {
    const scene *drawn;
    const damage *done;
    char why[200];
    tt_split_part parts[TENSORS_MAX][PARTS_MAX];
    uint32_t part_count[TENSORS_MAX];
    push_record pushes[WORKERS_MAX][TENSORS_MAX][ITERATIONS_MAX];
    int64_t kept[WORKERS_MAX][TENSORS_MAX];
    uint32_t lost[WORKERS_MAX][TENSORS_MAX]; /* calls */
    uint32_t seen[TENSORS_MAX];              /* iterations up to the last one that anyone has */
    bool has_lost_more;                      /* a pull lost what nobody had then */
    /* Workers whose pushes are in some sum of an iteration, or not in some. */
    uint32_t in[ITERATIONS_MAX], out[ITERATIONS_MAX];
    /* What a worker has read of a part of an iteration; 0: nothing. Iterations up to the last. */
    int64_t read[WORKERS_MAX][TENSORS_MAX][PARTS_MAX][ITERATIONS_MAX];
    uint32_t last[WORKERS_MAX][TENSORS_MAX][PARTS_MAX];
};

/* ---- scenes ---- */

static uint64_t below(tt_random *random, uint64_t limit)
{
    return tt_random_below(random, limit);
}

static void draw_tensors(scene *drawn, tt_random *random)
{
    static const uint64_t coded[] = {16384, 16385, 20000, 70001, 150000};
    static const uint32_t lengths[] = {1, 7, 64, 1000};
    tt_text why = {0};
    const bool is_coded = below(random, 3) == 0;
    drawn->codec_text = is_coded ? "fp16:ef=on" : NULL;
    drawn->codec = (tt_codec_spec){.codec = NULL};
    if (is_coded) {
        const tt_status status = tt_codec_parse(drawn->codec_text, &drawn->codec, &why);
        TT_ASSERT(status == TT_OK);
    }
    drawn->dtype = is_coded ? TT_F32 : TT_I64;
    for (uint32_t i = 0; i < drawn->tensors; i++) {
        const uint32_t length = lengths[below(random, TT_ARRAY_COUNT(lengths))];
        drawn->counts[i] =
            is_coded ? coded[below(random, TT_ARRAY_COUNT(coded))] : drawn->counts[i];
        drawn->row_elements[i] = below(random, 4) == 0 ? length : 0;
        drawn->counts[i] -= drawn->row_elements[i] > 0 ? drawn->counts[i] % length : 0;
    }
}

/* Servers die, the keeper among them as often as not; and one other thing may happen. */
static void draw_deaths(scene *drawn, tt_random *random)
{
    const uint32_t used = (uint32_t)tt_min_u64(drawn->servers, drawn->workers);
    const uint32_t kills = 1 + (uint32_t)below(random, 3);
    const uint64_t end_ns = below(random, 3) == 0 ? 2000000 : UINT64_C(1200000) * drawn->iterations;
    for (uint32_t i = 0; i < kills; i++) {
        const uint32_t server = below(random, 2) == 0 ? i : (uint32_t)below(random, used);
        drawn->fault[i] = (fault){.kind = FAULT_KILL,
                                  .rank = drawn->workers + (uint32_t)tt_min_u64(server, used - 1),
                                  .at_ns = below(random, end_ns)};
    }
    drawn->faults = kills;
    if (below(random, 6) == 0) {
        drawn->fault[0].kind = FAULT_SEVER;
        drawn->fault[0].other = (uint32_t)below(random, drawn->workers);
    }
    if (below(random, 2) == 0) {
        static const fault_kind kinds[] = {FAULT_STOP, FAULT_STOP, FAULT_CUT, FAULT_KILL};
        fault *one = &drawn->fault[drawn->faults++];
        *one = (fault){.kind = kinds[below(random, TT_ARRAY_COUNT(kinds))],
                       .rank = (uint32_t)below(random, drawn->workers),
                       .other = drawn->workers + (uint32_t)below(random, drawn->servers),
                       .at_ns = below(random, end_ns)};
        if (below(random, 2) == 0) { /* while parts move */
            one->at_ns = drawn->fault[0].at_ns + below(random, 400000);
        }
        one->until_ns = one->at_ns + below(random, UINT64_C(3000000));
        if (one->kind == FAULT_STOP && below(random, 2) == 0) {
            one->rank = one->other;
        }
    }
}

/* The keeper dies while its links to other owners are cut, to all of them or to the next ones: what
 * it has decided last is known to nobody else, or not to the next keeper. */
static void draw_secluded(scene *drawn, tt_random *random)
{
    const uint64_t at_ns = 600000 + below(random, UINT64_C(700000) * drawn->iterations);
    const bool is_all = below(random, 2) == 0;
    drawn->faults = is_all ? drawn->workers : 2 + (uint32_t)below(random, drawn->workers - 1);
    for (uint32_t i = 0; i < drawn->faults; i++) {
        drawn->fault[i] = (fault){.kind = i == 0 ? FAULT_KILL : FAULT_CUT,
                                  .rank = drawn->workers,
                                  .other = drawn->workers + i,
                                  .at_ns = at_ns + (i == 0 ? below(random, 700000) : 0),
                                  .until_ns = at_ns + 2000000};
    }
}

void members_draw(scene *drawn)
{
    static const char *const quorums[] = {"quorum:1", "quorum:2", "quorum:3", "quorum:4",
                                          "quorum:5"};
    _Static_assert(TT_ARRAY_COUNT(quorums) == WORKERS_MAX, "one for each number of workers");
    tt_random random;
    tt_text why = {0};
    tt_random_init(&random, drawn->seed, 211);
    drawn->workers = 2 + (uint32_t)below(&random, WORKERS_MAX - 1);
    drawn->servers = 1 + (uint32_t)below(&random, SERVERS_MAX);
    drawn->iterations = 3 + (uint32_t)below(&random, ITERATIONS_MAX - 2);
    drawn->policy_text = quorums[below(&random, drawn->workers)];
    drawn->update_text = "sum";
    tt_status status = tt_policy_parse(drawn->policy_text, drawn->workers, &drawn->policy, &why);
    TT_ASSERT(status == TT_OK);
    status = tt_update_parse(drawn->update_text, &drawn->update, &why);
    TT_ASSERT(status == TT_OK);
    drawn->has_members = true;
    drawn->has_counters = drawn->is_uniform = false;
    drawn->sets = 0;
    drawn->habit = below(&random, 2) == 0 ? HABIT_PUSH_CLOCK_PULL : HABIT_TOGETHER;
    drawn->is_in_place = drawn->habit == HABIT_TOGETHER && below(&random, 3) == 0;
    draw_tensors(drawn, &random);
    draw_deaths(drawn, &random);
    if (drawn->workers <= FAULTS_MAX && drawn->servers >= drawn->workers &&
        below(&random, 3) == 0) {
        draw_secluded(drawn, &random);
    }
    drawn->sim.size = drawn->workers + drawn->servers;
}

int64_t members_value(const scene *drawn, members_call call, uint64_t element)
{
    if (drawn->codec_text != NULL) {
        return element % drawn->workers == call.worker ? INT64_C(1) << call.iteration : 0;
    }
    const int64_t field = (int64_t)(call.iteration + 1) << COUNT_BITS | 1;
    return field << (FIELD_BITS * call.worker);
}

members *members_make(const scene *drawn, const damage *done)
{
    members *all = calloc(1, sizeof(*all));
    all->drawn = drawn;
    all->done = done;
    for (uint32_t i = 0; i < drawn->tensors; i++) {
        char name[16];
        const int length = snprintf(name, sizeof(name), "t%u", i);
        const uint64_t bytes = drawn->counts[i] * tt_dtype_bytes(drawn->dtype);
        const tt_split split = coded_split(drawn, i);
        all->part_count[i] = tt_split_cut(&split, tt_hash64(name, (size_t)length, 0), bytes,
                                          all->parts[i], PARTS_MAX);
        TT_ASSERT(all->part_count[i] <= PARTS_MAX);
    }
    return all;
}

void members_free(members *all)
{
    free(all);
}

/* ---- calls ---- */

void members_pushed(members *all, members_call call)
{
    push_record *made = &all->pushes[call.worker][call.tensor][call.iteration];
    *made =
        (push_record){.mask = all->kept[call.worker][call.tensor] | INT64_C(1) << call.iteration};
}

static bool is_push(const tt_sync_request *request)
{
    return request->verb == TT_STORE_PUSH || request->verb == TT_STORE_PUSH_PULL;
}

void members_ended(members *all, members_call call, const tt_sync_request *request)
{
    const uint32_t bit = 1U << call.worker;
    const bool is_lost = request->status < 0;
    if (is_lost && strstr(request->error, "and with it") == NULL) {
        return; /* the store has failed */
    }
    all->lost[call.worker][call.tensor] += is_lost ? 1 : 0;
    all->has_lost_more = all->has_lost_more || (is_lost && request->verb == TT_STORE_PULL &&
                                                all->part_count[call.tensor] == 1 &&
                                                all->seen[call.tensor] < call.iteration);
    uint64_t seen = is_lost ? 0 : request->step;
    if (is_push(request)) {
        push_record *ended = &all->pushes[call.worker][call.tensor][call.iteration];
        ended->has_ended = true;
        ended->is_lost = is_lost;
        ended->is_uncounted = request->is_uncounted;
        seen = is_lost || request->is_uncounted ? seen : tt_max_u64(seen, call.iteration + 1);
        all->kept[call.worker][call.tensor] =
            request->is_uncounted && coded_applies(all->drawn, call.tensor) ? ended->mask : 0;
        uint32_t *found =
            request->is_uncounted ? &all->out[call.iteration] : &all->in[call.iteration];
        *found |= bit;
    }
    all->seen[call.tensor] = (uint32_t)tt_max_u64(all->seen[call.tensor], seen);
}

/* ---- values ---- */

/* What is in a part. */
typedef struct content {
    int64_t value;
    uint32_t known, set; /* workers that could be in it, and are */
    uint32_t iteration;  /* UINT32_MAX: none */
} content;

__attribute__((format(printf, 2, 3))) static bool complain(members *all, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(all->why, sizeof(all->why), format, arguments);
    va_end(arguments);
    return false;
}

static uint32_t highest_bit(int64_t bits)
{
    uint32_t highest = UINT32_MAX;
    for (uint32_t i = 0; i < COUNTER_BITS; i++) {
        highest = (bits >> i & 1) != 0 ? i : highest;
    }
    return highest;
}

/* The numbers of a part; false: its elements differ. */
static bool take_value(const scene *drawn, const tt_split_part *part, const void *values,
                       content *found)
{
    const int64_t *integers = values;
    bool is_whole = true;
    if (drawn->codec_text != NULL) {
        return coded_counters(drawn, part, values, &found->value);
    }
    found->value = integers[0];
    for (uint64_t i = 1; i < part->bytes / 8; i++) {
        is_whole = is_whole && integers[i] == integers[0];
    }
    return is_whole;
}

/* Whose pushes are in it, of which iteration? */
static bool take_set(members *all, members_call call, const tt_split_part *part, content *found)
{
    const scene *drawn = all->drawn;
    const bool is_coded = drawn->codec_text != NULL;
    const int bits = is_coded ? COUNTER_BITS : FIELD_BITS;
    found->iteration = UINT32_MAX;
    for (uint32_t i = 0; i < drawn->workers; i++) {
        const int64_t field = found->value >> (bits * (int)i) & ((1 << bits) - 1);
        found->known |= coded_has_counter(drawn, part, i) ? 1U << i : 0;
        if (field == 0) {
            continue;
        }
        const uint32_t iteration =
            is_coded ? highest_bit(field) : (uint32_t)(field >> COUNT_BITS) - 1;
        if (!is_coded && (field & ((1 << COUNT_BITS) - 1)) != 1) {
            return complain(all, "rank %u read a push of rank %u twice", call.worker, i);
        }
        if (iteration >= ITERATIONS_MAX ||
            (found->iteration != UINT32_MAX && iteration != found->iteration)) {
            return complain(all, "rank %u read a sum of two iterations", call.worker);
        }
        const int64_t wanted = all->pushes[i][call.tensor][iteration].mask;
        if (is_coded && coded_applies(drawn, call.tensor) && field != wanted &&
            all->done->severed == 0) {
            return complain(all, "rank %u read pushes %x of rank %u, not %x", call.worker,
                            (unsigned)field, i, (unsigned)wanted);
        }
        found->iteration = iteration;
        found->set |= 1U << i;
    }
    return true;
}

static bool judge_part(members *all, members_call call, uint32_t number,
                       const tt_sync_request *request, const content *found)
{
    const scene *drawn = all->drawn;
    const damage *done = all->done;
    const bool is_whole = done->killed == done->killed_servers && done->severed == 0;
    const bool has_counted = is_push(request) && !request->is_uncounted;
    uint32_t *last = &all->last[call.worker][call.tensor][number];
    const uint32_t end = found->iteration + 1; /* 0: no sum */
    const uint32_t everyone = (1U << drawn->workers) - 1;
    if (end == 0 && found->known != everyone) {
        return true; /* it may be that of a worker without an element here */
    }
    if (end < *last) {
        return complain(all, "rank %u read iteration %u after %u", call.worker, found->iteration,
                        *last - 1);
    }
    if ((has_counted && found->iteration != call.iteration) ||
        (!is_push(request) && is_whole && end < call.iteration)) {
        return complain(all, "rank %u read iteration %d at clock %u", call.worker,
                        (int)found->iteration, call.iteration);
    }
    if (is_whole && end > 0 && found->known == everyone &&
        (uint32_t)__builtin_popcount(found->set) < drawn->policy.quorum) {
        return complain(all, "rank %u read workers %x, fewer than a quorum of %u", call.worker,
                        found->set, drawn->policy.quorum);
    }
    *last = end;
    if (end > 0) {
        all->read[call.worker][call.tensor][number][found->iteration] = found->value;
        all->in[found->iteration] |= found->set;
        all->out[found->iteration] |= found->known & ~found->set;
    }
    return true;
}

const char *members_read(members *all, members_call call, const tt_sync_request *request)
{
    bool is_good = true;
    for (uint32_t i = 0; i < all->part_count[call.tensor] && is_good; i++) {
        const tt_split_part *part = &all->parts[call.tensor][i];
        const uint8_t *values = (const uint8_t *)request->output + part->first;
        content found = {.value = 0};
        if (part->bytes == 0) {
            continue;
        }
        if (!take_value(all->drawn, part, values, &found)) {
            (void)complain(all, "rank %u read a torn part of tensor %u", call.worker, call.tensor);
            return all->why;
        }
        is_good = take_set(all, call, part, &found) && judge_part(all, call, i, request, &found);
    }
    return is_good ? NULL : all->why;
}

/* ---- the end ---- */

/* All workers that live have the same bits. */
static bool judge_bits(members *all, uint32_t tensor)
{
    for (uint32_t part = 0; part < all->part_count[tensor]; part++) {
        for (uint32_t i = 0; i < ITERATIONS_MAX; i++) {
            int64_t first = 0;
            for (uint32_t rank = 0; rank < all->drawn->workers; rank++) {
                const int64_t value = all->read[rank][tensor][part][i];
                if (all->done->is_killed[rank] || value == 0) {
                    continue;
                }
                if (first != 0 && first != value) {
                    return complain(all,
                                    "workers read other bits of tensor %u, part %u, iteration %u",
                                    tensor, part, i);
                }
                first = value;
            }
        }
    }
    return true;
}

/* Calls fail only with servers, and a push only if somebody has a sum as new as its own. */
static bool judge_lost(members *all, uint32_t rank, uint32_t tensor)
{
    const damage *done = all->done;
    const uint32_t lost = all->lost[rank][tensor];
    if (lost > 3 * (done->killed_servers + done->severed)) {
        return complain(all, "rank %u lost %u calls on tensor %u by %u deaths", rank, lost, tensor,
                        done->killed_servers + done->severed);
    }
    for (uint32_t i = 0; i < ITERATIONS_MAX; i++) {
        const push_record *push = &all->pushes[rank][tensor][i];
        if (push->is_lost && !push->is_uncounted && all->part_count[tensor] == 1 &&
            !all->drawn->is_in_place && all->seen[tensor] <= i) {
            return complain(all, "rank %u lost iteration %u of tensor %u to nobody", rank, i,
                            tensor);
        }
    }
    return true;
}

const char *members_judge_end(members *all)
{
    const scene *drawn = all->drawn;
    const damage *done = all->done;
    bool is_good = !all->has_lost_more || complain(all, "a pull has lost an iteration to nobody");
    for (uint32_t rank = 0; rank < drawn->workers && is_good; rank++) {
        const bool is_sound = !done->is_killed[rank] && !done->is_severed[rank];
        for (uint32_t i = 0; i < ITERATIONS_MAX && is_sound && is_good; i++) {
            is_good = (all->in[i] & all->out[i] & 1U << rank) == 0 ||
                      complain(all, "rank %u's pushes of iteration %u count, and do not", rank, i);
        }
        for (uint32_t tensor = 0; tensor < drawn->tensors && is_good; tensor++) {
            is_good = judge_lost(all, rank, tensor);
        }
    }
    for (uint32_t tensor = 0; tensor < drawn->tensors && is_good; tensor++) {
        is_good = judge_bits(all, tensor);
    }
    return is_good ? NULL : all->why;
}
