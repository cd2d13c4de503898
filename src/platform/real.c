/* SPDX-License-Identifier: Apache-2.0
 *
 * real.c - the platform's table and the pass.
 *
 * A pass costs one cache line per live shm link plus the machine's step. Everything that needs a
 * system call or the clock is done in every n-th pass only, n depending on what kinds of links
 * there are; going to sleep always does it.
 */
#include "platform/real.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/assert.h"
#include "base/base.h"
#include "platform/real_internal.h"

enum {
    MEMORY_ALIGN = 64,
    LOOK_NAP_NS_MIN = 20 * 1000, /* between polls of links without a descriptor; doubles */
    /* Passes per epoll_wait; powers of two. */
    LOOK_PASSES_MIXED = 8,  /* shm and sockets: an epoll_wait costs as much as some passes */
    LOOK_PASSES_SHM = 1024, /* shm alone: descriptors report exits and wakes only */
    LOOK_PASSES_FEW = 8,    /* few sockets: reading them directly is cheaper than epoll_wait */
    FEW_SOCKETS = 2,
    TIMER_PASSES = 16,
};

static tt_real *real_of(tt_platform *platform)
{
    return TT_CONTAINER_OF(platform, tt_real, platform);
}

uint64_t tt_real_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

uint64_t tt_real_now(tt_real *real)
{
    if (real->now_ns != 0) {
        return real->now_ns;
    }
    const uint64_t now_ns = tt_real_clock();
    /* Outside of a pass nothing is cached: an hour may have passed since the last one. */
    real->now_ns = real->in_pass ? now_ns : 0;
    return now_ns;
}

static uint64_t real_now(tt_platform *platform)
{
    return tt_real_now(real_of(platform));
}

static uint64_t real_random(tt_platform *platform)
{
    return tt_random_u64(&real_of(platform)->random);
}

static tt_arena *own_arena(const tt_real *real)
{
    tt_segment *own = real->peers[real->rank].given.segment;
    return own == NULL ? NULL : tt_segment_arena(own);
}

static void *real_allocate(tt_platform *platform, tt_memory_kind kind, size_t bytes)
{
    void *memory = NULL;
    if (kind == TT_MEMORY_SHARED) {
        tt_arena *arena = own_arena(real_of(platform));
        if (arena == NULL || tt_arena_allocate(arena, bytes, &memory, NULL) != TT_OK) {
            return NULL;
        }
        return memory;
    }
    if (bytes > SIZE_MAX / 2) {
        return NULL;
    }
    memory = aligned_alloc(MEMORY_ALIGN, tt_round_up(tt_max_u64(bytes, 1), MEMORY_ALIGN));
    if (memory != NULL) {
        memset(memory, 0, bytes);
    }
    return memory;
}

static void real_release(tt_platform *platform, tt_memory_kind kind, void *memory, size_t bytes)
{
    (void)bytes;
    if (real_of(platform)->keeps_memory) {
        return; /* the engine may still write to it */
    }
    if (kind == TT_MEMORY_PRIVATE) {
        free(memory);
    } else if (memory != NULL) {
        const tt_status status = tt_arena_release(own_arena(real_of(platform)), memory);
        TT_ASSERT(status == TT_OK);
    }
}

static void real_timer(tt_platform *platform, uint64_t at_ns)
{
    real_of(platform)->timer_at_ns = at_ns;
}

static bool wants_to_write(const tt_link *link)
{
    int fds[2] = {-1, -1};
    bool wants_write[2] = {false, false};
    link->ops->descriptors(link, fds, wants_write);
    return wants_write[0] || wants_write[1];
}

