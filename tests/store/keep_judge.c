/* SPDX-License-Identifier: Apache-2.0
 *
 * keep_judge.c - what workers read and how their calls fail while stores move; see keep_faults.h
 * and the rules of keep_faults.c. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "kernel/hash64.h"
#include "store/keep_faults.h"

static const char *const names[TENSORS_MAX] = {"t0", "t1", "t2"};

const char *keep_name(uint32_t tensor)
{
    return names[tensor];
}

void keep_blame(play *all, const mover *own, const char *what)
{
    if (all->result.is_good) {
        all->result.is_good = false;
        (void)snprintf(all->result.reason, sizeof(all->result.reason),
                       "rank %u, stage %d, iteration %u: %.160s", own->rank, (int)own->stage,
                       own->iteration, what);
    }
}

uint64_t keep_bytes(const play *all, uint32_t tensor)
{
    return all->drawn->counts[tensor] * tt_dtype_bytes(all->drawn->dtype);
}

bool keep_has_dead_worker(const play *all)
{
    return all->done.killed > all->done.killed_servers;
}

static bool owner_is_dead(const play *all, uint32_t store)
{
    const tt_split *split = &all->splits[store % STORES_MAX];
    bool is_dead = false;
    for (uint32_t rank = 0; rank < all->drawn->sim.size; rank++) {
        is_dead =
            is_dead || (all->done.is_killed[rank] && tt_split_number(split, rank) < split->owners);
    }
    return is_dead;
}

void keep_judge_error(mover *own, const tt_sync_request *request)
{
    play *all = own->all;
    char words[32];
    bool is_named = false;
    for (uint32_t rank = 0; rank < all->drawn->sim.size; rank++) {
        (void)snprintf(words, sizeof(words), "(rank %u)", rank);
        is_named = is_named || (all->done.is_killed[rank] && strstr(request->error, words) != NULL);
    }
    const bool adds =
        own->stage == STAGE_ADD || (own->stage >= STAGE_READD && own->stage <= STAGE_FILL);
    const bool may_fail = owner_is_dead(all, request->store) ||
                          (tt_policy_is_bulk(&all->drawn->policy) && keep_has_dead_worker(all)) ||
                          (all->done.is_killed[0] && adds); /* which has the first values */
    if (request->status != TT_ERR_PEER_DOWN || !is_named || !may_fail) {
        keep_blame(all, own, request->error);
    }
}

void keep_judge_rest(mover *own)
{
    play *all = own->all;
    const int64_t *values = (const int64_t *)(const void *)own->values;
    const uint64_t quorum = all->drawn->policy.quorum;
    uint64_t total = 0;
    int64_t wanted = 0;
    for (uint32_t i = 0; i < all->drawn->workers; i++) {
        const mover *one = &all->movers[i];
        const uint32_t counted = one->pushes[own->tensor] - one->uncounted[own->tensor];
        wanted += (int64_t)counted << (COUNTER_BITS * i);
        total += counted;
    }
    if (quorum > 0 && total != quorum * own->iteration && !keep_has_dead_worker(all)) {
        keep_blame(all, own, "other than a quorum of pushes counted in an iteration");
    }
    for (uint64_t i = 0; i < all->drawn->counts[own->tensor]; i++) {
        if (values[i] != wanted && !keep_has_dead_worker(all)) {
            keep_blame(all, own, "a value at rest lacks a push, or has one twice");
            return;
        }
    }
}

static void judge_counter(mover *own, int64_t counters)
{
    play *all = own->all;
    const tt_policy *policy = &all->drawn->policy;
    const uint64_t needed = policy->quorum > 0 ? 0 : tt_policy_needs(policy, own->iteration);
    for (uint32_t i = 0; i < all->drawn->workers; i++) {
        const uint64_t count = (uint64_t)counters >> (COUNTER_BITS * i) & ((1 << COUNTER_BITS) - 1);
        const uint32_t pushes = all->movers[i].pushes[own->tensor];
        if (count > pushes) {
            keep_blame(all, own, "read a push twice");
        } else if (i == own->rank && count + own->uncounted[own->tensor] != pushes) {
            keep_blame(all, own, "did not read its own push");
        } else if (count < all->base[own->tensor][i]) {
            keep_blame(all, own, "lost a push that was there before");
        } else if (!all->done.is_killed[i] && count < needed) {
            keep_blame(all, own, "read less than its bound promises");
        }
    }
}

void keep_judge_pull(mover *own)
{
    play *all = own->all;
    const scene *drawn = all->drawn;
    const uint64_t bytes = keep_bytes(all, own->tensor);
    all->result.reads++;
    if (!drawn->has_counters) {
        if (!drawn->is_uniform && bytes > 0 &&
            memcmp(own->values, oracle_value(all->known, own->tensor, own->iteration), bytes) !=
                0) {
            keep_blame(all, own, "other bits than the oracle's");
        }
        return;
    }
    tt_split_part parts[PARTS_MAX];
    const uint64_t hash = tt_hash64(keep_name(own->tensor), strlen(keep_name(own->tensor)), 0);
    const uint32_t count = tt_split_cut(&all->splits[own->store], hash, bytes, parts, PARTS_MAX);
    TT_ASSERT(count <= PARTS_MAX);
    for (uint32_t i = 0; i < count && bytes > 0; i++) {
        const uint8_t *part = own->values + parts[i].first;
        int64_t counters = 0;
        for (uint64_t k = 8; k < parts[i].bytes; k += 8) {
            if (memcmp(part, part + k, 8) != 0) {
                keep_blame(all, own, "a part is torn");
            }
        }
        memcpy(&counters, part, parts[i].bytes > 0 ? sizeof(counters) : 0);
        if (parts[i].bytes > 0) {
            judge_counter(own, counters);
        }
    }
}
