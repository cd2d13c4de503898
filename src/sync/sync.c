/* SPDX-License-Identifier: Apache-2.0
 *
 * sync.c - the machine's upcalls, and its beginning and end; see sync.h. */
#include "sync/sync.h"

#include <string.h>

#include "base/assert.h"
#include "base/text.h"

enum { LEVEL_ERROR, LEVEL_WARN, LEVEL_INFO }; /* as base/log.h */

struct tt_sync {
    tt_platform *platform;
    tt_roles roles;
    tt_machine inner;
    tt_sync_listener listener;
    uint32_t workers_left;
    bool *is_gone; /* [workers + servers] */
};

static uint32_t process_count(const tt_sync *sync)
{
    return sync->roles.workers + sync->roles.servers;
}

static bool is_server(const tt_sync *sync, uint32_t rank)
{
    TT_ASSERT(rank < process_count(sync));
    return rank >= sync->roles.workers;
}

/* Is what comes from this peer the business of the wrapped machine? */
static bool is_inner(const tt_sync *sync, uint32_t peer)
{
    return !is_server(sync, peer) && !is_server(sync, sync->roles.rank);
}

/* ---- upcalls ---- */

static void *on_frame(void *machine, uint32_t peer, const tt_head *head, const void *payload)
{
    const tt_sync *sync = machine;
    if (!is_inner(sync, peer)) {
        return NULL;
    }
    return sync->inner.ops->frame(sync->inner.self, peer, head, payload);
}

static void on_payload(void *machine, uint32_t peer, const tt_head *head)
{
    const tt_sync *sync = machine;
    TT_ASSERT(is_inner(sync, peer)); /* nothing else has a sink */
    sync->inner.ops->payload(sync->inner.self, peer, head);
}

static void on_sent(void *machine, uint64_t token)
{
    const tt_sync *sync = machine;
    sync->inner.ops->sent(sync->inner.self, token);
}

static void on_landed(void *machine, uint64_t token, tt_status status)
{
    const tt_sync *sync = machine;
    TT_ASSERT(sync->inner.ops->landed != NULL);
    sync->inner.ops->landed(sync->inner.self, token, status);
}

static void on_timer(void *machine)
{
    const tt_sync *sync = machine;
    sync->inner.ops->timer(sync->inner.self);
}

static void report_peer(const tt_sync *sync, uint32_t peer, tt_peer_event event, const char *why)
{
    static const struct {
        int level;
        const char *words;
    } events[] = {[TT_PEER_SILENT] = {LEVEL_WARN, "does not respond; waiting for it"},
                  [TT_PEER_BACK] = {LEVEL_INFO, "responds again"},
                  [TT_PEER_LEFT] = {LEVEL_INFO, "has left"},
                  [TT_PEER_DOWN] = {LEVEL_WARN, "is gone"},
                  [TT_PEER_REJECTS] = {LEVEL_WARN, "rejects this rank"}};
    tt_text text = {0};
    tt_text_add(&text, is_server(sync, peer) ? "server %u (rank %u) %s" : "worker %u (rank %u) %s",
                is_server(sync, peer) ? peer - sync->roles.workers : peer, peer,
                events[event].words);
    if (event != TT_PEER_BACK && event != TT_PEER_LEFT) {
        tt_text_add(&text, " (%s)", why);
    }
    sync->listener.report(sync->listener.owner, events[event].level, text.bytes);
}

/* It has left or died, as far as this rank is concerned. */
static void count_out(tt_sync *sync, uint32_t peer)
{
    if (sync->is_gone[peer]) {
        return;
    }
    sync->is_gone[peer] = true;
    if (is_server(sync, peer)) {
        return;
    }
    TT_ASSERT(sync->workers_left > 0);
    sync->workers_left--;
    if (sync->workers_left == 0 && sync->listener.deserted != NULL) {
        sync->listener.deserted(sync->listener.owner);
    }
}

static void on_peer(void *machine, uint32_t peer, tt_peer_event event, const char *why)
{
    tt_sync *sync = machine;
    TT_ASSERT(peer < process_count(sync) && peer != sync->roles.rank);
    if (event == TT_PEER_LEFT || event == TT_PEER_DOWN || event == TT_PEER_REJECTS) {
        count_out(sync, peer);
    }
    if (is_inner(sync, peer)) {
        sync->inner.ops->peer(sync->inner.self, peer, event, why);
    } else {
        report_peer(sync, peer, event, why);
    }
}

static bool on_step(void *machine)
{
    const tt_sync *sync = machine;
    return sync->inner.ops->step(sync->inner.self);
}

static const tt_machine_ops sync_machine = {
    .frame = on_frame,
    .payload = on_payload,
    .sent = on_sent,
    .landed = on_landed,
    .timer = on_timer,
    .peer = on_peer,
    .step = on_step,
};

tt_machine tt_sync_machine(tt_sync *sync)
{
    return (tt_machine){.ops = &sync_machine, .self = sync};
}

uint32_t tt_sync_workers_left(const tt_sync *sync)
{
    return sync->workers_left;
}

/* ---- life ---- */

tt_status tt_sync_create(tt_platform *platform, const tt_roles *roles, tt_machine inner,
                         const tt_sync_listener *listener, tt_sync **sync_out)
{
    TT_ASSERT(roles->workers > 0 && roles->rank < roles->workers + roles->servers);
    TT_ASSERT(listener->report != NULL);
    tt_sync *sync = tt_platform_allocate(platform, sizeof(*sync));
    if (sync == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    *sync = (tt_sync){.platform = platform,
                      .roles = *roles,
                      .inner = inner,
                      .listener = *listener,
                      .workers_left = roles->workers};
    sync->is_gone = tt_platform_allocate(platform, process_count(sync) * sizeof(*sync->is_gone));
    if (sync->is_gone == NULL) {
        tt_platform_release(platform, sync, sizeof(*sync));
        return TT_ERR_NO_MEMORY;
    }
    *sync_out = sync;
    return TT_OK;
}

void tt_sync_destroy(tt_sync *sync)
{
    tt_platform *platform = sync->platform;
    tt_platform_release(platform, sync->is_gone, process_count(sync) * sizeof(*sync->is_gone));
    tt_platform_release(platform, sync, sizeof(*sync));
}