static tt_status send_to(tt_real *real, const tt_send *send)
{
    TT_ASSERT(send->peer < real->rank_count);
    tt_link *link = real->peers[send->peer].given.link;
    TT_ASSERT(link != NULL);
    const tt_status status = link->ops->send(link, send);
    /* A link that copied the frame returns TT_OK but may still have to write it; one that failed
     * has to be ended. No descriptor signals either before the link is polled. */
    if (!link->ops->polls_memory && (status < 0 || wants_to_write(link))) {
        tt_real_mark_ready(real, send->peer);
    }
    return status;
}

static tt_status real_send(tt_platform *platform, const tt_send *send)
{
    tt_real *real = real_of(platform);
    if (send->peer != TT_PEER_HOST) {
        return send_to(real, send);
    }
    return real->board != NULL ? tt_board_post(real->board, send) : TT_ERR_UNSUPPORTED;
}

static void real_recall(tt_platform *platform, uint32_t peer, uint64_t token)
{
    tt_real *real = real_of(platform);
    TT_ASSERT(peer < real->rank_count);
    tt_link *link = real->peers[peer].given.link;
    TT_ASSERT(link != NULL);
    link->ops->recall(link, token);
}

static void real_discard(tt_platform *platform, uint32_t peer)
{
    tt_real *real = real_of(platform);
    TT_ASSERT(peer < real->rank_count);
    tt_link *link = real->peers[peer].given.link;
    TT_ASSERT(link != NULL);
    link->ops->discard(link);
}

static void *real_view(tt_platform *platform, uint32_t peer, tt_place place, size_t bytes)
{
    tt_real *real = real_of(platform);
    TT_ASSERT(peer < real->rank_count);
    tt_segment *segment = real->peers[peer].given.segment;
    if (segment == NULL || place.region != 0) {
        return NULL;
    }
    return tt_segment_view(segment, place.offset, bytes);
}

static bool real_locate(tt_platform *platform, const void *memory, size_t bytes,
                        tt_place *place_out)
{
    const tt_arena *arena = own_arena(real_of(platform));
    uint64_t offset = 0;
    if (arena == NULL || !tt_arena_locate(arena, memory, bytes, &offset)) {
        return false;
    }
    *place_out = (tt_place){.region = 0, .offset = offset};
    return true;
}

/* The work took time: `now` reads the clock again. Sums are left out: they are many, and short. */
static void real_spend(tt_platform *platform, tt_spend_kind kind, size_t bytes, uint32_t times)
{
    (void)bytes;
    (void)times;
    if (kind != TT_SPEND_REDUCE) {
        real_of(platform)->now_ns = 0;
    }
}

/* NULL if the crew cannot be created: the caller works alone. */
static tt_crew *crew_of(tt_real *real)
{
    if (real->crew == NULL && !real->crew_is_missing) {
        const tt_crew_config config = {.hand_count = real->platform.hands,
                                       .spins = real->spins,
                                       .cores = real->cores,
                                       .away = real->away};
        real->crew_is_missing = tt_crew_create(&config, &real->crew) != TT_OK;
    }
    return real->crew;
}

static uint64_t real_work(tt_platform *platform, const tt_work_order *order)
{
    tt_real *real = real_of(platform);
    const bool is_shared = platform->hands > 1 && order->bytes >= platform->share_bytes_min;
    return is_shared && crew_of(real) != NULL ? tt_crew_run(real->crew, order)
                                              : tt_crew_run_alone(&real->away, order);
}

/* The crew as links see it. Without one, a task runs in its finish. */
static void hands_post(void *owner, tt_task *task)
{
    tt_crew *crew = crew_of(owner);
    if (crew != NULL) {
        tt_crew_post(crew, task);
    }
}

static void hands_call(void *owner)
{
    const tt_real *real = owner;
    if (real->crew != NULL) {
        tt_crew_call(real->crew);
    }
}

static bool hands_is_done(void *owner, const tt_task *task)
{
    const tt_real *real = owner;
    return real->crew != NULL && tt_crew_is_done(real->crew, task);
}

