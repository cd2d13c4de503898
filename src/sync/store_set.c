/* SPDX-License-Identifier: Apache-2.0
 *
 * store_set.c - options of an update that change at a clock: SET and WAS_SET.
 *
 * A worker asks all owners to hold back pushes from a clock on (PREPARE). An owner that has applied
 * such a push refuses. If none does, the worker lets all of them take the value (COMMIT), else none
 * (CANCEL); either is acknowledged. So a value holds at all owners from one clock on, or at none.
 *
 *  (1) A worker has one SET in flight. Requests are numbered; an owner takes a new number once.
 *  (2) A hold ends with its worker, if that dies in between: then some owners may have the value
 * and others not. The next SET of the option makes them equal again. (3) Entries are ordered by
 * clock; of equal clocks the later one counts.
 */
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/plant.h"
#include "sync/sync_internal.h"

enum { ASK_PREPARE, ASK_COMMIT, ASK_CANCEL }; /* lane of a SET; WAS_SET repeats it */

/* ---- owners ---- */

bool tt_set_is_held(const tt_owner_store *store, uint64_t clock)
{
    bool is_held = false;
    for (uint32_t i = 0; store->set.holds > 0 && i < store->clock.size && !is_held; i++) {
        const tt_owner_hold *hold = &store->workers[i].hold;
        is_held = hold->is_held && clock >= hold->clock;
    }
    return is_held;
}

void tt_set_begin(tt_owner_part *part, uint64_t clock)
{
    tt_owner_store *store = part->key->store;
    tt_owner_set *set = &store->set;
    set->applied = tt_max_u64(set->applied, clock + 1);
    part->sum_spec = store->update;
    part->sum_clock = clock;
    for (uint32_t i = 0; i < set->count; i++) {
        if (set->entries[i].clock <= clock || TT_PLANT(PUSH_WITH_A_LATER_OPTION)) {
            part->sum_spec.options[set->entries[i].option] = set->entries[i].value;
        }
    }
}

/* Entries that hold for all pushes to come need not be kept apart. */
static void fold(tt_owner_store *store)
{
    tt_owner_set *set = &store->set;
    uint32_t done = 0;
    while (done < set->count && set->entries[done].clock <= tt_owner_progress(store)) {
        store->update.options[set->entries[done].option] = set->entries[done].value;
        done++;
    }
    set->count -= done;
    memmove(set->entries, set->entries + done, set->count * sizeof(set->entries[0]));
}

static void insert(tt_owner_store *store, const tt_owner_hold *hold)
{
    tt_owner_set *set = &store->set;
    uint32_t at = set->count;
    TT_ASSERT(set->count < OWNER_SETS_MAX);
    while (at > 0 && set->entries[at - 1].clock > hold->clock) {
        at--;
    }
    memmove(set->entries + at + 1, set->entries + at, (set->count - at) * sizeof(set->entries[0]));
    set->entries[at] =
        (tt_owner_entry){.clock = hold->clock, .option = hold->option, .value = hold->value};
    set->count++;
}

/* Pushes that were held back may be added. */
static void end_hold(tt_sync *sync, tt_owner_store *store, tt_owner_hold *hold)
{
    TT_ASSERT(hold->is_held && store->set.holds > 0);
    hold->is_held = false;
    store->set.holds--;
    for (uint32_t i = 0; i < OWNER_BUCKETS; i++) {
        for (tt_owner_key *key = store->buckets[i]; key != NULL; key = key->next) {
            for (uint32_t k = 0; key->status >= 0 && k < key->part_count; k++) {
                tt_owner_due(sync, &key->parts[k]);
            }
        }
    }
}

void tt_set_worker_out(tt_sync *sync, tt_owner_store *store, uint32_t worker)
{
    if (store->workers[worker].hold.is_held) {
        end_hold(sync, store, &store->workers[worker].hold);
    }
}

/* TT_OK: pushes from its clock on are held back. */
static tt_status prepare(tt_owner_store *store, tt_owner_hold *hold, const tt_head *head)
{
    const bool is_now = (head->flags & TT_SYNC_FLAG_NOW) != 0;
    fold(store);
    if (!is_now && head->round < store->set.applied) {
        return TT_ERR_BAD_ARGUMENT;
    }
    if (store->set.count + store->set.holds >= OWNER_SETS_MAX) {
        return TT_ERR_NO_RESOURCE;
    }
    hold->clock = is_now ? tt_max_u64(head->round, store->set.applied) : head->round;
    hold->is_held = true;
    store->set.holds++;
    return TT_OK;
}

void tt_set_frame(tt_sync *sync, tt_owner_store *store, uint32_t worker, const tt_head *head)
{
    tt_owner_hold *hold = &store->workers[worker].hold;
    const uint32_t bits = (uint32_t)head->argument, option = (uint32_t)(head->argument >> 32);
    const bool is_new = head->lane == ASK_PREPARE && head->descriptor > hold->number;
    tt_head reply = {.kind = TT_SYNC_WAS_SET,
                     .set = store->id,
                     .lane = head->lane,
                     .descriptor = head->descriptor};
    float value;
    memcpy(&value, &bits, sizeof(value));
    if (head->lane > ASK_CANCEL || (is_new && hold->is_held) ||
        (!is_new && (head->lane == ASK_PREPARE || head->descriptor != hold->number)) ||
        (is_new && (option >= store->update.update->option_count || !isfinite(value)))) {
        return; /* a second copy, or nonsense */
    }
    if (is_new) {
        hold->number = head->descriptor;
        hold->option = option;
        hold->value = value;
        reply.argument = (uint64_t)(int64_t)prepare(store, hold, head);
    } else if (hold->is_held) {
        hold->clock = tt_max_u64(hold->clock, head->round);
        if (head->lane == ASK_COMMIT) {
            insert(store, hold);
        }
        end_hold(sync, store, hold);
    }
    reply.round = (uint32_t)tt_min_u64(store->set.applied, UINT32_MAX);
    tt_sync_signal(sync, worker, reply);
}

