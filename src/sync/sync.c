/* SPDX-License-Identifier: Apache-2.0
 *
 * sync.c - the machine's upcalls, its sends, its beginning and end; see sync.h. */
#include "sync/sync.h"

#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "sync/sum/sum_relay.h"
#include "sync/sync_internal.h"

static bool is_server(const tt_sync *sync, uint32_t rank)
{
    TT_ASSERT(rank < tt_sync_processes(sync));
    return rank >= sync->roles.workers;
}

/* Is what comes from this peer the business of the wrapped machine? */
static bool is_inner(const tt_sync *sync, uint32_t peer)
{
    return !is_server(sync, peer) && !is_server(sync, sync->roles.rank);
}

uint32_t tt_sync_keeper(const tt_sync *sync, const tt_split *split)
{
    uint32_t owner = 0;
    while (owner + 1 < split->owners && sync->is_gone[tt_split_rank(split, owner)]) {
        owner++;
    }
    return owner;
}

void tt_sync_add_peer(const tt_sync *sync, tt_text *text, uint32_t rank)
{
    const bool serves = is_server(sync, rank);
    tt_text_add(text, "%s %u (rank %u)", serves ? "server" : "worker",
                serves ? rank - sync->roles.workers : rank, rank);
}

/* ---- sends ---- */

static const uint8_t nothing[1]; /* the payload of frames that have none */

/* An answer to this rank as a relay. */
static bool is_relayed(const tt_head *head)
{
    return head->kind == TT_SYNC_VALUE && (head->flags & TT_SYNC_FLAG_HOST) != 0;
}

/* A frame to this rank itself. */
static void deliver(tt_sync *sync, const tt_head *head, const void *payload)
{
    const uint32_t self = sync->roles.rank;
    payload = head->payload_bytes == 0 ? nothing : payload;
    if (is_relayed(head)) {
        (void)tt_relay_value(sync, self, head, payload);
    } else if (head->kind < TT_SYNC_OPENED) {
        (void)tt_owner_frame(sync, self, head, payload);
    } else if (head->kind >= TT_SYNC_QUORUM) {
        tt_owner_owner_frame(sync, self, head, payload);
    } else {
        (void)tt_worker_frame(sync, self, head, payload);
    }
}

/* The frame is lost, and with it the call: it must not be so in silence. */
static void report_overrun(tt_sync *sync, uint32_t peer)
{
    tt_text text = {0};
    if (!sync->has_overrun) {
        tt_text_add(&text, "too many frames wait for ");
        tt_sync_add_peer(sync, &text, peer);
        tt_text_add(&text, ", and one was dropped: a call on a store will not end; start fewer "
                           "calls at a time");
        sync->listener.report(sync->listener.owner, LEVEL_ERROR, text.bytes);
    }
    sync->has_overrun = true;
}

tt_status tt_sync_send(tt_sync *sync, tt_send *send, tt_head head, uint32_t payload_bytes)
{
    TT_ASSERT(send->peer < tt_sync_processes(sync) && head.kind >= TT_SYNC_KIND_FIRST);
    head.epoch = sync->roles.epoch;
    head.payload_bytes = payload_bytes;
    if (send->peer == sync->roles.rank) {
        deliver(sync, &head, send->payload);
        return TT_OK;
    }
    if (sync->is_gone[send->peer]) {
        return TT_ERR_PEER_DOWN;
    }
    send->head = &head;
    const tt_status status = sync->platform->ops->send(sync->platform, send);
    if (status == TT_ERR_NO_RESOURCE) {
        report_overrun(sync, send->peer);
    }
    return status;
}

void tt_sync_signal(tt_sync *sync, uint32_t peer, tt_head head)
{
    tt_send send = {.peer = peer, .urgency = TT_URGENCY_CONTROL, .token = TT_TOKEN_NONE};
    (void)tt_sync_send(sync, &send, head, 0); /* a failure is reported as the peer's */
}