static void hands_finish(void *owner, tt_task *task)
{
    const tt_real *real = owner;
    if (real->crew != NULL) {
        tt_crew_finish(real->crew, task);
    } else {
        task->run(task);
    }
}

const tt_hands_ops tt_real_hands_ops = {
    .post = hands_post,
    .call = hands_call,
    .is_done = hands_is_done,
    .finish = hands_finish,
};

const tt_platform_ops tt_real_ops = {
    .now = real_now,
    .random = real_random,
    .allocate = real_allocate,
    .release = real_release,
    .timer = real_timer,
    .send = real_send,
    .recall = real_recall,
    .discard = real_discard,
    .view = real_view,
    .locate = real_locate,
    .spend = real_spend,
    .work = real_work,
    .can_launch = tt_real_engine_can_launch,
    .launch = tt_real_engine_launch,
};

void tt_real_expect(tt_real *real, uint32_t frame_bytes)
{
    for (uint32_t i = 0; i < real->rank_count; i++) {
        tt_link *link = real->peers[i].given.link;
        if (link != NULL && link->ops->expect != NULL && !real->peers[i].ended) {
            link->ops->expect(link, frame_bytes);
        }
    }
}

static void remove_peer(uint32_t *peers, uint32_t *count, uint32_t peer)
{
    uint32_t at = 0;
    while (peers[at] != peer) {
        at++;
    }
    peers[at] = peers[--*count];
}

/* A link has ended: stop watching it, then report it to the machine. */
static void end_peer(tt_real *real, uint32_t peer)
{
    real_peer *state = &real->peers[peer];
    const tt_link *link = state->given.link;
    tt_real_epoll_remove(real, peer);
    state->ended = true;
    if (link->ops->polls_memory) {
        remove_peer(real->memory_peers, &real->memory_count, peer);
    } else {
        remove_peer(real->socket_peers, &real->socket_count, peer);
    }
    const tt_peer_event end = link->is_rejected ? TT_PEER_REJECTS : TT_PEER_DOWN;
    real->machine.ops->peer(real->machine.self, peer,
                            link->state == TT_LINK_LEFT ? TT_PEER_LEFT : end, link->why);
}

/* True if anything moved. Ends the peer if its link has ended. */
static bool poll_link(tt_real *real, uint32_t peer)
{
    real_peer *state = &real->peers[peer];
    tt_link *link = state->given.link;
    bool moved = link->ops->poll(link);
    if (moved && state->silent) {
        state->silent = false;
        real->machine.ops->peer(real->machine.self, peer, TT_PEER_BACK, "running again");
    }
    if (link->state != TT_LINK_UP) {
        end_peer(real, peer);
        moved = true;
    }
    return moved;
}

/* Polls links whose descriptors are ready; those that made progress and have more stay ready. */
static bool poll_ready(tt_real *real)
{
    const uint32_t count = real->ready_count;
    uint32_t *batch = real->ready_peers;
    bool moved = false;
    real->ready_peers = real->ready_spare; /* upcalls may mark others meanwhile */
    real->ready_spare = batch;
    real->ready_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t peer = batch[i];
        real_peer *state = &real->peers[peer];
        state->queued = false;
        if (state->ended) {
            continue;
        }
        const bool link_moved = poll_link(real, peer);
        moved |= link_moved;
        if (state->ended) {
            continue;
        }
        tt_real_epoll_update(real, peer);
        if (link_moved && state->given.link->ready) {
            tt_real_mark_ready(real, peer);
        } else {
            state->given.link->ready = state->queued;
        }
    }
    return moved;
}

static bool has_few_sockets(const tt_real *real)
{
    return real->memory_count == 0 && real->socket_count <= FEW_SOCKETS;
}

/* Read every socket that is not waiting for room to write. */
static void mark_few(tt_real *real)
{
    for (uint32_t i = 0; i < real->socket_count; i++) {
        const real_peer *state = &real->peers[real->socket_peers[i]];
        if (!state->wants_write[0] && !state->wants_write[1]) {
            tt_real_mark_ready(real, real->socket_peers[i]);
        }
    }
}

