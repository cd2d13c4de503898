/* SPDX-License-Identifier: Apache-2.0
 *
 * stall_worker.c - calls that wait long, on the worker that made them; see stall.h. */
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "sync/stall/stall.h"
#include "sync/sync_internal.h"

enum { REPLY_NS = 1000 * 1000 * 1000 }; /* who has not replied by then does not respond */

/* The call that has waited longest, and the process it waits for. */
typedef struct stalled {
    const tt_sync_request *request;
    const tt_worker_store *store;
    const tt_worker_key *key; /* NULL: it is about the store */
    tt_stall_what what;
    uint32_t peer, part;
} stalled;

/* The call at the front of `queue` waits for `found`. */
static void consider(stalled *longest_io, const tt_sync_request *request, stalled found)
{
    const bool is_longer =
        longest_io->request == NULL || request->since_ns < longest_io->request->since_ns;
    if (is_longer) {
        *longest_io = found;
        longest_io->request = request;
    }
}

/* The first owner that has not replied; a rank that is none: all have. */
static uint32_t first_untold(const tt_sync *sync, const tt_split *split, const bool *is_told)
{
    for (uint32_t i = 0; i < split->owners; i++) {
        const uint32_t rank = tt_split_rank(split, i);
        if (!is_told[i] && !sync->is_gone[rank]) {
            return rank;
        }
    }
    return UINT32_MAX;
}

static void look_at_key(const tt_sync *sync, const tt_worker_key *key, stalled *longest_io)
{
    const tt_sync_request *request = key->queue.first;
    stalled found = {.store = key->store, .key = key, .what = TT_STALL_PART};
    if (request == NULL) {
        return;
    }
    if (request->verb == TT_STORE_ADD && !request->is_first) {
        found.what = TT_STALL_ADD;
        found.peer = first_untold(sync, &key->store->split, key->is_told);
        consider(longest_io, request, found);
        return;
    }
    while (found.part < key->part_count && !key->parts[found.part].is_awaited) {
        found.part++;
    }
    if (found.part < key->part_count) {
        found.peer = tt_worker_peer(sync, key, found.part);
        consider(longest_io, request, found);
    }
}

static void look_at_store(const tt_sync *sync, const tt_worker_store *store, stalled *longest_io)
{
    stalled found = {.store = store};
    if (store->life.first != NULL) {
        found.what = store->life.first->verb == TT_STORE_OPEN ? TT_STALL_OPEN : TT_STALL_CLOSE;
        found.peer = first_untold(sync, &store->split, store->is_told);
        consider(longest_io, store->life.first, found);
    }
    if (store->asks.first != NULL) {
        found.what = TT_STALL_REPLY;
        found.peer = first_untold(sync, &store->split, store->is_told);
        consider(longest_io, store->asks.first, found);
    }
    if (store->clocks.first != NULL && store->has_clocked) {
        found.what = TT_STALL_CLOCK;
        found.peer = tt_split_rank(&store->split, tt_sync_keeper(sync, &store->split));
        consider(longest_io, store->clocks.first, found);
    }
}

static stalled find_longest(const tt_sync *sync)
{
    stalled longest = {.request = NULL};
    for (uint32_t i = 0; i < TT_STORES_MAX; i++) {
        if (sync->stores[i] != NULL) {
            look_at_store(sync, sync->stores[i], &longest);
        }
    }
    for (uint32_t i = 0; i < sync->key_count; i++) {
        if (sync->keys[i] != NULL) {
            look_at_key(sync, sync->keys[i], &longest);
        }
    }
    return longest;
}

static const char *words_of(const stalled *found)
{
    static const char *const words[] = {
        [TT_STORE_OPEN] = "opening",       [TT_STORE_CLOSE] = "closing",
        [TT_STORE_ADD] = "adding",         [TT_STORE_PUSH] = "a push to",
        [TT_STORE_PULL] = "a pull of",     [TT_STORE_PUSH_PULL] = "a push and pull of",
        [TT_STORE_CLOCK] = "the clock of", [TT_STORE_COUNT] = "the counts of",
        [TT_STORE_SET] = "an option of",   [TT_STORE_READ] = "a read of",
        [TT_STORE_FILL] = "filling",       [TT_STORE_OPTIONS] = "the options of"};
    TT_ASSERT((size_t)found->request->verb < TT_ARRAY_COUNT(words));
    return found->key != NULL && found->key->sum != NULL ? "a sum of" : words[found->request->verb];
}