/* There is no memory for a text, but the failure must arrive: the text is a constant one. */
static void send_failure(tt_sync *sync, uint32_t peer, tt_head head)
{
    static const char text[] = "a rank fails the call and has no memory to send the reason; its "
                               "host needs more memory";
    tt_send send = {
        .peer = peer, .urgency = TT_URGENCY_CONTROL, .token = TT_TOKEN_NONE, .payload = text};
    (void)tt_sync_send(sync, &send, head, sizeof(text) - 1);
}

/* Frames that report a failure are understood with any text. */
static bool is_failure(const tt_head *head)
{
    return (head->kind == TT_SYNC_FAILED || head->kind == TT_SYNC_OPENED) &&
           (int64_t)head->argument < 0;
}

bool tt_sync_send_text(tt_sync *sync, uint32_t peer, tt_head head, const void *bytes,
                       uint32_t byte_count)
{
    TT_ASSERT(byte_count <= TT_SYNC_TEXT_BYTES);
    tt_send send = {.peer = peer, .urgency = TT_URGENCY_CONTROL, .payload = bytes};
    if (peer == sync->roles.rank || sync->is_gone[peer]) {
        (void)tt_sync_send(sync, &send, head, byte_count);
        return true;
    }
    if (byte_count == 0) {
        tt_sync_signal(sync, peer, head);
        return true;
    }
    tt_sync_note *note = tt_platform_allocate(sync->platform, sizeof(*note));
    if (note == NULL && is_failure(&head)) {
        send_failure(sync, peer, head);
        return true;
    }
    if (note == NULL) {
        return false;
    }
    *note = (tt_sync_note){.peer = peer, .token = TOKEN_SYNC | TOKEN_TEXT | ++sync->note_count};
    memcpy(note->bytes, bytes, byte_count);
    send.payload = note->bytes;
    send.token = note->token;
    if (tt_sync_send(sync, &send, head, byte_count) == TT_IN_PROGRESS) {
        note->next = sync->notes;
        sync->notes = note;
    } else {
        tt_platform_release(sync->platform, note, sizeof(*note));
    }
    return true;
}

static void note_sent(tt_sync *sync, uint64_t token)
{
    tt_sync_note **link = &sync->notes;
    while (*link != NULL && (*link)->token != token) {
        link = &(*link)->next;
    }
    tt_sync_note *note = *link;
    TT_ASSERT(note != NULL); /* the driver reports each token once */
    *link = note->next;
    tt_platform_release(sync->platform, note, sizeof(*note));
}

/* Release those to a peer; UINT32_MAX: all. */
static void recall_notes(tt_sync *sync, uint32_t peer)
{
    tt_sync_note **link = &sync->notes;
    while (*link != NULL) {
        tt_sync_note *note = *link;
        if (peer != UINT32_MAX && note->peer != peer) {
            link = &note->next;
            continue;
        }
        *link = note->next;
        sync->platform->ops->recall(sync->platform, note->peer, note->token);
        tt_platform_release(sync->platform, note, sizeof(*note));
    }
}

