/* SPDX-License-Identifier: Apache-2.0
 *
 * real_life.c - creating, closing and forking the driver.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/base.h"
#include "platform/real_internal.h"

enum {
    SPIN_NS_FIRST = 50 * 1000,
    LOOK_NAP_NS_FIRST = 20 * 1000,
    WORK_BYTES_MIN = 128 * 1024,  /* shorter work has no part after which it could be interrupted */
    SHARE_BYTES_MIN = 256 * 1024, /* waking takes some microseconds, summing some tens */
};

/* The machine until one is attached: drops everything. */
static void *nobody_frame(void *machine, uint32_t peer, const tt_head *head, const void *payload)
{
    (void)machine;
    (void)peer;
    (void)head;
    (void)payload;
    return NULL;
}

static void nobody_payload(void *machine, uint32_t peer, const tt_head *head)
{
    (void)machine;
    (void)peer;
    (void)head;
}

static void nobody_sent(void *machine, uint64_t token)
{
    (void)machine;
    (void)token;
}

static void nobody_timer(void *machine)
{
    (void)machine;
}

static void nobody_peer(void *machine, uint32_t peer, tt_peer_event event, const char *why)
{
    (void)machine;
    (void)peer;
    (void)event;
    (void)why;
}

static bool nobody_step(void *machine)
{
    (void)machine;
    return false;
}

static const tt_machine_ops NOBODY = {
    .frame = nobody_frame,
    .payload = nobody_payload,
    .sent = nobody_sent,
    .timer = nobody_timer,
    .peer = nobody_peer,
    .step = nobody_step,
};

static void release_segments(tt_real *real)
{
    tt_segment **segments = calloc(real->rank_count, sizeof(tt_segment *));
    for (uint32_t i = 0; real->peers != NULL && i < real->rank_count; i++) {
        if (segments == NULL) {
            tt_segment_release(real->peers[i].given.segment);
        } else {
            segments[i] = real->peers[i].given.segment;
        }
    }
    if (segments != NULL) {
        tt_segment_release_all(segments, real->rank_count);
    }
    free(segments);
}

/* Everything but the links, which stay the caller's until create has succeeded. */
static void free_driver(tt_real *real)
{
    release_segments(real);
    if (real->epoll_fd >= 0) {
        close(real->epoll_fd);
    }
    if (real->event_fd >= 0) {
        close(real->event_fd);
    }
    tt_crew_destroy(real->crew);
    tt_board_destroy(real->board);
    free(real->peers);
    free(real->memory_peers);
    free(real->socket_peers);
    free(real->ready_peers);
    free(real->ready_spare);
    free(real->launches);
    free(real);
}