static void describe(const tt_sync *sync, const stalled *found, tt_text *text)
{
    tt_text_add(text, "%s ", words_of(found));
    if (found->key != NULL) {
        tt_text_add(text, "tensor ");
        tt_text_add_quoted(text, found->key->name, TT_SYNC_NAME_BYTES);
    }
    if (found->store->id != TT_STORE_SUMS) {
        tt_text_add(text, "%sstore %u", found->key != NULL ? " of " : "", found->store->id);
    } else if (found->key == NULL) {
        tt_text_add(text, "the sums by servers");
    }
    tt_text_add(text, " has waited for %.1f s",
                (double)(tt_now(sync->platform) - found->request->since_ns) / 1e9);
}

static void report(const tt_sync *sync, const char *why)
{
    tt_text text = sync->stalls.call;
    tt_text_add(&text, ": %s", why);
    sync->listener.report(sync->listener.owner, LEVEL_WARN, text.bytes);
}

static void report_silence(const tt_sync *sync)
{
    tt_text why = {0};
    tt_sync_add_peer(sync, &why, sync->stalls.asked);
    tt_text_add(&why, " does not reply; is it stopped, or its host cut off?");
    report(sync, why.bytes);
}

/* There was no reply to the question about this call. */
static bool is_asked_about(const tt_sync *sync, const stalled *found)
{
    const tt_stalls *stalls = &sync->stalls;
    return stalls->is_open && found->request == stalls->request && found->peer == stalls->asked &&
           found->request->since_ns == stalls->since_ns;
}

static void ask(tt_sync *sync, const stalled *found)
{
    tt_stalls *stalls = &sync->stalls;
    const tt_head head = {.kind = TT_SYNC_STALLED,
                          .set = found->store->id,
                          .op = found->key != NULL ? found->key->id : 0,
                          .lane = found->part,
                          .round = (uint32_t)found->what,
                          .descriptor = ++stalls->number};
    stalls->call = (tt_text){.length = 0};
    describe(sync, found, &stalls->call);
    stalls->asked = found->peer;
    stalls->request = found->request;
    stalls->since_ns = found->request->since_ns;
    stalls->is_open = true;
    tt_sync_signal(sync, found->peer, head); /* to this rank itself: the reply comes at once */
}

static void look_in(tt_sync *sync, uint64_t in_ns)
{
    sync->stalls.due_ns = tt_now(sync->platform) + in_ns;
    sync->listener.alarm(sync->listener.owner, sync->stalls.due_ns);
}

void tt_stall_watch(tt_sync *sync)
{
    if (sync->listener.alarm != NULL && sync->stalls.due_ns == 0) {
        look_in(sync, sync->listener.stall_ns);
    }
}

static void look(tt_sync *sync)
{
    const uint64_t stall_ns = sync->listener.stall_ns;
    const stalled longest = find_longest(sync);
    const bool is_silent = is_asked_about(sync, &longest);
    sync->stalls.is_open = false; /* if it is over, so is the question */
    if (is_silent) {
        report_silence(sync);
    }
    if (longest.request == NULL) {
        if (sync->pending > 0) {
            look_in(sync, stall_ns);
        }
        return;
    }
    const uint64_t waited_ns = tt_now(sync->platform) - longest.request->since_ns;
    if (waited_ns < stall_ns || is_silent || longest.peer >= tt_sync_processes(sync)) {
        look_in(sync, waited_ns < stall_ns ? stall_ns - waited_ns : stall_ns);
        return;
    }
    ask(sync, &longest);
    look_in(sync, sync->stalls.is_open ? tt_min_u64(stall_ns, REPLY_NS) : stall_ns);
}

void tt_stall_timer(tt_sync *sync)
{
    if (sync->stalls.due_ns == 0) {
        return;
    }
    if (tt_now(sync->platform) < sync->stalls.due_ns) {
        sync->listener.alarm(sync->listener.owner, sync->stalls.due_ns); /* it was the other's */
        return;
    }
    sync->stalls.due_ns = 0;
    look(sync);
}

void tt_stall_reply(tt_sync *sync, uint32_t peer, const tt_head *head, const void *payload)
{
    tt_stalls *stalls = &sync->stalls;
    tt_text why = {0};
    if (!stalls->is_open || peer != stalls->asked || head->descriptor != stalls->number) {
        return; /* late, or a second copy */
    }
    stalls->is_open = false;
    if (head->payload_bytes > 0) {
        tt_text_add_words(&why, payload, head->payload_bytes);
    } else {
        tt_sync_add_peer(sync, &why, peer);
        tt_text_add(&why, " lacks nothing, and has not answered yet");
    }
    report(sync, why.bytes);
}

void tt_stall_peer_out(tt_sync *sync, uint32_t peer)
{
    sync->stalls.is_open = sync->stalls.is_open && sync->stalls.asked != peer;
}