tt_status tt_sync_grow(tt_sync *sync, void ***array, uint32_t count, uint32_t *capacity_io)
{
    const uint32_t capacity = *capacity_io;
    TT_ASSERT(count <= capacity);
    if (count < capacity) {
        return TT_OK;
    }
    const uint32_t larger = capacity > 0 ? 2 * capacity : 64;
    void **grown = tt_platform_allocate(sync->platform, larger * sizeof(*grown));
    if (grown == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    if (count > 0) {
        memcpy(grown, *array, count * sizeof(*grown));
    }
    tt_platform_release(sync->platform, *array, capacity * sizeof(*grown));
    *array = grown;
    *capacity_io = larger;
    return TT_OK;
}

uint32_t tt_sync_free_index(void *const *array, uint32_t *count_io, uint32_t *released_io)
{
    uint32_t index = 0;
    if (*released_io == 0) {
        return (*count_io)++;
    }
    while (array[index] != NULL) {
        index++;
    }
    (*released_io)--;
    TT_ASSERT(index < *count_io);
    return index;
}

/* ---- upcalls ---- */

static void take_out(tt_sync *sync, uint32_t peer, const char *why);

/* A peer has lost a server, so this rank gives it up, too: all must agree on who owns what. */
static void gone_frame(tt_sync *sync, uint32_t peer, const tt_head *head)
{
    tt_text why = {0};
    if (head->argument >= tt_sync_processes(sync) || head->argument < sync->roles.workers ||
        head->argument == sync->roles.rank) {
        return;
    }
    const uint32_t lost = (uint32_t)head->argument;
    const tt_arriving *arriving = &sync->arriving[lost];
    if ((arriving->key != NULL || arriving->part != NULL) && !sync->is_gone[lost]) {
        sync->platform->ops->discard(sync->platform, lost); /* it may be sending still */
    }
    tt_text_add(&why, "rank %u has lost it", peer);
    take_out(sync, lost, why.bytes);
}

/* A server is gone. Its links may be down here and not there. */
static void tell_gone(tt_sync *sync, uint32_t peer)
{
    const tt_head head = {.kind = TT_SYNC_GONE, .argument = peer};
    for (uint32_t i = 0; i < tt_sync_processes(sync); i++) {
        if (i != sync->roles.rank && !sync->is_gone[i]) {
            tt_sync_signal(sync, i, head);
        }
    }
}

static void *own_frame(tt_sync *sync, uint32_t peer, const tt_head *head, const void *payload)
{
    if (head->epoch != sync->roles.epoch || sync->is_gone[peer]) {
        return NULL;
    }
    if (head->kind == TT_SYNC_GONE) {
        gone_frame(sync, peer, head);
        return NULL;
    }
    if (head->kind == TT_SYNC_ENDED) {
        tt_handover_frame(sync, peer, head);
        return NULL;
    }
    const bool is_verdict = head->kind == TT_SYNC_FAILED && head->op == 0 && !is_server(sync, peer);
    if (head->set == TT_STORE_SUMS && sync->sums.handover.phase != TT_HANDOVER_NONE &&
        !is_verdict) {
        return NULL; /* sum_handover.h (1) */
    }
    if (head->kind < TT_SYNC_OPENED) {
        return is_server(sync, peer) ? NULL : tt_owner_frame(sync, peer, head, payload);
    }
    if (head->kind >= TT_SYNC_QUORUM) {
        tt_owner_owner_frame(sync, peer, head, payload);
        return NULL;
    }
    if (is_server(sync, sync->roles.rank)) {
        return NULL;
    }
    return is_relayed(head) ? tt_relay_value(sync, peer, head, payload)
                            : tt_worker_frame(sync, peer, head, payload);
}

static void *on_frame(void *machine, uint32_t peer, const tt_head *head, const void *payload)
{
    tt_sync *sync = machine;
    if (head->kind >= TT_SYNC_KIND_FIRST) {
        sync->arriving[peer] = (tt_arriving){.part = NULL};
        return own_frame(sync, peer, head, head->payload_bytes == 0 ? nothing : payload);
    }
    return is_inner(sync, peer) ? sync->inner.ops->frame(sync->inner.self, peer, head, payload)
                                : NULL;
}

static void on_payload(void *machine, uint32_t peer, const tt_head *head)
{
    tt_sync *sync = machine;
    const tt_arriving arriving = sync->arriving[peer];
    if (head->kind < TT_SYNC_KIND_FIRST) {
        TT_ASSERT(is_inner(sync, peer));
        sync->inner.ops->payload(sync->inner.self, peer, head);
        return;
    }
    sync->arriving[peer] = (tt_arriving){.part = NULL};
    if (arriving.part != NULL) {
        tt_owner_payload(sync, peer, head, arriving.part);
    } else if (arriving.key != NULL) {
        tt_worker_payload(sync, arriving.key, arriving.number);
    }
}

static void on_sent(void *machine, uint64_t token)
{
    tt_sync *sync = machine;
    if (token == TT_TOKEN_NONE || (token & TOKEN_SYNC) == 0) {
        sync->inner.ops->sent(sync->inner.self, token);
    } else if ((token & TOKEN_TEXT) != 0) {
        note_sent(sync, token);
    } else if ((token & TOKEN_ANSWER) != 0) {
        tt_owner_sent(sync, token);
    } else {
        tt_worker_sent(sync, token);
    }
}

static void on_landed(void *machine, uint64_t token, tt_status status)
{
    const tt_sync *sync = machine;
    TT_ASSERT(sync->inner.ops->landed != NULL);
    sync->inner.ops->landed(sync->inner.self, token, status);
}

static void on_timer(void *machine)
{
    tt_sync *sync = machine;
    sync->inner.ops->timer(sync->inner.self);
    tt_stall_timer(sync);
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
    tt_sync_add_peer(sync, &text, peer);
    tt_text_add(&text, " %s", events[event].words);
    if (event != TT_PEER_BACK && event != TT_PEER_LEFT) {
        tt_text_add(&text, " (%s)", why);
    }
    sync->listener.report(sync->listener.owner, events[event].level, text.bytes);
}

/* It has left or died, as far as this rank is concerned. */
static void take_out(tt_sync *sync, uint32_t peer, const char *why)
{
    if (sync->is_gone[peer]) {
        return;
    }
    sync->is_gone[peer] = true;
    recall_notes(sync, peer);
    if (!is_server(sync, peer)) {
        TT_ASSERT(sync->workers_left > 0);
        sync->workers_left--;
        tt_owner_worker_out(sync, peer, why);
    } else if (why != NULL) {
        tell_gone(sync, peer);
    }
    tt_stall_peer_out(sync, peer);
    tt_quorum_owner_out(sync);
    tt_relay_peer_out(sync, peer);
    tt_worker_peer_out(sync, peer, why);
    sync->arriving[peer] = (tt_arriving){.part = NULL};
    if (sync->workers_left == 0 && sync->listener.deserted != NULL) {
        sync->listener.deserted(sync->listener.owner);
    }
}

static void on_peer(void *machine, uint32_t peer, tt_peer_event event, const char *why)
{
    tt_sync *sync = machine;
    TT_ASSERT(peer < tt_sync_processes(sync) && peer != sync->roles.rank);
    if (is_inner(sync, peer)) {
        sync->inner.ops->peer(sync->inner.self, peer, event, why);
    } else {
        report_peer(sync, peer, event, why);
    }
    if (event == TT_PEER_LEFT) {
        take_out(sync, peer, NULL);
    } else if (event == TT_PEER_DOWN || event == TT_PEER_REJECTS) {
        take_out(sync, peer, why);
    }
}

static bool on_step(void *machine)
{
    tt_sync *sync = machine;
    const bool has_inner = sync->inner.ops->step(sync->inner.self);
    const bool has_parts = tt_worker_step(sync);
    (void)tt_owner_step(sync);               /* may end calls of this rank, */
    const bool has_sums = tt_sum_step(sync); /* whose names push to it again */
    return sync->due.count > 0 || has_sums || has_parts || has_inner;
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

void tt_sync_use_updates(tt_sync *sync, const tt_update_list *own)
{
    sync->own_updates = *own;
}

uint32_t tt_sync_workers_left(const tt_sync *sync)
{
    return sync->workers_left;
}

uint32_t tt_sync_pending(const tt_sync *sync)
{
    return sync->pending;
}

/* ---- life ---- */

static void *take(void *user, size_t bytes)
{
    return tt_platform_allocate(user, bytes);
}

static void give(void *user, void *memory, size_t bytes)
{
    tt_platform_release(user, memory, bytes);
}

static bool part_before(const tt_heap_node *a, const tt_heap_node *b)
{
    const tt_owner_part *one = TT_CONTAINER_OF(a, tt_owner_part, due);
    const tt_owner_part *other = TT_CONTAINER_OF(b, tt_owner_part, due);
    return one->urgency != other->urgency ? one->urgency > other->urgency : one->age < other->age;
}

static tt_status make_tables(tt_sync *sync, const tt_roles *roles)
{
    const uint32_t processes = tt_sync_processes(sync);
    sync->is_gone = tt_platform_allocate(sync->platform, processes * sizeof(*sync->is_gone));
    sync->arriving = tt_platform_allocate(sync->platform, processes * sizeof(*sync->arriving));
    sync->sources =
        tt_platform_allocate(sync->platform, (sync->roles.workers + 1) * sizeof(*sync->sources));
    if (sync->is_gone == NULL || sync->arriving == NULL || sync->sources == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    TT_TRY(tt_relays_make(sync->platform, roles, &sync->relays));
    if (sync->relays != NULL) {
        sync->sum_split = tt_split_make_hosts(roles->workers, sync->relays->hosts, roles->servers);
    }
    return TT_OK;
}

/* More servers than workers gain nothing; one process says so. */
static void report_spare(const tt_sync *sync)
{
    const tt_roles *roles = &sync->roles;
    tt_text text = {0};
    if (roles->rank == 0 && roles->servers > roles->workers) {
        tt_text_add(&text,
                    "%u servers for %u workers: the last %u own nothing; start at most as many "
                    "servers as workers",
                    roles->servers, roles->workers, roles->servers - roles->workers);
        sync->listener.report(sync->listener.owner, LEVEL_WARN, text.bytes);
    }
}

tt_status tt_sync_create(tt_platform *platform, const tt_roles *roles, tt_machine inner,
                         const tt_sync_listener *listener, tt_sync **sync_out)
{
    TT_ASSERT(roles->workers > 0 && roles->rank < roles->workers + roles->servers);
    TT_ASSERT(roles->workers < 1 << TOKEN_WORKER_BITS && listener->report != NULL);
    tt_sync *sync = tt_platform_allocate(platform, sizeof(*sync));
    if (sync == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    *sync = (tt_sync){.platform = platform,
                      .roles = *roles,
                      .inner = inner,
                      .listener = *listener,
                      .workers_left = roles->workers,
                      .split = tt_split_make(roles->workers, roles->servers),
                      .sum_split = tt_split_make(roles->workers, roles->servers),
                      .allocator = {.allocate = take, .release = give, .user = platform}};
    sync->roles.hosts = NULL; /* the caller's */
    tt_heap_init(&sync->due, part_before, &sync->allocator);
    const tt_status status = make_tables(sync, roles);
    if (status != TT_OK) {
        tt_sync_destroy(sync);
        return status;
    }
    report_spare(sync);
    *sync_out = sync;
    return TT_OK;
}

void tt_sync_destroy(tt_sync *sync)
{
    tt_platform *platform = sync->platform;
    const uint32_t processes = tt_sync_processes(sync);
    TT_ASSERT(sync->pending == 0);
    recall_notes(sync, UINT32_MAX);
    tt_sum_release_all(sync);
    tt_worker_release_all(sync);
    tt_owner_release_all(sync);
    tt_heap_fini(&sync->due);
    tt_relays_release(platform, sync->relays);
    tt_platform_release(platform, sync->parts, sync->part_capacity * sizeof(*sync->parts));
    tt_platform_release(platform, sync->keys, sync->key_capacity * sizeof(*sync->keys));
    tt_platform_release(platform, sync->is_gone, processes * sizeof(*sync->is_gone));
    tt_platform_release(platform, sync->arriving, processes * sizeof(*sync->arriving));
    tt_platform_release(platform, sync->sources,
                        (sync->roles.workers + 1) * sizeof(*sync->sources));
    tt_platform_release(platform, sync, sizeof(*sync));
}