/* ---- workers ---- */

static uint32_t find_option(const tt_update *update, const char *name)
{
    uint32_t i = 0;
    while (i < update->option_count && strcmp(update->option_names[i], name) != 0) {
        i++;
    }
    return i;
}

static void send_all(tt_sync *sync, tt_worker_store *store, uint32_t phase)
{
    const tt_sync_request *request = store->asks.first;
    const float value = (float)request->value;
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    const uint64_t option = find_option(store->update.update, request->name);
    const tt_head head = {.kind = TT_SYNC_SET,
                          .flags = request->is_now ? TT_SYNC_FLAG_NOW : 0,
                          .set = store->id,
                          .lane = phase,
                          .round = (uint32_t)request->clock,
                          .descriptor = store->ask_number,
                          .argument = option << 32 | bits};
    store->ask_phase = phase;
    memset(store->is_told, 0, store->split.owners * sizeof(*store->is_told));
    for (uint32_t i = 0; i < store->split.owners; i++) {
        tt_sync_signal(sync, tt_split_rank(&store->split, i), head);
    }
}

void tt_set_ask(tt_sync *sync, tt_worker_store *store)
{
    const tt_sync_request *request = store->asks.first;
    store->ask_number++;
    store->ask_status = TT_OK;
    store->ask_bound = request->clock;
    send_all(sync, store, ASK_PREPARE);
}

static void end_refused(tt_sync *sync, const tt_worker_store *store, tt_sync_request *request)
{
    tt_text why = {0};
    if (store->ask_status == TT_ERR_NO_RESOURCE) {
        tt_text_add(&why,
                    "option %s: owners keep at most %d values for clocks to come; set it later",
                    request->name, (int)OWNER_SETS_MAX);
    } else {
        tt_text_add(&why, "option %s for past clock %llu: ", request->name,
                    (unsigned long long)request->clock);
        tt_sync_add_peer(sync, &why, store->ask_culprit);
        tt_text_add(&why, " has applied pushes of later ones; use clock %llu or more",
                    (unsigned long long)store->ask_bound);
    }
    tt_worker_end(sync, request, store->ask_status, why.bytes);
}

void tt_set_reply(tt_sync *sync, tt_worker_store *store, uint32_t peer, const tt_head *head)
{
    const uint32_t owner = tt_split_number(&store->split, peer);
    const int64_t status = (int64_t)head->argument;
    tt_sync_request *request = store->asks.first;
    if (request == NULL || request->verb != TT_STORE_SET || owner >= store->split.owners ||
        head->descriptor != store->ask_number || head->lane != store->ask_phase ||
        store->is_told[owner]) {
        return;
    }
    store->is_told[owner] = true;
    store->ask_bound = tt_max_u64(store->ask_bound, head->round);
    if (head->lane == ASK_PREPARE && status < 0) {
        store->ask_status = status == TT_ERR_NO_RESOURCE ? TT_ERR_NO_RESOURCE : TT_ERR_BAD_ARGUMENT;
        store->ask_culprit = peer;
    }
    if (!tt_worker_all_told(sync, store)) {
        return;
    }
    if (head->lane == ASK_PREPARE) {
        if (request->is_now) {
            request->clock = store->ask_bound;
        }
        send_all(sync, store, store->ask_status == TT_OK ? ASK_COMMIT : ASK_CANCEL);
        return;
    }
    const tt_worker_store asked = *store;
    tt_worker_next_ask(sync, store);
    if (asked.ask_status != TT_OK) {
        end_refused(sync, &asked, request);
    } else {
        tt_worker_end(sync, request, TT_OK, "");
    }
}

tt_status tt_set_check(const tt_worker_store *store, tt_sync_request *request, tt_text *why)
{
    const tt_update *update = store->update.update;
    const char *name = request->name != NULL ? request->name : "";
    if (find_option(update, name) == update->option_count) {
        tt_update_add_unknown(update, name, why);
        return TT_ERR_BAD_ARGUMENT;
    }
    if (tt_update_is_correction(name)) {
        tt_text_add(why, "option %s cannot change; choose it when the store is opened", name);
        return TT_ERR_BAD_ARGUMENT;
    }
    if (!isfinite((float)request->value) || request->value < 0.0) {
        tt_text_add(why, "option %s: %g is not a finite number from 0 on", name, request->value);
        return TT_ERR_BAD_ARGUMENT;
    }
    request->is_now = request->clock == UINT64_MAX;
    request->clock = request->is_now ? store->clock : request->clock;
    if (request->clock < store->clock) {
        tt_text_add(why,
                    "option %s for past clock %llu: this worker is at clock %llu; use that or "
                    "more",
                    name, (unsigned long long)request->clock, (unsigned long long)store->clock);
        return TT_ERR_BAD_ARGUMENT;
    }
    if (request->clock > UINT32_MAX) {
        tt_text_add(why, "option %s: there is no clock %llu; clocks end at %u", name,
                    (unsigned long long)request->clock, UINT32_MAX);
        return TT_ERR_BAD_ARGUMENT;
    }
    return TT_OK;
}