/* A board for all peers reached through shared memory that are not apart. */
static tt_status make_board(tt_real *real)
{
    tt_segment *own = real->peers[real->rank].given.segment;
    if (own == NULL || real->memory_count == 0) {
        return TT_OK;
    }
    tt_link **links = calloc(real->memory_count, sizeof *links);
    if (links == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    uint32_t link_count = 0;
    for (uint32_t i = 0; i < real->memory_count; i++) {
        const tt_real_peer *peer = &real->peers[real->memory_peers[i]].given;
        if (!peer->is_apart) {
            links[link_count++] = peer->link;
        }
    }
    const tt_status status =
        link_count > 0 ? tt_board_create(own, links, link_count, &real->board) : TT_OK;
    free(links);
    return status;
}

static tt_status adopt_peers(tt_real *real, const tt_real_config *config)
{
    for (uint32_t i = 0; i < real->rank_count; i++) {
        real_peer *state = &real->peers[i];
        state->fds[0] = -1;
        state->fds[1] = -1;
        state->given = config->peers[i];
        if (state->given.segment != NULL) {
            tt_segment_retain(state->given.segment);
        }
    }
    /* Each rank begins with the next higher one, so that not all read one peer's lines at a time.
     */
    for (uint32_t i = 1; i < real->rank_count; i++) {
        const uint32_t peer = (real->rank + i) % real->rank_count;
        tt_link *link = real->peers[peer].given.link;
        TT_ASSERT(link != NULL);
        TT_TRY(tt_real_epoll_add(real, peer));
        link->machine = &real->machine;
        link->hands = real->platform.hands > 1 ? &real->hands : NULL;
        real->must_look = real->must_look || link->is_bell_less;
        if (link->ops->polls_memory) {
            real->memory_peers[real->memory_count++] = peer;
        } else {
            real->socket_peers[real->socket_count++] = peer;
            tt_real_mark_ready(real, peer);
        }
    }
    return TT_OK;
}

tt_status tt_real_create(const tt_real_config *config, tt_real **real_out)
{
    TT_ASSERT(config->rank < config->rank_count);
    tt_real *real = calloc(1, sizeof *real);
    if (real == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    real->platform.ops = &tt_real_ops;
    real->machine = (tt_machine){.ops = &NOBODY};
    real->rank = config->rank;
    real->rank_count = config->rank_count;
    tt_random_init(&real->random, config->seed, config->rank);
    real->spins = config->spins;
    real->engine = config->engine;
    real->engine_fd = tt_real_engine_bell(&config->engine);
    real->away = config->away;
    real->platform.work_bytes_min = WORK_BYTES_MIN;
    real->platform.share_bytes_min = SHARE_BYTES_MIN;
    real->platform.hands = 1;
    real->hands = (tt_hands){.ops = &tt_real_hands_ops, .owner = real};
    if (config->hands > 1 && sched_getaffinity(0, sizeof(real->cores), &real->cores) == 0) {
        real->platform.hands = (uint32_t)tt_min_u64(config->hands, TT_HANDS_MAX);
    }
    real->spin_ns = SPIN_NS_FIRST;
    real->look_nap = LOOK_NAP_NS_FIRST;
    real->timer_at_ns = UINT64_MAX;
    real->epoll_fd = -1;
    real->event_fd = -1;
    real->peers = calloc(config->rank_count, sizeof *real->peers);
    real->memory_peers = calloc(config->rank_count, sizeof *real->memory_peers);
    real->socket_peers = calloc(config->rank_count, sizeof *real->socket_peers);
    real->ready_peers = calloc(config->rank_count, sizeof *real->ready_peers);
    real->ready_spare = calloc(config->rank_count, sizeof *real->ready_spare);
    tt_status status = TT_ERR_NO_MEMORY;
    if (real->peers != NULL && real->memory_peers != NULL && real->socket_peers != NULL &&
        real->ready_peers != NULL && real->ready_spare != NULL) {
        status = tt_real_epoll_create(real);
    }
    if (status == TT_OK) {
        status = adopt_peers(real, config);
    }
    if (status == TT_OK) {
        status = make_board(real);
    }
    if (status != TT_OK) {
        free_driver(real);
        return status;
    }
    tt_segment *own = config->peers[config->rank].segment;
    real->wake_word = own != NULL ? tt_segment_wake_word(own) : &real->wake_word_alone;
    *real_out = real;
    return TT_OK;
}

tt_platform *tt_real_platform(tt_real *real)
{
    return &real->platform;
}

void tt_real_attach(tt_real *real, const tt_machine *machine)
{
    TT_ASSERT(!real->in_pass);
    real->machine = *machine;
}

static bool all_closed(void *argument)
{
    const tt_real *real = argument;
    for (uint32_t i = 0; i < real->rank_count; i++) {
        const tt_link *link = real->peers[i].given.link;
        if (link != NULL && !real->peers[i].ended && !link->ops->closed(link)) {
            return false;
        }
    }
    return true;
}

void tt_real_goodbye(tt_real *real, uint64_t until_ns)
{
    for (uint32_t i = 0; i < real->rank_count; i++) {
        tt_link *link = real->peers[i].given.link;
        if (link != NULL && !real->peers[i].ended) {
            link->ops->close(link);
            tt_real_mark_ready(real, i);
        }
    }
    (void)tt_real_wait(real, all_closed, real, until_ns);
}

void tt_real_close(tt_real *real, uint64_t until_ns)
{
    if (until_ns > 0) {
        tt_real_goodbye(real, until_ns);
    }
    for (uint32_t i = 0; i < real->rank_count; i++) {
        tt_link *link = real->peers[i].given.link;
        if (link != NULL) {
            tt_real_epoll_remove(real, i);
            link->ops->destroy(link);
        }
    }
    free_driver(real);
}

void tt_real_child_after_fork(tt_real *real)
{
    for (uint32_t i = 0; i < real->rank_count; i++) {
        const tt_link *link = real->peers[i].given.link;
        if (link != NULL) {
            link->ops->forsake(link);
        }
        if (real->peers[i].given.segment != NULL) {
            tt_segment_child_after_fork(real->peers[i].given.segment);
        }
    }
    close(real->epoll_fd);
    close(real->event_fd);
    real->epoll_fd = -1;
    real->event_fd = -1;
}