static uint32_t look_passes(const tt_real *real)
{
    if (real->memory_count == 0) {
        return has_few_sockets(real) ? LOOK_PASSES_FEW : 1;
    }
    const uint32_t mixed = real->spins ? LOOK_PASSES_MIXED : 1; /* a pass that yields is long */
    return real->socket_count > 0 ? mixed : LOOK_PASSES_SHM;
}

static bool run_timer(tt_real *real)
{
    if (real->timer_at_ns == UINT64_MAX) {
        return false;
    }
    if (tt_real_now(real) < real->timer_at_ns) {
        return false;
    }
    real->timer_at_ns = UINT64_MAX; /* before the upcall, which may set it again */
    real->machine.ops->timer(real->machine.self);
    return true;
}

/* Other cores have written the lines that are read next: prefetch all of them. */
static void fetch_arrivals(const tt_real *real)
{
    for (uint32_t i = 0; i < real->memory_count; i++) {
        const tt_link *link = real->peers[real->memory_peers[i]].given.link;
        __builtin_prefetch((const void *)link->arrivals[1]);
    }
}

/* A waiting thread returns as soon as its call is done: the remaining links are polled first in the
 * next pass. */
static bool poll_memory(tt_real *real, bool (*done)(void *), void *argument)
{
    bool moved = false;
    fetch_arrivals(real);
    for (uint32_t left = real->memory_count; left > 0; left--) {
        const uint32_t at = real->memory_next < real->memory_count ? real->memory_next : 0;
        const uint32_t peer = real->memory_peers[at];
        const tt_link *link = real->peers[peer].given.link;
        real->memory_next = at + 1;
        if (tt_link_is_quiet(link) && !link->ready) {
            continue;
        }
        moved |= poll_link(real, peer);
        if (real->peers[peer].ended) {
            real->memory_next = at; /* another peer moved to its place */
        }
        if (done != NULL && done(argument)) {
            break;
        }
    }
    return moved;
}

static bool end_pass(tt_real *real, bool has_moved)
{
    if (has_moved && real->must_look) {
        real->look_nap = LOOK_NAP_NS_MIN;
    }
    real->in_pass = false;
    real->now_ns = 0;
    return has_moved;
}

bool tt_real_poll_memory(tt_real *real, bool (*done)(void *), void *argument)
{
    TT_ASSERT(!real->in_pass);
    if (real->look || (real->pass & (TIMER_PASSES - 1)) == 0 || real->memory_count == 0 ||
        real->socket_count + real->ready_count > 0 || tt_real_engine_is_busy(real)) {
        return tt_real_poll(real);
    }
    real->pass++;
    real->in_pass = true;
    bool moved = poll_memory(real, done, argument);
    moved |= real->machine.ops->step(real->machine.self);
    return end_pass(real, moved);
}

bool tt_real_poll(tt_real *real)
{
    TT_ASSERT(!real->in_pass);
    const bool look = real->look || (real->pass & (look_passes(real) - 1)) == 0;
    const bool check_timer = look || (real->pass & (TIMER_PASSES - 1)) == 0;
    bool moved = false;
    real->pass++;
    real->look = false;
    real->in_pass = true;
    if (look) {
        tt_real_epoll_look(real);
        moved |= real->woken;
        real->woken = false;
    } else if (has_few_sockets(real)) {
        mark_few(real);
    }
    moved |= poll_memory(real, NULL, NULL);
    if (real->ready_count > 0) {
        moved |= poll_ready(real);
    }
    if (check_timer) {
        moved |= run_timer(real);
    }
    moved |= real->machine.ops->step(real->machine.self);
    if (tt_real_engine_is_busy(real)) {
        moved |= tt_real_engine_pass(real);
    }
    return end_pass(real, moved);
}
