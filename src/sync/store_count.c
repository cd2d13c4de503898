/* SPDX-License-Identifier: Apache-2.0
 *
 * store_count.c - what has happened on a store: COUNT and COUNTED.
 *
 * A worker has counts of its own calls; staleness and dropped frames are counted by owners, of all
 * workers, and added up here. The staleness of a push is the number of sums made of its part
 * between the worker's last read of the part and the push.
 */
#include <string.h>

#include "base/base.h"
#include "sync/sync_internal.h"

_Static_assert(sizeof(((tt_owner_tally *)0)->staleness) <= TT_SYNC_TEXT_BYTES, "fits one frame");

/* ---- owners ---- */

void tt_count_applied(tt_owner_part *part, const tt_slot *slot)
{
    const uint64_t staleness = part->step - slot->read_step;
    part->sum_worker = (uint32_t)(slot - part->slots);
    part->sum_staleness = staleness;
    part->key->store->tally.staleness[tt_min_u64(staleness, TT_SYNC_STALENESS_MAX)]++;
}

void tt_count_frame(tt_sync *sync, tt_owner_store *store, uint32_t worker, const tt_head *head)
{
    tt_head reply = {.kind = TT_SYNC_COUNTED,
                     .set = store->id,
                     .round = (uint32_t)tt_min_u64(tt_owner_progress(store), UINT32_MAX),
                     .descriptor = head->descriptor,
                     .argument = store->tally.dropped};
    if (!tt_sync_send_text(sync, worker, reply, store->tally.staleness,
                           sizeof(store->tally.staleness))) {
        tt_sync_signal(sync, worker, reply); /* no memory: the worker's call fails */
    }
}

/* ---- workers ---- */

void tt_count_ask(tt_sync *sync, tt_worker_store *store)
{
    tt_sync_counts *counts = store->asks.first->counts;
    store->ask_number++;
    store->ask_status = TT_OK;
    *counts = store->tally;
    counts->clock = store->clock;
    counts->least = UINT64_MAX;
    const tt_head head = {.kind = TT_SYNC_COUNT, .set = store->id, .descriptor = store->ask_number};
    memset(store->is_told, 0, store->split.owners * sizeof(*store->is_told));
    for (uint32_t i = 0; i < store->split.owners; i++) {
        tt_sync_signal(sync, tt_split_rank(&store->split, i), head);
    }
}

/* All owners that live have replied: the request at the front is over. */
static void settle(tt_sync *sync, tt_worker_store *store)
{
    tt_sync_request *request = store->asks.first;
    if (!tt_worker_all_told(sync, store)) {
        return;
    }
    const tt_status status = store->ask_status;
    tt_text why = {0};
    if (status != TT_OK) {
        tt_sync_add_peer(sync, &why, store->ask_culprit);
        tt_text_add(&why, " has no memory to send its counts; try again");
    }
    tt_worker_next_ask(sync, store);
    tt_worker_end(sync, request, status, why.bytes);
}

void tt_count_reply(tt_sync *sync, tt_worker_store *store, uint32_t peer, const tt_head *head,
                    const void *payload)
{
    const uint32_t owner = tt_split_number(&store->split, peer);
    tt_sync_request *request = store->asks.first;
    uint64_t staleness[TT_SYNC_STALENESS_MAX + 1];
    if (request == NULL || request->verb != TT_STORE_COUNT || owner >= store->split.owners ||
        head->descriptor != store->ask_number || store->is_told[owner]) {
        return;
    }
    store->is_told[owner] = true;
    if (head->payload_bytes == sizeof(staleness)) {
        memcpy(staleness, payload, sizeof(staleness));
        for (uint32_t i = 0; i <= TT_SYNC_STALENESS_MAX; i++) {
            request->counts->staleness[i] += staleness[i];
        }
        request->counts->dropped += head->argument;
        request->counts->least = tt_min_u64(request->counts->least, head->round);
    } else {
        store->ask_status = TT_ERR_NO_MEMORY;
        store->ask_culprit = peer;
    }
    settle(sync, store);
}

void tt_count_owner_out(tt_sync *sync, tt_worker_store *store)
{
    if (store->asks.first != NULL && store->asks.first->verb == TT_STORE_COUNT) {
        settle(sync, store);
    }
}

void tt_count_request(tt_sync *sync, tt_worker_key *key, const tt_sync_request *request)
{
    tt_sync_counts *tally = &key->store->tally;
    const uint64_t elements =
        request->is_rows ? request->row_count * key->claim.row_elements : key->count;
    const uint64_t bytes = elements * tt_dtype_bytes(key->dtype);
    const bool pushes = request->verb == TT_STORE_PUSH || request->verb == TT_STORE_PUSH_PULL;
    const bool pulls = request->verb == TT_STORE_PULL || request->verb == TT_STORE_PUSH_PULL;
    if (request->lost < 0) {
        return; /* it fails, with a server that is gone */
    }
    tally->pushes += pushes ? 1 : 0;
    tally->pushed_bytes += pushes ? bytes : 0;
    tally->pulls += pulls ? 1 : 0;
    tally->pulled_bytes += pulls ? bytes : 0;
    tally->uncounted += request->is_uncounted ? 1 : 0;
    if (request->has_waited) {
        tally->pull_waits++;
        tally->pull_wait_ns += tt_now(sync->platform) - request->since_ns;
    }
}
