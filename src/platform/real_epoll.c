/* SPDX-License-Identifier: Apache-2.0
 *
 * real_epoll.c - the descriptors of all links, and the wake descriptor, in one epoll.
 *
 * Level-triggered: an event that was not handled is reported again, so none is lost.
 */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/base.h"
#include "platform/real_internal.h"

enum { EVENT_BATCH = 64 };

static const uint64_t WAKE_KEY = UINT64_MAX, ENGINE_KEY = UINT64_MAX - 1;

tt_status tt_real_epoll_create(tt_real *real)
{
    real->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    real->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = WAKE_KEY};
    if (real->epoll_fd < 0 || real->event_fd < 0 ||
        epoll_ctl(real->epoll_fd, EPOLL_CTL_ADD, real->event_fd, &event) != 0) {
        return TT_ERR_NO_RESOURCE;
    }
    return TT_OK;
}

static uint32_t events_for(bool wants_write)
{
    return wants_write ? EPOLLIN | EPOLLRDHUP | EPOLLOUT : EPOLLIN | EPOLLRDHUP;
}

static int control(tt_real *real, int operation, uint32_t peer, int index)
{
    const real_peer *state = &real->peers[peer];
    struct epoll_event event = {.events = events_for(state->wants_write[index]), .data.u64 = peer};
    return epoll_ctl(real->epoll_fd, operation, state->fds[index], &event);
}

tt_status tt_real_epoll_add(tt_real *real, uint32_t peer)
{
    real_peer *state = &real->peers[peer];
    int fds[2] = {-1, -1};
    state->given.link->ops->descriptors(state->given.link, fds, state->wants_write);
    for (int i = 0; i < 2; i++) {
        state->fds[i] = fds[i];
        if (fds[i] >= 0 && control(real, EPOLL_CTL_ADD, peer, i) != 0) {
            state->fds[i] = -1;
            return TT_ERR_NO_RESOURCE;
        }
    }
    return TT_OK;
}

void tt_real_epoll_update(tt_real *real, uint32_t peer)
{
    real_peer *state = &real->peers[peer];
    int fds[2] = {-1, -1};
    bool wants_write[2] = {false, false};
    state->given.link->ops->descriptors(state->given.link, fds, wants_write);
    for (int i = 0; i < 2; i++) {
        if (fds[i] == state->fds[i] && wants_write[i] == state->wants_write[i]) {
            continue;
        }
        /* A link may drop a descriptor, but never replaces it by another. */
        TT_ASSERT(fds[i] == state->fds[i] || fds[i] < 0);
        state->wants_write[i] = wants_write[i];
        (void)control(real, fds[i] < 0 ? EPOLL_CTL_DEL : EPOLL_CTL_MOD, peer, i);
        state->fds[i] = fds[i];
    }
}

void tt_real_epoll_remove(tt_real *real, uint32_t peer)
{
    real_peer *state = &real->peers[peer];
    for (int i = 0; i < 2; i++) {
        if (state->fds[i] >= 0) {
            (void)control(real, EPOLL_CTL_DEL, peer, i);
            state->fds[i] = -1;
        }
    }
}

void tt_real_mark_ready(tt_real *real, uint32_t peer)
{
    real_peer *state = &real->peers[peer];
    state->given.link->ready = true;
    if (state->given.link->ops->polls_memory || state->queued || state->ended) {
        return;
    }
    TT_ASSERT(real->ready_count < real->rank_count);
    state->queued = true;
    real->ready_peers[real->ready_count++] = peer;
}

void tt_real_epoll_watch_engine(tt_real *real)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = ENGINE_KEY};
    if (!real->is_engine_watched &&
        epoll_ctl(real->epoll_fd, EPOLL_CTL_ADD, real->engine_fd, &event) != 0) {
        real->engine_fd = -1;
        return;
    }
    real->is_engine_watched = true;
}

void tt_real_epoll_unwatch_engine(tt_real *real)
{
    if (real->is_engine_watched) {
        (void)epoll_ctl(real->epoll_fd, EPOLL_CTL_DEL, real->engine_fd, NULL);
        real->is_engine_watched = false;
    }
}

/* The engine is polled in every pass while it has ops. While it has none, a readable descriptor
 * would stay readable and prevent sleep. */
static void hear_engine(tt_real *real)
{
    if (real->flying == 0) {
        tt_real_epoll_unwatch_engine(real);
    }
}

void tt_real_epoll_look(tt_real *real)
{
    struct epoll_event events[EVENT_BATCH];
    const int count = epoll_wait(real->epoll_fd, events, EVENT_BATCH, 0);
    for (int i = 0; i < count; i++) {
        if (events[i].data.u64 == WAKE_KEY) {
            uint64_t value = 0;
            /* Not read while threads still sleep: it may be meant for one of them. */
            if (atomic_load(&real->sleepers) == 0) {
                (void)!read(real->event_fd, &value, sizeof value);
            }
            real->woken = true;
            continue;
        }
        if (events[i].data.u64 == ENGINE_KEY) {
            hear_engine(real);
            continue;
        }
        tt_real_mark_ready(real, (uint32_t)events[i].data.u64);
    }
}
